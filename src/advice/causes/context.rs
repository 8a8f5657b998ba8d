//! Owns the context: it is longer than the KV cache has room for.

use super::evidence::line_of;
use super::rule::{About, Blames, Rule, SpeaksOfSize};
use crate::advice::case::Case;
use crate::advice::engine;
use crate::advice::phrases::plain;
use crate::advice::verdict::{CauseKind, Strength};
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind};

pub(crate) const ABOUT: About = About {
    id: CauseKind::Context,
    name: "context",
    blames: Blames::SomethingElse,
    speaks_of_size: SpeaksOfSize::Always,
    is_solved_by_another_gpu: false,
    say,
    prevent,
};

pub(crate) const KV_CACHE_RAN_OUT: Rule =
    Rule { about: &ABOUT, name: "the engine's KV cache ran out", strength: Strength::Proven, find: cache_ran_out };

pub(crate) const KV_CACHE_NOT_ALLOCATED: Rule = Rule {
    about: &ABOUT,
    name: "the log says that the KV cache was not allocated",
    strength: Strength::Strong,
    find: cache_not_allocated,
};

pub(crate) const LENGTH_IS_PRINTED: Rule = Rule {
    about: &ABOUT,
    name: "the log prints the context's length",
    strength: Strength::Likely,
    find: length_is_printed,
};

fn cache_ran_out(case: &Case<'_>) -> Option<Vec<String>> {
    (case.log.memory == Some(MemoryKind::KvCache)).then(|| vec![tokens_and_room(case.log)])
}

fn length_is_printed(case: &Case<'_>) -> Option<Vec<String>> {
    case.log.facts.context_tokens.map(|_| vec![tokens_and_room(case.log)])
}

fn cache_not_allocated(case: &Case<'_>) -> Option<Vec<String>> {
    if case.log.run.told != Some(CauseKind::Context) {
        return None;
    }
    let of = case.log.run.context_tokens.map(|tokens| format!(" of {tokens} tokens")).unwrap_or_default();
    Some(vec![format!("it is the KV cache{of} that found no room{}", line_of(case.log))])
}

fn tokens_and_room(log: &Diagnosis) -> String {
    let line = line_of(log);
    match (log.facts.context_tokens, log.facts.max_tokens) {
        (Some(tokens), Some(room)) if tokens > room => format!("{tokens} tokens of context, room for {room}{line}"),
        (Some(tokens), None) => format!("{tokens} tokens of context{line}"),
        (Some(_), Some(room)) => format!("{room} tokens of it were free, not enough for the next step{line}"),
        (None, Some(room)) => format!("the KV cache has room for {room} tokens{line}"),
        (None, None) => match engine::used_up(log) {
            Some(used_up) => format!("{used_up}{line}"),
            None => format!("the engine's KV cache is what ran out{line}"),
        },
    }
}

fn say(case: &Case<'_>) -> String {
    if case.log.memory == Some(MemoryKind::KvCache) {
        return cache_in_words(case.log);
    }
    match case.log.run.context_tokens {
        Some(tokens) => format!("{} {tokens} tokens of context are what does not fit.", plain(case)),
        None => plain(case),
    }
}

/// Why the engine's KV cache is too small.
pub(crate) fn cache_in_words(log: &Diagnosis) -> String {
    if let Some(used_up) = engine::used_up(log) {
        return format!("Nothing is left for the KV cache: {used_up}.");
    }
    match (log.facts.context_tokens, log.facts.max_tokens) {
        (Some(tokens), Some(room)) if tokens > room => {
            format!("The KV cache is too small for the context: {tokens} tokens were asked for, it holds {room}.")
        }
        _ => "The engine's KV cache is too small for what it was asked to hold.".to_owned(),
    }
}

fn prevent(_is_training: bool) -> &'static str {
    "Before the next model: oomdoctor fit MODEL says what it takes, and the largest context that fits."
}
