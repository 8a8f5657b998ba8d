//! Owns the question whether a change would change anything: what the run has already, by its command line or as its
//! program printed its settings, is no step.

use super::{Change, Changes, GLUED, VALUE, found, kin};
use crate::knowledge::{Moves, Run, settings};
use crate::units::{Bytes, UnitBase};

/// What the failed run was started with, as far as that is known.
#[derive(Clone, Copy)]
pub struct Had<'a> {
    pub line: Option<&'a str>,
    /// What its log prints.
    pub run: &'a Run,
}

impl Had<'_> {
    /// The value of an option, whatever its spelling; of one without a value, whether it was there.
    fn option(&self, name: &str, takes_value: bool) -> Option<String> {
        let on_line = self.line.and_then(|line| option_of(line, name, takes_value));
        let of_cache = if CACHE_TYPES.contains(&name) { self.run.kv_type.clone() } else { None };
        on_line.or(of_cache).or_else(|| {
            let printed = self.run.printed.get(&name.trim_start_matches('-').replace('-', "_"))?;
            (takes_value || printed.eq_ignore_ascii_case("true")).then(|| printed.clone())
        })
    }

    /// The value of a variable: on the command line, else of the setting that it sets, as the log shows it.
    fn variable(&self, name: &str) -> Option<String> {
        let on_line = self.line.and_then(|line| value_of(line, &format!(r"(?:^|\s){name}=")));
        on_line.or_else(|| {
            let setting = settings::of_variable(name)?;
            Some(setting.write(*self.run.settings.get(setting.id.as_str())?))
        })
    }
}

impl Changes {
    /// Without what the run had already, or had beyond it in the direction of that name; the second is the fix's command
    /// without it. `None` where nothing is left.
    pub fn unlike(&self, command: &str, had: &Had<'_>, moves: impl Fn(&str) -> Moves) -> Option<(Changes, String)> {
        let mut text = command.to_owned();
        let all = self.all.iter().filter(|change| {
            let (is_so, said) = match change {
                Change::Flag(name, Some(value)) => {
                    let is_so = had.option(name, true).is_some_and(|old| is_there(&old, value, moves(name)));
                    let spellings = [" ", "=", ""].map(|joint| format!(" {name}{joint}{value}"));
                    let said = spellings.into_iter().find(|said| text.contains(said.as_str())).unwrap_or_default();
                    (is_so, said)
                }
                Change::Flag(name, None) => (had.option(name, false).is_some(), format!(" {name}")),
                Change::Env(name, value) => {
                    let is_so = had.variable(name).is_some_and(|old| is_there(&old, value, moves(name)));
                    (is_so, format!("{name}={value}"))
                }
                Change::Setting(name, value) => {
                    let old = had.option(&format!("--{name}"), true).or_else(|| had.variable(name));
                    (old.is_some_and(|old| is_there(&old, value, moves(name))), format!("{name}={value}"))
                }
            };
            if is_so && !said.is_empty() {
                text = text.replacen(&said, "", 1).trim().to_owned();
            }
            !is_so
        });
        let all: Vec<Change> = all.cloned().collect();
        (!all.is_empty()).then(|| (Changes { head: self.head.clone(), all }, text))
    }
}

/// Whether a value is what is proposed already, or beyond it.
fn is_there(old: &str, new: &str, moves: Moves) -> bool {
    // A cache of fewer bits is beyond one of more, whatever direction its setting has.
    if let Some((old, new)) = cache_bits(old).zip(cache_bits(new)) {
        return old <= new;
    }
    match (number(old), number(new), moves) {
        (Some(old), Some(new), Moves::Down) => old <= new,
        (Some(old), Some(new), Moves::Up) => old >= new,
        (Some(old), Some(new), Moves::Either) => old.total_cmp(&new).is_eq(),
        _ => old == new,
    }
}

/// The bits of a KV cache's type: `q8_0`, `iq4_nl`, `fp8_e5m2`, `f16`.
fn cache_bits(name: &str) -> Option<u32> {
    let kind = ["bf", "fp", "iq", "f", "q"].into_iter().find_map(|kind| name.strip_prefix(kind))?;
    let digits = kind.split(['_', 'e']).next()?;
    digits.parse().ok().filter(|bits| (2..=32).contains(bits))
}

/// Options for the type of the KV cache, which a log prints under a name of its own.
const CACHE_TYPES: &[&str] = &["-ctk", "-ctv", "--kv-cache-dtype"];

