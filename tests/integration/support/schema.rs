//! Holds what the program prints as JSON against the schemas that it prints.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock};

use jsonschema::Validator;
use serde_json::Value;

type Schemas = Mutex<BTreeMap<String, &'static Validator>>;

/// The program's schema of this name.
pub fn schema(name: &str) -> &'static Validator {
    static SCHEMAS: OnceLock<Schemas> = OnceLock::new();
    let mut schemas = SCHEMAS.get_or_init(Schemas::default).lock().unwrap();
    schemas.entry(name.to_owned()).or_insert_with(|| {
        let output = Command::new(env!("CARGO_BIN_EXE_oomdoctor")).args(["schema", name]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let schema = serde_json::from_slice(&output.stdout).unwrap();
        Box::leak(Box::new(jsonschema::draft202012::new(&schema).unwrap()))
    })
}

/// Fails where the value is not as the schema says, and says where.
#[track_caller]
pub fn assert_valid(name: &str, value: &Value) {
    let faults: Vec<String> =
        schema(name).iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(faults.is_empty(), "not as `oomdoctor schema {name}` says:\n{}", faults.join("\n"));
}

/// The same of what a command printed; an answer in words, or none, is not judged.
#[track_caller]
pub fn assert_output_valid(arguments: &[&str], output: &Output) {
    if !arguments.contains(&"--json") {
        return;
    }
    let Ok(value) = serde_json::from_slice::<Value>(&output.stdout) else { return };
    let name = match arguments.iter().find(|argument| ["diagnose", "fit", "ps"].contains(argument)) {
        Some(&"fit") if value.get("models").is_some() => "fit-models",
        Some(&"fit") if value.get("hosts").is_some() => "fit-hosts",
        Some(&"ps") if value.get("hosts").is_some() => "ps-hosts",
        Some(name) => name,
        None => panic!("a JSON output without a schema: {arguments:?}"),
    };
    assert_valid(name, &value);
}
