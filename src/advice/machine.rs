//! Owns the question whether a log was written on this machine, on which of its devices, and what has become of the
//! processes it names. When in doubt the log is from elsewhere, and nothing here is offered for killing because of it.

mod names;
mod which;

use self::names::Named as Called;
use super::Situation;
use super::verdict::next_try;
use crate::gpu::{Device, GpuProcess, Nature, ProcessKey, Snapshot, Vantage};
use crate::knowledge::EntryId;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Platform};
use crate::knowledge::facts::Facts;
use crate::knowledge::program::{Program, Trait};
use crate::units::Bytes;

/// A log's figures are rounded and CUDA's capacity is a little under the driver's.
const CAPACITY_PERCENT: u64 = 3;
/// A living process may have grown a little since the crash.
const HOLDING_PERCENT: u64 = 20;

/// Entries of a family that runs on Linux only, but for these of macOS's kernel.
const MAC_ENTRIES: [EntryId; 2] = [EntryId::KERNEL_JETSAM, EntryId::KERNEL_LOW_SWAP];

/// Where the log belongs.
#[derive(Clone, Debug, Default)]
pub struct Place<'a> {
    /// `Some(true)`: this machine; `Some(false)`: another one; `None`: the log doesn't tell.
    pub same_machine: Option<bool>,
    /// The device it died on, as far as can be told.
    pub device: Option<&'a Device>,
    /// The devices that it may be, where several fit and nothing in the log ties it to one of them: its number alone
    /// does not, since a run counts from 0 what it may see. Empty where `device` is known.
    pub candidates: Vec<&'a Device>,
    /// Why it is taken to be from elsewhere, or why the device is not sure; for the evidence.
    pub because: Option<String>,
    /// The processes that the log names, in its order.
    pub named: Vec<Named<'a>>,
    /// The run itself, where the log prints it as one of them.
    pub own: Option<Named<'a>>,
}

/// A process the log names.
#[derive(Clone, Debug)]
pub struct Named<'a> {
    pub pid: u32,
    /// What it held then, as printed.
    pub bytes: Bytes,
    /// What has become of it.
    pub fate: Fate<'a>,
}

/// What has become of a process that the log names.
#[derive(Clone, Debug)]
pub enum Fate<'a> {
    /// It lives and still holds about that much.
    Alive(&'a GpuProcess, ProcessKey),
    /// No GPU lists it any more.
    Gone,
    /// The log is from elsewhere, or was read alone: nothing can be said.
    Unknown,
}

/// Finds the machine, the device and the processes that the log speaks of.
pub fn locate<'a>(situation: &Situation<'a>) -> Place<'a> {
    let named = || {
        let facts = &situation.diagnosis.facts.other_processes;
        facts.iter().map(|named| Named { pid: named.pid, bytes: named.bytes, fate: Fate::Unknown }).collect()
    };
    let own = situation.own.map(|own| Named { pid: own.pid, bytes: own.bytes, fate: Fate::Unknown });
    let nothing = Place { named: named(), own, ..Place::default() };
    let Some(snapshot) = situation.snapshot else { return nothing };
    let elsewhere = |because| Place { same_machine: Some(false), because: Some(because), ..nothing.clone() };
    if let Some(because) = foreign(situation, snapshot) {
        return elsewhere(because);
    }
    if snapshot.devices.is_empty() {
        return nothing;
    }
    let called = match names::named(situation, snapshot) {
        Called::Elsewhere(because) => return elsewhere(because),
        Called::Beside => return nothing,
        Called::Here(devices) => Some(devices),
        Called::Nothing => None,
    };
    if !matches!(situation.diagnosis.memory, Some(MemoryKind::Gpu | MemoryKind::KvCache)) {
        return nothing;
    }
    if let Some(because) = beyond(situation, snapshot).or_else(|| other_maker(situation)) {
        return elsewhere(because);
    }
    let jobs: Vec<&Device> =
        called.clone().unwrap_or_else(|| snapshot.devices.iter().collect()).into_iter().filter(runs_jobs).collect();
    match situation.diagnosis.facts.total_bytes {
        Some(total) => by_capacity(situation, snapshot, &jobs, total, nothing),
        // A name is as good as a capacity.
        None if called.is_some() => on(situation, &jobs, nothing),
        // Without either the log fits any machine; its "device 0" is the framework's, so only a single card is it.
        None => match which::of_its_uuid(situation, &jobs) {
            Some(device) => Place { same_machine: Some(true), device: Some(device), ..nothing },
            None => {
                let device = the_only(&jobs);
                Place { device, candidates: if device.is_some() { Vec::new() } else { jobs }, ..nothing }
            }
        },
    }
}

