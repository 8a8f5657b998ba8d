//! Owns how much a process or a device is used at one reading, and describing a device on which no process computes, and for
//! how long. Such a device is never called "free": the driver does not know whether a GPU is reserved for somebody.

use std::fmt;
use std::time::Duration;

use super::history::History;
use super::recognise::protected_command;
use super::sight::unexplained;
use super::{Device, GpuProcess, Nature, ProcessKind, Snapshot};
use crate::units::Bytes;

/// CPU use from which a process counts as busy, in percent of one core.
const BUSY_CPU_PERCENT: u64 = 5;

/// A program that only draws the screen uses no more VRAM than this.
const SCREEN: Bytes = Bytes::gib(1);
/// A device that only draws the screen is used no more than this, in percent.
const SCREEN_PERCENT: u32 = 10;

/// What a process was seen to use at one reading. `None` where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Share of the sampling time in which its kernels ran, in percent.
    pub gpu_percent: Option<u32>,
    /// CPU time in percent of one core.
    pub cpu_percent: Option<u64>,
}

impl Use {
    /// Whether this much use makes a process busy.
    pub fn is_busy(&self) -> bool {
        self.gpu_percent.is_some_and(|percent| percent > 0)
            || self.cpu_percent.is_some_and(|percent| percent >= BUSY_CPU_PERCENT)
    }
}

/// The GPU use of a process: its own figure where the driver gives one. Otherwise a device that nobody uses proves 0 %,
/// and the use of a device with a single process is that process's.
pub(crate) fn gpu_percent(device: Option<&Device>, process: &GpuProcess) -> Option<u32> {
    if let Some(own) = process.sm_percent.value() {
        return Some(own);
    }
    let device = device?;
    let whole = device.utilization_percent.value()?;
    let is_alone = device.processes.iter().all(|other| other.pid == process.pid);
    (whole == 0 || is_alone).then_some(whole)
}

/// The use of a device on which nobody computes, as far as the driver tells (`Some(None)`: it does not). `None` where
/// somebody may compute on it: a process of anyone, memory that nobody explains, or use.
#[allow(clippy::option_option, reason = "unused with unknown use is not the same as used")]
pub(crate) fn percent_of_unused(device: &Device) -> Option<Option<u32>> {
    let is_whole = device.error.is_none() && device.nature != Some(Nature::Split);
    let allowed = if device.processes.is_empty() { 0 } else { SCREEN_PERCENT };
    let percent = device.utilization_percent.value();
    let rests = percent.is_none_or(|percent| percent <= allowed);
    // What a process is costs most to find out, so that is asked last.
    let is_unused = is_whole && rests && unexplained(device).is_none() && device.processes.iter().all(draws_the_screen);
    is_unused.then_some(percent)
}

fn draws_the_screen(row: &GpuProcess) -> bool {
    let may_be_screens = row.used_bytes.value().is_some_and(|held| held <= SCREEN);
    may_be_screens && (row.kind == ProcessKind::Graphics || row.kind != ProcessKind::Mps && is_service(row))
}

/// True for a process of the desktop or the driver.
pub(crate) fn is_service(row: &GpuProcess) -> bool {
    let command = row.command.known().map_or("", String::as_str);
    !command.contains("nvidia-cuda-mps-server") && protected_command(command).is_some()
}

/// A device with no processes, or none but those that draw the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unused {
    /// The processes that are listed there nevertheless, each with its VRAM.
    screens: Vec<(String, Bytes)>,
    /// The names of processes that have it open without being listed.
    open: Vec<String>,
    /// The highest use in that time; `None` if the driver does not report it.
    percent: Option<u32>,
    /// How long it was seen unused; zero after one reading.
    watched: Duration,
    /// It sleeps, which no GPU does that a process uses.
    asleep: bool,
}

impl Unused {
    /// Describes this device; `None` if a process may compute on it.
    pub(crate) fn of(snapshot: &Snapshot, device: &Device, history: Option<&History>) -> Option<Unused> {
        let percent = percent_of_unused(device)?;
        let has_it_open = snapshot.holders.iter().filter(|holder| holder.gpus.contains(&device.index));
        let watched = history.and_then(|history| history.unused(device.index));
        Some(Unused {
            screens: device.processes.iter().filter_map(|row| Some((name(row), row.used_bytes.value()?))).collect(),
            open: has_it_open
                .filter(|holder| !is_service(&holder.process))
                .map(|holder| format!("{} ({})", name(&holder.process), holder.process.pid))
                .collect(),
            percent: watched.map_or(percent, |(_, most)| percent.max(most)),
            watched: watched.map_or(Duration::ZERO, |(time, _)| time),
            asleep: device.asleep,
        })
    }
}

fn name(row: &GpuProcess) -> String {
    row.recognised_as.clone().or_else(|| program(row)).unwrap_or_else(|| format!("process {}", row.pid))
}

fn program(row: &GpuProcess) -> Option<String> {
    let first = row.command.known()?.split_whitespace().next()?;
    Some(first.rsplit('/').next().unwrap_or(first).to_owned())
}

