//! Owns where a text names people and machines: home folders, prompts, settings, tables of processes and jobs, and the
//! prefixes of a system log; and which words are no such names.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::pattern::{Pattern, group, group_or_empty, pattern};
use super::words::Words;

pub(super) const USER: &str = "USER";
pub(super) const HOST: &str = "HOST";

/// Words that the report itself uses.
static REPORT_WORDS: Words = Words::new("home driver model memory machine process python steps work data log gpu cuda");

/// Accounts that every machine has, and accounts of services.
static COMMON_ACCOUNTS: Words = Words::new(
    "root user users admin ubuntu debian fedora centos ec2-user azureuser runner jovyan docker nobody test shared \
     public default localhost wsl.localhost gdm sddm lightdm ollama www-data nvidia-persistenced app vllm error linux \
     host git node kernel all none sudo postgres mysql redis mongodb slurm jupyter comfyui sglang torch mac guest",
);

/// Words that stand in place of a name in source code and in chats.
static PLACEHOLDERS: Words = Words::new(
    "username hostname null true false str string int bytes optional self args config assistant system prompt message \
     content text name input device cpu auto unknown server worker master hello what please not the for and required \
     address port",
);

/// Beginnings of expressions in source code: `args.user`.
const CODE: &[&str] = &["self.", "args.", "cfg.", "config.", "os.", "socket.", "torch.", "settings.", "opt.", "opts."];

/// Whether a word may name a person or a machine.
pub(super) fn is_telling(name: &str) -> bool {
    let number = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let lower = name.to_lowercase();
    (3..=128).contains(&name.len())
        && !number
        && [&REPORT_WORDS, &COMMON_ACCOUNTS, &PLACEHOLDERS].iter().all(|words| !words.contains(&lower))
        && !CODE.iter().any(|code| lower.starts_with(code))
}

/// Whether a word looks like a machine's name: it has a digit and is neither a GPU, a service nor a layer of a model.
pub(super) fn is_machine(name: &str) -> bool {
    let short = name.split('.').next().unwrap_or(name).to_lowercase();
    let letters: String = short.chars().take_while(char::is_ascii_alphabetic).collect();
    let number = short.chars().any(|c| c.is_ascii_digit());
    // `a100`, `h100-80gb`, not `a100-03`.
    let gpu = ["a", "b", "h", "l", "t", "v", "p", "gh", "gb", "rtx", "gtx", "mi", "cuda", "sm"]
        .contains(&letters.as_str())
        && (!short.contains('-')
            || ["gb", "sxm", "pcie", "nvl", "ti", "super"].iter().any(|word| short.contains(word)));
    let service =
        ["vllm", "ollama", "llama", "qwen", "gemma", "mistral", "sglang", "tgi", "comfyui", "redis", "postgres"];
    let layer = [
        "conv", "linear", "dense", "layer", "block", "add", "relu", "matmul", "gemm", "mul", "softmax", "concat",
        "reshape", "x",
    ];
    is_telling(name) && number && !gpu && !service.contains(&letters.as_str()) && !layer.contains(&letters.as_str())
}

/// A pattern for machines numbered like the known ones, such as `gpu043` where `gpu042` is known.
pub(super) fn numbered_like(hosts: &BTreeSet<String>) -> Option<Regex> {
    let stems: BTreeSet<String> = hosts.iter().filter_map(|host| numbered(host)).take(16).collect();
    if stems.is_empty() {
        return None;
    }
    pattern(&format!(r"\b(?P<host>{})\b", Vec::from_iter(stems).join("|")))
}

/// A pattern for that machine's name with any number of as many digits.
fn numbered(host: &str) -> Option<String> {
    let stem = host.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = host.len() - stem.len();
    (stem.len() >= 2 && digits >= 2 && is_machine(host)).then(|| format!(r"{}\d{{{digits}}}", regex::escape(stem)))
}

