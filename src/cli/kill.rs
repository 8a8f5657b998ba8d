//! Owns `oomdoctor kill`, which names the processes, asks, signals exactly those, waits, and prints how much VRAM was
//! freed. It applies the same checks as the terminal program and never escalates to SIGKILL by itself.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::output::{refuse, warn, write};
use super::settings::{Global, seconds};
use crate::advice::offer::Seen;
use crate::advice::supervisor::Supervisor;
use crate::app::effect::Order;
use crate::app::msg::SignalReport;
use crate::app::walk::teardown;
use crate::gpu::guard::{Refusal, Signal, Viewer};
use crate::gpu::running::Running;
use crate::gpu::{GpuProcess, ProcessKey, ProcessKind, Snapshot};
use crate::platform::processes::{Inspection, ProcessControl};
use crate::platform::{Kernel, here, machine};
use crate::runtime::journal::Journal;
use crate::runtime::outside::not_recorded;
use crate::runtime::process_control::Leaders;
use crate::runtime::process_control::follow_and_watch;
use crate::text::harmless;
use crate::units::{Bytes, WallTime};

#[derive(Debug, Args)]
pub struct KillArgs {
    /// The processes, as `oomdoctor ps` prints them; with @START_TICKS, a reused PID is refused.
    #[arg(required = true, value_name = "PID[@START_TICKS]")]
    targets: Vec<String>,
    /// Send this signal.
    #[arg(long, value_name = "TERM|INT|KILL", default_value = "TERM", ignore_case = true)]
    signal: Signal,
    /// Wait this long for each process to exit.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    grace: Duration,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// Also allow a process that uses no VRAM.
    #[arg(long)]
    any: bool,
    /// Also allow other users' processes with --yes (root only).
    #[arg(long)]
    other_users: bool,
}

/// A process to terminate.
struct Target {
    key: ProcessKey,
    line: String,
    /// The program and command line that it ran when it was shown to the user.
    ran: Running,
    held: Option<Bytes>,
    /// The target that it works for, which is signaled first.
    follows: Option<ProcessKey>,
    /// The GPUs of which it must still have one open.
    cards: Vec<String>,
    /// Its user, if that is not the current user.
    owner: Option<String>,
}

