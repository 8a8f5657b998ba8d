//! Owns the question whether a log was written on this machine, on which of its GPUs, and what became of the processes
//! that it names. When in doubt the log is from elsewhere, and nothing here is offered for termination because of it.

pub(crate) mod make;
pub(crate) mod names;
pub(crate) mod place;
pub(crate) mod which;

use self::make::other_maker;
use self::names::NamedGpus;
use self::place::{Fate, Named, Place};
use super::figures::with_own_process;
use super::input::Situation;
use super::naming::amount;
use super::retry;
use crate::gpu::{Device, GpuProcess, Host, Nature, Snapshot, Vantage};
use crate::knowledge::{Diagnosis, EntryId, Facts, MemoryKind, Platform, Program, Trait};
use crate::units::Bytes;

/// A log's figures are rounded and CUDA's capacity is a little under the driver's.
const CAPACITY_PERCENT: u64 = 3;
/// A living process may have grown a little since the crash.
const USE_PERCENT: u64 = 20;

/// Entries of a family that runs on Linux only, but for these of macOS's kernel.
const MAC_ENTRIES: [EntryId; 2] = [EntryId::KERNEL_JETSAM, EntryId::KERNEL_LOW_SWAP];

/// Finds the machine, the GPU and the processes that the log means.
pub(crate) fn locate<'a>(situation: &Situation<'a>) -> Place<'a> {
    let unknown = nothing_known(situation);
    let Some(snapshot) = situation.snapshot else { return unknown };
    if let Some(because) = other_system(situation, snapshot) {
        return elsewhere(because, unknown);
    }
    let is_about_a_gpu = matches!(situation.diagnosis.memory, Some(MemoryKind::Gpu | MemoryKind::KvCache));
    if snapshot.devices.is_empty() && is_about_a_gpu {
        return unknown;
    }
    let named_gpus = match names::named(situation, snapshot) {
        NamedGpus::Elsewhere(because) => return elsewhere(because, unknown),
        NamedGpus::Beside => return unknown,
        NamedGpus::Here(devices) => Some(devices),
        NamedGpus::Nothing => None,
    };
    if !is_about_a_gpu {
        return by_ram(situation, &snapshot.host, unknown, named_gpus.is_some());
    }
    if let Some(because) =
        missing_index(situation, snapshot).or_else(|| other_maker(situation.diagnosis, &snapshot.devices))
    {
        return elsewhere(because, unknown);
    }
    let is_named = named_gpus.is_some();
    let mut jobs = named_gpus.unwrap_or_else(|| snapshot.devices.iter().collect());
    jobs.retain(|device| runs_jobs(device));
    match situation.diagnosis.facts.total_bytes {
        Some(total) => by_capacity(situation, snapshot, &jobs, total, unknown),
        // A name is as good as a capacity.
        None if is_named => on_one_of(situation, &jobs, unknown),
        None => by_uuid_or_the_only_one(situation, jobs, unknown),
    }
}

/// The failure as other ranks tell of it, of those on whose GPUs a process that they name still runs.
pub(crate) fn other_ranks<'a>(situation: &Situation<'a>) -> Vec<Diagnosis> {
    let ranks = &situation.diagnosis.run.ranks;
    let mut told: Vec<Diagnosis> = ranks.iter().map(|facts| as_told_by(facts, situation.diagnosis)).collect();
    told.retain(|diagnosis| {
        let place = locate(&Situation { diagnosis, ..*situation });
        place.named.iter().any(Named::is_alive)
    });
    told
}

fn as_told_by(facts: &Facts, diagnosis: &Diagnosis) -> Diagnosis {
    let first_failure = diagnosis.facts.first_failure.clone();
    let mut diagnosis = diagnosis.clone();
    diagnosis.facts = Facts { first_failure, ..facts.clone() };
    // On a GPU of its own each rank has that GPU's number.
    diagnosis.run.rank = facts.device.map(u64::from);
    diagnosis.run.ranks.retain(|other| other != facts);
    with_own_process(&diagnosis).unwrap_or(diagnosis)
}

/// What is known before the machine is looked at: the processes that the log names.
fn nothing_known<'a>(situation: &Situation<'a>) -> Place<'a> {
    let others = &situation.diagnosis.facts.other_processes;
    Place {
        named: others.iter().map(|named| unmatched(named.pid, named.bytes)).collect(),
        own: situation.own.map(|own| unmatched(own.pid, own.bytes)),
        ..Place::default()
    }
}

fn unmatched<'a>(pid: u32, bytes: Bytes) -> Named<'a> {
    Named { pid, bytes, fate: Fate::Unknown }
}

