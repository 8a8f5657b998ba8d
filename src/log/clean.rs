//! Owns what makes a log harmless: encodings, terminal escapes, control, bidi and zero-width characters.
//! Line ends are left alone; `log` splits on them.

use std::borrow::Cow;

use memchr::memmem;

use super::expression::Expression;
use crate::text::is_harmful;

/// Text out of bytes, or `None` where this is no text.
pub(super) fn decode(bytes: Vec<u8>) -> Option<String> {
    if let Some(text) = decode_utf16(&bytes) {
        return Some(text);
    }
    if looks_binary(&bytes) {
        return None;
    }
    Some(String::from_utf8(bytes).unwrap_or_else(|error| with_faults(error.as_bytes())))
}

/// What Windows' code page for western languages has at 0x80 and above, where it differs from Unicode.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{fffd}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{fffd}', 'Ž', '\u{fffd}', '\u{fffd}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{fffd}', 'ž', 'Ÿ',
];

/// Text that is not all UTF-8: of Windows' code page where more of it is none than is some, as a console prints it.
fn with_faults(bytes: &[u8]) -> String {
    let (mut faults, mut characters) = (0, 0);
    for part in bytes.utf8_chunks() {
        characters += part.valid().chars().filter(|character| !character.is_ascii()).count();
        // A character that is cut off at the end of a line or of the text shows nothing.
        faults += usize::from(part.invalid().len() == 1);
    }
    if faults <= characters {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let of_page = |byte: &u8| WINDOWS_1252.get(usize::from(byte.wrapping_sub(0x80))).copied();
    bytes.iter().map(|byte| of_page(byte).unwrap_or(char::from(*byte))).collect()
}

/// UTF-16 with its mark (what PowerShell's `>` writes), or without one where every other byte is NUL.
fn decode_utf16(bytes: &[u8]) -> Option<String> {
    let wide: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ if every_other_is_nul(bytes, 1) => u16::from_le_bytes,
        _ if every_other_is_nul(bytes, 0) => u16::from_be_bytes,
        _ => return None,
    };
    let units: Vec<u16> = bytes.chunks_exact(2).filter_map(|pair| Some(wide(pair.try_into().ok()?))).collect();
    Some(String::from_utf16_lossy(&units))
}

fn every_other_is_nul(bytes: &[u8], phase: usize) -> bool {
    let head = bytes.get(..bytes.len().min(4096)).unwrap_or_default();
    let [own, other] = [phase, 1 - phase].map(|offset| count(head.iter().skip(offset).step_by(2), |byte| byte == 0));
    let pairs = head.len() / 2;
    pairs >= 8 && own * 10 >= pairs * 9 && other * 10 < pairs
}

fn count<'b>(bytes: impl Iterator<Item = &'b u8>, is_counted: fn(u8) -> bool) -> usize {
    bytes.filter(|byte| is_counted(**byte)).count()
}

const COMPRESSED_TWICE: &str = "data that is compressed twice; unpack it once";

const MAGIC: &[(&[u8], &str)] = &[
    (b"\x7fELF", "a binary program"),
    (b"MZ\x90", "a binary program for Windows"),
    (b"\x89PNG", "a picture"),
    (b"GGUF", "a model; oomdoctor fit reads it"),
    (b"PK\x03\x04", "an archive; unpack it first"),
    // What is compressed once is unpacked before it comes here.
    (b"\x1f\x8b", COMPRESSED_TWICE),
    (b"\xfd7zXZ", COMPRESSED_TWICE),
    (b"\x28\xb5\x2f\xfd", COMPRESSED_TWICE),
    (b"BZh91AY&SY", COMPRESSED_TWICE),
];

/// What is looked at to tell text from other data.
pub const LOOKED_AT: usize = 1 << 16;

/// What something is that begins so and is no text, with what to do about it; `None` where it may be text.
pub fn what_else(bytes: &[u8]) -> Option<&'static str> {
    let known = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, what)| *what);
    let is_text = decode_utf16(bytes.get(..bytes.len().min(LOOKED_AT)).unwrap_or_default()).is_some();
    known.or_else(|| (!is_text && looks_binary(bytes)).then_some("binary data"))
}

