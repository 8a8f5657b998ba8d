//! Owns telling what a process is as people know it ("Jupyter kernel sweep.ipynb", "Ollama runner"), and which
//! processes should not be ended by default. Pure functions over what /proc says; the patterns are facts about other
//! people's programs (`engines`, `tools` and `system` hold them by kind). Knows nothing of /proc or the driver.

mod engines;
pub mod invocation;
pub mod kin;
mod system;
mod tools;
mod traits;

pub use traits::Traits;

use invocation::Invocation;

/// A short label, or `None` where the command line alone says as much. Text out of the arguments is passed on as it
/// is, control characters too.
pub fn recognise(traits: &Traits) -> Option<String> {
    let run = Invocation::of(traits.arguments);
    system::label(traits, &run)
        .or_else(|| engines::label(traits, &run))
        .or_else(|| tools::label(traits, &run))
        .or_else(|| run.python_label())
}

/// Why a process should not be ended unless the user insists, for a phrase such as "it is …"; `None` for all others.
/// `comm` is the kernel's name (cut at 15 bytes), `command` the arguments joined by spaces.
pub fn protected(comm: &str, command: &str) -> Option<&'static str> {
    system::protected(comm, command)
}

/// As [`protected`] where the kernel's name is not at hand: the program's own stands for it.
pub fn protected_command(command: &str) -> Option<&'static str> {
    let program = command.split_ascii_whitespace().next().unwrap_or_default();
    // A title such as `sshd: a@pts/0`, or the brackets of one without arguments.
    let name = invocation::base(program).trim_end_matches(':').trim_matches(['[', ']']);
    let comm: String = name.chars().take(system::COMM_BYTES).collect();
    system::protected(&comm, command)
}

#[cfg(test)]
mod tests;
