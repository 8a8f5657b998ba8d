//! Owns everything the program knows at a moment. The screen is a function of this and of nothing else.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyCode;
use jiff::tz::TimeZone;
use ratatui::layout::Rect;
use ratatui_textarea::TextArea;

use super::action::Action;
use super::aim::Aim;
use super::gate::Gate;
use super::keymap::Keymap;
use super::last::Story;
use super::layout::{self, Layout, Shape};
use super::letters::Letters;
use super::question::Question;
use super::rows::{Row, rows};
use super::walk::{Behind, Ending, EndingState, Walk};
use crate::advice::changed::Difference;
use crate::advice::release::Release;
use crate::advice::rerun::apply_all;
use crate::advice::{Advice, PlannedFix, Situation, Taken, Trial};
use crate::gpu::guard::{Refusal, Viewer};
use crate::gpu::history::History;
use crate::gpu::sight;
use crate::gpu::{Device, Driver, GpuProcess, Header, ProcessKey, Snapshot};
use crate::knowledge::diagnosis::Diagnosis;
use crate::knowledge::fix::Fix;
use crate::knowledge::page::{Page, Tone};
use crate::log::PastedLog;
use crate::report;
use crate::report::redact::Names;
use crate::text::{broken, shortened};
use crate::units::{Bytes, WallTime};

/// A part of the screen that can have the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    Processes,
    Input,
    Steps,
}

/// What is laid over the screen, apart from a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overlay {
    /// The keys: the first line shown.
    Help(usize),
    /// The words of the field: the first line shown.
    Words(usize),
    /// What the log may be, explained: which of the entries that matched, and the first line shown.
    About(usize, usize),
    /// Everything that can be done, to pick from: what was typed to find it, and the selected one.
    Actions(String, usize),
    /// What people see, to pick from: the selected one.
    Symptoms(usize),
    /// Settings of the run's model being tried, see [`Model::trial`].
    Trial,
    /// The sizes and choices of the run's model: the first line shown.
    Fit(usize),
    /// What was done and what keeps it from coming back: the first line shown.
    Done(usize),
    /// Which rules led to these causes and steps: the first line shown.
    Rules(usize),
    /// Where a report was written, and the first line shown.
    Written(String, usize),
    /// What is known of a model that draws, and the first line shown.
    Draws(String, usize),
    /// A text that could not be copied, shown alone so that it can be selected, and the first line shown.
    Text(String, usize),
}

impl Overlay {
    /// The first line shown, of what is read and not picked from.
    pub fn top(&mut self) -> Option<&mut usize> {
        match self {
            Overlay::Help(top)
            | Overlay::Words(top)
            | Overlay::About(_, top)
            | Overlay::Fit(top)
            | Overlay::Done(top)
            | Overlay::Rules(top)
            | Overlay::Written(_, top)
            | Overlay::Draws(_, top)
            | Overlay::Text(_, top) => Some(top),
            Overlay::Actions(..) | Overlay::Symptoms(_) | Overlay::Trial => None,
        }
    }
}

/// Where readings come from, and so whether anything may be signalled because of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// This program's own child on this machine.
    Live,
    /// The recorded demo: signals reach its simulated processes only.
    Demo,
    /// A recording or another machine's stream.
    Recorded,
}

/// Which colours are used. None of them carries a meaning alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// The terminal's own sixteen, so that a dark and a light one both have what their owner chose.
    #[default]
    Terminal,
    /// The strongest contrasts: nothing dim, nothing grey.
    HighContrast,
    /// Told apart with any kind of colour vision (after Okabe and Ito).
    ColourBlind,
    None,
}

