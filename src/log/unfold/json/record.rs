//! Owns what a message in JSON is: which members hold its text and its time, and which say nothing of the failure.

use std::borrow::Cow;
use std::ops::Range;

use jiff::Timestamp;

use crate::effort;

/// A member of an object that is no object or list itself.
pub(super) struct Member {
    /// Without the quotation marks.
    pub(super) key: Range<usize>,
    pub(super) value: Value,
}

pub(super) enum Value {
    /// Without the quotation marks.
    String(Range<usize>),
    Literal(Range<usize>),
    /// Given as bytes.
    Decoded(String),
}

/// What the elements of a list are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum List {
    /// Text only where they have line ends.
    #[default]
    Other,
    /// Parts of a text.
    Joined,
    /// A line each.
    Lines,
    /// A time and a line each.
    Pairs,
    /// A notebook's source code and its pictures.
    Raw,
}

/// Keys of what a program said.
const TEXT: [&str; 20] = [
    "log",
    "line",
    "message",
    "msg",
    "Message",
    "MESSAGE",
    "textPayload",
    "text",
    "event",
    "evalue",
    "stringValue",
    "_raw",
    "@message",
    "exc_info",
    "exc_text",
    "exception",
    "stack",
    "stack_trace",
    "stackTrace",
    "stacktrace",
];

/// Keys of the time at which it did.
const TIME: [&str; 13] = [
    "time",
    "timestamp",
    "ts",
    "@timestamp",
    "Timestamp",
    "asctime",
    "datetime",
    "eventTime",
    "lastTimestamp",
    "_time",
    "__REALTIME_TIMESTAMP",
    "_SOURCE_REALTIME_TIMESTAMP",
    "date",
];

/// Keys of what only tells where a message was kept.
const BESIDE: [&str; 18] = [
    "stream",
    "ingestionTime",
    "eventId",
    "logStreamName",
    "logStream",
    "insertId",
    "receiveTimestamp",
    "observedTimestamp",
    "logName",
    "labels",
    "annotations",
    "managedFields",
    "kubernetes",
    "docker",
    "attrs",
    "tags",
    "partial",
    "_p",
];

/// Whether what this key holds says nothing of the failure.
pub(super) fn is_beside_the_point(key: &str) -> bool {
    BESIDE.contains(&key)
}

impl List {
    /// What a key's list holds.
    pub(super) fn of(key: &str) -> List {
        match key {
            "text" | "text/plain" => List::Joined,
            "traceback" | "lines" | "logs" | "log" | "output" => List::Lines,
            "values" => List::Pairs,
            _ if is_raw(key) => List::Raw,
            _ => List::Other,
        }
    }
}

fn is_raw(key: &str) -> bool {
    key == "source" || key == "text/html" || key.starts_with("image/") || key.starts_with("application/")
}

/// A message.
pub(super) struct Record<'m> {
    /// Its texts, each with its place in the file.
    pub(super) texts: Vec<(usize, Cow<'m, str>)>,
    /// What stands before the first one.
    pub(super) head: String,
    /// What else the object says, as it stands there.
    pub(super) rest: String,
    /// Whether the text is a single line.
    pub(super) is_one_line: bool,
}

impl Member {
    fn key<'r>(&self, raw: &'r str) -> &'r str {
        raw.get(self.key.clone()).unwrap_or_default()
    }

    fn text<'m>(&'m self, raw: &'m str) -> Cow<'m, str> {
        match &self.value {
            Value::String(range) => decoded(raw.get(range.clone()).unwrap_or_default()),
            Value::Literal(range) => Cow::Borrowed(raw.get(range.clone()).unwrap_or_default()),
            Value::Decoded(text) => Cow::Borrowed(text),
        }
    }

    /// The member as it stands in the file.
    fn whole<'r>(&self, raw: &'r str) -> &'r str {
        let end = match &self.value {
            Value::String(range) => (range.end + 1).min(raw.len()),
            Value::Literal(range) => range.end,
            Value::Decoded(_) => self.key.end,
        };
        raw.get(self.key.start.saturating_sub(1)..end).unwrap_or_default()
    }
}

