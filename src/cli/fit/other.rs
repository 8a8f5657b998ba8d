//! Owns what llama.cpp would take where it runs otherwise than reckoned: an earlier build, or with the slots that its
//! server opens by itself. Said only where it changes the answer or the sum. Source: llama.cpp's server and
//! `llama_context::sched_reserve`, read on 2026-11-21. Pure.

use crate::memory::settings::OWN_SLOTS;
use crate::memory::{Card, Engine, ModelShape, Outputs, Settings, fits};
use crate::units::Bytes;

/// The same with a build that keeps the logits of a whole batch; `None` for an engine that has no such builds.
fn earlier(engine: &Engine) -> Option<Engine> {
    let Engine::LlamaCpp(settings) = engine else { return None };
    Some(Engine::LlamaCpp(Settings { outputs: Outputs::MicroBatch, ..*settings }))
}

/// The compute buffer of such a build, in bytes.
pub(super) fn earlier_compute(engine: &Engine, shape: &ModelShape) -> Option<Bytes> {
    earlier(engine)?.estimate(shape).compute.bytes
}

/// What to say beside an answer, in sentences without the full stop.
pub(super) fn notes(engine: &Engine, shape: &ModelShape, card: Option<&Card>, asked_slots: bool) -> Vec<String> {
    let (Engine::LlamaCpp(settings), Some(earlier)) = (engine, earlier(engine)) else { return Vec::new() };
    let (as_asked, in_earlier) = (fits(engine, shape, card), fits(&earlier, shape, card));
    let now = engine.estimate(shape).total();
    let mut notes = Vec::new();
    if as_asked == Some(true) && in_earlier == Some(false) {
        let total = earlier.estimate(shape).total().unwrap_or(Bytes::ZERO);
        let fate = if card.is_some_and(|card| total <= card.free) { "is too tight" } else { "does not fit" };
        notes.push(format!(
            "this is for llama-server since June 2026. Earlier builds, llama-completion and llama-cpp-python keep more logits: there it takes about {total} and {fate}"
        ));
    }
    let open = Engine::LlamaCpp(Settings { parallel: OWN_SLOTS, unified: true, ..*settings });
    if !asked_slots && let (Some(now), Some(total)) = (now, open.estimate(shape).total()) {
        let verdict = match (as_asked, fits(&open, shape, card)) {
            (Some(true), Some(false)) => " and does not fit",
            (Some(true), Some(true)) => " and fits, too",
            _ => "",
        };
        let more = total.less(now);
        if more > Bytes::mib(16) {
            notes.push(format!(
                "this is for one request at a time (-np 1). Without -np llama-server opens {OWN_SLOTS} slots: that takes about {more} more{verdict}"
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::table;

    fn said(name: &str, free: Option<u64>, asked: bool) -> Vec<String> {
        let shape = table::shape(&table::find(table::rows().unwrap(), name).unwrap(), "Q4_K_M");
        let settings = Settings { context: Some(16_384), outputs: Outputs::Slots, ..Settings::default() };
        let card = |free| Card {
            index: 0,
            uuid: None,
            name: "x".into(),
            total: Bytes::gib(80),
            free: Bytes::mib(free),
            each: Vec::new(),
        };
        notes(&Engine::LlamaCpp(settings), &shape, free.map(card).as_ref(), asked)
    }

    #[test]
    fn the_servers_own_slots_are_told_where_they_take_more() {
        assert_eq!(said("llama-3.1-8b", Some(80 << 10), false), Vec::<String>::new(), "they share what there is");
        let windows = said("gemma-3-27b", Some(80 << 10), false);
        assert!(windows.first().is_some_and(|note| note.contains("4 slots") && note.ends_with("fits, too")));
        assert_eq!(said("gemma-3-27b", Some(80 << 10), true), Vec::<String>::new(), "asked for");
        let states = said("qwen3.6-27b", None, false);
        assert!(states.first().is_some_and(|note| note.ends_with("about 449 MiB more")), "{states:?}");
    }

    #[test]
    fn an_earlier_build_is_told_of_where_that_turns_the_answer() {
        let shape = table::shape(&table::find(table::rows().unwrap(), "llama-3.1-8b").unwrap(), "Q4_K_M");
        let wanted = |outputs| {
            let settings = Settings { context: Some(16_384), outputs, ..Settings::default() };
            Engine::LlamaCpp(settings).estimate(&shape).wanted(1).unwrap().0 >> 20
        };
        let close = said("llama-3.1-8b", Some(wanted(Outputs::MicroBatch) - 10), false);
        let told = |note: &&String| note.contains("since June 2026") && note.ends_with("is too tight");
        assert!(close.first().filter(told).is_some(), "{close:?}");
        assert_eq!(said("llama-3.1-8b", Some(wanted(Outputs::MicroBatch) + 10), false), Vec::<String>::new());
        assert_eq!(said("llama-3.1-8b", Some(wanted(Outputs::Slots) - 10), false), Vec::<String>::new(), "in no build");
    }
}
