//! Owns the lists of names that advice compares with (`knowledge/advice/names.ron`).

use std::sync::LazyLock;

use serde::Deserialize;

use crate::packed;

pub(crate) static NAMES: LazyLock<Names> =
    LazyLock::new(|| packed::table(include_str!("../../knowledge/advice/names.ron")));

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(crate) struct Names {
    /// Programs that start others: their name says nothing about what ran.
    pub starters: Vec<&'static str>,
    /// Scripts of many programs: their name alone says nothing.
    pub common_scripts: Vec<&'static str>,
    /// Parts of names of models whose weights may have any number of bits, or have four or eight.
    pub weights_of_any_bits: Vec<&'static str>,
    pub weights_of_four_bits: Vec<&'static str>,
    pub weights_of_eight_bits: Vec<&'static str>,
    /// Words that some programs and drivers leave out of a GPU's name.
    pub makers: Vec<&'static str>,
}
