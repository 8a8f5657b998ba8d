//! Owns the editor of the log: what is put into it, and what each key does there.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui_textarea::TextArea;

use super::gate::{is_ctrl_c, is_line_feed};

/// A longer log is not put into the editor.
const LONGEST: usize = 256 * 1024;

/// The editor with this text; `None` where the text is too long for it.
pub(crate) fn with_text(text: &str) -> Option<TextArea<'static>> {
    (text.len() <= LONGEST).then(|| TextArea::new(text.lines().map(str::to_owned).collect()))
}

/// Takes a key; whether it ends the editing.
pub(crate) fn key(editor: &mut TextArea<'static>, key: KeyEvent) -> bool {
    if is_line_feed(key) {
        // The editor's own Ctrl-J would delete the text before it.
        editor.insert_newline();
        return false;
    }
    if key.code == KeyCode::Esc || is_ctrl_c(key) {
        return true;
    }
    editor.input(key);
    false
}
