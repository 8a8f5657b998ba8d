//! A log, a machine, and what must be said: tests/scenarios/*.ron, read as a table an expert would sign. Many of them
//! are cases where the obvious answer is wrong. Those in tests/scenarios/open are not judged: each says at its top what
//! the program answers instead.

use std::fs;
use std::path::Path;

use oomdoctor::advice::{Advice, PlannedFix, Situation, Taken, advise};
use oomdoctor::gpu::guard::Viewer;
use oomdoctor::gpu::history::History;
use oomdoctor::gpu::*;
use oomdoctor::knowledge::FixId;
use oomdoctor::knowledge::KnowledgeBase;
use oomdoctor::knowledge::diagnosis::Diagnosis;
use oomdoctor::knowledge::fix::Fix;
use oomdoctor::log::PastedLog;
use oomdoctor::units::{Bytes, WallTime};
use serde::Deserialize;

/// One file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// Why this one is here.
    #[allow(dead_code, reason = "for the reader of the file")]
    why: String,
    log: String,
    /// None: the log is read alone.
    #[serde(default)]
    cards: Vec<Card>,
    /// For how many seconds the machine was watched; 0 is a single reading, which shows nobody to be idle.
    #[serde(default = "usual_watch")]
    watched: i64,
    /// MiB of system memory: in all, and available now.
    #[serde(default = "usual_ram")]
    ram: (u64, u64),
    /// The command line that failed, as the user gave it.
    #[serde(default)]
    command: Option<String>,
    /// The model, as the user named it.
    #[serde(default)]
    model: Option<String>,
    /// What the steps taken so far mean for those ahead.
    #[serde(default)]
    taken: Done,
    /// The cards at an earlier reading, whose advice is known at this one; empty where this is the first.
    #[serde(default)]
    earlier: Vec<Card>,
    expect: Expected,
}

/// See `oomdoctor::advice::Taken`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Done {
    changed: bool,
    enough: bool,
    freed: bool,
}

fn usual_ram() -> (u64, u64) {
    (64 << 10, 40 << 10)
}

fn usual_watch() -> i64 {
    20
}

fn usual_card() -> String {
    "NVIDIA GeForce RTX 4090".to_owned()
}

fn usual_rest() -> u64 {
    200
}

/// One card: MiB in all, and who holds how much.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Card {
    total: u64,
    /// As the driver calls it.
    #[serde(default = "usual_card")]
    name: String,
    /// Used, but by nobody the driver lists.
    #[serde(default = "usual_rest")]
    rest: u64,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Row {
    pid: u32,
    mib: u64,
    what: Option<String>,
    command: String,
    /// Seconds before the crash; negative: after it.
    started: i64,
    ours: bool,
    proved: bool,
    busy: bool,
}

