//! Owns which rank, host or worker failed first where a log has several: by the times that its lines carry, else by
//! torchrun's own root cause, else by position. The others are consequences.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clock::{self, Moment};
use super::facts::Facts;
use super::launcher::{Launchers, Report};
use crate::log::PastedLog;
use crate::log::teller::{Teller, Tellers};

#[cfg(test)]
mod tests;

/// How many failures are read.
const READ: usize = 64;
/// A traceback may be this many lines below the line that says whose it is.
const TRACEBACK: usize = 200;

/// The first failure of a job of several ranks, hosts or workers.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstFailure {
    /// The host, the pod or the address, as the log names it.
    pub host: Option<String>,
    /// The rank among all ranks of the job.
    pub rank: Option<u64>,
    /// The process, as the log names it.
    pub pid: Option<u32>,
    /// The device index as printed with this failure: the framework's, which may differ from the driver's.
    pub device: Option<u32>,
    /// The number of its line, counted from 1.
    pub line: usize,
}

/// What became of the other ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Others {
    /// How many there are; unknown where the log does not show all of them.
    pub count: Option<u64>,
    /// How many failed in the same way.
    pub also_failed: u64,
}

/// The first failure among the hits of a log.
pub(super) struct First {
    /// The hit, by the index that was given with it.
    pub index: usize,
    pub failure: FirstFailure,
    pub others: Others,
    /// Whether it names one worker, and not only the server that passes its failure on.
    pub names_a_worker: bool,
}

/// A failure with whoever printed it.
struct Told {
    index: usize,
    line: usize,
    facts: Facts,
    who: Teller,
    at: Option<Moment>,
}

impl Told {
    /// Whether nothing tells both apart: the same rank, or the same figures where one of them names no process.
    fn is_same(&self, other: &Told) -> bool {
        let (one, two) = (&self.who, &other.who);
        let are_processes = one.is_a_process() && two.is_a_process();
        if are_processes { one.is_same(two) } else { one.may_be(two) && self.facts == other.facts }
    }

    /// Whether it can be told from other ranks' failures: by a name, or by its GPU.
    fn is_someone(&self) -> bool {
        self.who.is_a_process() || self.facts.device.is_some()
    }
}

/// Who printed the lines of a log of several ranks.
#[derive(Debug)]
pub(super) struct Ranks {
    tellers: Tellers,
    launchers: Launchers,
}

impl Ranks {
    /// `None` where nothing shows that there were several.
    pub(super) fn of(log: &PastedLog) -> Option<Ranks> {
        let mut tellers = Tellers::of(log);
        let launchers = Launchers::of(log, &mut tellers);
        let ranks = Ranks { tellers, launchers };
        ranks.are_several().then_some(ranks)
    }

    fn are_several(&self) -> bool {
        let all = self.everybody();
        let is_numbered = all.iter().any(|one| one.rank.max(one.local_rank).max(one.node) > Some(0));
        is_numbered || hosts_of(&all).len() > 1 || self.launchers.stopped > 1 || are_workers_of_many(&all)
    }

    /// Everybody whom a prefix or a launcher names.
    fn everybody(&self) -> Vec<Teller> {
        let reported = self.launchers.reports.iter().map(|report| &report.who);
        let quoted = self.launchers.headers.iter().map(|(_, who)| who);
        self.tellers.all().chain(reported.chain(quoted).cloned()).collect()
    }

    /// Who printed this line: by its own prefix, by the launcher's report that quotes it, else by the line above it that
    /// begins the traceback.
    fn at(&self, log: &PastedLog, line: usize) -> (Teller, Option<Moment>) {
        let text = log.line(line).unwrap_or_default();
        let told = self.tellers.of_line(text);
        let at = clock::moment(text);
        if let Some(report) = self.launchers.around(line) {
            return (report.who.clone(), at.or(report.at));
        }
        if let Some(header) = self.launchers.header(line) {
            return (header.clone(), at);
        }
        let is_a_worker = told.teller != told.stream || !told.teller.is_nobody() && !told.teller.is_controller();
        if is_a_worker {
            return (told.teller, at);
        }
        match self.header_above(log, line, &told.stream) {
            Some((who, above)) => (who, at.or(above)),
            None => (told.teller, at),
        }
    }

