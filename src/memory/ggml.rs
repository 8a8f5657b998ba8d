//! Owns ggml's data types: how many elements make a block and how many bytes a block takes, and from that the bytes
//! of a row and of a tensor. Exact, in bytes; the figures are ggml's type traits as of 2026-11-20 (llama.cpp 0.5.0).
//! Knows nothing of files or models.

use serde::{Deserialize, Deserializer, de::Error};

/// One of ggml's data types. Sizes are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgmlType {
    /// Its number in a GGUF file.
    pub id: u32,
    /// Its name as the command line takes it, such as `q8_0`.
    pub name: &'static str,
    /// Elements in a block; at least 1.
    block: u64,
    /// Bytes of a block.
    bytes: u64,
}

macro_rules! types {
    ($( $constant:ident = $id:literal $name:literal $block:literal / $bytes:literal; )*) => {
        impl GgmlType {
            $(
                #[doc = concat!("`", $name, "`: ", stringify!($bytes), " bytes for ", stringify!($block), " elements.")]
                pub const $constant: GgmlType = GgmlType { id: $id, name: $name, block: $block, bytes: $bytes };
            )*
        }
        const ALL: &[GgmlType] = &[$( GgmlType::$constant, )*];
    };
}

types! {
    F32 = 0 "f32" 1 / 4;
    F16 = 1 "f16" 1 / 2;
    Q4_0 = 2 "q4_0" 32 / 18;
    Q4_1 = 3 "q4_1" 32 / 20;
    Q5_0 = 6 "q5_0" 32 / 22;
    Q5_1 = 7 "q5_1" 32 / 24;
    Q8_0 = 8 "q8_0" 32 / 34;
    Q8_1 = 9 "q8_1" 32 / 36;
    Q2_K = 10 "q2_K" 256 / 84;
    Q3_K = 11 "q3_K" 256 / 110;
    Q4_K = 12 "q4_K" 256 / 144;
    Q5_K = 13 "q5_K" 256 / 176;
    Q6_K = 14 "q6_K" 256 / 210;
    Q8_K = 15 "q8_K" 256 / 292;
    IQ2_XXS = 16 "iq2_xxs" 256 / 66;
    IQ2_XS = 17 "iq2_xs" 256 / 74;
    IQ3_XXS = 18 "iq3_xxs" 256 / 98;
    IQ1_S = 19 "iq1_s" 256 / 50;
    IQ4_NL = 20 "iq4_nl" 32 / 18;
    IQ3_S = 21 "iq3_s" 256 / 110;
    IQ2_S = 22 "iq2_s" 256 / 82;
    IQ4_XS = 23 "iq4_xs" 256 / 136;
    I8 = 24 "i8" 1 / 1;
    I16 = 25 "i16" 1 / 2;
    I32 = 26 "i32" 1 / 4;
    I64 = 27 "i64" 1 / 8;
    F64 = 28 "f64" 1 / 8;
    IQ1_M = 29 "iq1_m" 256 / 56;
    BF16 = 30 "bf16" 1 / 2;
    TQ1_0 = 34 "tq1_0" 256 / 54;
    TQ2_0 = 35 "tq2_0" 256 / 66;
    MXFP4 = 39 "mxfp4" 32 / 17;
    NVFP4 = 40 "nvfp4" 64 / 36;
    Q1_0 = 41 "q1_0" 128 / 18;
    Q2_0 = 42 "q2_0" 64 / 18;
}

impl<'de> Deserialize<'de> for GgmlType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GgmlType, D::Error> {
        let name = String::deserialize(deserializer)?;
        GgmlType::from_name(&name).ok_or_else(|| D::Error::custom(format!("{name} is no type of ggml")))
    }
}

/// The types that llama.cpp's `-ctk` and `-ctv` take.
pub const KV_TYPES: [&str; 9] = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"];

impl GgmlType {
    /// The type with this number in a GGUF file; `None` for numbers that are unused, removed or newer than this.
    pub fn from_id(id: u32) -> Option<GgmlType> {
        ALL.iter().copied().find(|known| known.id == id)
    }

    /// The type with this name, in either case.
    pub fn from_name(name: &str) -> Option<GgmlType> {
        ALL.iter().copied().find(|known| known.name.eq_ignore_ascii_case(name))
    }

    /// Whether elements share a scale, that is, a block has more than one.
    pub fn is_quantised(self) -> bool {
        self.block > 1
    }

    /// Whether a row of so many elements can be stored in it.
    pub fn divides(self, elements: u64) -> bool {
        elements.checked_rem(self.block) == Some(0)
    }

    /// Bytes of a row; `None` where the elements are no whole number of blocks, or past u64.
    pub fn row_bytes(self, elements: u64) -> Option<u64> {
        if !self.divides(elements) {
            return None;
        }
        elements.checked_div(self.block)?.checked_mul(self.bytes)
    }

    /// Bytes of a tensor without padding; `None` where the first dimension is no whole number of blocks, or the
    /// product does not fit in 63 bits.
    pub fn tensor_bytes(self, dims: &[u64]) -> Option<u64> {
        let (first, rest) = dims.split_first()?;
        let bytes = rest.iter().try_fold(self.row_bytes(*first)?, |bytes, dim| bytes.checked_mul(*dim))?;
        (bytes < 1 << 63).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_take_what_the_programs_print() {
        // token_embd of Mistral Small 3 in q8_0, of TriLM in f16: 680 and 297 MiB in their load logs.
        assert_eq!(GgmlType::Q8_0.tensor_bytes(&[5120, 131_072]), Some(680 << 20));
        assert_eq!(GgmlType::F16.tensor_bytes(&[3072, 50_688]), Some(297 << 20));
        assert_eq!(GgmlType::Q6_K.tensor_bytes(&[256]), Some(210));
    }

    #[test]
    fn what_cannot_be_is_none() {
        assert_eq!(GgmlType::Q4_K.tensor_bytes(&[100]), None, "not a whole number of blocks");
        assert_eq!(GgmlType::F16.tensor_bytes(&[u64::MAX, 2]), None);
        assert_eq!(GgmlType::F32.tensor_bytes(&[1 << 31, 1 << 30]), None, "2^63 bytes");
        assert_eq!(GgmlType::F32.tensor_bytes(&[]), None);
        for removed in [4, 5, 31, 32, 33, 36, 37, 38, 43, u32::MAX] {
            assert_eq!(GgmlType::from_id(removed), None, "{removed}");
        }
    }

    #[test]
    fn every_type_is_named_once_and_found_both_ways() {
        for known in ALL {
            assert_eq!(GgmlType::from_id(known.id), Some(*known));
            assert_eq!(GgmlType::from_name(&known.name.to_uppercase()), Some(*known));
            assert!(known.block > 0);
        }
        let sizes = KV_TYPES.map(|name| GgmlType::from_name(name).unwrap().row_bytes(1024).unwrap());
        assert_eq!(sizes, [4096, 2048, 2048, 1088, 576, 640, 576, 704, 768]);
    }
}
