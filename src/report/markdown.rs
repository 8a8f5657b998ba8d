//! Owns the report for an issue or a colleague: the log around its telling lines, the verdict with its sums, the steps
//! with what was taken, and the machine, as one Markdown text. Names and secrets are left out unless that is refused.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::redact::Names;
use super::{Report, shortened};
use crate::advice::{self, PlannedFix, words};
use crate::gpu::{Driver, GpuProcess, Reading, Snapshot};
use crate::knowledge::diagnosis::Match;
use crate::log::PastedLog;
use crate::text::{harmless, harmless_lines};
use crate::units::{Bytes, WallTime};

/// Lines shown before and behind a telling line.
const BEFORE: usize = 20;
const AFTER: usize = 10;
/// Telling lines that are shown with what stands around them.
const PLACES: usize = 4;
/// Lines beside the shown ones that are searched with them.
const BESIDE: usize = 2;
/// Columns of a log line that are shown.
const WIDTH: usize = 400;
/// Columns that are searched for secrets: one that goes on behind the shown ones is still seen whole.
const READ: usize = 16 * WIDTH;
/// Lines at a log's beginning that are searched for names.
const BEGINNING: usize = 200;
/// Of each card the largest holders are listed.
const PROCESSES: usize = 30;

/// What a report in Markdown is made from.
#[derive(Clone, Copy, Debug)]
pub struct Paper<'a> {
    pub report: Report<'a>,
    pub log: &'a PastedLog,
    /// Where it came from: "crash.log".
    pub origin: &'a str,
    /// When the report is made.
    pub at: WallTime,
    /// What the person did about it.
    pub walked: &'a Walked,
    /// The names known beforehand; `None` to leave names and secrets in.
    pub names: Option<&'a Names>,
}

/// What a person did on the walk, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// The steps behind them, and whether they took them (else they skipped them).
    pub behind: Vec<(String, bool)>,
    /// Whose memory came back, a line each.
    pub freed: Vec<String>,
    /// They said that it works.
    pub works: bool,
    /// The command line to run again.
    pub rerun: Option<String>,
}

pub fn markdown(paper: &Paper<'_>) -> String {
    let matches = &paper.report.diagnosis.matches;
    let shown = excerpt(paper.log, matches, 0);
    let Some(known) = paper.names else { return written(paper, &shown, &str::to_owned) };
    let mut names = known.clone();
    if let Some(snapshot) = paper.report.snapshot {
        names.hosts.insert(snapshot.host.name.clone());
        let rows = snapshot.devices.iter().flat_map(|device| &device.processes);
        names.users.extend(rows.filter_map(|row| row.user.known().cloned()));
        names.users.extend(snapshot.holders.iter().filter_map(|holder| holder.process.user.known().cloned()));
    }
    // Lines beside the shown ones may mark what these hold as a secret, or hold its beginning.
    let beside = excerpt(paper.log, matches, BESIDE);
    let text = beside.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n");
    names.learn(&text);
    // Prompts, commands and settings stand at a log's beginning.
    names.learn(&paper.log.lines().take(BEGINNING).map(|(_, line)| cut(line, READ)).collect::<Vec<_>>().join("\n"));
    // Written once to learn the names from every part, and once more without them. Each part is seen as it stands, before
    // it is shortened or made harmless in Markdown: neither may hide a secret's beginning or split it.
    let names = RefCell::new(names);
    let learn = |part: &str| {
        names.borrow_mut().learn(part);
        part.to_owned()
    };
    written(paper, &shown, &learn);
    let names = names.into_inner();
    // The log as a whole: what a terminal wrapped is seen only while no line number stands between.
    let lines = names.redacted(&text);
    let lines: BTreeMap<usize, &str> = beside.iter().map(|(number, _)| *number).zip(lines.split('\n')).collect();
    let line = |number: usize| lines.get(&number).copied().unwrap_or_default().to_owned();
    let shown: Vec<_> = shown.iter().map(|(number, _)| (*number, line(*number))).collect();
    written(paper, &shown, &|part| names.redacted(part))
}

/// What becomes of each part that came from outside.
type Show<'a> = &'a dyn Fn(&str) -> String;

