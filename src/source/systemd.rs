//! Owns units of systemd that failed or serve models, and the kernel's own log.
//! Options: man systemctl and man journalctl of systemd 252 (2026-11-23).

use super::ask::{Argv, Ask, Way, argv};
use super::{Kind, Source, Surroundings};
use crate::units::WallTime;

/// Services whose failures do not end them: their log may have one while they run.
const SERVERS: [&str; 8] = [
    "ollama.service",
    "comfyui.service",
    "llama-server.service",
    "llama-swap.service",
    "vllm.service",
    "sglang.service",
    "localai.service",
    "jupyter*.service",
];

/// What is read of a unit's state.
const STATE: [&str; 6] = ["Id", "Result", "ExecMainCode", "ExecMainStatus", "MemoryPeak", "MemoryMax"];

pub(super) fn asks() -> Vec<Ask> {
    let list = |own: bool| {
        let mut argv = systemctl(own);
        argv.extend(
            [
                "show",
                "--all",
                "--no-pager",
                "--type=service",
                "-p",
                "Id,ActiveState,InactiveEnterTimestamp",
                "*.service",
            ]
            .map(str::to_owned),
        );
        argv
    };
    let kernel = argv(&["journalctl", "-k", "-b", "-n", "1", "-o", "short-iso", "--no-pager"]);
    vec![
        Ask::Command { kind: Kind::Unit, argv: list(false), parse: units },
        Ask::Command { kind: Kind::UserUnit, argv: list(true), parse: units_of_the_user },
        Ask::Command { kind: Kind::Kernel, argv: kernel, parse: the_kernel },
    ]
}

fn systemctl(own: bool) -> Argv {
    if own { argv(&["systemctl", "--user"]) } else { argv(&["systemctl"]) }
}

fn units(_: &Surroundings, printed: &str) -> Result<Vec<Source>, String> {
    Ok(failed_or_serving(Kind::Unit, printed))
}

fn units_of_the_user(_: &Surroundings, printed: &str) -> Result<Vec<Source>, String> {
    Ok(failed_or_serving(Kind::UserUnit, printed))
}

/// One block a unit, a line a property, in an order that `systemctl` chooses.
fn failed_or_serving(kind: Kind, printed: &str) -> Vec<Source> {
    let mut units = Vec::new();
    for block in printed.split("\n\n") {
        let (Some(unit), Some(state)) = (property(block, "Id"), property(block, "ActiveState")) else { continue };
        let has_failed = state == "failed";
        if !has_failed && !is_server(unit) {
            continue;
        }
        let whose = if kind == Kind::Unit { "unit" } else { "your unit" };
        let title = if has_failed { format!("{whose} {unit}, failed") } else { format!("{whose} {unit}") };
        let ended_at = if has_failed || state == "inactive" {
            property(block, "InactiveEnterTimestamp").and_then(moment)
        } else {
            None
        };
        units.push(Source { ended_at, ..Source::new(kind, unit, title) });
    }
    units
}

fn property<'b>(block: &'b str, name: &str) -> Option<&'b str> {
    block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// "Mon 2026-11-23 22:16:48 UTC"; empty or "n/a" where the unit never ended. Other time zones print letters that name no
/// one zone, so lists are asked for in UTC.
fn moment(printed: &str) -> Option<WallTime> {
    let (_, date_and_time) = printed.strip_suffix(" UTC")?.split_once(' ')?;
    let moment: jiff::civil::DateTime = date_and_time.parse().ok()?;
    Some(WallTime(moment.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp()))
}

fn is_server(unit: &str) -> bool {
    SERVERS.iter().any(|server| match server.split_once('*') {
        Some((begin, end)) => unit.starts_with(begin) && unit.ends_with(end),
        None => unit == *server,
    })
}

