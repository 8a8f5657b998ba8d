//! Owns which command is run again after a failure that `oomdoctor run` recorded: its arguments with the change of a fix,
//! its folder, and why nothing is run where no shell, launcher or scheduler can be stood in for. Pure; the question shows
//! all of it.

use std::path::{Path, PathBuf};

use super::action::Action;
use super::model::{Model, Source};
use super::run_again::RunAgain;
use super::walk::{Mark, StepId};
use crate::advice::PlannedFix;
use crate::knowledge::FixId;
use crate::memory::visible::VARIABLES;
use crate::record::{Run, RunOptions, Try};
use crate::text::harmless;

/// Sets variables for a program without a shell.
const ENV: &str = "env";

/// Why nothing may be run here at all, before the record is read.
pub(crate) fn refused(model: &Model) -> Option<String> {
    if model.config.read_only {
        return Some("Nothing is run: --read-only.".to_owned());
    }
    if let Some(away) = &model.hosts.away {
        return Some(format!("{} is only read: nothing is run there.", away.name));
    }
    if model.config.source == Source::Demo {
        return None;
    }
    if model.config.source == Source::Recorded || model.input.record.is_none() {
        let run = "oomdoctor run -- COMMAND";
        return Some(format!("Only a command that `{run}` recorded is run from here. Enter copies the command."));
    }
    None
}

/// The command to run again with the change of the selected fix, else as it was changed so far; else why not.
pub(crate) fn planned(model: &Model) -> Result<RunAgain, String> {
    if let Some(why) = refused(model) {
        return Err(why);
    }
    let Some(as_it_is) = model.rerun() else {
        let key = model.key(Action::Command);
        return Err(format!("The command is unknown: {key} sets it."));
    };
    let changed = model.current_step().and_then(|step| Some((step, changed_by(model, step, &as_it_is)?)));
    let (selected, line) = changed.map_or((None, as_it_is), |(step, line)| (Some(step), line));
    let taken = model.walk.behind.iter().rev().find(|behind| behind.mark == Mark::Taken);
    let step = selected.map(|step| (StepId::of(step), step.title.clone()));
    let step = step.or_else(|| taken.map(|behind| (behind.id.clone(), behind.title.clone())));
    let fix = step.as_ref().map_or(FixId::RUN_AGAIN, |(id, _)| id.fix);
    let step = step.map(|(id, title)| ((id.fix, id.target), title));
    let (step, title) = step.unzip();
    if model.config.source == Source::Demo {
        let tries = Try { fix: fix.as_str().to_owned(), after: "the demo".to_owned() };
        let argv = words_of(&line)?;
        let (before, folder) = (argv.clone(), PathBuf::from("~"));
        return Ok(RunAgain { before, argv, folder, options: RunOptions::default(), tries, step, title });
    }
    let path = model.input.record.as_deref().unwrap_or(Path::new(""));
    let replay = model.replay.as_ref().filter(|replay| replay.tape.path == path);
    let run = replay.and_then(|replay| replay.recording().run.as_ref());
    let Some(run) = run else { return Err("The recording names no command: it is not one of `oomdoctor run`.".into()) };
    if let Some(why) = is_not_alone(run) {
        return Err(why);
    }
    if run.folder.is_empty() {
        return Err("The folder of the command is unknown: it was watched, not run by `oomdoctor run`.".into());
    }
    let argv = with_its_gpus(words_of(&line)?, run);
    let tries = Try { fix: fix.as_str().to_owned(), after: path.display().to_string() };
    let (before, folder, options) = (run.argv.clone(), run.folder.clone().into(), run.options.clone());
    let planned = RunAgain { argv, before, folder, options, tries, step, title };
    let all_shown = planned.argv.iter().chain(&run.options.report).chain([&run.folder]);
    if all_shown.into_iter().any(|text| harmless(text) != *text) {
        return Err("The command has characters that cannot be shown. Copy it with Enter and run it yourself.".into());
    }
    Ok(planned)
}

/// The command line as this fix changes it; `None` for a fix that is about something else.
fn changed_by(model: &Model, step: &PlannedFix, line: &str) -> Option<String> {
    if let Some(changes) = step.changes.as_ref() {
        return model.rerun_with(Some(changes));
    }
    let mut commands = step.steps.iter().filter_map(|step| step.command.as_deref());
    commands.find(|command| program(line).is_some() && program(command) == program(line)).map(str::to_owned)
}

/// What a command line starts, as far as it tells one program from another: `python`, and which script or module.
fn program(line: &str) -> Option<Vec<String>> {
    let words = words_of(line).ok()?;
    let mut words = words.into_iter().skip_while(|word| word == ENV || is_variable(word));
    let first = words.next()?;
    if !first.rsplit('/').next().is_some_and(|name| name.starts_with("python")) {
        return Some(vec![first]);
    }
    let mut rest = words.skip_while(|word| word.starts_with('-') && word != "-m");
    let script = rest.next()?;
    let module = if script == "-m" { rest.next() } else { None };
    Some([first, script].into_iter().chain(module).collect())
}

