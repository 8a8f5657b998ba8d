//! Owns which columns of a row of text differ from the row before: often a single digit of an age. Painting a row means
//! cutting it into what a reader sees as characters, the costliest part of a second in which little happens.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use unicode_width::UnicodeWidthChar;

/// The columns of the row in which two lines look different; `None` where they look the same. A line that is missing is
/// blank.
pub(super) fn part(now: Option<&Line<'_>>, then: Option<&Line<'_>>, row: Rect) -> Option<Rect> {
    let (Some(now), Some(then)) = (now, then) else { return Some(row) };
    let (start, end) = columns(now, then)?;
    let end = end.unwrap_or(row.width).min(row.width);
    (start < end).then(|| Rect { x: row.x.saturating_add(start), width: end - start, ..row })
}

/// Paints as much of a line as lies within a part that `part` gave, or that holds all of the row.
pub(super) fn paint(line: &Line<'_>, row: Rect, part: Rect, buffer: &mut Buffer) {
    let seen = row.intersection(part);
    if seen.is_empty() {
        return;
    }
    let (mut before, mut x) = (usize::from(seen.x.saturating_sub(row.x)), seen.x);
    for span in &line.spans {
        // What stands before the part has one column a character.
        let mut rest = span.content.chars();
        while before > 0 && rest.next().is_some() {
            before -= 1;
        }
        let room = usize::from(seen.right().saturating_sub(x));
        x = write(buffer, (x, row.y), rest.as_str(), room, line.style.patch(span.style));
    }
}

/// Writes as much of a text as there is room for, and returns the column behind it.
fn write(buffer: &mut Buffer, (x, y): (u16, u16), text: &str, room: usize, style: Style) -> u16 {
    if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return buffer.set_stringn(x, y, text, room, style).0;
    }
    // Most text is such. It has a column a byte, and need not be searched for what a reader sees as one character.
    let mut next = x;
    for character in text.chars().take(room) {
        if let Some(cell) = buffer.cell_mut((next, y)) {
            cell.set_char(character).set_style(style);
        }
        next += 1;
    }
    next
}

/// The first column that differs, and the one behind the last; `None` for the latter where it is not easily found.
fn columns(now: &Line<'_>, then: &Line<'_>) -> Option<(u16, Option<u16>)> {
    let same = cells(now).zip(cells(then)).take_while(|(now, then)| now == then && has_one_column(*now)).count();
    let (mut now_left, mut then_left) = (cells(now).skip(same).peekable(), cells(then).skip(same).peekable());
    if now_left.peek().is_none() && then_left.peek().is_none() {
        return None;
    }
    let is_simple = now_left.clone().chain(then_left.clone()).all(has_one_column);
    // A mark that combines is part of the character before it.
    let start = if is_simple { same } else { same.saturating_sub(1) };
    let (now_count, then_count) = (now_left.count(), then_left.count());
    let end = (is_simple && now_count == then_count).then(|| {
        let alike =
            cells(now).rev().zip(cells(then).rev()).take(now_count).take_while(|(now, then)| now == then).count();
        column(same + now_count - alike)
    });
    Some((column(start), end))
}

fn column(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// The characters of a line with their styles.
fn cells<'a>(line: &'a Line<'_>) -> impl DoubleEndedIterator<Item = (Style, char)> + Clone + 'a {
    line.spans.iter().flat_map(|span| {
        let style = line.style.patch(span.style);
        span.content.chars().map(move |character| (style, character))
    })
}

/// Whether a character has one column, whatever stands beside it.
fn has_one_column((_, character): (Style, char)) -> bool {
    let never_combines = matches!(character, ' '..='~' | '\u{b0}'..='\u{ff}' | '\u{2010}'..='\u{2027}'
        | '\u{2190}'..='\u{22ff}' | '\u{2500}'..='\u{25ff}');
    never_combines && character.width() == Some(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::style::Color;

    use super::*;

    const ROW: Rect = Rect { x: 3, y: 2, width: 12, height: 1 };

    fn part_of(now: &str, then: &str) -> Option<(u16, u16)> {
        let part = part(Some(&Line::raw(now)), Some(&Line::raw(then)), ROW)?;
        Some((part.x - ROW.x, part.width))
    }

    #[test]
    fn only_columns_that_differ_are_painted() {
        assert_eq!(part_of("age 25 s end", "age 26 s end"), Some((5, 1)));
        assert_eq!(part_of("▒ 25 s", "▒ 25 min"), Some((5, 7)), "all behind it moves");
        assert_eq!(part_of("same", "same"), None);
        assert_eq!(part_of("longer than the row 1", "longer than the row 2"), None, "cut off");
        assert_eq!(part_of("a模b1", "a模b2"), Some((0, 12)), "two columns wide");
        assert_eq!(part_of("ae\u{301}", "aex"), Some((1, 11)), "a mark that combines");
    }

    fn any_line() -> impl Strategy<Value = Line<'static>> {
        let text = prop_oneof!["[ab1▒…é模\u{301}\u{200d}🙂️\u{fe0f}का\u{7}]{0,5}", "[ -~]{0,15}"];
        let span = (text, 0..2).prop_map(|(text, color)| {
            let style = if color == 0 { Style::new() } else { Style::new().fg(Color::Red) };
            ratatui::text::Span::styled(text, style)
        });
        let lines = (prop::collection::vec(span, 0..4), any::<bool>());
        lines.prop_map(|(spans, is_bold)| {
            Line::from(spans).style(if is_bold { Style::new().bold() } else { Style::new() })
        })
    }

    proptest! {
        #[test]
        fn a_row_of_which_a_part_was_painted_looks_as_if_all_of_it_had_been(then in any_line(), now in any_line()) {
            let [mut changed, mut whole] = [Buffer::empty(ROW), Buffer::empty(ROW)];
            changed.set_line(ROW.x, ROW.y, &then, ROW.width);
            whole.set_line(ROW.x, ROW.y, &now, ROW.width);
            let mut at_once = Buffer::empty(ROW);
            paint(&now, ROW, ROW, &mut at_once);
            prop_assert_eq!(&at_once, &whole);
            if let Some(part) = part(Some(&now), Some(&then), ROW) {
                let mut painted = Buffer::empty(part);
                paint(&now, ROW, part, &mut painted);
                for place in part.positions() {
                    changed[place] = painted[place].clone();
                }
            }
            prop_assert_eq!(changed, whole);
        }
    }
}