impl Place<'_> {
    /// Whether each device that it may be has so much free now; never where the device is known, or none is.
    pub fn each_candidate_has(&self, needed: Bytes) -> bool {
        let has = |device: &&Device| device.memory.free_bytes.value().is_some_and(|free| free >= needed);
        !self.candidates.is_empty() && self.candidates.iter().all(has)
    }

    /// The devices that it may be, in words; `None` where there is no choice.
    pub fn candidates_in_words(&self) -> Option<String> {
        (!self.candidates.is_empty()).then(|| which::listed(&self.candidates))
    }
}

/// What shows that the log ran on another system than this machine's.
fn foreign(situation: &Situation<'_>, snapshot: &Snapshot) -> Option<String> {
    let is_from = |vantage| snapshot.seen_from.contains(&vantage);
    let (name, is_here) = match system(situation.diagnosis)? {
        Platform::Windows => ("on Windows", is_from(Vantage::Windows)),
        Platform::Mac => ("on a Mac", is_from(Vantage::Macos)),
        Platform::Linux => ("on Linux", !is_from(Vantage::Windows) && !is_from(Vantage::Macos)),
        // WSL has a part of Windows' RAM, which Windows does not show as such.
        Platform::Wsl => ("in WSL", !is_from(Vantage::Windows) && !is_from(Vantage::Macos)),
    };
    (!is_here).then(|| format!("it ran {name}"))
}

/// The system that the log ran on, where it shows. A container runs on Linux, whatever is around it.
fn system(diagnosis: &Diagnosis) -> Option<Platform> {
    let (run, leading) = (&diagnosis.run, diagnosis.matches.first());
    if run.shell.is_some() || run.windows.is_some() {
        return Some(Platform::Windows);
    }
    let metal = |text: &str| ["MPS", "etal", "METAL", "IOGPU"].iter().any(|word| text.contains(word));
    if diagnosis.memory == Some(MemoryKind::Unified) && leading.is_some_and(|found| metal(&found.text)) {
        return Some(Platform::Mac);
    }
    match run.platform() {
        Some(Platform::Wsl) => return Some(Platform::Wsl),
        // A path below /Users may be one that somebody else's package was built in.
        Some(Platform::Mac) if !run.shows_linux() => return Some(Platform::Mac),
        _ => {}
    }
    let is_of_linux = |entry: EntryId| {
        let family = entry.as_str().split('/').next().unwrap_or_default();
        Program::known(family).is_some_and(|program| program.has(Trait::LinuxOnly)) && !MAC_ENTRIES.contains(&entry)
    };
    let by_entry = leading.is_some_and(|found| is_of_linux(found.entry)) || diagnosis.memory == Some(MemoryKind::Shm);
    (by_entry || run.shows_linux()).then_some(Platform::Linux)
}

/// The log's own words for another maker's card.
fn other_maker(situation: &Situation<'_>) -> Option<String> {
    let maker = maker(situation.diagnosis)?;
    Some(format!("it ran on an {maker} card, here there are NVIDIA's"))
}

/// Whose card the run was on, where that is no NVIDIA card.
pub fn maker(diagnosis: &Diagnosis) -> Option<&'static str> {
    let run = &diagnosis.run;
    let names = |words: &[&str]| {
        let of = |name: &str| words.iter().any(|word| name.contains(word));
        !run.cards.is_empty() && run.cards.iter().all(|card| of(&card.name))
    };
    match run.maker.as_deref() {
        Some("XPU") => Some("Intel"),
        Some(_) => Some("AMD"),
        None if names(&["AMD", "Radeon"]) => Some("AMD"),
        None if names(&["Intel", "Arc"]) => Some("Intel"),
        None => None,
    }
}

/// A number that no card here has.
fn beyond(situation: &Situation<'_>, snapshot: &Snapshot) -> Option<String> {
    let (many, named) = (snapshot.devices.len(), situation.device_index()?);
    let beyond = usize::try_from(named).is_ok_and(|named| named >= many);
    beyond.then(|| {
        format!("it ran on GPU {named}, here there {}", if many == 1 { "is one".into() } else { format!("are {many}") })
    })
}

