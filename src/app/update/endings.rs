//! Owns the way from "end it" or "ask it to let go" to the proof: who may be asked about, what a yes does, what the
//! outside reported. A signal or a request leaves here only for a process that was named in a question, confirmed, and
//! still is in the newest reading.

use crate::advice::release::Release;
use crate::advice::supervisor::Supervisor;
use crate::app::action::Action;
use crate::app::effect::{Effect, Order};
use crate::app::model::Model;
use crate::app::msg::SignalReport;
use crate::app::question::{Asked, Victim};
use crate::app::walk::{Ending, EndingState, free_of, listed};
use crate::gpu::guard::{Refusal, Signal};
use crate::gpu::{Device, GpuProcess, ProcessKey, ProcessKind, Snapshot};
use crate::units::Bytes;

/// Asks whether to end these, or to force the one that did not close; says why where one may not be. Who ends with one of
/// them is named as well: one yes is for all that are named, and nobody else is ever signalled.
pub(super) fn ask_to_end(model: &mut Model, keys: &[ProcessKey]) {
    if let Some(refusal) = model.refuses_all() {
        return super::say(model, sentence(&refusal));
    }
    let survived =
        |key: &ProcessKey| model.ending_of(*key).is_some_and(|ending| matches!(ending.state, EndingState::Survived(_)));
    let signal = if keys.iter().all(survived) { Signal::Kill } else { Signal::Term };
    let below = |key: &ProcessKey| model.snapshot().map(|snapshot| snapshot.below(*key)).unwrap_or_default();
    let mut victims: Vec<Victim> = Vec::new();
    for key in keys {
        match victim(model, *key) {
            Ok(victim) => victims.push(victim),
            Err(refusal) => return super::say(model, sentence(&refusal)),
        }
    }
    for key in keys {
        for worker in below(key) {
            match victims.iter_mut().find(|victim| victim.key == worker) {
                // What is forced does not end its workers itself, so nobody waits for it.
                Some(named) if signal == Signal::Term => named.follows = Some(*key),
                Some(_) => {}
                None if signal == Signal::Term => match victim(model, worker) {
                    Ok(worker) => victims.push(Victim { follows: Some(*key), ..worker }),
                    // It would end with the one it works for all the same.
                    Err(refusal @ Refusal::Protected(..)) => return super::say(model, sentence(&refusal)),
                    Err(_) => {}
                },
                None if survived(&worker) => victims.extend(victim(model, worker)),
                None => {}
            }
        }
    }
    // Everybody waits for the topmost of those that are asked about.
    let follows: Vec<(ProcessKey, ProcessKey)> =
        victims.iter().filter_map(|victim| Some((victim.key, victim.follows?))).collect();
    let above = |key: ProcessKey| follows.iter().find(|(follower, _)| *follower == key).map(|(_, first)| *first);
    for victim in &mut victims {
        let chain = std::iter::successors(victim.follows, |first| above(*first));
        victim.follows = chain.take(follows.len() + 1).last();
    }
    // Who is signalled first is named first.
    victims.sort_by_key(|victim| victim.follows.is_some());
    // Their PID is typed for each of them.
    if victims.iter().filter(|victim| !victim.yours && victim.follows.is_none()).count() > 1 {
        return super::say(model, "Processes of other users are terminated one at a time: unmark all but one.".into());
    }
    if !victims.is_empty() {
        super::ask(model, Asked::End(victims, signal));
    }
}

/// Who works for one of these and is not named: one that may not be ended, or that came after the question.
pub(super) fn left_out(model: &Model, named: &[Victim]) -> Vec<(u32, String)> {
    let Some(snapshot) = model.snapshot() else { return Vec::new() };
    let mut left: Vec<ProcessKey> = named.iter().flat_map(|victim| snapshot.below(victim.key)).collect();
    left.sort();
    left.dedup();
    left.retain(|key| named.iter().all(|victim| victim.key != *key));
    let why = |key: &ProcessKey| match victim(model, *key) {
        Ok(_) => "not asked about".to_owned(),
        Err(Refusal::OtherUser(_, user)) => format!("{user}'s"),
        Err(Refusal::Protected(..)) => "protected".to_owned(),
        Err(_) => "may not be terminated".to_owned(),
    };
    left.iter().map(|key| (key.pid, why(key))).collect()
}

