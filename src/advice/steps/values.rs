//! Owns the values that a step proposes for settings: on the promised side of what the person's command line, the log or
//! this machine shows. Where none of them shows the present value there is no number, never a guess.

use crate::advice::input::Situation;
use crate::advice::machine::place::Place;
use crate::advice::rerun::Changes;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Platform, Stage};
use crate::knowledge::fix::{FixCommand, Moves};
use crate::knowledge::settings::{self, Asked, Bounds, Setting, Way};
use crate::units::Bytes;

/// No single machine has so much: such a size is an overflow, not a need.
const ABSURD: u64 = 1 << 43;
/// From this number on, layers "on the GPU" mean all of them, however many the model has.
const ALL_LAYERS: u64 = 99;

/// The value that a placeholder asks for, as the setting takes it.
pub fn asked(name: &str, form: &FixCommand, situation: &Situation<'_>, place: &Place<'_>) -> Option<String> {
    let Asked { way, setting, otherwise } = Asked::of(name)?;
    // What ran out in an evaluation is not the batch that training takes.
    let is_evaluating = situation.diagnosis.run.stage == Some(Stage::Validation);
    if is_evaluating && matches!(setting.id, "batch" | "accumulation") {
        return otherwise.map(str::to_owned);
    }
    if setting.id == "slurm_memory" {
        return slurm_option(situation, place);
    }
    let Some(now) = present(setting, form, situation) else { return otherwise.map(str::to_owned) };
    let wanted = match (setting.id, way) {
        // As many samples as before make one optimizer step.
        ("accumulation", Way::Raise) => accumulated(now, form, situation),
        _ => setting.moved(now, way, bounds(setting, now, situation, place)),
    };
    // What is worth a start is worth it from a lower value, too.
    let start = otherwise.filter(|_| way == Way::Raise).and_then(|text| setting.parse(text));
    let wanted = wanted.map(|value| value.max(start.unwrap_or(0)));
    wanted.map(|value| setting.write(value))
}

/// Slurm's option with its value: a job that asked for each CPU or GPU asks so again.
fn slurm_option(situation: &Situation<'_>, place: &Place<'_>) -> Option<String> {
    let options =
        [("slurm_memory_per_cpu", "mem-per-cpu"), ("slurm_memory_per_gpu", "mem-per-gpu"), ("slurm_memory", "mem")];
    options.into_iter().find_map(|(id, option)| {
        let setting = settings::of(id)?;
        let is_shown = id != "slurm_memory" && shown(setting, situation).is_some();
        let now = if is_shown { shown(setting, situation) } else { limit(setting, situation) };
        let bounds = if is_shown { Bounds::default() } else { bounds(setting, now?, situation, place) };
        let raised = setting.moved(now?, Way::Raise, bounds)?;
        Some(format!("{option}={}", setting.write(raised)))
    })
}

/// What the setting is now, as far as anything shows it.
fn present(setting: &Setting, form: &FixCommand, situation: &Situation<'_>) -> Option<u64> {
    limit(setting, situation).or_else(|| {
        // A command line that is known and leaves the setting out leaves it at the program's own value.
        let line = situation.command_line()?;
        let default = form.defaults.get(setting.id)?;
        let template = form.command.as_deref()?;
        changes_of(template).filter(|changes| changes.names_program() && changes.is_for(line))?;
        setting.parse(default)
    })
}

/// What is shown of the setting, or of the limit that the failure names where that is one of this setting.
fn limit(setting: &Setting, situation: &Situation<'_>) -> Option<u64> {
    let shown = shown(setting, situation);
    if !setting.is_the_limit {
        return shown;
    }
    let facts = &situation.diagnosis.facts;
    let named = shown.max(facts.limit_bytes.map(|bytes| bytes.0));
    // A limit that is not named was at least what the process had when it hit it.
    let of_ram = situation.diagnosis.memory == Some(MemoryKind::Host);
    let held = || facts.process_bytes.max(facts.victim_rss_bytes).filter(|_| of_ram).map(|bytes| bytes.0);
    named.or_else(held).filter(|bytes| *bytes < ABSURD)
}

