//! Owns the walk's pane: what is behind with what it really gave back, the current step in full, what is ahead.

use std::time::Duration;

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::format::{cut, exactly, paragraph};
use super::picture::Picture;
use super::theme::Theme;
use crate::advice::release::Release;
use crate::advice::words::{self, Said};
use crate::advice::{CauseKind, PlannedFix};
use crate::app::Model;
use crate::app::action::Action;
use crate::app::model::{Click, Region, Source, Target};
use crate::app::walk::{Ending, EndingState, Mark, Successor, free_of};
use crate::gpu::guard::Signal;
use crate::gpu::{GpuProcess, ProcessKey, ProcessKind};
use crate::knowledge::diagnosis::Phase;
use crate::memory::Is;
use crate::units::Bytes;

/// What belongs to a step stands under its title.
const INDENT: &str = "     ";
/// A command stands out from its sentence.
const COMMAND_INDENT: &str = "       ";

pub(super) fn render(model: &Model, theme: &Theme, area: Rect, picture: &mut Picture, targets: &mut Vec<Target>) {
    if area.is_empty() {
        return;
    }
    let ahead = model.steps_ahead();
    let block = super::frame(theme, title(model, &ahead), model.focus == Region::Steps);
    let inner = block.inner(area);
    picture.frame(area, block);
    let width = usize::from(inner.width);
    let mut lines: Vec<Line<'static>> = Vec::new();
    for behind in &model.walk.behind {
        let (mark, word) = match behind.mark {
            Mark::Taken => (theme.sign("✓", "+"), "done"),
            Mark::DidNotHelp => (theme.sign("✗", "x"), "did not help"),
            Mark::Skipped => (theme.sign("–", "-"), "skipped"),
        };
        lines.push(Line::styled(cut(&format!(" {mark} {} ({word})", behind.title), width), theme.quiet));
    }
    // The proof stands next to the current step.
    let mut proofs = Vec::new();
    for ending in &model.endings {
        let start = lines.len();
        let crew: Vec<&Ending> = crew(&model.endings, ending).collect();
        // Of a crew one line says it all, as long as nothing is wrong with one of them.
        let led = leader(&model.endings, ending).is_some_and(|first| is_well(first) && is_well(ending));
        match (led, crew.is_empty() || !is_well(ending)) {
            (true, _) => {}
            (false, true) => lines.extend(ending_lines(model, theme, ending, width)),
            (false, false) => lines.extend(crew_lines(model, theme, ending, &crew, width)),
        }
        proofs.push(start..lines.len());
    }
    let behind = model.walk.behind.len() + model.endings.iter().filter(|ending| ending.is_under_way()).count();
    let (mut current_at, mut current_end) = (lines.len(), 0);
    let mut titles: Vec<usize> = Vec::new();
    let cursor = model.cursor(&ahead);
    if cursor.is_none() {
        // One that was signalled already, or has ended, is only waited for.
        let gentle = |ending: &Ending| matches!(ending.state, EndingState::Elsewhere { .. } | EndingState::Asked(_));
        let mut offers = Vec::new();
        offers.extend(model.awaited().is_some_and(gentle).then_some((Action::End, "terminate…")));
        offers.extend((!ahead.is_empty()).then_some((Action::Move(1), "another step")));
        lines.extend((!offers.is_empty()).then(|| offered(model, theme, &offers)));
        current_end = lines.len();
    }
    for (at, planned) in ahead.iter().enumerate() {
        let number = behind + at + 1;
        titles.push(lines.len());
        if Some(at) == cursor {
            current_at = lines.len();
            let kept = model.endings.last().map_or(0, |_| lines.len().min(3));
            let mut step = current(model, theme, planned, number, width, model.is_small());
            if kept + step.len() > usize::from(inner.height) {
                step = current(model, theme, planned, number, width, true);
            }
            lines.extend(step);
            current_end = lines.len();
        } else {
            lines.push(Line::styled(format!("   {}", one_line(planned, number, width.saturating_sub(3))), theme.quiet));
        }
    }
    if ahead.is_empty() {
        lines.extend(paragraph(&no_steps(model), width, theme.quiet));
    }
    lines.extend(again(model, theme, width));
    // What was just ended and the current step are never cut: what is further up gives way.
    let height = usize::from(inner.height);
    let needed = current_at.saturating_sub(model.endings.last().map_or(0, |_| 3));
    let needed = needed.max(current_end.saturating_sub(height).min(current_at));
    let top = needed.min(lines.len().saturating_sub(height));
    // Half of a proof tells nothing: all of it or none.
    let halved = proofs.iter().find(|proof| proof.start < top && top < proof.end);
    let top = halved.map_or(top, |proof| proof.end);
    if let Some((line, row)) = current_end.checked_sub(1).and_then(|at| Some((lines.get(at)?, at.checked_sub(top)?)))
        && row < height
    {
        let y = inner.y + u16::try_from(row).unwrap_or(0);
        super::pressable(theme, line, (inner.x, y), false, targets);
    }
    let click = |(at, line): (usize, &usize)| super::line_target(inner, line.checked_sub(top)?, Click::Step(at));
    targets.extend(titles.iter().enumerate().filter_map(click));
    picture.lines(inner, lines.into_iter().skip(top));
}

