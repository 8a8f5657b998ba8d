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

impl Again {
    /// What is known of it, in sentences. `needed` is what the failed one needed at least.
    pub fn words(&self, needed: Option<Bytes>) -> String {
        let past = needed.filter(|needed| self.most >= *needed);
        let mut said = match (self.here, past) {
            (true, Some(needed)) => {
                format!("{} is running with {}, past the {needed} at which the first run failed.", self.name, self.most)
            }
            (true, None) => format!("{} is running with {}.", self.name, self.most),
            (false, _) => {
                format!("{} has exited; it used {} at most. [w] worked, [e] failed again.", self.name, self.most)
            }
        };
        for (name, reached) in &self.variables {
            let reached = if *reached { "has reached it" } else { "has not reached it: it is not in its environment" };
            said.push_str(&format!(" {name} {reached}."));
        }
        said
    }
}
