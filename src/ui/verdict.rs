//! Owns the top of the screen: the verdict in one line, the easiest way out under it, and on small screens the decisive
//! line of the log.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::format::cut;
use super::input::start_of_message;
use super::pane;
use super::picture::Picture;
use super::theme::Theme;
use crate::advice::brief::{Brief, Figures, Standing};
use crate::app::Model;
use crate::app::action::Action;
use crate::app::freed::{Chance, Freed};
use crate::app::model::{Click, Pipe, Target};
use crate::source::Looked;
use crate::units::Bytes;

pub(super) fn render(model: &Model, theme: &Theme, area: Rect, picture: &mut Picture, targets: &mut Vec<Target>) {
    if area.is_empty() {
        return;
    }
    let width = usize::from(area.width.saturating_sub(1));
    let mut lines = match &model.advice {
        Some(advice) if model.walk.works => vec![works(model, &advice.brief, theme, width)],
        Some(advice) => vec![in_one_line(&advice.brief, model.freed_for_the_run(), theme, width)],
        None => nothing_yet(model, theme, width),
    };
    let text_width = usize::from(area.width.saturating_sub(4));
    lines.extend(model.under_the_verdict(text_width).into_iter().map(|line| Line::raw(format!("   {line}"))));
    if model.is_small()
        && lines.len() < usize::from(area.height)
        && let Some(line) = decisive(model, theme, width)
    {
        targets.extend(pane::line_target(area, lines.len(), Click::Log));
        lines.push(line);
    }
    picture.lines(area, lines);
}

/// The job works, as it was seen or as the person reports: what ran out is history.
fn works(model: &Model, brief: &Brief, theme: &Theme, width: usize) -> Line<'static> {
    let how = if model.walk.has_seen_it_work { "THE NEW RUN PASSED" } else { "REPORTED AS WORKING" };
    // What is so by now, such as enough free VRAM, is not what the log was about.
    let was = model.walk.began_with.as_ref().unwrap_or(&brief.what);
    let text = format!(" {} {how}   it was: {was}", theme.sign("✓", "+"));
    Line::styled(cut(&text, width), theme.good)
}

/// What is so: after a proof first what was freed, else what the log and the machine say.
fn in_one_line(brief: &Brief, freed: Option<Freed>, theme: &Theme, width: usize) -> Line<'static> {
    let Some(freed) = freed else { return by_standing(brief, theme, width) };
    let (sign, style) = match freed.chance {
        Chance::MayBeEnough => (theme.sign("✓", "+"), theme.good),
        Chance::Unknown | Chance::Close(_) => (theme.sign("▸", ">"), theme.sentence),
    };
    let devices: Vec<String> = freed.free_now.iter().map(|(device, _)| device.to_string()).collect();
    let what = format!(" {sign} FREED {} on GPU {}", freed.bytes, devices.join(", "));
    let free = freed.free_now.iter().fold(Bytes::ZERO, |sum, (_, bytes)| sum.plus(*bytes));
    let otherwise = format!("free {free}");
    with_figures(what, style, brief.figures.as_ref(), (theme, width), Some(otherwise))
}

fn by_standing(brief: &Brief, theme: &Theme, width: usize) -> Line<'static> {
    let (sign, style) = match brief.standing {
        Standing::Failed => (theme.sign("✗", "x"), theme.alarm),
        Standing::Unclear => ("?", theme.sentence),
        Standing::Elsewhere | Standing::NotMemory => (theme.sign("–", "-"), theme.sentence),
        Standing::RoomNow => (theme.sign("✓", "+"), theme.good),
        Standing::OnItsWay => (theme.sign("▸", ">"), theme.good),
    };
    with_figures(format!(" {sign} {}", brief.what), style, brief.figures.as_ref(), (theme, width), None)
}

