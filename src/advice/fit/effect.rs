//! Owns what each fix of the knowledge base would do to this run: the bytes it gives back, whether that is enough, and
//! the values for its placeholders. The only place that knows which change of `memory` a fix is. Bytes and tokens.

use crate::knowledge::FixId;
use crate::memory::cache;
use crate::memory::compute::{self, Graph};
use crate::memory::options::{self, Card, Change, Choice};
use crate::memory::training::{Optimizer, Recipe, Step, Training};
use crate::memory::{Engine, Estimate, Is, ModelShape, Settings};
use crate::units::Bytes;

/// The micro-batch that its fix proposes is this part of the present one.
const SMALLER_BATCH: u64 = 4;

/// What a fix would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub fix: FixId,
    /// What it gives back, and how sure that is; `None` where it gives back nothing or that is not known.
    pub frees: Option<(Bytes, Is)>,
    /// Whether the model then fits; `None` where that is not known.
    pub fits: Option<bool>,
    /// The placeholder's value that goes with it.
    pub value: Option<(&'static str, String)>,
    /// What must be downloaded for it.
    pub download: Option<Bytes>,
    /// What it would need of system memory and what is available there, where that is less; then it does not fit.
    pub lacks_ram: Option<(Bytes, Bytes)>,
    /// Whether it is known to change nothing here, such as experts on the host for a model without any.
    pub is_idle: bool,
}

impl Effect {
    /// A fix of which nothing is known yet.
    pub fn of(fix: FixId) -> Effect {
        Effect { fix, frees: None, fits: None, value: None, download: None, lacks_ram: None, is_idle: false }
    }
}

/// The fixes that make this change, and the placeholder that takes its value.
pub(super) fn fixes(kind: Change, engine: &Engine) -> (&'static [FixId], Option<(&'static str, String)>) {
    let slots = if let Engine::Ollama(settings) = engine { settings.parallel.max(1) } else { 1 };
    let part = match engine {
        Engine::LlamaCpp(settings) if !settings.unified => {
            settings.context.and_then(|all| all.checked_div(settings.parallel.max(1)))
        }
        _ => None,
    };
    match kind {
        Change::Context(tokens) => {
            let each = tokens.checked_div(slots).unwrap_or(tokens);
            (&[FixId::SHORTER_CONTEXT, FixId::MAX_MODEL_LEN], Some(("half_context", each.to_string())))
        }
        Change::KvCache => (&[FixId::QUANTISED_KV_CACHE], None),
        Change::Mix(mix) => (&[FixId::SMALLER_QUANTISATION], Some(("quantisation", mix.to_owned()))),
        Change::Layers(count) => (&[FixId::OFFLOAD_FEWER_LAYERS], Some(("layers", count.to_string()))),
        Change::Experts(count) => (&[FixId::EXPERTS_ON_CPU], Some(("host_experts", count.to_string()))),
        // llama.cpp shares its context out: one slot keeps its part.
        Change::OneSlot => (&[FixId::FEWER_SEQUENCES], part.map(|tokens| ("of_its_context", format!(" -c {tokens}")))),
        Change::FlashAttention => (&[FixId::FLASH_ATTENTION], None),
        Change::NoGraphs => (&[FixId::NO_CUDA_GRAPHS], None),
        Change::Checkpointing => (&[FixId::GRADIENT_CHECKPOINTING], None),
        Change::Utilization(_) | Change::KvCacheAndContext(_) | Change::Dtype(_) | Change::OtherCard => (&[], None),
        Change::FourBits | Change::TensorParallel(_) | Change::Chunk(_) | Change::AllCards | Change::HostEncoder => {
            (&[], None)
        }
        Change::MaxMemory(_) | Change::Stage(_) | Change::Together(_) => (&[], None),
        // Each of these comes with gradient checkpointing there; alone, see `alone`.
        Change::OneSequence | Change::SmallOptimizer | Change::Adapter => (&[], None),
    }
}

