//! Owns what a training run trains, and in which precision. Values are places in `RECIPES`.

use crate::memory::knob::*;
use crate::memory::knobs::{checkpointing, dtype};
use crate::memory::shape::Storage;
use crate::memory::training::{Recipe, Training};

/// Ways to train, from what takes least to what takes most.
const RECIPES: [(Recipe, &str); 5] = [
    (Recipe::Qlora(16), "QLoRA, rank 16"),
    (Recipe::Lora(16), "LoRA, rank 16"),
    (Recipe::Pure16, "all, bf16 alone"),
    (Recipe::Full32, "all, float32"),
    (Recipe::Mixed, "all, mixed precision"),
];

pub(crate) static KNOB: Knob = Knob {
    name: "what is trained",
    engines: &[Kind::Train],
    fixes: &[FixId::LORA],
    get: Some(|engine, _| place(engine) as u64),
    set: Some(|engine, _, to| {
        let known = usize::try_from(to).ok().and_then(|place| RECIPES.get(place));
        if let (Engine::Train(training), Some((recipe, _))) = (engine, known) {
            training.recipe = *recipe;
        }
    }),
    states: Some(states),
    cost: |_, _, _| 5,
    proposals: adapters,
    step: |engine| match engine {
        Engine::Train(training) if !training.recipe.is_adapter() => {
            Some(Engine::Train(Training { recipe: Recipe::Lora(16), ..*training }))
        }
        _ => None,
    },
    ladder: Some(|_, _| (0..RECIPES.len() as u64).collect()),
    shown: Some(|engine, _| RECIPES.get(place(engine)).map_or("?", |(_, words)| words).to_owned()),
    ..Knob::PLAIN
};

/// The rank of an adapter is no place of its own.
fn place(engine: &Engine) -> usize {
    let Engine::Train(training) = engine else { return 0 };
    let kind = std::mem::discriminant(&training.recipe);
    RECIPES.iter().position(|(known, _)| std::mem::discriminant(known) == kind).unwrap_or(0)
}

fn states(engine: &Engine, _: Option<&ModelShape>) -> Option<Said> {
    let Engine::Train(training) = engine else { return None };
    Some(Said::Option(match training.recipe {
        Recipe::Full32 => return None,
        Recipe::Mixed => "bf16=True".to_owned(),
        Recipe::Pure16 => "dtype=torch.bfloat16".to_owned(),
        Recipe::Lora(rank) => lora(rank),
        Recipe::Qlora(rank) => {
            let nf4 = dtype::NF4;
            // ZeRO-3 shares out nothing that is packed into bytes (PEFT's page on DeepSpeed).
            let shared = nf4.replacen("bnb_4bit_use", "bnb_4bit_quant_storage=torch.bfloat16, bnb_4bit_use", 1);
            format!("{} {}", if training.sharing.stage == 3 { &shared } else { nf4 }, lora(rank))
        }
    }))
}

fn lora(rank: u64) -> String {
    format!("LoraConfig(r={rank}, target_modules=\"all-linear\")")
}

fn adapters(need: &Need<'_>) -> Vec<Proposal> {
    let Engine::Train(training) = need.engine else { return Vec::new() };
    let mut proposals = Vec::new();
    if !training.recipe.is_adapter() {
        proposals.push(adapter(need, training, Recipe::Lora(16), "LoRA of rank 16 and gradient checkpointing"));
    }
    // What is quantised already is taken as it is.
    if !matches!(training.recipe, Recipe::Qlora(_)) && need.shape.storage != Storage::Quantised {
        proposals.push(adapter(need, training, Recipe::Qlora(16), "QLoRA of rank 16 and gradient checkpointing"));
    }
    proposals
}

fn adapter(need: &Need<'_>, training: Training, recipe: Recipe, words: &str) -> Proposal {
    let engine = Engine::Train(Training { recipe, ..checkpointing::with(training) });
    need.propose(&[Turn { knob: &KNOB, to: place(&engine) as u64 }, checkpointing::ON], words, engine)
}
