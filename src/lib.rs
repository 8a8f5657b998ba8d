//! oomdoctor: what ran out of memory, which processes use it now, and which steps get the job running again.
//!
//! The domain (`units`, `log`, `gpu`, `knowledge`, `memory`, `advice`, `report`) is pure; `app` decides what a
//! message means and `ui` draws; only the edge (`runtime`, `platform`, `cli`) touches the outside world.
//! ARCHITECTURE.md has the picture.

#![warn(unreachable_pub)]

pub mod advice;
pub mod allocations;
pub mod app;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the edge: arguments, files, output")]
pub mod cli;
mod effort;
pub mod gpu;
pub mod hosts;
pub mod ids;
mod internal;
pub mod knowledge;
pub mod log;
pub mod memory;
mod packed;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the edge: what systems do differently")]
pub mod platform;
pub mod record;
pub mod report;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the edge: terminal, processes, files, clock")]
pub mod runtime;
pub mod source;
pub mod text;
pub mod ui;
pub mod units;
