//! Owns the steps that end a holder, or have its own program give the memory back.

use super::fill::{step_of, substitute};
use super::{FreesIs, HOLDERS, PlannedFix, Step, WORTH_ENDING, empty};
use crate::advice::{Place, Situation, name_of, release, verdict};
use crate::gpu::{GpuProcess, ProcessKey};
use crate::knowledge::fix::{Fix, FixCommand};

/// A step for each holder that may be offered, see [`verdict::holders`].
pub fn end_holders(fix: &Fix, situation: &Situation<'_>, place: &Place<'_>) -> Vec<PlannedFix> {
    let named = |pid: u32| place.named.iter().any(|named| named.pid == pid);
    verdict::holders(situation, place)
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
        "model" => release::named_model(row.recognised_as.as_deref()?),
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
    let planned = PlannedFix {
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
    };
    Some(gentlest(planned, row))
}

/// What its own program can be asked for, or its container stopped by, comes before ending it.
fn gentlest(planned: PlannedFix, row: &GpuProcess) -> PlannedFix {
    let gentler = |action: String, command: Option<String>| {
        let steps =
            planned.steps.iter().map(|step| Step { action: action.clone(), command: command.clone(), ..step.clone() });
        PlannedFix {
            title: format!("Get back the memory of {}", name_of(row)),
            steps: steps.collect(),
            gentle: true,
            ..planned.clone()
        }
    };
    if let Some(release) = release::route(row) {
        let action = format!("{}. {}", release.asks(), release.means());
        return PlannedFix {
            costs: release.costs().into(),
            safety: release.safety(),
            release: Some(release.clone()),
            ..gentler(action, release.command())
        };
    }
    match release::stops_container(row).filter(|_| !planned.gentle) {
        Some(stop) => gentler("Stop its container: it may start what is ended alone again".into(), Some(stop)),
        None => planned,
    }
}
