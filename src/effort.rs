//! Owns what a reading costs: a counter of the bytes that are searched, compared or copied, by which tests prove linear time
//! (release builds count nothing), and doing two things at once where a person waits for both.

#[cfg(test)]
thread_local! {
    static COUNTED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Adds a pass over that many bytes to this thread's counter.
#[inline]
pub(crate) fn count(bytes: usize) {
    #[cfg(test)]
    COUNTED.set(COUNTED.get().saturating_add(bytes));
    #[cfg(not(test))]
    let _ = bytes;
}

/// How many bytes were counted while this ran.
#[cfg(test)]
pub(crate) fn of<T>(work: impl FnOnce() -> T) -> usize {
    let before = COUNTED.get();
    work();
    COUNTED.get() - before
}

/// The results of both, found at the same time. Tests find them one after the other, because they count on one thread.
pub(crate) fn both<A, B: Send>(first: impl FnOnce() -> A, second: impl Fn() -> B + Sync) -> (A, B) {
    if cfg!(test) {
        return (first(), second());
    }
    let mut found = None;
    let first = std::thread::scope(|scope| {
        // Without a thread, the second one is found below.
        let _ = std::thread::Builder::new().spawn_scoped(scope, || found = Some(second()));
        first()
    });
    (first, found.unwrap_or_else(second))
}
