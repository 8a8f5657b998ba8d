//! Owns reading several machines at once: through `ssh`, Slurm, Kubernetes or Prometheus, each with a deadline of its own, so
//! that one that hangs delays no other.

mod kubernetes;
mod prometheus;
mod sampled;
mod slurm;
mod ssh;

use std::thread;

use crate::hosts::{Asked, HostReading, merged};
use crate::platform::Sampling;

/// Reads all machines that are asked for, in the order of their names.
pub(crate) fn read(asked: &Asked, sampling: &Sampling) -> Vec<HostReading> {
    let readings = thread::scope(|scope| {
        let ways = [
            scope.spawn(|| ssh::read(asked, sampling)),
            scope.spawn(|| slurm::read(asked, sampling)),
            scope.spawn(|| kubernetes::read(asked)),
            scope.spawn(|| prometheus::read(asked)),
        ];
        ways.into_iter().flat_map(|way| way.join().unwrap_or_default()).collect()
    });
    merged(readings)
}

/// Tells what each machine shows that is reached through ssh, each time anew, and why one went down, until `tell` is false.
#[allow(dead_code, reason = "for the terminal program, which reads only this machine so far")]
pub(crate) fn watch(asked: &Asked, sampling: &Sampling, tell: impl Fn(HostReading) -> bool + Send + Clone + 'static) {
    ssh::watch(asked, sampling, tell);
}
