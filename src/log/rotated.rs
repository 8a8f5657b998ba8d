//! Owns which files are earlier parts of a log that was rotated, and their order, by name alone.

use std::cmp::{Ordering, Reverse};

/// The endings of compressed logs that are read as they are.
const PACKED: [&str; 4] = [".gz", ".zst", ".xz", ".bz2"];

/// When a part was rotated out of the log, as its name says it. Newest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// `train.log.1`, `train.1.log`: 1 is the newest.
    Numbered(u32),
    /// `train.log-20261128`, `train.log.2026-11-28`: the digits of the date.
    Dated(Reverse<String>),
}

/// Orders the names that are earlier parts of `log`, newest first; others are left out.
pub(crate) fn earlier_parts(log: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut parts: Vec<(Part, String)> =
        names.into_iter().filter_map(|name| Some((part_of(log, &name)?, name))).collect();
    parts.sort();
    parts.into_iter().map(|(_, name)| name).collect()
}

fn part_of(log: &str, name: &str) -> Option<Part> {
    let name = PACKED.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    if let Some(rest) = name.strip_prefix(log) {
        return numbered(rest).or_else(|| dated(rest));
    }
    let (stem, ending) = log.rsplit_once('.')?;
    let between = name.strip_prefix(stem)?.strip_suffix(ending)?.strip_suffix('.')?;
    numbered(between).or_else(|| dated(between))
}

/// The number of `.1`. No program keeps more than some hundred parts: a larger number is a PID or a job. `train-1.log` is
/// another run's log.
fn numbered(rest: &str) -> Option<Part> {
    let digits = rest.strip_prefix('.')?;
    let is_number = (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten().map(Part::Numbered)
}

/// The digits of `-20261128`, `.2026-11-28` or `-2026-11-28-03`.
fn dated(rest: &str) -> Option<Part> {
    let date = rest.strip_prefix(['.', '-', '_'])?;
    let digits: String = date.chars().filter(char::is_ascii_digit).collect();
    let is_date = date.chars().all(|mark| mark.is_ascii_digit() || matches!(mark, '-' | '_' | 'T'));
    let is_this_century = digits.starts_with("20") && (8..=14).contains(&digits.len());
    (is_date && is_this_century).then_some(Part::Dated(Reverse(digits)))
}

/// Orders logs that were named together: parts of one log oldest first, others as they were named.
pub(crate) fn in_order(names: &[String]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    if let Some(log) = names.iter().find(|log| names.iter().all(|name| name == *log || part_of(log, name).is_some())) {
        order.sort_by(|one, other| oldest_first(part_at(log, names, *one), part_at(log, names, *other)));
    }
    order
}

fn part_at(log: &str, names: &[String], at: usize) -> Option<Part> {
    names.get(at).and_then(|name| part_of(log, name))
}

/// The log itself, which is no part, is the newest.
fn oldest_first(one: Option<Part>, other: Option<Part>) -> Ordering {
    other.cmp(&one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn earlier_parts_are_ordered_newest_first() {
        let beside = ["train.log", "train.log.10.gz", "train.log.2", "train.log.1", "other.log.1", "train.log.bak"];
        assert_eq!(earlier_parts("train.log", owned(&beside)), ["train.log.1", "train.log.2", "train.log.10.gz"]);
        let dated = ["app.log-20261127.zst", "app.log-20261128", "app.2026-11-26.log"];
        let newest_first = ["app.log-20261128", "app.log-20261127.zst", "app.2026-11-26.log"];
        assert_eq!(earlier_parts("app.log", owned(&dated)), newest_first);
        let before_the_ending = ["server.2.log", "server.1.log"];
        assert_eq!(earlier_parts("server.log", owned(&before_the_ending)), ["server.1.log", "server.2.log"]);
    }

    #[test]
    fn a_job_or_another_log_is_no_part() {
        for name in [
            "slurm-1.out",
            "slurm.out-48213",
            "slurm-48213.out",
            "slurm.out.err",
            "slurm.output.1",
            "slurm.out.",
            "slurm.out",
        ] {
            assert_eq!(part_of("slurm.out", name), None, "{name}");
        }
    }

    #[test]
    fn logs_named_together_are_read_oldest_first() {
        assert_eq!(in_order(&owned(&["a.log", "a.log.1", "a.log.2.gz"])), [2, 1, 0]);
        assert_eq!(in_order(&owned(&["b.log", "a.log"])), [0, 1], "these are no parts of one log");
    }
}
