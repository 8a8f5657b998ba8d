//! Owns the form of the table of llama.cpp's architectures (`knowledge/memory/architectures.ron`): which are known here and
//! what is peculiar to each. An architecture that is not there has weights but no cache figure.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::memory::data;

static TABLE: LazyLock<Table> = LazyLock::new(|| data::read(TEXT).unwrap_or_default());

const TEXT: &str = include_str!("../../../knowledge/memory/architectures.ron");

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    architectures: Vec<Architecture>,
    transformers: BTreeMap<String, String>,
}

/// Which layers of an architecture keep state by sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum Recurrence {
    #[default]
    Never,
    /// All, and there is no attention.
    Always,
    Both,
    /// Those without attention heads.
    WithoutHeads,
    /// Those without attention heads and without a feed-forward part.
    WithoutHeadsAndFeedForward,
    /// All but each n-th.
    Interval,
}

/// Which layers of an architecture cache the keys of an indexer, where the file has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Indexer {
    /// All, or those that `attention.indexer.types` marks.
    All,
    /// As `All`; from a trained context of 2^20 tokens on and without that list the first three and each fourth.
    Shared,
    /// Those after the dense ones at the front.
    Sparse,
}

/// How an architecture caches.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Architecture {
    names: Vec<String>,
    pub(super) recurrence: Recurrence,
    /// Period, full first, and window by default, where the architecture uses windows.
    pub(super) window: Option<(u64, bool, u64)>,
    /// Whether it keeps nothing at all.
    pub(super) stateless: bool,
    /// The indexer's layers; `None` where it is not known here, though the file has one.
    pub(super) indexer: Option<Indexer>,
    /// Whether the feed-forward part has no gate, and so two matrices instead of three.
    pub(super) ungated: bool,
}

/// The architecture of this name; `None` where it is not known here.
pub(super) fn known(name: &str) -> Option<&'static Architecture> {
    TABLE.architectures.iter().find(|known| known.names.iter().any(|known| known == name))
}

/// llama.cpp's name for a family that transformers names so. What is not in the table differs by its underscores only.
pub fn of_transformers(model_type: &str) -> String {
    let named = TABLE.transformers.get(model_type).cloned();
    named.unwrap_or_else(|| model_type.trim_end_matches("_text").replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_in_one_row_only() {
        let table: Table = data::read(TEXT).unwrap();
        let mut all: Vec<&String> = table.architectures.iter().flat_map(|row| &row.names).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert!(all.len() == count && count > 120, "{count}");
        let named_by_transformers = table.transformers.values();
        assert!(all.into_iter().chain(named_by_transformers).all(|name| known(name).is_some()));
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        assert_eq!(known("qwen9"), None);
        assert_eq!(known(""), None);
    }
}
