//! `oomdoctor run` changes nothing: each test runs a command alone and recorded, and both must be the same from outside.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use oomdoctor::record::recording::Recording;
use oomdoctor::record::{End, Line};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

use crate::support::fake_driver::{FakeDriver, GIB, Sleeper, devices, homes};
use crate::support::pty::{PATIENCE, Session, pass};
use crate::support::{children_of, ends_within};

const SIZE: (u16, u16) = (80, 24);
/// A driver's library that is not there.
const NO_DRIVER: &str = "/nonexistent/libnvidia-ml.so.1";
/// What a program prints that ran out of VRAM.
const OUT_OF_MEMORY: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total \
     capacity of 23.65 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this process has 22.58 GiB memory in \
     use. Of the allocated memory 22.05 GiB is allocated by PyTorch, and 41.88 MiB is reserved by PyTorch but unallocated.";
/// A shell script that goes on through signals that it traps, until SIGTERM: then its exit code is 5. It starts nothing that a
/// signal could end, and waits in short turns, because bash can miss a signal that arrives just before it waits.
const GO_ON: &str = "exec 3<> <(:); trap 'exit 5' TERM; echo ready; while :; do read -t 0.1 -u 3; done";

/// How a command is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Alone,
    Recorded,
}

const BOTH: [How; 2] = [How::Alone, How::Recorded];

impl How {
    /// This command, with the environment of the tests.
    fn command(self, argv: &[&str]) -> Command {
        let mut command = match self {
            How::Alone => Command::new(argv[0]),
            How::Recorded => recorder(NO_DRIVER.as_ref(), &["run", "--"]),
        };
        command.args(&argv[usize::from(self == How::Alone)..]).stdin(Stdio::null()).envs(homes());
        command
    }

    fn shell(self, script: &str) -> Command {
        self.command(&["bash", "-c", script])
    }

    /// What stands before a command in a line of a shell.
    fn prefix(self) -> String {
        match self {
            How::Alone => String::new(),
            How::Recorded => format!(
                "{} --nvml-library {NO_DRIVER} --device-folder {} run -- ",
                env!("CARGO_BIN_EXE_oomdoctor"),
                devices().display()
            ),
        }
    }
}

/// The program with this driver, and nothing of the environment that would tell of ranks.
fn recorder(driver: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    command.arg("--nvml-library").arg(driver).arg("--device-folder").arg(devices()).args(arguments);
    for name in ["LOCAL_RANK", "SLURM_LOCALID", "RANK"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).envs(homes());
    command
}

/// How a process ended: its exit code or its signal.
fn end(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), status.signal())
}

/// What can be seen of a command that ran to its end.
fn seen(output: Output) -> (String, String, (Option<i32>, Option<i32>)) {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr), end(output.status))
}

/// Fails if the command is not the same when it is recorded.
#[track_caller]
fn assert_same(what: &str, run: impl Fn(How) -> Command) {
    let [alone, recorded] = BOTH.map(|how| seen(run(how).output().unwrap()));
    assert_eq!(alone, recorded, "{what}");
}

/// The first line of a pipe.
fn first_line(pipe: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while pipe.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

fn signal(pid: u32, signal: Signal) {
    kill_process(pid_of(pid), signal).unwrap();
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// Waits until this is the case.
#[track_caller]
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let due = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < due, "never: {what}");
        pass(Duration::from_millis(5));
    }
}

/// Named pipes with which a test tells a command to go on.
struct Gates(TempDir);

impl Gates {
    fn new() -> Gates {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            mknodat(CWD, folder.path().join(name), FileType::Fifo, Mode::RWXU, 0).unwrap();
        }
        Gates(folder)
    }

    /// The path of one. A shell waits there with `read go < PATH`.
    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Opens it for whoever waits there.
    fn open(&self, name: &str) {
        File::options().write(true).open(self.path(name)).unwrap().write_all(b"go\n").unwrap();
    }
}

/// The process that records for this one.
#[track_caller]
fn recorder_of(relay: u32) -> u32 {
    until("a recorder", || {
        let arguments = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        children_of(relay).into_iter().find(|pid| arguments(pid).split('\0').any(|argument| argument == "record"))
    })
}

