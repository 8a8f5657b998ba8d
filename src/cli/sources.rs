//! Owns `oomdoctor sources`, which lists where failed logs lie, as a table or as JSON.

use std::process::ExitCode;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use schemars::JsonSchema;
use serde::Serialize;
use strum::IntoEnumIterator;

use super::kb::base;
use super::output::{pretty, print, refuse};
use super::settings::Global;
use crate::gpu::SCHEMA;
use crate::knowledge::KnowledgeBase;
use crate::knowledge::diagnosis::Oom;
use crate::runtime::reader::Telling;
use crate::runtime::sources::{self, Found};
use crate::source::region::log_of;
use crate::source::{Kind, Looked, SourceId};
use crate::text::harmless;
use crate::units::WallTime;

#[derive(Debug, Args)]
pub struct SourcesArgs {
    /// Ask only these kinds; Slurm and Kubernetes (`slurm`, `pod`) are asked only if named.
    #[arg(value_name = "KIND", value_parser = kinds())]
    kinds: Vec<Kind>,
    /// Print JSON (schema 1).
    #[arg(long)]
    json: bool,
}

/// The names of all kinds, so that a mistyped one gets a suggestion.
fn kinds() -> impl TypedValueParser<Value = Kind> {
    let names: Vec<&'static str> = Kind::iter().map(Into::into).collect();
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Kind>())
}

/// The output of `oomdoctor sources --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Sources {
    schema: u32,
    /// The best first: a log that shows a failure, then the newest.
    sources: Vec<Looked>,
}

/// Exits with 0 if a log shows that memory ran out or may have, else with 1.
pub(super) fn run(global: &Global, asked: &SourcesArgs) -> ExitCode {
    let base = match base(global) {
        Ok(base) => base,
        Err(why) => return refuse(&why),
    };
    let telling = Telling::default();
    telling.learn(base);
    let found = sources::find(&global.sampling, &asked.kinds, &telling, |looked, log| judge(base, looked, log));
    let shows_one = found.iter().any(Looked::shows_a_failure);
    let text = if asked.json {
        match pretty(&Sources { schema: SCHEMA, sources: found }) {
            Ok(text) => text,
            Err(why) => return refuse(&why),
        }
    } else {
        table(&found, &asked.kinds)
    };
    print(&text, if shows_one { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn judge(base: &KnowledgeBase, looked: &mut Looked, (bytes, _): Found) {
    let log = log_of(base, looked.kind, bytes);
    if log.is_binary() {
        looked.unreadable_reason = Some("it is not text".to_owned());
        return;
    }
    let diagnosis = base.diagnose(&log, Some(&jiff::Zoned::now()));
    looked.oom = Some(diagnosis.oom);
    if diagnosis.oom != Oom::No {
        let leading = diagnosis.matches.first().and_then(|found| base.entry(found.entry));
        looked.failure = leading.map(|entry| entry.title.clone());
        looked.ended_at = diagnosis.crashed_at.or(looked.ended_at);
    }
}

fn table(found: &[Looked], kinds: &[Kind]) -> String {
    let now = WallTime(jiff::Timestamp::now());
    let readable: Vec<&Looked> = found.iter().filter(|looked| looked.unreadable_reason.is_none()).collect();
    let mut lines = Vec::new();
    let wide = readable.iter().map(|looked| id_of(looked).chars().count()).max().unwrap_or(0);
    for looked in &readable {
        let id = harmless(&id_of(looked)).into_owned();
        let age = looked.ended_at.map_or_else(|| "-".to_owned(), |ended| ended.age_at(now));
        let said = match (looked.oom, &looked.failure) {
            (Some(Oom::Yes), Some(failure)) => failure.clone(),
            (Some(Oom::Maybe), Some(failure)) => format!("perhaps: {failure}"),
            (Some(_), _) => "no out-of-memory line".to_owned(),
            (None, _) => "not read".to_owned(),
        };
        lines.push(format!("{id:wide$}  {age:>8}  {}", harmless(&looked.title)));
        lines.push(format!("{:wide$}  {:>8}  {}", "", "", harmless(&said)));
    }
    if readable.is_empty() {
        lines.push("No log that can be read was found here.".to_owned());
    }
    let silent = found.iter().filter_map(|looked| Some((looked, looked.unreadable_reason.as_deref()?)));
    for (looked, why) in silent {
        lines.push(format!("{}: {}", harmless(&looked.title), harmless(why)));
    }
    if kinds.is_empty() {
        lines.push("Slurm and Kubernetes were not asked: `oomdoctor sources slurm pod` asks them.".to_owned());
    }
    if let Some(first) = readable.first() {
        lines.push(format!(
            "Read one: oomdoctor diagnose --from {}",
            shlex::try_quote(&id_of(first)).unwrap_or_default()
        ));
    }
    lines.join("\n") + "\n"
}

fn id_of(looked: &Looked) -> String {
    looked.id.as_ref().map(SourceId::to_string).unwrap_or_default()
}
