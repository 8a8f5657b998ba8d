//! Owns pages of HTML: a notebook that was exported, a job's log as a browser saved it. Elements that begin a line do so
//! here, characters that are spelled are themselves, and what a page does not show is left out.

use std::borrow::Cow;

use super::lines::{Unfolded, line_ends};

/// Elements whose content a page does not show.
const HIDDEN: [&str; 6] = ["script", "style", "head", "svg", "template", "noscript"];
/// Elements that stand within a line. All others begin one.
const INLINE: [&str; 29] = [
    "a", "abbr", "b", "bdi", "button", "cite", "code", "em", "font", "g-emoji", "i", "img", "input", "ins", "kbd",
    "label", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "td", "th", "tt", "u",
];

/// Whether the whole text is a page.
pub(super) fn is_page(raw: &str) -> bool {
    const LOOKED_AT: usize = 2 << 10;
    let head = raw.get(..raw.floor_char_boundary(LOOKED_AT)).unwrap_or(raw).trim_start_matches('\u{feff}').trim_start();
    let head = head.to_ascii_lowercase();
    // A saved page may begin with a comment that says from where.
    let head =
        head.strip_prefix("<!--").and_then(|comment| comment.split_once("-->")).map_or(head.as_str(), |(_, rest)| rest);
    ["<!doctype html", "<html"].iter().any(|opening| head.trim_start().starts_with(opening))
}

/// The lines that the page shows.
pub(super) fn lines(raw: &str) -> Unfolded {
    let mut page = Page { out: Unfolded::new(), number: 1, preformatted: 0 };
    let mut rest = raw;
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        page.push(text);
        rest = page.take_tag(tag);
    }
    page.push(rest);
    page.out
}

struct Page {
    out: Unfolded,
    /// The line of the file.
    number: u32,
    /// How many elements are open whose line ends and blanks count.
    preformatted: usize,
}

impl Page {
    /// Adds text between two tags.
    fn push(&mut self, text: &str) {
        if self.preformatted > 0 {
            for line in text.split_inclusive('\n') {
                self.out.push_text(&unescaped(line.trim_end_matches(['\n', '\r'])), self.number);
                if line.ends_with('\n') {
                    self.number = self.number.saturating_add(1);
                    self.out.end_line(self.number);
                }
            }
            return;
        }
        // Elsewhere a line end is a blank, and between two tags it is nothing.
        let is_layout = text.trim().is_empty() && text.contains('\n');
        for (at, line) in text.split('\n').enumerate() {
            let line = if at > 0 { line.trim_start() } else { line };
            if at > 0 {
                self.number = self.number.saturating_add(1);
                self.out.text.push_str(if is_layout || self.out.is_at_line_start() { "" } else { " " });
            }
            if !is_layout {
                if self.out.is_at_line_start() {
                    self.out.start_line(self.number);
                }
                self.out.push_text(&unescaped(line), self.number);
            }
        }
    }

    /// Takes the tag that begins the text; gives what follows it, or what it hides.
    fn take_tag<'t>(&mut self, text: &'t str) -> &'t str {
        let inside = text.get(1..).unwrap_or_default();
        if inside.is_empty() {
            return inside;
        }
        if inside.starts_with("!--") {
            return self.skip(text, inside.find("-->").map(|end| end + 4));
        }
        if !inside.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '/' | '!' | '?')) {
            self.push("<");
            return inside;
        }
        let Some(end) = inside.find('>') else { return self.skip(text, None) };
        let tag = inside.get(..end).unwrap_or_default();
        let own_name = tag.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next();
        let own_name = own_name.unwrap_or_default();
        let name = own_name.to_ascii_lowercase();
        let (ends, closes_itself) = (tag.starts_with('/'), tag.ends_with('/'));
        let rest = self.skip(text, Some(end + 2));
        if HIDDEN.contains(&name.as_str()) && !ends && !closes_itself {
            return self.skip(rest, rest.find(&format!("</{own_name}")));
        }
        if name == "pre" {
            self.preformatted = if ends { self.preformatted.saturating_sub(1) } else { self.preformatted + 1 };
        }
        match name.as_str() {
            "br" => self.out.end_line(self.number),
            "a" if ends => self.leave_out_line_number(),
            "td" | "th" if ends => self.out.text.push(' '),
            name if !INLINE.contains(&name) => self.out.start_line(self.number),
            _ => {}
        }
        rest
    }

    /// Leaves out so many bytes; all if it is unknown how many.
    fn skip<'t>(&mut self, text: &'t str, bytes: Option<usize>) -> &'t str {
        let (skipped, rest) = text.split_at_checked(bytes.unwrap_or(text.len())).unwrap_or((text, ""));
        self.number = self.number.saturating_add(line_ends(skipped));
        rest
    }

    /// A link before a line of a log is that line's number.
    fn leave_out_line_number(&mut self) {
        const LONGEST: usize = 8;
        let text = &self.out.text;
        let end = text.get(text.ceil_char_boundary(text.len().saturating_sub(LONGEST))..).unwrap_or_default();
        let is_whole = end.len() == text.len();
        let line = end.rsplit_once('\n').map(|(_, line)| line).or(is_whole.then_some(end));
        if let Some(line) = line.filter(|line| line.trim().bytes().all(|byte| byte.is_ascii_digit())) {
            let start = text.len() - line.len();
            self.out.text.truncate(start);
        }
    }
}

