//! Owns what a report leaves out before it is shown to others: tokens and passwords, home folders, names of users and
//! hosts. Works line by line; the number of lines stays.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What stands in the place of a secret.
const SECRET: &str = "[redacted]";
const USER: &str = "USER";
const HOST: &str = "HOST";
/// Lines at least this wide may have been wrapped by a terminal, within a token too.
const WRAPPED: usize = 60;

/// Names that say nothing of a person or a machine.
const COMMON: &[&str] = &[
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
        let mut text = unwrapped_tokens(text);
        for pattern in PLAIN.iter() {
            let around = |found: &Captures<'_>, part| named(found, part).unwrap_or_default();
            text = replaced(pattern, &text, |found| Some(around(found, "before") + SECRET + &around(found, "after")));
        }
        text = replaced(&FLAG, &text, |found| valued(found, false));
        text = replaced(&SETTING, &text, |found| valued(found, true));
        text = replaced(&VARIABLE, &text, |found| valued(found, false));
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

/// Tokens that are known by how they begin.
static TOKEN: Pattern = LazyLock::new(|| {
    pattern(concat!(
        r"\b(?:hf_[A-Za-z0-9]+|hf_oauth_[\w-]+|(?:sk|rk|pk)[-_][\w-]+|gh[pousr]_[A-Za-z0-9]+|github_pat_\w+|glpat-[\w-]+",
        r"|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{20,}|ya29\.[\w-]+|xox[abeoprs]-[\w-]+|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?",
        r"|nvapi-[\w-]+|npm_\w+|pypi-[\w-]+|gsk_\w+|r8_\w+|rpa_\w+|xai-\w+|wandb_v\d_\w+|dckr_pat_[\w-]+|tskey-[\w-]+)"
    ))
});

/// Eight characters with a digit or a capital among them are no name of a function or a package.
fn is_token(word: &str) -> bool {
    word.len() >= 11 && word.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

/// Tokens out, those too that a terminal wrapped: the next line begins with the rest.
fn unwrapped_tokens(text: &str) -> String {
    let mut lines = Vec::new();
    let mut goes_on = false;
    for line in text.split('\n') {
        let rest = line.trim_start_matches(|c: char| goes_on && (c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        let rest = if rest.len() < line.len() { format!("{SECRET}{rest}") } else { line.to_owned() };
        let end = line.trim_end().len();
        let at_end = found(&TOKEN, line).any(|found| found.get(0).is_some_and(|all| all.end() == end));
        goes_on = at_end && line.chars().count() >= WRAPPED;
        let wrapped = goes_on;
        lines.push(replaced(&TOKEN, &rest, |found| {
            let all = found.get(0)?;
            (is_token(all.as_str()) || wrapped && all.end() == rest.trim_end().len()).then(|| SECRET.to_owned())
        }));
    }
    lines.join("\n")
}

/// What goes without a further look; `before` and `after` stay.
static PLAIN: LazyLock<[Option<Regex>; 6]> = LazyLock::new(|| {
    [
        // A user and a password in an address.
        pattern(r"(?P<before>\b[A-Za-z][A-Za-z0-9+.-]*://)[^/\s@'\x22`]+(?P<after>@)"),
        // The inside of a key or a certificate.
        pattern(r"(?m)^[ \t]*[A-Za-z0-9+/]{60,}={0,2}[ \t]*$"),
        pattern(r"(?i)\b(?P<before>bearer[ \t]+)[\w.~+/=-]{6,}"),
        pattern(r"(?i)(?P<before>\bauthorization['\x22]?[ \t]*[:=][ \t]*['\x22]?(?:\w+[ \t]+)?)[^\s'\x22`,]{4,}"),
        pattern(r"(?i)(?P<before>\b(?:set-)?cookie['\x22]?:[ \t]*)[^\n]+"),
        pattern(r"(?i)(?P<before>[?&](?:[\w-]*(?:token|key|sig|signature|secret|password|credential))=)[^\s&'\x22`]+"),
    ]
});

/// The value behind a telling name: in quotation marks, or up to a blank or a mark.
const VALUE: &str = r"(?P<value>\[redacted\]|\x22[^\x22\n]*\x22|'[^'\n]*'|[^\s\x22'`,;)}\]]+)";
/// Names whose value is a secret, as options and settings have them.
const SECRETS: &str = r"(?:api[-_]?key|access[-_]?key(?:[-_]?id)?|secret(?:[-_]?(?:access[-_]?)?key)?|private[-_]?key|auth[-_]?key|token|password|passwd|passphrase|credentials?)";

/// `--api-key X`, `--hf-token=X`.
static FLAG: Pattern =
    LazyLock::new(|| pattern(&format!(r"(?i)(?P<name>--?[\w-]*{SECRETS})(?P<before>=|[ \t]+){VALUE}")));
/// `"api_key": "X"`, `token = X`.
static SETTING: Pattern = LazyLock::new(|| {
    pattern(&format!(r"(?i)(?P<name>\b[\w.-]*{SECRETS}\\?['\x22]?)(?P<before>[ \t]*(?::|=>?)[ \t]*\\?){VALUE}"))
});
/// `HF_TOKEN=X`, `WANDB_API_KEY=X`.
static VARIABLE: Pattern = LazyLock::new(|| {
    pattern(&format!(
        r"(?P<name>\b[A-Z][A-Z0-9_]*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASS|CREDENTIALS?|AUTH|PAT))(?P<before>=){VALUE}"
    ))
});

/// A named value without its value; `None` where the name means something else: an end-of-text token, a token's time.
fn valued(found: &Captures<'_>, loose: bool) -> Option<String> {
    let (name, before, value) = (named(found, "name")?, named(found, "before")?, named(found, "value")?);
    let bare = value.trim_matches(['"', '\'']);
    let of_tokens = name.to_lowercase().trim_end_matches(['"', '\'', '\\']).ends_with("token");
    let has = |is: fn(&u8) -> bool| bare.bytes().any(|byte| is(&byte));
    let telling = bare.len() >= 8 && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    let harmless = bare.is_empty()
        || before != "=" && bare.starts_with('-')
        || bare == SECRET
        || of_tokens && (loose && !telling || bare.len() <= 6 && bare.bytes().all(|byte| byte.is_ascii_digit()));
    (!harmless).then(|| format!("{name}{before}{SECRET}"))
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
        let single = [&TOKEN, &FLAG, &SETTING, &VARIABLE, &HOMES, &PROMPTS];
        assert!(single.iter().all(|pattern| pattern.is_some()));
        assert!(PLAIN.iter().chain(HOSTS.iter()).all(Option::is_some));
    }

    #[test]
    fn secrets_go_and_their_names_stay() {
        for (text, want) in [
            ("login with hf_abcdEFGH12345678ijklMNOP now", "login with [redacted] now"),
            ("key sk-proj-abc123DEF456ghi789.", "key [redacted]."),
            ("ghp_abcdefghij0123456789abcdefghij012345", "[redacted]"),
            ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
            ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = [redacted]"),
            ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"),
            ("curl -H 'Authorization: Basic YWRhOnB3'", "curl -H 'Authorization: Basic [redacted]'"),
            ("pip --index https://bob:s3cret@pypi.local/simple", "pip --index https://[redacted]@pypi.local/simple"),
            ("vllm serve m --api-key letmein --port 80", "vllm serve m --api-key [redacted] --port 80"),
            ("vllm serve m --api-key=letmein", "vllm serve m --api-key=[redacted]"),
            ("x --hf_token 'a b' y", "x --hf_token [redacted] y"),
            ("export WANDB_API_KEY=0123456789abcdef", "export WANDB_API_KEY=[redacted]"),
            ("MY_TOKEN=x SSH_KEY=\"y z\" python t.py", "MY_TOKEN=[redacted] SSH_KEY=[redacted] python t.py"),
            ("{\"api_key\": \"abc\", \"n\": 1}", "{\"api_key\": [redacted], \"n\": 1}"),
            ("password: hunter2", "password: [redacted]"),
            ("GET /v1?access_token=abc&n=1", "GET /v1?access_token=[redacted]&n=1"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_1", "[redacted]"),
        ] {
            assert_eq!(redacted(text), want);
        }
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        assert_eq!(
            redacted(&format!("-----BEGIN PRIVATE KEY-----\n{body}\nx")),
            "-----BEGIN PRIVATE KEY-----\n[redacted]\nx"
        );
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
    fn a_token_that_a_terminal_wrapped_goes_on_both_lines() {
        let text = format!("{} hf_abcdEF\nGH12345678 and more\npython train.py", "x".repeat(60));
        assert_eq!(redacted(&text), format!("{} [redacted]\n[redacted] and more\npython train.py", "x".repeat(60)));
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
