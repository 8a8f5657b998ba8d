//! Owns the tests of which machine is best for a model, and of whose exit is named.

use super::*;
use crate::cli::fit::flags::FitArgs;
use crate::gpu::Reading;
use crate::gpu::testing::{device, process, snapshot};
use crate::hosts::{Allotment, Unavailable};

fn args(arguments: &[&str]) -> FitArgs {
    use clap::{Args, FromArgMatches};
    let command = FitArgs::augment_args(clap::Command::new("fit"));
    FitArgs::from_arg_matches(&command.get_matches_from([&["fit"], arguments].concat())).unwrap()
}

fn unread(name: &str) -> HostReading {
    HostReading::unavailable(name.parse().unwrap(), Through::Ssh, Unavailable::new("timed out"))
}

/// A machine that was read twice, two seconds apart, in which no process did anything; a list of processes for each GPU.
fn read(name: &str, gpus: &[Vec<GpuProcess>]) -> HostReading {
    let at = |second: i64| {
        let devices = (0..).zip(gpus).map(|(index, rows)| device(index, rows.clone()));
        Box::new(Snapshot { devices: devices.collect(), ..snapshot(second) })
    };
    HostReading { seen: Ok((at(0), Some(at(2)))), ..unread(name) }
}

fn of(user: &str, pid: u32, gib: u64) -> GpuProcess {
    let mut row = process(pid, Bytes::gib(gib));
    row.user = Reading::Known(user.to_owned());
    row
}

/// Names, verdicts and whose exit is named, in order.
fn told(readings: &[HostReading], asked: &Asked) -> Vec<(String, Verdict, Vec<u32>)> {
    let args = args(&["llama-3.1-8b", "--engine", "transformers", "--context", "8192", "--dtype", "bfloat16"]);
    let wanted = Wanted::of(&args, "llama-3.1-8b").unwrap();
    let all = ranked(&wanted, readings, "ada", asked);
    let told = all.iter().map(|on_host| {
        let pids = on_host.once_exited.iter().map(|exiting| exiting.key.pid).collect();
        (on_host.reading.name.to_string(), on_host.verdict, pids)
    });
    told.collect()
}

fn order(readings: &[HostReading], asked: &Asked) -> Vec<String> {
    told(readings, asked).into_iter().map(|(name, ..)| name).collect()
}

#[test]
fn most_room_comes_first_and_the_unread_last() {
    let busy = {
        let mut row = of("ada", 9, 23);
        row.sm_percent = Reading::Known(90);
        row
    };
    let readings = [
        unread("gone"),
        read("full", &[vec![busy]]),
        read("roomy", &[vec![of("bob", 5, 2)], vec![]]),
        read("idle", &[vec![of("bob", 7, 20)]]),
        read("tight", &[vec![of("bob", 6, 4)]]),
    ];
    let told = told(&readings, &Asked::default());
    let names: Vec<&str> = told.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["roomy", "tight", "idle", "full", "gone"], "{told:?}");
    assert_eq!((told[0].1, &told[2].2, told[4].1), (Verdict::Fits, &vec![7], Verdict::Unknown));
    assert!(told[3].2.is_empty(), "a busy process is never named: {told:?}");
}

#[test]
fn of_machines_on_which_only_a_change_fits_the_one_that_keeps_most_comes_first() {
    let args = args(&["llama-3.1-8b", "--context", "131072"]);
    let wanted = Wanted::of(&args, "llama-3.1-8b").unwrap();
    let busy = |gib| {
        let mut row = of("bob", 9, gib);
        row.sm_percent = Reading::Known(90);
        vec![row]
    };
    let readings = [read("small", &[busy(14)]), read("large", &[busy(10)])];
    let all = ranked(&wanted, &readings, "ada", &Asked::default());
    assert!(all.iter().all(|on_host| on_host.verdict == Verdict::FitsChanged));
    assert_eq!(all.first().map(|on_host| on_host.reading.name.as_str()), Some("large"));
}

