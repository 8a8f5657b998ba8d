//! Owns the geometry: a pure function of the terminal's size and what is open, used by `update` (mouse, pages) and by
//! the drawing alike.

use ratatui::layout::Rect;

use super::model::screen::Region;

/// Below this nothing useful fits.
pub(crate) const SMALLEST: (u16, u16) = (60, 15);

/// Borders of the log, its lines' numbers and the pointer.
pub(crate) const LOG_MARGIN: usize = 9;

/// From this size on the log stands beside the processes, and the selected fix beside the list of fixes.
pub(crate) const LARGE: (u16, u16) = (110, 30);

/// Rows that the fixes get before processes beyond the first two do: their heading and three of them.
const LEAST_STEPS: u16 = 4;

/// Where everything is. A region that is not on the screen has an empty area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// One line: machine, failure, freshness of the readings.
    pub header: Rect,
    /// The verdict in one line, the easiest way out, and on small screens the decisive line of the log.
    pub verdict: Rect,
    /// A bar for each GPU, and the processes.
    pub processes: Rect,
    pub input: Rect,
    /// The fixes as a table.
    pub steps: Rect,
    /// The selected fix or process in full.
    pub detail: Rect,
    /// One line: the keys that work now.
    pub footer: Rect,
    /// Regions without borders, the log on a screen of its own.
    pub small: bool,
    /// Too small to draw anything but a hint to enlarge it.
    pub tiny: bool,
}

/// What the geometry depends on. The wants are lines of text, without borders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub size: (u16, u16),
    pub focus: Region,
    /// Whether the focused region has the screen to itself.
    pub is_zoomed: bool,
    /// Whether there is a verdict, and so fixes.
    pub has_verdict: bool,
    pub verdict_wants: u16,
    /// The bars of the GPUs, which are always in view.
    pub bars_want: u16,
    /// The bars and the processes.
    pub processes_want: u16,
    pub steps_want: u16,
    /// The columns of a list that cuts nothing, borders included.
    pub steps_columns: u16,
    pub processes_columns: u16,
    /// Lines of the proof of what was terminated last, above the fixes.
    pub proof: u16,
    pub detail_wants: u16,
    /// What to do and the command, which are never cut while there is room for them.
    pub detail_least: u16,
}

/// Whether nothing useful fits on a screen of this size.
pub(crate) fn is_tiny(size: (u16, u16)) -> bool {
    size.0 < SMALLEST.0 || size.1 < SMALLEST.1
}

/// Whether a screen of this size has no room for the log beside the processes.
pub(crate) fn is_small(size: (u16, u16)) -> bool {
    size.0 < LARGE.0 || size.1 < LARGE.1
}

/// Whether a screen of this size shows one region at a time, once there is a verdict: a third of it would be unreadable.
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

/// Columns beside the curves of a recording: the window's frame with a blank on each side, and the scale.
const BESIDE_CURVES: u16 = 10;

/// The columns of a recording's curves, on a screen of this size.
pub(crate) fn replay_columns(size: (u16, u16)) -> usize {
    usize::from(size.0.saturating_sub(BESIDE_CURVES).max(1))
}

/// The columns inside a window as large as the screen.
pub(crate) fn whole_width(size: (u16, u16)) -> usize {
    usize::from(size.0.saturating_sub(4))
}

/// The rows of a part of the memory snapshots: all but the frame, the parts' names and the keys.
pub(crate) fn allocations_rows(size: (u16, u16)) -> usize {
    usize::from(size.1.saturating_sub(6).max(1))
}

/// The columns of the text of the selected fix, beside a table of fixes that would like so many.
pub(crate) fn detail_width(size: (u16, u16), steps_columns: u16) -> usize {
    let columns = if is_small(size) { size.0 } else { detail_columns(size.0, steps_columns) };
    usize::from(columns.saturating_sub(2))
}

/// The columns of the pane beside the fixes, borders included: up to two fifths; what the fixes need goes first, but for a
/// third.
fn detail_columns(columns: u16, steps_columns: u16) -> u16 {
    between(columns.saturating_sub(steps_columns), (columns / 3).max(4), columns * 2 / 5)
}

