//! What the proposals for the PyTorch engines are held to.

use super::*;
use crate::memory::fits::fits;
use crate::memory::inference::{self, Dtype, Generating};
use crate::memory::knobs::{dtype, quantization};
use crate::memory::shape::Storage;
use crate::memory::visible::Counted;
use crate::memory::{refusal, sglang, table, vllm};

fn model(name: &str) -> ModelShape {
    table::shape(&table::find(table::rows().unwrap(), name).unwrap(), "BF16")
}

/// A GPU of 24 GiB, of which a desktop has some.
fn cards() -> Vec<Card> {
    vec![Card {
        index: 0,
        counted: Counted::default(),
        name: "A".into(),
        total: Bytes::gib(24),
        free: Bytes::mib(23_860),
        each: Vec::new(),
    }]
}

fn offered(engine: Engine, shape: &ModelShape) -> Vec<Choice> {
    let cards = cards();
    options(engine, shape, cards.first(), &cards)
}

fn fitting(engine: Engine, shape: &ModelShape) -> Vec<Choice> {
    offered(engine, shape).into_iter().filter(|choice| choice.fits == Some(true)).collect()
}

fn context_of(choice: &Choice, shape: &ModelShape) -> Option<u64> {
    choice.engine.and_then(|engine| engine.context(shape))
}

#[test]
fn a_share_that_is_too_low_is_raised_and_to_no_more_than_needed() {
    let llama = model("llama-3.1-8b");
    let at = |utilization, tokens| {
        Engine::Vllm(vllm::Serving { utilization, max_model_len: tokens, ..vllm::Serving::default() })
    };
    let first = |engine| {
        let first = fitting(engine, &llama).into_iter().next().unwrap();
        (first.turned(&share::KNOB), context_of(&first, &llama))
    };
    assert_eq!(first(at(700, Some(8192))), (Some(920), Some(8192)), "its default is enough");
    assert_eq!(first(at(900, Some(52_000))), (Some(950), Some(52_000)));
    let together = fitting(at(10, None), &llama);
    assert!(
        matches!(together.as_slice(), [choice] if choice.turns.len() == 2 && context_of(choice, &llama) > Some(40_000)),
        "a larger share and a shorter context: {together:?}"
    );
    assert!(fitting(at(920, Some(8192)), &llama).iter().all(|choice| choice.turned(&share::KNOB).is_none()));
}

#[test]
fn sglangs_own_share_is_raised_together_with_other_changes() {
    let usual = |shape: &ModelShape, context| {
        let card = Some(Bytes::gib(24));
        Engine::Sglang(sglang::Serving { context, ..sglang::Serving::of_model(shape, card, 1) })
    };
    let qwen = model("qwen3-32b");
    let found = offered(usual(&qwen, Some(8192)), &qwen);
    let best = found.iter().find(|choice| choice.fits == Some(true)).unwrap();
    assert!(best.change.contains("4 bits") && best.change.contains("larger share"), "{}", best.change);
    assert!(best.flags.as_ref().unwrap().contains("--mem-fraction-static 0.9"), "{:?}", best.flags);
    let llama = model("llama-3.1-8b");
    let both = fitting(usual(&llama, None), &llama);
    let tokens = |turns: usize| {
        let of_context = |choice: &&Choice| {
            choice.turns.len() == turns && choice.turns.iter().any(|turn| turn.knob == &context::KNOB)
        };
        context_of(both.iter().find(of_context).unwrap(), &llama).unwrap()
    };
    let (plain, larger) = (tokens(1), tokens(2));
    assert!(larger > plain * 3, "{larger} and {plain}");
}

#[test]
fn heads_that_cannot_be_shared_out_are_refused_and_another_number_of_cards_is_offered() {
    let large = model("llama-3.3-70b");
    let card = |index| Card {
        index,
        counted: Counted::default(),
        name: "A".into(),
        total: Bytes::gib(80),
        free: Bytes::gib(79),
        each: Vec::new(),
    };
    let cards: Vec<Card> = (0..8).map(card).collect();
    let asked = Engine::Vllm(vllm::Serving {
        max_model_len: Some(8192),
        tensor_parallel: 3,
        ..vllm::Serving::of_card(Some(Bytes::gib(80)))
    });
    assert_eq!(fits(&asked, &large, cards.first()), Some(false));
    assert!(asked.refusal(&large).unwrap().contains("64 attention heads"));
    let found = options(asked, &large, cards.first(), &cards);
    assert!(found.iter().any(|choice| choice.turned(&gpus::KNOB) == Some(2) && choice.fits == Some(true)));
    // 8 heads of K and V go to 16 cards twice over, and not to 5 or 12.
    let shares = [1, 2, 4, 8, 16, 5, 12].map(|ranks| refusal::shares_out(&large, ranks));
    assert_eq!(shares, [true, true, true, true, true, false, false]);
}

#[test]
fn what_is_quantised_already_is_quantised_no_further() {
    let mut awq = model("llama-3.1-8b");
    awq.storage = Storage::Quantised;
    awq.weights = Ok(awq.weights.unwrap().scaled(36, 100));
    let generating = Generating::of(Dtype::Checkpoint, None);
    let turned = |engine, shape: &ModelShape, knob: &Knob| -> Vec<u64> {
        offered(engine, shape).iter().filter_map(|choice| choice.turned(knob)).collect()
    };
    assert_eq!(turned(Engine::Transformers(generating), &awq, &dtype::KNOB), Vec::<u64>::new());
    let serving = Engine::Vllm(vllm::Serving::default());
    assert_eq!(turned(serving, &awq, &quantization::KNOB), Vec::<u64>::new());
    assert_eq!(inference::weight_bytes(&awq, Dtype::Nf4), awq.checkpoint());
    let gguf = ModelShape { storage: Storage::Gguf, ..model("llama-3.1-8b") };
    let wide = [Dtype::Checkpoint, Dtype::Half].map(|dtype| inference::weight_bytes(&gguf, dtype).unwrap() >> 30);
    assert_eq!(wide, [29, 14], "unpacked to float32, or as asked");
    assert_eq!(turned(Engine::Transformers(generating), &gguf, &dtype::KNOB), [16]);
    let four = Engine::Transformers(Generating::of(Dtype::Nf4, Some(1024)));
    assert_eq!(fitting(four, &gguf).first().unwrap().turned(&dtype::KNOB), Some(16));
}
