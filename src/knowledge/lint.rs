//! Owns checking entries: the shipped engine reads every entry's examples, also as pasting changes them, and logs in
//! which nothing failed. `kb check` and the tests apply the same rules.

use std::fmt;

use serde_json::Value;

use super::KnowledgeBase;
use super::diagnosis::{Diagnosis, Match, Oom};
use super::entry::{Entry, Example};
use super::facts::FACT_KEYS;
use super::fix::{Fix, FixCommand, Moves, NOT_YET, PLACEHOLDERS, Reference, substitute};
use super::guide::Question;
use super::limit::{self, Limit};
use super::settings::{self, Asked, Way};
use super::sign::Sign;
use crate::ids::FixId;
use crate::log::PastedLog;
use crate::text::broken;
use crate::units::{Bytes, UnitBase};

/// Something that is wrong with an entry, a fix or a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The entry's or the fix's id.
    pub of: String,
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.of, self.what)
    }
}

/// Everything that is wrong with a knowledge base.
pub fn judge(base: &KnowledgeBase) -> Vec<Fault> {
    let entries = base.entries.iter().flat_map(|entry| faults(&entry.id.to_string(), of_entry(base, entry)));
    let fixes = base.fixes.iter().flat_map(|fix| faults(&format!("fixes/{}", fix.id), of_fix(base, fix)));
    let signs = base.signs().iter().flat_map(|sign| faults(&format!("sign \"{}\"", sign.that), of_sign(base, sign)));
    let limits =
        limit::all().iter().flat_map(|limit| faults(&format!("limits.ron {}", limit.id), of_limit(base, limit)));
    let questions = base.questions.iter();
    let questions = questions.flat_map(|one| faults(&format!("questions.ron {}", one.id), of_question(base, one)));
    let innocent = base.innocent.iter().flat_map(|source| {
        let diagnosis = base.diagnose(&PastedLog::new(source.text.clone()), None);
        diagnosis.matches.into_iter().map(|one| Fault {
            of: one.entry.to_string(),
            what: format!("cries wolf over {} line {}: {}", source.path, one.line, one.text),
        })
    });
    entries.chain(fixes).chain(signs).chain(limits).chain(questions).chain(innocent).collect()
}

fn faults(of: &str, found: Vec<String>) -> Vec<Fault> {
    found.into_iter().map(|what| Fault { of: of.to_owned(), what }).collect()
}

fn of_entry(base: &KnowledgeBase, entry: &Entry) -> Vec<String> {
    let mut found = form(base, entry);
    if found.is_empty() {
        let all = entry.matches.iter().enumerate();
        found.extend(all.flat_map(|(number, example)| examples(base, entry, number, example)));
        found.extend(near_misses(base, entry));
    }
    found
}

fn of_limit(base: &KnowledgeBase, limit: &Limit) -> Vec<String> {
    let mut found = undated(opened(&limit.references));
    found.extend(missing_fixes(base, &limit.fixes));
    let is_told = base.entries.iter().flat_map(|entry| &entry.tells).any(|tells| tells.limit == Some(limit));
    if !is_told && limit.cgroups.is_empty() && limit.id != limit::ADDRESS_SPACE {
        found.push("no entry tells of it".into());
    }
    found
}

fn of_question(base: &KnowledgeBase, question: &Question) -> Vec<String> {
    let mut found = undated(&question.references);
    found.extend(lacks_references(&question.references));
    if !base.entries.iter().any(|entry| entry.questions.contains(&question.id)) {
        found.push("no entry names it".into());
    }
    found
}

/// References that nobody has opened in the year before `today`, or ever. They are not wrong, but need a check.
pub fn stale(base: &KnowledgeBase, today: jiff::civil::Date) -> Vec<Fault> {
    let a_year_ago = today.checked_sub(jiff::Span::new().years(1)).unwrap_or(today);
    let entries = base.entries.iter().map(|entry| (entry.id.to_string(), &entry.references));
    let fixes = base.fixes.iter().map(|fix| (format!("fixes/{}", fix.id), &fix.references));
    let questions = base.questions.iter().map(|one| (format!("questions.ron {}", one.id), &one.references));
    let mut faults = Vec::new();
    for (of, references) in entries.chain(fixes).chain(questions) {
        let old = references.iter().filter(|reference| reference.date().is_none_or(|date| date < a_year_ago));
        faults.extend(old.map(|reference| Fault { of: of.clone(), what: reference.to_string() }));
    }
    faults
}

