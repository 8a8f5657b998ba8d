//! Owns containers that exited: Docker's, Podman's, and those of Kubernetes' pods.
//! Commands: docs.docker.com/reference/cli/docker/container/ls, docs.podman.io, kubernetes.io/docs/reference/kubectl
//! (2026-11-23).

use serde_json::Value;

use super::ask::{Ask, Way, argv};
use super::{Kind, Source, Surroundings};
use crate::units::WallTime;

/// A container's name, and how `ps` says that it ended.
const ROW: &str = "{{.Names}}|{{.Status}}|{{.Image}}";

pub(super) fn asks(at: &Surroundings, kinds: &[Kind]) -> Vec<Ask> {
    let list = |program: &str| argv(&[program, "ps", "-a", "--filter", "status=exited", "--format", ROW]);
    let docker = match another_machine(at) {
        Some(where_) if !kinds.contains(&Kind::Docker) => {
            let why = format!("it runs on another machine ({where_}): `oomdoctor sources docker` asks it");
            Ask::Not { kind: Kind::Docker, why }
        }
        _ => Ask::Command { kind: Kind::Docker, argv: list("docker"), parse: of_docker },
    };
    let remote = at.variable("CONTAINER_HOST").filter(|host| !is_here(host)).or(at.variable("CONTAINER_CONNECTION"));
    let podman = match remote {
        Some(host) if !kinds.contains(&Kind::Podman) => {
            let why = format!("it runs on another machine ({host}): `oomdoctor sources podman` asks it");
            Some(Ask::Not { kind: Kind::Podman, why })
        }
        _ if at.has_podman || kinds.contains(&Kind::Podman) => {
            Some(Ask::Command { kind: Kind::Podman, argv: list("podman"), parse: of_podman })
        }
        _ => None,
    };
    // Of the namespace that kubectl's context names: those of others are other people's.
    let pods = argv(&["kubectl", "get", "pods", "-o", "json", "--request-timeout=3s"]);
    let pods = Ask::Command { kind: Kind::Pod, argv: pods, parse: of_kubernetes };
    [Some(docker), podman, Some(pods)].into_iter().flatten().collect()
}

/// Whether an address of a daemon leads to this machine.
fn is_here(host: &str) -> bool {
    ["unix:", "npipe:", "tcp://127.0.0.1", "tcp://localhost", "tcp://[::1]"].iter().any(|begin| host.starts_with(begin))
}

/// Where Docker's daemon is, if that is not this machine.
fn another_machine(at: &Surroundings) -> Option<&str> {
    if let Some(host) = at.variable("DOCKER_HOST") {
        return Some(host).filter(|host| !is_here(host));
    }
    let context = at.variable("DOCKER_CONTEXT").or(at.docker_context.as_deref());
    // Those of Docker Desktop and of a daemon without root are on this machine.
    context.filter(|context| !["default", "desktop-linux", "rootless", "orbstack", "colima"].contains(context))
}

fn of_docker(at: &Surroundings, printed: &str) -> Result<Vec<Source>, String> {
    Ok(rows(Kind::Docker, at.now, printed))
}

fn of_podman(at: &Surroundings, printed: &str) -> Result<Vec<Source>, String> {
    Ok(rows(Kind::Podman, at.now, printed))
}

fn rows(kind: Kind, now: Option<WallTime>, printed: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    for row in printed.lines() {
        let mut fields = row.split('|').map(str::trim);
        let (Some(names), Some(status)) = (fields.next(), fields.next()) else { continue };
        let image = fields.next().unwrap_or_default();
        // One that is linked has several names.
        let Some(name) = names.split(',').next().filter(|name| !name.is_empty()) else { continue };
        let title = format!("{kind} container {name} of {image}, {}", status.to_lowercase());
        let ended_at = now.and_then(|now| ended(status, now));
        sources.push(Source { ended_at, ..Source::new(kind, name, title) });
    }
    sources
}

