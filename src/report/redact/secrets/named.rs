//! Owns secrets behind a telling name: in options, settings, variables, source code, JSON, YAML and prose.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::blocks;
use crate::report::redact::table::{Pattern, Words, table};

/// What stands in the place of a secret.
pub(super) const SECRET: &str = "[redacted]";

/// A pattern of names, how the value behind such a name is written, and which values are secrets.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    head: Pattern<true>,
    /// The name of one of the values.
    pub(super) value: String,
    #[serde(default)]
    only: Only,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Only {
    #[default]
    All,
    /// Only a long value, or one with both letters and digits.
    Mixed,
    /// Only a long value that looks random.
    Random,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) values: BTreeMap<String, Pattern<true>>,
    pub(super) rules: Vec<Rule>,
    prose: Pattern<true>,
    placeholder: Pattern<true>,
    figure: Pattern<true>,
    run_name: Pattern<true>,
    model_tokens: Words,
    no_value: Words,
    sources: Words,
    said: Words,
    steps: Words,
    about: Words,
    passes: Words,
    data_keys: Words,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| table("named"));

/// Adds the ranges of such secrets in a text.
pub(super) fn find(text: &str, places: &mut Vec<Range<usize>>) {
    for rule in &TABLE.rules {
        let (mut from, mut block_end) = (0, 0);
        while let Some(head) = rule.head.find_at(text, from) {
            let value = value_behind(text, head.end(), &rule.value);
            // What looks like a key within a block belongs to the block.
            let below = match &value {
                Some(value) if head.start() >= block_end => blocks::below(text, head.start(), value),
                _ => None,
            };
            if let Some(below) = below {
                block_end = below.end();
                places.extend(below.lines().filter(|line| is_secret_line(text, head.range(), line, rule.only)));
            } else {
                places.extend(value.and_then(|value| secret_value(text, head.range(), value, rule.only)));
            }
            // The blank at the end of one match may be the beginning of the next.
            from = if head.as_str().ends_with([' ', '\t']) { head.end() - 1 } else { head.end() };
        }
    }
    let prose = TABLE.prose.captures(text).filter_map(|found| {
        let (head, value) = (found.name("head")?.range(), found.name("value")?.range());
        secret_value(text, head, value, Only::All)
    });
    places.extend(prose);
}

/// Bytes that are searched for the end of a value. Without a limit, a line of many names would be read once for each.
const LONGEST: usize = 1024;

/// The range of the value that begins here.
fn value_behind(text: &str, at: usize, written: &str) -> Option<Range<usize>> {
    let to = text.floor_char_boundary(at + LONGEST);
    let window = text.get(at..to)?;
    let end = match TABLE.values.get(written)?.find_at(window, 0) {
        Some(value) if at + value.end() < to || to == text.len() => at + value.end(),
        // The value is longer than what was searched.
        Some(value) => {
            at + value.end() + text.get(at + value.end()..)?.find([' ', '\t', '\n', '\r', '"', '\'', '`']).unwrap_or(0)
        }
        None => {
            let quote = window.chars().next().filter(|first| matches!(first, '"' | '\''))?;
            // The text was cut before the closing quotation mark.
            let inside = text.get(at + 1..)?;
            at + 1 + inside.find([quote, '\n']).unwrap_or(inside.len())
        }
    };
    Some(at..end)
}

/// Whether a value has a long part of digits and letters. A name in short parts, such as `layer_12_weight`, has none.
fn looks_random(value: &str) -> bool {
    let parts = value.split(is_separator);
    parts.filter(|part| part.len() >= 16).any(|part| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        digits >= 2 && part.len() - digits >= 2
    })
}

/// The range of a value behind a telling name; `None` where the value is no secret.
fn secret_value(text: &str, head: Range<usize>, mut value: Range<usize>, only: Only) -> Option<Range<usize>> {
    let head_text = text.get(head.clone())?.to_ascii_lowercase();
    // In the query of a URL, the next parameter begins at `&`.
    if text.get(..head.start).is_some_and(|before| before.ends_with(['?', '&'])) {
        let next = text.get(value.clone())?.find('&');
        value.end = next.map_or(value.end, |next| value.start + next);
    }
    let whole = text.get(value.clone())?;
    let bare = whole.trim_matches(['"', '\'', '\\']);
    let is_secret = match only {
        Only::All => true,
        Only::Mixed => is_long(bare) || is_short_password(&head_text, bare),
        Only::Random => looks_random(bare) && !is_data_key(&head_text),
    };
    let is_tag = whole.starts_with('<') && rest_of_line(text, value.start).contains('>');
    let is_no_secret = is_tag || is_no_value(&head_text, whole, bare) || names_no_secret(&head_text, bare);
    (is_secret && !is_no_secret).then_some(value)
}

/// Whether a line below a telling name is a secret. It is neither an option nor code, whatever it begins with.
fn is_secret_line(text: &str, head: Range<usize>, line: &Range<usize>, only: Only) -> bool {
    match (only, text.get(head.clone()), text.get(line.clone())) {
        (Only::All, Some(head), Some(bare)) => !names_no_secret(&head.to_ascii_lowercase(), bare),
        _ => secret_value(text, head, line.clone(), only).is_some(),
    }
}