fn title(model: &Model, ahead: &[&PlannedFix]) -> String {
    if model.advice.as_ref().is_some_and(|advice| advice.on_its_way) {
        return format!(" What to do if it fails again · {} once it works ", model.key(Action::Works));
    }
    let Some(first) = ahead.get(model.cursor(ahead).unwrap_or(0)).or(ahead.first()) else {
        return " What to do ".into();
    };
    let enough = enough(model, ahead, first);
    let behind = model.walk.behind.len() + model.endings.iter().filter(|ending| ending.is_under_way()).count();
    let at = behind + model.cursor(ahead).map_or(0, |at| at + 1);
    format!(" What to do · step {at} of {}{enough} ", behind + ahead.len())
}

/// Which of the steps ahead may be enough: the first alone, else the first few together.
fn enough(model: &Model, ahead: &[&PlannedFix], first: &PlannedFix) -> String {
    if first.may_be_enough {
        return " · this one may be enough".into();
    }
    // As the plan has it: the log's figure is a lower bound.
    let of_log = model.advice.as_ref().and_then(|advice| advice.ledger.as_ref()?.missing_bytes);
    let missing = of_log.max(model.advice.as_ref().and_then(|advice| advice.fit.as_ref()?.missing()));
    let Some(missing) = missing.filter(|missing| *missing > Bytes::ZERO) else { return String::new() };
    let mut sum = Bytes::ZERO;
    for (at, planned) in ahead.iter().enumerate() {
        // Only what the driver's own figures promise is added up.
        if planned.frees_is != Some(Is::Fact) {
            break;
        }
        sum = sum.plus(planned.frees_bytes.unwrap_or(Bytes::ZERO));
        // Of one alone the plan has judged.
        if sum >= missing && at > 0 {
            return format!(" · the first {} together may be enough: {sum}", at + 1);
        }
    }
    String::new()
}

fn no_steps(model: &Model) -> String {
    match &model.advice {
        None => "The steps come with the error.".into(),
        Some(_) if model.input.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.matches.is_empty()) => {
            "The steps come with the error itself: paste the log down to its last line.".into()
        }
        Some(advice) if advice.verdict.causes.is_empty() => "Nothing has to be freed for this.".into(),
        Some(_) if model.walk.behind.is_empty() && model.endings.is_empty() => {
            "There is nothing to do about this that I know of.".into()
        }
        Some(_) => "No further steps. Run your job again, and paste the new error if it fails.".into(),
    }
}

/// The command to run again with what was changed so far, or how to tell it.
fn again(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let Some(advice) = model.advice.as_ref().filter(|advice| !advice.plan.is_empty()) else { return Vec::new() };
    let mut lines = vec![Line::default()];
    if let Some(again) = &model.walk.again {
        let needed = advice.ledger.as_ref().and_then(|ledger| ledger.needed_bytes);
        lines.extend(paragraph(&format!(" {}", again.words(needed)), width.saturating_sub(1), theme.good));
    }
    match model.rerun() {
        Some(command) => {
            let text = format!(" then run again: {command}");
            lines.extend(paragraph(&text, width.saturating_sub(1), theme.title));
        }
        None if advice.plan.iter().any(|planned| planned.changes.is_some()) => {
            let text = format!(" {} tell me what you ran: I make the changes in it", model.key(Action::Command));
            lines.extend(paragraph(&text, width.saturating_sub(1), theme.quiet));
        }
        None => {}
    }
    let loading = model.input.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.phase == Phase::Load);
    let size = advice
        .verdict
        .causes
        .first()
        .is_some_and(|cause| matches!(cause.cause, CauseKind::TooBig | CauseKind::Context));
    let hint = match advice.fit.as_ref().filter(|fit| fit.is_told()) {
        Some(_) => Some(format!(" {} will it fit? turn context, cache and layers, and see", model.key(Action::Fit))),
        None if loading || size => {
            Some(format!(" {} name the model: I say whether it fits, and what would make it", model.key(Action::Model)))
        }
        None => None,
    };
    lines.extend(hint.into_iter().flat_map(|text| paragraph(&text, width.saturating_sub(1), theme.quiet)));
    if lines.len() == 1 { Vec::new() } else { lines }
}

