//! Owns reading where a process belongs out of /proc/PID/cgroup: a container, a Slurm job, a systemd unit.
//! Needs no daemon and no rights; inside a cgroup namespace the path is `/` and nothing is known.

use crate::gpu::recognise::names::NAMES;

/// Who started a process and would be the one to stop it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A docker container, by its id.
    Docker(String),
    /// A podman container, by its id.
    Podman(String),
    /// A pod and the container in it.
    Kubernetes {
        /// The pod's UID, with `-`.
        pod: String,
        /// The container's id; empty where the path does not say.
        id: String,
    },
    /// An LXC container, by name.
    Lxc(String),
    /// A Slurm job, by number or SLUID.
    Slurm(String),
    /// A unit of the machine's systemd, such as ollama.service, as its commands take it (`\\x2d` stays).
    Service(String),
    /// A unit of a user's own systemd: its commands need `--user`.
    UserService(String),
}

/// Where a process belongs, as one word each.
#[derive(Debug, Default)]
pub(crate) struct Belongs {
    /// See `Place::container`.
    pub container: Option<String>,
    /// Who starts it again or ends all of it: `slurm:81234`, `service:ollama.service`, `user-service:comfy.service`. `None` for
    /// containers, which their engines run, but not for a container that systemd runs (podman's Quadlet).
    pub manager: Option<String>,
}

impl Belongs {
    /// Reads the text of /proc/PID/cgroup.
    pub(crate) fn of(cgroup: &str) -> Belongs {
        let found = paths(cgroup).into_iter().find_map(|path| Some((Place::of_path(path)?, path)));
        let Some((place, path)) = found else { return Belongs::default() };
        let manager = match place {
            Place::Podman(_) => service(&parts(path)).and_then(|service| service.manager_word()),
            _ => place.manager_word(),
        };
        Belongs { container: place.container(), manager }
    }
}

impl Place {
    /// Reads the text of /proc/PID/cgroup; `None` where it names none of these.
    pub(crate) fn parse(cgroup: &str) -> Option<Place> {
        paths(cgroup).into_iter().find_map(Place::of_path)
    }

    /// The container as one word, `docker:0123456789ab`, `podman:…`, `kubernetes:POD/…`, `lxc:NAME`, with the id's
    /// first 12 digits as the engines' own commands take them. `None` where it is no container.
    pub(crate) fn container(&self) -> Option<String> {
        (!self.is_managed()).then(|| self.word())
    }

    fn manager_word(&self) -> Option<String> {
        self.is_managed().then(|| self.word())
    }

    /// True for what its manager starts again or ends as a whole, which no container is.
    fn is_managed(&self) -> bool {
        matches!(self, Place::Slurm(_) | Place::Service(_) | Place::UserService(_))
    }

    fn word(&self) -> String {
        match self {
            Place::Docker(id) => format!("docker:{id:.12}"),
            Place::Podman(id) => format!("podman:{id:.12}"),
            Place::Kubernetes { pod, id } if id.is_empty() => format!("kubernetes:{pod}"),
            Place::Kubernetes { pod, id } => format!("kubernetes:{pod}/{id:.12}"),
            Place::Lxc(name) => format!("lxc:{name}"),
            Place::Slurm(job) => format!("slurm:{job}"),
            Place::Service(unit) => format!("service:{unit}"),
            Place::UserService(unit) => format!("user-service:{unit}"),
        }
    }

    fn of_path(path: &str) -> Option<Place> {
        let parts = parts(path);
        kubernetes(&parts)
            .or_else(|| parts.iter().rev().find_map(|part| engine(part)))
            .or_else(|| after(&parts, "docker").filter(|id| is_id(id)).map(|id| Place::Docker(id.to_owned())))
            .or_else(|| lxc(&parts))
            .or_else(|| slurm(&parts))
            .or_else(|| service(&parts))
    }
}

/// v2 has one line; in v1 and hybrid setups the controllers that container engines use come first.
fn paths(cgroup: &str) -> Vec<&str> {
    let mut lines: Vec<(&str, &str)> = cgroup.lines().filter_map(controller_and_path).collect();
    lines.sort_by_key(|(controller, _)| match *controller {
        "" => 0,
        "name=systemd" => 1,
        "memory" | "devices" => 2,
        _ => 3,
    });
    lines.into_iter().map(|(_, path)| path).collect()
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

fn controller_and_path(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(':')?;
    rest.split_once(':')
}

/// `docker-ID.scope`, `libpod-ID.scope`, `libpod-payload-ID`; not `libpod-conmon-ID`, which is podman's own watcher.
fn engine(part: &str) -> Option<Place> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    ["docker-", "libpod-payload-", "libpod-"].into_iter().find_map(|prefix| {
        let id = name.strip_prefix(prefix).filter(|id| is_id(id))?.to_owned();
        Some(if prefix == "docker-" { Place::Docker(id) } else { Place::Podman(id) })
    })
}

