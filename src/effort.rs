//! Owns counting how much text is searched, compared or copied while a log is read. Tests hold that twice the log costs
//! twice as much; the shipped program counts nothing.

#[cfg(test)]
thread_local! {
    static COUNTED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// So many bytes are gone over.
#[inline]
pub fn count(bytes: usize) {
    #[cfg(test)]
    COUNTED.set(COUNTED.get().saturating_add(bytes));
    #[cfg(not(test))]
    let _ = bytes;
}

/// How many bytes were gone over while this ran.
#[cfg(test)]
pub fn of<T>(work: impl FnOnce() -> T) -> usize {
    let before = COUNTED.get();
    work();
    COUNTED.get() - before
}
