//! Owns the error that a snapshot recorded, as PyTorch prints it: a snapshot without a log is diagnosed like a log.

use super::told::{CodeLine, Filled};
use crate::units::Bytes;

/// The traceback and the message of the request that failed; `None` where none did. The GPU's capacity is not in a
/// snapshot.
pub fn as_log(filled: &Filled) -> Option<String> {
    let (request, totals) = (filled.request.as_ref()?, filled.totals.as_ref()?);
    let mut lines = vec![format!("The error that the memory snapshot {} recorded:", filled.file)];
    if !request.stack.is_empty() {
        lines.push("Traceback (most recent call last):".to_owned());
        lines.extend(request.stack.iter().rev().map(frame));
    }
    let rank = filled.rank.map_or_else(String::new, |rank| format!("[rank{rank}]: "));
    lines.push(format!(
        "{rank}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. On GPU {}, {} is free. Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated.",
        printed(request.bytes),
        filled.device,
        printed(request.free_bytes),
        printed(totals.allocated_bytes),
        printed(totals.unused_bytes()),
    ));
    Some(lines.join("\n") + "\n")
}

fn frame(line: &CodeLine) -> String {
    format!("  File \"{}\", line {}, in {}", line.file, line.line, line.function)
}

/// A size as PyTorch prints it: two decimals.
fn printed(bytes: Bytes) -> String {
    let (unit, name) = match bytes.0 {
        0..0x400 => return format!("{} bytes", bytes.0),
        0x400..0x10_0000 => (1_u64 << 10, "KiB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    let hundredths = u128::from(bytes.0) * 100 / u128::from(unit);
    format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
}
