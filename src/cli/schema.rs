//! Owns `oomdoctor schema`, which prints the JSON Schema of each output, derived from the types that are serialized.

use std::process::ExitCode;

use clap::ValueEnum;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

use super::fit::{Fit, FitHosts, FitModels};
use super::output::{pretty, print, refuse};
use super::ps;
use super::sources::Sources;
use crate::gpu::{Header, Snapshot};
use crate::report::json::Output;

/// An output that has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// `oomdoctor diagnose --json`: what ran out, why, and what to do.
    Diagnose,
    /// `oomdoctor fit MODEL --json`: whether the model fits, and what would make it fit.
    Fit,
    /// `oomdoctor fit --json`: the models on this machine, and how each fits.
    FitModels,
    /// `oomdoctor fit MODEL --json --host NAME`: on which of several machines it fits.
    FitHosts,
    /// `oomdoctor ps --json`: the GPUs and their processes.
    Ps,
    /// `oomdoctor ps --json --host NAME`: the same of several machines.
    PsHosts,
    /// `oomdoctor sources --json`: where failed logs lie.
    Sources,
    /// `oomdoctor sample`: each line, the header first and then one reading a line.
    Sample,
}

/// A line of `oomdoctor sample`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used: each line is printed on its own")]
enum Line {
    Header(Header),
    Reading(Box<Snapshot>),
}

/// Prints the schema of one output; without a name, lists all of them.
pub(super) fn run(name: Option<Name>) -> ExitCode {
    match name.map_or_else(|| Ok(list()), |name| pretty(&schema(name))) {
        Ok(text) => print(&text, ExitCode::SUCCESS),
        Err(message) => refuse(&message),
    }
}

fn list() -> String {
    let values = Name::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    values
        .map(|value| format!("{:<11} {}\n", value.get_name(), value.get_help().cloned().unwrap_or_default()))
        .collect()
}

fn schema(name: Name) -> Schema {
    match name {
        Name::Diagnose => schema_of::<Output>(),
        Name::Fit => schema_of::<Fit>(),
        Name::FitModels => schema_of::<FitModels>(),
        Name::FitHosts => schema_of::<FitHosts>(),
        Name::Ps => schema_of::<ps::Listing>(),
        Name::PsHosts => schema_of::<ps::Listings>(),
        Name::Sources => schema_of::<Sources>(),
        Name::Sample => schema_of::<Line>(),
    }
}

fn schema_of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.with_transform(RecursiveTransform(as_printed)).into_generator().into_root_schema_for::<T>()
}

/// Makes the schema of a type as strict as its output.
fn as_printed(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ").replace("`None`", "null");
    }
    let required = schema.get("required").cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        let is_required = required.as_array().is_some_and(|names| names.iter().any(|required| required == name));
        if !is_required {
            refuse_null(property);
        }
    }
    // Without this, a schema would accept a misspelled field.
    schema.ensure_object().entry("additionalProperties").or_insert(false.into());
}

/// Removes null from the types of an optional field: if its value is unknown, the field is left out.
fn refuse_null(property: &mut Value) {
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|name| name != "null");
    }
    if let Some(Value::Array(choices)) = property.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
    }
}
