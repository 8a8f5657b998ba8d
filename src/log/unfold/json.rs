//! Owns JSON that holds a log: what a cluster, a container, a collector of logs or a notebook exports, indented or on one
//! line. A string that is a message or has line ends becomes lines; of the object around a message only what it says
//! beside is kept. The rest stays as it is, a long line in pieces. One pass without recursion: any depth, any break.

mod record;
#[cfg(test)]
mod tests;

use std::ops::Range;

use super::lines::{Unfolded, line_ends};
use crate::log::prefix;
use record::{List, Member, Value};

/// A value on a longer line is shown in pieces, as indented JSON is.
const LONG: usize = 1 << 10;
/// Text in JSON may be JSON again, as a container's log of a service that logs so.
const NESTED: usize = 2;

/// The lines of all JSON in the text; `None` without any that holds text.
pub(super) fn lines(raw: &str) -> Option<Unfolded> {
    unfolded(raw, 1)
}

fn unfolded(raw: &str, level: usize) -> Option<Unfolded> {
    let mut reader = Reader { raw, out: Unfolded::new(), done: 0, number: 1, is_container: false, level };
    let mut at = 0;
    while at < raw.len() {
        let rest = raw.as_bytes().get(at..).unwrap_or_default();
        let end = at + memchr::memchr2(b'\n', b'\r', rest).map_or(rest.len(), |end| end + 1);
        at = match beginning(raw, at..end) {
            Some(start) => reader.read(start, at).max(end),
            None => end,
        };
    }
    if !reader.is_container {
        return None;
    }
    reader.keep_to(raw.len(), false);
    Some(reader.out)
}

/// Where a value begins in a line: at its start, or behind what another program put before it.
fn beginning(raw: &str, line: Range<usize>) -> Option<usize> {
    let own = raw.get(line.clone())?;
    let content = own.trim_start_matches([' ', '\t', '\u{feff}']);
    let start = if content.starts_with(['{', '[']) {
        line.end - content.len()
    } else if own.trim_end().ends_with('}') && own.contains("{\"") {
        line.start + prefix::length(own)
    } else {
        return None;
    };
    // Brackets also hold a rank, a time or a list of figures.
    let inside = raw.get(start + 1..)?.trim_start();
    let is_value = match raw.as_bytes().get(start) {
        Some(b'{') => inside.starts_with('"'),
        Some(b'[') => inside.starts_with(['{', '"', '[']),
        _ => false,
    };
    is_value.then_some(start)
}

struct Reader<'r> {
    raw: &'r str,
    out: Unfolded,
    /// What lies before this is in `out`, or was left out of it.
    done: usize,
    /// In which line of the file `done` lies.
    number: u32,
    /// Whether anything is shown in another way than it stands there.
    is_container: bool,
    level: usize,
}

/// What is known of the values that are open.
struct Open {
    /// For each of them, what its elements are; `None` for an object.
    lists: Vec<Option<List>>,
    /// The members of the innermost object since its beginning or since the last value in it.
    members: Vec<Member>,
    /// Where they begin, or the next element does.
    from: usize,
    /// The key whose value comes next.
    key: Option<Range<usize>>,
    /// Whether the last element was text, which the next one continues.
    is_in_text: bool,
    /// The time that a list has before its text.
    time: Option<String>,
    /// Whether the value stands on one long line.
    is_long: bool,
    /// Whether something of another program stands before the value.
    is_behind_prefix: bool,
}

