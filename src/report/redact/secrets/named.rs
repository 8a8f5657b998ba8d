//! Owns secrets that stand behind a telling name: in options, settings, variables, source code, JSON, YAML and prose.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::SECRET;
use crate::report::redact::{part, pattern, replaced};

/// The text without them.
pub(super) fn left_out(text: &str) -> String {
    let text = NAMED.iter().fold(text.to_owned(), |text, pattern| replaced(pattern, &text, valued));
    KEYED.iter().fold(text, |text, pattern| {
        replaced(pattern, &text, |found| {
            valued(found).filter(|_| part(found, "value").is_some_and(|key| is_drawn(&key)))
        })
    })
}

/// The parts of patterns, in the order in which they are put in: one may hold those behind it.
const PARTS: &[(&str, &str)] = &[
    // The value of an option: a word as the shell has it, or a text in quotation marks. It begins with no dash.
    ("<ARGUMENT>", r"<GONE><REST>|(?:<QUOTED>)<REST>|[\x22'`]?[^\s\x22'`-]<REST>"),
    // One more of it.
    ("<ANOTHER>", r"\x22[^\x22\n-][^\x22\n]*\x22|'[^'\n-][^'\n]*'|[^\s\x22'`|&;<>#\\-]<REST>"),
    // The same where a dash may begin it.
    ("<WORD>", r"<GONE><REST>|(?:<QUOTED>)<REST>|<IN>*<END>|<IN>+"),
    // Between a setting and its value, with the type that Python writes there. Behind a type that is not known, both go.
    ("<IS>", r"[ \t]*(?::[ \t]*<TYPE>[ \t]*=|:=|:|=>|[=!]?={1,2})[ \t]*"),
    ("<TYPE>", r"(?:[\w.]+\[)*(?:str|bytes|Any|&?[Ss]tring|&str|SecretStr)\]*(?:[ \t]*\|[ \t]*None)?"),
    ("<TYPED>", r"[A-Za-z][\w.|\[\]]*[ \t]*=[ \t]*(?:<QUOTED>)"),
    // The value of a setting: in quotation marks, a list, or up to a blank.
    ("<VALUE>", r"[brfu]?(?:<QUOTED>)|\[[^\]\n]*\](?:[^\s\x22'`&)}\]]<IN>*<END>)?|[^\s\x22'`,;(){}\[\]]<REST>"),
    ("<QUOTED>", r"\\\x22[^\x22\\\n]*\\\x22|\x22(?:[^\x22\\\n]|\\.)*\x22|'(?:[^'\\\n]|\\.)*'"),
    ("<GONE>", r"\[redacted\]"),
    // Commas and brackets within a value are its own; at its end they are the text's.
    ("<REST>", r"(?:<IN>*<END>)?"),
    ("<IN>", r"(?:[^\s\x22'`]|[\x22'`][^\s\x22'`,;:)}\]])"),
    ("<END>", r"[^\s\x22'`,;)}\]]"),
    // The end of a name in quotation marks, also as an index: `environ['X']`.
    ("<NAME_END>", r"\\?['\x22]?(?:[ \t]*\])?"),
    // Names whose value is a secret, as options and settings have them.
    (
        "<SECRET>",
        concat!(
            r"(?:<API_KEY>|access[-_ ]?key(?:[-_ ]?id)?|access[-_]?signature|secret(?:[-_ ]?(?:access[-_ ]?)?key)?",
            r"|(?:private|auth|account|master|signing|encryption|wandb|openai|hf|license)[-_ ]?key",
            r"|token|password|passwd|passphrase|passcode|credentials?|pwd|(?:db|smtp|mail|user|root|admin|login|ftp|sudo)[_.-]?pass)"
        ),
    ),
    ("<API_KEY>", r"api[-_ ]?keys?"),
    (
        "<VARIABLE>",
        r"[A-Z][A-Z0-9_]*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|_PWD|CREDENTIALS?|AUTH|PAT)(?:_?\d{1,2})?",
    ),
    // An option's beginning: `next-token` has none.
    ("<OPTION>", r"(?:^|[^\w-])--?[\w.-]*"),
    // Between an option and its value: a blank, the shell's line end, or a list of arguments in JSON.
    ("<BLANK>", r"[ \t]+(?:\\\r?\n[ \t]*)?|['\x22][ \t]*,[ \t]*"),
];

