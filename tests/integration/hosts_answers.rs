//! What is answered over several machines: `ps` and `fit` with a stand-in `ssh` that runs the program here, for
//! each name with a fake driver of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fit::small_model;
use crate::support::fake_driver::{FakeDriver, GIB, PATIENCE, Sleeper, devices, homes};
use crate::support::schema::assert_output_valid;

/// Machines that `ssh` reaches by their names, and one that refuses.
struct Machines {
    folder: TempDir,
    drivers: Vec<FakeDriver>,
}

/// Runs the command for a host with that host's folder in front of the PATH, as sshd would run it there.
const SSH: &str = r#"#!/bin/sh
[ "$1" = -G ] && exit
for last; do :; done
while [ "$1" != -- ]; do host=$1; shift; done
here=$(dirname "$0")/../hosts/${host#*@}
if [ ! -d "$here" ]; then
  echo "ssh: connect to host $host port 22: Connection refused" >&2
  exit 255
fi
PATH=$here:$PATH exec sh -c "$last"
"#;

impl Machines {
    /// With these names and scenarios of their drivers.
    fn new(hosts: &[(&str, &str)]) -> Machines {
        let mut machines = Machines { folder: tempfile::tempdir().unwrap(), drivers: Vec::new() };
        machines.write("bin/ssh", SSH);
        for (name, scenario) in hosts {
            let driver = FakeDriver::new(scenario);
            // Each machine has a boot of its own: those of one boot are one machine.
            let script = format!(
                "#!/bin/sh\n{} \"$@\" --nvml-library {} --device-folder {} | sed 's/\"boot_id\":\"[^\"]*\"/\"boot_id\":\"{name}\"/'\n",
                env!("CARGO_BIN_EXE_oomdoctor"),
                driver.library().display(),
                devices().display(),
            );
            machines.write(&format!("hosts/{name}/oomdoctor"), &script);
            machines.drivers.push(driver);
        }
        machines
    }

    fn write(&self, path: &str, script: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn said(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.folder.path().join("bin").display());
        command.args(arguments).stdin(Stdio::null()).envs(homes()).env("PATH", path);
        let output = assert_cmd::Command::from_std(command).timeout(PATIENCE).output().unwrap();
        assert_output_valid(arguments, &output);
        output
    }

    fn json(&self, arguments: &[&str]) -> (Value, i32) {
        let output = self.said(&[arguments, &["--json"]].concat());
        let value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        (value, output.status.code().unwrap())
    }

    fn text(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.said(arguments).stdout).unwrap()
    }
}

/// A GPU of 24 GiB with so much in use, by this process where one is given.
fn gpu(used_gib: u64, process: Option<(&Sleeper, u32)>) -> String {
    let Some((sleeper, sm)) = process else {
        return format!("(gpus: [(total: {}, reserved: 0, base: {})])", 24 * GIB, used_gib * GIB);
    };
    let row = format!("(pid: {}, bytes: Some({}), sm: {sm})", sleeper.pid(), used_gib * GIB);
    format!("(gpus: [(total: {}, reserved: 0, base: 0)], processes: [{row}])", 24 * GIB)
}

/// The name of the user who runs the tests, as /proc's owner has it.
fn me() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn ps_lists_the_processes_of_all_machines_idle_ones_first() {
    let (busy, idle) = (Sleeper::named("busy --secret 1"), Sleeper::named("idle --secret 2"));
    let machines = Machines::new(&[("gpu1", &gpu(20, Some((&busy, 90)))), ("gpu2", &gpu(3, Some((&idle, 0))))]);
    let text = machines.text(&["ps", "--host", "gpu1,down,gpu2"]);
    let position = |part: String| text.find(&part).unwrap_or_else(|| panic!("no {part} in {text}"));
    let (busy_pid, idle_pid) = (format!("{}@", busy.pid()), format!("{}@", idle.pid()));
    assert!(position(idle_pid.clone()) < position(busy_pid.clone()), "{text}");
    assert!(position("down: ".into()) < position(idle_pid.clone()), "{text}");
    assert!(text.contains(&format!("ssh -t gpu2 oomdoctor kill {idle_pid}")), "{text}");
    assert!(!text.contains("ssh -t gpu1"), "a busy process is never offered: {text}");
    assert!(text.contains("--secret 2"), "your own command line is whole: {text}");
}

