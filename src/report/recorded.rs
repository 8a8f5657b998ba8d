//! Owns what a report says of a recorded run: how long it ran, the most it used, how its memory rose before the failure,
//! and how the estimates did in the run after it.

use super::block::line_before;
use crate::record::held::compare;
use crate::record::recording::Recording;
use crate::record::{rise, words};

/// The lines about a record and the record of the next run, if there is one. `log`: the output of the first one.
pub fn lines(recording: &Recording, log: &str, next: Option<&Recording>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some((at, end)) = recording.end {
        lines.push(format!("The command {} after {}", words::end(end), words::seconds(at)));
    }
    lines.extend(words::peaks(recording));
    let rise = recording.failed_at().and_then(|at| rise::steepest(recording, at));
    if let Some(rise) = rise {
        let line = line_before(recording, log, &rise);
        lines.push(words::rise(&rise, line.as_deref(), true));
    }
    lines.extend(next.and_then(|next| compare(recording, next)).iter().flat_map(words::held));
    lines
}
