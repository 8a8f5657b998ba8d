//! Names of archives, versions and paths that packaging repeats and that could diverge.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The value of `key = "value"` in a table of Cargo.toml.
fn setting(table: &str, key: &str) -> String {
    let manifest = read("Cargo.toml");
    let table = manifest.split_once(&format!("\n[{table}]\n")).unwrap().1;
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    let prefix = format!("{key} = \"");
    lines.filter_map(|line| line.strip_prefix(&prefix)).next().unwrap().trim_end_matches('"').to_owned()
}

/// Every file in `packaging/` and of the workflows, which are not part of the crate.
fn recipes_and_workflows() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join("packaging"), root().join(".github")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    assert!(files.iter().any(|file| file.ends_with("packaging/release.sh")));
    files
}

/// A template of `[package.metadata.binstall]` with its variables filled in; `{ repo }` and `{ binary-ext }` stay.
fn expanded(key: &str, target: &str) -> String {
    [("name", "oomdoctor"), ("version", env!("CARGO_PKG_VERSION")), ("target", target), ("bin", "oomdoctor")]
        .iter()
        .fold(setting("package.metadata.binstall", key), |text, (variable, value)| {
            text.replace(&format!("{{ {variable} }}"), value)
        })
}

/// The archives that the release script would make, one line each.
fn names_of_a_release() -> String {
    let names = Command::new("bash").arg(root().join("packaging/release.sh")).arg("--names").output().unwrap();
    assert!(names.status.success(), "{}", String::from_utf8_lossy(&names.stderr));
    String::from_utf8(names.stdout).unwrap()
}

/// `cargo binstall` must download an archive that the release script makes.
#[test]
fn the_binstall_template_matches_the_release_archives() {
    let names = names_of_a_release();
    for target in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        let address = expanded("pkg-url", target);
        let archive = address.rsplit('/').next().unwrap();
        assert!(names.lines().any(|name| name == archive), "{archive} is not among\n{names}");
        // The archive contains one folder with its own name.
        let folder = archive.strip_suffix(".tar.gz").unwrap();
        assert_eq!(expanded("bin-dir", target), format!("{folder}/oomdoctor{{ binary-ext }}"));
    }
}

/// The version must be filled in: a fixed one is wrong at the next release.
#[test]
fn no_recipe_or_workflow_contains_a_fixed_version() {
    for file in recipes_and_workflows() {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for (number, line) in text.lines().enumerate() {
            let named = line.split("oomdoctor").skip(1).any(|rest| {
                let rest = rest.trim_start_matches(['-', '_', ' ', '@', '=', '"', 'v']);
                rest.split_once('.').is_some_and(|(major, rest)| {
                    !major.is_empty()
                        && major.bytes().all(|byte| byte.is_ascii_digit())
                        && rest.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
                })
            });
            assert!(!named, "{}:{}: {line}", file.display(), number + 1);
        }
    }
}

/// A copied install command must name a file that the release has.
#[test]
fn the_readme_names_files_that_the_release_has() {
    let names = names_of_a_release();
    let readme = read("README.md");
    let mut files = 0;
    for word in readme.split(|letter: char| letter.is_whitespace() || "`/()|,".contains(letter)) {
        if word.starts_with("oomdoctor") && (word.ends_with("gz") || word.ends_with(".deb") || word.ends_with(".rpm")) {
            assert!(names.lines().any(|name| name == word), "{word} is not among\n{names}");
            files += 1;
        }
    }
    assert!(files > 2, "the README names {files} files of a release");
}

#[test]
fn workflows_and_image_build_with_the_rust_version_of_the_manifest() {
    let wanted = env!("CARGO_PKG_RUST_VERSION");
    let mut toolchains = 0;
    for file in recipes_and_workflows() {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for before in ["toolchain install ", "default-toolchain ", "library/rust:", "cargo +", "rustup default "] {
            for rest in text.split(before).skip(1) {
                assert!(rest.starts_with(wanted), "{}: {before}{}", file.display(), rest.lines().next().unwrap());
                toolchains += 1;
            }
        }
    }
    assert!(toolchains > 0 || !root().join(".github").exists());
}

/// Packages contain files that exist, or that the build and packaging/extras.sh write.
#[test]
fn every_packaged_file_exists_or_is_made() {
    let manifest = read("Cargo.toml");
    let extras = read("packaging/extras.sh");
    let packages = manifest.split_once("\n[package.metadata.deb]\n").unwrap().1.split_once("\n[lib]\n").unwrap().0;
    let sources: Vec<&str> = packages
        .lines()
        .filter_map(|line| line.trim().strip_prefix("[\"").or_else(|| line.trim().strip_prefix("{ source = \"")))
        .filter_map(|line| line.split('"').next())
        .collect();
    assert!(sources.len() > 10, "{sources:?}");
    for source in sources {
        let is_there = match source.strip_prefix("target/extras/") {
            Some(name) => extras.contains(&format!("$folder/{name}")),
            None => source == "target/release/oomdoctor" || root().join(Path::new(source)).exists(),
        };
        assert!(is_there, "{source}");
    }
}

#[test]
fn contributing_states_the_checked_size_limit() {
    let script = read("packaging/release/size.sh");
    let limit: u64 = script.lines().find_map(|line| line.strip_prefix("limit=")).unwrap().parse().unwrap();
    assert!(read("CONTRIBUTING.md").contains(&format!("below {} MB", limit / 1_000_000)));
}
