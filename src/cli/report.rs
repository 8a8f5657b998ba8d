//! Owns `oomdoctor report`, which writes a diagnosis, or that of the terminal program's last log, as Markdown for others.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::diagnose::{DiagnoseArgs, examine};
use super::output::{print, refuse};
use super::settings::Global;
use crate::app::last::Story;
use crate::gpu::Vantage;
use crate::platform::{here, machine, regular};
use crate::report;
use crate::report::markdown::{Paper, markdown};
use crate::report::redact::Names;
use crate::runtime::runs;
use crate::units::WallTime;

#[derive(Debug, Default, Args)]
pub struct ReportArgs {
    /// Read this log; `-` or a pipe reads standard input; otherwise the last log of the terminal program.
    file: Option<PathBuf>,
    /// Do not read this machine, only the log.
    #[arg(long)]
    no_live: bool,
    /// Set the model, if the log does not name it: llama-3.1-8b, llama3.1:8b.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Also read this memory snapshot of PyTorch (a pickle); repeatable.
    #[arg(long, value_name = "FILE")]
    snapshot: Vec<PathBuf>,
    /// Write to this new file instead of standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file.
    #[arg(long, requires = "output")]
    force: bool,
    /// Keep tokens, home folders, network addresses and names of users and hosts.
    #[arg(long)]
    no_redact: bool,
}

/// Exits with 0 if memory ran out or may have, with 1 if not, and with 2 if the log can't be read or the report can't be
/// written.
pub(super) fn run(global: &Global, args: &ReportArgs) -> ExitCode {
    report(global, args).unwrap_or_else(|message| refuse(&message))
}

fn report(global: &Global, args: &ReportArgs) -> Result<ExitCode, String> {
    let last = args.file.is_none() && !here::is_input_fed();
    let (file, model, snapshot) = (args.file.clone(), args.model.clone(), args.snapshot.clone());
    let asked = DiagnoseArgs { file, last, no_live: args.no_live, model, snapshot, ..DiagnoseArgs::default() };
    let names = names();
    let base = asked.base(global)?;
    let subject = asked.subject(global, base)?;
    let examined = examine(global, &asked, base, &subject);
    let walked = subject.story.as_ref().map(Story::walked).unwrap_or_default();
    let recorded = subject.story.as_ref().map(|story| recorded(story, subject.log.raw())).unwrap_or_default();
    let paper = Paper {
        recorded: &recorded,
        report: examined.report(),
        log: &subject.log,
        origin: &subject.origin,
        at: WallTime(jiff::Timestamp::now()),
        walked: &walked,
        names: (!args.no_redact).then_some(&names),
    };
    let (text, code) = (markdown(&paper), examined.exit_code());
    let Some(path) = &args.output else { return Ok(print(&text, code)) };
    write(path, &text, args.force).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => format!("{} exists; --force overwrites it", path.display()),
        _ => format!("{} can't be written: {error}", path.display()),
    })?;
    Ok(code)
}

/// What the record of the last log's run shows, if it was recorded.
fn recorded(story: &Story, log: &str) -> Vec<String> {
    let Some((path, recording)) = story.record.as_ref().and_then(|path| Some((path, runs::read(path).ok()?))) else {
        return Vec::new();
    };
    report::recorded::lines(&recording, log, runs::next_after(path).as_ref())
}

/// Creates a file that only its owner may read: even without names, a report shows what its owner runs.
fn write(path: &Path, text: &str, force: bool) -> io::Result<()> {
    if force {
        return regular::replace(path, |file| file.write_all(text.as_bytes()));
    }
    here::new_private_file(path)?.write_all(text.as_bytes())
}

/// The names of users and hosts that a report replaces.
pub(super) fn names() -> Names {
    let own = here::user_name();
    let said = ["USER", "LOGNAME", "SUDO_USER"].into_iter().filter_map(|name| std::env::var(name).ok());
    let home = here::home().and_then(|home| Some(home.file_name()?.to_string_lossy().into_owned()));
    let host = here::host_name();
    let short = host.split('.').next().map(str::to_owned);
    // Windows writes the name of the machine or of the company before that of an account.
    let domains = ["USERDOMAIN", "USERDNSDOMAIN"].into_iter().filter_map(|name| std::env::var(name).ok());
    let users: BTreeSet<String> = said.chain([own]).chain(home).collect();
    Names {
        own: users.clone(),
        users,
        hosts: short.into_iter().chain([host]).chain(domains).collect(),
        users_ignore_case: machine::SEEN_FROM.contains(&Vantage::Windows),
    }
}
