//! Owns how an answer reads: the table of parts, one sentence, the command line. Foreign names are made harmless.
//! Knows nothing of how figures are made.

use std::fmt::Write;

use super::answer::Answer;
use super::command::command;
use super::held::Held;
use super::spread::Spread;
use crate::advice::fit::holders::Holder;
use crate::memory::card::Card;
use crate::memory::fits;
use crate::memory::flags::quoted;
use crate::memory::options::Choice;
use crate::memory::words::context_in_words;
use crate::memory::{Engine, Is, ModelShape, Part, Settings, estimate};
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
    let mut out = String::new();
    let shape = &answer.located.shape;
    let context = context_in_words(&answer.engine, shape).map(|words| format!(" with {words}"));
    let mix = shape.quantization.as_deref().map(|mix| format!(" {mix}")).unwrap_or_default();
    let name = answer.name();
    // Of a path the last part is enough.
    let short = if answer.located.file.is_some() { name.rsplit('/').next().unwrap_or(&name) } else { &name };
    let _ = writeln!(out, "{short}{mix}{} in {}\n", context.unwrap_or_default(), answer.engine.name());
    for (name, part) in parts(answer) {
        let earlier = if name == "compute" { super::other::earlier_compute(&answer.engine, shape) } else { None };
        let earlier = earlier.filter(|bytes| part.bytes.is_some_and(|now| bytes.0.abs_diff(now.0) > Bytes::mib(16).0));
        let earlier = earlier.map(|bytes| format!(" (in builds before June 2026 about {bytes})")).unwrap_or_default();
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
    for holder in answer.in_the_way() {
        let _ = writeln!(out, "  {}", holder.command);
    }
    if let Some(command) = command(answer) {
        for line in command.lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    let others: Vec<&Choice> = answer.options.iter().filter(|choice| choice.fits == Some(true)).collect();
    if others.len() > 1 || answer.fits == Some(true) && !others.is_empty() {
        let _ = writeln!(out, "\nWhat fits:");
        for choice in others {
            let total = choice.total.map_or_else(|| "?".into(), |total| total.to_string());
            let flags = choice.flags.as_deref().map(|flags| format!(": {flags}")).unwrap_or_default();
            let _ = writeln!(out, "  {}, about {total}{flags}", choice.change);
        }
    }
    if let (Some(program), Some(file)) = (&answer.fit_params, &answer.located.file) {
        let (program, file) = (program.to_string_lossy(), file.to_string_lossy());
        let flags = measured(&answer.engine, shape);
        let _ = writeln!(
            out,
            "\nllama.cpp measures it without loading it:\n  {} -m {} {flags} -fitp on",
            quoted(&program),
            quoted(&file)
        );
    }
    for note in &answer.notes {
        let _ = writeln!(out, "\nNote: {}.", harmless(note));
    }
    out.lines().map(|line| harmless(line).into_owned() + "\n").collect()
}

/// The same settings for llama-fit-params, which knows neither an image encoder nor a shared cache (common/arg.cpp).
fn measured(engine: &Engine, shape: &ModelShape) -> String {
    let Engine::LlamaCpp(settings) = engine else { return engine.flags() };
    let context = engine.context(shape);
    Engine::LlamaCpp(Settings { context, unified: false, host_projector: false, ..*settings }).flags()
}

/// What is free on each card once those have ended that could let go of memory there.
fn free_then(held: &[Held]) -> String {
    let mut out = String::new();
    let several = held.len() > 1;
    for held in held.iter().filter(|held| !held.holders.is_empty()) {
        let names: Vec<String> =
            held.holders.iter().map(|holder| format!("{} with {}", holder.name, holder.bytes)).collect();
        let on_card = if several { format!(" on GPU {}", held.card.index) } else { String::new() };
        let have = if names.len() == 1 { "has" } else { "have" };
        let _ = writeln!(
            out,
            "  {:<13} {}{on_card}, once {} {have} ended",
            "free then",
            held.free_after(),
            in_words(&names)
        );
    }
    out
}

/// Each card with its share of a split.
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
            "It fits: each card has room for its share and keeps the 1 GiB free that {} wants{by_itself}.",
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
    let in_the_way = answer.in_the_way();
    let words = spread.instead.as_ref().map(|(words, _)| words);
    let instead = match words.or_else(|| answer.best().map(|choice| &choice.change)) {
        Some(words) if in_the_way.is_empty() => format!(" With {words} it fits."),
        Some(words) => format!(" Without that, with {words} it fits."),
        None if in_the_way.is_empty() => " I know no change that makes it fit.".into(),
        None => String::new(),
    };
    let once_ended = once_ended(&in_the_way);
    let free: Vec<Bytes> = spread.cards.iter().map(|(card, _)| card.free).collect();
    let own = tight && spread.by_free;
    let own = if own { answer.engine.by_itself(&answer.located.shape, &free) } else { String::new() };
    format!("{verdict}: {wants}, {}.{own}{once_ended}{instead}{}", in_words(&full), lacks_ram(answer))
}

