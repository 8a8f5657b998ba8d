//! Owns the pane of devices and processes: a bar a device that adds up, its processes by memory, and a row for the
//! memory that no listed process accounts for.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::format::{age, bar, cut, exactly, paragraph, sparkline, ten_minutes};
use super::picture::Picture;
use super::theme::Theme;
use crate::advice::short_card;
use crate::advice::supervisor::Supervisor;
use crate::app::Model;
use crate::app::model::{Click, Region, Sort, Target};
use crate::app::rows::{Row, Stands};
use crate::app::update::evidence_of;
use crate::gpu::{Device, Driver, GpuProcess, ProcessKind, Reading, Snapshot, sight};
use crate::units::Bytes;

/// Columns of pointer, PID and VRAM, with their blanks.
const NUMBERS: usize = 21;
/// Columns of the user, from so many columns of the pane on and in narrower ones.
const USER: (usize, usize, usize) = (72, 9, 6);
/// Columns of the activity, and of the age with its blanks.
const STATE: usize = 12;
const AGE: usize = 6;

/// From so many columns on the last ten minutes are drawn.
const WIDE: usize = 100;
/// Columns of a process's last ten minutes.
const HISTORY: usize = 30;

pub(super) fn render(model: &Model, theme: &Theme, area: Rect, picture: &mut Picture, targets: &mut Vec<Target>) {
    if area.is_empty() {
        return;
    }
    let block = super::frame(theme, title(model), model.focus == Region::Processes);
    let inner = block.inner(area);
    picture.frame(area, block);
    let mut clicks = Vec::new();
    let (lines, selected) = lines(model, theme, inner, &mut clicks);
    let height = usize::from(inner.height);
    // The selected row stays in sight; else the top does.
    let top = selected.map_or(0, |line| (line + 2).saturating_sub(height)).min(lines.len().saturating_sub(height));
    picture.lines(inner, lines.into_iter().skip(top));
    targets
        .extend(clicks.into_iter().filter_map(|(line, does)| super::line_target(inner, line.checked_sub(top)?, does)));
}

fn title(model: &Model) -> String {
    let mut title = " GPUs and who holds them ".to_owned();
    if !model.processes.filter.is_empty() {
        title.push_str(&format!("· filter \"{}\" ", model.processes.filter));
    }
    if !model.processes.marked.is_empty() {
        title.push_str(&format!("· {} marked: frees {} ", model.processes.marked.len(), model.marked_bytes()));
    }
    title
}

fn lines(
    model: &Model,
    theme: &Theme,
    area: Rect,
    clicks: &mut Vec<(usize, Click)>,
) -> (Vec<Line<'static>>, Option<usize>) {
    let Some(snapshot) = model.snapshot() else {
        return (paragraph("Asking the driver who holds GPU memory…", usize::from(area.width), theme.quiet), None);
    };
    if let Driver::Unavailable { unavailable } = &snapshot.driver {
        return no_driver(model, snapshot, unavailable, theme, usize::from(area.width));
    }
    let mut lines = Vec::new();
    let mut selected = None;
    let compact = area.height < 10;
    let width = usize::from(area.width);
    let remarks = model.remarks(width);
    let rows = model.rows();
    let highlighted = model.highlighted();
    let is_selected = |row: &Row<'_>| highlighted == Some(row.id);
    // What lies below the last line that can be seen is not written at all: there may be hundreds of rows.
    let one_is = rows.iter().any(is_selected);
    let height = usize::from(area.height);
    let is_full = |lines: &Vec<Line<'_>>, selected: Option<usize>| match selected {
        Some(line) => lines.len() >= height.max(line + 2),
        None => !one_is && lines.len() >= height,
    };
    'devices: for device in &snapshot.devices {
        lines.extend(device_lines(model, theme, device, width, compact));
        let here = rows.iter().filter(|row| row.id.device == device.index);
        let (holders, listed): (Vec<&Row<'_>>, Vec<&Row<'_>>) = here.partition(|row| row.unlisted);
        if !listed.is_empty() && !compact {
            clicks.push((lines.len(), Click::Sort));
            lines.push(Line::styled(heading(model.processes.sort, theme, width), theme.quiet));
        }
        let unexplained = unaccounted(device, theme).filter(|_| !compact || sight::unexplained(device).is_some());
        for (at, row) in listed.iter().chain(&holders).enumerate() {
            if is_full(&lines, selected) {
                break 'devices;
            }
            if at == listed.len() {
                lines.extend(unexplained.clone());
            }
            if is_selected(row) {
                selected = Some(lines.len());
            }
            let first = lines.len();
            lines.extend(row_lines(model, theme, snapshot, row, width, (compact, is_selected(row))));
            clicks.extend((first..lines.len()).map(|line| (line, Click::Row(row.id))));
        }
        if holders.is_empty() {
            lines.extend(unexplained);
        }
        let here = remarks.iter().filter(|(of, _)| *of == Some(device.index));
        lines.extend(here.flat_map(|(_, said)| said).map(|line| Line::styled(format!("  {line}"), theme.title)));
    }
    let all = remarks.iter().filter(|(of, _)| of.is_none());
    lines.extend(all.flat_map(|(_, said)| said).map(|line| Line::styled(format!("  {line}"), theme.title)));
    if snapshot.devices.is_empty() {
        lines = paragraph("The driver answers, but lists no GPU that may be seen from here.", width, theme.quiet);
    }
    (lines, selected)
}

