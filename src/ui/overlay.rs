//! Owns what is laid over the screen: the question before something that can't be undone, help, an error explained.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::format::{age, cut, cut_middle, exactly, paragraph};
use super::picture::Picture;
use super::theme::Theme;
use crate::advice::release::Release;
use crate::advice::supervisor::Supervisor;

use crate::app::Model;
use crate::app::action::Action;
use crate::app::keymap::Binding;
use crate::app::layout::{page_height, page_width};
use crate::app::model::{Click, Overlay, Region, Source, Target};
use crate::app::question::{Asked, Victim, workers};
use crate::app::rows::together;
use crate::app::symptoms::{SYMPTOMS, Symptom};
use crate::app::update::left_out;
use crate::gpu::guard::Signal;
use crate::knowledge::diagnosis::Oom;
use crate::knowledge::page::Tone;

/// Draws whatever is open; whether a question had to be cut, since it has more to read than the screen has room for.
pub fn render(model: &Model, theme: &Theme, picture: &mut Picture, targets: &mut Vec<Target>) -> bool {
    let area = picture.area();
    let width = page_width((area.width, area.height));
    let room = usize::from(area.height.saturating_sub(2));
    let (title, mut lines) = match (&model.question, &model.overlay) {
        (Some(question), _) => asked(model, theme, &question.asked, (width, room)),
        (None, Some(Overlay::Help)) => (" Keys ", help(model, theme)),
        (None, Some(Overlay::Actions(wanted, at))) => (" What can be done ", actions(model, theme, wanted, *at, width)),
        (None, Some(Overlay::Words(_))) => (" Words used here ", page(model, theme)),
        (None, Some(Overlay::About(..))) => (" About this error ", page(model, theme)),
        (None, Some(Overlay::Trial)) => (" Will it fit? ", super::fit::lines(model, theme, width)),
        (None, Some(Overlay::Fit(_))) => (" Sizes and choices ", page(model, theme)),
        (None, Some(Overlay::Done(_))) => (" Done ", page(model, theme)),
        (None, Some(Overlay::Symptoms(at))) => (" What did you see? ", symptoms(theme, *at, width)),
        (None, Some(Overlay::Written(path))) => (" Report ", written(path, width)),
        (None, Some(Overlay::Draws(said))) => (" Will it fit? ", paragraph(said, width, Style::new())),
        (None, Some(Overlay::Text(text))) => (" Could not be copied: select it here ", shown(text, width)),
        (None, None) => return false,
    };
    let cut = model.question.is_some() && (lines.len() > room || lines.iter().any(|line| line.width() > width));
    if cut {
        let rest = unread(theme, width);
        lines.truncate(room.saturating_sub(rest.len()));
        lines.extend(rest);
    }
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2).min(area.height);
    let width = u16::try_from(width).unwrap_or(u16::MAX).saturating_add(4).min(area.width);
    let over = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let trying = model.question.is_none() && model.overlay == Some(Overlay::Trial);
    let beside = if trying { super::fit::place(model, area, over.width, over.height) } else { None };
    let over = beside.unwrap_or(over);
    picture.blank(over);
    let block = super::frame(theme, Span::styled(title, theme.title), true);
    let inner = block.inner(over);
    picture.frame(over, block);
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    // The answers stand on the last line, a question's on several where one is too short; of a list, each line can be picked.
    let of_answers = |line: &&Line<'_>| line.spans.first().is_some_and(|span| span.style == theme.key);
    let many = if model.question.is_some() { lines.len() } else { 1 };
    let answers = lines.iter().rev().take(many).take_while(of_answers);
    for (line, y) in answers.zip((inner.y..inner.bottom()).rev()) {
        super::pressable(theme, line, (inner.x, y), true, targets);
    }
    if let (None, Some(Overlay::Symptoms(_))) = (&model.question, &model.overlay) {
        let items = (0..SYMPTOMS.len()).filter_map(|at| super::line_target(inner, at, Click::Item(at)));
        targets.extend(items.map(|target| Target { on_top: true, ..target }));
    }
    if let (None, Some(Overlay::Actions(wanted, at))) = (&model.question, &model.overlay) {
        let (first, many) = window(model.config.keys.actions(wanted).len(), *at, model.size);
        let items = (0..many).filter_map(|row| super::line_target(inner, row + 2, Click::Item(first + row)));
        targets.extend(items.map(|target| Target { on_top: true, ..target }));
    }
    picture.lines(inner, lines);
    cut
}

