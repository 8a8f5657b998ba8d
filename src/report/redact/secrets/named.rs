//! Owns secrets behind a telling name: in options, settings, variables, source code, JSON, YAML and prose.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::report::redact::pattern::{Pattern, captures, pattern};
use crate::report::redact::words::Words;

/// What stands in the place of a secret.
pub(super) const SECRET: &str = "[redacted]";

/// A pattern of names, how the value behind such a name is written, and which values are secrets.
pub(super) struct Rule {
    head: Option<Regex>,
    value: Value,
    only: Only,
}

/// How a value is written.
#[derive(Clone, Copy)]
enum Value {
    Word,
    Argument,
    Arguments,
    Setting,
    Plain,
    Quoted,
    Element,
}

#[derive(Clone, Copy, PartialEq)]
enum Only {
    All,
    /// Only a long value, or one with both letters and digits.
    Mixed,
    /// Only a long value that looks random.
    Random,
}

#[cfg(test)]
impl Rule {
    /// Whether its patterns compiled. One that did not would find nothing and raise no error.
    #[cfg(test)]
    pub(super) fn is_complete(&self) -> bool {
        self.head.is_some() && VALUES.iter().all(Option::is_some)
    }
}

/// Adds the ranges of such secrets in a text.
pub(super) fn find(text: &str, places: &mut Vec<Range<usize>>) {
    for rule in RULES.iter() {
        let Some(pattern) = &rule.head else { continue };
        let mut from = 0;
        while let Some(head) = pattern.find_at(text, from) {
            let value = value_behind(text, head.end(), rule.value);
            places.extend(value.and_then(|value| secret_value(text, head.range(), value, rule.only)));
            // The blank at the end of one match may be the beginning of the next.
            from = if head.as_str().ends_with([' ', '\t']) { head.end() - 1 } else { head.end() };
        }
    }
    let prose = captures(&PROSE, text).filter_map(|found| {
        let (head, value) = (found.name("head")?.range(), found.name("value")?.range());
        secret_value(text, head, value, Only::All)
    });
    places.extend(prose);
}

/// Bytes that are searched for the end of a value. Without a limit, a line of many names would be read once for each.
const LONGEST: usize = 1024;

/// The range of the value that begins here.
fn value_behind(text: &str, at: usize, of: Value) -> Option<Range<usize>> {
    let mut to = (at + LONGEST).min(text.len());
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    let window = text.get(at..to)?;
    let end = match VALUES.get(of as usize)?.as_ref()?.find(window) {
        Some(value) if at + value.end() < to || to == text.len() => at + value.end(),
        // The value is longer than what was searched.
        Some(value) => {
            at + value.end() + text.get(at + value.end()..)?.find([' ', '\t', '\n', '\r', '"', '\'', '`']).unwrap_or(0)
        }
        None => {
            let quote = window.chars().next().filter(|first| matches!(first, '"' | '\''))?;
            // The text was cut before the closing quotation mark.
            let inside = text.get(at + 1..)?;
            at + 1 + inside.find([quote, '\n']).unwrap_or(inside.len())
        }
    };
    Some(at..end)
}

/// How values are written, in the order of [`Value`].
static VALUES: LazyLock<[Option<Regex>; 7]> = LazyLock::new(|| {
    [
        filled(r"\A(?:<WORD>)"),
        filled(r"\A(?:<ARGUMENT>)"),
        filled(r"\A(?:<ARGUMENT>)(?:(?:[ \t]*,)?[ \t]+(?:<ANOTHER>))*"),
        filled(r"\A(?:!\S*[ \t]+)?(?:<TYPED>|<VALUE>)"),
        filled(r"\A['\x22]?[\w.~+/@!$%^&*-]{8,}={0,2}['\x22]?"),
        filled(r"\A(?:[brfu]?(?:<QUOTED>)|`[^`\n]+`)"),
        filled(r"\A[^<\s][^<\n]*"),
    ]
});

