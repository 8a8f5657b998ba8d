//! Owns the report for an issue or a colleague: the log around its matching lines, the verdict with its sums, the steps
//! that were taken and those ahead, and the machine, as one Markdown text. Names and secrets are left out unless the
//! person asks for them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::allocations::{Table, others, tables};
use super::effect::effect_and_outcome;
use super::redact::Names;
use super::{Report, cut, differences, shortened};
use crate::advice::{self, words};
use crate::gpu::{Device, Driver, GpuProcess, Reading, sight};
use crate::knowledge::allocations::other_failure;
use crate::knowledge::diagnosis::{Match, Oom};
use crate::log::{Expression, PastedLog};
use crate::text::{harmless, harmless_lines};
use crate::units::{Bytes, WallTime};

/// Log lines shown before and after a matching line.
const LINES_BEFORE: usize = 20;
const LINES_AFTER: usize = 10;
/// Matching lines that are shown with the lines around them.
const MATCHES: usize = 4;
/// Lines beyond the shown ones that are searched for secrets and names with them.
const LINES_BESIDE: usize = 2;
/// Columns of a log line that are shown.
const WIDTH: usize = 400;
/// Columns that are searched for secrets, so that one at the end of the shown columns is seen whole.
const WIDTH_SEARCHED: usize = 16 * WIDTH;
/// Lines at the beginning of the log that are searched for names: prompts, commands and settings stand there.
const FIRST_LINES: usize = 200;
/// Processes listed for each GPU, the largest first.
const PROCESSES: usize = 30;

/// What a report in Markdown is made from.
#[derive(Clone, Copy, Debug)]
pub struct Paper<'a> {
    pub report: Report<'a>,
    pub log: &'a PastedLog,
    /// Where the log came from, such as "crash.log"; empty where that is unknown.
    pub origin: &'a str,
    /// When the report is made.
    pub at: WallTime,
    /// What the record of the run shows, a line each.
    pub recorded: &'a [String],
    /// What the person did about it.
    pub walked: &'a Walked,
    /// The names known beforehand; `None` to leave names and secrets in.
    pub names: Option<&'a Names>,
}

/// How a step was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// The user tried it, or it was done here.
    Taken,
    /// The user skipped it.
    Skipped,
    /// The user reported that it did not help.
    DidNotHelp,
}

impl Mark {
    /// The sign before a step's title in plain text.
    pub fn sign(self) -> char {
        match self {
            // That a command was copied or a change tried is no proof that it worked.
            Mark::Taken => '·',
            Mark::DidNotHelp => '✗',
            Mark::Skipped => '–',
        }
    }

    /// What became of a step, as it stands behind its title.
    pub fn outcome(self) -> &'static str {
        match self {
            Mark::Taken => "tried",
            Mark::DidNotHelp => "did not help",
            Mark::Skipped => "skipped",
        }
    }
}

/// What a user did about the failure, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// The titles of the steps that were left behind.
    pub behind: Vec<(String, Mark)>,
    /// What was seen, a line each: the processes whose VRAM was freed, the run that was started afterwards.
    pub freed: Vec<String>,
    /// Whether the user reported that the job works.
    pub works: bool,
    /// The command line to run again.
    pub rerun: Option<String>,
}

impl Walked {
    /// Whether anything was done or seen.
    pub fn is_empty(&self) -> bool {
        self.behind.is_empty() && self.freed.is_empty() && !self.works
    }

    /// Whether the user reported that the job works, as a line.
    pub fn result(&self) -> &'static str {
        if self.works { "Reported by the user: the job works" } else { "Not reported: whether the job works now" }
    }
}

pub fn markdown(paper: &Paper<'_>) -> String {
    let matches = &paper.report.diagnosis.matches;
    let shown = excerpt(paper.log, matches, 0);
    let Some(names) = paper.names else { return Writer { paper, show: &str::to_owned }.written(&shown) };
    // A line beside the shown ones may mark a word in them as a secret, or hold its beginning.
    let beside = excerpt(paper.log, matches, LINES_BESIDE);
    let text = beside.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n");
    let names = learned(paper, names.clone(), &shown, &text);
    // A token that a terminal wrapped is found only while no line numbers stand between its parts.
    let redacted = names.redacted(&text);
    let redacted: BTreeMap<usize, &str> = beside.iter().map(|(number, _)| *number).zip(redacted.split('\n')).collect();
    let shown = shown.into_iter().map(|(number, _)| {
        let line = redacted.get(&number).copied().unwrap_or_default();
        (number, line.to_owned())
    });
    Writer { paper, show: &|part| names.redacted(part) }.written(&shown.collect::<Vec<_>>())
}

