//! Owns reading a checkpoint's config.json (also where the text model's figures are nested in `text_config`) into
//! `Figures`. A figure that is not there is not guessed, least of all from a library's defaults. At most 4 MiB are
//! taken, duplicate keys among those that count are refused. Source: transformers 5.23.0, read on 2026-11-20.

use serde::Deserialize;

use super::shape::{Experts, Figures, MOST_LAYERS, Mla, Recurrent, Window};

/// Longer than any real one.
pub const MOST_BYTES: usize = 4 << 20;

/// The figures that count, as the file names them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    model_type: Option<String>,
    text_config: Option<Box<Config>>,
    vision_config: Option<Box<Config>>,
    num_hidden_layers: Option<u64>,
    hidden_size: Option<u64>,
    intermediate_size: Option<u64>,
    num_attention_heads: Option<u64>,
    num_key_value_heads: Option<u64>,
    head_dim: Option<u64>,
    vocab_size: Option<u64>,
    tie_word_embeddings: Option<bool>,
    max_position_embeddings: Option<u64>,
    dtype: Option<String>,
    torch_dtype: Option<String>,
    sliding_window: Option<u64>,
    use_sliding_window: Option<bool>,
    layer_types: Option<Vec<String>>,
    sliding_window_pattern: Option<u64>,
    kv_lora_rank: Option<u64>,
    q_lora_rank: Option<u64>,
    qk_rope_head_dim: Option<u64>,
    qk_nope_head_dim: Option<u64>,
    v_head_dim: Option<u64>,
    index_head_dim: Option<u64>,
    n_routed_experts: Option<u64>,
    num_experts: Option<u64>,
    num_local_experts: Option<u64>,
    num_experts_per_tok: Option<u64>,
    moe_intermediate_size: Option<u64>,
    n_shared_experts: Option<u64>,
    first_k_dense_replace: Option<u64>,
    full_attention_interval: Option<u64>,
    linear_conv_kernel_dim: Option<u64>,
    linear_key_head_dim: Option<u64>,
    linear_num_key_heads: Option<u64>,
    linear_value_head_dim: Option<u64>,
    linear_num_value_heads: Option<u64>,
}

/// What a config.json says.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The figures.
    pub figures: Figures,
    /// The dtype of the checkpoint, such as `bfloat16`.
    pub dtype: Option<String>,
    /// Layers and width of its image encoder, as SGLang takes them: 24 and 1024 where the file names none.
    pub encoder: Option<(u64, u64)>,
}

/// llama.cpp's name for a family that transformers names so.
fn architecture(model_type: &str) -> String {
    match model_type {
        "mistral" | "mixtral" | "mistral3" => "llama".into(),
        "deepseek_v2" | "deepseek_v3" | "kimi_k2" => "deepseek2".into(),
        "gemma3_text" => "gemma3".into(),
        "gemma4_text" => "gemma4".into(),
        "llama4_text" => "llama4".into(),
        "gpt_oss" => "gpt-oss".into(),
        "qwen3_5" | "qwen3_5_text" => "qwen35".into(),
        "qwen3_5_moe" | "qwen3_5_moe_text" => "qwen35moe".into(),
        "gpt_neox" => "gptneox".into(),
        "cohere" => "command-r".into(),
        "phi" => "phi2".into(),
        "ernie4_5" => "ernie4_5".into(),
        "ernie4_5_moe" => "ernie4_5-moe".into(),
        "falcon_h1" => "falcon-h1".into(),
        "granitemoehybrid" => "granitehybrid".into(),
        "minimax_m2" => "minimax-m2".into(),
        // The rest differ by their underscores only.
        other => other.trim_end_matches("_text").replace('_', ""),
    }
}

/// Reads a config.json. The error says what is wrong or missing.
pub fn read(bytes: &[u8], name: &str) -> Result<Read, String> {
    if bytes.len() > MOST_BYTES {
        return Err(format!("config.json has {} bytes, which no real one has", bytes.len()));
    }
    let outer: Config = serde_json::from_slice(bytes).map_err(|error| format!("config.json: {error}"))?;
    let dtype = outer.dtype.clone().or_else(|| outer.torch_dtype.clone());
    let tied_outside = outer.tie_word_embeddings;
    let encoder = outer.vision_config.as_ref();
    let encoder = encoder.map(|vision| (vision.num_hidden_layers.unwrap_or(24), vision.hidden_size.unwrap_or(1024)));
    // The text model of one that also sees or hears is nested.
    let config = match outer.text_config {
        Some(inner) => *inner,
        None => outer,
    };
    let missing = |what: &str| format!("config.json does not say {what}");
    let layers = config.num_hidden_layers.ok_or_else(|| missing("how many layers there are (num_hidden_layers)"))?;
    if layers > MOST_LAYERS {
        return Err(format!("config.json says {layers} layers, which can't be"));
    }
    let hidden = config.hidden_size.ok_or_else(|| missing("its width (hidden_size)"))?;
    let heads = config.num_attention_heads.ok_or_else(|| missing("its heads (num_attention_heads)"))?;
    let head_dim = config.head_dim.or_else(|| hidden.checked_div(heads)).unwrap_or(0);
    let figures = Figures {
        name: name.to_owned(),
        architecture: architecture(config.model_type.as_deref().unwrap_or_default()),
        layers,
        hidden,
        heads,
        kv_heads: config.num_key_value_heads.unwrap_or(heads),
        head_dim,
        ffn: config.intermediate_size.unwrap_or(0),
        vocab: config.vocab_size.unwrap_or(0),
        tied: config.tie_word_embeddings.or(tied_outside).unwrap_or(false),
        context: config.max_position_embeddings.unwrap_or(0),
        window: window(&config),
        mla: mla(&config),
        experts: experts(&config),
        recurrent: recurrent(&config),
        ..Figures::default()
    };
    Ok(Read { figures, dtype: dtype.or(config.dtype).or(config.torch_dtype), encoder })
}

