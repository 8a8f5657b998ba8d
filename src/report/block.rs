//! Owns what is printed after a recorded command that ran out of memory: what was short, what the memory did before, the
//! easiest way out, and how to see the rest. It stands below the command's own output, so it is one short block.

use super::plain::{verdict, wrapped};
use crate::advice::Advice;
use crate::record::recording::Recording;
use crate::record::rise::{self, Rise};
use crate::record::{Millis, curve, words};
use crate::text::harmless_lines;

/// The time before the failure that the curve shows.
const SHOWN: Millis = 20_000;
/// The columns of the curve.
const COLUMNS: usize = 40;
/// How many lines before a rise are looked at for one that counts.
const LINES_BEFORE: usize = 40;

/// What a block is made from.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    pub advice: &'a Advice,
    pub recording: &'a Recording,
    /// The output of the command.
    pub log: &'a str,
    pub unicode: bool,
    /// The memory snapshots that PyTorch wrote.
    pub snapshots: &'a [String],
    /// The command that opens it in the terminal program.
    pub opens_with: &'a str,
}

/// The block, with its line ends.
pub fn text(block: &Block<'_>) -> String {
    let advice = block.advice;
    let mut lines = vec![format!("oomdoctor: {}", verdict(&advice.brief))];
    lines.extend(wrapped("  ", &advice.brief.next));
    lines.extend(curve(block).map(|line| format!("  {line}")));
    lines.extend(risen(block).map(|line| format!("  {line}")));
    lines.extend(ram(block.recording).map(|line| format!("  {line}")));
    if let Some(first) = advice.plan.first() {
        lines.push(format!("  Fix 1: {}", first.title));
        let commands = first.steps.iter().filter_map(|step| step.command.as_deref()).flat_map(str::lines);
        lines.extend(commands.map(|command| format!("    {command}")));
    }
    lines.extend(snapshots(block.snapshots).map(|line| format!("  {line}")));
    lines.push(format!("  All fixes: {}", block.opens_with));
    harmless_lines(&lines.join("\n")) + "\n"
}

/// Where the first snapshot is, and how many more there are: each rank writes one.
fn snapshots(paths: &[String]) -> Option<String> {
    let (first, more) = paths.split_first()?;
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    Some(format!("Memory snapshot: {first}{more}"))
}

/// The steepest rise before the failure, in words.
pub fn risen(block: &Block<'_>) -> Option<String> {
    let rise = rise::steepest(block.recording, block.recording.failed_at()?)?;
    let line = line_before(block.recording, block.log, &rise);
    Some(words::rise(&rise, line.as_deref(), block.unicode))
}

/// The line of the output that came last before the rise; `None` where it is not known when lines came.
pub fn line_before(recording: &Recording, log: &str, rise: &Rise) -> Option<String> {
    let last = usize::try_from(recording.line_at(rise.began)?).ok()?;
    let lines: Vec<&str> = log.lines().take(last).collect();
    rise::last_line(lines.get(lines.len().saturating_sub(LINES_BEFORE)..)?)
}

/// The most RAM of the command's cgroup, where the kernel killed a process for lack of it.
fn ram(recording: &Recording) -> Option<String> {
    if recording.kills() == 0 {
        return None;
    }
    let host = recording.host_at(recording.length())?;
    let (peak, limit) = (host.group_peak?, host.group_limit?);
    let own = recording.tree_peak().map(|own| format!("; its own processes had {own} when last read"));
    Some(format!("RAM of the command's cgroup: at most {peak} of {limit}{}", own.unwrap_or_default()))
}

/// The last seconds of the GPU that was fullest at the failure.
fn curve(block: &Block<'_>) -> Option<String> {
    let recording = block.recording;
    let end = recording.failed_at()?;
    let begin = end.saturating_sub(SHOWN);
    let known = recording.gpus().into_iter().filter_map(|gpu| Some((fullness(recording, gpu, end)?, gpu)));
    let (_, gpu) = known.max_by_key(|(full, _)| *full)?;
    let total = recording.total(gpu)?;
    let columns = curve::columns(recording, gpu, (begin, end), COLUMNS);
    let drawn = curve::in_text(&columns, total, block.unicode);
    Some(format!("GPU {gpu} {drawn} of {total}, the last {}", words::seconds(end - begin)))
}

/// How full a GPU was then, in millionths.
fn fullness(recording: &Recording, gpu: u32, moment: Millis) -> Option<u128> {
    let (used, total) = (recording.used_at(gpu, moment)?, recording.total(gpu)?);
    Some(u128::from(used.0) * 1_000_000 / u128::from(total.0.max(1)))
}
