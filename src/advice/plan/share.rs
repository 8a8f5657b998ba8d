//! Owns the share of a card that an engine is told to take (vLLM's `--gpu-memory-utilization`, SGLang's
//! `--mem-fraction-static`): what the failed run used, and which smaller or larger one is worth a step. A share is in
//! thousandths of the card; bytes.

use super::fill::with_model;
use crate::advice::ledger::run_had;
use crate::advice::{Changes, FitAdvice, Ledger, Place, Situation, verdict};
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Phase};
use crate::knowledge::{EntryId, Program};
use crate::memory::{sglang, vllm};
use crate::units::Bytes;

/// vLLM's default before 0.20; later ones take a little more.
const VLLM: u64 = 900;
/// What is worth trying where the log does not tell how much is short: vLLM, and SGLang by its own advice.
const STEPS: (u64, u64) = (50, 80);
/// The most that leaves something to the driver and to what else shows on a screen.
const MOST: u64 = 950;
/// Beside its weights an engine needs a context and room to work in.
const BESIDE_WEIGHTS: Bytes = Bytes::gib(1);
/// These failures say that the share was more than what is free, before anything was loaded.
const MORE_THAN_IS_FREE: &[EntryId] = &[EntryId::VLLM_FREE_MEMORY_LESS_THAN_DESIRED, EntryId::VLLM_CUMEM_OUT_OF_MEMORY];

/// And these that nothing of it was left for the KV cache.
const NOTHING_LEFT: &[EntryId] = &[EntryId::VLLM_NO_MEMORY_FOR_CACHE_BLOCKS, EntryId::SGLANG_NOT_ENOUGH_MEMORY];

/// The engine whose share it is: one that fills it, however small the model.
pub fn engine(diagnosis: &Diagnosis) -> Option<&'static str> {
    let words = [&diagnosis.program, &diagnosis.raised_by];
    let is = |name: &str| words.iter().any(|word| word.as_deref() == Some(name));
    ["vllm", "sglang"].into_iter().find(|name| is(name))
}

/// The share that the failed run was given by its log or command line.
fn said(diagnosis: &Diagnosis) -> Option<u64> {
    let engine = engine(diagnosis)?;
    let name = if engine == "vllm" { "gpu_memory_utilization" } else { "mem_fraction_static" };
    let text = diagnosis.run.printed.get(name).or(diagnosis.run.share.as_ref());
    let share = text.and_then(|text| text.parse::<f64>().ok()).filter(|share| (0.0..=1.0).contains(share));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
    share.map(|share| (share * 1000.0).round() as u64)
}

/// The share that the failed run used: by its log or command line, else its engine's default.
pub fn used(diagnosis: &Diagnosis, capacity: Option<Bytes>) -> Option<u64> {
    said(diagnosis).or_else(|| match engine(diagnosis)? {
        "vllm" => Some(VLLM),
        _ => Some(sglang::Serving::of_card(Some(capacity?), diagnosis.run.tensor_parallel.unwrap_or(1)).fraction),
    })
}

/// The engine's share in a sentence: "SGLang's share of the card (0.88)", with the figure where the log has it.
pub fn in_words(diagnosis: &Diagnosis) -> Option<String> {
    let name = engine_name(engine(diagnosis)?);
    let figure = said(diagnosis).map_or_else(String::new, |share| format!(" ({})", as_option(share)));
    Some(format!("{name}'s share of the card{figure}"))
}

/// An engine's name as its people write it.
pub fn engine_name(engine: &str) -> &'static str {
    Program::known(engine).unwrap_or(Program::VLLM).title()
}

/// What used up the engine's share before its KV cache came; `None` where that is not how it failed.
pub fn used_up(diagnosis: &Diagnosis) -> Option<String> {
    let entry = diagnosis.matches.first()?.entry;
    let share = in_words(diagnosis).filter(|_| NOTHING_LEFT.contains(&entry))?;
    Some(match diagnosis.run.weights_bytes {
        Some(weights) => format!("the weights ({weights}) and what the engine works with used up {share}"),
        None => format!("the weights and what the engine works with used up {share}"),
    })
}

