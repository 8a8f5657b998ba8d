//! Owns the table of fixes: what each frees, whether it is enough and what it costs, with those that were tried marked;
//! above it the proof of what was terminated.

use std::borrow::Cow;

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use unicode_width::UnicodeWidthStr;

use super::format::{cut, exactly, paragraph};
use super::pane;
use super::picture::Picture;
use super::proofs::proofs;
use super::theme::Theme;
use crate::advice::{Enough, PlannedFix};
use crate::app::Model;
use crate::app::action::Action;
use crate::app::model::{Click, Region, Target};
use crate::app::walk::{Behind, Mark};
use crate::knowledge::FixId;
use crate::memory::Is;
use crate::units::Bytes;

/// Columns of the titles where all of them are short: the heading above them needs as many.
const LEAST_TITLE: usize = 24;

/// Columns of a fix that was tried, where several share a line.
const LEAST_TRIED: usize = 12;

/// Columns that the cost keeps where not everything has room.
const COST: usize = 15;

pub(super) fn render(model: &Model, theme: &Theme, area: Rect, picture: &mut Picture, targets: &mut Vec<Target>) {
    if area.is_empty() {
        return;
    }
    let ahead = model.steps_ahead();
    let inner = pane::region(model, theme, " Fixes ".to_owned(), Region::Steps, area, picture);
    let (width, height) = (usize::from(inner.width), usize::from(inner.height));
    let columns = Columns::of(&ahead, theme, width);
    let mut above = last_proofs(model, theme, width, height.saturating_sub(3));
    if ahead.is_empty() {
        above.extend(paragraph(&format!(" {}", no_fixes(model)), width, theme.quiet));
    } else {
        above.push(heading(model, theme, &ahead, &columns));
    }
    let taken = u16::try_from(above.len()).unwrap_or(u16::MAX).min(inner.height);
    picture.lines(Rect { height: taken, ..inner }, above);
    let body = Rect { y: inner.y + taken, height: inner.height - taken, ..inner };
    picture.lines(body, table(model, theme, (&ahead, &columns), body, targets));
}

/// The fixes that were left and those ahead, as many as fit with the selected one in sight.
fn table(
    model: &Model,
    theme: &Theme,
    (ahead, columns): (&[&PlannedFix], &Columns),
    area: Rect,
    targets: &mut Vec<Target>,
) -> Vec<Line<'static>> {
    let (width, room) = (usize::from(area.width), usize::from(area.height));
    let (cursor, behind) = (model.cursor(ahead), &model.walk.behind);
    let mut lines: Vec<Line<'static>> = if behind.len() + ahead.len() + model.walk.freed_before.len() > room {
        all_tried(model, theme, width).into_iter().collect()
    } else {
        let before = model.walk.freed_before.iter().map(|seen| before(seen, theme, width));
        before.chain(behind.iter().map(|left| tried(left, model.walk.works, theme, width))).collect()
    };
    let room = room.saturating_sub(lines.len());
    // The last line says how many are out of sight.
    let rows = if ahead.len() > room { room.saturating_sub(1).max(1) } else { room };
    let first = (cursor.unwrap_or(0) + 1).saturating_sub(rows).min(ahead.len().saturating_sub(rows));
    // A long cost goes on in the next row, where there are free ones.
    let costs: Vec<Vec<String>> = ahead.iter().map(|planned| columns.lines_of_cost(planned)).collect();
    let has_room = costs.iter().map(Vec::len).sum::<usize>() <= room;
    for (place, (planned, cost)) in ahead.iter().zip(&costs).enumerate().skip(first).take(rows.min(room)) {
        let style = row_style(model, theme, cursor == Some(place));
        let text = match cost.split_first() {
            Some((cost, _)) if has_room => row(theme, planned, (place + 1, columns), cost, cursor == Some(place)),
            _ => row(theme, planned, (place + 1, columns), cost_of(planned), cursor == Some(place)),
        };
        let more_cost = if has_room { cost.get(1..).unwrap_or_default() } else { &[] };
        let below = more_cost.iter().map(|more| format!("{}{more}", " ".repeat(columns.before_cost())));
        for text in std::iter::once(text).chain(below) {
            targets.extend(pane::line_target(area, lines.len(), Click::Step(place)));
            lines.push(Line::styled(exactly(&text, width), style));
        }
    }
    if ahead.len() > rows && room > 1 {
        lines.push(more(model, theme, ahead.len(), ahead.len().saturating_sub(rows)));
    }
    lines
}

