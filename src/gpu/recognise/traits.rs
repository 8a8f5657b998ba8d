//! Owns what a process is recognized by: its name, its arguments and those of the processes above it.

use super::invocation::{Invocation, base};

/// What is known of a process. Unknown parts are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traits<'a> {
    /// The kernel's name of it, at most 15 bytes.
    pub comm: &'a str,
    /// Its arguments; a single one where it set its own title.
    pub arguments: &'a [String],
    pub working_directory: Option<&'a str>,
    /// The arguments of the processes above it, nearest first.
    pub ancestors: &'a [Vec<String>],
    /// JPY_SESSION_NAME: the notebook that a Jupyter kernel belongs to.
    pub notebook: Option<&'a str>,
}

impl Traits<'_> {
    /// The last part of the working directory, in lower case.
    pub(super) fn folder(&self) -> String {
        base(self.working_directory.unwrap_or_default()).to_ascii_lowercase()
    }

    /// The nearest process above that still has arguments of its own (titles wipe them).
    pub(super) fn parent(&self) -> Option<Invocation> {
        self.ancestors.iter().find(|arguments| arguments.len() > 1).map(|arguments| Invocation::of(arguments))
    }
}

/// `label (detail)`, or the label alone.
pub(super) fn with(label: &str, detail: Option<&str>) -> String {
    match detail.filter(|detail| !detail.is_empty()) {
        Some(detail) => format!("{label} ({detail})"),
        None => label.to_owned(),
    }
}
