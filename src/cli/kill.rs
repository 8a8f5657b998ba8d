//! Owns `oomdoctor kill`: names whom it means, asks, signals exactly those, waits, and says what came back. It goes
//! the same guarded way as the terminal program and never escalates by itself.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::output::{refuse, write};
use super::settings::Global;
use crate::advice::offer::Seen;
use crate::advice::supervisor::Supervisor;
use crate::app::effect::Order;
use crate::app::msg::SignalReport;
use crate::gpu::activity::Activity;
use crate::gpu::guard::{Refusal, Signal, Viewer};
use crate::gpu::running::Running;
use crate::gpu::{ProcessKey, ProcessKind, Snapshot};
use crate::platform::processes::{ProcessControl, Processes};
use crate::platform::{Here, Kernel, Machine, Platform, ThisMachine};
use crate::runtime::journal::Journal;
use crate::runtime::leaders::Leaders;
use crate::runtime::outside::not_recorded;
use crate::runtime::process_control::follow_and_watch;
use crate::units::Bytes;

/// A driver's teardown may take a moment.
const TEARDOWN: Duration = Duration::from_secs(10);

/// What was asked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub targets: Vec<String>,
    pub signal: Signal,
    /// How long each may take.
    pub grace: Duration,
    pub yes: bool,
    /// A PID that no GPU lists is meant, too.
    pub any: bool,
    /// Without asking, another user's process may be meant, too.
    pub other_users: bool,
}

/// One process that is meant.
struct Victim {
    key: ProcessKey,
    line: String,
    /// What it ran when it was named.
    ran: Running,
    held: Option<Bytes>,
    /// It should end with this one, which is meant, too, and signalled first.
    follows: Option<ProcessKey>,
    /// The other user that it belongs to.
    owner: Option<String>,
}

