//! Owns `oomdoctor ps` over several machines: one line each, then the processes that use VRAM, as a table or as JSON.

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;

use super::json::Listing;
use super::machines::{self, Look, Machine};
use super::table::terminal_width;
use crate::cli::output::{pretty, print, refuse};
use crate::cli::settings::Global;
use crate::cli::watched::Watched;
use crate::gpu::SCHEMA;
use crate::hosts::{Allotment, Asked, DeviceUser, HostReading, Through};
use crate::platform::here;
use crate::runtime;
use crate::units::WallTime;

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

/// Exits with 1 if nothing is known of any machine.
pub(super) fn run(global: &Global, asked: &Asked, json: bool) -> ExitCode {
    let readings = runtime::hosts::read(asked, &global.sampling);
    let watched: Vec<Option<Watched>> =
        readings.iter().map(|reading| Watched::of_host(reading).map(|(_, watched)| watched)).collect();
    let is_known = readings.iter().any(|reading| reading.seen.is_ok() || reading.allotment.is_some());
    let code = if is_known { ExitCode::SUCCESS } else { ExitCode::from(1) };
    let text = if json { pretty(&listings(&readings, &watched)) } else { Ok(as_text(&readings, &watched)) };
    match text {
        Ok(text) => print(&text, code),
        Err(message) => refuse(&message),
    }
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

fn as_text(readings: &[HostReading], watched: &[Option<Watched>]) -> String {
    let machines = readings.iter().zip(watched);
    let machines: Vec<Machine> =
        machines.map(|(reading, watched)| Machine { reading, watched: watched.as_ref() }).collect();
    let width = terminal_width();
    let look =
        Look { width, is_gray: width.is_some(), user: &here::user_name(), now: WallTime(jiff::Timestamp::now()) };
    machines::text(&machines, &look)
}
