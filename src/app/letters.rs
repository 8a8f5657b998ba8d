//! Owns the letter of each process, by which a person finds it in the bar of its GPU and in the list: its initial, else the
//! next free letter, the same as long as it lives.

use std::collections::{BTreeMap, BTreeSet};

use crate::gpu::{GpuProcess, ProcessKey, Snapshot};
use crate::units::Bytes;

/// A process with a smaller part of its GPU has no letter: it would be no column wide.
const SMALLEST_PART: u64 = 40;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Letters(BTreeMap<ProcessKey, char>);

impl Letters {
    pub fn of(&self, process: &GpuProcess) -> Option<char> {
        self.0.get(&process.key()?).copied()
    }

    /// Gives a letter to each process that is large enough, and takes those of processes that are gone.
    pub fn follow(&mut self, snapshot: &Snapshot) {
        self.0.retain(|key, _| snapshot.process(*key).is_some());
        let mut free = self.free();
        for device in &snapshot.devices {
            if free.is_empty() {
                return;
            }
            let Some(total) = device.memory.total_bytes.value() else { continue };
            let mut large: Vec<&GpuProcess> = device.processes.iter().filter(|row| is_large(row, total)).collect();
            large.sort_by_key(|row| (std::cmp::Reverse(row.used_bytes.value()), row.pid));
            for row in large {
                if let Some(key) = row.key().filter(|key| !self.0.contains_key(key))
                    && let Some(letter) =
                        initial(row).filter(|initial| free.contains(initial)).or(free.first().copied())
                {
                    free.remove(&letter);
                    self.0.insert(key, letter);
                }
            }
        }
    }

    /// The letters that nobody has, capitals first.
    fn free(&self) -> BTreeSet<char> {
        let mut free: BTreeSet<char> = ('A'..='Z').chain('a'..='z').collect();
        for taken in self.0.values() {
            free.remove(taken);
        }
        free
    }
}

fn initial(row: &GpuProcess) -> Option<char> {
    let name = super::names::short_name(row);
    name.chars().find(char::is_ascii_alphabetic).map(|letter| letter.to_ascii_uppercase())
}

fn is_large(row: &GpuProcess, total: Bytes) -> bool {
    row.used_bytes.value().is_some_and(|used| used.0 >= total.0 / SMALLEST_PART)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::{device, process, snapshot};

    fn named(pid: u32, name: &str, bytes: Bytes) -> GpuProcess {
        GpuProcess { recognised_as: Some(name.into()), ..process(pid, bytes) }
    }

    #[test]
    fn a_process_keeps_its_letter_while_it_lives_and_the_next_one_takes_another() {
        let one = |rows: Vec<GpuProcess>| Snapshot { devices: vec![device(0, rows)], ..snapshot(0) };
        let mut letters = Letters::default();
        letters.follow(&one(vec![named(7, "Ollama runner", Bytes::gib(5))]));
        let rows = vec![named(7, "Ollama runner", Bytes::gib(5)), named(8, "oobabooga", Bytes::gib(9))];
        letters.follow(&one(rows.clone()));
        assert_eq!((letters.of(&rows[0]), letters.of(&rows[1])), (Some('O'), Some('A')));
        letters.follow(&one(rows[1..].to_vec()));
        assert_eq!((letters.of(&rows[0]), letters.of(&rows[1])), (None, Some('A')));
    }

    #[test]
    fn a_small_part_of_a_gpu_has_no_letter() {
        let rows = vec![named(7, "Xorg", Bytes::mib(96))];
        let mut letters = Letters::default();
        letters.follow(&Snapshot { devices: vec![device(0, rows.clone())], ..snapshot(0) });
        assert_eq!(letters.of(&rows[0]), None);
    }
}
