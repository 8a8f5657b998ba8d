//! Owns which row of the table a name means, as people, Ollama and the hub write it, and which it may have meant that
//! means none, or several. Family, version, size and variant must be exactly those of one of the row's names; only words that
//! change no shape (`HARMLESS`) may stand beside them. Every other name is not in the table: a variant of a model may have
//! another length, more weights or other layers. Knows nothing of figures.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::memory::shape::Figures;
use crate::memory::{data, quant};

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
    // A point may stand before a file's quantization.
    words.iter().map(|word| word.trim_matches('.').to_owned()).filter(|word| !word.is_empty()).collect()
}

/// Words that change neither a model's layers nor its length: how it was taught to answer, what its weights are stored in,
/// who gave them out, what was trained on top of them.
static HARMLESS: LazyLock<BTreeSet<String>> = LazyLock::new(|| data::read(HARMLESS_WORDS).unwrap_or_default());

const HARMLESS_WORDS: &str = include_str!("../../../knowledge/memory/harmless_words.ron");

fn is_harmless(word: &str) -> bool {
    HARMLESS.contains(word) || word.ends_with("bpw") && word.starts_with(|c: char| c.is_ascii_digit())
}

/// The words of a name that tell, each once, in the name's order.
pub(super) fn telling(name: &str) -> Vec<String> {
    let mut telling: Vec<String> = Vec::new();
    for word in words(name).into_iter().filter(|word| !is_harmless(word)) {
        // A file's name may begin with the organization: `Qwen_Qwen3-8B`.
        if !telling.contains(&word) {
            telling.push(word);
        }
    }
    telling
}

/// What a row is called: each of its names, and names of later or taught versions with the same figures.
fn names(row: &Figures) -> impl Iterator<Item = &str> {
    let own = row.name.split(" / ").next().unwrap_or(&row.name);
    [own].into_iter().chain(row.also.iter().map(String::as_str))
}

/// The row that a name means; `None` where the table lacks it.
pub fn find(rows: &[Figures], query: &str) -> Option<Figures> {
    called(rows, query).map(|(row, _)| row)
}

/// The row that a name means, and what the table calls the model that was named: never another model
/// with the same figures.
pub fn called(rows: &[Figures], query: &str) -> Option<(Figures, String)> {
    if let Some(row) = rows.iter().find(|row| row.name.eq_ignore_ascii_case(query)) {
        return Some((row.clone(), names(row).next().unwrap_or(&row.name).to_owned()));
    }
    let model = without_quantization(query);
    let asked = telling(&model);
    let found = of_family(rows, &model).or_else(|| exact(rows, &asked)).or_else(|| without_active_size(rows, &asked));
    found.map(|(row, name)| (row.clone(), name.to_owned()))
}

/// Whether a name can consist of these words at all: told at once, where taking it apart is slow.
fn has_letters_of(name: &str, words: &[String]) -> bool {
    let lower = name.to_lowercase();
    words.iter().all(|word| lower.contains(word))
}

/// The row that a family's bare name means.
fn of_family<'r>(rows: &'r [Figures], model: &str) -> Option<(&'r Figures, &'r str)> {
    let whole: Vec<String> = words(model).into_iter().filter(|word| word != "latest").collect();
    let row =
        rows.iter().find(|row| row.alone.iter().any(|name| has_letters_of(name, &whole) && words(name) == whole))?;
    Some((row, names(row).next()?))
}

/// The row with a name of exactly these words.
fn exact<'r>(rows: &'r [Figures], asked: &[String]) -> Option<(&'r Figures, &'r str)> {
    let all = rows.iter().flat_map(|row| names(row).map(move |name| (row, name)));
    all.into_iter().filter(|(_, name)| has_letters_of(name, asked)).find(|(_, name)| {
        let name = telling(name);
        name.len() == asked.len() && !name.is_empty() && name.iter().all(|word| asked.contains(word))
    })
}

