//! Owns which known name a mistyped word was probably meant to be, for every "did you mean" of the command line.

/// Words that are less alike than this, on strsim's scale from 0 to 1, are not suggested.
const ALIKE: f64 = 0.8;
/// A shorter word could be the beginning of almost any name.
const SHORTEST: usize = 2;

/// The known name that is most like this word; `None` if none is like it.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    if word.chars().count() < SHORTEST {
        return None;
    }
    let rated = known.into_iter().map(|name| (likeness(&word, &name.to_lowercase()), name));
    let (likeness, name) = rated.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (likeness >= ALIKE).then_some(name)
}

/// "; did you mean `x`?", or nothing if no known name is like this word.
pub(super) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Says that this is no known value, with the nearest one or, if there is none, all of them.
pub(super) fn not_one_of<'a>(kind: &str, word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(name) => format!("there is no {kind} `{word}`; did you mean `{name}`?"),
        None => format!("there is no {kind} `{word}`; give one of {}", known.join(", ")),
    }
}

/// From 0 to 1. A beginning and an abbreviation (`ctx` for `context`) are as good as a typing mistake.
fn likeness(word: &str, name: &str) -> f64 {
    let typed = strsim::jaro_winkler(word, name);
    let written_short = match () {
        () if name.starts_with(word) => 0.95,
        () if abbreviates(word, name) => 0.85,
        () => 0.0,
    };
    typed.max(written_short)
}

/// A longer name, in letters for each letter of the word, has almost any three letters in it.
const MOST_ABBREVIATED: usize = 3;

/// True if the name begins with the word's first letter and has all its other letters in their order.
fn abbreviates(word: &str, name: &str) -> bool {
    let mut letters = name.chars();
    word.chars().count() > SHORTEST
        && name.len() <= MOST_ABBREVIATED * word.len()
        && word.chars().next() == name.chars().next()
        && word.chars().all(|letter| letters.any(|own| own == letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: [&str; 8] = ["diagnose", "report", "sample", "ps", "kill", "fit", "schema", "kb"];

    #[test]
    fn typing_mistakes_beginnings_and_abbreviations_lead_to_the_name() {
        for (word, name) in [
            ("diagnos", "diagnose"),
            ("diganose", "diagnose"),
            ("diag", "diagnose"),
            ("psx", "ps"),
            ("kil", "kill"),
            ("KILL", "kill"),
            ("rprt", "report"),
            ("smaple", "sample"),
        ] {
            assert_eq!(nearest(word, COMMANDS), Some(name), "{word}");
        }
        assert_eq!(nearest("ctx", ["--batch", "context"]), Some("context"));
        assert_eq!(nearest("FXI", ["fixed-network-size"]), None);
        for word in ["x", "", "train", "crash", "FXI", "jupyter"] {
            assert_eq!(nearest(word, COMMANDS), None, "{word}");
        }
    }

    #[test]
    fn without_a_near_name_all_are_listed() {
        assert_eq!(not_one_of("theme", "drak", ["dark", "none"]), "there is no theme `drak`; did you mean `dark`?");
        assert_eq!(not_one_of("theme", "zz", ["dark", "none"]), "there is no theme `zz`; give one of dark, none");
    }
}
