//! Owns which rows a name may have meant that means none, or several: a family with a letter more, less or another, a
//! size alone. The likeliest first, of equally likely ones the newest. Pure.

use super::names::{telling, tells_size, words};
use crate::memory::shape::Figures;

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

/// How likely a name is meant by these words; 0 for not at all.
fn likeness(asked: &[String], name: &[String]) -> u64 {
    let said: u64 = asked
        .iter()
        .map(|word| match () {
            () if name.contains(word) => 4 + 2 * u64::from(tells_size(word)),
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
    if near.is_empty() { String::new() } else { format!("; perhaps {}", near.join(", ")) }
}

#[cfg(test)]
mod tests {
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
        assert!(suggestion(rows, "70b").starts_with("; perhaps Llama-3.3-70B, "));
        assert!(near(rows, "qwen").first().is_some_and(|name| name.starts_with("Qwen3.")), "{:?}", near(rows, "qwen"));
        for nothing in ["zebra-8b", "", "x", "-"] {
            assert_eq!(near(rows, nothing), Vec::<&str>::new(), "{nothing}");
        }
    }
}