/// The columns of GPUs and processes beside the log: two thirds, or as many more as they need, up to three quarters.
fn processes_columns(columns: u16, wanted: u16) -> u16 {
    between(wanted, columns * 2 / 3, columns * 3 / 4)
}

/// Lays the screen out.
pub(crate) fn layout(shape: Shape) -> Layout {
    let (columns, rows) = shape.size;
    let whole = Rect::new(0, 0, columns, rows);
    if is_tiny(shape.size) {
        return Layout { tiny: true, ..Layout::default() };
    }
    let small = is_small(shape.size);
    let (header, below) = split_rows(whole, 1);
    let (body, footer) = split_rows(below, below.height.saturating_sub(1));
    let frame = Layout { header, footer, small, ..Layout::default() };
    let is_alone = shape.is_zoomed || shape.has_verdict && is_cramped(shape.size);
    match shape.focus {
        Region::Input if is_alone || small => Layout { input: body, ..frame },
        Region::Processes if is_alone => Layout { processes: body, ..frame },
        Region::Steps if is_alone => fixes_alone(frame, shape, body),
        _ if small => below_each_other(frame, shape, body),
        _ => side_by_side(frame, shape, body),
    }
}

/// As `clamp`, which panics where the least is more than the most; here the least wins.
fn between(wanted: u16, least: u16, most: u16) -> u16 {
    wanted.min(most).max(least)
}

/// The first rows of an area, and what is below them.
fn split_rows(area: Rect, rows: u16) -> (Rect, Rect) {
    let rows = rows.min(area.height);
    (Rect { height: rows, ..area }, Rect { y: area.y + rows, height: area.height - rows, ..area })
}

/// The first columns of an area, and what is beside them.
pub(crate) fn split_columns(area: Rect, columns: u16) -> (Rect, Rect) {
    let columns = columns.min(area.width);
    (Rect { width: columns, ..area }, Rect { x: area.x + columns, width: area.width - columns, ..area })
}

fn fixes_alone(frame: Layout, shape: Shape, body: Rect) -> Layout {
    let verdict = between(shape.verdict_wants, 2, body.height / 3);
    let borders = if frame.small { 0 } else { 2 };
    let rest = body.height.saturating_sub(verdict);
    // The heading and one fix stay in view, below a proof if there is one; unless the person asked for all of one fix, also
    // another fix and how many more there are.
    let least = if shape.is_zoomed { 2 } else { LEAST_STEPS };
    let steps_least = shape.steps_want.min(least + shape.proof);
    let detail = between(shape.detail_wants + borders, 3, rest.saturating_sub(steps_least + borders));
    let (verdict, below) = split_rows(body, verdict);
    let (steps, detail) = split_rows(below, rest.saturating_sub(detail));
    Layout { verdict, steps, detail, ..frame }
}

fn below_each_other(frame: Layout, shape: Shape, body: Rect) -> Layout {
    let verdict = between(shape.verdict_wants, 1, body.height / 3);
    let rest = body.height.saturating_sub(verdict);
    if !shape.has_verdict {
        let (verdict, processes) = split_rows(body, verdict);
        return Layout { verdict, processes, ..frame };
    }
    // The fixes, the command of the selected one and the GPUs' bars are always in view; the processes give way first.
    let steps_least = shape.steps_want.min(LEAST_STEPS + shape.proof);
    let detail_least = shape.detail_least.min(rest / 3);
    let most = rest.saturating_sub(steps_least + detail_least);
    let processes = between(shape.processes_want, shape.bars_want.min(most), most);
    let rest = rest.saturating_sub(processes);
    let detail = between(shape.detail_wants, detail_least, rest.saturating_sub(shape.steps_want.min(rest * 3 / 5)));
    let (verdict, below) = split_rows(body, verdict);
    let (processes, below) = split_rows(below, processes);
    let (steps, detail) = split_rows(below, below.height.saturating_sub(detail));
    Layout { verdict, processes, steps, detail, ..frame }
}

