//! The terminal program as a person meets it: in a terminal, with keys and pastes, beside a driver and real processes.
//! What is asserted is what stands on the screen and what became of the processes.

use std::time::Duration;

use crate::support::machine::{FREE, FREE_AFTERWARDS, HELD, Machine};

const LARGE: (u16, u16) = (120, 40);
const SMALL: (u16, u16) = (80, 24);
const SOON: Duration = Duration::from_secs(10);

#[test]
fn peek() {
    for size in [LARGE, SMALL] {
        let mut machine = Machine::new();
        let mut session = machine.oomdoctor(size, &[]);
        let [holder, second, third] = machine.pids();
        println!("{}", session.wait_for_text(&[&holder, &second]));
        session.paste(machine.log());
        println!("{}", session.wait_for_text(&["step 1", &holder]));
        session.send("\r");
        println!("{}", session.wait_for_text(&["[y]", &holder]));
        session.let_the_question_stand();
        session.send("y");
        println!("{}", session.wait_for_text(&["gave back"]));
        println!("{:?}", machine.holder.ended_by());
        session.send("q");
        println!("{:?}", session.wait_for_exit(SOON));
        session.assert_given_back();
        println!("{third} {FREE} {FREE_AFTERWARDS} {HELD}");
    }
}
