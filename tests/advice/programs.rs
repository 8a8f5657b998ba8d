//! Holds the programs that people use most (`tests/programs.ron`): each has changes of its own with source and date, and the
//! first steps for its failure use no other program's option.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;

use oomdoctor::advice::{Situation, advise};
use oomdoctor::ids::{FixId, Program};
use oomdoctor::knowledge::KnowledgeBase;
use oomdoctor::knowledge::fix::FixCommand;
use regex::Regex;
use serde::Deserialize;

use crate::scenario::LogReading;

/// So many changes each program has at least.
const LEAST: usize = 3;

/// So many steps a person reads before they try one.
const FIRST: usize = 3;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    program: String,
    log: String,
    /// The program that the log is of, or whose code printed the message, where that is another: a system or a driver is
    /// seen through the programs that it fails.
    #[serde(default)]
    seen_in: Option<String>,
    /// A fix, and how this program spells it.
    changes: Vec<(String, String)>,
}

/// An option or an environment variable.
static OPTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|\s)(--[a-z][\w-]+)|\b([A-Z][A-Z0-9]+_[A-Z0-9_]+)=").unwrap());

/// What is wrong with the table or with the advice for one of its logs, a line each.
pub fn faults() -> Vec<String> {
    let base = &KnowledgeBase::built_in_with_examples().unwrap();
    let rows: Vec<Row> = ron::from_str(&fs::read_to_string("tests/programs.ron").unwrap()).unwrap();
    let owners = owners(base);
    let mut faults = Vec::new();
    for row in &rows {
        let found = changes(base, row).into_iter().chain(foreign_options(base, row, &owners));
        faults.extend(found.map(|fault| format!("{}: {fault}", row.program)));
    }
    faults
}

fn changes(base: &KnowledgeBase, row: &Row) -> Vec<String> {
    let mut faults = Vec::new();
    if row.changes.len() < LEAST {
        faults.push(format!("only {} changes", row.changes.len()));
    }
    for (id, spelled) in &row.changes {
        let Some(fix) = base.fix(FixId::new(id)) else {
            faults.push(format!("no fix {id}"));
            continue;
        };
        let own = own_names(&row.program);
        if !fix.commands.iter().any(|command| own.contains(&command.program) && says(command, spelled)) {
            faults.push(format!("{id} does not say {spelled}"));
        }
        if fix.references.iter().all(|reference| reference.checked.is_empty()) {
            faults.push(format!("{id} has no source with a date"));
        }
    }
    faults
}

fn says(command: &FixCommand, spelled: &str) -> bool {
    let texts = [Some(&command.action), command.command.as_ref(), command.otherwise.as_ref(), command.title.as_ref()];
    texts.into_iter().flatten().any(|text| text.contains(spelled))
}

/// The names under which a command is right for this program: its own, its kind's, and any's.
fn own_names(program: &str) -> BTreeSet<String> {
    let known = Program::known(program);
    let others = [known.and_then(Program::kind), known.map(Program::computes_like)];
    let others = others.into_iter().flatten().map(|other| other.as_str().to_owned());
    others.chain([program.to_owned(), "*".to_owned()]).collect()
}

/// The programs in whose commands an option stands.
fn owners(base: &KnowledgeBase) -> BTreeMap<String, BTreeSet<String>> {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for command in base.fixes.iter().flat_map(|fix| &fix.commands) {
        for option in options(command.command.iter().chain([&command.action])) {
            owners.entry(option).or_default().insert(command.program.clone());
        }
    }
    owners
}

fn options<'t>(texts: impl IntoIterator<Item = &'t String>) -> BTreeSet<String> {
    let texts = texts.into_iter();
    let found = texts.flat_map(|text| OPTION.captures_iter(text));
    found.filter_map(|captures| Some(captures.get(1).or(captures.get(2))?.as_str().to_owned())).collect()
}

/// The options among the first steps that only other programs have.
fn foreign_options(base: &KnowledgeBase, row: &Row, owners: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let log = LogReading::of(base, &row.log);
    let diagnosis = &log.diagnosis;
    let named = [diagnosis.program.as_deref(), diagnosis.raised_by.as_deref()];
    let seen_in = row.seen_in.as_ref().unwrap_or(&row.program);
    if !named.contains(&Some(seen_in)) {
        return vec![format!("the log is read as one of {named:?}")];
    }
    let advice = advise(&Situation { fixes: &log.fixes, ..Situation::alone(diagnosis) });
    if advice.plan.is_empty() {
        return vec!["no step".to_owned()];
    }
    let own: BTreeSet<String> = named.into_iter().flatten().flat_map(own_names).collect();
    let first = advice.plan.iter().take(FIRST).flat_map(|planned| &planned.steps);
    let used = options(first.flat_map(|step| step.command.iter().chain([&step.action])));
    let foreign = used.into_iter().filter(|option| {
        let is_own = owners.get(option).is_none_or(|programs| programs.iter().any(|program| own.contains(program)));
        !is_own && !row.log.contains(option.as_str())
    });
    foreign.map(|option| format!("{option} is another program's")).collect()
}