impl Palette {
    /// As they are named in the configuration.
    pub const NAMES: [(&'static str, Palette); 4] = [
        ("terminal", Palette::Terminal),
        ("high-contrast", Palette::HighContrast),
        ("colour-blind", Palette::ColourBlind),
        ("none", Palette::None),
    ];
}

/// What does not change while the program runs.
#[derive(Clone, Debug)]
pub struct Config {
    pub viewer: Viewer,
    /// Where readings come from.
    pub source: Source,
    /// This boot, to hold against the stream's.
    pub boot_id: Option<String>,
    pub interval: Duration,
    pub read_only: bool,
    /// Whether the last log is kept for `--last`.
    pub keep_log: bool,
    /// How long a signalled process may take before KILL is offered.
    pub grace: Duration,
    /// Whether the terminal can show more than ASCII.
    pub unicode: bool,
    /// Which colours are wanted; none where `NO_COLOR` is set.
    pub palette: Palette,
    /// What each key means.
    pub keys: Arc<Keymap>,
    /// The zone of the person's clock.
    pub zone: TimeZone,
    /// Whether there is a shell that could continue us after Ctrl-Z.
    pub can_suspend: bool,
    /// Whether the terminal marks what is pasted; where it does not, a paste into a line arrives as keys.
    pub marks_pastes: bool,
    /// Names that a report leaves out.
    pub names: Names,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            viewer: Viewer::default(),
            source: Source::Live,
            boot_id: None,
            interval: Duration::from_secs(1),
            read_only: false,
            keep_log: true,
            grace: Duration::from_secs(5),
            unicode: true,
            palette: Palette::Terminal,
            keys: Arc::default(),
            zone: TimeZone::UTC,
            can_suspend: true,
            marks_pastes: true,
            names: Names::default(),
        }
    }
}

/// The stream of readings.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    /// The stream's first line.
    pub header: Option<Header>,
    pub latest: Option<Arc<Snapshot>>,
    /// When its line came.
    pub received: Option<Duration>,
    /// What was watched so far.
    pub history: History,
    /// When readings were last asked for sooner than before.
    pub hastened: Option<Duration>,
    /// Why the sampler is down, where it is.
    pub down: Option<String>,
    /// New readings are not taken in.
    pub paused: bool,
}

/// Names a row over re-sorted lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowId {
    pub device: u32,
    /// As the driver gave it.
    pub pid: u32,
    pub start_ticks: Option<u64>,
}

/// What a click does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Click {
    /// As if this key were pressed.
    Press(KeyCode),
    /// Selects this row of the process list.
    Row(RowId),
    /// Selects this one of the steps ahead.
    Step(usize),
    /// Sorts the processes by the next column.
    Sort,
    /// Shows the log.
    Log,
    /// Selects the item of the list that is open; a second time picks it.
    Item(usize),
}

/// Something on the screen that can be clicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it was drawn.
    pub area: Rect,
    /// What a click there does.
    pub does: Click,
    /// It belongs to what is laid over the screen; the rest can't be reached then.
    pub on_top: bool,
}

/// What the drawing tells of a screen that was drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What can be clicked.
    pub targets: Vec<Target>,
    /// The question that stands there has more to read than the screen has room for.
    pub cut: bool,
}

/// By which column the processes of a device are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Vram,
    /// The lowest number first.
    Pid,
    User,
    Age,
    /// By what it is.
    What,
}

impl Sort {
    pub fn next(self) -> Sort {
        match self {
            Sort::Vram => Sort::User,
            Sort::User => Sort::Age,
            Sort::Age => Sort::What,
            Sort::What => Sort::Pid,
            Sort::Pid => Sort::Vram,
        }
    }

    /// Which of two rows comes first; where they are alike, the larger one, then the lower PID.
    pub fn compare(self, one: &GpuProcess, other: &GpuProcess) -> Ordering {
        let name = |row: &GpuProcess| row.user.known().cloned();
        let what = |row: &GpuProcess| row.recognised_as.clone().or_else(|| row.command.known().cloned());
        let first = match self {
            Sort::Vram => Ordering::Equal,
            Sort::Pid => one.pid.cmp(&other.pid),
            Sort::User => name(one).cmp(&name(other)),
            Sort::Age => one.start_ticks.value().cmp(&other.start_ticks.value()),
            Sort::What => what(one).cmp(&what(other)),
        };
        first.then_with(|| other.used_bytes.value().cmp(&one.used_bytes.value())).then(one.pid.cmp(&other.pid))
    }
}

/// For so long after the person moved in the list or clicked on it, its rows keep their places.
const STILL: Duration = Duration::from_secs(5);

/// So many times rarer are readings while nobody looks, and on battery; but never rarer than `SLOWEST`.
const AWAY: u32 = 5;
const BATTERY: u32 = 2;
const SLOWEST: Duration = Duration::from_secs(10);

/// The process list's own state.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    pub selected: Option<RowId>,
    /// Marked for ending together.
    pub marked: BTreeSet<ProcessKey>,
    /// Only rows that hold this text are shown.
    pub filter: String,
    /// The column by which they are sorted.
    pub sort: Sort,
    /// When the person last moved in the list, and its order then.
    pub still: Option<(Duration, Vec<RowId>)>,
    /// The letters of the processes, as the bars and the list show them.
    pub letters: Letters,
    /// A row was selected before: from then on only the person selects another.
    pub was_selected: bool,
}

