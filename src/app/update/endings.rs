//! Owns the way from "terminate" or "unload" to the proof: what is asked, what a yes does, what the outside reported. A
//! signal or a request leaves here only for a process that was named in a question, confirmed, and still is in the newest
//! reading.

use crate::advice::release::Release;
use crate::app::action::Action;
use crate::app::effect::{Effect, Order};
use crate::app::model::Model;
use crate::app::msg::SignalReport;
use crate::app::question::{Asked, Victim};
use crate::app::victims::{described, in_words, releasable_victim, victim};
use crate::app::walk::{Ending, EndingState, free_of, listed};
use crate::gpu::ProcessKey;
use crate::gpu::guard::{Refusal, Signal, changed};
use crate::units::Bytes;

/// Asks whether to terminate these, or to send SIGKILL to those that ignored SIGTERM; says why where one may not be
/// signalled. The question names their workers as well: one yes is for all that are named, and nobody else is ever signalled.
pub(crate) fn ask_to_end(model: &mut Model, keys: &[ProcessKey]) {
    if let Some(refusal) = model.refuses_all() {
        return model.say(in_words(&refusal));
    }
    let signal = if keys.iter().all(|key| has_survived(model, *key)) { Signal::Kill } else { Signal::Term };
    let mut victims = match with_workers(model, keys, signal) {
        Ok(victims) => victims,
        Err(refusal) => return model.say(in_words(&refusal)),
    };
    follow_the_topmost(&mut victims);
    // The first to be signalled is named first.
    victims.sort_by_key(|victim| victim.follows.is_some());
    // Each process of another user needs its PID typed.
    if victims.iter().filter(|victim| !victim.yours && victim.follows.is_none()).count() > 1 {
        return model.say("Processes of other users are terminated one at a time: unmark all but one.");
    }
    if !victims.is_empty() {
        model.ask(Asked::End(victims, signal));
    }
}

/// Whether the process ignored the signal that it was sent.
fn has_survived(model: &Model, key: ProcessKey) -> bool {
    model.ending_of(key).is_some_and(|ending| matches!(ending.state, EndingState::Survived(_)))
}

/// The processes as the question names them, and their workers; or why one of them may not be signalled.
fn with_workers(model: &Model, keys: &[ProcessKey], signal: Signal) -> Result<Vec<Victim>, Refusal> {
    let mut victims: Vec<Victim> = keys.iter().map(|key| victim(model, *key)).collect::<Result<_, _>>()?;
    for key in keys {
        for worker in model.snapshot().map(|snapshot| snapshot.below(*key)).unwrap_or_default() {
            match victims.iter_mut().find(|victim| victim.key == worker) {
                Some(named) if signal == Signal::Term => named.follows = Some(*key),
                // SIGKILL gives a launcher no chance to end its workers, so none waits for it.
                Some(_) => {}
                None if signal == Signal::Term => match victim(model, worker) {
                    Ok(worker) => victims.push(Victim { follows: Some(*key), ..worker }),
                    // A protected worker would end with its launcher all the same.
                    Err(refusal @ Refusal::Protected(..)) => return Err(refusal),
                    Err(_) => {}
                },
                None if has_survived(model, worker) => victims.extend(victim(model, worker)),
                None => {}
            }
        }
    }
    Ok(victims)
}

/// Each worker waits for the topmost of the processes that it works for.
fn follow_the_topmost(victims: &mut [Victim]) {
    let follows: Vec<(ProcessKey, ProcessKey)> =
        victims.iter().filter_map(|victim| Some((victim.key, victim.follows?))).collect();
    for victim in victims {
        let chain = std::iter::successors(victim.follows, |first| {
            follows.iter().find(|(follower, _)| follower == first).map(|(_, above)| *above)
        });
        victim.follows = chain.take(follows.len() + 1).last();
    }
}

/// Asks whether to ask the process's own program to free its memory.
pub(crate) fn ask_to_release(model: &mut Model, key: ProcessKey) {
    match releasable_victim(model, key) {
        Ok((victim, release)) => model.ask(Asked::Release(Box::new(victim), release)),
        Err(refusal) => model.say(in_words(&refusal)),
    }
}

/// The person said yes. The process and its API are compared with the newest reading once more.
pub(super) fn release_confirmed(model: &mut Model, named: Victim, meant: Release) -> Option<Effect> {
    let key = named.key;
    match releasable_victim(model, key) {
        Ok((now, _)) if let Some(refusal) = changed(key.pid, &named.running(), &now.running()) => {
            model.say(in_words(&refusal));
            None
        }
        Ok((_, release)) if release == meant => {
            begin_ending(model, named, Signal::Term, EndingState::Asking, Some(release.clone()));
            Some(Effect::Release(key, release))
        }
        Ok(_) => {
            model.say("The server listens on another port now, so nothing was sent. Look again.");
            None
        }
        Err(refusal) => {
            model.say(in_words(&refusal));
            None
        }
    }
}

