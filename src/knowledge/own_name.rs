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
    logger.or_else(|| in_the_traceback(log, hit)).or_else(|| started_above(log, hit))
}

fn in_the_traceback(log: &PastedLog, hit: &Hit) -> Option<String> {
    let lines: Vec<&str> = (first_line(hit)..=hit.line + AROUND.1).filter_map(|number| log.brief(number)).collect();
    if let Some(name) = lines.iter().find_map(|line| unless_of_many(twice_in_path(line)?)) {
        return Some(name);
    }
    ["own_script", "own_package"].into_iter().find_map(|sign| lines.iter().find_map(|line| named(sign, line)))
}

/// A checkout or a command stands above the failure: the nearest one.
fn started_above(log: &PastedLog, hit: &Hit) -> Option<String> {
    let lines: Vec<&str> = (first_line(hit)..=hit.line).rev().filter_map(|number| log.brief(number)).collect();
    ["own_checkout", "own_command"].into_iter().find_map(|sign| lines.iter().find_map(|line| named(sign, line)))
}

fn first_line(hit: &Hit) -> usize {
    hit.line.saturating_sub(AROUND.0).max(1)
}

/// A package in a checkout of the same name: `/home/ada/CosyVoice/cosyvoice/cli/model.py`. What is installed is a library.
fn twice_in_path(line: &str) -> Option<&str> {
    effort::count(line.len());
    let end = line.find(".py\"").or_else(|| line.find(".py in "))?;
    let path = line.get(..end)?;
    let path = path.get(path.rfind('"').map_or(0, |at| at + 1)..)?;
    if path.contains("-packages") {
        return None;
    }
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let pairs = parts.iter().zip(parts.iter().skip(1)).take(parts.len().saturating_sub(2));
    let mut pairs = pairs.map(|(folder, inner)| (*folder, *inner));
    pairs.find(|(folder, inner)| inner.len() > 3 && is_same_name(folder, inner)).map(|(_, inner)| inner)
}

fn is_same_name(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.replace('-', "_").eq_ignore_ascii_case(&other.replace('-', "_"))
}

/// What the pattern of this name captures, unless many programs have that.
fn named(sign: &str, text: &str) -> Option<String> {
    effort::count(text.len());
    unless_of_many(captured(sign, text, "program")?.as_ref())
}

fn unless_of_many(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let is_of_many = Program::known(&name).is_some_and(Program::runs_jobs) || shows("name_of_many", &name);
    (!is_of_many).then(|| name.replace('_', "-"))
}
