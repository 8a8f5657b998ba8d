//! Owns reading compressed logs: which decoder the first bytes ask for, and its bounds. Text is decoded as it is read, so
//! that what unpacks to more than any memory takes none, and nothing is read without end.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::rc::Rc;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::log::{CUT_OFF, LEFT_OUT};
use crate::platform::here;

/// How many first bytes tell a format.
const MAGIC: usize = 6;
/// How much is unpacked. Logs shrink to between a tenth and a hundredth, archive bombs to a thousandth and less: 1.6 MB of
/// xz can hold gigabytes of one byte, which would take 17 s to unpack.
const BOUNDS: Bounds = Bounds { most: 4 << 30, at_any_ratio: 128 << 20, ratio: 300 };
/// The memory that a file may ask its decoder for, in bytes: more than `xz -9` takes. The decoder of zstd has the same bound.
const MEMORY: u32 = 128 << 20;

/// How many bytes are unpacked at most.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// In any case.
    most: u64,
    /// Without regard to how many bytes they were packed in.
    at_any_ratio: u64,
    /// For each packed byte, beyond that.
    ratio: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

impl Format {
    fn of(head: &[u8]) -> Option<Format> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Format::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Format::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Format::Xz),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, 0x41 | 0x72, ..] => Some(Format::Bzip2),
            _ => None,
        }
    }
}

/// Whether a pipe that begins so is a compressed log.
pub(super) fn is_compressed(head: &[u8]) -> bool {
    Format::of(head).is_some()
}

/// Whether this file is a compressed log.
pub(super) fn is_compressed_file(file: &File) -> bool {
    let mut head = [0; MAGIC];
    here::read_at(file, &mut head, 0).is_ok() && is_compressed(&head)
}

/// Whether `head` may be the beginning of a compressed log of which more is to come.
pub(super) fn may_be_compressed(head: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 4] = [b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh"];
    head.len() < MAGIC && BEGINNINGS.iter().any(|magic| magic.starts_with(head) || head.starts_with(magic))
}

/// A source whose first bytes were looked at.
pub(super) type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// The text of a source: unpacked where it is compressed, else as it is.
pub(super) enum Unpacked<'s, R> {
    Plain(Whole<R>),
    Compressed(Text<'s>),
}

/// What a decoder gives.
pub(super) struct Text<'s> {
    decoder: Box<dyn Read + 's>,
    unpacked: u64,
    /// How many bytes the decoder has taken.
    packed: Rc<Cell<u64>>,
    bounds: Bounds,
    /// What is said at the end of a text that is not whole.
    said: Option<Cursor<String>>,
}

impl<'s, R: Read + 's> Unpacked<'s, R> {
    /// Reads the first bytes.
    pub(super) fn of(source: R) -> io::Result<Unpacked<'s, R>> {
        Unpacked::within(source, BOUNDS)
    }

    fn within(mut source: R, bounds: Bounds) -> io::Result<Unpacked<'s, R>> {
        let mut head = Vec::with_capacity(MAGIC);
        // A pipe may give one byte at a time, and one that gives no magic is not waited for.
        while head.is_empty() || may_be_compressed(&head) {
            let mut byte = [0];
            match source.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => head.extend_from_slice(&byte),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let format = Format::of(&head);
        let whole = Cursor::new(head).chain(source);
        let Some(format) = format else { return Ok(Unpacked::Plain(whole)) };
        let taken = Rc::new(Cell::new(0));
        let packed = BufReader::with_capacity(64 << 10, Counted { source: whole, count: Rc::clone(&taken) });
        let decoder: Box<dyn Read + 's> = match format {
            Format::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Format::Zstd => Box::new(Frames::of(packed)),
            Format::Xz => Box::new(InSmallSteps(XzReader::new_mem_limit(packed, true, MEMORY >> 10))),
            Format::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
        };
        Ok(Unpacked::Compressed(Text { decoder, unpacked: 0, packed: taken, bounds, said: None }))
    }
}

impl<R: Read> Read for Unpacked<'_, R> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        match self {
            Unpacked::Plain(whole) => whole.read(block),
            Unpacked::Compressed(text) => text.read(block),
        }
    }
}

