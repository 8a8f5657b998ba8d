//! Owns what a report leaves out before it is shown to others: tokens and passwords, home folders, names of users and
//! hosts. The number of lines stays. Which words are secrets is told in `secrets`.

mod secrets;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};

const USER: &str = "USER";
const HOST: &str = "HOST";

/// Names that say nothing of a person or a machine.
const COMMON: &[&str] = &[
    // Words of the report itself.
    "home",
    "driver",
    "model",
    "memory",
    "machine",
    "process",
    "python",
    "steps",
    "work",
    "data",
    "log",
    "gpu",
    "cuda",
    "root",
    "user",
    "users",
    "admin",
    "ubuntu",
    "debian",
    "fedora",
    "centos",
    "ec2-user",
    "azureuser",
    "runner",
    "jovyan",
    "docker",
    "nobody",
    "test",
    "shared",
    "public",
    "default",
    "localhost",
    "gdm",
    "sddm",
    "lightdm",
    "ollama",
    "www-data",
    "nvidia-persistenced",
    "app",
    "vllm",
    "python",
    "error",
    "linux",
    "host",
    "git",
    "node",
    "kernel",
    "all",
    "none",
];

/// The names that are known before any text is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Of people.
    pub users: BTreeSet<String>,
    /// Of machines.
    pub hosts: BTreeSet<String>,
}

impl Names {
    /// Adds the names that the text itself gives away: in home folders, prompts and the prefixes of a system's log.
    pub fn learn(&mut self, text: &str) {
        for found in found(&HOMES, text).chain(found(&PROMPTS, text).filter(is_prompt)) {
            self.users.extend(named(&found, "user"));
            self.hosts.extend(named(&found, "host"));
        }
        for found in HOSTS.iter().flat_map(|pattern| found(pattern, text)) {
            self.hosts.extend(named(&found, "host"));
        }
    }

    /// The text without them, and without tokens, passwords and home folders.
    pub fn redacted(&self, text: &str) -> String {
        let mut text = secrets::left_out(text);
        text = replaced(&HOMES, &text, |_| Some("~".to_owned()));
        text = replaced(&PROMPTS, &text, |found| {
            let digest = found.name("host").is_some_and(|host| host.as_str().starts_with("sha"));
            (!digest).then(|| format!("{USER}@{HOST}{}", named(found, "rest").unwrap_or_default()))
        });
        for (names, instead) in [(&self.hosts, HOST), (&self.users, USER)] {
            // The longest first: one name may begin another.
            let mut names: Vec<&String> = names.iter().filter(|name| is_telling(name)).collect();
            names.sort_by_key(|name| std::cmp::Reverse(name.len()));
            for name in names {
                text = without_word(&text, name, instead);
            }
        }
        text
    }
}

fn is_telling(name: &str) -> bool {
    let number = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    name.len() >= 3 && !number && !COMMON.contains(&name.to_lowercase().as_str())
}

/// A pattern that did not compile would find nothing; a test holds that all do.
fn pattern(source: &str) -> Option<Regex> {
    Regex::new(source).ok()
}

type Pattern = LazyLock<Option<Regex>>;

fn found<'a>(pattern: &'a Option<Regex>, text: &'a str) -> impl Iterator<Item = Captures<'a>> {
    pattern.iter().flat_map(move |pattern| pattern.captures_iter(text))
}

fn named(found: &Captures<'_>, name: &str) -> Option<String> {
    found.name(name).map(|part| part.as_str().to_owned())
}

