//! Owns what is heard from a machine: whatever its profile prints, then the sample stream, or readings of nvidia-smi, or what
//! the machine lacks. Every line is foreign text.

use super::Trouble;
use crate::gpu::{Header, SCHEMA, Snapshot};
use crate::hosts::nvidia_smi::Lines;
use crate::hosts::{OwnProgram, Through};
use crate::text::short_quote;

/// How the first line of the sample stream begins.
const HEADER: &[u8] = b"{\"schema\"";
/// How the lines begin that `script` prints itself.
const MARK: &str = "oomdoctor-";
/// A boot_id has 36 characters.
const LONGEST_BOOT_ID: usize = 64;
/// Enough bytes of a line that is no reading.
const MOST_NOTED: usize = 1024;

/// What a machine told.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A reading will come.
    Begins,
    Reading {
        snapshot: Box<Snapshot>,
        boot_id: Option<String>,
        through: Through,
        program: OwnProgram,
    },
    /// This program is not there: `Linux x86_64,glibc 2.36`.
    Lacks(String),
}

/// Hears one connection, line by line.
#[derive(Debug, Default)]
pub struct Listener {
    state: State,
    /// Where this program is there.
    program: OwnProgram,
    /// The last line that was none of ours.
    noise: Option<String>,
}

#[derive(Debug, Default)]
enum State {
    /// What a profile prints.
    #[default]
    Noise,
    Stream {
        boot_id: Option<String>,
    },
    Smi(Lines),
}

impl Listener {
    /// Fails if what comes is of no use.
    pub fn hear(&mut self, line: &[u8]) -> Result<Option<Told>, Trouble> {
        match &mut self.state {
            State::Stream { boot_id } => match serde_json::from_slice::<Snapshot>(line) {
                Ok(snapshot) => {
                    let (snapshot, boot_id) = (Box::new(snapshot.harmless()), boot_id.clone());
                    let program = self.program.clone();
                    Ok(Some(Told::Reading { snapshot, boot_id, through: Through::Ssh, program }))
                }
                Err(_) => Ok(self.note(line)),
            },
            _ if line.starts_with(HEADER) => self.begin(line),
            State::Noise => self.mark(line),
            State::Smi(lines) => {
                let Some((snapshot, boot_id)) = lines.take(&String::from_utf8_lossy(line))? else { return Ok(None) };
                let snapshot = Box::new(snapshot.harmless());
                let (boot_id, through) = (boot_id.and_then(as_boot_id), Through::NvidiaSmi);
                Ok(Some(Told::Reading { snapshot, boot_id, through, program: OwnProgram::Lent }))
            }
        }
    }

    /// The last line that could not be understood.
    pub fn noise(&self) -> Option<&str> {
        self.noise.as_deref()
    }

    fn note(&mut self, line: &[u8]) -> Option<Told> {
        let beginning = line.get(..MOST_NOTED).unwrap_or(line);
        let line = short_quote(&String::from_utf8_lossy(beginning));
        if !line.is_empty() {
            self.noise = Some(line);
        }
        None
    }

    fn begin(&mut self, line: &[u8]) -> Result<Option<Told>, Trouble> {
        let Ok(header) = serde_json::from_slice::<Header>(line) else { return Ok(self.note(line)) };
        if header.schema > SCHEMA {
            let program = short_quote(&header.program);
            let why = format!("{program} there writes schema {}, this one reads up to {SCHEMA}", header.schema);
            return Err(Trouble::lasting(why, "update oomdoctor here"));
        }
        self.state = State::Stream { boot_id: header.boot_id.and_then(as_boot_id) };
        Ok(Some(Told::Begins))
    }