impl Read for Text<'_> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        if let Some(said) = &mut self.said {
            return said.read(block);
        }
        let Bounds { most, at_any_ratio, ratio } = self.bounds;
        if self.unpacked >= most {
            return self.end_with(format!("\n… the rest {LEFT_OUT}\n"), block);
        }
        if self.unpacked >= at_any_ratio.max(self.packed.get().saturating_mul(ratio)) {
            let said = format!("\n… the rest (over {ratio} times the compressed size) {LEFT_OUT}\n");
            return self.end_with(said, block);
        }
        match self.decoder.read(block) {
            Ok(count) => {
                self.unpacked += count as u64;
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) if self.unpacked == 0 => {
                let why =
                    format!("it is compressed, and cut off or damaged before any text could be unpacked ({error})");
                Err(io::Error::other(why))
            }
            // What was unpacked is the log up to there.
            Err(_) => self.end_with(format!("\n{CUT_OFF}\n"), block),
        }
    }
}

impl Text<'_> {
    fn end_with(&mut self, said: String, block: &mut [u8]) -> io::Result<usize> {
        self.said.insert(Cursor::new(said)).read(block)
    }
}

/// A source of which it is known how much was read.
struct Counted<R> {
    source: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(block)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

/// The frames of zstd one after the other: the decoder reads a single one. It keeps a window of text back until a frame
/// ends, so one that is cut off is ended here.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    is_inside: bool,
    failed: Option<io::Error>,
}

/// The end of a frame: a last block that is empty, and room for a checksum.
const END_OF_FRAME: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

impl<R: BufRead> Frames<R> {
    fn of(source: R) -> Frames<R> {
        Frames { source, decoder: FrameDecoder::new(), is_inside: false, failed: None }
    }

    /// Begins the next frame; false at the end of the source.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                // A frame for other programs, such as an index.
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut (&mut self.source).take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(block);
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if !self.is_inside || self.decoder.is_finished() {
                self.is_inside = self.begin()?;
                if !self.is_inside {
                    return Ok(0);
                }
            }
            let one = BlockDecodingStrategy::UptoBlocks(1);
            if let Err(error) = self.decoder.decode_blocks(&mut self.source, one) {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(END_OF_FRAME.as_slice(), one).map_err(io::Error::other)?;
                self.failed = Some(io::Error::other(error));
            }
        }
    }
}

/// The decoder of xz loses what it decoded in a call that fails, so little is asked of each.
struct InSmallSteps<R>(R);

