//! Owns who printed a line of a log that several ranks or hosts share, by the prefixes of launchers, engines and
//! `kubectl`. A prefix that could also be something else (`3: `, `node07: `) counts only where most lines carry it.

use std::collections::{BTreeMap, BTreeSet};

use regex::Captures;

use super::PastedLog;
use super::expression::Expression;
use crate::effort;

/// How much of a line's beginning may be prefixes.
const HEAD: usize = 256;
/// How many prefixes may stand one behind the other.
const LAYERS: usize = 6;

/// How many lines at the log's beginning and end show who prints lines: enough for a round of every rank's.
const FIRST: usize = 4_000;
const LAST: usize = 16_000;

/// Who printed a line, as far as the line says.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Teller {
    /// The host, the pod, or the address.
    pub host: Option<String>,
    /// The rank among all ranks of the job.
    pub rank: Option<u64>,
    /// The rank among those of its host.
    pub local_rank: Option<u64>,
    pub pid: Option<u32>,
    /// The number of its node, where `srun --label` tells nodes apart and not ranks.
    pub node: Option<u64>,
    /// What kind of process it is, such as `Worker` or `RayTrainWorker`.
    pub kind: Option<String>,
}

impl Teller {
    pub(crate) fn is_nobody(&self) -> bool {
        *self == Teller::default()
    }

    /// Whether it names a process, and not only where that runs.
    pub(crate) fn is_a_process(&self) -> bool {
        self.rank.is_some() || self.local_rank.is_some() || self.pid.is_some()
    }

    /// Whether nothing that both say differs.
    pub(crate) fn may_be(&self, other: &Teller) -> bool {
        agree(&self.host, &other.host)
            && agree(&self.rank, &other.rank)
            && agree(&self.local_rank, &other.local_rank)
            && agree(&self.pid, &other.pid)
            && agree(&self.node, &other.node)
    }

    /// Whether nothing tells both apart; of two with a rank that alone counts.
    pub(crate) fn is_same(&self, other: &Teller) -> bool {
        match (self.rank, other.rank) {
            (Some(one), Some(two)) => one == two,
            _ => self.kind == other.kind && self.may_be(other),
        }
    }

    /// Adds what `other` knows and this one does not.
    pub(crate) fn complete_from(&mut self, other: &Teller) {
        self.host = self.host.take().or_else(|| other.host.clone());
        self.rank = self.rank.or(other.rank);
        self.local_rank = self.local_rank.or(other.local_rank);
        self.pid = self.pid.or(other.pid);
        self.node = self.node.or(other.node);
    }

    /// Whether it only passes on what its workers told it.
    pub(crate) fn is_controller(&self) -> bool {
        const CONTROLLERS: [&str; 8] = [
            "APIServer",
            "ApiServer",
            "EngineCore",
            "TaskRunner",
            "Runner",
            "RolloutManager",
            "TrainController",
            "raylet",
        ];
        self.kind.as_deref().is_some_and(|kind| CONTROLLERS.contains(&kind))
    }
}

fn agree<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// When a form counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// It is no one's: a time, a stream's name. What follows it may be a prefix.
    Skipped,
    Always,
    /// If most lines have it, and several of its labels stand on several lines.
    IfCommon,
    /// The same, and the labels differ in their digits alone: `node01`, `node02`.
    IfCommonHosts,
}

/// A prefix. Its groups: `host`, `rank`, `local`, `pid`, `kind`, and `axes` for `DP0 TP1`.
struct Form {
    counts: Counts,
    /// Whether a text may begin with it: most lines have no prefix, and this is found out faster than by the pattern.
    may_begin: fn(&str) -> bool,
    pattern: Expression,
}

impl Form {
    const fn new(counts: Counts, may_begin: fn(&str) -> bool, pattern: &'static str) -> Form {
        Form { counts, may_begin, pattern: Expression::new(pattern) }
    }
}

fn bracket(text: &str) -> bool {
    text.starts_with('[')
}

