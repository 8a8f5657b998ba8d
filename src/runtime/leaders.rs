//! Owns what became of the signals to those that others should end with: who follows one that was refused is left alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::gpu::ProcessKey;
use crate::gpu::guard::Refusal;

/// How long the word about the one that others should end with may take; it takes as long as a look at /proc.
pub const WORD: Duration = Duration::from_secs(10);

/// What became of the signals to those that others should end with. Shared by the threads that signal.
#[derive(Clone, Debug, Default)]
pub struct Leaders {
    /// Of each whether it was signalled, or had ended by itself.
    told: Arc<(Mutex<BTreeMap<ProcessKey, bool>>, Condvar)>,
}

impl Leaders {
    /// A signal to it is under way: what became of an earlier one says nothing any more.
    pub fn expect(&self, key: ProcessKey) {
        self.told.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    /// What became of its signal.
    pub fn tell<T>(&self, key: ProcessKey, became: &Result<T, Refusal>) {
        let went = matches!(became, Ok(_) | Err(Refusal::Gone(_)));
        self.told.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, went);
        self.told.1.notify_all();
    }

    /// Whether it was signalled or had ended, waited for at most so long. Not known counts as no.
    pub fn went(&self, key: ProcessKey, longest: Duration) -> bool {
        let told = self.told.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.1.wait_timeout_while(told, longest, |told| !told.contains_key(&key));
        let (told, _) = waited.unwrap_or_else(PoisonError::into_inner);
        told.get(&key).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_signal_says_nothing_of_the_one_under_way() {
        let (leaders, first) = (Leaders::default(), ProcessKey { pid: 7, start_ticks: 1 });
        leaders.tell(first, &Ok(()));
        assert!(leaders.went(first, Duration::ZERO));
        leaders.expect(first);
        assert!(!leaders.went(first, Duration::ZERO), "in doubt nobody follows");
    }
}
