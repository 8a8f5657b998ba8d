//! The screens as a person sees them, at the sizes people have: the pictures are kept in tests/screens.

use std::time::Duration;

use crossterm::event::KeyCode;

use super::drawn;
use crate::app::Msg;
use crate::app::model::{Config, Source};
use crate::app::msg::SignalReport;
use crate::app::tests::{Session, held, key_of, torch_log};
use crate::gpu::testing::{device, process, snapshot};
use crate::gpu::{Driver, GpuProcess, Reading, Snapshot};
use crate::units::Bytes;

pub(super) const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

/// Compares the screen at these sizes with the kept pictures. The clock of the picture's maker must not show.
pub(super) fn assert_screens(name: &str, session: &mut Session, sizes: &[(u16, u16)]) {
    for (columns, rows) in sizes {
        session.send(Msg::Resize(*columns, *rows));
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../../tests/screens");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.add_filter(r"\d\d:\d\d:\d\d", "hh:mm:ss");
        settings.bind(|| insta::assert_snapshot!(format!("{name}-{columns}x{rows}"), drawn(&session.model)));
    }
}

fn kernel() -> GpuProcess {
    let mut row = process(4242, held());
    row.recognised_as = Some("Jupyter kernel sweep.ipynb".into());
    row.command = Reading::Known("python -m ipykernel_launcher -f /run/user/1000/jupyter/kernel-8f2c.json".into());
    row
}

fn rows() -> Vec<GpuProcess> {
    let mut runner = process(5177, Bytes::gib(6));
    runner.recognised_as = Some("Ollama runner llama3.1:8b".into());
    let mut desktop = process(1203, Bytes::mib(96));
    desktop.recognised_as = Some("Xorg".into());
    desktop.command = Reading::Known("/usr/lib/xorg/Xorg :0".into());
    desktop.user = Reading::Known("root".into());
    desktop.uid = Reading::Known(0);
    vec![kernel(), runner, desktop]
}

fn two_cards(second: i64, rows: Vec<GpuProcess>) -> Snapshot {
    Snapshot { devices: vec![device(0, rows), device(1, vec![])], ..snapshot(second) }
}

fn beside_a_crash() -> Session {
    let mut session = Session::new();
    for second in 0..=12 {
        session.send(Msg::Sample(Box::new(two_cards(second, rows()))));
    }
    session
}

#[test]
fn before_a_log() {
    assert_screens("before-a-log", &mut beside_a_crash(), &SIZES);
}

#[test]
fn a_log_with_its_verdict_and_first_step() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    assert_screens("verdict", &mut session, &SIZES);
}

#[test]
fn the_question_and_the_proof() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session.press(KeyCode::Enter);
    assert_screens("question", &mut session, &SIZES[..2]);
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(Duration::from_millis(4))));
    session.send(Msg::Sample(Box::new(two_cards(13, rows().split_off(1)))));
    assert_screens("proof", &mut session, &SIZES[..2]);
}

#[test]
fn the_question_before_its_program_is_asked_and_what_became_of_it() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session.keys("s");
    session.press(KeyCode::Enter);
    assert_screens("let-go-question", &mut session, &SIZES[..2]);
    session.keys("y");
    session.send(Msg::Released(key_of(5177), Err("nothing answers at 127.0.0.1:11434 (connection refused)".into())));
    assert_screens("let-go-in-vain", &mut session, &SIZES[..2]);
}

#[test]
fn what_is_sent_and_the_answers_are_seen_on_the_smallest_screen_whoever_is_asked() {
    let kernel = "python -m ipykernel_launcher -f /run/kernel-8f2c7a10-3c1e-4a55-9d21-5a7be1f0c6aa.json";
    let cases = [
        ("Ollama runner llama3.1:8b", "ollama runner"),
        ("ComfyUI", "python main.py"),
        ("Forge", "python launch.py --api"),
        ("vLLM server (m)", "vllm serve m"),
        ("SGLang server (m)", "python -m sglang.launch_server --enable-memory-saver"),
        ("Jupyter kernel sweep.ipynb", kernel),
    ];
    for (label, command) in cases {
        let mut row = process(4242, held());
        row.recognised_as = Some(label.into());
        row.command = Reading::Known(command.into());
        let mut session = Session::new();
        for second in 0..=12 {
            session.send(Msg::Sample(Box::new(two_cards(second, vec![row.clone()]))));
        }
        session.paste(&torch_log());
        session.press(KeyCode::Enter);
        let (columns, lines) = crate::app::layout::SMALLEST;
        session.send(Msg::Resize(columns, lines));
        let text = drawn(&session.model);
        assert!(text.contains("POST ") && text.contains("[y] ask it"), "{label}\n{text}");
    }
}