/// Whether the word sets a variable: `NAME=value`.
fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name).unwrap_or_default();
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Why a run that others started, or that has others beside it, is not started from here.
fn is_not_alone(run: &Run) -> Option<String> {
    let named = |end: &str| run.environment.iter().find(|(name, _)| name.ends_with(end));
    if let Some((name, value)) = named("RANK").or_else(|| named("LOCALRANKID")) {
        return Some(format!(
            "It was one of several ranks ({name}={value}): run its launcher again. Enter copies the change."
        ));
    }
    let (_, job) = named("SLURM_JOB_ID")?;
    Some(format!("It ran in Slurm job {job}: submit it again. Enter copies the change."))
}

/// The arguments with the GPUs that the failed run was given, unless a change says which.
fn with_its_gpus(argv: Vec<String>, run: &Run) -> Vec<String> {
    let is_said = argv.iter().any(|word| word.split_once('=').is_some_and(|(name, _)| selects_gpus(name)));
    let given = run.environment.iter().filter(|(name, _)| VARIABLES.contains(&name.as_str()));
    let given: Vec<String> = given.map(|(name, value)| format!("{name}={value}")).collect();
    if is_said || given.is_empty() {
        return argv;
    }
    let rest = if argv.first().is_some_and(|first| first == ENV) { argv.get(1..).unwrap_or_default() } else { &argv };
    [ENV.to_owned()].into_iter().chain(given).chain(rest.iter().cloned()).collect()
}

/// Whether this variable says which GPUs a run may use, and not only how they are counted.
fn selects_gpus(variable: &str) -> bool {
    VARIABLES.contains(&variable) && !variable.ends_with("_ORDER")
}

/// The words of a command line that needs no shell; variables before the program are set by `env`.
fn words_of(line: &str) -> Result<Vec<String>, String> {
    if let Some(what) = needs_shell(line) {
        return Err(format!("A shell is needed for {what}. Copy the command with Enter and run it yourself."));
    }
    let words = shlex::split(line).filter(|words| !words.is_empty());
    let Some(words) = words else { return Err("A quotation mark of the command is not closed.".into()) };
    let variables = words.iter().take_while(|word| is_variable(word)).count();
    if variables == words.len() {
        return Err("The command names no program.".into());
    }
    // `A=1 env B=2 program` is one list of variables.
    let mut rest = words.iter().skip(variables).peekable();
    let env = [ENV.to_owned()];
    if variables == 0 {
        return Ok(words);
    }
    rest.next_if(|word| *word == ENV);
    Ok(env.iter().chain(words.iter().take(variables)).chain(rest).cloned().collect())
}

/// What of a command line only a shell does, if there is anything: `$HOME`, `a | b`, `*.json`, several lines.
fn needs_shell(line: &str) -> Option<String> {
    let line = line.trim();
    if line.contains(['\n', '\r']) {
        return Some("several lines".to_owned());
    }
    let mut quote = None;
    let mut is_start = true;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let was_start = std::mem::replace(&mut is_start, character.is_whitespace());
        match (quote, character) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None | Some('"'), '\\') => drop(characters.next()),
            (None | Some('"'), '$' | '`') => return Some(format!("`{character}`")),
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '?' | '[' | '{') => {
                return Some(format!("`{character}`"));
            }
            (None, '~' | '#') if was_start => return Some(format!("`{character}`")),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        words_of(line).unwrap()
    }

    #[test]
    fn variables_are_set_without_a_shell_and_quotes_are_resolved() {
        assert_eq!(
            words("python train.py --name 'a b|c' \"x\\\"y\""),
            ["python", "train.py", "--name", "a b|c", "x\"y"]
        );
        assert_eq!(words("A=1 B='x y' python -m t lr=1"), ["env", "A=1", "B=x y", "python", "-m", "t", "lr=1"]);
        assert_eq!(words("A=1 env B=2 python"), ["env", "A=1", "B=2", "python"]);
        assert_eq!(words("env B=2 python"), ["env", "B=2", "python"]);
    }

    #[test]
    fn a_line_is_of_the_same_program_by_its_script_or_module() {
        let same = |one: &str, other: &str| program(one).is_some() && program(one) == program(other);
        assert!(same("python -u train.py --batch 8", "A=1 python train.py --batch 4"));
        assert!(same("vllm serve x", "env A=1 vllm serve x --y") && same("python -m t a=1", "python -m t a=2"));
        assert!(!same("python train.py", "python -m train") && !same("python train.py", "ollama stop x"));
        assert!(!same("python -m t a=1", "python -m u a=1") && !same("with torch.no_grad(): x", "with torch.y(): x"));
    }

    #[test]
    fn what_only_a_shell_does_is_named() {
        let all = [
            "a && b",
            "a | b",
            "a > log",
            "a < b",
            "a; b",
            "a $HOME",
            "a \"$HOME\"",
            "a `b`",
            "a *.json",
            "a file?",
            "a [0-9]",
            "a {1,2}",
            "~/a",
            "a ~",
            "a # b",
            "(a)",
            "a\nb",
            "export A=1\na",
            "A=$(b) c",
        ];
        for line in all {
            assert!(words_of(line).is_err(), "{line}");
        }
        for line in ["a 'b", "", "A=1", "A=1 B=2"] {
            assert!(words_of(line).is_err(), "{line}");
        }
        for line in ["a 'x | y $z *'", r"a x\|y", "a b~c", "a b#c", "a --x=1,2", "a \"b c\"", "python -m x a=1"] {
            assert!(words_of(line).is_ok(), "{line}");
        }
    }
}
