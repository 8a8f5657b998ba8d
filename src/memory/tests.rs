//! The whole arithmetic on models as they are: the worked example, tied embeddings, hybrids, and sizes that lie.

use std::io::Cursor;

use proptest::prelude::*;

use super::gguf::testing::Builder;
use super::shape::{Figures, Recurrent, Window, from_gguf};
use super::*;
use crate::units::Bytes;

fn llama_8b() -> ModelShape {
    let figures = Figures {
        architecture: "llama".into(),
        layers: 32,
        hidden: 4096,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        ffn: 14_336,
        vocab: 128_256,
        context: 131_072,
        ..Figures::default()
    };
    from_gguf(&figures.as_gguf("Q4_K_M"))
}

#[test]
fn the_worked_example_comes_out() {
    let shape = llama_8b();
    let at = |settings: Settings| estimate(&shape, &Settings { context: Some(32_768), ..settings });
    let plain = at(Settings::default());
    // 4403.5 MiB on the card, less a rope table of 64 numbers that is left out here.
    assert_eq!(plain.weights, Part::fact(4_617_396_480 - 64 * 4));
    assert_eq!(plain.kv_cache, Part::fact(4096 << 20));
    assert_eq!(plain.recurrent, Part::fact(0));
    let q8 = ggml::GgmlType::Q8_0;
    let small = at(Settings { k_type: q8, v_type: q8, ..Settings::default() });
    assert_eq!(small.kv_cache, Part::fact(2176 << 20));
    assert_eq!(plain.compute.is, Is::About);
    let off = at(Settings { k_type: q8, v_type: q8, flash_attention: false, ..Settings::default() });
    assert!(off.kv_cache.why_not.unwrap().contains("flash attention"));
}

#[test]
fn what_makes_it_fit_fits_and_one_more_does_not() {
    let shape = llama_8b();
    let settings = Settings { context: Some(32_768), ..Settings::default() };
    let budget = Bytes::gib(6);
    let total = |settings: &Settings| estimate(&shape, settings).total().unwrap();
    assert!(total(&settings) > budget);
    let context = largest_context(&shape, &settings, budget).unwrap();
    assert!(total(&Settings { context: Some(context), ..settings }) <= budget);
    assert!(total(&Settings { context: Some(context + 256), ..settings }) > budget);
    let layers = best_layers(&shape, &settings, budget).unwrap();
    assert!((1..33).contains(&layers));
    assert!(total(&Settings { gpu_layers: Some(layers), ..settings }) <= budget);
    assert!(total(&Settings { gpu_layers: Some(layers + 1), ..settings }) > budget);
    assert_eq!(largest_context(&shape, &settings, Bytes::gib(2)), None);
    assert_eq!(best_layers(&shape, &settings, Bytes::mib(10)), Some(0), "nothing on the card always fits");
    assert_eq!(largest_context(&shape, &settings, Bytes::gib(80)), Some(131_072), "no more than it was made for");
    assert_eq!(fewest_host_experts(&shape, &settings, budget), None, "there are no experts");
}

#[test]
fn windows_and_states_are_summed_by_layer() {
    let base = Figures { layers: 48, hidden: 3840, heads: 16, kv_heads: 8, head_dim: 256, ..Figures::default() };
    let window = Window { size: 1024, pattern: "111110".into(), full_heads: Some((1, 512)) };
    let gemma = Figures { architecture: "gemma4".into(), window: Some(window), vocab: 1, ..base.clone() };
    let shape = from_gguf(&gemma.as_gguf("F16"));
    let settings = Settings { context: Some(8192), parallel: 4, unified: true, ..Settings::default() };
    let split = estimate(&shape, &settings).kv_split.unwrap();
    assert_eq!(split.full, 8 * 8192 * 2 * (512 + 512));
    assert_eq!(split.windowed, 40 * 4608 * 2 * (2048 + 2048));
    let state = Recurrent { interval: 4, conv: 4, state: 128, groups: 16, inner: 4096 };
    let next = Figures { architecture: "qwen3next".into(), recurrent: Some(state), kv_heads: 2, ..base };
    let shape = from_gguf(&next.as_gguf("F16"));
    let settings = Settings { context: Some(8192), parallel: 2, ..Settings::default() };
    assert_eq!(estimate(&shape, &settings).recurrent, Part::fact(79_036_416 * 2));
    assert_eq!(estimate(&shape, &settings).kv_cache, Part::fact(192 << 20));
}

#[test]
fn an_unknown_architecture_has_weights_and_no_cache() {
    let figures = Figures { architecture: "qwen9".into(), layers: 2, hidden: 64, vocab: 64, ..Figures::default() };
    let shape = from_gguf(&figures.as_gguf("F16"));
    let estimate = estimate(&shape, &Settings { context: Some(512), ..Settings::default() });
    assert!(estimate.weights.bytes.is_some());
    assert_eq!(estimate.kv_cache.bytes, None);
    assert_eq!(estimate.total(), None);
    assert!(estimate.why_not().unwrap().contains("qwen9"));
}

proptest! {
    #[test]
    fn no_figure_in_a_header_makes_it_panic(
        numbers in prop::collection::vec(prop_oneof![0_u32..100, any::<u32>(), Just(u32::MAX)], 12),
        arch in prop::sample::select(vec!["llama", "gemma3", "gemma3n", "qwen3next", "deepseek2", "mamba", "rwkv7"]),
        context in prop_oneof![0_u64..1 << 40, any::<u64>()],
        budget in any::<u64>(),
    ) {
        let names = ["block_count", "embedding_length", "attention.head_count", "attention.head_count_kv",
            "attention.key_length", "attention.sliding_window", "attention.sliding_window_pattern", "context_length",
            "ssm.inner_size", "ssm.state_size", "vocab_size", "attention.shared_kv_layers"];
        let mut builder = Builder::default().text("general.architecture", arch);
        for (name, number) in names.iter().zip(&numbers) {
            builder = builder.number(&format!("{arch}.{name}"), *number);
        }
        let (bytes, length) = builder.header();
        let shape = from_gguf(&gguf::read(Cursor::new(bytes), length).unwrap());
        let settings = Settings { context: Some(context), micro_batch: context, ..Settings::default() };
        let _ = estimate(&shape, &settings).total();
        let _ = largest_context(&shape, &settings, Bytes(budget));
        let _ = best_layers(&shape, &settings, Bytes(budget));
    }
}
