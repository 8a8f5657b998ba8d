//! Owns what the steps are chosen by: the case, the leading cause, and what follows from both.

use crate::advice::case::Case;
use crate::advice::causes::{self, About, Blames};
use crate::advice::verdict::{Cause, CauseKind};
use crate::units::Bytes;

/// The case and its causes, as the steps need them.
pub(crate) struct Outlook<'c, 'a> {
    pub case: &'c Case<'a>,
    pub causes: &'c [Cause],
    /// What is short, where anything tells.
    pub short: Option<Bytes>,
    /// The steps taken freed memory, and nothing is known to be short any more.
    pub has_freed_enough: bool,
    /// The run can be tried as it was: what used the memory is gone, or more is available now.
    pub can_run_again: bool,
}

impl<'c, 'a> Outlook<'c, 'a> {
    pub(crate) fn new(case: &'c Case<'a>, causes: &'c [Cause], can_run_again: bool) -> Outlook<'c, 'a> {
        let short = case.short();
        let is_nothing_short = short.is_none_or(|short| short == Bytes::ZERO);
        let has_freed_enough = case.situation.taken.freed && is_nothing_short;
        Outlook { case, causes, short, has_freed_enough, can_run_again }
    }

    pub(crate) fn leading(&self) -> Option<&'static About> {
        causes::about(self.causes.first()?.cause)
    }

    pub(crate) fn is_led_by(&self, cause: CauseKind) -> bool {
        self.causes.first().is_some_and(|found| found.cause == cause)
    }

    pub(crate) fn has_cause(&self, cause: CauseKind) -> bool {
        self.causes.iter().any(|found| found.cause == cause)
    }

    /// Whether the run's own doing is to blame: then what it was doing tells what to change.
    pub(crate) fn blames_the_run(&self) -> bool {
        self.leading().is_some_and(|about| about.blames == Blames::TheRun)
    }

    /// Whether a limit was hit, or the other processes are the run's own ranks or process: nobody else has to go.
    pub(crate) fn spares_others(&self) -> bool {
        let blames_nobody_else = self.leading().is_some_and(|about| about.blames == Blames::NobodyElse);
        // Where another GPU has room, a run of one process may still want this one.
        let may_want_this_gpu = self.is_led_by(CauseKind::WrongDevice) && self.case.log.run.rank.is_none();
        blames_nobody_else && !may_want_this_gpu
    }

    /// Whether enough VRAM is free for the run now, so that no process has to go.
    pub(crate) fn has_room_now(&self) -> bool {
        self.can_run_again
            || self.has_freed_enough && self.short.is_some()
            || self.case.retry_has_room()
            || self.short == Some(Bytes::ZERO) && self.case.has_enough_vram_now()
    }

    /// Whether the engine's request came beside its share: what makes room within the share only makes room for
    /// more KV cache there.
    pub(crate) fn is_beside_share(&self) -> bool {
        self.blames_the_run() && self.case.requested_beside_share.is_some()
    }

    /// Whether the model takes more than an empty GPU has.
    pub(crate) fn exceeds_the_gpu(&self) -> bool {
        self.case.fit_ahead().is_some_and(|fit| fit.beyond().is_some())
    }

    /// Whether the weights of an engine's model are more than the GPU has: it keeps all of them there.
    pub(crate) fn has_weights_beyond(&self) -> bool {
        self.case.weights_beyond().is_some()
    }

    /// Whether no change of other processes makes the model fit: it takes more than an empty GPU has, and no other process
    /// is to blame, or its weights alone take more.
    pub(crate) fn exceeds_an_empty_gpu(&self) -> bool {
        let Some(fit) = self.case.fit_ahead() else { return false };
        let is_hopeless = fit.weights_beyond().is_some() || !self.is_led_by(CauseKind::OtherProcess);
        is_hopeless && fit.beyond().is_some()
    }
}
