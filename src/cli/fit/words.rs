//! Owns how an answer reads: the table of parts, one sentence, the command line. Foreign names are made harmless.
//! Knows nothing of how figures are made.

use std::fmt::Write;
use std::path::PathBuf;

use super::answer::Answer;
use super::answer::Held;
use super::command::command;
use super::notes;
use super::spread::Spread;
use crate::advice::fit::holders::Holder;
use crate::memory::flags::quoted;
use crate::memory::knobs::context;
use crate::memory::{
    Card, Choice, Engine, Is, ModelShape, Part, Settings, Turn, context_in_words, estimate, fits, share_in_words, vllm,
};
use crate::platform::tools;
use crate::text::harmless;
use crate::units::Bytes;

/// Words for a figure: `about 1.2 GiB`, or why there is none.
fn shown(part: &Part) -> String {
    match (part.bytes, part.is) {
        (Some(bytes), Is::Fact) => bytes.to_string(),
        (Some(bytes), Is::About) => format!("about {bytes}"),
        (None, _) => format!("not known: {}", part.why_not.as_deref().unwrap_or("no figure")),
    }
}

pub(super) fn text(answer: &Answer) -> String {
    let mut out = format!("{}\n\n", title(answer));
    for (name, part) in answer.estimate.named() {
        if name != "weights" && part.bytes == Some(Bytes::ZERO) {
            continue;
        }
        let earlier = if name == "compute" { in_earlier_builds(answer, part) } else { String::new() };
        let _ = writeln!(out, "  {name:<13} {}{earlier}", shown(part));
    }
    let total = answer.estimate.total().map_or_else(|| "not known".into(), |total| format!("about {total}"));
    let _ = writeln!(out, "  {:<13} {total}", "total");
    match (&answer.spread, &answer.card) {
        (Some(spread), _) => out.push_str(&each_card(spread)),
        (None, Some(card)) => {
            let (free, total) = (card.free, card.total);
            let among = if answer.held.len() > 1 { ", which has least of them" } else { "" };
            let _ =
                writeln!(out, "\n  {:<13} {free} of {total} on GPU {} ({}){among}", "free now", card.index, card.name);
        }
        (None, None) => {}
    }
    out.push_str(&free_then(&answer.held));
    let _ = writeln!(out, "\n{}", sentence(answer));
    let command = command(answer).unwrap_or_default();
    for line in answer.in_the_way().iter().map(|holder| holder.command.as_str()).chain(command.lines()) {
        let _ = writeln!(out, "  {line}");
    }
    out.push_str(&what_fits(answer));
    if let (Some(program), Some(file)) = (measures(answer), &answer.located.file) {
        let (program, file) = (quoted(&program.to_string_lossy()), quoted(&file.to_string_lossy()));
        let flags = measured(&answer.engine, &answer.located.shape);
        let _ = writeln!(out, "\nllama.cpp measures it without loading it:\n  {program} -m {file} {flags} -fitp on");
    }
    for note in notes::of(answer) {
        let _ = writeln!(out, "\nNote: {}.", harmless(&note));
    }
    out.lines().map(|line| harmless(line).into_owned() + "\n").collect()
}

/// Where llama.cpp's own measuring program is installed, for a file of its own.
fn measures(answer: &Answer) -> Option<PathBuf> {
    if !matches!(answer.engine, Engine::LlamaCpp(_)) || answer.located.file.is_none() {
        return None;
    }
    tools::found("llama-fit-params")
}

/// The model with its quantization, context and engine.
pub(super) fn title(answer: &Answer) -> String {
    let shape = &answer.located.shape;
    let name = answer.name();
    // Of a path the last part is enough.
    let short = if answer.located.file.is_some() { name.rsplit('/').next().unwrap_or(&name) } else { &name };
    let mix = shape.quantization.as_deref().map(|mix| format!(" {mix}")).unwrap_or_default();
    let context = context_in_words(&answer.engine, shape).map(|words| format!(" with {words}")).unwrap_or_default();
    format!("{short}{mix}{context} in {}", answer.engine.name())
}

