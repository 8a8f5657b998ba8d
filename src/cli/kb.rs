//! Owns `oomdoctor kb`, which lists, shows and checks the entries of the knowledge base, built in or in a folder.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use super::output::{print, refuse};
use super::settings::Global;
use crate::knowledge::lint;
use crate::knowledge::load::{self, Source};
use crate::knowledge::page;
use crate::knowledge::{KnowledgeBase, diagnosis::Oom};
use crate::log::PastedLog;
use crate::platform::{here, regular};
use crate::runtime::reader::{Loaded, Telling};

/// More than any knowledge folder contains.
const MOST_FILES: usize = 20_000;
/// More than any entry or example has.
const LARGEST_FILE: u64 = 4 << 20;
/// The number of columns to which `kb show` wraps a page.
const PAGE_COLUMNS: usize = 100;

#[derive(Debug, Subcommand)]
pub enum KbCommand {
    /// List the entries.
    List {
        /// Only those whose id or title holds this text.
        filter: Option<String>,
        /// Print the words of the first pass instead, one a line.
        #[arg(long)]
        literals: bool,
    },
    /// Show one entry.
    Show {
        /// Its id, such as pytorch/cuda-out-of-memory.
        id: String,
    },
    /// Write a draft entry for a log that nothing matches yet, to standard output.
    New {
        /// The log; its last line with an error word is taken for the decisive one.
        #[arg(long, value_name = "LOG")]
        from: PathBuf,
    },
    /// Judge every entry by its own examples and by every other entry's.
    Check {
        /// A folder of entries to judge beside the built-in ones.
        dir: Option<PathBuf>,
        /// List the references that nobody has opened within a year.
        #[arg(long)]
        stale: bool,
    },
}

/// Exits with 1 if an entry is not found or does not pass the check.
pub(super) fn run(global: &Global, command: &KbCommand) -> ExitCode {
    let outcome = match command {
        KbCommand::List { filter, literals } => base(global).map(|base| {
            let text = if *literals {
                base.literals().map(|literal| format!("{literal}\n")).collect()
            } else {
                list(base, filter.as_deref().unwrap_or_default())
            };
            let good = !text.is_empty();
            (text, good)
        }),
        KbCommand::New { from } => draft(from),
        KbCommand::Show { id } => base(global).and_then(|base| show(base, id)),
        KbCommand::Check { dir, stale } => check(global, dir.as_deref(), *stale),
    };
    match outcome {
        Ok((text, good)) => print(&text, if good { ExitCode::SUCCESS } else { ExitCode::from(1) }),
        Err(message) => refuse(&message),
    }
}

/// The built-in knowledge and the folder of the options, whose files replace built-in ones of the same name.
/// Kept until the program ends, which it does sooner than thousands of entries are dropped.
pub(super) fn base(global: &Global) -> Result<&'static KnowledgeBase, String> {
    Ok(Box::leak(Box::new(owned_base(global)?)))
}

fn owned_base(global: &Global) -> Result<KnowledgeBase, String> {
    with_folder(load::embedded(), global.knowledge.as_deref())
}

/// The same for the terminal program, which uses the built-in entries, with a message, if those of the folder are invalid.
pub(super) fn base_at_any_rate(global: &Global) -> Loaded {
    match owned_base(global) {
        Ok(base) => Ok((base, None)),
        Err(error) if global.knowledge.is_some() => {
            let built_in = with_folder(load::embedded(), None)?;
            Ok((built_in, Some(format!("Your own entries are left out until this is mended: {error}"))))
        }
        Err(error) => Err(error),
    }
}

fn with_folder(built_in: Vec<Source>, dir: Option<&Path>) -> Result<KnowledgeBase, String> {
    let sources = match dir {
        Some(dir) => load::with_added(built_in, folder(dir)?),
        None => built_in,
    };
    KnowledgeBase::from_sources(sources).map_err(|error| error.to_string())
}

