//! Owns what the terminal program is at any moment (`Model`), all that can happen to it (`Msg`), what it then becomes
//! (`update`) and what it asks of the outside world (`Effect`). No clock, no files, no drawing.

pub(crate) mod action;
pub(crate) mod advise;
pub(crate) mod again;
pub(crate) mod aim;
pub(crate) mod detail;
pub(crate) mod dialog;
pub mod dropped;
pub(crate) mod editor;
pub mod effect;
pub mod freed;
pub(crate) mod gate;
pub mod keymap;
pub(crate) mod last;
pub(crate) mod layout;
pub(crate) mod letters;
pub mod model;
pub mod msg;
pub(crate) mod names;
pub(crate) mod overlay;
pub(crate) mod pace;
pub(crate) mod plan;
pub(crate) mod prompt;
pub(crate) mod question;
pub(crate) mod region;
pub mod replay;
pub(crate) mod rerun;
pub(crate) mod rows;
pub mod run_again;
pub(crate) mod scroll;
pub(crate) mod summary;
#[cfg(test)]
#[allow(clippy::new_without_default, reason = "only tests make one")]
pub(crate) mod tests;
pub mod update;
pub(crate) mod victims;
pub(crate) mod walk;
pub(crate) mod wants;

pub use effect::Effect;
pub use model::Model;
pub use msg::{Cx, Msg};
pub use update::update;
