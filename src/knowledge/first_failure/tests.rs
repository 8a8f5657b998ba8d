//! Tests which rank failed first, on logs in the forms of launchers, engines and schedulers.

use super::{FirstFailure, Others};
use crate::knowledge::KnowledgeBase;
use crate::knowledge::diagnosis::{Diagnosis, Oom};
use crate::log::PastedLog;

/// PyTorch's message about this GPU.
fn oom(gpu: u32) -> String {
    format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {gpu} has a total capacity of 79.10 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.0{gpu} GiB memory in use."
    )
}

/// One entry of the block that torchrun ends with.
fn entry(number: usize, second: u32, host: &str, (rank, local): (u64, u64), (code, pid): (i32, u32)) -> String {
    format!(
        "[{number}]:\n  time      : 2026-03-25_20:57:{second:02}\n  host      : {host}\n  rank      : {rank} (local_rank: {local})\n  exitcode  : {code} (pid: {pid})\n  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    )
}

/// torchrun's block, with the root cause last.
fn block(others: &[String], root: &str) -> String {
    let others = if others.is_empty() { "  <NO_OTHER_FAILURES>".to_owned() } else { others.join("\n") };
    let rule = "-".repeat(60);
    let frame = "=".repeat(60);
    format!(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n{frame}\ntrain.py FAILED\n{rule}\nFailures:\n{others}\n{rule}\nRoot Cause (first observed failure):\n{root}\n{frame}"
    )
}

fn diagnosed(log: &str) -> Diagnosis {
    KnowledgeBase::built_in().unwrap().diagnose(&PastedLog::new(log), None)
}

/// The line that holds this text, counted from 1.
fn line_of(log: &str, text: &str) -> usize {
    log.lines().position(|line| line.contains(text)).unwrap() + 1
}

/// Host, rank, PID and device.
type Who<'a> = (Option<&'a str>, Option<u64>, Option<u32>, Option<u32>);

/// Holds that this log's first failure is that one, and that its line leads.
#[track_caller]
fn holds(log: &str, (host, rank, pid, device): Who<'_>, at: &str) -> Others {
    let diagnosis = diagnosed(log);
    let line = line_of(log, at);
    let expected = FirstFailure { host: host.map(str::to_owned), rank, pid, device, line };
    assert_eq!(diagnosis.facts.first_failure, Some(expected), "{log}");
    assert_eq!(diagnosis.matches[0].line, line, "{log}");
    assert_eq!(diagnosis.facts.device, device, "{log}");
    diagnosis.run.others.unwrap()
}

#[track_caller]
fn has_none(log: &str) {
    let diagnosis = diagnosed(log);
    assert_ne!(diagnosis.oom, Oom::No, "{log}");
    assert_eq!((diagnosis.facts.first_failure, diagnosis.run.others), (None, None), "{log}");
}

#[test]
fn one_process_has_no_first_failure() {
    has_none(&oom(0));
    has_none(&format!("Traceback (most recent call last):\n{}\n", oom(3)));
    // A single rank of torchrun.
    has_none(&format!("[rank0]: {}\n{}", oom(0), block(&[], &entry(0, 1, "box", (0, 0), (1, 12)))));
    // One engine and its server.
    has_none(&format!("(APIServer pid=1) INFO start\n(EngineCore_DP0 pid=78) {}\n(APIServer pid=1) text", oom(0)));
    // A numbered list, a tensor's shape, a table of GPUs.
    has_none(&format!("1: load\n2: train\n3: save\n{}", oom(0)));
    has_none(&format!("[1,3] torch.Size([1,3])\n[0]\n{}", oom(0)));
    has_none(&format!("GPU0: 79 GiB\nGPU1: 79 GiB\nGPU0: 3 GiB\nGPU1: 2 GiB\n{}", oom(0)));
    // One container of compose.
    has_none(&format!("vllm-1  | start\nvllm-1  | {}\nvllm-1  | end", oom(0)));
}