/// Whose end makes it fit; nothing where nobody's does.
fn once_ended(in_the_way: &[&Holder]) -> String {
    if in_the_way.is_empty() {
        return String::new();
    }
    let names: Vec<String> = in_the_way.iter().map(|holder| holder.name.clone()).collect();
    let (have, they) = if names.len() == 1 { ("has", "it is") } else { ("have", "they are") };
    format!(
        " It fits once {} {have} ended: not busy in the last sample, so check first that {they} idle.",
        in_words(&names)
    )
}

/// The parts that are not nothing, with their names.
fn parts(answer: &Answer) -> Vec<(&'static str, &Part)> {
    let seen = |name: &str, part: &Part| name == "weights" || part.bytes != Some(Bytes::ZERO);
    answer.estimate.named().into_iter().filter(|(name, part)| seen(name, part)).collect()
}

/// "a", "a and b", "a, b and c".
fn in_words(names: &[String]) -> String {
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
        let with = answer.best().map(|choice| (&choice.change, choice.total.unwrap_or(Bytes::ZERO)));
        let with = with.map(|(change, total)| format!(" With {change} it takes about {total} and fits."));
        return format!("It does not start with these settings: {why}.{}", with.unwrap_or_default());
    }
    let (Some(fits), Some(total), Some(card)) = (answer.fits, answer.estimate.total(), &answer.card) else {
        let why = answer.why_not_known.as_deref().unwrap_or("a figure is missing");
        return match (answer.estimate.total(), answer.estimate.weights.bytes, &answer.card) {
            (Some(total), ..) => format!("It takes about {total}. Whether it fits is not known: {why}."),
            // What is known may be enough to say no.
            (None, Some(weights), Some(card)) if weights > card.free => {
                let (free, index) = (card.free, card.index);
                format!(
                    "It does not fit whole: its weights alone take {weights} and {free} are free on GPU {index}. The rest is not known: {why}."
                )
            }
            (None, Some(weights), _) => {
                format!("Its weights alone take {weights}. Whether it fits is not known: {why}.")
            }
            (None, None, _) => format!("Whether it fits is not known: {why}."),
        };
    };
    let who = answer.engine.who_wants();
    let has_share = matches!(answer.engine, Engine::Vllm(_) | Engine::Sglang(_));
    if fits {
        let left = if has_share { String::new() } else { format!(" It leaves the 1 GiB that {who} wants free.") };
        return format!("It fits: about {total} of the {} that are free on GPU {}.{left}", card.free, card.index);
    }
    let missing = total.less(card.free);
    let refusal = answer.engine.refusal(&answer.located.shape);
    let mut text = if let Some(refusal) = &refusal {
        format!("It does not start: {refusal}.")
    } else if let Some((needs, there)) = answer.lacks_ram.zip(answer.host_available) {
        format!("It fits on the card and not in RAM: about {needs} is needed there, and {there} is available.")
    } else if missing == Bytes::ZERO && has_share {
        super::about::not_within(&answer.engine, card)
    } else if missing == Bytes::ZERO {
        format!(
            "It is too tight: about {total} of the {} that are free on GPU {}, and {who} wants 1 GiB left free.{}",
            card.free,
            card.index,
            answer.engine.by_itself(&answer.located.shape, card.room())
        )
    } else {
        let each = match answer.engine.ranks() {
            1 => String::new(),
            ranks => format!(" on each of {ranks} cards"),
        };
        format!(
            "It does not fit: about {total} are needed{each} and {} are free on GPU {}, {missing} too little.",
            card.free, card.index
        )
    };
    let in_the_way = answer.in_the_way();
    text.push_str(&once_ended(&in_the_way));
    match answer.best() {
        Some(choice) => {
            let takes = choice.total.map(|total| format!(" takes about {total} and")).unwrap_or_default();
            let without = if in_the_way.is_empty() { "With" } else { "Without that, with" };
            let _ = write!(text, " {without} {} it{takes} fits.{}", choice.change, super::about::in_words_only(choice));
        }
        None if in_the_way.is_empty() => text.push_str(" I know no change that makes it fit."),
        None => {}
    }
    text.push_str(&lacks_ram(answer));
    let emptied = answer.emptied.map(|free| Card { free, ..card.clone() });
    let would = emptied.as_ref().filter(|card| {
        fits::fits(&answer.engine, &answer.located.shape, Some(card)) == Some(true)
            && refusal.is_none()
            && in_the_way.is_empty()
    });
    if let Some(emptied) = would {
        let _ = write!(
            text,
            " With {} free, once what holds the card has ended (see `oomdoctor ps`), it fits as it is.",
            emptied.free
        );
    }
    text
}

/// Why llama.cpp would not start with these settings.
fn refused(engine: &Engine) -> Option<String> {
    match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => estimate::refused(settings),
        _ => None,
    }
}

/// What would fit on the card and not in system memory; nothing where something else fits.
fn lacks_ram(answer: &Answer) -> String {
    let options = answer.options.iter().filter(|_| answer.best().is_none());
    let lacks = options.into_iter().find_map(|choice| Some((&choice.change, choice.lacks_ram?)));
    let lacks = lacks.zip(answer.host_available).map(|((change, needed), there)| {
        format!(" With {change} it does not fit in RAM: that needs about {needed} there, and {there} is available.")
    });
    lacks.unwrap_or_default()
}
