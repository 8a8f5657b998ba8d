//! Owns what sysinfo tells: the machine's own memory and its users' names. Asked for nothing else: its process list
//! costs milliseconds, and its GPU feature would load the driver a second time.

use std::collections::HashMap;

use sysinfo::System;

use crate::gpu::{Host, Reading};
use crate::procfs::Procfs;
use crate::units::Bytes;

/// The machine: its name, read once, and its memory.
pub struct Machine {
    name: String,
    system: Result<System, String>,
}

impl Machine {
    /// This one.
    pub fn new(procfs: &Procfs) -> Machine {
        Machine { name: procfs.host_name(), system: System::new().map_err(|error| error.to_string()) }
    }

    /// Its memory now.
    pub fn host(&mut self) -> Host {
        let name = self.name.clone();
        let system = match &mut self.system {
            Ok(system) => system,
            Err(error) => {
                let failed = || Reading::Failed(error.clone());
                return Host {
                    name,
                    memory_total_bytes: failed(),
                    memory_available_bytes: failed(),
                    swap_total_bytes: failed(),
                    swap_free_bytes: failed(),
                };
            }
        };
        system.refresh_memory();
        // sysinfo gives 0 where it could not read; a machine always has memory, but it may have no swap.
        let read = system.total_memory() > 0;
        let figure = |bytes: u64| if read { Reading::Known(Bytes(bytes)) } else { Reading::NotAvailable };
        Host {
            name,
            memory_total_bytes: figure(system.total_memory()),
            memory_available_bytes: figure(system.available_memory()),
            swap_total_bytes: figure(system.total_swap()),
            swap_free_bytes: figure(system.free_swap()),
        }
    }
}

/// The names of this machine's users. Those of a directory service (LDAP) are not known: they show as numbers.
#[derive(Clone, Debug, Default)]
pub struct Users {
    names: HashMap<u32, String>,
}

impl Users {
    /// Reads them.
    pub fn read() -> Users {
        let Ok(users) = sysinfo::Users::new_with_refreshed_list() else { return Users::default() };
        let mut names = HashMap::new();
        // The first entry of an id wins, as in getpwuid(3).
        for user in users.iter() {
            names.entry(**user.id()).or_insert_with(|| user.name().to_owned());
        }
        Users { names }
    }

    /// The user's name, or the number where it has none.
    pub fn name(&self, uid: u32) -> String {
        self.names.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_and_a_root() {
        let host = Machine::new(&Procfs::default()).host();
        let (total, available) =
            (host.memory_total_bytes.value().unwrap(), host.memory_available_bytes.value().unwrap());
        assert!(Bytes::mib(64) < total && available <= total, "{total} {available}");
        assert!(host.swap_total_bytes.value().is_some(), "no swap is 0, which is known");
        assert_eq!(Users::read().name(0), "root");
        assert_eq!(Users::read().name(4_000_000_000), "4000000000");
    }
}