/// Standard input, where it is a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pipe {
    /// It is the terminal, or nothing.
    #[default]
    None,
    /// The writer is still there.
    Open,
    Closed,
}

/// What happened to the file that the log was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// So many lines were added.
    Grew(u64),
    /// It begins anew: shortened, or another file has its name.
    Anew,
    /// No file has this name any more.
    Gone,
}

impl Change {
    /// This one after that one, of which nothing was read yet.
    pub fn after(self, before: Option<Change>) -> Change {
        match (before, self) {
            (Some(Change::Grew(first)), Change::Grew(more)) => Change::Grew(first.saturating_add(more)),
            (Some(Change::Anew | Change::Gone), Change::Grew(_)) => Change::Anew,
            _ => self,
        }
    }
}

/// The file that the log was read from, which is looked at for more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    pub path: PathBuf,
    /// What happened to it since it was read.
    pub change: Option<Change>,
    /// What is being read of it adds to the log that is there.
    pub adds: bool,
}

/// The log and what it says.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The log as read; its raw text is what was pasted.
    pub log: Option<Arc<PastedLog>>,
    pub diagnosis: Option<Diagnosis>,
    /// The leading entry's fixes.
    pub fixes: Vec<Fix>,
    /// Every entry that matched as a page, the leading one first.
    pub pages: Vec<Page>,
    /// Where it came from and when: "pasted 14:02:11", "crash.log".
    pub origin: String,
    /// The command line that failed, as the person gave it.
    pub command: Option<String>,
    /// The model, as the person named it.
    pub model: Option<String>,
    /// The latest moment at which the job can have died.
    pub crashed_by: Option<WallTime>,
    /// The story of the log that is being brought back from the last time.
    pub story: Option<Box<Story>>,
    /// A log is being read: the generation that is awaited, and its text where it is not a file or a pipe still open.
    pub awaited: Option<(u64, Option<String>)>,
    /// Why the last one could not be read.
    pub trouble: Option<String>,
    /// The person gave this log themselves: what comes through the pipe does not replace it.
    pub own: bool,
    pub generation: u64,
    /// The one before this, raw, with its origin.
    pub previous: Option<(String, String)>,
    /// The editor, while typing.
    pub typing: Option<Box<TextArea<'static>>>,
    /// The first line shown, counted from 0; `None`: around the decisive line.
    pub top: Option<usize>,
    /// What was searched for.
    pub search: String,
    pub pipe: Pipe,
    /// The file that was named at the start.
    pub file: Option<Followed>,
    pub since_it_worked: SinceItWorked,
}

/// The comparison with the log of a run that worked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SinceItWorked {
    #[default]
    Unknown,
    /// The next paste is that log.
    Awaited,
    /// That log is being read.
    Reading,
    /// What differs from the run that failed.
    Known(Vec<Difference>),
}

impl SinceItWorked {
    /// No longer takes the next paste for that log; whether it would have.
    pub fn cancel(&mut self) -> bool {
        let was_awaited = *self == SinceItWorked::Awaited;
        if was_awaited {
            *self = SinceItWorked::Unknown;
        }
        was_awaited
    }

    pub fn known(&self) -> Option<&[Difference]> {
        match self {
            SinceItWorked::Known(differences) => Some(differences),
            _ => None,
        }
    }
}

/// What a typed line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Only rows that hold it are shown.
    Filter,
    /// It is searched for in the log.
    Search,
    /// It is the command line that failed.
    Command,
    /// The model that did not fit.
    Model,
}

/// A line being typed at the foot of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What it is for.
    pub purpose: Purpose,
    /// What was typed so far.
    pub text: String,
}

/// Whether anybody looks, and at what cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookedAt {
    /// As the terminal says; one that does not say is always looked at.
    pub in_front: bool,
    /// The machine lives on its battery.
    pub on_battery: bool,
}

impl Default for LookedAt {
    fn default() -> Self {
        LookedAt { in_front: true, on_battery: false }
    }
}

