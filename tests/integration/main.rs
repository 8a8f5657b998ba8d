//! The whole program from outside: driver, command line, screens, sessions. On Linux, which has all of these; what holds
//! on every system is `tests/everywhere.rs`.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    reason = "tests: a panic is a failure, and they start processes and read files"
)]

mod adversity;
mod cli;
mod corrections;
mod faults;
mod fit;
mod fitfolders;
mod fitwalk;
mod golden;
mod groups;
mod headers;
mod hostile;
mod identity;
mod json;
mod keyboard;
mod numbers;
mod nvml;
mod packaging;
mod papers;
#[path = "../stress/pids.rs"]
mod pids;
mod release;
mod reuse;
mod sampler;
mod scenarios;
mod seeds;
mod session;
mod support;
