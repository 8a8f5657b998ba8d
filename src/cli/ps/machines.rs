//! Owns the text of `oomdoctor ps` over several machines: one line each, why others could not be read, then the processes of
//! all, idle ones first, and how your own idle ones are ended there. Nothing is signaled from here.

use std::cmp::Reverse;

use crossterm::style::Stylize;

use super::table::{Column, UNKNOWN, USER_WIDTH, WIDE, aligned, column, cut_to, shown, what, wrapped};
use crate::cli::watched::Watched;
use crate::gpu::activity::Activity;
use crate::gpu::{Device, GpuProcess};
use crate::hosts::summary::Summary;
use crate::hosts::{Allotment, Given, HostReading, OwnProgram, Through, people};
use crate::text::harmless;
use crate::units::{Bytes, WallTime};

const MACHINES: [Column; 7] = [
    column("HOST"),
    Column { is_right_aligned: true, ..column("GPUS") },
    Column { is_right_aligned: true, ..column("FREE") },
    column("MOST ON ONE GPU"),
    column("IDLE PROCESSES"),
    column("READ"),
    column("SCHEDULER"),
];

const PROCESSES: [Column; 8] = [
    column("HOST"),
    column("GPU"),
    column("USER"),
    column("PID@START_TICKS"),
    Column { is_right_aligned: true, ..column("VRAM") },
    column("STATE"),
    column("AGE"),
    column("COMMAND"),
];

/// Longer names of machines are cut.
const HOST_WIDTH: usize = 16;
/// Below this width a user's name leaves room for the command.
const SHORT_USER_WIDTH: usize = 8;

/// How and for whom the text is written.
pub(super) struct Look<'a> {
    /// The number of columns at which lines are cut; `None` for a file or a pipe.
    pub width: Option<usize>,
    /// Whether lines that matter less are gray.
    pub is_gray: bool,
    /// The name of the user who asks.
    pub user: &'a str,
    pub now: WallTime,
}

/// A machine as it was seen.
#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    pub reading: &'a HostReading,
    /// `None` where it could not be read.
    pub watched: Option<&'a Watched>,
}

impl<'a> Machine<'a> {
    /// The machine with its GPUs, or why they can't be told.
    fn seen(&self) -> Result<&'a Watched, String> {
        match (self.watched, &self.reading.seen) {
            (Some(watched), _) => match watched.snapshot.unavailable() {
                Some(unavailable) => Err(unavailable.to_owned()),
                None => Ok(watched),
            },
            (None, Err(why)) => Err(why.to_string()),
            (None, Ok(_)) => Err("it was not read".to_owned()),
        }
    }

    fn name(&self) -> String {
        self.reading.name.to_string()
    }
}

/// A process on a GPU of a machine.
struct Row<'a> {
    machine: Machine<'a>,
    watched: &'a Watched,
    device: &'a Device,
    process: &'a GpuProcess,
    activity: Activity,
}

impl Row<'_> {
    /// Idle ones first, those that use most VRAM before others.
    fn order(&self) -> (u8, Reverse<Option<Bytes>>) {
        let group = match self.activity {
            Activity::Idle(_) => 0,
            Activity::Unknown => 1,
            Activity::Busy(_) => 2,
        };
        (group, Reverse(self.process.used_bytes.value()))
    }

    fn is_own(&self, look: &Look) -> bool {
        people::is_own(self.machine.reading, look.user, self.process)
    }

    fn cells(&self, look: &Look) -> Vec<String> {
        let (process, snapshot) = (self.process, &self.watched.snapshot);
        let user_width = if look.width.is_some_and(|width| width < WIDE) { SHORT_USER_WIDTH } else { USER_WIDTH };
        let age = process.started_at.value().map(|start| start.age_at(snapshot.taken_at));
        vec![
            cut_to(&self.machine.name(), HOST_WIDTH),
            self.device.index.to_string(),
            cut_to(&shown(&process.user), user_width),
            process.proved_key().map_or_else(|| format!("{}{UNKNOWN}", process.pid), |key| key.to_string()),
            shown(&process.used_bytes),
            self.activity.to_string(),
            or_unknown(age),
            self.command(look),
        ]
    }

    /// What it is; of one's own process the command line, too.
    fn command(&self, look: &Look) -> String {
        let command = shown(&self.process.command);
        match what(&self.watched.snapshot, self.process) {
            label if label == "-" => command,
            label if label == command || !self.is_own(look) && command.ends_with('…') => label,
            label => format!("{label}: {command}"),
        }
    }

    /// What ends it where it runs, if that may be offered: your own, idle, on a machine that has this program.
    fn ended_by(&self, look: &Look) -> Option<String> {
        let key = self.process.proved_key()?;
        let may_be_offered = self.activity.is_idle()
            && self.is_own(look)
            && self.process.protected.is_none()
            && self.machine.reading.through == Through::Ssh;
        if may_be_offered { self.machine.reading.kill(&[key]) } else { None }
    }
}

