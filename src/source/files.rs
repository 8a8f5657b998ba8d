//! Owns the files in which programs leave their logs. Only files of the person's own are looked at.
//! Places: docs.ollama.com/troubleshooting, ComfyUI's app/logger.py and ComfyUI-Manager's prestartup_script.py,
//! lmstudio.ai/docs/cli/log-stream, docs.ray.io/en/latest/ray-observability (2026-11-23).

use std::path::PathBuf;

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

pub(super) fn patterns(at: &Surroundings) -> Vec<Pattern> {
    let mut patterns = Vec::new();
    let mut add =
        |folder: PathBuf, depth: u8, name: (&'static str, &'static str), program: &'static str, most: usize| {
            patterns.push(Pattern { folder, depth, name, program, most });
        };
    let here = &at.folder;
    add(here.clone(), 0, ("slurm-", ".out"), "Slurm job", 3);
    add(here.clone(), 0, ("", ".ipynb"), "notebook", 3);
    add(here.clone(), 0, ("nohup", ".out"), "nohup", 1);
    add(here.clone(), 1, ("comfyui", ".log"), "ComfyUI", 2);
    // torchrun --log-dir: RUN/attempt_0/RANK/stderr.log
    add(here.clone(), 4, ("stderr", ".log"), "torchrun", 2);
    if let Some(home) = &at.home {
        add(home.join(".ollama/logs"), 0, ("server", ".log"), "Ollama", 1);
        add(home.join("ComfyUI/user"), 0, ("comfyui", ".log"), "ComfyUI", 1);
        add(home.join(".lmstudio/server-logs"), 1, ("", ".log"), "LM Studio", 1);
        add(home.join(".cache/lm-studio/server-logs"), 1, ("", ".log"), "LM Studio", 1);
        add(home.join(".local/share/jupyter/runtime"), 0, ("jupyter", ".log"), "Jupyter", 1);
    }
    add(PathBuf::from("/tmp/ray/session_latest/logs"), 0, ("worker-", ".err"), "Ray worker", 2);
    add(PathBuf::from("/tmp/ray/session_latest/logs"), 0, ("raylet", ".out"), "Ray", 1);
    patterns
}
