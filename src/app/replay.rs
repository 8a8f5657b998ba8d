//! Owns the recording that is looked at: which part of it, at which moment, and what it says. The overlay "Recording" and
//! its drawing show it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::layout::replay_columns;
use super::scroll::shifted;
use crate::advice::short_card;
use crate::gpu::{Device, GpuProcess, Snapshot};
use crate::record::recording::Recording;
use crate::record::rise::{self, Rise};
use crate::record::{Millis, words};
use crate::report::block::line_before;
use crate::units::Bytes;

/// The part that is shown closer up.
const MINUTE: Millis = 60_000;
/// What a process uses is compared with what it used this long before.
pub(crate) const BEFORE: Millis = 1000;
/// A page key moves by this part of the columns.
const PAGES: usize = 10;

/// A record as it was read.
#[derive(Debug)]
pub struct Played {
    pub path: PathBuf,
    pub recording: Recording,
    /// The command's output, which is kept where memory ran out.
    pub output: Option<String>,
}

/// A recording that is looked at.
#[derive(Clone, Debug)]
pub struct Replay {
    pub tape: Arc<Played>,
    /// The GPUs, the one that ran out of memory first.
    pub gpus: Vec<u32>,
    /// The steepest rise before the failure.
    pub rise: Option<Rise>,
    /// The moments that a key jumps to, in order.
    pub jumps: Vec<Millis>,
    /// The first GPU that is shown, by its place in `gpus`.
    pub first: usize,
    /// The moment that is told below the curve.
    pub cursor: Millis,
    /// Whether only the last minute before the failure is shown.
    pub is_close_up: bool,
}

impl Replay {
    pub(crate) fn new(tape: Arc<Played>) -> Replay {
        let recording = &tape.recording;
        let end = recording.failed_at().unwrap_or(recording.length());
        let rise = rise::steepest(recording, end);
        let mut jumps: Vec<Millis> = recording.marks.iter().map(|(at, _)| *at).chain([end]).collect();
        jumps.extend(rise.iter().flat_map(|rise| [rise.began, rise.ended]));
        jumps.sort_unstable();
        jumps.dedup();
        let failed = recording.said.as_ref().and_then(|said| said.gpu).or(rise.map(|rise| rise.gpu));
        let mut gpus = recording.gpus();
        gpus.sort_by_key(|gpu| (Some(*gpu) != failed, *gpu));
        Replay { gpus, rise, jumps, first: 0, cursor: end, is_close_up: false, tape }
    }

    pub fn recording(&self) -> &Recording {
        &self.tape.recording
    }

    /// The beginning and the end of the part that is shown.
    pub fn span(&self) -> (Millis, Millis) {
        let length = self.recording().length().max(1);
        if !self.is_close_up {
            return (0, length);
        }
        let end = self.recording().failed_at().unwrap_or(length).min(length).max(1);
        (end.saturating_sub(MINUTE), end)
    }

    /// The column of a moment among so many; `None` if it is not shown.
    pub fn column_of(&self, moment: Millis, columns: usize) -> Option<usize> {
        let (from, to) = self.span();
        if moment < from || moment > to {
            return None;
        }
        // A column ends with its last moment, as in `curve::columns`.
        let at = (moment - from).saturating_mul(columns as u64).div_ceil((to - from).max(1));
        usize::try_from(at.saturating_sub(1)).ok().map(|at| at.min(columns.saturating_sub(1)))
    }

    /// The moment that a column stands for: when the first GPU shown used most within it.
    pub fn moment_of(&self, column: usize, columns: usize) -> Millis {
        let (from, to) = self.span();
        let edge = |column: usize| from + (to - from).saturating_mul(column as u64) / columns.max(1) as u64;
        let (begin, end) = (edge(column), edge(column + 1));
        let shown = self.gpus.get(self.first).copied();
        let within = shown.into_iter().flat_map(|gpu| self.recording().of_gpu(gpu));
        let within: Vec<(Millis, Bytes)> = within.filter(|(at, _)| *at > begin && *at <= end).collect();
        let before = shown.and_then(|gpu| self.recording().used_at(gpu, begin));
        let most = within.into_iter().rev().max_by_key(|(_, bytes)| *bytes);
        // Where it only fell, the column shows what was in use before.
        most.filter(|(_, bytes)| before.is_none_or(|before| *bytes >= before)).map_or(end, |(at, _)| at)
    }

