//! Owns the conditions of a fix: whether each holds, does not hold, or cannot be decided from log and machine.

use super::fixes::has_own_form;
use super::form::kind;
use super::outlook::Outlook;
use crate::advice::causes::is_beyond_any_gpu;
use crate::advice::figures::{are_ranks, run_had};
use crate::advice::verdict::CauseKind;
use crate::advice::weights::widened;
use crate::allocations::findings::FindingKind;
use crate::knowledge::FixId;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Phase, Platform};
use crate::knowledge::fix::{Condition, Fix};
use crate::knowledge::program::{Program, Trait};
use crate::units::Bytes;

/// What `knowledge/run.ron` calls the frames of data parallel training, whose GPUs hold a copy of the model each.
const PARALLEL: &str = "parallel";

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Yes,
    /// The rule, as `diagnose --why` shows it.
    No(&'static str),
    /// The condition as the step shows it: "if it ran in a container".
    Unknown(&'static str),
}

fn known(holds: bool, rule: &'static str) -> Holds {
    if holds { Holds::Yes } else { Holds::No(rule) }
}

/// All of a fix's conditions together: one that does not hold decides, then one that is not known.
pub(crate) fn of_fix(fix: &Fix, outlook: &Outlook<'_, '_>) -> Holds {
    let mut together = Holds::Yes;
    for condition in &fix.when {
        match holds(*condition, fix, outlook) {
            Holds::Yes => {}
            no @ Holds::No(_) => return no,
            unknown @ Holds::Unknown(_) => together = unknown,
        }
    }
    together
}

fn holds(condition: Condition, fix: &Fix, outlook: &Outlook<'_, '_>) -> Holds {
    let log = outlook.case.log;
    match condition {
        Condition::HolderAlive => known(
            !outlook.case.users.is_empty() || outlook.case.candidates.iter().any(|one| !one.users.is_empty()),
            "no process here uses memory that the run needs",
        ),
        Condition::UsersUnknown => known(are_users_unknown(outlook), "who uses the GPU here is known"),
        Condition::OtherDeviceHasRoom => other_gpu_has_room(outlook),
        Condition::Fragmented => known(
            log.run.expandable.is_none() && outlook.has_cause(CauseKind::Fragmentation),
            "the allocator's unused memory does not explain it",
        ),
        Condition::Unrecorded => {
            let is_open = [CauseKind::Growth, CauseKind::Unknown].iter().any(|cause| outlook.is_led_by(*cause));
            known(is_open && log.allocations.is_empty(), "a memory snapshot would tell no more")
        }
        Condition::Notebook => notebook(log),
        Condition::Training => match log.phase {
            Phase::Training => Holds::Yes,
            Phase::Unknown if may_be_own_code(log) => Holds::Unknown("if it was training"),
            _ => Holds::No("it was not training"),
        },
        Condition::NotTraining => known(log.phase != Phase::Training, "it was training"),
        Condition::LedBy(CauseKind::Limit) => known(outlook.is_led_by(CauseKind::Limit), "no limit was hit"),
        Condition::LedBy(cause) => known(outlook.is_led_by(cause), "another cause leads"),
        Condition::NotLimited => known(!outlook.is_led_by(CauseKind::Limit), "a limit was hit"),
        Condition::NotTooBig => known(!outlook.is_led_by(CauseKind::TooBig), "the run is too big for the GPU"),
        Condition::Container => match (is_in_container(log), log.run.platform()) {
            (true, _) => Holds::Yes,
            (false, Some(Platform::Mac)) => Holds::No("a container runs Linux, and this ran on a Mac"),
            (false, _) => Holds::Unknown("if it ran in a container"),
        },
        Condition::NotContainer => known(!is_in_container(log), "it ran in a container"),
        Condition::Python => python(log),
        Condition::DataWorkers => data_workers(log),
        // Only a language model has a context.
        Condition::LoadsModel if outlook.has_cause(CauseKind::Context) => Holds::Yes,
        Condition::LoadsModel => loads_model(fix, log),
        Condition::GraphsInShare => {
            known(!are_graphs_outside_share(log), "this vLLM keeps its CUDA graphs outside its share")
        }
        Condition::NoMmap => no_mmap(log),
        Condition::Projector => projector(log),
        Condition::WidenedTo16 => {
            known(widened(log).is_some_and(|widened| widened.to_bits == 16), "its weights were not widened to 16 bits")
        }
        Condition::Zero3 => match log.run.sharded.as_deref() {
            Some(by) => known(by != "fsdp", "FSDP shares it, not ZeRO"),
            None => known(false, "the ranks do not share their state by ZeRO-3"),
        },
        // One instance of a GPU has no others to share with.
        Condition::NotSharded => known(
            log.run.sharded.is_none() && !log.run.printed.contains_key("mig"),
            "the ranks share their state already",
        ),
        Condition::Ranks => known(ranks_meet_on_gpu_0(log), "no ranks meet on GPU 0"),
    }
}

fn other_gpu_has_room(outlook: &Outlook<'_, '_>) -> Holds {
    let case = outlook.case;
    if case.retry_is_on_other_gpu() {
        return Holds::No("the retry runs on another GPU already");
    }
    if is_beyond_any_gpu(case.log) {
        return Holds::No("no GPU has so much memory");
    }
    let is_spread =
        case.log.run.is_spread() || case.log.run.sharded.is_some() || case.log.run.printed.contains_key(PARALLEL);
    if is_machine_unknown(outlook) && !is_spread {
        return Holds::Unknown("if another GPU there has enough free VRAM");
    }
    known(case.other_gpu.is_some(), "no other GPU here is known to be unused and large enough")
}

/// Whether no GPU was read of the machine that the log is from.
fn is_machine_unknown(outlook: &Outlook<'_, '_>) -> bool {
    !outlook.case.situation.sees_gpus() || outlook.case.place.is_elsewhere()
}

/// Whether the list of processes here does not tell who uses the GPU: several may be the one that the log means.
fn are_users_unknown(outlook: &Outlook<'_, '_>) -> bool {
    is_machine_unknown(outlook) || !outlook.case.place.candidates.is_empty()
}

/// A script or a command line in the log shows that it was no notebook, and so does a model that several ranks share.
fn notebook(log: &Diagnosis) -> Holds {
    let run = &log.run;
    if run.notebook.is_some() || log.program.as_deref() == Some("jupyter") {
        return Holds::Yes;
    }
    let is_started_elsewhere = run.script.is_some() || run.command.is_some() || run.sharded.is_some();
    if is_started_elsewhere || !may_be_own_code(log) {
        return Holds::No("it ran no notebook");
    }
    Holds::Unknown("if it ran in a notebook")
}

/// Whether it may be the person's own code, and no program with settings of its own.
fn may_be_own_code(log: &Diagnosis) -> bool {
    let Some(name) = log.program.as_deref() else { return true };
    Program::known(name).is_some_and(|program| program.has(Trait::OwnCode))
}

/// Shared memory is what Python's workers pass their batches through.
fn names_data_workers(message: &str) -> bool {
    ["worker", "Worker", "DataLoader"].iter().any(|word| message.contains(word))
}

/// Whether a data loader ran: its workers show in messages, frames and settings. A training may have one; a program that
/// nothing shows to be Python, as a server's container, has none.
fn data_workers(log: &Diagnosis) -> Holds {
    let shows = log.memory == Some(MemoryKind::Shm)
        || log.run.settings.contains_key("workers")
        || log.signs.iter().any(|sign| sign.fixes.contains(&FixId::FEWER_WORKERS))
        || log.matches.iter().any(|found| names_data_workers(&found.text));
    match python(log) {
        Holds::Yes | Holds::Unknown(_) if shows => Holds::Yes,
        Holds::Yes => Holds::Unknown("if it loads data in worker processes"),
        Holds::Unknown(_) if log.phase == Phase::Training => Holds::Unknown("if it loads data in worker processes"),
        Holds::Unknown(_) => Holds::No("nothing shows that it is a Python program"),
        no @ Holds::No(_) => no,
    }
}

fn python(log: &Diagnosis) -> Holds {
    if log.run.python.is_some() || log.memory == Some(MemoryKind::Shm) {
        return Holds::Yes;
    }
    match is_known_not_to_be_python(log) {
        true => Holds::No("it is no Python program"),
        false => Holds::Unknown("if it is a Python program"),
    }
}

fn loads_model(fix: &Fix, log: &Diagnosis) -> Holds {
    if log.run.has_model() || has_own_form(fix, log) {
        return Holds::Yes;
    }
    if log.memory != Some(MemoryKind::Host) {
        let names = [&log.program, &log.raised_by].into_iter().flatten();
        let is_for_text = names.filter_map(|name| kind(name)).any(|kind| matches!(kind, "chat" | "serving"));
        let is_shown = is_for_text || log.run.text_model.is_some() || log.phase == Phase::Load;
        return if is_shown { Holds::Yes } else { Holds::Unknown("if it runs a language model") };
    }
    match is_known_not_to_be_python(log) {
        true => Holds::No("nothing shows that it loads a model"),
        false => Holds::Unknown("if it loads a model"),
    }
}

/// Whether the log names the process that was killed, or the one that used most, and that is no Python.
fn is_known_not_to_be_python(log: &Diagnosis) -> bool {
    let largest = log.run.largest.as_ref().map(|process| process.name.as_str());
    let name = largest.or(log.facts.victim_name.as_deref());
    name.is_some_and(|name| !name.starts_with("python") && !name.starts_with("pt_"))
}

fn is_in_container(log: &Diagnosis) -> bool {
    log.run.container.is_some() || log.run.pod.is_some()
}

fn are_graphs_outside_share(log: &Diagnosis) -> bool {
    log.memory == Some(MemoryKind::KvCache)
        && log.program.as_deref() == Some("vllm")
        && log.run.is_before("vllm", "0.21")
}

/// KoboldCpp maps the file only where it is told to, the others unless they are told not to.
fn no_mmap(log: &Diagnosis) -> Holds {
    const MAPPED: &str = "the model's file was mapped";
    if log.program.as_deref() != Some("koboldcpp") {
        return flag(log, "no-mmap", "if it was started with --no-mmap", MAPPED);
    }
    let line = log.run.command.as_deref().map(|line| line.contains("--usemmap"));
    let printed = log.run.printed.get("usemmap").map(|value| value == "True");
    match line.or(printed) {
        Some(is_mapped) => known(!is_mapped, MAPPED),
        None => Holds::Unknown("if it was started without --usemmap"),
    }
}

/// What the log prints of the image encoder counts before the command line: `-hf` loads one that no flag names.
fn projector(log: &Diagnosis) -> Holds {
    const IN_RAM: &str = "the image encoder is in RAM already";
    match log.run.projector.as_deref() {
        Some("CPU") => Holds::No(IN_RAM),
        Some(_) => known(!has_flag(log, "--no-mmproj-offload"), IN_RAM),
        None => flag(log, "--mmproj", "if it loads an image encoder", "no image encoder was loaded"),
    }
}

fn has_flag(log: &Diagnosis, flag: &str) -> bool {
    log.run.command.as_ref().is_some_and(|line| line.contains(flag))
}

/// Whether the log's command line has a flag; not known where the log has no command line.
fn flag(log: &Diagnosis, flag: &str, condition: &'static str, rule: &'static str) -> Holds {
    match &log.run.command {
        Some(line) => known(line.contains(flag), rule),
        None => Holds::Unknown(condition),
    }
}

/// Whether a rank failed on GPU 0 that does not belong there, or was not alone there.
fn ranks_meet_on_gpu_0(log: &Diagnosis) -> bool {
    if log.recorded_failure().is_some_and(|filled| filled.finding(FindingKind::StrayRank).is_some()) {
        return true;
    }
    let is_misplaced = log.run.rank.is_some_and(|rank| rank > 0 || may_be_beside_a_rank(log));
    log.facts.device == Some(0) && is_misplaced && log.run.launched_ranks() != Some(1)
}

/// Whether another process on its GPU could be a rank of the same job. A process with far more memory cannot:
/// it predates the job.
fn may_be_beside_a_rank(log: &Diagnosis) -> bool {
    let had = run_had(log).unwrap_or(Bytes::ZERO);
    are_ranks(log) || log.facts.other_processes.iter().any(|other| other.bytes <= had.plus(had))
}
