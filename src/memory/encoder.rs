//! Owns what llama.cpp's image encoder computes in, by the figures of its own file (`--mmproj`): what one layer has
//! alive at once for all patches of the picture that its server reserves for at its start. About: within 1 % of the
//! logs of Qwen3.6-27B (248.10 MiB); larger pictures take more, as do cards without flash attention for it.
//! Source: llama.cpp 0.6.0's clip.cpp and load logs, read on 2026-11-21. Bytes. Knows nothing of files.

use super::gguf::Metadata;

/// What is taken where the file does not say its figures: 4 to 250 MiB were seen.
const USUAL: u64 = 256 << 20;
/// Patches of the picture that a merger of patches starts with: 46 × 46 tokens of four.
const MERGED_PATCHES: u64 = 46 * 46 * 4;
/// More than any encoder has.
const MOST: u64 = 1 << 20;

/// Bytes of the encoder's compute buffer.
pub(crate) fn compute_bytes(metadata: &Metadata) -> u64 {
    known(metadata).unwrap_or(USUAL)
}

fn known(metadata: &Metadata) -> Option<u64> {
    let number =
        |name: &str| metadata.number(&format!("clip.vision.{name}")).filter(|number| (1..=MOST).contains(number));
    let (width, side, patch) = (number("embedding_length")?, number("image_size")?, number("patch_size")?);
    let forward = number("feed_forward_length").unwrap_or(0);
    let kind = metadata.text("clip.projector_type").or_else(|| metadata.text("clip.vision.projector_type"));
    let merges = kind.is_some_and(|kind| kind.ends_with("_merger"));
    let along = side.div_ceil(patch);
    let patches = if merges { MERGED_PATCHES } else { along.checked_mul(along)? };
    // Queries, keys and values, those two again with their places, and what they are added to.
    let numbers = width.checked_mul(6)?.max(forward.checked_add(width.checked_mul(2)?)?);
    let pixels = patch.checked_mul(patch)?.checked_mul(3)?;
    patches.checked_mul(numbers.checked_add(pixels)?)?.checked_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::gguf::Value;

    fn of(kind: &str, numbers: [i128; 4]) -> u64 {
        let mut metadata = Metadata::default();
        metadata.set("clip.projector_type", Value::Text(kind.into()));
        let names = ["embedding_length", "feed_forward_length", "image_size", "patch_size"];
        for (name, number) in names.iter().zip(numbers) {
            metadata.set(&format!("clip.vision.{name}"), Value::Whole(number));
        }
        compute_bytes(&metadata)
    }

    #[test]
    fn a_log_comes_out_and_what_is_not_known_is_the_usual() {
        // Stored public file 56678392724, read on 2026-11-21: Qwen3.6-27B, 1472 × 1472, 248.10 MiB.
        let mib = of("qwen3vl_merger", [1152, 4304, 768, 16]) as f64 / f64::from(1 << 20);
        assert!((mib - 248.10).abs() < 0.5, "{mib}");
        assert_eq!(of("gemma3", [1152, 4304, 896, 14]) >> 20, 117, "one picture of 896 × 896");
        assert_eq!(compute_bytes(&Metadata::default()), USUAL);
        assert_eq!(of("gemma3", [1 << 60, 4304, 896, 14]), USUAL, "no encoder is as wide");
    }
}
