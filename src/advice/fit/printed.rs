//! Owns what follows from the log's own figures where no model is known. When one request of the maximum length does not
//! fit vLLM's KV cache: the length that fits, and what an 8-bit cache holds; exact for models with one kind of layer, where
//! bytes grow with tokens. Of a training run that prints how many parameters it trains: the optimizer's states; about.

use super::answer::{FitAdvice, FitChoice};
use super::effect::Effect;
use super::room::{Room, Vram};
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind};
use crate::knowledge::{EntryId, FixId};
use crate::memory::knobs::{context, kv_type};
use crate::memory::training::bytes;
use crate::memory::{Card, Engine, Is, ModelShape, Optimizer, Recipe, fits, tokens_in_words, vllm};
use crate::units::Bytes;

/// States of which the saving is a smaller part of what is short, as an adapter's are, are no step.
const LEAST_PART: u64 = 8;

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

/// What a smaller share of the GPU frees: what the engine wanted for itself less what is free for it now, in
/// hundredths of the GPU as the step has them. Whether that holds the model is not said here, see
/// [`Effect::held_against`]. `None` where the log or the machine lacks a figure.
pub(crate) fn smaller_share(diagnosis: &Diagnosis, failed_gpu: Option<Vram>) -> Option<Effect> {
    if diagnosis.matches.first()?.entry != EntryId::VLLM_FREE_MEMORY_LESS_THAN_DESIRED {
        return None;
    }
    let wanted = diagnosis.facts.requested_bytes?;
    let (free, capacity) = (failed_gpu?.free?, failed_gpu?.total?);
    let share = vllm::allowed(capacity, vllm::possible_utilization(free, capacity) / 10 * 10);
    let frees = Some((wanted.less(share), Is::Fact)).filter(|(bytes, _)| *bytes > Bytes::ZERO);
    Some(Effect { frees, ..Effect::of(FixId::LOWER_UTILIZATION) })
}

impl Effect {
    /// Whether the model fits vLLM with the share that is free: weights, work space and one request of its length.
    pub(super) fn held_against(self, engine: &Engine, shape: &ModelShape, room: &Room) -> Effect {
        let (Engine::Vllm(serving), Some(free), Some(total)) = (engine, room.free, room.capacity) else { return self };
        let utilization = vllm::possible_utilization(free, total) / 10 * 10;
        let smaller = Engine::Vllm(vllm::Serving { utilization, ..*serving });
        Effect { fits: fits(&smaller, shape, Some(&Card::of(free, total))), ..self }
    }
}

/// What the engine's own figures say. `None` where the log has too few of them.
pub(crate) fn of_cache(diagnosis: &Diagnosis) -> Option<FitAdvice> {
    let facts = &diagnosis.facts;
    if diagnosis.memory != Some(MemoryKind::KvCache) {
        return None;
    }
    let asked = facts.context_tokens?;
    let (needed, free) = (facts.requested_bytes, facts.free_bytes);
    let most = facts.max_tokens.or_else(|| tokens_in(free?, needed?, asked));
    let most = most.filter(|most| *most > 0 && *most < asked)?;
    let twice = most.saturating_mul(2);
    let half = needed.map(|needed| Bytes(needed.0 / 2));
    let takes = needed.and_then(|needed| bytes_of(most, needed, asked));
    let is_fp8 = diagnosis.run.kv_type.as_deref().is_some_and(|kind| kind.starts_with("fp8"));
    let words = format!("{} tokens of context", tokens_in_words(most));
    let shorter = choice(words, format!("--max-model-len {most}"), needed, takes, context::KNOB.fixes);
    let mut effects = effects_of(&shorter, Some(("half_context", most.to_string())));
    let mut choices = vec![shorter];
    if !is_fp8 && twice >= asked {
        let (words, flags) = ("the KV cache in fp8".to_owned(), "--kv-cache-dtype fp8".to_owned());
        let fp8 = choice(words, flags, needed, half, kv_type::KNOB.fixes);
        effects.extend(effects_of(&fp8, None));
        choices.insert(0, fp8);
    } else if !is_fp8 {
        let words = format!("{} tokens of context and the KV cache in fp8", tokens_in_words(twice));
        choices.push(choice(words, format!("--max-model-len {twice} --kv-cache-dtype fp8"), needed, takes, &[]));
        let frees = half.map(|half| (half, Is::About));
        let fixes = kv_type::KNOB.fixes.iter();
        effects.extend(fixes.map(|fix| Effect { frees, fits: Some(false), ..Effect::of(*fix) }));
    }
    Some(FitAdvice {
        engine: "vLLM",
        context_tokens: Some(asked),
        total_bytes: needed,
        free_now_bytes: free,
        fits: Some(false),
        choices,
        notes: vec![
            "by vLLM's own figures of its KV cache; they grow evenly with the length, but for windowed layers".into(),
        ],
        effects,
        ..FitAdvice::default()
    })
}

/// A change after which one request takes `total` instead of `needed`.
fn choice(change: String, flags: String, needed: Option<Bytes>, total: Option<Bytes>, fixes: &[FixId]) -> FitChoice {
    let frees = needed.zip(total).map(|(needed, total)| needed.less(total));
    FitChoice {
        change,
        total_bytes: total,
        frees_bytes: frees,
        frees_is: frees.map(|_| Is::About),
        fits: Some(true),
        flags: Some(flags),
        fixes: fixes.to_vec(),
        ..FitChoice::default()
    }
}

fn effects_of(choice: &FitChoice, value: Option<(&'static str, String)>) -> Vec<Effect> {
    let effects = choice.fixes.iter().map(|fix| Effect {
        frees: choice.frees_bytes.zip(choice.frees_is),
        fits: choice.fits,
        value: value.clone(),
        ..Effect::of(*fix)
    });
    effects.collect()
}

/// What the log's own count of trained parameters says. `None` where it prints none.
pub(crate) fn of_optimizer(diagnosis: &Diagnosis) -> Option<FitAdvice> {
    let trained = diagnosis.run.trainable_parameters?;
    let [full, eight_bit] = [Optimizer::AdamW, Optimizer::AdamW8bit]
        .map(|optimizer| bytes(trained, Recipe::Mixed.trained(optimizer).optimizer));
    let saved = Bytes(full.saturating_sub(eight_bit));
    let facts = &diagnosis.facts;
    let short = facts.requested_bytes.zip(facts.free_bytes).map(|(requested, free)| requested.less(free));
    let is_idle = short.is_some_and(|short| saved < Bytes(short.0 / LEAST_PART));
    let effect = Effect { frees: Some((saved, Is::About)), is_idle, ..Effect::of(FixId::EIGHT_BIT_OPTIMIZER) };
    Some(FitAdvice {
        engine: "training",
        effects: vec![effect],
        why_not_known: Some("the log does not name the model".into()),
        notes: vec![format!("AdamW is assumed to train the {trained} parameters that the log counts")],
        ..FitAdvice::default()
    })
}
