//! Owns the examples that `--help` shows below the options, and the shell completions and the manual page, which packages
//! generate from the same command description.

use std::io;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use super::output::{print, refuse};
use crate::platform::here;

pub(super) fn main() -> String {
    format!("{MAIN}\n\nSettings: {}", here::CONFIG_FILE)
}

const MAIN: &str = "\
Examples:
  oomdoctor                                start it, press F or paste the error
  oomdoctor slurm-1234.out                 open a log
  python -u train.py 2>&1 | oomdoctor      follow a job's output
  oomdoctor --demo                         try it without a GPU
  oomdoctor ps                             which processes use the VRAM
  oomdoctor fit llama3.1:8b                does this model fit in the free VRAM

Keys in the terminal program: ? lists the keys, : lists all actions, q quits.
Exit code: 0 found or done, 1 not found or not done, 2 wrong usage.";

pub(super) const DIAGNOSE: &str = "\
Examples:
  oomdoctor diagnose crash.log             what ran out, why, and how to fix it
  kubectl logs POD -p | oomdoctor diagnose
  oomdoctor diagnose --brief crash.log     the verdict and the first three steps
  oomdoctor diagnose --last                the last log, with the steps taken
  oomdoctor diagnose --no-live crash.log   a log from another machine
  oomdoctor diagnose --json crash.log | jq .verdict.sentence
  oomdoctor diagnose --host gpu1,gpu2 crash.log    also: where is room for it

A pipe is read until its program exits; `program | oomdoctor` follows it.
Of other machines the one that the log names is compared with, and a GPU with
room for the run is offered. They are only read: commands are for you to run.
Exit code: 0 out of memory, or possibly; 1 not; 2 unreadable log.";

pub(super) const REPORT: &str = "\
Examples:
  oomdoctor report crash.log               Markdown for an issue or a chat
  oomdoctor report --output report.md      about the last log, to a file

Read a report before you share it: only what is recognized is left out.
Exit code: 0 out of memory, or possibly; 1 not; 2 unreadable log.";

pub(super) const RUN: &str = "\
Examples:
  oomdoctor run -- python train.py         nothing changes, unless memory runs out
  oomdoctor run --report oom.md -- torchrun --nproc-per-node 8 train.py
  srun oomdoctor run -- python train.py    one record per task; one of each node
                                           reads its GPUs
  oomdoctor run --torch-snapshot -- python train.py   also a PyTorch memory snapshot
  oomdoctor --last                         open the failure; C shows its recording

Output, exit code, signals and the terminal are those of the command alone.
The last 5 records are kept in the state folder (64 MiB at most). Of an
interactive shell only the memory is recorded, not what it prints.
Exit code: that of the command; 127 not found, 126 can't be run.";

pub(super) const WATCH: &str = "\
Examples:
  oomdoctor watch 4242                     record until process 4242 ends
  oomdoctor watch 4242 --record job.jsonl
  oomdoctor --replay job.jsonl             show the recording

Exit code: 0 when the process exits, 2 if it can't be watched.";

pub(super) const SOURCES: &str = "\
Examples:
  oomdoctor sources                        panes, containers, units, files here
  oomdoctor sources slurm pod              ask Slurm and Kubernetes, too
  oomdoctor diagnose --from tmux:%3        read what it lists
  oomdoctor sources --json | jq -r '.sources[0].id'

Only your own logs are read; of a terminal pane, only the command that failed.
Exit code: 0 if one shows that memory ran out, 1 if none does.";

pub(super) const SAMPLE: &str = "\
Examples:
  oomdoctor sample --count 1               a header line and one reading
  oomdoctor sample --interval 5 >> gpu.jsonl
  oomdoctor --replay gpu.jsonl             show it
  oomdoctor sample --count 60 --record amd.jsonl    to give away: no names

Exit code: 0, also without a driver; 2 if the output can't be written.";

pub(super) const PS: &str = "\
Examples:
  oomdoctor ps
  oomdoctor ps --interval 10               watch for 10 s before it prints
  oomdoctor ps --json | jq '.devices[].processes[] | {pid, activity}'
  oomdoctor ps --host gpu1,gpu2            several machines, idle ones first
  oomdoctor ps --slurm=a100                the nodes of a partition
  oomdoctor ps --job 4711                  a running job, from inside of it
  oomdoctor ps --kube --pod ml/llama-0     nodes of Kubernetes, and into a pod

