//! Owns the plain text of a diagnosis. `json` has the same for scripts, `markdown` the report for others.
//! Knows nothing of terminals.

pub mod json;
pub mod markdown;
pub mod redact;

use crate::advice::changed::Difference;
use crate::advice::{Advice, FitAdvice, PlannedFix, why, words};
use crate::gpu::Snapshot;
use crate::knowledge::diagnosis::Diagnosis;
use crate::text::harmless_lines;
use markdown::Walked;

/// Everything a report is made from.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// What the log says, read alone.
    pub diagnosis: &'a Diagnosis,
    /// The verdict and the steps, from the log and the machine.
    pub advice: &'a Advice,
    /// The reading of the machine; `None` where the log was read alone.
    pub snapshot: Option<&'a Snapshot>,
    /// Why there is no reading of the machine, where one was wanted.
    pub no_reading: Option<&'a str>,
    /// The explanation of the leading entry.
    pub why: Option<&'a str>,
    /// Whether to say which rules led to the causes and steps.
    pub explains: bool,
    /// What differs from a run that worked; `None` where no such log was given.
    pub since: Option<&'a [Difference]>,
    /// What was done about the failure before; `None` unless this is the last log.
    pub walked: Option<&'a Walked>,
}

impl<'a> Report<'a> {
    /// What the log alone gives.
    pub fn of(diagnosis: &'a Diagnosis, advice: &'a Advice) -> Report<'a> {
        Report {
            diagnosis,
            advice,
            snapshot: None,
            no_reading: None,
            why: None,
            explains: false,
            since: None,
            walked: None,
        }
    }
}

/// The diagnosis for a person: the verdict, the sums, the decisive line and the steps.
pub fn text(report: &Report<'_>) -> String {
    let mut lines = words::verdict(report.advice);
    lines.extend(words::sums(report.advice));
    lines.extend(report.no_reading.map(|reason| format!("This machine could not be read: {reason}")));
    let leading = report.diagnosis.matches.first();
    let leading = leading.map(|leading| vec![format!("line {}: {}", leading.line, shortened(&leading.text))]);
    let steps = report.advice.plan.iter().enumerate().map(|(at, planned)| step(at + 1, planned));
    let parts = leading.into_iter().chain(report.since.map(differences));
    let parts = parts.chain(report.why.map(|why| vec![why.to_owned()]));
    let done = report.walked.filter(|walked| !walked.is_empty()).map(steps_taken);
    for part in parts.chain(report.advice.fit.as_ref().map(FitAdvice::lines)).chain(done).chain(steps) {
        lines.push(String::new());
        lines.extend(part);
    }
    if report.explains {
        lines.extend(rules(report.advice));
    }
    harmless_lines(&lines.join("\n")) + "\n"
}

/// How many steps a brief answer shows.
const FIRST_STEPS: usize = 3;

/// The answer for somebody who has just seen the traceback: the verdict, what was needed, and the first steps, each
/// with its title, what to do and the command.
pub fn brief(report: &Report<'_>) -> String {
    let mut lines = vec![report.advice.verdict.sentence.clone()];
    lines.extend(words::needs(report.advice));
    lines.extend(report.since.into_iter().flat_map(|since| differences(since).into_iter().take(1 + FIRST_STEPS)));
    lines.extend(report.no_reading.map(|reason| format!("This machine could not be read: {reason}")));
    let plan = &report.advice.plan;
    for (at, planned) in plan.iter().take(FIRST_STEPS).enumerate() {
        lines.push(format!("{}. {}", at + 1, planned.title));
        let Some(step) = planned.steps.first() else { continue };
        let said = format!("   {}", step.action);
        let command = step.command.iter().flat_map(|command| command.lines()).map(|line| format!("     {line}"));
        lines.extend([said].into_iter().chain(command));
    }
    let more = plan.len().saturating_sub(FIRST_STEPS);
    if more > 0 {
        let steps = if more == 1 { "step" } else { "steps" };
        lines.push(format!("{more} more {steps}: run oomdoctor and paste the traceback."));
    }
    harmless_lines(&lines.join("\n")) + "\n"
}

/// What changed since it worked, a line each; what explains the failure comes first.
pub fn differences(since: &[Difference]) -> Vec<String> {
    if since.is_empty() {
        return vec!["Compared with the run that worked, the two logs show no difference.".into()];
    }
    let mut lines = vec!["Compared with the run that worked:".to_owned()];
    lines.extend(since.iter().map(|one| {
        let (before, now) = (one.before.as_deref().unwrap_or("not set"), one.now.as_deref().unwrap_or("not set"));
        let explains = if one.explains { "  (this can explain it)" } else { "" };
        format!("  {}: {before} -> {now}{explains}", one.what)
    }));
    lines
}

/// What was done about the failure before, a line each: what was seen apart from what the user reported.
fn steps_taken(walked: &Walked) -> Vec<String> {
    let mut lines = vec!["Done before:".to_owned()];
    lines.extend(walked.behind.iter().map(|(title, mark)| format!("  {} {title} ({})", mark.sign(), mark.outcome())));
    lines.extend(walked.freed.iter().map(|line| format!("  Seen: {line}")));
    lines.push(format!("  {}", walked.result()));
    lines
}

