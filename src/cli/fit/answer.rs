//! Owns everything there is to say of whether a model fits: what was found, what it takes, which processes could free memory
//! on the GPUs that the plan names, whose end makes it fit there (the fewest on each GPU, and one that uses several GPUs counts
//! on all of them), and what else would. Knows no words. No process is terminated here. Bytes.

use super::flags::FitArgs;
use super::located::{Located, Source};
use super::machine::Machine;
use super::spread::Spread;
use crate::advice::fit::holders::{self, Holder};
use crate::memory::{Card, Choice, Engine, Estimate, fits, split};
use crate::text::harmless;
use crate::units::Bytes;

/// Everything there is to say.
pub(super) struct Answer<'a> {
    pub args: &'a FitArgs,
    /// The model as it was named on the command line.
    pub asked: &'a str,
    pub machine: Machine,
    pub located: Located,
    pub engine: Engine,
    pub estimate: Estimate,
    pub card: Option<Card>,
    pub fits: Option<bool>,
    pub why_not_known: Option<String>,
    pub options: Vec<Choice>,
    /// The GPUs that the plan names, with the processes that could free memory there; the one that decides is the last.
    pub held: Vec<Held>,
    /// Over several GPUs, where that is asked for.
    pub spread: Option<Spread>,
    /// In what it was to be taken that what was named is not in, such as AWQ: another checkpoint.
    pub requantised: Option<String>,
    /// What it would need of system memory, where that is more than is available and all else fits.
    pub lacks_ram: Option<Bytes>,
}

impl Answer<'_> {
    /// The model's name: as asked for, or the last part of a path.
    pub(super) fn name(&self) -> String {
        let name = match (&self.located.shape.name, self.located.source) {
            (Some(own), Source::Gguf) => own,
            _ => self.asked.trim_end_matches('/'),
        };
        harmless(name).into_owned()
    }

    /// As a command line has it. Of the engines that take a repository's name or a folder: one in its place, or
    /// a GGUF file's path.
    pub(super) fn target(&self) -> String {
        let (Engine::Vllm(_) | Engine::Sglang(_)) = self.engine else { return self.name() };
        match (&self.requantised, self.located.source, &self.located.file) {
            (Some(word), ..) => format!("{word}-REPOSITORY"),
            (None, Source::Gguf | Source::Ollama, Some(file)) => harmless(&file.to_string_lossy()).into_owned(),
            (None, Source::Table, _) if !self.asked.contains('/') => "REPOSITORY".into(),
            _ => self.name(),
        }
    }

    /// Free on the GPU that has least, once those that could free it have exited; of a split each GPU has its own.
    pub(super) fn free_after(&self) -> Option<Bytes> {
        if self.spread.is_some() || self.held.iter().all(|held| held.holders.is_empty()) {
            return None;
        }
        self.held.iter().map(Held::free_after).min()
    }

    /// Whose end makes it fit as it is; empty where it fits already, or where that is not enough.
    pub(super) fn in_the_way(&self) -> Vec<&Holder> {
        self.in_the_way_of(&self.held)
    }

    /// The same among these processes of the GPUs.
    pub(super) fn in_the_way_of<'h>(&self, held: &'h [Held]) -> Vec<&'h Holder> {
        if self.fits != Some(false) {
            return Vec::new();
        }
        let shape = &self.located.shape;
        let each = in_the_way(held, |held, free| match &self.spread {
            Some(_) => held.takes.is_some_and(|takes| takes <= free),
            None => fits(&self.engine, shape, Some(&Card { free, ..held.card.clone() })) == Some(true),
        });
        match (&self.spread, &self.engine) {
            // With more free on a GPU more layers go there.
            (Some(spread), Engine::LlamaCpp(settings) | Engine::Ollama(settings))
                if each.is_empty() && spread.by_free =>
            {
                together(held, |free| split::fitting(shape, settings, free).is_some())
            }
            _ => each,
        }
    }

    /// The change to offer first: one that keeps the context where that was asked for, else a shorter one.
    pub(super) fn best(&self) -> Option<&Choice> {
        let fitting = self.options.iter().filter(|choice| choice.fits == Some(true));
        let keeps_context = fitting.clone().find(|choice| !choice.shortens);
        let shortens = fitting.clone().rfind(|choice| choice.shortens);
        if self.args.context.is_some() { keeps_context.or(shortens) } else { shortens.or(keeps_context) }
    }
}

/// A GPU that the plan names.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// Which, as it is now.
    pub card: Card,
    /// The processes that could free memory on it, the idle ones first, then the largest.
    pub holders: Vec<Holder>,
    /// What the model wants of it.
    pub takes: Option<Bytes>,
}

