//! Owns secrets that stand behind a telling name: in options, settings, variables, source code, JSON, YAML and prose.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::report::redact::pattern::{Pattern, found, pattern};
use crate::report::redact::words::Words;

/// What stands in the place of a secret.
pub(super) const SECRET: &str = "[redacted]";

/// A name, what stands between it and its value, and which values are secrets.
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
    /// Long, or short and mixed of letters and digits.
    Mixed,
    /// Long and drawn by chance.
    Drawn,
}

#[cfg(test)]
impl Rule {
    /// Whether all of its patterns compiled: one that did not would hide nothing, silently.
    #[cfg(test)]
    pub(super) fn is_complete(&self) -> bool {
        self.head.is_some() && VALUES.iter().all(Option::is_some)
    }
}

/// Where a text holds them.
pub(super) fn find(text: &str, places: &mut Vec<Range<usize>>) {
    for rule in RULES.iter() {
        let Some(pattern) = &rule.head else { continue };
        let mut from = 0;
        while let Some(head) = pattern.find_at(text, from) {
            let value = value_behind(text, head.end(), rule.value);
            places.extend(value.and_then(|value| valued(text, head.range(), value, rule.only)));
            // The blank at its end may be the next one's beginning.
            from = if head.as_str().ends_with([' ', '\t']) { head.end() - 1 } else { head.end() };
        }
    }
    let prose = found(&PROSE, text).filter_map(|found| {
        let (head, value) = (found.name("head")?.range(), found.name("value")?.range());
        valued(text, head, value, Only::All)
    });
    places.extend(prose);
}

/// No more than this is searched for a value's end: a line of nothing but names is read once, not once for each.
const LONGEST: usize = 1024;

