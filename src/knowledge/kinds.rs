//! Owns the closed lists that entries, fixes and diagnoses choose from: which memory, which phase, which cause.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::AsRefStr;

/// Whether memory ran out and something failed because of it.
// In the order of certainty: the surest failure leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Oom {
    /// Memory ran out and something failed because of it.
    Yes,
    /// It looks like another failure, the program recovered, or the size is one that no machine has.
    Maybe,
    #[default]
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

/// The system it ran on. As a text it is the name that its makers write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, AsRefStr, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Linux, also in a container.
    Linux,
    #[strum(serialize = "WSL")]
    Wsl,
    #[strum(serialize = "macOS")]
    Mac,
    Windows,
}

/// Who made the GPU, where that is not NVIDIA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Maker {
    #[serde(rename = "AMD")]
    Amd,
    Intel,
}

/// What the job was doing when it failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The model's weights were being loaded.
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

/// What was being done within the phase, by the innermost traceback frame that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// An engine measured its peak with a made-up batch.
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
    /// A checkpoint of `torch.save` was read.
    Restoring,
    /// The weights were being loaded or the training state created: no batch, no KV cache and no image exists yet.
    Weights,
    /// The model was being saved, for which one rank may gather what is sharded over all.
    Saving,
    /// A prompt was encoded for an image.
    TextEncoding,
    /// An image or video was being denoised.
    Sampling,
    /// Latents were being turned into an image or video.
    Decode,
}

/// Why memory ran out: what the verdict chooses from, and what fixes address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// Another process used the memory.
    OtherProcess,
    /// The allocator has enough free memory, but in pieces that are too small.
    Fragmentation,
    /// The run needs more than the GPU's total memory.
    TooBig,
    /// The context is longer than the KV cache has room for.
    Context,
    /// A batch or its activations.
    Batch,
    /// Memory use grew from step to step.
    Growth,
    /// An earlier run in the same process left memory allocated.
    SameSession,
    /// A limit set below the capacity.
    Limit,
    /// Another GPU had enough free memory.
    WrongDevice,
    /// The machine's own memory, not the GPU's.
    HostMemory,
    /// The log does not show it.
    Unknown,
}

/// How sure a match is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The wording fits, but it also fits other failures.
    Possible,
    Likely,
    /// The message says so itself.
    Certain,
}
