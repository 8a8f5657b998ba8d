//! Owns what differs between operating systems: the rest of the program asks the functions of `here` for files, streams
//! and the terminal, and those of `machine` for GPUs and processes. The types that both speak of are in `contract`.
//! `unix` and `windows` have the same functions; what each has to do is said in `unix`. So have `linux` and `logs_only`.
//! Only `linux` reads GPUs and signals processes; `logs_only` stands in for it on other systems.
//! Knows nothing about logs or the screen.

pub(crate) mod contract;
#[cfg(not(target_os = "linux"))]
mod events;
pub(crate) mod host;
pub(crate) mod http;
#[cfg(target_os = "linux")]
pub mod linux;
#[cfg(not(target_os = "linux"))]
pub mod logs_only;
#[cfg(all(unix, not(target_os = "linux")))]
mod macos;
pub mod processes;
pub(crate) mod regular;
pub(crate) mod tools;
#[cfg(unix)]
pub(crate) mod unix;
#[cfg(windows)]
pub(crate) mod windows;

pub use contract::{Asked, News, Sampling, SetPace, Typed, variable};
#[cfg(target_os = "linux")]
pub use linux as machine;
#[cfg(not(target_os = "linux"))]
pub use logs_only as machine;
pub use machine::Kernel;
pub(crate) use machine::{Fork, Started};
#[cfg(unix)]
pub(crate) use unix as here;
#[cfg(windows)]
pub(crate) use windows as here;
