//! Owns which key means what, and the words for it: help and footer are made from this table and can't disagree.

use std::borrow::Cow;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::Action;
use super::model::screen::Region;

/// One key of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    pub code: KeyCode,
    /// Whether Ctrl is held.
    pub ctrl: bool,
    pub action: Action,
    /// Where it means that; `None`: everywhere.
    pub region: Option<Region>,
    /// How it is written: `Tab`, `x`.
    pub shown: Cow<'static, str>,
    /// What it does, in two or three words; empty for a second spelling of another key.
    pub words: &'static str,
}

impl Binding {
    /// Whether the key means this in the region.
    pub(crate) fn is_in(&self, region: Region) -> bool {
        self.region.is_none_or(|at| at == region)
    }

    /// Where the action belongs, for one that is not everywhere.
    pub(crate) fn place(&self) -> &'static str {
        match self.region {
            None => "",
            Some(Region::Processes) => " (processes)",
            Some(Region::Input) => " (log)",
            Some(Region::Steps) => " (fixes)",
        }
    }
}

/// With one of these modifiers a key is another key.
const OTHERS: KeyModifiers = KeyModifiers::CONTROL.union(KeyModifiers::ALT).union(KeyModifiers::SUPER);

const fn key(code: KeyCode, action: Action, shown: &'static str, words: &'static str) -> Binding {
    Binding { code, ctrl: false, action, region: None, shown: Cow::Borrowed(shown), words }
}

const fn ctrl(character: char, action: Action, shown: &'static str, words: &'static str) -> Binding {
    Binding { code: KeyCode::Char(character), ctrl: true, action, region: None, shown: Cow::Borrowed(shown), words }
}

const fn at(region: Region, mut binding: Binding) -> Binding {
    binding.region = Some(region);
    binding
}

/// Every key. A region's own meaning comes before the general one.
pub const BINDINGS: &[Binding] = &[
    at(Region::Steps, key(KeyCode::Enter, Action::Enter, "Enter", "copy command")),
    at(Region::Steps, key(KeyCode::Char('s'), Action::Skip, "s", "skip")),
    at(Region::Steps, key(KeyCode::Backspace, Action::Back, "Backspace", "undo")),
    at(Region::Steps, key(KeyCode::Char('w'), Action::Works, "w", "worked")),
    at(Region::Steps, key(KeyCode::Char('n'), Action::DidNotHelp, "n", "did not help")),
    at(Region::Steps, key(KeyCode::Char('e'), Action::FailedAgain, "e", "failed again")),
    at(Region::Steps, key(KeyCode::Char('r'), Action::Command, "r", "edit command")),
    at(Region::Steps, key(KeyCode::Char('a'), Action::RunAgain, "a", "run again…")),
    at(Region::Steps, key(KeyCode::Char('m'), Action::Model, "m", "set model")),
    at(Region::Steps, key(KeyCode::Char('f'), Action::Fit, "f", "fit")),
    at(Region::Processes, key(KeyCode::Enter, Action::Enter, "Enter", "copy kill command")),
    at(Region::Processes, key(KeyCode::Char(' '), Action::Mark, "Space", "mark")),
    at(Region::Processes, key(KeyCode::Char('/'), Action::Search, "/", "filter")),
    at(Region::Processes, key(KeyCode::Char('t'), Action::Sort, "t", "sort")),
    at(Region::Input, key(KeyCode::Enter, Action::Enter, "Enter", "edit log")),
    at(Region::Input, key(KeyCode::Char('/'), Action::Search, "/", "search")),
    at(Region::Input, key(KeyCode::Char('n'), Action::NextHit, "n", "next hit")),
    at(Region::Input, key(KeyCode::Char('N'), Action::PreviousHit, "N", "previous hit")),
    at(Region::Input, key(KeyCode::Char('u'), Action::Previous, "u", "previous log")),
    key(KeyCode::Char('x'), Action::End, "x", "terminate…"),
    key(KeyCode::Char('c'), Action::Copy, "c", "copy"),
    key(KeyCode::Char('i'), Action::About, "i", "about error"),
    key(KeyCode::Char('v'), Action::Rules, "v", "why"),
    key(KeyCode::Char('L'), Action::Log, "L", "log"),
    key(KeyCode::Char('C'), Action::Recording, "C", "recording"),
    key(KeyCode::Char('S'), Action::Allocations, "S", "memory snapshot"),
    key(KeyCode::Char('f'), Action::Fit, "f", ""),
    key(KeyCode::Char('g'), Action::LogThatWorked, "g", "compare good log"),
    key(KeyCode::Char('o'), Action::Symptoms, "o", "pick symptom"),
    key(KeyCode::Char('F'), Action::ReadFound, "F", "read found log"),
    key(KeyCode::Char('O'), Action::FoundLogs, "O", "found logs"),
    key(KeyCode::Char('M'), Action::Machines, "M", "machines"),
    key(KeyCode::Tab, Action::NextRegion, "Tab", "next pane"),
    key(KeyCode::BackTab, Action::PreviousRegion, "Shift-Tab", ""),
    key(KeyCode::Up, Action::Move(-1), "↑↓", "move"),
    key(KeyCode::Down, Action::Move(1), "↓", ""),
    key(KeyCode::Char('k'), Action::Move(-1), "k", ""),
    key(KeyCode::Char('j'), Action::Move(1), "j", ""),
    key(KeyCode::Left, Action::PreviousRegion, "←", ""),
    key(KeyCode::Right, Action::NextRegion, "→", ""),
    key(KeyCode::Char('h'), Action::PreviousRegion, "h", ""),
    key(KeyCode::Char('l'), Action::NextRegion, "l", ""),
    key(KeyCode::PageUp, Action::Page(-1), "PgUp/PgDn", "page"),
    key(KeyCode::PageDown, Action::Page(1), "PgDn", ""),
    key(KeyCode::Home, Action::First, "Home/End", "first, last"),
    key(KeyCode::End, Action::Last, "End", ""),
    key(KeyCode::Char('z'), Action::Zoom, "z", "zoom"),
    key(KeyCode::Char('p'), Action::Pause, "p", "pause"),
    key(KeyCode::Char('T'), Action::Theme, "T", "next theme"),
    key(KeyCode::Char('W'), Action::Report, "W", "write report"),
    key(KeyCode::Char('R'), Action::Reread, "R", "reread file"),
    key(KeyCode::Char(':'), Action::Actions, ":", "commands"),
    key(KeyCode::Char('?'), Action::Help, "?", "help"),
    key(KeyCode::Char('q'), Action::Quit, "q", "quit"),
    key(KeyCode::Esc, Action::Escape, "Esc", "close"),
    ctrl('c', Action::Quit, "Ctrl-C", "quit"),
    ctrl('z', Action::Suspend, "Ctrl-Z", "suspend"),
];

