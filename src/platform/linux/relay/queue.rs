//! Owns the copy of the output that goes to the recorder. It never makes the command wait: where the recorder is slow, the
//! oldest output is dropped, so the end of a long output, which holds the error, is always there.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::record::frame::{Frame, What};

/// Output that waits for the recorder, at most.
const MOST: usize = 8 << 20;

/// The command exited; its exit code waits no longer than this for the recorder to take the last frame.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// Frames that wait for the recorder.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(Arc<(Mutex<Waiting>, Condvar)>);

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Nobody reads them, or no more come.
    is_closed: bool,
    /// A frame was taken out and is being written.
    is_sending: bool,
}

impl Queue {
    /// Puts a frame at the end.
    pub(super) fn push(&self, frame: Frame) {
        let (waiting, added) = &*self.0;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.is_closed {
            waiting.push(frame);
            added.notify_one();
        }
    }

    /// No more frames come. Those that wait are still sent.
    fn close(&self) {
        let (waiting, added) = &*self.0;
        waiting.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        added.notify_all();
    }

    /// Puts the last frame at the end, and waits a moment until it was sent. If nobody waits for the output, what has
    /// not been sent of it yet is dropped.
    pub(super) fn finish(&self, last: Frame, is_wanted: bool) {
        self.push(last);
        self.close();
        let (waiting, changed) = &*self.0;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_wanted {
            waiting.frames.retain(|frame| !matches!(frame.what, What::Output(_)));
        }
        drop(changed.wait_timeout_while(waiting, LAST_PATIENCE, |waiting| waiting.has_unsent()));
    }

    /// Sends what waits and what comes to the recorder, on a thread of its own, until the queue is closed or the recorder
    /// is gone.
    pub(super) fn feed(&self, mut recorder: impl Write + Send + 'static) -> std::io::Result<()> {
        let queue = self.clone();
        thread::Builder::new().name("copy".into()).spawn(move || {
            // Who prints a lot needs the processor more than the record does.
            let _ = rustix::process::nice(10);
            while let Some(frame) = queue.next() {
                if recorder.write_all(&frame.bytes()).is_err() {
                    queue.forget();
                    return;
                }
            }
        })?;
        Ok(())
    }

    fn next(&self) -> Option<Frame> {
        let (waiting, added) = &*self.0;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_sending = false;
        loop {
            if let Some(frame) = waiting.frames.pop_front() {
                waiting.bytes = waiting.bytes.saturating_sub(size(&frame));
                waiting.is_sending = true;
                return Some(frame);
            }
            if waiting.is_closed {
                added.notify_all();
                return None;
            }
            waiting = added.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn forget(&self) {
        self.close();
        let mut waiting = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = Waiting { is_closed: true, ..Waiting::default() };
        self.0.1.notify_all();
    }
}

impl Waiting {
    fn has_unsent(&self) -> bool {
        self.is_sending || !self.frames.is_empty()
    }

    fn push(&mut self, frame: Frame) {
        self.bytes += size(&frame);
        self.frames.push_back(frame);
        while self.bytes > MOST {
            // The first frame says what ran; it is never dropped.
            let oldest = self.frames.iter().position(|frame| matches!(frame.what, What::Output(_)));
            let Some(dropped) = oldest.and_then(|at| self.frames.get_mut(at)) else { return };
            let count = size(dropped);
            self.bytes = self.bytes.saturating_sub(count);
            dropped.what = What::Missing(count as u64);
            self.join_gaps(oldest.unwrap_or(0));
        }
    }

    /// Makes the gap at this place one with the gap before it.
    fn join_gaps(&mut self, at: usize) {
        let Some(before) = at.checked_sub(1) else { return };
        let (Some(What::Missing(one)), Some(What::Missing(other))) =
            (self.frames.get(before).map(|frame| &frame.what), self.frames.get(at).map(|frame| &frame.what))
        else {
            return;
        };
        let sum = one.saturating_add(*other);
        self.frames.remove(at);
        if let Some(frame) = self.frames.get_mut(before) {
            frame.what = What::Missing(sum);
        }
    }
}

fn size(frame: &Frame) -> usize {
    match &frame.what {
        What::Output(bytes) => bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::End;

    #[test]
    fn of_too_much_output_the_end_is_kept_and_the_rest_is_counted() {
        let queue = Queue::default();
        let block = vec![b'x'; 1 << 20];
        for at in 0..20 {
            queue.push(Frame { at, what: What::Output(block.clone()) });
        }
        queue.push(Frame { at: 20, what: What::End(End::Code(1)) });
        queue.close();
        let frames: Vec<Frame> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(frames[0].what, What::Missing(12 << 20));
        assert_eq!(frames.iter().map(size).sum::<usize>(), MOST);
        assert_eq!(frames.last().unwrap().what, What::End(End::Code(1)));
        assert_eq!(frames.len(), 10);
    }

    #[test]
    fn without_a_recorder_nothing_is_kept() {
        let queue = Queue::default();
        queue.forget();
        queue.push(Frame { at: 0, what: What::Output(vec![0; 10]) });
        assert_eq!(queue.next(), None);
    }
}
