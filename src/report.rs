//! Owns printing what was found: the JSON of the contract and the plain text; `markdown` has the report for others.
//! Knows nothing of terminals.

pub mod markdown;
pub mod redact;

use serde_json::{Value, json};

use crate::advice::{Advice, PlannedFix, words};
use crate::gpu::Snapshot;
use crate::knowledge::diagnosis::{Diagnosis, Match, Oom};
use crate::text::harmless_lines;

/// Everything a report is made from.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// What the log says.
    pub diagnosis: &'a Diagnosis,
    /// That and the machine joined.
    pub advice: &'a Advice,
    /// The machine it was held against.
    pub snapshot: Option<&'a Snapshot>,
    /// Why there is no reading of the machine, where one was wanted.
    pub no_reading: Option<&'a str>,
    /// The leading entry's explanation.
    pub why: Option<&'a str>,
}

/// The JSON of `diagnose` (contract schema 1). For a no, verdict, ledger and plan are left out.
pub fn json(report: &Report<'_>) -> Value {
    let diagnosis = report.diagnosis;
    let mut object = json!({
        "schema": 1,
        "oom": diagnosis.oom,
        "memory": diagnosis.memory,
        "raised_by": diagnosis.raised_by,
        "program": diagnosis.program,
        "phase": diagnosis.phase,
        "facts": diagnosis.facts,
        "run": diagnosis.run,
        "matches": diagnosis.matches.iter().map(matched).collect::<Vec<_>>(),
        "remark": diagnosis.remark,
        "crashed_at": diagnosis.crashed_at,
        "live": report.snapshot,
    });
    if let (Some(object), true) = (object.as_object_mut(), diagnosis.oom != Oom::No) {
        object.insert("verdict".into(), json!(report.advice.verdict));
        object.insert("ledger".into(), json!(report.advice.ledger));
        object.insert("fit".into(), json!(report.advice.fit));
        object.insert("plan".into(), json!(report.advice.plan));
        if let Some(reason) = report.no_reading {
            object.insert("live_reason".into(), json!(reason));
        }
    }
    object
}

fn matched(one: &Match) -> Value {
    json!({"entry": one.entry, "certainty": one.certainty, "line": one.line, "text": one.text})
}

/// The same as a person reads it: the sentence, the arithmetic, the decisive line, the steps.
pub fn text(report: &Report<'_>) -> String {
    let mut lines = words::verdict(report.advice);
    if let Some(sums) = words::sums(report.advice) {
        lines.push(sums);
    }
    if let Some(reason) = report.no_reading {
        lines.push(format!("This machine could not be read: {reason}"));
    }
    if let Some(leading) = report.diagnosis.matches.first() {
        lines.push(String::new());
        lines.push(format!("line {}: {}", leading.line, shortened(&leading.text)));
    }
    if let Some(why) = report.why {
        lines.push(String::new());
        lines.push(why.to_owned());
    }
    if let Some(fit) = &report.advice.fit {
        lines.push(String::new());
        lines.extend(fit.lines());
    }
    for (at, planned) in report.advice.plan.iter().enumerate() {
        lines.push(String::new());
        lines.extend(step(at + 1, planned));
    }
    harmless_lines(&lines.join("\n")) + "\n"
}

fn step(number: usize, planned: &PlannedFix) -> Vec<String> {
    let mut notes = vec![words::gives_back(planned), format!("costs: {}", planned.costs)];
    if planned.may_be_enough {
        notes.push("may be enough".into());
    }
    notes.retain(|note| !note.is_empty());
    let mut lines = vec![format!("{number}. {}  ({})", planned.title, notes.join("; "))];
    for step in &planned.steps {
        lines.push(format!("   {}", step.action));
        lines.extend(step.command.iter().flat_map(|command| command.lines()).map(|line| format!("     {line}")));
        lines.extend(step.versions.as_ref().map(|versions| format!("   Note: {versions}")));
        lines.push(format!("   {}", step.expect));
    }
    lines
}

pub(crate) fn shortened(line: &str) -> String {
    const WIDTH: usize = 240;
    let line = line.trim();
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(line)),
        None => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::{Situation, advise};
    use crate::knowledge::KnowledgeBase;
    use crate::log::PastedLog;

    fn reported(log: &str, check: impl Fn(Value, String)) {
        let base = KnowledgeBase::built_in().unwrap();
        let diagnosis = base.diagnose(&PastedLog::new(log), None);
        let advice = advise(&Situation { fixes: base.fixes(), ..Situation::alone(&diagnosis) });
        let report = Report { diagnosis: &diagnosis, advice: &advice, snapshot: None, no_reading: None, why: None };
        check(json(&report), text(&report));
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
    fn a_no_has_no_verdict() {
        reported("all is well", |json, _| {
            assert_eq!(json["oom"], "no");
            assert!(json["raised_by"].is_null() && json.get("verdict").is_none());
        });
    }
}
