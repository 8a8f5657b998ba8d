//! Owns what a report leaves out before it is shown to others: tokens and passwords, home folders, names of
//! users and hosts, network addresses. The number of lines stays the same. `secrets` finds the secrets, `names`
//! the people and machines.

mod addresses;
mod contacts;
mod names;
mod secrets;
mod table;
mod urls;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;

use self::names::{HOST, TABLE, USER, is_machine, is_own, is_telling};
use self::table::{group, group_or_empty};

/// The text without tokens and passwords, with the names of people and machines as they are.
pub fn without_secrets(text: &str) -> String {
    secrets::left_out(text)
}

/// The names that are known before any text is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub users: BTreeSet<String>,
    /// Those of the person who writes the report: short ones are left out, too.
    pub own: BTreeSet<String>,
    pub hosts: BTreeSet<String>,
    /// Whether user names match in any case, as on Windows. Host names always do.
    pub users_ignore_case: bool,
}

impl Names {
    /// Adds the names that stand in the text: in home folders, prompts, settings, tables and the prefixes
    /// of a system log.
    pub fn learn(&mut self, text: &str) {
        let users = TABLE.users.captures(text);
        let users = users.filter(|found| group(found, "before").is_some_and(|before| names::is_storage(&before)));
        let named = TABLE.people.iter().chain(&TABLE.machines).flat_map(|pattern| pattern.captures(text));
        let prompts = TABLE.prompts.captures(text).filter(names::is_prompt);
        let homes = TABLE
            .homes
            .captures(text)
            .filter(|found| found.get(0).is_some_and(|home| !is_within_address(text, home.start())));
        let homes: Vec<_> = homes.collect();
        self.users_ignore_case |= homes.iter().any(|home| home.name("account").or(home.name("full")).is_some());
        for found in homes.into_iter().chain(users).chain(prompts).chain(named) {
            self.users.extend(["user", "account", "team"].iter().filter_map(|name| group(&found, name)));
            for full in ["first", "full"].iter().filter_map(|name| group(&found, name)) {
                self.users.extend(full.split(' ').map(str::to_owned));
                self.users.insert(full);
            }
            self.hosts.extend(["host", "host2", "host3"].iter().filter_map(|name| group(&found, name)));
        }
        self.users.extend(people_with_mail(text));
        let maybe = TABLE.maybe_machines.iter().flat_map(|pattern| pattern.captures(text));
        self.hosts.extend(
            maybe.filter_map(|found| group(&found, "host")).filter(|host| is_machine(host) || urls::is_private(host)),
        );
        self.hosts.extend(urls::hosts(text));
        // The part before the network's name names the machine as well.
        let short = self.hosts.iter().filter_map(|host| host.split_once('.')).map(|(short, _)| short);
        let short: Vec<String> = short.filter(|short| is_machine(short)).map(str::to_owned).collect();
        self.hosts.extend(short);
        let alike = names::numbered_like(&self.hosts);
        self.hosts.extend(alike.captures(text).filter_map(|found| group(&found, "host")));
    }

    /// The text without these names, and without tokens, passwords, home folders and addresses.
    pub fn redacted(&self, text: &str) -> String {
        let mut text = urls::left_out(&without_secrets(text));
        text = TABLE.homes.replace(&text, |found| {
            let at = found.get(0)?.start();
            let rest = group(found, "rest").unwrap_or_else(|| group_or_empty(found, "rest2"));
            (!is_within_address(&text, at)).then(|| format!("~{rest}"))
        });
        text = TABLE
            .users
            .replace(&text, |found| is_telling(&group(found, "user")?).then(|| group_or_empty(found, "before") + USER));
        text = TABLE.prompts.replace(&text, |found| {
            names::is_person_at_machine(found).then(|| format!("{USER}@{HOST}{}", group_or_empty(found, "rest")))
        });
        text = self.without_names(&text);
        addresses::left_out(&contacts::left_out(&text))
    }

