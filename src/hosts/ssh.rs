//! Owns how a machine is reached through the `ssh` that people have: its arguments, what runs on the other side (`script`),
//! what is heard from there (`answer`), and what an end without a reading means. No option weakens what ssh checks.

pub mod answer;
pub mod config;
pub mod package;
pub mod script;

use super::{HostName, Unavailable};
use crate::text::short_quote;

/// How a machine is read: no terminal, no question that nobody would answer, and a connection that ends when the other side
/// is silent.
const OPTIONS: [&str; 9] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=5",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=2",
];
/// The exit code of ssh itself; every other one is of the command that it ran.
const OWN_ERROR: i32 = 255;
/// What a shell answers for a command that it does not find.
const NOT_FOUND: i32 = 127;

/// What follows `ssh` so that `remote` runs on this machine.
pub fn arguments(host: &HostName, remote: &str) -> Vec<String> {
    let mut arguments: Vec<String> = OPTIONS.map(str::to_owned).into();
    arguments.extend([host.to_string(), "--".to_owned(), remote.to_owned()]);
    arguments
}

/// Why there is no reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    pub unavailable: Unavailable,
    /// Trying again soon changes nothing and may get the person banned: a key, a password or a program is missing.
    pub needs_a_person: bool,
    /// The machine's name leads nowhere.
    pub is_unknown_name: bool,
}

impl Trouble {
    /// One that may be over a moment later.
    fn passing(why: impl Into<String>, what_to_do: impl Into<String>) -> Trouble {
        let unavailable = Unavailable { why: why.into(), what_to_do: Some(what_to_do.into()) };
        Trouble { unavailable, ..Trouble::default() }
    }

    fn lasting(why: impl Into<String>, what_to_do: impl Into<String>) -> Trouble {
        Trouble { needs_a_person: true, ..Trouble::passing(why, what_to_do) }
    }

    /// One for which no remedy is known.
    pub fn unclear(why: impl Into<String>) -> Trouble {
        Trouble { unavailable: Unavailable::new(why), ..Trouble::default() }
    }

    /// The same with the name that was probably meant.
    #[must_use]
    pub fn meant(mut self, name: &HostName) -> Trouble {
        self.unavailable.what_to_do = Some(format!("did you mean `{name}` of ~/.ssh/config?"));
        self
    }

    /// Nothing came in time.
    pub fn silent(host: &HostName) -> Trouble {
        Trouble::passing("it did not answer in time", try_by_hand(host))
    }

    /// This machine has no `ssh`.
    pub fn no_ssh() -> Trouble {
        Trouble::lasting("ssh is not installed on this machine", "install the OpenSSH client")
    }

    pub fn too_long() -> Trouble {
        Trouble::unclear("its answer is too long to be a reading")
    }
}

/// Why ssh, or what it ran, ended without a reading: `code` is its exit code, `said` its standard error, `heard` what came
/// instead of a reading.
pub fn why(host: &HostName, code: Option<i32>, said: &str, heard: Option<&str>) -> Trouble {
    match code {
        Some(OWN_ERROR) => of_ssh(host, said),
        Some(NOT_FOUND) => Trouble::lasting(
            "neither oomdoctor nor nvidia-smi is installed there",
            format!("ssh {host} 'pip install --user oomdoctor'"),
        ),
        Some(0) => match heard {
            Some(heard) => Trouble::unclear(format!("its answer could not be understood: {}", short_quote(heard))),
            None => Trouble::unclear("it gave no reading"),
        },
        code => {
            let what = last_words(said).or(heard).map(|line| format!(": {}", short_quote(line))).unwrap_or_default();
            let end = code.map_or("ssh was killed".to_owned(), |code| format!("it ended with exit code {code}"));
            Trouble::unclear(format!("{end}{what}"))
        }
    }
}

/// Why ssh itself ended. The trouble of a jump host is printed before what follows from it, and a host key or a login that was
/// refused closes the connection, too: the order of these questions is the order of causes.
fn of_ssh(host: &HostName, said: &str) -> Trouble {
    host_key(host, said)
        .or_else(|| login(host, said))
        .or_else(|| way_there(host, said))
        .or_else(|| broken_connection(host, said))
        .unwrap_or_else(|| {
            let why = last_words(said).map_or("ssh ended without a reason".to_owned(), short_quote);
            Trouble::passing(why, try_by_hand(host))
        })
}

fn try_by_hand(host: &HostName) -> String {
    format!("try `ssh {host}` by hand")
}

/// The first line with these words, harmless to print.
fn line_with(said: &str, words: &str) -> Option<String> {
    said.lines().find(|line| line.contains(words)).map(short_quote)
}

fn host_key(host: &HostName, said: &str) -> Option<Trouble> {
    if said.contains("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        let what = "ask its administrator whether that is meant";
        let what = format!("{what}; `ssh {host}` says which line of known_hosts is old");
        return Some(Trouble::lasting("its host key has changed", what));
    }
    if said.contains("Host key verification failed") {
        return Some(Trouble::lasting("its host key is not known here", format!("connect once by hand: ssh {host}")));
    }
    None
}

