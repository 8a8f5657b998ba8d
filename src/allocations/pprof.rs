//! Owns JAX's device memory profile: pprof's protobuf, unpacked by the caller. It says which arrays are alive, by stack.

use std::collections::HashMap;

use super::read::Refusal;
use super::{Frame, Gathering, StackId, Stacks, TextId};
use crate::units::Bytes;

/// What is alive in a process of JAX.
#[derive(Debug, Default)]
pub struct Profile {
    pub stacks: Stacks,
    pub rows: Vec<Row>,
}

/// What one stack has alive on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// "buffer" or "executable".
    pub kind: TextId,
    /// Such as "gpu:0".
    pub device: TextId,
    pub bytes: Bytes,
    pub count: u64,
    pub stack: StackId,
}

/// More frames than any profile has, over all its stacks: a small file could name each of them many times.
const MOST_FRAMES: usize = 8 << 20;

/// Whether unpacked bytes begin like a profile: the first field is the type of a sample.
pub fn is_profile(head: &[u8]) -> bool {
    matches!(head, [0x0a, 2..=8, 0x08, ..] | [0x0a, 2..=4, 0x10, ..])
}

/// A field of a message.
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
    /// Of a fixed length: none that is read has it.
    Fixed,
}

/// The fields of a message, one after the other.
struct Fields<'b> {
    rest: &'b [u8],
    /// Where in the file the message ends.
    end: u64,
}

impl<'b> Fields<'b> {
    fn refused(&self, why: &str) -> Refusal {
        Refusal { offset: self.end.saturating_sub(self.rest.len() as u64), why: why.into() }
    }

    fn next(&mut self) -> Result<Option<(u64, Field<'b>)>, Refusal> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => self.taken(8).map(|_| Field::Fixed)?,
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.taken(length)?)
            }
            5 => self.taken(4).map(|_| Field::Fixed)?,
            _ => return Err(self.refused("a field has an unknown form")),
        };
        Ok(Some((key >> 3, field)))
    }

    fn varint(&mut self) -> Result<u64, Refusal> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let Some((byte, rest)) = self.rest.split_first() else { return Err(self.refused("it ends too early,")) };
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.refused("a number is too long"))
    }

    fn taken(&mut self, length: u64) -> Result<&'b [u8], Refusal> {
        let parts = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let Some((taken, rest)) = parts else { return Err(self.refused("it ends too early,")) };
        self.rest = rest;
        Ok(taken)
    }

    /// The message that was taken last.
    fn of(&self, message: &'b [u8]) -> Fields<'b> {
        Fields { rest: message, end: self.end.saturating_sub(self.rest.len() as u64) }
    }

    /// Adds the numbers of a repeated field, packed or not.
    fn numbers(&self, field: &Field<'b>, into: &mut Vec<u64>) -> Result<(), Refusal> {
        match field {
            Field::Number(number) => into.push(*number),
            Field::Bytes(packed) => {
                let mut packed = self.of(packed);
                while !packed.rest.is_empty() {
                    into.push(packed.varint()?);
                }
            }
            Field::Fixed => {}
        }
        Ok(())
    }
}

