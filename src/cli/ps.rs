//! Owns `oomdoctor ps`, which prints one reading of this machine as a table or as JSON. A child process with a deadline
//! takes the reading, so a driver that hangs leads to an error message and does not hang this program.

mod json;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub(super) use self::json::Listing;
use super::output::{pretty, refuse, write};
use super::settings::Global;
use crate::advice::supervisor::Supervisor;
use crate::app::rows::together;
use crate::gpu::activity::Activity;
use crate::gpu::{Device, Driver, GpuProcess, Holder, ProcessKind, Reading, Snapshot, sight};
use crate::platform::machine;
use crate::text::harmless;
use crate::units::{Bytes, WallTime};

const HEADINGS: [&str; 9] = ["PID@START_TICKS", "GPU", "VRAM", "USER", "STATE", "AGE", "KIND", "WHAT", "COMMAND"];
/// The column of sizes, which is aligned to the right.
const SIZE_COLUMN: usize = 2;
const UNKNOWN: &str = "?";

/// Prints the processes that use VRAM. Exits with 1 if there is no driver or it does not answer.
pub(super) fn run(global: &Global, json: bool) -> ExitCode {
    let snapshot = match machine::read_once(&global.sampling) {
        Ok(snapshot) => snapshot,
        Err(why) => return unread(&why),
    };
    let text = if json { pretty(&Listing::of(&snapshot)) } else { Ok(as_text(&snapshot, terminal_width())) };
    let written = text.and_then(|text| write(text.as_bytes()).map_err(|error| error.to_string()));
    match (written, &snapshot.driver) {
        (Err(error), _) => refuse(&format!("the table could not be written: {error}")),
        (_, Driver::Unavailable { unavailable }) => unread(&harmless(unavailable)),
        _ => ExitCode::SUCCESS,
    }
}

fn unread(why: &str) -> ExitCode {
    // An error here is ignored: if standard error is closed, nobody reads messages.
    let _ = writeln!(io::stderr(), "oomdoctor ps: {why}");
    ExitCode::from(1)
}

/// The number of columns at which lines are cut; `None` if standard output is no terminal.
fn terminal_width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    crossterm::terminal::size().ok().map(|(columns, _)| columns.into())
}

/// The table; empty if there is no driver and no process has its files open.
fn as_text(snapshot: &Snapshot, width: Option<usize>) -> String {
    let mut lines: Vec<String> = snapshot.devices.iter().map(device_line).collect();
    let mut rows: Vec<[String; 9]> = Vec::new();
    // A launcher has no GPU of its own, so it is listed first.
    rows.extend(snapshot.launchers.iter().map(|process| process_row(snapshot, None, process)));
    for device in &snapshot.devices {
        rows.extend(device.processes.iter().map(|process| process_row(snapshot, Some(device), process)));
        rows.extend(unaccounted_row(device));
    }
    if !rows.is_empty() {
        lines.push(String::new());
        rows.insert(0, HEADINGS.map(str::to_owned));
        lines.extend(aligned(&rows));
    }
    if snapshot.devices.iter().flat_map(|device| &device.processes).any(|process| !process.proved) {
        lines.push(String::new());
        lines.push("PIDs with a ? are not known here: another container's or user's, or ended already.".into());
    }
    if !snapshot.holders.is_empty() {
        lines.push(String::new());
        lines.push("Not listed by the driver, but with its device files open:".into());
        lines.extend(snapshot.holders.iter().map(|holder| holder_line(snapshot, holder)));
    }
    let of_devices = snapshot.devices.iter().flat_map(|device| {
        let texts = [sight::of_device(snapshot, device), sight::of_unexplained(snapshot, device)];
        texts.into_iter().flatten().map(|text| format!("GPU {}: {text}", device.index))
    });
    let remarks: Vec<String> = of_devices.chain(sight::of_machine(snapshot)).collect();
    if !remarks.is_empty() {
        lines.push(String::new());
        let width = width.unwrap_or(usize::MAX);
        lines.extend(remarks.iter().flat_map(|text| textwrap::wrap(text, width)).map(std::borrow::Cow::into_owned));
    }
    let mut text = String::new();
    for line in &lines {
        text.push_str(cut_to(&harmless(line), width.unwrap_or(usize::MAX)).trim_end());
        text.push('\n');
    }
    text
}

