//! Owns which words of a text are secrets: tokens known by how they begin, keys in blocks, and what headers, addresses and
//! the arguments of known commands hold; what has a telling name is in `named`. Where in doubt, more goes than has to.

mod named;

use std::sync::LazyLock;

use regex::{Captures, Regex};

use self::named::filled;
use super::{Pattern, found, part, pattern, replaced};

/// What stands in the place of a secret.
const SECRET: &str = "[redacted]";
/// Lines at least this wide may have been wrapped by a terminal, within a token too.
const WRAPPED: usize = 60;

/// The text without them. The number of lines stays.
pub(super) fn left_out(text: &str) -> String {
    let mut text = unwrapped_tokens(&without_key_blocks(text));
    for pattern in PLAIN.iter().chain(COMMANDS.iter()) {
        let around = |found: &Captures<'_>, name| part(found, name).unwrap_or_default();
        text = replaced(pattern, &text, |found| Some(around(found, "before") + SECRET + &around(found, "after")));
    }
    named::left_out(&text)
}

/// The inside of a key or a certificate between its BEGIN and END, its short last line too.
fn without_key_blocks(text: &str) -> String {
    let mut inside = false;
    let is_body = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let lines = text.split('\n').map(|line| {
        let body = line.trim();
        if let Some((_, rest)) = line.split_once("-----BEGIN ") {
            inside = !rest.contains("-----END ");
        } else if line.contains("-----END ") {
            inside = false;
        } else if inside && !body.is_empty() && body.chars().all(is_body) {
            // A short line is the last one, should the END have been cut off.
            inside = body.len() >= 40;
            return SECRET;
        }
        line
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Tokens that are known by how they begin.
static TOKEN: Pattern = LazyLock::new(|| {
    pattern(concat!(
        r"\b(?:hf_[A-Za-z0-9]+|hf_oauth_[\w-]+|(?:sk|rk|pk)[-_][\w-]+|gh[pousr]_[A-Za-z0-9]+|github_pat_\w+|glpat-[\w-]+",
        r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}|AIza[\w-]{20,}|ya29\.[\w-]+|xox[abeoprs]-[\w-]+|xapp-[\w-]+",
        r"|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?|SG\.[\w-]{8,}(?:\.[\w-]+)?|lsv2_\w+|pcsk_\w+",
        r"|nvapi-[\w-]+|npm_\w+|pypi-[\w-]+|gsk_\w+|r8_\w+|rpa_\w+|xai-\w+|wandb_v\d_\w+|dckr_pat_[\w-]+|tskey-[\w-]+",
        r"|pplx-\w+|tvly-[\w-]+|tgp_v1_[\w-]+|dop_v1_\w+|dapi[0-9a-f]{32}|lin_api_\w+|ntn_\w+)"
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
static PLAIN: LazyLock<[Option<Regex>; 9]> = LazyLock::new(|| {
    [
        // A user and a password in an address; the password may hold an `@` itself.
        pattern(r"(?P<before>\b[A-Za-z][A-Za-z0-9+.-]*://)[^/\s'\x22`]+(?P<after>@)"),
        // The inside of a key or a certificate whose beginning was cut off.
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
        // A registry's login as Docker keeps it.
        pattern(r"(?P<before>\bauth\\?\x22[ \t]*:[ \t]*\\?\x22)[A-Za-z0-9+/]{8,}={0,2}"),
        // A bare secret of AWS right behind the id of its key.
        pattern(
            r"(?P<before>\[redacted\][^\w\[]{1,8}(?:\w+[^\w\n\[]{1,4})?)[A-Za-z0-9/+]{40}(?P<after>[^A-Za-z0-9/+]|$)",
        ),
    ]
});

/// What the arguments of known commands, and the answers to a program's questions, hold.
static COMMANDS: LazyLock<[Option<Regex>; 12]> = LazyLock::new(|| {
    [
        pattern(r"(?P<before>\bwandb[ \t]+login\b[^\n]*?[ \t]['\x22]?)[\w-]{40,}"),
        pattern(r"(?P<before>\bwandb\.login\([^\n]*?\bkey[ \t]*=[ \t]*['\x22]?)[^\s'\x22,)]+"),
        // "Paste an API key from your profile and hit enter, or press ctrl+c to quit: ".
        pattern(r"(?i)(?P<before>\bAPI key\b[^\n:]*:[ \t]*)[\w-]{20,}"),
        filled(
            r"(?P<before>\bcurl\b(?:[^\n|]|\\\n)*?[ \t](?:--(?:proxy-)?user(?:=|[ \t]+)|-[A-Za-z]*[uU][ \t]+))(?:<WORD>)",
        ),
        pattern(r"(?P<before>\bcurl\b(?:[^\n|]|\\\n)*?[ \t]-[A-Za-z]*?[uU])[^\s:-][^\s:]*:\S+"),
        filled(r"(?P<before>\bsshpass\b[^\n]*?[ \t]-p[ \t]*)(?:<WORD>)"),
        filled(
            r"(?P<before>\b(?:docker|podman|nerdctl|buildah|skopeo|oc|az)[ \t]+login\b(?:[^\n|;]|\\\n)*?[ \t]-p(?:=|[ \t]*))(?:<WORD>)",
        ),
        // Only right behind it: `-p` alone asks, and what follows is the database.
        filled(r"(?P<before>\b(?:mysql|mariadb)[\w-]*(?:[^\n|;]*?)[ \t]-p)(?:<WORD>)"),
        filled(
            r"(?P<before>\b(?:redis-cli\b[^\n|;]*?[ \t]-a|mongo\w*\b[^\n|;]*?[ \t]-p|zip\b[^\n|;]*?[ \t]-P)[ \t]+)(?:<WORD>)",
        ),
        // What a command is fed.
        filled(
            r"(?P<before>\b(?:echo|printf)[ \t]+(?:-\w+[ \t]+)?)(?:<WORD>)(?P<after>[ \t]*\|[^\n|]*(?:\bsudo[^\n|]*[ \t]-S|\blogin|-stdin|passwd)\b)",
        ),
        filled(r"(?P<before>\blogin\([ \t]*)(?:<QUOTED>)(?:[ \t]*,[ \t]*(?:<QUOTED>))?"),
        // A .netrc on one line, and OpenSSL's `pass:X`.
        filled(r"(?P<before>\blogin[ \t]+\S+[ \t]+password[ \t]+|[ \t]-pass(?:in|out)?[ \t]+pass:)(?:<WORD>)"),
    ]
});

#[cfg(test)]
mod tests;
