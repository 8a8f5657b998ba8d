//! Owns the knowledge base: entries and fixes as data, and what a log says according to them.
//! It knows nothing of the machine that it runs on or of the screen.

pub mod allocations;
pub(crate) mod clock;
pub mod diagnosis;
mod document;
pub(crate) mod draft;
pub mod entry;
pub(crate) mod facts;
pub(crate) mod figures;
pub(crate) mod first_failure;
pub mod fix;
pub(crate) mod guide;
mod killer;
mod kinds;
mod launcher;
pub mod limit;
pub mod lint;
mod literals;
pub mod load;
mod matching;
mod own_name;
pub mod own_option;
pub mod page;
pub mod pattern;
pub mod program;
mod quotation;
mod rank;
mod recognize;
mod release;
pub mod run;
mod searched;
pub mod settings;
pub mod sign;
mod stopped;
pub mod summary;
#[cfg(test)]
mod tests;
pub mod version;

use std::sync::Arc;

use crate::effort;
pub use crate::ids::{EntryId, FixId, Program};
use crate::log::PastedLog;
pub use diagnosis::{
    CauseKind, Certainty, Diagnosis, Maker, Match, MemoryKind, Oom, OwnOption, Phase, Platform, Shown, Stage,
};
use entry::Entry;
pub use facts::{Facts, NamedProcess};
use first_failure::Ranks;
pub use first_failure::{FirstFailure, Others};
pub use fix::{Condition, Fix, FixCommand, Frees, Moves, Safety};
use guide::{Question, Term};
use load::{LoadError, Source};
use matching::Finder;
pub use matching::Words;
pub use program::Trait;
use rank::Tables;
use recognize::ProgramTable;
pub use run::Run;
use sign::Sign;

/// Entries, fixes and recognition tables, ready to read logs.
#[derive(Debug)]
pub struct KnowledgeBase {
    /// The entries, ordered by id.
    pub entries: Vec<Entry>,
    /// The fixes, ordered by id.
    pub fixes: Vec<Fix>,
    /// The questions people ask, in the file's order.
    pub questions: Vec<Question>,
    /// The words of the field, in alphabetical order.
    pub glossary: Vec<Term>,
    tables: Tables,
    finder: Finder,
    innocent: Vec<Source>,
}

/// Lines of the kinds that logs are full of, with a failure that many patterns are tried on. It is repeated, because long
/// texts are searched by other engines than short ones.
const WARM_UP: &str = "\
2026-01-01 10:00:00,000 - INFO - Epoch 1/3: step 100/2000, lr: 1.0e-05, loss: 0.5 memory: 17822 tokens/s 1200
{'loss': 0.5, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}
 10%|#         | 10/100 [00:10<01:30,  1.00it/s] gpu memory 17.20 GiB cached
user@host:~/train$ python train.py --batch_size 8 --max_length 2048
Loading checkpoint shards: 100%|##########| 4/4 [00:10<00:00,  2.5s/it]
torch==2.4.0 transformers 4.44.0 CUDA 12.4 NVIDIA GeForce RTX 4090
Traceback (most recent call last):
  File \"/home/user/train.py\", line 10, in <module>
    loss.backward()
  File \"/usr/lib/python3/site-packages/torch/nn/modules/module.py\", line 1518, in _call_impl
    return self._call_impl(*args, **kwargs)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which \
1.10 GiB is free. Process 4242 has 11.23 GiB memory in use. Of the allocated memory 20.00 GiB is allocated by PyTorch, and \
1.00 GiB is reserved by PyTorch but unallocated.
";

const WARM_UP_COPIES: usize = 10;

impl KnowledgeBase {
    /// What is built into the program.
    pub fn built_in() -> Result<KnowledgeBase, LoadError> {
        KnowledgeBase::from_sources(load::embedded())
    }

    /// The same with the examples and references that only checks read.
    pub fn built_in_with_examples() -> Result<KnowledgeBase, LoadError> {
        KnowledgeBase::from_sources(load::embedded_whole())
    }

