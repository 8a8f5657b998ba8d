//! Owns reading a checkpoint's config.json (also where the text model's figures are nested in `text_config`) into
//! `Figures`. A figure that is not there is not guessed, least of all from a library's defaults. At most 4 MiB are
//! taken, duplicate keys among those that count are refused. Source: transformers 5.23.0, read on 2026-11-20.

mod quantised;
mod rope;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::shape::{Experts, Figures, MOST_LAYERS, Mla, Recurrent, SharedKv, Window, of_transformers};

/// Longer than any real one.
pub const MOST_BYTES: usize = 4 << 20;

/// Declares what is read of a config.json: names of whole numbers, and fields of other types.
macro_rules! config {
    (numbers { $($number:ident)* } others { $($other:ident: $of:ty,)* }) => {
        /// The figures that count, as the file names them; `Inner` is what a text model nested in it may be, at most once.
        #[derive(Debug, Default, Deserialize)]
        #[serde(default)]
        struct Config<Inner> {
            $($number: Option<u64>,)*
            $($other: $of,)*
        }
    };
}

config! {
    numbers {
        num_hidden_layers hidden_size num_attention_heads num_key_value_heads head_dim vocab_size global_head_dim
        num_global_key_value_heads num_kv_shared_layers hidden_size_per_layer_input max_position_embeddings
        sliding_window sliding_window_pattern kv_lora_rank q_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim
        index_head_dim n_routed_experts num_experts num_local_experts num_experts_per_tok moe_intermediate_size
        n_shared_experts first_k_dense_replace interleave_moe_layer_step moe_latent_size routed_expert_hidden_size
        full_attention_interval mamba_num_heads mamba_n_heads mamba_head_dim ssm_state_size mamba_d_state
        mamba_n_groups mamba_d_conv moe_shared_expert_intermediate_size shared_intermediate_size
        linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads linear_value_head_dim linear_num_value_heads
    }
    others {
        model_type: Option<String>,
        text_config: Option<Box<Inner>>,
        vision_config: Option<Vision>,
        quantization_config: Option<Value>,
        compression_config: Option<Value>,
        rope_parameters: Option<Value>,
        rope_scaling: Option<Value>,
        intermediate_size: Loose,
        attention_k_eq_v: Option<bool>,
        use_double_wide_mlp: Option<bool>,
        tie_word_embeddings: Option<bool>,
        dtype: Option<String>,
        torch_dtype: Option<String>,
        use_sliding_window: Option<bool>,
        layer_types: Option<Vec<String>>,
        hybrid_override_pattern: Option<String>,
        mamba_d_head: Loose,
        n_groups: Loose,
        conv_kernel: Loose,
    }
}

impl<Inner> Config<Inner> {
    /// How the checkpoint is quantised, in a word.
    fn quantised(&self) -> Option<String> {
        quantised::name(self.quantization_config.as_ref().or(self.compression_config.as_ref())?)
    }
}

/// An image encoder's figures that count.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Vision {
    num_hidden_layers: Loose,
    hidden_size: Loose,
}

/// A number, the largest of a list of them, or none where it is something else: some families write one for each
/// layer, or a word.
#[derive(Clone, Copy, Debug, Default)]
struct Loose(Option<u64>);

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Loose, D::Error> {
        Ok(Loose(match Value::deserialize(deserializer)? {
            Value::Array(numbers) => numbers.iter().filter_map(Value::as_u64).max(),
            other => other.as_u64(),
        }))
    }
}

/// What a config.json says.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub figures: Figures,
    /// The dtype of the checkpoint, such as `bfloat16`.
    pub dtype: Option<String>,
    /// How it is quantised, such as `AWQ`; `None` where it is not.
    pub quantised: Option<String>,
    /// Layers and width of its image encoder, as SGLang takes them: 24 and 1024 where the file names none.
    pub encoder: Option<(u64, u64)>,
}

/// Reads a config.json. The error says what is wrong or missing.
pub fn read(bytes: &[u8], name: &str) -> Result<Read, String> {
    if bytes.len() > MOST_BYTES {
        return Err(format!("config.json has {} bytes, which no real one has", bytes.len()));
    }
    let outer: Config<Config<IgnoredAny>> =
        serde_json::from_slice(bytes).map_err(|error| format!("config.json: {error}"))?;
    let dtype = outer.dtype.clone().or_else(|| outer.torch_dtype.clone());
    let tied_outside = outer.tie_word_embeddings;
    let inner = outer.text_config.as_deref();
    let quantised = outer.quantised().or_else(|| inner?.quantised());
    let encoder = outer.vision_config;
    let encoder =
        encoder.map(|vision| (vision.num_hidden_layers.0.unwrap_or(24), vision.hidden_size.0.unwrap_or(1024)));
    // The text model of one that also sees or hears is nested.
    let read = match inner {
        Some(inner) => of_text(inner, name, tied_outside),
        None => of_text(&outer, name, tied_outside),
    };
    read.map(|read| Read { quantised, encoder, dtype: dtype.or(read.dtype), ..read })
}

