//! Owns reading tables in RON that are built into the program (`knowledge/memory/`, `knowledge/models/`). A table that can't
//! be read is empty: each has a test that holds that it can.

use ron::extensions::Extensions;
use serde::de::DeserializeOwned;

/// The table, or what is wrong with its text.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
    options.from_str(text).map_err(|error| error.to_string())
}
