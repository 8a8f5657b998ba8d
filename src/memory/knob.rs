//! Owns what a knob is: one setting of an engine that decides how much memory a model takes. Each is described once, in
//! a file of its own under `knobs`: how it is spelled, which value an engine has, how to set another, the values to turn
//! it through, what it costs, and which proposals of it make a model fit. Knows no single setting.

use std::fmt::Display;

pub(crate) use super::card::Card;
pub(crate) use super::engine::{Engine, Kind};
pub(crate) use super::fits::fits;
pub(crate) use super::shape::ModelShape;
pub(crate) use crate::ids::FixId;
pub(crate) use crate::units::Bytes;

/// Programs that spell settings in ways of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    LlamaCpp,
    KoboldCpp,
    Ollama,
    Vllm,
    Sglang,
}

/// A program's spellings of one option, or of the variable that sets it.
#[derive(Clone, Copy, Debug)]
pub struct Spelling {
    pub of: Program,
    pub names: &'static [&'static str],
}

/// What states a value to an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// An option, a variable in front of the command, or an argument in code.
    Option(String),
    /// What is typed inside `ollama run`.
    InChat(String),
}

type States = fn(&Engine, Option<&ModelShape>) -> Option<Said>;

/// A setting of an engine. Values are whole numbers; what they count is with each knob.
pub struct Knob {
    /// Tells it from the others; its label on the screen where it has no other.
    pub name: &'static str,
    /// The engines that have it.
    pub engines: &'static [Kind],
    pub spelled: &'static [Spelling],
    /// The names under which logs print its value.
    pub printed: &'static [&'static str],
    /// The fixes of the knowledge base that set it.
    pub fixes: &'static [FixId],
    /// The placeholder in those fixes that takes a value, and its text.
    pub placeholder: fn(&Engine, u64) -> Option<(&'static str, String)>,
    /// The number of an engine that it is, where it is one; what follows is for knobs that are more.
    pub number: fn(&mut Engine) -> Option<&mut u64>,
    /// The value that an engine has.
    pub get: Option<fn(&Engine, &ModelShape) -> u64>,
    pub set: Option<fn(&mut Engine, &ModelShape, u64)>,
    /// What states an engine's value. The model is known where one is changed.
    pub states: Option<States>,
    /// Whether a command line can leave it out, since the engine takes this value by itself.
    pub is_usual: fn(&Engine) -> bool,
    /// What a value costs the person, from 0 (nothing) to 9 (so slow that another model is better).
    pub cost: fn(&Engine, &ModelShape, u64) -> u8,
    /// Values that make a model fit, or allow more where it fits.
    pub proposals: fn(&Need<'_>) -> Vec<Proposal>,
    /// What its fix changes where the fix names no value: half a batch, an 8-bit optimizer.
    pub step: fn(&Engine) -> Option<Engine>,
    /// Whether its fix is known to free nothing: experts in RAM for a model without experts.
    pub frees_nothing: fn(&Engine, &ModelShape) -> bool,
    /// What it is called where a person turns it by hand; `None` for its name.
    pub label: Option<fn(&Engine) -> &'static str>,
    /// Whether turning it changes what this model takes.
    pub is_shown: fn(&Engine, &ModelShape) -> bool,
    /// The values to turn it through, the one that takes least first; `None` where a person can't.
    pub ladder: Option<fn(&Engine, &ModelShape) -> Vec<u64>>,
    /// The engine's value in words; `None` for the number.
    pub shown: Option<fn(&Engine, &ModelShape) -> String>,
}

impl Knob {
    /// A setting of which nothing is known but its name: what its own file leaves out.
    pub const PLAIN: Knob = Knob {
        name: "",
        engines: &[],
        spelled: &[],
        printed: &[],
        fixes: &[],
        placeholder: |_, _| None,
        number: |_| None,
        get: None,
        set: None,
        states: None,
        is_usual: |_| false,
        cost: |_, _, _| 0,
        proposals: |_| Vec::new(),
        step: |_| None,
        frees_nothing: |_, _| false,
        label: None,
        is_shown: |_, _| true,
        ladder: None,
        shown: None,
    };

    pub fn has(&self, engine: &Engine) -> bool {
        self.engines.contains(&engine.kind())
    }

    /// The value that an engine has; 0 where it has none.
    pub fn value(&self, engine: &Engine, shape: &ModelShape) -> u64 {
        self.get.map_or_else(|| self.number_of(engine).unwrap_or(0), |get| get(engine, shape))
    }

    pub fn number_of(&self, engine: &Engine) -> Option<u64> {
        let mut copy = *engine;
        (self.number)(&mut copy).copied()
    }

    /// The engine with this value.
    #[must_use]
    pub fn with(&self, mut engine: Engine, shape: &ModelShape, to: u64) -> Engine {
        if let Some(set) = self.set {
            set(&mut engine, shape, to);
        } else if let Some(number) = (self.number)(&mut engine) {
            *number = to;
        }
        engine
    }

    /// What states an engine's value: its first option, or variable, with the number, unless the knob says it otherwise.
    pub fn said(&self, engine: &Engine, shape: Option<&ModelShape>) -> Option<Said> {
        match self.states {
            Some(states) => states(engine, shape),
            None => self.option(engine, self.number_of(engine)?),
        }
    }

    /// The first of its options or variables in this engine's spelling, with a value.
    pub fn option(&self, engine: &Engine, value: impl Display) -> Option<Said> {
        let program = match engine {
            Engine::LlamaCpp(_) => Program::LlamaCpp,
            Engine::Ollama(_) => Program::Ollama,
            Engine::Vllm(_) => Program::Vllm,
            Engine::Sglang(_) => Program::Sglang,
            Engine::Transformers(_) | Engine::Train(_) => return None,
        };
        let name = self.spelled.iter().find(|spelling| spelling.of == program)?.names.first()?;
        let between = if name.starts_with('-') { ' ' } else { '=' };
        Some(Said::Option(format!("{name}{between}{value}")))
    }

    /// What a command line says of it; nothing where the engine takes the value by itself.
    pub fn flag(&self, engine: &Engine) -> Option<Said> {
        if (self.is_usual)(engine) { None } else { self.said(engine, None) }
    }

    /// What turns `then` into `now` on a command line; nothing where neither the value nor the need to say it changed.
    pub fn changed(&self, now: &Engine, then: &Engine, shape: &ModelShape) -> Option<Said> {
        let said = self.said(now, Some(shape))?;
        let has_to_be_said = (self.is_usual)(then) && !(self.is_usual)(now);
        (has_to_be_said || Some(&said) != self.said(then, Some(shape)).as_ref()).then_some(said)
    }

    /// The value behind the last of its options on a command line.
    pub fn typed<'a>(&self, command: &'a str) -> Option<&'a str> {
        self.value_in(command, |name| name.starts_with('-'))
    }

    /// The value of the variable that sets it, in front of a command.
    pub fn variable<'a>(&self, command: &'a str) -> Option<&'a str> {
        self.value_in(command, |name| !name.starts_with('-'))
    }

    fn value_in<'a>(&self, command: &'a str, is_meant: fn(&str) -> bool) -> Option<&'a str> {
        let names = self.spelled.iter().flat_map(|spelling| spelling.names).filter(|name| is_meant(name));
        let words: Vec<&str> = command.split([' ', '=']).collect();
        let at = words.iter().rposition(|word| names.clone().any(|name| name == word))?;
        words.get(at.checked_add(1)?).copied()
    }

    /// The engine turned by so many steps of the ladder; as it is at its end.
    #[must_use]
    pub fn turned(&self, engine: Engine, shape: &ModelShape, by: i32) -> Engine {
        let here = self.value(&engine, shape);
        let mut places = self.ladder(&engine, shape);
        if by > 0 {
            places.retain(|place| *place > here);
        } else {
            places.retain(|place| *place < here);
            places.reverse();
        }
        let steps = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX).max(1);
        match places.get((steps - 1).min(places.len().saturating_sub(1))) {
            Some(place) => self.with(engine, shape, *place),
            None => engine,
        }
    }

    /// Whether the ladder has a place below the engine's value, and one above.
    pub fn room(&self, engine: &Engine, shape: &ModelShape) -> (bool, bool) {
        let (here, ladder) = (self.value(engine, shape), self.ladder(engine, shape));
        (ladder.iter().any(|place| *place < here), ladder.iter().any(|place| *place > here))
    }

    /// What it is called where a person turns it by hand.
    pub fn label(&self, engine: &Engine) -> &'static str {
        self.label.map_or(self.name, |label| label(engine))
    }

    /// The engine's value in words, where a person can turn it.
    pub fn shown(&self, engine: &Engine, shape: &ModelShape) -> Option<String> {
        let shown = self.shown.map(|shown| shown(engine, shape));
        self.ladder.map(|_| shown.unwrap_or_else(|| self.value(engine, shape).to_string()))
    }

    fn ladder(&self, engine: &Engine, shape: &ModelShape) -> Vec<u64> {
        self.ladder.map_or_else(Vec::new, |ladder| ladder(engine, shape))
    }
}

