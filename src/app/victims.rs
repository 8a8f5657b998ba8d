//! Owns what a question says of the processes it names: who may be named, what speaks for terminating them, and why one
//! may not be.

use super::model::{Model, Source};
use super::question::Victim;
use crate::advice::release::Release;
use crate::advice::supervisor::Supervisor;
use crate::gpu::guard::Refusal;
use crate::gpu::{GpuProcess, ProcessKey, ProcessKind, Snapshot};

impl Model {
    /// Why nothing at all may be signalled; `None` where it may (in the demo: simulated).
    pub fn refuses_all(&self) -> Option<Refusal> {
        let boot_of_readings = self.feed.header.as_ref().and_then(|header| header.boot_id.as_ref());
        let is_this_boot = boot_of_readings.is_some() && boot_of_readings == self.config.boot_id.as_ref();
        match self.config.source {
            _ if self.hosts.away.is_some() => Some(Refusal::NotHere),
            _ if self.config.read_only => Some(Refusal::ReadOnly),
            _ if self.config.viewer.is_held_by_pod => self.config.viewer.refuses_everything(),
            Source::Demo => None,
            Source::Live if is_this_boot => None,
            Source::Live | Source::Recorded => Some(Refusal::NotHere),
        }
    }
}

/// Workers of these that are not named: they may not be terminated, or started after the question.
pub(crate) fn left_out(model: &Model, named: &[Victim]) -> Vec<(u32, String)> {
    let Some(snapshot) = model.snapshot() else { return Vec::new() };
    let mut left: Vec<ProcessKey> = named.iter().flat_map(|victim| snapshot.below(victim.key)).collect();
    left.sort();
    left.dedup();
    left.retain(|key| named.iter().all(|victim| victim.key != *key));
    left.into_iter().map(|key| (key.pid, why_left_out(model, key))).collect()
}

fn why_left_out(model: &Model, key: ProcessKey) -> String {
    match victim(model, key) {
        Ok(_) => "not asked about".to_owned(),
        Err(Refusal::OtherUser(_, user)) => format!("{user}'s"),
        Err(Refusal::Protected(..)) => "protected".to_owned(),
        Err(_) => "may not be terminated".to_owned(),
    }
}

/// The process as the question names it, and how its program is asked to free memory; or why it is not.
pub(crate) fn releasable_victim(model: &Model, key: ProcessKey) -> Result<(Victim, Release), Refusal> {
    if let Some(refusal) = model.refuses_all() {
        return Err(refusal);
    }
    let snapshot = model.snapshot().ok_or(Refusal::Gone(key.pid))?;
    let (_, row) = snapshot.find(key).ok_or(Refusal::Gone(key.pid))?;
    let (_, release) = model.seen().ok_or(Refusal::Gone(key.pid))?.release(row)?;
    Ok((described(model, snapshot, row, key), release))
}

/// A refusal as a sentence of its own.
pub(crate) fn in_words(refusal: &Refusal) -> String {
    let text = refusal.to_string();
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}

/// The process as the question names it, or why it may not be terminated.
pub(crate) fn victim(model: &Model, key: ProcessKey) -> Result<Victim, Refusal> {
    let snapshot = model.snapshot().ok_or(Refusal::Gone(key.pid))?;
    let row = snapshot.process(key).ok_or(Refusal::Gone(key.pid))?;
    model.config.viewer.may_end(row)?;
    // A worker of a protected server is protected, too.
    let above = snapshot.leader_of(row).and_then(|leader| leader.command.known());
    if let Some(why) = above
        .into_iter()
        .chain(&row.server_command)
        .find_map(|line| crate::gpu::guard::spares(&model.config.viewer.spared, line))
    {
        return Err(Refusal::Protected(key.pid, format!("{why}, or what it belongs to")));
    }
    Ok(described(model, snapshot, row, key))
}

/// The process as a question names it.
pub(crate) fn described(model: &Model, snapshot: &Snapshot, row: &GpuProcess, key: ProcessKey) -> Victim {
    let listed = snapshot.held_on(key).into_iter().map(|(device, _)| device.index);
    let open = snapshot.holders.iter().find(|holder| holder.process.key() == Some(key)).map(|holder| &holder.gpus);
    // The driver gives no figure for a process that it does not list; what is known of one is in its row.
    let of_unlisted = if row.kind == ProcessKind::Unlisted { row.used_bytes.value() } else { None };
    let held = snapshot.held_by(key).or(of_unlisted);
    Victim {
        key,
        name: crate::advice::name_of(row),
        what: row.recognised_as.clone(),
        command: row.command.known().cloned().unwrap_or_default(),
        image: row.image,
        uid: row.uid.value(),
        user: row.user.known().cloned().unwrap_or_default(),
        yours: model.config.viewer.owns(row),
        started_at: row.started_at.value(),
        held,
        devices: listed.chain(open.into_iter().flatten().copied()).collect(),
        evidence: evidence(model, row, key),
        supervisor: Supervisor::of(row),
        follows: None,
    }
}

/// What speaks for terminating it, apart from whether it works: that has a column and a line of its own.
pub(crate) fn evidence(model: &Model, row: &GpuProcess, key: ProcessKey) -> Vec<String> {
    let mut said = Vec::new();
    let diagnosis = model.input.diagnosis.as_ref();
    let placed = model.advice.as_ref().is_some_and(|advice| advice.verdict.same_machine == Some(true));
    if placed && diagnosis.is_some_and(|diagnosis| diagnosis.names(key.pid)) {
        said.push("named in your log".to_owned());
    }
    if row.has_lost_its_parent() {
        said.push("its parent is gone".to_owned());
    }
    said.extend(match row.state.value() {
        Some('T') => Some("stopped (Ctrl-Z)".to_owned()),
        Some('Z') => Some("exited, not collected by its parent (zombie)".to_owned()),
        _ => None,
    });
    if let Some(leader) = model.snapshot().and_then(|snapshot| snapshot.leader_of(row)) {
        said.push(format!("works for {}", crate::advice::name_of(leader)));
    }
    said
}

/// What speaks for terminating this row's process, for the list.
pub(crate) fn evidence_of(model: &Model, row: &GpuProcess) -> Vec<String> {
    row.key().map(|key| evidence(model, row, key)).unwrap_or_default()
}
