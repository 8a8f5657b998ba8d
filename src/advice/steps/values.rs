//! Owns the values that a step proposes for settings: on the promised side of what the person's command line, the log or
//! this machine shows. Where none of them shows the present value there is no number, never a guess.

use crate::advice::case::Case;
use crate::advice::rerun::Changes;
use crate::knowledge::fix::substitute;
use crate::knowledge::settings::{self, Asked, Bounds, Setting, Way};
use crate::knowledge::{Diagnosis, FixCommand, MemoryKind, Moves, Platform, Stage};
use crate::units::Bytes;

/// No single machine has so much: such a size is an overflow, not a need.
const ABSURD: u64 = 1 << 43;
/// From this number on, layers "on the GPU" mean all of them, however many the model has.
const ALL_LAYERS: u64 = 99;
/// Slurm's settings and their options: a job that asked for each CPU or GPU asks so again.
const SLURM_OPTIONS: &[(&str, &str)] =
    &[("slurm_memory_per_cpu", "mem-per-cpu"), ("slurm_memory_per_gpu", "mem-per-gpu"), ("slurm_memory", "mem")];

/// The value that a placeholder asks for, as the setting takes it.
pub(crate) fn asked(name: &str, form: &FixCommand, case: &Case<'_>) -> Option<String> {
    let Asked { way, setting, otherwise } = Asked::of(name)?;
    // What ran out in an evaluation is not the batch that training takes.
    let is_evaluating = case.log.run.stage == Some(Stage::Validation);
    if is_evaluating && matches!(setting.id.as_str(), "batch" | "accumulation") {
        return otherwise.map(str::to_owned);
    }
    if setting.id == "slurm_memory" {
        return slurm_option(case);
    }
    let Some(now) = present(setting, form, case) else { return otherwise.map(str::to_owned) };
    let wanted = match (setting.id.as_str(), way) {
        // As many samples as before make one optimizer step.
        ("accumulation", Way::Raise) => accumulated(now, form, case, None),
        _ => setting.moved(now, way, bounds(setting, now, case)),
    };
    // What is worth a start is worth it from a lower value, too.
    let start = if way == Way::Raise { otherwise.and_then(|text| setting.parse(text)) } else { None };
    Some(setting.write(wanted?.max(start.unwrap_or(0))))
}

fn slurm_option(case: &Case<'_>) -> Option<String> {
    SLURM_OPTIONS.iter().find_map(|(id, option)| {
        let setting = settings::of(id)?;
        let per_unit = if *id == "slurm_memory" { None } else { shown(setting, case) };
        let raised = match per_unit {
            Some(now) => setting.moved(now, Way::Raise, Bounds::default())?,
            None => {
                let now = limit(setting, case)?;
                setting.moved(now, Way::Raise, bounds(setting, now, case))?
            }
        };
        Some(format!("{option}={}", setting.write(raised)))
    })
}

/// What the setting is now, as far as anything shows it.
fn present(setting: &Setting, form: &FixCommand, case: &Case<'_>) -> Option<u64> {
    limit(setting, case).or_else(|| {
        // A command line that is known and leaves the setting out leaves it at the program's own value.
        let (line, default) = (case.command?, form.defaults.get(&setting.id)?);
        let changes = changes_of(form.command.as_deref()?)?;
        if changes.names_program() && changes.is_for(line) { setting.parse(default) } else { None }
    })
}

/// What is shown of the setting, or of the limit that the failure names where that is one of this setting.
fn limit(setting: &Setting, case: &Case<'_>) -> Option<u64> {
    let shown = shown(setting, case);
    if !setting.is_the_limit {
        return shown;
    }
    let named = shown.max(case.log.facts.limit().map(|bytes| bytes.0));
    // A limit that is not named was at least what the process had when it hit it.
    named.or_else(|| used_of_ram(case.log).map(|bytes| bytes.0)).filter(|bytes| *bytes < ABSURD)
}

/// What the process had of system memory when that ran out.
fn used_of_ram(log: &Diagnosis) -> Option<Bytes> {
    if log.memory != Some(MemoryKind::Host) {
        return None;
    }
    log.facts.process_bytes.max(log.facts.victim_rss_bytes)
}

