//! Owns how many scenarios each cause has: some that it leads, and near misses, which look like it and which another
//! cause leads.

use oomdoctor::knowledge::diagnosis::CauseKind;

use super::Subject;

const FEWEST_LED: usize = 2;
const FEWEST_NEAR_MISSES: usize = 1;

const CAUSES: [CauseKind; 11] = [
    CauseKind::OtherProcess,
    CauseKind::Fragmentation,
    CauseKind::TooBig,
    CauseKind::Context,
    CauseKind::Batch,
    CauseKind::Growth,
    CauseKind::SameSession,
    CauseKind::Limit,
    CauseKind::WrongDevice,
    CauseKind::HostMemory,
    CauseKind::Unknown,
];

/// Does not compile when a cause is added that `CAUSES` lacks.
const fn position(cause: CauseKind) -> usize {
    match cause {
        CauseKind::OtherProcess => 0,
        CauseKind::Fragmentation => 1,
        CauseKind::TooBig => 2,
        CauseKind::Context => 3,
        CauseKind::Batch => 4,
        CauseKind::Growth => 5,
        CauseKind::SameSession => 6,
        CauseKind::Limit => 7,
        CauseKind::WrongDevice => 8,
        CauseKind::HostMemory => 9,
        CauseKind::Unknown => 10,
    }
}

/// The causes with too few scenarios, and near misses that are none; one line each.
pub fn too_few(subjects: &[Subject]) -> Vec<String> {
    let mut found = Vec::new();
    for (number, cause) in CAUSES.into_iter().enumerate() {
        assert_eq!(position(cause), number);
        let name = serde_json::to_value(cause).unwrap();
        let name = name.as_str().unwrap();
        let led = subjects.iter().filter(|subject| subject.scenario.expect.cause == name).count();
        let near_misses = subjects.iter().filter(|subject| subject.scenario.looks_like.as_deref() == Some(name));
        let (not_missed, near_misses): (Vec<&Subject>, Vec<&Subject>) =
            near_misses.partition(|subject| subject.scenario.expect.cause == name);
        if led < FEWEST_LED || near_misses.len() < FEWEST_NEAR_MISSES {
            found.push(format!("{name} leads {led} scenarios and has {} near misses", near_misses.len()));
        }
        found.extend(not_missed.iter().map(|subject| format!("{}: it does not only look like {name}", subject.name)));
    }
    found
}