    /// Moves the cursor by so many columns on a screen of this size.
    pub(crate) fn step(&mut self, by: i32, size: (u16, u16)) {
        let columns = replay_columns(size);
        let here = self.column_of(self.cursor, columns).unwrap_or(columns.saturating_sub(1));
        let there = shifted(here, by, columns);
        self.cursor = match there {
            _ if there == here => self.cursor,
            0 => self.span().0,
            _ => self.moment_of(there, columns),
        };
    }

    pub(crate) fn page(&mut self, by: i32, size: (u16, u16)) {
        let columns = i32::try_from(replay_columns(size) / PAGES).unwrap_or(1).max(1);
        // Down and right are later.
        self.step(by.saturating_mul(columns), size);
    }

    pub(crate) fn go_to_start(&mut self) {
        self.cursor = self.span().0;
    }

    pub(crate) fn go_to_end(&mut self) {
        self.cursor = self.span().1;
    }

    /// Goes to the next moment worth a look, or to the one before.
    pub(crate) fn jump(&mut self, is_forward: bool) {
        let mut jumps = self.jumps.iter().copied();
        let next = match is_forward {
            true => jumps.find(|at| *at > self.cursor),
            false => jumps.rfind(|at| *at < self.cursor),
        };
        if let Some(next) = next {
            self.cursor = next;
            self.is_close_up &= self.column_of(next, 1).is_some();
        }
    }

    pub(crate) fn turn_close_up(&mut self) {
        self.is_close_up = !self.is_close_up;
        let (from, to) = self.span();
        self.cursor = self.cursor.max(from).min(to);
    }

    /// Shows the next GPU first.
    pub(crate) fn scroll(&mut self, by: i32) {
        self.first = shifted(self.first, by, self.gpus.len());
    }

    /// What it shows in one sentence: the steepest rise, else the most that was in use.
    pub fn sentence(&self, unicode: bool) -> String {
        let recording = self.recording();
        if let Some(rise) = &self.rise {
            let line = self.tape.output.as_ref().and_then(|output| line_before(recording, output, rise));
            return words::rise(rise, line.as_deref(), unicode);
        }
        let peaks = words::peaks(recording);
        peaks.into_iter().next().unwrap_or_else(|| "The VRAM of this run is unknown.".into())
    }

    /// The moment in words: "3.2 s before the failure".
    pub fn moment(&self) -> String {
        let Some(failed) = self.recording().failed_at() else {
            return match self.cursor {
                0 => "At the start".to_owned(),
                at => format!("{} after the start", words::seconds(at)),
            };
        };
        match self.cursor {
            at if at == failed => "At the failure".to_owned(),
            at if at < failed => format!("{} before the failure", apart(failed - at)),
            at => format!("{} after the failure", apart(at - failed)),
        }
    }

    /// What the processes of a GPU used at the cursor, the largest first, and how that changed. `None` where no reading had
    /// come by then.
    pub fn processes(&self, gpu: u32) -> Option<Vec<UsedBy>> {
        let now = device(self.recording().at(self.cursor)?, gpu)?;
        let before = self.before().and_then(|before| device(before, gpu));
        let rows = now.processes.iter().filter_map(|row| UsedBy::of(row, before.as_ref()));
        let mut all: Vec<UsedBy> = rows.collect();
        let mut known = now.processes.iter().map(|row| row.used_bytes.value());
        let sum = known.try_fold(Bytes::ZERO, |sum, used| Some(sum.plus(used?)));
        let rest = now.memory.used_bytes.value().zip(sum).map(|(used, sum)| used.less(sum));
        all.extend(rest.filter(|rest| *rest >= Bytes::mib(64)).map(|rest| UsedBy {
            pid: None,
            user: None,
            what: "unattributed".to_owned(),
            used: Some(rest),
            change: None,
        }));
        Some(all)
    }

    /// The reading of the moment with which the one at the cursor is compared.
    fn before(&self) -> Option<Snapshot> {
        self.recording().at(self.cursor.checked_sub(BEFORE)?)
    }

