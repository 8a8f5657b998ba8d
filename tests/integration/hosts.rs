//! Machines that are reached through ssh, with a stand-in for `ssh`: what it prints was recorded from the real one, or it runs
//! the line for the other side here. `tests/parts/ssh.sh` has the real one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::fake_driver::FakeDriver;

/// A home with a stand-in for `ssh`; `$host` is the machine, `$remote` the line for it.
struct Network {
    home: TempDir,
}

impl Network {
    /// One where `arms` are the arms of a `case` over the machine's name.
    fn new(arms: &str) -> Network {
        let network = Network { home: tempfile::tempdir().unwrap() };
        // Programs of the other side are in its folder only; a shell needs the usual ones.
        for folder in ["bin", "there", "there/.cache", "there/.local/bin", "usual"] {
            fs::create_dir_all(network.at(folder)).unwrap();
        }
        let usual = "sh cat sleep id ls mkdir rm rmdir mv head wc chmod uname getconf ldd date grep cut tr paste ps env touch true";
        for name in usual.split(' ') {
            let there =
                ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(name)).into_iter().find(|path| path.exists());
            if let Some(there) = there {
                std::os::unix::fs::symlink(there, network.at(&format!("usual/{name}"))).unwrap();
            }
        }
        network.program(
            "bin/ssh",
            &format!(
                "[ \"$1\" = -G ] && {{ echo user ada; exit; }}\nfor last; do :; done; remote=$last; host=${{10}}; echo \"$host\" >> {home}/asked\n\
                 there() {{ env -i PATH={home}/usual:{home}/path HOME={home}/there sh -c \"$remote\"; }}\n\
                 case $host in\n{arms}\n*) echo \"ssh: Could not resolve hostname $host: Name or service not known\" >&2; exit 255;; esac",
                home = network.at("").display(),
            ),
        );
        network
    }

    fn at(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    fn program(&self, path: &str, script: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn says(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
        command.args(arguments).env_clear().current_dir(self.at(""));
        command.env("PATH", format!("{}:{}", self.at("bin").display(), self.at("usual").display()));
        command
            .env("HOME", self.home.path())
            .env("XDG_CONFIG_HOME", self.at("none"))
            .env("XDG_STATE_HOME", self.at("none"));
        command.output().unwrap()
    }

    /// The machines as JSON, each with its name.
    fn read(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.says(&[&["--interval", "0.05", "ps", "--json"], arguments].concat());
        let printed: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        printed["hosts"].as_array().unwrap().clone()
    }

    fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.at("asked")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn named<'h>(hosts: &'h [Value], name: &str) -> &'h Value {
    hosts.iter().find(|host| host["host"] == name).unwrap_or_else(|| panic!("{name} is not in {hosts:#?}"))
}

fn why(hosts: &[Value], name: &str) -> String {
    named(hosts, name)["unavailable"].as_str().unwrap_or_else(|| panic!("{hosts:#?}")).to_owned()
}