/// The moment of "Exited (137) 3 minutes ago", as exactly as Docker's HumanDuration prints it
/// (github.com/docker/go-units, duration.go, 2026-11-23). Podman prints the same.
fn ended(status: &str, now: WallTime) -> Option<WallTime> {
    let ago = status.split_once(") ")?.1.strip_suffix(" ago")?.to_lowercase();
    let mut words = ago.trim_start_matches("about ").trim_start_matches("less than ").split(' ');
    let count: i64 = match words.next()? {
        "a" | "an" => 1,
        number => number.parse().ok()?,
    };
    let unit = match words.next()?.trim_end_matches('s') {
        "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86_400,
        "week" => 7 * 86_400,
        "month" => 30 * 86_400,
        "year" => 365 * 86_400,
        _ => return None,
    };
    let seconds = jiff::SignedDuration::from_secs(count.checked_mul(unit)?);
    now.0.checked_sub(seconds).ok().map(WallTime)
}

pub(super) fn way(kind: Kind, name: &str) -> Vec<Way> {
    let program: &str = kind.into();
    vec![
        Way::Command { argv: argv(&[program, "inspect", "--format", "{{json .State}}", name]), merges: false },
        Way::Command { argv: argv(&[program, "logs", "--tail", "20000", name]), merges: true },
    ]
}

pub(super) fn way_to_pod(name: &str) -> Result<Vec<Way>, String> {
    // Neither may be an option to kubectl.
    let are_names =
        |(space, pod): &(&str, &str)| [space, pod].iter().all(|name| !name.is_empty() && !name.starts_with('-'));
    let Some((namespace, pod)) = name.split_once('/').filter(are_names) else {
        return Err("give the namespace, too: pod:NAMESPACE/NAME".to_owned());
    };
    let get = argv(&["kubectl", "get", "pod", "-n", namespace, pod, "-o", "json", "--request-timeout=10s"]);
    Ok(vec![Way::Ask(get, logs_of_pod)])
}

/// A container of a pod that ended, and whether it was started again since.
struct Ended {
    container: String,
    is_previous: bool,
    at: Option<WallTime>,
    why: String,
}

/// The containers of a pod that ended. One that was started again has its end in `lastState`.
fn ended_in(pod: &Value) -> Vec<Ended> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"].map(|path| pod.pointer(path));
    let mut all = Vec::new();
    for container in lists.into_iter().flatten().filter_map(Value::as_array).flatten() {
        for (state, is_previous) in [("/state/terminated", false), ("/lastState/terminated", true)] {
            let Some(end) = container.pointer(state) else { continue };
            let (Some(name), code) = (text(container, "/name"), end.get("exitCode").and_then(Value::as_i64)) else {
                continue;
            };
            if code == Some(0) {
                continue;
            }
            let reason = text(end, "/reason").unwrap_or("Error");
            let code = code.map_or(String::new(), |code| format!(", exit code {code}"));
            all.push(Ended {
                container: name.to_owned(),
                is_previous,
                at: text(end, "/finishedAt").and_then(|at| at.parse().ok()).map(WallTime),
                why: format!("{reason}{code}"),
            });
        }
    }
    all
}

fn text<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    value.pointer(path)?.as_str()
}

fn of_kubernetes(_: &Surroundings, printed: &str) -> Result<Vec<Source>, String> {
    let list: Value = serde_json::from_str(printed).map_err(|error| format!("kubectl did not print JSON: {error}"))?;
    let mut sources = Vec::new();
    for pod in list.get("items").and_then(Value::as_array).into_iter().flatten() {
        let (Some(namespace), Some(name)) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name")) else {
            continue;
        };
        let ended = ended_in(pod);
        let evicted = text(pod, "/status/reason");
        let Some(why) = ended.last().map(|end| end.why.clone()).or(evicted.map(str::to_owned)) else { continue };
        let title = format!("pod {namespace}/{name}, {why}");
        let ended_at = ended.iter().filter_map(|end| end.at).max_by_key(|at| at.0);
        sources.push(Source { ended_at, ..Source::new(Kind::Pod, format!("{namespace}/{name}"), title) });
    }
    Ok(sources)
}