/// What can be given a key of one's own, as the configuration names it, and its words in the help.
pub const NAMES: &[(&str, Action)] = &[
    ("enter", Action::Enter),
    ("end", Action::End),
    ("mark", Action::Mark),
    ("sort", Action::Sort),
    ("skip", Action::Skip),
    ("back", Action::Back),
    ("works", Action::Works),
    ("failed-again", Action::FailedAgain),
    ("did-not-help", Action::DidNotHelp),
    ("log-that-worked", Action::LogThatWorked),
    ("command", Action::Command),
    ("run-again", Action::RunAgain),
    ("model", Action::Model),
    ("fit", Action::Fit),
    ("copy", Action::Copy),
    ("about", Action::About),
    ("why", Action::Rules),
    ("log", Action::Log),
    ("recording", Action::Recording),
    ("memory-snapshot", Action::Allocations),
    ("read-found", Action::ReadFound),
    ("found-logs", Action::FoundLogs),
    ("machines", Action::Machines),
    ("symptoms", Action::Symptoms),
    ("search", Action::Search),
    ("next-hit", Action::NextHit),
    ("previous-hit", Action::PreviousHit),
    ("previous-log", Action::Previous),
    ("reread", Action::Reread),
    ("next-region", Action::NextRegion),
    ("previous-region", Action::PreviousRegion),
    ("up", Action::Move(-1)),
    ("down", Action::Move(1)),
    ("page-up", Action::Page(-1)),
    ("page-down", Action::Page(1)),
    ("first", Action::First),
    ("last", Action::Last),
    ("zoom", Action::Zoom),
    ("pause", Action::Pause),
    ("theme", Action::Theme),
    ("actions", Action::Actions),
    ("report", Action::Report),
    ("help", Action::Help),
    ("escape", Action::Escape),
    ("suspend", Action::Suspend),
    ("quit", Action::Quit),
];

/// The keys that are in effect: the person's own, and the built-in ones that they did not rebind.
#[derive(Clone, Debug, PartialEq)]
pub struct Keymap(Vec<Binding>);

impl Default for Keymap {
    fn default() -> Self {
        Keymap(BINDINGS.to_vec())
    }
}

