//! Owns whether a run passed the point where an earlier one failed: by a number that counts up in both outputs, else by the
//! time and the VRAM. Says no more than was recorded.

use std::collections::BTreeMap;
use std::fmt;

use super::recording::Recording;
use super::{End, Millis, rise, words};
use crate::units::Bytes;

/// A recorded run.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub recording: &'a Recording,
    /// Its output, where it was kept.
    pub output: Option<&'a str>,
}

/// How far the new run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It exited with 0.
    Succeeded,
    /// It came further than the first run, or used the VRAM that the first run lacked.
    Further,
    NotFurther,
    /// There is no record to tell.
    Unknown,
}

/// What became of the new run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub passed: Passed,
    /// Memory ran out again.
    pub failed_again: bool,
    /// What was seen, in a sentence or two.
    pub seen: String,
}

/// Compares the run that ended like this with the one that failed before.
pub fn compare(before: Side<'_>, after: Option<Side<'_>>, end: End) -> Outcome {
    let ended = words::end(end);
    let Some(after) = after else {
        let passed = if end.is_success() { Passed::Succeeded } else { Passed::Unknown };
        return Outcome {
            passed,
            failed_again: false,
            seen: format!("The new run {ended}; no record of it was found."),
        };
    };
    let failed_again = !end.is_success() && after.recording.said.is_some();
    let length = words::seconds(after.recording.length());
    if end.is_success() {
        let seen = [format!("The new run {ended} after {length}."), used(after.recording)].concat();
        return Outcome { passed: Passed::Succeeded, failed_again, seen };
    }
    let (further, compared) = further(before, after);
    let what = if failed_again { "Memory ran out again".to_owned() } else { format!("The new run {ended}") };
    let passed = if further { Passed::Further } else { Passed::NotFurther };
    Outcome { passed, failed_again, seen: format!("{what} {compared}{}", used(after.recording)) }
}

/// Whether the new run came further, and both points in words.
fn further(before: Side<'_>, after: Side<'_>) -> (bool, String) {
    let first = before.output.and_then(Counter::of);
    let second = first.as_ref().zip(after.output).and_then(|(first, output)| first.reached_in(output));
    if let Some((first, second)) = first.map(|first| first.reached).zip(second) {
        return (second > first, format!("at {second}; the first run failed at {first}."));
    }
    let ended = after.recording.failed_at().unwrap_or(after.recording.length());
    let failed: Option<Millis> = before.recording.failed_at();
    let needed = enough_used(before.recording, after.recording);
    let at = format!("after {}", words::seconds(ended));
    let compared = match (failed, needed) {
        (Some(failed), None) => format!("{at}; the first run failed after {}.", words::seconds(failed)),
        (None, None) => format!("{at}."),
        (_, Some(needed)) => format!("{at}, past the {needed} that the first run needed."),
    };
    (needed.is_some() || failed.is_some_and(|failed| ended > failed), compared)
}

/// What the first run needed, if the new one's own processes used that much.
fn enough_used(before: &Recording, after: &Recording) -> Option<Bytes> {
    let said = before.said.as_ref()?;
    let (gpu, needed) = (said.gpu?, said.needs?);
    if after.own_peak(gpu)? >= needed { Some(needed) } else { None }
}

/// " GPU 0: at most 15.4 GiB of 24.0 GiB." of the GPU that was fullest.
fn used(recording: &Recording) -> String {
    let fullest = recording.gpus().into_iter().filter_map(|gpu| Some((recording.peak(gpu)?, gpu))).max();
    let Some((peak, gpu)) = fullest else { return String::new() };
    let of = recording.total(gpu).map(|total| format!(" of {total}")).unwrap_or_default();
    format!(" GPU {gpu}: at most {peak}{of} in use.")
}

/// How far a run came.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reached {
    epoch: Option<u64>,
    number: u64,
    /// The word before the number: `step`.
    word: Option<String>,
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(epoch) = self.epoch {
            write!(f, "epoch {epoch}, ")?;
        }
        match &self.word {
            Some(word) => write!(f, "{word} {}", self.number),
            None => self.number.fmt(f),
        }
    }
}