    /// A GPU with what it used at the cursor: "GPU 0 RTX 4090: 22.9 of 24.0 GiB, 0.7 free, +8.4 in 1 s".
    pub fn heading(&self, gpu: u32) -> String {
        let recording = self.recording();
        let reading = recording.at(self.cursor).and_then(|reading| device(reading, gpu));
        let name =
            reading.as_ref().and_then(|device| device.name.known()).map(|name| short_card(name)).unwrap_or_default();
        let name = format!("GPU {gpu} {name}");
        let used = recording.used_at(gpu, self.cursor);
        let used = match (used, recording.total(gpu)) {
            (Some(used), Some(total)) => format!("{} of {total}", used.in_gib()),
            (Some(used), None) => format!("{used} in use, total unknown"),
            (None, _) => "VRAM unknown at this moment".to_owned(),
        };
        let free = reading.and_then(|device| device.memory.free_bytes.value());
        let free = free.map(|free| format!(", {} free", free.in_gib())).unwrap_or_default();
        let earlier = self.cursor.checked_sub(BEFORE).and_then(|then| recording.used_at(gpu, then));
        let change = earlier.zip(recording.used_at(gpu, self.cursor));
        let change = change.and_then(|(before, now)| Change::between(before, now));
        let change = change.map(|change| format!(", {change} in 1 s")).unwrap_or_default();
        format!("{}: {used}{free}{change}", name.trim_end())
    }

    /// The system memory at the cursor.
    pub fn ram(&self) -> String {
        let recording = self.recording();
        let host = recording.host_at(self.cursor).unwrap_or_default();
        let whole = recording.at(self.cursor).map(|reading| reading.host);
        let total = whole.as_ref().and_then(|host| host.memory_total_bytes.value());
        let available = host.available.or_else(|| whole.and_then(|host| host.memory_available_bytes.value()));
        let mut parts: Vec<String> = Vec::new();
        if recording.run.is_some() {
            parts.push(host.tree.map_or("command ?".to_owned(), |tree| format!("command {tree}")));
        }
        match (available, total) {
            (Some(available), Some(total)) => parts.push(format!("{} of {total} available", available.in_gib())),
            (Some(available), None) => parts.push(format!("{available} available")),
            (None, _) => parts.push("available: unknown".to_owned()),
        }
        let group = host.group_used.zip(host.group_limit);
        parts.extend(group.map(|(used, limit)| format!("cgroup {} of {limit}", used.in_gib())));
        format!("RAM: {}", parts.join(" · "))
    }

    /// How the command ended: "The command exited with 1 after 37 s."
    pub fn end(&self) -> String {
        let recording = self.recording();
        match (recording.end, &recording.run) {
            (Some((at, end)), _) => format!("The command {} after {}.", words::end(end), words::seconds(at)),
            (None, Some(_)) => "How the command ended is unknown: the record breaks off.".to_owned(),
            (None, None) => format!("Readings over {}, without a command.", words::seconds(recording.length())),
        }
    }

    /// The last line of the output that had come by then; why there is none otherwise.
    pub fn output(&self) -> Result<String, &'static str> {
        let recording = self.recording();
        let Some(output) = &self.tape.output else {
            return Err(if recording.run.is_some() { "not kept" } else { "none recorded" });
        };
        if recording.lines.is_empty() {
            return Err("when its lines came is unknown");
        }
        let number = recording.line_at(self.cursor).and_then(|line| usize::try_from(line).ok()).unwrap_or(0);
        let lines = output.lines().take(number).filter(|line| !line.trim().is_empty());
        let last = lines.last().ok_or("nothing yet")?;
        Ok(crate::text::harmless(rise::last_state(last)).into_owned())
    }
}

/// The time between two moments: "30 ms", "3.2 s".
fn apart(time: Millis) -> String {
    if time < 100 { format!("{time} ms") } else { words::seconds(time) }
}

fn device(reading: Snapshot, gpu: u32) -> Option<Device> {
    reading.devices.into_iter().find(|device| device.index == gpu)
}

/// What a process used at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedBy {
    /// `None` for what no process accounts for.
    pub pid: Option<u32>,
    pub user: Option<String>,
    pub what: String,
    /// `None` where the driver did not say.
    pub used: Option<Bytes>,
    pub change: Option<Change>,
}

impl UsedBy {
    /// A process on a GPU that was like this before; `None` for one that had exited by then.
    fn of(row: &GpuProcess, before: Option<&Device>) -> Option<UsedBy> {
        let earlier = before.map(|device| device.processes.iter().find(|other| other.pid == row.pid));
        // One that was not listed used nothing.
        let earlier = earlier.and_then(|row| row.map_or(Some(Bytes::ZERO), |row| row.used_bytes.value()));
        let used = row.used_bytes.value();
        if used == Some(Bytes::ZERO) && earlier == Some(Bytes::ZERO) {
            return None;
        }
        let what = row.command.known().or(row.recognised_as.as_ref());
        Some(UsedBy {
            pid: Some(row.pid),
            user: row.user.known().cloned(),
            what: what.cloned().unwrap_or_else(|| "unknown".to_owned()),
            used,
            change: used.zip(earlier).and_then(|(now, before)| Change::between(before, now)),
        })
    }
}

