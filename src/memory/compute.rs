//! Owns the compute buffer of one device: the largest phase of a graph, beside its masks. About; plan with `margin`. Builds
//! of llama.cpp since June 2026 keep logits for each slot and reserve the f16 copy of a quantised cache; those before keep
//! logits for each token of a micro-batch. Error bars are with each part. In bytes. Knows nothing of caches' sizes.

mod card;
mod graph;
mod phases;
mod processor;

pub use graph::{Graph, Place, scratch};

use super::settings::{Backend, Outputs, Settings};

/// Bytes of the compute buffer on one device for a padded context; `None` past u64.
pub fn buffer(graph: &Graph, settings: &Settings, context: u64) -> Option<u64> {
    // What programs reserve on the processor was only seen of builds that keep a micro-batch.
    if settings.backend == Backend::Cpu && settings.outputs == Outputs::MicroBatch {
        return processor::buffer(graph, settings, context);
    }
    card::buffer(graph, settings, context)
}

/// What to keep free beside an estimated buffer: a tenth of it, at least 64 MiB.
pub fn margin(buffer: u64) -> u64 {
    (buffer / 10).max(64 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ggml::GgmlType;

    const LLAMA_8B: Graph = Graph {
        embedding: 4096,
        heads: 32,
        query: 4096,
        gated: false,
        feed_forward: 14_336,
        experts_used: 0,
        vocab: 128_256,
        widest: (1024, 1024),
        window: 0,
        mla: false,
        indexed: false,
        attends: true,
        passing: 0,
        passing_pair: 0,
        passing_cache: 0,
        output_passing: 0,
        per_layer: 0,
        place: Place::Only,
    };

    fn of(graph: &Graph, settings: Settings, context: u64) -> f64 {
        buffer(graph, &settings, context).unwrap() as f64 / 1_048_576.0
    }

    const TODAY: fn() -> Settings = || Settings { outputs: Outputs::Slots, ..Settings::default() };

    #[test]
    fn on_the_processor_logits_are_kept_for_a_micro_batch() {
        let all = Settings { backend: Backend::Cpu, ..Settings::default() };
        assert_eq!(of(&LLAMA_8B, all, 32_768), 266.5);
        assert_eq!(of(&LLAMA_8B, Settings { flash_attention: false, ..all }, 8192), 572.0);
    }

    /// What llama.cpp of May 2026 (in the crate llama-cpp-sys-2 0.1.146) reserves for these shapes, measured without a
    /// card on 2026-11-21, in MiB.
    #[test]
    fn earlier_builds_reserve_what_was_measured() {
        let plain = Settings::default();
        let off = Settings { flash_attention: false, ..plain };
        let eight = Settings { k_type: GgmlType::Q8_0, v_type: GgmlType::Q8_0, ..plain };
        let three = Settings { devices: 3, ..plain };
        let at = |place| Graph { place, ..LLAMA_8B };
        let over = Graph { passing: 31 << 20, passing_cache: 512 << 20, ..LLAMA_8B };
        let none = Graph { passing: 31 << 20, output_passing: 411 << 20, ..LLAMA_8B };
        let first = Graph { passing_cache: 128 << 20, place: Place::First, ..over };
        let rows: [(&str, Graph, Settings, u64, f64); 12] = [
            ("short", LLAMA_8B, plain, 4096, 258.5),
            ("long, the mask beside its copy", LLAMA_8B, plain, 131_072, 416.01),
            ("q8_0 without a copy in f16", LLAMA_8B, eight, 32_768, 266.5),
            ("flash attention off", LLAMA_8B, off, 32_768, 2148.01),
            ("first of three", at(Place::First), three, 32_768, 428.04),
            ("second of three", at(Place::Middle), three, 32_768, 300.05),
            ("last of three", at(Place::Last), three, 32_768, 450.55),
            (
                "last of three, flash attention off",
                at(Place::Last),
                Settings { flash_attention: false, ..three },
                32_768,
                2416.03,
            ),
            ("layers on the host", over, plain, 131_072, 920.0),
            ("first of three, layers on the host", first, plain, 32_768, 249.0),
            ("second of three, layers on the host", at(Place::Middle), plain, 32_768, 132.01),
            ("no layer on the card", none, plain, 8192, 701.5),
        ];
        for (name, graph, settings, context, measured) in rows {
            let ours = of(&graph, settings, context);
            assert!((ours / measured - 1.0).abs() < 0.08, "{name}: {ours} against {measured}");
        }
    }

    /// 560.07 MiB were printed for Gemma-4-E2B with -ub 2048 on Vulkan (b9849, read on 2026-11-21); 0.6.0 reserves 502.07.
    #[test]
    fn inputs_of_single_layers_count() {
        let e2b =
            Graph { embedding: 1536, query: 4096, heads: 8, feed_forward: 12_288, widest: (512, 512), ..LLAMA_8B };
        let e2b = Graph { per_layer: 35 * 256, window: 512, vocab: 262_144, ..e2b };
        let ours = of(&e2b, Settings { micro_batch: 2048, ..TODAY() }, 8192);
        assert!((502.0..561.0).contains(&ours), "{ours}");
    }

    /// A pair of one layer's experts stays where layers are recurrent: 966.5 MiB were printed for Qwen3.5-122B-A10B at 16K
    /// and at 128K (github.com/miminashi/llm-server-ops, April 2026, read on 2026-11-21).
    #[test]
    fn two_matrices_of_experts_stay_beside_recurrent_layers() {
        let gated = Graph { embedding: 3072, experts_used: 8, feed_forward: 8192, gated: true, ..LLAMA_8B };
        let gated = Graph { passing: 528 << 20, passing_pair: 960 << 20, place: Place::First, ..gated };
        for context in [16_384, 131_072] {
            let ours = of(&gated, Settings::default(), context);
            assert!((ours / 966.5 - 1.0).abs() < 0.04, "{ours}");
        }
    }

    /// What llama.cpp 0.6.0 reserves for these shapes, measured without a GPU (see `today`), in MiB.
    #[test]
    fn todays_builds_reserve_what_was_measured() {
        let eight = |settings: Settings| Settings { k_type: GgmlType::Q8_0, v_type: GgmlType::Q8_0, ..settings };
        let off = |settings: Settings| Settings { flash_attention: false, ..settings };
        let wide = |settings: Settings| Settings { micro_batch: 2048, ..settings };
        let two = |settings: Settings| Settings { devices: 2, ..settings };
        let small = Graph { embedding: 2560, query: 4096, feed_forward: 9728, vocab: 151_936, ..LLAMA_8B };
        let gemma = Graph {
            embedding: 5376,
            query: 4096,
            feed_forward: 21_504,
            vocab: 262_144,
            widest: (2048, 2048),
            window: 1024,
            ..LLAMA_8B
        };
        let experts = Graph { embedding: 4096, query: 8192, heads: 64, feed_forward: 12_288, experts_used: 8, ..small };
        let experts = Graph { widest: (512, 512), ..experts };
        let hybrid = Graph { embedding: 5120, query: 6144, heads: 24, gated: true, feed_forward: 17_408, ..gemma };
        let hybrid = Graph { widest: (1024, 1024), window: 0, vocab: 248_320, ..hybrid };
        let r1 = Graph { embedding: 7168, heads: 128, mla: true, feed_forward: 18_432, ..experts };
        let rows: [(&str, &Graph, Settings, u64, f64); 16] = [
            ("Llama-3.1-8B", &LLAMA_8B, TODAY(), 4096, 120.01),
            ("Llama-3.1-8B", &LLAMA_8B, TODAY(), 32_768, 148.01),
            ("Llama-3.1-8B q8_0", &LLAMA_8B, eight(TODAY()), 32_768, 200.09),
            ("Llama-3.1-8B fa off", &LLAMA_8B, off(TODAY()), 32_768, 2156.01),
            ("Llama-3.1-8B ub 2048", &LLAMA_8B, wide(TODAY()), 32_768, 592.05),
            ("Llama-3.1-8B two cards", &LLAMA_8B, two(TODAY()), 32_768, 340.05),
            ("Qwen3-4B", &small, TODAY(), 8192, 85.01),
            ("Qwen3-4B q8_0", &small, eight(TODAY()), 32_768, 196.09),
            ("Gemma-3-27B", &gemma, TODAY(), 32_768, 201.52),
            ("Gemma-3-27B q8_0", &gemma, eight(TODAY()), 32_768, 339.68),
            ("Qwen3-235B-A22B", &experts, TODAY(), 32_768, 200.01),
            ("Qwen3-235B-A22B fa off", &experts, off(TODAY()), 32_768, 4226.01),
            ("Qwen3.6-27B", &hybrid, TODAY(), 32_768, 174.02),
            ("Qwen3.6-27B q8_0", &hybrid, eight(TODAY()), 65_536, 420.29),
            ("DeepSeek-R1", &r1, TODAY(), 32_768, 424.01),
            ("DeepSeek-R1 fa off", &r1, off(TODAY()), 4096, 1424.01),
        ];
        for (name, graph, settings, context, measured) in rows {
            let ours = of(graph, settings, context);
            assert!((ours / measured - 1.0).abs() < 0.05, "{name} at {context}: {ours} against {measured}");
        }
    }

    /// As above, in MiB, with what lies in system memory: matrices of so many KiB, and a layer's cache of so many MiB.
    #[test]
    fn what_is_on_the_host_passes_through_the_card() {
        let host = |graph: Graph, kib: u64, mib: u64| Graph { passing: kib << 10, passing_cache: mib << 20, ..graph };
        let large = Graph { embedding: 8192, query: 8192, heads: 64, feed_forward: 28_672, ..LLAMA_8B };
        let small = Graph { embedding: 2048, feed_forward: 6144, experts_used: 8, widest: (512, 512), ..LLAMA_8B };
        let gated = Graph { embedding: 2560, feed_forward: 9216, gated: true, ..LLAMA_8B };
        let r1 = Graph { embedding: 7168, heads: 128, mla: true, feed_forward: 16_384, experts_used: 8, ..small };
        let glm = Graph { embedding: 6144, heads: 64, indexed: true, ..r1 };
        let wide = Settings { micro_batch: 2048, ..TODAY() };
        let rows: [(&str, Graph, Settings, u64, f64); 11] = [
            ("Llama-3.1-8B, short", host(LLAMA_8B, 32_256, 16), TODAY(), 4096, 131.5),
            ("Llama-3.1-8B", host(LLAMA_8B, 32_256, 128), TODAY(), 32_768, 200.0),
            ("Llama-3.1-8B, long", host(LLAMA_8B, 32_256, 512), TODAY(), 131_072, 680.0),
            ("Llama-3.1-8B ub 2048", host(LLAMA_8B, 32_256, 16), wide, 4096, 512.02),
            ("Llama-3.3-70B, behind the cache", host(large, 188_160, 128), TODAY(), 32_768, 424.0),
            ("Llama-3.3-70B, in its room", host(large, 188_160, 512), TODAY(), 131_072, 720.0),
            ("Qwen3-30B-A3B, experts", host(small, 161_280, 0), TODAY(), 4096, 221.5),
            ("Qwen3.5-4B", host(gated, 18_900, 256), TODAY(), 65_536, 495.0),
            ("DeepSeek-R1, experts", host(r1, 3_010_560, 0), TODAY(), 4096, 3144.0),
            ("GLM-5.2", glm, TODAY(), 4096, 560.1),
            ("GLM-5.2, long", glm, TODAY(), 131_072, 1052.1),
        ];
        for (name, graph, settings, context, measured) in rows {
            let ours = of(&graph, settings, context);
            assert!((ours / measured - 1.0).abs() < 0.08, "{name} at {context}: {ours} against {measured}");
        }
        // Printed for its UD-Q5_K_XL at 4K and at 875K, on the first of four cards (August 2026, read on 2026-11-21).
        let pair = Graph { passing_pair: 5376 << 20, place: Place::First, ..host(glm, 3_342_336, 0) };
        for (context, printed) in [(4096, 5388.5), (896_000, 5374.07)] {
            let ours = of(&pair, TODAY(), context);
            assert!((ours / printed - 1.0).abs() < 0.01, "{context}: {ours} against {printed}");
        }
        let few = Settings { micro_batch: 16, ..TODAY() };
        let over = host(LLAMA_8B, 32_256, 128);
        assert_eq!(of(&over, few, 32_768), of(&LLAMA_8B, few, 32_768), "too few tokens to bring it over for");
    }

    #[test]
    fn sizes_past_all_numbers_are_none() {
        assert_eq!(buffer(&LLAMA_8B, &Settings::default(), u64::MAX), None);
        assert_eq!(buffer(&LLAMA_8B, &TODAY(), u64::MAX), None);
    }
}
