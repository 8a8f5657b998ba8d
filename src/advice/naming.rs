//! Owns how a process, a GPU and an amount are named in a sentence.

use crate::gpu::{Device, GpuProcess};
use crate::units::Bytes;

/// A process's name as it is shown has no more characters.
const LONGEST_NAME: usize = 40;

/// A process in the fewest words that name it: "notebook sweep.ipynb (4242)".
pub fn name_of(process: &GpuProcess) -> String {
    let name = process.recognised_as.clone().or_else(|| process.command.known().map(|command| telling_part(command)));
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("{name} ({})", process.pid),
        None => format!("process {}", process.pid),
    }
}

/// Its user, as it is shown.
pub(crate) fn user_of(process: &GpuProcess) -> String {
    process.user.known().cloned().unwrap_or_else(|| "another user".to_owned())
}

/// A device in a word: "GPU 0 (RTX 4090)".
pub fn name_of_device(device: &Device) -> String {
    match device.name.known() {
        Some(name) => format!("GPU {} ({})", device.index, short_card(name)),
        None => format!("GPU {}", device.index),
    }
}

/// A GPU's name without the maker's words: "RTX 4090".
pub fn short_card(name: &str) -> &str {
    name.trim().trim_start_matches("NVIDIA ").trim_start_matches("GeForce ")
}

/// The part of a command line that tells one program from another: `python train.py` out of
/// `/home/ada/env/bin/python3 -u train.py --batch 8`.
fn telling_part(command: &str) -> String {
    let mut words = command.split_whitespace();
    let program = words.next().map_or("", file_name);
    let name = if program.starts_with("python") { python_name(program, words) } else { program.to_owned() };
    name.chars().take(LONGEST_NAME).collect()
}

fn python_name<'a>(program: &str, mut words: impl Iterator<Item = &'a str>) -> String {
    match words.find(|word| !word.starts_with('-') || matches!(*word, "-m" | "-c")) {
        Some("-m") => format!("python -m {}", words.next().unwrap_or_default()),
        Some("-c") => "python -c …".to_owned(),
        Some(script) => format!("python {}", file_name(script)),
        None => program.to_owned(),
    }
}

/// The last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A figure and its unit where it is known, "an unknown amount" where not.
pub fn amount(bytes: Option<Bytes>) -> String {
    bytes.map_or_else(|| "an unknown amount".to_owned(), |bytes| bytes.to_string())
}

/// Two sizes that differ, printed finely enough to look different.
pub(crate) fn apart(one: Bytes, other: Bytes) -> (String, String) {
    let look_alike = one != other && one.to_string() == other.to_string();
    match (look_alike, one, other) {
        (true, ..) => (in_mib(one), in_mib(other)),
        // A log that counts in GiB rounds what is next to nothing to 0.0.
        (false, _, Bytes::ZERO) if one >= Bytes::gib(1) => (one.to_string(), format!("{} GiB", other.in_gib())),
        _ => (one.to_string(), other.to_string()),
    }
}

fn in_mib(bytes: Bytes) -> String {
    format!("{} MiB", bytes.0 >> 20)
}

/// The text with a capital at its head and a full stop at its end.
pub(crate) fn sentence(text: &str) -> String {
    let stop = if text.ends_with(['.', '!', '?', ':']) || text.is_empty() { "" } else { "." };
    format!("{}{stop}", capitalized(text))
}

/// The text with a capital at its head.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A sentence that goes on after a colon.
pub(crate) fn uncapitalized(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
