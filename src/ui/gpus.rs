//! Owns the bar of a GPU: one capacity whose parts add up, each process by its letter and color, the smallest parts
//! together, what the driver reserves, and what is free.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::format::{bar, cut, exactly, ten_minutes};
use super::theme::Theme;
use crate::advice::short_card;
use crate::app::Model;
use crate::gpu::Device;
use crate::units::Bytes;

/// Columns of a bar at most.
const WIDEST: usize = 48;
/// Columns of a GPU's name at most.
const NAME: usize = 14;
/// Columns of the last ten minutes, where the log has a pane of its own.
const HISTORY: usize = 12;

/// The bars of all GPUs, in one column or two.
pub(super) fn bars(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let Some(snapshot) = model.snapshot() else { return Vec::new() };
    if !model.has_two_columns_of_bars() {
        return snapshot.devices.iter().map(|device| Line::from(one(model, theme, device, width))).collect();
    }
    let half = width / 2;
    let rows = snapshot.devices.len().div_ceil(2);
    let (left, right) = snapshot.devices.split_at(rows.min(snapshot.devices.len()));
    let beside = |at: usize| right.get(at).map(|device| short(model, theme, device, half)).unwrap_or_default();
    left.iter()
        .enumerate()
        .map(|(at, device)| Line::from([short(model, theme, device, half), beside(at)].concat()))
        .collect()
}

fn one(model: &Model, theme: &Theme, device: &Device, width: usize) -> Vec<Span<'static>> {
    let names = model.snapshot().into_iter().flat_map(|snapshot| &snapshot.devices).map(name_of);
    let longest = names.map(UnicodeWidthStr::width).max().unwrap_or(0).min(NAME);
    let name = exactly(name_of(device), longest);
    let gpu = if model.is_small() { "GPU " } else { "" };
    let label = format!("{}{gpu}{} {name} ", pointer(model, theme, device), device.index);
    if let Some(error) = &device.error {
        let room = width.saturating_sub(label.width());
        return vec![Span::styled(label, theme.title), Span::styled(cut(error, room), theme.alarm)];
    }
    let Some(figures) = Figures::of(device) else {
        let memory = &device.memory;
        let why = memory.used_bytes.reason().or(memory.total_bytes.reason()).unwrap_or_default();
        let why = if device.asleep { "asleep".to_owned() } else { why };
        return vec![Span::styled(label, theme.title), Span::raw(format!("memory: {why}"))];
    };
    let has_history = !model.is_small();
    let free = figures.free.map_or("free unknown".to_owned(), |free| format!("{:>6} free", free.in_gib()));
    let mut right = format!(" {:>4}/{}  {free}", figures.used.in_gib(), figures.total.in_gib());
    if has_history {
        let busy = device.utilization_percent.value().map_or("   ?".to_owned(), |percent| format!("{percent:>3} %"));
        right.push_str(&format!("  {busy}  "));
    }
    let beside = right.width() + if has_history { HISTORY } else { 0 };
    let room = width.saturating_sub(label.width() + beside + 2).min(WIDEST);
    let mut spans = vec![Span::styled(label, theme.title)];
    spans.extend(framed(theme, bar(theme, figures.total, &parts(model, theme, device), room)));
    spans.push(Span::raw(right));
    if has_history {
        let columns = model.feed.history.device_columns(device.index, HISTORY);
        let crash = model.input.diagnosis.as_ref().and(model.input.crashed_by);
        let crash = crash.and_then(|at| model.feed.history.column_of(at, HISTORY));
        spans.extend(ten_minutes(theme, &columns, figures.total, crash));
    }
    spans
}

/// One of two columns: index, bar, free memory, busy or idle.
fn short(model: &Model, theme: &Theme, device: &Device, width: usize) -> Vec<Span<'static>> {
    let label = format!("{}{} ", pointer(model, theme, device), device.index);
    let right = match (Figures::of(device).and_then(|figures| figures.free), &device.error) {
        (_, Some(error)) => format!(" {error}"),
        (Some(free), None) => format!(" {:>5} free", free.in_gib()),
        (None, None) => " free unknown".to_owned(),
    };
    let busy = match device.utilization_percent.value() {
        Some(percent) if percent > 0 => format!("{:<6}", format!("{percent} %")),
        Some(_) => "idle  ".to_owned(),
        None if device.asleep => "asleep".to_owned(),
        None => "?     ".to_owned(),
    };
    let right = cut(&format!("{right} {busy}"), width.saturating_sub(label.width() + 6));
    let room = width.saturating_sub(label.width() + right.width() + 3);
    let mut spans = vec![Span::styled(label, theme.title)];
    let total = device.memory.total_bytes.value().unwrap_or(Bytes::ZERO);
    spans.extend(framed(theme, bar(theme, total, &parts(model, theme, device), room)));
    spans.push(Span::raw(right));
    spans.push(Span::raw(" "));
    spans
}

fn name_of(device: &Device) -> &str {
    let name = device.name.known().map_or("GPU", |name| short_card(name));
    // Of an instance what tells it from the others of its GPU: MIG 3g.20gb.
    name.find("MIG ").and_then(|at| name.get(at..)).unwrap_or(name)
}

fn framed(theme: &Theme, bar: Vec<Span<'static>>) -> impl Iterator<Item = Span<'static>> {
    let (left, right) = (Span::raw(theme.sign("▕", "[")), Span::raw(theme.sign("▏", "]")));
    std::iter::once(left).chain(bar).chain(std::iter::once(right))
}

/// The GPU that the verdict is about is marked among several.
fn pointer(model: &Model, theme: &Theme, device: &Device) -> &'static str {
    let failed = model.advice.as_ref().and_then(|advice| advice.ledger.as_ref()?.device);
    let is_one_of_many = model.snapshot().is_some_and(|snapshot| snapshot.devices.len() > 1);
    if is_one_of_many && failed == Some(device.index) { theme.sign("▸", ">") } else { " " }
}

/// What is shown of a GPU's memory: used is what is not free, so that both add up to the total as they are shown.
struct Figures {
    total: Bytes,
    used: Bytes,
    free: Option<Bytes>,
}

impl Figures {
    fn of(device: &Device) -> Option<Figures> {
        let memory = &device.memory;
        let total = memory.total_bytes.value()?;
        let free = memory.free_bytes.value();
        let used = match free {
            Some(free) => total.as_shown(false).less(free.as_shown(false)),
            None => memory.used_bytes.value()?,
        };
        Some(Figures { total, used, free })
    }
}

/// The parts in the order of the bar: processes with a letter, the largest first, then the small ones and what no process
/// accounts for, then what the driver reserves.
fn parts(model: &Model, theme: &Theme, device: &Device) -> Vec<(Bytes, Style, String)> {
    let mut lettered = Vec::new();
    let mut small = device.unaccounted_bytes.value().unwrap_or(Bytes::ZERO);
    let mut rows: Vec<_> = device.processes.iter().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.used_bytes.value()), row.pid));
    for row in rows {
        let Some(bytes) = row.used_bytes.value() else { continue };
        match model.processes.letters.of(row) {
            Some(letter) => lettered.push((bytes, theme.of_letter(letter), letter.to_string())),
            None => small = small.plus(bytes),
        }
    }
    let reserved = device.memory.reserved_bytes.value().unwrap_or(Bytes::ZERO);
    lettered.push((small, theme.held, theme.small_part().to_owned()));
    lettered.push((reserved, theme.quiet, theme.sign("░", ":").to_owned()));
    lettered
}
