//! Owns the plain text of a diagnosis: the verdict in one line, the easiest way out, and the fixes as a table with what to
//! do. The terminal program shows the same from the same parts.

use unicode_width::UnicodeWidthStr;

use super::allocations::{Table, others, tables};
use super::effect::{effect, outcome};
use super::markdown::Walked;
use super::{Report, differences, shortened};
use crate::advice::brief::Brief;
use crate::advice::naming::sentence;
use crate::advice::{Advice, FitAdvice, Step, why, words};
use crate::allocations::told::Filled;
use crate::knowledge::allocations::other_failure;
use crate::knowledge::summary::MemorySummary;
use crate::text::harmless_lines;

/// How much of a diagnosis is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Every fix, with what to expect of it, and the model's sums.
    pub all: bool,
    /// The evidence, the sums and the rules that led to the causes and the order of the fixes.
    pub why: bool,
    /// The log stands right above this text, so its decisive line is not repeated.
    pub is_below_the_log: bool,
}

/// How many fixes are shown unless all are asked for.
const FIRST_FIXES: usize = 3;
/// Sentences are wrapped at this many columns. Commands never are: they are copied.
const WIDTH: usize = 80;

/// The diagnosis for a person.
pub fn text(report: &Report<'_>, extent: Extent) -> String {
    let advice = report.advice;
    let mut lines = vec![verdict(&advice.brief)];
    lines.extend(wrapped("  ", &advice.brief.next));
    let decisive = report.diagnosis.matches.first();
    if !extent.is_below_the_log {
        lines.extend(decisive.map(|found| format!("  line {}: {}", found.line, shortened(&found.text))));
    }
    lines.extend(advice.verdict.notes.iter().flat_map(|note| wrapped("  ", note)));
    lines.extend(report.no_reading.iter().flat_map(|why| wrapped("  ", &format!("This machine was not read: {why}"))));
    let mut parts = Vec::new();
    if extent.why {
        parts.extend([reasons(advice), report.why.map(|why| wrapped("", why)).unwrap_or_default()]);
    }
    parts.extend(report.since.map(differences));
    parts.push(report.diagnosis.memory_summaries.iter().flat_map(|table| wrapped("", &summary(table))).collect());
    if !extent.is_below_the_log {
        parts.extend(other_failure(report.diagnosis).map(|note| wrapped("", &note)));
        parts.extend(snapshots(&report.diagnosis.allocations));
    }
    if extent.all || extent.why {
        parts.extend(advice.fit.as_ref().map(FitAdvice::lines));
    }
    parts.extend(report.walked.filter(|walked| !walked.is_empty()).map(done_before));
    parts.push(fixes(advice, extent));
    if extent.why {
        parts.extend(rules(advice));
    }
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        lines.push(String::new());
        lines.extend(part);
    }
    harmless_lines(&lines.join("\n")) + "\n"
}

/// What a table of `torch.cuda.memory_summary()` shows, as far as it was printed.
fn summary(table: &MemorySummary) -> String {
    let rows = [(table.allocated, "allocated"), (table.reserved, "reserved"), (table.non_releasable, "non-releasable")];
    let rows = rows.into_iter().filter_map(|(usage, name)| {
        usage.map(|usage| format!("{} {name} (peak {})", usage.now_bytes, usage.peak_bytes))
    });
    let counts = [(table.ooms, "failed"), (table.retries, "retried")];
    let counts = counts.into_iter().filter_map(|(count, name)| count.map(|count| format!("{count} {name}")));
    let device = table.device.map_or_else(String::new, |device| format!(" of GPU {device}"));
    let said: Vec<String> = rows.chain(counts).collect();
    format!("Memory summary{device}, line {}: {}", table.line, said.join(", "))
}

/// The tables about the snapshot that leads, and the other ranks a line each.
fn snapshots(all: &[Filled]) -> Vec<Vec<String>> {
    let mut parts: Vec<Vec<String>> = all.first().map(tables).unwrap_or_default().iter().map(aligned).collect();
    parts.push(others(all).iter().flat_map(|line| wrapped("", line)).collect());
    parts
}

