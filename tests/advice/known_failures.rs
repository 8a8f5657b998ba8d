//! Owns the list of what the advice is known to get wrong today. A test listed here must fail: one that passes again
//! asks for its line to be removed.

/// The test of a scenario against its own file.
pub const EXPECTATIONS: &str = "as_expected";

/// One test that fails on one scenario.
pub struct KnownFailure {
    /// The property's name, or `EXPECTATIONS` where the advice is not what the scenario's file expects.
    pub test: &'static str,
    pub scenario: &'static str,
    #[allow(dead_code, reason = "for the reader of the list")]
    pub because: &'static str,
}

pub const KNOWN_FAILURES: &[KnownFailure] = &[];

/// What remains of a test's failures on one scenario: none where they are known, and one where a known failure is gone.
pub fn unexplained(test: &str, scenario: &str, failures: Vec<String>) -> Vec<String> {
    let is_known = KNOWN_FAILURES.iter().any(|known| known.test == test && known.scenario == scenario);
    match (is_known, failures.is_empty()) {
        (true, true) => vec![format!("{test} passes: remove this scenario from tests/advice/known_failures.rs")],
        (true, false) => Vec::new(),
        (false, _) => failures,
    }
}
