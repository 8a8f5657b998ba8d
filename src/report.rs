//! Owns what a report is made from. `plain` is its text for a person, `json` the same for scripts, `markdown` the report
//! for others. Knows nothing of terminals.

pub mod allocations;
pub mod block;
mod effect;
pub mod json;
pub mod markdown;
pub mod plain;
pub mod recorded;
pub mod redact;

use crate::advice::Advice;
use crate::advice::changed::Difference;
use crate::gpu::Snapshot;
use crate::hosts::HostName;
use crate::knowledge::diagnosis::Diagnosis;
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
    /// The machine that was read; `None` for this one.
    pub host: Option<&'a HostName>,
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
            host: None,
            no_reading: None,
            why: None,
            explains: false,
            since: None,
            walked: None,
        }
    }
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
        check(serde_json::to_value(json::Output::of(&report)).unwrap(), plain::text(&report, plain::Extent::default()));
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
            assert!(text.starts_with("NOT ENOUGH VRAM on GPU 1: "), "{text}");
        });
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
        let report = Report::of(&diagnosis, &advice);
        let why = plain::text(&report, plain::Extent { why: true, ..plain::Extent::default() });
        assert!(!advice.not_offered.is_empty() && advice.not_offered.iter().all(|step| why.contains(&step.rule)));
        assert!(advice.verdict.causes.iter().all(|cause| why.contains(cause.rule)));
    }
}
