//! Owns the context: it is longer than the KV cache has room for.

use super::rule::Evidence;
use crate::advice::case::Case;
use crate::advice::engine;
use crate::advice::phrases::{line_of, plain_and};
use crate::advice::verdict::CauseKind;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind};

pub(super) fn cache_ran_out(case: &Case<'_>) -> Evidence {
    (case.log.memory == Some(MemoryKind::KvCache)).then(|| vec![tokens_and_room(case.log)])
}

pub(super) fn length_is_printed(case: &Case<'_>) -> Evidence {
    case.log.facts.context_tokens.map(|_| vec![tokens_and_room(case.log)])
}

pub(super) fn cache_not_allocated(case: &Case<'_>) -> Evidence {
    if case.log.run.told != Some(CauseKind::Context) {
        return None;
    }
    let of = case.log.run.context_tokens.map(|tokens| format!(" of {tokens} tokens")).unwrap_or_default();
    Some(vec![format!("the KV cache{of} was not allocated{}", line_of(case.log))])
}

fn tokens_and_room(log: &Diagnosis) -> String {
    let line = line_of(log);
    match (log.facts.context_tokens, log.facts.max_tokens) {
        (Some(tokens), Some(room)) if tokens > room => format!("{tokens} tokens of context, room for {room}{line}"),
        (Some(tokens), None) => format!("{tokens} tokens of context{line}"),
        (Some(tokens), Some(room)) => format!("{tokens} tokens were asked for when {room} were free{line}"),
        (None, Some(room)) => format!("the KV cache has room for {room} tokens{line}"),
        (None, None) => match engine::used_up(log) {
            Some(used_up) => format!("{used_up}{line}"),
            None => format!("the engine's KV cache is what ran out{line}"),
        },
    }
}

pub(super) fn say(case: &Case<'_>) -> String {
    if case.log.memory == Some(MemoryKind::KvCache) {
        return cache_in_words(case.log);
    }
    let tokens = case.log.run.context_tokens;
    plain_and(case, tokens.map(|tokens| format!("{tokens} tokens of context are what does not fit.")))
}

/// Why the engine's KV cache is too small.
pub(super) fn cache_in_words(log: &Diagnosis) -> String {
    if let Some(used_up) = engine::used_up(log) {
        return format!("Nothing is left for the KV cache: {used_up}.");
    }
    match (log.facts.context_tokens, log.facts.max_tokens) {
        (Some(tokens), Some(room)) if tokens > room => {
            format!("The KV cache is too small for the context: {tokens} tokens were requested, {room} fit.")
        }
        (Some(tokens), Some(room)) => {
            format!("The engine's KV cache did not fit {tokens} tokens, though it counted {room} as free.")
        }
        _ => "The engine's KV cache is too small for the request.".to_owned(),
    }
}
