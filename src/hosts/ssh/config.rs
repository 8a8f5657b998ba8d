//! Owns what `~/.ssh/config` says of names: which machines it has, and which of them a name was probably meant to be. All
//! else in it is for ssh.

use super::super::HostName;
use super::super::name::without_user;

/// Names that are less alike than this, on strsim's scale from 0 to 1, are not suggested.
const ALIKE: f64 = 0.85;

/// A line that names machines, or other files that do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Names without a wildcard.
    Hosts(Vec<HostName>),
    /// Paths, which may have wildcards.
    Include(Vec<String>),
}

/// The lines of a file that matter here.
pub fn lines(text: &str) -> Vec<Line> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Line> {
    let line = line.trim();
    let end = line.find(|character: char| character.is_whitespace() || character == '=')?;
    let (keyword, rest) = line.split_at_checked(end)?;
    let rest = rest.trim_start().trim_start_matches('=');
    let words = rest.split_whitespace().take_while(|word| !word.starts_with('#')).map(|word| word.trim_matches('"'));
    match keyword.to_lowercase().as_str() {
        // `*`, `?` and `!` are no part of a name.
        "host" => Some(Line::Hosts(words.filter_map(|word| word.parse().ok()).collect())),
        "include" => Some(Line::Include(words.map(str::to_owned).collect())),
        _ => None,
    }
}

/// The user in what `ssh -G` printed.
pub fn login(printed: &str) -> Option<String> {
    printed.lines().find_map(|line| line.strip_prefix("user ")).map(|user| user.trim().to_owned())
}

/// The machine that is most like this name; `None` if none is like it.
pub fn nearest<'n>(name: &HostName, known: &'n [HostName]) -> Option<&'n HostName> {
    let name = without_user(name.as_str());
    let rated = known.iter().map(|known| (strsim::jaro_winkler(name, known.as_str()), known));
    let (likeness, known) = rated.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (likeness >= ALIKE && known.as_str() != name).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_wildcards_and_included_files_are_read() {
        let text = "# gpus\nHost gpu1 gpu2 *.lab !old\n  HostName 10.0.0.7\nHOST=\"big\" # the big one\nInclude conf.d/* ~/more\n\
                    Match host x\nHost *\nHost\n";
        let names = |names: &[&str]| Line::Hosts(names.iter().map(|name| name.parse().unwrap()).collect());
        let include = Line::Include(vec!["conf.d/*".to_owned(), "~/more".to_owned()]);
        assert_eq!(lines(text), [names(&["gpu1", "gpu2"]), names(&["big"]), include, names(&[])]);
    }

    #[test]
    fn the_user_is_read_from_the_resolved_configuration() {
        assert_eq!(login("host gpu1\nuser carol\nhostname 10.0.0.7\n").as_deref(), Some("carol"));
        assert_eq!(login("usage: ssh"), None);
    }

    #[test]
    fn a_mistyped_name_leads_to_the_one_that_is_known() {
        let known: Vec<HostName> = ["gpu-node1", "login", "dgx"].map(|name| name.parse().unwrap()).into();
        let near = |name: &str| nearest(&name.parse().unwrap(), &known).map(HostName::as_str);
        assert_eq!(near("ada@gpunode1"), Some("gpu-node1"));
        assert_eq!((near("db.example.org"), near("login")), (None, None));
    }
}
