//! Owns the walk's steps: which fixes apply here, in which order, filled with this machine's own names and numbers.
//! A step that would end a process carries its identity; the plan itself signals nothing.

mod another;
mod fill;
mod holders;
pub mod share;
mod values;
mod whose;

pub use self::another::{REQUEST_GPU, RoomOn, another_gpu};
use schemars::JsonSchema;
use serde::Serialize;

use super::release::Release;
use super::{CauseKind, Changes, Fate, FitAdvice, Ledger, Place, Situation, Verdict, ledger, machine, verdict};
use crate::gpu::ProcessKey;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Oom, Phase};
use crate::knowledge::fix::{Condition, Fix, Safety};
use crate::units::Bytes;

/// More holders than that are not proposed one by one.
const HOLDERS: usize = 5;
/// Less than that gives nothing back worth a process.
const WORTH_ENDING: Bytes = Bytes::mib(256);

/// Fixes that take less of what an engine keeps within its share of the card.
const IN_THE_SHARE: &[&str] =
    &["shorter-context", "max-model-len", "smaller-quantisation", "offload-fewer-layers", "quantised-kv-cache"];

/// The fix that says where the fuller log lies.
pub const FULLER_LOG: &str = "see-the-fuller-log";

/// The step that is to try it, rather than a fix of the knowledge base.
pub const RUN_AGAIN: &str = "run-again";

/// The step that asks whoever holds the memory for it.
pub const ASK_OWNER: &str = "ask-owner";

/// The step that finds out who held it, on the machine where it failed.
pub const LOOK_THERE: &str = "look-there";

/// The step that waits until there is room.
pub const WAIT: &str = "wait-for-memory";

/// How sure an estimate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FreesIs {
    Fact,
    About,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Step {
    /// In a sentence that begins with a verb.
    #[serde(rename = "do")]
    pub action: String,
    /// The exact command or line to change.
    pub command: Option<String>,
    pub why: String,
    /// What to expect when it worked.
    pub expect: String,
    /// What to do when it did not.
    pub if_not: String,
    /// The versions that the command is right for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<String>,
}

/// A fix with this machine's figures.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlannedFix {
    /// The fix's id, such as `end-holder`.
    pub fix: String,
    /// For the step's line.
    pub title: String,
    /// What taking it costs.
    pub safety: Safety,
    /// How much it gives back; `None` where that can't be told from this log.
    pub frees_bytes: Option<Bytes>,
    /// How sure that is.
    pub frees_is: Option<FreesIs>,
    /// What it and the steps before it give back, together.
    pub frees_so_far_bytes: Option<Bytes>,
    /// Whether it gives back at least what is known to be missing: a lower bound, so never more than "may".
    pub may_be_enough: bool,
    /// What it costs in a few words.
    pub costs: String,
    /// What to do, one after the other.
    pub steps: Vec<Step>,
    /// The process it would end, named for good.
    pub target: Option<ProcessKey>,
    /// Taking it means to wait until so much is free on the device of that index.
    #[serde(skip)]
    pub waits_for: Option<(u32, Bytes)>,
    /// The device on which it would have room, as it was seen.
    #[serde(skip)]
    pub room_on: Option<RoomOn>,
    /// What it changes in a command line, for the line to run again with.
    #[serde(skip)]
    pub changes: Option<Changes>,
    /// The holder's own program gives the memory back by the step's command: better than ending it.
    #[serde(skip)]
    pub gentle: bool,
    /// How its program can be asked for that directly, by us.
    #[serde(skip)]
    pub release: Option<Release>,
}

