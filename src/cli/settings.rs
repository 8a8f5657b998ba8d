//! Owns the source of an option's value: the flag, then the environment (both by clap), then the configuration file
//! `config.ron`, then the default.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ron::extensions::Extensions;
use serde::Deserialize;

use super::suggest::{nearest, not_one_of};
use crate::app::keymap::{Keymap, Mistake, NAMES};
use crate::app::model::Palette;
use crate::hosts::HostName;
use crate::platform::{Kernel, Sampling, here, machine, regular};

/// More than any configuration has.
const LARGEST: u64 = 1 << 20;

/// How a Windows path is written in a string.
const BACKSLASHES: &str = r#"a backslash is written twice, as in "C:\\logs", or the string is raw, as in r"C:\logs""#;

/// Over these options in the help.
const EVERYWHERE: &str = "Global options";

/// The keys that have names.
const KEYS: [&str; 14] = [
    "Space",
    "Enter",
    "Tab",
    "Backspace",
    "Delete",
    "Insert",
    "Home",
    "End",
    "PgUp",
    "PgDn",
    "Up",
    "Down",
    "Left",
    "Right",
];

/// Options that every command takes, as they were given.
#[derive(Clone, Debug, Default, Args)]
pub struct Options {
    /// Use this NVML library instead of the system's libnvidia-ml.so.1
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "OOMDOCTOR_NVML_LIBRARY", value_name = "PATH")]
    nvml_library: Option<PathBuf>,
    /// Look for the device files in this folder: the processes of the tests cannot open those in /dev.
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "DIR", default_value = "/dev", hide = true)]
    device_folder: PathBuf,
    /// Read this folder in place of /sys: the tests' own.
    #[arg(long = "sys-folder", global = true, help_heading = EVERYWHERE, value_name = "DIR", hide = true)]
    system_folder: Option<PathBuf>,
    /// Read this folder in place of /proc: the tests' own.
    #[arg(long = "proc-folder", global = true, help_heading = EVERYWHERE, value_name = "DIR", hide = true)]
    process_folder: Option<PathBuf>,
    /// Under WSL2, also show Windows' own processes with GPU memory: asks powershell.exe, and only reads
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    windows: bool,
    /// Add your own entries and fixes from this folder; a file replaces the built-in one of the same name
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "OOMDOCTOR_KNOWLEDGE", value_name = "DIR")]
    knowledge: Option<PathBuf>,
    /// Seconds between readings [default: 1]
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "OOMDOCTOR_INTERVAL", value_name = "SECONDS", value_parser = seconds)]
    interval: Option<Duration>,
    /// Refuse all signals and requests to programs
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    read_only: bool,
    /// Allow signals and requests inside a Kubernetes pod
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    allow_kill: bool,
}

/// How the terminal program looks, as it was asked for.
#[derive(Clone, Debug, Default, Args)]
pub struct Look {
    /// Set the colors: terminal, high-contrast, color-blind or none [default: terminal; none if NO_COLOR is set]
    #[arg(long, env = "OOMDOCTOR_THEME", value_name = "NAME", value_parser = palette)]
    theme: Option<Palette>,
    /// Draw with ASCII characters only
    #[arg(long)]
    ascii: bool,
}

/// The same with every source asked.
#[derive(Clone, Debug)]
pub struct Global {
    /// How this machine is read.
    pub sampling: Sampling,
    /// A folder of entries and fixes to use beside the built-in knowledge.
    pub knowledge: Option<PathBuf>,
    /// Never signal or change anything.
    pub read_only: bool,
    /// Allow signals also inside a Kubernetes pod.
    pub allow_kill: bool,
    /// Whether the last log is kept for `--last`.
    pub keep_log: bool,
    /// Whether failed logs are looked for on this machine where none is given.
    pub find_logs: bool,
    /// The colors; `None` if none were asked for.
    pub palette: Option<Palette>,
    /// Draw with ASCII characters only.
    pub ascii: bool,
    /// What each key means.
    pub keys: Arc<Keymap>,
    /// Names of programs that are never ended.
    pub protected: Vec<String>,
    /// The machines that `--hosts` means.
    pub hosts: Vec<HostName>,
}

impl Global {
    /// The processes; those that the configuration protects may not be signaled, and inside a Kubernetes pod none may be.
    pub fn kernel(&self) -> Kernel {
        machine::kernel(&self.sampling, &self.protected, self.allow_kill)
    }
}

/// The fields of `config.ron`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Configuration {
    nvml_library: Option<PathBuf>,
    knowledge: Option<PathBuf>,
    interval: Option<f64>,
    read_only: bool,
    windows: bool,
    keep_log: Option<bool>,
    find_logs: Option<bool>,
    theme: Option<String>,
    ascii: bool,
    keys: BTreeMap<String, String>,
    protected: Vec<String>,
    hosts: Vec<HostName>,
    /// The palette that `theme` names.
    #[serde(skip)]
    palette: Option<Palette>,
    /// What each key means with those of `keys`.
    #[serde(skip)]
    keymap: Keymap,
}

