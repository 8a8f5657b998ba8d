//! Owns what a config.json says of how its checkpoint is quantised, in a word as people say it: `AWQ`, `GPTQ-Int8`, `FP8`,
//! `NF4`. Source: transformers' quantization_config classes and compressed-tensors, read on 2026-11-21. Pure.

use serde_json::Value;

/// Longer than any method's name.
const MOST_NAME: usize = 24;

/// The word for a `quantization_config`; `None` where it quantises nothing or is not one.
pub(super) fn name(config: &Value) -> Option<String> {
    let bits = config.get("bits").and_then(Value::as_u64).unwrap_or(4);
    let method = text(config, "quant_method").unwrap_or_default().to_lowercase();
    Some(match method.as_str() {
        "bitsandbytes" | "" if is_set(config, "load_in_8bit") => "INT8".into(),
        "bitsandbytes" | "" if is_set(config, "load_in_4bit") => {
            plain(text(config, "bnb_4bit_quant_type").unwrap_or("fp4"))?
        }
        "bitsandbytes" | "" => return None,
        "awq" | "gptq" if bits != 4 => format!("{}-Int{bits}", method.to_uppercase()),
        "fbgemm_fp8" => "FP8".into(),
        "compressed-tensors" => compressed(config).unwrap_or_else(|| "compressed-tensors".into()),
        "modelopt" => plain(text(config, "quant_algo").unwrap_or("modelopt"))?,
        other => plain(other)?,
    })
}

fn text<'a>(config: &'a Value, name: &str) -> Option<&'a str> {
    config.get(name).and_then(Value::as_str)
}

fn is_set(config: &Value, name: &str) -> bool {
    config.get(name).and_then(Value::as_bool) == Some(true)
}

/// A foreign word in capitals, where it is one.
fn plain(word: &str) -> Option<String> {
    let is_word = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    Some(word.to_uppercase()).filter(|word| is_word && (1..=MOST_NAME).contains(&word.len()))
}

/// compressed-tensors has groups of layers: bits and kind of their weights, and whether activations are quantised, too.
fn compressed(config: &Value) -> Option<String> {
    let group = config.get("config_groups")?.as_object()?.values().next()?;
    let weights = group.get("weights")?;
    let bits = weights.get("num_bits")?.as_u64()?;
    let inputs = group.get("input_activations").and_then(|inputs| inputs.get("num_bits")?.as_u64()).unwrap_or(16);
    Some(match weights.get("type").and_then(Value::as_str) {
        Some("float") if bits == 4 => "NVFP4".into(),
        Some("float") => format!("FP{bits}"),
        _ => format!("W{bits}A{inputs}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_a_word() {
        for (config, word) in [
            (r#"{"quant_method": "awq", "bits": 4}"#, Some("AWQ")),
            (r#"{"quant_method": "gptq", "bits": 8}"#, Some("GPTQ-Int8")),
            (r#"{"quant_method": "fp8", "weight_block_size": [128, 128]}"#, Some("FP8")),
            (r#"{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"}"#, Some("NF4")),
            (r#"{"quant_method": "bitsandbytes", "load_in_8bit": true}"#, Some("INT8")),
            (r#"{"quant_method": "bitsandbytes", "load_in_4bit": false}"#, None),
            (r#"{"quant_method": "mxfp4", "modules_to_not_convert": []}"#, Some("MXFP4")),
            (r#"{"quant_method": "modelopt", "quant_algo": "NVFP4"}"#, Some("NVFP4")),
            (
                r#"{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4,
                "type": "int"}, "input_activations": null}}}"#,
                Some("W4A16"),
            ),
            (
                r#"{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8,
                "type": "float"}, "input_activations": {"num_bits": 8}}}}"#,
                Some("FP8"),
            ),
            (r#"{"quant_method": "compressed-tensors"}"#, Some("compressed-tensors")),
            (r#"{"quant_method": "\u001b[31m"}"#, None),
            ("7", None),
        ] {
            let value = serde_json::from_str(config).unwrap_or(Value::Null);
            assert_eq!(name(&value).as_deref(), word, "{config}");
        }
    }
}
