//! cargo-fuzz's way to `targets::redact`.
#![no_main]
#![allow(dead_code, unused_imports, reason = "each target is a program of its own and uses its part")]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::redact(data));
