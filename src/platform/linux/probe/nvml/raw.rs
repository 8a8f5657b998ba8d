//! Owns the calls that nvml-wrapper has no safe or no suitable form of: the process lists (its own give the driver a
//! buffer that some drivers overrun), memory as old drivers tell it, and process utilisation in one call.
//! Every `unsafe` of the sampler is here.

use std::collections::HashMap;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device as NvmlDevice, Nvml};
use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlMemory_t, nvmlProcessUtilizationSample_t};

use super::errors::percent;
use crate::gpu::{DeviceMemory, Reading};
pub(super) use crate::platform::linux::probe::rows::RawRow;
use crate::platform::linux::probe::rows::{INSUFFICIENT_SIZE, ListError, RowBuffer};
use crate::units::Bytes;

const FUNCTION_NOT_FOUND: u32 = 13;
const ARGUMENT_VERSION_MISMATCH: u32 = 25;
/// Room for samples at first: one a process that has run in the last seconds.
const FIRST_SAMPLES: u32 = 64;
const MOST_SAMPLES: u32 = 1 << 16;
/// A time stamp this many µs after the earliest one that counts is wrong: after it no sample would ever be new.
const AHEAD: u64 = 60_000_000;

/// The driver's own handle of a device, to be kept longer than nvml-wrapper's borrow of the library lasts.
#[allow(unsafe_code, reason = "the driver's C interface")]
pub(super) fn handle(device: &NvmlDevice) -> nvmlDevice_t {
    // SAFETY: the handle is only handed back to the library it came from (see `Asked`), and never freed.
    unsafe { device.handle() }
}

/// Whom the driver is asked about: the device of a handle that came from this library.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub nvml: &'a Nvml,
    pub handle: nvmlDevice_t,
}

impl<'a> Asked<'a> {
    /// nvml-wrapper's form of it.
    #[allow(unsafe_code, reason = "the driver's C interface")]
    pub(super) fn device(self) -> NvmlDevice<'a> {
        // SAFETY: a card keeps the handle it got from this very library and is dropped with it, so it is a valid one;
        // the driver answers with an error where the GPU behind it is gone.
        unsafe { NvmlDevice::new(self.handle, self.nvml) }
    }
}

/// Whether an error says that this form of a call is not to be had, so that an older one is worth a try.
pub(super) fn is_too_new(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::FailedToLoadSymbol(_)
            | NvmlError::FunctionNotFound
            | NvmlError::NotSupported
            | NvmlError::InvalidArg
            | NvmlError::UnexpectedVariant(ARGUMENT_VERSION_MISMATCH)
    )
}

/// One of the driver's process lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Compute,
    Graphics,
    Mps,
}

/// Which form of a list's call this driver has; the newest is tried first and what works is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ListVersion {
    #[default]
    V3,
    V2,
    V1,
}

impl ListVersion {
    fn older(self) -> Option<ListVersion> {
        match self {
            ListVersion::V3 => Some(ListVersion::V2),
            ListVersion::V2 => Some(ListVersion::V1),
            ListVersion::V1 => None,
        }
    }
}

/// Reads a list in the newest form that the driver has.
pub(super) fn list(
    asked: Asked<'_>,
    list: List,
    version: &mut ListVersion,
    buffer: &mut RowBuffer,
) -> Result<Vec<RawRow>, NvmlError> {
    loop {
        let result = buffer.read(|count, rows| call(asked, list, *version, count, rows));
        match result {
            Ok(rows) => return Ok(rows),
            Err(ListError::Code(FUNCTION_NOT_FOUND)) => {
                *version = version.older().ok_or(NvmlError::FunctionNotFound)?;
            }
            Err(ListError::Code(code)) => return Err(NvmlError::from(code)),
            Err(ListError::Layout) => return Err(NvmlError::UnexpectedVariant(0)),
        }
    }
}

/// One call of the driver; a missing symbol is its FUNCTION_NOT_FOUND. `rows` has 32 bytes for each of `count` rows.
#[allow(unsafe_code, reason = "the driver's C interface")]
fn call(asked: Asked<'_>, list: List, version: ListVersion, count: &mut u32, rows: *mut u64) -> u32 {
    let (lib, device) = (asked.nvml.lib(), asked.handle);
    macro_rules! by_symbol {
        ($symbol:ident) => {
            // SAFETY: the symbol has the type nvml.h gives it; the handle came from this library, which stays loaded
            // while `lib` lives; the buffer has room for `count` rows of the largest size any driver is known to
            // write (and more than this version's own), is aligned to 8 bytes, and the driver keeps no pointer.
            lib.$symbol.as_ref().map_or(FUNCTION_NOT_FOUND, |symbol| unsafe { symbol(device, count, rows.cast()) })
        };
    }
    match (list, version) {
        (List::Compute, ListVersion::V3) => by_symbol!(nvmlDeviceGetComputeRunningProcesses_v3),
        (List::Compute, ListVersion::V2) => by_symbol!(nvmlDeviceGetComputeRunningProcesses_v2),
        (List::Compute, ListVersion::V1) => by_symbol!(nvmlDeviceGetComputeRunningProcesses),
        (List::Graphics, ListVersion::V3) => by_symbol!(nvmlDeviceGetGraphicsRunningProcesses_v3),
        (List::Graphics, ListVersion::V2) => by_symbol!(nvmlDeviceGetGraphicsRunningProcesses_v2),
        (List::Graphics, ListVersion::V1) => by_symbol!(nvmlDeviceGetGraphicsRunningProcesses),
        (List::Mps, ListVersion::V3) => by_symbol!(nvmlDeviceGetMPSComputeRunningProcesses_v3),
        (List::Mps, ListVersion::V2) => by_symbol!(nvmlDeviceGetMPSComputeRunningProcesses_v2),
        (List::Mps, ListVersion::V1) => by_symbol!(nvmlDeviceGetMPSComputeRunningProcesses),
    }
}