/// A share that is really smaller than the one that was used and holds the weights, where they are known; as the
/// option takes it. `None` where there is none, or where a smaller one can't help.
pub fn smaller(situation: &Situation<'_>, ledger: Option<&Ledger>, fit: Option<&FitAdvice>) -> Option<String> {
    let diagnosis = situation.diagnosis;
    let capacity = ledger?.capacity_bytes?;
    let used = used(diagnosis, Some(capacity))?;
    // While weights are loaded nothing of its share is a cache yet: less of it leaves less for them.
    if diagnosis.phase == Phase::Load {
        return None;
    }
    let possible = ledger.and_then(|ledger| Some(vllm::possible_utilization(ledger.available_bytes?, capacity)));
    let wanted = match more_than_is_free(diagnosis) {
        true => possible?,
        false => {
            let step = if engine(diagnosis) == Some("vllm") { STEPS.0 } else { STEPS.1 };
            let short = diagnosis.facts.requested_bytes.map(|asked| {
                let short = asked.less(diagnosis.facts.free_bytes.unwrap_or(Bytes::ZERO));
                vllm::possible_utilization(Bytes(short.0.saturating_mul(5) / 4), capacity)
            });
            let less = used.saturating_sub(short.unwrap_or(0).max(step));
            possible.filter(|_| ledger.is_some_and(|ledger| ledger.is_now)).map_or(less, |possible| less.min(possible))
        }
    };
    let share = wanted / 10 * 10;
    (share < used && holds_weights(share, capacity, diagnosis, fit)).then(|| as_option(share))
}

/// What a smaller share leaves to the rest of the card, by its option's value: of an engine that ran out beside its share.
pub fn leaves(diagnosis: &Diagnosis, ledger: Option<&Ledger>, value: &str) -> Option<Bytes> {
    let capacity = ledger?.capacity_bytes.filter(|_| !more_than_is_free(diagnosis))?;
    let hundredths: u64 = value.strip_prefix("0.")?.parse().ok()?;
    let used = vllm::allowed(capacity, used(diagnosis, Some(capacity))?);
    Some(used.less(vllm::allowed(capacity, hundredths.saturating_mul(10))))
}

/// Whether the share that the engine had is known.
pub fn is_known(situation: &Situation<'_>, place: &Place<'_>) -> bool {
    let device = place.device.filter(|_| place.same_machine != Some(false));
    let here = device.and_then(|device| device.memory.total_bytes.value());
    used(situation.diagnosis, here.or(situation.diagnosis.facts.total_bytes)).is_some()
}

/// A larger share as a step proposes it: SGLang's leaves room for what it computes with, so it grows a little
/// at a time (docs/advanced_features/hyperparameter_tuning.md).
pub fn larger_to_try(situation: &Situation<'_>, place: &Place<'_>) -> Option<String> {
    let larger = larger(situation, place)?;
    let share = larger.strip_prefix("0.").and_then(|digits| digits.parse::<u64>().ok())?.saturating_mul(10);
    let said = said(situation.diagnosis).filter(|_| engine(situation.diagnosis) == Some("sglang"));
    Some(said.map_or(larger, |said| as_option(share.min(said.saturating_add(STEPS.1) / 10 * 10))))
}

/// A larger share that is free on the card: what was used already is no step.
pub fn larger(situation: &Situation<'_>, place: &Place<'_>) -> Option<String> {
    let device = place.device.filter(|_| place.same_machine != Some(false));
    let capacity =
        device.and_then(|device| device.memory.total_bytes.value()).or(situation.diagnosis.facts.total_bytes);
    let free = device.and_then(|device| device.memory.free_bytes.value());
    let possible = free.zip(capacity).map_or(1000, |(free, capacity)| vllm::possible_utilization(free, capacity));
    let share = possible.min(MOST) / 10 * 10;
    (share > used(situation.diagnosis, capacity)?).then(|| as_option(share))
}

/// Where the share that was set does not hold the weights and a larger one would: the one that was set, and the command
/// with the larger one.
pub fn too_small(situation: &Situation<'_>, place: &Place<'_>) -> Option<(String, String)> {
    let diagnosis = situation.diagnosis;
    let (engine, set) = (engine(diagnosis)?, said(diagnosis)?);
    let capacity = place.device.and_then(|device| device.memory.total_bytes.value()).or(diagnosis.facts.total_bytes)?;
    let value = larger(situation, place)?;
    let share = value.strip_prefix("0.")?.parse::<u64>().ok()?.saturating_mul(10);
    let holds = |share| holds_weights(share, capacity, diagnosis, None);
    let command = match engine {
        "vllm" => format!("vllm serve MODEL --gpu-memory-utilization {value}"),
        _ => format!("python -m sglang.launch_server --model-path MODEL --mem-fraction-static {value}"),
    };
    let own = || Changes::of(&command)?.apply(situation.command_line()?, situation.form());
    let named = || diagnosis.run.model.as_ref().map_or_else(|| command.clone(), |model| with_model(&command, model));
    (!holds(set) && holds(share)).then(|| (as_option(set), own().unwrap_or_else(named)))
}

