//! The JSON that scripts read: every output of the command line, held against what `tests/golden/json` records of it.

use std::fs;
use std::path::{Path, PathBuf};

use oomdoctor::advice::{Situation, advise};
use oomdoctor::knowledge::KnowledgeBase;
use oomdoctor::log::PastedLog;
use oomdoctor::report::Report;
use oomdoctor::report::json::Output;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::fit::{card, fit, small_model};
use crate::papers::rust_files;
use crate::support::fake_driver::FakeDriver;
use crate::support::machine::Machine;
use crate::support::schema::{assert_valid, schema};

/// What differs from machine to machine and from run to run.
const VOLATILE: [&str; 19] = [
    "boot_id",
    "container",
    "cpu_ticks",
    "group",
    "host",
    "idle_seconds",
    "image",
    "managed_by",
    "parent_pid",
    "pid",
    "seen_from",
    "session",
    "start_ticks",
    "started_at",
    "state",
    "taken_at",
    "uid",
    "unseen_processes",
    "user",
];

/// The output without what differs from run to run and without the wording of sentences, which is no contract.
fn outline(value: &Value, folder: &str) -> Value {
    match value {
        Value::Object(fields) => {
            Value::Object(fields.iter().filter_map(|field| outlined_field(field, folder)).collect())
        }
        Value::Array(items) => items.iter().map(|item| outline(item, folder)).collect(),
        Value::String(text) if text.contains(' ') => json!("(words)"),
        Value::String(text) => json!(text.replace(folder, "FOLDER")),
        other => other.clone(),
    }
}

fn outlined_field((name, value): (&String, &Value), folder: &str) -> Option<(String, Value)> {
    let reading = name.strip_suffix("_reason").unwrap_or(name);
    if !VOLATILE.contains(&reading) {
        return Some((name.clone(), outline(value, folder)));
    }
    (reading == name).then(|| (name.clone(), json!("(varies)")))
}

/// Compares an output with its record and with its schema. `UPDATE_GOLDEN=1` writes the record anew.
#[track_caller]
fn assert_recorded(schema: &str, name: &str, output: &Value, folder: &Path) {
    assert_valid(schema, output);
    assert_wrong_fields_are_invalid(schema, output);
    let now = format!("{:#}\n", outline(output, folder.to_str().unwrap()));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/json").join(format!("{name}.json"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &now).unwrap();
    }
    let recorded = fs::read_to_string(&path).unwrap();
    let is_shared = |line: &&str, other: &str| other.lines().any(|own| own == *line);
    let more: Vec<&str> = now.lines().filter(|line| !is_shared(line, &recorded)).collect();
    let fewer: Vec<&str> = recorded.lines().filter(|line| !is_shared(line, &now)).collect();
    assert!(now == recorded, "{name}: {more:?} instead of {fewer:?}; UPDATE_GOLDEN=1 records it as it is now");
}

/// Fields that an output leaves out where their value is unknown, or that are names of a program's own settings.
fn is_optional(path: &str, field: &str) -> bool {
    let log_alone = ["/facts", "/run", "/allocations"].iter().any(|part| path.starts_with(part));
    log_alone
        || field == "allocations"
        || field.ends_with("_reason")
        || ["condition", "gpu_candidates", "not_offered", "notes", "versions"].contains(&field)
}

/// A schema that takes a field of another type, another name or none at all would find no fault.
#[track_caller]
fn assert_wrong_fields_are_invalid(name: &str, output: &Value) {
    let mut wrong = Vec::new();
    for path in objects(output, String::new()) {
        let fields = output.pointer(&path).unwrap().as_object().unwrap();
        if path == "/run/printed" {
            continue;
        }
        wrong.push((format!("{path} with one more"), changed(output, &path, "unknown_field", Some(json!(1)))));
        for field in fields.keys() {
            wrong
                .push((format!("{path}/{field} as a list of lists"), changed(output, &path, field, Some(json!([[]])))));
            if !is_optional(&path, field) {
                wrong.push((format!("{path} without {field}"), changed(output, &path, field, None)));
            }
        }
    }
    let accepted: Vec<&String> =
        wrong.iter().filter(|(_, value)| schema(name).is_valid(value)).map(|(what, _)| what).collect();
    assert!(accepted.is_empty(), "`oomdoctor schema {name}` accepts {accepted:#?}");
}