#[test]
fn ps_shortens_the_command_lines_of_other_people_unless_they_are_asked_for() {
    let idle = Sleeper::named("idle --secret 2");
    let machines = Machines::new(&[("gpu1", &gpu(3, Some((&idle, 0))))]);
    let asked = ["ps", "--host", "somebody-else@gpu1"];
    let text = machines.text(&asked);
    assert!(text.contains(&me()) && text.contains(&format!("{}@", idle.pid())), "{text}");
    assert!(!text.contains("--secret") && !text.contains("oomdoctor kill"), "{text}");
    let (found, _) = machines.json(&asked);
    assert_eq!(found["hosts"][0]["snapshot"]["devices"][0]["processes"][0]["command"], "idle …");
    assert!(machines.text(&[&asked[..], &["--full"]].concat()).contains("--secret 2"));
}

#[test]
fn ps_as_json_has_every_machine_and_exits_1_only_where_none_was_read() {
    let machines = Machines::new(&[("gpu1", &gpu(3, None))]);
    let (found, code) = machines.json(&["ps", "--host", "gpu1,down"]);
    assert_eq!((code, &found["schema"]), (0, &json!(1)));
    let hosts = found["hosts"].as_array().unwrap();
    assert_eq!((hosts.len(), &hosts[0]["host"], &hosts[1]["host"]), (2, &json!("gpu1"), &json!("down")));
    assert_eq!(hosts[0]["snapshot"]["devices"][0]["memory"]["free_bytes"], 21 * GIB);
    assert!(hosts[1]["snapshot"].is_null() && hosts[1]["unavailable"].is_string(), "{found}");
    assert_eq!(machines.said(&["ps", "--host", "down"]).status.code(), Some(1));
}

#[test]
fn fit_names_the_machine_with_most_room_then_the_one_where_an_idle_process_must_exit() {
    let (yours, busy) = (Sleeper::start(), Sleeper::start());
    let machines = Machines::new(&[
        ("full", &gpu(23, Some((&busy, 90)))),
        ("held", &gpu(23, Some((&yours, 0)))),
        ("small", &gpu(16, None)),
        ("free", &gpu(4, None)),
    ]);
    let file = machines.folder.path().join("model.gguf");
    small_model(&file);
    // A context that is asked for is kept, so that no change of settings fits beside 23 GiB.
    let asked = ["fit", file.to_str().unwrap(), "--context", "32K", "--host", "full,down,held,small,free"];
    let (found, code) = machines.json(&asked);
    let hosts = found["hosts"].as_array().unwrap();
    let order: Vec<&str> = hosts.iter().map(|host| host["host"].as_str().unwrap()).collect();
    assert_eq!((code, &found["fits"]), (0, &json!(true)));
    assert_eq!((&order[..2], order[4]), (&["free", "small"][..], "down"), "{found:#}");
    let on = |name: &str| hosts.iter().find(|host| host["host"] == name).unwrap();
    assert_eq!((&on("free")["verdict"], &on("free")["free_now_bytes"]), (&json!("fits"), &json!(20 * GIB)));
    assert!(on("free")["command"].as_str().unwrap().starts_with("ssh -t free '"), "{found:#}");
    let once = &on("held")["once_exited"];
    assert_eq!((&once[0]["pid"], &once[0]["is_own"]), (&json!(yours.pid()), &json!(true)));
    assert!(once[0]["command"].as_str().unwrap().starts_with("ssh -t held oomdoctor kill "), "{once}");
    assert_eq!(on("full")["once_exited"], json!([]), "a busy process is never named");
    assert_eq!((&on("down")["verdict"], on("down")["why_not_known"].is_string()), (&json!("unknown"), true));
    let text = machines.text(&asked);
    assert!(text.contains("fits on free, GPU 0, as it is"), "{text}");
    // Reached as somebody else, the process is another user's: a fact, with no command.
    let (theirs, code) = machines.json(&["fit", file.to_str().unwrap(), "--context", "32K", "--host", "x@held"]);
    let once = &theirs["hosts"][0]["once_exited"][0];
    assert_eq!(
        (code, &once["is_own"], &once["command"], &once["user"]),
        (1, &json!(false), &json!(null), &json!(me()))
    );
}

