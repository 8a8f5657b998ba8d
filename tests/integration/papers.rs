//! The documents are up to date: the README's pictures and settings exist, every file says what it owns, the
//! architecture can be read in one sitting, and parts import only what they may.

use std::fs;
use std::path::{Path, PathBuf};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

pub fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// `src/ui/pictures.rs` checks that they show the present screen.
#[test]
fn every_picture_of_the_readme_exists() {
    let readme = read("README.md");
    let pictures: Vec<&str> = readme.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let pictures: Vec<&str> = pictures.into_iter().filter(|path| path.ends_with(".svg")).collect();
    assert!(pictures.len() >= 2, "{pictures:?}");
    for path in pictures {
        assert!(read(path).starts_with("<svg"), "{path}");
    }
}

#[test]
fn the_readme_names_every_setting_theme_and_action() {
    let readme = read("README.md");
    let names = oomdoctor::app::keymap::NAMES.iter().map(|(name, _)| *name);
    let themes = oomdoctor::app::model::Palette::NAMES.iter().map(|(name, _)| *name);
    let missing: Vec<&str> = names.chain(themes).filter(|name| !readme.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn readme_and_contributing_can_be_read_in_one_sitting() {
    assert!(read("README.md").lines().count() <= 120);
    assert!(read("CONTRIBUTING.md").lines().count() <= 120);
}

#[test]
fn the_embedded_knowledge_is_the_folder_knowledge() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("knowledge");
    let embedded = oomdoctor::knowledge::load::embedded_whole();
    assert!(embedded.len() > 300, "{}", embedded.len());
    for source in &embedded {
        assert_eq!(fs::read_to_string(root.join(&source.path)).unwrap(), source.text, "{}", source.path);
    }
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
    assert!(text.lines().count() < 120);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let modules = fs::read_dir(root).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
    let missing: Vec<String> = modules
        .filter(|name| name.ends_with(".rs") && !["lib.rs", "build.rs"].contains(&name.as_str()))
        .filter(|name| !text.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// What each part may not import, as in ARCHITECTURE.md.
const NEVER: [(&str, &[&str]); 9] = [
    ("units", &["log", "gpu", "knowledge", "memory", "advice", "app", "ui", "runtime", "platform", "cli"]),
    ("log", &["gpu", "knowledge", "memory", "advice", "app", "ui", "runtime", "platform", "cli"]),
    ("gpu", &["log", "knowledge", "memory", "advice", "app", "ui", "runtime", "platform", "cli"]),
    ("memory", &["log", "gpu", "knowledge", "advice", "app", "ui", "runtime", "platform", "cli"]),
    ("knowledge", &["gpu", "memory", "advice", "app", "ui", "runtime", "platform", "cli"]),
    ("advice", &["app", "ui", "runtime", "platform", "cli"]),
    ("app", &["ui", "runtime", "platform", "cli"]),
    ("platform", &["log", "knowledge", "memory", "report", "app", "ui", "runtime", "cli"]),
    ("runtime", &["cli"]),
];

/// Words that only system-specific code needs.
const OF_A_SYSTEM: [&str; 11] = [
    "cfg(unix",
    "cfg(windows",
    "cfg(not(windows",
    "target_os",
    "target_family",
    "std::os::",
    "rustix::",
    "libc::",
    "signal_hook",
    "nvml_wrapper",
    "winapi",
];

#[test]
fn only_platform_contains_system_specific_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    let may = [root.join("platform.rs"), root.join("build.rs")];
    files.retain(|file| !file.starts_with(root.join("platform")) && !may.contains(file));
    let says = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        OF_A_SYSTEM.iter().any(|word| text.contains(word))
    };
    let wrong: Vec<&PathBuf> = files.iter().filter(|file| says(file)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn parts_import_in_one_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for (part, never) in NEVER {
        let mut files = vec![root.join(format!("{part}.rs"))];
        if root.join(part).is_dir() {
            rust_files(&root.join(part), &mut files);
        }
        for file in files {
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