#[derive(Clone, Debug)]
pub struct Model {
    /// What does not change.
    pub config: Config,
    /// The moment of the last message.
    pub now: Duration,
    /// The same on the wall.
    pub wall: WallTime,
    pub size: (u16, u16),
    /// Who looks, and at what cost.
    pub looked_at: LookedAt,
    /// Which region has the focus.
    pub focus: Region,
    /// The focused region has the screen to itself.
    pub zoomed: bool,
    /// The stream of readings.
    pub feed: Feed,
    pub processes: Processes,
    /// Which processes `x` asks about, and since when.
    pub aim: Aim,
    pub input: Input,
    /// Log and machine joined; made anew with each of them.
    pub advice: Option<Advice>,
    /// The walk through its plan.
    pub walk: Walk,
    /// The settings of the run's model that the person tries; kept while log and model are the same.
    pub trial: Option<Box<Trial>>,
    /// What was ended, in order.
    pub endings: Vec<Ending>,
    pub question: Option<Question>,
    /// What is laid over the screen.
    pub overlay: Option<Overlay>,
    /// A line being typed.
    pub prompt: Option<Prompt>,
    /// The words of the field, once the knowledge is loaded.
    pub glossary: Option<Arc<Page>>,
    /// A word to the person, and when it was said.
    pub notice: Option<(String, Duration)>,
    /// What can be clicked, as it was drawn last.
    pub targets: Vec<Target>,
    /// Keys that may yet turn out to be a paste.
    pub gate: Gate,
    /// What was kept last for the next start: the log of which generation, with which story.
    pub kept: Option<(u64, Story)>,
    /// A paste is coming in and has not ended.
    pub pasting: bool,
    /// The loop ends after this message.
    pub leaving: bool,
}

impl Model {
    /// A program that has just started and knows nothing.
    pub fn new(config: Config, size: (u16, u16), wall: WallTime) -> Model {
        Model {
            config,
            now: Duration::ZERO,
            wall,
            size,
            looked_at: LookedAt::default(),
            focus: Region::Processes,
            zoomed: false,
            feed: Feed::default(),
            processes: Processes::default(),
            aim: Aim::default(),
            input: Input::default(),
            advice: None,
            walk: Walk::default(),
            trial: None,
            endings: Vec::new(),
            question: None,
            overlay: None,
            prompt: None,
            glossary: None,
            notice: None,
            targets: Vec::new(),
            gate: Gate::default(),
            kept: None,
            pasting: false,
            leaving: false,
        }
    }

