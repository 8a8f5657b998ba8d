//! Owns who could give memory back for a model that does not fit now: the viewer's own processes on the card that do
//! nothing at this reading, and how each lets go. Pure; nothing is ended here. Bytes.

use crate::advice::supervisor::Supervisor;
use crate::advice::{name_of, release};
use crate::gpu::guard::Viewer;
use crate::gpu::{Device, GpuProcess, ProcessKey};
use crate::units::Bytes;

/// Holders of less are not worth an end.
const WORTH_ENDING: Bytes = Bytes::mib(256);

/// One that could let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Which.
    pub key: ProcessKey,
    /// In the fewest words that name it.
    pub name: String,
    /// What it holds on this card.
    pub bytes: Bytes,
    /// The command that has it let go, the gentlest that is known; the last is `oomdoctor kill`, which asks first.
    pub command: String,
}

/// The holders that do nothing at this reading and are the viewer's own (or a service that lets go for anybody), the
/// largest first.
pub fn idle(device: &Device, viewer: &Viewer) -> Vec<Holder> {
    let mut found: Vec<Holder> = device.processes.iter().filter_map(|row| holder(row, viewer)).collect();
    found.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
    found
}

fn holder(row: &GpuProcess, viewer: &Viewer) -> Option<Holder> {
    let key = release::reach(viewer, row)?;
    let bytes = row.used_bytes.value().filter(|bytes| *bytes >= WORTH_ENDING)?;
    // What may be at work is nobody's to end for the sake of another.
    row.sm_percent.value().is_none_or(|percent| percent == 0).then_some(())?;
    let asked = || release::route(row).and_then(|release| release.command());
    let stopped =
        || Supervisor::of(row).and_then(|supervisor| supervisor.stop(viewer.owns(row))).map(|stop| stop.command);
    let command = asked().or_else(stopped).unwrap_or_else(|| format!("oomdoctor kill {key}"));
    Some(Holder { key, name: name_of(row), bytes, command })
}

/// The fewest of them whose memory is enough: the smallest that is enough alone, else from the largest on. Empty where
/// all of them are not.
pub fn enough(holders: &[Holder], missing: Bytes) -> Vec<&Holder> {
    if let Some(alone) = holders.iter().filter(|holder| holder.bytes >= missing).min_by_key(|holder| holder.bytes) {
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
    use crate::gpu::testing::{device, process};

    fn viewer() -> Viewer {
        Viewer { uid: 1000, lineage: vec![1], ..Viewer::default() }
    }

    #[test]
    fn only_the_viewers_own_that_do_nothing_are_named() {
        let mut busy = process(10, Bytes::gib(3));
        busy.sm_percent = Reading::Known(40);
        let mut foreign = process(11, Bytes::gib(4));
        foreign.uid = Reading::Known(0);
        let mut unproved = process(12, Bytes::gib(4));
        unproved.proved = false;
        let mut ollama = process(13, Bytes::gib(6));
        ollama.recognised_as = Some("Ollama runner llama3.1:8b".into());
        let rows = vec![busy, foreign, unproved, process(14, Bytes::gib(2)), process(15, Bytes::mib(20)), ollama];
        let found = idle(&device(0, rows), &viewer());
        let pids: Vec<u32> = found.iter().map(|holder| holder.key.pid).collect();
        assert_eq!(pids, [13, 14]);
        assert!(found[0].command.contains("ollama stop llama3.1:8b"), "{}", found[0].command);
        assert!(found[1].command.starts_with("oomdoctor kill 14@"), "{}", found[1].command);
    }

    #[test]
    fn the_fewest_that_are_enough() {
        let rows = [6, 3, 2].map(|gib| process(10 + gib, Bytes::gib(gib.into()))).to_vec();
        let found = idle(&device(0, rows), &viewer());
        let pids = |missing| enough(&found, Bytes::gib(missing)).iter().map(|h| h.key.pid).collect::<Vec<_>>();
        assert_eq!(
            (pids(1), pids(3), pids(5), pids(8), pids(11)),
            (vec![12], vec![13], vec![16], vec![16, 13], vec![16, 13, 12])
        );
        assert_eq!(pids(12), Vec::<u32>::new());
    }
}
