//! Owns where a log belongs: the machine, the GPU, and what became of the processes that the log names.

use crate::gpu::{Device, GpuProcess, ProcessKey};
use crate::units::Bytes;

/// Where the log belongs.
#[derive(Clone, Debug, Default)]
pub struct Place<'a> {
    /// `Some(true)`: this machine; `Some(false)`: another one; `None`: the log doesn't tell.
    pub same_machine: Option<bool>,
    /// The device it died on, as far as can be told.
    pub device: Option<&'a Device>,
    /// The devices that it may be, where several fit and nothing in the log ties it to one of them: its number alone
    /// does not, since a run counts from 0 what it may see. Empty where `device` is known.
    pub candidates: Vec<&'a Device>,
    /// Why it is taken to be from elsewhere, or why the device is not sure; for the evidence.
    pub because: Option<String>,
    /// The processes that the log names, in its order.
    pub named: Vec<Named<'a>>,
    /// The run itself, where the log prints it as one of them.
    pub own: Option<Named<'a>>,
}

/// A process the log names.
#[derive(Clone, Debug)]
pub struct Named<'a> {
    pub pid: u32,
    /// What it held then, as printed.
    pub bytes: Bytes,
    /// What has become of it.
    pub fate: Fate<'a>,
}

/// What has become of a process that the log names.
#[derive(Clone, Debug)]
pub enum Fate<'a> {
    /// It lives and still holds about that much.
    Alive(&'a GpuProcess, ProcessKey),
    /// No GPU lists it any more.
    Gone,
    /// The log is from elsewhere, or was read alone: nothing can be said.
    Unknown,
}

impl<'a> Place<'a> {
    /// Whether the log is known to be from this machine.
    pub fn is_here(&self) -> bool {
        self.same_machine == Some(true)
    }

    /// Whether the log is known to be from another machine.
    pub fn is_elsewhere(&self) -> bool {
        self.same_machine == Some(false)
    }

    /// The GPU it died on, where the log is known to be from this machine.
    pub fn device_here(&self) -> Option<&'a Device> {
        if self.is_here() { self.device } else { None }
    }

    /// The GPU it died on, unless the log is known to be from another machine.
    pub fn device_unless_elsewhere(&self) -> Option<&'a Device> {
        if self.is_elsewhere() { None } else { self.device }
    }

    /// The capacity of that GPU.
    pub fn capacity(&self) -> Option<Bytes> {
        self.device?.memory.total_bytes.value()
    }

    /// The capacity of the GPUs that it may be, where all have the same.
    pub fn capacity_of_candidates(&self) -> Option<Bytes> {
        let mut capacities = self.candidates.iter().map(|device| device.memory.total_bytes.value());
        let first = capacities.next()??;
        capacities.all(|other| other == Some(first)).then_some(first)
    }

    /// Whether each GPU that it may be has so much free now; never where the GPU is known, or none is.
    pub fn each_candidate_has(&self, needed: Bytes) -> bool {
        !self.candidates.is_empty() && self.candidates.iter().all(|device| has_free(device, needed))
    }

    /// The GPUs that it may be, in words; `None` where there is no choice.
    pub fn candidates_in_words(&self) -> Option<String> {
        (!self.candidates.is_empty()).then(|| listed(&self.candidates))
    }
}

/// Whether so much is known to be free on the GPU now.
pub(crate) fn has_free(device: &Device, needed: Bytes) -> bool {
    device.memory.free_bytes.value().is_some_and(|free| free >= needed)
}

impl Named<'_> {
    /// The living process that it is.
    pub fn key(&self) -> Option<ProcessKey> {
        if let Fate::Alive(_, key) = self.fate { Some(key) } else { None }
    }

    pub fn is_alive(&self) -> bool {
        matches!(self.fate, Fate::Alive(..))
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.fate, Fate::Gone)
    }
}

/// These GPUs in words: "GPU 0 or GPU 1", "one of GPU 0 to 7".
fn listed(devices: &[&Device]) -> String {
    let numbers: Vec<u32> = devices.iter().map(|device| device.index).collect();
    let in_a_row = numbers.windows(2).all(|pair| matches!(pair, [one, next] if *next == one + 1));
    let names: Vec<String> = numbers.iter().map(|number| format!("GPU {number}")).collect();
    match (names.as_slice(), numbers.as_slice()) {
        ([one], _) => one.clone(),
        ([one, other], _) => format!("{one} or {other}"),
        (_, [first, .., last]) if in_a_row => format!("one of GPU {first} to {last}"),
        _ => format!("one of {}", names.join(", ")),
    }
}