/// Lays out the steps: the answer to the likeliest cause first, then what gives back most for the least, as
/// the entry orders them.
pub fn lay_out(
    situation: &Situation<'_>,
    place: &Place<'_>,
    ledger: Option<&Ledger>,
    verdict: &Verdict,
    fit: Option<&FitAdvice>,
) -> Vec<PlannedFix> {
    if situation.diagnosis.oom == Oom::No {
        // What is only a consequence leads to where its cause is written.
        let fuller = situation.fixes.iter().filter(|fix| fix.id == FULLER_LOG);
        return fuller.filter_map(|fix| fill::filled(fix, situation, place, ledger, fit)).collect();
    }
    // The log's figure is a lower bound; what the model takes may be more.
    let missing = match fit {
        // Of the changed run only its own sum tells.
        Some(fit) if situation.taken.changed => fit.missing(),
        _ => ledger.and_then(|ledger| ledger.missing_bytes).max(fit.and_then(FitAdvice::missing)),
    };
    let cause = verdict.causes.first().map(|cause| cause.cause);
    let next = verdict::next_try(situation, place);
    let again =
        run_again(situation, place, ledger, verdict).filter(|_| next.is_none() && situation.has_tried().is_none());
    // What came back on the way may be enough: nothing is known to be missing any more.
    let back = situation.taken.freed && missing.is_none_or(|missing| missing == Bytes::ZERO);
    // With room again nobody has to go; nor where a limit was hit, or the others are the run's own ranks or process.
    let room = again.is_some()
        || back && missing.is_some()
        || next.is_some_and(|next| next.has_room(ledger))
        || missing == Some(Bytes::ZERO) && ledger.is_some_and(Ledger::has_room_now);
    let innocent = matches!(cause, Some(CauseKind::Limit | CauseKind::SameSession))
        || cause == Some(CauseKind::WrongDevice) && situation.diagnosis.run.rank.is_some();
    // What it was doing tells what to change only where nobody else is to blame.
    let own = matches!(cause, Some(CauseKind::Batch | CauseKind::Growth | CauseKind::TooBig | CauseKind::Unknown));
    let stage = situation.diagnosis.run.stage.filter(|_| own);
    let widened_to = verdict::widened(situation.diagnosis).map(|widened| widened.to_bits);
    let leads = |fix: &&Fix| {
        cause.is_some_and(|cause| fix.leads.causes.contains(&cause))
            || stage.is_some_and(|stage| fix.leads.stages.contains(&stage))
            || own && fix.leads.widened_to.is_some() && fix.leads.widened_to == widened_to
    };
    // What makes room within an engine's share only makes room for more KV cache there.
    let capacity = ledger.and_then(|ledger| ledger.capacity_bytes);
    let beside = own && share::outside_of_share(situation.diagnosis, capacity).is_some();
    let helps = |fix: &&Fix| !beside || !IN_THE_SHARE.contains(&fix.id.as_str());
    let (first, rest): (Vec<&Fix>, Vec<&Fix>) = situation.fixes.iter().filter(helps).partition(leads);
    // What was taken is tried before more is changed on top of it.
    let first_of_all = if next.is_some() {
        None
    } else if situation.taken.enough {
        Some(run_now(situation))
    } else {
        again.or_else(|| back.then(|| run_now(situation))).or_else(|| fresh_start(situation, cause))
    };
    let mut plan: Vec<PlannedFix> = first_of_all.into_iter().collect();
    // Waiting and asking come after what costs nothing, and so does what is not known to be idle.
    let (mut later, mut unknown) = (Vec::new(), Vec::new());
    // Where a change of the run's own may be enough, it comes before waiting for another GPU.
    let waits_gladly = matches!(cause, Some(CauseKind::OtherProcess | CauseKind::TooBig | CauseKind::WrongDevice));
    let mut last = None;
    for fix in first.into_iter().chain(rest) {
        let ends = fix.when.contains(&Condition::HolderAlive);
        if ends {
            let mut offers = holders::end_holders(fix, situation, place, missing);
            for other in machine::still_held(situation) {
                let situation = &Situation { diagnosis: &other, ..*situation };
                let more = holders::end_holders(fix, situation, &machine::locate(situation), None);
                offers.idle.extend(more.idle);
                offers.unknown.extend(more.unknown);
            }
            // Nobody loses work for a model that no empty card holds; who is blamed is in the way of what a change makes fit.
            let hopeless = fit.is_some_and(FitAdvice::has_weights_beyond) || cause != Some(CauseKind::OtherProcess);
            let beyond = hopeless && fit.and_then(FitAdvice::beyond).is_some();
            later.extend(holders::wait_or_ask(situation, place, ledger));
            // The failed program's own models: asked for, never ended for its own failure.
            let itself = verdict::itself(situation, place).map(|row| row.pid);
            let own = |planned: &PlannedFix| planned.target.is_some_and(|key| Some(key.pid) == itself);
            let fits = |planned: &PlannedFix| {
                if own(planned) { planned.gentle } else { !innocent && (planned.gentle || !beyond) }
            };
            plan.extend(offers.idle.into_iter().filter(|planned| !room && fits(planned)));
            unknown.extend(offers.unknown.into_iter().filter(|planned| !room && fits(planned)));
        } else if let Some(request) = another::request(fix, situation, place, ledger) {
            if waits_gladly { plan.push(request) } else { last = Some(request) }
        } else if applies(fix, situation, place, ledger, verdict) {
            plan.extend(fill::filled(fix, situation, place, ledger, fit));
        }
    }
    plan.extend(last);
    if cause == Some(CauseKind::OtherProcess) && situation.snapshot.is_none() && place.named.is_empty() {
        plan.insert(0, look_there());
    }
    let safe = plan.iter().take_while(|planned| planned.target.is_some() || planned.safety == Safety::Safe).count();
    if !room && !innocent {
        plan.splice(safe..safe, later);
    }
    if cause != Some(CauseKind::SameSession) {
        another_gpu_before_what_costs(&mut plan);
    }
    // What system memory has no room for comes after all that can be done.
    let lacks_ram = |planned: &PlannedFix| fit.and_then(|fit| fit.effect_of(&planned.fix)?.lacks_ram).is_some();
    plan.sort_by_key(lacks_ram);
    let after_idle = safe.max(1).min(plan.len());
    plan.splice(after_idle..after_idle, unknown);
    let ended = plan.iter().filter(|planned| planned.target.is_some()).filter_map(|planned| planned.frees_bytes);
    let too_little = missing.is_some_and(|missing| ended.fold(Bytes::ZERO, Bytes::plus) < missing) && fit.is_some();
    let mut sum = Bytes::ZERO;
    for planned in &mut plan {
        let Some(frees) = planned.frees_bytes else { continue };
        sum = sum.plus(frees);
        planned.frees_so_far_bytes = Some(sum);
        // What was reckoned with the model is not guessed again.
        let judged =
            !beside && fit.and_then(|fit| fit.effect_of(&planned.fix)).is_some_and(|effect| effect.fits.is_some());
        planned.may_be_enough &= !beside;
        let short = |missing: Bytes| frees < missing && planned.target.is_none();
        if let Some(step) = planned.steps.first_mut().filter(|_| !judged && missing.is_some_and(short)) {
            step.expect = format!("{} Alone it is not enough here.", super::words::sentence(&step.expect));
        }
        if let Some(step) = planned.steps.first_mut().filter(|_| too_little && planned.target.is_some()) {
            step.expect = format!(
                "{} Alone that is not enough: a setting must change, too.",
                super::words::sentence(&step.expect)
            );
        }
        planned.may_be_enough |= !judged && missing.is_some_and(|missing| missing > Bytes::ZERO && frees >= missing);
    }
    plan
}

