//! Owns the words that every match of a pattern contains, derived from its source. Searching for them is cheap; they
//! rule out most patterns before these are compiled.

use memchr::memchr2_iter;
use memchr::memmem;

use crate::effort;

/// Words shorter than this are too frequent to rule anything out.
const SHORTEST: usize = 3;

/// Groups deeper than this are not read: a pattern may come from a person's own folder.
const DEEPEST: usize = 32;

/// What a text must contain to match. Without a need any text may match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needles {
    need: Option<Need>,
    /// Whether a part of the pattern does: then all words are searched so.
    ignores_case: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Need {
    Word(String),
    All(Vec<Need>),
    Any(Vec<Need>),
}

impl Need {
    fn may_be_met(&self, may_hold: &impl Fn(&str) -> bool) -> bool {
        match self {
            Need::Word(word) => may_hold(word),
            Need::All(needs) => needs.iter().all(|need| need.may_be_met(may_hold)),
            Need::Any(needs) => needs.iter().any(|need| need.may_be_met(may_hold)),
        }
    }
}

impl Needles {
    /// The words of this pattern: what is outside of classes and not optional.
    pub(crate) fn of(source: &str) -> Needles {
        let mut reader = Reader { rest: source, depth: 0, ignores_case: false };
        let need = reader.alternatives().flatten();
        // A parenthesis too many: it does not compile.
        let need = if reader.rest.is_empty() { need } else { None };
        Needles { need, ignores_case: reader.ignores_case }
    }

    /// Whether the text may match. Only "no" is certain.
    pub(crate) fn may_match(&self, text: &str) -> bool {
        self.may_be_met(|word| self.is_in(text, word))
    }

    /// Whether a text may match of which `may_hold` tells whether a word may be in it, whatever the case.
    pub(crate) fn may_be_met(&self, may_hold: impl Fn(&str) -> bool) -> bool {
        self.need.as_ref().is_none_or(|need| need.may_be_met(&may_hold))
    }

    fn is_in(&self, text: &str, word: &str) -> bool {
        let (text, word) = (text.as_bytes(), word.as_bytes());
        let place = if self.ignores_case { find_ignoring_case(text, word) } else { memmem::find(text, word) };
        effort::count(place.unwrap_or(text.len()));
        place.is_some()
    }
}

/// Whether the text holds the word, whatever the case of its ASCII letters.
pub(crate) fn holds_ignoring_case(text: &[u8], word: &[u8]) -> bool {
    find_ignoring_case(text, word).is_some()
}

fn find_ignoring_case(text: &[u8], word: &[u8]) -> Option<usize> {
    let Some((offset, rarest)) = word.iter().enumerate().max_by_key(|(_, byte)| rarity(**byte)) else {
        return Some(0);
    };
    memchr2_iter(rarest.to_ascii_lowercase(), rarest.to_ascii_uppercase(), text.get(offset..)?)
        .find(|at| text.get(*at..at + word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word)))
}

/// How rare a byte is in logs, whatever its case.
fn rarity(byte: u8) -> usize {
    /// What a log has most of, the most frequent first.
    const FREQUENT: &[u8] = b" 0e1t2oainsrl.3d4c5p6m7u8g9_-/=:fhyb[](),kvw'\\\"xjqz";
    let byte = byte.to_ascii_lowercase();
    FREQUENT.iter().position(|one| *one == byte).unwrap_or(FREQUENT.len())
}

/// What was read of a sequence: its needs, and the letters since the last one.
#[derive(Default)]
struct Sequence {
    needs: Vec<Need>,
    run: String,
}

impl Sequence {
    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run.len() >= SHORTEST {
            self.needs.push(Need::Word(run));
        }
    }

    fn need(mut self) -> Option<Need> {
        self.end_run();
        if self.needs.len() > 1 { Some(Need::All(self.needs)) } else { self.needs.pop() }
    }
}

/// Reads a pattern. Its functions return `None` for syntax that is not parsed here: then any text may match.
struct Reader<'s> {
    rest: &'s str,
    /// How many groups are open.
    depth: usize,
    ignores_case: bool,
}