fn device_line(device: &Device) -> String {
    let name = shown(&device.name);
    if let Some(error) = &device.error {
        return format!("GPU {} {name}: {error}", device.index);
    }
    let memory = &device.memory;
    let reserved = memory.reserved_bytes.value().map(|bytes| format!(", {bytes} reserved by the driver"));
    format!(
        "GPU {} {name}: {} used, {} free of {}{}",
        device.index,
        shown(&memory.used_bytes),
        shown(&memory.free_bytes),
        shown(&memory.total_bytes),
        reserved.unwrap_or_default(),
    )
}

fn process_row(snapshot: &Snapshot, device: Option<&Device>, process: &GpuProcess) -> [String; 9] {
    let identity = match process.key() {
        Some(key) if process.proved => key.to_string(),
        _ => format!("{}{UNKNOWN}", process.pid),
    };
    let kind = match process.kind {
        ProcessKind::Unlisted => "-",
        kind => kind.into(),
    };
    [
        identity,
        device.map_or_else(|| "-".into(), |device| device.index.to_string()),
        device.map_or_else(|| "-".into(), |_| shown(&process.used_bytes)),
        shown(&process.user),
        // A single reading can show that a process is busy, but never that it is idle.
        device.map_or_else(|| "-".into(), |device| Activity::of(None, Some(device), process).to_string()),
        process.started_at.value().map_or_else(|| UNKNOWN.into(), |start| age(start, snapshot.taken_at)),
        kind.into(),
        what(snapshot, process),
        shown(&process.command),
    ]
}

/// What a process is, what would restart it or terminate its whole unit, and which processes exit together with it.
fn what(snapshot: &Snapshot, process: &GpuProcess) -> String {
    let mut label = process.recognised_as.clone().unwrap_or_else(|| "-".into());
    if process.managed_by.is_some()
        && let Some(manager) = Supervisor::of(process)
    {
        label.push_str(&format!(" under {}", manager.label()));
    }
    if let Some(service) = sight::of_service(process) {
        label.push_str(&format!(" ({service})"));
    }
    let workers = process.key().map_or(0, |key| snapshot.below(key).len());
    let together = process.key().and_then(|key| together(snapshot, key));
    let kin = match (workers, together, snapshot.leader_of(process)) {
        (0, _, Some(leader)) => format!("works for {}", leader.pid),
        (0, _, None) => return label,
        (1, Some(bytes), _) => format!("{bytes} with 1 worker"),
        (workers, Some(bytes), _) => format!("{bytes} with {workers} workers"),
        (1, None, _) => "1 worker".to_owned(),
        (workers, None, _) => format!("{workers} workers"),
    };
    if label == "-" { kin } else { format!("{label}, {kin}") }
}

fn unaccounted_row(device: &Device) -> Option<[String; 9]> {
    let bytes = match &device.unaccounted_bytes {
        Reading::Known(Bytes(0)) => return None,
        Reading::Known(bytes) => bytes.to_string(),
        _ if device.error.is_some() => return None,
        Reading::Denied => return Some(remark(device, UNKNOWN, "the driver may not be asked which processes use it")),
        _ => return Some(remark(device, UNKNOWN, "the driver does not list the processes")),
    };
    let whose = if device.unaccounted_includes_unknown_rows {
        "in use, and the driver gives no figure for some of the processes above"
    } else {
        "in use by no process that the driver lists (contexts, other containers, the display)"
    };
    Some(remark(device, &bytes, whose))
}

fn remark(device: &Device, bytes: &str, text: &str) -> [String; 9] {
    ["-", &device.index.to_string(), bytes, "", "", "", "", "", text].map(str::to_owned)
}

fn holder_line(snapshot: &Snapshot, holder: &Holder) -> String {
    let process = &holder.process;
    let key = process.key().map_or_else(|| process.pid.to_string(), |key| key.to_string());
    let mut said = vec![what(snapshot, process)];
    if process.has_lost_its_parent() {
        said.push("its parent is gone".into());
    }
    match process.state.value() {
        Some('T') => said.push("stopped (Ctrl-Z)".into()),
        Some('Z') => said.push("has ended but for a thread (zombie)".into()),
        _ => {}
    }
    said.retain(|text| text != "-");
    let said = if said.is_empty() { String::new() } else { format!("{}: ", said.join(", ")) };
    format!("{key} {} {said}{} ({})", shown(&process.user), shown(&process.command), holder.devices.join(" "))
}

fn shown<T: ToString>(reading: &Reading<T>) -> String {
    reading.known().map_or_else(|| UNKNOWN.to_owned(), T::to_string)
}