/// The pointers to all objects.
fn objects(value: &Value, path: String) -> Vec<String> {
    let inside: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    let mut found: Vec<String> =
        inside.into_iter().flat_map(|(name, value)| objects(value, format!("{path}/{name}"))).collect();
    if value.is_object() {
        found.push(path);
    }
    found
}

/// The output with one field of one object set or left out.
fn changed(output: &Value, path: &str, field: &str, value: Option<Value>) -> Value {
    let mut changed = output.clone();
    let fields = changed.pointer_mut(path).unwrap().as_object_mut().unwrap();
    match value {
        Some(value) => fields.insert(field.to_owned(), value),
        None => fields.remove(field),
    };
    changed
}

fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}

/// A folder with one small model, which is also the home folder whose model stores `fit` lists.
fn folder_with_model() -> (tempfile::TempDir, String) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".lmstudio/models/me/Tiny-GGUF/tiny-f16.gguf");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    small_model(&file);
    let path = file.to_str().unwrap().to_owned();
    (home, path)
}

#[test]
fn diagnose_prints_the_recorded_json() {
    let machine = Machine::new();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("crash.log");
    fs::write(&log, machine.log()).unwrap();
    let output = machine.driver.output(&["diagnose", log.to_str().unwrap(), "--json"]);
    assert_recorded("diagnose", "diagnose", &parsed(&output.stdout), folder.path());
    let output = machine.driver.output(&["diagnose", log.to_str().unwrap(), "--json", "--why"]);
    assert_recorded("diagnose", "diagnose-why", &parsed(&output.stdout), folder.path());
    fs::write(&log, "all is well\n").unwrap();
    let output = machine.driver.output(&["diagnose", log.to_str().unwrap(), "--json", "--no-live"]);
    assert_recorded("diagnose", "diagnose-no", &parsed(&output.stdout), folder.path());
    fs::write(&log, machine.log()).unwrap();
    let output = FakeDriver::not_loaded().output(&["diagnose", log.to_str().unwrap(), "--json", "--no-live"]);
    assert_recorded("diagnose", "diagnose-no-live", &parsed(&output.stdout), folder.path());
    let snapshot = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/snapshots/leak.json");
    let output = machine.driver.output(&["diagnose", snapshot.to_str().unwrap(), "--json", "--no-live"]);
    assert_recorded("diagnose", "diagnose-snapshot", &parsed(&output.stdout), folder.path());
    fs::write(&log, RANKS).unwrap();
    let output = machine.driver.output(&["diagnose", log.to_str().unwrap(), "--json", "--no-live"]);
    let diagnosis = parsed(&output.stdout);
    assert_recorded("diagnose", "diagnose-ranks", &diagnosis, folder.path());
    let first = json!({"host": "node07", "rank": 11, "pid": 12345, "device": 3, "line": 2});
    assert_eq!(diagnosis.pointer("/facts/first_failure"), Some(&first));
}

/// Two ranks of a job, of which one ran out of memory.
const RANKS: &str = "\
[rank8]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error
[rank11]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB of which 1.00 GiB is free.
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_10:00:12
  host      : node07
  rank      : 11 (local_rank: 3)
  exitcode  : 1 (pid: 12345)
  error_file: <N/A>
";

/// The part of a scenario that is read here; `tests/scenarios` judges the rest.
#[derive(Deserialize)]
struct Scenario {
    /// Empty where a memory snapshot alone is diagnosed.
    #[serde(default)]
    log: String,
}