/// A table with its columns one below the other.
pub(crate) fn aligned(table: &Table) -> Vec<String> {
    aligned_within(table, usize::MAX)
}

/// Before what stands below its row.
const BELOW: &str = "      ";

/// The same in so many columns of the screen: what does not fit stands below its row, with the column's name.
pub(crate) fn aligned_within(table: &Table, width: usize) -> Vec<String> {
    let heads: Vec<String> = table.columns.iter().map(ToString::to_string).collect();
    let mut widths = vec![0; heads.len()];
    for row in std::iter::once(&heads).chain(&table.rows) {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.width().max(*width));
    }
    while widths.len() > 1 && widths.iter().map(|width| width + 2).sum::<usize>() > width {
        widths.pop();
    }
    let mut lines = vec![table.heading.clone(), aligned_row(&heads, &widths)];
    for row in &table.rows {
        lines.push(aligned_row(row, &widths));
        let below = heads.iter().zip(row).skip(widths.len()).filter(|(_, cell)| !cell.is_empty());
        let below: Vec<String> = below.map(|(head, cell)| format!("{head}: {cell}")).collect();
        let below = below.join("  ");
        let below = textwrap::wrap(&below, width.saturating_sub(BELOW.len()).max(1));
        lines.extend(below.iter().filter(|line| !line.is_empty()).map(|line| format!("{BELOW}{line}")));
    }
    lines
}

fn aligned_row(cells: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| padded(cell, *width)).collect();
    format!("  {}", cells.join("  ")).trim_end().to_owned()
}

/// What ran out and where, what the run needs, what is free and what is short.
pub fn verdict(brief: &Brief) -> String {
    let Some(figures) = &brief.figures else { return brief.what.clone() };
    let needs = match &figures.parts {
        Some(parts) => format!("{} {parts}", figures.needs),
        None => figures.needs.clone(),
    };
    let short = figures.short.as_ref().map(|short| short.replace("SHORT", "short"));
    let said: Vec<String> = [Some(needs), figures.free.clone(), short].into_iter().flatten().collect();
    format!("{}: {}", brief.what, said.join(", "))
}

/// The sums and the evidence.
fn reasons(advice: &Advice) -> Vec<String> {
    let lines = words::verdict(advice).into_iter().filter(|line| !advice.verdict.notes.contains(line));
    lines.chain(words::sums(advice)).flat_map(|line| wrapped("", &line)).collect()
}

/// What was done about the failure before, a line each: what was seen apart from what the user reported.
fn done_before(walked: &Walked) -> Vec<String> {
    let mut lines = vec!["Done before:".to_owned()];
    lines.extend(walked.behind.iter().map(|(title, mark)| format!("  {} {title} ({})", mark.sign(), mark.outcome())));
    lines.extend(walked.freed.iter().map(|line| format!("  Seen: {line}")));
    lines.push(format!("  {}", walked.result()));
    lines
}

/// Which rules led to the causes and steps, a part each.
fn rules(advice: &Advice) -> Vec<Vec<String>> {
    let mut parts = Vec::new();
    for part in why::explained(advice) {
        let lines = part.lines.iter().map(|line| format!("   {line}"));
        parts.push([part.heading.to_owned()].into_iter().chain(lines).collect());
    }
    parts
}

