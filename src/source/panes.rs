//! Owns the panes of terminals: tmux, GNU screen and kitty. The pane of this program is left out.
//! Formats tried with tmux 3.3a and screen 4.9.0 (2026-11-23), kitty 0.26.5 (2026-11-28). Later versions of kitty take
//! `kitty @`, too (kitty/launcher/main.c hands it on to kitten).

use serde_json::Value;

use super::ask::{Argv, Ask, Way, argv};
use super::{Kind, Source, Surroundings};
use crate::units::WallTime;

const PANE: &str = "#{pane_id}|#{pane_pid}|#{window_id}|#{pane_dead}|#{window_activity}|#{session_name}:#{window_index}.#{pane_index}|#{pane_current_command}";

/// Programs that wait for the next command: what a pane showed before one of them has ended.
const SHELLS: [&str; 14] =
    ["bash", "zsh", "sh", "fish", "dash", "ksh", "mksh", "tcsh", "csh", "nu", "xonsh", "pwsh", "elvish", "ash"];

/// What has to be set for kitty to answer (sw.kovidgoyal.net/kitty/conf, 2026-11-28).
const NO_SOCKET: &str =
    "it answers with `allow_remote_control socket-only` and `listen_on unix:/tmp/kitty` in kitty.conf";

pub(super) fn asks(at: &Surroundings, kinds: &[Kind]) -> Vec<Ask> {
    let mut list = tmux(at);
    list.extend(["list-panes", "-a", "-F", PANE].map(str::to_owned));
    let mut asks = vec![Ask::Command { kind: Kind::Tmux, argv: list, parse: tmux_panes }];
    if let Some(session) = at.variable("STY") {
        let argv = argv(&["screen", "-S", session, "-Q", "windows"]);
        asks.push(Ask::Command { kind: Kind::Screen, argv, parse: screen_windows });
    }
    asks.extend(ask_kitty(at, kinds));
    asks
}

/// kitty is asked only through a socket: the other way is the terminal that this program draws on.
fn ask_kitty(at: &Surroundings, kinds: &[Kind]) -> Option<Ask> {
    let socket = at.variable("KITTY_LISTEN_ON");
    let why = match socket {
        // Over ssh the socket leads back to the terminal of another machine.
        Some(socket)
            if (at.variable("SSH_CONNECTION").is_some() || !socket.starts_with("unix:"))
                && !kinds.contains(&Kind::Kitty) =>
        {
            "it runs on another machine: `oomdoctor sources kitty` asks it"
        }
        Some(socket) => {
            return Some(Ask::Command { kind: Kind::Kitty, argv: kitty(socket, &["ls"]), parse: kitty_windows });
        }
        None if at.variable("KITTY_WINDOW_ID").is_some() || kinds.contains(&Kind::Kitty) => NO_SOCKET,
        None => return None,
    };
    Some(Ask::Not { kind: Kind::Kitty, why: why.to_owned() })
}

fn kitty(socket: &str, arguments: &[&str]) -> Argv {
    argv(&[&["kitty", "@", "--to", socket], arguments].concat())
}

pub(super) fn way_to_kitty(at: &Surroundings, window: &str) -> Result<Vec<Way>, String> {
    if !window.chars().all(|c| c.is_ascii_digit()) {
        return Err("give the window's number: kitty:3".to_owned());
    }
    let socket = at.variable("KITTY_LISTEN_ON").ok_or(NO_SOCKET)?;
    let argv = kitty(socket, &["get-text", "--match", &format!("id:{window}"), "--extent", "all"]);
    Ok(vec![Way::Command { argv, merges: false }])
}

/// tmux with the server in which this program runs, else the default one.
pub(super) fn tmux(at: &Surroundings) -> Argv {
    // Without -u it prints "_" for letters beyond ASCII where no locale is set.
    let mut argv = argv(&["tmux", "-u"]);
    // "/tmp/tmux-1000/default,1234,0": the socket, the server's PID and the session.
    if let Some(socket) = at.variable("TMUX").and_then(|value| value.split(',').next()) {
        argv.extend(["-S".to_owned(), socket.to_owned()]);
    }
    argv
}

/// Whether the shell of a pane is above this program.
fn is_above(pid: &str, at: &Surroundings) -> bool {
    pid.parse().is_ok_and(|pid| at.lineage.contains(&pid))
}

