//! Machines that Slurm and Kubernetes tell of, with stand-ins for their programs: what they print was recorded from the real
//! ones, which `tests/parts/slurm.sh` and `tests/parts/kubernetes.sh` run.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::stand_ins::Home;

const NODES: &str = "\
NodeName=gpu01 CPUTot=2 Gres=gpu:a100:2 GresDrain=N/A GresUsed=gpu:a100:1(IDX:1) RealMemory=4000 AllocMem=200 State=MIXED Partitions=debug,half  OS=Linux 6.1 #1 SMP
NodeName=gpu02 CPUTot=2 Gres=gpu:a100:2 GresDrain=N/A GresUsed=gpu:a100:0(IDX:N/A) RealMemory=4000 AllocMem=0 State=IDLE+DRAIN Partitions=debug  Reason=fan broken [root@1795176000]
NodeName=cpu01 CPUTot=2 Gres=(null) GresUsed= State=IDLE Partitions=debug";
const JOB: &str = "JobId=7 JobName=train UserId=ada(1000) JobState=RUNNING NodeList=gpu[01-02] NumNodes=2   Nodes=gpu01 CPU_IDs=0 Mem=200 GRES=gpu:a100:1(IDX:1)   Nodes=gpu02 CPU_IDs=0 Mem=200 GRES=gpu:a100(CNT:1) StdErr=/home/ada/7.out StdOut=/home/ada/7.out Power=";

/// What `ps` says of machines.
fn hosts(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let output = home.says(&[&["--interval", "0.2", "ps", "--json"], arguments].concat());
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    printed["hosts"].as_array().unwrap().clone()
}

fn host<'h>(hosts: &'h [Value], name: &str) -> &'h Value {
    hosts.iter().find(|host| host["host"] == name).unwrap_or_else(|| panic!("{name} is not in {hosts:#?}"))
}

/// Slurm with two nodes that have GPUs and one job; `srun` is this script, with the node as `$node`.
fn slurm(srun: &str) -> Home {
    let home = Home::new();
    for (file, text) in [("nodes", NODES), ("job", JOB)] {
        fs::write(home.at(file), format!("{text}\n")).unwrap();
    }
    home.program(
        "scontrol",
        &format!(
            "case \"$*\" in *'show node'*) cat {nodes};; *'show job'*) cat {job};; \
             *'partition half') echo 'PartitionName=half State=UP Nodes=gpu01';; \
             *) echo 'Partition nosuch not found' >&2; exit 1;; esac",
            nodes = home.at("nodes").display(),
            job = home.at("job").display()
        ),
    );
    home.program("srun", &format!("echo \"$*\" >> {}; node=$4\n{srun}", home.at("asked").display()));
    home
}

#[test]
fn nodes_of_slurm_tell_what_was_given_and_never_how_full_they_are() {
    let home = slurm("exit 1");
    let all = hosts(&home, &["--slurm"]);
    assert_eq!(all.len(), 2, "{all:#?}");
    let allotment = &host(&all, "gpu01")["allotment"];
    let figures = ["gpus", "given", "given_indices", "gpu_name", "is_open"].map(|name| allotment[name].clone());
    assert_eq!(figures, [json!(2), json!(1), json!([1]), json!("a100"), json!(true)]);
    assert_eq!(host(&all, "gpu02")["allotment"]["is_open"], false);
    assert_eq!(
        [&allotment["given_to"][0]["source"], &allotment["given_to"][0]["devices"]],
        [&json!("slurm:7"), &json!(["1"])]
    );
    assert!(all.iter().all(|host| host["snapshot"].is_null() && host["unavailable"].is_string()));
    assert_eq!(hosts(&home, &["--slurm=half"]).len(), 1);
    let unknown = hosts(&home, &["--slurm=nosuch"]);
    assert!(unknown.len() == 1 && unknown[0]["unavailable"].as_str().unwrap().contains("not found"), "{unknown:#?}");
    assert!(!home.has_run("srun"));
}

