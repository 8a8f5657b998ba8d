//! Owns printing a diagnosis: the JSON of the contract and the plain text. Knows nothing of terminals.

use serde_json::{Value, json};

use crate::knowledge::KnowledgeBase;
use crate::knowledge::diagnosis::{Diagnosis, Match, MemoryKind, Oom, Phase};
use crate::knowledge::facts::Fact;
use crate::knowledge::fix::{Condition, Fix};

/// What `advice` and the sampler add to a diagnosis; null in the JSON where it is not known.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// The verdict.
    pub verdict: Option<Value>,
    /// The bytes.
    pub ledger: Option<Value>,
    /// The steps.
    pub plan: Option<Value>,
    /// The snapshot it was held against.
    pub live: Option<Value>,
}

/// The JSON of `diagnose` (contract schema 1). For a no, verdict, ledger and plan are left out.
pub fn json(diagnosis: &Diagnosis, extras: Extras) -> Value {
    let mut report = json!({
        "schema": 1,
        "oom": diagnosis.oom,
        "memory": diagnosis.memory,
        "raised_by": diagnosis.raised_by,
        "program": diagnosis.program,
        "phase": diagnosis.phase,
        "facts": diagnosis.facts,
        "matches": diagnosis.matches.iter().map(matched).collect::<Vec<_>>(),
        "remark": diagnosis.remark,
        "crashed_at": diagnosis.crashed_at,
        "live": extras.live,
    });
    if let (Some(report), true) = (report.as_object_mut(), diagnosis.oom != Oom::No) {
        report.insert("verdict".into(), extras.verdict.unwrap_or_default());
        report.insert("ledger".into(), extras.ledger.unwrap_or_default());
        report.insert("plan".into(), extras.plan.unwrap_or_default());
    }
    report
}

fn matched(one: &Match) -> Value {
    json!({"entry": one.entry, "certainty": one.certainty, "line": one.line, "text": one.text})
}

/// What a diagnosis says in a few lines a person reads.
pub fn text(diagnosis: &Diagnosis, base: &KnowledgeBase) -> String {
    let mut out = String::new();
    out.push_str(&headline(diagnosis));
    out.push('\n');
    if let Some(remark) = &diagnosis.remark {
        out.push_str(&format!("  {remark}\n"));
    }
    if let Some(leading) = diagnosis.matches.first() {
        out.push_str(&format!("\n  line {}: {}\n", leading.line, shortened(&leading.text)));
        for (key, fact) in diagnosis.facts.listed() {
            out.push_str(&format!("  {:<28}{}\n", key.trim_end_matches("_bytes").replace('_', " "), shown(&fact)));
        }
        for process in &diagnosis.facts.other_processes {
            out.push_str(&format!("  {:<28}{}\n", format!("held by process {}", process.pid), process.bytes));
        }
        if let Some(entry) = base.entry(&leading.entry) {
            out.push_str(&format!("\n{}\n", entry.why));
            if let Some(place) = &entry.fuller_log {
                out.push_str(&format!("\nThe fuller log: {place}\n"));
            }
            if diagnosis.oom != Oom::No {
                out.push_str(&steps(&entry.fixes, diagnosis, base));
            }
        }
    }
    out
}

fn headline(diagnosis: &Diagnosis) -> String {
    let Some(raised_by) = &diagnosis.raised_by else {
        return "Nothing in this log says that memory ran out.".into();
    };
    let memory = diagnosis.memory.map_or("memory", spoken);
    let program = diagnosis.program.as_deref().unwrap_or(raised_by);
    match diagnosis.oom {
        Oom::Yes => format!("Out of {memory}: {raised_by} said so, in {program}."),
        Oom::Maybe => format!("Perhaps out of {memory}: {raised_by}, in {program}."),
        Oom::No => format!("Not out of memory: this is {raised_by} saying something else."),
    }
}

