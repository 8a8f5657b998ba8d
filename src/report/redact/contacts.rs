//! Owns phone numbers, the names of buckets, cloud account numbers, and users of a Windows domain.

use std::sync::LazyLock;

use regex::Regex;

use super::names::{USER, is_telling};
use super::pattern::{Pattern, group, group_or_empty, pattern, replace};

const PHONE: &str = "PHONE";
const BUCKET: &str = "BUCKET";
const ACCOUNT: &str = "ACCOUNT";

/// The text without them.
pub(super) fn left_out(text: &str) -> String {
    let mut text = replace(&DOMAIN_USERS, text, |found| {
        let (domain, user) = (group(found, "domain")?, group(found, "user")?);
        let is_told = found.name("told").is_some();
        let before = group_or_empty(found, "told") + &group_or_empty(found, "before");
        let sure = is_told || group_or_empty(found, "sign").len() == 2;
        (!is_code(&domain, &user, sure)).then(|| format!("{before}{USER}{}", group_or_empty(found, "rest")))
    });
    text = replace(&PHONES, &text, |found| {
        let number = group(found, "number").or_else(|| group(found, "number2"))?;
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        (7..=15).contains(&digits).then(|| group_or_empty(found, "before") + &group_or_empty(found, "before2") + PHONE)
    });
    for buckets in BUCKETS.iter() {
        text = replace(buckets, &text, |found| {
            let name = group(found, "name")?;
            let number = name.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_'));
            let none = ["none", "null", "true", "false", "auto"].contains(&name.to_ascii_lowercase().as_str());
            (!number && !none).then(|| group_or_empty(found, "before") + BUCKET + &group_or_empty(found, "rest"))
        });
    }
    replace(&ACCOUNTS, &text, |found| Some(group_or_empty(found, "before") + ACCOUNT))
}

/// `CORP\ada`, in JSON `CORP\\ada`; `is_code` sorts out paths and escaped line ends (`DONE\nnext`).
static DOMAIN_USERS: Pattern = LazyLock::new(|| {
    pattern(
        r"(?P<told>(?i:\b(?:user(?:[ _]?name)?|account|login|owner|as|by|whoami))[ \t]*[:=]?)?(?P<before>^|[\s'\x22=(,;:\[]+)(?P<domain>[A-Z][A-Z0-9-]{1,14})(?P<sign>\\{1,2})(?P<user>[A-Za-z][\w.-]*\w)(?P<rest>$|[^\w\\/(])",
    )
});

/// Whether this is part of a path or of the registry, or contains an escaped line end.
fn is_code(domain: &str, user: &str, sure: bool) -> bool {
    let registry = domain.starts_with("HK") || ["NT", "BUILTIN", "WINDOWS", "USERS", "DATA"].contains(&domain);
    let escaped = !sure && user.starts_with(['n', 'r', 't', 'u', 'x', 'f', 'b', 'v']);
    let file = user.rsplit_once('.').is_some_and(|(_, end)| end.len() <= 4 || end == "safetensors");
    registry || escaped || file || !is_telling(user)
}

/// Phone numbers behind a word such as `phone`; a number alone may be anything. Behind a verb such as `call`, the
/// number must also be written like a phone number.
static PHONES: Pattern = LazyLock::new(|| {
    pattern(concat!(
        r"(?i)(?P<before>\b(?:(?:tele)?phone|tel|telefon|mobile|mobil|handy|cell|fax|whatsapp|hotline|pager|sms|msisdn)",
        r"(?:[ _-]?(?:no|nr|number|nummer))?\b\.?\\?['\x22]?[^\w\n+(]{0,6}(?:is[ ]|me[ ]|at[ ]|on[ ]|us[ ]){0,2})(?P<number>[+(]?\d[\d ()./-]{5,20}\d)",
        r"|(?P<before2>\b(?:call|ring|dial|contact|reach|text)\b[^\d\n+(]{0,24})(?P<number2>\+\d[\d ()./-]{6,20}\d|\(?0?\d{3,4}[)]?[ ./-]\d{3}[ ./-]\d{3,5})"
    ))
});

