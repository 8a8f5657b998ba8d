//! Owns what the program carries with it: the files of knowledge/, packed in two halves so that two threads unpack
//! them. A file added there is embedded by the next build.

#![allow(clippy::disallowed_methods, reason = "a build script reads and writes files")]

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use miniz_oxide::deflate::compress_to_vec;

/// The best that there is: this runs once a build.
const LEVEL: u8 = 10;

#[allow(clippy::print_stdout, reason = "how a build script speaks")]
fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=knowledge");
    // A panic of the released program ends it at once: nothing is unwound, and nobody reads the index of its frames.
    if env::var_os("PROFILE").is_some_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
    }
    let mut files = Vec::new();
    collect(Path::new("knowledge"), &mut files)?;
    // The table of models is embedded where it is read (`memory/table.rs`).
    files.retain(|file| !file.starts_with("knowledge/models"));
    files.sort();
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let (earlier, later) = files.split_at(files.len() / 2);
    for (name, half) in [("knowledge.0", earlier), ("knowledge.1", later)] {
        fs::write(out.join(name), compress_to_vec(&joined(half)?, LEVEL))?;
    }
    Ok(())
}

/// Each file as its path, a zero, its text, a zero.
fn joined(files: &[PathBuf]) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    for file in files {
        let path = file.strip_prefix("knowledge").map_err(io::Error::other)?;
        let text = fs::read(file)?;
        if text.contains(&0) {
            return Err(io::Error::other(format!("{} holds a zero byte", file.display())));
        }
        all.extend(path.to_string_lossy().replace('\\', "/").into_bytes());
        all.push(0);
        all.extend(text);
        all.push(0);
    }
    Ok(all)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