pub(super) fn filled(source: &str) -> Option<Regex> {
    pattern(&PARTS.iter().fold(source.to_owned(), |source, (name, part)| source.replace(name, part)))
}

/// What has a telling `name`; whether its `value` goes is seen in `valued`.
pub(super) static NAMED: LazyLock<[Option<Regex>; 9]> = LazyLock::new(|| {
    [
        // `--hf-token=X`.
        filled(r"(?im)(?P<name><OPTION><SECRET>)(?P<before>=)(?P<value><WORD>)"),
        // `--api-key X Y`: vLLM takes several.
        filled(
            r"(?im)(?P<name><OPTION><API_KEY>)(?P<before><BLANK>)(?P<value>(?:<ARGUMENT>)(?:(?:[ \t]*,)?[ \t]+(?:<ANOTHER>))*)",
        ),
        // `--password X`.
        filled(r"(?im)(?P<name><OPTION><SECRET>)(?P<before><BLANK>)(?P<value><ARGUMENT>)"),
        // `"api_key": "X"`, `token = X`; the word before it may tell that it is a tokenizer's.
        filled(concat!(
            r"(?i)(?P<name>(?:\b[A-Za-z]+[ /])?\b[\w.-]*<SECRET><NAME_END>(?:[ \t]+\[\w+\])?)",
            r"(?P<before><IS>)(?P<value><TYPED>|<VALUE>)"
        )),
        // `HF_TOKEN=X`, `MYSQL_PWD=X`; `PWD` and `OLDPWD` are folders.
        filled(r"(?P<name>\b(?:<VARIABLE>|PASS))(?P<before>=)(?P<value><WORD>)"),
        // `environ["DB_PASS"] = "X"`, `DB_PASS: X`.
        filled(r"(?P<name>\b<VARIABLE><NAME_END>)(?P<before><IS>)(?P<value><VALUE>)"),
        // `setdefault("HF_TOKEN", "X")`, and an image's `ENV HF_TOKEN X`.
        filled(concat!(
            r"(?P<name>(?:\b(?i:set\w*|putenv|getenv|get|add\w*)\([ \t]*['\x22](?:[\w.-]*(?i:<SECRET>)|<VARIABLE>)",
            r"|\b(?:ENV|ARG|setenv|setx)[ \t]+<VARIABLE>))(?P<before>['\x22][ \t]*,[ \t]*|[ \t]+)(?P<value><VALUE>)"
        )),
        // Prose: `passphrase is X`, `password for ada: X`.
        filled(concat!(
            r"(?i)(?P<name>\b(?:pass(?:word|phrase|wd|code)|(?:api|access|secret|private)[-_ ]?key|(?:access|api|auth|login)[-_ ]?token)",
            r"(?:[ \t]+(?:for|of)[ \t]+[^\n:=]{1,60}?)?)(?P<before>[ \t]+(?:is|was):?[ \t]+|[ \t]*[:=][ \t]*)(?P<value><VALUE>)"
        )),
        // Kubernetes: `{"name":"HF_TOKEN","value":"X"}`, in YAML on two lines.
        filled(concat!(
            r"(?i)(?P<name>\bname\\?['\x22]?[ \t]*[:=][ \t]*\\?['\x22]?[\w.-]*(?:<SECRET>|_key|_pass|_auth|_pat|_pwd))",
            r"(?P<before>\\?['\x22]?\s*,?\s*\\?['\x22]?value\\?['\x22]?[ \t]*[:=][ \t]*)(?P<value><VALUE>)"
        )),
    ]
});

