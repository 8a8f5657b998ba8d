//! Owns what differs between operating systems: the rest of the program asks [`Here`] for files, streams and the
//! terminal, and [`ThisMachine`] for GPUs and processes. What they answer is in `contract`.
//! Only `linux` reads GPUs and signals processes; `logs_only` stands in for it on other systems.
//! Knows nothing about logs or the screen.

pub(crate) mod contract;
#[cfg(not(target_os = "linux"))]
mod events;
pub(crate) mod host;
#[cfg(target_os = "linux")]
pub mod linux;
#[cfg(not(target_os = "linux"))]
mod logs_only;
#[cfg(all(unix, not(target_os = "linux")))]
mod macos;
pub mod processes;
pub(crate) mod regular;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub use contract::{Asked, Input, Machine, News, Pipe, Platform, Sampling, SetPace, Typed, variable};
#[cfg(target_os = "linux")]
pub use linux::Linux as ThisMachine;
#[cfg(not(target_os = "linux"))]
pub use logs_only::LogsOnly as ThisMachine;
#[cfg(unix)]
pub use unix::Unix as Here;
#[cfg(windows)]
pub use windows::Windows as Here;

/// The processes of this machine.
pub type Kernel = <ThisMachine as Machine>::Kernel;