    fn mark(&mut self, line: &[u8]) -> Result<Option<Told>, Trouble> {
        let beginning = line.get(..MOST_NOTED).unwrap_or(line);
        let text = String::from_utf8_lossy(beginning);
        let Some(mark) = text.trim().strip_prefix(MARK) else { return Ok(self.note(line)) };
        match mark.split_once(' ').unwrap_or((mark, "")) {
            ("smi", _) => {
                self.state = State::Smi(Lines::default());
                Ok(Some(Told::Begins))
            }
            ("at", path) => {
                self.program = OwnProgram::at(path);
                Ok(None)
            }
            ("lent", _) => {
                self.program = OwnProgram::Lent;
                Ok(None)
            }
            ("lacks", system) => Ok(Some(Told::Lacks(system.to_owned()))),
            ("noexec", _) => Err(Trouble::lasting(
                "no folder there may hold a program: $XDG_RUNTIME_DIR, ~/.cache and /tmp are noexec or not private",
                "leave out --send, or install oomdoctor there",
            )),
            ("unsent", _) => Err(Trouble::passing(
                "oomdoctor could not be stored there",
                "free disk space there, leave out --send, or install oomdoctor there",
            )),
            _ => Ok(self.note(line)),
        }
    }
}

/// `None` for a text that does not look like a boot_id: two machines with the same one would be taken for one machine.
fn as_boot_id(text: String) -> Option<String> {
    let has_only_its_characters = text.chars().all(|character| character.is_ascii_hexdigit() || character == '-');
    (!text.is_empty() && text.len() <= LONGEST_BOOT_ID && has_only_its_characters).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gpu::testing::snapshot;

    fn all(text: &str) -> (Vec<Told>, Option<Trouble>, Listener) {
        let (mut listener, mut told) = (Listener::default(), Vec::new());
        for line in text.split('\n') {
            match listener.hear(line.as_bytes()) {
                Ok(one) => told.extend(one),
                Err(trouble) => return (told, Some(trouble), listener),
            }
        }
        (told, None, listener)
    }

    fn stream(schema: u32) -> String {
        let snapshot = serde_json::to_string(&snapshot(0)).unwrap();
        format!("{{\"schema\":{schema},\"program\":\"oomdoctor 9\",\"boot_id\":\"ab-12\"}}\n{snapshot}\n")
    }

    #[test]
    fn noise_before_the_header_is_passed_over() {
        let (told, trouble, _) = all(&format!("WELCOME\n\u{1b}[0m{{\n\n{}", stream(1)));
        assert!(trouble.is_none());
        assert!(
            matches!(&told[..], [Told::Begins, Told::Reading { boot_id: Some(boot), .. }] if boot == "ab-12"),
            "{told:?}"
        );
    }

    #[test]
    fn a_higher_schema_is_refused_and_garbage_is_kept_to_be_shown() {
        let (told, trouble, _) = all(&stream(2));
        assert!(told.is_empty() && trouble.unwrap().unavailable.what_to_do.is_some());
        let (told, _, listener) = all("{\"schema\":1,\"program\":\"x\",\"boot_id\":null}\n\u{1b}]0;nonsense\n");
        assert_eq!(told, [Told::Begins]);
        assert!(listener.noise().unwrap().contains("nonsense") && !listener.noise().unwrap().contains('\u{1b}'));
    }

    #[test]
    fn a_boot_id_that_is_none_is_not_passed_on() {
        let (told, _, _) = all(&stream(1).replace("ab-12", "x\\u001b[2J"));
        assert!(matches!(&told[1], Told::Reading { boot_id: None, .. }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_answer_is_too_strange(lines in prop::collection::vec(prop_oneof![
            any::<Vec<u8>>(),
            "oomdoctor-(smi|name|time|memory|gpus|split|apps|processes|end|lacks .*|noexec)".prop_map(String::into_bytes),
            "[0-9]{0,25}(, ?[0-9.\\[\\]A-Z/a-z-]{0,12}){0,12}".prop_map(String::into_bytes),
            " *[0-9]{1,22} [0-9]{1,22} [a-z]{1,9} [0-9]{1,22} S .*".prop_map(String::into_bytes),
            "\\{\"schema\".{0,40}".prop_map(String::into_bytes),
        ], 0..40)) {
            let mut listener = Listener::default();
            for line in lines {
                if listener.hear(&line).is_err() {
                    break;
                }
            }
        }
    }
}
