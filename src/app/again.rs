//! Owns the run that was started again after a step: which process it is, whether it came past the point where the
//! first one failed, and whether the variables that were advised reached it.

use super::effect::Effect;
use super::model::Model;
use super::walk::Mark;
use crate::advice::rerun::Change;
use crate::gpu::{GpuProcess, ProcessKey};
use crate::units::Bytes;

/// The run as it is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    pub key: ProcessKey,
    pub name: String,
    /// The most it was seen to hold.
    pub most: Bytes,
    /// Whether it is still listed.
    pub here: bool,
    /// Of each variable that was advised, whether it is set in the process; empty until that was read.
    pub variables: Vec<(String, bool)>,
}

impl Again {
    /// What is known of it, in sentences. `needed` is what the failed one needed at least.
    pub fn words(&self, needed: Option<Bytes>) -> String {
        let past = needed.filter(|needed| self.most >= *needed);
        let mut said = match (self.here, past) {
            (true, Some(needed)) => {
                format!("{} is running with {}, past the {needed} at which the first run failed.", self.name, self.most)
            }
            (true, None) => format!("{} is running with {}.", self.name, self.most),
            (false, _) => {
                format!("{} has exited; it used {} at most. [w] worked, [e] failed again.", self.name, self.most)
            }
        };
        for (name, reached) in &self.variables {
            let reached = if *reached { "has reached it" } else { "has not reached it: it is not in its environment" };
            said.push_str(&format!(" {name} {reached}."));
        }
        said
    }
}

/// Looks for the run in a new reading; asks for its environment when it is found and variables were advised.
pub(crate) fn watch(model: &mut Model) -> Option<Effect> {
    let since = model.walk.since?;
    let Some(again) = &model.walk.again else {
        let found = candidate(model, |row| row.started_at.value().is_some_and(|started| started >= since))?;
        let key = found.key;
        model.walk.again = Some(found);
        let names = advised(model);
        return (!names.is_empty()).then_some(Effect::ReadEnvironment { key, names });
    };
    let key = again.key;
    let held =
        model.snapshot().and_then(|snapshot| Some((snapshot.find(key)?, snapshot.held_by(key)))).map(|(_, held)| held);
    if let Some(again) = &mut model.walk.again {
        again.here = held.is_some();
        again.most = again.most.max(held.flatten().unwrap_or(Bytes::ZERO));
    }
    None
}

/// A process of the person's that holds GPU memory; the one whose command line has the words of theirs before others.
fn candidate(model: &Model, fits: impl Fn(&GpuProcess) -> bool) -> Option<Again> {
    let snapshot = model.snapshot()?;
    let own = model.rerun();
    let told = |row: &GpuProcess| {
        let script = own.as_deref().into_iter().flat_map(str::split_whitespace).find(|word| word.ends_with(".py"));
        script.zip(row.command.known()).is_some_and(|(script, command)| command.contains(script))
    };
    // What a supervisor started in the place of what was ended is no run of the person's.
    let successor = |pid: u32| model.endings.iter().any(|ending| ending.again.as_ref().is_some_and(|it| it.pid == pid));
    let ended = |key: ProcessKey| model.ending_of(key).is_some() || successor(key.pid);
    let rows = snapshot.devices.iter().flat_map(|device| &device.processes);
    let mine = rows.filter(|row| model.config.viewer.owns(row) && row.proved && fits(row));
    let (row, key) = mine
        .filter_map(|row| Some((row, row.key()?)))
        .filter(|(_, key)| !ended(*key))
        .max_by_key(|(row, _)| (told(row), row.used_bytes.value()))?;
    Some(Again {
        key,
        name: crate::advice::name_of(row),
        most: snapshot.held_by(key).unwrap_or(Bytes::ZERO),
        here: true,
        variables: Vec::new(),
    })
}

/// The environment variables that the steps taken set.
fn advised(model: &Model) -> Vec<String> {
    let taken = model.walk.behind.iter().filter(|behind| behind.mark == Mark::Taken);
    let all = taken.flat_map(|behind| behind.changes.iter().flat_map(|changes| &changes.all));
    all.filter_map(|change| match change {
        Change::Env(name, _) => Some(name.clone()),
        _ => None,
    })
    .collect()
}
