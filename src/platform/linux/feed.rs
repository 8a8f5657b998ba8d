//! Owns the stream of readings: the sampling child, its lines, its end and its restart. The thread that starts the
//! child lives as long as the program, since the child dies with the thread that started it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::brief::Reader;
use super::child::{Offspring, Started};
use super::procfs::Procfs;
use crate::platform::contract::News;

/// More than any machine's snapshot: a longer line does not come from the sampler.
const LONGEST_LINE: u64 = 64 << 20;
/// How often the battery is looked at.
const LOOK_AT_BATTERY: Duration = Duration::from_secs(30);
/// The longest pause before the sampler is started again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Reads the sampler, starting with the one that runs already if there is one, and goes on starting it. `command` makes a
/// child that prints the sample stream. `interval` is its own pace.
pub(crate) fn live(
    command: impl Fn() -> Command + Send + 'static,
    first: Option<Box<Started>>,
    interval: Duration,
    tell: impl Fn(News) -> bool + Send + 'static,
) -> io::Result<Pacer> {
    let pacer = Pacer(Arc::new(Mutex::new(Orders { usual: interval, wanted: interval, to: None })));
    let paces = pacer.clone();
    thread::Builder::new().name("feed".into()).spawn(move || keep_reading(command, first, &paces, &tell))?;
    Ok(pacer)
}

/// Tells the sampler how far apart readings should be.
#[derive(Clone, Debug)]
pub(crate) struct Pacer(Arc<Mutex<Orders>>);

#[derive(Debug)]
struct Orders {
    usual: Duration,
    wanted: Duration,
    to: Option<File>,
}

impl Pacer {
    pub(crate) fn set(&self, every: Duration) {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.wanted != every {
            orders.wanted = every;
            orders.tell();
        }
    }

    /// Takes over a new child, which has no orders yet.
    fn hand(&self, to: Option<File>) {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A sampler that hangs in the driver does not read its orders, so writing them must not block.
        orders.to = to.filter(|to| rustix::io::ioctl_fionbio(to, true).is_ok());
        if orders.wanted != orders.usual {
            orders.tell();
        }
    }
}

impl Orders {
    /// Writes the order. A child that has exited needs none, so errors are ignored.
    fn tell(&mut self) {
        let line = format!("{}\n", self.wanted.as_secs_f64());
        if let Some(to) = &mut self.to {
            let _ = to.write_all(line.as_bytes());
        }
    }
}

/// Whether the machine runs on its battery: looked up when a reading comes, but seldom.
#[derive(Default)]
struct Battery {
    looked_at: Option<Instant>,
    drained: bool,
}

impl Battery {
    fn news(&mut self, now: Instant) -> Option<News> {
        if self.looked_at.is_some_and(|at| now.duration_since(at) < LOOK_AT_BATTERY) {
            return None;
        }
        self.looked_at = Some(now);
        let drained = Procfs::default().on_battery();
        (std::mem::replace(&mut self.drained, drained) != drained).then_some(News::OnBattery(drained))
    }
}

fn keep_reading(
    command: impl Fn() -> Command,
    mut first: Option<Box<Started>>,
    pacer: &Pacer,
    tell: &impl Fn(News) -> bool,
) {
    let mut wait = Duration::from_secs(1);
    let mut leaving = Vec::new();
    loop {
        let started = first.take().map_or_else(|| Started::by(command().stderr(Stdio::piped())), |first| Ok(*first));
        let (lines, why) = match started {
            Ok(child) => one_child(child, pacer, tell, &mut leaving),
            Err(error) => (0, format!("the sampler could not be started: {error}")),
        };
        wait = if lines > 1 { Duration::from_secs(1) } else { (wait * 2).min(LONGEST_PAUSE) };
        log::info!("sampler ended after {lines} lines: {why}");
        let text = format!("{why}; trying again in {} s", wait.as_secs());
        if !tell(News::Down(text)) {
            return;
        }
        thread::sleep(wait);
        // A child that has exited by now is reaped.
        leaving.retain_mut(|child: &mut Offspring| !child.has_ended());
    }
}

/// One child to its end: how many lines it gave and why it ended. It joins those that are `leaving`.
fn one_child(
    mut started: Started,
    pacer: &Pacer,
    tell: &impl Fn(News) -> bool,
    leaving: &mut Vec<Offspring>,
) -> (u64, String) {
    pacer.hand(started.input.take());
    let (lines, trouble) = read_lines(BufReader::new(&mut started.output), tell);
    let why = trouble.unwrap_or_else(|| match started.ended() {
        (status, said) if said.is_empty() => format!("the sampler ended ({status})"),
        (status, said) => format!("the sampler ended ({status}): {said}"),
    });
    // The child may hang in the driver, where no signal reaches it, so it is not waited for.
    started.child.end_group();
    leaving.push(started.child);
    (lines, why)
}

/// Passes lines on until the stream ends. `Some` if a line does not come from the sampler.
fn read_lines(mut output: impl BufRead, tell: &impl Fn(News) -> bool) -> (u64, Option<String>) {
    let mut count = 0;
    let mut line = Vec::new();
    let (mut reader, mut battery) = (Reader::default(), Battery::default());
    loop {
        line.clear();
        match output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return (count, None),
            // The stream ended within a line: the reason is reported, not the incomplete line.
            Ok(length) if line.last() != Some(&b'\n') && (length as u64) < LONGEST_LINE => return (count, None),
            Ok(_) => {}
        }
        match reader.parse(&line, count == 0) {
            Ok(news) => {
                count += 1;
                // Not before the first reading, which the person waits for.
                let of_battery = if count > 2 { battery.news(Instant::now()) } else { None };
                of_battery.map(&tell);
                if !tell(news) {
                    return (count, None);
                }
            }
            Err(error) => return (count, Some(format!("the sampler's output could not be understood ({error})"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(stream: &str) -> (u64, Option<String>) {
        read_lines(Cursor::new(stream.as_bytes().to_vec()), &|_| true)
    }

    #[test]
    fn a_stream_that_ends_within_a_line_has_ended_and_nonsense_is_none_of_ours() {
        let header = "{\"schema\":1,\"program\":\"x\",\"boot_id\":null}\n";
        assert_eq!(read(header), (1, None));
        assert_eq!(read(&format!("{header}{{\"taken_at\":\"2026-")), (1, None), "it was killed in mid-line");
        let (lines, trouble) = read(&format!("{header}what?\n"));
        assert_eq!(lines, 1);
        assert!(trouble.unwrap().contains("could not be understood"));
    }
}
