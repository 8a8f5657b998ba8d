//! The command line from outside: its output as JSON and text, its exit codes, and which processes `kill` signals or
//! refuses.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use oomdoctor::platform::linux::procfs::Procfs;
use serde_json::{Value, json};

use crate::support::ends_within;
use crate::support::fake_driver::{FakeDriver, GIB, PATIENCE, Sleeper, device, homes};
use crate::support::machine::{Machine, torch_log};
use crate::support::pty::Session;
use crate::support::schema::assert_output_valid;

/// Runs the shipped program without a driver and with empty standard input.
const TORCH: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 4.10 GiB is free.\n";

fn oomdoctor(arguments: &[&str]) -> Output {
    run(arguments, b"")
}

/// Runs the shipped program without a driver and with `input` on its standard input.
fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    command.args(arguments).args(["--nvml-library", "/nonexistent/libnvidia-ml.so.1"]).write_stdin(input).envs(homes());
    // `kb check` judges every entry: a debug build on a busy machine takes a minute for it.
    let output = command.timeout(4 * PATIENCE).output().unwrap();
    assert_output_valid(arguments, &output);
    output
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{}\n{}", output.status, all(output)))
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn all(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", all(output)))
}

/// Wrong usage or unreadable input gives exit code 2, nothing on standard output, and one line that says what to do.
#[track_caller]
fn assert_refused(output: &Output, parts: &[&str]) {
    let said = stderr(output);
    assert_eq!(code(output), 2, "{}", all(output));
    assert!(output.stdout.is_empty(), "{}", all(output));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(parts.iter().all(|part| said.contains(part)), "{parts:?}: {said}");
}

#[test]
fn no_name_of_a_file_and_no_line_of_one_controls_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let steering = "a\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31mb\u{202e}c";
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (hosts, log, entries) = (path("hosts"), path("log"), path("entries"));
    fs::write(&hosts, format!("gpu1\n{steering}\n")).unwrap();
    fs::write(&log, TORCH).unwrap();
    fs::write(path(steering), "(").unwrap();
    fs::create_dir_all(path("entries") + "/" + steering).unwrap();
    fs::write(format!("{entries}/{steering}/y.ron"), "(").unwrap();
    let steering = path(steering);
    for arguments in [
        &["ps", "--hosts-file", &hosts][..],
        &["diagnose", "--no-live", "--knowledge", &steering, &log],
        &["diagnose", "--no-live", "--knowledge", &entries, &log],
        &["report", "--no-live", "--output", &steering, &log],
        &["kb", "check", &entries],
    ] {
        let output = oomdoctor(arguments);
        let said = all(&output);
        assert_ne!(code(&output), 0, "{said}");
        let found = said.chars().find(|c| *c != '\n' && oomdoctor::text::is_harmful(*c));
        assert!(found.is_none(), "{arguments:?}: {found:?} in {said:?}");
    }
}

// ---- diagnose

#[test]
fn a_diagnosis_of_the_log_alone_has_the_fields_of_the_contract() {
    let output = run(&["diagnose", "--json", "--no-live"], torch_log(4242, "23.99").as_bytes());
    assert_eq!(code(&output), 0);
    let found = parsed(&output);
    assert_eq!(found["schema"], 1);
    for (field, value) in [
        ("oom", json!("yes")),
        ("memory", json!("gpu")),
        ("raised_by", json!("pytorch")),
        ("program", json!("pytorch")),
        ("live", Value::Null),
    ] {
        assert_eq!(found[field], value, "{field}");
    }
    assert!(["load", "startup", "inference", "training", "unknown"].iter().any(|phase| found["phase"] == *phase));
    let gib = |hundredths: u64| (hundredths << 30) / 100;
    let facts = &found["facts"];
    assert_eq!(facts["device"], 0);
    assert_eq!(facts["requested_bytes"], gib(900));
    assert_eq!(facts["total_bytes"].as_u64().unwrap() / 1000, gib(2399) / 1000);
    assert_eq!(facts["process_bytes"], 314_u64 << 20);
    assert_eq!(facts["allocated_bytes"], 200_u64 << 20);
    assert_eq!(facts["other_processes"][0]["pid"], 4242);
    assert_eq!(facts["other_processes"][0]["bytes"].as_u64().unwrap() / 1000, gib(1123) / 1000);
    let matched = &found["matches"][0];
    assert_eq!((&matched["entry"], &matched["line"]), (&json!("pytorch/cuda-out-of-memory"), &json!(6)));
    assert!(matched["certainty"].is_string() && matched["text"].as_str().unwrap().contains("CUDA out of memory"));
    assert!(found["verdict"]["sentence"].as_str().unwrap().contains("4242"));
    assert_eq!(found["verdict"]["same_machine"], Value::Null);
    let cause = &found["verdict"]["causes"][0];
    assert!(cause["cause"].is_string() && cause["weight"].is_f64() && cause["evidence"].is_array());
    assert_eq!(found["ledger"]["needed_is_at_least"], true);
    assert_eq!(found["ledger"]["needed_bytes"], gib(900) + (314 << 20));
    for planned in found["plan"].as_array().unwrap() {
        let safe = ["safe", "loses-work", "costs-quality", "costs-speed"].iter().any(|word| planned["safety"] == *word);
        assert!(safe && planned["fix"].is_string() && planned["title"].is_string(), "{planned}");
        assert!(planned["may_be_enough"].is_boolean() && planned.get("frees_bytes").is_some(), "{planned}");
        let step = &planned["steps"][0];
        for field in ["do", "why", "expect", "if_not"] {
            assert!(step[field].is_string(), "{field}: {planned}");
        }
        assert!(step.get("command").is_some());
    }
}

#[test]
fn a_fix_that_was_tried_in_vain_is_not_offered_again() {
    let diagnosed = |tried: &[&str]| -> Vec<String> {
        let output = run(&[&["diagnose", "--no-live", "--json"], tried].concat(), TORCH.as_bytes());
        let plan = parsed(&output)["plan"].as_array().unwrap().clone();
        plan.iter().map(|step| step["fix"].as_str().unwrap().to_owned()).collect()
    };
    let first = diagnosed(&[]);
    let tried = first.iter().find(|fix| *fix != "run-again" && *fix != "look-there").unwrap();
    let second = diagnosed(&["--tried", tried]);
    assert!(!second.contains(tried) && !second.is_empty(), "{tried}: {second:?}");
    assert_refused(&run(&["diagnose", "--no-live", "--tried", "smaller-bach"], TORCH.as_bytes()), &["smaller-batch"]);
}

#[test]
fn a_log_of_a_run_that_worked_tells_what_has_changed_since() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.log");
    let good_path = good.to_str().unwrap();
    fs::write(&good, "pytorch version: 2.5.1\nvllm serve m --max-model-len 4096\nall is well\n").unwrap();
    let bad = format!("pytorch version: 2.6.0\nvllm serve m --max-model-len 32768\n{TORCH}");
    let output = run(&["diagnose", "--no-live", "--json", "--good", good_path], bad.as_bytes());
    let since = parsed(&output)["since_it_worked"].as_array().unwrap().clone();
    assert_eq!(since[0]["what"], "context", "{since:?}");
    assert_eq!((since[0]["before"].as_str(), since[0]["now"].as_str()), (Some("4096"), Some("32768")));
    assert_eq!(since[0]["explains"], true);
    assert!(since.iter().any(|one| one["what"] == "torch" && one["explains"] == false), "{since:?}");
    fs::write(&good, TORCH).unwrap();
    assert_refused(&run(&["diagnose", "--no-live", "--good", good_path], bad.as_bytes()), &["--good", "too"]);
}

