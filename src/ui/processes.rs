//! Owns the region of GPUs and processes: a bar for each GPU, then one table of all processes by memory, then the memory
//! that no process accounts for.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::format::{cut, exactly, paragraph};
use super::gpus;
use super::pane;
use super::picture::Picture;
use super::theme::Theme;
use crate::advice::supervisor::Supervisor;
use crate::app::Model;
use crate::app::model::list::{Row, Stands};
use crate::app::model::{Click, Region, RowId, Sort, Target};
use crate::app::victims::evidence_of;
use crate::gpu::{Device, GpuProcess, ProcessKind, Reading, Snapshot, sight};
use crate::units::Bytes;

/// Columns of the fields, without the blanks between them.
const VRAM: usize = 6;
const PID: usize = 7;
const STATE: usize = 13;
const AGE: usize = 6;
/// Columns of the user in a narrow and in a wide table, which begins at so many columns.
const USER: (usize, usize) = (6, 9);
const WIDE: usize = 100;
/// From so many columns on the command line stands behind the name of the program.
const WITH_COMMAND: usize = 120;

pub(super) fn render(model: &Model, theme: &Theme, area: Rect, picture: &mut Picture, targets: &mut Vec<Target>) {
    if area.is_empty() {
        return;
    }
    let inner = pane::region(model, theme, title(model), Region::Processes, area, picture);
    let width = usize::from(inner.width);
    let Some(snapshot) = model.snapshot() else {
        let text = format!("Reading the GPUs{}", theme.sign("…", "..."));
        return picture.lines(inner, paragraph(&text, width, theme.quiet));
    };
    if let Some(unavailable) = snapshot.unavailable() {
        return without_driver(model, snapshot, unavailable, theme, inner, picture, targets);
    }
    let mut above = gpus::bars(model, theme, width);
    if snapshot.devices.is_empty() {
        above = paragraph("The driver answers, but lists no GPU that is visible here.", width, theme.quiet);
    }
    for (_, said) in model.remarks(width) {
        above.extend(said.into_iter().map(|line| Line::styled(format!("  {line}"), theme.title)));
    }
    // The bars stay in view; of what is said of them, as much as leaves room for the first processes.
    let most = usize::from(inner.height.saturating_sub(3)).max(model.bars());
    above.truncate(most);
    let bars = u16::try_from(above.len()).unwrap_or(u16::MAX).min(inner.height);
    let table = Rect { y: inner.y + bars, height: inner.height - bars, ..inner };
    picture.lines(Rect { height: bars, ..inner }, above);
    let shape = Columns::of(model, width);
    if table.height > 1 {
        let heading = Rect { height: 1, ..table };
        targets.extend(pane::line_target(heading, 0, Click::Sort));
        picture.lines(heading, [Line::styled(shape.heading(model, theme), theme.quiet)]);
    }
    let body = Rect { y: table.y + 1, height: table.height.saturating_sub(1), ..table };
    rows(model, theme, snapshot, &shape, body, picture, targets);
}

fn title(model: &Model) -> String {
    let mut title = " GPUs & processes ".to_owned();
    if let Some(makers) = model.snapshot().and_then(sight::untried) {
        title.push_str(&format!("· {makers}: not tried on hardware "));
    }
    if !model.processes.filter.is_empty() {
        title.push_str(&format!("· filter \"{}\" ", model.processes.filter));
    }
    if !model.processes.marked.is_empty() {
        title.push_str(&format!("· {} marked: frees {} ", model.processes.marked.len(), model.marked_bytes()));
    }
    title
}

/// Draws the rows from the first that keeps the highlighted one in view.
fn rows(
    model: &Model,
    theme: &Theme,
    snapshot: &Snapshot,
    shape: &Columns,
    area: Rect,
    picture: &mut Picture,
    targets: &mut Vec<Target>,
) {
    let rows = model.rows();
    let pointed_at = model.pointed_at();
    let unattributed: Vec<Line<'static>> =
        snapshot.devices.iter().filter_map(|device| unaccounted(device, theme, shape)).collect();
    let height = usize::from(area.height);
    let at = rows.iter().position(|row| pointed_at == Some(row.id));
    let count = rows.len() + unattributed.len();
    // The last line says how many rows are out of sight.
    let room = if count > height { height.saturating_sub(1) } else { height };
    let first = at.map_or(0, |at| (at + 1).saturating_sub(room));
    let mut lines = Vec::new();
    for row in rows.iter().skip(first).take(room) {
        targets.extend(pane::line_target(area, lines.len(), Click::Row(row.id)));
        lines.push(row_line(model, theme, snapshot, row, shape, pointed_at));
    }
    let left = room.saturating_sub(lines.len());
    lines.extend(unattributed.into_iter().take(left));
    let hidden = count.saturating_sub(lines.len());
    if hidden > 0 && lines.len() < height {
        let text = format!("  {} {hidden} more", theme.sign("…", "..."));
        lines.push(Line::styled(text, theme.quiet));
    }
    picture.lines(area, lines);
}

