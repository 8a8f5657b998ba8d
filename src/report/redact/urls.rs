//! Owns hosts in URLs, email addresses and teams of W&B. Hosts of a private network are left out; public ones stay.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::names::{self, HOST, USER};
use super::pattern::{Pattern, captures, group, group_or_empty, pattern, replace};
use super::words::Words;

/// A URL's scheme and host. Schemes of buckets and container images are not here: they name no machine.
static URLS: Pattern = LazyLock::new(|| {
    pattern(concat!(
        r"(?P<before>\b(?:https?|wss?|ssh|git|ftps?|sftp|tcp|udp|tls|ucx|grpcs?|zmq|nats|amqps?|rediss?|postgres(?:ql)?|mysql|mariadb",
        r"|mongodb(?:\+srv)?|ldaps?|nfs|smb|ray|spark|socks[45]h?|etcd)(?:\+\w+)?://(?:(?:\[redacted\]|[\w.-]+)@)?)",
        r"(?P<host>[A-Za-z0-9_][\w.-]*)"
    ))
});
/// An email address, or git over ssh: `git@host:team/repository`.
static MAIL: Pattern = LazyLock::new(|| {
    pattern(
        r"\b(?P<user>[\w.+-]*\w)@(?P<host>(?:[A-Za-z0-9-]+\.)+(?P<last>[a-z]{2,12}|[A-Z]{2,12}))(?P<rest>[^\w(@-]|$)",
    )
});
static TEAMS: Pattern = LazyLock::new(|| pattern(r"(?P<before>\bwandb\.ai/)(?P<team>[\w.-]+)(?P<rest>/[\w.-]+)"));

/// Last parts of host names that no public server has.
static PRIVATE_ENDS: Words =
    Words::new("local localdomain lan internal intranet intra corp private home cluster arpa priv");
/// Parts of host names that are used within a company's network.
const PRIVATE_PARTS: &[&str] =
    &["corp", "internal", "intranet", "intra", "int", "private", "priv", "lan", "local", "svc"];
/// First parts of host names of servers that companies run for themselves.
static OWN_SERVERS: Words = Words::new(
    "git gitlab gitea bitbucket ghe github nexus artifactory artifacts pypi registry harbor jenkins ci jira confluence \
     wiki mlflow wandb minio s3 proxy vault grafana prometheus login jupyter hub vpn gpu hpc slurm mirror",
);
/// Public domains, whose hosts may begin like those.
static PUBLIC: Words = Words::new(
    "github.com githubusercontent.com gitlab.com bitbucket.org huggingface.co hf.co hf.space wandb.ai pytorch.org \
     python.org pypi.org pythonhosted.org nvidia.com nvcr.io docker.com docker.io quay.io ghcr.io gcr.io k8s.io \
     kernel.org gnu.org debian.org ubuntu.com fedoraproject.org google.com googleapis.com amazonaws.com microsoft.com \
     jupyter.org jenkins.io grafana.com prometheus.io mlflow.org vaultproject.io modelscope.cn tuna.tsinghua.edu.cn \
     aliyun.com savannah.gnu.org",
);
/// Ends of what looks like an email address and is none: methods (`q@k.to`) and units of systemd.
static NO_MAIL: Words = Words::new(
    "to mt py eq ne gt lt ge le no service slice scope socket timer target mount path device transpose view float half \
     weight",
);

/// The private hosts in a text's URLs. A name without a domain (`http://ollama:11434`) may be a service.
pub(super) fn hosts(text: &str) -> BTreeSet<String> {
    let hosts = captures(&URLS, text).filter_map(|found| group(&found, "host"));
    hosts.filter(|host| host.contains('.') && is_private(host)).collect()
}

/// The text without private hosts, email addresses and teams of W&B.
pub(super) fn left_out(text: &str) -> String {
    let text = replace(&URLS, text, |found| {
        is_private(&group(found, "host")?).then_some(())?;
        Some(group(found, "before")? + HOST)
    });
    let text = replace(&MAIL, &text, |found| {
        let (user, host, last) = (group(found, "user")?, group(found, "host")?, group(found, "last")?.to_lowercase());
        let code = NO_MAIL.contains(&last) || host.starts_with("self.") || user.contains("self.");
        let public = user == "git" && !is_private(&host);
        (!code && !public).then(|| format!("{USER}@{HOST}{}", group_or_empty(found, "rest")))
    });
    replace(&TEAMS, &text, |found| Some(group(found, "before")? + USER + &group(found, "rest")?))
}

/// Whether a host belongs to a private network.
fn is_private(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_lowercase();
    let parts: Vec<&str> = host.split('.').collect();
    let number = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    if number || PUBLIC.iter().any(|public| is_within(&host, public)) {
        return false;
    }
    match parts.as_slice() {
        [] => false,
        [name] => names::is_machine(name),
        [first, between @ .., last] => {
            PRIVATE_ENDS.contains(last)
                || between.iter().chain([first]).any(|part| PRIVATE_PARTS.contains(part))
                || !between.is_empty() && OWN_SERVERS.contains(first)
        }
    }
}

/// Whether a host's name is this domain or within it.
fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether the last part of a host name is that of a private network.
pub(super) fn is_private_end(last: &str) -> bool {
    PRIVATE_ENDS.contains(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert!([&URLS, &MAIL, &TEAMS].iter().all(|pattern| pattern.is_some()));
    }

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
