//! Owns what launchers say of the processes that they started: who failed, with which exit code, and who was stopped.

use std::collections::BTreeSet;
use std::ops::Range;

use regex::Captures;

use super::clock::{self, Moment};
use crate::effort;
use crate::log::teller::{Teller, Tellers};
use crate::log::{Expression, PastedLog};

/// How many lines the traceback in a block of torchrun's may have.
const BLOCK: usize = 120;
/// How many lines around the rank in such a block are searched, which lines of other nodes may interrupt.
const BESIDE: usize = 24;

/// How many lines of launchers are read.
const LINES: usize = 512;

/// What the functions below look for, to find the few lines that have it.
static TELLING: Expression = Expression::new(
    r"(?-u)rank +: \d+ \(local_rank: \d+\)|failed \(exitcode: -?\d|exits with return code = |srun: error: |process rank \d+ with PID|exit with status code \d|terminated with the following error|terminated with signal |ray::\w|closing signal SIG|Killing subprocess \d|PID \d+ RUNNING AT|nnodes[=: ]+['\x22]?\d|torch[./]distributed[./](?:elastic|run|launch)",
);

static RANK: Expression = Expression::new(r"(?-u)\brank +: (\d{1,6}) \(local_rank: (\d{1,6})\)");
static TIME: Expression = Expression::new(r"(?-u)\btime +: \d{4}-");
static HOST: Expression = Expression::new(r"(?-u)\bhost +: ([\w.:-]+)\s*$");
static EXIT: Expression = Expression::new(r"(?-u)\bexitcode +: (-?\d{1,5}) \(pid: (\d{1,7})\)");
static TABLE: Expression =
    Expression::new(r"(?-u)failed \(exitcode: (-?\d{1,5})\) local_rank: (\d{1,6}) \(pid: (\d{1,7})\) of binary");
static DEEPSPEED: Expression = Expression::new(r"(?-u)exits with return code = (-?\d{1,5})");
static LOCAL_RANK: Expression = Expression::new(r"(?-u)--local_rank[=' ,]{1,4}(\d{1,6})\b");
static SRUN: Expression = Expression::new(r"(?-u)srun: error: ([\w.-]+): tasks? ([\d,-]+): (\w[\w ]{0,40})");
static MPIRUN: Expression =
    Expression::new(r"(?-u)process rank (\d{1,6}) with PID (\d{1,7}) on node ([\w.-]+) exited on signal (\d{1,2})");
static HYDRA: Expression = Expression::new(r"(?-u)PID (\d{1,7}) RUNNING AT ([\w.-]+)");
static HOROVOD: Expression = Expression::new(r"(?-u)Process (\d{1,6}) exit with status code (\d{1,5})");
static SPAWNED: Expression = Expression::new(r"(?-u)-- Process (\d{1,6}) terminated with the following error");
static SPAWNED_BY_SIGNAL: Expression = Expression::new(r"(?-u)\bprocess (\d{1,6}) terminated with signal (\w+)");
static RAY: Expression =
    Expression::new(r"(?-u)ray::_{0,2}([A-Za-z]\w*?)(?:__execute)?(?:\.[\w.]+)?\(\) \(pid=(\d{1,7}), ip=([\w.:]+)");
static STOPPED: Expression =
    Expression::new(r"(?-u)(?:Sending process (\d{1,7}) closing signal SIG|Killing subprocess (\d{1,7}))");
static NODES: Expression = Expression::new(r"(?-u)nnodes[=: ]+['\x22]?(\d{1,5})");

/// What a launcher says of one process that failed.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// Its own lines, with the traceback that it quotes.
    pub lines: Range<usize>,
    pub who: Teller,
    /// Whether torchrun itself calls it the root cause.
    pub is_root_cause: bool,
    /// Whether it ended as those do that are stopped, or that give up, because another one failed.
    pub is_consequence: bool,
    /// When torchrun saw it.
    pub at: Option<Moment>,
}

