//! The command line on every system that the program is built for: logs, models, the knowledge, reports, and the
//! messages where no GPU can be read. Needs no terminal, driver or network.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests: a panic is a failure, and they start processes and read files"
)]

#[path = "integration/support/schema.rs"]
mod schema;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use oomdoctor::platform::machine;
use schema::assert_output_valid;
use serde_json::{Value, json};

const LOG: &str = "Traceback (most recent call last):
  File \"train.py\", line 6, in <module>
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.64 GiB of \
which 1.20 GiB is free. Process 4242 has 14.00 GiB memory in use. Including non-PyTorch memory, this process has \
5.70 GiB memory in use. Of the allocated memory 5.20 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch \
but unallocated.
";

/// Runs the shipped program without a driver, with `home` as the user's home and `input` on its standard input.
fn oomdoctor(home: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    for name in ["HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
        command.env(name, home);
    }
    command.env("OOMDOCTOR_NVML_LIBRARY", home.join("none")).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that refuses its arguments exits without reading its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert_output_valid(arguments, &output);
    output
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_compressed_log_is_read_as_the_log_in_it_and_a_cut_is_said() {
    let home = home();
    for ending in ["gz", "zst", "xz", "bz2"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packed").join(format!("crash.log.{ending}"));
        let found = parsed(&oomdoctor(home.path(), &["diagnose", "--no-live", "--json", path.to_str().unwrap()], ""));
        assert_eq!((&found["oom"], &found["matches"][0]["line"]), (&"yes".into(), &12_001.into()), "{ending}");
        let packed = fs::read(&path).unwrap();
        let cut = home.path().join("cut");
        fs::write(&cut, &packed[..packed.len() / 2]).unwrap();
        let of_cut = oomdoctor(home.path(), &["diagnose", "--no-live", cut.to_str().unwrap()], "");
        assert_eq!(code(&of_cut), 1, "{ending}: the failure is in the part that lacks");
        assert!(text(&of_cut.stdout).contains("cut off"), "{ending}: {of_cut:?}");
    }
}

/// What `diagnose` finds, and the number of the decisive line.
fn facts_and_line(home: &Path, bytes: &[u8]) -> (Value, u64) {
    let path = home.join("log");
    fs::write(&path, bytes).unwrap();
    let found = parsed(&oomdoctor(home, &["diagnose", "--no-live", "--json", path.to_str().unwrap()], ""));
    (found["facts"].clone(), found["matches"][0]["line"].as_u64().unwrap())
}

#[test]
fn a_log_is_read_alike_in_json_in_a_page_and_in_other_encodings() {
    let home = home();
    let (facts, line) = facts_and_line(home.path(), LOG.as_bytes());
    assert_eq!((&facts["other_processes"][0]["pid"], line), (&4242.into(), 3));
    let of_container: String =
        LOG.lines().map(|line| json!({"log": format!("{line}\n"), "stream": "stderr"}).to_string() + "\n").collect();
    let notebook = json!({"cells": [{"outputs": [{"output_type": "stream", "text": LOG.split_inclusive('\n').collect::<Vec<_>>()}]}]});
    let indented = serde_json::to_string_pretty(&notebook).unwrap();
    let of_output = indented.lines().position(|line| line.contains("OutOfMemoryError")).unwrap() as u64 + 1;
    let escaped =
        LOG.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;").replace("CUDA out", "CUDA <b>out</b>");
    let page = format!("<!DOCTYPE html>\n<html><body>\n<pre>{escaped}</pre></body></html>\n");
    let wide: Vec<u8> = LOG.replace('\n', "\r\n").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let in_a_code_page = [LOG.as_bytes(), b"F\xfcr mehr Gr\xf6\xdfe\r\n"].concat();
    let forms: [(&str, Vec<u8>, u64); 6] = [
        ("a container's log", of_container.into(), 3),
        ("a notebook", indented.into(), of_output),
        ("a notebook on one line", notebook.to_string().into(), 1),
        ("a page", page.into(), 5),
        ("UTF-16 without a mark", wide, 3),
        ("a code page", in_a_code_page, 3),
    ];
    for (name, bytes, line) in forms {
        assert_eq!(facts_and_line(home.path(), &bytes), (facts.clone(), line), "{name}");
    }
}

#[test]
fn a_log_is_diagnosed_alike_from_a_file_a_pipe_and_with_windows_line_ends() {
    let home = home();
    let path = home.path().join("crash.log");
    fs::write(&path, LOG).unwrap();
    let of_file = oomdoctor(home.path(), &["diagnose", "--no-live", "--json", path.to_str().unwrap()], "");
    let found = parsed(&of_file);
    assert_eq!((code(&of_file), &found["oom"], &found["raised_by"]), (0, &"yes".into(), &"pytorch".into()));
    assert_eq!(found["facts"]["other_processes"][0]["pid"], 4242);
    assert_eq!(parsed(&oomdoctor(home.path(), &["diagnose", "--no-live", "--json"], LOG))["facts"], found["facts"]);
    fs::write(&path, LOG.replace('\n', "\r\n")).unwrap();
    let of_windows = parsed(&oomdoctor(home.path(), &["diagnose", "--json", path.to_str().unwrap()], ""));
    assert_eq!((&of_windows["facts"], &of_windows["matches"]), (&found["facts"], &found["matches"]));
}

#[test]
fn the_exit_code_separates_found_not_found_and_unreadable() {
    let home = home();
    for (arguments, input, expected) in [
        (vec!["--version"], "", 0),
        (vec!["diagnose"], LOG, 0),
        (vec!["diagnose"], "all is well\n", 1),
        (vec!["diagnose"], "", 2),
        (vec!["diagnose", "not-there.log"], "", 2),
        (vec!["diagnose", "."], "", 2),
        (vec!["diagnose", "--jsn"], "", 2),
        (vec!["kb", "show", "pytorch/cuda-out-of-memory"], "", 0),
        (vec!["kb", "show", "no/such-entry"], "", 1),
        (vec!["kb", "list"], "", 0),
        (vec!["fit", "no-such-model"], "", 2),
    ] {
        let output = oomdoctor(home.path(), &arguments, input);
        assert_eq!(code(&output), expected, "{arguments:?}: {output:?}");
        // An id that is not found is an error message, too.
        let is_refused = expected == 2 || arguments.contains(&"no/such-entry");
        assert_eq!(output.stdout.is_empty(), is_refused, "{arguments:?}: {output:?}");
    }
}

#[test]
fn fit_knows_a_model_of_the_table_and_refuses_an_empty_folder() {
    let home = home();
    let known = oomdoctor(home.path(), &["fit", "llama3.1:8b"], "");
    assert!(code(&known) == 1 && text(&known.stdout).contains("KV cache"), "no GPU to fit on: {known:?}");
    let folder = home.path().join("model");
    fs::create_dir(&folder).unwrap();
    let none = oomdoctor(home.path(), &["fit", folder.to_str().unwrap()], "");
    assert_eq!(code(&none), 2, "an empty folder is no model: {none:?}");
}

#[test]
fn a_report_is_a_new_file_without_the_users_name() {
    let home = home();
    let log = LOG.replace("train.py", r"C:\Users\ada\train.py");
    let path = home.path().join("report.md");
    let arguments = ["report", "--no-live", "-", "--output", path.to_str().unwrap()];
    let first = oomdoctor(home.path(), &arguments, &log);
    assert_eq!(code(&first), 0, "{first:?}");
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.contains("train.py") && !written.contains("ada"), "{written}");
    assert_eq!(code(&oomdoctor(home.path(), &arguments, &log)), 2, "one that is there stays");
    let forced = oomdoctor(home.path(), &[&arguments[..], &["--force"]].concat(), &log);
    assert_eq!(code(&forced), 0, "{forced:?}");
    assert!(fs::read_dir(home.path()).unwrap().count() == 1, "nothing is left beside it");
}

