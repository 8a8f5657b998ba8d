//! Owns the tables that `torch.cuda.memory_summary()` prints, as far as a log has them: what the allocator of one process
//! had, and what that proves of a failure.

use schemars::JsonSchema;
use serde::Serialize;

use super::diagnosis::{Diagnosis, Oom, Shown};
use crate::ids::FixId;
use crate::log::PastedLog;
use crate::units::{Bytes, UnitBase};

/// A log with more tables than this prints one each step: the last ones tell of the failure.
const TABLES: usize = 64;
/// Less of what is reserved is usual.
const NOTABLE_PERCENT: u64 = 5;
/// So much of it in pieces between what is in use is fragmentation.
const FRAGMENTED_PERCENT: u64 = 20;

/// The table of one device. What a cut or older table lacks is absent.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemorySummary {
    /// The line of its heading, in the file.
    pub line: usize,
    /// The device, by the process's own numbers.
    pub device: Option<u32>,
    /// How many allocations failed so far.
    pub ooms: Option<u64>,
    /// How often the allocator emptied its cache to try again.
    pub retries: Option<u64>,
    /// What tensors use, rounded up as the allocator rounds.
    pub allocated: Option<Usage>,
    /// The same with what was freed while a stream still uses it.
    pub active: Option<Usage>,
    /// What the program asked for, before rounding; PyTorch before 2.0 does not print it.
    pub requested: Option<Usage>,
    /// What PyTorch took from CUDA.
    pub reserved: Option<Usage>,
    /// What lies unused between what is in use, so that `empty_cache()` does not free it.
    pub non_releasable: Option<Usage>,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Usage {
    /// When the table was printed.
    pub now_bytes: Bytes,
    /// The most so far.
    pub peak_bytes: Bytes,
}

impl MemorySummary {
    fn read(&mut self, line: &str) {
        self.ooms = self.ooms.or(count_behind(line, "OOMs:"));
        self.retries = self.retries.or(count_behind(line, "Malloc retries:"));
        let rows = [
            ("Allocated memory", &mut self.allocated),
            ("Active memory", &mut self.active),
            ("Requested memory", &mut self.requested),
            ("GPU reserved memory", &mut self.reserved),
            ("Non-releasable memory", &mut self.non_releasable),
        ];
        for (name, row) in rows {
            *row = row.or_else(|| usage_behind(line, name));
        }
    }

    /// What of the memory that is reserved one row has more than another, where that is notable.
    fn notable(&self, more: Option<Usage>, less: Option<Usage>, percent: u64) -> Option<Bytes> {
        let part = more?.now_bytes.less(less?.now_bytes);
        let reserved = self.reserved?.now_bytes;
        let is_notable = u128::from(part.0) * 100 >= u128::from(reserved.0) * u128::from(percent);
        (is_notable && part > Bytes::ZERO).then_some(part)
    }

    /// What lies in pieces between what is in use, where that is much of what is reserved.
    pub fn in_pieces(&self) -> Option<Bytes> {
        self.notable(self.non_releasable, Some(Usage::default()), FRAGMENTED_PERCENT)
    }

    /// What the table shows that asks for fixes of its own.
    fn signs(&self) -> Vec<Shown> {
        // Builds that do not count what was requested print 0 for all of it.
        let requested = self.requested.filter(|requested| requested.now_bytes > Bytes::ZERO);
        let rounding = self.notable(self.allocated, requested, NOTABLE_PERCENT);
        let pending = self.notable(self.active, self.allocated, NOTABLE_PERCENT);
        let rounding = rounding.map(|bytes| (format!("rounding takes {bytes}"), FixId::EXACT_BLOCK_SIZES));
        let pending =
            pending.map(|bytes| (format!("{bytes} waits for a stream that still uses it"), FixId::FREE_ACROSS_STREAMS));
        rounding.into_iter().chain(pending).map(|(what, fix)| self.sign(&what, fix)).collect()
    }

    fn sign(&self, what: &str, fix: FixId) -> Shown {
        let that = format!("the memory summary in line {} shows that {what}", self.line);
        Shown { that, fixes: vec![fix], withholds: Vec::new(), condition: None, version_matters: false }
    }
}

/// The number behind a word of the table; none where the line is cut off in it.
fn count_behind(line: &str, word: &str) -> Option<u64> {
    let (_, behind) = line.split_once(word)?;
    let (number, _) = behind.trim_start().split_once(|c: char| !c.is_ascii_digit())?;
    number.parse().ok()
}

/// The first two figures of a row of the table: PyTorch printed KB for KiB before 2.0.
fn usage_behind(line: &str, name: &str) -> Option<Usage> {
    let (_, behind) = line.split_once(name)?;
    let cells: Vec<&str> = behind.split('|').collect();
    // What follows the last bar is cut off.
    let [_, now, peak, _, ..] = cells.as_slice() else { return None };
    let bytes = |cell| Bytes::parse(cell, UnitBase::Binary);
    Some(Usage { now_bytes: bytes(now)?, peak_bytes: bytes(peak)? })
}