/// The line with as many of the figures as fit; `otherwise` stands where there are none.
fn with_figures(
    what: String,
    style: Style,
    figures: Option<&Figures>,
    (theme, width): (&Theme, usize),
    otherwise: Option<String>,
) -> Line<'static> {
    let what = cut(&what, width);
    let room = width.saturating_sub(what.width() + 3);
    let figures = figures.map(|figures| figures.shorter_and_shorter().find(|text| text.width() <= room));
    let figures = figures.unwrap_or(otherwise);
    let mut spans = vec![Span::styled(what, style)];
    if let Some(figures) = figures {
        let (before, short) = match figures.find("SHORT") {
            Some(at) => figures.split_at(at),
            None => (figures.as_str(), ""),
        };
        spans.push(Span::raw(format!("   {before}")));
        spans.push(Span::styled(short.to_owned(), theme.sentence));
    }
    Line::from(spans)
}

/// The line of the log that decided, with its number.
fn decisive(model: &Model, theme: &Theme, width: usize) -> Option<Line<'static>> {
    let found = model.input.diagnosis.as_ref()?.matches.first()?;
    let text = found.text.trim().replace('\t', " ");
    let start = start_of_message(&text, width);
    let goes_before = if start > 0 { theme.sign("…", "~") } else { "" };
    let message = text.get(start..).unwrap_or_default();
    let text = format!(" {}{} {goes_before}{message}", theme.sign("▶", ">"), found.line);
    Some(Line::styled(cut(&text, width), theme.quiet))
}

/// No log yet: how to give one, and what is worth a look meanwhile.
fn nothing_yet(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    if model.input.awaited.is_some() {
        let cancels = if model.allocations.is_to_show { "  Esc cancels." } else { "" };
        return vec![Line::styled(format!(" Reading the log{}{cancels}", theme.sign("…", "...")), theme.sentence)];
    }
    if let Some(why) = &model.input.trouble {
        return super::format::paragraph(&format!(" {why}"), width, theme.alarm);
    }
    if model.input.pipe != Pipe::Open
        && let Some(found) = model.found_failure()
    {
        let [first, second] = offered(model, found);
        return vec![Line::styled(cut(&first, width), theme.sentence), Line::styled(cut(&second, width), Style::new())];
    }
    let first = match model.input.pipe {
        Pipe::Open => format!(" Waiting for the piped job's output{}", theme.sign("…", "...")),
        _ => " Paste the error from the failed job.".to_owned(),
    };
    let room = width.saturating_sub(first.width() + 3);
    let ways = ["oomdoctor crash.log   ·   python -u train.py 2>&1 | oomdoctor", "oomdoctor crash.log"];
    let way = ways.into_iter().find(|way| way.width() <= room).unwrap_or_default();
    let mut lines =
        vec![Line::from(vec![Span::styled(first, theme.sentence), Span::styled(format!("   {way}"), theme.quiet)])];
    lines.push(Line::styled(cut(&beside(model), width), Style::new()));
    lines
}

/// A log that was found, and the key that reads it, in two lines.
fn offered(model: &Model, found: &Looked) -> [String; 2] {
    let age = found.ended_at.map_or_else(String::new, |ended| format!(" · {} ago", ended.age_at(model.wall)));
    let failure = found.failure.as_deref().unwrap_or("memory ran out");
    let (read, list) = (model.key(Action::ReadFound), model.key(Action::FoundLogs));
    let (failure, place) = (crate::text::harmless(failure), crate::text::harmless(&found.title));
    [
        format!(" {read} reads the failed log: {place}"),
        format!(" {failure}{age} · {list} lists all logs · or paste an error"),
    ]
}

/// The largest idle process, else where a description stands in for a log.
fn beside(model: &Model) -> String {
    let idle = model.processes.largest_idle.and_then(|id| model.row(id));
    let idle = idle.and_then(|row| Some((row.process.used_bytes.value()?, row.process.key()?, row)));
    match idle {
        Some((bytes, key, row)) => format!(
            " Your largest idle process: {}, {bytes} on GPU {}, {}",
            crate::advice::name_of(&row.process),
            row.id.device,
            model.activity_of(key)
        ),
        None => format!(" No log? {} lists what people see when memory runs out.", model.key(Action::Symptoms)),
    }
}
