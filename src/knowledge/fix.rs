//! Owns what a fix is: when it applies, what it frees, what it costs, and per program the exact command.
//! The data lives in knowledge/fixes/*.ron; `advice` decides which of them become steps and fills in the figures.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::diagnosis::{CauseKind, MemoryKind, Phase, Platform, Stage};
use super::id::FixId;

/// What taking a fix costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "kebab-case"))]
pub enum Safety {
    Safe,
    /// The job becomes slower.
    CostsSpeed,
    /// Answers or images may become worse, or shorter.
    CostsQuality,
    /// Somebody's unsaved work is lost.
    LosesWork,
}

/// What must hold for a fix to be proposed; all of a fix's conditions must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Condition {
    /// A living process here holds memory on the device concerned and may be ended.
    HolderAlive,
    /// Another device here has room for what the run needed.
    OtherDeviceHasRoom,
    /// The allocator's reserved-but-unallocated memory is at least the request.
    Fragmented,
    /// It ran in a notebook.
    Notebook,
    /// The log or the phase shows training.
    Training,
    /// The log or the phase shows that it was not training.
    NotTraining,
    /// The likeliest cause is a limit that was set.
    Limited,
    /// The likeliest cause is not a limit that was set.
    NotLimited,
    /// The likeliest cause is not that it needs more than the device has at all.
    NotTooBig,
    /// The log shows that Python code ran.
    Python,
    /// The log shows that it ran in a container of its own.
    Container,
    /// Nothing in the log shows that it ran in a container.
    NotContainer,
    /// Not a failure of system memory, or the log shows a model, or a program for which the fix has a form of its own.
    LoadsModel,
    /// Weights of fewer bits were made 16 bits while loading.
    WidenedTo16,
    /// Not vLLM's KV cache before 0.21: its CUDA graphs took nothing of the share that the cache lies in.
    GraphsInShare,
    /// The model's file was read whole instead of being mapped.
    NoMmap,
    /// An image encoder was loaded beside the model.
    Projector,
    /// The ranks share weights, gradients and optimizer already, by ZeRO's stage 3.
    Zero3,
    /// Nothing shows that the ranks share all of it already.
    NotSharded,
    /// One rank of a distributed run failed on GPU 0, and it is another rank or was not alone there.
    Ranks,
}

/// How many bytes a fix gives back, by a named estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Frees {
    /// What the holder holds now: a fact.
    HolderMemory,
    /// The allocator's reserved-but-unallocated memory: at most that.
    ReservedUnallocated,
    /// Can't be told from a log.
    Unknown,
}

/// Which way a fix moves the numbers of a command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moves {
    /// To less: one that is as low already stays.
    Down,
    /// To more: one that is as high already stays.
    Up,
    /// Either way, or it has none.
    #[default]
    Either,
}

/// A command or setting for one program, with the versions it is right for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixCommand {
    /// As the diagnosis names programs (`llama.cpp`, `ollama`, …); `*` where it fits any.
    pub program: String,
    /// What to do, in a sentence that begins with a verb.
    #[serde(rename = "do")]
    pub action: String,
    /// The exact command or line to change; `{name}` placeholders are filled by `advice`,
    /// see `PLACEHOLDERS` and [`Asked`](super::settings::Asked).
    #[serde(default)]
    pub command: Option<String>,
    /// The command where values of `command` are not known; without it the step names the setting and no number.
    #[serde(default)]
    pub otherwise: Option<String>,
    /// The program's own values of settings that `command` asks for; they hold where the person's command line is known
    /// and does not give others.
    #[serde(default)]
    pub defaults: BTreeMap<String, String>,
    /// Numbers that stand in the command as they are, each with the reason why it depends on no present value.
    #[serde(default)]
    pub constants: BTreeMap<String, String>,
    /// Which way it moves numbers, where that is not the fix's way.
    #[serde(default)]
    pub moves: Option<Moves>,
    /// What it costs here, where that is not what the fix says.
    #[serde(default)]
    pub costs: Option<String>,
    /// The only system it is for.
    #[serde(default)]
    pub on: Option<Platform>,
    /// Phases in which it is right for this program; empty: all of the fix's.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// The versions it is right for and where that was checked.
    #[serde(default)]
    pub versions: Option<String>,
    /// Why it works in this program, where that is not what the fix says; so with the two below.
    #[serde(default)]
    pub why: Option<String>,
    #[serde(default)]
    pub expect: Option<String>,
    /// What to do when it did not work.
    #[serde(default)]
    pub if_not: Option<String>,
}