#[test]
fn a_running_job_is_read_from_inside_on_each_of_its_nodes() {
    let program = env!("CARGO_BIN_EXE_oomdoctor");
    let srun = format!(
        "case $node in gpu01) echo 'prolog: hello'; while [ \"$1\" != oomdoctor ]; do shift; done; shift; exec {program} \"$@\";; \
         *) echo 'slurmstepd: error: execve(): oomdoctor: No such file or directory' >&2; exit 2;; esac"
    );
    let home = slurm(&srun);
    home.program("sstat", "echo '7.extern|0|gpu01|0'; echo '7.batch|2048000K|gpu02|0'; echo '7.0|||'");
    let all = hosts(&home, &["--job", "7", "--slurm"]);
    assert_eq!(all.len(), 2, "{all:#?}");
    let (read, missing) = (host(&all, "gpu01"), host(&all, "gpu02"));
    assert!(read["snapshot"].is_object() && read["boot_id"].is_string(), "{read:#?}");
    let given = &read["allotment"]["given_to"][0];
    assert_eq!([&given["source"], &given["output"]], ["slurm:7", "/home/ada/7.out"]);
    assert_eq!(given["gpus"], 1);
    assert_eq!(given["devices"], json!(["1"]));
    assert_eq!(read["allotment"]["given"], 1);
    let sampled = |host: &Value| host["allotment"]["given_to"][0]["sampled_ram"].clone();
    assert_eq!(sampled(missing), json!({"bytes": 2_048_000_u64 << 10, "step": "7.batch", "task": 0}));
    assert!(sampled(read).is_null(), "it is the other node's");
    assert!(missing["snapshot"].is_null() && missing["unavailable"].as_str().unwrap().contains("not installed"));
    let asked = fs::read_to_string(home.at("asked")).unwrap();
    assert!(asked.lines().all(|line| line.contains("--overlap") && line.contains("--jobid=7")), "{asked}");
}

#[test]
fn a_job_that_has_ended_leads_to_its_log_and_no_text_to_a_command() {
    let home = slurm("exit 1");
    fs::write(home.at("job"), JOB.replace("RUNNING", "FAILED")).unwrap();
    let all = hosts(&home, &["--job", "7"]);
    assert!(all[0]["unavailable"].as_str().unwrap().contains("--from slurm:7"), "{all:#?}");
    for id in ["7;touch x", "-7", "$(x)", ""] {
        assert_eq!(home.says(&["ps", &format!("--job={id}")]).status.code(), Some(2), "{id}");
    }
    assert_eq!(home.says(&["ps", "--slurm=-x"]).status.code(), Some(2));
    assert_eq!(home.says(&["ps", "--pod=-x"]).status.code(), Some(2));
    assert!(!home.has_run("srun"));
}

/// A cluster whose kubectl answers like this for the pod's exec.
fn kubernetes(may_list_all: &str, exec: &str) -> Home {
    let home = Home::new();
    let status = json!({"name": "t", "restartCount": 2, "state": {"running": {}},
        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}});
    let pod = json!({
        "metadata": {"namespace": "ml", "name": "train-0"},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "t", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        "status": {"phase": "Running", "containerStatuses": [status]}
    });
    let node = json!({
        "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
    });
    let files = [
        ("pod", pod.clone()),
        ("node", node.clone()),
        ("pods", json!({"items": [pod]})),
        ("nodes", json!({"items": [node]})),
    ];
    for (name, value) in files {
        fs::write(home.at(name), value.to_string()).unwrap();
    }
    let at = home.folder().display();
    home.program(
        "kubectl",
        &format!(
            "echo \"$*\" >> {at}/asked; case \"$*\" in auth*) {may_list_all};; 'get pods'*) cat {at}/pods;; 'get pod '*) cat {at}/pod;; \
             'get nodes'*) cat {at}/nodes;; 'get node '*) cat {at}/node;; exec*) {exec};; \
             *) echo 'error: the server does not have a resource type' >&2; exit 1;; esac"
        ),
    );
    home
}

