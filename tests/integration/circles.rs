//! Holds that no three or more files of `src` use each other in a circle. A file uses another where its shipped code names a
//! path into it: `crate::`, `super::`, `self::` or a child module. A parent (`src/advice.rs`) is a file like any other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// A circle of two files is a parent and its child, or two halves of one thing.
const SMALLEST_CIRCLE: usize = 3;

/// The path of a module: `["advice", "fit"]` for `src/advice/fit.rs`.
type Module = Vec<String>;

#[test]
fn no_three_files_use_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = shipped_files(&root);
    assert!(files.len() > 200, "{}", files.len());
    let uses = uses(&files);
    let circles = circles(&uses);
    let described: Vec<String> = circles.iter().map(|circle| described(circle, &uses)).collect();
    assert!(circles.is_empty(), "\n{}", described.join("\n\n"));
}

/// What each file of a circle uses of the others.
fn described(circle: &BTreeSet<&Module>, uses: &BTreeMap<Module, BTreeSet<Module>>) -> String {
    let lines = circle.iter().map(|module| {
        let others: Vec<String> =
            uses[*module].iter().filter(|other| circle.contains(other)).map(|other| other.join("/")).collect();
        format!("{} uses {}", module.join("/"), others.join(", "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The code of every shipped file, by its module. `lib.rs` and `main.rs` only tie the others together.
fn shipped_files(root: &Path) -> BTreeMap<Module, String> {
    let mut paths = Vec::new();
    super::papers::rust_files(root, &mut paths);
    let mut files = BTreeMap::new();
    for path in paths {
        let relative = path.strip_prefix(root).unwrap().with_extension("");
        let module: Module = relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        let is_shipped = !module.iter().any(|part| ["tests", "testing"].contains(&part.as_str()));
        if is_shipped && !["lib", "main", "build"].contains(&module[0].as_str()) {
            files.insert(module, shipped_code(&fs::read_to_string(&path).unwrap()));
        }
    }
    files
}

/// The text without comments, strings and test modules.
fn shipped_code(text: &str) -> String {
    static NO_CODE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r##"(?s)//[^\n]*|/\*.*?\*/|r#".*?"#|r"[^"]*"|"(?:\\.|[^"\\])*"|'(?:\\.[^']*|[^'\\])'"##).unwrap()
    });
    static TEST_MODULE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"#\[cfg\(test\)\]\s*(?:pub\(\w+\) )?mod \w+ \{").unwrap());
    // `pub(in crate::cli)` says who may use an item, and uses nothing itself.
    static SEEN_IN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"pub\(in [\w:]+\)").unwrap());
    let mut code = SEEN_IN.replace_all(&NO_CODE.replace_all(text, "\"\""), "pub").into_owned();
    while let Some(found) = TEST_MODULE.find(&code) {
        let end = end_of_block(&code, found.end());
        code.replace_range(found.start()..end, "");
    }
    code
}

/// Where the block ends whose brace is opened right before `start`.
fn end_of_block(code: &str, start: usize) -> usize {
    let mut depth = 1;
    for (at, letter) in code.char_indices().skip_while(|(at, _)| *at < start) {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// Which files each file uses.
fn uses(files: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut uses = BTreeMap::new();
    for (module, code) in files {
        let imports = imports_in(code);
        let mut used: BTreeSet<Module> = imports.iter().filter_map(|path| file_of(path, module, files)).collect();
        for mut path in paths_outside_of_imports(code) {
            // After `use super::plan`, `plan::share::engine` is `super::plan::share::engine`.
            if let Some(import) = imports.iter().find(|import| import.last() == path.first()) {
                path.splice(..1, import.iter().cloned());
            }
            used.extend(file_of(&path, module, files));
        }
        used.remove(module);
        uses.insert(module.clone(), used);
    }
    uses
}

/// The file that a path leads into, as it is written in this module; `None` for a path into another crate.
fn file_of(path: &[String], module: &[String], files: &BTreeMap<Module, String>) -> Option<Module> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    let mut full: Module = match path.first()?.as_str() {
        "crate" => path[1..].to_vec(),
        "self" => [module, &path[1..]].concat(),
        "super" => [&module[..module.len().checked_sub(supers)?], &path[supers..]].concat(),
        child => {
            let is_child = files.contains_key(&[module, &[child.to_owned()]].concat());
            if is_child { [module, path].concat() } else { Module::new() }
        }
    };
    // What follows the file's own path are items within it.
    while !full.is_empty() && !files.contains_key(&full) {
        full.pop();
    }
    (!full.is_empty()).then_some(full)
}

static IMPORT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\buse\s+([^;]+);").unwrap());
static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b(?:[a-z_][a-z0-9_]*::)+\w+").unwrap());

fn paths_outside_of_imports(code: &str) -> Vec<Vec<String>> {
    let rest = IMPORT.replace_all(code, "");
    PATH.find_iter(&rest).map(|path| path.as_str().split("::").map(str::to_owned).collect()).collect()
}

/// The imported paths, the branches of each `use` tree one by one.
fn imports_in(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for import in IMPORT.captures_iter(code) {
        add_branches(&[], &import[1], &mut paths);
    }
    paths
}

fn add_branches(parent: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    for branch in split_at_outer_commas(tree) {
        let (path, children) = branch.trim().split_once('{').unwrap_or((branch.trim(), ""));
        let path = path.split(" as ").next().unwrap();
        let mut whole = parent.to_vec();
        whole.extend(path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()));
        // `use super::plan::{self, Step}`
        if whole.len() > 1 && whole.last().is_some_and(|part| part == "self") {
            whole.pop();
        }
        match children.strip_suffix('}') {
            Some(children) => add_branches(&whole, children, paths),
            None if whole.is_empty() => {}
            None => paths.push(whole),
        }
    }
}