/// That there are more fixes, how many in all, and which keys show them.
fn more(model: &Model, theme: &Theme, count: usize, hidden: usize) -> Line<'static> {
    let (arrows, zoom) = (theme.sign("↑↓", "arrows"), model.key(Action::Zoom));
    let goes_on = theme.sign("…", "...");
    let text = match model.zoomed || model.has_one_region() {
        true => format!("   {goes_on} {hidden} more of {count}: {arrows}"),
        false => format!("   {goes_on} {hidden} more of {count}: {arrows}, or {zoom} for all"),
    };
    Line::styled(text, theme.quiet)
}

/// What was tried so far, in one line: where there is no room for a line each, it is still in view.
fn all_tried(model: &Model, theme: &Theme, width: usize) -> Option<Line<'static>> {
    let marked = model.walk.behind.iter().map(|left| {
        let (mark, _) = mark_of(left, model.walk.works, theme);
        format!("{mark} {}", left.title)
    });
    let before = model.walk.freed_before.iter().map(|seen| format!("{} {seen}", theme.sign("·", ".")));
    let all: Vec<String> = before.chain(marked).collect();
    // The longest give way: each has its share of the line.
    let share = (width.saturating_sub(1) / all.len().max(1)).saturating_sub(2).max(LEAST_TRIED);
    let shown: Vec<String> = if all.iter().map(|text| text.width() + 2).sum::<usize>() < width {
        all
    } else {
        all.iter().map(|text| cut(text, share)).collect()
    };
    (!shown.is_empty()).then(|| Line::styled(cut(&format!(" {}", shown.join("  ")), width), theme.quiet))
}

/// What was seen before the program was started again.
fn before(seen: &str, theme: &Theme, width: usize) -> Line<'static> {
    Line::styled(cut(&format!(" {}   {seen}", theme.sign("·", ".")), width), theme.quiet)
}

/// As many of the last proofs as fit, each of them whole.
fn last_proofs(model: &Model, theme: &Theme, width: usize, room: usize) -> Vec<Line<'static>> {
    let mut kept: Vec<Vec<Line<'static>>> = Vec::new();
    let mut left = room;
    for proof in proofs(model, theme, width).into_iter().rev() {
        if proof.len() > left && !kept.is_empty() {
            break;
        }
        left = left.saturating_sub(proof.len());
        kept.push(proof);
    }
    kept.into_iter().rev().flatten().collect()
}

fn heading(model: &Model, theme: &Theme, ahead: &[&PlannedFix], columns: &Columns) -> Line<'static> {
    let on_its_way = model.advice.as_ref().is_some_and(|advice| advice.on_its_way);
    let name = match (on_its_way, enough_together(model, ahead)) {
        (true, _) => "IF IT FAILS AGAIN".to_owned(),
        (false, Some(text)) => text,
        (false, None) if model.is_small() => "FIXES".to_owned(),
        (false, None) => String::new(),
    };
    let Columns { title, frees, enough, cost } = *columns;
    let text =
        format!(" {} {:>frees$}  {:<enough$} {}", exactly(&name, title + 3), "FREES", "ENOUGH", cut("COST", cost));
    Line::styled(text, if model.focus == Region::Steps { theme.title } else { theme.quiet })
}

/// Which of the fixes are enough only together: the first few.
fn enough_together(model: &Model, ahead: &[&PlannedFix]) -> Option<String> {
    let first = ahead.first()?;
    // The same as in the plan: the log's figure is a lower bound.
    let of_log = model.advice.as_ref().and_then(|advice| advice.ledger.as_ref()?.missing_bytes);
    let missing = of_log.max(model.advice.as_ref().and_then(|advice| advice.fit.as_ref()?.missing()));
    let missing = missing.filter(|missing| *missing > Bytes::ZERO && !first.may_be_enough)?;
    let mut sum = Bytes::ZERO;
    for (at, planned) in ahead.iter().enumerate() {
        // Only what the driver's own figures promise is added up.
        if planned.frees_is != Some(Is::Fact) || planned.may_be_enough {
            return None;
        }
        sum = sum.plus(planned.frees_bytes.unwrap_or(Bytes::ZERO));
        // The plan has decided whether one alone is enough.
        if sum >= missing && at > 0 {
            return Some(format!("1–{} together: {sum}", at + 1));
        }
    }
    None
}

/// The columns of the table, as wide as what stands in them; the cost gives way first, and then the title.
struct Columns {
    title: usize,
    frees: usize,
    enough: usize,
    cost: usize,
}