/// `12 s`, `5 min`, `3 h 20 min`, `4 d`.
fn age(start: WallTime, now: WallTime) -> String {
    let seconds = now.0.as_second().saturating_sub(start.0.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The rows with aligned columns; the last column is not cut.
fn aligned(rows: &[[String; 9]]) -> Vec<String> {
    let mut widths = [0; HEADINGS.len()];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    rows.iter().map(|row| aligned_line(row, &widths)).collect()
}

fn aligned_line(row: &[String; 9], widths: &[usize; 9]) -> String {
    let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
        let space = " ".repeat(width.saturating_sub(cell.width()));
        if column == SIZE_COLUMN { space + cell } else { cell.clone() + &space }
    });
    cells.collect::<Vec<_>>().join("  ")
}

/// Cuts the line to this number of columns, with an ellipsis at the end of a line that was cut.
fn cut_to(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let mut used = 1;
    let kept = line.chars().take_while(|character| {
        used += character.width().unwrap_or(0);
        used <= columns
    });
    kept.chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        serde_json::from_str(text).unwrap()
    }

    fn example() -> Snapshot {
        snapshot(
            r#"{"taken_at": "2026-11-20T12:00:00Z", "host": {"name": "h"}, "driver": {"version": "570"},
            "devices": [{"index": 0, "name": "RTX 4090", "error": null,
              "memory": {"total_bytes": 25769803776, "reserved_bytes": 1073741824, "used_bytes": 8589934592, "free_bytes": 16106127360},
              "unaccounted_bytes": 2147483648, "unaccounted_includes_unknown_rows": false,
              "processes": [
                {"pid": 77, "start_ticks": 9, "started_at": "2026-11-20T08:30:00Z", "kind": "compute", "used_bytes": 6442450944, "sm_percent": 97,
                 "user": "ana", "command": "python \u001b[2J\u202etrain.py", "recognised_as": "python train.py",
                 "managed_by": "slurm:81234", "proved": true},
                {"pid": 88, "kind": "both", "used_bytes": null, "proved": false}]},
             {"index": 1, "name": "RTX 4090", "error": "GPU is lost: gone", "memory": {}, "unaccounted_includes_unknown_rows": false, "processes": []}],
            "holders": [{"pid": 5, "start_ticks": 6, "user": null, "command": "x", "devices": ["/dev/nvidia0"]}]}"#,
        )
    }

    #[test]
    fn the_table_names_each_process_and_the_unattributed_memory() {
        let text = as_text(&example(), None);
        let expected = "\
GPU 0 RTX 4090: 8.0 GiB used, 15.0 GiB free of 24.0 GiB, 1.0 GiB reserved by the driver
GPU 1 RTX 4090: GPU is lost: gone

PID@START_TICKS  GPU     VRAM  USER  STATE      AGE         KIND     WHAT                                   COMMAND
77@9             0    6.0 GiB  ana   BUSY 97 %  3 h 30 min  compute  python train.py under Slurm job 81234  python ·[2J·train.py
88?              0          ?  ?     ?          ?           both     -                                      ?
-                0    2.0 GiB                                                                               in use by no process that the driver lists (contexts, other containers, the display)

PIDs with a ? are not known here: another container's or user's, or ended already.

Not listed by the driver, but with its device files open:
5@6 ? x (/dev/nvidia0)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_json_shows_which_process_is_busy_and_never_that_one_is_idle() {
        let json: serde_json::Value = serde_json::to_value(Listing::of(&example())).unwrap();
        let rows = &json["devices"][0]["processes"];
        assert_eq!((&rows[0]["activity"], &rows[0]["gpu_percent"]), (&"busy".into(), &97.into()));
        assert_eq!((&rows[1]["activity"], &rows[1]["gpu_percent"]), (&"unknown".into(), &serde_json::Value::Null));
    }

    #[test]
    fn lines_are_cut_at_the_terminals_width_by_columns() {
        assert!(as_text(&example(), Some(40)).lines().all(|line| line.width() <= 40));
        assert_eq!(cut_to("模型模型", 5), "模型…");
        assert_eq!(cut_to("模型", 4), "模型");
    }

    #[test]
    fn ages_are_printed_in_one_or_two_units() {
        let at = |seconds| WallTime(jiff::Timestamp::from_second(seconds).unwrap());
        let ages = [0, 59, 60, 3600, 90_061].map(|seconds| age(at(0), at(seconds)));
        assert_eq!(ages, ["0 s", "59 s", "1 min", "1 h 0 min", "1 d"]);
        assert_eq!(age(at(50), at(0)), "0 s", "a clock that was set back");
    }
}