STATE: BUSY used the GPU or 5 % of a CPU core; idle used neither while it was
watched, one --interval (1 s, at most 10 s); ? is unknown.
Other machines are only read: what ends a process there is a command to copy.
Exit code: 0, or 1 without a driver; of several machines, 1 if none was read.";

pub(super) const KILL: &str = "\
Examples:
  oomdoctor kill 4242                      show it, ask, terminate it
  oomdoctor kill 4242@162083 --yes         in a script: exactly that process
  oomdoctor kill 4242 --signal KILL        if it ignored SIGTERM

Exit code: 0 only if all of them exited.";

pub(super) const FIT: &str = "\
Examples:
  oomdoctor fit                            the models on this machine
  oomdoctor fit ./model-Q4_K_M.gguf --context 32768
  oomdoctor fit llama3.1:8b --engine ollama
  oomdoctor fit Qwen/Qwen3-8B --engine vllm --context 32K
  oomdoctor fit Qwen3-32B --host gpu1,gpu2    on which machine, best first

Exit code: 0 fits, 1 does not fit or unknown, 2 unknown model or wrong usage.";

pub(super) const SCHEMA: &str = "\
Examples:
  oomdoctor schema                         list the outputs
  oomdoctor schema diagnose > diagnose.schema.json

A schema has exactly the fields of this version. Later versions may add fields.";

pub(super) const KB: &str = "\
Examples:
  oomdoctor kb list pytorch
  oomdoctor kb show pytorch/cuda-out-of-memory
  oomdoctor kb new --from crash.log > out-of-memory.ron
  oomdoctor kb check knowledge             check your own entries";

/// Writes the completions of a shell to standard output.
pub(super) fn completions(mut command: Command, shell: Shell) -> ExitCode {
    print(&completed(&mut command, shell), ExitCode::SUCCESS)
}

/// The completions as clap makes them. It has machines for zsh and fish; for bash those are the ones of the package
/// bash-completion, which knows ~/.ssh/config and its includes, or without it the names of that file alone. A list of several
/// is completed behind its last comma. No file is offered as a machine.
fn completed(command: &mut Command, shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, command, "oomdoctor", &mut text);
    let text = String::from_utf8_lossy(&text);
    if shell == Shell::Bash {
        text.replace(FILES_AS_HOSTS, HOSTS).replacen(PREVIOUS, PREVIOUS_OR_OPTION, 1)
    } else {
        text.into_owned()
    }
}

