//! Owns `oomdoctor run --torch-snapshot`: a private folder at the front of PYTHONPATH makes each Python of the command ask
//! PyTorch to record its memory, and note where it wrote a snapshot. Only the command's environment changes.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::platform::regular;

const PYTHONPATH: &str = "PYTHONPATH";
/// The package of the wheel, under a name of its own: the command may import the wheel's itself.
const PACKAGE: &str = "_oomdoctor_run";
const FILES: [(&str, &str); 4] = [
    ("__init__.py", ""),
    ("hook.py", include_str!("../../packaging/python/oomdoctor/hook.py")),
    ("_recording.py", include_str!("../../packaging/python/oomdoctor/_recording.py")),
    ("_verdict.py", include_str!("../../packaging/python/oomdoctor/_verdict.py")),
];
const BEGINNING: &str = include_str!("../../packaging/python/run/sitecustomize.py");
/// Where the paths of snapshots are noted, one a line, and how much of it is read.
const WRITTEN: &str = "written";
const MOST_NOTED: u64 = 1 << 20;

/// The folder. It is removed when this is dropped.
pub(crate) struct Snapshots(TempDir);

impl Snapshots {
    pub(crate) fn prepare() -> io::Result<Snapshots> {
        let folder = tempfile::Builder::new().prefix("oomdoctor-run-").tempdir()?;
        fs::write(folder.path().join("sitecustomize.py"), BEGINNING)?;
        let package = folder.path().join(PACKAGE);
        fs::create_dir(&package)?;
        for (name, text) in FILES {
            fs::write(package.join(name), text)?;
        }
        Ok(Snapshots(folder))
    }

    /// The variable that the command gets.
    pub(crate) fn environment(&self) -> (OsString, OsString) {
        let mut path = self.0.path().as_os_str().to_owned();
        if let Some(before) = std::env::var_os(PYTHONPATH).filter(|before| !before.is_empty()) {
            path.push(":");
            path.push(before);
        }
        (PYTHONPATH.into(), path)
    }

    /// The file in which snapshots are noted.
    pub(crate) fn noted_in(&self) -> PathBuf {
        self.0.path().join(WRITTEN)
    }
}

/// The snapshots that are noted there.
pub(crate) fn noted(file: &Path) -> Vec<String> {
    let bytes = regular::read(file, MOST_NOTED).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
}