/// The known names and those that any part of the report gives away.
fn learned(paper: &Paper<'_>, mut names: Names, shown: &[(usize, String)], text: &str) -> Names {
    if let Some(snapshot) = paper.report.snapshot {
        names.hosts.insert(snapshot.host.name.clone());
        let rows = snapshot.devices.iter().flat_map(|device| &device.processes);
        names.users.extend(rows.filter_map(|row| row.user.known().cloned()));
        names.users.extend(snapshot.holders.iter().filter_map(|holder| holder.process.user.known().cloned()));
    }
    names.hosts.extend(paper.report.diagnosis.facts.first_failure.iter().filter_map(|first| first.host.clone()));
    names.learn(text);
    let first = paper.log.lines().take(FIRST_LINES).map(|(_, line)| cut(line, WIDTH_SEARCHED));
    names.learn(&first.collect::<Vec<_>>().join("\n"));
    // The report is written once only to learn from each of its parts. A part is read before it is shortened or
    // escaped: either could hide the beginning of a secret or split it.
    let names = RefCell::new(names);
    let learn = |part: &str| {
        names.borrow_mut().learn(part);
        part.to_owned()
    };
    Writer { paper, show: &learn }.written(shown);
    names.into_inner()
}

/// The lines around the matching ones, and some more beside them; number 0 stands for a gap.
fn excerpt(log: &PastedLog, matches: &[Match], more: usize) -> Vec<(usize, String)> {
    let mut matching: Vec<usize> = matches.iter().take(MATCHES).map(|found| found.row).collect();
    if matching.is_empty() {
        matching.push(log.line_count());
    }
    matching.sort_unstable();
    let mut lines: Vec<(usize, String)> = Vec::new();
    for line in matching {
        let next = lines.last().map_or(1, |(number, _)| number + 1);
        let first = line.saturating_sub(LINES_BEFORE + more).max(next);
        if first > next {
            lines.push((0, String::new()));
        }
        let wanted = first..=(line + LINES_AFTER + more).min(log.line_count());
        lines.extend(wanted.filter_map(|number| Some((number, cut(&harmless(log.line(number)?), WIDTH_SEARCHED)))));
    }
    lines
}

/// Writes a report, every foreign part of it through `show`.
#[derive(Clone, Copy)]
struct Writer<'a> {
    paper: &'a Paper<'a>,
    show: &'a dyn Fn(&str) -> String,
}

