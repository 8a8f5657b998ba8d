//! Owns which processes of this machine have to do with the failure: those that the log names, those that use memory now
//! and may be offered for termination, the failed program itself where it goes on, and other users' processes.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::engine;
use super::figures::{are_ranks, is_negligible, live_need, run_had, used_by_others_at_crash, used_by_others_at_start};
use super::input::Situation;
use super::machine::names;
use super::machine::place::{Fate, Named, Place};
use super::naming::name_of;
use super::release;
use crate::gpu::activity::Activity;
use crate::gpu::usage::is_service;
use crate::gpu::{Device, GpuProcess, ProcessKey};
use crate::knowledge::{Diagnosis, Program, Trait};
use crate::units::Bytes;

/// A run that was left behind uses what it had, which its log prints as it fails.
const LEFT_BEHIND_PERCENT: u64 = 10;

/// The processes that the log names, without those that had next to nothing and the run's own ranks.
pub(crate) fn blamed<'p, 'a>(diagnosis: &Diagnosis, place: &'p Place<'a>) -> Vec<&'p Named<'a>> {
    if are_ranks(diagnosis) {
        return Vec::new();
    }
    let total = diagnosis.facts.total_bytes;
    place.named.iter().filter(|named| !is_negligible(named.bytes, total)).collect()
}

/// Memory of the GPU that was not the run's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedByOthers {
    pub bytes: Bytes,
    /// Whether that was when the run began; else when it failed.
    pub is_at_start: bool,
}

impl UsedByOthers {
    pub fn when(self) -> &'static str {
        if self.is_at_start { "when your run began" } else { "when your run failed" }
    }
}

/// What others used, where that is enough to matter: when it failed as the log prints it, else what was not free when
/// the run began, where the run would have fitted with that.
pub(crate) fn used_by_others(diagnosis: &Diagnosis, place: &Place<'_>) -> Option<UsedByOthers> {
    if let Some(bytes) = used_by_others_at_crash(diagnosis) {
        let matters = !is_negligible(bytes, diagnosis.facts.total_bytes);
        return matters.then_some(UsedByOthers { bytes, is_at_start: false });
    }
    let here = place.device_here().and_then(|device| device.memory.total_bytes.value());
    let capacity = here.or_else(|| names::capacity(diagnosis));
    used_by_others_at_start(diagnosis, capacity).map(|bytes| UsedByOthers { bytes, is_at_start: true })
}

/// A process that uses memory which the run needs.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    pub row: &'a GpuProcess,
    pub key: ProcessKey,
}

