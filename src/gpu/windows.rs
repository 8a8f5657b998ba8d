//! Owns the processes of Windows that use a GPU beside WSL2, as Windows' own counters show them: which there are, and what
//! is said of them. They are only shown: no signal of Linux reaches them. Knows nothing of who asks Windows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::harmless;
use crate::units::Bytes;

/// Less than this in system memory is everyday life: windows and buffers that the processor fills.
const SPILLED: Bytes = Bytes::gib(1);
/// A process with less VRAM is not named.
const NAMED: Bytes = Bytes::mib(256);
/// So many are named.
const MOST_NAMED: usize = 4;

/// What Windows answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowsReading {
    /// The processes with GPU memory, over all GPUs: Windows' counters do not name the GPU. The one with most VRAM comes first.
    pub processes: Vec<WindowsProcess>,
    /// Why they are unknown; null where they are known.
    pub unread: Option<String>,
}

/// A process of Windows. Its PID is Windows' own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowsProcess {
    pub pid: u32,
    /// Its name without `.exe`; null where Windows does not tell it. WSL2 itself is `vmmemWSL` or `vmmem`.
    pub name: Option<String>,
    /// VRAM, in bytes.
    pub dedicated_bytes: Bytes,
    /// System memory that it uses through a GPU, in bytes. What has no room in VRAM is moved there.
    pub shared_bytes: Bytes,
}

impl WindowsReading {
    /// One without processes, for this reason.
    pub fn unread(why: impl Into<String>) -> WindowsReading {
        WindowsReading { processes: Vec::new(), unread: Some(why.into()) }
    }

    /// Reads lines `memory|pid_77_luid_0x0_0xD1B2_phys_0|DEDICATED|SHARED` and `process|77|chrome`. Other lines are noise, such
    /// as a profile's greeting.
    pub fn parse(text: &str) -> WindowsReading {
        let mut uses: BTreeMap<u32, (Bytes, Bytes)> = BTreeMap::new();
        let mut names: BTreeMap<u32, &str> = BTreeMap::new();
        for line in text.lines().map(str::trim) {
            let fields: Vec<&str> = line.split('|').collect();
            match fields.as_slice() {
                ["memory", instance, dedicated, shared] => {
                    let Some((pid, dedicated, shared)) = figures(instance, dedicated, shared) else { continue };
                    let (sum, beside) = uses.entry(pid).or_default();
                    (*sum, *beside) = (sum.plus(dedicated), beside.plus(shared));
                }
                ["process", pid, name] => {
                    names.extend(pid.parse().ok().map(|pid: u32| (pid, *name)));
                }
                _ => {}
            }
        }
        if uses.is_empty() {
            return WindowsReading::unread("its GPU counters are empty");
        }
        uses.retain(|_, (dedicated, shared)| *dedicated > Bytes::ZERO || *shared > Bytes::ZERO);
        let processes = uses.into_iter().map(|(pid, (dedicated_bytes, shared_bytes))| {
            let name = names.get(&pid).map(|name| (*name).to_owned());
            WindowsProcess { pid, name, dedicated_bytes, shared_bytes }
        });
        let mut processes: Vec<WindowsProcess> = processes.collect();
        processes.sort_by_key(|process| (Reverse(process.dedicated_bytes), process.pid));
        WindowsReading { processes, unread: None }
    }

    /// What is said of them: who has the VRAM, and whose memory does not lie there.
    pub fn remarks(&self) -> Vec<String> {
        if let Some(why) = &self.unread {
            return vec![format!("Windows' processes are unknown: {why}.")];
        }
        let (large, small): (Vec<_>, Vec<_>) = self
            .processes
            .iter()
            .enumerate()
            .partition(|(at, process)| *at < MOST_NAMED && process.dedicated_bytes >= NAMED);
        let mut parts: Vec<String> =
            large.iter().map(|(_, process)| format!("{} {}", process.called(), process.dedicated_bytes)).collect();
        let rest = small.iter().fold(Bytes::ZERO, |sum, (_, process)| sum.plus(process.dedicated_bytes));
        if rest > Bytes::ZERO {
            let others = if small.len() == 1 { "1 other".to_owned() } else { format!("{} others", small.len()) };
            parts.push(format!("{others} {rest}"));
        }
        let vram = match parts.is_empty() {
            true => "Windows: no process uses VRAM.".to_owned(),
            false => format!("Windows' processes, VRAM: {}. Close them in Windows.", parts.join(", ")),
        };
        let spilled = self.processes.iter().filter(|process| process.shared_bytes >= SPILLED).map(|process| {
            format!(
                "Windows: {} has {} of GPU memory in system memory, not in VRAM: slow, not failed.",
                process.called(),
                process.shared_bytes
            )
        });
        [vram].into_iter().chain(spilled).collect()
    }

    pub(super) fn clean(&mut self) {
        for text in self.processes.iter_mut().filter_map(|process| process.name.as_mut()).chain(&mut self.unread) {
            *text = harmless(text).into_owned();
        }
    }
}

impl WindowsProcess {
    fn called(&self) -> String {
        match self.name.as_deref() {
            Some(name) if name.to_ascii_lowercase().starts_with("vmmem") => format!("WSL2 itself ({name})"),
            Some(name) => format!("{name} ({})", self.pid),
            None => format!("PID {}", self.pid),
        }
    }
}

/// The process of an instance of the counter, and its figures.
fn figures(instance: &str, dedicated: &str, shared: &str) -> Option<(u32, Bytes, Bytes)> {
    let (pid, _) = instance.strip_prefix("pid_")?.split_once('_')?;
    Some((pid.parse().ok()?, Bytes(dedicated.parse().ok()?), Bytes(shared.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_summed_over_gpus_and_noise_is_left_out() {
        let text = "Welcome, Ada!\r\nmemory|pid_77_luid_0x00000000_0x0000D1B2_phys_0|1073741824|1024\r\n\
            memory|pid_77_luid_0x00000000_0x0000D1B3_phys_0|1073741824|0\r\nmemory|pid_9_luid_0x0_0x1_phys_0|0|0\r\n\
            memory|pid_x_luid|5|5\r\nmemory|pid_8_luid_0x0_0x1_phys_0|-1|0\r\nprocess|77|chrome\r\nprocess|nine|x\r\n";
        let expected = WindowsProcess {
            pid: 77,
            name: Some("chrome".into()),
            dedicated_bytes: Bytes::gib(2),
            shared_bytes: Bytes(1024),
        };
        assert_eq!(WindowsReading::parse(text), WindowsReading { processes: vec![expected], unread: None });
    }

    #[test]
    fn an_answer_without_figures_is_unknown_and_not_nobody() {
        for text in ["", "process|77|chrome", "\u{fffd}\u{0}|||", "Get-CimInstance : Invalid class"] {
            assert!(WindowsReading::parse(text).unread.is_some(), "{text:?}");
        }
    }

    #[test]
    fn memory_that_windows_moved_out_of_vram_is_slow_and_not_failed() {
        let text = "memory|pid_4_luid_0x0_0x1_phys_0|8589934592|3221225472\nprocess|4|vmmemWSL\n\
            memory|pid_5_luid_0x0_0x1_phys_0|536870912|104857600\nprocess|5|game\nmemory|pid_6_luid_0x0_0x1_phys_0|1048576|0";
        let said = WindowsReading::parse(text).remarks();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("game (5) 512 MiB") && said[0].contains("1 other "), "{said:?}");
        assert!(said[1].contains("WSL2 itself") && said[1].contains("3.0 GiB") && said[1].contains("slow"), "{said:?}");
    }
}