/// What this program prints on another machine, with this boot_id.
fn stream(boot_id: &str) -> String {
    let driver = FakeDriver::new("(devices: [(name: \"NVIDIA A100\", total_mib: 81920)])");
    let output = driver.output(&["sample", "--count", "2", "--interval", "0.05"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(header).unwrap();
    header["boot_id"] = boot_id.into();
    format!("{}\n{rest}", with_schema_first(&header))
}

fn with_schema_first(header: &Value) -> String {
    format!("{{\"schema\":{},\"program\":{},\"boot_id\":{}}}", header["schema"], header["program"], header["boot_id"])
}

#[test]
fn each_end_is_one_line_with_a_reason_and_hides_no_other_machine() {
    let network = Network::new(
        "well) cat one;;
         noisy) echo WELCOME; printf '\\033[2Jnews: \\n'; cat one; echo more;;
         hangs) echo begin; exec sleep 1000;;
         garbage) head -c 300000 /dev/urandom; exit 0;;
         endless) exec cat /dev/zero;;
         newer) echo '{\"schema\":99,\"program\":\"oomdoctor 9.0\",\"boot_id\":null}'; echo '{}';;
         none) exit 0;;
         missing) exit 127;;
         denied) echo 'ada@denied: Permission denied (publickey).' >&2; exit 255;;
         unknown) echo 'Host key verification failed.' >&2; exit 255;;
         refused) echo 'ssh: connect to host refused port 22: Connection refused' >&2; exit 255;;
         slow) echo 'ssh: connect to host slow port 22: Connection timed out' >&2; exit 255;;
         nologin) printf '\\033]0;x\\007This account is currently not available.\\n'; exit 1;;",
    );
    fs::write(network.at("one"), stream("1b")).unwrap();
    let names = "well,noisy,hangs,garbage,endless,newer,none,missing,denied,unknown,refused,slow,nologin,nowhere";
    let hosts = network.read(&["--host", names]);
    assert_eq!(named(&hosts, "well")["also"], serde_json::json!(["noisy"]), "they are one machine");
    assert!(named(&hosts, "well")["snapshot"].is_object() && named(&hosts, "well")["unavailable"].is_null());
    let rest: Vec<&str> = names.split(',').skip(2).collect();
    let mut reasons: Vec<String> = rest.iter().map(|name| why(&hosts, name)).collect();
    for reason in &reasons {
        assert!(!reason.contains(['\n', '\u{1b}', '\u{7}']) && reason.chars().count() < 400, "{reason}");
    }
    assert!(why(&hosts, "newer").contains("99") && why(&hosts, "nologin").contains("not available"));
    assert!(why(&hosts, "unknown").contains("ssh unknown"), "it is said what to do");
    reasons.sort();
    reasons.dedup();
    assert_eq!(reasons.len(), rest.len(), "each has a reason of its own: {reasons:#?}");
    assert!(hosts.iter().filter(|host| host["snapshot"].is_null()).count() == rest.len());
}

#[test]
fn nothing_can_be_read_is_an_error_and_no_ssh_is_said() {
    let network = Network::new("");
    assert_eq!(network.says(&["ps", "--host", "gone"]).status.code(), Some(1));
    fs::remove_file(network.at("bin/ssh")).unwrap();
    let hosts = network.read(&["--host", "gone"]);
    assert!(why(&hosts, "gone").contains("ssh"), "{hosts:?}");
}

#[test]
fn a_mistyped_name_leads_to_the_one_of_the_configuration() {
    let network = Network::new("");
    fs::create_dir_all(network.at(".ssh/more")).unwrap();
    fs::write(network.at(".ssh/config"), "Include more/*\nHost *\n  User ada\n").unwrap();
    fs::write(network.at(".ssh/more/lab"), "Host gpu-node7\n").unwrap();
    let hosts = network.read(&["--host", "gpunode7,elsewhere"]);
    assert!(why(&hosts, "gpunode7").contains("gpu-node7"));
    assert!(!why(&hosts, "elsewhere").contains("gpu-node7"));
}

const SMI: &str = "case \"$*\" in
*--query-gpu=index,uuid*) echo '0, GPU-a, 00000000:01:00.0, 535.1, 24576, 20000, 4000, 0, 40, [N/A], NVIDIA X, Y';;
*compute-apps*) echo \"GPU-a, $PPID, 19000, python\"; echo 'GPU-a, 4194305, [N/A], [Not Found]';;
*mig*) echo 'Field \"mig.mode.current\" is not a valid field to query.'; exit 2;; esac";

#[test]
fn nvidia_smi_stands_in_where_the_program_is_missing() {
    let network = Network::new("bare) there;;");
    network.program("path/nvidia-smi", SMI);
    let hosts = network.read(&["--host", "bare"]);
    let bare = named(&hosts, "bare");
    assert_eq!(bare["through"], "nvidia-smi");
    let device = &bare["snapshot"]["devices"][0];
    assert_eq!((&device["name"], device["memory"]["free_bytes"].as_u64()), (&"NVIDIA X, Y".into(), Some(4000 << 20)));
    let [first, second] = &device["processes"].as_array().unwrap()[..] else { panic!("{device}") };
    let (shell, hidden) = if first["pid"] == 4_194_305 { (second, first) } else { (first, second) };
    assert!(shell["user"].is_string() && shell["command"].as_str().unwrap().contains("sh"), "{shell}");
    assert!(shell["started_at"].is_string() && shell["start_ticks"].is_null() && shell["proved"] == false);
    assert!(hidden["used_bytes"].is_null() && hidden["used_bytes_reason"].is_string() && hidden["user"].is_null());
    assert_eq!(network.asked().len(), 1, "one connection does both");
}

