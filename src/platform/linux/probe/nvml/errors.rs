//! Owns what an error of the driver means: for all GPUs, for one GPU, or for one figure of it.

use nvml_wrapper::error::NvmlError;

use crate::gpu::Reading;
use crate::platform::linux::probe::trouble::{DeviceTrouble, Trouble};

pub(super) fn trouble(error: NvmlError) -> Trouble {
    match error {
        NvmlError::DriverNotLoaded | NvmlError::Uninitialized => Trouble::NotLoaded,
        NvmlError::LibRmVersionMismatch => Trouble::VersionMismatch(None),
        NvmlError::NoPermission => Trouble::NoPermission,
        NvmlError::OperatingSystem => Trouble::Blocked,
        NvmlError::LibraryNotFound => Trouble::NoLibrary,
        error => Trouble::Other(error.to_string()),
    }
}

/// What an error means for the whole device; `None` where it concerns one figure only.
pub(super) fn device_trouble(error: &NvmlError) -> Option<DeviceTrouble> {
    match error {
        NvmlError::GpuLost => Some(DeviceTrouble::Lost),
        NvmlError::ResetRequired => Some(DeviceTrouble::ResetRequired),
        NvmlError::Uninitialized | NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch => {
            Some(DeviceTrouble::Reloaded(error.to_string()))
        }
        _ => None,
    }
}

/// What an error means for one figure.
pub(super) fn missing<T>(error: &NvmlError) -> Reading<T> {
    match error {
        NvmlError::NotSupported | NvmlError::FunctionNotFound | NvmlError::FailedToLoadSymbol(_) => {
            Reading::Unsupported
        }
        NvmlError::NoPermission => Reading::Denied,
        NvmlError::NoData | NvmlError::NotFound => Reading::NotAvailable,
        error => Reading::Failed(error.to_string()),
    }
}

/// A figure, or why it is unknown. An error that concerns the whole GPU ends the reading of that GPU.
pub(super) fn figure<T>(result: Result<T, NvmlError>) -> Result<Reading<T>, DeviceTrouble> {
    match result {
        Ok(value) => Ok(Reading::Known(value)),
        Err(error) => device_trouble(&error).map_or_else(|| Ok(missing(&error)), Err),
    }
}

/// A percentage above 100 is an error of the driver.
pub(super) fn percent(reading: Reading<u32>) -> Reading<u32> {
    match reading {
        Reading::Known(value) if value > 100 => Reading::Failed(format!("the driver gave {value} %")),
        reading => reading,
    }
}