/// The failure as other ranks tell of it, of those on whose cards somebody that they name still holds memory.
pub fn still_held(situation: &Situation<'_>) -> Vec<Diagnosis> {
    let ranks = &situation.diagnosis.run.ranks;
    let of = |own: &Facts| {
        let mut diagnosis = situation.diagnosis.clone();
        diagnosis.facts = own.clone();
        // On a card of its own each rank has that card's number.
        diagnosis.run.rank = own.device.map(u64::from);
        diagnosis.run.ranks.retain(|other| other != own);
        super::with_own_process(&diagnosis).unwrap_or(diagnosis)
    };
    let held = |one: &Diagnosis| {
        let place = locate(&Situation { diagnosis: one, ..*situation });
        place.named.iter().any(|named| matches!(named.fate, Fate::Alive(..)))
    };
    ranks.iter().map(of).filter(held).collect()
}

fn by_capacity<'a>(
    situation: &Situation<'a>,
    snapshot: &'a Snapshot,
    jobs: &[&'a Device],
    total: Bytes,
    nothing: Place<'a>,
) -> Place<'a> {
    // CUDA prints what the driver leaves: without what it holds back for itself, which on small cards is more than
    // a few percent.
    let fits = |device: &&Device| {
        let (all, held_back) = (device.memory.total_bytes.value(), device.memory.reserved_bytes.value());
        let left = all.map(|all| all.less(held_back.unwrap_or(Bytes::ZERO)));
        [all, left].into_iter().flatten().any(|here| here.within_percent(total, CAPACITY_PERCENT))
    };
    let fitting: Vec<&Device> = jobs.iter().filter(|device| fits(device)).copied().collect();
    let instances_are_seen = snapshot.devices.iter().any(|device| device.nature == Some(Nature::MigInstance));
    let may_be_a_part = |card: &Device| {
        card.nature == Some(Nature::Split) && card.memory.total_bytes.value().is_none_or(|all| total <= all)
    };
    let in_a_part = situation.diagnosis.run.printed.contains_key("mig");
    if fitting.is_empty() && (in_a_part || !instances_are_seen && snapshot.devices.iter().any(may_be_a_part)) {
        // An instance that can't be seen from here.
        return nothing;
    }
    if fitting.is_empty() {
        return Place { same_machine: Some(false), because: Some(other_card(snapshot, total)), ..nothing };
    }
    on(situation, &fitting, nothing)
}

/// The place, where the log is of one of these cards as far as its card goes: what it names must fit, too.
fn on<'a>(situation: &Situation<'a>, fitting: &[&'a Device], nothing: Place<'a>) -> Place<'a> {
    let fates: Vec<_> = nothing.named.iter().map(|mention| fate(situation, fitting, mention)).collect();
    // One that is matched proves the machine, now or at an earlier reading: then another that holds more or less by now
    // has grown or shrunk, and a PID that was given away since is one that has gone.
    let met = situation.before.is_some_and(|before| !before.met.is_empty());
    // The run's own PID is held against its figure, too: the run may live on, as a notebook does.
    let own = nothing.own.as_ref().map(|mention| fate(situation, fitting, mention));
    let is_alive = |fate: &Result<Fate<'_>, Unlike<'_>>| matches!(fate, Ok(Fate::Alive(..)));
    let is_here = met || fates.iter().chain(&own).any(is_alive);
    let mut named = Vec::new();
    for (mention, fate) in nothing.named.iter().chain(&nothing.own).zip(fates.into_iter().chain(own)) {
        match fate {
            Ok(fate) => named.push(Named { fate, ..mention.clone() }),
            Err(unlike) if is_here => named.push(Named { fate: unlike.here, ..mention.clone() }),
            Err(unlike) => {
                return Place { same_machine: Some(false), because: Some(unlike.because), ..nothing.clone() };
            }
        }
    }
    let (device, candidates) = which::which(situation, fitting, &named);
    let proved = named.iter().any(|named| matches!(named.fate, Fate::Alive(..)));
    let own = nothing.own.as_ref().and_then(|_| named.pop());
    let fits = proved || device.is_some() || !candidates.is_empty();
    let place = Place { same_machine: Some(true).filter(|_| fits), device, candidates, because: None, named, own };
    // Where the run was started again, its next try shows the card that it gets.
    let tried_on = next_try(situation, &place)
        .and_then(|next| place.candidates.iter().find(|device| next.holds_on(device) > Bytes::ZERO).copied());
    match tried_on {
        Some(device) => Place { device: Some(device), candidates: Vec::new(), ..place },
        None => place,
    }
}