/// In the place of the answers where a question has no room: nobody says yes to what they can't read.
fn unread(theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let text = "There is more to read: make the terminal larger to answer.";
    let mut lines = paragraph(text, width, theme.alarm);
    lines.push(answers(theme, &[("Esc", "leave it")]));
    lines
}

/// The first of so many items to show, and how many fit: the selected one stays in sight.
fn window(count: usize, at: usize, size: (u16, u16)) -> (usize, usize) {
    let room = page_height(size).saturating_sub(2).clamp(1, 18);
    let first = (at + 1).saturating_sub(room).min(count.saturating_sub(room));
    (first, count.saturating_sub(first).min(room))
}

/// Everything that can be done, as far as it holds what was typed.
fn actions(model: &Model, theme: &Theme, wanted: &str, at: usize, width: usize) -> Vec<Line<'static>> {
    let found = model.config.keys.actions(wanted);
    let mut lines = vec![Line::from(vec![Span::raw(format!(" :{wanted}")), Span::raw("_")]), Line::raw("")];
    let (first, many) = window(found.len(), at, model.size);
    for (number, binding) in found.iter().enumerate().skip(first).take(many) {
        let pointer = if number == at { theme.sign("▸", ">") } else { " " };
        let style = if number == at { theme.selected } else { Style::new() };
        let text = format!("{pointer} {}  {}{}", exactly(&binding.shown, 10), binding.words, place(binding));
        lines.push(Line::styled(exactly(&text, width), style));
    }
    if found.is_empty() {
        lines.push(Line::styled("Nothing is called that. Backspace takes a letter back.", theme.quiet));
    }
    lines.push(Line::raw(""));
    lines.push(answers(theme, &[("↑↓", "move"), ("Enter", "do it"), ("Esc", "close")]));
    lines
}

/// Where an action that is not everywhere belongs.
fn place(binding: &Binding) -> &'static str {
    match binding.region {
        None => "",
        Some(Region::Processes) => " (processes)",
        Some(Region::Input) => " (input)",
        Some(Region::Steps) => " (steps)",
    }
}

fn asked(
    model: &Model,
    theme: &Theme,
    asked: &Asked,
    (width, rows): (usize, usize),
) -> (&'static str, Vec<Line<'static>>) {
    match asked {
        Asked::End(victims, signal) => end(model, theme, victims, *signal, (width, rows)),
        Asked::Release(victim, release) => let_go(model, theme, victim, release, width),
        Asked::Paste(text) => {
            let more = match text.lines().count() {
                1 => "1 more line".to_owned(),
                lines => format!("{lines} more lines"),
            };
            let mut said = paragraph(&format!("There is a log here already; you pasted {more}."), width, Style::new());
            said.push(Line::raw(""));
            if model.input.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.oom != Oom::No) {
                said.push(answers(theme, &[("e", "it failed again: compare")]));
            }
            let keys = [("r", "replace the log"), ("a", "append to it"), ("Esc", "leave it as it is")];
            let in_one = answers(theme, &keys);
            match in_one.width() <= width {
                true => said.push(in_one),
                false => said.extend(keys.map(|key| answers(theme, &[key]))),
            }
            (" A second paste ", said)
        }
        Asked::Quit(why) => {
            let mut said = paragraph(why, width, Style::new());
            said.push(Line::raw(""));
            said.push(answers(theme, &[("y", "leave"), ("n", "stay")]));
            (" Leave? ", said)
        }
    }
}

