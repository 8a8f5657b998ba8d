//! Owns reading which GPUs of AMD and Intel a process has open (/dev/dri/*), and what the kernel says of such a descriptor.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{ProcError, Procfs};

/// The major number of GPUs' device files (DRM_MAJOR in the kernel's include/drm/drm_drv.h, checked 2026-11-23).
const DRM_MAJOR: u32 = 226;
/// From this minor number on they are render nodes.
const FIRST_RENDER_MINOR: u32 = 128;
/// More than any GPU's fdinfo has; other files' may have megabytes.
const MOST_FDINFO: u64 = 64 << 10;
/// The kernel's drivers whose GPUs are read.
const DRIVERS: [&str; 3] = ["amdgpu", "i915", "xe"];

/// A GPU's device file that a process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenNode {
    /// The number of the descriptor.
    pub descriptor: String,
    /// 128 for /dev/dri/renderD128, 0 for /dev/dri/card0.
    pub minor: u32,
}

impl Procfs {
    /// The same with /sys in another folder: the tests' own.
    #[must_use]
    pub fn with_system(self, system: impl Into<PathBuf>) -> Procfs {
        Procfs { system: system.into(), ..self }
    }

    pub(crate) fn system(&self) -> &Path {
        &self.system
    }

    /// True if NVIDIA's driver, or Windows' under WSL2, may have GPUs here.
    pub(crate) fn has_nvidia_files(&self) -> bool {
        ["nvidiactl", "dxg"].iter().any(|name| self.devices.join(name).exists())
    }

    /// The files below /dev/dri that a process has open.
    pub fn open_nodes(&self, pid: u32) -> Result<Vec<OpenNode>, ProcError> {
        let files = self.open_files(pid)?;
        Ok(files.into_iter().filter_map(|(link, target)| self.node(&link, &target)).collect())
    }

    /// What the kernel says of a descriptor. In the tests, whose processes can't open a GPU, a file of the device folder
    /// says it instead.
    pub fn fdinfo(&self, pid: u32, descriptor: &str) -> Result<Vec<u8>, ProcError> {
        if self.devices != Path::new("/dev") {
            let stand_in = self.devices.join("fdinfo").join(pid.to_string()).join(descriptor);
            if let Ok(text) = fs::read(stand_in) {
                return Ok(text);
            }
        }
        self.read(pid, &format!("fdinfo/{descriptor}"), MOST_FDINFO)
    }

    /// Whether this is a device file of a GPU whose memory is read. A display server also opens those of others.
    pub(super) fn is_read_node(&self, minor: u32) -> bool {
        let text = self.about_node(minor);
        text.lines().filter_map(|line| line.strip_prefix("DRIVER=")).any(|driver| DRIVERS.contains(&driver))
    }

    /// Whether a process has a device file of one of these GPUs, given by PCI address, open now.
    pub fn has_one_open(&self, pid: u32, cards: &[String]) -> bool {
        let nodes = self.open_nodes(pid).unwrap_or_default();
        nodes.iter().any(|node| {
            let text = self.about_node(node.minor);
            let mut addresses = text.lines().filter_map(|line| line.strip_prefix("PCI_SLOT_NAME="));
            addresses.any(|address| cards.iter().any(|card| card.eq_ignore_ascii_case(address)))
        })
    }

    /// What the kernel says of the GPU that a device file is of.
    fn about_node(&self, minor: u32) -> String {
        let kind = if minor >= FIRST_RENDER_MINOR { "renderD" } else { "card" };
        let about = self.system.join("class/drm").join(format!("{kind}{minor}")).join("device/uevent");
        fs::read_to_string(about).unwrap_or_default()
    }

    pub(super) fn node(&self, link: &Path, target: &str) -> Option<OpenNode> {
        let name = Path::new(target).strip_prefix(&self.devices).ok()?.to_str()?.strip_prefix("dri/")?;
        let digits = name.strip_prefix("renderD").or_else(|| name.strip_prefix("card"))?;
        let named: u32 = digits.parse().ok()?;
        let minor = if self.root == Path::new("/proc") && self.devices == Path::new("/dev") {
            let opened = fs::metadata(link).ok().filter(|opened| opened.file_type().is_char_device())?;
            (rustix::fs::major(opened.rdev()) == DRM_MAJOR).then(|| rustix::fs::minor(opened.rdev()))?
        } else {
            named
        };
        Some(OpenNode { descriptor: link.file_name()?.to_str()?.to_owned(), minor })
    }
}