/// Any other key: `"key": "X"` is a secret only where it looks like one.
pub(super) static KEYED: LazyLock<[Option<Regex>; 2]> = LazyLock::new(|| {
    [
        filled(r"(?im)(?P<name><OPTION>key)(?P<before><BLANK>|=)(?P<value><ARGUMENT>)"),
        filled(r"(?i)(?P<name>\b[\w.-]*key<NAME_END>)(?P<before><IS>)(?P<value><VALUE>)"),
    ]
});

/// Whether it was drawn by chance: a long word of digits and letters mixed, not a name in parts such as `layer_12_weight`.
fn is_drawn(value: &str) -> bool {
    let parts = value.split(|c: char| !c.is_ascii_alphanumeric());
    parts.filter(|part| part.len() >= 16).any(|part| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        digits >= 2 && part.len() - digits >= 2
    })
}

/// Words before `token` that make it a model's token, or a parser's: no secret.
const NO_SECRET: &[&str] = &[
    "eos",
    "bos",
    "pad",
    "padding",
    "unk",
    "unknown",
    "sep",
    "cls",
    "mask",
    "bot",
    "eot",
    "eom",
    "eog",
    "lf",
    "nl",
    "fim",
    "pre",
    "suf",
    "mid",
    "prefix",
    "suffix",
    "middle",
    "rep",
    "special",
    "stop",
    "start",
    "end",
    "begin",
    "image",
    "audio",
    "video",
    "per",
    "max",
    "min",
    "ms",
    "s",
    "sec",
    "bytes",
    "unexpected",
];

/// What stands in a value's place and is none: nothing, a yes or no, a type.
const NO_VALUE: &[&str] = &[
    "",
    SECRET,
    "None",
    "null",
    "nil",
    "True",
    "true",
    "False",
    "false",
    "str",
    "string",
    "String",
    "bytes",
    "Any",
    "Optional[str",
    "SecretStr",
];

/// Where source code has a value from: that is no secret itself.
const SOURCES: &[&str] =
    &["self.", "args.", "kwargs", "os.environ", "os.getenv", "config.", "cfg.", "settings.", "process.", "getpass."];

/// What prose says of a password without telling it: "the password is wrong".
const SAID: &[&str] = &[
    "required",
    "incorrect",
    "invalid",
    "wrong",
    "missing",
    "not",
    "needed",
    "empty",
    "set",
    "unset",
    "expired",
    "correct",
    "too",
    "a",
    "an",
    "the",
    "no",
    "only",
    "now",
    "being",
    "also",
    "stored",
    "used",
    "unknown",
    "valid",
    "in",
    "to",
    "never",
    "about",
    "optional",
    "deprecated",
    "already",
];

/// A named value without its value; `None` where it is none, or the name means something else.
fn valued(found: &Captures<'_>) -> Option<String> {
    let (name, before, value) = (part(found, "name")?, part(found, "before")?, part(found, "value")?);
    let bare = value.trim_matches(['"', '\'', '\\']);
    let word = bare.trim_end_matches(['.', '!', '?', ':']).to_lowercase();
    let is_pwd = name.to_lowercase().contains("pwd");
    let harmless = before != "=" && bare.starts_with('-')
        || NO_VALUE.contains(&bare)
        || before.trim_start().starts_with(['i', 'w']) && SAID.contains(&word.as_str())
        || SOURCES.iter().any(|source| value.starts_with(source))
        // `pwd: /srv` is a folder.
        || is_pwd && bare.starts_with(['/', '~', '.', '$'])
        || is_a_models(&name);
    (!harmless).then(|| format!("{name}{before}{SECRET}"))
}

/// `eos_token`, `EOS token`, `--pad-token`, `ms/token`.
fn is_a_models(name: &str) -> bool {
    let is_other = |c: char| !c.is_ascii_alphanumeric();
    let name = name.to_lowercase();
    let kind = name.trim_end_matches(is_other).strip_suffix("token").map(|kind| kind.trim_end_matches(is_other));
    kind.and_then(|kind| kind.rsplit(is_other).next()).is_some_and(|kind| NO_SECRET.contains(&kind))
}