impl<R: Read> Read for InSmallSteps<R> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        const STEP: usize = 4 << 10;
        let step = block.len().min(STEP);
        self.0.read(block.get_mut(..step).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log in every format, as the usual programs write it, in small blocks where they let one choose.
    const PACKED: [(&str, &[u8]); 4] = [
        ("gzip", include_bytes!("../../tests/packed/crash.log.gz")),
        ("zstd", include_bytes!("../../tests/packed/crash.log.zst")),
        ("xz", include_bytes!("../../tests/packed/crash.log.xz")),
        ("bzip2", include_bytes!("../../tests/packed/crash.log.bz2")),
    ];

    fn unpacked(packed: &[u8]) -> io::Result<String> {
        unpacked_within(packed, BOUNDS)
    }

    fn unpacked_within(packed: &[u8], bounds: Bounds) -> io::Result<String> {
        let mut text = String::new();
        Unpacked::within(OneByOne(packed), bounds)?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// A pipe that gives one byte at a time.
    struct OneByOne<'b>(&'b [u8]);

    impl Read for OneByOne<'_> {
        fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
            let one = block.len().min(1);
            self.0.read(&mut block[..one])
        }
    }

    /// What was packed: many lines that differ, and a failure at the end.
    fn log() -> String {
        let mut seed = 1_u32;
        let steps = (0..12_000).map(|step| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            format!("step {step} loss {}\n", seed >> 24)
        });
        steps.chain(["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n".to_owned()]).collect()
    }

    #[test]
    fn every_format_is_unpacked_also_in_several_members() {
        for (format, packed) in PACKED {
            assert!(unpacked(packed).unwrap() == log(), "{format}");
            assert!(unpacked(&packed.repeat(2)).unwrap() == log().repeat(2), "{format}");
        }
        // An index as zstd's seekable format appends it.
        let (_, zstd) = PACKED[1];
        let indexed = [zstd, b"\x5e\x2a\x4d\x18\x03\0\0\0abc"].concat();
        assert!(unpacked(&indexed).unwrap() == log());
    }

    #[test]
    fn what_is_plain_stays_as_it_is() {
        for text in ["", "B", "BZh", "BZhx: 1", "BZh1: 1", "(7zXZ", "Killed\n"] {
            assert_eq!(unpacked(text.as_bytes()).unwrap(), text);
        }
    }

    #[test]
    fn of_a_file_that_is_cut_off_what_comes_before_is_read_and_the_cut_is_said() {
        for (format, packed) in PACKED {
            for length in [packed.len() / 2, packed.len() - 1, packed.len() - 20] {
                let text = unpacked(&packed[..length]).unwrap();
                let (read, said) = text.trim_end().rsplit_once('\n').unwrap();
                assert_eq!(said, CUT_OFF, "{format}");
                assert!(log().starts_with(read.trim_end_matches('\n')), "{format}");
                // bzip2, xz and zstd unpack whole blocks.
                assert!(read.len() >= log().len() / 4, "{format}: {} of {}", read.len(), log().len());
            }
            let mut damaged = packed.to_vec();
            damaged[packed.len() / 2..].fill(0x55);
            let text = unpacked(&damaged).map_err(|error| error.to_string());
            assert!(text.is_ok_and(|text| text.contains(CUT_OFF)), "{format}");
            assert!(unpacked(&packed[..packed.len().min(9)]).is_err(), "{format}: nothing could be unpacked");
        }
    }

    #[test]
    fn unpacking_ends_at_the_bound_and_says_so() {
        for (format, packed) in PACKED {
            let text = unpacked_within(packed, Bounds { most: 100_000, ..BOUNDS }).unwrap();
            assert!(text.len() < 200_000 && text.ends_with(&format!("… the rest {LEFT_OUT}\n")), "{format}");
        }
    }

    #[test]
    fn what_unpacks_to_more_than_any_log_is_left_out() {
        for (format, packed) in PACKED {
            let bounds = Bounds { at_any_ratio: 1000, ratio: 2, ..BOUNDS };
            let text = unpacked_within(packed, bounds).unwrap();
            assert!(text.contains("2 times") && text.contains(LEFT_OUT), "{format}");
            // A decoder hands over what it has decoded, which is at most a block more.
            assert!(text.len() < 2 * packed.len() + (64 << 10), "{format}: {} of {}", text.len(), packed.len());
            let whole = unpacked_within(packed, Bounds { ratio: 100, ..bounds }).unwrap();
            assert_eq!(whole, log(), "{format}");
        }
    }

    /// Members of gzip, each of 1 MiB, of which this many bytes differ and the others are the same: how long they are
    /// together, and how much is unpacked.
    fn unpacked_members(count: usize, different: usize) -> (u64, u64) {
        let mut seed = 1_u32;
        let mut text: Vec<u8> = (0..different)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                seed.to_be_bytes()[0]
            })
            .collect();
        text.resize(1 << 20, b'x');
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        io::Write::write_all(&mut encoder, &text).unwrap();
        let members = encoder.finish().unwrap().repeat(count);
        let unpacked = io::copy(&mut Unpacked::of(members.as_slice()).unwrap(), &mut io::sink()).unwrap();
        (members.len() as u64, unpacked)
    }

    #[test]
    fn a_bomb_of_any_size_ends_early_and_a_large_log_of_a_hundredth_does_not() {
        let (packed, unpacked) = unpacked_members(200, 0);
        assert!(packed < 300_000, "{packed}");
        assert!(unpacked < 150 << 20, "{unpacked} of 200 MiB");
        let (packed, unpacked) = unpacked_members(100, 9000);
        assert!((90..110).contains(&(unpacked / packed)), "{unpacked} of {packed}");
        assert_eq!(unpacked, 100 << 20);
    }

    #[test]
    fn a_dictionary_beyond_the_bound_is_refused_before_it_is_allocated() {
        // A window of 2 GiB in the header of a frame.
        let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0, 0, 0, 0];
        assert!(unpacked(&zstd).is_err());
    }
}
