//! Owns the step that finds out who uses the GPU, where log and machine name no living process: with the command of the
//! place where it ran.

use std::sync::LazyLock;

use serde::Deserialize;

use super::form::ran_on;
use super::planned::{PlannedFix, Step};
use crate::advice::case::Case;
use crate::advice::machine::make::maker;
use crate::advice::scheduler::scheduler;
use crate::gpu::Vantage;
use crate::knowledge::{FixId, Platform, Program};
use crate::packed;
use crate::text::name_as_argument;
use crate::units::Bytes;

/// How to find out who uses a GPU in one place: a row of `knowledge/advice/look.ron`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Look {
    place: &'static str,
    action: &'static str,
    command: Option<&'static str>,
    /// The command where the log names processes, as `{pids}`.
    command_with_pids: Option<&'static str>,
    expect: &'static str,
    if_not: &'static str,
}

static PLACES: LazyLock<Vec<Look>> =
    LazyLock::new(|| packed::table(include_str!("../../../knowledge/advice/look.ron")));

/// The step to find out who uses the GPU. `None` where the list of processes here tells it, and while a retry runs. Where the
/// log may mean one of several GPUs here and names no process, the list does not tell.
pub(crate) fn who_uses_it(case: &Case<'_>) -> Option<PlannedFix> {
    let is_one_gpu_meant = case.place.candidates.is_empty();
    let is_listed = is_one_gpu_meant && !is_use_unlisted(case) || !is_one_gpu_meant && !case.blamed.is_empty();
    if case.place.is_here() && is_listed || case.retry.is_some() {
        return None;
    }
    let place = place(case);
    let look = PLACES.iter().find(|look| look.place == place)?;
    let pids: Vec<String> = case.blamed.iter().map(|named| named.pid.to_string()).collect();
    let command = if pids.is_empty() { look.command } else { look.command_with_pids.or(look.command) };
    let command = command.map(|command| {
        let node = case.log.run.printed.get("slurm_job_nodelist").and_then(|nodes| name_as_argument(nodes));
        command.replace("{pids}", &pids.join(",")).replace("{node}", node.as_deref().unwrap_or("NODE"))
    });
    let step = Step::new(look.action.to_owned(), command, why(case), look.expect, look.if_not);
    // The job may have numbered it otherwise.
    let title = match case.log.facts.device {
        Some(device) if is_one_gpu_meant => format!("Find who uses GPU {device}"),
        _ => "Find who uses the GPU".to_owned(),
    };
    Some(PlannedFix { title, steps: vec![step], ..PlannedFix::named(FixId::LOOK_THERE, "nothing") })
}

/// Whether what is short may be in use by processes that cannot be told from here: of another container, or of none that the
/// driver lists.
fn is_use_unlisted(case: &Case<'_>) -> bool {
    let (Some(device), Some(short)) = (case.place.device, case.short_by_ledger()) else { return false };
    let unlisted = device.unaccounted_bytes.value().unwrap_or(Bytes::ZERO);
    let unproved = device.processes.iter().filter(|row| !row.proved).filter_map(|row| row.used_bytes.value());
    unproved.fold(unlisted, Bytes::plus) >= short
}

/// Where the log ran, as a row of the table is called.
fn place(case: &Case<'_>) -> &'static str {
    let (run, machine) = (&case.log.run, case.place.same_machine);
    let seen_from = case.situation.snapshot.map(|here| here.seen_from.as_slice()).unwrap_or_default();
    let is_in_container = run.container.is_some() || machine != Some(false) && seen_from.contains(&Vantage::Container);
    match scheduler(&case.situation, machine) {
        Some(Program::SLURM) => return "slurm",
        Some(Program::KUBERNETES) => return "kubernetes",
        _ if is_in_container => return "container",
        _ => {}
    }
    match (maker(case.log), ran_on(case.log)) {
        (_, Some(Platform::Windows | Platform::Wsl)) => "windows",
        (Some("AMD"), _) => "amd",
        (Some("Intel"), _) => "intel",
        _ => "linux",
    }
}

fn why(case: &Case<'_>) -> String {
    match (case.blamed.iter().max_by_key(|named| named.bytes), case.used_by_others) {
        (Some(named), _) => format!("Process {} had {} of it when the run failed.", named.pid, named.bytes),
        (None, Some(others)) => format!("{} of it was not the run's {}.", others.bytes, others.when()),
        (None, None) => "Other processes used what the run lacked.".to_owned(),
    }
}