#[test]
fn one_that_a_supervisor_runs_and_starts_again() {
    let of_systemd = |pid: u32| {
        let mut row = process(pid, held());
        row.recognised_as = Some("whisper server".into());
        row.command = Reading::Known("/opt/whisper/bin/python -m wyoming_faster_whisper --model large-v3".into());
        row.managed_by = Some("service:whisper.service".into());
        row
    };
    let mut session = Session::new();
    for second in 0..=12 {
        session.send(Msg::Sample(Box::new(two_cards(second, vec![of_systemd(4242)]))));
    }
    session.paste(&torch_log());
    assert_screens("supervised", &mut session, &SIZES[..2]);
    session.keys("x");
    assert_screens("supervised-question", &mut session, &[crate::app::layout::SMALLEST, SIZES[0]]);
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(Duration::from_millis(4))));
    session.send(Msg::Sample(Box::new(two_cards(13, vec![of_systemd(5180)]))));
    assert_screens("started-again", &mut session, &SIZES[..2]);
}

#[test]
fn the_caution_and_the_answers_are_seen_on_the_smallest_screen() {
    let (columns, lines) = crate::app::layout::SMALLEST;
    let of = |pid: u32, manager: Option<&str>, container: Option<&str>| {
        let mut row = process(pid, held());
        (row.managed_by, row.container) = (manager.map(str::to_owned), container.map(str::to_owned));
        row.recognised_as = Some("Some program".into());
        (row.parent_pid, row.state) = (Reading::Known(1), Reading::Known('T'));
        row
    };
    let long = "user-service:a-unit-with-a-name-that-is-longer-than-anything-a-person-would-think-of.service";
    let cases = [
        (Some("slurm:81234"), None, "This ends one process of Slurm job 81234"),
        (Some("service:ollama.service"), None, "systemd (ollama.service) may start it again"),
        (Some(long), None, "systemd (a-unit"),
        (None, Some("docker:0123456789ab"), "Docker may start it again (restart policy)"),
        (None, Some("kubernetes:b1946ac9-2492-4d23-9c6c-0d2b6f1c3a55/0123456789ab"), "Kubernetes starts it again"),
    ];
    for (manager, container, caution) in cases {
        for count in [1, 2] {
            let mut session = Session::new();
            session.model.config.source = Source::Demo;
            let rows = (0..count).map(|n| of(4242 + n, manager, container)).collect();
            session.send(Msg::Sample(Box::new(two_cards(0, rows))));
            session.send(Msg::Resize(columns, lines));
            for _ in 0..count {
                session.press(KeyCode::Char(' '));
                session.press(KeyCode::Down);
            }
            session.keys("x");
            let text = drawn(&session.model);
            assert!(text.contains(if count == 1 { caution } else { "Some may be started again" }), "{text}");
            assert!(text.contains("[y] end it") && text.contains("Demo: nothing"), "{text}");
        }
    }
}

#[test]
fn one_that_could_not_be_ended() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session.press(KeyCode::Enter);
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::StillThere(Some('S'))));
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::StillThere(Some('D'))));
    assert_screens("stuck-in-the-driver", &mut session, &SIZES[..2]);
}

#[test]
fn the_log_on_a_small_screen() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session.press(KeyCode::BackTab);
    assert_screens("input", &mut session, &SIZES[..1]);
}

#[test]
fn a_log_from_another_machine() {
    let mut session = beside_a_crash();
    session.paste(&torch_log().replace("24.00 GiB", "79.15 GiB"));
    assert_screens("another-machine", &mut session, &SIZES[1..2]);
}

#[test]
fn a_log_that_is_no_out_of_memory_and_one_nobody_knows() {
    let mut session = beside_a_crash();
    session.paste("ModuleNotFoundError: No module named 'torch'\n");
    assert_screens("unknown-log", &mut session, &SIZES[..1]);
}

