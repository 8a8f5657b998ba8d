//! Owns signs (`knowledge/signs/*.ron`): what a log shows beside the failure that makes certain fixes the right ones,
//! whatever entry matched. A frame of the evaluation loop, a flag, a figure or a program's own hint is one.

use serde::Deserialize;

use super::diagnosis::{MemoryKind, Oom, Phase, Shown, Stage};
use super::facts::Facts;
use super::fix::Reference;
use super::pattern::{Pattern, group};
use super::program::Program;
use super::run::Run;
use super::searched::Searched;
use super::version::Range;
use crate::ids::{EntryId, FixId};
use crate::log::PastedLog;
use crate::units::{Bytes, UnitBase};

/// How much of a log is searched from its beginning, and as much before the decisive line.
const BEFORE: usize = 96 << 10;
/// How much is searched behind the decisive line: the traceback that follows a message, and a supervisor's last words.
const AFTER: usize = 16 << 10;

/// What a log may show, and the fixes that it asks for.
#[serde_with::apply(Vec => #[serde(default)])]
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sign {
    /// What the log shows, as the end of the sentence "the log shows that …".
    pub that: String,
    /// Where given, one of them is what the person ran, its kind, or whose code printed the message.
    pub programs: Vec<String>,
    /// Where given, one of them is the entry that matched.
    pub entries: Vec<EntryId>,
    /// Where given, one of them is the memory that ran out.
    pub memory: Vec<MemoryKind>,
    /// Where given, it failed in one of these phases.
    pub phases: Vec<Phase>,
    /// It failed in none of these phases.
    pub not_phases: Vec<Phase>,
    /// Where given, it failed while one of these was being done.
    pub stages: Vec<Stage>,
    /// Each must match somewhere. Quoted source code counts: it shows what the run was doing.
    pub shows: Vec<Pattern>,
    /// None of them may match.
    pub lacks: Vec<Pattern>,
    /// Pairs of figures, of which the first must be the larger: a figure of the failure by its key (`requested_bytes`), or
    /// a pattern whose `v` is the figure; the last match before the end counts.
    pub exceeds: Vec<(Pattern, Pattern)>,
    /// The versions of a program that fail so.
    pub affected: Option<Range>,
    /// The best first.
    pub fixes: Vec<FixId>,
    /// Fixes that change nothing where the log shows this.
    pub not: Vec<FixId>,
    /// Whether it speaks for a bug or an old version, so that an update among its fixes keeps its place.
    #[serde(default)]
    pub version_matters: bool,
    /// A log that shows it.
    pub example: String,
    /// Where it was read that these fixes end such a failure.
    pub references: Vec<Reference>,
}

/// A failure, as far as signs ask about it.
pub(super) struct About<'d> {
    /// The entry that leads.
    pub entry: EntryId,
    pub oom: Oom,
    pub memory: Option<MemoryKind>,
    /// What the person ran.
    pub program: &'d str,
    /// Whose code printed the message.
    pub raised_by: &'d str,
    pub phase: Phase,
    pub stage: Option<Stage>,
    pub facts: &'d Facts,
}

/// The signs that stand in a log around the line of this failure, in the order of the table. A log in which nothing ran out
/// shows only what is about its message: a bug that the message is known for.
pub(super) fn standing<'s>(signs: &'s [Sign], log: &PastedLog, line: usize, failure: &About) -> Vec<&'s Sign> {
    let windows: Vec<Searched> = windows(log, line).into_iter().map(Searched::new).collect();
    signs.iter().filter(|sign| sign.is_about(failure) && sign.stands_in(failure, &windows)).collect()
}

/// The parts of the log around the failure that are searched.
pub(super) fn windows(log: &PastedLog, line: usize) -> Vec<&str> {
    let text = log.text();
    let failure = log.line_range(line).map_or(text.len(), |range| range.end);
    let head = text.ceil_char_boundary(BEFORE.min(failure));
    let near = text.floor_char_boundary(failure.saturating_sub(BEFORE).max(head));
    let last = text.floor_char_boundary(failure.saturating_add(AFTER).min(text.len()));
    if near <= head {
        return text.get(..last).into_iter().collect();
    }
    [text.get(..head), text.get(near..last)].into_iter().flatten().collect()
}

