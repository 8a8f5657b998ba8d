//! Owns the record of the advice on each scenario: `tests/golden/advice` holds causes, figures and steps,
//! `tests/golden/sentences` the words. `UPDATE_GOLDEN=1` writes the records of the scenarios that run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use oomdoctor::advice::{Advice, Ledger, NotOffered, PlannedFix};
use oomdoctor::units::Bytes;
use serde::Serialize;

use super::expectations::cause_name;

/// A folder of records, and how the advice is written there.
type Record = (&'static str, fn(&Advice) -> String);

/// The sentences are recorded while the decision core is being rewritten, to show that it keeps them.
const RECORDS: [Record; 2] = [("advice", outline), ("sentences", sentences)];

fn folder(record: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(record)
}

/// How the advice differs from its records; rewrites them instead where `UPDATE_GOLDEN` is set.
pub fn differences(name: &str, advice: &Advice) -> Vec<String> {
    let mut found = Vec::new();
    for (record, write) in RECORDS {
        let path = folder(record).join(format!("{name}.txt"));
        let now = write(advice);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &now).unwrap();
        }
        let recorded = fs::read_to_string(&path).unwrap_or_default();
        if recorded != now {
            found.push(format!("UPDATE_GOLDEN=1 records it as it is now:\n{}", diff(record, &recorded, &now)));
        }
    }
    found
}

/// Records of scenarios that are gone.
pub fn orphans(names: &[&str]) -> Vec<PathBuf> {
    let files = RECORDS.iter().flat_map(|(record, _)| fs::read_dir(folder(record)).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    paths.filter(|path| !names.contains(&&*path.file_stem().unwrap().to_string_lossy())).collect()
}

/// The lines that only one of the two has.
fn diff(record: &str, recorded: &str, now: &str) -> String {
    let removed = recorded.lines().filter(|line| !now.lines().any(|other| other == *line));
    let added = now.lines().filter(|line| !recorded.lines().any(|other| other == *line));
    let lines: Vec<String> =
        removed.map(|line| format!("-{line}")).chain(added.map(|line| format!("+{line}"))).collect();
    match lines.is_empty() {
        true => format!("{record}: the order of its lines changed, now:\n{now}"),
        false => format!("{record}:\n{}", lines.join("\n")),
    }
}

fn mib(bytes: Option<Bytes>) -> String {
    bytes.map_or("?".to_owned(), |bytes| format!("{} MiB", bytes.0 >> 20))
}

fn json_word(value: impl Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

/// The advice without its wording.
fn outline(advice: &Advice) -> String {
    let verdict = &advice.verdict;
    let causes: Vec<String> =
        verdict.causes.iter().map(|cause| format!("{} ({})", cause_name(cause), json_word(cause.strength))).collect();
    let mut lines = vec![format!("causes: {}", causes.join(", "))];
    lines.push(format!("here: {:?}, candidates {:?}", verdict.same_machine, verdict.gpu_candidates));
    lines.extend(advice.ledger.as_ref().map(ledger_line));
    lines.extend(
        advice
            .fit
            .as_ref()
            .map(|fit| format!("fit: {}, total {}, fits {:?}", fit.engine, mib(fit.total_bytes), fit.fits)),
    );
    lines.extend(advice.plan.iter().map(step_line));
    lines.extend(not_offered_lines(&advice.not_offered));
    lines.join("\n") + "\n"
}

fn ledger_line(ledger: &Ledger) -> String {
    let figures = [ledger.capacity_bytes, ledger.needed_bytes, ledger.available_bytes, ledger.missing_bytes];
    let [capacity, needed, free, missing] = figures.map(mib);
    let held = ledger.held_by.iter().map(|held| format!("{} {}", held.pid.unwrap_or(0), mib(Some(held.bytes))));
    let held = held.collect::<Vec<_>>().join(", ");
    let now = if ledger.is_now { "now" } else { "then" };
    let device = ledger.device;
    format!(
        "ledger: GPU {device:?} {now}, capacity {capacity}, needed {needed}, free {free}, short {missing}, used {held}"
    )
}

fn step_line(planned: &PlannedFix) -> String {
    let target = planned.target.map_or(String::new(), |key| format!(" {}", key.pid));
    let enough = planned.enough.as_ref();
    let condition = planned.condition.as_ref().map_or(String::new(), |condition| format!(", {condition}"));
    let room = planned.room_on.as_ref().map_or(String::new(), |room| format!(", room on GPU {}", room.index));
    let release = if planned.release.is_some() { ", by request" } else { "" };
    let commands: Vec<&str> = planned.steps.iter().filter_map(|step| step.command.as_deref()).collect();
    let frees = mib(planned.frees_bytes);
    format!("- {}{target}: frees {frees}, enough: {enough}{condition}{room}{release} {commands:?}", planned.fix)
}

/// The fixes that are not offered, one line for each rule that removed some.
fn not_offered_lines(all: &[NotOffered]) -> Vec<String> {
    let mut by_rule: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for not_offered in all {
        by_rule.entry(&not_offered.rule).or_default().push(not_offered.fix.to_string());
    }
    by_rule.iter().map(|(rule, fixes)| format!("not offered, {rule}: {}", fixes.join(", "))).collect()
}

/// What the advice says, in words.
fn sentences(advice: &Advice) -> String {
    let mut lines = vec![advice.verdict.sentence.clone()];
    for cause in &advice.verdict.causes {
        lines.push(format!("because of {}: {}", cause_name(cause), cause.evidence.join("; ")));
    }
    lines.extend(advice.verdict.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(advice.fit.iter().flat_map(|fit| fit.lines()).map(|line| format!("fit: {line}")));
    for planned in &advice.plan {
        lines.push(format!("- {} · {}", planned.title, planned.costs));
        for step in &planned.steps {
            lines.extend([&step.action, &step.why, &step.expect, &step.if_not].map(|words| format!("  {words}")));
        }
    }
    lines.join("\n") + "\n"
}
