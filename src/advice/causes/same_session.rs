//! Owns the same session: the failed process itself still has what ran earlier in it, as a notebook's kernel or an image
//! program that keeps its models loaded.

use super::evidence::line_of;
use super::rule::{About, Blames, Rule, SpeaksOfSize};
use crate::advice::case::Case;
use crate::advice::figures::{is_share_of, run_had};
use crate::advice::naming::{amount, name_of};
use crate::advice::phrases::plain;
use crate::advice::verdict::{CauseKind, Strength};
use crate::gpu::GpuProcess;
use crate::knowledge::diagnosis::{MemoryKind, Phase};
use crate::units::Bytes;

pub(crate) const ABOUT: About = About {
    id: CauseKind::SameSession,
    name: "same session",
    blames: Blames::NobodyElse,
    speaks_of_size: SpeaksOfSize::Never,
    is_solved_by_another_gpu: false,
    say,
    prevent,
};

pub(crate) const KERNEL_STILL_RUNS: Rule = Rule {
    about: &ABOUT,
    name: "the notebook's kernel still runs with what the run had",
    strength: Strength::Proven,
    find: |case| if keeps_models(case).is_none() { kernel_evidence(case) } else { None },
};

pub(crate) const HAD_MUCH_WHILE_LOADING: Rule = Rule {
    about: &ABOUT,
    name: "the notebook's process had much when it began to load",
    strength: Strength::Strong,
    find: |case| if is_loading(case) && !is_first_cell(case) { had_much(case) } else { None },
};

pub(crate) const PROGRAM_KEEPS_MODELS: Rule = Rule {
    about: &ABOUT,
    name: "the failed program goes on and keeps its models",
    strength: Strength::Likely,
    find: models_evidence,
};

pub(crate) const HAD_MUCH: Rule = Rule {
    about: &ABOUT,
    name: "the notebook's process had much when it failed",
    strength: Strength::Likely,
    find: |case| if is_loading(case) || is_first_cell(case) { None } else { had_much(case) },
};

pub(crate) const FIRST_CELL: Rule = Rule {
    about: &ABOUT,
    name: "the notebook's first cell had much",
    strength: Strength::Hint,
    find: |case| if is_first_cell(case) { had_much(case) } else { None },
};

/// Below this share of the GPU, what a notebook's process had is its CUDA context and small tensors.
const MUCH_PERCENT: u64 = 20;
/// The same where the GPU's size is not known.
const MUCH: Bytes = Bytes::gib(1);
/// What a program keeps at least where it keeps a model.
const SMALLEST_MODEL: Bytes = Bytes::gib(2);
/// A kernel that uses this much more or less than the failed process had is another one.
const ALIKE_PERCENT: u64 = 5;

fn models_evidence(case: &Case<'_>) -> Option<Vec<String>> {
    let (row, bytes) = keeps_models(case)?;
    Some(vec![format!("{} is the program that failed; what it still holds are its models ({bytes})", name_of(row))])
}

/// The failed program, where it goes on and keeps models loaded, with what it uses.
fn keeps_models<'a>(case: &Case<'a>) -> Option<(&'a GpuProcess, Bytes)> {
    let row = case.failed_program?;
    Some((row, row.used_bytes.value().filter(|bytes| *bytes >= SMALLEST_MODEL)?))
}

fn kernel_evidence(case: &Case<'_>) -> Option<Vec<String>> {
    notebook_had(case)?;
    let kernel = kernel(case)?;
    let (name, used) = (name_of(kernel), amount(kernel.used_bytes.value()));
    Some(vec![format!("{name} still holds {used}, as much as the failed run had{}", line_of(case.log))])
}

/// While a notebook loads a model, nothing of this run can be there yet but a part of the model: much more is from before.
fn had_much(case: &Case<'_>) -> Option<Vec<String>> {
    if keeps_models(case).is_some() || kernel(case).is_some() {
        return None;
    }
    let had = notebook_had(case)?;
    let when = if is_loading(case) { "when it began to load" } else { "when it failed" };
    Some(vec![format!(
        "the notebook's own process held {had} {when}{}, and a kernel keeps what its earlier cells and their errors made",
        line_of(case.log)
    )])
}

/// What a notebook's process had, where that is more than its context.
fn notebook_had(case: &Case<'_>) -> Option<Bytes> {
    case.log.run.notebook.as_ref()?;
    let facts = &case.log.facts;
    let had = run_had(case.log).or(facts.allocated_bytes)?;
    let is_much = facts.total_bytes.map_or(had >= MUCH, |total| is_share_of(had, MUCH_PERCENT, total));
    (case.log.memory == Some(MemoryKind::Gpu) && is_much).then_some(had)
}

fn is_loading(case: &Case<'_>) -> bool {
    case.log.phase == Phase::Load
}

/// Nothing ran before the first cell of a fresh kernel.
fn is_first_cell(case: &Case<'_>) -> bool {
    let cell = case.log.run.notebook.as_deref().unwrap_or_default();
    cell.trim_start_matches("Cell In").trim_matches([' ', '[', ']']) == "1"
}

/// The notebook's kernel that failed: it still runs and uses what the failed process had.
fn kernel<'a>(case: &Case<'a>) -> Option<&'a GpuProcess> {
    let had = case.log.facts.process_bytes?;
    case.place.device_here()?.processes.iter().find(|row| {
        let is_kernel = row.command.known().is_some_and(|command| command.contains("ipykernel"));
        let is_alike = row.used_bytes.value().is_some_and(|used| used.within_percent(had, ALIKE_PERCENT));
        is_kernel && is_alike && row.proved && case.situation.was_there_before(row) == Some(true)
    })
}

fn say(case: &Case<'_>) -> String {
    let plain = plain(case);
    if let Some((row, bytes)) = keeps_models(case) {
        return format!("{plain} {} itself still holds {bytes}: its models.", name_of(row));
    }
    match kernel(case) {
        Some(kernel) if is_loading(case) => {
            format!("{plain} {} still holds what ran earlier in it.", name_of(kernel))
        }
        Some(kernel) => format!("{plain} {} still holds what the failed run had.", name_of(kernel)),
        None => format!("{plain} The notebook's own kernel still holds what ran earlier."),
    }
}

fn prevent(_is_training: bool) -> &'static str {
    "Restart the kernel between runs: deleting variables does not let go of all they held."
}
