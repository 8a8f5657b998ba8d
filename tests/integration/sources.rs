//! Logs that lie on this machine, with stand-ins for the programs that have them: what they print was recorded from the
//! real ones.

use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fs, str, thread};

use serde_json::Value;

use crate::support::pty::Session;
use crate::support::stand_ins::Home;

const FAILURE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of \
     23.65 GiB of which 1.06 GiB is free.";

fn found(home: &Home, kinds: &[&str]) -> Vec<Value> {
    let output = home.says(&[&["sources", "--json"], kinds].concat());
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    printed["sources"].as_array().unwrap().clone()
}

fn of_kind<'s>(sources: &'s [Value], kind: &str) -> Option<&'s Value> {
    sources.iter().find(|source| source["kind"] == kind)
}

#[test]
fn each_kind_is_found_and_each_id_that_is_printed_can_be_read() {
    let home = Home::new();
    home.program(
        "tmux",
        &format!(
            "case \"$*\" in *list-panes*) echo '%0|100|@0|0|1795176000|main:0.0|bash';; *) echo '{FAILURE}';; esac"
        ),
    );
    // What a container writes to standard error comes out of `logs` there.
    home.program("docker", &format!("case $1 in ps) echo 'trainer|Exited (1) 3 minutes ago|pytorch:2.6';; inspect) echo '{{\"OOMKilled\":false,\"ExitCode\":1}}';; logs) echo step 1; echo '{FAILURE}' >&2;; esac"));
    home.program("systemctl", "case \"$*\" in *--user*ActiveState*) [ $TZ = UTC ] && printf 'Id=train.service\\nActiveState=failed\\nInactiveEnterTimestamp=Mon 2026-11-23 12:00:00 UTC\\n';; *ActiveState*) printf 'Id=ollama.service\\nActiveState=active\\nInactiveEnterTimestamp=\\n';; *show*) echo Result=exit-code;; esac");
    home.program("journalctl", &format!("case \"$*\" in *train*) echo '2026-11-23T12:00:00+0000 box train[7]: {FAILURE}';; *ollama*) echo fine;; *-k*) echo '2026-11-23T12:00:00+0000 box kernel: Out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:2kB, file-rss:0kB, shmem-rss:0kB';; esac"));
    fs::write(home.at("work/slurm-12.out"), FAILURE).unwrap();
    let sources = found(&home, &[]);
    for kind in ["tmux", "docker", "user-unit", "kernel", "file"] {
        let source = of_kind(&sources, kind).unwrap_or_else(|| panic!("{kind} is not in {sources:#?}"));
        assert_eq!(source["oom"], "yes", "{source}");
    }
    assert_eq!(of_kind(&sources, "unit").unwrap()["oom"], "no");
    assert_eq!(of_kind(&sources, "unit").unwrap()["ended_at"], Value::Null);
    assert_eq!(of_kind(&sources, "user-unit").unwrap()["ended_at"], "2026-11-23T12:00:00.000Z");
    for source in &sources {
        let output = home.says(&["diagnose", "--no-live", "--json", "--from", source["id"].as_str().unwrap()]);
        let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(diagnosis["oom"], source["oom"], "{source}");
    }
}

#[test]
fn a_terminal_program_without_a_log_offers_one_that_failed() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("slurm-12.out"), FAILURE).unwrap();
    let folder = home.path().display();
    let settings = format!("HOME='{folder}' XDG_CONFIG_HOME='{folder}' PATH='{folder}'");
    let line = format!("cd '{folder}' && {settings} exec \"$OOMDOCTOR\" --nvml-library /nonexistent/libnvidia-ml.so.1");
    let session = Session::shell((120, 40), &line);
    session.wait_for_text(&["slurm-12.out"]);
    session.leave();
}