/// Named parts of patterns, replaced in this order: a part may use those below it.
const PARTS: &[(&str, &str)] = &[
    // The value of an option: a word of the shell, or a text in quotation marks, without a dash at its beginning.
    ("<ARGUMENT>", r"<GONE><REST>|(?:<QUOTED>)<REST>|[\x22'`]?[^\s\x22'`-]<REST>"),
    // A further value of the same option.
    ("<ANOTHER>", r"\x22[^\x22\n-][^\x22\n]*\x22|'[^'\n-][^'\n]*'|[^\s\x22'`|&;<>#\\-]<REST>"),
    // A value that may begin with a dash.
    ("<WORD>", r"<GONE><REST>|(?:<QUOTED>)<REST>|<IN>*<END>|<IN>+"),
    // What stands between a setting and its value, including a type annotation of Python. A type that is not in this
    // list is redacted with the value (see <TYPED>).
    ("<IS>", r"[ \t]*(?::[ \t]*<TYPE>[ \t]*=|:=|:|=>|-{1,2}>|→|[=!]?={1,2})[ \t]*"),
    ("<TYPE>", r"(?:[\w.]+\[)*(?:str|bytes|Any|&?[Ss]tring|&str|SecretStr)\]*(?:[ \t]*\|[ \t]*None)?"),
    ("<TYPED>", r"[A-Za-z][\w.|\[\]]*[ \t]*=[ \t]*(?:<QUOTED>)"),
    // The value of a setting: in quotation marks, a list, or everything up to a blank.
    ("<VALUE>", r"[brfu]?(?:<QUOTED>)|\[[^\]\n]*\](?:[^\s\x22'`&)}\]]<IN>*<END>)?|[^\s\x22'`,;(){}\[\]]<REST>"),
    ("<QUOTED>", r"\\\x22[^\x22\\\n]*\\\x22|\x22(?:[^\x22\\\n]|\\.)*\x22|'(?:[^'\\\n]|\\.)*'"),
    ("<GONE>", r"\[redacted\]"),
    // Commas and brackets belong to a value only within it, not at its end.
    ("<REST>", r"(?:<IN>*<END>)?"),
    ("<IN>", r"(?:[^\s\x22'`]|[\x22'`][^\s\x22'`,;:)}\]])"),
    ("<END>", r"[^\s\x22'`,;)}\]]"),
    // The end of a name in quotation marks, or of an index: `environ['X']`.
    ("<NAME_END>", r"\\?['\x22]?(?:[ \t]*\])?"),
    // Names of options and settings whose value is a secret.
    ("<SECRET>", r"(?:<API_KEY>|<NAME>)<SUFFIX>"),
    (
        "<NAME>",
        concat!(
            r"(?:access[-_ ]?key(?:[-_ ]?id)?|access[-_]?signature|secret(?:[-_. ]?(?:access[-_. ]?)?(?:key|id|text|data))?",
            r"|(?:private|auth|account|master|signing|encryption|wandb|openai|hf|license|subscription|service|db|database|client|shared",
            r"|storage|session|consumer|webhook|deploy|ssh|admin|user|bot|app|application)[-_. ]?key",
            r"|token|password|passwd|passphrase|passcode|passwort|contrase(?:ñ|n)a|credentials?|creds?|pwd",
            r"|(?:db|database|smtp|mail|user|root|admin|login|ftp|sudo|proxy|redis|postgres|mysql|key|store|ssh|pg|my|vnc|bind|ldap|ipmi|bmc|wifi|vpn|mongo|cert|pem)[_.-]?(?:pass|pw)",
            r"|[_.-](?:pass|pw)|(?-i:[a-z0-9](?:Pass|Pw))",
            // The word may also begin the name: `pwd_db`, `pwdDb`.
            r"|\b(?:pass|pw)|(?:pwd|passwd|password|\b(?:pass|pw))(?:[_-][\w-]{1,20}|(?-i:[A-Z])\w{0,20}))"
        ),
    ),
    (
        "<SUFFIX>",
        r"(?:[_.-]?(?:\d{1,2}|old|new|prod|production|dev|test|staging|live|read|write|value|b64|base64|plain|string))*",
    ),
    ("<API_KEY>", r"api[-_. ]?keys?"),
    (
        "<VARIABLE>",
        r"[A-Z][A-Z0-9_]*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|_PWD|_PW|CREDENTIALS?|CREDS?|AUTH|_PAT|_DSN|COOKIE)<VAR_END>",
    ),
    ("<VAR_END>", r"(?:_?(?:\d{1,2}|OLD|NEW|PROD|DEV|TEST|STAGING|LIVE|READ|WRITE|B64|BASE64))*"),
    // The dashes of an option, so that `next-token` is none.
    ("<OPTION>", r"(?:^|[^\w-])--?[\w.-]*"),
    // What stands between an option and its value: a blank, an escaped line end, or the comma of a JSON list.
    ("<BLANK>", r"[ \t]+(?:\\\r?\n[ \t]*)?|['\x22][ \t]*,[ \t]*"),
];

