//! Owns what the process that passes a command's output on tells the process that records it: frames of a time, a kind
//! and bytes. Nothing waits for the recorder, so output can be missing; then a frame says how much.

use serde::{Deserialize, Serialize};

use super::{End, Millis, Run};

/// More than the sender ever puts into one frame: a longer one is none.
const LONGEST: u32 = 16 << 20;
/// Time, kind, length.
const HEAD: usize = 13;

#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The time since the beginning.
    pub at: Millis,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The command was started.
    Begin(Begin),
    /// Output of the command.
    Output(Vec<u8>),
    /// This much output is missing here.
    Missing(u64),
    /// The command ended.
    End(End),
}

/// What the recorder must know at the beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    pub run: Run,
    /// Whether the output comes as it is printed: through a pipe a program keeps some of it back.
    pub is_prompt: bool,
    /// Whether this process reads the machine. Of the ranks of a launcher only the first one of a machine does.
    pub samples: bool,
}

impl Frame {
    /// The frame as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let json;
        let (kind, body): (u8, &[u8]) = match &self.what {
            What::Begin(begin) => {
                json = serde_json::to_vec(begin).unwrap_or_default();
                (0, &json)
            }
            What::Output(bytes) => (1, bytes),
            What::Missing(count) => {
                json = count.to_le_bytes().to_vec();
                (2, &json)
            }
            What::End(end) => {
                json = serde_json::to_vec(end).unwrap_or_default();
                (3, &json)
            }
        };
        let mut bytes = Vec::with_capacity(HEAD + body.len());
        bytes.extend_from_slice(&self.at.to_le_bytes());
        bytes.push(kind);
        bytes.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    /// The next frame; `None` at the end, and where what follows is no frame.
    pub fn read(from: &mut impl std::io::Read) -> Option<Frame> {
        let mut head = [0; HEAD];
        from.read_exact(&mut head).ok()?;
        let (at, rest) = head.split_first_chunk::<8>()?;
        let (kind, length) = rest.split_first()?;
        let length = u32::from_le_bytes(length.try_into().ok()?);
        if length > LONGEST {
            return None;
        }
        let mut body = vec![0; usize::try_from(length).ok()?];
        from.read_exact(&mut body).ok()?;
        let what = match kind {
            0 => What::Begin(serde_json::from_slice(&body).ok()?),
            1 => What::Output(body),
            2 => What::Missing(u64::from_le_bytes(body.try_into().ok()?)),
            3 => What::End(serde_json::from_slice(&body).ok()?),
            _ => return None,
        };
        Some(Frame { at: u64::from_le_bytes(*at), what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_half_a_frame_is_none() {
        let frames = [What::Output(b"step 1\n".to_vec()), What::Missing(7 << 30), What::End(End::Signal(9))];
        let frames: Vec<Frame> = (0..).zip(frames).map(|(at, what)| Frame { at, what }).collect();
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        let mut from = &bytes[..];
        let read: Vec<Frame> = std::iter::from_fn(|| Frame::read(&mut from)).collect();
        assert_eq!(read, frames);
        assert_eq!(Frame::read(&mut &bytes[..bytes.len() - 1][..]), Some(frames[0].clone()));
        assert_eq!(Frame::read(&mut &frames[2].bytes()[..15]), None);
        assert_eq!(Frame::read(&mut &[0xff; 40][..]), None, "a length that nobody sends");
    }
}
