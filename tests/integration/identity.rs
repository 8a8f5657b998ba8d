//! Who it is that gets the signal: a process that runs another program by now is not the one that the person saw.

use std::io::Write;

use crate::support::fake_driver::{PATIENCE, Sleeper};
use crate::support::machine::Machine;

const LARGE: (u16, u16) = (120, 40);

#[test]
fn one_that_runs_another_program_since_the_question_is_spared_and_can_be_ended_under_its_new_name() {
    let (holder, mut hand, words) = Sleeper::turning();
    let mut machine = Machine::with_holder(holder);
    let [holder, ..] = machine.pids();
    // So long from reading to reading that the list still has the old name when the yes comes.
    let mut session = machine.oomdoctor_every("6", LARGE, &[]);
    session.wait_for_text(&[&holder]);
    session.send("x");
    session.wait_for_text(&["[y]", &holder, "read go"]);
    hand.write_all(b"go\n").unwrap();
    assert_eq!(words.recv_timeout(PATIENCE).as_deref(), Ok("turned"));
    session.let_the_question_stand();
    session.send("y");
    session.wait_for_text(&["Nothing was signalled", "calls itself sh -c echo turned", "look again"]);
    assert!(machine.all_live());
    // The next reading has the new name, though the kernel's (sh) is the same.
    session.wait_for("its new name", |screen| {
        screen.contents().lines().any(|line| line.contains("11.2 GiB") && line.contains("sh -c echo turned"))
    });
    session.send("x");
    session.wait_for_text(&["[y]", &holder]);
    session.let_the_question_stand();
    session.send("y");
    assert_eq!(machine.holder.ended_by(), Some(15));
    assert!(machine.second.lives() && machine.third.lives());
}
