//! Owns the last line: the notice, a line being typed, or the keys that work now.

use std::borrow::Cow;

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::format::{cut, paragraph};
use super::pane;
use super::picture::Picture;
use super::theme::Theme;
use crate::app::Model;
use crate::app::action::Action;
use crate::app::detail::enter_in_words;
use crate::app::keymap::Binding;
use crate::app::model::{Region, Target};
use crate::app::prompt::Prompt;
use crate::app::rerun;
use unicode_width::UnicodeWidthStr;

/// Columns for what `x` does and to whom; where that is several processes, each is to be named.
const TARGET: usize = 34;
const TARGETS: usize = 52;

/// Columns that the keys which are always there need beside it.
const BESIDE: usize = 24;

/// What is needed first.
const BY_NEED: [Action; 14] = [
    Action::End,
    Action::ReadFound,
    Action::Enter,
    Action::RunAgain,
    Action::Works,
    Action::DidNotHelp,
    Action::Rules,
    Action::Allocations,
    Action::Recording,
    Action::Log,
    Action::Fit,
    Action::Back,
    Action::FailedAgain,
    Action::Command,
];

/// From so many columns on each key has its words.
const WITH_ALL_WORDS: usize = 100;

/// Always there, whatever else fits.
const LAST: [Action; 3] = [Action::NextRegion, Action::Help, Action::Quit];

/// Draws the line; a longer notice takes the lines above it, too.
pub(super) fn render(model: &Model, theme: &Theme, area: Rect, picture: &mut Picture, targets: &mut Vec<Target>) {
    let width = usize::from(area.width);
    let line = if let Some(prompt) = &model.prompt {
        typed(prompt, theme, width)
    } else if model.pasting {
        let text = format!(" receiving a paste{} Ctrl-C ends it", theme.sign("…", "..."));
        Line::raw(cut(&text, width))
    } else if let Some((text, _)) = &model.notice {
        return notice(text, theme, area, picture);
    } else if model.input.typing.is_some() {
        Line::styled(" typing: Esc when done", theme.quiet)
    } else {
        let keys = keys(model, theme, width);
        pane::pressable(theme, &keys, (area.x, area.y), false, targets);
        keys
    };
    picture.lines(area, [line]);
}

/// The line that is typed, and which keys end it. A long one is cut at its start: its end is where one types.
fn typed(prompt: &Prompt, theme: &Theme, width: usize) -> Line<'static> {
    let (what, keys) = prompt.purpose.in_words();
    let room = width.saturating_sub(what.width() + keys.width() + 8).max(10);
    let from = prompt.text.chars().count().saturating_sub(room);
    let typed: String = prompt.text.chars().skip(from).collect();
    let cut_mark = if from > 0 { theme.sign("…", "~") } else { "" };
    Line::raw(cut(&format!(" {what}: {cut_mark}{typed}_   {keys}"), width))
}

/// The keys that work now, as many as fit: chosen by need, shown in the order of the keymap.
fn keys(model: &Model, theme: &Theme, width: usize) -> Line<'static> {
    let most = if model.aims_at_marks() { TARGETS } else { TARGET };
    let offered = offered(model, width.saturating_sub(BESIDE).min(most));
    let (mut last, first): (Vec<Offer<'_>>, Vec<Offer<'_>>) =
        offered.into_iter().partition(|offer| LAST.contains(&offer.binding.action));
    // Where there is little room, the keys that everybody knows go without words.
    if width < WITH_ALL_WORDS {
        last.iter_mut().for_each(|offer| offer.words = Cow::Borrowed(""));
    }
    let mut room = width.saturating_sub(last.iter().map(wide).sum::<usize>() + 1);
    let mut by_need: Vec<&Offer<'_>> = first.iter().collect();
    by_need.sort_by_key(|offer| need(model, offer.binding.action));
    let mut fit: Vec<Action> = Vec::new();
    for offer in by_need {
        if wide(offer) <= room {
            room -= wide(offer);
            fit.push(offer.binding.action);
        }
    }
    let seen = first.iter().filter(|offer| fit.contains(&offer.binding.action)).chain(&last);
    let mut spans: Vec<Span<'static>> = seen.flat_map(|offer| shown(offer, theme)).collect();
    spans.pop();
    Line::from(spans)
}