impl Keymap {
    /// The built-in keys with a person's own: each a key's and an action's name. Ctrl-C always leaves, Esc always closes.
    pub fn with(own: &[(String, String)]) -> Result<Keymap, Mistake> {
        let mut added = Vec::new();
        for (key, name) in own {
            let (code, ctrl) = spelled(key).ok_or_else(|| Mistake::Key(key.clone()))?;
            if (code, ctrl) == (KeyCode::Char('y'), false) {
                return Err(Mistake::Answers(key.clone()));
            }
            let action = NAMES.iter().find(|(known, _)| known == name).map(|(_, action)| *action);
            let action = action.ok_or_else(|| Mistake::Action(name.clone()))?;
            let like = BINDINGS.iter().find(|binding| binding.action == action && !binding.words.is_empty());
            let words = like.map_or("", |binding| binding.words);
            added.push(Binding { code, ctrl, action, region: None, shown: Cow::Owned(key.clone()), words });
        }
        let kept = BINDINGS
            .iter()
            .filter(|built_in| added.iter().all(|own| (own.code, own.ctrl) != (built_in.code, built_in.ctrl)));
        let map = Keymap(added.iter().chain(kept).cloned().collect());
        match NAMES.iter().find(|(_, action)| map.has_lost(*action)) {
            Some((name, _)) => Err(Mistake::Lost(name)),
            None => Ok(map),
        }
    }

    /// Whether this action lost its only key to another one, or works in fewer regions than before.
    fn has_lost(&self, action: Action) -> bool {
        let built_in = Keymap::default();
        match (built_in.binding_of(action), self.binding_of(action)) {
            (Some(before), Some(after)) => before.region.is_none() && after.region.is_some(),
            (before, _) => before.is_some(),
        }
    }

    pub fn all(&self) -> &[Binding] {
        &self.0
    }

    /// What a key means in this region.
    pub fn action(&self, key: KeyEvent, region: Region) -> Option<Action> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SUPER) {
            return None;
        }
        let mut of_key = self.0.iter().filter(|binding| binding.code == key.code && binding.ctrl == ctrl);
        of_key.find(|binding| binding.is_in(region)).map(|binding| binding.action)
    }

    /// Whether a key moves the selection or the focus, and nothing else, in every region.
    pub fn only_moves(&self, key: KeyEvent) -> bool {
        let regions = [Region::Processes, Region::Input, Region::Steps];
        let is_movement = |action| matches!(action, Action::Move(_) | Action::NextRegion | Action::PreviousRegion);
        regions.iter().all(|region| self.action(key, *region).is_some_and(is_movement))
    }

    /// What a key that means nothing in this region means in another.
    pub fn meant_elsewhere(&self, key: KeyEvent, region: Region) -> Option<(&Binding, Region)> {
        if key.modifiers.intersects(OTHERS) {
            return None;
        }
        let of_key = self.0.iter().filter(|binding| binding.code == key.code && !binding.words.is_empty());
        of_key.filter_map(|binding| Some((binding, binding.region.filter(|at| *at != region)?))).next()
    }

    /// How the first key of an action is written; one that works everywhere before one of a region.
    pub fn key_of(&self, action: Action) -> Option<&str> {
        self.binding_of(action).map(|binding| binding.shown.as_ref())
    }

    fn binding_of(&self, action: Action) -> Option<&Binding> {
        let mut of_action = self.0.iter().filter(|binding| binding.action == action);
        of_action.clone().find(|binding| binding.region.is_none()).or_else(|| of_action.next())
    }

    /// What a person can pick from when they know no key: each action once, with its key, if its words, a synonym or its
    /// letters in their order match `wanted`. The closest come first; of equally close ones, those of this region.
    pub fn actions(&self, wanted: &str, region: Region) -> Vec<&Binding> {
        let mut seen = Vec::new();
        let mut found: Vec<(usize, &Binding)> = Vec::new();
        for binding in self.0.iter().filter(|binding| !binding.words.is_empty() && binding.action.can_be_picked()) {
            if seen.contains(&(binding.action, binding.region)) {
                continue;
            }
            seen.push((binding.action, binding.region));
            found.extend(distance(wanted, binding).map(|distance| (distance, binding)));
        }
        found.sort_by_key(|(distance, binding)| (*distance, binding.region.is_some_and(|other| other != region)));
        found.into_iter().map(|(_, binding)| binding).collect()
    }
}

