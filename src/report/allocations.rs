//! Owns the tables about a memory snapshot: what is alive, what is unusable, the last actions, and what grew.

use crate::allocations::Pool;
use crate::allocations::figures::line_in_words;
use crate::allocations::told::{Alive, Did, Filled, Growth, Totals, Unused};

/// Rows of each table.
const ROWS: usize = 5;

/// A table in words: its heading and rows of as many cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub heading: String,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

/// The tables about the failure that leads. A table without rows is left out.
pub fn tables(filled: &Filled) -> Vec<Table> {
    let unusable = filled.totals.as_ref().map(|totals| unusable(filled, totals));
    let all = [Some(alive(filled)), unusable, Some(last_actions(filled)), Some(growth(filled))];
    all.into_iter().flatten().filter(|table| !table.rows.is_empty()).collect()
}

/// The other ranks and devices, a line each.
pub fn others(all: &[Filled]) -> Vec<String> {
    all.iter().skip(1).map(|filled| format!("{}: {}", who(filled), in_short(filled))).collect()
}

/// Which rank or device it is.
fn who(filled: &Filled) -> String {
    match filled.rank {
        Some(rank) => format!("Rank {rank} ({})", filled.device_in_words()),
        None => format!("{} ({})", filled.file, filled.device_in_words()),
    }
}

fn in_short(filled: &Filled) -> String {
    let Some(totals) = &filled.totals else { return format!("{} allocated", filled.allocated_bytes) };
    let has = format!("{} allocated of {} reserved", totals.allocated_bytes, totals.reserved_bytes);
    match &filled.request {
        Some(request) => {
            format!("{} did not fit, {} was free; {has}", request.bytes, request.free_bytes)
        }
        None => format!("no request failed; {has}"),
    }
}

fn table(heading: String, columns: &[&'static str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    Table { heading, columns: columns.to_vec(), rows: rows.collect() }
}

fn alive(filled: &Filled) -> Table {
    let row = |row: &Alive| {
        let inner = row.inner.as_ref().map(ToString::to_string).unwrap_or_default();
        vec![row.bytes.to_string(), line_in_words(row.at.as_ref()), inner, row.blocks.to_string()]
    };
    table(
        format!("Allocated: {}", filled.allocated_bytes),
        &["VRAM", "line", "innermost", "blocks"],
        filled.alive.iter().take(ROWS).map(row),
    )
}

fn unusable(filled: &Filled, totals: &Totals) -> Table {
    let row = |row: &Unused| {
        let beside = row.beside.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string);
        vec![
            row.bytes.to_string(),
            row.largest_bytes.to_string(),
            segments(row),
            row.why.said().to_owned(),
            place(row),
            beside,
        ]
    };
    table(
        format!("Reserved but unallocated: {}", totals.unused_bytes()),
        &["VRAM", "largest", "segments", "why", "pool, stream", "beside"],
        filled.unusable.iter().take(ROWS).map(row),
    )
}

fn segments(row: &Unused) -> String {
    format!("{}, {} % full", row.segments, row.percent_full())
}

fn place(row: &Unused) -> String {
    let pool =
        if row.pool == Pool::EVERYBODYS { "default".to_owned() } else { format!("({}, {})", row.pool.0, row.pool.1) };
    format!("{pool}, {}", row.stream)
}

fn last_actions(filled: &Filled) -> Table {
    let first = filled.last_actions.len().saturating_sub(ROWS);
    let row = |did: &Did| {
        let at = did.at.as_ref().map(ToString::to_string).unwrap_or_default();
        vec![did.bytes.to_string(), did.said().to_owned(), at]
    };
    let heading = if filled.request.is_some() { "Last actions before the failure" } else { "Last actions" };
    table(heading.to_owned(), &["VRAM", "action", "line"], filled.last_actions.iter().skip(first).map(row))
}

fn growth(filled: &Filled) -> Table {
    let row = |row: &Growth| {
        let unit = if row.is_by_step { "step" } else { "part" };
        vec![
            row.to_bytes.to_string(),
            format!("from {}", row.from_bytes),
            format!("+{} a {unit}, {} times", row.each_bytes(), row.points),
            row.at.to_string(),
        ]
    };
    table("Growth".to_owned(), &["VRAM", "before", "rise", "line"], filled.growth.iter().take(ROWS).map(row))
}
