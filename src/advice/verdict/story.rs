//! Owns the causes that the run's own story tells: how far it came, what it was doing, in which process, on which
//! card, and figures that can't be true together.

use super::others::itself;
use super::{Cause, CauseKind, decisive};
use crate::advice::ledger::run_had;
use crate::advice::plan::share;
use crate::advice::{Ledger, Place, Situation, name_of_device, plan};
use crate::gpu::GpuProcess;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Phase, Stage};
use crate::knowledge::facts::Facts;
use crate::memory::table;
use crate::units::Bytes;

/// A run that came this far had room for an ordinary step.
const STEPS_THAT_FITTED: u64 = 20;
/// Weights that take so much of the card leave no room for anything else.
const FILLED_PERCENT: u64 = 88;
/// An engine allowed no more than this of the card was given a limit.
const SMALL_SHARE: f64 = 0.7;
/// Under this share of the card, what a notebook's process had is its CUDA context and small tensors.
const SESSION_PERCENT: u64 = 20;

/// It trained for a while first: the same step fitted before, so something grew.
pub fn growth(diagnosis: &Diagnosis) -> Option<Cause> {
    if diagnosis.phase != Phase::Training || diagnosis.memory != Some(MemoryKind::Gpu) {
        return None;
    }
    let evidence = match diagnosis.run.stage {
        Some(Stage::Saving) => return None,
        Some(Stage::Validation) if has_trained(diagnosis) => "the training steps fitted; it died in the validation, which may keep gradients or collect its results on the card".to_owned(),
        _ => format!(
            "it had reached {}, so its steps fitted before: a longer batch came, a validation kept gradients, or something is kept from step to step",
            reached(diagnosis)?
        ),
    };
    Some(Cause { cause: CauseKind::Growth, weight: 0.5, evidence: vec![evidence] })
}

/// A validation beside the training comes after some of it; a check before it has two steps.
fn has_trained(diagnosis: &Diagnosis) -> bool {
    diagnosis.run.step.is_some_and(|step| step >= 5) || diagnosis.run.epoch.is_some()
}

/// How far it came, where that is far enough to have shown that an ordinary step fits.
fn reached(diagnosis: &Diagnosis) -> Option<String> {
    let run = &diagnosis.run;
    // Steps count on from a checkpoint; of "Epoch 1/10" the first is 1, else 0.
    let since = |step: u64| step.saturating_sub(run.resumed_step.unwrap_or(0));
    let step = run.step.filter(|step| since(*step) >= STEPS_THAT_FITTED).map(|step| format!("step {step}"));
    let fresh = run.resumed_step.is_none();
    let first = u64::from(run.epoch_of_many.is_some());
    step.or_else(|| run.epoch.filter(|epoch| *epoch > first && fresh).map(|epoch| format!("epoch {epoch}")))
}

/// What it was doing needs more memory the more is done at once.
pub fn batch(diagnosis: &Diagnosis) -> Option<Cause> {
    let (weight, evidence) = match (diagnosis.phase, diagnosis.run.stage) {
        (_, Some(Stage::Backward)) => (0.45, "it died in the backward pass: activations grow with the batch"),
        (_, Some(Stage::Decode)) => {
            (0.45, "it died while turning the result into pixels, which grows with the size of the image or video")
        }
        (_, Some(Stage::Sampling)) => (0.4, "it died while denoising, which grows with the size and number of images"),
        (_, Some(Stage::Profiling)) => (0.4, "it died while measuring its peak with the largest batch it may meet"),
        // What is made there is as large for any batch.
        (_, Some(Stage::Optimizer)) => return None,
        (_, Some(Stage::Saving)) => return None,
        (_, Some(Stage::Validation)) => (0.4, "it died in the validation, where memory grows with its own batch"),
        (Phase::Training, _) => (0.4, "it died while training, where memory grows with the batch"),
        _ => return None,
    };
    (diagnosis.memory == Some(MemoryKind::Gpu)).then(|| Cause {
        cause: CauseKind::Batch,
        weight,
        evidence: vec![evidence.to_owned()],
    })
}

/// An engine fills its share of the card with weights and KV cache by design: what it works with comes on top.
pub fn beside_its_share(diagnosis: &Diagnosis, place: &Place<'_>) -> Option<Cause> {
    let capacity = place.device.and_then(|device| device.memory.total_bytes.value());
    let (asked, share) = (share::outside_of_share(diagnosis, capacity)?, share::in_words(diagnosis)?);
    let evidence = format!(
        "{share} is filled with weights and KV cache by design; the {asked} came on top of that{}",
        decisive(diagnosis)
    );
    Some(Cause { cause: CauseKind::Batch, weight: 0.43, evidence: vec![evidence] })
}