#[test]
fn a_program_outside_of_the_path_is_found_before_nvidia_smi() {
    let network = Network::new("home) there;;");
    network.program("path/nvidia-smi", SMI);
    fs::write(network.at("one"), stream("1c")).unwrap();
    network.program("there/.local/bin/oomdoctor", &format!("cat {}", network.at("one").display()));
    assert_eq!(named(&network.read(&["--host", "home"]), "home")["through"], "ssh");
}

#[test]
fn the_program_is_sent_only_on_request_and_leaves_nothing_behind() {
    let network = Network::new("bare) there;;");
    assert!(network.read(&["--host", "bare"])[0]["snapshot"].is_null());
    assert_eq!(network.asked().len(), 1, "nothing was sent");
    let hosts = network.read(&["--host", "bare", "--send"]);
    assert!(hosts[0]["snapshot"].is_object(), "{hosts:#?}");
    assert!(fs::read_dir(network.at("there/.cache")).unwrap().next().is_none());
}

#[test]
fn the_program_is_not_sent_to_another_system_and_none_of_it_stays_if_it_breaks_off() {
    let network = Network::new("bare) there;; short) remote_end=$(head -c 1000 | wc -c); there < /dev/null;;");
    fs::remove_file(network.at("usual/uname")).unwrap();
    network.program("usual/uname", "echo Linux riscv64");
    assert!(why(&network.read(&["--host", "bare", "--send"]), "bare").contains("riscv64"));
    assert_eq!(network.asked(), ["bare"], "it is asked before anything is sent");
    network.program("usual/uname", &format!("echo Linux {}", std::env::consts::ARCH));
    assert!(!why(&network.read(&["--host", "short", "--send"]), "short").is_empty());
    assert!(fs::read_dir(network.at("there/.cache")).unwrap().next().is_none());
}

#[test]
fn a_copy_that_was_left_there_is_used_and_not_sent_again() {
    // The first one is killed right after it took the program.
    let network = Network::new(
        "bare) there;; cut) remote=$(echo \"$remote\" | sed 's/\"[$]d.oomdoctor-[^ ]*\" sample/exit 9; &/'); there;;",
    );
    std::os::unix::fs::symlink("/bin/sed", network.at("usual/sed")).unwrap();
    assert!(network.read(&["--host", "cut", "--send"])[0]["snapshot"].is_null());
    let left: Vec<_> = fs::read_dir(network.at("there/.cache/oomdoctor")).unwrap().collect();
    assert_eq!(left.len(), 1);
    assert!(network.read(&["--host", "bare", "--send"])[0]["snapshot"].is_object());
    assert_eq!(network.asked(), ["cut", "cut", "bare"]);
    assert!(!network.at("there/.cache/oomdoctor").exists());
}

#[test]
fn many_machines_are_read_and_each_name_is_asked_once() {
    let network = Network::new(
        "n*) echo \"{\\\"schema\\\":1,\\\"program\\\":\\\"oomdoctor\\\",\\\"boot_id\\\":\\\"${host#n}\\\"}\"; cat body;;",
    );
    let text = stream("0");
    fs::write(network.at("body"), text.split_once('\n').unwrap().1).unwrap();
    let names: Vec<String> = (0..64).map(|number| format!("n{number}")).collect();
    let hosts = network.read(&["--host", &names.join(",")]);
    assert_eq!(
        hosts.iter().map(|host| host["host"].as_str().unwrap()).collect::<Vec<_>>(),
        names,
        "in the order given"
    );
    assert!(hosts.iter().all(|host| host["snapshot"].is_object()));
    assert_eq!(network.asked().len(), 64);
}
