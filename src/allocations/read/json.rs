//! Owns JSON of a snapshot's shape. Each value is handed on as a pickle's opcodes would, so no tree is built here either.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::refusal::Refusal;
use super::shape::{Shape, Value};

/// Counts what is taken, since serde_json tells lines and columns only.
struct Counted<R> {
    input: R,
    taken: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(block)?;
        self.taken.set(self.taken.get() + count as u64);
        Ok(count)
    }
}

pub(super) fn read(input: impl Read, shape: &mut Shape) -> Result<(), Refusal> {
    let taken = Rc::new(Cell::new(0));
    // The reader takes a byte at a time, and the one that it looks ahead counts.
    let counted = Counted { input: BufReader::with_capacity(64 << 10, input), taken: Rc::clone(&taken) };
    let mut json = serde_json::Deserializer::from_reader(counted);
    let read = Next(shape).deserialize(&mut json).and_then(|()| json.end());
    shape.end = taken.get();
    read.map_err(|error| {
        let why = match error.classify() {
            serde_json::error::Category::Eof => "it ends too early,".into(),
            serde_json::error::Category::Syntax => "it is no JSON".into(),
            serde_json::error::Category::Data => without_place(&error),
            serde_json::error::Category::Io => format!("it can't be read ({error})"),
        };
        Refusal { offset: taken.get().saturating_sub(1), why }
    })
}

/// The message without serde_json's " at line 1 column 2".
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or_else(|| message.clone(), |(why, _)| why.to_owned())
}

/// The value that comes next.
struct Next<'s>(&'s mut Shape);

impl<'de> DeserializeSeed<'de> for Next<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Next<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.0.push(Value::Bool(value)).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.0.push(Value::Number(value)).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.0.push(u64::try_from(value).map_or(Value::Negative, Value::Number)).map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.0.push(Value::Float(value)).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.0.text(value).map_err(E::custom)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.0.push(Value::Nothing).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let shape = self.0;
        shape.empty_list().and_then(|()| shape.mark()).map_err(A::Error::custom)?;
        while items.next_element_seed(Next(shape))?.is_some() {}
        shape.since_mark().and_then(|count| shape.append(count)).map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let shape = self.0;
        shape.empty_dictionary().and_then(|()| shape.mark()).map_err(A::Error::custom)?;
        while entries.next_key_seed(Next(shape))?.is_some() {
            entries.next_value_seed(Next(shape))?;
        }
        shape.since_mark().and_then(|count| shape.set(count)).map_err(A::Error::custom)
    }
}