impl Default for Row {
    fn default() -> Row {
        let command = "python train.py".to_owned();
        Row { pid: 0, mib: 0, what: None, command, started: 3600, ours: true, proved: true, busy: false }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// The likeliest cause; `none` where no memory ran out.
    cause: String,
    /// What the sentence says, in this order.
    sentence: Vec<String>,
    /// What it must not say.
    #[serde(default)]
    unsaid: Vec<String>,
    /// MiB that must be found; None: can't be known.
    #[serde(default)]
    missing: Option<u64>,
    /// The plan begins so; `end-holder PID` names whom.
    plan: Vec<String>,
    /// Commands that stand in the plan as they are.
    #[serde(default)]
    commands: Vec<String>,
    /// Steps that must not be there.
    #[serde(default)]
    never: Vec<String>,
    /// What no step may say, in its words or its command.
    #[serde(default)]
    untold: Vec<String>,
    /// What a step must say, in its words or its command.
    #[serde(default)]
    told: Vec<String>,
    /// Steps that must not be said to be enough perhaps.
    #[serde(default)]
    never_enough: Vec<FixId>,
    /// The evidence for the likeliest cause says this.
    #[serde(default)]
    evidence: Vec<String>,
    #[serde(default)]
    same_machine: Option<bool>,
}

fn noon(second: i64) -> WallTime {
    WallTime(jiff::Timestamp::from_second(1_795_176_000 + second).unwrap())
}

fn process(row: &Row, second: i64) -> GpuProcess {
    let uid = if row.ours { 1000 } else { 1001 };
    let busy = u32::from(row.busy) * 90;
    GpuProcess {
        pid: row.pid,
        kind: ProcessKind::Compute,
        container: None,
        managed_by: None,
        server_command: None,
        recognised_as: row.what.clone(),
        protected: None,
        proved: row.proved,
        group: None,
        image: None,
        start_ticks: Reading::Known(u64::from(row.pid) * 10),
        started_at: Reading::Known(noon(-row.started)),
        used_bytes: Reading::Known(Bytes::mib(row.mib)),
        sm_percent: Reading::Known(busy),
        uid: Reading::Known(uid),
        user: Reading::Known(if row.ours { "ada" } else { "bob" }.into()),
        command: Reading::Known(row.command.clone()),
        parent_pid: Reading::Known(900),
        session: Reading::Known(900),
        state: Reading::Known('S'),
        cpu_ticks: Reading::Known(if row.busy { u64::try_from(second).unwrap() * 100 } else { 10 }),
    }
}

fn machine(cards: &[Card], (ram, available): (u64, u64), second: i64) -> Snapshot {
    let device = |(index, card): (usize, &Card)| {
        let used = card.rows.iter().map(|row| row.mib).sum::<u64>() + card.rest;
        let free = card.total - 400 - used;
        Device {
            index: u32::try_from(index).unwrap(),
            error: None,
            memory: DeviceMemory {
                total_bytes: Reading::Known(Bytes::mib(card.total)),
                reserved_bytes: Reading::Known(Bytes::mib(400)),
                used_bytes: Reading::Known(Bytes::mib(used)),
                free_bytes: Reading::Known(Bytes::mib(free)),
            },
            unaccounted_includes_unknown_rows: false,
            processes: card.rows.iter().map(|row| process(row, second)).collect(),
            nature: None,
            uuid: Reading::Known(format!("GPU-{index}")),
            bus_id: Reading::Known(format!("00000000:0{index}:00.0")),
            name: Reading::Known(card.name.clone()),
            unaccounted_bytes: Reading::Known(Bytes::mib(card.rest)),
            utilization_percent: Reading::Known(0),
            temperature_celsius: Reading::Known(40),
            power_watts: Reading::Known(30),
        }
    };
    Snapshot {
        taken_at: noon(second),
        host: Host {
            name: "gpu-box".into(),
            memory_total_bytes: Reading::Known(Bytes::mib(ram)),
            memory_available_bytes: Reading::Known(Bytes::mib(available)),
            swap_total_bytes: Reading::Known(Bytes::ZERO),
            swap_free_bytes: Reading::Known(Bytes::ZERO),
        },
        driver: Driver::Available { version: "570.124.06".into(), cuda_version: None },
        devices: cards.iter().enumerate().map(device).collect(),
        holders: vec![],
        launchers: vec![],
        unseen_processes: 0,
        seen_from: vec![],
    }
}

/// What the log alone says, and the fixes that its entry names.
fn read_log(base: &KnowledgeBase, scenario: &Scenario) -> (Diagnosis, Vec<Fix>) {
    let diagnosis = base.diagnose(&PastedLog::new(scenario.log.clone()), None);
    let entry = diagnosis.matches.first().and_then(|found| base.entry(found.entry));
    let fixes = entry.iter().flat_map(|entry| &entry.fixes).filter_map(|id| base.fix(*id)).cloned().collect();
    (diagnosis, fixes)
}

/// The advice at the last reading; the one at the earlier reading is remembered where the scenario has one.
fn advice(said: &(Diagnosis, Vec<Fix>), scenario: &Scenario, uid: u32) -> Advice {
    let earlier = (!scenario.earlier.is_empty()).then(|| advice_at(said, scenario, &scenario.earlier, uid, None));
    advice_at(said, scenario, &scenario.cards, uid, earlier.as_ref())
}

fn advice_at(
    (diagnosis, fixes): &(Diagnosis, Vec<Fix>),
    scenario: &Scenario,
    cards: &[Card],
    uid: u32,
    before: Option<&Advice>,
) -> Advice {
    let mut history = History::default();
    for second in 0..=scenario.watched {
        history.note(&machine(cards, scenario.ram, second));
    }
    let now = machine(cards, scenario.ram, scenario.watched);
    let Done { changed, enough, freed } = scenario.taken;
    advise(&Situation {
        fixes,
        snapshot: (!cards.is_empty()).then_some(&now),
        history: Some(&history),
        viewer: Some(&Viewer { uid, lineage: vec![900], ..Viewer::default() }),
        crashed_by: Some(noon(0)),
        command: scenario.command.as_deref(),
        model: scenario.model.as_deref(),
        taken: Taken { changed, enough, freed },
        before: before.map(|advice| &advice.remembered),
        ..Situation::alone(diagnosis)
    })
}

/// What is said although nobody here may be ended: every process another user's, also to root, or every one busy.
fn innocent_faults(name: &str, said: &(Diagnosis, Vec<Fix>), scenario: &mut Scenario) -> Vec<String> {
    let mut faults = Vec::new();
    let mut judge = |what: &str, scenario: &Scenario, uid: u32| {
        for step in &advice(said, scenario, uid).plan {
            let kills = step.steps.iter().filter_map(|step| step.command.as_deref());
            let kills = kills.into_iter().any(|command| command.starts_with("oomdoctor kill"));
            if step.target.is_some() || step.release.is_some() || kills {
                faults.push(format!("{name}: {what}: {step:?}"));
            }
        }
    };
    if scenario.cards.iter().all(|card| card.rows.is_empty()) {
        return Vec::new();
    }
    judge("to root they are other users'", scenario, 0);
    scenario.cards.iter_mut().flat_map(|card| &mut card.rows).for_each(|row| row.busy = true);
    judge("all are busy", scenario, 1000);
    faults
}

/// All that a step tells a person.
fn words_of(planned: &PlannedFix) -> String {
    let steps = planned.steps.iter().map(|step| {
        let command = step.command.as_deref().unwrap_or_default();
        format!("{}\n{command}\n{}\n{}\n{}", step.action, step.why, step.expect, step.if_not)
    });
    format!("{}\n{}", planned.title, steps.collect::<Vec<_>>().join("\n"))
}

fn faults(name: &str, advice: &Advice, expected: &Expected) -> Vec<String> {
    let mut faults = Vec::new();
    let mut hold = |what: &str, said: String, wanted: String| {
        if said != wanted {
            faults.push(format!("{name}: {what}: said {said}, wanted {wanted}"));
        }
    };
    let cause = advice.verdict.causes.first().map(|cause| serde_json::to_value(cause.cause).unwrap());
    let said = cause.as_ref().and_then(|cause| cause.as_str()).unwrap_or("none");
    hold("cause", said.to_owned(), expected.cause.clone());
    hold("same machine", format!("{:?}", advice.verdict.same_machine), format!("{:?}", expected.same_machine));
    let missing = advice.ledger.as_ref().and_then(|ledger| ledger.missing_bytes);
    // Figures of a log are rounded: to the nearest 16 MiB.
    let rounded = |mib: u64| (mib + 8) / 16;
    let mib = missing.map(|bytes| bytes.0 >> 20);
    if mib.map(rounded) != expected.missing.map(rounded) {
        hold("missing MiB", format!("{mib:?}"), format!("{:?}", expected.missing));
    }
    let step = |planned: &PlannedFix| match planned.target {
        Some(key) => format!("{} {}", planned.fix, key.pid),
        None => planned.fix.to_string(),
    };
    let plan: Vec<String> = advice.plan.iter().map(step).collect();
    let begins: Vec<String> = plan.iter().take(expected.plan.len()).cloned().collect();
    hold("plan", format!("{begins:?}"), format!("{:?}", expected.plan));
    for never in &expected.never {
        hold(
            "plan",
            format!("{never}: {}", plan.iter().any(|step| step.starts_with(never.as_str()))),
            format!("{never}: false"),
        );
    }
    let commands: Vec<&str> =
        advice.plan.iter().flat_map(|planned| &planned.steps).filter_map(|step| step.command.as_deref()).collect();
    for wanted in expected.commands.iter().filter(|wanted| !commands.contains(&wanted.as_str())) {
        faults.push(format!("{name}: the plan lacks {wanted:?}: {commands:?}"));
    }
    let words: Vec<String> = advice.plan.iter().flat_map(|planned| [words_of(planned)]).collect();
    for wrong in expected.untold.iter().filter(|wrong| words.iter().any(|said| said.contains(wrong.as_str()))) {
        faults.push(format!("{name}: a step says {wrong:?}: {words:?}"));
    }
    for wanted in expected.told.iter().filter(|wanted| !words.iter().any(|said| said.contains(wanted.as_str()))) {
        faults.push(format!("{name}: no step says {wanted:?}: {words:?}"));
    }
    for planned in advice.plan.iter().filter(|planned| planned.may_be_enough) {
        if expected.never_enough.contains(&planned.fix) {
            faults.push(format!("{name}: {} is said to be enough perhaps", planned.fix));
        }
    }
    let evidence = advice.verdict.causes.first().map(|cause| cause.evidence.join("; ")).unwrap_or_default();
    for wanted in expected.evidence.iter().filter(|wanted| !evidence.contains(wanted.as_str())) {
        faults.push(format!("{name}: the evidence lacks {wanted:?}: {evidence}"));
    }
    let sentence = &advice.verdict.sentence;
    let mut rest = sentence.as_str();
    for part in &expected.sentence {
        match rest.split_once(part.as_str()) {
            Some((_, after)) => rest = after,
            None => faults.push(format!("{name}: the sentence lacks {part:?}: {sentence}")),
        }
    }
    for part in expected.unsaid.iter().filter(|part| sentence.contains(part.as_str())) {
        faults.push(format!("{name}: the sentence has {part:?}: {sentence}"));
    }
    faults
}

/// The files of one folder, by name.
fn read(folder: &Path) -> Vec<(String, Scenario)> {
    let options = ron::Options::default().with_default_extension(ron::extensions::Extensions::IMPLICIT_SOME);
    let mut files: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    let scenario = |path: &std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(path).unwrap();
        let scenario = options.from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, scenario)
    };
    files.iter().map(scenario).collect()
}

