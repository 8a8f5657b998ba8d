//! Owns the tests of what Slurm says.

use proptest::prelude::*;

use super::*;

/// Printed by 22.05.8 (`IDX:N/A`, no index for a node that did not register), and by the formats of 21.08, 23.11 and 24.05.
const NODES: &str = "\
NodeName=gpu1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUTot=2 AvailableFeatures=(null) Gres=gpu:fake:2 GresDrain=N/A GresUsed=gpu:fake:1(IDX:0) NodeAddr=127.0.0.1 NodeHostName=gpu1 Version=22.05.8 OS=Linux 6.18 #1 SMP @0  RealMemory=4000 AllocMem=200 FreeMem=21839 Sockets=2 State=MIXED ThreadsPerCore=1 Partitions=debug,half  BootTime=2026-11-23T02:33:49 CfgTRES=cpu=2,mem=4000M,billing=2 AllocTRES=
NodeName=gpu2 CPUTot=2 Gres=gpu:fake:2 GresDrain=N/A GresUsed=gpu:fake:0(IDX:N/A) RealMemory=4000 AllocMem=0 State=IDLE+DRAIN ThreadsPerCore=1 Partitions=debug  AllocTRES= CapWatts=n/a Reason=fan x=1 broken [root@2026-11-23T18:52:44]
NodeName=gpu3 CPUTot=2 Gres=gpu:fake:2,gpu:a100:1 GresUsed=gpu:fake:1,gpu:a100:0 RealMemory=4000 AllocMem=200 State=MIXED Partitions=debug
NodeName=gpu4 Gres=gpu:h100:8(S:0-1),nvme:2T GresUsed=gpu:h100:5(IDX:0-3,7),nvme:0 RealMemory=2048000 AllocMem=n/s State=MIXED+PLANNED Partitions=a,b
NodeName=gpu5 Gres=gpu:4(S:0) GresUsed=gpu:4(IDX:0-3) State=ALLOCATED Partitions=a
NodeName=gpu6 Gres=gpu:4,shard:16 GresUsed=gpu:0(IDX:N/A),shard:2(0/4,2/4,0/4,0/4) State=MIXED Partitions=a
NodeName=gpu7 Gres=gpu:4 State=IDLE+CLOUD+POWERED_DOWN Partitions=a
NodeName=gpu8 Gres=gpu:4 GresUsed=gpu:0 State=DOWN* Partitions=a
NodeName=gpu9 Gres=gpu:4 GresUsed=gpu:0 State=IDLE+NOT_RESPONDING Partitions=a
NodeName=cpu1 Gres=(null) GresUsed= State=IDLE Partitions=debug
NodeName=-x Gres=gpu:4 GresUsed=gpu:0 State=IDLE
";

fn read(name: &str) -> Allotment {
    nodes(NODES).into_iter().find(|node| node.name.as_str() == name).unwrap_or_else(|| panic!("{name}")).allotment
}

#[test]
fn nodes_with_gpus_are_read_in_the_formats_of_several_versions() {
    let figures = |name: &str| {
        let read = read(name);
        (read.gpus, read.given, read.given_indices, read.is_open)
    };
    assert_eq!(figures("gpu1"), (Some(2), Some(1), Some(vec![0]), true));
    assert_eq!(figures("gpu2"), (Some(2), Some(0), Some(vec![]), false), "drained");
    assert_eq!(figures("gpu3"), (Some(3), Some(1), None, true), "without indices");
    assert_eq!(figures("gpu4"), (Some(8), Some(5), Some(vec![0, 1, 2, 3, 7]), true));
    assert_eq!(figures("gpu5"), (Some(4), Some(4), Some(vec![0, 1, 2, 3]), true), "full is not closed");
    assert_eq!(figures("gpu6"), (Some(4), None, None, true), "which GPUs the shards are on is unknown");
    assert_eq!(figures("gpu7"), (Some(4), None, None, true), "Slurm starts it for a job");
    assert!(!figures("gpu8").3 && !figures("gpu9").3);
    assert_eq!(read("gpu3").gpu_name.as_deref(), Some("fake, a100"));
    assert_eq!(read("gpu5").gpu_name, None);
    assert_eq!((read("gpu1").ram_bytes, read("gpu1").ram_given_bytes), (Some(Bytes::mib(4000)), Some(Bytes::mib(200))));
    assert_eq!(read("gpu4").ram_given_bytes, None);
    assert_eq!(read("gpu6").slices, [Slice { name: "shard".to_owned(), total: 16, given: Some(2) }]);
    assert!(read("gpu2").state.contains("DRAIN") && read("gpu2").state.contains("fan x=1 broken"));
    assert!(!read("gpu2").state.contains("root"));
    let names: Vec<String> = nodes(NODES).iter().map(|node| node.name.to_string()).collect();
    assert!(!names.contains(&"cpu1".to_owned()) && names.iter().all(|name| !name.starts_with('-')), "{names:?}");
}

