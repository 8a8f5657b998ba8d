//! Owns reading what the kernel says of one open file of a GPU (/proc/PID/fdinfo/FD; the keys are described in the kernel's
//! Documentation/gpu/drm-usage-stats.rst, checked 2026-11-22). Pure: bytes in, figures out, and none for what is not certain.

use crate::units::Bytes;

/// The kernel's drivers whose figures are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelDriver {
    Amdgpu,
    I915,
    Xe,
}

impl KernelDriver {
    /// The driver of this name; `None` for those that are not read.
    pub fn named(name: &str) -> Option<KernelDriver> {
        match name {
            "amdgpu" => Some(KernelDriver::Amdgpu),
            "i915" => Some(KernelDriver::I915),
            "xe" => Some(KernelDriver::Xe),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            KernelDriver::Amdgpu => "amdgpu",
            KernelDriver::I915 => "i915",
            KernelDriver::Xe => "xe",
        }
    }

    /// Where memory of this region lies; `None` for what is no memory that programs allocate.
    fn place(self, region: &str) -> Option<Place> {
        let is_numbered = |prefix| {
            let digits = region.strip_prefix(prefix);
            digits.is_some_and(|digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()))
        };
        match self {
            KernelDriver::Amdgpu if region == "vram" => Some(Place::Device),
            KernelDriver::Amdgpu if region == "gtt" => Some(Place::System),
            KernelDriver::I915 if is_numbered("local") || is_numbered("stolen-local") => Some(Place::Device),
            KernelDriver::I915 if is_numbered("system") || is_numbered("stolen-system") => Some(Place::System),
            // Each tile has its own VRAM.
            KernelDriver::Xe if is_numbered("vram") => Some(Place::Device),
            KernelDriver::Xe if region == "gtt" || region == "system" => Some(Place::System),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Device,
    System,
}

/// A client of a GPU's kernel driver, as one open file shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub driver: KernelDriver,
    /// Unique only within one GPU; `None` where the kernel is too old to print it (amdgpu before 5.19).
    pub id: Option<u64>,
    /// The PCI address; `None` where the GPU has none or the driver does not print it.
    pub address: Option<String>,
    pub usage: Usage,
}

/// The memory of a client. `None` is unknown, which is never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In the GPU's own memory.
    pub device: Option<Bytes>,
    /// In the system memory, mapped for the GPU.
    pub system: Option<Bytes>,
    /// What should be in the GPU's own memory but was moved to the system memory.
    pub evicted: Option<Bytes>,
    /// Whether a compute engine has run for it. Queues of ROCm do not count here.
    pub has_computed: bool,
}

/// The figures of a region: the kernel prints one, two or all three.
#[derive(Clone, Copy, Debug, Default)]
struct Region<'a> {
    name: &'a str,
    resident: Option<Figure>,
    /// amdgpu's older name of what is resident.
    memory: Option<Figure>,
    /// Includes what was evicted or never had memory, so it comes last.
    total: Option<Figure>,
}

/// A printed figure; `None` where it can't be true.
type Figure = Option<Bytes>;

/// Reads the text of an fdinfo file. `None` where it is not of a GPU whose driver is read, or was cut off.
pub fn parse(text: &[u8]) -> Option<Client> {
    // The process may exit while its file is read.
    let text = std::str::from_utf8(text.strip_suffix(b"\n")?).ok()?;
    let (mut driver, mut old, mut id, mut address) = (None, false, None, None);
    let mut regions: Vec<Region<'_>> = Vec::new();
    let mut evicted = None;
    let mut has_computed = false;
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        match key {
            "drm-driver" => driver = Some(KernelDriver::named(value)?),
            "drm-client-id" => id = value.parse().ok(),
            "drm-pdev" | "pdev" => address = Some(value.to_ascii_lowercase()),
            // amdgpu 5.14 to 5.18 names neither its driver nor the client.
            "vram mem" | "gtt mem" => {
                old = true;
                let name = key.strip_suffix(" mem").unwrap_or(key);
                regions.push(Region { name, resident: Some(bytes(value)), ..Region::default() });
            }
            "amd-evicted-vram" => evicted = bytes(value),
            "drm-engine-compute" | "drm-cycles-ccs" => {
                has_computed |= value.trim_start_matches('0').starts_with(|digit: char| digit.is_ascii_digit());
            }
            _ => add_region(&mut regions, key, value),
        }
    }
    let driver = driver.or(old.then_some(KernelDriver::Amdgpu))?;
    let usage = Usage {
        device: sum(driver, &regions, Place::Device),
        system: sum(driver, &regions, Place::System),
        evicted,
        has_computed,
    };
    Some(Client { driver, id, address, usage })
}

fn add_region<'a>(regions: &mut Vec<Region<'a>>, key: &'a str, value: &str) {
    let Some((kind, name)) = key.strip_prefix("drm-").and_then(|rest| rest.split_once('-')) else { return };
    if !matches!(kind, "resident" | "memory" | "total") || name.starts_with("cycles-") {
        return;
    }
    let at = regions.iter().position(|region| region.name == name).unwrap_or_else(|| {
        regions.push(Region { name, ..Region::default() });
        regions.len() - 1
    });
    let Some(region) = regions.get_mut(at) else { return };
    let figure = match kind {
        "resident" => &mut region.resident,
        "memory" => &mut region.memory,
        _ => &mut region.total,
    };
    *figure = Some(bytes(value));
}