fn no_driver(
    model: &Model,
    snapshot: &Snapshot,
    why: &str,
    theme: &Theme,
    width: usize,
) -> (Vec<Line<'static>>, Option<usize>) {
    let maker = model.input.diagnosis.as_ref().and_then(crate::advice::machine::maker);
    let said = match maker {
        Some(maker) => format!(
            "The log is about an {maker} card. I can watch NVIDIA's cards only, so nothing is listed here; what the log says I judge all the same."
        ),
        None => crate::advice::naming::sentence(why),
    };
    let mut lines = paragraph(&said, width, theme.sentence);
    for (_, said) in model.remarks(width) {
        lines.extend(said.into_iter().map(|line| Line::styled(line, theme.title)));
    }
    let mut selected = None;
    let (rows, highlighted) = (model.rows(), model.highlighted());
    if !rows.is_empty() {
        // Programs that were running keep their memory also where the driver no longer answers.
        lines.push(Line::raw(""));
        lines.push(Line::styled("These have the driver open:", theme.title));
    }
    for row in &rows {
        let is_selected = highlighted == Some(row.id);
        if is_selected {
            selected = Some(lines.len());
        }
        lines.extend(row_lines(model, theme, snapshot, row, width, (false, is_selected)));
    }
    let host = &snapshot.host;
    if let (Some(total), Some(available)) = (host.memory_total_bytes.value(), host.memory_available_bytes.value()) {
        lines.push(Line::raw(""));
        let used = total.less(available);
        let mut spans = vec![Span::raw("system memory ▕".replace('▕', theme.sign("▕", "[")))];
        spans.extend(bar(theme, total, &[(used, theme.used, theme.sign("█", "#"))], 20));
        spans.push(Span::raw(format!("{} {} of {total}", theme.sign("▏", "]"), used.in_gib())));
        lines.push(Line::from(spans));
    }
    lines.push(Line::raw(""));
    lines.extend(paragraph("Pasted logs are read all the same: paste the error here.", width, theme.quiet));
    (lines, selected)
}

