//! Owns telling what a process is as people know it ("Jupyter kernel sweep.ipynb", "Ollama runner"), and which
//! processes should not be ended by default. Pure functions over what /proc says; the patterns are facts about other
//! people's programs (`engines`, `tools` and `system` hold them by kind). Knows nothing of /proc or the driver.

mod engines;
pub(crate) mod invocation;
pub(crate) mod kin;
mod system;
mod tools;

use invocation::Invocation;

/// What is known of a process. Unknown parts are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits<'a> {
    /// The kernel's name of it, at most 15 bytes.
    pub comm: &'a str,
    /// Its arguments; a single one where it set its own title.
    pub arguments: &'a [String],
    pub working_directory: Option<&'a str>,
    /// The arguments of the processes above it, nearest first.
    pub ancestors: &'a [Vec<String>],
    /// JPY_SESSION_NAME: the notebook that a Jupyter kernel belongs to.
    pub notebook: Option<&'a str>,
}

impl Traits<'_> {
    /// The last part of the working directory, in lower case.
    fn folder(&self) -> String {
        invocation::base(self.working_directory.unwrap_or_default()).to_ascii_lowercase()
    }

    /// The nearest process above that still has arguments of its own (titles wipe them).
    fn parent(&self) -> Option<Invocation> {
        self.ancestors.iter().find(|arguments| arguments.len() > 1).map(|arguments| Invocation::of(arguments))
    }
}

/// A short label, or `None` where the command line alone says as much. Text out of the arguments is passed on as it
/// is, control characters too.
pub(crate) fn recognise(traits: &Traits) -> Option<String> {
    let run = Invocation::of(traits.arguments);
    system::label(traits, &run)
        .or_else(|| engines::label(traits, &run))
        .or_else(|| tools::label(traits, &run))
        .or_else(|| run.python_label())
}

/// Why a process should not be ended unless the user insists, for a phrase such as "it is …"; `None` for all others.
/// `comm` is the kernel's name (cut at 15 bytes), `command` the arguments joined by spaces.
pub(crate) fn protected(comm: &str, command: &str) -> Option<&'static str> {
    system::protected(comm, command)
}

/// As [`protected`] where the kernel's name is not at hand: the program's own stands for it.
pub(crate) fn protected_command(command: &str) -> Option<&'static str> {
    let program = command.split_ascii_whitespace().next().unwrap_or_default();
    // A title such as `sshd: a@pts/0`, or the brackets of one without arguments.
    let name = invocation::base(program).trim_end_matches(':').trim_matches(['[', ']']);
    let comm: String = name.chars().take(system::COMM_BYTES).collect();
    system::protected(&comm, command)
}

/// `label (detail)`, or the label alone.
fn with(label: &str, detail: Option<&str>) -> String {
    match detail.filter(|detail| !detail.is_empty()) {
        Some(detail) => format!("{label} ({detail})"),
        None => label.to_owned(),
    }
}

#[cfg(test)]
mod tests;
