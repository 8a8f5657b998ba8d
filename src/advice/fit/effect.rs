//! Owns what each fix of the knowledge base would do to this run: the bytes it frees, whether that is enough, and the
//! values for its placeholders. Which knob a fix turns is said by the knob. Bytes and tokens.

use crate::knowledge::FixId;
use crate::memory::compute::{self, Graph};
use crate::memory::knobs::{self, context, dtype, flash_attention, kv_offload, kv_type, layers, quantization, share};
use crate::memory::{
    Card, Choice, Engine, Estimate, GgmlType, Is, Knob, ModelShape, Part, Settings, Turn, cache, fits,
};
use crate::units::Bytes;

/// What a fix would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub fix: FixId,
    /// What it frees, and how sure that is; `None` where it frees nothing or that is not known.
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

    /// It frees no more than this.
    pub fn free_at_most(&mut self, most: Bytes) {
        let frees = self.frees.map(|(bytes, is)| (bytes.min(most), is));
        self.frees = frees.filter(|(bytes, _)| *bytes > Bytes::ZERO);
    }
}

/// The run as it is, and what there is for it.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub engine: &'a Engine,
    pub shape: &'a ModelShape,
    pub estimate: &'a Estimate,
    pub card: Option<&'a Card>,
    /// System memory that is available.
    pub ram: Option<Bytes>,
}

impl Run<'_> {
    /// What the same model takes less under another engine, about, and whether it then fits.
    fn with(&self, fix: FixId, changed: &Engine, shape: &ModelShape) -> Effect {
        let frees = less(self.estimate, &changed.estimate(shape)).map(|bytes| (bytes, Is::About));
        Effect { frees, fits: fits(changed, shape, self.card), ..Effect::of(fix) }
    }

    /// What it would need of system memory, and what is available, where that is less.
    fn lacks_ram(&self, needs: Option<Bytes>) -> Option<(Bytes, Bytes)> {
        needs.zip(self.ram).filter(|(needs, available)| needs > available)
    }
}

/// One effect for each fix that turns this knob.
fn of_fixes(knob: &Knob, effect: impl Fn(FixId) -> Effect) -> Vec<Effect> {
    knob.fixes.iter().map(|fix| effect(*fix)).collect()
}

/// What each fix would do, from the choices and from the changes that only a walk offers. Of several for one
/// fix the first counts.
pub(crate) fn effects(choices: &[Choice], run: &Run<'_>) -> Vec<Effect> {
    let mut effects: Vec<Effect> = choices.iter().flat_map(|choice| of_choice(choice, run)).collect();
    effects.extend(steps(run.engine).into_iter().map(|(fix, changed)| run.with(fix, &changed, run.shape)));
    effects.extend(cache_in_ram(run));
    if let Some((changed, shape)) = quantization::in_four_bits(*run.engine, run.shape) {
        effects.extend(of_fixes(&quantization::KNOB, |fix| run.with(fix, &changed, &shape)));
    }
    for knob in knobs::all().filter(|knob| knob.has(run.engine) && (knob.frees_nothing)(run.engine, run.shape)) {
        effects.extend(of_fixes(knob, |fix| Effect { is_idle: true, ..Effect::of(fix) }));
    }
    let is_llama = matches!(run.engine, Engine::LlamaCpp(_) | Engine::Ollama(_));
    // On already, as far as is known: then it frees nothing more.
    if is_llama && flash_attention::is_on(run.engine) && fits(run.engine, run.shape, run.card) == Some(false) {
        effects.extend(of_fixes(&flash_attention::KNOB, |fix| Effect { fits: Some(false), ..Effect::of(fix) }));
    }
    effects
}

/// The fixes that make a choice's one change. A smaller share of the GPU frees nothing that a model takes: what it leaves
/// to others is reckoned from the engine's own figures.
pub(crate) fn fixes_of(choice: &Choice) -> &'static [FixId] {
    match choice.only_turn() {
        Some(Turn { knob, .. }) if knob != &share::KNOB => knob.fixes,
        _ => &[],
    }
}

fn of_choice(choice: &Choice, run: &Run<'_>) -> Vec<Effect> {
    let Some(Turn { knob, to }) = choice.only_turn() else { return Vec::new() };
    if knob == &context::KNOB && !choice.shortens {
        return Vec::new();
    }
    let effects = fixes_of(choice).iter().map(|fix| Effect {
        frees: frees(choice, run.estimate, run.engine, run.shape),
        fits: choice.fits,
        lacks_ram: choice.lacks_ram.zip(run.ram),
        value: (knob.placeholder)(run.engine, to),
        download: download(choice),
        ..Effect::of(*fix)
    });
    effects.collect()
}

/// The file that must be downloaded for a choice.
pub(crate) fn download(choice: &Choice) -> Option<Bytes> {
    let turn = choice.only_turn().filter(|turn| turn.knob == &quantization::KNOB)?;
    if turn == quantization::TO_FOUR_BITS { None } else { choice.estimate.weights_in_file.bytes }
}