#[test]
fn no_driver() {
    let mut session = Session::new();
    let why = "No NVIDIA driver was found (libnvidia-ml.so.1 is not installed here).";
    let driver = Driver::Unavailable { unavailable: why.into() };
    session.send(Msg::Sample(Box::new(Snapshot { driver, devices: vec![], ..snapshot(0) })));
    assert_screens("no-driver", &mut session, &SIZES[..2]);
}

#[test]
fn a_driver_that_does_not_answer() {
    let mut session = beside_a_crash();
    session.wait(Duration::from_secs(7));
    assert_screens("driver-does-not-answer", &mut session, &SIZES[..2]);
    assert!(drawn(&session.model).contains("driver does not answer · last reading 7 s ago"));
}

#[test]
fn a_sampler_that_ended_is_not_taken_for_a_driver_that_does_not_answer() {
    let mut session = beside_a_crash();
    session.send(Msg::FeedDown("the sampler ended (signal: 9)".into()));
    session.wait(Duration::from_secs(7));
    let screen = drawn(&session.model);
    assert!(screen.contains("no reading for 7 s: the sampler ended (signal: 9)"), "{screen}");
    assert!(!screen.contains("driver does not answer"), "{screen}");
    let long = "the sampler's output could not be understood (expected value at line 1 column 1); trying again in 1 s";
    session.send(Msg::FeedDown(long.into()));
    session.send(Msg::Resize(80, 24));
    let screen = drawn(&session.model);
    assert!(screen.lines().next().unwrap().contains("oomdoctor no reading for 7 s: the sampler's output"), "{screen}");
}

#[test]
fn a_lost_card_and_unknown_figures_are_said_and_nothing_is_0() {
    let mut nameless = process(77, Bytes::ZERO);
    nameless.used_bytes = Reading::NotAvailable;
    let mut lost = device(1, vec![]);
    lost.error = Some("GPU is lost: it has fallen off the bus".into());
    let mut here = device(0, vec![nameless]);
    here.memory.reserved_bytes = Reading::Unsupported;
    let mut session = Session::new();
    session.send(Msg::Sample(Box::new(Snapshot { devices: vec![here, lost], ..snapshot(0) })));
    assert_screens("lost-and-unknown", &mut session, &SIZES[1..2]);
    let text = drawn(&session.model);
    assert!(text.contains("unknown") && !text.contains("0 bytes"), "{text}");
}

#[test]
fn without_unicode_or_colour_the_same_is_said_in_ascii() {
    let mut session = beside_a_crash();
    session.model.config = Config { unicode: false, colour: false, ..session.model.config.clone() };
    session.paste(&torch_log());
    assert_screens("ascii", &mut session, &SIZES[1..2]);
}

#[test]
fn a_demo_says_that_it_is_one() {
    let mut session = beside_a_crash();
    session.model.config.source = Source::Demo;
    assert!(drawn(&session.model).contains("DEMO"));
}

#[test]
fn every_size_can_be_drawn() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    for columns in (1..220).step_by(13) {
        for rows in (1..70).step_by(9) {
            for key in [KeyCode::Tab, KeyCode::Char('z')] {
                session.send(Msg::Resize(columns, rows));
                session.press(key);
                drawn(&session.model);
            }
        }
    }
}

#[test]
fn holders_that_are_enough_only_together_are_said_to_be() {
    let mut session = Session::new();
    session.sample(vec![process(4242, Bytes::gib(9)), process(5177, Bytes::gib(8))]);
    session.paste(
        &torch_log().replace("11.23 GiB", "9.00 GiB").replace("has 6.00 GiB", "has 8.00 GiB").replace("14.00", "20.00"),
    );
    let text = drawn(&session.model);
    assert!(text.contains("the first 2 together may be enough: 17.0 GiB"), "{text}");
}

#[test]
fn a_second_failure_is_compared_on_the_screen() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session.keys("e");
    session.paste(&torch_log().replace("Tried to allocate 14.00", "Tried to allocate 2.00"));
    let text = drawn(&session.model);
    assert!(text.contains("It asked for 2.0 GiB with 6.1 GiB free; before, for 14.0 GiB"), "{text}");
}