/// The state of a pod as it was printed, and the logs of each container that ended.
fn logs_of_pod(printed: &str) -> Result<Vec<Way>, String> {
    let pod: Value = serde_json::from_str(printed).map_err(|error| format!("kubectl did not print JSON: {error}"))?;
    let (Some(namespace), Some(name)) = (text(&pod, "/metadata/namespace"), text(&pod, "/metadata/name")) else {
        return Err("kubectl printed no pod".to_owned());
    };
    // Its specification has the values of variables, tokens among them.
    let state = pod.get("status").map(|status| format!("{status:#}")).unwrap_or_default();
    let mut ways = vec![Way::Text(format!("{state}\n"))];
    let ended = ended_in(&pod);
    let mut wanted: Vec<(&str, bool)> = ended.iter().map(|end| (end.container.as_str(), end.is_previous)).collect();
    if wanted.is_empty() {
        let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
        wanted.extend(containers.into_iter().flatten().filter_map(|one| Some((text(one, "/name")?, false))));
    }
    for (container, is_previous) in wanted {
        let mut logs =
            argv(&["kubectl", "logs", "-n", namespace, name, "-c", container, "--tail=20000", "--request-timeout=10s"]);
        if is_previous {
            logs.push("--previous".to_owned());
        }
        // The log of a container that was removed is gone; its state is still there.
        ways.push(Way::Optional(logs));
    }
    Ok(ways)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exited_containers_are_listed_with_the_moment_of_their_end() {
        let now = WallTime(jiff::Timestamp::from_second(1_795_176_000).unwrap());
        let found =
            rows(Kind::Docker, Some(now), "trainer,job/trainer|Exited (137) 3 minutes ago|pytorch:2.6\n\n|x|y\n");
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(one.id.to_string(), "docker:trainer");
        assert!(one.title.contains("exited (137) 3 minutes ago"), "{}", one.title);
        let seconds = |status: &str| Some(now.0.as_second() - ended(status, now)?.0.as_second());
        assert_eq!(seconds("Exited (1) 3 minutes ago"), Some(180));
        assert_eq!(seconds("Exited (1) About an hour ago"), Some(3600));
        assert_eq!(seconds("Exited (1) Less than a second ago"), Some(1));
        assert_eq!(seconds("Exited (1) 99999999999999999 years ago"), None);
        assert_eq!(seconds("Created"), None);
    }

    #[test]
    fn a_pod_that_was_restarted_gives_the_log_of_the_container_that_ended() {
        let pod = r#"{"metadata": {"namespace": "ml", "name": "train-0"},
            "spec": {"containers": [{"name": "trainer"}, {"name": "sidecar"}]},
            "status": {"containerStatuses": [
                {"name": "trainer", "state": {"running": {}}, "lastState": {"terminated":
                    {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-23T12:46:11Z"}}},
                {"name": "sidecar", "state": {"running": {}}, "lastState": {}}]}}"#;
        let list = r#"{"items": [POD, {"metadata": {"namespace": "ml", "name": "fine"}, "status": {}}]}"#;
        let found = of_kubernetes(&Surroundings::default(), &list.replace("POD", pod)).unwrap();
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(one.id.to_string(), "pod:ml/train-0");
        assert!(one.title.contains("OOMKilled") && one.ended_at.is_some());
        let ways = logs_of_pod(pod).unwrap();
        let [Way::Text(state), Way::Optional(argv)] = ways.as_slice() else { panic!("{ways:?}") };
        assert!(state.contains("OOMKilled") && !state.contains("spec"), "{state}");
        assert!(argv.contains(&"trainer".to_owned()) && argv.contains(&"--previous".to_owned()), "{argv:?}");
        assert!(logs_of_pod("Error from server").is_err());
        assert!(of_kubernetes(&Surroundings::default(), "{\"items\": [").is_err(), "cut is not empty");
        for wrong in ["train-0", "ml/", "ml/-A", "-A/train-0"] {
            assert!(way_to_pod(wrong).is_err(), "{wrong}");
        }
    }
}
