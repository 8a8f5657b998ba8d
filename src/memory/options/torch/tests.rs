//! Owns what the offers of the PyTorch engines are held to.

use super::super::{Card, Change, options};
use super::*;
use crate::memory::table;
use crate::units::Bytes;

fn model(name: &str) -> ModelShape {
    table::shape(&table::find(table::rows().unwrap(), name).unwrap(), "BF16")
}

/// A card of 24 GiB, of which a desktop has some.
fn cards() -> Vec<Card> {
    vec![Card {
        index: 0,
        uuid: None,
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

fn fitting(engine: Engine, shape: &ModelShape) -> Vec<(Change, Option<u64>)> {
    let choices = offered(engine, shape);
    let fitting = choices.into_iter().filter(|choice| choice.fits == Some(true));
    fitting.map(|choice| (choice.kind, choice.engine.and_then(|engine| engine.context(shape)))).collect()
}

#[test]
fn a_share_that_is_too_low_is_raised_and_to_no_more_than_needed() {
    let llama = model("llama-3.1-8b");
    let at = |utilization, tokens| {
        Engine::Vllm(vllm::Serving { utilization, max_model_len: tokens, ..vllm::Serving::default() })
    };
    let first = |engine| fitting(engine, &llama).first().copied();
    assert_eq!(first(at(700, Some(8192))), Some((Change::Utilization(920), Some(8192))), "its default is enough");
    assert_eq!(first(at(900, Some(52_000))), Some((Change::Utilization(950), Some(52_000))));
    let together = fitting(at(10, None), &llama);
    assert!(
        matches!(together.as_slice(), [(Change::Together(tokens), _)] if *tokens > 40_000),
        "a larger share and a shorter context: {together:?}"
    );
    assert!(fitting(at(920, Some(8192)), &llama).iter().all(|(kind, _)| !matches!(kind, Change::Utilization(_))));
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
    let tokens = |wanted: fn(&Change) -> bool| both.iter().find(|(kind, _)| wanted(kind)).unwrap().1.unwrap();
    let plain = tokens(|kind| matches!(kind, Change::Context(_)));
    let larger = tokens(|kind| matches!(kind, Change::Together(_)));
    assert!(larger > plain * 3, "{larger} and {plain}");
}

#[test]
fn heads_that_cannot_be_shared_out_are_refused_and_another_number_of_cards_is_offered() {
    let large = model("llama-3.3-70b");
    let card = |index| Card {
        index,
        uuid: None,
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
    assert!(found.iter().any(|choice| choice.kind == Change::TensorParallel(2) && choice.fits == Some(true)));
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
    let kinds = |choices: Vec<Choice>| choices.into_iter().map(|choice| choice.kind).collect::<Vec<_>>();
    let offers = kinds(offered(Engine::Transformers(generating), &awq));
    assert!(offers.iter().all(|kind| !matches!(kind, Change::Dtype(_))), "{offers:?}");
    let offers = kinds(offered(Engine::Vllm(vllm::Serving::default()), &awq));
    assert!(!offers.contains(&Change::FourBits), "{offers:?}");
    assert_eq!(inference::weight_bytes(&awq, Dtype::Nf4), awq.checkpoint());
    let gguf = ModelShape { storage: Storage::Gguf, ..model("llama-3.1-8b") };
    let wide = [Dtype::Checkpoint, Dtype::Half].map(|dtype| inference::weight_bytes(&gguf, dtype).unwrap() >> 30);
    assert_eq!(wide, [29, 14], "unpacked to float32, or as asked");
    let offers = kinds(offered(Engine::Transformers(generating), &gguf));
    assert!(offers.contains(&Change::Dtype(Dtype::Half)) && !offers.contains(&Change::Dtype(Dtype::Nf4)), "{offers:?}");
    assert_eq!(
        fitting(Engine::Transformers(Generating::of(Dtype::Nf4, Some(1024))), &gguf).first().unwrap().0,
        Change::Dtype(Dtype::Half)
    );
}
