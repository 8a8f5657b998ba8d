//! Owns the search for the run that was started again after a fix.

use crate::advice::rerun::Change;
use crate::app::again::Again;
use crate::app::effect::Effect;
use crate::app::model::Model;
use crate::app::walk::Mark;
use crate::gpu::{GpuProcess, ProcessKey, Snapshot};
use crate::units::{Bytes, WallTime};

/// Looks for the run in a new reading; asks for its environment when it is found and variables were advised.
pub(super) fn watch_run(model: &mut Model) -> Option<Effect> {
    let since = model.walk.since?;
    let Some(again) = &model.walk.again else {
        let found = likely_run(model, since)?;
        let key = found.key;
        model.walk.again = Some(found);
        let names = advised_variables(model);
        return (!names.is_empty()).then_some(Effect::ReadEnvironment { key, names });
    };
    let key = again.key;
    let used = model.snapshot().and_then(|snapshot| used_by(snapshot, key));
    if let Some(again) = &mut model.walk.again {
        again.here = used.is_some();
        again.most = again.most.max(used.flatten().unwrap_or(Bytes::ZERO));
    }
    None
}

/// What a listed process uses, where the driver says; `None` where the process is not listed.
fn used_by(snapshot: &Snapshot, key: ProcessKey) -> Option<Option<Bytes>> {
    snapshot.find(key)?;
    Some(snapshot.held_by(key))
}

/// The largest of the person's processes that were started since then; one that runs their script before others.
fn likely_run(model: &Model, since: WallTime) -> Option<Again> {
    let snapshot = model.snapshot()?;
    let rerun = model.rerun();
    let script = rerun.as_deref().and_then(|line| line.split_whitespace().find(|word| word.ends_with(".py")));
    let rows = snapshot.devices.iter().flat_map(|device| &device.processes);
    let own = rows.filter(|row| model.config.viewer.owns(row) && row.proved);
    let (row, key) = own
        .filter(|row| row.started_at.value().is_some_and(|started| started >= since))
        .filter_map(|row| Some((row, row.key()?)))
        .filter(|(_, key)| !was_terminated(model, *key))
        .max_by_key(|(row, _)| (runs_script(row, script), row.used_bytes.value()))?;
    Some(Again {
        key,
        name: crate::advice::name_of(row),
        most: snapshot.held_by(key).unwrap_or(Bytes::ZERO),
        here: true,
        variables: Vec::new(),
    })
}

fn runs_script(row: &GpuProcess, script: Option<&str>) -> bool {
    script.zip(row.command.known()).is_some_and(|(script, command)| command.contains(script))
}

/// Whether the person terminated this process, or a supervisor started it to replace one that they terminated: then it is no
/// run of theirs.
fn was_terminated(model: &Model, key: ProcessKey) -> bool {
    let mut successors = model.endings.iter().filter_map(|ending| ending.again.as_ref());
    model.ending_of(key).is_some() || successors.any(|successor| successor.pid == key.pid)
}

/// The environment variables that the steps taken set.
fn advised_variables(model: &Model) -> Vec<String> {
    let taken = model.walk.behind.iter().filter(|behind| behind.mark == Mark::Taken);
    let all = taken.flat_map(|behind| behind.changes.iter().flat_map(|changes| &changes.all));
    all.filter_map(|change| match change {
        Change::Env(name, _) => Some(name.clone()),
        _ => None,
    })
    .collect()
}

/// Notes whether the advised variables are set in the run.
pub(super) fn has_environment(model: &mut Model, key: ProcessKey, variables: Vec<(String, bool)>) {
    if let Some(again) = model.walk.again.as_mut().filter(|again| again.key == key) {
        again.variables = variables;
    }
}
