//! Owns when the log and its story are kept for the next start.

use std::sync::Arc;

use crate::app::last::{Kept, Story};
use crate::app::model::{Model, Pipe, Source};
use crate::app::summary;

/// What is to be kept now, if it is not what was kept last. A log that still grows is kept when it ends, when the
/// person does something about it, and when they leave.
pub(super) fn story_to_keep(model: &mut Model) -> Option<Kept> {
    let keeps = model.config.keep_log && !model.config.read_only && model.config.source == Source::Live;
    if !keeps || model.input.awaited.is_some() {
        return None;
    }
    let log = Arc::clone(model.input.log.as_ref()?);
    let story = story_of(model);
    let followed = model.input.file.as_ref().is_some_and(|file| file.adds);
    let grows = (model.input.pipe == Pipe::Open || followed) && !model.input.own && !model.leaving;
    if let Some((generation, kept)) = &model.kept {
        let same_log = *generation == model.input.generation;
        // A run that uses more VRAM is no reason to write a large log again; the end of the session is.
        let kept = if model.leaving { kept.clone() } else { kept.with_readings_of(&story) };
        // A log that grows differs in its time only.
        let same_story = kept == story || grows && Story { crashed_by: story.crashed_by, ..kept } == story;
        if same_story && (same_log || grows) {
            return None;
        }
    }
    model.kept = Some((model.input.generation, story.clone()));
    Some(Kept { log, story })
}

pub(super) fn story_of(model: &Model) -> Story {
    Story {
        origin: model.input.origin.clone(),
        command: model.input.command.clone(),
        model: model.input.model.clone(),
        crashed_by: model.input.crashed_by,
        boot_id: model.config.boot_id.clone(),
        behind: model.walk.behind.clone(),
        since: model.walk.since,
        freed: summary::freed(model),
        new_run: summary::new_run(model),
        progress: summary::progress(model),
        works: model.walk.works,
        record: model.input.record.clone(),
    }
}