/// What the command line or the log shows of the setting.
fn shown(setting: &Setting, case: &Case<'_>) -> Option<u64> {
    let run = &case.log.run;
    if let Some(value) = typed(&setting.id, case).or_else(|| run.settings.get(setting.id.as_str()).copied()) {
        return Some(value);
    }
    match setting.id.as_str() {
        "batch" => run.batch_size,
        "node_heap" => run.settings.get("node_heap_reached").copied(),
        // DeepSpeed prints what the whole node uses, in GiB.
        "slurm_memory" if run.is_allocated() => {
            Some(Bytes::gib(run.printed_number("cpu_virtual_memory")?.saturating_add(1)).0)
        }
        _ => None,
    }
}

/// The setting's value in the command line.
fn typed(id: &str, case: &Case<'_>) -> Option<u64> {
    settings::read(case.command?).remove(id)
}

/// The batch that the failed run had, where the command line or the run's own report says it.
pub(crate) fn batch(case: &Case<'_>) -> Option<u64> {
    typed("batch", case).or(case.log.run.batch_size)
}

/// Steps to accumulate so that they hold as many samples as before, with the batch that is proposed or a given one.
fn accumulated(now: u64, form: &FixCommand, case: &Case<'_>, given: Option<u64>) -> Option<u64> {
    let setting = settings::of("batch")?;
    let batch = present(setting, form, case)?;
    let smaller = given.or_else(|| setting.moved(batch, Way::Lower, Bounds::default()))?;
    Some(now.saturating_mul(batch).div_ceil(smaller.max(1)))
}

/// The steps to accumulate with this batch, as the setting takes them.
pub(crate) fn accumulation_with(batch: &str, form: &FixCommand, case: &Case<'_>) -> Option<String> {
    let setting = settings::of("accumulation")?;
    let now = present(setting, form, case)?;
    accumulated(now, form, case, Some(batch.parse().ok()?)).map(|steps| setting.write(steps))
}

/// What a raised value must reach and what it must not pass.
fn bounds(setting: &Setting, now: u64, case: &Case<'_>) -> Bounds {
    let facts = &case.log.facts;
    let requested = facts.requested_bytes.map(|bytes| bytes.plus(facts.allocated_bytes.unwrap_or(Bytes::ZERO)));
    // A limit on memory and swap together is no smaller than the memory.
    let needed = if setting.is_the_limit || setting.id == "docker_memory_and_swap" {
        requested.max(used_of_ram(case.log)).map(|bytes| bytes.0)
    } else {
        None
    };
    // A machine that has less than the limit that was hit is not the one it was hit on.
    let most = most_of(setting, case).map(|bytes| bytes.0).filter(|most| *most > now);
    Bounds { needed: needed.filter(|bytes| *bytes < ABSURD), most }
}

/// All there is of the memory that the setting limits; `None` where this machine does not show it.
fn most_of(setting: &Setting, case: &Case<'_>) -> Option<Bytes> {
    if matches!(setting.id.as_str(), "cupy_limit" | "rmm_pool" | "ort_limit") {
        return case.log.facts.total_bytes.or_else(|| gpu_bytes(case));
    }
    // Jobs and pods run on nodes of their own, and WSL does not see what Windows has.
    let is_of_a_node = setting.id.starts_with("slurm") || setting.id.starts_with("kubernetes");
    let is_hidden = setting.id.starts_with("wsl")
        || setting.id == "docker_memory_and_swap"
        || case.log.run.platform() == Some(Platform::Wsl);
    if is_of_a_node || is_hidden || case.place.is_elsewhere() {
        return None;
    }
    case.situation.snapshot?.host.memory_total_bytes.value()
}

/// What the GPU has in all.
pub(crate) fn gpu_bytes(case: &Case<'_>) -> Option<Bytes> {
    let here = case.place.device_unless_elsewhere().and_then(|device| device.memory.total_bytes.value());
    here.or(case.log.facts.total_bytes)
}