/// The records of the state folder.
fn records() -> Vec<PathBuf> {
    let [_, (_, state)] = homes();
    let entries = fs::read_dir(state.join("oomdoctor/runs")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    paths
}

fn recording(path: &Path) -> Option<Recording> {
    Recording::parse(&fs::read_to_string(path).ok()?).ok()
}

/// Waits until the record is finished.
#[track_caller]
fn finished(path: &Path) -> Recording {
    until("a finished record", || recording(path).filter(|recording| recording.end.is_some()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_out_are_bytes_in(
        pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..3000), 1_usize..60), 0..6)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut script = String::from("true");
        let (mut out, mut err, mut all) = (Vec::<u8>::new(), Vec::<u8>::new(), Vec::<u8>::new());
        for (number, (is_error, bytes, times)) in pieces.iter().enumerate() {
            let bytes = bytes.repeat(*times);
            let path = folder.path().join(number.to_string());
            fs::write(&path, &bytes).unwrap();
            script += &format!("; cat {}{}", path.display(), if *is_error { " >&2" } else { "" });
            if *is_error { err.extend(&bytes) } else { out.extend(&bytes) }
            all.extend(bytes);
        }
        let apart = How::Recorded.shell(&script).output().unwrap();
        prop_assert!(apart.status.success());
        prop_assert!(apart.stdout == out && apart.stderr == err);
        let (mut reader, writer) = io::pipe().unwrap();
        let mut together = How::Recorded.shell(&script);
        together.stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut child = together.spawn().unwrap();
        drop(together);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        prop_assert!(child.wait().unwrap().success());
        prop_assert!(read == all, "{} of {} bytes, or in another order", read.len(), all.len());
    }
}

#[test]
fn the_end_of_the_command_is_the_end_of_the_run() {
    let scripts = [
        "exit 0",
        "echo out; echo err >&2; exit 7",
        "exit 255",
        "kill -KILL $$",
        "kill -TERM $$",
        "kill -INT $$",
        "kill -USR2 $$",
        "ulimit -c 0; kill -SEGV $$",
        "kill -s RTMIN+3 $$",
    ];
    for script in scripts {
        assert_same(script, |how| how.shell(script));
    }
}

#[test]
fn a_command_that_can_not_be_started_has_the_exit_code_of_a_shell() {
    let code = |how: How, argv: &[&str]| how.command(argv).output().unwrap().status.code();
    assert_eq!(code(How::Recorded, &["/nonexistent/command"]), Some(127));
    assert_eq!(code(How::Recorded, &["/"]), Some(126));
    let missing = How::Recorded.command(&["/nonexistent/command"]).output().unwrap();
    assert!(missing.stdout.is_empty() && !missing.stderr.is_empty());
}

#[test]
fn the_command_finds_the_world_as_it_is_without() {
    let signals = "grep -E '^Sig(Ign|Blk)' /proc/self/status";
    let scripts = [
        "pwd; umask; ulimit -a; nice; cat /proc/self/oom_score_adj /proc/self/cgroup; env | grep -v ^_= | sort",
        "ls /proc/self/fd; for n in 0 1 2; do test -t $n; echo $?; done",
        "ls /proc/self/fd <&-",
        signals,
        "read line; echo \"$line\"; cat; exec 7</etc/hostname; ls /proc/self/fd",
        "ps -o sid= -p $$; cut -d' ' -f7,8 /proc/self/stat",
    ];
    for script in scripts {
        assert_same(script, |how| {
            let mut command = how.shell(script);
            command.current_dir("/usr").env("FOR_THE_TEST", "a b\nc").stdin(File::open("/etc/passwd").unwrap());
            command
        });
    }
    // Each of these is a shell around the run.
    for around in [
        "PREFIX ls /proc/self/fd <&-",
        "PREFIX sh -c 'ls /proc/self/fd; echo $?' 2>&-",
        "PREFIX sh -c 'ls /proc/self/fd >&2; echo lost' >&-",
        "PREFIX ls /proc/self/fd 5</etc/hostname 9>/dev/null",
        "trap '' HUP PIPE USR1 CHLD; PREFIX SIGNALS",
        "nohup PREFIX SIGNALS",
        "PREFIX sh -c 'read line; echo got $line'; cat",
        "printf 'one\\ntwo\\nthree\\n' | { PREFIX sh -c 'read line; echo got $line'; cat; }",
        "umask 027; ulimit -n 77; PREFIX sh -c 'umask; ulimit -n'",
        "PREFIX yes | head -1; echo ${PIPESTATUS[@]}",
        "PREFIX sh -c 'trap \"\" PIPE; yes; echo $? >&2' | head -1",
        "x=$(PREFIX sh -c 'sleep 0.3; echo late' & echo first); echo $x",
        "x=$(PREFIX sh -c '(sleep 0.3; echo late) & echo first'); echo $x",
        "PREFIX sh -c 'exit 3' || PREFIX sh -c 'exit 4'; echo $?",
    ] {
        assert_same(around, |how| {
            let script = around.replace("SIGNALS", signals).replace("PREFIX ", &how.prefix());
            let mut command = How::Alone.shell(&script);
            command.stdin(File::open("/etc/passwd").unwrap());
            command
        });
    }
}

