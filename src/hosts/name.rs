//! Owns the names of machines, jobs and pods as a person, `~/.ssh/config` or a scheduler writes them. A name becomes an argument of another
//! program, so one that could be taken for an option is refused.

use std::fmt;
use std::str::FromStr;

use serde_with::{DeserializeFromStr, SerializeDisplay};

use crate::memory::flags::quoted;
use crate::text::short_quote;

/// What names a machine, such as `gpu1` or `ada@gpu1.lab`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, SerializeDisplay, DeserializeFromStr)]
pub struct HostName(String);

/// No name of a machine is longer.
const LONGEST: usize = 253;
/// No name of a user is longer.
const LONGEST_USER: usize = 64;

impl HostName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The user as whom it is reached, where the name has one, such as ada of `ada@gpu1`.
    pub fn user(&self) -> Option<&str> {
        self.0.rsplit_once('@').map(|(user, _)| user)
    }

    /// What a person types here to run this command line there. A line that is not plain words must be quoted already.
    pub fn ssh_command(&self, line: &str) -> String {
        format!("ssh -t {} {line}", quoted(&self.0))
    }

    /// Stands for all machines of a scheduler that names none of them.
    pub fn of_scheduler(scheduler: &'static str) -> HostName {
        HostName(scheduler.to_owned())
    }

    /// The name that is nearest to a foreign text: `_` stands for each character that no name has, and for the `@` that would
    /// choose a user.
    pub fn nearest(text: &str) -> HostName {
        let name: String = text.trim_start_matches('-').chars().take(LONGEST).map(nearest_character).collect();
        HostName(if name.is_empty() { "unknown".to_owned() } else { name })
    }
}

fn is_part_of_a_name(character: char) -> bool {
    character.is_alphanumeric() || "._-@:[]%".contains(character)
}

fn nearest_character(character: char) -> char {
    if is_part_of_a_name(character) && character != '@' { character } else { '_' }
}

/// A name without what follows its first dot.
pub(crate) fn without_domain(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// A name without the user as whom the machine is reached, as in `ada@gpu1`.
pub(super) fn without_user(name: &str) -> &str {
    name.rsplit('@').next().unwrap_or(name)
}

/// A name without user and domain and in lower case, to be compared with others.
pub(super) fn short(name: &str) -> String {
    without_domain(without_user(name)).to_lowercase()
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for HostName {
    type Err = String;

    /// Fails on what `ssh` or `scontrol` would not take for one name.
    fn from_str(text: &str) -> Result<HostName, String> {
        // With a user before it, a name is hardly longer.
        let is_too_long = text.len() > LONGEST + LONGEST_USER;
        if text.is_empty() || is_too_long || text.starts_with('-') || !text.chars().all(is_part_of_a_name) {
            return Err("give the name of a machine, as `ssh` takes it".to_owned());
        }
        Ok(HostName(text.to_owned()))
    }
}

/// The names of a file: one a line, or several separated by blanks and commas; `#` begins a comment. Fails with the line.
pub fn listed(text: &str) -> Result<Vec<HostName>, String> {
    let mut names = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        for name in line.split([' ', '\t', ',', '\r']).filter(|name| !name.is_empty()) {
            let name =
                name.parse().map_err(|error| format!("line {}: `{}`: {error}", number + 1, short_quote(name)))?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

/// No number of a job is longer.
const LONGEST_JOB: usize = 40;

/// The number of a job, such as 4711, 4711_3 of an array or 4711+1 of a heterogeneous one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobId(String);

impl JobId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for JobId {
    type Err = String;

    fn from_str(text: &str) -> Result<JobId, String> {
        let is_a_job = text.starts_with(|first: char| first.is_ascii_digit())
            && text.chars().all(|character| character.is_ascii_digit() || "_+".contains(character));
        if !is_a_job || text.len() > LONGEST_JOB {
            return Err("give the number of a job, such as 4711 or 4711_3".to_owned());
        }
        Ok(JobId(text.to_owned()))
    }
}

/// The name of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition(String);

impl Partition {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Partition {
    type Err = String;

    fn from_str(text: &str) -> Result<Partition, String> {
        let has_only_its_characters =
            text.chars().all(|character| character.is_alphanumeric() || "._-".contains(character));
        if text.is_empty() || text.starts_with('-') || !has_only_its_characters {
            return Err("give the name of a partition".to_owned());
        }
        Ok(Partition(text.to_owned()))
    }
}

/// Names a pod; without a namespace, in the one of the context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    pub namespace: Option<String>,
    pub name: String,
}

impl FromStr for PodName {
    type Err = String;

    /// Fails if a part is not a name of Kubernetes.
    fn from_str(text: &str) -> Result<PodName, String> {
        let (namespace, name) = text.split_once('/').map_or((None, text), |(space, name)| (Some(space), name));
        if !is_name_of_kubernetes(name) || !namespace.is_none_or(is_name_of_kubernetes) {
            return Err("give NAMESPACE/POD".to_owned());
        }
        Ok(PodName { namespace: namespace.map(str::to_owned), name: name.to_owned() })
    }
}

/// Whether Kubernetes could have given this name. It becomes an argument of kubectl, so it is no option.
pub(super) fn is_name_of_kubernetes(name: &str) -> bool {
    let has_only_its_characters =
        name.chars().all(|character| character.is_ascii_alphanumeric() || "-.".contains(character));
    !name.is_empty() && name.len() <= LONGEST && !name.starts_with('-') && has_only_its_characters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_an_option_or_a_command_is_no_name() {
        for text in ["", "-oProxyCommand=x", "a b", "a;b", "$(a)", "a\nb", "a/b", "a`b"] {
            assert!(text.parse::<HostName>().is_err(), "{text}");
        }
        for text in ["gpu1", "ada@gpu-1.lab.example", "[::1]", "10.0.0.7", "größe"] {
            assert!(text.parse::<HostName>().is_ok(), "{text}");
        }
    }

    #[test]
    fn the_nearest_name_is_always_a_name() {
        for (text, name) in
            [("gpu1", "gpu1"), ("--x y/z\u{1b}", "x_y_z_"), ("root@a", "root_a"), ("", "unknown"), ("---", "unknown")]
        {
            assert_eq!(HostName::nearest(text).as_str(), name);
            assert!(name.parse::<HostName>().is_ok());
        }
    }

    #[test]
    fn a_file_has_names_on_lines_and_comments() {
        let names = listed("gpu1 gpu2 # old\n\n# none\ngpu3,gpu1\r\n").unwrap();
        assert_eq!(names.iter().map(HostName::as_str).collect::<Vec<_>>(), ["gpu1", "gpu2", "gpu3"]);
        assert!(listed("gpu1\n-x\n").unwrap_err().starts_with("line 2"));
        let error = listed(&format!("gpu1\n-{}\n", "x".repeat(200_000))).unwrap_err();
        assert!(error.starts_with("line 2: `-xx") && error.len() < 300, "{} bytes", error.len());
        assert!(listed(&"x".repeat(200_000)).is_err(), "no machine is called so");
    }
}
