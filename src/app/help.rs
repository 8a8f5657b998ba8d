//! Owns the lines of the help: every key with its words, as the keymap has them, and the signs of the bars.

use super::keymap::Binding;
use super::layout::{page_height, page_width};
use super::model::{Model, Region};

/// Columns of a key and of what it does, where two stand beside each other.
const KEY: usize = 9;
const WORDS: usize = 25;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// One key, or two, each with its words; padded to its place.
    Keys(Vec<(String, String)>),
    /// What a sign means; nothing.
    Text(&'static str),
}

/// The lines at the width and height that the screen has: on 80 columns two keys beside each other, on fewer one.
pub(crate) fn lines(model: &Model) -> Vec<Line> {
    let (width, height) = (page_width(model.size), page_height(model.size));
    let bindings = model.config.keys.all().iter().filter(|binding| !binding.words.is_empty());
    let entries: Vec<(String, String)> = bindings
        .map(|binding| {
            let key = format!("{:>KEY$}", binding.shown);
            (key, format!("  {:<WORDS$}", format!("{}{}", binding.words, place(binding))))
        })
        .collect();
    let columns = if width >= 2 * (KEY + 2 + WORDS) { 2 } else { 1 };
    let rows = entries.len().div_ceil(columns);
    let beside = |row: usize| entries.iter().skip(row).step_by(rows.max(1)).cloned().collect();
    let mut lines: Vec<Line> = (0..rows).map(|row| Line::Keys(beside(row))).collect();
    let signs = if model.config.unicode {
        ["A…Z processes  ▒ small or unattributed", "░ reserved by the driver  · free"]
    } else {
        ["A..Z processes  % small or unattributed", ": reserved by the driver  . free"]
    };
    if lines.len() + signs.len() < height {
        lines.push(Line::Text(""));
    }
    lines.extend(signs.map(Line::Text));
    lines
}

/// Where an action that is not everywhere belongs.
pub(crate) fn place(binding: &Binding) -> &'static str {
    match binding.region {
        None => "",
        Some(Region::Processes) => " (processes)",
        Some(Region::Input) => " (input)",
        Some(Region::Steps) => " (steps)",
    }
}