fn one_line(planned: &PlannedFix, number: usize, width: usize) -> String {
    let gives = words::gives_back(planned);
    let costs = format!("costs: {}", planned.costs);
    // Title, bytes and cost stand in columns where there is room; the title is the last to be cut.
    let (gives_width, costs_width) = match width {
        150.. => (22, 50),
        90.. => (22, 30),
        _ if gives.starts_with("how") => (0, 0),
        _ => (20, 0),
    };
    let title_width = width.saturating_sub(gives_width + costs_width + 6).min(76);
    let mut text = format!("{number} {}", exactly(&planned.title, title_width));
    if gives_width > 0 {
        text.push_str(&format!("  {}", exactly(&gives, gives_width)));
    }
    if costs_width > 0 {
        text.push_str(&format!("  {}", cut(&costs, costs_width)));
    }
    cut(&text, width)
}

fn current(
    model: &Model,
    theme: &Theme,
    planned: &PlannedFix,
    number: usize,
    width: usize,
    brief: bool,
) -> Vec<Line<'static>> {
    let style = if model.focus == Region::Steps { theme.selected } else { theme.title };
    let pointer = theme.sign("▸", ">");
    let mut lines =
        vec![Line::styled(format!(" {pointer} {}", one_line(planned, number, width.saturating_sub(3))), style)];
    let mut said: Vec<Said> = planned.steps.iter().flat_map(|step| words::step(step, brief)).collect();
    if let (true, Some(Said::Note(note))) = (brief, said.last_mut()) {
        // Its column is not there on a small screen.
        note.push_str(&format!(" Costs: {}.", planned.costs));
    }
    for said in said {
        let (indent, style) = match said {
            Said::Do(_) => (INDENT, Style::new()),
            Said::Command(_) => (COMMAND_INDENT, theme.command),
            Said::Note(_) => (INDENT, theme.quiet),
        };
        let room = textwrap::Options::new(width.saturating_sub(indent.len() + 1).max(10))
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        for line in textwrap::wrap(said.text(), &room) {
            lines.push(Line::styled(format!("{indent}{line}"), style));
        }
    }
    lines.push(keys(model, theme, planned));
    lines
}

fn offered(model: &Model, theme: &Theme, offers: &[(Action, &'static str)]) -> Line<'static> {
    let mut spans = vec![Span::raw("     ")];
    for (action, words) in offers {
        spans.push(Span::styled(model.key(*action), theme.key));
        spans.push(Span::raw(format!(" {words}   ")));
    }
    Line::from(spans)
}

fn keys(model: &Model, theme: &Theme, planned: &PlannedFix) -> Line<'static> {
    let copies = planned.steps.iter().any(|step| step.command.is_some());
    let mut offers: Vec<(Action, &'static str)> = match planned.target {
        Some(_) if model.release_of(planned).is_some() => vec![(Action::Enter, "ask it to let go…")],
        Some(_) if planned.gentle && copies => vec![(Action::Enter, "copy the command")],
        Some(_) if planned.gentle => vec![(Action::Enter, "I do that")],
        Some(_) => Vec::new(),
        None if planned.waits_for.is_some() => vec![(Action::Enter, "tell me when")],
        None if copies => vec![(Action::Enter, "copy, done")],
        None => vec![(Action::Enter, "done")],
    };
    match planned.target {
        Some(target) => {
            if may_end(model, target) {
                offers.push((Action::End, "terminate…"));
            }
            match (planned.gentle, model.release_of(planned).is_some()) {
                (false, _) => offers.push((Action::Enter, "copy the command")),
                (true, true) if copies => offers.push((Action::Copy, "copy")),
                // Enter copies already.
                (true, _) => {}
            }
            offers.push((Action::Skip, "skip"));
        }
        None => offers.extend([(Action::Skip, "skip"), (Action::About, "about this error")]),
    }
    offered(model, theme, &offers)
}

/// Another user's holder can be asked to let go, not ended.
fn may_end(model: &Model, target: ProcessKey) -> bool {
    let row = model.snapshot().and_then(|snapshot| snapshot.find(target));
    model.refuses_all().is_none() && row.is_some_and(|(_, row)| model.config.viewer.may_end(row).is_ok())
}

/// Those that were to end with this one.
fn crew<'a>(endings: &'a [Ending], first: &'a Ending) -> impl Iterator<Item = &'a Ending> {
    endings.iter().filter(|ending| ending.victim.follows == Some(first.victim.key))
}

fn leader<'a>(endings: &'a [Ending], of: &Ending) -> Option<&'a Ending> {
    endings.iter().find(|ending| of.victim.follows == Some(ending.victim.key))
}