/// How soon a key is shown where not all of them have room: its place in the list.
fn need(model: &Model, action: Action) -> usize {
    // There is nothing to undo before the first fix was left.
    if action == Action::Back && model.walk.behind.is_empty() {
        return usize::MAX;
    }
    // Whoever has marked processes has to know how to take a mark back.
    if action == Action::Mark && model.aims_at_marks() {
        return 1;
    }
    BY_NEED.iter().position(|known| *known == action).unwrap_or(BY_NEED.len())
}

/// A key with what it does at this moment.
struct Offer<'a> {
    binding: &'a Binding,
    words: Cow<'a, str>,
}

/// The keys that do something now.
fn offered(model: &Model, columns: usize) -> Vec<Offer<'_>> {
    let here = model.config.keys.all().iter().filter(|binding| binding.is_in(model.focus));
    let bindings = here.filter(|binding| !binding.ctrl && !binding.words.is_empty());
    bindings.filter_map(|binding| Some(Offer { binding, words: words(model, binding, columns)? })).collect()
}

/// What a key does now, naming the process that it is about; `None` where it would do nothing.
fn words<'a>(model: &Model, binding: &'a Binding, columns: usize) -> Option<Cow<'a, str>> {
    match binding.action {
        Action::End => model.end_in_words(columns).map(Cow::Owned),
        Action::Enter if model.focus == Region::Steps => {
            model.current_step().map(|step| Cow::Borrowed(enter_in_words(model, step)))
        }
        Action::Mark if model.selected().is_some_and(|row| model.is_marked(&row.process)) => {
            Some(Cow::Borrowed("unmark"))
        }
        Action::Enter if model.aims_at_marks() => Some(Cow::Borrowed("copy kill command")),
        Action::Enter | Action::Mark if model.focus == Region::Processes => {
            model.selected().is_some().then_some(Cow::Borrowed(binding.words))
        }
        Action::Search | Action::Sort if model.focus == Region::Processes => {
            if model.rows().is_empty() {
                None
            } else {
                Some(Cow::Borrowed(binding.words))
            }
        }
        Action::Skip | Action::DidNotHelp if model.current_step().is_none() => None,
        Action::Works | Action::FailedAgain | Action::Command | Action::Model if !has_failed(model) => None,
        Action::Rules | Action::About | Action::LogThatWorked | Action::Fit if !has_failed(model) => None,
        Action::Recording if model.input.record.is_none() && model.replay.is_none() => None,
        Action::Allocations if !model.has_allocations() => None,
        Action::Machines if model.hosts.all.is_empty() => None,
        Action::ReadFound if model.found_failure().is_none() => None,
        Action::FoundLogs if model.input.log.is_some() || model.aims_at_marks() => None,
        Action::RunAgain if !has_failed(model) || rerun::refused(model).is_some() => None,
        Action::Log if model.input.log.is_none() => None,
        _ => Some(Cow::Borrowed(binding.words)),
    }
}

/// Whether the log contains a failure.
fn has_failed(model: &Model) -> bool {
    model.input.diagnosis.as_ref().is_some_and(|diagnosis| !diagnosis.matches.is_empty())
}

/// Columns that a key with its words takes.
fn wide(offer: &Offer<'_>) -> usize {
    let words = if offer.words.is_empty() { 0 } else { offer.words.width() + 1 };
    offer.binding.shown.width() + words + 3
}

fn shown(offer: &Offer<'_>, theme: &Theme) -> [Span<'static>; 3] {
    let words = if offer.words.is_empty() { String::new() } else { format!(" {}", offer.words) };
    [
        Span::styled(format!(" {}", offer.binding.shown), theme.key),
        Span::styled(words, theme.quiet),
        Span::styled(format!(" {}", theme.sign("·", "|")), theme.quiet),
    ]
}

fn notice(text: &str, theme: &Theme, area: Rect, picture: &mut Picture) {
    let lines = paragraph(text, usize::from(area.width.saturating_sub(2)), theme.title);
    let height = u16::try_from(lines.len()).unwrap_or(1).min(area.bottom());
    let over = Rect { y: area.bottom() - height, height, ..area };
    picture.blank(over);
    let inner = Rect { x: over.x + 1, width: over.width.saturating_sub(2), ..over };
    picture.lines(inner, lines);
}
