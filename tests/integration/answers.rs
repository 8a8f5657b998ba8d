//! Logs of one kind each, with the right answer: `tests/answers.ron` holds what kills a process other than the kernel for
//! want of memory, what only quotes a message, limits that are not memory, and failures that a program went on after.

use std::fs;
use std::path::Path;

use oomdoctor::knowledge::KnowledgeBase;
use oomdoctor::knowledge::diagnosis::Oom;
use oomdoctor::log::PastedLog;
use serde::Deserialize;

/// A log and its answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// What kind of log it is, in a few words.
    what: String,
    answer: Oom,
    log: String,
}

#[test]
fn each_kind_of_log_gets_its_answer() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers.ron");
    let all: Vec<Asked> = ron::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let base = KnowledgeBase::built_in().unwrap();
    let wrong: Vec<String> = all
        .iter()
        .filter_map(|asked| {
            let diagnosis = base.diagnose(&PastedLog::new(asked.log.clone()), None);
            let leading = diagnosis.matches.first().map(|one| (one.entry, one.line));
            (diagnosis.oom != asked.answer)
                .then(|| format!("{}: {:?}, not {:?}: {leading:?}", asked.what, diagnosis.oom, asked.answer))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}
