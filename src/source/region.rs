//! Owns which part of a terminal's pane is about the failure: the command that failed with its output. Above and below it are
//! other commands, which are nobody's business.

use std::ops::Range;

use super::Kind;
use crate::knowledge::KnowledgeBase;
use crate::knowledge::diagnosis::Oom;
use crate::log::{Expression, PastedLog};

/// So many commands are looked at, the newest first.
const MOST_COMMANDS: usize = 300;
/// Where no prompt shows where the command begins: the lines kept around the one that decides.
const LINES_BEFORE: usize = 2000;
const LINES_AFTER: usize = 200;
/// A longer line is no prompt.
const LONGEST_PROMPT: usize = 300;
/// What ends the prompts of shells.
const SIGNS: [char; 8] = ['$', '#', '%', '>', '❯', '➜', '»', 'λ'];

/// The log that was read from a place of this kind: of a pane, only the part that is about the failure.
pub fn log_of(base: &KnowledgeBase, kind: Kind, bytes: Vec<u8>) -> PastedLog {
    let log = PastedLog::from_bytes(bytes);
    if kind.is_pane() && !log.is_binary() { PastedLog::new(of_the_failure(base, log.raw()).to_owned()) } else { log }
}

/// What the newest command that ran out of memory printed; else what the newest one that may have; else all.
pub fn of_the_failure<'t>(base: &KnowledgeBase, text: &'t str) -> &'t str {
    if base.diagnose(&PastedLog::new(text.to_owned()), None).oom == Oom::No {
        return text;
    }
    let mut perhaps = None;
    for command in commands(text).into_iter().rev().take(MOST_COMMANDS) {
        let printed = text.get(command.place).unwrap_or_default();
        let diagnosis = base.diagnose(&PastedLog::new(printed.to_owned()), None);
        let line = diagnosis.matches.first().map_or(0, |found| found.line);
        let part = if command.has_prompt { printed } else { around(printed, line) };
        match diagnosis.oom {
            Oom::Yes => return part,
            Oom::Maybe if perhaps.is_none() => perhaps = Some(part),
            Oom::Maybe | Oom::No => {}
        }
    }
    perhaps.unwrap_or(text)
}

/// A command with what it printed.
struct Command {
    place: Range<usize>,
    /// Whether it begins with the prompt at which it was typed. The first of a pane may have lost its beginning.
    has_prompt: bool,
}

/// The commands of a pane, the oldest first.
fn commands(text: &str) -> Vec<Command> {
    let idle = idle_prompt(text);
    let mut commands = vec![Command { place: 0..text.len(), has_prompt: false }];
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if is_prompt(line.trim_end(), idle) {
            if let Some(before) = commands.last_mut() {
                before.place.end = start;
            }
            commands.push(Command { place: start..text.len(), has_prompt: true });
        }
        start += line.len();
    }
    commands
}

/// The prompt of a shell that waits: the last line of the pane, if it ends as prompts do.
fn idle_prompt(text: &str) -> Option<&str> {
    let last = text.trim_end().lines().next_back()?.trim_end();
    (last.len() <= LONGEST_PROMPT && last.ends_with(SIGNS)).then_some(last)
}

fn is_prompt(line: &str, idle: Option<&str>) -> bool {
    /// `ada@box:~$`, `[ada@box run]$`, `bash-5.2#`, `$ make`, `PS /home/ada>`, each perhaps behind `(venv)`.
    static SHAPE: Expression = Expression::new(
        r"^(?:\([^()]{1,60}\) ?)*(?:\[?[\w.+-]+@[\w.-]+[: ](?:[$#%>]|[^$#%>]*(?:[$#]|[^\d$#%>]%|[^$#%>=-]>))(?: |$)|[a-z]{0,4}sh-\d[\d.]*[$#](?: |$)|\$ \S|PS [/~A-Za-z][^>]*>(?: |$))",
    );
    if line.is_empty() || line.len() > LONGEST_PROMPT {
        return false;
    }
    let rest = idle.and_then(|idle| Some((idle, line.strip_prefix(idle)?)));
    if let Some((idle, rest)) = rest
        && (rest.is_empty() || rest.starts_with(' ') && (idle.len() > 1 || is_typed(rest.trim_start())))
    {
        return true;
    }
    line.starts_with(['❯', '➜', '»', 'λ']) || SHAPE.is_match(line)
}

