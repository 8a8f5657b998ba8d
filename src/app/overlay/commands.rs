//! Owns the list of all commands, to pick from by typing.

use super::{Body, Hint, Item, Line, Outcome, Overlay, covered};
use crate::app::action::Action;
use crate::app::keymap::Binding;
use crate::app::layout::page_height;
use crate::app::model::Model;
use crate::knowledge::page::Tone;

/// Columns for a command's words.
const COLUMNS: usize = 48;

/// Commands shown at once at most.
const MOST_SHOWN: usize = 18;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commands {
    /// What was typed to find a command.
    pub wanted: String,
}

impl Overlay for Commands {
    fn title(&self) -> &'static str {
        "Commands"
    }

    fn body(&self, model: &Model) -> Body {
        let found = model.config.keys.actions(&self.wanted, model.focus).into_iter();
        let items = found.map(|binding| Item {
            key: Some(binding.shown.to_string()),
            words: format!("{}{}", words(model, binding), binding.place()),
        });
        Body::List {
            above: [format!(" :{}_", self.wanted), String::new()].map(|text| Line::Text(Tone::Text, text)).to_vec(),
            items: items.collect(),
            if_empty: "No command matches. Backspace deletes a letter.",
            most_shown: page_height(model.size).saturating_sub(2).clamp(1, MOST_SHOWN),
            below: Vec::new(),
        }
    }

    fn hints(&self, _model: &Model) -> Vec<Hint> {
        vec![("↑↓".to_owned(), "move"), ("Enter".to_owned(), "run")]
    }

    fn typed(&mut self) -> Option<&mut String> {
        Some(&mut self.wanted)
    }

    fn act(&self, model: &mut Model, at: usize, action: Action) -> Outcome {
        match action {
            Action::Enter => self.pick(model, at),
            other => covered(other),
        }
    }
}

/// What a command does; of one that terminates, to which process.
fn words(model: &Model, binding: &Binding) -> String {
    let target = if binding.action == Action::End { model.end_in_words(COLUMNS) } else { None };
    target.unwrap_or_else(|| binding.words.to_owned())
}

impl Commands {
    /// Does the selected command in the region where it means something.
    fn pick(&self, model: &mut Model, at: usize) -> Outcome {
        let keys = std::sync::Arc::clone(&model.config.keys);
        let Some(picked) = keys.actions(&self.wanted, model.focus).get(at).copied() else {
            return Outcome::Closes(Vec::new());
        };
        model.focus = picked.region.unwrap_or(model.focus);
        // Enter chose it here, and Enter asks about no signal: typed text may contain `:`, a word and Enter.
        let instead = match picked.action {
            Action::End => model.end_in_words(COLUMNS).map_or("terminates the highlighted process.".to_owned(), does),
            Action::Enter => "copies the command or takes the fix.".to_owned(),
            action => return Outcome::Does(action),
        };
        model.say(format!("{} {instead}", model.key(picked.action)));
        Outcome::Closes(Vec::new())
    }
}

/// "terminate jupyter 4242" as what a key does.
fn does(target: String) -> String {
    target.replacen("terminate", "terminates", 1).replacen("force", "forces", 1) + "."
}