/// What is wrong with an entry before any log is read.
fn form(base: &KnowledgeBase, entry: &Entry) -> Vec<String> {
    let mut faults: Vec<String> = entry
        .patterns()
        .filter_map(|pattern| pattern.check().err().map(|error| format!("pattern {:?}: {error}", pattern.source())))
        .collect();
    faults.extend(missing_fixes(base, &entry.fixes));
    let named = entry.draws_on.iter().chain(&entry.refines).chain(&entry.related).map(|id| id.as_str());
    let named = entry.masks.iter().map(String::as_str).chain(named);
    let missing = named.filter(|id| !id.ends_with("/*") && base.entry_named(id).is_none());
    faults.extend(missing.map(|id| format!("there is no entry {id}")));
    let missing = entry.questions.iter().filter(|id| base.question(id).is_none());
    faults.extend(missing.map(|id| format!("there is no question {id}")));
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
    // An entry's address that nobody has opened may say so; a fix's commands must have been looked up.
    faults.extend(undated(opened(&entry.references)));
    faults.extend(lacks_references(&entry.references));
    if entry.title.contains("TODO") || entry.why.contains("TODO") {
        faults.push("is a draft: fill in what says TODO".into());
    }
    faults
}

fn missing_fixes<'f>(base: &KnowledgeBase, ids: impl IntoIterator<Item = &'f FixId>) -> Vec<String> {
    let missing = ids.into_iter().filter(|id| base.fix(**id).is_none());
    missing.map(|id| format!("there is no fix {id}")).collect()
}

/// The references that somebody has opened.
fn opened(references: &[Reference]) -> impl Iterator<Item = &Reference> {
    references.iter().filter(|reference| reference.checked != NOT_YET)
}

fn lacks_references(references: &[Reference]) -> Option<String> {
    references.is_empty().then(|| "needs a reference".to_owned())
}

fn undated<'r>(references: impl IntoIterator<Item = &'r Reference>) -> Vec<String> {
    references
        .into_iter()
        .filter(|reference| reference.date().is_none())
        .map(|reference| format!("{} has no date of the form 2026-11-20", reference.source))
        .collect()
}

/// What is wrong with a sign: its patterns, its fixes, or its example, which must show it.
fn of_sign(base: &KnowledgeBase, sign: &Sign) -> Vec<String> {
    let mut faults = undated(&sign.references);
    faults.extend(lacks_references(&sign.references));
    let compared = sign.exceeds.iter().flat_map(|(more, less)| [more, less]);
    let patterns = sign.shows.iter().chain(&sign.lacks);
    faults.extend(patterns.filter_map(|pattern| pattern.check().err()));
    let nameless = compared.filter(|one| !FACT_KEYS.contains(&one.source()) && !one.names().any(|name| name == "v"));
    faults.extend(nameless.map(|one| format!("{:?} is no figure and captures none as v", one.source())));
    let of_files = sign.not.iter().filter(|id| !FixId::WITHOUT_FILE.contains(id));
    faults.extend(missing_fixes(base, sign.fixes.iter().chain(of_files)));
    if sign.shows.is_empty() && sign.entries.is_empty() && sign.exceeds.is_empty() && sign.stages.is_empty() {
        faults.push("shows nothing: it needs a pattern, an entry or a stage".into());
    }
    let diagnosis = base.diagnose(&PastedLog::new(sign.example.clone()), None);
    if !diagnosis.signs.iter().any(|shown| shown.that == sign.that) {
        faults.push(match diagnosis.matches.first() {
            Some(found) => format!("its example is {} of {:?} and does not show it", found.entry, diagnosis.program),
            None => "its example matches no entry".into(),
        });
    }
    faults
}

fn of_fix(base: &KnowledgeBase, fix: &Fix) -> Vec<String> {
    let mut faults = undated(&fix.references);
    faults.extend(lacks_references(&fix.references));
    faults.extend(missing_fixes(base, fix.covers.iter().chain(&fix.replaces)));
    if base.fixes.iter().filter(|other| other.id == fix.id).count() > 1 {
        faults.push("two fixes have this id".into());
    }
    let texts = fix.commands.iter().flat_map(|form| form.command.iter().chain(&form.otherwise).chain([&form.action]));
    for text in texts {
        faults.extend(unknown_placeholders(text).into_iter().map(|name| format!("{{{name}}} is no placeholder")));
    }
    for form in &fix.commands {
        faults.extend(numbers(fix, form).into_iter().map(|what| format!("for {}: {what}", form.program)));
    }
    if fix.commands.is_empty() {
        faults.push("needs a command".into());
    }
    faults
}