#[test]
fn ones_own_idle_process_is_named_before_another_users() {
    let args = args(&["llama-3.1-8b", "--engine", "transformers", "--context", "8192", "--dtype", "nf4"]);
    let wanted = Wanted::of(&args, "llama-3.1-8b").unwrap();
    let both = [read("gpu1", &[vec![of("bob", 7, 10), of("ada", 8, 12)]])];
    let all = ranked(&wanted, &both, "ada", &Asked::default());
    let pids: Vec<u32> = all[0].once_exited.iter().map(|exiting| exiting.key.pid).collect();
    assert_eq!(pids, [8], "though less would be enough");
    let mut protected = of("ada", 8, 20);
    protected.protected = Some("the display server".to_owned());
    assert!(told(&[read("gpu1", &[vec![protected]])], &Asked::default())[0].2.is_empty());
}

#[test]
fn a_worker_of_a_busy_launcher_is_not_named() {
    let group = Some(ProcessKey { pid: 1, start_ticks: 1 });
    let (mut idle, mut busy) = (of("bob", 7, 20), of("bob", 8, 22));
    (idle.group, busy.group) = (group, group);
    busy.sm_percent = Reading::Known(80);
    let args = args(&["llama-3.1-8b", "--gpu", "0", "--engine", "transformers", "--context", "8192"]);
    let wanted = Wanted::of(&args, "llama-3.1-8b").unwrap();
    let named = |rows: &[Vec<GpuProcess>]| {
        let readings = [read("gpu1", rows)];
        ranked(&wanted, &readings, "ada", &Asked::default())[0].once_exited.len()
    };
    assert_eq!(named(&[vec![idle.clone()], vec![busy]]), 0);
    assert_eq!(named(&[vec![idle], vec![]]), 1);
}

#[test]
fn a_machine_whose_gpus_are_all_given_stands_behind_one_with_less_room() {
    let asked = Asked { slurm: Some(None), ..Asked::default() };
    let given = |given, reading| HostReading {
        allotment: Some(Allotment { gpus: Some(2), given: Some(given), is_open: true, ..Allotment::default() }),
        ..reading
    };
    let readings = [given(2, read("given", &[vec![]])), given(1, read("open", &[vec![of("bob", 6, 4)]]))];
    assert_eq!(order(&readings, &asked), ["open", "given"]);
    let inside = Asked { job: Some("7".parse().unwrap()), ..asked };
    assert_eq!(order(&readings, &inside), ["given", "open"], "inside of a job its GPUs are its own");
}

#[test]
fn a_gpu_that_was_given_to_a_job_is_not_the_one_that_is_proposed() {
    let allotment = Allotment { given_indices: Some(vec![0]), is_open: true, ..Allotment::default() };
    let reading = HostReading { allotment: Some(allotment), ..read("node", &[vec![], vec![of("bob", 6, 1)]]) };
    let args = args(&["llama-3.1-8b", "--engine", "vllm", "--context", "8192", "--share", "0.8"]);
    let wanted = Wanted::of(&args, "llama-3.1-8b").unwrap();
    let readings = [reading];
    let asked = Asked { slurm: Some(None), ..Asked::default() };
    let all = ranked(&wanted, &readings, "ada", &asked);
    assert_eq!(all[0].gpus(), [1]);
    let command = all[0].command.as_deref().unwrap();
    assert!(command.starts_with("srun --nodelist=node --gpus=1 vllm serve "), "{command}");
}

#[test]
fn an_idle_process_is_found_also_on_a_gpu_with_less_free() {
    let mut busy = of("bob", 7, 14);
    busy.sm_percent = Reading::Known(90);
    let readings = [read("gpu1", &[vec![busy], vec![of("ada", 8, 20)]])];
    let args = args(&["llama-3.1-8b", "--engine", "llama.cpp", "--context", "8192", "--dtype", "BF16"]);
    let wanted = Wanted::of(&args, "llama-3.1-8b").unwrap();
    let all = ranked(&wanted, &readings, "ada", &Asked::default());
    assert_eq!(all[0].once_exited.iter().map(|exiting| (exiting.key.pid, exiting.gpu)).collect::<Vec<_>>(), [(8, 1)]);
}
