//! Owns the drawing of memory snapshots: the sentence with its tables, the tree of call stacks, the map of segments, and
//! what was allocated over time.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::curves::{LevelRow, mark};
use super::hints::below;
use crate::allocations::figures::line_in_words;
use crate::allocations::told::{Filled, MapRow, Moment, percent};
use crate::allocations::{Pool, State};
use crate::app::Model;
use crate::app::layout::{allocations_rows, whole_width};
use crate::app::model::allocations::{Part, StackRow};
use crate::text::harmless;
use crate::ui::format::{cut, exactly};
use crate::ui::theme::Theme;
use crate::units::Bytes;

/// Columns of a size.
const SIZE: usize = 9;
/// The heading of a segment's pool and stream.
const PLACE: &str = "pool, stream";
/// Columns of the scale beside the curve, with a blank behind.
const SCALE: usize = SIZE + 1;

/// What the window says, with its title; it takes the whole screen.
pub(super) fn lines(model: &Model, theme: &Theme) -> (String, Vec<Line<'static>>) {
    let (width, rows) = (whole_width(model.size), allocations_rows(model.size));
    let Some(filled) = model.filled_in_view() else {
        return ("Memory snapshot".to_owned(), vec![Line::raw("No memory snapshot is read.")]);
    };
    let part = model.allocations.view.part;
    let mut lines = vec![parts(theme, filled, part), Line::raw("")];
    let body = match part {
        Part::Summary => summary(model, theme, (width, rows)),
        Part::Stacks => stacks(model, theme, filled, (width, rows)),
        Part::Segments => segments(model, theme, filled, (width, rows)),
        Part::Timeline => timeline(theme, filled, (width, rows)),
    };
    lines.extend(body.into_iter().take(rows));
    lines.resize(rows + 2, Line::raw(""));
    lines.extend(below(theme, &keys(model, theme, part), width));
    (title(model, filled), lines)
}

/// The file, and which rank or device of how many.
fn title(model: &Model, filled: &Filled) -> String {
    let rank = filled.rank.map_or_else(String::new, |rank| format!(" · rank {rank}"));
    let count = model.filled().len();
    let which = if count > 1 { format!(" · {} of {count}", model.allocations.view.which + 1) } else { String::new() };
    format!("Memory snapshot · {}{rank} · {}{which}", harmless(&filled.file), harmless(&filled.device_in_words()))
}

/// The names of the parts, that in view marked.
fn parts(theme: &Theme, filled: &Filled, in_view: Part) -> Line<'static> {
    let spans = Part::of(filled).iter().flat_map(|part| {
        let is_in_view = *part == in_view;
        let pointer = if is_in_view { theme.sign("▸", ">") } else { " " };
        let style = if is_in_view { theme.sentence } else { theme.quiet };
        [Span::styled(format!("{pointer}{}", part.name()), style), Span::raw("  ")]
    });
    Line::from(spans.collect::<Vec<_>>())
}

fn keys(model: &Model, theme: &Theme, part: Part) -> Vec<(&'static str, &'static str)> {
    let mut keys = vec![("Tab", "next part")];
    match part {
        Part::Stacks => keys.extend([(theme.sign("↑↓", "arrows"), "move"), ("Enter", "open")]),
        Part::Summary | Part::Segments => keys.push((theme.sign("↑↓ PgDn", "arrows PgDn"), "scroll")),
        Part::Timeline => {}
    }
    if model.filled().len() > 1 {
        keys.push(("n", "next rank"));
    }
    keys.push(("Esc", "close"));
    keys
}

/// The sentence and the tables. Their headings begin a line without a blank.
fn summary(model: &Model, theme: &Theme, (width, rows): (usize, usize)) -> Vec<Line<'static>> {
    let all = model.summary_of_allocations(width);
    let first = model.allocations.view.at.min(all.len().saturating_sub(rows));
    let sentence_ends = all.iter().position(String::is_empty).unwrap_or(all.len());
    let lines = all.into_iter().enumerate().skip(first);
    let styled = lines.map(|(at, line)| {
        let style = match at < sentence_ends {
            true => theme.sentence,
            false if line.starts_with(' ') => Style::new(),
            false => theme.title,
        };
        Line::styled(cut(&line, width), style)
    });
    styled.collect()
}

