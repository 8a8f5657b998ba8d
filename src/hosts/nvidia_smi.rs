//! Owns reading a machine by what its `nvidia-smi` and `ps` print, where this program is not installed. `ssh::script` makes
//! the sections. No start ticks are known, so nothing is proved by it, and a process without them has no key.

use std::collections::BTreeMap;
use std::mem;

use jiff::{SignedDuration, Timestamp};

use super::ssh::Trouble;
use crate::gpu::accounts::{Row, merge, row_figure, unaccounted};
use crate::gpu::recognise::{Traits, protected_command, recognise};
use crate::gpu::{Device, DeviceMemory, Driver, GpuProcess, Host, Nature, ProcessKind, Reading, Snapshot};
use crate::text::short_quote;
use crate::units::{Bytes, WallTime};

/// What is asked of each GPU: all known to every driver since R418. A name may hold commas, so it is the last.
pub const GPUS: &str = "index,uuid,pci.bus_id,driver_version,memory.total,memory.used,memory.free,utilization.gpu,\
                        temperature.gpu,power.draw,name";
/// What is asked of each process that computes. There is no such list of those that only draw.
pub const APPS: &str = "gpu_uuid,pid,used_gpu_memory,process_name";

/// More than any machine prints.
const MOST_BYTES: usize = 4 << 20;
/// A command line is kept up to so many characters.
const LONGEST_COMMAND: usize = 4096;

/// The lines of one reading, as they come.
#[derive(Debug, Default)]
pub struct Lines {
    section: Section,
    bytes: usize,
    boot_id: Option<String>,
    name: String,
    time: Option<i64>,
    memory: Vec<String>,
    gpus: Vec<String>,
    split: Vec<String>,
    apps: Vec<String>,
    processes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Section {
    /// Right after the first mark, and between two readings.
    #[default]
    BootId,
    Name,
    Time,
    Memory,
    Gpus,
    Split,
    Apps,
    Processes,
}

impl Lines {
    /// Takes a line; with the last one of a reading it is that reading, and the boot_id. Fails if there is no end of it.
    pub fn take(&mut self, line: &str) -> Result<Option<(Snapshot, Option<String>)>, Trouble> {
        self.bytes += line.len();
        if self.bytes > MOST_BYTES {
            return Err(Trouble::too_long());
        }
        let line = line.trim();
        match line {
            "oomdoctor-smi" => *self = Lines::default(),
            "oomdoctor-name" => self.section = Section::Name,
            "oomdoctor-time" => self.section = Section::Time,
            "oomdoctor-memory" => self.section = Section::Memory,
            "oomdoctor-gpus" => self.section = Section::Gpus,
            "oomdoctor-split" => self.section = Section::Split,
            "oomdoctor-apps" => self.section = Section::Apps,
            "oomdoctor-processes" => self.section = Section::Processes,
            "oomdoctor-end" => return mem::take(self).read().map(Some),
            "" => {}
            line => self.keep(line.to_owned()),
        }
        Ok(None)
    }

    fn keep(&mut self, line: String) {
        match self.section {
            Section::BootId => self.boot_id = Some(line),
            Section::Name => self.name = line,
            Section::Time => self.time = line.parse().ok(),
            Section::Memory => self.memory.push(line),
            Section::Gpus => self.gpus.push(line),
            Section::Split => self.split.push(line),
            Section::Apps => self.apps.push(line),
            Section::Processes => self.processes.push(line),
        }
    }