/// Home folders on Linux, macOS, Windows and WSL; all but Linux allow a blank in a name.
pub(super) static HOMES: Pattern = LazyLock::new(|| {
    let name = r"[^\\/\s\x22'`:;,)\]}<>|$*?\x1b]+";
    let source = concat!(
        r"(?:/[\w.@+-]+)*/(?:home\d*|Users)/(?:(?P<first><NAME>(?: [A-Z]<NAME>){1,2})(?P<rest>/)|(?P<user><NAME>)|\$\{?USER\}?)",
        r"|\b[A-Za-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/)(?:(?P<full><NAME>(?: <NAME>){1,2})(?P<rest2>[\\/])|(?P<account><NAME>))"
    );
    pattern(&source.replace("<NAME>", name))
});

/// Folders of users that are not their home: `/scratch/users/ada`.
pub(super) static USERS: Pattern =
    LazyLock::new(|| pattern(r"(?P<before>(?:/[\w.@+-]+)*/(?:users|people|homes)/)(?P<user>[\w.-]*\w)"));

/// A shell's prompt (`ada@box:~$`) or an email address.
pub(super) static PROMPTS: Pattern = LazyLock::new(|| {
    pattern(r"(?m)\b(?P<user>[a-z_][\w.-]*)@(?P<host>[A-Za-z][\w-]*(?:\.[\w-]+)*)(?P<rest>[: ][~/]|[: \])>,;]|$)")
});

/// Whether this is a prompt: `torch@main` and email addresses have no path behind them.
pub(super) fn is_prompt(found: &Captures<'_>) -> bool {
    group(found, "rest").is_some_and(|rest| rest.ends_with(['~', '/']))
}

/// Whether this names a person and a machine; a digest does not, nor the matrix product `q@k`.
pub(super) fn is_person_at_machine(found: &Captures<'_>) -> bool {
    let (user, host) = (group_or_empty(found, "user"), group_or_empty(found, "host"));
    user.len() > 1 && host.len() > 1 && !host.starts_with("sha") && !host.starts_with("self.")
}

/// A full name beside an email address: `Ada Lovelace <ada@example.org>`, and the other way round.
pub(super) static WITH_MAIL: Pattern = LazyLock::new(|| {
    let name =
        r"[A-ZÀ-ÖØ-ÞА-Я][\w'-]+(?: (?:[A-ZÀ-ÖØ-ÞА-Я]\.|von|van|de|der|del|da|bin|al))*(?: [A-ZÀ-ÖØ-ÞА-Я][\w'-]+){1,2}";
    let mail = r"[\w.+-]+@[\w-]+\.[\w.-]+\w";
    let source = concat!(
        r"(?P<first><NAME>)[ \t]*(?:,[ \t]*)?['\x22]?[<(\[]?[ \t]*(?:at |mailto:|e-?mail:? )?(?P<mail><MAIL>)",
        r"|(?P<mail2><MAIL>)[>'\x22]?[ \t]*[,;]?[ \t]*[(\[]?[ \t]*(?P<full><NAME>)",
        r"|(?i:name)\\?['\x22]?[ \t]*[:=][ \t]*\\?['\x22]?(?P<name><NAME>)\\?['\x22]?[^\n@]{0,40}?(?P<mail3><MAIL>)"
    );
    pattern(&source.replace("<NAME>", name).replace("<MAIL>", mail))
});