fn elsewhere(because: String, unknown: Place<'_>) -> Place<'_> {
    Place { same_machine: Some(false), because: Some(because), ..unknown }
}

/// A log about system memory: it is from here if it prints this machine's RAM or names one of its GPUs, or if the run was
/// one of this machine's processes. Most logs print neither, and then this machine's RAM says nothing about them.
fn by_ram<'a>(situation: &Situation<'_>, host: &Host, unknown: Place<'a>, names_gpu_here: bool) -> Place<'a> {
    let Some(total) = host.memory_total_bytes.value() else { return unknown };
    let facts = &situation.diagnosis.facts;
    if let Some(used) = facts.victim_rss_bytes.filter(|used| *used > total) {
        return elsewhere(format!("the killed process used {used} of RAM, and this machine has {total}"), unknown);
    }
    let prints_this_ram = facts.total_bytes.is_some_and(|printed| printed.within_percent(total, CAPACITY_PERCENT));
    let prints_other_ram =
        facts.total_bytes.is_some() && !prints_this_ram || facts.free_bytes.is_some_and(|free| free > total);
    let is_here = situation.has_run_here || prints_this_ram || names_gpu_here && !prints_other_ram;
    Place { same_machine: is_here.then_some(true), ..unknown }
}

/// Without a capacity and a name the log fits any machine. Its "device 0" is the framework's number, so that only a
/// single GPU can be it.
fn by_uuid_or_the_only_one<'a>(situation: &Situation<'a>, jobs: Vec<&'a Device>, unknown: Place<'a>) -> Place<'a> {
    if let Some(device) = which::of_its_uuid(situation, &jobs) {
        return Place { same_machine: Some(true), device: Some(device), ..unknown };
    }
    match jobs.as_slice() {
        [device] => Place { device: Some(device), ..unknown },
        _ => Place { candidates: jobs, ..unknown },
    }
}

/// What shows that the log ran on another operating system than this machine's.
fn other_system(situation: &Situation<'_>, snapshot: &Snapshot) -> Option<String> {
    let is_windows = snapshot.seen_from.contains(&Vantage::Windows);
    let is_mac = snapshot.seen_from.contains(&Vantage::Macos);
    let (ran, is_here) = match system(situation.diagnosis)? {
        Platform::Windows => ("on Windows", is_windows),
        Platform::Mac => ("on a Mac", is_mac),
        Platform::Linux => ("on Linux", !is_windows && !is_mac),
        // WSL has a part of Windows' RAM, which Windows does not show as such.
        Platform::Wsl => ("in WSL", !is_windows && !is_mac),
    };
    (!is_here).then(|| format!("it ran {ran}"))
}

/// The operating system that the log ran on, where it shows. A container runs on Linux, whatever is around it.
fn system(diagnosis: &Diagnosis) -> Option<Platform> {
    let (run, leading) = (&diagnosis.run, diagnosis.matches.first());
    if run.shell.is_some() || run.windows.is_some() {
        return Some(Platform::Windows);
    }
    if diagnosis.memory == Some(MemoryKind::Unified) && leading.is_some_and(|found| speaks_of_metal(&found.text)) {
        return Some(Platform::Mac);
    }
    match run.platform() {
        Some(Platform::Wsl) => return Some(Platform::Wsl),
        // A path below /Users may be one that somebody else's package was built in.
        Some(Platform::Mac) if !run.shows_linux() => return Some(Platform::Mac),
        _ => {}
    }
    let is_of_linux = leading.is_some_and(|found| is_of_linux(found.entry))
        || diagnosis.memory == Some(MemoryKind::Shm)
        || run.shows_linux();
    is_of_linux.then_some(Platform::Linux)
}

fn speaks_of_metal(text: &str) -> bool {
    ["MPS", "etal", "METAL", "IOGPU"].iter().any(|word| text.contains(word))
}

fn is_of_linux(entry: EntryId) -> bool {
    let family = entry.as_str().split('/').next().unwrap_or_default();
    Program::known(family).is_some_and(|program| program.has(Trait::LinuxOnly)) && !MAC_ENTRIES.contains(&entry)
}

/// A number that no GPU here has.
fn missing_index(situation: &Situation<'_>, snapshot: &Snapshot) -> Option<String> {
    let (count, index) = (snapshot.devices.len(), situation.device_number()?);
    let here = if count == 1 { "is one".to_owned() } else { format!("are {count}") };
    let is_missing = usize::try_from(index).is_ok_and(|index| index >= count);
    is_missing.then(|| format!("it ran on GPU {index}, here there {here}"))
}

fn by_capacity<'a>(
    situation: &Situation<'a>,
    snapshot: &'a Snapshot,
    jobs: &[&'a Device],
    total: Bytes,
    unknown: Place<'a>,
) -> Place<'a> {
    let fitting: Vec<&Device> = jobs.iter().copied().filter(|device| has_capacity(device, total)).collect();
    if !fitting.is_empty() {
        return on_one_of(situation, &fitting, unknown);
    }
    if may_be_an_unseen_instance(situation.diagnosis, snapshot, total) {
        return unknown;
    }
    elsewhere(other_capacity(snapshot, total), unknown)
}

