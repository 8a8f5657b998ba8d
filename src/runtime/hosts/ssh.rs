//! Owns reading machines through `ssh`: one child each, started one after the other, each with its own deadline.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::hosts::ssh::{argv, why};
use crate::hosts::{Asked, HostName, HostReading, Through, Unavailable};
use crate::platform::{News, Sampling};
use crate::runtime::commands::{all_of, run_until};

/// A connection and two readings take no longer on a machine that is well.
const PATIENCE: Duration = Duration::from_secs(12);
/// So many connections are opened at once.
const AT_ONCE: usize = 32;

/// The machines that are asked for; empty where none are.
pub(super) fn read(asked: &Asked, sampling: &Sampling) -> Vec<HostReading> {
    let mut readings = Vec::new();
    for hosts in asked.hosts.chunks(AT_ONCE) {
        readings.extend(thread::scope(|scope| {
            let reading: Vec<_> = hosts.iter().map(|host| scope.spawn(move || read_one(host, sampling))).collect();
            reading.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
        }));
    }
    readings
}

fn read_one(host: &HostName, sampling: &Sampling) -> HostReading {
    let unavailable = |why| HostReading::unavailable(host.clone(), Through::Ssh, why);
    let remote = format!("oomdoctor --interval {} sample --count 2", sampling.interval.as_secs_f64());
    let argv = argv(host, &remote);
    let Some((program, arguments)) = argv.split_first() else { return unavailable(Unavailable::new("no command")) };
    let mut command = Command::new(program);
    command.args(arguments);
    let said = match run_until(command, false, Instant::now() + PATIENCE, all_of) {
        Ok(said) => said,
        Err(failure) => return unavailable(Unavailable::new(failure.in_words(&argv))),
    };
    understood(host, &said.text).unwrap_or_else(|| unavailable(why(host, said.code, &said.about)))
}

/// What a machine wrote, from its header on: a shell's profile may print before it.
fn understood(host: &HostName, text: &[u8]) -> Option<HostReading> {
    let mut lines = text.split(|byte| *byte == b'\n').skip_while(|line| !line.starts_with(b"{\"schema\""));
    let Ok(News::Header(header)) = News::parse(lines.next()?, true) else { return None };
    let mut snapshots = lines.filter_map(|line| match News::parse(line, false) {
        Ok(News::Snapshot(snapshot)) => Some(Box::new(snapshot.harmless())),
        _ => None,
    });
    Some(HostReading {
        name: host.clone(),
        also: Vec::new(),
        boot_id: header.boot_id,
        through: Through::Ssh,
        seen: Ok((snapshots.next()?, snapshots.next())),
        age: None,
        users: Vec::new(),
        allotment: None,
    })
}
