//! Owns what is laid over the screen: the question before something that can't be undone, help, an error explained.

use crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::format::{cut, cut_middle, exactly, paragraph};
use super::picture::Picture;
use super::theme::Theme;
use crate::advice::release::Release;
use crate::advice::supervisor::Supervisor;

use crate::app::Model;
use crate::app::action::Action;
use crate::app::help::{self, Line as HelpLine, place};
use crate::app::layout::{page_height, page_width};
use crate::app::model::{Click, Overlay, Source, Target};
use crate::app::question::{Asked, Question, Stage, Victim, workers};
use crate::app::rows::together;
use crate::app::symptoms::{SYMPTOMS, Symptom};
use crate::app::update::left_out;
use crate::gpu::activity::Activity;
use crate::gpu::guard::Signal;
use crate::gpu::usage::Use;
use crate::knowledge::diagnosis::Oom;
use crate::knowledge::page::Tone;
use crate::text::broken;
use unicode_width::UnicodeWidthStr;

/// Draws whatever is open; whether a question had to be cut, since it has more to read than the screen has room for.
pub(super) fn render(model: &Model, theme: &Theme, picture: &mut Picture, targets: &mut Vec<Target>) -> bool {
    let area = picture.area();
    let width = page_width((area.width, area.height));
    let room = usize::from(area.height.saturating_sub(2));
    let (title, mut lines) = match (&model.question, &model.overlay) {
        (Some(question), _) => asked(model, theme, question, (width, room)),
        (None, Some(Overlay::Help(top))) => (" Keys ".to_owned(), help(model, theme, *top, width)),
        (None, Some(Overlay::Actions(wanted, at))) => {
            (" Commands ".to_owned(), actions(model, theme, wanted, *at, width))
        }
        (None, Some(Overlay::Words(_))) => (" Glossary ".to_owned(), page(model, theme, width)),
        (None, Some(Overlay::About(..))) => (" About the error ".to_owned(), page(model, theme, width)),
        (None, Some(Overlay::Trial)) => (" Fit ".to_owned(), super::fit::lines(model, theme, width)),
        (None, Some(Overlay::Fit(_))) => (" Fit: sizes and options ".to_owned(), page(model, theme, width)),
        (None, Some(Overlay::Rules(_))) => (" Why ".to_owned(), page(model, theme, width)),
        (None, Some(Overlay::Done(_))) => (" Done ".to_owned(), page(model, theme, width)),
        (None, Some(Overlay::Symptoms(at))) => (" What did you see? ".to_owned(), symptoms(model, theme, *at, width)),
        (None, Some(Overlay::Written(..))) => (" Report ".to_owned(), page(model, theme, width)),
        (None, Some(Overlay::Draws(..))) => (" Fit ".to_owned(), page(model, theme, width)),
        (None, Some(Overlay::Text(..))) => {
            (" Could not be copied: select it here ".to_owned(), page(model, theme, width))
        }
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
    let title = super::format::cut(&title, usize::from(over.width.saturating_sub(2)));
    let block = super::frame(theme, Span::styled(title, theme.title), true);
    let inner = block.inner(over);
    picture.frame(over, block);
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    // The answers stand on the last two lines, a question's on up to four; of a list, each line can be picked.
    let many = if model.question.is_some() { 4 } else { 2 };
    for (answers, y) in lines.iter().rev().zip((inner.y..inner.bottom()).rev()).take(many) {
        super::pressable(theme, answers, (inner.x, y), true, targets);
    }
    if let (None, Some(Overlay::Symptoms(at))) = (&model.question, &model.overlay) {
        let (first, many) = window(SYMPTOMS.len(), *at, page_height(model.size));
        let items = (0..many).filter_map(|row| super::line_target(inner, row, Click::Item(first + row)));
        targets.extend(items.map(|target| Target { on_top: true, ..target }));
    }
    if let (None, Some(Overlay::Actions(wanted, at))) = (&model.question, &model.overlay) {
        let (first, many) = window(model.config.keys.actions(wanted).len(), *at, listed(model.size));
        let items = (0..many).filter_map(|row| super::line_target(inner, row + 2, Click::Item(first + row)));
        targets.extend(items.map(|target| Target { on_top: true, ..target }));
    }
    picture.lines(inner, lines);
    cut
}

/// In the place of the answers where a question has no room: nobody says yes to what they can't read.
fn unread(theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let text = "Make the terminal larger to read all of this and answer.";
    let mut lines = paragraph(text, width, theme.alarm);
    lines.push(answers(theme, &[("Esc", "leave it")], width));
    lines
}

/// How many of all actions are shown at once: above them stands what was typed.
fn listed(size: (u16, u16)) -> usize {
    page_height(size).saturating_sub(2).clamp(1, 18)
}

/// The first of so many items to show, and how many of them: the selected one stays in sight.
fn window(count: usize, at: usize, room: usize) -> (usize, usize) {
    let first = (at + 1).saturating_sub(room).min(count.saturating_sub(room));
    (first, count.saturating_sub(first).min(room))
}

/// Everything that can be done, as far as it holds what was typed.
fn actions(model: &Model, theme: &Theme, wanted: &str, at: usize, width: usize) -> Vec<Line<'static>> {
    let found = model.config.keys.actions(wanted);
    let mut lines = vec![Line::from(vec![Span::raw(format!(" :{wanted}")), Span::raw("_")]), Line::raw("")];
    let (first, many) = window(found.len(), at, listed(model.size));
    for (number, binding) in found.iter().enumerate().skip(first).take(many) {
        let pointer = if number == at { theme.sign("▸", ">") } else { " " };
        let style = if number == at { theme.selected } else { Style::new() };
        let text = format!("{pointer} {}  {}{}", exactly(&binding.shown, 10), binding.words, place(binding));
        lines.push(Line::styled(exactly(&text, width), style));
    }
    if found.is_empty() {
        lines.push(Line::styled("No command matches. Backspace deletes a letter.", theme.quiet));
    }
    lines.push(Line::raw(""));
    lines.push(answers(theme, &[("↑↓", "move"), ("Enter", "run"), ("Esc", "close")], width));
    lines
}