impl PartialEq for Knob {
    fn eq(&self, other: &Knob) -> bool {
        self.name == other.name
    }
}

impl Eq for Knob {}

impl std::fmt::Debug for Knob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A knob turned to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub knob: &'static Knob,
    pub to: u64,
}

/// What is to fit where.
#[derive(Clone, Copy, Debug)]
pub struct Need<'a> {
    pub engine: Engine,
    pub shape: &'a ModelShape,
    /// The GPU that it is to fit; `None` where none is known.
    pub card: Option<&'a Card>,
    /// All of the machine's.
    pub cards: &'a [Card],
    /// Whether it fits as it is.
    pub fits: Option<bool>,
}

impl<'a> Need<'a> {
    pub fn new(engine: Engine, shape: &'a ModelShape, card: Option<&'a Card>, cards: &'a [Card]) -> Need<'a> {
        Need { engine, shape, card, cards, fits: fits(&engine, shape, card) }
    }

    /// One knob turned, in words that follow "with".
    pub fn turn(&self, knob: &'static Knob, to: u64, words: impl Into<String>) -> Proposal {
        self.propose(&[Turn { knob, to }], words, knob.with(self.engine, self.shape, to))
    }

    /// Several knobs turned together.
    pub fn propose(&self, turns: &[Turn], words: impl Into<String>, engine: Engine) -> Proposal {
        Proposal {
            turns: turns.to_vec(),
            words: words.into(),
            engine,
            shape: None,
            card: self.card.cloned(),
            flags: Flags::OfEngine { before: String::new(), after: String::new() },
            is_own_command: true,
            total: None,
            shortens: false,
        }
    }
}

/// The flags that go with a proposal.
#[derive(Clone, Debug, PartialEq)]
pub enum Flags {
    /// Those of the engine with the change, between these texts.
    OfEngine {
        before: String,
        after: String,
    },
    These(String),
    Nothing,
}

/// A change that is proposed.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// What it turns; the first is the change itself, the others go with it.
    pub turns: Vec<Turn>,
    /// In words that follow "with".
    pub words: String,
    /// The engine with the change.
    pub engine: Engine,
    /// Another file of the model, where the change is one.
    pub shape: Option<Box<ModelShape>>,
    /// The GPU that it is to fit.
    pub card: Option<Card>,
    pub flags: Flags,
    /// Whether the engine's own command line says it: not where another file or other means are needed.
    pub is_own_command: bool,
    /// What it takes, where that is known otherwise than by the engine's sum; then it fits.
    pub total: Option<Bytes>,
    /// Whether it gives up context that was asked for.
    pub shortens: bool,
}

impl Proposal {
    /// Whether it fits the GPU, the model being `own` unless the proposal brings another file of it.
    pub fn fits(&self, own: &ModelShape) -> Option<bool> {
        match self.total {
            Some(_) => Some(true),
            None => fits(&self.engine, self.shape.as_deref().unwrap_or(own), self.card.as_ref()),
        }
    }

    /// The same with these flags.
    #[must_use]
    pub fn with_flags(self, flags: impl Into<String>) -> Proposal {
        Proposal { flags: Flags::These(flags.into()), ..self }
    }
}
