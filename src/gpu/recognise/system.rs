//! Owns the processes that a machine needs: display servers, desktop sessions, NVIDIA's daemons, servers that others
//! share. Terminating one takes away more than the memory that it uses.

use super::invocation::{Invocation, Traits};
use super::names::NAMES;

const OLLAMA: &str = "the Ollama server, which uses almost no VRAM itself: unload its model with `ollama stop`";

/// Why a process should not be terminated unless the user insists, for a phrase such as "it is …"; `None` for all others.
/// `comm` is the kernel's name (cut at 15 bytes), `command` the arguments joined by spaces.
pub fn protected(comm: &str, command: &str) -> Option<&'static str> {
    let words: Vec<String> = command.split_ascii_whitespace().map(str::to_owned).collect();
    let run = Invocation::of(&words);
    let guarded = NAMES.guarded.iter().find(|guarded| guarded.covers(comm, &run));
    guarded.map(|guarded| guarded.why.as_str()).or_else(|| is_ollama_server(&run).then_some(OLLAMA))
}

/// What to call such a process.
pub(super) fn label(traits: &Traits, run: &Invocation) -> Option<String> {
    if let Some(guarded) = NAMES.guarded.iter().find(|guarded| guarded.has_name(traits.comm)) {
        // The 15 bytes of the kernel's name may be cut: the program's own name is whole.
        let name = if run.name.starts_with(traits.comm) { &run.name } else { traits.comm };
        return Some(guarded.called.as_ref().map_or_else(|| name.to_owned(), |called| format!("{called} {name}")));
    }
    is_ollama_server(run).then(|| "Ollama server".into())
}

fn is_ollama_server(run: &Invocation) -> bool {
    run.name == "ollama" && run.has("serve")
}