/// Another memory that ran out as well: the steps are for the one that leads.
pub fn also(diagnosis: &Diagnosis) -> Option<String> {
    let (memory, line) = diagnosis.run.also?;
    let which = if memory == MemoryKind::Host { "System memory" } else { "GPU memory" };
    Some(format!("{which} ran out, too (line {line})."))
}

/// What a later attempt in the same log ended with.
pub fn ended_with(diagnosis: &Diagnosis) -> Option<String> {
    let (said, line) = diagnosis.run.ended_with.as_ref()?;
    Some(format!("The log goes on after that, and a later attempt ended with something else (line {line}): {said}"))
}

/// The optimizer's state appears at its first step: it grows with the parameters trained, not with the batch. For a file
/// of the whole model the ranks' parts are put together.
pub fn optimizer(diagnosis: &Diagnosis) -> Option<Cause> {
    let evidence = match diagnosis.run.stage? {
        Stage::Optimizer if reached(diagnosis).is_none() => {
            "it died where the optimizer's state is made: that grows with the parameters trained, not with the batch"
        }
        Stage::Saving => "it died while saving, where the ranks' parts of the model are put together on one card",
        _ => return None,
    };
    (diagnosis.memory == Some(MemoryKind::Gpu)).then(|| Cause {
        cause: CauseKind::TooBig,
        weight: 0.48,
        evidence: vec![evidence.into()],
    })
}

/// The weights fill the card, or the engine's share of it, before anything else comes.
pub fn weights_alone(diagnosis: &Diagnosis, place: &Place<'_>) -> Option<Cause> {
    let (facts, run) = (&diagnosis.facts, &diagnosis.run);
    let here = place.device.and_then(|device| device.memory.total_bytes.value());
    let total = facts.total_bytes.or(here)?;
    let weights = match diagnosis.memory? {
        MemoryKind::KvCache => run.weights_bytes?,
        MemoryKind::Gpu if diagnosis.phase == Phase::Load && run.notebook.is_none() => {
            facts.process_bytes.or(facts.allocated_bytes)?
        }
        _ => return None,
    };
    let fills = u128::from(weights.0) * 100 >= u128::from(total.0) * u128::from(FILLED_PERCENT);
    let evidence = vec![format!("the weights alone took {weights} of {total}{}", decisive(diagnosis))];
    fills.then_some(Cause { cause: CauseKind::TooBig, weight: 0.92, evidence })
}

/// A limit that the log's own command line shows, in a sentence's part.
pub fn limit_set(diagnosis: &Diagnosis) -> Option<String> {
    let run = &diagnosis.run;
    if let (Some(kib), Some(MemoryKind::Host)) = (run.address_limit_kib, diagnosis.memory) {
        let limit = Bytes(kib.saturating_mul(1024));
        return Some(format!("the shell's limit on addresses (ulimit -v) was {limit}"));
    }
    let applies = diagnosis.memory == Some(MemoryKind::KvCache) || diagnosis.raised_by.as_deref() == Some("jax");
    let share = run.share.as_ref().filter(|_| applies)?;
    let small = share.parse::<f64>().is_ok_and(|share| share <= SMALL_SHARE);
    small.then(|| format!("only {share} of the card was allowed to it"))
}

/// A notebook's process already held much: what earlier cells made is still there.
pub fn same_session<'a>(situation: &Situation<'a>, place: &Place<'a>) -> Option<Cause> {
    let diagnosis = situation.diagnosis;
    if let Some((row, held)) = models_kept(situation, place) {
        let evidence = format!(
            "{} is the program that failed; what it still holds are its models ({held})",
            crate::advice::name_of(row)
        );
        return Some(Cause { cause: CauseKind::SameSession, weight: 0.55, evidence: vec![evidence] });
    }
    let sign = diagnosis.run.notebook.as_ref()?;
    let facts = &diagnosis.facts;
    let had = run_had(diagnosis).or(facts.allocated_bytes)?;
    let much = facts.total_bytes.map_or(had >= Bytes::gib(1), |total| {
        u128::from(had.0) * 100 >= u128::from(total.0) * u128::from(SESSION_PERCENT)
    });
    if diagnosis.memory != Some(MemoryKind::Gpu) || !much {
        return None;
    }
    if let Some(kernel) = kernel_itself(situation, place) {
        let name = crate::advice::name_of(kernel);
        let held = crate::advice::amount(kernel.used_bytes.value());
        let evidence = vec![format!("{name} still holds {held}, as much as the failed run had{}", decisive(diagnosis))];
        return Some(Cause { cause: CauseKind::SameSession, weight: 0.9, evidence });
    }
    // While loading, nothing of this run can be there yet but a part of the model: much more is from before.
    let loading = diagnosis.phase == Phase::Load;
    let first = matches!(sign.trim_start_matches("Cell In").trim_matches([' ', '[', ']']), "1");
    let weight = match (loading, first) {
        (_, true) => 0.3,
        (true, false) => 0.75,
        (false, false) => 0.42,
    };
    let when = if loading { "when it began to load" } else { "when it failed" };
    let evidence = vec![format!(
        "the notebook's own process held {had} {when}{}, and a kernel keeps what its earlier cells and their errors made",
        decisive(diagnosis)
    )];
    Some(Cause { cause: CauseKind::SameSession, weight, evidence })
}

