//! Owns the knowledge as pages that a person reads: an entry with its cause, signs, fixes and questions, and the
//! glossary. Text only; `kb show` prints a page and the terminal program draws it.

use super::KnowledgeBase;
use super::diagnosis::{Diagnosis, Oom};
use super::entry::Entry;
use super::fix::{Fix, Reference, substitute};
use super::settings::{Asked, Way};

/// How a line of a page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Title,
    /// A part's name, a question, a word that is explained.
    Heading,
    Text,
    /// A command or a log: taken literally, broken only where the screen ends.
    Code,
    /// Ids and addresses, which few readers need.
    Quiet,
}

/// A page, not yet wrapped to a width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The entry's id; empty for the glossary.
    pub id: String,
    /// The shown line of the log that it speaks of, from 1, where there is one.
    pub row: Option<usize>,
    paragraphs: Vec<(Tone, String)>,
}

impl Page {
    /// A page with only this text.
    pub fn said(text: impl Into<String>) -> Page {
        Page { paragraphs: vec![(Tone::Text, text.into())], ..Page::default() }
    }

    /// Its title, where it has one.
    pub fn title(&self) -> Option<&str> {
        self.paragraphs.iter().find(|(tone, _)| *tone == Tone::Title).map(|(_, text)| text.as_str())
    }

    pub fn add(&mut self, tone: Tone, text: impl Into<String>) {
        self.paragraphs.push((tone, text.into()));
    }

    /// A heading with a blank line before it.
    pub fn part(&mut self, heading: &str) {
        self.add(Tone::Text, "");
        self.add(Tone::Heading, heading);
    }

    /// The same, unless the part is empty.
    fn part_of<T>(&mut self, heading: &str, first: Option<T>) {
        if first.is_some() {
            self.part(heading);
        }
    }

    fn add_fix(&mut self, fix: &Fix) {
        self.add(Tone::Text, format!("- {} (costs: {}). {}", unfilled(&fix.title), fix.costs, unfilled(&fix.why)));
        for command in &fix.commands {
            let whose = if command.program == "*" { "any program" } else { &command.program };
            let on = command.on.map(|on| format!(" on {}", on.as_ref())).unwrap_or_default();
            self.add(Tone::Text, format!("  {whose}{on}: {}", unfilled(&command.action)));
            if let Some(line) = &command.command {
                self.add(Tone::Code, unfilled(line));
            }
        }
    }

    /// The lines at this width, in columns. Nothing is cut: what is too long goes on in the next line.
    pub fn lines(&self, width: usize) -> Vec<(Tone, String)> {
        let mut lines = Vec::new();
        for (tone, text) in &self.paragraphs {
            let indent = if *tone == Tone::Code { "    " } else { "" };
            for line in text.split('\n') {
                let options = textwrap::Options::new(width.max(20)).initial_indent(indent).subsequent_indent(indent);
                lines.extend(textwrap::wrap(line, options).into_iter().map(|line| (*tone, line.into_owned())));
            }
        }
        lines
    }
}

pub fn of_entry(base: &KnowledgeBase, entry: &Entry) -> Page {
    let mut page = Page { id: entry.id.to_string(), ..Page::default() };
    page.add(Tone::Title, &*entry.title);
    page.add(Tone::Quiet, format!("{} · {} · said by {}", entry.id, answer(entry), entry.raiser()));
    page.part("Why it happens");
    page.add(Tone::Text, &*entry.why);
    if let Some(remark) = &entry.remark {
        page.add(Tone::Text, remark);
    }
    if let Some(example) = entry.matches.first() {
        page.part("What it looks like");
        page.add(Tone::Code, example.log.trim());
    }
    let mut fixes = entry.fixes.iter().filter_map(|id| base.fix(*id)).peekable();
    page.part_of("What helps, best first", fixes.peek());
    fixes.for_each(|fix| page.add_fix(fix));
    if let Some(place) = &entry.fuller_log {
        page.part("Where the fuller log is");
        page.add(Tone::Text, place);
    }
    let questions: Vec<_> = entry.questions.iter().filter_map(|id| base.question(id)).collect();
    page.part_of("What people ask", questions.first());
    for question in &questions {
        page.add(Tone::Heading, format!("“{}”", question.ask));
        page.add(Tone::Text, &*question.answer);
    }
    let mut related = entry.related.iter().filter_map(|id| base.entry(*id)).peekable();
    page.part_of("Related", related.peek());
    related.for_each(|other| page.add(Tone::Text, format!("- {} ({})", other.title, other.id)));
    page.part("Where this comes from");
    let mut sources: Vec<&Reference> = Vec::new();
    for reference in entry.references.iter().chain(questions.iter().flat_map(|question| &question.references)) {
        if !sources.contains(&reference) {
            sources.push(reference);
            page.add(Tone::Quiet, reference.to_string());
        }
    }
    page
}

