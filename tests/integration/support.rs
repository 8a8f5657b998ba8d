//! What the tests share: the fakes of the outside world.

pub mod fake_driver;