/// Text with the characters that are spelled in it.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(';').unwrap_or((part, ""));
        match character(name) {
            Some(character) if name.len() < part.len() => {
                plain.push(character);
                plain.push_str(rest);
            }
            _ => {
                plain.push('&');
                plain.push_str(part);
            }
        }
    }
    Cow::Owned(plain)
}

/// The character with this name or number.
fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
            None => number.parse(),
        };
        return code.ok().and_then(char::from_u32);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "hellip" => '…',
        "ndash" => '–',
        "mdash" => '—',
        "lsquo" | "rsquo" => '\'',
        "ldquo" | "rdquo" => '"',
        "times" => '×',
        "middot" => '·',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::effort;
    use crate::log::PastedLog;

    /// The lines that are not empty, each with its number in the file.
    fn read(text: &str) -> Vec<(usize, String)> {
        let log = PastedLog::new(text);
        let lines = log.lines().map(|(number, line)| (log.number_in_file(number), line.trim().to_owned()));
        lines.filter(|(_, line)| !line.is_empty()).collect()
    }

    #[test]
    fn a_page_is_what_it_shows() {
        let page = "<!-- saved from url=(0022)http://ci -->\n<!DOCTYPE html>\n<html><head><title>t</title>\n</head>\n\
                    <body><script>var x = '<p>out of memory';</script>\n<h1>Job\n  7</h1><div>a <b>bold</b> word</div><p>one<br>two</p>\n\
                    <pre><span class=\"n\">  File &quot;a.py&quot;</span>, line 1\nError: 1 &lt; 2 &amp;&amp; &#39;x&#x27; &unknown;</pre>\n\
                    <div class=\"line\"><a href=\"#L1\">1</a><span>CUDA <i>out</i> of memory</span></div>a < b\n</body></html>\n";
        let want = [
            (6, "Job 7"),
            (7, "a bold word"),
            (7, "one"),
            (7, "two"),
            (8, "File \"a.py\", line 1"),
            (9, "Error: 1 < 2 && 'x' &unknown;"),
            (10, "CUDA out of memory"),
            (10, "a < b"),
        ];
        assert_eq!(read(page), want.map(|(number, line)| (number, line.to_owned())));
        assert_eq!(PastedLog::new(page).raw(), page);
    }

    #[test]
    fn only_a_page_is_read_as_one() {
        for log in ["<b>x</b> CUDA out of memory", "Error: <html>\n<p>x", "a < b > c"] {
            assert_eq!(PastedLog::new(log).line(1), log.lines().next(), "{log}");
        }
    }

    #[test]
    fn a_page_that_is_cut_shows_what_is_there() {
        let page = "<html><body><p>one</p><pre>two\nthree</pre><!-- x --><script>y</script></body></html>";
        for cut in 6..page.len() {
            let found = read(page.get(..cut).unwrap());
            assert!(cut < 19 || found[0].1.starts_with("one"), "{cut}: {found:?}");
            assert!(!found.iter().any(|(_, line)| line.contains('<')), "{cut}: {found:?}");
        }
    }

    #[test]
    fn hostile_pages_take_linear_work() {
        let parts = ["<", "<a", "<!--", "<script>", "<pre>", "</a>", "&", "&#", "1<a></a>", "<br>", " \n", "<td></td>"];
        for part in parts {
            let page = |count: usize| format!("<html>{}", part.repeat(count));
            let [small, large] = [2_000, 20_000].map(|count| effort::of(|| drop(PastedLog::new(page(count)))));
            assert!(large <= 12 * small, "{part}: {small}, {large}");
        }
    }
}