/// What the launchers of one log say.
#[derive(Debug, Default)]
pub(super) struct Launchers {
    /// In the order of the log.
    pub reports: Vec<Report>,
    /// The lines below which the traceback of that process stands.
    pub headers: Vec<(usize, Teller)>,
    /// How many processes a launcher says that it stopped.
    pub stopped: usize,
    /// Whether DeepSpeed's launcher stopped them, which counts the one that failed.
    pub counts_the_failed: bool,
    /// Whether the run had several nodes by its own settings.
    pub has_many_nodes: bool,
}

impl Launchers {
    /// Reads them, and tells `tellers` whether torchrun started the ranks: then the tasks of `srun` are nodes.
    pub(super) fn of(log: &PastedLog, tellers: &mut Tellers) -> Launchers {
        effort::count(log.text().len());
        let lines: BTreeSet<usize> = TELLING.starts(log.text()).map(|start| log.line_at(start)).collect();
        let lines: Vec<(usize, &str)> =
            lines.into_iter().take(LINES).filter_map(|line| Some((line, log.brief(line)?))).collect();
        tellers.tasks_are_nodes = lines.iter().any(|(_, text)| is_of_torchrun(text));
        let mut launchers = Launchers::default();
        let mut stopped: BTreeSet<String> = BTreeSet::new();
        for (line, text) in lines {
            effort::count(text.len());
            launchers.has_many_nodes |=
                NODES.captures(text).and_then(|found| number(&found, 1)).is_some_and(|many| many > 1);
            launchers.counts_the_failed |= text.contains("Killing subprocess");
            let one = STOPPED.captures(text).and_then(|found| Some(found.get(1).or(found.get(2))?.as_str().to_owned()));
            stopped.extend(one);
            launchers.headers.extend(header(text).map(|who| (line, who)));
            launchers.reports.extend(report(log, tellers, line, text));
        }
        launchers.stopped = stopped.len();
        launchers
    }

    /// The report that this line is part of.
    pub(super) fn around(&self, line: usize) -> Option<&Report> {
        self.reports.iter().find(|report| report.lines.contains(&line))
    }

    /// The process whose traceback begins on this line.
    pub(super) fn header(&self, line: usize) -> Option<&Teller> {
        let at = self.headers.binary_search_by_key(&line, |(line, _)| *line).ok()?;
        self.headers.get(at).map(|(_, who)| who)
    }
}

fn is_of_torchrun(text: &str) -> bool {
    text.contains("torch.distributed") || text.contains("torch/distributed") || RANK.is_match(text)
}

/// The process whose traceback follows.
fn header(text: &str) -> Option<Teller> {
    if let Some(found) = RAY.captures(text) {
        let kind = word(&found, 1);
        return Some(Teller { kind, pid: pid(&found, 2), host: word(&found, 3), ..Teller::default() });
    }
    let found = SPAWNED.captures(text)?;
    Some(Teller { local_rank: number(&found, 1), ..Teller::default() })
}

fn report(log: &PastedLog, tellers: &Tellers, line: usize, text: &str) -> Option<Report> {
    if let Some(found) = RANK.captures(text) {
        return Some(block(log, tellers, line, &found));
    }
    let (mut who, is_consequence) = one_line(text)?;
    who.complete_from(&tellers.of_line(text).stream);
    Some(Report { lines: line..line + 1, who, is_root_cause: false, is_consequence, at: None })
}

