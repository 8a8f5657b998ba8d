//! Owns what /proc says of the machine as a whole: its name, its boot and its clock.

use std::fs;
use std::path::{Path, PathBuf};

use super::{LARGE_FILE_BYTES, Procfs, read_up_to};
use crate::units::WallTime;

/// Kubernetes mounts a pod's credentials there (kubernetes.io, "Accessing the Kubernetes API from
/// a Pod", checked 2026-11-22).
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How clock ticks become a moment of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootClock {
    /// Boot, in seconds of the epoch, as the kernel works it out now (it moves when the clock is set).
    pub boot_seconds: i64,
    /// Clock ticks in a second (USER_HZ; nearly always 100).
    pub ticks_per_second: u64,
}

impl BootClock {
    /// When something that many ticks after boot happened; `None` where it is beyond what a calendar has.
    pub fn at(&self, ticks: u64) -> Option<WallTime> {
        let milliseconds = i64::try_from(u128::from(ticks) * 1000 / u128::from(self.ticks_per_second.max(1))).ok()?;
        let epoch = self.boot_seconds.checked_mul(1000)?.checked_add(milliseconds)?;
        jiff::Timestamp::from_millisecond(epoch).ok().map(WallTime)
    }
}

/// Variables as a process was given them at its start.
#[derive(Debug)]
pub struct Environment(Vec<u8>);

impl Environment {
    /// The value of a variable; `None` where it is empty.
    pub fn variable(&self, name: &str) -> Option<String> {
        super::variable(&self.0, name).filter(|value| !value.is_empty())
    }
}

impl Procfs {
    /// Names this boot: PIDs of two readings can be compared only within one.
    pub fn boot_id(&self) -> Option<String> {
        self.machine_file("sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
    }

    /// `None` where /proc/stat has no boot time.
    pub fn boot_clock(&self) -> Option<BootClock> {
        let text = self.machine_file("stat")?;
        let boot = text.lines().find_map(|line| line.strip_prefix("btime "))?;
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        Some(BootClock { boot_seconds: boot.trim().parse().ok()?, ticks_per_second })
    }

    /// The version of the NVIDIA kernel module that is loaded, if one is.
    pub fn nvidia_module_version(&self) -> Option<String> {
        let text = self.machine_file("driver/nvidia/version")?;
        let line = text.lines().find(|line| line.starts_with("NVRM"))?;
        let mut words = line.split_ascii_whitespace();
        words.find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
    }

    /// Of each NVIDIA card its PCI address in lower case and the number of its device file (/dev/nvidia3), as the kernel
    /// module gives them; empty where it does not (WSL2).
    pub fn card_numbers(&self) -> Vec<(String, u32)> {
        let cards = fs::read_dir(self.root.join("driver/nvidia/gpus")).into_iter().flatten().flatten();
        cards.filter_map(|card| card_number(&card)).collect()
    }

    /// Whether this is Windows' Linux (WSL), whose driver is Windows'.
    pub fn is_wsl(&self) -> bool {
        self.machine_file("sys/kernel/osrelease").is_some_and(|release| release.to_lowercase().contains("microsoft"))
    }

    /// Whether this process runs inside a Kubernetes pod: its environment names the cluster's API, or the pod's service
    /// account is mounted, which stays where a program was started with a cleared environment.
    pub fn is_in_a_pod(&self) -> bool {
        let is_ours = self.root == Path::new("/proc") && self.devices == Path::new("/dev");
        let account = if is_ours { PathBuf::from(SERVICE_ACCOUNT) } else { self.devices.join("serviceaccount") };
        self.own_variable("KUBERNETES_SERVICE_HOST").is_some() || account.exists()
    }

    /// A variable of this very process's environment; `None` where it is empty.
    pub fn own_variable(&self, name: &str) -> Option<String> {
        self.own_environment().variable(name)
    }

    /// The environment that this very process was started with.
    pub fn own_environment(&self) -> Environment {
        Environment(read_up_to(&self.root.join("self/environ"), LARGE_FILE_BYTES).unwrap_or_default())
    }

    /// The machine's name; empty where it can't be read.
    pub fn host_name(&self) -> String {
        self.machine_file("sys/kernel/hostname").map(|name| name.trim().to_owned()).unwrap_or_default()
    }

    /// A file of /proc as text; `None` where it can't be read.
    pub(super) fn machine_file(&self, path: &str) -> Option<String> {
        let bytes = read_up_to(&self.root.join(path), LARGE_FILE_BYTES).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn card_number(card: &fs::DirEntry) -> Option<(String, u32)> {
    let text = fs::read_to_string(card.path().join("information")).ok()?;
    let number = text.lines().find_map(|line| line.strip_prefix("Device Minor:"))?.trim().parse().ok()?;
    Some((card.file_name().to_str()?.to_lowercase(), number))
}