fn tmux_panes(at: &Surroundings, printed: &str) -> Result<Vec<Source>, String> {
    let rows: Vec<Vec<&str>> = printed.lines().map(|line| line.splitn(7, '|').collect()).collect();
    let own = at.variable("TMUX").and(at.variable("TMUX_PANE"));
    // sudo takes the variables away, but not the shell above it.
    let own_window = rows
        .iter()
        .find(|row| matches!(row.as_slice(), [pane, pid, ..] if Some(*pane) == own || is_above(pid, at)))
        .and_then(|row| row.get(2));
    let mut panes = Vec::new();
    for row in &rows {
        let [pane, pid, window, dead, activity, place, runs] = row.as_slice() else { continue };
        // Another one in which this program runs shows its screen, not a log.
        if Some(*pane) == own || is_above(pid, at) || *runs == "oomdoctor" {
            continue;
        }
        let is_over = *dead == "1" || is_shell(runs);
        let seen = activity.parse().ok().and_then(|at| jiff::Timestamp::from_second(at).ok()).map(WallTime);
        let title = if is_over { format!("tmux pane {place}") } else { format!("tmux pane {place} (running {runs})") };
        // The activity is that of the window, which this program itself keeps drawing on in its own.
        let is_near = own_window == Some(window);
        panes.push(Source {
            ended_at: if is_over && !is_near { seen } else { None },
            is_near,
            pid: pid.parse().ok(),
            ..Source::new(Kind::Tmux, *pane, title)
        });
    }
    Ok(panes)
}

/// Whether this is the name of a shell. A login shell has a dash before it.
fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name.rsplit('/').next().unwrap_or(name).trim_start_matches('-'))
}

/// The windows of all tabs. A window of the same tab is near.
fn kitty_windows(at: &Surroundings, printed: &str) -> Result<Vec<Source>, String> {
    let list: Value = serde_json::from_str(printed).map_err(|error| format!("kitty did not print JSON: {error}"))?;
    let mut sources = Vec::new();
    for tab in list.as_array().into_iter().flatten().flat_map(|window| rows(window, "tabs")) {
        let is_near = rows(tab, "windows").iter().any(|window| is_own_window(at, window));
        for window in rows(tab, "windows").iter().filter(|window| !is_own_window(at, window)) {
            let Some(id) = window.get("id").and_then(Value::as_u64) else { continue };
            let runs = rows(window, "foreground_processes").iter().find_map(program_of);
            if runs.as_deref() == Some("oomdoctor") {
                continue;
            }
            let running = match runs {
                Some(program) if !is_shell(&program) => format!(" (running {program})"),
                _ => String::new(),
            };
            let title = window.get("title").and_then(Value::as_str).unwrap_or_default();
            let source = Source::new(Kind::Kitty, id.to_string(), format!("kitty window {id}, {title}{running}"));
            sources.push(Source { is_near, pid: pid_of(window), ..source });
        }
    }
    Ok(sources)
}

fn rows<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn pid_of(window: &Value) -> Option<u32> {
    window.get("pid")?.as_u64()?.try_into().ok()
}

/// Whether this program runs in this window of kitty.
fn is_own_window(at: &Surroundings, window: &Value) -> bool {
    let own: Option<u64> = at.variable("KITTY_WINDOW_ID").and_then(|id| id.parse().ok());
    let has_own_id = own.is_some() && window.get("id").and_then(Value::as_u64) == own;
    has_own_id || pid_of(window).is_some_and(|pid| at.lineage.contains(&pid))
}

/// The name of a process's program.
fn program_of(process: &Value) -> Option<String> {
    let path = process.get("cmdline")?.as_array()?.first()?.as_str()?;
    Some(path.rsplit('/').next().unwrap_or(path).to_owned())
}

