//! What well-known guides teach, item by item: tests/seeds.ron says where each item is covered, and what is right today
//! where a guide is out of date. The place of an item must exist and say it, and its log must get the right answer.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use oomdoctor::advice::{Situation, advise};
use oomdoctor::app::keymap::BINDINGS;
use oomdoctor::knowledge::FixId;
use oomdoctor::knowledge::KnowledgeBase;
use oomdoctor::knowledge::diagnosis::Diagnosis;
use oomdoctor::log::PastedLog;
use serde::Deserialize;

use crate::corrections;

/// One item of a guide.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    /// The item in a few words.
    teaches: String,
    /// The guides that contain it: 0 to 3.
    guides: Vec<u8>,
    /// The correction, where the guide is out of date or was never right.
    #[serde(default)]
    today: Option<String>,
    /// Where it is covered, and a pattern that the text there must match. Places: `entries/ID`, `fixes/ID`,
    /// `fixes/ID@PROGRAM`, `questions/ID`, `glossary/TERM`, `corrections/NAME`, `commands/NAME`, `keys/KEY`.
    at: Vec<(String, String)>,
    /// A log that leads to it.
    #[serde(default)]
    log: Option<Log>,
}

/// A log and its right answer, read without a machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Log {
    text: String,
    entry: String,
    oom: String,
    /// Empty: none.
    memory: String,
    raised_by: String,
    /// Fixes that must be in the plan.
    #[serde(default)]
    plan: Vec<String>,
    /// Fixes that the entry must name but that apply only with a machine.
    #[serde(default)]
    offers: Vec<String>,
}

fn items() -> Vec<Item> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds.ron");
    let options = ron::Options::default().with_default_extension(ron::extensions::Extensions::IMPLICIT_SOME);
    options.from_str(&fs::read_to_string(file).unwrap()).unwrap_or_else(|error| panic!("tests/seeds.ron: {error}"))
}

/// Every text by its place.
fn said(base: &KnowledgeBase) -> Vec<(String, String)> {
    let mut all = corrections::texts(base);
    all.extend(corrections::commands(base));
    for fix in &base.fixes {
        for command in &fix.commands {
            let place = format!("fixes/{}@{}", fix.id, command.program);
            let parts = [Some(&command.action), command.command.as_ref(), command.versions.as_ref()];
            all.extend(parts.into_iter().flatten().map(|text| (place.clone(), text.clone())));
        }
    }
    all.extend(corrections::names().map(|name| (format!("corrections/{name}"), name.to_owned())));
    all.extend(BINDINGS.iter().map(|binding| (format!("keys/{}", binding.shown), binding.words.to_owned())));
    let help = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let named = commands.filter_map(|line| line.trim_start().split_once(' '));
    all.extend(named.map(|(name, about)| (format!("commands/{name}"), about.trim_start().to_owned())));
    all
}

fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap_or_default().to_owned()
}

/// How the answer to an item's log differs from the right one.
fn answered(base: &KnowledgeBase, log: &Log) -> Vec<String> {
    let diagnosis: Diagnosis = base.diagnose(&PastedLog::new(log.text.clone()), None);
    let leading = diagnosis.matches.first().map(|one| one.entry.to_string()).unwrap_or_default();
    let fixes = base.leading_fixes(&diagnosis);
    let advice = advise(&Situation { fixes: &fixes, ..Situation::alone(&diagnosis) });
    let plan: Vec<&str> = advice.plan.iter().map(|planned| planned.fix.as_str()).collect();
    let told = [
        ("entry", leading, &log.entry),
        ("oom", word(diagnosis.oom), &log.oom),
        ("memory", word(diagnosis.memory), &log.memory),
        ("raised_by", diagnosis.raised_by.clone().unwrap_or_default(), &log.raised_by),
    ];
    let mut faults: Vec<String> = told
        .into_iter()
        .filter(|(_, said, wanted)| said != *wanted)
        .map(|(what, said, wanted)| format!("{what}: said {said:?}, wanted {wanted:?}"))
        .collect();
    let missing = log.plan.iter().filter(|id| !plan.contains(&id.as_str()));
    faults.extend(missing.map(|id| format!("{id} is not in the plan {plan:?}")));
    let named = |id: &&String| !fixes.iter().any(|fix| fix.id.as_str() == id.as_str());
    faults.extend(log.offers.iter().filter(named).map(|id| format!("{} does not offer {id}", log.entry)));
    faults.into_iter().map(|fault| format!("{fault} ({})", log.text.lines().last().unwrap_or_default())).collect()
}

/// Whether an entry names the fix or the question.
fn is_reachable(base: &KnowledgeBase, place: &str) -> bool {
    match place.split_once('/') {
        Some(("fixes", rest)) => {
            let fix = FixId::new(rest.split('@').next().unwrap_or(rest));
            base.entries.iter().any(|entry| entry.fixes.contains(&fix))
        }
        Some(("questions", id)) => base.entries.iter().any(|entry| entry.questions.iter().any(|one| one == id)),
        _ => true,
    }
}

/// How an item fails, one line each.
fn faults(base: &KnowledgeBase, said: &[(String, String)], item: &Item) -> Vec<String> {
    let mut faults = Vec::new();
    for (place, pattern) in &item.at {
        let wanted = corrections::regex(pattern);
        let there: Vec<&String> = said.iter().filter(|(known, _)| known == place).map(|(_, text)| text).collect();
        if there.is_empty() {
            faults.push(format!("there is no {place}"));
        } else if !there.iter().any(|text| wanted.is_match(text)) {
            faults.push(format!("{place} does not say {pattern}"));
        } else if !is_reachable(base, place) {
            faults.push(format!("no entry leads to {place}"));
        }
    }
    if item.at.is_empty() && item.log.is_none() {
        faults.push("is nowhere".into());
    }
    faults.extend(item.log.iter().flat_map(|log| answered(base, log)));
    faults.into_iter().map(|fault| format!("{}: {fault}", item.teaches)).collect()
}

#[test]
fn every_item_of_the_guides_is_covered_and_up_to_date() {
    let base = KnowledgeBase::built_in().unwrap();
    let (said, items) = (said(&base), items());
    let found: Vec<String> = items.iter().flat_map(|item| faults(&base, &said, item)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    let guides: BTreeSet<u8> = items.iter().flat_map(|item| item.guides.iter().copied()).collect();
    assert_eq!(guides, BTreeSet::from([0, 1, 2, 3]));
    let names: BTreeSet<&str> = items.iter().map(|item| item.teaches.as_str()).collect();
    assert_eq!(names.len(), items.len(), "an item stands there twice");
    // An outdated item comes with its correction.
    let uncorrected = items.iter().filter(|item| item.today.is_some() && item.at.is_empty());
    assert_eq!(uncorrected.map(|item| item.teaches.as_str()).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn a_missing_item_is_detected() {
    let base = KnowledgeBase::built_in().unwrap();
    let silent: Vec<_> = said(&base).into_iter().map(|(place, _)| (place, String::new())).collect();
    for item in items() {
        // With no texts at all, every place is reported as missing.
        let without = faults(&base, &[], &item);
        assert_eq!(without.len(), item.at.len(), "{}: {without:?}", item.teaches);
        let exists = item.at.iter().filter(|(_, pattern)| pattern.is_empty()).count();
        assert_eq!(exists, 0, "{}: a place without a pattern says nothing", item.teaches);
        assert_eq!(faults(&base, &silent, &item).len(), item.at.len(), "{}", item.teaches);
    }
}
