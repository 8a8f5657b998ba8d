//! Owns the styles, named by what they mean. Colour never carries meaning alone, so that `NO_COLOR` loses nothing.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;

use crate::app::model::Config;

/// Borders for terminals that have nothing but ASCII.
pub const ASCII: border::Set<'static> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

/// The same for the focused region.
pub const ASCII_FOCUS: border::Set<'static> = border::Set {
    top_left: "#",
    top_right: "#",
    bottom_left: "#",
    bottom_right: "#",
    vertical_left: "#",
    vertical_right: "#",
    horizontal_top: "=",
    horizontal_bottom: "=",
};

/// Styles and signs.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// Whether signs outside ASCII may be used.
    pub unicode: bool,
    /// Titles.
    pub title: Style,
    /// Lines around regions.
    pub border: Style,
    /// Lines around the focused region.
    pub focus: Style,
    /// Said quietly.
    pub quiet: Style,
    /// The one sentence that matters.
    pub sentence: Style,
    /// The selected row.
    pub selected: Style,
    /// The decisive line of the log.
    pub decisive: Style,
    /// A figure found in the log.
    pub figure: Style,
    /// Memory of processes.
    pub used: Style,
    /// Memory held back by the driver, or of nobody listed.
    pub held: Style,
    /// Free memory.
    pub free: Style,
    /// Something went well.
    pub good: Style,
    /// Something is wrong or can't be undone.
    pub alarm: Style,
    /// A key to press.
    pub key: Style,
}

impl Theme {
    /// The styles this terminal can show.
    pub fn of(config: &Config) -> Theme {
        let colour = |colour: Color| if config.colour { Style::new().fg(colour) } else { Style::new() };
        Theme {
            unicode: config.unicode,
            title: Style::new().add_modifier(Modifier::BOLD),
            border: colour(Color::DarkGray),
            focus: colour(Color::Cyan).add_modifier(Modifier::BOLD),
            quiet: colour(Color::Gray).add_modifier(Modifier::DIM),
            sentence: Style::new().add_modifier(Modifier::BOLD),
            selected: Style::new().add_modifier(Modifier::REVERSED),
            decisive: colour(Color::Yellow).add_modifier(Modifier::BOLD),
            figure: Style::new().add_modifier(Modifier::UNDERLINED),
            used: colour(Color::Cyan),
            held: colour(Color::Magenta),
            free: colour(Color::DarkGray),
            good: colour(Color::Green).add_modifier(Modifier::BOLD),
            alarm: colour(Color::Red).add_modifier(Modifier::BOLD),
            key: Style::new().add_modifier(Modifier::BOLD),
        }
    }

    /// A sign, or its ASCII stand-in.
    pub fn sign(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }
}