#[test]
fn a_program_in_the_current_folder_is_not_run() {
    let home = Home::new();
    for name in ["tmux", "docker", "systemctl", "ssh", "kubectl", "squeue"] {
        home.program(name, "exit 1");
        fs::rename(home.at(&format!("bin/{name}")), home.at(&format!("work/{name}"))).unwrap();
    }
    let bin = home.at("bin").display().to_string();
    for path in [format!(":{bin}"), format!(".:{bin}"), format!("{bin}:"), format!("../work::{bin}")] {
        for arguments in [&["sources"][..], &["ps", "--host", "gpu1"], &["ps", "--kube"], &["ps", "--slurm"]] {
            home.command(arguments).env("PATH", &path).output().unwrap();
        }
        for name in ["tmux", "docker", "systemctl", "ssh", "kubectl", "squeue"] {
            assert!(!home.has_run(name), "{name} with PATH={path}");
        }
    }
    // The same programs are run where their folder is named.
    let path = format!("{}:{bin}", home.at("work").display());
    home.command(&["sources"]).env("PATH", &path).output().unwrap();
    assert!(home.has_run("tmux") && home.has_run("docker"));
}

#[test]
fn of_a_pane_only_the_command_that_failed_is_read() {
    let home = Home::new();
    let pane =
        format!("ada@box:~$ export HF_TOKEN=hf_secret\nada@box:~$ python train.py\n{FAILURE}\nada@box:~$ ls\nx\n");
    fs::write(home.at("pane"), pane).unwrap();
    let pane = home.at("pane");
    home.program(
        "tmux",
        &format!(
            "case \"$*\" in *list-panes*) echo '%0|100|@0|0|1795176000|main:0.0|bash';; *) cat {};; esac",
            pane.display()
        ),
    );
    let kitty = serde_json::json!([{"tabs": [{"windows": [{"id": 4, "pid": 999_999_999, "title": "run"}]}]}]);
    home.program(
        "kitty",
        &format!("case \"$*\" in *get-text*id:4*) cat {};; *ls) echo '{kitty}';; esac", pane.display()),
    );
    for (kind, id) in [("tmux", "tmux:%0"), ("kitty", "kitty:4")] {
        let with_a_socket = |arguments: &[&str]| {
            let output = home.command(arguments).env("KITTY_LISTEN_ON", "unix:/nowhere").output().unwrap();
            serde_json::from_slice::<Value>(&output.stdout).unwrap()
        };
        let sources = with_a_socket(&["sources", "--json", kind]);
        assert_eq!((&sources["sources"][0]["id"], &sources["sources"][0]["oom"]), (&id.into(), &"yes".into()));
        let diagnosis = with_a_socket(&["diagnose", "--no-live", "--json", "--from", id]);
        assert_eq!(diagnosis["matches"][0]["line"], 2, "{diagnosis}");
    }
}

