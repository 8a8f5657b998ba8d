//! Owns the drawing of a question: what it names, what a yes does, and whether it takes an answer.

use crossterm::event::KeyCode;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::hints::{answers, not_yet};
use super::window::Window;
use crate::advice::release::Release;
use crate::advice::supervisor::Supervisor;
use crate::app::Model;
use crate::app::action::Action;
use crate::app::model::Source;
use crate::app::question::{Asked, Question, Stage, Victim, telling_apart, workers};
use crate::app::rows::together;
use crate::app::run_again::{Argument, RunAgain};
use crate::app::victims::left_out;
use crate::gpu::activity::Activity;
use crate::gpu::guard::Signal;
use crate::gpu::usage::Use;
use crate::knowledge::diagnosis::Oom;
use crate::text::broken;
use crate::ui::format::{cut, cut_middle, paragraph};
use crate::ui::theme::Theme;

/// Columns that the name of a process keeps beside what tells it from another.
const LEAST_NAME: usize = 10;

/// The question, and whether it has more to read than the screen has room for.
pub(super) fn window(
    model: &Model,
    theme: &Theme,
    question: &Question,
    (width, room): (usize, usize),
) -> (Window, bool) {
    let (title, mut lines) = asked(model, theme, question, (width, room));
    let is_cut = lines.len() > room || lines.iter().any(|line| line.width() > width);
    if is_cut {
        let rest = unread(theme, width);
        lines.truncate(room.saturating_sub(rest.len()));
        lines.extend(rest);
    }
    // The answers may take four lines where there is little room.
    (Window { title, lines, lines_of_keys: 4, items: None, place: None }, is_cut)
}

/// Replaces the answers where the question does not fit: nobody can say yes to what they can't read.
fn unread(theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let text = "Make the terminal larger to read all of this and answer.";
    let mut lines = paragraph(text, width, theme.alarm);
    lines.push(answers(theme, &[("Esc", "leave it")], width));
    lines
}

/// The title and the lines of a question.
fn asked(
    model: &Model,
    theme: &Theme,
    question: &Question,
    (width, rows): (usize, usize),
) -> (String, Vec<Line<'static>>) {
    match &question.asked {
        Asked::End(victims, signal) => ask_to_end(model, theme, (question, victims), *signal, (width, rows)),
        Asked::Release(victim, release) => ask_to_release(model, theme, (question, victim), release, (width, rows)),
        Asked::RunAgain(run) => ask_to_run(model, theme, (question, run), (width, rows)),
        Asked::Paste(text) => ("A second paste".to_owned(), second_paste(model, theme, (question, text), width)),
        Asked::Quit(why) => {
            let mut said = paragraph(why, width, Style::new());
            said.push(Line::raw(""));
            said.push(answer_line(model, theme, question, ("leave", "stay"), width));
            ("Leave?".to_owned(), said)
        }
    }
}

/// What becomes of the pasted text.
fn second_paste(model: &Model, theme: &Theme, (question, text): (&Question, &str), width: usize) -> Vec<Line<'static>> {
    let more = match text.lines().count() {
        1 => "1 more line".to_owned(),
        lines => format!("{lines} more lines"),
    };
    let mut lines = paragraph(&format!("A log is open already. Pasted: {more}."), width, Style::new());
    lines.push(Line::raw(""));
    if let Some(line) = instead_of_answers(model, theme, question, width) {
        lines.push(line);
        return lines;
    }
    let shown = if question.is_open(model.now) { answers } else { not_yet };
    if model.input.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.oom != Oom::No) {
        lines.push(shown(theme, &[("e", "failed again: compare")], width));
    }
    let keys = [("r", "replace the log"), ("a", "append"), ("Esc", "keep the log")];
    let in_one = shown(theme, &keys, width);
    if in_one.width() <= width {
        lines.push(in_one);
    } else {
        lines.extend(keys.map(|key| shown(theme, &[key], width)));
    }
    lines
}