impl fmt::Display for Unused {
    /// "no processes, 0 % for 40 s".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.asleep {
            return f.write_str("asleep to save power");
        }
        match self.screens.as_slice() {
            [] => f.write_str("no processes")?,
            [(name, held)] => write!(f, "no processes but {name} ({held})")?,
            [(name, held), rest @ ..] => {
                let more = rest.iter().fold(Bytes::ZERO, |sum, (_, held)| sum.plus(*held));
                write!(f, "no processes but {name} ({held}) and {} more of the desktop ({more})", rest.len())?;
            }
        }
        match self.open.as_slice() {
            [] => {}
            [one] => write!(f, ", {one} has it open")?,
            [one, rest @ ..] => write!(f, ", {one} and {} more have it open", rest.len())?,
        }
        match self.percent {
            Some(0) => f.write_str(", 0 %")?,
            Some(percent) => write!(f, ", at most {percent} %")?,
            None => f.write_str(", use not known")?,
        }
        match self.watched.as_secs() {
            0 => f.write_str(" at one reading"),
            seconds @ 1..=119 => write!(f, " for {seconds} s"),
            seconds @ 120..=7199 => write!(f, " for {} min", seconds / 60),
            seconds => write!(f, " for {} h", seconds / 3600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::{device, process, snapshot};
    use crate::gpu::{Holder, Reading};

    fn xorg(held: Bytes) -> GpuProcess {
        let mut row = process(1203, held);
        row.recognised_as = Some("Xorg".into());
        row.command = Reading::Known("/usr/lib/xorg/Xorg :0".into());
        row
    }

    /// What is said after these readings: (second, rows, percent).
    fn said(readings: &[(i64, Vec<GpuProcess>, Option<u32>)]) -> Option<String> {
        let mut history = History::default();
        let mut last = snapshot(0);
        for (second, rows, percent) in readings {
            last = snapshot(*second);
            last.devices = vec![device(0, rows.clone())];
            last.devices[0].utilization_percent = percent.map_or(Reading::Unsupported, Reading::Known);
            history.note(&last);
        }
        Unused::of(&last, &last.devices[0], Some(&history)).map(|unused| unused.to_string())
    }

    #[test]
    fn an_unused_device_is_told_as_it_was_seen() {
        let told = |readings: &[(i64, Vec<GpuProcess>, Option<u32>)]| said(readings).unwrap();
        assert_eq!(told(&[(0, vec![], Some(0))]), "no processes, 0 % at one reading");
        assert_eq!(told(&[(0, vec![], Some(0)), (40, vec![], Some(0))]), "no processes, 0 % for 40 s");
        let busy = vec![process(7, Bytes::gib(2))];
        let since = [(0, busy, Some(90)), (10, vec![], Some(0)), (30, vec![], Some(0))];
        assert_eq!(told(&since), "no processes, 0 % for 20 s", "since the process left");
        assert_eq!(told(&[(0, vec![], Some(4)), (9, vec![], Some(0))]), "no processes, 0 % at one reading");
        assert_eq!(told(&[(0, vec![], Some(0)), (3600, vec![], Some(0))]), "no processes, 0 % at one reading");
        assert_eq!(told(&[(0, vec![], None), (9, vec![], None)]), "no processes, use not known for 9 s");
        let desk = |percent| vec![xorg(Bytes::mib(96))].into_iter().map(move |row| (row, percent)).collect::<Vec<_>>();
        let rows = |percent| desk(percent).into_iter().map(|(row, _)| row).collect::<Vec<_>>();
        let desktop = [(0, rows(3), Some(3)), (9, rows(0), Some(0))];
        assert_eq!(told(&desktop), "no processes but Xorg (96 MiB), at most 3 % for 9 s");
    }

    #[test]
    fn a_device_on_which_somebody_may_compute_is_not_unused() {
        let small = vec![process(7, Bytes::mib(300))];
        assert_eq!(said(&[(0, small, Some(0))]), None, "a process of anyone, however small and idle");
        assert_eq!(said(&[(0, vec![xorg(Bytes::gib(3))], Some(0))]), None, "more than a screen takes");
        assert_eq!(said(&[(0, vec![xorg(Bytes::mib(96))], Some(60))]), None, "more than drawing uses");
        assert_eq!(said(&[(0, vec![], Some(12))]), None, "somebody who is not listed uses it");
        let mut now = snapshot(0);
        now.devices[0].unaccounted_bytes = Reading::Known(Bytes::gib(6));
        assert_eq!(Unused::of(&now, &now.devices[0], None), None, "memory that nobody explains");
        now.devices[0].unaccounted_bytes = Reading::Known(Bytes::ZERO);
        let nvtop = Holder { process: process(77, Bytes::ZERO), devices: vec!["/dev/nvidia0".into()], gpus: vec![0] };
        now.holders = vec![nvtop];
        let unused = Unused::of(&now, &now.devices[0], None).unwrap().to_string();
        assert!(unused.contains("(77) has it open"), "{unused}");
        now.devices[0].error = Some("GPU is lost".into());
        assert_eq!(Unused::of(&now, &now.devices[0], None), None);
    }
}
