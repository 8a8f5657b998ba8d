//! Owns the settings that the failed run had, as its log or its command line says: the engine, context, cache types,
//! slots, layers. What is not said is the engine's default, and that is noted. Knows no model's figures.

use super::kind::Kind;
use super::room::Room;
use crate::knowledge::diagnosis::Diagnosis;
use crate::knowledge::run::Run;
use crate::memory::cache::kv_cache;
use crate::memory::engine::{ollama_batch, ollama_context, ollama_expects};
use crate::memory::ggml::GgmlType;
use crate::memory::inference::{Dtype, Generating};
use crate::memory::search::largest;
use crate::memory::settings::{CELL_PADDING, Outputs};
use crate::memory::training::{Optimizer, Recipe, Sharing, Step, Training};
use crate::memory::{Engine, ModelShape, Settings, sglang, vllm};
use crate::units::Bytes;

/// What a context is taken for where the log does not say: the least that llama.cpp's own fit goes down to.
const ASSUMED_CONTEXT: u64 = 4096;

/// The slots that llama-server opens where their number is not given.
const OWN_SLOTS: u64 = 4;

/// The value behind one of these flags on the run's command line.
fn flag<'a>(run: &'a Run, names: &[&str]) -> Option<&'a str> {
    let words: Vec<&str> = run.command.as_deref()?.split([' ', '=']).collect();
    let at = words.iter().rposition(|word| names.contains(word))?;
    words.get(at.checked_add(1)?).copied()
}

fn flag_number(run: &Run, names: &[&str]) -> Option<u64> {
    flag(run, names)?.parse().ok()
}

/// The context in tokens that the log or its command line asks for.
pub fn context(diagnosis: &Diagnosis) -> Option<u64> {
    let said = diagnosis.run.context_tokens.or(diagnosis.facts.context_tokens);
    let run = &diagnosis.run;
    said.or_else(|| flag_number(run, &["-c", "--ctx-size", "--max-model-len", "--context-length"]))
        .or_else(|| run.printed_number("ollama_context_length")?.checked_mul(run.slots()))
        .filter(|tokens| *tokens > 0)
}

/// The context for which llama.cpp's cache is as large as the log prints it, within a hundredth.
fn context_of(printed: Bytes, shape: &ModelShape, settings: Settings) -> Option<u64> {
    let takes = |tokens: u64| Some(kv_cache(shape, &Settings { context: Some(tokens), ..settings }).ok()?.gpu);
    let most = shape.context_trained?.checked_div(CELL_PADDING)?;
    let fine = |blocks: u64| takes(blocks.saturating_mul(CELL_PADDING)).is_some_and(|bytes| bytes <= printed.0);
    let tokens = largest(1, most, fine)?.checked_mul(CELL_PADDING)?;
    takes(tokens).filter(|bytes| printed.0.abs_diff(*bytes) <= printed.0 / 100).map(|_| tokens)
}

/// The engine with the run's settings, and what had to be assumed.
pub fn engine(kind: Kind, diagnosis: &Diagnosis, shape: &ModelShape, room: &Room) -> (Engine, Vec<String>) {
    let (run, card) = (&diagnosis.run, room.capacity);
    let mut notes = Vec::new();
    let of_cache = || run.kv_cache_bytes.and_then(|bytes| context_of(bytes, shape, llama(run)));
    let asked = context(diagnosis).or_else(|| of_cache().filter(|_| !kind.is_torch()));
    let mut assumed = |tokens: u64, why: &str| {
        let tokens = tokens.min(shape.context_trained.unwrap_or(u64::MAX));
        notes.push(format!("the log does not show the context: {tokens} tokens are taken, {why}"));
        tokens
    };
    let engine = match kind {
        Kind::LlamaCpp => {
            let least = || assumed(ASSUMED_CONTEXT, "the least that llama.cpp's own fit goes down to");
            Engine::LlamaCpp(Settings { context: Some(asked.unwrap_or_else(least)), ..llama(run) })
        }
        Kind::Ollama => {
            let settings = llama(run);
            let usual =
                || assumed(ollama_context(card), "Ollama's default for such a card").saturating_mul(settings.parallel);
            let settings = Settings { context: Some(asked.unwrap_or_else(usual)), ..settings };
            Engine::Ollama(as_ollama_starts_it(run, shape, settings, room))
        }
        Kind::Vllm => {
            let usual = vllm::Serving::default();
            let fp8 = run.kv_type.as_deref().is_some_and(|kind| kind.starts_with("fp8"));
            Engine::Vllm(vllm::Serving {
                max_model_len: asked,
                utilization: run
                    .printed
                    .get("gpu_memory_utilization")
                    .and_then(|text| thousandths(text))
                    .unwrap_or(usual.utilization),
                kv_half_bytes: if fp8 { 2 } else { usual.kv_half_bytes },
                tensor_parallel: run.tensor_parallel.unwrap_or(1).max(1),
                ..usual
            })
        }
        Kind::Sglang => {
            let usual = sglang::Serving::of_model(shape, card, run.tensor_parallel.unwrap_or(1));
            let fp8 = run.kv_type.as_deref().is_some_and(|kind| kind.starts_with("fp8"));
            let printed = run.printed.get("mem_fraction_static").map(String::as_str);
            let fraction = printed.or_else(|| flag(run, &["--mem-fraction-static"])).and_then(thousandths);
            let chunk = run.printed_number("chunked_prefill_size");
            Engine::Sglang(sglang::Serving {
                context: Some(
                    asked.unwrap_or_else(|| assumed(ASSUMED_CONTEXT, "since SGLang serves what its pool holds")),
                ),
                fraction: fraction.unwrap_or(usual.fraction),
                kv_half_bytes: if fp8 { 2 } else { usual.kv_half_bytes },
                chunk: chunk.or_else(|| flag_number(run, &["--chunked-prefill-size"])).unwrap_or(usual.chunk),
                ..usual
            })
        }
        Kind::Transformers => {
            let dtype = if run.dtype.as_deref() == Some("float32") { Dtype::Float32 } else { Dtype::Half };
            let context = asked.unwrap_or_else(|| assumed(ASSUMED_CONTEXT, "a long conversation"));
            Engine::Transformers(Generating::of(dtype, Some(context)))
        }
        Kind::Train => {
            let some = run.trainable_parameters.zip(shape.parameters).is_some_and(|(some, all)| some < all / 10);
            let recipe = if some { Recipe::Lora(16) } else { Recipe::Mixed };
            // Without a length only what does not grow with it is told of, see `advice`.
            let length = asked.unwrap_or(1);
            let step =
                Step { batch: run.batch_size.unwrap_or(1).max(1), length, checkpointing: false, flash_attention: true };
            notes.push(format!("taken is {} with AdamW", if some { "LoRA" } else { "mixed precision" }));
            Engine::Train(Training { recipe, optimizer: Optimizer::AdamW, sharing: Sharing::default(), step })
        }
    };
    (engine, notes)
}