/// Under way, or over as it should be: nothing of it needs a word of its own.
fn is_well(ending: &Ending) -> bool {
    use EndingState::{NotReturned, Unproved};
    ending.is_under_way() && ending.again.is_none() && !matches!(ending.state, NotReturned { .. } | Unproved)
}

/// What became of a launcher and those who were to end with it, together.
fn crew_lines(model: &Model, theme: &Theme, first: &Ending, crew: &[&Ending], width: usize) -> Vec<Line<'static>> {
    let all = || std::iter::once(first).chain(crew.iter().copied());
    let well = all().filter(|ending| is_well(ending)).count();
    let proved = all().filter_map(|ending| match ending.state {
        EndingState::Returned { bytes, after, .. } => Some((bytes, after)),
        _ => None,
    });
    let simulated = if model.config.source == Source::Demo { " (simulated)" } else { "" };
    let (name, others) = (&first.victim.name, crew.len());
    let (count, bytes, after) = proved.fold((0, Bytes::ZERO, Duration::ZERO), |(count, sum, last), (bytes, after)| {
        (count + 1, sum.plus(bytes), last.max(after))
    });
    let (mark, text, style) = if count == others + 1 {
        let mut devices: Vec<u32> = all().flat_map(|ending| ending.victim.devices.iter().copied()).collect();
        devices.sort_unstable();
        devices.dedup();
        let free_now = model.snapshot().map(|snapshot| free_of(snapshot, &devices)).unwrap_or_default();
        let text = format!(
            "{name} and the {others} that worked for it have ended{simulated}: gave back {bytes} in {:.1} s. {}",
            after.as_secs_f32(),
            free(&free_now)
        );
        (theme.sign("✓", "+"), text, theme.good)
    } else {
        let over = all().filter(|ending| ending.is_over()).count();
        let others = if well == others + 1 { "" } else { "; the others below" };
        let text = format!(
            "{name} was asked to close{simulated}, and should end the {} that work for it; {over} of {} have ended{others}",
            crew.len(),
            crew.len() + 1
        );
        (theme.sign("…", "."), text, theme.quiet)
    };
    marked(mark, &text, style, width)
}

/// What became of a process that was ended: the proof, or an honest word.
fn ending_lines(model: &Model, theme: &Theme, ending: &Ending, width: usize) -> Vec<Line<'static>> {
    let name = &ending.victim.name;
    let simulated = if model.config.source == Source::Demo { " (simulated)" } else { "" };
    let asked = match ending.signal {
        Signal::Kill => "is being forced to end",
        Signal::Term | Signal::Int => "was asked to close",
    };
    let (mark, text, style) = match &ending.state {
        EndingState::Elsewhere { command } => {
            ("…", format!("waiting for you: {command}  (then {name} gives back what it holds)"), theme.title)
        }
        EndingState::Asking => ("…", format!("asking {name}{simulated}: {}", asked_for(ending)), theme.quiet),
        EndingState::Asked(said) => ("…", format!("{said}{simulated}; waiting for the memory of {name}"), theme.quiet),
        EndingState::NotReleased(why) => {
            (theme.sign("✗", "x"), format!("{} did not let go: {why}.", program(ending)), theme.alarm)
        }
        EndingState::Sending if ending.victim.follows.is_some() => {
            let grace = model.config.grace.as_secs();
            ("…", format!("{name} should end by itself; after {grace} s it is asked to"), theme.quiet)
        }
        EndingState::Sending | EndingState::Waiting => {
            ("…", format!("{name} {asked}{simulated}; waiting for it"), theme.quiet)
        }
        EndingState::Ended { .. } => ("…", format!("{name} has ended{simulated}; waiting for its memory"), theme.quiet),
        EndingState::Returned { bytes, after, free_now, lives } => (
            theme.sign("✓", "+"),
            format!(
                "{name} {}{simulated}: gave back {bytes} in {:.1} s. {}",
                if *lives { "let go and runs on" } else { "has ended" },
                after.as_secs_f32(),
                free(free_now)
            ),
            theme.good,
        ),
        EndingState::NotReturned { bytes } => (
            theme.sign("✗", "x"),
            match ending.victim.held {
                Some(held) => format!(
                    "{name} has ended, but only {bytes} of the {held} it held came back. {}",
                    still_held(model, ending)
                ),
                None => format!("{name} has ended, and no memory came back. {}", still_held(model, ending)),
            },
            theme.alarm,
        ),
        EndingState::Unproved => (
            theme.sign("✓", "+"),
            format!("{name} has ended; the driver gives no figure to show what came back"),
            theme.good,
        ),
        EndingState::Survived(state) => (
            theme.sign("✗", "x"),
            format!("{name} {}", survived(ending.signal, *state, &model.key(Action::End))),
            theme.alarm,
        ),
        EndingState::Refused(refusal) => {
            (theme.sign("✗", "x"), format!("Nothing was signalled: {refusal}"), theme.alarm)
        }
    };
    let (mark, text, style) = match &ending.again {
        Some(again) => (theme.sign("✗", "x"), started_again(ending, again), theme.alarm),
        None => (mark, text, style),
    };
    marked(mark, &text, style, width)
}