/// The lines around the telling ones, and some more beside them; number 0 stands for a gap.
fn excerpt(log: &PastedLog, matches: &[Match], more: usize) -> Vec<(usize, String)> {
    let mut telling: Vec<usize> = matches.iter().take(PLACES).map(|found| found.line).collect();
    if telling.is_empty() {
        telling.push(log.line_count());
    }
    telling.sort_unstable();
    let mut lines: Vec<(usize, String)> = Vec::new();
    for line in telling {
        let next = lines.last().map_or(1, |(number, _)| number + 1);
        let first = line.saturating_sub(BEFORE + more).max(next);
        if first > next {
            lines.push((0, String::new()));
        }
        let wanted = first..=(line + AFTER + more).min(log.line_count());
        lines.extend(wanted.filter_map(|number| Some((number, cut(&harmless(log.line(number)?), READ)))));
    }
    lines
}

fn cut(line: &str, width: usize) -> String {
    match line.char_indices().nth(width) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(line)),
        None => line.trim_end().to_owned(),
    }
}

fn written(paper: &Paper<'_>, excerpt: &[(usize, String)], show: Show<'_>) -> String {
    let report = &paper.report;
    let plain = |part: &str| escaped(&show(part));
    let mut lines = vec![format!("### {}", harmless(&show(&paper_title(report)))), String::new()];
    let verdict = words::verdict(report.advice);
    lines.extend(verdict.first().map(|sentence| format!("**{}**", plain(sentence))));
    lines.extend(verdict.iter().skip(1).map(|line| format!("\n{}", plain(line))));
    lines.extend(words::sums(report.advice).map(|sums| format!("\n{}", fenced("", &show(&sums)))));
    lines.push(log_part(paper, excerpt, show));
    lines.extend(steps(report.advice.plan.as_slice(), paper.walked, show));
    lines.push(machine(report, show));
    let version = env!("CARGO_PKG_VERSION");
    lines.push(format!("Made by oomdoctor {version} at {}.", paper.at));
    if paper.names.is_some() {
        lines.push(
            "Tokens, passwords, home folders, addresses and names of users and hosts that it recognised were left out."
                .to_owned(),
        );
    }
    lines.join("\n") + "\n"
}

fn paper_title(report: &Report<'_>) -> String {
    let who = report.diagnosis.raised_by.as_deref().map(|who| format!(", raised by {who}"));
    match report.diagnosis.oom {
        crate::knowledge::diagnosis::Oom::No => "No memory that ran out".to_owned(),
        _ => format!("Out of memory{}", who.unwrap_or_default()),
    }
}

fn log_part(paper: &Paper<'_>, excerpt: &[(usize, String)], show: Show<'_>) -> String {
    let matches = &paper.report.diagnosis.matches;
    let lines = paper.log.line_count();
    let mut part = format!("\n#### The log ({lines} line{}", if lines == 1 { "" } else { "s" });
    if !paper.origin.is_empty() {
        part += &format!(", {}", escaped(&show(paper.origin)));
    }
    part += ")\n";
    for found in matches.iter().take(PLACES) {
        part += &format!("\nLine {}: `{}`", found.line, found.entry);
    }
    let telling = |number: usize| matches.first().is_some_and(|found| found.line == number);
    let shown: Vec<String> = excerpt
        .iter()
        .map(|(number, line)| match number {
            0 => "   …".to_owned(),
            number if telling(*number) => format!("> {number:>6}  {}", cut(line, WIDTH)),
            number => format!("  {number:>6}  {}", cut(line, WIDTH)),
        })
        .collect();
    part + &format!("\n\n{}", fenced("text", &shown.join("\n")))
}

fn steps(plan: &[PlannedFix], walked: &Walked, show: Show<'_>) -> Vec<String> {
    let plain = |part: &str| escaped(&show(part));
    let mut lines = Vec::new();
    if !walked.behind.is_empty() || !walked.freed.is_empty() || walked.works {
        lines.push("\n#### What was done\n".to_owned());
        lines.extend(walked.freed.iter().map(|line| format!("- {}", plain(line))));
        lines.extend(walked.behind.iter().map(|(title, taken)| match taken {
            true => format!("- [x] {}", plain(title)),
            false => format!("- [ ] {} (skipped)", plain(title)),
        }));
        let works = if walked.works { "After that it worked." } else { "Whether it works now was not said." };
        lines.push(format!("\n{works}"));
    }
    if let Some(rerun) = &walked.rerun {
        lines.push(format!("\nThe command line with what was taken:\n\n{}", fenced("sh", &show(rerun))));
    }
    let behind = |planned: &&PlannedFix| walked.behind.iter().all(|(title, _)| *title != planned.title);
    let ahead: Vec<&PlannedFix> = plan.iter().filter(behind).collect();
    if !ahead.is_empty() {
        lines.push("\n#### What is advised\n".to_owned());
    }
    for (at, planned) in ahead.into_iter().enumerate() {
        let notes = [words::gives_back(planned), format!("costs: {}", planned.costs)];
        let notes: Vec<&str> = notes.iter().map(String::as_str).filter(|note| !note.is_empty()).collect();
        lines.push(format!("{}. {} ({})", at + 1, plain(&planned.title), plain(&notes.join("; "))));
        let commands = planned.steps.iter().filter_map(|step| step.command.as_deref());
        lines.extend(commands.map(|command| indented(&fenced("", &show(command)))));
    }
    lines
}