#[test]
fn the_exit_code_is_0_for_yes_and_maybe_and_1_for_no() {
    for (log, oom, expected) in [
        (torch_log(1, "23.99").as_str(), "yes", 0),
        ("python train.py\nKilled\n", "maybe", 0),
        ("step 1 loss 2.0\nall is well\n", "no", 1),
    ] {
        let output = run(&["diagnose", "--json", "--no-live"], log.as_bytes());
        assert_eq!((code(&output), &parsed(&output)["oom"]), (expected, &json!(oom)), "{log}");
        assert_eq!(parsed(&output).get("verdict").is_some(), oom != "no");
        let text = run(&["diagnose", "--no-live"], log.as_bytes());
        assert_eq!(code(&text), expected);
        assert!(!text.stdout.is_empty() && text.stderr.is_empty(), "{}", all(&text));
    }
}

#[test]
fn a_log_is_read_from_a_file_a_dash_or_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crash.log");
    fs::write(&path, torch_log(4242, "23.99")).unwrap();
    let from_file = oomdoctor(&["diagnose", path.to_str().unwrap(), "--json", "--no-live"]);
    for arguments in [&["diagnose", "-", "--json", "--no-live"][..], &["diagnose", "--json", "--no-live"]] {
        let output = run(arguments, torch_log(4242, "23.99").as_bytes());
        assert_eq!(parsed(&output), parsed(&from_file));
    }
}

#[test]
fn binary_data_that_never_ends_is_refused_at_once() {
    let (reader, writer) = std::io::pipe().unwrap();
    // Writes zeros as `cat /dev/zero |` does, until the reader closes the pipe.
    let endless = thread::spawn(move || std::io::copy(&mut std::io::repeat(0), &mut &writer));
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    command.args(["diagnose", "--no-live"]).stdin(reader).envs(homes());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    if !ends_within(child.id(), PATIENCE) {
        child.kill().unwrap();
    }
    assert_refused(&child.wait_with_output().unwrap(), &["binary data", "give the text"]);
    endless.join().unwrap().unwrap_err();
}

#[test]
fn waiting_for_a_pipe_is_announced_and_can_be_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    let arguments = ["diagnose", "--no-live", path.to_str().unwrap()];
    let mut session = Session::program((100, 60), Path::new(env!("CARGO_BIN_EXE_oomdoctor")), &arguments);
    session.wait_for_text(&["waiting for the program that writes the log to exit", "Ctrl-C quits"]);
    session.send("\x03");
    session.wait_for_exit(PATIENCE);
    let session = Session::program((100, 60), Path::new(env!("CARGO_BIN_EXE_oomdoctor")), &arguments);
    fs::write(&path, torch_log(4242, "23.99")).unwrap();
    session.wait_for_text(&["Another process used the VRAM"]);
}

#[test]
fn input_that_is_no_log_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.bin");
    fs::write(&path, [b"\x7fELF\x02\x01\x01\0".as_slice(), &[1, 2, 255, 254].repeat(5000)].concat()).unwrap();
    assert_refused(&oomdoctor(&["diagnose", path.to_str().unwrap()]), &["binary"]);
    assert_refused(&oomdoctor(&["diagnose", "/dev/null"]), &["device"]);
    assert_refused(&run(&["diagnose"], b" \n\n"), &["empty"]);
    assert_refused(&oomdoctor(&["diagnose", "/nonexistent.log"]), &["/nonexistent.log"]);
    assert_refused(&oomdoctor(&["diagnose", "/tmp"]), &["/tmp"]);
    assert_refused(&oomdoctor(&["/nonexistent.log"]), &["/nonexistent.log"]);
    assert_eq!(code(&oomdoctor(&["diagnose", "--no-such-option"])), 2);
    assert_eq!(code(&oomdoctor(&["diagnose", "--interval", "-1"])), 2);
    // An incomplete UTF-8 character at the end does not make a log unreadable.
    let output = run(&["diagnose", "--no-live"], &[torch_log(4242, "23.99").as_bytes(), b"50%|\xe2\x96"].concat());
    assert_eq!(code(&output), 0);
}

#[test]
fn a_diagnosis_on_the_machine_finds_the_named_process_and_offers_to_terminate_it() {
    let machine = Machine::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crash.log");
    fs::write(&path, machine.log()).unwrap();
    let found = parsed(&machine.driver.output(&["diagnose", path.to_str().unwrap(), "--json"]));
    let pid = machine.logged.pid();
    assert_eq!(found["verdict"]["same_machine"], true);
    assert_eq!(found["verdict"]["causes"][0]["cause"], "other-process");
    assert!(found["verdict"]["sentence"].as_str().unwrap().contains(&pid.to_string()));
    // A single reading cannot show that a process is idle: the step says so.
    let first = &found["plan"][0];
    assert!(first["steps"][0]["do"].as_str().is_some_and(|action| action.contains("idle")), "{first}");
    let key = Procfs::default().stat(pid).unwrap().key();
    assert_eq!((&first["fix"], &first["frees_is"]), (&json!("end-holder"), &json!("fact")));
    assert_eq!(first["frees_bytes"], 11470_u64 << 20);
    assert_eq!(first["may_be_enough"], true);
    assert!(first["steps"][0]["command"].as_str().unwrap().contains(&format!("{pid}@{}", key.start_ticks)));
    let ledger = &found["ledger"];
    assert_eq!((&ledger["device"], &ledger["capacity_bytes"]), (&json!(0), &json!(24576_u64 << 20)));
    let held = ledger["held_by"].as_array().unwrap();
    let sum: u64 = held.iter().map(|held| held["bytes"].as_u64().unwrap()).sum();
    assert_eq!(sum + ledger["available_bytes"].as_u64().unwrap(), 24576 << 20, "the parts add up: {ledger}");
    assert!(held.iter().any(|held| held["pid"] == pid && held["bytes"] == 11470_u64 << 20));
    assert_eq!(found["live"]["devices"].as_array().unwrap().len(), 2);
    let text = stdout(&machine.driver.output(&["diagnose", path.to_str().unwrap()]));
    assert!(text.contains(&format!("oomdoctor kill {pid}@{}", key.start_ticks)), "{text}");
}

