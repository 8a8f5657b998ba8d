//! Owns what changed since it worked: the differences between the run that failed and one that did not, as their logs
//! show them, and which of them explain the failure.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::knowledge::{Run, own_option};
use crate::memory::knob::Knob;
use crate::memory::knobs::{batch, batch_tokens, chunk, context, layers, share, slots};
use crate::units::Bytes;

/// One thing that differs between the two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// What differs, such as "context" or "PyTorch".
    pub what: String,
    /// As the log of the run that worked has it; null where it does not show it.
    pub before: Option<String>,
    /// As the log of the run that failed has it; null where it does not show it.
    pub now: Option<String>,
    /// Whether it makes the run need more memory, or leaves it less.
    pub explains: bool,
}

/// Which way a value makes a run fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fails {
    WithMore,
    WithLess,
    Unknown,
}

/// What a log may show of its run: what it is, its place in the JSON of a [`Run`], and which way it makes a run fail.
const SHOWN: [(&str, &str, Fails); 16] = [
    ("model", "/model", Fails::Unknown),
    ("quantization", "/quantisation", Fails::Unknown),
    ("data type", "/dtype", Fails::Unknown),
    ("KV cache type", "/kv_type", Fails::Unknown),
    ("share of the GPU", "/share", Fails::Unknown),
    ("context", "/context_tokens", Fails::WithMore),
    ("batch size", "/batch_size", Fails::WithMore),
    ("layers on the GPU", "/layers_offloaded/0", Fails::WithMore),
    ("trained parameters", "/trainable_parameters", Fails::WithMore),
    ("GPUs", "/devices", Fails::WithLess),
    ("GPUs that each layer is split over", "/tensor_parallel", Fails::WithLess),
    ("weights", "/weights_bytes", Fails::WithMore),
    ("KV cache", "/kv_cache_bytes", Fails::WithMore),
    ("compute buffers", "/compute_bytes", Fails::WithMore),
    ("model file", "/file_bytes", Fails::WithMore),
    ("free VRAM at start", "/free_at_start_bytes", Fails::WithLess),
];

/// A value that a log shows of its run.
struct Value {
    text: String,
    /// Its size, where values of it can be compared.
    size: Option<u64>,
    fails: Fails,
}

/// What differs between a run that worked and the one that failed; what explains the failure comes first. Versions
/// explain it where nothing else does.
pub fn since(worked: &Run, failed: &Run) -> Vec<Difference> {
    let (before, now) = (values(worked), values(failed));
    let mut differences: Vec<Difference> = now
        .iter()
        .filter_map(|(what, value)| difference(what, before.get(what)?, value))
        .chain(options(worked, failed))
        .collect();
    if !differences.iter().any(|one| one.explains) {
        let versions = differences.iter_mut().filter(|one| failed.versions.contains_key(&one.what));
        versions.for_each(|one| one.explains = true);
    }
    differences.sort_by_key(|one| !one.explains);
    differences
}

fn difference(what: &str, before: &Value, now: &Value) -> Option<Difference> {
    let explains = match now.fails {
        Fails::WithMore => now.size > before.size,
        Fails::WithLess => now.size < before.size,
        Fails::Unknown => false,
    };
    let (before, now) = (&before.text, &now.text);
    let differs = Difference { what: what.to_owned(), before: Some(before.clone()), now: Some(now.clone()), explains };
    (before != now).then_some(differs)
}

/// What a log shows of its run, by the words for it.
fn values(run: &Run) -> BTreeMap<String, Value> {
    let versions = run.versions.iter().map(|(of, version)| (of.clone(), version.clone()));
    let settings = run.settings.iter().map(|(name, value)| (name.replace('_', " "), value.to_string()));
    let named = settings.chain(versions);
    let named = named.map(|(what, text)| (what, Value { text, size: None, fails: Fails::Unknown }));
    let run = serde_json::to_value(run).unwrap_or_default();
    let shown = SHOWN.iter().filter_map(|(what, place, fails)| {
        let figure = run.pointer(place)?;
        let text = match (figure.as_str(), figure.as_u64()) {
            (None, Some(bytes)) if place.ends_with("_bytes") => Bytes(bytes).to_string(),
            (None, _) => figure.to_string(),
            (Some(word), _) => word.to_owned(),
        };
        Some(((*what).to_owned(), Value { text, size: figure.as_u64(), fails: *fails }))
    });
    // The later ones are the more precise.
    named.chain(shown).collect()
}

