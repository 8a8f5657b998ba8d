//! Owns what the terminal program is at any moment (`Model`), all that can happen to it (`Msg`), what it then becomes
//! (`update`) and what it asks of the outside world (`Effect`). No clock, no files, no drawing.

pub mod action;
pub mod again;
pub mod aim;
pub mod effect;
pub mod gate;
pub mod help;
pub mod keymap;
pub mod last;
pub mod layout;
pub mod model;
pub mod msg;
pub mod question;
pub mod rows;
pub mod summary;
pub mod symptoms;
#[cfg(test)]
#[allow(clippy::new_without_default, reason = "only tests make one")]
pub mod tests;
pub mod update;
pub mod walk;

pub use effect::Effect;
pub use model::Model;
pub use msg::{Cx, Msg};
pub use update::update;