fn asked(
    model: &Model,
    theme: &Theme,
    question: &Question,
    (width, rows): (usize, usize),
) -> (String, Vec<Line<'static>>) {
    match &question.asked {
        Asked::End(victims, signal) => end(model, theme, (question, victims), *signal, (width, rows)),
        Asked::Release(victim, release) => let_go(model, theme, (question, victim), release, (width, rows)),
        Asked::Paste(text) => {
            let more = match text.lines().count() {
                1 => "1 more line".to_owned(),
                lines => format!("{lines} more lines"),
            };
            let mut said = paragraph(&format!("A log is open already. Pasted: {more}."), width, Style::new());
            said.push(Line::raw(""));
            if let Some(line) = instead_of_answers(model, theme, question, width) {
                said.push(line);
                return (" A second paste ".to_owned(), said);
            }
            let is_open = question.is_open(model.now);
            let shown = if is_open { answers } else { not_yet };
            if model.input.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.oom != Oom::No) {
                said.push(shown(theme, &[("e", "failed again: compare")], width));
            }
            let keys = [("r", "replace the log"), ("a", "append"), ("Esc", "keep the log")];
            let in_one = shown(theme, &keys, width);
            match in_one.width() <= width {
                true => said.push(in_one),
                false => said.extend(keys.map(|key| shown(theme, &[key], width))),
            }
            (" A second paste ".to_owned(), said)
        }
        Asked::Quit(why) => {
            let mut said = paragraph(why, width, Style::new());
            said.push(Line::raw(""));
            said.push(decide(model, theme, question, ("leave", "stay"), width));
            (" Leave? ".to_owned(), said)
        }
    }
}