#[test]
fn ranks_of_pytorch_and_torchruns_block() {
    let others = [entry(1, 8, "node07", (9, 1), (-15, 501)), entry(2, 9, "node07", (10, 2), (-6, 502))];
    let block = block(&others, &entry(0, 5, "node07", (11, 3), (1, 12345)));
    let log = format!(
        "[rank11]: Traceback (most recent call last):\n[rank11]: {}\n[rank9]:[E624 04:14:29.2 ProcessGroupNCCL.cpp:684] [Rank 9] Watchdog caught collective operation timeout\n{block}",
        oom(3)
    );
    let others = holds(&log, (Some("node07"), Some(11), Some(12345), Some(3)), "[rank11]: torch.Out");
    assert_eq!(others, Others { count: None, also_failed: 0 }, "there are ranks that the log does not show");
}

#[test]
fn torchruns_root_cause_beats_the_position() {
    let block = block(&[entry(1, 9, "n1", (1, 1), (1, 51))], &entry(0, 5, "n1", (2, 2), (1, 52)));
    let log = format!("[rank1]: {}\n[rank2]: {}\n{block}", oom(1), oom(2));
    let others = holds(&log, (Some("n1"), Some(2), Some(52), Some(2)), "[rank2]: torch.Out");
    assert_eq!(others.also_failed, 1);
}

#[test]
fn of_failures_in_one_second_torchruns_choice_means_nothing() {
    let block = block(&[entry(1, 5, "n1", (1, 1), (1, 51))], &entry(0, 5, "n1", (0, 0), (1, 50)));
    holds(
        &format!("[rank1]: {}\n[rank0]: {}\n{block}", oom(1), oom(0)),
        (Some("n1"), Some(1), Some(51), Some(1)),
        "[rank1]",
    );
    // Before PyTorch 2.4 no line has a rank, but the message has its GPU.
    holds(&format!("{}\n{block}", oom(1)), (Some("n1"), Some(1), Some(51), Some(1)), "torch.OutOf");
    let cpu = "RuntimeError: [enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 14745600000 bytes. Error code 12 (Cannot allocate memory)";
    holds(&format!("{cpu}\n{block}"), (None, None, None, None), "alloc_cpu");
}

#[test]
fn a_failure_without_a_name_is_that_of_the_root_cause() {
    let root = entry(0, 5, "node07", (3, 3), (1, 12345));
    let stopped =
        "W0217 08:19:10.679000 140475426195264 torch/distributed/elastic/multiprocessing/api.py:851] Sending process";
    let log = format!(
        "{}\n{stopped} 12342 closing signal SIGTERM\n{stopped} 12343 closing signal SIGTERM\n{stopped} 12344 closing signal SIGTERM\n{}",
        oom(3),
        block(&[], &root)
    );
    let others = holds(&log, (Some("node07"), Some(3), Some(12345), Some(3)), "torch.OutOf");
    assert_eq!(others, Others { count: Some(3), also_failed: 0 });
    // Each rank may see its own GPU only.
    let log = format!("{}\n{}", oom(0), block(&[], &root));
    holds(&log, (Some("node07"), Some(3), Some(12345), Some(0)), "torch.OutOf");
}

#[test]
fn a_killed_rank_is_named_by_torchruns_table_and_block() {
    let killed = "[ERROR] torch.distributed.elastic.multiprocessing.api: failed (exitcode: -9) local_rank: 1 (pid: 3310) of binary: /opt/venv/bin/python";
    holds(killed, (None, Some(1), Some(3310), None), "exitcode: -9");
    let log = format!("{killed}\n{}", block(&[], &entry(0, 5, "n7", (9, 1), (-9, 3310))));
    holds(&log, (Some("n7"), Some(9), Some(3310), None), "failed (exitcode");
    let traceback = "[0]:\n  time      : 2023-08-01_01:06:47\n  host      : r1n2\n  rank      : 4 (local_rank: 4)\n  exitcode  : -9 (pid: 208585)\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 208585";
    holds(&block(&[], traceback), (Some("r1n2"), Some(4), Some(208_585), None), "exitcode  : -9");
}