/// The program that failed, where it goes on and keeps models loaded.
fn models_kept<'a>(situation: &Situation<'a>, place: &Place<'a>) -> Option<(&'a GpuProcess, Bytes)> {
    let row = itself(situation, place)?;
    Some((row, row.used_bytes.value().filter(|held| *held >= Bytes::gib(2))?))
}

/// The notebook's kernel that failed: it is still here, and holds what the failed process had.
fn kernel_itself<'a>(situation: &Situation<'_>, place: &Place<'a>) -> Option<&'a GpuProcess> {
    let had = situation.diagnosis.facts.process_bytes?;
    let device = place.device.filter(|_| place.same_machine == Some(true))?;
    device.processes.iter().find(|row| {
        let kernel = row.command.known().is_some_and(|command| command.contains("ipykernel"));
        let alike = row.used_bytes.value().is_some_and(|held| held.within_percent(had, 5));
        kernel && alike && row.proved && situation.was_there_before(row) == Some(true)
    })
}

/// Several ranks on one card, or another card that has room for all of it.
pub fn wrong_device(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>) -> Option<Cause> {
    let diagnosis = situation.diagnosis;
    if diagnosis.memory != Some(MemoryKind::Gpu) {
        return None;
    }
    let mut evidence = Vec::new();
    let mut weight: f64 = 0.0;
    let meets = |rank: u64| rank > 0 && diagnosis.facts.device == Some(0) || super::are_ranks(diagnosis);
    let rank = diagnosis.run.rank.filter(|rank| meets(*rank));
    if let Some(rank) = rank {
        let others = diagnosis.facts.other_processes.len();
        weight = if others > 0 { 0.96 } else { 0.3 };
        let company = if others > 0 { format!(", beside {others} other processes") } else { String::new() };
        evidence.push(format!(
            "rank {rank} ran on GPU 0{company}{}: each rank should have a card of its own",
            decisive(diagnosis)
        ));
    }
    if let Some((device, room)) = plan::another_gpu(situation, place, ledger) {
        weight = weight.max(0.35);
        evidence.push(format!("{} has {} free: {}", name_of_device(device), room.free, room.seen));
    }
    (weight > 0.0).then_some(Cause { cause: CauseKind::WrongDevice, weight, evidence })
}

/// Weights that were made larger than their file has them.
pub struct Widened {
    /// What speaks for it.
    evidence: String,
    /// Bits of a weight as it was loaded, 16 or 32.
    pub to_bits: u32,
}

impl Widened {
    /// For the verdict's sentence.
    pub fn said(&self) -> String {
        let file = if self.to_bits == 32 { "its file has 16" } else { "its file has fewer" };
        format!("Its weights were made {} bits each while loading; {file}.", self.to_bits)
    }
}

