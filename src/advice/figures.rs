//! Owns the figures that follow from the log alone: what the run had, what it needed, what its allocator left unused, what
//! other processes used, and which process of those that the log names is the run itself. Bytes.

use crate::knowledge::{Diagnosis, EntryId, Facts, FixId, MemoryKind, NamedProcess};
use crate::units::Bytes;

/// What a process uses beside its allocator at most: a CUDA context of a few hundred MiB, library workspaces and NCCL
/// buffers, together up to about 2 GiB.
const BESIDE_ALLOCATOR: Bytes = Bytes::gib(2);
/// No process on a GPU has less: its CUDA context.
const SMALLEST_CONTEXT: Bytes = Bytes::mib(64);
/// A CUDA context takes a few hundred MiB, with libraries loaded up to this.
const CUDA_CONTEXT: Bytes = Bytes::mib(800);
/// Unused memory in pieces below either bound is in every pool and explains no failure.
const SMALLEST_FRAGMENTATION: Bytes = Bytes::mib(200);
const SMALLEST_FRAGMENTATION_PERCENT: u64 = 4;
/// Below this share of the GPU, what other processes used at the crash is their contexts, not their models.
const NEGLIGIBLE_PERCENT: u64 = 5;
/// Ranks that have come equally far use about the same, and are started with few other processes in between.
const RANKS_ALIKE_PERCENT: u64 = 10;
const PIDS_BETWEEN_RANKS: usize = 4;
/// This failure comes before the engine has loaded anything.
const STARTS_EMPTY: EntryId = EntryId::VLLM_FREE_MEMORY_LESS_THAN_DESIRED;

/// Seen from a container PyTorch finds its own PID nowhere and prints itself as one more "Process N has", without "this
/// process has" (c10/cuda/CUDACachingAllocator.cpp, `reportProcessMemoryInfo`: every process of the GPU is printed).
/// The run is then the process with at least what its allocator has and little more. A process with far more is another
/// one: taken for the run, it would no longer be compared with its figure here, and the log would fit any machine.
pub(crate) fn own_process(facts: &Facts) -> Option<NamedProcess> {
    if facts.process_bytes.is_some() {
        return None;
    }
    if facts.allocated_bytes.is_none() {
        return only_process(facts).cloned();
    }
    let had = facts.allocated_bytes?.plus(facts.reserved_unallocated_bytes.unwrap_or(Bytes::ZERO));
    let near = had..=had.plus(BESIDE_ALLOCATOR);
    let nearest =
        facts.other_processes.iter().filter(|named| near.contains(&named.bytes)).min_by_key(|named| named.bytes);
    nearest.or_else(|| facts.other_processes.iter().find(|named| exceeds_gpu_with(named, had, facts))).cloned()
}

/// The one process that a shortened message names, where beside it and what is free the GPU has no room for the CUDA
/// context that the run itself has there.
fn only_process(facts: &Facts) -> Option<&NamedProcess> {
    let [only] = facts.other_processes.as_slice() else { return None };
    let rest = facts.total_bytes?.less(facts.free_bytes?).less(only.bytes);
    (rest < SMALLEST_CONTEXT).then_some(only)
}

/// Whether a process and the run's allocator together have more than the whole GPU. Both cannot be there, so that the
/// process is the run, with graphs and buffers outside of its allocator.
fn exceeds_gpu_with(named: &NamedProcess, had: Bytes, facts: &Facts) -> bool {
    facts.total_bytes.is_some_and(|total| (had..=total).contains(&named.bytes) && had.plus(named.bytes) > total)
}

/// Whether an engine failed before it had loaded anything, since its share was in use.
pub(crate) fn starts_empty(diagnosis: &Diagnosis) -> bool {
    diagnosis.matches.first().is_some_and(|found| found.entry == STARTS_EMPTY)
}

/// The same diagnosis with the run's own process separated from the others, where the log prints it as one of them.
pub(crate) fn with_own_process(diagnosis: &Diagnosis) -> Option<Diagnosis> {
    let own = own_process(&diagnosis.facts)?;
    let mut diagnosis = diagnosis.clone();
    diagnosis.facts.process_bytes = Some(own.bytes);
    diagnosis.facts.other_processes.retain(|named| *named != own);
    Some(diagnosis)
}

/// Whether Windows probably refused VRAM because its commit limit was reached: the log shows what a larger page file is for.
pub(crate) fn is_commit_limit_likely(log: &Diagnosis) -> bool {
    log.signs.iter().any(|sign| sign.fixes.contains(&FixId::PAGING_FILE_FOR_VRAM))
}

