//! Owns one GPU of AMD or Intel as the kernel's files describe it (/sys/class/drm/cardN/device): what never changes, and
//! its memory, use and temperature now. Nothing here wakes a GPU that sleeps.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::fdinfo::KernelDriver;
use super::kfd::Node;
use crate::gpu::{DeviceMemory, Reading, Vendor};
use crate::units::Bytes;

/// Where the names of GPUs are listed, where a distribution has installed them.
const AMDGPU_IDS: &str = "/usr/share/libdrm/amdgpu.ids";
const PCI_IDS: [&str; 2] = ["/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids"];

/// The memory that programs get from a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    /// Its own VRAM.
    Own,
    /// A share of the system memory with a limit (GTT of an AMD APU).
    Shared,
    /// The system memory, without a limit of its own (Intel's integrated GPUs).
    System,
}

#[derive(Clone, Debug)]
pub(super) struct Card {
    folder: PathBuf,
    pub driver: KernelDriver,
    pub name: Reading<String>,
    /// In lower case, such as 0000:03:00.0.
    pub address: Option<String>,
    /// The minor numbers of its device files.
    pub nodes: Vec<u32>,
    pub pool: Pool,
    /// As ROCm's kernel driver knows it.
    pub kfd: Option<Node>,
    /// Its number as ROCm counts, or as Level Zero does by the order of the bus.
    pub ordinal: Option<u32>,
}

/// What is read at each refresh.
#[derive(Clone, Debug)]
pub(super) struct CardFigures {
    pub memory: DeviceMemory,
    pub shared_total_bytes: Option<Bytes>,
    pub shared_used_bytes: Option<Bytes>,
    pub utilization_percent: Reading<u32>,
    pub temperature_celsius: Reading<u32>,
    pub power_watts: Reading<u32>,
}

/// The GPUs whose drivers are read, in the order of their PCI addresses.
pub(super) fn discover(system: &Path, kfd: &[Node]) -> Vec<Card> {
    let entries = fs::read_dir(system.join("class/drm")).into_iter().flatten().flatten();
    let mut cards: Vec<Card> = entries.filter_map(|entry| Card::of(system, &entry, kfd)).collect();
    cards.sort_by(|one, other| (&one.address, &one.nodes).cmp(&(&other.address, &other.nodes)));
    let of_intel = cards.iter_mut().filter(|card| card.vendor() == Vendor::Intel);
    of_intel.zip(0..).for_each(|(card, number)| card.ordinal = Some(number));
    cards
}

impl Card {
    fn of(system: &Path, entry: &fs::DirEntry, kfd: &[Node]) -> Option<Card> {
        // card0-HDMI-A-1 is an output of card0.
        let name = entry.file_name();
        let minor: u32 = name.to_str()?.strip_prefix("card")?.parse().ok()?;
        let folder = entry.path().join("device");
        let about = fs::read_to_string(folder.join("uevent")).ok()?;
        let told = |key: &str| about.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let driver = KernelDriver::named(told("DRIVER")?)?;
        let render = fs::read_dir(folder.join("drm")).into_iter().flatten().flatten();
        let render = render.filter_map(|node| node.file_name().to_str()?.strip_prefix("renderD")?.parse().ok());
        let nodes: Vec<u32> = [minor].into_iter().chain(render).collect();
        let node = kfd.iter().find(|node| nodes.contains(&node.render_minor)).cloned();
        let pool = match driver {
            KernelDriver::Amdgpu => amd_pool(&folder, node.as_ref()),
            KernelDriver::I915 | KernelDriver::Xe => intel_pool(system, told("PCI_SLOT_NAME")),
        };
        Some(Card {
            name: product_name(&folder, told("PCI_ID")),
            address: told("PCI_SLOT_NAME").map(str::to_ascii_lowercase),
            ordinal: node.as_ref().map(|node| node.ordinal),
            kfd: node,
            driver,
            nodes,
            pool,
            folder,
        })
    }

    pub(super) fn vendor(&self) -> Vendor {
        match self.driver {
            KernelDriver::Amdgpu => Vendor::Amd,
            KernelDriver::I915 | KernelDriver::Xe => Vendor::Intel,
        }
    }

    /// True if it is switched off to save power. Reading some files would wake it.
    pub(super) fn is_asleep(&self) -> bool {
        text(&self.folder.join("power/runtime_status")).is_ok_and(|status| status == "suspended")
    }

    /// True if clients of this address are its own. A driver may print none.
    pub(super) fn is_at(&self, address: Option<&str>) -> bool {
        address.is_none_or(|address| self.address.as_deref().is_none_or(|own| own == address))
    }

    /// The VRAM (or pool) in use now.
    pub(super) fn used(&self) -> Reading<Bytes> {
        match (self.driver, self.pool) {
            (KernelDriver::Amdgpu, Pool::Own) => self.bytes("mem_info_vram_used"),
            (KernelDriver::Amdgpu, _) => self.bytes("mem_info_gtt_used"),
            _ => Reading::Unsupported,
        }
    }