/// Whether to signal these: what they are, what the signal does, and the answers.
fn ask_to_end(
    model: &Model,
    theme: &Theme,
    (question, victims): (&Question, &[Victim]),
    signal: Signal,
    (width, rows): (usize, usize),
) -> (String, Vec<Line<'static>>) {
    let first: Vec<&Victim> = victims.iter().filter(|victim| victim.follows.is_none()).collect();
    let mut rest = unsignalled_workers(model, theme, victims, width);
    rest.extend(caution(theme, victims, width));
    rest.push(Line::raw(""));
    rest.extend(paragraph(&what_it_does(model, victims, signal), width, Style::new()));
    if model.config.source == Source::Demo {
        rest.extend(paragraph("Demo: nothing is signaled.", width, theme.alarm));
    }
    rest.push(Line::raw(""));
    let yes = match (signal, victims.len()) {
        (Signal::Kill, _) => "send SIGKILL".to_owned(),
        (_, 1) => "terminate".to_owned(),
        (_, many) => format!("terminate all {many}"),
    };
    rest.push(answer_line(model, theme, question, (&yes, "cancel"), width));
    let all: Vec<&Victim> = victims.iter().collect();
    let mut lines = warnings(model, theme, &all, width);
    let room = rows.saturating_sub(lines.len());
    let apart = telling_apart(&first);
    let mut named: Vec<Line<'static>> = (first.iter().zip(&apart))
        .flat_map(|(victim, apart)| named(model, theme, (victim, apart), (width, rows), victims.len() == 1))
        .collect();
    let workers = workers(victims, width, room.saturating_sub(named.len() + rest.len()));
    if first.len() > 1 && named.len() + workers.len() + rest.len() > room {
        // Where there are many, a short line about each is better than much about some.
        let lines = first.iter().zip(&apart).map(|(victim, apart)| in_one_line(model, victim, apart, width));
        named = lines.map(|line| Line::styled(line, theme.sentence)).collect();
    }
    lines.extend(named);
    lines.extend(workers.into_iter().map(|line| Line::styled(cut(&line, width), theme.sentence)));
    lines.extend(rest);
    (title(victims, signal), lines)
}

fn title(victims: &[Victim], signal: Signal) -> String {
    let mut first = victims.iter().filter(|victim| victim.follows.is_none());
    match (signal, first.next(), first.next()) {
        (Signal::Kill, Some(one), None) => format!("Send SIGKILL to {}?", one.name),
        (Signal::Kill, ..) => format!("Send SIGKILL to {} processes?", victims.len()),
        (_, Some(one), None) if victims.len() > 1 => format!("Terminate {} and its workers?", one.name),
        (_, Some(one), None) => format!("Terminate {}?", one.name),
        _ => format!("Terminate {} processes?", victims.len()),
    }
}

/// What the signal does to them.
fn what_it_does(model: &Model, victims: &[Victim], signal: Signal) -> String {
    let grace = model.config.grace.as_secs();
    let have_workers = victims.iter().any(|victim| victim.follows.is_some());
    let first = victims.iter().find(|victim| victim.follows.is_none());
    match (signal, first) {
        (Signal::Kill, _) => "It ignored SIGTERM. SIGKILL gives it no chance to save anything.".to_owned(),
        (_, Some(first)) if have_workers => format!(
            "Sends SIGTERM to {} first, which should end the others. Those still running after {grace} s get SIGTERM, too. Unsaved work is lost.",
            first.key.pid
        ),
        _ => format!(
            "Sends SIGTERM; unsaved work is lost. If it is still running after {grace} s, {} offers SIGKILL.",
            model.key(Action::End)
        ),
    }
}

/// The workers that get no signal.
fn unsignalled_workers(model: &Model, theme: &Theme, victims: &[Victim], width: usize) -> Vec<Line<'static>> {
    let left = left_out(model, victims);
    let named: Vec<String> = left.iter().map(|(pid, why)| format!("{pid} ({why})")).collect();
    let works = if named.len() == 1 { "works for it but gets" } else { "work for it but get" };
    match named.len() {
        0 => Vec::new(),
        many => paragraph(&format!("{many} more {works} no signal: {}.", named.join(", ")), width, theme.quiet),
    }
}