#[test]
fn a_diagnosis_beside_a_hung_driver_ends_within_its_deadline() {
    let machine = Machine::new();
    machine.set_faults("(call: \"*\", hang: true)");
    let mut command = machine.driver.oomdoctor(&["diagnose"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(machine.log().as_bytes()).unwrap();
    let output = finished(child, Duration::from_secs(30));
    assert_eq!(code(&output), 0);
    assert!(stdout(&output).contains("driver does not answer"), "{}", stdout(&output));
}

/// The child's output; fails if the child does not exit in time.
fn finished(child: Child, patience: Duration) -> Output {
    assert!(ends_within(child.id(), patience), "it still runs");
    child.wait_with_output().unwrap()
}

#[test]
fn no_escape_sequence_of_a_process_or_a_log_reaches_the_terminal() {
    let evil = "\x1b]0;pwned\x07\x1b[2J\u{202e}";
    let machine = Machine::with_logged(Sleeper::named(format!("ev{evil}il")));
    let log = format!("{evil}\n{}{evil}", machine.log().replace("CUDA out", &format!("\x1b[31mCUDA{evil} out")));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crash.log");
    fs::write(&path, &log).unwrap();
    let path = path.to_str().unwrap();
    for arguments in [&["ps"][..], &["diagnose", path], &["kill", &machine.pids()[0]]] {
        let said = all(&machine.driver.output(arguments));
        assert!(said.contains("ev·") || said.contains("evil"), "{said}");
        assert!(!said.contains(['\x1b', '\x07', '\u{202e}']), "{arguments:?}: {said:?}");
    }
}

/// A hook inside the failed process asks this way. The run used the second of two equal GPUs, which its log calls GPU
/// 0.
#[test]
fn the_vram_of_a_failed_run_that_is_still_alive_counts_as_free() {
    let (run, other) = (Sleeper::start(), Sleeper::start());
    let row = |sleeper: &Sleeper, mib: u64| format!("(gpu: 1, pid: {}, bytes: Some({}))", sleeper.pid(), mib << 20);
    let card = format!("(name: \"NVIDIA GeForce RTX 4090\", total: {})", 24576_u64 << 20);
    let rows = [row(&run, 11_264), row(&other, 4096)].join(", ");
    let driver = FakeDriver::new(&format!("(gpus: [{card}, {card}], processes: [{rows}])"));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("crash.log");
    let text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 13.00 GiB. GPU 0 has a total capacity of 23.99 GiB \
                of which 8.99 GiB is free. Including non-PyTorch memory, this process has 11.00 GiB memory in use. Of the \
                allocated memory 10.00 GiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.\n";
    fs::write(&log, text).unwrap();
    let asked = |more: &[&str]| {
        let output = driver.output(&[&["diagnose", "--json", log.to_str().unwrap()], more].concat());
        assert_eq!(code(&output), 0, "{}", all(&output));
        parsed(&output)
    };
    let pid = run.pid().to_string();
    let found = asked(&["--run-pid", &pid]);
    let ledger = &found["ledger"];
    assert_eq!(ledger["device"], 1, "{ledger}");
    assert_eq!(ledger["available_bytes"], 20 * GIB, "{ledger}");
    let listed = |found: &Value| found["ledger"].to_string().contains(&format!("\"pid\":{pid}"));
    assert!(!listed(&found), "{ledger}");
    // Without the PID neither the GPU nor the run's process is known.
    assert_eq!(asked(&[])["ledger"]["device"], Value::Null);
}

// ---- ps

#[test]
fn ps_prints_the_names_that_kill_takes() {
    let machine = Machine::new();
    let output = machine.driver.output(&["ps"]);
    assert_eq!(code(&output), 0);
    let text = stdout(&output);
    for (sleeper, held) in [(&machine.logged, "11.2 GiB"), (&machine.second, "6.0 GiB"), (&machine.third, "2.0 GiB")] {
        let key = Procfs::default().stat(sleeper.pid()).unwrap().key();
        let name = format!("{}@{}", sleeper.pid(), key.start_ticks);
        let line =
            text.lines().find(|line| line.contains(&format!(" {name} "))).unwrap_or_else(|| panic!("{name}\n{text}"));
        assert!(line.contains(held) && line.contains("sleep 1000"), "{line}");
    }
}

#[test]
fn ps_as_json_has_the_fields_of_the_contract() {
    let machine = Machine::new();
    let output = machine.driver.output(&["ps", "--json"]);
    assert_eq!(code(&output), 0);
    let reading = parsed(&output);
    assert!(reading["taken_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(reading["driver"]["version"], "570.124.06");
    let (first, second) = (&reading["devices"][0], &reading["devices"][1]);
    assert_eq!((&first["index"], &second["index"]), (&json!(0), &json!(1)));
    assert_eq!(first["memory"]["free_bytes"], 6362_u64 << 20);
    assert_eq!(first["unaccounted_bytes"], 200_u64 << 20);
    let row = &first["processes"][0];
    assert_eq!((&row["pid"], &row["used_bytes"]), (&json!(machine.logged.pid()), &json!(11470_u64 << 20)));
    assert_eq!(
        (&row["command"], &row["kind"], &row["proved"]),
        (&json!("sleep 1000"), &json!("compute"), &json!(true))
    );
    assert!(row["start_ticks"].is_u64() && row["started_at"].is_string());
}

#[test]
fn ps_shows_which_process_is_busy_and_which_was_idle_while_it_watched() {
    let (busy, idle) = (Sleeper::start(), Sleeper::start());
    let driver = FakeDriver::new(&format!(
        "(gpus: [(sm: 97), (sm: 0)], processes: [(pid: {}, bytes: Some({GIB}), sm: 97), (gpu: 1, pid: {}, bytes: Some({GIB}))])",
        busy.pid(),
        idle.pid()
    ));
    let reading = parsed(&driver.output(&["ps", "--json", "--interval", "1"]));
    let row = |device: usize| reading["devices"][device]["processes"][0].clone();
    assert_eq!((&row(0)["activity"], &row(0)["gpu_percent"]), (&json!("busy"), &json!(97)));
    assert_eq!(&row(1)["activity"], &json!("idle"));
    assert!(row(1)["idle_seconds"].as_u64() >= Some(1), "{}", row(1));
    assert_eq!((&row(1)["gpu_percent"], &row(1)["cpu_percent"]), (&json!(0), &json!(0)));
    let text = stdout(&driver.output(&["ps", "--interval", "1"]));
    for (sleeper, state) in [(&busy, "BUSY 97 %"), (&idle, "idle ≥ ")] {
        let line = text.lines().find(|line| line.contains(&format!(" {}@", sleeper.pid()))).unwrap();
        assert!(line.contains(state), "{text}");
    }
}

#[test]
fn ps_explains_a_missing_figure_and_never_prints_0() {
    let sleeper = Sleeper::start();
    let driver = FakeDriver::new(&format!("(gpus: [()], processes: [(pid: {}, bytes: None)])", sleeper.pid()));
    let reading = parsed(&driver.output(&["ps", "--json"]));
    let row = &reading["devices"][0]["processes"][0];
    assert_eq!((&row["used_bytes"], &row["used_bytes_reason"]), (&Value::Null, &json!("not-available")));
    let text = stdout(&driver.output(&["ps"]));
    let line = text.lines().find(|line| line.contains("sleep 1000")).unwrap();
    assert!(line.contains('?') && !line.contains("0 B"), "{line}");
}

#[test]
fn ps_exits_1_with_the_reason_when_the_driver_is_missing_or_hangs() {
    let output = oomdoctor(&["ps"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (1, ""));
    assert!(stderr(&output).contains("/nonexistent/"));
    let machine = Machine::new();
    machine.set_faults("(call: \"*\", hang: true)");
    let output = machine.driver.output(&["ps"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("driver does not answer"));
}

// ---- kill

fn named(sleeper: &Sleeper) -> String {
    let key = Procfs::default().stat(sleeper.pid()).unwrap().key();
    format!("{}@{}", sleeper.pid(), key.start_ticks)
}

#[test]
fn kill_ends_exactly_the_named_process_and_prints_what_it_freed() {
    let mut machine = Machine::new();
    let name = named(&machine.logged);
    let output = machine.driver.output(&["kill", &name, "--yes"]);
    assert_eq!(code(&output), 0, "{}", all(&output));
    assert_eq!(machine.logged.ended_by(), Some(15));
    assert!(machine.second.lives() && machine.third.lives());
    let said = stdout(&output);
    assert!(said.contains(&name) && said.contains("sleep 1000"), "whom: {said}");
    let proof = said.lines().find(|line| line.starts_with("freed ")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(proof, "freed 11.2 GiB");
}

#[test]
fn kill_takes_several_processes_and_another_signal() {
    let mut machine = Machine::new();
    let names = [named(&machine.logged), machine.third.pid().to_string()];
    let output = machine.driver.output(&["kill", &names[0], &names[1], "--yes", "--signal", "int"]);
    assert_eq!(code(&output), 0, "{}", all(&output));
    assert_eq!((machine.logged.ended_by(), machine.third.ended_by()), (Some(2), Some(2)));
    assert!(machine.second.lives());
    assert!(stdout(&output).contains("freed 13.2 GiB"), "{}", stdout(&output));
}

#[test]
fn kill_without_a_terminal_to_confirm_on_ends_no_process() {
    let mut machine = Machine::new();
    let output = machine.driver.output(&["kill", &named(&machine.logged)]);
    assert_eq!(code(&output), 2);
    assert!(stdout(&output).contains(&named(&machine.logged)), "it says whom it would have ended");
    assert!(stderr(&output).contains("--yes"), "{}", stderr(&output));
    assert!(machine.all_live());
}

#[test]
fn kill_asks_for_confirmation_on_the_terminal() {
    for (answer, ends) in [("n\r", false), ("\r", false), ("y\r", true)] {
        let mut machine = Machine::new();
        let library = machine.driver.library();
        let arguments = ["kill", &named(&machine.logged), "--nvml-library", library.to_str().unwrap()];
        let mut session = Session::oomdoctor((120, 40), &arguments);
        session.wait_for_text(&[&named(&machine.logged), "11.2 GiB", "[y/N]"]);
        assert!(machine.all_live());
        session.send(answer);
        let status = session.wait_for_exit(PATIENCE);
        assert_eq!(status.exit_code(), u32::from(!ends), "{answer:?}\n{}", session.text());
        assert_eq!(machine.logged.lives(), !ends, "{answer:?}");
    }
}

#[test]
fn kill_takes_no_answer_that_was_typed_before_the_question_could_be_read() {
    let mut machine = Machine::new();
    let library = machine.driver.library();
    let arguments = ["kill", &named(&machine.logged), "--nvml-library", library.to_str().unwrap()];
    let mut session = Session::oomdoctor((120, 40), &arguments);
    session.wait_for_text(&["11.2 GiB"]);
    session.send("y\r");
    session.wait_for_text(&["[y/N]"]);
    assert!(machine.all_live());
    session.send("\r");
    assert_eq!(session.wait_for_exit(PATIENCE).exit_code(), 1, "{}", session.text());
    assert!(machine.all_live());
}

/// With SUDO_UID set, the tests' processes (root's) belong to another user than the viewer. Only root gets that
/// question, so the test needs root.
#[test]
fn kill_wants_more_than_a_y_for_another_users_process() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let mut machine = Machine::new();
    let pid = machine.logged.pid().to_string();
    let by_sudo = |arguments: &[&str]| {
        let mut command = machine.driver.oomdoctor(arguments);
        command.env("SUDO_UID", "4242");
        assert_cmd::Command::from_std(command).timeout(PATIENCE).output().unwrap()
    };
    let output = by_sudo(&["kill", &pid, "--yes"]);
    assert_eq!(code(&output), 2, "{}", all(&output));
    assert!(stdout(&output).starts_with("OWNED BY root, not you"), "{}", stdout(&output));
    assert!(stderr(&output).contains("--other-users"), "{}", stderr(&output));
    let library = machine.driver.library();
    let line =
        format!("SUDO_UID=4242 $OOMDOCTOR kill {pid} --nvml-library {} --device-folder $DEVICES", library.display());
    for (answers, ends) in [(vec!["y\r"], false), (vec![&*format!("{pid}\r"), "n\r"], false)] {
        let mut session = Session::shell((120, 40), &line);
        session.wait_for_text(&["Type its PID"]);
        for (at, answer) in answers.iter().enumerate() {
            if at == 1 {
                session.wait_for_text(&["[y/N]"]);
            }
            session.send(answer);
        }
        assert_eq!(session.wait_for_exit(PATIENCE).exit_code(), u32::from(!ends), "{}", session.text());
        assert!(machine.logged.lives(), "{answers:?}");
    }
}

/// Not by way of sudo: root's record is then kept in the real home of root.
#[test]
fn root_ends_another_users_process_where_that_is_asked_for() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let mut machine = Machine::with_logged(Sleeper::of_user(4242));
    let name = named(&machine.logged);
    let output = machine.driver.output(&["kill", &name, "--yes"]);
    assert_eq!(code(&output), 2, "{}", all(&output));
    let output = machine.driver.output(&["kill", &name, "--yes", "--other-users"]);
    assert_eq!(code(&output), 0, "{}", all(&output));
    assert_eq!(machine.logged.ended_by(), Some(15));
    let [(_, _), (_, state)] = homes();
    let record = fs::read_to_string(state.join("oomdoctor/signals.log")).unwrap();
    assert!(record.contains(&machine.logged.pid().to_string()), "{record}");
}

#[test]
fn kill_says_that_a_process_is_busy_before_it_asks() {
    let sleeper = Sleeper::start();
    let row = format!("(gpu: 0, pid: {}, bytes: Some(1073741824), sm: 97)", sleeper.pid());
    let driver = FakeDriver::new(&format!("(gpus: [()], processes: [{row}])"));
    let output = driver.output(&["kill", &sleeper.pid().to_string()]);
    assert!(stdout(&output).starts_with("BUSY 97 %"), "{}", all(&output));
    let text = stdout(&driver.output(&["ps"]));
    assert!(text.lines().any(|line| line.contains("BUSY 97 %") && line.contains("sleep 1000")), "{text}");
}

#[test]
fn inside_a_pod_kill_signals_only_with_allow_kill() {
    let mut machine = Machine::new();
    let name = named(&machine.logged);
    let in_a_pod = |arguments: &[&str]| {
        let mut command = machine.driver.oomdoctor(arguments);
        command.env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
        assert_cmd::Command::from_std(command).timeout(PATIENCE).output().unwrap()
    };
    assert_refused(&in_a_pod(&["kill", &name, "--yes"]), &["Kubernetes pod", "--allow-kill"]);
    assert!(machine.logged.lives());
    let output = in_a_pod(&["kill", &name, "--yes", "--allow-kill"]);
    assert_eq!(code(&output), 0, "{}", all(&output));
    assert_eq!(machine.logged.ended_by(), Some(15));
}

#[test]
fn kill_refuses_another_process_with_the_same_pid() {
    let mut machine = Machine::new();
    let ticks = Procfs::default().stat(machine.logged.pid()).unwrap().start_ticks;
    let other = format!("{}@{}", machine.logged.pid(), ticks + 1);
    let output = machine.driver.output(&["kill", &other, "--yes"]);
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains("another process"), "{}", all(&output));
    assert!(machine.all_live());
}

#[test]
fn kill_refuses_a_process_that_no_gpu_lists_unless_any_is_given() {
    let machine = Machine::new();
    let mut bystander = Sleeper::start();
    let output = machine.driver.output(&["kill", &named(&bystander), "--yes"]);
    assert_refused(&output, &[&bystander.pid().to_string(), "--any"]);
    assert!(bystander.lives());
    let output = machine.driver.output(&["kill", &named(&bystander), "--yes", "--any"]);
    assert_eq!(code(&output), 0, "{}", all(&output));
    assert_eq!(bystander.ended_by(), Some(15));
}

#[test]
fn kill_sends_sigkill_only_when_told_to() {
    let mut machine = Machine::with_logged(Sleeper::deaf());
    let name = named(&machine.logged);
    let output = machine.driver.output(&["kill", &name, "--yes", "--grace", "0.3"]);
    assert_eq!(code(&output), 1);
    assert!(
        stdout(&output).contains("is still running") && stdout(&output).contains("--signal KILL"),
        "{}",
        all(&output)
    );
    assert!(machine.all_live());
    let output = machine.driver.output(&["kill", &name, "--yes", "--signal", "KILL"]);
    assert_eq!(code(&output), 0, "{}", all(&output));
    assert_eq!(machine.logged.ended_by(), Some(9));
    assert!(stdout(&output).contains("freed 11.2 GiB"), "{}", stdout(&output));
}

#[test]
fn kill_exits_1_when_one_of_several_processes_is_not_ended() {
    let mut machine = Machine::new();
    let mut gone = Sleeper::start();
    let gone_name = named(&gone);
    gone.end();
    let output = machine.driver.output(&["kill", &named(&machine.third), &gone_name, "--yes"]);
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains(&format!("there is no process {}", gone.pid())), "{}", all(&output));
    assert_eq!(machine.third.ended_by(), Some(15));
}

#[test]
fn kill_refuses_protected_processes_with_the_reason() {
    let mut machine = Machine::new();
    let own = std::process::id().to_string();
    for pid in ["0", "1", "4294967295", &own] {
        let output = machine.driver.output(&["kill", pid, "--yes", "--any"]);
        assert_eq!(code(&output), 1, "{pid}: {}", all(&output));
        assert!(stdout(&output).starts_with("not terminated: "), "{pid}: {}", all(&output));
        assert!(stdout(&output).contains(pid), "{pid}: {}", all(&output));
    }
    for wrong in ["-1", "python", "12@x", "12@", "4294967296", ""] {
        let output = machine.driver.output(&["kill", "--yes", "--any", "--", wrong]);
        assert_eq!(code(&output), 2, "{wrong}: {}", all(&output));
    }
    let output = machine.driver.output(&["kill", &named(&machine.logged), "--yes", "--read-only"]);
    assert_refused(&output, &["--read-only"]);
    assert!(machine.all_live());
}

#[test]
fn kill_refuses_its_own_parents_even_if_a_gpu_lists_them() {
    let own = std::process::id();
    let _device = device();
    let driver = FakeDriver::new(&format!("(gpus: [()], processes: [(pid: {own}, bytes: Some(1073741824))])"));
    let output = driver.output(&["kill", &own.to_string(), "--yes"]);
    assert_eq!(code(&output), 1, "{}", all(&output));
    assert!(stdout(&output).contains("one it runs in"), "{}", all(&output));
}

#[test]
fn kill_refuses_a_display_server() {
    let driver = FakeDriver::new("()");
    let mut display = Sleeper::named("/usr/lib/xorg/Xorg");
    let row = format!("(pid: {}, bytes: Some(1073741824), lists: [Graphics])", display.pid());
    driver.set_scenario(&format!("(gpus: [()], processes: [{row}])"));
    let output = driver.output(&["kill", &named(&display), "--yes"]);
    assert_eq!(code(&output), 1, "{}", all(&output));
    assert!(stdout(&output).starts_with("not terminated: ") && display.lives(), "{}", all(&output));
}

// ---- kb

#[test]
fn kb_lists_shows_and_checks_the_built_in_knowledge() {
    let list = oomdoctor(&["kb", "list"]);
    assert_eq!(code(&list), 0);
    let line = stdout(&list).lines().find(|line| line.starts_with("pytorch/cuda-out-of-memory ")).map(str::to_owned);
    assert!(line.is_some_and(|line| line.contains(" yes ")), "{}", stdout(&list));
    let show = oomdoctor(&["kb", "show", "pytorch/cuda-out-of-memory"]);
    assert_eq!(code(&show), 0);
    assert!(
        stdout(&show).contains("torch.OutOfMemoryError") && stdout(&show).contains("(checked 20"),
        "{}",
        stdout(&show)
    );
    let unknown = oomdoctor(&["kb", "show", "cuda-out-of"]);
    assert_eq!(code(&unknown), 1);
    assert!(all(&unknown).contains("pytorch/cuda-out-of-memory"), "what was meant: {}", all(&unknown));
    // Matches every example against every entry, which takes seconds in an unoptimized build on a busy machine.
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    let check = command.args(["kb", "check"]).timeout(PATIENCE * 6).output().unwrap();
    assert_eq!(code(&check), 0, "{}", all(&check));
}

/// An entry that a user wrote.
const FLUX: &str = "(
    title: \"The flux ran out\",
    oom: yes,
    memory: gpu,
    status: Draft,
    certainty: certain,
    literals: [\"flux capacity\"],
    when: (any: [\"flux capacity exceeded\"]),
    why: \"The flux holds only so much.\",
    fixes: [],
    references: [],
    matches: [],
    rejects: [],
)";

#[test]
fn a_knowledge_folder_is_used_and_its_faults_are_located() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    assert_refused(&oomdoctor(&["kb", "check", "/nonexistent"]), &["/nonexistent"]);
    assert_refused(&oomdoctor(&["kb", "check", root]), &[root]);
    assert_refused(&run(&["diagnose", "--no-live", "--knowledge", "/nonexistent"], b"Killed"), &["/nonexistent"]);
    fs::create_dir_all(folder.path().join("entries/mine")).unwrap();
    let entry = folder.path().join("entries/mine/flux.ron");
    fs::write(&entry, FLUX).unwrap();
    let found = run(&["diagnose", "--json", "--no-live", "--knowledge", root], b"flux capacity exceeded\n");
    assert_eq!((code(&found), &parsed(&found)["matches"][0]["entry"]), (0, &json!("mine/flux")));
    // The entry lacks the examples that the lint demands.
    let check = oomdoctor(&["kb", "check", root]);
    assert_eq!(code(&check), 1, "{}", all(&check));
    assert!(all(&check).contains("mine/flux"), "{}", all(&check));
    fs::write(&entry, FLUX.replace("    why:", "    colour: \"red\",\n    why:")).unwrap();
    for arguments in [&["kb", "check", root][..], &["kb", "list", "--knowledge", root]] {
        let output = oomdoctor(arguments);
        assert_refused(&output, &["entries/mine/flux.ron:9:", "colour"]);
        let column = stderr(&output).split("flux.ron:9:").nth(1).and_then(|rest| rest.split(':').next()?.parse().ok());
        assert!(column.is_some_and(|column: u32| (4..16).contains(&column)), "{}", stderr(&output));
    }
}

// ---- sample

#[test]
fn sample_starts_with_its_header_and_ends_with_its_reader() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_oomdoctor"))
        .args(["sample", "--interval", "0.05", "--nvml-library", "/nonexistent/libnvidia-ml.so.1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(ends_within(child.id(), PATIENCE), "nobody reads it any more");
    assert!(child.wait().unwrap().success());
    let output = oomdoctor(&["sample", "--count", "2", "--interval", "0.05"]);
    assert_eq!(code(&output), 0, "no driver is a reading too");
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["schema"]), (3, &json!(1)));
    assert!(lines[0]["program"].as_str().unwrap().starts_with("oomdoctor ") && lines[0]["boot_id"].is_string());
    assert!(lines[2]["driver"]["unavailable"].as_str().unwrap().contains("/nonexistent/"));
    assert!(lines[2]["host"]["memory_total_bytes"].is_u64());
}

// ---- configuration, state and the debug log

fn configure(text: &str) {
    let [(_, config), _] = homes();
    fs::create_dir_all(config.join("oomdoctor/knowledge/flux")).unwrap();
    fs::write(config.join("oomdoctor/config.ron"), text).unwrap();
}

#[test]
fn what_is_no_folder_in_the_place_of_ones_own_knowledge_is_refused_as_a_named_one_is() {
    let [(_, config), _] = homes();
    let own = config.join("oomdoctor/knowledge");
    let makers: [fn(&Path); 2] = [
        |path| fs::write(path, "").unwrap(),
        |path| rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap(),
    ];
    for make in makers {
        make(&own);
        for arguments in
            [&["diagnose", "--no-live"][..], &["diagnose", "--no-live", "--knowledge", own.to_str().unwrap()]]
        {
            assert_refused(&run(arguments, b"Killed"), &["oomdoctor/knowledge", "can't be read"]);
        }
        fs::remove_file(&own).unwrap();
    }
    assert_eq!(code(&run(&["diagnose", "--no-live"], b"Killed")), 0, "nothing is there");
}

#[test]
fn a_mistake_in_the_configuration_is_reported_with_file_line_and_suggestion() {
    configure("(\n  intervall: 2,\n)");
    assert_refused(&oomdoctor(&["kb", "list"]), &["oomdoctor/config.ron:2:", "did you mean `interval`?"]);
}

#[test]
fn a_flag_overrides_the_environment_which_overrides_the_file() {
    let driver = FakeDriver::new("(gpus: [()])");
    let unusable = "(nvml_library: \"/nonexistent/file.so\", read_only: true)";
    configure(unusable);
    // Only the file applies: its library cannot be loaded and no process may be ended.
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    let ps =
        command.args(["ps"]).envs(homes()).env_remove("OOMDOCTOR_NVML_LIBRARY").timeout(PATIENCE).output().unwrap();
    assert!(all(&ps).contains("/nonexistent/file.so"), "{}", all(&ps));
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    command.args(["ps"]).envs(homes()).env("OOMDOCTOR_NVML_LIBRARY", driver.library());
    assert_eq!(code(&command.timeout(PATIENCE).output().unwrap()), 0, "the environment wins over the file");
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    command.args(["ps", "--nvml-library"]).arg(driver.library()).envs(homes());
    command.env("OOMDOCTOR_NVML_LIBRARY", "/nonexistent/other.so");
    assert_eq!(code(&command.timeout(PATIENCE).output().unwrap()), 0, "the flag wins over the environment");
    let mut machine = Machine::new();
    let output = machine.driver.output(&["kill", &named(&machine.logged), "--yes"]);
    assert_refused(&output, &["read-only"]);
    assert!(machine.all_live());
}

#[test]
fn entries_in_the_configuration_folder_are_used_with_the_built_in_ones() {
    configure("");
    let [(_, config), _] = homes();
    fs::write(config.join("oomdoctor/knowledge/flux/capacity.ron"), FLUX).unwrap();
    let found = run(&["diagnose", "--json", "--no-live"], b"flux capacity exceeded\n");
    assert_eq!(parsed(&found)["matches"][0]["entry"], "flux/capacity", "{}", all(&found));
    let built_in = run(&["diagnose", "--json", "--no-live"], b"RuntimeError: CUDA error: out of memory\n");
    assert_eq!(parsed(&built_in)["oom"], "yes", "{}", all(&built_in));
}

#[test]
fn every_signal_is_recorded_in_a_file_that_only_its_sender_can_read() {
    let machine = Machine::new();
    let [_, (_, state)] = homes();
    let path = state.join("oomdoctor/signals.log");
    let spared = machine.driver.output(&["kill", &machine.second.pid().to_string(), "--read-only", "--yes"]);
    assert_eq!(code(&spared), 2);
    assert!(!path.exists(), "nothing was signalled");
    let output = machine.driver.output(&["kill", &named(&machine.logged), "--yes"]);
    assert_eq!(code(&output), 0, "{}", all(&output));
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> =
        lines.iter().map(|line| (line["what"].as_str().unwrap(), line["pid"].as_u64().unwrap())).collect();
    let pid = u64::from(machine.logged.pid());
    assert_eq!(told, [("sent", pid), ("ended", pid), ("memory-back", pid)], "{text}");
    assert_eq!((&lines[0]["signal"], &lines[2]["bytes"]), (&json!("TERM"), &json!(11_470_u64 << 20)));
    assert_eq!(lines[0]["command"], "sleep 1000");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_debug_log_is_written_only_on_request_and_contains_no_pasted_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("debug.log");
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    command.args(["diagnose", "--nvml-library", "/nonexistent/libnvidia-ml.so.1"]).envs(homes());
    command.env("OOMDOCTOR_LOG", &path).write_stdin("secret: CUDA out of memory\n");
    assert_eq!(code(&command.timeout(PATIENCE).output().unwrap()), 0);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("driver not opened") && text.contains("nvml-library"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    command.args(["kb", "list"]).envs(homes()).env("OOMDOCTOR_LOG", "/nonexistent/folder/x.log");
    assert_refused(&command.timeout(PATIENCE).output().unwrap(), &["OOMDOCTOR_LOG", "/nonexistent/folder/x.log"]);
}

#[test]
fn a_profile_of_jax_is_read_alone_beside_a_log_and_into_a_report() {
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/jax.pprof");
    let alone = run(&["diagnose", "--no-live", profile], b"");
    assert_eq!(code(&alone), 1, "{}", all(&alone));
    assert!(stdout(&alone).contains("JAX has") && stdout(&alone).contains("m.py:4"), "{}", all(&alone));
    let json: Value = serde_json::from_str(&stdout(&run(&["diagnose", "--no-live", "--json", profile], b""))).unwrap();
    let filled = &json["allocations"][0];
    let sum: u64 = filled["alive"].as_array().unwrap().iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
    assert_eq!(filled["allocated_bytes"].as_u64(), Some(sum));
    assert!(filled["totals"].is_null() && filled["allocator"] == "jax", "what JAX does not tell is no 0: {filled}");
    let log = b"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.\n";
    let report = stdout(&run(&["report", "--no-live", "--snapshot", profile, "-"], log));
    assert!(report.contains("jax.pprof") && report.contains("m.py:4"), "{report}");
    let folder = tempfile::tempdir().unwrap();
    let [log_file, beside] = ["crash.log", "memory.prof"].map(|name| folder.path().join(name));
    fs::write(&log_file, log).unwrap();
    fs::copy(profile, &beside).unwrap();
    let text = stdout(&run(&["diagnose", "--no-live", log_file.to_str().unwrap()], b""));
    assert!(text.contains("m.py:4"), "{text}");
    fs::write(&log_file, torch_log(4242, "23.99")).unwrap();
    let text = stdout(&run(&["diagnose", "--no-live", log_file.to_str().unwrap()], b""));
    assert!(!text.contains("m.py:4"), "a profile of JAX is not of a failure in PyTorch: {text}");
    fs::write(&beside, [&[0x0a, 4, 8, 1, 16, 2][..], &[0xff; 64]].concat()).unwrap();
    assert_refused(&run(&["diagnose", beside.to_str().unwrap()], b""), &["no device memory profile", "byte"]);
}

// ---- report

#[test]
fn a_report_has_what_the_snapshot_of_the_run_shows() {
    let log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 700.00 MiB is free.\n";
    let snapshot = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/sick.4.pickle");
    let report = stdout(&run(&["report", "--no-live", "--snapshot", snapshot, "-"], log.as_bytes()));
    assert!(report.contains("train.py:88 forward") && report.contains("sick.4.pickle"), "{report}");
    assert!(!stdout(&run(&["report", "--no-live", "-"], log.as_bytes())).contains("train.py:88"));
}

#[test]
fn a_report_leaves_secrets_out_and_overwrites_a_file_only_with_force() {
    let log = format!("HF_TOKEN=hf_abcdEFGH12345678 python /home/grace/t.py\n{}", torch_log(4242, "23.99"));
    let output = run(&["report", "-"], log.as_bytes());
    let text = stdout(&output);
    assert_eq!(code(&output), 0, "{}", all(&output));
    assert!(text.contains("HF_TOKEN=[redacted] python ~/t.py") && !text.contains("grace"), "{text}");
    assert!(
        stdout(&run(&["report", "--no-redact"], log.as_bytes()))
            .contains("hf_abcdEFGH12345678 python /home/grace/t.py")
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.md");
    let to = ["report", "--output", path.to_str().unwrap()];
    assert_eq!(code(&run(&to, log.as_bytes())), 0);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&path, "mine").unwrap();
    assert_refused(&run(&to, log.as_bytes()), &["exists", "--force"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert_eq!(code(&run(&[&to[..], &["--force"]].concat(), log.as_bytes())), 0);
    assert!(fs::read_to_string(&path).unwrap().starts_with("### Out of memory"));
    assert_eq!(code(&run(&["report"], b"all is well\n")), 1);
    // A replaced file is readable by its owner only, and the target of a symbolic link is not overwritten.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(code(&run(&[&to[..], &["--force"]].concat(), log.as_bytes())), 0);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (other, link) = (folder.path().join("other"), folder.path().join("link.md"));
    fs::write(&other, "mine").unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let to = ["report", "--output", link.to_str().unwrap(), "--force"];
    assert_refused(&run(&to, log.as_bytes()), &["is no plain file"]);
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
}

#[test]
fn a_program_is_protected_by_its_kernel_name_also_when_the_user_names_its_pid() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("sshd-session");
    fs::copy("/bin/sh", &program).unwrap();
    let (mut session, _end) = Sleeper::program(&program, "my work", "read end");
    let driver = FakeDriver::new(&format!(
        "(gpus: [()], processes: [(gpu: 0, pid: {}, bytes: Some(1073741824))])",
        session.pid()
    ));
    let pid = session.pid().to_string();
    let row = &parsed(&driver.output(&["ps", "--json"]))["devices"][0]["processes"][0];
    assert!(row["command"].as_str().unwrap().starts_with("my work") && row["protected"].is_string(), "{row}");
    let output = driver.output(&["kill", "--yes", &pid]);
    assert!(code(&output) == 1 && stdout(&output).contains("left alone"), "{}", all(&output));
    let library = driver.library();
    let mut screen = Session::oomdoctor((120, 40), &["--nvml-library", library.to_str().unwrap()]);
    screen.wait_for_text(&[&pid]);
    screen.send("\x1b[Hx");
    screen.wait_for_text(&["left alone"]);
    assert!(!screen.text().contains("[y]") && session.lives());
}

#[test]
fn kill_recognizes_a_threads_id() {
    let own = std::process::id();
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let ids = tasks.map(|task| task.file_name().into_string().unwrap());
    let id = ids.into_iter().find(|id| *id != own.to_string()).unwrap();
    let output = oomdoctor(&["kill", "--any", "--yes", &id]);
    let said = format!("{id} is a thread of process {own}");
    assert!(code(&output) == 1 && stdout(&output).contains(&said), "{}", all(&output));
}

// ---- mistakes, help and the last log

/// What a mistake leads to: exit code 2, one line, and what was meant.
#[track_caller]
fn assert_meant(arguments: &[&str], meant: &str) {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    let output = command.args(arguments).envs(homes()).timeout(PATIENCE).output().unwrap();
    assert_refused(&output, &["did you mean", meant]);
}

#[test]
fn a_mistyped_command_option_value_or_id_is_answered_with_the_likely_one() {
    for (line, meant) in [
        ("diagnos crash.log", "`diagnose`"),
        ("psx", "`ps`"),
        ("help kil", "`kill`"),
        ("kb lst", "`list`"),
        ("--thme dark", "`--theme`"),
        ("fit llama3.1:8b --ctx 3", "`--context`"),
        ("ps --jsn", "`--json`"),
        ("kb list --literal", "`--literals`"),
        ("kill -9 4242", "`--signal KILL`"),
        ("kill 4242 --signal KIL", "`kill`"),
        ("--theme high-contrst", "`high-contrast`"),
        ("fit llama3.1:8b --engine olama", "`ollama`"),
        ("fit llama3.1:8b --kv-type q8", "`q8_0`"),
        ("fit llama3.1:8b --engine transformers --dtype bfloat", "`bfloat16`"),
        ("fit lama3", "Llama-3.1-8B"),
        ("diagnose --model lama3.1:8b x", "Llama-3.1-8B"),
        ("schema diagnos", "`diagnose`"),
        ("completions bsh", "`bash`"),
        ("diagnose --tried smaller-bach x", "`smaller-batch`"),
    ] {
        assert_meant(&line.split(' ').collect::<Vec<_>>(), meant);
    }
    for (id, meant) in
        [("pytorch/cuda-out-of-memry", "`pytorch/cuda-out-of-memory`"), ("cuda-out-of-mmory", "out-of-memory`")]
    {
        let output = oomdoctor(&["kb", "show", id]);
        assert_eq!((code(&output), stdout(&output).as_str()), (1, ""));
        assert!(stderr(&output).contains("did you mean") && stderr(&output).contains(meant), "{}", stderr(&output));
    }
    // Nothing is near these, so all values or the way to find one are named.
    assert_refused(&oomdoctor(&["--theme", "drak"]), &["terminal, high-contrast"]);
    assert_refused(&oomdoctor(&["diagnose", "--tried", "FXI", "x"]), &["diagnose --json"]);
    assert_refused(&oomdoctor(&["ps", "--theme", "none"]), &["an option of `oomdoctor`"]);
}

#[test]
fn a_file_with_the_name_of_no_command_is_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("diagnos");
    fs::write(&log, TORCH).unwrap();
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    command.arg("diagnos").current_dir(folder.path()).envs(homes()).timeout(PATIENCE);
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{}", all(&output));
    assert!(stdout(&output).contains("ran out of VRAM"), "{}", all(&output));
}

#[test]
fn kill_takes_a_name_for_a_mistake_and_says_which_process_has_it() {
    let machine = Machine::new();
    let output = machine.driver.output(&["kill", "sleep", "--yes"]);
    assert_refused(&output, &["is not a PID", &named(&machine.logged), &named(&machine.second)]);
    let wrong = format!("{}@x", machine.second.pid());
    assert_refused(&machine.driver.output(&["kill", &wrong, "--yes"]), &["did you mean", &named(&machine.second)]);
}

#[test]
fn a_mistyped_environment_variable_and_a_value_in_one_are_named() {
    let said = |name: &str, value: &str| {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
        let output = command.args(["kb", "list", "vllm"]).env(name, value).envs(homes()).output().unwrap();
        (code(&output), stderr(&output))
    };
    let (code, message) = said("OOMDOCTOR_KNOWLEDG", "/x");
    assert!(code == 0 && message.contains("did you mean OOMDOCTOR_KNOWLEDGE?"), "{message}");
    assert_eq!(said("OOMDOCTOR_MEMORY_HISTORY", "1"), (0, String::new()), "the hook's own");
    let (code, message) = said("OOMDOCTOR_INTERVAL", "fast");
    assert!(code == 2 && message.starts_with("oomdoctor: OOMDOCTOR_INTERVAL: `fast`"), "{message}");
}

/// Every command that `--help` of its parent lists, with the words that lead to it.
fn commands() -> Vec<Vec<&'static str>> {
    let mut all: Vec<Vec<&str>> = vec![vec![]];
    all.extend(["diagnose", "report", "sample", "ps", "kill", "fit", "schema", "kb"].map(|command| vec![command]));
    all.extend(["list", "show", "new", "check"].map(|command| vec!["kb", command]));
    all
}

#[test]
fn no_help_text_and_no_manual_page_has_a_banned_phrase() {
    let mut pages = vec![("man".to_owned(), stdout(&oomdoctor(&["man"])))];
    for command in commands() {
        for flag in ["--help", "-h"] {
            let arguments: Vec<&str> = command.iter().copied().chain([flag]).collect();
            pages.push((arguments.join(" "), stdout(&oomdoctor(&arguments))));
        }
    }
    let listed = stdout(&oomdoctor(&["--help"]));
    for (_, page) in &pages {
        assert!(page.len() > 200, "{page}");
        let found = crate::wording::BANNED.find(page).map(|phrase| phrase.as_str());
        assert_eq!(found, None, "{page}");
    }
    let names = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let listed: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(commands().iter().filter_map(|command| command.first()).all(|command| listed.contains(command)));
}

/// A state folder with a last log: one step was tried, one did not help, and a process was terminated.
fn with_a_last_log() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("oomdoctor");
    fs::create_dir_all(&own).unwrap();
    let step = |fix: &str, title: &str, mark: &str| json!({"id": {"fix": fix, "target": null}, "title": title, "mark": mark, "changes": null, "parts": [], "enough": false});
    let run = json!({"pid": 5120, "name": "train.py (5120)", "most": 9 * GIB, "devices": [0], "seconds": 40,
        "is_running": true, "past": 8 * GIB});
    let story = json!({"origin": "crash.log", "behind": [
        step("expandable-segments", "Enable expandable_segments", "Taken"),
        step("smaller-batch", "Halve batch size", "DidNotHelp")],
        "freed": ["jupyter (4242) exited: freed 11.2 GiB"], "new_run": run, "works": true});
    fs::write(own.join("last.log"), format!("{story}\n{TORCH}")).unwrap();
    folder
}

fn about_the_last_log(arguments: &[&str]) -> Output {
    let state = with_a_last_log();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    command.args(arguments).args(["--nvml-library", "/nonexistent/libnvidia-ml.so.1"]).envs(homes());
    let output = command.env("XDG_STATE_HOME", state.path()).stdin(Stdio::null()).output().unwrap();
    assert_output_valid(arguments, &output);
    assert_eq!(code(&output), 0, "{}", all(&output));
    output
}

#[test]
fn the_last_log_has_the_steps_that_were_taken_before_the_ones_ahead() {
    for arguments in [&["diagnose", "--last"][..], &["--last"]] {
        let text = stdout(&about_the_last_log(arguments));
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        let done = [
            "· Enable expandable_segments",
            "✗ Halve batch size (did not help)",
            "Seen: jupyter (4242) exited: freed 11.2 GiB",
            "Seen: New process train.py (5120) used up to 9.0 GiB on GPU 0 for 40 s",
            "Reported by the user: the job works",
        ];
        assert!(done.iter().all(|line| at(line) < at("\n1  ")), "{text}");
    }
    let json = parsed(&about_the_last_log(&["diagnose", "--last", "--json"]));
    let steps = json["done"]["steps"].as_array().unwrap();
    let outcomes: Vec<&Value> = steps.iter().map(|step| &step["outcome"]).collect();
    assert_eq!(outcomes, ["tried", "did-not-help"]);
    assert_eq!((json["done"]["seen"].as_array().unwrap().len(), &json["done"]["reported_working"]), (2, &json!(true)));
    let ahead: Vec<&Value> = json["plan"].as_array().unwrap().iter().map(|step| &step["fix"]).collect();
    assert!(!ahead.is_empty() && !ahead.contains(&&json!("smaller-batch")), "{ahead:?}");
    assert!(!ahead.contains(&&json!("expandable-segments")), "{ahead:?}");
}

#[test]
fn a_report_keeps_apart_what_was_seen_and_what_the_user_reported() {
    let report = stdout(&about_the_last_log(&["report"]));
    for line in [
        "- Seen: jupyter (4242) exited: freed 11.2 GiB",
        "- Seen: New process train.py (5120) used up to 9.0 GiB on GPU 0 for 40 s, past the 8.0 GiB",
        "- Reported by the user: Halve batch size (did not help)",
        "- Reported by the user: the job works",
    ] {
        assert!(report.contains(line), "{line}: {report}");
    }
}

#[test]
fn the_demo_keeps_no_last_log_and_its_report_says_that_it_is_one() {
    let state = tempfile::tempdir().unwrap();
    let line = format!("XDG_STATE_HOME='{}' \"$OOMDOCTOR\" --demo --interval 0.1", state.path().display());
    let mut demo = Session::shell((140, 50), &line);
    demo.wait_for_text(&["▸ 1 "]);
    demo.send("W");
    demo.wait_for_text(&["oomdoctor/report-"]);
    demo.send("\x1b");
    demo.wait_for_no(&["oomdoctor/report-"]);
    demo.leave();
    let files: Vec<_> =
        fs::read_dir(state.path().join("oomdoctor")).unwrap().flatten().map(|file| file.path()).collect();
    let [report] = &files[..] else { panic!("more than the report: {files:?}") };
    let text = fs::read_to_string(report).unwrap();
    assert!(text.starts_with("> **Demo:**"), "{text}");
}

/// What the files of a rotated log are diagnosed as.
fn diagnosed_parts(folder: &Path, parts: &[&str]) -> Value {
    let paths: Vec<String> = parts.iter().map(|name| folder.join(name).display().to_string()).collect();
    let arguments: Vec<&str> =
        ["diagnose", "--json", "--no-live"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    serde_json::from_slice(&oomdoctor(&arguments).stdout).unwrap()
}

#[test]
fn the_failure_is_found_in_an_earlier_part_of_a_rotated_log() {
    let folder = tempfile::tempdir().unwrap();
    let failed = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.20 GiB is free.\n";
    for (name, text) in [("a.log", "ready\n"), ("a.log.1", "listening\n"), ("a.log.2", failed), ("other.log.1", failed)]
    {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let alone = diagnosed_parts(folder.path(), &["a.log"]);
    assert_eq!(alone["oom"], "yes");
    assert_eq!(alone["matches"][0]["line"], 1, "{alone}");
    let joined = diagnosed_parts(folder.path(), &["a.log", "a.log.1", "a.log.2"]);
    assert_eq!(joined["matches"][0]["line"], 1, "the oldest part is read first: {joined}");
    let without = diagnosed_parts(folder.path(), &["a.log", "a.log.1"]);
    assert_eq!(without["oom"], "no", "only the named parts are read");
}