/// A GPU that was seen unused costs nobody anything: it comes before what ends or unloads something, and before what
/// makes the run slower or worse.
fn another_gpu_before_what_costs(plan: &mut Vec<PlannedFix>) {
    let costs = |planned: &PlannedFix| planned.target.is_some() || planned.safety != Safety::Safe;
    let free = plan.iter().position(|planned| planned.room_on.is_some());
    if let (Some(at), Some(before)) = (free, plan.iter().position(costs))
        && before < at
    {
        let planned = plan.remove(at);
        plan.insert(before, planned);
    }
}

/// Where what held the memory has gone and there is room now, the first step is the simplest one.
fn run_again(
    situation: &Situation<'_>,
    place: &Place<'_>,
    ledger: Option<&Ledger>,
    verdict: &Verdict,
) -> Option<PlannedFix> {
    let ledger = ledger?;
    let is_free_now = ledger.is_now && ledger.missing_bytes == Some(Bytes::ZERO);
    if !is_free_now && !ledger.needed_bytes.is_some_and(|needed| place.each_candidate_has(needed)) {
        return None;
    }
    let free_now = match ledger.is_now {
        true => format!("{} is free now", super::amount(ledger.available_bytes)),
        false => "each GPU here that it may be has room for it now".to_owned(),
    };
    let gone = verdict::blamed(situation, place).find(|named| matches!(named.fate, Fate::Gone));
    let blamed = verdict.causes.first().is_some_and(|cause| cause.cause == CauseKind::OtherProcess);
    let short_then = || {
        let (asked, free) = (situation.diagnosis.facts.requested_bytes?, situation.diagnosis.facts.free_bytes?);
        (situation.diagnosis.memory == Some(MemoryKind::Host) && free < asked).then_some(free)
    };
    let why = match (gone, verdict::others_held(situation.diagnosis, place)) {
        (Some(gone), _) => format!("process {} held {} when it failed; it no longer does", gone.pid, gone.bytes),
        (None, Some((then, when))) if blamed && place.same_machine == Some(true) => {
            format!("others held {then} of the card {when}; now there is room")
        }
        (None, None) if short_then().is_some() => {
            format!("{} was available when it failed, and more is now", super::amount(short_then()))
        }
        _ => return None,
    };
    if let Some((used, command)) = share::too_small(situation, place) {
        return Some(PlannedFix {
            title: "Run it again with a larger share of the card".into(),
            steps: vec![Step {
                action: format!(
                    "Start your job again: {used} of the card does not hold its weights, though there is room now"
                ),
                command: Some(command),
                why,
                expect: free_now,
                if_not: "If it fails again, paste the new error here.".into(),
                versions: None,
            }],
            ..step_named(RUN_AGAIN, "nothing")
        });
    }
    Some(PlannedFix {
        title: "Run the same command again".into(),
        may_be_enough: true,
        steps: vec![Step {
            action: "Start your job again as it was".into(),
            command: situation.command_line().map(str::to_owned),
            why,
            expect: free_now,
            if_not: "If it fails again, paste the new error here.".into(),
            versions: None,
        }],
        ..step_named(RUN_AGAIN, "nothing")
    })
}

/// Of a log that is read alone nobody can be named who held the rest.
fn look_there() -> PlannedFix {
    PlannedFix {
        title: "Look who holds the card where it ran".into(),
        steps: vec![Step {
            action: "On that machine, list who holds how much; end what is yours, and ask whose the rest is".into(),
            command: Some("oomdoctor ps".into()),
            why: "what others held is what was missing".into(),
            expect: "each process with its owner and its memory".into(),
            if_not: "nvidia-smi shows the same without the owners".into(),
            versions: None,
        }],
        ..step_named(LOOK_THERE, "nothing")
    }
}

/// Where several times as much was free as was asked for, less to do is no answer: the run's own state is in doubt.
fn fresh_start(situation: &Situation<'_>, cause: Option<CauseKind>) -> Option<PlannedFix> {
    let facts = &situation.diagnosis.facts;
    let (free, asked) = facts.free_bytes.zip(facts.requested_bytes)?;
    let doubtful = cause == Some(CauseKind::Unknown) && free >= asked.plus(asked).plus(Bytes::gib(1));
    (doubtful && situation.diagnosis.memory == Some(MemoryKind::Gpu)).then(|| PlannedFix {
        title: "Start the program anew and run it again".into(),
        steps: vec![Step {
            action: "End the program, start it again, and watch the card's bar meanwhile".into(),
            command: situation.command_line().map(str::to_owned),
            why: format!("{free} was free when it asked for {asked}: a short peak, or a driver that no longer gives what it has"),
            expect: "It runs past the point where it died.".into(),
            if_not: "If it fails again with as much free, update the card's driver and the program; if the bar was full for a moment, take the steps below.".into(),
            versions: None,
        }],
        ..step_named(RUN_AGAIN, "nothing")
    })
}

