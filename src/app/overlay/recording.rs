//! Owns the overlay with the recording of a run: what its keys do. The recording is in `Model::replay`, which stays when it
//! is closed.

use crossterm::event::{KeyCode, KeyEvent};

use super::{Body, Outcome, Overlay, covered};
use crate::app::action::Action;
use crate::app::effect::Effect;
use crate::app::keymap::Keymap;
use crate::app::model::{AwaitedRecord, Model};
use crate::app::replay::Replay;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordingView;

impl Overlay for RecordingView {
    fn title(&self) -> &'static str {
        "Recording"
    }

    fn body(&self, _model: &Model) -> Body {
        Body::Drawn
    }

    fn action(&self, key: KeyEvent, _keys: &Keymap) -> Option<Action> {
        match key.code {
            KeyCode::Left | KeyCode::Char('h') => Some(Action::Turn(-1)),
            KeyCode::Right | KeyCode::Char('l') => Some(Action::Turn(1)),
            KeyCode::Char('n') => Some(Action::NextHit),
            KeyCode::Char('N') => Some(Action::PreviousHit),
            _ => None,
        }
    }

    fn act(&self, model: &mut Model, _at: usize, action: Action) -> Outcome {
        let size = model.size;
        match action {
            Action::Recording => return Outcome::Closes(Vec::new()),
            Action::Turn(by) => change(model, |replay| replay.step(by, size)),
            Action::Page(by) => change(model, |replay| replay.page(by, size)),
            Action::First => change(model, Replay::go_to_start),
            Action::Last => change(model, Replay::go_to_end),
            Action::NextHit => change(model, |replay| replay.jump(true)),
            Action::PreviousHit => change(model, |replay| replay.jump(false)),
            Action::Move(by) => change(model, |replay| replay.scroll(by)),
            Action::NextRegion => change(model, |replay| replay.scroll(1)),
            Action::PreviousRegion => change(model, |replay| replay.scroll(-1)),
            Action::Zoom => change(model, Replay::turn_close_up),
            other => return covered(other),
        }
        Outcome::Stays
    }

    /// Each notch is another GPU.
    fn wheel_lines(&self) -> i32 {
        1
    }
}

fn change(model: &mut Model, change: impl FnOnce(&mut Replay)) {
    if let Some(replay) = &mut model.replay {
        change(replay);
    }
}

/// Opens the recording of the log's run, which is read first.
pub(crate) fn open(model: &mut Model) -> Option<Effect> {
    let Some(path) = model.input.record.clone() else {
        match model.replay {
            Some(_) => model.open(RecordingView),
            None => model.say("No recording belongs to this log: `oomdoctor run -- COMMAND` records one."),
        }
        return None;
    };
    if model.replay.as_ref().is_some_and(|replay| replay.tape.path == path) {
        model.open(RecordingView);
        return None;
    }
    model.awaited_record = Some(AwaitedRecord::ToShow);
    Some(Effect::ReadRecord(path))
}

/// Moves the cursor to this moment, where the person clicked.
pub(crate) fn go_to(model: &mut Model, moment: u64) {
    change(model, |replay| replay.cursor = moment);
}
