//! Marked processes: what is highlighted, named and asked about is the same everywhere.

use crossterm::event::KeyCode;
use ratatui::style::Modifier;

use crate::app::Msg;
use crate::app::effect::Effect;
use crate::app::tests::{Session, key_of};
use crate::gpu::Reading;
use crate::gpu::testing::process;
use crate::units::Bytes;

/// The rows that stand highlighted on the screen, by their PIDs.
fn highlighted(session: &Session) -> Vec<u32> {
    let cells = crate::ui::view(&session.model).0.painted();
    let mut found = Vec::new();
    for y in 0..session.model.size.1 {
        let bright = (0..cells.area.width).filter_map(|x| cells.cell((x, y)));
        let bright = bright.filter(|cell| cell.modifier.contains(Modifier::REVERSED));
        let text: String = bright.map(|cell| cell.symbol()).collect();
        found.extend(text.split_whitespace().find_map(|word| word.parse().ok().filter(|pid: &u32| *pid > 100)));
    }
    found
}

fn footer(session: &Session) -> String {
    crate::ui::drawn(&session.model).lines().last().unwrap_or_default().to_owned()
}

/// Two processes of one script and a third, of which the first two are marked; the pointer stands on the third.
fn two_of_three_marked() -> Session {
    let mut session = Session::with_holders();
    let run = |pid: u32, command: &str, gib: u64| {
        let mut row = process(pid, Bytes::gib(gib));
        row.recognised_as = Some("python train.py".into());
        row.command = Reading::Known(command.into());
        row
    };
    session.sample(vec![
        run(4301, "python train.py --lr 1e-3 --seed 7", 9),
        run(4302, "python train.py --lr 1e-4 --seed 7", 6),
        process(5177, Bytes::gib(2)),
    ]);
    session.select(4301);
    session.press(KeyCode::Char(' '));
    session.press(KeyCode::Char(' '));
    session
}

#[test]
fn while_rows_are_marked_they_alone_are_highlighted_and_the_footer_names_each() {
    for size in [(80, 24), (120, 40)] {
        let mut session = two_of_three_marked();
        session.send(Msg::Resize(size.0, size.1));
        assert_eq!(session.model.pointed_at().map(|row| row.pid), Some(5177));
        assert_eq!(session.model.aimed_at(), [key_of(4301), key_of(4302)]);
        assert_eq!(highlighted(&session), [4301, 4302]);
        assert!(footer(&session).contains("train.py 4301, train.py 4302"), "{}", footer(&session));
        session.press(KeyCode::Esc);
        assert_eq!(highlighted(&session), [5177]);
        assert!(footer(&session).contains(" 5177"), "{}", footer(&session));
    }
}

#[test]
fn one_marked_row_is_named_as_marked_where_the_pointer_stands_elsewhere() {
    let mut session = two_of_three_marked();
    session.press(KeyCode::Up);
    session.press(KeyCode::Char(' '));
    assert_eq!(highlighted(&session), [4301]);
    assert!(footer(&session).contains("marked train.py 4301"), "{}", footer(&session));
}

#[test]
fn more_marked_rows_than_the_footer_has_room_for_are_counted_and_the_first_ones_named() {
    let mut session = Session::new();
    session.sample((0..12).map(|at| process(40_000 + at, Bytes::gib(1))).collect());
    session.send(Msg::Resize(80, 24));
    session.select(40_000);
    (0..12).for_each(|_| session.press(KeyCode::Char(' ')));
    let footer = footer(&session);
    assert!(footer.contains("12 marked (40000, 40001, ") && footer.contains(", …)"), "{footer}");
}

#[test]
fn the_commands_and_the_copied_command_are_about_the_marked_ones_too() {
    let mut session = two_of_three_marked();
    session.press(KeyCode::Enter);
    assert_eq!(session.effects, [Effect::Copy("oomdoctor kill 4301@4301000 4302@4302000".into())]);
    session.keys(":term");
    let screen = crate::ui::drawn(&session.model);
    assert!(screen.lines().any(|line| line.contains(" x ") && line.contains("4301, ")), "{screen}");
}

#[test]
fn two_processes_of_one_script_are_told_apart_by_pid_memory_age_and_arguments() {
    for size in [(80, 24), (60, 15)] {
        let mut session = two_of_three_marked();
        session.send(Msg::Resize(size.0, size.1));
        session.keys("x");
        session.read();
        let screen = crate::ui::drawn(&session.model);
        for told in ["4301", "4302", "--lr 1e-3", "--lr 1e-4", "9.0 GiB on GPU 0", "6.0 GiB on GPU 0"] {
            assert!(screen.contains(told), "{told}: {screen}");
        }
        assert!(!screen.contains("--seed"), "what both have tells nobody apart: {screen}");
    }
}
