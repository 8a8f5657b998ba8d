//! Owns the settings that the failed run had, as its log or its command line says: the engine, context, cache types,
//! slots, layers. What is not said is the engine's default, and that is noted. Knows no model's figures.

use super::room::Room;
use crate::knowledge::{Diagnosis, Phase, Program, Run};
use crate::memory::cache::kv_cache;
use crate::memory::engine::{ollama_context, with_ollamas_batch};
use crate::memory::fits::largest;
use crate::memory::knobs::{
    batch_tokens, chunk, context, flash_attention, host_experts, kv_type, layers, share, slots,
};
use crate::memory::settings::{CELL_PADDING, OWN_SLOTS};
use crate::memory::words::share_from_words;
use crate::memory::{
    Dtype, Engine, Generating, GgmlType, Kind, Knob, ModelShape, Optimizer, Outputs, Recipe, Settings, Sharing, Step,
    Training, sglang, vllm,
};
use crate::units::Bytes;

/// What a context is taken for where the log does not say: the least that llama.cpp's own fit goes down to.
const ASSUMED_CONTEXT: u64 = 4096;

/// What the run's command line sets a knob to.
fn typed<'a>(run: &'a Run, knob: &Knob) -> Option<&'a str> {
    knob.typed(run.command.as_deref()?)
}

fn typed_number(run: &Run, knob: &Knob) -> Option<u64> {
    typed(run, knob)?.parse().ok()
}

/// What the log prints of a knob, else what the command line sets it to.
fn said<'a>(run: &'a Run, knob: &Knob) -> Option<&'a str> {
    let printed = knob.printed.iter().find_map(|name| run.printed.get(*name));
    printed.map(String::as_str).or_else(|| typed(run, knob))
}

fn said_number(run: &Run, knob: &Knob) -> Option<u64> {
    knob.printed.iter().find_map(|name| run.printed_number(name)).or_else(|| typed_number(run, knob))
}

/// The context in tokens that the log or its command line asks for.
pub(crate) fn context(diagnosis: &Diagnosis) -> Option<u64> {
    let run = &diagnosis.run;
    run.context_tokens
        .or(diagnosis.facts.context_tokens)
        .or_else(|| typed_number(run, &context::KNOB))
        .or_else(|| run.printed_number("ollama_context_length")?.checked_mul(run.slots()))
        .or_else(|| length_of_sequences(diagnosis))
        .filter(|tokens| *tokens > 0)
}

/// The length that a training run cuts its sequences to, where the log also counts what it trains: without that, what it
/// takes is not known by its length either.
fn length_of_sequences(diagnosis: &Diagnosis) -> Option<u64> {
    let run = &diagnosis.run;
    if diagnosis.phase != Phase::Training || run.trainable_parameters.is_none() {
        return None;
    }
    run.settings.get("sequence").copied()
}

/// The context for which llama.cpp's cache is as large as the log prints it, within a hundredth.
fn context_of(printed: Bytes, shape: &ModelShape, settings: Settings) -> Option<u64> {
    let most = shape.context_trained?.checked_div(CELL_PADDING)?;
    let blocks = largest(1, most, |blocks| {
        cache_on_gpu(shape, settings, blocks.saturating_mul(CELL_PADDING)).is_some_and(|bytes| bytes <= printed.0)
    });
    let tokens = blocks?.checked_mul(CELL_PADDING)?;
    let bytes = cache_on_gpu(shape, settings, tokens)?;
    (printed.0.abs_diff(bytes) <= printed.0 / 100).then_some(tokens)
}

fn cache_on_gpu(shape: &ModelShape, settings: Settings, tokens: u64) -> Option<u64> {
    Some(kv_cache(shape, &Settings { context: Some(tokens), ..settings }).ok()?.gpu)
}

