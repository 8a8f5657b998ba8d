//! Owns `oomdoctor ps`, which prints the processes that use VRAM as a table or as JSON. Two readings, one interval apart, show
//! which of them are busy. A child process with a deadline takes them, so a driver that hangs leads to an error message and
//! does not hang this program.

mod hosts;
mod json;
mod machines;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

pub(super) use self::hosts::Listings;
pub(super) use self::json::Listing;
use self::table::{Column, UNKNOWN, USER_WIDTH, WIDE, aligned, column, cut_to, shown, terminal_width, what, wrapped};
use super::hosts::HostArgs;
use super::output::{pretty, refuse, write};
use super::settings::Global;
use super::watched::Watched;
use crate::gpu::{Device, GpuProcess, Holder, Reading, Snapshot, Vendor, sight};
use crate::platform::{Sampling, machine};
use crate::text::harmless;
use crate::units::{Bytes, WallTime};

const COLUMNS: [Column; 8] = [
    column("USER"),
    column("PID@START_TICKS"),
    column("GPU"),
    Column { is_right_aligned: true, ..column("VRAM") },
    column("STATE"),
    Column { is_right_aligned: true, is_for_wide: true, ..column("CPU") },
    Column { is_for_wide: true, ..column("AGE") },
    column("COMMAND"),
];

/// The cells of a process, in the order of [`COLUMNS`].
type Row = [String; COLUMNS.len()];

/// The longest time that the processes are watched. More proves no more.
const LONGEST_WATCH: Duration = Duration::from_secs(10);

/// Prints the processes that use VRAM. Exits with 1 if there is no driver or it does not answer.
pub(super) fn run(global: &Global, json: bool, hosts: &HostArgs) -> ExitCode {
    match hosts.asked(global) {
        Ok(asked) if asked.is_nothing() => {}
        Ok(asked) => return hosts::run(global, &asked, json),
        Err(message) => return refuse(&message),
    }
    let interval = global.sampling.interval.min(LONGEST_WATCH);
    let sampling = Sampling { interval, windows: false, ..global.sampling.clone() };
    let mut readings = match machine::read_twice(&sampling) {
        Ok(readings) => Watched::of(readings),
        Err(why) => return unread(&why),
    };
    if global.sampling.windows {
        readings.snapshot.windows = Some(machine::windows_processes());
        readings.snapshot = readings.snapshot.harmless();
    }
    let text = if json { pretty(&Listing::of(&readings)) } else { Ok(as_text(&readings, terminal_width())) };
    let written = text.and_then(|text| write(text.as_bytes()).map_err(|error| error.to_string()));
    match (written, readings.snapshot.unavailable()) {
        (Err(error), _) => refuse(&format!("the table could not be written: {error}")),
        (_, Some(unavailable)) => unread(&harmless(unavailable)),
        _ => ExitCode::SUCCESS,
    }
}

fn unread(why: &str) -> ExitCode {
    // An error here is ignored: if standard error is closed, nobody reads messages.
    let _ = writeln!(io::stderr(), "oomdoctor ps: {why}");
    ExitCode::from(1)
}

/// The table; empty if there is no driver and no process has its files open.
fn as_text(watched: &Watched, width: Option<usize>) -> String {
    let snapshot = &watched.snapshot;
    let width = width.unwrap_or(usize::MAX);
    let mut paragraphs = vec![wrapped(snapshot.devices.iter().map(device_line), width)];
    // A launcher has no GPU of its own, so it is listed first.
    let mut rows: Vec<Row> = snapshot.launchers.iter().map(|process| process_row(watched, None, process)).collect();
    for device in &snapshot.devices {
        rows.extend(device.processes.iter().map(|process| process_row(watched, Some(device), process)));
        rows.extend(unaccounted_row(device));
    }
    if !rows.is_empty() {
        paragraphs.push(aligned(&COLUMNS, &rows, width >= WIDE));
    }
    if snapshot.devices.iter().flat_map(|device| &device.processes).any(|process| !process.proved) {
        let note = "A PID with ? belongs to another container or user, or has exited.";
        paragraphs.push(wrapped([note.to_owned()], width));
    }
    if !snapshot.holders.is_empty() {
        let mut lines = vec!["Not listed by the driver, but with its device files open:".to_owned()];
        lines.extend(snapshot.holders.iter().map(|holder| holder_line(snapshot, holder)));
        paragraphs.push(lines);
    }
    let remarks = sight::remarks(snapshot).into_iter().map(|(gpu, text)| match gpu {
        Some(index) => format!("GPU {index}: {text}"),
        None => text,
    });
    let untried = sight::untried(snapshot).map(|makers| {
        format!("{makers} figures were not tried on hardware yet: `oomdoctor sample --record FILE` makes a recording to report.")
    });
    paragraphs.push(wrapped(remarks.chain(untried), width));
    paragraphs.retain(|lines| !lines.is_empty());
    let mut text = String::new();
    for (at, lines) in paragraphs.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { "\n" });
        for line in lines {
            text.push_str(&cut_to(&harmless(line), width));
            text.push('\n');
        }
    }
    text
}