/// The text model's figures, with what the outer part says.
fn of_text<T>(config: &Config<T>, name: &str, tied_outside: Option<bool>) -> Result<Read, String> {
    let layers =
        config.num_hidden_layers.ok_or("config.json does not say how many layers there are (num_hidden_layers)")?;
    if layers > MOST_LAYERS {
        return Err(format!("config.json says {layers} layers, which can't be"));
    }
    let hidden = config.hidden_size.ok_or("config.json does not say its width (hidden_size)")?;
    let heads = config.num_attention_heads.ok_or("config.json does not say its heads (num_attention_heads)")?;
    let head_dim = config.head_dim.or_else(|| hidden.checked_div(heads)).unwrap_or(0);
    let family = config.model_type.as_deref().unwrap_or_default();
    let figures = Figures {
        name: name.to_owned(),
        architecture: of_transformers(family),
        layers,
        hidden,
        heads,
        kv_heads: config.num_key_value_heads.unwrap_or(heads),
        head_dim,
        ffn: config.intermediate_size.0.unwrap_or(0),
        vocab: config.vocab_size.unwrap_or(0),
        tied: config.tie_word_embeddings.or(tied_outside).unwrap_or(false),
        context: rope::context(
            config.max_position_embeddings,
            config.rope_parameters.as_ref().or(config.rope_scaling.as_ref()),
            family,
        ),
        window: window(config),
        mla: mla(config),
        experts: experts(config),
        recurrent: mamba(config).or_else(|| recurrent(config)),
        mixers: mixers(config),
        shared_kv: shared_kv(config),
        per_layer: config.hidden_size_per_layer_input.unwrap_or(0),
        ..Figures::default()
    };
    let dtype = config.dtype.clone().or_else(|| config.torch_dtype.clone());
    Ok(Read { figures, dtype, quantised: None, encoder: None })
}

fn shared_kv<T>(config: &Config<T>) -> Option<SharedKv> {
    let layers = config.num_kv_shared_layers.filter(|layers| *layers > 0)?;
    let width = if config.use_double_wide_mlp == Some(true) { config.intermediate_size.0 } else { None };
    Some(SharedKv { layers, ffn: width.unwrap_or(0).saturating_mul(2) })
}

fn window<T>(config: &Config<T>) -> Option<Window> {
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
    // Gemma 4's full layers have heads of their own length, and of their own number where V is K.
    let full_heads = config.global_head_dim.and_then(|length| {
        let own = if config.attention_k_eq_v == Some(false) { None } else { config.num_global_key_value_heads };
        Some((own.or(config.num_key_value_heads)?, length))
    });
    Some(Window { size, pattern, full_heads }).filter(|window| !window.pattern.is_empty())
}

fn mla<T>(config: &Config<T>) -> Option<Mla> {
    Some(Mla {
        kv_lora: config.kv_lora_rank?,
        q_lora: config.q_lora_rank.unwrap_or(0),
        rope: config.qk_rope_head_dim?,
        nope: config.qk_nope_head_dim?,
        v_head: config.v_head_dim?,
        indexer: config.index_head_dim.unwrap_or(0),
    })
}

fn experts<T>(config: &Config<T>) -> Option<Experts> {
    let count = config.n_routed_experts.or(config.num_experts).or(config.num_local_experts)?;
    Some(Experts {
        count,
        used: config.num_experts_per_tok.unwrap_or(0),
        ffn: config.moe_intermediate_size.or(config.intermediate_size.0)?,
        shared: shared(config),
        first_dense: config.first_k_dense_replace.unwrap_or(0),
        every: config.interleave_moe_layer_step.unwrap_or(0),
        latent: config.moe_latent_size.or(config.routed_expert_hidden_size).unwrap_or(0),
    })
    .filter(|experts| experts.count > 1)
}

/// How many of the routed experts' width the shared one has.
fn shared<T>(config: &Config<T>) -> u64 {
    // Gemma 4 has its dense part beside the experts.
    let beside = config.global_head_dim.and(config.intermediate_size.0);
    let wide = config.moe_shared_expert_intermediate_size.or(config.shared_intermediate_size).or(beside);
    let one = config.moe_intermediate_size.or(config.intermediate_size.0).unwrap_or(0);
    let by_width = wide.and_then(|wide| wide.checked_div(one)).filter(|count| *count > 0);
    by_width.or(config.n_shared_experts).unwrap_or(0)
}

