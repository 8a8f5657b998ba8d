//! Owns the steepest rise before a failure, and which line of the output came right before it.

use super::Millis;
use super::recording::Recording;
use crate::units::Bytes;

/// How long before the failure it is looked for.
const WITHIN: Millis = 60_000;
/// A rise takes no longer than this.
const WINDOW: Millis = 1000;
/// The time between two looks at the VRAM while a run is recorded.
pub const GLANCE: Millis = 200;
/// A smaller one is none, unless it is a twentieth of the GPU.
const LEAST: Bytes = Bytes::mib(512);

/// The VRAM in use on a GPU went up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rise {
    pub gpu: u32,
    pub from: Bytes,
    pub to: Bytes,
    pub began: Millis,
    pub ended: Millis,
}

/// The largest rise within a second of the last minute before `until`, on any GPU.
pub fn steepest(recording: &Recording, until: Millis) -> Option<Rise> {
    let rises = recording.gpus().into_iter().filter_map(|gpu| on_gpu(recording, gpu, until));
    rises.max_by_key(|rise| rise.to.less(rise.from))
}

fn on_gpu(recording: &Recording, gpu: u32, until: Millis) -> Option<Rise> {
    let points: Vec<(Millis, Bytes)> = points(recording, gpu, until);
    let mut best: Option<Rise> = None;
    let mut start = 0;
    let pace = if recording.run.is_some() { GLANCE } else { WINDOW };
    for (end, (ended, to)) in points.iter().enumerate() {
        // A figure holds until the next one, so what a GPU used a window ago is the last figure from before it.
        while points.get(start + 1).is_some_and(|(at, _)| at + WINDOW <= *ended) {
            start += 1;
        }
        let Some(window) = points.get(start..=end) else { continue };
        // The latest of the lowest: the rise begins there.
        let Some((at, (held_since, from))) = window.iter().enumerate().rev().min_by_key(|(_, (_, bytes))| *bytes)
        else {
            continue;
        };
        let is_larger = best.is_none_or(|best| to.less(*from) > best.to.less(best.from));
        if let (true, Some((left, _))) = (is_larger, window.get(at + 1)) {
            // Only changes are written: it was still that low at the reading before the next figure.
            let began = (*held_since).max(left.saturating_sub(pace)).max(ended.saturating_sub(WINDOW));
            best = Some(Rise { gpu, from: *from, to: *to, began, ended: *ended });
        }
    }
    let least = recording.total(gpu).map_or(LEAST, |total| LEAST.min(Bytes(total.0 / 20)));
    best.filter(|rise| rise.to.less(rise.from) >= least)
}

/// What the GPU used within the last minute, with what it used when that began.
fn points(recording: &Recording, gpu: u32, until: Millis) -> Vec<(Millis, Bytes)> {
    let since = until.saturating_sub(WITHIN);
    let before = recording.used_at(gpu, since).map(|bytes| (since, bytes));
    let within = recording.of_gpu(gpu).filter(|(at, _)| *at > since && *at <= until);
    before.into_iter().chain(within).collect()
}

/// The last of these lines, in short: "step 412" where a number counts up, else its beginning.
pub fn last_line(lines: &[&str]) -> Option<String> {
    let lines: Vec<&str> = lines.iter().map(|line| last_state(line)).filter(|line| !line.is_empty()).collect();
    let last = lines.last()?;
    let earlier = lines.iter().rev().skip(1).find(|line| shape(line) == shape(last));
    let counted = earlier.and_then(|earlier| counter(earlier, last));
    Some(counted.unwrap_or_else(|| beginning(last)))
}

/// What a line with carriage returns showed last: progress bars write over themselves.
pub(crate) fn last_state(line: &str) -> &str {
    line.trim_end().rsplit('\r').find(|state| !state.trim().is_empty()).unwrap_or_default().trim()
}

/// The line with every number as `#`.
pub(super) fn shape(line: &str) -> String {
    let mut shape = String::new();
    for character in line.chars() {
        match character {
            c if c.is_ascii_digit() && shape.ends_with('#') => {}
            c if c.is_ascii_digit() => shape.push('#'),
            // How far a bar is drawn changes with its number.
            '█' | '▏' | '▎' | '▍' | '▌' | '▋' | '▊' | '▉' | ' ' | '=' | '>' | '━' | '╸' | '╺' => {
            }
            c => shape.push(c),
        }
    }
    shape
}

