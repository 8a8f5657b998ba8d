//! Owns which words of a text are secrets. Here are those in headers, URLs and the arguments of known commands;
//! `blocks` has keys and certificates, `kinds` tokens with a known beginning, `named` values behind a telling name, and
//! `random` words that look random. In doubt, a word is redacted.

mod blocks;
mod folded;
mod kinds;
mod named;
mod random;

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use self::folded::Folded;
use self::named::{SECRET, filled};
use super::pattern::captures;

/// The text without secrets. The number of lines stays the same.
pub(super) fn left_out(text: &str) -> String {
    let mut places = places(text);
    if let Some(folded) = Folded::of(text) {
        places.extend(self::places(&folded.text).iter().filter_map(|place| folded.back(place, text)));
    }
    without(text, places)
}

/// The ranges of the secrets in a text, in no order.
fn places(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    blocks::find(text, &mut places);
    kinds::find(text, &mut places);
    for pattern in PLAIN.iter().chain(COMMANDS.iter()) {
        let values = captures(pattern, text).filter_map(|found| found.name("value").map(|value| value.range()));
        places.extend(values);
    }
    named::find(text, &mut places);
    random::find(text, &mut places);
    places
}

/// The text with these ranges replaced, on each line that a range covers.
fn without(text: &str, mut places: Vec<Range<usize>>) -> String {
    places.sort_unstable_by_key(|place| (place.start, place.end));
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    let mut places = places.into_iter().peekable();
    while let Some(mut place) = places.next() {
        while let Some(next) = places.next_if(|next| next.start <= place.end) {
            place.end = place.end.max(next.end);
        }
        out.push_str(text.get(from..place.start).unwrap_or_default());
        for line in text.get(place.clone()).unwrap_or_default().split_inclusive('\n') {
            let secret = line.trim();
            let (before, behind) = line.split_once(secret).unwrap_or((line, ""));
            out.push_str(before);
            if !secret.is_empty() {
                out.push_str(SECRET);
            }
            out.push_str(behind);
        }
        from = place.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// Patterns whose group `value` is always a secret.
static PLAIN: LazyLock<[Option<Regex>; 22]> = LazyLock::new(|| {
    [
        // A user and a password in a URL; the password may contain an `@`.
        filled(r"\b[A-Za-z][A-Za-z0-9+.-]*://(?P<value>[^/\s'\x22`]+)@"),
        // The same without a scheme.
        filled(
            r"(?:^|[\s'\x22=(])[\w.-]+:(?P<value>[^\s:@/'\x22`]{3,})@(?:[A-Za-z][\w.-]*[:/]|\d{1,3}(?:\.\d{1,3}){3})",
        ),
        filled(r"(?i)\bbearer[ \t]+(?P<value>[\w.~+/=-]{6,})"),
        // A header; schemes with several parts extend to the end of the line.
        filled(
            r"(?i)\bauthorization['\x22]?[ \t]*[:=][ \t]*['\x22]?(?:AWS4-[\w-]+|digest|hmac\w*|oauth|signature)[ \t]+(?P<value>[^\n'`]{4,})",
        ),
        filled(r"(?i)\bauthorization['\x22]?[ \t]*[:=][ \t]*['\x22]?(?:\w+[ \t]+)?(?P<value>[^\s'\x22`,]{4,})"),
        filled(r"(?i)\b(?:set-)?cookie2?['\x22]?:[ \t]*(?P<value>[^\n]+)"),
        filled(
            r"(?i)[?&](?:[\w-]*(?:token|key|sig|signature|secret|password|passwd|pwd|credential|auth|code|session|policy|jwt))=(?P<value>[^\s&'\x22`]+)",
        ),
        // The signature of a URL, also outside of one.
        filled(
            r"(?i)\bX-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)['\x22]?[ \t]*[:=][ \t]*['\x22]?(?P<value>[^\s&'\x22`]+)",
        ),
        // URLs that are a secret as a whole, since anybody who has one can post to it.
        filled(concat!(
            r"\b(?:hooks\.slack(?:-gov)?\.com/[a-z]+/|discord(?:app)?\.com/api/(?:v\d+/)?webhooks/|api\.telegram\.org/(?:file/)?bot",
            r"|webhook\.office\.com/webhookb2/|hooks\.zapier\.com/hooks/catch/|maker\.ifttt\.com/trigger/|chat\.googleapis\.com/v1/spaces/",
            r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/(?:v2/)?hook/|http-intake\.logs\.(?:[\w-]+\.)?(?:datadoghq|ddog-gov)\.\w+/(?:v1/input|api/v2/logs)/",
            r"|ntfy\.sh/|hc-ping\.com/|api\.softlayer\.com/soap/v[\d.]+/)(?P<value>[\w/:@.-]+)"
        )),
        // The login of a registry in Docker's configuration.
        filled(r"\bauth\\?\x22[ \t]*:[ \t]*\\?\x22(?P<value>[A-Za-z0-9+/]{8,}={0,2})"),
        // The secret of AWS right behind the id of its key.
        filled(
            r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}[^\w\[]{1,8}(?:\w+[^\w\n\[]{1,4})?(?P<value>[A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+]|$)",
        ),
        // Bots of Telegram and Discord.
        filled(r"\b(?:bot)?(?P<value>\d{6,12}:(?:A[\w-]{32,40}|[\w-]{35}\b))"),
        filled(r"(?:^|[^\w.-])(?:mfa\.[\w-]{60,}|(?P<value>[MNO][\w-]{22,27}\.[\w-]{5,7}\.[\w-]{25,40}))"),
        // Entra, Terraform, MaxMind, Mailchimp and Salesforce, whose secrets have a known middle or end.
        filled(r"(?:^|[^\w~.])(?P<value>[\w~.]{3}\dQ~[\w~.-]{28,40})"),
        filled(r"(?P<value>\b[A-Za-z0-9]{10,16}\.(?:atlasv1|v1)\.[\w=-]{40,})"),
        filled(
            r"(?P<value>\b(?:[A-Za-z0-9]{6}_[A-Za-z0-9]{20,}_mmk|[0-9a-f]{32}-us\d{1,2}|00D[A-Za-z0-9]{9,15}![\w.]{60,}))",
        ),
        // Lob, OAuth of Databricks, Asana, Anaconda, and keys that are a UUID with a prefix.
        filled(
            r"(?P<value>\b(?:(?:live|test)_(?:pub_)?[0-9a-f]{33,35}|dose[0-9a-f]{32}|[12]/(?:\d{16}/)?\d{16}:[0-9a-f]{32}|(?:an|ApiKey)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}))\b",
        ),
        // A one-time code.
        filled(concat!(
            r"(?i)\b(?:[ht]?otp|2fa|mfa|pin|(?:one[ -]time|verification|authenticator|security|login|sms)[ _-](?:pass)?(?:code|word|pin))",
            r"(?:[ _-]?(?:code|token|pin))?\b['\x22]?[ \t]*(?:(?:is|was)\b|[:=(])?[ \t]*['\x22]?(?P<value>\d{3}[ -]?\d{3,5})\b"
        )),
        filled(
            r"(?i)\b(?P<value>\d{6,8})(?:[ \t]+(?:is|as)[ \t]+(?:(?:your|the|my)[ \t]+)?(?:[\w-]+[ \t]+){0,2}?(?:otp|2fa|mfa|pin|code)\b|[ \t]*[(,][ \t]*(?:[ht]?otp|2fa|mfa)\b)",
        ),
        // A pair with the value first: `{"value": "X", "name": "DB_PASS"}`.
        filled(
            r"(?i)\bvalue['\x22]?[ \t]*[:=][ \t]*(?P<value>(?:<QUOTED>)|[^\s'\x22,]+)\s*,?\s*['\x22]?(?:name|key)['\x22]?[ \t]*[:=][ \t]*['\x22]?[\w.-]*<SECRET>(?:['\x22\s]|$)",
        ),
        // What was typed on the line below a question.
        filled(
            r"(?im)^[^\n]{0,60}\b(?:password|passphrase|passwd|passcode)(?:[ \t]+for[ \t]+[^\n:]{1,40})?:[ \t]*(?:\r?\n[ \t]*){1,2}(?P<value>\S{2,}[^\s:])[ \t]*\r?$",
        ),
        // A password file of PostgreSQL.
        filled(r"(?m)^[ \t]*[\w.*-]+:(?:5[45]\d\d|6432|\*):[^:\s]+:[^:\s]+:(?P<value>[^\s:]\S*)[ \t]*$"),
    ]
});

/// Patterns of the arguments of known commands and of answers to the questions of programs.
static COMMANDS: LazyLock<[Option<Regex>; 26]> = LazyLock::new(|| {
    [
        filled(
            r"\b(?:wandb|comet|neptune|vault|modal|runpodctl|hf|huggingface-cli|kaggle|ngc|gh)\b[^\n]*?\blogin\b[^\n]*?[ \t]['\x22]?(?P<value>[\w.-]{20,})",
        ),
        filled(r"\bwandb\.login\([^\n]*?\bkey[ \t]*=[ \t]*['\x22]?(?P<value>[^\s'\x22,)]+)"),
        // "Paste an API key from your profile and hit enter, or press ctrl+c to quit: ".
        filled(r"(?i)\b(?:API key|access token|auth token)\b[^\n:]*:[ \t]*(?P<value>[\w-]{20,})"),
        filled(
            r"\bcurl\b(?:[^\n|]|\\\n)*?[ \t](?:--(?:proxy-)?user(?:=|[ \t]+)|-[A-Za-z]*[uU][ \t]+)(?P<value><WORD>)",
        ),
        filled(r"\bcurl\b(?:[^\n|]|\\\n)*?[ \t]-[A-Za-z]*?[uU](?P<value>[^\s:-][^\s:]*:\S+)"),
        filled(r"\b(?:sshpass|7z\w*|7za|unrar)\b[^\n]*?[ \t]-p[ \t]*(?P<value><WORD>)"),
        filled(
            r"\b(?:(?:docker|podman|nerdctl|buildah|skopeo|oc|az|registry|helm|oras|ngc|crane|cr)[ \t]+(?:registry[ \t]+|auth[ \t]+)?login|htpasswd|ldap(?:search|modify|add|whoami)|smbclient|mount\.cifs|plink|pscp|sqlcmd|bcp|isql|cqlsh|influx|cypher-shell|arangosh|rabbitmqadmin|clickhouse-client|vncpasswd|ipmitool|exasol)\b(?:[^\n|;]|\\\n)*?[ \t]-(?:p|P|pw|w)(?:=|[ \t]*)(?P<value><WORD>)",
        ),
        // The password stands right behind `-p`. A word after a blank is the database, and is redacted as well, since
        // people confuse the two.
        filled(r"\b(?:mysql|mariadb)[\w-]*(?:[^\n|;]*?)[ \t]-p[ \t]?(?P<value><ARGUMENT>)"),
        filled(
            r"\b(?:redis-cli\b[^\n|;]*?[ \t]-a|mongo\w*\b[^\n|;]*?[ \t]-p|(?:un)?zip\b[^\n|;]*?[ \t]-P|sshpass[ \t]+-e|psql\b[^\n|;]*?[ \t]-W)[ \t]+(?P<value><WORD>)",
        ),
        // A user and a password in one option.
        filled(r"[ \t](?:-U|--user)(?:=|[ \t]+)['\x22]?[\w.\\@-]+[:%](?P<value>[^\s'\x22]{3,})"),
        // Any command with an option for the user, and a continued line that begins with `-p`.
        filled(r"[ \t](?:-u|--user(?:name)?)[ \t=]+[\w'\x22][^\n|;]*?[ \t]-p[ \t]+(?P<value>[^\s'\x22-]<REST>)"),
        filled(r"(?m)^[ \t]*-p[ \t]+(?P<value>[A-Za-z][^\s'\x22]*[0-9][^\s'\x22]*)(?:[ \t]+\\)?$"),
        // What is piped into a command.
        filled(
            r"\b(?:echo|printf)[ \t]+(?:-\w+[ \t]+)?(?P<value><WORD>)[ \t]*\|[^\n|]*(?:\bsudo[^\n|]*[ \t]-S|\blogin|-stdin|passwd)\b",
        ),
        filled(r"<<<[ \t]*(?P<value>(?:<QUOTED>))"),
        filled(r"\b(?:sudo|su|passwd|chpasswd|login|cryptsetup|kinit|gpg)\b[^\n]*?[ \t]<<<[ \t]*(?P<value><WORD>)"),
        filled(r"--from-literal(?:=|[ \t]+)'[\w.-]+=(?P<value>[^'\n]+)"),
        filled(r"--from-literal(?:=|[ \t]+)\x22[\w.-]+=(?P<value>[^\x22\n]+)"),
        filled(r"\bSecret(?:Str|Bytes)?\([ \t]*(?:\w+[ \t]*=[ \t]*)?(?P<value>[brfu]?(?:<QUOTED>))"),
        filled(r"\b(?:login|[Aa]uth\w*)\([ \t]*(?P<value>(?:<QUOTED>)(?:[ \t]*,[ \t]*(?:<QUOTED>))?)"),
        filled(r"\bauth[ \t]*=[ \t]*[(\[][ \t]*(?P<value>(?:<QUOTED>)[ \t]*,[ \t]*(?:<QUOTED>))"),
        // A .netrc on one line, and OpenSSL's `pass:X`.
        filled(r"(?:\blogin[ \t]+\S+[ \t]+password[ \t]+|[ \t]-pass(?:in|out)?[ \t]+pass:)(?P<value><WORD>)"),
        // A .netrc on several.
        filled(r"(?m)^[ \t]*password[ \t]+(?P<value>\S+)[ \t]*$"),
        // SQL.
        filled(
            r"(?i)\b(?:identified[ \t]+(?:with[ \t]+\w+[ \t]+)?by|with[ \t]+(?:encrypted[ \t]+)?password)[ \t]+(?P<value>(?:<QUOTED>))",
        ),
        filled(r"\bnet[ \t]+use\b[^\n]*?/user:\S+[ \t]+(?P<value><WORD>)"),
        // A header given as an option.
        filled(
            r"(?i)[ \t](?:-H|--header)[ \t]+['\x22]?[\w-]*(?:key|token|secret|session|cookie)[\w-]*:[ \t]*(?P<value>[^\s'\x22]+)",
        ),
        // `_authToken=X`, `//registry/:_auth=X`.
        filled(r"_(?:auth(?:Token)?|password)[ \t]*=[ \t]*(?P<value>[^\s;]+)"),
    ]
});

#[cfg(test)]
mod tests;
