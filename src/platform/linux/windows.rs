//! Owns asking Windows, from WSL2, which of its processes use a GPU: `powershell.exe` prints a class of Windows' performance
//! counters, whose name does not depend on Windows' language (Get-Counter's does). Only reads, and only if it is asked for.
//! The class and its fields (Name, DedicatedUsage, SharedUsage) were looked up on 2026-11-28.

use std::io::{self, Read};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::child::Started;
use crate::gpu::windows::WindowsReading;
use crate::platform::tools;

/// PowerShell alone takes a second or two to start.
const DEADLINE: Duration = Duration::from_secs(10);
/// Each question starts a program of Windows.
const ASK_AGAIN: Duration = Duration::from_secs(15);
/// More than any machine's list.
const MOST_BYTES: u64 = 1 << 20;

const QUESTION: &str = "$ErrorActionPreference='Stop'; \
    Get-CimInstance Win32_PerfFormattedData_GPUPerformanceCounters_GPUProcessMemory | \
    ForEach-Object { 'memory|{0}|{1}|{2}' -f $_.Name, $_.DedicatedUsage, $_.SharedUsage }; \
    Get-Process | ForEach-Object { 'process|{0}|{1}' -f $_.Id, $_.ProcessName }";

/// Asks Windows once. Takes as long as PowerShell, at most 10 s.
pub(crate) fn read() -> WindowsReading {
    match answer() {
        Ok(text) => WindowsReading::parse(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            WindowsReading::unread("powershell.exe is not on PATH; it is there under WSL2 only")
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            WindowsReading::unread(format!("powershell.exe did not answer within {} s", DEADLINE.as_secs()))
        }
        Err(error) => WindowsReading::unread(format!("powershell.exe could not be run ({error})")),
    }
}

fn answer() -> io::Result<String> {
    let mut command = tools::command("powershell.exe")?;
    command.args(["-NoProfile", "-NonInteractive", "-Command", QUESTION]);
    let mut asked = Started::by(command.stdin(Stdio::null()).stderr(Stdio::null()))?;
    asked.output.wait_until(Instant::now() + DEADLINE);
    let mut bytes = Vec::new();
    let read = (&mut asked.output).take(MOST_BYTES).read_to_end(&mut bytes);
    // One that has answered has nothing more to do.
    asked.child.end();
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned())
}

/// The last answer of Windows, which is asked again and again without anybody waiting for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch(Arc<Mutex<Option<WindowsReading>>>);

impl Watch {
    pub(super) fn start() -> io::Result<Watch> {
        let watch = Watch::default();
        let kept = watch.clone();
        thread::Builder::new().name("windows".into()).spawn(move || {
            loop {
                let reading = read();
                *kept.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
                thread::sleep(ASK_AGAIN);
            }
        })?;
        Ok(watch)
    }

    pub(super) fn latest(&self) -> Option<WindowsReading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