/// The whole text.
pub(super) fn text(machines: &[Machine], look: &Look) -> String {
    let width = look.width.unwrap_or(usize::MAX);
    let mut rows: Vec<Row> = machines.iter().flat_map(rows).collect();
    rows.sort_by_key(Row::order);
    let mut paragraphs = vec![lines_of_machines(machines, look), gray(&remarks(machines), width, look)];
    if !rows.is_empty() {
        let cells: Vec<Vec<String>> = rows.iter().map(|row| row.cells(look)).collect();
        paragraphs.push(cut(aligned(&PROCESSES, &cells, true), width));
    }
    paragraphs.push(cut(users(machines), width));
    paragraphs.push(cut(given_to(machines), width));
    if rows.iter().any(|row| row.process.proved_key().is_none()) {
        let note = "A PID with ? is not proved: it belongs to another container or user, or nvidia-smi listed it.";
        paragraphs.push(gray(&[note.to_owned()], width, look));
    }
    let mut commands: Vec<String> = Vec::new();
    for command in rows.iter().filter_map(|row| row.ended_by(look)) {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    if !commands.is_empty() {
        // A command is not cut: it is there to be copied.
        commands.iter_mut().for_each(|command| command.insert_str(0, "  "));
        commands.insert(0, "To end your idle processes there; each command asks first:".to_owned());
        paragraphs.push(commands);
    }
    paragraphs.retain(|lines| !lines.is_empty());
    paragraphs.iter().map(|lines| lines.join("\n") + "\n").collect::<Vec<_>>().join("\n")
}

/// Who uses the GPUs of machines that were read without processes: pods and jobs.
fn users(machines: &[Machine]) -> Vec<String> {
    let mut lines = Vec::new();
    for machine in machines {
        for user in &machine.reading.users {
            let devices = machine.watched.map(|watched| watched.snapshot.devices.as_slice()).unwrap_or_default();
            let gpu = or_unknown(devices.get(user.device).map(|device| device.index));
            let name = user.name.as_deref().unwrap_or("in use, user unknown");
            let idle = user.idle_for.map(|time| format!(", idle ≥ {} min", time.as_secs() / 60)).unwrap_or_default();
            lines.push(format!("{} GPU {gpu}: {name}{idle}", machine.name()));
        }
    }
    lines
}

/// Who was given GPUs by a scheduler; with what is in use on each, where the machine was read, too.
fn given_to(machines: &[Machine]) -> Vec<String> {
    let mut lines = Vec::new();
    for machine in machines {
        let allotment = machine.reading.allotment.as_ref();
        for given in allotment.into_iter().flat_map(|allotment| &allotment.given_to) {
            let in_use = in_use_on(machine, given);
            let in_use = if in_use.is_empty() { in_use } else { format!(" ({in_use})") };
            lines.push(format!("{} {given}{in_use}", machine.name()));
        }
    }
    lines
}

/// What is in use on the GPUs that a job was given by their index: "GPU 1: 11.2 GiB in use".
fn in_use_on(machine: &Machine, given: &Given) -> String {
    let devices = machine.watched.map(|watched| watched.snapshot.devices.as_slice()).unwrap_or_default();
    let is_given = |device: &&Device| given.devices.contains(&device.index.to_string());
    let in_use = devices.iter().filter(is_given).map(|device| {
        let used = or_unknown(device.memory.used_bytes.value());
        format!("GPU {}: {used} in use", device.index)
    });
    in_use.collect::<Vec<_>>().join(", ")
}

fn rows<'a>(machine: &Machine<'a>) -> Vec<Row<'a>> {
    let Ok(watched) = machine.seen() else { return Vec::new() };
    let rows = watched.snapshot.on_gpus().map(|(device, process)| {
        let activity = watched.activity(device, process);
        Row { machine: *machine, watched, device, process, activity }
    });
    rows.collect()
}

/// A line for each machine of which GPUs are known; the last column only where a scheduler was asked.
fn lines_of_machines(machines: &[Machine], look: &Look) -> Vec<String> {
    let has_scheduler = machines.iter().any(|machine| machine.reading.allotment.is_some());
    let columns = if has_scheduler {
        MACHINES.as_slice()
    } else {
        MACHINES.split_last().map(|(_, rest)| rest).unwrap_or_default()
    };
    let known = machines.iter().filter_map(|machine| {
        let seen = machine.seen().ok();
        let is_known = seen.is_some() || machine.reading.allotment.is_some();
        is_known.then(|| machine_cells(machine, seen, look))
    });
    let rows: Vec<Vec<String>> = known.map(|row| row.into_iter().take(columns.len()).collect()).collect();
    if rows.is_empty() { Vec::new() } else { cut(aligned(columns, &rows, true), look.width.unwrap_or(usize::MAX)) }
}

