//! Owns two pages about the person's own run: whether its model fits; and the walk's end, what was done, what it freed,
//! how to run again, what prevents the failure next time.

use super::again::Again;
use super::last::NewRun;
use super::model::{Model, Source};
use super::walk::{EndingState, Mark};
use crate::advice::brief::Brief;
use crate::advice::{causes, why, words};
use crate::gpu::{Device, Snapshot};
use crate::knowledge::diagnosis::Phase;
use crate::knowledge::page::{Page, Tone};
use crate::report::markdown::Walked;
use crate::text::broken;

pub(crate) fn page(model: &Model) -> Page {
    let mut page = Page::default();
    let is_seen = model.walk.has_seen_it_work;
    page.add(Tone::Title, if is_seen { "The run passed the point where it failed" } else { "Reported as working" });
    page.part("Seen");
    let mut seen = seen(model);
    if seen.is_empty() {
        seen.push("Nothing: no process was terminated here, and no new run was seen on a GPU.".into());
    }
    for line in seen {
        page.add(Tone::Text, line);
    }
    if !is_seen {
        page.part("Only reported");
        page.add(Tone::Text, "The job works.");
    }
    for behind in model.walk.behind.iter().filter(|behind| behind.mark == Mark::Taken) {
        page.add(Tone::Text, format!("Taken: {}", behind.title));
    }
    if let Some(line) = not_seen(model)
        && !is_seen
    {
        page.add(Tone::Text, line);
    }
    // Which change made it work is known only where one was taken.
    let has_changed = model.walk.behind.iter().any(|behind| behind.mark == Mark::Taken && behind.changes.is_some());
    if has_changed && let Some(command) = model.rerun() {
        page.part("Command");
        page.add(Tone::Code, command);
    }
    let training = model.input.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.phase == Phase::Training);
    if let Some(first) = model.advice.as_ref().and_then(|advice| advice.verdict.causes.first()) {
        page.part("Prevent it next time");
        page.add(Tone::Text, causes::prevention(first.cause, training));
    }
    page.add(Tone::Text, "");
    page.add(Tone::Quiet, "[W] writes all of it down as a report for others.");
    if model.config.source == Source::Demo {
        page.add(Tone::Text, "");
        page.add(Tone::Text, "That was the demo. After a failed job of your own: run oomdoctor and paste its error.");
    }
    page
}

/// Which processes freed memory, a line each: in this session, and in the one that it continues.
pub(crate) fn freed(model: &Model) -> Vec<String> {
    let now = model.endings.iter().filter_map(|ending| {
        let name = &ending.victim.name;
        if let Some(again) = &ending.again {
            return Some(format!("{name} exited and was restarted as {}", again.pid));
        }
        match &ending.state {
            EndingState::Returned { bytes, lives: true, .. } => {
                Some(format!("{name} unloaded its model: freed {bytes}"))
            }
            EndingState::Returned { bytes, .. } => Some(format!("{name} exited: freed {bytes}")),
            EndingState::NotReturned { bytes } => Some(format!("{name} exited: freed {bytes}")),
            EndingState::Ended { .. } | EndingState::Unproved => Some(format!("{name} exited")),
            _ => None,
        }
    });
    model.walk.freed_before.iter().cloned().chain(now).collect()
}

/// What was seen here, a line each: which processes freed memory, and how far the run came that was started again.
fn seen(model: &Model) -> Vec<String> {
    let mut lines = freed(model);
    lines.extend(new_run(model).map(|run| run.to_string()));
    lines.extend(model.walk.again.iter().flat_map(Again::variables_in_words));
    lines.extend(progress(model));
    lines
}

