//! Owns a command that is to be run again, as the question shows it and `Effect::RunAgain` carries it.

use std::path::PathBuf;

use crate::gpu::ProcessKey;
use crate::knowledge::FixId;
use crate::record::{RunOptions, Try};

/// A command to run, as it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAgain {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The arguments of the run that failed.
    pub before: Vec<String>,
    /// The folder that it ran in.
    pub folder: PathBuf,
    /// The options that `oomdoctor run` had.
    pub options: RunOptions,
    /// The fix whose change it tries, and the record of the run that failed.
    pub tries: Try,
    /// The same fix among those of the walk.
    pub step: Option<(FixId, Option<ProcessKey>)>,
    /// The title of that fix.
    pub title: Option<String>,
}

impl RunAgain {
    /// The command as a person would type it.
    pub fn line(&self) -> String {
        quoted(&self.argv).join(" ")
    }

    /// The options of `oomdoctor run` as a person would type them; `None` without any.
    pub fn options_line(&self) -> Option<String> {
        (!self.options.are_none()).then(|| quoted(&self.options.arguments()).join(" "))
    }

    /// Each argument as it would be typed, beside what the failed run had.
    pub fn arguments(&self) -> Vec<Argument> {
        let mut left = self.before.clone();
        let taken: Vec<bool> = self.argv.iter().map(|argument| take(&mut left, argument)).collect();
        // Where as many are new as are left out, each stands in the place of another.
        let are_paired = taken.iter().filter(|taken| !**taken).count() == left.len();
        let mut was = quoted(&left).into_iter();
        let arguments = quoted(&self.argv).into_iter().zip(taken);
        arguments
            .map(|(text, taken)| Argument {
                text,
                is_new: !taken,
                was: if taken || !are_paired { None } else { was.next() },
            })
            .collect()
    }

    /// The arguments of the failed run that have no other in their place.
    pub fn left_out(&self) -> Vec<String> {
        let mut left = self.before.clone();
        let new = self.argv.iter().filter(|argument| !take(&mut left, argument)).count();
        if new == left.len() { Vec::new() } else { quoted(&left) }
    }
}

/// An argument of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub text: String,
    /// The run that failed did not have it.
    pub is_new: bool,
    /// What it had instead.
    pub was: Option<String>,
}

/// Removes one argument like this; false if there is none.
fn take(arguments: &mut Vec<String>, wanted: &String) -> bool {
    let found = arguments.iter().position(|argument| argument == wanted);
    found.map(|at| arguments.remove(at)).is_some()
}

fn quoted(arguments: &[String]) -> Vec<String> {
    let quote = |argument: &String| match shlex::try_quote(argument) {
        Ok(quoted) => quoted.into_owned(),
        Err(_) => format!("{argument:?}"),
    };
    arguments.iter().map(quote).collect()
}
