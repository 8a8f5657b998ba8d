//! Owns the knowledge base: entries and fixes as data, and what a log says according to them.
//! Knows nothing of the living machine or of the screen.

pub mod diagnosis;
pub mod facts;
pub mod fix;
