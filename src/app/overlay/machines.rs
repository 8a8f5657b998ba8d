//! Owns the table of the machines, to open one of them.

use std::cmp::Reverse;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent};

use super::{Body, Hint, Item, Line, Outcome, Overlay, covered};
use crate::advice::other_machine;
use crate::app::action::Action;
use crate::app::keymap::Keymap;
use crate::app::layout::{page_height, page_width};
use crate::app::model::{Host, Model};
use crate::app::update::hosts;
use crate::app::wants::wrapped;
use crate::gpu::Snapshot;
use crate::gpu::activity::Activity;
use crate::gpu::history::History;
use crate::hosts::summary::Summary;
use crate::hosts::{Allotment, HostName};
use crate::knowledge::page::Tone;
use crate::text::harmless;
use crate::units::Bytes;

/// The table, in the order in which its rows were put when its key was pressed: a newer reading moves none of them under
/// the person's finger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machines {
    sorted: By,
    /// Machines that are not among them come last.
    order: Vec<HostName>,
}

/// By which column the machines are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum By {
    /// As they were asked for.
    #[default]
    Asked,
    Free,
    /// The most that is free on one GPU.
    Most,
    /// What idle processes use.
    Idle,
}

impl By {
    fn next(self) -> By {
        match self {
            By::Asked => By::Free,
            By::Free => By::Most,
            By::Most => By::Idle,
            By::Idle => By::Asked,
        }
    }

    fn column(self) -> usize {
        match self {
            By::Asked => 0,
            By::Free => 2,
            By::Most => 3,
            By::Idle => 4,
        }
    }

    /// What is sorted by, the largest first; `None` for a machine of which it is unknown, which comes last.
    fn of(self, summary: &Summary) -> Option<Bytes> {
        match self {
            By::Asked => None,
            By::Free => summary.free.least(),
            By::Most => summary.most.map(|(free, _)| free),
            By::Idle => summary.idle.used.least(),
        }
    }
}

impl Machines {
    /// The same sorted by the next column.
    fn sorted_by_next(&self, model: &Model) -> Machines {
        let sorted = self.sorted.next();
        let mut machines: Vec<&Host> = model.hosts.all.iter().collect();
        machines.sort_by_cached_key(|host| Reverse(host.summary().and_then(|summary| sorted.of(&summary))));
        Machines { sorted, order: machines.into_iter().map(|host| host.told.name.clone()).collect() }
    }

    /// The machines in the order of the rows, below this machine's.
    fn rows<'m>(&self, model: &'m Model) -> Vec<&'m Host> {
        let mut rows: Vec<&Host> = model.hosts.all.iter().collect();
        let place = |host: &&Host| self.order.iter().position(|name| *name == host.told.name).unwrap_or(usize::MAX);
        rows.sort_by_key(place);
        rows
    }

    fn headings(&self, names: usize) -> Line {
        let mut headings = HEADINGS.map(str::to_owned);
        if let Some(sorted) = headings.get_mut(self.sorted.column()) {
            *sorted = format!("[{sorted}]");
        }
        Line::Text(Tone::Quiet, format!("  {}", in_columns(&headings, names)))
    }
}

/// The fewest columns of a machine's name, and the most where the screen has room for them; longer ones are cut.
const NAME: (usize, usize) = (12, 32);
/// What the other columns take, with the mark of the list in front.
const OTHER_COLUMNS: usize = 60;
/// The mark of the machine on which the log says that its run failed.
const OF_THE_LOG: &str = "log";
const HEADINGS: [&str; 6] = ["machine", "GPUs", "free", "most on GPU", "idle", "read"];
/// Lines of what is to be known of the selected machine.
const MOST_DETAILS: usize = 4;