/// The numbers of a message by their fields.
fn numbers_of(mut fields: Fields, mut each: impl FnMut(u64, u64)) -> Result<(), Refusal> {
    while let Some((key, field)) = fields.next()? {
        if let Field::Number(number) = field {
            each(key, number);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Sample {
    locations: Vec<u64>,
    values: Vec<u64>,
    /// The texts of key and value.
    labels: Vec<(u64, u64)>,
}

/// The messages of a file: they may refer to those that come later.
#[derive(Default)]
struct Parts<'b> {
    /// What each value of a sample is, as texts.
    types: Vec<(u64, u64)>,
    samples: Vec<Sample>,
    /// Function and line, innermost first.
    locations: HashMap<u64, Vec<(u64, u64)>>,
    /// Name and file.
    functions: HashMap<u64, (u64, u64)>,
    texts: Vec<&'b [u8]>,
}

impl Parts<'_> {
    fn text(&self, place: u64) -> &[u8] {
        usize::try_from(place).ok().and_then(|place| self.texts.get(place)).copied().unwrap_or_default()
    }
}

/// Reads a profile.
///
/// # Errors
///
/// If the bytes are none.
pub fn read(bytes: &[u8]) -> Result<Profile, Refusal> {
    let parts = parts(bytes)?;
    let is_of = |(kind, unit): &(u64, u64), names: [&[u8]; 2]| [parts.text(*kind), parts.text(*unit)] == names;
    let bytes_at = parts.types.iter().position(|of| is_of(of, [b"space", b"bytes"]));
    let count_at = parts.types.iter().position(|of| is_of(of, [b"allocations", b"count"]));
    let Some(bytes_at) = bytes_at else {
        return Err(Refusal { offset: 0, why: "it is a profile of something other than memory,".into() });
    };
    let mut gathering = Gathering::default();
    let texts: Vec<TextId> = parts.texts.iter().map(|text| gathering.text(&String::from_utf8_lossy(text))).collect();
    let id_of =
        |place: u64| usize::try_from(place).ok().and_then(|place| texts.get(place)).copied().unwrap_or_default();
    let mut rows = Vec::with_capacity(parts.samples.len());
    let mut frame_count = 0;
    let mut frames = Vec::new();
    for sample in &parts.samples {
        frames.clear();
        for (function, line) in sample.locations.iter().filter_map(|id| parts.locations.get(id)).flatten() {
            frame_count += 1;
            if frame_count > MOST_FRAMES {
                return Err(Refusal { offset: 0, why: "it has more frames than fit in memory,".into() });
            }
            let (name, file) = parts.functions.get(function).copied().unwrap_or_default();
            frames.push(Frame { name: id_of(name), file: id_of(file), line: u32::try_from(*line).unwrap_or(0) });
        }
        let label = |wanted: &[u8]| sample.labels.iter().find(|(key, _)| parts.text(*key) == wanted);
        let text_of = |wanted: &[u8]| label(wanted).map(|(_, value)| id_of(*value)).unwrap_or_default();
        let value_at = |place: usize| sample.values.get(place).copied();
        rows.push(Row {
            kind: text_of(b"kind"),
            device: text_of(b"device"),
            bytes: Bytes(value_at(bytes_at).unwrap_or(0)),
            count: count_at.and_then(value_at).unwrap_or(0),
            stack: gathering.stack(&frames),
        });
    }
    Ok(Profile { stacks: gathering.finish(), rows })
}

fn parts(bytes: &[u8]) -> Result<Parts<'_>, Refusal> {
    let mut parts = Parts::default();
    let mut fields = Fields { rest: bytes, end: bytes.len() as u64 };
    while let Some((key, field)) = fields.next()? {
        let Field::Bytes(message) = field else { continue };
        match key {
            1 => {
                let mut of = (0, 0);
                numbers_of(fields.of(message), |key, number| match key {
                    1 => of.0 = number,
                    2 => of.1 = number,
                    _ => {}
                })?;
                parts.types.push(of);
            }
            2 => parts.samples.push(sample(fields.of(message))?),
            4 => {
                let (id, lines) = location(fields.of(message))?;
                parts.locations.insert(id, lines);
            }
            5 => {
                let (mut id, mut name, mut file) = (0, 0, 0);
                numbers_of(fields.of(message), |key, number| match key {
                    1 => id = number,
                    2 => name = number,
                    4 => file = number,
                    _ => {}
                })?;
                parts.functions.insert(id, (name, file));
            }
            6 => parts.texts.push(message),
            _ => {}
        }
    }
    Ok(parts)
}

fn sample(mut fields: Fields) -> Result<Sample, Refusal> {
    let mut sample = Sample::default();
    while let Some((key, field)) = fields.next()? {
        match (key, &field) {
            (1, _) => fields.numbers(&field, &mut sample.locations)?,
            (2, _) => fields.numbers(&field, &mut sample.values)?,
            (3, Field::Bytes(label)) => {
                let mut pair = (0, 0);
                numbers_of(fields.of(label), |key, number| match key {
                    1 => pair.0 = number,
                    2 => pair.1 = number,
                    _ => {}
                })?;
                sample.labels.push(pair);
            }
            _ => {}
        }
    }
    Ok(sample)
}

fn location(mut fields: Fields) -> Result<(u64, Vec<(u64, u64)>), Refusal> {
    let (mut id, mut lines) = (0, Vec::new());
    while let Some((key, field)) = fields.next()? {
        match (key, field) {
            (1, Field::Number(number)) => id = number,
            (4, Field::Bytes(line)) => {
                let mut of = (0, 0);
                numbers_of(fields.of(line), |key, number| match key {
                    1 => of.0 = number,
                    2 => of.1 = number,
                    _ => {}
                })?;
                lines.push(of);
            }
            _ => {}
        }
    }
    Ok((id, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As JAX 0.10.2 wrote it on a CPU, unpacked, with other paths.
    const PROFILE: &[u8] = include_bytes!("../../tests/snapshots/jax.pprof");

    #[test]
    fn live_bytes_are_read_by_stack_device_and_kind() {
        assert!(is_profile(PROFILE));
        let profile = read(PROFILE).unwrap();
        assert_eq!(profile.rows.len(), 9);
        let largest = profile.rows.iter().max_by_key(|row| row.bytes.0).unwrap();
        assert_eq!((largest.bytes, largest.count), (Bytes(16 << 20), 1));
        let text = |id| profile.stacks.text(id);
        assert_eq!((text(largest.kind), text(largest.device)), ("buffer", "cpu:0"));
        let own: Vec<_> = profile.stacks.frames(largest.stack).filter(|frame| text(frame.file) == "/w/m.py").collect();
        assert_eq!((text(own[0].name), own[0].line), ("<module>", 4));
        let executables: Vec<_> = profile.rows.iter().filter(|row| text(row.kind) == "executable").collect();
        assert!(executables.iter().all(|row| text(row.device).is_empty()));
    }

    #[test]
    fn what_is_cut_off_or_no_profile_is_refused_or_smaller() {
        for length in 0..PROFILE.len() {
            if let Ok(profile) = read(&PROFILE[..length]) {
                assert!(profile.rows.len() <= 9);
            }
        }
        assert!(read(b"no profile").is_err());
        assert!(read(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    }
}