#[test]
fn every_scenario_is_judged_as_its_file_says() {
    let base = KnowledgeBase::built_in().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut judged = read(&folder);
    let mut all: Vec<String> = Vec::new();
    for (name, scenario) in &mut judged {
        let said = read_log(&base, scenario);
        all.extend(faults(name, &advice(&said, scenario, 1000), &scenario.expect));
        all.extend(innocent_faults(name, &said, scenario));
    }
    assert!(judged.len() >= 80, "{}", judged.len());
    assert!(all.is_empty(), "\n{}", all.join("\n"));
    // Not judged yet, but they must stay readable; one that is answered as it says belongs one folder up.
    for (name, scenario) in read(&folder.join("open")) {
        let faults = faults(&name, &advice(&read_log(&base, &scenario), &scenario, 1000), &scenario.expect);
        match faults.is_empty() {
            true => println!("{name} is answered as it says: move it out of open"),
            false => println!("open: {}", faults.join("\nopen: ")),
        }
    }
}

/// The file that holds the advice on every scenario: causes, figures, steps with their targets and commands, no sentences.
const RECORDED: &str = "tests/golden/advice.txt";

/// What the advice is, without its wording.
fn outline(name: &str, advice: &Advice) -> String {
    let word = |value: serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mib = |bytes: Option<Bytes>| bytes.map_or("?".to_owned(), |bytes| format!("{} MiB", bytes.0 >> 20));
    let verdict = &advice.verdict;
    let causes: Vec<String> =
        verdict.causes.iter().map(|cause| word(serde_json::to_value(cause.cause).unwrap())).collect();
    let mut lines = vec![format!("## {name}"), format!("causes: {}", causes.join(", "))];
    lines.push(format!("here: {:?}, candidates {:?}", verdict.same_machine, verdict.gpu_candidates));
    if let Some(ledger) = &advice.ledger {
        let [capacity, needed, free, missing] =
            [ledger.capacity_bytes, ledger.needed_bytes, ledger.available_bytes, ledger.missing_bytes].map(mib);
        let held = ledger.held_by.iter().map(|held| format!("{} {}", held.pid.unwrap_or(0), mib(Some(held.bytes))));
        let held = held.collect::<Vec<_>>().join(", ");
        let now = if ledger.is_now { "now" } else { "then" };
        lines.push(format!(
            "ledger: GPU {:?} {now}, capacity {capacity}, needed {needed}, free {free}, short {missing}, used {held}",
            ledger.device
        ));
    }
    if let Some(fit) = &advice.fit {
        lines.push(format!("fit: {}, total {}, fits {:?}", fit.engine, mib(fit.total_bytes), fit.fits));
    }
    lines.extend(advice.plan.iter().map(|planned| {
        let target = planned.target.map_or(String::new(), |key| format!(" {}", key.pid));
        let enough = if planned.may_be_enough { ", may be enough" } else { "" };
        let room = planned.room_on.as_ref().map_or(String::new(), |room| format!(", room on GPU {}", room.index));
        let release = if planned.release.is_some() { ", by request" } else { "" };
        let commands: Vec<&str> = planned.steps.iter().filter_map(|step| step.command.as_deref()).collect();
        let frees = mib(planned.frees_bytes);
        format!("- {}{target}: frees {frees}{enough}{room}{release} {commands:?}", planned.fix)
    }));
    lines.join("\n") + "\n"
}

