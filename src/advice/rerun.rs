//! Owns the person's own command line with a step's change made in it: what a fix's command changes, whether it is
//! that program's, and the new line in the form of the shell, the job script or the file it was started from.
//! Text goes in and comes out; everything that is not changed stays as it was typed.

mod already;
pub(crate) mod model;
pub(crate) mod printed;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::memory::knob::Program;
use crate::memory::knobs::spellings;
pub use already::Had;

/// One thing to change in a command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    Env(String, String),
    /// An option, with its value where it has one.
    Flag(String, Option<String>),
    /// `name=value` as a program's argument, or as an option of that name where the command has it.
    Setting(String, String),
}

/// What a fix's command changes, and in the command lines of which program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The words that begin the fix's own command: `vllm serve`; empty where the change is for any command.
    head: Vec<String>,
    /// In the order of the fix's command.
    pub all: Vec<Change>,
}

/// Where the command line is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// bash, zsh, fish (3.1 and later) and the like.
    Posix,
    PowerShell,
    /// cmd.exe, and .bat files.
    Cmd,
    /// A Slurm job script.
    Slurm,
    /// A service of a compose file.
    Compose,
    /// A container of a Kubernetes manifest.
    Kubernetes,
}

/// Programs whose options are the same.
struct Kin {
    commands: &'static [&'static str],
    /// Whose spellings its options have, where they are a knob's.
    program: Option<Program>,
    /// The options that name the model; where the line has none of them, its first argument does.
    models: &'static [&'static str],
    /// Options that take more memory: they go when something else is changed to take less.
    greedy: &'static [&'static str],
}

/// As of the versions in the fixes' own files (2026-11-21).
const KIN: &[Kin] = &[
    Kin {
        // Until 2024 the command line program was called `main`, which others are, too.
        commands: &["llama-server", "llama-cli", "llama-completion", "llama-run", "llama-mtmd-cli", "./main"],
        program: Some(Program::LlamaCpp),
        models: &["-m", "--model", "-hf", "-hfr", "--hf-repo"],
        greedy: &[],
    },
    Kin {
        commands: &["vllm serve", "vllm.entrypoints", "vllm-openai"],
        program: Some(Program::Vllm),
        models: &["--model"],
        greedy: &[],
    },
    Kin {
        commands: &["sglang.launch_server", "sglang serve"],
        program: Some(Program::Sglang),
        models: &["--model-path", "--model"],
        greedy: &[],
    },
    Kin { commands: &["text-generation-launcher"], program: None, models: &["--model-id"], greedy: &[] },
    Kin { commands: &["main.py"], program: None, models: &[], greedy: &["--highvram", "--gpu-only"] },
    Kin { commands: &["koboldcpp", "koboldcpp.py"], program: Some(Program::KoboldCpp), models: &[], greedy: &[] },
    // Last: what runs in the container is a program of its own.
    Kin { commands: CONTAINERS, program: None, models: &[], greedy: &[] },
];

const CONTAINERS: &[&str] = &["docker run", "podman run"];
/// The spellings of a container's memory limit.
const CONTAINER_MEMORY: &[&str] = &["--memory", "-m"];

impl Kin {
    fn is_container(&self) -> bool {
        self.commands == CONTAINERS
    }

    /// All spellings of an option; `None` where only this one is known.
    fn spellings(&self, option: &str) -> Option<&'static [&'static str]> {
        if self.is_container() && CONTAINER_MEMORY.contains(&option) {
            return Some(CONTAINER_MEMORY);
        }
        spellings(self.program?, option)
    }
}

/// Options whose value follows without anything in between.
const GLUED: &[&str] = &["-Xmx"];

impl Changes {
    /// Reads a fix's command; `None` where it is code, a setting of another file, or names another model. A value that
    /// only stands for the person's own is no change.
    pub fn of(command: &str) -> Option<Changes> {
        Changes::read(command, |value| !is_stand_in(value))
    }