/// The model's own part of what was asked for: of a path the last part or the cached repository's name, without what it
/// says of a quantization.
pub(super) fn without_quantization(query: &str) -> String {
    let mut parts = query.split(['/', '\\']).filter(|part| !part.is_empty());
    let cached = parts.clone().find_map(|part| part.strip_prefix("models--")?.rsplit("--").next());
    let tail = cached.or_else(|| parts.next_back()).unwrap_or(query).to_lowercase();
    let tail = tail.trim_end_matches(".gguf");
    // A file in parts: `-00001-of-00003`.
    let tail = match tail.rsplit_once("-of-") {
        Some((before, count)) if count.len() == 5 => before.trim_end_matches(|c: char| c.is_ascii_digit()),
        _ => tail,
    };
    let quantization = quant::in_name(tail.trim_end_matches('-')).map(|(word, _)| word.to_lowercase());
    quantization.map_or_else(|| tail.to_owned(), |word| tail.replace(&word, " "))
}

/// The only row that has all words of a name with a size, and beyond them only the size of what is used for each
/// token: `qwen3:30b` for Qwen3-30B-A3B.
fn without_active_size<'r>(rows: &'r [Figures], asked: &[String]) -> Option<(&'r Figures, &'r str)> {
    let mut fitting = rows.iter().filter_map(|row| {
        let name = names(row).next().filter(|name| has_letters_of(name, asked))?;
        let own = telling(name);
        let whole = asked.iter().any(|word| tells_size(word)) && asked.iter().all(|word| own.contains(word));
        let rest = own.iter().filter(|word| !asked.contains(word)).all(|word| tells_active_size(word));
        (whole && rest).then_some((row, name))
    });
    let found = fitting.next()?;
    fitting.next().is_none().then_some(found)
}

/// Whether a word is a size such as 8b or a3b, which must not be ignored.
pub(super) fn tells_size(word: &str) -> bool {
    let number = word.trim_start_matches('a').trim_end_matches(['b', 'm']);
    number != word && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 'x')
}

fn tells_active_size(word: &str) -> bool {
    word.starts_with('a') && tells_size(word)
}

/// As many as a person reads.
const MOST: usize = 6;

/// The numbers of a version, or nothing: `3.1` is before `3` and `2.5`, `v0.3` before `v0.1`.
fn version(name: &[String]) -> Vec<u64> {
    let numbers = name.iter().filter(|word| !tells_size(word)).map(|word| word.trim_start_matches('v'));
    let word = numbers.into_iter().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    word.map(|word| word.split('.').filter_map(|part| part.parse().ok()).collect()).unwrap_or_default()
}

/// Whether two words differ in one letter at most, or in two neighbours that changed places.
fn alike(one: &str, other: &str) -> bool {
    one.len().min(other.len()) > 2 && strsim::osa_distance(one, other) < 2
}

/// Whether a version is one of this major version: `3.1` of `3`.
fn is_later_version(version: &str, major: &str) -> bool {
    major.chars().all(|c| c.is_ascii_digit()) && version.strip_prefix(major).is_some_and(|rest| rest.starts_with('.'))
}

/// How likely a name is meant by these words; 0 for not at all.
fn likeness(asked: &[String], name: &[String]) -> u64 {
    let said: u64 = asked
        .iter()
        .map(|word| match () {
            () if name.contains(word) => 4 + 2 * u64::from(tells_size(word)),
            () if name.iter().any(|own| is_later_version(own, word)) => 2,
            () if word.starts_with(|c: char| c.is_ascii_digit()) => 0,
            () if name.iter().any(|own| alike(word, own)) => 3,
            () => 0,
        })
        .sum();
    let family = asked.iter().find(|word| word.starts_with(char::is_alphabetic));
    // Without its family or one alike a size is no likeness.
    let related = family.is_none_or(|family| name.iter().any(|own| own == family || alike(family, own)));
    if related { said } else { 0 }
}

/// Names of rows that a query may mean, the likeliest and newest first.
pub fn near<'a>(rows: &'a [Figures], query: &str) -> Vec<&'a str> {
    let asked = telling(query.rsplit('/').next().unwrap_or(query));
    let mut found: Vec<_> = rows
        .iter()
        .filter_map(|row| {
            let names = [&row.name].into_iter().chain(&row.also);
            let likeness = names.map(|name| likeness(&asked, &telling(name))).max().filter(|likeness| *likeness > 0)?;
            Some((likeness, row.name.split(" / ").map(|name| version(&words(name))).max(), row.name.as_str()))
        })
        .collect();
    found.sort_by(|a, b| (b.0, &b.1).cmp(&(a.0, &a.1)));
    found.into_iter().map(|(.., name)| name).collect()
}

