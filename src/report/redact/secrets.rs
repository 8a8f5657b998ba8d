//! Owns which words of a text are secrets: tokens known by how they begin, and what stands behind a telling name in
//! command lines, settings, variables, headers and addresses. Where in doubt, more goes than has to.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{Pattern, found, named, pattern, replaced};

/// What stands in the place of a secret.
const SECRET: &str = "[redacted]";
/// Lines at least this wide may have been wrapped by a terminal, within a token too.
const WRAPPED: usize = 60;

/// The text without them. The number of lines stays.
pub(super) fn left_out(text: &str) -> String {
    let mut text = unwrapped_tokens(text);
    for pattern in PLAIN.iter() {
        let around = |found: &Captures<'_>, part| named(found, part).unwrap_or_default();
        text = replaced(pattern, &text, |found| Some(around(found, "before") + SECRET + &around(found, "after")));
    }
    for pattern in NAMED.iter() {
        text = replaced(pattern, &text, valued);
    }
    text
}

/// Tokens that are known by how they begin.
static TOKEN: Pattern = LazyLock::new(|| {
    pattern(concat!(
        r"\b(?:hf_[A-Za-z0-9]+|hf_oauth_[\w-]+|(?:sk|rk|pk)[-_][\w-]+|gh[pousr]_[A-Za-z0-9]+|github_pat_\w+|glpat-[\w-]+",
        r"|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{20,}|ya29\.[\w-]+|xox[abeoprs]-[\w-]+|xapp-[\w-]+",
        r"|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?|SG\.[\w-]{8,}(?:\.[\w-]+)?|lsv2_\w+|pcsk_\w+",
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
static PLAIN: LazyLock<[Option<Regex>; 13]> = LazyLock::new(|| {
    [
        // A user and a password in an address; the password may hold an `@` itself.
        pattern(r"(?P<before>\b[A-Za-z][A-Za-z0-9+.-]*://)[^/\s'\x22`]+(?P<after>@)"),
        // The inside of a key or a certificate.
        pattern(r"(?m)^[ \t]*[A-Za-z0-9+/]{60,}={0,2}[ \t]*$"),
        pattern(r"(?i)\b(?P<before>bearer[ \t]+)[\w.~+/=-]{6,}"),
        pattern(r"(?i)(?P<before>\bauthorization['\x22]?[ \t]*[:=][ \t]*['\x22]?(?:\w+[ \t]+)?)[^\s'\x22`,]{4,}"),
        pattern(r"(?i)(?P<before>\b(?:set-)?cookie['\x22]?:[ \t]*)[^\n]+"),
        pattern(r"(?i)(?P<before>[?&](?:[\w-]*(?:token|key|sig|signature|secret|password|credential))=)[^\s&'\x22`]+"),
        // Addresses that are a secret as a whole: who has one can post.
        pattern(concat!(
            r"(?P<before>\b(?:hooks\.slack(?:-gov)?\.com/[a-z]+/|discord(?:app)?\.com/api/webhooks/",
            r"|api\.telegram\.org/bot))[\w/:-]+"
        )),
        pattern(r"(?P<before>\bwandb[ \t]+login\b[^\n]*?[ \t]['\x22]?)[\w-]{40,}"),
        pattern(r"(?P<before>\bwandb\.login\([^\n]*?\bkey[ \t]*=[ \t]*['\x22]?)[^\s'\x22,)]+"),
        // "Paste an API key from your profile and hit enter, or press ctrl+c to quit: ".
        pattern(r"(?i)(?P<before>\bAPI key\b[^\n:]*:[ \t]*)[\w-]{20,}"),
        filled(
            r"(?P<before>\bcurl\b(?:[^\n|]|\\\n)*?[ \t](?:--(?:proxy-)?user(?:=|[ \t]+)|-[A-Za-z]*[uU][ \t]+))(?:<WORD>)",
        ),
        pattern(r"(?P<before>\bcurl\b(?:[^\n|]|\\\n)*?[ \t]-[A-Za-z]*?[uU])[^\s:-][^\s:]*:\S+"),
        filled(r"(?P<before>\bsshpass\b[^\n]*?[ \t]-p[ \t]*)(?:<WORD>)"),
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
    // The value of a setting: in quotation marks, a list, or up to a blank.
    ("<VALUE>", r"<QUOTED>|\[[^\]\n]*\](?:[^\s\x22'`&)}\]]<IN>*<END>)?|[^\s\x22'`,;(){}\[\]]<REST>"),
    ("<QUOTED>", r"\\\x22[^\x22\\\n]*\\\x22|\x22(?:[^\x22\\\n]|\\.)*\x22|'(?:[^'\\\n]|\\.)*'"),
    ("<GONE>", r"\[redacted\]"),
    // Commas and brackets within a value are its own; at its end they are the text's.
    ("<REST>", r"(?:<IN>*<END>)?"),
    ("<IN>", r"(?:[^\s\x22'`]|[\x22'`][^\s\x22'`,;:)}\]])"),
    ("<END>", r"[^\s\x22'`,;)}\]]"),
    // Names whose value is a secret, as options and settings have them.
    (
        "<SECRET>",
        concat!(
            r"(?:<API_KEY>|access[-_]?key(?:[-_]?id)?|access[-_]?signature|secret(?:[-_]?(?:access[-_]?)?key)?",
            r"|(?:private|auth|account|master|signing|encryption)[-_]?key|token|password|passwd|passphrase|credentials?)"
        ),
    ),
    ("<API_KEY>", r"api[-_]?keys?"),
    // An option's beginning: `next-token` has none.
    ("<OPTION>", r"(?:^|[^\w-])--?[\w.-]*"),
    // Between an option and its value: a blank, the shell's line end, or a list of arguments in JSON.
    ("<BLANK>", r"[ \t]+(?:\\\r?\n[ \t]*)?|['\x22][ \t]*,[ \t]*"),
];

fn filled(source: &str) -> Option<Regex> {
    pattern(&PARTS.iter().fold(source.to_owned(), |source, (name, part)| source.replace(name, part)))
}

/// What has a telling `name`; whether its `value` goes is seen in `valued`.
static NAMED: LazyLock<[Option<Regex>; 6]> = LazyLock::new(|| {
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
        filled(
            r"(?i)(?P<name>(?:\b[A-Za-z]+[ /])?\b[\w.-]*<SECRET>\\?['\x22]?)(?P<before>[ \t]*(?::|=>?)[ \t]*)(?P<value><VALUE>)",
        ),
        // `HF_TOKEN=X`, `MYSQL_PWD=X`; `PWD` and `OLDPWD` are folders.
        filled(concat!(
            r"(?P<name>\b[A-Z][A-Z0-9_]*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|_PWD|CREDENTIALS?|AUTH|PAT))",
            r"(?P<before>=)(?P<value><WORD>)"
        )),
        // Kubernetes: `{"name":"HF_TOKEN","value":"X"}`, in YAML on two lines.
        filled(concat!(
            r"(?i)(?P<name>\bname\\?['\x22]?[ \t]*[:=][ \t]*\\?['\x22]?[\w.-]*(?:<SECRET>|_key|_pass|_auth|_pat|_pwd))",
            r"(?P<before>\\?['\x22]?\s*,?\s*\\?['\x22]?value\\?['\x22]?[ \t]*[:=][ \t]*)(?P<value><VALUE>)"
        )),
    ]
});

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

/// A named value without its value; `None` where it is none, or the name means something else.
fn valued(found: &Captures<'_>) -> Option<String> {
    let (name, before, value) = (named(found, "name")?, named(found, "before")?, named(found, "value")?);
    let bare = value.trim_matches(['"', '\'', '\\']);
    let harmless = before != "=" && bare.starts_with('-')
        || ["", SECRET, "None", "null", "nil", "True", "true", "False", "false"].contains(&bare)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert!(TOKEN.is_some() && PLAIN.iter().chain(NAMED.iter()).all(Option::is_some));
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
            assert_eq!(left_out(text), want);
        }
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        assert_eq!(
            left_out(&format!("-----BEGIN PRIVATE KEY-----\n{body}\nx")),
            "-----BEGIN PRIVATE KEY-----\n[redacted]\nx"
        );
    }

    #[test]
    fn a_token_that_a_terminal_wrapped_goes_on_both_lines() {
        let text = format!("{} hf_abcdEF\nGH12345678 and more\npython train.py", "x".repeat(60));
        assert_eq!(left_out(&text), format!("{} [redacted]\n[redacted] and more\npython train.py", "x".repeat(60)));
    }

    /// Of each, the secret is what holds "zq".
    #[test]
    fn no_part_of_a_value_is_left() {
        for text in [
            "llama-server --api-key KzqY1,KzqY2 --port 80",
            "llama-server --api-key=KzqY1,KzqY2;zq",
            "mysql --password a;zq",
            "mysql --password 'a,b;zq'zq",
            "mysql --password a)zq]zq}zq'zq",
            "DB_PASSWORD=a;zq,zq python t.py",
            "db_password=a;zq",
            "vllm serve m --api-key zq1 zq2 zq3 --port 80",
            "vllm serve m --api-key zq1 'zq2'",
            "vllm serve m --api-key \\\n  zq1 \\\n  --port 80",
            "args: [\"--api-key\", \"zq1\", \"zq2\", \"--port\", \"80\"]",
            "args: ['--hf-token','zq']",
            "args {'api_key': ['zq1', 'zq2'], 'port': 80}",
            "HF_TOKEN=hf_abcdEFGH12345678,zq",
            "--api-key sk-abcdEFGH12345678,zq",
            "jupyter lab --ServerApp.token=zq --port=80",
            "jupyter lab --ServerApp.token zq",
            "--token 123zq",
            "\"hf_token\": \"onlyletterszq\"",
            "{\\\"hf_token\\\": \\\"onlyletterszq\\\"}",
            "token: zq",
            "wandb login 0123456789abcdef0123456789abcdef0123zqzq",
            "wandb login --relogin 0123456789abcdef0123456789abcdef0123zqzq",
            "wandb.login(key='zq')",
            "wandb: Paste an API key from your profile and hit enter, or press ctrl+c to quit: 0123456789abcdef0123456789abcdef0123zqzq",
            "curl -u u:zq https://x",
            "curl -sSu 'u:zq' https://x",
            "curl -s \\\n -uu:zq https://x",
            "curl --user u:zq https://x",
            "sshpass -p zq ssh box",
            "sshpass -pzq ssh box",
            "MYSQL_PWD=zq mysqldump",
            "AccountName=x;AccountKey=abc/zq==;EndpointSuffix=core",
            "{\"name\":\"HF_TOKEN\",\"value\":\"zq\"}",
            "- name: HF_TOKEN\n  value: zq",
            "{\\\"name\\\":\\\"S3_KEY\\\",\\\"value\\\":\\\"zq\\\"}",
            "https://hooks.slack.com/services/T000/B000/zq",
            "https://discord.com/api/webhooks/12/zq",
            "xapp-1-A0-1-zq",
            "lsv2_pt_0123zq_0123",
            "pcsk_0123456_zq",
            "SG.0123456789abcdef.zq",
            "git clone https://bob:p@ss@zq@host.org/x",
        ] {
            assert!(!left_out(text).contains("zq"), "{text}: {}", left_out(text));
            assert_eq!(left_out(text).lines().count(), text.lines().count(), "{text}");
        }
    }

    #[test]
    fn what_stands_beside_a_secret_stays() {
        for (text, want) in [
            ("vllm serve m --api-key k1 k2 --port 80", "vllm serve m --api-key [redacted] --port 80"),
            ("sh -c 'serve --api-key k1 k2' && python t.py", "sh -c 'serve --api-key [redacted]' && python t.py"),
            ("[\"HF_TOKEN=abc\",\"B=2\"]", "[\"HF_TOKEN=[redacted]\",\"B=2\"]"),
            ("(HF_TOKEN=abc) HF_TOKEN=abc; python", "(HF_TOKEN=[redacted]) HF_TOKEN=[redacted]; python"),
            ("--api-key --token abc --port 80", "--api-key --token [redacted] --port 80"),
            ("{\"name\":\"HF_TOKEN\",\"value\":\"x\"},{", "{\"name\":\"HF_TOKEN\",\"value\":[redacted]},{"),
            ("curl -u u:p https://x/y", "curl -u [redacted] https://x/y"),
            ("wandb: ERROR API key must be 40 characters", "wandb: ERROR API key must be 40 characters"),
            ("https://hooks.slack.com/services/T0/B0/x failed", "https://hooks.slack.com/[redacted] failed"),
        ] {
            assert_eq!(left_out(text), want.replace("hooks.slack.com/[", "hooks.slack.com/services/["));
        }
    }

    #[test]
    fn what_only_looks_like_a_secret_stays() {
        for text in [
            "vllm serve m --max-num-batched-tokens 8192 --tokenizer-mode auto --max-tokens 5",
            "print_info: EOS token        = 128009 '<|eot_id|>'",
            "print_info: FIM PRE token    = 151659 '<|fim_prefix|>'",
            "eos_token: <|endoftext|>, 12.34 ms per token, 81.0 tokens per second",
            "\"pad_token\": \"<pad>\", \"decoder_start_token\": \"x\", eosToken=abc, time per token: 12 ms, ms/token=3",
            "multi-token prediction, next-token loss, \"has_next_token\":true, \"next_token\":{\"n\":1}",
            "Namespace(api_key=None, token=True)",
            "--eos-token 2 --pad-token <pad>",
            "from huggingface_hub import hf_hub_download; hf_transfer; hf_quantizer_base",
            "PWD=/srv OLDPWD=/x PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True CUDA_VISIBLE_DEVICES=0",
            "docker run -u 1000:1000 image@sha256:0123456789abcdef, PID@START 4242@162083, python -u t.py",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB.",
            "missing_keys: 12, KeyError: 'key', {\"name\":\"gpu\",\"value\":\"3\"}",
            "https://pypi.org/simple and https://huggingface.co/a/b@main",
        ] {
            assert_eq!(left_out(text), text);
        }
    }
}