impl Writer<'_> {
    fn written(self, excerpt: &[(usize, String)]) -> String {
        let report = &self.paper.report;
        let mut lines = vec![format!("### {}", harmless(&(self.show)(&title(report)))), String::new()];
        let verdict = words::verdict(report.advice);
        lines.extend(verdict.first().map(|sentence| format!("**{}**", self.plain(sentence))));
        lines.extend(verdict.iter().skip(1).map(|line| format!("\n{}", self.plain(line))));
        lines.extend(words::sums(report.advice).map(|sums| format!("\n{}", self.fenced("", &sums))));
        let compared = self.paper.report.since.map(differences).unwrap_or_default();
        lines.extend((!compared.is_empty()).then(|| format!("\n{}", self.fenced("", &compared.join("\n")))));
        if !self.paper.recorded.is_empty() {
            lines.push("\n#### Recorded run\n".to_owned());
            lines.extend(self.paper.recorded.iter().map(|line| format!("- {}", self.plain(line))));
        }
        lines.extend(self.snapshots());
        lines.push(self.log(excerpt));
        lines.extend(self.steps_taken());
        lines.extend(self.steps_ahead());
        lines.push(self.machine());
        let version = env!("CARGO_PKG_VERSION");
        lines.push(format!("Made by oomdoctor {version} at {}.", self.paper.at));
        if self.paper.names.is_some() {
            lines.push(LEFT_OUT.to_owned());
        }
        lines.join("\n") + "\n"
    }

    /// A foreign part where Markdown is read.
    fn plain(self, part: &str) -> String {
        escaped(&(self.show)(part))
    }

    /// A foreign part as a block of code.
    fn fenced(self, language: &str, part: &str) -> String {
        fenced(language, &(self.show)(part))
    }

    /// What the memory snapshots of the run show.
    fn snapshots(self) -> Vec<String> {
        let all = &self.paper.report.diagnosis.allocations;
        let Some(leading) = all.first() else { return Vec::new() };
        let mut lines = vec![format!("\n#### Memory snapshot ({})\n", self.plain(&leading.file))];
        lines.push(self.plain(&leading.sentence));
        lines.extend(other_failure(self.paper.report.diagnosis).map(|note| format!("\n{}\n", self.plain(&note))));
        lines.extend(tables(leading).iter().map(|table| self.table(table)));
        let others = others(all);
        lines.extend((!others.is_empty()).then(String::new));
        lines.extend(others.iter().map(|line| format!("- {}", self.plain(line))));
        lines
    }

    fn table(self, table: &Table) -> String {
        let rule = "|---".repeat(table.columns.len());
        let mut lines = vec![format!("\n{}\n", self.plain(&table.heading))];
        lines.push(format!("| {} |\n{rule}|", table.columns.join(" | ")));
        lines.extend(table.rows.iter().map(|row| {
            let cells: Vec<String> = row.iter().map(|cell| self.plain(&shortened(cell))).collect();
            format!("| {} |", cells.join(" | "))
        }));
        lines.join("\n")
    }

    fn log(self, excerpt: &[(usize, String)]) -> String {
        let paper = self.paper;
        let matches = &paper.report.diagnosis.matches;
        let lines = paper.log.line_count();
        let mut part = format!("\n#### Log ({lines} line{}", if lines == 1 { "" } else { "s" });
        if !paper.origin.is_empty() {
            part += &format!(", {}", self.plain(paper.origin));
        }
        part += ")\n";
        for found in matches.iter().take(MATCHES) {
            part += &format!("\nLine {}: `{}`", found.line, found.entry);
        }
        let leading = matches.first().map(|found| found.row);
        let lines = excerpt.iter().map(|(number, line)| match *number {
            0 => "   …".to_owned(),
            row => {
                let mark = if Some(row) == leading { ">" } else { " " };
                format!("{mark} {:>6}  {}", paper.log.number_in_file(row), cut(line, WIDTH))
            }
        });
        part + &format!("\n\n{}", fenced("text", &lines.collect::<Vec<_>>().join("\n")))
    }

    fn steps_taken(self) -> Vec<String> {
        let walked = self.paper.walked;
        let mut lines = Vec::new();
        if !walked.is_empty() {
            lines.push("\n#### What was done\n".to_owned());
            lines.extend(walked.freed.iter().map(|line| format!("- Seen: {}", self.plain(line))));
            lines.extend(
                walked
                    .behind
                    .iter()
                    .map(|(title, mark)| format!("- Reported by the user: {} ({})", self.plain(title), mark.outcome())),
            );
            lines.push(format!("- {}", walked.result()));
        }
        if let Some(rerun) = &walked.rerun {
            lines.push(format!("\nThe command with these changes:\n\n{}", self.fenced("sh", rerun)));
        }
        lines
    }

    fn steps_ahead(self) -> Vec<String> {
        let behind = &self.paper.walked.behind;
        let plan = &self.paper.report.advice.plan;
        let ahead = plan.iter().filter(|planned| behind.iter().all(|(title, _)| *title != planned.title));
        let mut lines = Vec::new();
        for (at, planned) in ahead.enumerate() {
            if at == 0 {
                lines.push("\n#### Next steps\n".to_owned());
            }
            let notes = self.plain(&effect_and_outcome(planned));
            lines.push(format!("{}. {} ({notes})", at + 1, self.plain(&planned.title)));
            let commands = planned.steps.iter().filter_map(|step| step.command.as_deref());
            lines.extend(commands.map(|command| indented(&self.fenced("", command))));
        }
        lines
    }

    fn machine(self) -> String {
        let report = &self.paper.report;
        let mut part = "\n#### Machine\n\n".to_owned();
        let Some(snapshot) = report.snapshot else {
            let why = report.no_reading.map(|why| format!("It could not be read: {}", self.plain(why)));
            return part + &why.unwrap_or_else(|| "Not read.".to_owned()) + "\n";
        };
        part += &match &snapshot.driver {
            Driver::Available { version, cuda_version } => {
                let cuda = cuda_version.as_ref().map(|version| format!(", CUDA {}", self.plain(version)));
                format!("Driver {}{}.", self.plain(version), cuda.unwrap_or_default())
            }
            Driver::Unavailable { unavailable } if unavailable.is_empty() => {
                let drivers: BTreeSet<&str> =
                    snapshot.devices.iter().filter_map(|device| device.kernel_driver.as_deref()).collect();
                format!("Kernel driver {}.", self.plain(&drivers.into_iter().collect::<Vec<_>>().join(", ")))
            }
            Driver::Unavailable { unavailable } => self.plain(&advice::naming::sentence(unavailable)),
        };
        let host = &snapshot.host;
        part += &format!(
            "\n\nSystem memory: {} of {} available.\n",
            figure(&host.memory_available_bytes),
            figure(&host.memory_total_bytes)
        );
        if let Some(makers) = sight::untried(snapshot) {
            part += &format!("\n{makers} figures were not tried on hardware yet.\n");
        }
        if !snapshot.devices.is_empty() {
            part += "\n| GPU, process | VRAM | user | command |\n|---|---|---|---|\n";
            part.extend(snapshot.devices.iter().map(|device| self.device(device)));
        }
        part
    }

    /// Whether somebody else owns this process, as far as the report leaves names out.
    fn is_of_another(self, row: &GpuProcess) -> bool {
        self.paper.names.is_some_and(|names| row.user.known().is_none_or(|user| !names.own.contains(user)))
    }

    /// The rows of the table for one GPU and its processes.
    fn device(self, device: &Device) -> String {
        let (free, total) = (figure(&device.memory.free_bytes), figure(&device.memory.total_bytes));
        let error = device.error.as_ref().map(|error| self.plain(error)).unwrap_or_default();
        let name = self.plain(&advice::name_of_device(device));
        let mut rows = format!("| {name} | {free} free of {total} | | {error} |\n");
        let mut processes: Vec<&GpuProcess> = device.processes.iter().collect();
        processes.sort_by_key(|row| std::cmp::Reverse(row.used_bytes.value()));
        for row in processes.iter().take(PROCESSES) {
            let used = figure(&row.used_bytes);
            // What others run is theirs to tell.
            if self.is_of_another(row) {
                rows += &format!("| another user's process | {used} | | |\n");
                continue;
            }
            let name = self.plain(&advice::name_of(row));
            let user = self.plain(row.user.known().map_or("?", String::as_str));
            let command = (self.show)(row.command.known().map_or("", String::as_str));
            rows += &format!("| {name} | {used} | {user} | {} |\n", escaped(&shortened(&command)));
        }
        if let Some(more @ 1..) = processes.len().checked_sub(PROCESSES) {
            rows += &format!("| and {more} more | | | |\n");
        }
        rows
    }
}

