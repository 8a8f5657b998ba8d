//! Owns how things are put into characters: ages, bars, sparklines, and lines cut or wrapped to a width.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::theme::Theme;
use crate::units::Bytes;

/// The text cut to so many columns, with a mark where something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut columns = 0;
    for character in text.chars() {
        columns += character.width().unwrap_or(0);
        if columns >= width {
            break;
        }
        kept.push(character);
    }
    kept.push('…');
    kept
}

/// The text cut in its middle: of a command line, program and last arguments tell most.
pub(crate) fn cut_middle(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    if width < 3 {
        return cut(text, width);
    }
    let head = width / 2;
    let tail = width.saturating_sub(head);
    let mut end = String::new();
    let mut columns = 0;
    for character in text.chars().rev() {
        columns += character.width().unwrap_or(0);
        if columns > tail {
            break;
        }
        end.insert(0, character);
    }
    cut(text, head) + &end
}

/// The text filled up or cut to exactly so many columns.
pub(crate) fn exactly(text: &str, width: usize) -> String {
    let cut = cut(text, width);
    let missing = width.saturating_sub(cut.width());
    cut + &" ".repeat(missing)
}

/// A stacked bar: parts of a whole in their styles and signs, the rest free.
pub(crate) fn bar<'a>(
    theme: &Theme,
    whole: Bytes,
    parts: &[(Bytes, Style, impl AsRef<str>)],
    width: usize,
) -> Vec<Span<'a>> {
    let mut spans = Vec::new();
    let (mut drawn, mut sum) = (0, Bytes::ZERO);
    for (bytes, style, sign) in parts {
        sum = sum.plus(*bytes);
        // Edges are rounded on the running sum, so that the parts never add up to more than the whole.
        let edge = columns(sum, whole, width);
        // What is there at all is seen.
        let edge = if *bytes > Bytes::ZERO && edge == drawn { (drawn + 1).min(width) } else { edge };
        spans.push(Span::styled(sign.as_ref().repeat(edge.saturating_sub(drawn)), *style));
        drawn = edge.max(drawn);
    }
    spans.push(Span::styled(theme.sign("·", ".").repeat(width.saturating_sub(drawn)), theme.free));
    spans
}

fn columns(part: Bytes, whole: Bytes, width: usize) -> usize {
    let share = (u128::from(part.0) * width as u128 + u128::from(whole.0 / 2)) / u128::from(whole.0.max(1));
    usize::try_from(share).unwrap_or(width).min(width)
}

const LEVELS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const ASCII_LEVELS: [&str; 8] = ["_", "_", ".", "-", "-", "=", "=", "#"];

/// The last readings as one row of marks; an unknown one is a gap.
pub(crate) fn sparkline(theme: &Theme, values: &[Option<Bytes>], whole: Bytes, width: usize) -> String {
    let levels = if theme.unicode { LEVELS } else { ASCII_LEVELS };
    let skipped = values.len().saturating_sub(width);
    let marks = values.iter().skip(skipped).map(|value| match value {
        None => " ",
        Some(value) => levels.get(columns(*value, whole, 7)).copied().unwrap_or("█"),
    });
    format!("{}{}", " ".repeat(width.saturating_sub(values.len())), marks.collect::<String>())
}

/// The last ten minutes as one row of marks, with the moment of the crash marked in it.
pub(crate) fn ten_minutes(
    theme: &Theme,
    columns: &[Option<Bytes>],
    whole: Bytes,
    crash: Option<usize>,
) -> Vec<Span<'static>> {
    let all = sparkline(theme, columns, whole, columns.len());
    let Some(at) = crash else { return vec![Span::styled(all, theme.used)] };
    vec![
        Span::styled(all.chars().take(at).collect::<String>(), theme.used),
        Span::styled(theme.sign("✗", "x"), theme.alarm),
        Span::styled(all.chars().skip(at + 1).collect::<String>(), theme.used),
    ]
}

/// Words wrapped to a width, as lines in one style.
pub(crate) fn paragraph(text: &str, width: usize, style: Style) -> Vec<Line<'static>> {
    textwrap::wrap(text, width.max(1)).into_iter().map(|line| Line::styled(line.into_owned(), style)).collect()
}

/// A styled line broken at exactly this width, as terminals break logs.
pub(crate) fn broken(spans: &[(String, Style)], width: usize) -> Vec<Line<'static>> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line: Vec<Span<'static>> = Vec::new();
    let mut columns = 0;
    for (text, style) in spans {
        let mut run = String::new();
        for character in text.chars() {
            let wide = character.width().unwrap_or(0);
            if columns + wide > width {
                line.push(Span::styled(std::mem::take(&mut run), *style));
                lines.push(Line::from(std::mem::take(&mut line)));
                columns = 0;
            }
            run.push(character);
            columns += wide;
        }
        line.push(Span::styled(run, *style));
    }
    lines.push(Line::from(line));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::model::Config;

    #[test]
    fn cut_text_never_exceeds_its_width() {
        for width in 1..12 {
            for text in ["llama-server --model x", "模型模型模型", "ab"] {
                assert!(cut(text, width).width() <= width, "{text} {width}");
                assert_eq!(exactly(text, width).width(), width, "{text} {width}");
                assert!(cut_middle(text, width).width() <= width, "{text} {width}");
            }
        }
    }

    #[test]
    fn a_bar_fills_its_width_and_shows_the_smallest_part() {
        let theme = Theme::of(&Config::default());
        let parts = [(Bytes(1), theme.used, "█"), (Bytes::gib(12), theme.held, "▒")];
        let spans = bar(&theme, Bytes::gib(24), &parts, 20);
        let text: String = spans.iter().map(|span| span.content.clone()).collect();
        assert_eq!(text, "█▒▒▒▒▒▒▒▒▒··········");
    }

    #[test]
    fn a_long_line_is_broken_without_losing_a_character() {
        let spans = [("abcdefg".to_owned(), Style::new()), ("模型x".to_owned(), Style::new())];
        let text: String = broken(&spans, 4).iter().map(|line| format!("{line}|")).collect();
        assert_eq!(text, "abcd|efg|模型|x|");
    }
}
