//! Owns phone numbers, the names of buckets, cloud account numbers, and users of a Windows domain.

use std::sync::LazyLock;

use serde::Deserialize;

use super::names::{USER, is_telling};
use super::table::{Pattern, group, group_or_empty, table};

const PHONE: &str = "PHONE";
const BUCKET: &str = "BUCKET";
const ACCOUNT: &str = "ACCOUNT";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    domain_users: Pattern,
    phones: Pattern,
    buckets: Vec<Pattern>,
    accounts: Pattern,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| table("contacts"));

/// The text without them.
pub(super) fn left_out(text: &str) -> String {
    let mut text = TABLE.domain_users.replace(text, |found| {
        let (domain, user) = (group(found, "domain")?, group(found, "user")?);
        let is_told = found.name("told").is_some();
        let before = group_or_empty(found, "told") + &group_or_empty(found, "before");
        let sure = is_told || group_or_empty(found, "sign").len() == 2;
        (!is_code(&domain, &user, sure)).then(|| format!("{before}{USER}{}", group_or_empty(found, "rest")))
    });
    text = TABLE.phones.replace(&text, |found| {
        let number = group(found, "number").or_else(|| group(found, "number2"))?;
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        (7..=15).contains(&digits).then(|| group_or_empty(found, "before") + &group_or_empty(found, "before2") + PHONE)
    });
    for buckets in &TABLE.buckets {
        text = buckets.replace(&text, |found| {
            let name = group(found, "name")?;
            let number = name.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_'));
            let none = ["none", "null", "true", "false", "auto"].contains(&name.to_ascii_lowercase().as_str());
            (!number && !none).then(|| group_or_empty(found, "before") + BUCKET + &group_or_empty(found, "rest"))
        });
    }
    TABLE.accounts.replace(&text, |found| Some(group_or_empty(found, "before") + ACCOUNT))
}

/// Whether this is part of a path or of the registry, or contains an escaped line end.
fn is_code(domain: &str, user: &str, sure: bool) -> bool {
    let registry = domain.starts_with("HK") || ["NT", "BUILTIN", "WINDOWS", "USERS", "DATA"].contains(&domain);
    let escaped = !sure && user.starts_with(['n', 'r', 't', 'u', 'x', 'f', 'b', 'v']);
    let file = user.rsplit_once('.').is_some_and(|(_, end)| end.len() <= 4 || end == "safetensors");
    registry || escaped || file || !is_telling(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_go() {
        for (text, want) in [
            (r"run as CORP\grace, CORP\\grace", r"run as USER, USER"),
            (r"owner: ACME-01\h.meier", "owner: USER"),
            ("phone: +49 30 1234567", "phone: PHONE"),
            ("Tel. (030) 123 45 67 or call me at 555-867-5309", "Tel. PHONE or call me at PHONE"),
            ("call +1 415 555 0100 or +49 170 1234567, 0170 7654321 now", "call PHONE now"),
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
