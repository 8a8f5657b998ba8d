//! Owns versions: which a log prints of the programs and libraries of the run (`knowledge/versions.ron`), and whether one
//! lies within a range.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pattern::{Pattern, group};
use super::searched::Searched;

/// How a log prints the version of a program or library; `v` is the version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionRule {
    /// As the range of a sign names it: `vllm`, `torch`, `cuda`.
    pub of: String,
    pub patterns: Vec<Pattern>,
    /// What only early versions print, the earliest first.
    #[serde(default)]
    pub early: Vec<Early>,
}

/// What no version prints from a certain one on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Early {
    pub before: String,
    pub patterns: Vec<Pattern>,
}

/// Versions by the name of the program or library.
pub type Versions = BTreeMap<String, String>;

/// Versions of one program: from the first to before the second, either of them open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub of: String,
    /// The name as its makers write it.
    pub title: String,
    pub from: Option<String>,
    pub before: Option<String>,
}

/// The versions that these texts print; of a name that is printed twice the first counts.
pub(super) fn read(rules: &[VersionRule], texts: &[&Searched]) -> Versions {
    let printed = rules.iter().filter_map(|rule| Some((rule.of.clone(), first(rule, texts)?)));
    printed.rev().collect()
}

fn first(rule: &VersionRule, texts: &[&Searched]) -> Option<String> {
    texts.iter().find_map(|text| {
        let mut found = rule.patterns.iter().flat_map(|pattern| text.captures(pattern));
        found.find_map(|found| group(&found, "v"))
    })
}

/// The versions before which these texts show a program or library to be.
pub(super) fn read_bounds(rules: &[VersionRule], texts: &[&Searched]) -> Versions {
    let shown = |early: &&Early| early.patterns.iter().any(|pattern| texts.iter().any(|text| text.shows(pattern)));
    let bounds = rules.iter().filter_map(|rule| Some((rule.of.clone(), rule.early.iter().find(shown)?.before.clone())));
    bounds.collect()
}

impl Range {
    /// What must hold for the run to be within the range: nothing where its version is known to be, a condition where it
    /// is not known. `None` where it is known to be another.
    pub fn condition(&self, printed: &Versions, older_than: &Versions) -> Option<Option<String>> {
        match (printed.get(&self.of), older_than.get(&self.of)) {
            (Some(version), _) => self.contains(version).then_some(None),
            (None, Some(bound)) if self.begins_at_or_after(bound) => None,
            (None, Some(bound)) if self.contains_all_before(bound) => Some(None),
            (None, _) => Some(Some(format!("if it is {}", self.in_words()))),
        }
    }

    fn begins_at_or_after(&self, bound: &str) -> bool {
        self.from.as_ref().is_some_and(|from| compare(from, bound) != Ordering::Less)
    }

    fn contains_all_before(&self, bound: &str) -> bool {
        self.from.is_none() && self.before.as_ref().is_none_or(|before| compare(before, bound) != Ordering::Less)
    }

    fn contains(&self, version: &str) -> bool {
        let is_from = self.from.as_ref().is_none_or(|from| compare(version, from) != Ordering::Less);
        let is_before = self.before.as_ref().is_none_or(|before| compare(version, before) == Ordering::Less);
        is_from && is_before
    }

    fn in_words(&self) -> String {
        let title = &self.title;
        match (&self.from, &self.before) {
            (Some(from), Some(before)) => format!("{title} {from} or later, before {before}"),
            (Some(from), None) => format!("{title} {from} or later"),
            (None, Some(before)) => format!("{title} before {before}"),
            (None, None) => title.clone(),
        }
    }
}

/// Orders versions by their numbers: 0.9 before 0.10, a release candidate before its release, `.post1` after it.
pub(super) fn compare(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (parts(one), parts(other));
    let longest = one.len().max(other.len());
    one.resize(longest, 0);
    other.resize(longest, 0);
    one.cmp(&other)
}

/// The numbers of a version. What is older than its release has a negative part there; a local part (`+cu121`) counts not.
fn parts(version: &str) -> Vec<i64> {
    let public = version.split('+').next().unwrap_or_default();
    let mut parts = Vec::new();
    let mut rest = public;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (between, from) = rest.split_at(at);
        let end = from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len());
        let (digits, after) = from.split_at(end);
        let is_early = ["rc", "dev", "alpha", "beta", "a"].iter().any(|word| between.trim_matches(['.', '-']) == *word);
        if is_early {
            parts.push(-1);
        }
        parts.push(digits.parse().unwrap_or(i64::MAX));
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        for (earlier, later) in [
            ("0.9.2", "0.10"),
            ("2.6.0rc1", "2.6.0"),
            ("0.6.4", "0.6.4.post1"),
            ("0.6.4.post1", "0.6.5"),
            ("b4321", "b10000"),
            ("2.3.1+cu118", "2.4"),
            ("1.0-beta2", "1.0"),
        ] {
            assert_eq!(compare(earlier, later), Ordering::Less, "{earlier} {later}");
            assert_eq!(compare(later, earlier), Ordering::Greater, "{earlier} {later}");
        }
        assert_eq!(compare("2.3", "2.3.0+cu121"), Ordering::Equal);
    }

    #[test]
    fn an_unknown_version_is_a_condition_and_another_one_none() {
        let range =
            Range { of: "vllm".into(), title: "vLLM".into(), from: Some("0.6.4".into()), before: Some("0.6.5".into()) };
        let of_vllm = |version: &str| Versions::from([("vllm".to_owned(), version.to_owned())]);
        let printed = |version: &str| range.condition(&of_vllm(version), &Versions::new());
        let bound = |version: &str| range.condition(&Versions::new(), &of_vllm(version));
        assert_eq!(printed("0.6.4.post1"), Some(None));
        assert_eq!(printed("0.6.5"), None);
        assert_eq!(printed("0.6.3"), None);
        assert!(
            range.condition(&Versions::new(), &Versions::new()).is_some_and(|condition| condition.is_some()),
            "nothing is known"
        );
        assert_eq!(bound("0.6.4"), None);
        assert!(bound("0.7").is_some_and(|condition| condition.is_some()));
        let before = Range { from: None, ..range.clone() };
        assert_eq!(before.condition(&Versions::new(), &of_vllm("0.6.5")), Some(None));
    }
}
