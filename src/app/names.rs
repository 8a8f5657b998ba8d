//! Owns the short names of processes, for the footer and for their letters.

use crate::gpu::GpuProcess;

/// What it is in a word or two: `jupyter`, `ollama`, `train.py`.
pub(crate) fn short_name(row: &GpuProcess) -> String {
    let name = crate::advice::name_of(row);
    let name = name.rsplit_once(" (").map_or(name.as_str(), |(name, _)| name);
    match name.split_once(' ') {
        // Of "python train.py" the script tells more.
        Some((first, rest)) if first.starts_with("python") && (!rest.starts_with('-') || rest.starts_with("-m ")) => {
            rest.trim_start_matches("-m ").to_owned()
        }
        Some((first, _)) => first.to_lowercase(),
        None => name.to_owned(),
    }
}