fn machine_cells(machine: &Machine, seen: Option<&Watched>, look: &Look) -> Vec<String> {
    let allotment = machine.reading.allotment.as_ref();
    let summary =
        seen.map(|watched| Summary::of(&watched.snapshot, |device, process| watched.activity(device, process)));
    let count = match &summary {
        Some(summary) => u64::try_from(summary.gpus).ok(),
        None => allotment.and_then(|all| all.gpus),
    };
    let most = summary.as_ref().and_then(|summary| summary.most);
    vec![
        cut_to(&machine.name(), HOST_WIDTH),
        or_unknown(count),
        or_unknown(summary.as_ref().map(|summary| &summary.free)),
        or_unknown(most.map(|(free, index)| format!("{free} (GPU {index})"))),
        or_unknown(summary.as_ref().map(|summary| summary.idle.in_words(" with ", "none"))),
        or_unknown(seen.map(|watched| age_of(machine.reading, watched, look))),
        allotment.map_or_else(String::new, Allotment::in_words),
    ]
}

fn or_unknown(figure: Option<impl ToString>) -> String {
    figure.map_or_else(|| UNKNOWN.to_owned(), |figure| figure.to_string())
}

/// How old the figures are. A machine that answered itself was read now, whatever its clock says.
fn age_of(reading: &HostReading, watched: &Watched, look: &Look) -> String {
    match (reading.through, reading.age) {
        (_, Some(age)) => format!("{} s ago", age.as_secs()),
        (Through::Ssh | Through::NvidiaSmi | Through::Slurm | Through::Kubernetes, None) => "now".to_owned(),
        (Through::Prometheus, None) => format!("{} ago", watched.snapshot.taken_at.age_at(look.now)),
    }
}

/// Why machines could not be read, those with the same reason in one line, and what else is to be known of them.
fn remarks(machines: &[Machine]) -> Vec<String> {
    let mut unread: Vec<(String, Vec<String>)> = Vec::new();
    for machine in machines {
        let Err(why) = machine.seen() else { continue };
        match unread.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(machine.name()),
            None => unread.push((why, vec![machine.name()])),
        }
    }
    let mut lines: Vec<String> =
        unread.into_iter().map(|(why, names)| format!("{}: {why}", names.join(", "))).collect();
    for HostReading { name, also, through, program, .. } in machines.iter().map(|machine| machine.reading) {
        lines.extend(also.iter().map(|other| format!("{other}: the same machine as {name}")));
        if *program == OwnProgram::Lent && *through == Through::Ssh {
            lines.push(format!("{name}: oomdoctor was sent there and removed; install it there to end a process"));
        }
        if *through == Through::NvidiaSmi {
            lines.push(format!("{name}: read through nvidia-smi, since oomdoctor is not installed there"));
        }
    }
    lines
}

fn gray(lines: &[String], width: usize, look: &Look) -> Vec<String> {
    let lines = wrapped(lines.iter().map(|line| harmless(line).into_owned()), width);
    let lines = lines.into_iter().map(|line| if look.is_gray { line.dark_grey().to_string() } else { line });
    lines.collect()
}

