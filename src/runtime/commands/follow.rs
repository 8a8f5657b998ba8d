//! Owns following what a command prints, line by line, for as long as it goes on. Standard error is read between the lines,
//! so that a command that says a lot does not wait, and what it started and left behind holds nothing up: a master connection
//! of `ssh` keeps the pipes of the command that opened it.

use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Ended, MOST_SAID};
use crate::platform::here;

/// The time between two looks at standard error, and at whether the command has exited while its pipe stays open.
const LOOK: Duration = Duration::from_secs(1);
/// How long an ended command's last words may take from the pipe to here.
const MOMENT: Duration = Duration::from_millis(50);
/// No line of a reading is longer.
const LONGEST_LINE: usize = 8 << 20;

/// What happens after a line.
pub(in crate::runtime) enum Next {
    /// The next line may take this long.
    Within(Duration),
    /// The command is ended.
    Enough,
}

/// How following a command ended.
pub(in crate::runtime) enum End {
    /// By itself, with this exit code; `None` where a signal ended it.
    Itself(Option<i32>),
    /// The caller wanted no more lines.
    Enough,
    /// Nothing came in time. The command was ended.
    Silent,
    /// A line was too long. The command was ended.
    TooLong,
    NotStarted(io::Error),
}

/// Runs a command and hands on each line of its output, without the line's end. Returns what it said on standard error, too.
/// The command ends with this thread.
pub(in crate::runtime) fn follow(
    mut command: Command,
    input: Stdio,
    first: Duration,
    each: &mut dyn FnMut(&[u8]) -> Next,
) -> (End, String) {
    let mut said = Said::default();
    let end = started(&mut command, input)
        .map(|(child, output, errors)| {
            // The command's ends of the pipes are closed here, or reading them would never end.
            drop(command);
            all_lines(child, output, errors, first, each, &mut said)
        })
        .unwrap_or_else(End::NotStarted);
    (end, said.text())
}

fn started(command: &mut Command, input: Stdio) -> io::Result<(Ended, here::Pipe, here::Pipe)> {
    let (output, to_output) = io::pipe()?;
    let (errors, to_errors) = io::pipe()?;
    command.stdin(input).stdout(to_output).stderr(to_errors);
    here::detach(command);
    here::end_with_this_thread(command);
    let child = Ended(command.spawn()?);
    Ok((child, here::Pipe::new(here::file_of(output)), here::Pipe::new(here::file_of(errors))))
}

fn all_lines(
    mut child: Ended,
    mut output: here::Pipe,
    mut errors: here::Pipe,
    first: Duration,
    each: &mut dyn FnMut(&[u8]) -> Next,
    said: &mut Said,
) -> End {
    let mut due = Instant::now() + first;
    let (mut block, mut line) = (vec![0; 64 << 10], Vec::new());
    loop {
        let left = due.saturating_duration_since(Instant::now());
        let has_exited = matches!(child.0.try_wait(), Ok(Some(_)));
        let patience = if has_exited { MOMENT } else { left.min(LOOK) };
        let count = match output.read_within(&mut block, Some(patience)) {
            Ok(Some(count @ 1..)) => count,
            Ok(None) if !has_exited && !left.is_zero() => {
                said.read(&mut errors, Duration::ZERO);
                continue;
            }
            Ok(None) if !has_exited => {
                said.read(&mut errors, Duration::ZERO);
                return End::Silent;
            }
            // It exited, or closed its output.
            _ => break,
        };
        if let Some(end) = hand_on(block.get(..count).unwrap_or_default(), &mut line, &mut due, each) {
            return end;
        }
        // The large buffer of a long line is not kept while the command prints nothing.
        if line.is_empty() && line.capacity() > block.len() {
            line = Vec::new();
        }
        said.read(&mut errors, Duration::ZERO);
    }
    if !line.is_empty() && matches!(each(&line), Next::Enough) {
        return End::Enough;
    }
    let status = child.status_by(due);
    said.read(&mut errors, MOMENT);
    status.map_or(End::Silent, |status| End::Itself(status.code()))
}

/// Hands on the lines that end in a block. `line` is what came of the last one so far, `due` when the next one must have come.
/// Returns why the command is to be ended, if it is.
fn hand_on(block: &[u8], line: &mut Vec<u8>, due: &mut Instant, each: &mut dyn FnMut(&[u8]) -> Next) -> Option<End> {
    let mut rest = block;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let (head, tail) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        line.extend_from_slice(head);
        match each(line) {
            Next::Within(time) => *due = Instant::now() + time,
            Next::Enough => return Some(End::Enough),
        }
        line.clear();
        rest = tail.get(1..).unwrap_or_default();
    }
    line.extend_from_slice(rest);
    if line.len() > LONGEST_LINE { Some(End::TooLong) } else { None }
}

/// The end of what a command says on standard error.
#[derive(Default)]
struct Said(Vec<u8>);

impl Said {
    /// Takes what is there.
    fn read(&mut self, errors: &mut here::Pipe, patience: Duration) {
        let mut block = [0; 4096];
        let most = usize::try_from(MOST_SAID).unwrap_or(usize::MAX);
        let mut taken = 0;
        // A command that prints without end would keep this loop busy: the rest is read the next time.
        while taken < most
            && let Ok(Some(count @ 1..)) = errors.read_within(&mut block, Some(patience))
        {
            taken += count;
            self.0.extend_from_slice(block.get(..count).unwrap_or_default());
            let surplus = self.0.len().saturating_sub(most);
            self.0.drain(..surplus);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str, first: Duration, each: &mut dyn FnMut(&[u8]) -> Next) -> (End, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        follow(command, Stdio::null(), first, each)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn lines_words_and_the_exit_code_are_told() {
        let mut lines = Vec::new();
        let (end, said) = shell("echo one; echo why >&2; printf two; exit 7", LONG, &mut |line| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            Next::Within(LONG)
        });
        assert!(matches!(end, End::Itself(Some(7))));
        assert_eq!((lines, said.as_str()), (vec!["one".to_owned(), "two".to_owned()], "why\n"));
    }

    #[test]
    fn what_a_command_leaves_behind_holds_nothing_up() {
        let start = Instant::now();
        let (end, _) = shell("sleep 50 & exit 0", LONG, &mut |_| Next::Within(LONG));
        assert!(matches!(end, End::Itself(Some(0))) && start.elapsed() < LONG / 2);
    }

    #[test]
    fn one_that_hangs_is_ended_and_so_is_one_that_has_told_enough() {
        let (end, said) = shell("echo trouble >&2; sleep 100", Duration::from_millis(300), &mut |_| Next::Enough);
        assert!(matches!(end, End::Silent) && said.contains("trouble"), "{said}");
        let (end, _) = shell("while :; do echo more; done", LONG, &mut |_| Next::Enough);
        assert!(matches!(end, End::Enough));
    }

    #[test]
    fn a_command_that_says_a_lot_does_not_wait_for_somebody_to_read_it() {
        let mut count = 0;
        let (end, said) = shell("head -c 400000 /dev/zero | tr '\\0' x >&2; echo done", LONG, &mut |_| {
            count += 1;
            Next::Within(LONG)
        });
        assert!(matches!(end, End::Itself(Some(0))) && count == 1 && said.len() <= 16 << 10);
    }
}