/// Which rules led to the causes and steps.
fn rules(advice: &Advice) -> Vec<String> {
    let mut lines = Vec::new();
    for part in why::explained(advice) {
        lines.extend([String::new(), part.heading.to_owned()]);
        lines.extend(part.lines.iter().map(|line| format!("   {line}")));
    }
    lines
}

/// What a step frees, where that is told, and what it costs.
fn effect_and_costs(planned: &PlannedFix) -> String {
    let frees = words::gives_back(planned);
    format!("{frees}{}costs: {}", if frees.is_empty() { "" } else { "; " }, planned.costs)
}

fn step(number: usize, planned: &PlannedFix) -> Vec<String> {
    let enough = if planned.may_be_enough { "; may be enough" } else { "" };
    let mut lines = vec![format!("{number}. {}  ({}{enough})", planned.title, effect_and_costs(planned))];
    for step in &planned.steps {
        lines.push(format!("   {}", step.action));
        lines.extend(step.command.iter().flat_map(|command| command.lines()).map(|line| format!("     {line}")));
        lines.extend(step.versions.as_ref().map(|versions| format!("   Note: {versions}")));
        lines.push(format!("   {}", step.expect));
    }
    lines
}

/// A line of at most 240 columns.
pub(crate) fn shortened(line: &str) -> String {
    cut(line.trim(), 240)
}

fn cut(line: &str, width: usize) -> String {
    match line.char_indices().nth(width) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(line)),
        None => line.trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::{Situation, advise};
    use crate::knowledge::KnowledgeBase;
    use crate::log::PastedLog;

    fn reported(log: &str, check: impl Fn(serde_json::Value, String)) {
        let base = KnowledgeBase::built_in().unwrap();
        let diagnosis = base.diagnose(&PastedLog::new(log), None);
        let advice = advise(&Situation { fixes: &base.fixes, ..Situation::alone(&diagnosis) });
        let report = Report::of(&diagnosis, &advice);
        check(serde_json::to_value(json::Output::of(&report)).unwrap(), text(&report));
    }

    #[test]
    fn the_json_has_the_contracts_fields() {
        let log = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 8.00 GiB total capacity)";
        reported(log, |json, text| {
            assert_eq!(json["oom"], "yes");
            assert_eq!(json["memory"], "gpu");
            assert_eq!(json["facts"]["requested_bytes"], 2_u64 << 30);
            assert_eq!(json["matches"][0]["entry"], "pytorch/cuda-out-of-memory");
            assert!(json["verdict"]["sentence"].as_str().unwrap().contains("GPU 1 ran out of VRAM"));
            assert_eq!(json["ledger"]["needed_is_at_least"], true);
            assert_eq!(json["plan"][0]["safety"].as_str().map(str::is_empty), Some(false));
            assert!(json["live"].is_null());
            assert!(text.starts_with("GPU 1 ran out of VRAM"), "{text}");
        });
    }

    #[test]
    fn a_brief_answer_has_the_verdict_and_three_steps_and_counts_the_rest() {
        let base = KnowledgeBase::built_in().unwrap();
        let log = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 8.00 GiB total capacity)";
        let diagnosis = base.diagnose(&PastedLog::new(log), None);
        let mut advice = advise(&Situation { fixes: &base.fixes, ..Situation::alone(&diagnosis) });
        let titles: Vec<String> = advice.plan.iter().map(|planned| planned.title.clone()).collect();
        assert!(titles.len() > 4, "{titles:?}");
        let numbered = |text: &str| {
            let of = |at: usize| text.lines().any(|line| line == format!("{}. {}", at + 1, titles[at]));
            (0..titles.len()).filter(|at| of(*at)).count()
        };
        let brief_of = |advice: &Advice| brief(&Report::of(&diagnosis, advice));
        let text = brief_of(&advice);
        assert!(text.starts_with(&advice.verdict.sentence), "{text}");
        assert_eq!(numbered(&text), 3, "{text}");
        assert!(text.lines().last().unwrap().starts_with(&(titles.len() - 3).to_string()), "{text}");
        advice.plan.truncate(2);
        assert_eq!(numbered(&brief_of(&advice)), 2);
    }

    #[test]
    fn a_no_has_no_verdict() {
        reported("all is well", |json, _| {
            assert_eq!(json["oom"], "no");
            assert!(json["raised_by"].is_null() && json.get("verdict").is_none());
        });
    }

    #[test]
    fn the_rules_behind_the_answer_are_printed_when_asked_for() {
        let base = KnowledgeBase::built_in().unwrap();
        let log = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 8.00 GiB total capacity)";
        let diagnosis = base.diagnose(&PastedLog::new(log), None);
        let advice = advise(&Situation { fixes: &base.fixes, ..Situation::alone(&diagnosis) });
        let of = |explains| {
            let diagnosis = &diagnosis;
            text(&Report { explains, ..Report::of(diagnosis, &advice) })
        };
        assert!(advice.not_offered.iter().all(|step| of(true).contains(&step.rule)));
        assert!(advice.verdict.causes.iter().all(|cause| of(true).contains(cause.rule)));
        assert!(!advice.not_offered.is_empty() && of(true).starts_with(of(false).trim_end()));
    }
}
