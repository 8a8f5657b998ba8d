//! Owns what is said when the driver or a GPU can't be read: one sentence that says what it is, what it means and
//! what would help. Knows nothing of the driver's library.

use std::path::{Path, PathBuf};

/// Why there is no driver to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No library under any of the usual names.
    NoLibrary,
    /// The library that was named can't be loaded; the text is the loader's.
    CannotLoad(PathBuf, String),
    /// A library, but not this one: it lacks the calls of NVML.
    NotTheDriver(PathBuf),
    /// The kernel module is not loaded.
    NotLoaded,
    /// Library and kernel module are of different versions; the module's where it is known.
    VersionMismatch(Option<String>),
    /// We may not open the driver's device files.
    NoPermission,
    /// The kernel or a cgroup refuses the devices.
    Blocked,
    /// The GPUs are switched off to save power.
    Asleep,
    /// Anything else, in the driver's words.
    Other(String),
}

impl Trouble {
    pub(super) fn sentence(&self) -> String {
        match self {
            Trouble::NoLibrary => "no NVIDIA driver library (libnvidia-ml.so.1) was found: there is no NVIDIA driver \
                here, or this is a container that was not given the GPU; install the driver, start the container \
                with --gpus all, or name the library with --nvml-library PATH"
                .into(),
            Trouble::CannotLoad(path, why) => format!(
                "{} could not be loaded ({}): it is missing, damaged or for another architecture; check the path \
                given with --nvml-library, or leave it out to use the system's",
                path.display(),
                one_line(why)
            ),
            Trouble::NotTheDriver(path) => format!(
                "{} is not the NVIDIA driver's management library: it has no nvmlInit_v2; name libnvidia-ml.so.1 \
                with --nvml-library, or leave it out to use the system's",
                path.display()
            ),
            Trouble::NotLoaded => "the NVIDIA kernel module is not loaded, so no GPU can be reached; load it with \
                `sudo modprobe nvidia`, and if that fails `sudo dmesg | grep -i nvrm` says why"
                .into(),
            Trouble::VersionMismatch(module) => format!(
                "the driver's library and the loaded kernel module{} are of different versions, as after an update \
                without a restart, and programs that run already keep their GPU memory; reboot, or end them and \
                reload the module with `sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia`",
                module.as_deref().map(|version| format!(" ({version})")).unwrap_or_default()
            ),
            Trouble::NoPermission => "the NVIDIA driver refuses this user: the device files /dev/nvidia* may not be \
                opened; `ls -l /dev/nvidiactl` shows who may, so join that group, or run this with sudo"
                .into(),
            Trouble::Blocked => "the operating system blocks the GPU's device files (a cgroup or a container without \
                them): start the container with --gpus all, or run this in the job that was given the GPU"
                .into(),
            Trouble::Asleep => {
                "the GPU sleeps to save power, so nobody holds memory on it; it is not woken for a look, and \
                the next program that uses it wakes it"
                    .into()
            }
            Trouble::Other(why) => format!(
                "the NVIDIA driver could not be started ({}); `nvidia-smi` and `sudo dmesg | grep -i nvrm` say more",
                one_line(why)
            ),
        }
    }

    /// A library that the loader refused. Only a path that the user named is worth a word of its own.
    pub(super) fn cannot_load(named: Option<&Path>, why: &str) -> Trouble {
        named.map_or(Trouble::NoLibrary, |path| Trouble::CannotLoad(path.to_owned(), why.to_owned()))
    }
}

/// Why one GPU can't be read while the others go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeviceTrouble {
    /// It fell off the bus.
    Lost,
    /// It must be reset first.
    ResetRequired,
    /// This user may not open it.
    NoPermission,
    /// The library forgot us, or the driver below it was reloaded: it must be opened again.
    Reloaded(String),
    /// Anything else, in the driver's words.
    Other(String),
}

impl DeviceTrouble {
    pub(super) fn sentence(&self) -> String {
        match self {
            DeviceTrouble::Lost => "GPU is lost: it fell off the bus or no longer answers; what ran on it is gone, \
                and it comes back only with a reset (`sudo nvidia-smi --gpu-reset`) or a reboot"
                .into(),
            DeviceTrouble::ResetRequired => "GPU requires a reset before it can be used: end what uses it, then \
                `sudo nvidia-smi --gpu-reset`, or reboot"
                .into(),
            DeviceTrouble::NoPermission => "no permission to read this GPU: its device file may not be opened by \
                this user or in this container or job"
                .into(),
            DeviceTrouble::Reloaded(why) => {
                format!("the driver was closed or reloaded ({}); it is being opened again", one_line(why))
            }
            DeviceTrouble::Other(why) => format!("this GPU could not be read: {}", one_line(why)),
        }
    }
}

/// The loader and the driver may answer in several lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
