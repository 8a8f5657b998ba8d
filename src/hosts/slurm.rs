//! Owns what Slurm says of its nodes and jobs: which commands ask for it, and what their text means. Text, because the JSON
//! changes its shape from version to version (`job_state` became a list in 23.11, `nodes` an object in 24.05).
//! Formats: slurm.schedmd.com/scontrol.html, srun.html, gres.html; tried with 22.05.8 (2026-11-23).

mod sampled;

use std::collections::BTreeMap;

pub use self::sampled::{most_sampled, sampled_argv};
use super::name::{JobId, Partition};
use super::{Allotment, Given, HostName, Slice, Unavailable, only_one};
use crate::source::slurm::field;
use crate::text::harmless;
use crate::units::Bytes;

/// A job is looked into on no more nodes than this, and no list names more.
pub const MOST_NODES: usize = 1024;
/// No machine has so many GPUs.
const MOST_GPUS: u32 = 1024;
/// Enough of a reason or a name to be understood.
const MOST_SHOWN: usize = 120;
/// No name of a machine, with its ranges, is so long.
const LONGEST_NAME: usize = 1024;

fn argv(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

/// Prints all nodes, one a line.
pub fn nodes_argv() -> Vec<String> {
    argv(&["scontrol", "-o", "show", "node", "-d"])
}

/// Prints a partition.
pub fn partition_argv(partition: &Partition) -> Vec<String> {
    argv(&["scontrol", "-o", "show", "partition", partition.as_str()])
}

/// Prints a job, or those of an array, one a line.
pub fn job_argv(job: &JobId) -> Vec<String> {
    argv(&["scontrol", "-o", "show", "job", "-d", job.as_str()])
}

/// Prints all jobs, one a line.
pub fn all_jobs_argv() -> Vec<String> {
    argv(&["scontrol", "-o", "show", "job", "-d"])
}

/// Runs this program's sampler on a node inside a running job. The step takes none of the job's resources (`--overlap`), ends
/// after a minute whatever happens to srun, and needs no MPI.
pub fn sample_argv(job: &JobId, node: &HostName, interval: f64) -> Vec<String> {
    let jobid = format!("--jobid={job}");
    let interval = interval.to_string();
    let step = ["srun", "--overlap", &jobid, "-w", node.as_str(), "-N1", "-n1", "--time=1", "--mpi=none"];
    let sampler = ["oomdoctor", "--interval", &interval, "sample", "--count", "2"];
    argv(&[&step[..], &sampler[..]].concat())
}

/// A node that has GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: HostName,
    partitions: Vec<String>,
    pub allotment: Allotment,
}

impl Node {
    pub fn is_in(&self, partition: &Partition) -> bool {
        self.partitions.iter().any(|name| name == partition.as_str())
    }

    /// Notes that a partition in this state gives out nothing of it.
    pub fn closed_by(&mut self, partition: &Partition, state: &str) {
        self.allotment.is_open = false;
        self.allotment.state = format!("{}, partition {} {}", self.allotment.state, partition.as_str(), shown(state));
    }
}

/// The nodes with GPUs of what `nodes_argv` printed.
pub fn nodes(printed: &str) -> Vec<Node> {
    printed.lines().filter_map(node).collect()
}

fn node(row: &str) -> Option<Node> {
    if !row.starts_with("NodeName=") {
        return None;
    }
    let name = word(row, "NodeName=")?;
    let all = gres(word(row, "Gres=")?);
    let used = word(row, "GresUsed=").map(gres);
    let gpus: Vec<&Gres> = all.iter().filter(|one| one.is_gpu()).collect();
    if gpus.is_empty() {
        return None;
    }
    let state = word(row, "State=").unwrap_or("UNKNOWN");
    let slices = slices(&all, used.as_deref());
    // A GPU of which a part was given cannot be given whole, and Slurm does not say here how many those are.
    let has_given_parts = slices.iter().any(|slice| slice.given != Some(0));
    let used_gpus: Option<Vec<&Gres>> = match &used {
        Some(used) if !has_given_parts => Some(used.iter().filter(|one| one.is_gpu()).collect()),
        _ => None,
    };
    Some(Node {
        name: name.parse().ok()?,
        partitions: word(row, "Partitions=").unwrap_or_default().split(',').map(str::to_owned).collect(),
        allotment: Allotment {
            gpus: sum(&gpus),
            given: used_gpus.as_deref().and_then(sum),
            given_indices: used_gpus.and_then(|used| all_indices(&used)),
            gpu_name: names(&gpus),
            state: with_reason(row, state),
            is_open: is_open(state),
            gpu_memory_bytes: None,
            ram_bytes: mebibytes(row, "RealMemory="),
            ram_given_bytes: mebibytes(row, "AllocMem="),
            slices,
            given_to: Vec::new(),
        },
    })
}

