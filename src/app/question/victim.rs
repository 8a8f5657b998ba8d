//! Owns a process as a question names it, and how many of them are named in few lines.

use crate::advice::supervisor::Supervisor;
use crate::gpu::ProcessKey;
use crate::gpu::running::Running;
use crate::units::{Bytes, WallTime};

/// A process as the question names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    pub key: ProcessKey,
    /// What it is, as people know it, with its PID.
    pub name: String,
    /// The same without the PID, where it says more than the command line.
    pub what: Option<String>,
    pub command: String,
    pub image: Option<u32>,
    pub uid: Option<u32>,
    pub user: String,
    /// Whether that is the viewer.
    pub yours: bool,
    /// When it was started.
    pub started_at: Option<WallTime>,
    /// What it uses, over all devices; `None` where the driver does not say.
    pub held: Option<Bytes>,
    pub devices: Vec<u32>,
    /// What speaks for terminating it.
    pub evidence: Vec<String>,
    /// The supervisor that may restart it.
    pub supervisor: Option<Supervisor>,
    /// The process that it should end with: that one is signalled first, and this one only if it still runs afterwards.
    pub follows: Option<ProcessKey>,
}

impl Victim {
    /// Its most telling name.
    pub fn called(&self) -> &str {
        let command = Some(self.command.as_str()).filter(|command| !command.is_empty());
        self.what.as_deref().or(command).unwrap_or("a process without a name")
    }

    pub fn running(&self) -> Running {
        Running { command: self.command.clone(), image: self.image, user: self.uid }
    }

    /// Its PID, memory and name.
    pub fn in_one_line(&self) -> String {
        format!("{}  {}  {}", self.key.pid, self.holding(), self.called())
    }

    /// Its PID, with its memory where it has any.
    fn pid_and_memory(&self) -> String {
        match self.held {
            Some(held) if held > Bytes::ZERO => format!("{} ({held})", self.key.pid),
            _ => self.key.pid.to_string(),
        }
    }

    /// How much memory it uses and where, in a few words.
    pub fn holding(&self) -> String {
        let devices: Vec<String> = self.devices.iter().map(u32::to_string).collect();
        match (self.held, devices.is_empty()) {
            (Some(Bytes::ZERO), true) => "no GPU memory itself".into(),
            (None, true) => "GPU memory unknown".into(),
            (held, _) => format!("{} on GPU {}", crate::advice::amount(held), devices.join(", ")),
        }
    }
}

/// What tells each of these from others that are called the same: the words of its command line that the others do not
/// have. Empty where its name is its own.
pub(crate) fn telling_apart(victims: &[&Victim]) -> Vec<String> {
    victims.iter().map(|victim| apart_from_its_like(victim, victims)).collect()
}

fn apart_from_its_like(victim: &Victim, among: &[&Victim]) -> String {
    let words = |of: &Victim| -> Vec<String> { of.command.split_whitespace().map(str::to_owned).collect() };
    let like = among.iter().filter(|other| other.key != victim.key && other.called() == victim.called());
    let others: Vec<Vec<String>> = like.map(|other| words(other)).collect();
    let own = words(victim);
    if others.is_empty() {
        return String::new();
    }
    if others.iter().all(|other| *other == own) {
        return if own.is_empty() { String::new() } else { "same command line".to_owned() };
    }
    let most = others.iter().map(Vec::len).min().unwrap_or(0).min(own.len());
    let mut first = (0..most).take_while(|at| others.iter().all(|other| other.get(*at) == own.get(*at))).count();
    let from_the_end = |of: &[String], at: usize| of.iter().rev().nth(at).cloned();
    let last = (0..most - first)
        .take_while(|at| others.iter().all(|other| from_the_end(other, *at) == from_the_end(&own, *at)))
        .count();
    // A value says nothing without its option.
    let is_value = own.get(first).is_some_and(|word| !word.starts_with('-'));
    if first > 0 && is_value && own.get(first - 1).is_some_and(|word| word.starts_with('-')) {
        first -= 1;
    }
    let own = own.get(first..own.len() - last).unwrap_or_default();
    if own.is_empty() { "no further arguments".to_owned() } else { own.join(" ") }
}