fn marked(mark: &str, text: &str, style: Style, width: usize) -> Vec<Line<'static>> {
    textwrap::wrap(text, width.saturating_sub(4).max(10))
        .into_iter()
        .enumerate()
        .map(|(row, line)| Line::styled(format!(" {} {line}", if row == 0 { mark } else { " " }), style))
        .collect()
}

/// That it did not stay ended, and who sees to that.
fn started_again(ending: &Ending, again: &Successor) -> String {
    let command = again.supervisor.as_ref().and_then(|supervisor| supervisor.ends_by(ending.victim.yours));
    let who = match (&ending.release, command, &again.supervisor) {
        (Some(release), ..) => format!("somebody uses it through {}", release.way.program),
        (None, Some(command), _) => format!("to stop it: {command}"),
        (None, None, Some(supervisor)) => format!("{supervisor} runs it"),
        (None, None, None) => "unless that was you, something supervises it".to_owned(),
    };
    format!("{} was started again as {}; {who}", ending.victim.name, again.pid)
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
            "did not end: it is stuck inside the kernel, probably in the GPU driver (state D), and no program can end it now. It ends when that call returns; if it doesn't, only a reboot helps."
        }
        (Signal::Kill, Some('Z')) => {
            "has ended, but a thread of it that hangs in the driver or its parent still keeps it (zombie): end or restart its parent; if its memory stays, only a reboot helps."
        }
        (Signal::Kill, _) => {
            "is still there although it was forced to end: try again in a moment, or ask whoever runs this machine."
        }
        (_, Some('T')) => {
            return format!("did not close: it is stopped (Ctrl-Z). {end} on it asks whether to force it.");
        }
        (_, _) => return format!("did not close when it was asked to. {end} on it asks whether to force it."),
    };
    said.to_owned()
}

/// Who may have the memory of one that has ended: memory shared between processes (CUDA IPC) stays until the last of
/// them has ended, and one that was orphaned holds on for nobody.
fn still_held(model: &Model, ending: &Ending) -> String {
    let Some(snapshot) = model.snapshot() else { return String::new() };
    let victim = &ending.victim;
    let same_user = |row: &&GpuProcess| row.user.known().is_some_and(|user| *user == victim.user);
    let devices = snapshot.devices.iter().filter(|device| victim.devices.contains(&device.index));
    let listed = devices.flat_map(|device| &device.processes).filter(|row| row.kind != ProcessKind::Graphics);
    let open = snapshot
        .holders
        .iter()
        .filter(|holder| holder.gpus.is_empty() || holder.gpus.iter().any(|index| victim.devices.contains(index)));
    let others = open.map(|holder| &holder.process).chain(listed).filter(same_user);
    let names: Vec<String> = others.take(3).map(crate::advice::name_of).collect();
    if names.is_empty() {
        return "Nobody of the same user has the card open: another user's process may have taken or mapped it; if nobody \
            has, the driver lost it, and `sudo nvidia-smi --gpu-reset` or a reboot gives it back."
            .into();
    }
    format!(
        "Still there, and may map the same memory (CUDA IPC) or have taken it: {}. End those next.",
        names.join(", ")
    )
}

fn free(free_now: &[(u32, Bytes)]) -> String {
    let parts: Vec<String> = free_now.iter().map(|(device, bytes)| format!("GPU {device}: {bytes} free now")).collect();
    parts.join(" · ")
}
