//! Owns what this program needs of a machine that it is sent to, and whether a machine has it.

use std::hash::{DefaultHasher, Hasher};

use super::Trouble;
use crate::text::short_quote;

/// This program, to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name there, which has its version and a hash of its bytes.
    pub name: String,
    pub size: usize,
    /// The oldest GNU C library that it runs with; `None` where it needs none.
    pub glibc: Option<(u32, u32)>,
}

impl Package {
    pub fn of(program: &[u8]) -> Package {
        let mut hasher = DefaultHasher::new();
        hasher.write(program);
        let name = format!(concat!("oomdoctor-", env!("CARGO_PKG_VERSION"), "-{:016x}"), hasher.finish());
        Package { name, size: program.len(), glibc: needed_glibc(program) }
    }

    /// Fails with the reason if it can't run on what says this of itself: `Linux x86_64,glibc 2.36`.
    pub fn check(&self, lacks: &str) -> Result<(), Trouble> {
        let (system, libc) = lacks.split_once(',').unwrap_or((lacks, ""));
        let (system, own) = (system.trim(), own_system());
        if system != own {
            return Err(unfit(format!("this oomdoctor is for {own} and can't be sent to {}", short_quote(system))));
        }
        let Some((major, minor)) = self.glibc else { return Ok(()) };
        match glibc(libc) {
            Some(there) if there >= (major, minor) => Ok(()),
            _ => Err(unfit(format!("this oomdoctor needs glibc {major}.{minor}; there is {}", short_quote(libc)))),
        }
    }
}

/// Without `--send`, nvidia-smi may still read the machine.
fn unfit(why: String) -> Trouble {
    Trouble::lasting(why, "leave out --send, or install a package that fits there")
}

/// As `uname -sm` says it.
fn own_system() -> String {
    let system = match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        other => other,
    };
    format!("{system} {}", std::env::consts::ARCH)
}

/// The version out of `glibc 2.36` or `ldd (Debian GLIBC 2.36-9+deb12u10) 2.36`. Other C libraries do not say GLIBC or GNU.
fn glibc(libc: &str) -> Option<(u32, u32)> {
    let lower = libc.to_lowercase();
    if !lower.contains("glibc") && !lower.contains("gnu libc") {
        return None;
    }
    let (major, minor) = libc.split_ascii_whitespace().next_back()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The newest version among the names of symbols that the program asks the C library for.
fn needed_glibc(program: &[u8]) -> Option<(u32, u32)> {
    const PREFIX: &[u8] = b"\0GLIBC_";
    let versions = memchr::memmem::find_iter(program, PREFIX).filter_map(|at| {
        let rest = program.get(at + PREFIX.len()..)?;
        let end = rest.iter().take(12).position(|byte| *byte == 0)?;
        let mut parts = std::str::from_utf8(rest.get(..end)?).ok()?.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_says_which_library_is_needed() {
        let program = b"\x7fELF..\0GLIBC_2.2.5\0memcpy\0GLIBC_2.28\0GLIBC_2.9\0 version `GLIBC_2.99' not found";
        assert_eq!(Package::of(program).glibc, Some((2, 28)));
        assert_eq!(Package::of(b"static").glibc, None);
        assert_ne!(Package::of(b"one").name, Package::of(b"two").name);
    }

    #[test]
    fn another_system_and_an_old_or_other_library_are_refused() {
        let package = Package { name: String::new(), size: 1, glibc: Some((2, 28)) };
        let here = own_system();
        for fits in ["glibc 2.28", "glibc 2.36", "ldd (Ubuntu GLIBC 2.35-0ubuntu3.8) 2.35", "ldd (GNU libc) 2.39"] {
            assert_eq!(package.check(&format!("{here},{fits}")), Ok(()), "{fits}");
        }
        for other in ["glibc 2.17", "musl libc (x86_64)", "", "glibc x", "ldd (GNU libc) 2"] {
            assert!(package.check(&format!("{here},{other}")).is_err(), "{other}");
        }
        assert!(package.check("Linux riscv64,glibc 2.40").is_err());
        assert!(package.check("").is_err());
    }
}
