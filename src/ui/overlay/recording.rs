//! Owns the drawing of a recording: the VRAM of each GPU over the run, the cursor, and what was in use at that moment.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::curves::{LevelRow, mark, put};
use super::hints::{answers, below};
use crate::app::Model;
use crate::app::layout::replay_columns;
use crate::app::model::{Click, Target};
use crate::app::replay::{Replay, UsedBy};
use crate::record::curve;
use crate::text::shortened;
use crate::ui::format::{cut, exactly};
use crate::ui::theme::Theme;
use crate::units::{Bytes, WallTime};

/// Columns of the scale beside a curve.
const SCALE: usize = 6;
/// Rows of a curve with its heading, where several GPUs share the screen.
const LEAST_CURVE: usize = 5;
/// Below so many rows there is room for what is needed most only.
const ROOMY: usize = 16;

/// What the window says, with its title; it takes the whole screen.
pub(super) fn lines(
    model: &Model,
    theme: &Theme,
    area: Rect,
    targets: &mut Vec<Target>,
) -> (String, Vec<Line<'static>>) {
    let Some(replay) = &model.replay else { return ("Recording".to_owned(), vec![Line::raw("Nothing is recorded.")]) };
    let (width, rows) = (usize::from(area.width.saturating_sub(4)), usize::from(area.height.saturating_sub(2)));
    let mut lines: Vec<Line<'static>> =
        shortened(&replay.sentence(theme.unicode), width, if rows < ROOMY { 1 } else { 2 })
            .into_iter()
            .map(|text| Line::styled(text, theme.sentence))
            .collect();
    let below = below_the_curves(model, theme, replay, (width, rows));
    let columns = replay_columns(model.size);
    let room = rows.saturating_sub(lines.len() + below.len() + 2);
    let shown: Vec<u32> = replay.gpus.iter().copied().skip(replay.first).collect();
    let count = (room / LEAST_CURVE).clamp(1, shown.len().max(1));
    lines.push(markers(theme, replay, columns));
    for (number, gpu) in shown.iter().take(count).enumerate() {
        // What does not divide evenly is the first one's.
        let height = room / count + if number == 0 { room % count } else { 0 };
        let hidden = if number + 1 == count { shown.len() - count } else { 0 };
        lines.push(heading(theme, replay, *gpu, (hidden, width)));
        let top = lines.len();
        lines.extend(curve(theme, replay, *gpu, (columns, height.saturating_sub(1).max(1))));
        targets.extend(moments(replay, area, (top, lines.len() - top), columns));
    }
    lines.push(axis(model, theme, replay, columns));
    lines.extend(below);
    (title(replay), lines)
}

fn title(replay: &Replay) -> String {
    let run = replay.recording().run.as_ref();
    let command =
        run.map(|run| shlex::try_join(run.argv.iter().map(String::as_str)).unwrap_or_else(|_| run.argv.join(" ")));
    match command {
        Some(command) => format!("Recording · {}", crate::text::harmless(&command)),
        None => "Recording · sample stream".to_owned(),
    }
}

/// A GPU with its figures, and how many more are out of sight.
fn heading(theme: &Theme, replay: &Replay, gpu: u32, (hidden, width): (usize, usize)) -> Line<'static> {
    let more = match hidden {
        0 => String::new(),
        hidden => format!("  {} {hidden} more", theme.sign("↓", "v")),
    };
    let text = cut(&replay.heading(gpu), width.saturating_sub(more.width()));
    let gap = " ".repeat(width.saturating_sub(text.width() + more.width()));
    Line::from(vec![Span::styled(text, theme.title), Span::raw(gap), Span::styled(more, theme.quiet)])
}

/// Where the failure, the rise and the lines about memory are.
fn markers(theme: &Theme, replay: &Replay, columns: usize) -> Line<'static> {
    let mut row: Vec<char> = vec![' '; columns];
    for (at, _) in &replay.recording().marks {
        mark(&mut row, replay.column_of(*at, columns), "!", "");
    }
    if let Some(rise) = &replay.rise {
        mark(&mut row, replay.column_of(rise.ended, columns), theme.sign("↗", "/"), "rise");
    }
    if let Some(at) = replay.recording().failed_at() {
        mark(&mut row, replay.column_of(at, columns), theme.sign("▼", "v"), "failure");
    }
    Line::styled(format!("{}{}", " ".repeat(SCALE), row.into_iter().collect::<String>().trim_end()), theme.alarm)
}

