//! Owns numbers of telephones beside a word that says so, the names of buckets and storage accounts, and who is named
//! with a mail's address or a Windows domain.

use std::sync::LazyLock;

use regex::Regex;

use super::names::{USER, is_telling};
use super::pattern::{Pattern, part, part_or_empty, pattern, replaced};

const PHONE: &str = "PHONE";
const BUCKET: &str = "BUCKET";
const ACCOUNT: &str = "ACCOUNT";

/// The text without numbers of telephones, buckets, accounts of clouds, and users of a domain.
pub(super) fn left_out(text: &str) -> String {
    let mut text = replaced(&DOMAIN_USERS, text, |found| {
        let (domain, user) = (part(found, "domain")?, part(found, "user")?);
        let is_told = found.name("told").is_some();
        let before = part_or_empty(found, "told") + &part_or_empty(found, "before");
        let sure = is_told || part_or_empty(found, "sign").len() == 2;
        (!is_code(&domain, &user, sure)).then(|| format!("{before}{USER}{}", part_or_empty(found, "rest")))
    });
    text = replaced(&PHONES, &text, |found| {
        let number = part(found, "number").or_else(|| part(found, "number2"))?;
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        (7..=15).contains(&digits).then(|| part_or_empty(found, "before") + &part_or_empty(found, "before2") + PHONE)
    });
    for buckets in BUCKETS.iter() {
        text = replaced(buckets, &text, |found| {
            let name = part(found, "name")?;
            let number = name.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_'));
            let none = ["none", "null", "true", "false", "auto"].contains(&name.to_ascii_lowercase().as_str());
            (!number && !none).then(|| part_or_empty(found, "before") + BUCKET + &part_or_empty(found, "rest"))
        });
    }
    replaced(&ACCOUNTS, &text, |found| Some(part_or_empty(found, "before") + ACCOUNT))
}

/// `CORP\ada`, in JSON `CORP\\ada`. Not a path's part, nor what is escaped: `DONE\nnext`.
static DOMAIN_USERS: Pattern = LazyLock::new(|| {
    pattern(
        r"(?P<told>(?i:\b(?:user(?:[ _]?name)?|account|login|owner|as|by|whoami))[ \t]*[:=]?)?(?P<before>^|[\s'\x22=(,;:\[]+)(?P<domain>[A-Z][A-Z0-9-]{1,14})(?P<sign>\\{1,2})(?P<user>[A-Za-z][\w.-]*\w)(?P<rest>$|[^\w\\/(])",
    )
});

/// Whether such a word is a part of a path or of the registry, or holds a line end that was escaped.
fn is_code(domain: &str, user: &str, sure: bool) -> bool {
    let registry = domain.starts_with("HK") || ["NT", "BUILTIN", "WINDOWS", "USERS", "DATA"].contains(&domain);
    let escaped = !sure && user.starts_with(['n', 'r', 't', 'u', 'x', 'f', 'b', 'v']);
    let file = user.rsplit_once('.').is_some_and(|(_, end)| end.len() <= 4 || end == "safetensors");
    registry || escaped || file || !is_telling(user)
}

/// Only behind a word that says so: a number alone may be anything. Behind `call` it has a telephone's form as well.
static PHONES: Pattern = LazyLock::new(|| {
    pattern(concat!(
        r"(?i)(?P<before>\b(?:(?:tele)?phone|tel|telefon|mobile|mobil|handy|cell|fax|whatsapp|hotline|pager|sms|msisdn)",
        r"(?:[ _-]?(?:no|nr|number|nummer))?\b\.?\\?['\x22]?[^\w\n+(]{0,6}(?:is[ ]|me[ ]|at[ ]|on[ ]|us[ ]){0,2})(?P<number>[+(]?\d[\d ()./-]{5,20}\d)",
        r"|(?P<before2>\b(?:call|ring|dial|contact|reach|text)\b[^\d\n+(]{0,24})(?P<number2>\+\d[\d ()./-]{6,20}\d|\(?0?\d{3,4}[)]?[ ./-]\d{3}[ ./-]\d{3,5})"
    ))
});

/// Buckets and containers of clouds: in addresses, hosts and settings.
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

/// The number of an account beside what belongs to it.
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