fn split_at_outer_commas(tree: &str) -> Vec<&str> {
    let mut depth = 0;
    tree.split(|letter: char| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    })
    .collect()
}

/// The groups of files that all lead to each other by what they use.
fn circles(uses: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<&Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        uses.keys().map(|module| (module, reached_from(module, uses))).collect();
    let mut circles: Vec<BTreeSet<&Module>> = Vec::new();
    for (module, others) in &reached {
        let circle: BTreeSet<&Module> =
            others.iter().copied().filter(|other| reached[other].contains(module)).collect();
        if circle.len() >= SMALLEST_CIRCLE && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reached_from<'a>(start: &Module, uses: &'a BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = uses[start].iter().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(&uses[module]);
        }
    }
    reached
}

/// The circles among made-up files, each given by its path and its text.
fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files = files.iter().map(|(path, text)| (path.split('/').map(str::to_owned).collect(), shipped_code(text)));
    let uses = uses(&files.collect());
    circles(&uses).iter().map(|circle| circle.iter().map(|module| module.join("/")).collect()).collect()
}

#[test]
fn a_circle_is_found_through_every_form_of_a_path() {
    let a = ("a", "mod b; use self::b::{self, Thing as Other};");
    let b = ("a/b", "use crate::c;");
    for to_c in
        ["use crate::c;", "fn f() { crate::c::g() }", "use crate::{d, c::{self, g}};", "use super::super::c::*;"]
    {
        for to_a in ["use crate::a::Thing;", "use super::a as other; // {", "use crate::d::{x, y}; use crate::{a};"] {
            assert_eq!(circles_of(&[a, ("a/b", to_c), ("c", to_a), ("d", "")]), [["a", "a/b", "c"]], "{to_c} {to_a}");
        }
    }
    assert!(circles_of(&[a, b, ("c", "use std::a::b;")]).is_empty());
}

#[test]
fn an_import_names_the_file_behind_a_shorter_path() {
    let files = [
        ("a", "use crate::b; fn f() { b::inner::g() }"),
        ("b", ""),
        ("b/inner", "use crate::c::x;"),
        ("c", "use crate::a;"),
    ];
    assert_eq!(circles_of(&files), [["a", "b/inner", "c"]]);
}

#[test]
fn tests_comments_strings_and_pairs_are_no_circle() {
    let test = "#[cfg(test)]\nmod tests { mod inner { use crate::a; } use crate::a::*; }";
    for harmless in [
        "// use crate::a;",
        "fn f() { \"crate::a::b \\\" { crate::a::c\" }",
        "/* crate::a::b */ r#\"\"crate::a::b\"#",
        test,
    ] {
        assert!(
            circles_of(&[("a", "use crate::b;"), ("b", "use crate::c;"), ("c", harmless)]).is_empty(),
            "{harmless}"
        );
    }
    assert!(circles_of(&[("a", "use crate::b;"), ("b", "use crate::a;")]).is_empty());
}
