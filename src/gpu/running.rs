//! Owns the question "does it still run what was shown?": an exec keeps a process's PID and start, and a program may give
//! itself another title, or become another user, at any moment.

/// What a process runs, as far as it can be seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Its command line, or the title that it gave itself.
    pub command: String,
    /// Marks its address space: an exec makes a new one, a new title does not. `None` where it can't be seen.
    pub image: Option<u32>,
    /// Whose it is; `None` where it can't be seen.
    pub user: Option<u32>,
}

impl Running {
    /// A command whose address space was not read.
    #[cfg(test)]
    pub fn unmarked(command: impl Into<String>) -> Running {
        Running { command: command.into(), ..Running::default() }
    }

    /// Whether it became another user since it was shown; an unknown one is no other.
    pub fn has_other_owner(&self, shown: &Running) -> bool {
        self.user.zip(shown.user).is_some_and(|(now, then)| now != then)
    }

    /// True if the process still runs what it ran when it was shown: its command line is the same; or it is certainly the
    /// same program and its title has the same words and only other numbers, as `step 41` and `step 42` do. Other words may
    /// mean other work (`ray::IDLE`), which nobody confirmed.
    pub fn is_still(&self, shown: &Running) -> bool {
        let is_same_program = self.image.is_some() && self.image == shown.image;
        self.command == shown.command
            || is_same_program
                && words(&self.command).eq(words(&shown.command))
                && words(&self.command).next().is_some()
    }
}

/// The words of a title without figures and progress bars. Of `step=41` only the name counts; `exp01` counts whole, since
/// `exp02` is other work.
fn words(title: &str) -> impl Iterator<Item = &str> {
    title.split_whitespace().filter(|word| !is_figure(word)).map(|word| {
        let named = word.split_once(['=', ':']).filter(|(_, value)| is_figure(value) && !value.is_empty());
        named.map_or(word, |(name, _)| name)
    })
}

/// `1234`, `45%`, `[00:12<00:15,`, `3.2it/s]`, `|████|`: what begins with a digit, or has no letter.
fn is_figure(word: &str) -> bool {
    word.chars().find(|c| c.is_alphanumeric()).is_none_or(|first| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_on(shown: &str, now: &str) -> bool {
        let marked = |command: &str, image| Running { command: command.into(), image: Some(image), user: None };
        assert!(!marked(now, 2).is_still(&marked(shown, 1)) || shown == now, "an exec: {shown} is not {now}");
        assert!(!Running::unmarked(now).is_still(&Running::unmarked(shown)) || shown == now, "in doubt: {now}");
        assert!(!Running::unmarked(now).is_still(&marked(shown, 1)) || shown == now, "in doubt: {now}");
        marked(now, 1).is_still(&marked(shown, 1))
    }

    #[test]
    fn a_title_that_counts_on_is_the_same_and_one_with_other_words_is_not() {
        assert!(goes_on("worker: step 1234 loss 0.3", "worker: step 1250 loss 0.28"));
        assert!(goes_on(
            "train  45%|████▌     | 45/100 [00:12<00:15,  3.2it/s]",
            "train  99%|█████████▉| 99/100 [00:30<00:00, 3.1it/s]"
        ));
        assert!(goes_on("VLLM::EngineCore", "VLLM::EngineCore"));
        assert!(!goes_on("ray::IDLE", "ray::train()"));
        assert!(!goes_on("worker: step 12", "worker: saving step 12"));
        assert!(!goes_on("python -m exp01", "bash exp01"));
        assert!(goes_on("trainer epoch=3 loss:0.31", "trainer epoch=4 loss:0.29"));
        assert!(!goes_on("worker exp01", "worker exp02"), "other work of the same worker");
        assert!(!goes_on("worker job=a1", "worker job=a2"));
        assert!(!goes_on("12", "13"), "a number is no name");
        assert!(!goes_on("", "5"), "nobody saw a name");
    }
}
