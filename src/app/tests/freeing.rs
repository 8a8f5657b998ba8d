//! What the verdict says once a process is proved to have freed its memory, and what stays in view of what was tried.

use std::time::Duration;

use crossterm::event::KeyCode;

use crate::app::Msg;
use crate::app::freed::Chance;
use crate::app::last::Story;
use crate::app::model::Region;
use crate::app::msg::SignalReport;
use crate::app::tests::{Session, key_of, torch_log};
use crate::gpu::testing::process;
use crate::units::Bytes;

/// A process of 11.2 GiB was terminated and has freed it; another one has 6 GiB.
fn after_the_proof_of(log: &str) -> Session {
    let mut session = Session::with_holders();
    session.paste(log);
    session.model.focus = Region::Processes;
    session.select(4242);
    session.keys("x");
    session.read();
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(Duration::from_millis(3))));
    session.sample(vec![process(5177, Bytes::gib(6))]);
    session.model.focus = Region::Steps;
    session.send(Msg::Resize(80, 24));
    session
}

fn asked_for(amount: &str) -> String {
    torch_log().replace("Tried to allocate 14.00 GiB", &format!("Tried to allocate {amount}"))
}

#[test]
fn after_a_proof_the_verdict_says_what_was_freed_and_what_to_do_unless_far_too_little_is_free() {
    let of_one_request =
        "RuntimeError: CUDA out of memory. Tried to allocate 9.00 GiB (GPU 0; 24.00 GiB total capacity)";
    let chance = |log: &str| after_the_proof_of(log).model.freed_for_the_run().map(|freed| freed.chance);
    assert_eq!(chance(of_one_request), Some(Chance::MayBeEnough));
    assert_eq!(chance("RuntimeError: CUDA error: out of memory"), Some(Chance::Unknown));
    assert!(matches!(chance(&asked_for("17.40 GiB")), Some(Chance::Close(missing)) if missing < Bytes::gib(1)));
    assert_eq!(chance(&asked_for("22.00 GiB")), None, "5 GiB are missing still");
    assert_eq!(chance(&torch_log()), None, "the verdict says that it is enough");
    let screen = crate::ui::drawn(&after_the_proof_of(of_one_request).model);
    let line = screen.lines().nth(1).unwrap_or_default();
    assert!(line.contains("✓ FREED 11.2 GiB on GPU 0") && line.contains("needs ≥ 9.0 GiB · free 17.4"), "{screen}");
    let screen = crate::ui::drawn(&after_the_proof_of(&asked_for("17.40 GiB")).model);
    assert!(screen.contains("FREED 11.2 GiB") && screen.contains("Next: Terminate"), "{screen}");
}

#[test]
fn what_was_freed_for_one_failure_says_nothing_about_the_next_one() {
    let mut session = after_the_proof_of("RuntimeError: CUDA error: out of memory");
    assert!(session.model.freed_for_the_run().is_some());
    session.wait(Duration::from_secs(60));
    session.keys("e");
    session.paste("RuntimeError: CUDA error: out of memory, again");
    assert_eq!(session.model.freed_for_the_run(), None);
}

#[test]
fn what_was_tried_is_in_view_on_a_small_screen_also_below_a_proof_and_after_a_new_start() {
    let mut session = after_the_proof_of(&asked_for("22.00 GiB"));
    session.press(KeyCode::Down);
    session.keys("n");
    session.press(KeyCode::Down);
    session.press(KeyCode::Enter);
    let titles: Vec<String> = session.model.walk.behind.iter().map(|behind| behind.title.clone()).collect();
    assert_eq!(titles.len(), 2);
    let screen = crate::ui::drawn(&session.model);
    let line = screen.lines().find(|line| line.contains('✗') && !line.contains("NOT ENOUGH")).unwrap_or_default();
    let starts = |title: &String| line.contains(title.chars().take(8).collect::<String>().as_str());
    assert!(titles.iter().all(starts) && screen.contains("▸ "), "{titles:?}\n{screen}");
    assert!(screen.contains("freed 11.2 GiB"), "the proof stays: {screen}");
    let story =
        Story { behind: session.model.walk.behind.clone(), freed: vec!["a: freed 2.0 GiB".into()], ..Story::default() };
    let mut next = Session::with_log();
    next.model.walk = story.walk(None);
    next.send(Msg::Resize(80, 24));
    let screen = crate::ui::drawn(&next.model);
    let line = screen.lines().find(|line| line.contains('✗') && !line.contains("NOT ENOUGH")).unwrap_or_default();
    assert!(line.contains("freed 2.0") && line.contains("Use a"), "{screen}");
}
