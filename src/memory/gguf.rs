//! Owns reading a GGUF file's header, versions 2 and 3: metadata, tensor names, shapes, types and offsets, and the
//! joining of split files. Reads headers only, never tensor data. Files may be hostile: every count is held against
//! the bytes that are left and against a cap, sums are checked, and memory stays under 64 MiB.
//! Source: ggml's gguf.cpp as of 2026-11-20. Knows nothing of what the figures mean for memory.

mod cursor;
mod metadata;
#[cfg(test)]
pub(super) mod testing;

use std::collections::HashSet;
use std::io::{Read, Seek};

use super::ggml::GgmlType;
use cursor::Cursor;
pub use cursor::GgufError;
pub use metadata::{Metadata, Value};

/// More than any file has; a Mixture of 61 layers has 1 086.
const MOST_TENSORS: u64 = 16_384;
/// ggml's own limit on a tensor's name, with its closing zero.
const MOST_NAME: u64 = 64;
const MOST_DIMS: u32 = 4;
const DEFAULT_ALIGNMENT: u64 = 32;
const MOST_ALIGNMENT: u64 = 64 << 10;

/// A tensor as the header describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub name: String,
    /// Elements in each dimension, the row first; 1 to 4 of them.
    pub dims: Vec<u64>,
    /// How an element is stored.
    pub kind: GgmlType,
    /// Bytes of its data, without padding.
    pub bytes: u64,
}

impl TensorInfo {
    /// Elements, at most `u64::MAX`.
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim))
    }
}

/// A GGUF file's header.
#[derive(Clone, Debug, Default)]
pub struct Gguf {
    pub metadata: Metadata,
    /// In the order of the file.
    pub tensors: Vec<TensorInfo>,
}

/// Reads the header of a source of `length` bytes. Exact, or an error: nothing is guessed.
pub fn read<R: Read + Seek>(source: R, length: u64) -> Result<Gguf, GgufError> {
    let mut cursor = Cursor::new(source, length);
    if cursor.remaining() < 4 || cursor.array()? != *b"GGUF" {
        return Err(GgufError::NotGguf);
    }
    match cursor.u32()? {
        2 | 3 => {}
        version if version & 0xFFFF == 0 => return Err(GgufError::OtherEndian),
        version => return Err(GgufError::Version(version)),
    }
    let tensor_count = cursor.count("tensors", 24, MOST_TENSORS)?;
    let metadata = metadata::read(&mut cursor)?;
    let alignment = alignment(&metadata)?;
    let (tensors, end) = read_tensors(&mut cursor, tensor_count, alignment)?;
    let data = cursor.position().checked_next_multiple_of(alignment);
    let needed = data.and_then(|data| data.checked_add(end)).ok_or_else(|| too_large("the tensors"))?;
    if end > 0 && needed > length {
        return Err(GgufError::Truncated { needed, length });
    }
    Ok(Gguf { metadata, tensors })
}

fn alignment(metadata: &Metadata) -> Result<u64, GgufError> {
    let alignment = metadata.number("general.alignment").unwrap_or(DEFAULT_ALIGNMENT);
    if alignment.is_power_of_two() && alignment <= MOST_ALIGNMENT {
        Ok(alignment)
    } else {
        Err(GgufError::Malformed(format!("general.alignment is {alignment}")))
    }
}

fn too_large(what: &str) -> GgufError {
    GgufError::Malformed(format!("{what} would take more than 2^63 bytes"))
}

/// The tensors, and where the last one ends, counted from the start of the data.
fn read_tensors<R: Read + Seek>(
    cursor: &mut Cursor<R>,
    count: u64,
    alignment: u64,
) -> Result<(Vec<TensorInfo>, u64), GgufError> {
    let mut tensors: Vec<TensorInfo> = Vec::new();
    let mut names = HashSet::new();
    let mut end = 0;
    for _ in 0..count {
        let (tensor, offset) = read_tensor(cursor)?;
        if !names.insert(tensor.name.clone()) {
            return Err(GgufError::Malformed(format!("the tensor {} is there twice", tensor.name.escape_debug())));
        }
        if offset.checked_rem(alignment) != Some(0) {
            return Err(GgufError::Malformed(format!("{} is not aligned", tensor.name.escape_debug())));
        }
        end = offset.checked_add(tensor.bytes).map(|this| this.max(end)).ok_or_else(|| too_large("a tensor"))?;
        tensors.push(tensor);
    }
    Ok((tensors, end))
}

fn read_tensor<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<(TensorInfo, u64), GgufError> {
    let name = cursor.string("bytes of a tensor's name", MOST_NAME)?;
    let count = cursor.u32()?;
    if count > MOST_DIMS {
        return Err(GgufError::TooMany("dimensions", count.into(), MOST_DIMS.into()));
    }
    let mut dims = (0..count).map(|_| cursor.u64()).collect::<Result<Vec<u64>, GgufError>>()?;
    if dims.is_empty() {
        dims.push(1);
    }
    let id = cursor.u32()?;
    let shown = name.escape_debug().to_string();
    let kind = GgmlType::from_id(id)
        .ok_or_else(|| GgufError::Malformed(format!("{shown} is of type {id}, which is removed or not known here")))?;
    let bytes = kind
        .tensor_bytes(&dims)
        .ok_or_else(|| GgufError::Malformed(format!("{shown} has the impossible shape {dims:?} of {}", kind.name)))?;
    let offset = cursor.u64()?;
    Ok((TensorInfo { name, dims, kind, bytes }, offset))
}

impl Gguf {
    /// Takes in the tensors of a further file of the same model. Only the first one has the metadata.
    pub fn join(&mut self, part: Gguf) -> Result<(), GgufError> {
        if self.tensors.len().saturating_add(part.tensors.len()) as u64 > MOST_TENSORS {
            return Err(GgufError::Malformed("its parts have too many tensors together".into()));
        }
        let known: HashSet<&str> = self.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        if let Some(twice) = part.tensors.iter().find(|tensor| known.contains(tensor.name.as_str())) {
            return Err(GgufError::Malformed(format!("two parts have {}", twice.name.escape_debug())));
        }
        self.tensors.extend(part.tensors);
        Ok(())
    }
}

/// The names of all parts, where this is the name of one: `m-00002-of-00003.gguf`. At most 9 999 of them.
pub fn split_names(name: &str) -> Option<Vec<String>> {
    let (before, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = before.rsplit_once('-')?;
    let parts: u32 = count.parse().ok().filter(|parts| (1..=9999).contains(parts))?;
    if ![number, count].iter().all(|part| part.len() == 5 && part.bytes().all(|byte| byte.is_ascii_digit())) {
        return None;
    }
    Some((1..=parts).map(|part| format!("{stem}-{part:05}-of-{count}.gguf")).collect())
}

#[cfg(test)]
mod tests;
