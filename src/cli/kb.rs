//! Owns `oomdoctor kb`, which lists, shows and checks the entries of the knowledge base, built in or in a folder.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use super::output::{print, refuse, warn};
use super::settings::Global;
use super::suggest::{did_you_mean, nearest};
use crate::knowledge::lint;
use crate::knowledge::load::{self, Source};
use crate::knowledge::page;
use crate::knowledge::{KnowledgeBase, diagnosis::Oom};
use crate::log::PastedLog;
use crate::platform::{here, regular};
use crate::runtime::reader::{Loaded, Telling};
use crate::text::harmless;

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
        /// List only entries with this text in their id or title.
        filter: Option<String>,
        /// Print the literals that the first pass searches for instead, one a line.
        #[arg(long)]
        literals: bool,
    },
    /// Show one entry.
    Show {
        /// The entry's id, such as pytorch/cuda-out-of-memory.
        id: String,
    },
    /// Print a draft entry for a log that no entry matches.
    New {
        /// Read this log; its last line with an error word becomes the entry's message.
        #[arg(long, value_name = "LOG")]
        from: PathBuf,
    },
    /// Check every entry against its own examples and those of all other entries.
    Check {
        /// Check the entries in this folder beside the built-in ones.
        dir: Option<PathBuf>,
        /// Also list the references that were last checked over a year ago.
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
            if text.is_empty() {
                nothing_listed(base, filter.as_deref().unwrap_or_default());
            }
            let good = !text.is_empty();
            (text, good)
        }),
        KbCommand::New { from } => draft(from),
        KbCommand::Show { id } => base(global).map(|base| show(base, id)),
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
            Ok((built_in, Some(format!("Your own entries are ignored until you fix this: {error}"))))
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
                    "{} contains more than {MOST_FILES} files; name the folder of the entries",
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
        return Err(format!("{} contains no .ron files", root.display()));
    }
    Ok(sources)
}

fn cannot_read(path: &Path, error: &io::Error) -> String {
    format!("{} can't be read: {error}", path.display())
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
        return Err(format!("{} contains no text to draft an entry from", path.display()));
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

fn show(base: &KnowledgeBase, id: &str) -> (String, bool) {
    let Some(entry) = base.entry_named(id) else {
        warn(&format!("there is no entry `{}`{}", harmless(id), hint(base, id)));
        return (String::new(), false);
    };
    let page = page::of_entry(base, entry);
    (page.lines(PAGE_COLUMNS).iter().map(|(_, line)| format!("{line}\n")).collect(), true)
}

/// The most entries that a hint names.
const MOST_HINTS: usize = 5;

/// Which entry an unknown id may mean: those that contain it, else the one that is most like it or like its last part.
fn hint(base: &KnowledgeBase, id: &str) -> String {
    let ids = || base.entries.iter().map(|entry| entry.id.as_str());
    let containing: Vec<&str> = ids().filter(|known| known.contains(id)).take(MOST_HINTS).collect();
    if !containing.is_empty() && !id.is_empty() {
        return format!("; did you mean {}?", containing.join(", "));
    }
    if base.fixes.iter().any(|fix| fix.id.as_str() == id) {
        return format!(": `{id}` is a fix; `oomdoctor kb list` lists the entries");
    }
    let last_part = |known: &'static str| known.rsplit('/').next().unwrap_or(known);
    let by_last_part =
        || nearest(id, ids().map(last_part)).and_then(|near| ids().find(|known| last_part(known) == near));
    match nearest(id, ids()).or_else(by_last_part) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => "; `oomdoctor kb list` lists them".to_owned(),
    }
}

/// Says that no entry's id or title has this text.
fn nothing_listed(base: &KnowledgeBase, filter: &str) {
    let words = base.entries.iter().flat_map(|entry| entry.id.as_str().split(['/', '-']));
    let words: BTreeSet<&str> = words.collect();
    warn(&format!("no entry has `{}` in its id or title{}", harmless(filter), did_you_mean(filter, words)));
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
        if faults.is_empty() { "no faults".to_string() } else { format!("{} faults", faults.len()) }
    ));
    let stale = lint::stale(&base, jiff::Zoned::now().date());
    if list_stale {
        text.extend(stale.iter().map(|fault| format!("{fault}\n")));
    } else if !stale.is_empty() {
        text.push_str(&format!(
            "{} references were last checked over a year ago; `oomdoctor kb check --stale` lists them\n",
            stale.len()
        ));
    }
    Ok((text, faults.is_empty()))
}
