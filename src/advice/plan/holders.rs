//! Owns the steps that end a holder, or have its own program give the memory back.

use super::fill::{step_of, substitute};
use super::{ASK_OWNER, FreesIs, HOLDERS, PlannedFix, Step, WAIT, WORTH_ENDING, empty, step_named};
use crate::advice::supervisor::Supervisor;
use crate::advice::{Ledger, Place, Situation, name_of, name_of_device, release, verdict};
use crate::gpu::guard::Refusal;
use crate::gpu::{Device, GpuProcess, ProcessKey};
use crate::knowledge::fix::{Fix, FixCommand};
use crate::units::Bytes;

/// A step for each holder that may be offered, see [`verdict::holders`]: first the smallest that is enough alone, an
/// idle one before others and one whose own program lets go before one that must end, so that nobody loses work for
/// nothing. Then those that are seen at work, apart.
pub fn end_holders(
    fix: &Fix,
    situation: &Situation<'_>,
    place: &Place<'_>,
    missing: Option<Bytes>,
) -> (Vec<PlannedFix>, Vec<PlannedFix>) {
    let history = situation.history;
    // Without having watched, the driver's last figure must do; what is somebody else's comes after one's own.
    let unwatched = |row: &GpuProcess| history.is_none() && row.sm_percent.value().is_some_and(|percent| percent > 0);
    let foreign = |row: &GpuProcess| situation.viewer.is_some_and(|viewer| !viewer.owns(row));
    let works = |key| history.is_some_and(|history| history.is_at_work(key, verdict::WATCHED_ENOUGH));
    let rests =
        |key| history.and_then(|history| history.idle_for(key)).is_some_and(|time| time >= verdict::WATCHED_ENOUGH);
    let (mut idle, mut busy): (Vec<(PlannedFix, bool)>, Vec<PlannedFix>) = (Vec::new(), Vec::new());
    for (row, key) in verdict::holders(situation, place).into_iter().take(HOLDERS) {
        let worth = row.used_bytes.value().is_none_or(|bytes| bytes >= WORTH_ENDING);
        let Some(planned) = end_holder(fix, situation, place, row, key).filter(|_| worth) else { continue };
        let mut planned = with_its_launcher(planned, situation, place, row);
        if place.same_machine.is_none() {
            planned
                .steps
                .iter_mut()
                .for_each(|step| step.action = format!("If your run was on this card: {}", lower(&step.action)));
        }
        let named = |other: &PlannedFix| other.target == planned.target;
        if idle.iter().any(|(other, _)| named(other)) || busy.iter().any(named) {
            continue;
        }
        match works(key) || unwatched(row) || foreign(row) && !planned.gentle {
            true => busy.push(planned),
            false => idle.push((planned, rests(key))),
        }
    }
    let enough = |planned: &PlannedFix| {
        let (Some(missing), Some(frees)) = (missing, planned.frees_bytes) else { return false };
        missing > Bytes::ZERO && frees >= missing
    };
    let best = idle
        .iter()
        .enumerate()
        .filter(|(_, (planned, _))| enough(planned))
        .min_by_key(|(_, (planned, unused))| (!unused, !planned.gentle, planned.frees_bytes));
    if let Some((at, _)) = best {
        let first = idle.remove(at);
        idle.insert(0, first);
    }
    (idle.into_iter().map(|(planned, _)| planned).collect(), busy)
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

/// Where others' processes hold the memory: whom to ask and what to write, and to be told when there is room.
pub fn ask_owners(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>) -> Vec<PlannedFix> {
    let (Some(device), Some(viewer)) = (place.device, situation.viewer) else { return Vec::new() };
    let Some(ledger) = ledger.filter(|ledger| ledger.is_now && place.same_machine == Some(true)) else {
        return Vec::new();
    };
    let (Some(needed), Some(missing)) = (ledger.needed_bytes, ledger.missing_bytes) else { return Vec::new() };
    if missing == Bytes::ZERO || ledger.capacity_bytes.is_none_or(|capacity| needed > capacity) {
        return Vec::new();
    }
    // Who can be had to let go by other means is not asked for it.
    let offered: Vec<u32> = verdict::holders(situation, place).iter().map(|(row, _)| row.pid).collect();
    let mut others: Vec<(&GpuProcess, Bytes, String)> = device
        .processes
        .iter()
        .filter(|row| !offered.contains(&row.pid))
        .filter_map(|row| match viewer.may_end(row) {
            Err(Refusal::OtherUser(_, user)) => Some((row, row.used_bytes.value()?, user)),
            _ => None,
        })
        .filter(|(_, held, _)| *held >= WORTH_ENDING)
        .collect();
    others.sort_by_key(|(_, held, _)| std::cmp::Reverse(*held));
    let mut steps: Vec<PlannedFix> =
        others.iter().take(2).map(|(row, held, user)| ask_owner(device, row, *held, user, missing)).collect();
    if !others.is_empty() {
        steps.push(wait(device, needed, missing));
    }
    steps
}

fn ask_owner(device: &Device, row: &GpuProcess, held: Bytes, user: &str, missing: Bytes) -> PlannedFix {
    let (name, card) = (name_of(row), name_of_device(device));
    let message = format!(
        "Hi {user}, your process {name} holds {held} of {card}, and my job needs {missing} more there. Could you end it, or tell me when it will be done? Thank you."
    );
    PlannedFix {
        title: format!("Ask {user} about {name}"),
        frees_bytes: Some(held),
        frees_is: Some(FreesIs::Fact),
        steps: vec![Step {
            action: format!("It belongs to {user}, so only they (or root) can end it: send them this"),
            command: Some(message),
            why: "memory on a card goes to whoever asks first; another user's process can't be ended by you".into(),
            expect: "they end it, and the bar falls".into(),
            if_not: "whoever runs this machine can end it".into(),
            versions: None,
        }],
        ..step_named(ASK_OWNER, "their time")
    }
}

fn wait(device: &Device, needed: Bytes, missing: Bytes) -> PlannedFix {
    PlannedFix {
        title: format!("Wait: I ring when {needed} is free"),
        waits_for: Some((device.index, needed)),
        steps: vec![Step {
            action: format!("I watch GPU {} and ring the bell as soon as {missing} more is free", device.index),
            command: None,
            why: "what others hold comes back when their jobs end".into(),
            expect: "the terminal's bell, and a line that says so".into(),
            if_not: "Esc stops the waiting".into(),
            versions: None,
        }],
        ..step_named(WAIT, "time")
    }
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
