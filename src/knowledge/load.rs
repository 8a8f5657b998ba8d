//! Owns parsing files into entries, fixes and tables, whether the build embedded them or a folder has them. It reads
//! no file itself.

use std::borrow::Cow;

use ron::extensions::Extensions;
use serde::de::DeserializeOwned;

use super::entry::Entry;
use super::fix::Fix;
use super::guide::{Question, Term};
use super::pattern;
use super::program::ProgramRule;
use super::recognize::PhaseRule;
use super::release::Release;
use super::run::RunRule;
use super::settings;
use super::sign::Sign;
use super::version::VersionRule;
use crate::effort;
use crate::ids::{EntryId, FixId};
use crate::packed;

/// What a reading needs of the folder knowledge/, packed by `build.rs`.
static EMBEDDED: &str = include_str!(concat!(env!("OUT_DIR"), "/knowledge.json"));

/// The same folder as it stands, compressed.
static WHOLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/knowledge"));

/// A file of a knowledge base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Relative to the knowledge folder, with `/`.
    pub path: String,
    pub text: Cow<'static, str>,
    pub form: Form,
}

/// How the values of a file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As people write them.
    Ron,
    /// As `build.rs` packs them.
    Json,
}

/// What a file is, by its path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind<'a> {
    Entry(&'a str),
    Fix(&'a str),
    /// What logs show beside a failure, by the file's name.
    Signs(&'a str),
    /// What is wrong with some versions, by the file's name.
    Releases(&'a str),
    /// A log in which nothing failed.
    Innocent(&'a str),
    /// Models, names of processes, what a report leaves out and the tables of advice, which are read elsewhere; files of no
    /// known kind.
    Other(&'a str),
}

impl Source {
    /// A file as people write it.
    pub fn ron(path: impl Into<String>, text: impl Into<Cow<'static, str>>) -> Source {
        Source { path: path.into(), text: text.into(), form: Form::Ron }
    }

    /// Reads today's layout, `entries/FOLDER/NAME.ron` and `innocent/NAME`, as well as the one before it, which has
    /// the folders of the entries beside `fixes` and calls the other one `_innocent`.
    fn kind(&self) -> Kind<'_> {
        let path = self.path.as_str();
        let Some(stem) = path.strip_suffix(".ron") else {
            return match path.split_once('/') {
                Some(("innocent" | "_innocent", name)) => Kind::Innocent(name),
                _ => Kind::Other(path),
            };
        };
        match stem.split_once('/') {
            Some(("fixes", id)) => Kind::Fix(id),
            Some(("signs", name)) => Kind::Signs(name),
            Some(("releases", name)) => Kind::Releases(name),
            Some(("advice" | "memory" | "models" | "redact", _)) => Kind::Other(path),
            None if stem == "processes" => Kind::Other(path),
            Some(("entries", id)) => Kind::Entry(id),
            _ => Kind::Entry(stem),
        }
    }
}

/// Why a file of a knowledge base can't be used.
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

/// The files built into the program, as each start parses them: without what only checks need (`embedded_whole`).
pub fn embedded() -> Vec<Source> {
    sources(EMBEDDED, Form::Json)
}

/// The files built into the program, for checks.
pub fn embedded_whole() -> Vec<Source> {
    sources(packed::inflated(WHOLE), Form::Ron)
}

fn sources(packed: &'static str, form: Form) -> Vec<Source> {
    packed::files(packed)
        .into_iter()
        .map(|(path, text)| Source { path: path.to_owned(), text: text.into(), form })
        .collect()
}

/// The built-in files with those of a folder: a file that is the same entry, fix or table takes the built-in one's place.
pub fn with_added(mut built_in: Vec<Source>, added: Vec<Source>) -> Vec<Source> {
    built_in.retain(|source| added.iter().all(|own| own.kind() != source.kind()));
    built_in.extend(added);
    built_in
}

#[derive(Debug, Default)]
pub struct Loaded {
    pub entries: Vec<Entry>,
    pub fixes: Vec<Fix>,
    pub programs: Vec<ProgramRule>,
    pub phases: Vec<PhaseRule>,
    pub runs: Vec<RunRule>,
    pub versions: Vec<VersionRule>,
    pub signs: Vec<Sign>,
    pub questions: Vec<Question>,
    pub glossary: Vec<Term>,
    pub innocent: Vec<Source>,
}

/// What the files say, or the first thing wrong with them.
pub fn load(mut sources: Vec<Source>) -> Result<Loaded, LoadError> {
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    let (entries, others): (Vec<_>, Vec<_>) =
        sources.into_iter().partition(|source| matches!(source.kind(), Kind::Entry(_)));
    let (entries, others) = effort::both(|| Loaded::parse(&entries), || Loaded::parse(&others));
    let mut loaded = entries?;
    let others = others?;
    (loaded.fixes, loaded.signs, loaded.innocent) = (others.fixes, others.signs, others.innocent);
    loaded.entries.sort_by_key(|entry| entry.id);
    loaded.fixes.sort_by_key(|fix| fix.id);
    loaded.glossary.sort_by_key(|term| term.term.to_lowercase());
    Ok(loaded)
}

impl Loaded {
    fn parse(sources: &[Source]) -> Result<Loaded, LoadError> {
        let mut loaded = Loaded::default();
        for source in sources {
            match source.kind() {
                Kind::Entry("programs") => loaded.programs = parse(source)?,
                Kind::Entry("phases") => loaded.phases = parse(source)?,
                Kind::Entry("run") => loaded.runs = parse(source)?,
                Kind::Entry("versions") => loaded.versions = parse(source)?,
                Kind::Entry("questions") => loaded.questions = parse(source)?,
                Kind::Entry("glossary") => loaded.glossary = parse(source)?,
                Kind::Entry("patterns") => is_built_in(source, pattern::NAMED_TEXT)?,
                Kind::Entry("settings") => is_built_in(source, settings::TABLE)?,
                Kind::Entry(id) => loaded.entries.push(entry(source, EntryId::new(id))?),
                Kind::Fix(id) => loaded.fixes.push(Fix { id: FixId::new(id), ..parse(source)? }),
                Kind::Signs(_) => loaded.signs.extend(parse::<Vec<Sign>>(source)?),
                Kind::Releases(_) => loaded.add_releases(parse(source)?),
                Kind::Innocent(_) => loaded.innocent.push(source.clone()),
                Kind::Other(_) => {}
            }
        }
        Ok(loaded)
    }

    fn add_releases(&mut self, releases: Vec<Release>) {
        for (sign, fix) in releases.into_iter().map(Release::into_parts) {
            self.signs.push(sign);
            self.fixes.push(fix);
        }
    }
}

/// Fails for a table that differs from the one that the program was built with and always uses.
fn is_built_in(source: &Source, built_in: &str) -> Result<(), LoadError> {
    if source.text == built_in {
        return Ok(());
    }
    let message = "these are part of the program: build it with this file".to_owned();
    Err(LoadError { path: source.path.clone(), line: 1, column: 1, message })
}

fn entry(source: &Source, id: EntryId) -> Result<Entry, LoadError> {
    let entry = Entry { id, ..parse(source)? };
    if entry.literals.is_empty() || entry.when.any.is_empty() && entry.when.all.is_empty() {
        let message = "an entry needs literals and a pattern under `any` or `all`".to_owned();
        return Err(LoadError { path: source.path.clone(), line: 1, column: 1, message });
    }
    Ok(entry)
}

fn parse<T: DeserializeOwned>(source: &Source) -> Result<T, LoadError> {
    if source.form == Form::Json {
        return serde_json::from_str(&source.text).map_err(|error| LoadError {
            path: source.path.clone(),
            line: error.line(),
            column: error.column(),
            message: error.to_string(),
        });
    }
    let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
    options.from_str(&source.text).map_err(|error| LoadError {
        path: source.path.clone(),
        line: error.span.start.line,
        column: error.span.start.col,
        message: error.code.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::ron(path, text.to_owned())
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_place() {
        let error = load(vec![source("a/b.ron", "(\n  title: \"x\",\n  colour: \"red\",\n)")]).err().unwrap();
        assert_eq!((error.path.as_str(), error.line), ("a/b.ron", 3));
        assert!(error.message.contains("colour"), "{error}");
    }

    #[test]
    fn a_folder_of_either_layout_replaces_the_built_in_files_of_the_same_id() {
        let built_in = load(embedded_whole()).unwrap();
        let text = "(title: \"Mine\", oom: no, status: Draft, certainty: likely, literals: [\"mine\"], \
                    when: (any: [\"mine\"]), remark: \"It is mine.\", why: \"It is mine.\", references: [], \
                    matches: [], rejects: [])";
        for path in ["entries/pytorch/cuda-out-of-memory.ron", "pytorch/cuda-out-of-memory.ron"] {
            let added = vec![source(path, text), source("_innocent/a.log", "all is well")];
            let loaded = load(with_added(embedded_whole(), added)).unwrap();
            assert_eq!(loaded.entries.len(), built_in.entries.len(), "{path}");
            let own = loaded.entries.iter().find(|entry| entry.id == EntryId::PYTORCH_CUDA_OUT_OF_MEMORY).unwrap();
            assert_eq!(own.title, "Mine", "{path}");
            assert_eq!(loaded.innocent.len(), built_in.innocent.len() + 1, "{path}");
        }
    }

    #[test]
    fn what_a_reading_needs_is_in_the_bare_files() {
        let mut whole = load(embedded_whole()).unwrap();
        whole.entries.iter_mut().for_each(|entry| entry.matches.truncate(1));
        whole.entries.iter_mut().for_each(|entry| entry.rejects.clear());
        whole.fixes.iter_mut().for_each(|fix| fix.references.clear());
        whole.signs.iter_mut().for_each(|sign| (sign.example, sign.references) = (String::new(), Vec::new()));
        whole.innocent.clear();
        let bare = format!("{:?}", load(embedded()).unwrap());
        // Both are megabytes long: only where they part is worth reading.
        let whole = format!("{whole:?}");
        let apart = bare.bytes().zip(whole.bytes()).take_while(|(one, other)| one == other).count();
        assert!(bare == whole, "they part at {:?}", whole.get(apart.saturating_sub(200)..apart + 200));
    }
}