impl Columns {
    fn of(ahead: &[&PlannedFix], theme: &Theme, width: usize) -> Columns {
        let frees = widest(ahead, "FREES", |planned| frees_of(planned, theme));
        let enough = widest(ahead, "ENOUGH", |planned| enough_of(planned.enough).to_owned());
        // The pointer, the number, and the blanks between the columns.
        let rest = width.saturating_sub(5 + 1 + frees + 2 + enough + 1);
        let title = widest(ahead, "", |planned| planned.title.clone());
        let cost = widest(ahead, "COST", |planned| cost_of(planned).to_owned());
        let cost = cost.min(rest.saturating_sub(title).max(COST));
        Columns { title: rest.saturating_sub(cost).min(title.max(LEAST_TITLE)), frees, enough, cost }
    }
}

impl Columns {
    /// Columns before the cost: the pointer, the number and the blanks between the columns, too.
    fn before_cost(&self) -> usize {
        5 + self.title + 1 + self.frees + 2 + self.enough + 1
    }

    fn lines_of_cost(&self, planned: &PlannedFix) -> Vec<String> {
        textwrap::wrap(cost_of(planned), self.cost.max(1)).into_iter().map(Cow::into_owned).collect()
    }
}

/// The width of a column: of its heading or of the widest text in it.
fn widest(ahead: &[&PlannedFix], heading: &str, text: impl Fn(&PlannedFix) -> String) -> usize {
    ahead.iter().map(|planned| text(planned).width()).max().unwrap_or(0).max(heading.width())
}

fn cost_of(planned: &PlannedFix) -> &str {
    if planned.costs == "nothing" { "none" } else { planned.costs.as_str() }
}

fn row(
    theme: &Theme,
    planned: &PlannedFix,
    (number, columns): (usize, &Columns),
    cost: &str,
    is_current: bool,
) -> String {
    let (frees_width, enough_width) = (columns.frees, columns.enough);
    let pointer = if is_current { theme.sign("▸", ">") } else { " " };
    format!(
        " {pointer}{number:>2} {} {:>frees_width$}  {:<enough_width$} {}",
        exactly(&planned.title, columns.title),
        frees_of(planned, theme),
        enough_of(planned.enough),
        cut(cost, columns.cost)
    )
}

fn row_style(model: &Model, theme: &Theme, is_current: bool) -> Style {
    match (is_current, model.focus == Region::Steps) {
        (true, true) => theme.selected,
        (true, false) => theme.title,
        (false, _) => Style::new(),
    }
}

/// In GiB; a fix that needs no memory freed has none to show.
fn frees_of(planned: &PlannedFix, theme: &Theme) -> String {
    let changes_no_memory = [FixId::RUN_AGAIN, FixId::USE_OTHER_MACHINE].contains(&planned.fix);
    let frees_nothing = planned.room_on.is_some() || planned.waits_for.is_some() || changes_no_memory;
    match (planned.frees_bytes, planned.frees_is) {
        _ if frees_nothing => theme.sign("—", "-").to_owned(),
        (Some(bytes), Some(Is::Fact)) => bytes.in_gib(),
        (Some(bytes), _) => format!("{}{}", theme.sign("≈", "~"), bytes.in_gib()),
        (None, _) => "?".to_owned(),
    }
}

fn enough_of(enough: Enough) -> &'static str {
    match enough {
        Enough::Yes => "yes",
        Enough::Likely => "likely",
        Enough::NotAlone => "not alone",
        Enough::WithOthers => "together",
        Enough::LacksRam { .. } => "no RAM",
        Enough::Unknown => "?",
    }
}

/// A fix that was left behind. That its command was copied is no success: only a reported one has the check mark.
fn tried(behind: &Behind, works: bool, theme: &Theme, width: usize) -> Line<'static> {
    let (mark, word) = mark_of(behind, works, theme);
    Line::styled(cut(&format!(" {mark}   {} ({word})", behind.title), width), theme.quiet)
}

/// The sign and the word of how a fix was left.
fn mark_of(behind: &Behind, works: bool, theme: &Theme) -> (&'static str, &'static str) {
    match behind.mark {
        Mark::Taken if works => (theme.sign("✓", "+"), "worked"),
        Mark::Taken => (theme.sign("·", "."), "taken"),
        Mark::DidNotHelp => (theme.sign("✗", "x"), "did not help"),
        Mark::Skipped => (theme.sign("–", "-"), "skipped"),
    }
}

fn no_fixes(model: &Model) -> &'static str {
    match &model.advice {
        None => "Fixes appear here once you paste an error.",
        Some(_) if model.input.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.matches.is_empty()) => {
            "Fixes come with the error itself: paste the log down to its last line."
        }
        Some(advice) if advice.verdict.causes.is_empty() => "Nothing has to be freed for this.",
        Some(_) if model.walk.behind.is_empty() && model.endings.is_empty() => "No fix is known for this.",
        Some(_) => "No further fixes. Run the job again, and paste the new error if it fails.",
    }
}