pub(super) fn filled(source: &str) -> Option<Regex> {
    pattern(&ascii(&PARTS.iter().fold(source.to_owned(), |source, (name, part)| source.replace(name, part))))
}

/// Limits `\w`, `\d` and `\b` to ASCII: names of settings are ASCII, and Unicode classes are slow to search.
fn ascii(source: &str) -> String {
    let mut out = String::with_capacity(source.len() * 2);
    let mut in_class = false;
    let mut rest = source.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match (rest.next(), in_class) {
                (Some('w'), true) => out.push_str("0-9A-Za-z_"),
                (Some('w'), false) => out.push_str("[0-9A-Za-z_]"),
                (Some('b'), _) => out.push_str(r"(?-u:\b)"),
                (Some('d'), true) => out.push_str("0-9"),
                (Some('d'), false) => out.push_str("[0-9]"),
                (other, _) => out.extend(['\\'].into_iter().chain(other)),
            },
            other => {
                in_class = other == '[' || in_class && other != ']';
                out.push(other);
            }
        }
    }
    out
}

fn always(head: &str, value: Value) -> Rule {
    Rule { head: filled(head), value, only: Only::All }
}

fn if_mixed(head: &str, value: Value) -> Rule {
    Rule { only: Only::Mixed, ..always(head, value) }
}

fn if_random(head: &str, value: Value) -> Rule {
    Rule { only: Only::Random, ..always(head, value) }
}

