//! Owns where an option's value comes from: the flag, then the environment (both by clap), then the configuration
//! file `config.ron`, then the default.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ron::extensions::Extensions;
use serde::Deserialize;

use crate::procfs::Procfs;
use crate::runtime::places::Places;

/// Options that every command takes, as they were given.
#[derive(Clone, Debug, Default, Args)]
pub struct Options {
    /// The driver's library, instead of libnvidia-ml.so.1 from the system.
    #[arg(long, global = true, env = "OOMDOCTOR_NVML_LIBRARY", value_name = "PATH")]
    nvml_library: Option<PathBuf>,
    /// Where the devices are; the tests' processes can hold none in /dev.
    #[arg(long, global = true, value_name = "DIR", default_value = "/dev", hide = true)]
    device_folder: PathBuf,
    /// A folder of entries and fixes to use beside the built-in knowledge; the same name takes the place of one.
    #[arg(long, global = true, env = "OOMDOCTOR_KNOWLEDGE", value_name = "DIR")]
    knowledge: Option<PathBuf>,
    /// Seconds between readings [default: 1]
    #[arg(long, global = true, env = "OOMDOCTOR_INTERVAL", value_name = "SECONDS", value_parser = seconds)]
    interval: Option<Duration>,
    /// Never signal or change anything.
    #[arg(long, global = true)]
    read_only: bool,
}

/// The same with every source asked.
#[derive(Clone, Debug)]
pub struct Global {
    /// The driver's library; `None`: the system's.
    pub nvml_library: Option<PathBuf>,
    /// Where the devices are.
    pub device_folder: PathBuf,
    /// A folder of entries and fixes to use beside the built-in knowledge.
    pub knowledge: Option<PathBuf>,
    /// From one reading to the next.
    pub interval: Duration,
    /// Never signal or change anything.
    pub read_only: bool,
}

impl Global {
    /// Where processes are read.
    pub fn procfs(&self) -> Procfs {
        Procfs::default().with_devices(&self.device_folder)
    }
}

/// What `config.ron` may say.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Configuration {
    nvml_library: Option<PathBuf>,
    knowledge: Option<PathBuf>,
    interval: Option<f64>,
    read_only: bool,
}

/// Every option's value. Fails with a sentence where the configuration can't be read.
pub fn resolve(options: Options) -> Result<Global, String> {
    let folder = Places::here().config();
    let configuration = folder.as_deref().map(|folder| read(&folder.join("config.ron"))).transpose()?;
    let configuration = configuration.flatten().unwrap_or_default();
    // Entries of one's own need no setting: they lie beside the configuration.
    let own_knowledge = || folder.map(|folder| folder.join("knowledge")).filter(|folder| folder.is_dir());
    let interval = options.interval.or(configuration.interval.map(Duration::from_secs_f64));
    Ok(Global {
        nvml_library: options.nvml_library.or(configuration.nvml_library),
        device_folder: options.device_folder,
        knowledge: options.knowledge.or(configuration.knowledge).or_else(own_knowledge),
        interval: interval.unwrap_or(Duration::from_secs(1)),
        read_only: options.read_only || configuration.read_only,
    })
}

fn read(path: &Path) -> Result<Option<Configuration>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{} can't be read: {error}", path.display())),
    };
    parse(&text).map(Some).map_err(|error| format!("{}:{error}", path.display()))
}

/// The error begins with its line and column.
fn parse(text: &str) -> Result<Configuration, String> {
    if text.trim().is_empty() {
        return Ok(Configuration::default());
    }
    let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
    let configuration: Configuration = options.from_str(text).map_err(|error| {
        let at = error.span.start;
        format!("{}:{}: {}", at.line, at.col, in_words(&error.code))
    })?;
    if let Some(interval) = configuration.interval {
        in_range(interval).map_err(|error| format!("1:1: interval: {error}"))?;
    }
    Ok(configuration)
}

fn in_words(error: &ron::Error) -> String {
    let ron::Error::NoSuchStructField { expected, found, .. } = error else { return error.to_string() };
    let like = |known: &&&str| strsim::jaro_winkler(known, found) > 0.8;
    match expected.iter().find(like) {
        Some(meant) => format!("there is no setting `{found}`; did you mean `{meant}`?"),
        None => format!("there is no setting `{found}`; there are {}", expected.join(", ")),
    }
}

/// A number of seconds that readings may be apart, or a process be waited for.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text} is not a number of seconds"))?;
    in_range(value).map(Duration::from_secs_f64)
}

fn in_range(value: f64) -> Result<f64, String> {
    if (0.05..=86_400.0).contains(&value) { Ok(value) } else { Err("give between 0.05 and 86400 seconds".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_named_with_its_place_and_what_was_meant() {
        let error = parse("(\n  intervall: 2,\n)").unwrap_err();
        assert!(error.starts_with("2:") && error.contains("did you mean `interval`?"), "{error}");
        let error = parse("(colour: \"red\")").unwrap_err();
        assert!(error.contains("nvml_library"), "{error}");
        assert!(parse("(interval: 0)").unwrap_err().contains("between"));
        assert!(parse("(interval: \"x\")").is_err());
    }

    #[test]
    fn an_empty_file_says_nothing() {
        assert_eq!(parse(" \n").unwrap(), Configuration::default());
        let set = parse("(interval: 2.5, read_only: true, knowledge: \"/k\")").unwrap();
        assert_eq!((set.interval, set.read_only, set.knowledge), (Some(2.5), true, Some("/k".into())));
    }
}
