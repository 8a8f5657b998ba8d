//! Owns the command line: the arguments, the exit codes, and which module runs each command.
//! Exit codes: 0 found or done, 1 nothing found or not done, 2 wrong usage or unreadable input.

mod diagnose;
mod fit;
mod help;
mod kb;
mod kill;
mod output;
mod ps;
mod report;
mod schema;
mod screen;
mod settings;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use settings::{Look, Options};

use crate::platform::machine;
use crate::runtime::debug_log;

pub use settings::Global;

/// What ran out of GPU memory, who holds it now, and the steps that get the job running again.
#[derive(Debug, Parser)]
#[command(name = "oomdoctor", version, after_help = help::main())]
pub struct Cli {
    #[command(flatten)]
    pub options: Options,
    /// What to do; without one the terminal program starts.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// A log to open; `-` or a pipe reads standard input.
    pub log: Option<PathBuf>,
    /// Show everything on a recorded machine, with no driver; kills are simulated and marked so.
    #[arg(long)]
    pub demo: bool,
    /// Open the log of the last time, with the steps that were taken.
    #[arg(long, conflicts_with_all = ["log", "demo"])]
    pub last: bool,
    #[command(flatten)]
    pub look: Look,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read a log and say what ran out of memory, why, and what to do about it.
    #[command(after_help = help::DIAGNOSE)]
    Diagnose(diagnose::DiagnoseArgs),
    /// Write what was found as Markdown, without names and secrets, to paste where you ask for help.
    #[command(after_help = help::REPORT)]
    Report(report::ReportArgs),
    /// Print readings of this machine's GPUs, one JSON line each.
    #[command(after_help = help::SAMPLE)]
    Sample {
        /// How many readings; without it, until the output closes.
        #[arg(long)]
        count: Option<u64>,
        /// The terminal program tells its sampler how often it wants to know.
        #[arg(long, hide = true)]
        paced: bool,
    },
    /// List the processes that hold GPU memory.
    #[command(after_help = help::PS)]
    Ps {
        /// Print the reading as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Terminate processes that use GPU memory, by PID or PID@START_TICKS, and show how much is freed.
    #[command(after_help = help::KILL)]
    Kill(kill::KillArgs),
    /// Say whether a model fits on a card with what is free now, and what would make it fit.
    #[command(after_help = help::FIT)]
    Fit(Box<fit::FitArgs>),
    /// Read standard input to its end and throw it away, so that its writer does not die of a broken pipe.
    #[command(hide = true)]
    Drain,
    /// Write the completions of a shell: `oomdoctor completions bash > /etc/bash_completion.d/oomdoctor`.
    #[command(hide = true)]
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual page: `oomdoctor man > oomdoctor.1`.
    #[command(hide = true)]
    Man,
    /// Print the JSON Schema of an output, or list the outputs that have one.
    #[command(after_help = help::SCHEMA)]
    Schema {
        /// Which output; without it, all are listed.
        name: Option<schema::Name>,
    },
    /// List, show and check the knowledge base's entries.
    #[command(after_help = help::KB)]
    Kb {
        /// Which of them.
        #[command(subcommand)]
        command: kb::KbCommand,
    },
}

/// Runs the program. No input makes it panic.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    if let Some(path) = std::env::var_os(debug_log::VARIABLE).filter(|path| !path.is_empty())
        && let Err(error) = debug_log::start(Path::new(&path))
    {
        return output::refuse(&format!(
            "{} names {}, which can't be written: {error}",
            debug_log::VARIABLE,
            path.display()
        ));
    }
    log::info!("oomdoctor {} with {:?}", env!("CARGO_PKG_VERSION"), std::env::args_os().skip(1).collect::<Vec<_>>());
    let global = match settings::resolve(cli.options, cli.look) {
        Ok(global) => global,
        Err(message) => return output::refuse(&message),
    };
    log::debug!("settings: {global:?}");
    if cli.command.is_some() && (cli.log.is_some() || cli.demo || cli.last) {
        return output::refuse(
            "a log, --demo or --last goes with the terminal program, not with a subcommand; see --help",
        );
    }
    match cli.command {
        None => screen::run(&global, cli.log, cli.demo, cli.last),
        Some(command) => run_command(&global, command),
    }
}

fn run_command(global: &Global, command: Command) -> ExitCode {
    match command {
        Command::Diagnose(args) => diagnose::run(global, &args),
        Command::Report(args) => report::run(global, &args),
        Command::Sample { count, paced } => sample(global, count, paced),
        Command::Ps { json } => ps::run(global, json),
        Command::Kill(args) => kill::run(global, &args),
        Command::Fit(args) => fit::run(global, &args),
        Command::Completions { shell } => help::completions(Cli::command(), shell),
        Command::Man => help::manual(Cli::command()),
        Command::Drain => crate::runtime::drain(),
        Command::Schema { name } => schema::run(name),
        Command::Kb { command } => kb::run(global, &command),
    }
}

/// Prints help and the version as clap renders them, and a usage error as one line.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let text = error.render();
        let shown = if io::stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() };
        return output::print(&shown, ExitCode::SUCCESS);
    }
    let text = error.to_string();
    // clap lists missing arguments on separate lines.
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let rest: Vec<&str> = lines.collect();
    let said = if rest.is_empty() { first } else { format!("{first} {}", rest.join(" ")) };
    output::refuse(&format!("{said}; see --help"))
}

/// Runs until the output closes or `count` readings are written. Without a driver each reading says so, and the exit code
/// is 0. If `paced`, the interval is read from standard input.
fn sample(global: &Global, count: Option<u64>, paced: bool) -> ExitCode {
    if let Some(why) = machine::LOGS_ONLY {
        // The readings still contain this machine's system memory.
        let _ = writeln!(io::stderr(), "oomdoctor sample: these readings have no GPUs: {why}");
    }
    match machine::sample(&global.sampling, count, paced) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::refuse(&format!("the readings could not be written: {error}")),
    }
}
