//! /proc as a folder of files and links.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::clock::Clock;
use super::{ProcError, Procfs, Stat, Watched};
use crate::gpu::Reading;

fn put(root: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn stat_line(pid: u32, comm: &str, parent: u32, flags: u32, start: u64) -> String {
    format!(
        "{pid} ({comm}) S {parent} {pid} {pid} 0 -1 {flags} 1 2 3 4 50 60 0 0 20 0 1 0 {start} 1000 20 18446744073709551615\n"
    )
}

#[test]
fn a_name_with_brackets_spaces_and_newlines_does_not_shift_the_fields() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "77/stat", stat_line(77, "a) R 1 (b\nc", 5, 4_194_304, 98_765));
    let stat = Procfs::new(root.path()).stat(77).unwrap();
    assert_eq!((stat.comm.as_str(), stat.state, stat.parent_pid), ("a) R 1 (b\nc", 'S', 5));
    assert_eq!((stat.user_ticks, stat.system_ticks, stat.start_ticks), (50, 60, 98_765));
    assert!(!stat.is_kernel_thread());
}

#[test]
fn kernel_threads_are_known_by_their_flag() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "2/stat", stat_line(2, "kthreadd", 0, 2_129_984, 0));
    assert!(Procfs::new(root.path()).stat(2).unwrap().is_kernel_thread());
}

#[test]
fn one_that_is_being_taken_away_is_gone_and_not_malformed() {
    let root = tempfile::tempdir().unwrap();
    // As the kernel prints it between a process's last moment and the end of its entry (do_task_stat).
    put(root.path(), "77/stat", "77 (sleep) X 0 -1 -1 0 -1 4227084 0 0 0 0 0 0 0 0 20 0 0 0 98765 0 0");
    assert_eq!(Procfs::new(root.path()).stat(77), Err(ProcError::Gone));
}

#[test]
fn gone_denied_and_malformed_are_three_things() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "3/stat", "3 (cut off");
    put(root.path(), "4/stat", "4 (short) S 1 4");
    let proc = Procfs::new(root.path());
    assert_eq!(proc.stat(9), Err(ProcError::Gone));
    assert_eq!(proc.stat(3), Err(ProcError::Malformed("stat")));
    assert_eq!(proc.stat(4), Err(ProcError::Malformed("stat")));
    assert_eq!(Reading::<u32>::from(ProcError::Denied), Reading::Denied);
}

/// As /proc is mounted with hidepid: 1 forbids to look into other users' folders, 2 does not show them at all.
#[test]
fn where_others_are_hidden_they_are_denied_and_what_is_ours_is_read() {
    let forbidden = [rustix::io::Errno::PERM, rustix::io::Errno::ACCESS];
    for errno in forbidden {
        let error = std::io::Error::from(errno);
        assert_eq!(Procfs::default().failure(77, &error), ProcError::Denied, "{error}");
    }
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "70/stat", stat_line(70, "job", 1, 0, 5));
    put(root.path(), "71/stat", stat_line(71, "job", 1, 0, 5));
    put(root.path(), "71/cmdline", "python\0theirs.py\0");
    let folder = root.path().join("71");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).unwrap();
    let proc = Procfs::new(root.path());
    assert_eq!(proc.stat(70).map(|stat| stat.start_ticks), Ok(5));
    // Nothing keeps root out.
    if !rustix::process::geteuid().is_root() {
        assert_eq!(proc.stat(71), Err(ProcError::Denied));
        assert_eq!(proc.arguments(71), Err(ProcError::Denied));
        assert_eq!(proc.open_driver_files(71), Err(ProcError::Denied));
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(proc.ancestors(70), [1], "and ends where nobody is shown");
    assert!(proc.pids().contains(&70));
}

#[test]
fn arguments_end_where_a_set_title_was_padded() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "5/cmdline", b"VLLM::EngineCore\0\0\0\0\0");
    put(root.path(), "6/cmdline", b"python\0\0train.py\0--name\0\xff\0");
    let proc = Procfs::new(root.path());
    assert_eq!(proc.arguments(5).unwrap(), ["VLLM::EngineCore"]);
    assert_eq!(proc.arguments(6).unwrap(), ["python", "", "train.py", "--name", "\u{fffd}"]);
}

#[test]
fn user_thread_group_and_namespace_are_read_from_status() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "7/status", "Name:\tx\nTgid:\t7\nUid:\t1000\t0\t0\t0\nNSpid:\t7\t1\n");
    let status = Procfs::new(root.path()).status(7).unwrap();
    assert_eq!((status.uid, status.thread_group, status.namespace_pids), (1000, 7, vec![7, 1]));
}

fn with_links(root: &Path, pid: u32, targets: &[&str]) {
    fs::create_dir_all(root.join(format!("{pid}/fd"))).unwrap();
    put(root, &format!("{pid}/maps"), "");
    for (number, target) in targets.iter().enumerate() {
        symlink(target, root.join(format!("{pid}/fd/{number}"))).unwrap();
    }
}

