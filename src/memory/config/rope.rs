//! Owns how long a model's context may be: what config.json says, and what a scaling of its positions makes of it, as vLLM
//! and SGLang derive it. Source: vLLM's `_get_and_verify_max_len`, read on 2026-11-21. Tokens.

use serde_json::Value;

use crate::units::whole;

/// Longer than any model's.
const MOST_FACTOR: f64 = 4096.0;

/// The scaling and its kind: the whole value, or the first of those by kind of layer.
fn scaled(rope: &Value) -> Option<(&Value, &str)> {
    let layers = rope.as_object().into_iter().flat_map(|layers| layers.values());
    std::iter::once(rope).chain(layers).find_map(|one| {
        let kind = one.get("rope_type").or(one.get("type"))?;
        Some((one, kind.as_str()?))
    })
}

/// The longest context; 0 where it is not known. `rope` is `rope_parameters` or `rope_scaling`, which may be one for
/// each kind of layer.
pub(super) fn context(said: Option<u64>, rope: Option<&Value>, family: &str) -> u64 {
    let said = said.unwrap_or(0);
    // Gemma 3's length is scaled already.
    let Some((scaled, kind)) = rope.and_then(scaled) else { return said };
    if family.contains("gemma3") || ["su", "longrope", "llama3"].contains(&kind) {
        return said;
    }
    let original = match kind {
        "yarn" => scaled.get("original_max_position_embeddings").and_then(Value::as_u64),
        _ => None,
    };
    let factor = scaled.get("factor").and_then(Value::as_f64).filter(|factor| (0.0..=MOST_FACTOR).contains(factor));
    let thousandths = whole((factor.unwrap_or(1.0) * 1000.0).trunc());
    original.unwrap_or(said).saturating_mul(thousandths) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaling_of_positions_makes_the_context_longer() {
        let of = |rope: &str, family: &str| context(Some(40_960), serde_json::from_str(rope).ok().as_ref(), family);
        let yarn = r#"{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}"#;
        assert_eq!(of(yarn, "qwen3"), 131_072);
        assert_eq!(of(r#"{"type": "linear", "factor": 2.0}"#, "llama"), 81_920);
        assert_eq!(of(r#"{"rope_type": "llama3", "factor": 8.0}"#, "llama"), 40_960);
        assert_eq!(of(r#"{"rope_type": "default", "rope_theta": 1000000}"#, "qwen3"), 40_960);
        assert_eq!(of(r#"{"rope_type": "linear", "factor": 8.0}"#, "gemma3_text"), 40_960, "scaled already");
        assert_eq!(of(&format!(r#"{{"full_attention": {yarn}}}"#), "x"), 131_072);
        assert_eq!(of(r#"{"rope_type": "yarn", "factor": -1e300}"#, "x"), 40_960);
        assert_eq!(context(None, None, "x"), 0);
    }
}
