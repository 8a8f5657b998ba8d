//! Owns signaling, the one dangerous thing here. A process is ended only through `end`, which takes a handle first,
//! then checks which process that handle refers to, then signals through it. So a PID that is reused in between can't be
//! hit. What became of the signals to those that others should end with is kept: who follows one that was refused is left alone.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::app::effect::Order;
use crate::app::msg::SignalReport;
use crate::gpu::ProcessKey;
use crate::gpu::guard::{Refusal, Signal, Viewer, changed};
use crate::platform::processes::{Inspection, ProcessControl};

/// A process closes its files at most this long before it has exited; a refusal waits for that.
const ENDING: Duration = Duration::from_millis(50);

/// Signals exactly the process that the order names, or refuses and says why.
pub fn end<C: ProcessControl>(control: &C, viewer: &Viewer, order: &Order) -> Result<C::Handle, Refusal> {
    let (pid, signal) = (order.key.pid, order.signal);
    if pid <= 1 || i32::try_from(pid).is_err() {
        return Err(Refusal::ReservedPid(pid));
    }
    if let Some(refusal) = viewer.refuses_everything() {
        return Err(refusal);
    }
    let handle = control.open(pid).map_err(|error| match control.inspect(pid) {
        Ok(Some(Inspection { thread_of: Some(process), .. })) => Refusal::Thread(pid, process),
        _ => failed(pid, &error),
    })?;
    let Some(now) = control.inspect(pid).map_err(|error| failed(pid, &error))? else { return Err(Refusal::Gone(pid)) };
    if now.start_ticks != order.key.start_ticks {
        return Err(Refusal::Reused(pid));
    }
    let changed = now.runs.as_ref().and_then(|runs| changed(pid, &order.ran, runs));
    let is_closed = !order.cards.is_empty() && !control.has_open(pid, &order.cards);
    let closed = is_closed.then_some(Refusal::Closed(pid));
    if let Some(refusal) = viewer.refuses(&now.suspect(pid)).or(changed).or(closed) {
        // The open files and the owner of a process that is ending can't be read, which is no reason to refuse.
        let ended = control.wait(&handle, ENDING).unwrap_or(false);
        return Err(if ended { Refusal::Gone(pid) } else { refusal });
    }
    control.signal(&handle, signal).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Refusal::OtherUser(pid, now.user.unwrap_or_else(|| "another user".into())),
        _ => failed(pid, &error),
    })?;
    if now.state == 'T' && signal != Signal::Kill {
        // A stopped process keeps the signal pending until it continues. If it has exited by now, that is no failure.
        let _ = control.wake(&handle);
    }
    Ok(handle)
}

fn failed(pid: u32, error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound => Refusal::Gone(pid),
        _ => Refusal::Failed(pid, error.to_string()),
    }
}

/// How long a signaled process is watched for after its grace time.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The process as it is now; `None` if it has exited or another process has its PID.
fn current(control: &impl ProcessControl, key: ProcessKey) -> Option<Inspection> {
    control.inspect(key.pid).ok().flatten().filter(|now| now.start_ticks == key.start_ticks)
}

/// As [`end_and_watch`], but a process that should end together with another one, which is being ended, is signaled only
/// if that one was signaled and this one is still the same running process when the grace time is over.
pub fn follow_and_watch<C: ProcessControl>(
    control: &C,
    viewer: &Viewer,
    order: &Order,
    leaders: &Leaders,
    report: impl Fn(SignalReport),
) {
    let begun = Instant::now();
    let key = order.key;
    if let Some(first) = order.follows {
        let handle = control.open(key.pid);
        if !leaders.went(first, WORD) {
            return report(SignalReport::Refused(Refusal::Follows(key.pid, first.pid)));
        }
        if let Ok(handle) = handle
            && current(control, key).is_some()
            && control.wait(&handle, order.grace).unwrap_or(false)
        {
            return report(SignalReport::Ended(begun.elapsed()));
        }
    }
    end_and_watch(control, viewer, order, leaders, report);
}