/// The tables of a log, in its order. Rows belong to the heading above them.
pub fn read(log: &PastedLog) -> Vec<MemorySummary> {
    const HEADING: &str = "memory summary, device ID";
    let mut found: Vec<MemorySummary> = Vec::new();
    if !log.text().contains(HEADING) {
        return found;
    }
    for (number, line) in log.lines() {
        if let Some(device) = line.contains(HEADING).then(|| count_behind(line, "device ID")) {
            if found.len() == TABLES {
                found.remove(0);
            }
            let device = device.and_then(|device| u32::try_from(device).ok());
            found.push(MemorySummary { line: log.number_in_file(number), device, ..MemorySummary::default() });
        } else if let Some(table) = found.last_mut().filter(|_| line.contains('|')) {
            table.read(line);
        }
    }
    found
}

/// Adds the tables of a log to what it says. Those of the failure may ask for fixes.
pub(super) fn add(diagnosis: &mut Diagnosis, log: &PastedLog) {
    diagnosis.memory_summaries = read(log);
    if diagnosis.oom != Oom::No {
        // What was measured comes before what the log may mean.
        let signs = diagnosis.summary_of_failure().map(MemorySummary::signs).unwrap_or_default();
        diagnosis.signs.splice(0..0, signs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
2026-11-24 [rank0] |===========================================================================|
2026-11-24 [rank0] |                  PyTorch CUDA memory summary, device ID 1                 |
2026-11-24 [rank0] |            CUDA OOMs: 3            |        cudaMalloc retries: 214       |
2026-11-24 [rank0] |        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
2026-11-24 [rank0] | Allocated memory      |  10240 MiB |  20480 MiB |   1234 GiB |   1233 GiB |
2026-11-24 [rank0] |       from large pool |      1 MiB |      1 MiB |      1 MiB |      1 MiB |
2026-11-24 [rank0] | Active memory         |  12288 MiB |  20480 MiB |   1234 GiB |   1233 GiB |
2026-11-24 [rank0] | Requested memory      |   9216 MiB |  18432 MiB |   1234 GiB |   1233 GiB |
2026-11-24 [rank0] | GPU reserved memory   |  20480 MiB |  20480 MiB |  22528 MiB |      0 B   |
2026-11-24 [rank0] | Non-releasable memory |   8192 MiB |   9216 MiB |   1234 GiB |   1233 GiB |
2026-11-24 [rank0] | Allocations           |     502    |     517    |   33598    |   33096    |
";

    fn tables(text: &str) -> Vec<MemorySummary> {
        read(&PastedLog::new(text.to_owned()))
    }

    #[test]
    fn every_row_is_read_behind_whatever_a_logger_prints_before_it() {
        let all = tables(TABLE);
        let [table] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((table.line, table.device, table.ooms, table.retries), (2, Some(1), Some(3), Some(214)));
        let allocated = Usage { now_bytes: Bytes::gib(10), peak_bytes: Bytes::gib(20) };
        assert_eq!(table.allocated, Some(allocated));
        assert_eq!(table.reserved.map(|row| row.now_bytes), Some(Bytes::gib(20)));
        assert_eq!(table.in_pieces(), Some(Bytes::gib(8)));
        let fixes: Vec<FixId> = table.signs().into_iter().flat_map(|sign| sign.fixes).collect();
        assert_eq!(fixes, [FixId::EXACT_BLOCK_SIZES, FixId::FREE_ACROSS_STREAMS], "1 GiB each or more of 20");
    }

    #[test]
    fn what_a_cut_or_old_table_lacks_is_unknown_and_several_devices_stay_apart() {
        let old = "|  PyTorch CUDA memory summary, device ID 0  |\n| GPU reserved memory   |    2048 KB |    4 MB |";
        let all = tables(&format!("{TABLE}step 3\n{old}\n"));
        assert_eq!(all.iter().map(|table| table.device).collect::<Vec<_>>(), [Some(1), Some(0)]);
        let allocated = Usage { now_bytes: Bytes::gib(10), peak_bytes: Bytes::gib(20) };
        let reserved = Usage { now_bytes: Bytes(2 << 20), peak_bytes: Bytes(4 << 20) };
        assert_eq!((all[1].reserved, all[1].allocated, all[1].ooms), (Some(reserved), None, None));
        assert!(all[1].in_pieces().is_none() && all[1].signs().is_empty());
        for end in 0..TABLE.len() {
            for cut in tables(TABLE.get(..end).unwrap_or_default()) {
                assert!(cut.retries.is_none_or(|count| count == 214) && cut.device.is_none_or(|device| device == 1));
                assert!(cut.allocated.is_none_or(|row| row == allocated), "{cut:?}");
            }
        }
        assert!(tables("| Allocated memory | 1 MiB | 1 MiB |").is_empty(), "no heading");
    }
}