/// Whether the log's capacity is this device's. CUDA prints what the driver leaves: without what it reserves for itself,
/// which on small GPUs is more than a few percent.
fn has_capacity(device: &Device, total: Bytes) -> bool {
    let Some(all) = device.memory.total_bytes.value() else { return false };
    let left = all.less(device.memory.reserved_bytes.value().unwrap_or(Bytes::ZERO));
    [all, left].into_iter().any(|here| here.within_percent(total, CAPACITY_PERCENT))
}

/// Whether it may have run in a MIG instance that cannot be seen from here.
fn may_be_an_unseen_instance(diagnosis: &Diagnosis, snapshot: &Snapshot, total: Bytes) -> bool {
    let devices = &snapshot.devices;
    let are_instances_seen = devices.iter().any(|device| device.nature == Some(Nature::MigInstance));
    let may_be_part_of_one = devices.iter().any(|device| {
        device.nature == Some(Nature::Split) && device.memory.total_bytes.value().is_none_or(|all| total <= all)
    });
    diagnosis.run.printed.contains_key("mig") || !are_instances_seen && may_be_part_of_one
}

/// The place, where the log is of one of these GPUs as far as its GPU goes: the processes that it names must fit, too.
fn on_one_of<'a>(situation: &Situation<'a>, fitting: &[&'a Device], unknown: Place<'a>) -> Place<'a> {
    let (named, own) = match matched(situation, fitting, &unknown) {
        Ok(matched) => matched,
        Err(because) => return elsewhere(because, unknown),
    };
    // The run's own process says which GPU it was on, too.
    let all: Vec<Named<'_>> = named.iter().chain(&own).cloned().collect();
    let (device, candidates) = which::which(situation, fitting, &all);
    let (named, own) = (on_device(named, device), on_device(own, device).into_iter().next());
    let is_here = all.iter().any(Named::is_alive) || device.is_some() || !candidates.is_empty();
    let same_machine = if is_here { Some(true) } else { None };
    let place = Place { same_machine, device, candidates, because: None, named, own };
    match retried_on(situation, &place) {
        Some(device) => Place { device: Some(device), candidates: Vec::new(), ..place },
        None => place,
    }
}

/// The named processes with what they use on the run's GPU, of those that are on several.
fn on_device<'a>(named: impl IntoIterator<Item = Named<'a>>, device: Option<&'a Device>) -> Vec<Named<'a>> {
    let row_there = |pid: u32| device.and_then(|device| device.processes.iter().find(|row| row.pid == pid));
    let moved = named.into_iter().map(|named| match named.fate {
        Fate::Alive(row, key) => Named { fate: Fate::Alive(row_there(row.pid).unwrap_or(row), key), ..named },
        Fate::Gone | Fate::Unknown => named,
    });
    moved.collect()
}

/// Where the run was started again, its retry shows which of several GPUs it gets.
fn retried_on<'a>(situation: &Situation<'a>, place: &Place<'a>) -> Option<&'a Device> {
    let retry = retry::the_one(&retry::candidates(situation, place.is_here()), place.device)?;
    place.candidates.iter().find(|device| retry.uses_of(device) > Bytes::ZERO).copied()
}

/// What became of the processes that the log names and of the run's own, or why the log is another machine's.
#[allow(clippy::type_complexity, reason = "the others and the run itself")]
fn matched<'a>(
    situation: &Situation<'a>,
    fitting: &[&'a Device],
    unknown: &Place<'a>,
) -> Result<(Vec<Named<'a>>, Option<Named<'a>>), String> {
    // The run's own PID is compared with its figure, too: the run may live on, as a notebook does.
    let mentions = unknown.named.iter().chain(&unknown.own);
    let fates: Vec<Result<Fate<'a>, Unlike<'a>>> = mentions.map(|named| fate(situation, fitting, named)).collect();
    // One process that is matched proves the machine, now or at an earlier reading. Another that uses more or less by now
    // has then grown or shrunk, and a PID that was given to a new process since means that the old one is gone.
    let is_met = situation.before.is_some_and(|before| !before.met.is_empty());
    let is_proved = is_met || fates.iter().any(|fate| matches!(fate, Ok(Fate::Alive(..))));
    let mut matched = Vec::new();
    for (named, fate) in unknown.named.iter().chain(&unknown.own).zip(fates) {
        let fate = match fate {
            Ok(fate) => fate,
            Err(unlike) if is_proved => unlike.if_here,
            Err(unlike) => return Err(unlike.because),
        };
        matched.push(Named { fate, ..named.clone() });
    }
    let own = if unknown.own.is_some() { matched.pop() } else { None };
    Ok((matched, own))
}

