//! Owns the name of the program that ran, as the log itself has it, where the table of programs knows only a library, a
//! scheduler or a service around it: from the decisive line's logger, the traceback's script and packages, the folder of a
//! checkout, a command behind a prompt.

use super::matching::Hit;
use super::pattern::{captured, shows};
use super::program::Program;
use crate::effort;
use crate::log::PastedLog;

/// How many lines above the decisive one are read, and how many below.
const AROUND: (usize, usize) = (150, 40);

/// The name, where one shows.
pub(super) fn of(log: &PastedLog, hit: &Hit) -> Option<String> {
    let logger = log.slice_around(hit.line, hit.column).and_then(|(text, _)| named("own_logger", text));
    logger.or_else(|| {
        let first = hit.line.saturating_sub(AROUND.0).max(1);
        let lines: Vec<&str> = (first..=hit.line + AROUND.1).filter_map(|number| log.brief(number)).collect();
        // A command or a checkout stands above the failure: the nearest one.
        let above = lines.iter().take(hit.line + 1 - first).rev();
        let traced = ["own_script", "own_package"].into_iter();
        let started = ["own_checkout", "own_command"].into_iter();
        let traced = traced.flat_map(|sign| lines.iter().map(move |line| (sign, line)));
        let started = started.flat_map(|sign| above.clone().map(move |line| (sign, line)));
        traced.chain(started).find_map(|(sign, line)| named(sign, line))
    })
}

/// What the pattern of this name captures, unless many programs have that.
fn named(sign: &str, text: &str) -> Option<String> {
    effort::count(text.len());
    let name = captured(sign, text, "program")?.to_ascii_lowercase();
    let is_of_many = Program::known(&name).is_some_and(Program::runs_jobs) || shows("name_of_many", &name);
    (!is_of_many).then(|| name.replace('_', "-"))
}
