//! Owns the drawing of whatever lies over the regions: the question, else the overlay that is open.

mod allocations;
mod curves;
mod hints;
mod question;
mod recording;
mod trial;
mod window;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::format::{cut, exactly};
use super::picture::Picture;
use super::theme::Theme;
use crate::app::Model;
use crate::app::layout::{page_height, page_width};
use crate::app::model::Target;
use crate::app::overlay::allocations::AllocationsView;
use crate::app::overlay::recording::RecordingView;
use crate::app::overlay::{Body, Hint, Item, Line as Meaning, OpenOverlay};
use crate::knowledge::page::Tone;
use hints::below;
use window::{Items, Window};

/// Columns of an item's key.
const KEY: usize = 10;

/// Draws whatever is open; whether a question had to be cut, since the screen has no room for all of it.
pub(super) fn render(model: &Model, theme: &Theme, picture: &mut Picture, targets: &mut Vec<Target>) -> bool {
    let area = picture.area();
    let width = page_width((area.width, area.height));
    let room = usize::from(area.height.saturating_sub(2));
    let (window, is_cut) = match (&model.question, &model.overlay) {
        (Some(question), _) => question::window(model, theme, question, (width, room)),
        (None, Some(open)) => (overlay(model, theme, open, width, (picture, targets)), false),
        (None, None) => return false,
    };
    window.draw(theme, width, picture, targets);
    is_cut
}

/// The open overlay: its body by what it means, and its keys.
fn overlay(
    model: &Model,
    theme: &Theme,
    open: &OpenOverlay,
    width: usize,
    (picture, targets): (&Picture, &mut Vec<Target>),
) -> Window {
    let mut hints = open.overlay.hints(model);
    hints.push(("Esc".to_owned(), "close"));
    let (mut items, mut place) = (None, None);
    let mut title = open.overlay.title().to_owned();
    let lines = match open.overlay.body(model) {
        Body::Text(lines) => text(model, theme, (lines, open.at), hints, width),
        Body::List { above, items: all, if_empty, most_shown, below: details } => {
            let (first, count) = window_of(all.len(), open.at, most_shown);
            items = Some(Items { first_line: above.len(), first, count });
            let mut lines: Vec<Line<'static>> = above.into_iter().map(|line| line_of(line, theme)).collect();
            let shown = all.iter().enumerate().skip(first).take(count);
            lines.extend(shown.map(|(number, listed)| item(listed, number == open.at, theme, width)));
            if all.is_empty() {
                lines.push(Line::styled(if_empty, theme.quiet));
            }
            lines.extend(details.into_iter().map(|line| line_of(line, theme)));
            lines.extend(below(theme, &hints, width));
            lines
        }
        Body::Missing => vec![Line::raw("The knowledge base is still loading.")],
        Body::Drawn if model.opened::<AllocationsView>().is_some() => {
            let lines;
            (title, lines) = allocations::lines(model, theme);
            place = Some(picture.area());
            lines
        }
        Body::Drawn if model.opened::<RecordingView>().is_some() => {
            let lines;
            (title, lines) = recording::lines(model, theme, picture.area(), targets);
            place = Some(picture.area());
            lines
        }
        Body::Drawn => {
            let lines = trial::lines(model, theme, width);
            let area = picture.area();
            let middle = Window::centered(&lines, width, area);
            place = trial::place(model, area, middle.width, middle.height);
            lines
        }
    };
    Window { title, lines, lines_of_keys: 2, items, place }
}

/// The first of so many items to show, and how many of them: the selected one stays in sight.
fn window_of(count: usize, at: usize, room: usize) -> (usize, usize) {
    let first = (at + 1).saturating_sub(room).min(count.saturating_sub(room));
    (first, count.saturating_sub(first).min(room))
}

/// Lines from the top one on as far as they fit, and the keys.
fn text(
    model: &Model,
    theme: &Theme,
    (lines, top): (Vec<Meaning>, usize),
    mut hints: Vec<Hint>,
    width: usize,
) -> Vec<Line<'static>> {
    let height = page_height(model.size);
    let top = top.min(lines.len().saturating_sub(height));
    if lines.len() > height {
        hints.insert(0, (theme.sign("↑↓ PgDn", "arrows PgDn").to_owned(), "read on"));
    }
    let mut drawn: Vec<Line<'static>> =
        lines.into_iter().skip(top).take(height).map(|line| line_of(line, theme)).collect();
    drawn.extend(below(theme, &hints, width));
    drawn
}

fn line_of(line: Meaning, theme: &Theme) -> Line<'static> {
    match line {
        Meaning::Text(tone, text) => Line::styled(text, style_of(tone, theme)),
        Meaning::Keys(keys) => {
            let spans = keys.into_iter().flat_map(|(key, words)| [Span::styled(key, theme.key), Span::raw(words)]);
            Line::from(spans.collect::<Vec<_>>())
        }
    }
}

fn style_of(tone: Tone, theme: &Theme) -> Style {
    match tone {
        Tone::Title => theme.sentence,
        Tone::Heading => theme.title,
        Tone::Text => Style::new(),
        Tone::Code => theme.figure,
        Tone::Quiet => theme.quiet,
    }
}

/// An item of a list; one with a key is a row of a table, as wide as the window.
fn item(item: &Item, is_selected: bool, theme: &Theme, width: usize) -> Line<'static> {
    let pointer = if is_selected { theme.sign("▸", ">") } else { " " };
    let style = if is_selected { theme.selected } else { Style::new() };
    let text = match &item.key {
        Some(key) => exactly(&format!("{pointer} {}  {}", exactly(key, KEY), item.words), width),
        None => cut(&format!("{pointer} {}", item.words), width),
    };
    Line::styled(text, style)
}
