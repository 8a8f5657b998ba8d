//! A fake NVIDIA driver library for the tests: the functions of `libnvidia-ml.so.1` that the sampler calls, played from
//! a scenario file. Plain `cargo test` builds it (an example of crate type cdylib); `support/fake_driver.rs` is its
//! harness.
//!
//! The scenario (RON, see [`Scenario`]) is the file that `FAKE_NVML_SCENARIO` names, else `scenario.ron` beside this
//! library. It is looked at on every call and read again when it has changed; fault counters then start anew. Without
//! one the driver is not loaded. Each call's name is appended to the file that `FAKE_NVML_CALLS` names, else to
//! `calls` beside this library where that exists.
//!
//!     (driver: "570.124.06", cuda: 12080, row_bytes: 32,
//!      gpus: [(name: "RTX 4090", total: 25769803776, reserved: 398458880, base: 209715200)],
//!      processes: [(gpu: 0, pid: 1234, bytes: Some(5368709120), lists: [Compute, Graphics], sm: 40)],
//!      faults: [(call: "nvmlDeviceGet*RunningProcesses_v3", code: FunctionNotFound),
//!               (call: "nvmlDeviceGetMemoryInfo*", code: GpuIsLost, gpu: Some(0), after: 3)])
//!
//! A process whose real PID is gone here, is a zombie or belongs to another process now drops out and its bytes are
//! free again: killing a real process frees fake memory. A missing symbol is played by `FunctionNotFound`; the harness
//! can also rename a symbol in a copy of this file, so that the loader does not find it.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a C interface: every exported function writes through the caller's pointers")]
#![allow(non_snake_case, missing_docs, reason = "the names are the driver's, documented by NVIDIA")]
#![allow(clippy::cast_possible_truncation, clippy::print_stderr, reason = "few rows; a bad scenario must be seen")]
#![allow(clippy::missing_safety_doc, reason = "nvml.h says what each pointer must be")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test double of the outside world")]

mod others;
mod scenario;

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use nvml_wrapper_sys::bindings::{
    nvmlAccountingStats_t, nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlPciInfo_t, nvmlProcessUtilizationSample_t,
    nvmlUtilization_t,
};
use scenario::{Code, Entered, ListName, Process, enter};

type Return = c_uint;

/// The unavailable figure of a row.
const NOT_AVAILABLE: u64 = u64::MAX;

/// Runs the body with the scenario, unless a fault or an uninitialized driver answers first.
fn call(name: &'static str, body: impl FnOnce(&Entered) -> Code) -> Return {
    match enter(name, None) {
        Ok(entered) if !entered.initialised => Code::Uninitialized as Return,
        Ok(entered) => body(&entered) as Return,
        Err(code) => code,
    }
}

/// As [`call`], for a device, whose handle is its index + 1.
fn device_call(name: &'static str, device: nvmlDevice_t, body: impl FnOnce(&Entered, usize) -> Code) -> Return {
    let index = (device as usize).wrapping_sub(1);
    match enter(name, Some(index)) {
        Ok(entered) if !entered.initialised => Code::Uninitialized as Return,
        Ok(entered) if index >= entered.scenario.gpus.len() => Code::InvalidArgument as Return,
        Ok(entered) => body(&entered, index) as Return,
        Err(code) => code,
    }
}

/// Writes through a pointer of the caller.
fn put<T>(out: *mut T, value: T) -> Code {
    if out.is_null() {
        return Code::InvalidArgument;
    }
    // SAFETY: not null, and by nvml.h the caller's pointer is one to a T that may be written.
    unsafe { out.write(value) };
    Code::Success
}

/// Writes a C string into a buffer of the caller.
fn put_text(out: *mut c_char, room: c_uint, text: &str) -> Code {
    let text = scenario::bytes_of(text);
    if out.is_null() || text.len() >= room as usize {
        return Code::InsufficientSize;
    }
    // SAFETY: not null, and by nvml.h the buffer has `room` bytes, which is more than the text and its NUL.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), out.cast(), text.len());
        out.add(text.len()).write(0);
    }
    Code::Success
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlInit_v2() -> Return {
    initialised()
}