#[test]
fn a_signal_to_the_run_alone_or_to_its_group_reaches_the_command_once() {
    for how in BOTH {
        for to_the_group in [false, true] {
            // Without a group of its own, who sends the signal is in the same group: a script that passes on its own.
            let mut command = how.shell(&format!("trap 'echo usr1' USR1; {GO_ON}"));
            if to_the_group {
                command.process_group(0);
            }
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            let send = |signal| {
                let pid = pid_of(child.id());
                if to_the_group { kill_process_group(pid, signal) } else { kill_process(pid, signal) }.unwrap();
            };
            let mut lines = String::new();
            output.read_line(&mut lines).unwrap();
            send(Signal::USR1);
            output.read_line(&mut lines).unwrap();
            send(Signal::TERM);
            output.read_to_string(&mut lines).unwrap();
            assert_eq!(lines, "ready\nusr1\n", "{how:?}, group: {to_the_group}");
            assert_eq!(end(child.wait().unwrap()), (Some(5), None), "{how:?}, group: {to_the_group}");
        }
    }
}

#[test]
fn timeout_and_stopping_from_outside_work_as_without() {
    // `timeout` may send it twice: to its child and to its group.
    let script =
        format!("trap 'trap \"\" TERM; echo ended; exit 6' TERM; {}", GO_ON.replace("trap 'exit 5' TERM; ", ""));
    for timeout in ["timeout 0.5", "timeout --foreground 0.5", "timeout --preserve-status 0.5"] {
        assert_same(timeout, |how| {
            let mut command =
                How::Alone.shell(&format!("{timeout} {} bash -c \"$SCRIPT\" 2>/dev/null; echo $?", how.prefix()));
            command.env("SCRIPT", &script);
            command
        });
    }
    let gates = Gates::new();
    for how in BOTH {
        let mut child = how
            .shell(&format!("echo $$; read go < {}; echo done", gates.path("a")))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        let pid: u32 = first_line(&mut output).parse().unwrap();
        let state =
            || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().rsplit_once(") ").unwrap().1.starts_with('T');
        signal(pid, Signal::STOP);
        until("stopped", || state().then_some(()));
        signal(pid, Signal::CONT);
        gates.open("a");
        assert_eq!(first_line(&mut output), "done", "{how:?}");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn killing_the_run_kills_the_command() {
    let mut child = How::Recorded.shell("echo $$; exec sleep 1000").stdout(Stdio::piped()).spawn().unwrap();
    let pid = first_line(&mut child.stdout.take().unwrap()).parse().unwrap();
    child.kill().unwrap();
    assert!(ends_within(pid, PATIENCE));
    child.wait().unwrap();
}

#[test]
fn what_the_command_closes_is_closed_for_those_at_the_other_end() {
    let gates = Gates::new();
    for how in BOTH {
        let script = format!("exec <&- >&- 2>&- 3>&-; read go < {}", gates.path("a"));
        let mut child =
            how.shell(&script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut rest = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
        child.stderr.take().unwrap().read_to_end(&mut rest).unwrap();
        let mut input = child.stdin.take().unwrap();
        until("a closed input", || input.write_all(&[0; 4096]).err());
        assert!(rest.is_empty() && child.try_wait().unwrap().is_none(), "{how:?}");
        gates.open("a");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_reader_that_left_is_noticed_at_the_first_write_after_it() {
    let gates = Gates::new();
    for how in BOTH {
        let script = format!("trap 'exit 9' PIPE; echo one; read go < {}; echo two; exit 0", gates.path("a"));
        let (mut reader, output) = io::pipe().unwrap();
        let theirs = output.try_clone().unwrap();
        let mut child = how.shell(&script).stdout(theirs).stderr(Stdio::null()).spawn().unwrap();
        assert_eq!(first_line(&mut reader), "one");
        drop(reader);
        // What another test starts at this moment holds the reading end, too, until its exec.
        until("a pipe without a reader", || {
            let mut ends = [PollFd::new(&output, PollFlags::OUT)];
            poll(&mut ends, Some(&Timespec::default())).unwrap();
            ends[0].revents().contains(PollFlags::ERR).then_some(())
        });
        if how == How::Recorded {
            // The thread that passes the output on ends with its reader.
            until("one thread less", || {
                (fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count() == 3).then_some(())
            });
        }
        gates.open("a");
        assert_eq!(child.wait().unwrap().code(), Some(9), "{how:?}");
    }
}

#[test]
fn what_the_command_left_in_the_background_is_passed_on_and_not_waited_for() {
    let gates = Gates::new();
    for how in BOTH {
        let script = format!("(read go < {}; echo late; echo later >&2) & echo done", gates.path("a"));
        let mut child = how.shell(&script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        gates.open("a");
        let (mut out, mut err) = (String::new(), String::new());
        child.stdout.unwrap().read_to_string(&mut out).unwrap();
        child.stderr.unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((&*out, &*err), ("done\nlate\n", "later\n"), "{how:?}");
    }
    // One that never pauses.
    for how in BOTH {
        let mut child = how.shell("yes & echo $! >&2").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let reader = thread::spawn(move || io::copy(&mut output, &mut io::sink()));
        let yes: u32 = first_line(child.stderr.as_mut().unwrap()).parse().unwrap();
        let ended = ends_within(child.id(), PATIENCE / 3);
        signal(yes, Signal::KILL);
        assert!(ended, "{how:?}: it waits for what goes on in the background");
        assert!(child.wait().unwrap().success());
        reader.join().unwrap().unwrap();
    }
}

/// A run with a recorder in this state: a command that prints much, and whose descriptor 3 is a pipe.
#[track_caller]
fn with_recorder_sent(sent: Signal) {
    const BYTES: u64 = 100 << 20;
    let gates = Gates::new();
    let script = format!("read go < {}; yes 0123456 | head -c {BYTES}; read go < {}", gates.path("a"), gates.path("b"));
    let (mut other, theirs) = io::pipe().unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("exec {}bash -c \"$SCRIPT\" 3>&0 <&-", How::Recorded.prefix())]).env("SCRIPT", &script);
    let mut child = shell.envs(homes()).stdin(theirs).stdout(Stdio::piped()).spawn().unwrap();
    drop(shell);
    let recorder = recorder_of(child.id());
    signal(recorder, sent);
    gates.open("a");
    let mut output = child.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let (mut block, mut count, mut is_right) = (vec![0; 1 << 16], 0_u64, true);
        loop {
            let length = output.read(&mut block).unwrap();
            let wanted = b"0123456\n".iter().cycle().skip(usize::try_from(count % 8).unwrap());
            is_right &= block[..length].iter().eq(wanted.take(length));
            count += length as u64;
            if length == 0 || count == BYTES {
                return (count, is_right, output);
            }
        }
    });
    let (count, is_right, mut output) = reader.join().unwrap();
    assert!(count == BYTES && is_right, "{count}");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
    let peak: u64 = peak.trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 64 << 10, "{peak} KiB");
    let began = Instant::now();
    gates.open("b");
    // Who waits for the end of the pipe waits for the command alone.
    other.read_to_end(&mut Vec::new()).unwrap();
    output.read_to_end(&mut Vec::new()).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let _ = kill_process(pid_of(recorder), Signal::KILL);
}

#[test]
fn a_recorder_that_hangs_changes_nothing() {
    with_recorder_sent(Signal::STOP);
}

#[test]
fn a_recorder_that_was_killed_changes_nothing() {
    with_recorder_sent(Signal::KILL);
}

/// What a terminal shows of this line of a shell, and how it ended.
fn on_a_terminal(line: &str, type_in: impl Fn(&mut Session)) -> (String, String) {
    let mut session = Session::shell(SIZE, line);
    type_in(&mut session);
    let status = session.wait_for_exit(PATIENCE);
    (session.raw(), status.to_string())
}

/// Fails if a terminal shows something else when the command is recorded. `PREFIX` stands for the recorder.
#[track_caller]
fn assert_same_on_a_terminal(line: &str, type_in: impl Fn(&mut Session)) {
    let [alone, recorded] = BOTH.map(|how| on_a_terminal(&line.replace("PREFIX ", &how.prefix()), &type_in));
    assert_eq!(alone, recorded, "{line}");
}

#[test]
fn a_terminal_is_a_terminal_of_the_same_size_and_modes() {
    for line in [
        "PREFIX sh -c 'for n in 0 1 2; do test -t $n; echo $?; done; stty -a <&1 | grep -v speed | sed s/-opost/opost/; tty | grep -c pts'",
        "PREFIX sh -c 'test -t 1; echo $?; test -t 2; echo $? >&2' 2>/dev/null",
        "PREFIX sh -c 'for n in 0 1 2; do test -t $n; echo $? >&2; done' | cat",
        "PREFIX sh -c 'printf \"a\\r\\nb\\tc\\033[31mred\\033[0m\\n\"; echo err >&2; exit 7'; echo $?",
        "PREFIX sh -c 'kill -KILL $$'; echo $?",
        "PREFIX sh -c 'seq 30000'; echo end",
        "PREFIX cat /dev/null; echo x | PREFIX cat; echo $?",
        "PREFIX sh -c 'ps -o stat= -p $$ | cut -c2-; cut -d\" \" -f7 /proc/self/stat | grep -c .'",
        "PREFIX sh -c 'echo from the terminal > /dev/tty'",
    ] {
        assert_same_on_a_terminal(line, |_| {});
    }
    assert_same_on_a_terminal("PREFIX sh -c 'read line; echo \"got $line\"'; cat", |session| {
        session.send("one\ntwo\n\x04")
    });
}

#[test]
fn the_command_sees_another_size_of_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    // The signal may be there before the size is.
    let resized = "trap 'while [[ $(stty size <&1) == \"24 80\" ]]; do :; done; stty size <&1; echo resized' WINCH";
    fs::write(&path, format!("{resized}; stty size <&1; {GO_ON}")).unwrap();
    for how in BOTH {
        let script = format!("{}bash {}", how.prefix(), path.display());
        let mut session = Session::shell(SIZE, &script);
        session.wait_for_text(&["24 80", "ready"]);
        session.resize_without_emulator(101, 33);
        session.wait_for_text(&["33 101", "resized"]);
        session.send("\x03");
        session.wait_for_exit(PATIENCE);
    }
}

