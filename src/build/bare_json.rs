//! Owns what the program carries of a file of knowledge: its values as JSON, which is parsed several times as fast as RON
//! at each start, without those that only checks read (examples, and where a fact was read).

use serde_json::{Map, Value};

/// The fields that only checks read, by folder. An entry's page shows the first of its `matches`, which stays.
const ONLY_FOR_CHECKS: [(&str, &[&str]); 4] = [
    ("entries", &["matches", "rejects"]),
    ("fixes", &["references"]),
    ("releases", &["example", "references"]),
    ("signs", &["example", "references"]),
];

/// The values of a file in RON as above; `path` is relative to knowledge/.
///
/// # Errors
/// The text is no RON, or uses what no file of knowledge needs: tuples of one element without a name, characters.
pub fn bare_json(path: &str, text: &str) -> Result<String, String> {
    let mut reader = Reader { rest: text };
    let mut value = reader.value().map_err(|error| format!("{path}: {error}"))?;
    let folder = path.split('/').next().unwrap_or_default();
    let left_out = ONLY_FOR_CHECKS.iter().find(|(name, _)| *name == folder).map_or(&[][..], |(_, fields)| *fields);
    match &mut value {
        Value::Array(rows) => rows.iter_mut().for_each(|row| leave_out(row, left_out)),
        one => leave_out(one, left_out),
    }
    Ok(value.to_string())
}

fn leave_out(row: &mut Value, fields: &[&str]) {
    let present = row.as_object_mut().into_iter().flatten().filter(|(name, _)| fields.contains(&name.as_str()));
    for (name, value) in present {
        match value {
            Value::Array(examples) => examples.truncate(usize::from(name == "matches")),
            other => *other = Value::String(String::new()),
        }
    }
}

/// What stands in parentheses.
enum Parentheses {
    Fields(Map<String, Value>),
    Elements(Vec<Value>),
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn value(&mut self) -> Result<Value, String> {
        self.skip_blanks();
        match self.rest.chars().next() {
            Some('[') => Ok(Value::Array(self.elements('[', ']')?)),
            Some('{') => Ok(Value::Object(self.pairs('{', '}')?)),
            Some('(') => Ok(match self.parentheses()? {
                Parentheses::Fields(fields) => Value::Object(fields),
                Parentheses::Elements(elements) => Value::Array(elements),
            }),
            _ if self.string_length().is_some() => self.string().map(Value::String),
            Some(digit) if digit.is_ascii_digit() || "+-.".contains(digit) => self.number(),
            _ => self.named(),
        }
    }

    /// A word: a truth value, an option, or a variant with what belongs to it.
    fn named(&mut self) -> Result<Value, String> {
        let name = self.word()?;
        self.skip_blanks();
        let inner = if self.rest.starts_with('(') { Some(self.parentheses()?) } else { None };
        let inner = match inner {
            None => None,
            Some(Parentheses::Fields(fields)) => Some(Value::Object(fields)),
            Some(Parentheses::Elements(mut elements)) if elements.len() == 1 => elements.pop(),
            Some(Parentheses::Elements(elements)) => Some(Value::Array(elements)),
        };
        Ok(match (name, inner) {
            ("Some", Some(inner)) => inner,
            ("None", None) => Value::Null,
            ("true", None) => Value::Bool(true),
            ("false", None) => Value::Bool(false),
            (variant, None) => Value::String(variant.to_owned()),
            (variant, Some(inner)) => Value::Object(Map::from_iter([(variant.to_owned(), inner)])),
        })
    }

    fn parentheses(&mut self) -> Result<Parentheses, String> {
        let mut ahead = Reader { rest: self.rest };
        ahead.take('(')?;
        let is_fields = ahead.rest.starts_with(')') || ahead.word().is_ok_and(|_| ahead.take(':').is_ok());
        if is_fields {
            return self.pairs('(', ')').map(Parentheses::Fields);
        }
        self.elements('(', ')').map(Parentheses::Elements)
    }

    fn elements(&mut self, opening: char, closing: char) -> Result<Vec<Value>, String> {
        let mut elements = Vec::new();
        self.take(opening)?;
        while !self.rest.starts_with(closing) {
            elements.push(self.value()?);
            self.comma(closing)?;
        }
        self.take(closing)?;
        Ok(elements)
    }

    fn pairs(&mut self, opening: char, closing: char) -> Result<Map<String, Value>, String> {
        let mut pairs = Map::new();
        self.take(opening)?;
        while !self.rest.starts_with(closing) {
            let name = if self.string_length().is_some() { self.string()? } else { self.word()?.to_owned() };
            self.take(':')?;
            pairs.insert(name, self.value()?);
            self.comma(closing)?;
        }
        self.take(closing)?;
        Ok(pairs)
    }

    /// A comma, which may be missing behind the last one.
    fn comma(&mut self, closing: char) -> Result<(), String> {
        self.skip_blanks();
        if self.rest.starts_with(closing) { Ok(()) } else { self.take(',') }
    }

    fn take(&mut self, sign: char) -> Result<(), String> {
        self.skip_blanks();
        let behind = self.rest.strip_prefix(sign).ok_or_else(|| self.unexpected(sign))?;
        self.rest = behind;
        self.skip_blanks();
        Ok(())
    }

    fn unexpected(&self, wanted: char) -> String {
        format!("{wanted:?} is missing before {:?}", self.rest.lines().next().unwrap_or_default())
    }

    fn number(&mut self) -> Result<Value, String> {
        let digits = self.split(self.rest.find(|sign: char| !(sign.is_alphanumeric() || "+-._".contains(sign))));
        serde_json::from_str(&digits.replace('_', "")).map_err(|error| format!("{digits}: {error}"))
    }

    /// A name; a raw one, `r#text-encoding`, may hold what no other does.
    fn word(&mut self) -> Result<&'t str, String> {
        let raw = self.rest.strip_prefix("r#");
        self.rest = raw.unwrap_or(self.rest);
        let more = if raw.is_some() { "-.+" } else { "" };
        let word =
            self.split(self.rest.find(|sign: char| !(sign.is_alphanumeric() || sign == '_' || more.contains(sign))));
        if word.is_empty() { Err(self.unexpected('a')) } else { Ok(word) }
    }

    fn string(&mut self) -> Result<String, String> {
        let token = self.split(self.string_length());
        ron::from_str(token).map_err(|error| format!("{token}: {error}"))
    }

    /// The bytes of the string that comes next, its quotes included.
    fn string_length(&self) -> Option<usize> {
        let behind_r = self.rest.strip_prefix('r').unwrap_or_default();
        let inner = behind_r.trim_start_matches('#');
        if let Some(raw) = inner.strip_prefix('"') {
            let hashes = behind_r.len() - inner.len();
            let end = format!("\"{}", "#".repeat(hashes));
            return Some(1 + hashes + 1 + raw.find(&end)? + end.len());
        }
        let mut is_escaped = false;
        for (at, sign) in self.rest.strip_prefix('"')?.char_indices() {
            if sign == '"' && !is_escaped {
                return Some(1 + at + 1);
            }
            is_escaped = sign == '\\' && !is_escaped;
        }
        None
    }

    /// What stands before that byte, or all; the rest begins there.
    fn split(&mut self, at: Option<usize>) -> &'t str {
        let (before, behind) = self.rest.split_at_checked(at.unwrap_or(self.rest.len())).unwrap_or((self.rest, ""));
        self.rest = behind;
        before
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
        while self.rest.starts_with("//") {
            self.rest = self.rest.split_once('\n').map_or("", |(_, behind)| behind.trim_start());
        }
    }
}