impl Sign {
    /// The sign as a run shows it in which it stands; `None` where the run's versions are known to be none that fail so.
    pub(super) fn shown(&self, run: &Run) -> Option<Shown> {
        let condition = match &self.affected {
            Some(range) => range.condition(&run.versions, &run.older_than)?,
            None => None,
        };
        // What is only so in some versions withholds nothing while the version is not known.
        let withholds = if condition.is_none() { self.not.clone() } else { Vec::new() };
        Some(Shown {
            that: self.that.clone(),
            fixes: self.fixes.clone(),
            withholds,
            condition,
            version_matters: self.version_matters,
        })
    }

    fn is_about(&self, failure: &About) -> bool {
        let is_entry = self.entries.contains(&failure.entry);
        let is_memory = failure.memory.is_none_or(|memory| self.memory.contains(&memory));
        (is_entry || failure.oom != Oom::No)
            && (self.programs.is_empty() || is_of_one(&self.programs, failure))
            && (self.entries.is_empty() || is_entry)
            && (self.memory.is_empty() || is_memory)
            && (self.phases.is_empty() || self.phases.contains(&failure.phase))
            && !self.not_phases.contains(&failure.phase)
            && (self.stages.is_empty() || failure.stage.is_some_and(|stage| self.stages.contains(&stage)))
    }

    fn stands_in(&self, failure: &About, windows: &[Searched]) -> bool {
        self.shows.iter().all(|pattern| is_in_one(pattern, windows))
            && !self.lacks.iter().any(|pattern| is_in_one(pattern, windows))
            && self.exceeds.iter().all(|(more, less)| exceeds(more, less, failure.facts, windows))
    }
}

/// Whether both figures are known and the first is larger.
fn exceeds(more: &Pattern, less: &Pattern, facts: &Facts, windows: &[Searched]) -> bool {
    let figures = figure(more, facts, windows).zip(figure(less, facts, windows));
    figures.is_some_and(|(more, less)| more > less)
}

/// A figure of the failure, or what the pattern captures last; bytes where it has a unit.
fn figure(of: &Pattern, facts: &Facts, windows: &[Searched]) -> Option<u64> {
    if let Some((_, figure)) = facts.listed().into_iter().find(|(key, _)| *key == of.source()) {
        return figure.as_u64();
    }
    let found = windows.iter().rev().find_map(|text| of.last_captures(text.text_for(of)?))?;
    let text = group(&found, "v")?;
    text.parse().ok().or_else(|| Some(Bytes::parse(&text, UnitBase::Binary)?.0))
}

fn is_in_one(pattern: &Pattern, windows: &[Searched]) -> bool {
    windows.iter().any(|text| text.shows(pattern))
}