#[test]
fn modes_that_the_command_sets_where_it_writes_are_those_of_the_terminal() {
    for how in BOTH {
        let script =
            "old=$(stty -g <&2); stty raw -echo <&1; echo raw; dd bs=1 count=1 2>/dev/null | od -c; stty $old <&1";
        let mut session = Session::shell(SIZE, &format!("{}bash -c '{script}'; echo over; read line", how.prefix()));
        session.wait_for_text(&["raw"]);
        assert!(!session.is_cooked(), "{how:?}");
        session.send("\x03");
        session.wait_for_text(&["003", "over"]);
        assert!(session.is_cooked(), "{how:?}");
        session.send("\n");
        assert!(session.wait_for_exit(PATIENCE).success());
    }
}

#[test]
fn a_pager_gets_its_keys_and_leaves_the_next_ones_alone() {
    let folder = tempfile::tempdir().unwrap();
    let pager = folder.path().join("pager");
    // What a pager does: its keys come from the terminal of its messages, because its input is the text.
    let steps = r#"cat; exec 3<$(tty <&2); old=$(stty -g <&3); stty -icanon -echo <&3; echo ready
while [ "$key" != q ]; do key=$(dd bs=1 count=1 <&3 2>/dev/null); echo "key $key"; done; stty $old <&3"#;
    fs::write(&pager, steps).unwrap();
    for how in BOTH {
        let script = format!("echo text | sh {}; read line; echo next $line", pager.display());
        let mut session = Session::shell(SIZE, &format!("{}sh -c '{script}'; echo over", how.prefix()));
        session.wait_for_text(&["text", "ready"]);
        session.send("a");
        session.wait_for_text(&["key a"]);
        session.send("q");
        session.wait_for_text(&["key q"]);
        until("the modes of lines", || session.is_cooked().then_some(()));
        session.send("words\n");
        session.wait_for_text(&["next words", "over"]);
        assert!(session.wait_for_exit(PATIENCE).success(), "{how:?}");
    }
}

