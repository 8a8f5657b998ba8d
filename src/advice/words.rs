//! Owns the advice in sentences: the same words for the screen and for the plain report.

use super::brief::BEYOND_ANY_MEMORY;
use super::ledger::Ledger;
use super::naming::{apart, sentence};
use super::steps::planned::{PlannedFix, Step};
use super::told::Advice;
use super::verdict::{CauseKind, Strength};
use crate::knowledge::FixId;
use crate::memory::Is;
use crate::units::Bytes;

/// More evidence than that is not read under stress; the JSON has all of it.
const MOST_EVIDENCE: usize = 2;

/// The verdict in lines: the sentence, what the run needed, the evidence for the leading cause, other causes.
pub fn verdict(advice: &Advice) -> Vec<String> {
    let mut lines = vec![advice.verdict.sentence.clone()];
    lines.extend(needs(advice));
    lines.extend(evidence(advice));
    lines.extend(advice.verdict.notes.iter().cloned());
    lines
}

/// What the run needed at least, against what there is.
pub fn needs(advice: &Advice) -> Option<String> {
    let ledger = advice.ledger.as_ref()?;
    let (needed, requested, free) = (ledger.needed_bytes?, ledger.asked_bytes?, ledger.available_bytes?);
    if needed >= BEYOND_ANY_MEMORY {
        return None;
    }
    if !ledger.is_now {
        return Some(needs_by_log(ledger, requested, free));
    }
    let whole_need = advice.fit.as_ref().zip(ledger.missing_bytes).and_then(|(fit, short)| fit.beyond_the_log(short));
    let in_mib = whole_need.is_none() && ledger.shows_mib();
    let parts = match ledger.had_bytes {
        Some(had) => format!(" ({} allocated + {} requested)", part(had, in_mib), part(requested, in_mib)),
        None => String::new(),
    };
    let needed = match ledger.had_bytes {
        Some(had) => requested.as_shown(in_mib).plus(had.as_shown(in_mib)),
        None => needed,
    };
    let (needed, free) = (whole(needed, in_mib), whole(free, in_mib));
    let retry = ledger.taken_bytes.map_or_else(String::new, |taken| format!("The next try uses {taken}. "));
    if let Some((total, short)) = whole_need {
        return Some(format!(
            "Requested {needed}{parts} when it died; needs ≈ {total} in all. {retry}Free: {free}. Short: ≈ {short}."
        ));
    }
    let bound = if ledger.needed_is_at_least { "≥ " } else { "" };
    let needs = format!("Needs {bound}{needed}{parts}");
    let free = if ledger.device.is_none() { format!("{free} of this machine's RAM") } else { free };
    Some(match ledger.shown_short() {
        Some(Bytes::ZERO) => format!("{needs}. {retry}Free: {free}."),
        Some(short) => format!("{needs}. {retry}Free: {free}. Short: {}.", ledger.bound(short)),
        None => format!("{needs}."),
    })
}

/// A size with its unit.
fn whole(bytes: Bytes, in_mib: bool) -> String {
    if in_mib { format!("{} MiB", bytes.as_shown(true).0 >> 20) } else { bytes.to_string() }
}

/// A part of a sum in GiB goes without its unit.
fn part(bytes: Bytes, in_mib: bool) -> String {
    if in_mib { whole(bytes, true) } else { bytes.in_gib() }
}

fn needs_by_log(ledger: &Ledger, requested: Bytes, free: Bytes) -> String {
    let short = ledger.shown_short().filter(|short| *short > Bytes::ZERO);
    let found = short.map_or(String::new(), |short| format!(" Short: {}.", ledger.bound(short)));
    let (requested, free) = apart(requested, free);
    match ledger.had_bytes {
        _ if ledger.is_cache => format!("The cache needed {requested}. Reserved for it: {free}.{found}"),
        Some(had) => format!("The run had {had} and requested {requested} more. Free then: {free}.{found}"),
        None => format!("Requested: {requested}. Free then: {free}.{found}"),
    }
}

/// The evidence for the leading cause, and the next cause.
fn evidence(advice: &Advice) -> Vec<String> {
    let Some(first) = advice.verdict.causes.first() else { return Vec::new() };
    let known = first.evidence.first();
    if first.cause == CauseKind::Unknown {
        return vec![match known {
            Some(known) if first.strength < Strength::Proven => format!("Known: {known}."),
            // The program's own mistake is no lack of figures.
            Some(known) => format!("Evidence: {known}."),
            None => "Cause unclear: the log prints too few figures. Paste more of it if there is more.".into(),
        }];
    }
    let mut lines = Vec::new();
    if known.is_some() {
        let lead = if first.strength == Strength::Proven { "Evidence:" } else { "Likely:" };
        let evidence: Vec<&str> = first.evidence.iter().take(MOST_EVIDENCE).map(String::as_str).collect();
        lines.push(format!("{lead} {}.", evidence.join("; ")));
    }
    let next = advice.verdict.causes.get(1).and_then(|cause| cause.evidence.first());
    lines.extend(next.map(|also| format!("Also possible: {also}.")));
    lines
}

/// The sums as one line of text: `24.0 GiB = driver 0.4 + notebook (4242) 11.2 + … + free 6.1`. All in GiB.
pub fn sums(advice: &Advice) -> Option<String> {
    let ledger = advice.ledger.as_ref()?;
    let capacity = ledger.capacity_bytes?;
    let mut parts: Vec<String> =
        ledger.held_by.iter().map(|held| format!("{} {}", held.what, held.bytes.in_gib())).collect();
    if let Some(free) = ledger.available_bytes {
        parts.push(format!("free {}", free.in_gib()));
    }
    // Of an engine's cache all is free: no sum.
    (!parts.is_empty() && !ledger.is_cache).then(|| format!("{capacity} = {}", parts.join(" + ")))
}

/// What a step frees, in words.
pub fn gives_back(planned: &PlannedFix) -> String {
    if let Some(room) = &planned.room_on {
        return format!("GPU {}: {} free", room.index, room.free);
    }
    match (planned.frees_bytes, planned.frees_is) {
        (Some(bytes), Some(Is::Fact)) => format!("frees {bytes}"),
        (Some(bytes), _) => format!("frees ≈ {bytes}"),
        (None, _) if planned.fix == FixId::RUN_AGAIN => String::new(),
        (None, _) => "frees ?".to_owned(),
    }
}

/// A step in full: what to do, the command, what to expect, why. `brief` leaves the reasons to "about this error".
pub fn step(step: &Step, brief: bool) -> Vec<Said> {
    let mut said = vec![Said::Do(sentence(&step.action))];
    said.extend(step.command.iter().flat_map(|command| command.lines()).map(|line| Said::Command(line.to_owned())));
    if brief {
        said.push(Said::Note(sentence(&step.expect)));
    } else {
        said.extend(step.versions.as_ref().map(|versions| Said::Note(format!("Note: {}", sentence(versions)))));
        said.push(Said::Note(format!("{} {}", sentence(&step.expect), sentence(&step.if_not))));
        said.push(Said::Note(format!("Why: {}", sentence(&step.why))));
    }
    said
}

/// A line of a step, by what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Do(String),
    Command(String),
    /// What to expect, or why.
    Note(String),
}

impl Said {
    pub fn text(&self) -> &str {
        match self {
            Said::Do(text) | Said::Command(text) | Said::Note(text) => text,
        }
    }
}