fn is_of_one(programs: &[String], failure: &About) -> bool {
    let named = [failure.program, failure.raised_by].into_iter();
    let kinds = named.clone().filter_map(|name| Some(Program::known(name)?.kind()?.as_str()));
    named.chain(kinds).any(|name| programs.iter().any(|program| program == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::KnowledgeBase;
    use crate::knowledge::load::{self, Source};

    const MESSAGE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.10 GiB is free.";

    fn base(sign: &str) -> KnowledgeBase {
        let text =
            format!(r#"[(that: "a test says so", {sign}, fixes: ["smaller-batch"], example: "", references: [])]"#);
        let source = Source::ron("signs/test.ron", text);
        KnowledgeBase::from_sources(load::with_added(load::embedded(), vec![source])).unwrap()
    }

    /// The condition of the test's sign, where the log shows it.
    fn condition(base: &KnowledgeBase, log: &str) -> Option<Option<String>> {
        let signs = base.diagnose(&PastedLog::new(log.to_owned()), None).signs;
        signs.into_iter().find(|sign| sign.that == "a test says so").map(|sign| sign.condition)
    }

    #[test]
    fn every_pattern_must_match_and_none_that_it_lacks() {
        let base = base(r#"shows: ["frame_one", "frame_two"], lacks: ["frame_three"]"#);
        assert_eq!(condition(&base, &format!("in frame_one\nin frame_two\n{MESSAGE}")), Some(None));
        assert_eq!(condition(&base, &format!("in frame_two\n{MESSAGE}\nin frame_one")), Some(None));
        assert_eq!(condition(&base, &format!("in frame_one\n{MESSAGE}")), None);
        assert_eq!(condition(&base, &format!("in frame_one\nin frame_two\nin frame_three\n{MESSAGE}")), None);
        assert_eq!(condition(&base, "in frame_one\nin frame_two\n"), None, "nothing ran out");
    }

    #[test]
    fn a_sign_is_only_about_its_programs_and_kinds_of_memory() {
        let log = format!("File \"/opt/ComfyUI/execution.py\", line 4, in frame_one\n{MESSAGE}");
        let is_shown = |about: &str| condition(&base(&format!(r#"shows: ["frame_one"], {about}"#)), &log).is_some();
        assert!(is_shown(r#"programs: ["comfyui"]"#));
        assert!(is_shown(r#"programs: ["images"]"#), "its kind");
        assert!(!is_shown(r#"programs: ["vllm"]"#));
        assert!(is_shown("memory: [gpu]"));
        assert!(!is_shown("memory: [host]"));
        assert!(!is_shown(r#"entries: ["nccl/out-of-memory"]"#));
    }

    #[test]
    fn a_printed_version_decides_and_a_missing_one_is_a_condition() {
        let base =
            base(r#"shows: ["frame_one"], affected: (of: "torch", title: "PyTorch", from: "2.3", before: "2.4")"#);
        assert_eq!(condition(&base, &format!("torch==2.3.1\nframe_one\n{MESSAGE}")), Some(None));
        assert_eq!(condition(&base, &format!("torch==2.4.0\nframe_one\n{MESSAGE}")), None);
        let asked = condition(&base, &format!("frame_one\n{MESSAGE}")).flatten();
        assert!(asked.is_some_and(|condition| condition.contains("2.3")));
    }

    #[test]
    fn the_first_of_two_figures_must_be_the_larger() {
        let is_shown = |exceeds: &str, log: &str| condition(&base(&format!("exceeds: [({exceeds})]")), log).is_some();
        let log = format!("cells = 4096\n{MESSAGE}\ncells = 512 of 2048");
        assert!(is_shown(r#""requested_bytes", "free_bytes""#, &log));
        assert!(!is_shown(r#""requested_bytes", "total_bytes""#, &log));
        assert!(!is_shown(r#""free_bytes", "free_bytes""#, &log), "no larger");
        assert!(is_shown(r#""of (?P<v>\\d+)", "cells = (?P<v>\\d+)""#, &log), "the last one counts");
        assert!(is_shown(r#""total_bytes", "allocate (?P<v>[\\d.]+ GiB)""#, &log), "with its unit");
        assert!(!is_shown(r#""requested_bytes", "slots = (?P<v>\\d+)""#, &log), "the second is not known");
    }

    #[test]
    fn a_sign_may_ask_for_a_phase_and_withhold_fixes_where_its_version_is_known() {
        let loading = format!("  File \"a.py\", line 1, in from_pretrained\n{MESSAGE}");
        let is_shown =
            |about: &str, log: &str| condition(&base(&format!(r#"shows: ["memory"], {about}"#)), log).is_some();
        assert!(is_shown("phases: [load]", &loading) && !is_shown("phases: [load]", MESSAGE));
        assert!(!is_shown("not_phases: [load]", &loading) && is_shown("not_phases: [load]", MESSAGE));
        let affected = r#"shows: ["memory"], not: ["lora"], affected: (of: "torch", title: "PyTorch", from: "2.3")"#;
        let withholds = |log: &str| {
            let signs = base(affected).diagnose(&PastedLog::new(log.to_owned()), None).signs;
            signs.into_iter().filter(|sign| sign.that == "a test says so").flat_map(|sign| sign.withholds).count()
        };
        assert_eq!((withholds(&format!("torch==2.4.0\n{MESSAGE}")), withholds(MESSAGE)), (1, 0));
    }
}
