//! Owns the batch: what the run was doing takes more memory the more it does at once.

use super::growth;
use super::rule::{Evidence, said};
use crate::advice::case::Case;
use crate::advice::engine;
use crate::advice::phrases::{line_of, plain_and};
use crate::advice::verdict::CauseKind;
use crate::allocations::findings::FindingKind;
use crate::knowledge::diagnosis::{Phase, Stage};

/// By a snapshot of one request that is a large part of the GPU.
pub(super) fn large_request(case: &Case<'_>) -> Evidence {
    said(case, FindingKind::Logits).or_else(|| said(case, FindingKind::LargeRequest))
}

pub(super) fn work_area(case: &Case<'_>) -> Evidence {
    let is_told = case.log.run.told == Some(CauseKind::Batch);
    is_told.then(|| vec![format!("the work area of a batch was not allocated{}", line_of(case.log))])
}

pub(super) fn backward_or_decode(case: &Case<'_>) -> Evidence {
    let evidence = match case.log.run.stage? {
        Stage::Backward => "it died in the backward pass: activations grow with the batch",
        Stage::Decode => {
            "it died while turning the result into pixels, which grows with the size of the image or video"
        }
        _ => return None,
    };
    if_own_work(case, evidence)
}

pub(super) fn works_in_batches(case: &Case<'_>) -> Evidence {
    let evidence = match (case.log.phase, case.log.run.stage) {
        (_, Some(Stage::Sampling)) => "it died while denoising, which grows with the size and number of images",
        (_, Some(Stage::Profiling)) => "it died while measuring its peak with the largest batch it may meet",
        // What is made there is as large for any batch.
        (_, Some(Stage::Optimizer | Stage::Saving | Stage::Weights)) => return None,
        (_, Some(Stage::Validation)) => "it died in the validation, where memory grows with its own batch",
        (Phase::Training, _) => "it died while training, where memory grows with the batch",
        _ => return None,
    };
    if_own_work(case, evidence)
}

/// Where the ordinary steps fitted before, the batch is not what changed.
fn if_own_work(case: &Case<'_>, evidence: &str) -> Evidence {
    let has_grown = growth::find(case).is_some();
    (case.is_short_of_vram() && !has_grown).then(|| vec![evidence.to_owned()])
}

pub(super) fn beside_share(case: &Case<'_>) -> Evidence {
    let requested = engine::requested_beside_share(case.log, case.place.capacity())?;
    let share = engine::in_words(case.log)?;
    Some(vec![format!(
        "{share} is filled with weights and KV cache by design; the {requested} came on top of that{}",
        line_of(case.log)
    )])
}

pub(super) fn say(case: &Case<'_>) -> String {
    plain_and(case, details(case))
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