impl Reader<'_> {
    /// The need of the alternatives up to the end of their group. If one has none, any text may match.
    fn alternatives(&mut self) -> Option<Option<Need>> {
        let first = self.sequence()?;
        if !self.rest.starts_with('|') {
            return Some(first);
        }
        let mut needs = vec![first];
        while self.takes('|') {
            needs.push(self.sequence()?);
        }
        Some(needs.into_iter().collect::<Option<Vec<Need>>>().map(Need::Any))
    }

    fn sequence(&mut self) -> Option<Option<Need>> {
        let mut sequence = Sequence::default();
        while let Some(sign) = self.rest.chars().next().filter(|sign| !matches!(sign, '|' | ')')) {
            self.takes(sign);
            let literal = match sign {
                '(' => {
                    let group = self.group()?;
                    sequence.end_run();
                    sequence.needs.extend(group);
                    continue;
                }
                // A space is a blank that may be missing.
                '.' | '^' | '$' | ' ' => None,
                '{' => {
                    self.rest = self.rest.split_once('}')?.1;
                    None
                }
                '[' => self.class()?,
                '\\' => self.escaped()?,
                literal => Some(literal),
            };
            self.add(literal, &mut sequence);
        }
        Some(sequence.need())
    }

    /// Adds a character that every match contains, if it is one; it may be optional or repeated.
    fn add(&mut self, literal: Option<char>, sequence: &mut Sequence) {
        match (literal, self.quantifier()) {
            (Some(literal), None) => sequence.run.push(literal),
            (Some(literal), Some(Quantifier::AtLeastOnce)) => {
                sequence.run.push(literal);
                sequence.end_run();
            }
            (None, _) | (_, Some(Quantifier::Optional)) => sequence.end_run(),
        }
    }

    /// The need of the group that was opened, its quantifier included.
    fn group(&mut self) -> Option<Option<Need>> {
        if self.takes('?') {
            let (flags, behind) = self.rest.split_at_checked(self.rest.find([':', '>', ')'])?)?;
            self.rest = behind;
            if !flags.contains('<') {
                let set = flags.split('-').next()?;
                self.ignores_case |= set.contains('i');
                if set.contains('x') {
                    return None;
                }
            }
            if self.takes(')') {
                return Some(None);
            }
            self.rest = self.rest.get(1..)?;
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let need = self.alternatives()?;
        self.depth -= 1;
        if !self.takes(')') {
            return None;
        }
        let is_optional = self.quantifier() == Some(Quantifier::Optional);
        Some(if is_optional { None } else { need })
    }

    /// The quantifiers that come next, as one.
    fn quantifier(&mut self) -> Option<Quantifier> {
        let mut all = None;
        loop {
            let one = if self.takes('?') || self.takes('*') {
                Quantifier::Optional
            } else if self.takes('+') {
                Quantifier::AtLeastOnce
            } else if self.rest.starts_with('{') && self.rest.get(1..)?.starts_with(|next: char| next.is_ascii_digit())
            {
                let (counts, behind) = self.rest.split_once('}')?;
                self.rest = behind;
                if counts.starts_with("{0") { Quantifier::Optional } else { Quantifier::AtLeastOnce }
            } else {
                return all;
            };
            self.takes('?');
            all = all.max(Some(one));
        }
    }

    /// The only character of the class that was opened; `Some(None)` if there are several.
    fn class(&mut self) -> Option<Option<char>> {
        let mut signs = self.rest.chars();
        if let (Some(only), Some(']')) = (signs.next(), signs.next())
            && !"^\\[]".contains(only)
        {
            self.rest = signs.as_str();
            return Some(Some(only));
        }
        self.takes('^');
        self.takes(']');
        let mut open = 1;
        while open > 0 {
            let sign = self.rest.chars().next()?;
            self.takes(sign);
            match sign {
                '\\' => {
                    let escaped = self.rest.chars().next()?;
                    self.takes(escaped);
                }
                '[' => open += 1,
                ']' => open -= 1,
                _ => {}
            }
        }
        Some(None)
    }

    /// The character that a backslash stands before; `Some(None)` for a class or a place.
    fn escaped(&mut self) -> Option<Option<char>> {
        let sign = self.rest.chars().next()?;
        self.takes(sign);
        match sign {
            'x' => {
                let (digits, behind) = self.rest.split_at_checked(2)?;
                self.rest = behind;
                let code = u8::from_str_radix(digits, 16).ok().filter(u8::is_ascii)?;
                Some(Some(char::from(code)))
            }
            'u' | 'U' | 'p' | 'P' | 'k' | 'Q' => None,
            _ if sign.is_ascii_alphanumeric() || matches!(sign, '<' | '>') => Some(None),
            literal => Some(Some(literal)),
        }
    }

    fn takes(&mut self, sign: char) -> bool {
        let behind = self.rest.strip_prefix(sign);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }
}

