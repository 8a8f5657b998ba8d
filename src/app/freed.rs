//! Owns what the proofs mean for the verdict: what was freed since the log was opened, whether that may be enough, and what
//! to do now.

use super::model::Model;
use super::walk::{Ending, EndingState, free_of};
use crate::advice::brief::Standing;
use crate::knowledge::diagnosis::MemoryKind;
use crate::units::Bytes;

/// So large a part of the need may be missing where what was freed is close to enough.
const CLOSE: u64 = 10;

/// What the memory that was freed is for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chance {
    /// As much is free as the log asks for; what the run had before is not in it.
    MayBeEnough,
    /// The log does not say how much the run needs.
    Unknown,
    /// A little is missing still.
    Close(Bytes),
}

/// What was freed for a run that is not known to have room, and whether it may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freed {
    pub bytes: Bytes,
    /// Where, and what is free there now.
    pub free_now: Vec<(u32, Bytes)>,
    pub chance: Chance,
    /// What to do now.
    pub next: String,
}

impl Model {
    /// What the terminated processes are proved to have freed since the log was opened. `None` where the verdict is not
    /// changed by it: what is free is far from enough, or the verdict says already that it is enough.
    pub fn freed_for_the_run(&self) -> Option<Freed> {
        let advice = self.advice.as_ref()?;
        let is_open = matches!(advice.brief.standing, Standing::Failed | Standing::Unclear);
        let is_of_gpu = !matches!(
            self.input.diagnosis.as_ref().and_then(|diagnosis| diagnosis.memory),
            Some(MemoryKind::Host | MemoryKind::Shm | MemoryKind::KvCache)
        );
        if !is_open || !is_of_gpu || self.walk.works || self.awaited().is_some() {
            return None;
        }
        let proved: Vec<(Bytes, &Ending)> = self.endings.iter().filter_map(|ending| self.proved(ending)).collect();
        let device = advice.ledger.as_ref().and_then(|ledger| ledger.device);
        let mut devices: Vec<u32> =
            proved.iter().flat_map(|(_, ending)| ending.victim.devices.iter().copied()).collect();
        devices.sort_unstable();
        devices.dedup();
        if device.is_some_and(|device| !devices.contains(&device)) {
            return None;
        }
        let bytes = proved.iter().fold(Bytes::ZERO, |sum, (bytes, _)| sum.plus(*bytes));
        let (chance, free_now) = (self.chance()?, free_of(self.snapshot()?, &devices));
        (bytes > Bytes::ZERO).then(|| Freed { bytes, free_now, chance, next: self.next_after(chance) })
    }

    /// What a process freed for good since the log was opened.
    fn proved<'a>(&self, ending: &'a Ending) -> Option<(Bytes, &'a Ending)> {
        match ending.state {
            EndingState::Returned { bytes, .. } if ending.again.is_none() && ending.asked_at >= self.walk.began => {
                Some((bytes, ending))
            }
            _ => None,
        }
    }

    /// Whether what is free now may be enough; `None` where it is known not to be.
    fn chance(&self) -> Option<Chance> {
        let advice = self.advice.as_ref()?;
        let of_log = advice.ledger.as_ref().filter(|ledger| ledger.is_now);
        let of_log = of_log.and_then(|ledger| ledger.missing_bytes.zip(ledger.needed_bytes));
        let of_fit = advice.fit.as_ref().and_then(|fit| fit.missing()).unwrap_or(Bytes::ZERO);
        match of_log {
            None if of_fit == Bytes::ZERO => Some(Chance::Unknown),
            None => None,
            Some((missing, needed)) => match missing.max(of_fit) {
                Bytes::ZERO => Some(Chance::MayBeEnough),
                missing if missing.0 <= needed.0 / CLOSE => Some(Chance::Close(missing)),
                _ => None,
            },
        }
    }

    fn next_after(&self, chance: Chance) -> String {
        match (chance, self.current_step()) {
            (Chance::MayBeEnough, _) => {
                "Run the job again: this may be enough. The log does not say what the run used before.".to_owned()
            }
            (Chance::Unknown, _) => "Run the job again: the log does not say how much it needs.".to_owned(),
            (Chance::Close(missing), Some(step)) => {
                format!("Almost enough: ≥ {missing} is missing. Next: {}.", step.title)
            }
            (Chance::Close(missing), None) => format!("Almost enough: ≥ {missing} is missing."),
        }
    }
}
