//! Owns hearing a whole answer of another machine that came through a scheduler.

use crate::gpu::Snapshot;
use crate::hosts::ssh::answer::{Listener, Told};

/// The identity of its boot, a reading, and a later one.
pub(super) type Sampled = (Option<String>, (Box<Snapshot>, Option<Box<Snapshot>>));

/// What a sampler wrote. A scheduler may print before it.
pub(super) fn sampled(text: &[u8]) -> Option<Sampled> {
    let mut listener = Listener::default();
    let mut readings = text.split(|byte| *byte == b'\n').filter_map(|line| match listener.hear(line) {
        Ok(Some(Told::Reading { snapshot, boot_id, .. })) => Some((snapshot, boot_id)),
        _ => None,
    });
    let (first, boot_id) = readings.next()?;
    Some((boot_id, (first, readings.next().map(|(second, _)| second))))
}