fn window(config: &Config) -> Option<Window> {
    let size = config.sliding_window.filter(|size| *size > 0)?;
    if config.use_sliding_window == Some(false) {
        return None;
    }
    let pattern = match (&config.layer_types, config.sliding_window_pattern) {
        (Some(types), _) => types.iter().map(|kind| if kind.contains("sliding") { '1' } else { '0' }).collect(),
        (None, Some(period)) if (2..=64).contains(&period) => (1..period).map(|_| '1').chain(['0']).collect(),
        // All layers, as Mistral 7B v0.1.
        _ => "1".to_owned(),
    };
    Some(Window { size, pattern, full_heads: None }).filter(|window| !window.pattern.is_empty())
}

fn mla(config: &Config) -> Option<Mla> {
    Some(Mla {
        kv_lora: config.kv_lora_rank?,
        q_lora: config.q_lora_rank.unwrap_or(0),
        rope: config.qk_rope_head_dim?,
        nope: config.qk_nope_head_dim?,
        v_head: config.v_head_dim?,
        indexer: config.index_head_dim.unwrap_or(0),
    })
}

fn experts(config: &Config) -> Option<Experts> {
    let count = config.n_routed_experts.or(config.num_experts).or(config.num_local_experts)?;
    Some(Experts {
        count,
        used: config.num_experts_per_tok.unwrap_or(0),
        ffn: config.moe_intermediate_size.or(config.intermediate_size)?,
        shared: config.n_shared_experts.unwrap_or(0),
        first_dense: config.first_k_dense_replace.unwrap_or(0),
    })
    .filter(|experts| experts.count > 1)
}

fn recurrent(config: &Config) -> Option<Recurrent> {
    let by_types = || {
        let types = config.layer_types.as_ref()?;
        types.iter().any(|kind| kind == "linear_attention").then_some(())?;
        types.iter().position(|kind| kind == "full_attention").map(|place| place as u64 + 1)
    };
    let interval = config.full_attention_interval.or_else(by_types)?;
    let inner = config.linear_value_head_dim?.checked_mul(config.linear_num_value_heads?)?;
    Some(Recurrent {
        interval,
        conv: config.linear_conv_kernel_dim?,
        state: config.linear_key_head_dim?,
        groups: config.linear_num_key_heads?,
        inner,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_figures_are_found_and_absent_ones_not_guessed() {
        let text = r#"{"model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": {"model_type": "gemma3_text",
            "num_hidden_layers": 34, "hidden_size": 2560, "num_attention_heads": 8, "num_key_value_heads": 4,
            "head_dim": 256, "sliding_window": 1024, "sliding_window_pattern": 6, "vocab_size": 262208},
            "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}}"#;
        let read = read(text.as_bytes(), "x").unwrap();
        assert_eq!(read.encoder, Some((27, 1152)));
        let figures = read.figures;
        assert_eq!((figures.layers, figures.kv_heads, figures.architecture.as_str()), (34, 4, "gemma3"));
        assert_eq!(figures.window.unwrap().pattern, "111110");
        assert_eq!((read.dtype.as_deref(), figures.context), (Some("bfloat16"), 0));
        assert!(super::read(b"{}", "x").unwrap_err().contains("num_hidden_layers"));
    }

    #[test]
    fn latent_attention_and_hybrids_are_read() {
        let text = r#"{"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168,
            "num_attention_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128, "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8,
            "moe_intermediate_size": 2048, "sliding_window": 4096, "use_sliding_window": false}"#;
        let figures = read(text.as_bytes(), "x").unwrap().figures;
        assert_eq!(figures.mla.unwrap().kv_lora, 512);
        assert_eq!((figures.experts.unwrap().count, figures.window.is_none()), (256, true));
        let shape = crate::memory::shape::from_gguf(&figures.as_gguf("BF16"));
        assert_eq!(shape.layers.unwrap()[0].cache.unwrap().k, 576);
    }

    #[test]
    fn hostile_files_are_refused() {
        let deep = "[".repeat(200_000);
        let nested = format!("{}1{}", r#"{"text_config":"#.repeat(5000), "}".repeat(5000));
        let twice = r#"{"num_hidden_layers": 1, "num_hidden_layers": 2}"#;
        let many = r#"{"num_hidden_layers": 9223372036854775807, "hidden_size": 1, "num_attention_heads": 0}"#;
        let minus = r#"{"num_hidden_layers": -1}"#;
        for text in [&deep, &nested, twice, many, minus, "", "null", "[]"] {
            assert!(read(text.as_bytes(), "x").is_err());
        }
        assert!(read(&vec![b' '; MOST_BYTES + 1], "x").is_err());
    }
}