#[test]
fn a_traceback_within_the_block_is_that_ranks() {
    let with = |number, second, rank: u64, text: &str| {
        let entry = entry(number, second, "n7", (rank, rank), (1, 500 + u32::try_from(rank).unwrap()));
        entry.replace("To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html", text)
    };
    let own = |rank: u32| format!("Traceback (most recent call last):\n    File \"t.py\", line 1\n  {}\n  ", oom(rank));
    let log = block(&[with(1, 9, 1, &own(1))], &with(0, 5, 2, &own(2)));
    holds(&log, (Some("n7"), Some(2), Some(502), Some(2)), "GPU 2 has");
}

#[test]
fn the_time_of_the_lines_beats_all_else() {
    let log = format!(
        "2026-03-25 20:57:31.5 [rank1]: {}\n2026-03-25 20:57:31.25 [rank3]: {}\n{}",
        oom(1),
        oom(3),
        block(&[entry(1, 40, "n", (3, 3), (1, 53))], &entry(0, 33, "n", (1, 1), (1, 51)))
    );
    holds(&log, (Some("n"), Some(3), Some(53), Some(3)), "[rank3]");
    // Not where one of them has none.
    let log = format!("[rank1]: {}\n2026-03-25 20:57:31.25 [rank3]: {}\n", oom(1), oom(3));
    holds(&log, (None, Some(1), None, Some(1)), "[rank1]");
}

#[test]
fn logs_of_two_nodes_in_one_file() {
    let node = |name: &str, second, (rank, local), code, pid, lines: &str| {
        let block = block(&[], &entry(0, second, name, (rank, local), (code, pid)));
        let lines: Vec<String> = format!("{lines}\n{block}").lines().map(|line| format!("{name}: {line}")).collect();
        lines.join("\n")
    };
    let stopped = node(
        "node02",
        9,
        (8, 0),
        -6,
        77,
        "[rank8]: torch.distributed.DistBackendError: NCCL error: remote process exited\n[rank8]: end",
    );
    let failed = node("node01", 5, (3, 3), 1, 12345, &format!("[rank3]: step 1\n[rank3]: {}", oom(3)));
    holds(&format!("{stopped}\n{failed}"), (Some("node01"), Some(3), Some(12345), Some(3)), "GPU 3 has");
}

#[test]
fn srun_with_labels() {
    let message = oom(0);
    let mut lines = vec!["srun: job 771 queued".to_owned()];
    for step in 0..3 {
        lines.extend((0..8).map(|task| format!("{task}: step {step} loss 1.2")));
    }
    lines.push(format!("5: {message}"));
    lines.push(
        "3: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error".into(),
    );
    lines.push("srun: error: node07: task 5: Exited with exit code 1".into());
    lines.push("srun: error: node07: tasks 0-4,6-7: Terminated".into());
    let log = lines.join("\n");
    let others = holds(&log, (Some("node07"), Some(5), None, Some(0)), "5: torch.Out");
    assert_eq!(others, Others { count: Some(7), also_failed: 0 });
    let padded: Vec<String> = (0..24).map(|at| format!("{:02}: step {}", at % 12, at / 12)).collect();
    let log = format!("{}\n07: {message}", padded.join("\n"));
    assert_eq!(holds(&log, (None, Some(7), None, Some(0)), "07: torch").count, Some(11));
}

#[test]
fn tasks_of_srun_that_are_nodes_of_torchrun_are_no_ranks() {
    let mut lines: Vec<String> = Vec::new();
    for step in 0..3 {
        lines.extend((0..2).map(|node| format!("{node}: step {step}")));
    }
    lines.push(format!("1: {}", oom(3)));
    for line in block(&[], &entry(0, 5, "node08", (11, 3), (1, 12345))).lines() {
        lines.push(format!("1: {line}"));
    }
    holds(&lines.join("\n"), (Some("node08"), Some(11), Some(12345), Some(3)), "1: torch.Out");
}

