//! Owns what becomes of a typed line and of an edited log.

use crossterm::event::KeyEvent;

use super::log;
use crate::app::advise::advise_anew;
use crate::app::editor;
use crate::app::effect::Effect;
use crate::app::gate::Passed;
use crate::app::model::Model;
use crate::app::overlay::drawing::Drawing;
use crate::app::overlay::trial;
use crate::app::prompt::{Prompt, Purpose, Typed};
use crate::app::region;
use crate::memory::images;

/// More keys at once than this are no line that somebody types.
const LONGEST_LINE: usize = 4 << 10;

/// A key in the editor. Its text is read once the person is done, if it is another one.
pub(super) fn type_into_editor(model: &mut Model, key: KeyEvent) -> Option<Effect> {
    if !editor::key(model.input.typing.as_mut()?, key) {
        return None;
    }
    let text = model.input.typing.take()?.lines().join("\n");
    let is_unchanged = model.input.log.as_ref().is_some_and(|log| log.raw().trim_end() == text.trim_end());
    if text.trim().is_empty() || is_unchanged {
        return None;
    }
    Some(log::open(model, text, "typed".into()))
}

/// A key in the line that is typed.
pub(super) fn type_into_prompt(model: &mut Model, key: KeyEvent) {
    let Some(prompt) = &mut model.prompt else { return };
    let purpose = prompt.purpose;
    match prompt.key(key) {
        Typed::Nothing => {}
        Typed::Changed => apply_filter(model),
        Typed::Submitted => {
            if let Some(prompt) = model.prompt.take() {
                submit(model, prompt);
            }
        }
        Typed::Cancelled => {
            model.prompt = None;
            if purpose == Purpose::Filter {
                model.processes.filter.clear();
            }
            region::processes::keep_selection(model);
        }
    }
}

fn submit(model: &mut Model, prompt: Prompt) {
    match prompt.purpose {
        Purpose::Filter => {}
        Purpose::Search => region::log::search(model, prompt.text),
        Purpose::Command => set_command(model, &prompt.text),
        Purpose::Model => set_model(model, &prompt.text),
    }
}

/// The person entered the command that failed; the advice is derived for it.
fn set_command(model: &mut Model, text: &str) {
    let text = crate::text::harmless(text.trim()).into_owned();
    model.input.command = Some(text).filter(|text| !text.is_empty());
    // Settings that were turned for the earlier command are not those of this one.
    model.trial = None;
    advise_anew(model);
}

/// The person named the model; whether it fits is derived again, and shown.
fn set_model(model: &mut Model, text: &str) {
    let text = crate::text::harmless(text.trim()).into_owned();
    model.input.model = Some(text.clone()).filter(|text| !text.is_empty());
    (model.advice, model.trial) = (None, None);
    advise_anew(model);
    let known = model.advice.as_ref().and_then(|advice| advice.fit.as_ref()).is_some_and(|fit| fit.is_told());
    if known {
        trial::open(model);
    } else if let Some(drawing) = images::find(&text) {
        let ledger = model.advice.as_ref().and_then(|advice| advice.ledger.as_ref());
        let free = ledger.filter(|ledger| ledger.is_now && !ledger.is_cache).and_then(|ledger| ledger.available_bytes);
        model.open(Drawing { text: drawing.said(free) });
    } else if !text.is_empty() {
        let said = format!("\"{text}\" is not in the table of models. oomdoctor fit FILE reads the model's own file.");
        model.say(said);
    }
}

/// A filter acts while it is typed.
fn apply_filter(model: &mut Model) {
    if let Some(Prompt { purpose: Purpose::Filter, text }) = &model.prompt {
        let text = text.clone();
        region::processes::filter(model, text);
    }
}

/// What the gate made of keys while a line is typed, where a paste may be among them.
pub(super) fn passed_to_prompt(model: &mut Model, passed: Passed) -> Option<Effect> {
    match passed {
        Passed::Key(key) | Passed::Typed(key) => {
            type_into_prompt(model, key);
            None
        }
        Passed::Few { text, .. } | Passed::Paste(text) => burst_into_prompt(model, text),
    }
}

/// Keys that came at once: one line is typed as it stands, and several are a paste. No line end among them submits.
fn burst_into_prompt(model: &mut Model, text: String) -> Option<Effect> {
    let line = text.trim_end_matches(['\r', '\n']);
    let is_typed = line.len() <= LONGEST_LINE && !line.contains(['\r', '\n']);
    match &mut model.prompt {
        Some(prompt) if is_typed => prompt.text.push_str(line),
        _ => return log::pasted(model, text),
    }
    apply_filter(model);
    None
}