/// Whether the weights were made larger than their file while loading: by the log's own word, else because the run
/// held more bytes for each parameter than the model's file has.
pub fn widened(diagnosis: &Diagnosis) -> Option<Widened> {
    if diagnosis.memory != Some(MemoryKind::Gpu) {
        return None;
    }
    if let Some(to) = &diagnosis.run.widened {
        let weights = matches!(diagnosis.phase, Phase::Load | Phase::Startup | Phase::Unknown);
        let evidence = format!(
            "its weights were widened to {to} while loading, which takes two to four times what their file has"
        );
        return weights.then_some(Widened { evidence, to_bits: if to.contains("32") { 32 } else { 16 } });
    }
    // While it loads, weights are all that is there.
    let loading = diagnosis.phase == Phase::Load && diagnosis.raised_by.as_deref() == Some("pytorch");
    let name = diagnosis.run.model.as_deref().filter(|_| loading && diagnosis.run.notebook.is_none())?;
    let (row, called) = table::called(table::rows().ok()?, name)?;
    let had = diagnosis.facts.allocated_bytes?;
    let bits = had.0 as f64 * 8.0 / (row.billions * 1e9);
    let file_has = file_bits(name)?;
    // A fifth more is the work space of loading; twice and more is another type.
    if !bits.is_finite() || bits < file_has * 1.2 {
        return None;
    }
    let (to_bits, why) = match file_has {
        16.0 => (32, "loaders before transformers 5 take float32 unless they are told the type"),
        _ => (16, "what can't be calculated with as it is, on this card or with what is installed, is made 16 bits"),
    };
    let evidence = format!(
        "while loading it held {had} for the {} billion parameters of {}: {bits:.0} bits each or more, where its file has {file_has:.0}; {why}",
        row.billions, called
    );
    Some(Widened { evidence, to_bits })
}

/// The weights of the model of this name as its file has them; `None` where no row of the table has it. About.
pub fn weights_by_name(name: &str) -> Option<Bytes> {
    let row = table::find(table::rows().ok()?, name)?;
    let bytes = row.billions * 1e9 * file_bits(name)? / 8.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a model's size")]
    Some(Bytes(bytes as u64))
}

/// Bits of a weight in the file of this name, with its scales; `None` where its name tells of bits that may be any.
fn file_bits(name: &str) -> Option<f64> {
    let name = name.to_lowercase();
    let has = |signs: &[&str]| signs.iter().any(|sign| name.contains(sign));
    match () {
        () if has(&["gguf", "exl2", "exl3", "bnb", "int8", "8bit", "w8a"]) => None,
        () if has(&["gpt-oss", "mxfp4", "nvfp4", "awq", "gptq", "4bit", "int4", "nf4"]) => Some(5.0),
        () if has(&["fp8", "deepseek-v3", "deepseek-r1-0528"]) => Some(9.0),
        () => Some(16.0),
    }
}

/// Larger weights as a cause: where they fill the card, that they need not says more than that they do.
pub fn widened_weights(diagnosis: &Diagnosis, place: &Place<'_>) -> Option<Cause> {
    let evidence = vec![widened(diagnosis)?.evidence];
    let weight = weights_alone(diagnosis, place).map_or(0.6, |alone| alone.weight + 0.01);
    Some(Cause { cause: CauseKind::TooBig, weight, evidence })
}

/// What the likeliest cause adds to the plain sentence.
pub fn sentence<'a>(
    cause: CauseKind,
    situation: &Situation<'a>,
    place: &Place<'a>,
    ledger: Option<&Ledger>,
) -> Option<String> {
    let diagnosis = situation.diagnosis;
    Some(match cause {
        CauseKind::Growth => match diagnosis.run.stage {
            Some(Stage::Validation) if diagnosis.run.step.is_some() || diagnosis.run.epoch.is_some() => {
                "Its training steps fitted; the evaluation (validation) did not.".into()
            }
            _ => format!("It had come to {}, so it grew.", reached(diagnosis)?),
        },
        CauseKind::SameSession if models_kept(situation, place).is_some() => {
            let (row, held) = models_kept(situation, place)?;
            format!("{} itself still holds {held}: its models.", crate::advice::name_of(row))
        }
        CauseKind::SameSession => match kernel_itself(situation, place) {
            Some(kernel) if diagnosis.phase == Phase::Load => {
                format!("{} still holds what ran earlier in it.", crate::advice::name_of(kernel))
            }
            Some(kernel) => format!("{} still holds what the failed run had.", crate::advice::name_of(kernel)),
            None => "The notebook's own kernel still holds what ran earlier.".into(),
        },
        CauseKind::TooBig => match weights_alone(diagnosis, place).or_else(|| optimizer(diagnosis)) {
            _ if widened(diagnosis).is_some() => widened(diagnosis)?.said(),
            Some(cause) => format!("It does not fit as it is: {}.", cause.evidence.first()?),
            None => return None,
        },
        CauseKind::Context => format!("{} tokens of context are what does not fit.", diagnosis.run.context_tokens?),
        CauseKind::WrongDevice => match plan::another_gpu(situation, place, ledger) {
            Some((device, _)) if diagnosis.run.rank.is_none() => {
                format!("{} has room for it.", name_of_device(device))
            }
            _ => "Several ranks share that one card.".into(),
        },
        CauseKind::Batch if beside_its_share(diagnosis, place).is_some() => {
            format!(
                "{} is filled with weights and KV cache by design; what it works with (CUDA graphs, activations, the sampler) comes on top, and found too little.",
                share::in_words(diagnosis)?
            )
        }
        CauseKind::Batch if diagnosis.facts.context_tokens.is_some() => {
            format!("It tried {} tokens at once.", diagnosis.facts.context_tokens?)
        }
        CauseKind::Batch => match diagnosis.run.stage? {
            Stage::Backward => "It died in the backward pass.".into(),
            Stage::Decode => "It died at the last step, turning the result into pixels.".into(),
            Stage::Sampling => "It died while denoising.".into(),
            _ => return None,
        },
        _ => return None,
    })
}