/// A literal number in a command is wrong for a person whose value is already better. So a number is asked for by
/// `{lower:…}` or `{raise:…}`, or `constants` gives its reason. 0 and 1 need none: they are switches or minimums.
fn numbers(fix: &Fix, form: &FixCommand) -> Vec<String> {
    let mut faults = Vec::new();
    let mut unused: Vec<&str> = form.constants.keys().map(String::as_str).collect();
    for text in form.command.iter().chain(&form.otherwise) {
        for (name, _) in text.split('{').skip(1).filter_map(|rest| rest.split_once('}')) {
            let Some(Asked { way, otherwise, .. }) = Asked::of(name) else { continue };
            let moves = form.moves.unwrap_or(fix.moves);
            let against = (way == Way::Lower && moves == Moves::Up) || (way == Way::Raise && moves == Moves::Down);
            if against && name != "raise:accumulation" {
                faults.push(format!("{{{name}}} goes against the fix, which moves {moves:?}"));
            }
            unused.retain(|number| Some(*number) != otherwise);
            if let Some(number) = otherwise.filter(|number| !is_least(number) && !form.constants.contains_key(*number))
            {
                faults.push(format!("nothing says why {number} is right where {{{name}}} is not known"));
            }
        }
        for number in bare_numbers(text) {
            unused.retain(|constant| *constant != number);
            if !is_least(&number) && !form.constants.contains_key(&number) {
                faults.push(format!("nothing says why it is {number}, whatever the present value is"));
            }
        }
    }
    faults.extend(unused.into_iter().map(|number| format!("{number} is a constant of no command")));
    for (id, text) in &form.defaults {
        match settings::of(id) {
            None => faults.push(format!("there is no setting {id}")),
            Some(setting) if setting.parse(text).is_none() => faults.push(format!("{id} is never {text}")),
            Some(_) => {}
        }
    }
    faults
}

fn is_least(number: &str) -> bool {
    matches!(number, "0" | "1")
}

/// The numbers of a command that are values, with their units; placeholders and what belongs to a word, a path or
/// an address are none.
fn bare_numbers(text: &str) -> Vec<String> {
    let plain = substitute(text, &|_| Some("x".to_owned())).unwrap_or_default();
    let words = plain.split(|c: char| c.is_whitespace() || "=,:()[]{}\"'*".contains(c));
    // The heap's option takes its value without anything in between.
    let words = words.map(|word| ["-Xmx", "-j"].into_iter().find_map(|glued| word.strip_prefix(glued)).unwrap_or(word));
    words.filter(|word| is_value(word)).map(str::to_owned).collect()
}

