//! Owns hosts within addresses: which are a company's or a cluster's own, and W&B's teams. Public ones stay.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::names::{self, HOST, USER};
use super::pattern::{Pattern, found, part, part_or_empty, pattern, replaced};
use super::words::Words;

/// An address's host; the schemes of buckets and images name no machine.
static URLS: Pattern = LazyLock::new(|| {
    pattern(concat!(
        r"(?P<before>\b(?:https?|wss?|ssh|git|ftps?|sftp|tcp|udp|tls|ucx|grpcs?|zmq|nats|amqps?|rediss?|postgres(?:ql)?|mysql|mariadb",
        r"|mongodb(?:\+srv)?|ldaps?|nfs|smb|ray|spark|socks[45]h?|etcd)(?:\+\w+)?://(?:(?:\[redacted\]|[\w.-]+)@)?)",
        r"(?P<host>[A-Za-z0-9_][\w.-]*)"
    ))
});
/// Mail, and git over ssh: `git@host:team/repository`.
static MAIL: Pattern = LazyLock::new(|| {
    pattern(
        r"\b(?P<user>[\w.+-]*\w)@(?P<host>(?:[A-Za-z0-9-]+\.)+(?P<last>[a-z]{2,12}|[A-Z]{2,12}))(?P<rest>[^\w(@-]|$)",
    )
});
static TEAMS: Pattern = LazyLock::new(|| pattern(r"(?P<before>\bwandb\.ai/)(?P<team>[\w.-]+)(?P<rest>/[\w.-]+)"));

/// The last parts of names that no public server has.
static PRIVATE_ENDS: Words =
    Words::new("local localdomain lan internal intranet intra corp private home cluster arpa priv");
/// Parts of names that tell a company's own network, and what companies run for themselves.
const PRIVATE_PARTS: &[&str] =
    &["corp", "internal", "intranet", "intra", "int", "private", "priv", "lan", "local", "svc"];
static OWN_SERVERS: Words = Words::new(
    "git gitlab gitea bitbucket ghe github nexus artifactory artifacts pypi registry harbor jenkins ci jira confluence \
     wiki mlflow wandb minio s3 proxy vault grafana prometheus login jupyter hub vpn gpu hpc slurm mirror",
);
/// Servers of the public whose names begin as those.
static PUBLIC: Words = Words::new(
    "github.com githubusercontent.com gitlab.com bitbucket.org huggingface.co hf.co hf.space wandb.ai pytorch.org \
     python.org pypi.org pythonhosted.org nvidia.com nvcr.io docker.com docker.io quay.io ghcr.io gcr.io k8s.io \
     kernel.org gnu.org debian.org ubuntu.com fedoraproject.org google.com googleapis.com amazonaws.com microsoft.com \
     jupyter.org jenkins.io grafana.com prometheus.io mlflow.org vaultproject.io modelscope.cn tuna.tsinghua.edu.cn \
     aliyun.com savannah.gnu.org",
);
/// What ends so is no address of mail: methods (`q@k.to`) and systemd's units.
static NO_MAIL: Words = Words::new(
    "to mt py eq ne gt lt ge le no service slice scope socket timer target mount path device transpose view float half \
     weight",
);

/// The hosts in a text's addresses that are its own network's; a name alone (`http://ollama:11434`) may be a service's.
pub(super) fn hosts(text: &str) -> BTreeSet<String> {
    let hosts = found(&URLS, text).filter_map(|found| part(&found, "host"));
    hosts.filter(|host| host.contains('.') && is_private(host)).collect()
}

/// The text without such hosts, without addresses of mail, and without W&B's teams.
pub(super) fn left_out(text: &str) -> String {
    let text = replaced(&URLS, text, |found| {
        is_private(&part(found, "host")?).then_some(())?;
        Some(part(found, "before")? + HOST)
    });
    let text = replaced(&MAIL, &text, |found| {
        let (user, host, last) = (part(found, "user")?, part(found, "host")?, part(found, "last")?.to_lowercase());
        let code = NO_MAIL.contains(&last) || host.starts_with("self.") || user.contains("self.");
        let public = user == "git" && !is_private(&host);
        (!code && !public).then(|| format!("{USER}@{HOST}{}", part_or_empty(found, "rest")))
    });
    replaced(&TEAMS, &text, |found| Some(part(found, "before")? + USER + &part(found, "rest")?))
}

/// Whether a host's name is one of somebody's own network.
pub(super) fn is_private(host: &str) -> bool {
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

/// Whether the last part of a name is that of a network of one's own.
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
