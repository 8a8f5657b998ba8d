//! Owns the drawing of "will it fit?": the settings that can be changed, the GPU as a bar that adds up, the answer in a
//! sentence, and the change of the command line.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::advice::fit::trial::Row;
use crate::advice::{FitAdvice, Trial};
use crate::app::Model;
use crate::ui::format::{bar, cut, exactly, paragraph};
use crate::ui::theme::Theme;
use crate::units::Bytes;

/// Columns of the settings' names and of their values.
const NAMES: usize = 20;
const VALUES: usize = 26;

/// The lines, as many as the screen has: the title, the settings, the bar, the answer, the keys.
pub(super) fn lines(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let fit = model.advice.as_ref().and_then(|advice| advice.fit.as_ref());
    let (Some(trial), Some(fit)) = (&model.trial, fit) else {
        return vec![Line::raw("The model is unknown: this is another log.")];
    };
    let title = Line::styled(cut(&trial.title(), width), theme.sentence);
    let (rows, at) = trial.rows();
    let settings = rows.iter().enumerate().map(|(number, row)| setting(row, number == at, theme, width));
    let mut settings: Vec<Line<'static>> = settings.collect();
    let mut lines = vec![Line::raw("")];
    lines.extend(picture(trial, fit, theme, width));
    let style = match trial.fits(fit) {
        Some(true) => theme.good,
        Some(false) => theme.alarm,
        None => theme.sentence,
    };
    let mut answer = paragraph(&trial.sentence(fit), width, style);
    let changes = trial.command().into_iter().chain(trial.beside().map(|beside| format!("takes {beside}")));
    answer.extend(changes.flat_map(|text| paragraph(&text, width, theme.quiet)));
    // The frame keeps its size while settings change.
    answer.resize(answer.len().max(3), Line::raw(""));
    lines.extend(answer);
    lines.push(Line::raw(""));
    lines.push(keys(theme, trial, width));
    // On the smallest screens the blank lines go first, then the model's name, which the verdict has too, then the
    // settings that are farthest from the one that is turned; the bar, the answer and the keys stay.
    let room = usize::from(model.size.1.saturating_sub(2));
    if 1 + settings.len() + lines.len() > room {
        lines.retain(|line| line.width() > 0);
    }
    let named = 1 + settings.len() + lines.len() <= room;
    let many = room.saturating_sub(lines.len()).clamp(1, settings.len().max(1));
    if settings.len() > many {
        let first = (at + 1).saturating_sub(many);
        settings = settings.into_iter().skip(first).take(many).collect();
    }
    named.then_some(title).into_iter().chain(settings).chain(lines).collect()
}

fn setting(row: &Row, is_selected: bool, theme: &Theme, width: usize) -> Line<'static> {
    let pointer = if is_selected { theme.sign("▸", ">") } else { " " };
    let less = if is_selected && row.less { theme.sign("◂", "<") } else { " " };
    let more = if is_selected && row.more { theme.sign("▸", ">") } else { " " };
    let value = exactly(&format!("{less} {} {more}", row.value), VALUES);
    let was = row.was.as_ref().map(|was| format!("was {was}")).unwrap_or_default();
    let style = if is_selected { theme.selected } else { Style::new() };
    let named = format!("{pointer} {} ", exactly(row.name, NAMES));
    let was = cut(&was, width.saturating_sub(named.width() + VALUES + 1));
    Line::from(vec![Span::raw(named), Span::styled(value, style), Span::styled(format!(" {was}"), theme.quiet)])
}

/// A part's sign in the bar and beside its figure.
fn sign(theme: &Theme, name: &str) -> (&'static str, Style) {
    match name {
        "others" => (theme.sign("▓", "="), theme.held),
        "weights" => (theme.sign("█", "#"), theme.used),
        "KV cache" => (theme.sign("▆", "%"), theme.used),
        "image encoder" | "state" | "gradients" => (theme.sign("▅", "o"), theme.used),
        "optimizer" => (theme.sign("▄", "*"), theme.used),
        "compute" => (theme.sign("▃", "+"), theme.used),
        _ => (theme.sign("▂", "-"), theme.used),
    }
}

