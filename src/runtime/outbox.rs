//! Owns writing a report below the state folder: a new file each time, its owner's alone.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;

use super::wake::{Tell, Wake};
use crate::app::Msg;
use crate::platform::here;

/// More reports within one second than this are not written.
const SAME_SECOND: u32 = 20;

/// A report of the demo, which says at its beginning that it is one.
pub(crate) fn of_the_demo(text: &str) -> String {
    format!("> **Demo:** made by `oomdoctor --demo`. The machine, the log and the kills are simulated.\n\n{text}")
}

/// Writes it on a thread of its own and says where.
pub(crate) fn write(state: Option<PathBuf>, text: String, wakes: Sender<Wake>) {
    let answer = wakes.clone();
    let spawned = thread::Builder::new().name("report".into()).spawn(move || {
        let written = match &state {
            Some(folder) => new_report(folder, &text, &jiff::Zoned::now()).map_err(|error| error.to_string()),
            None => Err(here::STATE_UNKNOWN.to_owned()),
        };
        answer.tell(Msg::Written(written.map(|path| path.display().to_string())));
    });
    if let Err(error) = spawned {
        wakes.tell(Msg::Written(Err(error.to_string())));
    }
}

fn new_report(folder: &Path, text: &str, now: &jiff::Zoned) -> io::Result<PathBuf> {
    here::make_private_folder(folder)?;
    let stem = now.strftime("report-%Y-%m-%d-%H%M%S").to_string();
    let mut another = 1;
    loop {
        let name = if another == 1 { format!("{stem}.md") } else { format!("{stem}-{another}.md") };
        let path = folder.join(name);
        match here::new_private_file(&path) {
            Ok(mut file) => {
                return file.write_all(text.as_bytes()).map(|()| path.clone()).inspect_err(|_| {
                    // An incomplete report is removed.
                    let _ = std::fs::remove_file(&path);
                });
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && another < SAME_SECOND => another += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_report_is_a_file_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let now: jiff::Zoned = "2026-11-21T09:30:05+01:00[+01:00]".parse().unwrap();
        let folder = root.path().join("oomdoctor");
        let first = new_report(&folder, "one", &now).unwrap();
        let second = new_report(&folder, "two", &now).unwrap();
        assert_eq!(first, folder.join("report-2026-11-21-093005.md"));
        assert_eq!(std::fs::read_to_string(first).unwrap(), "one");
        assert_eq!(std::fs::read_to_string(second).unwrap(), "two");
    }
}
