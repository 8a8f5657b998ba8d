//! Functions that other monitors look for before they start, so that they can be measured on the same driver. They
//! exist and answer "not supported".

use std::ffi::{c_char, c_int, c_uint, c_void};

use nvml_wrapper_sys::bindings::nvmlDevice_t;

use super::{Return, device_call};
use crate::scenario::Code;

#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(_code: Return) -> *const c_char {
    c"an error that was played".as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Return {
    super::initialised()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(out: *mut c_int) -> Return {
    // SAFETY: the caller's pointer, as that one takes it.
    unsafe { super::nvmlSystemGetCudaDriverVersion_v2(out) }
}

macro_rules! not_supported {
    ($($name:ident($($argument:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(device: nvmlDevice_t, $(_: $argument),*) -> Return {
            device_call(stringify!($name), device, |_, _| Code::NotSupported)
        }
    )*};
}

not_supported! {
    nvmlDeviceGetMaxPcieLinkGeneration(*mut c_uint);
    nvmlDeviceGetMaxPcieLinkWidth(*mut c_uint);
    nvmlDeviceGetCurrPcieLinkGeneration(*mut c_uint);
    nvmlDeviceGetCurrPcieLinkWidth(*mut c_uint);
    nvmlDeviceGetPcieThroughput(c_uint, *mut c_uint);
    nvmlDeviceGetTemperatureThreshold(c_uint, *mut c_uint);
    nvmlDeviceGetClockInfo(c_uint, *mut c_uint);
    nvmlDeviceGetMaxClockInfo(c_uint, *mut c_uint);
    nvmlDeviceGetFanSpeed(*mut c_uint);
    nvmlDeviceGetEnforcedPowerLimit(*mut c_uint);
    nvmlDeviceGetEncoderUtilization(*mut c_uint, *mut c_uint);
    nvmlDeviceGetDecoderUtilization(*mut c_uint, *mut c_uint);
    nvmlDeviceGetPerformanceState(*mut c_void);
    nvmlDeviceGetPowerManagementLimit();
    nvmlDeviceGetPersistenceMode();
    nvmlDeviceGetDisplayActive();
    nvmlDeviceGetDisplayMode();
    nvmlDeviceGetCurrentDriverModel();
    nvmlDeviceGetDriverModel();
    nvmlDeviceGetDriverModel_v2();
    nvmlDeviceGetTotalEccErrors();
    nvmlDeviceGetComputeMode();
    nvmlDeviceGetBAR1MemoryInfo();
    nvmlDeviceGetSerial();
    nvmlDeviceGetBrand();
    nvmlDeviceGetFanSpeed_v2();
    nvmlDeviceGetNumFans();
    nvmlDeviceGetMemoryErrorCounter();
    nvmlDeviceGetVbiosVersion();
    nvmlDeviceGetCudaComputeCapability();
}