/// The GPU as a bar, a mark where its memory ends if it is too small, and the figures in GiB.
fn picture(trial: &Trial, fit: &FitAdvice, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let mut parts: Vec<(&'static str, Option<Bytes>)> = Vec::new();
    let others = fit.card_bytes.zip(fit.free_now_bytes).map(|(card, free)| card.less(free));
    parts.extend(others.filter(|bytes| *bytes > Bytes::ZERO).map(|bytes| ("others", Some(bytes))));
    parts.extend(trial.parts());
    let sum = parts.iter().filter_map(|(_, bytes)| *bytes).fold(Bytes::ZERO, Bytes::plus);
    let capacity = fit.card_bytes.or(fit.free_now_bytes);
    let whole = capacity.map_or(sum, |capacity| capacity.max(sum));
    let room = width.saturating_sub(2).min(100);
    let drawn: Vec<(Bytes, Style, &'static str)> = parts
        .iter()
        .filter_map(|(name, bytes)| {
            let (sign, style) = sign(theme, name);
            Some(((*bytes)?, style, sign))
        })
        .collect();
    let mut spans = vec![Span::styled(theme.sign("▕", "["), theme.border)];
    spans.extend(bar(theme, whole, &drawn, room));
    spans.push(Span::styled(theme.sign("▏", "]"), theme.border));
    let mut lines = vec![Line::from(spans)];
    if let Some(capacity) = capacity.filter(|capacity| *capacity < whole) {
        let at = u128::from(capacity.0) * room as u128 / u128::from(whole.0.max(1));
        let at = usize::try_from(at).unwrap_or(0);
        let ends = format!("{} here: {capacity}", if fit.is_on_several() { "the GPUs end" } else { "the GPU ends" });
        let mark = format!("{} {ends}", theme.sign("▲", "^"));
        // To the left of its sign where there is no room to the right of it.
        let text = if at + 1 + mark.width() <= width {
            format!("{}{mark}", " ".repeat(at + 1))
        } else {
            let said = format!("{ends} {}", theme.sign("▲", "^"));
            format!("{}{said}", " ".repeat((at + 2).saturating_sub(said.width())))
        };
        lines.push(Line::styled(cut(&text, width), theme.alarm));
    } else {
        lines.push(Line::raw(""));
    }
    lines.extend(legend(&parts, capacity, sum, theme, width));
    lines
}

fn legend(
    parts: &[(&'static str, Option<Bytes>)],
    capacity: Option<Bytes>,
    sum: Bytes,
    theme: &Theme,
    width: usize,
) -> Vec<Line<'static>> {
    let mut said: Vec<String> = Vec::new();
    for (name, bytes) in parts {
        let figure = bytes.map_or_else(|| "?".to_owned(), Bytes::in_gib);
        said.push(format!("{} {name} {figure}", sign(theme, name).0));
    }
    if let Some(capacity) = capacity {
        let free = capacity.less(sum);
        said.extend((free > Bytes::ZERO).then(|| format!("{} free {}", theme.sign("░", "."), free.in_gib())));
        said.push(format!("of {capacity}"));
    }
    // A name and its figure stay on one line.
    let joined: Vec<String> = said.into_iter().map(|text| text.replace(' ', "\u{a0}")).collect();
    let wrapped = paragraph(&joined.join("  "), width, Style::new());
    wrapped.into_iter().map(|line| Line::raw(line.to_string().replace('\u{a0}', " "))).collect()
}

fn keys(theme: &Theme, trial: &Trial, width: usize) -> Line<'static> {
    let enter = if trial.is_as_it_was() { "close" } else { "use these settings" };
    let arrows = theme.sign("↑↓←→", "arrows");
    let all =
        [(arrows, "select, change"), ("Enter", enter), ("Backspace", "reset"), ("Tab", "sizes"), ("Esc", "close")];
    let mut spans = Vec::new();
    let mut room = width;
    for (key, words) in all {
        let wide = key.width() + words.width() + 6;
        if wide > room + 3 {
            break;
        }
        room = room.saturating_sub(wide);
        spans.push(Span::styled(format!("[{key}]"), theme.key));
        spans.push(Span::raw(format!(" {words}   ")));
    }
    Line::from(spans)
}

/// Where it is laid: beside the verdict, which stays in sight where there is room above or below it.
pub(super) fn place(model: &Model, area: Rect, width: u16, height: u16) -> Option<Rect> {
    let layout = model.layout();
    if layout.verdict.is_empty() {
        return None;
    }
    let region = [layout.steps, layout.processes].into_iter().find(|region| region.height >= height)?;
    Some(Rect {
        x: area.x + area.width.saturating_sub(width) / 2,
        y: region.y + (region.height - height) / 2,
        width,
        height,
    })
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;

    use crate::app::tests::fit::refused;
    use crate::ui::tests::{SIZES, assert_screens};

    #[test]
    fn will_it_fit() {
        let mut session = refused();
        session.keys("f");
        assert_screens("fit", &mut session, &SIZES);
        session.press(KeyCode::Left);
        session.press(KeyCode::Left);
        session.press(KeyCode::Down);
        assert_screens("fit-turned", &mut session, &SIZES);
        assert_screens("fit", &mut session, &[crate::app::layout::SMALLEST]);
    }
}
