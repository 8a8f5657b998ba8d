//! Owns the steps about processes that use memory which the run needs: to have them release it, to stop what runs them, or
//! to terminate them.

use super::order::Offer;
use super::outlook::Outlook;
use super::planned::{Enough, PlannedFix, Step};
use super::template::step_of;
use crate::advice::case::{Candidate, Case, OtherRank};
use crate::advice::figures::is_negligible;
use crate::advice::machine::place::Place;
use crate::advice::naming::name_of;
use crate::advice::offer::Standing;
use crate::advice::processes::User;
use crate::advice::release;
use crate::advice::supervisor::Supervisor;
use crate::advice::verdict::CauseKind;
use crate::gpu::guard::Viewer;
use crate::gpu::{GpuProcess, ProcessKey};
use crate::knowledge::fix::substitute;
use crate::knowledge::fix::{Fix, FixCommand};
use crate::memory::Is;
use crate::units::Bytes;

/// More processes than that are not proposed one by one.
const MOST_PROCESSES: usize = 5;
/// Less memory than that is not worth a process.
pub(crate) const WORTH_ENDING: Bytes = Bytes::mib(256);

/// A step for each process that may be offered: first the smallest that is enough alone, and one that releases its memory
/// before one that must end, so that nobody loses work for nothing. Other ranks' GPUs come after the run's own, where other
/// processes are to blame.
pub(crate) fn steps(fix: &Fix, outlook: &Outlook<'_, '_>) -> Vec<Offer> {
    let case = outlook.case;
    let mut steps = on_gpu(fix, case, &case.place, &case.users, outlook.short);
    if outlook.is_led_by(CauseKind::OtherProcess) {
        if case.place.is_here() {
            stand_as_if_idle(&mut steps, outlook.short);
        }
        steps.extend(case.other_ranks.iter().flat_map(|rank| on_gpu_of(rank, fix, case)));
    }
    if outlook.is_led_by(CauseKind::OtherProcess) && steps.is_empty() {
        steps.extend(case.candidates.iter().filter_map(|candidate| on_candidate(candidate, fix, case)));
    }
    // Those that may be terminated only under a condition come last.
    steps.sort_by_key(|offer| offer.may_be_busy);
    steps
}

/// The steps on another rank's GPU: what they free there is none of what is short on the GPU that the verdict is about.
fn on_gpu_of(rank: &OtherRank<'_>, fix: &Fix, case: &Case<'_>) -> Vec<Offer> {
    let mut offers = on_gpu(fix, case, &rank.place, &rank.users, None);
    offers.iter_mut().for_each(|offer| offer.planned.enough = Enough::WithOthers);
    offers
}

/// The idle process on one of the GPUs that the log may mean whose memory alone is enough there. Whether it is that GPU is the
/// step's condition.
fn on_candidate(candidate: &Candidate<'_>, fix: &Fix, case: &Case<'_>) -> Option<Offer> {
    let device = candidate.place.device?;
    let short = case.needed()?.less(device.memory.free_bytes.value()?);
    let mut offers = on_gpu(fix, case, &candidate.place, &candidate.users, Some(short)).into_iter();
    let is_enough = |offer: &Offer| !offer.may_be_busy && offer.planned.frees_bytes.is_some_and(|frees| frees >= short);
    let offer = if short > Bytes::ZERO { offers.find(is_enough)? } else { return None };
    let condition = format!("if your run was on GPU {}", device.index);
    let planned = PlannedFix { enough: Enough::Likely, ..offer.planned };
    Some(Offer { planned: planned.only(&condition), ..offer })
}