/// The workers among the victims, each of them named: a line each where there is room, else as many to a line as fit.
pub(crate) fn workers(victims: &[Victim], width: usize, room: usize) -> Vec<String> {
    let workers: Vec<&Victim> = victims.iter().filter(|victim| victim.follows.is_some()).collect();
    let (with, without): (Vec<&Victim>, Vec<&Victim>) =
        workers.into_iter().partition(|victim| victim.held.is_some_and(|held| held > Bytes::ZERO));
    let helpers = folded(&without, width);
    if with.len() + helpers.len() <= room {
        return with.iter().map(|victim| format!("  {}", victim.in_one_line())).chain(helpers).collect();
    }
    folded(&with, width).into_iter().chain(helpers).collect()
}

/// Processes of one name together, each with its PID and its memory.
fn folded(victims: &[&Victim], width: usize) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for victim in victims {
        if !names.contains(&victim.called()) {
            names.push(victim.called());
        }
    }
    let mut lines = Vec::new();
    for name in names {
        let alike = victims.iter().filter(|victim| victim.called() == name);
        let alike: Vec<String> = alike.map(|victim| victim.pid_and_memory()).collect();
        let many = if alike.len() == 1 { String::new() } else { format!("{} × ", alike.len()) };
        let text = format!("  {many}{name}: {}", alike.join(", "));
        let options = textwrap::Options::new(width.max(20)).subsequent_indent("    ");
        lines.extend(textwrap::wrap(&text, options).into_iter().map(|line| line.into_owned()));
    }
    lines
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::app::question) fn victim(pid: u32, what: &str, held: Option<Bytes>) -> Victim {
        Victim {
            key: ProcessKey { pid, start_ticks: 1 },
            name: String::new(),
            what: Some(what.into()),
            command: String::new(),
            image: None,
            uid: None,
            user: String::new(),
            yours: true,
            started_at: None,
            held,
            devices: vec![],
            evidence: vec![],
            supervisor: None,
            follows: Some(ProcessKey { pid: 1, start_ticks: 1 }),
        }
    }

    #[test]
    fn processes_of_one_name_are_told_apart_by_their_arguments() {
        let of = |pid: u32, command: &str| Victim { command: command.into(), ..victim(pid, "train.py", None) };
        let told = |commands: &[&str]| {
            let all: Vec<Victim> = (1..).zip(commands).map(|(pid, command)| of(pid, command)).collect();
            telling_apart(&all.iter().collect::<Vec<_>>())
        };
        assert_eq!(told(&["python train.py --lr 1 --fast", "python train.py --lr 2 --fast"]), ["--lr 1", "--lr 2"]);
        assert_eq!(told(&["python train.py", "python train.py --resume"]), ["no further arguments", "--resume"]);
        assert_eq!(told(&["python /a/train.py", "python /b/train.py"]), ["/a/train.py", "/b/train.py"]);
        assert_eq!(told(&["a x", "a x"]), ["same command line", "same command line"]);
        assert_eq!(told(&["python train.py"]), [""]);
        assert_eq!(told(&["", ""]), ["", ""]);
        let other = victim(9, "serve.py", None);
        assert_eq!(telling_apart(&[&of(1, "a"), &other]), ["", ""]);
    }

    #[test]
    fn everybody_is_named_also_where_the_driver_gives_no_figures() {
        let mut victims: Vec<Victim> = (10..14).map(|pid| victim(pid, "VLLM::Worker", None)).collect();
        victims.push(victim(20, "rank", Some(Bytes::gib(9))));
        assert_eq!(workers(&victims, 60, 9), ["  20  9.0 GiB on GPU   rank", "  4 × VLLM::Worker: 10, 11, 12, 13"]);
        assert_eq!(workers(&victims, 60, 1), ["  rank: 20 (9.0 GiB)", "  4 × VLLM::Worker: 10, 11, 12, 13"]);
    }
}
