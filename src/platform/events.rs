//! Owns reading the terminal through crossterm, on systems whose bytes this program does not read itself.

use std::io;
use std::time::Duration;

use crossterm::event::{Event, poll, read};

use super::contract::Typed;

/// What crossterm reads from the terminal.
pub(crate) struct Events<F> {
    /// What an event means on this system; `None` if it means nothing by itself.
    pub meant: F,
    /// Whether the terminal still exists. crossterm does not report its end: it polls on at full speed.
    pub is_there: fn() -> bool,
}

/// How many events are read before they are passed on: a large paste must not look like a pause.
const MOST_AT_ONCE: usize = 256;
/// How long to wait for an event that may be available already. With no time at all crossterm's reader for macOS does not
/// even check what it has read (0.29's `event/source/unix/tty.rs`, checked 2026-11-22).
const AT_ONCE: Duration = Duration::from_millis(1);
/// After this long without input it is checked whether the terminal still exists.
const GLANCE: Duration = Duration::from_secs(2);

impl<F: FnMut(Event) -> Option<Event>> Events<F> {
    /// Waits for the next input, at most this long. No command runs in this terminal on these systems.
    pub(crate) fn next(&mut self, _: &mut [u8], patience: Option<Duration>, _: impl Fn() -> bool) -> io::Result<Typed> {
        let patience = patience.map_or(GLANCE, |patience| patience.min(GLANCE));
        let events = gathered(Some(patience), next_event, &mut self.meant)?;
        Ok(match events.is_empty() {
            false => Typed::Events(events),
            true if (self.is_there)() => Typed::Nothing,
            true => Typed::Bytes(0),
        })
    }
}

/// The next event that arrives within this time.
fn next_event(patience: Option<Duration>) -> io::Result<Option<Event>> {
    let is_there = patience.map(poll).transpose()?.unwrap_or(true);
    if is_there { read().map(Some) } else { Ok(None) }
}

/// The next event together with all that are available already. Reading may be slow while the screen is drawn, and a
/// paste must not look typed because of that.
fn gathered(
    patience: Option<Duration>,
    next: impl Fn(Option<Duration>) -> io::Result<Option<Event>>,
    meant: &mut impl FnMut(Event) -> Option<Event>,
) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut read = next(patience)?;
    while let Some(event) = read {
        events.extend(meant(event));
        read = if events.len() < MOST_AT_ONCE { next(Some(AT_ONCE))? } else { None };
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_there_together_come_together_and_a_large_paste_in_parts() {
        let there = std::cell::RefCell::new(vec![Event::FocusGained; MOST_AT_ONCE + 2]);
        // As crossterm's readers do: without any time, nothing is read.
        let next = |patience: Option<Duration>| {
            let is_looked_at = patience.is_none_or(|patience| !patience.is_zero());
            Ok(is_looked_at.then(|| there.borrow_mut().pop()).flatten())
        };
        for many in [MOST_AT_ONCE, 2, 0] {
            assert_eq!(gathered(None, next, &mut Some).unwrap().len(), many);
        }
        there.borrow_mut().extend([Event::FocusGained, Event::FocusLost]);
        let mut without_losses = |event| Some(event).filter(|event| *event != Event::FocusLost);
        assert_eq!(gathered(None, next, &mut without_losses).unwrap(), [Event::FocusGained]);
    }
}
