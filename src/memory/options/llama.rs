//! Owns what llama.cpp's and Ollama's settings offer where a model does not fit: flash attention, the cache's type, experts
//! and layers on the host, another file, all cards. Bytes and tokens.

use super::{Card, Change, Choice, choice, context_in_words, fits, longest, tokens_in_words};
use crate::memory::engine::Engine;
use crate::memory::ggml::GgmlType;
use crate::memory::quant::{self, MIXES, Shape};
use crate::memory::search::{best_layers, fewest_host_experts};
use crate::memory::settings::Settings;
use crate::memory::shape::Is;
use crate::memory::shape::ModelShape;
use crate::memory::{split, weights};

pub(super) fn llama(
    engine: Engine,
    settings: Settings,
    shape: &ModelShape,
    card: Option<&Card>,
    choices: &mut Vec<Choice>,
) {
    let again = |settings: Settings| match engine {
        Engine::Ollama(_) => Engine::Ollama(settings),
        _ => Engine::LlamaCpp(settings),
    };
    let attends = shape.layers.iter().flatten().any(|layer| layer.cache.is_some());
    if attends && !settings.flash_attention {
        let on = again(Settings { flash_attention: true, ..settings });
        let mut flash = choice(Change::FlashAttention, "flash attention", on, shape, card);
        flash.flags = Some(if let Engine::Ollama(_) = engine { "OLLAMA_FLASH_ATTENTION=1" } else { "-fa on" }.into());
        choices.push(flash);
    }
    // Slots that share one cache take more only of windows and states.
    if settings.parallel > 1 && (!settings.unified || shape.has_window() || shape.is_recurrent()) {
        let shared_out = if settings.unified { 1 } else { settings.parallel };
        let each = engine.context(shape).and_then(|all| all.checked_div(shared_out));
        let one = again(Settings { parallel: 1, context: each, ..settings });
        // llama.cpp shares its context out, so that one request keeps what each had, which is a part of it.
        let is_part = shared_out > 1 && matches!(engine, Engine::LlamaCpp(_));
        let kept = each.filter(|_| is_part).map(tokens_in_words);
        let words = kept.map_or_else(
            || "one request at a time".to_owned(),
            |each| format!("one request of {each} tokens at a time"),
        );
        let mut one = choice(Change::OneSlot, &words, one, shape, card);
        one.shortens = is_part;
        if let Engine::Ollama(_) = engine {
            // Its default, but not where its server was told otherwise.
            let others = one.flags.iter().map(|flags| format!(" {flags}")).collect::<String>();
            one.flags = Some(format!("OLLAMA_NUM_PARALLEL=1{others}"));
        }
        choices.push(one);
    }
    let eight = Settings { k_type: GgmlType::Q8_0, v_type: GgmlType::Q8_0, flash_attention: true, ..settings };
    if attends && !settings.k_type.is_quantised() {
        choices.push(choice(Change::KvCache, "the KV cache in q8_0", again(eight), shape, card));
        let tokens = card.and_then(|card| longest(again(eight), shape, card));
        let asked = engine.context(shape);
        if let Some(tokens) = tokens.filter(|tokens| Some(*tokens) != asked) {
            let with = again(eight).with_context(tokens);
            let words = format!("{} and the KV cache in q8_0", context_in_words(&with, shape).unwrap_or_default());
            let mut both = choice(Change::KvCacheAndContext(tokens), &words, with, shape, card);
            both.shortens = asked.is_some_and(|asked| asked > tokens);
            choices.push(both);
        }
    }
    if shape.projector > 0 && !settings.host_projector {
        let host = again(Settings { host_projector: true, ..settings });
        let mut encoder = choice(Change::HostEncoder, "the image encoder in system memory", host, shape, card);
        let ollama = matches!(engine, Engine::Ollama(_));
        encoder.flags = Some(if ollama { "LLAMA_ARG_MMPROJ_OFFLOAD=0" } else { "--no-mmproj-offload" }.into());
        choices.push(encoder);
    }
    let Some(free) = card.map(Card::room) else { return };
    if let Some(count) = fewest_host_experts(shape, &settings, free).filter(|count| *count > settings.host_experts) {
        let with = again(Settings { gpu_layers: None, host_experts: count, ..settings });
        let words = format!("the experts of {count} layers in system memory");
        choices.push(choice(Change::Experts(count), &words, with, shape, card));
    }
    let all = shape.layer_count().saturating_add(1);
    let s = if free.len() > 1 { "s" } else { "" };
    let asked = settings.gpu_layers.unwrap_or(all).min(all);
    if let Some(count) = best_layers(shape, &settings, free).filter(|count| *count < asked && *count > 0) {
        let with = again(Settings { gpu_layers: Some(count), ..settings });
        let words = format!("{count} of {all} layers on the card{s}");
        choices.push(choice(Change::Layers(count), &words, with, shape, card));
    }
    if fits(&engine, shape, card) == Some(false) {
        choices.extend(smaller_mix(engine, shape, card));
    }
}