/// A number that counts up in lines of one shape.
struct Counter {
    shape: String,
    /// Which of the line's numbers it is.
    at: usize,
    reached: Reached,
}

/// Fewer lines of one shape do not count anything.
const FEWEST: usize = 3;

impl Counter {
    /// The one of the most frequent lines that have any.
    fn of(output: &str) -> Option<Counter> {
        let mut shapes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for line in states(output) {
            shapes.entry(rise::shape(line)).or_default().push(line);
        }
        let mut frequent: Vec<(String, Vec<&str>)> =
            shapes.into_iter().filter(|(_, lines)| lines.len() >= FEWEST).collect();
        frequent.sort_by_key(|(_, lines)| std::cmp::Reverse(lines.len()));
        frequent.into_iter().find_map(|(shape, lines)| {
            let at = counting(&lines)?;
            let reached = lines.iter().filter_map(|line| reached(line, at)).max()?;
            Some(Counter { shape, at, reached })
        })
    }

    /// How far the same counter came in another output.
    fn reached_in(&self, output: &str) -> Option<Reached> {
        let same = states(output).filter(|line| rise::shape(line) == self.shape);
        same.filter_map(|line| reached(line, self.at)).max()
    }
}

/// What each line of an output showed last.
fn states(output: &str) -> impl Iterator<Item = &str> {
    output.lines().map(rise::last_state).filter(|line| !line.is_empty())
}

/// Which number of these lines of one shape counts up most often; one with a word before it comes first.
fn counting(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let numbered: Vec<Vec<(usize, u64)>> = lines.iter().map(|line| rise::numbers(line)).collect();
    let candidates =
        rise::numbers(first).into_iter().enumerate().filter(|(_, (begins, _))| !is_of_a_time(first, *begins));
    let counted = candidates.filter_map(|(at, (begins, _))| {
        let values = numbered.iter().filter_map(|numbers| numbers.get(at).map(|(_, value)| *value));
        let values: Vec<u64> = values.collect();
        let steps = values.windows(2).filter(|pair| pair.first() < pair.last()).count();
        let has_word = rise::word_before(first, begins).is_some();
        (steps > 0).then_some((has_word, steps, std::cmp::Reverse(at)))
    });
    counted.max().map(|(.., at)| at.0)
}

/// Whether the number is a part of a time of day or of a duration: `12:04`.
fn is_of_a_time(line: &str, begins: usize) -> bool {
    let is_colon_between =
        |text: &str| text.starts_with(':') && text.get(1..2).is_some_and(|next| next.parse::<u8>().is_ok());
    let rest = line.get(begins..).unwrap_or_default().trim_start_matches(|c: char| c.is_ascii_digit());
    let before = line.get(..begins).unwrap_or_default();
    let follows_colon = before.strip_suffix(':').is_some_and(|text| text.ends_with(|c: char| c.is_ascii_digit()));
    is_colon_between(rest) || follows_colon
}