fn machine(report: &Report<'_>, show: Show<'_>) -> String {
    let plain = |part: &str| escaped(&show(part));
    let mut part = "\n#### The machine\n\n".to_owned();
    let Some(snapshot) = report.snapshot else {
        let why =
            report.no_reading.map_or("It was not looked at.".to_owned(), |why| format!("Not read: {}", plain(why)));
        return part + &why + "\n";
    };
    part += &match &snapshot.driver {
        Driver::Available { version, cuda_version } => {
            let cuda = cuda_version.as_ref().map_or(String::new(), |version| format!(", CUDA {}", plain(version)));
            format!("Driver {}{cuda}.", plain(version))
        }
        Driver::Unavailable { unavailable } => plain(&advice::naming::sentence(unavailable)),
    };
    let host = &snapshot.host;
    part += &format!(
        "\n\nSystem memory: {} of {} available.\n",
        figure(&host.memory_available_bytes),
        figure(&host.memory_total_bytes)
    );
    if !snapshot.devices.is_empty() {
        part += "\n| GPU, process | VRAM | user | command |\n|---|---|---|---|\n";
        part += &devices(snapshot, show);
    }
    part
}

fn devices(snapshot: &Snapshot, show: Show<'_>) -> String {
    let plain = |part: &str| escaped(&show(part));
    let mut rows = String::new();
    for device in &snapshot.devices {
        let (free, total) = (figure(&device.memory.free_bytes), figure(&device.memory.total_bytes));
        let trouble = device.error.as_ref().map(|error| plain(error)).unwrap_or_default();
        rows += &format!("| {} | {free} free of {total} | | {trouble} |\n", plain(&advice::name_of_device(device)));
        let mut processes: Vec<&GpuProcess> = device.processes.iter().collect();
        processes.sort_by_key(|row| std::cmp::Reverse(row.used_bytes.value()));
        for row in processes.iter().take(PROCESSES) {
            let user = row.user.known().map_or("?", String::as_str);
            let command = row.command.known().map_or("", String::as_str);
            let (name, held) = (plain(&advice::name_of(row)), figure(&row.used_bytes));
            rows += &format!("| {name} | {held} | {} | {} |\n", plain(user), escaped(&shortened(&show(command))));
        }
        if let Some(more @ 1..) = processes.len().checked_sub(PROCESSES) {
            rows += &format!("| and {more} more | | | |\n");
        }
    }
    rows
}

fn figure(reading: &Reading<Bytes>) -> String {
    advice::amount(reading.value())
}