/// The tree, its selected row in sight.
fn stacks(model: &Model, theme: &Theme, filled: &Filled, (width, rows): (usize, usize)) -> Vec<Line<'static>> {
    let view = &model.allocations.view;
    let tree = view.stack_rows(filled);
    let whole = filled.allocated_bytes;
    let when = if filled.request.is_some() { "at the failure" } else { "at the end" };
    let heading = format!("{:>SIZE$}    %  blocks  {whole} allocated {when}, by call stack", "VRAM");
    let mut lines = vec![Line::styled(cut(&heading, width), theme.quiet)];
    let selected = view.at.min(tree.len().saturating_sub(1));
    let room = rows.saturating_sub(1).max(1);
    let shown = tree.iter().enumerate().skip((selected + 1).saturating_sub(room)).take(room);
    lines.extend(shown.map(|(at, row)| {
        let style = if at == selected { theme.selected } else { Style::new() };
        Line::styled(exactly(&stack_row(theme, row, whole), width), style)
    }));
    if tree.is_empty() {
        lines.push(Line::styled("Nothing is allocated, or no call stacks were recorded.", theme.quiet));
    }
    lines
}

fn stack_row(theme: &Theme, row: &StackRow<'_>, whole: Bytes) -> String {
    let sign = match row.is_open {
        _ if row.node.children.is_empty() => " ",
        true => theme.sign("▾", "-"),
        false => theme.sign("▸", "+"),
    };
    let share = percent(row.node.bytes, whole).map_or_else(|| "?".to_owned(), |share| share.to_string());
    let indent = "  ".repeat(row.path.len().saturating_sub(1));
    let line = line_in_words(row.node.at.as_ref());
    let figures = format!("{:>SIZE$}  {share:>3}  {:>6}", row.node.bytes.to_string(), row.node.blocks);
    format!("{figures}  {indent}{sign} {}", harmless(&line))
}

/// A bar for each segment, the largest first: what is allocated in it, and what is free between.
fn segments(model: &Model, theme: &Theme, filled: &Filled, (width, rows): (usize, usize)) -> Vec<Line<'static>> {
    let [full, pending, free] = signs(theme);
    let widest = filled.map.iter().map(|row| place(row).len()).chain([PLACE.len()]).max().unwrap_or_default();
    let legend = format!("{full} allocated  {pending} pending  {free} free");
    let heading = format!("{:>SIZE$} {:>SIZE$}  {} {legend}", "SIZE", "free", exactly(PLACE, widest));
    let mut lines = vec![Line::styled(cut(&heading, width), theme.quiet)];
    let room = rows.saturating_sub(1).max(1);
    let first = model.allocations.view.at.min(filled.map.len().saturating_sub(room));
    let columns = width.saturating_sub(2 * SIZE + widest + 4).max(1);
    lines.extend(filled.map.iter().skip(first).take(room).map(|row| {
        let figures = format!("{:>SIZE$} {:>SIZE$}", row.total.to_string(), row.inactive.to_string());
        let place = exactly(&place(row), widest);
        Line::from(vec![
            Span::raw(format!("{figures}  ")),
            Span::styled(format!("{place} "), theme.quiet),
            Span::styled(bar(theme, row, columns), theme.used),
        ])
    }));
    if filled.map.is_empty() {
        lines.push(Line::styled("The snapshot has no segments.", theme.quiet));
    }
    lines
}

/// The signs of what is allocated, pending and free.
fn signs(theme: &Theme) -> [&'static str; 3] {
    [theme.sign("█", "#"), theme.sign("▒", "%"), theme.sign("·", ".")]
}