/// Exits with 0 only if all processes exited, with 1 if one did not, and with 2 if an argument is invalid or there is no
/// terminal to ask on.
pub(super) fn run(global: &Global, args: &KillArgs) -> ExitCode {
    if let Some(why) = machine::LOGS_ONLY {
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
    let snapshot = match machine::read_once(&global.sampling) {
        Ok(snapshot) => Some(snapshot.harmless()),
        Err(why) => {
            say(&format!("the processes that use VRAM can't be read: {why}"));
            None
        }
    };
    let (mut targets, refused) = match find_all(args, snapshot.as_ref(), &kernel, &viewer) {
        Ok(found) => found,
        Err(usage) => return refuse(&usage),
    };
    if let Some(snapshot) = &snapshot {
        lead(&mut targets, snapshot, args.signal);
    }
    for target in &targets {
        say(&target.line);
    }
    if targets.is_empty() {
        return ExitCode::from(1);
    }
    if let Err(code) = confirm(&targets, args) {
        return code;
    }
    let journal = Journal::new(here::state_folder());
    let all = end_all(&targets, args, &kernel, &viewer, &journal);
    report_memory(global, &targets, snapshot.as_ref(), &all, &journal);
    if all.iter().all(|ended| *ended) && !refused { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Finds each target once and prints which ones are refused; true if any is. Fails if an argument is invalid.
fn find_all(
    args: &KillArgs,
    snapshot: Option<&Snapshot>,
    kernel: &Kernel,
    viewer: &Viewer,
) -> Result<(Vec<Target>, bool), String> {
    let mut targets: Vec<Target> = Vec::new();
    let mut refused = false;
    for argument in &args.targets {
        let refusal = match find(argument, snapshot, kernel, viewer, args.any) {
            Ok(target) => {
                if targets.iter().all(|known| known.key != target.key) {
                    targets.push(target);
                }
                continue;
            }
            Err(Trouble::Usage(text)) => return Err(text),
            Err(Trouble::Refused(refusal)) => refusal,
        };
        refused = true;
        match refusal {
            Refusal::Gone(pid) => say(&format!("not terminated: there is no process {pid}")),
            refusal => say(&format!("not terminated: {refusal}")),
        }
    }
    Ok((targets, refused))
}

/// Asks the user to confirm these processes. The error is the exit code.
fn confirm(targets: &[Target], args: &KillArgs) -> Result<(), ExitCode> {
    if args.yes {
        let others = targets.iter().filter_map(|target| Some((target.key.pid, target.owner.as_ref()?)));
        let others: Vec<String> = others.map(|(pid, user)| format!("{pid} belongs to {user}")).collect();
        if args.other_users || others.is_empty() {
            return Ok(());
        }
        return Err(refuse(&format!(
            "{}: --yes covers only your own processes; leave it out to be asked, or add --other-users",
            others.join(", ")
        )));
    }
    match ask_on_terminal(targets, args.signal) {
        Some(true) => Ok(()),
        Some(false) => {
            say("nothing was terminated");
            Err(ExitCode::from(1))
        }
        None => Err(refuse("there is no terminal for the confirmation; add --yes to skip it")),
    }
}

/// Finds out which target works for which, since the topmost one is signaled first. A worker that is no target itself is
/// named in the line of its parent, with the command that terminates both; it is not added to the targets.
fn lead(targets: &mut [Target], snapshot: &Snapshot, signal: Signal) {
    let meant: Vec<ProcessKey> = targets.iter().map(|target| target.key).collect();
    for at in 0..targets.len() {
        let Some(first) = meant.get(at) else { continue };
        let below = snapshot.below(*first);
        let is_topmost = meant.iter().all(|other| !snapshot.below(*other).contains(first));
        // A process that is killed by SIGKILL cannot end its workers.
        if is_topmost && signal != Signal::Kill {
            let workers = targets.iter_mut().filter(|target| below.contains(&target.key));
            workers.for_each(|target| target.follows = Some(*first));
        }
        let left: Vec<ProcessKey> = below.into_iter().filter(|key| !meant.contains(key)).collect();
        if let (Some(target), false) = (targets.get_mut(at), left.is_empty()) {
            target.line.push_str(&workers_line(snapshot, *first, &left));
        }
    }
}

/// Names the workers of a target that are no targets themselves.
fn workers_line(snapshot: &Snapshot, first: ProcessKey, workers: &[ProcessKey]) -> String {
    let named = workers.iter().map(|key| match snapshot.held_by(*key) {
        Some(held) => format!("{} ({held})", key.pid),
        None => key.pid.to_string(),
    });
    let named: Vec<String> = named.collect();
    let group: Vec<ProcessKey> = std::iter::once(first).chain(workers.iter().copied()).collect();
    let all: Vec<String> = group.iter().map(ProcessKey::to_string).collect();
    format!(
        "\n  {}: {}\n  to terminate all of them: oomdoctor kill {}{}",
        if named.len() == 1 { "its worker may keep running" } else { "its workers may keep running" },
        named.join(", "),
        if group.iter().any(|key| snapshot.find(*key).is_none()) { "--any " } else { "" },
        all.join(" ")
    )
}

enum Trouble {
    Usage(String),
    Refused(Refusal),
}

/// Finds the process that an argument names, in the snapshot and in /proc.
fn find(
    argument: &str,
    snapshot: Option<&Snapshot>,
    kernel: &Kernel,
    viewer: &Viewer,
    any: bool,
) -> Result<Target, Trouble> {
    let Some((pid, ticks)) = parse(argument) else {
        return Err(Trouble::Usage(not_a_process(argument, snapshot)));
    };
    let now = inspect(kernel, pid, ticks).map_err(Trouble::Refused)?;
    let key = ProcessKey { pid, start_ticks: now.start_ticks };
    let row = snapshot.and_then(|snapshot| snapshot.process(key));
    let is_listed = row.is_some_and(|row| row.kind != ProcessKind::Unlisted);
    if !is_listed && !any {
        return Err(Trouble::Usage(unlisted(snapshot, key, row.is_some())));
    }
    let refusal = match row {
        Some(row) => viewer.may_end(row).err(),
        None => viewer.refuses(&now.suspect(pid)),
    };
    if let Some(refusal) = refusal {
        return Err(Trouble::Refused(refusal));
    }
    let held = snapshot.and_then(|snapshot| snapshot.held_by(key));
    let owner = (!viewer.is_own(now.uid)).then(|| now.user.clone().unwrap_or_else(|| "another user".to_owned()));
    let mut line = objections(owner.as_deref(), row.zip(snapshot), viewer);
    line.push_str(&described(key, &now, row, held, kernel.started_at(key)));
    if let Some(supervisor) = row.and_then(Supervisor::of) {
        line.push_str(&format!("\n  {}", supervisor.caution()));
    }
    if let Some(leader) = row.zip(snapshot).and_then(|(row, snapshot)| snapshot.leader_of(row)) {
        let name = crate::advice::name_of(leader);
        line.push_str(&format!("\n  a worker of {name}, which may restart it or stop its other workers"));
    }
    let cards = snapshot.map(|snapshot| snapshot.cards_to_prove(key)).unwrap_or_default();
    Ok(Target { key, line, ran: now.runs.unwrap_or_default(), held, follows: None, cards, owner })
}

/// The reasons not to terminate a process, printed first: it belongs to another user or is busy.
fn objections(owner: Option<&str>, listed: Option<(&GpuProcess, &Snapshot)>, viewer: &Viewer) -> String {
    let owned = owner.map_or(String::new(), |user| format!("OWNED BY {user}, not you\n  "));
    let activity = listed.map(|(row, snapshot)| Seen { snapshot, history: None, viewer }.activity(row));
    match activity {
        Some(activity) if activity.is_busy() => format!("{owned}{activity}\n  "),
        _ => owned,
    }
}

fn parse(argument: &str) -> Option<(u32, Option<u64>)> {
    let (pid, ticks) = argument.split_once('@').map_or((argument, None), |(pid, ticks)| (pid, Some(ticks)));
    Some((pid.parse().ok()?, ticks.map(str::parse).transpose().ok()?))
}

/// Says how a process is named, and which ones have this word in their name or command.
fn not_a_process(argument: &str, snapshot: Option<&Snapshot>) -> String {
    let word = argument.split('@').next().unwrap_or(argument);
    let rows = snapshot.into_iter().flat_map(|snapshot| &snapshot.devices).flat_map(|device| &device.processes);
    let is_named_so = |row: &&GpuProcess| {
        let command = row.command.known().is_some_and(|command| command.contains(word));
        let name = row.recognised_as.as_ref().is_some_and(|name| name.contains(word));
        row.pid.to_string() == word || word.len() > 1 && (command || name)
    };
    let mut meant: Vec<String> = rows.filter(is_named_so).filter_map(|row| Some(row.key()?.to_string())).collect();
    meant.dedup();
    let hint = match meant.as_slice() {
        [] => "; `oomdoctor ps` lists them".to_owned(),
        [one] => format!("; did you mean {one}?"),
        several => format!("; did you mean one of {}?", several.join(", ")),
    };
    format!("`{}` is not a PID or PID@START_TICKS{hint}", harmless(argument))
}

fn inspect(kernel: &Kernel, pid: u32, ticks: Option<u64>) -> Result<Inspection, Refusal> {
    if pid <= 1 || i32::try_from(pid).is_err() {
        return Err(Refusal::ReservedPid(pid));
    }
    let now = match kernel.inspect(pid) {
        Ok(Some(now)) => now,
        Ok(None) => return Err(Refusal::Gone(pid)),
        Err(error) => return Err(Refusal::Failed(pid, error.to_string())),
    };
    if let Some(process) = now.thread_of {
        return Err(Refusal::Thread(pid, process));
    }
    if ticks.is_some_and(|ticks| ticks != now.start_ticks) {
        return Err(Refusal::Reused(pid));
    }
    Ok(now)
}

/// Why a process that no GPU lists is refused without `--any`.
fn unlisted(snapshot: Option<&Snapshot>, key: ProcessKey, has_driver_open: bool) -> String {
    let workers = snapshot.map(|snapshot| snapshot.below(key).len()).unwrap_or_default();
    let why = match (has_driver_open, workers) {
        (true, 1) => ", only its worker".to_owned(),
        (true, 2..) => format!(", only its {workers} workers"),
        (true, 0) => ", but it has the driver open".to_owned(),
        (false, _) => ", so terminating it may free no VRAM".to_owned(),
    };
    format!("no GPU lists {}{why}; add --any to terminate it anyway", key.pid)
}

fn described(
    key: ProcessKey,
    now: &Inspection,
    row: Option<&GpuProcess>,
    held: Option<Bytes>,
    started: Option<WallTime>,
) -> String {
    let is_launcher = row.is_some_and(|row| row.used_bytes.value() == Some(Bytes::ZERO));
    let memory = match held {
        Some(held) => format!("{held} VRAM"),
        None if is_launcher => "no VRAM itself".to_owned(),
        None => "VRAM unknown".to_owned(),
    };
    format!(
        "{key}  {}  {memory}  started {}  {}",
        now.user.as_deref().unwrap_or("?"),
        started.map_or("?".to_owned(), |time| time.to_string()),
        now.runs.as_ref().map_or("", |runs| runs.command.as_str())
    )
}

/// Names the targets and asks on the terminal itself, even if standard output is redirected. `None` if there is no
/// terminal. Keys typed before a question can have been read are discarded.
fn ask_on_terminal(targets: &[Target], signal: Signal) -> Option<bool> {
    let mut terminal = here::terminal_to_ask().ok()?;
    if !std::io::stdout().is_terminal() {
        for target in targets {
            writeln!(terminal, "{}", target.line).ok()?;
        }
    }
    let how = if signal == Signal::Kill { "Kill" } else { "Terminate" };
    let what = if targets.len() == 1 { "it" } else { "them all" };
    let mut answers = BufReader::new(terminal.try_clone().ok()?);
    // Confirming one's own processes does not confirm those of another user.
    for target in targets {
        let Some(owner) = &target.owner else { continue };
        let pid = target.key.pid.to_string();
        let typed =
            ask(&mut terminal, &mut answers, (&format!("{pid} belongs to {owner}."), "Type its PID to confirm:"))?;
        if typed != pid {
            return Some(false);
        }
    }
    let answer = ask(&mut terminal, &mut answers, (&format!("{how} {what}? Unsaved work is lost."), "[y/N]"))?;
    Some(matches!(answer.as_str(), "y" | "Y" | "yes"))
}

/// The time to read a question, as on the screen of the terminal program.
const TIME_TO_READ: Duration = Duration::from_millis(600);

/// Shows the question, and asks for the answer once it can have been read. What was typed until then answered nothing that
/// the user had seen.
fn ask(terminal: &mut File, answers: &mut impl BufRead, (question, prompt): (&str, &str)) -> Option<String> {
    write!(terminal, "{question} ").ok()?;
    terminal.flush().ok()?;
    thread::sleep(TIME_TO_READ);
    here::discard_typed(terminal).ok()?;
    write!(terminal, "{prompt} ").ok()?;
    terminal.flush().ok()?;
    let mut answer = String::new();
    answers.read_line(&mut answer).ok()?;
    Some(answer.trim().to_owned())
}

/// Signals each target and waits for it. Returns for each whether it exited.
fn end_all(targets: &[Target], args: &KillArgs, kernel: &Kernel, viewer: &Viewer, journal: &Journal) -> Vec<bool> {
    let (reports, inbox) = mpsc::channel();
    let leaders = Leaders::default();
    for (at, target) in targets.iter().enumerate() {
        let (reports, kernel, viewer) = (reports.clone(), kernel.clone(), viewer.clone());
        let (journal, leaders) = (journal.clone(), leaders.clone());
        let (key, ran, follows) = (target.key, target.ran.clone(), target.follows);
        let order = Order { key, ran, signal: args.signal, follows, cards: target.cards.clone(), grace: args.grace };
        thread::spawn(move || {
            let signal = order.signal;
            let deed = Journal::deed(&kernel, key, Some(signal));
            follow_and_watch(&kernel, &viewer, &order, &leaders, |report| {
                log::info!("{signal:?} to {key:?}: {report:?}");
                if let Err(error) = journal.note(&deed, &report) {
                    warn(&not_recorded(&error));
                }
                let _ = reports.send((at, report));
            });
        });
    }
    drop(reports);
    let mut ended = vec![None; targets.len()];
    while ended.iter().any(Option::is_none) {
        let Ok((at, report)) = inbox.recv() else { break };
        if let (Some(target), Some(slot)) = (targets.get(at), ended.get_mut(at))
            && let Some(outcome) = outcome(target, report, args)
        {
            *slot = Some(outcome);
        }
    }
    ended.into_iter().map(|ended| ended == Some(true)).collect()
}

/// Prints what a report means. True if the process exited, `None` if that is not known yet.
fn outcome(target: &Target, report: SignalReport, args: &KillArgs) -> Option<bool> {
    let pid = target.key.pid;
    match report {
        SignalReport::Sent => None,
        SignalReport::Ended(after) => {
            say(&format!("{pid} exited after {:.1} s", after.as_secs_f32()));
            Some(true)
        }
        SignalReport::StillThere(state) => {
            let state = state.map(|state| format!(" (state {state})")).unwrap_or_default();
            let hint = if args.signal == Signal::Kill { "" } else { "; add --signal KILL to send SIGKILL" };
            say(&format!("{pid} is still running after {} s{state}{hint}", args.grace.as_secs_f32()));
            Some(false)
        }
        // It exited together with its launcher, before it was signaled.
        SignalReport::Refused(Refusal::Gone(pid)) if target.follows.is_some() => {
            say(&format!("{pid} has already exited"));
            Some(true)
        }
        SignalReport::Refused(refusal) => {
            say(&format!("not terminated: {refusal}"));
            Some(false)
        }
    }
}

/// Prints how much memory was freed, by the driver's own figures.
fn report_memory(global: &Global, targets: &[Target], before: Option<&Snapshot>, ended: &[bool], journal: &Journal) {
    let held = targets.iter().zip(ended).filter(|(_, ended)| **ended).filter_map(|(target, _)| target.held);
    let held = held.fold(Bytes::ZERO, Bytes::plus);
    let Some(before) = before else { return };
    if held == Bytes::ZERO {
        return;
    }
    let on = targets.iter().flat_map(|target| before.held_on(target.key)).map(|(device, _)| device);
    let due = Instant::now() + teardown(on.clone());
    let on: BTreeSet<u32> = on.map(|device| device.index).collect();
    loop {
        let Ok(now) = machine::read_once(&global.sampling) else {
            return say("the driver stopped answering: freed VRAM unknown");
        };
        let listed = targets.iter().any(|target| now.find(target.key).is_some());
        let freed = free(&now, &on).less(free(before, &on));
        if freed.0 / 9 * 10 >= held.0 && !listed {
            for (target, _) in targets.iter().zip(ended).filter(|(_, ended)| **ended) {
                note_memory(journal, target.key, target.held.unwrap_or_default());
            }
            return say(&format!("freed {freed}"));
        }
        if Instant::now() >= due {
            if let [target] = targets {
                note_memory(journal, target.key, freed);
            }
            return say(&format!("freed {freed} of {held}; another process may use the rest now"));
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn note_memory(journal: &Journal, key: ProcessKey, bytes: Bytes) {
    if let Err(error) = journal.note_memory(key, bytes) {
        warn(&not_recorded(&error));
    }
}

/// What is free on these GPUs.
fn free(snapshot: &Snapshot, on: &BTreeSet<u32>) -> Bytes {
    let devices = snapshot.devices.iter().filter(|device| on.contains(&device.index));
    devices.filter_map(|device| device.memory.free_bytes.value()).fold(Bytes::ZERO, Bytes::plus)
}

/// Prints a line. If that fails, the line goes to standard error: the signal was sent, and the user must learn of it.
fn say(text: &str) {
    if let Err(error) = write(format!("{text}\n").as_bytes()) {
        warn(&format!("{text} (standard output can't be written: {error})"));
    }
}
