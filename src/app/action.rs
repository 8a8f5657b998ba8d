//! Owns the actions: what a key can mean.

/// What a key can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Focus the next region, or the previous one.
    NextRegion,
    PreviousRegion,
    /// Move the selection or the text by so many lines.
    Move(i32),
    /// Move by so many screenfuls.
    Page(i32),
    /// Change the selected setting by so many steps.
    Turn(i32),
    /// Go to the first line.
    First,
    /// Go to the last line.
    Last,
    /// Do what the focused region does: take the fix, edit the log, copy the command.
    Enter,
    /// Close what is open, or clear the filter.
    Escape,
    /// Mark the selected process, to be terminated with other marked ones.
    Mark,
    /// Ask to terminate the selected or marked processes.
    End,
    Skip,
    /// Undo the last fix that was taken or skipped.
    Back,
    /// Copy what is selected: the command of the fix, the decisive line, the command line.
    Copy,
    /// Explain the error of the log.
    About,
    /// Open the previous log again.
    Previous,
    /// Read the log's file again.
    Reread,
    Works,
    FailedAgain,
    /// The fix was tried and did not help.
    DidNotHelp,
    /// Compare with the log of a run that worked.
    LogThatWorked,
    /// Edit the command that failed.
    Command,
    Model,
    /// Whether the run's model fits.
    Fit,
    /// Why: the evidence, the sums, and which rules led to these causes and fixes.
    Rules,
    /// Show the log, or go back from it.
    Log,
    /// Search the log, or filter the processes.
    Search,
    NextHit,
    PreviousHit,
    /// Give the focused region the whole screen.
    Zoom,
    /// Read the failed log that was found.
    ReadFound,
    /// List the logs that were found on this machine.
    FoundLogs,
    /// List the other machines, to open one.
    Machines,
    /// Show the recording of the run that failed.
    Recording,
    /// Show the memory snapshots of the run that failed.
    Allocations,
    /// Ask whether to run the recorded command again, as the fix changes it.
    RunAgain,
    /// Write a report for others.
    Report,
    /// Stop taking new readings, or go on.
    Pause,
    /// Pick what was seen, without a log.
    Symptoms,
    /// List all commands to pick from.
    Actions,
    /// Sort the processes by the next column.
    Sort,
    /// Use the next set of colors.
    Theme,
    Help,
    /// Stop until the shell brings the program back.
    Suspend,
    Quit,
}

impl Action {
    /// Whether it only shows something else: it terminates, takes, skips and leaves nothing.
    pub fn is_harmless(self) -> bool {
        matches!(
            self,
            Action::NextRegion
                | Action::PreviousRegion
                | Action::Move(_)
                | Action::Page(_)
                | Action::First
                | Action::Last
                | Action::NextHit
                | Action::PreviousHit
                | Action::Search
                | Action::Sort
                | Action::Zoom
                | Action::Log
                | Action::About
                | Action::Recording
                | Action::Allocations
                | Action::Machines
                | Action::Theme
                | Action::Help
        )
    }

    /// Whether it is in the list of commands, where mere movement would be of no use.
    pub fn can_be_picked(self) -> bool {
        !matches!(
            self,
            Action::Move(_) | Action::Page(_) | Action::First | Action::Last | Action::Escape | Action::Actions
        )
    }
}