impl Overlay for Machines {
    fn title(&self) -> &'static str {
        "Machines"
    }

    fn body(&self, model: &Model) -> Body {
        let rows = self.rows(model);
        let names = name_width(&rows, page_width(model.size));
        let here = Item { key: None, words: row_of_home(model, names) };
        let named = model.machine_of_the_log().map(|host| &host.told.name);
        let others = rows.iter().map(|host| item(model, host, names, named == Some(&host.told.name)));
        let items = std::iter::once(here).chain(others).collect();
        let selected = model.overlay.as_ref().and_then(|open| rows.get(open.at.checked_sub(1)?));
        let width = page_width(model.size);
        // The window keeps its height while the selection moves.
        let height = rows.iter().map(|host| details(host, named, width).len()).max().unwrap_or_default();
        let mut below = selected.map(|host| details(host, named, width)).unwrap_or_default();
        below.resize(height, Line::Text(Tone::Quiet, String::new()));
        let most_shown = page_height(model.size).saturating_sub(height + 1).max(1);
        Body::List { above: vec![self.headings(names)], items, if_empty: "", most_shown, below }
    }

    fn hints(&self, _model: &Model) -> Vec<Hint> {
        vec![("↑↓".to_owned(), "move"), ("Enter".to_owned(), "open"), ("t".to_owned(), "sort")]
    }

    fn action(&self, key: KeyEvent, _keys: &Keymap) -> Option<Action> {
        (key.code == KeyCode::Char('t')).then_some(Action::Sort)
    }

    fn act(&self, model: &mut Model, at: usize, action: Action) -> Outcome {
        match action {
            Action::Enter => self.opened(model, at),
            Action::Sort => Outcome::Opens(Box::new(self.sorted_by_next(model)), Vec::new()),
            Action::Machines => Outcome::Closes(Vec::new()),
            other => covered(other),
        }
    }
}

impl Machines {
    /// The first row is this machine.
    fn opened(&self, model: &mut Model, at: usize) -> Outcome {
        let Some(before) = at.checked_sub(1) else {
            hosts::open(model, None);
            return Outcome::Closes(Vec::new());
        };
        let Some(host) = self.rows(model).get(before).copied() else { return Outcome::Stays };
        // Why a machine has no reading stands below the table.
        if host.latest.is_none() {
            return Outcome::Stays;
        }
        let name = host.told.name.clone();
        hosts::open(model, Some(&name));
        Outcome::Closes(Vec::new())
    }
}

/// What the mark of the log means, why the machine has no reading and what its scheduler says, whole, as far as there is room.
fn details(host: &Host, named: Option<&HostName>, width: usize) -> Vec<Line> {
    let name = &host.told.name;
    let is_of_the_log = named == Some(&host.told.name);
    let mark = is_of_the_log.then(|| format!("{name}: the log says that its run failed there"));
    let why = host.down().map(|why| format!("{name}: {}", harmless(&why.to_string())));
    let allotment = host.told.allotment.as_ref();
    let given = allotment.into_iter().flat_map(|all| &all.given_to).map(ToString::to_string);
    let scheduler = allotment.map(|all| {
        let texts: Vec<String> = std::iter::once(all.in_words()).chain(given).collect();
        format!("{name}: {}", texts.join("; "))
    });
    let lines = mark.into_iter().chain(why).chain(scheduler).flat_map(|text| wrapped(&text, width));
    lines.take(MOST_DETAILS).map(|text| Line::Text(Tone::Quiet, text)).collect()
}

/// The columns that names take: as many as the longest needs, where the other columns leave them.
fn name_width(rows: &[&Host], width: usize) -> usize {
    let longest = rows.iter().map(|host| host.told.name.as_str().chars().count()).max().unwrap_or_default();
    let (fewest, most) = NAME;
    longest.min(width.saturating_sub(OTHER_COLUMNS)).clamp(fewest, most)
}

fn row_of_home(model: &Model, names: usize) -> String {
    let home = model.hosts.away.as_ref().map_or(&model.feed, |away| &away.home);
    let figures = home.latest.as_deref().map(|snapshot| summary(snapshot, &home.history));
    row("this machine", names, figures, age(model, home.received))
}