/// `kubepods[-QOS]-podUID.slice/RUNTIME-ID.scope` (systemd, `-` in the UID is `_`) or `kubepods/[QOS/]podUID/ID`.
fn kubernetes(parts: &[&str]) -> Option<Place> {
    if !parts.iter().any(|part| part.contains("kubepods")) {
        return None;
    }
    let at = parts.iter().position(|part| pod_uid(part).is_some())?;
    let pod = parts.get(at).and_then(|part| pod_uid(part))?;
    let last = parts.get(at + 1).map(|part| part.strip_suffix(".scope").unwrap_or(part)).unwrap_or_default();
    let id = last.rsplit('-').next().filter(|id| is_id(id)).unwrap_or_default();
    Some(Place::Kubernetes { pod, id: id.to_owned() })
}

fn pod_uid(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let uid = name.strip_prefix("pod").or_else(|| name.split_once("-pod").map(|(_, uid)| uid))?;
    let uid = uid.replace('_', "-");
    (uid.len() >= 32 && uid.chars().all(|c| c.is_ascii_hexdigit() || c == '-')).then_some(uid)
}

fn lxc(parts: &[&str]) -> Option<Place> {
    let payload = parts.iter().find_map(|part| part.strip_prefix("lxc.payload."));
    payload.or_else(|| after(parts, "lxc")).map(|name| Place::Lxc(name.to_owned()))
}

fn slurm(parts: &[&str]) -> Option<Place> {
    parts.iter().find(|part| part.contains("slurm"))?;
    let job = parts.iter().find_map(|part| part.strip_prefix("job_"));
    job.or_else(|| slurm_unique_id(parts)).map(|job| Place::Slurm(job.to_owned()))
}

/// The SLUID, which Slurm 26.05 and later use as the name of the job's folder, right below the daemon's scope.
fn slurm_unique_id<'a>(parts: &[&'a str]) -> Option<&'a str> {
    let at = parts.iter().position(|part| part.ends_with("slurmstepd.scope"))?;
    parts.get(at + 1).copied().filter(|part| part.starts_with('s') && part.len() == 14)
}

/// The innermost unit, where that is a service and what starts a program again. A scope is a session's, a desktop's or
/// a terminal's; `app-*` are a desktop's programs; `user@UID.service` is the whole of a user's session. What lies below
/// another unit belongs to another systemd, a container's.
fn service(parts: &[&str]) -> Option<Place> {
    let at = parts.iter().rposition(|part| part.ends_with(".service") || part.ends_with(".scope"))?;
    let unit = parts.get(at).copied()?;
    let above = parts.get(..at)?;
    if is_user_session(unit) || !above.iter().all(|part| part.ends_with(".slice") || is_user_session(part)) {
        return None;
    }
    let name = unit.strip_suffix(".service")?;
    let program = name.split('@').next().unwrap_or_default();
    if NAMES.hosts.iter().any(|host| host == program) || name.starts_with("app-") {
        return None;
    }
    let unit = unit.to_owned();
    Some(if above.iter().any(|part| is_user_session(part)) { Place::UserService(unit) } else { Place::Service(unit) })
}

fn is_user_session(part: &str) -> bool {
    part.starts_with("user@") && part.ends_with(".service")
}

