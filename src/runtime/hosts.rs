//! Owns reading several machines at once: through `ssh`, Slurm, Kubernetes or Prometheus, each with a deadline of its own, so
//! that one that hangs delays no other.

mod kubernetes;
mod prometheus;
mod sampled;
mod slurm;
mod ssh;

use std::thread;
use std::time::Duration;

use crate::hosts::{Asked, HostReading, merged, people};
use crate::platform::{Sampling, here};

/// The pause between two questions to a scheduler or a server: its figures are no newer than its own last reading.
const PAUSE: Duration = Duration::from_secs(15);

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
    let user = here::user_name();
    merged(readings).into_iter().map(|reading| as_wanted(reading, asked.full, &user)).collect()
}

/// A reading as it is shown: other people's command lines only where they are wanted in full.
fn as_wanted(reading: HostReading, full: bool, user: &str) -> HostReading {
    if full { reading } else { people::with_short_commands(reading, user) }
}

/// Tells what each machine shows, each time anew, and why one went down, until `tell` is false.
pub(crate) fn watch(asked: &Asked, sampling: &Sampling, tell: impl Fn(HostReading) -> bool + Send + Clone + 'static) {
    let (user, full, tell_as_wanted) = (here::user_name(), asked.full, tell.clone());
    ssh::watch(asked, sampling, move |reading| tell_as_wanted(as_wanted(reading, full, &user)));
    let others = Asked { hosts: Vec::new(), ..asked.clone() };
    if others.is_nothing() {
        return;
    }
    let sampling = sampling.clone();
    let spawned = thread::Builder::new().name("hosts".into()).spawn(move || {
        while read(&others, &sampling).into_iter().all(&tell) {
            thread::sleep(PAUSE);
        }
    });
    if let Err(error) = spawned {
        log::info!("other machines are not read: {error}");
    }
}
