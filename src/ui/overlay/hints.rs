//! Owns how keys are drawn below what an overlay or a question says.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::ui::theme::Theme;

/// The keys with what they do, closer together where there is little room.
pub(super) fn answers(theme: &Theme, keys: &[(impl AsRef<str>, &str)], width: usize) -> Line<'static> {
    let bare: usize = keys.iter().map(|(key, words)| key.as_ref().width() + words.width() + 3).sum();
    let gaps = keys.len().saturating_sub(1).max(1);
    let gap = " ".repeat((width.saturating_sub(bare) / gaps).clamp(2, 6));
    let mut spans = Vec::new();
    for (number, (key, words)) in keys.iter().enumerate() {
        let before = if number == 0 { "" } else { &gap };
        spans.extend([Span::raw(before.to_owned()), Span::styled(format!("[{}]", key.as_ref()), theme.key)]);
        spans.push(Span::raw(format!(" {words}")));
    }
    Line::from(spans)
}

/// The keys of a question that can't be answered yet: without brackets, which stand for a key that counts.
pub(super) fn not_yet(theme: &Theme, keys: &[(impl AsRef<str>, &str)], width: usize) -> Line<'static> {
    let spans = answers(theme, keys, width).spans.into_iter();
    let spans = spans.map(|span| Span::styled(span.content.replace(['[', ']'], " "), theme.quiet));
    Line::from(spans.collect::<Vec<_>>())
}

/// The two lines below what is read: a blank one and the keys, or the keys in both where they are too long for one.
pub(super) fn below(theme: &Theme, keys: &[(impl AsRef<str>, &str)], width: usize) -> [Line<'static>; 2] {
    let whole = answers(theme, keys, width);
    if whole.width() <= width {
        return [Line::raw(""), whole];
    }
    let (first, second) = keys.split_at(keys.len().div_ceil(2));
    [answers(theme, first, width), answers(theme, second, width)]
}