#[test]
fn fit_where_no_machine_answers_is_unknown_and_a_model_must_be_named() {
    let machines = Machines::new(&[]);
    let (found, code) = machines.json(&["fit", "llama3.1:8b", "--host", "a,b"]);
    assert_eq!((code, &found["fits"]), (1, &json!(null)));
    assert!(machines.text(&["fit", "llama3.1:8b", "--host", "a,b"]).contains("unknown"));
    let unnamed = machines.said(&["fit", "--host", "a"]);
    assert_eq!((unnamed.status.code(), unnamed.stdout.is_empty()), (Some(2), true));
}

/// What PyTorch prints on a GPU of 24 GiB that others fill.
const FAILED: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of \
    24.00 GiB of which 6.10 GiB is free. Including non-PyTorch memory, this process has 307.00 MiB memory in use. Of the \
    allocated memory 200.00 MiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.\n";

fn step<'a>(diagnosis: &'a Value, title: &str) -> Option<&'a Value> {
    diagnosis["plan"]
        .as_array()?
        .iter()
        .find(|planned| planned["title"].as_str().is_some_and(|text| text.contains(title)))
}

#[test]
fn a_diagnosis_offers_the_machine_with_room_and_names_the_one_that_was_not_read() {
    let busy = Sleeper::start();
    let machines = Machines::new(&[("gpu1", &gpu(20, Some((&busy, 90)))), ("gpu2", &gpu(0, None))]);
    let log = machines.folder.path().join("crash.log");
    fs::write(&log, FAILED).unwrap();
    let asked =
        ["diagnose", log.to_str().unwrap(), "--no-live", "--command", "python train.py", "--host", "gpu1,down,gpu2"];
    let output = machines.said(&[&asked[..], &["--json"]].concat());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let offered = step(&found, "Run on ").unwrap_or_else(|| panic!("{found:#}"));
    assert_eq!(offered["title"], "Run on gpu2, GPU 0");
    let command = offered["steps"][0]["command"].as_str().unwrap();
    assert!(
        command.starts_with("ssh -t gpu2 'CUDA_VISIBLE_DEVICES=") && command.ends_with("python train.py'"),
        "{command}"
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("down: "), "{output:?}");
    let text = machines.text(&asked);
    assert!(text.contains("gpu2, GPU 0, has 24.0 GiB free"), "{text}");
}

#[test]
fn a_log_that_names_its_machine_is_compared_with_that_one_and_nothing_there_is_a_target() {
    let yours = Sleeper::start();
    let machines = Machines::new(&[("node07", &gpu(17, Some((&yours, 0)))), ("node08", &gpu(23, None))]);
    let log = machines.folder.path().join("crash.log");
    // As pdsh prints it: whose line it is in front of each.
    let steps = "node07: step 1\nnode08: step 1\nnode07: step 2\nnode08: step 2\n";
    fs::write(&log, format!("{steps}node07: {FAILED}node08: end\n")).unwrap();
    let (found, code) = machines.json(&["diagnose", log.to_str().unwrap(), "--host", "node07,node08"]);
    assert_eq!((code, &found["facts"]["first_failure"]["host"]), (0, &json!("node07")), "{found:#}");
    assert_eq!(found["live"]["devices"][0]["memory"]["used_bytes"], 17 * GIB);
    assert_eq!(found["live_host"], "node07");
    let plan = found["plan"].as_array().unwrap();
    assert!(plan.iter().all(|planned| planned["target"].is_null()), "{plan:#?}");
    let commands: Vec<&str> = plan.iter().filter_map(|planned| planned["steps"][0]["command"].as_str()).collect();
    let kill = format!("ssh -t node07 oomdoctor kill {}@", yours.pid());
    assert!(commands.iter().any(|command| command.starts_with(&kill)), "{commands:?}");
    let (alone, _) = machines.json(&["diagnose", log.to_str().unwrap(), "--host", "down", "--no-live"]);
    assert!(alone.get("live_host").is_none());
    assert!(alone["live"].is_null(), "a machine that the log does not name is not compared with");
}
