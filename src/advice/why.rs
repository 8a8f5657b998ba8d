//! Owns why the advice is what it is: which rule found each cause, put each step where it is, and kept others from being
//! offered; for `oomdoctor diagnose --why` and the screen.

use super::causes;
use super::told::Advice;
use crate::memory::Is;

/// What put a step where it is, where no placement moved it.
const IN_ITS_PLACE: &str = "the order of the matched entry";

/// A part of the explanation: a heading and its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub heading: &'static str,
    pub lines: Vec<String>,
}

/// The explanation in parts; a part with nothing to say is left out.
pub(crate) fn explained(advice: &Advice) -> Vec<Part> {
    let parts = [
        Part { heading: "Why these causes", lines: causes_found(advice) },
        Part { heading: "Why these steps, in this order", lines: steps_placed(advice) },
        Part { heading: "Not offered", lines: not_offered(advice) },
    ];
    parts.into_iter().filter(|part| !part.lines.is_empty()).collect()
}

fn causes_found(advice: &Advice) -> Vec<String> {
    let found = advice.verdict.causes.iter();
    found.map(|cause| format!("{} ({}): {}", causes::name(cause.cause), cause.strength.as_ref(), cause.rule)).collect()
}

fn steps_placed(advice: &Advice) -> Vec<String> {
    let placed = advice.plan.iter().enumerate();
    placed
        .map(|(at, planned)| {
            let frees = match (planned.frees_bytes, planned.frees_is) {
                (Some(bytes), Some(Is::Fact)) => format!("frees {bytes}, "),
                (Some(bytes), _) => format!("frees ≈ {bytes}, "),
                (None, _) => String::new(),
            };
            let rule = planned.placed_by.unwrap_or(IN_ITS_PLACE);
            let shown =
                planned.because.as_ref().map_or_else(String::new, |that| format!("; the log shows that {that}"));
            let enough = planned.enough.as_ref();
            format!("{}. {}: {frees}enough: {enough}; placed by: {rule}{shown}", at + 1, planned.fix)
        })
        .collect()
}

fn not_offered(advice: &Advice) -> Vec<String> {
    advice.not_offered.iter().map(|step| format!("{}: {}", step.fix, step.rule)).collect()
}
