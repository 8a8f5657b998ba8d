//! Owns the processes that a machine needs: display servers, desktop sessions, NVIDIA's daemons, servers that others
//! share. Named by the kernel's 15-byte name; ending one takes more away than the memory it holds.

use super::Traits;
use super::invocation::Invocation;

/// The kernel's names are cut here.
pub const COMM_BYTES: usize = 15;

const DISPLAY: &str = "the display server: ending it closes everything on the screen";
const SESSION: &str = "part of the desktop session: ending it logs the user out";
const REMOTE: &str = "a remote desktop's server: ending it cuts that session off";
const NVIDIA: &str = "one of NVIDIA's own services: other programs on the GPU depend on it";
const MPS: &str =
    "CUDA's multi-process service: its clients end with it; `echo quit | nvidia-cuda-mps-control` ends it";
const OLLAMA: &str = "the Ollama server, which holds next to no GPU memory itself: stop its model with `ollama stop`";
const RAY: &str = "a Ray node's own service: every job on this node depends on it; `ray stop` ends them all";
const SYSTEM: &str = "a system service that others depend on";

/// Names, what to call them where the name alone says too little, and why to leave them alone.
const GUARDED: [(&[&str], Option<&str>, &str); 9] = [
    (&["Xorg", "Xorg.bin", "X", "Xwayland"], None, DISPLAY),
    (
        &["gnome-shell", "mutter", "kwin_wayland", "kwin_x11", "plasmashell", "ksmserver", "sway", "Hyprland", "niri"],
        None,
        SESSION,
    ),
    (
        &["cosmic-comp", "cinnamon", "gamescope", "weston", "labwc", "wayfire", "river", "xfwm4", "xfce4-session"],
        None,
        SESSION,
    ),
    (
        &[
            "sddm",
            "sddm-greeter",
            "sddm-helper",
            "gdm",
            "gdm3",
            "gdm-x-session",
            "gdm-wayland-session",
            "lightdm",
            "gnome-session-binary",
            "muffin",
            "marco",
            "i3",
        ],
        None,
        SESSION,
    ),
    (
        &[
            "dcvserver",
            "dcvagent",
            "xrdp",
            "Xvnc",
            "gnome-remote-desktop-daemon",
            "krdpserver",
            "nxnode.bin",
            "sunshine",
        ],
        None,
        REMOTE,
    ),
    (
        &[
            "nvidia-persistenced",
            "nvidia-powerd",
            "nv-fabricmanager",
            "nvidia-imex",
            "nv-hostengine",
            "dcgm-exporter",
            "nvidia-device-plugin",
        ],
        Some("NVIDIA service"),
        NVIDIA,
    ),
    (&["nvidia-cuda-mps-control", "nvidia-cuda-mps-server"], Some("CUDA MPS"), MPS),
    (&["raylet", "gcs_server"], Some("Ray node"), RAY),
    (
        &[
            "systemd",
            "init",
            "systemd-logind",
            "dbus-daemon",
            "dbus-broker",
            "sshd",
            "dockerd",
            "containerd",
            "containerd-shim-runc-v2",
            "kubelet",
            "slurmd",
            "slurmstepd",
            "tmux: server",
        ],
        None,
        SYSTEM,
    ),
];

fn guarded(comm: &str) -> Option<(Option<&'static str>, &'static str)> {
    let is = |name: &&str| name.bytes().take(COMM_BYTES).eq(comm.bytes());
    GUARDED.iter().find(|(names, ..)| names.iter().any(is)).map(|(_, label, why)| (*label, *why))
}

/// Why not to end it.
pub fn protected(comm: &str, command: &str) -> Option<&'static str> {
    if let Some((_, why)) = guarded(comm) {
        return Some(why);
    }
    let words: Vec<String> = command.split_ascii_whitespace().map(str::to_owned).collect();
    let run = Invocation::of(&words);
    if comm.starts_with("xdg-desktop-por") {
        return Some(SESSION);
    }
    (run.name == "ollama" && run.has("serve")).then_some(OLLAMA)
}

/// What to call it.
pub fn label(traits: &Traits, run: &Invocation) -> Option<String> {
    if let Some((label, _)) = guarded(traits.comm) {
        // The 15 bytes of the kernel's name may be cut: the program's own name is whole.
        let name = if run.name.starts_with(traits.comm) { &run.name } else { traits.comm };
        return Some(label.map_or_else(|| name.to_owned(), |label| format!("{label} {name}")));
    }
    (run.name == "ollama" && run.has("serve")).then(|| "Ollama server".into())
}