fn item(model: &Model, host: &Host, names: usize, is_named: bool) -> Item {
    let name = host.told.name.as_str();
    let mark = is_named.then(|| OF_THE_LOG.to_owned());
    let allotment = host.told.allotment.as_ref().map(Allotment::in_words);
    // What to do about it stands below the table.
    let why = host.down().map(|why| format!("({})", harmless(&why.why)));
    let figures = host.summary();
    let parts = if figures.is_none() && (why.is_some() || allotment.is_some()) {
        let what = allotment.or(why).unwrap_or_default();
        [Some(format!("{}{what}", padded(name, names))), mark, None, None]
    } else {
        [Some(row(name, names, figures, age(model, host.received))), mark, allotment, why]
    };
    Item { key: None, words: parts.into_iter().flatten().collect::<Vec<_>>().join("  ") }
}

/// How long ago a reading came, in seconds.
fn age(model: &Model, received: Option<Duration>) -> Option<u64> {
    received.map(|at| model.now.saturating_sub(at).as_secs())
}

impl Host {
    /// Its figures, once it was read.
    fn summary(&self) -> Option<Summary> {
        self.latest.as_deref().map(|snapshot| summary(snapshot, &self.history))
    }
}

/// The figures of a machine, with what was watched of it so far.
fn summary(snapshot: &Snapshot, history: &History) -> Summary {
    Summary::of(snapshot, |device, process| Activity::of(Some(history), Some(device), process))
}

fn row(name: &str, names: usize, summary: Option<Summary>, age_seconds: Option<u64>) -> String {
    let Some(Summary { gpus, free, most, idle }) = summary else {
        return format!("{}(no reading yet)", padded(name, names));
    };
    let age = age_seconds.map_or_else(|| "?".to_owned(), |age| format!("{age} s"));
    let (free, most) = match gpus {
        0 => ("-".to_owned(), "-".to_owned()),
        _ => (free.to_string(), most.map_or_else(|| "?".to_owned(), |(free, index)| format!("{free} on {index}"))),
    };
    in_columns(&[name.to_owned(), gpus.to_string(), free, most, idle.in_words(", ", "-"), age], names)
}

fn in_columns(cells: &[String; 6], names: usize) -> String {
    let [name, gpus, free, most, idle, age] = cells;
    let name = padded(name, names);
    format!("{name}{gpus:>4}  {free:>10}  {most:<13}  {idle:<12}  {age}")
}

fn padded(name: &str, width: usize) -> String {
    let name = harmless(name);
    if name.chars().count() <= width {
        return format!("{name:<width$}  ");
    }
    let cut: String = name.chars().take(width.saturating_sub(1)).collect();
    format!("{cut}…  ")
}

impl Model {
    /// Which of the machines the log names as the one on which it failed first.
    fn machine_of_the_log(&self) -> Option<&Host> {
        other_machine::failed_on(self.input.diagnosis.as_ref()?, &self.hosts.all, |host| &host.told)
    }

    /// How the machine is opened on which the log's run failed, where it was read and is not on the screen.
    pub(crate) fn way_to_the_logs_machine(&self) -> Option<String> {
        let host = self.machine_of_the_log().filter(|host| host.latest.is_some())?;
        let name = &host.told.name;
        let is_open = self.hosts.away.as_ref().is_some_and(|away| away.name == *name);
        let key = self.key(Action::Machines);
        (!is_open).then(|| format!("The log is from {name}: {key} and Enter open that machine."))
    }
}

/// The table, with the machine that the log names selected.
pub(crate) fn toggle(model: &mut Model) {
    let table = Machines::default();
    let named = model.machine_of_the_log().map(|host| &host.told.name);
    let at = named.and_then(|name| table.rows(model).iter().position(|host| host.told.name == *name));
    model.toggle(table);
    if let (Some(open), Some(at)) = (&mut model.overlay, at) {
        // The first row is this machine.
        open.at = at + 1;
    }
}