/// What the run had when it failed, as its allocator printed it; the most complete figure first.
pub(crate) fn run_had(diagnosis: &Diagnosis) -> Option<Bytes> {
    let facts = &diagnosis.facts;
    let pooled = facts.allocated_bytes.map(|live| live.plus(facts.reserved_unallocated_bytes.unwrap_or(Bytes::ZERO)));
    facts.process_bytes.or(facts.reserved_bytes).or(pooled).or_else(|| buffers(diagnosis))
}

/// The buffers of a program that prints them as it makes them, on the GPU that failed.
pub(crate) fn buffers(diagnosis: &Diagnosis) -> Option<Bytes> {
    let run = &diagnosis.run;
    if !matches!(diagnosis.memory, Some(MemoryKind::Gpu | MemoryKind::Unified)) {
        return None;
    }
    if run.devices.is_some_and(|many| many != 1) {
        return run.on_failed_bytes;
    }
    [run.weights_bytes, run.kv_cache_bytes, run.compute_bytes].into_iter().flatten().reduce(Bytes::plus)
}

/// What the run needed, without what its allocator had in reserve and could have used again.
pub(crate) fn live_need(diagnosis: &Diagnosis) -> Option<Bytes> {
    let live = diagnosis.facts.allocated_bytes.or_else(|| run_had(diagnosis)).unwrap_or(Bytes::ZERO);
    diagnosis.facts.requested_bytes.map(|requested| requested.plus(live))
}

/// What PyTorch's allocator had unused, where that would have been enough for the request in one piece.
pub(crate) fn in_pieces(diagnosis: &Diagnosis) -> Option<Bytes> {
    let facts = &diagnosis.facts;
    let unused = match facts.reserved_unallocated_bytes {
        Some(unused) => unused,
        None => facts.reserved_bytes?.less(facts.allocated_bytes?),
    };
    let explains = match facts.total_bytes {
        Some(total) => is_share_of(unused, SMALLEST_FRAGMENTATION_PERCENT, total),
        None => unused >= SMALLEST_FRAGMENTATION,
    };
    (unused >= facts.requested_bytes? && explains).then_some(unused)
}

/// Whether the processes that the log names are ranks of the run itself: several, started one after the other, that have
/// come equally far. On GPU 0, which a process gets that chooses none, other processes may have been started in between;
/// on any other GPU their PIDs follow each other without a gap, and it is not the rank's own GPU.
pub(crate) fn are_ranks(diagnosis: &Diagnosis) -> bool {
    let others = &diagnosis.facts.other_processes;
    let (device, rank) = (diagnosis.facts.device.map(u64::from), diagnosis.run.rank);
    let is_of_many = (rank.is_some() || diagnosis.run.is_spread()) && (device == Some(0) || rank != device);
    let ([first, _, ..], true) = (others.as_slice(), is_of_many) else { return false };
    let most_apart = match device {
        Some(0) if rank.is_some() => PIDS_BETWEEN_RANKS * others.len(),
        // The run's own PID may stand between.
        _ => others.len() + 1,
    };
    pids_apart(others).is_some_and(|apart| apart < most_apart)
        && others.iter().all(|other| other.bytes.within_percent(first.bytes, RANKS_ALIKE_PERCENT))
}

fn pids_apart(processes: &[NamedProcess]) -> Option<usize> {
    let first = processes.iter().map(|named| named.pid).min()?;
    let last = processes.iter().map(|named| named.pid).max()?;
    usize::try_from(last.abs_diff(first)).ok()
}

/// What other processes used when the run failed: capacity − free − what the run had, where the log prints all three. An
/// allocator's own figure leaves out the CUDA context of its process; an engine that is only starting has no more.
pub(crate) fn used_by_others_at_crash(diagnosis: &Diagnosis) -> Option<Bytes> {
    let facts = &diagnosis.facts;
    let had = match facts.process_bytes {
        Some(had) => had,
        None => facts.reserved_bytes.unwrap_or(Bytes::ZERO).plus(own_context(diagnosis)?),
    };
    Some(facts.total_bytes?.less(facts.free_bytes?).less(had))
}

/// What was not free on its one GPU when the run began, less its own CUDA context: about. `capacity` is the GPU's, where
/// the log does not print it. `None` where the run would not have fitted with that either.
pub(crate) fn used_by_others_at_start(diagnosis: &Diagnosis, capacity: Option<Bytes>) -> Option<Bytes> {
    let run = &diagnosis.run;
    if run.devices.is_some_and(|many| many != 1) {
        return None;
    }
    let (free, needed) = (run.free_at_start_bytes?, live_need(diagnosis)?);
    let used = diagnosis.facts.total_bytes.or(capacity)?.less(free).less(CUDA_CONTEXT);
    (needed > free && needed <= free.plus(used)).then_some(used)
}

