//! Owns the verdict in one line: what ran out and where, what the run needs, what is free and what is short, and the
//! easiest way out under it. The sentences with the reasons are the verdict's.

use super::case::Case;
use super::headline;
use super::ledger::{Ledger, at_least};
use super::naming::apart;
use super::other_gpu::RoomOn;
use super::phrases::is_about_pinning;
use super::steps::planned::PlannedFix;
use super::verdict::{Cause, CauseKind};
use crate::knowledge::diagnosis::{MemoryKind, Oom};
use crate::units::Bytes;

/// What the line says at its beginning, by a sign and a color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Memory ran out.
    #[default]
    Failed,
    /// Perhaps it did, or nobody can say why.
    Unclear,
    /// On another machine: nothing here is about it.
    Elsewhere,
    /// No memory ran out.
    NotMemory,
    /// What the run needs is free now.
    RoomNow,
    /// The run was started again.
    OnItsWay,
}

/// The verdict in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    pub standing: Standing,
    /// Such as "NOT ENOUGH VRAM on GPU 0".
    pub what: String,
    pub figures: Option<Figures>,
    /// The easiest way out as it was seen, else the cause in a sentence.
    pub next: String,
}

/// The figures, each a word and an amount; those of one memory add up as shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// "needs ≥ 8.2 GiB"
    pub needs: String,
    /// "(5.7 allocated + 2.5 requested)"
    pub parts: Option<String>,
    /// "free 6.0"
    pub free: Option<String>,
    /// "SHORT ≥ 2.2 GiB"
    pub short: Option<String>,
}

impl Figures {
    /// The figures from the most to the least words, for lines with less and less room.
    pub fn shorter_and_shorter(&self) -> impl Iterator<Item = String> {
        let (needs, free, short) = (Some(self.needs.clone()), self.free.clone(), self.short.clone());
        let whole = self.parts.as_ref().map(|parts| format!("{} {parts}", self.needs));
        [
            whole.map(|whole| joined([Some(whole), free.clone(), short.clone()])),
            Some(joined([needs.clone(), free, short.clone()])),
            Some(joined([needs, None, short.clone()])),
            short,
        ]
        .into_iter()
        .flatten()
    }
}

/// A PiB: so large a size is a mistake of the program, not a need.
pub(super) const BEYOND_ANY_MEMORY: Bytes = Bytes(1 << 50);

/// Where other causes print the same message.
const PERHAPS: &str = "PERHAPS OUT OF MEMORY";

