//! Owns what a quantisation is applied to: the tensors whose types are to be chosen and what the mixes look at beside
//! them, and the quantisations that only checkpoints come in.

/// Experts in MXFP4 as gpt-oss was trained, the rest in Q8_0 (its GGUF files: 59.02 GiB for 120B, as printed in
/// ggml-org/llama.cpp#15253) or in bf16 (its checkpoints); all layers in a byte, the rest in bf16, as DeepSeek-V3's
/// checkpoint (its README_WEIGHTS, read on 2026-11-21); experts in four bits with a 16-bit scale for each 32 of them,
/// the rest in bf16, as Kimi-K2-Thinking's (lightseekorg/tokenspeed#444); all layers in about 4.25 bits, as AWQ, GPTQ
/// and bitsandbytes have them, or in 4.5 (NVFP4), the rest in bf16.
pub(crate) const OWN_MIXES: [&str; 6] = ["MXFP4", "MXFP4, BF16", "INT4, BF16", "FP8", "4-bit", "NVFP4"];

/// A tensor of which the type is still to be chosen.
pub(crate) type Shape = (String, Vec<u64>);

/// What the mixes look at beside the tensor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Model<'a> {
    /// As llama.cpp names it.
    pub architecture: &'a str,
    /// Layers, with those for multi-token prediction.
    pub layers: u64,
    /// Routed experts of a layer; 0 for none.
    pub experts: u64,
    /// Attention heads that share one of K and V in the first layer.
    pub shared_by: u64,
}

impl Model<'_> {
    /// What llama.cpp calls a 70B model.
    pub(super) fn is_seventy(self) -> bool {
        self.layers == 80 && ["llama", "qwen2", "deci", "olmo"].contains(&self.architecture) && self.shared_by > 1
    }
}