/// How often a part of a pattern occurs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Quantifier {
    AtLeastOnce,
    Optional,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The need in words: what is joined by `&` and `|` in parentheses, `-` where there is none.
    fn told(need: &Need) -> String {
        let joined =
            |needs: &[Need], sign: &str| format!("({})", needs.iter().map(told).collect::<Vec<_>>().join(sign));
        match need {
            Need::Word(word) => word.clone(),
            Need::All(needs) => joined(needs, " & "),
            Need::Any(needs) => joined(needs, " | "),
        }
    }

    #[test]
    fn the_words_of_every_match_are_read_off_the_source() {
        for (source, words) in [
            ("(?:CUDA|HIP) out of memory", "((CUDA | HIP) & out & memory)"),
            (r"Tried to allocate {requested_bytes} \(GPU", "(Tried & allocate & (GPU)"),
            (r"a total capaci?ty of", "(total & capac)"),
            ("abcd{0,3}efg", "(abc & efg)"),
            ("abc+def", "(abc & def)"),
            ("abcd{2}efg", "(abcd & efg)"),
            (r"\[rank\d+\]: x", "[rank"),
            ("[^a-z]words[]x]*", "words"),
            ("[[:alpha:]]word[.]py", "word.py"),
            ("(a|b) (?:memory)?", "-"),
            ("(a|b)?many", "many"),
            ("(?:memory)* (?:bytes){2,}?(?:full){0,2}", "bytes"),
            ("one|twos\nx", "(one | twos\nx)"),
            (r"one|\d+", "-"),
            (r"step (?:one|\d+) of (?P<v>many|all)", "(step & (many | all))"),
            ("(?i)one(?-i:two(?:three|four))", "(one & (two & (three | four)))"),
            (r"\x27self own\x22?", "('self & own)"),
            (r"\<word\>", "word"),
            (r"\x{e9}words", "-"),
            ("(?x)wo rds", "-"),
            ("words)", "-"),
            ("(words", "-"),
        ] {
            let needles = Needles::of(source);
            assert_eq!(needles.need.as_ref().map_or("-".to_owned(), told), words, "{source}");
        }
        let deep = "(".repeat(100_000) + "words" + &")".repeat(100_000);
        assert_eq!(Needles::of(&deep), Needles::default());
    }

    #[test]
    fn case_counts_unless_the_pattern_says_it_does_not() {
        assert!(Needles::of("Out of memory").may_match("Outofmemory"));
        assert!(!Needles::of("Out of memory").may_match("out of memory"));
        assert!(Needles::of("(?i)Out of memory").may_match("OUT OF MEMory"));
        assert!(!Needles::of("(?i)Out of memory").may_match("out of mem"));
        assert!(Needles::of("(?m)Out (?P<i>of) (?si:memory)").may_match("OUT OF MEMORY"));
        assert!(!Needles::of("(?P<i>of) (?-i:memory)").may_match("OF MEMORY"));
        assert!(Needles::of("").may_match(""));
    }
}