    /// Its values that the person must fill in: `--tensor-parallel-size GPUS`. The model is none of them.
    pub(super) fn to_be_filled_in(command: &str) -> Option<Changes> {
        let is_to_be_filled_in = |value: &str| is_stand_in(value) && !value.contains("MODEL");
        Changes::read(command, is_to_be_filled_in).filter(Changes::names_program)
    }

    fn read(command: &str, is_value: fn(&str) -> bool) -> Option<Changes> {
        if command.contains(['(', '{', '|', '\n', '"', '@']) || command.contains("://") {
            return None;
        }
        let mut changes = Changes { head: Vec::new(), all: Vec::new() };
        let mut words = command.split_whitespace().peekable();
        while let Some((name, value)) = words.peek().and_then(|word| environment(word)) {
            changes.all.push(Change::Env(name, value));
            words.next();
        }
        while let Some(word) = words.next() {
            // The `-m` of `python -m x` is no option of the program.
            let is_module = word == "-m" && changes.head.last().is_some_and(|last| last.starts_with("python"));
            if word.starts_with('-') && !is_module {
                let (name, own) = option_and_value(word);
                let value = own.or_else(|| words.next_if(|next| !next.starts_with('-')));
                if value.is_none_or(is_value) {
                    changes.all.push(Change::Flag(name.to_owned(), value.map(str::to_owned)));
                }
            } else if let Some((name, value)) = word.trim_end_matches(',').split_once('=') {
                if is_value(value) {
                    changes.all.push(Change::Setting(name.to_owned(), value.to_owned()));
                }
            } else if is_stand_in(word) {
                // Another model is no change of options.
                if names_other_model(word) {
                    return None;
                }
            } else if changes.all.iter().all(|change| matches!(change, Change::Env(..))) {
                changes.head.push(word.to_owned());
            }
        }
        (!changes.all.is_empty()).then_some(changes)
    }

    /// The command line with the changes made; `None` where it is another program's, or has nothing to be changed.
    pub fn apply(&self, command: &str, form: Form) -> Option<String> {
        if !self.is_for(command) {
            return None;
        }
        if self.all.is_empty() {
            return Some(command.trim().to_owned());
        }
        // The options are those of the program that the fix names, also where it starts another one.
        let kin = kin(&self.head.join(" ")).or_else(|| kin(command));
        let mut line = command.trim().to_owned();
        if let Some(kin) = kin {
            line = kin.greedy.iter().fold(line, |line, flag| without(&line, flag));
        }
        let mut variables = Vec::new();
        for change in &self.all {
            match change {
                Change::Env(name, value) => {
                    match replaced_option(&line, value).or_else(|| replaced_by_any_name(&line, name, value)) {
                        Some(with) => line = with,
                        None => variables.push((name.as_str(), value.as_str())),
                    }
                }
                Change::Flag(name, value) => line = with_flag(&line, kin, name, value.as_deref()),
                Change::Setting(name, value) => line = with_setting(&line, name, value, !self.head.is_empty())?,
            }
        }
        Some(with_variables(&line, &variables, form))
    }

    /// Both changes as one; `None` where they are for different programs.
    pub(super) fn with(mut self, other: Changes) -> Option<Changes> {
        if self.head.is_empty() {
            self.head = other.head;
        } else if !other.head.is_empty() && other.head != self.head {
            return None;
        }
        let more: Vec<Change> = other.all.into_iter().filter(|change| !self.all.contains(change)).collect();
        self.all.extend(more);
        Some(self)
    }

    /// Variables that stand for themselves, as they are typed before any command; `None` where there is more to change.
    pub fn alone(&self, form: Form) -> Option<String> {
        if !self.head.is_empty() {
            return None;
        }
        let lines = self.all.iter().map(|change| match (change, form) {
            (Change::Env(name, value), Form::Posix | Form::Slurm) => Some(format!("export {name}={value}")),
            (Change::Env(name, value), Form::PowerShell) => Some(format!("$env:{name}='{value}'")),
            (Change::Env(name, value), Form::Cmd) => Some(format!("set {name}={value}")),
            _ => None,
        });
        Some(lines.collect::<Option<Vec<String>>>()?.join("\n"))
    }

