//! Owns the examples that `--help` shows below the options, and the shell completions and the manual page, which packages
//! generate from the same command description.

use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use super::output::{print, refuse};
use crate::platform::here;

pub(super) fn main() -> String {
    format!(
        "{MAIN}\nSettings: {}, as the README has them. Exit codes: 0 found or done, 1 not, 2 wrong usage.",
        here::CONFIG_FILE
    )
}

const MAIN: &str = "\
Examples:
  oomdoctor                                start it, then paste the error
  oomdoctor slurm-1234.out                 open it on a log
  python -u train.py 2>&1 | oomdoctor      let a job write into it
  oomdoctor --demo                         no GPU at hand: a recorded sick machine
  oomdoctor ps                             who holds GPU memory, as plain text
  oomdoctor fit llama3.1:8b                will this model fit in what is free now?

In the terminal program ? shows the keys and : everything that can be done.";

pub(super) const DIAGNOSE: &str = "\
Examples:
  oomdoctor diagnose crash.log             what ran out, why, what to do on this machine
  kubectl logs POD -p | oomdoctor diagnose
  oomdoctor diagnose --brief crash.log     the verdict and the first three steps
  oomdoctor diagnose --no-live crash.log   a log from another machine
  oomdoctor diagnose --json crash.log | jq .verdict.sentence

A pipe is read until the program ends that writes to it, in little memory however much comes; `program | oomdoctor`
shows the log as it comes. Exit code: 0 out of memory or perhaps, 1 not, 2 the log can't be read.";

pub(super) const REPORT: &str = "\
Examples:
  oomdoctor report crash.log               Markdown to paste into an issue or a chat
  oomdoctor report crash.log > report.md";

pub(super) const SAMPLE: &str = "\
Examples:
  oomdoctor sample --count 1               one reading, and the header line before it
  oomdoctor sample --interval 5 >> gpu.jsonl";

pub(super) const PS: &str = "\
Examples:
  oomdoctor ps
  oomdoctor ps --json | jq '.devices[].processes[] | {pid, used_bytes}'
  watch -n 2 oomdoctor ps

Exit code: 0, or 1 where no driver answers.";

pub(super) const KILL: &str = "\
Examples:
  oomdoctor kill 4242                      names it, asks, ends it, shows what came back
  oomdoctor kill 4242@162083 --yes         in a script: exactly that process, or none
  oomdoctor kill 4242 --signal KILL        where it did not close when asked

Exit code: 0 only if all of them ended.";

pub(super) const FIT: &str = "\
Examples:
  oomdoctor fit ./model-Q4_K_M.gguf --context 32768
  oomdoctor fit llama3.1:8b --engine ollama
  oomdoctor fit Qwen/Qwen3-8B --engine vllm --context 32K

Exit code: 0 if it fits, 1 if not, 2 where the model is not known.";

pub(super) const SCHEMA: &str = "\
Examples:
  oomdoctor schema                         the outputs that have one
  oomdoctor schema diagnose > diagnose.schema.json

A schema has exactly the fields that this version prints. Later versions may add fields.";

pub(super) const KB: &str = "\
Examples:
  oomdoctor kb list pytorch
  oomdoctor kb show pytorch/cuda-out-of-memory
  oomdoctor kb new --from crash.log > knowledge/entries/my-framework/out-of-memory.ron
  oomdoctor kb check knowledge             judge your own entries beside the built-in ones";

/// Writes the completions of a shell to standard output.
pub(super) fn completions(mut command: Command, shell: Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "oomdoctor", &mut text);
    print(&String::from_utf8_lossy(&text), ExitCode::SUCCESS)
}

/// Writes the manual page to standard output.
pub(super) fn manual(command: Command) -> ExitCode {
    let mut text = Vec::new();
    match clap_mangen::Man::new(command).render(&mut text) {
        Ok(()) => print(&String::from_utf8_lossy(&text), ExitCode::SUCCESS),
        Err(error) => refuse(&format!("the manual page could not be written: {error}")),
    }
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
        for text in [&main(), DIAGNOSE, REPORT, SAMPLE, PS, KILL, FIT, SCHEMA, KB] {
            assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
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
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "oomdoctor", &mut text);
            assert!(String::from_utf8(text).unwrap().contains("diagnose"), "{shell}");
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("Examples:") && !page.contains("drain"), "{page}");
    }
}
