//! Owns the proofs: what became of each process that was signalled or asked, and what it freed.

use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::Line;

use super::theme::Theme;
use crate::advice::release::Release;
use crate::app::Model;
use crate::app::action::Action;
use crate::app::model::Source;
use crate::app::walk::{Ending, EndingState, Successor, free_of};
use crate::gpu::ProcessKind;
use crate::gpu::guard::Signal;
use crate::units::Bytes;

/// What became of each process, the earliest first, as blocks of lines.
pub(super) fn proofs(model: &Model, theme: &Theme, width: usize) -> Vec<Vec<Line<'static>>> {
    let mut proofs = Vec::new();
    for ending in &model.endings {
        let crew: Vec<&Ending> = crew(&model.endings, ending).collect();
        // A launcher and its workers share one line, as long as nothing is wrong with one of them.
        let is_led = leader(&model.endings, ending).is_some_and(|first| is_well(first) && is_well(ending));
        match (is_led, crew.is_empty() || !is_well(ending)) {
            (true, _) => {}
            (false, true) => proofs.push(ending_lines(model, theme, ending, width)),
            (false, false) => proofs.push(crew_lines(model, theme, ending, &crew, width)),
        }
    }
    proofs
}

/// The workers that should end with this process.
fn crew<'a>(endings: &'a [Ending], first: &'a Ending) -> impl Iterator<Item = &'a Ending> {
    endings.iter().filter(|ending| ending.victim.follows == Some(first.victim.key))
}

fn leader<'a>(endings: &'a [Ending], of: &Ending) -> Option<&'a Ending> {
    endings.iter().find(|ending| of.victim.follows == Some(ending.victim.key))
}

/// Whether nothing of it needs a line of its own: it is under way, or ended as it should.
fn is_well(ending: &Ending) -> bool {
    use EndingState::{NotReturned, Unproved};
    ending.is_under_way() && ending.again.is_none() && !matches!(ending.state, NotReturned { .. } | Unproved)
}

/// What became of a launcher and its workers, together.
fn crew_lines(model: &Model, theme: &Theme, first: &Ending, crew: &[&Ending], width: usize) -> Vec<Line<'static>> {
    let all: Vec<&Ending> = std::iter::once(first).chain(crew.iter().copied()).collect();
    let well = all.iter().filter(|ending| is_well(ending)).count();
    let proved = all.iter().filter_map(|ending| match ending.state {
        EndingState::Returned { bytes, after, .. } => Some((bytes, after)),
        _ => None,
    });
    let simulated = simulated(model);
    let (name, others) = (&first.victim.name, crew.len());
    let (count, bytes, after) = proved.fold((0, Bytes::ZERO, Duration::ZERO), |(count, sum, last), (bytes, after)| {
        (count + 1, sum.plus(bytes), last.max(after))
    });
    let (mark, text, style) = if count == others + 1 {
        let mut devices: Vec<u32> = all.iter().flat_map(|ending| ending.victim.devices.iter().copied()).collect();
        devices.sort_unstable();
        devices.dedup();
        let free_now = model.snapshot().map(|snapshot| free_of(snapshot, &devices)).unwrap_or_default();
        let text = format!(
            "{name} and its {others} workers have exited{simulated}: freed {bytes} in {:.1} s. {}",
            after.as_secs_f32(),
            free_in_words(&free_now)
        );
        (theme.sign("✓", "+"), text, theme.good)
    } else {
        let over = all.iter().filter(|ending| ending.is_over()).count();
        let others = if well == others + 1 { "" } else { "; the others below" };
        let text = format!(
            "Sent SIGTERM to {name}{simulated}; it should end its {} workers. {over} of {} have exited{others}",
            crew.len(),
            crew.len() + 1
        );
        (theme.sign("…", "."), text, theme.quiet)
    };
    marked(mark, &text, style, width)
}

