//! Owns a record that was read back: what was in use at every moment of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{End, HostMemory, Line, Millis, Note, Run, Said, millis_between};
use crate::gpu::{Header, Reading, SCHEMA, Snapshot};
use crate::units::{Bytes, WallTime};

/// A record. Times are counted from its beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    pub header: Option<Header>,
    /// `None` for a plain sample stream.
    pub run: Option<Run>,
    /// The whole readings, the oldest first.
    readings: Vec<(Millis, Snapshot)>,
    /// What each GPU used whenever that changed: time, GPU, bytes.
    used: Vec<(Millis, u32, Bytes)>,
    /// What each process used whenever that changed: time, GPU, PID, bytes.
    rows: Vec<(Millis, u32, u32, Bytes)>,
    /// The most that a process used by the driver's own count: GPU, PID, bytes.
    peaks: BTreeMap<(u32, u32), Bytes>,
    hosts: Vec<(Millis, HostMemory)>,
    /// When the output spoke of memory, and its line.
    pub marks: Vec<(Millis, String)>,
    /// When lines of the kept output came: the time, and the number of the last line by then (from 1).
    pub lines: Vec<(Millis, u32)>,
    pub end: Option<(Millis, End)>,
    pub said: Option<Said>,
    last: Millis,
}

impl Recording {
    /// Reads a record or a sample stream. A last line that was cut off is left out. Fails, with the number of the line, if
    /// another line is none of this format.
    pub fn parse(text: &str) -> Result<Recording, String> {
        let mut recording = Recording::default();
        let mut lines = text.split_inclusive('\n').enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            if line.trim().is_empty() {
                continue;
            }
            let is_first = recording.header.is_none();
            match Line::parse(line.trim_end().as_bytes(), is_first) {
                Ok(line) => recording.take(line)?,
                Err(_) if lines.peek().is_none() && !line.ends_with('\n') => {}
                Err(error) => return Err(format!("line {} is none of a record: {error}", number + 1)),
            }
        }
        if recording.readings.is_empty() && recording.run.is_none() {
            return Err("it has no reading".into());
        }
        Ok(recording)
    }

    fn take(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Header(header) if header.schema > SCHEMA => {
                return Err(format!("it is of schema {}, this program reads up to {SCHEMA}", header.schema));
            }
            Line::Header(header) => self.header = Some(header),
            Line::Reading(snapshot) => {
                let at = self.since(snapshot.taken_at);
                for (gpu, bytes) in super::scribe::used(&snapshot) {
                    self.used.push((at, gpu, bytes));
                }
                self.readings.push((at, snapshot.harmless()));
                self.last = self.last.max(at);
            }
            Line::Note(note) => self.note(note),
        }
        Ok(())
    }

    pub(super) fn note(&mut self, note: Note) {
        let at = match note {
            Note::Run(run) => {
                self.run = Some(run);
                return;
            }
            Note::Said(said) => {
                self.said = Some(said);
                return;
            }
            Note::Lines { lines } => {
                self.lines = lines;
                return;
            }
            Note::Glance(glance) => {
                let at = self.since(glance.glanced_at);
                self.used.extend(glance.used.into_iter().map(|(gpu, bytes)| (at, gpu, bytes)));
                at
            }
            Note::Used { at, gpus } => {
                self.used.extend(gpus.into_iter().map(|(gpu, bytes)| (at, gpu, bytes)));
                at
            }
            Note::Rows { at, rows } => {
                self.rows.extend(rows.into_iter().map(|(gpu, pid, bytes)| (at, gpu, pid, bytes)));
                at
            }
            Note::Peaks { at, peaks } => {
                self.peaks.extend(peaks.into_iter().map(|(gpu, pid, bytes)| ((gpu, pid), bytes)));
                at
            }
            Note::Host { at, host } => {
                self.hosts.push((at, host));
                at
            }
            Note::Mark { at, text } => {
                self.marks.push((at, crate::text::harmless(&text).into_owned()));
                at
            }
            Note::End { at, end } => {
                self.end = Some((at, end));
                at
            }
        };
        self.last = self.last.max(at);
    }

    /// The wall clock at the beginning.
    pub fn began(&self) -> Option<WallTime> {
        let first = || self.readings.first().map(|(_, snapshot)| snapshot.taken_at);
        self.run.as_ref().map(|run| run.started_at).or_else(first)
    }

    fn since(&self, moment: WallTime) -> Millis {
        self.began().map_or(0, |began| millis_between(began, moment))
    }

    /// The time of the last thing that was noted.
    pub fn length(&self) -> Millis {
        self.last
    }

    /// The moment of the failure: the last line that spoke of memory, else the end of a command that did not succeed.
    pub fn failed_at(&self) -> Option<Millis> {
        let ended = self.end.filter(|(_, end)| !end.is_success()).map(|(at, _)| at);
        self.marks.last().map(|(at, _)| *at).or(ended)
    }

    /// The GPUs of which something is known, by the driver's index.
    pub fn gpus(&self) -> Vec<u32> {
        let mut gpus: Vec<u32> = self.used.iter().map(|(_, gpu, _)| *gpu).collect();
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }

    /// What a GPU used, whenever it changed: times and bytes, the oldest first.
    pub fn of_gpu(&self, gpu: u32) -> impl DoubleEndedIterator<Item = (Millis, Bytes)> + '_ {
        self.used.iter().filter(move |(_, of, _)| *of == gpu).map(|(at, _, bytes)| (*at, *bytes))
    }

    /// The VRAM that a GPU used then.
    pub fn used_at(&self, gpu: u32, moment: Millis) -> Option<Bytes> {
        self.of_gpu(gpu).take_while(|(at, _)| *at <= moment).last().map(|(_, bytes)| bytes)
    }

    /// All memory of a GPU, where the driver tells it.
    pub fn total(&self, gpu: u32) -> Option<Bytes> {
        let mut devices = self.readings.iter().rev().flat_map(|(_, reading)| &reading.devices);
        devices.find(|device| device.index == gpu)?.memory.total_bytes.value()
    }

    /// The command's own processes: itself, those below it, and their group.
    pub fn own_pids(&self) -> BTreeSet<u32> {
        let mut own: BTreeSet<u32> = self.run.iter().map(|run| run.pid).collect();
        for (_, reading) in &self.readings {
            let rows = reading.devices.iter().flat_map(|device| &device.processes).chain(&reading.launchers);
            for row in rows {
                let is_below = row.parent_pid.value().is_some_and(|parent| own.contains(&parent));
                if is_below || row.group.is_some_and(|group| own.contains(&group.pid)) {
                    own.insert(row.pid);
                }
            }
        }
        own
    }

    /// The most that the command's own processes used together on a GPU, as far as the driver lists them.
    pub fn own_peak(&self, gpu: u32) -> Option<Bytes> {
        let own = self.own_pids();
        let mut held: BTreeMap<u32, Bytes> = BTreeMap::new();
        let mut changes: Vec<(Millis, u32, Bytes)> = Vec::new();
        for (at, reading) in &self.readings {
            let rows = reading.devices.iter().filter(|device| device.index == gpu).flat_map(|device| &device.processes);
            let known = rows.filter_map(|row| Some((*at, row.pid, row.used_bytes.value()?)));
            changes.extend(known.filter(|(_, pid, _)| own.contains(pid)));
        }
        let changed = self.rows.iter().filter(|(_, of, pid, _)| *of == gpu && own.contains(pid));
        changes.extend(changed.map(|(at, _, pid, bytes)| (*at, *pid, *bytes)));
        changes.sort_by_key(|(at, ..)| *at);
        // The driver's own count sees what falls between two readings.
        let counted = self.peaks.iter().filter(|((of, pid), _)| *of == gpu && own.contains(pid));
        let mut peak = counted.map(|(_, bytes)| *bytes).max();
        for (_, pid, bytes) in changes {
            held.insert(pid, bytes);
            peak = peak.max(Some(held.values().copied().fold(Bytes::ZERO, Bytes::plus)));
        }
        peak
    }

    /// The most that a GPU used.
    pub fn peak(&self, gpu: u32) -> Option<Bytes> {
        self.of_gpu(gpu).map(|(_, bytes)| bytes).max()
    }

    /// The system memory then.
    pub fn host_at(&self, moment: Millis) -> Option<HostMemory> {
        self.hosts.iter().take_while(|(at, _)| *at <= moment).last().map(|(_, host)| *host)
    }

    /// The most that the command and all below it used of the system memory.
    pub fn tree_peak(&self) -> Option<Bytes> {
        self.hosts.iter().filter_map(|(_, host)| host.tree).max()
    }

    /// How many processes the kernel killed during the run because the cgroup's limit was reached.
    pub fn kills(&self) -> u64 {
        let mut kills = self.hosts.iter().filter_map(|(_, host)| host.kills);
        let first = kills.next().unwrap_or(0);
        kills.next_back().unwrap_or(first).saturating_sub(first)
    }

    /// The whole reading of that moment: the last one before it, with what changed since. `None` before the first.
    pub fn at(&self, moment: Millis) -> Option<Snapshot> {
        let (taken, whole) = self.readings.iter().take_while(|(at, _)| *at <= moment).last()?;
        let mut snapshot = whole.clone();
        for device in &mut snapshot.devices {
            let rows = self.rows.iter().filter(|(at, gpu, ..)| (*taken..=moment).contains(at) && *gpu == device.index);
            for (_, _, pid, bytes) in rows {
                if let Some(row) = device.processes.shared_mut().iter_mut().find(|row| row.pid == *pid) {
                    Arc::make_mut(row).used_bytes = Reading::Known(*bytes);
                }
            }
            if let Some(used) = self.used_at(device.index, moment) {
                device.memory.used_bytes = Reading::Known(used);
                let reserved = device.memory.reserved_bytes.value().unwrap_or(Bytes::ZERO);
                device.memory.free_bytes =
                    device.memory.total_bytes.clone().map(|total| total.less(reserved).less(used));
            }
            device.processes.sort_by_key(|row| Reverse(row.used_bytes.value()));
        }
        Some(snapshot)
    }

    /// The number of the last line of output that had come by then, from 1.
    pub fn line_at(&self, moment: Millis) -> Option<u32> {
        self.lines.iter().take_while(|(at, _)| *at <= moment).last().map(|(_, line)| *line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::{device, process, snapshot};
    use crate::record::Line;

    fn text(lines: &[Line]) -> String {
        let header = Line::Header(Header::of_boot(None));
        [header].iter().chain(lines).map(|line| line.text().unwrap()).collect()
    }

    fn recorded() -> Vec<Line> {
        let first = Snapshot {
            devices: vec![device(0, vec![process(42, Bytes::gib(4)), process(43, Bytes::gib(6))])],
            ..snapshot(0)
        };
        vec![
            Line::Reading(Box::new(first)),
            Line::Note(Note::Rows { at: 1000, rows: vec![(0, 42, Bytes::gib(9))] }),
            Line::Note(Note::Used { at: 1200, gpus: vec![(0, Bytes::gib(16))] }),
            Line::Note(Note::End { at: 2000, end: End::Code(1) }),
        ]
    }

    #[test]
    fn each_moment_is_the_last_reading_with_what_changed_since() {
        let recording = Recording::parse(&text(&recorded())).unwrap();
        let of = |moment| {
            let reading = recording.at(moment).unwrap();
            let device = &reading.devices[0];
            let rows: Vec<_> = device.processes.iter().map(|row| (row.pid, row.used_bytes.value().unwrap())).collect();
            (device.memory.used_bytes.value().unwrap(), rows)
        };
        assert_eq!(of(999).1, [(43, Bytes::gib(6)), (42, Bytes::gib(4))]);
        assert_eq!(of(1000).1, [(42, Bytes::gib(9)), (43, Bytes::gib(6))]);
        assert_eq!(of(1300).0, Bytes::gib(16));
        assert_eq!((recording.length(), recording.failed_at()), (2000, Some(2000)));
        assert_eq!(recording.peak(0), Some(Bytes::gib(16)));
        assert_eq!(
            recording.at(1300).unwrap().devices[0].memory.free_bytes.value(),
            Some(Bytes::gib(8).less(Bytes::mib(410)))
        );
    }

    #[test]
    fn a_line_that_was_cut_off_is_left_out_and_nonsense_is_refused() {
        let whole = text(&recorded());
        let cut = Recording::parse(whole.split_at(whole.len() - 9).0).unwrap();
        assert_eq!((cut.end, cut.length()), (None, 1200));
        let broken = whole.replace("{\"rows\"", "{\"rows");
        assert!(Recording::parse(&broken).unwrap_err().contains("line 3"));
        assert!(Recording::parse("").is_err());
        let later = whole.replace("\"schema\":1", "\"schema\":99");
        assert!(Recording::parse(&later).unwrap_err().contains("99"));
    }

    #[test]
    fn the_demo_is_a_record() {
        let demo = Recording::parse(include_str!("../../assets/demo.jsonl")).unwrap();
        assert!(demo.length() > 8000 && demo.peak(0) > Some(Bytes::gib(8)), "{} {:?}", demo.length(), demo.peak(0));
    }
}
