//! The signal reaches only the confirmed process: one that runs another program since the question is not the confirmed
//! one.

use std::io::Write;

use crate::support::fake_driver::{PATIENCE, Sleeper};
use crate::support::machine::Machine;

const LARGE: (u16, u16) = (120, 40);

#[test]
fn a_process_that_runs_another_program_since_the_question_is_not_signaled_until_confirmed_again() {
    let (logged, mut hand, words) = Sleeper::turning();
    let mut machine = Machine::with_logged(logged);
    let [logged, ..] = machine.pids();
    // The interval is so long that the list still shows the old name when the y arrives.
    let mut session = machine.oomdoctor_every("6", LARGE, &[]);
    session.wait_for_text(&[&logged]);
    session.send("\x1b[Hx");
    session.wait_for_text(&["[y]", &logged, "read go"]);
    hand.write_all(b"go\n").unwrap();
    assert_eq!(words.recv_timeout(PATIENCE).as_deref(), Ok("turned"));
    session.send("y");
    session.wait_for_text(&["Nothing was signalled", "calls itself sh -c echo turned", "look again"]);
    assert!(machine.all_live());
    // The next reading shows the new name, although the kernel's name (sh) is the same.
    session.wait_for("its new name", |screen| {
        screen.contents().lines().any(|line| line.contains("11.2 ") && line.contains("sh -c echo turned"))
    });
    session.send("\x1b[Hx");
    session.wait_for_text(&["[y]", &logged]);
    session.send("y");
    assert_eq!(machine.logged.ended_by(), Some(15));
    assert!(machine.second.lives() && machine.third.lives());
}

#[test]
fn a_title_that_counts_on_is_the_same_process_and_a_new_activity_asks_again() {
    let mut machine = Machine::with_logged(Sleeper::named("worker: step 1000 loss 0.300"));
    let [logged, ..] = machine.pids();
    let mut session = machine.oomdoctor_every("6", LARGE, &[]);
    session.wait_for_text(&[&logged, "worker: step 1000"]);
    session.send("\x1b[Hx");
    session.wait_for_text(&["[y]", &logged]);
    machine.logged.calls_itself("worker: saving now loss 0.300");
    session.send("y");
    session.wait_for_text(&["Nothing was signalled", "calls itself worker: saving now", "look again"]);
    session.wait_for("its new title", |screen| {
        screen.contents().lines().any(|line| line.contains("11.2 ") && line.contains("worker: saving"))
    });
    assert!(machine.all_live());
    machine.logged.calls_itself("worker: step 1234 loss 0.200");
    session.wait_for("its next title", |screen| {
        screen.contents().lines().any(|line| line.contains("11.2 ") && line.contains("worker: step 1234"))
    });
    session.send("\x1b[Hx");
    session.wait_for_text(&["[y]", &logged]);
    machine.logged.calls_itself("worker: step 9999 loss 0.199");
    session.send("y");
    assert_eq!(machine.logged.ended_by(), Some(15));
    assert!(machine.second.lives() && machine.third.lives());
}