/// A shell with job control.
fn interactive_shell() -> Session {
    let mut session = Session::program(SIZE, "/bin/bash".as_ref(), &["--norc", "--noprofile", "-i"]);
    session.send("PS1='> '; unset HISTFILE; clear; echo here\n");
    session.wait_for("the shell", |screen| screen.contents().starts_with("here"));
    session
}

#[test]
fn ctrl_c_ctrl_z_and_fg_do_what_they_do_without() {
    for how in BOTH {
        let mut shell = interactive_shell();
        let prefix = how.prefix();
        shell.send(format!("{prefix}sh -c 'echo started; read x; echo got $x'; echo rc=$?\n"));
        shell.wait_for_text(&["\nstarted"]);
        shell.send("\x1a");
        shell.wait_for_text(&["Stopped"]);
        shell.send("clear; jobs %1 | grep -c Stopped; fg; echo rc=$?\n");
        shell.wait_for("the job", |screen| screen.contents().starts_with("1\n"));
        shell.send("hello\n");
        shell.wait_for_text(&["\ngot hello\n", "\nrc=0\n"]);
        shell.send(format!("clear; {prefix}bash -c \"trap 'echo caught' INT; {GO_ON}\"; echo rc=$?\n"));
        shell.wait_for("the next command", |screen| screen.contents().starts_with("ready"));
        shell.send("\x03");
        shell.wait_for_text(&["caught"]);
        shell.send("\x1a");
        shell.wait_for_text(&["Stopped"]);
        // A stopped job gets SIGTERM and is continued: its own handler decides how it ends.
        let jobs = children_of(shell.pid());
        shell.send("clear; kill %1\n");
        assert!(jobs.into_iter().all(|job| ends_within(job, PATIENCE)), "{how:?}");
        // The shell may learn of the end only when it waits for the next command.
        shell.send("/bin/true\n");
        shell.wait_for_text(&["Exit 5"]);
        shell.send(format!("clear; {prefix}sleep 1000\n"));
        until("the command", || has_descendant(shell.pid(), "sleep").then_some(()));
        shell.send("\x03");
        shell.wait_for_text(&["^C"]);
        shell.send("echo rc=$?\n");
        shell.wait_for_text(&["rc=130\n"]);
        shell.send(format!("clear; {prefix}cat & wait -n; jobs %1 | grep -c Stopped; fg\n"));
        shell.wait_for("the stopped job", |screen| screen.contents().contains("\n1\n"));
        shell.send("into the job\n\x04");
        shell.wait_for("the line twice", |screen| screen.contents().matches("into the job").count() == 2);
        shell.send("exit\n");
        shell.wait_for_exit(PATIENCE);
    }
}

