//! Owns what a mistake on the command line leads to: one line with what is wrong and the command, option or value that
//! was probably meant.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory};

use super::Cli;
use super::suggest::{nearest, not_one_of};
use crate::runtime::debug_log;
use crate::text::harmless;

/// The beginning of the names of all environment variables that this program reads.
const VARIABLES: &str = "OOMDOCTOR_";
/// What the Python hook reads from the environment.
const OF_THE_HOOK: [&str; 2] = ["OOMDOCTOR_PROGRAM", "OOMDOCTOR_MEMORY_HISTORY"];

/// The mistake in one line, for these arguments of the program.
pub(super) fn explained(error: &clap::Error, arguments: &[OsString]) -> String {
    let line = Line::of(arguments);
    let said = match error.kind() {
        ErrorKind::UnknownArgument => line.unknown_argument(&text(error, ContextKind::InvalidArg)),
        ErrorKind::InvalidSubcommand => line.unknown_command(&text(error, ContextKind::InvalidSubcommand)),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => line.unusable_value(error),
        ErrorKind::MissingRequiredArgument => format!("{} is missing", text(error, ContextKind::InvalidArg)),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("`{}` needs a command: {}", line.path(), line.subcommands().join(", "))
        }
        _ => first_paragraph(&error.to_string()),
    };
    let said = harmless(&said);
    let separator = if said.ends_with('?') { " See" } else { "; see" };
    format!("{said}{separator} `{} --help`", line.path())
}

/// What to say of a word that was taken for a log because no command has this name; `None` if no command is near.
pub(super) fn mistyped_command(word: &Path) -> Option<String> {
    let word = word.to_str()?;
    let is_bare = word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    let command = Cli::command();
    let meant =
        nearest(word, command.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name));
    meant.filter(|_| is_bare).map(|name| format!("there is no command or file `{word}`; did you mean `{name}`?"))
}

/// Messages for environment variables that look like this program's and are not.
pub(super) fn unknown_variables() -> Vec<String> {
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let set: Vec<String> = set.filter(|name| name.starts_with(VARIABLES)).collect();
    if set.is_empty() {
        return Vec::new();
    }
    let mut command = Cli::command();
    command.build();
    let of_options = command.get_subcommands().chain([&command]).flat_map(Command::get_arguments);
    let mut known: Vec<String> =
        of_options.filter_map(|option| Some(option.get_env()?.to_string_lossy().into_owned())).collect();
    known.extend(OF_THE_HOOK.iter().chain([&debug_log::VARIABLE]).map(ToString::to_string));
    let unknown = set.into_iter().filter(|name| !known.contains(name));
    let messages = unknown.filter_map(|name| {
        // All of them begin alike, which would make any two of them near.
        let rest = |name: &str| name.strip_prefix(VARIABLES).unwrap_or_default().to_owned();
        let own: Vec<String> = known.iter().map(|known| rest(known)).collect();
        let meant = nearest(&rest(&name), own.iter().map(String::as_str))?;
        Some(format!("the environment variable {name} has no effect; did you mean {VARIABLES}{meant}?"))
    });
    messages.collect()
}

/// The arguments as far as they can be understood.
struct Line<'a> {
    arguments: &'a [OsString],
    /// The program and the subcommands that the arguments name, the innermost last.
    commands: Vec<Command>,
    /// What was taken for the log of the terminal program.
    log: Option<OsString>,
}