/// What each fix would do, from the choices and from the changes that only a walk offers.
pub fn effects(
    choices: &[Choice],
    engine: &Engine,
    shape: &ModelShape,
    before: &Estimate,
    card: Option<&Card>,
    ram: Option<Bytes>,
) -> Vec<Effect> {
    let of_choice = |choice: &Choice| {
        let (ids, value) = fixes(choice.kind, engine);
        let frees = frees(choice, before, engine, shape);
        let download = if let Change::Mix(_) = choice.kind { choice.estimate.weights_in_file.bytes } else { None };
        let (fits, lacks_ram) = (choice.fits, choice.lacks_ram.zip(ram));
        ids.iter()
            .map(move |&fix| Effect { frees, fits, lacks_ram, value: value.clone(), download, ..Effect::of(fix) })
            .collect::<Vec<_>>()
    };
    // A context that is no shorter than the run's is no step towards fitting.
    let helps = |choice: &&Choice| !matches!(choice.kind, Change::Context(_)) || choice.shortens;
    let mut effects: Vec<Effect> = choices.iter().filter(helps).flat_map(of_choice).collect();
    effects.extend(alone(engine).into_iter().filter_map(|(fix, changed)| {
        let after = changed.estimate(shape);
        let frees = less(before, &after)?;
        let fits = options::fits(&changed, shape, card);
        Some(Effect { frees: Some((frees, Is::About)), fits, ..Effect::of(fix) })
    }));
    effects.extend(cache_on_host(engine, before, card, ram));
    effects.extend(options::in_four_bits(*engine, shape).map(|(changed, shape)| {
        let frees = less(before, &changed.estimate(&shape));
        let frees = frees.map(|bytes| (bytes, Is::About));
        Effect { frees, fits: options::fits(&changed, &shape, card), ..Effect::of(FixId::SMALLER_QUANTISATION) }
    }));
    if let Engine::LlamaCpp(settings) | Engine::Ollama(settings) = engine {
        let idle = |fix: FixId, is_idle: bool| Some(Effect { is_idle, ..Effect::of(fix) }).filter(|_| is_idle);
        // Dimensions that are not all known may hide experts.
        let dense = shape.experts == 0 && !shape.tensors.is_empty();
        // Slots that share one cache take nothing more but of windows and states.
        let plain = shape.layers.is_ok() && !shape.has_window() && !shape.is_recurrent();
        let one = settings.parallel == 1 || settings.unified && plain;
        effects.extend([idle(FixId::EXPERTS_ON_CPU, dense), idle(FixId::FEWER_SEQUENCES, one)].into_iter().flatten());
        // On already, as far as is known: then it gives back nothing more.
        if settings.flash_attention && options::fits(engine, shape, card) == Some(false) {
            effects.push(Effect { fits: Some(false), ..Effect::of(FixId::FLASH_ATTENTION) });
        }
        let small = Settings { micro_batch: (settings.micro_batch / SMALLER_BATCH).max(1), ..*settings };
        let changed = if let Engine::Ollama(_) = engine { Engine::Ollama(small) } else { Engine::LlamaCpp(small) };
        let frees = less(before, &changed.estimate(shape)).map(|bytes| (bytes, Is::About));
        effects.push(Effect {
            frees,
            fits: options::fits(&changed, shape, card),
            ..Effect::of(FixId::SMALLER_MICRO_BATCH)
        });
    }
    effects
}

/// What to try where nothing is known to fit: half of the context, and three quarters of the layers, that the log shows.
pub fn tries(
    context: Option<u64>,
    on_card: Option<u64>,
    engine: &Engine,
    shape: &ModelShape,
    before: &Estimate,
    card: Option<&Card>,
    ram: Option<Bytes>,
) -> Vec<Effect> {
    let with_layers = |count: u64| match *engine {
        Engine::LlamaCpp(settings) => Some(Engine::LlamaCpp(Settings { gpu_layers: Some(count), ..settings })),
        Engine::Ollama(settings) => Some(Engine::Ollama(Settings { gpu_layers: Some(count), ..settings })),
        _ => None,
    };
    let shorter = context.map(|tokens| (Change::Context(tokens / 2), engine.with_context(tokens / 2)));
    let fewer = on_card.map(|on| on.saturating_sub(on / 4)).and_then(|on| Some((Change::Layers(on), with_layers(on)?)));
    let tried = |(kind, changed): (Change, Engine)| {
        let (ids, value) = fixes(kind, &changed);
        let after = changed.estimate(shape);
        let frees = less(before, &after).map(|bytes| (bytes, Is::About));
        let lacks_ram = after.on_host().zip(ram).filter(|(needs, ram)| needs > ram && Some(*needs) > before.on_host());
        let fits = if lacks_ram.is_some() { Some(false) } else { options::fits(&changed, shape, card) };
        let effect = move |fix| Effect { frees, fits, lacks_ram, value: value.clone(), ..Effect::of(fix) };
        ids.iter().copied().map(effect).collect::<Vec<_>>()
    };
    shorter.into_iter().chain(fewer).flat_map(tried).collect()
}

