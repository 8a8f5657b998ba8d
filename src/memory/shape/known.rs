//! Owns which of llama.cpp's architectures are known here and what is peculiar to each: which layers have a window
//! where the file does not say, which are recurrent, and which cache an indexer. Source: llama.cpp 0.6.0, read on
//! 2026-11-21.
//! An architecture that is not here has weights but no cache figure.

/// Attention in every layer, over the whole context, heads and lengths as the file says.
const PLAIN: &[&str] = &[
    "llama",
    "deci",
    "falcon",
    "grok",
    "gpt2",
    "gptj",
    "gptneox",
    "mpt",
    "baichuan",
    "starcoder",
    "refact",
    "bloom",
    "stablelm",
    "qwen",
    "qwen2",
    "qwen2moe",
    "qwen2vl",
    "qwen3",
    "qwen3moe",
    "qwen3vl",
    "qwen3vlmoe",
    "phi2",
    "phi3",
    "phimoe",
    "codeshell",
    "orion",
    "internlm2",
    "minicpm",
    "minicpm3",
    "gemma",
    "starcoder2",
    "xverse",
    "command-r",
    "dbrx",
    "olmo",
    "olmoe",
    "openelm",
    "arctic",
    "deepseek",
    "deepseek2",
    "deepseek32",
    "glm-dsa",
    "chatglm",
    "glm4",
    "glm4moe",
    "bitnet",
    "jais",
    "nemotron",
    "exaone",
    "granite",
    "granitemoe",
    "chameleon",
    "plm",
    "bailingmoe",
    "bailingmoe2",
    "dots1",
    "arcee",
    "ernie4_5",
    "ernie4_5-moe",
    "hunyuan-moe",
    "hunyuan-dense",
    "smollm3",
    "seed_oss",
    "grovemoe",
    "apertus",
    "minimax-m2",
    "mimo",
    "mistral3",
    "maincoder",
    "pangu-embedded",
    "plamo",
    "deepseek2-ocr",
    "jais2",
    "graniteswitch",
    "hunyuan_vl",
    "hy_v3",
    "cogvlm",
    "mistral4",
    "paddleocr",
    "minimax-m3",
    "talkie",
];

/// Bidirectional encoders and diffusion models, which keep nothing between calls.
const ENCODERS: &[&str] = &[
    "bert",
    "nomic-bert",
    "nomic-bert-moe",
    "jina-bert-v2",
    "jina-bert-v3",
    "neo-bert",
    "eurobert",
    "modern-bert",
    "gemma-embedding",
    "dream",
    "llada",
    "llada-moe",
    "rnd1",
];

/// Architectures that use the file's window: (name, every how many layers one is full or 0 for none, full first, the
/// window where the file has none).
const WINDOWED: &[(&str, u64, bool, u64)] = &[
    ("gemma2", 2, false, 4096),
    ("gemma3", 6, false, 0),
    ("gemma3n", 5, false, 0),
    ("gemma4", 6, false, 0),
    ("gpt-oss", 2, false, 0),
    ("cohere2", 4, false, 0),
    ("llama4", 4, false, 8192),
    ("olmo2", 4, false, 0),
    ("exaone4", 4, false, 4096),
    ("smallthinker", 4, true, 4096),
    ("afmoe", 4, false, 0),
    ("mimo2", 6, false, 0),
    ("laguna", 4, true, 0),
    ("plamo3", 8, false, 0),
    ("cohere2moe", 4, true, 0),
    ("exaone-moe", 4, false, 128),
    ("muse-glimmer", 4, false, 0),
    ("mellum", 4, false, 0),
    ("step35", 4, true, 0),
    ("deepseek4", 0, false, 0),
];

/// Which layers of an architecture keep state by sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recurrence {
    Never,
    /// All, and there is no attention.
    Always,
    Both,
    /// Those without attention heads.
    WithoutHeads,
    /// Those without attention heads and without a feed-forward part.
    WithoutHeadsAndFeedForward,
    /// All but each n-th.
    Interval,
}

/// Which layers of an architecture cache the keys of an indexer, where the file has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indexer {
    /// All, or those that `attention.indexer.types` marks.
    All,
    /// As `All`; from a trained context of 2^20 tokens on and without that list the first three and each fourth.
    Shared,
    /// Those after the dense ones at the front.
    Sparse,
}

/// The indexer's layers; `None` where it is not known here, though the file has one.
pub(super) fn indexer(architecture: &str) -> Option<Indexer> {
    Some(match architecture {
        "deepseek32" => Indexer::All,
        "glm-dsa" => Indexer::Shared,
        "minimax-m3" => Indexer::Sparse,
        _ => return None,
    })
}

/// How an architecture caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traits {
    pub(super) recurrence: Recurrence,
    /// Period, full first, and window by default, where the architecture uses windows.
    pub(super) window: Option<(u64, bool, u64)>,
    /// It keeps nothing at all.
    pub(super) stateless: bool,
}

/// The architecture's traits; `None` where it is not known here.
pub(super) fn traits(architecture: &str) -> Option<Traits> {
    let plain = Traits { recurrence: Recurrence::Never, window: None, stateless: false };
    if PLAIN.contains(&architecture) {
        return Some(plain);
    }
    if ENCODERS.contains(&architecture) {
        return Some(Traits { stateless: true, ..plain });
    }
    if let Some((_, period, full_first, window)) = WINDOWED.iter().find(|(name, ..)| *name == architecture) {
        return Some(Traits { window: Some((*period, *full_first, *window)), ..plain });
    }
    let recurrence = match architecture {
        "mamba" | "mamba2" | "rwkv6" | "rwkv7" | "rwkv6qwen2" | "arwkv7" => Recurrence::Always,
        "falcon-h1" => Recurrence::Both,
        "jamba" | "granitehybrid" | "lfm2" | "lfm2moe" | "plamo2" | "kimi-linear" | "kimi-k3" => {
            Recurrence::WithoutHeads
        }
        "nemotron_h" | "nemotron_h_moe" => Recurrence::WithoutHeadsAndFeedForward,
        "qwen3next" | "qwen35" | "qwen35moe" => Recurrence::Interval,
        _ => return None,
    };
    Some(Traits { recurrence, ..plain })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_in_one_list_only() {
        let windowed = WINDOWED.iter().map(|(name, ..)| name);
        let mut all: Vec<&str> = PLAIN.iter().chain(ENCODERS).chain(windowed).copied().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|name| traits(name).is_some()));
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        assert_eq!(traits("qwen9"), None);
        assert_eq!(traits(""), None);
    }
}
