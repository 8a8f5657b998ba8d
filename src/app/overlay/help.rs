//! Owns the help: every key with its words, as the keymap has them, and the signs of the bars.

use super::{Body, Hint, Line, Outcome, Overlay, covered};
use crate::app::action::Action;
use crate::app::effect::Effect;
use crate::app::keymap::Binding;
use crate::app::layout::{page_height, page_width};
use crate::app::model::Model;
use crate::app::overlay::glossary::Glossary;
use crate::knowledge::page::Tone;

/// Columns of a key and of what it does, where two stand beside each other.
const KEY: usize = 9;
const WORDS: usize = 25;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Help;

impl Overlay for Help {
    fn title(&self) -> &'static str {
        "Keys"
    }

    fn body(&self, model: &Model) -> Body {
        Body::Text(lines(model))
    }

    fn hints(&self, _model: &Model) -> Vec<Hint> {
        vec![("Tab".to_owned(), "glossary")]
    }

    fn act(&self, model: &mut Model, _at: usize, action: Action) -> Outcome {
        match action {
            Action::NextRegion | Action::PreviousRegion => {
                let effects = if model.glossary.is_none() { vec![Effect::LoadKnowledge] } else { Vec::new() };
                Outcome::Opens(Box::new(Glossary), effects)
            }
            Action::Help => Outcome::Closes(Vec::new()),
            other => covered(other),
        }
    }
}

/// The lines at the size of the screen: on 80 columns two keys beside each other, on fewer one.
fn lines(model: &Model) -> Vec<Line> {
    let (width, height) = (page_width(model.size), page_height(model.size));
    let bindings = model.config.keys.all().iter().filter(|binding| !binding.words.is_empty());
    let entries: Vec<(String, String)> = bindings.map(entry).collect();
    let columns = if width >= 2 * (KEY + 2 + WORDS) { 2 } else { 1 };
    let rows = entries.len().div_ceil(columns);
    let mut lines: Vec<Line> = Vec::new();
    for row in 0..rows {
        lines.push(Line::Keys(entries.iter().skip(row).step_by(rows).cloned().collect()));
    }
    let signs = if model.config.unicode {
        ["A…Z processes  ▒ small or unattributed", "░ reserved by the driver  · free"]
    } else {
        ["A..Z processes  % small or unattributed", ": reserved by the driver  . free"]
    };
    if lines.len() + signs.len() < height {
        lines.push(Line::Text(Tone::Text, String::new()));
    }
    lines.extend(signs.map(|sign| Line::Text(Tone::Text, sign.to_owned())));
    lines
}

/// A key and its words, padded to their columns.
fn entry(binding: &Binding) -> (String, String) {
    let key = format!("{:>KEY$}", binding.shown);
    (key, format!("  {:<WORDS$}", format!("{}{}", binding.words, binding.place())))
}