/// With what Ollama chooses by itself where the log does not print it: `oomdoctor fit` takes the same.
fn as_ollama_starts_it(run: &Run, shape: &ModelShape, settings: Settings, room: &Room) -> Settings {
    let one = room.one_of_ollamas(&settings, shape).map(|(free, _)| free);
    let at_once = ollama_batch(
        settings.context.unwrap_or(0),
        ollama_expects(shape, &settings),
        one.or(room.free),
        settings.flash_attention,
    );
    let printed = |name| run.printed_number(name).is_some();
    Settings {
        micro_batch: if printed("n_ubatch") { settings.micro_batch } else { at_once },
        batch: if printed("n_ubatch") { settings.batch } else { at_once },
        ..settings
    }
}

/// llama.cpp's settings without the context.
pub fn llama(run: &Run) -> Settings {
    let usual = Settings::default();
    let kind = |names: &[&str]| {
        let of_ollama = || run.printed.get("ollama_kv_cache_type").map(String::as_str);
        let word = run.kv_type.as_deref().or_else(|| flag(run, names)).or_else(of_ollama);
        word.and_then(GgmlType::from_name).unwrap_or(usual.k_type)
    };
    let layers = || flag_number(run, &["-ngl", "--n-gpu-layers", "--gpu-layers"]);
    let flash = run.printed.get("flash_attn").map(String::as_str).or_else(|| flag(run, &["-fa", "--flash-attn"]));
    let number = |name: &str, flags: &[&str]| run.printed_number(name).or_else(|| flag_number(run, flags));
    let slots = flag_number(run, &["-np", "--parallel"]).unwrap_or_else(|| run.slots()).clamp(1, 4096);
    let (k_type, v_type) = (kind(&["-ctk", "--cache-type-k"]), kind(&["-ctv", "--cache-type-v"]));
    let words = || run.command.iter().flat_map(|command| command.split(' '));
    let all_experts = words().any(|word| ["-cmoe", "--cpu-moe"].contains(&word));
    let slots_are_own = flag(run, &["-np", "--parallel"]).is_none();
    let off = matches!(flash, Some("0" | "off" | "disabled"));
    Settings {
        k_type,
        v_type,
        // A quantised V would have been refused without it.
        flash_attention: !off || v_type.is_quantised(),
        micro_batch: number("n_ubatch", &["-ub", "--ubatch-size"]).unwrap_or(usual.micro_batch),
        parallel: run.printed_number("n_seq_max").map_or(slots, |printed| printed.clamp(1, 4096)),
        unified: match run.printed.get("kv_unified") {
            Some(word) => word == "true",
            // The slots that llama-server opens by itself share one cache.
            None => words().any(|word| word.ends_with("llama-server")) && run.slots() == OWN_SLOTS && slots_are_own,
        },
        // Printed since logits are kept for each slot; a load without it is an earlier build's.
        outputs: match run.printed_number("n_outputs_max") {
            Some(rows) if rows > 64 => Outputs::MicroBatch,
            None if run.layers_offloaded.is_some() || run.printed.contains_key("n_ubatch") => Outputs::MicroBatch,
            _ => Outputs::Slots,
        },
        gpu_layers: match run.layers_offloaded {
            Some((on, all)) => Some(on).filter(|on| *on < all),
            None => layers(),
        },
        host_experts: match all_experts {
            true => u64::MAX,
            false => flag_number(run, &["-ncmoe", "--n-cpu-moe"]).unwrap_or(0),
        },
        devices: run.devices.unwrap_or(1).max(1),
        ..usual
    }
}

fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let digits: String = part.chars().chain("000".chars()).take(3).collect();
    format!("{}{digits}", if whole.is_empty() { "0" } else { whole }).parse().ok()
}