/// A known file type, or a share of bytes that no text has. NUL bytes alone prove nothing: a machine that died
/// while writing leaves a run of them in its log.
fn looks_binary(bytes: &[u8]) -> bool {
    if MAGIC.iter().any(|(magic, _)| bytes.starts_with(magic)) {
        return true;
    }
    let head = bytes.get(..bytes.len().min(LOOKED_AT)).unwrap_or_default();
    let others = count(head.iter(), |byte| byte != 0);
    if others == 0 {
        return !head.is_empty();
    }
    let odd = count(head.iter(), |byte| byte < 0x20 && !matches!(byte, 0 | 8 | b'\t' | b'\n' | 12 | b'\r' | 0x1b));
    let invalid = String::from_utf8_lossy(head).chars().filter(|c| *c == char::REPLACEMENT_CHARACTER).count();
    // Text in a code page has no controls; other data has as many as any byte.
    let faults = if odd * 100 > others { invalid } else { 0 };
    (odd + faults).saturating_sub(4) * 20 > others
}

/// How much is cleaned at once, in whole lines: of a large log no second copy is made.
const PIECE: usize = 1 << 20;

/// The text without what is invisible or steers a terminal, and whether there was any of it.
pub(super) fn clean(raw: String) -> (String, bool) {
    let [reset, plain, escape] = ["[0m", "[39m", "\u{1b}"].map(|sign| memmem::find(raw.as_bytes(), sign.as_bytes()));
    let has_bare_colours = (reset.is_some() || plain.is_some()) && escape.is_none();
    let (mut bytes, mut from, mut to, mut changed) = (raw.into_bytes(), 0, 0, false);
    while from < bytes.len() {
        let end = piece_end(&bytes, from);
        // Line ends stand between characters, so a piece is text.
        let piece = bytes.get(from..end).map(str::from_utf8).and_then(Result::ok).unwrap_or_default();
        match cleaned(piece, has_bare_colours) {
            Cow::Borrowed(_) => {
                if to < from {
                    bytes.copy_within(from..end, to);
                }
                to += end - from;
            }
            // What is clean is never longer.
            Cow::Owned(clean) => {
                changed = true;
                if to + clean.len() <= end
                    && let Some(room) = bytes.get_mut(to..to + clean.len())
                {
                    room.copy_from_slice(clean.as_bytes());
                    to += clean.len();
                }
            }
        }
        from = end;
    }
    bytes.truncate(to);
    (String::from_utf8(bytes).unwrap_or_default(), changed)
}

fn piece_end(bytes: &[u8], from: usize) -> usize {
    let least = from + PIECE;
    bytes.get(least..).and_then(|rest| memchr::memchr2(b'\n', b'\r', rest)).map_or(bytes.len(), |end| least + end + 1)
}

/// A piece without it. Borrowed where there was nothing of it.
fn cleaned(raw: &str, has_bare_colours: bool) -> Cow<'_, str> {
    let shown = without_steering(raw, has_bare_colours);
    match without_padding(&shown) {
        Some(narrow) => Cow::Owned(narrow),
        None => shown,
    }
}

/// Blanks inside a line that are at least so many pad it: a terminal's copy has each row at its full width.
const PADDING: &str = "                                        ";
/// What is left of them where they stand between columns of a table.
const GAP: &str = "    ";

/// The text without long runs of blanks inside its lines; `None` where it has none. A row that ended at a usual width was
/// broken there, within a word or a number, so nothing is left between it and the next one.
fn without_padding(text: &str) -> Option<String> {
    let mut runs = memmem::find_iter(text.as_bytes(), PADDING).peekable();
    runs.peek()?;
    let (mut narrow, mut from) = (String::with_capacity(text.len()), 0);
    for at in runs {
        // The first blanks of a run that was found before.
        if at < from {
            continue;
        }
        let row = text.get(from..at).unwrap_or_default();
        let row_start = row.rfind(['\n', '\r']).map_or(0, |end| end + 1);
        let blanks = text.get(at..).unwrap_or_default().bytes().take_while(|byte| *byte == b' ').count();
        let then = text.as_bytes().get(at + blanks);
        let row = row.get(row_start..).unwrap_or_default();
        if row.trim().is_empty() || then.is_none_or(|byte| matches!(byte, b'\n' | b'\r')) {
            narrow.push_str(text.get(from..at + blanks).unwrap_or_default());
        } else {
            narrow.push_str(text.get(from..at).unwrap_or_default());
            narrow.push_str(if is_full_row(row) { "" } else { GAP });
        }
        from = at + blanks;
    }
    narrow.push_str(text.get(from..).unwrap_or_default());
    Some(narrow)
}

