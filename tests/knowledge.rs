//! Every entry judged by the shipped engine: its own examples, their mangled forms, its near misses, innocent logs.

use oomdoctor::knowledge::KnowledgeBase;
use oomdoctor::knowledge::lint;

#[test]
fn every_entry_passes_the_judge() {
    let base = KnowledgeBase::built_in().unwrap();
    let faults: Vec<String> = lint::judge(&base).iter().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