/// The model at each mix that files are given out in, from the largest to the smallest; their sizes are about. Empty
/// where its tensors are not known one by one, or are trained in a type of their own (gpt-oss).
pub fn at_mixes(shape: &ModelShape) -> Vec<(&'static str, ModelShape)> {
    let own_type = shape.tensors.iter().any(|tensor| tensor.kind == GgmlType::MXFP4);
    if own_type || shape.architecture == "gpt-oss" {
        return Vec::new();
    }
    let shapes: Vec<Shape> = shape.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.dims.clone())).collect();
    let count = usize::try_from(shape.layer_count()).unwrap_or(0);
    let kv_heads = shape.layers.iter().flatten().find_map(|layer| Some(layer.cache?.heads));
    let shared_by = if shape.mla { shape.heads } else { shape.heads.checked_div(kv_heads.unwrap_or(0)).unwrap_or(0) };
    let (architecture, layers, experts) = (shape.architecture.as_str(), shape.layer_count(), shape.experts);
    let model = quant::Model { architecture, layers, experts, shared_by };
    let at = |mix: &&'static str| {
        let tensors = quant::mixed(&shapes, mix, model).filter(|found| !found.is_empty())?;
        let weights = Ok(weights::sums_of(&tensors, count));
        Some((*mix, ModelShape { weights, weights_are: Is::About, quantization: Some((*mix).into()), ..shape.clone() }))
    };
    MIXES.iter().filter(|mix| !["F32", "BF16", "F16"].contains(mix)).filter_map(at).collect()
}

/// The largest smaller quantisation that fits, or the smallest of all; its size is about.
fn smaller_mix(engine: Engine, shape: &ModelShape, card: Option<&Card>) -> Option<Choice> {
    let now = shape.weights.as_ref().ok()?.in_file();
    let from = shape.quantization.as_deref().unwrap_or("this file");
    let mut last = None;
    for (mix, smaller) in at_mixes(shape) {
        if smaller.weights.as_ref().is_ok_and(|sums| sums.in_file() >= now / 100 * 97) {
            continue;
        }
        let mut found = choice(Change::Mix(mix), &format!("{mix} instead of {from}"), engine, &smaller, card);
        (found.flags, found.engine) = (None, None);
        let enough = found.fits == Some(true);
        last = Some(found);
        if enough {
            break;
        }
    }
    last
}

/// llama.cpp over all cards, layer by layer, where a card was named that is not enough.
pub(super) fn split(engine: Engine, shape: &ModelShape, cards: &[Card]) -> Option<Choice> {
    let (Engine::LlamaCpp(settings), together) = (engine, Card::together(cards)?) else { return None };
    let settings = Settings { devices: cards.len() as u64, ..settings };
    let words = if cards.len() == 2 { "both cards".into() } else { format!("all {} cards", cards.len()) };
    let over = choice(Change::AllCards, &words, Engine::LlamaCpp(settings), shape, Some(&together));
    let flags = split::flags(shape, &settings, &together.each);
    Some(Choice { flags, engine: None, ..over }).filter(|choice| choice.fits == Some(true))
}