fn device_lines(model: &Model, theme: &Theme, device: &Device, width: usize, compact: bool) -> Vec<Line<'static>> {
    let name = device.name.known().map_or("GPU", |name| short_card(name));
    // Of an instance what tells it from the card's others: MIG 3g.20gb.
    let name = name.find("MIG ").and_then(|at| name.get(at..)).unwrap_or(name).to_owned();
    let label = format!("{} {}", device.index, exactly(&name, 14));
    if let Some(error) = &device.error {
        return vec![Line::from(vec![
            Span::styled(label, theme.title),
            Span::styled(cut(error, width.saturating_sub(17)), theme.alarm),
        ])];
    }
    let memory = &device.memory;
    let (Some(total), Some(used)) = (memory.total_bytes.value(), memory.used_bytes.value()) else {
        let why = memory.used_bytes.reason().or(memory.total_bytes.reason()).unwrap_or_default();
        return vec![Line::from(vec![Span::styled(label, theme.title), Span::raw(format!(" memory: {why}"))])];
    };
    let reserved = memory.reserved_bytes.value().unwrap_or(Bytes::ZERO);
    let other = device.unaccounted_bytes.value().unwrap_or(Bytes::ZERO);
    let parts = [
        (used.less(other), theme.used, theme.sign("█", "#")),
        (other, theme.held, theme.sign("▓", "=")),
        (reserved, theme.held, theme.sign("▒", "~")),
    ];
    let free = memory
        .free_bytes
        .value()
        .map(|free| format!("{} free", if compact { free.in_gib() } else { free.to_string() }));
    let beside = free.clone().filter(|_| compact).map(|free| format!(" · {free}")).unwrap_or_default();
    let figures = format!("{} {} of {total}{beside}", theme.sign("▏", "]"), used.plus(reserved).in_gib());
    let room = width.saturating_sub(label.chars().count() + figures.chars().count() + 2).min(48);
    let mut spans = vec![Span::styled(label, theme.title), Span::raw(theme.sign("▕", "["))];
    spans.extend(bar(theme, total, &parts, room));
    spans.push(Span::raw(figures));
    let mut lines = vec![Line::from(spans)];
    if !compact {
        let seen: Vec<_> = model.feed.history.used(device.index).collect();
        let state = [
            device.utilization_percent.value().map(|percent| format!("{percent} %")),
            device.temperature_celsius.value().map(|celsius| format!("{celsius} °C")),
        ];
        let state: Vec<String> = state.into_iter().flatten().collect();
        let mut spans = vec![Span::styled(format!("  {} ", exactly(&state.join(" "), 14)), theme.quiet)];
        if width < WIDE {
            spans.push(Span::styled(sparkline(theme, &seen, total, room), theme.used));
        } else {
            let columns = model.feed.history.device_columns(device.index, room);
            spans.extend(ten_minutes(theme, &columns, total, crash(model, room)));
        }
        spans.push(Span::raw(format!("  {}", free.unwrap_or_default())));
        if width >= WIDE {
            spans.push(Span::styled("  the last 10 min", theme.quiet));
        }
        lines.push(Line::from(spans));
    }
    lines
}

/// The columns' names; the one by which the rows are sorted is marked.
fn heading(sort: Sort, theme: &Theme, width: usize) -> String {
    let named = |column: Sort, name: &str| {
        let mark = if column == sort { theme.sign("▾", "*") } else { "" };
        format!("{name}{mark}")
    };
    let [pid, vram, user, age, what] =
        [(Sort::Pid, "PID"), (Sort::Vram, "VRAM"), (Sort::User, "user"), (Sort::Age, "age"), (Sort::What, "what")]
            .map(|(column, name)| named(column, name));
    let age = if has_age(sort, width) { format!("{age:>AGE$}") } else { String::new() };
    let user_width = user_width(width);
    format!("  {pid:>7} {vram:>9}  {user:<user_width$}  {:<STATE$}{age}  {what}", "state")
}

/// Whether there is room for the age beside the activity; it stays where the list is sorted by it.
fn has_age(sort: Sort, width: usize) -> bool {
    width >= WIDE || sort == Sort::Age
}

fn user_width(width: usize) -> usize {
    let (from, wide, narrow) = USER;
    if width >= from { wide } else { narrow }
}

/// What the driver and the time watched tell of a process; nothing of one that the driver does not list.
fn state(model: &Model, row: &GpuProcess) -> String {
    match model.seen() {
        Some(seen) if row.kind != ProcessKind::Unlisted => seen.activity(row).to_string(),
        _ => String::new(),
    }
}

