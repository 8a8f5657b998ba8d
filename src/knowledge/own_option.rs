//! Owns the options of programs that nobody described: which of those that a log or a command line shows decide, by their
//! names, how much memory the run takes (`knowledge/advice/own_options.ron`).

use std::sync::LazyLock;

use serde::Deserialize;

use super::diagnosis::{Diagnosis, MemoryKind, Oom, OwnOption, Shown};
use crate::ids::FixId;
use crate::knowledge::program::Program;
use crate::packed;

/// So many lead the steps at most.
const MOST: usize = 2;

/// The kinds of programs whose options have fixes of their own.
const DESCRIBED: [&str; 5] = ["chat", "game", "images", "serving", "speech"];

/// What code calls the object that has its options.
const HOLDERS: [&str; 12] =
    ["args", "opt", "opts", "options", "cfg", "config", "conf", "params", "hparams", "hp", "flags", "FLAGS"];

/// A row of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// The change that a smaller value is.
    fix: FixId,
    /// The memory that it takes.
    memory: Vec<MemoryKind>,
    names: Vec<String>,
}

static RULES: LazyLock<Vec<Rule>> =
    LazyLock::new(|| packed::table(include_str!("../../knowledge/advice/own_options.ron")));

/// Those of the command line, one for each fix, in the order of the table.
pub fn in_command(line: &str) -> Vec<OwnOption> {
    of_each_fix(&typed(line))
}

/// Those that a log shows: in its command line, in a printed Namespace, or in the code that failed.
/// `near` is its part around the failure.
pub(super) fn in_log(near: Option<&str>, diagnosis: &Diagnosis) -> Vec<OwnOption> {
    let program = diagnosis.program.as_deref().and_then(Program::known);
    let is_described = program.and_then(Program::kind).is_some_and(|kind| DESCRIBED.contains(&kind.as_str()));
    let text = near.unwrap_or_default();
    if is_described {
        return Vec::new();
    }
    let mut all = diagnosis.run.command.as_deref().map(typed).unwrap_or_default();
    all.extend(text.split("Namespace(").skip(1).flat_map(|list| typed(list.split(')').next().unwrap_or_default())));
    // The last frame is the nearest to the failure.
    let in_code = text.split(|sign: char| !(sign.is_alphanumeric() || sign == '_' || sign == '.')).rev();
    all.extend(in_code.filter_map(in_code_as));
    of_each_fix(&all)
}

/// The signs that those options are: what the fixes of a failure begin with, behind what else the log shows.
pub(super) fn signs(diagnosis: &Diagnosis) -> Vec<Shown> {
    if diagnosis.oom == Oom::No {
        return Vec::new();
    }
    let rules = RULES.iter().filter(|rule| diagnosis.memory.is_none_or(|memory| rule.memory.contains(&memory)));
    let options = rules.filter_map(|rule| diagnosis.own_options.iter().find(|option| option.fix == rule.fix));
    let shown = options.take(MOST).map(|option| Shown {
        that: match option.value {
            Some(value) => format!("{} is {value}", option.name),
            None => format!("the code that failed reads {}", option.name),
        },
        fixes: vec![option.fix],
        withholds: Vec::new(),
        condition: None,
        version_matters: false,
    });
    shown.collect()
}

/// The options of a line, `--name 3`, `--name=3` or `name=3`, that are in the table.
fn typed(line: &str) -> Vec<OwnOption> {
    let mut words = line.split([' ', '\n']).map(|word| word.trim_matches([',', '\'', '"', '\\'])).peekable();
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None if word.starts_with("--") => (word, words.peek().copied()),
            None => continue,
        };
        let plain = name.trim_start_matches('-').rsplit('.').next().unwrap_or_default();
        let number = value.and_then(|value| value.parse::<u64>().ok()).filter(|number| *number > 1);
        options.extend(fix_of(plain).zip(number).map(|(fix, number)| OwnOption {
            fix,
            name: name.to_owned(),
            value: Some(number),
        }));
    }
    options
}

/// Whether an option of this name takes more memory with a larger value.
pub fn takes_memory(name: &str) -> bool {
    fix_of(name.trim_start_matches('-')).is_some()
}

fn in_code_as(word: &str) -> Option<OwnOption> {
    let (holder, name) = word.rsplit_once('.')?;
    let is_holder = HOLDERS.contains(&holder.rsplit('.').next()?);
    if is_holder { Some(OwnOption { fix: fix_of(name)?, name: word.to_owned(), value: None }) } else { None }
}

fn fix_of(name: &str) -> Option<FixId> {
    let name = name.replace('-', "_").to_ascii_lowercase();
    RULES.iter().find(|rule| rule.names.contains(&name)).map(|rule| rule.fix)
}

/// The first option of each fix, in the order of the table.
fn of_each_fix(options: &[OwnOption]) -> Vec<OwnOption> {
    RULES.iter().filter_map(|rule| options.iter().find(|option| option.fix == rule.fix).cloned()).collect()
}

/// The command line with half of that option's value.
pub fn halved(line: &str, option: &OwnOption) -> Option<String> {
    let value = option.value?;
    let half = value / 2;
    let pairs = [
        (format!("{}={value}", option.name), format!("{}={half}", option.name)),
        (format!("{} {value}", option.name), format!("{} {half}", option.name)),
    ];
    pairs.into_iter().find_map(|(now, then)| {
        let (before, after) = line.split_once(&now)?;
        let is_whole = !after.starts_with(|sign: char| sign.is_alphanumeric() || sign == '.');
        is_whole.then(|| format!("{before}{then}{after}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(options: &[OwnOption]) -> Vec<(&str, Option<u64>)> {
        options.iter().map(|option| (option.name.as_str(), option.value)).collect()
    }

    #[test]
    fn options_of_unknown_programs_are_found_by_their_names_and_halved() {
        let line = "python train.py --data x --bs 32 --num_frames=97 model.seq-len=4096 --lr 1e-4 --samples-dir out";
        let found = in_command(line);
        assert_eq!(names(&found), [("--bs", Some(32)), ("--num_frames", Some(97)), ("model.seq-len", Some(4096))]);
        let shorter: Vec<String> = found.iter().filter_map(|option| halved(line, option)).collect();
        assert!(shorter[0].contains("--bs 16 ") && shorter[1].contains("--num_frames=48 "), "{shorter:?}");
        assert!(shorter[2].contains("model.seq-len=2048 "), "{shorter:?}");
        assert_eq!(in_command("python train.py --batch-size 1 --epochs 90 --size large"), []);
    }

    #[test]
    fn the_code_that_failed_names_the_option_nearest_to_the_failure() {
        let base = crate::knowledge::KnowledgeBase::built_in().unwrap();
        let log = "Traceback (most recent call last):\n  File \"src/main.py\", line 102, in <module>\n    \
                   mem = ReplayMemory(args.replay_size, args)\n  File \"src/memory.py\", line 12, in __init__\n    \
                   self.screens = np.empty((self.size, args.height), dtype=np.uint8)\nMemoryError\n";
        let diagnosis = base.diagnose(&crate::log::PastedLog::new(log), None);
        let found = diagnosis.own_options.iter().find(|option| option.fix == FixId::SMALLER_BUFFER);
        assert_eq!(found.map(|option| option.name.as_str()), Some("args.replay_size"));
        assert!(diagnosis.signs.iter().any(|sign| sign.fixes == [FixId::SMALLER_BUFFER]), "{:?}", diagnosis.signs);
        assert!(!diagnosis.signs.iter().any(|sign| sign.fixes == [FixId::SMALLER_INPUT]), "pictures are on the GPU");
    }
}
