//! Owns what holds for the advice on every scenario, whatever its file expects.

mod bounds;
mod changes;
mod sums;

use oomdoctor::advice::{Advice, FitAdvice, PlannedFix};
use oomdoctor::knowledge::{FixId, Oom};
use oomdoctor::units::Bytes;

use super::{Subject, known_failures};

/// How one scenario breaks the property, one line each; empty where it does not.
pub type Property = fn(&Subject) -> Vec<String>;

/// The figures of a log are rounded.
const ROUNDING: Bytes = Bytes::mib(16);

/// Each property with the name of its test.
pub const ALL: &[(&str, Property)] = &[
    ("no_process_of_another_user_and_no_busy_one_is_a_step", innocent_processes),
    ("every_change_that_the_sentence_names_is_a_step", |subject| changes::without_a_step(subject.advice())),
    ("several_changes_at_once_are_one_step_and_only_where_none_is_enough", |subject| {
        changes::misplaced_sets(subject.advice())
    }),
    ("no_sentence_appears_twice_in_a_plan", |subject| repeated_sentences(subject.advice())),
    ("nothing_is_called_enough_that_its_own_sums_refute", |subject| refuted_steps(subject.advice())),
    ("at_most_two_steps_have_an_unknown_condition_and_they_come_last", |subject| {
        misplaced_conditions(subject.advice())
    }),
    ("yes_is_said_only_where_the_need_is_known", |subject| bounds::unfounded_yes(subject.advice())),
    ("a_need_that_is_a_lower_bound_is_written_as_one", bounds::unmarked),
    ("every_shown_sum_adds_up", |subject| sums::wrong(subject.advice())),
    ("what_is_short_is_the_same_figure_everywhere", |subject| sums::shown_apart(subject.advice())),
    ("memory_that_ran_out_for_certain_has_a_step", failures_without_a_step),
    ("the_need_adds_up_as_it_is_shown", |subject| sums::wrong_as_shown(subject.advice())),
];

