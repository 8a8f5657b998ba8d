//! Owns `Reading`, which keeps "unknown" apart from 0.

use crate::text::harmless;

/// A figure that may be unknown, with the reason. Unknown is never 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    Known(T),
    /// This driver, GPU or kernel has no such figure.
    Unsupported,
    /// The figure exists, but reading it needs more rights.
    Denied,
    /// The figure exists but has no value now: the driver's "not available".
    NotAvailable,
    /// Reading it failed; the text says how.
    Failed(String),
}

impl<T> Reading<T> {
    /// The figure, if known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Reading::Known(value) => Some(value),
            _ => None,
        }
    }

    /// The figure, if known, to be changed.
    pub(super) fn known_mut(&mut self) -> Option<&mut T> {
        match self {
            Reading::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Why it is not known: `unsupported`, `denied`, `not-available` or `failed: TEXT`; `None` where it is known.
    pub fn reason(&self) -> Option<String> {
        match self {
            Reading::Known(_) => None,
            Reading::Unsupported => Some("unsupported".into()),
            Reading::Denied => Some("denied".into()),
            Reading::NotAvailable => Some("not-available".into()),
            Reading::Failed(text) => Some(format!("failed: {text}")),
        }
    }

    /// The same reading of another quantity.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Reading::Known(value) => Reading::Known(f(value)),
            Reading::Unsupported => Reading::Unsupported,
            Reading::Denied => Reading::Denied,
            Reading::NotAvailable => Reading::NotAvailable,
            Reading::Failed(text) => Reading::Failed(text),
        }
    }

    /// From the two fields of the wire; a missing value without a reason is "not available".
    pub fn from_parts(value: Option<T>, reason: Option<&str>) -> Reading<T> {
        match (value, reason) {
            (Some(value), _) => Reading::Known(value),
            (None, Some("unsupported")) => Reading::Unsupported,
            (None, Some("denied")) => Reading::Denied,
            (None, Some(text)) if text.starts_with("failed: ") => {
                Reading::Failed(harmless(text.trim_start_matches("failed: ")).into_owned())
            }
            (None, _) => Reading::NotAvailable,
        }
    }
}

impl<T: Copy> Reading<T> {
    /// The figure by value, if known.
    pub fn value(&self) -> Option<T> {
        self.known().copied()
    }
}
