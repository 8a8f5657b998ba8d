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
        let name = self.name.clone();
        let [memory_total_bytes, memory_available_bytes, swap_total_bytes, swap_free_bytes] = match &mut self.system {
            Ok(system) => figures(system),
            Err(error) => [(); 4].map(|()| Reading::Failed(error.clone())),
        };
        Host { name, memory_total_bytes, memory_available_bytes, swap_total_bytes, swap_free_bytes }
    }
}

/// Memory in all, memory that is available, swap in all, swap that is free.
fn figures(system: &mut System) -> [Reading<Bytes>; 4] {
    system.refresh_memory();
    // sysinfo returns 0 for what it could not read; a machine always has memory, but it may have no swap.
    let is_read = system.total_memory() > 0;
    [system.total_memory(), system.available_memory(), system.total_swap(), system.free_swap()]
        .map(|bytes| if is_read { Reading::Known(Bytes(bytes)) } else { Reading::NotAvailable })
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
