//! Owns a curve as columns and as one line of text.

use super::Millis;
use super::recording::Recording;
use crate::units::Bytes;

/// The most that a GPU used in each of so many equal parts of a span; `None` before anything is known.
pub fn columns(recording: &Recording, gpu: u32, span: (Millis, Millis), width: usize) -> Vec<Option<Bytes>> {
    let (from, to) = span;
    let mut columns = vec![None; width];
    let length = to.saturating_sub(from).max(1);
    let mut held = recording.used_at(gpu, from);
    let mut points = recording.of_gpu(gpu).filter(|(at, _)| *at > from && *at <= to).peekable();
    for (number, column) in columns.iter_mut().enumerate() {
        let end = from.saturating_add(length.saturating_mul(number as u64 + 1) / width.max(1) as u64);
        let mut most = held;
        while let Some((_, bytes)) = points.next_if(|(at, _)| *at <= end) {
            held = Some(bytes);
            most = most.max(held);
        }
        *column = most;
    }
    columns
}

/// The columns as one line of text, from empty to full; a space where nothing is known.
pub fn in_text(columns: &[Option<Bytes>], total: Bytes, unicode: bool) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const DIGITS: [char; 8] = ['0', '1', '2', '3', '4', '5', '6', '7'];
    let signs = if unicode { BLOCKS } else { DIGITS };
    columns.iter().map(|bytes| bytes.map_or(' ', |bytes| sign_of(bytes, total, &signs))).collect()
}

/// The sign for an eighth of the whole, rounded down.
fn sign_of(bytes: Bytes, total: Bytes, signs: &[char; 8]) -> char {
    let step = u128::from(bytes.0) * 8 / u128::from(total.0.max(1));
    signs.get(usize::try_from(step).unwrap_or(7).min(7)).copied().unwrap_or(' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Header;
    use crate::gpu::testing::{device, snapshot};
    use crate::record::{Line, Note};

    #[test]
    fn a_figure_holds_until_the_next_and_a_short_spike_is_seen() {
        let first = crate::gpu::Snapshot { devices: vec![device(0, vec![])], ..snapshot(0) };
        let mut text = Line::Header(Header::of_boot(None)).text().unwrap();
        text += &Line::Reading(Box::new(first)).text().unwrap();
        for (at, gib) in [(1000, 4), (5100, 20), (5200, 4)] {
            text += &Line::Note(Note::Used { at, gpus: vec![(0, Bytes::gib(gib))] }).text().unwrap();
        }
        let recording = Recording::parse(&text).unwrap();
        let columns = columns(&recording, 0, (0, 10_000), 10);
        let gib: Vec<u64> = columns.iter().map(|bytes| bytes.unwrap().0 >> 30).collect();
        assert_eq!(gib, [4, 4, 4, 4, 4, 20, 4, 4, 4, 4]);
        assert_eq!(in_text(&columns, Bytes::gib(24), true), "▂▂▂▂▂▇▂▂▂▂");
        assert_eq!(in_text(&[None, Some(Bytes::ZERO), Some(Bytes::gib(24))], Bytes::gib(24), false), " 07");
    }
}
