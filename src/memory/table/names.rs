//! Owns which row of the table a name means, as people, Ollama and the hub write it: all words of a row's name must be
//! in it, and no size, version or kind that the row lacks. A name that could mean two rows means none.
//! Knows nothing of figures.

use crate::memory::quant;
use crate::memory::shape::Figures;

/// The parts of a name: `Llama-3.1-8B-Instruct` has llama, 3.1, 8b, instruct.
pub(super) fn words(name: &str) -> Vec<String> {
    let lower = name.to_lowercase();
    let mut words: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut last = ' ';
    for c in lower.chars() {
        // A number begins a word of its own after letters: qwen2.5 is qwen and 2.5; 8b and a3b stay whole.
        let begins =
            c.is_ascii_digit() && last.is_alphabetic() && current.chars().filter(|c| c.is_alphabetic()).count() > 1;
        if !(c.is_alphanumeric() || c == '.') || begins {
            words.extend((!current.is_empty()).then(|| std::mem::take(&mut current)));
        }
        if c.is_alphanumeric() || c == '.' {
            current.push(c);
        }
        last = c;
    }
    words.extend((!current.is_empty()).then_some(current));
    words
}

/// Words that do not tell one model from another of the table.
const NOISE: [&str; 14] =
    ["instruct", "it", "chat", "base", "gguf", "hf", "latest", "meta", "text", "preview", "v", "v0.1", "hub", "gptq"];

/// The words of a name that tell.
pub(super) fn telling(name: &str) -> Vec<String> {
    words(name).into_iter().filter(|word| !NOISE.contains(&word.as_str())).collect()
}

/// The names that a row is found by, be they part of a longer one.
fn names(row: &Figures) -> impl Iterator<Item = &str> {
    let own = row.name.split(" / ").next().unwrap_or(&row.name);
    [own].into_iter().chain(row.also.iter().map(String::as_str))
}

/// The version that stands behind a name's family in a query (`3` of falcon3 for the row falcon-7b); else the family.
fn version(name: &[String], asked: &[String]) -> String {
    let family = name.first().cloned().unwrap_or_default();
    let behind = asked.windows(2).filter(|pair| pair.first() == Some(&family)).filter_map(|pair| pair.last());
    behind.into_iter().find(|word| tells_version(word) && !name.contains(word)).cloned().unwrap_or(family)
}

/// The row that a name means: one that is called so, or all words of the row's name must be in it, and the row with the
/// most of them wins.
/// A size or a version in the query that the row lacks rules it out. `None` where nothing fits or two do equally.
pub fn find(rows: &[Figures], query: &str) -> Option<Figures> {
    if let Some(row) = rows.iter().find(|row| row.name.eq_ignore_ascii_case(query)) {
        return Some(row.clone());
    }
    let tail = query.rsplit('/').next().unwrap_or(query);
    // A family may be asked for in a quantisation.
    let quantisation = quant::in_name(tail).map(|(word, _)| word.to_lowercase()).unwrap_or_default();
    let whole = words(&tail.to_lowercase().replace(":latest", "").replace(&quantisation, ""));
    if let Some(row) = rows.iter().find(|row| row.alone.iter().any(|name| words(name) == whole)) {
        return Some(row.clone());
    }
    let asked = telling(tail);
    if asked.is_empty() {
        return None;
    }
    let names = rows.iter().flat_map(|row| names(row).map(move |name| (row, telling(name))));
    let mut fitting: Vec<(usize, &Figures)> = names
        .filter(|(_, name)| !name.is_empty() && name.iter().all(|word| asked.contains(word)))
        .filter(|(_, name)| asked.iter().all(|word| name.contains(word) || !(tells_size(word) || tells_kind(word))))
        .filter(|(_, name)| name.contains(&version(name, &asked)))
        .map(|(row, name)| (name.len(), row))
        .collect();
    fitting.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let Some((best, row)) = fitting.first() else { return by_part(rows, &asked) };
    let rivals = fitting.iter().filter(|(count, other)| count == best && other.name != row.name).count();
    (rivals == 0).then(|| (*row).clone())
}

/// The only row that has all words of the query, and perhaps more.
fn by_part(rows: &[Figures], asked: &[String]) -> Option<Figures> {
    let mut fitting = rows.iter().filter(|row| {
        let name = telling(names(row).next().unwrap_or_default());
        let whole = asked.iter().any(|word| tells_size(word)) && asked.iter().all(|word| name.contains(word));
        whole && asked.contains(&version(asked, &name))
    });
    let row = fitting.next()?;
    fitting.next().is_none().then(|| row.clone())
}