/// A number, or a size with its unit in bytes.
fn number(text: &str) -> Option<f64> {
    #[allow(clippy::cast_precision_loss, reason = "only compared")]
    text.parse().ok().or_else(|| Some(Bytes::parse(text, UnitBase::Binary)?.0 as f64))
}

/// An option's value on a command line, in any of its spellings.
pub(super) fn option_of(line: &str, name: &str, takes_value: bool) -> Option<String> {
    let own = [name];
    let same = kin(line).and_then(|kin| kin.spellings(name));
    let mut spellings = same.unwrap_or(&own).iter().map(|one| regex::escape(one));
    if GLUED.contains(&name) {
        return value_of(line, &format!(r"(?:^|\s){}", regex::escape(name)));
    }
    match takes_value {
        true => spellings.find_map(|plain| value_of(line, &format!(r"(?:^|\s){plain}(?:=|\s+)"))),
        false => spellings.find_map(|plain| found(&format!(r"(?:^|\s){plain}(?:\s|$)"), line)).map(|_| String::new()),
    }
}

/// The value that follows, without its quotes.
fn value_of(line: &str, before: &str) -> Option<String> {
    let [_, said, _] = found(&format!("{before}{VALUE}"), line)?;
    let [_, _, value] = found(before, said)?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(fix: &str, line: &str, printed: &[(&str, &str)], moves: Moves) -> Option<String> {
        let printed = printed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let run = Run { printed, ..Run::default() };
        let had = Had { line: Some(line).filter(|line| !line.is_empty()), run: &run };
        Changes::of(fix).unwrap().unlike(fix, &had, |_| moves).map(|(_, text)| text)
    }

    #[test]
    fn what_the_run_has_already_is_no_step() {
        let share = "vllm serve MODEL --gpu-memory-utilization 0.95";
        let printed = [("gpu_memory_utilization", "0.95")];
        assert_eq!(left(share, "", &printed, Moves::Up), None, "by its log");
        assert_eq!(left(share, "vllm serve m --gpu-memory-utilization=.95", &[], Moves::Either), None, "by its line");
        assert_eq!(left(share, "vllm serve m --gpu-memory-utilization 0.97", &[], Moves::Up), None, "it has more");
        assert!(left(share, "vllm serve m --gpu-memory-utilization 0.5", &[], Moves::Up).is_some());
        assert!(left(share, "", &[], Moves::Up).is_some(), "not known");
        let eager = "vllm serve MODEL --enforce-eager";
        assert_eq!(left(eager, "", &[("enforce_eager", "True")], Moves::Down), None);
        assert!(left(eager, "", &[("enforce_eager", "False")], Moves::Down).is_some());
        assert_eq!(
            left("llama-server -m MODEL.gguf -c 4096", "llama-server -m a --ctx-size 4096", &[], Moves::Down),
            None
        );
    }

    #[test]
    fn a_size_with_its_unit_that_is_beyond_the_proposed_one_is_no_step() {
        let swap = "docker run --memory=96g --memory-swap=96g IMAGE";
        let line = "docker run -m 64g --memory-swap=128g me/x";
        assert_eq!(left(swap, line, &[], Moves::Up).as_deref(), Some("docker run --memory=96g IMAGE"));
        assert_eq!(left("java -Xmx16g", "java -Xmx32g -jar a.jar", &[], Moves::Up), None);
        assert_eq!(left("OMP_NUM_THREADS=4", "OMP_NUM_THREADS=2 python a.py", &[], Moves::Down), None);
    }

    #[test]
    fn a_cache_of_fewer_bits_is_not_raised_to_more() {
        let fix = "llama-server -m MODEL.gguf -fa on -ctk q8_0 -ctv q8_0";
        let had = "llama-server -m a.gguf -fa on -ctk q4_0 -ctv q4_0";
        assert_eq!(left(fix, had, &[], Moves::Either), None);
        let half = "llama-server -m a.gguf -fa on -ctk f16 -ctv q4_0";
        assert_eq!(left(fix, half, &[], Moves::Either).as_deref(), Some("llama-server -m MODEL.gguf -ctk q8_0"));
    }

    #[test]
    fn of_two_changes_the_one_that_changes_something_is_left() {
        let fix = "vllm serve MODEL --max-num-seqs 64 --max-num-batched-tokens 2048";
        let printed = [("max_num_batched_tokens", "2048")];
        let rest = "vllm serve MODEL --max-num-seqs 64".to_owned();
        assert_eq!(left(fix, "", &printed, Moves::Down), Some(rest));
        let fewer = "vllm serve m --max-num-seqs 16 --max-num-batched-tokens 1024";
        assert_eq!(left(fix, fewer, &[], Moves::Down), None, "it would be more");
    }
}
