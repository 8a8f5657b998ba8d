//! Promises that hold for any bytes: a log, an entry, a reading, and the headers of model files. Used by the suite
//! (`integration/hostile.rs`) and by cargo-fuzz (`fuzz_targets`); a broken promise panics.

use std::io::Cursor;
use std::sync::LazyLock;
use std::time::Duration;

use oomdoctor::advice::{Situation, advise};
use oomdoctor::allocations::told::Filled;
use oomdoctor::app::model::{Config, Region};
use oomdoctor::app::msg::LogRead;
use oomdoctor::app::{Cx, Model, Msg, update};
use oomdoctor::gpu::Snapshot;
use oomdoctor::knowledge::load::{Source, embedded_whole};
use oomdoctor::knowledge::{KnowledgeBase, page};
use oomdoctor::log::PastedLog;
use oomdoctor::memory::card::Card;
use oomdoctor::memory::engine::Engine;
use oomdoctor::memory::options::options;
use oomdoctor::memory::settings::Settings;
use oomdoctor::memory::shape::from_gguf;
use oomdoctor::memory::visible::Counted;
use oomdoctor::memory::{config, gguf, safetensors};
#[cfg(target_os = "linux")]
use oomdoctor::platform::linux::probe::drm::fdinfo;
use oomdoctor::report::markdown::{Paper, Walked, markdown};
use oomdoctor::report::redact::Names;
use oomdoctor::report::{self, Report};
use oomdoctor::runtime::files::read_all;
use oomdoctor::text::{harmless, is_harmful};
use oomdoctor::ui::drawn;
use oomdoctor::units::{Bytes, WallTime};

static BASE: LazyLock<KnowledgeBase> = LazyLock::new(|| KnowledgeBase::built_in_with_examples().unwrap());

fn moment() -> WallTime {
    WallTime(jiff::Timestamp::from_second(1_800_000_000).unwrap())
}

/// Asserts that the text contains nothing that controls a terminal or hides characters.
fn assert_harmless(text: &str, what: &str) {
    let found = text.chars().find(|c| *c != '\n' && is_harmful(*c));
    assert!(found.is_none(), "{what} holds {found:?}");
}

