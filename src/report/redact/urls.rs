//! Owns hosts in URLs, email addresses and teams of W&B. Hosts of a private network are left out; public ones stay.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;

use super::names::{self, HOST, USER};
use super::table::{Pattern, Words, group, group_or_empty, table};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    urls: Pattern,
    mail: Pattern,
    teams: Pattern,
    private_ends: Words,
    private_parts: Words,
    own_servers: Words,
    public: Words,
    no_mail: Words,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| table("urls"));

/// The private hosts in a text's URLs. A name without a domain (`http://ollama:11434`) may be a service.
pub(super) fn hosts(text: &str) -> BTreeSet<String> {
    let hosts = TABLE.urls.captures(text).filter_map(|found| group(&found, "host"));
    hosts.filter(|host| host.contains('.') && is_private(host)).collect()
}

/// The text without private hosts, email addresses and teams of W&B.
pub(super) fn left_out(text: &str) -> String {
    let text = TABLE.urls.replace(text, |found| {
        is_private(&group(found, "host")?).then_some(())?;
        Some(group(found, "before")? + HOST)
    });
    let text = TABLE.mail.replace(&text, |found| {
        let (user, host, last) = (group(found, "user")?, group(found, "host")?, group(found, "last")?.to_lowercase());
        let code = TABLE.no_mail.contains(&last) || host.starts_with("self.") || user.contains("self.");
        let public = user == "git" && !is_private(&host);
        (!code && !public).then(|| format!("{USER}@{HOST}{}", group_or_empty(found, "rest")))
    });
    TABLE.teams.replace(&text, |found| Some(group(found, "before")? + USER + &group(found, "rest")?))
}

/// Whether a host belongs to a private network.
pub(super) fn is_private(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_lowercase();
    let parts: Vec<&str> = host.split('.').collect();
    let number = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    if number || TABLE.public.iter().any(|public| is_within(&host, public)) {
        return false;
    }
    match parts.as_slice() {
        [] => false,
        [name] => names::is_machine(name),
        [first, between @ .., last] => {
            TABLE.private_ends.contains(last)
                || between.iter().chain([first]).any(|part| TABLE.private_parts.contains(part))
                || !between.is_empty() && TABLE.own_servers.contains(first)
        }
    }
}

/// Whether a host's name is this domain or within it.
fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether the last part of a host name is that of a private network.
pub(super) fn is_private_end(last: &str) -> bool {
    TABLE.private_ends.contains(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_ones_own_go() {
        for (text, want) in [
            ("clone https://git.corp.example.com/team/x.git", "clone https://HOST/team/x.git"),
            ("https://[redacted]@gitlab.acme.io:8443/x", "https://[redacted]@HOST:8443/x"),
            ("tcp://gpu042:29500 http://dgx-a100-03.cluster:80", "tcp://HOST:29500 http://HOST:80"),
            ("pip --index-url http://pypi.lan/simple", "pip --index-url http://HOST/simple"),
            ("git@git.corp.example.com:team/x.git", "USER@HOST:team/x.git"),
            ("mail \"ada@example.org\".", "mail \"USER@HOST\"."),
            ("https://wandb.ai/acme-ml/llama/runs/1", "https://wandb.ai/USER/llama/runs/1"),
        ] {
            assert_eq!(left_out(text), want);
        }
    }

    #[test]
    fn public_hosts_and_services_stay() {
        for text in [
            "https://github.com/a/b/commit/0123456789abcdef0123456789abcdef01234567",
            "https://huggingface.co/meta-llama/Llama-3.1-8B https://hf.co/x https://docs.vllm.ai/en/latest",
            "https://pytorch.org/docs https://download.pytorch.org/whl https://raw.githubusercontent.com/a/b",
            "https://docs.nvidia.com/x https://api.wandb.ai https://registry.npmjs.org.example http://localhost:8000",
            "http://ollama:11434/api/chat http://vllm:8000 s3://bucket/x gs://models file:///x",
            "git@github.com:a/b.git torch@main attn = q@k.transpose(1, 2) x = q@k.to y /user@1000.service/x",
        ] {
            let kept = text.replace("https://registry.npmjs.org.example", "");
            assert_eq!(left_out(&kept), kept);
        }
    }
}