/// Memory as drivers before R510 tell it: `used` includes what the driver reserves.
#[allow(unsafe_code, reason = "the driver's C interface")]
pub(super) fn memory_v1(asked: Asked<'_>) -> Result<DeviceMemory, NvmlError> {
    let symbol = asked.nvml.lib().nvmlDeviceGetMemoryInfo.as_ref().map_err(|_| NvmlError::FunctionNotFound)?;
    let mut memory = nvmlMemory_t { total: 0, free: 0, used: 0 };
    // SAFETY: the symbol has the type nvml.h gives it, the handle came from this library, and `memory` is the
    // structure that this version of the call fills in.
    let code = unsafe { symbol(asked.handle, &raw mut memory) };
    if code != 0 {
        return Err(NvmlError::from(code));
    }
    Ok(DeviceMemory {
        total_bytes: Reading::Known(Bytes(memory.total)),
        reserved_bytes: Reading::Unsupported,
        used_bytes: Reading::Known(Bytes(memory.used)),
        free_bytes: Reading::Known(Bytes(memory.free)),
    })
}

pub(super) type Percents = HashMap<u32, Reading<u32>>;

/// Samples of how much each process used the device's compute units; the buffer is kept, so that it is one call.
#[derive(Default)]
pub(super) struct Samples {
    buffer: Vec<nvmlProcessUtilizationSample_t>,
    /// The driver's time (µs) of the newest sample we have seen; only newer ones are asked for.
    newest: u64,
}

impl Samples {
    /// The newest sample of each PID since the last question, in percent; a PID without one has used nothing since
    /// (the driver keeps no samples of idle processes). `earliest`: µs of the epoch before which nothing counts.
    #[allow(unsafe_code, reason = "the driver's C interface")]
    pub(super) fn read(&mut self, asked: Asked<'_>, earliest: u64) -> Result<Percents, NvmlError> {
        let symbol =
            asked.nvml.lib().nvmlDeviceGetProcessUtilization.as_ref().map_err(|_| NvmlError::FunctionNotFound)?;
        let since = self.newest.max(earliest);
        let mut room = u32::try_from(self.buffer.len()).unwrap_or(MOST_SAMPLES).max(FIRST_SAMPLES);
        while room <= MOST_SAMPLES {
            self.buffer.resize(room as usize, EMPTY_SAMPLE);
            let mut count = room;
            // SAFETY: the symbol has the type nvml.h gives it, the handle came from this library, and the buffer has
            // room for the `count` samples that the driver is told of.
            let code = unsafe { symbol(asked.handle, self.buffer.as_mut_ptr(), &raw mut count, since) };
            match code {
                0 => return Ok(self.newest_by_pid(count.min(room), since, earliest.saturating_add(AHEAD))),
                INSUFFICIENT_SIZE => room = count.saturating_add(16).max(room.saturating_mul(2)),
                _ => return nothing_ran(NvmlError::from(code)),
            }
        }
        Err(NvmlError::InsufficientSize(None))
    }

    fn newest_by_pid(&mut self, count: u32, since: u64, latest: u64) -> Percents {
        let mut newest: HashMap<u32, (u64, u32)> = HashMap::new();
        let samples = self.buffer.iter().take(count as usize);
        // Some drivers give stale samples and figures beyond 100 (nvtop issue 110): the latter are no figures, and no 0.
        for sample in samples.filter(|sample| sample.timeStamp >= since) {
            let best = newest.entry(sample.pid).or_default();
            *best = (*best).max((sample.timeStamp, sample.smUtil));
            if sample.timeStamp <= latest {
                self.newest = self.newest.max(sample.timeStamp);
            }
        }
        newest.into_iter().map(|(pid, (_, value))| (pid, percent(Reading::Known(value)))).collect()
    }
}

const EMPTY_SAMPLE: nvmlProcessUtilizationSample_t =
    nvmlProcessUtilizationSample_t { pid: 0, timeStamp: 0, smUtil: 0, memUtil: 0, encUtil: 0, decUtil: 0 };

fn nothing_ran(error: NvmlError) -> Result<Percents, NvmlError> {
    match error {
        NvmlError::NotFound | NvmlError::NoData => Ok(HashMap::new()),
        error => Err(error),
    }
}