/// What one line of a launcher says, and whether that process only followed another one.
fn one_line(text: &str) -> Option<(Teller, bool)> {
    let nobody = Teller::default();
    if let Some(found) = TABLE.captures(text) {
        return Some((
            Teller { local_rank: number(&found, 2), pid: pid(&found, 3), ..nobody },
            follows(word(&found, 1)),
        ));
    }
    if let Some(found) = DEEPSPEED.captures(text) {
        let local_rank = LOCAL_RANK.captures(text).and_then(|found| number(&found, 1));
        return Some((Teller { local_rank, ..nobody }, follows(word(&found, 1))));
    }
    if let Some(found) = SRUN.captures(text) {
        let how = word(&found, 3)?;
        let code = how.strip_prefix("Exited with exit code ").map(str::to_owned);
        let is_consequence = how.starts_with("Terminated") || code.is_some() && follows(code);
        return Some((Teller { host: word(&found, 1), rank: number(&found, 2), ..nobody }, is_consequence));
    }
    if let Some(found) = MPIRUN.captures(text) {
        let is_consequence = follows(word(&found, 4).map(|signal| format!("-{signal}")));
        let who = Teller { rank: number(&found, 1), pid: pid(&found, 2), host: word(&found, 3), ..nobody };
        return Some((who, is_consequence));
    }
    if let Some(found) = HYDRA.captures(text) {
        return Some((Teller { pid: pid(&found, 1), host: word(&found, 2), ..nobody }, false));
    }
    if let Some(found) = HOROVOD.captures(text) {
        return Some((Teller { rank: number(&found, 1), ..nobody }, follows(word(&found, 2))));
    }
    let found = SPAWNED_BY_SIGNAL.captures(text)?;
    let is_consequence = matches!(word(&found, 2).as_deref(), Some("SIGTERM" | "SIGABRT"));
    Some((Teller { local_rank: number(&found, 1), ..nobody }, is_consequence))
}

/// Whether a process with this exit code was stopped (SIGTERM), or aborted itself as NCCL's watchdog does.
fn follows(exit_code: Option<String>) -> bool {
    matches!(exit_code.as_deref(), Some("-15" | "143" | "-6" | "134"))
}

/// A block of torchrun's, found by its rank: time and host stand above, exit code and traceback below.
fn block(log: &PastedLog, tellers: &Tellers, line: usize, found: &Captures<'_>) -> Report {
    let mut who = Teller { rank: number(found, 1), local_rank: number(found, 2), ..Teller::default() };
    let mut report =
        Report { lines: line..line + 1, who: Teller::default(), is_root_cause: false, is_consequence: false, at: None };
    let stream = tellers.of_line(head(log, line)).stream;
    let above = (line.saturating_sub(BESIDE).max(1)..line).rev();
    for number in above.filter(|number| tellers.of_line(head(log, *number)).stream == stream).take(4) {
        let text = head(log, number);
        who.host = who.host.take().or_else(|| HOST.captures(text).and_then(|found| word(&found, 1)));
        report.at = report.at.or_else(|| if TIME.is_match(text) { clock::moment(text) } else { None });
        report.is_root_cause |= text.contains("Root Cause (first observed");
    }
    let below = line + 1..=(line + BLOCK).min(log.line_count());
    for number in below.filter(|number| tellers.of_line(head(log, *number)).stream == stream) {
        let text = head(log, number);
        if let Some(found) = EXIT.captures(text).filter(|_| who.pid.is_none()) {
            who.pid = pid(&found, 2);
            report.is_consequence = follows(word(&found, 1));
        }
        if text.contains("=====") || text.contains("-----") || RANK.is_match(text) {
            break;
        }
        report.lines.end = number + 1;
    }
    who.complete_from(&stream);
    Report { who, ..report }
}

/// The beginning of a line, with room for prefixes and a short message.
fn head(log: &PastedLog, number: usize) -> &str {
    const HEAD: usize = 512;
    let line = log.line(number).unwrap_or_default();
    effort::count(line.len().min(HEAD));
    line.get(..line.floor_char_boundary(HEAD)).unwrap_or_default()
}

fn number(found: &Captures<'_>, group: usize) -> Option<u64> {
    found.get(group)?.as_str().parse().ok()
}

fn pid(found: &Captures<'_>, group: usize) -> Option<u32> {
    found.get(group)?.as_str().parse().ok()
}

fn word(found: &Captures<'_>, group: usize) -> Option<String> {
    Some(found.get(group)?.as_str().to_owned())
}