/// What each layer mixes with, where the file says it so: as Nemotron-H's pattern, or as Granite's list.
fn mixers<T>(config: &Config<T>) -> String {
    if let Some(pattern) = &config.hybrid_override_pattern {
        return pattern.chars().filter(char::is_ascii).collect();
    }
    let types = config.layer_types.as_deref().unwrap_or_default();
    if !types.iter().any(|kind| kind == "mamba") {
        return String::new();
    }
    types.iter().map(|kind| if kind == "mamba" { 'M' } else { '*' }).collect()
}

fn mamba<T>(config: &Config<T>) -> Option<Recurrent> {
    let heads = config.mamba_num_heads.or(config.mamba_n_heads)?;
    let said = config.mamba_head_dim.or(config.mamba_d_head.0);
    // "auto" is the doubled width over the heads.
    let inner = said.map_or_else(|| config.hidden_size?.checked_mul(2), |length| heads.checked_mul(length))?;
    Some(Recurrent {
        interval: 0,
        conv: config.conv_kernel.0.or(config.mamba_d_conv)?,
        state: config.ssm_state_size.or(config.mamba_d_state)?,
        groups: config.n_groups.0.or(config.mamba_n_groups)?,
        inner,
    })
}

fn recurrent<T>(config: &Config<T>) -> Option<Recurrent> {
    let interval = config.full_attention_interval.or_else(|| {
        let types = config.layer_types.as_ref().filter(|types| types.iter().any(|kind| kind == "linear_attention"))?;
        types.iter().position(|kind| kind == "full_attention").map(|place| place as u64 + 1)
    })?;
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
    fn layers_that_differ_are_read_one_by_one() {
        // Nemotron 3 Nano's config.json as the tests of another loader hold it (stored public file 53261316862).
        let text = r#"{"model_type": "nemotron_h", "num_hidden_layers": 52, "hidden_size": 2688, "num_attention_heads": 32,
            "num_key_value_heads": 2, "head_dim": 128, "hybrid_override_pattern":
            "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "mamba_num_heads": 64, "mamba_head_dim": 64,
            "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "n_routed_experts": 128, "num_experts_per_tok": 6,
            "moe_intermediate_size": 1856, "intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712,
            "n_shared_experts": 1, "vocab_size": 131072, "max_position_embeddings": 262144}"#;
        let figures = read(text.as_bytes(), "x").unwrap().figures;
        let shape = crate::memory::shape::from_gguf(&figures.as_gguf("BF16"));
        let layers = shape.layers.unwrap();
        let count = |of: fn(&crate::memory::shape::Layer) -> bool| layers.iter().filter(|layer| of(layer)).count();
        assert_eq!((count(|layer| layer.cache.is_some()), count(|layer| layer.recurrent != Some(0))), (6, 23));
        // 31.6 billion by its GPU.
        assert!(shape.parameters.unwrap().abs_diff(31_600_000_000) < 100_000_000, "{:?}", shape.parameters);
        let text = r#"{"model_type": "granitemoehybrid", "num_hidden_layers": 4, "hidden_size": 4096, "num_attention_heads": 32,
            "num_key_value_heads": 8, "layer_types": ["mamba", "mamba", "attention", "mamba"], "mamba_n_heads": 128,
            "mamba_d_head": "auto", "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4}"#;
        let figures = read(text.as_bytes(), "x").unwrap().figures;
        assert_eq!((figures.mixers.as_str(), figures.recurrent.unwrap().inner), ("MM*M", 8192));
        let layers = crate::memory::shape::from_gguf(&figures.as_gguf("BF16")).layers.unwrap();
        let caches: Vec<bool> = layers.iter().map(|layer| layer.cache.is_some()).collect();
        assert_eq!(caches, [false, false, true, false]);
    }

    #[test]
    fn layers_that_share_a_cache_and_have_embeddings_of_their_own_are_read() {
        let pattern = ["\"sliding_attention\""; 5].join(",");
        let layers = vec![format!("{pattern},\"full_attention\""); 7].join(",");
        let text = format!(
            r#"{{"model_type": "gemma4", "text_config": {{"model_type": "gemma4_text", "num_hidden_layers": 42,
            "hidden_size": 2560, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
            "global_head_dim": 512, "num_kv_shared_layers": 18, "hidden_size_per_layer_input": 256,
            "intermediate_size": 10240, "vocab_size": 262144, "sliding_window": 512, "tie_word_embeddings": true,
            "layer_types": [{layers}]}}}}"#
        );
        let figures = read(text.as_bytes(), "x").unwrap().figures;
        let row = crate::memory::table::find(crate::memory::table::rows().unwrap(), "gemma4:e4b").unwrap();
        assert_eq!((figures.shared_kv, figures.per_layer), (row.shared_kv, row.per_layer));
        let of = |figures: &Figures| crate::memory::shape::from_gguf(&figures.as_gguf("BF16"));
        assert_eq!((of(&figures).layers, of(&figures).parameters), (of(&row).layers, of(&row).parameters));
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
