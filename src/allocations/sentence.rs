//! Owns the sentence about a snapshot: which line asked for what, what was free, and why the rest was of no use.

use super::figures::line_in_words;
use super::findings::would_fit_if_expandable;
use super::told::{FailedRequest, Filled, Totals, Unused, WhyUnusable};
use crate::units::Bytes;

/// Unused memory below this needs no reason.
const WORTH_A_REASON: Bytes = Bytes::mib(64);

/// What filled the device, in a few sentences.
pub(super) fn say(filled: &Filled) -> String {
    let said = match (&filled.request, &filled.totals) {
        (Some(request), _) => failed(filled, request),
        (None, Some(totals)) => holding(filled, totals),
        (None, None) => arrays(filled),
    };
    said.join(" ")
}

fn failed(filled: &Filled, request: &FailedRequest) -> Vec<String> {
    let who = match &request.at {
        Some(at) => format!("The {} that `{at}` asked for", request.bytes),
        None => format!("A request for {}", request.bytes),
    };
    let mut said = vec![format!("{who} did not fit: CUDA had {} free.", request.free_bytes)];
    said.extend(unused(filled, request));
    if would_fit_if_expandable(filled) {
        said.push("`expandable_segments:True` would have made it fit.".to_owned());
    }
    if let Some(growth) = filled.growth.first() {
        said.push(format!("What `{}` allocates grew from {} to {}.", growth.at, growth.from_bytes, growth.to_bytes));
    } else if unused_is_small(filled, request) {
        said.extend(most_alive(filled));
    }
    said
}

/// Whether what is unused is too little for the request, so that what is allocated is the reason.
fn unused_is_small(filled: &Filled, request: &FailedRequest) -> bool {
    let unused = filled.totals.as_ref().map_or(Bytes::ZERO, Totals::unused_bytes);
    unused.plus(request.free_bytes) < request.bytes
}

fn most_alive(filled: &Filled) -> Option<String> {
    let most = filled.alive.first()?;
    Some(format!(
        "{} is allocated, most of it from `{}` ({}).",
        filled.allocated_bytes,
        line_in_words(most.at.as_ref()),
        most.bytes
    ))
}

/// What PyTorch had and could not use, and why.
fn unused(filled: &Filled, request: &FailedRequest) -> Option<String> {
    let totals = filled.totals.as_ref()?;
    let unused = totals.unused_bytes();
    if unused < WORTH_A_REASON {
        return None;
    }
    let mut reasons = Vec::new();
    if totals.usable_bytes > Bytes::ZERO && totals.largest_usable_bytes < request.bytes {
        let in_pieces = filled.unusable.iter().find(|row| row.why == WhyUnusable::InPieces);
        let which = in_pieces.and_then(which_segments).map_or_else(String::new, |which| format!(" ({which})"));
        reasons.push(format!("the largest piece was {}{which}", totals.largest_usable_bytes));
    }
    let barred = [
        (WhyUnusable::OtherPool, "belongs to a CUDA-graph pool"),
        (WhyUnusable::OtherStream, "belongs to another stream"),
        (WhyUnusable::OtherSize, "is in segments for another size"),
        (WhyUnusable::PendingFree, "waits for a stream that still uses it"),
    ];
    reasons.extend(barred.into_iter().filter_map(|(why, said)| {
        let bytes = sum(filled, why);
        (bytes >= WORTH_A_REASON).then(|| format!("{bytes} {said}"))
    }));
    let unused = format!("PyTorch had {unused} unused");
    Some(match reasons.split_last() {
        None => format!("{unused}."),
        Some((only, [])) => format!("{unused}, but {only}."),
        Some((last, rest)) => format!("{unused}, but {} and {last}.", rest.join(", ")),
    })
}

fn sum(filled: &Filled, why: WhyUnusable) -> Bytes {
    let rows = filled.unusable.iter().filter(|row| row.why == why);
    rows.fold(Bytes::ZERO, |sum, row| sum.plus(row.bytes))
}

/// "4 segments of `model.py:41 attention` are 25 % full".
fn which_segments(row: &Unused) -> Option<String> {
    let beside = row.beside.as_ref()?;
    let (segments, are) = if row.segments == 1 { ("segment", "is") } else { ("segments", "are") };
    Some(format!("{} {segments} of `{beside}` {are} {} % full", row.segments, row.percent_full()))
}

fn has_the_most(filled: &Filled) -> Option<String> {
    let most = filled.alive.first()?;
    Some(format!("`{}` has the most, {}.", line_in_words(most.at.as_ref()), most.bytes))
}

/// What JAX's profile has: it tells no request and nothing of the memory around the arrays.
fn arrays(filled: &Filled) -> Vec<String> {
    let mut said = vec![format!("JAX has {} of arrays on {}.", filled.allocated_bytes, filled.device_in_words())];
    said.extend(has_the_most(filled));
    said
}

/// What is allocated where nothing failed.
fn holding(filled: &Filled, totals: &Totals) -> Vec<String> {
    let mut said = vec![format!(
        "No request failed in this snapshot: PyTorch has {} allocated of {} reserved.",
        totals.allocated_bytes, totals.reserved_bytes
    )];
    said.extend(has_the_most(filled));
    if let Some(growth) = filled.growth.first() {
        said.push(format!("What `{}` allocates grew from {} to {}.", growth.at, growth.from_bytes, growth.to_bytes));
    }
    if let Some(peak) = filled.peak.as_ref().filter(|peak| peak.bytes > totals.allocated_bytes) {
        said.push(format!("The peak was {}.", peak.bytes));
    }
    said
}