#[test]
fn a_partition_selects_nodes_by_its_whole_name_and_can_close_them() {
    let debug: Partition = "debug".parse().unwrap();
    let mut of_it: Vec<Node> = nodes(NODES).into_iter().filter(|node| node.is_in(&debug)).collect();
    assert_eq!(of_it.len(), 3);
    assert!(nodes(NODES).iter().all(|node| !node.is_in(&"deb".parse().unwrap())));
    of_it[0].closed_by(&debug, "DRAIN");
    assert!(!of_it[0].allotment.is_open && of_it[0].allotment.state.contains("DRAIN"));
    let printed = "PartitionName=debug AllowGroups=ALL State=UP TotalCPUs=26\n";
    assert_eq!(partition_state(printed), Some("UP"));
    assert_eq!(partition_state("Partition debug not found"), None);
}

#[test]
fn every_word_of_a_state_must_let_jobs_start() {
    for open in ["IDLE", "MIXED", "ALLOCATED+COMPLETING", "IDLE~", "IDLE+DYNAMIC_NORM", "MIXED-"] {
        assert!(is_open(open), "{open}");
    }
    for closed in ["DOWN", "IDLE*", "IDLE+MAINTENANCE", "RESERVED", "MIXED+RESERVED", "FUTURE", "A_LATER_WORD", ""] {
        assert!(!is_open(closed), "{closed}");
    }
}

