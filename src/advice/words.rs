//! Owns the advice in sentences: the same words for the screen and for the plain report.

use super::{Advice, CauseKind, PlannedFix, Step};
use crate::units::Bytes;

/// More evidence than that is not read under stress; the JSON has all of it.
const EVIDENCE: usize = 2;

/// The verdict in lines: the sentence, what the run needed, the evidence for the likeliest cause, other causes.
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
    let needed = ledger.needed_bytes?;
    let asked = ledger.asked_bytes?;
    let parts = match ledger.had_bytes {
        Some(had) => format!(" ({} asked + {} it already had)", asked.in_gib(), had.in_gib()),
        None => String::new(),
    };
    let free = ledger.available_bytes?;
    if !ledger.is_now {
        let (had, more) = match ledger.had_bytes {
            Some(had) => (format!("had {had} and "), " more"),
            None => (String::new(), ""),
        };
        let missing = ledger.missing_bytes.filter(|missing| *missing > Bytes::ZERO);
        let found = missing.map_or(String::new(), |missing| format!(" At least {missing} must be found."));
        let (asked, free) = apart(asked, free);
        if ledger.is_cache {
            return Some(format!("The cache needed {asked}; {free} was set aside for it.{found}"));
        }
        return Some(format!("Your run {had}asked for {asked}{more}; {free} was free.{found}"));
    }
    let has = ledger.taken_bytes.map_or_else(String::new, |taken| format!("its next try holds {taken}, "));
    // What died early had not asked for all of it yet.
    let whole = advice.fit.as_ref().and_then(|fit| Some((fit.missing()?, fit.total_bytes?, fit.headroom_bytes)));
    if let Some((missing, total, spare)) =
        whole.filter(|(missing, ..)| ledger.missing_bytes.is_some_and(|known| *missing > known))
    {
        let spare = if spare > Bytes::ZERO { " and 1 GiB to spare" } else { "" };
        return Some(format!(
            "Your run had asked for {needed}{parts} when it died; in all it takes about {total}{spare}; {has}{free} is free now: about {missing} must be found."
        ));
    }
    Some(match ledger.missing_bytes {
        Some(Bytes::ZERO) => format!("Your run needed at least {needed}{parts}; {has}{free} is free now."),
        Some(missing) => {
            format!(
                "Your run needed at least {needed}{parts}; {has}{free} is free now. At least {missing} must be found."
            )
        }
        None => format!("Your run needed at least {needed}{parts}."),
    })
}

/// The evidence for the likeliest cause, and which other causes speak up.
fn evidence(advice: &Advice) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(first) = advice.verdict.causes.first() else { return lines };
    if first.cause == CauseKind::Unknown {
        lines.push(match first.evidence.first() {
            Some(said) if first.weight < 1.0 => {
                format!("That much is sure: {said}.")
            }
            _ => {
                "Why can't be told from this log: it prints too few figures. Paste more of it if there is more.".into()
            }
        });
        return lines;
    }
    if !first.evidence.is_empty() {
        let lead = if first.weight >= 0.9 { "Because" } else { "Most likely, because" };
        let said: Vec<&str> = first.evidence.iter().take(EVIDENCE).map(String::as_str).collect();
        lines.push(format!("{lead} {}.", said.join("; ")));
    }
    let next = advice.verdict.causes.get(1).filter(|cause| cause.weight >= 0.3);
    if let Some(also) = next.and_then(|cause| cause.evidence.first()) {
        lines.push(format!("It may also matter that {also}."));
    }
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

/// Two sizes that are not the same, so that they don't look the same.
pub fn apart(one: Bytes, other: Bytes) -> (String, String) {
    let alike = one != other && one.to_string() == other.to_string();
    let finer = |bytes: Bytes| if alike { format!("{} MiB", bytes.0 >> 20) } else { bytes.to_string() };
    (finer(one), finer(other))
}

/// What a step gives back, in words.
pub fn gives_back(planned: &PlannedFix) -> String {
    if let Some(room) = &planned.room_on {
        return format!("GPU {}: {} free", room.index, room.free);
    }
    match (planned.frees_bytes, planned.frees_is) {
        (Some(bytes), Some(super::plan::FreesIs::Fact)) => format!("gives back {bytes}"),
        (Some(bytes), _) => format!("about {bytes} back"),
        (None, _) if planned.fix == "run-again" => String::new(),
        (None, _) => "how much: can't tell".to_owned(),
    }
}

/// What keeps it from coming back, by the likeliest cause.
pub fn prevention(cause: CauseKind, training: bool) -> &'static str {
    match cause {
        CauseKind::Batch if !training => {
            "A smaller work area or image, or fewer requests at once, keeps the peak down; try the largest once before a long run."
        }
        CauseKind::OtherProcess => {
            "Shut down kernels and servers that are done (a closed notebook tab keeps its kernel), and look who holds the card before a long run: oomdoctor ps."
        }
        CauseKind::Fragmentation => {
            "Have expandable_segments:True in the job's environment (not on Windows), and sizes that don't change from step to step."
        }
        CauseKind::TooBig | CauseKind::Context => {
            "Before the next model: oomdoctor fit MODEL says what it takes, and the largest context that fits."
        }
        CauseKind::Batch => "Find the largest batch with a few steps of the longest samples before the long run.",
        CauseKind::Growth => {
            "Keep numbers, not tensors (loss.item()), and put validation under no_grad; a level bar after a hundred steps is the sign."
        }
        CauseKind::SameSession => {
            "Restart the kernel between runs: deleting variables does not let go of all they held."
        }
        CauseKind::Limit => "Write down where the limit is set, beside the job: the next one will meet it, too.",
        CauseKind::WrongDevice => {
            "Give each rank its own card (torch.cuda.set_device(local_rank)), or name the card with CUDA_VISIBLE_DEVICES."
        }
        CauseKind::HostMemory => {
            "Watch system memory in a first run (free -h), and ask for what it reached and a quarter more."
        }
        CauseKind::Unknown => {
            "Keep the whole log next time (python -u job.py 2>&1 | tee job.log): it says more than its last line."
        }
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

/// The text with a capital at its head and a full stop at its end.
pub fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let head = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let stop = if text.ends_with(['.', '!', '?', ':']) || text.is_empty() { "" } else { "." };
    format!("{head}{}{stop}", characters.as_str())
}