/// A page for each entry that matched, the leading one first, with the first line it matched.
pub fn of_matches(base: &KnowledgeBase, diagnosis: &Diagnosis) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    for found in &diagnosis.matches {
        if let Some(entry) =
            base.entry(found.entry).filter(|entry| pages.iter().all(|page| page.id != entry.id.as_str()))
        {
            pages.push(Page { row: Some(found.row), ..of_entry(base, entry) });
        }
    }
    pages
}

/// The words of the field, in alphabetical order.
pub fn glossary(base: &KnowledgeBase) -> Page {
    let mut page = Page::default();
    for term in &base.glossary {
        let also = if term.also.is_empty() { String::new() } else { format!(" (also: {})", term.also.join(", ")) };
        if !page.paragraphs.is_empty() {
            page.add(Tone::Text, "");
        }
        page.add(Tone::Heading, format!("{}{also}", term.term));
        page.add(Tone::Text, &*term.means);
    }
    page
}

/// A fix's text without a machine's figures: words replace placeholders such as `{holder}`, and the values of settings,
/// which depend on the present ones.
fn unfilled(text: &str) -> String {
    substitute(&text.replace(" ({where_set})", ""), &|name| Some(in_words(name))).unwrap_or_default()
}

fn in_words(placeholder: &str) -> String {
    match (placeholder, Asked::of(placeholder)) {
        ("holder", _) => "the process that uses it".to_owned(),
        ("of_its_context", _) => String::new(),
        (_, Some(Asked { way, setting, .. })) => {
            let option = if setting.id == "slurm_memory" { "mem=" } else { "" };
            format!("{option}{}", if way == Way::Lower { "LOWER" } else { "HIGHER" })
        }
        (name, None) => name.to_uppercase(),
    }
}

fn answer(entry: &Entry) -> &'static str {
    match entry.oom {
        Oom::Yes => "memory ran out",
        Oom::Maybe => "memory may have run out",
        Oom::No => "memory did not run out",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::EntryId;
    use crate::knowledge::fix::PLACEHOLDERS;

    #[test]
    fn every_page_can_be_read_at_any_width_without_a_placeholder_left() {
        let base = KnowledgeBase::built_in().unwrap();
        for entry in &base.entries {
            let page = of_entry(&base, entry);
            for width in [20, 72, 200] {
                for (_, line) in page.lines(width) {
                    assert!(textwrap::core::display_width(line.trim_end()) <= width, "{}: {line:?}", entry.id);
                }
            }
            let text: String = page.lines(100).into_iter().map(|(_, line)| line + "\n").collect();
            let left = PLACEHOLDERS.iter().find(|name| text.contains(&format!("{{{name}}}")));
            assert_eq!(left, None, "{}", entry.id);
            assert!(!text.contains("{lower:") && !text.contains("{raise:"), "{}", entry.id);
            assert!(text.contains(&entry.title) && text.contains("Where this comes from"), "{}", entry.id);
        }
    }

    #[test]
    fn a_page_holds_fixes_questions_and_relations() {
        let base = KnowledgeBase::built_in().unwrap();
        let entry = base.entry(EntryId::PYTORCH_CUDA_OUT_OF_MEMORY).unwrap();
        let lines = of_entry(&base, entry).lines(100);
        let heads: Vec<&str> =
            lines.iter().filter(|(tone, _)| *tone == Tone::Heading).map(|(_, line)| line.as_str()).collect();
        for head in ["Why it happens", "What it looks like", "What helps, best first", "What people ask"] {
            assert!(heads.contains(&head), "{head}: {heads:?}");
        }
        assert!(lines.iter().any(|(tone, line)| *tone == Tone::Code && line.contains("ollama stop MODEL")));
    }
}
