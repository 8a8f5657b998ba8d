//! Owns the loop between the outside world and the app: it turns what happens into messages and does what `update`
//! asks for. Knows nothing of what a log means.

pub mod process_control;
