//! Owns reading where a process belongs out of /proc/PID/cgroup: a container, a Slurm job, a systemd unit.
//! Needs no daemon and no rights; inside a cgroup namespace the path is `/` and nothing is known.

/// Who started a process and would be the one to stop it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
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
    /// A systemd service, such as ollama.service.
    Service(String),
}

impl Place {
    /// Reads the text of /proc/PID/cgroup; `None` where it names none of these.
    pub fn parse(cgroup: &str) -> Option<Place> {
        // v2 has one line; in v1 and hybrid setups the controllers that container engines use come first.
        let mut lines: Vec<(&str, &str)> = cgroup.lines().filter_map(controller_and_path).collect();
        lines.sort_by_key(|(controller, _)| match *controller {
            "" => 0,
            "name=systemd" => 1,
            "memory" | "devices" => 2,
            _ => 3,
        });
        lines.iter().find_map(|(_, path)| Place::of_path(path))
    }

    /// The container as one word, `docker:0123456789ab`, `podman:…`, `kubernetes:POD/…`, `lxc:NAME`, with the id's
    /// first 12 digits as the engines' own commands take them. `None` where it is no container.
    pub fn container(&self) -> Option<String> {
        let short = |id: &str| id.chars().take(12).collect::<String>();
        match self {
            Place::Docker(id) => Some(format!("docker:{}", short(id))),
            Place::Podman(id) => Some(format!("podman:{}", short(id))),
            Place::Kubernetes { pod, id } if id.is_empty() => Some(format!("kubernetes:{pod}")),
            Place::Kubernetes { pod, id } => Some(format!("kubernetes:{pod}/{}", short(id))),
            Place::Lxc(name) => Some(format!("lxc:{name}")),
            Place::Slurm(_) | Place::Service(_) => None,
        }
    }

    fn of_path(path: &str) -> Option<Place> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        kubernetes(&parts)
            .or_else(|| parts.iter().rev().find_map(|part| engine(part)))
            .or_else(|| after(&parts, "docker").filter(|id| is_id(id)).map(|id| Place::Docker(id.to_owned())))
            .or_else(|| lxc(&parts))
            .or_else(|| slurm(&parts))
            .or_else(|| service(&parts))
    }
}

fn controller_and_path(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(':')?;
    rest.split_once(':')
}

/// `docker-ID.scope`, `libpod-ID.scope`, `libpod-payload-ID`; not `libpod-conmon-ID`, which is podman's own watcher.
fn engine(part: &str) -> Option<Place> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = |prefix: &str| name.strip_prefix(prefix).filter(|id| is_id(id)).map(str::to_owned);
    id("docker-").map(Place::Docker).or_else(|| id("libpod-payload-").or_else(|| id("libpod-")).map(Place::Podman))
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
    // From 26.05 the job's folder is its SLUID, right below the daemon's scope.
    let sluid = || {
        let at = parts.iter().position(|part| part.ends_with("slurmstepd.scope"))?;
        parts.get(at + 1).copied().filter(|part| part.starts_with('s') && part.len() == 14)
    };
    job.or_else(sluid).map(|job| Place::Slurm(job.to_owned()))
}

/// The innermost service. `user@UID.service` is the whole of a user's session and no place to stop one program.
fn service(parts: &[&str]) -> Option<Place> {
    let unit = parts.iter().rev().find(|part| part.ends_with(".service"))?;
    (!unit.starts_with("user@")).then(|| Place::Service(unit.replace("\\x2d", "-")))
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
    use super::Place;

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
        assert_eq!(
            Place::parse("0::/user.slice/user-1000.slice/user@1000.service/app.slice/lms\\x2dd.service"),
            Some(Place::Service("lms-d.service".into()))
        );
        assert_eq!(Place::parse("0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope"), None);
        let slurm = "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0";
        assert_eq!(Place::parse(slurm), Some(Place::Slurm("77".into())));
        let sluid = "0::/system.slice/n1_slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0";
        assert_eq!(Place::parse(sluid), Some(Place::Slurm("sEKNKTV3WPV500".into())));
    }
}