    fn read(self) -> Result<(Snapshot, Option<String>), Trouble> {
        let now = self.time.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let Some(now) = now else { return Err(Trouble::unclear("its answer has no time")) };
        let listed = Listed::of(&self.processes, now);
        let mut version = None;
        let mut devices: Vec<Device> = Vec::new();
        for line in &self.gpus {
            if let Some((device, driver)) = device(line) {
                version = version.or(driver);
                devices.push(device);
            }
        }
        for device in &mut devices {
            let is_split = self.split.iter().any(|line| {
                let (index, mode) = line.split_once(',').unwrap_or((line, ""));
                index.trim().parse() == Ok(device.index) && mode.trim() == "Enabled"
            });
            device.nature = is_split.then_some(Nature::Split);
            fill(device, &self.apps, &listed);
        }
        let driver = if devices.is_empty() {
            Driver::Unavailable { unavailable: said(&self.gpus) }
        } else {
            Driver::Available { version: version.unwrap_or_default(), cuda_version: None }
        };
        let snapshot = Snapshot {
            taken_at: WallTime(now),
            host: host(self.name, &self.memory),
            driver,
            devices,
            holders: Vec::new(),
            launchers: Vec::new(),
            unseen_processes: 0,
            seen_from: Vec::new(),
            windows: None,
        };
        Ok((snapshot, self.boot_id))
    }
}

/// Why nvidia-smi lists no GPU, in its own words.
fn said(lines: &[String]) -> String {
    match lines.first() {
        Some(line) => format!("nvidia-smi there says: {}", short_quote(line)),
        None => "nvidia-smi there lists no GPU".to_owned(),
    }
}

/// A figure out of a table of nvidia-smi, whose words in brackets say why there is none.
fn figure<T>(field: &str, read: impl FnOnce(&str) -> Option<T>) -> Reading<T> {
    if let Some(value) = read(field) {
        return Reading::Known(value);
    }
    match field.trim_matches(['[', ']']).to_lowercase().as_str() {
        "n/a" | "not supported" => Reading::Unsupported,
        "insufficient permissions" => Reading::Denied,
        "" | "not found" | "not available" => Reading::NotAvailable,
        _ => Reading::Failed(format!("nvidia-smi says {}", short_quote(field))),
    }
}

fn mebibytes(field: &str) -> Option<Bytes> {
    field.parse().ok().map(Bytes::mib)
}

/// A whole number out of one with decimals, such as 83.45 W.
fn rounded(field: &str) -> Option<u32> {
    let (whole, part) = field.split_once('.').unwrap_or((field, "0"));
    let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
    let up = u32::from(part.bytes().next().is_some_and(|digit| digit >= b'5'));
    if is_number { whole.parse::<u32>().ok()?.checked_add(up) } else { None }
}

fn text(field: &str) -> Option<String> {
    (!field.is_empty() && !field.starts_with('[')).then(|| field.to_owned())
}

/// A GPU without its processes, and the driver's version.
fn device(line: &str) -> Option<(Device, Option<String>)> {
    let fields: Vec<&str> = line.splitn(GPUS.split(',').count(), ',').map(str::trim).collect();
    let &[index, uuid, bus_id, version, total, used, free, utilization, temperature, power, name] = fields.as_slice()
    else {
        return None;
    };
    let device = Device {
        index: index.parse().ok()?,
        memory: DeviceMemory {
            total_bytes: figure(total, mebibytes),
            // Neither asked for, since old drivers refuse the whole query for it, nor the difference of rounded figures.
            reserved_bytes: Reading::NotAvailable,
            used_bytes: figure(used, mebibytes),
            free_bytes: figure(free, mebibytes),
        },
        uuid: figure(uuid, text),
        bus_id: figure(bus_id, text),
        name: figure(name, text),
        utilization_percent: figure(utilization, rounded),
        temperature_celsius: figure(temperature, rounded),
        power_watts: figure(power, rounded),
        ..Device::default()
    };
    Some((device, text(version)))
}

/// Adds the processes that compute on this GPU.
fn fill(device: &mut Device, apps: &[String], listed: &Listed) {
    let mut names: BTreeMap<u32, &str> = BTreeMap::new();
    let mut rows: Vec<Row> = Vec::new();
    for line in apps {
        let fields: Vec<&str> = line.splitn(APPS.split(',').count(), ',').map(str::trim).collect();
        let &[uuid, pid, used, name] = fields.as_slice() else { continue };
        let Ok(pid) = pid.parse() else { continue };
        if device.uuid.known().is_none_or(|own| own != uuid) {
            continue;
        }
        let used_bytes = match figure(used, mebibytes) {
            Reading::Known(used) => row_figure(used.0, device.memory.total_bytes.value()),
            unknown => unknown,
        };
        rows.push(Row { pid, kind: ProcessKind::Compute, used_bytes });
        names.insert(pid, name);
    }
    let rows = merge(&rows, &[], &[]);
    device.processes = rows.into_iter().map(|row| listed.process(names.get(&row.pid).copied(), row)).collect();
    (device.unaccounted_bytes, device.unaccounted_includes_unknown_rows) =
        unaccounted(&device.memory.used_bytes, &device.processes);
}

/// What `ps` says of processes.
struct Listed(BTreeMap<u32, Person>);

struct Person {
    uid: Option<u32>,
    user: String,
    started_at: Option<Timestamp>,
    state: Option<char>,
    command: String,
}

impl Listed {
    fn of(lines: &[String], now: Timestamp) -> Listed {
        Listed(lines.iter().filter_map(|line| person(line, now)).collect())
    }

