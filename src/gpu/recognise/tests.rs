//! Command lines as they were seen or are printed by the programs' sources, and what they are.

use super::{Traits, protected, protected_command, recognise};

fn arguments(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn label(comm: &str, line: &str) -> Option<String> {
    recognise(&Traits { comm, arguments: &arguments(line), ..Traits::default() })
}

fn label_in(folder: &str, line: &str) -> Option<String> {
    let arguments = arguments(line);
    recognise(&Traits { comm: "python", arguments: &arguments, working_directory: Some(folder), ..Traits::default() })
}

fn label_under(parents: &[&str], comm: &str, line: &str) -> Option<String> {
    let ancestors: Vec<Vec<String>> = parents.iter().map(|line| arguments(line)).collect();
    recognise(&Traits { comm, arguments: &arguments(line), ancestors: &ancestors, ..Traits::default() })
}

#[test]
fn engines_and_their_workers_are_told_by_their_command_lines() {
    let cases = [
        ("ollama", "/usr/local/bin/ollama serve", "Ollama server"),
        ("ollama", "/usr/bin/ollama runner --ollama-engine --model /m/blobs/sha256-ab --port 41", "Ollama runner"),
        ("ollama", "ollama runner --mlx-engine --model qwen3:8b --port 41", "Ollama runner (qwen3:8b)"),
        (
            "llama-server",
            "/usr/local/lib/ollama/llama-server --model /m/blobs/sha256-ab --port 4 --no-webui --offline -c 8192",
            "Ollama runner",
        ),
        ("llama-server", "./llama-server -m /m/qwen-q4.gguf -c 4096", "llama-server (qwen-q4.gguf)"),
        ("llama-server", "llama-server -hf unsloth/Qwen3-8B-GGUF", "llama-server (unsloth/Qwen3-8B-GGUF)"),
        ("node", "/home/a/.lmstudio/.internal/utils/node /home/a/x/llmworker.js", "LM Studio model"),
        ("vllm", "/usr/bin/python3 /usr/local/bin/vllm serve Qwen/Qwen3-8B --port 8000", "vLLM server (Qwen/Qwen3-8B)"),
        ("python3", "python3 -m vllm.entrypoints.openai.api_server --model=/models/q", "vLLM server (q)"),
        ("python", "python -X dev -m sglang.launch_server --model-path a/b", "SGLang server (a/b)"),
        ("tritonserver", "tritonserver --model-repository /m", "Triton server"),
        ("ray::IDLE", "ray::IDLE", "Ray idle worker"),
        ("ray::Trainer.st", "ray::Trainer.step", "Ray Trainer.step"),
    ];
    for (comm, line, expected) in cases {
        assert_eq!(label(comm, line).as_deref(), Some(expected), "{line}");
    }
}

#[test]
fn a_process_that_set_its_own_title_has_its_model_from_above() {
    let serve = "/usr/bin/python3 /usr/local/bin/vllm serve Qwen/Qwen3-8B";
    assert_eq!(
        label_under(&[serve], "VLLM::EngineCor", "VLLM::EngineCore").as_deref(),
        Some("vLLM engine (Qwen/Qwen3-8B)")
    );
    assert_eq!(
        label_under(&["VLLM::EngineCore_DP0", serve], "VLLM::Worker_TP", "VLLM::Worker_TP1").as_deref(),
        Some("vLLM worker TP1 (Qwen/Qwen3-8B)")
    );
    assert_eq!(label("VLLM::EngineCor", "VLLM::EngineCore").as_deref(), Some("vLLM engine"));
    assert_eq!(
        label_under(&["python -m sglang.launch_server --model-path a/b"], "sglang::schedul", "sglang::scheduler_TP0")
            .as_deref(),
        Some("SGLang scheduler TP0 (a/b)")
    );
}

#[test]
fn a_kernel_is_named_after_its_notebook() {
    let line = arguments("/usr/bin/python3 -m ipykernel_launcher -f /run/kernel-5f1c.json");
    let traits = Traits { comm: "python3", arguments: &line, ..Traits::default() };
    assert_eq!(recognise(&traits).as_deref(), Some("Jupyter kernel"));
    let named = Traits { notebook: Some("/home/a/exp/sweep.ipynb"), ..traits };
    assert_eq!(recognise(&named).as_deref(), Some("Jupyter kernel sweep.ipynb"));
    let editor = "python -m ipykernel_launcher --f=/run/kernel-v2-77x.json";
    assert_eq!(label_in("/home/a/proj", editor).as_deref(), Some("notebook kernel of VS Code (proj)"));
}

#[test]
fn training_and_its_workers_are_named_after_the_script() {
    assert_eq!(label("python", "python -u train.py --batch 4").as_deref(), Some("python train.py"));
    assert_eq!(
        label("python3.12", "/opt/v/bin/python3.12 -W ignore -m my.train").as_deref(),
        Some("python -m my.train")
    );
    assert_eq!(
        label("pt_elastic", "/usr/bin/python /usr/bin/torchrun --nproc-per-node 2 train.py").as_deref(),
        Some("torchrun launcher (train.py)")
    );
    assert_eq!(
        label_under(&["python train.py"], "pt_data_worker", "python train.py").as_deref(),
        Some("DataLoader worker of train.py")
    );
    let spawn = ["python".into(), "-c".into(), "from multiprocessing.spawn import spawn_main; spawn_main()".to_owned()];
    let above = [arguments("python train.py")];
    let traits = Traits { comm: "python", arguments: &spawn, ancestors: &above, ..Traits::default() };
    assert_eq!(recognise(&traits).as_deref(), Some("worker process of train.py"));
}

#[test]
fn image_programs_are_told_by_where_they_run() {
    assert_eq!(label_in("/home/a/ComfyUI", "python main.py --port 8188").as_deref(), Some("ComfyUI"));
    assert_eq!(label_in("/home/a", "python /opt/ComfyUI/main.py").as_deref(), Some("ComfyUI"));
    assert_eq!(label_in("/home/a/mine", "python main.py").as_deref(), Some("python main.py"));
    assert_eq!(label_in("/s/stable-diffusion-webui-forge", "python launch.py").as_deref(), Some("Forge"));
    assert_eq!(
        label_in("/s/sd-scripts", "python sdxl_train_network.py --output_name=cat").as_deref(),
        Some("kohya training (cat)")
    );
}

#[test]
fn desktops_browsers_and_games_are_told() {
    assert_eq!(label("Xorg", "/usr/lib/xorg/Xorg :0 -seat seat0").as_deref(), Some("Xorg"));
    assert_eq!(
        label("nvidia-persiste", "/usr/bin/nvidia-persistenced --user nvpd").as_deref(),
        Some("NVIDIA service nvidia-persistenced")
    );
    let chrome = ["/opt/google/chrome/chrome --type=gpu-process --ozone-platform=x11".to_owned()];
    let traits = Traits { comm: "chrome", arguments: &chrome, ..Traits::default() };
    assert_eq!(recognise(&traits).as_deref(), Some("GPU process of chrome"));
    assert_eq!(label("Game.exe", "Z:\\games\\Game.exe").as_deref(), Some("Game.exe (Wine)"));
    assert_eq!(label("sleep", "sleep 100"), None);
    assert_eq!(recognise(&Traits::default()), None);
}

#[test]
fn what_others_depend_on_is_protected_and_their_work_is_not() {
    for (comm, command) in [
        ("Xorg", "/usr/lib/xorg/Xorg :0"),
        ("gnome-shell", "/usr/bin/gnome-shell"),
        ("gnome-remote-de", "/usr/libexec/gnome-remote-desktop-daemon"),
        ("xdg-desktop-por", "/usr/libexec/xdg-desktop-portal-gnome"),
        ("nvidia-persiste", "nvidia-persistenced"),
        ("nvidia-cuda-mps", "nvidia-cuda-mps-server"),
        ("ollama", "/usr/local/bin/ollama serve"),
        ("raylet", "raylet --x"),
        ("sshd", "sshd: a@pts/0"),
        ("sshd-session", "sshd-session: a [priv]"),
        ("sshd-session", "/usr/lib/openssh/sshd-session -R"),
        ("login", "/bin/login -p --"),
        ("screen", "SCREEN -S train"),
        ("screen", "/usr/bin/SCREEN -dmS train"),
        ("tmux: server", "tmux new -s train"),
        ("gdm-session-wor", "gdm-session-worker [pam/gdm-password]"),
        ("mosh-server", "mosh-server new -s -c 256"),
        ("nxnode", "/usr/NX/bin/nxnode"),
        ("ly", "/usr/bin/ly"),
        ("supervisord", "/usr/bin/python3 /usr/bin/supervisord -n -c /etc/supervisord.conf"),
        ("python3", "python3 -m supervisor.supervisord -n"),
        ("systemd", "/usr/lib/systemd/systemd --user"),
        ("(sd-pam)", "(sd-pam)"),
        ("dbus-broker-lau", "/usr/bin/dbus-broker-launch --scope user"),
        ("kwin_wayland_wr", "/usr/bin/kwin_wayland_wrapper --xwayland"),
        ("gsd-media-keys", "/usr/libexec/gsd-media-keys"),
        ("gnome-session-b", "/usr/libexec/gnome-session-binary --session=ubuntu"),
        ("containerd-shim", "/usr/bin/containerd-shim-runc-v2 -namespace moby"),
        ("slurmstepd", "slurmstepd: [81234.0]"),
        ("nv-fabricmanage", "/usr/bin/nv-fabricmanager -c /usr/share/nvidia/fabricmanager.cfg"),
    ] {
        assert!(protected(comm, command).is_some(), "{comm}");
        assert!(protected_command(command).is_some(), "{command}");
    }
    for (comm, command) in [
        ("ollama", "ollama runner --model x"),
        ("python", "python train.py"),
        ("Xorg2", "Xorg2"),
        ("gnome-remote", "gnome-remote"),
        ("chrome", "chrome --type=gpu-process"),
        ("", ""),
        ("python", "python login.py"),
        ("screenshot", "screenshot"),
        ("python", "python -m tmux_trainer"),
        ("bash", "bash -c screen"),
    ] {
        assert_eq!(protected(comm, command), None, "{comm}");
        assert_eq!(protected_command(command), None, "{command}");
    }
}