/// A named process that is unlike the one of its PID here.
struct Unlike<'a> {
    /// Why the log is another machine's, if nothing proves that it is from here.
    because: String,
    /// What became of it, if something does.
    if_here: Fate<'a>,
}

/// What became of a named process, or why the log cannot be this machine's.
fn fate<'a>(situation: &Situation<'_>, fitting: &[&'a Device], named: &Named<'_>) -> Result<Fate<'a>, Unlike<'a>> {
    let Some(row) = row_of(named, fitting) else {
        // A container counts its own PIDs: its PID 1 is none here, and behind a PID that is not proved may be the one meant.
        let has_unproved = fitting.iter().any(|device| device.processes.iter().any(|row| !row.proved));
        return Ok(if named.pid == 1 || has_unproved { Fate::Unknown } else { Fate::Gone });
    };
    let (Some(key), true) = (row.key(), row.proved) else { return Ok(Fate::Unknown) };
    // It was matched at an earlier reading, so that it is the one now, whatever it uses.
    if situation.before.is_some_and(|before| before.met.contains(&key)) {
        return Ok(Fate::Alive(row, key));
    }
    let (uses, was_there) = (row.used_bytes.value(), situation.was_there_before(row));
    if uses.is_some_and(|uses| !uses.within_percent(named.bytes, USE_PERCENT)) {
        let because =
            format!("the log's process {} used {}, the one here uses {}", named.pid, named.bytes, amount(uses));
        let if_here = match was_there {
            Some(true) => Fate::Alive(row, key),
            Some(false) => Fate::Gone,
            None => Fate::Unknown,
        };
        return Err(Unlike { because, if_here });
    }
    match (uses, was_there) {
        (Some(_), Some(true)) => Ok(Fate::Alive(row, key)),
        // The log's stamp has no zone and perhaps an old date; only the time of its file or paste is sure.
        (_, Some(false)) if !is_started_after_upper_bound(situation, row) => Ok(Fate::Unknown),
        (_, Some(false)) => Err(Unlike {
            because: format!("process {} here was started after the crash", named.pid),
            if_here: Fate::Gone,
        }),
        _ => Ok(Fate::Unknown),
    }
}

