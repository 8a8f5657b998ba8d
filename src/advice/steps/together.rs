//! Owns the step that makes several changes at once, where none of the plan's steps alone is enough: the fewest that are, by
//! the same sums as each of them, in one command.

use super::fixes::{Filled, filled_together};
use super::order::MAY_BE_BUSY;
use super::outlook::Outlook;
use super::planned::{Enough, PlannedFix, Step};
use crate::advice::fit::effect::Effect;
use crate::advice::fit::together::{Asked, Together};
use crate::advice::fit::{FitAdvice, FitChoice};
use crate::advice::naming::{capitalized, uncapitalized};
use crate::knowledge::FixId;
use crate::memory::knob::Said;
use crate::memory::knobs::{self, context, flash_attention, kv_type, layers, share};
use crate::memory::{Is, Kind, Knob, Turn};
use crate::units::Bytes;

/// What came of the search for changes that are enough together.
pub(crate) enum Found {
    /// One of the steps is enough, or the model's sums do not tell.
    NotAsked,
    /// With what the settings do for the model, where they do it alone.
    Step(Box<(PlannedFix, Option<FitChoice>)>),
    /// No set of changes is enough.
    None,
}

/// What a set of changes may be made of.
struct Parts<'p> {
    /// With the plan's step for each, where it has one.
    settings: Vec<(&'static Knob, Option<&'p PlannedFix>)>,
    /// The steps that end idle processes.
    processes: Vec<&'p PlannedFix>,
}

/// Settings of an engine's own that the plan may leave out since alone they change nothing.
const OF_ENGINE: [&Knob; 3] = [&kv_type::KNOB, &context::KNOB, &share::KNOB];

/// The step for the fewest changes that are enough together.
pub(crate) fn step(plan: &[PlannedFix], outlook: &Outlook<'_, '_>) -> Found {
    let case = outlook.case;
    let is_enough = |step: &&PlannedFix| step.enough.may_be_enough() || step.enough == Enough::WithOthers;
    let has_enough = plan.iter().filter(is_enough).any(|step| !is_slow(step));
    let has_slow = plan.iter().filter(is_enough).any(is_slow);
    let was_tried = case.situation.tried.contains(&FixId::CHANGE_TOGETHER);
    let may_ask = !has_enough && !was_tried && !outlook.can_run_again && !outlook.is_beside_share();
    let fit = case.fit_ahead().filter(|fit| may_ask && fit.fits == Some(false));
    let Some((fit, mut parts)) = fit.and_then(|fit| Some((fit, Parts::of(plan, fit)?))) else { return Found::NotAsked };
    if has_slow {
        // One slow change is enough alone: only the cache's settings, which keep the speed, are worth more than it.
        parts.settings.retain(|(knob, _)| OF_CACHE.contains(knob));
        if !parts.processes.is_empty() {
            return Found::NotAsked;
        }
    }
    let (together, ended) = match parts.alone(fit, outlook) {
        Some(together) => (together, &[][..]),
        None => match parts.with_processes(fit, outlook) {
            Some(together) => (together, parts.processes.as_slice()),
            None if has_slow => return Found::NotAsked,
            None => return Found::None,
        },
    };
    match parts.planned(&together, ended, outlook) {
        Some(step) => {
            let choice = ended.is_empty().then(|| together.as_choice(FixId::CHANGE_TOGETHER));
            Found::Step(Box::new((step, choice)))
        }
        None => Found::NotAsked,
    }
}

/// Settings of llama.cpp's KV cache that keep the speed.
const OF_CACHE: [&Knob; 3] = [&kv_type::KNOB, &context::KNOB, &flash_attention::KNOB];

/// Changes after which layers or the cache are in RAM, so that every answer is slower.
const SLOW: [FixId; 2] = [FixId::OFFLOAD_FEWER_LAYERS, FixId::KV_CACHE_ON_CPU];

fn is_slow(step: &PlannedFix) -> bool {
    SLOW.contains(&step.fix)
}

