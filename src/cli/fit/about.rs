//! Owns what a person should know of an engine beside the figures: what it does with a GGUF file, with more context than a
//! model was made for, with a checkpoint that is quantised already. Source: vLLM's and transformers' pages on GGUF,
//! vllm-gguf-plugin, llama-server's slots, Ollama's scheduler, peft's prepare_model_for_kbit_training, read on 2026-11-21.

use super::flags::FitArgs;
use super::located::{Located, Source};
use crate::memory::card::Card;
use crate::memory::knob::Turn;
use crate::memory::knobs::context;
use crate::memory::options::Choice;
use crate::memory::quant;
use crate::memory::training::Recipe;
use crate::memory::words::{share_in_words, tokens_in_words};
use crate::memory::{Engine, ModelShape, Storage, vllm};
use crate::units::Bytes;

/// Notes, as sentences without the full stop.
pub(super) fn notes(engine: &Engine, located: &Located, args: &FitArgs) -> Vec<String> {
    let shape = &located.shape;
    let notes = [
        of_gguf(engine, shape),
        too_long(engine, shape, args.context),
        of_quantised(engine, shape),
        in_float32(engine, shape),
        marlin(engine, shape),
        ignored(located, args),
    ];
    notes.into_iter().flatten().collect()
}

/// Which limit it is where the GPU has room for the model itself.
pub(super) fn not_within(engine: &Engine, card: &Card) -> String {
    match engine {
        Engine::Vllm(serving) => {
            let allowed = vllm::allowed(card.total, serving.utilization);
            let of = share_in_words(serving.utilization);
            if allowed > card.free {
                let free = card.free;
                format!("It does not fit: vLLM's share is {allowed} ({of} of the card) and only {free} are free.")
            } else {
                format!("It does not fit within vLLM's share of the card: {allowed} ({of} of it).")
            }
        }
        Engine::Sglang(serving) => {
            let of = format!("{}.{:03}", serving.fraction / 1000, serving.fraction % 1000);
            format!(
                "It does not fit the way SGLang shares out what is free: {of} of it to weights and KV cache, the rest to prefills and CUDA graphs."
            )
        }
        _ => "It does not fit.".to_owned(),
    }
}

/// How to keep to a context where that is no flag.
pub(super) fn in_words_only(choice: &Choice) -> String {
    let Some(Turn { to: tokens, .. }) = choice.only_turn().filter(|turn| turn.knob == &context::KNOB) else {
        return String::new();
    };
    match choice.engine {
        Some(Engine::Transformers(_)) => format!(
            " transformers has no setting for that: keep the prompt and max_new_tokens together within {tokens} tokens."
        ),
        Some(Engine::Train(_)) => {
            format!(" Cut the sequences to it, such as with max_length={tokens} in TRL's SFTConfig.")
        }
        _ => String::new(),
    }
}

fn of_gguf(engine: &Engine, shape: &ModelShape) -> Option<String> {
    if shape.storage != Storage::Gguf {
        return None;
    }
    Some(match engine {
        Engine::Vllm(_) => "vLLM runs GGUF files with a plugin only (pip install vllm-gguf-plugin) and calls that experimental. BASE-REPOSITORY stands for the model that the file was made from: its tokenizer is needed".into(),
        Engine::Transformers(_) => "transformers unpacks a GGUF file while it loads it (gguf_file=…), to float32 unless a dtype is given: the file's small size is not what it takes".into(),
        Engine::Train(_) => "training unpacks a GGUF file while it loads it; the model's own checkpoint is the usual start".into(),
        _ => return None,
    })
}

/// Where more context is asked for than the model was made for. vLLM and SGLang refuse it, which is the answer itself.
fn too_long(engine: &Engine, shape: &ModelShape, asked: Option<u64>) -> Option<String> {
    let most = shape.context_trained?;
    let slots = if let Engine::LlamaCpp(settings) = engine { settings.parallel.max(1) } else { 1 };
    let asked = asked?.checked_div(slots).filter(|asked| *asked > most)?;
    let (asked, most) = (tokens_in_words(asked), tokens_in_words(most));
    let made = format!("the model was made for {most} tokens of context, and {asked} is asked for");
    Some(match engine {
        Engine::LlamaCpp(_) => format!("{made}: llama-server reserves it, warns, and lets a request have {most}"),
        Engine::Ollama(_) => format!("{made}: Ollama takes {most}"),
        Engine::Transformers(_) | Engine::Train(_) => format!("{made}: nothing refuses that, but answers get worse"),
        _ => return None,
    })
}

fn of_quantised(engine: &Engine, shape: &ModelShape) -> Option<String> {
    let Engine::Train(training) = engine else { return None };
    let name = shape.quantization.as_deref()?;
    let is_full = !training.recipe.is_adapter();
    (is_full && shape.storage == Storage::Quantised).then(|| {
        format!("the checkpoint is in {name}, of which only adapters can be trained (--dtype lora); to train all of it, take the one it was made from")
    })
}

/// peft's helper turns what is not in four bits into float32.
fn in_float32(engine: &Engine, shape: &ModelShape) -> Option<String> {
    let Engine::Train(training) = engine else { return None };
    let narrow = matches!(training.recipe, Recipe::Qlora(_)) && shape.storage == Storage::Plain;
    let matrices = if shape.weights.as_ref().is_ok_and(|sums| sums.tied) { 1 } else { 2 };
    let more = Bytes(shape.embedding.saturating_mul(shape.vocab).saturating_mul(2 * matrices));
    (narrow && more > Bytes::mib(256)).then(|| {
        format!("peft's prepare_model_for_kbit_training turns the embeddings and the output into float32: with it, it takes about {more} more")
    })
}

/// Cards without kernels of their own for four bits: seen on A100.
fn marlin(engine: &Engine, shape: &ModelShape) -> Option<String> {
    let Engine::Vllm(serving) = engine else { return None };
    let more = Bytes(vllm::padding(shape, serving)?);
    Some(format!(
        "on cards before Hopper, such as A100, vLLM runs these experts with Marlin kernels, which pad them: about {more} more on each card"
    ))
}

/// A file has the quantisation that it has.
fn ignored(located: &Located, args: &FitArgs) -> Option<String> {
    let asked = args.dtype.as_deref()?;
    let has = located.shape.quantization.as_deref()?;
    let narrow = quant::in_name(&format!("model-{asked}")).is_some();
    let is_file = located.source != Source::Table && located.shape.storage != Storage::Plain;
    let is_other = narrow && !asked.eq_ignore_ascii_case(has);
    (is_file && is_other)
        .then(|| format!("it is in {has} and is taken as it is: --dtype {asked} would be another file"))
}