fn on_gpu(fix: &Fix, case: &Case<'_>, place: &Place<'_>, users: &[User<'_>], short: Option<Bytes>) -> Vec<Offer> {
    let (mut idle, mut unknown) = (Vec::new(), Vec::new());
    let Some(seen) = case.situation.seen() else { return idle };
    for user in users.iter().filter(|user| is_worth_it(user, users, place, short)) {
        if idle.len() + unknown.len() >= MOST_PROCESSES {
            continue;
        }
        let Some(step) = step_about(fix, case, place, user) else { continue };
        let standing = match &step.release {
            Some(release) => seen.if_released(user.row, release),
            None => seen.if_ended(user.row),
        };
        if !standing.is_offered() {
            continue;
        }
        let mut step = with_its_launcher(step, case, place, user.row);
        if place.same_machine.is_none() {
            step = step.with_condition("If your run was on this GPU: ");
        }
        // Several ranks of one launcher are one step.
        if idle.iter().chain(&unknown).any(|other: &Offer| other.planned.is_about_the_same(&step)) {
            continue;
        }
        match standing {
            _ if case.situation.viewer.and_then(Viewer::refuses_everything).is_some() => {
                unknown.push(Offer { may_be_busy: true, ..Offer::of(once_allowed(step)) });
            }
            Standing::Idle(_) => idle.push(Offer::of(PlannedFix { is_idle: true, ..step })),
            _ => {
                let title = format!("{}, if it is idle", step.title);
                let step = PlannedFix { title, ..step.with_condition("If it is idle, which is not known yet: ") };
                unknown.push(Offer { may_be_busy: true, ..Offer::of(step) });
            }
        }
    }
    put_best_first(&mut idle, short);
    put_best_first(&mut unknown, short);
    idle.extend(unknown);
    idle
}

/// Whether a process uses enough to be a step: a part of the GPU that matters, or what is short together with the others.
fn is_worth_it(user: &User<'_>, users: &[User<'_>], place: &Place<'_>, short: Option<Bytes>) -> bool {
    let Some(used) = user.row.used_bytes.value() else { return true };
    let mut all = users.iter().map(|user| user.row.used_bytes.value());
    let together = all.try_fold(Bytes::ZERO, |sum, used| Some(sum.plus(used?)));
    let are_enough = together.zip(short).is_none_or(|(together, short)| together >= short);
    used >= WORTH_ENDING && (are_enough || !is_negligible(used, place.capacity()))
}

/// In the first seconds nobody is known to be idle. Where the memory of others is what was short, the first process that
/// frees enough alone stands where it will stand once it is, with its condition, so that the plan does not turn over under
/// the person's hands. It is the viewer's own, and nobody busy is reached: `offer` decides that.
fn stand_as_if_idle(offers: &mut [Offer], short: Option<Bytes>) {
    let (Some(first), Some(short)) = (offers.first_mut(), short.filter(|short| *short > Bytes::ZERO)) else { return };
    let is_enough = first.planned.frees_bytes.is_some_and(|frees| frees >= short);
    if is_enough && first.planned.is_about_a_process() {
        first.may_be_busy = false;
    }
}

/// Puts the step first that loses least of those that are enough alone.
fn put_best_first(offers: &mut Vec<Offer>, short: Option<Bytes>) {
    let Some(short) = short.filter(|short| *short > Bytes::ZERO) else { return };
    let steps = offers.iter().map(|offer| &offer.planned).enumerate();
    let enough = steps.filter(|(_, step)| step.frees_bytes.is_some_and(|frees| frees >= short));
    if let Some((at, _)) = enough.min_by_key(|(_, step)| (!step.gentle, step.frees_bytes)) {
        let best = offers.remove(at);
        offers.insert(0, best);
    }
}

/// Inside a Kubernetes pod the step says its condition, and carries nothing that a key could act on.
fn once_allowed(planned: PlannedFix) -> PlannedFix {
    let mut planned = planned.with_condition("In a Kubernetes pod, only if oomdoctor was started with --allow-kill: ");
    for step in &mut planned.steps {
        let command =
            step.command.as_ref().map(|line| line.replacen("oomdoctor kill ", "oomdoctor kill --allow-kill ", 1));
        step.command = command;
    }
    PlannedFix { target: None, release: None, ..planned }
}

/// One rank or engine is not terminated alone where the launcher or server it works for would start it again or wait for
/// it: the step is then about that one, with all processes that end with it. Its question names them.
fn with_its_launcher(planned: PlannedFix, case: &Case<'_>, place: &Place<'_>, row: &GpuProcess) -> PlannedFix {
    match launcher_of(case, row) {
        Some(launcher) if !planned.gentle && !launcher.workers.is_empty() => about_launcher(planned, place, &launcher),
        _ => planned,
    }
}

/// A launcher or server that the viewer may terminate, and who ends with it.
struct Launcher<'a> {
    row: &'a GpuProcess,
    key: ProcessKey,
    workers: Vec<ProcessKey>,
}

fn launcher_of<'a>(case: &Case<'a>, row: &GpuProcess) -> Option<Launcher<'a>> {
    let snapshot = case.situation.snapshot?;
    let leader = snapshot.leader_of(row)?;
    let key = case.situation.viewer?.may_end(leader).ok()?;
    Some(Launcher { row: leader, key, workers: snapshot.below(key) })
}

