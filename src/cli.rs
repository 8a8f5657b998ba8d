//! Owns the command line: the arguments, the exit codes, and which module runs each command.
//! Exit codes: 0 found or done, 1 nothing found or not done, 2 wrong usage or unreadable input.

mod diagnose;
mod fit;
mod help;
mod hosts;
mod kb;
mod kill;
mod output;
mod ps;
mod record;
mod report;
mod run;
mod schema;
mod screen;
mod settings;
mod sources;
mod suggest;
mod usage;
mod watched;

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use settings::{Look, Options};

use crate::platform::{Sampling, machine};
use crate::runtime::debug_log;

pub use settings::Global;

/// Explain an out-of-memory error: what ran out, which processes use the VRAM, and how to fix it
#[derive(Debug, Parser)]
#[command(name = "oomdoctor", version, max_term_width = 100, after_help = help::main())]
pub struct Cli {
    #[command(flatten)]
    pub options: Options,
    /// What to do; without a command the terminal program starts
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Open this log or memory snapshot; `-` or a pipe reads standard input
    pub log: Option<PathBuf>,
    /// Memory snapshots of the same run, such as those of its other ranks
    #[arg(value_name = "SNAPSHOT")]
    pub more: Vec<PathBuf>,
    /// Play a recorded machine; needs no GPU, and its kills are simulated
    #[arg(long)]
    pub demo: bool,
    /// Open the last log, with the steps that were taken
    #[arg(long, conflicts_with_all = ["log", "demo"])]
    pub last: bool,
    /// Open a recording of `run` or `watch`, or the output of `sample`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["log", "demo", "last"])]
    pub replay: Option<PathBuf>,
    #[command(flatten)]
    pub look: Look,
    #[command(flatten)]
    pub hosts: hosts::HostArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Diagnose a log: what ran out of memory, why, and how to fix it
    #[command(after_help = help::DIAGNOSE)]
    Diagnose(Box<diagnose::DiagnoseArgs>),
    /// Run a command and record its memory; if memory runs out, say what happened and how to fix it
    #[command(after_help = help::RUN)]
    Run(run::RunArgs),
    /// Record a process that already runs, until it ends
    #[command(after_help = help::WATCH)]
    Watch(run::WatchArgs),
    /// Write a diagnosis as Markdown for others, without names and secrets
    #[command(after_help = help::REPORT)]
    Report(report::ReportArgs),
    /// List the failed logs of this machine: panes, containers, units, notebooks, files
    #[command(after_help = help::SOURCES)]
    Sources(sources::SourcesArgs),
    /// Print readings of this machine's GPUs as JSON lines
    #[command(after_help = help::SAMPLE)]
    Sample {
        /// Stop after this many readings [default: when the output closes]
        #[arg(long)]
        count: Option<u64>,
        /// Also print the VRAM in use between two readings, every so many seconds
        #[arg(long, value_name = "SECONDS", value_parser = settings::seconds)]
        glance: Option<Duration>,
        /// Write a recording to this file, without names of people, machines and programs, to give away or to replay
        #[arg(long, value_name = "FILE", conflicts_with = "glance")]
        record: Option<PathBuf>,
    },
    /// List the processes that use VRAM
    #[command(after_help = help::PS)]
    Ps {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        hosts: hosts::HostArgs,
    },
    /// Terminate processes by PID or PID@START_TICKS, and report the freed VRAM
    #[command(after_help = help::KILL)]
    Kill(kill::KillArgs),
    /// Check whether a model fits in the free VRAM, and what makes it fit
    #[command(after_help = help::FIT)]
    Fit(Box<fit::FitArgs>),
    /// Read standard input to its end and discard it, so that its writer gets no SIGPIPE
    #[command(hide = true)]
    Drain,
    /// Record the command whose output arrives in frames on standard input
    #[command(hide = true)]
    Record(record::RecordArgs),
    /// Copy standard input to standard output, as long as somebody writes
    #[command(hide = true)]
    PassOn,
    /// Print shell completions: `oomdoctor completions bash > /etc/bash_completion.d/oomdoctor`
    #[command(hide = true)]
    Completions {
        /// Print them for this shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page: `oomdoctor man > oomdoctor.1`
    #[command(hide = true)]
    Man,
    /// Print the JSON Schema of an output
    #[command(after_help = help::SCHEMA)]
    Schema {
        /// Print the schema of this output; without it, list the outputs
        name: Option<schema::Name>,
    },
    /// List, show and check the entries of the knowledge base
    #[command(after_help = help::KB)]
    Kb {
        /// What to do with the entries
        #[command(subcommand)]
        command: kb::KbCommand,
    },
}

/// The message for an argument of the terminal program before a command.
const MISPLACED: &str = "give a log after its command, as in `oomdoctor diagnose crash.log`; --demo, --last and --replay start \
     the terminal program";

/// Runs the program. No input makes it panic.
pub fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Err(message) = start_debug_log() {
        return output::refuse(&message);
    }
    if let Some(ended) = machine::sample_as_child(arguments.get(1..).unwrap_or_default()) {
        return output::sampled(ended);
    }
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return output::refuse(&usage::explained(&error, &arguments)),
        Err(error) => return help_or_version(&error),
    };
    log::info!("oomdoctor {} with {:?}", env!("CARGO_PKG_VERSION"), std::env::args_os().skip(1).collect::<Vec<_>>());
    let global = match settings::resolve(cli.options, cli.look) {
        Ok(global) => global,
        Err(message) => return output::refuse(&message),
    };
    log::debug!("settings: {global:?}");
    if !matches!(cli.command, Some(Command::Sample { .. } | Command::Drain | Command::PassOn | Command::Record(_))) {
        usage::unknown_variables().iter().for_each(|message| output::warn(message));
    }
    if cli.command.is_some() && (cli.log.is_some() || cli.demo || cli.last || cli.replay.is_some()) {
        return output::refuse(MISPLACED);
    }
    let missing_log = cli.log.as_deref().filter(|log| !log.exists());
    if let Some(message) = missing_log.and_then(usage::mistyped_command) {
        return output::refuse(&message);
    }
    match cli.command {
        None => match cli.replay {
            Some(path) => screen::replay(&global, &path),
            None => screen::run(&global, cli.log, cli.more, cli.demo, cli.last, &cli.hosts),
        },
        Some(command) => run_command(&global, command),
    }
}