/// What other programs call an action, and what people type for it.
const SYNONYMS: &[(Action, &[&str])] = &[
    (Action::End, &["kill", "terminate", "signal", "stop", "end", "sigterm", "sigkill", "free"]),
    (Action::Skip, &["ignore"]),
    (Action::Back, &["undo", "revert"]),
    (Action::Works, &["solved", "fixed", "done", "success"]),
    (Action::DidNotHelp, &["no", "useless"]),
    (Action::FailedAgain, &["crashed", "again", "new error"]),
    (Action::Command, &["command line", "arguments"]),
    (Action::RunAgain, &["run", "rerun", "retry", "restart", "start"]),
    (Action::Recording, &["record", "curve", "replay", "history", "timeline"]),
    (Action::Allocations, &["pickle", "allocations", "segments", "stacks", "fragmentation", "leak", "peak"]),
    (Action::Model, &["model", "name"]),
    (Action::Fit, &["arithmetic", "sizes", "context", "size"]),
    (Action::Mark, &["select"]),
    (Action::Search, &["find", "grep", "filter"]),
    (Action::Sort, &["order"]),
    (Action::Previous, &["back"]),
    (Action::Copy, &["yank", "clipboard"]),
    (Action::About, &["explain", "info", "entry", "details"]),
    (Action::Rules, &["reasons", "evidence", "sums", "rules"]),
    (Action::Log, &["traceback", "error"]),
    (Action::LogThatWorked, &["diff", "good", "changed"]),
    (Action::Machines, &["hosts", "servers", "nodes", "ssh", "cluster"]),
    (Action::FoundLogs, &["sources", "open", "tmux", "docker", "podman", "slurm", "journal", "pane"]),
    (Action::Symptoms, &["symptoms", "no log"]),
    (Action::Zoom, &["full screen", "maximize"]),
    (Action::Pause, &["freeze", "resume"]),
    (Action::Theme, &["colors", "colours", "theme", "dark", "light"]),
    (Action::Report, &["save", "export", "share", "markdown"]),
    (Action::Reread, &["reload", "refresh"]),
    (Action::Help, &["keys", "shortcuts", "glossary", "manual"]),
    (Action::Quit, &["exit", "leave", "close"]),
];

/// A synonym is further away than the action's own words, and scattered letters are further still.
const OF_A_SYNONYM: usize = 500;
const SCATTERED: usize = 1000;

/// How far a command is from what was typed: where it stands in its words or in a synonym, or else, scattered, how many
/// letters lie between.
fn distance(wanted: &str, binding: &Binding) -> Option<usize> {
    let (wanted, words) = (wanted.trim().to_lowercase(), binding.words.to_lowercase());
    let mut synonyms = SYNONYMS.iter().filter(|(action, _)| *action == binding.action).flat_map(|(_, words)| *words);
    if synonyms.clone().any(|synonym| **synonym == *wanted) {
        return Some(0);
    }
    if let Some(at) = words.find(&wanted) {
        return Some(at);
    }
    if synonyms.any(|synonym| synonym.contains(&wanted)) {
        return Some(OF_A_SYNONYM);
    }
    let mut letters = words.char_indices();
    let mut last = 0;
    for letter in wanted.chars() {
        last = letters.find(|(_, other)| *other == letter)?.0;
    }
    Some(SCATTERED + last)
}

/// What is wrong with a key of one's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// No key is written like this.
    Key(String),
    /// No action has this name.
    Action(String),
    /// It answers questions: where it is held down, it would ask and answer by itself.
    Answers(String),
    /// This action would have no key any more.
    Lost(&'static str),
}

/// The key of a word on the screen that says what to press; `None` where it says more than one.
pub fn code(name: &str) -> Option<KeyCode> {
    if name == "Esc" { Some(KeyCode::Esc) } else { spelled(name).filter(|(_, ctrl)| !ctrl).map(|(code, _)| code) }
}

