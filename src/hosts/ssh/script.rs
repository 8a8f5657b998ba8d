//! Owns what runs on a machine that is reached through ssh: one line for its `sh`, which looks for this program, reads the
//! machine with it, or else with nvidia-smi. The line is quoted so that bash, zsh, fish and csh pass it on as it is: it has no
//! single quote, no exclamation mark and no line break. It writes nothing but what `--send` asks for.

use std::time::Duration;

use super::package::Package;
use crate::hosts::nvidia_smi::{APPS, GPUS};

/// How long nvidia-smi is left alone between two readings: each call loads the driver's library anew.
const SMI_PAUSE: Duration = Duration::from_secs(5);

/// Which readings are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// From one to the next.
    pub interval: Duration,
    /// `None` goes on until the connection ends.
    pub count: Option<u64>,
}

impl Wanted {
    fn sample(&self) -> String {
        let count = self.count.map(|count| format!(" --count {count}")).unwrap_or_default();
        format!("sample --interval {}{count}", self.interval.as_secs_f64())
    }
}

/// Reads the machine with what it has. Shells without a login often lack the folders of cargo and pip in their PATH.
pub fn read(wanted: Wanted) -> String {
    let again = match wanted.count {
        Some(_) => "f".to_owned(),
        None => format!("while f; do sleep {}; done", SMI_PAUSE.as_secs()),
    };
    in_sh(&format!("{}; {} {again}", installed(wanted), nvidia_smi()))
}

/// The same where this program may be sent: one that was left there by an interrupted reading is used, else the machine says
/// what it is.
pub fn read_or_ask(wanted: Wanted, package: &Package) -> String {
    let left = format!("if [ -x \"$d/{0}\" ] && [ \"$(wc -c < \"$d/{0}\")\" -eq {1} ]", package.name, package.size);
    in_sh(&format!(
        "{}; {OWN_FOLDER} for d in {FOLDERS}; do own \"$d\" || continue; {left}; then {}; fi; {LEAVE}; done; {}",
        installed(wanted),
        run_sent(wanted, package),
        "echo \"oomdoctor-lacks $(uname -sm),$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1)\"",
    ))
}

/// Takes this program from the standard input, runs it and removes it. A folder where nothing may be run is passed over.
pub fn send(wanted: Wanted, package: &Package) -> String {
    let Package { name, size, .. } = package;
    let try_it =
        "t=\"$d/try.$$\"; (echo : > \"$t\" && chmod 700 \"$t\") 2>/dev/null && \"$t\" 2>/dev/null; r=$?; rm -f \"$t\"";
    let take = format!(
        "n=\"$d/{name}.$$\"; head -c {size} > \"$n\"; if [ \"$(wc -c < \"$n\")\" -eq {size} ] && chmod 700 \"$n\" && mv -f \"$n\" \"$d/{name}\"; \
         then {}; fi; rm -f \"$n\"; {LEAVE}; echo oomdoctor-unsent; exit 0",
        run_sent(wanted, package),
    );
    in_sh(&format!(
        "umask 077; echo; {OWN_FOLDER} for d in {FOLDERS}; do own \"$d\" || continue; {try_it}; if [ $r -eq 0 ]; then {take}; fi; \
         {LEAVE}; done; echo oomdoctor-noexec"
    ))
}

/// The empty line ends what a profile printed without one.
fn installed(wanted: Wanted) -> String {
    format!(
        "echo; for p in \"$(command -v oomdoctor)\" \"$HOME/.cargo/bin/oomdoctor\" \"$HOME/.local/bin/oomdoctor\"; do \
         if [ -f \"$p\" ] && [ -x \"$p\" ]; then command -v oomdoctor >/dev/null || echo \"oomdoctor-at $p\"; exec \"$p\" {}; fi; done",
        wanted.sample()
    )
}

/// Where this program may be put, the best first. Only the last part is made: nothing can be below /dev/null.
const FOLDERS: &str =
    "\"${XDG_RUNTIME_DIR:-/dev/null}/oomdoctor\" \"$HOME/.cache/oomdoctor\" \"/tmp/oomdoctor-$(id -u)\"";
/// Whether a folder is there, or could be made, and nobody else can put anything into it.
const OWN_FOLDER: &str = "own() { (umask 077; mkdir \"$1\") 2>/dev/null; set -- $(ls -ldn \"$1\" 2>/dev/null); \
                          case \"$1\" in drwx------*) [ \"$3\" = \"$(id -u)\" ];; *) false;; esac; };";
/// Removes the folder unless something is in it.
const LEAVE: &str = "rmdir \"$d\" 2>/dev/null";

fn run_sent(wanted: Wanted, package: &Package) -> String {
    let name = &package.name;
    // Once readings end, the program is gone.
    let place = match wanted.count {
        Some(_) => "echo oomdoctor-lent".to_owned(),
        None => format!("echo \"oomdoctor-at $d/{name}\""),
    };
    format!("{place}; \"$d/{name}\" {}; r=$?; rm -f \"$d/{name}\"; {LEAVE}; exit $r", wanted.sample())
}

/// Defines `f`, which prints one reading; see `hosts::nvidia_smi`.
fn nvidia_smi() -> String {
    format!(
        "n=$(command -v nvidia-smi) || n=/usr/lib/wsl/lib/nvidia-smi; [ -x \"$n\" ] || exit 127; \
         f() {{ echo oomdoctor-smi; cat /proc/sys/kernel/random/boot_id; echo oomdoctor-name; uname -n; \
         echo oomdoctor-time; date +%s; echo oomdoctor-memory; grep -E \"^(MemTotal|MemAvailable|SwapTotal|SwapFree):\" /proc/meminfo; \
         o=\"--format=csv,noheader,nounits\"; g=$(\"$n\" --query-gpu={GPUS} $o 2>&1); echo oomdoctor-gpus; printf \"%s\\n\" \"$g\"; \
         echo oomdoctor-split; \"$n\" --query-gpu=index,mig.mode.current $o 2>/dev/null; \
         a=$(\"$n\" --query-compute-apps={APPS} $o 2>&1); echo oomdoctor-apps; printf \"%s\\n\" \"$a\"; echo oomdoctor-processes; \
         p=$(printf \"%s\\n\" \"$a\" | cut -d , -f 2 | tr -d \" \" | grep -E \"^[0-9]+\" | head -n 2000 | paste -s -d , -); \
         if [ -n \"$p\" ]; then ps -ww -o pid= -o uid= -o user:32= -o etimes= -o state= -o args= -p \"$p\" 2>/dev/null; fi; \
         echo oomdoctor-end; }};"
    )
}

fn in_sh(script: &str) -> String {
    format!("sh -c '{script}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_passes_the_line_on_as_it_is() {
        let package = Package { name: "oomdoctor-0".to_owned(), size: 5, glibc: None };
        let once = Wanted { interval: Duration::from_secs(1), count: Some(2) };
        let on = Wanted { count: None, ..once };
        for wanted in [once, on] {
            for line in [read(wanted), read_or_ask(wanted, &package), send(wanted, &package)] {
                let inner = line.strip_prefix("sh -c '").and_then(|line| line.strip_suffix('\'')).unwrap();
                assert!(
                    !inner.contains(['\'', '!', '\n']) && !inner.contains("\\\\") && !inner.ends_with('\\'),
                    "{inner}"
                );
            }
        }
    }
}