/// Foreign words where Markdown is read: they make no markup and no HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in harmless(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '<' | '>' | '[' | ']' | '|' | '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A block of code that its own text can't end.
fn fenced(language: &str, text: &str) -> String {
    let text = harmless_lines(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}{language}\n{text}\n{fence}")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("   {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::{Situation, advise};
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::knowledge::KnowledgeBase;

    #[test]
    fn nothing_that_steers_a_terminal_is_left_in_a_command_or_a_sum() {
        let walked = Walked { rerun: Some("python\tt.py \u{202e}x\u{1b}[2J\nnext".into()), ..Walked::default() };
        for log in ["$ python\tt.py\t--x\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", "no\tlog"] {
            for names in [None, Some(&Names::default())] {
                let text = paper(log, &walked, names);
                assert!(!text.contains(|c| c != '\n' && crate::text::is_harmful(c)), "{text:?}");
                assert!(text.contains("python t.py ·x·[2J\nnext"), "{text}");
            }
        }
    }

    fn paper(log: &str, walked: &Walked, names: Option<&Names>) -> String {
        paper_of("python t.py --api-key letmein --data /home/ada/x", log, walked, names)
    }

    fn paper_of(command: &str, log: &str, walked: &Walked, names: Option<&Names>) -> String {
        let base = KnowledgeBase::built_in().unwrap();
        let log = PastedLog::new(log);
        let diagnosis = base.diagnose(&log, None);
        let mut row = process(4242, Bytes::gib(11));
        row.recognised_as = Some("a|b".into());
        row.command = Reading::Known(command.into());
        let snapshot = Snapshot { devices: vec![device(0, vec![row])], ..snapshot(0) };
        let situation = Situation { fixes: base.fixes(), snapshot: Some(&snapshot), ..Situation::alone(&diagnosis) };
        let advice = advise(&situation);
        let report = Report {
            diagnosis: &diagnosis,
            advice: &advice,
            snapshot: Some(&snapshot),
            no_reading: None,
            why: None,
            explains: false,
        };
        markdown(&Paper { report, log: &log, origin: "crash.log", at: noon_plus(0), walked, names })
    }

    fn failed(beside: &str) -> String {
        let filler = "step 1 of many\n".repeat(60);
        format!(
            "{filler}{beside}\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 24.00 GiB total capacity)\n"
        )
    }

    #[test]
    fn it_has_the_excerpt_the_verdict_the_sums_the_steps_and_the_machine() {
        let text = paper(&failed("the line before"), &Walked::default(), None);
        for part in [
            "**GPU 0 (RTX 4090) ran out of VRAM",
            " = ",
            ">     62  RuntimeError",
            "      61  the line before",
            "Line 62: `pytorch/",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for part in ["What is advised", "| a\\|b (4242) | 11.0 GiB | ada |", "Driver ", "/home/ada/x", "letmein"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("      30  step"), "only what stands around: {text}");
        assert!(text.matches("step 1 of many").count() == 19, "{text}");
    }

    #[test]
    fn what_was_done_is_told_and_no_longer_advised() {
        let plan = paper(&failed("x"), &Walked::default(), None);
        let first = plan.lines().find_map(|line| line.strip_prefix("1. ")).unwrap();
        let first = first.split(" (").next().unwrap().replace('\\', "");
        let walked = Walked {
            behind: vec![(first.clone(), true), ("Another".into(), false)],
            freed: vec!["train.py (77) has ended: gave back 2.0 GiB".into()],
            works: true,
            rerun: Some("python t.py --batch 4".into()),
        };
        let text = paper(&failed("x"), &walked, None);
        for part in ["- [x] ", "- [ ] Another (skipped)", "gave back 2.0 GiB", "it worked", "python t.py --batch 4"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains(&format!("1. {first}")), "{text}");
    }

    #[test]
    fn names_and_secrets_are_left_out_of_all_parts() {
        let first = "user=victor".to_owned() + &"\nx".repeat(100);
        let log = first
            + "\n"
            + &failed("/data/victor HF_TOKEN=hf_abcdEFGH12345678 File \"/home/grace/t.py\" of grace on box");
        let names = Names { users: ["ada".to_owned()].into(), hosts: ["box".to_owned()].into(), ..Names::default() };
        let text = paper(&log, &Walked::default(), Some(&names));
        for secret in ["hf_abcd", "letmein", "/home/", "grace", "ada", " box", "victor"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert!(text.contains("HF_TOKEN=[redacted] File \"~/t.py\" of USER on HOST"), "{text}");
    }

    #[test]
    fn a_secret_is_seen_before_marks_and_widths_change_it() {
        let names = Names { users: ["a_d#a".to_owned()].into(), ..Names::default() };
        let key = format!("hf_{}zq", "aB3".repeat(5));
        let wide = format!("{} {key}", "x".repeat(WIDTH - 6));
        let command = format!("t.py --password 'a|\\'zq' of a_d#a /home/gr[ace/x {} {key}", "y".repeat(185));
        let walked = Walked { freed: vec!["--password a[zq]*zq".into()], ..Walked::default() };
        let text = paper_of(&command, &failed(&wide), &walked, Some(&names));
        for part in ["zq", "hf_", "ace", "a_d"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("| t.py --password \\[redacted\\] of USER ~/x y"), "{text}");
    }

    #[test]
    fn a_word_above_the_shown_lines_marks_a_secret_in_them() {
        let key = "0123456789abcdef".repeat(3).chars().take(40).collect::<String>();
        let before = format!("{}Paste your wandb API key:\n{key}\n", "step 1 of many\n".repeat(40));
        let log = before
            + &"step 2 of many\n".repeat(19)
            + "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 24.00 GiB total capacity)\n";
        let text = paper(&log, &Walked::default(), Some(&Names::default()));
        assert!(text.contains("      42  [redacted]") && !text.contains(&key), "{text}");
    }

    #[test]
    fn foreign_text_breaks_out_of_nothing() {
        let text = paper(&failed("````\n<script>\u{1b}[2J\u{202e}"), &Walked::default(), None);
        assert!(
            text.contains("\n`````text\n") && text.contains("<script>\n") && !text.contains(['\u{1b}', '\u{202e}']),
            "{text}"
        );
    }
}
