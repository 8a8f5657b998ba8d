//! Owns the logs beside the checkout, which some tests read by hand.

use std::path::Path;
use std::{env, fs};

/// Every log with its path, from the folders that `OOMDOCTOR_LOGS` lists (separated by `:`), or else from those beside
/// the checkout.
pub fn beside_the_checkout() -> Vec<(String, String)> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let mut folders = match env::var_os("OOMDOCTOR_LOGS") {
        Some(given) => env::split_paths(&given).collect(),
        None => ["corpus", "corpus2", "resolved/logs"].map(|folder| shared.join(folder)).to_vec(),
    };
    let mut logs = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "log" || extension == "txt") {
                let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                logs.push((path.display().to_string(), text));
            }
        }
    }
    logs
}
