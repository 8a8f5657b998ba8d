//! Owns what is explained in addition to entries: frequent questions (`knowledge/questions.ron`), each shared by many
//! entries, and technical terms (`knowledge/glossary.ron`).

use serde::Deserialize;

use super::fix::Reference;

/// A question people really ask, with a short answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// How entries name it.
    pub id: String,
    /// As people ask it.
    pub ask: String,
    /// Two or three sentences.
    pub answer: String,
    /// What the answer rests on, and when that was checked.
    pub references: Vec<Reference>,
}

/// A technical term and its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The word as it is used here.
    pub term: String,
    /// Other words for it.
    #[serde(default)]
    pub also: Vec<String>,
    /// What it means, in a sentence or two.
    pub means: String,
}
