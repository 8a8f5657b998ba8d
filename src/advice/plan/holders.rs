//! Owns the steps that end a holder, or have its own program give the memory back.

use super::fill::{step_of, substitute};
use super::{FreesIs, HOLDERS, PlannedFix, Step, WORTH_ENDING, empty, step_named};
use crate::advice::offer::{Seen, Standing, user_of};
use crate::advice::release::Api;
use crate::advice::supervisor::Supervisor;
use crate::advice::{Ledger, Place, Situation, amount, name_of, name_of_device, release, verdict};
use crate::gpu::activity::Activity;
use crate::gpu::guard::Viewer;
use crate::gpu::recognise::protected_command;
use crate::gpu::{Device, GpuProcess, ProcessKey};
use crate::knowledge::FixId;
use crate::knowledge::fix::{Fix, FixCommand};
use crate::units::Bytes;

/// The steps about holders.
#[derive(Default)]
pub struct Offers {
    /// About processes that were seen to do nothing.
    pub idle: Vec<PlannedFix>,
    /// About those of which that is not known, or that may only be ended under a condition: after the idle ones, and
    /// never the first step where there is another.
    pub unknown: Vec<PlannedFix>,
}

/// A step for each holder that may be offered, see [`verdict::holders`] and [`Seen`]: first the smallest that is enough
/// alone, one whose own program lets go before one that must end, so that nobody loses work for nothing.
pub fn end_holders(fix: &Fix, situation: &Situation<'_>, place: &Place<'_>, missing: Option<Bytes>) -> Offers {
    let Some(seen) = Seen::of(situation) else { return Offers::default() };
    let mut offers = Offers::default();
    for (row, key) in verdict::holders(situation, place) {
        let worth = row.used_bytes.value().is_none_or(|bytes| bytes >= WORTH_ENDING);
        let Some(planned) = end_holder(fix, situation, place, row, key).filter(|_| worth) else { continue };
        let standing = match &planned.release {
            Some(release) => seen.if_released(row, release),
            None => seen.if_ended(row),
        };
        let count = offers.idle.len() + offers.unknown.len();
        if !standing.is_offered() || count >= HOLDERS {
            continue;
        }
        let mut planned = with_its_launcher(planned, situation, place, row);
        if place.same_machine.is_none() {
            planned
                .steps
                .iter_mut()
                .for_each(|step| step.action = format!("If your run was on this card: {}", lower(&step.action)));
        }
        // Several ranks of one launcher are one step.
        let is_known = |other: &PlannedFix| (other.target, &other.title) == (planned.target, &planned.title);
        if offers.idle.iter().chain(&offers.unknown).any(is_known) {
            continue;
        }
        match situation.viewer.and_then(Viewer::refuses_everything) {
            Some(_) => offers.unknown.push(once_allowed(planned)),
            None if standing.is_idle() => offers.idle.push(planned),
            None => offers.unknown.push(if_unused(planned)),
        }
    }
    for steps in [&mut offers.idle, &mut offers.unknown] {
        best_first(steps, missing);
    }
    offers
}

/// The one that loses least of those that are enough alone stands first.
fn best_first(steps: &mut Vec<PlannedFix>, missing: Option<Bytes>) {
    let enough = |planned: &PlannedFix| {
        let (Some(missing), Some(frees)) = (missing, planned.frees_bytes) else { return false };
        missing > Bytes::ZERO && frees >= missing
    };
    let alone = steps.iter().enumerate().filter(|(_, planned)| enough(planned));
    if let Some((at, _)) = alone.min_by_key(|(_, planned)| (!planned.gentle, planned.frees_bytes)) {
        let first = steps.remove(at);
        steps.insert(0, first);
    }
}

/// Of one whose activity is not known.
fn if_unused(planned: PlannedFix) -> PlannedFix {
    let steps = planned.steps.iter().map(|step| Step {
        action: format!("Check first that it is idle, which is not known yet: {}", lower(&step.action)),
        ..step.clone()
    });
    PlannedFix { steps: steps.collect(), ..planned }
}

/// Inside a Kubernetes pod the step says its condition, and carries nothing that a key could act on.
fn once_allowed(planned: PlannedFix) -> PlannedFix {
    let steps = planned.steps.iter().map(|step| Step {
        action: format!(
            "In a Kubernetes pod, only if oomdoctor was started with --allow-kill: {}",
            lower(&step.action)
        ),
        command: step.command.as_ref().map(|command| match command.strip_prefix("oomdoctor kill ") {
            Some(targets) => format!("oomdoctor kill --allow-kill {targets}"),
            None => command.clone(),
        }),
        ..step.clone()
    });
    PlannedFix { steps: steps.collect(), target: None, release: None, ..planned }
}