/// The first whole number that went up, with the word before it.
fn counter(earlier: &str, last: &str) -> Option<String> {
    let rising = numbers(earlier).into_iter().zip(numbers(last)).find(|((_, before), (_, now))| now > before);
    let (at, number) = rising?.1;
    Some(word_before(last, at).map_or_else(|| number.to_string(), |word| format!("{word} {number}")))
}

/// The word before what begins at this place of a line.
pub(super) fn word_before(line: &str, at: usize) -> Option<&str> {
    let before = line.get(..at)?.trim_end_matches(|c: char| !c.is_alphanumeric());
    before.rsplit(|c: char| !(c.is_alphabetic() || c == '_')).next().filter(|word| !word.is_empty())
}

/// The whole numbers of a line, with where they begin; parts of decimals are none.
pub(super) fn numbers(line: &str) -> Vec<(usize, u64)> {
    let mut found = Vec::new();
    let mut at = 0;
    for part in line.split(|c: char| !(c.is_ascii_digit() || c == '.')) {
        let begins = part.as_ptr() as usize - line.as_ptr() as usize;
        if let Ok(number) = part.trim_end_matches('.').parse() {
            found.push((begins, number));
        }
        at = at.max(begins);
    }
    found
}

/// As much of a line as fits into a sentence.
fn beginning(line: &str) -> String {
    let text: String = crate::text::harmless(line).chars().take(60).collect();
    if line.chars().count() > 60 { text.trim_end().to_owned() + "…" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::{device, noon_plus, snapshot};
    use crate::gpu::{Header, Snapshot};
    use crate::record::{Line, Note, Run, RunOptions};

    fn run() -> Run {
        let (argv, folder, environment) = (Vec::new(), String::new(), Vec::new());
        Run {
            started_at: noon_plus(0),
            argv,
            folder,
            pid: 42,
            tries: None,
            environment,
            options: RunOptions::default(),
        }
    }

    fn recording(points: &[(Millis, u64)]) -> Recording {
        let first = Snapshot { devices: vec![device(0, vec![])], ..snapshot(0) };
        let mut lines =
            vec![Line::Header(Header::of_boot(None)), Line::Reading(Box::new(first)), Line::Note(Note::Run(run()))];
        let notes = points.iter().map(|(at, mib)| Note::Used { at: *at, gpus: vec![(0, Bytes::mib(*mib))] });
        lines.extend(notes.map(Line::Note));
        Recording::parse(&lines.iter().map(|line| line.text().unwrap()).collect::<String>()).unwrap()
    }

    fn rise(points: &[(Millis, u64)], until: Millis) -> Option<(u64, u64, Millis)> {
        let rise = steepest(&recording(points), until)?;
        Some((rise.from.0 >> 20, rise.to.0 >> 20, rise.ended - rise.began))
    }

    #[test]
    fn the_steepest_second_of_the_last_minute_counts() {
        let slow: Vec<_> = (0..40).map(|n| (n * 1000, 1000 + n * 100)).collect();
        assert_eq!(rise(&slow, 40_000), None, "100 MiB a second is no jump");
        assert_eq!(rise(&[(1000, 6000), (5200, 9000), (5400, 14_000)], 6000), Some((6000, 14_000, 400)));
        assert_eq!(rise(&[(1000, 6000), (9000, 14_000)], 10_000), Some((6000, 14_000, 200)), "it held until then");
        assert_eq!(rise(&[(1000, 1000), (1200, 9000), (70_000, 9100)], 70_000), None, "too long ago");
        assert_eq!(rise(&[(1000, 1000), (1200, 9000), (1400, 20_000)], 1300), Some((200, 9000, 400)), "later is later");
    }

    #[test]
    fn the_line_before_it_is_named_by_the_number_that_counts() {
        let name = |lines: &[&str]| last_line(lines);
        assert_eq!(name(&["step 411 loss 2.1", "step 412 loss 2.0"]).as_deref(), Some("step 412"));
        assert_eq!(name(&["epoch: 1, batch=7", "epoch: 1, batch=8"]).as_deref(), Some("batch 8"));
        let bar = "\r 40%|████      | 4/10 [00:01<00:02]\r 50%|█████     | 5/10 [00:02<00:02]";
        assert_eq!(name(&["\r 10%|█         | 1/10 [00:00<00:02]", bar]).as_deref(), Some("50"));
        assert_eq!(name(&["loading model"]).as_deref(), Some("loading model"));
        assert_eq!(name(&["", "\r"]), None);
    }
}