fn row_lines(
    model: &Model,
    theme: &Theme,
    snapshot: &Snapshot,
    of: &Row<'_>,
    width: usize,
    (compact, selected): (bool, bool),
) -> Vec<Line<'static>> {
    let row = of.process;
    let marked = row.key().is_some_and(|key| model.processes.marked.contains(&key));
    let pointer = match (selected, marked) {
        (_, true) => theme.sign("●", "*"),
        (true, false) => theme.sign("▸", ">"),
        _ => " ",
    };
    let user = if model.config.viewer.owns(row) { "you" } else { row.user.known().map_or("?", String::as_str) };
    let started = row.started_at.value().map_or("?".to_owned(), |then| age(then, snapshot.taken_at));
    let bytes = match (row.kind, &row.used_bytes) {
        (ProcessKind::Unlisted, Reading::Known(_)) => theme.sign("–", "-").to_owned(),
        (ProcessKind::Unlisted, _) => "?".to_owned(),
        (_, reading) => held(reading),
    };
    let state = exactly(&state(model, row).replace('≥', theme.sign("≥", ">=")), STATE);
    let age = if has_age(model.processes.sort, width) { format!("{started:>AGE$}") } else { String::new() };
    let user_width = user_width(width);
    let numbers = format!("{pointer} {:>7} {bytes:>9}  {}  {state}{age}  ", row.pid, exactly(user, user_width));
    // With two blanks on both sides of the activity.
    let taken = NUMBERS + user_width + STATE + age.len() + 4;
    // Whichever region has the focus: this is the process that `x` asks about.
    let style = if selected { theme.selected } else { Default::default() };
    // Below its launcher nobody has to be told whose it is.
    let works_for = |said: &String| of.stands == Stands::Worker && said.starts_with("works for ");
    let mut evidence = evidence_of(model, row);
    evidence.retain(|said| !works_for(said));
    let what = match of.stands {
        Stands::Alone => what(row),
        Stands::Head { workers, together } => {
            let workers = if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
            let together = together.map_or("GPU memory unknown".to_owned(), |bytes| bytes.to_string());
            format!("{together} with {workers}: {}", what(row))
        }
        Stands::Worker => format!("{} {}", theme.sign("└", "-"), what(row)),
        Stands::Holder if compact && !evidence.is_empty() => format!("{}: {}", evidence.join(", "), what(row)),
        Stands::Holder => what(row),
    };
    if of.unlisted && !matches!(of.stands, Stands::Head { .. }) {
        evidence.push("has the driver open".to_owned());
    }
    let evidence = evidence.join(" · ");
    let mut lines = vec![Line::styled(format!("{numbers}{}", cut(&what, width.saturating_sub(taken))), style)];
    if let (true, false, Some(key)) = (width >= WIDE, compact, row.key()) {
        // What it held over the last ten minutes stands at the right of what speaks for ending it.
        let whole = snapshot.devices.iter().find(|device| device.index == of.id.device).map(|device| &device.memory);
        let whole = whole.and_then(|memory| memory.total_bytes.value()).unwrap_or(Bytes::ZERO);
        let columns = model.feed.history.process_columns(of.id.device, key, HISTORY);
        let room = width.saturating_sub(HISTORY + 12);
        let mut spans = vec![Span::styled(format!("{}{}", " ".repeat(10), exactly(&evidence, room)), theme.quiet)];
        spans.extend(ten_minutes(theme, &columns, whole, crash(model, HISTORY)));
        lines.push(Line::from(spans));
        return lines;
    }
    let said_before = compact && of.stands == Stands::Holder;
    let shown = !compact || (selected && model.focus == Region::Processes && !said_before);
    if !evidence.is_empty() && shown {
        lines
            .push(Line::styled(format!("{}{}", " ".repeat(10), cut(&evidence, width.saturating_sub(10))), theme.quiet));
    }
    lines
}

/// In which of so many columns the job died, where that is known and was within the last ten minutes.
fn crash(model: &Model, width: usize) -> Option<usize> {
    model.input.diagnosis.as_ref()?;
    model.feed.history.column_of(model.input.crashed_by?, width)
}

fn held(reading: &Reading<Bytes>) -> String {
    match reading {
        Reading::Known(bytes) => bytes.to_string(),
        Reading::Denied => "denied".into(),
        Reading::Failed(_) => "failed".into(),
        Reading::Unsupported | Reading::NotAvailable => "unknown".into(),
    }
}

fn what(row: &GpuProcess) -> String {
    let command = row.command.known().map_or("", String::as_str);
    let mut text = row.recognised_as.clone().unwrap_or_else(|| command.to_owned());
    if let Some(container) = &row.container {
        text.push_str(&format!("  in {container}"));
    }
    if let Some(manager) = row.managed_by.as_ref().and_then(|_| Supervisor::of(row)) {
        text.push_str(&format!("  under {}", manager.label()));
    }
    if let Some(service) = sight::of_service(row) {
        text.push_str(&format!("  ({service})"));
    }
    if !row.proved {
        text.push_str("  (not seen from here)");
    }
    if text.trim().is_empty() { "a process that can't be seen from here".into() } else { text }
}

fn unaccounted(device: &Device, theme: &Theme) -> Option<Line<'static>> {
    let known = device.unaccounted_bytes.value().filter(|_| device.error.is_none());
    let bytes = known.filter(|bytes| *bytes >= Bytes::mib(1))?;
    let why = if device.unaccounted_includes_unknown_rows {
        "used: by rows without a figure, or by nobody the driver lists"
    } else {
        "used, but the driver doesn't say by whom"
    };
    Some(Line::styled(format!("  {:>7} {:>9}  {why}", "?", bytes.to_string()), theme.quiet))
}
