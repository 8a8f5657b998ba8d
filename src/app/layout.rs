//! Owns the geometry: a pure function of the terminal's size and what is open, used by `update` (mouse, pages) and by
//! the drawing alike.

use ratatui::layout::{Constraint, Layout as Split, Rect};

use super::model::{Region, Tab};

/// Below this nothing useful fits.
pub(crate) const SMALLEST: (u16, u16) = (60, 15);

/// Borders of the log, its lines' numbers and the pointer.
pub(crate) const LOG_MARGIN: usize = 9;

/// Borders, the verdict's sentence and what the run needed, on a small screen.
const SENTENCE: u16 = 6;

/// Where everything is. A region that is not on the screen has an empty area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// One line: machine, driver, system memory, clock.
    pub header: Rect,
    /// The tabs' line, on small screens.
    pub tabs: Rect,
    pub processes: Rect,
    pub input: Rect,
    pub why: Rect,
    pub steps: Rect,
    /// One line: the keys that work now.
    pub footer: Rect,
    /// Two tabs instead of four regions.
    pub small: bool,
    /// Too small to draw anything but a word about it.
    pub tiny: bool,
}

/// What the geometry depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub size: (u16, u16),
    /// Which tab, on small screens.
    pub tab: Tab,
    /// The region that has the screen to itself.
    pub zoomed: Option<Region>,
    /// How many lines the devices and processes would like, borders included.
    pub processes_want: u16,
    /// How many lines the verdict would like, borders included.
    pub why_wants: u16,
    /// How many lines the current step needs, borders included.
    pub steps_want: u16,
}

/// Whether nothing useful fits on a screen of this size.
pub(crate) fn is_tiny(size: (u16, u16)) -> bool {
    size.0 < SMALLEST.0 || size.1 < SMALLEST.1
}

/// Whether a screen of this size gets two tabs instead of four regions.
pub(crate) fn is_small(size: (u16, u16)) -> bool {
    size.0 < 100 || size.1 < 30
}

/// Whether a screen of this size has room for one region at a time, once there is a verdict: cut in three, nothing could
/// be read in any of them.
pub(crate) fn is_cramped(size: (u16, u16)) -> bool {
    is_small(size) && size.1 < 20
}

/// The columns of a page that is laid over a screen of this size.
pub(crate) fn page_width(size: (u16, u16)) -> usize {
    usize::from(size.0.saturating_sub(8).min(86))
}

/// The lines of such a page that can be seen at once: all but the borders, a blank line and the keys.
pub(crate) fn page_height(size: (u16, u16)) -> usize {
    usize::from(size.1.saturating_sub(4).max(1))
}

/// Lays the screen out.
pub(crate) fn layout(shape: Shape) -> Layout {
    let (columns, rows) = shape.size;
    let whole = Rect::new(0, 0, columns, rows);
    if is_tiny(shape.size) {
        return Layout { tiny: true, ..Layout::default() };
    }
    let small = is_small(shape.size);
    let [header, tabs, body, footer] = Split::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::from(small)),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(whole);
    let frame = Layout { header, tabs, footer, small, ..Layout::default() };
    if let Some(region) = shape.zoomed {
        return zoomed(frame, region, shape, body);
    }
    if small { two_tabs(frame, shape, body) } else { four_regions(frame, shape, body) }
}

/// As `clamp`, which panics where the least is more than the most; here the least wins.
fn between(wanted: u16, least: u16, most: u16) -> u16 {
    wanted.min(most).max(least)
}

fn zoomed(frame: Layout, region: Region, shape: Shape, body: Rect) -> Layout {
    match region {
        Region::Processes => Layout { processes: body, ..frame },
        Region::Input => Layout { input: body, ..frame },
        Region::Steps => {
            // Neither the sentence nor the step is cut while there is room for both.
            let most = body.height.saturating_sub(shape.steps_want).max(body.height * 2 / 5).max(5);
            let why = between(shape.why_wants, 4, most);
            let [why, steps] = Split::vertical([Constraint::Length(why), Constraint::Min(5)]).areas(body);
            Layout { why, steps, ..frame }
        }
    }
}

