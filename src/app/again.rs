//! Owns what is known of the run that was started again after a fix: which process it is, whether it passed the point
//! where the first run failed, and whether the advised variables reached it.

use crate::gpu::ProcessKey;
use crate::units::Bytes;

/// The run that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    pub key: ProcessKey,
    pub name: String,
    /// The most VRAM it was seen to use.
    pub most: Bytes,
    /// Whether it is still listed.
    pub here: bool,
    /// Of each variable that was advised, whether it is set in the process; empty until that was read.
    pub variables: Vec<(String, bool)>,
}

/// How far a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The last training step that was printed.
    pub step: Option<u64>,
    /// The last epoch that began.
    pub epoch: Option<u64>,
    /// Whether memory ran out again.
    pub failed_again: bool,
}

impl Again {
    /// What is known of it, in sentences. `needed` is what the failed one needed at least.
    pub fn words(&self, needed: Option<Bytes>) -> String {
        let Again { name, most, .. } = self;
        let past = needed.filter(|needed| most >= needed);
        let first = match (self.here, past) {
            (true, Some(needed)) => {
                format!("{name} is running with {most}, past the {needed} at which the first run failed.")
            }
            (true, None) => format!("{name} is running with {most}."),
            (false, _) => format!("{name} has exited; it used {most} at most. [w] worked, [e] failed again."),
        };
        std::iter::once(first).chain(self.variables_in_words()).collect::<Vec<_>>().join(" ")
    }

    /// Whether each advised variable reached the run, a sentence each.
    pub fn variables_in_words(&self) -> impl Iterator<Item = String> {
        self.variables.iter().map(|(name, reached)| {
            let reached = if *reached { "has reached it" } else { "has not reached it: it is not in its environment" };
            format!("{name} {reached}.")
        })
    }
}