fn end(
    model: &Model,
    theme: &Theme,
    victims: &[Victim],
    signal: Signal,
    (width, rows): (usize, usize),
) -> (&'static str, Vec<Line<'static>>) {
    let first: Vec<&Victim> = victims.iter().filter(|victim| victim.follows.is_none()).collect();
    let led = first.len() < victims.len();
    let mut rest = spared(model, theme, victims, width);
    rest.extend(caution(theme, victims, width));
    rest.push(Line::raw(""));
    let grace = model.config.grace.as_secs();
    let how = match signal {
        Signal::Kill => "It did not close when asked. Forced, it gets no chance to save anything.".to_owned(),
        Signal::Term | Signal::Int if led => format!(
            "Asked first: {}, which should end the others itself. Whoever of them is still there after {grace} s is asked, too. What is not saved is lost.",
            first.first().map_or_else(String::new, |victim| victim.key.pid.to_string())
        ),
        Signal::Term | Signal::Int => format!(
            "It is asked to close. Should it still be there after {grace} s, {} asks whether to force it. What it has not saved is lost.",
            model.key(Action::End)
        ),
    };
    rest.extend(paragraph(&how, width, Style::new()));
    if model.config.source == Source::Demo {
        rest.extend(paragraph("Demo: nothing real is ended.", width, theme.alarm));
    }
    rest.push(Line::raw(""));
    let (yes, no) = match (signal, led) {
        (Signal::Kill, _) => ("force it", "leave it"),
        (_, true) => ("end all of them", "leave them"),
        _ => ("end it", "leave it"),
    };
    rest.push(answers(theme, &[("y", yes), ("n", no)]));
    let mut lines: Vec<Line<'static>> =
        first.iter().flat_map(|victim| named(model, theme, victim, width, victims.len() == 1)).collect();
    let workers = workers(victims, width, rows.saturating_sub(lines.len() + rest.len()));
    if first.len() > 1 && lines.len() + workers.len() + rest.len() > rows {
        // Where there are many, all of them in few words come before much about some.
        let line = |victim: &&Victim| format!("{}  {}  {}", victim.key.pid, victim.holding(), victim.called());
        lines = first.iter().map(|victim| Line::styled(cut(&line(victim), width), theme.sentence)).collect();
    }
    lines.extend(workers.into_iter().map(|line| Line::styled(cut(&line, width), theme.sentence)));
    lines.extend(rest);
    let title = match (signal, victims.len()) {
        (Signal::Term | Signal::Int, _) if led => " End this and all that works for it? ",
        (Signal::Kill, _) => " Force this process to end? ",
        (_, 1) => " End this process? ",
        _ => " End these processes? ",
    };
    (title, lines)
}

/// Who works for them and gets no signal.
fn spared(model: &Model, theme: &Theme, victims: &[Victim], width: usize) -> Vec<Line<'static>> {
    let left = left_out(model, victims);
    let named: Vec<String> = left.iter().map(|(pid, why)| format!("{pid} ({why})")).collect();
    let works = if named.len() == 1 { "works for it but gets" } else { "work for it but get" };
    match named.len() {
        0 => Vec::new(),
        many => paragraph(&format!("{many} more {works} no signal: {}.", named.join(", ")), width, theme.quiet),
    }
}

/// That what is ended may not stay so, in two lines at most.
fn caution(theme: &Theme, victims: &[Victim], width: usize) -> Vec<Line<'static>> {
    let supervisors: Vec<&Supervisor> = victims.iter().filter_map(|victim| victim.supervisor.as_ref()).collect();
    let text = match (&supervisors[..], victims) {
        ([], _) => return Vec::new(),
        ([supervisor], [_]) => supervisor.caution(),
        // Of a launcher and its workers one is said what is so of all.
        ([first, rest @ ..], _)
            if victims.iter().any(|victim| victim.follows.is_some()) && rest.iter().all(|other| other == first) =>
        {
            first.caution()
        }
        _ => {
            let mut names: Vec<String> = supervisors.iter().map(ToString::to_string).collect();
            names.dedup();
            cut(&format!("Some may be started again, by {}.", names.join(", ")), width)
        }
    };
    let mut lines = paragraph(&text, width, theme.alarm);
    lines.truncate(2);
    lines
}