fn login(host: &HostName, said: &str) -> Option<Trouble> {
    if said.contains("Too many authentication failures") {
        return Some(Trouble::lasting(
            "Too many authentication failures",
            "name the key in ~/.ssh/config: IdentityFile, IdentitiesOnly yes",
        ));
    }
    let line = line_with(said, "Permission denied")?;
    let from = line.find("Permission denied").unwrap_or(0);
    let why = line.get(from..).unwrap_or(&line).trim_end_matches('.');
    let what = format!("nobody is asked for a password here: `ssh-add` your key, or `ssh-copy-id {host}`");
    Some(Trouble::lasting(why, what))
}

/// The machine could not be reached at all.
fn way_there(host: &HostName, said: &str) -> Option<Trouble> {
    if said.contains("Connection refused") {
        let what = format!("is sshd running there? `ssh -G {host}` shows the port");
        return Some(Trouble::passing("Connection refused", what));
    }
    if said.contains("Could not resolve hostname") {
        let trouble = Trouble::passing("Could not resolve its name", "add it to ~/.ssh/config, or check the spelling");
        return Some(Trouble { is_unknown_name: true, ..trouble });
    }
    let signs = ["timed out", "Timeout, server", "No route to host", "Network is unreachable"];
    let line = signs.iter().find_map(|words| line_with(said, words))?;
    Some(Trouble::passing(after_address(&line), "is it on, and does it need a VPN?"))
}

fn broken_connection(host: &HostName, said: &str) -> Option<Trouble> {
    let signs = ["Connection closed", "Connection reset", "kex_exchange_identification", "Broken pipe"];
    let line = signs.iter().find_map(|words| line_with(said, words))?;
    Some(Trouble::passing(line, try_by_hand(host)))
}

/// The reason alone out of `ssh: connect to host 10.0.0.7 port 22: Connection timed out`.
fn after_address(line: &str) -> String {
    line.rsplit(": ").next().unwrap_or(line).to_owned()
}

/// The last line that is more than a warning or a blank.
fn last_words(said: &str) -> Option<&str> {
    let lines = said.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).rfind(|line| !line.starts_with("Warning:") && !line.starts_with("**"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, said: &str) -> Trouble {
        why(&"gpu1".parse().unwrap(), Some(code), said, None)
    }

    /// What OpenSSH 9.2 printed on Debian 12.
    const REFUSED_KEY: &str = "ada@127.0.0.1: Permission denied (publickey,password,keyboard-interactive).\r\n";
    const UNKNOWN_KEY: &str = "No ED25519 host key is known for [127.0.0.1]:2222 and you have requested strict checking.\r\n\
                               Host key verification failed.\r\n";
    const CHANGED_KEY: &str = "@@@@@@@@@@@\r\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n@@@@@@@@@@@\r\n\
                               Host key for [127.0.0.1]:2222 has changed and you have requested strict checking.\r\n\
                               Host key verification failed.\r\n";
    const CLOSED_PORT: &str = "ssh: connect to host 127.0.0.1 port 2223: Connection refused\r\n";
    const NO_NAME: &str = "ssh: Could not resolve hostname nowhere: Name or service not known\r\n";
    const NO_ANSWER: &str = "ssh: connect to host 10.255.255.1 port 22: Connection timed out\r\n";

    #[test]
    fn each_reason_of_ssh_has_its_own_words_and_says_what_to_do() {
        let ends =
            [REFUSED_KEY, UNKNOWN_KEY, CHANGED_KEY, CLOSED_PORT, NO_NAME, NO_ANSWER].map(|said| ended(255, said));
        let whys: std::collections::BTreeSet<&str> = ends.iter().map(|end| end.unavailable.why.as_str()).collect();
        assert_eq!(whys.len(), ends.len());
        assert!(ends.iter().all(|end| end.unavailable.what_to_do.is_some()));
        let lasting: Vec<bool> = ends.iter().map(|end| end.needs_a_person).collect();
        assert_eq!(lasting, [true, true, true, false, false, false]);
    }

    #[test]
    fn a_reason_behind_a_banner_and_a_jump_host_is_found() {
        let said = format!("* Authorized use only *\n{UNKNOWN_KEY}Connection closed by UNKNOWN port 65535\r\n");
        assert_eq!(ended(255, &said), ended(255, UNKNOWN_KEY));
    }

    #[test]
    fn an_unknown_end_shows_the_last_line_harmless_and_short() {
        let said = format!("Welcome\n\u{1b}[2J{}\n** WARNING: no post-quantum key exchange\n", "x".repeat(10_000));
        let why = ended(1, &said).unavailable.why;
        assert!(why.contains('x') && !why.contains('\u{1b}') && why.chars().count() < 300, "{why}");
        assert!(ended(255, "").unavailable.what_to_do.is_some());
    }

    #[test]
    fn nothing_weakens_what_ssh_checks() {
        let all = arguments(&"gpu1".parse().unwrap(), "true").join(" ").to_lowercase();
        assert!(!all.contains("stricthostkeychecking") && !all.contains("knownhosts"));
    }
}
