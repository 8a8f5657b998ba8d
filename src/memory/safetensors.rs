//! Owns reading the header of a safetensors file and of a checkpoint's index: names, dtypes, shapes, bytes. Headers
//! only. Files may be hostile: the header is at most 100 MB by the format and at most 8 MiB here, duplicate names,
//! unknown dtypes, gaps and overlaps are refused as its own reader does, and every size is held against the file's length. Source: safetensors 0.8.0, read on 2026-11-20.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};

/// Headers of real files have up to a few MB.
const MOST_HEADER: u64 = 8 << 20;
const MOST_OF_FORMAT: u64 = 100_000_000;
const MOST_TENSORS: usize = 200_000;
const MOST_DIMS: usize = 8;

/// Why a header can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SafetensorsError {
    /// The operating system's refusal.
    #[error("it could not be read: {0}")]
    Io(#[from] io::Error),
    /// The file ends before its header or its data does.
    #[error("it ends too early: {length} bytes are there, {needed} are needed (an unfinished download?)")]
    Truncated {
        /// Bytes that would be needed.
        needed: u64,
        /// Bytes that are there.
        length: u64,
    },
    /// A header that the format allows and no real file has.
    #[error("its header has {0} bytes, and at most {MOST_HEADER} are read here")]
    TooLong(u64),
    /// Anything else that can't be.
    #[error("its header is damaged: {0}")]
    Malformed(String),
}

/// A tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub dtype: String,
    /// Dimensions, the row last.
    pub shape: Vec<u64>,
    /// Bytes of its data.
    pub bytes: u64,
}

impl Stored {
    /// Elements, at most `u64::MAX`.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// A JSON object whose names must differ; `__metadata__` is passed over.
struct Entries(BTreeMap<String, Entry>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Entries;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    if entries.len() >= MOST_TENSORS {
                        return Err(de::Error::custom("too many tensors"));
                    }
                    let entry = map.next_value()?;
                    if let Some(_twice) = entries.insert(name, entry) {
                        return Err(de::Error::custom("a tensor is there twice"));
                    }
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

/// Bits of one element; `None` for a dtype that is not known here.
fn bits(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "F4" => 4,
        "F6_E2M3" | "F6_E3M2" => 6,
        "BOOL" | "I8" | "U8" => 8,
        _ if dtype.starts_with("F8_") => 8,
        "F16" | "BF16" | "I16" | "U16" => 16,
        "F32" | "I32" | "U32" => 32,
        "F64" | "I64" | "U64" | "C64" => 64,
        _ => return None,
    })
}

/// What a dtype says of weights in fewer bits than two bytes: FP8, or numbers packed into integers.
pub fn narrow(dtype: &str) -> Option<&'static str> {
    Some(match dtype {
        _ if dtype.starts_with("F8_") => "FP8",
        "F4" => "FP4",
        "I8" | "U8" => "8-bit integers",
        "I32" | "U32" => "packed integers",
        _ => return None,
    })
}

/// Reads the header of a file of `length` bytes. Exact, or an error.
pub fn read(mut source: impl Read, length: u64) -> Result<BTreeMap<String, Stored>, SafetensorsError> {
    if length < 8 {
        return Err(SafetensorsError::Truncated { needed: 8, length });
    }
    let mut size = [0; 8];
    source.read_exact(&mut size)?;
    let size = u64::from_le_bytes(size);
    if size > MOST_OF_FORMAT {
        return Err(SafetensorsError::Malformed(format!(
            "{size} bytes of it, where the format has {MOST_OF_FORMAT} at most"
        )));
    }
    if size > MOST_HEADER {
        return Err(SafetensorsError::TooLong(size));
    }
    let start = size.saturating_add(8);
    if start > length {
        return Err(SafetensorsError::Truncated { needed: start, length });
    }
    let mut text = Vec::new();
    source.take(size).read_to_end(&mut text)?;
    let entries: Entries =
        serde_json::from_slice(&text).map_err(|error| SafetensorsError::Malformed(error.to_string()))?;
    // One behind the other, from the first byte on.
    let mut places: Vec<((u64, u64), &str)> =
        entries.0.iter().map(|(name, entry)| (entry.data_offsets, name.as_str())).collect();
    places.sort_unstable();
    let mut end = 0;
    for ((from, to), name) in places {
        if from != end {
            let what = if from < end { "overlaps another tensor" } else { "leaves a gap before it" };
            return Err(malformed(name, what));
        }
        end = to;
    }
    let tensors = entries.0.into_iter().map(|(name, entry)| {
        let stored = stored(&name, entry, start, length)?;
        Ok((name, stored))
    });
    tensors.collect()
}