fn after<'a>(parts: &[&'a str], name: &str) -> Option<&'a str> {
    let at = parts.iter().position(|part| *part == name)?;
    parts.get(at + 1).copied()
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::{Belongs, Place};

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const POD: &str = "b1946ac9-2492-4d23-9c6c-0d2b6f1c3a55";

    fn container(line: &str) -> Option<String> {
        Place::parse(&line.replace("ID", ID).replace("POD", POD)).and_then(|place| place.container())
    }

    #[test]
    fn the_container_is_read_from_every_engines_path() {
        let pod = format!("kubernetes:{POD}/0123456789ab");
        let cases = [
            ("0::/system.slice/docker-ID.scope", "docker:0123456789ab"),
            ("12:memory:/docker/ID\n1:name=systemd:/docker/ID\n0::/", "docker:0123456789ab"),
            ("0::/machine.slice/libpod-ID.scope/container", "podman:0123456789ab"),
            ("0::/user.slice/quad.service/libpod-payload-ID", "podman:0123456789ab"),
            ("0::/kubepods/burstable/podPOD/ID", pod.as_str()),
            ("0::/lxc.payload.dev/init.scope", "lxc:dev"),
        ];
        for (line, expected) in cases {
            assert_eq!(container(line).as_deref(), Some(expected), "{line}");
        }
        let underscored = POD.replace('-', "_");
        let line = format!("0::/kubepods.slice/kubepods-burstable-pod{underscored}.slice/cri-containerd-ID.scope");
        assert_eq!(container(&line), Some(pod));
    }

    #[test]
    fn what_is_no_container_is_named_as_what_it_is() {
        assert_eq!(container("0::/machine.slice/libpod-conmon-ID.scope"), None);
        assert_eq!(container("0::/"), None);
        assert_eq!(Place::parse("0::/system.slice/ollama.service"), Some(Place::Service("ollama.service".into())));
        let users = |rest: &str| format!("0::/user.slice/user-1000.slice/user@1000.service/{rest}");
        let unit = Some(Place::UserService("lms\\x2dd.service".into()));
        assert_eq!(Place::parse(&users("app.slice/lms\\x2dd.service")), unit);
        assert_eq!(Place::parse(&users("app.slice/a.scope")), None);
        let slurm = "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0";
        assert_eq!(Place::parse(slurm), Some(Place::Slurm("77".into())));
        let sluid = "0::/system.slice/n1_slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0";
        assert_eq!(Place::parse(sluid), Some(Place::Slurm("sEKNKTV3WPV500".into())));
    }
    #[test]
    fn the_manager_is_who_starts_it_again_or_ends_all_of_it() {
        let cases = [
            ("0::/system.slice/ollama.service", "service:ollama.service"),
            ("0::/system.slice/system-comfy.slice/comfy@ada.service/worker", "service:comfy@ada.service"),
            ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service", "user-service:vllm.service"),
            ("0::/system.slice/slurmstepd.scope/job_81234/step_0/user/task_0", "slurm:81234"),
            ("0::/system.slice/slurmd.service\n5:memory:/slurm/uid_7/job_9/step_0/task_0", "slurm:9"),
            ("0::/system.slice/ollama.service/libpod-payload-ID", "service:ollama.service"),
        ];
        for (lines, expected) in cases {
            assert_eq!(Belongs::of(&lines.replace("ID", ID)).manager.as_deref(), Some(expected), "{lines}");
        }
    }

    #[test]
    fn sessions_desktops_containers_and_daemons_that_host_others_manage_nobody() {
        let users = "0::/user.slice/user-1000.slice/user@1000.service";
        let cases = [
            "0::/".to_owned(),
            "0::/user.slice/user-1000.slice/session-3.scope".to_owned(),
            users.to_owned(),
            format!("{users}/app.slice/app-org.gnome.Terminal.slice/vte-spawn-1.scope"),
            format!("{users}/app.slice/app-gnome-firefox-7.scope"),
            format!("{users}/app.slice/app-org.kde.konsole@9f.service"),
            format!("{users}/app.slice/konsole.service/tab(7).scope"),
            format!("{users}/app.slice/gnome-terminal-server.service"),
            "0::/system.slice/ssh.service".to_owned(),
            "0::/system.slice/cron.service".to_owned(),
            "0::/system.slice/supervisor.service".to_owned(),
            "0::/system.slice/jupyterhub.service".to_owned(),
            "0::/system.slice/docker-ID.scope".to_owned(),
            "0::/system.slice/containerd.service\n1:name=systemd:/docker/ID".to_owned(),
            "0::/machine.slice/libpod-ID.scope/container".to_owned(),
            "0::/machine.slice/machine-box.scope/payload/system.slice/ollama.service".to_owned(),
            "0::/lxc.payload.dev/system.slice/ollama.service".to_owned(),
        ];
        for lines in cases {
            assert_eq!(Belongs::of(&lines.replace("ID", ID)).manager, None, "{lines}");
        }
        let hybrid = "0::/system.slice/containerd.service\n1:name=systemd:/docker/ID";
        assert_eq!(container(hybrid).as_deref(), Some("docker:0123456789ab"));
    }
}