    /// Replaces every name that is not part of a longer word, the longest first, and a host with its network. The name
    /// of a scheme (`postgres://`) or of a setting (`box=7.5`, `box_loss`) stays.
    fn without_names(&self, text: &str) -> String {
        let hosts = places(self.hosts.iter().filter(|name| is_telling(name)), HOST, true, text);
        let own = self.own.iter().filter(|name| is_own(name));
        let users = self.users.iter().filter(|name| is_telling(name)).chain(own);
        let users = places(users, USER, self.users_ignore_case, text);
        let mut places = [hosts, users].concat();
        places.sort_unstable();
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for (start, Reverse(end), instead) in places {
            if start >= from {
                out.push_str(text.get(from..start).unwrap_or_default());
                out.push_str(instead);
                from = end;
            }
        }
        out.push_str(text.get(from..).unwrap_or_default());
        out
    }
}

/// The places of these names, each with its end and its replacement.
fn places<'a>(
    names: impl Iterator<Item = &'a String>,
    instead: &'static str,
    ignores_case: bool,
    text: &str,
) -> Vec<(usize, Reverse<usize>, &'static str)> {
    let Ok(automaton) = AhoCorasick::builder().ascii_case_insensitive(ignores_case).build(names) else {
        return Vec::new();
    };
    let places = automaton.find_overlapping_iter(text).filter_map(|found| {
        let before = text.get(..found.start())?.chars().next_back();
        let behind = text.get(found.end()..)?;
        let mut around = [before, behind.chars().next()].into_iter().flatten();
        let alone = around.all(|c| !(c.is_alphanumeric() || c == '_' && instead == HOST));
        let setting = behind.starts_with("://") || behind.starts_with('=') && before != Some('/');
        let end = found.end() + if instead == HOST { network(behind) } else { 0 };
        (alone && !setting).then_some((found.start(), Reverse(end), instead))
    });
    places.collect()
}

/// Full names beside an email address, and those of their parts that the address contains.
fn people_with_mail(text: &str) -> BTreeSet<String> {
    let mut people = BTreeSet::new();
    for found in TABLE.with_mail.captures(text) {
        let mail =
            ["mail", "mail2", "mail3"].iter().find_map(|name| group(&found, name)).unwrap_or_default().to_lowercase();
        let Some(full) = ["first", "full", "name"].iter().find_map(|name| group(&found, name)) else { continue };
        let parts = full.split(' ').filter(|part| part.len() >= 3 && mail.contains(&part.to_lowercase()));
        people.extend(parts.map(str::to_owned));
        people.insert(full.clone());
    }
    people
}

