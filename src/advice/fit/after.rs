//! Owns what the steps already taken make of the run: the failed run's diagnosis with the settings of the changed
//! command line, so that the steps ahead are reckoned from there and not from what failed.

use crate::knowledge::diagnosis::Diagnosis;
use crate::knowledge::run::Run;

/// The run as this command line would start it. What the log printed of a setting or a size that it
/// changes no longer counts.
pub fn changed(diagnosis: &Diagnosis, command: &str) -> Diagnosis {
    let run = &diagnosis.run;
    let words: Vec<&str> = command.split([' ', '=']).collect();
    let value = |names: &[&str]| {
        let at = words.iter().rposition(|word| names.contains(word))?;
        words.get(at.checked_add(1)?).copied()
    };
    let number = |names: &[&str]| value(names)?.parse::<u64>().ok();
    let context = number(&["-c", "--ctx-size", "--max-model-len", "--context-length"]);
    // Ollama multiplies what one request has.
    let slots = number(&["OLLAMA_NUM_PARALLEL"]);
    let had = run.context_tokens.or(diagnosis.facts.context_tokens).and_then(|all| all.checked_div(run.slots()));
    let each = number(&["OLLAMA_CONTEXT_LENGTH"]).or_else(|| slots.and(had));
    let context = context.or_else(|| each?.checked_mul(slots.unwrap_or_else(|| run.slots())));
    let kv_type = value(&["-ctk", "--cache-type-k", "--kv-cache-dtype", "OLLAMA_KV_CACHE_TYPE"]);
    let layers = number(&["-ngl", "--n-gpu-layers", "--gpu-layers"]);
    let mut printed = run.printed.clone();
    let says = |names: &[&str]| value(names).is_some();
    if says(&["-ub", "--ubatch-size"]) {
        printed.remove("n_ubatch");
    }
    if says(&["-fa", "--flash-attn"]) {
        printed.remove("flash_attn");
    }
    if says(&["-np", "--parallel"]) {
        printed.remove("n_seq_max");
    }
    if let Some(slots) = slots {
        printed.remove("n_seq_max");
        printed.insert("ollama_num_parallel".into(), slots.to_string());
    }
    if let Some(share) = value(&["--gpu-memory-utilization"]) {
        printed.insert("gpu_memory_utilization".into(), share.into());
    }
    let all = run.layers_offloaded.map(|(_, all)| all);
    let run = Run {
        context_tokens: context.or(run.context_tokens),
        kv_type: kv_type.map(str::to_owned).or_else(|| run.kv_type.clone()),
        layers_offloaded: match layers {
            Some(on) => all.map(|all| (on.min(all), all)),
            None => run.layers_offloaded,
        },
        weights_bytes: run.weights_bytes.filter(|_| layers.is_none()),
        kv_cache_bytes: None,
        compute_bytes: None,
        printed,
        command: Some(command.to_owned()),
        ..run.clone()
    };
    let mut facts = diagnosis.facts.clone();
    facts.context_tokens = context.or(facts.context_tokens);
    // What was asked for when it failed is no size of the changed run.
    facts.requested_bytes = None;
    Diagnosis { run, facts, ..diagnosis.clone() }
}