fn device_line(device: &Device) -> String {
    let name = shown(&device.name);
    if let Some(error) = &device.error {
        return format!("GPU {} {name}: {error}", device.index);
    }
    let memory = &device.memory;
    let reserved = memory.reserved_bytes.value().filter(|bytes| *bytes > Bytes::ZERO);
    let reserved = reserved.map(|bytes| format!(", {bytes} reserved by the driver"));
    let shared = device.shared_used_bytes.zip(device.shared_total_bytes);
    let shared = shared.map(|(used, total)| format!(", and {used} of {total} system memory (GTT)"));
    format!(
        "GPU {} {name}: {} free of {}, {} used{}{}{}",
        device.index,
        shown(&memory.free_bytes),
        shown(&memory.total_bytes),
        shown(&memory.used_bytes),
        reserved.unwrap_or_default(),
        shared.unwrap_or_default(),
        if device.asleep { ", asleep" } else { "" },
    )
}

fn process_row(watched: &Watched, device: Option<&Device>, process: &GpuProcess) -> Row {
    let identity = match process.key() {
        Some(key) if process.proved => key.to_string(),
        _ => format!("{}{UNKNOWN}", process.pid),
    };
    let snapshot = &watched.snapshot;
    let percent = watched.cpu_percent(process).map_or_else(|| UNKNOWN.into(), |percent| format!("{percent} %"));
    [
        cut_to(&shown(&process.user), USER_WIDTH),
        identity,
        device.map_or_else(|| "-".into(), |device| device.index.to_string()),
        device.map_or_else(|| "-".into(), |_| shown(&process.used_bytes)),
        device.map_or_else(|| "-".into(), |device| watched.activity(device, process).to_string()),
        device.map_or_else(|| "-".into(), |_| percent),
        process.started_at.value().map_or_else(|| UNKNOWN.into(), |start| age(start, snapshot.taken_at)),
        command(snapshot, process),
    ]
}

/// What a process is, as far as that is recognized, and its command line.
fn command(snapshot: &Snapshot, process: &GpuProcess) -> String {
    let command = shown(&process.command);
    match what(snapshot, process) {
        label if label == "-" => command,
        label if label == command => label,
        label => format!("{label}: {command}"),
    }
}

fn unaccounted_row(device: &Device) -> Option<Row> {
    let bytes = match &device.unaccounted_bytes {
        Reading::Known(Bytes(0)) => return None,
        Reading::Known(bytes) => bytes.to_string(),
        _ if device.error.is_some() => return None,
        // What an Intel GPU has in use is counted from its processes, so that nothing is left over.
        _ if device.vendor != Vendor::Nvidia => return None,
        Reading::Denied => {
            return Some(remark(device, UNKNOWN, "unattributed: the driver denies the list of processes"));
        }
        _ => return Some(remark(device, UNKNOWN, "unattributed: the driver lists no processes")),
    };
    let whose = if device.unaccounted_includes_unknown_rows {
        "unattributed, includes the processes above with ?"
    } else {
        "unattributed: driver, display, other containers"
    };
    Some(remark(device, &bytes, whose))
}

fn remark(device: &Device, bytes: &str, text: &str) -> Row {
    ["-", "-", &device.index.to_string(), bytes, "", "", "", text].map(str::to_owned)
}