#[test]
fn nodes_of_kubernetes_tell_who_requested_their_gpus() {
    let all = hosts(&kubernetes("echo yes", "exit 1"), &["--kube"]);
    let allotment = &host(&all, "gpu-1")["allotment"];
    assert_eq!([&allotment["gpus"], &allotment["given"]], [8, 2]);
    assert_eq!(allotment["gpu_memory_bytes"], 81_920_u64 << 20);
    assert_eq!(allotment["given_to"][0]["source"], "pod:ml/train-0");
    // The pods of other namespaces may have the rest.
    let home = kubernetes("echo 'no - no RBAC policy matched'; exit 1", "exit 1");
    let all = hosts(&home, &["--kube"]);
    assert!(host(&all, "gpu-1")["allotment"]["given"].is_null());
    let asked = fs::read_to_string(home.at("asked")).unwrap();
    assert!(asked.lines().filter(|line| line.starts_with("get pods")).all(|line| !line.contains("-A")), "{asked}");
}

#[test]
fn a_pod_is_looked_into_where_its_image_has_nvidia_smi() {
    let row = "0, GPU-aaaa, 00000000:01:00.0, 550.90.07, 81559, 70001, 11012, 97, 61, 312.54, NVIDIA A100-SXM4-80GB";
    let home = kubernetes("echo yes", &format!("echo '{row}'"));
    let all = hosts(&home, &["--kube", "--pod", "ml/train-0"]);
    assert_eq!(all.len(), 1, "{all:#?}");
    let device = &all[0]["snapshot"]["devices"][0];
    assert_eq!(device["memory"]["free_bytes"], 11_012_u64 << 20, "{all:#?}");
    let given = all[0]["allotment"]["given_to"].as_array().unwrap();
    assert_eq!(given.len(), 1);
    assert_eq!(given[0]["containers"][0]["last_end"]["reason"], "OOMKilled");
    assert_eq!(given[0]["containers"][0]["last_end"]["exit_code"], 137);
    let missing = "echo 'exec: \"nvidia-smi\": executable file not found in $PATH' >&2; exit 1";
    let all = hosts(&kubernetes("echo yes", missing), &["--pod", "ml/train-0"]);
    assert!(all[0]["snapshot"].is_null() && all[0]["unavailable"].as_str().unwrap().contains("no nvidia-smi"));
    assert_eq!(all[0]["allotment"]["given_to"][0]["gpus"], 2);
}

#[test]
fn what_is_not_there_or_talks_nonsense_is_one_line_each() {
    let home = Home::new();
    let all = hosts(&home, &["--slurm", "--kube"]);
    assert_eq!(all.len(), 2);
    for name in ["slurm", "kubernetes"] {
        assert!(host(&all, name)["unavailable"].as_str().unwrap().contains("not installed"), "{all:#?}");
    }
    for nonsense in
        ["printf '\\033[2J\\377{'", "echo '{\"items\": [{\"metadata\": 7}]}'", "echo 'NodeName= Gres=gpu:('", "exit 3"]
    {
        for name in ["scontrol", "kubectl"] {
            home.program(name, nonsense);
        }
        let all = hosts(&home, &["--slurm", "--job", "7", "--kube", "--pod", "ml/train-0"]);
        for host in &all {
            let why = host["unavailable"].as_str().unwrap_or_else(|| panic!("{all:#?}"));
            assert!(!why.is_empty() && !why.contains('\u{1b}') && why.lines().count() == 1, "{why:?}");
        }
    }
}

#[test]
fn what_hangs_delays_nothing_else_for_long() {
    let home = slurm("exit 1");
    home.program("kubectl", "exec sleep 1000");
    let begin = Instant::now();
    let all = hosts(&home, &["--slurm", "--kube", "--pod", "ml/train-0"]);
    assert!(begin.elapsed() < Duration::from_secs(40), "{:?}", begin.elapsed());
    assert_eq!(host(&all, "gpu01")["allotment"]["gpus"], 2);
    assert!(host(&all, "kubernetes")["unavailable"].as_str().unwrap().contains("in time"), "{all:#?}");
}
