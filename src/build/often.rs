//! Owns the order of the program's code: `often.ld` names what runs at the start and each second, so that the linker places
//! it side by side (`tests/speed/order.py` says why and makes it), by the names that `.cargo/config.toml` asks the compiler for.
//! A linker that does not take the script goes its own way.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, io};

/// Tells the linker, where a release for Linux is built and its linker understands.
#[allow(clippy::print_stdout, reason = "how a build script speaks")]
pub(crate) fn order_functions() -> io::Result<()> {
    let script = env::current_dir()?.join("src/build/often.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    let target = env::var("TARGET").unwrap_or_default().to_uppercase().replace('-', "_");
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_{target}_LINKER");
    let is_wanted = is_set("PROFILE", "release") && is_set("CARGO_CFG_TARGET_OS", "linux");
    if is_wanted && links_with(&script)? {
        println!("cargo::rustc-link-arg-bins=-T");
        println!("cargo::rustc-link-arg-bins={}", script.display());
    }
    Ok(())
}

fn is_set(variable: &str, value: &str) -> bool {
    env::var(variable).is_ok_and(|set| set == value)
}

/// Links an empty program in the way in which the real one will be linked.
fn links_with(script: &Path) -> io::Result<bool> {
    let Some(folder) = env::var_os("OUT_DIR") else { return Ok(false) };
    let (source, program) = (Path::new(&folder).join("empty.rs"), Path::new(&folder).join("empty"));
    fs::write(&source, "fn main() {}")?;
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.arg(source).arg("-o").arg(program).args(["-C", "link-arg=-T", "-C"]);
    rustc.arg(format!("link-arg={}", script.display()));
    rustc.args(env::var_os("TARGET").map(|target| ["--target".into(), target]).into_iter().flatten());
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    let linked = rustc.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    Ok(linked.is_ok_and(|status| status.success()))
}