/// Where the value that begins here ends.
fn value_behind(text: &str, at: usize, of: Value) -> Option<Range<usize>> {
    let mut to = (at + LONGEST).min(text.len());
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    let window = text.get(at..to)?;
    let end = match VALUES.get(of as usize)?.as_ref()?.find(window) {
        Some(value) if at + value.end() < to || to == text.len() => at + value.end(),
        // It goes on behind what was searched.
        Some(value) => {
            at + value.end() + text.get(at + value.end()..)?.find([' ', '\t', '\n', '\r', '"', '\'', '`']).unwrap_or(0)
        }
        None => {
            let quote = window.chars().next().filter(|first| matches!(first, '"' | '\''))?;
            // One that was cut off before its end.
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

/// The parts of patterns, in the order in which they are put in: one may hold those behind it.
const PARTS: &[(&str, &str)] = &[
    // The value of an option: a word as the shell has it, or a text in quotation marks. It begins with no dash.
    ("<ARGUMENT>", r"<GONE><REST>|(?:<QUOTED>)<REST>|[\x22'`]?[^\s\x22'`-]<REST>"),
    // One more of it.
    ("<ANOTHER>", r"\x22[^\x22\n-][^\x22\n]*\x22|'[^'\n-][^'\n]*'|[^\s\x22'`|&;<>#\\-]<REST>"),
    // The same where a dash may begin it.
    ("<WORD>", r"<GONE><REST>|(?:<QUOTED>)<REST>|<IN>*<END>|<IN>+"),
    // Between a setting and its value, with the type that Python writes there. Behind a type that is not known, both go.
    ("<IS>", r"[ \t]*(?::[ \t]*<TYPE>[ \t]*=|:=|:|=>|-{1,2}>|→|[=!]?={1,2})[ \t]*"),
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
            // The word may begin the name, too: `pwd_db`, `pwdDb`.
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
    // An option's beginning: `next-token` has none.
    ("<OPTION>", r"(?:^|[^\w-])--?[\w.-]*"),
    // Between an option and its value: a blank, the shell's line end, or a list of arguments in JSON.
    ("<BLANK>", r"[ \t]+(?:\\\r?\n[ \t]*)?|['\x22][ \t]*,[ \t]*"),
];

pub(super) fn filled(source: &str) -> Option<Regex> {
    pattern(&ascii(&PARTS.iter().fold(source.to_owned(), |source, (name, part)| source.replace(name, part))))
}

/// A pattern whose words are of ASCII: names of settings are, and the tables of all scripts are searched slowly.
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

fn if_drawn(head: &str, value: Value) -> Rule {
    Rule { only: Only::Drawn, ..always(head, value) }
}

/// What has a telling name; whether its value goes is seen in `valued`.
pub(super) static RULES: LazyLock<[Rule; 24]> = LazyLock::new(|| {
    [
        // `--hf-token=X`.
        always(r"(?im)<OPTION><SECRET>=", Value::Word),
        // `--api-key X Y`: vLLM takes several.
        always(r"(?im)<OPTION><API_KEY>(?:<BLANK>)", Value::Arguments),
        // `--password X`.
        always(r"(?im)<OPTION><SECRET>(?:<BLANK>)", Value::Argument),
        // `"api_key": "X"`, `token = X`; the word before it may tell that it is a tokenizer's.
        always(r"(?i)(?:\b[A-Za-z]+[ /])?\b[\w.-]*<SECRET><NAME_END>(?:[ \t]+\[\w+\])?<IS>", Value::Setting),
        // `HF_TOKEN=X`, `MYSQL_PWD=X`; `PWD` and `OLDPWD` are folders.
        always(r"\b(?:<VARIABLE>|PASS)=", Value::Word),
        // `environ["DB_PASS"] = "X"`, `DB_PASS: X`.
        always(r"\b<VARIABLE><NAME_END><IS>", Value::Setting),
        // `setdefault("HF_TOKEN", "X")`, and an image's `ENV HF_TOKEN X`.
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
        // Pairs of Python: `('HF_TOKEN', 'X')`; in brackets they may be a list of names.
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
        // An element of XML, and an attribute.
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
        // Names that say it less plainly.
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
        // Names of a kind of secret before a word of its own: `"api_key_id": "X"`.
        if_drawn(
            r"(?i)\b[\w.-]*(?:client|tenant|access|account|api|private|secret|service)[-_]?(?:key|secret)[-_]?\w{2,12}<NAME_END><IS>",
            Value::Setting,
        ),
        // Any other key: `"key": "X"` is a secret only where it looks like one.
        if_drawn(r"(?im)<OPTION>key(?:<BLANK>|=)", Value::Argument),
        if_drawn(r"(?i)\b[\w.-]*key<NAME_END><IS>", Value::Setting),
    ]
});

/// `passphrase is X`, `password for ada: X`.
pub(super) static PROSE: Pattern = LazyLock::new(|| {
    filled(concat!(
        r"(?i)(?P<head>\b(?:pass(?:word|phrase|wd|code)|(?:api|access|secret|private)[-_ ]?key|(?:access|api|auth|login)[-_ ]?token)",
        r"(?:[ \t]+(?:for|of)[ \t]+[^\n:=]{1,60}?)?(?:[ \t]+(?:is|was):?[ \t]+|[ \t]*[:=][ \t]*))(?P<value><VALUE>)"
    ))
});

/// Whether it was drawn by chance: a long word of digits and letters mixed, not a name in parts such as `layer_12_weight`.
fn is_drawn(value: &str) -> bool {
    let parts = value.split(is_separator);
    parts.filter(|part| part.len() >= 16).any(|part| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        digits >= 2 && part.len() - digits >= 2
    })
}

/// Words before `token` that make it a model's token, or a parser's: no secret.
static NO_SECRET: Words = Words::new(
    "eos bos pad padding unk unknown sep cls mask bot eot eom eog lf nl fim pre suf mid prefix suffix middle rep \
     special stop start end begin image audio video per max min ms s sec bytes unexpected",
);

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
static SAID: Words = Words::new(
    "required incorrect invalid wrong missing not needed empty set unset expired correct too a an the no only now being \
     also stored used unknown valid in to never about optional deprecated already provided configured defined found \
     given read taken passed loaded ignored present available hidden disabled enabled from at by longer shorter",
);

/// Where a named value stands; `None` where it is none, or the name means something else.
fn valued(text: &str, head: Range<usize>, mut value: Range<usize>, only: Only) -> Option<Range<usize>> {
    let name = text.get(head.clone())?.to_ascii_lowercase();
    // In an address another one begins behind it.
    if text.get(..head.start).is_some_and(|before| before.ends_with(['?', '&'])) {
        let next = text.get(value.clone())?.find('&');
        value.end = next.map_or(value.end, |next| value.start + next);
    }
    let whole = text.get(value.clone())?;
    let bare = whole.trim_matches(['"', '\'', '\\']);
    let word = bare.trim_end_matches(['.', '!', '?', ':']).to_lowercase();
    let is_said = [" is", " was", " to"].iter().any(|verb| name.trim_end().trim_end_matches(':').ends_with(verb));
    let is_enough = match only {
        Only::All => true,
        Only::Mixed => is_long(bare) || is_a_password_of(&name, bare),
        Only::Drawn => is_drawn(bare) && !is_of_data(&name),
    };
    let harmless = !is_enough
        || !name.ends_with('=') && bare.starts_with('-')
        || NO_VALUE.contains(&bare)
        || is_in_its_place(bare)
        || whole.starts_with('<') && rest_of_line(text, value.start).contains('>')
        || is_said && SAID.contains(&word)
        || SOURCES.iter().any(|source| whole.starts_with(source))
        // `pwd: /srv` is a folder.
        || name.contains("pwd") && bare.starts_with(['/', '~', '.', '$']);
    let arrow = name.contains("->") || name.contains('→');
    let name = name.split([':', '=', ',', '→']).next().unwrap_or_default();
    let name = name.split("->").next().unwrap_or_default();
    let is_list = name.starts_with('[') && bare.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let harmless = harmless
        || is_list
        || is_about_passwords(name, bare)
        || arrow && name.trim() == "token"
        || is_named_run(name, bare);
    (!harmless && !is_figure(name, bare) && !is_a_models(name)).then_some(value)
}

/// Words before `pass` that make it a step of a computation.
static STEPS: Words =
    Words::new("forward backward first second third last final render optimizer warmup single num n dry by comp of");

/// Words behind `password` that make it something about a password: where it is kept, how long it has to be.
static ABOUT: Words = Words::new(
    "file path stdin prompt field input policy length min max encryption type required command cmd env rate through at \
     by count id name k names pipeline idx num time index manager enabled age authentication",
);

/// `forward_pass = 3`, `password_file: /run/x`.
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

/// A short word with one digit, behind a name that is a password's.
fn is_a_password_of(name: &str, bare: &str) -> bool {
    let is_plain = bare.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let digits = bare.bytes().filter(u8::is_ascii_digit).count();
    ["pass", "pwd"].iter().any(|word| name.contains(word))
        && is_plain
        && bare.len() >= 8
        && digits >= 1
        && digits < bare.len() / 2
}

/// `session_id=train-20260101`: words and figures in parts are a name that somebody gave.
fn is_named_run(name: &str, bare: &str) -> bool {
    name.contains("sess") && bare.contains(['-', '_']) && bare.split(['-', '_', '.']).all(is_word_or_number)
}

fn is_word_or_number(part: &str) -> bool {
    let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
    is_number || part.len() >= 3 && part.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// What stands between the words of a name.
fn is_separator(c: char) -> bool {
    !c.is_ascii_alphanumeric()
}

fn rest_of_line(text: &str, from: usize) -> &str {
    text.get(from..).and_then(|rest| rest.lines().next()).unwrap_or_default()
}

/// What stands for a value: `$HF_TOKEN`, `${{ secrets.X }}`, `<your token>`, `****`.
fn is_in_its_place(bare: &str) -> bool {
    let name = bare.trim_start_matches(['$', '{', '%']).trim_end_matches(['}', '%']);
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let variable = bare.starts_with('$') && is_name && !name.bytes().any(|byte| byte.is_ascii_lowercase())
        || bare.starts_with("${") && bare.ends_with('}')
        || bare.starts_with("{{");
    variable
        || bare.starts_with('<') && bare.ends_with('>')
        || bare.len() >= 3 && bare.bytes().all(|byte| matches!(byte, b'*' | b'.' | b'x' | b'X' | b'-'))
}

/// `token: 128` counts; a password may be a number.
fn is_figure(name: &str, bare: &str) -> bool {
    let counts = name.trim_end_matches(is_separator).ends_with("token");
    let figure = bare.trim_end_matches(['%', ']', ')', 'k', 'K', 'M', 'B']);
    counts
        && figure.len() <= 9
        && !figure.is_empty()
        && figure.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'/' | b',' | b'_'))
}

/// Keys of caches, tables and dictionaries: what they hold are hashes and names.
fn is_of_data(name: &str) -> bool {
    let name = name.split([':', '=', ',']).next().unwrap_or_default();
    let words: Vec<&str> = name.split(is_separator).filter(|word| !word.is_empty()).collect();
    let before = words.len().checked_sub(2).and_then(|at| words.get(at));
    before.is_some_and(|word| {
        ["cache", "hash", "dict", "state", "primary", "foreign", "sort", "group", "partition", "public", "map", "index"]
            .contains(word)
    })
}

/// Long, or short and mixed of letters and digits; no word, no number, no path, and nothing of code.
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

/// `eos_token`, `EOS token`, `--pad-token`, `ms/token`.
fn is_a_models(name: &str) -> bool {
    let Some(kind) = name.trim_end_matches(is_separator).strip_suffix("token") else { return false };
    kind.trim_end_matches(is_separator).rsplit(is_separator).next().is_some_and(|kind| NO_SECRET.contains(kind))
}