const LEFT_OUT: &str =
    "Recognized tokens, passwords, home folders, addresses and names of users and hosts are left out.";

fn title(report: &Report<'_>) -> String {
    match (report.diagnosis.oom, &report.diagnosis.raised_by) {
        (Oom::No, _) => "Not out of memory".to_owned(),
        (_, Some(who)) => format!("Out of memory, raised by {who}"),
        (_, None) => "Out of memory".to_owned(),
    }
}

fn figure(reading: &Reading<Bytes>) -> String {
    advice::amount(reading.value())
}

/// Foreign words where Markdown is read: they can make neither markup nor HTML.
fn escaped(text: &str) -> String {
    static MARKUP: Expression = Expression::new(r"[\\`*<>\[\]|#]");
    MARKUP.replaced(&harmless(text), r"\$0").into_owned()
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
    use crate::gpu::Snapshot;
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
        let situation = Situation { fixes: &base.fixes, snapshot: Some(&snapshot), ..Situation::alone(&diagnosis) };
        let advice = advise(&situation);
        let report = Report { snapshot: Some(&snapshot), ..Report::of(&diagnosis, &advice) };
        markdown(&Paper { recorded: &[], report, log: &log, origin: "crash.log", at: noon_plus(0), walked, names })
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
        for part in ["Next steps", "| a\\|b (4242) | 11.0 GiB | ada |", "Driver ", "/home/ada/x", "letmein"] {
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
            behind: vec![
                (first.clone(), Mark::Taken),
                ("Another".into(), Mark::Skipped),
                ("A third".into(), Mark::DidNotHelp),
            ],
            freed: vec!["train.py (77) exited: freed 2.0 GiB".into()],
            works: true,
            rerun: Some("python t.py --batch 4".into()),
        };
        let text = paper(&failed("x"), &walked, None);
        for part in [
            "- Reported by the user: Another (skipped)",
            "- Reported by the user: A third (did not help)",
            "- Seen: train.py (77) exited: freed 2.0 GiB",
            "- Reported by the user: the job works",
            "python t.py --batch 4",
        ] {
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
    fn what_other_users_run_is_told_by_its_memory_alone() {
        let rows = |own: &str| {
            let names = Names { own: [own.to_owned()].into(), ..Names::default() };
            paper(&failed("x"), &Walked::default(), Some(&names))
        };
        let row = |text: String| text.lines().find(|line| line.contains("11.0 GiB |")).unwrap().to_owned();
        assert!(row(rows("ada")).contains("t.py"));
        let row = row(rows("grace"));
        assert!(row.contains("another user's process") && !row.contains("t.py"), "{row}");
    }

    #[test]
    fn a_secret_is_seen_before_marks_and_widths_change_it() {
        let own: BTreeSet<String> = ["a_d#a", "ada"].map(str::to_owned).into();
        let names = Names { users: own.clone(), own, ..Names::default() };
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
