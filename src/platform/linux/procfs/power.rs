//! Owns reading whether the NVIDIA cards sleep, out of /sys: a laptop's second card is switched off while nobody has it
//! open, and looking at it through the driver would wake it.

use std::fs;
use std::path::{Path, PathBuf};

use super::Procfs;

/// Whether the machine's NVIDIA GPUs sleep. If one is on, the driver can be used for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    /// All are switched off, so no process uses VRAM.
    Asleep,
    /// All would sleep if no process had them open.
    MaySleep,
    /// At least one stays on, or their state is unknown.
    StaysOn,
}

impl Procfs {
    /// True if the machine runs on its battery now. The batteries of a mouse or a headset do not count.
    pub fn on_battery(&self) -> bool {
        let supplies = fs::read_dir(self.system.join("class/power_supply")).into_iter().flatten().flatten();
        let supplies: Vec<PathBuf> = supplies.map(|entry| entry.path()).collect();
        // With a charger plugged in the machine is not on its battery, even if that discharges: a second charger may
        // supply it, and some batteries do not charge beyond 80 %.
        supplies.iter().any(|folder| is_discharging_battery(folder))
            && !supplies.iter().any(|folder| says(folder, "online", "1"))
    }

    /// The folders of the machine's NVIDIA GPUs in /sys, without their sound and USB functions.
    pub fn cards(&self) -> Vec<PathBuf> {
        let devices = fs::read_dir(self.system.join("bus/pci/devices")).into_iter().flatten().flatten();
        let folders = devices.map(|entry| entry.path());
        folders.filter(|folder| is_nvidia_card(folder)).collect()
    }
}

impl Power {
    /// Reads it; asks no card and no driver.
    pub(crate) fn of(cards: &[PathBuf]) -> Power {
        let cards: Vec<Power> = cards.iter().map(|folder| card(folder)).collect();
        match &cards[..] {
            [] => Power::StaysOn,
            cards if cards.iter().all(|card| *card == Power::Asleep) => Power::Asleep,
            cards if cards.contains(&Power::StaysOn) => Power::StaysOn,
            _ => Power::MaySleep,
        }
    }
}

fn is_discharging_battery(folder: &Path) -> bool {
    says(folder, "type", "Battery") && says(folder, "status", "Discharging") && !says(folder, "scope", "Device")
}

fn is_nvidia_card(folder: &Path) -> bool {
    says(folder, "vendor", "0x10de") && text(folder, "class").is_some_and(|class| class.starts_with("0x03"))
}

fn says(folder: &Path, file: &str, word: &str) -> bool {
    text(folder, file).is_some_and(|said| said == word)
}

fn card(folder: &Path) -> Power {
    match (text(folder, "power/runtime_status").as_deref(), text(folder, "power/control").as_deref()) {
        (Some("suspended"), _) => Power::Asleep,
        (_, Some("auto")) => Power::MaySleep,
        _ => Power::StaysOn,
    }
}

fn text(folder: &Path, file: &str) -> Option<String> {
    fs::read_to_string(folder.join(file)).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_sleep_only_if_all_of_them_do() {
        let root = tempfile::tempdir().unwrap();
        let card = |slot: &str, vendor: &str, class: &str, status: &str, control: &str| {
            let folder = root.path().join("sys/bus/pci/devices").join(slot);
            fs::create_dir_all(folder.join("power")).unwrap();
            let files =
                [("vendor", vendor), ("class", class), ("power/runtime_status", status), ("power/control", control)];
            for (file, text) in files {
                fs::write(folder.join(file), format!("{text}\n")).unwrap();
            }
        };
        let procfs = Procfs::default().with_devices(root.path());
        let power = || Power::of(&procfs.cards());
        assert_eq!(power(), Power::StaysOn, "no cards");
        card("0000:00:02.0", "0x8086", "0x030000", "active", "on");
        card("0000:01:00.1", "0x10de", "0x040300", "active", "on");
        card("0000:01:00.0", "0x10de", "0x030200", "suspended", "auto");
        assert_eq!(power(), Power::Asleep, "another vendor's card and its own sound don't count");
        card("0000:01:00.0", "0x10de", "0x030200", "active", "auto");
        assert_eq!(power(), Power::MaySleep);
        card("0000:02:00.0", "0x10de", "0x030000", "active", "on");
        assert_eq!(power(), Power::StaysOn);
    }

    #[test]
    fn a_battery_counts_where_the_machine_lives_on_it() {
        let root = tempfile::tempdir().unwrap();
        let supply = |name: &str, files: &[(&str, &str)]| {
            let folder = root.path().join("sys/class/power_supply").join(name);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in files {
                fs::write(folder.join(file), format!("{text}\n")).unwrap();
            }
        };
        let procfs = Procfs::default().with_devices(root.path());
        assert!(!procfs.on_battery(), "a machine without one");
        supply("hidpp_battery_0", &[("type", "Battery"), ("scope", "Device"), ("status", "Discharging")]);
        assert!(!procfs.on_battery(), "a mouse's");
        supply("AC", &[("type", "Mains"), ("online", "1")]);
        supply("BAT0", &[("type", "Battery"), ("status", "Not charging")]);
        assert!(!procfs.on_battery());
        supply("AC", &[("online", "0")]);
        supply("BAT0", &[("status", "Discharging")]);
        assert!(procfs.on_battery());
    }
}