/// What a command's `{placeholders}` may be, beside the value of a setting in a promised direction (see
/// [`Asked`](super::settings::Asked)); a test holds every fix against this list. `half_context` is the longest context that
/// fits, where the model is known, else half of the run's. `layers` is what fits or fewer than the log shows,
/// `host_experts` what fits, `quantisation` what fits or what fits most. `card_gib` and `ram_gib` are whole GiB of the GPU
/// and of this machine's available RAM that weights may take. `of_its_context` is the flag for what one of several slots
/// has of the context, with the blank before it; nothing where that changes nothing.
pub const PLACEHOLDERS: &[&str] = &[
    "pid",
    "holder",
    "gpu_uuid",
    "gpu_index",
    "model",
    "context",
    "half_context",
    "max_tokens",
    "utilization",
    "larger_share",
    "offload_gb",
    "card_gib",
    "ram_gib",
    "namespace",
    "deployment",
    "layers",
    "host_experts",
    "quantisation",
    "where_set",
    "of_its_context",
];

/// Where a fix comes before others of its entry, since it is the answer to just that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Leads {
    /// When one of these is the likeliest cause.
    pub causes: Vec<CauseKind>,
    /// When it died doing one of these.
    pub stages: Vec<Stage>,
    /// When its weights were made so many bits while loading, from fewer.
    pub widened_to: Option<u32>,
}

/// One fix, shared by many entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// The file's name without `.ron`; filled by the loader.
    #[serde(skip)]
    pub id: FixId,
    /// What to do, for a heading: "Use a shorter context".
    pub title: String,
    pub safety: Safety,
    /// Memory kinds it can help with; empty: any.
    #[serde(default)]
    pub memory: Vec<MemoryKind>,
    /// Phases it can help in; empty: any.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Stages it can help in; empty: any.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// Stages in which it changes nothing.
    #[serde(default)]
    pub not_stages: Vec<Stage>,
    #[serde(default)]
    pub when: Vec<Condition>,
    /// Programs in which it changes nothing.
    #[serde(default)]
    pub not_for: Vec<String>,
    #[serde(default)]
    pub leads: Leads,
    #[serde(default)]
    pub moves: Moves,
    pub frees: Frees,
    /// Why it works, one or two sentences.
    pub why: String,
    /// What to expect when it worked.
    pub expect: String,
    /// What to do when it did not.
    pub if_not: String,
    /// What it costs, in a few words for the step's line: "slower", "loses unsaved work".
    pub costs: String,
    /// Per program; the first whose program fits is shown, `*` last. None fits: the fix is not proposed.
    pub commands: Vec<FixCommand>,
    /// Address and date checked.
    pub references: Vec<Reference>,
}

impl Fix {
    /// The command for the first of these programs that has one of its own, else the one that fits any.
    pub fn command_for(&self, programs: &[&str], phase: Phase, ran_on: Option<Platform>) -> Option<&FixCommand> {
        let here = |on: Platform| match ran_on {
            None | Some(Platform::Wsl) if on == Platform::Linux => true,
            ran_on => ran_on == Some(on),
        };
        let fits = |command: &&FixCommand| {
            (command.phases.is_empty() || command.phases.contains(&phase)) && command.on.is_none_or(here)
        };
        let of = |program: &str| self.commands.iter().filter(fits).find(|command| command.program == program);
        programs.iter().find_map(|program| of(program)).or_else(|| of("*"))
    }
}

/// Where a claim comes from, and when that was last checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    pub source: String,
    pub checked: String,
}

/// Instead of a date: the address was written down from knowledge and nobody has opened it.
pub const NOT_YET: &str = "not yet";

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.checked.as_str() {
            NOT_YET => write!(f, "{} (not checked yet)", self.source),
            date => write!(f, "{} (checked {date})", self.source),
        }
    }
}
