//! Owns the files in which programs leave their logs. Only files of the person's own are looked at.
//! Places: docs.ollama.com/troubleshooting, ComfyUI's app/logger.py and ComfyUI-Manager's prestartup_script.py,
//! lmstudio.ai/docs/cli/log-stream, docs.ray.io/en/latest/ray-observability (2026-11-23).

use std::path::{Path, PathBuf};

use super::Surroundings;

/// Files of one kind: in this folder or below it, with such names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub folder: PathBuf,
    /// How many folders deeper.
    pub depth: u8,
    /// How the name begins and ends.
    pub name: (&'static str, &'static str),
    /// Whose log it is.
    pub program: &'static str,
    /// At most so many, the newest.
    pub most: usize,
}

/// In groups that lie on one file system, since one that does not answer must not hide the others.
pub(super) fn patterns(at: &Surroundings) -> Vec<Vec<Pattern>> {
    let of_home = at.home.as_deref().map(below_home).unwrap_or_default();
    [below_here(&at.folder), of_home, below_tmp()].into_iter().filter(|group| !group.is_empty()).collect()
}

fn below_here(here: &Path) -> Vec<Pattern> {
    vec![
        pattern(here.to_path_buf(), 0, ("slurm-", ".out"), "Slurm job", 3),
        pattern(here.to_path_buf(), 0, ("", ".ipynb"), "notebook", 3),
        pattern(here.to_path_buf(), 0, ("nohup", ".out"), "nohup", 1),
        pattern(here.to_path_buf(), 1, ("comfyui", ".log"), "ComfyUI", 2),
        // torchrun --log-dir: RUN/attempt_0/RANK/stderr.log
        pattern(here.to_path_buf(), 4, ("stderr", ".log"), "torchrun", 2),
    ]
}

fn below_home(home: &Path) -> Vec<Pattern> {
    vec![
        pattern(home.join(".ollama/logs"), 0, ("server", ".log"), "Ollama", 1),
        pattern(home.join("ComfyUI/user"), 0, ("comfyui", ".log"), "ComfyUI", 1),
        pattern(home.join(".lmstudio/server-logs"), 1, ("", ".log"), "LM Studio", 1),
        pattern(home.join(".cache/lm-studio/server-logs"), 1, ("", ".log"), "LM Studio", 1),
        pattern(home.join(".local/share/jupyter/runtime"), 0, ("jupyter", ".log"), "Jupyter", 1),
    ]
}

fn below_tmp() -> Vec<Pattern> {
    let logs = PathBuf::from("/tmp/ray/session_latest/logs");
    vec![pattern(logs.clone(), 0, ("worker-", ".err"), "Ray worker", 2), pattern(logs, 0, ("raylet", ".out"), "Ray", 1)]
}

fn pattern(
    folder: PathBuf,
    depth: u8,
    name: (&'static str, &'static str),
    program: &'static str,
    most: usize,
) -> Pattern {
    Pattern { folder, depth, name, program, most }
}