/// A change of the advice shows as a difference in that file. `UPDATE_GOLDEN=1` writes it anew.
#[test]
fn the_advice_on_every_scenario_is_as_recorded() {
    let base = KnowledgeBase::built_in().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let outlines = read(&folder.join("tests/scenarios"))
        .into_iter()
        .map(|(name, scenario)| outline(&name, &advice(&read_log(&base, &scenario), &scenario, 1000)));
    let now = outlines.collect::<Vec<_>>().join("\n");
    let path = folder.join(RECORDED);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &now).unwrap();
    }
    let recorded = fs::read_to_string(&path).unwrap();
    let differs: Vec<String> = now
        .split("\n## ")
        .filter(|block| {
            !recorded.split("\n## ").any(|other| other.trim_start_matches("## ") == block.trim_start_matches("## "))
        })
        .map(str::to_owned)
        .collect();
    assert!(now == recorded, "UPDATE_GOLDEN=1 records these as they are now:\n{}", differs.join("\n"));
}

/// The name of each scenario whose log is wanted, its log and the advice on it.
pub fn advised(base: &KnowledgeBase, wanted: impl Fn(&str) -> bool) -> Vec<(String, String, Advice)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let all = read(&folder).into_iter().filter(|(_, scenario)| wanted(&scenario.log)).map(|(name, scenario)| {
        let advice = advice(&read_log(base, &scenario), &scenario, 1000);
        (name, scenario.log, advice)
    });
    all.collect()
}