/// The curve of a GPU, from the top.
fn curve(theme: &Theme, replay: &Replay, gpu: u32, (columns, height): (usize, usize)) -> Vec<Line<'static>> {
    let recording = replay.recording();
    let values = curve::columns(recording, gpu, replay.span(), columns);
    let top = recording.total(gpu).or(recording.peak(gpu)).unwrap_or(Bytes::ZERO);
    let cursor = replay.column_of(replay.cursor, columns);
    let rise = replay.rise.filter(|rise| rise.gpu == gpu);
    let rising =
        rise.and_then(|rise| Some((replay.column_of(rise.began, columns)?, replay.column_of(rise.ended, columns)?)));
    let rows = (0..height).map(|row| {
        let scale = match row {
            0 => format!("{:>5} ", top.in_gib()),
            _ if row + 1 == height => "    0 ".to_owned(),
            _ => " ".repeat(SCALE),
        };
        let mut spans = vec![Span::styled(scale, theme.quiet)];
        let (mut text, mut style_before) = (String::new(), None);
        let level = LevelRow { top, from_below: height - 1 - row, height };
        for (column, value) in values.iter().enumerate() {
            let is_rising = rising.is_some_and(|(from, to)| column > from && column <= to);
            let style = match is_rising {
                _ if Some(column) == cursor => theme.selected,
                true => theme.alarm,
                false => theme.used,
            };
            if style_before.is_some_and(|before| before != style) {
                spans.push(Span::styled(std::mem::take(&mut text), style_before.unwrap_or_default()));
            }
            style_before = Some(style);
            text.push_str(level.cell(theme, *value));
        }
        spans.push(Span::styled(text, style_before.unwrap_or(Style::new())));
        Line::from(spans)
    });
    rows.collect()
}

/// A click on a column of a curve moves the cursor there.
fn moments(replay: &Replay, area: Rect, (top, height): (usize, usize), columns: usize) -> impl Iterator<Item = Target> {
    let x = area.x.saturating_add(2).saturating_add(u16::try_from(SCALE).unwrap_or(u16::MAX));
    let y = area.y.saturating_add(1).saturating_add(u16::try_from(top).unwrap_or(u16::MAX));
    let height = u16::try_from(height).unwrap_or(u16::MAX);
    (0..columns).filter_map(move |column| {
        let x = x.saturating_add(u16::try_from(column).ok()?);
        let does = Click::Moment(replay.moment_of(column, columns));
        Some(Target { area: Rect { x, y, width: 1, height }, does, on_top: true })
    })
}

/// The time below the curves, with the cursor.
fn axis(model: &Model, theme: &Theme, replay: &Replay, columns: usize) -> Line<'static> {
    let (from, to) = replay.span();
    let (begin, end) = (clock(model, replay, from), clock(model, replay, to));
    let cursor = replay.column_of(replay.cursor, columns);
    let mut row: Vec<char> = theme.sign("─", "-").chars().cycle().take(columns).collect();
    // The times make room for the cursor.
    let first = cursor.filter(|cursor| *cursor <= begin.width()).map_or(0, |cursor| cursor + 2);
    let last = columns.saturating_sub(end.width());
    let last = cursor.filter(|cursor| cursor + 1 >= last).map_or(last, |cursor| cursor.saturating_sub(end.width() + 1));
    put(&mut row, first, &format!("{begin} "));
    put(&mut row, last.saturating_sub(1), &format!(" {end}"));
    if let Some(cursor) = cursor {
        put(&mut row, cursor, theme.sign("▲", "^"));
    }
    let text: String = row.into_iter().collect();
    Line::styled(format!("{}{text}", " ".repeat(SCALE)), theme.quiet)
}

/// The time of day of a moment.
fn clock(model: &Model, replay: &Replay, moment: u64) -> String {
    let began = replay.recording().began();
    let at = began.and_then(|began| began.0.checked_add(std::time::Duration::from_millis(moment)).ok());
    at.map_or_else(String::new, |at| WallTime(at).time_of_day(&model.config.zone))
}

/// The moment, who used what, the system memory, the output, how it ended, and the keys.
fn below_the_curves(
    model: &Model,
    theme: &Theme,
    replay: &Replay,
    (width, rows): (usize, usize),
) -> Vec<Line<'static>> {
    let is_roomy = rows >= ROOMY;
    let moment = format!("{}, {}", replay.moment(), clock(model, replay, replay.cursor));
    let (table, hidden) = table(replay, if is_roomy { (rows / 4).max(3) } else { 2 });
    let mut first = vec![Span::styled(cut(&moment, width), theme.sentence)];
    if hidden > 0 {
        let more = if hidden == 1 { "1 more process".to_owned() } else { format!("{hidden} more processes") };
        first.push(Span::styled(format!(" {} {more}", theme.sign("·", "-")), theme.quiet));
    }
    let mut lines = vec![Line::from(first)];
    if is_roomy && !table.is_empty() {
        let heading = format!("{:>6} {:>7}  {:>7}  {:<10} PROCESS", "GiB", "IN 1 s", "PID", "USER");
        lines.push(Line::styled(heading, theme.quiet));
    }
    lines.extend(table.into_iter().map(|row| Line::raw(cut(&row, width))));
    lines.push(Line::raw(cut(&replay.ram(), width)));
    let output = match replay.output() {
        Ok(line) => format!("Output: {line}"),
        Err(why) => format!("Output: {why}"),
    };
    lines.push(Line::raw(cut(&output, width)));
    if is_roomy {
        lines.push(Line::raw(cut(&replay.end(), width)));
    }
    let (next, span) = match (is_roomy, replay.is_close_up) {
        (true, true) => ("next event", "whole run"),
        (true, false) => ("next event", "last minute"),
        (false, true) => ("event", "whole"),
        (false, false) => ("event", "minute"),
    };
    let mut keys = vec![(theme.sign("←→", "<>"), "move"), ("n", next)];
    if is_roomy {
        keys.push(("N", "previous"));
    }
    keys.push(("z", span));
    if replay.gpus.len() > 1 {
        keys.push(("Tab", "GPU"));
    }
    keys.push(("Esc", "close"));
    if is_roomy {
        lines.extend(below(theme, &keys, width));
    } else {
        lines.push(answers(theme, &keys, width));
    }
    lines
}

