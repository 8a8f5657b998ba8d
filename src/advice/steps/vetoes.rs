//! Owns the rules that keep a step from being offered, each with its name for `diagnose --why`.

use super::outlook::Outlook;
use super::planned::PlannedFix;
use crate::advice::engine;
use crate::advice::weights::widened;
use crate::knowledge::{Condition, Fix, FixId, Phase, Stage};

/// A rule that removes what it holds for, with its name.
type Veto<T> = (&'static str, fn(&T, &Outlook<'_, '_>) -> bool);

/// Fixes that take less of what an engine keeps within its share of the GPU.
const WITHIN_THE_SHARE: &[FixId] = &[
    FixId::SHORTER_CONTEXT,
    FixId::MAX_MODEL_LEN,
    FixId::SMALLER_QUANTISATION,
    FixId::OFFLOAD_FEWER_LAYERS,
    FixId::QUANTISED_KV_CACHE,
];

/// Fixes that make what the model takes of a GPU smaller: none of them helps an engine whose share is in use.
const CHANGES_THE_MODEL: &[FixId] = &[FixId::SMALLER_QUANTISATION, FixId::SPLIT_MODEL_OVER_GPUS, FixId::MAX_MODEL_LEN];

/// Fixes that change what an engine takes beside its weights.
const CHANGES_BESIDE_THE_WEIGHTS: &[FixId] = &[
    FixId::LOWER_UTILIZATION,
    FixId::RAISE_UTILIZATION,
    FixId::FEWER_SEQUENCES,
    FixId::NO_CUDA_GRAPHS,
    FixId::MAX_MODEL_LEN,
    FixId::SHORTER_CONTEXT,
    FixId::QUANTISED_KV_CACHE,
];

pub(crate) const TOO_LARGE: &str = "the model does not fit an empty GPU";

pub(crate) const WAS_TRIED: &str = "it was tried and did not help, or one that does more was";

const OF_FIXES: &[Veto<Fix>] = &[
    (WAS_TRIED, was_tried),
    ("the engine's share was not free, and the model is not known to exceed the GPU", |fix, outlook| {
        CHANGES_THE_MODEL.contains(&fix.id) && engine::more_than_is_free(outlook.case.log) && !outlook.exceeds_the_gpu()
    }),
    ("the model's weights alone exceed the GPU", |fix, outlook| {
        CHANGES_BESIDE_THE_WEIGHTS.contains(&fix.id) && outlook.has_weights_beyond()
    }),
    ("what it frees within the engine's share becomes KV cache", |fix, outlook| {
        outlook.is_beside_share() && WITHIN_THE_SHARE.contains(&fix.id)
    }),
    ("it is for another kind of memory", is_for_another_memory),
    ("it is for another phase of the run", is_for_another_phase),
    ("it changes nothing where the run failed", is_for_another_stage),
];

const OF_PROCESS_STEPS: &[Veto<PlannedFix>] = &[
    ("enough VRAM is free now", |_, outlook| outlook.has_room_now()),
    ("the failed program is only asked to release memory", |step, outlook| {
        is_about_the_failed_program(step, outlook) && !step.gentle
    }),
    ("the leading cause is no other process", |step, outlook| {
        !is_about_the_failed_program(step, outlook) && outlook.spares_others()
    }),
    (TOO_LARGE, |step, outlook| {
        let terminates = step.fix == FixId::END_HOLDER && !step.gentle;
        terminates && !is_about_the_failed_program(step, outlook) && outlook.exceeds_an_empty_gpu()
    }),
];

/// The rule that removes a fix, if one does.
pub(crate) fn of_fix(fix: &Fix, outlook: &Outlook<'_, '_>) -> Option<&'static str> {
    OF_FIXES.iter().find(|(_, holds)| holds(fix, outlook)).map(|(name, _)| *name)
}

/// The rule that removes a step about a process or its owner, if one does.
pub(crate) fn of_process_step(step: &PlannedFix, outlook: &Outlook<'_, '_>) -> Option<&'static str> {
    OF_PROCESS_STEPS.iter().find(|(_, holds)| holds(step, outlook)).map(|(name, _)| *name)
}

/// Whether a fix is the answer to the leading cause or to what the run was doing.
pub(crate) fn answers(fix: &Fix, outlook: &Outlook<'_, '_>) -> bool {
    let leads = &fix.leads;
    if outlook.leading().is_some_and(|about| leads.causes.contains(&about.cause)) {
        return true;
    }
    let log = outlook.case.log;
    let answers_stage = log.run.stage.is_some_and(|stage| leads.stages.contains(&stage));
    let answers_widening =
        leads.widened_to.is_some() && leads.widened_to == widened(log).map(|widened| widened.to_bits);
    outlook.blames_the_run() && (answers_stage || answers_widening)
}

/// Fixes about processes and requests for a GPU have their own checks.
fn has_own_checks(fix: &Fix) -> bool {
    fix.when.contains(&Condition::HolderAlive)
}

fn was_tried(fix: &Fix, outlook: &Outlook<'_, '_>) -> bool {
    let situation = outlook.case.situation;
    let does_less = situation.fixes.iter().filter(|other| situation.tried.contains(&other.id));
    situation.tried.contains(&fix.id) || does_less.flat_map(|other| &other.covers).any(|covered| *covered == fix.id)
}

fn is_for_another_memory(fix: &Fix, outlook: &Outlook<'_, '_>) -> bool {
    let ran_out = outlook.case.log.memory;
    !has_own_checks(fix) && !fix.memory.is_empty() && ran_out.is_some_and(|memory| !fix.memory.contains(&memory))
}

fn is_for_another_phase(fix: &Fix, outlook: &Outlook<'_, '_>) -> bool {
    let phase = outlook.case.log.phase;
    !has_own_checks(fix) && !fix.phases.is_empty() && phase != Phase::Unknown && !fix.phases.contains(&phase)
}

fn is_for_another_stage(fix: &Fix, outlook: &Outlook<'_, '_>) -> bool {
    let stage = outlook.case.log.run.stage;
    let lacks_its_stage = !fix.stages.is_empty() && !stage.is_some_and(|stage| fix.stages.contains(&stage));
    // What a later phase takes matters already where the model's sums tell how much it is.
    let is_reckoned = stage == Some(Stage::Weights)
        && outlook.case.fit_ahead().and_then(|fit| fit.effect_of(fix.id)).is_some_and(|effect| effect.fits.is_some());
    let is_excluded = !is_reckoned && stage.is_some_and(|stage| fix.not_stages.contains(&stage));
    !has_own_checks(fix) && (lacks_its_stage || is_excluded)
}

fn is_about_the_failed_program(step: &PlannedFix, outlook: &Outlook<'_, '_>) -> bool {
    let failed = outlook.case.failed_program.map(|row| row.pid);
    step.target.is_some_and(|key| Some(key.pid) == failed)
}