/// Shared by both init functions. Neither calls the other, so that tests can remove one from the library.
fn initialised() -> Return {
    match enter("nvmlInit_v2", None) {
        Ok(_) => scenario::initialise(true) as Return,
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlShutdown() -> Return {
    call("nvmlShutdown", |_| scenario::initialise(false))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, room: c_uint) -> Return {
    call("nvmlSystemGetDriverVersion", |entered| put_text(out, room, &entered.scenario.driver))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: *mut c_int) -> Return {
    call("nvmlSystemGetCudaDriverVersion_v2", |entered| put(out, entered.scenario.cuda))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut c_uint) -> Return {
    call("nvmlDeviceGetCount_v2", |entered| {
        let whole = entered.scenario.gpus.iter().filter(|gpu| gpu.instance_of.is_none()).count();
        put(out, entered.scenario.count.unwrap_or(whole as c_uint))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut nvmlDevice_t) -> Return {
    let handle: nvmlDevice_t = std::ptr::without_provenance_mut(index as usize + 1);
    device_call("nvmlDeviceGetHandleByIndex_v2", handle, |_, _| put(out, handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: nvmlDevice_t,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> Return {
    device_call("nvmlDeviceGetMigMode", device, |entered, gpu| match entered.gpu(gpu).split {
        true => {
            put(pending, 1);
            put(current, 1)
        }
        false => Code::NotSupported,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: nvmlDevice_t, out: *mut c_uint) -> Return {
    device_call("nvmlDeviceGetMaxMigDeviceCount", device, |_, _| put(out, 7))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: nvmlDevice_t,
    index: c_uint,
    out: *mut nvmlDevice_t,
) -> Return {
    device_call("nvmlDeviceGetMigDeviceHandleByIndex", device, |entered, gpu| {
        match entered.instances(gpu).get(index as usize) {
            Some(instance) => put(out, std::ptr::without_provenance_mut(instance + 1)),
            None => Code::NotFound,
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetVirtualizationMode(device: nvmlDevice_t, out: *mut c_uint) -> Return {
    device_call("nvmlDeviceGetVirtualizationMode", device, |entered, gpu| {
        put(out, if entered.gpu(gpu).shared { 2 } else { 0 })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: nvmlDevice_t, out: *mut c_char, room: c_uint) -> Return {
    device_call("nvmlDeviceGetName", device, |entered, gpu| put_text(out, room, &entered.gpu(gpu).name))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: nvmlDevice_t, out: *mut c_char, room: c_uint) -> Return {
    device_call("nvmlDeviceGetUUID", device, |entered, gpu| {
        let kind = if entered.gpu(gpu).instance_of.is_some() { "MIG" } else { "GPU" };
        put_text(out, room, &format!("{kind}-fa4e0000-0000-4000-8000-{gpu:012}"))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: nvmlDevice_t, out: *mut nvmlPciInfo_t) -> Return {
    device_call("nvmlDeviceGetPciInfo_v3", device, |_, gpu| {
        let bus = gpu as c_uint + 1;
        let mut info = nvmlPciInfo_t {
            busIdLegacy: [0; 16],
            domain: 0,
            bus,
            device: 0,
            pciDeviceId: 0x2684_10DE,
            pciSubSystemId: 0x10DE_10DE,
            busId: [0; 32],
        };
        put_text(info.busIdLegacy.as_mut_ptr(), 16, &format!("0000:{bus:02X}:00.0"));
        put_text(info.busId.as_mut_ptr(), 32, &format!("00000000:{bus:02X}:00.0"));
        put(out, info)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMinorNumber(device: nvmlDevice_t, out: *mut c_uint) -> Return {
    device_call("nvmlDeviceGetMinorNumber", device, |entered, index| match entered.gpu(index).instance_of {
        // As with the real driver, a MIG instance has no device file of its own.
        Some(_) => Code::InvalidArgument,
        None => put(out, entered.gpu(index).minor),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: nvmlDevice_t, out: *mut nvmlMemory_t) -> Return {
    device_call("nvmlDeviceGetMemoryInfo", device, |entered, index| {
        let gpu = entered.gpu(index);
        // This version counts the driver's reserve as used.
        let used = entered.used(index).saturating_add(gpu.reserved);
        put(out, nvmlMemory_t { total: gpu.total, free: gpu.free.unwrap_or(gpu.total.saturating_sub(used)), used })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: nvmlDevice_t, out: *mut nvmlMemory_v2_t) -> Return {
    device_call("nvmlDeviceGetMemoryInfo_v2", device, |entered, index| {
        if out.is_null() {
            return Code::InvalidArgument;
        }
        // SAFETY: not null, and by nvml.h a structure whose version the caller has set.
        let version = unsafe { (*out).version };
        if version != 0x0200_0028 {
            return Code::ArgumentVersionMismatch;
        }
        let (gpu, used) = (entered.gpu(index), entered.used(index));
        let free = gpu.free.unwrap_or(gpu.total.saturating_sub(used.saturating_add(gpu.reserved)));
        put(out, nvmlMemory_v2_t { version, total: gpu.total, reserved: gpu.reserved, free, used })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(device: nvmlDevice_t, out: *mut nvmlUtilization_t) -> Return {
    device_call("nvmlDeviceGetUtilizationRates", device, |entered, index| {
        put(out, nvmlUtilization_t { gpu: entered.gpu(index).sm, memory: 0 })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(device: nvmlDevice_t, _sensor: c_uint, out: *mut c_uint) -> Return {
    device_call("nvmlDeviceGetTemperature", device, |entered, index| put(out, entered.gpu(index).temperature))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(device: nvmlDevice_t, out: *mut c_uint) -> Return {
    device_call("nvmlDeviceGetPowerUsage", device, |entered, index| put(out, entered.gpu(index).milliwatts))
}

/// On where a process of that GPU has a peak.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetAccountingMode(device: nvmlDevice_t, out: *mut c_uint) -> Return {
    device_call("nvmlDeviceGetAccountingMode", device, |entered, index| {
        let counts = |process: &Process| process.gpu == index && process.peak.is_some();
        put(out, c_uint::from(entered.scenario.processes.iter().any(counts)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetAccountingStats(
    device: nvmlDevice_t,
    pid: c_uint,
    out: *mut nvmlAccountingStats_t,
) -> Return {
    device_call("nvmlDeviceGetAccountingStats", device, |entered, index| {
        let is_it = |process: &&Process| process.gpu == index && process.pid == pid;
        let Some(peak) = entered.scenario.processes.iter().find(is_it).and_then(|process| process.peak) else {
            return Code::NotFound;
        };
        let stats = nvmlAccountingStats_t {
            gpuUtilization: 0,
            memoryUtilization: 0,
            maxMemoryUsage: peak,
            time: 0,
            startTime: 0,
            isRunning: 0,
            reserved: [0; 5],
        };
        put(out, stats)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetProcessUtilization(
    device: nvmlDevice_t,
    out: *mut nvmlProcessUtilizationSample_t,
    count: *mut c_uint,
    since: c_ulonglong,
) -> Return {
    device_call("nvmlDeviceGetProcessUtilization", device, |entered, index| {
        if out.is_null() || count.is_null() {
            return Code::InvalidArgument;
        }
        // As with the real driver, idle processes have no sample, and without any the answer is "not found".
        let busy: Vec<&Process> = entered.living(index).into_iter().filter(|process| process.sm > 0).collect();
        // SAFETY: not null; by nvml.h the number of samples that `out` has room for.
        let room = unsafe { count.read() } as usize;
        put(count, busy.len() as c_uint);
        if busy.is_empty() {
            return Code::NotFound;
        }
        if busy.len() > room {
            return Code::InsufficientSize;
        }
        for (at, process) in busy.iter().enumerate() {
            let sample = nvmlProcessUtilizationSample_t {
                pid: process.pid,
                timeStamp: process.stamp.unwrap_or(since.wrapping_add(1)),
                smUtil: process.sm,
                memUtil: 0,
                encUtil: 0,
                decUtil: 0,
            };
            // SAFETY: `out` has room for `room` samples, and there are no more than that.
            unsafe { out.add(at).write(sample) };
        }
        Code::Success
    })
}

/// A process list with rows of this size.
fn list(
    name: &'static str,
    device: nvmlDevice_t,
    count: *mut c_uint,
    out: *mut c_void,
    which: ListName,
    row_bytes: Option<usize>,
) -> Return {
    device_call(name, device, |entered, index| {
        if count.is_null() {
            return Code::InvalidArgument;
        }
        let row_bytes = row_bytes.unwrap_or(entered.scenario.row_bytes);
        let living = entered.living(index).into_iter();
        let rows: Vec<&Process> = living.filter(|process| process.lists.contains(&which)).collect();
        // SAFETY: not null; by nvml.h the number of rows that `out` has room for.
        let room = unsafe { count.read() } as usize;
        let wanted = if entered.grow > 0 { room.saturating_add(entered.grow) } else { rows.len() };
        put(count, wanted as c_uint);
        if wanted > room || (out.is_null() && wanted > 0) {
            return Code::InsufficientSize;
        }
        for (at, process) in rows.iter().enumerate() {
            let row = row_image(process, row_bytes);
            // SAFETY: the caller has `room` rows. That they are as large as ours is what the sampler must see to:
            // drivers differ here, and this is the fault that is played.
            unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), out.cast::<u8>().add(at * row_bytes), row_bytes) };
        }
        Code::Success
    })
}

/// pid, padding, bytes; from 24 bytes on the two instance ids (none without MIG); from 32 on protected memory.
fn row_image(process: &Process, row_bytes: usize) -> Vec<u8> {
    let mut row = Vec::with_capacity(32);
    row.extend(u64::from(process.pid).to_le_bytes());
    row.extend(process.bytes.unwrap_or(NOT_AVAILABLE).to_ne_bytes());
    row.extend(u64::MAX.to_ne_bytes());
    row.extend(0_u64.to_ne_bytes());
    row.truncate(row_bytes);
    row
}

macro_rules! lists {
    ($($name:ident, $list:ident, $row_bytes:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(device: nvmlDevice_t, count: *mut c_uint, out: *mut c_void) -> Return {
            list(stringify!($name), device, count, out, ListName::$list, $row_bytes)
        }
    )*};
}

lists! {
    nvmlDeviceGetComputeRunningProcesses, Compute, Some(16);
    nvmlDeviceGetComputeRunningProcesses_v2, Compute, Some(24);
    nvmlDeviceGetComputeRunningProcesses_v3, Compute, None;
    nvmlDeviceGetGraphicsRunningProcesses, Graphics, Some(16);
    nvmlDeviceGetGraphicsRunningProcesses_v2, Graphics, Some(24);
    nvmlDeviceGetGraphicsRunningProcesses_v3, Graphics, None;
    nvmlDeviceGetMPSComputeRunningProcesses, Mps, Some(16);
    nvmlDeviceGetMPSComputeRunningProcesses_v2, Mps, Some(24);
    nvmlDeviceGetMPSComputeRunningProcesses_v3, Mps, None;
}