#[test]
fn below_sudo_the_places_of_the_person_who_called_it_are_looked_at_and_nothing_of_others() {
    use std::os::unix::fs::{PermissionsExt, chown};
    const ADA: u32 = 54_321;
    const BOB: u32 = 54_322;
    let home = Home::new();
    // Only root may give files away.
    if chown(home.at("work"), Some(ADA), Some(ADA)).is_err() {
        return;
    }
    fs::set_permissions(home.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    for (name, owner) in [("ada.ipynb", ADA), ("bob.ipynb", BOB)] {
        fs::write(home.at("work").join(name), FAILURE).unwrap();
        chown(home.at("work").join(name), Some(owner), Some(owner)).unwrap();
    }
    // Its pane has the number of the user as whom it runs.
    home.program("tmux", "case \"$*\" in *list-panes*) while read -r key uid rest; do [ $key = Uid: ] && echo \"%$uid|100|@0|0|1795176000|main:0.0|bash\"; done < /proc/self/status; exit 0;; esac");
    let mut sudo = home.command(&["sources", "--json", "tmux", "file"]);
    sudo.env("SUDO_UID", ADA.to_string()).env("SUDO_GID", ADA.to_string());
    let output = sudo.output().unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ids: Vec<&str> = printed["sources"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert!(ids.iter().any(|id| id.ends_with("ada.ipynb")), "{printed}");
    assert!(!ids.iter().any(|id| id.ends_with("bob.ipynb")), "{printed}");
    assert!(ids.contains(&format!("tmux:%{ADA}").as_str()), "tmux was not asked as the person: {printed}");
}

#[test]
fn nothing_beyond_this_machine_is_asked_unless_it_is_named() {
    let home = Home::new();
    let pod = serde_json::json!({
        "metadata": {"namespace": "ml", "name": "train-0"},
        "status": {"containerStatuses": [{"name": "t", "lastState": {"terminated": {"reason": "Error", "exitCode": 1}}}]}
    });
    let list = serde_json::json!({"items": [pod]});
    home.program(
        "kubectl",
        &format!("case \"$*\" in *pods*) echo '{list}';; *logs*) echo '{FAILURE}';; *) echo '{pod}';; esac"),
    );
    home.program("sacct", "case \"$*\" in *-S*) echo '12|FAILED|1:0|1795176000|gpu1|train';; esac");
    let output = home.at("job.txt");
    fs::write(&output, FAILURE).unwrap();
    home.program("scontrol", &format!("echo 'JobId=12 JobState=FAILED StdErr={0} StdOut={0}'", output.display()));
    found(&home, &[]);
    assert!(["kubectl", "sacct", "scontrol"].iter().all(|name| !home.has_run(name)));
    let sources = found(&home, &["slurm", "pod"]);
    for id in ["slurm:12", "pod:ml/train-0"] {
        let source = sources.iter().find(|source| source["id"] == id).unwrap_or_else(|| panic!("{sources:#?}"));
        assert_eq!(source["oom"], "yes", "{source}");
    }
}

#[test]
fn what_cannot_be_asked_is_said_and_hides_nothing_else() {
    let home = Home::new();
    home.program("docker", "sleep 1000");
    home.program("podman", "echo 'permission denied' >&2; exit 125");
    fs::write(home.at("work/slurm-12.out"), FAILURE).unwrap();
    let sources = found(&home, &[]);
    assert!(of_kind(&sources, "docker").unwrap()["unreadable_reason"].is_string(), "{sources:#?}");
    assert!(of_kind(&found(&home, &["podman"]), "podman").unwrap()["unreadable_reason"].is_string());
    assert!(of_kind(&found(&home, &["pod"]), "pod").unwrap()["unreadable_reason"].is_string(), "kubectl is not there");
    assert_eq!(sources[0]["kind"], "file");
}

#[test]
fn what_is_asked_ends_with_the_program() {
    let home = Home::new();
    let pid = home.at("pid");
    home.program("docker", &format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", pid.display()));
    let mut asking = home.command(&["sources", "docker"]).stdout(Stdio::null()).spawn().unwrap();
    wait_until("docker runs", || pid.exists());
    let docker = fs::read_to_string(&pid).unwrap().trim().to_owned();
    asking.kill().unwrap();
    asking.wait().unwrap();
    wait_until("docker has ended", || !is_running(&docker));
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let due = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < due, "{what}: not in time");
        thread::yield_now();
    }
}

/// A zombie is no running process: in a container nobody may wait for it.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_place_that_is_not_there_is_refused_with_the_reason() {
    let home = Home::new();
    for id in ["docker:x", "tmux:%9", "slurm:x", "pod:x", "ftp:x", "file:/nowhere", "kernel"] {
        let output = home.says(&["diagnose", "--no-live", "--from", id]);
        assert_eq!(output.status.code(), Some(2), "{id}");
        assert!(output.stdout.is_empty() && str::from_utf8(&output.stderr).unwrap().contains("oomdoctor"), "{id}");
    }
}

#[test]
fn the_output_file_of_another_users_job_is_not_read() {
    let home = Home::new();
    // A file of root's, or under root of nobody's in particular: it is enough that it is not one's own.
    let others = ["/etc/passwd", "/proc/1/environ"].into_iter().find(|path| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).is_ok_and(|there| there.uid() != fs::metadata(home.folder()).unwrap().uid())
    });
    let Some(path) = others else { return };
    home.program("scontrol", &format!("echo 'JobId=12 StdOut={path}'"));
    let output = home.says(&["diagnose", "--no-live", "--from", "slurm:12"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(str::from_utf8(&output.stderr).unwrap().contains("another user"));
}
