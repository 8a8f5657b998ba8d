//! Owns a counter of the bytes that are searched, compared or copied while a log is read. Tests use it to prove linear
//! time; release builds count nothing.

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
