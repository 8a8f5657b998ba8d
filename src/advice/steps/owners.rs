//! Owns the steps for memory that busy processes or other users' processes use: to wait until there is room, and whom to
//! ask in which words. Nothing is done to such a process.

use std::cmp::Reverse;

use super::planned::{PlannedFix, Step};
use super::processes::WORTH_ENDING;
use crate::advice::case::Case;
use crate::advice::ledger::Ledger;
use crate::advice::naming::{amount, name_of, name_of_device, user_of};
use crate::advice::offer::{Seen, Standing};
use crate::advice::release::{self, Api};
use crate::gpu::activity::Activity;
use crate::gpu::usage::is_service;
use crate::gpu::{Device, GpuProcess};
use crate::knowledge::FixId;
use crate::memory::Is;
use crate::units::Bytes;

/// So many owners are asked at most.
const MOST_OWNERS: usize = 2;

/// The IDs of service accounts: login.defs(5), SYS_UID_MIN and SYS_UID_MAX, without root.
const SERVICE_ACCOUNTS: std::ops::Range<u32> = 1..1000;

/// Where busy or other users' processes use the memory: the step to wait, and those to ask their owners.
pub(crate) fn wait_or_ask(case: &Case<'_>) -> Vec<PlannedFix> {
    let (Some(device), Some(seen), Some(ledger)) = (case.place.device, case.situation.seen(), &case.ledger) else {
        return Vec::new();
    };
    let (needed, short) = (ledger.needed_bytes, ledger.missing_bytes);
    let shown = case.shown_need();
    let exceeds_gpu = needed.is_some_and(|needed| ledger.capacity_bytes.is_none_or(|capacity| needed > capacity));
    let is_need_unknown = case.place.is_here() && short.is_none();
    let is_of_now = ledger.is_now && !case.place.is_elsewhere();
    if !is_of_now || short == Some(Bytes::ZERO) || exceeds_gpu || is_need_unknown {
        return Vec::new();
    }
    let others = of_other_users(device, seen);
    let busy = busy_own(case, seen);
    let is_waited_for = !others.is_empty() || !busy.is_empty();
    let short = shown.map(|(_, short)| ledger.bound(short));
    // A service is for everybody on the machine: there is nobody to write to, and it releases memory when asked.
    let (mut steps, mut asked) = (Vec::new(), Vec::new());
    for row in others {
        match unload_service(row, seen) {
            Some(step) => steps.push(step),
            None if asked.len() < MOST_OWNERS => asked.push(ask_owner(device, row, short.clone())),
            None => {}
        }
    }
    if is_waited_for {
        steps.extend(wait(device, shown, &busy, ledger));
    }
    steps.extend(asked);
    steps
}

/// To have a service release memory that nobody needs. `None` for a person's process, a busy one, and one without a command.
fn unload_service(row: &GpuProcess, seen: Seen<'_>) -> Option<PlannedFix> {
    let is_for_everybody = row.uid.value().is_some_and(|uid| SERVICE_ACCOUNTS.contains(&uid));
    if !is_for_everybody || seen.activity(row).is_busy() {
        return None;
    }
    let release = release::route(row)?;
    let action = format!(
        "It runs as the service account {}, for everybody on this machine. {}",
        user_of(row),
        release.way.means
    );
    let why = format!("{} uses {}", name_of(row), amount(row.used_bytes.value()));
    let if_not = "if it is loaded again, somebody uses it: wait, or ask them";
    Some(PlannedFix {
        title: format!("{}, if nobody else needs it", release.asks()),
        frees_bytes: row.used_bytes.value(),
        frees_is: row.used_bytes.value().map(|_| Is::Fact),
        steps: vec![Step::new(action, Some(release.command()?), why, "the bar falls", if_not)],
        ..PlannedFix::named(FixId::ASK_OWNER, release.way.costs)
    })
}

fn is_worth_it(row: &GpuProcess) -> bool {
    row.used_bytes.value().is_some_and(|used| used >= WORTH_ENDING)
}