/// A key by its name: `x`, `F5`, `Ctrl-N`, `Space`. `None` where it is none, or one that is not to be given away.
fn spelled(name: &str) -> Option<(KeyCode, bool)> {
    let (ctrl, key) = match name.strip_prefix("Ctrl-") {
        Some(key) => (true, key),
        None => (false, name),
    };
    let mut letters = key.chars();
    let code = match (letters.next(), letters.next()) {
        (Some(letter), None) if ctrl => KeyCode::Char(letter.to_ascii_lowercase()),
        (Some(letter), None) => KeyCode::Char(letter),
        (Some('F'), Some(_)) => KeyCode::F(key.get(1..)?.parse().ok().filter(|number| (1..=24).contains(number))?),
        _ => match key {
            "Space" => KeyCode::Char(' '),
            "Enter" => KeyCode::Enter,
            "Tab" => KeyCode::Tab,
            "Backspace" => KeyCode::Backspace,
            "Delete" => KeyCode::Delete,
            "Insert" => KeyCode::Insert,
            "Home" => KeyCode::Home,
            "End" => KeyCode::End,
            "PgUp" => KeyCode::PageUp,
            "PgDn" => KeyCode::PageDown,
            "Up" => KeyCode::Up,
            "Down" => KeyCode::Down,
            "Left" => KeyCode::Left,
            "Right" => KeyCode::Right,
            _ => return None,
        },
    };
    // What always works, and what terminals send for Enter, Tab and Esc.
    let kept = ctrl && matches!(code, KeyCode::Char('c' | 'i' | 'j' | 'm' | '['));
    (!kept && (!ctrl || matches!(code, KeyCode::Char(_)))).then_some((code, ctrl))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(character: char) -> KeyEvent {
        KeyEvent::new(KeyCode::Char(character), KeyModifiers::NONE)
    }

    fn own(pairs: &[(&str, &str)]) -> Result<Keymap, Mistake> {
        Keymap::with(&pairs.iter().map(|(key, name)| ((*key).to_owned(), (*name).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn the_contracts_keys_mean_what_it_says() {
        let keys = Keymap::default();
        assert_eq!(keys.action(press('x'), Region::Processes), Some(Action::End));
        assert_eq!(keys.action(press('s'), Region::Steps), Some(Action::Skip));
        assert_eq!(keys.action(press('s'), Region::Input), None);
        assert_eq!(keys.action(press('u'), Region::Input), Some(Action::Previous));
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(keys.action(ctrl_c, Region::Input), Some(Action::Quit));
        assert_eq!(keys.action(press('c'), Region::Input), Some(Action::Copy));
    }

    #[test]
    fn a_key_of_ones_own_takes_the_place_of_a_built_in_one_and_is_what_is_shown() {
        let keys = own(&[("F10", "quit"), ("Ctrl-N", "down"), ("q", "end")]).unwrap();
        assert_eq!(keys.action(press('q'), Region::Steps), Some(Action::End));
        assert_eq!(keys.action(press('x'), Region::Steps), Some(Action::End), "the built-in key stays");
        let down = KeyEvent::new(KeyCode::Char('n'), KeyModifiers::CONTROL);
        assert_eq!(keys.action(down, Region::Input), Some(Action::Move(1)));
        assert_eq!(keys.key_of(Action::Quit), Some("F10"));
    }

    #[test]
    fn a_wrong_key_action_or_an_action_left_without_a_key_is_named() {
        assert_eq!(own(&[("Strg-X", "end")]).unwrap_err(), Mistake::Key("Strg-X".into()));
        assert_eq!(own(&[("Ctrl-C", "end")]).unwrap_err(), Mistake::Key("Ctrl-C".into()), "it always leaves");
        assert_eq!(own(&[("Esc", "end")]).unwrap_err(), Mistake::Key("Esc".into()));
        assert_eq!(own(&[("F5", "kill")]).unwrap_err(), Mistake::Action("kill".into()));
        assert_eq!(own(&[("x", "zoom")]).unwrap_err(), Mistake::Lost("end"));
        assert!(own(&[("x", "zoom"), ("F9", "end")]).is_ok());
        assert_eq!(own(&[("y", "end")]).unwrap_err(), Mistake::Answers("y".into()));
    }

    #[test]
    fn an_action_is_found_by_a_few_of_its_letters_the_closest_first() {
        let keys = Keymap::default();
        let found = |wanted: &str| keys.actions(wanted, Region::Steps).first().map(|binding| binding.action);
        assert_eq!(found("zoom"), Some(Action::Zoom));
        assert_eq!(found("fit"), Some(Action::Fit));
        assert_eq!(found("fld agn"), Some(Action::FailedAgain));
        assert_eq!(found("no such thing"), None);
        let meant =
            [("kill", Action::End), ("terminate", Action::End), ("signal", Action::End), ("model", Action::Model)];
        let meant =
            meant.into_iter().chain([("sort", Action::Sort), ("theme", Action::Theme), ("colors", Action::Theme)]);
        for (word, action) in meant {
            assert_eq!(found(word), Some(action), "{word}");
        }
        let all = keys.actions("", Region::Steps);
        let elsewhere = |at: usize| all[at].region.is_some_and(|region| region != Region::Steps);
        let first = (0..all.len()).find(|at| elsewhere(*at)).unwrap();
        assert!((first..all.len()).all(elsewhere), "the keys of other regions come last");
        assert!(all.len() > 20 && !all.iter().any(|binding| matches!(binding.action, Action::Move(_))));
    }

    #[test]
    fn every_action_that_has_a_key_has_a_name() {
        for binding in BINDINGS {
            assert!(NAMES.iter().any(|(_, action)| *action == binding.action), "{binding:?}");
        }
    }
}
