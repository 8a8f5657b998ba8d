//! Owns which changes the verdict's sentence names ("It fits with 12K tokens of context") and whether a step makes each.

use oomdoctor::advice::{Advice, PlannedFix};

use super::commands;

/// A change as the sentence calls it.
struct NamedChange {
    words: &'static str,
    /// The options that carry its value in the flags that come with it; a step makes it with that value in its command.
    options: &'static [&'static str],
    /// The fixes that make it where the flags carry no value.
    fixes: &'static [&'static str],
}

const fn named(words: &'static str, options: &'static [&'static str], fixes: &'static [&'static str]) -> NamedChange {
    NamedChange { words, options, fixes }
}

const CHANGES: &[NamedChange] = &[
    named(
        "tokens of context",
        &["-c", "--max-model-len", "--context-length", "OLLAMA_CONTEXT_LENGTH", "max_length"],
        &["shorter-context", "max-model-len"],
    ),
    named("one request", &["-np"], &["fewer-sequences"]),
    named("KV cache in", &["-ctk", "--kv-cache-dtype", "OLLAMA_KV_CACHE_TYPE"], &["quantised-kv-cache"]),
    named("layers on the GPU", &["-ngl", "num_gpu"], &["offload-fewer-layers"]),
    named("a larger pool", &["--mem-fraction-static"], &["raise-utilization"]),
    named("the rest in system memory", &["--cpu-offload-gb", "max_memory"], &["offload-fewer-layers"]),
    named("a checkpoint in 4 bits", &[], &["smaller-quantisation"]),
    named(" instead of ", &[], &["smaller-quantisation"]),
    named("weights in ", &[], &["smaller-quantisation", "half-precision"]),
    named("flash attention", &[], &["flash-attention"]),
    named("the image encoder in system memory", &[], &["projector-on-cpu"]),
    named("gradient checkpointing", &[], &["gradient-checkpointing"]),
    named("LoRA", &[], &["lora"]),
];

/// The changes that the sentence names and no step makes.
pub fn without_a_step(advice: &Advice) -> Vec<String> {
    let sentence = &advice.verdict.sentence;
    let mut found = Vec::new();
    for choice in advice.fit.iter().flat_map(|fit| &fit.choices) {
        if !sentence.contains(&format!("with {}", choice.change)) {
            continue;
        }
        // Several changes at once are one step.
        if advice.plan.iter().any(|planned| !planned.parts.is_empty() && choice.fixes.contains(&planned.fix)) {
            continue;
        }
        let parts: Vec<&NamedChange> = CHANGES.iter().filter(|named| choice.change.contains(named.words)).collect();
        if parts.is_empty() {
            found.push(format!("{:?} needs a row in the table of properties/changes.rs", choice.change));
            continue;
        }
        let flags = choice.flags.as_deref().unwrap_or_default();
        let is_made = advice.plan.iter().any(|planned| parts.iter().all(|part| is_made_by(planned, part, flags)));
        if !is_made {
            found.push(format!("no step makes the change {:?}", choice.change));
        }
    }
    found
}

fn is_made_by(planned: &PlannedFix, change: &NamedChange, flags: &str) -> bool {
    match value_of(change.options, flags) {
        Some(value) => commands(planned).any(|command| words(command).any(|word| word == value)),
        None => change.fixes.contains(&planned.fix.as_str()),
    }
}

/// What follows the first of these options.
fn value_of<'a>(options: &[&str], flags: &'a str) -> Option<&'a str> {
    let mut words = words(flags);
    words.find(|word| options.contains(word))?;
    words.next()
}

fn words(command: &str) -> impl Iterator<Item = &str> {
    command.split([' ', '=', ',', '(', ')']).filter(|word| !word.is_empty())
}

/// Steps that make several changes although one is enough, are not enough, or do not come first.
pub fn misplaced_sets(advice: &Advice) -> Vec<String> {
    let sets = advice.plan.iter().enumerate().filter(|(_, planned)| !planned.parts.is_empty());
    let mut found = Vec::new();
    for (at, set) in sets {
        let title = &set.title;
        if at > 0 || !set.may_be_enough {
            found.push(format!("{title}: step {at}, enough {:?}", set.enough));
        }
        // A shorter and smaller cache comes before what makes every answer slower.
        let is_slow =
            |planned: &&PlannedFix| ["offload-fewer-layers", "kv-cache-on-cpu"].contains(&planned.fix.as_str());
        let quick = advice.plan.iter().skip(1).filter(|planned| !is_slow(planned));
        let alone = quick.filter(|planned| planned.may_be_enough);
        found.extend(alone.map(|planned| format!("{title}: {} is enough alone", planned.fix)));
        let others = advice.plan.iter().skip(1).filter(|planned| set.parts.contains(&planned.fix));
        if others.count() == 0 || set.steps.len() != 1 {
            found.push(format!("{title}: {:?} are no steps, or not in one", set.parts));
        }
    }
    found
}