#[test]
fn the_diagnosis_of_every_scenario_is_as_the_schema_says() {
    let base = KnowledgeBase::built_in().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let files = fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_file());
    let mut validated = 0;
    for file in files {
        let scenario: Scenario = ron::from_str(&fs::read_to_string(file.path()).unwrap()).unwrap();
        let diagnosis = base.diagnose(&PastedLog::new(&scenario.log), None);
        let fixes = base.leading_fixes(&diagnosis);
        let advice = advise(&Situation { fixes: &fixes, ..Situation::alone(&diagnosis) });
        let report = Report::of(&diagnosis, &advice);
        assert_valid("diagnose", &serde_json::to_value(Output::of(&report)).unwrap());
        validated += 1;
    }
    assert!(validated > 50, "{validated}");
}

#[test]
fn ps_prints_the_recorded_json() {
    let machine = Machine::new();
    assert_recorded("ps", "ps", &parsed(&machine.driver.output(&["ps", "--json"]).stdout), Path::new("/nowhere"));
}

#[test]
fn sample_prints_the_recorded_lines() {
    let machine = Machine::new();
    let output = machine.driver.output(&["sample", "--count", "1"]);
    let lines: Vec<Value> =
        output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(parsed).collect();
    assert_eq!(lines.len(), 2);
    for (name, line) in ["sample-header", "sample"].iter().zip(&lines) {
        assert_recorded("sample", name, line, Path::new("/nowhere"));
    }
}

#[test]
fn fit_prints_the_recorded_json() {
    let (home, file) = folder_with_model();
    let answer = |driver: &FakeDriver, arguments: &[&str]| {
        parsed(&fit(driver, home.path(), &[arguments, &["--json"]].concat()).stdout)
    };
    let two_cards = FakeDriver::new("(gpus: [(base: 22548578304), (base: 22548578304)])");
    for (name, answer) in [
        ("fit", answer(&card(8), &[&file, "--context", "32K"])),
        ("fit-too-big", answer(&card(2), &[&file, "--context", "32K"])),
        ("fit-no-driver", answer(&FakeDriver::not_loaded(), &[&file])),
        ("fit-spread", answer(&two_cards, &[&file, "--context", "32K"])),
        ("fit-image-model", answer(&card(8), &["flux.1-dev"])),
        ("fit-models", answer(&card(8), &[])),
    ] {
        let schema = if name == "fit-models" { name } else { "fit" };
        assert_recorded(schema, name, &answer, home.path());
    }
}

#[test]
fn schema_lists_the_outputs_and_refuses_any_other_name() {
    let driver = FakeDriver::not_loaded();
    let list = driver.output(&["schema"]);
    let list = String::from_utf8(list.stdout).unwrap();
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["diagnose", "fit", "fit-models", "fit-hosts", "ps", "ps-hosts", "sources", "sample"]);
    for name in names {
        assert!(!schema(name).is_valid(&json!({})), "{name} accepts anything");
    }
    let other = driver.output(&["schema", "kill"]);
    assert_eq!((other.status.code(), other.stdout.len()), (Some(2), 0));
}

/// JSON that is built by hand has no schema.
#[test]
fn no_shipped_code_builds_json_by_hand() {
    let mut files = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let by_hand: Vec<&PathBuf> =
        files.iter().filter(|path| fs::read_to_string(path).unwrap().contains("json!(")).collect();
    assert!(by_hand.is_empty(), "{by_hand:?}");
}

/// Records that differ in nothing would hold nothing.
#[test]
fn a_field_more_or_less_is_a_difference() {
    let before = json!({"devices": [{"index": 0, "pid": 7}]});
    for (after, is_different) in [
        (json!({"devices": [{"index": 0, "pid": 8}]}), false),
        (json!({"devices": [{"index": 1, "pid": 7}]}), true),
        (json!({"devices": [{"index": 0}]}), true),
        (json!({"devices": [{"index": 0, "pid": 7, "more": Map::new()}]}), true),
    ] {
        assert_eq!(outline(&before, "/nowhere") != outline(&after, "/nowhere"), is_different, "{after}");
    }
}
