//! Owns the list of the places on this machine that have a log, to read one of them.

use super::{Body, Hint, Item, Line, Outcome, Overlay, covered};
use crate::app::action::Action;
use crate::app::effect::Effect;
use crate::app::layout::page_height;
use crate::app::model::Model;
use crate::app::update::found;
use crate::knowledge::diagnosis::Oom;
use crate::knowledge::page::Tone;
use crate::source::{Kind, Looked};
use crate::text::harmless;
use crate::units::WallTime;

/// What is asked only when it is picked: it may be another machine.
const ASKED_WHEN_PICKED: [(Kind, &str); 2] = [
    (Kind::Slurm, "Ask Slurm for jobs that ended in the last 2 hours"),
    (Kind::Pod, "Ask Kubernetes for pods with a failed container"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found;

impl Overlay for Found {
    fn title(&self) -> &'static str {
        "Logs found here"
    }

    fn body(&self, model: &Model) -> Body {
        let places = model.found.places.as_deref().unwrap_or_default();
        let mut items: Vec<Item> = readable(places).map(|looked| in_words(looked, model.wall)).collect();
        items.extend(not_asked(places).map(|(_, words)| Item { key: None, words: (*words).to_owned() }));
        let mut above: Vec<Line> = places.iter().filter_map(unreadable).collect();
        if model.found.is_looking {
            above.push(Line::Text(Tone::Quiet, "Looking…".to_owned()));
        }
        Body::List { above, items, if_empty: "", most_shown: page_height(model.size) }
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
    let places = model.found.places.as_deref().unwrap_or_default();
    let id = readable(places).nth(at).map(|looked| looked.id.clone());
    let beyond = at.saturating_sub(readable(places).count());
    let kind = not_asked(places).nth(beyond).map(|(kind, _)| *kind);
    if let Some(id) = id {
        return Outcome::Closes(vec![found::read(model, id)]);
    }
    let Some(kind) = kind else { return Outcome::Stays };
    model.found.is_looking = true;
    Outcome::Opens(Box::new(Found), vec![Effect::FindLogs(vec![kind])])
}

/// What has not been asked yet, with its words.
fn not_asked(places: &[Looked]) -> impl Iterator<Item = &'static (Kind, &'static str)> {
    ASKED_WHEN_PICKED.iter().filter(|(kind, _)| places.iter().all(|looked| looked.kind != *kind))
}

fn readable(places: &[Looked]) -> impl Iterator<Item = &Looked> {
    places.iter().filter(|looked| looked.unreadable_reason.is_none())
}

fn unreadable(looked: &Looked) -> Option<Line> {
    let why = looked.unreadable_reason.as_deref()?;
    Some(Line::Text(Tone::Quiet, format!("{}: {}", harmless(&looked.title), harmless(why))))
}

fn in_words(looked: &Looked, now: WallTime) -> Item {
    let age = looked.ended_at.map_or_else(String::new, |ended| format!(", {} ago", ended.age_at(now)));
    let place = format!("{}{age}", harmless(&looked.title));
    let words = match (looked.oom, &looked.failure) {
        (Some(Oom::Yes), Some(failure)) => format!("{}: {place}", harmless(failure)),
        (Some(Oom::Maybe), Some(failure)) => format!("perhaps {}: {place}", harmless(failure)),
        (None, _) => format!("not read yet: {place}"),
        _ => format!("no failure: {place}"),
    };
    Item { key: None, words }
}
