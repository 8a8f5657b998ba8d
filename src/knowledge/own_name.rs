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
    logger.or_else(|| in_the_traceback(log, hit)).or_else(|| started_above(log, hit)).or_else(|| closed_below(log, hit))
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
    ["own_checkout", "own_game", "own_command"]
        .into_iter()
        .find_map(|sign| lines.iter().find_map(|line| named(sign, line)))
}

/// Steam names the game when it ends.
fn closed_below(log: &PastedLog, hit: &Hit) -> Option<String> {
    let lines = (hit.line..=hit.line + AROUND.1).filter_map(|number| log.brief(number));
    lines.into_iter().find_map(|line| named("own_closed", line))
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
    // The last part is the file's name.
    let folders: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let folders = folders.split_last()?.1;
    folders.windows(3).find_map(|three| match three {
        [above, outer, inner] if is_same_name(outer, inner) && !shows("home_of_many", above) => Some(*inner),
        _ => None,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_in_a_checkout_of_its_name_is_the_program() {
        for (line, name) in [
            ("  File \"/home/ada/CosyVoice/cosyvoice/cli/model.py\", line 88, in tts", Some("cosyvoice")),
            ("c:\\users\\ada\\code\\py-sort\\py_sort\\main.py in run(path)", Some("py_sort")),
            ("  File \"/opt/venv/lib/python3.12/site-packages/sorter/sorter/main.py\", line 3, in run", None),
            ("  File \"/home/robert/robert/run.py\", line 3, in run", None),
            ("  File \"/srv/app/train.py\", line 3, in <module>", None),
        ] {
            assert_eq!(twice_in_path(line), name, "{line}");
        }
    }
}