/// What became of a process that was terminated or asked: the proof, or why there is none.
fn ending_lines(model: &Model, theme: &Theme, ending: &Ending, width: usize) -> Vec<Line<'static>> {
    if let Some(again) = &ending.again {
        return marked(theme.sign("✗", "x"), &started_again(ending, again), theme.alarm, width);
    }
    let (mark, style) = mark_and_style(&ending.state, theme);
    let text = match &ending.state {
        EndingState::Returned { .. } | EndingState::NotReturned { .. } | EndingState::Unproved => {
            memory_in_words(model, ending)
        }
        EndingState::NotReleased(_) | EndingState::Survived(_) | EndingState::Refused(_) => {
            failure_in_words(model, ending)
        }
        _ => under_way_in_words(model, ending),
    };
    marked(mark, &text, style, width)
}

/// The mark and style of an ending.
fn mark_and_style(state: &EndingState, theme: &Theme) -> (&'static str, Style) {
    match state {
        EndingState::Elsewhere { .. } => ("…", theme.title),
        EndingState::Asking
        | EndingState::Asked(_)
        | EndingState::Sending
        | EndingState::Waiting
        | EndingState::Ended { .. } => ("…", theme.quiet),
        EndingState::Returned { .. } | EndingState::Unproved => (theme.sign("✓", "+"), theme.good),
        EndingState::NotReleased(_)
        | EndingState::NotReturned { .. }
        | EndingState::Survived(_)
        | EndingState::Refused(_) => (theme.sign("✗", "x"), theme.alarm),
    }
}

/// In the demo nothing is sent.
fn simulated(model: &Model) -> &'static str {
    if model.config.source == Source::Demo { " (simulated)" } else { "" }
}

/// What is waited for.
fn under_way_in_words(model: &Model, ending: &Ending) -> String {
    let (name, simulated) = (&ending.victim.name, simulated(model));
    match &ending.state {
        EndingState::Elsewhere { command } => {
            format!("Waiting for you to run: {command}  ({name} frees its memory then)")
        }
        EndingState::Asking => format!("Asking {name} to unload{simulated}: {}", asked_for(ending)),
        EndingState::Asked(said) => format!("{said}{simulated}; waiting for {name} to free its memory"),
        EndingState::Ended { .. } => format!("{name} has exited{simulated}; waiting for its memory"),
        EndingState::Sending if ending.victim.follows.is_some() => {
            let grace = model.config.grace.as_secs();
            format!("{name} should exit by itself; it gets SIGTERM after {grace} s")
        }
        _ => {
            let signal = if ending.signal == Signal::Kill { "SIGKILL" } else { "SIGTERM" };
            format!("Sent {signal} to {name}{simulated}; waiting for it to exit")
        }
    }
}

/// How much memory was freed.
fn memory_in_words(model: &Model, ending: &Ending) -> String {
    let name = &ending.victim.name;
    match &ending.state {
        EndingState::Returned { bytes, after, free_now, lives } => {
            let what = if *lives { "unloaded its model" } else { "has exited" };
            let (simulated, free) = (simulated(model), free_in_words(free_now));
            let within = if ending.is_by_hand { String::new() } else { format!(" in {:.1} s", after.as_secs_f32()) };
            format!("{name} {what}{simulated}: freed {bytes}{within}. {free}")
        }
        EndingState::NotReturned { bytes } => {
            let rest = still_held(model, ending);
            match ending.victim.held {
                Some(held) => format!("{name} has exited, but only {bytes} of its {held} was freed. {rest}"),
                None => format!("{name} has exited, and no memory was freed. {rest}"),
            }
        }
        _ => format!("{name} has exited; the driver reports no figure for what was freed"),
    }
}

/// Why nothing was freed.
fn failure_in_words(model: &Model, ending: &Ending) -> String {
    match &ending.state {
        EndingState::NotReleased(why) => format!("{} did not unload: {why}.", program(ending)),
        EndingState::Survived(state) => {
            let what = survived(ending.signal, *state, &model.key(Action::End));
            format!("{} {what}", ending.victim.name)
        }
        EndingState::Refused(refusal) => format!("Nothing was signalled: {refusal}"),
        _ => String::new(),
    }
}