/// `None` leaves a match as it stands.
fn replaced(pattern: &Option<Regex>, text: &str, with: impl Fn(&Captures<'_>) -> Option<String>) -> String {
    let Some(pattern) = pattern else { return text.to_owned() };
    let instead =
        |found: &Captures<'_>| with(found).unwrap_or_else(|| found.get(0).map_or("", |all| all.as_str()).to_owned());
    pattern.replace_all(text, instead).into_owned()
}

/// Home folders, as Linux, macOS, Windows and WSL have them.
static HOMES: Pattern = LazyLock::new(|| {
    pattern(concat!(
        r"(?:(?:/var|/export|/mnt)?/home/|/Users/|/mnt/[a-z]/Users/|\b[A-Za-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/))",
        r"(?:(?P<user>[^\\/\s\x22'`:;,)\]}<>|$*?]+)|\$\{?USER\}?)"
    ))
});
/// A shell's prompt: `ada@box:~$`. Also an address of mail.
static PROMPTS: Pattern = LazyLock::new(|| {
    pattern(r"(?m)\b(?P<user>[a-z_][\w.-]*)@(?P<host>[A-Za-z][\w-]*(?:\.[\w-]+)*)(?P<rest>[: ][~/]|[: \])>,;]|$)")
});

/// `torch@main` and addresses of mail give no names away.
fn is_prompt(found: &Captures<'_>) -> bool {
    found.name("rest").is_some_and(|rest| rest.as_str().ends_with(['~', '/']))
}

/// Where a system's log, Slurm and torchrun name the machine.
static HOSTS: LazyLock<[Option<Regex>; 5]> = LazyLock::new(|| {
    [
        pattern(r"(?m)\b[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d (?P<host>[A-Za-z][\w.-]*) [\w./()-]+(?:\[\d+\])?:"),
        pattern(
            r"(?m)\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.,+:Z-]* (?P<host>[A-Za-z][\w.-]*) (?:kernel|[\w./()-]+\[\d+\]):",
        ),
        pattern(r"\bON (?P<host>[A-Za-z][\w.-]*) CANCELLED\b"),
        pattern(r"(?m)\bsrun: error: (?P<host>[A-Za-z][\w.-]*): task"),
        pattern(r"(?m)^\s*host\s+: (?P<host>[A-Za-z][\w.-]*)"),
    ]
});

/// Every `word` that is no part of a longer one.
fn without_word(text: &str, word: &str, instead: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in text.match_indices(word) {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        let alone = [before, after].into_iter().flatten().all(|c| !c.is_alphanumeric());
        if alone && at >= from {
            out.push_str(text.get(from..at).unwrap_or_default());
            out.push_str(instead);
            from = at + word.len();
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        let mut names = Names { users: ["ada".to_owned()].into(), hosts: ["box17".to_owned()].into() };
        names.learn(text);
        names.redacted(text)
    }

    #[test]
    fn every_pattern_is_one() {
        let single = [&HOMES, &PROMPTS];
        assert!(single.iter().all(|pattern| pattern.is_some()));
        assert!(HOSTS.iter().all(Option::is_some));
    }

    #[test]
    fn what_only_looks_like_a_secret_stays() {
        for text in [
            "vllm serve m --max-num-batched-tokens 8192 --tokenizer-mode auto --max-tokens 5",
            "print_info: EOS token        = 128009 '<|eot_id|>'",
            "eos_token: <|endoftext|>, 12.34 ms per token, 81.0 tokens per second",
            "from huggingface_hub import hf_hub_download; hf_transfer; hf_quantizer_base",
            "--eos-token 2",
            "PWD=/srv PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True CUDA_VISIBLE_DEVICES=0",
            "docker run image@sha256:0123456789abcdef, PID@START 4242@162083",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB.",
            "missing_keys: 12, KeyError: 'key'",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn homes_users_and_hosts_go() {
        for (text, want) in [
            ("File \"/home/grace/run/train.py\", of grace", "File \"~/run/train.py\", of USER"),
            ("/Users/grace/a.gguf", "~/a.gguf"),
            (r"C:\Users\Grace\a.gguf and C:\\Users\\Grace\\b", r"~\a.gguf and ~\\b"),
            ("grace@gpu3:~/run$ python train.py", "USER@HOST:~/run$ python train.py"),
            ("mail ada@example.org, please", "mail USER@HOST, please"),
            ("Nov 20 10:00:00 gpu3 kernel: Out of memory", "Nov 20 10:00:00 HOST kernel: Out of memory"),
            ("slurmstepd: error: *** JOB 1 ON gpu3 CANCELLED AT", "slurmstepd: error: *** JOB 1 ON HOST CANCELLED AT"),
            (
                "/scratch/ada/x on box17.cluster, not in adapt or Canada",
                "/scratch/USER/x on HOST.cluster, not in adapt or Canada",
            ),
            ("/home/ubuntu/x of ubuntu, root", "~/x of ubuntu, root"),
        ] {
            assert_eq!(redacted(text), want);
        }
    }
}