    pub(super) fn read(&self, system: &Path, available: Reading<Bytes>, asleep: bool) -> CardFigures {
        let gtt = |file: &str| if self.pool == Pool::Own { self.bytes(file).value() } else { None };
        // A sleeping GPU answers with an error, or is woken by the question.
        let awake = |read: &dyn Fn() -> Reading<u32>| if asleep { Reading::NotAvailable } else { read() };
        CardFigures {
            memory: self.memory(system, available),
            shared_total_bytes: gtt("mem_info_gtt_total"),
            shared_used_bytes: gtt("mem_info_gtt_used"),
            utilization_percent: awake(&|| number(&self.folder.join("gpu_busy_percent"))),
            temperature_celsius: awake(&|| self.sensor(&["temp1_input"], 1000)),
            power_watts: awake(&|| self.sensor(&["power1_average", "power1_input"], 1_000_000)),
        }
    }

    fn memory(&self, system: &Path, available: Reading<Bytes>) -> DeviceMemory {
        let total = match (self.driver, self.pool) {
            (KernelDriver::Amdgpu, Pool::Own) => self.bytes("mem_info_vram_total"),
            (KernelDriver::Amdgpu, _) => self.bytes("mem_info_gtt_total"),
            (_, Pool::Own) => self.address.as_deref().map_or(Reading::Unsupported, |at| dmem_capacity(system, at)),
            _ => Reading::Unsupported,
        };
        let total = if total == Reading::Known(Bytes::ZERO) { Reading::Unsupported } else { total };
        let used_bytes = self.used();
        let free_bytes = match (total.value(), used_bytes.value()) {
            (Some(total), Some(used)) => {
                let free = total.less(used);
                // Other programs may leave less of the system memory than the GPU's limit does.
                let left = if self.pool == Pool::Shared { available.value() } else { None };
                Reading::Known(left.map_or(free, |left| free.min(left)))
            }
            (Some(_), None) => used_bytes.clone().map(|_| Bytes::ZERO),
            (None, _) => total.clone(),
        };
        DeviceMemory { total_bytes: total, reserved_bytes: Reading::Unsupported, used_bytes, free_bytes }
    }

    fn bytes(&self, file: &str) -> Reading<Bytes> {
        number::<u64>(&self.folder.join(file)).map(Bytes)
    }

    fn sensor(&self, files: &[&str], unit: u32) -> Reading<u32> {
        let folders = fs::read_dir(self.folder.join("hwmon")).into_iter().flatten().flatten();
        let paths = folders.flat_map(|folder| files.iter().map(move |file| folder.path().join(file)));
        let mut unknown = Reading::Unsupported;
        for path in paths {
            match number::<u32>(&path) {
                Reading::Known(figure) => return Reading::Known(figure.saturating_add(unit / 2) / unit),
                Reading::Unsupported => {}
                reason => unknown = reason,
            }
        }
        unknown
    }
}

/// An APU allocates from GTT where its VRAM, which the firmware set aside, is the smaller of the two (the kernel's
/// `apu_prefer_gtt`). The ratio of the two tells no APU: a card with 8 GB may have 64 GB of GTT.
fn amd_pool(folder: &Path, kfd: Option<&Node>) -> Pool {
    let size = |file: &str| number::<u64>(&folder.join(file)).value().unwrap_or(0);
    let (vram, gtt) = (size("mem_info_vram_total"), size("mem_info_gtt_total"));
    let is_apu = match kfd.and_then(|node| node.bank_bytes) {
        Some(bank) => bank > vram,
        // Its third byte is the revision of the format: 2 and 3 are those of APUs.
        None => fs::read(folder.join("gpu_metrics")).is_ok_and(|bytes| matches!(bytes.get(2), Some(2 | 3))),
    };
    if is_apu && vram < gtt { Pool::Shared } else { Pool::Own }
}

/// A discrete GPU has a capacity of its own in the root control group's list, since kernel 6.14. Before that only its PCI
/// address tells: an integrated one is a part of the processor, on bus 0.
fn intel_pool(system: &Path, address: Option<&str>) -> Pool {
    let Some(address) = address else { return Pool::System };
    let has_vram = dmem_capacity(system, &address.to_ascii_lowercase()).known().is_some();
    let on_bus_0 = address.split(':').nth(1) == Some("00");
    if has_vram || !on_bus_0 { Pool::Own } else { Pool::System }
}

