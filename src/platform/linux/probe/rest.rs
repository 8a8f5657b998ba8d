//! Owns letting a laptop's GPU sleep: one that sleeps is not read, and the driver of one that nobody uses is closed, since an
//! open driver keeps it awake. Decides by what /sys says and by what was read; does nothing itself.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::gpu::{Device, Holder, Vendor};
use crate::platform::linux::procfs::Procfs;
use crate::platform::linux::procfs::power::Power;

/// The driver is closed after the GPUs were idle for this long.
const IDLE: Duration = Duration::from_secs(10);
/// The kernel takes some seconds to switch a card off; who looks meanwhile keeps it awake.
const FALLING_ASLEEP: Duration = Duration::from_secs(15);
/// After a card did not fall asleep it is looked at this long: something else keeps it awake.
const AWAKE: Duration = Duration::from_secs(300);

/// Cards come and go by hand.
const LOOK_FOR_CARDS: Duration = Duration::from_secs(30);
/// One that stays on is not waited for.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Checks whether the GPUs sleep, but not more often than useful.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    cards: Vec<PathBuf>,
    found_at: Option<Instant>,
    stay_on_until: Option<Instant>,
}

impl Sleepers {
    pub(super) fn power(&mut self, procfs: &Procfs, now: Instant) -> Power {
        if self.stay_on_until.is_some_and(|until| now < until) {
            return Power::StaysOn;
        }
        if self.found_at.is_none_or(|at| now.duration_since(at) >= LOOK_FOR_CARDS) {
            (self.cards, self.found_at) = (procfs.cards(), Some(now));
        }
        let power = Power::of(&self.cards);
        self.stay_on_until = (power == Power::StaysOn).then(|| now + LOOK_AGAIN);
        power
    }
}

/// What to do with the driver now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Read,
    /// Keep away from it for a while; the last reading stands.
    LetGo,
    /// Do not touch the driver: the GPUs sleep.
    Asleep,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Resting {
    idle_since: Option<Instant>,
    let_go_at: Option<Instant>,
    not_before: Option<Instant>,
}

impl Resting {
    /// Asked before each reading. `used`: somebody has the driver open or stood in the last reading.
    pub(super) fn now(&mut self, power: Power, used: bool, now: Instant) -> Rest {
        if power == Power::Asleep {
            (self.idle_since, self.let_go_at) = (None, None);
            return Rest::Asleep;
        }
        if power == Power::StaysOn || used {
            *self = Resting { not_before: self.not_before, ..Resting::default() };
            return Rest::Read;
        }
        if let Some(since) = self.let_go_at {
            if now.duration_since(since) < FALLING_ASLEEP {
                return Rest::LetGo;
            }
            *self = Resting { not_before: Some(now + AWAKE), ..Resting::default() };
            return Rest::Read;
        }
        let idle = now.duration_since(*self.idle_since.get_or_insert(now));
        if idle >= IDLE && self.not_before.is_none_or(|at| now >= at) {
            self.let_go_at = Some(now);
            return Rest::LetGo;
        }
        Rest::Read
    }
}

/// Whether anybody uses one of NVIDIA's cards, as far as the last reading tells. What draws the desktop on another GPU keeps
/// none of them awake.
pub(super) fn is_used(devices: &[Device], holders: &[Holder]) -> bool {
    let is_any_in_use = devices.iter().filter(|device| device.vendor == Vendor::Nvidia).any(|device| {
        !device.processes.is_empty()
            || device.error.is_some()
            || device.utilization_percent.value().is_some_and(|used| used > 0)
    });
    is_any_in_use || !holders.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_card_is_let_go_of_and_one_that_stays_awake_is_looked_at_again() {
        let mut resting = Resting::default();
        let begun = Instant::now();
        let mut at =
            |second: u64, power: Power, used: bool| resting.now(power, used, begun + Duration::from_secs(second));
        assert_eq!(at(0, Power::MaySleep, false), Rest::Read);
        assert_eq!(at(9, Power::MaySleep, false), Rest::Read);
        assert_eq!(at(10, Power::MaySleep, true), Rest::Read, "somebody came");
        assert_eq!(at(11, Power::MaySleep, false), Rest::Read);
        assert_eq!(at(21, Power::MaySleep, false), Rest::LetGo);
        assert_eq!(at(27, Power::Asleep, false), Rest::Asleep);
        assert_eq!(at(900, Power::Asleep, false), Rest::Asleep);
        assert_eq!(at(901, Power::MaySleep, false), Rest::Read, "it was woken by somebody");
        assert_eq!(at(911, Power::MaySleep, false), Rest::LetGo);
        assert_eq!(at(915, Power::MaySleep, true), Rest::Read, "a program opened it meanwhile");
        assert_eq!(at(916, Power::MaySleep, false), Rest::Read);
        assert_eq!(at(926, Power::MaySleep, false), Rest::LetGo);
        assert_eq!(at(941, Power::MaySleep, false), Rest::Read, "something keeps it awake");
        assert_eq!(at(960, Power::MaySleep, false), Rest::Read);
        assert_eq!(at(1300, Power::MaySleep, false), Rest::LetGo);
    }

    #[test]
    fn a_desktop_on_another_vendors_gpu_keeps_no_card_of_nvidia_awake() {
        let mut device =
            crate::gpu::testing::device(0, vec![crate::gpu::testing::process(7, crate::units::Bytes::gib(1))]);
        assert!(is_used(&[device.clone()], &[]));
        device.vendor = Vendor::Intel;
        assert!(!is_used(&[device], &[]));
    }

    #[test]
    fn a_card_that_never_sleeps_is_always_read() {
        let mut resting = Resting::default();
        let begun = Instant::now();
        assert!(
            (0..100).all(|second| {
                resting.now(Power::StaysOn, false, begun + Duration::from_secs(second)) == Rest::Read
            })
        );
    }
}