fn end(
    model: &Model,
    theme: &Theme,
    (question, victims): (&Question, &[Victim]),
    signal: Signal,
    (width, rows): (usize, usize),
) -> (String, Vec<Line<'static>>) {
    let first: Vec<&Victim> = victims.iter().filter(|victim| victim.follows.is_none()).collect();
    let led = first.len() < victims.len();
    let mut rest = spared(model, theme, victims, width);
    rest.extend(caution(theme, victims, width));
    rest.push(Line::raw(""));
    let grace = model.config.grace.as_secs();
    let how = match signal {
        Signal::Kill => "It ignored SIGTERM. SIGKILL gives it no chance to save anything.".to_owned(),
        Signal::Term | Signal::Int if led => format!(
            "Sends SIGTERM to {} first, which should end the others. Those still running after {grace} s get SIGTERM, too. Unsaved work is lost.",
            first.first().map_or_else(String::new, |victim| victim.key.pid.to_string())
        ),
        Signal::Term | Signal::Int => format!(
            "Sends SIGTERM; unsaved work is lost. If it is still running after {grace} s, {} offers SIGKILL.",
            model.key(Action::End)
        ),
    };
    rest.extend(paragraph(&how, width, Style::new()));
    if model.config.source == Source::Demo {
        rest.extend(paragraph("Demo: nothing is signaled.", width, theme.alarm));
    }
    rest.push(Line::raw(""));
    let yes = match (signal, victims.len()) {
        (Signal::Kill, _) => "send SIGKILL".to_owned(),
        (_, 1) => "terminate".to_owned(),
        (_, many) => format!("terminate all {many}"),
    };
    rest.push(decide(model, theme, question, (&yes, "cancel"), width));
    let mut lines: Vec<Line<'static>> =
        first.iter().flat_map(|victim| named(model, theme, victim, (width, rows), victims.len() == 1)).collect();
    let all: Vec<&Victim> = victims.iter().collect();
    let mut warned = warnings(model, theme, &all, width);
    let room = rows.saturating_sub(warned.len());
    let workers = workers(victims, width, room.saturating_sub(lines.len() + rest.len()));
    if first.len() > 1 && lines.len() + workers.len() + rest.len() > room {
        // Where there are many, all of them in few words come before much about some.
        let line = |victim: &&Victim| format!("{}  {}  {}", victim.key.pid, victim.holding(), victim.called());
        lines = first.iter().map(|victim| Line::styled(cut(&line(victim), width), theme.sentence)).collect();
    }
    lines.extend(workers.into_iter().map(|line| Line::styled(cut(&line, width), theme.sentence)));
    lines.extend(rest);
    warned.extend(lines);
    let lines = warned;
    let title = match (signal, &first[..]) {
        (Signal::Kill, [one]) => format!(" Send SIGKILL to {}? ", one.name),
        (Signal::Kill, _) => format!(" Send SIGKILL to {} processes? ", victims.len()),
        (Signal::Term | Signal::Int, [one]) if led => format!(" Terminate {} and its workers? ", one.name),
        (Signal::Term | Signal::Int, [one]) => format!(" Terminate {}? ", one.name),
        (Signal::Term | Signal::Int, _) => format!(" Terminate {} processes? ", victims.len()),
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
            cut(&format!("Some may be restarted, by {}.", names.join(", ")), width)
        }
    };
    let mut lines = paragraph(&text, width, theme.alarm);
    lines.truncate(2);
    lines
}

/// What will be asked of whom, and every request that is sent.
fn let_go(
    model: &Model,
    theme: &Theme,
    (question, victim): (&Question, &Victim),
    release: &Release,
    (width, rows): (usize, usize),
) -> (String, Vec<Line<'static>>) {
    let mut lines = warnings(model, theme, &[victim], width);
    lines.extend(named(model, theme, victim, (width, rows), true));
    lines.push(Line::raw(""));
    lines.extend(paragraph(&format!("{}? {}", release.asks(), release.way.means), width, Style::new()));
    lines.extend(release.requests().iter().flat_map(|request| paragraph(request, width, theme.quiet)));
    if model.config.source == Source::Demo {
        lines.extend(paragraph("Demo: nothing is sent.", width, theme.alarm));
    }
    lines.push(Line::raw(""));
    lines.push(decide(model, theme, question, ("ask it", "cancel"), width));
    (" Ask for its memory? ".to_owned(), lines)
}