/// Living processes that use memory which the run needs, those that the log names first, then the largest. `offer`
/// decides which of them a step may be about.
///
/// Each was there before the crash and may be terminated by the viewer, or asked to release memory. None where the log is
/// from elsewhere, where it rules others out, or where the run never fits. Of a log that names processes, only those it
/// names. Of a log that may be from anywhere, only idle ones, and those that can release memory and are not busy.
pub(crate) fn users<'a>(situation: &Situation<'a>, place: &Place<'a>) -> Vec<User<'a>> {
    let Some(viewer) = situation.viewer else { return Vec::new() };
    let diagnosis = situation.diagnosis;
    // Where several GPUs fit, only a process that the log names is offered.
    let devices: Vec<&Device> = place.device.map_or_else(|| place.candidates.clone(), |device| vec![device]);
    let blamed = blamed(diagnosis, place);
    let are_ruled_out = blamed.is_empty() && are_others_ruled_out(diagnosis, place);
    if place.is_elsewhere() || devices.iter().all(|device| never_fits(device, diagnosis)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for row in devices.iter().flat_map(|device| &device.processes) {
        let is_meant = is_among(row, &blamed) || blamed.is_empty() && place.device.is_some();
        let is_ruled_out = are_ruled_out && !is_left_behind(row, diagnosis);
        if !is_meant
            || is_ruled_out
            || is_run_itself(row, situation, place)
            || situation.was_there_before(row) != Some(true)
        {
            continue;
        }
        let Some(key) = release::reach(viewer, row) else { continue };
        if place.is_here() || may_be_offered_anywhere(row, &devices, situation) {
            found.push(User { row, key });
        }
    }
    found.sort_by_key(|user| (!is_among(user.row, &blamed), Reverse(user.row.used_bytes.value())));
    let mut seen = HashSet::new();
    found.retain(|user| seen.insert(user.key));
    found
}

/// Whether it may be the failed run itself: what started it is gone, and it uses about what the run had. The next try finds
/// that memory in use.
fn is_left_behind(row: &GpuProcess, diagnosis: &Diagnosis) -> bool {
    let used = row.used_bytes.value().zip(run_had(diagnosis));
    row.has_lost_its_parent() && used.is_some_and(|(used, had)| used.within_percent(had, LEFT_BEHIND_PERCENT))
}

fn is_among(row: &GpuProcess, blamed: &[&Named<'_>]) -> bool {
    blamed.iter().any(|named| matches!(named.fate, Fate::Alive(alive, _) if alive.pid == row.pid))
}

/// Whether the log shows that no other process mattered: it names some that had next to nothing, or its sums leave none.
fn are_others_ruled_out(diagnosis: &Diagnosis, place: &Place<'_>) -> bool {
    let left = used_by_others_at_crash(diagnosis);
    !place.named.is_empty() || left.is_some_and(|left| is_negligible(left, diagnosis.facts.total_bytes))
}

/// Whether the run needs more than the whole GPU, so that terminating others does not help.
fn never_fits(device: &Device, diagnosis: &Diagnosis) -> bool {
    let total = device.memory.total_bytes.value();
    let is_too_big = live_need(diagnosis).zip(total).is_some_and(|(needed, total)| needed > total);
    is_too_big && engine::requested_beside_share(diagnosis, total).is_none()
}

/// Whether it is the run, still there, and no program that goes on by design.
fn is_run_itself(row: &GpuProcess, situation: &Situation<'_>, place: &Place<'_>) -> bool {
    let Some(own) = place.own.as_ref().filter(|own| own.is_alive()) else { return false };
    own.pid == row.pid && failed_program(situation, place).is_none_or(|program| program.pid != row.pid)
}

/// Of a log that may be from anywhere: an idle process, or one that releases memory when asked and is not busy.
fn may_be_offered_anywhere(row: &GpuProcess, devices: &[&Device], situation: &Situation<'_>) -> bool {
    let device = devices.iter().find(|device| device.processes.iter().any(|other| other.pid == row.pid)).copied();
    let activity = Activity::of(situation.history, device, row);
    activity.is_idle() || release::route(row).is_some() && !activity.is_busy()
}

/// The program that failed, where it is one that goes on after a failure and is here.
pub(crate) fn failed_program<'a>(situation: &Situation<'_>, place: &Place<'a>) -> Option<&'a GpuProcess> {
    let program = situation.diagnosis.program.as_deref()?;
    // What still uses memory under the name of a server that survives a failed request is the failed program.
    if !Program::known(program)?.has(Trait::SurvivesFailure) {
        return None;
    }
    let rows = &place.device_unless_elsewhere()?.processes;
    rows.iter().find(|row| is_called(row, program) && situation.was_there_before(row) != Some(false))
}

fn is_called(row: &GpuProcess, program: &str) -> bool {
    let name = row.recognised_as.as_deref().unwrap_or_default().to_lowercase();
    name.split(' ').next() == Some(program)
}

/// A process of another user: not to be terminated, but to be known.
#[derive(Clone, Copy, Debug)]
pub struct Foreign<'a> {
    pub row: &'a GpuProcess,
    pub bytes: Bytes,
    pub user: &'a str,
}

impl Foreign<'_> {
    /// The process with its user: "grace's python train.py (812)".
    pub fn name(&self) -> String {
        format!("{}'s {}", self.user, name_of(self.row))
    }
}

/// The process of another user that uses most of the GPU now, where the log may be from here.
pub(crate) fn largest_foreign<'a>(situation: &Situation<'_>, place: &Place<'a>) -> Option<Foreign<'a>> {
    let device = place.device_unless_elsewhere()?;
    let total = device.memory.total_bytes.value();
    let mut largest: Option<Foreign<'a>> = None;
    let others = device.processes.iter().filter(|row| !is_service(row));
    for row in others.filter(|row| situation.viewer.is_some_and(|viewer| !viewer.owns(row))) {
        let (Some(bytes), Some(user)) = (row.used_bytes.value(), row.user.known()) else { continue };
        // Of a log that may be from anywhere, only a process that leaves little room for anything is a reason.
        let matters = match place.same_machine {
            Some(_) => !is_negligible(bytes, total),
            None => total.is_some_and(|total| bytes.0 >= total.0 / 2),
        };
        if matters && largest.is_none_or(|other| other.bytes <= bytes) {
            largest = Some(Foreign { row, bytes, user });
        }
    }
    largest
}