/// Whether the failure is that others left less of the card than the engine was told to take.
pub fn more_than_is_free(diagnosis: &Diagnosis) -> bool {
    diagnosis.matches.first().is_some_and(|found| MORE_THAN_IS_FREE.contains(&found.entry))
}

/// Whether the engine's weights and room to work in fit such a share; where its weights are not known, nothing
/// says that they don't.
fn holds_weights(share: u64, capacity: Bytes, diagnosis: &Diagnosis, fit: Option<&FitAdvice>) -> bool {
    weights(diagnosis, fit).is_none_or(|weights| weights.plus(BESIDE_WEIGHTS) <= vllm::allowed(capacity, share))
}

/// The weights on one card: as the log prints them, else as the model's sums have them, else by the model's name.
fn weights(diagnosis: &Diagnosis, fit: Option<&FitAdvice>) -> Option<Bytes> {
    let ranks = diagnosis.run.tensor_parallel.unwrap_or(1).max(1);
    let by_sums = || fit?.parts.as_ref()?.weights.bytes;
    let by_name = || Some(Bytes(verdict::weights_by_name(diagnosis.run.model.as_deref()?)?.0 / ranks));
    diagnosis.run.weights_bytes.or_else(by_sums).or_else(by_name)
}

/// The GiB of weights that must stay in system memory so that the rest and one request fit the share. `None` where that
/// is not known, none need to, or this machine has not so much.
pub fn offload(
    situation: &Situation<'_>,
    place: &Place<'_>,
    ledger: Option<&Ledger>,
    fit: Option<&FitAdvice>,
) -> Option<String> {
    let diagnosis = situation.diagnosis;
    let capacity = ledger?.capacity_bytes?;
    let weights = weights(diagnosis, fit)?;
    let cache = fit.and_then(|fit| fit.parts.as_ref()?.kv_cache.bytes).unwrap_or(Bytes::gib(1));
    // What a larger share would hold need not leave the card.
    let share = vllm::allowed(capacity, used(diagnosis, Some(capacity))?.max(VLLM));
    let over = weights.plus(cache).plus(BESIDE_WEIGHTS).less(share);
    let here = situation.snapshot.filter(|_| place.same_machine != Some(false));
    let here = here.and_then(|here| here.host.memory_available_bytes.value());
    let gib = over.0.div_ceil(1 << 30);
    // With next to nothing of it on the card it is no longer the card that computes.
    let some_stays = over < weights;
    (gib > 0 && some_stays && here.is_none_or(|here| here > Bytes::gib(gib))).then(|| gib.to_string())
}

fn as_option(share: u64) -> String {
    match share.checked_rem(10) {
        Some(0) | None => format!("{}.{:02}", share / 1000, share % 1000 / 10),
        Some(_) => format!("{}.{:03}", share / 1000, share % 1000),
    }
}

/// What the engine asked for outside of its share, where it is one that fills its share by design and the model itself
/// is not known to be too large for it.
pub fn outside_of_share(diagnosis: &Diagnosis, capacity: Option<Bytes>) -> Option<Bytes> {
    let asked = diagnosis.facts.requested_bytes.filter(|_| engine(diagnosis).is_some())?;
    if diagnosis.memory != Some(MemoryKind::Gpu) || diagnosis.phase == Phase::Load || more_than_is_free(diagnosis) {
        return None;
    }
    let capacity = diagnosis.facts.total_bytes.or(capacity)?;
    let share = used(diagnosis, Some(capacity))?;
    let filled = run_had(diagnosis)?.0 >= vllm::allowed(capacity, share.saturating_sub(100)).0;
    let heavy = weights(diagnosis, None).is_some_and(|weights| weights > vllm::allowed(capacity, share));
    (filled && !heavy && asked < vllm::allowed(capacity, 500)).then_some(asked)
}