fn fixes(advice: &Advice, extent: Extent) -> Vec<String> {
    let plan = &advice.plan;
    let shown = if extent.all { plan.len() } else { plan.len().min(FIRST_FIXES) };
    let (shown, rest) = plan.split_at(shown);
    let titles = shown.iter().map(|planned| planned.title.width()).max().unwrap_or(0);
    let effects = shown.iter().map(|planned| effect(planned).width()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (at, planned) in shown.iter().enumerate() {
        if extent.all && at > 0 {
            lines.push(String::new());
        }
        let (title, effect) = (padded(&planned.title, titles), padded(&effect(planned), effects));
        let gap = if effects > 0 { "   " } else { "" };
        lines.push(format!("{:<2} {title}{gap}{effect}   {}", at + 1, outcome(planned)).trim_end().to_owned());
        lines.extend(planned.steps.iter().flat_map(|step| what_to_do(step, extent.all)));
    }
    if !rest.is_empty() {
        let titles: Vec<&str> = rest.iter().map(|planned| planned.title.as_str()).collect();
        let how = if extent.is_below_the_log { "run oomdoctor and paste the traceback" } else { "--all" };
        lines.extend(wrapped("", &format!("… {} more ({how}): {}", rest.len(), titles.join("; "))));
    }
    lines
}

fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// The action and its commands; in full also the versions it is for and what to expect.
fn what_to_do(step: &Step, in_full: bool) -> Vec<String> {
    let mut lines = wrapped("   ", &sentence(&step.action));
    lines.extend(step.command.iter().flat_map(|command| command.lines()).map(|line| format!("     {line}")));
    if in_full {
        lines.extend(step.versions.iter().flat_map(|versions| wrapped("   ", &format!("Versions: {versions}"))));
        lines.extend(wrapped("   ", &sentence(&step.expect)));
    }
    lines
}

pub(super) fn wrapped(indent: &str, text: &str) -> Vec<String> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let options = textwrap::Options::new(WIDTH)
        .initial_indent(indent)
        .subsequent_indent(indent)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::brief::Figures;
    use crate::advice::{Situation, advise};
    use crate::knowledge::KnowledgeBase;
    use crate::log::PastedLog;

    const LOG: &str = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 8.00 GiB total capacity)";

    /// The titles that begin a line with their number, of all that the plan has.
    fn numbered(text: &str, advice: &Advice) -> usize {
        let begins =
            |at: usize, title: &str| text.lines().any(|line| line.starts_with(&format!("{:<2} {title}", at + 1)));
        advice.plan.iter().enumerate().filter(|(at, planned)| begins(*at, &planned.title)).count()
    }

    #[test]
    fn three_fixes_are_shown_in_full_and_the_others_named() {
        let base = KnowledgeBase::built_in().unwrap();
        let diagnosis = base.diagnose(&PastedLog::new(LOG), None);
        let mut advice = advise(&Situation { fixes: &base.fixes, ..Situation::alone(&diagnosis) });
        let all = advice.plan.len();
        assert!(all > 4, "{all}");
        let of = |advice: &Advice, extent| text(&Report::of(&diagnosis, advice), extent);
        let first = of(&advice, Extent::default());
        assert_eq!(numbered(&first, &advice), 3, "{first}");
        let unwrapped = first.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(advice.plan.iter().all(|planned| unwrapped.contains(&planned.title)), "{first}");
        assert!(first.contains("line 1: RuntimeError") && !first.contains("Worked if"), "{first}");
        let whole = of(&advice, Extent { all: true, ..Extent::default() });
        assert_eq!(numbered(&whole, &advice), all, "{whole}");
        assert!(whole.contains("Worked if"), "{whole}");
        let below = of(&advice, Extent { is_below_the_log: true, ..Extent::default() });
        assert!(!below.contains("line 1: "), "{below}");
        advice.plan.truncate(2);
        let few = of(&advice, Extent::default());
        assert!(numbered(&few, &advice) == 2 && !few.contains("more ("), "{few}");
    }

    #[test]
    fn the_verdict_has_its_figures_in_one_line() {
        let figures = Figures {
            needs: "needs \u{2265} 8.2 GiB".into(),
            parts: Some("(5.7 allocated + 2.5 requested)".into()),
            free: Some("free 6.0".into()),
            short: Some("SHORT \u{2265} 2.2 GiB".into()),
        };
        let brief = Brief { what: "NOT ENOUGH VRAM on GPU 0".into(), figures: Some(figures), ..Brief::default() };
        let line = verdict(&brief);
        assert!(!line.contains('\n') && ["8.2", "5.7", "2.5", "6.0", "2.2"].iter().all(|figure| line.contains(figure)));
    }
}