fn parenthesis(text: &str) -> bool {
    text.starts_with('(')
}

fn digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

fn digit_or_blank(text: &str) -> bool {
    text.starts_with(' ') || digit(text)
}

fn capital(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
}

/// A name, and this byte behind it.
fn name_and(byte: u8, text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && memchr::memchr(byte, text.as_bytes()).is_some()
}

fn name_and_colon(text: &str) -> bool {
    name_and(b':', text)
}

fn name_and_bar(text: &str) -> bool {
    name_and(b'|', text)
}

fn name_and_hyphen(text: &str) -> bool {
    name_and(b'-', text)
}

/// `srun --label`. Under torchrun it is the number of a node.
const TASK: usize = 0;
/// SGLang prints it on the first line of a traceback only.
const SGLANG: usize = 1;

/// PyTorch prints it on error messages alone, so that a rank without an error may show nowhere.
const TORCH: usize = 2;

static FORMS: [Form; 20] = [
    Form::new(Counts::IfCommon, digit_or_blank, r"(?-u)^ {0,4}(?P<rank>\d{1,5}):(?: |$)"),
    Form::new(
        Counts::Always,
        bracket,
        r"(?-u)^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?P<axes>(?: (?:ATTN_)?(?:DP|PP|TP|EP)\d{1,4})+)\] ?",
    ),
    // PyTorch since 2.4.
    Form::new(Counts::Always, bracket, r"(?-u)^\[rank(?P<rank>\d{1,5})\]: ?"),
    // Open MPI's --tag-output, as SageMaker changes it, and Horovod.
    Form::new(Counts::Always, bracket, r"(?-u)^\[\d{1,3},(?P<rank>\d{1,5})\]<std(?:out|err|diag)>: ?"),
    Form::new(
        Counts::Always,
        bracket,
        r"(?-u)^\[\d{1,3},mpirank:(?P<rank>\d{1,5}),(?P<host>[\w.-]+)\]<std(?:out|err|diag)>: ?",
    ),
    Form::new(Counts::Always, bracket, r"(?-u)^\[(?P<rank>\d{1,5})\]<std(?:out|err)>: ?"),
    // torchrun's --tee, with the name of the role.
    Form::new(Counts::Always, bracket, r"(?-u)^\[(?:default|trainer|worker)(?P<local>\d{1,4})\]: ?"),
    // kubectl logs --prefix.
    Form::new(Counts::Always, bracket, r"(?-u)^\[pod/(?P<host>[\w.-]+)/[\w.-]+\] ?"),
    // Lightning, and PyTorch's watchdog of NCCL.
    Form::new(Counts::Always, bracket, r"(?-u)^\[[rR]ank:? (?P<rank>\d{1,5})\] "),
    Form::new(Counts::IfCommon, bracket, r"(?-u)^\[(?P<host>[A-Za-z][\w-]{0,62}):(?P<rank>\d{1,4})\]: ?"),
    // Open MPI's own messages.
    Form::new(
        Counts::Always,
        bracket,
        r"(?-u)^\[(?P<host>[A-Za-z][\w.-]{0,62}):(?P<pid>\d{2,7})\] (?:\*\*\*|\[ ?\d+\]) ",
    ),
    Form::new(
        Counts::Skipped,
        bracket,
        r"(?-u)^\[(?:\d{4}-\d\d-\d\d[ T_][\d:.,]+|[EWIF]\d{0,4} [\d:. ]{0,24}[\w./]*:\d+)\] ?",
    ),
    // vLLM and Ray.
    Form::new(
        Counts::Always,
        parenthesis,
        r"(?-u)^\((?:(?P<kind>[A-Za-z][\w.-]{0,60}?)(?P<axes>(?:_(?:DP|DCP|PCP|PP|TP|EP)?\d{1,4})*)(?: rank=(?P<rank>\d{1,5}))? )?pid=(?P<pid>\d{1,7})(?:, ip=(?P<host>[\w.:-]+))?\) ?",
    ),
    Form::new(
        Counts::Skipped,
        digit,
        r"(?-u)^\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)? ?(?:std(?:out|err) [FP] )?",
    ),
    Form::new(Counts::Skipped, capital, r"(?-u)^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4} ?"),
    Form::new(
        Counts::Always,
        name_and_colon,
        r"(?-u)^(?P<host>[A-Za-z][\w.-]{0,62}):(?P<pid>\d{2,7}):\d{1,7} \[\d{1,3}\] NCCL ",
    ),
    // The journal, compose, stern, pdsh (which DeepSpeed starts its nodes by).
    Form::new(
        Counts::IfCommonHosts,
        capital,
        r"(?-u)^[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d (?P<host>[\w.-]+) [\w./@()\[\]-]+: ?",
    ),
    Form::new(Counts::IfCommonHosts, name_and_bar, r"(?-u)^(?P<host>[\w.-]{1,60}-\d{1,3})\s+\| ?"),
    Form::new(
        Counts::IfCommonHosts,
        name_and_hyphen,
        r"(?-u)^(?P<host>[a-z][a-z0-9-]{1,60}-\d{1,4}) [a-z][a-z0-9-]{1,60} (?u:[›│] )?",
    ),
    Form::new(
        Counts::IfCommonHosts,
        name_and_colon,
        r"(?-u)^(?P<host>[A-Za-z][\w.-]{0,60}\d[\w.-]{0,40}|\d{1,3}(?:\.\d{1,3}){3}): ",
    ),
];

