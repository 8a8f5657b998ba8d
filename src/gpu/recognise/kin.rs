//! Owns the question whether a process works for its parent, so that it ends with it: a rank of torchrun, vLLM's engine,
//! a DataLoader's worker. A shell, a terminal, an init or a session started what has nothing to do with it.

use super::invocation::{How, Invocation, Traits, base};
use super::names::NAMES;
use super::{engines, system, tools};

/// What a process is to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// It works for its parent alone.
    Worker,
    /// Its parent serves several that have nothing to do with each other: a notebook server, a Ray node.
    Guest,
}

/// What a process is to its parent; `None` where it is nothing to it. `holds`: the parent computes on a GPU itself.
pub fn bond(parent: &Traits, child: &Traits, holds: bool) -> Option<Bond> {
    let run = Invocation::of(parent.arguments);
    if tools::is_notebook_server(&run) || parent.comm == "raylet" {
        return Some(Bond::Guest);
    }
    if system::protected(parent.comm, &parent.arguments.join(" ")).is_some() || is_shell(parent.comm, &run) {
        return None;
    }
    let launches = tools::launcher(parent, &run).is_some();
    let serves = engines::label(parent, &run).is_some();
    // A fork has its parent's arguments; so have Lightning's ranks, which are started as copies.
    let copy = !child.arguments.is_empty() && child.arguments == parent.arguments;
    let is_python = run.how != How::Program || parent.comm.starts_with("python") || parent.comm.starts_with("pt_");
    let works = launches || serves || copy || holds || is_python && needs_a_parent(child);
    works.then_some(Bond::Worker)
}

/// Processes that a program starts of itself, and nobody else does.
fn needs_a_parent(child: &Traits) -> bool {
    let title = child.arguments.first().map(String::as_str).unwrap_or_default();
    let run = Invocation::of(child.arguments);
    child.comm == "pt_data_worker"
        || ["VLLM::", "sglang::"].iter().any(|engine| title.starts_with(engine))
        || run.how == How::Code && run.name.contains("from multiprocessing.")
}

/// The same where only its label and its command line are at hand.
pub fn is_named_as_a_worker(label: &str, command: &str) -> bool {
    ["DataLoader worker", "worker process", "fork server"].iter().any(|of| label.starts_with(of))
        || ["VLLM::", "sglang::"].iter().any(|engine| command.starts_with(engine))
}

/// Whether others were started from it that are on their own: a shell, a multiplexer, an init.
pub fn is_a_start(comm: &str, arguments: &[String]) -> bool {
    is_shell(comm, &Invocation::of(arguments))
}

/// A shell, a multiplexer, an init: whoever they start is on their own. A shell's script has the shell's name.
fn is_shell(comm: &str, run: &Invocation) -> bool {
    let program = base(run.name.trim_start_matches('-'));
    NAMES.starts.iter().any(|name| name == comm || name == program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    /// `comm|command line`, the parent's and the child's.
    fn between(parent: &str, child: &str, holds: bool) -> Option<Bond> {
        let part = |text: &str| {
            let (comm, line) = text.split_once('|').unwrap();
            (comm.to_owned(), words(line))
        };
        let ((parent_comm, parent_line), (child_comm, child_line)) = (part(parent), part(child));
        let traits =
            |comm: &'static str, line: &'static [String]| Traits { comm, arguments: line, ..Traits::default() };
        let leak = |text: String| -> &'static str { text.leak() };
        let parent = traits(leak(parent_comm), parent_line.leak());
        bond(&parent, &traits(leak(child_comm), child_line.leak()), holds)
    }

    #[test]
    fn workers_belong_to_what_started_them() {
        let spawned = "python|python -c from_multiprocessing.spawn_import_spawn_main";
        let cases = [
            ("pt_elastic|/env/bin/python /env/bin/torchrun --nproc-per-node 4 train.py", "python|python -u train.py"),
            ("accelerate|/env/bin/python /env/bin/accelerate launch train.py", "python|python train.py"),
            ("python|python -u -m deepspeed.launcher.launch --world_info=x train.py", "python|python -u train.py"),
            ("mpirun|mpirun -np 8 python train.py", "python|python train.py"),
            ("vllm|/env/bin/python /env/bin/vllm serve m", "VLLM::EngineCor|VLLM::EngineCore"),
            ("VLLM::EngineCor|VLLM::EngineCore", "VLLM::Worker_TP|VLLM::Worker_TP1"),
            ("python|python -m sglang.launch_server --model-path m", "sglang::schedul|sglang::scheduler_TP0"),
            ("python|python train.py --epochs 3", "pt_data_worker|python train.py --epochs 3"),
            ("python|python train.py", "python|python train.py"),
            ("llama-server|llama-server --models-dir /m", "llama-server|llama-server --port 8090 -m a.gguf"),
        ];
        for (parent, child) in cases {
            assert_eq!(between(parent, child, false), Some(Bond::Worker), "{parent} > {child}");
        }
        assert_eq!(between("python|python train.py", spawned, false), None, "underscores are not that code");
    }

    #[test]
    fn what_a_shell_a_terminal_or_an_init_started_is_on_its_own() {
        let parents = [
            "bash|-bash",
            "bash|bash train_all.sh",
            "zsh|/usr/bin/zsh",
            "tmux: server|tmux",
            "screen|SCREEN -S a",
            "sshd|sshd: ada@pts/0",
            "systemd|/usr/lib/systemd/systemd --user",
            "tini|/sbin/tini -- python train.py",
            "slurmstepd|slurmstepd: [81234.0]",
            "code|/usr/share/code/code",
            "gnome-shell|/usr/bin/gnome-shell",
            "ollama|/usr/local/bin/ollama serve",
        ];
        let children = ["python|python train.py", "pt_data_worker|python train.py", "VLLM::EngineCor|VLLM::EngineCore"];
        for parent in parents {
            for child in children {
                assert_eq!(between(parent, child, parent.starts_with("gnome")), None, "{parent} > {child}");
            }
        }
        assert_eq!(
            between("python|python sweep.py", "python|python train.py", false),
            None,
            "one that computes nothing"
        );
        assert_eq!(between("python|python sweep.py", "python|python train.py", true), Some(Bond::Worker));
    }

    #[test]
    fn a_notebook_server_and_a_ray_node_have_guests() {
        let kernel = "python|python -m ipykernel_launcher -f kernel-1.json";
        assert_eq!(between("jupyter-lab|/env/bin/python /env/bin/jupyter-lab", kernel, false), Some(Bond::Guest));
        assert_eq!(
            between("raylet|/ray/raylet --raylet_socket_name=x", "ray::Train|ray::Train.step", false),
            Some(Bond::Guest)
        );
    }
}