/// A named process that is unlike the one of its PID here.
struct Unlike<'a> {
    /// Why the log is another machine's, if nothing proves that it is from here.
    because: String,
    /// What has become of it, if something does.
    here: Fate<'a>,
}

/// What became of a named process, or why the log can't be this machine's.
fn fate<'a>(situation: &Situation<'_>, fitting: &[&'a Device], mention: &Named<'_>) -> Result<Fate<'a>, Unlike<'a>> {
    let mut rows = fitting.iter().flat_map(|device| &device.processes).filter(|row| row.pid == mention.pid);
    // One process may be on several cards: the log tells of what it held on one of them.
    let alike = |row: &&GpuProcess| {
        row.used_bytes.value().is_some_and(|here| here.within_percent(mention.bytes, HOLDING_PERCENT))
    };
    let row = rows.clone().find(alike).or_else(|| rows.next());
    let Some(row) = row else {
        // A container counts its own: its PID 1 is nobody here, and behind a PID that is not proved may be the one meant.
        let foreign = fitting.iter().any(|device| device.processes.iter().any(|row| !row.proved));
        return Ok(if mention.pid == 1 || foreign { Fate::Unknown } else { Fate::Gone });
    };
    let (Some(key), true) = (row.key(), row.proved) else { return Ok(Fate::Unknown) };
    let here = row.used_bytes.value();
    // It was that one at an earlier reading, so that it is now, whatever it holds.
    if situation.before.is_some_and(|before| before.met.contains(&key)) {
        return Ok(Fate::Alive(row, key));
    }
    let before = situation.was_there_before(row);
    if here.is_some_and(|here| !here.within_percent(mention.bytes, HOLDING_PERCENT)) {
        let because = format!(
            "the log's process {} held {}, the one here holds {}",
            mention.pid,
            mention.bytes,
            super::amount(here)
        );
        let here = match before {
            Some(true) => Fate::Alive(row, key),
            Some(false) => Fate::Gone,
            None => Fate::Unknown,
        };
        return Err(Unlike { because, here });
    }
    match (here, before) {
        (Some(_), Some(true)) => Ok(Fate::Alive(row, key)),
        // The log's stamp has no zone and perhaps an old date; only the time of its file or paste is sure.
        (_, Some(false))
            if situation.crashed_by.zip(row.started_at.value()).is_some_and(|(by, started)| started <= by) =>
        {
            Ok(Fate::Unknown)
        }
        (_, Some(false)) => Err(Unlike {
            because: format!("process {} here was started after the crash", mention.pid),
            here: Fate::Gone,
        }),
        _ => Ok(Fate::Unknown),
    }
}

/// Whether a job can run on it: on a card that is split (MIG) it runs in an instance, of which it is told as of a card.
fn runs_jobs(device: &&Device) -> bool {
    device.nature != Some(Nature::Split)
}

fn the_only<'a>(devices: &[&'a Device]) -> Option<&'a Device> {
    if let [device] = devices { Some(device) } else { None }
}