/// What has to be seen first: whose they are where they are not the viewer's, and which of them are at work.
fn warnings(model: &Model, theme: &Theme, victims: &[&Victim], width: usize) -> Vec<Line<'static>> {
    let mut said = Vec::new();
    let mut owners: Vec<&str> = victims.iter().filter(|victim| !victim.yours).map(|victim| &*victim.user).collect();
    owners.dedup();
    if !owners.is_empty() {
        said.push(format!("OWNED BY {}, not you", owners.join(", ")));
    }
    let at_work = |victim: &&&Victim| match model.activity_of(victim.key) {
        Activity::Busy(used) => Some((victim.key.pid, in_percent(used))),
        Activity::Idle(_) | Activity::Unknown => None,
    };
    let busy: Vec<(u32, String)> = victims.iter().filter_map(|victim| at_work(&victim)).collect();
    match (&busy[..], victims) {
        ([], _) => {}
        ([(_, used)], [_]) => said.push(format!("BUSY: {used}")),
        (busy, _) => {
            let each: Vec<String> = busy.iter().map(|(pid, used)| format!("{pid} ({used})")).collect();
            said.push(format!("BUSY: {}", each.join(", ")));
        }
    }
    said.into_iter().map(|text| Line::styled(cut(&text, width), theme.alarm)).collect()
}

/// What a process was seen to use.
fn in_percent(used: Use) -> String {
    let gpu = used.gpu_percent.filter(|percent| *percent > 0).map(|percent| format!("{percent} % GPU"));
    let cpu = used.cpu_percent.filter(|percent| *percent > 0).map(|percent| format!("{percent} % CPU"));
    let both: Vec<String> = gpu.into_iter().chain(cpu).collect();
    if both.is_empty() { "in use".to_owned() } else { both.join(", ") }
}

/// Whether it works, in a few words.
fn at_work(activity: Activity) -> String {
    match activity {
        Activity::Busy(used) => format!("busy: {}", in_percent(used)),
        Activity::Idle(_) => format!("{activity}: 0 % GPU, 0 % CPU"),
        Activity::Unknown => "busy or idle: not known yet".to_owned(),
    }
}

/// Who it is on one line and what speaks for it on another; the whole command line where there is one victim only.
fn named(
    model: &Model,
    theme: &Theme,
    victim: &Victim,
    (width, rows): (usize, usize),
    alone: bool,
) -> Vec<Line<'static>> {
    let what = victim.what.clone().unwrap_or_else(|| victim.command.clone());
    let first = format!("{}  {what}", victim.key.pid);
    let is_whole = first.width() <= width && victim.what.as_ref().is_none_or(|what| *what == victim.command);
    let mut lines = vec![Line::styled(cut(&first, width), theme.sentence)];
    if alone && !is_whole {
        lines.extend(command_line(&victim.command, theme, (width, rows)));
    }
    let whose = if victim.yours { "yours".to_owned() } else { format!("{}'s", victim.user) };
    let now = model.snapshot().map(|snapshot| snapshot.taken_at);
    let since = match victim.started_at.zip(now) {
        Some((then, now)) => format!("started {} ago", then.age_at(now)),
        None => "start unknown".to_owned(),
    };
    let mut facts = format!("{whose} · {since} · {}", victim.holding());
    let together = model.snapshot().and_then(|snapshot| Some((together(snapshot, victim.key)?, snapshot)));
    if let Some((bytes, snapshot)) = together
        && !snapshot.below(victim.key).is_empty()
    {
        facts.push_str(&format!(" · {bytes} together"));
    }
    let activity = model.activity_of(victim.key);
    if alone {
        lines.push(Line::raw(cut(&facts, width)));
        let known = std::iter::once(at_work(activity)).chain(victim.evidence.iter().cloned());
        facts = known.collect::<Vec<_>>().join(" · ");
    } else {
        facts.push_str(&format!(" · {activity}"));
    }
    lines.push(Line::styled(cut(&facts, width), theme.quiet));
    lines
}