/// A sentence that goes on after a colon.
fn lower(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// One rank or engine is not ended alone where the launcher or server it works for would only start it again or wait for
/// it: the step is then about that one, with all who end with it. Its question names them.
fn with_its_launcher(
    planned: PlannedFix,
    situation: &Situation<'_>,
    place: &Place<'_>,
    row: &GpuProcess,
) -> PlannedFix {
    let leader = || {
        let leader = situation.snapshot?.leader_of(row)?;
        let key = situation.viewer?.may_end(leader).ok()?;
        Some((leader, key, situation.snapshot?.below(key)))
    };
    let Some((leader, key, below)) = leader().filter(|(_, _, below)| !planned.gentle && !below.is_empty()) else {
        return planned;
    };
    let device = place.device.into_iter().flat_map(|device| &device.processes);
    let mut rows = device.filter(|row| row.key().is_some_and(|of| of == key || below.contains(&of)));
    let together = rows.try_fold(Bytes::ZERO, |sum, row| Some(sum.plus(row.used_bytes.value()?)));
    let all: Vec<String> = std::iter::once(&key).chain(&below).map(ToString::to_string).collect();
    let name = name_of(leader);
    let free = place.device.and_then(|device| device.memory.free_bytes.value()).zip(together);
    let steps = planned.steps.iter().map(|step| Step {
        action: format!(
            "It is asked to close and should end the {} that work for it; who of them stays is asked, too",
            below.len()
        ),
        command: Some(format!("oomdoctor kill --any {}", all.join(" "))),
        expect: free
            .map_or_else(|| step.expect.clone(), |(free, held)| format!("Expect {} free afterwards.", free.plus(held))),
        ..step.clone()
    });
    PlannedFix {
        title: format!("End {name} with its {} workers", below.len()),
        steps: steps.collect(),
        target: Some(key),
        frees_bytes: together,
        frees_is: together.map(|_| FreesIs::Fact),
        ..planned
    }
}

/// Where busy or other users' processes use the memory, to which no step is done: to wait for room, and whom to ask
/// and what to write.
pub fn wait_or_ask(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>) -> Vec<PlannedFix> {
    let (Some(device), Some(seen)) = (place.device, Seen::of(situation)) else { return Vec::new() };
    let Some(ledger) = ledger.filter(|ledger| ledger.is_now && place.same_machine != Some(false)) else {
        return Vec::new();
    };
    let (needed, missing) = (ledger.needed_bytes, ledger.missing_bytes);
    let beyond = needed.is_some_and(|needed| ledger.capacity_bytes.is_none_or(|capacity| needed > capacity));
    let untold = place.same_machine == Some(true) && missing.is_none();
    if missing == Some(Bytes::ZERO) || beyond || untold {
        return Vec::new();
    }
    let is_worth = |row: &&GpuProcess| row.used_bytes.value().is_some_and(|held| held >= WORTH_ENDING);
    let foreign = |row: &&GpuProcess| {
        let command = row.command.known().map_or("", String::as_str);
        row.proved && !seen.viewer.owns(row) && protected_command(command).is_none()
    };
    let mut others: Vec<&GpuProcess> = device.processes.iter().filter(foreign).filter(is_worth).collect();
    others.sort_by_key(|row| std::cmp::Reverse(row.used_bytes.value()));
    let in_the_way = verdict::holders(situation, place);
    let own = in_the_way.iter().map(|(row, _)| *row).filter(|row| seen.viewer.owns(row));
    let busy: Vec<(&GpuProcess, Activity)> = own
        .filter(is_worth)
        .filter_map(|row| match seen.if_ended(row) {
            Standing::Busy(activity) => Some((row, activity)),
            _ => None,
        })
        .collect();
    let waiting = (!others.is_empty() || !busy.is_empty()).then(|| wait(device, needed.zip(missing), &busy));
    let asked = others.iter().take(2).map(|row| ask_owner(device, row, missing));
    waiting.flatten().into_iter().chain(asked).collect()
}

fn ask_owner(device: &Device, row: &GpuProcess, missing: Option<Bytes>) -> PlannedFix {
    let (name, card, user) = (name_of(row), name_of_device(device), user_of(row));
    let held = row.used_bytes.value();
    let more = missing.map_or_else(|| "room".to_owned(), |missing| format!("{missing} more"));
    // What its program would do by itself is asked for, rather than its end.
    let wish = match release::route(row) {
        Some(release) => match release.command() {
            Some(command) if release.api == Api::Ollama => {
                format!("Could you unload its model (`{command}`), or tell me when it is no longer needed?")
            }
            _ => "Could you have it release memory, or tell me when it will be done?".to_owned(),
        },
        None => "Could you end it, or tell me when it will be done?".to_owned(),
    };
    let message = format!(
        "Hi {user}, your process {name} uses {} of {card}, and my job needs {more} there. {wish} Thank you.",
        amount(held)
    );
    PlannedFix {
        title: format!("Ask {user} about {name}"),
        frees_bytes: held,
        frees_is: held.map(|_| FreesIs::Fact),
        steps: vec![Step {
            action: format!("It belongs to {user}: send them this"),
            command: Some(message),
            why: "memory on a GPU goes to whoever asks first; another user's process is never ended or asked for you"
                .into(),
            expect: "they end it, and the bar falls".into(),
            if_not: "ask whoever runs this machine".into(),
            versions: None,
        }],
        ..step_named(FixId::ASK_OWNER, "their time")
    }
}

/// To wait until there is room; without knowing how much, only for one's own busy process to finish.
fn wait(device: &Device, needed: Option<(Bytes, Bytes)>, busy: &[(&GpuProcess, Activity)]) -> Option<PlannedFix> {
    let own: Vec<String> =
        busy.iter().map(|(row, activity)| format!("{} is yours and {activity}", name_of(row))).collect();
    let why = match &own[..] {
        [] => "what others use is free again when their jobs end".to_owned(),
        own => format!("{}: ending it would lose its work", own.join(", ")),
    };
    let step = |action: String, expect: &str, if_not: &str| Step {
        action,
        command: None,
        why: why.clone(),
        expect: expect.into(),
        if_not: if_not.into(),
        versions: None,
    };
    let Some((needed, missing)) = needed else {
        let (first, _) = busy.first()?;
        let name = name_of(first);
        return Some(PlannedFix {
            title: format!("Wait until {name} has finished"),
            steps: vec![step(
                format!("Let {name} finish, then start your job again"),
                "the bar falls",
                "if it does not finish, check what it does",
            )],
            ..step_named(FixId::WAIT_FOR_MEMORY, "time")
        });
    };
    Some(PlannedFix {
        title: format!("Wait until {needed} is free"),
        waits_for: Some((device.index, needed)),
        steps: vec![step(
            format!("oomdoctor watches GPU {} and rings the bell once {missing} more is free", device.index),
            "the terminal's bell, and a line that says so",
            "Esc stops the waiting",
        )],
        ..step_named(FixId::WAIT_FOR_MEMORY, "time")
    })
}

fn end_holder(
    fix: &Fix,
    situation: &Situation<'_>,
    place: &Place<'_>,
    row: &GpuProcess,
    key: ProcessKey,
) -> Option<PlannedFix> {
    let what = format!(
        "{} {}",
        row.recognised_as.as_deref().unwrap_or_default(),
        row.command.known().map_or("", String::as_str)
    )
    .to_lowercase();
    let fill = |name: &str| match name {
        "pid" => Some(key.to_string()),
        "holder" => Some(name_of(row)),
        "model" => release::named_model(row.recognised_as.as_deref()?),
        _ => None,
    };
    // Its own program's way, where all of it is known; else the way that fits any.
    let whole = |command: &FixCommand| command.command.as_deref().is_none_or(|text| substitute(text, &fill).is_some());
    let own = fix.commands.iter().filter(|command| command.program != "*" && what.contains(&command.program));
    let any = fix.commands.iter().filter(|command| command.program == "*");
    let command = own.chain(any).find(|command| whole(command))?;
    let free = place.device.and_then(|device| device.memory.free_bytes.value());
    let after = free.zip(row.used_bytes.value()).map(|(free, held)| free.plus(held));
    let mut step = step_of(fix, command, None, &fill)?;
    if let Some(after) = after {
        step.expect = format!("Expect {after} free afterwards.");
    }
    let snapshot = situation.snapshot?;
    let planned = PlannedFix {
        title: match command.program.as_str() {
            "*" => substitute(&fix.title, &fill)?,
            _ => format!("Get back the memory of {}", name_of(row)),
        },
        frees_bytes: snapshot.held_by(key),
        frees_is: snapshot.held_by(key).map(|_| FreesIs::Fact),
        target: Some(key),
        costs: command.costs.clone().unwrap_or_else(|| fix.costs.clone()),
        gentle: command.program != "*",
        steps: vec![step],
        ..empty(fix)
    };
    let own = situation.viewer.is_some_and(|viewer| viewer.owns(row));
    Some(gentlest(planned, row, own))
}

/// What its own program can be asked for comes before whoever runs it, and that before ending it alone.
fn gentlest(planned: PlannedFix, row: &GpuProcess, own: bool) -> PlannedFix {
    let gentler = |action: String, command: Option<String>| {
        let steps =
            planned.steps.iter().map(|step| Step { action: action.clone(), command: command.clone(), ..step.clone() });
        PlannedFix {
            title: format!("Get back the memory of {}", name_of(row)),
            steps: steps.collect(),
            gentle: true,
            ..planned.clone()
        }
    };
    if let Some(release) = release::route(row) {
        let action = format!("{}. {}", release.asks(), release.means());
        return PlannedFix {
            costs: release.costs().into(),
            safety: release.safety(),
            release: Some(release.clone()),
            ..gentler(action, release.command())
        };
    }
    match Supervisor::of(row).and_then(|supervisor| supervisor.stop(own)).filter(|_| !planned.gentle) {
        Some(stop) => PlannedFix { costs: stop.costs.into(), ..gentler(stop.action, Some(stop.command)) },
        None => planned,
    }
}