/// Whether a word is a size such as 8b or a3b, which must not be ignored.
pub(super) fn tells_size(word: &str) -> bool {
    let number = word.trim_start_matches('a').trim_end_matches(['b', 'm']);
    number != word && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 'x')
}

/// Whether a word is a version such as 3, 2.5 or h1, and no date.
fn tells_version(word: &str) -> bool {
    let number = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let letters = word.len().saturating_sub(number.len());
    letters <= 1 && (1..=3).contains(&number.len()) && number.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// Whether a word says that the model is another than the one whose name it stands in, though it is built on it.
fn tells_kind(word: &str) -> bool {
    ["multimodal", "vision", "tts", "asr", "ocr", "plus"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::super::rows;
    use super::*;

    #[test]
    fn a_name_means_one_row() {
        let rows = rows().unwrap();
        let mut all: Vec<Vec<String>> = Vec::new();
        for row in rows {
            for name in names(row).chain([row.name.as_str()]).chain(row.alone.iter().map(String::as_str)) {
                assert!(name == row.name || !all.contains(&telling(name)), "{name} is there twice");
                all.push(telling(name));
                let found = find(rows, name).map(|row| row.name);
                assert_eq!(found.as_deref(), Some(row.name.as_str()), "{name} leads elsewhere");
            }
        }
    }

    #[test]
    fn a_family_alone_is_what_ollama_takes_for_it() {
        let rows = rows().unwrap();
        let of = |query| find(rows, query).map(|row| row.name);
        for (query, name) in [
            ("qwen3", "Qwen3-8B"),
            ("qwen3:latest", "Qwen3-8B"),
            ("qwen3.6", "Qwen3.5-35B-A3B / Qwen3.6-35B-A3B"),
            ("gemma4", "Gemma-4-E4B"),
            ("gpt-oss", "gpt-oss-20b"),
            ("llama3.2", "Llama-3.2-3B"),
            ("mistral", "Mistral-7B-v0.3"),
            ("qwq", "QwQ-32B"),
            ("deepseek-coder-v2", "DeepSeek-V2-Lite"),
            ("mixtral q5", "Mixtral-8x7B-v0.1"),
            ("llama3.2:q8_0", "Llama-3.2-3B"),
        ] {
            assert_eq!(of(query).as_deref(), Some(name), "{query}");
        }
        // Nothing may stand beside it: those are other models.
        for query in ["qwen3-embedding", "qwen3-guard", "gemma4-uncensored-e9", "mistral-ocr", "llama3.2-vision"] {
            assert_eq!(of(query), None, "{query}");
        }
        assert_eq!(of("deepseek-ai/DeepSeek-Coder-V2-Instruct").as_deref(), Some("DeepSeek-V2"));
    }

    #[test]
    fn another_version_or_kind_is_another_model() {
        let rows = rows().unwrap();
        for query in [
            "falcon3:7b",
            "falcon-h1:7b",
            "qwen:7b",
            "HuggingFaceTB/SmolLM-1.7B",
            "openbmb/MiniCPM-V-4.6",
            "microsoft/Phi-4-multimodal-instruct",
            "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice",
            "Qwen/Qwen3-ASR-1.7B",
            "glm-4.6v-flash",
            "glm-5.3-flash",
            "command-a-plus",
        ] {
            assert_eq!(find(rows, query).map(|row| row.name), None, "{query}");
        }
    }

    #[test]
    fn names_are_found_as_people_write_them() {
        let rows = rows().unwrap();
        for (query, name) in [
            ("llama3.1:8b", Some("Llama-3.1-8B")),
            ("meta-llama/Llama-3.1-8B-Instruct", Some("Llama-3.1-8B")),
            ("Qwen/Qwen2.5-7B-Instruct", Some("Qwen2.5-7B")),
            ("qwen3-30b-a3b", Some("Qwen3-30B-A3B")),
            ("qwen3:30b", Some("Qwen3-30B-A3B")),
            ("mistral:7b", Some("Mistral-7B-v0.1")),
            ("gemma-3-27b-it", Some("Gemma-3-27b-it")),
            ("gpt-oss:20b", Some("gpt-oss-20b")),
            ("deepseek-r1", Some("DeepSeek-V3 / R1")),
            ("mixtral-8x7b-instruct-v0.1", Some("Mixtral-8x7B-v0.1")),
            ("llama-3.1-9b", None),
            ("deepseek-r1:14b", Some("Qwen2.5-14B")),
            ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", Some("Qwen2.5-32B")),
            ("deepseek-r1:70b", Some("Llama-3.3-70B")),
            ("deepseek-r1:671b", Some("DeepSeek-V3 / R1")),
            ("qwen3-coder:30b", Some("Qwen3-30B-A3B")),
            ("Mistral-Small-3.2-24B-Instruct-2506", Some("Mistral-Small-3 24B")),
            ("devstral:24b", Some("Mistral-Small-3 24B")),
            ("qwen2.5vl:7b", Some("Qwen2.5-7B")),
            ("phi4:14b", Some("phi-4")),
            ("llama4:scout", Some("Llama-4-Scout-17B-16E")),
            ("qwen3.5:9b", Some("Qwen3.5-9B")),
            ("gemma4:e4b", Some("Gemma-4-E4B")),
            ("gemma4:26b", Some("Gemma-4-26B-A4B")),
            ("gemma3n:e4b", Some("Gemma-3n-E4B")),
            ("google/gemma-3n-E2B-it", Some("Gemma-3n-E2B")),
            ("zai-org/GLM-5.2", Some("GLM-5.2")),
            ("zai-org/GLM-5", Some("GLM-5")),
            ("zai-org/GLM-4.7-Flash", Some("GLM-4.7-Flash")),
            ("moonshotai/Kimi-K2-Instruct-0905", Some("Kimi-K2")),
            ("moonshotai/Kimi-K2.5", Some("Kimi-K2-Thinking")),
            ("mistralai/Ministral-3-8B-Instruct-2512", Some("Ministral-3-8B")),
            ("nemotron-3-nano:30b", Some("Nemotron-3-Nano-30B-A3B")),
            ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", Some("Nemotron-3-Nano-30B-A3B")),
            ("granite4:small-h", Some("Granite-4.0-H-Small")),
            ("qwen3-coder-next", Some("Qwen3-Next-80B-A3B")),
            ("Qwen/Qwen3.8-27B", Some("Qwen3.5-27B / Qwen3.6-27B")),
            ("deepseek-v4-pro", Some("DeepSeek-V4-Pro")),
            ("moonshotai/Kimi-K3", Some("Kimi-K3")),
            ("llama4:maverick", Some("Llama-4-Maverick-17B-128E")),
            ("llama4:128x17b", Some("Llama-4-Maverick-17B-128E")),
            ("mistralai/Mistral-Large-3-675B-Instruct-2512", Some("Mistral-Large-3-675B")),
            ("granite4:tiny-h", Some("Granite-4.0-H-Tiny")),
            ("granite4:micro-h", Some("Granite-4.0-H-Micro")),
            ("granite4:micro", Some("Granite-4.0-Micro")),
            ("nemotron-3-super", Some("Nemotron-3-Super-120B-A12B")),
            ("devstral-2:123b", Some("Devstral-2-123B")),
            ("mistralai/Devstral-Small-2507", Some("Mistral-Small-3 24B")),
            ("mistral-nemo:12b", Some("Mistral-Nemo-12B")),
            ("deepseek-r1:8b", Some("Qwen3-8B")),
            ("NousResearch/Hermes-3-Llama-3.1-8B", Some("Llama-3.1-8B")),
            ("meta-llama/Llama-Guard-3-8B", Some("Llama-3.1-8B")),
            ("exaone4:32b", Some("EXAONE-4.0-32B")),
            ("command-r:35b-08-2024-q4_0", Some("Command-R-08-2024")),
            ("CohereForAI/c4ai-command-r-08-2024", Some("Command-R-08-2024")),
            ("CohereForAI/c4ai-command-r-plus-08-2024", None),
            ("step-3.5-flash", Some("Step-3.5-Flash")),
            ("seed-oss", Some("Seed-OSS-36B")),
            ("Qwen/Qwen3-VL-30B-A3B-Instruct", Some("Qwen3-30B-A3B")),
            ("GLM-4.5 / 4.6", Some("GLM-4.5 / 4.6")),
            ("zai-org/GLM-4.6", Some("GLM-4.5 / 4.6")),
            ("no-such-model", None),
            ("", None),
        ] {
            assert_eq!(find(rows, query).map(|row| row.name).as_deref(), name, "{query}");
        }
    }
}
