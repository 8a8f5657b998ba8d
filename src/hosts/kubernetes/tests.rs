//! Owns the tests of what Kubernetes says.

use proptest::prelude::*;
use serde_json::json as answer;

use super::*;

fn node_of(name: &str, allocatable: Value, labels: Value, spec: Value) -> Value {
    answer!({
        "metadata": {"name": name, "labels": labels, "creationTimestamp": null},
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": [
            {"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}
        ]}
    })
}

fn pod_on(node: &str, name: &str, gpus: &str) -> Value {
    answer!({
        "metadata": {"namespace": "ml", "name": name},
        "spec": {"nodeName": node, "containers": [{"name": "t", "resources": {"limits": {"nvidia.com/gpu": gpus, "memory": "64Gi"}}}]},
        "status": {"phase": "Running"}
    })
}

fn read_nodes(all: Vec<Value>, pods: Vec<Value>, claims: &Claims) -> Vec<HostReading> {
    let pods = Pods::read(&answer!({"items": pods}).to_string(), true);
    nodes(&answer!({"items": all}).to_string(), &pods, claims).unwrap()
}

fn allotments(readings: Vec<HostReading>) -> BTreeMap<String, Allotment> {
    readings.into_iter().map(|reading| (reading.name.to_string(), reading.allotment.unwrap())).collect()
}

