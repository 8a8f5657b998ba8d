//! Owns reading one of the driver's process lists into memory that no driver can overrun. Drivers disagree about the
//! size of a row (16, 24 or 32 bytes) under one and the same name, so the buffer has 32 bytes for each row we
//! announce, is filled with a pattern first, and the size of a row is found from what was overwritten.
//! Knows nothing of the driver's library: the call itself is handed in.

/// The largest row any driver is known to write (535.54.03), in words of 8 bytes.
const WIDEST_ROW: usize = 4;
/// The sizes of a row in words: v1 16 bytes, v2 and v3 24, early R535's v3 32.
const ROW_WORDS: [usize; 3] = [2, 3, WIDEST_ROW];
/// No driver writes this: as a PID it is no valid one with this padding, as a size it is 11 EiB.
const UNTOUCHED: u64 = 0xA5A5_A5A5_A5A5_A5A5;
/// Rows at first: enough for most machines, so that a list takes one call.
const FIRST_ROWS: usize = 64;
/// No machine has more processes on one GPU; a driver that asks for more is mistaken.
const MOST_ROWS: usize = 1 << 16;
/// How often a list may have grown between the driver's answer and our next question.
const MOST_TRIES: usize = 8;

/// The driver's code for success.
pub(super) const SUCCESS: u32 = 0;
/// The driver's code for "more rows than you have room for".
pub(super) const INSUFFICIENT_SIZE: u32 = 7;

/// A row as the driver wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawRow {
    /// Not to be trusted.
    pub pid: u32,
    /// Bytes, or all ones for "not available".
    pub used: u64,
}

/// Why a list could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListError {
    /// The driver's return code.
    Code(u32),
    /// What was written has no layout that is known.
    Layout,
}

/// The buffer, kept between readings so that a list is one call.
#[derive(Debug, Default)]
pub(super) struct RowBuffer {
    words: Vec<u64>,
}

impl RowBuffer {
    /// Reads a list. `call` gets the room in rows, which it replaces by the number of rows, and where to write them;
    /// it returns the driver's code and may write 32 bytes a row at most.
    pub(super) fn read(&mut self, mut call: impl FnMut(&mut u32, *mut u64) -> u32) -> Result<Vec<RawRow>, ListError> {
        let mut room = (self.words.len() / WIDEST_ROW).max(FIRST_ROWS);
        for _ in 0..MOST_TRIES {
            self.words.clear();
            self.words.resize(room * WIDEST_ROW, UNTOUCHED);
            let mut count = u32::try_from(room).unwrap_or(u32::MAX);
            match call(&mut count, self.words.as_mut_ptr()) {
                SUCCESS => return self.rows(usize::try_from(count).unwrap_or(usize::MAX).min(room)),
                INSUFFICIENT_SIZE => room = grown(room, count)?,
                code => return Err(ListError::Code(code)),
            }
        }
        Err(ListError::Code(INSUFFICIENT_SIZE))
    }

    fn rows(&self, count: usize) -> Result<Vec<RawRow>, ListError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let written = self.words.iter().rposition(|word| *word != UNTOUCHED).map_or(0, |last| last + 1);
        // A driver may leave the end of the last row alone, so the smallest size that holds what was written is it.
        let size = ROW_WORDS.into_iter().find(|size| count * size >= written && written > (count - 1) * size);
        let size = size.ok_or(ListError::Layout)?;
        Ok(self.words.chunks_exact(size).take(count).filter_map(decode).collect())
    }
}

/// Room for what the driver asks for and some more, since processes may start in between.
fn grown(room: usize, asked: u32) -> Result<usize, ListError> {
    let asked = usize::try_from(asked).unwrap_or(usize::MAX);
    let room = (room * 2).max(asked.saturating_add(16));
    if room > MOST_ROWS { Err(ListError::Code(INSUFFICIENT_SIZE)) } else { Ok(room) }
}

fn decode(row: &[u64]) -> Option<RawRow> {
    let (first, used) = (row.first()?, row.get(1)?);
    let pid = first.to_ne_bytes().first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes))?;
    Some(RawRow { pid, used: *used })
}