/// The kernel does not always end what held most: by its own table, in a sentence, where that was another process.
pub fn held_most(diagnosis: &Diagnosis) -> Option<String> {
    let (largest, facts) = (diagnosis.run.largest.as_ref()?, &diagnosis.facts);
    let victim = facts.victim_pid.filter(|pid| *pid != largest.pid)?;
    let held = facts.victim_rss_bytes.unwrap_or(Bytes::ZERO);
    (u128::from(largest.rss_bytes.0) * 2 >= u128::from(held.0) * 3).then(|| {
        format!(
            "What held most was not what it ended ({victim}) but {} ({}), with {}.",
            largest.name, largest.pid, largest.rss_bytes
        )
    })
}

/// Figures that can't be true together, in a sentence.
pub fn contradiction(facts: &Facts) -> Option<String> {
    let total = facts.total_bytes?;
    let above = |bytes: Option<Bytes>| bytes.filter(|bytes| *bytes > total && !bytes.within_percent(total, 3));
    if let Some(had) = above(facts.allocated_bytes).or_else(|| above(facts.process_bytes)) {
        return Some(format!(
            "The log's figures contradict each other: {had} in use on a card of {total}. On Windows the driver lends system memory to programs, and then counts it in."
        ));
    }
    let free = above(facts.free_bytes)?;
    Some(format!("The log's figures contradict each other: {free} free on a card of {total}. I don't rely on them."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;

    #[test]
    fn a_notebook_that_holds_much_while_loading_holds_an_earlier_run() {
        let mut diagnosis = torch_oom(&[]);
        diagnosis.run.notebook = Some("Cell In[7]".into());
        diagnosis.phase = Phase::Load;
        let judged = |diagnosis: &Diagnosis| same_session(&Situation::alone(diagnosis), &Place::default());
        assert_eq!(judged(&diagnosis), None, "0.3 of 24 GiB is a context");
        diagnosis.facts.process_bytes = Some(Bytes::gib(14));
        assert_eq!(judged(&diagnosis).map(|cause| cause.weight), Some(0.75));
        diagnosis.run.notebook = Some("Cell In[1]".into());
        assert!(judged(&diagnosis).is_some_and(|cause| cause.weight < 0.4), "nothing ran before the first cell");
    }

    #[test]
    fn a_rank_on_card_0_among_others_is_on_the_wrong_card() {
        let judged = |rank, device, others: &[(u32, Bytes)]| {
            let mut diagnosis = torch_oom(others);
            (diagnosis.run.rank, diagnosis.facts.device) = (rank, device);
            let situation = Situation { ..Situation::alone(&diagnosis) };
            wrong_device(&situation, &Place::default(), None).map(|cause| cause.weight)
        };
        let three = [(1, Bytes::gib(5)), (2, Bytes::gib(5)), (3, Bytes::gib(5))];
        assert_eq!(judged(Some(3), Some(0), &three), Some(0.96));
        assert_eq!(judged(Some(3), Some(0), &[]), Some(0.3), "each rank may see its own card as 0");
        assert_eq!(judged(Some(0), Some(0), &three), Some(0.96), "the others are its own ranks");
        assert_eq!(judged(Some(0), Some(0), &[(1, Bytes::gib(5)), (900, Bytes::gib(2))]), None);
        assert_eq!(judged(Some(3), Some(3), &three), None);
    }

    #[test]
    fn more_in_use_than_the_card_has_is_said() {
        let mut diagnosis = torch_oom(&[]);
        assert_eq!(contradiction(&diagnosis.facts), None);
        diagnosis.facts.allocated_bytes = Some(Bytes::gib(31));
        let said = contradiction(&diagnosis.facts).unwrap();
        assert!(said.contains("31.0 GiB in use on a card of 24.0 GiB"), "{said}");
    }
}
