//! Owns running a confirmed command again: `oomdoctor run` in the foreground of the same terminal, which this program has
//! left meanwhile, and reading the recording of that run afterwards.

use std::ffi::OsString;
use std::io::{self, Write, stderr};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use super::runs;
use super::wake::{Tell, Wake};
use crate::app::Msg;
use crate::app::replay::Played;
use crate::app::run_again::RunAgain;
use crate::platform::here;
use crate::record::End;

/// The recording of a command that succeeded is finished in the background, within this time.
const FINISHING: Duration = Duration::from_secs(2);
const GLANCE: Duration = Duration::from_millis(50);

/// What every such run is started with.
#[derive(Clone, Debug, Default)]
pub struct Runner {
    /// The options that this program was given.
    pub options: Vec<OsString>,
    /// The state folder, which has the recordings.
    pub state: Option<PathBuf>,
}

impl Runner {
    /// Starts the command and answers with `Msg::RanAgain` when it ended. The terminal is the command's until then.
    pub(super) fn start(&self, run: RunAgain, wakes: Sender<Wake>) {
        let _ = writeln!(stderr(), "oomdoctor: running in {}: {}", run.folder.display(), run.line());
        let child = match self.command(&run).and_then(|mut command| command.spawn()) {
            Ok(child) => child,
            Err(error) => return tell(&wakes, run, Err(error.to_string())),
        };
        let (runner, answer, lost) = (self.clone(), wakes.clone(), run.clone());
        let spawned = thread::Builder::new().name("run".into()).spawn(move || {
            let outcome = runner.wait_for(child, &run).map_err(|error| error.to_string());
            tell(&answer, run, outcome);
        });
        if let Err(error) = spawned {
            tell(&wakes, lost, Err(error.to_string()));
        }
    }

    fn command(&self, run: &RunAgain) -> io::Result<Command> {
        if !run.folder.is_dir() {
            return Err(io::Error::other(format!("the folder {} is not there any more", run.folder.display())));
        }
        let mut command = Command::new(here::own_program()?);
        command.args(&self.options).args(["run", "--tries", &run.tries.fix, "--after", &run.tries.after]);
        command.args(run.options.arguments()).arg("--").args(&run.argv).current_dir(&run.folder);
        Ok(command)
    }

    fn wait_for(&self, mut child: Child, run: &RunAgain) -> io::Result<(End, Option<Arc<Played>>)> {
        let status = child.wait()?;
        let due = Instant::now() + FINISHING;
        let state = self.state.as_deref();
        let newest = || state.and_then(|state| runs::newest_that_tries(state, &run.tries));
        let mut tape = newest();
        while tape.as_ref().is_none_or(|tape| tape.recording.end.is_none()) && Instant::now() < due {
            thread::sleep(GLANCE);
            tape = newest();
        }
        let recorded = tape.as_ref().and_then(|tape| tape.recording.end).map(|(_, end)| end);
        let end = recorded.or_else(|| status.code().map(End::Code)).unwrap_or(End::Unknown);
        Ok((end, tape.map(Arc::new)))
    }
}

fn tell(wakes: &Sender<Wake>, run: RunAgain, outcome: Result<(End, Option<Arc<Played>>), String>) {
    wakes.tell(Msg::RanAgain(Box::new(run), outcome));
}
