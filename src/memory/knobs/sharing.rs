//! Owns how the GPUs of a training run share what is kept of it: ZeRO's stages, FSDP, the optimizer in system memory, and
//! the line that starts them all. Values are stages from 3 (all is shared) down to 0. accelerate's launcher at
//! 2026-07-24, read on 2026-11-21.

use crate::memory::card::most_free_first;
use crate::memory::knob::*;
use crate::memory::knobs::checkpointing;
use crate::memory::training::{Optimizer, Recipe, Sharing, Training};
use crate::memory::visible::only_most_free;

pub(crate) static KNOB: Knob = Knob {
    name: "ZeRO stage",
    engines: &[Kind::Train],
    fixes: &[FixId::SHARD_TRAINING, FixId::OFFLOAD_SHARDED_STATE],
    get: Some(|engine, _| 3_u64.saturating_sub(stage(engine).into())),
    set: Some(|engine, _, to| {
        if let Engine::Train(training) = engine {
            training.sharing.stage = u8::try_from(3_u64.saturating_sub(to)).unwrap_or(0);
        }
    }),
    cost: |_, _, _| 2,
    proposals,
    is_shown: |engine, _| matches!(engine, Engine::Train(training) if training.sharing.cards > 1),
    ladder: Some(|_, _| vec![0, 1, 2, 3]),
    shown: Some(|engine, _| {
        match stage(engine) {
            0 => "0: nothing shared",
            1 => "1: optimizer",
            2 => "2: and gradients",
            _ => "3: and weights",
        }
        .to_owned()
    }),
    ..Knob::PLAIN
};

fn stage(engine: &Engine) -> u8 {
    if let Engine::Train(training) = engine { training.sharing.stage } else { 0 }
}

/// The line that starts `script` on all GPUs, where there are several or ZeRO is used.
pub(crate) fn launch(training: &Training, script: String) -> String {
    let Sharing { stage, cards, offload, fsdp } = training.sharing;
    if cards <= 1 && stage == 0 {
        return script;
    }
    let mut line = format!("accelerate launch --num_processes {cards}");
    match (stage, fsdp) {
        (0, _) => line += " --multi_gpu",
        (_, true) => line += " --use_fsdp --fsdp_version 2 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP",
        _ => line += &format!(" --use_deepspeed --zero_stage {stage}"),
    }
    if training.step.checkpointing && fsdp {
        line += " --fsdp_activation_checkpointing true";
    }
    if offload {
        line += " --offload_optimizer_device cpu";
    }
    if !matches!(training.recipe, Recipe::Full32 | Recipe::Pure16) {
        line += " --mixed_precision bf16";
    }
    format!("{line} train.py # {script}")
}

/// A way to share a run.
struct Way {
    stage: u8,
    /// Whether the optimizer's states are in system memory.
    offload: bool,
    words: &'static str,
}

/// What costs least speed first.
const WAYS: [Way; 4] = [
    Way { stage: 2, offload: false, words: "DeepSpeed ZeRO-2" },
    Way { stage: 3, offload: false, words: "FSDP FULL_SHARD (DeepSpeed ZeRO-3 takes as much)" },
    Way { stage: 2, offload: true, words: "DeepSpeed ZeRO-2 with the optimizer in system memory" },
    Way { stage: 3, offload: true, words: "DeepSpeed ZeRO-3 with the optimizer in system memory" },
];

impl Way {
    /// Whether it would save anything that the run does not save already.
    fn saves(&self, run: &Training) -> bool {
        let now = run.sharing;
        if now.offload && !self.offload || self.stage < now.stage {
            return false;
        }
        if self.stage == now.stage && self.offload == now.offload {
            return false;
        }
        match run.recipe {
            // NF4 is not shared by these lines.
            Recipe::Qlora(_) => false,
            // Of adapters only the weights below them are worth sharing.
            Recipe::Lora(_) => self.stage >= 3 && !self.offload,
            _ => !self.offload || run.optimizer == Optimizer::AdamW,
        }
    }

    /// The run over so many GPUs.
    fn over(&self, run: Training, cards: u64) -> Engine {
        let fsdp = self.stage == 3 && !self.offload;
        let sharing = Sharing { stage: self.stage, offload: self.offload, fsdp, cards };
        Engine::Train(Training { sharing, ..run })
    }
}

/// System memory is slow: it is used only where the GPUs alone are not enough.
fn proposals(need: &Need<'_>) -> Vec<Proposal> {
    let Engine::Train(training) = need.engine else { return Vec::new() };
    let run = checkpointing::with(training);
    let ways = WAYS.iter().filter(|way| way.saves(&run)).filter_map(|way| Some((way, shared_out(need, way, run)?)));
    let (in_ram, on_gpus): (Vec<_>, Vec<_>) = ways.partition(|(way, _)| way.offload);
    let mut proposals: Vec<Proposal> = on_gpus.into_iter().map(|(_, proposal)| proposal).collect();
    if proposals.iter().all(|proposal| proposal.fits(need.shape) != Some(true)) {
        proposals.extend(in_ram.into_iter().map(|(_, proposal)| proposal));
    }
    proposals
}

/// A count of GPUs that a run may be shared over.
struct Over<'a> {
    count: usize,
    engine: Engine,
    /// The one of them with least free memory.
    least: &'a Card,
    /// What that one has beyond what the run takes, or lacks.
    left: i128,
}

/// The run shared out this way over the GPUs that leave most to spare, each as much as the one with least free; over as
/// many as were asked for, where that is said, which may be on other machines.
fn shared_out(need: &Need<'_>, way: &Way, run: Training) -> Option<Proposal> {
    let free = most_free_first(need.cards);
    let asked = usize::try_from(run.sharing.cards).ok()?;
    let counts = match asked {
        2.. => asked..=asked,
        _ if way.offload => 1..=free.len(),
        _ => 2..=free.len(),
    };
    let over = counts.filter_map(|count| {
        let least = free.get(count.checked_sub(1)?).copied();
        let least = if asked > 1 { least.or(need.card)? } else { least? };
        let engine = way.over(run, count as u64);
        let total = engine.estimate(need.shape).total()?;
        Some(Over { count, engine, least, left: i128::from(least.free.0).saturating_sub(total.0.into()) })
    });
    let best = over.max_by_key(|over| (over.left, std::cmp::Reverse(over.count)))?;
    let estimate = best.engine.estimate(need.shape);
    let parts = estimate.named().into_iter().filter(|(_, part)| part.bytes.is_some_and(|bytes| bytes.0 > 0));
    let parts: Vec<String> = parts.filter_map(|(name, part)| Some(format!("{name} {}", part.bytes?))).collect();
    let on = if best.count > 1 { format!(" over {} GPUs", best.count) } else { String::new() };
    let words = format!("{}{on} and gradient checkpointing (on each GPU {})", way.words, parts.join(", "));
    let turns = [Turn { knob: &KNOB, to: 3_u64.saturating_sub(way.stage.into()) }, checkpointing::ON];
    let before = only_most_free(best.count, need.cards, &best.engine);
    let proposal = need.propose(&turns, words, best.engine);
    Some(Proposal {
        card: Some(best.least.clone()),
        flags: Flags::OfEngine { before, after: String::new() },
        ..proposal
    })
}