/// How gzip, Zstandard, xz and bzip2 begin.
const PACKED: [&[u8]; 4] = [b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh"];

/// Reads, cleans and diagnoses a log, advises on it and reports it, and draws it on a screen.
pub fn log(data: &[u8]) {
    let is_packed = PACKED.iter().any(|beginning| data.starts_with(beginning));
    // What is packed and damaged is refused.
    let kept = match read_all(data, |_| true) {
        Err(_) if is_packed => return,
        kept => kept.unwrap(),
    };
    assert!(kept == data || is_packed || data.len() > 1 << 20);
    let log = PastedLog::from_bytes(kept);
    let mut end = 0;
    for (number, line) in log.lines() {
        let steers = |c: char| {
            c != '\t'
                && (c.is_control()
                    || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
        };
        assert!(!line.contains(steers), "line {number}: {line:?}");
        let range = log.line_range(number).unwrap();
        assert!(range.start >= end && log.line_at(range.start) == number, "line {number} at {range:?}");
        end = range.end;
    }
    let diagnosis = BASE.diagnose(&log, None);
    for found in &diagnosis.matches {
        assert!((1..=log.line_count()).contains(&found.line));
    }
    for figure in &diagnosis.figures {
        assert!(log.line(figure.row).is_some_and(|line| line.get(figure.span.clone()).is_some()), "{figure:?}");
    }
    let fixes = BASE.leading_fixes(&diagnosis);
    let advice = advise(&Situation { fixes: &fixes, ..Situation::alone(&diagnosis) });
    let report = Report::of(&diagnosis, &advice);
    let names = Names::default();
    let paper = Paper {
        recorded: &[],
        report,
        log: &log,
        origin: "x",
        at: moment(),
        walked: &Walked::default(),
        names: Some(&names),
    };
    assert_harmless(&markdown(&paper), "the report");
    let _ = serde_json::to_string(&report::json::Output::of(&report)).unwrap();
    let _ = report::plain::text(&report, report::plain::Extent { all: true, why: true, ..Default::default() });
    if log.is_binary() || log.is_empty() {
        return;
    }
    let mut model = Model::new(Config::default(), (100, 30), moment());
    model.input.generation = 1;
    model.input.awaited = Some((1, None));
    let pages = page::of_matches(&BASE, &diagnosis);
    let read = LogRead { generation: 1, log: log.into(), diagnosis, fixes, pages, written: None };
    show(&mut model, vec![Msg::LogRead(Box::new(read))]);
}

/// Draws the screens after these messages, in every region and at several sizes.
fn show(model: &mut Model, messages: Vec<Msg>) {
    let cx = Cx { now: Duration::from_secs(1), wall: moment() };
    for msg in messages {
        update(model, msg, &cx);
    }
    for (size, focus) in [((80, 24), Region::Input), ((140, 45), Region::Steps), ((20, 5), Region::Processes)] {
        model.focus = focus;
        update(model, Msg::Resize(size.0, size.1), &cx);
        assert_harmless(&drawn(model), "the screen");
    }
}

/// A line of the sampler's stream is refused, or shown harmlessly and joined with a log.
pub fn snapshot(data: &[u8]) {
    let Ok(snapshot) = serde_json::from_slice::<Snapshot>(data) else { return };
    let written = serde_json::to_vec(&snapshot).unwrap();
    assert_eq!(serde_json::from_slice::<Snapshot>(&written).unwrap(), snapshot, "what was written reads the same");
    static LOG: LazyLock<PastedLog> = LazyLock::new(|| {
        PastedLog::new(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 23.99 GiB of which 6.10 GiB is free. Process 4242 has 11.23 GiB memory in use.\n",
        )
    });
    let diagnosis = BASE.diagnose(&LOG, None);
    let (fixes, pages) = (BASE.leading_fixes(&diagnosis), Vec::new());
    let mut model = Model::new(Config::default(), (100, 30), moment());
    model.input.generation = 1;
    model.input.awaited = Some((1, None));
    let read = LogRead { generation: 1, log: LOG.clone().into(), diagnosis, fixes, pages, written: None };
    show(
        &mut model,
        vec![Msg::LogRead(Box::new(read)), Msg::Sample(Box::new(snapshot.clone())), Msg::Sample(Box::new(snapshot))],
    );
    if let Some(advice) = &model.advice {
        for line in oomdoctor::advice::words::verdict(advice) {
            assert_harmless(&line, "the verdict");
        }
    }
}

/// An entry is refused with its place, or good enough to read a log with.
pub fn entry(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    for path in ["x/y.ron", "fixes/y.ron", "programs.ron", "phases.ron", "run.ron", "questions.ron"] {
        let source = Source::ron(path, text.to_owned());
        match KnowledgeBase::from_sources(vec![source]) {
            Err(error) => assert!(!harmless(&error.to_string()).is_empty()),
            Ok(base) => {
                let log = PastedLog::new(format!(
                    "step 1\nRuntimeError: CUDA out of memory. {}\n",
                    text.get(..200).unwrap_or(text)
                ));
                let diagnosis = base.diagnose(&log, None);
                let _ = page::of_matches(&base, &diagnosis);
            }
        }
    }
}

fn card() -> Card {
    let (total, free) = (Bytes::gib(24), Bytes::gib(20));
    Card { index: 0, counted: Counted::default(), name: "GPU".into(), total, free, each: Vec::new() }
}

/// A GGUF header is refused, or gives a shape to compute with.
pub fn gguf(data: &[u8]) {
    // A file is larger than its header, or claims to be.
    for length in [data.len() as u64, 1 << 40] {
        if let Ok(read) = gguf::read(Cursor::new(data), length) {
            let shape = from_gguf(&read);
            let card = card();
            for engine in [
                Engine::LlamaCpp(Settings::default()),
                Engine::LlamaCpp(Settings { context: Some(u64::MAX), ..Settings::default() }),
            ] {
                let _ = options(engine, &shape, Some(&card), std::slice::from_ref(&card));
            }
        }
    }
}

/// A safetensors header.
pub fn safetensors(data: &[u8]) {
    for length in [data.len() as u64, 1 << 40] {
        let _ = safetensors::read(data, length);
    }
}

/// A memory snapshot of PyTorch: what is read refers to nothing that is not there.
pub fn allocations(data: &[u8]) {
    let Ok(dump) = oomdoctor::allocations::read::read(data) else { return };
    let blocks = dump.segments.iter().flat_map(|segment| &segment.blocks);
    let stacks = dump.traces.iter().flatten().map(|action| action.stack).chain(blocks.map(|block| block.stack));
    // A byte of the file gives at most one frame of one stack, so this is linear in the file.
    for frame in
        stacks.collect::<std::collections::HashSet<_>>().into_iter().flat_map(|stack| dump.stacks.frames(stack))
    {
        let _ = (dump.stacks.text(frame.name), dump.stacks.text(frame.file));
    }
    for filled in oomdoctor::allocations::figures::filled(&dump, "oom_rank3.pickle") {
        told(&filled);
    }
}

/// What a snapshot or a profile tells, in words and tables.
fn told(filled: &Filled) {
    assert_harmless(&harmless(&filled.sentence), "sentence");
    let _ = report::allocations::tables(filled);
    let _ = oomdoctor::allocations::message::as_log(filled);
    let _ = serde_json::to_string(filled).unwrap();
}

/// What a report leaves out of a text: lines stay lines.
pub fn redact(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut names = Names::default();
    names.learn(&text);
    let once = names.redacted(&text);
    assert_eq!(once.lines().count(), text.lines().count(), "lines are kept");
    let _ = names.redacted(&once);
}

/// A device memory profile of JAX.
pub fn profile(data: &[u8]) {
    let Ok(profile) = oomdoctor::allocations::pprof::read(data) else { return };
    for filled in oomdoctor::allocations::profiled::filled(&profile, "memory.prof") {
        told(&filled);
    }
    for row in &profile.rows {
        let _ = profile.stacks.frames(row.stack).count();
    }
}

/// A config.json.
pub fn config(data: &[u8]) {
    if let Ok(read) = config::read(data, "x") {
        let shape = from_gguf(&read.figures.as_gguf("Q4_K_M"));
        let card = card();
        let _ = options(Engine::LlamaCpp(Settings::default()), &shape, Some(&card), std::slice::from_ref(&card));
    }
}

/// Material for logs: the examples of every entry.
pub fn logs() -> Vec<Vec<u8>> {
    BASE.entries.iter().flat_map(|entry| &entry.matches).map(|example| example.log.clone().into_bytes()).collect()
}

/// The files of the knowledge.
pub fn entries() -> Vec<Vec<u8>> {
    let read = |source: &Source| source.path.ends_with(".ron") && !source.path.starts_with("models/");
    embedded_whole().into_iter().filter(read).map(|source| source.text.into_owned().into_bytes()).collect()
}

/// Reads what a kernel says of an open GPU: no figure comes from a line that was cut off, and none is made up.
#[cfg(target_os = "linux")]
pub fn fdinfo(data: &[u8]) {
    let Some(client) = fdinfo::parse(data) else { return };
    assert!(data.ends_with(b"\n"), "a cut text");
    let text = std::str::from_utf8(data).unwrap();
    let has_number = text.bytes().any(|byte| byte.is_ascii_digit());
    let usage = client.usage;
    assert!(has_number || (usage.device, usage.system, usage.evicted) == (None, None, None), "{usage:?}");
    assert_eq!(fdinfo::parse(&[data, b"\n"].concat()), Some(client), "an empty line says nothing");
}
