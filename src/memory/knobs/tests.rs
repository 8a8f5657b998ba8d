//! Every dial from one end to the other, and what a command line says of each knob.

use super::*;
use crate::memory::ggml::GgmlType;
use crate::memory::inference::{Dtype, Generating};
use crate::memory::settings::Settings;
use crate::memory::training::{Optimizer, Recipe, Sharing, Step, Training};
use crate::memory::{sglang, table, vllm};

fn model(name: &str) -> ModelShape {
    table::shape(&table::find(table::rows().unwrap(), name).unwrap(), "Q4_K_M")
}

fn engines() -> Vec<Engine> {
    let step = Step { batch: 4, length: 2048, checkpointing: false, flash_attention: true };
    vec![
        Engine::LlamaCpp(Settings { context: Some(5000), parallel: 3, ..Settings::default() }),
        Engine::Ollama(Settings { context: Some(8192), parallel: 2, ..Settings::default() }),
        Engine::Vllm(vllm::Serving { max_model_len: Some(4096), ..vllm::Serving::default() }),
        Engine::Sglang(sglang::Serving { context: Some(4096), ..sglang::Serving::of_card(None, 1) }),
        Engine::Transformers(Generating::of(Dtype::Half, Some(4096))),
        Engine::Train(Training {
            recipe: Recipe::Mixed,
            optimizer: Optimizer::AdamW,
            sharing: Sharing { cards: 4, ..Sharing::default() },
            step,
        }),
    ]
}

#[test]
fn every_dial_goes_to_both_ends_and_back_and_less_takes_less() {
    let shape = model("qwen3-30b-a3b");
    for engine in engines() {
        for knob in dials(&engine, &shape) {
            let least = knob.turned(engine, &shape, i32::MIN);
            let most = knob.turned(engine, &shape, i32::MAX);
            let name = knob.name;
            assert_eq!(knob.room(&least, &shape), (false, true), "{name}");
            assert_eq!(knob.room(&most, &shape), (true, false), "{name}");
            let mut here = least;
            while knob.room(&here, &shape).1 {
                let next = knob.turned(here, &shape, 1);
                assert_eq!(knob.turned(next, &shape, -1), here, "{name} {}", knob.shown(&next, &shape).unwrap());
                here = next;
            }
            assert_eq!(here, most, "{name}");
            let takes = |engine: &Engine| engine.estimate(&shape).total().unwrap();
            match knob {
                // The share says what may be taken, not what is.
                _ if knob == &share::KNOB => {}
                _ if knob == &host_experts::KNOB => assert!(takes(&least) > takes(&most), "{name}"),
                // llama.cpp shares its context out to its slots.
                _ => assert!(takes(&least) <= takes(&most), "{name}"),
            }
        }
    }
}

#[test]
fn what_stands_beside_the_ladder_goes_to_its_neighbour() {
    let shape = model("llama-3.1-8b");
    let (llama, ollama) = (engines()[0], engines()[1]);
    let tokens = |by| context::KNOB.turned(llama, &shape, by).context(&shape);
    assert_eq!((tokens(1), tokens(-1), tokens(2)), (Some(6144), Some(4096), Some(8192)));
    let more = slots::KNOB.turned(ollama, &shape, 1);
    assert_eq!((more.context(&shape), context::KNOB.shown(&more, &shape).unwrap()), (Some(16_384), "4K".to_owned()));
    let Engine::LlamaCpp(four) =
        kv_type::KNOB.turned(Engine::LlamaCpp(Settings { flash_attention: false, ..Settings::default() }), &shape, -1)
    else {
        panic!()
    };
    assert!(four.flash_attention && four.v_type == GgmlType::Q8_0);
}

#[test]
fn every_knob_is_told_from_the_others_and_stands_at_a_place_of_its_own() {
    for (at, (knob, place, dial)) in KNOBS.iter().enumerate() {
        assert!(!knob.name.is_empty());
        for (other, other_place, other_dial) in &KNOBS[at + 1..] {
            assert_ne!(knob, other);
            assert!(*place == NONE || place != other_place, "{:?} and {:?}", knob, other);
            assert!(*dial == NONE || dial != other_dial, "{:?} and {:?}", knob, other);
        }
        assert_eq!(*dial == NONE, knob.ladder.is_none(), "{:?}", knob);
    }
}

#[test]
fn an_option_is_known_by_all_its_spellings_and_read_where_it_stands_last() {
    assert_eq!(spellings(Program::LlamaCpp, "--ctx-size"), Some(&["-c", "--ctx-size"][..]));
    assert_eq!(spellings(Program::Vllm, "-c"), None, "another program's");
    let line = "OLLAMA_CONTEXT_LENGTH=1 llama-server -c 4096 --ctx-size=8192 -np 2";
    assert_eq!((context::KNOB.typed(line), context::KNOB.variable(line)), (Some("8192"), Some("1")));
    assert_eq!((slots::KNOB.typed(line), layers::KNOB.typed(line)), (Some("2"), None));
}