    /// What a folder's files say; paths are relative to that folder.
    pub fn from_sources(sources: Vec<Source>) -> Result<KnowledgeBase, LoadError> {
        let loaded = load::load(sources)?;
        let finder = Finder::new(&loaded.entries);
        let finder = finder.map_err(|message| LoadError { path: "knowledge".into(), line: 0, column: 0, message })?;
        program::learn(&loaded.programs);
        Ok(KnowledgeBase {
            finder,
            entries: loaded.entries,
            fixes: loaded.fixes,
            questions: loaded.questions,
            glossary: loaded.glossary,
            innocent: loaded.innocent,
            tables: Tables {
                programs: ProgramTable::new(loaded.programs),
                phases: loaded.phases,
                runs: loaded.runs,
                versions: loaded.versions,
                signs: loaded.signs,
            },
        })
    }

    /// The entry with this id.
    pub fn entry(&self, id: EntryId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// The entry that a person names.
    pub fn entry_named(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id.as_str() == name)
    }

    /// The fix with this id.
    pub fn fix(&self, id: FixId) -> Option<&Fix> {
        self.fixes.iter().find(|fix| fix.id == id)
    }

    /// The fixes of the entry that leads, and those that the signs in the log ask for.
    pub fn leading_fixes(&self, diagnosis: &Diagnosis) -> Vec<Fix> {
        let entry = diagnosis.matches.first().and_then(|found| self.entry(found.entry));
        let of_limit = diagnosis.run.limit.into_iter().flat_map(|limit| &limit.fixes);
        let of_signs = diagnosis.signs.iter().flat_map(|sign| &sign.fixes);
        let of_entry = entry.into_iter().flat_map(|entry| &entry.fixes);
        let of_end = diagnosis.just_stops.then(|| stopped::fixes(&diagnosis.run)).into_iter().flatten();
        let mut fixes: Vec<Fix> = Vec::new();
        for id in of_limit.chain(of_entry).chain(of_signs).chain(of_end) {
            if fixes.iter().all(|fix| fix.id != *id) {
                fixes.extend(self.fix(*id).cloned());
            }
        }
        fixes
    }

    /// What logs show beside a failure.
    pub fn signs(&self) -> &[Sign] {
        &self.tables.signs
    }

    /// The question with this id.
    pub fn question(&self, id: &str) -> Option<&Question> {
        self.questions.iter().find(|question| question.id == id)
    }

    /// Every literal of the first pass, for the bench and for `kb check`.
    pub fn literals(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().flat_map(|entry| entry.literals.iter().map(String::as_str))
    }

    /// The same, to be searched for in what is too long to be kept.
    pub fn words(&self) -> Arc<Words> {
        self.finder.words()
    }

    /// What the log of a run that worked says of it. Fails with the reason, as the end of a sentence.
    pub fn run_that_worked(&self, log: &PastedLog) -> Result<Run, &'static str> {
        if log.is_binary() || log.is_empty() {
            return Err("this is no log. Give the text that the run printed when it worked");
        }
        if self.diagnose(log, None).oom == Oom::Yes {
            return Err("memory ran out in this one, too. Give the log of a run that worked");
        }
        Ok(run::read(&self.tables.runs, &self.tables.versions, log, log.line_count(), 0))
    }

    /// Builds what the first verdict would otherwise build while a person waits: searchers, tables and the patterns that
    /// most logs need.
    pub fn warm_up(&self) {
        self.diagnose(&PastedLog::new(WARM_UP.repeat(WARM_UP_COPIES)), None);
    }

    /// What a log says, read alone. `now` gives the zone to stamps that have none, and the year.
    pub fn diagnose(&self, log: &PastedLog, now: Option<&jiff::Zoned>) -> Diagnosis {
        let (hits, ranks) = effort::both(|| self.finder.find(&self.entries, log), || Ranks::of(log));
        let mut diagnosis = Diagnosis {
            is_shortened: log.is_shortened(),
            is_cut_off: log.is_cut_off(),
            ..rank::diagnosis(&self.entries, &self.tables, log, hits, ranks.as_ref(), now)
        };
        summary::add(&mut diagnosis, log);
        diagnosis
    }
}
