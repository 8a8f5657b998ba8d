//! Owns the first line: which machine, its driver and system memory, and whether the readings are fresh.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::format::cut;
use super::picture::Picture;
use super::theme::Theme;
use crate::app::Model;
use crate::app::action::Action;
use crate::app::layout::split_columns;
use crate::app::model::{LookedAt, Source};
use crate::gpu::{Driver, sight};
use unicode_width::UnicodeWidthStr;

/// Below so many columns a line has no room for the failure, its line in the log and the key of the recording.
const LINE_AND_RECORDING: u16 = 72;

pub(super) fn render(model: &Model, theme: &Theme, area: Rect, picture: &mut Picture) {
    let (right, style) = freshness(model, theme);
    // Its first words matter most, and stand beside the program's name.
    let right = cut(&right, usize::from(area.width).saturating_sub(12));
    let room = usize::from(area.width).saturating_sub(right.width() + 2);
    let columns = u16::try_from(right.width() + 1).unwrap_or(area.width);
    let name = Span::styled(" oomdoctor", theme.title.patch(style));
    // What is said of the readings holds for all of the line.
    let text = Line::from(vec![name, Span::raw(machine(model, room.saturating_sub(10)))]).style(style);
    let (left, beside) = split_columns(area, area.width.saturating_sub(columns));
    picture.lines(left, [text]);
    picture.lines(beside, [Line::styled(format!("{right} "), style)]);
}

/// The machine's name, its system memory, its driver: as many of them as fit.
fn machine(model: &Model, room: usize) -> String {
    let Some(snapshot) = model.snapshot() else { return String::new() };
    let host = &snapshot.host;
    // On a larger screen the region of the GPUs says it.
    let untried = if model.is_small() { sight::untried(snapshot) } else { None };
    let mut parts = match &model.hosts.away {
        Some(away) => vec![
            format!("  {}", away.name),
            " · only read".to_owned(),
            format!(" · {} goes back", model.key(Action::Machines)),
        ],
        None => vec![format!("  {}", host.name)],
    };
    parts.extend(untried.map(|makers| format!(" · {makers}: untested")));
    if let (Some(total), Some(available)) = (host.memory_total_bytes.value(), host.memory_available_bytes.value()) {
        let used = total.less(available).in_gib();
        parts.push(format!(" · system memory {used} of {total}"));
    }
    match &snapshot.driver {
        Driver::Available { version, .. } if !version.is_empty() => parts.push(format!(" · driver {version}")),
        Driver::Available { .. } => {}
        Driver::Unavailable { .. } if snapshot.devices.is_empty() => parts.push(" · no GPU readings".into()),
        Driver::Unavailable { .. } => {}
    }
    let mut text = String::new();
    for part in parts {
        if text.width() + part.width() <= room {
            text.push_str(&part);
        }
    }
    text
}

fn freshness(model: &Model, theme: &Theme) -> (String, ratatui::style::Style) {
    let why = match model.looked_at {
        _ if model.pace() == model.config.interval => "",
        LookedAt { in_front: true, .. } => " on battery",
        LookedAt { on_battery: false, .. } => " while not in front",
        LookedAt { .. } => " on battery, not in front",
    };
    let every = format!("every {} s{why}", model.pace().as_secs_f32());
    if model.config.source == Source::Demo {
        return ("DEMO: a recorded machine, kills are simulated".into(), theme.alarm);
    }
    // The sampler's own failure first: a driver that nobody asks is not one that does not answer.
    if let Some(why) = &model.feed.down {
        let since = model.feed.received.map(|at| format!(" for {} s", model.now.saturating_sub(at).as_secs()));
        return (format!("no reading{}: {why}", since.unwrap_or_default()), theme.alarm);
    }
    if let (Some(away), Some(silent)) = (&model.hosts.away, model.silent_for()) {
        return (format!("{}: last reading {} s ago", away.name, silent.as_secs()), theme.alarm);
    }
    if let Some(silent) = model.silent_for() {
        let age = match model.feed.received {
            Some(_) => format!("driver does not answer · last reading {} s ago", silent.as_secs()),
            None => format!("driver does not answer · waiting {} s", silent.as_secs()),
        };
        return (age, theme.alarm);
    }
    if model.feed.paused {
        return (format!("paused, {} goes on", model.key(Action::Pause)), theme.alarm);
    }
    if let Some((device, wanted)) = model.walk.waits_for {
        return (format!("waiting for {wanted} on GPU {device} · Esc stops it"), theme.title);
    }
    if let Some(failure) = failure(model) {
        return (failure, theme.quiet);
    }
    let time = model.wall.time_of_day(&model.config.zone);
    match model.snapshot() {
        Some(_) => (format!("{every} · {time}"), theme.quiet),
        None => ("reading the GPUs…".into(), theme.quiet),
    }
}

/// What the log is about, and the line that says so.
fn failure(model: &Model) -> Option<String> {
    let line = model.input.diagnosis.as_ref()?.matches.first()?.line;
    let failure = model.input.pages.first()?.title()?;
    if model.has_allocations() {
        return Some(format!("{failure} · {} snapshot", model.key(Action::Allocations)));
    }
    let key = model.key(Action::Recording);
    // The pane of the log, which says it too, is out of sight on a small screen.
    Some(match (&model.input.record, model.is_small()) {
        (Some(_), true) if model.size.0 < LINE_AND_RECORDING => format!("{failure} · {key} recording"),
        (Some(_), true) => format!("{failure} · log line {line} · {key} recording"),
        _ => format!("{failure} · log line {line}"),
    })
}
