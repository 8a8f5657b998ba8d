//! Judges the advice on every scenario of `tests/scenarios`: one test each, found by its name, and properties that hold
//! for all of them. Most scenarios are cases where the obvious answer is wrong.
//! `cargo test --test scenarios NAME` runs one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests: a panic is a failure, and they read files"
)]

mod causes;
mod expectations;
mod known_failures;
mod logs;
mod programs;
mod properties;
mod recorded;
mod scenario;

use std::process::ExitCode;
use std::sync::{LazyLock, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};
use oomdoctor::advice::Advice;
use oomdoctor::knowledge::KnowledgeBase;
use properties::Property;
use scenario::{LogReading, Scenario};

static KNOWLEDGE: LazyLock<KnowledgeBase> = LazyLock::new(|| KnowledgeBase::built_in().unwrap());
static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| scenario::all().into_iter().map(Subject::new).collect());

/// A scenario with its advice, which is computed once for all tests that ask for it.
struct Subject {
    name: String,
    scenario: Scenario,
    log: OnceLock<LogReading>,
    advice: OnceLock<Advice>,
}

impl Subject {
    fn new((name, scenario): (String, Scenario)) -> Subject {
        Subject { name, scenario, log: OnceLock::new(), advice: OnceLock::new() }
    }

    fn log(&self) -> &LogReading {
        self.log.get_or_init(|| LogReading::of_scenario(&KNOWLEDGE, &self.scenario))
    }

    fn advice(&self) -> &Advice {
        self.advice.get_or_init(|| self.scenario.advice(self.log()))
    }
}

/// Fails with these lines, if there are any.
fn verdict(differences: Vec<String>) -> Result<(), Failed> {
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n").into()) }
}

fn is_as_expected_and_recorded(subject: &Subject) -> Result<(), Failed> {
    let unexpected = expectations::differences(subject.advice(), &subject.scenario.expect);
    let mut differences = known_failures::unexplained(known_failures::EXPECTATIONS, &subject.name, unexpected);
    differences.extend(recorded::differences(&subject.name, subject.advice()));
    verdict(differences)
}

fn every_record_has_its_scenario() -> Result<(), Failed> {
    let names: Vec<&str> = SUBJECTS.iter().map(|subject| subject.name.as_str()).collect();
    verdict(
        recorded::orphans(&names).iter().map(|path| format!("no scenario has the record {}", path.display())).collect(),
    )
}

/// Machines on which the logs beside the checkout are read: none, an empty GPU, one beside an idle process.
const MACHINES: [&str; 4] =
    ["", "(total: 24564)", "(total: 8192)", "(total: 24564, processes: [(pid: 7, mib: 12000)]), (total: 24564)"];

/// Finds logs for new scenarios: prints how the advice on each breaks a property.
fn properties_hold_for_logs_beside_the_checkout() -> Result<(), Failed> {
    let mut differences = Vec::new();
    for (path, log) in logs::beside_the_checkout() {
        for gpus in MACHINES {
            let subject = Subject::new((format!("{path} with [{gpus}]"), Scenario::of(&log, gpus)));
            for (_, property) in properties::ALL {
                differences.extend(property(&subject).iter().map(|line| format!("{}: {line}", subject.name)));
            }
        }
    }
    verdict(differences)
}

fn property_test(name: &'static str, property: Property) -> Trial {
    Trial::test(name, move || verdict(properties::broken_by(name, property, &SUBJECTS)))
}

fn scenario_test(subject: &'static Subject) -> Trial {
    Trial::test(&subject.name, || is_as_expected_and_recorded(subject))
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The name of one scenario may be the beginning of another's.
    arguments.exact |=
        arguments.filter.as_ref().is_some_and(|name| SUBJECTS.iter().any(|subject| subject.name == *name));
    // The properties come first because each takes as long as many scenarios.
    let mut trials: Vec<Trial> =
        properties::ALL.iter().map(|(name, property)| property_test(name, *property)).collect();
    trials.extend(SUBJECTS.iter().map(scenario_test));
    trials.push(Trial::test("every_cause_leads_scenarios_and_has_near_misses", || verdict(causes::too_few(&SUBJECTS))));
    trials.push(Trial::test("every_record_has_its_scenario", every_record_has_its_scenario));
    trials.push(Trial::test("common_programs_have_changes_of_their_own", || verdict(programs::faults())));
    let by_hand =
        Trial::test("properties_hold_for_logs_beside_the_checkout", properties_hold_for_logs_beside_the_checkout);
    trials.push(by_hand.with_ignored_flag(true));
    libtest_mimic::run(&arguments, trials).exit_code()
}
