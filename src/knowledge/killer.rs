//! Owns who killed a process. SIGKILL, exit code 137 and `Killed` alone may mean that memory ran out; they do not where the
//! log says who sent the signal and why: a failed probe, a stop that took too long, a time limit, a person.

use super::entry::Entry;
use super::matching::Hit;

/// The hits without the kills that another message explains.
pub(super) fn unexplained(entries: &[Entry], hits: &[Hit]) -> Vec<Hit> {
    let reaches: Vec<(usize, usize)> = hits.iter().filter_map(|hit| reach(entries.get(hit.entry)?, hit.line)).collect();
    let is_explained = |hit: &Hit| {
        entries.get(hit.entry).is_some_and(|entry| entry.bare_kill)
            && reaches.iter().any(|(first, last)| (*first..=*last).contains(&hit.line))
    };
    hits.iter().filter(|hit| !is_explained(hit)).cloned().collect()
}

/// The lines on which a kill is the one that this entry's message explains.
fn reach(entry: &Entry, line: usize) -> Option<(usize, usize)> {
    let (above, below) = entry.explains_kills?;
    Some((line.saturating_sub(above), line.saturating_add(below)))
}