/// After a step that may be enough, or memory that came back where nothing tells how much is missing, trying it tells
/// more than any further change.
fn run_now(situation: &Situation<'_>) -> PlannedFix {
    PlannedFix {
        title: "Run it again before you change more".into(),
        steps: vec![Step {
            action: "Start your job again".into(),
            command: situation.command_line().map(str::to_owned),
            why: "what was done so far may be enough; the steps below can still come on top of it".into(),
            expect: "It runs past the point where it died.".into(),
            if_not: "If it fails again, paste the new error here, or take the next step as well.".into(),
            versions: None,
        }],
        ..step_named(RUN_AGAIN, "nothing")
    }
}

fn applies(
    fix: &Fix,
    situation: &Situation<'_>,
    place: &Place<'_>,
    ledger: Option<&Ledger>,
    verdict: &Verdict,
) -> bool {
    let diagnosis = situation.diagnosis;
    let memory = fix.memory.is_empty() || diagnosis.memory.is_none_or(|memory| fix.memory.contains(&memory));
    let phase = fix.phases.is_empty() || diagnosis.phase == Phase::Unknown || fix.phases.contains(&diagnosis.phase);
    let stage = diagnosis.run.stage;
    let stage = (fix.stages.is_empty() || stage.is_some_and(|stage| fix.stages.contains(&stage)))
        && !stage.is_some_and(|stage| fix.not_stages.contains(&stage));
    let contained = diagnosis.run.container.is_some() || diagnosis.run.pod.is_some();
    let holds = |condition: &Condition| match condition {
        Condition::HolderAlive => !verdict::holders(situation, place).is_empty(),
        Condition::OtherDeviceHasRoom => {
            let there = verdict::next_try(situation, place).is_some_and(|next| next.is_elsewhere(place));
            !there && another_gpu(situation, place, ledger).is_some()
        }
        Condition::Fragmented if diagnosis.run.expandable.is_some() => false,
        Condition::Fragmented => verdict.causes.iter().any(|cause| cause.cause == CauseKind::Fragmentation),
        Condition::Notebook => diagnosis.run.notebook.is_some() || diagnosis.program.as_deref() == Some("jupyter"),
        Condition::Training => diagnosis.phase == Phase::Training,
        Condition::NotTraining => diagnosis.phase != Phase::Training,
        Condition::Limited => verdict.causes.first().is_some_and(|cause| cause.cause == CauseKind::Limit),
        Condition::NotLimited => verdict.causes.first().is_none_or(|cause| cause.cause != CauseKind::Limit),
        Condition::NotTooBig => verdict.causes.first().is_none_or(|cause| cause.cause != CauseKind::TooBig),
        Condition::ContextInvolved => {
            diagnosis.memory == Some(MemoryKind::KvCache) || diagnosis.facts.context_tokens.is_some()
        }
        // Shared memory is what Python's workers pass their batches through.
        Condition::Container => contained,
        Condition::NotContainer => !contained,
        Condition::Python => diagnosis.run.python.is_some() || diagnosis.memory == Some(MemoryKind::Shm),
        Condition::LoadsModel => {
            diagnosis.memory != Some(MemoryKind::Host)
                || diagnosis.run.has_model()
                || fill::has_own_form(fix, diagnosis)
        }
        Condition::GraphsInShare => {
            diagnosis.memory != Some(MemoryKind::KvCache)
                || diagnosis.program.as_deref() != Some("vllm")
                || !diagnosis.run.engine_is_before(0, 21)
        }
        Condition::NoMmap => diagnosis.run.command.as_ref().is_some_and(|line| line.contains("no-mmap")),
        Condition::Projector => {
            diagnosis.run.command.as_ref().is_some_and(|line| line.contains("--mmproj"))
                && diagnosis.run.command.as_ref().is_none_or(|line| !line.contains("--no-mmproj-offload"))
        }
        Condition::WidenedTo16 => verdict::widened(diagnosis).is_some_and(|widened| widened.to_bits == 16),
        Condition::Zero3 => diagnosis.run.sharded.as_deref().is_some_and(|by| by != "fsdp"),
        // One instance of a card has no others to share with.
        Condition::NotSharded => diagnosis.run.sharded.is_none() && !diagnosis.run.printed.contains_key("mig"),
        Condition::Ranks => {
            let met = |rank: u64| rank > 0 || has_company(diagnosis);
            diagnosis.facts.device == Some(0) && diagnosis.run.rank.is_some_and(met)
        }
    };
    memory && phase && stage && fix.when.iter().all(holds)
}

/// Whether somebody on its card may be another rank: not one that holds far more, which is from before.
fn has_company(diagnosis: &Diagnosis) -> bool {
    let had = ledger::run_had(diagnosis).unwrap_or(Bytes::ZERO);
    let others = &diagnosis.facts.other_processes;
    verdict::are_ranks(diagnosis) || others.iter().any(|other| other.bytes <= had.plus(had))
}

fn empty(fix: &Fix) -> PlannedFix {
    PlannedFix { title: fix.title.clone(), safety: fix.safety, ..step_named(&fix.id, &fix.costs) }
}

