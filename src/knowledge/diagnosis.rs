//! Owns what reading a log yields: whether memory ran out, which, whose code said so, where, and the figures.
//! Nothing here has looked at the living machine.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::id::EntryId;
use super::run::Run;
use crate::units::WallTime;

/// Whether memory ran out and that ended something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Oom {
    /// Memory ran out and that ended something.
    Yes,
    /// A symptom with other possible causes, a failure that was recovered from, or a size that no machine has.
    Maybe,
    No,
}

/// Which memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    Gpu,
    /// An engine's KV cache is too small for the request or the model's context length.
    KvCache,
    /// System memory: RAM, page file, a cgroup limit, or a process ended by the kernel.
    Host,
    /// /dev/shm.
    Shm,
    /// Memory that the CPU and the GPU share: MPS, Metal and MLX on Apple silicon.
    Unified,
}

/// The system it ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Linux, also in a container.
    Linux,
    Wsl,
    Mac,
    Windows,
}

impl Platform {
    /// As its makers write it.
    pub fn name(self) -> &'static str {
        match self {
            Platform::Linux => "Linux",
            Platform::Wsl => "WSL",
            Platform::Mac => "macOS",
            Platform::Windows => "Windows",
        }
    }
}

/// Where in its life the job was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The model's weights were being placed.
    Load,
    /// A server or engine was warming up: profiling, KV pool, graph capture.
    Startup,
    /// A model was answering or generating.
    Inference,
    /// Forward, backward, optimizer step or validation of a training run.
    Training,
    /// The log does not show it.
    #[default]
    Unknown,
}

/// What the job was doing within its phase, by the innermost traceback frame that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// An engine measured its peak memory with a dummy batch.
    Profiling,
    /// An engine set up its KV pool.
    KvPool,
    /// CUDA graphs were captured.
    Capture,
    Backward,
    /// The optimizer updated the parameters.
    Optimizer,
    /// A validation or evaluation ran beside the training.
    Validation,
    /// A checkpoint of `torch.save` was loaded.
    Restoring,
    /// The model was being saved, for which sharded weights may be gathered on one GPU.
    Saving,
    /// A prompt was encoded for an image.
    TextEncoding,
    /// An image or video was being denoised.
    Sampling,
    /// Latents were being turned into an image or video.
    Decode,
}

/// Why memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// Another process used the memory.
    OtherProcess,
    /// The allocator has enough reserved memory, but in pieces that are too small.
    Fragmentation,
    /// The job needs more than the device has in total.
    TooBig,
    /// The context length is more than the KV cache can hold.
    Context,
    /// The batch or its activations were too large.
    Batch,
    /// Memory use grew while the job ran.
    Growth,
    /// An earlier run in the same process kept its memory.
    SameSession,
    /// A limit was set below the capacity.
    Limit,
    /// Another device had enough free memory.
    WrongDevice,
    /// System memory ran out, not VRAM.
    HostMemory,
    /// The log does not show it.
    Unknown,
}

/// How sure a match is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The wording matches, and so do other errors.
    Possible,
    Likely,
    /// The message says so itself.
    Certain,
}

/// A figure found in the log, and where: for the screen's underlining.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The fact's key, such as `requested_bytes`.
    pub key: &'static str,
    /// The line as the user sees it, counted from 1.
    pub line: usize,
    /// Byte range within that clean line's text.
    pub span: Range<usize>,
}

/// An entry that matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Match {
    /// The entry's id, such as `pytorch/cuda-out-of-memory`.
    pub entry: EntryId,
    pub certainty: Certainty,
    /// The number of the decisive line, counted from 1.
    pub line: usize,
    /// That line, without control characters.
    pub text: String,
}

/// What a log says, read alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// Whether memory ran out.
    pub oom: Oom,
    /// Which memory; `None` where that can't be told or none did.
    pub memory: Option<MemoryKind>,
    /// Whose code printed the decisive message.
    pub raised_by: Option<String>,
    /// What the person was running, as far as the log shows; else as `raised_by`.
    pub program: Option<String>,
    /// Where in its life the job was.
    pub phase: Phase,
    /// The figures of the leading match.
    pub facts: Facts,
    /// Where those figures stand.
    pub figures: Vec<Figure>,
    /// The leading match first: the cause before its consequences.
    pub matches: Vec<Match>,
    /// Why a failure that looks like one is "maybe" or "no", in a sentence; from the entry.
    pub remark: Option<String>,
    /// When the job died by the log's own stamp nearest the decisive line (zone unknown: taken as local).
    pub crashed_at: Option<WallTime>,
    /// The same if that stamp, which names no zone, is UTC, as in containers.
    pub crashed_at_if_utc: Option<WallTime>,
    /// What the log says of the model and the run.
    pub run: Run,
    /// Parts of the log were left out before it was read: its lines are those that were kept.
    pub is_shortened: bool,
}

impl Diagnosis {
    /// Whether the log names the process as one that held GPU memory, on this card or another rank's.
    pub fn names(&self, pid: u32) -> bool {
        let mut all = std::iter::once(&self.facts).chain(&self.run.ranks).flat_map(|facts| &facts.other_processes);
        all.any(|named| named.pid == pid)
    }
}
