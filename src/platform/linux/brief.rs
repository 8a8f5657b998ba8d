//! Owns the short form of a reading, in which the sampling child tells the terminal program only the rows that changed: of
//! many processes hardly any differs from one second to the next. The public stream has whole readings. Both ends remember
//! the rows of the reading before, which a pipe neither loses nor swaps.

use std::io::{self, Write};

use serde::de::Error;
use serde::{Deserialize, Serialize};

use crate::gpu::{GpuProcess, Snapshot};
use crate::platform::contract::{News, write_line};

/// How a line in the short form begins.
const BRIEF: &[u8] = b"{\"order\"";

/// The short form as it is written, with the rows of each GPU beside the reading.
#[derive(Serialize)]
struct Written<'a> {
    /// The PIDs of all rows.
    order: Vec<Vec<u32>>,
    /// The rows that differ from the reading before.
    changed: Vec<Vec<&'a GpuProcess>>,
    reading: &'a Snapshot,
}

/// The same as it is read.
#[derive(Deserialize)]
struct Read {
    order: Vec<Vec<u32>>,
    changed: Vec<Vec<GpuProcess>>,
    reading: Box<Snapshot>,
}

/// The rows of each GPU.
type Rows = Vec<Vec<GpuProcess>>;

/// Writes readings, in the short form if asked for.
#[derive(Debug)]
pub(crate) struct Writer {
    is_brief: bool,
    before: Rows,
}

impl Writer {
    pub(crate) fn new(is_brief: bool) -> Writer {
        Writer { is_brief, before: Rows::new() }
    }

    /// Writes a reading and says whether somebody still reads. In the short form its rows are kept for the next one.
    pub(crate) fn write(&mut self, out: &mut impl Write, snapshot: &mut Snapshot) -> io::Result<bool> {
        if !self.is_brief {
            return write_line(out, snapshot);
        }
        let rows: Rows = snapshot.devices.iter_mut().map(|device| std::mem::take(&mut device.processes)).collect();
        let order = rows.iter().map(|rows| rows.iter().map(|row| row.pid).collect()).collect();
        let changed = rows.iter().enumerate().map(|(device, rows)| self.changed(device, rows)).collect();
        let is_read = write_line(out, &Written { order, changed, reading: snapshot })?;
        self.before = rows;
        Ok(is_read)
    }

    fn changed<'a>(&self, device: usize, rows: &'a [GpuProcess]) -> Vec<&'a GpuProcess> {
        let before = self.before.get(device).map_or(&[][..], Vec::as_slice);
        let changed = rows.iter().enumerate().filter(|(at, row)| {
            place(before, *at, row.pid).and_then(|place| before.get(place)).is_none_or(|before| before != *row)
        });
        changed.map(|(_, row)| row).collect()
    }
}

/// Where the row of this PID stands, which is at `at` as long as nothing moves.
fn place(rows: &[GpuProcess], at: usize, pid: u32) -> Option<usize> {
    match rows.get(at) {
        Some(row) if row.pid == pid => Some(at),
        _ => rows.iter().position(|row| row.pid == pid),
    }
}

/// Reads the lines of the stream, whole readings out of short ones.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    before: Rows,
}

impl Reader {
    pub(crate) fn parse(&mut self, line: &[u8], is_first: bool) -> Result<News, serde_json::Error> {
        if !line.starts_with(BRIEF) {
            return News::parse(line, is_first);
        }
        let Read { order, changed, mut reading } = serde_json::from_slice(line)?;
        if order.len() != reading.devices.len() || changed.len() != order.len() {
            return Err(serde_json::Error::custom("rows of other GPUs than are listed"));
        }
        let mut rows = Rows::new();
        for (device, (pids, changed)) in order.into_iter().zip(changed).enumerate() {
            let before = self.before.get(device).map_or(&[][..], Vec::as_slice);
            let whole = merged(before, &pids, changed);
            rows.push(whole.ok_or_else(|| serde_json::Error::custom("a row that was never told"))?);
        }
        for (device, rows) in reading.devices.iter_mut().zip(&rows) {
            device.processes.clone_from(rows);
        }
        self.before = rows;
        Ok(News::Snapshot(reading))
    }
}

/// All rows: those that changed, and the others as they were.
fn merged(before: &[GpuProcess], pids: &[u32], changed: Vec<GpuProcess>) -> Option<Vec<GpuProcess>> {
    let mut changed = changed.into_iter().peekable();
    let rows = pids.iter().enumerate().map(|(at, pid)| match changed.next_if(|row| row.pid == *pid) {
        Some(row) => Some(row),
        None => place(before, at, *pid).and_then(|place| before.get(place)).cloned(),
    });
    let rows: Option<Vec<GpuProcess>> = rows.collect();
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
        assert!(writer.write(&mut line, &mut reading.clone()).unwrap());
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
                let line = written(&mut writer, &reading);
                let Ok(News::Snapshot(read)) = reader.parse(&line, false) else { panic!("not a reading") };
                prop_assert_eq!(*read, reading);
            }
        }
    }

    #[test]
    fn a_row_that_did_not_change_is_not_written_again_and_one_that_was_never_written_is_refused() {
        let mut writer = Writer::new(true);
        let first = written(&mut writer, &machine(&[vec![(41, 1), (42, 1)]]));
        let second = written(&mut writer, &machine(&[vec![(41, 1), (42, 2)]]));
        let rows = |line: &[u8]| serde_json::from_slice::<Read>(line).unwrap().changed[0].len();
        assert_eq!((rows(&first), rows(&second)), (2, 1));
        assert!(Reader::default().parse(&second, false).is_err(), "41 is not known");
    }
}
