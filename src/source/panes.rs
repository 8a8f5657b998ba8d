//! Owns the panes of terminal multiplexers: tmux and GNU screen. The pane of this program is left out.
//! Formats tried with tmux 3.3a and screen 4.9.0 (2026-11-23).

use super::ask::{Argv, Ask, argv};
use super::{Kind, Source, Surroundings};
use crate::units::WallTime;

const PANE: &str = "#{pane_id}|#{pane_pid}|#{window_id}|#{pane_dead}|#{window_activity}|#{session_name}:#{window_index}.#{pane_index}|#{pane_current_command}";

/// Programs that wait for the next command: what a pane showed before one of them has ended.
const SHELLS: [&str; 14] =
    ["bash", "zsh", "sh", "fish", "dash", "ksh", "mksh", "tcsh", "csh", "nu", "xonsh", "pwsh", "elvish", "ash"];

pub(super) fn asks(at: &Surroundings) -> Vec<Ask> {
    let mut list = tmux(at);
    list.extend(["list-panes", "-a", "-F", PANE].map(str::to_owned));
    let mut asks = vec![Ask::Command { kind: Kind::Tmux, argv: list, parse: tmux_panes }];
    if let Some(session) = at.variable("STY") {
        let argv = argv(&["screen", "-S", session, "-Q", "windows"]);
        asks.push(Ask::Command { kind: Kind::Screen, argv, parse: screen_windows });
    }
    asks
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

fn tmux_panes(at: &Surroundings, printed: &str) -> Result<Vec<Source>, String> {
    let rows: Vec<Vec<&str>> = printed.lines().map(|line| line.splitn(7, '|').collect()).collect();
    let own = at.variable("TMUX").and(at.variable("TMUX_PANE"));
    let own_window = rows.iter().find(|row| own.is_some() && row.first().copied() == own).and_then(|row| row.get(2));
    let mut panes = Vec::new();
    for row in &rows {
        let [pane, pid, window, dead, activity, place, runs] = row.as_slice() else { continue };
        // Another one in which this program runs shows its screen, not a log.
        if Some(*pane) == own || *runs == "oomdoctor" {
            continue;
        }
        // A login shell has a dash before its name.
        let is_over = *dead == "1" || SHELLS.contains(&runs.trim_start_matches('-'));
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
