//! Owns the verdict's one sentence: the leading cause in words that a beginner understands, with its figures; before it
//! whatever is newer than the failure, after it what the model takes and which GPU has room.

use super::case::Case;
use super::causes::{self, SpeaksOfSize};
use super::fit::{FitAdvice, FitChoice};
use super::naming::name_of;
use super::other_gpu::RoomOn;
use super::phrases::{AS_NUMBERED, and};
use super::retry::Retry;
use super::steps::planned::PlannedFix;
use super::verdict::Cause;
use super::weights::widened;
use crate::knowledge::{FixId, Oom, Phase};
use crate::units::Bytes;

/// What to say first.
pub(crate) fn headline(case: &Case<'_>, causes: &[Cause], plan: &[PlannedFix]) -> String {
    if case.log.oom == Oom::No {
        return no_memory_ran_out(case);
    }
    let mut said = and(what_failed(case, causes), size_of_the_run(case, causes, plan));
    if let Some(retry) = &case.retry {
        said = retry_in_words(retry, case);
    } else if let Some(tried) = case.situation.ended_retry() {
        said = format!(
            "The next try seems to have exited: {} used {} when last seen. If it failed, paste its error. {said}",
            tried.name, tried.holds
        );
    }
    // The easiest way out stands beside what is wrong, where something is still short.
    let is_short = case.short_by_ledger() != Some(Bytes::ZERO);
    let is_another_gpu_better = is_short && case.retry.is_none();
    let room = if is_another_gpu_better { plan.iter().find_map(|planned| planned.room_on.as_ref()) } else { None };
    and(said, room.map(RoomOn::said))
}

/// The same without the size of the run and other GPUs: what happened, or how far the run that was started again has come.
pub(super) fn cause_in_words(case: &Case<'_>, causes: &[Cause]) -> String {
    match &case.retry {
        _ if case.log.oom == Oom::No => no_memory_ran_out(case),
        Some(retry) => retry_in_words(retry, case),
        None => what_failed(case, causes),
    }
}

fn no_memory_ran_out(case: &Case<'_>) -> String {
    let is_consequence = case.situation.fixes.iter().any(|fix| fix.id == FixId::SEE_THE_FULLER_LOG);
    if let (true, Some(filled)) = (case.log.matches.is_empty(), case.log.allocations.first()) {
        return filled.sentence.clone();
    }
    match (&case.log.remark, case.log.matches.is_empty()) {
        // A consequence without its cause tells nothing about memory.
        (Some(remark), _) if is_consequence => remark.clone(),
        (Some(remark), _) => format!("No memory ran out. {}", remark.trim_end_matches("No memory ran out.").trim_end()),
        (None, false) => "This is a known message, but no memory ran out.".to_owned(),
        (None, true) if case.log.just_stops => {
            "No line of this log says that memory ran out. It stops in mid-work: the kernel or the platform may have killed it."
                .to_owned()
        }
        (None, true) => {
            "No line of this log says that memory ran out. Paste more of it, above all the last error.".to_owned()
        }
    }
}

fn what_failed(case: &Case<'_>, causes: &[Cause]) -> String {
    let said = if case.log.oom == Oom::Maybe {
        let remark = case.log.remark.as_deref().unwrap_or("The message fits, but other causes print it too.");
        format!("Perhaps out of memory. {remark}")
    } else {
        let said = causes.first().map_or_else(String::new, |found| causes::say(found.cause, case));
        let which = which_of_several(case, &said);
        and(said, which)
    };
    match &case.place.because {
        Some(because) if case.place.is_elsewhere() => {
            format!("This log looks like another machine's ({because}). Local processes are ignored. {said}")
        }
        _ => said,
    }
}

/// Which of this machine's GPUs the log may mean, where nothing ties it to one: no figure of any of them is the run's.
fn which_of_several(case: &Case<'_>, said: &str) -> Option<String> {
    let candidates = case.place.candidates_in_words()?;
    let number = case.log.facts.device.map(|index| format!("GPU {index}{AS_NUMBERED}"));
    // Of a log that may be from anywhere only a number could be mistaken.
    if !case.place.is_here() && number.is_none() {
        return None;
    }
    let it = match number {
        Some(number) if !said.contains(AS_NUMBERED) => number,
        Some(_) => "That number".to_owned(),
        None => "It".to_owned(),
    };
    Some(match case.place.is_here() {
        true => format!("{it} may be {candidates} here: the log does not tell which."),
        false => format!("{it} may be any GPU here, if your run was on this machine."),
    })
}

/// What the model takes and which of the plan's steps make it fit, where the verdict is about what the run takes.
fn size_of_the_run(case: &Case<'_>, causes: &[Cause], plan: &[PlannedFix]) -> Option<String> {
    fit_in_question(case, causes)?.sentence(|choice| is_step(case, plan, choice))
}

/// Only which of the plan's steps make the model fit, or what would fit instead.
pub(super) fn what_fits(case: &Case<'_>, causes: &[Cause], plan: &[PlannedFix]) -> Option<String> {
    fit_in_question(case, causes)?.way_out(|choice| is_step(case, plan, choice))
}

/// With steps taken, what is ahead starts from the changed command line and not from what failed.
fn is_step(case: &Case<'_>, plan: &[PlannedFix], choice: &FitChoice) -> bool {
    case.changed.is_none() && plan.iter().any(|planned| choice.fixes.contains(&planned.fix))
}

/// The model's sums, where the verdict is about what the run takes and the log does not refute them.
fn fit_in_question<'a>(case: &'a Case<'_>, causes: &[Cause]) -> Option<&'a FitAdvice> {
    let is_about_size = match causes::about(causes.first()?.cause)?.speaks_of_size {
        SpeaksOfSize::Always => true,
        SpeaksOfSize::WhileLoading => matches!(case.log.phase, Phase::Load | Phase::Startup),
        SpeaksOfSize::Never => false,
    };
    let fit = case.fit.as_ref()?;
    if case.log.oom != Oom::Yes || !is_about_size || is_refuted(fit, case) {
        return None;
    }
    Some(fit)
}

/// Whether the log shows that more is short than the model's sums say, with its weights at the size of their file.
fn is_refuted(fit: &FitAdvice, case: &Case<'_>) -> bool {
    let is_short = case.short_by_ledger().is_some_and(|short| short > Bytes::ZERO);
    fit.fits == Some(true) && is_short && widened(case.log).is_none()
}

/// How far the retry has come.
fn retry_in_words(retry: &Retry<'_>, case: &Case<'_>) -> String {
    let gpu = if case.retry_is_on_other_gpu() { format!(" on GPU {}", retry.device.index) } else { String::new() };
    let so_far = format!("The job seems to be running again{gpu}: {} uses {}", name_of(retry.row), retry.uses);
    let Some(needed) = case.needed() else { return format!("{so_far}.") };
    match retry.short(Some(needed)) {
        Some(short) if short > Bytes::ZERO && retry.has_other_options => {
            format!("{so_far}, with other options than before; those needed {}.", case.bound(needed))
        }
        _ if retry.uses >= needed => format!("{so_far}, at least what it needed when it failed ({needed})."),
        Some(short) if short > Bytes::ZERO => format!(
            "{so_far}. When it failed it needed {}: {short} of that is neither its own nor free.",
            case.bound(needed)
        ),
        Some(_) => format!("{so_far}; when it failed it needed {}, and the rest is free.", case.bound(needed)),
        None => format!("{so_far}."),
    }
}
