//! Owns what the sampler of another machine wrote, whatever it came through.

use crate::gpu::Snapshot;
use crate::platform::News;

/// The identity of its boot, a reading, and a later one.
pub(super) type Sampled = (Option<String>, (Box<Snapshot>, Option<Box<Snapshot>>));

/// What was written from the header on: a shell's profile, or a scheduler, may print before it.
pub(super) fn sampled(text: &[u8]) -> Option<Sampled> {
    let mut lines = text.split(|byte| *byte == b'\n').skip_while(|line| !line.starts_with(b"{\"schema\""));
    let Ok(News::Header(header)) = News::parse(lines.next()?, true) else { return None };
    let mut snapshots = lines.filter_map(|line| match News::parse(line, false) {
        Ok(News::Snapshot(snapshot)) => Some(Box::new(snapshot.harmless())),
        _ => None,
    });
    Some((header.boot_id, (snapshots.next()?, snapshots.next())))
}
