//! Owns the text beside the list: the selected fix in full, or the selected process. The drawing gives it its styles and
//! the geometry its height.

use super::model::list::Row;
use super::model::{Model, Region};
use super::victims::evidence_of;
use crate::advice::CauseKind;
use crate::advice::supervisor::Supervisor;
use crate::advice::{PlannedFix, Step};
use crate::app::action::Action;
use crate::gpu::{GpuProcess, sight};
use crate::knowledge::diagnosis::Phase;
use crate::text::shortened;

/// A paragraph, by what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Paragraph {
    /// What to do.
    Do(String),
    /// A command or a line to change, exactly as it is to be typed.
    Command(String),
    /// A label and what belongs to it: "Worked if", "If not", "Why".
    Labeled(&'static str, String),
    /// The proof that something happened, or that the run is on its way again.
    Proof(String),
    /// What may be read later.
    Note(String),
}

impl Paragraph {
    /// Its lines at this width, without the label. Reasons and what to do next are shortened to so many lines: the command
    /// is what has to be read.
    pub(crate) fn wrapped(&self, width: usize, most_lines: usize) -> Vec<String> {
        if let Paragraph::Labeled(_, text) = self {
            return shortened(text, width.saturating_sub(LABEL).max(10), most_lines);
        }
        let (text, indent) = match self {
            Paragraph::Do(text) | Paragraph::Command(text) | Paragraph::Proof(text) | Paragraph::Note(text) => {
                (text, 0)
            }
            Paragraph::Labeled(_, text) => (text, LABEL),
        };
        let options = textwrap::Options::new(width.saturating_sub(indent).max(10))
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
    }
}

/// Lines of a labeled text: where all of it is shown, and less and less.
const ALL_LINES: usize = usize::MAX;
const FEWER_LINES: [usize; 4] = [ALL_LINES, 5, 3, MOST_LINES];
const MOST_LINES: usize = 2;

/// A screen of this size has room for all of it beside everything else.
const SHOWS_ALL: (u16, u16) = (160, 50);

/// The width of the labels' column.
pub(crate) const LABEL: usize = 11;

/// What stands beside the lists, for the region in focus.
pub(crate) fn paragraphs(model: &Model) -> Vec<Paragraph> {
    match (model.focus, model.selected()) {
        (Region::Processes, Some(row)) => of_process(model, &row),
        _ => of_fix(model),
    }
}

/// Lines of a labeled text that the pane asks for: all where it has the screen to itself, or the screen is large.
fn lines_wanted(model: &Model) -> usize {
    let is_large = model.size.0 >= SHOWS_ALL.0 && model.size.1 >= SHOWS_ALL.1;
    if model.zoomed || is_large { ALL_LINES } else { MOST_LINES }
}

/// As many lines of each labeled text as fit into so many rows. The screen that opens with a verdict has to be read in
/// seconds: until the person looks around in the fixes, no more is shown than was asked for.
pub(crate) fn lines_that_fit(model: &Model, width: usize, rows: usize) -> usize {
    let wanted = lines_wanted(model);
    let has_looked_around = model.walk.cursor.is_some() || !model.walk.behind.is_empty() || !model.endings.is_empty();
    if wanted == ALL_LINES || !has_looked_around {
        return wanted;
    }
    let all = paragraphs(model);
    let fits = |most: &usize| all.iter().map(|paragraph| paragraph.wrapped(width, *most).len()).sum::<usize>() <= rows;
    FEWER_LINES.into_iter().find(fits).unwrap_or(wanted)
}

/// How many lines that takes at this width, and how many of them may not be cut: the command and what to do.
pub(crate) fn heights(model: &Model, width: usize) -> (usize, usize) {
    // On a large screen the keys have a line.
    let keys = usize::from(!model.is_small());
    let (mut wanted, mut least) = (keys, keys);
    for paragraph in paragraphs(model) {
        let lines = paragraph.wrapped(width, lines_wanted(model)).len();
        wanted += lines;
        if matches!(paragraph, Paragraph::Command(_) | Paragraph::Do(_)) {
            least += lines;
        }
    }
    (wanted, least)
}

fn of_fix(model: &Model) -> Vec<Paragraph> {
    let Some(planned) = model.current_step() else { return again(model) };
    let mut all: Vec<Paragraph> = Vec::new();
    for step in &planned.steps {
        all.extend(of_step(step));
    }
    // Where little can be seen at once, the command comes first.
    if model.is_small() {
        all.sort_by_key(|paragraph| !matches!(paragraph, Paragraph::Command(_)));
    }
    if model.is_small() {
        all.push(Paragraph::Labeled("Costs", crate::advice::naming::sentence(&planned.costs)));
    }
    all.extend(again(model));
    all
}