/// One prefix of a line: its form, and whom it names.
type Layer = (usize, Teller);

/// The prefixes of a line and where its message begins.
fn layers(line: &str) -> (Vec<Layer>, usize) {
    let head = line.get(..line.floor_char_boundary(HEAD)).unwrap_or(line);
    let mut layers = Vec::new();
    let mut from = 0;
    for _ in 0..LAYERS {
        let Some(rest) = head.get(from..).filter(|rest| !rest.is_empty()) else { break };
        let Some((form, teller, length)) = next_layer(rest) else { break };
        from += length;
        if !teller.is_nobody() {
            layers.push((form, teller));
        }
    }
    (layers, from)
}

fn next_layer(rest: &str) -> Option<(usize, Teller, usize)> {
    FORMS.iter().enumerate().filter(|(_, form)| (form.may_begin)(rest)).find_map(|(index, form)| {
        let found = form.pattern.captures(rest)?;
        let teller = if form.counts == Counts::Skipped { Teller::default() } else { teller(&found) };
        let is_no_host = form.counts == Counts::IfCommonHosts && !teller.host.as_deref().is_some_and(may_be_host);
        let length = found.get(0)?.end();
        (!is_no_host && length > 0).then_some((index, teller, length))
    })
}

fn teller(found: &Captures<'_>) -> Teller {
    let axes = text(found, "axes").unwrap_or_default();
    let rank = number(found, "rank").or_else(|| rank_of_axes(axes));
    let kind = text(found, "kind").unwrap_or_default();
    // Of several axes the rank cannot be told, but they tell the workers apart.
    let kind = if rank.is_none() { format!("{kind}{axes}").trim().to_owned() } else { kind.to_owned() };
    Teller {
        host: text(found, "host").map(str::to_owned),
        rank,
        local_rank: number(found, "local"),
        pid: number(found, "pid").and_then(|pid| u32::try_from(pid).ok()),
        node: None,
        kind: (!kind.is_empty()).then_some(kind),
    }
}

fn text<'t>(found: &Captures<'t>, name: &str) -> Option<&'t str> {
    found.name(name).map(|group| group.as_str())
}

fn number(found: &Captures<'_>, name: &str) -> Option<u64> {
    text(found, name)?.parse().ok()
}