/// The first word of a row that begins with this, without it; `None` for Slurm's words for nothing.
fn word<'r>(row: &'r str, key: &str) -> Option<&'r str> {
    let value = row.split_ascii_whitespace().find_map(|word| word.strip_prefix(key))?;
    Some(value).filter(|value| !value.is_empty() && *value != "(null)" && *value != "N/A")
}

/// A field of memory, which Slurm prints in MiB without a unit.
fn mebibytes(row: &str, key: &str) -> Option<Bytes> {
    word(row, key)?.parse().ok().map(Bytes::mib)
}

/// A value that stands in the row once; `None` where it is ambiguous. A person may call a job anything, also what looks like
/// a field.
fn only<'r>(row: &'r str, key: &str) -> Option<&'r str> {
    only_one(row.split_ascii_whitespace().filter_map(|word| word.strip_prefix(key)))
}

fn shown(text: &str) -> String {
    harmless(text).chars().take(MOST_SHOWN).collect()
}

/// The words of a state in which jobs can start on a node, if not now, then later without anybody's doing. Every other word,
/// also one of a later version, means that they can't.
const OPEN: [&str; 11] = [
    "IDLE",
    "MIXED",
    "ALLOCATED",
    "COMPLETING",
    "CLOUD",
    "DYNAMIC",
    "DYNAMIC_NORM",
    "PLANNED",
    "POWERED_DOWN",
    "POWERING_UP",
    "PERFCTRS",
];

fn is_open(state: &str) -> bool {
    // `~` is a node that saves power, `#` one that starts, `-` one that is planned for a job; `*` does not respond.
    let words = state.trim_end_matches(['~', '#', '-']);
    words.split('+').all(|word| OPEN.contains(&word))
}

fn with_reason(row: &str, state: &str) -> String {
    let reason = row.split_once(" Reason=").map(|(_, reason)| reason.split(" [").next().unwrap_or(reason).trim());
    match reason.filter(|reason| !reason.is_empty() && *reason != "(null)") {
        Some(reason) => format!("{}: {}", shown(state), shown(reason)),
        None => shown(state),
    }
}

/// The state of a partition as `partition_argv` printed it.
pub fn partition_state(printed: &str) -> Option<&str> {
    printed.lines().find(|row| row.starts_with("PartitionName=")).and_then(|row| word(row, "State="))
}

/// A generic resource: `gpu:a100:8(S:0-1)`, `gpu:5(IDX:0-3,7)`, `gpu:fake(CNT:1)`.
#[derive(Debug, PartialEq, Eq)]
struct Gres {
    name: String,
    kind: Option<String>,
    count: Option<u64>,
    indices: Option<Vec<u32>>,
}

impl Gres {
    fn is_gpu(&self) -> bool {
        self.name == "gpu"
    }
}

fn gres(list: &str) -> Vec<Gres> {
    outside_of(list, '(', ')').into_iter().filter_map(one_gres).collect()
}

fn one_gres(text: &str) -> Option<Gres> {
    let (text, detail) = text.split_once('(').map_or((text, ""), |(text, detail)| (text, detail.trim_end_matches(')')));
    let mut parts: Vec<&str> = text.split(':').collect();
    let last_number = parts.last().and_then(|last| last.parse().ok());
    let count = match detail.strip_prefix("CNT:") {
        Some(count) => count.parse().ok(),
        None if parts.len() > 1 => {
            parts.pop();
            last_number
        }
        None => Some(1),
    };
    let indices = detail.strip_prefix("IDX:").and_then(|list| match list {
        // Of a node on which none is used.
        "N/A" if count == Some(0) => Some(Vec::new()),
        list => numbers(list),
    });
    let mut parts = parts.into_iter();
    let name = parts.next().filter(|name| !name.is_empty())?;
    Some(Gres { name: name.to_owned(), kind: parts.next().map(shown), count, indices })
}

/// The count of all together; `None` if one count is unknown.
fn sum(all: &[&Gres]) -> Option<u64> {
    all.iter().try_fold(0_u64, |sum, one| sum.checked_add(one.count?))
}

fn all_indices(all: &[&Gres]) -> Option<Vec<u32>> {
    let lists: Option<Vec<&Vec<u32>>> = all.iter().map(|one| one.indices.as_ref()).collect();
    Some(lists?.into_iter().flatten().copied().collect())
}