fn without_driver(
    model: &Model,
    snapshot: &Snapshot,
    why: &str,
    theme: &Theme,
    area: Rect,
    picture: &mut Picture,
    targets: &mut Vec<Target>,
) {
    let width = usize::from(area.width);
    let maker = model.input.diagnosis.as_ref().and_then(crate::advice::machine::make::maker);
    let said = match maker {
        Some(maker) => {
            format!("The log is about an {maker} GPU, and none is seen here. The log is diagnosed all the same.")
        }
        None => crate::advice::naming::sentence(why),
    };
    let mut lines = paragraph(&said, width, theme.sentence);
    for (_, said) in model.remarks(width) {
        lines.extend(said.into_iter().map(|line| Line::styled(line, theme.title)));
    }
    let host = &snapshot.host;
    if let (Some(total), Some(available)) = (host.memory_total_bytes.value(), host.memory_available_bytes.value()) {
        lines.push(Line::raw(format!(" RAM: {} of {total} in use", total.less(available).in_gib())));
    }
    let rows = model.rows();
    if !rows.is_empty() {
        // Programs that were running keep their memory also where the driver no longer answers.
        lines.push(Line::styled(" These processes have the driver open:", theme.title));
    }
    let (shape, pointed_at) = (Columns::of(model, width), model.pointed_at());
    for row in rows.iter() {
        targets.extend(pane::line_target(area, lines.len(), Click::Row(row.id)));
        lines.push(row_line(model, theme, snapshot, row, &shape, pointed_at));
    }
    picture.lines(area, lines);
}

/// Which columns the table has, and the room of the last one.
struct Columns {
    has_gpu: bool,
    has_age: bool,
    user: usize,
    width: usize,
}

impl Columns {
    fn of(model: &Model, width: usize) -> Columns {
        let has_gpu = model.snapshot().is_some_and(|snapshot| snapshot.devices.len() > 1);
        let is_wide = width >= WIDE;
        // The age stays where the list is sorted by it.
        let has_age = is_wide || model.processes.sort == Sort::Age;
        Columns { has_gpu, has_age, user: if is_wide { USER.1 } else { USER.0 }, width }
    }

    /// The columns' names; the one by which the rows are sorted is marked.
    fn heading(&self, model: &Model, theme: &Theme) -> String {
        let sort = model.processes.sort;
        let named = |column: Sort, name: &str| {
            let mark = if column == sort { theme.sign("▾", "*") } else { "" };
            format!("{name}{mark}")
        };
        let gpu = if self.has_gpu { " GPU" } else { "" };
        let age = if self.has_age { format!("{:>AGE$} ", named(Sort::Age, "AGE")) } else { String::new() };
        let filter = if model.processes.filter.is_empty() {
            String::new()
        } else {
            format!("  filter \"{}\"", model.processes.filter)
        };
        let (vram, pid) = (named(Sort::Vram, "GiB"), named(Sort::Pid, "PID"));
        let (user, what) = (named(Sort::User, "USER"), named(Sort::What, "PROCESS"));
        let text = format!(
            "   {vram:>VRAM$}{gpu} {pid:>PID$}  {} {:<STATE$} {age}{what}{filter}",
            exactly(&user, self.user),
            "STATE"
        );
        cut(&text, self.width)
    }

    /// Columns before the process's name.
    fn before_name(&self) -> usize {
        let gpu = if self.has_gpu { 4 } else { 0 };
        let age = if self.has_age { AGE + 1 } else { 0 };
        3 + VRAM + gpu + 1 + PID + 2 + self.user + 1 + STATE + 1 + age
    }
}

fn row_line(
    model: &Model,
    theme: &Theme,
    snapshot: &Snapshot,
    of: &Row,
    shape: &Columns,
    pointed_at: Option<RowId>,
) -> Line<'static> {
    let row = of.process.as_ref();
    let is_pointed_at = pointed_at == Some(of.id);
    let pointer = if is_pointed_at && model.focus == Region::Processes { theme.sign("▸", ">") } else { " " };
    let mark = if model.is_marked(row) { theme.sign("●", "*") } else { " " };
    let letter = model.processes.letters.of(row);
    let (sign, color) = match letter {
        Some(letter) => (letter.to_string(), theme.of_letter(letter)),
        None if row.kind == ProcessKind::Unlisted => (" ".to_owned(), Style::new()),
        None => (theme.small_part().to_owned(), theme.held),
    };
    let is_yours = model.hosts.away.is_none() && model.config.viewer.owns(row);
    let user = if is_yours { "you" } else { row.user.known().map_or("?", String::as_str) };
    let gpu = if shape.has_gpu { format!(" {:>3}", of.id.device) } else { String::new() };
    let age = row.started_at.value().map_or("?".to_owned(), |then| then.age_at(snapshot.taken_at));
    let age = if shape.has_age { format!("{age:>AGE$} ") } else { String::new() };
    let state = exactly(&state(model, row).replace('≥', theme.sign("≥", ">=")), STATE);
    let numbers =
        format!("{mark}{:>VRAM$}{gpu} {:>PID$}  {} {state} {age}", vram(row), row.pid, exactly(user, shape.user));
    let room = shape.width.saturating_sub(shape.before_name());
    let name = name_and_tag(model, of, shape, room, theme);
    // Whichever region has the focus: this is a process that `x` asks about.
    let is_highlighted = model.is_highlighted(of, pointed_at);
    let style = match (is_highlighted, is_pointed_at) {
        (true, _) => theme.selected,
        (false, true) => theme.title,
        (false, false) => Style::new(),
    };
    Line::from(vec![
        Span::styled(pointer, style),
        Span::styled(sign, if is_highlighted { style } else { color }),
        Span::styled(format!("{numbers}{name}"), style),
    ])
}