/// One line of it shows that it may be read. Without the right to, journalctl finds "no journal files" and exits with 0.
fn the_kernel(_: &Surroundings, printed: &str) -> Result<Vec<Source>, String> {
    let has_a_line =
        printed.lines().any(|line| !line.is_empty() && !line.starts_with("-- ") && !line.starts_with("No journal"));
    let kernel = has_a_line.then(|| Source::new(Kind::Kernel, "", "the kernel's log since the start"));
    Ok(kernel.into_iter().collect())
}

pub(super) fn way_to_unit(kind: Kind, unit: &str) -> Vec<Way> {
    let own = kind == Kind::UserUnit;
    let mut show = systemctl(own);
    show.extend(["show", "-p", &STATE.join(","), "--", unit].map(str::to_owned));
    // `--user -u` would leave out the system's journal, which has the user's lines where none is kept for each user.
    let of = if own { "--user-unit" } else { "--unit" };
    let mut journal = argv(&["journalctl", of, unit]);
    journal.extend(["-n", "20000", "-o", "short-iso", "--no-pager", "-q"].map(str::to_owned));
    vec![Way::Optional(show), Way::Command { argv: journal, merges: false }]
}

fn is_state(line: &str) -> bool {
    line.split_once('=').is_some_and(|(name, _)| STATE.contains(&name))
}

/// Whether a unit's log says anything: its state without a line of the journal does so only if memory is why it ended.
pub fn tells_of_a_unit(log: &str) -> bool {
    log.lines().any(|line| !line.trim().is_empty() && !is_state(line) || line == "Result=oom-kill")
}

pub(super) fn way_to_kernel() -> Vec<Way> {
    let journal = ["journalctl", "-k", "-b", "-n", "20000", "-o", "short-iso", "--no-pager", "-q"];
    vec![Way::Command { argv: argv(&journal), merges: false }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_units_and_servers_are_listed() {
        let printed = "Id=ollama.service\nActiveState=active\nInactiveEnterTimestamp=\n\n\
                       Id=train.service\nActiveState=failed\nInactiveEnterTimestamp=Mon 2026-11-23 22:16:48 UTC\n\n\
                       Id=cron.service\nActiveState=active\nInactiveEnterTimestamp=\n\n\
                       InactiveEnterTimestamp=Mon 2026-11-23 20:00:00 UTC\nId=jupyter-ada.service\nActiveState=active\n\n\
                       Id=vllm.service\nActiveState=failed\nInactiveEnterTimestamp=n/a\n";
        let found = failed_or_serving(Kind::UserUnit, printed);
        let found: Vec<(String, Option<String>)> =
            found.iter().map(|unit| (unit.id.name.clone(), unit.ended_at.map(|at| at.0.to_string()))).collect();
        let train = Some("2026-11-23T22:16:48Z".to_owned());
        let expected = [("ollama", None), ("train", train), ("jupyter-ada", None), ("vllm", None)];
        assert_eq!(found, expected.map(|(name, at)| (format!("{name}.service"), at)));
    }

    #[test]
    fn a_units_state_alone_is_no_log_unless_it_names_memory() {
        let state = "Id=train.service\nResult=exit-code\nExecMainStatus=1\nMemoryPeak=[not set]\n";
        assert!(!tells_of_a_unit(state) && !tells_of_a_unit(""));
        assert!(tells_of_a_unit(&state.replace("exit-code", "oom-kill")));
        assert!(tells_of_a_unit(&format!("{state}2026-11-28T12:00:00+0000 box train[7]: x=1\n")));
    }

    #[test]
    fn a_journal_that_may_not_be_read_is_no_empty_journal() {
        assert!(
            the_kernel(&Surroundings::default(), "No journal files were found.\n-- No entries --\n")
                .unwrap()
                .is_empty()
        );
        assert!(the_kernel(&Surroundings::default(), "").unwrap().is_empty());
        assert_eq!(the_kernel(&Surroundings::default(), "2026-11-23T12:46:11+00:00 box kernel: x\n").unwrap().len(), 1);
    }
}