    /// Whether the change names the program whose command lines it is for.
    pub(super) fn names_program(&self) -> bool {
        !self.head.is_empty()
    }

    /// The value that it gives to the option, setting or variable of that name.
    pub(super) fn value_of(&self, wanted: &str) -> Option<String> {
        self.all.iter().find_map(|change| match change {
            Change::Env(name, value) | Change::Setting(name, value) if name == wanted => Some(value.clone()),
            Change::Flag(name, value) if name == wanted => value.clone(),
            _ => None,
        })
    }

    /// Whether the command line is of the program that the change is for.
    pub(super) fn is_for(&self, command: &str) -> bool {
        if self.head.is_empty() {
            return true;
        }
        let family = kin(&self.head.join(" "));
        match (family, kin(command)) {
            (Some(family), Some(own)) => std::ptr::eq(family, own) || holds(command, &self.head.join(" ")),
            (None, _) => holds(command, &self.head.join(" ")),
            _ => false,
        }
    }
}

/// Several changes in one command line, one after the other; those that don't fit it are left out.
pub(crate) fn apply_all(changes: &[Changes], command: &str, form: Form) -> String {
    // Variables are written in front: each form only once.
    let (mut line, mut variables) = (command.trim().to_owned(), Vec::new());
    for one in changes {
        let (own, rest): (Vec<Change>, Vec<Change>) =
            one.all.iter().cloned().partition(|change| matches!(change, Change::Env(..)));
        if one.is_for(command) {
            variables.extend(own);
            if let Some(with) = (Changes { head: one.head.clone(), all: rest }).apply(&line, Form::Posix) {
                line = with;
            }
        }
    }
    let all = Changes { head: Vec::new(), all: variables };
    all.apply(&line, form).unwrap_or(line)
}

/// An option with the value that follows it in the same word.
fn option_and_value(word: &str) -> (&str, Option<&str>) {
    for name in GLUED {
        if let Some(value) = word.strip_prefix(name).filter(|value| !value.is_empty()) {
            return (name, Some(value));
        }
    }
    match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    }
}

/// `NAME=value`, where it is one.
fn environment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let plain = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    plain.then(|| (name.to_owned(), value.to_owned()))
}

/// Whether a word stands for another model than the person's: MODEL-AWQ, USER/MODEL-GGUF:Q4_K_M.
fn names_other_model(word: &str) -> bool {
    is_stand_in(word) && (word.contains("MODEL-") || word.contains(':'))
}

/// Words that stand for the person's own: MODEL.gguf, PROMPT, TRAIN.py.
fn is_stand_in(word: &str) -> bool {
    let stem = word.split(['.', '/', ':']).next().unwrap_or(word);
    let stem = stem.split('-').next().unwrap_or(stem);
    stem.len() > 2 && stem.chars().all(|c| c.is_ascii_uppercase())
}

/// The family whose command stands in the line.
fn kin(command: &str) -> Option<&'static Kin> {
    KIN.iter().find(|kin| kin.commands.iter().any(|one| holds(command, one)))
}

/// Whether the words stand in the line one after the other, the first as a path's last part; a module's name also
/// where more of it follows (`vllm.entrypoints.openai.api_server`), an image's also with a tag.
fn holds(command: &str, words: &str) -> bool {
    let own: Vec<&str> = command.split_whitespace().collect();
    let wanted: Vec<&str> = words.split(' ').collect();
    own.windows(wanted.len()).any(|part| {
        part.iter().zip(&wanted).enumerate().all(|(at, (word, wanted))| match at {
            0 => {
                [*word, program_name(word), image_name(word)].contains(wanted)
                    || wanted.contains('.') && word.starts_with(&format!("{wanted}."))
            }
            _ => word == wanted,
        })
    })
}

/// The last part of a container image's name, without its tag or digest: `vllm-openai` of `vllm/vllm-openai:latest`.
fn image_name(word: &str) -> &str {
    word.split([':', '@']).next().map_or("", program_name)
}