/// The options that only one of the command lines has, or that have another value there.
fn options(worked: &Run, failed: &Run) -> Vec<Difference> {
    let (Some(before), Some(now)) = (&worked.command, &failed.command) else { return Vec::new() };
    let (before, now) = (given(before), given(now));
    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
    names
        .filter(|name| before.get(*name) != now.get(*name))
        .map(|name| {
            let (before, now) = (before.get(name).cloned(), now.get(name).cloned());
            Difference {
                explains: takes_more(name, before.as_deref(), now.as_deref()),
                what: name.clone(),
                before,
                now,
            }
        })
        .collect()
}

/// The knobs of which a larger value takes more memory.
const TAKE_MORE: [&Knob; 9] = [
    &context::KNOB,
    &slots::KNOB,
    &slots::SEQUENCES,
    &share::KNOB,
    &chunk::KNOB,
    &layers::KNOB,
    &batch::KNOB,
    &batch_tokens::KNOB,
    &batch_tokens::MICRO,
];

/// Whether the option takes more memory than before, as far as its name and both values tell.
fn takes_more(name: &str, before: Option<&str>, now: Option<&str>) -> bool {
    let has_grown = number(now).zip(number(before)).is_some_and(|(now, before)| now > before);
    let mut spellings = TAKE_MORE.iter().flat_map(|knob| knob.spelled).flat_map(|spelling| spelling.names);
    has_grown && (spellings.any(|spelled| *spelled == name) || own_option::takes_memory(name))
}

fn number(text: Option<&str>) -> Option<f64> {
    text?.parse().ok()
}

/// The options of a command line with their values; one without a value has "set".
fn given(command: &str) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    let mut words = command.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            continue;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, words.next_if(|next| !next.starts_with('-'))),
        };
        options.insert(name.to_owned(), value.unwrap_or("set").to_owned());
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_context_explains_and_a_new_version_beside_it_does_not() {
        let worked =
            Run { context_tokens: Some(4096), versions: [("torch".into(), "2.5.1".into())].into(), ..Run::default() };
        let failed =
            Run { context_tokens: Some(32768), versions: [("torch".into(), "2.6.0".into())].into(), ..Run::default() };
        let explains = |differences: &[Difference]| -> Vec<(String, bool)> {
            differences.iter().map(|one| (one.what.clone(), one.explains)).collect()
        };
        assert_eq!(explains(&since(&worked, &failed)), [("context".to_owned(), true), ("torch".to_owned(), false)]);
        let same_context = Run { context_tokens: Some(4096), ..failed.clone() };
        assert_eq!(explains(&since(&worked, &same_context)), [("torch".to_owned(), true)]);
        assert_eq!(explains(&since(&failed, &worked)), [("torch".to_owned(), true), ("context".to_owned(), false)]);
        assert_eq!(since(&worked, &worked), []);
    }

    #[test]
    fn less_free_memory_explains_and_options_are_told_apart() {
        let run = |free: u64, command: &str| Run {
            free_at_start_bytes: Some(Bytes::gib(free)),
            command: Some(command.into()),
            ..Run::default()
        };
        let found = since(&run(23, "serve m -c 4096 --flash"), &run(9, "serve m -c 8192 -np 4"));
        let told: Vec<(&str, Option<&str>, Option<&str>)> =
            found.iter().map(|one| (one.what.as_str(), one.before.as_deref(), one.now.as_deref())).collect();
        assert_eq!(told.first().map(|one| one.0), Some("free VRAM at start"));
        assert!(found[0].explains);
        assert!(told.contains(&("-c", Some("4096"), Some("8192"))), "{told:?}");
        let explains = |name: &str| found.iter().any(|one| one.what == name && one.explains);
        assert!(explains("-c") && !explains("--flash") && !explains("-np"), "{found:?}");
        assert!(told.contains(&("--flash", Some("set"), None)) && told.contains(&("-np", None, Some("4"))), "{told:?}");
    }
}