fn cut(lines: Vec<String>, width: usize) -> Vec<String> {
    lines.iter().map(|line| cut_to(&harmless(line), width)).collect()
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{Reading, Snapshot};
    use crate::hosts::Unavailable;

    const GIB: u64 = 1 << 30;

    fn host(name: &str) -> HostReading {
        HostReading::unavailable(name.parse().unwrap(), Through::Ssh, Unavailable::new("Connection refused"))
    }

    /// A machine that was read twice, two seconds apart; each process with its CPU ticks in between.
    fn read(name: &str, rows: &[(GpuProcess, u64)]) -> (HostReading, Watched) {
        let at = |second: i64| {
            let rows = rows.iter().map(|(row, ticks)| {
                let ticks = if second > 0 { *ticks } else { 0 };
                GpuProcess { cpu_ticks: Reading::Known(1000 + ticks), ..row.clone() }
            });
            Snapshot { devices: vec![device(0, rows.collect()), device(1, Vec::new())], ..snapshot(second) }
        };
        let seen = Ok((Box::new(at(0)), Some(Box::new(at(2)))));
        (HostReading { seen, ..host(name) }, Watched::of((at(0), Some(at(2)))))
    }

    fn of(user: &str, pid: u32, gib: u64) -> GpuProcess {
        let mut row = process(pid, Bytes(gib * GIB));
        row.user = Reading::Known(user.to_owned());
        row
    }

    fn said(machines: &[(HostReading, Option<Watched>)], width: Option<usize>) -> String {
        let machines: Vec<Machine> =
            machines.iter().map(|(reading, watched)| Machine { reading, watched: watched.as_ref() }).collect();
        text(&machines, &Look { width, is_gray: false, user: "ada", now: noon_plus(60) })
    }

    fn line<'a>(text: &'a str, part: &str) -> &'a str {
        text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part} in\n{text}"))
    }

    #[test]
    fn idle_processes_come_first_and_only_ones_own_get_a_command() {
        let (gpu1, one) = read("gpu1", &[(of("ada", 11, 3), 900), (of("bob", 12, 9), 0), (of("ada", 13, 2), 0)]);
        let (gpu2, two) = read("gpu2", &[(of("ada", 21, 6), 0), (of("bob", 22, 20), 4)]);
        let text = said(&[(gpu1, Some(one)), (gpu2, Some(two))], None);
        let order: Vec<&str> =
            text.lines().filter_map(|line| line.split_whitespace().find(|cell| cell.contains('@'))).collect();
        assert_eq!(order[1..], ["12@12000", "21@21000", "13@13000", "22@22000", "11@11000", "21@21000", "13@13000"]);
        let commands: Vec<&str> = text.lines().filter(|line| line.starts_with("  ssh")).collect();
        assert_eq!(
            commands,
            ["  ssh -t gpu2 oomdoctor kill 21@21000", "  ssh -t gpu1 oomdoctor kill 13@13000"],
            "never another user's"
        );
        assert!(line(&text, "gpu1  ").contains("2 with 11.0 GiB"), "{text}");
        assert!(line(&text, "gpu2  ").contains("≥ 1 with 6.0 GiB"), "one of them is unknown: {text}");
        assert!(line(&text, "gpu1  ").contains("23.4 GiB (GPU 1)"), "{text}");
    }

    #[test]
    fn a_machine_that_was_not_read_is_a_line_with_its_reason_and_no_zero() {
        let (gpu1, one) = read("gpu1", &[]);
        let allotment =
            Allotment { gpus: Some(8), given: Some(5), state: "MIXED".into(), is_open: true, ..Allotment::default() };
        let node = HostReading { allotment: Some(allotment), ..host("gpu9") };
        let text = said(&[(host("gpu7"), None), (gpu1, Some(one)), (host("gpu8"), None), (node, None)], None);
        assert_eq!(line(&text, "refused"), "gpu7, gpu8, gpu9: Connection refused");
        assert_eq!(
            line(&text, "MIXED").split_whitespace().collect::<Vec<_>>(),
            ["gpu9", "8", "?", "?", "?", "?", "5", "of", "8", "given,", "MIXED"]
        );
        assert!(!text.lines().any(|line| line.starts_with("gpu7 ")), "{text}");
        let (silent, mut watched) = read("gpu3", &[]);
        watched.snapshot.driver = crate::gpu::Driver::Unavailable { unavailable: "no NVIDIA driver".into() };
        watched.snapshot.devices.clear();
        assert!(said(&[(silent, Some(watched))], None).starts_with("gpu3: no NVIDIA driver"));
    }

    #[test]
    fn what_is_not_known_of_a_gpu_or_a_process_is_no_figure() {
        let (gpu1, mut one) = read("gpu1", &[(of("ada", 11, 3), 0)]);
        one.snapshot.devices[1].memory.free_bytes = Reading::NotAvailable;
        one.snapshot.devices[0].processes[0].used_bytes = Reading::NotAvailable;
        one.snapshot.devices[0].processes[0].proved = false;
        let text = said(&[(gpu1, Some(one))], None);
        assert!(line(&text, "gpu1  ").contains("≥ 20.4 GiB"), "{text}");
        assert!(line(&text, "gpu1  ").contains("1 with ?"), "{text}");
        assert!(text.contains("11?") && !text.contains("ssh -t"), "not proved, so nothing is offered: {text}");
    }

    #[test]
    fn figures_of_prometheus_have_an_age_and_lines_fit_the_terminal() {
        let (gpu1, one) = read("gpu1", &[(of("a-very-long-user-name", 11, 3), 0)]);
        let gpu1 = HostReading { through: Through::Prometheus, also: vec!["big".parse().unwrap()], ..gpu1 };
        for width in [80, 100, 200] {
            let text = said(&[(gpu1.clone(), Some(Watched::of((one.snapshot.clone(), None))))], Some(width));
            assert!(line(&text, "gpu1  ").contains("58 s ago"), "{text}");
            assert!(text.contains("big: the same machine as gpu1"), "{text}");
            assert!(text.lines().all(|line| line.width() <= width), "{width}: {text}");
            assert!(line(&text, "11@").contains("python"), "{width}: {text}");
        }
    }
}