fn names(all: &[&Gres]) -> Option<String> {
    let names: Vec<&str> = all.iter().filter_map(|one| one.kind.as_deref()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// What Slurm calls parts of GPUs.
fn slices(all: &[Gres], used: Option<&[Gres]>) -> Vec<Slice> {
    let mut slices = Vec::new();
    for name in ["shard", "mps"] {
        if let Some(total) = sum_named(all, name).filter(|total| *total > 0) {
            let given = used.and_then(|used| sum_named(used, name));
            slices.push(Slice { name: name.to_owned(), total, given });
        }
    }
    slices
}

fn sum_named(all: &[Gres], name: &str) -> Option<u64> {
    sum(&all.iter().filter(|one| one.name == name).collect::<Vec<_>>())
}

/// `0-4,7` as numbers; `None` if it is anything else or too long.
fn numbers(list: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for range in list.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        if high >= MOST_GPUS {
            return None;
        }
        numbers.extend(low..=high);
        if numbers.len() > MOST_GPUS as usize {
            return None;
        }
    }
    Some(numbers)
}

/// The parts of a list between commas that are in no brackets.
fn outside_of(list: &str, open: char, close: char) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, character) in list.char_indices() {
        if character == open {
            depth += 1;
        } else if character == close {
            depth = depth.saturating_sub(1);
        } else if character == ',' && depth == 0 {
            parts.extend(list.get(begin..at));
            begin = at + 1;
        }
    }
    parts.extend(list.get(begin..));
    parts
}

/// The nodes that an expression such as `gpu[01-04,07],login` names; `None` if it is none, or names more than `MOST_NODES`.
pub fn expanded(expression: &str) -> Option<Vec<HostName>> {
    let mut names = Vec::new();
    for part in outside_of(expression, '[', ']') {
        names.extend(expanded_part(part)?);
        if names.len() > MOST_NODES {
            return None;
        }
    }
    names.iter().map(|name| name.parse().ok()).collect()
}

fn expanded_part(part: &str) -> Option<Vec<String>> {
    if part.len() > LONGEST_NAME {
        return None;
    }
    let mut names = vec![String::new()];
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, after) = after.split_once(']')?;
        let endings = endings(ranges)?;
        if names.len().checked_mul(endings.len())? > MOST_NODES {
            return None;
        }
        names = with_endings(&names, before, &endings);
        rest = after;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Some(names)
}

/// Each name followed by `before` and by each of the endings.
fn with_endings(names: &[String], before: &str, endings: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for name in names {
        all.extend(endings.iter().map(|end| format!("{name}{before}{end}")));
    }
    all
}

/// `01-03,7` as 01, 02, 03, 7: the width of the first number is kept.
fn endings(ranges: &str) -> Option<Vec<String>> {
    let mut endings = Vec::new();
    for range in ranges.split(',') {
        let (low_text, high_text) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u64, u64) = (low_text.parse().ok()?, high_text.parse().ok()?);
        if low_text.len() > 20 || high.checked_sub(low)? >= MOST_NODES as u64 || endings.len() > MOST_NODES {
            return None;
        }
        let width = low_text.len();
        endings.extend((low..=high).map(|number| format!("{number:0width$}")));
    }
    Some(endings)
}

/// A job, or a task of an array, that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The number that a step of it is started with.
    pub id: JobId,
    /// Its nodes, with what it was given on each.
    pub nodes: Vec<(HostName, Given)>,
}

/// The running jobs of what `job_argv` printed for this one. Fails with the state of a job that does not run.
pub fn jobs(asked: &JobId, printed: &str) -> Result<Vec<Job>, Unavailable> {
    let rows: Vec<&str> = printed.lines().filter(|row| row.starts_with("JobId=")).collect();
    let running: Vec<&&str> = rows.iter().filter(|row| only(row, "JobState=") == Some("RUNNING")).collect();
    if !running.is_empty() {
        return running.into_iter().map(|row| job(row)).collect();
    }
    let Some(row) = rows.first() else { return Err(Unavailable::new("scontrol printed no job")) };
    let state = shown(only(row, "JobState=").unwrap_or("unknown"));
    let what_to_do = match state.as_str() {
        "PENDING" => word(row, "Reason=").map(|reason| format!("Slurm says why: {}", shown(reason))),
        _ => Some(format!("read its log: oomdoctor diagnose --from slurm:{asked}")),
    };
    Err(Unavailable { why: format!("job {asked} is not running: {state}"), what_to_do })
}