/// Runs it; 0 only if all ended, 1 where one did not, 2 where the order can't be understood or nobody can be asked.
pub(super) fn run(global: &Global, asked: &Asked) -> ExitCode {
    if let Some(why) = ThisMachine::LOGS_ONLY {
        return refuse(why);
    }
    if global.read_only {
        return refuse(&Refusal::ReadOnly.to_string());
    }
    let kernel = global.kernel();
    let viewer = kernel.viewer();
    if let Some(refusal) = viewer.refuses_everything() {
        return refuse(&refusal.to_string());
    }
    let (snapshot, no_reading) = match ThisMachine::read_once(&global.sampling()) {
        Ok(snapshot) => (Some(snapshot.harmless()), None),
        Err(why) => (None, Some(why)),
    };
    let mut victims = Vec::new();
    let mut refused = false;
    if let Some(error) = &no_reading {
        say(&format!("who holds GPU memory can't be seen: {error}"));
    }
    for target in &asked.targets {
        match named(target, snapshot.as_ref(), &kernel, &viewer, asked.any) {
            Ok(victim) if victims.iter().any(|known: &Victim| known.key == victim.key) => {}
            Ok(victim) => victims.push(victim),
            Err(Trouble::Usage(text)) => return refuse(&text),
            Err(Trouble::Refused(Refusal::Gone(pid))) => {
                say(&format!("not ended: there is no process {pid} here, or not any more"));
                refused = true;
            }
            Err(Trouble::Refused(refusal)) => {
                say(&format!("not ended: {refusal}"));
                refused = true;
            }
        }
    }
    if let Some(snapshot) = &snapshot {
        lead(&mut victims, snapshot, asked.signal);
    }
    for victim in &victims {
        say(&victim.line);
    }
    if victims.is_empty() {
        return ExitCode::from(1);
    }
    if asked.yes && !asked.other_users {
        let others = victims.iter().filter_map(|victim| Some((victim.key.pid, victim.owner.as_ref()?)));
        let others: Vec<String> = others.map(|(pid, user)| format!("{pid} belongs to {user}")).collect();
        if !others.is_empty() {
            return refuse(&format!(
                "{}: --yes is for your own processes; leave it out to be asked, or add --other-users",
                others.join(", ")
            ));
        }
    }
    if !asked.yes {
        match confirmed(&victims, asked.signal) {
            Some(true) => {}
            Some(false) => {
                say("nothing was ended");
                return ExitCode::from(1);
            }
            None => return refuse("there is no terminal to ask on; name them with --yes if you are sure"),
        }
    }
    let journal = Journal::new(Here::state_folder());
    let all = end_all(&victims, asked, &kernel, &viewer, &journal);
    report_memory(global, &victims, snapshot.as_ref(), &all, &journal);
    if all.iter().all(|ended| *ended) && !refused { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Sees who works for whom: the topmost that is meant is signalled first, and who works for one that is meant without
/// being meant is named, with the way to end it. Nobody is added.
fn lead(victims: &mut [Victim], snapshot: &Snapshot, signal: Signal) {
    let meant: Vec<ProcessKey> = victims.iter().map(|victim| victim.key).collect();
    for at in 0..victims.len() {
        let Some(first) = meant.get(at) else { continue };
        let below = snapshot.below(*first);
        let is_topmost = meant.iter().all(|other| !snapshot.below(*other).contains(first));
        // What is forced ends nobody itself.
        if is_topmost && signal != Signal::Kill {
            let workers = victims.iter_mut().filter(|victim| below.contains(&victim.key));
            workers.for_each(|victim| victim.follows = Some(*first));
        }
        let left: Vec<ProcessKey> = below.into_iter().filter(|key| !meant.contains(key)).collect();
        let Some(victim) = victims.get_mut(at).filter(|_| !left.is_empty()) else { continue };
        let amount = |key: &ProcessKey| match snapshot.held_by(*key) {
            Some(held) => format!("{} ({held})", key.pid),
            None => key.pid.to_string(),
        };
        let named: Vec<String> = left.iter().map(amount).collect();
        let all: Vec<String> = std::iter::once(first).chain(&left).map(ProcessKey::to_string).collect();
        let any = std::iter::once(first).chain(&left).any(|key| snapshot.find(*key).is_none());
        victim.line.push_str(&format!(
            "\n  {} for it, and may or may not end with it: {}\n  to end all of them: oomdoctor kill {}{}",
            if named.len() == 1 { "1 process works" } else { "these work" },
            named.join(", "),
            if any { "--any " } else { "" },
            all.join(" ")
        ));
    }
}

enum Trouble {
    Usage(String),
    Refused(Refusal),
}

/// Who a target is, seen by the list and by /proc now.
fn named(
    target: &str,
    snapshot: Option<&Snapshot>,
    kernel: &Kernel,
    viewer: &Viewer,
    any: bool,
) -> Result<Victim, Trouble> {
    let usage = || Trouble::Usage(format!("{target} is no PID or PID@START_TICKS; `oomdoctor ps` prints them"));
    let (pid, ticks) = match target.split_once('@') {
        Some((pid, ticks)) => (pid, Some(ticks.parse::<u64>().map_err(|_| usage())?)),
        None => (target, None),
    };
    let pid: u32 = pid.parse().map_err(|_| usage())?;
    if pid <= 1 || i32::try_from(pid).is_err() {
        return Err(Trouble::Refused(Refusal::ReservedPid(pid)));
    }
    let now = match kernel.inspect(pid) {
        Ok(Some(now)) => now,
        Ok(None) => return Err(Trouble::Refused(Refusal::Gone(pid))),
        Err(error) => return Err(Trouble::Refused(Refusal::Failed(pid, error.to_string()))),
    };
    if let Some(process) = now.thread_of {
        return Err(Trouble::Refused(Refusal::Thread(pid, process)));
    }
    if ticks.is_some_and(|ticks| ticks != now.start_ticks) {
        return Err(Trouble::Refused(Refusal::Reused(pid)));
    }
    let key = ProcessKey { pid, start_ticks: now.start_ticks };
    let row = snapshot.and_then(|snapshot| snapshot.process(key));
    let listed = row.is_some_and(|row| row.kind != ProcessKind::Unlisted);
    match row {
        _ if !listed && !any => {
            let below = snapshot.map(|snapshot| snapshot.below(key).len()).unwrap_or_default();
            let why = match (row, below) {
                (Some(_), 1) => ": a process that works for it is".to_owned(),
                (Some(_), 2..) => format!(": {below} that work for it are"),
                (Some(_), 0) => ", though it has the driver open".to_owned(),
                (None, _) => ", so ending it may give no GPU memory back".to_owned(),
            };
            return Err(Trouble::Usage(format!("no GPU lists {pid}{why}; add --any if you mean it all the same")));
        }
        Some(row) => {
            viewer.may_end(row).map_err(Trouble::Refused)?;
        }
        None => {
            if let Some(refusal) = viewer.refuses(&now.suspect(pid)) {
                return Err(Trouble::Refused(refusal));
            }
        }
    }
    let ran = now.runs.unwrap_or_default();
    let held = snapshot.and_then(|snapshot| snapshot.held_by(key));
    let launches = row.is_some_and(|row| row.used_bytes.value() == Some(Bytes::ZERO));
    let started = kernel.started_at(key);
    let line = format!(
        "{key}  {}  {}  started {}  {}",
        now.user.as_deref().unwrap_or("?"),
        match held {
            Some(held) => format!("{held} of GPU memory"),
            None if launches => "no GPU memory itself".to_owned(),
            None => "GPU memory unknown".to_owned(),
        },
        started.map_or("?".to_owned(), |time| time.to_string()),
        ran.command
    );
    // What speaks against it is read first.
    let owner = (!viewer.is_own(now.uid)).then(|| now.user.clone().unwrap_or_else(|| "another user".to_owned()));
    let owned = owner.as_ref().map(|user| format!("OWNED BY {user}, not you\n  "));
    let activity = row.zip(snapshot).map(|(row, snapshot)| Seen { snapshot, history: None, viewer }.activity(row));
    let busy = activity.filter(Activity::is_busy).map(|activity| format!("{activity}\n  "));
    let line = owned.into_iter().chain(busy).collect::<String>() + &line;
    let caution = row.and_then(Supervisor::of).map(|supervisor| format!("\n  {}", supervisor.caution()));
    let leader = row.zip(snapshot).and_then(|(row, snapshot)| snapshot.leader_of(row));
    let leader = leader.map(|leader| {
        let name = crate::advice::name_of(leader);
        format!("\n  it works for {name}, which may start it again or end the others")
    });
    let beside: String = caution.into_iter().chain(leader).collect();
    Ok(Victim { key, line: line + &beside, ran, held, follows: None, owner })
}

/// Names them and asks on the terminal itself, wherever our output goes; `None` where there is none. What was typed
/// before the question stood there is no answer.
fn confirmed(victims: &[Victim], signal: Signal) -> Option<bool> {
    let mut terminal = Here::terminal_to_ask().ok()?;
    if !std::io::stdout().is_terminal() {
        for victim in victims {
            writeln!(terminal, "{}", victim.line).ok()?;
        }
    }
    let how = if signal == Signal::Kill { "Force" } else { "End" };
    let what = if victims.len() == 1 { "it" } else { "them all" };
    Here::discard_typed(&terminal).ok()?;
    let mut answers = BufReader::new(terminal.try_clone().ok()?);
    let mut ask = |question: &str| {
        write!(terminal, "{question} ").ok()?;
        terminal.flush().ok()?;
        let mut answer = String::new();
        answers.read_line(&mut answer).ok()?;
        Some(answer.trim().to_owned())
    };
    // A yes that was meant for one's own processes is none for another user's.
    for victim in victims {
        let Some(owner) = &victim.owner else { continue };
        let pid = victim.key.pid.to_string();
        let typed = ask(&format!("{pid} belongs to {owner}. Type its PID to go on:"))?;
        if typed != pid {
            return Some(false);
        }
    }
    let answer = ask(&format!("{how} {what}? What is not saved is lost. [y/N]"))?;
    Some(matches!(answer.as_str(), "y" | "Y" | "yes"))
}

/// Signals each and waits for it; which of them ended.
fn end_all(victims: &[Victim], asked: &Asked, kernel: &Kernel, viewer: &Viewer, journal: &Journal) -> Vec<bool> {
    let (reports, inbox) = mpsc::channel();
    let leaders = Leaders::default();
    for (at, victim) in victims.iter().enumerate() {
        let (reports, kernel, viewer) = (reports.clone(), kernel.clone(), viewer.clone());
        let (journal, leaders) = (journal.clone(), leaders.clone());
        let (key, ran, follows) = (victim.key, victim.ran.clone(), victim.follows);
        let order = Order { key, ran, signal: asked.signal, follows, grace: asked.grace };
        thread::spawn(move || {
            let signal = order.signal;
            let deed = Journal::deed(&kernel, key, Some(signal));
            follow_and_watch(&kernel, &viewer, &order, &leaders, |report| {
                log::info!("{signal:?} to {key:?}: {report:?}");
                if let Err(error) = journal.note(&deed, &report) {
                    complain(&not_recorded(&error));
                }
                let _ = reports.send((at, report));
            });
        });
    }
    drop(reports);
    let mut ended = vec![None; victims.len()];
    while ended.iter().any(Option::is_none) {
        let Ok((at, report)) = inbox.recv() else { break };
        let Some(victim) = victims.get(at) else { continue };
        let pid = victim.key.pid;
        let outcome = match report {
            SignalReport::Sent => continue,
            SignalReport::Ended(after) => {
                say(&format!("{pid} ended after {:.1} s", after.as_secs_f32()));
                true
            }
            SignalReport::StillThere(state) => {
                let state = state.map(|state| format!(" (state {state})")).unwrap_or_default();
                let hint = if asked.signal == Signal::Kill { "" } else { "; --signal KILL forces it" };
                say(&format!("{pid} is still there after {} s{state}{hint}", asked.grace.as_secs_f32()));
                false
            }
            // With its launcher, between the look at who is left and its own turn.
            SignalReport::Refused(Refusal::Gone(pid)) if victim.follows.is_some() => {
                say(&format!("{pid} has already ended"));
                true
            }
            SignalReport::Refused(refusal) => {
                say(&format!("not ended: {refusal}"));
                false
            }
        };
        if let Some(slot) = ended.get_mut(at) {
            *slot = Some(outcome);
        }
    }
    ended.into_iter().map(|ended| ended == Some(true)).collect()
}

/// Says how much memory came back, by the driver's own figures.
fn report_memory(global: &Global, victims: &[Victim], before: Option<&Snapshot>, ended: &[bool], journal: &Journal) {
    let held = victims.iter().zip(ended).filter(|(_, ended)| **ended).filter_map(|(victim, _)| victim.held);
    let held = held.fold(Bytes::ZERO, Bytes::plus);
    let Some(before) = before.filter(|_| held > Bytes::ZERO) else { return };
    let due = Instant::now() + TEARDOWN;
    loop {
        let Ok(now) = ThisMachine::read_once(&global.sampling()) else {
            return say("the driver does not answer now, so it can't be seen what came back");
        };
        let listed = victims.iter().any(|victim| now.find(victim.key).is_some());
        let came_back = free(&now).less(free(before));
        if came_back.0 / 9 * 10 >= held.0 && !listed {
            for (victim, _) in victims.iter().zip(ended).filter(|(_, ended)| **ended) {
                note_memory(journal, victim.key, victim.held.unwrap_or_default());
            }
            return say(&format!("{came_back} of GPU memory came back"));
        }
        if Instant::now() >= due {
            if let [victim] = victims {
                note_memory(journal, victim.key, came_back);
            }
            return say(&format!("{came_back} of the {held} came back; another process may hold the rest by now"));
        }
        pause(Duration::from_millis(200));
    }
}

fn note_memory(journal: &Journal, key: ProcessKey, bytes: Bytes) {
    if let Err(error) = journal.note_memory(key, bytes) {
        complain(&not_recorded(&error));
    }
}

fn complain(text: &str) {
    // Whoever closed standard error wants to hear nothing.
    let _ = writeln!(std::io::stderr(), "oomdoctor: {text}");
}

fn free(snapshot: &Snapshot) -> Bytes {
    snapshot.devices.iter().filter_map(|device| device.memory.free_bytes.value()).fold(Bytes::ZERO, Bytes::plus)
}

/// Waits without sleeping on anything that could be missed: nobody sends.
fn pause(time: Duration) {
    let (_kept, nobody) = mpsc::channel::<()>();
    let _ = nobody.recv_timeout(time);
}

/// What was done stays done where it can't be said: that is complained about once for each line.
fn say(text: &str) {
    if let Err(error) = write(format!("{text}\n").as_bytes()) {
        complain(&format!("{text} (standard output can't be written: {error})"));
    }
}
