//! Owns the list of what the advice is known to get wrong today. A test listed here must fail: one that passes again
//! asks for its line to be removed.

/// The test of a scenario against its own file.
pub const EXPECTATIONS: &str = "as_expected";

/// One test that fails on one scenario.
struct KnownFailure {
    /// The property's name, or `EXPECTATIONS` where the advice is not what the scenario's file expects.
    test: &'static str,
    scenario: &'static str,
    #[allow(dead_code, reason = "for the reader of the list")]
    because: &'static str,
}

const NAMED_CHANGES: &str = "every_change_that_the_sentence_names_is_a_step";
const ENOUGH: &str = "nothing_is_called_enough_that_its_own_sums_refute";
const SUMS: &str = "every_shown_sum_adds_up";

const fn known(test: &'static str, scenario: &'static str, because: &'static str) -> KnownFailure {
    KnownFailure { test, scenario, because }
}

const KNOWN_FAILURES: &[KnownFailure] = &[
    known(
        NAMED_CHANGES,
        "a-changed-command-line-is-not-enough",
        "the sentence names 17 layers for the failed command, the step 27 for the changed one",
    ),
    known(
        NAMED_CHANGES,
        "a-changed-command-line-may-be-enough",
        "the sentence names changes of the failed command, the steps change the changed one",
    ),
    known(
        ENOUGH,
        "vllm-capturing-graphs-beside-its-share",
        "at the share 0.90 the weights and the KV cache of 128K tokens no longer fit in the share",
    ),
    known(
        ENOUGH,
        "vllm-capturing-graphs-of-a-4-bit-model",
        "likely enough by the log's lower bound, but by the model's own sums it does not fit without CUDA graphs",
    ),
    known(
        SUMS,
        "windows-took-more-than-the-gpu-has",
        "14.4 GiB of 8.0 are in use, because Windows moved a part to system memory, and the ledger does not say so",
    ),
];

/// What remains of a test's failures on one scenario: none where they are known, and one where a known failure is gone.
pub fn unexplained(test: &str, scenario: &str, failures: Vec<String>) -> Vec<String> {
    let is_known = KNOWN_FAILURES.iter().any(|known| known.test == test && known.scenario == scenario);
    match (is_known, failures.is_empty()) {
        (true, true) => vec![format!("{test} passes: remove this scenario from tests/advice/known_failures.rs")],
        (true, false) => Vec::new(),
        (false, _) => failures,
    }
}
