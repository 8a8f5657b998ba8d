//! Owns how it reads whether a model fits: one sentence for the verdict, and the lines of a report.

use super::answer::{FitAdvice, FitChoice};
use crate::memory::{context_in_words, tokens_in_words};

/// So many offers are made in the sentence.
const OFFERS: usize = 2;

impl FitAdvice {
    /// The model with quantization and context: "Llama-3.1-8B Q4_K_M at 64K context".
    fn named(&self) -> String {
        let model = self.model.as_ref();
        let name = model.map_or_else(|| "One request".to_owned(), |model| model.name.clone());
        let mix = model.and_then(|model| model.quantization.clone()).map(|mix| format!(" {mix}")).unwrap_or_default();
        let context = self.basis.as_ref().and_then(|(engine, shape)| context_in_words(engine, shape));
        let context = context.or_else(|| Some(format!("{} tokens of context", tokens_in_words(self.context_tokens?))));
        format!("{name}{mix}{}", context.map(|words| format!(" at {words}")).unwrap_or_default())
    }

    /// What it needs, what there is, and what makes it fit. `None` where there is nothing to add to the log.
    ///
    /// Of the changes that make it fit, only those are named for which `is_named` holds.
    pub fn sentence(&self, is_named: impl Fn(&FitChoice) -> bool) -> Option<String> {
        let choices: Vec<&FitChoice> = self.choices.iter().filter(|choice| is_named(choice)).collect();
        let Some(total) = self.total_bytes else {
            return if self.fits == Some(false) { self.offers(&choices) } else { None };
        };
        let named = self.named();
        let free = match (self.free_now_bytes, self.card_bytes) {
            (Some(free), _) if self.model.is_none() => {
                format!("; its KV cache has {}", free.in_gib())
            }
            (Some(free), Some(card)) if self.is_now => {
                let have = match self.each.len() {
                    0 => "this GPU has".to_owned(),
                    count => format!("the {count} GPUs here together have"),
                };
                format!("; {have} {} free and {} in all", free.in_gib(), card.in_gib())
            }
            (Some(free), _) => format!("; {free} was free for it"),
            (None, _) => self.why_not_known.as_deref().map(|why| format!("; {why}")).unwrap_or_default(),
        };
        let needs = format!("{named} needs about {total}{free}");
        match self.fits {
            Some(true) if self.is_now => Some(format!("{needs}: it should fit now.")),
            // The estimate says that it fitted, the log that it did not: nothing to add.
            Some(true) => None,
            Some(false) => {
                let tight = self.free_now_bytes.is_some_and(|free| total <= free);
                let who = self.basis.as_ref().map_or("an estimate", |(engine, _)| engine.who_wants());
                let tight =
                    if tight { format!(", which is too tight ({who} wants 1 GiB free)") } else { String::new() };
                Some(match self.offers(&choices) {
                    Some(offers) => format!("{needs}{tight}. {offers}"),
                    None => format!("{needs}{tight}."),
                })
            }
            None => Some(format!("{needs}.")),
        }
    }

    /// What makes it fit, where it does not as it is.
    pub(crate) fn way_out(&self, is_named: impl Fn(&FitChoice) -> bool) -> Option<String> {
        let choices: Vec<&FitChoice> = self.choices.iter().filter(|choice| is_named(choice)).collect();
        if self.fits == Some(false) { self.offers(&choices) } else { None }
    }

    /// What makes it fit, in a sentence; else what would fit instead.
    fn offers(&self, choices: &[&FitChoice]) -> Option<String> {
        let offers = choices.iter().take(OFFERS).map(|choice| {
            let total = choice.total_bytes.map(|total| format!(" (about {total})")).unwrap_or_default();
            format!("with {}{total}", choice.change)
        });
        let offers: Vec<String> = offers.collect();
        if !offers.is_empty() {
            let instead = match self.instead.as_slice() {
                [] => String::new(),
                some => format!(", which is slow; all on the GPU fits one of: {}", some.join(", ")),
            };
            return Some(format!("It fits {}{instead}.", offers.join(", or ")));
        }
        if !self.choices.is_empty() {
            return None;
        }
        let needed = self.total_bytes.map(|total| format!("you need about {total}"))?;
        let these = if self.is_on_several() { "These GPUs" } else { "This GPU" };
        Some(match self.instead.as_slice() {
            [] => format!("{these} can't run it as it is: {needed}."),
            some => format!("{these} can't run it as it is: {needed}, or one of: {}.", some.join(", ")),
        })
    }

    /// Whether there is anything to read about it, beyond what a step says.
    pub fn is_told(&self) -> bool {
        self.sentence(|_| true).is_some() || !self.lines().is_empty()
    }

    /// The lines of a report: how the model was found, the choices with their flags, the sizes, what was assumed.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(model) = &self.model {
            lines.push(format!("The model: {}.", model.how));
        }
        lines.extend(self.choices.iter().map(|choice| {
            let total = choice.total_bytes.map(|total| format!(", about {total}")).unwrap_or_default();
            let flags = choice.flags.as_deref().map(|flags| format!(": {flags}")).unwrap_or_default();
            let download = choice.download_bytes.map(|bytes| format!(" ({})", download(bytes))).unwrap_or_default();
            format!("  fits with {}{total}{download}{flags}", choice.change)
        }));
        let sizes: Vec<String> = self
            .sizes
            .iter()
            .map(|size| {
                let fits = if size.fits == Some(true) { " fits" } else { "" };
                format!("{} {}{fits}", size.quantization, size.file_bytes.in_gib())
            })
            .collect();
        if !sizes.is_empty() {
            lines.push(format!("Its files by quantization, in GiB, about: {}.", sizes.join(", ")));
        }
        lines.extend(self.why_not_known.iter().map(|why| format!("Whether it fits is not known: {why}.")));
        lines.extend(self.notes.iter().map(|note| format!("Note: {note}.")));
        lines
    }
}

/// The cost of another file: "a download of about 4.9 GB", in the decimal unit that sites show.
pub(crate) fn download(bytes: crate::units::Bytes) -> String {
    let value = bytes.0 as f64 / 1e9;
    format!("a download of about {value:.1} GB")
}