/// What the command line or the log shows of the setting.
fn shown(setting: &Setting, situation: &Situation<'_>) -> Option<u64> {
    let run = &situation.diagnosis.run;
    let typed = situation.command_line().and_then(|line| settings::read(line).remove(setting.id));
    let printed = || run.settings.get(setting.id).copied();
    let otherwise = || match setting.id {
        "batch" => run.batch_size,
        "node_heap" => run.settings.get("node_heap_reached").copied(),
        "slurm_memory" => {
            // DeepSpeed prints what the whole node uses, in GiB.
            let used = run.printed_number("cpu_virtual_memory").filter(|_| run.is_allocated());
            used.map(|gib| Bytes::gib(gib.saturating_add(1)).0)
        }
        _ => None,
    };
    typed.or_else(printed).or_else(otherwise)
}

/// The batch that the failed run had, where the command line or the run's own report says it.
pub fn batch(situation: &Situation<'_>) -> Option<u64> {
    let typed = situation.command_line().and_then(|line| settings::read(line).remove("batch"));
    typed.or(situation.diagnosis.run.batch_size)
}

/// Steps to accumulate so that they hold as many samples as before.
fn accumulated(now: u64, form: &FixCommand, situation: &Situation<'_>) -> Option<u64> {
    let setting = settings::of("batch")?;
    let batch = present(setting, form, situation)?;
    let smaller = setting.moved(batch, Way::Lower, Bounds::default())?;
    Some(now.saturating_mul(batch).div_ceil(smaller.max(1)))
}

/// What a raised value must reach and what it must not pass.
fn bounds(setting: &Setting, now: u64, situation: &Situation<'_>, place: &Place<'_>) -> Bounds {
    let facts = &situation.diagnosis.facts;
    let of_ram = situation.diagnosis.memory == Some(MemoryKind::Host);
    let asked = facts.requested_bytes.map(|asked| asked.plus(facts.allocated_bytes.unwrap_or(Bytes::ZERO)));
    let held = if of_ram { facts.process_bytes.max(facts.victim_rss_bytes) } else { None };
    // What holds memory and swap together is no smaller than the memory.
    let needed = if setting.is_the_limit || setting.id == "docker_memory_and_swap" {
        asked.max(held).map(|bytes| bytes.0)
    } else {
        None
    };
    let is_of_gpu = matches!(setting.id, "cupy_limit" | "rmm_pool" | "ort_limit");
    // Jobs and pods run on nodes of their own, and WSL does not see what Windows has.
    let elsewhere = setting.id.starts_with("slurm") || setting.id.starts_with("kubernetes");
    let hidden = setting.id.starts_with("wsl")
        || setting.id == "docker_memory_and_swap"
        || situation.diagnosis.run.platform() == Some(Platform::Wsl);
    let most = match is_of_gpu {
        true => facts.total_bytes.or_else(|| card_bytes(situation, place)),
        false if elsewhere || hidden || place.same_machine == Some(false) => None,
        false => situation.snapshot.and_then(|here| here.host.memory_total_bytes.value()),
    };
    // A machine that has less than the limit that was hit is not the one it was hit on.
    let most = most.map(|bytes| bytes.0).filter(|most| *most > now);
    Bounds { needed: needed.filter(|bytes| *bytes < ABSURD), most }
}

/// What the GPU has in all.
fn card_bytes(situation: &Situation<'_>, place: &Place<'_>) -> Option<Bytes> {
    let here = place.device.filter(|_| place.same_machine != Some(false));
    here.and_then(|device| device.memory.total_bytes.value()).or(situation.diagnosis.facts.total_bytes)
}

/// Whole GiB of the GPU that weights may take beside a cache and room to compute: four fifths.
pub fn card_gib(situation: &Situation<'_>, place: &Place<'_>) -> Option<String> {
    whole_gib(Bytes(card_bytes(situation, place)?.0 / 5 * 4))
}