/// Buckets and containers of cloud storage: in URLs, hosts and settings.
static BUCKETS: LazyLock<[Option<Regex>; 5]> = LazyLock::new(|| {
    [
        pattern(
            r"(?P<before>\b(?:s3[an]?|gs|gcs|az|azure|r2|oss|cos|obs|b2|minio|swift|abfss?|wasbs?|adl|tos)://(?:\[redacted\]@)?)(?P<name>[\w.-]+(?:@[\w.-]+)?)",
        ),
        pattern(r"(?P<before>\barn:aws[\w-]*:s3:[\w-]*:\d*:(?:accesspoint/)?)(?P<name>[\w.-]+)"),
        pattern(concat!(
            r"(?P<before>\b(?:https?://)?)(?P<name>[a-z0-9][a-z0-9.-]+)(?P<rest>\.(?:s3[.-][\w.-]*amazonaws\.com|s3\.amazonaws\.com|storage\.googleapis\.com",
            r"|(?:blob|dfs|file|queue|table)\.core\.windows\.net|[\w-]+\.digitaloceanspaces\.com|r2\.cloudflarestorage\.com|oss-[\w-]+\.aliyuncs\.com))"
        )),
        pattern(concat!(
            r"(?P<before>(?:^|[\s'\x22=(,]|//)(?:s3[.-][\w.-]*amazonaws\.com|s3\.amazonaws\.com|storage\.(?:googleapis|cloud\.google)\.com",
            r"|BUCKET\.(?:blob|dfs|file)\.core\.windows\.net)/)(?P<name>[\w.-]+)"
        )),
        pattern(
            r"(?i)(?P<before>\b(?:[\w-]*[_-])?bucket(?:[_-]?name)?\\?['\x22]?(?:[ \t]*[=:][ \t]*|[ \t]+(?:named[ \t]+)?\\?['\x22])\\?['\x22]?)(?P<name>(?-i:[a-z0-9])[a-z0-9._-]{2,62})",
        ),
    ]
});

/// A cloud account's number behind a word that names it.
static ACCOUNTS: Pattern = LazyLock::new(|| {
    pattern(concat!(
        r"(?i)(?P<before>\barn:aws[\w-]*:[\w-]+:[\w-]*:|\b(?:aws|account|project)[ _-]?(?:account)?[ _-]?(?:id|number)\\?['\x22]?[ \t]*[=:]?[ \t]*\\?['\x22]?)",
        r"\d{12}"
    ))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        let single = [&DOMAIN_USERS, &PHONES, &ACCOUNTS];
        assert!(single.iter().all(|pattern| pattern.is_some()) && BUCKETS.iter().all(Option::is_some));
    }

    #[test]
    fn contacts_go() {
        for (text, want) in [
            (r"run as CORP\grace, CORP\\grace", r"run as USER, USER"),
            (r"owner: ACME-01\h.meier", "owner: USER"),
            ("phone: +49 30 1234567", "phone: PHONE"),
            ("Tel. (030) 123 45 67 or call me at 555-867-5309", "Tel. PHONE or call me at PHONE"),
            ("\"phone_number\": \"5550123456\"", "\"phone_number\": \"PHONE\""),
            ("fetch s3://acme-ml/ckpt/1 gs://acme-data/x", "fetch s3://BUCKET/ckpt/1 gs://BUCKET/x"),
            ("https://acme-ml.s3.us-east-1.amazonaws.com/x", "https://BUCKET.s3.us-east-1.amazonaws.com/x"),
            ("https://storage.googleapis.com/acme-data/x", "https://storage.googleapis.com/BUCKET/x"),
            ("abfss://c@acme.dfs.core.windows.net/x", "abfss://BUCKET/x"),
            (
                "S3_BUCKET=acme-ml --bucket-name=acme bucket 'acme-2'",
                "S3_BUCKET=BUCKET --bucket-name=BUCKET bucket 'BUCKET'",
            ),
            ("arn:aws:iam::123456789012:role/x", "arn:aws:iam::ACCOUNT:role/x"),
        ] {
            assert_eq!(left_out(text), want);
        }
    }

    #[test]
    fn what_only_looks_like_a_contact_stays() {
        for text in [
            r"C:\models\x.gguf D:\DATA\model.bin HKLM\Software\x GPU\tfree",
            r#"{"log":"ERROR\nTraceback (most recent call last)","n":"DONE\nnext"}"#,
            "the call 20261122 of cell 3, call 2026-01-02 10:00:00, call stack: 12345678, phone 12",
            "bucket_cap_mb=25 reduce_bucket_size: 500000000 bucket=None bucket: 3 buckets",
            "https://github.com/a/b s3fs 0.4.2 torch.Size([555, 867, 5309])",
        ] {
            assert_eq!(left_out(text), text);
        }
    }
}
