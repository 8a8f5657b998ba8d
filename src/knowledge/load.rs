//! Owns turning files into a knowledge base: what is embedded at build or what a folder holds, the same way, with the
//! same errors. Reads no file itself.

use std::borrow::Cow;
use std::thread;

use ron::extensions::Extensions;
use serde::de::DeserializeOwned;

use super::KnowledgeBase;
use super::entry::Entry;
use super::fix::Fix;
use super::guide::{Question, Term};
use super::id::{EntryId, FixId};
use super::matching::Finder;
use super::program::{PhaseRule, PhaseTable, ProgramRule, ProgramTable};
use super::run::RunRule;
use crate::packed;

/// The folder knowledge/, packed by `build.rs`.
static EMBEDDED: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/knowledge.0")),
    include_bytes!(concat!(env!("OUT_DIR"), "/knowledge.1")),
];

/// A file of a knowledge base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Relative to the knowledge folder, with `/`.
    pub path: String,
    pub text: Cow<'static, str>,
}

/// Why a knowledge base can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}:{column}: {message}")]
pub struct LoadError {
    pub path: String,
    /// Its line, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
    pub message: String,
}

impl LoadError {
    fn without_place(message: &str) -> LoadError {
        LoadError { path: "knowledge".into(), line: 0, column: 0, message: message.to_string() }
    }
}

/// The files built into the program. A half that can't be unpacked would be empty: a test holds that none is.
pub fn embedded() -> Vec<Source> {
    let [earlier, later] = EMBEDDED;
    thread::scope(|scope| {
        let other = thread::Builder::new().spawn_scoped(scope, || unpacked(later)).ok();
        let mut sources = unpacked(earlier);
        sources.extend(other.and_then(|other| other.join().ok()).unwrap_or_else(|| unpacked(later)));
        sources
    })
}

fn unpacked(half: &[u8]) -> Vec<Source> {
    packed::files(half).into_iter().map(|(path, text)| Source { path, text: text.into() }).collect()
}

/// What the files say, or the first thing wrong with them. Parsed on two threads: whoever waits for a verdict
/// waits for this, too.
pub fn load(mut sources: Vec<Source>) -> Result<KnowledgeBase, LoadError> {
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    let (earlier, later) = sources.split_at(sources.len() / 2);
    let (parts, more) = thread::scope(|scope| {
        let other = thread::Builder::new().spawn_scoped(scope, || Parts::parse(later)).ok();
        let own = Parts::parse(earlier);
        // A machine that starts no thread reads it all on this one.
        (own, other.and_then(|other| other.join().ok()).unwrap_or_else(|| Parts::parse(later)))
    });
    let mut parts = parts?;
    parts.join(more?);
    let Parts { entries, fixes, programs, phases, runs, questions, mut glossary, innocent } = parts;
    let finder = Finder::new(&entries).map_err(|message| LoadError::without_place(&message))?;
    let (programs, phases) = (ProgramTable::new(programs), PhaseTable::new(phases));
    glossary.sort_by_key(|term| term.term.to_lowercase());
    Ok(KnowledgeBase { entries, fixes, questions, glossary, programs, phases, runs, finder, innocent })
}

/// What some of the files say.
#[derive(Default)]
struct Parts {
    entries: Vec<Entry>,
    fixes: Vec<Fix>,
    programs: Vec<ProgramRule>,
    phases: Vec<PhaseRule>,
    runs: Vec<RunRule>,
    questions: Vec<Question>,
    glossary: Vec<Term>,
    innocent: Vec<Source>,
}

impl Parts {
    fn parse(sources: &[Source]) -> Result<Parts, LoadError> {
        let mut parts = Parts::default();
        for source in sources {
            let stem = source.path.strip_suffix(".ron").map(str::to_string);
            match stem {
                None if source.path.starts_with("_innocent/") => parts.innocent.push(source.clone()),
                None => {}
                // The table of models: src/memory/table.rs reads it.
                Some(stem) if stem.starts_with("models/") => {}
                Some(stem) => match stem.as_str() {
                    "programs" => parts.programs = parse(source)?,
                    "phases" => parts.phases = parse(source)?,
                    "run" => parts.runs = parse(source)?,
                    "questions" => parts.questions = parse(source)?,
                    "glossary" => parts.glossary = parse(source)?,
                    _ => match stem.strip_prefix("fixes/") {
                        Some(id) => parts.fixes.push(Fix { id: FixId::new(id), ..parse(source)? }),
                        None => parts.entries.push(entry(source, EntryId::new(&stem))?),
                    },
                },
            }
        }
        Ok(parts)
    }

    fn join(&mut self, more: Parts) {
        self.entries.extend(more.entries);
        self.fixes.extend(more.fixes);
        self.programs.extend(more.programs);
        self.phases.extend(more.phases);
        self.runs.extend(more.runs);
        self.questions.extend(more.questions);
        self.glossary.extend(more.glossary);
        self.innocent.extend(more.innocent);
    }
}

fn entry(source: &Source, id: EntryId) -> Result<Entry, LoadError> {
    let entry = Entry { id, ..parse(source)? };
    if entry.literals.is_empty() || entry.when.any.is_empty() && entry.when.all.is_empty() {
        return Err(at(source, "an entry needs literals and a pattern under `any` or `all`"));
    }
    Ok(entry)
}

fn parse<T: DeserializeOwned>(source: &Source) -> Result<T, LoadError> {
    let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
    options.from_str(&source.text).map_err(|error| LoadError {
        path: source.path.clone(),
        line: error.span.start.line,
        column: error.span.start.col,
        message: error.code.to_string(),
    })
}

fn at(source: &Source, message: &str) -> LoadError {
    LoadError { path: source.path.clone(), line: 1, column: 1, message: message.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_field_is_refused_with_its_place() {
        let text = "(\n  title: \"x\",\n  colour: \"red\",\n)".to_string();
        let error = load(vec![Source { path: "a/b.ron".into(), text: text.into() }]).unwrap_err();
        assert_eq!((error.path.as_str(), error.line), ("a/b.ron", 3));
        assert!(error.message.contains("colour"), "{error}");
    }
}
