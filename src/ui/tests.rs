//! The screens as a person sees them, at the sizes people have: the pictures are kept in tests/screens.

use std::time::Duration;

use crossterm::event::KeyCode;

use super::drawn;
use super::picture::testing::bytes_between;
use crate::app::Msg;
use crate::app::layout::SMALLEST;
use crate::app::model::{Config, Palette, Region, Source};
use crate::app::msg::SignalReport;
use crate::app::overlay::symptoms::SYMPTOMS;
use crate::app::tests::{Session, held, key_of, torch_log};
use crate::gpu::testing::{device, process, snapshot};
use crate::gpu::{Driver, GpuProcess, Holder, Nature, ProcessKind, Reading, Snapshot, Vantage};
use crate::units::Bytes;

pub(super) const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

/// Compares the screen at these sizes with the kept pictures. The clock of the picture's maker must not show.
pub(super) fn assert_screens(name: &str, session: &mut Session, sizes: &[(u16, u16)]) {
    for (columns, rows) in sizes {
        session.send(Msg::Resize(*columns, *rows));
        if session.model.question.is_some() {
            session.read();
        }
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

pub(super) fn rows() -> Vec<GpuProcess> {
    let mut runner = process(5177, Bytes::gib(6));
    runner.recognised_as = Some("Ollama runner llama3.1:8b".into());
    let mut desktop = process(1203, Bytes::mib(96));
    desktop.recognised_as = Some("Xorg".into());
    desktop.command = Reading::Known("/usr/lib/xorg/Xorg :0".into());
    desktop.user = Reading::Known("root".into());
    desktop.uid = Reading::Known(0);
    vec![kernel(), runner, desktop]
}

/// The second card is used by somebody the driver does not list: it is no way out.
pub(super) fn two_cards(second: i64, rows: Vec<GpuProcess>) -> Snapshot {
    let mut other = device(1, vec![]);
    let memory = &mut other.memory;
    (memory.used_bytes, memory.free_bytes) =
        (Reading::Known(Bytes::gib(2)), Reading::Known(Bytes::gib(22).less(Bytes::mib(410))));
    other.unaccounted_bytes = Reading::Known(Bytes::gib(2));
    Snapshot { devices: vec![device(0, rows), other], ..snapshot(second) }
}

#[test]
fn another_gpu_that_was_seen_unused_stands_beside_the_verdict_and_comes_first() {
    let mut session = Session::new();
    for second in 0..=12 {
        let devices = vec![device(0, rows()), device(1, vec![])];
        session.send(Msg::Sample(Box::new(Snapshot { devices, ..snapshot(second) })));
    }
    session.paste(&torch_log());
    assert_screens("another-gpu", &mut session, &SIZES[..2]);
}

pub(super) fn beside_a_crash() -> Session {
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

/// Words as the budget counts them: two letters or more in a row.
fn words(screen: &str) -> usize {
    screen.split(|sign: char| !sign.is_alphabetic()).filter(|word| word.chars().count() >= 2).count()
}

#[test]
fn the_verdict_is_read_in_few_words() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    for (size, most) in [((60, 15), 150), ((80, 24), 150), ((120, 40), 250)] {
        session.send(Msg::Resize(size.0, size.1));
        let screen = drawn(&session.model);
        assert!(words(&screen) <= most, "{} words at {size:?}:\n{screen}", words(&screen));
    }
}

#[test]
fn keys_cost_far_fewer_bytes_than_drawn_cell_by_cell() {
    for size in SIZES {
        let mut session = beside_a_crash();
        session.paste(&torch_log());
        session.send(Msg::Resize(size.0, size.1));
        let mut screens = vec![super::view(&session.model).0];
        for key in
            [KeyCode::Tab, KeyCode::Down, KeyCode::Char('z'), KeyCode::Char('z'), KeyCode::Char('?'), KeyCode::Esc]
        {
            session.press(key);
            screens.push(super::view(&session.model).0);
        }
        let (own, plain) = (bytes_between(&screens, true), bytes_between(&screens, false));
        assert!(own * 10 <= plain * 7, "{own} of {plain} bytes at {size:?}");
    }
}

#[test]
fn going_to_another_region_redraws_no_frame() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session.send(Msg::Resize(200, 60));
    let before = super::view(&session.model).0;
    session.press(KeyCode::BackTab);
    let bytes = bytes_between(&[before, super::view(&session.model).0], true);
    assert!(bytes < 1200, "{bytes} bytes");
}

#[test]
fn the_smallest_screen_says_how_many_fixes_there_are_and_how_to_see_them() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session.send(Msg::Resize(SMALLEST.0, SMALLEST.1));
    let count = session.model.steps_ahead().len();
    let screen = drawn(&session.model);
    assert!(screen.contains(&format!("more of {count}: ↑↓")), "{screen}");
    assert!(screen.contains("▸ 1 ") && screen.contains("  2 "), "{screen}");
}

