//! Owns what is derived of the plan: the fixes ahead, the selected one, and the command line after those that were taken.

use super::model::Model;
use super::walk::{Behind, Ending, EndingState};
use crate::advice::release::Release;
use crate::advice::rerun::apply_all;
use crate::advice::{Changes, PlannedFix, Situation, Taken};
use crate::gpu::ProcessKey;
use crate::report;

impl Model {
    /// The fixes still ahead: not taken, not skipped, and not about a process that is being terminated already.
    pub fn steps_ahead(&self) -> Vec<&PlannedFix> {
        let Some(advice) = &self.advice else { return Vec::new() };
        let ahead = self.walk.ahead(&advice.plan).into_iter();
        ahead.filter(|planned| !planned.target.is_some_and(|target| self.is_ending(target))).collect()
    }

    /// Whether this process was signalled, or asked, and it did not refuse.
    fn is_ending(&self, key: ProcessKey) -> bool {
        self.endings.iter().any(|ending| ending.victim.key == key && ending.is_under_way())
    }

    /// The fix that is selected among those ahead.
    pub fn current_step(&self) -> Option<&PlannedFix> {
        let ahead = self.steps_ahead();
        ahead.get(self.cursor(&ahead)?).copied()
    }

    /// Which of the fixes ahead is selected: none while the person waits for the memory that a fix frees, unless they
    /// selected another.
    pub fn cursor(&self, ahead: &[&PlannedFix]) -> Option<usize> {
        (self.walk.cursor.is_some() || self.awaited().is_none()).then(|| self.walk.position(ahead))
    }

    /// The terminated process whose memory is waited for.
    pub fn awaited(&self) -> Option<&Ending> {
        self.endings.iter().rev().find(|ending| ending.is_under_way() && !ending.is_settled() && ending.again.is_none())
    }

    /// The command line to run again, with the changes of the fixes taken; `None` where the failed command is unknown.
    pub fn rerun(&self) -> Option<String> {
        self.rerun_with(None)
    }

    /// The same with another change behind them.
    pub(crate) fn rerun_with(&self, more: Option<&Changes>) -> Option<String> {
        let diagnosis = self.input.diagnosis.as_ref()?;
        let living = self.advice.as_ref().and_then(|advice| advice.command.as_deref());
        let command = self.input.command.as_deref().or(diagnosis.run.command.as_deref()).or(living);
        let situation = Situation { command, ..Situation::alone(diagnosis) };
        let changes: Vec<_> = self.walk.behind.iter().filter_map(Behind::change).chain(more).cloned().collect();
        Some(apply_all(&changes, situation.command_line()?, situation.form()))
    }

    /// What the fixes taken so far mean for those ahead.
    pub fn taken(&self) -> Taken {
        Taken {
            changed: self.walk.behind.iter().any(|behind| behind.change().is_some()),
            enough: self.walk.enough_taken(),
            freed: self.endings.iter().any(|ending| matches!(ending.state, EndingState::Returned { .. })),
            left: self.walk.behind.len(),
        }
    }

    /// How the program that this fix is about can be asked to free its memory now: not where nothing may be sent at all, nor
    /// after it was asked in vain or ignored a signal.
    pub fn release_of<'a>(&self, step: &'a PlannedFix) -> Option<&'a Release> {
        let tried = step.target.and_then(|target| self.ending_of(target));
        let in_vain = tried.is_some_and(|e| matches!(e.state, EndingState::NotReleased(_) | EndingState::Survived(_)));
        if in_vain || self.refuses_all().is_some() { None } else { step.release.as_ref() }
    }

    /// What became of terminating this process, if the person did.
    pub fn ending_of(&self, key: ProcessKey) -> Option<&Ending> {
        self.endings.iter().find(|ending| ending.victim.key == key)
    }

    /// How this failure differs from the one before, and this run from one that worked.
    pub fn compared(&self) -> Vec<String> {
        let since_it_worked = self.input.since_it_worked.known().map(report::differences).unwrap_or_default();
        self.walk.compared.iter().cloned().chain(since_it_worked).collect()
    }
}
