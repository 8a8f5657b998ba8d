//! Owns why an engine would not start with its settings, however much memory there is. Source: vLLM's ModelConfig,
//! SchedulerConfig and parallel layers, SGLang's model_config, transformers' from_pretrained, read on 2026-11-21.
//! Knows nothing of GPUs.

use super::engine::Engine;
use super::inference::Dtype;
use super::shape::{ModelShape, Storage};
use super::words::tokens_in_words;

/// Whether attention heads, and the fewer heads of K and V, can be shared out over so many GPUs: evenly, or each of
/// the latter to as many GPUs. What is not known is taken to be even.
pub(crate) fn shares_out(shape: &ModelShape, ranks: u64) -> bool {
    let mut caches = shape.layers.iter().flatten().filter_map(|layer| layer.cache);
    let even =
        |heads: u64| heads.checked_rem(ranks) == Some(0) || ranks.checked_rem(heads).is_none_or(|rest| rest == 0);
    ranks <= 1 || shape.heads.checked_rem(ranks) == Some(0) && caches.all(|cache| even(cache.heads))
}

impl Engine {
    /// Why it would not start, as a sentence without its full stop; `None` where nothing is known against it.
    pub fn refusal(&self, shape: &ModelShape) -> Option<String> {
        let (ranks, asked) = match self {
            Engine::Vllm(serving) => (serving.tensor_parallel, serving.max_model_len),
            Engine::Sglang(serving) => (serving.tensor_parallel, serving.context),
            Engine::Transformers(generating) => {
                let narrow = matches!(generating.dtype, Dtype::Int8 | Dtype::Nf4) && shape.storage == Storage::Gguf;
                return narrow.then(|| "transformers does not quantize a GGUF file: it unpacks it".to_owned());
            }
            _ => return None,
        };
        let name = self.name();
        if !shares_out(shape, ranks) {
            let heads = shape.heads;
            let layers =
                if let Engine::Vllm(_) = self { " (whole layers it can: --pipeline-parallel-size)" } else { "" };
            return Some(format!(
                "{name} can't share the model's {heads} attention heads out evenly over {ranks} GPUs{layers}"
            ));
        }
        if let (Some(asked), Some(most)) = (asked, shape.context_trained)
            && asked > most
        {
            let (asked, most) = (tokens_in_words(asked), tokens_in_words(most));
            return Some(format!("{name} refuses {asked} tokens of context for a model that was made for {most}"));
        }
        match self {
            Engine::Vllm(serving) if serving.sequences > serving.batched_tokens => Some(format!(
                "vLLM wants at least as many tokens at once ({}) as sequences ({})",
                serving.batched_tokens, serving.sequences
            )),
            _ => None,
        }
    }
}
