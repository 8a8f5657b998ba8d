//! Owns where a text names people and machines: home folders, prompts, settings, tables of processes and jobs, and the
//! prefixes of a system log; and which words are no such names.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Captures;
use serde::Deserialize;

use super::table::{Pattern, Words, group, group_or_empty, table};

pub(super) const USER: &str = "USER";
pub(super) const HOST: &str = "HOST";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    no_names: Words,
    code: Words,
    gpus: Words,
    gpu_parts: Words,
    numbered: Words,
    storage: Words,
    pub(super) homes: Pattern,
    pub(super) users: Pattern,
    pub(super) prompts: Pattern,
    pub(super) with_mail: Pattern,
    pub(super) people: Vec<Pattern>,
    pub(super) machines: Vec<Pattern>,
    pub(super) maybe_machines: Vec<Pattern>,
}

pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| table("names"));

/// Whether a word may name a person or a machine.
pub(super) fn is_telling(name: &str) -> bool {
    name.len() >= 3 && is_own(name)
}

/// Whether the name of the person who writes may be left out wherever it stands as a word: two letters are known to be one.
pub(super) fn is_own(name: &str) -> bool {
    let number = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let lower = name.to_lowercase();
    (2..=128).contains(&name.len()) && !number && !TABLE.no_names.contains(&lower) && !TABLE.code.begin(&lower)
}

/// Whether a word looks like a machine's name: it has a digit and is neither a GPU, a service nor a layer of a model.
pub(super) fn is_machine(name: &str) -> bool {
    let short = name.split('.').next().unwrap_or(name).to_lowercase();
    let letters: String = short.chars().take_while(char::is_ascii_alphabetic).collect();
    let number = short.chars().any(|c| c.is_ascii_digit());
    let is_gpu = TABLE.gpus.contains(&letters)
        && (!short.contains('-') || TABLE.gpu_parts.iter().any(|part| short.contains(part)));
    is_telling(name) && number && !is_gpu && !TABLE.numbered.contains(&letters)
}

/// A pattern for machines numbered like the known ones, such as `gpu043` where `gpu042` is known.
pub(super) fn numbered_like(hosts: &BTreeSet<String>) -> Pattern {
    let stems: BTreeSet<String> = hosts.iter().filter_map(|host| numbered(host)).take(16).collect();
    if stems.is_empty() {
        return Pattern::default();
    }
    Pattern::try_from(format!(r"\b(?P<host>{})\b", Vec::from_iter(stems).join("|"))).unwrap_or_default()
}

/// A pattern for that machine's name with any number of as many digits.
fn numbered(host: &str) -> Option<String> {
    let stem = host.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = host.len() - stem.len();
    (stem.len() >= 2 && digits >= 2 && is_machine(host)).then(|| format!(r"{}\d{{{digits}}}", regex::escape(stem)))
}

/// Whether this is a prompt: `torch@main` and email addresses have no path behind them.
pub(super) fn is_prompt(found: &Captures<'_>) -> bool {
    group(found, "rest").is_some_and(|rest| rest.ends_with(['~', '/']))
}

/// Whether this names a person and a machine; a digest does not, nor the matrix product `q@k`.
pub(super) fn is_person_at_machine(found: &Captures<'_>) -> bool {
    let (user, host) = (group_or_empty(found, "user"), group_or_empty(found, "host"));
    user.len() > 1 && host.len() > 1 && !host.starts_with("sha") && !host.starts_with("self.")
}

/// Whether the path begins with a folder of a disk, unlike `/api/users/x`.
pub(super) fn is_storage(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    TABLE.storage.contains(first.trim_end_matches(|c: char| c.is_ascii_digit()))
}