/// Patterns of text that names people.
pub(super) static PEOPLE: LazyLock<[Option<Regex>; 14]> = LazyLock::new(|| {
    [
        // `[ada@box run]$`, `ada@box run %`.
        pattern(
            r"(?m)^(?:\([\w.-]+\)[ \t]*)?\[?(?P<user>[a-z_][\w.-]*)@(?P<host>[A-Za-z][\w.-]*)[ :][^\n\]$#%]{0,80}(?:\][$#]|[$#%])(?:[ \t]|$)",
        ),
        // `user=ada`, `"username": "ada"`.
        pattern(
            r"(?i)(?:\b|_)(?:user(?:_?name)?|logname)(?:=|\\?['\x22][ \t]*:[ \t]*|[ \t]+=[ \t]+)\\?['\x22]?(?P<user>[a-z_][\w.-]*\w)(?:[^\w.(\[=-]|\.?$|\.\s)",
        ),
        // `User: ada`, unless a sentence goes on behind it.
        pattern(
            r"(?im)\b(?:user(?:[ _]?name)?|owner|logname|login)[ \t]*:[ \t]*(?P<user>(?-i:[a-z_])[\w.-]*\w)[ \t]*(?:$|[ \t]{2}|\t|[,;)|\]]|[ \t](?:uid|host|pid|gid|on)\b)",
        ),
        // The account that a job is charged to: variables and options of Slurm, PBS and LSF.
        pattern(
            r"\b(?:SLURM_JOB_ACCOUNT|S(?:BATCH|ALLOC|LURM)_ACCOUNT|SLURM_JOB_USER|PBS_(?:ACCOUNT|O_LOGNAME)|LSB_(?:PROJECT_NAME|USER)|SGE_ACCOUNT|SGE_O_LOGNAME)['\x22]?[ \t]*[=:][ \t]*['\x22]?(?P<account>[\w.-]*\w)",
        ),
        pattern(
            r"(?:(?m:^[ \t]*#(?:SBATCH|PBS|SLURM))[ \t]+|\b(?:sbatch|srun|salloc|qsub|sacct|squeue|sreport)\b[^\n|;]*?[ \t])(?:--account(?:=|[ \t]+)|-A[ \t]*)['\x22]?(?P<account>[\w.-]*\w)",
        ),
        // `Account: ada-lab`, `git config user.name "Ada Lovelace"`, and a line of /etc/passwd.
        pattern(concat!(
            r"(?m)(?:^|[\s,;{'\x22])(?i:account(?:[ _-]?name)?)\\?['\x22]?[ \t]*[=:][ \t]*\\?['\x22]?(?P<account>[a-z][\w.-]*\w)(?:['\x22,; \t)}]|$)",
            r"|\b(?:user\.name|(?i:git_(?:author|committer)_name|full[ _]?name|real[ _]?name))['\x22]?[ \t]*[=: \t][ \t]*['\x22]?(?P<full>[A-ZÀ-ÖØ-ÞА-Я][\w'-]+(?: [A-ZÀ-ÖØ-ÞА-Я][\w'-]+){1,2})",
            r"|^(?P<user>[a-z_][\w.-]*):x?:\d{3,}:\d+:(?P<first>[^:,\n]*)[^:\n]*:/"
        )),
        pattern(r"\be?[ug]id=\d+\((?P<user>[A-Za-z_][\w.-]*)\)"),
        pattern(
            r"(?i)\bpass(?:word|phrase|code)[ \t]+(?:for|of)[ \t]+(?:user[ \t]+)?(?P<user>[\w.-]*\w)(?:@(?P<host>[\w.-]*\w))?",
        ),
        // The login of W&B and its team.
        pattern(r"(?i)\blogged in as:?[ \t]+(?P<user>[\w.-]*\w)(?:[ \t]+\((?P<team>[\w.-]+)\))?"),
        pattern(r"(?i)\b(?:wandb[_.-]?entity|wandb_team)['\x22]?[ \t]*[=: ][ \t]*['\x22]?(?P<user>[\w.-]*\w)"),
        // Lines of sshd and PAM, and options of commands.
        pattern(concat!(
            r"(?:\bsession (?:opened|closed) for user |\b(?:Accepted|Failed) \w+ for (?:invalid user )?|\bsudo -u[ \t]*",
            r"|\bssh [^\n|;]*?-l[ \t]*|\blogin\b[^\n|;]*?[ \t]-u[ \t]+|[ \t]--user-?name[ =]|\b(?i:mysql|mariadb)[\w-]*[^\n|;]*?[ \t]-u[ \t]*)",
            r"['\x22]?(?P<user>[A-Za-z_][\w.-]*\w)"
        )),
        // `ls -l`.
        pattern(r"(?m)^[-dl][-rwxsStT]{9}[.+@]?[ \t]+\d+[ \t]+(?P<user>[A-Za-z_][\w.-]*)[ \t]"),
        // `ps aux`, and gpustat's `ada(1234M)`.
        pattern(concat!(
            r"(?m)^(?P<user>[a-z_][\w.-]*)\+?[ \t]+\d+[ \t]+\d+\.\d[ \t]+\d+\.\d[ \t]+\d+[ \t]+\d+[ \t]",
            r"|\|[ \t][^\n|]*?\b(?P<team>[a-z_][\w.-]*)(?::[\w./-]+)?\(\d+M\)"
        )),
        // `squeue`.
        pattern(concat!(
            r"(?m)^[ \t]*\d+(?:_[\d\[\]%-]+)?[ \t]+\S+[ \t]+\S+[ \t]+(?P<user>[a-z_][\w.-]*)[ \t]+(?:R|PD|CG|CD|F|OOM|RUNNING|PENDING)",
            r"[ \t]+[\d:-]+[ \t]+(?:\S+[ \t]+)?\d+[ \t]+(?P<host>[A-Za-z][\w.-]*)"
        )),
    ]
});

