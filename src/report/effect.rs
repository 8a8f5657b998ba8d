//! Owns a fix in a few words: what it frees, whether that is enough, and what it costs.

use crate::advice::{Enough, PlannedFix, words};

/// What a fix frees, where that is known.
pub(super) fn effect(planned: &PlannedFix) -> String {
    let is_known = planned.frees_bytes.is_some() || planned.room_on.is_some();
    if is_known { words::gives_back(planned) } else { String::new() }
}

/// Whether a fix is enough, and what it costs.
pub(super) fn outcome(planned: &PlannedFix) -> String {
    let enough = match planned.enough {
        Enough::Yes => "enough",
        Enough::Likely => "likely enough",
        Enough::NotAlone => "not enough alone",
        Enough::WithOthers => "enough together",
        Enough::LacksRam { .. } => "not enough RAM",
        Enough::Unknown => "",
    };
    let cost = match planned.costs.as_str() {
        "nothing" | "none" => "costs nothing".to_owned(),
        cost => match cost.strip_prefix("none ") {
            Some(condition) => format!("costs nothing {condition}"),
            None => cost.to_owned(),
        },
    };
    [enough, cost.as_str()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Both in one phrase.
pub(super) fn effect_and_outcome(planned: &PlannedFix) -> String {
    [effect(planned), outcome(planned)].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}
