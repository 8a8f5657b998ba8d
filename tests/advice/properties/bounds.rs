//! Owns how sure the advice is: a step is enough for sure only where the need is known, and a need that is a lower bound is
//! written as one.

use oomdoctor::advice::Advice;
use oomdoctor::report::Report;
use oomdoctor::report::plain::{Extent, text};

use super::Subject;

/// Steps that are called enough although neither an engine nor the model's sums tell what is needed.
pub fn unfounded_yes(advice: &Advice) -> Vec<String> {
    let is_whole = advice.ledger.as_ref().is_some_and(|ledger| !ledger.needed_is_at_least);
    let ahead = advice.remembered.changed.as_ref().map(|changed| &changed.fit).or(advice.fit.as_ref());
    let is_reckoned = ahead.is_some_and(|fit| !fit.is_assumed && (fit.fits.is_some() || fit.model.is_none()));
    let sure = advice.plan.iter().filter(|planned| planned.enough.as_ref() == "yes" && !is_whole && !is_reckoned);
    sure.map(|planned| format!("{} is said to be enough for sure", planned.fix)).collect()
}

/// Sentences that give a lower bound as if it were the whole need.
pub fn unmarked(subject: &Subject) -> Vec<String> {
    let advice = subject.advice();
    if advice.ledger.as_ref().is_none_or(|ledger| !ledger.needed_is_at_least) {
        return Vec::new();
    }
    let report = Report::of(&subject.log().diagnosis, advice);
    let mut found = Vec::new();
    for extent in [Extent::default(), Extent { all: true, why: true, ..Extent::default() }] {
        let said = text(&report, extent);
        let lines = said.lines().filter(|line| !line.trim_start().starts_with("line "));
        let sentences = lines.flat_map(|line| line.split(". "));
        found.extend(sentences.filter(|sentence| is_unmarked(sentence)).map(str::to_owned));
    }
    found
}

fn is_unmarked(sentence: &str) -> bool {
    let is_short = ["Short: ", ", short ", " is missing"].iter().any(|word| sentence.contains(word));
    let names_amount = sentence.contains(" GiB") || sentence.contains(" MiB");
    let is_bare = is_short && names_amount && !sentence.contains(['≥', '≈']) && !sentence.contains("about ");
    is_bare || NEEDS.iter().any(|start| is_followed_by_a_figure(sentence, start))
}

/// What a figure of the whole need would follow.
const NEEDS: &[&str] = &["Needs ", "needs ", "run needed ", "it needed ", "those needed ", "Wait until "];

fn is_followed_by_a_figure(sentence: &str, start: &str) -> bool {
    sentence.split(start).nth(1).is_some_and(|rest| rest.starts_with(char::is_numeric))
}
