//! Owns the styles, named by what they mean. Each colour means one thing, and none carries it alone: what is in use,
//! what is held back, what is wrong and what went well each have a sign or a word, too, so that `NO_COLOR` loses nothing.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;

use crate::app::model::{Config, Palette};

/// Borders for terminals that have nothing but ASCII.
pub(crate) const ASCII: border::Set<'static> = border::Set {
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
pub(crate) const ASCII_FOCUS: border::Set<'static> = border::Set {
    top_left: "#",
    top_right: "#",
    bottom_left: "#",
    bottom_right: "#",
    vertical_left: "#",
    vertical_right: "#",
    horizontal_top: "=",
    horizontal_bottom: "=",
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    /// Whether signs outside ASCII may be used.
    pub unicode: bool,
    pub title: Style,
    pub border: Style,
    /// Lines around the focused region.
    pub focus: Style,
    pub quiet: Style,
    /// The one sentence that matters.
    pub sentence: Style,
    pub selected: Style,
    /// The decisive line of the log.
    pub decisive: Style,
    /// A figure found in the log.
    pub figure: Style,
    /// A command to run.
    pub command: Style,
    pub used: Style,
    /// Memory held back by the driver, or of nobody listed.
    pub held: Style,
    pub free: Style,
    pub good: Style,
    /// Something is wrong or can't be undone.
    pub alarm: Style,
    /// A key to press.
    pub key: Style,
    /// Whether processes have colors of their own.
    has_colors: bool,
}

/// Colors of processes, of a lightness that is readable on dark and on light; none of them is one that has a meaning.
const OF_PROCESSES: [Color; 6] = [
    Color::Cyan,
    Color::Indexed(173),
    Color::Indexed(67),
    Color::Indexed(137),
    Color::Indexed(103),
    Color::Indexed(143),
];

/// The colours of a palette by their meaning; the text itself always keeps the terminal's own.
struct Colours {
    used: Option<Color>,
    held: Option<Color>,
    good: Option<Color>,
    wrong: Option<Color>,
    /// Whether what recedes (borders, free memory, quiet words) is dimmed: a grey of its own would be the background
    /// of one terminal or another.
    dim: bool,
}

impl Colours {
    const fn of(palette: Palette) -> Colours {
        match palette {
            // The terminal's own sixteen: readable on dark and on light, as its owner set them. No yellow and no grey
            // text, which vanish on white.
            Palette::Terminal => Colours {
                used: Some(Color::Cyan),
                held: Some(Color::Magenta),
                good: Some(Color::Green),
                wrong: Some(Color::Red),
                dim: true,
            },
            Palette::HighContrast => Colours {
                used: None,
                held: Some(Color::LightMagenta),
                good: Some(Color::LightGreen),
                wrong: Some(Color::LightRed),
                dim: false,
            },
            // Sky blue, reddish purple, bluish green and vermilion of Okabe and Ito, as near as 256 colours come: told
            // apart with every common kind of colour vision, on dark and on light.
            Palette::ColourBlind => Colours {
                used: Some(Color::Indexed(32)),
                held: Some(Color::Indexed(175)),
                good: Some(Color::Indexed(36)),
                wrong: Some(Color::Indexed(166)),
                dim: true,
            },
            Palette::None => Colours { used: None, held: None, good: None, wrong: None, dim: true },
        }
    }
}

impl Theme {
    /// The styles this terminal can show.
    pub(crate) fn of(config: &Config) -> Theme {
        let colours = Colours::of(config.palette);
        let quiet = if colours.dim { Style::new().add_modifier(Modifier::DIM) } else { Style::new() };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Theme {
            unicode: config.unicode,
            title: bold,
            border: quiet,
            focus: bold,
            quiet,
            sentence: bold,
            selected: Style::new().add_modifier(Modifier::REVERSED),
            decisive: ink(colours.wrong).add_modifier(Modifier::BOLD),
            figure: Style::new().add_modifier(Modifier::UNDERLINED),
            command: bold,
            used: ink(colours.used),
            held: ink(colours.held),
            free: quiet,
            good: ink(colours.good).add_modifier(Modifier::BOLD),
            alarm: ink(colours.wrong).add_modifier(Modifier::BOLD),
            key: bold,
            has_colors: matches!(config.palette, Palette::Terminal),
        }
    }

    /// The color of a process by its letter. The letter alone tells processes apart: colors only help to find them.
    pub(crate) fn of_letter(&self, letter: char) -> Style {
        let at = usize::try_from(u32::from(letter)).unwrap_or(0) % OF_PROCESSES.len();
        match OF_PROCESSES.get(at) {
            Some(color) if self.has_colors => Style::new().fg(*color),
            _ => self.used,
        }
    }

    /// Stands for processes that are too small for a letter, and for memory that no process accounts for.
    pub(crate) fn small_part(&self) -> &'static str {
        self.sign("▒", "%")
    }

    /// A sign, or its ASCII stand-in.
    pub(crate) fn sign(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }
}

fn ink(color: Option<Color>) -> Style {
    color.map_or(Style::new(), |color| Style::new().fg(color))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theme(palette: Palette) -> Theme {
        Theme::of(&Config { palette, ..Config::default() })
    }

    #[test]
    fn each_colour_means_one_thing_in_every_palette() {
        for (name, palette) in Palette::NAMES {
            let theme = theme(palette);
            let colours: Vec<Color> =
                [theme.used, theme.held, theme.good, theme.alarm].iter().filter_map(|style| style.fg).collect();
            for (at, colour) in colours.iter().enumerate() {
                assert!(!colours.iter().skip(at + 1).any(|other| other == colour), "{name}: {colour:?}");
            }
        }
    }

    #[test]
    fn without_colours_there_is_none_anywhere() {
        let theme = theme(Palette::None);
        let all = [theme.title, theme.border, theme.focus, theme.quiet, theme.decisive, theme.used, theme.held];
        assert!(all.iter().chain(&[theme.free, theme.good, theme.alarm, theme.command]).all(|s| s.fg.is_none()));
    }

    #[test]
    fn no_text_is_written_in_a_colour_that_vanishes_on_a_dark_or_a_light_terminal() {
        let theme = theme(Palette::Terminal);
        let vanishing = [Color::White, Color::Gray, Color::Black, Color::Yellow, Color::LightYellow, Color::Blue];
        for style in [theme.quiet, theme.decisive, theme.command, theme.good, theme.alarm, theme.used, theme.held] {
            assert!(style.fg.is_none_or(|colour| !vanishing.contains(&colour)), "{style:?}");
        }
    }
}
