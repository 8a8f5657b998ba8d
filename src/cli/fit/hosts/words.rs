//! Owns how the answer for several machines reads: one sentence, the command for the best of them, a line for each.

use std::fmt::Write;

use super::on_host::{Exiting, OnHost, Verdict};
use crate::cli::fit::located::Source;
use crate::cli::fit::wanted::Wanted;
use crate::cli::fit::words::{in_words, title};
use crate::text::harmless;
use crate::units::Bytes;

pub(super) fn text(wanted: &Wanted, all: &[OnHost]) -> String {
    let answer = all.iter().find_map(|on_host| on_host.answer.as_ref().ok());
    let mut out = answer.map_or_else(|| wanted.model.to_owned(), title);
    let _ = write!(out, "\n\n{}\n", sentence(all));
    if let Some(command) = all.first().and_then(|best| best.command.as_ref()) {
        let _ = writeln!(out, "  {command}");
        if names_a_file(wanted) {
            out.push_str("  The model's file is on this machine: copy it there first.\n");
        }
    }
    for command in all.iter().flat_map(|on_host| &on_host.once_exited).filter_map(|exiting| exiting.command.as_ref()) {
        let _ = writeln!(out, "  {command}    asks before it ends your own idle process");
    }
    out.push('\n');
    let width = all.iter().map(|on_host| on_host.reading.name.as_str().chars().count()).max().unwrap_or(0);
    for on_host in all {
        let _ = writeln!(out, "  {:<width$}  {}", on_host.reading.name.as_str(), line(on_host));
    }
    out.lines().map(|line| harmless(line).into_owned() + "\n").collect()
}

/// "It fits on gpu2, GPU 1, as it is; on gpu1, GPU 0, once bob's notebook (31.0 GiB, started 9 h ago) exits."
pub(super) fn sentence(all: &[OnHost]) -> String {
    let fitting: Vec<String> = all.iter().filter_map(where_and_how).collect();
    let is_unknown_anywhere = all.iter().any(|on_host| on_host.verdict == Verdict::Unknown);
    match (fitting.as_slice(), is_unknown_anywhere) {
        ([], _) if all.iter().all(|on_host| on_host.verdict == Verdict::Unknown) => {
            "Whether it fits is unknown: no machine could be compared.".to_owned()
        }
        ([], true) => "It fits on none of the machines that could be read.".to_owned(),
        ([], false) => "It fits on none of these machines.".to_owned(),
        (places, _) => format!("It fits on {}.", places.iter().take(3).cloned().collect::<Vec<_>>().join("; on ")),
    }
}

fn where_and_how(on_host: &OnHost) -> Option<String> {
    let how = match on_host.verdict {
        Verdict::Fits => "as it is".to_owned(),
        Verdict::FitsChanged => format!("with {}", change(on_host)?),
        Verdict::FitsOnceExited => once(on_host),
        Verdict::DoesNotFit | Verdict::Unknown => return None,
    };
    let gpus = gpus(on_host).map(|gpus| format!(", {gpus}")).unwrap_or_default();
    Some(format!("{}{gpus}, {how}", on_host.reading.name))
}

/// "GPU 1", "GPUs 0 and 1".
fn gpus(on_host: &OnHost) -> Option<String> {
    let gpus: Vec<String> = on_host.gpus().iter().map(u32::to_string).collect();
    match gpus.as_slice() {
        [] => None,
        [one] => Some(format!("GPU {one}")),
        several => Some(format!("GPUs {}", in_words(several))),
    }
}

pub(super) fn change<'a>(on_host: &'a OnHost) -> Option<&'a str> {
    Some(&on_host.answer.as_ref().ok()?.best()?.change)
}

/// "once bob's notebook sweep.ipynb (PID 4242, 31.0 GiB, idle ≥ 2 s, started 9 h ago) exits".
fn once(on_host: &OnHost) -> String {
    let exiting = &on_host.once_exited;
    let gpus = on_host.gpus();
    let names: Vec<String> = exiting.iter().map(|exiting| named(exiting, gpus.contains(&exiting.gpu))).collect();
    format!("once {} {}", in_words(&names), if names.len() == 1 { "exits" } else { "exit" })
}

fn named(exiting: &Exiting, is_on_known_gpu: bool) -> String {
    let whose = match (exiting.is_own, &exiting.user) {
        (true, _) => "your".to_owned(),
        (false, Some(user)) => format!("{user}'s"),
        (false, None) => "another user's".to_owned(),
    };
    let pid = exiting.key.pid;
    let name = exiting.name.strip_suffix(&format!(" ({pid})")).unwrap_or(&exiting.name);
    let gpu = if is_on_known_gpu { String::new() } else { format!(" on GPU {}", exiting.gpu) };
    let age = exiting.age.as_ref().map(|age| format!(", started {age} ago")).unwrap_or_default();
    format!("{whose} {name}{gpu} (PID {pid}, {}, idle ≥ {} s{age})", exiting.bytes, exiting.idle_seconds)
}

/// The answer for one machine.
fn line(on_host: &OnHost) -> String {
    let (why, there) = (on_host.why_not_known(), on_host.answer.as_ref().ok());
    if let Some(why) = why {
        return format!("unknown: {why}");
    }
    let needs = there.and_then(|answer| match on_host.verdict {
        Verdict::FitsChanged => answer.best()?.total,
        _ => answer.estimate.total(),
    });
    let free = there.and_then(|answer| answer.card.as_ref().map(|card| (card.free, needs)));
    let sums = match free {
        Some((free, Some(total))) => format!("needs ≈ {total}, free {free}"),
        Some((free, None)) => format!("free {free}"),
        None => String::new(),
    };
    let once = if on_host.once_exited.is_empty() { None } else { Some(once(on_host)) };
    let verdict = match (on_host.verdict, change(on_host), once) {
        (Verdict::Fits, ..) => "fits as it is".to_owned(),
        (Verdict::FitsChanged, Some(change), Some(once)) => format!("fits with {change}; as it is {once}"),
        (Verdict::FitsChanged, Some(change), None) => format!("fits with {change}"),
        (Verdict::FitsOnceExited, _, Some(once)) => format!("fits {once}"),
        _ => does_not_fit(on_host),
    };
    let gpus = gpus(on_host).map(|gpus| format!("{gpus}: ")).unwrap_or_default();
    let sums = if sums.is_empty() { sums } else { format!(" ({sums})") };
    format!("{gpus}{verdict}{sums}{}", scheduler(on_host))
}

fn does_not_fit(on_host: &OnHost) -> String {
    let short = on_host.answer.as_ref().ok().and_then(|answer| {
        let short = answer.estimate.total()?.less(answer.card.as_ref()?.free);
        (short > Bytes::ZERO).then_some(short)
    });
    short.map_or_else(|| "does not fit".to_owned(), |short| format!("does not fit, short {short}"))
}

/// What its scheduler says against it.
fn scheduler(on_host: &OnHost) -> String {
    match &on_host.reading.allotment {
        Some(allotment) if !allotment.is_open => format!("; takes no jobs: {}", allotment.state),
        Some(allotment) if allotment.is_all_given() => "; all its GPUs are given to jobs".to_owned(),
        _ => String::new(),
    }
}

/// Whether the command names a file of this machine.
fn names_a_file(wanted: &Wanted) -> bool {
    wanted.located.file.is_some() && wanted.located.source != Source::Table && wanted.located.source != Source::Ollama
}
