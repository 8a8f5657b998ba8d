//! Owns which words of a text are secrets: keys in blocks, what headers, addresses and the arguments of known commands
//! hold. Tokens known by how they begin are in `kinds`, what has a telling name is in `named`, what only looks drawn by
//! chance is in `drawn`. Where in doubt, more goes than has to.

mod blocks;
mod drawn;
mod folded;
mod kinds;
mod named;

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use self::folded::Folded;
use self::named::{SECRET, filled};
use super::pattern::found;

/// The text without them. The number of lines stays.
pub(super) fn left_out(text: &str) -> String {
    let mut places = places(text);
    if let Some(folded) = Folded::of(text) {
        places.extend(self::places(&folded.text).iter().filter_map(|place| folded.back(place, text)));
    }
    without(text, places)
}

/// Where a text holds secrets, in no order.
fn places(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    blocks::find(text, &mut places);
    kinds::find(text, &mut places);
    for pattern in PLAIN.iter().chain(COMMANDS.iter()) {
        let values = found(pattern, text).filter_map(|found| found.name("value").map(|value| value.range()));
        places.extend(values);
    }
    named::find(text, &mut places);
    drawn::find(text, &mut places);
    places
}

/// A text without such places; what one covers on several lines goes on each of them.
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

/// What goes without a further look: the `value`.
static PLAIN: LazyLock<[Option<Regex>; 22]> = LazyLock::new(|| {
    [
        // A user and a password in an address; the password may hold an `@` itself.
        filled(r"\b[A-Za-z][A-Za-z0-9+.-]*://(?P<value>[^/\s'\x22`]+)@"),
        // The same without the address's beginning.
        filled(
            r"(?:^|[\s'\x22=(])[\w.-]+:(?P<value>[^\s:@/'\x22`]{3,})@(?:[A-Za-z][\w.-]*[:/]|\d{1,3}(?:\.\d{1,3}){3})",
        ),
        filled(r"(?i)\bbearer[ \t]+(?P<value>[\w.~+/=-]{6,})"),
        // A header; schemes with several parts reach to the line's end.
        filled(
            r"(?i)\bauthorization['\x22]?[ \t]*[:=][ \t]*['\x22]?(?:AWS4-[\w-]+|digest|hmac\w*|oauth|signature)[ \t]+(?P<value>[^\n'`]{4,})",
        ),
        filled(r"(?i)\bauthorization['\x22]?[ \t]*[:=][ \t]*['\x22]?(?:\w+[ \t]+)?(?P<value>[^\s'\x22`,]{4,})"),
        filled(r"(?i)\b(?:set-)?cookie2?['\x22]?:[ \t]*(?P<value>[^\n]+)"),
        filled(
            r"(?i)[?&](?:[\w-]*(?:token|key|sig|signature|secret|password|passwd|pwd|credential|auth|code|session|policy|jwt))=(?P<value>[^\s&'\x22`]+)",
        ),
        // What signs an address, outside one too.
        filled(
            r"(?i)\bX-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)['\x22]?[ \t]*[:=][ \t]*['\x22]?(?P<value>[^\s&'\x22`]+)",
        ),
        // Addresses that are a secret as a whole: who has one can post.
        filled(concat!(
            r"\b(?:hooks\.slack(?:-gov)?\.com/[a-z]+/|discord(?:app)?\.com/api/(?:v\d+/)?webhooks/|api\.telegram\.org/(?:file/)?bot",
            r"|webhook\.office\.com/webhookb2/|hooks\.zapier\.com/hooks/catch/|maker\.ifttt\.com/trigger/|chat\.googleapis\.com/v1/spaces/",
            r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/(?:v2/)?hook/|http-intake\.logs\.(?:[\w-]+\.)?(?:datadoghq|ddog-gov)\.\w+/(?:v1/input|api/v2/logs)/",
            r"|ntfy\.sh/|hc-ping\.com/|api\.softlayer\.com/soap/v[\d.]+/)(?P<value>[\w/:@.-]+)"
        )),
        // A registry's login as Docker keeps it.
        filled(r"\bauth\\?\x22[ \t]*:[ \t]*\\?\x22(?P<value>[A-Za-z0-9+/]{8,}={0,2})"),
        // A bare secret of AWS right behind the id of its key.
        filled(
            r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}[^\w\[]{1,8}(?:\w+[^\w\n\[]{1,4})?(?P<value>[A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+]|$)",
        ),
        // Bots of Telegram and Discord.
        filled(r"\b(?:bot)?(?P<value>\d{6,12}:(?:A[\w-]{32,40}|[\w-]{35}\b))"),
        filled(r"(?:^|[^\w.-])(?:mfa\.[\w-]{60,}|(?P<value>[MNO][\w-]{22,27}\.[\w-]{5,7}\.[\w-]{25,40}))"),
        // Entra, Terraform, MaxMind, Mailchimp, Salesforce: known by what stands within them or at their end.
        filled(r"(?:^|[^\w~.])(?P<value>[\w~.]{3}\dQ~[\w~.-]{28,40})"),
        filled(r"(?P<value>\b[A-Za-z0-9]{10,16}\.(?:atlasv1|v1)\.[\w=-]{40,})"),
        filled(
            r"(?P<value>\b(?:[A-Za-z0-9]{6}_[A-Za-z0-9]{20,}_mmk|[0-9a-f]{32}-us\d{1,2}|00D[A-Za-z0-9]{9,15}![\w.]{60,}))",
        ),
        // Lob, Databricks' OAuth, Asana, Anaconda, and keys that are a UUID behind a beginning.
        filled(
            r"(?P<value>\b(?:(?:live|test)_(?:pub_)?[0-9a-f]{33,35}|dose[0-9a-f]{32}|[12]/(?:\d{16}/)?\d{16}:[0-9a-f]{32}|(?:an|ApiKey)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}))\b",
        ),
        // A code that is used once.
        filled(concat!(
            r"(?i)\b(?:[ht]?otp|2fa|mfa|pin|(?:one[ -]time|verification|authenticator|security|login|sms)[ _-](?:pass)?(?:code|word|pin))",
            r"(?:[ _-]?(?:code|token|pin))?\b['\x22]?[ \t]*(?:(?:is|was)\b|[:=(])?[ \t]*['\x22]?(?P<value>\d{3}[ -]?\d{3,5})\b"
        )),
        filled(
            r"(?i)\b(?P<value>\d{6,8})(?:[ \t]+(?:is|as)[ \t]+(?:(?:your|the|my)[ \t]+)?(?:[\w-]+[ \t]+){0,2}?(?:otp|2fa|mfa|pin|code)\b|[ \t]*[(,][ \t]*(?:[ht]?otp|2fa|mfa)\b)",
        ),
        // A pair in the other order: `{"value": "X", "name": "DB_PASS"}`.
        filled(
            r"(?i)\bvalue['\x22]?[ \t]*[:=][ \t]*(?P<value>(?:<QUOTED>)|[^\s'\x22,]+)\s*,?\s*['\x22]?(?:name|key)['\x22]?[ \t]*[:=][ \t]*['\x22]?[\w.-]*<SECRET>(?:['\x22\s]|$)",
        ),
        // What was typed below a question.
        filled(
            r"(?im)^[^\n]{0,60}\b(?:password|passphrase|passwd|passcode)(?:[ \t]+for[ \t]+[^\n:]{1,40})?:[ \t]*(?:\r?\n[ \t]*){1,2}(?P<value>\S{2,}[^\s:])[ \t]*\r?$",
        ),
        // A file of PostgreSQL's passwords, and of hashed ones.
        filled(r"(?m)^[ \t]*[\w.*-]+:(?:5[45]\d\d|6432|\*):[^:\s]+:[^:\s]+:(?P<value>[^\s:]\S*)[ \t]*$"),
    ]
});

/// What the arguments of known commands, and the answers to a program's questions, hold.
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
        // Only right behind it: `-p` alone asks, and what follows is the database. Where a user mistook that, it goes, too.
        filled(r"\b(?:mysql|mariadb)[\w-]*(?:[^\n|;]*?)[ \t]-p[ \t]?(?P<value><ARGUMENT>)"),
        filled(
            r"\b(?:redis-cli\b[^\n|;]*?[ \t]-a|mongo\w*\b[^\n|;]*?[ \t]-p|(?:un)?zip\b[^\n|;]*?[ \t]-P|sshpass[ \t]+-e|psql\b[^\n|;]*?[ \t]-W)[ \t]+(?P<value><WORD>)",
        ),
        // A name with a password in one option.
        filled(r"[ \t](?:-U|--user)(?:=|[ \t]+)['\x22]?[\w.\\@-]+[:%](?P<value>[^\s'\x22]{3,})"),
        // Any command that is told a user, and a line of its own that goes on with one.
        filled(r"[ \t](?:-u|--user(?:name)?)[ \t=]+[\w'\x22][^\n|;]*?[ \t]-p[ \t]+(?P<value>[^\s'\x22-]<REST>)"),
        filled(r"(?m)^[ \t]*-p[ \t]+(?P<value>[A-Za-z][^\s'\x22]*[0-9][^\s'\x22]*)(?:[ \t]+\\)?$"),
        // What a command is fed.
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
        // SQL, and what a shell's question shows.
        filled(
            r"(?i)\b(?:identified[ \t]+(?:with[ \t]+\w+[ \t]+)?by|with[ \t]+(?:encrypted[ \t]+)?password)[ \t]+(?P<value>(?:<QUOTED>))",
        ),
        filled(r"\bnet[ \t]+use\b[^\n]*?/user:\S+[ \t]+(?P<value><WORD>)"),
        // A header of an option of its own.
        filled(
            r"(?i)[ \t](?:-H|--header)[ \t]+['\x22]?[\w-]*(?:key|token|secret|session|cookie)[\w-]*:[ \t]*(?P<value>[^\s'\x22]+)",
        ),
        // `_authToken=X`, `//registry/:_auth=X`.
        filled(r"_(?:auth(?:Token)?|password)[ \t]*=[ \t]*(?P<value>[^\s;]+)"),
    ]
});

#[cfg(test)]
mod tests;