/// The rank by its number on the only axis that the model is split along: ` TP3`, `_DP0_EP0`. The experts' axis is laid
/// over the others.
fn rank_of_axes(axes: &str) -> Option<u64> {
    let mut named = axes.split([' ', '_']).filter(|axis| !axis.is_empty() && !axis.starts_with("EP"));
    let only = named.next()?;
    let digits = only.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    if named.next().is_some() { None } else { digits.parse().ok() }
}

/// Whether a word before a colon may be a host's name, and not a thing that a program counts.
fn may_be_host(word: &str) -> bool {
    !is_counted(word) && !word.contains(".py") && !word.contains(".c")
}

/// Whether a word is one that programs count, with its number: `gpu0`, `layer-3`.
pub(super) fn is_counted(word: &str) -> bool {
    const COUNTED: [&str; 17] = [
        "gpu", "cuda", "rocm", "vulkan", "device", "dev", "rank", "layer", "step", "epoch", "iter", "batch", "block",
        "shard", "cpu", "line", "loss",
    ];
    let stem = stem(word).to_ascii_lowercase();
    COUNTED.contains(&stem.trim_end_matches(['-', '_', '.']))
}

/// A host's name without its digits.
fn stem(host: &str) -> String {
    host.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// Who printed the lines of one log.
#[derive(Debug, Default)]
pub(crate) struct Tellers {
    /// Of each form whose prefixes count.
    is_counted: Vec<bool>,
    /// Every prefix that counts.
    all: Vec<Layer>,
    /// Whether `srun --label` numbers nodes, since a launcher starts the ranks of each.
    pub tasks_are_nodes: bool,
}

impl Tellers {
    /// Reads the prefixes of the log's first and last lines.
    pub(crate) fn of(log: &PastedLog) -> Tellers {
        let mut written = 0;
        let mut lines_of: BTreeMap<Layer, usize> = BTreeMap::new();
        let count = log.line_count();
        let last = count.saturating_sub(LAST).max(FIRST) + 1..=count;
        for line in (1..=count.min(FIRST)).chain(last).filter_map(|number| log.line(number)) {
            effort::count(line.len().min(HEAD));
            if line.trim_start().is_empty() {
                continue;
            }
            written += 1;
            for layer in layers(line).0 {
                *lines_of.entry(layer).or_default() += 1;
            }
        }
        let is_counted = (0..FORMS.len()).map(|form| counts(form, &lines_of, written)).collect();
        let mut tellers = Tellers { is_counted, ..Tellers::default() };
        tellers.all = lines_of.into_keys().filter(|(form, _)| tellers.does_count(*form)).collect();
        tellers
    }

    /// Everybody whom a prefix names.
    pub(crate) fn all(&self) -> impl Iterator<Item = Teller> {
        self.all.iter().map(|layer| self.named(layer.clone()))
    }

    /// The ranks of prefixes that all lines of a rank have.
    pub(crate) fn ranks_with_all_lines(&self) -> BTreeSet<u64> {
        self.all.iter().filter(|(form, _)| *form != TORCH).filter_map(|layer| self.named(layer.clone()).rank).collect()
    }

    /// Who printed this line, and where its message begins. What an inner prefix says counts more: it is nearer to
    /// whoever printed the line.
    pub(crate) fn of_line<'l>(&self, line: &'l str) -> Told<'l> {
        let (layers, mut from) = layers(line);
        let mut told = Told::default();
        if !layers.iter().all(|(form, _)| self.does_count(*form)) {
            from = 0;
        }
        for (form, teller) in layers.into_iter().filter(|(form, _)| self.does_count(*form)).rev() {
            let teller = self.named((form, teller));
            told.teller.complete_from(&teller);
            told.teller.kind = told.teller.kind.take().or(teller.kind.clone());
            if form != SGLANG {
                told.stream.complete_from(&teller);
                told.stream.kind = told.stream.kind.take().or(teller.kind);
            }
        }
        told.message = line.get(from..).unwrap_or(line);
        told
    }

    fn does_count(&self, form: usize) -> bool {
        self.is_counted.get(form).copied().unwrap_or(false)
    }

    fn named(&self, (form, teller): Layer) -> Teller {
        match teller.rank {
            Some(task) if form == TASK && self.tasks_are_nodes => Teller { node: Some(task), ..Teller::default() },
            _ => teller,
        }
    }
}