/// The last part of a program's path.
fn program_name(word: &str) -> &str {
    word.rsplit(['/', '\\']).next().map_or("", |name| name.trim_end_matches(".exe"))
}

/// The first match of a pattern made here, between what stands before it and what follows. Plans are made anew with each
/// reading: a pattern is compiled once. There are only as many as options and variables in the knowledge.
fn found<'a>(pattern: &str, line: &'a str) -> Option<[&'a str; 3]> {
    static COMPILED: LazyLock<Mutex<HashMap<String, Option<Regex>>>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let regex = match compiled.get(pattern) {
        Some(regex) => regex.clone(),
        None => compiled.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok()).clone(),
    };
    drop(compiled);
    let found = regex?.find(line)?;
    let (rest, after) = line.split_at_checked(found.end())?;
    let (before, found) = rest.split_at_checked(found.start())?;
    Some([before, found, after])
}

/// A value as it is typed: quoted, or up to the next blank.
const VALUE: &str = r#"(?:"[^"]*"|'[^']*'|[^\s-]\S*|-\d\S*)"#;

/// The line with an option's value replaced, whatever its spelling, or with the option behind it.
fn with_flag(line: &str, kin: Option<&Kin>, name: &str, value: Option<&str>) -> String {
    if GLUED.contains(&name) {
        return with_glued(line, name, value.unwrap_or_default());
    }
    let own = [name];
    let spellings = kin.and_then(|kin| kin.spellings(name)).unwrap_or(&own);
    let said = match value {
        Some(value) => format!("{name} {value}"),
        None => name.to_owned(),
    };
    for spelling in spellings {
        let plain = regex::escape(spelling);
        let pattern = match value {
            Some(_) => format!(r"(?:^|\s){plain}(?:=|\s+){VALUE}"),
            None => format!(r"(?:^|\s){plain}(?:\s|$)"),
        };
        if let Some([before, old, after]) = found(&pattern, line) {
            let Some(value) = value else { return line.to_owned() };
            let joint = if old.contains(&format!("{spelling}=")) { "=" } else { " " };
            return format!("{before} {spelling}{joint}{value}{after}").trim_start().to_owned();
        }
    }
    match found(RUNS_CONTAINER, line) {
        Some([_, run, after]) if kin.is_none_or(Kin::is_container) => format!("{run} {said}{after}"),
        _ => with_more(line, &said),
    }
}

/// A line that starts a container.
const RUNS_CONTAINER: &str = r"^(?:sudo )?(?:docker|podman)\s+run\b";

/// The line with another value of an option that its value follows at once, or with the option right behind the program.
fn with_glued(line: &str, name: &str, value: &str) -> String {
    if let Some([before, _, after]) = found(&format!(r"(?:^|\s){}\S+", regex::escape(name)), line) {
        let blank = if before.is_empty() { "" } else { " " };
        return format!("{before}{blank}{name}{value}{after}");
    }
    match found(r"(?:^|[\s/])java(?:\s|$)", line) {
        Some([before, java, after]) => {
            format!("{before}{} {name}{value} {after}", java.trim_end()).trim_end().to_owned()
        }
        None => format!("{line} {name}{value}"),
    }
}

/// The line with another value of an option that a variable would set (`NODE_OPTIONS=--max-old-space-size=8192`), where the
/// line has that option itself: there it counts before the variable, whose other options stay.
fn replaced_option(line: &str, value: &str) -> Option<String> {
    let (option, value) = value.strip_prefix("--")?.split_once('=')?;
    let spelling = option.replace('-', "[-_]");
    let [before, old, after] = found(&format!(r"--{spelling}[= ]\d+"), line)?;
    let name = old.trim_end_matches(char::is_numeric);
    Some(format!("{before}{name}{value}{after}"))
}