/// Reads every file of a knowledge folder.
fn folder(root: &Path) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    // A symbolic link may lead to a folder above it or out of the knowledge folder.
    let (mut visited, mut seen) = (HashSet::new(), 0);
    while let Some(dir) = folders.pop() {
        let identity = std::fs::metadata(&dir).and_then(|there| here::identity(&dir, &there));
        if !visited.insert(identity.map_err(|error| cannot_read(&dir, &error))?) {
            continue;
        }
        let entries = std::fs::read_dir(&dir).map_err(|error| cannot_read(&dir, &error))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            seen += 1;
            if seen > MOST_FILES {
                return Err(format!(
                    "{} holds more than {MOST_FILES} files: name the folder of the entries",
                    root.display()
                ));
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "ron" || extension == "log") {
                let bytes = regular::read(&path, LARGEST_FILE).map_err(|error| cannot_read(&path, &error))?;
                let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                sources.push(Source::ron(relative, String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
    }
    if sources.is_empty() {
        return Err(format!("{} holds no .ron files", root.display()));
    }
    Ok(sources)
}

fn cannot_read(path: &Path, error: &io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

fn list(base: &KnowledgeBase, filter: &str) -> String {
    let filter = filter.to_lowercase();
    let mut text = String::new();
    for entry in &base.entries {
        if entry.id.as_str().contains(&filter) || entry.title.to_lowercase().contains(&filter) {
            text.push_str(&format!("{:<44} {:<6} {}\n", entry.id, word(entry.oom), entry.title));
        }
    }
    text
}

/// A draft entry with the log's likely line as its pattern and the log as its example.
fn draft(path: &Path) -> Result<(String, bool), String> {
    let read = super::diagnose::bytes_of(path, &Telling::default());
    let (bytes, _) = read.map_err(|error| cannot_read(path, &error))?;
    let log = PastedLog::from_bytes(bytes);
    if log.is_binary() || log.is_empty() {
        return Err(format!("{} holds no text to write an entry from", path.display()));
    }
    let today = jiff::Zoned::now().strftime("%Y-%m-%d").to_string();
    Ok((crate::knowledge::draft::from_log(&log, &today), true))
}

fn word(oom: Oom) -> &'static str {
    match oom {
        Oom::Yes => "yes",
        Oom::Maybe => "maybe",
        Oom::No => "no",
    }
}

fn show(base: &KnowledgeBase, id: &str) -> Result<(String, bool), String> {
    let Some(entry) = base.entry_named(id) else {
        let near: Vec<&str> =
            base.entries.iter().map(|entry| entry.id.as_str()).filter(|known| known.contains(id)).collect();
        let hint = if near.is_empty() {
            "`oomdoctor kb list` lists them".to_string()
        } else {
            format!("did you mean {}?", near.join(", "))
        };
        return Ok((format!("There is no entry {id}; {hint}\n"), false));
    };
    let page = page::of_entry(base, entry);
    Ok((page.lines(PAGE_COLUMNS).iter().map(|(_, line)| format!("{line}\n")).collect(), true))
}

fn check(global: &Global, dir: Option<&Path>, list_stale: bool) -> Result<(String, bool), String> {
    let base = with_folder(load::embedded_whole(), dir.or(global.knowledge.as_deref()))?;
    let faults = lint::judge(&base);
    let mut text: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    let examples: usize = base.entries.iter().map(|entry| entry.matches.len() + entry.rejects.len()).sum();
    text.push_str(&format!(
        "{} entries, {} fixes, {examples} examples: {}\n",
        base.entries.len(),
        base.fixes.len(),
        if faults.is_empty() { "all as they should be".to_string() } else { format!("{} faults", faults.len()) }
    ));
    let stale = lint::stale(&base, jiff::Zoned::now().date());
    if list_stale {
        text.extend(stale.iter().map(|fault| format!("{fault}\n")));
    } else if !stale.is_empty() {
        text.push_str(&format!(
            "{} references nobody has opened within a year: `kb check --stale` lists them\n",
            stale.len()
        ));
    }
    Ok((text, faults.is_empty()))
}