/// Whether a placeholder, source code or a word of prose stands where the value would be.
fn is_no_value(head: &str, whole: &str, bare: &str) -> bool {
    let word = bare.trim_end_matches(['.', '!', '?', ':']).to_lowercase();
    let is_prose = [" is", " was", " to"].iter().any(|verb| head.trim_end().trim_end_matches(':').ends_with(verb));
    !head.ends_with('=') && bare.starts_with('-')
        || bare.is_empty()
        || bare == SECRET
        || TABLE.no_value.contains(bare)
        || TABLE.placeholder.is_match(bare)
        || is_prose && TABLE.said.contains(&word)
        || TABLE.sources.begin(whole)
        // `pwd: /srv` is a folder.
        || head.contains("pwd") && bare.starts_with(['/', '~', '.', '$'])
}

/// Whether the name means something other than a secret, such as a model's token or a list of names.
fn names_no_secret(head: &str, bare: &str) -> bool {
    let has_arrow = head.contains("->") || head.contains('→');
    let name = head.split([':', '=', ',', '→']).next().unwrap_or_default();
    let name = name.split("->").next().unwrap_or_default();
    let is_list = name.starts_with('[') && bare.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    is_list
        || is_about_passwords(name, bare)
        || has_arrow && name.trim() == "token"
        || name.contains("sess") && bare.contains(['-', '_']) && TABLE.run_name.is_match(bare)
        || is_figure(name, bare)
        || is_model_token(name)
}

/// Whether the name is one like `forward_pass` or `password_file`.
fn is_about_passwords(name: &str, bare: &str) -> bool {
    let mut words = name.split(is_separator).filter(|word| !word.is_empty()).rev();
    match (words.next(), words.next()) {
        (Some("pass"), Some(before)) => {
            TABLE.steps.contains(before) || bare.starts_with(|c: char| c.is_ascii_digit()) && !is_long(bare)
        }
        (Some("pass" | "pw"), None) => bare.starts_with(|c: char| c.is_ascii_digit()) && !is_long(bare),
        (Some(last), None) => TABLE.passes.contains(last),
        (Some(last), Some(_)) => TABLE.about.contains(last) && name.contains("pass"),
        _ => false,
    }
}

/// A password may be a word of eight letters with one digit, which is too little for other secrets.
fn is_short_password(name: &str, bare: &str) -> bool {
    let is_plain = bare.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let digits = bare.bytes().filter(u8::is_ascii_digit).count();
    ["pass", "pwd"].iter().any(|word| name.contains(word))
        && is_plain
        && bare.len() >= 8
        && digits >= 1
        && digits < bare.len() / 2
}

/// Whether this character separates the words of a name.
fn is_separator(c: char) -> bool {
    !c.is_ascii_alphanumeric()
}

fn rest_of_line(text: &str, from: usize) -> &str {
    text.get(from..).and_then(|rest| rest.lines().next()).unwrap_or_default()
}

/// Whether a token is a count or an index: `token: 128`. A password may be a number.
fn is_figure(name: &str, bare: &str) -> bool {
    name.trim_end_matches(is_separator).ends_with("token") && TABLE.figure.is_match(bare)
}

/// Whether the name is a key of a cache, a table or a dictionary, whose values are hashes and names.
fn is_data_key(name: &str) -> bool {
    let name = name.split([':', '=', ',']).next().unwrap_or_default();
    let words: Vec<&str> = name.split(is_separator).filter(|word| !word.is_empty()).collect();
    let before = words.len().checked_sub(2).and_then(|at| words.get(at));
    before.is_some_and(|word| TABLE.data_keys.contains(word))
}

/// Whether a value has eight characters or more, with both letters and digits, and is neither a path nor an address.
fn is_long(value: &str) -> bool {
    let bare = value.trim_matches(['"', '\'', '\\']);
    let digits = bare.bytes().filter(u8::is_ascii_digit).count();
    let letters = bare.bytes().filter(u8::is_ascii_alphabetic).count();
    let plain = bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+/=%~:@!$".contains(&byte));
    let uppers = bare.bytes().filter(u8::is_ascii_uppercase).count();
    let is_cased = uppers >= 2 && letters >= uppers + 2;
    plain
        && !bare.starts_with(['/', '.', '~'])
        && (digits >= 2 || digits == 1 && is_cased)
        && letters >= 3
        && bare.len() >= 8
        && !bare.contains("0x")
}

/// Whether the name is one like `eos_token`, `--pad-token` or `ms/token`.
fn is_model_token(name: &str) -> bool {
    let Some(kind) = name.trim_end_matches(is_separator).strip_suffix("token") else { return false };
    kind.trim_end_matches(is_separator)
        .rsplit(is_separator)
        .next()
        .is_some_and(|kind| TABLE.model_tokens.contains(kind))
}