/// What will be asked of whom, and the request as it is sent.
fn let_go(
    model: &Model,
    theme: &Theme,
    victim: &Victim,
    release: &Release,
    width: usize,
) -> (&'static str, Vec<Line<'static>>) {
    let mut lines = named(model, theme, victim, width, true);
    lines.push(Line::raw(""));
    lines.extend(paragraph(&format!("{}? {}", release.asks(), release.means()), width, Style::new()));
    lines.extend(paragraph(&release.shown(), width, theme.quiet));
    if model.config.source == Source::Demo {
        lines.extend(paragraph("Demo: nothing is sent.", width, theme.alarm));
    }
    lines.push(Line::raw(""));
    lines.push(answers(theme, &[("y", "ask it"), ("n", "leave it")]));
    (" Ask for its memory? ", lines)
}

/// Who it is on one line and what speaks for it on another; the whole command line where there is one victim only.
fn named(model: &Model, theme: &Theme, victim: &Victim, width: usize, alone: bool) -> Vec<Line<'static>> {
    let what = victim.what.clone().unwrap_or_else(|| victim.command.clone());
    let mut lines = vec![Line::styled(cut(&format!("{}  {what}", victim.key.pid), width), theme.sentence)];
    if alone && victim.what.as_ref().is_some_and(|what| *what != victim.command) {
        lines.push(Line::styled(cut_middle(&victim.command, width), theme.quiet));
    }
    let whose = if victim.yours { "yours".to_owned() } else { format!("{}'s", victim.user) };
    let now = model.snapshot().map(|snapshot| snapshot.taken_at);
    let since = match victim.started_at.zip(now) {
        Some((then, now)) => format!("started {} ago", age(then, now)),
        None => "start unknown".to_owned(),
    };
    let mut facts = format!("{whose} · {since} · {}", victim.holding());
    let together = model.snapshot().and_then(|snapshot| Some((together(snapshot, victim.key)?, snapshot)));
    if let Some((bytes, snapshot)) = together
        && !snapshot.below(victim.key).is_empty()
    {
        facts.push_str(&format!(" · {bytes} together"));
    }
    if alone {
        lines.push(Line::raw(cut(&facts, width)));
        facts = victim.evidence.join(" · ");
    }
    if !facts.is_empty() {
        lines.push(Line::styled(cut(&facts, width), theme.quiet));
    }
    lines
}

fn answers(theme: &Theme, keys: &[(&str, &str)]) -> Line<'static> {
    let mut spans = Vec::new();
    for (key, words) in keys {
        if !spans.is_empty() {
            spans.push(Span::raw("      "));
        }
        spans.push(Span::styled(format!("[{key}]"), theme.key));
        spans.push(Span::raw(format!(" {words}")));
    }
    Line::from(spans)
}

