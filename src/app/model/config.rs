//! Owns what does not change while the program runs: where readings come from, colors, keys, timing.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::app::keymap::Keymap;
use crate::gpu::guard::Viewer;
use crate::report::redact::Names;

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

/// Which colors are used. No meaning is carried by color alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// The terminal's own sixteen, which fit its background.
    #[default]
    Terminal,
    /// The strongest contrasts: nothing dim, nothing gray.
    HighContrast,
    /// Distinct with any kind of color vision (after Okabe and Ito).
    ColorBlind,
    None,
}

impl Palette {
    /// As they are named in the configuration.
    pub const NAMES: [(&'static str, Palette); 4] = [
        ("terminal", Palette::Terminal),
        ("high-contrast", Palette::HighContrast),
        ("color-blind", Palette::ColorBlind),
        ("none", Palette::None),
    ];

    /// The next one in that order, with its name.
    pub(crate) fn next(self) -> (&'static str, Palette) {
        let mut following = Palette::NAMES.into_iter().cycle().skip_while(|(_, palette)| *palette != self).skip(1);
        following.next().unwrap_or(("terminal", Palette::Terminal))
    }
}

/// What does not change while the program runs.
#[derive(Clone, Debug)]
pub struct Config {
    pub viewer: Viewer,
    /// Where readings come from.
    pub source: Source,
    /// This boot, to compare with the stream's.
    pub boot_id: Option<String>,
    pub interval: Duration,
    pub read_only: bool,
    /// Whether the last log is kept for `--last`.
    pub keep_log: bool,
    /// How long a process may take to exit after SIGTERM before SIGKILL is offered.
    pub grace: Duration,
    /// Whether the terminal can show more than ASCII.
    pub unicode: bool,
    /// Which colors are wanted; none where `NO_COLOR` is set.
    pub palette: Palette,
    /// What each key means.
    pub keys: Arc<Keymap>,
    /// The zone of the person's clock.
    pub zone: TimeZone,
    /// Whether a shell could continue the program after Ctrl-Z.
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
