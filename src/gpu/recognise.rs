//! Owns telling what a process is as people know it ("Jupyter kernel sweep.ipynb", "Ollama runner"), and which
//! processes should not be terminated by default. Pure functions over what /proc says; the patterns are facts about other
//! people's programs (`engines`, `tools` and `system` hold them by kind, `names` reads those that are names alone). Knows
//! nothing of /proc or the driver.

mod engines;
pub mod invocation;
pub mod kin;
pub mod names;
mod system;
mod tools;

pub use invocation::Traits;
pub use system::protected;

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

/// As [`protected`] where the kernel's name is not at hand: the program's own stands for it.
pub fn protected_command(command: &str) -> Option<&'static str> {
    let program = command.split_ascii_whitespace().next().unwrap_or_default();
    // A title such as `sshd: a@pts/0`, or the brackets of one without arguments.
    let name = invocation::base(program).trim_end_matches(':').trim_matches(['[', ']']);
    let comm: String = name.chars().take(names::COMM_BYTES).collect();
    protected(&comm, command)
}

#[cfg(test)]
mod tests;
