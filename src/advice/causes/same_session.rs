//! Owns the same session: the failed process itself still has what ran earlier in it, as a notebook's kernel or an image
//! program that keeps its models loaded.

use super::rule::Evidence;
use crate::advice::case::Case;
use crate::advice::figures::{is_share_of, run_had};
use crate::advice::naming::{amount, name_of};
use crate::advice::phrases::{line_of, plain_and};
use crate::gpu::GpuProcess;
use crate::knowledge::diagnosis::Phase;
use crate::units::Bytes;

/// Below this share of the GPU, what a notebook's process had is its CUDA context and small tensors.
const MUCH_PERCENT: u64 = 20;
/// The same where the GPU's size is not known.
const MUCH: Bytes = Bytes::gib(1);
/// What a program keeps at least where it keeps a model.
const SMALLEST_MODEL: Bytes = Bytes::gib(2);
/// A kernel that uses this much more or less than the failed process had is another one.
const ALIKE_PERCENT: u64 = 5;

pub(super) fn program_keeps_models(case: &Case<'_>) -> Evidence {
    let (row, bytes) = keeps_models(case)?;
    Some(vec![format!("{} is the program that failed; its models are still loaded ({bytes})", name_of(row))])
}

/// The failed program, where it goes on and keeps models loaded, with what it uses.
fn keeps_models<'a>(case: &Case<'a>) -> Option<(&'a GpuProcess, Bytes)> {
    let row = case.failed_program?;
    Some((row, row.used_bytes.value().filter(|bytes| *bytes >= SMALLEST_MODEL)?))
}

pub(super) fn kernel_still_runs(case: &Case<'_>) -> Evidence {
    notebook_had(case)?;
    let kernel = if keeps_models(case).is_none() { kernel(case)? } else { return None };
    let (name, used) = (name_of(kernel), amount(kernel.used_bytes.value()));
    Some(vec![format!("{name} still uses {used}, as much as the failed run had{}", line_of(case.log))])
}

pub(super) fn had_much_while_loading(case: &Case<'_>) -> Evidence {
    if is_loading(case) && !is_first_cell(case) { had_much(case) } else { None }
}

pub(super) fn had_much_at_work(case: &Case<'_>) -> Evidence {
    if is_loading(case) || is_first_cell(case) { None } else { had_much(case) }
}

pub(super) fn first_cell_had_much(case: &Case<'_>) -> Evidence {
    if is_first_cell(case) { had_much(case) } else { None }
}

/// While a notebook loads a model, nothing of this run can be there yet but a part of the model: much more is from before.
fn had_much(case: &Case<'_>) -> Evidence {
    if keeps_models(case).is_some() || kernel(case).is_some() {
        return None;
    }
    let had = notebook_had(case)?;
    let when = if is_loading(case) { "when it began to load" } else { "when it failed" };
    Some(vec![format!(
        "the notebook's own process used {had} {when}{}, and a kernel keeps what its earlier cells and their errors made",
        line_of(case.log)
    )])
}

/// What a notebook's process had, where that is more than its context.
fn notebook_had(case: &Case<'_>) -> Option<Bytes> {
    case.log.run.notebook.as_ref()?;
    let facts = &case.log.facts;
    let had = run_had(case.log).or(facts.allocated_bytes)?;
    let is_much = facts.total_bytes.map_or(had >= MUCH, |total| is_share_of(had, MUCH_PERCENT, total));
    (case.is_short_of_vram() && is_much).then_some(had)
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

pub(super) fn say(case: &Case<'_>) -> String {
    let more = match (keeps_models(case), kernel(case)) {
        (Some((row, bytes)), _) => format!("{} itself still uses {bytes}: its models.", name_of(row)),
        (None, Some(kernel)) if is_loading(case) => format!("{} still has what ran earlier in it.", name_of(kernel)),
        (None, Some(kernel)) => format!("{} still has what the failed run had.", name_of(kernel)),
        (None, None) => "The notebook's own kernel still has what ran earlier.".to_owned(),
    };
    plain_and(case, Some(more))
}