/// What the second takes less than the first. A part that is not known in either is taken to stay as it is.
fn less(before: &Estimate, after: &Estimate) -> Option<Bytes> {
    let (mut gone, mut come) = (Bytes::ZERO, Bytes::ZERO);
    for (one, other) in before.on_card().into_iter().zip(after.on_card()) {
        match (one.bytes, other.bytes) {
            (Some(one), Some(other)) => (gone, come) = (gone.plus(one.less(other)), come.plus(other.less(one))),
            (None, None) => {}
            _ => return None,
        }
    }
    Some(gone.less(come)).filter(|bytes| *bytes > Bytes::ZERO)
}

/// Changes of training, each by itself.
pub fn alone(engine: &Engine) -> Vec<(FixId, Engine)> {
    let Engine::Train(training) = *engine else { return Vec::new() };
    let Training { recipe, step, .. } = training;
    let mut changed = Vec::new();
    if step.batch > 1 {
        let step = Step { batch: step.batch / 2, ..step };
        changed.push((FixId::SMALLER_BATCH, Engine::Train(Training { step, ..training })));
    }
    if training.optimizer == Optimizer::AdamW && !recipe.is_adapter() {
        let optimizer = Optimizer::AdamW8bit;
        changed.push((FixId::EIGHT_BIT_OPTIMIZER, Engine::Train(Training { optimizer, ..training })));
    }
    if !recipe.is_adapter() {
        changed.push((FixId::LORA, Engine::Train(Training { recipe: Recipe::Lora(16), ..training })));
    }
    changed
}

/// llama.cpp's cache in system memory.
fn cache_on_host(engine: &Engine, before: &Estimate, card: Option<&Card>, ram: Option<Bytes>) -> Option<Effect> {
    let (Engine::LlamaCpp(_) | Engine::Ollama(_)) = engine else { return None };
    let bytes = before.kv_cache.bytes.filter(|bytes| *bytes > Bytes::ZERO)?;
    let fits = engine.wanted(before).zip(card).map(|(wanted, card)| wanted.less(bytes) <= card.free);
    let frees = Some((bytes, before.kv_cache.is));
    let needs = before.on_host().map(|had| had.plus(bytes));
    let lacks_ram = needs.zip(ram).filter(|(needs, ram)| needs > ram);
    let fits = if lacks_ram.is_some() { Some(false) } else { fits };
    Some(Effect { frees, fits, lacks_ram, ..Effect::of(FixId::KV_CACHE_ON_CPU) })
}

/// What a choice gives back, and how sure that is: a fact where all that changes is a fact. Of a quantised cache, less
/// what CUDA needs to unpack one layer of it, whether or not the buffer had room for that.
pub fn frees(choice: &Choice, before: &Estimate, engine: &Engine, shape: &ModelShape) -> Option<(Bytes, Is)> {
    let after = &choice.estimate;
    let mut bytes = less(before, after)?;
    if let (Change::KvCache, Engine::LlamaCpp(settings) | Engine::Ollama(settings)) = (choice.kind, engine) {
        let saved = before.kv_cache.bytes?.less(after.kv_cache.bytes?);
        bytes = bytes.min(saved.less(Bytes(unpacking(shape, settings)?)));
    }
    let same = |one: &crate::memory::Part, other: &crate::memory::Part| one.bytes == other.bytes;
    let estimated = [(&before.compute, &after.compute), (&before.overhead, &after.overhead)];
    let exact = estimated.into_iter().all(|(one, other)| same(one, other));
    let known = [&before.weights, &after.weights, &before.kv_cache, &after.kv_cache];
    let all_facts = known.into_iter().all(|part| part.is == Is::Fact);
    let moved = !matches!(choice.kind, Change::Mix(_) | Change::Dtype(_));
    // Weights that stay as they are need not be known to say what a cache gives back.
    let cache_only =
        same(&before.weights, &after.weights) && before.kv_cache.is == Is::Fact && after.kv_cache.is == Is::Fact;
    let is = if exact && moved && (all_facts || cache_only) { Is::Fact } else { Is::About };
    Some((bytes, is)).filter(|(bytes, _)| *bytes > Bytes::ZERO)
}

/// The f16 copy of one layer of a cache in q8_0, see [`compute::scratch`].
fn unpacking(shape: &ModelShape, settings: &Settings) -> Option<u64> {
    use crate::memory::ggml::GgmlType;
    let eight = Settings { k_type: GgmlType::Q8_0, v_type: GgmlType::Q8_0, flash_attention: true, ..*settings };
    let graph = Graph { widest: cache::widest(shape), mla: shape.mla, ..Graph::default() };
    compute::scratch(&graph, &eight, settings.context_tokens(shape.context_trained)?)
}
