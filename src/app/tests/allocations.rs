//! Owns the tests of memory snapshots on the screen: how one gets there, and what its keys do.

use std::path::Path;

use super::*;
use crate::allocations::told::Filled;
use crate::allocations::{figures, read};
use crate::app::dropped::{DroppedFile, DroppedKind};
use crate::app::model::allocations::Part;
use crate::app::overlay::allocations::AllocationsView;

/// What the small snapshot of the tests tells, as if it lay in this file.
pub(crate) fn sick(file: &Path) -> Filled {
    let bytes = include_bytes!("../../../tests/snapshots/sick.4.pickle");
    figures::filled(&read::read(bytes.as_slice()).unwrap(), &file.to_string_lossy()).remove(0)
}

/// A log beside which snapshots of two ranks lie, both in view.
pub(crate) fn beside_a_log() -> Session {
    let mut session = Session::with_log();
    let files = vec!["oom_rank0.pickle".into(), "oom_rank1.pickle".into()];
    session.send(Msg::SnapshotsBeside(session.model.input.generation, files));
    session.keys("S");
    session.read_logs();
    session
}

fn is_open(session: &Session) -> bool {
    session.model.opened::<AllocationsView>().is_some()
}

#[test]
fn snapshots_beside_the_log_are_offered_and_read_only_when_asked_for() {
    let mut session = Session::with_log();
    session.keys("S");
    assert!(!is_open(&session) && session.effects().is_empty(), "there is none");
    let walk = session.model.walk.behind.len();
    session.send(Msg::SnapshotsBeside(session.model.input.generation, vec!["/jobs/oom_rank0.pickle".into()]));
    assert!(session.model.notice.as_ref().unwrap().0.starts_with("oom_rank0.pickle"));
    assert!(session.effects().is_empty() && session.model.filled().is_empty());
    session.keys("S");
    session.read_logs();
    assert!(is_open(&session) && session.model.filled().len() == 1);
    assert_eq!(session.model.walk.behind.len(), walk);
    session.press(KeyCode::Esc);
    assert!(!is_open(&session));
    session.keys("S");
    assert!(is_open(&session) && session.effects().is_empty(), "it is not read again");
}

#[test]
fn esc_stops_reading_a_snapshot_which_can_be_asked_for_again() {
    let mut session = Session::with_log();
    session.send(Msg::SnapshotsBeside(session.model.input.generation, vec!["/jobs/oom_rank0.pickle".into()]));
    session.keys("S");
    session.press(KeyCode::Esc);
    assert_eq!(session.effects().last(), Some(&Effect::StopReading));
    // What was read meanwhile comes too late.
    session.read_logs();
    assert!(!is_open(&session) && session.model.filled().is_empty());
    assert!(session.model.input.log.is_some() && session.model.input.trouble.is_none());
    session.press(KeyCode::Esc);
    assert_eq!(session.effects().iter().filter(|effect| **effect == Effect::StopReading).count(), 1, "nothing is read");
    session.keys("S");
    session.read_logs();
    assert!(is_open(&session) && session.model.filled().len() == 1);
}

#[test]
fn a_dropped_snapshot_joins_the_log_that_is_open_and_a_refused_one_leaves_it_as_it_is() {
    let mut session = Session::with_log();
    session.paste("/jobs/oom.pickle");
    let Some(Effect::LookAtPaths { text, paths }) = session.effects.pop() else { panic!("{:?}", session.effects) };
    let dropped = DroppedFile { path: paths[0].clone(), kind: DroppedKind::Snapshot };
    session.send(Msg::Dropped(text, Some(vec![dropped.clone()])));
    let before = session.model.input.log.clone();
    let generation = session.model.input.generation;
    let mut refused = session.clone();
    session.read_logs();
    assert!(is_open(&session));
    assert_eq!(session.model.input.log.as_ref().unwrap().raw(), before.as_ref().unwrap().raw());
    refused.send(Msg::Unread(generation, "oom.pickle: it would run code at byte 43".into()));
    assert_eq!(refused.model.notice.as_ref().unwrap().0, "oom.pickle: it would run code at byte 43");
    assert!(refused.model.input.log.is_some() && refused.model.allocations.files.is_empty());
}

#[test]
fn a_path_of_no_file_is_a_log_itself() {
    let mut session = Session::new();
    session.paste("/no/such/file");
    let Some(Effect::LookAtPaths { text, .. }) = session.effects.pop() else { panic!("{:?}", session.effects) };
    session.send(Msg::Dropped(text, None));
    session.read_logs();
    assert_eq!(session.model.input.log.as_ref().unwrap().raw(), "/no/such/file");
}

#[test]
fn the_parts_the_ranks_and_the_tree_are_changed_by_keys() {
    let mut session = beside_a_log();
    let part = |session: &Session| session.model.allocations.view.part;
    session.press(KeyCode::Tab);
    assert_eq!(part(&session), Part::Stacks);
    let rows =
        |session: &Session| session.model.allocations.view.stack_rows(session.model.filled_in_view().unwrap()).len();
    let closed = rows(&session);
    session.press(KeyCode::Enter);
    assert!(rows(&session) > closed, "the heaviest stack is open");
    session.press(KeyCode::Left);
    assert_eq!(rows(&session), closed);
    session.press(KeyCode::Right);
    session.press(KeyCode::Down);
    session.press(KeyCode::End);
    assert_eq!(session.model.allocations.view.at, rows(&session) - 1);
    session.keys("n");
    assert_eq!((session.model.allocations.view.which, part(&session)), (1, Part::Stacks));
    session.keys("n");
    assert_eq!(session.model.allocations.view.which, 0, "around the end");
    session.press(KeyCode::BackTab);
    session.press(KeyCode::BackTab);
    assert_eq!(part(&session), Part::Timeline);
}

#[test]
fn another_log_has_other_snapshots() {
    let mut session = beside_a_log();
    session.press(KeyCode::Esc);
    session.paste("RuntimeError: CUDA error: out of memory");
    session.wait(ms(900));
    session.press(KeyCode::Char('r'));
    session.read_logs();
    assert!(session.model.filled().is_empty(), "{:?}", session.model.question);
    assert!(session.model.allocations.files.is_empty());
}
