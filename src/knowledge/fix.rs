//! Owns what a fix is: when it applies, what it frees, what it costs, and per program the exact command.
//! The data lives in knowledge/fixes/*.ron; `advice` decides which of them become steps and fills in the figures.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kinds::{CauseKind, Maker, MemoryKind, Phase, Platform, Stage};
use super::settings::Asked;
use super::version::{Range, Versions};
use crate::ids::FixId;
use crate::packed;

/// What taking a fix costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "kebab-case"))]
pub enum Safety {
    #[default]
    Safe,
    /// The job becomes slower.
    CostsSpeed,
    /// Answers or images may become worse, or shorter.
    CostsQuality,
    /// Somebody's unsaved work is lost.
    LosesWork,
}

/// A condition for proposing a fix. All of a fix's conditions must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Condition {
    /// A running process uses memory of the GPU concerned, and its user may terminate it.
    HolderAlive,
    /// No reading of the machine tells who uses its GPU.
    UsersUnknown,
    /// Another GPU has enough free memory for what the run needed.
    OtherDeviceHasRoom,
    /// The allocator's reserved-but-unallocated memory is at least the request.
    Fragmented,
    /// No memory snapshot of the failure was read, and the log does not tell what keeps the memory.
    Unrecorded,
    /// It ran in a notebook.
    Notebook,
    /// The log or the phase shows training.
    Training,
    /// The log or the phase shows that it was not training.
    NotTraining,
    /// This is the likeliest cause: `LedBy(limit)`.
    LedBy(CauseKind),
    /// The likeliest cause is not a limit that was set.
    NotLimited,
    /// The likeliest cause is not that the run needs more than the GPU's total memory.
    NotTooBig,
    /// The log shows that Python code ran.
    Python,
    /// The log shows that a data loader with worker processes ran.
    DataWorkers,
    /// The log shows that it ran in a container of its own.
    Container,
    /// Nothing in the log shows that it ran in a container.
    NotContainer,
    /// The failure is not one of system memory, or the log shows a model or a program that the fix has a command for.
    LoadsModel,
    /// Quantized weights were converted to 16 bits while loading.
    WidenedTo16,
    /// It is not vLLM before 0.21 with a full KV cache: CUDA graphs took nothing from the cache's share there.
    GraphsInShare,
    /// The model's file was read whole instead of being mapped.
    NoMmap,
    /// An image encoder was loaded beside the model.
    Projector,
    /// ZeRO stage 3 already shards weights, gradients and optimizer over the ranks.
    Zero3,
    /// Nothing in the log shows that the ranks already shard all of it.
    NotSharded,
    /// One rank of a distributed run failed on GPU 0, and it is another rank or was not alone there.
    Ranks,
}

/// How to estimate the bytes that a fix frees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Frees {
    /// What the process uses now, which is a fact.
    HolderMemory,
    /// The allocator's reserved-but-unallocated memory, as an upper bound.
    ReservedUnallocated,
    /// A log does not show it.
    #[default]
    Unknown,
}

/// Which way a fix moves the numbers of a command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moves {
    /// To lower values; a value that is as low already stays.
    Down,
    /// To higher values; a value that is as high already stays.
    Up,
    /// Either way, or the command has no numbers.
    #[default]
    Either,
}

/// A command or setting for one program, with the versions it is right for.
#[serde_with::apply(Vec => #[serde(default)], BTreeMap => #[serde(default)])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixCommand {
    /// The program's name as in a diagnosis (`llama.cpp`, `ollama`, …); `*` fits any program.
    pub program: String,
    /// The heading, if that differs from the fix.
    pub title: Option<String>,
    /// What to do, in a sentence that begins with a verb.
    #[serde(rename = "do")]
    pub action: String,
    /// The exact command or line to change; `{name}` placeholders are filled by `advice`,
    /// see `PLACEHOLDERS` and `settings::Asked`.
    pub command: Option<String>,
    /// The command if values for `command` are unknown. Without it the step names the setting without a number.
    pub otherwise: Option<String>,
    /// The program's own values of settings that `command` asks for; they hold where the person's command line is known
    /// and does not give others.
    pub defaults: BTreeMap<String, String>,
    /// Numbers that the command contains literally, each with the reason why it depends on no present value.
    pub constants: BTreeMap<String, String>,
    /// Which way it moves numbers, if that differs from the fix.
    pub moves: Option<Moves>,
    /// What it costs, if that differs from the fix.
    pub costs: Option<String>,
    /// The only system that it works on; any, if not given.
    pub on: Option<Platform>,
    /// The maker of the GPU that it is for. Not given: any maker that has no form of its own in the fix.
    pub maker: Option<Maker>,
    /// Phases in which it is right for this program. Empty: all phases of the fix.
    pub phases: Vec<Phase>,
    /// The versions it is right for and where that was checked.
    pub versions: Option<String>,
    /// The versions that have what it changes. A run that is known to be another version is not offered it; forms of the
    /// same program for other versions may follow it.
    pub needs: Option<Range>,
    /// Why it works in this program, if that differs from the fix. The same holds for the two fields below.
    pub why: Option<String>,
    pub expect: Option<String>,
    /// What to do when it did not work.
    pub if_not: Option<String>,
}

