//! Owns how much a process or a device is used at one reading.

use super::recognise::protected_command;
use super::sight::unexplained;
use super::{Device, GpuProcess, Nature, ProcessKind};
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
    let all_draw = device.processes.iter().all(draws_the_screen);
    let allowed = if device.processes.is_empty() { 0 } else { SCREEN_PERCENT };
    let percent = device.utilization_percent.value();
    let rests = percent.is_none_or(|percent| percent <= allowed);
    (is_whole && all_draw && rests && unexplained(device).is_none()).then_some(percent)
}

fn draws_the_screen(row: &GpuProcess) -> bool {
    let is_screens = row.kind == ProcessKind::Graphics || row.kind != ProcessKind::Mps && is_service(row);
    is_screens && row.used_bytes.value().is_some_and(|held| held <= SCREEN)
}

/// True for a process of the desktop or the driver.
pub(crate) fn is_service(row: &GpuProcess) -> bool {
    let command = row.command.known().map_or("", String::as_str);
    !command.contains("nvidia-cuda-mps-server") && protected_command(command).is_some()
}