#[test]
fn device_files_count_but_not_modeset_alone() {
    let root = tempfile::tempdir().unwrap();
    with_links(root.path(), 1, &["/dev/null", "/dev/nvidia-modeset", "/dev/nvidia-modeset"]);
    with_links(root.path(), 2, &["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia0", "socket:[1]"]);
    with_links(root.path(), 3, &["/dev/dxg"]);
    with_links(root.path(), 4, &["/home/a/dev/nvidia0", "/dev/dri/renderD128"]);
    let proc = Procfs::new(root.path());
    assert_eq!(proc.open_driver_files(1).unwrap(), Vec::<String>::new());
    assert_eq!(proc.open_driver_files(2).unwrap(), ["/dev/nvidia-uvm", "/dev/nvidia0"]);
    assert_eq!(proc.open_driver_files(3).unwrap(), ["/dev/dxg"]);
    assert_eq!(proc.open_driver_files(4).unwrap(), Vec::<String>::new());
    let cards = |pid: u32| proc.open_cards(pid).unwrap();
    assert!([1, 3, 4].into_iter().all(|pid| cards(pid).is_empty()));
    assert!(cards(2).has(Some(0)) && !cards(2).has(Some(1)) && !cards(2).has(None));
}

#[test]
fn a_device_file_is_a_gpus_by_the_kernels_numbers_of_it() {
    let of = |major: u32, minor: u32| super::card_of_device(rustix::fs::makedev(major, minor));
    assert_eq!(of(195, 3), Some(super::CardFile::Minor(3)));
    for (major, minor) in [(195, 254), (195, 255), (226, 128), (1, 3), (10, 0)] {
        assert_eq!(of(major, minor), None, "{major}:{minor}");
    }
    // What is really open here is told by its numbers, whatever its name says.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nvidia0");
    let _open = File::create(&path).unwrap();
    assert!(Procfs::default().open_cards(std::process::id()).unwrap().is_empty(), "a plain file of that name");
}

#[test]
fn a_pod_is_known_by_its_environment_or_its_service_account() {
    let root = tempfile::tempdir().unwrap();
    let proc = || Procfs::new(root.path()).with_devices(root.path().join("dev"));
    put(root.path(), "self/environ", "HOME=/root\0KUBERNETES_SERVICE_HOST=\0");
    assert!(!proc().is_in_a_pod());
    fs::create_dir_all(root.path().join("dev/serviceaccount")).unwrap();
    assert!(proc().is_in_a_pod(), "a cleared environment");
    fs::remove_dir_all(root.path().join("dev")).unwrap();
    put(root.path(), "self/environ", "KUBERNETES_SERVICE_HOST=10.0.0.1\0");
    assert!(proc().is_in_a_pod());
}

#[test]
fn ancestors_are_walked_to_the_first_process_and_loops_end() {
    let root = tempfile::tempdir().unwrap();
    for (pid, parent) in [(30, 20), (20, 1), (1, 0), (50, 51), (51, 50)] {
        put(root.path(), &format!("{pid}/stat"), stat_line(pid, "x", parent, 0, 1));
    }
    let proc = Procfs::new(root.path());
    assert_eq!(proc.ancestors(30), [20, 1]);
    assert_eq!(proc.ancestors(50), [51, 50]);
}

#[test]
fn the_namespace_is_told_by_its_number() {
    let root = tempfile::tempdir().unwrap();
    let proc = Procfs::new(root.path());
    assert!(!proc.in_initial_pid_namespace());
    fs::create_dir_all(root.path().join("self/ns")).unwrap();
    symlink("pid:[4026532567]", root.path().join("self/ns/pid")).unwrap();
    assert!(!proc.in_initial_pid_namespace());
    fs::remove_file(root.path().join("self/ns/pid")).unwrap();
    symlink("pid:[4026531836]", root.path().join("self/ns/pid")).unwrap();
    assert!(proc.in_initial_pid_namespace());
}

#[test]
fn the_machine_is_described_and_what_is_missing_is_not_zero() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "sys/kernel/hostname", "gpu-box\n");
    put(root.path(), "stat", "cpu 1 2\nbtime 1700000000\n");
    put(root.path(), "driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue\nGCC\n");
    let proc = Procfs::new(root.path());
    assert_eq!(proc.host_name(), "gpu-box");
    let clock = proc.boot_clock().unwrap();
    assert_eq!(clock.at(clock.ticks_per_second * 3 / 2).unwrap().to_string(), "2023-11-14T22:13:21.500Z");
    assert_eq!(clock.at(u64::MAX), None);
    assert_eq!(proc.nvidia_module_version().as_deref(), Some("535.54.03"));
}

