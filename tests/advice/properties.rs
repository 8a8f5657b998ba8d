//! Owns what holds for the advice on every scenario, whatever its file expects.

use oomdoctor::advice::PlannedFix;

use super::{Subject, known_failures};

/// How one scenario breaks the property, one line each; empty where it does not.
pub type Property = fn(&Subject) -> Vec<String>;

/// Each property with the name of its test.
pub const ALL: &[(&str, Property)] = &[("no_process_of_another_user_and_no_busy_one_is_a_step", innocent_processes)];

/// How the scenarios break a property, apart from the known failures.
pub fn broken_by(name: &str, property: Property, subjects: &[Subject]) -> Vec<String> {
    let mut found = Vec::new();
    for subject in subjects {
        let unexplained = known_failures::unexplained(name, &subject.name, property(subject));
        found.extend(unexplained.iter().map(|line| format!("{}: {line}", subject.name)));
    }
    found
}

fn innocent_processes(subject: &Subject) -> Vec<String> {
    let rows = subject.scenario.cards.iter().flat_map(|card| &card.rows);
    let innocent: Vec<u32> = rows.filter(|row| !row.ours || row.busy).map(|row| row.pid).collect();
    let mut found: Vec<String> = subject
        .advice()
        .plan
        .iter()
        .filter(|planned| innocent.iter().any(|pid| ends(planned, *pid)))
        .map(described)
        .collect();
    if subject.scenario.cards.iter().all(|card| card.rows.is_empty()) {
        return found;
    }
    for (what, scenario) in [
        ("run by root", subject.scenario.seen_by_root()),
        ("with all processes busy", subject.scenario.with_all_processes_busy()),
    ] {
        let advice = scenario.advice(subject.log());
        found.extend(
            advice
                .plan
                .iter()
                .filter(|planned| ends_something(planned))
                .map(described)
                .map(|step| format!("{what}: {step}")),
        );
    }
    found
}

/// Whether the step would end a process or ask it for memory.
fn ends_something(planned: &PlannedFix) -> bool {
    planned.target.is_some()
        || planned.release.is_some()
        || commands(planned).any(|command| command.starts_with("oomdoctor kill"))
}

fn ends(planned: &PlannedFix, pid: u32) -> bool {
    let is_target = planned.target.is_some_and(|key| key.pid == pid);
    is_target || commands(planned).flat_map(str::split_whitespace).any(|word| is_named_by(word, pid))
}

/// Whether a word of a command names the process: `4242` or `4242@START`.
fn is_named_by(word: &str, pid: u32) -> bool {
    word.split('@').next() == Some(pid.to_string().as_str())
}

fn commands(planned: &PlannedFix) -> impl Iterator<Item = &str> {
    planned.steps.iter().filter_map(|step| step.command.as_deref())
}

fn described(planned: &PlannedFix) -> String {
    format!("{} {:?}: {:?}", planned.fix, planned.target, commands(planned).collect::<Vec<_>>())
}