/// Names whose values may be secrets; `secret_value` decides on its value.
pub(super) static RULES: LazyLock<[Rule; 24]> = LazyLock::new(|| {
    [
        // `--hf-token=X`.
        always(r"(?im)<OPTION><SECRET>=", Value::Word),
        // `--api-key X Y`: vLLM takes several.
        always(r"(?im)<OPTION><API_KEY>(?:<BLANK>)", Value::Arguments),
        // `--password X`.
        always(r"(?im)<OPTION><SECRET>(?:<BLANK>)", Value::Argument),
        // `"api_key": "X"`, `token = X`; the word before it may show that it belongs to a tokenizer.
        always(r"(?i)(?:\b[A-Za-z]+[ /])?\b[\w.-]*<SECRET><NAME_END>(?:[ \t]+\[\w+\])?<IS>", Value::Setting),
        // `HF_TOKEN=X`, `MYSQL_PWD=X`; `PWD` and `OLDPWD` are folders.
        always(r"\b(?:<VARIABLE>|PASS)=", Value::Word),
        // `environ["DB_PASS"] = "X"`, `DB_PASS: X`.
        always(r"\b<VARIABLE><NAME_END><IS>", Value::Setting),
        // `setdefault("HF_TOKEN", "X")`, and `ENV HF_TOKEN X` of a Containerfile.
        always(
            concat!(
                r"\b(?:(?i:set\w*|putenv|getenv|get|add\w*)\([ \t]*['\x22](?:[\w.-]*(?i:<SECRET>)|<VARIABLE>)",
                r"|(?:ENV|ARG|setenv|setx)[ \t]+<VARIABLE>)(?:['\x22][ \t]*,[ \t]*|[ \t]+)"
            ),
            Value::Setting,
        ),
        // Kubernetes: `{"name":"HF_TOKEN","value":"X"}`, in YAML on two lines.
        always(
            concat!(
                r"(?i)\b\w*(?:name|key|variable|setting)\\?['\x22]?[ \t]*[:=][ \t]*\\?['\x22]?[\w.-]*(?:<SECRET>|_key|_auth|_pat)",
                r"\\?['\x22]?\s*,?\s*\\?['\x22]?\w*value\\?['\x22]?[ \t]*[:=][ \t]*"
            ),
            Value::Setting,
        ),
        // Pairs in Python: `('HF_TOKEN', 'X')`. In square brackets the second one may be another name.
        always(r"\([ \t]*[bru]?['\x22](?:[\w.-]*(?i:<SECRET>)|<VARIABLE>)['\x22][ \t]*,[ \t]*", Value::Quoted),
        if_mixed(r"\[[ \t]*[bru]?['\x22](?:[\w.-]*(?i:<SECRET>)|<VARIABLE>)['\x22][ \t]*,[ \t]*", Value::Quoted),
        always(r"\[[ \t]*[bru]?['\x22]<VARIABLE>['\x22][ \t]*,[ \t]*", Value::Quoted),
        // A row of a table: `| DB_PASS | X |`.
        always(r"\b(?:<VARIABLE>|\w+[_.-]?(?i:<SECRET>))[ \t]*[|│][ \t]*", Value::Setting),
        // `MYSQL_PWD is X`, `smtp_passwd was X`.
        always(
            concat!(
                r"\b(?:<VARIABLE>|(?i:[\w.-]*(?:passw(?:or)?d|passphrase|pwd|[_-]pass|[_-]pw|(?:access|secret)[_-]?key)))",
                r"[ \t]+(?:is|was)(?:[ \t]+set[ \t]+to)?:?[ \t]+"
            ),
            Value::Setting,
        ),
        // `the password 'X' was rejected`.
        always(r"(?i)\b[\w.-]*(?:passw(?:or)?d|passphrase|passcode)[ \t]+", Value::Quoted),
        // `kubectl create secret generic x --from-literal=NAME=X`.
        always(r"--from-literal(?:=|[ \t]+)['\x22]?[\w.-]+=", Value::Word),
        // An element and an attribute of XML.
        always(r"(?i)<(?:\w+:)?[\w.-]*<SECRET>(?:[ \t][^<>\n]{0,80})?>", Value::Element),
        always(r"(?i)\bkey=\x22[\w.-]*<SECRET>\x22[ \t]+value=", Value::Quoted),
        // `VAST_API_KEY   X`: a table of settings.
        if_mixed(r"\b(?:<VARIABLE>|[\w.-]*(?i:<SECRET>)[ \t]*[|│])[ \t]*[ \t|:,│][ \t]*", Value::Plain),
        // `vastai set api-key X`, `password hunter22`.
        if_mixed(
            concat!(
                r"(?i)\b(?:api[-_ ]?key|(?:access|auth|api|secret|user|bot)[-_ ]token|token[-_](?:secret|id)|password|passphrase",
                r"|(?:access|secret)[-_ ]key)[ \t]+"
            ),
            Value::Plain,
        ),
        // Names that are less clear.
        if_mixed(
            concat!(
                r"(?i)\b[\w.-]*(?:session(?:[-_.]?(?:id|cookie))?|sess[-_]?id|\bsid|cookies?|csrf|xsrf|signature|\bsig|policy|key-pair-id",
                r"|jwt|bearer|\bauth|[-_.]auth|authkey|dsn|webhook(?:[-_]?url)?|mnemonic|\bpw|\bpass|license|nonce|otp|2fa|[-_]pat)<NAME_END><IS>"
            ),
            Value::Setting,
        ),
        if_mixed(
            r"(?im)<OPTION>(?:session(?:-id)?|cookie|auth|sig|signature|jwt|bearer|pass|pw|pat|webhook(?:-url)?)(?:<BLANK>|=)",
            Value::Argument,
        ),
        // Names of a secret with a further word: `"api_key_id": "X"`.
        if_random(
            r"(?i)\b[\w.-]*(?:client|tenant|access|account|api|private|secret|service)[-_]?(?:key|secret)[-_]?\w{2,12}<NAME_END><IS>",
            Value::Setting,
        ),
        // Any other key: `"key": "X"` is a secret only where the value looks random.
        if_random(r"(?im)<OPTION>key(?:<BLANK>|=)", Value::Argument),
        if_random(r"(?i)\b[\w.-]*key<NAME_END><IS>", Value::Setting),
    ]
});

/// `passphrase is X`, `password for ada: X`.
pub(super) static PROSE: Pattern = LazyLock::new(|| {
    filled(concat!(
        r"(?i)(?P<head>\b(?:pass(?:word|phrase|wd|code)|(?:api|access|secret|private)[-_ ]?key|(?:access|api|auth|login)[-_ ]?token)",
        r"(?:[ \t]+(?:for|of)[ \t]+[^\n:=]{1,60}?)?(?:[ \t]+(?:is|was):?[ \t]+|[ \t]*[:=][ \t]*))(?P<value><VALUE>)"
    ))
});

/// Whether a value has a long part of digits and letters. A name in short parts, such as `layer_12_weight`, has none.
fn looks_random(value: &str) -> bool {
    let parts = value.split(is_separator);
    parts.filter(|part| part.len() >= 16).any(|part| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        digits >= 2 && part.len() - digits >= 2
    })
}

