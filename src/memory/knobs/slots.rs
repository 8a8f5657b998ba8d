//! Owns how many requests a server computes at once: llama.cpp's and Ollama's slots, vLLM's and SGLang's sequences.

use crate::memory::knob::*;
use crate::memory::settings::Settings;
use crate::memory::words::tokens_in_words;

pub(crate) static KNOB: Knob = Knob {
    name: "parallel slots",
    engines: &[Kind::LlamaCpp, Kind::Ollama],
    spelled: &[
        Spelling { of: Program::LlamaCpp, names: &["-np", "--parallel"] },
        Spelling { of: Program::Ollama, names: &["OLLAMA_NUM_PARALLEL"] },
    ],
    printed: &["n_seq_max"],
    fixes: &[FixId::FEWER_SEQUENCES],
    placeholder,
    number: |engine| match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => Some(&mut settings.parallel),
        _ => None,
    },
    set: Some(set),
    states: Some(states),
    is_usual: |engine| matches!(engine, Engine::Ollama(settings) if settings.parallel <= 1),
    cost: |_, _, _| 1,
    proposals,
    frees_nothing,
    ladder: Some(|_, _| vec![1, 2, 4, 8, 16, 32, 64]),
    ..Knob::PLAIN
};

/// The sequences of vLLM and SGLang, which share one pool.
pub(crate) static SEQUENCES: Knob = Knob {
    name: "sequences at once",
    engines: &[Kind::Vllm, Kind::Sglang],
    spelled: &[
        Spelling { of: Program::Vllm, names: &["--max-num-seqs"] },
        Spelling { of: Program::Sglang, names: &["--max-running-requests"] },
    ],
    number: |engine| match engine {
        Engine::Vllm(serving) => Some(&mut serving.sequences),
        Engine::Sglang(serving) => serving.requests.as_mut(),
        _ => None,
    },
    is_usual: |engine| {
        matches!(engine, Engine::Vllm(serving)
            if serving.sequences == serving.usual_at_once.1.min(serving.batched_tokens))
    },
    ..Knob::PLAIN
};

/// llama.cpp shares its context out: one slot keeps its part.
fn placeholder(engine: &Engine, _: u64) -> Option<(&'static str, String)> {
    let Engine::LlamaCpp(settings) = engine else { return None };
    let part = settings.context?.checked_div(settings.parallel.max(1))?;
    (!settings.unified).then(|| ("of_its_context", format!(" -c {part}")))
}

fn set(engine: &mut Engine, _: &ModelShape, slots: u64) {
    match engine {
        Engine::LlamaCpp(settings) => settings.parallel = slots,
        // Each slot keeps its context.
        Engine::Ollama(settings) => {
            let each = settings.context.and_then(|context| context.checked_div(settings.parallel.max(1)));
            settings.context = each.map(|each| each.saturating_mul(slots));
            settings.parallel = slots;
        }
        _ => {}
    }
}

fn states(engine: &Engine, _: Option<&ModelShape>) -> Option<Said> {
    match engine {
        // Where a number of slots is given, sharing one cache has to be asked for.
        Engine::LlamaCpp(Settings { parallel: slots @ 2.., unified: true, .. }) => {
            KNOB.option(engine, format!("{slots} -kvu"))
        }
        _ => KNOB.option(engine, KNOB.number_of(engine)?),
    }
}

/// Whether one slot would take as much. Slots that share one cache take more only of windows and states.
fn frees_nothing(engine: &Engine, shape: &ModelShape) -> bool {
    let (Engine::LlamaCpp(settings) | Engine::Ollama(settings)) = engine else { return false };
    let is_plain = shape.layers.is_ok() && !shape.has_window() && !shape.is_recurrent();
    settings.parallel == 1 || settings.unified && is_plain
}

/// One slot instead of several.
fn proposals(need: &Need<'_>) -> Vec<Proposal> {
    let (Engine::LlamaCpp(settings) | Engine::Ollama(settings)) = need.engine else { return Vec::new() };
    if settings.parallel <= 1 || settings.unified && !need.shape.has_window() && !need.shape.is_recurrent() {
        return Vec::new();
    }
    let shared_by = if settings.unified { 1 } else { settings.parallel };
    let each = need.engine.context(need.shape).and_then(|all| all.checked_div(shared_by));
    let mut one = need.engine;
    if let Engine::LlamaCpp(settings) | Engine::Ollama(settings) = &mut one {
        (settings.parallel, settings.context) = (1, each);
    }
    let turns = [Turn { knob: &KNOB, to: 1 }];
    // llama.cpp shares its context out, so that one request keeps what each had, which is a part of it.
    let keeps_part = shared_by > 1 && matches!(need.engine, Engine::LlamaCpp(_));
    let words = match each {
        Some(each) if keeps_part => format!("one request of {} tokens at a time", tokens_in_words(each)),
        _ => "one request at a time".to_owned(),
    };
    let mut proposal = Proposal { shortens: keeps_part, ..need.propose(&turns, words, one) };
    if let Engine::Ollama(_) = need.engine {
        // Its default, but not where its server was told otherwise.
        proposal.flags = Flags::OfEngine { before: "OLLAMA_NUM_PARALLEL=1 ".to_owned(), after: String::new() };
    }
    vec![proposal]
}