/// The memory of the GPU at this address by `dmem.capacity`, whose lines are `drm/0000:03:00.0/vram0 12884901888`. Tiles add.
fn dmem_capacity(system: &Path, address: &str) -> Reading<Bytes> {
    let lines = match text(&system.join("fs/cgroup/dmem.capacity")) {
        Ok(lines) => lines,
        Err(error) => return unread(&error),
    };
    let mut sum: Option<Bytes> = None;
    for line in lines.lines() {
        let Some((region, bytes)) = line.split_once(' ') else { continue };
        let own = region.strip_prefix("drm/").and_then(|rest| rest.strip_prefix(address)?.strip_prefix('/'));
        if own.is_some_and(|name| name.starts_with("vram")) {
            let Ok(bytes) = bytes.trim().parse() else { return Reading::Failed("dmem.capacity is malformed".into()) };
            sum = Some(sum.unwrap_or(Bytes::ZERO).plus(Bytes(bytes)));
        }
    }
    sum.map_or(Reading::Unsupported, Reading::Known)
}

/// As the GPU names itself, else as the lists of names have it, else by its numbers.
fn product_name(folder: &Path, pci_id: Option<&str>) -> Reading<String> {
    if let Ok(name) = text(&folder.join("product_name"))
        && !name.is_empty()
    {
        return Reading::Known(name);
    }
    let Some((vendor, device)) = pci_id.and_then(|id| id.split_once(':')) else { return Reading::Unsupported };
    let revision = text(&folder.join("revision")).unwrap_or_default();
    let revision = revision.trim_start_matches("0x");
    let listed = fs::read_to_string(AMDGPU_IDS).ok().filter(|_| vendor.eq_ignore_ascii_case("1002"));
    let name = listed.and_then(|list| in_amdgpu_ids(&list, device, revision)).or_else(|| {
        PCI_IDS.iter().find_map(|path| in_pci_ids(&String::from_utf8_lossy(&fs::read(path).ok()?), vendor, device))
    });
    Reading::Known(name.unwrap_or_else(|| format!("GPU {}:{}", vendor.to_lowercase(), device.to_lowercase())))
}

/// A line of amdgpu.ids: `744C, C8, AMD Radeon RX 7900 XTX`.
fn in_amdgpu_ids(list: &str, device: &str, revision: &str) -> Option<String> {
    list.lines().find_map(|line| {
        let mut parts = line.splitn(3, ',').map(str::trim);
        let is_it = parts.next()?.eq_ignore_ascii_case(device) && parts.next()?.eq_ignore_ascii_case(revision);
        let name = parts.next()?;
        is_it.then(|| name.to_owned())
    })
}

/// A line of pci.ids below its vendor's: `<tab>e20b  Battlemage G21 [Arc B580]`; the name that people know is in brackets.
fn in_pci_ids(list: &str, vendor: &str, device: &str) -> Option<String> {
    let mut lines = list.lines().skip_while(|line| !begins_with(line, vendor));
    let maker = lines.next()?.split_once("  ")?.1.split(',').next()?.trim_end_matches(" Corporation").to_owned();
    let mut devices = lines.take_while(|line| line.starts_with('\t') || line.starts_with('#'));
    let line = devices.find_map(|line| line.strip_prefix('\t').filter(|line| begins_with(line, device)))?;
    let name = line.split_once("  ")?.1.trim();
    let known = name.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(name, |(inside, _)| inside);
    let maker = if maker.starts_with("Advanced Micro Devices") { "AMD" } else { &maker };
    // "Meteor Lake-P [Intel Arc Graphics]".
    Some(if known.starts_with(maker) { known.to_owned() } else { format!("{maker} {known}") })
}

fn begins_with(line: &str, number: &str) -> bool {
    line.get(..number.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(number))
}

/// The number in a file of /sys.
pub(super) fn number<T: std::str::FromStr>(path: &Path) -> Reading<T> {
    match text(path) {
        Ok(text) => text.parse().map_or_else(|_| Reading::Failed("not a number".into()), Reading::Known),
        Err(error) => unread(&error),
    }
}

fn text(path: &Path) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

fn unread<T>(error: &io::Error) -> Reading<T> {
    match error.kind() {
        io::ErrorKind::NotFound => Reading::Unsupported,
        io::ErrorKind::PermissionDenied => Reading::Denied,
        _ => Reading::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_lists_that_distributions_install() {
        let ids = "# comment\n1.0.0\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n744C,\tCC,\tAMD Radeon RX 7900 XT\n";
        assert_eq!(in_amdgpu_ids(ids, "744c", "cc").as_deref(), Some("AMD Radeon RX 7900 XT"));
        assert_eq!(in_amdgpu_ids(ids, "744c", "ff"), None);
        let pci = "1002  Advanced Micro Devices, Inc. [AMD/ATI]\n\t744c  Navi 31 [Radeon RX 7900 XTX]\n\
            8086  Intel Corporation\n\te20b  Battlemage G21 [Arc B580]\n\t\t1849 6021  B580\n\t0046  Core Graphics\n8087  X\n";
        assert_eq!(in_pci_ids(pci, "8086", "E20B").as_deref(), Some("Intel Arc B580"));
        assert_eq!(in_pci_ids(pci, "1002", "744C").as_deref(), Some("AMD Radeon RX 7900 XTX"));
        assert_eq!(in_pci_ids(pci, "1002", "e20b"), None, "another vendor's");
    }
}