/// The change of each fix that names no value, by itself.
pub(crate) fn steps(engine: &Engine) -> Vec<(FixId, Engine)> {
    let mut steps = Vec::new();
    for knob in knobs::all() {
        steps.extend((knob.step)(engine).iter().flat_map(|changed| knob.fixes.iter().map(|fix| (*fix, *changed))));
    }
    steps
}

/// What to try where nothing is known to fit: half of the context, and three quarters of the layers, that the log shows.
pub(crate) fn tries(context: Option<u64>, on_gpu: Option<u64>, run: &Run<'_>) -> Vec<Effect> {
    let shorter = context.map(|tokens| Turn { knob: &context::KNOB, to: tokens / 2 });
    let fewer = on_gpu.map(|count| Turn { knob: &layers::KNOB, to: count.saturating_sub(count / 4) });
    let turns = shorter.into_iter().chain(fewer).filter(|turn| turn.knob.has(run.engine));
    turns.flat_map(|turn| tried(turn, run)).collect()
}

fn tried(Turn { knob, to }: Turn, run: &Run<'_>) -> Vec<Effect> {
    let changed = knob.with(*run.engine, run.shape, to);
    let on_host = changed.estimate(run.shape).on_host();
    let lacks_ram = if on_host > run.estimate.on_host() { run.lacks_ram(on_host) } else { None };
    of_fixes(knob, |fix| {
        let effect = run.with(fix, &changed, run.shape);
        let fits = if lacks_ram.is_some() { Some(false) } else { effect.fits };
        Effect { fits, lacks_ram, value: (knob.placeholder)(&changed, to), ..effect }
    })
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

/// llama.cpp's cache in system memory.
fn cache_in_ram(run: &Run<'_>) -> Vec<Effect> {
    let cache = &run.estimate.kv_cache;
    let Some(bytes) = cache.bytes.filter(|bytes| *bytes > Bytes::ZERO && kv_offload::KNOB.has(run.engine)) else {
        return Vec::new();
    };
    let lacks_ram = run.lacks_ram(run.estimate.on_host().map(|had| had.plus(bytes)));
    let wanted = run.engine.wanted(run.estimate).zip(run.card);
    let fits = match lacks_ram {
        Some(_) => Some(false),
        None => wanted.map(|(wanted, card)| wanted.less(bytes) <= card.free),
    };
    of_fixes(&kv_offload::KNOB, |fix| Effect { frees: Some((bytes, cache.is)), fits, lacks_ram, ..Effect::of(fix) })
}

/// What a choice frees, and how sure that is: a fact where all that changes is a fact. Of a quantized cache, less
/// what CUDA needs to unpack one layer of it, whether or not the buffer had room for that.
pub(crate) fn frees(choice: &Choice, before: &Estimate, engine: &Engine, shape: &ModelShape) -> Option<(Bytes, Is)> {
    let after = &choice.estimate;
    let mut bytes = less(before, after)?;
    let knob = choice.only_turn().map(|turn| turn.knob);
    if let Engine::LlamaCpp(settings) | Engine::Ollama(settings) = engine
        && knob == Some(&kv_type::KNOB)
    {
        let saved = before.kv_cache.bytes?.less(after.kv_cache.bytes?);
        bytes = bytes.min(saved.less(Bytes(unpacking(shape, settings)?)));
    }
    let is_of_weights = knob.is_some_and(|knob| [&quantization::KNOB, &dtype::KNOB].contains(&knob));
    let is = if !is_of_weights && is_fact(before, after) { Is::Fact } else { Is::About };
    Some((bytes, is)).filter(|(bytes, _)| *bytes > Bytes::ZERO)
}

/// Whether all that differs between the two is exact. Weights that stay as they are need not be known to say
/// what a cache frees.
fn is_fact(before: &Estimate, after: &Estimate) -> bool {
    let is_exact = are_same(&before.compute, &after.compute) && are_same(&before.overhead, &after.overhead);
    let are_caches_facts = before.kv_cache.is == Is::Fact && after.kv_cache.is == Is::Fact;
    let are_weights_facts = before.weights.is == Is::Fact && after.weights.is == Is::Fact;
    is_exact && are_caches_facts && (are_weights_facts || are_same(&before.weights, &after.weights))
}

fn are_same(one: &Part, other: &Part) -> bool {
    one.bytes == other.bytes
}

/// The f16 copy of one layer of a cache in q8_0, see [`compute::scratch`].
fn unpacking(shape: &ModelShape, settings: &Settings) -> Option<u64> {
    let eight = Settings { k_type: GgmlType::Q8_0, v_type: GgmlType::Q8_0, flash_attention: true, ..*settings };
    let graph = Graph { widest: cache::widest(shape), mla: shape.mla, ..Graph::default() };
    compute::scratch(&graph, &eight, settings.context_tokens(shape.context_trained)?)
}