/// Patterns of text by system logs, job schedulers and launchers that names a machine.
pub(super) static MACHINES: LazyLock<[Option<Regex>; 10]> = LazyLock::new(|| {
    [
        pattern(r"(?m)\b[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d (?P<host>[A-Za-z][\w.-]*) [\w./()-]+(?:\[\d+\])?:"),
        pattern(
            r"(?m)\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.,+:Z-]* (?P<host>[A-Za-z][\w.-]*) (?:kernel|[\w./()-]+\[\d+\]):",
        ),
        pattern(r"\bON (?P<host>[A-Za-z][\w.-]*) CANCELLED\b"),
        pattern(r"(?m)\bsrun: error: (?P<host>[A-Za-z][\w.-]*): task"),
        pattern(r"(?m)^\s*host\s+: (?P<host>[A-Za-z][\w.-]*)"),
        // `MASTER_ADDR=box`, `"hostname": "box"`, `--rdzv_endpoint=box:29500`.
        pattern(
            r"(?i)\b(?:hostname|master_?addr(?:ess)?|(?:slurmd?_)?nodename|rdzv[-_]endpoint)\\?['\x22]?(?:[ \t]*[=:][ \t]*|[ \t]+)\\?['\x22]?(?P<host>[a-z][\w.-]*\w)(?:[^\w.(\[-]|\.?$|\.\s)",
        ),
        // NCCL's `box:1234:1260 [0] NCCL`, Open MPI's `[box:1234] ***`, DeepSpeed's `box: [2026-`.
        pattern(concat!(
            r"(?m)(?:^|[ \t])(?P<host>[A-Za-z][\w.-]*):\d+:\d+ \[\d+\] NCCL\b|\[(?P<host2>[A-Za-z][\w.-]*):\d+\] (?:\*\*\*|PMIX|mca|\[\[)",
            r"|^(?P<host3>[a-z][\w.-]*\d): \[\d{4}-\d\d-\d\d"
        )),
        pattern(
            r"\b(?:ssh: connect to host|Connection to|failed to connect to \[?|Could not resolve hostname) ?(?P<host>[a-z][\w.-]*\w)",
        ),
        // A Windows share: `\\nas\data`, and the same as Python prints it.
        pattern(r"(?m)(?:^|[\s\x22'=(\[,])\\{2,4}(?P<host>[A-Za-z][\w-]*(?:\.[\w-]+)*)\\{1,2}[\w$]"),
        pattern(r"(?P<host>\b(?:ip-\d+-\d+-\d+-\d+|(?:DESKTOP|LAPTOP|WIN)-[A-Z0-9]{7,11})\b)"),
    ]
});

/// Patterns of words that are a machine only if they look like one: `node gpu042`, `Host: box-3`.
pub(super) static MAYBE_MACHINES: LazyLock<[Option<Regex>; 2]> = LazyLock::new(|| {
    [
        pattern(concat!(
            r"(?im)(?:^|[\s(,;'\x22])(?:exec[ _]?host|host|node(?:[ _]?(?:list|name))?|nodelist|--nodelist|--host|-w)\\?['\x22]?[ \t]*[=: ]",
            r"[ \t]*\\?['\x22]?(?P<host>[a-z][a-z0-9.-]*[a-z0-9])(?:[^\w.\[(-]|/\d|\.?$|\.\s)"
        )),
        pattern(r"(?i)\b(?:slurm_(?:job_)?)?nodelist=(?P<host>[a-z][a-z0-9-]*\[[\d,-]+\])"),
    ]
});