/// The pool, where it is not everybody's, the stream, and what else is special.
fn place(row: &MapRow) -> String {
    let mut words = match row.pool {
        Pool::EVERYBODYS => "default".to_owned(),
        Pool(owner, number) => format!("({owner}, {number})"),
    };
    words += &format!(", {}", row.stream);
    if row.is_expandable {
        words += " expandable";
    } else if row.is_small {
        words += " small";
    }
    words
}

/// A segment in so many columns: each shows the state that most of its part is in.
fn bar(theme: &Theme, row: &MapRow, columns: usize) -> String {
    let [full, pending, free] = signs(theme);
    let total = u128::from(row.total.0.max(1));
    let count = columns as u128;
    let cells = (0..count).map(|column| {
        let (from, to) = (column * total / count, (column + 1) * total / count);
        let mut amounts = [0_u128; 3];
        let mut begin = 0_u128;
        for run in &row.runs {
            let end = begin + u128::from(run.bytes.0);
            let here = end.min(to).saturating_sub(begin.max(from));
            let [allocated, waiting, unused] = &mut amounts;
            match run.state {
                State::Allocated => *allocated += here,
                State::PendingFree => *waiting += here,
                State::Inactive => *unused += here,
            }
            begin = end;
        }
        match amounts {
            [allocated, waiting, unused] if allocated >= waiting && allocated >= unused && allocated > 0 => full,
            [_, waiting, unused] if waiting >= unused && waiting > 0 => pending,
            _ => free,
        }
    });
    cells.collect()
}

/// The curve of what was allocated, with the peak and the failure marked, and what was allocated at the peak.
fn timeline(theme: &Theme, filled: &Filled, (width, rows): (usize, usize)) -> Vec<Line<'static>> {
    let (Some(peak), Some(last)) = (&filled.peak, filled.timeline.last()) else {
        let why = "No actions were recorded: torch.cuda.memory._record_memory_history() records them.";
        return vec![Line::styled(cut(why, width), theme.quiet)];
    };
    let columns = width.saturating_sub(SCALE).max(1);
    let values = by_column(&filled.timeline, columns);
    let top = filled.timeline.iter().map(|moment| moment.allocated.max(moment.reserved)).max().unwrap_or_default();
    let largest = peak.alive.first().map(|row| format!(", {} of it at {}", row.bytes, line_in_words(row.at.as_ref())));
    let said = format!("Peak {}{}", peak.bytes, largest.unwrap_or_default());
    let mut below = vec![Line::styled(cut(&harmless(&said), width), theme.sentence)];
    below.push(Line::styled(cut(&extent(filled, last), width), theme.quiet));
    if rows >= 14 {
        let alive = peak.alive.iter().skip(1);
        below.extend(alive.map(|row| {
            let line = format!("{:>SIZE$}  {}", row.bytes.to_string(), line_in_words(row.at.as_ref()));
            Line::raw(cut(&harmless(&line), width))
        }));
    }
    let mut marks = vec![' '; columns];
    mark(&mut marks, column_of(peak.after_actions, last, columns), theme.sign("▲", "^"), "peak");
    if filled.request.is_some() {
        mark(&mut marks, columns.checked_sub(1), theme.sign("▼", "v"), "failure");
    }
    let marks: String = marks.into_iter().collect();
    let mut lines = vec![Line::styled(format!("{}{}", " ".repeat(SCALE), marks.trim_end()), theme.alarm)];
    let height = rows.saturating_sub(lines.len() + below.len()).max(1);
    lines.extend((0..height).map(|row| {
        let scale = match row {
            0 => format!("{:>SIZE$} ", top.to_string()),
            _ if row + 1 == height => format!("{:>SIZE$} ", "0"),
            _ => " ".repeat(SCALE),
        };
        let level = LevelRow { top, from_below: height - 1 - row, height };
        let cells: String = values.iter().map(|value| level.cell(theme, *value)).collect();
        Line::from(vec![Span::styled(scale, theme.quiet), Span::styled(cells, theme.used)])
    }));
    lines.extend(below);
    lines
}