/// The row of a named process: of one on several GPUs, the one that uses about what the log says.
fn row_of<'a>(named: &Named<'_>, fitting: &[&'a Device]) -> Option<&'a GpuProcess> {
    let mut rows = fitting.iter().flat_map(|device| &device.processes).filter(|row| row.pid == named.pid);
    let alike = rows
        .clone()
        .find(|row| row.used_bytes.value().is_some_and(|uses| uses.within_percent(named.bytes, USE_PERCENT)));
    alike.or_else(|| rows.next())
}

/// Whether it was started after the latest moment at which the run can have died.
fn is_started_after_upper_bound(situation: &Situation<'_>, row: &GpuProcess) -> bool {
    match (situation.crashed_by, row.started_at.value()) {
        (Some(bound), Some(started)) => started > bound,
        _ => true,
    }
}

/// Whether a job can run on it: on a GPU that is split (MIG) it runs in an instance, which it sees as a GPU.
fn runs_jobs(device: &Device) -> bool {
    device.nature != Some(Nature::Split)
}

fn other_capacity(snapshot: &Snapshot, total: Bytes) -> String {
    let mut sizes: Vec<String> = Vec::new();
    for device in &snapshot.devices {
        let size = amount(device.memory.total_bytes.value());
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    format!("its GPU has {total}, here there is {}", sizes.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::gpu::Reading;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::knowledge::FixId;

    fn held() -> Bytes {
        Bytes::mib(11_500)
    }

    fn placed(diagnosis: &Diagnosis, snapshot: &Snapshot, check: impl Fn(&Place<'_>)) {
        let situation =
            Situation { snapshot: Some(snapshot), crashed_by: Some(noon_plus(0)), ..Situation::alone(diagnosis) };
        check(&locate(&situation));
    }

    fn with(rows: Vec<GpuProcess>) -> Snapshot {
        Snapshot { devices: vec![device(0, rows)], ..snapshot(0) }
    }

    #[test]
    fn a_named_process_that_still_runs_with_the_same_memory_is_found() {
        placed(&torch_oom(&[(4242, held())]), &with(vec![process(4242, held())]), |place| {
            assert_eq!(place.same_machine, Some(true));
            assert!(matches!(place.named[0].fate, Fate::Alive(row, _) if row.pid == 4242));
        });
    }

    #[test]
    fn a_process_that_cannot_fit_beside_the_run_is_the_run() {
        let own = |total: u64, allocated: u64, named: u64| {
            let mut facts = torch_oom(&[(4242, Bytes::mib(named))]).facts;
            (facts.total_bytes, facts.allocated_bytes) = (Some(Bytes::mib(total)), Some(Bytes::mib(allocated)));
            (facts.process_bytes, facts.reserved_unallocated_bytes) = (None, None);
            crate::advice::figures::own_process(&facts).map(|named| named.pid)
        };
        assert_eq!(own(45_414, 38_266, 45_342), Some(4242), "an engine with its graphs");
        assert_eq!(own(45_414, 10_000, 30_000), None, "both fit");
        assert_eq!(own(24_564, 300, 11_500), None);
        assert_eq!(own(24_564, 20_000, 90_000), None, "no process has more than the card");
    }

    #[test]
    fn a_process_that_was_matched_once_stays_matched_whatever_it_uses() {
        let diagnosis = torch_oom(&[(4242, held()), (5177, Bytes::gib(6))]);
        let reading = |one: Bytes, other: Bytes| with(vec![process(4242, one), process(5177, other)]);
        let elsewhere = reading(Bytes::gib(2), Bytes::gib(1));
        placed(&diagnosis, &elsewhere, |place| assert_eq!(place.same_machine, Some(false), "neither is alike"));
        placed(&diagnosis, &reading(held(), Bytes::gib(9)), |place| {
            assert_eq!(place.same_machine, Some(true), "one is, so the other has grown");
            assert!(place.named.iter().all(|named| matches!(named.fate, Fate::Alive(..))));
        });
        let (first, later) = (reading(held(), Bytes::gib(6)), elsewhere);
        let at = |snapshot: &Snapshot, before: Option<&crate::advice::Remembered>| {
            let alone = Situation::alone(&diagnosis);
            crate::advice::advise(&Situation {
                snapshot: Some(snapshot),
                crashed_by: Some(noon_plus(0)),
                before,
                ..alone
            })
        };
        let before = at(&first, None);
        assert_eq!(at(&later, Some(&before.remembered)).verdict.same_machine, Some(true), "both were met before");
        let mut reused = process(4242, Bytes::gib(1));
        (reused.start_ticks, reused.started_at) = (Reading::Known(99), Reading::Known(noon_plus(50)));
        assert_eq!(
            at(&with(vec![reused]), Some(&before.remembered)).verdict.same_machine,
            Some(true),
            "its PID was given away"
        );
    }

    #[test]
    fn a_rank_that_prints_itself_as_another_process_is_not_another_process() {
        let rank = |others: &[(u32, Bytes)]| Facts { process_bytes: None, ..torch_oom(others).facts };
        let here = with(vec![process(5177, Bytes::mib(812)), process(4242, held())]);
        for (others, is_held) in
            [(vec![(5177, Bytes::mib(812))], false), (vec![(5177, Bytes::mib(812)), (4242, held())], true)]
        {
            let mut diagnosis = torch_oom(&[]);
            diagnosis.run.ranks = vec![rank(&others)];
            let situation =
                Situation { snapshot: Some(&here), crashed_by: Some(noon_plus(0)), ..Situation::alone(&diagnosis) };
            let named: Vec<u32> =
                other_ranks(&situation).iter().flat_map(|one| &one.facts.other_processes).map(|one| one.pid).collect();
            assert_eq!(named, if is_held { vec![4242] } else { vec![] });
        }
    }

    #[test]
    fn a_named_process_that_no_longer_runs_is_gone() {
        placed(&torch_oom(&[(4242, held())]), &with(vec![]), |place| {
            assert_eq!(place.same_machine, Some(true));
            assert!(matches!(place.named[0].fate, Fate::Gone));
        });
    }

    #[test]
    fn another_gpu_another_figure_or_a_later_start_means_another_machine() {
        let mut big = torch_oom(&[(4242, held())]);
        big.facts.total_bytes = Some(Bytes::mib(81_000));
        let mut late = process(4242, held());
        late.started_at = Reading::Known(noon_plus(5));
        let cases = [
            (big, process(4242, held())),
            (torch_oom(&[(4242, held())]), process(4242, Bytes::gib(2))),
            (torch_oom(&[(4242, held())]), late),
        ];
        for (diagnosis, row) in cases {
            placed(&diagnosis, &with(vec![row]), |place| {
                assert_eq!(place.same_machine, Some(false));
                assert!(place.because.is_some() && place.device.is_none());
                assert!(place.named.iter().all(|named| matches!(named.fate, Fate::Unknown)));
            });
        }
    }

    #[test]
    fn an_unproved_pid_or_an_unknown_start_is_never_taken_for_the_named_one() {
        let mut foreign = process(4242, held());
        foreign.proved = false;
        let mut undated = process(4242, held());
        undated.started_at = Reading::Denied;
        for row in [foreign, undated] {
            placed(&torch_oom(&[(4242, held())]), &with(vec![row]), |place| {
                assert!(matches!(place.named[0].fate, Fate::Unknown));
            });
        }
    }

    #[test]
    fn the_logs_gpu_0_is_the_gpu_that_its_visible_devices_name() {
        let two = Snapshot { devices: vec![device(0, vec![]), device(1, vec![])], ..snapshot(0) };
        for (mask, card) in [("1", Some(1)), ("GPU-00000001", Some(1)), ("0,1", Some(0)), ("GPU-ffff", None)] {
            let mut diagnosis = torch_oom(&[]);
            diagnosis.run.visible_devices = Some(mask.into());
            placed(&diagnosis, &two, |place| {
                assert_eq!(place.device.map(|device| device.index), card, "{mask}");
            });
        }
    }

    /// Which GPU, or which it may be, of GPUs with this much each (GiB), where the log's card has 24.
    fn which(diagnosis: &Diagnosis, gib: &[u64], seen_from: &[Vantage]) -> (Option<u32>, Vec<u32>) {
        let card = |(index, gib): (u32, &u64)| {
            let mut card = device(index, vec![]);
            card.memory.total_bytes = Reading::Known(Bytes::gib(*gib));
            card
        };
        let devices = (0..).zip(gib).map(card).collect();
        let here = Snapshot { devices, seen_from: seen_from.to_vec(), ..snapshot(0) };
        let place = locate(&Situation { snapshot: Some(&here), ..Situation::alone(diagnosis) });
        let candidates = place.candidates.iter().map(|device| device.index).collect();
        (place.device.map(|device| device.index), candidates)
    }

    #[test]
    fn a_log_of_another_system_is_of_another_machine_and_one_of_this_system_may_be_of_this_machine() {
        let (mut of_windows, mut of_mac) = (torch_oom(&[]), torch_oom(&[]));
        of_windows.run.windows = Some("C:".into());
        of_mac.memory = Some(MemoryKind::Unified);
        of_mac.matches[0].text = "MPS backend out of memory".into();
        for (diagnosis, seen_from, is_another) in [
            (&of_windows, vec![], true),
            (&of_windows, vec![Vantage::Wsl], true),
            (&of_windows, vec![Vantage::Windows], false),
            (&of_windows, vec![Vantage::Macos], true),
            (&of_mac, vec![], true),
            (&of_mac, vec![Vantage::Windows], true),
            (&of_mac, vec![Vantage::Macos], false),
        ] {
            let here = Snapshot { seen_from, devices: Vec::new(), ..snapshot(0) };
            placed(diagnosis, &here, |place| {
                assert_eq!(place.same_machine, is_another.then_some(false), "{:?}", here.seen_from);
            });
        }
    }

    #[test]
    fn a_log_of_a_linux_server_is_not_of_the_mac_or_windows_machine_that_reads_it() {
        let of_linux = [
            "Nov 20 10:00:01 gpu042 kernel: Out of memory: Killed process 4242 (python) total-vm:90000000kB, anon-rss:60000000kB",
            "[123456.789012] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python,pid=4242,uid=1000",
            "ada@gpu042:~/run$ python train.py\nKilled\n",
            "./train.sh: line 3: 12345 Killed                  python train.py",
            "Traceback (most recent call last):\n  File \"/home/ada/run/train.py\", line 3, in <module>\nMemoryError\n",
            "Traceback (most recent call last):\n  File \"/root/train.py\", line 3, in <module>\nMemoryError\n",
            "Traceback (most recent call last):\n  File \"/opt/conda/lib/python3.11/site-packages/pandas/io.py\", line 3, in f\nMemoryError\n",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=4242.0. Some of the step tasks have been OOM Killed.",
            "RuntimeError: unable to open shared memory object </torch_4242> in read-write mode: No space left on device (28)",
            "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
            "State:          Terminated\n  Reason:       OOMKilled\n  Exit Code:    137\n",
        ];
        let of_mac = [
            "Traceback (most recent call last):\n  File \"/Users/ada/train.py\", line 3, in <module>\nMemoryError\n",
            "./train.sh: line 3: 12345 Killed: 9               python train.py",
        ];
        let of_windows = ["  File \"C:\\Users\\ada\\train.py\", line 3, in <module>\nMemoryError\n"];
        let anywhere = ["MemoryError", "zsh: killed     python train.py"];
        let base = crate::knowledge::KnowledgeBase::built_in().unwrap();
        let places = [("linux", vec![]), ("windows", vec![Vantage::Windows]), ("mac", vec![Vantage::Macos])];
        for (place, seen_from) in places {
            let here = Snapshot { seen_from, devices: Vec::new(), ..snapshot(0) };
            let logs = [("linux", &of_linux[..]), ("mac", &of_mac), ("windows", &of_windows), ("", &anywhere)];
            for (ran_on, text) in logs.iter().flat_map(|(ran_on, logs)| logs.iter().map(move |log| (*ran_on, *log))) {
                let diagnosis = base.diagnose(&crate::log::PastedLog::new(text.to_owned()), None);
                // "Killed: 9" alone does not show where it was.
                let is_told = !ran_on.is_empty() && !text.contains("Killed: 9");
                placed(&diagnosis, &here, |located| {
                    let expected = (is_told && ran_on != place).then_some(false);
                    assert_eq!(located.same_machine, expected, "on {place}: {text} {:?}", diagnosis.run);
                });
            }
        }
    }

    #[test]
    fn a_number_alone_does_not_tell_which_of_several_equal_gpus_it_is() {
        let mut diagnosis = torch_oom(&[]);
        let four = [24, 24, 24, 24];
        assert_eq!(which(&diagnosis, &four, &[]), (None, vec![0, 1, 2, 3]));
        assert_eq!(which(&diagnosis, &[24, 12], &[]), (Some(0), vec![]), "only one of that size");
        assert_eq!(which(&diagnosis, &[12, 24, 24], &[]), (None, vec![1, 2]), "never one of another size");
        diagnosis.facts.device = Some(2);
        assert_eq!(which(&diagnosis, &four, &[]), (None, vec![0, 1, 2, 3]), "it saw three of them at least");
        diagnosis.facts.device = Some(3);
        assert_eq!(which(&diagnosis, &four, &[]), (Some(3), vec![]), "it saw all four: none was hidden from it");
        diagnosis.facts.device = Some(0);
        diagnosis.run.tensor_parallel = Some(4);
        assert_eq!(which(&diagnosis, &four, &[]), (Some(0), vec![]), "it ran on all four");
        diagnosis.run.tensor_parallel = None;
        diagnosis.run.command = Some("torchrun --nproc_per_node=4 train.py".into());
        assert_eq!(which(&diagnosis, &four, &[]), (Some(0), vec![]), "a rank for each");
    }

    #[test]
    fn visible_devices_mean_this_machines_gpus_only_where_both_count_alike() {
        let mut diagnosis = torch_oom(&[]);
        diagnosis.run.visible_devices = Some("1".into());
        assert_eq!(which(&diagnosis, &[24, 24], &[]), (Some(1), vec![]));
        assert_eq!(which(&diagnosis, &[12, 24, 24], &[]), (None, vec![1, 2]), "CUDA counts the fastest card first");
        diagnosis.run.command = Some("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 python train.py".into());
        assert_eq!(which(&diagnosis, &[12, 24, 24], &[]), (Some(1), vec![]), "it was told to count as the bus does");
        diagnosis.run.command = None;
        diagnosis.run.container = Some("docker".into());
        assert_eq!(which(&diagnosis, &[24, 24], &[]), (None, vec![0, 1]), "a container counts what it was given");
        assert_eq!(which(&diagnosis, &[24, 24], &[Vantage::Container]), (Some(1), vec![]), "we are in it, too");
        diagnosis.run.container = None;
        diagnosis.run.launcher = Some("srun".into());
        assert_eq!(which(&diagnosis, &[24, 24], &[]), (None, vec![0, 1]), "so does a job");
        diagnosis.run.visible_devices = Some("GPU-00000001".into());
        assert_eq!(which(&diagnosis, &[24, 24], &[]), (Some(1), vec![]), "a UUID means one card everywhere");
        diagnosis.facts.total_bytes = None;
        assert_eq!(which(&diagnosis, &[24, 24], &[]), (Some(1), vec![]), "even without a capacity");
        diagnosis.run.visible_devices = None;
        diagnosis.facts.total_bytes = Some(Bytes::gib(24));
        diagnosis.run.launcher = None;
        let given = Some("CUDA_VISIBLE_DEVICES=1 python train.py");
        let here = Snapshot { devices: vec![device(0, vec![]), device(1, vec![])], ..snapshot(0) };
        let situation = Situation { snapshot: Some(&here), command: given, ..Situation::alone(&diagnosis) };
        assert_eq!(locate(&situation).device.map(|device| device.index), Some(1), "as the person says");
        let taken = crate::advice::Taken { changed: true, ..Default::default() };
        let changed = Situation { taken, ..situation };
        assert_eq!(locate(&changed).device.map(|device| device.index), None, "that is the next run's");
    }

    #[test]
    fn of_a_gpu_that_it_only_may_be_no_process_is_offered_and_no_figure_is_used() {
        let diagnosis = torch_oom(&[]);
        let fixes = [crate::knowledge::KnowledgeBase::built_in().unwrap().fix(FixId::END_HOLDER).unwrap().clone()];
        let viewer = crate::gpu::guard::Viewer { uid: 1000, lineage: vec![900, 1], ..Default::default() };
        let advised = |diagnosis: &Diagnosis, rows: Vec<GpuProcess>, others: Vec<GpuProcess>| {
            let here = Snapshot { devices: vec![device(0, rows), device(1, others)], ..snapshot(0) };
            crate::advice::advise(&Situation {
                fixes: &fixes,
                snapshot: Some(&here),
                viewer: Some(&viewer),
                crashed_by: Some(noon_plus(0)),
                ..Situation::alone(diagnosis)
            })
        };
        let holder = || vec![process(4242, Bytes::gib(17))];
        let advice = advised(&diagnosis, holder(), vec![process(77, Bytes::gib(17))]);
        assert!(advice.plan.iter().all(|planned| planned.target.is_none()), "{:?}", advice.plan);
        assert_eq!(advice.verdict.gpu_candidates, [0, 1]);
        let said = &advice.verdict.sentence;
        assert!(said.contains("GPU 0 as the job numbered it") && said.contains("GPU 0 or GPU 1"), "{said}");
        let ledger = advice.ledger.as_ref().unwrap();
        assert_eq!((ledger.device, ledger.is_now), (None, false), "the log's own figures");
        assert!(!crate::advice::words::verdict(&advice).join(" ").contains("free now"));
        // Named by its PID it is on one of them.
        let named = torch_oom(&[(4242, Bytes::gib(17))]);
        let advice = advised(&named, holder(), vec![]);
        assert_eq!((advice.verdict.gpu_candidates.len(), advice.plan[0].target.map(|key| key.pid)), (0, Some(4242)));
        // On both, it is offered all the same, once.
        let advice = advised(&named, holder(), holder());
        let targets: Vec<u32> = advice.plan.iter().filter_map(|planned| Some(planned.target?.pid)).collect();
        assert_eq!((advice.verdict.gpu_candidates, targets), (vec![0, 1], vec![4242]));
        // A log that was tied to a GPU stays tied to it after the process that tied it has exited.
        let empty = Snapshot { devices: vec![device(0, vec![]), device(1, vec![])], ..snapshot(9) };
        let before = advised(&named, holder(), vec![]);
        let later = crate::advice::advise(&Situation {
            snapshot: Some(&empty),
            before: Some(&before.remembered),
            crashed_by: Some(noon_plus(0)),
            ..Situation::alone(&named)
        });
        assert_eq!(later.ledger.and_then(|ledger| ledger.device), Some(0));
        // Gone, with room on either: the same run may work.
        let advice = advised(&named, vec![], vec![]);
        assert_eq!(advice.plan[0].fix, FixId::RUN_AGAIN);
        assert!(!advice.verdict.sentence.contains("GiB is free"), "{}", advice.verdict.sentence);
    }

    #[test]
    fn on_a_gpu_split_by_mig_the_logs_gpu_0_is_the_instance_of_its_size() {
        let of = |index: u32, nature: Option<Nature>, total: Bytes| {
            let mut device = Device { nature, ..device(index, vec![]) };
            device.uuid = Reading::Known(format!("MIG-{index:08}"));
            device.memory.total_bytes = Reading::Known(total);
            device
        };
        let split = |instances: &[u64]| {
            let instances = (1..).zip(instances).map(|(at, mib)| of(at, Some(Nature::MigInstance), Bytes::mib(*mib)));
            let card = of(0, Some(Nature::Split), Bytes::gib(80));
            Snapshot { devices: std::iter::once(card).chain(instances).collect(), ..snapshot(0) }
        };
        let found = |total: Option<u64>, mask: Option<&str>, instances: &[u64]| {
            let mut diagnosis = torch_oom(&[]);
            (diagnosis.facts.total_bytes, diagnosis.facts.device) = (total.map(Bytes::mib), Some(0));
            diagnosis.run.visible_devices = mask.map(str::to_owned);
            let here = split(instances);
            let situation = Situation { snapshot: Some(&here), ..Situation::alone(&diagnosis) };
            let place = locate(&situation);
            (place.same_machine, place.device.map(|device| device.index))
        };
        assert_eq!(
            found(Some(81_000), None, &[80_896]),
            (Some(true), Some(1)),
            "as large as the card, and not the card"
        );
        assert_eq!(found(Some(19_900), None, &[40_192, 19_968]), (Some(true), Some(2)));
        assert_eq!(found(Some(9_900), None, &[9_856, 9_856]), (Some(true), None), "either of two");
        assert_eq!(found(Some(9_900), Some("MIG-00000002"), &[9_856, 9_856]), (Some(true), Some(2)));
        assert_eq!(found(Some(9_900), None, &[40_192]), (Some(false), None));
        assert_eq!(found(Some(9_900), None, &[]), (None, None), "its instances can't be seen from here");
        assert_eq!(found(None, None, &[19_968]), (None, Some(1)));
    }

    #[test]
    fn a_log_without_a_capacity_says_nothing_about_the_machine() {
        let mut poor = torch_oom(&[]);
        poor.facts.total_bytes = None;
        placed(&poor, &with(vec![]), |place| assert_eq!(place.same_machine, None));
    }
}
