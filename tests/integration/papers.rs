//! The papers tell the truth: the README's picture is the present screen, every file says what it owns, and the
//! architecture fits in a sitting.

use std::fs;
use std::path::{Path, PathBuf};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_readme_shows_the_present_screen() {
    let snapshot = read("tests/screens/verdict-120x40.snap");
    let screen = snapshot.splitn(3, "---\n").nth(2).unwrap().trim_end().replace("hh:mm:ss", "14:02:31");
    let hint = "copy tests/screens/verdict-120x40.snap into README.md, with 14:02:31 for hh:mm:ss";
    assert!(read("README.md").contains(&screen), "the picture is stale: {hint}");
}

#[test]
fn every_file_opens_with_what_it_owns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    rust_files(&root.join("src"), &mut files);
    rust_files(&root.join("tests"), &mut files);
    assert!(files.len() > 80, "{}", files.len());
    let silent: Vec<&PathBuf> =
        files.iter().filter(|path| !fs::read_to_string(path).unwrap().starts_with("//! ")).collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn the_architecture_is_short_and_names_every_module() {
    let text = read("ARCHITECTURE.md");
    assert!(text.lines().count() < 150);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let modules = fs::read_dir(root).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
    let missing: Vec<String> = modules
        .filter(|name| name.ends_with(".rs") && !["lib.rs", "build.rs"].contains(&name.as_str()))
        .filter(|name| !text.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// What each part may not know, as ARCHITECTURE.md has it.
const NEVER: [(&str, &[&str]); 7] = [
    ("units", &["log", "gpu", "knowledge", "memory", "advice", "app", "ui", "runtime", "probe", "procfs", "cli"]),
    ("log", &["gpu", "knowledge", "memory", "advice", "app", "ui", "runtime", "probe", "procfs", "cli"]),
    ("gpu", &["log", "knowledge", "memory", "advice", "app", "ui", "runtime", "probe", "procfs", "cli"]),
    ("memory", &["log", "gpu", "knowledge", "advice", "app", "ui", "runtime", "probe", "procfs", "cli"]),
    ("knowledge", &["gpu", "memory", "advice", "app", "ui", "runtime", "probe", "procfs", "cli"]),
    ("advice", &["app", "ui", "runtime", "probe", "procfs", "cli"]),
    ("app", &["ui", "runtime", "probe", "procfs", "cli"]),
];

#[test]
fn imports_run_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for (part, never) in NEVER {
        let mut files = vec![root.join(format!("{part}.rs"))];
        if root.join(part).is_dir() {
            rust_files(&root.join(part), &mut files);
        }
        for file in files {
            // Tests may use more than the code they test.
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let is_test = file.file_stem().is_some_and(|name| name == "tests" || name == "testing")
                || file.parent().is_some_and(|folder| folder.ends_with("tests"));
            let found = never.iter().filter(|other| !is_test && code.contains(&format!("crate::{other}::")));
            wrong.extend(found.map(|other| format!("{} uses {other}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