/// A line by who printed it.
#[derive(Debug, Default)]
pub(crate) struct Told<'l> {
    pub teller: Teller,
    /// Whose lines these are by the prefix that every line has.
    pub stream: Teller,
    /// The line without its prefixes.
    pub message: &'l str,
}

/// Whether the prefixes of this form are no accident.
fn counts(form: usize, lines_of: &BTreeMap<Layer, usize>, written: usize) -> bool {
    let Some(known) = FORMS.get(form) else { return false };
    let own: Vec<(&Teller, usize)> =
        lines_of.iter().filter(|((of, _), _)| *of == form).map(|((_, teller), lines)| (teller, *lines)).collect();
    let repeated = own.iter().filter(|(_, lines)| *lines > 1).count();
    let is_common =
        repeated > 1 && repeated * 2 > own.len() && own.iter().map(|(_, lines)| lines).sum::<usize>() * 2 > written;
    match known.counts {
        Counts::Skipped => false,
        Counts::Always => true,
        Counts::IfCommon => is_common,
        Counts::IfCommonHosts => {
            let stems: BTreeSet<String> =
                own.iter().filter_map(|(teller, _)| teller.host.as_deref()).map(stem).collect();
            is_common && stems.len() == 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tellers(log: &str) -> Vec<Teller> {
        Tellers::of(&PastedLog::new(log)).all().collect()
    }

    /// Host, rank, rank on its host and PID of one line.
    fn said(line: &str) -> (Option<String>, Option<u64>, Option<u64>, Option<u32>) {
        let teller = Tellers::of(&PastedLog::new(line)).of_line(line).teller;
        (teller.host, teller.rank, teller.local_rank, teller.pid)
    }

    #[test]
    fn prefixes_that_nothing_else_looks_like_are_read_from_one_line() {
        let host = |name: &str| Some(name.to_owned());
        let cases = [
            ("[rank3]: text", (None, Some(3), None, None)),
            ("2024-11-20 14:37:16 [rank3]: text", (None, Some(3), None, None)),
            ("[rank6]:[E624 04:14:29.224103812 ProcessGroupNCCL.cpp:684] [Rank 6] text", (None, Some(6), None, None)),
            ("[1,3]<stderr>:text", (None, Some(3), None, None)),
            ("Thu Jan 23 11:55:50 2025[1,1]<stderr>:    text", (None, Some(1), None, None)),
            ("[1,mpirank:3,algo-1]<stderr>:text", (host("algo-1"), Some(3), None, None)),
            ("[2]<stderr>:text", (None, Some(2), None, None)),
            ("[default3]:text", (None, None, Some(3), None)),
            ("[default3]:[rank11]: text", (None, Some(11), Some(3), None)),
            ("[rank: 3] Seed set to 42", (None, Some(3), None, None)),
            ("[pod/train-worker-3/pytorch] [rank3]: text", (host("train-worker-3"), Some(3), None, None)),
            ("(RayTrainWorker pid=1234, ip=10.0.0.7) text", (host("10.0.0.7"), None, None, Some(1234))),
            ("(pid=1234) text", (None, None, None, Some(1234))),
            ("(Worker_TP1 pid=160) ERROR 05-20 20:54:32 [a.py:1] text", (None, Some(1), None, Some(160))),
            ("(Worker_DP0_EP0 pid=160) text", (None, Some(0), None, Some(160))),
            ("(Worker_PP1_TP0 pid=160) text", (None, None, None, Some(160))),
            ("(VllmWorker rank=1 pid=77) text", (None, Some(1), None, Some(77))),
            ("(VllmWorkerProcess pid=2421) text", (None, None, None, Some(2421))),
            ("[2025-05-19 23:22:28 TP3] text", (None, Some(3), None, None)),
            ("[2025-09-22 10:25:22 DP1 PP1] text", (None, None, None, None)),
            ("[node07:12345] *** Process received signal ***", (host("node07"), None, None, Some(12345))),
            ("node07:312247:326969 [3] NCCL INFO text", (host("node07"), None, None, Some(312_247))),
        ];
        for (line, expected) in cases {
            assert_eq!(said(line), expected, "{line}");
        }
    }

    #[test]
    fn what_only_looks_like_a_prefix_is_none() {
        for log in [
            "1: open the file\n2: read it\n3: close it",
            "[1,3] torch.Size([1,3])\n[1,3]",
            "[0]:\n  time      : 2025-02-05_01:02:51",
            "GPU0: 79 GiB\nGPU1: 79 GiB\nGPU0: 12 GiB\nGPU1: 13 GiB",
            "step1: 0.3\nstep2: 0.2\nstep1: 0.1\nstep2: 0.1",
            "RuntimeError: CUDA out of memory\nValueError: no\nRuntimeError: CUDA out of memory\nValueError: no",
            "[core.py:868] text\n[core.py:869] text\n[core.py:868] text\n[core.py:869] text",
            "db-1  | ready\ndb-1  | ready\napi-2  | ready\napi-2  | ready",
        ] {
            assert_eq!(tellers(log), [], "{log}");
        }
    }

    #[test]
    fn a_prefix_that_may_be_something_else_counts_where_most_lines_carry_it() {
        let numbers = |log: &str| tellers(log).iter().filter_map(|teller| teller.rank).collect::<Vec<_>>();
        assert_eq!(numbers("srun: job 7\n0: a\n1: a\n0: b\n1: b\n1:\n"), [0, 1]);
        assert_eq!(numbers("00: a\n11: a\n00: b\n11: b"), [0, 11]);
        assert_eq!(numbers("[gpu187:0]:a\n[gpu187:1]:a\n[gpu187:0]:b\n[gpu187:1]:b"), [0, 1]);
        let hosts = |log: &str| tellers(log).into_iter().filter_map(|teller| teller.host).collect::<Vec<_>>();
        assert_eq!(hosts("node07: a\nnode08: a\nnode07: b\nnode08: b"), ["node07", "node08"]);
        assert_eq!(hosts("10.0.0.7: a\n10.0.0.8: a\n10.0.0.7: b\n10.0.0.8: b"), ["10.0.0.7", "10.0.0.8"]);
        assert_eq!(hosts("w-1  | a\nw-2  | a\nw-1  | b\nw-2  | b"), ["w-1", "w-2"]);
        assert_eq!(hosts("train-0 torch a\ntrain-1 torch a\ntrain-0 torch b\ntrain-1 torch b"), ["train-0", "train-1"]);
    }

    #[test]
    fn of_a_long_log_both_ends_show_who_prints() {
        let log = format!("[rank1]: a\n{}[rank2]: a\n{}[rank3]: a", "a\n".repeat(30_000), "a\n".repeat(30_000));
        let ranks: Vec<u64> = tellers(&log).iter().filter_map(|teller| teller.rank).collect();
        assert_eq!(ranks, [1, 3]);
        let tellers = Tellers::of(&PastedLog::new("a"));
        assert_eq!(tellers.of_line("[rank2]: a").teller.rank, Some(2));
    }

    #[test]
    fn tasks_of_srun_that_start_ranks_are_no_ranks() {
        let log = "0: a\n1: a\n0: b\n1: [rank9]: b";
        let tellers = Tellers { tasks_are_nodes: true, ..Tellers::of(&PastedLog::new(log)) };
        let teller = tellers.of_line("1: [rank9]: b").teller;
        assert_eq!((teller.node, teller.rank), (Some(1), Some(9)));
        assert_eq!(tellers.of_line("1: b").message, "b");
    }
}