#[test]
fn this_very_process_can_be_read() {
    let proc = Procfs::default();
    let stat = proc.stat(std::process::id()).unwrap();
    assert!(stat.start_ticks > 0 && stat.parent_pid > 0);
    assert!(proc.ancestors(stat.pid).contains(&stat.parent_pid));
    assert!(proc.pids().contains(&stat.pid));
    assert_eq!(proc.status(stat.pid).unwrap().thread_group, stat.pid);
}

#[test]
fn a_session_led_from_outside_the_namespace_is_nobodys() {
    let root = tempfile::tempdir().unwrap();
    let in_session = |pid: u32, parent: u32, session: u32| {
        put(
            root.path(),
            &format!("{pid}/stat"),
            format!("{pid} (x) S {parent} {pid} {session} 0 -1 0 1 2 3 4 50 60 0 0 20 0 1 0 7 0"),
        );
    };
    in_session(1, 0, 0);
    in_session(2, 1, 0);
    in_session(3, 2, 3);
    in_session(4, 3, 3);
    in_session(5, 9, 3);
    let proc = Procfs::new(root.path());
    let shared: Vec<u32> = (1..=6).filter(|pid| proc.shares_its_parents_session(*pid)).collect();
    assert_eq!(shared, [4], "2 and 1 are both in session 0, 3 leads its own, 5's parent can't be read, 6 is gone");
}

#[test]
fn an_address_space_is_known_by_its_stack_where_that_is_seen_and_left_to_chance() {
    let root = tempfile::tempdir().unwrap();
    let marked = |stack: u64| {
        put(root.path(), "70/stat", format!("70 (x) S 1 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 5 0 0 0 0 0 {stack} 0 0"));
        Procfs::new(root.path()).stat(70).unwrap().image
    };
    let first = marked(0x7ffc_1234_5670);
    assert!(first.is_some() && first == marked(0x7ffc_1234_5670) && first != marked(0x7ffc_1234_5680));
    assert_eq!(marked(0), None, "it may not be seen");
    assert_eq!(marked(0x7fff_ffff_e000), None, "each begins there");
}

/// Reads until this is the case: a process runs on after it was told to.
fn read_until(watched: &mut Watched, is_so: impl Fn(&Result<Arc<Stat>, ProcError>) -> bool) {
    let due = Instant::now() + Duration::from_secs(60);
    while !is_so(&watched.stat()) {
        assert!(Instant::now() < due, "never seen");
        std::thread::yield_now();
    }
}

#[test]
fn what_a_process_does_between_two_readings_is_seen() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let mut watched = Procfs::default().watch(child.id()).unwrap();
    let is =
        |state: char| move |stat: &Result<Arc<Stat>, ProcError>| stat.as_ref().is_ok_and(|stat| stat.state == state);
    read_until(&mut watched, |stat| stat.as_ref().is_ok_and(|stat| stat.state == 'S' && stat.comm == "cat"));
    for (signal, state) in [(Signal::STOP, 'T'), (Signal::CONT, 'S'), (Signal::KILL, 'Z')] {
        rustix::process::kill_process(pid, signal).unwrap();
        read_until(&mut watched, is(state));
    }
    child.wait().unwrap();
    assert!(watched.stat().is_err());
}

#[test]
fn a_stat_is_read_again_once_its_process_ran_or_after_a_while_or_where_it_is_doubted() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let time_run = || Clock::default().time_run(pid).unwrap();
    let put_parent = |parent: u32| put(folder.path(), "stat", stat_line(pid, "cat", parent, 0, 5));
    let parents = |watched: &mut Watched, readings: u32| -> Vec<u32> {
        (0..readings).map(|_| watched.stat().unwrap().parent_pid).collect()
    };
    // Tried again where the process went on to sleep meanwhile, or this one did for long.
    let mut watched = loop {
        let (slept_at, began) = (time_run(), Instant::now());
        put_parent(1);
        let stat = File::open(folder.path().join("stat")).unwrap();
        let mut watched = Watched { stat, ..Procfs::default().watch(pid).unwrap() };
        // The first two readings tell since when it has not run.
        let mut seen = parents(&mut watched, 2);
        put_parent(2);
        seen.extend(parents(&mut watched, 3));
        let read_at = &mut watched.latest.as_mut().unwrap().read_at;
        *read_at = read_at.checked_sub(super::READ_STAT_AGAIN).unwrap();
        seen.extend(parents(&mut watched, 1));
        put_parent(3);
        watched.doubt();
        seen.extend(parents(&mut watched, 1));
        put_parent(4);
        seen.extend(parents(&mut watched, 1));
        if time_run() == slept_at && began.elapsed() < super::READ_STAT_AGAIN {
            assert_eq!(seen, [1, 1, 1, 1, 1, 2, 3, 3]);
            break watched;
        }
    };
    let slept_at = time_run();
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    while time_run() == slept_at {}
    assert_eq!(parents(&mut watched, 1), [4], "it ran");
    child.kill().unwrap();
    child.wait().unwrap();
}