#[test]
fn settings_are_read_from_the_systems_configuration_folder() {
    let home = home();
    let folder = home.path().join("oomdoctor");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("config.ron"), "(\n  intervall: 2,\n)").unwrap();
    let refused = oomdoctor(home.path(), &["kb", "list"], "");
    assert_eq!(code(&refused), 2, "{refused:?}");
    assert!(text(&refused.stderr).contains("interval"), "{refused:?}");
}

#[test]
fn without_gpus_the_reason_is_printed_and_no_process_is_signaled() {
    let home = home();
    let listed = oomdoctor(home.path(), &["ps"], "");
    assert_eq!((code(&listed), listed.stdout.is_empty()), (1, true), "{listed:?}");
    let sampled = oomdoctor(home.path(), &["sample", "--count", "2"], "");
    let lines: Vec<Value> = text(&sampled.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code(&sampled), lines.len()), (0, 3));
    let why = lines[1]["driver"]["unavailable"].as_str().unwrap();
    assert!(text(&listed.stderr).contains(why), "{listed:?}");
    assert!(lines[2]["host"]["memory_total_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{sampled:?}");
    if let Some(logs_only) = machine::LOGS_ONLY {
        assert!(why == logs_only, "{why}");
        assert_eq!(text(&sampled.stderr).matches(logs_only).count(), 1, "said once: {sampled:?}");
        let killed = oomdoctor(home.path(), &["kill", &std::process::id().to_string(), "--yes", "--any"], "");
        assert_eq!(code(&killed), 2, "{killed:?}");
        assert!(text(&killed.stderr).contains(logs_only), "{killed:?}");
    }
}

#[test]
fn without_a_terminal_the_program_prints_the_plain_report() {
    let home = home();
    let path = home.path().join("crash.log");
    fs::write(&path, LOG).unwrap();
    let plain = oomdoctor(home.path(), &[path.to_str().unwrap()], "");
    assert_eq!(code(&plain), 0, "{plain:?}");
    assert!(text(&plain.stdout).contains("4242"), "{plain:?}");
}
