//! Owns how the text of a fix becomes the text of a step: placeholders filled with values, and the log's own model in the
//! place of `MODEL`.

use super::planned::Step;
use super::values;
use crate::knowledge::fix::substitute;
use crate::knowledge::{Fix, FixCommand};

/// The text of one field, where a form has it.
type Field = for<'f> fn(&'f FixCommand) -> Option<&'f String>;

/// What the program's own form says, else the form for programs of its kind, else the fix.
pub(crate) fn told<'f>(
    form: &'f FixCommand,
    of_kind: Option<&'f FixCommand>,
    field: Field,
    usual: &'f String,
) -> &'f String {
    field(form).or_else(|| field(of_kind?)).unwrap_or(usual)
}

/// What to do, where the command that it ends with is not known.
pub(crate) fn without_start(action: &str) -> String {
    action.trim_end_matches(", or start with").to_owned()
}

/// What to do, without the request to fill in words where the command has none in capitals.
pub(crate) fn without_filling_in<'s>(action: &'s str, command: Option<&str>) -> &'s str {
    let is_stand_in = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
    let words = command.unwrap_or_default().split([' ', '=', ':', '/', ',']);
    match action.split_once(". Fill in the words in capitals") {
        Some((before, _)) if !words.into_iter().any(is_stand_in) => before,
        _ => action,
    }
}

/// A step in words. Settings whose values are not known are left out of the command rather than shown with holes, and so
/// is the command where nothing else is in it: the sentence names the setting then.
pub(crate) fn step_of(
    fix: &Fix,
    form: &FixCommand,
    of_kind: Option<&FixCommand>,
    value_of: &impl Fn(&str) -> Option<String>,
) -> Option<Step> {
    let action = substitute(&form.action, value_of)?;
    let command = form.command.as_deref().and_then(|text| {
        substitute(text, value_of)
            .or_else(|| substitute(form.otherwise.as_deref()?, value_of))
            .or_else(|| values::with_what_is_known(text, value_of))
    });
    Some(Step {
        action: if command.is_some() { action } else { without_start(&action) },
        command,
        why: told(form, of_kind, |form| form.why.as_ref(), &fix.why).clone(),
        expect: told(form, of_kind, |form| form.expect.as_ref(), &fix.expect).clone(),
        if_not: told(form, of_kind, |form| form.if_not.as_ref(), &fix.if_not).clone(),
        versions: form.versions.clone(),
    })
}

/// The command with the log's own model in the place of `MODEL` or `MODEL.gguf`; only a name that a shell takes as it is.
pub(crate) fn with_model(command: &str, model: &str) -> String {
    // A path with a drive is for a shell of Windows.
    let has_drive = model.get(1..3) == Some(":\\");
    if model.is_empty() || model.starts_with('-') || !model.chars().all(|c| is_plain(c) || has_drive && c == '\\') {
        return command.to_owned();
    }
    let stand_in = if model.ends_with(".gguf") { "MODEL.gguf" } else { "MODEL" };
    let mut named = String::new();
    let mut rest = command;
    while let Some((before, after)) = rest.split_once(stand_in) {
        named.push_str(before);
        let is_alone = !before.ends_with(is_plain) && !after.starts_with(is_plain);
        // Code wants it in quotes.
        let quote = if is_alone && before.ends_with('(') { "\"" } else { "" };
        named.extend([quote, if is_alone { model } else { stand_in }, quote]);
        rest = after;
    }
    named.push_str(rest);
    named
}

/// Whether a shell takes the character as it is.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '/' | '-')
}