#[allow(unsafe_code, reason = "the tests write rows as a driver does")]
#[cfg(test)]
mod tests {
    use super::*;

    /// A driver that writes rows of this size, without the last `short` bytes of the last one.
    fn driver(rows: &[(u32, u64)], size: usize, short: usize) -> impl Fn(&mut u32, *mut u64) -> u32 + use<> {
        let mut image = Vec::new();
        for (pid, used) in rows {
            let mut row = vec![0xFF_u8; size];
            row[..4].copy_from_slice(&pid.to_ne_bytes());
            row[4..8].fill(0);
            row[8..16].copy_from_slice(&used.to_ne_bytes());
            if size == 32 {
                row[24..].fill(0);
            }
            image.extend(row);
        }
        image.truncate(image.len() - short.min(image.len()));
        let count = u32::try_from(rows.len()).unwrap();
        move |room, out| {
            if *room < count {
                *room = count;
                return INSUFFICIENT_SIZE;
            }
            *room = count;
            // SAFETY: the buffer has 32 bytes for each of the `room` rows, and the image has at most that.
            unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), out.cast::<u8>(), image.len()) };
            SUCCESS
        }
    }

    fn many(count: u32) -> Vec<(u32, u64)> {
        (0..count).map(|i| (70_001 + i, u64::from(i + 1) << 30)).collect()
    }

    fn read(rows: &[(u32, u64)], size: usize, short: usize) -> Vec<(u32, u64)> {
        let rows = RowBuffer::default().read(driver(rows, size, short)).unwrap();
        rows.iter().map(|row| (row.pid, row.used)).collect()
    }

    #[test]
    fn rows_of_every_size_and_number_are_read_as_they_are() {
        for size in [16, 24, 32] {
            for count in [0, 1, 2, 3, 4, 63, 64] {
                assert_eq!(read(&many(count), size, 0), many(count), "{count} rows of {size} bytes");
            }
        }
    }

    #[test]
    fn a_last_row_that_was_not_written_to_its_end_does_not_change_the_size() {
        for size in [24, 32] {
            assert_eq!(read(&many(5), size, 8), many(5), "{size}");
        }
    }

    #[test]
    fn unavailable_figures_and_empty_rows_do_not_confuse_the_size() {
        let rows = [(0, 0), (u32::MAX, u64::MAX), (1, 0)];
        for size in [16, 24, 32] {
            assert_eq!(read(&rows, size, 0), rows, "{size}");
        }
    }

    #[test]
    fn more_rows_than_there_was_room_for_are_asked_for_again() {
        for count in [65, 200, 5000] {
            assert_eq!(read(&many(count), 32, 0).len(), count as usize);
        }
    }

    #[test]
    fn growth_in_between_is_followed_but_not_for_ever() {
        let driver = driver(&many(10), 24, 0);
        let mut refusals = 3;
        let rows = RowBuffer::default().read(|room, out| {
            if refusals > 0 {
                refusals -= 1;
                *room += 9;
                return INSUFFICIENT_SIZE;
            }
            driver(room, out)
        });
        assert_eq!(rows.unwrap().len(), 10);
        let mut calls = 0;
        let never = RowBuffer::default().read(|room, _| {
            calls += 1;
            *room += 1;
            INSUFFICIENT_SIZE
        });
        assert_eq!(never, Err(ListError::Code(INSUFFICIENT_SIZE)));
        assert!(calls <= MOST_TRIES);
    }

    #[test]
    fn an_absurd_size_is_refused_and_a_silent_driver_is_no_list() {
        let absurd = RowBuffer::default().read(|room, _| {
            *room = u32::MAX;
            INSUFFICIENT_SIZE
        });
        assert_eq!(absurd, Err(ListError::Code(INSUFFICIENT_SIZE)));
        let silent = RowBuffer::default().read(|room, _| {
            *room = 3;
            SUCCESS
        });
        assert_eq!(silent, Err(ListError::Layout));
        assert_eq!(RowBuffer::default().read(|_, _| 15), Err(ListError::Code(15)));
    }
}
