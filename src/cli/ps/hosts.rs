//! Owns `oomdoctor ps` over several machines: one line each, then the processes that use VRAM, as a table or as JSON.

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;

use super::json::Listing;
use super::{UNKNOWN, Watched};
use crate::cli::output::{pretty, print, refuse};
use crate::cli::settings::Global;
use crate::gpu::{Device, Reading, SCHEMA};
use crate::hosts::{Allotment, Asked, DeviceUser, HostReading, Through};
use crate::runtime;
use crate::units::Bytes;

/// What `oomdoctor ps --json` prints for several machines.
#[derive(Serialize, JsonSchema)]
pub(in crate::cli) struct Listings<'a> {
    /// The version of this format.
    schema: u32,
    hosts: Vec<HostListing<'a>>,
}

/// A machine as it was seen.
#[derive(Serialize, JsonSchema)]
struct HostListing<'a> {
    /// Its name as it was asked for, or as its scheduler has it.
    host: &'a str,
    /// Other names that lead to the same machine.
    also: Vec<&'a str>,
    /// /proc/sys/kernel/random/boot_id of that machine; null where it is unknown.
    boot_id: Option<&'a str>,
    through: Through,
    /// Null where the machine could not be read: see `unavailable`.
    snapshot: Option<Listing<'a>>,
    /// Why it could not be read, and what to do about it; null where it could.
    unavailable: Option<String>,
    /// How old the oldest figure was, where another program such as Prometheus had taken it before; null where the figures
    /// were read just then, or where the age is unknown.
    age_seconds: Option<u64>,
    /// Who uses its GPUs, where the source tells that without processes.
    users: &'a [DeviceUser],
    /// What a scheduler says of its GPUs; null where none was asked.
    allotment: Option<&'a Allotment>,
}

/// Exits with 1 if no machine could be read.
pub(super) fn run(global: &Global, asked: &Asked, json: bool) -> ExitCode {
    let readings = runtime::hosts::read(asked, &global.sampling);
    let watched: Vec<Option<Watched>> = readings.iter().map(watched).collect();
    let code = if watched.iter().any(Option::is_some) { ExitCode::SUCCESS } else { ExitCode::from(1) };
    let text = if json { pretty(&listings(&readings, &watched)) } else { Ok(as_text(&readings)) };
    match text {
        Ok(text) => print(&text, code),
        Err(message) => refuse(&message),
    }
}

fn watched(reading: &HostReading) -> Option<Watched> {
    let (first, second) = reading.seen.as_ref().ok()?;
    Some(Watched::of(((**first).clone(), second.as_deref().cloned())))
}

fn listings<'a>(readings: &'a [HostReading], watched: &'a [Option<Watched>]) -> Listings<'a> {
    let hosts = readings.iter().zip(watched).map(|(reading, watched)| HostListing {
        host: reading.name.as_str(),
        also: reading.also.iter().map(|name| name.as_str()).collect(),
        boot_id: reading.boot_id.as_deref(),
        through: reading.through,
        snapshot: watched.as_ref().map(Listing::of),
        unavailable: reading.seen.as_ref().err().map(ToString::to_string),
        age_seconds: reading.age.map(|age| age.as_secs()),
        users: &reading.users,
        allotment: reading.allotment.as_ref(),
    });
    Listings { schema: SCHEMA, hosts: hosts.collect() }
}

fn as_text(readings: &[HostReading]) -> String {
    let mut text = String::new();
    for reading in readings {
        let line = match &reading.seen {
            Ok(_) => {
                let count = reading.snapshot().map_or(0, |seen| seen.devices.len());
                let age = reading.age.map(|age| format!(", {} s old", age.as_secs())).unwrap_or_default();
                format!("{}: {count} GPUs{age}", reading.name)
            }
            Err(why) => format!("{}: {why}", reading.name),
        };
        text.push_str(&line);
        text.push('\n');
        for (position, device) in reading.snapshot().iter().flat_map(|seen| &seen.devices).enumerate() {
            text.push_str(&device_line(reading, position, device));
        }
    }
    text
}

fn device_line(reading: &HostReading, position: usize, device: &Device) -> String {
    let figure = |bytes: &Reading<Bytes>| bytes.value().map_or(UNKNOWN.to_owned(), Bytes::in_gib);
    let memory = &device.memory;
    let (used, free) = (figure(&memory.used_bytes), figure(&memory.free_bytes));
    let name = device.name.known().map_or(UNKNOWN, String::as_str);
    let mut line = format!("  GPU {} {name}: {used} GiB used, {free} GiB free\n", device.index);
    for user in reading.users.iter().filter(|user| user.device == position) {
        let name = user.name.as_deref().unwrap_or("in use by an unnamed process");
        let idle = user.idle_for.map(|time| format!(", idle ≥ {} min", time.as_secs() / 60)).unwrap_or_default();
        line.push_str(&format!("    {name}{idle}\n"));
    }
    line
}
