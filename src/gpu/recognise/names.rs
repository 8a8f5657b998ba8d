//! Owns `knowledge/processes.ron`: the names of processes that are told by their names alone. `build.rs` packs the file by
//! itself, because processes are named without a knowledge base.

use std::sync::LazyLock;

use ron::extensions::Extensions;
use serde::Deserialize;

use super::invocation::Invocation;

/// The kernel's names are cut here.
pub(super) const COMM_BYTES: usize = 15;

/// What is known of processes by name.
#[derive(Debug, Default, Deserialize)]
pub struct Names {
    pub guarded: Vec<Guarded>,
    /// Shells, multiplexers and inits: whoever they start is on their own.
    pub starts: Vec<String>,
    /// Daemons that start what is not theirs (sessions, jobs, containers).
    pub hosts: Vec<String>,
}

/// Processes that are left alone for one reason.
#[derive(Debug, Default, Deserialize)]
pub struct Guarded {
    pub why: String,
    /// What comes before the name where the name alone says too little.
    pub called: Option<String>,
    names: Vec<String>,
    /// How their kernel names may begin as well.
    #[serde(default)]
    prefixes: Vec<String>,
    /// What they run, also through an interpreter.
    #[serde(default)]
    programs: Vec<String>,
}

pub static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
    options.from_str(include_str!("../../../knowledge/processes.ron")).unwrap_or_default()
});

impl Guarded {
    /// True if a program of this name appears to the kernel under this name.
    pub(super) fn has_name(&self, comm: &str) -> bool {
        self.names.iter().any(|name| cut(name) == comm.as_bytes())
    }

    /// True if a process of this kernel name that runs this is one of them.
    pub(super) fn covers(&self, comm: &str, run: &Invocation) -> bool {
        self.has_name(comm)
            || self.prefixes.iter().any(|prefix| comm.starts_with(prefix))
            || self.programs.contains(&run.name)
    }
}

/// A name as the kernel keeps it.
fn cut(name: &str) -> &[u8] {
    name.as_bytes().get(..COMM_BYTES).unwrap_or(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_names_can_be_read() {
        assert!(NAMES.guarded.len() >= 7 && NAMES.starts.len() > 30 && NAMES.hosts.len() > 20);
        assert!(NAMES.guarded.iter().all(|guarded| !guarded.why.is_empty() && !guarded.names.is_empty()));
    }
}