/// A number, perhaps with a unit.
fn is_value(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let is_unit =
        unit.is_empty() || unit == "%" || unit.len() <= 3 && unit.starts_with(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T']);
    unit.len() < word.len() && word.chars().any(|c| c.is_ascii_digit()) && is_unit
}

/// `{name}` in lower case that is no placeholder; JSON's braces are not meant.
fn unknown_placeholders(text: &str) -> Vec<String> {
    let names = text.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    names
        .map(|(name, _)| name.to_string())
        .filter(|name| {
            let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            is_plain || name.starts_with("lower:") || name.starts_with("raise:")
        })
        .filter(|name| !PLACEHOLDERS.contains(&name.as_str()) && Asked::of(name).is_none())
        .collect()
}

/// An example and all its mangled forms.
fn examples(base: &KnowledgeBase, entry: &Entry, number: usize, example: &Example) -> Vec<String> {
    let diagnosis = base.diagnose(&PastedLog::new(example.log.clone()), None);
    let mut faults: Vec<String> =
        verdict(entry, example, &diagnosis).into_iter().map(|what| format!("example {number}: {what}")).collect();
    faults.extend(rivals(base, entry, &diagnosis).into_iter().map(|what| format!("example {number}: {what}")));
    let log = example.log.to_ascii_lowercase();
    if !entry.literals.iter().any(|literal| log.contains(&literal.to_ascii_lowercase())) {
        faults.push(format!("example {number} contains none of the literals"));
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

/// Other entries that match the same line with the same certainty, so that chance decides which one leads.
fn rivals(base: &KnowledgeBase, entry: &Entry, diagnosis: &Diagnosis) -> Vec<String> {
    let Some(leading) = diagnosis.matches.first() else { return Vec::new() };
    let others = diagnosis.matches.iter().skip(1);
    let rivals = others.filter(|one| {
        one.line == leading.line && one.certainty >= leading.certainty && !is_explained(base, entry, one)
    });
    rivals.map(|one| format!("{} claims the same line as surely; one of them must mask the other", one.entry)).collect()
}

/// Whether the entry says why the other one also matches; one with another answer is no rival.
fn is_explained(base: &KnowledgeBase, entry: &Entry, other: &Match) -> bool {
    base.entry(other.entry)
        .is_none_or(|other| other.oom != entry.oom || entry.masks(other) || entry.refines.contains(&other.id))
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
            Some(fact) if !same(key, &fact, text, entry.units) => faults.push(format!("{key} is {fact}, not {text}")),
            Some(_) => {}
        }
    }
    faults.extend(got.into_iter().map(|(key, fact)| format!("{key}: {fact} is not asked for")));
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
    let processes = text.split(", ").filter_map(|pair| {
        let (pid, bytes) = pair.split_once(':')?;
        Some(format!("{}: {}", pid.trim(), Bytes::parse(bytes, UnitBase::Binary)?.0))
    });
    processes.collect::<Vec<_>>().join(", ")
}

/// Whether a figure is the one that this text prints.
fn same(key: &str, figure: &Value, text: &str, units: UnitBase) -> bool {
    match figure.as_str() {
        Some(word) => word == text,
        None if key.ends_with("_bytes") => Bytes::parse(text, units).map(|bytes| bytes.0) == figure.as_u64(),
        None => text.parse().ok() == figure.as_i64(),
    }
}

/// The forms that pasting gives a log. All of them must be read alike.
fn mangled(log: &str) -> Vec<(&'static str, String)> {
    let lines: Vec<&str> = log.lines().collect();
    vec![
        ("with CRLF", lines.join("\r\n")),
        ("with colours", behind("\u{1b}[1;31m\u{1b}[0m", &lines)),
        ("under docker compose", behind("worker-1  | ", &lines)),
        ("under Kubernetes", behind("2026-11-20T10:00:00.000000000Z stdout F ", &lines)),
        ("wrapped at 80", wrapped(&lines, 80)),
        ("with a prompt after it", format!("{log}\nuser@box:~$ ")),
    ]
}

fn behind(prefix: &str, lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{prefix}{line}\n")).collect()
}

fn wrapped(lines: &[&str], width: usize) -> String {
    lines.iter().flat_map(|line| broken(line, width)).map(|row| row + "\n").collect()
}

/// A near miss must not be taken for this entry.
fn near_misses(base: &KnowledgeBase, entry: &Entry) -> Vec<String> {
    let misses = entry.rejects.iter().enumerate().filter_map(|(number, miss)| {
        let diagnosis = base.diagnose(&PastedLog::new(miss.log.clone()), None);
        let is_taken = diagnosis.matches.first()?.entry == entry.id && diagnosis.oom == entry.oom;
        is_taken.then(|| format!("near miss {number} is taken for it ({})", miss.why))
    });
    misses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::FixId;

    #[test]
    fn a_number_by_itself_is_found_whatever_its_form() {
        for (command, numbers) in [
            ("java -Xmx16g", vec!["16g"]),
            ("#SBATCH --mem=64G", vec!["64G"]),
            ("vllm serve MODEL --max-num-seqs 64 --max-num-batched-tokens {lower:max_num_batched_tokens}", vec!["64"]),
            ("per_device_train_batch_size={lower:batch}, gradient_accumulation_steps=4", vec!["4"]),
            (r#"max_memory={0: "20GiB", "cpu": "60GiB"}"#, vec!["0", "20GiB", "60GiB"]),
            (r#"CUPY_GPU_MEMORY_LIMIT="95%""#, vec!["95%"]),
            ("XLA_PYTHON_CLIENT_MEM_FRACTION=.90", vec![".90"]),
            ("llama-server -m MODEL.gguf -fa on -ctk q8_0 -c {half_context}", vec![]),
            ("adapter: qlora\nload_in_4bit: true", vec![]),
        ] {
            let found: Vec<String> = bare_numbers(command);
            assert_eq!(found, numbers, "{command}");
        }
    }

    #[test]
    fn a_fix_whose_number_has_no_reason_or_goes_against_it_is_at_fault() {
        let base = KnowledgeBase::built_in_with_examples().unwrap();
        let with = |command: &str| {
            let mut fix = base.fix(FixId::RAISE_LIMIT).unwrap().clone();
            let mut form = fix.commands[0].clone();
            form.command = Some(command.to_owned());
            fix.commands = vec![form];
            of_fix(&base, &fix)
        };
        assert_eq!(with("java -Xmx{raise:java_heap}"), Vec::<String>::new());
        for command in
            ["java -Xmx16g", "java -Xmx{lower:java_heap}", "java -Xmx{raise:heap}", "java -Xmx{raise:java_heap|16g}"]
        {
            assert!(!with(command).is_empty(), "{command}");
        }
    }
}
