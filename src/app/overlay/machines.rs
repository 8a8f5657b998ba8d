//! Owns the table of the machines, to open one of them.

use std::time::Duration;

use super::{Body, Hint, Item, Line, Outcome, Overlay, covered};
use crate::advice::other_machine::first_failed_host;
use crate::app::action::Action;
use crate::app::layout::page_height;
use crate::app::model::{Host, Model};
use crate::app::update::hosts;
use crate::gpu::Snapshot;
use crate::gpu::activity::Activity;
use crate::gpu::history::History;
use crate::hosts::summary::Summary;
use crate::knowledge::page::Tone;
use crate::text::harmless;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machines;

/// Columns of a machine's name; longer ones are cut.
const NAME: usize = 12;
const HEADINGS: [&str; 6] = ["machine", "GPUs", "free", "most on GPU", "idle", "read"];

impl Overlay for Machines {
    fn title(&self) -> &'static str {
        "Machines"
    }

    fn body(&self, model: &Model) -> Body {
        let here = Item { key: None, words: row_of_home(model) };
        let named = model.machine_of_the_log();
        let others = model.hosts.all.iter().enumerate().map(|(at, host)| item(model, host, named == Some(at)));
        let items = std::iter::once(here).chain(others).collect();
        let headings = HEADINGS.map(str::to_owned);
        let above = vec![Line::Text(Tone::Quiet, format!("  {}", in_columns(&headings)))];
        Body::List { above, items, if_empty: "", most_shown: page_height(model.size) }
    }

    fn hints(&self, _model: &Model) -> Vec<Hint> {
        vec![("↑↓".to_owned(), "move"), ("Enter".to_owned(), "open")]
    }

    fn act(&self, model: &mut Model, at: usize, action: Action) -> Outcome {
        match action {
            Action::Enter => opened(model, at),
            Action::Machines => Outcome::Closes(Vec::new()),
            other => covered(other),
        }
    }
}

/// The first row is this machine.
fn opened(model: &mut Model, at: usize) -> Outcome {
    let Some(before) = at.checked_sub(1) else {
        hosts::open(model, None);
        return Outcome::Closes(Vec::new());
    };
    let Some(host) = model.hosts.all.get(before) else { return Outcome::Stays };
    match (&host.latest, host.down()) {
        (Some(_), _) => {
            let name = host.told.name.clone();
            hosts::open(model, Some(&name));
            Outcome::Closes(Vec::new())
        }
        (None, Some(why)) => {
            model.say(format!("{}: {}.", host.told.name, harmless(&why.to_string())));
            Outcome::Stays
        }
        (None, None) => Outcome::Stays,
    }
}

fn row_of_home(model: &Model) -> String {
    let home = model.hosts.away.as_ref().map_or(&model.feed, |away| &away.home);
    let figures = home.latest.as_deref().map(|snapshot| summary(snapshot, &home.history));
    row("this machine", figures, age(model, home.received))
}

fn item(model: &Model, host: &Host, is_named: bool) -> Item {
    let name = host.told.name.as_str();
    let figures = host.latest.as_deref().map(|snapshot| summary(snapshot, &host.history));
    let row = match (&figures, host.down()) {
        (None, Some(_)) => padded(name, NAME),
        _ => row(name, figures, age(model, host.received)),
    };
    let words = match host.down() {
        Some(why) => format!("{row}  ({})", harmless(&why.to_string())),
        None if is_named => format!("{row}  log"),
        None => row,
    };
    Item { key: None, words }
}

/// How long ago a reading came, in seconds.
fn age(model: &Model, received: Option<Duration>) -> Option<u64> {
    received.map(|at| model.now.saturating_sub(at).as_secs())
}

/// The figures of a machine, with what was watched of it so far.
fn summary(snapshot: &Snapshot, history: &History) -> Summary {
    Summary::of(snapshot, |device, process| Activity::of(Some(history), Some(device), process))
}

fn row(name: &str, summary: Option<Summary>, age_seconds: Option<u64>) -> String {
    let Some(Summary { gpus, free, most, idle }) = summary else {
        return format!("{}(no reading yet)", padded(name, NAME));
    };
    let age = age_seconds.map_or_else(|| "?".to_owned(), |age| format!("{age} s"));
    let (free, most) = match gpus {
        0 => ("-".to_owned(), "-".to_owned()),
        _ => (free.to_string(), most.map_or_else(|| "?".to_owned(), |(free, index)| format!("{free} on {index}"))),
    };
    in_columns(&[name.to_owned(), gpus.to_string(), free, most, idle.in_words(", ", "-"), age])
}

fn in_columns(cells: &[String; 6]) -> String {
    let [name, gpus, free, most, idle, age] = cells;
    let name = padded(name, NAME);
    format!("{name}{gpus:>4}  {free:>10}  {most:<13}  {idle:<12}  {age}")
}

fn padded(name: &str, width: usize) -> String {
    let name = harmless(name);
    let cut: String = name.chars().take(width).collect();
    format!("{cut:<width$}  ")
}

impl Model {
    /// Which of the machines the log names as the one on which it failed first.
    fn machine_of_the_log(&self) -> Option<usize> {
        let host = first_failed_host(self.input.diagnosis.as_ref()?)?;
        self.hosts.all.iter().position(|known| known.told.is_called(host))
    }
}

/// The table, with the machine that the log names selected.
pub(crate) fn toggle(model: &mut Model) {
    model.toggle(Machines);
    let at = model.machine_of_the_log();
    if let (Some(open), Some(at)) = (&mut model.overlay, at) {
        // The first row is this machine.
        open.at = at + 1;
    }
}
