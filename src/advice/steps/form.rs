//! Owns whose forms of a fix are the person's: which programs they run, which library is only below them, and on which
//! system, with what that changes in a step.

use crate::advice::machine::make::maker;
use crate::advice::rerun::{Change, Changes};
use crate::advice::scheduler;
use crate::knowledge::fix::Circumstances;
use crate::knowledge::{Diagnosis, Maker, MemoryKind, Platform, Program, Trait};

/// What the person runs before whose code complained: an Ollama user is not told llama-server's flags. A limit comes
/// first: whoever set it can raise it.
pub(crate) fn programs(diagnosis: &Diagnosis) -> Vec<&str> {
    let (program, raised_by) = (diagnosis.program.as_deref(), diagnosis.raised_by.as_deref());
    let has_own_settings = program.is_some_and(|program| kind(program).is_some());
    let embeds = program.and_then(Program::known).is_some_and(|program| program.has(Trait::Embeds));
    let below = if embeds { None } else { raised_by.filter(|name| !(has_own_settings && is_library(name))) };
    let mut programs = Vec::new();
    let limit = diagnosis.run.limit;
    programs.extend(limit.map(|limit| limit.id.as_str()));
    programs.extend(limit.filter(|limit| !limit.is_of_ram).map(|_| "limit"));
    if program == Some("text-generation-webui") && raised_by.is_some_and(|name| name.starts_with("exllama")) {
        programs.push("text-generation-webui, ExLlama");
    }
    for name in program.into_iter().chain(below) {
        programs.push(name);
        programs.extend(Program::of_process(name).map(Program::as_str));
        programs.extend(kind(name));
    }
    programs.extend(limit.map(|_| "any limit"));
    if diagnosis.just_stops {
        programs.extend(scheduler::of_log(diagnosis).map(Program::as_str));
    }
    programs
}

/// vLLM's option as a call in the person's own code, where that starts the engine: `LLM()` takes the server's options by
/// their names (vllm 0.33.0:vllm/entrypoints/llm.py, checked 2026-11-22).
pub(crate) fn called(command: &str, log: &Diagnosis) -> Option<String> {
    log.run.called.as_ref()?;
    let (model, options) = command.strip_prefix("vllm serve ")?.split_once(" --").unzip();
    let model = model.or_else(|| command.strip_prefix("vllm serve "))?;
    let model = if model == "MODEL" { model.to_owned() } else { format!("\"{model}\"") };
    let options = options.into_iter().flat_map(|options| options.split(" --")).map(as_argument);
    Some(format!("LLM({})", std::iter::once(model).chain(options).collect::<Vec<_>>().join(", ")))
}

/// vLLM's command as versions before 0.5.2 start the server, which have no `vllm serve` (vllm 0.5.2:vllm/scripts.py on
/// PyPI, checked 2026-11-23).
pub(crate) fn as_module(command: &str, log: &Diagnosis) -> Option<String> {
    let rest = command.strip_prefix("vllm serve ")?;
    log.run.is_before("vllm", "0.5.2").then(|| format!("python -m vllm.entrypoints.openai.api_server --model {rest}"))
}

fn as_argument(option: &str) -> String {
    let (name, value) = option.split_once(' ').unwrap_or((option, "True"));
    let is_plain = value == "True" || value.parse::<f64>().is_ok() || value.chars().all(char::is_uppercase);
    let value = match value.trim_matches('\'') {
        text if is_plain || text.starts_with('{') => text.to_owned(),
        text => format!("\"{text}\""),
    };
    format!("{}={value}", name.replace('-', "_"))
}

fn is_library(name: &str) -> bool {
    Program::known(name).is_some_and(|program| program.has(Trait::Library))
}

/// What kind of program it is, where it has settings of its own: a form for the kind is for each of them.
pub(crate) fn kind(program: &str) -> Option<&'static str> {
    Some(Program::known(program)?.kind()?.as_str())
}

/// The system it ran on. Only Macs share the memory that way among what is told of here.
pub(crate) fn ran_on(diagnosis: &Diagnosis) -> Option<Platform> {
    let shared = diagnosis.memory == Some(MemoryKind::Unified);
    diagnosis.run.platform().or_else(|| shared.then_some(Platform::Mac))
}

/// What a form must be right for in this run.
pub(crate) fn circumstances(log: &Diagnosis) -> Circumstances<'_> {
    let maker = match maker(log) {
        Some("AMD") => Some(Maker::Amd),
        Some("Intel") => Some(Maker::Intel),
        _ => None,
    };
    let (versions, older_than) = (&log.run.versions, &log.run.older_than);
    Circumstances { phase: log.phase, on: ran_on(log), maker, versions, older_than }
}

/// Where a variable of Ollama's server is set.
pub(crate) fn where_set(ran_on: Option<Platform>) -> Option<&'static str> {
    let by_system = Program::OLLAMA.facts()?.variables_are_set.as_ref()?;
    Some(match ran_on {
        Some(Platform::Mac) => &by_system.mac,
        Some(Platform::Windows) => &by_system.windows,
        _ => &by_system.linux,
    })
}

/// The variables of a command as this system keeps them for a program that is not started from a shell.
pub(crate) fn kept(command: &str, changes: &Changes, ran_on: Option<Platform>) -> Option<String> {
    let verb = match ran_on? {
        Platform::Mac => "launchctl setenv",
        Platform::Windows => "setx",
        _ => return None,
    };
    let lines = changes.all.iter().map(|change| match change {
        Change::Env(name, value) => Some(format!("{verb} {name} {value}")),
        _ => None,
    });
    let lines = lines.collect::<Option<Vec<_>>>()?;
    command.ends_with("ollama serve").then(|| lines.join("\n"))
}
