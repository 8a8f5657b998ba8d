//! Owns whose forms of a fix are the person's: which programs they run, which library is only below them, and on which
//! system, with what that changes in a step.

use crate::advice::rerun::{Change, Changes};
use crate::knowledge::diagnosis::{CauseKind, Diagnosis, MemoryKind, Platform};
use crate::knowledge::program::{Program, Trait};

/// What the person runs before whose code complained: an Ollama user is not told llama-server's flags. A limit of a
/// control group comes first: whoever set it can raise it.
pub fn programs(diagnosis: &Diagnosis) -> Vec<&str> {
    let is_limit = diagnosis.run.told == Some(CauseKind::Limit);
    let manager = diagnosis.run.manager().filter(|_| is_limit);
    // Where nobody is named who set it, there is still the limit to be raised, not the machine's memory.
    let unnamed = ["limit"].into_iter().filter(|_| is_limit && diagnosis.memory == Some(MemoryKind::Host));
    let closed = diagnosis.program.as_deref().is_some_and(|program| kind(program).is_some());
    let below = diagnosis.raised_by.as_deref().filter(|name| !(closed && is_library(name)));
    let raised_by = below.filter(|_| is_limit);
    let by = |start: &str| diagnosis.raised_by.as_deref().is_some_and(|name| name.starts_with(start));
    let is_exl = diagnosis.program.as_deref() == Some("text-generation-webui") && by("exllama");
    let loader = ["text-generation-webui, ExLlama"].into_iter().filter(|_| is_exl);
    let names = [diagnosis.program.as_deref(), below].into_iter().flatten();
    manager
        .into_iter()
        .chain(raised_by)
        .chain(unnamed)
        .chain(loader)
        .chain(
            names.flat_map(|name| [Some(name), Program::of_process(name).map(Program::as_str), kind(name)]).flatten(),
        )
        .collect()
}

fn is_library(name: &str) -> bool {
    Program::known(name).is_some_and(|program| program.has(Trait::Library))
}

/// What kind of program it is, where it has settings of its own: a form for the kind is for each of them.
pub fn kind(program: &str) -> Option<&'static str> {
    Some(Program::known(program)?.kind()?.as_str())
}

/// The system it ran on. Only Macs share the memory that way among what is told of here.
pub fn ran_on(diagnosis: &Diagnosis) -> Option<Platform> {
    let shared = diagnosis.memory == Some(MemoryKind::Unified);
    diagnosis.run.platform().or_else(|| shared.then_some(Platform::Mac))
}

/// Where a variable of Ollama's server is set.
pub fn where_set(ran_on: Option<Platform>) -> Option<&'static str> {
    let by_system = Program::OLLAMA.facts()?.variables_are_set.as_ref()?;
    Some(match ran_on {
        Some(Platform::Mac) => &by_system.mac,
        Some(Platform::Windows) => &by_system.windows,
        _ => &by_system.linux,
    })
}

/// The variables of a command as this system keeps them for a program that is not started from a shell.
pub fn kept(command: &str, changes: &Changes, ran_on: Option<Platform>) -> Option<String> {
    let verb = match ran_on? {
        Platform::Mac => "launchctl setenv",
        Platform::Windows => "setx",
        _ => return None,
    };
    let line = |change: &Change| match change {
        Change::Env(name, value) => Some(format!("{verb} {name} {value}")),
        _ => None,
    };
    let lines = changes.all.iter().map(line).collect::<Option<Vec<_>>>()?;
    command.ends_with("ollama serve").then(|| lines.join("\n"))
}