/// The line with further options: before a pipe, a redirection or the next command.
fn with_more(line: &str, options: &str) -> String {
    let end = found(r"\s(?:\||\d?>|&&?(?:\s|$)|;|\d>&1)", line);
    let [before, end, after] = end.unwrap_or([line, "", ""]);
    format!("{} {options}{end}{after}", before.trim_end())
}

/// `name=value` or `--name value`, where the line has it; behind the line where the program takes such arguments.
fn with_setting(line: &str, name: &str, value: &str, takes: bool) -> Option<String> {
    let option = format!("--{name}");
    if found(&format!(r"(?:^|\s){}(?:=|\s)", regex::escape(&option)), line).is_some() {
        return Some(with_flag(line, None, &option, Some(value)));
    }
    let pattern = format!(r"(?:^|\s){}={VALUE}", regex::escape(name));
    match found(&pattern, line) {
        Some([before, _, after]) => Some(format!("{before} {name}={value}{after}")),
        None => takes.then(|| with_more(line, &format!("{name}={value}"))),
    }
}

/// The line without an option that has no value.
fn without(line: &str, flag: &str) -> String {
    match found(&format!(r"\s{}(?:\s|$)", regex::escape(flag)), line) {
        Some([before, _, after]) => format!("{before} {after}").trim_end().to_owned(),
        None => line.to_owned(),
    }
}

/// Variables of one meaning that exclude each other: JAX refuses a run that sets
/// both (jaxlib/xla_client.py, checked 2026-11-22).
const OTHER_NAMES: &[(&str, &str)] = &[("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")];

/// The line with the new value of the variable under the name that the line has for it.
fn replaced_by_any_name(line: &str, name: &str, value: &str) -> Option<String> {
    let others = OTHER_NAMES.iter().filter(|(current, _)| *current == name).map(|(_, other)| *other);
    std::iter::once(name).chain(others).find_map(|name| replaced_variable(line, name, value))
}

/// The line with the new value of a variable that it sets itself. An allocator's settings are a list: one is added.
fn replaced_variable(line: &str, name: &str, value: &str) -> Option<String> {
    let [before, old, after] = found(&format!(r"(?:^|\s){name}={VALUE}"), line)?;
    let (_, old) = old.split_once('=')?;
    let key = value.split(':').next().unwrap_or(value);
    let value = match name.ends_with("ALLOC_CONF") && !old.contains(key) {
        true => format!("{},{value}", old.trim_matches(['"', '\''])),
        false => value.to_owned(),
    };
    let space = if before.is_empty() { "" } else { " " };
    Some(format!("{before}{space}{name}={value}{after}"))
}

