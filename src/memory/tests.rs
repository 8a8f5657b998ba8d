//! The whole arithmetic on models as they are: the worked example, tied embeddings, hybrids, and sizes that lie.

use std::io::Cursor;

use proptest::prelude::*;

use super::fits::largest_context;
use super::gguf::Value;
use super::gguf::testing::Builder;
use super::shape::{Compressing, Figures, Recurrent, Window, from_gguf};
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
    // 4403.5 MiB on the GPU, less a rope table of 64 numbers that is left out here.
    assert_eq!(plain.weights, Part::fact(4_617_396_480 - 64 * 4));
    assert_eq!(plain.kv_cache, Part::fact(4096 << 20));
    assert_eq!(plain.recurrent, Part::fact(0));
    let q8 = GgmlType::Q8_0;
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
    let total = |settings: &Settings| estimate(&shape, settings).wanted(1).unwrap();
    assert!(total(&settings) > budget);
    let context = largest_context(&shape, &settings, budget).unwrap();
    assert!(total(&Settings { context: Some(context), ..settings }) <= budget);
    assert!(total(&Settings { context: Some(context + 256), ..settings }) > budget);
    let layers = best_layers(&shape, &settings, &[budget]).unwrap();
    assert!((1..33).contains(&layers));
    assert!(total(&Settings { gpu_layers: Some(layers), ..settings }) <= budget);
    assert!(total(&Settings { gpu_layers: Some(layers + 1), ..settings }) > budget);
    assert_eq!(largest_context(&shape, &settings, Bytes::gib(2)), None);
    assert_eq!(best_layers(&shape, &settings, &[Bytes::gib(1)]), None, "prompts are computed there all the same");
    assert_eq!(largest_context(&shape, &settings, Bytes::gib(80)), Some(131_072), "no more than it was made for");
    assert_eq!(largest_context(&shape, &settings, Bytes::gib(80)), Some(131_072), "no more than it was made for");
    assert_eq!(fewest_host_experts(&shape, &settings, &[budget]), None, "there are no experts");
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

/// K elements of each layer's cache (0 for none) and numbers of its state, for a header with these keys.
fn per_layer(arch: &str, numbers: &[(&str, u32)], lists: &[(&str, &[u32])]) -> Vec<(u64, u64)> {
    let mut builder = Builder::default().text("general.architecture", arch);
    for (name, number) in numbers {
        builder = builder.number(&format!("{arch}.{name}"), *number);
    }
    for (name, list) in lists {
        builder = builder.list(&format!("{arch}.{name}"), list);
    }
    let (bytes, length) = builder.header();
    let shape = from_gguf(&gguf::read(Cursor::new(bytes), length).unwrap());
    let layers = shape.layers.unwrap();
    layers.iter().map(|layer| (layer.cache.map_or(0, |cache| cache.k), layer.recurrent.unwrap())).collect()
}

#[test]
fn each_kind_of_layer_keeps_what_it_should() {
    let base = [("embedding_length", 64), ("attention.head_count", 4), ("attention.key_length", 16)];
    let of = |arch: &str, blocks: u32, numbers: &[(&str, u32)], lists: &[(&str, &[u32])]| {
        per_layer(arch, &[&base, numbers, &[("block_count", blocks)]].concat(), lists)
    };
    let ssm = [("ssm.conv_kernel", 4), ("ssm.inner_size", 32), ("ssm.state_size", 8), ("ssm.group_count", 1)];
    let state = 3 * (32 + 2 * 8) + 8 * 32;
    assert_eq!(of("llama", 2, &[("attention.head_count_kv", 2)], &[]), [(32, 0), (32, 0)]);
    assert_eq!(of("falcon-h1", 1, &ssm, &[]), [(64, state)], "both");
    let heads: (&str, &[u32]) = ("attention.head_count_kv", &[0, 2, 0]);
    assert_eq!(of("jamba", 3, &ssm, &[heads]), [(0, state), (32, 0), (0, state)]);
    let forward: (&str, &[u32]) = ("feed_forward_length", &[0, 0, 128]);
    assert_eq!(of("nemotron_h", 3, &ssm, &[heads, forward]), [(0, state), (32, 0), (0, 0)]);
    assert_eq!(of("lfm2", 3, &[("shortconv.l_cache", 3)], &[heads]), [(0, 128), (32, 0), (0, 128)]);
    assert_eq!(of("rwkv6", 1, &[("wkv.head_size", 16), ("token_shift_count", 2)], &[]), [(0, 64 * 18)]);
    let kda = [("kda.head_dim", 16), ("ssm.conv_kernel", 4)];
    assert_eq!(of("kimi-linear", 3, &kda, &[heads]), [(0, 3 * 3 * 64 + 64 * 16), (32, 0), (0, 3 * 3 * 64 + 64 * 16)]);
    assert_eq!(of("gemma4", 3, &[("attention.shared_kv_layers", 2)], &[]), [(64, 0), (0, 0), (0, 0)]);
    assert_eq!(of("glm4moe", 3, &[("nextn_predict_layers", 1)], &[]).len(), 2, "prediction layers are not loaded");
    assert_eq!(of("bert", 1, &[], &[]), [(0, 0)]);
}

