//! Owns the identities of entries, fixes and programs. The build script generates a constant for every file of
//! knowledge/ and every name in programs.ron, so an id that Rust names and no file has does not compile. Ids read from
//! another folder have the same types.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Every id that was read from a file, once: ids are compared far more often than they are read.
static INTERNED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

fn interned(text: &str) -> &'static str {
    let mut known = INTERNED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(id) = known.get(text) {
        return id;
    }
    let id: &'static str = Box::leak(text.to_owned().into_boxed_str());
    known.insert(id);
    id
}

/// An id as a file spells it: most texts need not be copied to be looked up.
#[derive(Deserialize)]
#[serde(transparent)]
struct Spelled<'a>(#[serde(borrow)] Cow<'a, str>);

macro_rules! id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, JsonSchema)]
        #[schemars(inline)]
        pub struct $name(&'static str);

        impl $name {
            /// The id that this text spells, whether or not a file has it.
            pub fn new(text: &str) -> $name {
                $name(interned(text))
            }

            pub const fn as_str(self) -> &'static str {
                self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                Spelled::deserialize(deserializer).map(|Spelled(text)| $name::new(&text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.0, formatter)
            }
        }
    };
}

id! {
    /// A fix: the name of a file under knowledge/fixes, or one of the steps that only Rust makes.
    FixId
}

id! {
    /// An entry: `raised_by/name`, such as `pytorch/cuda-out-of-memory`.
    EntryId
}

id! {
    /// A program as the contract names it: what a person ran, or whose code printed a message.
    Program
}

include!(concat!(env!("OUT_DIR"), "/ids.rs"));

impl EntryId {
    /// Whose code prints the message, as the folder of the entry names it.
    pub fn folder(self) -> &'static str {
        self.0.split('/').next().unwrap_or_default()
    }
}

/// Steps that no file describes.
impl FixId {
    pub const RUN_AGAIN: FixId = FixId("run-again");
    pub const ASK_OWNER: FixId = FixId("ask-owner");
    pub const LOOK_THERE: FixId = FixId("look-there");
    pub const WAIT_FOR_MEMORY: FixId = FixId("wait-for-memory");
    pub const REQUEST_GPU: FixId = FixId("request-gpu");
    /// A change that the person tries out in the dials of the fit.
    pub const WILL_IT_FIT: FixId = FixId("will-it-fit");
    /// Several settings at once, where none alone is enough.
    pub const CHANGE_TOGETHER: FixId = FixId("change-together");
    /// A GPU of another machine has room for the run.
    pub const USE_OTHER_MACHINE: FixId = FixId("use-other-machine");

    /// All of them.
    pub const WITHOUT_FILE: [FixId; 8] = [
        FixId::RUN_AGAIN,
        FixId::ASK_OWNER,
        FixId::LOOK_THERE,
        FixId::WAIT_FOR_MEMORY,
        FixId::REQUEST_GPU,
        FixId::WILL_IT_FIT,
        FixId::CHANGE_TOGETHER,
        FixId::USE_OTHER_MACHINE,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    // Tests compare ids with texts.
    macro_rules! compared_with_text {
        ($($name:ident),*) => {$(
            impl PartialEq<&str> for $name {
                fn eq(&self, other: &&str) -> bool {
                    self.0 == *other
                }
            }

            impl PartialEq<str> for $name {
                fn eq(&self, other: &str) -> bool {
                    self.0 == other
                }
            }
        )*};
    }

    compared_with_text!(EntryId, FixId, Program);

    #[test]
    fn an_id_read_twice_is_stored_once() {
        let (first, second) = (FixId::new("some-other-folders-fix"), FixId::new("some-other-folders-fix"));
        assert!(std::ptr::eq(first.as_str(), second.as_str()));
        assert_ne!(first, FixId::END_HOLDER);
    }

    #[test]
    fn an_id_read_from_a_file_matches_its_constant() {
        assert!(matches!(FixId::new("end-holder"), FixId::END_HOLDER));
        let read: EntryId = ron::from_str("\"pytorch/cuda-out-of-memory\"").unwrap();
        assert_eq!(read, EntryId::PYTORCH_CUDA_OUT_OF_MEMORY);
        assert_eq!(serde_json::to_string(&read).unwrap(), "\"pytorch/cuda-out-of-memory\"");
    }

    #[test]
    fn no_file_has_the_id_of_a_step_that_only_rust_makes() {
        let base = crate::knowledge::KnowledgeBase::built_in().unwrap();
        for id in FixId::WITHOUT_FILE {
            assert!(base.fix(id).is_none(), "knowledge/fixes/{id}.ron");
        }
    }
}
