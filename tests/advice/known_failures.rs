//! Owns the list of what the advice is known to get wrong today. A test listed here must fail: one that passes again
//! asks for its line to be removed.

/// The test of a scenario against its own file.
pub const EXPECTATIONS: &str = "as_expected";

/// A test, the scenario that it fails on, and why; the test is the property's name, or `EXPECTATIONS`.
const KNOWN_FAILURES: &[(&str, &str, &str)] = &[];

/// What remains of a test's failures on one scenario: none where they are known, and one where a known failure is gone.
pub fn unexplained(test: &str, scenario: &str, failures: Vec<String>) -> Vec<String> {
    let is_known = KNOWN_FAILURES.iter().any(|(of, on, _)| *of == test && *on == scenario);
    match (is_known, failures.is_empty()) {
        (true, true) => vec![format!("{test} passes: remove this scenario from tests/advice/known_failures.rs")],
        (true, false) => Vec::new(),
        (false, _) => failures,
    }
}