/// What an earlier build's compute buffer takes, where that differs.
fn in_earlier_builds(answer: &Answer, now: &Part) -> String {
    match (notes::earlier_compute(&answer.engine, &answer.located.shape), now.bytes) {
        (Some(then), Some(now)) if then.0.abs_diff(now.0) > Bytes::mib(16).0 => {
            format!(" (in builds before June 2026 about {then})")
        }
        _ => String::new(),
    }
}

/// The changes that fit, where there is more than the one that is said already.
fn what_fits(answer: &Answer) -> String {
    let fitting: Vec<&Choice> = answer.options.iter().filter(|choice| choice.fits == Some(true)).collect();
    let said = if answer.fits == Some(true) { 0 } else { 1 };
    if fitting.len() <= said {
        return String::new();
    }
    let mut out = String::from("\nWhat fits:\n");
    for choice in fitting {
        let total = choice.total.map_or_else(|| "?".into(), |total| total.to_string());
        let flags = choice.flags.as_deref().map(|flags| format!(": {flags}")).unwrap_or_default();
        let _ = writeln!(out, "  {}, about {total}{flags}", choice.change);
    }
    out
}

/// The same settings for llama-fit-params, which knows neither an image encoder nor a shared cache (common/arg.cpp).
fn measured(engine: &Engine, shape: &ModelShape) -> String {
    let Engine::LlamaCpp(settings) = engine else { return engine.flags() };
    let context = engine.context(shape);
    Engine::LlamaCpp(Settings { context, unified: false, host_projector: false, ..*settings }).flags()
}

/// What is free on each GPU once the processes that could free memory there have exited.
fn free_then(held: &[Held]) -> String {
    let mut out = String::new();
    let several = held.len() > 1;
    for held in held.iter().filter(|held| !held.holders.is_empty()) {
        let names: Vec<String> =
            held.holders.iter().map(|holder| format!("{} with {}", holder.name, holder.bytes)).collect();
        let on_card = if several { format!(" on GPU {}", held.card.index) } else { String::new() };
        let exit = if names.len() == 1 { "exits" } else { "exit" };
        let _ = writeln!(out, "  {:<13} {}{on_card}, once {} {exit}", "free then", held.free_after(), in_words(&names));
    }
    out
}

/// Each GPU with its share of a split.
fn each_card(spread: &Spread) -> String {
    let mut out = String::from("\n");
    for (card, share) in &spread.cards {
        let (total, beside) = (share.total(), Bytes(share.compute.saturating_add(share.overhead)));
        let verdict = match () {
            () if share.wanted() <= card.free => "fits",
            () if total <= card.free => "too tight",
            () => "does not fit",
        };
        let _ = writeln!(
            out,
            "  {:<13} about {total} of {} free: {} layer{}, weights {}, cache {}, the rest about {beside}: {verdict}",
            format!("GPU {}", card.index),
            card.free,
            share.layers,
            if share.layers == 1 { "" } else { "s" },
            Bytes(share.weights),
            Bytes(share.cache)
        );
    }
    out
}

