//! Owns the judge of entries: the shipped engine on every entry's own examples, on everyone else's, on each example as
//! pasting mangles it, and on innocent logs. `kb check` and the tests run the same rules.

use std::fmt;

use super::KnowledgeBase;
use super::diagnosis::{Diagnosis, Match, Oom};
use super::entry::{Entry, Example};
use super::facts::Fact;
use super::fix::{Fix, NOT_YET, PLACEHOLDERS, Reference};
use crate::log::PastedLog;
use crate::units::{Bytes, UnitBase};

/// Something an entry or a fix has wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The entry's or the fix's id.
    pub of: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.of, self.what)
    }
}

/// Everything that is wrong with a knowledge base.
pub fn judge(base: &KnowledgeBase) -> Vec<Fault> {
    let mut faults = Vec::new();
    for entry in base.entries() {
        let mut found = form(base, entry);
        if found.is_empty() {
            found.extend(
                entry.matches.iter().enumerate().flat_map(|(number, example)| examples(base, entry, number, example)),
            );
            found.extend(near_misses(base, entry));
        }
        faults.extend(found.into_iter().map(|what| Fault { of: entry.id.clone(), what }));
    }
    for fix in base.fixes() {
        faults.extend(fix_form(fix).into_iter().map(|what| Fault { of: format!("fixes/{}", fix.id), what }));
    }
    for question in base.questions() {
        let mut found = undated(&question.references, |_| false);
        if !base.entries().iter().any(|entry| entry.questions.contains(&question.id)) {
            found.push("no entry names it".into());
        }
        faults.extend(found.into_iter().map(|what| Fault { of: format!("questions.ron {}", question.id), what }));
    }
    for source in &base.innocent {
        let diagnosis = base.diagnose(&PastedLog::new(source.text.clone()), None);
        faults.extend(diagnosis.matches.iter().map(|one| Fault {
            of: one.entry.clone(),
            what: format!("cries wolf over {} line {}: {}", source.path, one.line, one.text),
        }));
    }
    faults
}

/// References that nobody has opened for a year before `today`, or ever: not wrong, but to be looked at.
pub fn stale(base: &KnowledgeBase, today: jiff::civil::Date) -> Vec<Fault> {
    let a_year_ago = today.checked_sub(jiff::Span::new().years(1)).unwrap_or(today);
    let old = |reference: &&Reference| match reference.checked.parse::<jiff::civil::Date>() {
        Ok(date) => date < a_year_ago,
        Err(_) => true,
    };
    let entries = base.entries().iter().map(|entry| (entry.id.clone(), &entry.references));
    let fixes = base.fixes().iter().map(|fix| (format!("fixes/{}", fix.id), &fix.references));
    let questions = base.questions().iter().map(|one| (format!("questions.ron {}", one.id), &one.references));
    let all = entries.chain(fixes).chain(questions);
    all.flat_map(|(of, references)| {
        references.iter().filter(old).map(move |reference| Fault { of: of.clone(), what: reference.to_string() })
    })
    .collect()
}

/// What is wrong with an entry before any log is read.
fn form(base: &KnowledgeBase, entry: &Entry) -> Vec<String> {
    let mut faults: Vec<String> = entry
        .patterns()
        .filter_map(|pattern| pattern.check().err().map(|error| format!("pattern {:?}: {error}", pattern.source())))
        .collect();
    faults.extend(entry.fixes.iter().filter(|id| base.fix(id).is_none()).map(|id| format!("there is no fix {id}")));
    let known = |mask: &&String| base.entries().iter().any(|other| other.id == **mask || mask.ends_with("/*"));
    faults.extend(
        entry
            .masks
            .iter()
            .chain(&entry.draws_on)
            .chain(&entry.refines)
            .chain(&entry.related)
            .filter(|id| !known(id))
            .map(|id| format!("there is no entry {id}")),
    );
    faults.extend(
        entry.questions.iter().filter(|id| base.question(id).is_none()).map(|id| format!("there is no question {id}")),
    );
    if entry.related.contains(&entry.id) {
        faults.push("is related to itself".into());
    }
    if entry.matches.len() < 2 {
        faults.push("needs at least two examples".into());
    }
    if entry.rejects.len() < 2 {
        faults.push("needs at least two near misses".into());
    }
    if (entry.oom == Oom::Yes) != (entry.memory.is_some() && entry.oom == Oom::Yes) {
        faults.push("a yes says which memory ran out".into());
    }
    if entry.oom != Oom::Yes && entry.remark.is_none() {
        faults.push("a maybe or no says why in `remark`".into());
    }
    faults.extend(undated(&entry.references, |text| text == NOT_YET));
    faults
}