#[test]
fn slurm_names_the_task_that_ran_out_of_ram() {
    let log = "slurmstepd: error: Detected 1 oom-kill event(s) in step 3495064.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.\nsrun: error: node07: task 3: Out Of Memory\nsrun: Terminating job step 3495064.0";
    holds(log, (Some("node07"), Some(3), None, None), "slurmstepd");
    holds("srun: error: gpu01: task 3: Killed\n", (Some("gpu01"), Some(3), None, None), "srun");
    // Which of four tasks is unknown.
    holds(
        "srun: error: n7: task 1: Terminated\nsrun: error: n7: tasks 0-3: Killed",
        (Some("n7"), None, None, None),
        "Killed",
    );
}

#[test]
fn mpi_and_horovod() {
    let mpi = format!(
        "[1,0]<stdout>:step 1\n[1,3]<stderr>:{}\n[1,0]<stderr>:NCCL WARN Connection closed by remote peer",
        oom(0)
    );
    let noticed = "mpirun noticed that process rank 3 with PID 12345 on node node07 exited on signal 6 (Aborted).";
    holds(&format!("{mpi}\n{noticed}"), (Some("node07"), Some(3), Some(12345), Some(0)), "[1,3]<stderr>:torch");
    let stamped =
        format!("Thu Jan 23 11:55:52 2025[1,1]<stderr>:{}\nThu Jan 23 11:55:50 2025[1,2]<stderr>:{}", oom(1), oom(2));
    assert_eq!(holds(&stamped, (None, Some(2), None, Some(2)), "[1,2]<stderr>").also_failed, 1);
    holds(&format!("[0]<stdout>:epoch 1\n[2]<stderr>:{}", oom(2)), (None, Some(2), None, Some(2)), "[2]<stderr>");
    let sagemaker = format!("[1,mpirank:0,algo-1]<stdout>:ok\n[1,mpirank:9,algo-2]<stderr>:{}", oom(1));
    holds(&sagemaker, (Some("algo-2"), Some(9), None, Some(1)), "[1,mpirank:9");
}

#[test]
fn prefixes_of_torchruns_tee() {
    let lines: Vec<String> = (0..4).map(|rank| format!("[default{rank}]:step 1")).collect();
    let log = format!("{}\n[default3]:{}", lines.join("\n"), oom(3));
    holds(&log, (None, Some(3), None, Some(3)), "[default3]:torch");
    // With several nodes the local rank is not the rank.
    holds(&format!("torchrun --nnodes=2 train.py\n{log}"), (None, None, None, Some(3)), "[default3]:torch");
    let log = format!("{}\n[default3]:[rank11]: {}", lines.join("\n"), oom(3));
    holds(&log, (None, Some(11), None, Some(3)), "[rank11]: torch");
}

#[test]
fn workers_of_vllm() {
    let log = format!(
        "(Worker_TP1 pid=161) ERROR 05-20 20:54:33 [multiproc_executor.py:962] {}\n(Worker_TP0 pid=160) ERROR 05-20 20:54:32 [multiproc_executor.py:962] {}\n(EngineCore pid=90) ERROR 05-20 20:54:31 [core.py:1348] RuntimeError: Worker failed with error 'CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.'",
        oom(1),
        oom(0)
    );
    let others = holds(&log, (None, Some(0), Some(160), Some(0)), "(Worker_TP0");
    assert_eq!(others, Others { count: Some(1), also_failed: 1 });
    let v0 = format!("(VllmWorkerProcess pid=2421) ERROR 10-14 12:32:47 multiproc_worker_utils.py:233] {}", oom(3));
    holds(&v0, (None, None, Some(2421), Some(3)), "VllmWorkerProcess");
    let v1 = format!(
        "(VllmWorker rank=0 pid=76) INFO ok\n(VllmWorker rank=1 pid=77) ERROR 03-19 07:27:53 [a.py:375] {}",
        oom(1)
    );
    holds(&v1, (None, Some(1), Some(77), Some(1)), "VllmWorker rank=1 pid=77");
    let dp = format!("(EngineCore_DP0 pid=70) INFO ok\n(EngineCore_DP1 pid=71) {}\n(APIServer pid=1) end", oom(1));
    holds(&dp, (None, Some(1), Some(71), Some(1)), "EngineCore_DP1");
}