    /// A process with what is known of it; `name` is what nvidia-smi calls it.
    fn process(&self, name: Option<&str>, row: Row) -> GpuProcess {
        let mut process = GpuProcess {
            pid: row.pid,
            kind: row.kind,
            used_bytes: row.used_bytes,
            ..GpuProcess::unread(&Reading::Unsupported)
        };
        let Some(person) = self.0.get(&row.pid) else {
            (process.user, process.uid, process.started_at) = (not_listed(), not_listed(), not_listed());
            process.command = name.and_then(text).map_or_else(not_listed, Reading::Known);
            return process;
        };
        process.uid = known(person.uid);
        process.user = Reading::Known(person.user.clone());
        process.started_at = known(person.started_at.map(WallTime));
        process.state = known(person.state);
        let arguments: Vec<String> = person.command.split_ascii_whitespace().map(str::to_owned).collect();
        let comm = "";
        process.recognised_as =
            recognise(&Traits { comm, arguments: &arguments, working_directory: None, ancestors: &[], notebook: None });
        process.protected = protected_command(&person.command).map(str::to_owned);
        process.command = Reading::Known(person.command.clone());
        process
    }
}

/// A line of `ps`: PID, user, the user's name, age in seconds, state, command line.
fn person(line: &str, now: Timestamp) -> Option<(u32, Person)> {
    let (pid, rest) = first_word(line.trim_start())?;
    let (uid, rest) = first_word(rest)?;
    let (user, rest) = first_word(rest)?;
    let (age, rest) = first_word(rest)?;
    let (state, rest) = first_word(rest)?;
    let age = age.parse().ok().map(SignedDuration::from_secs);
    let person = Person {
        uid: uid.parse().ok(),
        user: user.to_owned(),
        started_at: age.and_then(|age| now.checked_sub(age).ok()),
        state: state.chars().next(),
        command: rest.chars().take(LONGEST_COMMAND).collect(),
    };
    Some((pid.parse().ok()?, person))
}

/// The first word, and what follows the blanks behind it.
fn first_word(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.split_once(' ')?;
    Some((word, rest.trim_start()))
}

fn not_listed<T>() -> Reading<T> {
    Reading::Failed("`ps` there does not list this PID".to_owned())
}

fn known<T>(value: Option<T>) -> Reading<T> {
    value.map_or(Reading::NotAvailable, Reading::Known)
}

/// `memory` are lines of /proc/meminfo.
fn host(name: String, memory: &[String]) -> Host {
    Host {
        name,
        memory_total_bytes: known(kibibytes(memory, "MemTotal")),
        memory_available_bytes: known(kibibytes(memory, "MemAvailable")),
        swap_total_bytes: known(kibibytes(memory, "SwapTotal")),
        swap_free_bytes: known(kibibytes(memory, "SwapFree")),
    }
}

fn kibibytes(memory: &[String], key: &str) -> Option<Bytes> {
    let value = memory.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Bytes::parse_number(value.trim().strip_suffix("kB")?.trim(), 1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nvidia-smi and ps print, between the marks of the script.
    pub(crate) const PRINTED: &str = "\
oomdoctor-smi
7f3c6a52-1111-4222-8333-944455566677
oomdoctor-name
gpu7.lab
oomdoctor-time
1795176000
oomdoctor-memory
MemTotal:       263856332 kB
MemAvailable:   201326592 kB
SwapTotal:              0 kB
oomdoctor-gpus
0, GPU-aaaa, 00000000:01:00.0, 550.90.07, 81559, 70001, 11012, 97, 61, 312.54, NVIDIA A100-SXM4-80GB
1, GPU-bbbb, 00000000:02:00.0, 550.90.07, 81559, 4, 81009, [N/A], [Unknown Error], [Not Supported], Odd, Card, Inc.
oomdoctor-split
0, Disabled
1, Enabled
oomdoctor-apps
GPU-aaaa, 4242, 60000, python
GPU-aaaa, 4243, [N/A], [Not Found]
GPU-aaaa, 4244, 99999999, /opt/x, y/bin/z
oomdoctor-processes
   4242  1000 ada                                7200 R python train.py --lr 1e-4
oomdoctor-end
";

    fn read(text: &str) -> (Snapshot, Option<String>) {
        let mut lines = Lines::default();
        text.lines().find_map(|line| lines.take(line).unwrap()).unwrap()
    }

    #[test]
    fn figures_names_and_ages_are_read_and_unknown_ones_keep_their_reason() {
        let (snapshot, boot_id) = read(PRINTED);
        assert_eq!(boot_id.as_deref(), Some("7f3c6a52-1111-4222-8333-944455566677"));
        assert_eq!(snapshot.host.name, "gpu7.lab");
        assert_eq!(snapshot.host.memory_total_bytes, Reading::Known(Bytes(263_856_332 << 10)));
        assert_eq!(snapshot.host.swap_free_bytes, Reading::NotAvailable);
        let [first, second] = &snapshot.devices[..] else { panic!("{snapshot:?}") };
        assert_eq!(first.memory.free_bytes, Reading::Known(Bytes::mib(11_012)));
        assert_eq!((first.power_watts.value(), first.utilization_percent.value()), (Some(313), Some(97)));
        assert_eq!(first.nature, None);
        assert_eq!(second.nature, Some(Nature::Split));
        assert_eq!(second.name.known().unwrap(), "Odd, Card, Inc.");
        assert_eq!((&second.utilization_percent, &second.power_watts), (&Reading::Unsupported, &Reading::Unsupported));
        assert!(matches!(&second.temperature_celsius, Reading::Failed(_)));
        let [known, hidden, strange] = first.processes.shared() else { panic!("{first:?}") };
        assert_eq!(known.used_bytes, Reading::Known(Bytes::mib(60_000)));
        assert_eq!(known.user.known().unwrap(), "ada");
        assert_eq!(known.command.known().unwrap(), "python train.py --lr 1e-4");
        assert_eq!(known.started_at.value().unwrap().age_at(snapshot.taken_at), "2 h");
        assert_eq!(hidden.used_bytes, Reading::Unsupported);
        assert!(matches!((&hidden.user, &hidden.command), (Reading::Failed(_), Reading::Failed(_))));
        assert!(matches!(&strange.used_bytes, Reading::Failed(_)));
        assert_eq!(strange.command.known().unwrap(), "/opt/x, y/bin/z");
        assert!(first.unaccounted_includes_unknown_rows);
        assert!(first.processes.iter().all(|process| !process.proved && process.key().is_none()));
    }

    #[test]
    fn a_driver_that_fails_says_so_in_its_own_words() {
        let text = "oomdoctor-smi\noomdoctor-time\n1795176000\noomdoctor-gpus\n\
                    Failed to initialize NVML: Driver/library version mismatch\noomdoctor-end\n";
        let (snapshot, boot_id) = read(text);
        assert!(snapshot.devices.is_empty() && boot_id.is_none());
        let Driver::Unavailable { unavailable } = snapshot.driver else { panic!("{snapshot:?}") };
        assert!(unavailable.contains("version mismatch"));
    }

    #[test]
    fn a_reading_without_a_time_or_an_end_is_none() {
        assert!(Lines::default().take("oomdoctor-end").is_err());
        let mut lines = Lines::default();
        assert!((0..10_000).any(|_| lines.take(&"x".repeat(1000)).is_err()));
    }
}