fn joined(parts: [Option<String>; 3]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// The verdict of a case in one line.
pub(crate) fn brief(case: &Case<'_>, causes: &[Cause], plan: &[PlannedFix]) -> Brief {
    let standing = standing(case, causes);
    let room = plan.iter().find_map(|planned| planned.room_on.as_ref());
    let is_short = case.short_by_ledger() != Some(Bytes::ZERO);
    let is_better_elsewhere = is_short && case.retry.is_none();
    let next = match room {
        Some(room) if is_better_elsewhere => RoomOn::said(room),
        // A run on its way, or a log from elsewhere, says first where it stands.
        _ if standing != Standing::Failed => headline::cause_in_words(case, causes),
        _ if let Some(filled) = case.log.recorded_failure() => filled.sentence.clone(),
        _ => headline::what_fits(case, causes, plan).unwrap_or_else(|| headline::cause_in_words(case, causes)),
    };
    let figures = if case.log.oom == Oom::No || standing == Standing::OnItsWay { None } else { figures(case) };
    Brief { standing, what: what(case, causes, standing), figures, next }
}

fn standing(case: &Case<'_>, causes: &[Cause]) -> Standing {
    let is_unclear = causes.first().is_some_and(|cause| cause.cause == CauseKind::Unknown);
    match case.log.oom {
        Oom::No if case.log.matches.is_empty() => Standing::Unclear,
        Oom::No => Standing::NotMemory,
        _ if case.retry.is_some() => Standing::OnItsWay,
        _ if case.place.is_elsewhere() => Standing::Elsewhere,
        Oom::Maybe => Standing::Unclear,
        Oom::Yes if case.ledger.as_ref().is_some_and(Ledger::has_room_now) => Standing::RoomNow,
        Oom::Yes if is_unclear && case.short_by_ledger().is_none() => Standing::Unclear,
        Oom::Yes => Standing::Failed,
    }
}

fn what(case: &Case<'_>, causes: &[Cause], standing: Standing) -> String {
    let gpu = where_it_ran_out(case);
    match standing {
        Standing::NotMemory => "NO MEMORY RAN OUT".to_owned(),
        Standing::Unclear if case.log.oom == Oom::No => "NO MEMORY ERROR FOUND".to_owned(),
        Standing::OnItsWay => "RUNNING AGAIN".to_owned(),
        Standing::RoomNow => format!("ENOUGH FREE NOW{gpu}"),
        Standing::Unclear if case.log.oom == Oom::Maybe => PERHAPS.to_owned(),
        Standing::Elsewhere if case.log.oom == Oom::Maybe => format!("{PERHAPS} · OTHER MACHINE"),
        Standing::Elsewhere => format!("{}{gpu} · OTHER MACHINE", ran_out(case, causes)),
        Standing::Failed | Standing::Unclear => format!("{}{gpu}", ran_out(case, causes)),
    }
}

/// What ran out, by the leading cause and the kind of memory.
fn ran_out(case: &Case<'_>, causes: &[Cause]) -> &'static str {
    use CauseKind::{Context, Fragmentation, HostMemory, Limit, TooBig};
    match (causes.first().map(|cause| cause.cause), case.log.memory) {
        (Some(Limit), _) => "LIMIT REACHED",
        (_, Some(MemoryKind::Shm)) => "SHARED MEMORY FULL",
        (Some(HostMemory), _) | (_, Some(MemoryKind::Host)) => "NOT ENOUGH RAM",
        (_, Some(MemoryKind::KvCache)) => "KV CACHE TOO SMALL",
        (Some(Context), _) => "CONTEXT TOO LONG",
        (Some(Fragmentation), _) => "VRAM FRAGMENTED",
        (Some(TooBig), Some(MemoryKind::Unified)) => "TOO LARGE FOR ITS MEMORY",
        (_, Some(MemoryKind::Unified)) => "NOT ENOUGH MEMORY",
        (Some(TooBig), _) => "TOO LARGE",
        (_, Some(MemoryKind::Gpu)) if is_about_pinning(case.log) => "NO PINNED MEMORY",
        (_, Some(MemoryKind::Gpu)) => "NOT ENOUGH VRAM",
        (_, None) => "OUT OF MEMORY",
    }
}

/// " on GPU 0", where the memory is a GPU's.
fn where_it_ran_out(case: &Case<'_>) -> String {
    let is_of_gpu = matches!(case.log.memory, Some(MemoryKind::Gpu | MemoryKind::KvCache));
    let here = case.ledger.as_ref().and_then(|ledger| ledger.device);
    match here.or(case.log.facts.device) {
        Some(index) if is_of_gpu => format!(" on GPU {index}"),
        _ => String::new(),
    }
}

fn figures(case: &Case<'_>) -> Option<Figures> {
    let ledger = case.ledger.as_ref()?;
    let requested = ledger.asked_bytes?;
    let whole = case.fit.as_ref().zip(ledger.missing_bytes).and_then(|(fit, short)| fit.beyond_the_log(short));
    if ledger.needed_bytes? >= BEYOND_ANY_MEMORY {
        return None;
    }
    let is_by_log = !ledger.is_now;
    let free_word = if is_by_log && !ledger.is_cache { "was free" } else { "free" };
    if let Some((total, short)) = whole {
        let free = ledger.available_bytes.map(|free| format!("{free_word} {free}"));
        return Some(Figures {
            needs: format!("needs ≈ {total}"),
            parts: None,
            free,
            short: Some(format!("SHORT ≈ {short}")),
        });
    }
    let is_small = ledger.needed_bytes.is_some_and(|needed| needed < Bytes::gib(1));
    let in_mib = ledger.shows_mib() || is_small;
    let bound = if ledger.needed_is_at_least { "≥ " } else { "" };
    let short = ledger.shown_short().filter(|short| *short > Bytes::ZERO);
    let short = short
        .map(|short| format!("SHORT {}", if ledger.needed_is_at_least { at_least(short) } else { short.to_string() }));
    // The log's own free memory leaves out what the run had: the two are no parts of one need.
    if is_by_log {
        let (requested, free) = match ledger.available_bytes {
            Some(free) if ledger.shows_mib() && requested >= Bytes::gib(1) => {
                (format!("{} MiB", number(requested, true)), Some(format!("{free_word} {} MiB", number(free, true))))
            }
            Some(free) => {
                let (requested, free) = apart(requested, free);
                (requested, Some(format!("{free_word} {free}")))
            }
            None => (requested.to_string(), None),
        };
        return Some(Figures { needs: format!("requested {requested}"), parts: None, free, short });
    }
    let needed = match ledger.had_bytes {
        Some(had) => requested.as_shown(in_mib).plus(had.as_shown(in_mib)),
        None => ledger.needed_bytes?,
    };
    let parts = ledger
        .had_bytes
        .map(|had| format!("({} allocated + {} requested)", number(had, in_mib), number(requested, in_mib)));
    let free = ledger.available_bytes.map(|free| format!("{free_word} {}", number(free, in_mib)));
    let unit = if in_mib { "MiB" } else { "GiB" };
    Some(Figures { needs: format!("needs {bound}{} {unit}", number(needed, in_mib)), parts, free, short })
}

/// An amount without its unit.
fn number(bytes: Bytes, in_mib: bool) -> String {
    if in_mib { (bytes.as_shown(true).0 >> 20).to_string() } else { bytes.in_gib() }
}

#[cfg(test)]
mod tests {
    use crate::advice::testing::torch_oom;
    use crate::advice::{Situation, advise};
    use crate::gpu::testing::{device, snapshot};
    use crate::gpu::{Reading, Snapshot};
    use crate::knowledge::diagnosis::Oom;
    use crate::units::Bytes;

    #[test]
    fn a_perhaps_stays_one_on_another_machine() {
        let small = Bytes::gib(8);
        let mut here = Snapshot { devices: vec![device(0, vec![])], ..snapshot(0) };
        for device in &mut here.devices {
            device.memory.total_bytes = Reading::Known(small);
        }
        let what_is_said = |oom| {
            let mut log = torch_oom(&[]);
            log.facts.total_bytes = Some(Bytes::gib(80));
            log.oom = oom;
            advise(&Situation { snapshot: Some(&here), ..Situation::alone(&log) }).brief.what
        };
        let (sure, perhaps) = (what_is_said(Oom::Yes), what_is_said(Oom::Maybe));
        assert!(sure.contains("OTHER MACHINE") && !sure.contains("PERHAPS"), "{sure}");
        assert!(perhaps.contains("OTHER MACHINE") && perhaps.contains("PERHAPS"), "{perhaps}");
    }
}