fn marked(mark: &str, text: &str, style: Style, width: usize) -> Vec<Line<'static>> {
    textwrap::wrap(text, width.saturating_sub(4).max(10))
        .into_iter()
        .enumerate()
        .map(|(row, line)| Line::styled(format!(" {} {line}", if row == 0 { mark } else { " " }), style))
        .collect()
}

/// That it was restarted, and by what.
fn started_again(ending: &Ending, again: &Successor) -> String {
    let command = again.supervisor.as_ref().and_then(|supervisor| supervisor.ends_by(ending.victim.yours));
    let who = match (&ending.release, command, &again.supervisor) {
        (Some(release), ..) => format!("somebody uses it through {}", release.way.program),
        (None, Some(command), _) => format!("to stop it: {command}"),
        (None, None, Some(supervisor)) => format!("{supervisor} runs it"),
        (None, None, None) => "unless you did that, a supervisor restarts it".to_owned(),
    };
    format!("{} was restarted as {}; {who}", ending.victim.name, again.pid)
}

/// The program that was asked, at the beginning of a sentence.
fn program(ending: &Ending) -> String {
    match ending.release.as_ref().map(|release| release.way.program) {
        Some("the web UI") => "The web UI".to_owned(),
        Some(program) => program.to_owned(),
        None => ending.victim.name.clone(),
    }
}

fn asked_for(ending: &Ending) -> String {
    ending.release.as_ref().map(Release::shown).unwrap_or_default()
}

fn survived(signal: Signal, state: Option<char>, end: &str) -> String {
    let said = match (signal, state) {
        (Signal::Kill, Some('D')) => {
            "is stuck in the kernel, probably in the GPU driver (state D); no signal can end it. It exits when that call returns. If it is still there in 5 minutes: reboot, or ask the admin."
        }
        (Signal::Kill, Some('Z')) => {
            "has exited but is a zombie: a thread hangs in the driver, or its parent has not collected it. Restart its parent; if its memory stays in use, reboot."
        }
        (Signal::Kill, _) => "is still there after SIGKILL. Try again in a moment, or ask the admin.",
        (_, Some('T')) => {
            return format!("is stopped (Ctrl-Z) and did not react to SIGTERM. Press {end} for SIGKILL.");
        }
        (_, _) => return format!("ignored SIGTERM. Press {end} for SIGKILL."),
    };
    said.to_owned()
}

/// Which processes may still use the memory of one that exited: memory shared between processes (CUDA IPC) stays until the
/// last of them exits.
fn still_held(model: &Model, ending: &Ending) -> String {
    let Some(snapshot) = model.snapshot() else { return String::new() };
    let victim = &ending.victim;
    let devices = snapshot.devices.iter().filter(|device| victim.devices.contains(&device.index));
    let listed = devices.flat_map(|device| &device.processes).filter(|row| row.kind != ProcessKind::Graphics);
    let open = snapshot
        .holders
        .iter()
        .filter(|holder| holder.gpus.is_empty() || holder.gpus.iter().any(|index| victim.devices.contains(index)));
    let others = open.map(|holder| &holder.process).chain(listed);
    let others = others.filter(|row| row.user.known().is_some_and(|user| *user == victim.user));
    let names: Vec<String> = others.take(3).map(crate::advice::name_of).collect();
    if names.is_empty() {
        return "No process of the same user has the GPU open. Another user's process may have mapped that memory; otherwise the \
            driver lost it, and `sudo nvidia-smi --gpu-reset` or a reboot frees it."
            .into();
    }
    format!("Still running, and may map the same memory (CUDA IPC): {}. Terminate those next.", names.join(", "))
}

fn free_in_words(free_now: &[(u32, Bytes)]) -> String {
    let parts: Vec<String> = free_now.iter().map(|(device, bytes)| format!("GPU {device}: {bytes} free.")).collect();
    parts.join(" ")
}