/// Asks whether its own program is to be asked for the memory.
pub(super) fn ask_to_release(model: &mut Model, key: ProcessKey) {
    match holder(model, key) {
        Ok((victim, release)) => super::ask(model, Asked::Release(Box::new(victim), release)),
        Err(refusal) => super::say(model, sentence(&refusal)),
    }
}

/// The person said yes. The holder and its way are held against the newest reading once more.
pub(super) fn release_confirmed(model: &mut Model, named: Victim, meant: Release) -> Option<Effect> {
    let key = named.key;
    match holder(model, key) {
        Ok((now, _)) if !now.running().is_still(&named.running()) => {
            super::say(model, sentence(&Refusal::Changed(key.pid, now.command)));
            None
        }
        Ok((_, release)) if release == meant => {
            begin(model, named, Signal::Term, EndingState::Asking, Some(release.clone()));
            Some(Effect::Release(key, release))
        }
        Ok(_) => {
            super::say(model, "The server listens on another port now, so nothing was sent. Look again.".into());
            None
        }
        Err(refusal) => {
            super::say(model, sentence(&refusal));
            None
        }
    }
}

/// The process as the question names it, and how it is asked; or why it is not.
fn holder(model: &Model, key: ProcessKey) -> Result<(Victim, Release), Refusal> {
    if let Some(refusal) = model.refuses_all() {
        return Err(refusal);
    }
    let snapshot = model.snapshot().ok_or(Refusal::Gone(key.pid))?;
    let (_, row) = snapshot.find(key).ok_or(Refusal::Gone(key.pid))?;
    let (_, release) = model.seen().ok_or(Refusal::Gone(key.pid))?.release(row)?;
    Ok((described(model, snapshot, row, key), release))
}

/// What its program said.
pub(super) fn released(model: &mut Model, key: ProcessKey, outcome: Result<String, String>) {
    let asking = |ending: &&mut Ending| ending.victim.key == key && ending.state == EndingState::Asking;
    let Some(ending) = model.endings.iter_mut().find(asking) else { return };
    ending.state = match outcome {
        Ok(said) => EndingState::Asked(said),
        Err(why) => EndingState::NotReleased(why),
    };
}

/// A refusal as a sentence of its own.
pub(super) fn sentence(refusal: &Refusal) -> String {
    let text = refusal.to_string();
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}