fn of_step(step: &Step) -> impl Iterator<Item = Paragraph> {
    let sentence = crate::advice::naming::sentence;
    let commands = step.command.iter().flat_map(|command| command.lines());
    let labeled =
        [("Worked if", step.expect.strip_prefix("Worked if:").unwrap_or(&step.expect)), ("If not", &step.if_not)];
    let labeled = labeled.into_iter().chain([("Why", step.why.as_str())]);
    std::iter::once(Paragraph::Do(sentence(&step.action)))
        .chain(commands.map(|line| Paragraph::Command(line.to_owned())))
        .chain(step.versions.iter().map(|versions| Paragraph::Labeled("Versions", sentence(versions))))
        .chain(
            labeled
                .filter(|(_, text)| !text.trim().is_empty())
                .map(|(label, text)| Paragraph::Labeled(label, without_its_label(label, sentence(text.trim())))),
        )
        .collect::<Vec<_>>()
        .into_iter()
}

/// A sentence below "If not" that begins with it as well reads twice.
fn without_its_label(label: &str, text: String) -> String {
    match text.strip_prefix("If not, ") {
        Some(rest) if label == "If not" => crate::advice::naming::sentence(rest),
        _ => text,
    }
}

/// The command to run again with what was changed so far, or how to say it; and whether the run is on its way.
fn again(model: &Model) -> Vec<Paragraph> {
    let Some(advice) = model.advice.as_ref().filter(|advice| !advice.plan.is_empty()) else { return Vec::new() };
    let mut all = Vec::new();
    if let Some(again) = &model.walk.again {
        let needed = advice.ledger.as_ref().and_then(|ledger| ledger.needed_bytes);
        all.push(Paragraph::Proof(again.words(needed)));
    }
    let has_changed = !model.walk.behind.is_empty();
    let changes_a_command = advice.plan.iter().any(|planned| planned.changes.is_some());
    match model.rerun() {
        // Beside a fix with a command of its own, a second command would undo the first.
        Some(command) if has_changed && model.current_step().is_none_or(has_no_command) => {
            all.push(Paragraph::Labeled("Then run", command));
        }
        None if changes_a_command => {
            let key = model.key(Action::Command);
            all.push(Paragraph::Note(format!("{key} give the command: its options are changed in it")));
        }
        _ => {}
    }
    all.extend(size_hint(model).map(Paragraph::Note));
    all
}

/// What Enter does with this fix.
pub(crate) fn enter_in_words(model: &Model, planned: &PlannedFix) -> &'static str {
    let copies = planned.steps.iter().any(|step| step.command.is_some());
    match planned.target {
        Some(_) if model.release_of(planned).is_some() => "unload…",
        _ if planned.waits_for.is_some() => "notify me",
        _ if copies => "copy command",
        _ => "mark as taken",
    }
}

fn has_no_command(planned: &PlannedFix) -> bool {
    planned.steps.iter().all(|step| step.command.is_none())
}

fn size_hint(model: &Model) -> Option<String> {
    let advice = model.advice.as_ref()?;
    let is_loading = model.input.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.phase == Phase::Load);
    let first = advice.verdict.causes.first().map(|cause| cause.cause);
    let is_about_size = matches!(first, Some(CauseKind::TooBig | CauseKind::Context));
    match advice.fit.as_ref().filter(|fit| fit.is_told()) {
        Some(_) => Some(format!("{} fit: try context, cache and layers", model.key(Action::Fit))),
        None if is_loading || is_about_size => {
            Some(format!("{} set model: see whether it fits", model.key(Action::Model)))
        }
        None => None,
    }
}

fn of_process(model: &Model, row: &Row) -> Vec<Paragraph> {
    let process = row.process.as_ref();
    let mut all = vec![Paragraph::Do(whose(model, process))];
    all.extend(process.command.known().map(|command| Paragraph::Command(command.clone())));
    let evidence = evidence_of(model, process);
    if !evidence.is_empty() {
        all.push(Paragraph::Labeled("Seen", crate::advice::naming::sentence(&evidence.join(", "))));
    }
    if let Some(container) = &process.container {
        all.push(Paragraph::Labeled("Runs in", container.clone()));
    }
    if let Some(manager) = process.managed_by.as_ref().and_then(|_| Supervisor::of(process)) {
        all.push(Paragraph::Labeled("Started by", manager.label().to_string()));
    }
    all.extend(sight::of_service(process).map(|service| Paragraph::Labeled("Service", service.to_owned())));
    all.extend(sight::of_memory(process).map(|memory| Paragraph::Labeled("Memory", memory)));
    if row.unlisted {
        all.push(Paragraph::Note("It has the driver open; the driver does not list its memory.".into()));
    }
    all
}

/// Owner and state in a line: "yours · started 3 h ago · idle ≥ 40 s".
fn whose(model: &Model, process: &GpuProcess) -> String {
    let owner = match (model.config.viewer.owns(process), process.user.known()) {
        (true, _) => "yours".to_owned(),
        (false, Some(user)) => format!("owned by {user}"),
        (false, None) => "owner unknown".to_owned(),
    };
    let mut parts = vec![format!("PID {}", process.pid), owner];
    let now = model.snapshot().map(|snapshot| snapshot.taken_at);
    if let (Some(started), Some(now)) = (process.started_at.value(), now) {
        parts.push(format!("started {} ago", started.age_at(now)));
    }
    if let Some(key) = process.key() {
        parts.push(match model.activity_of(key) {
            crate::gpu::activity::Activity::Unknown => "busy or idle is known after 10 s".to_owned(),
            known => known.to_string(),
        });
    }
    parts.join(" · ")
}
