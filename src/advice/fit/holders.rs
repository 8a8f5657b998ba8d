//! Owns which processes could free memory for a model that does not fit now: the viewer's own on the GPU that were not
//! seen at work, and how each releases its memory. Pure; no process is terminated here. Bytes.

use crate::advice::name_of;
use crate::advice::offer::{Seen, Standing};
use crate::advice::release;
use crate::advice::supervisor::Supervisor;
use crate::gpu::{Device, GpuProcess, ProcessKey};
use crate::units::Bytes;

/// A process with less memory is not worth terminating.
const WORTH_ENDING: Bytes = Bytes::mib(256);

/// A process that could free its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub key: ProcessKey,
    /// In the fewest words that name it.
    pub name: String,
    /// VRAM that it uses on this GPU.
    pub bytes: Bytes,
    /// The command that frees its memory, the gentlest that is known; the last is `oomdoctor kill`, which asks first.
    pub command: String,
    /// Whether it was watched long enough to call it idle; else that is not known.
    pub is_idle: bool,
}

/// The processes that a step may be about, the idle ones first, then the largest.
pub(crate) fn not_busy(device: &Device, seen: Seen<'_>) -> Vec<Holder> {
    if seen.viewer.refuses_everything().is_some() {
        return Vec::new();
    }
    let mut found: Vec<Holder> = device.processes.iter().filter_map(|row| holder(row, seen)).collect();
    found.sort_by_key(|holder| (!holder.is_idle, std::cmp::Reverse(holder.bytes)));
    found
}

fn holder(row: &GpuProcess, seen: Seen<'_>) -> Option<Holder> {
    let key = seen.viewer.may_end(row).ok()?;
    let bytes = row.used_bytes.value().filter(|bytes| *bytes >= WORTH_ENDING)?;
    let asked = release::route(row).and_then(|release| Some((seen.if_released(row, &release), release.command()?)));
    let (standing, command) = asked.unwrap_or_else(|| {
        let stop = Supervisor::of(row).and_then(|supervisor| supervisor.stop(true)).map(|stop| stop.command);
        (seen.if_ended(row), stop.unwrap_or_else(|| format!("oomdoctor kill {key}")))
    });
    let is_idle = matches!(standing, Standing::Idle(_));
    standing.is_offered().then(|| Holder { key, name: name_of(row), bytes, command, is_idle })
}

/// The fewest of them whose memory is enough: the smallest that is enough alone, an idle one before others; else from the
/// first on. Empty where
/// all of them are not.
pub(crate) fn enough(holders: &[Holder], missing: Bytes) -> Vec<&Holder> {
    if let Some(alone) =
        holders.iter().filter(|holder| holder.bytes >= missing).min_by_key(|holder| (!holder.is_idle, holder.bytes))
    {
        return vec![alone];
    }
    let mut sum = Bytes::ZERO;
    let mut taken = Vec::new();
    for holder in holders {
        taken.push(holder);
        sum = sum.plus(holder.bytes);
        if sum >= missing {
            return taken;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Reading;
    use crate::gpu::Snapshot;
    use crate::gpu::guard::Viewer;
    use crate::gpu::history::History;
    use crate::gpu::testing::{device, process, snapshot};

    fn viewer() -> Viewer {
        Viewer { uid: 1000, lineage: vec![1], ..Viewer::default() }
    }

    fn found(rows: Vec<GpuProcess>) -> Vec<Holder> {
        let here = Snapshot { devices: vec![device(0, rows)], ..snapshot(0) };
        not_busy(&here.devices[0], Seen { snapshot: &here, history: None, viewer: &viewer() })
    }

    #[test]
    fn idle_ones_come_before_larger_ones_that_may_be_busy() {
        let mut history = History::default();
        let at = |second: i64, ticks: u64| {
            let mut unsteady = process(16, Bytes::gib(9));
            unsteady.cpu_ticks = Reading::Known(ticks);
            Snapshot { devices: vec![device(0, vec![unsteady, process(17, Bytes::gib(2))])], ..snapshot(second) }
        };
        let here = at(20, 60);
        history.note(&at(0, 10));
        history.note(&here);
        let found = not_busy(&here.devices[0], Seen { snapshot: &here, history: Some(&history), viewer: &viewer() });
        let pids: Vec<(u32, bool)> = found.iter().map(|holder| (holder.key.pid, holder.is_idle)).collect();
        assert_eq!(pids, [(17, true), (16, false)]);
    }

    #[test]
    fn only_the_viewers_own_that_are_not_busy_are_named() {
        let mut busy = process(10, Bytes::gib(3));
        busy.sm_percent = Reading::Known(40);
        let mut foreign = process(11, Bytes::gib(4));
        foreign.uid = Reading::Known(0);
        let mut unproved = process(12, Bytes::gib(4));
        unproved.proved = false;
        let mut ollama = process(13, Bytes::gib(6));
        ollama.recognised_as = Some("Ollama runner llama3.1:8b".into());
        let rows = vec![busy, foreign, unproved, process(14, Bytes::gib(2)), process(15, Bytes::mib(20)), ollama];
        let found = found(rows);
        let pids: Vec<u32> = found.iter().map(|holder| holder.key.pid).collect();
        assert_eq!(pids, [13, 14]);
        assert!(found[0].command.contains("ollama stop llama3.1:8b"), "{}", found[0].command);
        assert!(found[1].command.starts_with("oomdoctor kill 14@"), "{}", found[1].command);
    }

    #[test]
    fn the_fewest_that_are_enough() {
        let rows = [6, 3, 2].map(|gib| process(10 + gib, Bytes::gib(gib.into()))).to_vec();
        let found = found(rows);
        let pids = |missing| enough(&found, Bytes::gib(missing)).iter().map(|h| h.key.pid).collect::<Vec<_>>();
        assert_eq!(
            (pids(1), pids(3), pids(5), pids(8), pids(11)),
            (vec![12], vec![13], vec![16], vec![16, 13], vec![16, 13, 12])
        );
        assert_eq!(pids(12), Vec::<u32>::new());
    }
}
