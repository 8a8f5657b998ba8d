//! Owns what the program carries with it: the files of knowledge/ as a reading needs them, whole for checks, and its
//! models. A file added there is embedded by the next build. In a release, what runs often is placed side by side.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a build script reads files and asks the compiler"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use miniz_oxide::deflate::compress_to_vec;

#[path = "build/bare_json.rs"]
mod bare_json;
#[path = "build/often.rs"]
mod often;

/// The best that there is: this runs once a build.
const LEVEL: u8 = 10;

#[allow(clippy::print_stdout, reason = "how a build script speaks")]
fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=knowledge");
    often::order_functions()?;
    let mut files = Vec::new();
    collect(Path::new("knowledge"), &mut files)?;
    // The tables of `src/advice` and of `src/memory` and the names of processes are built in where they are read.
    let built_in_elsewhere = ["knowledge/advice", "knowledge/memory", "knowledge/processes.ron"];
    files.retain(|file| !built_in_elsewhere.iter().any(|folder| file.starts_with(folder)));
    files.sort();
    let programs = fs::read_to_string("knowledge/programs.ron")?;
    write_ids(&files, &programs)?;
    // The tables of models (`memory/table.rs`) and of what a report leaves out (`report/redact/table.rs`) are read without
    // the entries.
    let (models, files): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().partition(|file| file.starts_with("knowledge/models"));
    let (redact, files): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().partition(|file| file.starts_with("knowledge/redact"));
    let read: Vec<PathBuf> = files.iter().filter(|file| !is_read_elsewhere(file)).cloned().collect();
    write("knowledge.json", &joined(&read, bare_json::bare_json)?)?;
    // The facts about programs are asked for without a knowledge base.
    write("programs.json", bare_json::bare_json("programs.ron", &programs).map_err(io::Error::other)?.as_bytes())?;
    write("models", &joined(&models, as_it_stands)?)?;
    write("redact", &joined(&redact, as_it_stands)?)?;
    // Only checks read this, which may take a moment.
    write("knowledge", &compress_to_vec(&joined(&files, as_it_stands)?, LEVEL))
}

/// Whether only the checks read the file, or it is packed alone.
fn is_read_elsewhere(file: &Path) -> bool {
    file.starts_with("knowledge/innocent") || file.ends_with("patterns.ron") || file.ends_with("settings.ron")
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
    // A name of Rust does not begin with a digit.
    let name = if name.starts_with(|first: char| first.is_ascii_digit()) { format!("_{name}") } else { name };
    format!("    pub const {name}: {of} = {of}({id:?});\n")
}

/// Each file as its path, a zero, its text as `text_of` makes it of both, a zero.
fn joined(files: &[PathBuf], text_of: fn(&str, &str) -> Result<String, String>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(file)?;
        if text.contains('\0') {
            return Err(io::Error::other(format!("{} contains a zero byte", file.display())));
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