/// What to add to a refusal, with the few that are likeliest; nothing where none is.
pub fn suggestion(rows: &[Figures], query: &str) -> String {
    let near: Vec<&str> = near(rows, query).into_iter().take(MOST).collect();
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::super::rows;
    use super::*;

    /// Whether a family's bare name is what Ollama takes for it, whichever row that is.
    fn is_of_family(rows: &[Figures], name: &str) -> bool {
        let asked = telling(name);
        rows.iter().flat_map(|row| &row.alone).any(|alone| has_letters_of(alone, &asked) && telling(alone) == asked)
    }

    #[test]
    fn the_harmless_words_parse() {
        let words: Vec<String> = data::read(HARMLESS_WORDS).unwrap();
        assert_eq!(words.len(), HARMLESS.len(), "each once");
    }

    #[test]
    fn a_name_means_one_row() {
        let rows = rows().unwrap();
        let mut all: Vec<Vec<String>> = Vec::new();
        for row in rows {
            for name in names(row) {
                assert!(!all.contains(&telling(name)), "{name} is there twice");
                all.push(telling(name));
            }
            let own = names(row).filter(|name| !is_of_family(rows, name));
            for name in own.chain([row.name.as_str()]).chain(row.alone.iter().map(String::as_str)) {
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

    /// Words that make another model of one: an encoder, another length, other layers, other training from the beginning.
    const OTHER: [&str; 14] = [
        "VL",
        "Vision",
        "Omni",
        "Audio",
        "Coder2",
        "Math",
        "Embedding",
        "Reranker",
        "Guard2",
        "MoE2",
        "A9B",
        "1M",
        "2612",
        "V9",
    ];

    #[test]
    fn a_name_with_another_version_size_or_variant_never_means_the_row() {
        let rows = rows().unwrap();
        for row in rows {
            for name in names(row) {
                let mut others: Vec<String> = OTHER.iter().map(|word| format!("{name}-{word}")).collect();
                // Each number in the name one larger, and with a ninth behind its point.
                let digits = name.char_indices().filter(|(_, c)| c.is_ascii_digit());
                for (at, digit) in digits {
                    let next = char::from_digit((digit.to_digit(10).unwrap() + 1) % 10, 10).unwrap();
                    let (before, rest) = name.split_at(at);
                    let after = rest.strip_prefix(digit).unwrap();
                    others.push(format!("{before}{next}{after}"));
                    others.push(format!("{before}{digit}.9{after}"));
                    others.push(format!("{before}{digit}7{after}"));
                }
                for other in others {
                    if is_of_family(rows, &other) {
                        continue;
                    }
                    let Some((found, called)) = called(rows, &other) else { continue };
                    // Another model that the table has, by its own name.
                    let own = telling(&called);
                    let said = telling(&other);
                    assert!(own.iter().all(|word| said.contains(word) || tells_active_size(word)), "{other}: {called}");
                    assert!(
                        said.iter().all(|word| own.contains(word)),
                        "{other} is taken for {called} of {}",
                        found.name
                    );
                }
            }
        }
    }

    #[test]
    fn words_that_change_no_shape_do_not_hide_the_row() {
        let rows = rows().unwrap();
        for row in rows {
            for name in names(row).map(|name| name.replace(' ', "-").replace(['(', ')'], "")) {
                let named = |written: &str| called(rows, written).map(|(row, _)| row.name);
                for written in [
                    format!("someone/{name}"),
                    name.to_lowercase(),
                    format!("{name}-GGUF"),
                    format!("{name}-AWQ"),
                    format!("{name}-GPTQ-Int4"),
                    format!("{name}-FP8"),
                    format!("{name}-bnb-4bit"),
                    format!("{name}-Q4_K_M.gguf"),
                    format!("/srv/models/{name}-Instruct-UD-Q4_K_XL.gguf"),
                    format!("/srv/models/{name}.Q8_0-00001-of-00003.gguf"),
                    format!("{name}-chat-hf"),
                ] {
                    let found = named(&written);
                    assert!(
                        found.as_deref() == Some(row.name.as_str()) || is_of_family(rows, &name),
                        "{written}: {found:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_table_calls_a_model_as_it_was_named() {
        let rows = rows().unwrap();
        for (query, name) in [
            ("deepseek-r1:14b", "DeepSeek-R1-14B"),
            ("Qwen/Qwen3.6-27B-FP8", "Qwen3.6-27B"),
            ("Qwen/Qwen3.8-27B", "Qwen3.8-27B"),
            ("zai-org/GLM-4.6", "GLM-4.6"),
            ("MiniMaxAI/MiniMax-M2.5", "MiniMax-M2.5"),
        ] {
            assert_eq!(called(rows, query).map(|(_, name)| name).as_deref(), Some(name), "{query}");
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
            ("qwen3-coder:30b", Some("Qwen3-Coder-30B-A3B")),
            ("Mistral-Small-3.2-24B-Instruct-2506", Some("Mistral-Small-3.2-24B")),
            ("mistral-small3.2:24b", Some("Mistral-Small-3.2-24B")),
            ("mistral-small:24b", Some("Mistral-Small-3 24B")),
            ("devstral:24b", Some("Devstral-Small-24B")),
            ("qwen2.5vl:7b", Some("Qwen2.5-VL-7B")),
            ("Qwen/Qwen2.5-VL-7B-Instruct", Some("Qwen2.5-VL-7B")),
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
            ("moonshotai/Kimi-K2-Instruct-0905", Some("Kimi-K2-0905")),
            ("moonshotai/Kimi-K2.5", Some("Kimi-K2-Thinking")),
            ("mistralai/Ministral-3-8B-Instruct-2512", Some("Ministral-3-8B")),
            ("nemotron-3-nano:30b", Some("Nemotron-3-Nano-30B-A3B")),
            ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", Some("Nemotron-3-Nano-30B-A3B")),
            ("granite4:small-h", Some("Granite-4.0-H-Small")),
            ("qwen3-coder-next", Some("Qwen3-Next-80B-A3B")),
            ("Qwen/Qwen3.8-27B", Some("Qwen3.8-27B")),
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
            ("mistralai/Devstral-Small-2507", Some("Devstral-Small-24B")),
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
            ("Qwen/Qwen3-VL-30B-A3B-Instruct", None),
            ("Qwen/Qwen3-30B-A3B-Instruct-2507", Some("Qwen3-30B-A3B-2507")),
            ("Qwen/Qwen3-4B-Thinking-2507-FP8", Some("Qwen3-4B-2507")),
            ("Qwen/Qwen2.5-Coder-7B-Instruct-AWQ", Some("Qwen2.5-Coder-7B")),
            ("Qwen/Qwen2.5-7B-Instruct-1M", None),
            ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/ab12", Some("Qwen3-8B")),
            ("Qwen_Qwen3-8B-Q4_K_M-00001-of-00002.gguf", Some("Qwen3-8B")),
            ("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", Some("Llama-3.1-8B")),
            ("GLM-4.5 / 4.6", Some("GLM-4.5 / 4.6")),
            ("zai-org/GLM-4.6", Some("GLM-4.5 / 4.6")),
            ("no-such-model", None),
            ("", None),
        ] {
            assert_eq!(find(rows, query).map(|row| row.name).as_deref(), name, "{query}");
        }
    }
}

#[cfg(test)]
mod near_tests {
    use super::*;
    use crate::memory::table::{find, rows};

    #[test]
    fn what_is_likeliest_and_newest_comes_first() {
        let rows = rows().unwrap();
        for (query, first) in [
            ("lama3.1:8b", "Llama-3.1-8B"),
            ("lama-3.1-8b", "Llama-3.1-8B"),
            ("Qwem3-8B", "Qwen3-8B"),
            ("qwne3:8b", "Qwen3-8B"),
            ("mistrall:7b", "Mistral-7B-v0.3"),
            ("gema3:27b", "Gemma-3-27b-it"),
            ("70b", "Llama-3.3-70B"),
            ("llama3.3:8b", "Llama-3.1-8B"),
            ("phi4:3b", "phi-4"),
        ] {
            assert_eq!(find(rows, query), None, "{query}");
            assert_eq!(near(rows, query).first().copied(), Some(first), "{query}: {:?}", near(rows, query));
        }
        assert!(suggestion(rows, "70b").starts_with("; did you mean Llama-3.3-70B, "));
        let family = near(rows, "lama3");
        assert!(family.iter().take(MOST).all(|name| name.starts_with("Llama-3")), "{family:?}");
        assert!(near(rows, "qwen").first().is_some_and(|name| name.starts_with("Qwen3.")), "{:?}", near(rows, "qwen"));
        for nothing in ["zebra-8b", "", "x", "-"] {
            assert_eq!(near(rows, nothing), Vec::<&str>::new(), "{nothing}");
        }
    }
}