/// Other users' processes that use enough, the largest first; nothing that belongs to the system.
fn of_other_users<'a>(device: &'a Device, seen: Seen<'_>) -> Vec<&'a GpuProcess> {
    let mut others: Vec<&GpuProcess> = device.processes.iter().filter(|row| is_worth_it(row)).collect();
    others.retain(|row| row.proved && !seen.viewer.owns(row) && !is_service(row));
    others.sort_by_key(|row| Reverse(row.used_bytes.value()));
    others
}

/// The viewer's own processes that use what the run needs and are at work.
fn busy_own<'a>(case: &Case<'a>, seen: Seen<'_>) -> Vec<(&'a GpuProcess, Activity)> {
    let rows = case.users.iter().map(|user| user.row);
    let own = rows.filter(|row| seen.viewer.owns(row) && is_worth_it(row));
    own.filter_map(|row| match seen.if_ended(row) {
        Standing::Busy(activity) => Some((row, activity)),
        _ => None,
    })
    .collect()
}

fn ask_owner(device: &Device, row: &GpuProcess, short: Option<String>) -> PlannedFix {
    let (name, user, used) = (name_of(row), user_of(row), row.used_bytes.value());
    let more = short.map_or_else(|| "room".to_owned(), |short| format!("{short} more"));
    let message = format!(
        "Hi {user}, your process {name} uses {} of {}, and my job needs {more} there. {} Thank you.",
        amount(used),
        name_of_device(device),
        wish(row)
    );
    PlannedFix {
        title: format!("Ask {user} about {name}"),
        frees_bytes: used,
        frees_is: used.map(|_| Is::Fact),
        steps: vec![Step::new(
            format!("It belongs to {user}: send them this"),
            Some(message),
            "memory on a GPU goes to whoever asks first; another user's process is never ended or asked for you".into(),
            "they end it, and the bar falls",
            "ask whoever runs this machine",
        )],
        ..PlannedFix::named(FixId::ASK_OWNER, "their time")
    }
}

/// What its program would do by itself is asked for, rather than its end.
fn wish(row: &GpuProcess) -> String {
    let Some(release) = release::route(row) else {
        return "Could you end it, or tell me when it will be done?".to_owned();
    };
    match release.command() {
        Some(command) if release.way.api == Api::Ollama => {
            format!("Could you unload its model (`{command}`), or tell me when it is no longer needed?")
        }
        _ => "Could you have it release memory, or tell me when it will be done?".to_owned(),
    }
}

/// To wait until there is room; where it is not known how much is needed, only for a busy process of one's own to finish.
fn wait(
    device: &Device,
    needed: Option<(Bytes, Bytes)>,
    busy: &[(&GpuProcess, Activity)],
    ledger: &Ledger,
) -> Option<PlannedFix> {
    let own: Vec<String> =
        busy.iter().map(|(row, activity)| format!("{} is yours and {activity}", name_of(row))).collect();
    let why = match own.is_empty() {
        true => "what others use is free again when their jobs end".to_owned(),
        false => format!("{}: ending it would lose its work", own.join(", ")),
    };
    let Some((needed, short)) = needed else {
        let name = name_of(busy.first()?.0);
        let action = format!("Let {name} finish, then start your job again");
        let step = Step::new(action, None, why, "the bar falls", "if it does not finish, check what it does");
        return Some(PlannedFix { title: format!("Wait until {name} has finished"), steps: vec![step], ..waiting() });
    };
    let action =
        format!("oomdoctor watches GPU {} and rings the bell once {} more is free", device.index, ledger.bound(short));
    let step = Step::new(action, None, why, "the terminal's bell, and a line that says so", "Esc stops the waiting");
    Some(PlannedFix {
        title: format!("Wait until {} is free", ledger.bound(needed)),
        waits_for: Some((device.index, needed)),
        steps: vec![step],
        ..waiting()
    })
}

fn waiting() -> PlannedFix {
    PlannedFix::named(FixId::WAIT_FOR_MEMORY, "time")
}