fn malformed(name: &str, what: &str) -> SafetensorsError {
    SafetensorsError::Malformed(format!("{} {what}", name.escape_debug()))
}

fn stored(name: &str, entry: Entry, start: u64, length: u64) -> Result<Stored, SafetensorsError> {
    let (from, to) = entry.data_offsets;
    let bytes = to.checked_sub(from).ok_or_else(|| malformed(name, "ends before it begins"))?;
    if entry.shape.len() > MOST_DIMS {
        return Err(malformed(name, "has too many dimensions"));
    }
    let elements = entry.shape.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
    let bits = bits(&entry.dtype).ok_or_else(|| {
        malformed(name, &format!("has the type {}, which is not known here", entry.dtype.escape_debug()))
    })?;
    let needed = elements.and_then(|count| count.checked_mul(bits)).map(|bits| bits.div_ceil(8));
    if needed != Some(bytes) {
        return Err(malformed(name, "has a shape that is not as large as its data"));
    }
    let needed = start.checked_add(to).ok_or_else(|| malformed(name, "is too large to be true"))?;
    if needed > length {
        return Err(SafetensorsError::Truncated { needed, length });
    }
    Ok(Stored { dtype: entry.dtype, shape: entry.shape, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes
    }

    fn parse(header: &str, data: u64) -> Result<BTreeMap<String, Stored>, SafetensorsError> {
        let bytes = file(header);
        let length = bytes.len() as u64 + data;
        read(bytes.as_slice(), length)
    }

    #[test]
    fn tensors_come_as_they_stand() {
        let header =
            r#"{"__metadata__": {"format": "pt"}, "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}"#;
        let tensors = parse(header, 12).unwrap();
        assert_eq!(tensors["a"], Stored { dtype: "BF16".into(), shape: vec![2, 3], bytes: 12 });
        assert!(parse(header, 11).unwrap_err().to_string().contains("unfinished download"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let entry = |dtype: &str, shape: &str, offsets: &str| {
            format!(r#"{{"a": {{"dtype": "{dtype}", "shape": {shape}, "data_offsets": {offsets}}}}}"#)
        };
        for (dtype, shape, offsets) in [
            ("F16", "[9223372036854775807, 3]", "[0, 6]"),
            ("F16", "[3]", "[6, 0]"),
            ("F16", "[3]", "[0, 18446744073709551615]"),
            ("F16", "[-3]", "[0, 6]"),
            ("F16", "[1,1,1,1,1,1,1,1,1]", "[0, 2]"),
            ("ZZ", "[1]", "[0, 2]"),
            ("F16", "[1]", "[2, 4]"),
        ] {
            parse(&entry(dtype, shape, offsets), 100).unwrap_err();
        }
        let two = |offsets: &str| {
            format!(
                r#"{{"a": {{"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}}, "b": {{"dtype": "F16", "shape": [1], "data_offsets": {offsets}}}}}"#
            )
        };
        assert_eq!(parse(&two("[2, 4]"), 4).unwrap().len(), 2);
        for (offsets, what) in [("[0, 2]", "overlaps"), ("[1, 3]", "overlaps"), ("[3, 5]", "gap")] {
            assert!(parse(&two(offsets), 9).unwrap_err().to_string().contains(what), "{offsets}");
        }
        let long = 9_000_000_u64.to_le_bytes();
        assert!(read(long.as_slice(), 100 << 20).unwrap_err().to_string().starts_with("its header has 9000000 bytes"));
        let twice = entry("I8", "[1]", "[0, 1]")
            .replace("}}", "}, \"a\": {\"dtype\": \"I8\", \"shape\": [1], \"data_offsets\": [0, 1]}}");
        assert!(parse(&twice, 1).unwrap_err().to_string().contains("twice"));
        parse(&"[".repeat(100_000), 0).unwrap_err();
        parse("", 0).unwrap_err();
        let huge = (1_u64 << 40).to_le_bytes();
        assert!(read(huge.as_slice(), 100 << 30).unwrap_err().to_string().contains("damaged"));
    }
}
