//! Owns the comparison of one scenario's advice with what its file expects.

use oomdoctor::advice::{Advice, Cause, PlannedFix};

use super::scenario::Expected;

/// How the advice differs from what is expected, one line each; empty where it does not.
pub fn differences(advice: &Advice, expected: &Expected) -> Vec<String> {
    let mut found = Differences::default();
    found.compare_verdict(advice, expected);
    found.compare_plan(advice, expected);
    found.compare_words_of_steps(advice, expected);
    found.0
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, what: &str, said: &str, expected: &str) {
        if said != expected {
            self.0.push(format!("{what}: {said}, expected {expected}"));
        }
    }

    fn compare_verdict(&mut self, advice: &Advice, expected: &Expected) {
        let verdict = &advice.verdict;
        let leading = verdict.causes.first();
        self.compare("cause", &leading.map_or("none".to_owned(), cause_name), &expected.cause);
        let same_machine = (format!("{:?}", verdict.same_machine), format!("{:?}", expected.same_machine));
        self.compare("same machine", &same_machine.0, &same_machine.1);
        let missing = advice.ledger.as_ref().and_then(|ledger| ledger.missing_bytes).map(|bytes| bytes.0 >> 20);
        if missing.map(rounded) != expected.short.map(rounded) {
            self.compare("short of MiB", &format!("{missing:?}"), &format!("{:?}", expected.short));
        }
        let evidence = leading.map(|cause| cause.evidence.join("; ")).unwrap_or_default();
        for wanted in expected.evidence.iter().filter(|wanted| !evidence.contains(wanted.as_str())) {
            self.0.push(format!("the evidence lacks {wanted:?}: {evidence}"));
        }
        let notes = &verdict.notes;
        for wanted in expected.notes.iter().filter(|wanted| !notes.iter().any(|note| note.contains(wanted.as_str()))) {
            self.0.push(format!("no note says {wanted:?}: {notes:?}"));
        }
        let sentence = &verdict.sentence;
        let mut rest = sentence.as_str();
        for part in &expected.sentence {
            match rest.split_once(part.as_str()) {
                Some((_, after)) => rest = after,
                None => self.0.push(format!("the sentence lacks {part:?}: {sentence}")),
            }
        }
        for part in expected.sentence_lacks.iter().filter(|part| sentence.contains(part.as_str())) {
            self.0.push(format!("the sentence has {part:?}: {sentence}"));
        }
    }

    fn compare_plan(&mut self, advice: &Advice, expected: &Expected) {
        let plan: Vec<String> = advice.plan.iter().map(step_name).collect();
        let begins = &plan[..plan.len().min(expected.plan.len())];
        self.compare("plan", &format!("{begins:?}"), &format!("{:?}", expected.plan));
        for never in expected.never.iter().filter(|never| plan.iter().any(|step| step.starts_with(never.as_str()))) {
            self.0.push(format!("the plan has {never}: {plan:?}"));
        }
        for planned in advice.plan.iter().filter(|planned| planned.may_be_enough) {
            if expected.not_enough.contains(&planned.fix) {
                self.0.push(format!("{} is called enough", planned.fix));
            }
        }
    }

    fn compare_words_of_steps(&mut self, advice: &Advice, expected: &Expected) {
        let steps = advice.plan.iter().flat_map(|planned| &planned.steps);
        let commands: Vec<&str> = steps.filter_map(|step| step.command.as_deref()).collect();
        for wanted in expected.commands.iter().filter(|wanted| !commands.contains(&wanted.as_str())) {
            self.0.push(format!("no step has the command {wanted:?}: {commands:?}"));
        }
        let words: Vec<String> = advice.plan.iter().map(words_of).collect();
        for wrong in expected.steps_lack.iter().filter(|wrong| words.iter().any(|said| said.contains(wrong.as_str()))) {
            self.0.push(format!("a step says {wrong:?}: {words:?}"));
        }
        for wanted in
            expected.steps_say.iter().filter(|wanted| !words.iter().any(|said| said.contains(wanted.as_str())))
        {
            self.0.push(format!("no step says {wanted:?}: {words:?}"));
        }
    }
}

/// MiB to the nearest 16: the figures of a log are rounded.
fn rounded(mib: u64) -> u64 {
    (mib + 8) / 16
}

/// The cause as the JSON has it.
pub fn cause_name(cause: &Cause) -> String {
    serde_json::to_value(cause.cause).unwrap().as_str().unwrap().to_owned()
}

fn step_name(planned: &PlannedFix) -> String {
    planned.target.map_or_else(|| planned.fix.to_string(), |key| format!("{} {}", planned.fix, key.pid))
}

/// Everything that a step tells the user.
fn words_of(planned: &PlannedFix) -> String {
    let mut words = planned.title.clone();
    for step in &planned.steps {
        let command = step.command.as_deref().unwrap_or_default();
        let versions = step.versions.as_deref().unwrap_or_default();
        words += &format!("\n{}\n{command}\n{}\n{}\n{}\n{versions}", step.action, step.why, step.expect, step.if_not);
    }
    words
}