#[test]
fn an_interactive_shell_has_its_jobs() {
    for how in BOTH {
        let mut shell = interactive_shell();
        shell.send(format!("clear; {}bash --norc --noprofile -i; echo rc=$?\n", how.prefix()));
        shell.send("PS1='inner '; unset HISTFILE; clear; echo here\n");
        shell.wait_for("the inner shell", |screen| screen.contents().starts_with("here\ninner"));
        shell.send("cat\n");
        until("the job", || has_descendant(shell.pid(), "cat").then_some(()));
        shell.send("\x1a");
        shell.wait_for_text(&["Stopped"]);
        shell.send("clear; jobs %1 | grep -c Stopped; fg\n");
        shell.wait_for("the job again", |screen| screen.contents().starts_with("1\ncat"));
        shell.send("words\n");
        shell.wait_for("the words twice", |screen| screen.contents().matches("words").count() == 2);
        shell.send("\x03");
        // What is typed before the prompt is there may be dropped.
        shell.wait_for("the prompt", |screen| {
            screen.contents().split_once("^C").is_some_and(|(_, after)| after.contains("inner"))
        });
        shell.send("exit 3\n");
        shell.wait_for_text(&["rc=3"]);
        shell.send("exit\n");
        shell.wait_for_exit(PATIENCE);
    }
}