/// A command line in up to three lines, so that neither the script nor its arguments are lost; in one where
/// there is little room.
fn command_line(command: &str, theme: &Theme, (width, rows): (usize, usize)) -> Vec<Line<'static>> {
    let most = if rows >= 18 { 3 } else { 1 };
    let (program, rest) = command.split_once(' ').unwrap_or((command, ""));
    // Of the program its name says enough; its folder may take all the room.
    let name = program.rsplit('/').next().unwrap_or(program);
    let whole = if command.width() <= width { command.to_owned() } else { format!("{name} {rest}") };
    let mut lines = broken(&whole, width);
    if lines.len() > most {
        lines = broken(&cut_middle(&whole, width * most), width);
        lines.truncate(most);
    }
    lines.into_iter().map(|line| Line::styled(line, theme.quiet)).collect()
}

/// The last line of a question that is answered with yes or no.
fn decide(model: &Model, theme: &Theme, question: &Question, (yes, no): (&str, &str), width: usize) -> Line<'static> {
    if let Some(line) = instead_of_answers(model, theme, question, width) {
        return line;
    }
    match (question.stage(model.now), question.wants_pid()) {
        (Stage::Open(typed), Some(pid)) => {
            let mut spans = vec![Span::styled(format!("Type {pid} and Enter to {yes}: {typed}_   "), theme.sentence)];
            spans.extend(answers(theme, &[("n", no)], width).spans);
            Line::from(spans)
        }
        (Stage::Open(_), None) => answers(theme, &[("y", yes), ("n", no)], width),
        // Esc and n are taken at any time.
        _ => {
            let mut spans = not_yet(theme, &[("y", yes)], width).spans;
            spans.extend([Span::raw("  "), Span::styled("[n]", theme.key), Span::raw(format!(" {no}"))]);
            Line::from(spans)
        }
    }
}

/// That an answer was taken, or came too early.
fn instead_of_answers(model: &Model, theme: &Theme, question: &Question, width: usize) -> Option<Line<'static>> {
    let goes_on = theme.sign("…", "...");
    let text = match question.stage(model.now) {
        Stage::Open(_) | Stage::Reading { hurried: false } => return None,
        Stage::Reading { hurried: true } => format!("Read first{goes_on} that key came too early."),
        Stage::Sending(KeyCode::Char(letter)) => format!("{letter}: sending{goes_on} any other key cancels"),
        Stage::Sending(_) => format!("Sending{goes_on} any key cancels"),
    };
    Some(Line::styled(cut(&text, width), theme.alarm))
}

/// The keys of a question that can't be answered yet: without brackets, which stand for a key that counts.
fn not_yet(theme: &Theme, keys: &[(&str, &str)], width: usize) -> Line<'static> {
    let spans = answers(theme, keys, width).spans.into_iter();
    let spans = spans.map(|span| Span::styled(span.content.replace(['[', ']'], " "), theme.quiet));
    Line::from(spans.collect::<Vec<_>>())
}

/// The keys with what they do, closer together where there is little room.
fn answers(theme: &Theme, keys: &[(&str, &str)], width: usize) -> Line<'static> {
    let bare: usize = keys.iter().map(|(key, words)| key.width() + words.width() + 3).sum();
    let gaps = keys.len().saturating_sub(1).max(1);
    let gap = " ".repeat((width.saturating_sub(bare) / gaps).clamp(2, 6));
    let mut spans = Vec::new();
    for (number, (key, words)) in keys.iter().enumerate() {
        let before = if number == 0 { "" } else { &gap };
        spans.extend([Span::raw(before.to_owned()), Span::styled(format!("[{key}]"), theme.key)]);
        spans.push(Span::raw(format!(" {words}")));
    }
    Line::from(spans)
}

