//! Owns the styles, named by what they mean. Each color means one thing, and none carries it alone: what is used, reserved,
//! wrong or good has a sign or a word, too, so `NO_COLOR` loses nothing.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;

use crate::app::model::{Config, Palette};

/// Borders for terminals that show ASCII only.
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

/// The same for what lies over the regions.
pub(crate) const ASCII_ON_TOP: border::Set<'static> = border::Set {
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
    /// The title of the focused region.
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
    /// Memory that the driver reserves, or that no process accounts for.
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

/// The colors of a palette by their meaning; plain text keeps the terminal's own.
struct Colors {
    used: Option<Color>,
    held: Option<Color>,
    good: Option<Color>,
    wrong: Option<Color>,
    /// Whether what recedes (borders, free memory, quiet words) is dimmed: a gray of its own could be the background
    /// of a terminal.
    dim: bool,
}

impl Colors {
    const fn of(palette: Palette) -> Colors {
        match palette {
            // The terminal's own sixteen: readable on dark and on light, as its owner set them. No yellow and no gray
            // text, which vanish on white.
            Palette::Terminal => Colors {
                used: Some(Color::Cyan),
                held: Some(Color::Magenta),
                good: Some(Color::Green),
                wrong: Some(Color::Red),
                dim: true,
            },
            Palette::HighContrast => Colors {
                used: None,
                held: Some(Color::LightMagenta),
                good: Some(Color::LightGreen),
                wrong: Some(Color::LightRed),
                dim: false,
            },
            // Sky blue, reddish purple, bluish green and vermilion of Okabe and Ito, as near as 256 colors get: distinct
            // with every common kind of color vision, on dark and on light.
            Palette::ColorBlind => Colors {
                used: Some(Color::Indexed(32)),
                held: Some(Color::Indexed(175)),
                good: Some(Color::Indexed(36)),
                wrong: Some(Color::Indexed(166)),
                dim: true,
            },
            Palette::None => Colors { used: None, held: None, good: None, wrong: None, dim: true },
        }
    }
}

impl Theme {
    /// The styles this terminal can show.
    pub(crate) fn of(config: &Config) -> Theme {
        let colors = Colors::of(config.palette);
        let quiet = if colors.dim { Style::new().add_modifier(Modifier::DIM) } else { Style::new() };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Theme {
            unicode: config.unicode,
            title: bold,
            border: quiet,
            focus: bold.remove_modifier(Modifier::DIM),
            quiet,
            sentence: bold,
            selected: Style::new().add_modifier(Modifier::REVERSED),
            decisive: ink(colors.wrong).add_modifier(Modifier::BOLD),
            figure: Style::new().add_modifier(Modifier::UNDERLINED),
            command: bold,
            used: ink(colors.used),
            held: ink(colors.held),
            free: quiet,
            good: ink(colors.good).add_modifier(Modifier::BOLD),
            alarm: ink(colors.wrong).add_modifier(Modifier::BOLD),
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
    fn each_color_means_one_thing_in_every_palette() {
        for (name, palette) in Palette::NAMES {
            let theme = theme(palette);
            let colors: Vec<Color> =
                [theme.used, theme.held, theme.good, theme.alarm].iter().filter_map(|style| style.fg).collect();
            for (at, color) in colors.iter().enumerate() {
                assert!(!colors.iter().skip(at + 1).any(|other| other == color), "{name}: {color:?}");
            }
        }
    }

    #[test]
    fn without_colors_there_is_none_anywhere() {
        let theme = theme(Palette::None);
        let all = [theme.title, theme.border, theme.focus, theme.quiet, theme.decisive, theme.used, theme.held];
        assert!(all.iter().chain(&[theme.free, theme.good, theme.alarm, theme.command]).all(|s| s.fg.is_none()));
    }

    #[test]
    fn no_text_is_written_in_a_color_that_vanishes_on_a_dark_or_a_light_terminal() {
        let theme = theme(Palette::Terminal);
        let vanishing = [Color::White, Color::Gray, Color::Black, Color::Yellow, Color::LightYellow, Color::Blue];
        for style in [theme.quiet, theme.decisive, theme.command, theme.good, theme.alarm, theme.used, theme.held] {
            assert!(style.fg.is_none_or(|color| !vanishing.contains(&color)), "{style:?}");
        }
    }
}
