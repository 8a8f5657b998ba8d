//! Owns what the program carries with it: the files of knowledge/, packed in two halves so that two threads unpack
//! them, and whole for checks; its models, and the demo's recording. A file added there is embedded by the next build.

#![allow(clippy::disallowed_methods, reason = "a build script reads and writes files")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use miniz_oxide::deflate::compress_to_vec;

#[path = "build/bare_json.rs"]
mod bare_json;

/// The best that there is: this runs once a build.
const LEVEL: u8 = 10;

#[allow(clippy::print_stdout, reason = "how a build script speaks")]
fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=knowledge");
    // A panic of the released program ends it at once: nothing is unwound, and nobody reads the index of its frames.
    // The option is that of the linkers of Linux.
    let is_linux = env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|system| system == "linux");
    if is_linux && env::var_os("PROFILE").is_some_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
    }
    println!("cargo::rerun-if-changed=assets/demo.jsonl");
    let mut files = Vec::new();
    collect(Path::new("knowledge"), &mut files)?;
    // The tables of `src/advice` and of `src/memory` are built in where they are read.
    files.retain(|file| !file.starts_with("knowledge/advice") && !file.starts_with("knowledge/memory"));
    files.sort();
    let programs = Path::new("knowledge/programs.ron");
    write_ids(&files, &fs::read_to_string(programs)?)?;
    // The tables of models (`memory/table.rs`) and of what a report leaves out (`report/redact/table.rs`) are read without
    // the entries.
    let (models, files): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().partition(|file| file.starts_with("knowledge/models"));
    let (redact, files): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().partition(|file| file.starts_with("knowledge/redact"));
    // So are the names of processes (`gpu/recognise/names.rs`), which no other folder adds to.
    let files: Vec<PathBuf> = files.into_iter().filter(|file| !file.ends_with("processes.ron")).collect();
    let (_, read): (Vec<PathBuf>, Vec<PathBuf>) = files.iter().cloned().partition(|file| is_read_elsewhere(file));
    let (earlier, later) = read.split_at(half(&read)?);
    for (name, files) in [("knowledge.0", earlier), ("knowledge.1", later)] {
        pack(name, &joined(files, bare_json::bare_json)?)?;
    }
    let packs = [("knowledge", &files), ("models", &models), ("redact", &redact)];
    // These are asked for without a knowledge base.
    for name in ["programs", "patterns", "settings", "processes"] {
        pack(name, &fs::read(format!("knowledge/{name}.ron"))?)?;
    }
    for (name, files) in packs {
        pack(name, &joined(files, as_it_stands)?)?;
    }
    pack("demo", &fs::read("assets/demo.jsonl")?)
}

/// Whether only the checks read the file, or it is packed alone.
fn is_read_elsewhere(file: &Path) -> bool {
    file.starts_with("knowledge/innocent") || file.ends_with("patterns.ron") || file.ends_with("settings.ron")
}

/// How many of the files make half of their text.
fn half(files: &[PathBuf]) -> io::Result<usize> {
    let sizes: Vec<u64> = files.iter().map(|file| Ok(fs::metadata(file)?.len())).collect::<io::Result<_>>()?;
    let (all, mut so_far) = (sizes.iter().sum::<u64>(), 0);
    Ok(sizes
        .iter()
        .take_while(|size| {
            so_far += **size;
            so_far <= all / 2
        })
        .count())
}

fn pack(name: &str, bytes: &[u8]) -> io::Result<()> {
    write(name, &compress_to_vec(bytes, LEVEL))
}

fn write(name: &str, bytes: &[u8]) -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::write(out.join(name), bytes)
}

/// The constants in `src/ids.rs`: one for each file of a fix or an entry, and for each name in programs.ron.
fn write_ids(files: &[PathBuf], programs: &str) -> io::Result<()> {
    let (mut fixes, mut entries) = (String::new(), String::new());
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "ron")) {
        let path = slashed(file)?;
        let id = path.trim_end_matches(".ron");
        match id.split_once('/') {
            Some(("fixes", fix)) => fixes += &constant("FixId", fix),
            Some(("entries", entry)) => entries += &constant("EntryId", entry),
            _ => {}
        }
    }
    let names: BTreeSet<&str> =
        programs.split("(name: \"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)).collect();
    let programs: String = names.into_iter().map(|name| constant("Program", name)).collect();
    let ids = format!("impl FixId {{\n{fixes}}}\n\nimpl EntryId {{\n{entries}}}\n\nimpl Program {{\n{programs}}}\n");
    write("ids.rs", ids.as_bytes())
}

fn constant(of: &str, id: &str) -> String {
    let name = id.to_ascii_uppercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
    format!("    pub const {name}: {of} = {of}({id:?});\n")
}

/// Each file as its path, a zero, its text as `text_of` makes it of both, a zero.
fn joined(files: &[PathBuf], text_of: fn(&str, &str) -> Result<String, String>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(file)?;
        if text.contains('\0') {
            return Err(io::Error::other(format!("{} holds a zero byte", file.display())));
        }
        let path = slashed(file)?;
        let text = text_of(&path, &text).map_err(io::Error::other)?;
        all.extend([path.as_bytes(), b"\0", text.as_bytes(), b"\0"].concat());
    }
    Ok(all)
}

#[allow(clippy::unnecessary_wraps, reason = "it stands for what may fail")]
fn as_it_stands(_path: &str, text: &str) -> Result<String, String> {
    Ok(text.to_string())
}

/// The path within knowledge/, with `/` on every system.
fn slashed(file: &Path) -> io::Result<String> {
    let path = file.strip_prefix("knowledge").map_err(io::Error::other)?;
    Ok(path.to_string_lossy().replace('\\', "/"))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
