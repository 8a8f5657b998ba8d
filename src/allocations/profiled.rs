//! Owns what a device memory profile of JAX tells of each device: its arrays by call stack. It has nothing of the
//! allocator's own memory and no failure.

use std::collections::{BTreeMap, HashMap};

use super::TextId;
use super::figures::{DEVICES, Kept, alive, lead_with_the_first_failure, rank_of, tree};
use super::lines::Lines;
use super::pprof::Profile;
use super::sentence;
use super::told::{Allocator, Filled};
use crate::units::Bytes;

/// What a profile tells, a device each, the one that has the most first.
pub fn filled(profile: &Profile, file: &str) -> Vec<Filled> {
    let mut of_labels: HashMap<TextId, Vec<Kept>> = HashMap::new();
    for row in &profile.rows {
        let kept = Kept { stack: row.stack, bytes: row.bytes, count: row.count };
        of_labels.entry(row.device).or_default().push(kept);
    }
    let mut devices: BTreeMap<(String, u32), Vec<Kept>> = BTreeMap::new();
    for (label, kept) in of_labels {
        // Compiled programs have no device. They are small, and which GPU they are on is unknown.
        if let Some(device) = device_of(profile.stacks.text(label)) {
            devices.entry(device).or_default().extend(kept);
        }
    }
    let devices = devices.into_iter().take(DEVICES);
    let filled = devices.map(|(device, kept)| of_device(profile, device, &kept, file));
    let mut all: Vec<Filled> = filled.collect();
    lead_with_the_first_failure(&mut all);
    all
}

fn of_device(profile: &Profile, (kind, device): (String, u32), kept: &[Kept], file: &str) -> Filled {
    let mut lines = Lines::new(&profile.stacks);
    let mut filled = Filled {
        file: file.to_owned(),
        rank: rank_of(file),
        allocator: Allocator::Jax,
        device,
        device_kind: Some(kind),
        allocated_bytes: kept.iter().fold(Bytes::ZERO, |sum, one| sum.plus(one.bytes)),
        alive: alive(kept, &mut lines),
        tree: tree(kept, &mut lines),
        ..Filled::default()
    };
    filled.sentence = sentence::say(&filled);
    filled
}

/// Bytes of a device's label.
const LONGEST_LABEL: usize = 64;

/// What devices are called, and of which kind they are.
const KINDS: [(&str, &str); 5] = [("cuda", "gpu"), ("rocm", "gpu"), ("gpu", "gpu"), ("tpu", "tpu"), ("cpu", "cpu")];

/// `gpu:0`, `cuda:0` or `TPU_0(process=0,…)` in kind and number; a label of another form is a kind of its own.
fn device_of(label: &str) -> Option<(String, u32)> {
    let label = label.get(..label.floor_char_boundary(LONGEST_LABEL)).unwrap_or_default();
    let lower = label.to_ascii_lowercase();
    let known = KINDS.iter().find_map(|(name, kind)| Some((*kind, lower.split_once(name)?.1)));
    let (kind, behind) = known.unwrap_or((&lower, ""));
    let digits: String = behind.trim_start_matches([':', '_']).chars().take_while(char::is_ascii_digit).collect();
    (!label.is_empty()).then(|| (kind.to_owned(), digits.parse().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocations::pprof;

    #[test]
    fn arrays_are_summed_by_device_and_line_and_what_the_file_lacks_is_unknown() {
        let profile = pprof::read(include_bytes!("../../tests/snapshots/jax.pprof")).unwrap();
        let all = filled(&profile, "memory_rank2.prof");
        let [filled] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((filled.device_in_words().as_str(), filled.rank), ("CPU 0", Some(2)));
        let sum = filled.alive.iter().fold(Bytes::ZERO, |sum, row| sum.plus(row.bytes));
        assert_eq!(filled.allocated_bytes, sum);
        assert_eq!(filled.alive[0].at.as_ref().unwrap().to_string(), "m.py:4 <module>");
        assert!(filled.sentence.contains("m.py:4") && filled.sentence.starts_with("JAX has"), "{}", filled.sentence);
        assert!(filled.totals.is_none() && filled.request.is_none() && filled.findings.is_empty());
        assert_eq!(filled.tree[0].bytes, filled.tree.iter().map(|node| node.bytes).max().unwrap());
    }

    #[test]
    fn devices_are_told_by_kind_and_number() {
        assert_eq!(device_of("gpu:0"), Some(("gpu".into(), 0)));
        assert_eq!(device_of("cuda:3"), Some(("gpu".into(), 3)));
        assert_eq!(device_of("TPU_5(process=1,(0,0,0,0))"), Some(("tpu".into(), 5)));
        assert_eq!(device_of(""), None);
    }
}
