//! Owns what another command line makes of the run: the failed run's diagnosis with the settings of that command line,
//! which the steps taken have changed or the person has given.

use std::borrow::Cow;

use super::setup;
use crate::knowledge::{Diagnosis, Run};
use crate::memory::knobs::{self, context, kv_type, layers, share, slots};
use crate::memory::settings::CELL_PADDING;

/// The run as this command line would start it. What the log printed of a setting or a size that it
/// changes no longer counts.
pub(crate) fn changed(diagnosis: &Diagnosis, command: &str) -> Diagnosis {
    let run = &diagnosis.run;
    let context = changed_context(diagnosis, command);
    let layers = typed_layers(command);
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

/// The failed run as this command line starts it: with the command's settings where they differ from the log's. Where they
/// are the same, the log's figures are this run's and stay.
pub(crate) fn as_started<'a>(diagnosis: &'a Diagnosis, command: &str) -> Cow<'a, Diagnosis> {
    if is_set_otherwise(diagnosis, command) {
        return Cow::Owned(changed(diagnosis, command));
    }
    let run = Run { command: Some(command.to_owned()), ..diagnosis.run.clone() };
    Cow::Owned(Diagnosis { run, ..diagnosis.clone() })
}

fn is_set_otherwise(diagnosis: &Diagnosis, command: &str) -> bool {
    let run = &diagnosis.run;
    let context = changed_context(diagnosis, command).zip(setup::context(diagnosis));
    // llama.cpp rounds what was typed up before it prints it.
    let is_context = context.is_some_and(|(typed, printed)| typed.abs_diff(printed) >= CELL_PADDING);
    let kv_type = kv_type::KNOB.typed(command).zip(run.kv_type.as_deref());
    let layers = typed_layers(command).zip(run.layers_offloaded);
    let is_printed_otherwise = knobs::all().any(|knob| {
        let printed = knob.printed.iter().find_map(|name| run.printed.get(*name));
        knob.typed(command).zip(printed).is_some_and(|(typed, printed)| !is_same_value(typed, printed))
    });
    is_context
        || is_printed_otherwise
        || kv_type.is_some_and(|(typed, printed)| typed != printed)
        || layers.is_some_and(|(typed, (on, all))| typed.min(all) != on)
}

/// Whether two spellings of a value are the same: 0.9 and 0.90.
fn is_same_value(one: &str, other: &str) -> bool {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one.total_cmp(&other).is_eq(),
        _ => one == other,
    }
}

fn typed_layers(command: &str) -> Option<u64> {
    layers::KNOB.typed(command)?.parse().ok()
}

fn ollama_slots(command: &str) -> Option<u64> {
    slots::KNOB.variable(command)?.parse().ok()
}

/// The context of all requests together. Ollama multiplies what one request has.
fn changed_context(diagnosis: &Diagnosis, command: &str) -> Option<u64> {
    let typed: Option<u64> = context::KNOB.typed(command).and_then(|text| text.parse().ok());
    // 0 stands for what the model was made for.
    if let Some(context) = typed.filter(|tokens| *tokens > 0) {
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