/// The process as the question names it, or why it is not to be ended.
fn victim(model: &Model, key: ProcessKey) -> Result<Victim, Refusal> {
    let snapshot = model.snapshot().ok_or(Refusal::Gone(key.pid))?;
    let row = snapshot.process(key).ok_or(Refusal::Gone(key.pid))?;
    model.config.viewer.may_end(row)?;
    // What belongs to a protected server is that server.
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

fn described(model: &Model, snapshot: &Snapshot, row: &GpuProcess, key: ProcessKey) -> Victim {
    let lists = |device: &&Device| device.processes.iter().any(|row| row.key() == Some(key));
    let listed = snapshot.devices.iter().filter(lists).map(|device| device.index);
    let open = snapshot.holders.iter().find(|holder| holder.process.key() == Some(key)).map(|holder| &holder.gpus);
    let held = snapshot.held_by(key).or_else(|| row.used_bytes.value().filter(|_| row.kind == ProcessKind::Unlisted));
    Victim {
        key,
        name: crate::advice::name_of(row),
        what: row.recognised_as.clone(),
        command: row.command.known().cloned().unwrap_or_default(),
        image: row.image,
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

/// What speaks for ending it, apart from whether it works: that has a column and a line of its own.
pub(super) fn evidence(model: &Model, row: &GpuProcess, key: ProcessKey) -> Vec<String> {
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

/// The person said yes. Each one is held against the newest reading once more.
pub(super) fn confirmed(model: &mut Model, victims: Vec<Victim>, signal: Signal) -> Vec<Effect> {
    if let Some(refusal) = model.refuses_all() {
        super::say(model, sentence(&refusal));
        return Vec::new();
    }
    let mut effects = Vec::new();
    let mut refused: Vec<Refusal> = Vec::new();
    let mut became: Vec<(ProcessKey, bool)> = Vec::new();
    for mut named in victims {
        let (key, first) = (named.key, named.follows);
        let first = first.and_then(|first| became.iter().find(|(other, _)| *other == first).copied());
        let again = match first {
            Some((first, false)) => Err(Refusal::Follows(key.pid, first.pid)),
            _ => victim(model, key).and_then(|now| the_same(&named, now)),
        };
        match again {
            Ok(()) => {
                // Where the one that it should end with has gone, there is nobody to wait for.
                named.follows = first.map(|(first, _)| first);
                became.push((key, true));
                effects.push(start(model, named, signal));
            }
            Err(refusal) => {
                if !matches!(refusal, Refusal::Gone(_)) {
                    became.push((key, false));
                }
                refused.push(refusal);
            }
        }
    }
    if !refused.is_empty() {
        super::say(model, why_not(&refused));
    }
    model.processes.marked.clear();
    effects
}

/// Whether it runs what the question said.
fn the_same(named: &Victim, now: Victim) -> Result<(), Refusal> {
    let is_it = now.running().is_still(&named.running());
    if is_it { Ok(()) } else { Err(Refusal::Changed(now.key.pid, now.command)) }
}

/// Why some were not signalled; who only was to follow another is told of in one sentence.
fn why_not(refused: &[Refusal]) -> String {
    let (led, own): (Vec<&Refusal>, Vec<&Refusal>) =
        refused.iter().partition(|refusal| matches!(refusal, Refusal::Follows(..)));
    let mut said: Vec<String> = own.into_iter().map(sentence).collect();
    match &led[..] {
        [] => {}
        [one] => said.push(sentence(one)),
        many => said.push(format!("Its {} workers were left alone, too.", many.len())),
    }
    said.join(" ")
}

/// The person runs the program's own command instead: what it gives back is watched all the same.
pub(super) fn free_elsewhere(model: &mut Model, key: ProcessKey, command: String) {
    let found = model.snapshot().and_then(|snapshot| Some((snapshot, snapshot.find(key)?)));
    match found.map(|(snapshot, (_, row))| described(model, snapshot, row, key)) {
        Some(victim) => begin(model, victim, Signal::Term, EndingState::Elsewhere { command }, None),
        None => super::say(model, sentence(&Refusal::Gone(key.pid))),
    }
}

fn start(model: &mut Model, victim: Victim, signal: Signal) -> Effect {
    let (key, ran, follows) = (victim.key, victim.running(), victim.follows);
    begin(model, victim, signal, EndingState::Sending, None);
    Effect::Signal(Order { key, ran, signal, follows, grace: model.config.grace })
}

fn begin(model: &mut Model, victim: Victim, signal: Signal, state: EndingState, release: Option<Release>) {
    model.walk.since.get_or_insert(model.wall);
    let key = victim.key;
    let free_before = model.snapshot().map(|snapshot| free_of(snapshot, &victim.devices)).unwrap_or_default();
    let beside = model.snapshot().map(listed).unwrap_or_default();
    let (given, asked_at) = (Bytes::ZERO, model.now);
    let fresh =
        Ending { victim, signal, release, given, asked_at, free_before, state, beside, ended_at: None, again: None };
    match model.endings.iter_mut().find(|ending| ending.victim.key == key) {
        // A KILL after a TERM: the proof is still held against what was free before the first of them.
        Some(ending) => *ending = Ending { free_before: ending.free_before.clone(), ..fresh },
        None => model.endings.push(fresh),
    }
}

/// What the outside says became of a signal.
pub(super) fn reported(model: &mut Model, key: ProcessKey, report: SignalReport) {
    let (now, end) = (model.now, model.key(Action::End));
    let Some(ending) = model.endings.iter_mut().find(|ending| ending.victim.key == key) else { return };
    if ending.is_over() {
        // After a KILL both waits report the same end.
        return;
    }
    ending.state = match report {
        SignalReport::Sent => EndingState::Waiting,
        SignalReport::Ended(after) => EndingState::Ended { after, since: now },
        // It ended by itself between the question and the signal: that, too, may give its memory back.
        SignalReport::Refused(Refusal::Gone(_)) => {
            EndingState::Ended { after: now.saturating_sub(ending.asked_at), since: now }
        }
        SignalReport::Refused(refusal) => EndingState::Refused(refusal),
        SignalReport::StillThere(state) => EndingState::Survived(state),
    };
    if matches!(ending.state, EndingState::Survived(_)) && ending.signal != Signal::Kill {
        // Only offered: a question that opened by itself could be answered by what was being typed.
        let text = format!("{} ignored SIGTERM. Press {end} for SIGKILL.", ending.victim.name);
        super::say(model, text);
    }
}
