//! Owns holding a second failure against the first: what changed between the two runs, and whether it came further.

use super::figures::run_had;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Oom, Phase};

/// What the new failure says beside the old one, in a sentence or two.
pub(crate) fn compare(before: &Diagnosis, after: &Diagnosis) -> String {
    if after.oom == Oom::No {
        return "The new log does not say that memory ran out: what fails now is something else.".into();
    }
    let mut said = Vec::new();
    if before.memory != after.memory {
        said.push(format!("Before, {} ran out; now it is {}.", words(before.memory), words(after.memory)));
    }
    said.extend(further(before, after));
    // The figures of two ranks tell nothing of a change.
    if let (Some(then), Some(now)) = (before.facts.device, after.facts.device)
        && then != now
        && before.run.rank.or(after.run.rank).is_some()
    {
        said.push(format!("It failed on GPU {now} by its own count; before, on GPU {then}."));
        return said.join(" ");
    }
    let figures = |one: &Diagnosis| one.facts.requested_bytes.map(|asked| (asked, one.facts.free_bytes));
    match (figures(before), figures(after)) {
        (Some((asked, free)), Some((now, free_now))) if (asked, free) != (now, free_now) => {
            let then = free.map_or(String::new(), |free| format!(" with {free} free"));
            let today = free_now.map_or(String::new(), |free| format!(" with {free} free"));
            said.push(format!("It asked for {now}{today}; before, for {asked}{then}."));
        }
        (Some(_), Some(_)) => {
            said.push("It asked for the same and as much was free: the change did not reach it.".into())
        }
        _ => {}
    }
    if let (Some(had), Some(has)) = (run_had(before), run_had(after)) {
        match has.cmp(&had) {
            std::cmp::Ordering::Less => said.push(format!("It used {} less by then.", had.less(has))),
            std::cmp::Ordering::Greater => said.push(format!("It used {} more by then.", has.less(had))),
            std::cmp::Ordering::Equal => {}
        }
    }
    if said.is_empty() {
        return "It failed as before, as far as the logs tell.".into();
    }
    said.join(" ")
}

/// Whether it came further than the last time.
fn further(before: &Diagnosis, after: &Diagnosis) -> Option<String> {
    let order = |phase| match phase {
        Phase::Load => Some(("while loading", 0)),
        Phase::Startup => Some(("while starting up", 1)),
        Phase::Training | Phase::Inference => Some(("at work", 2)),
        Phase::Unknown => None,
    };
    if let (Some((then, early)), Some((now, late))) = (order(before.phase), order(after.phase))
        && early != late
    {
        let way = if late > early { "It came further" } else { "It failed earlier" };
        return Some(format!("{way}: before, it failed {then}, now {now}."));
    }
    let (then, now) = (before.run.step?, after.run.step?);
    (then != now).then(|| {
        let way = if now > then { "It came further" } else { "It failed earlier" };
        format!("{way}: step {now}, before {then}.")
    })
}

fn words(memory: Option<MemoryKind>) -> &'static str {
    match memory {
        Some(MemoryKind::Gpu) => "GPU memory",
        Some(MemoryKind::KvCache) => "the KV cache",
        Some(MemoryKind::Host) => "system memory",
        Some(MemoryKind::Shm) => "shared memory (/dev/shm)",
        Some(MemoryKind::Unified) => "the memory that CPU and GPU share",
        None => "memory of a kind the log doesn't name",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::units::Bytes;

    #[test]
    fn two_failures_are_told_apart() {
        let before = torch_oom(&[]);
        assert!(compare(&before, &before).contains("the change did not reach it"));
        let mut after = before.clone();
        after.facts.requested_bytes = Some(Bytes::gib(2));
        after.facts.free_bytes = Some(Bytes::gib(1));
        after.facts.process_bytes = Some(Bytes::mib(5_427));
        (after.run.step, after.phase) = (Some(120), Phase::Training);
        let mut early = before.clone();
        early.run.step = Some(37);
        assert_eq!(
            compare(&early, &after),
            "It came further: step 120, before 37. It asked for 2.0 GiB with 1.0 GiB free; before, for 9.0 GiB with 6.1 GiB free. It used 5.0 GiB more by then."
        );
        after.memory = Some(MemoryKind::Host);
        assert!(compare(&early, &after).starts_with("Before, GPU memory ran out; now it is system memory."));
        after.oom = Oom::No;
        assert!(compare(&early, &after).contains("something else"));
    }

    #[test]
    fn two_ranks_are_not_compared_with_each_other() {
        let mut before = torch_oom(&[]);
        (before.run.rank, before.facts.device) = (Some(2), Some(2));
        let mut after = torch_oom(&[]);
        after.facts.process_bytes = Some(Bytes::gib(5));
        assert_eq!(compare(&before, &after), "It failed on GPU 0 by its own count; before, on GPU 2.");
    }

    #[test]
    fn an_earlier_phase_is_an_earlier_failure() {
        let (mut before, mut after) = (torch_oom(&[]), torch_oom(&[]));
        (before.phase, after.phase) = (Phase::Training, Phase::Load);
        assert!(
            compare(&before, &after).starts_with("It failed earlier: before, it failed at work, now while loading.")
        );
    }
}
