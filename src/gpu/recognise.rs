//! Owns telling what a process is as people know it.

/// What is known of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traits<'a> {
    /// The kernel's name of it, at most 15 bytes.
    pub comm: &'a str,
    /// Its arguments; a single one where it set its own title.
    pub arguments: &'a [String],
    /// Working directory.
    pub working_directory: Option<&'a str>,
    /// The arguments of the processes above it, nearest first.
    pub ancestors: &'a [Vec<String>],
    /// JPY_SESSION_NAME: the notebook a Jupyter kernel belongs to.
    pub notebook: Option<&'a str>,
}

/// A short label.
pub fn recognise(_traits: &Traits) -> Option<String> {
    None
}