fn side_by_side(frame: Layout, shape: Shape, body: Rect) -> Layout {
    let verdict = between(shape.verdict_wants, 1, body.height / 3);
    let rest = body.height.saturating_sub(verdict);
    let bottom_wants = if shape.has_verdict { shape.steps_want.max(shape.detail_wants) + 2 } else { 0 };
    // Half of the room is the fixes', and what the processes do not need. The log has what the processes have: beside a
    // verdict its decisive lines are enough, and `L` shows it.
    let top_wants = (shape.processes_want + 2).max(rest / 3);
    let bottom = bottom_wants.min((rest / 2).max(rest.saturating_sub(top_wants)));
    let top = rest.saturating_sub(bottom);
    let top = if shape.has_verdict { top.min(top_wants) } else { top };
    let (verdict, below) = split_rows(body, verdict);
    let (top, bottom) = split_rows(below, top);
    let (processes, input) = split_columns(top, processes_columns(top.width, shape.processes_columns));
    if !shape.has_verdict {
        return Layout { verdict, processes, input, ..frame };
    }
    let detail = detail_columns(bottom.width, shape.steps_columns);
    let (steps, detail) = split_columns(bottom, bottom.width.saturating_sub(detail));
    Layout { verdict, processes, input, steps, detail, ..frame }
}

impl Layout {
    /// The region under a point of the screen.
    pub fn region_at(&self, column: u16, row: u16) -> Option<Region> {
        let at = ratatui::layout::Position::new(column, row);
        if self.processes.contains(at) {
            Some(Region::Processes)
        } else if self.input.contains(at) {
            Some(Region::Input)
        } else if self.steps.contains(at) || self.verdict.contains(at) {
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
        Shape {
            size,
            focus: Region::Steps,
            is_zoomed: false,
            has_verdict: true,
            verdict_wants: 4,
            bars_want: 2,
            processes_want: 7,
            steps_want: 7,
            steps_columns: 60,
            processes_columns: 70,
            proof: 0,
            detail_wants: 8,
            detail_least: 3,
        }
    }

    #[test]
    fn a_large_screen_has_the_log_beside_the_processes_and_a_small_one_has_it_alone() {
        let large = layout(shape((120, 40)));
        let all = [large.processes, large.input, large.steps, large.detail];
        assert!(!large.small && all.iter().all(|area| area.height >= 5), "{large:?}");
        let small = layout(shape((80, 24)));
        assert!(small.small && small.input.is_empty() && small.steps.height >= 5, "{small:?}");
        let log = layout(Shape { focus: Region::Input, ..shape((80, 24)) });
        assert!(log.input.height > 15 && log.steps.is_empty());
        assert!(layout(shape((59, 24))).tiny);
    }

    #[test]
    fn the_command_of_the_selected_fix_and_every_gpu_stay_in_view_beside_many_processes() {
        let many = Shape { processes_want: 60, bars_want: 4, steps_want: 9, ..shape((80, 24)) };
        let all = layout(many);
        assert!(all.detail.height >= 3 && all.steps.height >= LEAST_STEPS, "{all:?}");
        assert!(all.processes.height >= 4, "{all:?}");
    }

    #[test]
    fn before_a_log_the_processes_have_the_room_of_the_fixes() {
        for size in [(80, 24), (120, 40)] {
            let all = layout(Shape { has_verdict: false, focus: Region::Processes, ..shape(size) });
            assert!(all.steps.is_empty() && all.detail.is_empty() && all.processes.height > size.1 / 2, "{all:?}");
        }
    }

    #[test]
    fn no_size_breaks_the_geometry() {
        for columns in (0..300).step_by(23) {
            for rows in (0..90).step_by(3) {
                for (is_zoomed, has_verdict) in [(false, false), (false, true), (true, true)] {
                    let all = layout(Shape { is_zoomed, has_verdict, ..shape((columns, rows)) });
                    for area in [all.verdict, all.processes, all.input, all.steps, all.detail, all.footer] {
                        assert!(area.right() <= columns && area.bottom() <= rows);
                    }
                }
            }
        }
    }
}