/// Words before `token` that make it a token of a model or a parser.
static NO_SECRET: Words = Words::new(
    "eos bos pad padding unk unknown sep cls mask bot eot eom eog lf nl fim pre suf mid prefix suffix middle rep \
     special stop start end begin image audio video per max min ms s sec bytes unexpected",
);

/// What stands in place of a value: nothing, a boolean, a type.
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

/// Beginnings of expressions in source code that read a value from elsewhere.
const SOURCES: &[&str] =
    &["self.", "args.", "kwargs", "os.environ", "os.getenv", "config.", "cfg.", "settings.", "process.", "getpass."];

/// Words that prose says of a password: "the password is wrong".
static SAID: Words = Words::new(
    "required incorrect invalid wrong missing not needed empty set unset expired correct too a an the no only now being \
     also stored used unknown valid in to never about optional deprecated already provided configured defined found \
     given read taken passed loaded ignored present available hidden disabled enabled from at by longer shorter",
);

/// The range of a value behind a telling name; `None` where the value is no secret.
fn secret_value(text: &str, head: Range<usize>, mut value: Range<usize>, only: Only) -> Option<Range<usize>> {
    let head_text = text.get(head.clone())?.to_ascii_lowercase();
    // In the query of a URL, the next parameter begins at `&`.
    if text.get(..head.start).is_some_and(|before| before.ends_with(['?', '&'])) {
        let next = text.get(value.clone())?.find('&');
        value.end = next.map_or(value.end, |next| value.start + next);
    }
    let whole = text.get(value.clone())?;
    let bare = whole.trim_matches(['"', '\'', '\\']);
    let is_secret = match only {
        Only::All => true,
        Only::Mixed => is_long(bare) || is_short_password(&head_text, bare),
        Only::Random => looks_random(bare) && !is_data_key(&head_text),
    };
    let is_tag = whole.starts_with('<') && rest_of_line(text, value.start).contains('>');
    let is_no_secret = is_tag || is_no_value(&head_text, whole, bare) || names_no_secret(&head_text, bare);
    (is_secret && !is_no_secret).then_some(value)
}

/// Whether a placeholder, source code or a word of prose stands where the value would be.
fn is_no_value(head: &str, whole: &str, bare: &str) -> bool {
    let word = bare.trim_end_matches(['.', '!', '?', ':']).to_lowercase();
    let is_prose = [" is", " was", " to"].iter().any(|verb| head.trim_end().trim_end_matches(':').ends_with(verb));
    !head.ends_with('=') && bare.starts_with('-')
        || NO_VALUE.contains(&bare)
        || is_placeholder(bare)
        || is_prose && SAID.contains(&word)
        || SOURCES.iter().any(|source| whole.starts_with(source))
        // `pwd: /srv` is a folder.
        || head.contains("pwd") && bare.starts_with(['/', '~', '.', '$'])
}

/// Whether the name means something other than a secret, such as a model's token or a list of names.
fn names_no_secret(head: &str, bare: &str) -> bool {
    let has_arrow = head.contains("->") || head.contains('→');
    let name = head.split([':', '=', ',', '→']).next().unwrap_or_default();
    let name = name.split("->").next().unwrap_or_default();
    let is_list = name.starts_with('[') && bare.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    is_list
        || is_about_passwords(name, bare)
        || has_arrow && name.trim() == "token"
        || is_run_name(name, bare)
        || is_figure(name, bare)
        || is_model_token(name)
}

/// Words before `pass` that make it a step of a computation: `forward_pass`.
static STEPS: Words =
    Words::new("forward backward first second third last final render optimizer warmup single num n dry by comp of");

/// Words after `password` that make it a property of a password: `password_file`, `password_length`.
static ABOUT: Words = Words::new(
    "file path stdin prompt field input policy length min max encryption type required command cmd env rate through at \
     by count id name k names pipeline idx num time index manager enabled age authentication",
);