/// The process's name, and at the right what speaks for or against terminating it.
fn name_and_tag(model: &Model, of: &Row, shape: &Columns, room: usize, theme: &Theme) -> String {
    // Below its launcher nobody has to be told whose it is.
    let works_for = |said: &String| of.stands == Stands::Worker && said.starts_with("works for ");
    let mut evidence = evidence_of(model, &of.process);
    evidence.retain(|said| !works_for(said));
    if of.unlisted && !matches!(of.stands, Stands::Head { .. }) {
        evidence.push("has the driver open".to_owned());
    }
    let tag = evidence.first().map(|said| if said == "named in your log" { "in log" } else { said.as_str() });
    let name = what(of, shape, theme);
    let Some(tag) = tag else { return cut(&name, room) };
    let tag = cut(tag, room / 2);
    let name_room = room.saturating_sub(tag.width() + 2);
    format!("{}  {tag}", exactly(&name, name_room))
}

fn what(of: &Row, shape: &Columns, theme: &Theme) -> String {
    let row = of.process.as_ref();
    let command = row.command.known().map_or("", String::as_str);
    let mut text = row.recognised_as.clone().unwrap_or_else(|| command.to_owned());
    text = match of.stands {
        Stands::Head { workers, together } => {
            let workers = if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
            let together = together.map_or("GPU memory unknown".to_owned(), |bytes| bytes.to_string());
            format!("{together} with {workers}: {text}")
        }
        Stands::Worker => format!("{} {text}", theme.sign("└", "-")),
        Stands::Alone | Stands::Holder => text,
    };
    if let Some(container) = &row.container {
        text.push_str(&format!("  in {container}"));
    }
    if let Some(manager) = row.managed_by.as_ref().and_then(|_| Supervisor::of(row)) {
        text.push_str(&format!("  under {}", manager.label()));
    }
    if let Some(service) = sight::of_service(row) {
        text.push_str(&format!("  ({service})"));
    }
    if let Some(memory) = sight::of_memory(row) {
        text.push_str(&format!("  ({memory})"));
    }
    if !row.proved {
        text.push_str("  (not visible from here)");
    }
    if shape.width >= WITH_COMMAND && row.recognised_as.is_some() && !command.is_empty() {
        text.push_str(&format!("  {command}"));
    }
    if text.trim().is_empty() { "not visible from here".into() } else { text }
}

/// What the driver and the time watched tell of a process; nothing of one that the driver does not list.
fn state(model: &Model, row: &GpuProcess) -> String {
    match model.seen() {
        Some(seen) if row.kind != ProcessKind::Unlisted => seen.activity(row).to_string(),
        _ => String::new(),
    }
}

/// The memory in GiB; what is unknown is no figure, and what is there is not 0.0.
fn vram(row: &GpuProcess) -> String {
    match (row.kind, &row.used_bytes) {
        (ProcessKind::Unlisted, Reading::Known(_)) => "–".to_owned(),
        (_, Reading::Known(bytes)) if *bytes > Bytes::ZERO && *bytes < Bytes::mib(52) => "<0.1".to_owned(),
        (_, Reading::Known(bytes)) => bytes.in_gib(),
        (_, Reading::Denied) => "denied".into(),
        (_, Reading::Failed(_)) => "failed".into(),
        (_, Reading::Unsupported | Reading::NotAvailable) => "?".into(),
    }
}

fn unaccounted(device: &Device, theme: &Theme, shape: &Columns) -> Option<Line<'static>> {
    let known = device.unaccounted_bytes.value().filter(|_| device.error.is_none());
    let bytes = known.filter(|bytes| *bytes >= Bytes::mib(1))?;
    let why = if device.unaccounted_includes_unknown_rows {
        "unattributed, or of processes without a figure"
    } else {
        "unattributed"
    };
    let gpu = if shape.has_gpu { format!(" {:>3}", device.index) } else { String::new() };
    let figure = if bytes < Bytes::mib(52) { "<0.1".to_owned() } else { bytes.in_gib() };
    let before = format!(" {}{}{figure:>VRAM$}{gpu}", theme.small_part(), " ");
    let blanks = shape.before_name().saturating_sub(before.width());
    let text = format!("{before}{}{why}", " ".repeat(blanks));
    Some(Line::styled(cut(&text, shape.width), theme.quiet))
}
