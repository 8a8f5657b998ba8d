//! Owns the pickle format: the opcodes of which a snapshot consists. All others are refused, so nothing is ever run.

use std::io::{self, ErrorKind, Read};

use super::refusal::{Refusal, unreadable};
use super::shape::{Shape, Value};

pub(super) const PROTO: u8 = 0x80;

/// How much is read at once, in bytes.
const BLOCK: usize = 256 << 10;

/// The input with its place.
struct Source<R> {
    input: R,
    block: Vec<u8>,
    at: usize,
    end: usize,
    /// Where the block begins in the input.
    offset: u64,
}

/// Why an opcode is not carried out.
enum Stop {
    Refused(&'static str),
    Unknown(u8),
    Unreadable(io::Error),
}

impl From<&'static str> for Stop {
    fn from(why: &'static str) -> Stop {
        Stop::Refused(why)
    }
}

const ENDS_EARLY: Stop = Stop::Refused("it ends too early,");

impl<R: Read> Source<R> {
    fn offset(&self) -> u64 {
        self.offset + self.at as u64
    }

    fn refill(&mut self) -> Result<(), Stop> {
        self.offset += self.end as u64;
        (self.at, self.end) = (0, 0);
        self.end = read_some(&mut self.input, &mut self.block).map_err(Stop::Unreadable)?;
        if self.end == 0 { Err(ENDS_EARLY) } else { Ok(()) }
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, Stop> {
        if self.at >= self.end {
            self.refill()?;
        }
        let byte = self.block.get(self.at).copied().ok_or(ENDS_EARLY)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        if let Some(bytes) = self.block.get(self.at..self.end).and_then(<[u8]>::first_chunk::<N>) {
            self.at += N;
            return Ok(*bytes);
        }
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    #[inline]
    fn number(&mut self) -> Result<u32, Stop> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    /// Takes so many bytes, which need not be in the input: nothing is allocated for what does not come.
    fn text(&mut self, length: u64, shape: &mut Shape) -> Result<(), Stop> {
        let here = self.block.get(self.at..self.end).unwrap_or_default();
        if let Some(text) = usize::try_from(length).ok().and_then(|length| here.get(..length)) {
            self.at += text.len();
            return Ok(shape.text(&String::from_utf8_lossy(text))?);
        }
        if length > LONGEST_TEXT {
            return Err("a text is longer than any of a snapshot,".into());
        }
        let mut text = Vec::new();
        let mut missing = usize::try_from(length).map_err(|_| ENDS_EARLY)?;
        while missing > 0 {
            if self.at >= self.end {
                self.refill()?;
            }
            let here = self.block.get(self.at..self.end).unwrap_or_default();
            let here = here.get(..missing).unwrap_or(here);
            text.extend_from_slice(here);
            self.at += here.len();
            missing -= here.len();
        }
        Ok(shape.text(&String::from_utf8_lossy(&text))?)
    }
}

/// The longest text that is read, in bytes: PyTorch's longest are traces of FX nodes.
const LONGEST_TEXT: u64 = 16 << 20;

/// Reads what is there, at least one byte before the end.
pub(super) fn read_some(input: &mut impl Read, block: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(block) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads a pickle up to its STOP.
pub(super) fn read(input: impl Read, shape: &mut Shape) -> Result<(), Refusal> {
    let mut source = Source { input, block: vec![0; BLOCK], at: 0, end: 0, offset: 0 };
    let mut memo = Vec::new();
    loop {
        let offset = source.offset();
        match step(&mut source, &mut memo, shape) {
            Ok(false) => {}
            Ok(true) => {
                shape.end = offset;
                return Ok(());
            }
            Err(Stop::Refused(why)) => return Err(Refusal { offset, why: why.into() }),
            Err(Stop::Unknown(opcode)) => {
                let why = format!("no snapshot has the opcode 0x{opcode:02x}, which is");
                return Err(Refusal { offset, why });
            }
            Err(Stop::Unreadable(error)) => return Err(unreadable(offset, &error)),
        }
    }
}

/// Carries out one opcode; true if it was the last.
#[inline]
fn step<R: Read>(source: &mut Source<R>, memo: &mut Vec<u32>, shape: &mut Shape) -> Result<bool, Stop> {
    match source.byte()? {
        // LONG_BINGET and BINGET: most of a snapshot are references to frames.
        b'j' => {
            let index = source.number()?;
            again(memo, index, shape)?;
        }
        b'h' => {
            let index = source.byte()?;
            again(memo, index.into(), shape)?;
        }
        // MEMOIZE.
        0x94 => memo.push(shape.remembered()?),
        // BINPUT and LONG_BINPUT.
        b'q' => {
            let index = source.byte()?;
            remember(memo, index.into(), shape)?;
        }
        b'r' => {
            let index = source.number()?;
            remember(memo, index, shape)?;
        }
        // BINUNICODE, its short and its long form.
        b'X' => {
            let length = source.number()?;
            source.text(length.into(), shape)?;
        }
        0x8c => {
            let length = source.byte()?;
            source.text(length.into(), shape)?;
        }
        0x8d => {
            let length = u64::from_le_bytes(source.bytes()?);
            source.text(length, shape)?;
        }
        // BININT, BININT1, BININT2, LONG1.
        b'J' => {
            let number = i32::from_le_bytes(source.bytes()?);
            shape.push(u64::try_from(number).map_or(Value::Negative, Value::Number))?;
        }
        b'K' => {
            let number = source.byte()?;
            shape.push(Value::Number(number.into()))?;
        }
        b'M' => {
            let number = u16::from_le_bytes(source.bytes()?);
            shape.push(Value::Number(number.into()))?;
        }
        0x8a => {
            let number = long(source)?;
            shape.push(number)?;
        }
        // BINFLOAT.
        b'G' => {
            let number = f64::from_be_bytes(source.bytes()?);
            shape.push(Value::Float(number))?;
        }
        b'N' => shape.push(Value::Nothing)?,
        0x88 => shape.push(Value::Bool(true))?,
        0x89 => shape.push(Value::Bool(false))?,
        b'(' => shape.mark()?,
        b']' => shape.empty_list()?,
        b'}' => shape.empty_dictionary()?,
        // APPEND and APPENDS.
        b'a' => shape.append(1)?,
        b'e' => {
            let count = shape.since_mark()?;
            shape.append(count)?;
        }
        // SETITEM and SETITEMS.
        b's' => shape.set_one()?,
        b'u' => {
            let count = shape.since_mark()?;
            shape.set(count)?;
        }
        // EMPTY_TUPLE, TUPLE1 to TUPLE3, TUPLE.
        b')' => shape.tuple(0)?,
        0x85 => shape.tuple(1)?,
        0x86 => shape.tuple(2)?,
        0x87 => shape.tuple(3)?,
        b't' => {
            let count = shape.since_mark()?;
            shape.tuple(count)?;
        }
        PROTO => match source.byte()? {
            2..=5 => {}
            _ => return Err("its pickle protocol is unknown".into()),
        },
        // FRAME: the input is read in blocks of its own.
        0x95 => {
            source.bytes::<8>()?;
        }
        b'.' => return Ok(true),
        // GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, NEWOBJ_EX, PERSID, BINPERSID, EXT1, EXT2, EXT4.
        b'c' | 0x93 | b'R' | b'b' | b'i' | b'o' | 0x81 | 0x92 | b'P' | b'Q' | 0x82..=0x84 => {
            return Err("it would run code".into());
        }
        opcode => return Err(Stop::Unknown(opcode)),
    }
    Ok(false)
}

#[inline]
fn again(memo: &[u32], index: u32, shape: &mut Shape) -> Result<(), Stop> {
    let place = memo.get(index as usize).ok_or("it refers to what is not there")?;
    Ok(shape.again(*place)?)
}

fn remember(memo: &mut Vec<u32>, index: u32, shape: &mut Shape) -> Result<(), Stop> {
    let place = shape.remembered()?;
    if index as usize == memo.len() {
        memo.push(place);
    } else {
        *memo.get_mut(index as usize).ok_or("it remembers values out of order")? = place;
    }
    Ok(())
}

/// LONG1: an address from 2^63 on has nine bytes.
fn long<R: Read>(source: &mut Source<R>) -> Result<Value, Stop> {
    let length = source.byte()?;
    if length > 9 {
        return Err("a number is longer than any of a snapshot".into());
    }
    let (mut number, mut last) = (0_u128, 0);
    for place in 0..u32::from(length) {
        last = source.byte()?;
        number |= u128::from(last) << (8 * place);
    }
    if last >= 0x80 {
        return Ok(Value::Negative);
    }
    u64::try_from(number).map(Value::Number).map_err(|_| "a number is longer than any of a snapshot".into())
}