impl Line<'_> {
    fn of(arguments: &[OsString]) -> Line<'_> {
        let mut command = Cli::command();
        command.build();
        let matches = command.clone().ignore_errors(true).try_get_matches_from(arguments).unwrap_or_default();
        let log = matches.try_get_raw("log").ok().flatten().and_then(|mut words| words.next()).map(OsString::from);
        let mut commands = vec![command];
        for argument in arguments.iter().skip(1) {
            let named = commands.last().and_then(|command| command.find_subcommand(argument)).cloned();
            commands.extend(named);
        }
        Line { arguments, commands, log }
    }

    /// The innermost command.
    fn command(&self) -> Option<&Command> {
        self.commands.last()
    }

    /// Such as `oomdoctor kb list`.
    fn path(&self) -> String {
        self.commands.iter().map(Command::get_name).collect::<Vec<_>>().join(" ")
    }

    fn subcommands(&self) -> Vec<&str> {
        let all = self.command().into_iter().flat_map(Command::get_subcommands);
        all.filter(|command| !command.is_hide_set()).map(Command::get_name).filter(|name| *name != "help").collect()
    }

    fn unknown_command(&self, word: &str) -> String {
        not_one_of("command", word, self.subcommands())
    }

    fn unknown_argument(&self, word: &str) -> String {
        if word.starts_with('-') { self.unknown_option(word) } else { self.surplus_word(word) }
    }

    /// A word that no positional argument is left for: the one before it may be a mistyped command.
    fn surplus_word(&self, word: &str) -> String {
        let log = self.log.as_deref().map(Path::new).filter(|log| self.commands.len() == 1 && !log.exists());
        match log {
            Some(log) => {
                mistyped_command(log).unwrap_or_else(|| format!("there is no command or file `{}`", log.display()))
            }
            None => format!("`{word}` is one argument too many"),
        }
    }

    fn unknown_option(&self, word: &str) -> String {
        let elsewhere = self.commands_with(word);
        if !elsewhere.is_empty() {
            return format!("`{word}` is an option of {}, not of `{}`", elsewhere.join(", "), self.path());
        }
        let known = self.command().map(options).unwrap_or_default();
        let meant = match self.command().map(Command::get_name) {
            Some("kill") => signal_meant(word).or_else(|| nearest(word, known.iter().map(String::as_str))),
            _ => nearest(word, known.iter().map(String::as_str)),
        };
        let hint = meant.map(|option| format!("; did you mean `{option}`?")).unwrap_or_default();
        format!("there is no option `{word}`{hint}")
    }

    /// The commands that have this very option.
    fn commands_with(&self, option: &str) -> Vec<String> {
        let Some(program) = self.commands.first() else { return Vec::new() };
        let mut found = Vec::new();
        let all = program.get_subcommands().map(|command| (format!("`oomdoctor {}`", command.get_name()), command));
        for (path, command) in [("`oomdoctor`".to_owned(), program)].into_iter().chain(all) {
            if !command.is_hide_set() && options(command).iter().any(|known| known == option) {
                found.push(path);
            }
        }
        found
    }

    /// A value that its option or argument does not take.
    fn unusable_value(&self, error: &clap::Error) -> String {
        let (option, value) = (text(error, ContextKind::InvalidArg), text(error, ContextKind::InvalidValue));
        let place = self.place_of_value(&option);
        if value.is_empty() {
            return format!("{place} needs a value");
        }
        let reason = match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(known)) if !known.is_empty() => {
                not_one_of("value", &value, known.iter().map(String::as_str))
            }
            _ => {
                std::error::Error::source(error).map_or_else(|| format!("`{value}` is not valid"), ToString::to_string)
            }
        };
        format!("{place}: {reason}")
    }

    /// Where a value was given: the option or argument, or the environment variable that sets it.
    fn place_of_value(&self, shown: &str) -> String {
        let name = shown.split_whitespace().next().unwrap_or(shown);
        let is_given = self.arguments.iter().any(|argument| argument.to_string_lossy().starts_with(name));
        let arguments = self.command().into_iter().flat_map(Command::get_arguments);
        let mut set_by = arguments.filter(|option| option.get_long() == name.strip_prefix("--"));
        match set_by.next().and_then(Arg::get_env) {
            Some(variable) if !is_given => variable.to_string_lossy().into_owned(),
            _ => name.trim_matches(['[', ']', '<', '>']).to_owned(),
        }
    }
}

/// The long options of a command, with their dashes.
fn options(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|option| !option.is_hide_set());
    let names = shown.flat_map(|option| option.get_long_and_visible_aliases().unwrap_or_default());
    names.map(|name| format!("--{name}")).collect()
}

/// What `kill -9` and the like are called here.
fn signal_meant(option: &str) -> Option<&'static str> {
    match option.trim_start_matches('-').trim_start_matches("SIG") {
        "9" | "KILL" | "kill" | "force" | "f" => Some("--signal KILL"),
        "15" | "TERM" | "term" => Some("--signal TERM"),
        "2" | "INT" | "int" => Some("--signal INT"),
        "y" => Some("--yes"),
        _ => None,
    }
}

/// What an error says of this kind, in one line.
fn text(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(" "),
        _ => String::new(),
    }
}

/// The text of an error without its hints, as one line: clap lists arguments on separate lines.
fn first_paragraph(text: &str) -> String {
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
}
