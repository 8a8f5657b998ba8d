//! Owns "will it fit?": opening it, changing the settings that are tried, and taking them into the command line to run
//! again. The settings are in `Model::trial`, which stays while log and model are the same.

use crossterm::event::{KeyCode, KeyEvent};

use super::{Body, Outcome, Overlay, covered};
use crate::advice::{Changes, FitAdvice, Trial};
use crate::app::action::Action;
use crate::app::advise::advise_anew;
use crate::app::effect::Effect;
use crate::app::keymap::Keymap;
use crate::app::model::{Model, Region};
use crate::app::overlay::sizes::Sizes;
use crate::app::scroll::{TO_THE_END, TO_THE_START};
use crate::app::walk::{Behind, Mark, StepId};
use crate::knowledge::FixId;

/// Names the settings that were taken among the fixes behind.
const TRIED: FixId = FixId::WILL_IT_FIT;

/// Steps of a setting that a page key turns.
const PAGE: i32 = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FitTrial;

impl Overlay for FitTrial {
    fn title(&self) -> &'static str {
        "Fit"
    }

    fn body(&self, _model: &Model) -> Body {
        Body::Drawn
    }

    fn action(&self, key: KeyEvent, keys: &Keymap) -> Option<Action> {
        match key.code {
            KeyCode::Left | KeyCode::Char('h') => Some(Action::Turn(-1)),
            KeyCode::Right | KeyCode::Char('l') => Some(Action::Turn(1)),
            KeyCode::Backspace => Some(Action::Back),
            KeyCode::Char('f' | 'm') => keys.action(key, Region::Steps),
            _ => None,
        }
    }

    fn act(&self, model: &mut Model, _at: usize, action: Action) -> Outcome {
        let has_sizes = fit(model).is_some_and(FitAdvice::is_told);
        match action {
            Action::Enter => return Outcome::Closes(taken(model).into_iter().collect()),
            Action::Fit => return Outcome::Closes(Vec::new()),
            Action::NextRegion | Action::PreviousRegion if has_sizes => {
                return Outcome::Opens(Box::new(Sizes), Vec::new());
            }
            Action::NextRegion | Action::PreviousRegion => {}
            Action::Move(by) => change(model, |trial| trial.select(by)),
            Action::First => change(model, |trial| trial.select(TO_THE_START)),
            Action::Last => change(model, |trial| trial.select(TO_THE_END)),
            Action::Turn(by) => change(model, |trial| trial.turn(by)),
            Action::Page(by) => change(model, |trial| trial.turn(-by.saturating_mul(PAGE))),
            Action::Back => change(model, Trial::reset),
            other => return covered(other),
        }
        Outcome::Stays
    }

    /// Each line is another setting.
    fn wheel_lines(&self) -> i32 {
        1
    }
}

fn change(model: &mut Model, change: impl FnOnce(&mut Trial)) {
    if let Some(trial) = &mut model.trial {
        change(trial);
    }
}

/// Opens it: to be tried where the model is known, else with the log's own figures.
pub(crate) fn open(model: &mut Model) {
    let Some(fit) = fit(model) else { return model.say(unknown(model)) };
    let (trial, is_told) = (fit.trial(), fit.is_told());
    if let Some(trial) = trial {
        model.trial.get_or_insert_with(|| Box::new(trial));
        model.open(FitTrial);
    } else if is_told {
        model.open(Sizes);
    } else {
        model.say(unknown(model));
    }
}

fn fit(model: &Model) -> Option<&FitAdvice> {
    model.advice.as_ref()?.fit.as_ref()
}

/// Takes what was tried into the command line to run again; where nobody knows that line, the changes are copied.
fn taken(model: &mut Model) -> Option<Effect> {
    let trial = model.trial.as_ref()?;
    if trial.is_as_it_was() {
        model.walk.behind.retain(|behind| behind.id.fix != TRIED);
        advise_anew(model);
        return None;
    }
    let enough = fit(model).is_some_and(|fit| trial.fits(fit) == Some(true));
    let (command, beside, title) = (trial.command(), trial.beside(), trial.changes().join(", "));
    let changes = command.as_deref().and_then(Changes::of);
    model.walk.behind.retain(|behind| behind.id.fix != TRIED);
    let before = model.rerun();
    let id = StepId { fix: TRIED, target: None };
    let title = format!("Use other settings: {title}");
    model.walk.behind.push(Behind { id, title, mark: Mark::Taken, changes, parts: Vec::new(), enough });
    model.walk.since.get_or_insert(model.wall);
    let rerun = model.rerun().filter(|rerun| before.as_ref() != Some(rerun));
    advise_anew(model);
    let beside = beside.map(|beside| format!(" It also takes {beside}.")).unwrap_or_default();
    match (rerun, command) {
        // That it is copied would be said over what else must be done.
        (Some(_), _) if !beside.is_empty() => {
            model.say(format!("These settings are in the command now.{beside}"));
            None
        }
        (Some(rerun), _) => Some(Effect::Copy(rerun)),
        (None, Some(command)) => {
            model.say(format!("Copied: {command}.{beside} [r] sets your command, which then gets them."));
            Some(Effect::Copy(command))
        }
        (None, None) => {
            model.say(beside.trim_start().to_owned());
            None
        }
    }
}

fn unknown(model: &Model) -> String {
    format!("The log does not name the model: {} sets it.", model.key(Action::Model))
}
