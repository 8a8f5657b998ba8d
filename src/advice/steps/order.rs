//! Owns the order of the steps: the entry's own order, in which placements with a name move some steps.

use super::outlook::Outlook;
use super::planned::{Enough, PlannedFix};
use crate::advice::verdict::CauseKind;
use crate::knowledge::{FixId, MemoryKind, Safety};

/// A step before it is placed.
pub(crate) struct Offer {
    pub planned: PlannedFix,
    /// It answers the leading cause, or what the run was doing.
    pub is_answer: bool,
    /// The log shows what it is for, by the sign and fix of this rank.
    pub shown: Option<usize>,
    /// It is the first fix of what the log shows it for, or of the entry.
    pub is_named_first: bool,
    /// What the log shows it for speaks for a bug or an old version.
    pub version_matters: bool,
    /// It is about a process that is not known to be idle.
    pub may_be_busy: bool,
}

impl Offer {
    pub(crate) fn of(planned: PlannedFix) -> Offer {
        Offer {
            planned,
            is_answer: false,
            shown: None,
            is_named_first: false,
            version_matters: false,
            may_be_busy: false,
        }
    }

    /// Whether what the log shows speaks for another version before all else.
    pub(crate) fn asks_for_a_version(&self) -> bool {
        self.is_named_first || self.version_matters || self.planned.fix == FixId::ANOTHER_VERSION
    }
}

/// Moves some steps, in their order, to one place.
struct Placement {
    name: &'static str,
    moves: fn(&Offer, &Outlook<'_, '_>) -> bool,
    to: To,
}

/// A place in the plan.
#[derive(Clone, Copy)]
enum To {
    Front,
    /// After the steps at the front that cost nothing. Idle processes cost nothing there: they were asked for.
    AfterFree,
    /// The same, and never the first of all.
    AfterFreeAndFirst,
    /// After the steps at the front that are about a process, in the order of the signs.
    AsShown,
    /// From behind the first step that terminates something or makes the run slower or worse, to before it.
    BeforeCosts,
    /// After the steps at the front that this log or this machine gives a reason for, and never one of the first two.
    AfterSupported,
    Back,
}

pub(crate) const MAY_BE_BUSY: &str = "the process is not known to be idle";

/// Applied one after the other.
const PLACEMENTS: &[Placement] = &[
    Placement { name: MAY_BE_BUSY, moves: |offer, _| offer.may_be_busy, to: To::Back },
    Placement { name: "the log shows what it is for", moves: |offer, _| offer.shown.is_some(), to: To::AsShown },
    Placement { name: "answers the leading cause", moves: |offer, _| offer.is_answer, to: To::Front },
    Placement {
        name: "a change of the run comes before a new request for a GPU",
        moves: |offer, outlook| offer.planned.fix == FixId::REQUEST_GPU && !is_solved_by_another_gpu(outlook),
        to: To::Back,
    },
    Placement {
        name: "another GPU ends the failure for certain",
        moves: |offer, outlook| offer.planned.fix == FixId::REQUEST_GPU && is_solved_by_another_gpu(outlook),
        to: To::AsShown,
    },
    Placement {
        name: "try it before changing more",
        moves: |offer, _| offer.planned.fix == FixId::RUN_AGAIN,
        to: To::Front,
    },
    Placement {
        name: "find out first who used the GPU",
        moves: |offer, _| offer.planned.fix == FixId::LOOK_THERE,
        to: To::Front,
    },
    Placement {
        name: "an unused GPU costs nobody anything",
        moves: |offer, outlook| offer.planned.room_on.is_some() && !outlook.is_led_by(CauseKind::SameSession),
        to: To::BeforeCosts,
    },
    Placement {
        name: "waiting and asking come after what costs nothing",
        moves: |offer, _| waits_or_asks(offer),
        to: To::AfterFree,
    },
    Placement {
        name: "RAM has no room for it",
        moves: |offer, _| matches!(offer.planned.enough, Enough::LacksRam { .. }),
        to: To::Back,
    },
    Placement { name: MAY_BE_BUSY, moves: |offer, _| offer.may_be_busy, to: To::AfterFreeAndFirst },
    Placement {
        name: "nothing shows that the version matters",
        moves: |offer, _| offer.shown.is_some() && !offer.asks_for_a_version() && is_update(offer.planned.fix),
        to: To::Back,
    },
    Placement { name: "its condition is not known", moves: is_doubtful, to: To::Back },
    Placement {
        name: "the symptom is one of some versions",
        moves: |offer, _| offer.planned.is_of_a_version,
        to: To::AfterSupported,
    },
];

