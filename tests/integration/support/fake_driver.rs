//! The harness of the fake driver (tests/fake_nvml): a folder with a copy of the library and its scenario, real `sleep`
//! processes for it to list, and the shipped program run with it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{env, fs, thread};

use oomdoctor::gpu::{Header, Snapshot};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::schema::{assert_output_valid, assert_valid};

pub const GIB: u64 = 1 << 30;
/// How long a line of the stream may take before the test fails; a reading takes far less.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A fake driver for one test.
pub struct FakeDriver {
    folder: TempDir,
}

impl FakeDriver {
    /// A driver with this scenario (RON, see tests/fake_nvml/lib.rs).
    pub fn new(scenario: &str) -> FakeDriver {
        let driver = FakeDriver { folder: tempfile::tempdir().unwrap() };
        fs::copy(built_library(), driver.library()).unwrap();
        driver.set_scenario(scenario);
        driver
    }

    /// A driver without a scenario: its kernel module is not loaded.
    pub fn not_loaded() -> FakeDriver {
        let driver = FakeDriver::new("()");
        fs::remove_file(driver.folder.path().join("scenario.ron")).unwrap();
        driver
    }

    /// Removes symbols, as in an older driver, by renaming them in the library's table of names.
    pub fn without(self, symbols: &[&str]) -> FakeDriver {
        let mut bytes = fs::read(self.library()).unwrap();
        for symbol in symbols {
            let name = [b"\0", symbol.as_bytes(), b"\0"].concat();
            let found = bytes.windows(name.len()).position(|window| window == name);
            let at = found.unwrap_or_else(|| panic!("{symbol} is not in the fake driver"));
            bytes[at + 1] = b'_';
        }
        fs::write(self.library(), bytes).unwrap();
        self
    }

    /// Replaces the scenario atomically.
    pub fn set_scenario(&self, scenario: &str) {
        let new = self.folder.path().join("scenario.new");
        fs::write(&new, scenario).unwrap();
        fs::rename(new, self.folder.path().join("scenario.ron")).unwrap();
    }

    /// The path for `--nvml-library`.
    pub fn library(&self) -> PathBuf {
        self.folder.path().join("libnvidia-ml.so.1")
    }

    /// Starts recording the driver's calls.
    pub fn count_calls(&self) {
        fs::write(self.folder.path().join("calls"), "").unwrap();
    }

    /// The driver's calls since [`FakeDriver::count_calls`], in order.
    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("calls")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// The shipped program with this driver.
    pub fn oomdoctor(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
        command.args(arguments).arg("--device-folder").arg(devices()).arg("--nvml-library").arg(self.library());
        command.stdin(Stdio::null()).envs(homes()).env_remove("KUBERNETES_SERVICE_HOST").env_remove("SUDO_UID");
        command
    }

    /// Runs a command of the program to its end.
    pub fn output(&self, arguments: &[&str]) -> Output {
        let output = assert_cmd::Command::from_std(self.oomdoctor(arguments)).timeout(PATIENCE).output().unwrap();
        assert_output_valid(arguments, &output);
        output
    }

    pub fn snapshot(&self) -> Snapshot {
        Stream::start(self, &["--count", "1"]).next()
    }

    /// A running `oomdoctor sample`.
    pub fn sample(&self, arguments: &[&str]) -> Stream {
        Stream::start(self, arguments)
    }
}

/// The stream of a running `oomdoctor sample`; it is ended on drop.
pub struct Stream {
    pub header: Header,
    pub child: Child,
    lines: Receiver<String>,
}

impl Stream {
    fn start(driver: &FakeDriver, arguments: &[&str]) -> Stream {
        let mut command = driver.oomdoctor(&["sample", "--interval", "0.05"]);
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let header = lines.recv_timeout(PATIENCE).expect("no header");
        Stream { header: line_of(&header), child, lines }
    }

    /// The next reading; fails if none arrives in time.
    pub fn next(&mut self) -> Snapshot {
        let line = self.lines.recv_timeout(PATIENCE).expect("no reading");
        line_of(&line)
    }

