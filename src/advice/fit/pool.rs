//! Owns what follows from vLLM's own figures when one request of the maximum length does not fit its KV cache: the
//! length that fits, and what an 8-bit cache holds. From the log alone; exact for models with one kind of layer, where
//! bytes grow with tokens. Knows no model.

use super::answer::{FitAdvice, FitChoice};
use super::effect::Effect;
use super::room::{Room, Vram};
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind};
use crate::knowledge::{EntryId, FixId};
use crate::memory::options::{self, Card, tokens_in_words};
use crate::memory::{Engine, Is, ModelShape, vllm};
use crate::units::Bytes;

/// Tokens of a block of vLLM's cache.
const BLOCK: u64 = 16;

/// So many tokens of `whole` bytes for `of` tokens as `part` bytes hold, in whole blocks.
fn tokens_in(part: Bytes, whole: Bytes, of: u64) -> Option<u64> {
    let tokens = u128::from(of).checked_mul(part.0.into())?.checked_div(whole.0.into())?;
    u64::try_from(tokens).ok().map(|tokens| tokens / BLOCK * BLOCK).filter(|tokens| *tokens > 0)
}

/// The bytes of `tokens`, where `of` tokens take `whole` bytes.
fn bytes_of(tokens: u64, whole: Bytes, of: u64) -> Option<Bytes> {
    let bytes = u128::from(whole.0).checked_mul(tokens.into())?.checked_div(of.into())?;
    u64::try_from(bytes).ok().map(Bytes)
}

/// What a smaller share of the card gives back: what the engine wanted for itself less what is free for it now, in
/// hundredths of the card as the step has them. Whether that holds the model is not said here, see
/// [`Effect::hold_against`]. `None` where the log or the machine lacks a figure.
pub fn share(diagnosis: &Diagnosis, failed_gpu: Option<Vram>) -> Option<Effect> {
    let asked =
        diagnosis.matches.first().is_some_and(|found| found.entry == EntryId::VLLM_FREE_MEMORY_LESS_THAN_DESIRED);
    let wanted = diagnosis.facts.requested_bytes.filter(|_| asked)?;
    let (free, capacity) = (failed_gpu?.free?, failed_gpu?.total?);
    let share = vllm::allowed(capacity, vllm::possible_utilization(free, capacity) / 10 * 10);
    let frees = Some((wanted.less(share), Is::Fact)).filter(|(bytes, _)| *bytes > Bytes::ZERO);
    Some(Effect { frees, ..Effect::of(FixId::LOWER_UTILIZATION) })
}

impl Effect {
    /// Whether the model fits vLLM with the share that is free: weights, work space and one request of its length.
    pub(super) fn hold_against(&mut self, engine: &Engine, shape: &ModelShape, room: &Room) {
        let (Engine::Vllm(serving), Some(free), Some(total)) = (engine, room.free, room.capacity) else { return };
        let utilization = vllm::possible_utilization(free, total) / 10 * 10;
        let smaller = Engine::Vllm(vllm::Serving { utilization, ..*serving });
        let card = Card { index: 0, uuid: None, name: String::new(), total, free, each: Vec::new() };
        self.fits = options::fits(&smaller, shape, Some(&card));
    }
}

/// What the engine's own figures say. `None` where the log has too few of them.
pub fn advice(diagnosis: &Diagnosis) -> Option<FitAdvice> {
    let facts = &diagnosis.facts;
    if diagnosis.memory != Some(MemoryKind::KvCache) {
        return None;
    }
    let asked = facts.context_tokens?;
    let (needed, free) = (facts.requested_bytes, facts.free_bytes);
    let by_bytes = || tokens_in(free?, needed?, asked);
    let most = facts.max_tokens.or_else(by_bytes).filter(|most| *most > 0 && *most < asked)?;
    let (mut choices, mut effects) = (Vec::new(), Vec::new());
    let mut offer = |fixes: &[FixId], change: String, total: Option<Bytes>, length: Option<u64>, flags: String| {
        let frees = needed.zip(total).map(|(needed, total)| needed.less(total));
        choices.push(FitChoice {
            change,
            total_bytes: total,
            free_after_bytes: None,
            frees_bytes: frees,
            frees_is: frees.map(|_| Is::About),
            fits: Some(true),
            flags: Some(flags),
            download_bytes: None,
            fixes: fixes.to_vec(),
        });
        let value = length.map(|length| ("half_context", length.to_string()));
        let frees = frees.map(|bytes| (bytes, Is::About));
        effects.extend(fixes.iter().map(|&fix| Effect {
            frees,
            fits: Some(true),
            value: value.clone(),
            ..Effect::of(fix)
        }));
    };
    let is_small = diagnosis.run.kv_type.as_deref().is_some_and(|kind| kind.starts_with("fp8"));
    let twice = most.saturating_mul(2);
    if !is_small && twice >= asked {
        let half = needed.map(|needed| Bytes(needed.0 / 2));
        offer(&[FixId::QUANTISED_KV_CACHE], "the KV cache in fp8".into(), half, None, "--kv-cache-dtype fp8".into());
    }
    let total = needed.and_then(|needed| bytes_of(most, needed, asked));
    let words = format!("{} tokens of context", tokens_in_words(most));
    offer(&[FixId::MAX_MODEL_LEN, FixId::SHORTER_CONTEXT], words, total, Some(most), format!("--max-model-len {most}"));
    if !is_small && twice < asked {
        let words = format!("{} tokens of context and the KV cache in fp8", tokens_in_words(twice));
        let total = needed.and_then(|needed| bytes_of(most, needed, asked));
        offer(&[], words, total, None, format!("--max-model-len {twice} --kv-cache-dtype fp8"));
    }
    if !is_small && twice < asked {
        let frees = needed.map(|needed| (Bytes(needed.0 / 2), Is::About));
        effects.push(Effect { frees, fits: Some(false), ..Effect::of(FixId::QUANTISED_KV_CACHE) });
    }
    Some(FitAdvice {
        context_tokens: Some(asked),
        total_bytes: needed,
        free_now_bytes: free,
        fits: Some(false),
        choices,
        notes: vec![
            "by vLLM's own figures of its KV cache; they grow evenly with the length, but for windowed layers".into(),
        ],
        effects,
        ..FitAdvice::of("vLLM")
    })
}