/// How many actions and how much time the curve spans.
fn extent(filled: &Filled, last: &Moment) -> String {
    let times = filled.timeline.first().and_then(|first| first.time_us).zip(last.time_us);
    let time = times.map(|(from, to)| to.saturating_sub(from));
    let time = time.map_or_else(String::new, |us| format!(" in {}.{:03} s", us / 1_000_000, us / 1000 % 1000));
    let left_out = match filled.actions_left_out {
        0 => String::new(),
        count => format!("; {count} older ones were not read"),
    };
    format!("{} actions{time}{left_out}; allocated sizes as requested", last.after_actions)
}

fn column_of(after_actions: u64, last: &Moment, columns: usize) -> Option<usize> {
    let end = columns.saturating_sub(1);
    let place = u128::from(after_actions) * end as u128 / u128::from(last.after_actions.max(1));
    usize::try_from(place).ok().map(|place| place.min(end))
}

/// The most that was allocated in each column; a column without a moment of its own goes on as the one before.
fn by_column(timeline: &[Moment], columns: usize) -> Vec<Option<Bytes>> {
    let mut values: Vec<Option<Bytes>> = vec![None; columns];
    if let Some(last) = timeline.last() {
        for moment in timeline {
            let place = column_of(moment.after_actions, last, columns);
            if let Some(value) = place.and_then(|place| values.get_mut(place)) {
                *value = (*value).max(Some(moment.allocated));
            }
        }
    }
    let mut before = None;
    for value in &mut values {
        before = value.or(before);
        *value = before;
    }
    values
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;
    use unicode_width::UnicodeWidthStr;

    use crate::app::Msg;
    use crate::app::tests::allocations::beside_a_log;
    use crate::ui::drawn;
    use crate::ui::tests::assert_screens;

    const SIZES: [(u16, u16); 4] = [(60, 15), (80, 24), (120, 40), (200, 60)];

    #[test]
    fn a_snapshot_has_a_summary_a_tree_of_stacks_a_map_of_segments_and_a_timeline() {
        let mut session = beside_a_log();
        assert_screens("snapshot", &mut session, &SIZES);
        session.press(KeyCode::Tab);
        session.press(KeyCode::Enter);
        assert_screens("snapshot-stacks", &mut session, &SIZES[..2]);
        session.press(KeyCode::Tab);
        assert_screens("snapshot-segments", &mut session, &SIZES[..3]);
        session.press(KeyCode::Tab);
        assert_screens("snapshot-timeline", &mut session, &SIZES[..3]);
        session.model.config.unicode = false;
        session.press(KeyCode::BackTab);
        assert_screens("snapshot-ascii", &mut session, &[(80, 24)]);
    }

    #[test]
    fn no_row_of_the_summary_is_cut_on_a_narrow_screen() {
        let mut session = beside_a_log();
        for size in SIZES {
            session.send(Msg::Resize(size.0, size.1));
            let width = crate::app::layout::whole_width(size);
            let lines = session.model.summary_of_allocations(width);
            assert!(lines.iter().all(|line| line.width() <= width), "{size:?}\n{}", lines.join("\n"));
            let text = lines.join("\n");
            assert!(text.contains("adamw.py:300 _init_group") && text.contains("a stream still uses it"), "{text}");
            assert!(text.matches("train.py:60 step").count() >= 2, "also beside what is unusable:\n{text}");
        }
    }

    #[test]
    fn every_line_of_the_summary_can_be_scrolled_to_and_the_keys_stay_in_view() {
        let mut session = beside_a_log();
        for size in SIZES {
            session.send(Msg::Resize(size.0, size.1));
            session.press(KeyCode::Home);
            assert!(drawn(&session.model).contains("Allocated") || size.1 < 20);
            session.press(KeyCode::End);
            let screen = drawn(&session.model);
            assert!(screen.contains("Rank 1") && screen.contains("[Esc]"), "{size:?}\n{screen}");
        }
    }
}