impl Held {
    /// Free on it once all of those have ended.
    pub(super) fn free_after(&self) -> Bytes {
        self.free_without(&self.holders.iter().collect::<Vec<_>>())
    }

    /// Free on it once these have ended.
    fn free_without(&self, ended: &[&Holder]) -> Bytes {
        let gone = self.holders.iter().filter(|holder| ended.iter().any(|ended| ended.key == holder.key));
        let freed = gone.fold(Bytes::ZERO, |sum, holder| sum.plus(holder.bytes));
        self.card.free.plus(freed).min(self.card.total)
    }
}

/// Whose end makes it fit on all of these GPUs, where `fits` tells whether a GPU would do with so much free; empty
/// where it fits already or nobody's end is enough.
pub(super) fn in_the_way(held: &[Held], fits: impl Fn(&Held, Bytes) -> bool) -> Vec<&Holder> {
    let mut ended: Vec<&Holder> = Vec::new();
    for held in held {
        let free = held.free_without(&ended);
        if fits(held, free) {
            continue;
        }
        let missing = held.takes.unwrap_or(Bytes::ZERO).less(free);
        let few = holders::enough(&held.holders, missing);
        let chosen = match few {
            few if !few.is_empty() && fits(held, held.free_without(&[&*ended, &*few].concat())) => few,
            _ if fits(held, held.free_after()) => held.holders.iter().collect(),
            _ => return Vec::new(),
        };
        for holder in chosen {
            if !ended.iter().any(|known| known.key == holder.key) {
                ended.push(holder);
            }
        }
    }
    ended
}

/// Who must end so that it fits over all of these GPUs together, where `fits` tells whether it would with so much free
/// on each: the largest that are needed. Empty where it fits already or all of their ends are not enough.
pub(super) fn together(held: &[Held], fits: impl Fn(&[Bytes]) -> bool) -> Vec<&Holder> {
    let mut ended: Vec<&Holder> = Vec::new();
    for holder in held.iter().flat_map(|held| &held.holders) {
        if !ended.iter().any(|known| known.key == holder.key) {
            ended.push(holder);
        }
    }
    ended.sort_by_key(|holder| (!holder.is_idle, std::cmp::Reverse(holder.bytes)));
    if fits(&free_on_each(held, &[])) || !fits(&free_on_each(held, &ended)) {
        return Vec::new();
    }
    for at in (0..ended.len()).rev() {
        let mut fewer = ended.clone();
        fewer.remove(at);
        if fits(&free_on_each(held, &fewer)) {
            ended = fewer;
        }
    }
    ended
}

fn free_on_each(held: &[Held], ended: &[&Holder]) -> Vec<Bytes> {
    held.iter().map(|held| held.free_without(ended)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::ProcessKey;
    use crate::memory::visible::Counted;

    fn held(index: u32, free: u64, takes: u64, holders: &[(u32, u64)]) -> Held {
        let card = Card {
            index,
            counted: Counted::default(),
            name: "x".into(),
            total: Bytes::gib(24),
            free: Bytes::gib(free),
            each: Vec::new(),
        };
        let holder = |(pid, gib): &(u32, u64)| Holder {
            key: ProcessKey { pid: *pid, start_ticks: 1 },
            name: format!("process {pid}"),
            bytes: Bytes::gib(*gib),
            command: String::new(),
            is_idle: false,
        };
        Held { card, holders: holders.iter().map(holder).collect(), takes: Some(Bytes::gib(takes)) }
    }

    fn pids(held: &[Held]) -> Vec<u32> {
        in_the_way(held, |held, free| held.takes.unwrap() <= free).iter().map(|holder| holder.key.pid).collect()
    }

    #[test]
    fn each_card_needs_room_and_one_end_counts_on_all_of_them() {
        let both = [held(0, 10, 20, &[(7, 12)]), held(1, 10, 20, &[(9, 13), (7, 12)])];
        assert_eq!(pids(&both), [7]);
        let apart = [held(0, 10, 20, &[(7, 12)]), held(1, 10, 20, &[(9, 13)])];
        assert_eq!(pids(&apart), [7, 9]);
        assert_eq!(apart[0].free_after(), Bytes::gib(22));
    }

    #[test]
    fn one_card_without_room_is_enough_to_end_nobody() {
        assert_eq!(pids(&[held(0, 10, 20, &[(7, 12)]), held(1, 10, 20, &[(9, 3)])]), Vec::<u32>::new());
        assert_eq!(pids(&[held(0, 20, 20, &[(7, 2)])]), Vec::<u32>::new());
    }
}