/// An entry's address that nobody has opened may say so; a fix's commands must have been looked up.
fn undated(references: &[Reference], or: impl Fn(&str) -> bool) -> Vec<String> {
    let dated = |text: &str| text.parse::<jiff::civil::Date>().is_ok() || or(text);
    let mut faults: Vec<String> = references
        .iter()
        .filter(|reference| !dated(&reference.checked))
        .map(|reference| format!("{} has no date of the form 2026-11-20", reference.source))
        .collect();
    if references.is_empty() {
        faults.push("needs a reference".into());
    }
    faults
}

fn fix_form(fix: &Fix) -> Vec<String> {
    let mut faults = undated(&fix.references, |_| false);
    let texts = fix.commands.iter().flat_map(|command| command.command.iter().chain([&command.action]));
    for text in texts {
        faults.extend(unknown_placeholders(text).into_iter().map(|name| format!("{{{name}}} is no placeholder")));
    }
    if fix.commands.is_empty() {
        faults.push("needs a command".into());
    }
    faults
}

/// `{name}` in lower case that is no placeholder; JSON's braces are not meant.
fn unknown_placeholders(text: &str) -> Vec<String> {
    let names = text.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    names
        .map(|(name, _)| name.to_string())
        .filter(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .filter(|name| !PLACEHOLDERS.contains(&name.as_str()))
        .collect()
}

/// An example and all its mangled forms.
fn examples(base: &KnowledgeBase, entry: &Entry, number: usize, example: &Example) -> Vec<String> {
    let diagnosis = base.diagnose(&PastedLog::new(example.log.clone()), None);
    let mut faults: Vec<String> =
        verdict(entry, example, &diagnosis).into_iter().map(|what| format!("example {number}: {what}")).collect();
    faults.extend(rivals(base, entry, &diagnosis).into_iter().map(|what| format!("example {number}: {what}")));
    if !entry.literals.iter().any(|literal| contains_ignoring_case(&example.log, literal)) {
        faults.push(format!("example {number} holds none of the literals"));
    }
    if faults.is_empty() {
        for (name, text) in mangled(&example.log) {
            let diagnosis = base.diagnose(&PastedLog::new(text), None);
            let what = verdict(entry, example, &diagnosis);
            faults.extend(what.into_iter().map(|what| format!("example {number} {name}: {what}")));
        }
    }
    faults
}

fn contains_ignoring_case(text: &str, literal: &str) -> bool {
    text.to_ascii_lowercase().contains(&literal.to_ascii_lowercase())
}

/// Another entry that claims the same line as surely: its leading would be chance.
fn rivals(base: &KnowledgeBase, entry: &Entry, diagnosis: &Diagnosis) -> Vec<String> {
    let Some(leading) = diagnosis.matches.first() else { return Vec::new() };
    let rival = |one: &&Match| {
        let explained = |other: &Entry| entry.masks(other) || entry.refines.contains(&other.id);
        let equal = one.line == leading.line && one.certainty >= leading.certainty;
        equal && base.entry(&one.entry).is_some_and(|other| other.oom == entry.oom && !explained(other))
    };
    let others = diagnosis.matches.iter().skip(1).filter(rival);
    others.map(|one| format!("{} claims the same line as surely; one of them must mask the other", one.entry)).collect()
}

/// What differs from what the example asks for.
fn verdict(entry: &Entry, example: &Example, diagnosis: &Diagnosis) -> Vec<String> {
    let leading = diagnosis.matches.first().map(|leading| leading.entry.as_str());
    if leading != Some(entry.id.as_str()) {
        return vec![format!("{} leads", leading.unwrap_or("nothing"))];
    }
    let mut faults = Vec::new();
    let oom = example.oom.unwrap_or(entry.oom);
    if diagnosis.oom != oom {
        faults.push(format!("says {:?}, not {oom:?}", diagnosis.oom));
    }
    if let Some(program) = example.program.as_deref().filter(|program| Some(*program) != diagnosis.program.as_deref()) {
        faults.push(format!("program is {:?}, not {program}", diagnosis.program));
    }
    let mut got = diagnosis.facts.listed();
    for (key, text) in example.facts.iter().filter(|(key, _)| *key != "other_processes") {
        let place = got.iter().position(|(name, _)| name == key);
        match place.map(|place| got.swap_remove(place).1) {
            None => faults.push(format!("{key} not found")),
            Some(fact) if !same(&fact, text, entry.units) => faults.push(format!("{key} is {fact:?}, not {text}")),
            Some(_) => {}
        }
    }
    faults.extend(got.into_iter().map(|(key, fact)| format!("{key}: {fact:?} is not asked for")));
    let processes: Vec<String> =
        diagnosis.facts.other_processes.iter().map(|process| format!("{}: {}", process.pid, process.bytes.0)).collect();
    let wanted = example.facts.get("other_processes").map(String::as_str).unwrap_or_default();
    if processes.join(", ") != processes_in_bytes(wanted) {
        faults.push(format!("other processes are {}, not {wanted}", processes.join(", ")));
    }
    faults
}

/// `4242: 11.23 GiB, 77: 1 GiB` with sizes in bytes.
fn processes_in_bytes(text: &str) -> String {
    let one = |pair: &str| {
        let (pid, bytes) = pair.split_once(':')?;
        Some(format!("{}: {}", pid.trim(), Bytes::parse(bytes, UnitBase::Binary)?.0))
    };
    text.split(", ").filter_map(one).collect::<Vec<_>>().join(", ")
}

fn same(fact: &Fact, text: &str, units: UnitBase) -> bool {
    match fact {
        Fact::Size(bytes) => Bytes::parse(text, units) == Some(*bytes),
        Fact::Count(number) => text.parse() == Ok(*number),
        Fact::Word(word) => word == text,
    }
}

/// The log as pasting mangles it; every form says the same.
fn mangled(log: &str) -> Vec<(&'static str, String)> {
    let lines: Vec<&str> = log.lines().collect();
    let each = |prefix: &str| lines.iter().map(|line| format!("{prefix}{line}\n")).collect::<String>();
    vec![
        ("with CRLF", lines.join("\r\n")),
        ("with colours", each("\u{1b}[1;31m\u{1b}[0m")),
        ("under docker compose", each("worker-1  | ")),
        ("under Kubernetes", each("2026-11-20T10:00:00.000000000Z stdout F ")),
        ("wrapped at 80", wrapped(&lines, 80)),
        ("with a prompt after it", format!("{log}\nuser@box:~$ ")),
    ]
}

fn wrapped(lines: &[&str], width: usize) -> String {
    let mut out = String::new();
    for line in lines {
        for (index, c) in line.chars().enumerate() {
            if index > 0 && index % width == 0 {
                out.push('\n');
            }
            out.push(c);
        }
        out.push('\n');
    }
    out
}

/// A near miss must not be taken for this entry.
fn near_misses(base: &KnowledgeBase, entry: &Entry) -> Vec<String> {
    let taken = |(number, miss): (usize, &super::entry::NearMiss)| {
        let diagnosis = base.diagnose(&PastedLog::new(miss.log.clone()), None);
        let leading = diagnosis.matches.first()?;
        (leading.entry == entry.id && diagnosis.oom == entry.oom)
            .then(|| format!("near miss {number} is taken for it ({})", miss.why))
    };
    entry.rejects.iter().enumerate().filter_map(taken).collect()
}
