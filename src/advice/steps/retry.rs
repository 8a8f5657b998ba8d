//! Owns the steps that try the run again before more is changed.

use super::planned::{Enough, PlannedFix, Step};
use super::share;
use crate::advice::case::Case;
use crate::advice::figures::is_commit_limit_likely;
use crate::advice::naming::amount;
use crate::advice::verdict::{Cause, CauseKind};
use crate::knowledge::{FixId, MemoryKind};
use crate::units::Bytes;

const PASTE_AGAIN: &str = "If it fails again, paste the new error here.";
const RUNS_PAST: &str = "Worked if: it passes the point where it died.";

/// Where what used the memory is gone and there is room now, the first step is the simplest one.
pub(crate) fn run_again(case: &Case<'_>, causes: &[Cause]) -> Option<PlannedFix> {
    if case.retry.is_some() || case.situation.ended_retry().is_some() {
        return None;
    }
    let ledger = case.ledger.as_ref()?;
    if !case.is_nothing_short_now() && !ledger.needed_bytes.is_some_and(|needed| case.place.each_candidate_has(needed))
    {
        return None;
    }
    let free_now = match ledger.is_now {
        true => format!("{} is free now", amount(ledger.available_bytes)),
        false => "each GPU here that it may be has enough free now".to_owned(),
    };
    let why = why_there_is_room(case, causes, &free_now)?;
    if let Some(too_small) = share::too_small(case) {
        let action = format!(
            "Run the job again: {} of the GPU is less than its weights, though there is room now",
            too_small.set
        );
        let step = Step::new(action, Some(too_small.command), why, RUNS_PAST, PASTE_AGAIN);
        return Some(planned("Run it again with a larger share of the GPU", step));
    }
    let step = Step::new("Run the job again, unchanged".into(), command(case), why, RUNS_PAST, PASTE_AGAIN);
    Some(PlannedFix { enough: Enough::Likely, ..planned("Run the same command again", step) })
}

/// What has changed since the failure so that there is room; `None` where nothing is known to have changed.
fn why_there_is_room(case: &Case<'_>, causes: &[Cause], free_now: &str) -> Option<String> {
    if let Some(gone) = case.gone() {
        return Some(format!("process {} used {} when it failed and has exited; {free_now}", gone.pid, gone.bytes));
    }
    if let Some(others) = case.used_by_others {
        let are_blamed = causes.first().is_some_and(|found| found.cause == CauseKind::OtherProcess);
        return (are_blamed && case.place.is_here())
            .then(|| format!("other processes used {} of the GPU {}; {free_now}", others.bytes, others.when()));
    }
    let facts = &case.log.facts;
    let (requested, free) = (facts.requested_bytes?, facts.free_bytes?);
    (case.log.memory == Some(MemoryKind::Host) && free < requested)
        .then(|| format!("{free} was available when it failed, and more is now"))
}

/// After a step that may be enough, or memory that was freed where nothing tells how much is short, trying it tells more
/// than any further change.
pub(crate) fn run_now(case: &Case<'_>) -> PlannedFix {
    let why = "what was done so far may be enough; the fixes below can still follow".to_owned();
    let if_not = "If it fails again, paste the new error here, or take the next step as well.";
    let step = Step::new("Run the job again".into(), command(case), why, RUNS_PAST, if_not);
    planned("Run it again before you change more", step)
}

/// Where several times as much was free as was requested, a smaller run is no answer: the program's own state is in doubt.
pub(crate) fn fresh_start(case: &Case<'_>, causes: &[Cause]) -> Option<PlannedFix> {
    let facts = &case.log.facts;
    let (free, requested) = (facts.free_bytes?, facts.requested_bytes?);
    let is_unknown = causes.first().is_some_and(|found| found.cause == CauseKind::Unknown);
    let had_plenty = free >= requested.plus(requested).plus(Bytes::gib(1));
    let is_explained = !is_unknown || is_commit_limit_likely(case.log);
    if is_explained || !had_plenty || case.log.memory != Some(MemoryKind::Gpu) {
        return None;
    }
    let action = "Restart the program, and watch the GPU's bar meanwhile".to_owned();
    let why =
        format!("{free} was free when it asked for {requested}: a short peak, or a driver that refuses what is free");
    let if_not = "If it fails again with as much free, update the GPU driver and the program. If the bar was full for a moment, take the fixes below.";
    Some(planned("Start the program anew and run it again", Step::new(action, command(case), why, RUNS_PAST, if_not)))
}

fn command(case: &Case<'_>) -> Option<String> {
    case.command.map(str::to_owned)
}

fn planned(title: &str, step: Step) -> PlannedFix {
    PlannedFix { title: title.to_owned(), steps: vec![step], ..PlannedFix::named(FixId::RUN_AGAIN, "nothing") }
}