    /// How the key of this action is written here: `[x]`.
    pub fn key(&self, action: Action) -> String {
        format!("[{}]", self.config.keys.key_of(action).unwrap_or("?"))
    }

    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.feed.latest.as_deref()
    }

    /// Why nothing at all may be signalled; `None` where it may (in the demo: simulated).
    pub fn refuses_all(&self) -> Option<Refusal> {
        let other_boot = || {
            let theirs = self.feed.header.as_ref().and_then(|header| header.boot_id.as_ref());
            theirs.is_none() || theirs != self.config.boot_id.as_ref()
        };
        match self.config.source {
            _ if self.config.read_only => Some(Refusal::ReadOnly),
            _ if self.config.viewer.is_held_by_pod => self.config.viewer.refuses_everything(),
            Source::Demo => None,
            Source::Live if !other_boot() => None,
            Source::Live | Source::Recorded => Some(Refusal::NotHere),
        }
    }

    /// How long the sampler has been silent beyond what is normal; `None` where it speaks.
    pub fn silent_for(&self) -> Option<Duration> {
        let age = self.now.saturating_sub(self.feed.received.unwrap_or(Duration::ZERO));
        (self.now >= self.expected_by()).then_some(age)
    }

    /// When a reading is overdue. One that was asked for at a slower pace is not late at once when the pace rises.
    fn expected_by(&self) -> Duration {
        let asked = self.feed.received.max(self.feed.hastened).unwrap_or(Duration::ZERO);
        asked + self.silence_allowed()
    }

    /// From one reading to the next, as things are: rarer while nobody looks and on battery,
    /// unless something is awaited.
    pub fn pace(&self) -> Duration {
        let usual = self.config.interval;
        if self.question.is_some() || self.walk.waits_for.is_some() || self.awaited().is_some() {
            return usual;
        }
        let LookedAt { in_front, on_battery } = self.looked_at;
        let factor = if in_front { 1 } else { AWAY } * if on_battery { BATTERY } else { 1 };
        usual.saturating_mul(factor).min(SLOWEST.max(usual))
    }

    /// Three intervals; at the start the driver may need a moment more.
    fn silence_allowed(&self) -> Duration {
        let three = self.pace() * 3;
        if self.feed.received.is_some() { three } else { three.max(Duration::from_secs(3)) }
    }

    /// When something changes on the screen though nothing happens.
    pub fn wakes_at(&self) -> Option<Duration> {
        let silence = match self.silent_for() {
            // The age of the last reading counts on while the driver is silent.
            Some(_) => Some(self.now + Duration::from_secs(1)),
            None => Some(self.expected_by()),
        };
        let notice = self.notice.as_ref().map(|(_, said)| *said + super::update::NOTICE);
        let question = self.question.as_ref().and_then(|question| question.wakes_at(self.now));
        let unseen = self.aim.unseen_until().filter(|until| *until > self.now);
        [silence, notice, question, unseen, self.gate.wakes_at()].into_iter().flatten().min()
    }

    /// The rows of the process list in the order of the screen. While the person moves in the list nothing
    /// jumps under their hands.
    pub fn rows(&self) -> Vec<Row<'_>> {
        self.snapshot().map(|snapshot| rows(self, snapshot)).unwrap_or_default()
    }

    /// The order to keep for now, since the person moves in the list.
    pub fn kept_order(&self) -> Option<&[RowId]> {
        let (at, order) = self.processes.still.as_ref()?;
        (self.now < *at + STILL).then_some(order)
    }

    /// Whether the filter lets it through.
    pub fn shows(&self, row: &GpuProcess) -> bool {
        if self.processes.filter.is_empty() {
            return true;
        }
        let filter = self.processes.filter.to_lowercase();
        let text = format!(
            "{} {} {} {}",
            row.pid,
            row.user.known().map_or("", String::as_str),
            row.recognised_as.as_deref().unwrap_or_default(),
            row.command.known().map_or("", String::as_str)
        );
        text.to_lowercase().contains(&filter)
    }

    /// The selected row as it stands in the newest reading.
    pub fn selected(&self) -> Option<Row<'_>> {
        let selected = self.processes.selected?;
        self.rows().into_iter().find(|row| row.id == selected)
    }

    /// What the marked processes hold together.
    pub fn marked_bytes(&self) -> Bytes {
        let Some(snapshot) = self.snapshot() else { return Bytes::ZERO };
        self.processes.marked.iter().filter_map(|key| snapshot.held_by(*key)).fold(Bytes::ZERO, Bytes::plus)
    }

    /// Whether the screen is too small for anything.
    pub fn is_tiny(&self) -> bool {
        layout::is_tiny(self.size)
    }

    /// Whether the screen has no room for the log beside the processes.
    pub fn is_small(&self) -> bool {
        layout::is_small(self.size)
    }

    /// The steps still ahead: not taken, not skipped, and not about a process that is being ended already.
    pub fn steps_ahead(&self) -> Vec<&PlannedFix> {
        let Some(advice) = &self.advice else { return Vec::new() };
        let ending = |planned: &&PlannedFix| {
            self.endings.iter().any(|ending| planned.target == Some(ending.victim.key) && ending.is_under_way())
        };
        self.walk.ahead(&advice.plan).into_iter().filter(|planned| !ending(planned)).collect()
    }

    /// The step the person stands at.
    pub fn current_step(&self) -> Option<&PlannedFix> {
        let ahead = self.steps_ahead();
        ahead.get(self.cursor(&ahead)?).copied()
    }

    /// Where the person stands among the steps ahead: nowhere while they wait for what a step gives back,
    /// unless they chose another.
    pub fn cursor(&self, ahead: &[&PlannedFix]) -> Option<usize> {
        (self.walk.cursor.is_some() || self.awaited().is_none()).then(|| self.walk.position(ahead))
    }

    /// Whose memory is waited for.
    pub fn awaited(&self) -> Option<&Ending> {
        self.endings.iter().rev().find(|ending| ending.is_under_way() && !ending.is_settled() && ending.again.is_none())
    }

    /// The command line to run again with what the steps taken change in it; `None` where nobody said what was run.
    pub fn rerun(&self) -> Option<String> {
        let diagnosis = self.input.diagnosis.as_ref()?;
        let living = self.advice.as_ref().and_then(|advice| advice.command.as_deref());
        let command = self.input.command.as_deref().or(diagnosis.run.command.as_deref()).or(living);
        let situation = Situation { command, ..Situation::alone(diagnosis) };
        let changes: Vec<_> = self.walk.behind.iter().filter_map(Behind::change).cloned().collect();
        Some(apply_all(&changes, situation.command_line()?, situation.form()))
    }

    /// What the steps taken so far mean for those ahead.
    pub fn taken(&self) -> Taken {
        Taken {
            changed: self.walk.behind.iter().any(|behind| behind.change().is_some()),
            enough: self.walk.enough_taken(),
            freed: self.endings.iter().any(|ending| matches!(ending.state, EndingState::Returned { .. })),
            left: self.walk.behind.len(),
        }
    }

    /// How this step's program can be asked to let go, by us and now: not where nothing may be sent at all, nor after
    /// it was asked in vain or is being forced.
    pub fn release_of<'a>(&self, step: &'a PlannedFix) -> Option<&'a Release> {
        let tried = step.target.and_then(|target| self.ending_of(target));
        let in_vain = tried.is_some_and(|e| matches!(e.state, EndingState::NotReleased(_) | EndingState::Survived(_)));
        step.release.as_ref().filter(|_| !in_vain && self.refuses_all().is_none())
    }

    /// Where an ending of this process stands, if there is one.
    pub fn ending_of(&self, key: ProcessKey) -> Option<&Ending> {
        self.endings.iter().find(|ending| ending.victim.key == key)
    }

    /// The page that is laid over the screen, at the width it has there, and the first line to show.
    pub fn page(&self) -> Option<(Vec<(Tone, String)>, usize)> {
        let width = layout::page_width(self.size);
        let made;
        let (page, top) = match self.overlay.as_ref()? {
            Overlay::Fit(top) => {
                made = super::summary::fit(self)?;
                (&made, top)
            }
            Overlay::Done(top) => {
                made = super::summary::page(self);
                (&made, top)
            }
            Overlay::Rules(top) => {
                made = super::summary::rules(self)?;
                (&made, top)
            }
            Overlay::Written(path, top) => {
                made = super::summary::written(path, width);
                (&made, top)
            }
            Overlay::Draws(said, top) => {
                made = Page::said(said);
                (&made, top)
            }
            Overlay::Text(text, top) => {
                // As it is: whoever selects it wants each blank.
                let lines = text.lines().flat_map(|line| broken(line, width)).map(|line| (Tone::Text, line));
                return Some((lines.collect(), *top));
            }
            Overlay::Words(top) => (self.glossary.as_deref()?, top),
            Overlay::About(which, top) => (self.input.pages.get(*which).or(self.input.pages.first())?, top),
            Overlay::Help(_) | Overlay::Actions(..) | Overlay::Symptoms(_) | Overlay::Trial => return None,
        };
        Some((page.lines(width), *top))
    }

    /// How many lines what is laid over the screen has, where it is read and not picked from.
    pub fn lines_to_read(&self) -> Option<usize> {
        match self.overlay {
            Some(Overlay::Help(_)) => Some(super::help::lines(self).len()),
            _ => self.page().map(|(lines, _)| lines.len()),
        }
    }

    /// The geometry for what is on the screen now.
    pub fn layout(&self) -> Layout {
        let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let bars = self.bars();
        let (detail_wants, detail_least) = super::detail::heights(self, layout::detail_width(self.size));
        layout::layout(Shape {
            size: self.size,
            focus: self.focus,
            is_zoomed: self.zoomed,
            has_verdict: self.has_fixes(),
            verdict_wants: lines(self.verdict_wants()),
            bars_want: lines(bars + 2),
            processes_want: lines(self.processes_want(bars)),
            steps_want: lines(self.steps_want()),
            proof: lines(self.lines_of_proof()),
            detail_wants: lines(detail_wants),
            detail_least: lines(detail_least),
        })
    }

    /// Whether there are fixes, or proofs of what was terminated.
    pub fn has_fixes(&self) -> bool {
        self.advice.is_some() || !self.endings.is_empty()
    }

    /// Whether the screen shows the region in focus alone.
    pub fn has_one_region(&self) -> bool {
        self.advice.is_some() && layout::is_cramped(self.size)
    }

    /// How many lines the bars of the GPUs take: more than four stand in two columns on a small screen.
    pub fn bars(&self) -> usize {
        let count = self.snapshot().map_or(0, |snapshot| snapshot.devices.len());
        if self.has_two_columns_of_bars() { count.div_ceil(2) } else { count }
    }

    /// Whether the GPUs' bars stand in two columns.
    pub fn has_two_columns_of_bars(&self) -> bool {
        self.is_small() && self.snapshot().is_some_and(|snapshot| snapshot.devices.len() > 4)
    }

    /// The lines under the verdict: the easiest way out or the cause, and how the failure differs from an earlier one.
    /// On a screen without room the rest is behind `v`.
    pub fn under_the_verdict(&self, width: usize) -> Vec<String> {
        let Some(advice) = &self.advice else { return Vec::new() };
        let most = if self.is_small() { 2 } else { 3 };
        let mut lines = shortened(&advice.brief.next, width, most);
        // What must be known to read the figures: there is room for it where the log stands beside the processes.
        if !self.is_small() {
            lines.extend(advice.verdict.notes.iter().flat_map(|note| shortened(note, width, 2)).take(2));
        }
        // Of a second failure, how it differs is what one asks first.
        let compared = self.compared();
        let room = if self.is_small() { 2 } else { 4 };
        lines.extend(compared.iter().flat_map(|text| shortened(text, width, 2)).take(room));
        lines
    }

    fn verdict_wants(&self) -> usize {
        let width = usize::from(self.size.0.saturating_sub(4));
        if self.advice.is_none() {
            return 3;
        }
        let decisive = usize::from(self.is_small() && self.size.1 >= 20);
        let blank = usize::from(self.size.1 >= 24);
        1 + self.under_the_verdict(width).len() + decisive + blank
    }

    /// The heading, the fixes that were left and those ahead, and the proof of what was ended last.
    fn steps_want(&self) -> usize {
        1 + self.walk.behind.len() + self.steps_ahead().len().max(1) + self.lines_of_proof()
    }

    fn lines_of_proof(&self) -> usize {
        2 * self.endings.len().min(1)
    }

    /// How many lines the bars and the processes would like, with their heading.
    fn processes_want(&self, bars: usize) -> usize {
        let Some(snapshot) = self.snapshot() else { return 3 };
        let rows = self.rows().len();
        if matches!(snapshot.driver, Driver::Unavailable { .. }) {
            return 8 + rows;
        }
        let unlisted = |device: &&Device| device.unaccounted_bytes.value().is_some_and(|bytes| bytes >= Bytes::mib(1));
        let unlisted = snapshot.devices.iter().filter(unlisted).count();
        let width = if self.is_small() { self.size.0 } else { self.size.0.saturating_mul(66) / 100 };
        let remarks: usize =
            self.remarks(usize::from(width.saturating_sub(2))).into_iter().map(|(_, lines)| lines.len()).sum();
        bars + 2 + rows + unlisted + remarks
    }

    /// What is said below each device, or (`None`) below all of them, of what can't be seen from here; wrapped.
    pub fn remarks(&self, width: usize) -> Vec<(Option<u32>, Vec<String>)> {
        let Some(snapshot) = self.snapshot() else { return Vec::new() };
        let of_devices = snapshot.devices.iter().flat_map(|device| {
            let texts = [sight::of_device(snapshot, device), sight::of_unexplained(snapshot, device)];
            texts.into_iter().flatten().map(|text| (Some(device.index), text))
        });
        let all = of_devices.chain(sight::of_machine(snapshot).map(|text| (None, text)));
        let wrapped = |text: &str| {
            textwrap::wrap(text, width.saturating_sub(2).max(20)).into_iter().map(|line| line.into_owned()).collect()
        };
        all.map(|(device, text)| (device, wrapped(&text))).collect()
    }

    /// How this failure differs from the one before, and this run from one that worked.
    pub fn compared(&self) -> Vec<String> {
        let since_it_worked = self.input.since_it_worked.known().map(report::differences).unwrap_or_default();
        self.walk.compared.iter().cloned().chain(since_it_worked).collect()
    }
}

impl RowId {
    pub fn of(device: u32, row: &GpuProcess) -> RowId {
        RowId { device, pid: row.pid, start_ticks: row.start_ticks.value() }
    }

    /// The identity of its process, where that is known.
    pub fn key(&self) -> Option<ProcessKey> {
        self.start_ticks.map(|start_ticks| ProcessKey { pid: self.pid, start_ticks })
    }

    /// Whether both rows are of one process.
    pub fn is_same_process(&self, other: RowId) -> bool {
        self.key().is_some_and(|key| other.key() == Some(key))
    }
}