fn two_tabs(frame: Layout, shape: Shape, body: Rect) -> Layout {
    if shape.tab == Tab::Input {
        return Layout { input: body, ..frame };
    }
    // The sentence and the current step are never cut: the process list gives way first, then the evidence.
    let steps = between(shape.steps_want, 5, body.height / 2);
    let sentence = shape.why_wants.min(SENTENCE);
    let least = shape.processes_want.clamp(3, 4);
    let processes = between(shape.processes_want, least, body.height.saturating_sub(steps + sentence));
    let why = between(shape.why_wants, 4, body.height.saturating_sub(steps + processes));
    let [processes, why, steps] =
        Split::vertical([Constraint::Length(processes), Constraint::Length(why), Constraint::Min(5)]).areas(body);
    Layout { processes, why, steps, ..frame }
}

fn four_regions(frame: Layout, shape: Shape, body: Rect) -> Layout {
    let why = between(shape.why_wants, 5, body.height / 3);
    let steps = between(shape.steps_want, 6, body.height / 3);
    // The list may use what verdict and step leave, but not so much that the steps ahead are out of sight.
    let top = between(shape.processes_want, 9, body.height.saturating_sub(why + steps).max(body.height * 2 / 5));
    let [top, why, steps] =
        Split::vertical([Constraint::Length(top), Constraint::Length(why), Constraint::Min(5)]).areas(body);
    let [processes, input] = Split::horizontal([Constraint::Percentage(57), Constraint::Percentage(43)]).areas(top);
    Layout { processes, input, why, steps, ..frame }
}

impl Layout {
    /// The region under a point of the screen.
    pub fn region_at(&self, column: u16, row: u16) -> Option<Region> {
        let at = ratatui::layout::Position::new(column, row);
        if self.processes.contains(at) {
            Some(Region::Processes)
        } else if self.input.contains(at) {
            Some(Region::Input)
        } else if self.steps.contains(at) || self.why.contains(at) {
            Some(Region::Steps)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(size: (u16, u16)) -> Shape {
        Shape { size, tab: Tab::Overview, zoomed: None, processes_want: 12, why_wants: 7, steps_want: 9 }
    }

    #[test]
    fn a_large_screen_has_four_regions_and_a_small_one_two_tabs() {
        let large = layout(shape((120, 40)));
        assert!(!large.small && [large.processes, large.input, large.why, large.steps].iter().all(|a| a.height >= 5));
        let small = layout(shape((80, 24)));
        assert!(small.small && small.input.is_empty() && small.steps.height >= 5);
        let tab = layout(Shape { tab: Tab::Input, ..shape((80, 24)) });
        assert!(tab.input.height > 15 && tab.steps.is_empty());
        assert!(layout(shape((59, 24))).tiny);
    }

    #[test]
    fn zoomed_the_verdict_has_what_it_wants_before_the_steps_have_room_to_spare() {
        let zoomed = |size| layout(Shape { zoomed: Some(Region::Steps), ..shape(size) });
        assert_eq!((zoomed((80, 24)).why.height, zoomed((80, 24)).steps.height), (7, 14));
        assert_eq!((zoomed((60, 15)).why.height, zoomed((60, 15)).steps.height), (5, 7));
    }

    #[test]
    fn no_size_breaks_the_geometry() {
        for columns in (0..300).step_by(23) {
            for rows in (0..90).step_by(3) {
                for zoomed in [None, Some(Region::Steps)] {
                    let all = layout(Shape { zoomed, ..shape((columns, rows)) });
                    for area in [all.processes, all.input, all.why, all.steps, all.footer] {
                        assert!(area.right() <= columns && area.bottom() <= rows);
                    }
                }
            }
        }
    }
}
