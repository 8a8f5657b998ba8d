//! Owns the short form of a reading, in which the sampling child tells the terminal program only what changed: of many GPUs
//! and processes hardly any differs from one second to the next. The public stream has whole readings. Both ends remember
//! the reading before, which a pipe neither loses nor swaps.

use std::io::{self, Write};
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::Error;
use serde::{Deserialize, Serialize};

use crate::gpu::{Device, GpuProcess, Rows, Snapshot, are_same};
use crate::platform::contract::{News, write_line};
use crate::units::WallTime;

/// How a line in the short form begins.
const BRIEF: &[u8] = b"{\"brief\"";

/// The short form as it is written.
#[derive(Serialize)]
struct Written<'a> {
    /// When the reading was complete.
    brief: WallTime,
    /// The reading without its GPUs, where it is another one than before.
    around: Option<&'a Snapshot>,
    /// Each GPU, where it is another one than before.
    gpus: Vec<Option<Changed<&'a Device, &'a GpuProcess>>>,
}

/// The same as it is read.
#[derive(Deserialize)]
struct Read {
    brief: WallTime,
    around: Option<Box<Snapshot>>,
    gpus: Vec<Option<Box<Changed<Device, GpuProcess>>>>,
}

/// A GPU of which something changed.
#[derive(Serialize, Deserialize)]
struct Changed<D, P> {
    /// The GPU without its rows.
    gpu: D,
    /// The PIDs of all rows.
    order: Vec<u32>,
    /// The rows that differ from the reading before.
    rows: Vec<P>,
}

/// Writes readings, in the short form if asked for.
#[derive(Debug)]
pub(crate) struct Writer {
    is_brief: bool,
    /// What was written last, without the GPUs, and these without their rows.
    around: Option<Snapshot>,
    gpus: Vec<(Device, Rows)>,
}

impl Writer {
    pub(crate) fn new(is_brief: bool) -> Writer {
        Writer { is_brief, around: None, gpus: Vec::new() }
    }

    /// Writes a reading and says whether somebody still reads. In the short form it is kept for the next one.
    pub(crate) fn write(&mut self, out: &mut impl Write, mut snapshot: Snapshot) -> io::Result<bool> {
        if !self.is_brief {
            return write_line(out, &snapshot);
        }
        let mut gpus = Vec::with_capacity(snapshot.devices.len());
        for mut device in std::mem::take(&mut snapshot.devices) {
            let rows = std::mem::take(&mut device.processes);
            gpus.push((device, rows));
        }
        // The moment, which always differs, is told apart from what it is the moment of.
        let brief = std::mem::replace(&mut snapshot.taken_at, WallTime(Timestamp::UNIX_EPOCH));
        let around = if self.around.as_ref() == Some(&snapshot) { None } else { Some(&snapshot) };
        let changed = gpus.iter().enumerate().map(|(at, (gpu, rows))| self.changed(at, gpu, rows)).collect();
        let is_read = write_line(out, &Written { brief, around, gpus: changed })?;
        (self.around, self.gpus) = (Some(snapshot), gpus);
        Ok(is_read)
    }

    /// What changed of a GPU, if anything did.
    fn changed<'a>(&self, at: usize, gpu: &'a Device, rows: &'a Rows) -> Option<Changed<&'a Device, &'a GpuProcess>> {
        let before = self.gpus.get(at);
        if before.is_some_and(|before| before.0 == *gpu && before.1 == *rows) {
            return None;
        }
        let before = before.map_or(&[][..], |before| before.1.shared());
        let order = rows.iter().map(|row| row.pid).collect();
        let rows = rows.shared().iter().enumerate().filter(|(at, row)| {
            place(before, *at, row.pid).and_then(|place| before.get(place)).is_none_or(|before| !are_same(before, row))
        });
        Some(Changed { gpu, order, rows: rows.map(|(_, row)| row.as_ref()).collect() })
    }
}

/// Where the row of this PID stands, which is at `at` as long as nothing moves.
fn place(rows: &[Arc<GpuProcess>], at: usize, pid: u32) -> Option<usize> {
    match rows.get(at) {
        Some(row) if row.pid == pid => Some(at),
        _ => rows.iter().position(|row| row.pid == pid),
    }
}

/// Reads the lines of the stream, whole readings out of short ones.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    before: Option<Box<Snapshot>>,
}