/// Whole GiB of the GPU that weights may take beside a cache and room to compute: four fifths.
pub(crate) fn card_gib(case: &Case<'_>) -> Option<String> {
    whole_gib(Bytes(gpu_bytes(case)?.0 / 5 * 4))
}

/// Whole GiB of this machine's available RAM that weights may take: nine tenths.
pub(crate) fn ram_gib(case: &Case<'_>) -> Option<String> {
    whole_gib(Bytes(available_ram(case)?.0 / 10 * 9))
}

pub(crate) fn available_ram(case: &Case<'_>) -> Option<Bytes> {
    if case.place.is_elsewhere() {
        return None;
    }
    case.situation.snapshot?.host.memory_available_bytes.value()
}

fn whole_gib(bytes: Bytes) -> Option<String> {
    let gib = bytes.0 >> 30;
    (gib > 0).then(|| gib.to_string())
}

/// Layers that are on the GPU now; `None` where "all" is all that is known.
fn layers_on_gpu(case: &Case<'_>) -> Option<u64> {
    let run = &case.log.run;
    let (on_gpu, all) = run.layers_offloaded.unzip();
    let set = typed("layers", case).or(on_gpu).or_else(|| run.settings.get("layers").copied())?;
    // The output layer counts as one more.
    match all.or_else(|| run.layers?.checked_add(1)) {
        Some(all) => Some(set.min(all)),
        None => (set < ALL_LAYERS).then_some(set),
    }
}

/// Layers to keep on the GPU: what was calculated, as long as that is fewer than now; else three quarters of them.
pub(crate) fn fewer_layers(calculated: Option<String>, case: &Case<'_>) -> Option<String> {
    let now = layers_on_gpu(case);
    if let Some(text) = calculated
        && text.parse::<u64>().is_ok_and(|count| now.is_none_or(|now| count < now))
    {
        return Some(text);
    }
    settings::of("layers")?.moved(now?, Way::Lower, Bounds::default()).map(|count| count.to_string())
}

/// Half of the context that the log shows.
pub(crate) fn half_context(log: &Diagnosis, slots: u64) -> Option<String> {
    let tokens = [log.facts.context_tokens, log.run.context_tokens].into_iter().flatten().min()?;
    let half = tokens / 2 / slots.max(1);
    (half > 0).then(|| half.to_string())
}

/// A fix's command with a word in the place of each figure, so that its options can be told.
fn changes_of(template: &str) -> Option<Changes> {
    Changes::of(&substitute(template, &|name| Some(direction_of(name).to_owned()))?)
}

fn direction_of(placeholder: &str) -> &'static str {
    match Asked::of(placeholder).map(|asked| asked.way) {
        Some(Way::Raise) => "raise",
        Some(Way::Lower) => "lower",
        None => "other",
    }
}

/// Which way the command moves the option, setting or variable of that name: as its placeholder promises, else
/// as the fix does.
pub(crate) fn moves_of(name: &str, form: &FixCommand, usual: Moves) -> Moves {
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
pub(crate) fn with_what_is_known(template: &str, value_of: &impl Fn(&str) -> Option<String>) -> Option<String> {
    if template.contains('\n') {
        let lines: Vec<String> = template.lines().filter_map(|line| substitute(line, value_of)).collect();
        return lines.iter().any(|line| line.contains([':', '='])).then(|| lines.join("\n"));
    }
    if template.contains('(') {
        return None;
    }
    if template.contains(", ") {
        let items: Vec<String> = template.split(", ").filter_map(|item| substitute(item, value_of)).collect();
        return (!items.is_empty()).then(|| items.join(", "));
    }
    if template.contains('"') {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    for word in template.split(' ') {
        match substitute(word, value_of) {
            Some(word) => words.push(word),
            // The option stands before its value.
            None if word.starts_with('{') => drop(words.pop()),
            None => {}
        }
    }
    // An order of the GPUs without the number of one selects none.
    if words == ["CUDA_DEVICE_ORDER=PCI_BUS_ID"] || words == ["ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"] {
        return None;
    }
    let text = words.join(" ");
    Changes::of(&text).map(|_| text)
}