/// Resolves the value of every option. Fails if the configuration file is invalid.
pub(super) fn resolve(options: Options, look: Look) -> Result<Global, String> {
    let folder = here::config_folder();
    let configuration = folder.as_deref().map(|folder| read(&folder.join("config.ron"))).transpose()?;
    let configuration = configuration.unwrap_or_default();
    // A folder `knowledge` beside the configuration file needs no setting. What is there and is no folder is refused like
    // one that was named, since somebody meant it to be read.
    let own_knowledge = folder.map(|folder| folder.join("knowledge")).filter(|path| path.symlink_metadata().is_ok());
    let interval = options.interval.or(configuration.interval.map(Duration::from_secs_f64));
    Ok(Global {
        sampling: Sampling {
            nvml_library: options.nvml_library.or(configuration.nvml_library),
            device_folder: options.device_folder,
            system_folder: options.system_folder,
            process_folder: options.process_folder,
            interval: interval.unwrap_or(Duration::from_secs(1)),
            glance: None,
            windows: options.windows || configuration.windows,
        },
        knowledge: options.knowledge.or(configuration.knowledge).or(own_knowledge),
        read_only: options.read_only || configuration.read_only,
        allow_kill: options.allow_kill,
        keep_log: configuration.keep_log.unwrap_or(true),
        find_logs: configuration.find_logs.unwrap_or(true),
        palette: look.theme.or(configuration.palette),
        ascii: look.ascii || configuration.ascii,
        keys: Arc::new(configuration.keymap),
        protected: configuration.protected,
        hosts: configuration.hosts,
    })
}

fn read(path: &Path) -> Result<Configuration, String> {
    let text = match regular::read(path, LARGEST).and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Configuration::default()),
        Err(error) => return Err(format!("{} can't be read: {error}", path.display())),
    };
    let configuration = parse(&text).map_err(|error| format!("{}:{error}", path.display()))?;
    if configuration.nvml_library.is_some() && !here::may_name_a_library(path) {
        return Err(format!(
            "{}: nvml_library: root does not load a library that another user's file names; pass --nvml-library instead",
            path.display()
        ));
    }
    Ok(configuration)
}

/// The error begins with its line and column.
fn parse(text: &str) -> Result<Configuration, String> {
    // Editors on Windows write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Configuration::default());
    }
    let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
    let mut configuration: Configuration = options.from_str(text).map_err(|error| {
        let at = error.span.start;
        format!("{}:{}: {}", at.line, at.col, in_words(&error.code))
    })?;
    // `C:\new` has a line end, which no path has.
    for (setting, path) in [("nvml_library", &configuration.nvml_library), ("knowledge", &configuration.knowledge)] {
        if path.as_ref().is_some_and(|path| path.to_string_lossy().contains(char::is_control)) {
            return Err(format!("{}: {setting}: {BACKSLASHES}", place(text, setting)));
        }
    }
    if let Some(interval) = configuration.interval {
        in_range(interval).map_err(|error| format!("{}: interval: {error}", place(text, "interval")))?;
    }
    if let Some(name) = &configuration.theme {
        configuration.palette = Some(palette(name).map_err(|error| at_word(text, name, &error))?);
    }
    let own: Vec<(String, String)> = configuration.keys.clone().into_iter().collect();
    configuration.keymap = Keymap::with(&own).map_err(|mistake| in_keys(text, &mistake))?;
    Ok(configuration)
}

fn in_keys(text: &str, mistake: &Mistake) -> String {
    let (word, error) = match mistake {
        Mistake::Key(key) => (key.as_str(), format!("`{key}` is not a key{}", key_hint(key))),
        Mistake::Answers(key) => {
            (key.as_str(), format!("`{key}` is reserved for answering questions; use another key"))
        }
        Mistake::Action(name) => (name.as_str(), not_one_of("action", name, NAMES.iter().map(|(name, _)| *name))),
        Mistake::Lost(name) => ("keys", format!("`{name}` would have no key; give it one, too")),
    };
    at_word(text, word, &error)
}

/// An error after the place where this word is quoted.
fn at_word(text: &str, word: &str, error: &str) -> String {
    format!("{}: {error}", place(text, &format!("\"{word}\"")))
}

/// The line and column of a word's first occurrence.
fn place(text: &str, word: &str) -> String {
    let before = text.split(word).next().filter(|before| before.len() < text.len()).unwrap_or_default();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{}:{column}", before.matches('\n').count() + 1)
}