/// The line with variables set for it, as the form has them.
fn with_variables(line: &str, variables: &[(&str, &str)], form: Form) -> String {
    let container = if form == Form::Posix { found(RUNS_CONTAINER, line) } else { None };
    let mut set = String::new();
    for (name, value) in variables {
        set += &match form {
            Form::Compose => format!("      {name}: \"{value}\"\n"),
            Form::Kubernetes => format!("  - {{name: {name}, value: \"{value}\"}}\n"),
            Form::Slurm => format!("export {name}={value}\n"),
            Form::PowerShell => format!("$env:{name}='{value}'; "),
            Form::Cmd => format!("set \"{name}={value}\"\n"),
            Form::Posix if container.is_some() => format!("-e {name}={value} "),
            Form::Posix => format!("{name}={value} "),
        };
    }
    match (form, container) {
        (Form::Compose, _) => {
            let head = if set.is_empty() { "" } else { "    environment:\n" };
            format!("{head}{set}    command: {line}")
        }
        (Form::Kubernetes, _) => {
            let head = if set.is_empty() { "" } else { "env:\n" };
            let arguments: Vec<String> = line.split_whitespace().map(|word| format!("\"{word}\"")).collect();
            format!("{head}{set}command: [{}]", arguments.join(", "))
        }
        (Form::Slurm | Form::PowerShell | Form::Cmd, _) => set + line,
        (Form::Posix, Some([_, run, after])) => format!("{run} {}{after}", set.trim_end()).replace("run  ", "run "),
        // What stands before the last command of the line stays there.
        (Form::Posix, None) => match line.rsplit_once("&& ") {
            Some((first, last)) => format!("{first}&& {set}{last}"),
            None => set + line,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(fix: &str, command: &str) -> Option<String> {
        Changes::of(fix)?.apply(command, Form::Posix)
    }

    #[test]
    fn an_option_is_replaced_in_any_spelling_or_put_behind() {
        let fix = "llama-server -m MODEL.gguf -c 16384";
        for (own, with) in [
            ("llama-cli -m /srv/a.gguf --ctx-size 65536 -ngl 99", "llama-cli -m /srv/a.gguf --ctx-size 16384 -ngl 99"),
            (
                "./build/bin/llama-server -m a.gguf --ctx-size=65536",
                "./build/bin/llama-server -m a.gguf --ctx-size=16384",
            ),
            (
                "llama-server -m 'my model.gguf' 2>&1 | tee log",
                "llama-server -m 'my model.gguf' -c 16384 2>&1 | tee log",
            ),
        ] {
            assert_eq!(changed(fix, own).as_deref(), Some(with));
        }
        let kv = "llama-server -m MODEL.gguf -fa on -ctk q8_0 -ctv q8_0";
        assert_eq!(
            changed(kv, "llama-server -m a.gguf -fa off").as_deref(),
            Some("llama-server -m a.gguf -fa on -ctk q8_0 -ctv q8_0")
        );
        assert_eq!(
            changed("vllm serve MODEL --enforce-eager", "vllm serve org/m --enforce-eager").as_deref(),
            Some("vllm serve org/m --enforce-eager"),
            "already there"
        );
    }

    #[test]
    fn a_variable_is_changed_under_the_name_that_the_line_has() {
        for (own, with) in [
            ("XLA_PYTHON_CLIENT_MEM_FRACTION=0.30 python t.py", "XLA_PYTHON_CLIENT_MEM_FRACTION=0.65 python t.py"),
            ("XLA_CLIENT_MEM_FRACTION=0.30 python t.py", "XLA_CLIENT_MEM_FRACTION=0.65 python t.py"),
            ("python t.py", "XLA_CLIENT_MEM_FRACTION=0.65 python t.py"),
        ] {
            assert_eq!(changed("XLA_CLIENT_MEM_FRACTION=0.65", own).as_deref(), Some(with));
        }
    }

    #[test]
    fn another_programs_command_is_left_alone() {
        assert_eq!(changed("vllm serve MODEL --enforce-eager", "python train.py"), None);
        assert_eq!(changed("OLLAMA_NUM_PARALLEL=1 ollama serve", "ollama run llama3.1:8b"), None, "the client");
        assert_eq!(changed("llama-server -m MODEL.gguf -np 1", "vllm serve org/m"), None);
        assert_eq!(changed("llama-server -m MODEL.gguf -np 1", "docker compose up server"), None);
        assert_eq!(changed("per_device_train_batch_size=4, gradient_accumulation_steps=4", "python train.py"), None);
    }

    #[test]
    fn a_setting_is_changed_where_the_command_has_it() {
        let fix = "per_device_train_batch_size=4, gradient_accumulation_steps=4";
        assert_eq!(
            changed(fix, "python run.py --per_device_train_batch_size 16 --gradient_accumulation_steps=1 --bf16")
                .as_deref(),
            Some("python run.py --per_device_train_batch_size 4 --gradient_accumulation_steps=4 --bf16")
        );
        assert_eq!(
            changed("yolo train data=DATA.yaml model=MODEL.pt imgsz=512", "yolo train data=a.yaml imgsz=1280")
                .as_deref(),
            Some("yolo train data=a.yaml imgsz=512")
        );
    }

    #[test]
    fn a_limit_is_replaced_where_it_stands() {
        for (fix, own, with) in [
            ("java -Xmx48g", "java -Xms1g -Xmx32g -jar a.jar", "java -Xms1g -Xmx48g -jar a.jar"),
            ("java -Xmx48g", "/usr/bin/java -jar a.jar", "/usr/bin/java -Xmx48g -jar a.jar"),
            (
                "NODE_OPTIONS=--max-old-space-size=24576",
                "node --max-old-space-size=16384 app.js",
                "node --max-old-space-size=24576 app.js",
            ),
            (
                "NODE_OPTIONS=--max-old-space-size=24576",
                "NODE_OPTIONS=\"--trace-gc --max_old_space_size=16384\" npm run build",
                "NODE_OPTIONS=\"--trace-gc --max_old_space_size=24576\" npm run build",
            ),
            (
                "docker run --memory=128g IMAGE",
                "docker run -m 96g --gpus all me/train",
                "docker run -m 128g --gpus all me/train",
            ),
            (
                "docker run --memory=128g IMAGE",
                "docker run --memory=96g me/x vllm serve m",
                "docker run --memory=128g me/x vllm serve m",
            ),
        ] {
            assert_eq!(changed(fix, own).as_deref(), Some(with), "{own}");
        }
    }

    #[test]
    fn variables_are_set_as_the_form_has_them() {
        let grow = Changes::of("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True").unwrap();
        let run = "python train.py";
        for (form, with) in [
            (Form::Posix, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py"),
            (Form::PowerShell, "$env:PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'; python train.py"),
            (Form::Cmd, "set \"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\"\npython train.py"),
            (Form::Slurm, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\npython train.py"),
            (
                Form::Compose,
                "    environment:\n      PYTORCH_CUDA_ALLOC_CONF: \"expandable_segments:True\"\n    command: python train.py",
            ),
        ] {
            assert_eq!(grow.apply(run, form).as_deref(), Some(with));
        }
        assert_eq!(
            grow.apply("cd lab && PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 python a.py", Form::Posix).as_deref(),
            Some("cd lab && PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128,expandable_segments:True python a.py")
        );
        assert_eq!(
            grow.apply("docker run --gpus all img python a.py", Form::Posix).as_deref(),
            Some("docker run -e PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True --gpus all img python a.py")
        );
    }

    #[test]
    fn code_files_and_other_models_are_no_changes_of_a_command() {
        for code in [
            "Llama(model_path=..., n_ctx=4096)",
            "optim: paged_adamw_8bit\nx: 1",
            "vllm serve MODEL-AWQ",
            "llama-server -hf USER/MODEL-GGUF:Q4_K_M",
        ] {
            assert_eq!(Changes::of(code), None, "{code}");
        }
        assert_eq!(
            changed("python main.py --reserve-vram 2 --disable-smart-memory", "python main.py --highvram --listen")
                .as_deref(),
            Some("python main.py --listen --reserve-vram 2 --disable-smart-memory"),
            "what costs memory goes"
        );
        assert_eq!(
            changed("docker run --shm-size=8g IMAGE", "docker run --gpus all me/train").as_deref(),
            Some("docker run --shm-size 8g --gpus all me/train")
        );
        assert_eq!(
            changed(
                "python -m sglang.launch_server --model-path MODEL --mem-fraction-static 0.75",
                "python3 -m sglang.launch_server --model-path org/m --port 30000"
            )
            .as_deref(),
            Some("python3 -m sglang.launch_server --model-path org/m --port 30000 --mem-fraction-static 0.75")
        );
    }

    #[test]
    fn several_steps_give_one_line() {
        let of = |fix| Changes::of(fix).unwrap();
        let all = [
            of("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
            of("CUDA_VISIBLE_DEVICES=GPU-1"),
            of("vllm serve MODEL --max-model-len 8192"),
            of("llama-server -m MODEL.gguf -np 1"),
        ];
        assert_eq!(
            apply_all(&all, "vllm serve org/m", Form::Posix),
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True CUDA_VISIBLE_DEVICES=GPU-1 vllm serve org/m --max-model-len 8192"
        );
        assert_eq!(
            apply_all(&all[3..], "vllm serve org/m", Form::Posix),
            "vllm serve org/m",
            "nothing of another program"
        );
    }
}