#[test]
fn whoever_looks_around_in_the_fixes_reads_whole_sentences_where_there_are_free_rows() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session.send(Msg::Resize(120, 40));
    let pane = |session: &Session| {
        let area = session.model.layout().detail;
        let cells = super::view(&session.model).0.painted();
        let row = |y| -> String { (area.left()..area.right()).map(|x| cells[(x, y)].symbol().to_owned()).collect() };
        (area, (area.top() + 1..area.bottom()).map(row).collect::<String>())
    };
    let (before, short) = pane(&session);
    assert!(short.contains(" …"), "{short}");
    session.press(KeyCode::Down);
    session.press(KeyCode::Up);
    let (after, whole) = pane(&session);
    assert!(!whole.contains(" …") && before == after, "{whole}");
}

#[test]
fn names_and_costs_have_the_room_that_is_free_at_120_columns() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session.send(Msg::Resize(120, 40));
    let screen = drawn(&session.model);
    for whole in ["Jupyter kernel sweep.ipynb ", "Restart Jupyter kernel sweep.ipynb (4242)", "none on recent"] {
        assert!(screen.contains(whole), "{whole}: {screen}");
    }
    let fixes = screen.lines().skip_while(|line| !line.contains("Fixes")).map(|line| line.split("││").next().unwrap());
    assert!(fixes.clone().skip(1).all(|line| !line.contains('…')), "{screen}");
    assert!(fixes.clone().any(|line| line.trim_matches(['│', ' ']) == "GPUs"), "the cost goes on below: {screen}");
}

#[test]
fn what_a_logger_writes_before_the_message_is_scrolled_out_of_view_where_there_is_little_room() {
    let mut session = beside_a_crash();
    let message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 14.00 GiB.";
    session.paste(&format!("(EngineCore pid=4242) ERROR 11-20 10:00:00 [core.py:708] {message} GPU 0 has a total capacity of 24.00 GiB of which 6.10 GiB is free."));
    session.send(Msg::Resize(80, 24));
    let screen = drawn(&session.model);
    assert!(screen.contains("▶1 …torch.OutOfMemoryError"), "{screen}");
    session.keys("L");
    let screen = drawn(&session.model);
    assert!(screen.contains("…torch.OutOfMemoryError") && !screen.contains("EngineCore"), "{screen}");
    session.keys("/Engine");
    session.press(KeyCode::Enter);
    assert!(drawn(&session.model).contains("(EngineCore pid=4242)"), "what is searched for is shown");
}

