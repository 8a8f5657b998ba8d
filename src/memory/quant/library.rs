//! Owns in which quantisation Ollama's library has a model whose tag does not say it. By the sizes of its files as a
//! catalogue lists them (stored public file 21434928240, held against ours on 2026-11-21): new families come in Q4_K_M,
//! those up to the middle of 2024 in Q4_0, a few small ones in more.

/// Families in Q4_0, by the names before the colon.
const IN_Q4_0: [&str; 44] = [
    "aya",
    "codegeex4",
    "codegemma",
    "codellama",
    "codeqwen",
    "codestral",
    "command-r",
    "command-r-plus",
    "deepseek-coder",
    "deepseek-coder-v2",
    "deepseek-llm",
    "deepseek-v2",
    "dolphin-llama3",
    "dolphin-mistral",
    "dolphin-mixtral",
    "dolphin-phi",
    "falcon",
    "gemma",
    "gemma2",
    "glm4",
    "hermes3",
    "internlm2",
    "llama2",
    "llama2-uncensored",
    "llama3",
    "mistral-nemo",
    "mixtral",
    "neural-chat",
    "nous-hermes2",
    "openchat",
    "openhermes",
    "orca-mini",
    "phi",
    "phi3",
    "phi3.5",
    "qwen2",
    "solar",
    "stablelm2",
    "starcoder2",
    "starling-lm",
    "tinydolphin",
    "tinyllama",
    "vicuna",
    "yi",
];

/// The quantisation of a name as Ollama has it (`mixtral`, `llama3.2:1b`), with whether that model's own size says so;
/// `None` for names of another form.
pub(crate) fn of_library(name: &str) -> Option<(&'static str, bool)> {
    let lower = name.to_lowercase();
    let (family, tag) = lower.split_once(':').unwrap_or((&lower, ""));
    if lower.contains('/') {
        return None;
    }
    Some(match (family, tag) {
        // Its experts as they were trained, the rest in BF16.
        ("gpt-oss" | "gpt-oss-safeguard", _) => ("MXFP4, BF16", true),
        ("llama3.2", "1b") | ("gemma3", "270m") | ("smollm2", "" | "latest" | "1.7b") => ("Q8_0", true),
        ("smollm2", "135m" | "360m") => ("F16", true),
        (family, _) if IN_Q4_0.contains(&family) => ("Q4_0", true),
        (_, "") => return None,
        _ => ("Q4_K_M", false),
    })
}
