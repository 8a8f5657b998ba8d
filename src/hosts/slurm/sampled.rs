//! Owns what `sstat` says of the system memory of a running job. Slurm looks every few seconds (JobAcctGatherFrequency), so
//! the largest figure is a lower bound of what a task ever used, never its peak. Format: slurm.schedmd.com/sstat.html; tried
//! with 22.05.8 (2026-11-28).

use super::super::SampledRam;
use super::super::name::JobId;
use super::{argv, shown};
use crate::units::Bytes;

/// Prints each step of a job in a line. Slurm answers the job's owner and administrators.
pub fn sampled_argv(job: &JobId) -> Vec<String> {
    argv(&["sstat", "-a", "-n", "-P", "-j", job.as_str(), "-o", "JobID,MaxRSS,MaxRSSNode,MaxRSSTask"])
}

/// The largest figure of all steps, and its node; `None` where Slurm sampled nothing.
pub fn most_sampled(printed: &str) -> Option<(String, SampledRam)> {
    printed.lines().filter_map(sampled).max_by_key(|(_, sampled)| sampled.bytes)
}

/// `4711.batch|10452K|gpu01|0`.
fn sampled(row: &str) -> Option<(String, SampledRam)> {
    let mut fields = row.split('|').map(str::trim);
    let (step, bytes) = (fields.next()?, bytes(fields.next()?)?);
    let node = fields.next().filter(|node| !node.is_empty())?;
    let task = fields.next().and_then(|task| task.parse().ok());
    (bytes > Bytes::ZERO).then(|| (shown(node), SampledRam { bytes, step: shown(step), task }))
}

/// A size with its unit of 1024, as sstat prints it: `10452K`, `1.50G`; bytes where it has none.
fn bytes(text: &str) -> Option<Bytes> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)? {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1_u64 << 40,
        _ => return None,
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: u64 = whole.parse().ok()?;
    let part: u64 = format!("{part:0<3}").get(..3)?.parse().ok()?;
    Some(Bytes(whole.checked_mul(unit)?.checked_add(part.checked_mul(unit / 1000)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_figure_of_all_steps_is_told_with_its_node_and_nothing_is_no_zero() {
        let printed = "4711.extern|0|gpu01|0\n4711.batch|10452K|gpu01|0\n4711.0|12.50G|gpu02|3\n4711.1|||\n";
        let (node, most) = most_sampled(printed).unwrap();
        assert_eq!((node.as_str(), most.step.as_str(), most.task), ("gpu02", "4711.0", Some(3)));
        assert!(most.bytes > Bytes::gib(12) && most.bytes < Bytes::gib(13), "{most:?}");
        for nothing in
            ["", "4711.batch|0|gpu01|0", "4711.0|||", "4711.0|x|gpu01|0", "4711.0|99999999999T|gpu01|0", "|||"]
        {
            assert_eq!(most_sampled(nothing), None, "{nothing}");
        }
    }
}