/// A step with nothing in it yet: safe, and of unknown effect.
fn step_named(id: &str, costs: &str) -> PlannedFix {
    PlannedFix {
        fix: id.into(),
        title: String::new(),
        safety: Safety::Safe,
        frees_bytes: None,
        frees_is: None,
        frees_so_far_bytes: None,
        may_be_enough: false,
        costs: costs.into(),
        steps: Vec::new(),
        target: None,
        waits_for: None,
        room_on: None,
        changes: None,
        gentle: false,
        release: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::fill::substitute;
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::advice::{Advice, Taken, advise};
    use crate::gpu::guard::Viewer;
    use crate::gpu::history::History;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{Device, GpuProcess, Reading, Snapshot, Vantage};
    use crate::knowledge::fix::{FixCommand, Frees};

    fn fix(id: &str, when: Vec<Condition>, commands: &[(&str, &str)]) -> Fix {
        Fix {
            stages: vec![],
            not_stages: vec![],
            id: id.into(),
            title: format!("{id} it"),
            safety: Safety::LosesWork,
            memory: vec![],
            phases: vec![],
            when,
            not_for: vec![],
            leads: crate::knowledge::fix::Leads::default(),
            moves: crate::knowledge::fix::Moves::default(),
            frees: Frees::Unknown,
            why: "w".into(),
            expect: "e".into(),
            if_not: "n".into(),
            costs: "c".into(),
            commands: commands
                .iter()
                .map(|(program, command)| FixCommand {
                    program: (*program).into(),
                    action: "Do it".into(),
                    command: Some((*command).into()),
                    otherwise: None,
                    defaults: BTreeMap::new(),
                    constants: BTreeMap::new(),
                    moves: None,
                    phases: vec![],
                    on: None,
                    costs: None,
                    versions: None,
                    why: None,
                    expect: None,
                    if_not: None,
                })
                .collect(),
            references: vec![],
        }
    }

    /// What was watched of these devices in 20 s without any use.
    fn watched(here: &Snapshot) -> History {
        let mut history = History::default();
        history.note(&Snapshot { taken_at: noon_plus(-20), ..here.clone() });
        history.note(here);
        history
    }

    fn plan(diagnosis: &Diagnosis, fixes: &[Fix], devices: Vec<Device>) -> Advice {
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
        plan_for(diagnosis, fixes, devices, &viewer)
    }

    fn plan_for(diagnosis: &Diagnosis, fixes: &[Fix], devices: Vec<Device>, viewer: &Viewer) -> Advice {
        let here = Snapshot { devices, ..snapshot(0) };
        let history = watched(&here);
        advise(&Situation {
            fixes,
            snapshot: Some(&here),
            history: Some(&history),
            viewer: Some(viewer),
            crashed_by: Some(noon_plus(0)),
            ..Situation::alone(diagnosis)
        })
    }

    fn end() -> Fix {
        fix(
            "end-holder",
            vec![Condition::HolderAlive],
            &[("ollama", "ollama stop {model}"), ("*", "oomdoctor kill {pid}")],
        )
    }

    #[test]
    fn the_named_holder_is_the_first_step_with_its_pid_and_its_bytes() {
        let rows = vec![process(5177, Bytes::gib(2)), process(4242, Bytes::mib(11_500)), process(9, Bytes::gib(4))];
        let batch = fix("smaller-batch", vec![Condition::Training], &[("pytorch", "batch")]);
        let named = [(4242, Bytes::mib(11_500)), (5177, Bytes::gib(2))];
        let advice = plan(&torch_oom(&named), &[end(), batch], vec![device(0, rows)]);
        let first = &advice.plan[0];
        assert_eq!((first.fix.as_str(), first.frees_bytes), ("end-holder", Some(Bytes::mib(11_500))));
        assert_eq!(first.steps[0].command.as_deref(), Some("oomdoctor kill 4242@4242000"));
        assert_eq!(first.target, Some(ProcessKey { pid: 4242, start_ticks: 4_242_000 }));
        assert!(first.may_be_enough);
        let order: Vec<&str> = advice.plan.iter().map(|planned| planned.fix.as_str()).collect();
        assert_eq!(order, ["end-holder", "end-holder", "smaller-batch"]);
    }

    #[test]
    fn an_ollama_runner_is_stopped_by_its_own_command() {
        let mut runner = process(5177, Bytes::gib(16));
        runner.recognised_as = Some("Ollama runner (llama3.1:8b)".into());
        let advice = plan(&torch_oom(&[]), &[end()], vec![device(0, vec![runner])]);
        assert_eq!(advice.plan[0].steps[0].command.as_deref(), Some("ollama stop llama3.1:8b"));
    }

    #[test]
    fn nobody_is_offered_who_may_not_be_ended() {
        let mut other = process(7, Bytes::gib(20));
        other.uid = Reading::Known(1001);
        let mut foreign = process(8, Bytes::gib(1));
        foreign.proved = false;
        let advice = plan(&torch_oom(&[]), &[end()], vec![device(0, vec![other, foreign])]);
        let ids: Vec<&str> = advice.plan.iter().map(|planned| planned.fix.as_str()).collect();
        assert_eq!(ids, ["wait-for-memory", "ask-owner"], "somebody else's: to be asked for, never ended");
        assert!(advice.plan.iter().all(|planned| planned.target.is_none()));
        let mut elsewhere = torch_oom(&[(4242, Bytes::mib(11_500))]);
        elsewhere.facts.total_bytes = Some(Bytes::gib(80));
        let advice = plan(&elsewhere, &[end()], vec![device(0, vec![process(4242, Bytes::mib(11_500))])]);
        assert_eq!(advice.plan, []);
    }

    #[test]
    fn nobody_is_offered_because_of_a_log_that_may_be_from_anywhere_or_rules_them_out() {
        // Another holder than those the log names; a run too large for the card; a card the run had to itself.
        let unnamed = torch_oom(&[(3333, Bytes::gib(9))]);
        let mut huge = torch_oom(&[]);
        huge.facts.requested_bytes = Some(Bytes::gib(50));
        let mut alone = torch_oom(&[]);
        (alone.facts.process_bytes, alone.facts.free_bytes) = (Some(Bytes::mib(17_500)), Some(Bytes::mib(6_700)));
        for diagnosis in [unnamed, huge, alone] {
            let advice = plan(&diagnosis, &[end()], vec![device(0, vec![process(7, Bytes::gib(12))])]);
            assert!(advice.plan.iter().all(|planned| planned.target.is_none()), "{:?}", advice.plan);
        }
        // No capacity, and nobody watched the process: the log may be from anywhere, and the process in use.
        let mut poor = torch_oom(&[]);
        poor.facts.total_bytes = None;
        let here = Snapshot { devices: vec![device(0, vec![process(7, Bytes::gib(12))])], ..snapshot(0) };
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
        let plan = advise(&Situation {
            fixes: &[end()],
            snapshot: Some(&here),
            viewer: Some(&viewer),
            crashed_by: Some(noon_plus(0)),
            ..Situation::alone(&poor)
        })
        .plan;
        assert!(plan.iter().all(|planned| planned.target.is_none()), "{plan:?}");
    }

    #[test]
    fn a_holder_is_let_go_by_its_own_program_or_its_container_where_there_is_a_way() {
        let managed = |label: &str, uid: u32, container: Option<&str>, manager: Option<&str>| {
            let mut row = process(5177, Bytes::gib(16));
            row.managed_by = manager.map(str::to_owned);
            row.recognised_as = Some(label.into());
            row.uid = Reading::Known(uid);
            row.container = container.map(str::to_owned);
            let advice = plan(&torch_oom(&[]), &[end()], vec![device(0, vec![row])]);
            advice.plan.first().map(|step| (step.steps[0].command.clone().unwrap_or_default(), step.release.is_some()))
        };
        let command = |label: &str, uid: u32, container: Option<&str>| managed(label, uid, container, None);
        let loaded = "ollama ps | awk 'NR>1 {print $1}' | xargs -n1 ollama stop".to_owned();
        assert_eq!(command("Ollama runner", 1000, None), Some((loaded.clone(), true)));
        assert_eq!(command("Ollama runner (x:$(reboot))", 1000, None), Some((loaded.clone(), true)));
        for container in [None, Some("docker:0123456789ab")] {
            assert_eq!(command("Ollama runner", 999, container), Some((String::new(), false)), "another user's: wait");
        }
        let stop = ("docker stop 0123456789ab".to_owned(), false);
        assert_eq!(command("python train.py", 1000, Some("docker:0123456789ab")), Some(stop));
        let unit = Some("service:ollama.service");
        assert_eq!(managed("Ollama runner", 1000, None, unit), Some((loaded, true)), "its own API comes first");
        for (manager, stop) in [
            ("slurm:81234", "scancel 81234"),
            ("service:comfy.service", "sudo systemctl stop comfy.service"),
            ("user-service:comfy.service", "systemctl --user stop comfy.service"),
        ] {
            assert_eq!(managed("python train.py", 1000, None, Some(manager)), Some((stop.into(), false)));
        }
        assert_eq!(command("python train.py", 1000, None), Some(("oomdoctor kill 5177@5177000".into(), false)));
    }

    #[test]
    fn another_card_is_proposed_only_where_it_was_seen_unused_and_before_anybody_has_to_go() {
        let moves = [end(), move_over()];
        let offered = |other: Device| {
            let named = [(8, Bytes::gib(16))];
            let advice = plan(&torch_oom(&named), &moves, vec![device(0, vec![process(8, Bytes::gib(16))]), other]);
            let steps: Vec<String> = advice.plan.iter().map(|planned| planned.fix.clone()).collect();
            (steps, advice.verdict.sentence, advice.plan[0].steps[0].command.clone())
        };
        let (steps, said, command) = offered(device(1, vec![]));
        assert_eq!(steps, ["use-other-gpu", "end-holder"]);
        assert!(said.ends_with("GPU 1 has 23.4 GiB free: no processes, 0 % for 20 s."), "{said}");
        let uuid = "GPU-00000001-aaaa-bbbb-cccc-dddddddddddd";
        assert_eq!(command, Some(format!("export CUDA_VISIBLE_DEVICES={uuid}")));
        let mut smaller = device(1, vec![]);
        smaller.memory.free_bytes = Reading::Known(Bytes::gib(8));
        let mut somebodys = process(9, Bytes::mib(300));
        somebodys.uid = Reading::Known(1001);
        let mut used = device(1, vec![]);
        used.utilization_percent = Reading::Known(35);
        for other in [smaller, device(1, vec![somebodys]), device(1, vec![process(9, Bytes::mib(300))]), used] {
            let (steps, said, _) = offered(other);
            assert_eq!(steps, ["end-holder"]);
            assert!(!said.contains("GPU 1"), "{said}");
        }
    }

    fn move_over() -> Fix {
        Fix {
            safety: Safety::Safe,
            ..fix("use-other-gpu", vec![Condition::OtherDeviceHasRoom], &[("*", "CUDA_VISIBLE_DEVICES={gpu_uuid}")])
        }
    }

    #[test]
    fn where_a_scheduler_hands_out_the_gpus_another_one_is_a_new_request() {
        let moves = [end(), move_over()];
        let of = |diagnosis: &Diagnosis, seen_from: Vec<Vantage>| {
            let devices = vec![device(0, vec![process(8, Bytes::gib(16))]), device(1, vec![])];
            let here = Snapshot { devices, seen_from, ..snapshot(0) };
            let history = watched(&here);
            let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
            advise(&Situation {
                fixes: &moves,
                snapshot: Some(&here),
                history: Some(&history),
                viewer: Some(&viewer),
                crashed_by: Some(noon_plus(0)),
                ..Situation::alone(diagnosis)
            })
        };
        let named = torch_oom(&[(8, Bytes::gib(16))]);
        let mut of_slurm = named.clone();
        of_slurm.run.launcher = Some("srun".into());
        for (diagnosis, seen_from, option) in [
            (&named, vec![Vantage::SlurmJob("77".into())], Some("--gres=gpu:TYPE:1")),
            (&named, vec![Vantage::SlurmLogin], Some("--gres=gpu:TYPE:1")),
            (&of_slurm, vec![], Some("--gres=gpu:TYPE:1")),
            (&named, vec![Vantage::Kubernetes], Some("nvidia.com/gpu.product")),
            (&named, vec![Vantage::Scheduler("lsf".into())], None),
        ] {
            let advice = of(diagnosis, seen_from);
            let steps: Vec<&str> = advice.plan.iter().map(|planned| planned.fix.as_str()).collect();
            assert_eq!(steps, ["end-holder", REQUEST_GPU]);
            let asked = advice.plan[1].steps[0].command.as_deref();
            assert!(option.is_none_or(|option| asked.is_some_and(|asked| asked.contains(option))), "{asked:?}");
            assert_eq!(asked.is_some(), option.is_some(), "no option that was not looked up");
            assert!(advice.plan.iter().all(|planned| planned.room_on.is_none()));
            assert!(!advice.verdict.sentence.contains("GPU 1"), "{}", advice.verdict.sentence);
        }
        let mut elsewhere = of_slurm.clone();
        elsewhere.facts.total_bytes = Some(Bytes::gib(80));
        let steps: Vec<String> = of(&elsewhere, vec![]).plan.into_iter().map(|planned| planned.fix).collect();
        assert_eq!(steps, [REQUEST_GPU], "the log tells of its scheduler, wherever that is");
        elsewhere.run.launcher = None;
        assert!(of(&elsewhere, vec![Vantage::SlurmLogin]).plan.is_empty(), "this machine's is not the log's");
    }

    #[test]
    fn a_card_for_each_rank_is_proposed_only_where_ranks_meet_on_gpu_0() {
        let own = fix("own-card-per-rank", vec![Condition::Ranks], &[("*", "set_device")]);
        let proposed = |rank: Option<u64>, device_index: u32, others: &[(u32, Bytes)]| {
            let mut diagnosis = torch_oom(others);
            (diagnosis.run.rank, diagnosis.facts.device) = (rank, Some(device_index));
            let advice = plan(&diagnosis, std::slice::from_ref(&own), vec![device(0, vec![])]);
            advice.plan.iter().any(|planned| planned.fix == "own-card-per-rank")
        };
        let sibling = [(4242, Bytes::mib(400))];
        assert!(proposed(Some(3), 0, &sibling) && proposed(Some(1), 0, &[]) && proposed(Some(0), 0, &sibling));
        assert!(!proposed(Some(0), 0, &[(4242, Bytes::gib(5))]), "left by an earlier run");
        assert!(!proposed(None, 0, &sibling), "no rank in the log");
        assert!(!proposed(Some(1), 1, &sibling), "a card of its own");
        assert!(!proposed(Some(0), 0, &[]), "rank 0 belongs there");
    }

    #[test]
    fn what_the_person_runs_comes_before_whose_code_complained() {
        let shorter =
            fix("shorter-context", vec![], &[("llama.cpp", "-c 8192"), ("ollama", "OLLAMA_CONTEXT_LENGTH=8192")]);
        let mut diagnosis = torch_oom(&[]);
        (diagnosis.program, diagnosis.raised_by) = (Some("ollama".into()), Some("llama.cpp".into()));
        let advice =
            plan(&diagnosis, std::slice::from_ref(&shorter), vec![device(0, vec![process(8, Bytes::gib(16))])]);
        assert_eq!(advice.plan[0].steps[0].command.as_deref(), Some("export OLLAMA_CONTEXT_LENGTH=8192"));
    }

    #[test]
    fn one_rank_is_not_ended_alone_but_its_launcher_with_all_of_its() {
        let rank = |pid: u32| {
            let mut row = process(pid, Bytes::gib(8));
            (row.parent_pid, row.group) = (Reading::Known(40), process(40, Bytes::ZERO).key());
            row
        };
        let mut launcher = process(40, Bytes::ZERO);
        (launcher.group, launcher.kind) = (launcher.key(), crate::gpu::ProcessKind::Unlisted);
        launcher.recognised_as = Some("torchrun launcher (train.py)".into());
        let plan_of = |launcher: GpuProcess| {
            let here = Snapshot {
                devices: vec![device(0, vec![rank(41), rank(42)])],
                launchers: vec![launcher],
                ..snapshot(0)
            };
            let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
            let (diagnosis, history) = (torch_oom(&[]), watched(&here));
            advise(&Situation {
                fixes: &[end()],
                snapshot: Some(&here),
                history: Some(&history),
                viewer: Some(&viewer),
                crashed_by: Some(noon_plus(0)),
                ..Situation::alone(&diagnosis)
            })
            .plan
        };
        let steps = plan_of(launcher.clone());
        let [step] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((step.target, step.frees_bytes), (launcher.key(), Some(Bytes::gib(16))));
        assert_eq!(step.title, "End torchrun launcher (train.py) (40) with its 2 workers");
        let command = step.steps[0].command.clone().unwrap();
        assert_eq!(command, "oomdoctor kill --any 40@40000 41@41000 42@42000");
        launcher.uid = Reading::Known(1001);
        let targets: Vec<u32> = plan_of(launcher).iter().filter_map(|step| Some(step.target?.pid)).collect();
        assert_eq!(targets, Vec::<u32>::new(), "it would end with somebody else's launcher");
    }

    #[test]
    fn a_smaller_batch_is_the_persons_own_command_with_half_of_it() {
        let mut smaller = fix("smaller-batch", vec![], &[("*", "x")]);
        smaller.commands.iter_mut().for_each(|form| form.command = None);
        let of = |line: &str| {
            let diagnosis = torch_oom(&[]);
            let fixes = [smaller.clone()];
            let situation = Situation { fixes: &fixes, command: Some(line), ..Situation::alone(&diagnosis) };
            advise(&situation).plan.iter().find(|step| step.fix == "smaller-batch")?.steps[0].command.clone()
        };
        assert_eq!(of("python train.py --batch 16 --lr 1").as_deref(), Some("python train.py --batch 8 --lr 1"));
        assert_eq!(of("python train.py --batch_size=3").as_deref(), Some("python train.py --batch_size=1"));
        assert_eq!(of("python train.py --batch 1"), None);
        assert_eq!(of("python train.py"), None);
    }

    #[test]
    fn a_gone_holder_leads_to_running_again() {
        let advice = plan(&torch_oom(&[(4242, Bytes::mib(11_500))]), &[end()], vec![device(0, vec![])]);
        assert_eq!(advice.plan[0].fix, "run-again");
    }

    #[test]
    fn after_a_step_that_may_be_enough_comes_the_try() {
        let shorter = fix("shorter-context", vec![], &[("*", "-c 2048")]);
        let diagnosis = torch_oom(&[]);
        let here = Snapshot { devices: vec![device(0, vec![process(8, Bytes::gib(16))])], ..snapshot(0) };
        let fixes = [shorter];
        for enough in [false, true] {
            let advice = advise(&Situation {
                fixes: &fixes,
                snapshot: Some(&here),
                command: Some("llama-server -m a.gguf -c 4096"),
                taken: Taken { enough, ..Taken::default() },
                ..Situation::alone(&diagnosis)
            });
            let first = &advice.plan[0];
            assert_eq!(first.fix == RUN_AGAIN, enough);
            assert!(!enough || first.steps[0].command.as_deref() == Some("llama-server -m a.gguf -c 4096"));
        }
    }

    #[test]
    fn after_an_end_that_freed_enough_comes_the_try_and_nobody_else_has_to_go() {
        let mut diagnosis = torch_oom(&[]);
        (diagnosis.facts.process_bytes, diagnosis.facts.free_bytes) = (None, None);
        diagnosis.facts.requested_bytes = Some(Bytes::gib(10));
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
        for (held, tries) in [(Bytes::gib(2), true), (Bytes::gib(18), false)] {
            let here = Snapshot { devices: vec![device(0, vec![process(9, held)])], ..snapshot(0) };
            let advice = advise(&Situation {
                fixes: &[end()],
                snapshot: Some(&here),
                viewer: Some(&viewer),
                crashed_by: Some(noon_plus(0)),
                taken: Taken { freed: true, ..Taken::default() },
                ..Situation::alone(&diagnosis)
            });
            let steps: Vec<&str> = advice.plan.iter().map(|planned| planned.fix.as_str()).collect();
            assert_eq!(steps, if tries { [RUN_AGAIN] } else { ["end-holder"] });
        }
    }

    #[test]
    fn the_logs_own_model_stands_in_the_command() {
        let of = |template: &str, model: &str| {
            let served = fix("lower-utilization", vec![], &[("*", template)]);
            let mut diagnosis = torch_oom(&[]);
            diagnosis.run.model = Some(model.into());
            let advice =
                plan(&diagnosis, std::slice::from_ref(&served), vec![device(0, vec![process(8, Bytes::gib(16))])]);
            advice.plan[0].steps[0].command.clone().unwrap()
        };
        assert_eq!(of("vllm serve MODEL --enforce-eager", "org/m-8b"), "vllm serve org/m-8b --enforce-eager");
        assert_eq!(of("vllm serve MODEL-AWQ", "org/m-8b"), "vllm serve MODEL-AWQ", "another model");
        assert_eq!(of("x -m MODEL.gguf", "/srv/a.gguf"), "x -m /srv/a.gguf");
        assert_eq!(of("x MODEL", "m; reboot"), "x MODEL", "no foreign text in a command");
    }

    #[test]
    fn a_command_with_an_unknown_figure_is_left_out_not_shown_with_a_hole() {
        let shorter = fix("shorter-context", vec![], &[("*", "-c {half_context}")]);
        let advice = plan(&torch_oom(&[]), std::slice::from_ref(&shorter), vec![device(0, vec![])]);
        assert_eq!(advice.plan[0].steps[0].command, None);
        assert_eq!(substitute("json {\"a\":1} {pid}", &|_| Some("7".into())).as_deref(), Some("json {\"a\":1} 7"));
    }
}