/// Whole GiB of this machine's available RAM that weights may take: nine tenths.
pub fn ram_gib(situation: &Situation<'_>, place: &Place<'_>) -> Option<String> {
    let here = situation.snapshot.filter(|_| place.same_machine != Some(false))?;
    whole_gib(Bytes(here.host.memory_available_bytes.value()?.0 / 10 * 9))
}

fn whole_gib(bytes: Bytes) -> Option<String> {
    Some(bytes.0 >> 30).filter(|gib| *gib > 0).map(|gib| gib.to_string())
}

/// Layers that are on the GPU now; `None` where "all" is all that is known.
fn layers_on_card(situation: &Situation<'_>) -> Option<u64> {
    let run = &situation.diagnosis.run;
    // The output layer counts as one more.
    let all = run.layers_offloaded.map(|(_, all)| all).or_else(|| run.layers?.checked_add(1));
    let typed = situation.command_line().and_then(|line| settings::read(line).remove("layers"));
    let set = typed.or_else(|| run.layers_offloaded.map(|(on, _)| on)).or_else(|| run.settings.get("layers").copied());
    match all {
        Some(all) => set.map(|set| set.min(all)),
        None => set.filter(|set| *set < ALL_LAYERS),
    }
}

/// Layers to keep on the GPU: what was reckoned, as long as that is fewer than now; else three quarters of them.
pub fn fewer_layers(reckoned: Option<String>, situation: &Situation<'_>) -> Option<String> {
    let now = layers_on_card(situation);
    let is_fewer = |text: &String| text.parse::<u64>().is_ok_and(|count| now.is_none_or(|now| count < now));
    let moved = || settings::of("layers")?.moved(now?, Way::Lower, Bounds::default());
    reckoned.filter(is_fewer).or_else(|| moved().map(|count| count.to_string()))
}

/// Half of the context that the log shows.
pub fn half_context(diagnosis: &Diagnosis, slots: u64) -> Option<String> {
    let both = [diagnosis.facts.context_tokens, diagnosis.run.context_tokens];
    let tokens = both.into_iter().flatten().min()?;
    Some(tokens / 2 / slots.max(1)).filter(|tokens| *tokens > 0).map(|tokens| tokens.to_string())
}

/// A fix's command with a word in the place of each figure, so that its options can be told.
fn changes_of(template: &str) -> Option<Changes> {
    let word = |name: &str| match Asked::of(name).map(|asked| asked.way) {
        Some(Way::Raise) => Some("raise".to_owned()),
        Some(Way::Lower) => Some("lower".to_owned()),
        None => Some("other".to_owned()),
    };
    Changes::of(&super::template::substitute(template, &word)?)
}

/// Which way the command moves the option, setting or variable of that name: as its placeholder promises, else
/// as the fix does.
pub fn moves_of(name: &str, form: &FixCommand, usual: Moves) -> Moves {
    let usual = form.moves.unwrap_or(usual);
    let value = form.command.as_deref().and_then(changes_of).and_then(|changes| changes.value_of(name));
    match value.as_deref() {
        Some("raise") => Moves::Up,
        Some("lower") => Moves::Down,
        _ => usual,
    }
}

/// The command with what is known filled in and the settings of unknown value left out; `None` where nothing of it is
/// left that changes anything, or where it is code.
pub fn with_what_is_known(template: &str, fill: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let of = |part: &str| super::template::substitute(part, fill);
    if template.contains('\n') {
        let lines: Vec<String> = template.lines().filter_map(of).collect();
        return lines.iter().any(|line| line.contains([':', '='])).then(|| lines.join("\n"));
    }
    if template.contains('(') {
        return None;
    }
    if template.contains(", ") {
        let items: Vec<String> = template.split(", ").filter_map(of).collect();
        return (!items.is_empty()).then(|| items.join(", "));
    }
    if template.contains('"') {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    for word in template.split(' ') {
        match of(word) {
            Some(word) => words.push(word),
            // The option stands before its value.
            None if word.starts_with('{') => drop(words.pop()),
            None => {}
        }
    }
    let text = words.join(" ");
    Changes::of(&text).map(|_| text)
}