/// A palette by its name.
fn palette(name: &str) -> Result<Palette, String> {
    let known = Palette::NAMES.iter().find(|(known, _)| *known == name).map(|(_, palette)| *palette);
    known.ok_or_else(|| not_one_of("theme", name, Palette::NAMES.iter().map(|(name, _)| *name)))
}

/// What to write instead of a key that nobody has.
fn key_hint(key: &str) -> String {
    let name = key.strip_prefix("Ctrl-").unwrap_or(key);
    let examples = "; write it as x, F5, Ctrl-N, Space or PgUp".to_owned();
    nearest(name, KEYS).map_or(examples, |name| format!("; did you mean `{name}`?"))
}

fn in_words(error: &ron::Error) -> String {
    match error {
        ron::Error::InvalidEscape(_) => BACKSLASHES.to_owned(),
        ron::Error::NoSuchStructField { expected, found, .. } => not_one_of("setting", found, expected.iter().copied()),
        ron::Error::ExpectedBoolean => "give true or false".to_owned(),
        ron::Error::ExpectedString => "give a text in quotation marks, as in theme: \"none\"".to_owned(),
        _ => error.to_string(),
    }
}

/// A number of seconds that readings may be apart, or a process be waited for.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    in_range(value).map(Duration::from_secs_f64)
}

fn in_range(value: f64) -> Result<f64, String> {
    if (0.05..=86_400.0).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{value} is out of range; give 0.05 to 86400 seconds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_place_and_the_name_that_was_probably_meant() {
        let error = parse("(\n  intervall: 2,\n)").unwrap_err();
        assert!(error.starts_with("2:") && error.contains("did you mean `interval`?"), "{error}");
        let error = parse("(colour: \"red\")").unwrap_err();
        assert!(error.contains("nvml_library"), "{error}");
        assert!(parse("(\n interval: 0)").unwrap_err().starts_with("2:2: interval: 0"));
        let error = parse("(\n  theme: \"high-contrst\",\n)").unwrap_err();
        assert!(error.starts_with("2:10:") && error.contains("did you mean `high-contrast`?"), "{error}");
        let error = parse("(\n  keys: {\n    \"F5\": \"zom\",\n  },\n)").unwrap_err();
        assert!(error.starts_with("3:11:") && error.contains("did you mean `zoom`?"), "{error}");
        let error = parse("(keys: {\"Strg-X\": \"end\"})").unwrap_err();
        assert!(error.starts_with("1:9:") && error.contains("is not a key"), "{error}");
        assert!(parse("(keys: {\"q\": \"end\"})").is_ok(), "Ctrl-C still leaves");
        assert!(parse("(interval: \"x\")").is_err());
        let error = parse("(keys: {\"Spcae\": \"end\"})").unwrap_err();
        assert!(error.contains("did you mean `Space`?"), "{error}");
        let error = parse("(\n  read_only: ture,\n)").unwrap_err();
        assert!(error.starts_with("2:") && error.contains("true or false"), "{error}");
        let error = parse("(theme: none)").unwrap_err();
        assert!(error.contains("quotation marks"), "{error}");
    }

    #[test]
    fn a_byte_order_mark_is_accepted_and_an_error_explains_how_to_write_a_backslash() {
        let set = parse("\u{feff}(interval: 2.5)\n").unwrap();
        assert_eq!(set.interval, Some(2.5));
        assert_eq!(parse("\u{feff}").unwrap(), Configuration::default());
        for path in [r"C:\Users\ada\entries", r"C:\new", r"D:\x\entries", r"C:\ada"] {
            let error = parse(&format!("(\n  knowledge: \"{path}\",\n)")).unwrap_err();
            assert!(error.starts_with("2:") && error.contains("raw"), "{error}");
            let written = [format!("r\"{path}\""), format!("\"{}\"", path.replace('\\', "\\\\"))];
            for string in written {
                assert_eq!(parse(&format!("(knowledge: {string})")).unwrap().knowledge, Some(path.into()));
            }
        }
    }

    #[test]
    fn the_values_of_the_file_are_used() {
        let set = parse("(theme: \"color-blind\", ascii: true, keep_log: false, protected: [\"train.py\"], keys: {\"F9\": \"end\"})")
            .unwrap();
        assert_eq!((set.palette, set.ascii, set.keep_log), (Some(Palette::ColorBlind), true, Some(false)));
        assert_eq!(set.protected, ["train.py"]);
        assert_eq!(set.keymap.key_of(crate::app::action::Action::End), Some("F9"));
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        assert_eq!(parse(" \n").unwrap(), Configuration::default());
        let set = parse("(interval: 2.5, read_only: true, knowledge: \"/k\")").unwrap();
        assert_eq!((set.interval, set.read_only, set.knowledge), (Some(2.5), true, Some("/k".into())));
    }
}