fn has_descendant(pid: u32, name: &str) -> bool {
    let is_named = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
    children_of(pid).into_iter().any(|child| is_named(child) || has_descendant(child, name))
}

#[test]
fn memory_that_ran_out_is_a_block_on_a_terminal_and_nothing_on_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.md");
    let script = format!("echo step 1; echo '{OUT_OF_MEMORY}' >&2; exit 1");
    let mut piped =
        recorder(NO_DRIVER.as_ref(), &["run", "--report", report.to_str().unwrap(), "--", "sh", "-c", &script]);
    let piped = piped.output().unwrap();
    assert_eq!(seen(piped), ("step 1\n".into(), format!("{OUT_OF_MEMORY}\n"), (Some(1), None)));
    assert!(fs::read_to_string(&report).unwrap().contains("2.5 GiB"));
    fs::remove_file(&report).unwrap();
    let path = folder.path().join("script");
    fs::write(&path, &script).unwrap();
    let line = |options: &str, prefix: &str| {
        format!("{}sh {}", prefix.replace("run --", &format!("run {options} --")), path.display())
    };
    let options = format!("--report {}", report.display());
    let (alone, _) = on_a_terminal(&line("", ""), |_| {});
    let (shown, status) = on_a_terminal(&line(&options, &How::Recorded.prefix()), |_| {});
    let block = shown.strip_prefix(&*alone).unwrap();
    assert_eq!(block.matches("oomdoctor: ").count(), 1, "{block}");
    assert!(block.contains("2.5 GiB") && block.contains("oomdoctor --last"), "{block}");
    assert_eq!(status, "Exited with code 1");
    assert!(report.exists());
    // A program that fails for another reason, or goes on, is not commented.
    for script in ["echo Traceback >&2; exit 1", &script.replace("exit 1", "exit 0")] {
        fs::write(&path, script).unwrap();
        let [alone, recorded] = BOTH.map(|how| on_a_terminal(&line("", &how.prefix()), |_| {}));
        assert_eq!(alone, recorded);
    }
}

/// A GPU of 24 GiB on which a process has this much.
fn scenario(pid: u32, gib: u64) -> String {
    format!("(gpus: [(name: \"RTX\")], processes: [(gpu: 0, pid: {pid}, bytes: Some({}))])", gib * GIB)
}

#[test]
fn the_record_shows_how_the_memory_rose() {
    let gates = Gates::new();
    let sleeper = Sleeper::start();
    let driver = FakeDriver::new(&scenario(sleeper.pid(), 4));
    let script = format!("echo loading; read go < {}; exit 3", gates.path("a"));
    let mut child =
        recorder(&driver.library(), &["run", "--", "sh", "-c", &script]).stdout(Stdio::null()).spawn().unwrap();
    let path = until("a record", || records().pop());
    until("the first figure", || recording(&path)?.peak(0).filter(|peak| peak.0 == 4 * GIB));
    driver.set_scenario(&scenario(sleeper.pid(), 20));
    until("the rise", || recording(&path)?.peak(0).filter(|peak| peak.0 == 20 * GIB));
    gates.open("a");
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let recording = finished(&path);
    let figures: Vec<u64> = recording.of_gpu(0).map(|(_, bytes)| bytes.0 / GIB).collect();
    assert_eq!((figures.first(), figures.last()), (Some(&4), Some(&20)));
    assert_eq!(recording.end.map(|(_, end)| end), Some(End::Code(3)));
    assert_eq!(recording.run.unwrap().argv, ["sh", "-c", &script]);
}