impl Reader {
    pub(crate) fn parse(&mut self, line: &[u8], is_first: bool) -> Result<News, serde_json::Error> {
        if !line.starts_with(BRIEF) {
            return News::parse(line, is_first);
        }
        let Read { brief, around, gpus } = serde_json::from_slice(line)?;
        let mut before = self.before.take();
        let mut known =
            before.as_mut().map(|before| std::mem::take(&mut before.devices)).unwrap_or_default().into_iter();
        let mut devices = Vec::with_capacity(gpus.len());
        for changed in gpus {
            let device = match (known.next(), changed.map(|changed| *changed)) {
                (before, None) => before,
                (before, Some(Changed { gpu, order, rows })) => {
                    let before = before.map_or(Rows::default(), |before| before.processes);
                    merged(before.shared(), &order, rows).map(|processes| Device { processes, ..gpu })
                }
            };
            devices.push(device.ok_or_else(|| serde_json::Error::custom("a GPU or a row that was never told"))?);
        }
        let around = around.or(before);
        let around = around.ok_or_else(|| serde_json::Error::custom("a reading that was never told"))?;
        let reading = Box::new(Snapshot { taken_at: brief, devices, ..*around });
        self.before = Some(reading.clone());
        Ok(News::Snapshot(reading))
    }
}

/// All rows: those that changed, and the others as they were.
fn merged(before: &[Arc<GpuProcess>], pids: &[u32], changed: Vec<GpuProcess>) -> Option<Rows> {
    let mut changed = changed.into_iter().peekable();
    let rows = pids.iter().enumerate().map(|(at, pid)| match changed.next_if(|row| row.pid == *pid) {
        Some(row) => Some(Arc::new(row)),
        None => place(before, at, *pid).and_then(|place| before.get(place)).cloned(),
    });
    let rows: Option<Rows> = rows.collect();
    if changed.peek().is_none() { rows } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gpu::testing::{device, process, snapshot};
    use crate::units::Bytes;

    /// A machine whose GPUs list these processes (PID, GiB).
    fn machine(gpus: &[Vec<(u32, u64)>]) -> Snapshot {
        let rows = |rows: &[(u32, u64)]| rows.iter().map(|(pid, gib)| process(*pid, Bytes::gib(*gib))).collect();
        let devices = (0..).zip(gpus).map(|(index, listed)| device(index, rows(listed))).collect();
        Snapshot { devices, ..snapshot(0) }
    }

    fn written(writer: &mut Writer, reading: &Snapshot) -> Vec<u8> {
        let mut line = Vec::new();
        assert!(writer.write(&mut line, reading.clone()).unwrap());
        line
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(
            readings in prop::collection::vec(prop::collection::vec(prop::collection::btree_map(2..9_u32, 0..3_u64, 0..6), 0..3), 1..6)
        ) {
            let (mut writer, mut reader) = (Writer::new(true), Reader::default());
            for gpus in readings {
                let gpus: Vec<Vec<(u32, u64)>> = gpus.into_iter().map(|rows| rows.into_iter().collect()).collect();
                let reading = machine(&gpus);
                // The second time nothing has changed.
                for _ in 0..2 {
                    let line = written(&mut writer, &reading);
                    let Ok(News::Snapshot(read)) = reader.parse(&line, false) else { panic!("not a reading") };
                    prop_assert_eq!(&*read, &reading);
                }
            }
        }
    }

    #[test]
    fn a_row_that_did_not_change_is_not_written_again_and_one_that_was_never_written_is_refused() {
        let mut writer = Writer::new(true);
        let first = written(&mut writer, &machine(&[vec![(41, 1), (42, 1)]]));
        let second = written(&mut writer, &machine(&[vec![(41, 1), (42, 2)]]));
        let rows =
            |line: &[u8]| serde_json::from_slice::<Read>(line).unwrap().gpus[0].as_ref().map(|gpu| gpu.rows.len());
        let third = written(&mut writer, &machine(&[vec![(41, 1), (42, 2)]]));
        assert_eq!((rows(&first), rows(&second), rows(&third)), (Some(2), Some(1), None));
        assert!(Reader::default().parse(&second, false).is_err(), "41 is not known");
        assert!(Reader::default().parse(&third, false).is_err(), "the GPU is not known");
    }
}
