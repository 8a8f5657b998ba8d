//! Owns the facts about programs (`knowledge/programs.ron`): how a log shows them, and what advice needs to know, such
//! as their kind and whether they survive a failure.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use super::pattern::Pattern;
pub use crate::ids::Program;

/// A program, what shows it in a log, and what is known of it. Several rules may name one program; the facts stand
/// in one of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramRule {
    pub name: Program,
    /// Strings that a line of it holds (ASCII case does not count).
    #[serde(default)]
    pub literals: Vec<String>,
    /// Where given, at least one must match such a line.
    #[serde(default)]
    pub patterns: Vec<Pattern>,
    /// What messages that its own code prints look like, on their line or a few lines from it.
    #[serde(default)]
    pub prints: Vec<Pattern>,
    /// What people call it, where its name is one that only the tables use.
    pub called: Option<String>,
    /// Whether it stands for several programs: the text that shows it has the name of the one that ran.
    #[serde(default)]
    pub is_group: bool,
    pub facts: Option<Facts>,
}

/// Facts about a program other than how a log shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facts {
    /// Its name as its makers write it.
    pub title: Option<String>,
    /// The kind of program that it is. A fix's command for the kind fits all of them.
    pub kind: Option<Program>,
    /// The program whose memory arithmetic is also this one's.
    pub computes_like: Option<Program>,
    /// How names of its processes begin, where they differ from its own; the kernel cuts names after 15 characters.
    pub processes: Vec<String>,
    /// Where to set its environment variables, if people do not start it from a shell.
    pub variables_are_set: Option<BySystem>,
    pub is: Vec<Trait>,
    /// How a job requests another GPU from it, if it is a scheduler.
    pub requests_gpu: Option<GpuRequest>,
}

/// How a job requests a larger GPU: what to do, the line to change, and where that line is right.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuRequest {
    pub how: String,
    pub command: String,
    pub versions: String,
}

/// A text for each system.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BySystem {
    pub linux: String,
    pub mac: String,
    pub windows: String,
}

/// A property that some programs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Trait {
    /// Other programs are built on it: its options and code are not for people who run one of those.
    Library,
    /// People write their own code with it, for training or anything else.
    OwnCode,
    /// It starts another program's engine inside itself: that program's command line is not for its users.
    Embeds,
    /// It goes on when a request runs out of memory: a process of its name is the program that failed.
    SurvivesFailure,
    /// A machine mostly runs one of it: where the log shows no command line, its name tells which process it is.
    RunsOnce,
    /// It runs or carries what other people wrote: its own message does not tell which program that was.
    Runtime,
    /// It runs only on Linux.
    LinuxOnly,
    /// It chooses the machine and the GPU that a job runs on.
    Scheduler,
}

impl Program {
    /// The program of this name, where any fact is known of it.
    pub fn known(name: &str) -> Option<Program> {
        let added = added().get_key_value(name).map(|(program, _)| *program);
        added.or_else(|| BUILT_IN.get_key_value(name).map(|(program, _)| *program))
    }

    /// The program that a process of this name belongs to, where the process has another name.
    pub fn of_process(name: &str) -> Option<Program> {
        let added = added();
        let mut known = added.iter().map(|(program, facts)| (program, *facts)).chain(BUILT_IN.iter());
        let (program, _) = known.find(|(program, facts)| {
            program.as_str() != name && facts.processes.iter().any(|start| name.starts_with(start.as_str()))
        })?;
        Some(*program)
    }

    /// The facts about it, preferably from another folder.
    pub fn facts(self) -> Option<&'static Facts> {
        let added = added().get(&self).copied();
        added.or_else(|| BUILT_IN.get(&self))
    }

    pub fn has(self, property: Trait) -> bool {
        self.facts().is_some_and(|facts| facts.is.contains(&property))
    }

    /// Whether it runs programs that other people wrote, so that its message does not tell which one.
    pub fn runs_others(self) -> bool {
        [Trait::Runtime, Trait::Library, Trait::OwnCode].into_iter().any(|property| self.has(property))
    }

    /// Whether programs run in it or on it, so that it is the program only where no other shows.
    pub fn is_a_place(self) -> bool {
        self.runs_jobs() || self.runs_others()
    }

    /// Whether it is a part of the operating system, a scheduler or a service that runs tests.
    pub fn runs_jobs(self) -> bool {
        self.is_ci() || [Trait::Scheduler, Trait::LinuxOnly].into_iter().any(|property| self.has(property))
    }

    /// Whether it runs builds and tests.
    pub fn is_ci(self) -> bool {
        self.kind().is_some_and(|kind| kind.as_str() == "ci")
    }

    pub fn kind(self) -> Option<Program> {
        self.facts()?.kind
    }

    /// Its name as its makers write it; its id if that is unknown.
    pub fn title(self) -> &'static str {
        self.facts().and_then(|facts| facts.title.as_deref()).unwrap_or(self.as_str())
    }

    /// The program whose memory arithmetic applies to it, by default itself.
    pub fn computes_like(self) -> Program {
        self.facts().and_then(|facts| facts.computes_like).unwrap_or(self)
    }
}

/// The facts in the built-in programs.ron, which `build.rs` packs alone: they are asked for without a knowledge base.
static BUILT_IN: LazyLock<BTreeMap<Program, Facts>> = LazyLock::new(|| {
    let text = include_str!(concat!(env!("OUT_DIR"), "/programs.json"));
    let rules: Vec<ProgramRule> = serde_json::from_str(text).unwrap_or_default();
    rules.into_iter().filter_map(|rule| Some((rule.name, rule.facts?))).collect()
});

/// The facts that other folders add, kept for the life of the process as their ids are.
static ADDED: Mutex<BTreeMap<Program, &'static Facts>> = Mutex::new(BTreeMap::new());

fn added() -> MutexGuard<'static, BTreeMap<Program, &'static Facts>> {
    ADDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Learns the facts of rules that were read from another folder.
pub fn learn(rules: &[ProgramRule]) {
    for rule in rules {
        if let Some(facts) = &rule.facts
            && rule.name.facts() != Some(facts)
        {
            added().insert(rule.name, Box::leak(Box::new(facts.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_by_a_programs_name_and_by_its_processes_names() {
        assert_eq!(Program::known("comfyui"), Some(Program::COMFYUI));
        assert!(Program::COMFYUI.has(Trait::SurvivesFailure) && !Program::VLLM.has(Trait::SurvivesFailure));
        assert_eq!(Program::of_process("VLLM::EngineCor"), Some(Program::VLLM));
        assert_eq!(Program::of_process("ollama"), None, "the program itself is no other program's process");
        assert_eq!(Program::known("a program nobody wrote"), None);
    }

    #[test]
    fn facts_from_another_folder_are_known_too() {
        let rules: Vec<ProgramRule> =
            ron::from_str("[(name: \"my-own-server\", facts: Some((is: [SurvivesFailure])))]").unwrap();
        learn(&rules);
        assert!(Program::known("my-own-server").is_some_and(|program| program.has(Trait::SurvivesFailure)));
    }
}