#[test]
fn eight_gpus_are_on_one_small_page_with_the_fix_and_its_command() {
    let mut session = Session::new();
    for second in 0..=12 {
        let mut devices: Vec<_> = (0..8).map(|index| device(index, vec![])).collect();
        devices[0] = device(0, rows());
        session.send(Msg::Sample(Box::new(Snapshot { devices, ..snapshot(second) })));
    }
    session.paste(&torch_log());
    session.send(Msg::Resize(80, 24));
    let screen = drawn(&session.model);
    let bars = screen.lines().filter(|line| line.matches('▕').count() == 2).count();
    assert!(bars == 4 && screen.contains("▸ 1 ") && screen.contains("CUDA_VISIBLE_DEVICES="), "{screen}");
    assert!(screen.contains("▸0 ▕"), "the GPU of the failure is marked: {screen}");
}

#[test]
fn the_selected_fix_is_in_view_below_a_proof_and_beside_many_processes() {
    let mut session = Session::new();
    let many = |first: u32| -> Vec<GpuProcess> {
        let others = (0..40).map(|at| process(6000 + at, Bytes::mib(20)));
        rows().into_iter().filter(|row| row.pid != first).chain(others).collect()
    };
    for second in 0..=12 {
        session.send(Msg::Sample(Box::new(two_cards(second, many(0)))));
    }
    session.paste(&torch_log());
    session.send(Msg::Resize(80, 24));
    session.keys("x");
    session.read();
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(Duration::from_millis(4))));
    session.send(Msg::Sample(Box::new(two_cards(13, many(4242)))));
    let screen = drawn(&session.model);
    let step = session.model.current_step().unwrap().title.chars().take(20).collect::<String>();
    assert!(screen.contains("has exited: freed") && screen.contains(&step), "{screen}");
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
    session.keys("x");
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
    session.send(Msg::Sample(Box::new(two_cards(13, rows()))));
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
        let (columns, lines) = SMALLEST;
        session.send(Msg::Resize(columns, lines));
        session.read();
        let text = drawn(&session.model);
        assert!(text.contains("POST ") && text.contains("[y] ask it"), "{label}\n{text}");
    }
}

#[test]
fn a_second_paste_can_be_answered_on_any_screen() {
    for (columns, lines) in [SMALLEST, (80, 24), (81, 24), (200, 60)] {
        let mut session = Session::with_log();
        session.send(Msg::Resize(columns, lines));
        session.paste(&torch_log().replace("14.00 GiB", "9.00 GiB"));
        session.read();
        let text = drawn(&session.model);
        for answer in ["[e] failed again", "[r] replace the log", "[a] append", "[Esc] keep the log"] {
            assert!(text.contains(answer), "{columns}x{lines}: {answer}\n{text}");
        }
        session.keys("r");
        assert!(session.model.question.is_none(), "{columns}x{lines}");
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
    assert_screens("supervised-question", &mut session, &[SMALLEST, SIZES[0]]);
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(Duration::from_millis(4))));
    session.send(Msg::Sample(Box::new(two_cards(13, vec![of_systemd(5180)]))));
    assert_screens("started-again", &mut session, &SIZES[..2]);
}

#[test]
fn the_run_started_again_is_told_from_who_stood_in_its_way() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    let mut next = process(9120, Bytes::mib(14_700));
    (next.recognised_as, next.started_at) =
        (Some("python train.py".into()), Reading::Known(crate::gpu::testing::noon_plus(30)));
    next.command = Reading::Known("/opt/env/bin/python train.py --batch 8".into());
    session.send(Msg::Sample(Box::new(two_cards(40, vec![next]))));
    assert_screens("on-its-way", &mut session, &SIZES[..2]);
}

#[test]
fn the_caution_and_the_answers_are_seen_on_the_smallest_screen() {
    let (columns, lines) = SMALLEST;
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
            for pid in 4242..4242 + count {
                session.select(pid);
                session.press(KeyCode::Char(' '));
            }
            session.keys("x");
            session.read();
            let text = drawn(&session.model);
            assert!(text.contains(if count == 1 { caution } else { "Some may be restarted" }), "{text}");
            assert!(text.contains("[y] terminate") && text.contains("Demo: nothing"), "{text}");
        }
    }
}

