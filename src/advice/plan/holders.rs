//! Owns the steps that end a holder, or have its own program give the memory back.

use super::fill::{step_of, substitute};
use super::{FreesIs, HOLDERS, PlannedFix, WORTH_ENDING, empty};
use crate::advice::{Place, Situation, name_of, verdict};
use crate::gpu::{GpuProcess, ProcessKey};
use crate::knowledge::fix::{Fix, FixCommand};
use crate::units::Bytes;

/// A step for each holder that may be offered, see [`verdict::holders`]. Those the log names come first; of the others
/// the smallest that is enough alone, so that nobody loses work for nothing.
pub fn end_holders(fix: &Fix, situation: &Situation<'_>, place: &Place<'_>, missing: Option<Bytes>) -> Vec<PlannedFix> {
    let named = |pid: u32| place.named.iter().any(|named| named.pid == pid);
    let mut holders = verdict::holders(situation, place);
    let enough = holders.iter().rposition(|(row, _)| {
        let held = row.used_bytes.value();
        !named(row.pid) && missing.zip(held).is_some_and(|(missing, held)| missing > Bytes::ZERO && held >= missing)
    });
    let unnamed = holders.iter().position(|(row, _)| !named(row.pid));
    if let (Some(enough), Some(first)) = (enough, unnamed) {
        let holder = holders.remove(enough);
        holders.insert(first, holder);
    }
    holders
        .into_iter()
        .filter(|(row, _)| named(row.pid) || row.used_bytes.value().is_some_and(|bytes| bytes >= WORTH_ENDING))
        .take(HOLDERS)
        .filter_map(|(row, key)| end_holder(fix, situation, place, row, key))
        .collect()
}

fn end_holder(
    fix: &Fix,
    situation: &Situation<'_>,
    place: &Place<'_>,
    row: &GpuProcess,
    key: ProcessKey,
) -> Option<PlannedFix> {
    let what = format!(
        "{} {}",
        row.recognised_as.as_deref().unwrap_or_default(),
        row.command.known().map_or("", String::as_str)
    )
    .to_lowercase();
    let fill = |name: &str| match name {
        "pid" => Some(key.to_string()),
        "holder" => Some(name_of(row)),
        "model" => model_of(row),
        _ => None,
    };
    // Its own program's way, where all of it is known; else the way that fits any.
    let whole = |command: &FixCommand| command.command.as_deref().is_none_or(|text| substitute(text, &fill).is_some());
    let own = fix.commands.iter().filter(|command| command.program != "*" && what.contains(&command.program));
    let any = fix.commands.iter().filter(|command| command.program == "*");
    let command = own.chain(any).find(|command| whole(command))?;
    let free = place.device.and_then(|device| device.memory.free_bytes.value());
    let after = free.zip(row.used_bytes.value()).map(|(free, held)| free.plus(held));
    let mut step = step_of(fix, command, &fill)?;
    if let Some(after) = after {
        step.expect = format!("Expect {after} free afterwards.");
    }
    let snapshot = situation.snapshot?;
    Some(PlannedFix {
        title: match command.program.as_str() {
            "*" => substitute(&fix.title, &fill)?,
            _ => format!("Get back the memory of {}", name_of(row)),
        },
        frees_bytes: snapshot.held_by(key),
        frees_is: snapshot.held_by(key).map(|_| FreesIs::Fact),
        target: Some(key),
        gentle: command.program != "*",
        steps: vec![step],
        ..empty(fix)
    })
}

/// The model that the row's label names, where it has the form of one: it goes into a command line.
fn model_of(row: &GpuProcess) -> Option<String> {
    let label = row.recognised_as.as_deref()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '/' | '-');
    let words = label.split_whitespace().map(|word| word.trim_matches(['(', ')', ',']));
    words.filter(|word| word.contains(':') && word.chars().all(plain)).map(str::to_owned).next()
}
