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
use crate::gpu::recognise::protected_command;
use crate::gpu::{Device, GpuProcess};
use crate::knowledge::FixId;
use crate::memory::Is;
use crate::units::Bytes;

/// So many owners are asked at most.
const MOST_OWNERS: usize = 2;

/// Where busy or other users' processes use the memory: the step to wait, and those to ask their owners.
pub(crate) fn wait_or_ask(case: &Case<'_>) -> Vec<PlannedFix> {
    let (Some(device), Some(seen), Some(ledger)) = (case.place.device, case.situation.seen(), &case.ledger) else {
        return Vec::new();
    };
    let (needed, short) = (ledger.needed_bytes, ledger.missing_bytes);
    let exceeds_gpu = needed.is_some_and(|needed| ledger.capacity_bytes.is_none_or(|capacity| needed > capacity));
    let is_need_unknown = case.place.is_here() && short.is_none();
    let is_of_now = ledger.is_now && !case.place.is_elsewhere();
    if !is_of_now || short == Some(Bytes::ZERO) || exceeds_gpu || is_need_unknown {
        return Vec::new();
    }
    let others = of_other_users(device, seen);
    let busy = busy_own(case, seen);
    let mut steps = Vec::new();
    if !others.is_empty() || !busy.is_empty() {
        steps.extend(wait(device, needed.zip(short), &busy, ledger));
    }
    steps.extend(
        others.iter().take(MOST_OWNERS).map(|row| ask_owner(device, row, short.map(|short| ledger.bound(short)))),
    );
    steps
}

fn is_worth_it(row: &GpuProcess) -> bool {
    row.used_bytes.value().is_some_and(|used| used >= WORTH_ENDING)
}

/// Other users' processes that use enough, the largest first; nothing that belongs to the system.
fn of_other_users<'a>(device: &'a Device, seen: Seen<'_>) -> Vec<&'a GpuProcess> {
    let mut others: Vec<&GpuProcess> = device.processes.iter().filter(|row| is_worth_it(row)).collect();
    others.retain(|row| {
        let command = row.command.known().map_or("", String::as_str);
        row.proved && !seen.viewer.owns(row) && protected_command(command).is_none()
    });
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

/// Of a log that is read alone, nobody can be named who used the rest.
pub(crate) fn look_there() -> PlannedFix {
    PlannedFix {
        title: "Look who holds the card where it ran".into(),
        steps: vec![Step::new(
            "On that machine, list who holds how much; end what is yours, and ask whose the rest is".into(),
            Some("oomdoctor ps".into()),
            "what others held is what was missing".into(),
            "each process with its owner and its memory",
            "nvidia-smi shows the same without the owners",
        )],
        ..PlannedFix::named(FixId::LOOK_THERE, "nothing")
    }
}
