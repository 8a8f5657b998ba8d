//! Owns which names of machines stand beside a line of a log: the prefix of pdsh, clush, parallel-ssh, Ansible or syslog, the
//! header that some of them print above the lines of a machine, the prompt of the shell in which a command was started.
//! None is certain by itself (`gpu0: ` may be a device), so such a name counts only for a machine that is known by it.

use super::PastedLog;
use super::expression::Expression;
use super::teller::is_counted;

/// How much of a line's beginning is looked at.
const HEAD: usize = 256;
/// A header or a prompt may be this many lines above.
const ABOVE: usize = 400;

/// What begins the line itself.
static PREFIXES: [Expression; 4] = [
    // Fabric.
    Expression::new(r"(?-u)^\[(?P<host>[A-Za-z\d][\w.-]{0,62})\](?: out| err)?:(?: |$)"),
    // A task of an Ansible playbook.
    Expression::new(
        r"(?-u)^(?:fatal|failed|changed|ok): \[(?P<host>[A-Za-z\d][\w.-]{0,62})(?: -> (?u:[^\]]{1,80}))?\]",
    ),
    // syslog and the journal.
    Expression::new(
        r"(?-u)^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)) (?P<host>[A-Za-z\d][\w.-]{0,62}) [\w./@()-]{1,64}(?:\[\d+\])?: ",
    ),
    // pdsh, clush, parallel-ssh --print; GNU parallel --tag.
    Expression::new(r"(?-u)^(?P<host>[A-Za-z\d][\w.-]{0,62})(?::(?: |$)|\t)"),
];

/// What stands above the lines of a machine.
static HEADERS: [Expression; 4] = [
    // Ansible's own commands: `gpu1 | FAILED | rc=1 >>`.
    Expression::new(r"(?-u)^(?P<host>[A-Za-z\d][\w.-]{0,62}) \| [A-Z]+!? (?:\| rc=-?\d+ )?(?:>>|=>)"),
    // parallel-ssh --inline: `[1] 12:00:00 [FAILURE] ada@gpu1 Exited with error code 1`.
    Expression::new(
        r"(?-u)^\[\d{1,5}\] \d\d:\d\d:\d\d \[(?:SUCCESS|FAILURE)\] (?:[\w.-]{1,64}@)?(?P<host>[A-Za-z\d][\w.-]{0,62})(?:[ :]|$)",
    ),
    // Prompts: `(env) ada@gpu1:~/vision$ python train.py`, `[ada@gpu1 vision]$ python train.py`.
    Expression::new(
        r"(?-u)^(?:\([\w. -]{1,64}\) ?)?[\w.-]{1,64}@(?P<host>[A-Za-z\d][\w.-]{0,62}):(?u:[^$#%]{0,160})[$#%] ",
    ),
    Expression::new(
        r"(?-u)^(?:\([\w. -]{1,64}\) ?)?\[[\w.-]{1,64}@(?P<host>[A-Za-z\d][\w.-]{0,62}) (?u:[^\]]{0,160})\][$#%] ",
    ),
];

/// The names beside this line, the nearest first.
pub(crate) fn names(log: &PastedLog, line: usize) -> Vec<String> {
    let of_line = log.line(line).and_then(|text| captured(&PREFIXES, text)).filter(|name| !is_a_device(name));
    let above = header_above(log, line).filter(|name| of_line.as_ref() != Some(name));
    of_line.into_iter().chain(above).collect()
}

/// `GPU0: 79 GiB` is a device also where a machine is called gpu0.
fn is_a_device(name: &str) -> bool {
    is_counted(name) && name.starts_with(|letter: char| letter.is_ascii_uppercase())
}

/// The machine of the nearest header; `None` also where that names several.
fn header_above(log: &PastedLog, line: usize) -> Option<String> {
    for number in (line.saturating_sub(ABOVE).max(1)..line).rev() {
        let text = log.line(number).unwrap_or_default();
        if let Some(name) = captured(&HEADERS, text) {
            return Some(name);
        }
        // clush -b and dshbak: a name, or a set of names, between two rules.
        if is_rule(text) && is_rule(log.line(number.saturating_sub(2)).unwrap_or_default()) {
            let name = log.line(number.saturating_sub(1)).unwrap_or_default().trim_end();
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
            return (is_name && name.starts_with(|first: char| first.is_ascii_alphanumeric())).then(|| name.to_owned());
        }
    }
    None
}

fn captured(forms: &[Expression], text: &str) -> Option<String> {
    let head = text.get(..text.floor_char_boundary(HEAD)).unwrap_or(text);
    forms.iter().find_map(|form| Some(form.captures(head)?.name("host")?.as_str().to_owned()))
}

fn is_rule(text: &str) -> bool {
    let text = text.trim_end();
    text.len() >= 5 && text.bytes().all(|byte| byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names beside the log's last line.
    fn beside(text: &str) -> Vec<String> {
        let log = PastedLog::new(text);
        names(&log, log.line_count())
    }

    #[test]
    fn prefixes_headers_and_prompts_of_remote_shells_name_the_machine() {
        for log in [
            "gpu1: step 1\ngpu1: torch.OutOfMemoryError: CUDA out of memory",
            "gpu1\ttorch.OutOfMemoryError: CUDA out of memory",
            "[gpu1] out: torch.OutOfMemoryError: CUDA out of memory",
            "fatal: [gpu1]: FAILED! => {\"stderr\": \"CUDA out of memory\"}",
            "Nov 28 12:00:00 gpu1 python[4242]: CUDA out of memory",
            "2026-11-28T12:00:00+0000 gpu1 train.sh[4242]: CUDA out of memory",
            "---------------\ngpu9\n---------------\nfine\n---------------\ngpu1\n---------------\nTraceback\nCUDA out of memory",
            "gpu9 | CHANGED | rc=0 >>\nfine\ngpu1 | FAILED | rc=1 >>\nTraceback\nCUDA out of memory",
            "(env) ada@gpu1:~/vision$ python train.py\nTraceback\nCUDA out of memory",
            "(env) [ada@gpu1 vision]$ python train.py\nTraceback\nCUDA out of memory",
        ] {
            assert_eq!(beside(log), ["gpu1"], "{log}");
        }
        // Any word may stand before a colon: it counts only where a machine has that name.
        let parallel = "[1] 12:00:00 [SUCCESS] gpu9\nfine\n[2] 12:00:01 [FAILURE] ada@gpu1 Exited with error code 1\nStderr: CUDA out of memory";
        assert_eq!(beside(parallel), ["Stderr", "gpu1"]);
        assert_eq!(beside("ada@login:~$ pdsh -w gpu[1-2] python t.py\ngpu1: CUDA out of memory"), ["gpu1", "login"]);
    }

    #[test]
    fn a_device_or_a_header_of_several_machines_names_none() {
        for log in [
            "GPU1: CUDA out of memory",
            "GPU 1: CUDA out of memory",
            "ada@gpu9:~$ clush -b -w gpu[1-2] t\n---------------\ngpu[1-2] (2)\n---------------\nCUDA out of memory",
            "-----\n-----\n-----\nCUDA out of memory",
            "ada@gpu1: mail\nCUDA out of memory",
        ] {
            assert_eq!(beside(log), [] as [&str; 0], "{log}");
        }
    }
}