    /// The process that the lines above name, as far as they are of the same stream.
    fn header_above(&self, log: &PastedLog, line: usize, stream: &Teller) -> Option<(Teller, Option<Moment>)> {
        for number in (line.saturating_sub(TRACEBACK).max(1)..line).rev() {
            let text = log.line(number).unwrap_or_default();
            let told = self.tellers.of_line(text);
            if told.stream != *stream {
                continue;
            }
            if let Some(who) = self.launchers.header(number) {
                return Some((who.clone(), clock::moment(text)));
            }
            if told.teller != told.stream {
                let begins = told.message.contains("Traceback") || told.message.contains("hit an exception");
                return begins.then(|| (told.teller, clock::moment(text)));
            }
        }
        None
    }

    /// The first failure of those on these lines, each with an index by which `read` reads its figures; `None` where
    /// that is no failure after all.
    pub(super) fn first(
        &self,
        log: &PastedLog,
        places: &[(usize, usize)],
        read: impl Fn(usize) -> Option<Facts>,
    ) -> Option<First> {
        let told = self.told(log, places, read);
        let first = self.earliest(&told)?;
        let mut who = first.who.clone();
        if !who.is_a_process()
            && let Some(same) = told.iter().find(|other| other.who.is_a_process() && other.is_same(first))
        {
            who.complete_from(&same.who);
        }
        let apart = told.iter().filter(|other| !other.is_same(first) && other.is_someone()).count();
        if let Some(report) = self.report_on(&who, first.facts.device, apart) {
            who.complete_from(&report.who);
        }
        let others = Others { count: self.others(), also_failed: apart as u64 };
        let names_a_worker = who.is_a_process() && !who.is_controller();
        let failure = self.failure_of(who, first.facts.device, first.line);
        Some(First { index: first.index, failure, others, names_a_worker })
    }

    /// What torchrun calls the root cause, of a failure that is not about memory and stands on this line.
    pub(super) fn root_cause(&self, log: &PastedLog, line: usize) -> Option<FirstFailure> {
        let report = self.root_causes().into_iter().find(|root| self.is_clear(root))?;
        let is_its_line = shares_a_name(&self.at(log, line).0, &report.who);
        Some(self.failure_of(report.who.clone(), None, if is_its_line { line } else { report.lines.start }))
    }

    fn failure_of(&self, who: Teller, device: Option<u32>, line: usize) -> FirstFailure {
        // On a single node the local rank is the rank.
        let rank = who.rank.or(if self.is_one_node() { who.local_rank } else { None });
        FirstFailure { host: who.host, rank, pid: who.pid, device, line }
    }

    fn is_one_node(&self) -> bool {
        let all = self.everybody();
        let is_of_many = all
            .iter()
            .any(|one| one.node.is_some() || one.rank.zip(one.local_rank).is_some_and(|(rank, local)| rank != local));
        !is_of_many && !self.launchers.has_many_nodes && hosts_of(&all).len() < 2
    }

    /// Each rank's own first failure. What a server passes on of its workers is none.
    fn told(&self, log: &PastedLog, places: &[(usize, usize)], read: impl Fn(usize) -> Option<Facts>) -> Vec<Told> {
        let mut told: Vec<Told> = Vec::new();
        let mut reads = 0;
        for (line, index) in places {
            let (who, at) = self.at(log, *line);
            let is_known =
                who.is_a_process() && told.iter().any(|known| known.who.is_a_process() && known.who.is_same(&who));
            if is_known || reads >= READ {
                continue;
            }
            reads += 1;
            told.extend(read(*index).map(|facts| Told { index: *index, line: *line, facts, who, at }));
        }
        if told.iter().any(|one| !one.who.is_controller()) {
            told.retain(|one| !one.who.is_controller());
        }
        told
    }