fn other_card(snapshot: &Snapshot, total: Bytes) -> String {
    let mut sizes: Vec<String> = Vec::new();
    for device in &snapshot.devices {
        let size = super::amount(device.memory.total_bytes.value());
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    format!("its card has {total}, here there is {}", sizes.join(" and "))
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
    fn a_named_process_that_lives_and_fits_is_found() {
        placed(&torch_oom(&[(4242, held())]), &with(vec![process(4242, held())]), |place| {
            assert_eq!(place.same_machine, Some(true));
            assert!(matches!(place.named[0].fate, Fate::Alive(row, _) if row.pid == 4242));
        });
    }

    #[test]
    fn a_process_that_has_no_room_beside_the_run_is_the_run() {
        let own = |total: u64, allocated: u64, named: u64| {
            let mut facts = torch_oom(&[(4242, Bytes::mib(named))]).facts;
            (facts.total_bytes, facts.allocated_bytes) = (Some(Bytes::mib(total)), Some(Bytes::mib(allocated)));
            (facts.process_bytes, facts.reserved_unallocated_bytes) = (None, None);
            crate::advice::own_process(&facts).map(|named| named.pid)
        };
        assert_eq!(own(45_414, 38_266, 45_342), Some(4242), "an engine with its graphs");
        assert_eq!(own(45_414, 10_000, 30_000), None, "both fit");
        assert_eq!(own(24_564, 300, 11_500), None);
        assert_eq!(own(24_564, 20_000, 90_000), None, "no process has more than the card");
    }

    #[test]
    fn one_that_was_met_is_known_again_whatever_it_holds() {
        let diagnosis = torch_oom(&[(4242, held()), (5177, Bytes::gib(6))]);
        let reading = |one: Bytes, other: Bytes| with(vec![process(4242, one), process(5177, other)]);
        let elsewhere = reading(Bytes::gib(2), Bytes::gib(1));
        placed(&diagnosis, &elsewhere, |place| assert_eq!(place.same_machine, Some(false), "neither is alike"));
        placed(&diagnosis, &reading(held(), Bytes::gib(9)), |place| {
            assert_eq!(place.same_machine, Some(true), "one is, so the other has grown");
            assert!(place.named.iter().all(|named| matches!(named.fate, Fate::Alive(..))));
        });
        let (first, later) = (reading(held(), Bytes::gib(6)), elsewhere);
        let at = |snapshot: &Snapshot, before: Option<&crate::advice::Advice>| {
            let alone = Situation::alone(&diagnosis);
            crate::advice::advise(&Situation {
                snapshot: Some(snapshot),
                crashed_by: Some(noon_plus(0)),
                before,
                ..alone
            })
        };
        let before = at(&first, None);
        assert_eq!(at(&later, Some(&before)).verdict.same_machine, Some(true), "both were met before");
        let mut reused = process(4242, Bytes::gib(1));
        (reused.start_ticks, reused.started_at) = (Reading::Known(99), Reading::Known(noon_plus(50)));
        assert_eq!(at(&with(vec![reused]), Some(&before)).verdict.same_machine, Some(true), "its PID was given away");
    }

    #[test]
    fn a_rank_that_prints_itself_as_another_process_does_not_stand_in_its_own_way() {
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
                still_held(&situation).iter().flat_map(|one| &one.facts.other_processes).map(|one| one.pid).collect();
            assert_eq!(named, if is_held { vec![4242] } else { vec![] });
        }
    }

    #[test]
    fn one_that_no_longer_lives_is_gone() {
        placed(&torch_oom(&[(4242, held())]), &with(vec![]), |place| {
            assert_eq!(place.same_machine, Some(true));
            assert!(matches!(place.named[0].fate, Fate::Gone));
        });
    }

    #[test]
    fn another_card_another_figure_or_a_later_start_mean_another_machine() {
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
    fn the_logs_gpu_0_is_the_card_that_its_mask_names() {
        let two = Snapshot { devices: vec![device(0, vec![]), device(1, vec![])], ..snapshot(0) };
        for (mask, card) in [("1", Some(1)), ("GPU-00000001", Some(1)), ("0,1", Some(0)), ("GPU-ffff", None)] {
            let mut diagnosis = torch_oom(&[]);
            diagnosis.run.visible_devices = Some(mask.into());
            placed(&diagnosis, &two, |place| {
                assert_eq!(place.device.map(|device| device.index), card, "{mask}");
            });
        }
    }

    /// Which card, or which it may be, of cards with this much each (GiB), where the log's card has 24.
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
    fn a_number_alone_is_none_of_several_like_cards() {
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
    fn visible_devices_mean_this_machines_cards_only_where_both_count_alike() {
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
    fn nobody_on_a_card_that_it_only_may_be_is_offered_and_no_figure_of_it_is_the_runs() {
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
        // Once tied it stays so, when who tied it has ended.
        let empty = Snapshot { devices: vec![device(0, vec![]), device(1, vec![])], ..snapshot(9) };
        let before = advised(&named, holder(), vec![]);
        let later = crate::advice::advise(&Situation {
            snapshot: Some(&empty),
            before: Some(&before),
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
    fn on_a_card_that_is_split_the_logs_gpu_0_is_the_instance_of_its_size() {
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
