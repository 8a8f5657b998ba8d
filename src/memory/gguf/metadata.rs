//! Owns a GGUF header's keys and values: which are kept (numbers, short texts, short lists of numbers) and which are
//! only counted (vocabularies, chat templates). Knows nothing of what a key means.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use super::cursor::{Cursor, GgufError};

/// More than any file has; large ones have about 60.
const MOST_KEYS: u64 = 4096;
const MOST_KEY: u64 = 256;
/// A longer text is passed over: no figure is in it.
const MOST_TEXT: u64 = 1024;
/// Longer lists are counted and passed over. Lists by layer have at most 1 024 values.
const MOST_LIST: u64 = 4096;
/// All kept lists together.
const MOST_LISTED: u64 = 1 << 17;
/// Texts in a list: a vocabulary and its merges have at most about 600 000.
const MOST_TEXTS: u64 = 1 << 20;

const TEXT: u32 = 8;
const LIST: u32 = 9;

/// A value of the metadata, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any whole number or truth value (1 and 0), wide enough for all of them.
    Whole(i128),
    /// A number with a fraction.
    Real(f64),
    /// A text of at most 1 KiB.
    Text(String),
    /// A list of whole numbers or truth values.
    List(Vec<i128>),
    /// Anything longer: only how much of it there is, in values or bytes.
    Long(u64),
}

/// Keys and values of a header.
#[derive(Clone, Debug, Default)]
pub struct Metadata(BTreeMap<String, Value>);

impl Metadata {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// A whole number that is not negative.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Value::Whole(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// A text of at most 1 KiB. Foreign: make it harmless before printing.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// How many values a list has, kept or not.
    pub fn length(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Value::List(values) => Some(values.len() as u64),
            Value::Long(count) => Some(*count),
            _ => None,
        }
    }

    /// A value of each of `layers` layers: a list of at least that length, or one number for all of them.
    pub fn per_layer(&self, key: &str, layers: usize) -> Option<Vec<u64>> {
        match self.get(key)? {
            Value::Whole(number) => Some(vec![u64::try_from(*number).ok()?; layers]),
            Value::List(values) if values.len() >= layers => {
                values.iter().take(layers).map(|value| u64::try_from(*value).ok()).collect()
            }
            _ => None,
        }
    }

    /// Sets a value; for tests and for headers made by hand.
    pub fn set(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }
}

/// Reads the count of keys and the keys.
pub(super) fn read<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<Metadata, GgufError> {
    // The count of keys stands before them; a key, a type and a value take at least 13 bytes.
    let count = cursor.count("keys", 13, MOST_KEYS)?;
    let mut metadata = Metadata::default();
    let mut listed = 0;
    for _ in 0..count {
        let key = cursor.string("bytes of a key", MOST_KEY)?;
        let kind = cursor.u32()?;
        let value = read_value(cursor, kind, &mut listed)?;
        if metadata.0.contains_key(&key) {
            return Err(GgufError::Malformed(format!("the key {} is there twice", key.escape_debug())));
        }
        metadata.0.insert(key, value);
    }
    Ok(metadata)
}

fn read_value<R: Read + Seek>(cursor: &mut Cursor<R>, kind: u32, listed: &mut u64) -> Result<Value, GgufError> {
    match kind {
        TEXT => read_text(cursor),
        LIST => read_list(cursor, listed),
        6 => Ok(Value::Real(f32::from_bits(cursor.u32()?).into())),
        12 => Ok(Value::Real(f64::from_bits(cursor.u64()?))),
        _ => Ok(Value::Whole(read_whole(cursor, kind)?)),
    }
}

/// Bytes of one value of a type of fixed size.
fn width(kind: u32) -> Result<u64, GgufError> {
    match kind {
        0 | 1 | 7 => Ok(1),
        2 | 3 => Ok(2),
        4..=6 => Ok(4),
        10..=12 => Ok(8),
        LIST => Err(GgufError::Malformed("a list of lists".into())),
        _ => Err(unknown(kind)),
    }
}

fn read_whole<R: Read + Seek>(cursor: &mut Cursor<R>, kind: u32) -> Result<i128, GgufError> {
    Ok(match kind {
        0 | 7 => u8::from_le_bytes(cursor.array()?).into(),
        1 => i8::from_le_bytes(cursor.array()?).into(),
        2 => u16::from_le_bytes(cursor.array()?).into(),
        3 => i16::from_le_bytes(cursor.array()?).into(),
        4 => cursor.u32()?.into(),
        5 => i32::from_le_bytes(cursor.array()?).into(),
        10 => cursor.u64()?.into(),
        11 => i64::from_le_bytes(cursor.array()?).into(),
        _ => return Err(unknown(kind)),
    })
}

fn unknown(kind: u32) -> GgufError {
    GgufError::Malformed(format!("a value of the unknown type {kind}"))
}

fn read_text<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<Value, GgufError> {
    let length = cursor.count("bytes of text", 1, u64::MAX)?;
    if length > MOST_TEXT {
        cursor.skip(length)?;
        return Ok(Value::Long(length));
    }
    Ok(Value::Text(cursor.text(length)?))
}

fn read_list<R: Read + Seek>(cursor: &mut Cursor<R>, listed: &mut u64) -> Result<Value, GgufError> {
    let kind = cursor.u32()?;
    if kind == TEXT {
        let count = cursor.count("texts in a list", 8, MOST_TEXTS)?;
        for _ in 0..count {
            let length = cursor.count("bytes of text", 1, u64::MAX)?;
            cursor.skip(length)?;
        }
        return Ok(Value::Long(count));
    }
    let width = width(kind)?;
    let count = cursor.count("values in a list", width, u64::MAX)?;
    if count > MOST_LIST || matches!(kind, 6 | 12) || listed.saturating_add(count) > MOST_LISTED {
        cursor.skip(count.saturating_mul(width))?;
        return Ok(Value::Long(count));
    }
    *listed = listed.saturating_add(count);
    let values: Result<Vec<i128>, GgufError> = (0..count).map(|_| read_whole(cursor, kind)).collect();
    Ok(Value::List(values?))
}