/// The memory of all regions there. Unknown where none is printed, and where one of them can't be true.
fn sum(driver: KernelDriver, regions: &[Region<'_>], place: Place) -> Option<Bytes> {
    let mut sum = None;
    for region in regions.iter().filter(|region| driver.place(region.name) == Some(place)) {
        let figure = region.resident.or(region.memory).or(region.total)?;
        sum = Some(Bytes(sum.unwrap_or(Bytes::ZERO).0.checked_add(figure?.0)?));
    }
    sum
}

/// A number with a unit that the kernel chooses: bytes without one, KiB or MiB; amdgpu's oldest files have kB for KiB.
fn bytes(value: &str) -> Option<Bytes> {
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    let factor = match unit.trim() {
        "" => 1,
        "KiB" | "kB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn sample(name: &str) -> Option<Client> {
        let path = format!("{}/tests/fdinfo/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        parse(&std::fs::read(path).unwrap())
    }

    /// Driver, client, and the KiB in device and system memory.
    type Read = (&'static str, Option<u64>, Option<u64>, Option<u64>);

    fn read(name: &str) -> Option<Read> {
        let client = sample(name)?;
        let kib = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.0 / KIB);
        Some((client.driver.name(), client.id, kib(client.usage.device), kib(client.usage.system)))
    }

    #[test]
    fn every_sample_reads_as_the_kernel_means_it() {
        let samples = [
            ("01-amdgpu-5.15", Some(("amdgpu", None, Some(1_048_576), Some(2048)))),
            ("02-amdgpu-6.1", Some(("amdgpu", Some(217), Some(2068), Some(8192)))),
            ("03-amdgpu-6.8", Some(("amdgpu", Some(550), Some(23_048), Some(80_128)))),
            ("04-amdgpu-6.14", Some(("amdgpu", Some(7518), Some(310_488), Some(34_880)))),
            ("05-amdgpu-apu-llm", Some(("amdgpu", Some(91), Some(5348), Some(25_258_000)))),
            ("06-amdgpu-8gib-exact", Some(("amdgpu", Some(12), Some(8 << 20), None))),
            ("07-i915-before-memory", Some(("i915", Some(7), None, None))),
            ("08-i915-arc-a310", Some(("i915", Some(36), Some(2_698_140), None))),
            ("09-i915-arc-evicted", Some(("i915", Some(2704), Some(76), Some(520)))),
            ("10-i915-igpu", Some(("i915", Some(3), None, Some(81_920 + KIB)))),
            ("11-xe-doc", Some(("xe", Some(3), Some(23_992), Some(192)))),
            ("12-xe-b70-7.1", Some(("xe", Some(20), Some(16_384_000), Some(2048)))),
            ("13-xe-igpu", Some(("xe", Some(9), None, Some(4096 + 2048)))),
            ("14-panthor", None),
            ("15-v3d", None),
            ("16-msm", None),
            ("17-amdxdna", None),
            ("18-xcp-no-pdev", Some(("amdgpu", Some(44), Some(1024), None))),
            ("19-not-drm", None),
            ("20-cut", None),
        ];
        for (name, expected) in samples {
            assert_eq!(read(name), expected, "{name}");
        }
        assert_eq!(sample("10-i915-igpu").unwrap().usage.system, Some(Bytes(81_920 * KIB + 1_048_577)));
        assert_eq!(sample("03-amdgpu-6.8").unwrap().usage.evicted, Some(Bytes(59_648 * KIB)));
        assert_eq!(sample("01-amdgpu-5.15").unwrap().address.as_deref(), Some("0000:03:00.0"));
        assert_eq!(sample("18-xcp-no-pdev").unwrap().address, None);
    }

    #[test]
    fn figures_that_cannot_be_true_are_unknown() {
        let path = format!("{}/tests/fdinfo/21-garbage.txt", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read(path).unwrap();
        for text in [text.clone(), [&text[..], b"\n"].concat()] {
            let usage = parse(&text).map_or(Usage::default(), |client| client.usage);
            assert_eq!((usage.device, usage.system), (None, None));
        }
        let text = "drm-driver: xe\ndrm-resident-vram0: 1 KiB\ndrm-resident-vram1: 1 pages\n";
        assert_eq!(parse(text.as_bytes()).unwrap().usage.device, None, "a part of the sum is unknown");
        let all = format!("drm-driver: xe\ndrm-resident-vram0: {}\ndrm-resident-vram1: 1\n", u64::MAX);
        assert_eq!(parse(all.as_bytes()).unwrap().usage.device, None, "the sum does not exist");
    }

    #[test]
    fn a_client_computes_once_its_compute_engine_has_run() {
        let compute = |line: &str| parse(format!("drm-driver:\txe\n{line}\n").as_bytes()).unwrap().usage.has_computed;
        assert!(compute("drm-cycles-ccs:\t386293167") && compute("drm-engine-compute:\t7 ns"));
        assert!(!compute("drm-cycles-ccs:\t0") && !compute("drm-engine-compute:\t0 ns"));
        assert!(!compute("drm-total-cycles-ccs:\t99") && !compute("drm-engine-gfx:\t99 ns"));
    }

    #[test]
    fn other_drivers_and_nothing_at_all_are_no_client() {
        for text in ["", "\n", "pos:\t0\n", "drm-driver:\tnouveau\ndrm-client-id:\t1\n", "tfd: 20 events: 19\n"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse(b"drm-driver:\tamdgpu\n\xff\n"), None);
    }
}
