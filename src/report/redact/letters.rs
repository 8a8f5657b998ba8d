//! Owns how a pattern ignores case and the letters beyond ASCII. Each ASCII letter becomes a class of both cases: the regex
//! crate would need Unicode case tables for it (150 kB in the program).

use std::iter::Peekable;
use std::str::Chars;

/// The pattern with the flag `i` spelled out: `(?i:ab)` becomes `(?:[aA][bB])`.
pub(super) fn both_cases(source: &str) -> String {
    let mut out = String::with_capacity(source.len() * 2);
    let mut rest = source.chars().peekable();
    let mut either = false;
    let mut outside = Vec::new();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, &mut out),
            '[' => class(&mut rest, either, &mut out),
            '(' => {
                outside.push(either);
                out.push('(');
                if rest.next_if_eq(&'?').is_some() {
                    group(&mut rest, &mut either, &mut outside, &mut out);
                }
            }
            ')' => {
                either = outside.pop().unwrap_or_default();
                out.push(')');
            }
            letter if either && letter.is_ascii_alphabetic() => {
                out.extend(['[', letter.to_ascii_lowercase(), letter.to_ascii_uppercase(), ']']);
            }
            other => out.push(other),
        }
    }
    out
}

/// Limits `\w`, `\d` and `\b` to ASCII: names of settings are ASCII, and Unicode classes are slow to search.
pub(super) fn ascii(source: &str) -> String {
    let mut out = String::with_capacity(source.len() * 2);
    let mut in_class = false;
    let mut rest = source.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match (rest.next(), in_class) {
                (Some('w'), true) => out.push_str("0-9A-Za-z_"),
                (Some('w'), false) => out.push_str("[0-9A-Za-z_]"),
                (Some('b'), _) => out.push_str(r"(?-u:\b)"),
                (Some('d'), true) => out.push_str("0-9"),
                (Some('d'), false) => out.push_str("[0-9]"),
                (other, _) => out.extend(['\\'].into_iter().chain(other)),
            },
            other => {
                in_class = other == '[' || in_class && other != ']';
                out.push(other);
            }
        }
    }
    out
}

/// Copies what follows a backslash; `x` is followed by two digits.
fn escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('\\');
    let Some(c) = rest.next() else { return };
    out.push(c);
    if c == 'x' {
        out.extend(rest.by_ref().take(2));
    }
}

/// Copies the name or the flags of a group, behind its `(?`. Flags alone (`(?im)`) hold until the
/// group around them ends.
fn group(rest: &mut Peekable<Chars<'_>>, either: &mut bool, outside: &mut Vec<bool>, out: &mut String) {
    let mut flags = String::new();
    let mut on = true;
    while let Some(c) = rest.next() {
        match c {
            'i' => *either = on,
            ':' | ')' => {
                if c == ')' {
                    outside.pop();
                }
                let flags = flags.trim_end_matches('-');
                match (flags, c) {
                    // The flag `i` was the only one.
                    ("", ')') => drop(out.pop()),
                    _ => out.extend(["?", flags, if c == ')' { ")" } else { ":" }]),
                }
                return;
            }
            'P' | '<' => {
                out.extend(['?', c]);
                for c in rest.by_ref() {
                    out.push(c);
                    if c == '>' {
                        return;
                    }
                }
            }
            '-' => {
                on = false;
                flags.push(c);
            }
            flag => flags.push(flag),
        }
    }
}

/// Copies a class, behind its `[`, with its letters and ranges of letters in both cases.
fn class(rest: &mut Peekable<Chars<'_>>, either: bool, out: &mut String) {
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut first = true;
    while let Some(c) = rest.next() {
        match c {
            ']' if !first => {
                out.push(']');
                return;
            }
            '\\' => escape(rest, out),
            letter if either && letter.is_ascii_alphabetic() => {
                let mut last = letter;
                if rest.clone().next() == Some('-') && rest.clone().nth(1).is_some_and(|c| c.is_ascii_alphabetic()) {
                    rest.next();
                    last = rest.next().unwrap_or(letter);
                }
                for case in [char::to_ascii_lowercase, char::to_ascii_uppercase as fn(&char) -> char] {
                    out.extend([case(&letter), '-', case(&last)]);
                }
            }
            other => out.push(other),
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_under_the_flag_are_spelled_out() {
        for (source, spelled) in [
            ("ab", "ab"),
            ("(?i)a-b", "[aA]-[bB]"),
            ("(?i:a)b", "(?:[aA])b"),
            ("(?im)^a$", "(?m)^[aA]$"),
            ("(?i)(?-i:[a-z])a", "(?:[a-z])[aA]"),
            ("(?:x(?i)y)z", "(?:x[yY])z"),
            ("(?i-u:a)", "(?-u:[aA])"),
            (r"(?i)\w\x22\[a", r"\w\x22\[[aA]"),
            ("(?i)(?P<user>[a-z_][^]x-]*)", "(?P<user>[a-zA-Z_][^]x-xX-X-]*)"),
            ("(?i)[ä-ü]é", "[ä-ü]é"),
        ] {
            assert_eq!(both_cases(source), spelled, "{source}");
        }
    }
}