/// What a command's `{placeholders}` may be, beside the value of a setting in a promised direction (see
/// `settings::Asked`); a test holds every fix against this list.
pub static PLACEHOLDERS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| packed::table(include_str!("../../knowledge/advice/placeholders.ron")));

/// Puts values into `{names}`; `None` where one is not known. Braces around anything else stand as they are.
pub(crate) fn substitute(text: &str, value_of: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after.split_once('}') {
            Some((name, tail)) if is_placeholder(name) => {
                filled.push_str(&value_of(name)?);
                rest = tail;
            }
            _ => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    Some(filled)
}

fn is_placeholder(name: &str) -> bool {
    PLACEHOLDERS.contains(&name) || Asked::of(name).is_some()
}

/// When a fix comes before the others of its entry, because it addresses exactly what happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Leads {
    /// When one of these is the likeliest cause.
    pub causes: Vec<CauseKind>,
    /// When it died doing one of these.
    pub stages: Vec<Stage>,
    /// When its weights were converted to this many bits while loading, from fewer.
    pub widened_to: Option<u32>,
}

/// One fix, shared by many entries.
#[serde_with::apply(Vec => #[serde(default)])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// The file's name without `.ron`; filled by the loader.
    #[serde(skip)]
    pub id: FixId,
    /// What to do, for a heading: "Use a shorter context".
    pub title: String,
    pub safety: Safety,
    /// Memory kinds it can help with; empty: any.
    pub memory: Vec<MemoryKind>,
    /// Phases it can help in; empty: any.
    pub phases: Vec<Phase>,
    /// Stages it can help in; empty: any.
    pub stages: Vec<Stage>,
    /// Stages in which it changes nothing.
    pub not_stages: Vec<Stage>,
    pub when: Vec<Condition>,
    /// Programs in which it changes nothing.
    pub not_for: Vec<String>,
    /// Fixes that do no more than this one: where it was tried and did not help, they do not either.
    pub covers: Vec<FixId>,
    /// Fixes that are the same change in other words: where this one is offered, they are not.
    pub replaces: Vec<FixId>,
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
    /// One per program. The first that fits is shown, with `*` last; without one the fix is not proposed.
    pub commands: Vec<FixCommand>,
    /// Address and date checked.
    pub references: Vec<Reference>,
}

impl Fix {
    /// The command for the first of these programs that has one of its own, else the one that fits any. Where only other
    /// versions of that program have it, there is none: what fits any program is not for one with options of its own.
    pub fn command_for(&self, programs: &[&str], ran: &Circumstances<'_>) -> Option<&FixCommand> {
        let has_own = ran.maker.is_some() && self.commands.iter().any(|command| command.maker == ran.maker);
        let maker = if has_own { ran.maker } else { None };
        let fits = |command: &&FixCommand| command.maker == maker && command.fits(ran);
        let first = programs
            .iter()
            .chain(&["*"])
            .find_map(|program| self.commands.iter().filter(fits).find(|command| command.program == *program))?;
        let of_program = self.commands.iter().filter(|command| command.program == first.program);
        of_program.filter(fits).find(|command| command.is_known_to(ran))
    }
}

/// What a form must be right for.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'r> {
    pub phase: Phase,
    /// The system, where it is known.
    pub on: Option<Platform>,
    /// The maker of its GPU, where that is not NVIDIA.
    pub maker: Option<Maker>,
    /// The versions that the log prints, and those that the run is older than.
    pub versions: &'r Versions,
    pub older_than: &'r Versions,
}

impl FixCommand {
    /// Whether the run's version may have it.
    fn is_known_to(&self, ran: &Circumstances<'_>) -> bool {
        self.needs.as_ref().is_none_or(|range| range.condition(ran.versions, ran.older_than).is_some())
    }

    /// Whether it is right in this phase and on this system. An unknown system is taken to be Linux.
    fn fits(&self, ran: &Circumstances<'_>) -> bool {
        (self.phases.is_empty() || self.phases.contains(&ran.phase))
            && match (self.on, ran.on) {
                (None, _) | (Some(Platform::Linux), None | Some(Platform::Wsl)) => true,
                (on, ran_on) => on == ran_on,
            }
    }
}

/// Where a claim comes from, and when that was last checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    pub source: String,
    pub checked: String,
}

impl Reference {
    /// When it was last checked, if ever.
    pub fn date(&self) -> Option<jiff::civil::Date> {
        self.checked.parse().ok()
    }
}

/// What stands instead of a date for an address that nobody has opened yet.
pub const NOT_YET: &str = "not yet";

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.checked.as_str() {
            NOT_YET => write!(f, "{} (not checked yet)", self.source),
            date => write!(f, "{} (checked {date})", self.source),
        }
    }
}
