//! A machine with GPUs of AMD and Intel: the kernel's files as folders, and real processes that have a device file open. The
//! kernel would say in /proc/PID/fdinfo what they use; a file of the device folder says it instead.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use oomdoctor::gpu::Snapshot;
use tempfile::TempDir;

use super::fake_driver::{PATIENCE, homes};
use super::schema::{assert_output_valid, assert_valid};

pub struct DrmMachine {
    folder: TempDir,
}

/// What is said of a GPU; `files` are those of its folder, with their text.
pub struct Gpu<'a> {
    pub number: u32,
    pub driver: &'a str,
    pub address: &'a str,
    pub files: &'a [(&'a str, &'a str)],
}

impl DrmMachine {
    pub fn new(gpus: &[Gpu<'_>]) -> DrmMachine {
        let machine = DrmMachine { folder: tempfile::tempdir().unwrap() };
        for gpu in gpus {
            let (card, render) = (format!("card{}", gpu.number), format!("renderD{}", 128 + gpu.number));
            let folder = machine.sys(&format!("class/drm/{card}/device"));
            let uevent = format!("DRIVER={}\nPCI_ID=1002:FFFF\nPCI_SLOT_NAME={}\n", gpu.driver, gpu.address);
            for (name, text) in gpu.files.iter().chain(&[("uevent", uevent.as_str())]) {
                write(&folder.join(name), text);
            }
            fs::create_dir_all(folder.join("drm").join(&card)).unwrap();
            fs::create_dir_all(folder.join("drm").join(&render)).unwrap();
            // Both nodes of a GPU lead to the same folder, and an output of it is no GPU.
            fs::create_dir_all(machine.sys(&format!("class/drm/{render}"))).unwrap();
            symlink(&folder, machine.sys(&format!("class/drm/{render}/device"))).unwrap();
            fs::create_dir_all(machine.sys(&format!("class/drm/{card}-HDMI-A-1"))).unwrap();
            write(&machine.node(gpu.number), "");
        }
        machine
    }

    pub fn sys(&self, path: &str) -> PathBuf {
        self.folder.path().join("sys").join(path)
    }

    pub fn devices(&self) -> PathBuf {
        self.folder.path().join("dev")
    }

    pub fn node(&self, number: u32) -> PathBuf {
        self.devices().join(format!("dri/renderD{}", 128 + number))
    }

    pub fn set(&self, path: &str, text: &str) {
        write(&self.sys(path), text);
    }

    /// What the kernel would say of this process's descriptor.
    pub fn says(&self, pid: u32, descriptor: u32, text: &str) {
        write(&self.devices().join(format!("fdinfo/{pid}/{descriptor}")), text);
    }

    /// The shipped program on this machine.
    pub fn oomdoctor(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
        command.args(arguments).arg("--device-folder").arg(self.devices()).arg("--sys-folder").arg(self.sys(""));
        command.stdin(Stdio::null()).envs(homes()).env_remove("KUBERNETES_SERVICE_HOST").env_remove("SUDO_UID");
        command
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        let output = assert_cmd::Command::from_std(self.oomdoctor(arguments)).timeout(PATIENCE).output().unwrap();
        assert_output_valid(arguments, &output);
        output
    }

    pub fn snapshot(&self) -> Snapshot {
        let output = self.output(&["sample", "--count", "1"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().nth(1).unwrap_or_else(|| panic!("no reading: {text:?}"));
        assert_valid("sample", &serde_json::from_str(line).unwrap());
        serde_json::from_str(line).unwrap()
    }
}

/// Replaced atomically, because the program may be reading.
fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}