impl<'m> Record<'m> {
    /// The message that these members are; `None` if they are none.
    pub(super) fn of(raw: &'m str, members: &'m [Member]) -> Option<Record<'m>> {
        let mut texts = Vec::new();
        let mut others = Vec::new();
        let mut moment = None;
        for member in members {
            let (key, text) = (member.key(raw), member.text(raw));
            let is_message = TEXT.contains(&key) && !matches!(member.value, Value::Literal(_)) || text.contains('\n');
            if is_message && !is_raw(key) {
                texts.push((member.key.start, text));
            } else if moment.is_none() && TIME.contains(&key) {
                moment = time(&text);
            } else if !is_beside_the_point(key) {
                others.push((key, text, member));
            }
        }
        texts.retain(|(_, text)| !text.trim().is_empty());
        if texts.is_empty() {
            return None;
        }
        let value_of = |wanted: &str| others.iter().find(|(key, ..)| *key == wanted).map(|(_, text, _)| text.as_ref());
        let mut head = moment.map(|moment| moment + " ").unwrap_or_default();
        // As the journal is read elsewhere.
        if let Some(identifier) = value_of("SYSLOG_IDENTIFIER") {
            let host = value_of("_HOSTNAME").unwrap_or("host");
            let pid = value_of("_PID").map(|pid| format!("[{pid}]")).unwrap_or_default();
            head += &format!("{host} {identifier}{pid}: ");
        }
        // As a notebook shows an exception.
        if let Some(name) = value_of("ename").filter(|name| texts.iter().all(|(_, text)| !text.contains(name))) {
            head += &format!("{name}: ");
        }
        let others = others.iter().filter(|(key, ..)| *key != "ename" && !is_of_the_journal(key));
        let rest: Vec<&str> = others.map(|(_, _, member)| member.whole(raw)).collect();
        let rest = if rest.is_empty() { String::new() } else { format!("{{{}}}", rest.join(", ")) };
        let is_one_line = texts.len() == 1 && texts.iter().all(|(_, text)| !text.trim_end().contains(['\n', '\r']));
        Some(Record { texts, head, rest, is_one_line })
    }
}

/// The journal's own fields beside a message.
fn is_of_the_journal(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The text of a string, also of one that is cut off or has faults.
pub(super) fn decoded(inside: &str) -> Cow<'_, str> {
    effort::count(inside.len());
    if !inside.contains('\\') {
        return Cow::Borrowed(inside);
    }
    Cow::Owned(serde_json::from_str(&format!("\"{inside}\"")).unwrap_or_else(|_| {
        let spelled = [("\\n", "\n"), ("\\r", "\r"), ("\\t", "\t"), ("\\\"", "\""), ("\\u001b", "\u{1b}")];
        spelled.into_iter().fold(inside.to_owned(), |text, (escape, meant)| text.replace(escape, meant))
    }))
}

/// A time as logs print it: a date as it is, or what counts the seconds since 1970 in whatever unit.
pub(super) fn time(value: &str) -> Option<String> {
    /// A second in the year 5000: what is more counts smaller units.
    const LATEST: i64 = 95_617_584_000;
    /// One in 2001: what is less is no time.
    const EARLIEST: i64 = 1_000_000_000;
    let is_date = (19..40).contains(&value.len()) && value.starts_with(|first: char| first.is_ascii_digit());
    if is_date && value.get(4..5) == Some("-") {
        return Some(value.to_owned());
    }
    let (whole, _) = value.split_once('.').unwrap_or((value, ""));
    let mut seconds: i64 = whole.parse().ok()?;
    while seconds > LATEST {
        seconds /= 1000;
    }
    if seconds < EARLIEST { None } else { Some(Timestamp::from_second(seconds).ok()?.to_string()) }
}