/// That a supervisor may restart the process, in two lines at most.
fn caution(theme: &Theme, victims: &[Victim], width: usize) -> Vec<Line<'static>> {
    let supervisors: Vec<&Supervisor> = victims.iter().filter_map(|victim| victim.supervisor.as_ref()).collect();
    let text = match (&supervisors[..], victims) {
        ([], _) => return Vec::new(),
        ([supervisor], [_]) => supervisor.caution(),
        // A launcher and its workers have one supervisor.
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

/// Whether to ask a program to free memory: the process, and every request that is sent.
fn ask_to_release(
    model: &Model,
    theme: &Theme,
    (question, victim): (&Question, &Victim),
    release: &Release,
    (width, rows): (usize, usize),
) -> (String, Vec<Line<'static>>) {
    let mut lines = warnings(model, theme, &[victim], width);
    lines.extend(named(model, theme, (victim, ""), (width, rows), true));
    lines.push(Line::raw(""));
    lines.extend(paragraph(&format!("{}? {}", release.asks(), release.way.means), width, Style::new()));
    lines.extend(release.requests().iter().flat_map(|request| paragraph(request, width, theme.quiet)));
    if model.config.source == Source::Demo {
        lines.extend(paragraph("Demo: nothing is sent.", width, theme.alarm));
    }
    lines.push(Line::raw(""));
    lines.push(answer_line(model, theme, question, ("ask it", "cancel"), width));
    ("Ask for its memory?".to_owned(), lines)
}

/// What has to be seen first: which of them another user owns, and which are busy.
fn warnings(model: &Model, theme: &Theme, victims: &[&Victim], width: usize) -> Vec<Line<'static>> {
    let mut said = Vec::new();
    let mut owners: Vec<&str> = victims.iter().filter(|victim| !victim.yours).map(|victim| &*victim.user).collect();
    owners.dedup();
    if !owners.is_empty() {
        said.push(format!("OWNED BY {}, not you", owners.join(", ")));
    }
    let busy: Vec<(u32, String)> = victims.iter().filter_map(|victim| busy_with(model, victim)).collect();
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

/// The PID of a busy process, and what it uses.
fn busy_with(model: &Model, victim: &Victim) -> Option<(u32, String)> {
    match model.activity_of(victim.key) {
        Activity::Busy(used) => Some((victim.key.pid, in_percent(used))),
        Activity::Idle(_) | Activity::Unknown => None,
    }
}

/// What a process was seen to use.
fn in_percent(used: Use) -> String {
    let gpu = used.gpu_percent.filter(|percent| *percent > 0).map(|percent| format!("{percent} % GPU"));
    let cpu = used.cpu_percent.filter(|percent| *percent > 0).map(|percent| format!("{percent} % CPU"));
    let both: Vec<String> = gpu.into_iter().chain(cpu).collect();
    if both.is_empty() { "in use".to_owned() } else { both.join(", ") }
}

/// Whether it is busy, in a few words.
fn at_work(activity: Activity) -> String {
    match activity {
        Activity::Busy(used) => format!("busy: {}", in_percent(used)),
        Activity::Idle(_) => format!("{activity}: 0 % GPU, 0 % CPU"),
        Activity::Unknown => "busy or idle: not known yet".to_owned(),
    }
}

/// The process on one line, with its memory and its age; where its name has too little room, it is the name that is cut.
fn in_one_line(model: &Model, victim: &Victim, apart: &str, width: usize) -> String {
    let age = age(model, victim).map(|age| format!("  {age} old")).unwrap_or_default();
    let head = format!("{}  {}{age}  ", victim.key.pid, victim.holding());
    let room = width.saturating_sub(head.width());
    if apart.is_empty() {
        return format!("{head}{}", cut(victim.called(), room));
    }
    let apart = cut_middle(apart, room.saturating_sub(LEAST_NAME + 2));
    let name = cut(victim.called(), room.saturating_sub(apart.width() + 2));
    format!("{head}{name}  {apart}")
}

/// How long ago it was started, where that is known.
fn age(model: &Model, victim: &Victim) -> Option<String> {
    let now = model.snapshot()?.taken_at;
    victim.started_at.map(|then| then.age_at(now))
}

/// The process on one line and the evidence on another, what tells it from another of its name beside or between them; the whole command line where there is only one process.
fn named(
    model: &Model,
    theme: &Theme,
    (victim, apart): (&Victim, &str),
    (width, rows): (usize, usize),
    alone: bool,
) -> Vec<Line<'static>> {
    let what = victim.what.clone().unwrap_or_else(|| victim.command.clone());
    let first = format!("{}  {what}", victim.key.pid);
    let is_whole = first.width() <= width && victim.what.as_ref().is_none_or(|what| *what == victim.command);
    let has_room_beside = first.width() + 2 + apart.width() <= width;
    let first = if apart.is_empty() || !has_room_beside { first } else { format!("{first}  {apart}") };
    let mut lines = vec![Line::styled(cut(&first, width), theme.sentence)];
    if !has_room_beside && !apart.is_empty() {
        lines.push(Line::styled(format!("  {}", cut_middle(apart, width.saturating_sub(2))), theme.sentence));
    }
    if alone && !is_whole {
        lines.extend(command_line(&victim.command, theme, (width, rows)));
    }
    let whose = if victim.yours { "yours".to_owned() } else { format!("{}'s", victim.user) };
    let since = age(model, victim).map_or("start unknown".to_owned(), |age| format!("started {age} ago"));
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

/// Whether to run a command again: every argument, what is new in it, and the folder.
fn ask_to_run(
    model: &Model,
    theme: &Theme,
    (question, run): (&Question, &RunAgain),
    (width, rows): (usize, usize),
) -> (String, Vec<Line<'static>>) {
    let mut rest = Vec::new();
    let left_out = run.left_out();
    let title = run.title.iter().map(|title| format!("Fix: {title}"));
    let without = (!left_out.is_empty()).then(|| format!("Without: {}", left_out.join(" ")));
    for text in title.chain(without) {
        rest.extend(paragraph(&text, width, Style::new()));
    }
    if left_out.is_empty() && run.arguments().iter().all(|argument| !argument.is_new) {
        rest.extend(paragraph("Nothing is changed: the same command again.", width, theme.sentence));
    }
    rest.extend(broken(&format!("In {}", run.folder.display()), width).into_iter().map(Line::raw));
    if let Some(options) = run.options_line() {
        rest.extend(broken(&format!("oomdoctor run with {options}"), width).into_iter().map(Line::raw));
    }
    let what = match model.config.source {
        Source::Demo => "Demo: nothing is run; the recorded job is simulated.",
        _ => "It runs in this terminal and is recorded. Ctrl-C stops it.",
    };
    rest.extend(paragraph(what, width, theme.quiet));
    rest.push(answer_line(model, theme, question, ("run it", "cancel"), width));
    // One argument a line where there is room, else one after the other as they would be typed.
    let arguments = run.arguments();
    let each: Vec<Line<'static>> =
        arguments.iter().flat_map(|argument| argument_lines(argument, theme, width)).collect();
    let mut lines = if each.len() + rest.len() <= rows { each } else { in_a_row(&arguments, theme, width) };
    lines.extend(rest);
    ("Run the command again?".to_owned(), lines)
}

/// What the failed run did not have stands out by a sign, too.
fn argument_lines(argument: &Argument, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let (sign, style) = if argument.is_new { ("+ ", theme.good) } else { ("  ", theme.command) };
    let pieces = broken(&argument.text, width.saturating_sub(sign.len()));
    let mut lines: Vec<Line<'static>> =
        pieces.into_iter().map(|piece| Line::styled(format!("{sign}{piece}"), style)).collect();
    if let (Some(was), Some(last)) = (&argument.was, lines.last_mut()) {
        let room = width.saturating_sub(last.width());
        last.push_span(Span::styled(cut(&format!("   was {was}"), room), theme.quiet));
    }
    lines
}

/// The arguments one after the other; none is cut.
fn in_a_row(arguments: &[Argument], theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    for argument in arguments {
        let style = if argument.is_new { theme.good } else { theme.command };
        for piece in broken(&argument.text, width) {
            let has_room = lines.last().is_some_and(|line| line.width() + 1 + piece.width() <= width);
            if !has_room && lines.last().is_some_and(|line| line.width() > 0) {
                lines.push(Line::default());
            }
            if let Some(line) = lines.last_mut() {
                if line.width() > 0 {
                    line.push_span(Span::raw(" "));
                }
                line.push_span(Span::styled(piece, style));
            }
        }
    }
    lines
}

/// A command line in up to three lines, so that neither the script nor its arguments are lost; in one where
/// there is little room.
fn command_line(command: &str, theme: &Theme, (width, rows): (usize, usize)) -> Vec<Line<'static>> {
    let most = if rows >= 18 { 3 } else { 1 };
    let (program, rest) = command.split_once(' ').unwrap_or((command, ""));
    // The program's name is enough: its folder could fill the whole line.
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
fn answer_line(
    model: &Model,
    theme: &Theme,
    question: &Question,
    (yes, no): (&str, &str),
    width: usize,
) -> Line<'static> {
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