/// A difference that can be seen in the figures: "+8.4", "−11.2".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    is_rise: bool,
    by: Bytes,
}

impl Change {
    fn between(before: Bytes, now: Bytes) -> Option<Change> {
        let is_rise = now > before;
        let by = if is_rise { now.less(before) } else { before.less(now) };
        (by.in_gib() != Bytes::ZERO.in_gib()).then_some(Change { is_rise, by })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_rise { '+' } else { '−' }, self.by.in_gib())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::app::layout::SMALLEST;
    use crate::gpu::{Header, Reading, testing};
    use crate::record::Line;

    /// A recorded run that ran out of memory on GPU 0.
    pub(crate) fn failed_run() -> Arc<Played> {
        let recording = Recording::parse(include_str!("../../tests/golden/recording/failed.jsonl")).unwrap();
        let output = Some(include_str!("../../tests/golden/recording/failed.log").to_owned());
        Arc::new(Played { path: "/state/runs/failed.jsonl".into(), recording, output })
    }

    /// A stream of readings without a command: GPU 6 fills up.
    pub(crate) fn eight_gpus() -> Arc<Played> {
        let mut text = Line::Header(Header::of_boot(None)).text().unwrap();
        for second in 0..30 {
            let devices = (0..8).map(|index| {
                let used = if index == 6 && second > 20 { 22 } else { u64::from(index) + 2 };
                let mut device = testing::device(index, vec![testing::process(100 + index, Bytes::gib(used))]);
                device.memory.used_bytes = Reading::Known(Bytes::gib(used));
                device
            });
            let reading = Snapshot { devices: devices.collect(), ..testing::snapshot(second) };
            text += &Line::Reading(Box::new(reading)).text().unwrap();
        }
        let recording = Recording::parse(&text).unwrap();
        Arc::new(Played { path: "gpus.jsonl".into(), recording, output: None })
    }

    #[test]
    fn it_opens_at_the_failure_and_says_what_rose_after_which_line() {
        let replay = Replay::new(failed_run());
        assert_eq!(replay.moment(), "At the failure");
        let sentence = replay.sentence(true);
        assert!(sentence.starts_with("GPU 0: 14.5 → 22.9 GiB") && sentence.contains("step 270"), "{sentence}");
        assert!(replay.end().contains("exited with 1 after 3.5 s"), "{}", replay.end());
    }

    #[test]
    fn every_column_can_be_reached_and_names_its_own_moment() {
        for is_close_up in [false, true] {
            let mut replay = Replay { is_close_up, ..Replay::new(failed_run()) };
            replay.go_to_start();
            let columns = replay_columns(SMALLEST);
            let mut seen = vec![replay.cursor];
            for _ in 1..columns {
                replay.step(1, SMALLEST);
                seen.push(replay.cursor);
            }
            assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
            for (column, moment) in seen.iter().enumerate().skip(1) {
                assert_eq!(replay.column_of(*moment, columns), Some(column));
            }
            replay.step(-1_000_000, SMALLEST);
            assert_eq!(replay.cursor, replay.span().0);
        }
    }

    #[test]
    fn the_jumps_are_the_rise_the_lines_that_spoke_of_memory_and_the_failure() {
        let mut replay = Replay::new(failed_run());
        replay.go_to_start();
        let mut seen = Vec::new();
        loop {
            replay.jump(true);
            if seen.last() == Some(&replay.cursor) {
                break;
            }
            seen.push(replay.cursor);
        }
        let rise = replay.rise.unwrap();
        assert!([rise.began, rise.ended, 3539].iter().all(|at| seen.contains(at)), "{seen:?}");
        replay.jump(false);
        assert_eq!(replay.cursor, rise.ended);
    }

    #[test]
    fn the_line_that_had_come_by_then_is_named_and_unknown_is_said() {
        let mut replay = Replay::new(failed_run());
        replay.cursor = 1415;
        assert!(replay.output().unwrap().contains("step 140/"));
        replay.cursor = 0;
        assert_eq!(replay.output(), Err("nothing yet"));
        let tape = Arc::try_unwrap(failed_run()).unwrap();
        let without = Replay::new(Arc::new(Played { output: None, ..tape }));
        assert_eq!(without.output(), Err("not kept"));
        assert!(!without.sentence(true).contains("after `"));
    }
}
