//! Owns the list of the places on this machine that have a log, to read one of them.

use super::{Body, Hint, Item, Line, Outcome, Overlay, covered};
use crate::app::action::Action;
use crate::app::effect::Effect;
use crate::app::layout::page_height;
use crate::app::model::Model;
use crate::app::update::found;
use crate::knowledge::diagnosis::Oom;
use crate::knowledge::page::Tone;
use crate::source::{Kind, Looked, SourceId};
use crate::text::harmless;
use crate::units::WallTime;

/// What is asked only when it is picked: it may be another machine.
const ASKED_WHEN_PICKED: [(Kind, &str); 2] = [
    (Kind::Slurm, "Ask Slurm for jobs that ended in the last 2 hours"),
    (Kind::Pod, "Ask Kubernetes for pods with a failed container"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found;

/// What picking a row does.
enum Row<'m> {
    Place(&'m Looked, &'m SourceId),
    Ask(Kind, &'static str),
    /// A place that could not be asked or read.
    Silent(&'m Looked, &'m str),
}

impl Overlay for Found {
    fn title(&self) -> &'static str {
        "Logs found here"
    }

    fn body(&self, model: &Model) -> Body {
        let items = rows(model).into_iter().map(|row| Item { key: None, words: row.in_words(model.wall) }).collect();
        let looking = model.found.is_looking.then(|| Line::Text(Tone::Quiet, "Looking…".to_owned()));
        let above = looking.into_iter().collect();
        Body::List { above, items, if_empty: "", most_shown: page_height(model.size), below: Vec::new() }
    }

    fn hints(&self, _model: &Model) -> Vec<Hint> {
        vec![("↑↓".to_owned(), "move"), ("Enter".to_owned(), "read")]
    }

    fn act(&self, model: &mut Model, at: usize, action: Action) -> Outcome {
        match action {
            Action::Enter => picked(model, at),
            Action::FoundLogs => Outcome::Closes(Vec::new()),
            other => covered(other),
        }
    }
}

fn picked(model: &mut Model, at: usize) -> Outcome {
    let (place, kind) = match rows(model).into_iter().nth(at) {
        Some(Row::Place(_, id)) => (Some(id.clone()), None),
        Some(Row::Ask(kind, _)) => (None, Some(kind)),
        Some(Row::Silent(..)) | None => (None, None),
    };
    if let Some(id) = place {
        return Outcome::Closes(vec![found::read(model, id)]);
    }
    let Some(kind) = kind else { return Outcome::Stays };
    model.found.is_looking = true;
    Outcome::Opens(Box::new(Found), vec![Effect::FindLogs(vec![kind])])
}

/// What can be read first, then what can be asked, then what could not be.
fn rows(model: &Model) -> Vec<Row<'_>> {
    let places = model.found.places.as_deref().unwrap_or_default();
    let readable = places.iter().filter(|looked| looked.unreadable_reason.is_none());
    let mut rows: Vec<Row<'_>> = readable.filter_map(|looked| Some(Row::Place(looked, looked.id.as_ref()?))).collect();
    let not_asked = ASKED_WHEN_PICKED.iter().filter(|(kind, _)| places.iter().all(|looked| looked.kind != *kind));
    rows.extend(not_asked.map(|(kind, words)| Row::Ask(*kind, words)));
    rows.extend(places.iter().filter_map(|looked| Some(Row::Silent(looked, looked.unreadable_reason.as_deref()?))));
    rows
}

impl Row<'_> {
    fn in_words(&self, now: WallTime) -> String {
        match self {
            Row::Place(looked, _) => in_words(looked, now),
            Row::Ask(_, words) => (*words).to_owned(),
            Row::Silent(looked, why) => format!("({}: {})", harmless(&looked.title), harmless(why)),
        }
    }
}

fn in_words(looked: &Looked, now: WallTime) -> String {
    let age = looked.ended_at.map_or_else(String::new, |ended| format!(", {} ago", ended.age_at(now)));
    let place = format!("{}{age}", harmless(&looked.title));
    match (looked.oom, &looked.failure) {
        (Some(Oom::Yes), Some(failure)) => format!("{}: {place}", harmless(failure)),
        (Some(Oom::Maybe), Some(failure)) => format!("perhaps {}: {place}", harmless(failure)),
        (None, _) => format!("not read yet: {place}"),
        _ => format!("no out-of-memory line: {place}"),
    }
}