#[test]
fn free_gpus_are_those_that_no_unfinished_pod_requests() {
    let labels = answer!({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"});
    let all = vec![
        node_of("gpu-1", answer!({"nvidia.com/gpu": "8", "cpu": "64", "memory": "1Ti"}), labels, answer!({})),
        node_of("amd-1", answer!({"amd.com/gpu": "4"}), answer!({}), answer!({"unschedulable": true})),
        node_of("cpu-1", answer!({"cpu": "64", "nvidia.com/gpu": "0"}), answer!(null), answer!({})),
    ];
    let mut ended = pod_on("gpu-1", "done", "4");
    ended["status"]["phase"] = answer!("Succeeded");
    let mut starting = pod_on("gpu-1", "starting", "1");
    starting["status"]["phase"] = answer!("Pending");
    let pods = vec![pod_on("gpu-1", "train-0", "2"), ended, starting, answer!({"metadata": {"name": "waits"}})];
    let read = allotments(read_nodes(all, pods, &Claims::default()));
    assert_eq!(read.keys().collect::<Vec<_>>(), ["amd-1", "gpu-1"]);
    let gpu = &read["gpu-1"];
    assert_eq!((gpu.gpus, gpu.given, gpu.is_open), (Some(8), Some(3), true));
    assert_eq!(gpu.gpu_name.as_deref(), Some("NVIDIA-A100-SXM4-80GB"));
    assert_eq!(gpu.gpu_memory_bytes, Some(Bytes::mib(81920)));
    let given: Vec<(&str, Option<u64>)> = gpu.given_to.iter().map(|one| (one.source.as_str(), one.gpus)).collect();
    assert_eq!(given, [("pod:ml/train-0", Some(2)), ("pod:ml/starting", Some(1))]);
    assert_eq!((read["amd-1"].given, read["amd-1"].is_open), (Some(0), false));
    assert!(read["amd-1"].state.contains("cordoned"));
}

#[test]
fn init_containers_count_by_the_largest_and_sidecars_beside_the_rest() {
    let of = |gpus: &str, policy: Option<&str>| answer!({"name": "x", "restartPolicy": policy, "resources": {"requests": {"nvidia.com/gpu": gpus}}});
    let sum = |init: Vec<Value>, main: Vec<Value>| {
        let spec = answer!({"initContainers": init, "containers": main});
        requested(&serde_json::from_value(spec).unwrap())["nvidia.com/gpu"]
    };
    assert_eq!(sum(vec![of("4", None), of("1", None)], vec![of("1", None), of("2", None)]), 4);
    assert_eq!(sum(vec![of("1", None)], vec![of("2", None), of("2", None)]), 4);
    assert_eq!(sum(vec![of("1", Some("Always"))], vec![of("2", None)]), 3);
    assert_eq!(sum(vec![of("2", Some("Always")), of("3", None)], vec![of("1", None)]), 5);
    assert_eq!(sum(vec![of("18446744073709551615", None)], vec![of("18446744073709551615", None); 2]), u64::MAX);
}

#[test]
fn parts_of_gpus_are_named_and_no_whole_ones() {
    let shared = answer!({"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"});
    let mut mig = pod_on("mig", "small", "1");
    mig["spec"]["containers"][0]["resources"] = answer!({"limits": {"nvidia.com/mig-1g.10gb": 2}});
    let all = vec![
        node_of("mig", answer!({"nvidia.com/mig-1g.10gb": "7", "nvidia.com/gpu": "0"}), answer!({}), answer!({})),
        node_of("sliced", answer!({"nvidia.com/gpu": "8"}), shared, answer!({})),
        node_of("named", answer!({"nvidia.com/gpu.shared": "8", "nvidia.com/hostdev": "8"}), answer!({}), answer!({})),
    ];
    let read = allotments(read_nodes(all, vec![mig, pod_on("sliced", "p", "3")], &Claims::default()));
    for allotment in read.values() {
        assert_eq!((allotment.gpus, allotment.given), (None, None), "{allotment:?}");
        assert_eq!(allotment.slices.len(), 1);
    }
    let of = |name: &str| &read[name].slices[0];
    assert_eq!((of("mig").name.as_str(), of("mig").total, of("mig").given), ("nvidia.com/mig-1g.10gb", 7, Some(2)));
    assert_eq!(read["mig"].given_to[0].gpus, None, "an instance is no GPU");
    assert!(of("sliced").name.contains("time-slicing") && of("sliced").name.contains('4'));
    assert_eq!((of("sliced").total, of("sliced").given), (8, Some(3)));
    assert_eq!(of("named").name, "nvidia.com/gpu.shared");
}

#[test]
fn a_taint_closes_a_node_unless_it_is_that_of_the_gpus() {
    let is_open = |taint: Value| {
        let spec = answer!({"taints": [taint]});
        let node = node_of("n", answer!({"nvidia.com/gpu": "1"}), answer!({}), spec);
        allotments(read_nodes(vec![node], Vec::new(), &Claims::default()))["n"].is_open
    };
    assert!(is_open(answer!({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})));
    assert!(is_open(answer!({"key": "spot", "effect": "PreferNoSchedule"})));
    assert!(!is_open(answer!({"key": "dedicated", "value": "ml", "effect": "NoSchedule"})));
    let mut down = node_of("n", answer!({"nvidia.com/gpu": "1"}), answer!({}), answer!({}));
    down["status"]["conditions"][1]["status"] = answer!("Unknown");
    assert!(!allotments(read_nodes(vec![down], Vec::new(), &Claims::default()))["n"].is_open);
}

#[test]
fn what_may_not_be_listed_is_unknown_and_never_free() {
    let all =
        answer!({"items": [node_of("n", answer!({"nvidia.com/gpu": "8"}), answer!({}), answer!({}))]}).to_string();
    let own = Pods::read(&answer!({"items": [pod_on("n", "mine", "1")]}).to_string(), false);
    let read = nodes(&all, &own, &Claims::default()).unwrap();
    let allotment = read[0].allotment.as_ref().unwrap();
    assert_eq!((allotment.gpus, allotment.given, allotment.given_to.len()), (Some(8), None, 1));
    let refused = Err(Unavailable::new("kubectl: forbidden"));
    let read = nodes(&all, &refused, &Claims::default()).unwrap();
    assert_eq!(read[0].allotment.as_ref().unwrap().given, None);
    assert!(read[0].seen.as_ref().unwrap_err().why.contains("forbidden"));
}

fn claimed(is_all: bool) -> Claims {
    let slices = answer!({"items": [
        {"spec": {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": {"name": "n"}, "devices": [
            {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100"}},
             "capacity": {"memory": {"value": "80Gi"}}},
            {"name": "gpu-1", "basic": {"attributes": {"type": {"string": "gpu"}}}},
            {"name": "gpu-1-mig-1g", "attributes": {"type": {"string": "mig"}}}
        ]}},
        {"spec": {"driver": "compute-domain.nvidia.com", "nodeName": "n", "pool": {"name": "d"}, "devices": [{"name": "c"}]}}
    ]});
    let claims = answer!({"items": [
        {"metadata": {"namespace": "ml", "name": "c1"}, "status": {
            "allocation": {"devices": {"results": [
                {"request": "r", "driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-1"},
                {"driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0", "adminAccess": true}]}},
            "reservedFor": [{"resource": "pods", "name": "train-0", "uid": "u"}]}},
        {"metadata": {"namespace": "ml", "name": "waits"}, "status": {}}
    ]});
    Claims::read(Some(&slices.to_string()), Some(&claims.to_string()), is_all)
}

#[test]
fn claims_tell_which_device_a_pod_has() {
    let mut pod = pod_on("n", "train-0", "1");
    pod["spec"]["containers"][0]["resources"] = answer!({});
    let of = |claims: &Claims| {
        let node = node_of("n", answer!({"cpu": "4"}), answer!({}), answer!({}));
        allotments(read_nodes(vec![node], vec![pod.clone()], claims)).remove("n").unwrap()
    };
    let read = of(&claimed(true));
    assert_eq!((read.gpus, read.given), (Some(2), Some(1)));
    assert_eq!((read.gpu_name.as_deref(), read.gpu_memory_bytes), (Some("NVIDIA H100"), Some(Bytes::gib(80))));
    assert_eq!((read.given_to[0].gpus, read.given_to[0].devices.as_slice()), (Some(1), &["gpu-1".to_owned()][..]));
    assert_eq!(of(&claimed(false)).given, None, "claims of other namespaces are not seen");
}

#[test]
fn a_pod_tells_its_node_and_how_its_containers_ended() {
    let printed = answer!({
        "metadata": {"namespace": "ml", "name": "llama-0"},
        "spec": {"nodeName": "gpu-1", "containers": [
            {"name": "proxy"},
            {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "proxy", "restartCount": 0, "state": {"running": {"startedAt": "2026-11-22T01:00:00Z"}}, "lastState": {}},
            {"name": "train", "restartCount": 3, "state": {"running": {}}, "lastState": {"terminated":
                {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-22T00:59:00Z"}}}]}
    });
    let read = pod(&printed.to_string()).unwrap();
    assert_eq!((read.node.as_ref().unwrap().as_str(), read.container.as_deref()), ("gpu-1", Some("train")));
    assert_eq!((read.given.source.as_str(), read.given.gpus), ("pod:ml/llama-0", Some(1)));
    let [proxy, train] = read.given.containers.as_slice() else { panic!("{read:?}") };
    assert_eq!((proxy.last_end.as_ref(), proxy.state.as_str()), (None, "running"));
    let end = train.last_end.as_ref().unwrap();
    assert_eq!((end.reason.as_str(), end.exit_code, train.restarts), ("OOMKilled", Some(137), 3));
    assert!(end.at.is_some());
    let mut crashed = printed;
    crashed["status"]["containerStatuses"][1]["state"] = answer!({"waiting": {"reason": "CrashLoopBackOff"}});
    crashed["status"]["containerStatuses"][0]["state"] = answer!({"waiting": {}});
    let read = pod(&crashed.to_string()).unwrap();
    assert_eq!(read.container, None);
    assert!(read.given.containers[1].state.contains("CrashLoopBackOff"));
    assert!(pod("Error from server (NotFound)").is_err() && pod("{}").is_err());
}

#[test]
fn no_name_is_taken_for_an_option_or_a_path() {
    for text in ["", "/", "-x", "ml/-x", "-n/x", "a/b/c", "a b", "a;b", "ml/"] {
        assert!(text.parse::<PodName>().is_err(), "{text}");
    }
    let hostile =
        answer!({"items": [node_of("-x", answer!({"nvidia.com/gpu": "1"}), answer!({}), answer!({}))]}).to_string();
    assert!(nodes(&hostile, &Pods::read("{\"items\": null}", true), &Claims::default()).is_err());
}

#[test]
fn what_kubectl_says_leads_to_what_to_do() {
    let refused = "E1123 19:00:00.000000 1 memcache.go:265] couldn't get current server API group list\nThe connection to the server localhost:8080 was refused - did you specify the right host or port?\n";
    assert!(said_by_kubectl(refused).what_to_do.is_some());
    assert!(said_by_kubectl("error: You must be logged in to the server (Unauthorized)").what_to_do.is_some());
    let missing = "error: Internal error occurred: exec: \"nvidia-smi\": executable file not found in $PATH: unknown";
    let refused = "Error from server (Forbidden): pods \"x\" is forbidden";
    let failed = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n";
    let ended = "command terminated with exit code 9";
    let reasons = [("", missing), ("", refused), (failed, ended), ("", ended)];
    let whys: Vec<String> = reasons.iter().map(|(printed, said)| no_exec("train", printed, said).why).collect();
    assert!(whys[0].contains("train") && whys[2].contains("communicate"), "{whys:?}");
    assert!(whys.iter().collect::<std::collections::BTreeSet<_>>().len() == reasons.len(), "{whys:?}");
}

#[test]
fn rows_of_nvidia_smi_become_a_reading_and_nothing_in_them_a_mark() {
    let row = "0, GPU-aaaa, 00000000:01:00.0, 550.90.07, 81559, 70001, 11012, 97, 61, 312.54, NVIDIA A100-SXM4-80GB";
    let printed = format!("{row}\n oomdoctor-end\n{}\n", row.replacen('0', "1", 1));
    let reading = as_reading(&"gpu-1".parse().unwrap(), 1_795_176_000, printed.as_bytes());
    let mut listener = crate::hosts::ssh::answer::Listener::default();
    let told = reading.split(|byte| *byte == b'\n').find_map(|line| match listener.hear(line).unwrap() {
        Some(crate::hosts::ssh::answer::Told::Reading { snapshot, .. }) => Some(snapshot),
        _ => None,
    });
    let snapshot = told.unwrap();
    assert_eq!((snapshot.host.name.as_str(), snapshot.devices.len()), ("gpu-1", 2));
    assert_eq!(snapshot.devices[1].memory.free_bytes, crate::gpu::Reading::Known(Bytes::mib(11_012)));
}

/// Any JSON with the names that are read, of any shape.
fn any_shape() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[-a-z0-9./\u{1b}]{0,8}".prop_map(Value::from),
        Just(answer!("8")),
        Just(answer!("gpu.nvidia.com"))
    ];
    let keys = prop::sample::select(vec![
        "items",
        "metadata",
        "name",
        "namespace",
        "labels",
        "spec",
        "status",
        "allocatable",
        "nvidia.com/gpu",
        "taints",
        "conditions",
        "containers",
        "resources",
        "limits",
        "nodeName",
        "driver",
        "pool",
        "devices",
        "allocation",
        "results",
        "containerStatuses",
        "state",
        "terminated",
        "basic",
    ]);
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys.clone(), inner, 0..6)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_it_fail(shape in any_shape(), cut in 0_usize..200) {
        for shape in [shape.clone(), answer!({"items": [shape]})] {
            let text = shape.to_string();
            for text in [text.as_str(), text.get(..cut).unwrap_or_default()] {
                let claims = Claims::read(Some(text), Some(text), true);
                let _ = nodes(text, &Pods::read(text, true), &claims);
                let _ = (pod(text), node(text), said_by_kubectl(text));
            }
        }
    }
}