fn spoken(memory: MemoryKind) -> &'static str {
    match memory {
        MemoryKind::Gpu => "GPU memory",
        MemoryKind::KvCache => "KV cache",
        MemoryKind::Host => "system memory",
        MemoryKind::Shm => "shared memory (/dev/shm)",
        MemoryKind::Unified => "unified memory",
    }
}

fn shown(fact: &Fact) -> String {
    match fact {
        Fact::Size(bytes) => bytes.to_string(),
        Fact::Count(number) => number.to_string(),
        Fact::Word(word) => word.clone(),
    }
}

fn shortened(line: &str) -> String {
    const WIDTH: usize = 240;
    let line = line.trim();
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(line)),
        None => line.to_string(),
    }
}

/// The entry's fixes as far as the log alone allows: what needs a look at this machine is left to `advice`.
fn steps(fixes: &[String], diagnosis: &Diagnosis, base: &KnowledgeBase) -> String {
    let program = diagnosis.program.as_deref().unwrap_or_default();
    let raised_by = diagnosis.raised_by.as_deref().unwrap_or_default();
    let mut out = String::new();
    for fix in fixes.iter().filter_map(|id| base.fix(id)).filter(|fix| applies(fix, diagnosis)) {
        let Some(command) = fix.command_for(&[program, raised_by]) else { continue };
        out.push_str(&format!("\n- {} ({})\n  {}\n", fix.title, fix.costs, command.action));
        if let Some(line) = &command.command {
            out.push_str(&format!("    {}\n", filled(line, diagnosis).replace('\n', "\n    ")));
        }
    }
    out
}

fn applies(fix: &Fix, diagnosis: &Diagnosis) -> bool {
    let holds = |condition: &Condition| match condition {
        Condition::HolderAlive | Condition::OtherDeviceHasRoom => false,
        Condition::Fragmented => {
            let facts = &diagnosis.facts;
            facts
                .requested_bytes
                .is_some_and(|asked| facts.reserved_unallocated_bytes.is_some_and(|idle| idle >= asked))
        }
        Condition::Training => diagnosis.phase == Phase::Training,
        Condition::NotTraining => diagnosis.phase != Phase::Training,
        Condition::ContextInvolved => {
            diagnosis.facts.context_tokens.is_some() || diagnosis.memory == Some(MemoryKind::KvCache)
        }
    };
    let memory_fits = fix.memory.is_empty() || diagnosis.memory.is_some_and(|memory| fix.memory.contains(&memory));
    let phase_fits = fix.phases.is_empty() || fix.phases.contains(&diagnosis.phase);
    memory_fits && phase_fits && fix.when.iter().all(holds)
}

/// The placeholders a log can fill; the others get a word that asks for it.
fn filled(command: &str, diagnosis: &Diagnosis) -> String {
    let facts = &diagnosis.facts;
    let half = facts.max_tokens.or(facts.context_tokens.map(|tokens| tokens / 2)).unwrap_or(8192);
    command
        .replace("{half_context}", &half.to_string())
        .replace("{context}", &facts.context_tokens.unwrap_or(16_384).to_string())
        .replace("{utilization}", "0.80")
        .replace("{model}", "MODEL")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::PastedLog;

    #[test]
    fn the_json_has_the_contracts_fields() {
        let base = KnowledgeBase::built_in().unwrap();
        let log = PastedLog::new(
            "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 8.00 GiB total capacity)",
        );
        let report = json(&base.diagnose(&log, None), Extras::default());
        assert_eq!(report["oom"], "yes");
        assert_eq!(report["memory"], "gpu");
        assert_eq!(report["facts"]["requested_bytes"], 2_u64 << 30);
        assert_eq!(report["matches"][0]["entry"], "pytorch/cuda-out-of-memory");
        assert!(report["verdict"].is_null() && report.as_object().unwrap().contains_key("verdict"));
        let healthy = json(&base.diagnose(&PastedLog::new("all is well"), None), Extras::default());
        assert_eq!(healthy["oom"], "no");
        assert!(healthy["raised_by"].is_null());
    }
}