const PREVIOUS: &str = "    prev=\"$3\"\n";
/// bash takes the = of --option=value for a word of its own.
const PREVIOUS_OR_OPTION: &str = "    prev=\"$3\"
    [[ \"${cur}\" == \"=\" ]] && cur=\"\"
    [[ \"${prev}\" == \"=\" ]] && prev=\"${COMP_WORDS[COMP_CWORD-2]}\"
";

const FILES_AS_HOSTS: &str = "                --host)
                    COMPREPLY=($(compgen -f \"${cur}\"))
";
const HOSTS: &str = "                --host)
                    local host=\"${cur##*,}\"
                    COMPREPLY=()
                    compopt +o default +o bashdefault 2>/dev/null
                    if declare -F _known_hosts_real >/dev/null; then
                        _known_hosts_real -a -- \"${host}\"
                    else
                        host=\"${host#*@}\"
                        COMPREPLY=($(compgen -W \"$(sed -n 's/^[[:space:]]*[Hh]ost[[:space:]=]\\{1,\\}//p' ~/.ssh/config 2>/dev/null |
                            tr -s '[:space:]' '\\n' | grep -x '[[:alnum:]._-]\\{1,\\}')\" -- \"${host}\"))
                    fi
                    COMPREPLY=(\"${COMPREPLY[@]/#/${cur%\"${host}\"}}\")
";

/// Writes the manual page to standard output.
pub(super) fn manual(command: &Command) -> ExitCode {
    match manual_page(command) {
        Ok(text) => print(&text, ExitCode::SUCCESS),
        Err(error) => refuse(&format!("the manual page could not be written: {error}")),
    }
}

/// One page with all commands: packages install a single file.
fn manual_page(command: &Command) -> io::Result<String> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_options_section(&mut text)?;
    let mut text = String::from_utf8_lossy(&text).into_owned();
    text += &examples(&page)?;
    for subcommand in visible(command) {
        text += &command_section("oomdoctor", subcommand)?;
    }
    Ok(text)
}

/// The text below the options, in lines as they are written.
fn examples(page: &Man) -> io::Result<String> {
    let mut text = Vec::new();
    page.render_extra_section(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.split_once(".SH EXTRA\n").map_or_else(String::new, |(_, lines)| format!(".SH EXAMPLES\n.nf\n{lines}.fi\n")))
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// The section of a command and those of its own subcommands.
fn command_section(parent: &str, command: &Command) -> io::Result<String> {
    let name = format!("{parent} {}", command.get_name());
    let page = Man::new(command.clone().bin_name(&name).disable_help_flag(true).disable_help_subcommand(true));
    let mut parts = Vec::new();
    page.render_description_section(&mut parts)?;
    page.render_synopsis_section(&mut parts)?;
    if command.get_arguments().next().is_some() {
        page.render_options_section(&mut parts)?;
    }
    let mut parts = String::from_utf8_lossy(&parts).into_owned();
    parts += &examples(&page)?;
    // The parts of a command's section are subsections.
    let parts = parts.replace("\n.SH ", "\n.SS ");
    // Only the beginning of a page sets the apostrophe.
    let parts = parts.split_once(".SH DESCRIPTION\n").map_or(parts.as_str(), |(_, rest)| rest);
    let mut text = format!(".SH \"{}\"\n{parts}", name.to_uppercase());
    for subcommand in visible(command) {
        text += &command_section(&name, subcommand)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    /// The arguments of the example on this line, if there is one: up to a pipe, a redirection or its explanation.
    fn arguments(line: &str) -> Option<Vec<&str>> {
        let command = line.strip_prefix("  ")?.split("  ").next()?;
        let from = command.find("oomdoctor")?;
        let words = command.get(from..)?.split_whitespace();
        Some(words.take_while(|word| !["|", ">", ">>"].contains(word)).collect())
    }

    #[test]
    fn every_command_has_examples_and_the_program_accepts_all_of_them() {
        let mut tried = 0;
        for example in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let text = example.get_after_help().map(ToString::to_string);
            assert!(text.is_some_and(|text| text.starts_with("Examples:")), "{} has none", example.get_name());
        }
        for text in [&main(), DIAGNOSE, REPORT, SOURCES, SAMPLE, PS, KILL, FIT, SCHEMA, KB] {
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            for arguments in text.lines().filter_map(arguments) {
                let parsed = Cli::try_parse_from(&arguments);
                assert!(parsed.is_ok(), "{arguments:?}: {}", parsed.unwrap_err());
                tried += 1;
            }
        }
        assert!(tried > 20, "{tried}");
    }

    #[test]
    fn every_shell_has_completions_and_the_manual_page_contains_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = completed(&mut Cli::command(), shell);
            let has_hosts =
                ["_known_hosts_real", "_hosts", "__fish_print_hostnames"].iter().any(|hosts| text.contains(hosts));
            assert!(text.contains("diagnose") && has_hosts, "{shell}");
            // What is changed of clap's text is still there to be changed.
            assert_eq!(text.matches("COMP_CWORD-2").count(), usize::from(shell == Shell::Bash), "{shell}");
        }
        let page = manual_page(&Cli::command()).unwrap();
        assert!(page.contains("Examples:") && !page.contains("drain"), "{page}");
        let sections = ["SYNOPSIS", "\"OOMDOCTOR PS\"", "\"OOMDOCTOR FIT\"", "\"OOMDOCTOR KB CHECK\""];
        assert!(sections.iter().all(|section| page.contains(&format!("\n.SH {section}\n"))), "{page}");
        // Each option of each command is in its section, and no section is about another page.
        for part in ["\\-\\-grace", "\\-\\-kv\\-type", "\\-\\-stale", "\\-\\-last"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("(1)\n"), "{page}");
    }
}