/// Which program ran the failed model, by what the person ran and whose code complained. `None` where nothing here knows its arithmetic.
pub(crate) fn kind_of(diagnosis: &Diagnosis) -> Option<Kind> {
    let words = [&diagnosis.program, &diagnosis.raised_by].into_iter().flatten().map(String::as_str);
    if words.clone().any(|word| word == "ollama") {
        return Some(Kind::Ollama);
    }
    words.into_iter().find_map(|word| match Program::known(word)?.computes_like() {
        Program::LLAMA_CPP => Some(Kind::LlamaCpp),
        Program::VLLM => Some(Kind::Vllm),
        Program::SGLANG => Some(Kind::Sglang),
        Program::PYTORCH if diagnosis.phase == Phase::Training => Some(Kind::Train),
        Program::PYTORCH => Some(Kind::Transformers),
        _ => None,
    })
}

/// The engine with the run's settings, and what had to be assumed.
pub(crate) fn engine(kind: Kind, diagnosis: &Diagnosis, shape: &ModelShape, room: &Room) -> (Engine, Vec<String>) {
    let run = &diagnosis.run;
    let mut notes = Vec::new();
    let asked = context(diagnosis).or_else(|| match kind {
        Kind::LlamaCpp | Kind::Ollama => context_of(run.kv_cache_bytes?, shape, llama(run)),
        _ => None,
    });
    let mut or_assumed = |usual: u64, why: &str| {
        asked.unwrap_or_else(|| {
            let tokens = usual.min(shape.context_trained.unwrap_or(u64::MAX));
            notes.push(format!("the log does not show the context: {tokens} tokens are taken, {why}"));
            tokens
        })
    };
    let engine = match kind {
        Kind::LlamaCpp => {
            let tokens = or_assumed(ASSUMED_CONTEXT, "the least that llama.cpp's own fit goes down to");
            Engine::LlamaCpp(Settings { context: Some(tokens), ..llama(run) })
        }
        Kind::Ollama => {
            let settings = llama(run);
            let context = or_assumed(ollama_context(room.capacity), "Ollama's default for such a GPU");
            // The default is of one request.
            let context = if asked.is_some() { context } else { context.saturating_mul(settings.parallel) };
            Engine::Ollama(as_ollama_starts_it(run, shape, Settings { context: Some(context), ..settings }, room))
        }
        Kind::Vllm => Engine::Vllm(vllm_serving(run, asked)),
        Kind::Sglang => {
            let tokens = or_assumed(ASSUMED_CONTEXT, "since SGLang serves what fits its pool");
            Engine::Sglang(sglang_serving(run, shape, room.capacity, tokens))
        }
        Kind::Transformers => {
            let dtype = if run.dtype.as_deref() == Some("float32") { Dtype::Float32 } else { Dtype::Half };
            Engine::Transformers(Generating::of(dtype, Some(or_assumed(ASSUMED_CONTEXT, "a long conversation"))))
        }
        Kind::Train => {
            let training = training(run, shape, asked);
            let recipe = if training.recipe.is_adapter() { "LoRA" } else { "mixed precision" };
            notes.push(format!("taken is {recipe} with AdamW"));
            Engine::Train(training)
        }
    };
    (engine, notes)
}

/// Whether the KV cache was in fp8.
fn has_fp8_cache(run: &Run) -> bool {
    run.kv_type.as_deref().is_some_and(|kind| kind.starts_with("fp8"))
}

fn vllm_serving(run: &Run, context: Option<u64>) -> vllm::Serving {
    let usual = vllm::Serving::default();
    let share = run.printed.get("gpu_memory_utilization").and_then(|text| share_from_words(text));
    vllm::Serving {
        max_model_len: context,
        utilization: share.unwrap_or(usual.utilization),
        kv_half_bytes: if has_fp8_cache(run) { 2 } else { usual.kv_half_bytes },
        tensor_parallel: run.tensor_parallel.unwrap_or(1).max(1),
        ..usual
    }
}

fn sglang_serving(run: &Run, shape: &ModelShape, capacity: Option<Bytes>, context: u64) -> sglang::Serving {
    let usual = sglang::Serving::of_model(shape, capacity, run.tensor_parallel.unwrap_or(1));
    let printed = run.printed.get("mem_fraction_static").map(String::as_str);
    let share = printed.or_else(|| typed(run, &share::KNOB)).and_then(share_from_words);
    sglang::Serving {
        context: Some(context),
        fraction: share.unwrap_or(usual.fraction),
        kv_half_bytes: if has_fp8_cache(run) { 2 } else { usual.kv_half_bytes },
        chunk: said_number(run, &chunk::KNOB).unwrap_or(usual.chunk),
        ..usual
    }
}