    fn earliest<'t>(&self, told: &'t [Told]) -> Option<&'t Told> {
        let mut together: Vec<&Told> =
            told.iter().filter(|one| told.iter().all(|other| one.at <= other.at && one.at.is_some())).collect();
        if together.is_empty() {
            together = told.iter().collect();
        }
        let mut clear = self.root_causes().into_iter().filter(|root| self.is_clear(root));
        let of_root_cause = clear.find_map(|root| {
            let named = together.iter().find(|one| shares_a_name(&one.who, &root.who));
            named.or_else(|| {
                together.iter().find(|one| {
                    !one.who.is_a_process() && root.who.may_be(&one.who) && is_on_its_gpu(one.facts.device, &root.who)
                })
            })
        });
        of_root_cause.or_else(|| together.first()).copied()
    }

    /// What torchrun calls root causes, one a node, the earliest first.
    fn root_causes(&self) -> Vec<&Report> {
        let mut roots: Vec<&Report> = self.launchers.reports.iter().filter(|report| report.is_root_cause).collect();
        roots.sort_by(|one, other| {
            let by_time = one.at.zip(other.at).and_then(|(one, other)| one.partial_cmp(&other));
            one.is_consequence.cmp(&other.is_consequence).then(by_time.unwrap_or(std::cmp::Ordering::Equal))
        });
        roots
    }

    /// What a launcher says of this process: by a name that both have. A failure that names nobody is that of the rank
    /// with the number of its GPU; one on GPU 0 may be of a rank that sees its own GPU only. Then, and where no GPU is
    /// named, it is the first that failed by itself, if no other rank ran out of memory.
    fn report_on(&self, who: &Teller, device: Option<u32>, apart: usize) -> Option<&Report> {
        let all = self.root_causes().into_iter().chain(self.launchers.reports.iter());
        let mut reports = all.filter(|report| report.who.may_be(who));
        if who.is_a_process() {
            return reports.find(|report| shares_a_name(who, &report.who));
        }
        let of_its_gpu = reports.clone().find(|report| is_on_its_gpu(device, &report.who));
        let first = reports.find(|report| !report.is_consequence).filter(|first| apart == 0 && self.is_clear(first));
        match device {
            Some(0) => of_its_gpu
                .filter(|report| report.is_root_cause || first.is_none())
                .or(first.filter(|_| of_its_gpu.is_none())),
            Some(_) => of_its_gpu.or(first.filter(|report| report.who.local_rank.is_none())),
            None => first,
        }
    }

    /// Whether no other rank failed by itself in the same second: of those torchrun calls the lowest one the first.
    fn is_clear(&self, report: &Report) -> bool {
        self.launchers.reports.iter().all(|other| {
            let is_together = other.at.is_some() && other.at == report.at && !other.is_consequence;
            !is_together || other.who.rank == report.who.rank
        })
    }

    /// How many other ranks there are, where the log shows all of them.
    fn others(&self) -> Option<u64> {
        let ranks = self.tellers.ranks_with_all_lines();
        let count = ranks.len() as u64;
        let has_gaps = ranks.last().is_none_or(|last| *last + 1 != count);
        let by_prefix = if has_gaps { None } else { count.checked_sub(1) };
        let stopped = self.launchers.stopped as u64;
        let by_launcher = if self.launchers.counts_the_failed { stopped.checked_sub(1) } else { Some(stopped) };
        let others = by_prefix.max(if self.is_one_node() { by_launcher } else { None }).filter(|others| *others > 0)?;
        // A rank that is beyond them shows that there are more.
        self.everybody().iter().all(|one| one.rank <= Some(others)).then_some(others)
    }
}

fn hosts_of(all: &[Teller]) -> BTreeSet<&String> {
    all.iter().filter_map(|one| one.host.as_ref()).collect()
}

/// Whether a worker is there whose kind comes in numbers: two PIDs, or the kind that vLLM starts beside its own process.
fn are_workers_of_many(all: &[Teller]) -> bool {
    let mut pid_of_kind: BTreeMap<Option<&str>, u32> = BTreeMap::new();
    all.iter().filter(|one| !one.is_controller()).any(|one| {
        let kind = one.kind.as_deref();
        let is_another = one.pid.is_some_and(|pid| *pid_of_kind.entry(kind).or_insert(pid) != pid);
        is_another || kind == Some("VllmWorkerProcess")
    })
}

/// Whether a launcher numbers this process as the GPU that the failure names.
fn is_on_its_gpu(device: Option<u32>, who: &Teller) -> bool {
    device.is_some() && device.map(u64::from) == who.local_rank
}

/// Whether both name the same rank or process, and nothing that they say differs.
fn shares_a_name(one: &Teller, other: &Teller) -> bool {
    let shares = one.rank.is_some() && one.rank == other.rank
        || one.pid.is_some() && one.pid == other.pid
        || one.local_rank.is_some() && one.local_rank == other.local_rank;
    shares && one.may_be(other)
}
