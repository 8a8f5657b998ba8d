//! Owns movement by lines, of a selection or of a text.

/// More lines than any list or text has: a movement by so many goes to the end.
pub(crate) const TO_THE_END: i32 = i32::MAX / 2;
pub(crate) const TO_THE_START: i32 = i32::MIN / 2;

/// The place `by` lines from `here` in something of `len` lines.
pub(crate) fn shifted(here: usize, by: i32, len: usize) -> usize {
    here.saturating_add_signed(by as isize).min(len.saturating_sub(1))
}