/// Ends a process and reports what happens: the signal was sent or refused; the process ended, or is still there when the
/// grace time is over, and ends later. Blocks until then.
pub fn end_and_watch<C: ProcessControl>(
    control: &C,
    viewer: &Viewer,
    order: &Order,
    leaders: &Leaders,
    report: impl Fn(SignalReport),
) {
    let (sent, key) = (Instant::now(), order.key);
    let handle = end(control, viewer, order);
    leaders.tell(key, &handle);
    let handle = match handle {
        Ok(handle) => handle,
        Err(refusal) => return report(SignalReport::Refused(refusal)),
    };
    report(SignalReport::Sent);
    match control.wait(&handle, order.grace) {
        Ok(true) => return report(SignalReport::Ended(sent.elapsed())),
        Ok(false) => {
            // It may end at this moment, and then the state would be that of another process with the same PID.
            report(SignalReport::StillThere(current(control, key).map(|now| now.state)));
        }
        Err(error) => return report(SignalReport::Refused(Refusal::Failed(key.pid, error.to_string()))),
    }
    // That it is still there is reported once; after that only its end is.
    if let Ok(true) = control.wait(&handle, PATIENCE) {
        report(SignalReport::Ended(sent.elapsed()));
    }
}

/// How long the word about the one that others should end with may take; it takes as long as a look at /proc.
pub const WORD: Duration = Duration::from_secs(10);

/// What became of the signals to those that others should end with. Shared by the threads that signal.
#[derive(Clone, Debug, Default)]
pub struct Leaders {
    /// Of each whether it was signalled, or had ended by itself.
    told: Arc<(Mutex<BTreeMap<ProcessKey, bool>>, Condvar)>,
}

impl Leaders {
    /// A signal to it is under way: what became of an earlier one says nothing any more.
    pub fn expect(&self, key: ProcessKey) {
        self.told.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    /// What became of its signal.
    pub fn tell<T>(&self, key: ProcessKey, became: &Result<T, Refusal>) {
        let went = matches!(became, Ok(_) | Err(Refusal::Gone(_)));
        self.told.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, went);
        self.told.1.notify_all();
    }

