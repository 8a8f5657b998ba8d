//! Owns the processes that a machine needs: display servers, desktop sessions, NVIDIA's daemons, servers that others
//! share. Named by the kernel's 15-byte name; ending one takes more away than the memory it holds.

use super::invocation::Invocation;
use super::traits::Traits;

/// The kernel's names are cut here.
pub(super) const COMM_BYTES: usize = 15;

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
type Guarded = (&'static [&'static str], Option<&'static str>, &'static str);

/// The names are those of the programs; the kernel's are cut.
const GUARDED: [Guarded; 7] = [
    (&["Xorg", "Xorg.bin", "Xorg.wrap", "X", "Xwayland", "Xvfb"], None, DISPLAY),
    (
        &[
            "gnome-shell",
            "mutter",
            "kwin_wayland",
            "kwin_wayland_wrapper",
            "kwin_x11",
            "plasmashell",
            "ksmserver",
            "startplasma-wayland",
            "startplasma-x11",
            "sway",
            "Hyprland",
            "niri",
            "cosmic-comp",
            "cosmic-session",
            "cinnamon",
            "cinnamon-session",
            "gamescope",
            "weston",
            "labwc",
            "wayfire",
            "river",
            "xfwm4",
            "xfce4-session",
            "lxsession",
            "lxqt-session",
            "mate-session",
            "budgie-wm",
            "openbox",
            "bspwm",
            "awesome",
            "xmonad",
            "qtile",
            "i3",
            "muffin",
            "marco",
            "sddm",
            "sddm-greeter",
            "sddm-greeter-qt6",
            "sddm-helper",
            "gdm",
            "gdm3",
            "gdm-session-worker",
            "gdm-x-session",
            "gdm-wayland-session",
            "lightdm",
            "greetd",
            "lxdm",
            "xdm",
            "xinit",
            "gnome-session-binary",
            "gnome-session-service",
            "gnome-keyring-daemon",
            "dbus-launch",
            "pipewire",
            "wireplumber",
            "pulseaudio",
        ],
        None,
        SESSION,
    ),
    (
        &[
            "dcvserver",
            "dcvagent",
            "xrdp",
            "xrdp-sesman",
            "Xvnc",
            "Xtigervnc",
            "x11vnc",
            "x0vncserver",
            "wayvnc",
            "gnome-remote-desktop-daemon",
            "krdpserver",
            "nxnode.bin",
            "nxserver.bin",
            "sunshine",
            "rustdesk",
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
            "nvidia-topologyd",
        ],
        Some("NVIDIA service"),
        NVIDIA,
    ),
    (&["nvidia-cuda-mps-control", "nvidia-cuda-mps-server"], Some("CUDA MPS"), MPS),
    (&["raylet", "gcs_server"], Some("Ray node"), RAY),
    (
        &[
            // What starts and keeps everything else.
            "systemd",
            "init",
            "systemd-logind",
            "systemd-journald",
            "systemd-udevd",
            "systemd-networkd",
            "systemd-resolved",
            "systemd-machined",
            "systemd-oomd",
            "(sd-pam)",
            "openrc-init",
            "runit",
            "runsvdir",
            "s6-svscan",
            "supervisord",
            "dbus-daemon",
            "dbus-broker",
            "dbus-broker-launch",
            "polkitd",
            "udisksd",
            "NetworkManager",
            "wpa_supplicant",
            "cron",
            "crond",
            "atd",
            "rsyslogd",
            // Who is logged in, and what they left running.
            "sshd",
            "sshd-session",
            "sshd-auth",
            "dropbear",
            "login",
            "agetty",
            "mosh-server",
            "etserver",
            "su",
            "sudo",
            "getty",
            "ttyd",
            "tailscaled",
            "teleport",
            "tmux",
            "tmux: server",
            "byobu",
            "screen",
            "SCREEN",
            "zellij",
            "dtach",
            "abduco",
            // Containers and clusters.
            "tini",
            "dumb-init",
            "podman",
            "jupyterhub",
            "nv-fabricmanager",
            "nvidia-fabricmanager",
            "nv-hostengine",
            "nvidia-dcgm",
            "dockerd",
            "docker-proxy",
            "containerd",
            "containerd-shim",
            "containerd-shim-runc-v2",
            "conmon",
            "crio",
            "kubelet",
            "kube-proxy",
            "k3s",
            "k3s-server",
            "k3s-agent",
            "slurmd",
            "slurmstepd",
            "slurmctld",
            "slurmdbd",
            "munged",
            "pbs_mom",
            "sge_execd",
            "sbatchd",
            "condor_master",
            "condor_startd",
            "condor_starter",
            "nomad",
        ],
        None,
        SYSTEM,
    ),
];

fn guarded(comm: &str) -> Option<(Option<&'static str>, &'static str)> {
    let (_, label, why) =
        GUARDED.iter().find(|(names, ..)| names.iter().any(|name| name.bytes().take(COMM_BYTES).eq(comm.bytes())))?;
    Some((*label, *why))
}

/// Why not to end it.
pub(super) fn protected(comm: &str, command: &str) -> Option<&'static str> {
    if let Some((_, why)) = guarded(comm) {
        return Some(why);
    }
    let words: Vec<String> = command.split_ascii_whitespace().map(str::to_owned).collect();
    let run = Invocation::of(&words);
    if comm.starts_with("xdg-desktop-por") || comm.starts_with("gsd-") {
        return Some(SESSION);
    }
    // Python's supervisor, however it is started.
    if run.name == "supervisord" || run.name == "supervisor.supervisord" {
        return Some(SYSTEM);
    }
    (run.name == "ollama" && run.has("serve")).then_some(OLLAMA)
}

/// What to call it.
pub(super) fn label(traits: &Traits, run: &Invocation) -> Option<String> {
    if let Some((label, _)) = guarded(traits.comm) {
        // The 15 bytes of the kernel's name may be cut: the program's own name is whole.
        let name = if run.name.starts_with(traits.comm) { &run.name } else { traits.comm };
        return Some(label.map_or_else(|| name.to_owned(), |label| format!("{label} {name}")));
    }
    (run.name == "ollama" && run.has("serve")).then(|| "Ollama server".into())
}