/// The CUDA context that the run's figures leave out: about. `None` where they are the whole process's, where it is not
/// known what they are, and on GPUs that have another driver.
pub(crate) fn own_context(diagnosis: &Diagnosis) -> Option<Bytes> {
    let facts = &diagnosis.facts;
    let is_starting = starts_empty(diagnosis);
    let leaves_it_out = facts.process_bytes.is_none() && (facts.reserved_bytes.is_some() || is_starting);
    let is_cuda = diagnosis.run.maker.is_none();
    (leaves_it_out && is_cuda).then_some(CUDA_CONTEXT)
}

/// Whether it is too small a part of the GPU to matter; never where the GPU's size is not known.
pub(crate) fn is_negligible(part: Bytes, whole: Option<Bytes>) -> bool {
    whole.is_some_and(|whole| !is_share_of(part, NEGLIGIBLE_PERCENT, whole))
}

/// Whether a part is at least so many percent of the whole.
pub(crate) fn is_share_of(part: Bytes, percent: u64, whole: Bytes) -> bool {
    u128::from(part.0) * 100 >= u128::from(whole.0) * u128::from(percent)
}

/// Figures that cannot be true together, in a sentence: one is larger than the GPU, beyond rounding.
pub(crate) fn contradiction(facts: &Facts) -> Option<String> {
    let total = facts.total_bytes?;
    let in_use = [facts.allocated_bytes, facts.process_bytes].into_iter().flatten().find(|had| exceeds(*had, total));
    if let Some(figure) = in_use {
        return Some(format!(
            "The log's figures contradict each other: {figure} in use on a GPU of {total}. On Windows the driver lends system memory to programs, and then counts it in."
        ));
    }
    let figure = facts.free_bytes.filter(|free| exceeds(*free, total))?;
    Some(format!("The log's figures contradict each other: {figure} free on a GPU of {total}. They are not used."))
}

fn exceeds(figure: Bytes, total: Bytes) -> bool {
    figure > total && !figure.within_percent(total, 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;

    fn pid_of_the_run(others: &[(u32, u64)], allocated: Option<u64>, printed: Option<u64>) -> Option<u32> {
        let others: Vec<(u32, Bytes)> = others.iter().map(|(pid, mib)| (*pid, Bytes::mib(*mib))).collect();
        let mut facts = torch_oom(&others).facts;
        (facts.allocated_bytes, facts.process_bytes) = (allocated.map(Bytes::mib), printed.map(Bytes::mib));
        own_process(&facts).map(|own| own.pid)
    }

    #[test]
    fn the_run_itself_is_the_process_with_little_more_than_its_allocator_has() {
        // The allocator has 20 MiB more, reserved and not allocated.
        assert_eq!(pid_of_the_run(&[(4242, 11_500)], Some(300), None), None, "far more: another process");
        assert_eq!(pid_of_the_run(&[(4242, 11_500)], Some(10_900), None), Some(4242));
        assert_eq!(pid_of_the_run(&[(4242, 11_500)], Some(11_490), None), None, "less than its allocator has");
        assert_eq!(pid_of_the_run(&[(4242, 12_900)], Some(10_900), None), Some(4242), "with NCCL's buffers");
        assert_eq!(pid_of_the_run(&[(4242, 13_100)], Some(10_900), None), None);
        assert_eq!(pid_of_the_run(&[(4242, 11_500), (5177, 812)], Some(300), None), Some(5177));
        assert_eq!(pid_of_the_run(&[(4242, 900), (5177, 812)], Some(300), None), Some(5177), "the nearest one");
        assert_eq!(pid_of_the_run(&[(4242, 0)], Some(300), None), None, "printed with nothing");
        assert_eq!(pid_of_the_run(&[(4242, 812)], Some(300), Some(700)), None, "the log prints this process by itself");
        assert_eq!(pid_of_the_run(&[(4242, 812)], None, None), None, "its allocator's figure is not known");
    }

    #[test]
    fn more_in_use_than_the_gpu_has_is_a_contradiction() {
        let mut diagnosis = torch_oom(&[]);
        assert!(contradiction(&diagnosis.facts).is_none());
        diagnosis.facts.allocated_bytes = Some(Bytes::gib(31));
        let said = contradiction(&diagnosis.facts).unwrap();
        assert!(said.contains(": 31.0 GiB in use on a GPU of 24.0 GiB."), "{said}");
    }
}
