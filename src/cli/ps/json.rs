//! Owns the JSON of `oomdoctor ps`: the last reading, in which each process also has its activity.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::cli::watched::Watched;
use crate::gpu::activity::{Activity, ActivityWord};
use crate::gpu::usage::gpu_percent;
use crate::gpu::windows::WindowsReading;
use crate::gpu::{Device, Driver, GpuProcess, Holder, Host, SCHEMA, Vantage};
use crate::units::WallTime;

/// What `oomdoctor ps --json` prints: a machine's GPUs and their processes at one moment.
#[derive(Serialize, JsonSchema)]
pub(in crate::cli) struct Listing<'a> {
    /// The version of this format.
    schema: u32,
    /// When the reading was complete.
    taken_at: WallTime,
    /// The machine and its system memory.
    host: &'a Host,
    driver: &'a Driver,
    /// The GPUs in the driver's (PCI) order.
    devices: Vec<ListedDevice<'a>>,
    /// Processes that have the driver's device files open but are not listed by the driver, as far as can be seen.
    holders: &'a [Holder],
    /// Processes without VRAM that started a listed one, such as torchrun.
    launchers: &'a [GpuProcess],
    /// The number of processes whose open files could not be read: any of them may be missing from `holders`.
    unseen_processes: u32,
    /// What narrows the view from where this was read; empty on a plain machine.
    seen_from: &'a [Vantage],
    /// Windows' own processes with GPU memory, under WSL2; absent without `--windows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    windows: Option<&'a WindowsReading>,
}

impl Listing<'_> {
    pub(super) fn of(watched: &Watched) -> Listing<'_> {
        let snapshot = &watched.snapshot;
        Listing {
            schema: SCHEMA,
            taken_at: snapshot.taken_at,
            host: &snapshot.host,
            driver: &snapshot.driver,
            devices: snapshot.devices.iter().map(|device| ListedDevice { device, watched }).collect(),
            holders: &snapshot.holders,
            launchers: &snapshot.launchers,
            unseen_processes: snapshot.unseen_processes,
            seen_from: &snapshot.seen_from,
            windows: snapshot.windows.as_ref(),
        }
    }
}

/// A device with [`ListedProcess`] in place of its processes.
struct ListedDevice<'a> {
    device: &'a Device,
    watched: &'a Watched,
}

/// The field of a device that is printed as [`ListedProcess`].
const PROCESSES: &str = "processes";

impl Serialize for ListedDevice<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ListedDevice { device, watched } = self;
        let processes = device.processes.iter().map(|process| ListedProcess::of(watched, device, process));
        let mut map = serializer.serialize_map(None)?;
        device.write_fields(&mut map, PROCESSES)?;
        map.serialize_entry(PROCESSES, &processes.collect::<Vec<_>>())?;
        map.end()
    }
}

impl JsonSchema for ListedDevice<'_> {
    fn schema_name() -> Cow<'static, str> {
        "ListedDevice".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Device::json_schema(generator);
        let processes = generator.subschema_for::<Vec<ListedProcess>>();
        if let Some(field) = schema.pointer_mut("/properties/processes") {
            *field = processes.to_value();
        }
        schema
    }
}

#[derive(Serialize, JsonSchema)]
struct ListedProcess<'a> {
    #[serde(flatten)]
    process: &'a GpuProcess,
    /// Whether it worked while it was watched, which `idle_seconds` tells.
    activity: ActivityWord,
    /// Its share of the GPU's compute time in the last sample period; null where it is unknown.
    gpu_percent: Option<u32>,
    /// Its CPU time between the two readings, in percent of one core; null where it is unknown.
    cpu_percent: Option<u64>,
    /// How long it was seen to use neither GPU nor CPU; null unless it is idle. A training job can pause longer than that.
    idle_seconds: Option<u64>,
}

impl ListedProcess<'_> {
    fn of<'a>(watched: &Watched, device: &Device, process: &'a GpuProcess) -> ListedProcess<'a> {
        let activity = watched.activity(device, process);
        ListedProcess {
            process,
            activity: activity.into(),
            gpu_percent: gpu_percent(Some(device), process),
            cpu_percent: watched.cpu_percent(process),
            idle_seconds: match activity {
                Activity::Idle(time) => Some(time.as_secs()),
                Activity::Busy(_) | Activity::Unknown => None,
            },
        }
    }
}
