//! Owns whether a step is enough: decided once, from the model's sums and from what is short, and worded once.

use super::outlook::Outlook;
use super::planned::{Enough, PlannedFix};
use super::together::{self, Found};
use crate::advice::fit::{FitAdvice, FitChoice};
use crate::advice::naming::sentence;
use crate::units::Bytes;

/// Logs print sizes with two decimals of a GiB: what is freed and what is short by such figures differ by so much.
const ROUNDING_PERCENT: u64 = 2;

/// Of a need that is a lower bound, this part must be spare for a step to be likely enough.
const LEAST_SPARE: u64 = 20;

/// Decides for each step whether it is enough, puts the fewest changes that are enough together first where none is, adds
/// up what the steps free, and says both. Tells whether it is known that no set of changes is enough, and what those that
/// are do for the model.
pub(crate) fn decide(plan: &mut Vec<PlannedFix>, outlook: &Outlook<'_, '_>) -> (bool, Option<FitChoice>) {
    let terminated =
        plan.iter().filter(|planned| planned.is_about_a_process()).filter_map(|planned| planned.frees_bytes);
    let freed_by_processes = terminated.fold(Bytes::ZERO, Bytes::plus);
    for planned in plan.iter_mut() {
        planned.enough = enough(planned, freed_by_processes, outlook);
    }
    let found = together::step(plan, outlook);
    let is_hopeless = matches!(found, Found::None) && !plan.is_empty();
    let mut fits_with = None;
    if let Found::Step(found) = found {
        let (step, choice) = *found;
        plan.insert(0, PlannedFix { enough: enough(&step, freed_by_processes, outlook), ..step });
        fits_with = choice;
    }
    let (mut sum, mut counted) = (Bytes::ZERO, Vec::new());
    for planned in plan {
        if let Some(frees) = planned.frees_bytes
            && !counted.contains(&planned.fix)
        {
            sum = sum.plus(frees);
            planned.frees_so_far_bytes = Some(sum);
        }
        counted.extend(&planned.parts);
        planned.may_be_enough = planned.enough.may_be_enough();
        // That nothing is enough is said once, of all of them.
        if !is_hopeless || planned.enough != Enough::NotAlone {
            say(planned, outlook);
        }
    }
    (is_hopeless, fits_with)
}

/// Whether the step is enough: for sure only where what the run needs is known.
fn enough(planned: &PlannedFix, freed_by_processes: Bytes, outlook: &Outlook<'_, '_>) -> Enough {
    match by_the_sums(planned, freed_by_processes, outlook) {
        Enough::Yes if !is_need_known(planned, outlook) => Enough::Likely,
        decided => decided,
    }
}

/// Whether the need is an engine's own figure, or reckoned from a model and settings of which none is assumed.
fn is_need_known(planned: &PlannedFix, outlook: &Outlook<'_, '_>) -> bool {
    // The share that an engine asked for says nothing of a model that is larger than the GPU.
    let is_of_share = !outlook.has_weights_beyond();
    let is_whole = is_of_share && outlook.case.ledger.as_ref().is_some_and(|ledger| !ledger.needed_is_at_least);
    let reckoned = outlook.case.fit_ahead().filter(|fit| !fit.is_assumed);
    is_whole
        || match &planned.room_on {
            Some(room) => reckoned.and_then(FitAdvice::wants).is_some_and(|wants| wants <= room.free),
            None => reckoned.is_some(),
        }
}

/// What the step's source says by the model's own sums, compared with what is short.
fn by_the_sums(planned: &PlannedFix, freed_by_processes: Bytes, outlook: &Outlook<'_, '_>) -> Enough {
    let is_short_by_sums = is_short(planned, outlook);
    // What the model takes says nothing about a request beside the engine's share.
    let is_model_asked = planned.room_on.is_some() || !outlook.is_beside_share();
    match planned.enough {
        // The log's own sums refute an estimate that promises more.
        Enough::Yes if is_model_asked && is_short_by_sums == Some(true) => Enough::NotAlone,
        decided @ (Enough::Yes | Enough::NotAlone) if is_model_asked => decided,
        decided @ (Enough::LacksRam { .. } | Enough::Likely | Enough::WithOthers) => decided,
        // The log's sums are a lower bound: they do not outweigh that the model does not fit by its own.
        Enough::NotAlone if is_short_by_sums == Some(false) => Enough::Unknown,
        _ => match is_short_by_sums {
            Some(true) if planned.is_about_a_process() => {
                let is_together_enough = outlook.short.is_some_and(|short| freed_by_processes >= short);
                if is_together_enough { Enough::WithOthers } else { Enough::NotAlone }
            }
            Some(true) => Enough::NotAlone,
            Some(false) if planned.is_about_a_process() && is_barely_enough(planned, outlook) => Enough::Unknown,
            Some(false) => Enough::Likely,
            None => Enough::Unknown,
        },
    }
}

/// Whether the step frees less than what is short, beyond rounding; `None` where either is not known or nothing is short.
fn is_short(planned: &PlannedFix, outlook: &Outlook<'_, '_>) -> Option<bool> {
    let (frees, short) = (planned.frees_bytes?, outlook.short.filter(|short| *short > Bytes::ZERO)?);
    let is_alike = planned.enough == Enough::Yes && frees.within_percent(short, ROUNDING_PERCENT);
    Some(frees < short && !is_alike)
}

/// Whether a process that ends frees little more than a shortage that is a lower bound: the run was on its way to its
/// peak. A setting is chosen for what was asked for, and is not held to this, nor is a run whose need is
/// reckoned from its model.
fn is_barely_enough(planned: &PlannedFix, outlook: &Outlook<'_, '_>) -> bool {
    let Some(ledger) = outlook.case.ledger.as_ref().filter(|ledger| ledger.needed_is_at_least) else { return false };
    // One that may be busy leads only where it may be enough, which is decided before.
    if outlook.case.fit_ahead().is_some() || !planned.is_idle {
        return false;
    }
    let (Some(frees), Some(short), Some(needed)) = (planned.frees_bytes, outlook.short, ledger.needed_bytes) else {
        return false;
    };
    frees < short.plus(Bytes(needed.0 / LEAST_SPARE))
}

/// Says in the step what keeps it from being enough.
fn say(planned: &mut PlannedFix, outlook: &Outlook<'_, '_>) {
    let is_about_a_process = planned.is_about_a_process();
    let Some(step) = planned.steps.first_mut() else { return };
    match planned.enough {
        Enough::LacksRam { needs, has } => {
            step.expect = format!("This does not fit in RAM: it needs about {needs} there, and {has} is available.");
        }
        Enough::NotAlone if !is_about_a_process => {
            step.expect = format!("{} Alone it is not enough here.", sentence(&step.expect));
        }
        Enough::NotAlone if outlook.case.fit_ahead().is_some() => {
            step.expect = format!("{} Alone that is not enough: a setting must change, too.", sentence(&step.expect));
        }
        _ => {}
    }
}
