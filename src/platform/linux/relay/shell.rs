//! Owns telling an interactive shell from a job. A shell moves the terminal between its jobs, and asks the terminal of its
//! messages for that, so its output must stay on the real one.

use std::ffi::{OsStr, OsString};
use std::path::Path;

const SHELLS: [&str; 8] = ["bash", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh"];
/// Options that take the next argument.
const WITH_VALUE: [&str; 5] = ["--rcfile", "--init-file", "-o", "+o", "-O"];

/// Whether the command is a shell that will read its commands from the terminal, if its standard input is one.
pub(super) fn is_interactive(argv: &[OsString]) -> bool {
    let Some((program, arguments)) = argv.split_first() else { return false };
    let is_shell = Path::new(program).file_name().and_then(OsStr::to_str).is_some_and(|name| SHELLS.contains(&name));
    is_shell && reads_its_input(arguments)
}

/// Whether no argument is a script or a command. What follows one is for the script.
fn reads_its_input(arguments: &[OsString]) -> bool {
    let mut arguments = arguments.iter().filter_map(|argument| argument.to_str());
    while let Some(argument) = arguments.next() {
        let letters = argument.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
        if WITH_VALUE.contains(&argument) {
            let _ = arguments.next();
        } else if letters.contains('i') {
            return true;
        } else if letters.contains('c') || !argument.starts_with(['-', '+']) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_without_a_script_is_interactive() {
        for (line, expected) in [
            ("bash", true),
            ("/usr/bin/zsh", true),
            ("bash --norc -i", true),
            ("bash --rcfile mine", true),
            ("sh -ic ls", true),
            ("bash train.sh", false),
            ("bash -x train.sh", false),
            ("bash -o pipefail train.sh", false),
            ("bash train.sh -i", false),
            ("sh -c ls", false),
            ("bash -lc ls", false),
            ("python", false),
        ] {
            let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(is_interactive(&argv), expected, "{line}");
        }
    }
}