/// Whether a row is as wide as terminals usually are.
fn is_full_row(row: &str) -> bool {
    matches!(row.chars().count(), 80 | 100 | 120 | 132 | 160)
}

/// A piece without what steers a terminal.
fn without_steering(raw: &str, has_bare_colours: bool) -> Cow<'_, str> {
    let shown = without_spelled_colours(raw, has_bare_colours);
    let Some(mut at) = first_to_change(&shown, 0) else { return shown };
    let mut out = String::with_capacity(shown.len());
    let mut from = 0;
    loop {
        out.push_str(shown.get(from..at).unwrap_or_default());
        from = at + take_special(shown.get(at..).unwrap_or_default(), &mut out);
        match first_to_change(&shown, from) {
            Some(next) => at = next,
            None => break,
        }
    }
    out.push_str(shown.get(from..).unwrap_or_default());
    Cow::Owned(out)
}

/// Where the first character from `from` on stands that does not stay as it is.
fn first_to_change(text: &str, from: usize) -> Option<usize> {
    const CHUNK: usize = 64;
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        while let Some(chunk) = bytes.get(at..at + CHUNK)
            && chunk.iter().fold(true, |plain, byte| plain & is_plain(*byte))
        {
            at += CHUNK;
        }
        at += bytes.get(at..)?.iter().position(|byte| !is_plain(*byte))?;
        let Some(character) = text.get(at..).and_then(|tail| tail.chars().next()) else {
            // Inside a character that stays.
            at += 1;
            continue;
        };
        if is_harmful(character) || matches!(character, '\u{a0}' | '\u{202f}' | '\u{2007}' | '\u{2028}' | '\u{2029}') {
            return Some(at);
        }
        at += character.len_utf8();
    }
}