    /// Whether it was signalled or had ended, waited for at most so long. Not known counts as no.
    pub fn went(&self, key: ProcessKey, longest: Duration) -> bool {
        let told = self.told.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.1.wait_timeout_while(told, longest, |told| !told.contains_key(&key));
        let (told, _) = waited.unwrap_or_else(PoisonError::into_inner);
        told.get(&key).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;
    use crate::gpu::ProcessKey;
    use crate::gpu::running::Running;

    /// A kernel whose PID 42 can change hands between any two calls.
    #[derive(Default)]
    struct Kernel {
        living: Mutex<BTreeMap<u32, Inspection>>,
        /// What PID 42 becomes right after a handle was taken on it.
        reused_after_open: Option<Inspection>,
        sent: Mutex<Vec<(ProcessKey, Signal)>>,
        woken: Mutex<u32>,
        /// The GPUs that its processes have open.
        opened: Vec<String>,
        /// Whether the handles' process still runs.
        running: bool,
    }

    fn ordinary(start_ticks: u64) -> Inspection {
        Inspection {
            start_ticks,
            runs: Some(Running::unmarked("python train.py")),
            uid: Some(1000),
            user: Some("ada".into()),
            protected: None,
            kernel_thread: false,
            thread_of: None,
            proved: true,
            state: 'S',
        }
    }

    impl ProcessControl for Kernel {
        /// The process the handle was taken on, as pidfd does.
        type Handle = ProcessKey;

        fn open(&self, pid: u32) -> io::Result<ProcessKey> {
            let mut living = self.living.lock().unwrap();
            let start_ticks = living.get(&pid).ok_or(io::ErrorKind::NotFound)?.start_ticks;
            if let Some(other) = &self.reused_after_open {
                living.insert(pid, other.clone());
            }
            Ok(ProcessKey { pid, start_ticks })
        }
        fn inspect(&self, pid: u32) -> io::Result<Option<Inspection>> {
            Ok(self.living.lock().unwrap().get(&pid).cloned())
        }
        fn has_open(&self, _: u32, cards: &[String]) -> bool {
            cards.iter().any(|card| self.opened.contains(card))
        }
        fn signal(&self, handle: &ProcessKey, signal: Signal) -> io::Result<()> {
            self.sent.lock().unwrap().push((*handle, signal));
            Ok(())
        }
        fn wake(&self, _: &ProcessKey) -> io::Result<()> {
            *self.woken.lock().unwrap() += 1;
            Ok(())
        }
        fn wait(&self, _: &ProcessKey, _: Duration) -> io::Result<bool> {
            Ok(!self.running)
        }
    }

    fn kernel(process: Inspection) -> Kernel {
        Kernel { living: Mutex::new(BTreeMap::from([(42, process)])), running: true, ..Kernel::default() }
    }

    fn try_end(kernel: &Kernel, start_ticks: u64) -> Result<ProcessKey, Refusal> {
        let viewer = Viewer { uid: 1000, lineage: vec![7], ..Viewer::default() };
        end(kernel, &viewer, &order(ProcessKey { pid: 42, start_ticks }))
    }

    fn ran() -> Running {
        Running::unmarked("python train.py")
    }

    fn order(key: ProcessKey) -> Order {
        let ran = Running { user: Some(1000), ..ran() };
        Order { key, ran, signal: Signal::Term, follows: None, cards: Vec::new(), grace: Duration::ZERO }
    }

    #[test]
    fn the_process_that_was_meant_is_signalled_once() {
        let kernel = kernel(ordinary(5));
        assert!(try_end(&kernel, 5).is_ok());
        assert_eq!(*kernel.sent.lock().unwrap(), [(ProcessKey { pid: 42, start_ticks: 5 }, Signal::Term)]);
        assert_eq!(*kernel.woken.lock().unwrap(), 0);
    }

    #[test]
    fn one_that_closed_the_gpu_that_listed_it_is_left_alone() {
        let listed = vec!["0000:03:00.0".to_owned(), "0000:83:00.0".to_owned()];
        let viewer = Viewer { uid: 1000, lineage: vec![7], ..Viewer::default() };
        let order = Order { cards: listed, ..order(ProcessKey { pid: 42, start_ticks: 5 }) };
        let having = |opened: &[&str]| {
            let opened = opened.iter().map(|card| (*card).to_owned()).collect();
            Kernel { opened, ..kernel(ordinary(5)) }
        };
        for other in [&[][..], &["0000:04:00.0"]] {
            let kernel = having(other);
            assert_eq!(end(&kernel, &viewer, &order), Err(Refusal::Closed(42)), "{other:?}");
            assert!(kernel.sent.lock().unwrap().is_empty(), "{other:?}");
        }
        assert!(end(&having(&["0000:83:00.0"]), &viewer, &order).is_ok(), "one of them is enough");
    }

    #[test]
    fn one_that_is_ending_has_no_name_any_more_and_is_no_other_for_that() {
        let kernel = kernel(Inspection { runs: None, ..ordinary(5) });
        assert!(try_end(&kernel, 5).is_ok());
    }

    #[test]
    fn another_start_is_another_process() {
        let kernel = kernel(ordinary(6));
        assert_eq!(try_end(&kernel, 5), Err(Refusal::Reused(42)));
        assert!(kernel.sent.lock().unwrap().is_empty());
    }

    #[test]
    fn a_pid_reused_between_handle_and_check_gets_nothing() {
        let mut kernel = kernel(ordinary(5));
        kernel.reused_after_open = Some(ordinary(6));
        assert_eq!(try_end(&kernel, 5), Err(Refusal::Reused(42)));
        assert!(kernel.sent.lock().unwrap().is_empty());
    }

    #[test]
    fn what_the_kernel_says_now_counts_not_what_the_list_said() {
        let cases = [
            (
                Inspection { uid: Some(0), user: Some("root".into()), ..ordinary(5) },
                Refusal::OtherUser(42, "root".into()),
            ),
            (Inspection { proved: false, ..ordinary(5) }, Refusal::Unproved(42)),
            (Inspection { kernel_thread: true, ..ordinary(5) }, Refusal::KernelThread(42)),
            (Inspection { runs: Some(Running::unmarked("bash")), ..ordinary(5) }, Refusal::Changed(42, "bash".into())),
            (Inspection { runs: Some(Running { user: Some(8), ..ran() }), ..ordinary(5) }, Refusal::OwnerChanged(42)),
            (Inspection { protected: Some("x"), ..ordinary(5) }, Refusal::Protected(42, "x".into())),
        ];
        for (now, refusal) in cases {
            let kernel = kernel(now);
            assert_eq!(try_end(&kernel, 5), Err(refusal));
            assert!(kernel.sent.lock().unwrap().is_empty());
        }
    }

    #[test]
    fn one_that_has_ended_and_was_not_reaped_is_gone_and_not_doubtful() {
        let mut kernel = kernel(Inspection { proved: false, state: 'Z', ..ordinary(5) });
        kernel.running = false;
        assert_eq!(try_end(&kernel, 5), Err(Refusal::Gone(42)));
        assert!(kernel.sent.lock().unwrap().is_empty());
    }

    #[test]
    fn one_that_ended_is_gone_and_reserved_pids_are_not_even_opened() {
        let kernel = Kernel::default();
        assert_eq!(try_end(&kernel, 5), Err(Refusal::Gone(42)));
        for pid in [0, 1, u32::MAX] {
            let refused = end(&kernel, &Viewer::default(), &order(ProcessKey { pid, start_ticks: 0 }));
            assert_eq!(refused, Err(Refusal::ReservedPid(pid)));
        }
    }

    /// What becomes of 42, which follows 7, where this became of 7.
    fn follower(became: Option<Result<(), Refusal>>) -> (Vec<SignalReport>, usize) {
        let kernel = kernel(ordinary(5));
        let (leaders, first) = (Leaders::default(), ProcessKey { pid: 7, start_ticks: 1 });
        match became {
            Some(became) => leaders.tell(first, &became),
            None => leaders.expect(first),
        }
        let order = Order { follows: Some(first), ..order(ProcessKey { pid: 42, start_ticks: 5 }) };
        let reports = Mutex::new(Vec::new());
        let viewer = Viewer { uid: 1000, lineage: vec![9], ..Viewer::default() };
        follow_and_watch(&kernel, &viewer, &order, &leaders, |what| reports.lock().unwrap().push(what));
        let sent = kernel.sent.lock().unwrap().len();
        (reports.into_inner().unwrap(), sent)
    }

    #[test]
    fn who_follows_one_that_was_refused_is_left_alone() {
        let refused = [Refusal::Reused(7), Refusal::Changed(7, "bash".into()), Refusal::Protected(7, "x".into())];
        for why in refused {
            assert_eq!(follower(Some(Err(why))), (vec![SignalReport::Refused(Refusal::Follows(42, 7))], 0));
        }
        for went in [Ok(()), Err(Refusal::Gone(7))] {
            assert_eq!(follower(Some(went)), (vec![SignalReport::Sent, SignalReport::StillThere(Some('S'))], 1));
        }
    }

    #[test]
    fn a_stopped_process_is_woken_to_act_on_it() {
        let kernel = kernel(Inspection { state: 'T', ..ordinary(5) });
        assert!(try_end(&kernel, 5).is_ok());
        assert_eq!(*kernel.woken.lock().unwrap(), 1);
    }
}

#[cfg(test)]
mod leaders_tests {
    use super::*;

    #[test]
    fn an_earlier_signal_says_nothing_of_the_one_under_way() {
        let (leaders, first) = (Leaders::default(), ProcessKey { pid: 7, start_ticks: 1 });
        leaders.tell(first, &Ok(()));
        assert!(leaders.went(first, Duration::ZERO));
        leaders.expect(first);
        assert!(!leaders.went(first, Duration::ZERO), "in doubt nobody follows");
    }
}