/// "0 bash  1- python  2*$ vim": number, flags, title.
fn screen_windows(at: &Surroundings, printed: &str) -> Result<Vec<Source>, String> {
    let session = at.variable("STY").unwrap_or_default();
    let own = at.variable("WINDOW");
    let windows = printed.split("  ").map(str::trim).filter(|window| !window.is_empty());
    let mut sources = Vec::new();
    for window in windows {
        let (number, title) = window.split_once(' ').unwrap_or((window, ""));
        let number = number.trim_end_matches(|flag: char| !flag.is_ascii_digit());
        if number.is_empty() || Some(number) == own {
            continue;
        }
        let title = format!("screen window {number} ({title})");
        sources.push(Source::new(Kind::Screen, format!("{session}/{number}"), title));
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pane_of_this_program_is_left_out_and_its_neighbor_is_near() {
        let variables = vec![("TMUX", "/tmp/tmux-1000/default,99,0".to_owned()), ("TMUX_PANE", "%1".to_owned())];
        let at = Surroundings { variables, ..Surroundings::default() };
        assert_eq!(tmux(&at), ["tmux", "-u", "-S", "/tmp/tmux-1000/default"]);
        let printed = "%0|100|@0|0|1795176000|main:0.0|bash\n%1|101|@0|0|1795176001|main:0.1|oomdoctor\n\
                       %2|102|@1|0|1795176002|a|b:1.0|python\n%3|103|@1|1|1795176003|a:1.1|-zsh\nnot a pane\n";
        let panes = tmux_panes(&at, printed).unwrap();
        let [shell, .., dead] = panes.as_slice() else { panic!("{panes:?}") };
        assert_eq!((shell.id.to_string().as_str(), shell.is_near, shell.pid), ("tmux:%0", true, Some(100)));
        assert!(shell.ended_at.is_none() && dead.ended_at.is_some() && !dead.is_near);
        assert!(panes.iter().all(|pane| pane.id.name != "%1"));
    }

    #[test]
    fn below_sudo_the_pane_of_this_program_is_the_one_above_it() {
        let at = Surroundings { lineage: vec![7, 101, 1], ..Surroundings::default() };
        let printed = "%0|100|@0|0|1795176000|main:0.0|bash\n%1|101|@0|0|1795176001|main:0.1|sudo\n";
        let panes = tmux_panes(&at, printed).unwrap();
        let [other] = panes.as_slice() else { panic!("{panes:?}") };
        assert!(other.id.name == "%0" && other.is_near);
    }

    #[test]
    fn the_windows_of_kitty_are_listed_but_for_the_own_one() {
        let variables = vec![("KITTY_WINDOW_ID", "2".to_owned()), ("KITTY_LISTEN_ON", "unix:/tmp/kitty-1".to_owned())];
        let at = Surroundings { variables, ..Surroundings::default() };
        let printed = r#"[{"tabs": [
            {"windows": [
                {"id": 1, "pid": 101, "title": "~", "foreground_processes": [{"cmdline": ["-zsh"], "pid": 101}]},
                {"id": 2, "pid": 102, "title": "~", "foreground_processes": [{"cmdline": ["/bin/zsh"], "pid": 102}]}]},
            {"windows": [
                {"id": 3, "pid": 103, "title": "~", "foreground_processes": [{"cmdline": ["/bin/python3", "x.py"]}]}]}]}]"#;
        let windows = kitty_windows(&at, printed).unwrap();
        let [near, far] = windows.as_slice() else { panic!("{windows:?}") };
        assert_eq!((near.id.to_string().as_str(), near.is_near, near.pid), ("kitty:1", true, Some(101)));
        assert!(!near.title.contains("running") && far.title.contains("python3") && !far.is_near);
        assert!(kitty_windows(&at, "[{").is_err(), "cut is not empty");
        assert!(way_to_kitty(&at, "1 or all").is_err() && way_to_kitty(&at, "1").is_ok());
    }

    #[test]
    fn kitty_is_asked_only_through_a_socket_of_this_machine() {
        let ask = |variables: &[(&'static str, &str)], kinds: &[Kind]| {
            let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            ask_kitty(&Surroundings { variables, ..Surroundings::default() }, kinds)
        };
        let socket = ("KITTY_LISTEN_ON", "unix:/tmp/kitty-1");
        assert!(ask(&[], &[]).is_none());
        assert!(matches!(ask(&[socket], &[]), Some(Ask::Command { .. })));
        assert!(matches!(ask(&[("KITTY_WINDOW_ID", "1")], &[]), Some(Ask::Not { .. })));
        assert!(matches!(ask(&[("KITTY_LISTEN_ON", "tcp:10.0.0.7:5")], &[]), Some(Ask::Not { .. })));
        let over_ssh = [socket, ("SSH_CONNECTION", "10.0.0.7 5 10.0.0.8 22")];
        assert!(matches!(ask(&over_ssh, &[]), Some(Ask::Not { .. })));
        assert!(matches!(ask(&over_ssh, &[Kind::Kitty]), Some(Ask::Command { .. })));
    }

    #[test]
    fn a_pane_in_which_something_runs_has_not_ended() {
        let panes = tmux_panes(&Surroundings::default(), "%2|102|@1|0|1795176002|a:1.0|python\n").unwrap();
        let [pane] = panes.as_slice() else { panic!("{panes:?}") };
        assert_eq!(pane.ended_at, None);
        assert!(pane.title.contains("python"));
    }

    #[test]
    fn the_windows_of_screen_are_read_with_their_flags() {
        let variables = vec![("STY", "7.box".to_owned()), ("WINDOW", "0".to_owned())];
        let at = Surroundings { variables, ..Surroundings::default() };
        let windows = screen_windows(&at, "0*$ bash  1-$ bash  12$ my training").unwrap();
        let ids: Vec<String> = windows.iter().map(|window| window.id.to_string()).collect();
        assert_eq!(ids, ["screen:7.box/1", "screen:7.box/12"]);
        assert!(windows[1].title.contains("my training"));
    }
}