/// The keys in two columns, so that they fit on 24 lines, and the signs of the bars.
fn help(model: &Model, theme: &Theme) -> Vec<Line<'static>> {
    let bindings = model.config.keys.all().iter().filter(|binding| !binding.words.is_empty());
    let entries: Vec<(&str, String)> =
        bindings.map(|binding| (binding.shown.as_ref(), format!("{}{}", binding.words, place(binding)))).collect();
    let half = entries.len().div_ceil(2);
    let mut lines: Vec<Line<'static>> = Vec::new();
    for row in 0..half {
        let mut spans = Vec::new();
        for (key, words) in [entries.get(row), entries.get(row + half)].into_iter().flatten() {
            spans.push(Span::styled(format!("{key:>10}"), theme.key));
            spans.push(Span::raw(format!("  {}", exactly(words, 26))));
        }
        lines.push(Line::from(spans));
    }
    let signs = if theme.unicode {
        ["█ processes  ▓ used by nobody listed", "▒ held back by the driver  ░ free"]
    } else {
        ["# processes  = used by nobody listed", "~ held back by the driver  . free"]
    };
    lines.push(Line::raw(""));
    lines.extend(signs.map(Line::raw));
    lines.push(Line::raw(""));
    let room = usize::from(model.size.1.saturating_sub(3)).max(1);
    if lines.len() > room {
        // The list of what can be done scrolls, and names the keys, too.
        let all = model.config.keys.key_of(Action::Actions).unwrap_or(":");
        lines.truncate(room);
        lines.push(answers(theme, &[(all, "all"), ("Tab", "words"), ("Esc", "close")]));
        return lines;
    }
    lines.push(answers(theme, &[("Tab", "the words used here"), ("Esc", "close")]));
    lines
}

/// A page as far as it fits, and the keys that turn it.
fn page(model: &Model, theme: &Theme) -> Vec<Line<'static>> {
    let Some((lines, top)) = model.page() else { return vec![Line::raw("The knowledge is still being loaded.")] };
    let height = page_height(model.size);
    let more = lines.len() > height;
    let style = |tone: Tone| match tone {
        Tone::Title => theme.sentence,
        Tone::Heading => theme.title,
        Tone::Text => Style::new(),
        Tone::Code => theme.figure,
        Tone::Quiet => theme.quiet,
    };
    let top = top.min(lines.len().saturating_sub(height));
    let shown = lines.into_iter().skip(top).take(height);
    let mut drawn: Vec<Line<'static>> = shown.map(|(tone, text)| Line::styled(text, style(tone))).collect();
    let mut keys = Vec::new();
    if more {
        keys.push(("↑↓ PgDn", "read on"));
    }
    match model.overlay {
        Some(Overlay::Words(_)) => keys.push(("Tab", "the keys")),
        Some(Overlay::Fit(_)) => {
            keys.extend(model.trial.is_some().then_some(("Tab", "the settings")));
            keys.push((model.config.keys.key_of(Action::Model).unwrap_or("m"), "another model"));
        }
        Some(Overlay::Done(_)) => keys.push((model.config.keys.key_of(Action::Quit).unwrap_or("q"), "leave")),
        _ if model.input.pages.len() > 1 => {
            keys.extend([("Tab", "the next thing it may be"), ("Enter", "its line in the log")])
        }
        _ => keys.push(("Enter", "its line in the log")),
    }
    keys.push(("Esc", "close"));
    drawn.push(Line::raw(""));
    drawn.push(answers(theme, &keys));
    drawn
}

fn symptoms(theme: &Theme, at: usize, width: usize) -> Vec<Line<'static>> {
    let line = |(number, symptom): (usize, &Symptom)| {
        let pointer = if number == at { theme.sign("▸", ">") } else { " " };
        let style = if number == at { theme.selected } else { Style::new() };
        Line::styled(cut(&format!("{pointer} {}", symptom.seen), width), style)
    };
    let mut lines: Vec<Line<'static>> = SYMPTOMS.iter().enumerate().map(line).collect();
    lines.push(Line::raw(""));
    lines.push(answers(theme, &[("↑↓", "move"), ("Enter", "that one"), ("Esc", "none of them")]));
    lines
}

fn written(path: &str, width: usize) -> Vec<Line<'static>> {
    let mut lines = paragraph("This is written down, for an issue or a colleague:", width, Style::new());
    lines.push(Line::raw(""));
    lines.extend(shown(path, width));
    lines.push(Line::raw(""));
    let caution = "Names, tokens and home folders that I recognised are left out. Read it before you share it.";
    lines.extend(paragraph(caution, width, Style::new()));
    lines
}

fn shown(text: &str, width: usize) -> Vec<Line<'static>> {
    text.lines().flat_map(|line| super::format::broken(&[(line.to_owned(), Style::new())], width)).collect()
}