/// Writes a debug log where one is asked for.
fn start_debug_log() -> Result<(), String> {
    let Some(path) = std::env::var_os(debug_log::VARIABLE).filter(|path| !path.is_empty()) else { return Ok(()) };
    debug_log::start(Path::new(&path))
        .map_err(|error| format!("{}={} can't be written: {error}", debug_log::VARIABLE, path.display()))
}

fn run_command(global: &Global, command: Command) -> ExitCode {
    match command {
        Command::Diagnose(args) => diagnose::run(global, &args),
        Command::Report(args) => report::run(global, &args),
        Command::Sources(args) => sources::run(global, &args),
        Command::Sample { count, record: Some(path), .. } => record_sample(&global.sampling, count, &path),
        Command::Sample { count, glance, record: None } => {
            sample(&Sampling { glance, ..global.sampling.clone() }, count)
        }
        Command::Ps { json, hosts } => ps::run(global, json, &hosts),
        Command::Kill(args) => kill::run(global, &args),
        Command::Fit(args) => fit::run(global, &args),
        Command::Completions { shell } => help::completions(Cli::command(), shell),
        Command::Man => help::manual(&Cli::command()),
        Command::Drain => crate::runtime::drain(),
        Command::PassOn => crate::runtime::pass_on(),
        Command::Run(args) => run::run(global, args),
        Command::Watch(args) => run::watch(global, &args),
        Command::Record(args) => record::run(global, &args),
        Command::Schema { name } => schema::run(name),
        Command::Kb { command } => kb::run(global, &command),
    }
}

/// Prints help or the version as clap renders them.
fn help_or_version(rendered: &clap::Error) -> ExitCode {
    let text = rendered.render();
    let shown = if io::stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() };
    output::print(&shown, ExitCode::SUCCESS)
}

/// Records until Ctrl-C, or so many readings. An existing file is not overwritten.
fn record_sample(sampling: &Sampling, count: Option<u64>, path: &Path) -> ExitCode {
    let recorded = fs::File::create_new(path).and_then(|file| machine::record(sampling, count, file));
    match recorded {
        Ok(()) => {
            output::print(&format!("Recorded. `oomdoctor --replay {}` shows it.\n", path.display()), ExitCode::SUCCESS)
        }
        Err(error) => output::refuse(&format!("{} can't be written: {error}", path.display())),
    }
}

/// Runs until the output closes or `count` readings are written. Without a driver each reading says so, and the exit code
/// is 0.
fn sample(sampling: &Sampling, count: Option<u64>) -> ExitCode {
    if let Some(why) = machine::LOGS_ONLY {
        // The readings still contain this machine's system memory.
        let _ = writeln!(io::stderr(), "oomdoctor sample: the readings contain no GPUs: {why}");
    }
    output::sampled(machine::sample(sampling, count))
}
