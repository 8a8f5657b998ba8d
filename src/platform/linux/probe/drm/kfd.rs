//! Owns reading ROCm's kernel driver (/sys/class/kfd): its GPUs, and the processes that have VRAM by it, of all users. The
//! device /dev/kfd is never opened: that alone would list this program. A folder may outlive its process, and its name is a
//! PID of the machine's own namespace, so a row of this list proves nobody.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::card::number;
use crate::units::Bytes;

/// A GPU as ROCm's kernel driver knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub gpu_id: u64,
    pub render_minor: u32,
    /// The memory that it offers to programs, which on an APU is more than its VRAM.
    pub bank_bytes: Option<u64>,
    /// Its place in ROCm's order of GPUs.
    pub ordinal: u32,
}

/// The GPUs in ROCm's order. Processors are nodes, too, whose `gpu_id` is 0.
pub(super) fn nodes(system: &Path) -> Vec<Node> {
    let entries = fs::read_dir(system.join("class/kfd/kfd/topology/nodes")).into_iter().flatten().flatten();
    let mut folders: Vec<(u32, std::path::PathBuf)> =
        entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()))).collect();
    folders.sort();
    let mut nodes = Vec::new();
    for (_, folder) in folders {
        let Some(gpu_id) = number::<u64>(&folder.join("gpu_id")).value().filter(|id| *id != 0) else { continue };
        let ordinal = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        // A GPU of another container has no readable properties, but has its place in the order.
        let render_minor = property(&folder.join("properties"), "drm_render_minor").unwrap_or(0);
        let bank_bytes = property(&folder.join("mem_banks/0/properties"), "size_in_bytes");
        let render_minor = u32::try_from(render_minor).unwrap_or(0);
        nodes.push(Node { gpu_id, render_minor, bank_bytes, ordinal });
    }
    nodes.retain(|node| node.render_minor != 0);
    nodes
}

/// The VRAM of each process by GPU: PID, `gpu_id` and bytes. Whoever opened the device once is listed with 0 bytes, and is
/// left out.
pub(super) fn processes(system: &Path) -> BTreeMap<(u32, u64), Bytes> {
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir(system.join("class/kfd/kfd/proc")).into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        for file in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let gpu_id = name.to_str().and_then(|name| name.strip_prefix("vram_")?.parse().ok());
            let bytes = gpu_id.and_then(|_| number::<u64>(&file.path()).value()).filter(|bytes| *bytes > 0);
            if let Some((gpu_id, bytes)) = gpu_id.zip(bytes) {
                processes.insert((pid, gpu_id), Bytes(bytes));
            }
        }
    }
    processes
}

fn property(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}
