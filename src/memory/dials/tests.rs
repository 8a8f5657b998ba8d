//! Every dial from one end to the other.

use super::*;
use crate::memory::table;

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
        for dial in of(&engine, &shape) {
            let least = dial.turned(engine, &shape, i32::MIN);
            let most = dial.turned(engine, &shape, i32::MAX);
            let name = dial.name(&engine);
            assert_eq!(dial.room(&least, &shape), (false, true), "{name}");
            assert_eq!(dial.room(&most, &shape), (true, false), "{name}");
            let mut here = least;
            while dial.room(&here, &shape).1 {
                let next = dial.turned(here, &shape, 1);
                assert_eq!(dial.turned(next, &shape, -1), here, "{name} {}", dial.value(&next, &shape));
                here = next;
            }
            assert_eq!(here, most, "{name}");
            let takes = |engine: &Engine| engine.estimate(&shape).total().unwrap();
            match dial {
                // The share says what may be taken, not what is.
                Dial::Utilization => {}
                Dial::HostExperts => assert!(takes(&least) > takes(&most), "{name}"),
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
    let tokens = |by| Dial::Context.turned(llama, &shape, by).context(&shape);
    assert_eq!((tokens(1), tokens(-1), tokens(2)), (Some(6144), Some(4096), Some(8192)));
    let more = Dial::Slots.turned(ollama, &shape, 1);
    assert_eq!((more.context(&shape), Dial::Context.value(&more, &shape)), (Some(16_384), "4K".to_owned()));
    let Engine::LlamaCpp(four) =
        Dial::Cache.turned(Engine::LlamaCpp(Settings { flash_attention: false, ..Settings::default() }), &shape, -1)
    else {
        panic!()
    };
    assert!(four.flash_attention && four.v_type == GgmlType::Q8_0);
}