impl<'p> Parts<'p> {
    fn of(plan: &'p [PlannedFix], fit: &FitAdvice) -> Option<Parts<'p>> {
        let engine = fit.engine_of_run()?;
        let has_share = matches!(engine.kind(), Kind::Vllm | Kind::Sglang);
        let certain = plan.iter().filter(|step| step.condition.is_none());
        let settings = knobs::all().filter(|knob| knob.has(engine)).filter_map(|knob| {
            let step = certain.clone().find(|step| knob.fixes.contains(&step.fix));
            (step.is_some() || has_share && OF_ENGINE.contains(&knob)).then_some((knob, step))
        });
        let processes = certain.clone().filter(|step| step.is_about_a_process() && step.placed_by != Some(MAY_BE_BUSY));
        Some(Parts { settings: settings.collect(), processes: processes.collect() })
    }

    /// Settings alone; not where what fits is a run that crawls while a process could be ended.
    fn alone(&self, fit: &FitAdvice, outlook: &Outlook<'_, '_>) -> Option<Together> {
        let together = fit.together(&self.asked(outlook, 2, Bytes::ZERO))?;
        let crawls = together.turns.iter().any(|turn| turn.knob == &layers::KNOB && fit.is_smaller_half(turn.to));
        (!crawls || self.processes.is_empty()).then_some(together)
    }

    /// All idle processes that the plan ends, and settings.
    fn with_processes(&self, fit: &FitAdvice, outlook: &Outlook<'_, '_>) -> Option<Together> {
        let gone = freed_by(&self.processes);
        if gone == Bytes::ZERO { None } else { fit.together(&self.asked(outlook, 1, gone)) }
    }

    fn asked(&self, outlook: &Outlook<'_, '_>, least: usize, gone: Bytes) -> Asked {
        let knobs = self.settings.iter().map(|(knob, _)| *knob).collect();
        Asked { knobs, least, gone, ram: outlook.case.room.ram(), short: outlook.short }
    }

    fn planned(&self, together: &Together, ended: &[&'p PlannedFix], outlook: &Outlook<'_, '_>) -> Option<PlannedFix> {
        let (mut steps, mut fixes, mut options) = (ended.to_vec(), Vec::new(), Vec::new());
        for turn in &together.turns {
            match self.step_of(turn) {
                Some(step) => {
                    let fix = outlook.case.situation.fixes.iter().find(|fix| fix.id == step.fix)?;
                    let value = (turn.knob.placeholder)(&together.engine, turn.to);
                    fixes.push((fix, Effect { value, ..Effect::of(fix.id) }));
                    steps.push(step);
                }
                None => match turn.knob.said(&together.engine, None)? {
                    Said::Option(option) => options.push(option),
                    Said::InChat(_) => return None,
                },
            }
        }
        let Filled { actions, command, changes } = filled_together(&fixes, &options.join(" "), outlook.case)?;
        let adds = options.iter().map(|option| format!("add {option}"));
        let parts = steps.iter().map(|step| uncapitalized(&step.title)).chain(adds.clone());
        let ends = ended.iter().map(|step| uncapitalized(&step.title));
        let actions: Vec<String> = ends.chain(actions.iter().map(|text| by_their_values(text))).chain(adds).collect();
        let frees = together.frees.map(|bytes| bytes.plus(freed_by(ended)));
        let action = format!("Do all of this: {}", actions.join("; "));
        let (needs, free) = (together.needs, together.free);
        let why = format!("None of these alone is enough. With all of them it needs ≈ {needs} of {free} free.");
        let costs: Vec<&str> = steps.iter().map(|step| step.costs.as_str()).collect();
        Some(PlannedFix {
            title: capitalized(&listed(&parts.collect::<Vec<_>>())),
            safety: steps.iter().map(|step| step.safety).max().unwrap_or_default(),
            frees_bytes: frees,
            frees_is: frees.map(|_| Is::About),
            enough: Enough::Yes,
            parts: steps.iter().map(|step| step.fix).collect(),
            steps: vec![Step::new(action, command, why, WORKED, IF_NOT)],
            changes,
            ..PlannedFix::named(FixId::CHANGE_TOGETHER, &costs.join("; "))
        })
    }

    fn step_of(&self, turn: &Turn) -> Option<&'p PlannedFix> {
        self.settings.iter().find(|(knob, _)| *knob == turn.knob).and_then(|(_, step)| *step)
    }
}

const WORKED: &str = "Worked if: the run gets past the point where it failed.";
const IF_NOT: &str = "If it fails again, paste the new error here.";

fn freed_by(steps: &[&PlannedFix]) -> Bytes {
    steps.iter().filter_map(|step| step.frees_bytes).fold(Bytes::ZERO, Bytes::plus)
}

/// A part as it is told where its value is another than that of the step alone.
fn by_their_values(action: &str) -> String {
    uncapitalized(action).replace("halve ", "lower ").replace("double ", "raise ")
}

/// "a, b and c".
fn listed(parts: &[String]) -> String {
    match parts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
}
