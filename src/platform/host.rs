//! Owns the machine's own memory, as sysinfo tells it. Asked for nothing else: its process list costs milliseconds, and
//! its GPU feature would load the driver a second time.

use sysinfo::System;

use crate::gpu::{Host, Reading};
use crate::units::Bytes;

/// The machine: its name, read once, and its memory.
pub(crate) struct HostMemory {
    name: String,
    system: Result<System, String>,
}

impl HostMemory {
    /// This one, by its name.
    pub(crate) fn new(name: String) -> HostMemory {
        HostMemory { name, system: System::new().map_err(|error| error.to_string()) }
    }

    pub(crate) fn host(&mut self) -> Host {
        let host = match &mut self.system {
            Ok(system) => figures(system),
            Err(error) => Host::unread(&Reading::Failed(error.clone())),
        };
        Host { name: self.name.clone(), ..host }
    }
}

/// The machine's memory, without its name.
fn figures(system: &mut System) -> Host {
    system.refresh_memory();
    // sysinfo returns 0 for what it could not read; a machine always has memory, but it may have no swap.
    if system.total_memory() == 0 {
        return Host::default();
    }
    Host {
        memory_total_bytes: Reading::Known(Bytes(system.total_memory())),
        memory_available_bytes: Reading::Known(Bytes(system.available_memory())),
        swap_total_bytes: Reading::Known(Bytes(system.total_swap())),
        swap_free_bytes: Reading::Known(Bytes(system.free_swap())),
        ..Host::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory() {
        let host = HostMemory::new("here".into()).host();
        let (total, available) =
            (host.memory_total_bytes.value().unwrap(), host.memory_available_bytes.value().unwrap());
        assert!(Bytes::mib(64) < total && available <= total, "{total} {available}");
        assert!(host.swap_total_bytes.value().is_some(), "no swap is 0, which is known");
    }
}