/// Notes on each node which running jobs were given GPUs of it, from what `all_jobs_argv` printed. A job that is not clear
/// is left out.
pub fn note_jobs(nodes: &mut [Node], printed: &str) {
    let rows = printed.lines().filter(|row| row.starts_with("JobId=") && only(row, "JobState=") == Some("RUNNING"));
    let mut given: BTreeMap<HostName, Vec<Given>> = BTreeMap::new();
    for (name, on_node) in rows.filter_map(|row| job(row).ok()).flat_map(|job| job.nodes) {
        if on_node.gpus.is_some_and(|gpus| gpus > 0) {
            given.entry(name).or_default().push(on_node);
        }
    }
    for node in nodes {
        node.allotment.given_to = given.remove(&node.name).unwrap_or_default();
    }
}

fn job(row: &str) -> Result<Job, Unavailable> {
    let id = word(row, "JobId=").and_then(|id| id.parse::<JobId>().ok());
    let names = only(row, "NodeList=").and_then(expanded);
    let (Some(id), Some(names)) = (id, names) else {
        return Err(Unavailable::new("what Slurm says of the job is not clear"));
    };
    let user = only(row, "UserId=").map(|user| shown(user.split('(').next().unwrap_or(user)));
    let name = field(row, " JobName=").map(shown);
    let output = field(row, " StdOut=").filter(|path| path.starts_with('/')).map(|path| harmless(path).into_owned());
    let on_every_node = Given { source: format!("slurm:{id}"), name, user, output, ..Given::default() };
    let groups = given_on(row);
    let nodes = names.into_iter().map(|node| {
        let given = given_on_node(&on_every_node, &groups, &node);
        (node, given)
    });
    let nodes = nodes.collect();
    Ok(Job { id, nodes })
}

/// What a job was given on one of its nodes. `groups` are its nodes with their resources, as `given_on` reads them.
fn given_on_node(on_every_node: &Given, groups: &[(Vec<HostName>, Vec<Gres>)], node: &HostName) -> Given {
    let resources = groups.iter().find(|(nodes, _)| nodes.contains(node)).map(|(_, resources)| resources);
    let gpus: Option<Vec<&Gres>> = resources.map(|all| all.iter().filter(|one| one.is_gpu()).collect());
    let indices = gpus.as_deref().and_then(all_indices).unwrap_or_default();
    Given {
        gpus: gpus.as_deref().and_then(sum),
        devices: indices.iter().map(u32::to_string).collect(),
        ..on_every_node.clone()
    }
}

/// The groups of nodes of a job, each with its resources: ` Nodes=gpu[01-02] CPU_IDs=0-7 Mem=1 GRES=gpu:a100:2(IDX:0-1)`.
fn given_on(row: &str) -> Vec<(Vec<HostName>, Vec<Gres>)> {
    let mut groups: Vec<(Vec<HostName>, Vec<Gres>)> = Vec::new();
    let mut nodes_left = MOST_NODES;
    for word in row.split_ascii_whitespace() {
        if let Some(nodes) = word.strip_prefix("Nodes=").and_then(expanded) {
            let Some(left) = nodes_left.checked_sub(nodes.len().max(1)) else { break };
            nodes_left = left;
            groups.push((nodes, Vec::new()));
        } else if let (Some(list), Some((_, given))) = (word.strip_prefix("GRES="), groups.last_mut()) {
            *given = gres(list);
        }
    }
    groups
}

/// Why a step on a node ended without a reading, from what srun said.
pub fn why_no_step(said: &str) -> Unavailable {
    if has_any_of(said, &["execve()", "No such file or directory"]) {
        let what_to_do = Some("install it in a folder that the nodes share and that is on PATH".to_owned());
        return Unavailable { why: "oomdoctor is not installed there".to_owned(), what_to_do };
    }
    if has_any_of(said, &["ccess denied", "ermission denied", "Access/permission"]) {
        return Unavailable::new("Slurm lets only the owner look into this job");
    }
    if has_any_of(said, &["Invalid job id", "Job/step already completing or completed"]) {
        return Unavailable::new("the job ended");
    }
    said_by("srun", said)
}

fn has_any_of(said: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| said.contains(sign))
}

/// What a command of Slurm said about its failure.
pub fn said_by(program: &str, said: &str) -> Unavailable {
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    Unavailable::new(line.map_or_else(|| format!("{program} failed without a message"), shown))
}

#[cfg(test)]
mod tests;