/// The processes of the first GPU in sight, as many as there is room for, and how many are left out.
fn table(replay: &Replay, room: usize) -> (Vec<String>, usize) {
    let Some(gpu) = replay.gpus.get(replay.first) else { return (Vec::new(), 0) };
    let Some(processes) = replay.processes(*gpu) else {
        return (vec!["Processes: unknown at this moment.".to_owned()], 0);
    };
    if processes.is_empty() {
        return (vec![format!("No process is listed on GPU {gpu}.")], 0);
    }
    (processes.iter().take(room).map(row).collect(), processes.len().saturating_sub(room))
}

fn row(process: &UsedBy) -> String {
    let used = process.used.map_or("?".to_owned(), Bytes::in_gib);
    let change = process.change.map(|change| change.to_string()).unwrap_or_default();
    let pid = process.pid.map(|pid| pid.to_string()).unwrap_or_default();
    let user = match (&process.user, process.pid) {
        (Some(user), _) => user.as_str(),
        (None, Some(_)) => "?",
        (None, None) => "",
    };
    format!("{used:>6} {change:>7}  {pid:>7}  {} {}", exactly(user, 10), process.what)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crossterm::event::KeyCode;

    use crate::app::Msg;
    use crate::app::replay::Played;
    use crate::app::replay::tests::{eight_gpus, failed_run};
    use crate::app::tests::Session;
    use crate::app::tests::running::{after_a_recorded_run, at_the_question};
    use crate::ui::drawn;
    use crate::ui::tests::{assert_screens, beside_a_crash};

    const SIZES: [(u16, u16); 4] = [(60, 15), (80, 24), (120, 40), (200, 60)];

    fn showing(played: Arc<Played>) -> Session {
        let mut session = beside_a_crash();
        session.show_recording(played);
        session
    }

    #[test]
    fn the_vram_over_the_run_and_who_used_it_at_a_moment() {
        let mut session = showing(failed_run());
        assert_screens("recording", &mut session, &SIZES);
        session.model.config.unicode = false;
        assert_screens("recording-ascii", &mut session, &[(80, 24)]);
    }

    #[test]
    fn before_a_command_is_run_again_all_of_it_is_shown() {
        let mut session = at_the_question(failed_run());
        assert_screens("run-again", &mut session, &SIZES[..3]);
    }

    #[test]
    fn beside_a_recorded_log_its_recording_is_named() {
        let mut session = after_a_recorded_run();
        assert_screens("recorded", &mut session, &SIZES[..3]);
    }

    #[test]
    fn several_gpus_stand_below_each_other() {
        let mut session = showing(eight_gpus());
        assert_screens("recording-eight", &mut session, &SIZES[1..]);
        session.press(KeyCode::Down);
        let screen = drawn(&session.model);
        assert!(!screen.contains("GPU 6 "), "the failed one comes first, then the others: {screen}");
    }

    #[test]
    fn a_click_on_the_curve_moves_the_cursor_there() {
        let mut session = showing(failed_run());
        session.send(Msg::Resize(80, 24));
        let before = session.model.replay.as_ref().unwrap().cursor;
        session.click_at(20, 8);
        let after = session.model.replay.as_ref().unwrap().cursor;
        assert!(after < before, "{after} {before}");
        let columns = crate::app::layout::replay_columns((80, 24));
        assert_eq!(session.model.replay.as_ref().unwrap().column_of(after, columns), Some(20 - 8));
    }

    #[test]
    fn nothing_is_cut_without_a_mark_and_the_keys_stay_in_view() {
        for played in [failed_run(), eight_gpus()] {
            let mut session = showing(played);
            for size in SIZES {
                session.send(Msg::Resize(size.0, size.1));
                for key in [KeyCode::Home, KeyCode::Char('z'), KeyCode::Char('n'), KeyCode::PageDown, KeyCode::End] {
                    session.press(key);
                    let screen = drawn(&session.model);
                    assert!(screen.contains("[Esc]") && screen.contains("RAM: "), "{size:?} {key:?}\n{screen}");
                }
            }
        }
    }
}