fn about_launcher(mut planned: PlannedFix, place: &Place<'_>, launcher: &Launcher<'_>) -> PlannedFix {
    let together = used_together(place, launcher);
    let free = place.device.and_then(|device| device.memory.free_bytes.value());
    let everybody: Vec<String> =
        std::iter::once(&launcher.key).chain(&launcher.workers).map(ToString::to_string).collect();
    for step in &mut planned.steps {
        step.action = format!(
            "Sends SIGTERM; it should end its {} workers. Those still running get SIGTERM, too",
            launcher.workers.len()
        );
        step.command = Some(format!("oomdoctor kill --any {}", everybody.join(" ")));
        if let (Some(free), Some(used)) = (free, together) {
            step.expect = format!("Worked if: {} is free afterwards.", free.plus(used));
        }
    }
    PlannedFix {
        title: format!("Terminate {} and its {} workers", name_of(launcher.row), launcher.workers.len()),
        target: Some(launcher.key),
        frees_bytes: together,
        frees_is: together.map(|_| Is::Fact),
        ..planned
    }
}

/// What the launcher and its workers use of the GPU; `None` where one of them has no figure.
fn used_together(place: &Place<'_>, launcher: &Launcher<'_>) -> Option<Bytes> {
    let mut rows = place
        .device
        .into_iter()
        .flat_map(|device| &device.processes)
        .filter(|row| row.key().is_some_and(|key| key == launcher.key || launcher.workers.contains(&key)));
    rows.try_fold(Bytes::ZERO, |sum, row| Some(sum.plus(row.used_bytes.value()?)))
}

fn step_about(fix: &Fix, case: &Case<'_>, place: &Place<'_>, user: &User<'_>) -> Option<PlannedFix> {
    let (row, key) = (user.row, user.key);
    let value_of = |name: &str| value_of_process(name, row, key);
    let form = form_for(fix, row, &value_of)?;
    let mut step = step_of(fix, form, None, &value_of)?;
    let free = place.device.and_then(|device| device.memory.free_bytes.value());
    if let (Some(free), Some(used)) = (free, row.used_bytes.value()) {
        step.expect = format!("Worked if: {} is free afterwards.", free.plus(used));
    }
    let frees = case.situation.snapshot?.held_by(key);
    let is_own_way = form.program != "*";
    let planned = PlannedFix {
        title: substitute(form.title.as_ref().unwrap_or(&fix.title), &value_of)?,
        frees_bytes: frees,
        frees_is: frees.map(|_| Is::Fact),
        target: Some(key),
        costs: form.costs.clone().unwrap_or_else(|| fix.costs.clone()),
        gentle: is_own_way,
        steps: vec![step],
        ..PlannedFix::of(fix)
    };
    Some(in_the_gentlest_way(planned, row, case.situation.viewer.is_some_and(|viewer| viewer.owns(row))))
}

fn value_of_process(name: &str, row: &GpuProcess, key: ProcessKey) -> Option<String> {
    match name {
        "pid" => Some(key.to_string()),
        "holder" => Some(name_of(row)),
        "model" => release::named_model(row.recognised_as.as_deref()?),
        _ => None,
    }
}

/// The form for the process's own program, where all of its values are known; else the form that fits any.
fn form_for<'f>(fix: &'f Fix, row: &GpuProcess, value_of: &impl Fn(&str) -> Option<String>) -> Option<&'f FixCommand> {
    let label = row.recognised_as.as_deref().unwrap_or_default();
    let command = row.command.known().map_or("", String::as_str);
    let description = format!("{label} {command}").to_lowercase();
    let (any, own): (Vec<&FixCommand>, Vec<&FixCommand>) = fix.commands.iter().partition(|form| form.program == "*");
    let own = own.into_iter().filter(|form| description.contains(&form.program));
    own.chain(any).find(|form| form.command.as_deref().is_none_or(|text| substitute(text, value_of).is_some()))
}

/// A request to its own program comes before stopping what runs it, and that before terminating it alone.
fn in_the_gentlest_way(planned: PlannedFix, row: &GpuProcess, is_own: bool) -> PlannedFix {
    if let Some(release) = release::route(row) {
        let action = format!("{}. {}", release.asks(), release.way.means);
        return PlannedFix {
            costs: release.way.costs.into(),
            safety: release.way.safety,
            release: Some(release.clone()),
            ..gently(planned, format!("{} {}", release.way.verb, name_of(row)), &action, release.command())
        };
    }
    let stop = Supervisor::of(row).and_then(|supervisor| supervisor.stop(is_own));
    match stop {
        Some(stop) if !planned.gentle => PlannedFix {
            costs: stop.costs.into(),
            ..gently(planned, format!("Stop {}", name_of(row)), &stop.action, Some(stop.command))
        },
        _ => planned,
    }
}

fn gently(planned: PlannedFix, title: String, action: &str, command: Option<String>) -> PlannedFix {
    let steps =
        planned.steps.into_iter().map(|step| Step { action: action.to_owned(), command: command.clone(), ..step });
    PlannedFix { title, steps: steps.collect(), gentle: true, ..planned }
}