/// Whether this looks like a command: behind a `#` or `>` that is all of the prompt, a comment or a quotation may stand.
fn is_typed(rest: &str) -> bool {
    rest.starts_with(|first: char| first.is_ascii_lowercase() || first == '.' || first == '/')
}

/// The lines around this one, counted from 1.
fn around(text: &str, line: usize) -> &str {
    let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let from = starts.get(line.saturating_sub(LINES_BEFORE)).copied().unwrap_or(0);
    let to = starts.get(line.saturating_add(LINES_AFTER)).copied().unwrap_or(text.len());
    text.get(from..to).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILURE: &str = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n\
        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.06 GiB is free.\n";

    fn base() -> KnowledgeBase {
        KnowledgeBase::built_in().unwrap()
    }

    #[test]
    fn other_commands_of_the_pane_are_left_out_whatever_its_prompt_is() {
        let base = base();
        for prompt in [
            "ada@box:~/run$",
            "(venv) ada@box:~/run$",
            "(base) [ada@box run]$",
            "root@3f2a:/workspace#",
            "bash-5.2#",
            "sh-5.1$",
            "box%",
            "ada@box ~ %",
            "❯",
            "➜  run git:(main) ✗",
            "$",
            "#",
            "PS /home/ada>",
            "ada@box ~/run>",
            "my own prompt λ",
        ] {
            let text = format!(
                "{prompt} export HF_TOKEN=hf_secret\n{prompt} python train.py --batch 8\n# Epoch 1\n{FAILURE}{prompt} \
                 cat notes.txt\nnothing\n{prompt}\n"
            );
            let part = of_the_failure(&base, &text);
            assert!(part.contains("--batch 8") && part.contains("# Epoch 1") && part.contains("2.50 GiB"), "{prompt}");
            assert!(!part.contains("hf_secret") && !part.contains("notes.txt"), "{prompt}: {part}");
        }
    }

    #[test]
    fn the_newest_of_two_failures_is_read_and_a_certain_one_before_one_that_may_be() {
        let base = base();
        let newer = FAILURE.replace("2.50 GiB", "7.25 GiB");
        let text = format!("$ python a.py\n{FAILURE}$ python b.py\n{newer}$ ./c\nKilled\n$ ls\nc\n$\n");
        let part = of_the_failure(&base, &text);
        assert!(part.starts_with("$ python b.py") && part.ends_with("free.\n"), "{part}");
    }

    #[test]
    fn without_a_prompt_the_lines_around_the_failure_are_kept() {
        let base = base();
        let text = format!("{}{FAILURE}{}", "before 1\n".repeat(5000), "after 2\n".repeat(5000));
        let part = of_the_failure(&base, &text);
        assert!(part.contains("2.50 GiB"));
        assert!((1990..=2000).contains(&part.matches("before 1").count()), "{}", part.matches("before 1").count());
        assert!((190..=200).contains(&part.matches("after 2").count()), "{}", part.matches("after 2").count());
        let short = format!("step 1\n{FAILURE}");
        assert_eq!(of_the_failure(&base, &short), short);
    }

    #[test]
    fn what_shows_no_failure_stays_as_it_is_and_so_does_a_log_of_another_kind() {
        let base = base();
        assert_eq!(of_the_failure(&base, "$ make\nfine\n$\n"), "$ make\nfine\n$\n");
        let text = format!("$ secret\n$ python a.py\n{FAILURE}$\n");
        assert_eq!(log_of(&base, Kind::Docker, text.clone().into_bytes()).raw(), text);
        assert!(!log_of(&base, Kind::Screen, text.into_bytes()).raw().contains("secret"));
    }
}