#[test]
fn what_an_engine_says_of_its_worker_names_the_worker() {
    let log = format!(
        "(VllmWorker rank=1 pid=2979) ERROR 03-19 07:27:53 [multiproc_executor.py:375] {}\nERROR 03-19 07:27:54 [core.py:340] RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
        oom(1)
    );
    let diagnosis = diagnosed(&log);
    let first = diagnosis.facts.first_failure.unwrap();
    assert_eq!((first.rank, first.pid, first.device, first.line), (Some(1), Some(2979), Some(1), 1));
    assert_eq!(diagnosis.matches[0].entry.as_str(), "vllm/sampler-warm-up");
}

#[test]
fn ranks_of_sglang_whose_tracebacks_have_no_prefix() {
    let log = format!(
        "[2025-05-19 23:22:20 TP0] Load weight begin.\n[2025-05-19 23:22:20 TP3] Load weight begin.\n[2025-05-19 23:22:28 TP3] Scheduler hit an exception: Traceback (most recent call last):\n  File \"scheduler.py\", line 2026, in run_scheduler_process\n    scheduler.event_loop_overlap()\n{}\n\n[2025-05-19 23:22:28] Received sigquit from a child process. It usually means the child failed.",
        oom(3)
    );
    holds(&log, (None, Some(3), None, Some(3)), "torch.OutOf");
    let compose: Vec<String> = log.lines().map(|line| format!("sglang-1  | {line}")).collect();
    holds(&compose.join("\n"), (None, Some(3), None, Some(3)), "torch.OutOf");
}

#[test]
fn workers_of_ray() {
    let log = format!(
        "(RayTrainWorker pid=1233, ip=10.0.0.6) step 1\n(RayTrainWorker pid=1234, ip=10.0.0.7) {}\n(TrainController pid=9) text",
        oom(0)
    );
    holds(&log, (Some("10.0.0.7"), None, Some(1234), Some(0)), "pid=1234");
    let log = format!(
        "(TaskRunner pid=104449) start\n(WorkerDict pid=118847) a\n(WorkerDict pid=118848) b\nray.exceptions.RayTaskError(OutOfMemoryError): ray::Runner.run() (pid=104449, ip=10.130.71.7, actor_id=36b6)\n  File \"main.py\", line 94, in run\nray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_rollout_ref_update_actor() (pid=118848, ip=10.130.71.7, actor_id=b2ba)\n  File \"base.py\", line 432, in func\n{}",
        oom(0)
    );
    holds(&log, (Some("10.130.71.7"), None, Some(118_848), Some(0)), "torch.OutOf");
}

#[test]
fn a_driver_of_ray_that_prints_its_workers_traceback() {
    let log = format!(
        "(TaskRunner pid=900) ray::WorkerDict.update_actor() (pid=1234, ip=10.0.0.7, actor_id=ab)\n(TaskRunner pid=900)   File x\n(TaskRunner pid=900) {}\n(WorkerDict pid=1235, ip=10.0.0.7) step",
        oom(0)
    );
    holds(&log, (Some("10.0.0.7"), None, Some(1234), Some(0)), "torch.OutOf");
}