fn reached(line: &str, at: usize) -> Option<Reached> {
    let numbers = rise::numbers(line);
    let (begins, number) = numbers.get(at).copied()?;
    let word = rise::word_before(line, begins).map(str::to_owned);
    let earlier = numbers.iter().take(at);
    let is_epoch =
        |begins: usize| rise::word_before(line, begins).is_some_and(|word| word.eq_ignore_ascii_case("epoch"));
    let epoch = earlier.clone().find(|(begins, _)| is_epoch(*begins)).map(|(_, epoch)| *epoch);
    Some(Reached { epoch, number, word })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{Header, Snapshot};
    use crate::record::{Line, Note, Run, RunOptions, Said};

    fn recording(peak: u64, at: Millis, end: End, said: Option<Said>) -> Recording {
        let run = Run {
            started_at: noon_plus(0),
            argv: Vec::new(),
            folder: "/".into(),
            pid: 42,
            tries: None,
            environment: Vec::new(),
            options: RunOptions::default(),
        };
        let first = Snapshot { devices: vec![device(0, vec![process(42, Bytes::gib(1))])], ..snapshot(0) };
        let mut lines = vec![
            Line::Header(Header::of_boot(None)),
            Line::Note(Note::Run(run)),
            Line::Note(Note::Used { at: 0, gpus: vec![(0, Bytes::gib(1))] }),
            Line::Reading(Box::new(first)),
            Line::Note(Note::Used { at: 900, gpus: vec![(0, Bytes::gib(peak))] }),
            Line::Note(Note::Rows { at: 900, rows: vec![(0, 42, Bytes::gib(peak))] }),
            Line::Note(Note::End { at, end }),
        ];
        lines.extend(said.map(|said| Line::Note(Note::Said(said))));
        Recording::parse(&lines.iter().map(|line| line.text().unwrap()).collect::<String>()).unwrap()
    }

    fn needing(gib: u64) -> Option<Said> {
        Some(Said { gpu: Some(0), needs: Some(Bytes::gib(gib)), at_least: true, ..Said::default() })
    }

    fn outcome(
        outputs: (Option<&str>, Option<&str>),
        at: Millis,
        peak: u64,
        end: End,
        again: bool,
    ) -> (Passed, String) {
        let before = recording(20, 30_000, End::Code(1), needing(22));
        let after = recording(peak, at, end, if again { needing(22) } else { None });
        let side = |recording, output| Side { recording, output };
        let outcome = compare(side(&before, outputs.0), Some(side(&after, outputs.1)), end);
        assert_eq!(outcome.failed_again, again);
        (outcome.passed, outcome.seen)
    }

    fn steps(epoch: u64, from: u64, to: u64) -> String {
        let line = |step| format!("12:00:{:02} epoch {epoch}/12 step {step}/2110 loss 2.{step}\n", step % 60);
        (from..=to).map(line).collect()
    }

    #[test]
    fn a_run_that_exits_with_0_passed_whatever_else_is_known() {
        let (passed, seen) = outcome((None, None), 90_000, 15, End::Code(0), false);
        assert_eq!(passed, Passed::Succeeded);
        assert!(seen.contains("exited with 0 after 90 s") && seen.contains("at most 15.0 GiB"), "{seen}");
        let before = recording(20, 30_000, End::Code(1), None);
        let before = Side { recording: &before, output: None };
        assert_eq!(compare(before, None, End::Code(0)).passed, Passed::Succeeded);
        assert_eq!(compare(before, None, End::Code(1)).passed, Passed::Unknown);
    }

    #[test]
    fn the_counter_of_both_outputs_tells_how_far_a_run_came() {
        let crash = "Traceback\n  File \"a.py\", line 7\n  File \"a.py\", line 80\nCUDA out of memory\n";
        let first = steps(1, 1, 270) + crash;
        for (second, passed, reached) in [
            (steps(1, 1, 412), Passed::Further, "epoch 1, step 412"),
            (steps(1, 1, 270), Passed::NotFurther, "epoch 1, step 270"),
            (steps(1, 1, 300) + &steps(2, 1, 9), Passed::Further, "epoch 2, step 9"),
        ] {
            let (found, seen) = outcome((Some(&first), Some(&(second + crash))), 9000, 15, End::Code(1), true);
            assert_eq!(found, passed, "{seen}");
            assert!(seen.contains(reached) && seen.contains("failed at epoch 1, step 270"), "{seen}");
        }
        let bar = |to: u64| (1..=to).map(|n| format!("\r{n}%|█▏ | {n}/100 [00:{n}<01:02]\n")).collect::<String>();
        let (found, seen) = outcome((Some(&bar(40)), Some(&bar(61))), 9000, 15, End::Signal(2), false);
        assert_eq!(found, Passed::Further, "{seen}");
    }

    #[test]
    fn without_a_counter_time_and_vram_tell() {
        let of = |at, peak| outcome((None, None), at, peak, End::Signal(2), false).0;
        assert_eq!(of(9000, 15), Passed::NotFurther);
        assert_eq!(of(31_000, 15), Passed::Further, "longer");
        assert_eq!(of(9000, 22), Passed::Further, "it used what the first one lacked");
        let (passed, seen) = outcome((Some("loading"), Some("loading")), 9000, 15, End::Code(1), true);
        assert_eq!(passed, Passed::NotFurther);
        assert!(seen.contains("failed after 30 s"), "{seen}");
    }
}