/// A retry under way may be all there is to do.
fn failures_without_a_step(subject: &Subject) -> Vec<String> {
    let is_certain = subject.log().diagnosis.oom == Oom::Yes;
    let advice = subject.advice();
    let is_left = is_certain && advice.plan.is_empty() && !advice.verdict.sentence.contains("running again");
    if is_left { vec![advice.verdict.sentence.clone()] } else { Vec::new() }
}

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
    let processes = subject.scenario.gpus.iter().flat_map(|gpu| &gpu.processes);
    let innocent: Vec<u32> =
        processes.filter(|process| !process.own || process.busy).map(|process| process.pid).collect();
    let mut found: Vec<String> = subject
        .advice()
        .plan
        .iter()
        .filter(|planned| innocent.iter().any(|pid| ends(planned, *pid)))
        .map(described)
        .collect();
    if subject.scenario.gpus.iter().all(|gpu| gpu.processes.is_empty()) {
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

/// The sentences that a step says twice, and those with a sum that several steps say.
fn repeated_sentences(advice: &Advice) -> Vec<String> {
    let mut found = Vec::new();
    let mut sums_said: Vec<&str> = Vec::new();
    for planned in &advice.plan {
        let mut said = Vec::new();
        let words = words_of(planned);
        for sentence in words.iter().flat_map(|words| words.split(". ")).map(|sentence| sentence.trim_end_matches('.'))
        {
            if said.contains(&sentence) {
                found.push(format!("{} says twice {sentence:?}", planned.fix));
            } else if sums_said.contains(&sentence) {
                found.push(format!("{} and an earlier step say {sentence:?}", planned.fix));
            }
            said.push(sentence);
        }
        // Two processes may use the same amount.
        if planned.target.is_none() {
            sums_said.extend(said.into_iter().filter(|sentence| is_about_a_sum(sentence)));
        }
    }
    found
}

fn is_about_a_sum(sentence: &str) -> bool {
    [" MiB", " GiB"].iter().any(|unit| sentence.contains(unit))
}

/// What a step tells the user beside its commands.
fn words_of(planned: &PlannedFix) -> Vec<&str> {
    let mut words = vec![planned.title.as_str()];
    for step in &planned.steps {
        words.extend([&step.action, &step.why, &step.expect, &step.if_not].map(String::as_str));
    }
    words.retain(|words| !words.is_empty());
    words
}

/// The steps that are called enough although the advice's own figures say that they are not.
fn refuted_steps(advice: &Advice) -> Vec<String> {
    let changed = advice.remembered.changed.as_ref().map(|changed| &changed.fit);
    let fit = changed.or(advice.fit.as_ref());
    let short = match changed {
        Some(fit) => fit.missing(),
        None => advice.ledger.as_ref().and_then(|ledger| ledger.missing_bytes).max(fit.and_then(FitAdvice::missing)),
    };
    let called_enough = advice.plan.iter().filter(|planned| planned.may_be_enough);
    called_enough
        .filter_map(|planned| Some(format!("{}: {}", planned.fix, why_not_enough(planned, short, fit)?)))
        .collect()
}

fn why_not_enough(planned: &PlannedFix, short: Option<Bytes>, fit: Option<&FitAdvice>) -> Option<String> {
    // On another of the GPUs that the log may mean, more is free than the log prints.
    let is_of_a_candidate = planned.condition.as_deref().is_some_and(|text| text.starts_with("if your run was on GPU"));
    if let (false, Some(frees), Some(short)) = (is_of_a_candidate, planned.frees_bytes, short)
        && frees.plus(ROUNDING) < short
    {
        return Some(format!("frees {frees}, short {short}"));
    }
    if fit.and_then(|fit| fit.effect_of(planned.fix)?.fits) == Some(false) {
        return Some("the model does not fit with it".to_owned());
    }
    // A smaller file has other weights.
    let keeps_its_weights = !planned.parts.iter().chain([&planned.fix]).any(|fix| *fix == FixId::SMALLER_QUANTISATION);
    if let (true, Some(share), Some((least, capacity))) =
        (keeps_its_weights, share_set_by(planned), fit.and_then(least_in_the_share))
        && share * capacity.0 as f64 + ROUNDING.0 as f64 <= least.0 as f64
    {
        return Some(format!("weights and KV cache take {least}, more than {share} of {capacity}"));
    }
    let mut expected = planned.steps.iter().map(|step| &step.expect);
    let refutes = expected.find(|words| words.contains("not enough") || words.contains("does not fit"));
    refutes.map(|words| format!("its own words are {words:?}"))
}

/// The steps with a condition that come too early or are too many.
fn misplaced_conditions(advice: &Advice) -> Vec<String> {
    // What a message about shared memory names first is for containers, where such messages nearly always come from.
    let is_likely = |planned: &PlannedFix| planned.fix.as_str() == "larger-shared-memory";
    let has_condition = |planned: &&PlannedFix| planned.condition.is_some() && !is_likely(planned);
    let conditional: Vec<&PlannedFix> = advice.plan.iter().filter(has_condition).collect();
    // One that asks for a version comes after what this log supports, and before what any log would get.
    let of_a_version = conditional.iter().filter(|planned| planned.is_of_a_version).count();
    let last = &advice.plan[advice.plan.len() - (conditional.len() - of_a_version)..];
    let mut found = Vec::new();
    if of_a_version > 1 {
        found.push(format!("{of_a_version} steps ask for a version"));
    }
    if !last.iter().all(|planned| planned.condition.is_some()) {
        found.push(format!("not last: {:?}", conditional.iter().map(|planned| planned.fix).collect::<Vec<_>>()));
    }
    if conditional.len() > 2 {
        found.push(format!("{} steps have a condition", conditional.len()));
    }
    found
}

/// The share of the GPU that a step's command gives to vLLM or SGLang.
fn share_set_by(planned: &PlannedFix) -> Option<f64> {
    let mut words = commands(planned).flat_map(|command| command.split([' ', '=']));
    words.find(|word| ["--gpu-memory-utilization", "--mem-fraction-static"].contains(word))?;
    words.next()?.parse().ok()
}

/// Weights and KV cache, which both lie within an engine's share, and the VRAM that it is a share of.
fn least_in_the_share(fit: &FitAdvice) -> Option<(Bytes, Bytes)> {
    let parts = fit.parts.as_ref()?;
    Some((parts.weights.bytes?.plus(parts.kv_cache.bytes?), fit.card_bytes?))
}
