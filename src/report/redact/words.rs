//! Owns lists of words, written as one text and looked up by hash.

use std::collections::HashSet;
use std::sync::OnceLock;

pub(super) struct Words {
    list: &'static str,
    set: OnceLock<HashSet<&'static str>>,
}

impl Words {
    /// The words of the list are separated by blanks.
    pub(super) const fn new(list: &'static str) -> Words {
        Words { list, set: OnceLock::new() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'static str> {
        self.list.split_whitespace()
    }

    pub(super) fn contains(&self, word: &str) -> bool {
        self.set.get_or_init(|| self.iter().collect()).contains(word)
    }
}