#[test]
fn deepspeeds_launcher() {
    let kills: Vec<String> = (0..4)
        .map(|at| {
            format!("[2023-04-16 21:54:13,235] [INFO] [launch.py:428:sigkill_handler] Killing subprocess {}", 100 + at)
        })
        .collect();
    let exit = "[2023-04-16 21:54:16,061] [ERROR] [launch.py:434:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=2', '--deepspeed'] exits with return code = 1";
    let log = format!("{}\n{}\n{exit}", oom(2), kills.join("\n"));
    let others = holds(&log, (None, Some(2), None, Some(2)), "torch.OutOf");
    assert_eq!(others.count, Some(3));
}

#[test]
fn hosts_of_pdsh_and_pods() {
    let hosts =
        format!("node07: step 1\nnode08: step 1\nnode07: step 2\nnode08: step 2\nnode08: {}\nnode07: end", oom(3));
    holds(&hosts, (Some("node08"), None, None, Some(3)), "node08: torch");
    let pods = format!("[pod/train-worker-2/pytorch] step\n[pod/train-worker-3/pytorch] {}", oom(0));
    holds(&pods, (Some("train-worker-3"), None, None, Some(0)), "[pod/train-worker-3/pytorch] torch");
    let ranked = format!("[pod/train-worker-2/pytorch] step\n[pod/train-worker-3/pytorch] [rank3]: {}", oom(0));
    holds(&ranked, (Some("train-worker-3"), Some(3), None, Some(0)), "[rank3]");
    let cluster = format!("[gpu187:1]:step\n[gpu187:0]:step\n[gpu187:1]:{}\n[gpu187:0]:\n[gpu187:0]:x", oom(1));
    holds(&cluster, (Some("gpu187"), Some(1), None, Some(1)), "[gpu187:1]:torch");
}

#[test]
fn lightning_and_spawned_processes() {
    let log = format!("[rank: 0] Seed set to 42\n[rank: 1] Seed set to 42\n{}", oom(1));
    holds(&log, (None, None, None, Some(1)), "torch.OutOf");
    let log = format!(
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 3 terminated with the following error:\nTraceback (most recent call last):\n  File \"spawn.py\", line 90\n{}\nprocess 1 terminated with signal SIGTERM",
        oom(3)
    );
    holds(&log, (None, Some(3), None, Some(3)), "torch.OutOf");
    holds(
        "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGKILL",
        (None, Some(2), None, None),
        "process 2",
    );
}

#[test]
fn what_is_torn_down_is_never_first() {
    for consequence in [
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, remote process exited or there was a network error",
        "[rank0]: ConnectionResetError: [Errno 104] Connection reset by peer",
        "[rank0]: BrokenPipeError: [Errno 32] Broken pipe",
        "[rank0]:[E624 04:14:29.2 ProcessGroupNCCL.cpp:684] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, Timeout(ms)=600000)",
        "srun: error: node06: task 0: Terminated",
        "[rank0]: torch.distributed.elastic.multiprocessing.api.SignalException: Process 4242 got signal: 15",
    ] {
        holds(&format!("{consequence}\n[rank3]: {}", oom(3)), (None, Some(3), None, Some(3)), "[rank3]");
    }
}

#[test]
fn what_the_program_recovered_from_is_no_failure() {
    let log = "[rank1]: | WARNING: ran out of memory with exception: CUDA out of memory. Tried to allocate 29.02 MiB (GPU 0; 11.51 GiB total capacity; 10.45 GiB already allocated; 25.44 MiB free)\n Skipping batch";
    assert_eq!(diagnosed(log).oom, Oom::Maybe);
    has_none(log);
}

#[test]
fn another_failure_is_named_by_torchrun() {
    let log = format!(
        "[rank3]: ValueError: bad\n[rank3]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n{}",
        block(&[], &entry(0, 5, "n", (3, 3), (1, 53)))
    );
    let diagnosis = diagnosed(&log);
    assert_eq!(diagnosis.oom, Oom::No);
    let first = diagnosis.facts.first_failure.unwrap();
    assert_eq!((first.rank, first.pid, first.line), (Some(3), Some(53), 2));
}
