//! Owns what becomes of logs that were found on this machine: offered, listed, read.

use super::log;
use crate::app::effect::Effect;
use crate::app::model::Model;
use crate::app::overlay::found::Found;
use crate::source::{Kind, Looked, SourceId};
use crate::units::WallTime;

/// Looks for logs, once at the start.
pub fn look_around(model: &mut Model) -> Effect {
    model.found.is_looking = true;
    Effect::FindLogs(Vec::new())
}

/// Opens the list; the places are looked at anew.
pub(super) fn list(model: &mut Model) -> Option<Effect> {
    model.open(Found);
    if model.found.is_looking { None } else { Some(look_around(model)) }
}

/// Reads the best log that was found, where one shows a failure and none is open.
pub(super) fn read_best(model: &mut Model) -> Option<Effect> {
    if let Some(id) = model.found_failure().and_then(|best| best.id.clone()) {
        return Some(read(model, id));
    }
    list(model)
}

pub(crate) fn read(model: &mut Model, id: SourceId) -> Effect {
    model.found.awaited = Some(id.clone());
    model.say(format!("Reading {}.", crate::text::harmless(&id.to_string())));
    Effect::ReadFound(id)
}

/// Places of these kinds were looked at (without kinds: of this machine). Those of other kinds stay.
pub(super) fn were_found(model: &mut Model, kinds: &[Kind], found: Result<Vec<Looked>, String>) {
    model.found.is_looking = false;
    let mut new = match found {
        Ok(found) => found,
        Err(why) => return model.say(format!("The search for logs failed: {why}.")),
    };
    let old = model.found.places.take().unwrap_or_default();
    new.extend(old.into_iter().filter(|looked| {
        if kinds.is_empty() { looked.kind.is_beyond_this_machine() } else { !kinds.contains(&looked.kind) }
    }));
    crate::source::rank(&mut new);
    model.found.places = Some(new);
}

/// The log of a place was read. It is opened if the person still waits for it.
pub(super) fn was_read(
    model: &mut Model,
    id: &SourceId,
    read: Result<(String, Option<WallTime>), String>,
) -> Option<Effect> {
    if model.found.awaited.as_ref() != Some(id) {
        return None;
    }
    model.found.awaited = None;
    let shown = crate::text::harmless(&id.to_string()).into_owned();
    match read {
        Ok((text, written)) => {
            model.notice = None;
            let places = model.found.places.as_deref().unwrap_or_default();
            let ended = places.iter().find(|looked| looked.id.as_ref() == Some(id)).and_then(|looked| looked.ended_at);
            let effect = log::open_found(model, text, shown, id.kind.is_pane());
            model.input.crashed_by = ended.or(written).or(model.input.crashed_by);
            Some(effect)
        }
        Err(why) => {
            model.say(format!("{shown} could not be read: {why}."));
            None
        }
    }
}

impl Model {
    /// The found log that is offered: none once a log is there.
    pub fn found_failure(&self) -> Option<&Looked> {
        let is_free = self.input.log.is_none() && self.input.awaited.is_none() && self.input.typing.is_none();
        if is_free { self.found.best(self.wall) } else { None }
    }
}