/// The keys and the signs of the bars, as far as they fit.
fn help(model: &Model, theme: &Theme, top: usize, width: usize) -> Vec<Line<'static>> {
    let drawn = |line: HelpLine| match line {
        HelpLine::Text(text) => Line::raw(text),
        HelpLine::Keys(keys) => {
            let spans = keys.into_iter().flat_map(|(key, words)| [Span::styled(key, theme.key), Span::raw(words)]);
            Line::from(spans.collect::<Vec<_>>())
        }
    };
    let lines = help::lines(model).into_iter().map(drawn).collect();
    read(model, theme, (lines, top), &[("Tab", "glossary"), ("Esc", "close")], width)
}

/// Lines from the top one on as far as they fit, and the keys.
fn read(
    model: &Model,
    theme: &Theme,
    (lines, top): (Vec<Line<'static>>, usize),
    keys: &[(&str, &str)],
    width: usize,
) -> Vec<Line<'static>> {
    let height = page_height(model.size);
    let top = top.min(lines.len().saturating_sub(height));
    let scroll = (lines.len() > height).then_some((theme.sign("↑↓ PgDn", "arrows PgDn"), "read on"));
    let keys: Vec<(&str, &str)> = scroll.into_iter().chain(keys.iter().copied()).collect();
    let mut drawn: Vec<Line<'static>> = lines.into_iter().skip(top).take(height).collect();
    drawn.extend(below(theme, &keys, width));
    drawn
}

/// The two lines below what is read: a blank one and the keys, or the keys in both where they are too long for one.
fn below(theme: &Theme, keys: &[(&str, &str)], width: usize) -> [Line<'static>; 2] {
    let whole = answers(theme, keys, width);
    if whole.width() <= width {
        return [Line::raw(""), whole];
    }
    let (first, second) = keys.split_at(keys.len().div_ceil(2));
    [answers(theme, first, width), answers(theme, second, width)]
}

/// A page as far as it fits, and the keys that turn it.
fn page(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let Some((lines, top)) = model.page() else { return vec![Line::raw("The knowledge base is still loading.")] };
    let style = |tone: Tone| match tone {
        Tone::Title => theme.sentence,
        Tone::Heading => theme.title,
        Tone::Text => Style::new(),
        Tone::Code => theme.figure,
        Tone::Quiet => theme.quiet,
    };
    let lines = lines.into_iter().map(|(tone, text)| Line::styled(text, style(tone))).collect();
    let mut keys = Vec::new();
    match model.overlay {
        Some(Overlay::Words(_)) => keys.push(("Tab", "the keys")),
        Some(Overlay::Fit(_)) => {
            keys.extend(model.trial.is_some().then_some(("Tab", "the settings")));
            keys.push((model.config.keys.key_of(Action::Model).unwrap_or("m"), "another model"));
        }
        Some(Overlay::Done(_)) => keys.push((model.config.keys.key_of(Action::Quit).unwrap_or("q"), "leave")),
        Some(Overlay::About(..)) => {
            keys.extend((model.input.pages.len() > 1).then_some(("Tab", "next match")));
            keys.push(("Enter", "show in log"));
        }
        _ => {}
    }
    keys.push(("Esc", "close"));
    read(model, theme, (lines, top), &keys, width)
}

fn symptoms(model: &Model, theme: &Theme, at: usize, width: usize) -> Vec<Line<'static>> {
    let (first, many) = window(SYMPTOMS.len(), at, page_height(model.size));
    let line = |(number, symptom): (usize, &Symptom)| {
        let pointer = if number == at { theme.sign("▸", ">") } else { " " };
        let style = if number == at { theme.selected } else { Style::new() };
        Line::styled(cut(&format!("{pointer} {}", symptom.seen), width), style)
    };
    let mut lines: Vec<Line<'static>> = SYMPTOMS.iter().enumerate().skip(first).take(many).map(line).collect();
    lines.extend(below(theme, &[("↑↓", "move"), ("Enter", "select"), ("Esc", "close")], width));
    lines
}
