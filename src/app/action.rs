//! Owns what a person can mean, apart from which key says it.

/// Something a person can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Focus the next region, or the previous one.
    NextRegion,
    PreviousRegion,
    /// Move the selection or the text by so many lines.
    Move(i32),
    /// Move by so many screenfuls.
    Page(i32),
    /// Turn the selected setting by so many steps.
    Turn(i32),
    /// Go to the first line.
    First,
    /// Go to the last line.
    Last,
    /// Do what the focused region does: take the step, type into the input, ask to end the process.
    Enter,
    /// Close what is open, or clear the filter.
    Escape,
    /// Mark the selected process.
    Mark,
    /// Ask to end the selected or marked processes.
    End,
    Skip,
    /// Go back one step.
    Back,
    /// Copy the step's command, the evidence, the command line: what is selected.
    Copy,
    /// Say more about this error.
    About,
    /// Bring back the previous log.
    Previous,
    /// Read the log's file again.
    Reread,
    Works,
    FailedAgain,
    /// The step was tried and did not help.
    DidNotHelp,
    /// Give the log of a run that worked, to see what has changed since.
    LogThatWorked,
    /// Tell what was run.
    Command,
    Model,
    /// Whether the run's model fits.
    Fit,
    /// Why: the evidence, the sums, and which rules led to these causes and fixes.
    Rules,
    /// Show the log, or go back from it.
    Log,
    /// Search the input, filter the processes.
    Search,
    NextHit,
    PreviousHit,
    /// Give the focused region the whole screen.
    Zoom,
    /// Write a report for others.
    Report,
    /// Stop taking new readings, or go on.
    Pause,
    /// Pick what was seen, with no log at hand.
    Symptoms,
    /// List what can be done, to pick from.
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
    /// Whether it only shows something else: it ends, takes, skips and leaves nothing.
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
                | Action::Theme
                | Action::Help
        )
    }

    /// Whether it stands in the list to pick from: there, what only moves about would be of no use.
    pub fn can_be_picked(self) -> bool {
        !matches!(
            self,
            Action::Move(_) | Action::Page(_) | Action::First | Action::Last | Action::Escape | Action::Actions
        )
    }
}