/// Updates that help now and then, whatever failed. Only what shows a bug asks for another version.
const UPDATES: &[FixId] = &[
    FixId::UPDATE_RUNNER,
    FixId::UPDATE_PROGRAM,
    FixId::UPDATE_COMFYUI,
    FixId::UPDATE_PYTORCH,
    FixId::UPDATE_WEB_UI,
    FixId::UPDATE_GRAPHICS_DRIVER,
];

/// Whether a fix is a change of version that names no bug.
fn is_update(fix: FixId) -> bool {
    UPDATES.contains(&fix)
}

/// Whether a step's condition is not known and nothing speaks for it. What a message about shared memory names first is
/// for containers, and hardly anywhere else is shared memory small.
fn is_doubtful(offer: &Offer, outlook: &Outlook<'_, '_>) -> bool {
    let is_about_shared_memory = outlook.case.log.memory == Some(MemoryKind::Shm);
    let is_likely = offer.is_named_first && is_about_shared_memory && !offer.planned.is_of_a_version;
    offer.planned.condition.is_some() && !is_likely
}

/// Puts the offers, which come in the entry's order, into the order of the plan.
pub(crate) fn placed(offers: Vec<Offer>, outlook: &Outlook<'_, '_>) -> Vec<Offer> {
    PLACEMENTS.iter().fold(offers, |offers, placement| apply(placement, offers, outlook))
}

fn apply(placement: &Placement, offers: Vec<Offer>, outlook: &Outlook<'_, '_>) -> Vec<Offer> {
    let kept = match placement.to {
        To::BeforeCosts => offers.iter().position(costs).unwrap_or(offers.len()),
        _ => 0,
    };
    let mut stay: Vec<Offer> = Vec::new();
    let mut moved: Vec<Offer> = Vec::new();
    for (at, offer) in offers.into_iter().enumerate() {
        let is_moved = at >= kept && (placement.moves)(&offer, outlook);
        if is_moved { moved.push(offer) } else { stay.push(offer) }
    }
    for offer in &mut moved {
        offer.planned.placed_by = Some(placement.name);
    }
    let at = match placement.to {
        To::Front => 0,
        To::AsShown => {
            moved.sort_by_key(|offer| offer.shown);
            stay.iter().take_while(|offer| offer.planned.is_about_a_process()).count()
        }
        To::AfterFree => free_at_the_front(&stay),
        To::AfterFreeAndFirst => free_at_the_front(&stay).max(1).min(stay.len()),
        To::BeforeCosts => stay.iter().position(costs).unwrap_or(stay.len()),
        To::AfterSupported => stay.iter().take_while(|offer| is_supported(offer)).count().max(2).min(stay.len()),
        To::Back => stay.len(),
    };
    stay.splice(at..at, moved);
    stay
}

/// A run that is too big because of its batch needs a smaller batch before it needs a queue.
fn is_solved_by_another_gpu(outlook: &Outlook<'_, '_>) -> bool {
    let is_batch = outlook.is_led_by(CauseKind::TooBig) && outlook.has_cause(CauseKind::Batch);
    !is_batch && outlook.leading().is_some_and(|about| about.is_solved_by_another_gpu)
}

/// Whether a step deals with who uses the GPU: it is about a process or its owner, another GPU that was seen, or another try.
pub(crate) fn is_about_others(planned: &PlannedFix) -> bool {
    let deals = [FixId::RUN_AGAIN, FixId::WAIT_FOR_MEMORY, FixId::ASK_OWNER].contains(&planned.fix);
    deals || planned.is_about_a_process() || planned.room_on.is_some()
}

fn waits_or_asks(offer: &Offer) -> bool {
    matches!(offer.planned.fix, FixId::WAIT_FOR_MEMORY | FixId::ASK_OWNER)
}

/// The steps at the front that cost nothing or are about an idle process, without those that wait or ask.
fn free_at_the_front(offers: &[Offer]) -> usize {
    let is_free = |offer: &&Offer| {
        let planned = &offer.planned;
        !waits_or_asks(offer) && (planned.is_about_a_process() || planned.safety == Safety::Safe)
    };
    offers.iter().take_while(is_free).count()
}

fn is_supported(offer: &Offer) -> bool {
    let is_of_machine = offer.planned.is_about_a_process() || offer.planned.room_on.is_some() || waits_or_asks(offer);
    let is_first = matches!(offer.planned.fix, FixId::RUN_AGAIN | FixId::LOOK_THERE | FixId::REQUEST_GPU);
    offer.is_answer || offer.shown.is_some() || is_of_machine || is_first
}

fn costs(offer: &Offer) -> bool {
    offer.planned.is_about_a_process() || offer.planned.safety != Safety::Safe
}
