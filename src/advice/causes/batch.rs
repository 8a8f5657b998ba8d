//! Owns the batch: what the run was doing takes more memory the more it does at once.

use super::evidence::line_of;
use super::growth;
use super::rule::{About, Blames, Rule, SpeaksOfSize};
use crate::advice::case::Case;
use crate::advice::engine;
use crate::advice::phrases::plain;
use crate::advice::verdict::{CauseKind, Strength};
use crate::knowledge::diagnosis::{MemoryKind, Phase, Stage};

pub(crate) const ABOUT: About = About {
    id: CauseKind::Batch,
    name: "batch",
    blames: Blames::TheRun,
    speaks_of_size: SpeaksOfSize::WhileLoading,
    is_solved_by_another_gpu: false,
    say,
    prevent,
};

pub(crate) const WORK_AREA_NOT_ALLOCATED: Rule = Rule {
    about: &ABOUT,
    name: "the log says that the work area was not allocated",
    strength: Strength::Strong,
    find: work_area,
};

pub(crate) const BACKWARD_OR_DECODE: Rule = Rule {
    about: &ABOUT,
    name: "it failed in the backward pass or while decoding",
    strength: Strength::Likely,
    find: backward_or_decode,
};

pub(crate) const BESIDE_THE_ENGINES_SHARE: Rule = Rule {
    about: &ABOUT,
    name: "the request comes on top of the share that the engine fills",
    strength: Strength::Likely,
    find: beside_share,
};

pub(crate) const WORKS_IN_BATCHES: Rule = Rule {
    about: &ABOUT,
    name: "what it was doing grows with the batch",
    strength: Strength::Likely,
    find: works_in_batches,
};

fn work_area(case: &Case<'_>) -> Option<Vec<String>> {
    let is_told = case.log.run.told == Some(CauseKind::Batch);
    is_told.then(|| vec![format!("it is the work area of a batch that found no room{}", line_of(case.log))])
}

fn backward_or_decode(case: &Case<'_>) -> Option<Vec<String>> {
    let evidence = match case.log.run.stage? {
        Stage::Backward => "it died in the backward pass: activations grow with the batch",
        Stage::Decode => {
            "it died while turning the result into pixels, which grows with the size of the image or video"
        }
        _ => return None,
    };
    if_own_work(case, evidence)
}

fn works_in_batches(case: &Case<'_>) -> Option<Vec<String>> {
    let evidence = match (case.log.phase, case.log.run.stage) {
        (_, Some(Stage::Sampling)) => "it died while denoising, which grows with the size and number of images",
        (_, Some(Stage::Profiling)) => "it died while measuring its peak with the largest batch it may meet",
        // What is made there is as large for any batch.
        (_, Some(Stage::Optimizer | Stage::Saving)) => return None,
        (_, Some(Stage::Validation)) => "it died in the validation, where memory grows with its own batch",
        (Phase::Training, _) => "it died while training, where memory grows with the batch",
        _ => return None,
    };
    if_own_work(case, evidence)
}

/// Where the ordinary steps fitted before, the batch is not what changed.
fn if_own_work(case: &Case<'_>, evidence: &str) -> Option<Vec<String>> {
    let is_growth = (growth::CAME_FAR.find)(case).is_some();
    (case.log.memory == Some(MemoryKind::Gpu) && !is_growth).then(|| vec![evidence.to_owned()])
}

fn beside_share(case: &Case<'_>) -> Option<Vec<String>> {
    let requested = engine::requested_beside_share(case.log, case.place.capacity())?;
    let share = engine::in_words(case.log)?;
    Some(vec![format!(
        "{share} is filled with weights and KV cache by design; the {requested} came on top of that{}",
        line_of(case.log)
    )])
}

fn say(case: &Case<'_>) -> String {
    let plain = plain(case);
    match details(case) {
        Some(more) => format!("{plain} {more}"),
        None => plain,
    }
}

fn details(case: &Case<'_>) -> Option<String> {
    if beside_share(case).is_some() {
        return Some(format!(
            "{} is filled with weights and KV cache by design; what it works with (CUDA graphs, activations, the sampler) comes on top, and found too little.",
            engine::in_words(case.log)?
        ));
    }
    if let Some(tokens) = case.log.facts.context_tokens {
        return Some(format!("It tried {tokens} tokens at once."));
    }
    let said = match case.log.run.stage? {
        Stage::Backward => "It died in the backward pass.",
        Stage::Decode => "It died at the last step, turning the result into pixels.",
        Stage::Sampling => "It died while denoising.",
        _ => return None,
    };
    Some(said.to_owned())
}

fn prevent(is_training: bool) -> &'static str {
    match is_training {
        true => "Find the largest batch with a few steps of the longest samples before the long run.",
        false => {
            "A smaller work area or image, or fewer requests at once, keeps the peak down; try the largest once before a long run."
        }
    }
}
