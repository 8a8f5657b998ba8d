//! Owns what a record says in words: how the command ended, and the rise before a failure.

use super::held::Held;
use super::recording::Recording;
use super::rise::Rise;
use super::{End, Millis};

/// "GPU 0: 61.3 → 78.9 GiB in 0.4 s after `step 412`".
pub fn rise(rise: &Rise, line: Option<&str>, unicode: bool) -> String {
    let arrow = if unicode { "→" } else { "->" };
    let after = line.map(|line| format!(" after `{line}`")).unwrap_or_default();
    let (from, to) = (rise.from.in_gib(), rise.to.in_gib());
    format!("GPU {}: {from} {arrow} {to} GiB in {}{after}", rise.gpu, seconds(rise.ended.saturating_sub(rise.began)))
}

/// What the kernel's count of killed processes shows, as a line that the knowledge base knows; `None` if it did not rise.
pub fn kill(recording: &Recording, how: End) -> Option<String> {
    let kills = recording.kills();
    let host = recording.host_at(recording.length())?;
    let figures = host.group_limit.map(|limit| {
        let peak = host.group_peak.map(|peak| format!(", peak {} bytes", peak.0)).unwrap_or_default();
        format!(" (limit {} bytes{peak})", limit.0)
    });
    let (figures, how) = (figures.unwrap_or_default(), end(how));
    (kills > 0)
        .then(|| format!("oomdoctor run: oom_kill rose by {kills} in the command's cgroup{figures}; the command {how}"))
}

/// An estimate beside what was measured, a line each.
pub fn held(held: &Held) -> [String; 2] {
    let on = held.gpu.map(|gpu| format!(" on GPU {gpu}")).unwrap_or_default();
    let bound = if held.at_least { "at least " } else { "" };
    let needs = held.needs.map(|needs| format!("the run needs {bound}{needs}{on}; ")).unwrap_or_default();
    let fix = &held.fix;
    let frees = fix.frees.map(|frees| format!(", frees {frees}")).unwrap_or_default();
    let used = held.used.map(|used| format!("used at most {used}{on} and ")).unwrap_or_default();
    let verdict = match held.is_kept() {
        Some(true) => ": the estimate was right",
        Some(false) => ": the estimate was wrong",
        None => "",
    };
    [
        format!("Estimated: {needs}fix `{}` enough: {}{frees}", fix.fix, fix.enough),
        format!("Measured: the next run {used}{}{verdict}", end(held.end)),
    ]
}

/// The most that was in use, a line for each GPU and one for the system memory: "GPU 0: at most 22.9 of 24.0 GiB".
pub fn peaks(recording: &Recording) -> Vec<String> {
    let mut lines = Vec::new();
    for gpu in recording.gpus() {
        let Some(peak) = recording.peak(gpu) else { continue };
        let of = recording.total(gpu).map(|total| format!(" of {total}")).unwrap_or_default();
        lines.push(format!("GPU {gpu}: at most {peak}{of}"));
    }
    lines.extend(recording.tree_peak().map(|peak| format!("RAM of the command: at most {peak}, read once a second")));
    lines
}

/// "0.4 s", "12 s", "3 min", "2 h 5 min".
pub fn seconds(millis: Millis) -> String {
    match millis {
        0..10_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        10_000..120_000 => format!("{} s", millis / 1000),
        120_000..7_200_000 => format!("{} min", millis / 60_000),
        _ => format!("{} h {} min", millis / 3_600_000, millis % 3_600_000 / 60_000),
    }
}

/// "exited with 1", "was terminated by SIGKILL".
pub fn end(end: End) -> String {
    match end {
        End::Code(code) => format!("exited with {code}"),
        End::Signal(9) => "was terminated by SIGKILL".into(),
        End::Signal(15) => "was terminated by SIGTERM".into(),
        End::Signal(6) => "aborted (SIGABRT)".into(),
        End::Signal(11) => "crashed (SIGSEGV)".into(),
        End::Signal(number) => format!("was terminated by signal {number}"),
        End::Unknown => "ended".into(),
    }
}