#[test]
fn a_group_that_a_supervisor_runs_is_named_with_the_caution_on_the_smallest_screen() {
    let (columns, lines) = SMALLEST;
    let mut session = Session::new();
    session.model.config.source = Source::Demo;
    let managed = |row: GpuProcess| GpuProcess { managed_by: Some("service:a-long-named-vllm.service".into()), ..row };
    let engine = |pid: u32| managed(works_for(4100, pid, 9, "vLLM worker", "VLLM::Worker"));
    let front = works_for(4100, 4100, 0, "vLLM server (m)", "python vllm serve m");
    let front = managed(GpuProcess { parent_pid: Reading::Known(1), ..unlisted(front, Reading::Known(Bytes::ZERO)) });
    let machine = Snapshot { launchers: vec![front], ..two_cards(0, vec![engine(4101), engine(4102), engine(4103)]) };
    session.send(Msg::Sample(Box::new(machine)));
    session.send(Msg::Resize(columns, lines));
    session.select(4100);
    session.keys("x");
    session.read();
    let text = drawn(&session.model);
    for part in ["4100", "4101", "4102", "4103", "may start it", "[y] terminate all", "Demo: nothing"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn one_that_could_not_be_ended() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session.keys("xy");
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
fn a_failed_log_that_was_found_is_offered_first_with_its_key() {
    use crate::knowledge::diagnosis::Oom;
    use crate::source::{Kind, Looked, Source as Place};
    let mut session = beside_a_crash();
    let place = Looked::unread(Place::new(Kind::Tmux, "%3", "tmux pane main:0.1"));
    let failure = Some("PyTorch: VRAM ran out".to_owned());
    session.send(Msg::Found(vec![], Ok(vec![Looked { oom: Some(Oom::Yes), failure, ..place }])));
    for (columns, rows) in [(60, 15), (80, 24), (200, 60)] {
        session.send(Msg::Resize(columns, rows));
        let screen = drawn(&session.model);
        let offer = screen.lines().nth(1).unwrap();
        assert!(offer.contains("[F]") && offer.contains("tmux pane main:0.1"), "{screen}");
        assert!(screen.lines().nth(2).unwrap().contains("PyTorch"), "{screen}");
    }
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
    assert!(text.contains(" ?   0      77") && !text.contains("0.0  "), "{text}");
}

#[test]
fn without_unicode_or_colour_the_same_is_said_in_ascii() {
    let mut session = beside_a_crash();
    session.model.config = Config { unicode: false, palette: Palette::None, ..session.model.config.clone() };
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

/// A command that lost a character where its line ends reads as another one.
#[test]
fn a_command_is_whole_on_every_width() {
    let log = "$ llama-server -m /models/Llama-3.1-8B-Instruct-Q4_K_M.gguf -c 131072 --host 0.0.0.0 --port 8080 -np 4\n\
        ggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: cudaMalloc failed: out of memory\n\
        llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache";
    let mut session = beside_a_crash();
    session.paste(log);
    session.model.focus = Region::Steps;
    session.press(KeyCode::Char('z'));
    let bare = |text: &str| text.replace(|c: char| c.is_whitespace() || !c.is_ascii(), "");
    let mut seen = 0;
    for columns in 60..=120 {
        session.send(Msg::Resize(columns, 60));
        let text = bare(&drawn(&session.model));
        for command in session.model.current_step().into_iter().flat_map(|step| &step.steps) {
            let Some(command) = &command.command else { continue };
            assert!(command.lines().all(|line| text.contains(&bare(line))), "{columns}: {command}\n{text}");
            seen += usize::from(command.len() > usize::from(columns));
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn holders_that_are_enough_only_together_are_said_to_be() {
    let mut session = Session::new();
    session.sample(vec![process(4242, Bytes::gib(9)), process(5177, Bytes::gib(8))]);
    session.paste(
        &torch_log().replace("11.23 GiB", "9.00 GiB").replace("has 6.00 GiB", "has 8.00 GiB").replace("14.00", "20.00"),
    );
    let text = drawn(&session.model);
    assert!(text.contains("1–2 together: 17.0 GiB"), "{text}");
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

/// One that works for another, in that one's group.
fn works_for(leader: u32, pid: u32, gib: u64, what: &str, command: &str) -> GpuProcess {
    let mut row = process(pid, Bytes::gib(gib));
    (row.recognised_as, row.command) = (Some(what.into()), Reading::Known(command.into()));
    (row.parent_pid, row.group) = (Reading::Known(leader), Some(key_of(leader)));
    row
}

/// As the driver does not list it.
fn unlisted(row: GpuProcess, used_bytes: Reading<Bytes>) -> GpuProcess {
    GpuProcess { kind: ProcessKind::Unlisted, used_bytes, ..row }
}

/// torchrun with two ranks on each of two cards, each with a DataLoader's worker; beside them a notebook.
fn torchrun(second: i64) -> Snapshot {
    let rank = |pid: u32| works_for(4100, pid, 9, "python train.py", "python -u train.py --epochs 3");
    let launcher = works_for(
        4100,
        4100,
        0,
        "torchrun launcher (train.py)",
        "python /env/bin/torchrun --nproc-per-node 4 train.py",
    );
    let launcher = GpuProcess { parent_pid: Reading::Known(900), ..unlisted(launcher, Reading::Known(Bytes::ZERO)) };
    let helper = |rank: u32, pid: u32| {
        let row = works_for(rank, pid, 0, "DataLoader worker of train.py", "python -u train.py --epochs 3");
        let process = GpuProcess { group: Some(key_of(4100)), ..unlisted(row, Reading::NotAvailable) };
        Holder { process, devices: vec!["/dev/nvidia0".into()], gpus: vec![0] }
    };
    Snapshot {
        devices: vec![
            device(0, vec![rank(4101), rank(4102), process(5177, Bytes::gib(3))]),
            device(1, vec![rank(4103), rank(4104)]),
        ],
        launchers: vec![launcher],
        holders: vec![helper(4101, 4111), helper(4102, 4112), helper(4103, 4113), helper(4104, 4114)],
        ..snapshot(second)
    }
}

#[test]
fn a_launcher_with_its_workers_the_question_and_what_became_of_them() {
    let mut session = Session::new();
    for second in 0..=12 {
        session.send(Msg::Sample(Box::new(torchrun(second))));
    }
    assert_screens("group", &mut session, &[SIZES[0], SIZES[2]]);
    session.select(4100);
    session.keys("x");
    assert_screens("group-question", &mut session, &[SIZES[0], SIZES[2]]);
    session.keys("y");
    session.send(Msg::Signal(key_of(4100), SignalReport::Sent));
    assert_screens("group-ending", &mut session, &[SIZES[0]]);
    for pid in [4100, 4101, 4102, 4103, 4104, 4111, 4112, 4113, 4114] {
        session.send(Msg::Signal(key_of(pid), SignalReport::Ended(Duration::from_millis(400))));
    }
    let rest =
        Snapshot { devices: vec![device(0, vec![process(5177, Bytes::gib(3))]), device(1, vec![])], ..snapshot(13) };
    session.send(Msg::Sample(Box::new(rest)));
    assert_screens("group-proof", &mut session, &[SIZES[0], SIZES[2]]);
}

/// Memory that nobody lists, and who has the driver open: an orphaned worker, a stopped job, a zombie's thread.
fn unlisted_holders(second: i64) -> Snapshot {
    let of = |pid: u32, what: &str, state: char| {
        let mut row = unlisted(process(pid, Bytes::ZERO), Reading::NotAvailable);
        (row.recognised_as, row.state) = (Some(what.into()), Reading::Known(state));
        row.command = Reading::Known("python train.py".into());
        Holder { process: row, devices: vec!["/dev/nvidia0".into()], gpus: vec![0] }
    };
    let mut orphan = of(6101, "DataLoader worker of train.py", 'S');
    orphan.process.parent_pid = Reading::Known(1);
    let mut card = device(0, vec![process(5177, Bytes::gib(6))]);
    card.memory.used_bytes = Reading::Known(Bytes::gib(17));
    card.memory.free_bytes = Reading::Known(Bytes::mib(6758));
    card.unaccounted_bytes = Reading::Known(Bytes::gib(11));
    Snapshot {
        devices: vec![card],
        holders: vec![orphan, of(6102, "python sweep.py", 'T'), of(6103, "python eval.py", 'Z')],
        unseen_processes: 7,
        ..snapshot(second)
    }
}

#[test]
fn who_holds_memory_without_being_listed() {
    let mut session = Session::new();
    for second in 0..=3 {
        session.send(Msg::Sample(Box::new(unlisted_holders(second))));
    }
    session.press(KeyCode::Down);
    assert_screens("unlisted", &mut session, &[SIZES[0], SIZES[2]]);
    session.select(6101);
    session.keys("x");
    assert_screens("unlisted-question", &mut session, &[SIZES[0]]);
}

fn odd(name: &str, machine: Snapshot) {
    let mut session = Session::new();
    session.send(Msg::Sample(Box::new(machine)));
    assert_screens(name, &mut session, &[SIZES[0], SIZES[2]]);
}

#[test]
fn a_card_that_is_split_into_instances() {
    let mut whole = device(0, vec![]);
    (whole.name, whole.nature) = (Reading::Known("NVIDIA A100-SXM4-40GB".into()), Some(Nature::Split));
    whole.memory = crate::gpu::DeviceMemory {
        total_bytes: Reading::Denied,
        reserved_bytes: Reading::Denied,
        used_bytes: Reading::Denied,
        free_bytes: Reading::Denied,
    };
    whole.unaccounted_bytes = Reading::Unsupported;
    let instance = |index: u32, rows: Vec<GpuProcess>| {
        let mut part = device(index, rows);
        (part.name, part.nature) =
            (Reading::Known("NVIDIA A100-SXM4-40GB MIG 3g.20gb".into()), Some(Nature::MigInstance));
        part
    };
    odd("mig", Snapshot { devices: vec![whole, instance(1, vec![kernel()]), instance(2, vec![])], ..snapshot(0) });
}

#[test]
fn inside_windows() {
    let mut nameless = kernel();
    nameless.used_bytes = Reading::NotAvailable;
    let mut card = device(0, vec![nameless]);
    card.memory.used_bytes = Reading::Known(Bytes::gib(9));
    card.memory.free_bytes = Reading::Known(Bytes::gib(15));
    card.unaccounted_bytes = Reading::Known(Bytes::gib(9));
    card.unaccounted_includes_unknown_rows = true;
    odd("wsl", Snapshot { devices: vec![card], seen_from: vec![Vantage::Wsl], ..snapshot(0) });
}

#[test]
fn a_board_that_shares_the_machines_memory() {
    let now = snapshot(0);
    let mut board = device(0, vec![kernel()]);
    board.name = Reading::Known("NVIDIA GB10".into());
    board.memory.total_bytes = Reading::Unsupported;
    board.memory = crate::gpu::sight::shared_memory(&board, &now.host).unwrap();
    (board.nature, board.unaccounted_bytes) = (Some(Nature::SharedMemory), Reading::Unsupported);
    odd("shared-memory", Snapshot { devices: vec![board], ..now });
}

#[test]
fn inside_a_container() {
    let mut outside = process(812_345, Bytes::gib(11));
    (outside.proved, outside.start_ticks) = (false, Reading::NotAvailable);
    (outside.user, outside.command) = (Reading::NotAvailable, Reading::NotAvailable);
    (outside.started_at, outside.state) = (Reading::NotAvailable, Reading::NotAvailable);
    let mut card = device(0, vec![outside, process(77, Bytes::gib(2))]);
    card.unaccounted_bytes = Reading::Known(Bytes::gib(3));
    card.memory.used_bytes = Reading::Known(Bytes::gib(16));
    card.memory.free_bytes = Reading::Known(Bytes::mib(7782));
    odd("container", Snapshot { devices: vec![card], seen_from: vec![Vantage::Container], ..snapshot(0) });
}

#[test]
fn a_card_that_sleeps_and_who_still_has_a_driver_open_that_does_not_answer() {
    let asleep = "the GPU sleeps to save power, so nobody holds memory on it";
    let holders = unlisted_holders(0).holders;
    for (why, holders) in
        [(asleep, vec![]), ("the driver's library and the loaded kernel module are of different versions", holders)]
    {
        let driver = Driver::Unavailable { unavailable: why.into() };
        let mut session = Session::new();
        let many = holders.len();
        session.send(Msg::Sample(Box::new(Snapshot { driver, devices: vec![], holders, ..snapshot(0) })));
        session.send(Msg::Resize(200, 60));
        let text = drawn(&session.model);
        assert!(
            text.contains(why.split(',').next().unwrap().trim_start_matches("the "))
                && text.contains("6102") == (many > 0),
            "{text}"
        );
    }
}

#[test]
fn memory_that_stays_after_an_end_is_said_with_who_may_map_it() {
    let neighbour = || {
        let mut row = process(4300, Bytes::gib(2));
        row.recognised_as = Some("python eval.py".into());
        row
    };
    let foreign = || GpuProcess { user: Reading::Known("bob".into()), ..process(4400, Bytes::gib(2)) };
    for (others, said) in [
        (vec![neighbour(), foreign()], "may map the same memory (CUDA IPC): python eval.py (4300)."),
        (vec![foreign()], "or a reboot frees it"),
    ] {
        let mut session = Session::new();
        session.send(Msg::Sample(Box::new(two_cards(0, [vec![kernel()], others.clone()].concat()))));
        session.select(4242);
        session.keys("x");
        session.keys("y");
        session.send(Msg::Signal(key_of(4242), SignalReport::Ended(Duration::from_millis(4))));
        for second in [1, 12] {
            session.wait(Duration::from_secs(11));
            let mut after = two_cards(second, others.clone());
            let held = held();
            let memory = &mut after.devices[0].memory;
            memory.free_bytes = memory.free_bytes.clone().map(|free| free.less(held));
            session.send(Msg::Sample(Box::new(after)));
        }
        session.send(Msg::Resize(400, 60));
        let text = drawn(&session.model);
        assert!(text.contains("has exited, but only 0 bytes of its 11.2 GiB was freed"), "{text}");
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn the_multi_process_service_and_its_clients_are_shown_as_what_they_are() {
    let mut server = process(700, Bytes::mib(300));
    (server.recognised_as, server.command) =
        (Some("CUDA MPS nvidia-cuda-mps-server".into()), Reading::Known("nvidia-cuda-mps-server".into()));
    let client = GpuProcess { kind: ProcessKind::Mps, ..process(701, Bytes::gib(3)) };
    let mut session = Session::new();
    session.send(Msg::Sample(Box::new(two_cards(0, vec![client, server]))));
    session.send(Msg::Resize(200, 60));
    let text = drawn(&session.model);
    assert!(text.contains("CUDA MPS nvidia-cuda-mps-server  (serves MPS clients)"), "{text}");
    assert!(text.contains("python train.py  (MPS client)"), "{text}");
    session.select(700);
    session.keys("x");
    let text = drawn(&session.model);
    assert!(session.model.question.is_none() && text.contains("its clients end with it"), "{text}");
}

#[test]
fn everything_that_can_be_done_is_listed_and_found() {
    let mut session = beside_a_crash();
    session.paste(&torch_log());
    session.press(KeyCode::Char(':'));
    assert_screens("actions", &mut session, &SIZES[..2]);
    session.keys("fit");
    let text = drawn(&session.model);
    assert!(text.contains("f           fit") && !text.contains("pause"), "{text}");
}

#[test]
fn the_keys_that_the_person_gave_are_the_ones_that_are_shown() {
    let mut session = beside_a_crash();
    let own = [("F9", "end"), ("x", "zoom"), ("F5", "skip")].map(|(key, name)| (key.to_owned(), name.to_owned()));
    session.model.config.keys = std::sync::Arc::new(crate::app::keymap::Keymap::with(&own).unwrap());
    session.paste(&torch_log());
    session.send(Msg::Resize(200, 60));
    let text = drawn(&session.model);
    assert!(text.contains("[F9] terminate…") && text.contains("[F5] skip") && !text.contains("[x]"), "{text}");
    session.press(KeyCode::F(9));
    assert!(drawn(&session.model).contains("[F9]"));
}

#[test]
fn whichever_of_many_processes_is_selected_can_be_seen() {
    let mut session = Session::new();
    let rows = (0..40).map(|at| process(5000 + at, Bytes::mib(400 - u64::from(at)))).collect();
    session.send(Msg::Sample(Box::new(two_cards(0, rows))));
    for at in 0..40 {
        session.press(KeyCode::Down);
        let pointed = format!("{}  you", 5000 + at);
        assert!(drawn(&session.model).contains(&pointed), "{pointed}:\n{}", drawn(&session.model));
    }
}

/// Every screen that this key leads to, pressed until nothing changes.
fn paged(session: &mut Session, code: KeyCode) -> String {
    let (mut seen, mut last) = (String::new(), String::new());
    loop {
        let now = drawn(&session.model);
        if now == last {
            return seen;
        }
        seen.push_str(&now);
        last = now;
        session.press(code);
    }
}

#[test]
fn all_that_is_laid_over_the_screen_can_be_read_on_a_small_one() {
    for size in [SMALLEST, (80, 24)] {
        let mut session = beside_a_crash();
        session.send(Msg::Resize(size.0, size.1));
        session.keys("?");
        assert!(drawn(&session.model).contains("[Esc] close"), "{}", drawn(&session.model));
        let help = paged(&mut session, KeyCode::PageDown);
        for binding in session.model.config.keys.all().iter().filter(|binding| !binding.words.is_empty()) {
            assert!(help.contains(binding.words), "{size:?}: {} is not to be read", binding.words);
        }
        assert!(help.contains("reserved by the driver"), "{help}");
        session.press(KeyCode::Home);
        assert!(drawn(&session.model).contains("copy command"), "and back");
        session.keys("?");
        assert!(session.model.overlay.is_none());
        session.keys("o");
        let symptoms = paged(&mut session, KeyCode::Down);
        assert!(
            SYMPTOMS.iter().all(|symptom| symptoms.contains(&symptom.seen.chars().take(20).collect::<String>())),
            "{symptoms}"
        );
        assert!(drawn(&session.model).contains("[Esc] close"), "{}", drawn(&session.model));
        session.press(KeyCode::Esc);
        let text: String =
            (0..40).map(|line| format!("line-{line}-of-what-was-to-be-copied  --and --so --on --and --on\n")).collect();
        session.send(Msg::Copied(Err(text)));
        let copied = paged(&mut session, KeyCode::PageDown);
        assert!(
            (0..40).all(|line| copied.contains(&format!("line-{line}-"))) && copied.contains("read on"),
            "{copied}"
        );
        session.press(KeyCode::Esc);
        session.paste(&torch_log());
        session.keys("i");
        let page = drawn(&session.model);
        assert!(
            ["[↑↓ PgDn] read on", "[Enter] show in log", "[Esc] close"].iter().all(|key| page.contains(key)),
            "{page}"
        );
    }
}
