//! Owns what is said when the driver or a GPU can't be read: one sentence that says what it is, what it means and
//! what would help. Knows nothing of the driver's library.

use std::path::{Path, PathBuf};

/// Why there is no driver to ask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// No library under any of the usual names.
    #[error(
        "no NVIDIA driver library (libnvidia-ml.so.1) was found: there is no NVIDIA driver here, or this is a container \
         that was not given the GPU; install the driver, start the container with --gpus all, or name the library with \
         --nvml-library PATH"
    )]
    NoLibrary,
    /// The library that was named can't be loaded; the text is the loader's.
    #[error(
        "{} could not be loaded ({}): it is missing, damaged or for another architecture; check the path given with \
         --nvml-library, or leave it out to use the system's", .0.display(), one_line(.1)
    )]
    CannotLoad(PathBuf, String),
    /// What was named is a folder, a pipe or a device. The loader would wait for a pipe for ever.
    #[error(
        "{} is not a library ({}); name the file libnvidia-ml.so.1 with --nvml-library, or leave it out to use the \
         system's", .0.display(), .1
    )]
    NotAFile(PathBuf, String),
    /// A library, but not this one: it lacks the calls of NVML.
    #[error(
        "{} is not the NVIDIA driver's management library: it has no nvmlInit_v2; name libnvidia-ml.so.1 with \
         --nvml-library, or leave it out to use the system's", .0.display()
    )]
    NotTheDriver(PathBuf),
    /// The kernel module is not loaded.
    #[error(
        "the NVIDIA kernel module is not loaded, so no GPU can be reached; load it with `sudo modprobe nvidia`, and if \
         that fails `sudo dmesg | grep -i nvrm` says why"
    )]
    NotLoaded,
    /// Library and kernel module are of different versions; the module's where it is known.
    #[error(
        "the driver's library and the loaded kernel module{} are of different versions, as after an update without a \
         restart, and programs that run already keep their GPU memory; reboot, or end them and reload the module with \
         `sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia`",
        .0.as_deref().map(|version| format!(" ({version})")).unwrap_or_default()
    )]
    VersionMismatch(Option<String>),
    /// This user may not open the driver's device files.
    #[error(
        "the NVIDIA driver refuses this user: the device files /dev/nvidia* may not be opened; `ls -l /dev/nvidiactl` \
         shows who may, so join that group, or run this with sudo"
    )]
    NoPermission,
    /// The kernel or a cgroup refuses the devices.
    #[error(
        "the operating system blocks the GPU's device files (a cgroup or a container without them): start the container \
         with --gpus all, or run this in the job that was given the GPU"
    )]
    Blocked,
    /// The GPUs are switched off to save power.
    #[error(
        "the GPU sleeps to save power, so nobody holds memory on it; it is not woken for a look, and the next program \
         that uses it wakes it"
    )]
    Asleep,
    /// Anything else, in the driver's words.
    #[error(
        "the NVIDIA driver could not be started ({}); `nvidia-smi` and `sudo dmesg | grep -i nvrm` say more",
        one_line(.0)
    )]
    Other(String),
}

impl Trouble {
    /// A library that the loader refused. Only a path that the user named is worth a word of its own.
    pub(super) fn cannot_load(named: Option<&Path>, why: &str) -> Trouble {
        named.map_or(Trouble::NoLibrary, |path| Trouble::CannotLoad(path.to_owned(), why.to_owned()))
    }
}

/// Why one GPU can't be read while the others go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DeviceTrouble {
    /// It fell off the bus.
    #[error(
        "GPU is lost: it fell off the bus or no longer answers; what ran on it is gone, and it comes back only with a \
         reset (`sudo nvidia-smi --gpu-reset`) or a reboot"
    )]
    Lost,
    /// It must be reset first.
    #[error(
        "GPU requires a reset before it can be used: end what uses it, then `sudo nvidia-smi --gpu-reset`, or reboot"
    )]
    ResetRequired,
    /// This user may not open it.
    #[error(
        "no permission to read this GPU: its device file may not be opened by this user or in this container or job"
    )]
    NoPermission,
    /// The library forgot this client, or the driver below it was reloaded: it must be opened again.
    #[error("the driver was closed or reloaded ({}); it is being opened again", one_line(.0))]
    Reloaded(String),
    /// Anything else, in the driver's words.
    #[error("this GPU could not be read: {}", one_line(.0))]
    Other(String),
}

/// The loader and the driver may answer in several lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
