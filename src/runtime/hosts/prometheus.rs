//! Owns asking a Prometheus server for the machines that it watches.

use crate::hosts::{Asked, HostReading};

/// The machines that are asked for; empty where none are.
pub(super) fn read(_asked: &Asked) -> Vec<HostReading> {
    Vec::new()
}
