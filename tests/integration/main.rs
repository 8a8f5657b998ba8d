//! The whole program from outside: driver, command line, screens, sessions, as far as they need Linux. Tests for every
//! system are in `tests/everywhere.rs`.

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
mod answers;
mod circles;
mod cli;
mod corrections;
mod drm;
mod faults;
mod fit;
mod fitfolders;
mod fitwalk;
mod golden;
mod groups;
mod headers;
mod hostile;
mod hosts;
mod hosts_answers;
mod identity;
mod json;
mod keyboard;
#[path = "../advice/logs.rs"]
mod logs;
mod numbers;
mod nvml;
mod packaging;
mod papers;
#[path = "../stress/pids.rs"]
mod pids;
mod prometheus;
mod recording;
mod release;
mod replay;
mod reuse;
mod run;
mod sampler;
#[path = "../advice/scenario.rs"]
#[allow(dead_code, reason = "what a scenario expects is judged in tests/advice")]
mod scenario;
mod schedulers;
mod seeds;
mod session;
mod snapshots;
mod sources;
mod support;
mod wording;
