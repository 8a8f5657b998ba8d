//! Owns what the steps already taken make of the run: the failed run's diagnosis with the settings of the changed
//! command line, so that the steps ahead are reckoned from there and not from what failed.

use crate::knowledge::{Diagnosis, Run};
use crate::memory::knobs::{self, context, kv_type, layers, share, slots};

/// The run as this command line would start it. What the log printed of a setting or a size that it
/// changes no longer counts.
pub(crate) fn changed(diagnosis: &Diagnosis, command: &str) -> Diagnosis {
    let run = &diagnosis.run;
    let context = changed_context(diagnosis, command);
    let layers: Option<u64> = layers::KNOB.typed(command).and_then(|text| text.parse().ok());
    let all = run.layers_offloaded.map(|(_, all)| all);
    let mut printed = run.printed.clone();
    for knob in knobs::all().filter(|knob| knob.typed(command).is_some()) {
        printed.retain(|name, _| !knob.printed.contains(&name.as_str()));
    }
    if let Some(slots) = ollama_slots(command) {
        printed.retain(|name, _| !slots::KNOB.printed.contains(&name.as_str()));
        printed.insert("ollama_num_parallel".into(), slots.to_string());
    }
    if let Some(share) = share::KNOB.typed(command) {
        printed.extend(share::KNOB.printed.iter().map(|name| ((*name).to_owned(), share.to_owned())));
    }
    let kv_type = kv_type::KNOB.typed(command).or_else(|| kv_type::KNOB.variable(command));
    let run = Run {
        context_tokens: context.or(run.context_tokens),
        kv_type: kv_type.map(str::to_owned).or_else(|| run.kv_type.clone()),
        layers_offloaded: match layers {
            Some(on) => all.map(|all| (on.min(all), all)),
            None => run.layers_offloaded,
        },
        weights_bytes: if layers.is_none() { run.weights_bytes } else { None },
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

fn ollama_slots(command: &str) -> Option<u64> {
    slots::KNOB.variable(command)?.parse().ok()
}

/// The context of all requests together. Ollama multiplies what one request has.
fn changed_context(diagnosis: &Diagnosis, command: &str) -> Option<u64> {
    if let Some(context) = context::KNOB.typed(command).and_then(|text| text.parse().ok()) {
        return Some(context);
    }
    let run = &diagnosis.run;
    let slots = ollama_slots(command);
    let each = match context::KNOB.variable(command).and_then(|text| text.parse().ok()) {
        Some(each) => each,
        None if slots.is_some() => run.context_tokens.or(diagnosis.facts.context_tokens)?.checked_div(run.slots())?,
        None => return None,
    };
    u64::checked_mul(each, slots.unwrap_or_else(|| run.slots()))
}