fn holder_line(snapshot: &Snapshot, holder: &Holder) -> String {
    let process = &holder.process;
    let key = process.key().map_or_else(|| process.pid.to_string(), |key| key.to_string());
    let mut said = vec![what(snapshot, process)];
    if process.has_lost_its_parent() {
        said.push("orphaned".into());
    }
    match process.state.value() {
        Some('T') => said.push("stopped (Ctrl-Z)".into()),
        Some('Z') => said.push("zombie with a running thread".into()),
        _ => {}
    }
    said.retain(|text| text != "-");
    let said = if said.is_empty() { String::new() } else { format!("{}: ", said.join(", ")) };
    format!("{key} {} {said}{} ({})", shown(&process.user), shown(&process.command), holder.devices.join(" "))
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

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

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

    fn once(snapshot: Snapshot) -> Watched {
        Watched::of((snapshot, None))
    }

    /// The example, and a second later the same with the process's CPU ticks and GPU use.
    fn watched(gpu_percent: u32, ticks: u64) -> Watched {
        let [mut first, mut second] = [example(), example()];
        second.taken_at = WallTime(first.taken_at.0 + jiff::SignedDuration::from_secs(1));
        for (reading, ticks) in [(&mut first, 100), (&mut second, 100 + ticks)] {
            let row = &mut reading.devices[0].processes[0];
            (row.sm_percent, row.cpu_ticks) = (Reading::Known(gpu_percent), Reading::Known(ticks));
        }
        Watched::of((first, Some(second)))
    }

    #[test]
    fn the_table_names_each_process_and_the_unattributed_memory() {
        let text = as_text(&once(example()), None);
        let expected = "\
GPU 0 RTX 4090: 15.0 GiB free of 24.0 GiB, 8.0 GiB used, 1.0 GiB reserved by the driver
GPU 1 RTX 4090: GPU is lost: gone

USER  PID@START_TICKS  GPU     VRAM  STATE      CPU  AGE         COMMAND
ana   77@9             0    6.0 GiB  BUSY 97 %    ?  3 h 30 min  python train.py under Slurm job 81234: python ·[2J·train.py
?     88?              0          ?  ?            ?  ?           ?
-     -                0    2.0 GiB                              unattributed: driver, display, other containers

A PID with ? belongs to another container or user, or has exited.

Not listed by the driver, but with its device files open:
5@6 ? x (/dev/nvidia0)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_process_is_idle_only_after_a_second_reading_without_gpu_and_cpu_use() {
        let state = |watched: &Watched| {
            let json: serde_json::Value = serde_json::to_value(Listing::of(watched)).unwrap();
            let row = &json["devices"][0]["processes"][0];
            let fields = ["activity", "gpu_percent", "cpu_percent", "idle_seconds"].map(|name| row[name].clone());
            let text = as_text(watched, None);
            let line = text.lines().find(|line| line.contains("77@9")).unwrap().to_owned();
            (serde_json::Value::from_iter(fields).to_string(), line)
        };
        for (gpu_percent, ticks, fields, shown) in [
            (0, 0, r#"["idle",0,0,1]"#, ["idle ≥ 1 s", "  0 %"]),
            (97, 12, r#"["busy",97,12,null]"#, ["BUSY 97 %", "  12 %"]),
            (0, 40, r#"["busy",0,40,null]"#, ["BUSY 40 % CPU", "  40 %"]),
            (0, 3, r#"["unknown",0,3,null]"#, ["GiB  ?", "  3 %"]),
        ] {
            let (json, line) = state(&watched(gpu_percent, ticks));
            assert_eq!(json, fields);
            assert!(shown.iter().all(|part| line.contains(part)), "{shown:?}: {line}");
        }
        let mut alone = example();
        alone.devices[0].processes[0].sm_percent = Reading::Known(0);
        let (json, line) = state(&once(alone));
        assert_eq!(json, r#"["unknown",0,null,null]"#, "one reading never shows that a process is idle");
        assert!(line.contains("GiB  ?  "), "{line}");
    }

    #[test]
    fn a_narrow_terminal_has_the_main_columns_and_an_ellipsis_where_a_line_is_cut() {
        let text = as_text(&once(example()), Some(80));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.width() <= 80), "{text}");
        let headings = lines.iter().find(|line| line.starts_with("USER")).unwrap();
        assert_eq!(
            headings.split_whitespace().collect::<Vec<_>>().join(" "),
            "USER PID@START_TICKS GPU VRAM STATE COMMAND"
        );
        let row = lines.iter().find(|line| line.starts_with("ana")).unwrap();
        assert!(row.contains("python train.py under") && row.ends_with('…'), "{row}");
        assert!(as_text(&once(example()), Some(40)).lines().all(|line| line.width() <= 40));
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