#[test]
fn expressions_of_node_names_are_expanded_and_bounded() {
    let names = |text: &str| {
        let names = expanded(text)?;
        Some(names.iter().map(HostName::as_str).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(names("gpu[01-03,07],login").as_deref(), Some("gpu01 gpu02 gpu03 gpu07 login"));
    assert_eq!(names("r[1-2]n[09-10]x").as_deref(), Some("r1n09x r1n10x r2n09x r2n10x"));
    assert_eq!(names("gpu[8-11]").as_deref(), Some("gpu8 gpu9 gpu10 gpu11"));
    for text in [
        "",
        "gpu[1",
        "gpu[a-b]",
        "gpu[3-1]",
        "(null)",
        "-x",
        "a[1-99999]",
        "a[0-999]b[0-999]",
        "a[18446744073709551615-0]",
    ] {
        assert_eq!(names(text), None, "{text}");
    }
}

/// Printed by 22.05.8; `GRES=` has the indices where slurmd knows the files of the GPUs.
const RUNNING: &str = "JobId=15 ArrayJobId=12 ArrayTaskId=3 JobName=train me UserId=ada(1000) GroupId=ada(1000) JobState=RUNNING Reason=None Partition=debug NodeList=gpu[01-02] BatchHost=gpu01 NumNodes=2 TRES=cpu=1,mem=200M JOB_GRES=gpu:fake:3   Nodes=gpu01 CPU_IDs=0 Mem=200 GRES=gpu:fake:2(IDX:0,3)   Nodes=gpu02 CPU_IDs=0 Mem=200 GRES=gpu:fake(CNT:1) MinCPUsNode=1 Command=/tmp/job.sh WorkDir=/home/ada/my jobs StdErr=/home/ada/my jobs/slurm-15.out StdIn=/dev/null StdOut=/home/ada/my jobs/slurm-15.out Power= TresPerNode=gres:gpu:1 \n";

#[test]
fn a_running_job_leads_to_its_nodes_and_gpus() {
    let asked: JobId = "12_3".parse().unwrap();
    let found = jobs(&asked, RUNNING).unwrap();
    let [job] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(job.id.as_str(), "15");
    let [(first, given), (second, others)] = job.nodes.as_slice() else { panic!("{job:?}") };
    assert_eq!((first.as_str(), second.as_str()), ("gpu01", "gpu02"));
    assert_eq!((given.gpus, given.devices.as_slice()), (Some(2), &["0".to_owned(), "3".to_owned()][..]));
    assert_eq!((others.gpus, others.devices.is_empty()), (Some(1), true));
    assert_eq!((given.source.as_str(), given.user.as_deref()), ("slurm:15", Some("ada")));
    assert_eq!(given.name.as_deref(), Some("train me"));
    assert_eq!(given.output.as_deref(), Some("/home/ada/my jobs/slurm-15.out"));
}

#[test]
fn each_node_has_the_running_jobs_that_were_given_gpus_of_it() {
    let mut all = nodes(&NODES.replace("NodeName=gpu1", "NodeName=gpu01").replace("NodeName=gpu2", "NodeName=gpu02"));
    let ended = RUNNING.replace("JobId=15", "JobId=16").replace("RUNNING", "COMPLETED");
    let without = RUNNING.replace("JobId=15", "JobId=17").replace("GRES=gpu", "GRES=nvme");
    note_jobs(&mut all, &format!("{RUNNING}{ended}{without}JobId=18 JobState=RUNNING NodeList=\n"));
    let given = |name: &str| {
        let node = all.iter().find(|node| node.name.as_str() == name).unwrap();
        node.allotment.given_to.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(given("gpu01"), ["slurm:15 of ada: GPU 0, 3"]);
    assert_eq!(given("gpu02"), ["slurm:15 of ada: 1 GPU"]);
    assert!(given("gpu3").is_empty());
}

#[test]
fn a_job_that_does_not_run_says_its_state_and_where_its_log_is() {
    let asked: JobId = "15".parse().unwrap();
    let failed = jobs(&asked, &RUNNING.replace("RUNNING", "OUT_OF_MEMORY")).unwrap_err();
    assert!(failed.why.contains("OUT_OF_MEMORY") && failed.what_to_do.unwrap().contains("--from slurm:15"));
    let waits = jobs(&asked, "JobId=15 JobName=x JobState=PENDING Reason=Resources NodeList= \n").unwrap_err();
    assert!(waits.what_to_do.unwrap().contains("Resources"));
    assert!(jobs(&asked, "slurm_load_jobs error: Invalid job id specified\n").is_err());
}

#[test]
fn a_name_that_looks_like_fields_leads_nowhere() {
    let asked: JobId = "15".parse().unwrap();
    for name in ["x NodeList=login", "x JobState=RUNNING"] {
        let row = RUNNING.replace("train me", name);
        assert!(jobs(&asked, &row).is_err(), "{name}");
    }
    let row = RUNNING.replace("train me", "x Nodes=gpu03 GRES=gpu:9");
    let found = jobs(&asked, &row).unwrap();
    assert!(found[0].nodes.iter().all(|(node, _)| node.as_str() != "gpu03"));
}

#[test]
fn what_is_no_number_of_a_job_is_refused() {
    for text in ["", "-1", "_1", "1;ls", "1 2", "$(x)", "a", "1.batch", &"1".repeat(50)] {
        assert!(text.parse::<JobId>().is_err(), "{text}");
    }
    for text in ["4711", "4711_3", "4711+1"] {
        assert!(text.parse::<JobId>().is_ok(), "{text}");
    }
    assert!("-x".parse::<Partition>().is_err() && "gpu-a100.long".parse::<Partition>().is_ok());
}

#[test]
fn why_a_step_gave_no_reading_is_told_apart() {
    let missing = "slurmstepd: error: execve(): oomdoctor: No such file or directory\nsrun: error: gpu01: task 0: Exited with exit code 2\n";
    assert!(why_no_step(missing).what_to_do.is_some());
    let reasons = [
        missing,
        "srun: error: Unable to create step for job 1: Access/permission denied",
        "srun: error: Unable to confirm allocation for job 77: Invalid job id specified",
        "",
    ];
    let said: std::collections::BTreeSet<String> = reasons.iter().map(|said| why_no_step(said).why).collect();
    assert_eq!(said.len(), reasons.len(), "{said:?}");
}

proptest! {
    #[test]
    fn no_text_makes_it_fail_or_grow(
        pieces in prop::collection::vec(prop_oneof![
            Just("NodeName=".to_owned()), Just("JobId=1 JobState=RUNNING NodeList=".to_owned()), Just(" Gres=gpu:".to_owned()),
            Just(" GresUsed=gpu:".to_owned()), Just("(IDX:".to_owned()), Just(" Nodes=".to_owned()), Just(" GRES=".to_owned()),
            Just("[0-1023]".to_owned()), Just(" Reason=".to_owned()), Just(" StdOut=/".to_owned()), Just(")".to_owned()),
            "[-a-z0-9,:()\\[\\]=ü\u{1b} ]{0,12}", Just("\n".to_owned()),
        ], 0..40)
    ) {
        let text = pieces.concat();
        let job: JobId = "1".parse().unwrap();
        prop_assert!(nodes(&text).len() <= text.lines().count());
        let found = jobs(&job, &text).unwrap_or_default();
        prop_assert!(found.iter().all(|job| job.nodes.len() <= MOST_NODES));
        prop_assert!(expanded(&text).is_none_or(|names| names.len() <= MOST_NODES));
        let _ = (partition_state(&text), why_no_step(&text));
        let has_escape = nodes(&text).iter().any(|node| node.allotment.state.contains('\u{1b}'));
        prop_assert!(!has_escape);
    }
}
