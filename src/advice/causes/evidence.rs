//! Owns the words that point from evidence to the log.

use crate::knowledge::diagnosis::Diagnosis;

/// The decisive line, to put behind evidence: " (line 12)".
pub(crate) fn line_of(diagnosis: &Diagnosis) -> String {
    diagnosis.matches.first().map_or_else(String::new, |found| format!(" (line {})", found.line))
}