/// The same in a sentence or two.
fn sentence_of(answer: &Answer, spread: &Spread) -> String {
    if spread.fits {
        let by_itself = if let Engine::Ollama(_) = answer.engine { ", which Ollama gives it by itself" } else { "" };
        return format!(
            "It fits: each GPU has room for its share and the 1 GiB that {} keeps free{by_itself}.",
            answer.engine.who_wants()
        );
    }
    let full: Vec<String> = spread
        .cards
        .iter()
        .filter(|(card, share)| share.wanted() > card.free)
        .map(|(card, share)| format!("{} too little on GPU {}", share.wanted().less(card.free), card.index))
        .collect();
    let tight = spread.cards.iter().all(|(card, share)| share.total() <= card.free);
    let verdict = if tight { "It is too tight" } else { "It does not fit" };
    let wants = format!("with the 1 GiB that {} wants free on each", answer.engine.who_wants());
    let may_exit = answer.in_the_way();
    let words = spread.instead.as_ref().map(|(words, _)| words);
    let instead = match words.or_else(|| answer.best().map(|choice| &choice.change)) {
        Some(words) if may_exit.is_empty() => format!(" With {words} it fits."),
        Some(words) => format!(" Without that, with {words} it fits."),
        None if may_exit.is_empty() => " No known change makes it fit.".into(),
        None => String::new(),
    };
    let once_ended = once_ended(&may_exit);
    let free: Vec<Bytes> = spread.cards.iter().map(|(card, _)| card.free).collect();
    let own = tight && spread.by_free;
    let own = if own { answer.engine.by_itself(&answer.located.shape, &free) } else { String::new() };
    format!("{verdict}: {wants}, {}.{own}{once_ended}{instead}{}", in_words(&full), lacks_ram(answer))
}

/// Whose end makes it fit; nothing where nobody's does.
fn once_ended(may_exit: &[&Holder]) -> String {
    if may_exit.is_empty() {
        return String::new();
    }
    let names: Vec<String> = may_exit.iter().map(|holder| holder.name.clone()).collect();
    let (exit, they) = if names.len() == 1 { ("exits", "it is") } else { ("exit", "they are") };
    format!(" It fits once {} {exit}. Not busy in the last sample: check first that {they} idle.", in_words(&names))
}

/// "a", "a and b", "a, b and c".
pub(super) fn in_words(names: &[String]) -> String {
    match names {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        all => all.concat(),
    }
}

/// The answer in a sentence or two.
pub(super) fn sentence(answer: &Answer) -> String {
    if let Some(spread) = &answer.spread {
        return sentence_of(answer, spread);
    }
    if let Some(why) = refused(&answer.engine) {
        let with = answer.best().map(|choice| {
            let total = choice.total.unwrap_or(Bytes::ZERO);
            format!(" With {} it takes about {total} and fits.", choice.change)
        });
        return format!("It does not start with these settings: {why}.{}", with.unwrap_or_default());
    }
    match (answer.fits, answer.estimate.total(), &answer.card) {
        (Some(true), Some(total), Some(card)) => {
            let left = match answer.engine {
                Engine::Vllm(_) | Engine::Sglang(_) => String::new(),
                _ => format!(" It leaves the 1 GiB that {} wants free.", answer.engine.who_wants()),
            };
            format!("It fits: about {total} of the {} that are free on GPU {}.{left}", card.free, card.index)
        }
        (Some(false), Some(total), Some(card)) => {
            let refusal = answer.engine.refusal(&answer.located.shape);
            let verdict = match &refusal {
                Some(refusal) => format!("It does not start: {refusal}."),
                None => why_not(answer, total, card),
            };
            let emptied = if refusal.is_some() { String::new() } else { once_emptied(answer, card) };
            format!("{verdict}{}{}{emptied}", ways_out(answer), lacks_ram(answer))
        }
        _ => not_known(answer),
    }
}

/// Where whether it fits is not known.
fn not_known(answer: &Answer) -> String {
    let why = answer.why_not_known.as_deref().unwrap_or("a figure is missing");
    match (answer.estimate.total(), answer.estimate.weights.bytes, &answer.card) {
        (Some(total), ..) => format!("It takes about {total}. Whether it fits is unknown: {why}."),
        // What is known may be enough to say no.
        (None, Some(weights), Some(card)) if weights > card.free => {
            let (free, index) = (card.free, card.index);
            format!(
                "It does not fit whole: its weights alone take {weights} and {free} are free on GPU {index}. The rest is unknown: {why}."
            )
        }
        (None, Some(weights), _) => format!("Its weights alone take {weights}. Whether it fits is unknown: {why}."),
        (None, None, _) => format!("Whether it fits is unknown: {why}."),
    }
}