impl<'r> Reader<'r> {
    fn text(&self, range: &Range<usize>) -> &'r str {
        self.raw.get(range.clone()).unwrap_or_default()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.raw.as_bytes().get(at).copied()
    }

    /// The first place from `at` on without a blank.
    fn past_blanks(&self, at: usize) -> usize {
        let rest = self.raw.as_bytes().get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
    }

    /// Keeps the file as it stands up to here.
    fn keep_to(&mut self, at: usize, is_long: bool) {
        let raw = self.text(&(self.done..at));
        self.done = at.max(self.done);
        if !is_long {
            self.number = self.out.push_raw(raw, self.number);
            return;
        }
        for piece in pieces(raw) {
            self.number = self.out.push_raw(piece, self.number);
            self.out.start_line(self.number);
        }
    }

    /// Leaves the file out up to here.
    fn drop_to(&mut self, at: usize) {
        self.number = self.number.saturating_add(line_ends(self.text(&(self.done..at))));
        self.done = at.max(self.done);
    }

    /// Reads the value that begins here; says where it ends, or where what is no JSON begins.
    fn read(&mut self, start: usize, line: usize) -> usize {
        let rest = self.raw.as_bytes().get(start..).unwrap_or_default();
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let mut open = Open {
            lists: Vec::new(),
            members: Vec::new(),
            from: start,
            key: None,
            is_in_text: false,
            time: None,
            is_long: length > LONG,
            is_behind_prefix: !self.text(&(line..start)).trim().is_empty(),
        };
        let mut at = start;
        loop {
            match self.step(&mut open, at) {
                Some(next) => at = next,
                None => match self.next_line(&mut open, at) {
                    Some(next) => at = next,
                    None => break,
                },
            }
            if open.lists.is_empty() {
                break;
            }
        }
        self.flush(&mut open, at);
        if open.is_long && open.lists.is_empty() {
            self.is_container = true;
            self.keep_to(at, true);
        }
        at
    }

    /// Where JSON goes on behind what is none, as where a part of a long log was left out.
    fn next_line(&mut self, open: &mut Open, at: usize) -> Option<usize> {
        const GAP: usize = 3;
        self.flush(open, at);
        let mut next = at;
        for _ in 0..GAP {
            let rest = self.raw.as_bytes().get(next..)?;
            next += memchr::memchr(b'\n', rest)? + 1;
            let content = self.past_blanks(next);
            let is_json = match self.byte(content)? {
                b'{' | b'}' | b']' | b'[' => true,
                b'"' => content > next,
                _ => false,
            };
            if is_json {
                open.from = next;
                return Some(next);
            }
        }
        None
    }

    /// Reads the next token; says where it ends.
    fn step(&mut self, open: &mut Open, at: usize) -> Option<usize> {
        match self.byte(at)? {
            b' ' | b'\t' | b'\n' | b'\r' => Some(self.past_blanks(at)),
            b',' => {
                open.key = None;
                if open.lists.last().is_some_and(Option::is_some) {
                    if open.is_in_text {
                        self.drop_to(at + 1);
                    }
                    open.from = at + 1;
                }
                Some(at + 1)
            }
            b'{' => Some(self.begin_object(open, at)),
            b'[' => Some(self.begin_list(open, at)),
            b'}' | b']' => Some(self.end(open, at)),
            b'"' => self.string(open, at),
            _ => self.literal(open, at),
        }
    }

    fn begin_object(&mut self, open: &mut Open, at: usize) -> usize {
        if open.key.as_ref().is_some_and(|key| record::is_beside_the_point(self.text(key))) {
            open.key = None;
            return self.past_value(at);
        }
        self.flush_before(open, at);
        open.lists.push(None);
        at + 1
    }

    fn begin_list(&mut self, open: &mut Open, at: usize) -> usize {
        if let Some(key) = &open.key
            && self.text(key) == "MESSAGE"
            && let Some((text, end)) = self.bytes(at)
        {
            open.members.push(Member { key: key.clone(), value: Value::Decoded(text) });
            open.key = None;
            return end;
        }
        let is_traceback = open.key.as_ref().is_some_and(|key| self.text(key) == "traceback");
        if is_traceback && self.byte(self.past_blanks(at + 1)) != Some(b']') {
            self.leave_out_value_of_exception(open);
        }
        let around = open.lists.last().copied().flatten();
        let list = match &open.key {
            Some(key) => List::of(self.text(key)),
            None => around.filter(|list| *list == List::Pairs).unwrap_or_default(),
        };
        self.flush_before(open, at);
        open.from = at + 1;
        open.lists.push(Some(list));
        at + 1
    }

    /// The traceback that follows ends with what an exception's value says.
    fn leave_out_value_of_exception(&mut self, open: &mut Open) {
        let members = std::mem::take(&mut open.members);
        for member in &members {
            if self.text(&member.key) == "evalue"
                && let Value::String(value) = &member.value
            {
                self.keep_to(member.key.start - 1, open.is_long);
                let comma = self.past_blanks(value.end + 1);
                self.drop_to(if self.byte(comma) == Some(b',') { comma + 1 } else { comma });
                open.from = self.done;
            }
        }
    }

    /// A text as the journal writes what is not plain: its bytes.
    fn bytes(&self, at: usize) -> Option<(String, usize)> {
        let rest = self.raw.get(at + 1..)?;
        let inside = rest.get(..memchr::memchr3(b']', b'"', b'{', rest.as_bytes())?)?;
        let bytes: Option<Vec<u8>> = inside.split(',').map(|byte| byte.trim().parse().ok()).collect();
        (rest.as_bytes().get(inside.len()) == Some(&b']'))
            .then_some((String::from_utf8_lossy(&bytes?).into_owned(), at + inside.len() + 2))
    }

    fn end(&mut self, open: &mut Open, at: usize) -> usize {
        let was_object = open.lists.pop().is_none_or(|list| list.is_none());
        open.key = None;
        if open.is_in_text {
            self.drop_to(at);
            self.out.start_line(self.number);
            open.is_in_text = false;
        }
        let before = self.done;
        if was_object {
            self.flush(open, at + 1);
        }
        open.members.clear();
        open.from = at + 1;
        if self.done > before && self.done == at + 1 {
            // Of a list of messages only they remain.
            let comma = self.past_blanks(at + 1);
            let end = if self.byte(comma) == Some(b',') { comma + 1 } else { at + 1 };
            let rest = self.raw.as_bytes().get(end..).unwrap_or_default();
            let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
            let next = end + blanks + usize::from(rest.get(blanks) == Some(&b'\n'));
            self.drop_to(next);
            self.out.start_line(self.number);
            open.from = next;
            return next;
        }
        at + 1
    }

    /// Where the value that begins here ends.
    fn past_value(&self, at: usize) -> usize {
        let bytes = self.raw.as_bytes();
        let (mut depth, mut at) = (0_usize, at);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let Some(end) = self.end_of_string(at) else { return at };
                    at = end - 1;
                }
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
        at
    }

    /// Behind the quotation mark that ends a string, or the end of a file that is cut; `None` for one over a line end.
    fn end_of_string(&self, at: usize) -> Option<usize> {
        let bytes = self.raw.as_bytes();
        let mut at = at + 1;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(next) = memchr::memchr3(b'"', b'\\', b'\n', rest) else { return Some(bytes.len()) };
            match rest.get(next) {
                Some(b'"') => return Some(at + next + 1),
                Some(b'\\') => at += next + 2,
                _ => return None,
            }
        }
    }

    fn string(&mut self, open: &mut Open, at: usize) -> Option<usize> {
        let end = self.end_of_string(at)?.min(self.raw.len());
        let content = self.text(&(at..end)).trim_start_matches('"');
        let has_end = end > at + 1 && self.byte(end - 1) == Some(b'"');
        let inside = at + 1..at + 1 + content.len() - usize::from(has_end && !content.is_empty());
        let colon = self.past_blanks(end);
        if open.key.is_none() && self.byte(colon) == Some(b':') {
            open.key = Some(inside);
            return Some(colon + 1);
        }
        match open.key.take() {
            Some(key) => open.members.push(Member { key, value: Value::String(inside) }),
            None => self.element(open, at..end, &inside),
        }
        Some(end)
    }

    /// An element of a list: text, or kept as it is.
    fn element(&mut self, open: &mut Open, whole: Range<usize>, inside: &Range<usize>) {
        let list = open.lists.last().copied().flatten().unwrap_or_default();
        if list == List::Raw {
            return;
        }
        let text = record::decoded(self.text(inside));
        if list == List::Pairs && open.time.is_none() && text.len() > 9 && text.bytes().all(|b| b.is_ascii_digit()) {
            open.time = record::time(&text);
            return;
        }
        let is_text = list != List::Other || text.contains('\n');
        if !is_text {
            open.is_in_text = false;
            return;
        }
        let goes_on = open.is_in_text && list == List::Joined;
        let from = open.from.max(self.done);
        self.keep_to(from, open.is_long);
        self.drop_to(whole.start);
        if !goes_on || self.out.is_at_line_start() {
            self.out.start_line(self.number);
        }
        if let Some(time) = open.time.take() {
            self.out.push_text(&format!("{time} "), self.number);
        }
        self.push_message(&text, self.number);
        self.drop_to(whole.end);
        open.is_in_text = true;
        self.is_container = true;
    }

    /// A message; its own lines where it is JSON again.
    fn push_message(&mut self, text: &str, number: u32) {
        let is_json = self.level < NESTED && text.trim_start().starts_with("{\"");
        match is_json.then(|| unfolded(text, self.level + 1)).flatten() {
            Some(inner) => self.out.push_text(&inner.text, number),
            None => self.out.push_text(text, number),
        }
    }

    /// A number or a word.
    fn literal(&mut self, open: &mut Open, at: usize) -> Option<usize> {
        let rest = self.raw.as_bytes().get(at..)?;
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)).count();
        let word = self.text(&(at..at + length));
        let is_known = matches!(word, "true" | "false" | "null" | "NaN" | "Infinity" | "-Infinity");
        if !is_known && !word.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            return None;
        }
        if let Some(key) = open.key.take() {
            open.members.push(Member { key, value: Value::Literal(at..at + length) });
        }
        Some(at + length)
    }

    /// A value begins here that is no member by itself.
    fn flush_before(&mut self, open: &mut Open, at: usize) {
        let end = open.key.as_ref().map_or(at, |key| key.start - 1);
        self.flush(open, end);
        open.key = None;
        open.is_in_text = false;
        open.from = at;
    }

    /// The members so far are all that belong together: a message, or what is kept as it is.
    fn flush(&mut self, open: &mut Open, at: usize) {
        let members = std::mem::take(&mut open.members);
        let Some(record) = record::Record::of(self.raw, &members) else { return };
        let is_first_in_line = !(open.is_behind_prefix && self.done <= open.from && open.lists.len() <= 1);
        self.keep_to(open.from, open.is_long);
        open.is_behind_prefix = false;
        let (mut reached, mut number) = (self.done, self.number);
        let mut is_first = true;
        for (place, text) in record.texts {
            number = number.saturating_add(line_ends(self.text(&(reached..place))));
            reached = reached.max(place);
            if !is_first || is_first_in_line {
                self.out.start_line(number);
            }
            if is_first {
                self.out.push_text(&record.head, number);
            }
            self.push_message(text.trim_end_matches(['\n', '\r']), number);
            if is_first && record.is_one_line && !record.rest.is_empty() {
                self.out.push_text(&format!(" {}", record.rest), number);
            }
            is_first = false;
        }
        self.drop_to(at);
        if !record.is_one_line && !record.rest.is_empty() {
            self.out.start_line(number);
            self.out.push_text(&record.rest, number);
        }
        self.out.start_line(self.number);
        self.is_container = true;
    }
}

/// A long line in pieces: each member or element that is no figure begins one.
fn pieces(raw: &str) -> impl Iterator<Item = &str> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, behind) = rest.split_at(end_of_piece(rest));
        rest = behind;
        Some(piece)
    })
}

fn end_of_piece(raw: &str) -> usize {
    let bytes = raw.as_bytes();
    let (mut at, mut is_inside) = (0, false);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'\\' if is_inside => at += 1,
            b'"' => is_inside = !is_inside,
            b',' | b'{' | b'[' if !is_inside => {
                let blanks = bytes.iter().skip(at).take_while(|byte| **byte == b' ').count();
                if bytes.get(at + blanks).is_some_and(|next| b"\"{[".contains(next)) {
                    return at;
                }
            }
            _ => {}
        }
    }
    raw.len()
}