/// Bytes that need no look: ASCII text, line ends, tabs, and the inside of characters whose first byte is harmless.
/// Not so the first bytes of C1 controls, no-break spaces, zero-width and bidi characters, tags and the byte-order mark.
/// Written without branches, so that whole blocks are compared at once.
fn is_plain(byte: u8) -> bool {
    let control = (byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r');
    let leads = (byte == 0xc2) | (byte == 0xd8) | (byte == 0xe1) | (byte == 0xe2) | (byte == 0xef) | (byte == 0xf3);
    !(control | (byte == 0x7f) | leads)
}

/// Handles what begins at `tail`; says how many bytes it took.
fn take_special(tail: &str, out: &mut String) -> usize {
    let Some(first) = tail.chars().next() else { return 0 };
    let width = first.len_utf8();
    match first {
        '\u{1b}' => escape_length(tail.as_bytes()),
        '\u{9b}' => width + control_sequence(tail.as_bytes().get(width..).unwrap_or_default()),
        '\u{a0}' | '\u{202f}' | '\u{2007}' => {
            out.push(' ');
            width
        }
        '\u{2028}' | '\u{2029}' => {
            out.push('\n');
            width
        }
        _ => width,
    }
}

/// The length of the escape sequence at the start, its ESC included. A sequence never reaches over a line end.
fn escape_length(bytes: &[u8]) -> usize {
    let rest = bytes.get(2..).unwrap_or_default();
    match bytes.get(1) {
        Some(b'[') => 2 + control_sequence(rest),
        Some(b']' | b'P' | b'X' | b'^' | b'_') => 2 + control_string(rest),
        Some(b'(' | b')' | b'*' | b'+' | b'#' | b'%' | b' ') => bytes.len().min(3),
        Some(0x30..=0x7e) => 2,
        _ => 1,
    }
}

/// Parameters, intermediates and the final byte of a CSI sequence.
fn control_sequence(bytes: &[u8]) -> usize {
    let body = bytes.iter().take_while(|byte| (0x20..0x40).contains(*byte)).count();
    match bytes.get(body) {
        Some(0x40..=0x7e) => body + 1,
        _ => body,
    }
}

/// The text of an OSC or DCS sequence up to BEL or ST.
fn control_string(bytes: &[u8]) -> usize {
    let end = bytes.iter().position(|byte| matches!(byte, 7 | 0x1b | b'\n' | b'\r')).unwrap_or(bytes.len());
    match (bytes.get(end), bytes.get(end + 1)) {
        (Some(7), _) => end + 1,
        (Some(0x1b), Some(b'\\')) => end + 2,
        _ => end,
    }
}

/// Colours whose ESC was spelled out (JSON's `\u001b[31m`, `^[[31m`) or, where the whole text has others of that kind, lost
/// on the way (`[31m` beside `[0m`).
fn without_spelled_colours(raw: &str, has_bare_colours: bool) -> Cow<'_, str> {
    static SPELLED: Expression = Expression::new(r"(?:\\u001[bB]|\\x1[bB]|\\033|\\e|\^\[|\u{241b})\[[0-9;]*[mK]");
    static BARE: Expression = Expression::new(r"\[[0-9;]*[mK]");
    match SPELLED.replaced(raw, "") {
        text if has_bare_colours => Cow::Owned(BARE.replaced(&text, "").into_owned()),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_windows_code_page_is_text() {
        let console = b"Gr\xf6\xdfe \x93zu gro\xdf\x94 \x96 nicht gen\xfcgend Arbeitsspeicher\r\n".to_vec();
        assert_eq!(decode(console).unwrap(), "Größe “zu groß” – nicht genügend Arbeitsspeicher\r\n");
        let chinese = b"\xc4\xda\xb4\xe6\xb2\xbb\xd7\xe3: MemoryError\r\n".repeat(9);
        assert!(decode(chinese).unwrap().ends_with(": MemoryError\r\n"));
        let with_a_fault = "größer \u{2588}".bytes().chain(*b"\xff x").collect();
        assert_eq!(decode(with_a_fault).unwrap(), "größer █\u{fffd} x");
        let noise = (0..4000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        assert_eq!(decode(noise), None);
    }

    #[test]
    fn terminal_sequences_go() {
        let cases = [
            ("\u{1b}[1;31mred\u{1b}[m", "red"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;https://a\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}(Bplain\u{1b}[K", "plain"),
            ("cut \u{1b}[31", "cut "),
            ("\u{1b}]never closed\nnext", "\nnext"),
            ("\\u001b[31mError\\u001b[39m", "Error"),
            ("[31mError[0m: x[i]", "Error: x[i]"),
            ("a[5m] stays", "a[5m] stays"),
            ("\u{feff}tqdm 50%|█████", "tqdm 50%|█████"),
            ("14\u{a0}GiB", "14 GiB"),
        ];
        for (raw, want) in cases {
            assert_eq!(clean(raw.to_owned()).0, want, "{raw:?}");
        }
    }

    #[test]
    fn rows_that_a_terminal_padded_are_joined() {
        let row = format!("{:<79}b", "PHP Fatal error:  Allowed memory size of 3221225472");
        let row = row.replace("         ", "---------");
        let raw = format!("{row}{}ytes exhausted{}\nnext", " ".repeat(180), " ".repeat(90));
        let (clean, changed) = clean(raw);
        assert!(changed && clean.starts_with(&format!("{row}ytes exhausted ")) && clean.ends_with("\nnext"), "{clean}");
        let table = |blanks| {
            format!("MemoryError{}Traceback (most recent call last)\n{}indented", " ".repeat(blanks), " ".repeat(60))
        };
        assert_eq!(super::clean(table(55)).0, table(4), "columns stay apart, and what is indented stays so");
        assert_eq!(super::clean(table(39)).0, table(39));
    }

    #[test]
    fn healthy_text_is_not_copied() {
        assert!(!clean("step 1: ok\r\nstep 2: 50%|███  | ok\n".to_owned()).1);
    }

    #[test]
    fn a_text_of_many_pieces_is_cleaned_as_its_lines_are() {
        let lines = [
            "plain\r",
            "\u{1b}[31mred\u{1b}[0m größer\n",
            "\u{a0}\u{2028}x\r\n",
            "\\u001b[1m[0m█▌\n",
            "\n",
            "\u{1b}]0;title\n",
        ];
        let text: String = (0..400_000).map(|n: usize| lines[(n * n + n / 7) % lines.len()]).collect();
        assert!(text.len() > 3 * PIECE);
        assert_eq!(clean(text.clone()), (cleaned(&text, false).into_owned(), true));
    }

    #[test]
    fn nothing_that_steers_or_hides_is_overlooked() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|c| is_harmful(*c)) {
            let clean = clean(format!("{}a{c}b", "x".repeat(100))).0;
            assert!(!clean.chars().any(|c| is_harmful(c) && !matches!(c, '\t' | '\n' | '\r')), "{c:?}: {clean:?}");
        }
    }
}
