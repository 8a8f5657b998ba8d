//! Owns how many scenarios each cause has: some that it leads, and near misses, which look like it and which another
//! cause leads.

use oomdoctor::knowledge::diagnosis::CauseKind;

use super::Subject;

const FEWEST_LED: usize = 2;
const FEWEST_NEAR_MISSES: usize = 1;

/// The name of each cause, as the JSON has it.
fn names() -> Vec<String> {
    let schema = schemars::schema_for!(CauseKind).to_value();
    let causes = schema["oneOf"].as_array().unwrap();
    causes.iter().map(|cause| cause["const"].as_str().unwrap().to_owned()).collect()
}

/// The causes with too few scenarios, and near misses that are none; one line each.
pub fn too_few(subjects: &[Subject]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names() {
        let led = subjects.iter().filter(|subject| subject.scenario.expect.cause == name).count();
        let near_misses =
            subjects.iter().filter(|subject| subject.scenario.looks_like.as_deref() == Some(name.as_str()));
        let (not_missed, near_misses): (Vec<&Subject>, Vec<&Subject>) =
            near_misses.partition(|subject| subject.scenario.expect.cause == name);
        if led < FEWEST_LED || near_misses.len() < FEWEST_NEAR_MISSES {
            found.push(format!("{name} leads {led} scenarios and has {} near misses", near_misses.len()));
        }
        found.extend(not_missed.iter().map(|subject| format!("{}: it does not only look like {name}", subject.name)));
    }
    found
}
