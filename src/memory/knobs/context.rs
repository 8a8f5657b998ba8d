//! Owns the context: tokens of all slots together (llama.cpp, Ollama), of one request (vLLM, SGLang, transformers), of a
//! sequence (training).

use crate::memory::fits::longest;
use crate::memory::inference::Dtype;
use crate::memory::knob::*;
use crate::memory::knobs::share::USEFUL_CONTEXT;
use crate::memory::settings::Settings;
use crate::memory::words::{context_in_words, tokens_in_words};

pub(crate) static KNOB: Knob = Knob {
    name: "context",
    engines: &[Kind::LlamaCpp, Kind::Ollama, Kind::Vllm, Kind::Sglang, Kind::Transformers, Kind::Train],
    spelled: &[
        Spelling { of: Program::LlamaCpp, names: &["-c", "--ctx-size"] },
        Spelling { of: Program::Vllm, names: &["--max-model-len"] },
        Spelling { of: Program::Sglang, names: &["--context-length"] },
        Spelling { of: Program::Ollama, names: &["OLLAMA_CONTEXT_LENGTH"] },
    ],
    fixes: &[FixId::SHORTER_CONTEXT, FixId::MAX_MODEL_LEN],
    // Ollama is told what one request has.
    placeholder: |engine, tokens| Some(("half_context", (tokens / slots_of_ollama(engine)).to_string())),
    get: Some(|engine, shape| engine.context(shape).unwrap_or(0)),
    set: Some(|engine, _, tokens| *engine = engine.with_context(tokens)),
    states: Some(states),
    cost: |engine, shape, tokens| match engine.context(shape) {
        Some(asked) if tokens < asked / 2 => 7,
        _ => 3,
    },
    proposals,
    label: Some(|engine| if let Engine::Train(_) = engine { "sequence length" } else { "context" }),
    ladder: Some(ladder),
    shown: Some(|engine, shape| tokens_in_words(KNOB.value(engine, shape) / slots_of_ollama(engine))),
    ..Knob::PLAIN
};

/// The slots that share out a context which is set for each of them alone: Ollama multiplies.
fn slots_of_ollama(engine: &Engine) -> u64 {
    if let Engine::Ollama(settings) = engine { settings.parallel.max(1) } else { 1 }
}

/// Tokens of one request.
fn each(settings: &Settings) -> Option<u64> {
    settings.context?.checked_div(settings.parallel.max(1))
}

fn states(engine: &Engine, _: Option<&ModelShape>) -> Option<Said> {
    let tokens = match engine {
        Engine::LlamaCpp(settings) => settings.context?,
        Engine::Ollama(settings) => match settings.kept_context {
            None => each(settings)?,
            // The Modelfile's own length comes before the server's variable.
            Some(kept) if each(settings)? == kept => return None,
            Some(_) => return Some(Said::InChat(format!("/set parameter num_ctx {}", each(settings)?))),
        },
        Engine::Vllm(serving) => serving.max_model_len?,
        Engine::Sglang(serving) => serving.context?,
        // Theirs is no setting but the length of what they are given.
        Engine::Transformers(_) | Engine::Train(_) => return None,
    };
    KNOB.option(engine, tokens)
}

/// Powers of two and, from 6K on, what lies halfway between them, up to what the model was made for.
fn ladder(engine: &Engine, shape: &ModelShape) -> Vec<u64> {
    let most = shape.context_trained.unwrap_or(1 << 20).clamp(512, 1 << 24);
    let powers = (9..24).map(|power| 1_u64 << power);
    let halfway = powers.clone().map(|tokens| tokens / 2 * 3).filter(|tokens| *tokens >= 6144);
    let mut ladder: Vec<u64> = powers.chain(halfway).filter(|tokens| *tokens < most).collect();
    ladder.push(most);
    ladder.sort_unstable();
    let slots = slots_of_ollama(engine);
    ladder.into_iter().map(|each| each.saturating_mul(slots)).collect()
}

fn proposals(need: &Need<'_>) -> Vec<Proposal> {
    let asked = need.engine.context(need.shape);
    let Some(tokens) = need.card.and_then(|card| longest(need.engine, need.shape, card)) else { return Vec::new() };
    // With next to no context a server answers nothing.
    let is_serving = !matches!(need.engine, Engine::Train(_));
    if is_serving && tokens < asked.unwrap_or(u64::MAX).min(USEFUL_CONTEXT) {
        return Vec::new();
    }
    if need.fits == Some(true) && asked.is_some_and(|asked| asked >= tokens) {
        return Vec::new();
    }
    let words = context_in_words(&need.engine.with_context(tokens), need.shape).unwrap_or_default();
    let mut proposal = need.turn(&KNOB, tokens, words);
    proposal.shortens = asked.is_some_and(|asked| asked > tokens);
    match need.engine {
        // There it is no setting: the sentence says what to do.
        Engine::Transformers(generating) if generating.dtype == Dtype::Checkpoint => proposal.flags = Flags::Nothing,
        Engine::Train(_) => {
            proposal.flags = Flags::OfEngine { before: String::new(), after: format!(" max_length={tokens}") };
        }
        _ => {}
    }
    vec![proposal]
}