/// Whether the name is one like `forward_pass` or `password_file`.
fn is_about_passwords(name: &str, bare: &str) -> bool {
    let mut words = name.split(is_separator).filter(|word| !word.is_empty()).rev();
    match (words.next(), words.next()) {
        (Some("pass"), Some(before)) => {
            STEPS.contains(before) || bare.starts_with(|c: char| c.is_ascii_digit()) && !is_long(bare)
        }
        (Some("pass" | "pw"), None) => bare.starts_with(|c: char| c.is_ascii_digit()) && !is_long(bare),
        (Some(last), None) => ["passthrough", "passmanager", "passrate", "passcount", "passid"].contains(&last),
        (Some(last), Some(_)) => ABOUT.contains(last) && name.contains("pass"),
        _ => false,
    }
}

/// A password may be a word of eight letters with one digit, which is too little for other secrets.
fn is_short_password(name: &str, bare: &str) -> bool {
    let is_plain = bare.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let digits = bare.bytes().filter(u8::is_ascii_digit).count();
    ["pass", "pwd"].iter().any(|word| name.contains(word))
        && is_plain
        && bare.len() >= 8
        && digits >= 1
        && digits < bare.len() / 2
}

/// A session whose parts are words and numbers was named by a person: `session_id=train-20260101`.
fn is_run_name(name: &str, bare: &str) -> bool {
    name.contains("sess") && bare.contains(['-', '_']) && bare.split(['-', '_', '.']).all(is_word_or_number)
}

fn is_word_or_number(part: &str) -> bool {
    let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
    is_number || part.len() >= 3 && part.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Whether this character separates the words of a name.
fn is_separator(c: char) -> bool {
    !c.is_ascii_alphanumeric()
}

fn rest_of_line(text: &str, from: usize) -> &str {
    text.get(from..).and_then(|rest| rest.lines().next()).unwrap_or_default()
}

/// Whether this stands for a value: `$HF_TOKEN`, `${{ secrets.X }}`, `<your token>`, `****`.
fn is_placeholder(bare: &str) -> bool {
    let name = bare.trim_start_matches(['$', '{', '%']).trim_end_matches(['}', '%']);
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let variable = bare.starts_with('$') && is_name && !name.bytes().any(|byte| byte.is_ascii_lowercase())
        || bare.starts_with("${") && bare.ends_with('}')
        || bare.starts_with("{{");
    variable
        || bare.starts_with('<') && bare.ends_with('>')
        || bare.len() >= 3 && bare.bytes().all(|byte| matches!(byte, b'*' | b'.' | b'x' | b'X' | b'-'))
}

/// Whether a token is a count or an index: `token: 128`. A password may be a number.
fn is_figure(name: &str, bare: &str) -> bool {
    let counts = name.trim_end_matches(is_separator).ends_with("token");
    let figure = bare.trim_end_matches(['%', ']', ')', 'k', 'K', 'M', 'B']);
    counts
        && figure.len() <= 9
        && !figure.is_empty()
        && figure.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'/' | b',' | b'_'))
}

/// Whether the name is a key of a cache, a table or a dictionary, whose values are hashes and names.
fn is_data_key(name: &str) -> bool {
    let name = name.split([':', '=', ',']).next().unwrap_or_default();
    let words: Vec<&str> = name.split(is_separator).filter(|word| !word.is_empty()).collect();
    let before = words.len().checked_sub(2).and_then(|at| words.get(at));
    before.is_some_and(|word| {
        ["cache", "hash", "dict", "state", "primary", "foreign", "sort", "group", "partition", "public", "map", "index"]
            .contains(word)
    })
}

/// Whether a value has eight characters or more, with both letters and digits, and is neither a path nor an address.
fn is_long(value: &str) -> bool {
    let bare = value.trim_matches(['"', '\'', '\\']);
    let digits = bare.bytes().filter(u8::is_ascii_digit).count();
    let letters = bare.bytes().filter(u8::is_ascii_alphabetic).count();
    let plain = bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+/=%~:@!$".contains(&byte));
    let uppers = bare.bytes().filter(u8::is_ascii_uppercase).count();
    let is_cased = uppers >= 2 && letters >= uppers + 2;
    plain
        && !bare.starts_with(['/', '.', '~'])
        && (digits >= 2 || digits == 1 && is_cased)
        && letters >= 3
        && bare.len() >= 8
        && !bare.contains("0x")
}

/// Whether the name is one like `eos_token`, `--pad-token` or `ms/token`.
fn is_model_token(name: &str) -> bool {
    let Some(kind) = name.trim_end_matches(is_separator).strip_suffix("token") else { return false };
    kind.trim_end_matches(is_separator).rsplit(is_separator).next().is_some_and(|kind| NO_SECRET.contains(kind))
}