    /// Reads until a reading is as wanted; fails after many that are not.
    pub fn next_where(&mut self, what: &str, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
        for _ in 0..400 {
            let snapshot = self.next();
            if wanted(&snapshot) {
                return snapshot;
            }
        }
        panic!("never came: {what}")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of a stream, as its schema has it.
fn line_of<T: DeserializeOwned>(line: &str) -> T {
    assert_valid("sample", &serde_json::from_str(line).unwrap());
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The lines of a pipe, read by a thread that ends with it.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

thread_local! {
    // Each test runs in its own thread and so has its own folder: no test sees another's processes or files.
    static OWN: TempDir = tempfile::tempdir().unwrap();
}

/// The folder that replaces /dev. A process with a file of it open is taken for the one that the driver lists, also in
/// a container, where the driver's PIDs may be those of another namespace.
pub fn devices() -> PathBuf {
    folder("dev")
}

/// Environment variables that replace the home of the user who runs the tests.
pub fn homes() -> [(&'static str, PathBuf); 2] {
    // What lies on the machine of the tests is not theirs.
    let own = folder("config/oomdoctor").join("config.ron");
    if !own.exists() {
        fs::write(own, "(find_logs: false)").unwrap();
    }
    [("XDG_CONFIG_HOME", folder("config")), ("XDG_STATE_HOME", folder("state"))]
}

fn folder(name: &str) -> PathBuf {
    let path = OWN.with(|folder| folder.path().join(name));
    fs::create_dir_all(&path).unwrap();
    path
}

/// An open file of the device folder.
pub fn device() -> fs::File {
    fs::OpenOptions::new().read(true).append(true).create(true).open(devices().join("nvidia0")).unwrap()
}

/// A real, idle process for the driver to list; ended and reaped on drop.
pub struct Sleeper {
    child: Child,
}

impl Sleeper {
    pub fn start() -> Sleeper {
        Sleeper { child: Command::new("sleep").arg("1000").stdin(device()).spawn().unwrap() }
    }

    /// A process with this name.
    pub fn named(name: impl AsRef<OsStr>) -> Sleeper {
        let mut command = Command::new("sleep");
        Sleeper { child: command.arg0(name).arg("1000").stdin(device()).spawn().unwrap() }
    }

    /// A process of this user; only root can start one.
    pub fn of_user(id: u32) -> Sleeper {
        let mut command = Command::new("sleep");
        Sleeper { child: command.arg("1000").uid(id).stdin(device()).spawn().unwrap() }
    }

    /// A process that ignores SIGTERM.
    pub fn deaf() -> Sleeper {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; echo deaf; exec sleep 1000 >/dev/null"]).stdin(device());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let line = lines_of(child.stdout.take().unwrap()).recv_timeout(PATIENCE);
        assert_eq!(line.as_deref(), Ok("deaf"));
        Sleeper { child }
    }

    /// A process that runs another program of the same name (exec) when told to, prints a word once it does, and exits
    /// when the returned pipe is dropped.
    pub fn turning() -> (Sleeper, ChildStdin, Receiver<String>) {
        let mut command = Command::new("sh");
        command.args(["-c", "read go; exec sh -c 'echo turned; read end'"]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(device()).spawn().unwrap();
        let (hand, words) = (child.stdin.take().unwrap(), lines_of(child.stdout.take().unwrap()));
        (Sleeper { child }, hand, words)
    }

    /// A shell started by this path, which gives it its kernel name, with this title. It exits when the returned pipe
    /// is dropped.
    pub fn program(path: &Path, title: &str, script: &str) -> (Sleeper, ChildStdin) {
        let mut command = Command::new(path);
        command.arg0(title).args(["-c", script]).stdin(Stdio::piped()).stderr(device());
        let mut child = command.spawn().unwrap();
        let end = child.stdin.take().unwrap();
        (Sleeper { child }, end)
    }

    /// A stand-in for Ollama's runner of a model, whose server listens at this port. It exits when the returned pipe is
    /// dropped.
    pub fn ollama_runner(port: u16, model: &str) -> (Sleeper, ChildStdin) {
        let mut command = Command::new("sh");
        command.arg0("ollama").args(["-c", "read end", "runner", "--model", model]);
        command.env("OLLAMA_HOST", format!("127.0.0.1:{port}")).stdin(Stdio::piped()).stderr(device());
        let mut child = command.spawn().unwrap();
        let end = child.stdin.take().unwrap();
        (Sleeper { child }, end)
    }

    /// Changes the process's title as setproctitle does, in place of the old one of the same length. The test writes
    /// it, because a shell cannot.
    pub fn calls_itself(&self, title: &str) {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        // Field 48 is arg_start; `fields` starts with field 3.
        let arguments: u64 = fields[45].parse().unwrap();
        let memory = fs::OpenOptions::new().write(true).open(format!("/proc/{}/mem", self.pid())).unwrap();
        memory.write_all_at(title.as_bytes(), arguments).unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until it exits; returns the number of the signal that ended it.
    #[track_caller]
    pub fn ended_by(&mut self) -> Option<i32> {
        assert!(super::ends_within(self.pid(), PATIENCE), "{} still runs", self.pid());
        self.child.wait().unwrap().signal()
    }

    /// Kills and reaps it.
    pub fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills it but leaves a zombie.
    pub fn end_unreaped(&mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// The fake driver that cargo builds with the tests. `cargo test --test integration` alone does not build it, so this
/// function does.
fn built_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // target/PROFILE/deps/integration-…
        let profile = env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
        let library = profile.join("examples/libfake_nvml.so");
        if is_stale(&library) {
            build(&profile);
        }
        assert!(library.exists(), "{} was not built", library.display());
        library
    })
}

fn is_stale(library: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_nvml");
    let newest = ["lib.rs", "scenario.rs"].iter().filter_map(|file| modified(&sources.join(file))).max();
    modified(library).is_none() || modified(library) < newest
}

fn build(profile: &Path) {
    let name = profile.file_name().and_then(|name| name.to_str()).unwrap();
    let name = if name == "debug" { "dev" } else { name };
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--offline", "--example", "fake_nvml"]);
    let built = command.args(["--profile", name]).arg("--target-dir").arg(profile.parent().unwrap()).status();
    assert!(built.unwrap().success(), "the fake driver could not be built");
}
