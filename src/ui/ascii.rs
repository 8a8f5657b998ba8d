//! Owns the stand-ins for a terminal that shows ASCII only: every other character, also of logs and names, has one.

use ratatui::buffer::Buffer;

/// Replaces all but ASCII, unless the terminal shows more.
pub(super) fn only(unicode: bool, buffer: &mut Buffer) {
    if unicode {
        return;
    }
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            cell.set_symbol(stand_in(cell.symbol()));
        }
    }
}

fn stand_in(symbol: &str) -> &'static str {
    match symbol.chars().next() {
        Some('…') => "~",
        Some('·' | '•') => "-",
        Some('×') => "x",
        Some('≥') => ">",
        Some('≈') => "~",
        Some('°') => " ",
        Some('↑') => "^",
        Some('↓') => "v",
        Some('←') => "<",
        Some('→') => ">",
        Some('–' | '—' | '−') => "-",
        Some('‘' | '’') => "'",
        Some('“' | '”') => "\"",
        Some('│' | '┃' | '║') => "|",
        Some('─' | '━' | '═') => "-",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn nothing_but_ascii_is_left_and_widths_stay() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 1));
        buffer.set_string(0, 0, "a… größer 模型 4×5 x", Style::new());
        only(false, &mut buffer);
        let text: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(text.trim_end(), "a~ gr??er ? ?  4x5 x");
    }
}