/// The run that was started after the first fix. What a reading without it cannot show is taken from when it was last seen.
pub(crate) fn new_run(model: &Model) -> Option<NewRun> {
    let again = model.walk.again.as_ref()?;
    let last_seen = model.kept.as_ref().and_then(|(_, story)| story.new_run.clone());
    let last_seen = last_seen.filter(|run| run.pid == again.key.pid).unwrap_or_default();
    let needed = model.advice.as_ref().and_then(|advice| advice.ledger.as_ref()?.needed_bytes);
    let row = model.snapshot().and_then(|snapshot| Some((snapshot, snapshot.process(again.key)?)));
    let started = row.and_then(|(snapshot, row)| Some((snapshot.taken_at, row.started_at.value()?)));
    Some(NewRun {
        pid: again.key.pid,
        name: again.name.clone(),
        most: again.most,
        devices: row.map_or(last_seen.devices, |(snapshot, _)| devices_of(snapshot, again.key.pid)),
        seconds: started.map_or(last_seen.seconds, |(now, start)| Some(now.0.as_second() - start.0.as_second())),
        is_running: again.here,
        past: needed.filter(|needed| again.most >= *needed),
    })
}

fn devices_of(snapshot: &Snapshot, pid: u32) -> Vec<u32> {
    let lists_it = |device: &&Device| device.processes.iter().any(|row| row.pid == pid);
    snapshot.devices.iter().filter(lists_it).map(|device| device.index).collect()
}

/// The step or epoch at which the first run failed, if its log tells one.
fn failed_at(model: &Model) -> Option<(&'static str, u64)> {
    let run = &model.input.diagnosis.as_ref()?.run;
    let at = run.step.map(|step| ("step", step)).or(run.epoch.map(|epoch| ("epoch", epoch)))?;
    if at.1 > 0 { Some(at) } else { None }
}

/// How far the new run came by its log's file; `None` where no file shows it.
pub(crate) fn progress(model: &Model) -> Option<String> {
    let (what, failed_at) = failed_at(model)?;
    let progress = model.walk.progress?;
    let reached = if what == "step" { progress.step } else { progress.epoch };
    match reached {
        _ if progress.failed_again => Some("Its log says that memory ran out again.".to_owned()),
        Some(reached) if reached > failed_at => {
            Some(format!("Its log shows {what} {reached}, past {what} {failed_at}, where the first run failed."))
        }
        Some(reached) => Some(format!("Its log shows {what} {reached}; the first run failed at {what} {failed_at}.")),
        None => None,
    }
}

/// What would prove the success and was not seen.
fn not_seen(model: &Model) -> Option<String> {
    let (what, failed_at) = failed_at(model)?;
    let unproved =
        format!("Not seen: whether it passed {what} {failed_at}, where it failed. Only its log file shows that.");
    if progress(model).is_none() { Some(unproved) } else { None }
}

/// The verdict with what was short, for one line.
pub(crate) fn short_of(brief: &Brief) -> String {
    let short = brief.figures.as_ref().and_then(|figures| figures.short.as_ref());
    match short {
        Some(short) => format!("{}, {}", brief.what, short.replace("SHORT", "short")),
        None => brief.what.clone(),
    }
}

/// The session in one line, for the shell's scrollback: what was short at first, what was freed, whether it was reported to
/// work. `None` where there was neither a log nor anything terminated.
pub(crate) fn in_one_line(model: &Model) -> Option<String> {
    let mut parts: Vec<String> = model.walk.began_with.iter().cloned().chain(freed(model)).collect();
    if model.walk.works {
        parts.push(if model.walk.has_seen_it_work { "seen working" } else { "reported as working" }.to_owned());
    }
    if parts.is_empty() {
        return None;
    }
    let demo = if model.config.source == Source::Demo { " (demo, nothing was signaled)" } else { "" };
    Some(format!("oomdoctor{demo}: {}", parts.join(" · ")))
}

/// What was done, for a report.
pub(crate) fn walked(model: &Model) -> Walked {
    let behind = model.walk.behind.iter().map(|behind| (behind.title.clone(), behind.mark));
    let changed = model.walk.behind.iter().any(|behind| behind.mark != Mark::Skipped);
    let rerun = if changed { model.rerun() } else { None };
    Walked { behind: behind.collect(), freed: seen(model), works: model.walk.works, rerun }
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
    let mut page = Page::said("The report for an issue or a colleague:\n");
    page.add(Tone::Text, broken(path, width).join("\n"));
    page.add(Tone::Text, "");
    let caution = "Recognized names, tokens and home folders are left out. Read it before you share it.";
    page.add(Tone::Text, caution);
    page
}