#[test]
fn rows_of_several_tokens_lie_beside_a_window() {
    let figures = |pattern: &str| Figures {
        architecture: "deepseek4".into(),
        layers: 3,
        hidden: 64,
        heads: 4,
        kv_heads: 1,
        head_dim: 32,
        vocab: 64,
        context: 4096,
        window: Some(Window { size: 128, pattern: "1".into(), full_heads: None }),
        compressing: Some(Compressing { pattern: pattern.into(), q_lora: 16, output: (2, 16), indexer: (2, 32) }),
        ..Figures::default()
    };
    let shape = from_gguf(&figures("-4H").as_gguf("F16"));
    assert_eq!(shape.cache_is, Is::Fact);
    let settings = Settings { context: Some(4096), ..Settings::default() };
    let whole = estimate(&shape, &settings);
    // 128 and a micro-batch of 512 are 768 cells; 4096 / 4 rows with 32 more, and 32 of 128, of which 256 are kept.
    let cells = 3 * 768 * 32 + 1024 * 64 + 256 * 32;
    assert_eq!(whole.kv_cache, Part::fact(cells * 2));
    // Values and weights in f32: twice eight tokens of 64, and 128 of 32.
    assert_eq!(whole.recurrent, Part::fact((2 * 2 * 64 * 8 + 2 * 32 * 128) * 4));
    assert!(whole.compute.why_not.is_some() && whole.total().is_none());
    // Each slot has its own, even where the others' would be shared.
    let slots = estimate(&shape, &Settings { parallel: 2, unified: true, ..settings });
    assert_eq!(slots.kv_cache, Part::fact(cells * 4));
    // Other engines lay them out in their own ways.
    let serving = vllm::Serving { max_model_len: Some(4096), ..Default::default() };
    assert!(vllm::estimate(&shape, &serving).kv_cache.why_not.unwrap().contains("vLLM"));
    let serving = sglang::Serving::of_model(&shape, None, 1);
    let sglang = sglang::estimate(&shape, &serving);
    assert!(sglang.kv_cache.why_not.unwrap().contains("SGLang") && sglang.weights.bytes.is_some());
    let mut gguf = figures("-4H").as_gguf("F16");
    gguf.metadata.set("deepseek4.attention.compress_ratios", Value::Text("none".into()));
    assert!(from_gguf(&gguf).layers.unwrap_err().contains("compress"));
}

#[test]
fn only_the_large_exaone_has_windows() {
    let windows = |layers: u64| {
        let window = Some(Window { size: 4096, pattern: "1110".into(), full_heads: None });
        let sizes = Figures { layers, hidden: 64, heads: 4, kv_heads: 4, head_dim: 16, ..Figures::default() };
        let figures = Figures { architecture: "exaone4".into(), vocab: 64, window, ..sizes };
        from_gguf(&figures.as_gguf("F16")).layers.unwrap().iter().filter(|layer| layer.cache.unwrap().windowed).count()
    };
    assert_eq!((windows(64), windows(30)), (48, 0));
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
        let _ = best_layers(&shape, &settings, &[Bytes(budget)]);
    }

    #[test]
    fn damaged_texts_never_make_the_readers_panic(
        text in r#"[\[\]{}:,"a-z0-9_.-]{0,200}"#,
        number in any::<u64>(),
        length in 0_u64..1 << 50,
        key in prop::sample::select(vec!["num_hidden_layers", "hidden_size", "num_attention_heads", "head_dim",
            "kv_lora_rank", "sliding_window", "num_experts", "linear_key_head_dim"]),
    ) {
        let _ = config::read(text.as_bytes(), "x");
        let usual = r#""model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2"#;
        let config = format!("{{{}, \"x\": 1}}", usual.replace(&format!("\"{key}\":"), "\"y\":"))
            .replace("\"x\": 1", &format!("\"{key}\": {number}"));
        if let Ok(read) = config::read(config.as_bytes(), "x") {
            let shape = from_gguf(&read.figures.as_gguf("Q4_K_M"));
            let _ = estimate(&shape, &Settings { context: Some(number), ..Settings::default() });
            let _ = vllm::estimate(&shape, &vllm::Serving { max_model_len: Some(number), ..vllm::Serving::default() });
            let step = Step { batch: number, length, checkpointing: false, flash_attention: false };
            let _ = training::estimate(&shape, &Training {
                recipe: Recipe::Qlora(number),
                optimizer: Optimizer::AdamW,
                sharing: Sharing { stage: 3, cards: number, offload: false, fsdp: false },
                step,
            }).total();
            let serving = sglang::Serving::of_card(Some(Bytes(length)), number);
            let _ = sglang::estimate(&shape, &sglang::Serving { context: Some(number), ..serving }).total();
            let _ = sglang::fits(&shape, &serving, Bytes(number));
            let _ = split::over(&shape, &Settings { context: Some(4096), ..Settings::default() }, split::Mode::Row,
                &[number, length, 1], 0);
        }
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        let _ = safetensors::read(bytes.as_slice(), length);
    }
}