/// Whether the weights below an adapter were loaded in four bits.
fn has_four_bits(run: &Run) -> bool {
    let names = [&run.quantisation, &run.model].into_iter().flatten();
    names.map(|name| name.to_lowercase()).any(|name| name.contains("4bit") || name.contains("nf4"))
}

fn training(run: &Run, shape: &ModelShape, context: Option<u64>) -> Training {
    let trains_some = run.trainable_parameters.zip(shape.parameters).is_some_and(|(some, all)| some < all / 10);
    Training {
        recipe: match trains_some {
            true if has_four_bits(run) => Recipe::Qlora(16),
            true => Recipe::Lora(16),
            false => Recipe::Mixed,
        },
        optimizer: Optimizer::AdamW,
        sharing: Sharing::default(),
        step: Step {
            batch: run.batch_size.unwrap_or(1).max(1),
            // Without a length only what does not grow with it is told of.
            length: context.unwrap_or(1),
            checkpointing: run.printed.contains_key("gradient_checkpointing"),
            flash_attention: true,
        },
    }
}

/// With what Ollama chooses by itself where the log does not print it: `oomdoctor fit` takes the same.
fn as_ollama_starts_it(run: &Run, shape: &ModelShape, settings: Settings, room: &Room) -> Settings {
    if run.printed_number("n_ubatch").is_some() {
        return settings;
    }
    let one = room.one_of_ollamas(&settings, shape).map(|(free, _)| free);
    with_ollamas_batch(settings, shape, one.or(room.free))
}

/// llama.cpp's settings without the context.
pub(crate) fn llama(run: &Run) -> Settings {
    let usual = Settings::default();
    let v_type = cache_type(run, &kv_type::OF_V);
    let is_off = matches!(said(run, &flash_attention::KNOB), Some("0" | "off" | "disabled"));
    Settings {
        k_type: cache_type(run, &kv_type::KNOB),
        v_type,
        // A quantized V would have been refused without it.
        flash_attention: !is_off || v_type.is_quantised(),
        micro_batch: said_number(run, &batch_tokens::MICRO).unwrap_or(usual.micro_batch),
        parallel: said_number(run, &slots::KNOB).unwrap_or_else(|| run.slots()).clamp(1, 4096),
        unified: shares_one_cache(run),
        // Printed since logits are kept for each slot; a load without it is an earlier build's.
        outputs: match run.printed_number("n_outputs_max") {
            Some(rows) if rows > 64 => Outputs::MicroBatch,
            None if run.layers_offloaded.is_some() || run.printed.contains_key("n_ubatch") => Outputs::MicroBatch,
            _ => Outputs::Slots,
        },
        gpu_layers: match run.layers_offloaded {
            Some((on, all)) => (on < all).then_some(on),
            None => typed_number(run, &layers::KNOB),
        },
        host_experts: match has_word(run, |word| ["-cmoe", "--cpu-moe"].contains(&word)) {
            true => u64::MAX,
            false => typed_number(run, &host_experts::KNOB).unwrap_or(0),
        },
        devices: run.devices.unwrap_or(1).max(1),
        ..usual
    }
}

fn has_word(run: &Run, is_meant: fn(&str) -> bool) -> bool {
    run.command.iter().flat_map(|command| command.split(' ')).any(is_meant)
}

/// The slots that llama-server opens by itself share one cache.
fn shares_one_cache(run: &Run) -> bool {
    match run.printed.get("kv_unified") {
        Some(word) => word == "true",
        None => {
            has_word(run, |word| word.ends_with("llama-server"))
                && run.slots() == OWN_SLOTS
                && typed(run, &slots::KNOB).is_none()
        }
    }
}

fn cache_type(run: &Run, knob: &Knob) -> GgmlType {
    let of_ollama = run.printed.get("ollama_kv_cache_type").map(String::as_str);
    let word = run.kv_type.as_deref().or_else(|| typed(run, knob)).or(of_ollama);
    word.and_then(GgmlType::from_name).unwrap_or(GgmlType::F16)
}