/// Why it does not fit as it is.
fn why_not(answer: &Answer, total: Bytes, card: &Card) -> String {
    let (engine, free, index) = (&answer.engine, card.free, card.index);
    if let Some((needs, there)) = answer.lacks_ram.zip(answer.machine.host_available()) {
        return format!("It fits in VRAM but not in RAM: about {needs} is needed there, and {there} is available.");
    }
    if total > free {
        let each = match engine.ranks() {
            1 => String::new(),
            ranks => format!(" on each of {ranks} GPUs"),
        };
        let missing = total.less(free);
        return format!(
            "It does not fit: about {total} are needed{each} and {free} are free on GPU {index}, {missing} too little."
        );
    }
    match engine {
        Engine::Vllm(_) | Engine::Sglang(_) => not_within(engine, card),
        _ => format!(
            "It is too tight: about {total} of the {free} that are free on GPU {index}, and {} wants 1 GiB left free.{}",
            engine.who_wants(),
            engine.by_itself(&answer.located.shape, card.room())
        ),
    }
}

/// Which limit it is where the GPU has room for the model itself.
fn not_within(engine: &Engine, card: &Card) -> String {
    match engine {
        Engine::Vllm(serving) => {
            let allowed = vllm::allowed(card.total, serving.utilization);
            let of = share_in_words(serving.utilization);
            if allowed > card.free {
                let free = card.free;
                format!("It does not fit: vLLM's share is {allowed} ({of} of the VRAM) and only {free} are free.")
            } else {
                format!("It does not fit within vLLM's share of the VRAM: {allowed} ({of} of it).")
            }
        }
        Engine::Sglang(serving) => {
            let of = format!("{}.{:03}", serving.fraction / 1000, serving.fraction % 1000);
            format!(
                "It does not fit as SGLang splits the free VRAM: {of} of it for weights and KV cache, the rest for prefill and CUDA graphs."
            )
        }
        _ => "It does not fit.".to_owned(),
    }
}

/// How to keep to a context where that is no flag.
fn in_words_only(choice: &Choice) -> String {
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

/// Whose end makes it fit, and which change does.
fn ways_out(answer: &Answer) -> String {
    let may_exit = answer.in_the_way();
    let mut text = once_ended(&may_exit);
    match answer.best() {
        Some(choice) => {
            let takes = choice.total.map(|total| format!(" takes about {total} and")).unwrap_or_default();
            let without = if may_exit.is_empty() { "With" } else { "Without that, with" };
            let _ = write!(text, " {without} {} it{takes} fits.{}", choice.change, in_words_only(choice));
        }
        None if may_exit.is_empty() => text.push_str(" No known change makes it fit."),
        None => {}
    }
    text
}

/// That it fits once nobody uses the GPU, where nobody's end alone is enough.
fn once_emptied(answer: &Answer, card: &Card) -> String {
    let (Some(free), true) = (answer.machine.emptied(card), answer.in_the_way().is_empty()) else {
        return String::new();
    };
    let emptied = Card { free, ..card.clone() };
    match fits(&answer.engine, &answer.located.shape, Some(&emptied)) {
        Some(true) => {
            format!(" It fits as it is once {free} are free: other processes use the VRAM now (see `oomdoctor ps`).")
        }
        _ => String::new(),
    }
}

/// Why llama.cpp would not start with these settings.
fn refused(engine: &Engine) -> Option<String> {
    match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => estimate::refused(settings),
        _ => None,
    }
}

/// What would fit on the GPU and not in system memory; nothing where something else fits.
fn lacks_ram(answer: &Answer) -> String {
    let lacks = answer.options.iter().find_map(|choice| Some((&choice.change, choice.lacks_ram?)));
    match (answer.best(), lacks, answer.machine.host_available()) {
        (None, Some((change, needed)), Some(there)) => {
            format!(" With {change} it does not fit in RAM: that needs about {needed} there, and {there} is available.")
        }
        _ => String::new(),
    }
}
