//! Owns two pages about the person's own run: whether its model fits; and the walk's end, what was done, what it gave
//! back, how to run again, what keeps it from coming back.

use super::Model;
use super::model::Source;
use super::walk::{EndingState, Mark};
use crate::advice::{causes, why, words};
use crate::knowledge::diagnosis::Phase;
use crate::knowledge::page::{Page, Tone};
use crate::report::markdown::Walked;
use crate::text::broken;

pub(crate) fn page(model: &Model) -> Page {
    let mut page = Page::default();
    page.add(Tone::Title, "It works now");
    page.part("What was done");
    let mut done = freed(model);
    let taken = model.walk.behind.iter().filter(|behind| behind.mark == Mark::Taken);
    done.extend(taken.map(|behind| behind.title.clone()));
    if done.is_empty() {
        done.push("Nothing that I saw.".into());
    }
    for line in done {
        page.add(Tone::Text, line);
    }
    if let Some(command) = model.rerun() {
        page.part("The command that works");
        page.add(Tone::Code, command);
    }
    let training = model.input.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.phase == Phase::Training);
    if let Some(first) = model.advice.as_ref().and_then(|advice| advice.verdict.causes.first()) {
        page.part("So that it does not come back");
        page.add(Tone::Text, causes::prevention(first.cause, training));
    }
    page.add(Tone::Text, "");
    page.add(Tone::Quiet, "[W] writes all of it down as a report for others.");
    if model.config.source == Source::Demo {
        page.add(Tone::Text, "");
        page.add(
            Tone::Text,
            "That was the demo. Beside a job of yours that died: oomdoctor, and paste what it printed.",
        );
    }
    page
}

/// Whose memory came back, a line each: in this sitting, and in the one it goes on from.
pub(crate) fn freed(model: &Model) -> Vec<String> {
    let now = model.endings.iter().filter_map(|ending| {
        let name = &ending.victim.name;
        if let Some(again) = &ending.again {
            return Some(format!("{name} has ended, and was started again as {}", again.pid));
        }
        match &ending.state {
            EndingState::Returned { bytes, lives: true, .. } => Some(format!("{name} let go: gave back {bytes}")),
            EndingState::Returned { bytes, .. } => Some(format!("{name} has ended: gave back {bytes}")),
            EndingState::NotReturned { bytes } => Some(format!("{name} has ended: {bytes} came back")),
            EndingState::Ended { .. } | EndingState::Unproved => Some(format!("{name} has ended")),
            _ => None,
        }
    });
    model.walk.freed_before.iter().cloned().chain(now).collect()
}

/// What was done, for a report.
pub(crate) fn walked(model: &Model) -> Walked {
    let behind = model.walk.behind.iter().map(|behind| (behind.title.clone(), behind.mark));
    let changed = model.walk.behind.iter().any(|behind| behind.mark != Mark::Skipped);
    let rerun = if changed { model.rerun() } else { None };
    Walked { behind: behind.collect(), freed: freed(model), works: model.walk.works, rerun }
}

/// Whether the run's model fits, what would make it, and its sizes. `None` where no model is known.
pub(crate) fn fit(model: &Model) -> Option<Page> {
    let fit = model.advice.as_ref()?.fit.as_ref()?;
    let mut page = Page::default();
    page.add(Tone::Title, "Will it fit?");
    if let Some(sentence) = fit.sentence(|_| true) {
        page.add(Tone::Text, sentence);
    }
    page.add(Tone::Text, "");
    for line in fit.lines() {
        page.add(Tone::Text, line);
    }
    page.add(Tone::Text, "");
    page.add(Tone::Quiet, "From the log's own figures where it prints them; \"about\" is an estimate.");
    Some(page)
}

/// Why: the verdict in sentences with its evidence and sums, and which rules led to these causes and fixes.
pub(crate) fn rules(model: &Model) -> Option<Page> {
    let advice = model.advice.as_ref()?;
    let mut page = Page::default();
    for line in words::verdict(advice).into_iter().chain(words::sums(advice)).chain(model.compared()) {
        page.add(Tone::Text, line);
    }
    for part in why::explained(advice) {
        page.part(part.heading);
        for line in part.lines {
            page.add(Tone::Text, line);
        }
    }
    Some(page)
}

/// Where a report was written.
pub(crate) fn written(path: &str, width: usize) -> Page {
    let mut page = Page::said("This is written down, for an issue or a colleague:\n");
    page.add(Tone::Text, broken(path, width).join("\n"));
    page.add(Tone::Text, "");
    let caution = "Names, tokens and home folders that I recognised are left out. Read it before you share it.";
    page.add(Tone::Text, caution);
    page
}