/// What its program said.
pub(super) fn release_answered(model: &mut Model, key: ProcessKey, outcome: Result<String, String>) {
    let mut asking = model.endings.iter_mut().filter(|ending| ending.state == EndingState::Asking);
    let Some(ending) = asking.find(|ending| ending.victim.key == key) else { return };
    ending.state = match outcome {
        Ok(said) => EndingState::Asked(said),
        Err(why) => EndingState::NotReleased(why),
    };
}

/// The person said yes. Each process is compared with the newest reading once more.
pub(super) fn confirmed(model: &mut Model, victims: Vec<Victim>, signal: Signal) -> Vec<Effect> {
    if let Some(refusal) = model.refuses_all() {
        model.say(in_words(&refusal));
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
            _ => victim(model, key).and_then(|now| the_same(&named, &now)),
        };
        match again {
            Ok(()) => {
                // Where the process that it should end with has exited, it waits for nobody.
                named.follows = first.map(|(first, _)| first);
                became.push((key, true));
                effects.push(send_signal(model, named, signal));
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
        model.say(why_not(&refused));
    }
    model.processes.marked.clear();
    effects
}

/// Whether it runs what the question said.
fn the_same(named: &Victim, now: &Victim) -> Result<(), Refusal> {
    changed(now.key.pid, &named.running(), &now.running()).map_or(Ok(()), Err)
}

/// Why some were not signalled; workers that only follow another one share one sentence.
fn why_not(refused: &[Refusal]) -> String {
    let (led, own): (Vec<&Refusal>, Vec<&Refusal>) =
        refused.iter().partition(|refusal| matches!(refusal, Refusal::Follows(..)));
    let mut said: Vec<String> = own.into_iter().map(in_words).collect();
    match &led[..] {
        [] => {}
        [one] => said.push(in_words(one)),
        many => said.push(format!("Its {} workers were left alone, too.", many.len())),
    }
    said.join(" ")
}

/// The person runs the program's own command instead: what it frees is watched all the same.
pub(crate) fn free_elsewhere(model: &mut Model, key: ProcessKey, command: String) {
    let found = model.snapshot().and_then(|snapshot| Some((snapshot, snapshot.find(key)?)));
    match found.map(|(snapshot, (_, row))| described(model, snapshot, row, key)) {
        Some(victim) => begin_ending(model, victim, Signal::Term, EndingState::Elsewhere { command }, None),
        None => model.say(in_words(&Refusal::Gone(key.pid))),
    }
}

fn send_signal(model: &mut Model, victim: Victim, signal: Signal) -> Effect {
    let (key, ran, follows) = (victim.key, victim.running(), victim.follows);
    let cards = model.snapshot().map(|snapshot| snapshot.cards_to_prove(key)).unwrap_or_default();
    begin_ending(model, victim, signal, EndingState::Sending, None);
    Effect::Signal(Order { key, ran, signal, follows, cards, grace: model.config.grace })
}

fn begin_ending(model: &mut Model, victim: Victim, signal: Signal, state: EndingState, release: Option<Release>) {
    model.walk.since.get_or_insert(model.wall);
    let key = victim.key;
    let free_before = model.snapshot().map(|snapshot| free_of(snapshot, &victim.devices)).unwrap_or_default();
    let beside = model.snapshot().map(listed).unwrap_or_default();
    let (given, asked_at) = (Bytes::ZERO, model.now);
    let is_by_hand = matches!(state, EndingState::Elsewhere { .. });
    let fresh = Ending {
        victim,
        signal,
        release,
        is_by_hand,
        given,
        asked_at,
        free_before,
        state,
        beside,
        ended_at: None,
        again: None,
    };
    match model.endings.iter_mut().find(|ending| ending.victim.key == key) {
        // A SIGKILL after a SIGTERM: the proof still compares with what was free before the first of them.
        Some(ending) => *ending = Ending { free_before: ending.free_before.clone(), ..fresh },
        None => model.endings.push(fresh),
    }
}

/// What the outside says became of a signal.
pub(super) fn signal_reported(model: &mut Model, key: ProcessKey, report: SignalReport) {
    let (now, end) = (model.now, model.key(Action::End));
    let Some(ending) = model.endings.iter_mut().find(|ending| ending.victim.key == key) else { return };
    if ending.is_over() {
        // After a SIGKILL both waits report the same exit.
        return;
    }
    ending.state = match report {
        SignalReport::Sent => EndingState::Waiting,
        SignalReport::Ended(after) => EndingState::Ended { after, since: now },
        // It exited by itself between the question and the signal: that may free its memory, too.
        SignalReport::Refused(Refusal::Gone(_)) => {
            EndingState::Ended { after: now.saturating_sub(ending.asked_at), since: now }
        }
        SignalReport::Refused(refusal) => EndingState::Refused(refusal),
        SignalReport::StillThere(state) => EndingState::Survived(state),
    };
    if matches!(ending.state, EndingState::Survived(_)) && ending.signal != Signal::Kill {
        // Only offered: a question that opened by itself could be answered by what was being typed.
        let text = format!("{} ignored SIGTERM. Press {end} for SIGKILL.", ending.victim.name);
        model.say(text);
    }
}
