//! Owns the mark of a field that is no part of the JSON, which the types that are serialized leave out by.

/// What only the program itself reads.
pub(crate) type Internal<T> = T;