#[test]
fn watch_records_a_process_that_runs_already() {
    let mut sleeper = Sleeper::start();
    let driver = FakeDriver::new(&scenario(sleeper.pid(), 4));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.jsonl");
    let arguments = ["watch", &sleeper.pid().to_string(), "--record", path.to_str().unwrap()];
    let child = recorder(&driver.library(), &arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until("the first figure", || recording(&path)?.peak(0));
    driver.set_scenario(&scenario(sleeper.pid(), 20));
    until("the rise", || recording(&path)?.peak(0).filter(|peak| peak.0 == 20 * GIB));
    sleeper.end();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("20.0"), "{output:?}");
    assert_eq!(finished(&path).end.map(|(_, end)| end), Some(End::Unknown));
}

#[test]
fn watch_names_the_process_of_a_thread() {
    let (told, thread) = channel();
    let (end, ended) = channel::<()>();
    let waiting = thread::spawn(move || {
        told.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
        let _ = ended.recv();
    });
    let folder = thread.recv().unwrap();
    let thread = folder.file_name().unwrap().to_str().unwrap();
    let output = recorder(Path::new(NO_DRIVER), &["watch", thread]).output().unwrap();
    drop(end);
    waiting.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(thread) && said.contains(&format!("oomdoctor watch {}", std::process::id())), "{said}");
}

/// How many whole readings a finished record has.
fn readings(path: &Path) -> usize {
    finished(path);
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().enumerate().map(|(number, line)| Line::parse(line.as_bytes(), number == 0).unwrap());
    lines.filter(|line| matches!(line, Line::Reading(_))).count()
}

#[test]
fn of_the_ranks_of_a_machine_only_the_first_one_reads_it() {
    let driver = FakeDriver::new(&scenario(std::process::id(), 4));
    let gates = Gates::new();
    let ranks = "for rank in 0 1 2 3; do RANK=$((4 + rank)) LOCAL_RANK=$rank \"$@\" & done; wait";
    let script = format!("echo rank $RANK; read go < {}", gates.path("a"));
    let program = recorder(&driver.library(), &["run", "--", "sh", "-c", &script]);
    let mut launcher = Command::new("sh");
    launcher.args(["-c", ranks, "torchrun"]).arg(program.get_program()).args(program.get_args()).envs(homes());
    let mut child = launcher.stdout(Stdio::piped()).spawn().unwrap();
    let first = until("the record of local rank 0", || {
        records().into_iter().find(|path| path.to_str().unwrap().ends_with("-0.jsonl"))
    });
    until("a figure", || recording(&first)?.peak(0));
    // Each rank opens the pipe on its own.
    let path = gates.path("a");
    let opener = thread::spawn(move || {
        let mut gate = File::options().read(true).write(true).open(path).unwrap();
        gate.write_all(b"go\ngo\ngo\ngo\n").unwrap();
        gate
    });
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(child.wait().unwrap().success());
    opener.join().unwrap();
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["rank 4", "rank 5", "rank 6", "rank 7"]);
    // The recorders finish in the background.
    let paths = until("four records", || Some(records()).filter(|paths| paths.len() == 4));
    for path in paths {
        let is_first = path == first;
        assert_eq!(readings(&path) > 0, is_first, "{path:?}");
    }
}

#[test]
fn a_task_of_slurm_that_is_not_the_first_of_its_machine_reads_nothing() {
    let driver = FakeDriver::new(&scenario(std::process::id(), 4));
    let mut run = recorder(&driver.library(), &["run", "--", "sh", "-c", "exit 4"]);
    assert_eq!(run.env("SLURM_LOCALID", "1").status().unwrap().code(), Some(4));
    let paths = records();
    assert_eq!((paths.len(), readings(&paths[0])), (1, 0));
}

#[test]
fn nothing_is_written_where_nothing_may_be() {
    let script = format!("echo '{OUT_OF_MEMORY}' >&2; exit 1");
    let [(_, config), (_, state)] = homes();
    let status =
        recorder(NO_DRIVER.as_ref(), &["--read-only", "run", "--", "sh", "-c", &script]).stderr(Stdio::null()).status();
    assert_eq!(status.unwrap().code(), Some(1));
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
    fs::create_dir_all(config.join("oomdoctor")).unwrap();
    fs::write(config.join("oomdoctor/config.ron"), "(keep_log: false)").unwrap();
    let status = recorder(NO_DRIVER.as_ref(), &["run", "--", "sh", "-c", &script]).stderr(Stdio::null()).status();
    assert_eq!(status.unwrap().code(), Some(1));
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
}
