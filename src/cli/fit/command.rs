//! Owns the command line of an answer: as it is or with the best change, on the GPUs that it was held against. Knows no
//! figures.

use super::answer::Answer;
use super::located::Source;
use super::spread::Spread;
use crate::memory::Engine;
use crate::memory::knobs::quantization::TO_FOUR_BITS;
use crate::memory::visible::{in_order, is_said_in, only_most_free, only_on};

/// The command line that fits, as it is or with the best change. Among several GPUs the one it was held against is
/// named, or the program would spread over all of them.
pub(super) fn command(answer: &Answer) -> Option<String> {
    let line = match &answer.spread {
        Some(spread) => of_spread(answer, spread)?,
        None => command_on_card(answer)?,
    };
    let flags = ["--tp ", "--tensor-parallel-size ", "--pipeline-parallel-size ", "--num_processes "];
    let ranks = flags.into_iter().filter_map(|flag| number_behind(&line, flag)).fold(1, usize::saturating_mul);
    let is_server = [" serve", "llama-server", "sglang"].iter().any(|words| line.contains(words));
    let cards = &answer.machine.cards;
    let is_of_several = cards.len() > 1 && answer.engine.ranks() == 1 && answer.spread.is_none();
    let is_on_one = is_of_several && !line.contains(" -sm layer");
    let before = match &answer.card {
        _ if is_said_in(&line) => String::new(),
        _ if ranks > 1 => only_most_free(ranks, cards, &answer.engine),
        _ if line.contains(" -ts ") => in_order(cards).into(),
        Some(card) if is_on_one && is_server && !line.starts_with('/') => only_on(card, &answer.engine),
        _ => String::new(),
    };
    Some(format!("{} {line}", before.trim_end()).trim_start().to_owned())
}

fn number_behind(line: &str, flag: &str) -> Option<usize> {
    line.split_once(flag)?.1.split(' ').next()?.parse().ok()
}

/// A whole line of this engine's for the model. A folder of safetensors is no file of llama.cpp's.
fn whole(answer: &Answer, engine: &Engine, name: &str) -> Option<String> {
    let is_no_file = matches!(engine, Engine::LlamaCpp(_)) && answer.located.source == Source::Checkpoint;
    let file = if is_no_file { None } else { answer.located.file.as_deref() };
    engine.command(file, answer.located.encoder.as_deref(), name)
}

/// What the capitals in the command line stand for.
pub(super) fn placeholder(answer: &Answer) -> Option<String> {
    let line = command(answer)?;
    match line.split(' ').find_map(|word| word.strip_suffix("REPOSITORY"))? {
        "" => Some("REPOSITORY stands for its name on Hugging Face (owner/name) or its folder".into()),
        "BASE-" => None,
        kind => {
            let word = kind.trim_end_matches('-');
            Some(format!("{kind}REPOSITORY stands for a checkpoint of it in {word} on Hugging Face (owner/name)"))
        }
    }
}

fn of_spread(answer: &Answer, spread: &Spread) -> Option<String> {
    let line = whole(answer, &answer.engine, &answer.target())?;
    match (&answer.engine, &spread.instead) {
        (Engine::Ollama(_), _) if spread.fits => Some(line),
        (_, Some((_, flags))) => Some(format!("{line} {flags}")),
        (_, None) if spread.fits => Some(format!("{line} {}", spread.flags).trim_end().to_owned()),
        (_, None) => command_on_card(answer),
    }
}

fn command_on_card(answer: &Answer) -> Option<String> {
    let name = answer.target();
    if answer.fits == Some(true) {
        return whole(answer, &answer.engine, &name)
            .or_else(|| Some(answer.engine.flags()).filter(|flags| flags.starts_with("accelerate ")));
    }
    let best = answer.best()?;
    // Another checkpoint has another name.
    let other = best.turns.contains(&TO_FOUR_BITS);
    let name = if other { "AWQ-REPOSITORY".to_owned() } else { name };
    match (&best.engine, &best.flags) {
        (Some(engine), _) => whole(answer, engine, &name).or_else(|| best.flags.clone()),
        (None, Some(flags)) if flags.starts_with('-') => {
            Some(format!("{} {flags}", without(&whole(answer, &answer.engine, &name)?, flags)))
        }
        (None, Some(flags)) => match whole(answer, &answer.engine, &name) {
            Some(line) => Some(format!("{flags} {line}")),
            None => Some(flags.clone()),
        },
        (None, None) => None,
    }
}

/// A command line without the options that `flags` gives anew, and their values.
fn without(line: &str, flags: &str) -> String {
    let anew: Vec<&str> = flags.split(' ').filter(|word| word.starts_with("--")).collect();
    let mut value_follows = false;
    let kept = line.split(' ').filter(|word| {
        let is_option = word.starts_with('-');
        let drop = if is_option { anew.contains(word) } else { value_follows };
        value_follows = is_option && drop;
        !drop
    });
    kept.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_stands_once_in_a_command_line() {
        let line = "vllm serve X --max-model-len 32768 --tensor-parallel-size 2 --enforce-eager";
        assert_eq!(without(line, "--max-model-len 3584 --enforce-eager"), "vllm serve X --tensor-parallel-size 2");
        assert_eq!(without(line, "-sm layer"), line);
    }
}