/// Whether this place is within a URL: `https://example.org/home/docs` has no home folder.
fn is_within_address(text: &str, at: usize) -> bool {
    // The first slash of the path is included, since it may be the second one of `://`.
    let before = text.get(..=at).unwrap_or_default();
    let word = before.rsplit(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`')).next().unwrap_or_default();
    word.rsplit_once("://").is_some_and(|(scheme, _)| scheme.ends_with("http") || scheme.ends_with("https"))
}

/// The length of the network's name behind a host: `.cluster`, `.hpc.example.org`, but not `.log`.
fn network(behind: &str) -> usize {
    let end = behind.find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '.' | '-')).unwrap_or(behind.len());
    let name = behind.get(..end).unwrap_or_default().trim_end_matches(['.', '-']);
    let parts: Vec<&str> = name.split('.').skip(1).collect();
    let is_network = match parts.as_slice() {
        [only] => urls::is_private_end(only),
        [.., last] => last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_lowercase()),
        [] => false,
    };
    if name.starts_with('.') && is_network { name.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::table::parsed;
    use super::*;

    fn redacted(text: &str) -> String {
        let mut names =
            Names { users: ["ada".to_owned()].into(), hosts: ["box17".to_owned()].into(), ..Names::default() };
        names.learn(text);
        names.redacted(text)
    }

    #[test]
    fn ones_own_name_of_two_letters_is_left_out_and_anybody_elses_stays_a_word() {
        let own = Names { own: ["jo".to_owned()].into(), users: ["al".to_owned()].into(), ..Names::default() };
        assert_eq!(own.redacted("run by jo, job 3, al dente"), "run by USER, job 3, al dente");
    }

    #[test]
    fn every_table_parses() {
        parsed::<Vec<(String, String)>>("parts").unwrap();
        parsed::<names::Table>("names").unwrap();
        parsed::<urls::Table>("urls").unwrap();
        parsed::<contacts::Table>("contacts").unwrap();
        parsed::<addresses::Table>("addresses").unwrap();
    }

    #[test]
    fn what_only_looks_like_a_secret_stays() {
        for text in [
            "vllm serve m --max-num-batched-tokens 8192 --tokenizer-mode auto --max-tokens 5",
            "print_info: EOS token        = 128009 '<|eot_id|>'",
            "eos_token: <|endoftext|>, 12.34 ms per token, 81.0 tokens per second",
            "from huggingface_hub import hf_hub_download; hf_transfer; hf_quantizer_base",
            "--eos-token 2",
            "PWD=/srv PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True CUDA_VISIBLE_DEVICES=0",
            "docker run image@sha256:0123456789abcdef, PID@START 4242@162083",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB.",
            "missing_keys: 12, KeyError: 'key'",
            "secrets = [s for s in self.secrets] credentials = (await self.credentials()) def load(credentials=(None, None))",
            "Loaded 3 secrets: (a.yaml, b.yaml) access_tokens: (batch, seq) gpu pin: 0000:3b:00.0",
            "secrets:\ncontainers:\n- name: train",
            "imagePullSecrets:\n- name: regcred",
            "secrets:\n  db_password:\n    file: ./x",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn what_only_looks_like_a_name_stays() {
        for text in [
            "postgres://db:5432 of user=postgres",
            "user=torch.Tensor username = get_user() user: Hello there, user='None' {\"role\": \"user\"}",
            "node A100 has Node 0, {{node conv2d_3/Conv2D}} node v18.2.0; on host: CUDA_ERROR_OUT_OF_MEMORY",
            "host=cuda:0 host: cpu --host 0.0.0.0 hostname: str = socket.gethostname() hostname = args.hostname",
            "prompt@box7:~$ x=1", // Learned below as a user of its own.
            "pip install --user torch; q@k x = w@v.T",
            "GET /home/ failed",
            "Enter passphrase for key '~/.ssh/id': key_states = repeat_kv(key_states, n)",
            "password for database x, the password for keyring x, logged in as batch",
        ] {
            let want = text.replace("prompt@box7", "USER@HOST");
            assert_eq!(redacted(text), want);
        }
        assert_eq!(redacted("wei@box:~$ x\nbox_loss cls_loss box=7.5"), "USER@HOST:~$ x\nbox_loss cls_loss box=7.5");
    }

    #[test]
    fn machines_go_whatever_their_case_and_people_as_windows_does() {
        let own = Names { hosts: ["DESKTOP-ADA17".to_owned(), "ACME".to_owned()].into(), ..Names::default() };
        assert_eq!(own.redacted("on desktop-ada17, Desktop-Ada17.local"), "on HOST, HOST");
        let windows = Names { users: ["Ada".to_owned()].into(), users_ignore_case: true, ..own };
        assert_eq!(windows.redacted(r"whoami: acme\ada, Canada"), r"whoami: HOST\USER, Canada");
        assert_eq!(redacted(r"C:\Users\Grace\x by grace"), r"~\x by USER", "the log is Windows' own");
        assert_eq!(redacted("/home/grace/x on a Grace Hopper"), "~/x on a Grace Hopper");
        assert_eq!(redacted(r"open \\nas-lab\share\x of nas-lab"), r"open \\HOST\share\x of HOST");
        assert_eq!(redacted(r"'\\\\nas-lab\\share'"), r"'\\\\HOST\\share'");
        assert_eq!(redacted(r"\\?\D:\x \\wsl$\Ubuntu \\.\pipe\x"), r"\\?\D:\x \\wsl$\Ubuntu \\.\pipe\x");
    }

    #[test]
    fn homes_users_and_hosts_go() {
        for (text, want) in [
            ("File \"/home/grace/run/train.py\", of grace", "File \"~/run/train.py\", of USER"),
            ("/Users/grace/a.gguf", "~/a.gguf"),
            (r"C:\Users\Grace\a.gguf and C:\\Users\\Grace\\b", r"~\a.gguf and ~\\b"),
            ("host=db.int.corp\nHost: llm.corp.example", "host=HOST\nHost: HOST"),
            ("grace@gpu3:~/run$ python train.py", "USER@HOST:~/run$ python train.py"),
            ("mail ada@example.org, please", "mail USER@HOST, please"),
            ("Nov 20 10:00:00 gpu3 kernel: Out of memory", "Nov 20 10:00:00 HOST kernel: Out of memory"),
            ("slurmstepd: error: *** JOB 1 ON gpu3 CANCELLED AT", "slurmstepd: error: *** JOB 1 ON HOST CANCELLED AT"),
            (
                "/scratch/ada/x on box17.cluster, not in adapt or Canada",
                "/scratch/USER/x on HOST, not in adapt or Canada",
            ),
            ("/home/ubuntu/x of ubuntu, root", "~/x of ubuntu, root"),
            ("/gpfs/home/judy/run of judy", "~/run of USER"),
            ("PATH=/home1/judy/bin:/data/home/judy/x -I/home/judy/y", "PATH=~/bin:~/x -I~/y"),
            ("/Users/Ada Lovelace/x by Lovelace", "~/x by USER"),
            (r"C:\Users\Ada Lovelace\x", r"~\x"),
            ("file:///home/judy/x https://example.org/home/docs", "file://~/x https://example.org/home/docs"),
            ("/scratch/users/heidi/x of heidi", "/scratch/users/USER/x of USER"),
            ("GET /api/users/list gave a list", "GET /api/users/USER gave a list"),
            ("user=ivan /data/ivan/x", "user=USER /data/USER/x"),
            ("User: peggy  uid=1007(peggy) gid=50(staff2)", "User: USER  uid=1007(USER) gid=50(USER)"),
            ("{\"username\":\"yolanda\"} yolanda", "{\"username\":\"USER\"} USER"),
            ("password for xavier: x\n/data/xavier", "password for USER: [redacted]\n/data/USER"),
            ("docker login -u victor -p x; ~victor", "docker login -u USER -p [redacted]; ~USER"),
            ("[olga@gpu07 imgnet]$ ls /data/olga # gpu07", "[USER@HOST imgnet]$ ls /data/USER # HOST"),
            ("wandb: Currently logged in as: oscar (acme-ml)", "wandb: Currently logged in as: USER (USER)"),
            (
                "https://wandb.ai/acme/x/runs/1 --wandb_entity acme",
                "https://wandb.ai/USER/x/runs/1 --wandb_entity USER",
            ),
            (
                "peggy     4242 99.0  1.2 123456 7890 pts/0 R+ python",
                "USER     4242 99.0  1.2 123456 7890 pts/0 R+ python",
            ),
            (
                "| 21000 / 24576 MB | peggy:python/4242(9000M) judy(3M)",
                "| 21000 / 24576 MB | USER:python/4242(9000M) judy(3M)",
            ),
            ("  4242  gpu  train  heidi  R  1:02:03  1 gpu042", "  4242  gpu  train  USER  R  1:02:03  1 HOST"),
            ("host=dgx-a100-03: dgx-a100-03.hpc.example.edu", "host=HOST: HOST"),
            ("failed on node gpu042, hostname: box", "failed on node HOST, hostname: HOST"),
            (
                "export MASTER_ADDR=trainer MASTER_PORT=29500\ntrainer:1:2 [0] NCCL INFO",
                "export MASTER_ADDR=HOST MASTER_PORT=29500\nHOST:1:2 [0] NCCL INFO",
            ),
            (
                "--rdzv_endpoint=nid001:29500 SLURM_NODELIST=gpu[01-04]",
                "--rdzv_endpoint=HOST:29500 SLURM_NODELIST=HOST",
            ),
            (
                "node gpu042; mpirun -H gpu042:8,gpu043:8 gpu1 gpu0421",
                "node HOST; mpirun -H HOST:8,HOST:8 gpu1 gpu0421",
            ),
            ("node a100-03, KAGGLE_USERNAME=yolanda ~yolanda", "node HOST, KAGGLE_USERNAME=USER ~USER"),
            ("-rw-r--r-- 1 heidi mlteam 4096 x\n/data/heidi", "-rw-r--r-- 1 USER mlteam 4096 x\n/data/USER"),
            ("[nid002:77] *** Process received signal", "[HOST:77] *** Process received signal"),
            ("nid003: [2026-11-21 10:00:00] x", "HOST: [2026-11-21 10:00:00] x"),
            ("https://git.corp.example.com/x, git.corp.example.com", "https://HOST/x, HOST"),
        ] {
            assert_eq!(redacted(text), want);
        }
    }
}
