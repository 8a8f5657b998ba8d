//! Tests that reading is linear in the length of a line, whatever the line contains. The measure is the number of bytes
//! that regular expressions, literal searches and copies process.

use std::sync::LazyLock;

use regex_automata::Input;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::util::syntax;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::diagnosis::Oom;
use super::entry::Entry;
use super::pattern::{Pattern, SHORT, expand};
use super::{KnowledgeBase, WARM_UP, WARM_UP_COPIES};
use crate::effort;
use crate::log::PastedLog;
use crate::log::needle::Needles;

static BASE: LazyLock<KnowledgeBase> = LazyLock::new(|| KnowledgeBase::built_in_with_examples().unwrap());

/// The bytes processed for a log whose line repeats `unit` up to `size` bytes.
fn cost(unit: &str, size: usize, end: &str) -> usize {
    let line = unit.repeat(size / unit.len() + 1) + end;
    effort::of(|| BASE.diagnose(&PastedLog::new(line), None))
}

/// The costs, if doubling the line more than doubles them by over 10 %, and doubling it again does so again: once may be a
/// step, where the longer line is told apart from a quotation and read as a failure.
fn worse_than_linear(unit: &str, size: usize, end: &str) -> Option<String> {
    let (once, twice) = (cost(unit, size, end), cost(unit, 2 * size, end));
    if !more_than_doubles(once, twice) {
        return None;
    }
    let again = cost(unit, 4 * size, end);
    let fault = || format!("{again} after {twice} after {once}: {unit:?} to {size} bytes, then {end:?}");
    more_than_doubles(twice, again).then(fault)
}

fn more_than_doubles(once: usize, twice: usize) -> bool {
    /// Cost that does not depend on the length of the line.
    const FIXED: usize = 64 << 10;
    twice > once * 22 / 10 + FIXED
}

/// A text that the pattern matches: the shortest, or one with every optional part.
fn sample(pattern: &Pattern, whole: bool) -> String {
    sample_by(pattern, whole, if whole { LAST } else { 0 })
}

/// The last of the ways that an alternation has.
const LAST: usize = usize::MAX;

/// The same with that one of the ways of each alternation that has as many.
fn sample_by(pattern: &Pattern, whole: bool, way: usize) -> String {
    fn write(hir: &Hir, whole: bool, way: usize, out: &mut String) {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => out.push_str(&String::from_utf8_lossy(&literal.0)),
            HirKind::Class(Class::Bytes(class)) => {
                let holds = |byte: &u8| class.iter().any(|range| (range.start()..=range.end()).contains(byte));
                let usual = [b'a', b'7', b' ', b'M', b'/', b'='].into_iter().chain(b' '..=b'~').find(holds);
                out.extend(usual.map(char::from));
            }
            HirKind::Class(Class::Unicode(_)) => {}
            HirKind::Repetition(repetition) => {
                let count = if whole { repetition.min.max(1) } else { repetition.min };
                (0..count).for_each(|_| write(&repetition.sub, whole, way, out));
            }
            HirKind::Capture(capture) => write(&capture.sub, whole, way, out),
            HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, whole, way, out)),
            HirKind::Alternation(ways) => {
                let one = if way == LAST { ways.last() } else { ways.get(way % ways.len()) };
                one.into_iter().for_each(|one| write(one, whole, way, out));
            }
        }
    }
    let mut out = String::new();
    write(&syntax::parse_with(&expand(pattern.source()), &syntax()).unwrap(), whole, way, &mut out);
    out
}

fn syntax() -> syntax::Config {
    syntax::Config::new().unicode(false).utf8(false).multi_line(true)
}

/// How many bytes an automaton reads to find all matches in the text. It is quadratic for a pattern that reads far past the
/// end of each match, such as `step(?:.*end)?`.
fn read_by(dfa: &DFA, text: &str) -> usize {
    let (mut cache, mut from, mut read) = (dfa.create_cache(), 0, 0);
    while from <= text.len() {
        let input = Input::new(text).range(from..);
        let mut state = dfa.start_state_forward(&mut cache, &input).unwrap();
        let mut end = None;
        for (at, byte) in text.bytes().enumerate().skip(from) {
            state = dfa.next_state(&mut cache, state, byte).unwrap();
            read += 1;
            // The automaton reports a match one byte late.
            end = if state.is_match() { Some(at) } else { end };
            if state.is_dead() {
                break;
            }
        }
        if !state.is_dead() && dfa.next_eoi_state(&mut cache, state).unwrap().is_match() {
            end = Some(text.len());
        }
        let Some(end) = end else { break };
        from = end.max(from + 1);
    }
    read
}

/// Every pattern of the tables and the entries.
fn all_patterns() -> impl Iterator<Item = &'static Pattern> {
    let tables = &BASE.tables;
    let of_entries = BASE.entries.iter().flat_map(|entry| entry.patterns());
    let of_runs = tables.runs.iter().flat_map(|rule| &rule.patterns);
    let of_signs = tables.signs.iter().flat_map(|sign| sign.shows.iter().chain(&sign.lacks));
    let of_phases = tables.phases.iter().flat_map(|rule| &rule.patterns);
    let of_versions = tables.versions.iter().flat_map(|rule| &rule.patterns);
    of_entries.chain(of_runs).chain(of_signs).chain(of_phases).chain(of_versions)
}

#[test]
fn what_a_pattern_matches_has_the_words_that_rule_others_out() {
    let mut ruled_out = 0;
    for pattern in all_patterns() {
        let needles = Needles::of(pattern.source());
        for (whole, way) in [false, true].into_iter().flat_map(|whole| (0..12).map(move |way| (whole, way))) {
            let sample = sample_by(pattern, whole, way);
            assert!(needles.may_match(&sample), "{}: {sample:?}", pattern.source());
        }
        ruled_out += usize::from(!needles.may_match("ordinary text"));
    }
    assert!(ruled_out > 3000, "{ruled_out}");
}

/// Patterns of `run.ron` and of named processes are matched repeatedly over one text.
#[test]
fn no_repeatedly_matched_pattern_reads_far_past_its_match() {
    let of_runs = BASE.tables.runs.iter().flat_map(|rule| &rule.patterns);
    let of_processes = BASE.entries.iter().flat_map(|entry| &entry.figures);
    let of_processes = of_processes.filter(|pattern| pattern.source().contains("{other_"));
    let grows = |dfa: &DFA, unit: &str| {
        let read = |size: usize| read_by(dfa, &unit.repeat(size / unit.len() + 1));
        let (once, twice) = (read(2 << 10), read(4 << 10));
        (twice > once * 22 / 10 + 1024).then_some((once, twice))
    };
    let bad = DFA::builder().syntax(syntax()).build(r"step(?:[^\n]*end)?").unwrap();
    assert!(grows(&bad, "step ").is_some());
    let mut faults = Vec::new();
    for pattern in of_runs.chain(of_processes) {
        let dfa = DFA::builder().syntax(syntax()).build(&expand(pattern.source())).unwrap();
        for (whole, between) in [(false, ""), (false, " "), (true, " "), (true, "\n")] {
            let unit = sample(pattern, whole) + between;
            if let Some((once, twice)) = grows(&dfa, &unit) {
                faults.push(format!("{}: {twice} after {once} in {unit:?}", pattern.source()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The message as one of several ways of pasting or quoting it.
fn mangled(message: &str, entry: &Entry, way: usize) -> String {
    let literal = entry.literals.first().map_or("", String::as_str);
    match way % 11 {
        0 => format!("{message} "),
        1 => message.chars().filter(|c| !c.is_whitespace()).collect(),
        2 => format!("'{message}' "),
        3 => format!("we get `{message} "),
        4 => format!("[({{ {message} "),
        5 => format!("| {message} "),
        6 => format!("{} ", most_of(message)),
        7 => format!("{message}\\n"),
        8 => format!("{literal} "),
        // A near miss of a pattern.
        9 => {
            let patterns = &entry.when.any;
            let sample = patterns.get(way / 11 % patterns.len().max(1)).map_or(String::new(), |one| sample(one, true));
            format!("{literal} {} ", most_of(&sample))
        }
        _ => literal.chars().filter(|c| !c.is_whitespace()).collect(),
    }
}

fn most_of(text: &str) -> &str {
    text.get(..text.floor_char_boundary(text.len() * 3 / 4)).unwrap_or(text)
}

fn decisive_line(entry: &Entry, example: usize) -> Option<&str> {
    let log = &entry.matches.get(example % entry.matches.len().max(1))?.log;
    let holds = |line: &&str| {
        let line = line.to_ascii_lowercase();
        entry.literals.iter().any(|literal| line.contains(&literal.to_ascii_lowercase()))
    };
    log.lines().find(holds).or_else(|| log.lines().find(|line| !line.is_empty()))
}

#[test]
fn repeated_messages_of_every_entry_take_linear_time() {
    let faults: Vec<String> = BASE
        .entries
        .iter()
        .enumerate()
        .filter_map(|(number, entry)| {
            let line = decisive_line(entry, number / 10)?;
            let unit = mangled(line, entry, number);
            let fault = worse_than_linear(&unit, 6 << 10, "")?;
            Some(format!("{}: {fault}", entry.id))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

const FAILURE: &str = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity)";

#[test]
fn a_failure_in_a_very_long_line_is_found_whatever_letters_stand_before_it() {
    for shift in 0..3 {
        let letters = format!("{}{}", "x".repeat(shift), "的".repeat(20_000));
        let diagnosis = BASE.diagnose(&PastedLog::new(format!("{letters} {FAILURE} {letters}")), None);
        assert_eq!(diagnosis.oom, Oom::Yes, "{shift} bytes before letters of three");
    }
}

#[test]
fn the_warming_up_reads_a_failure_in_a_long_text() {
    let text = WARM_UP.repeat(WARM_UP_COPIES);
    assert!(text.len() > SHORT, "{} bytes", text.len());
    assert_eq!(BASE.diagnose(&PastedLog::new(text), None).oom, Oom::Yes);
}

/// From one tile to several.
#[test]
fn very_long_lines_take_linear_time() {
    let quoted = format!("'{FAILURE}' ");
    let units = [
        quoted.as_str(),
        "ERROR:  out of memory ",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 23.99 GiB of which 6.10 GiB is free. Process 4242 has 11.23 GiB memory in use. ",
        "raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB') ",
        "we see `CUDA out of memory. Tried to allocate 2.00 GiB` when it fails, ",
        "we see `CUDA out of memory. Tried to allocate 2.00 GiB when it fails, ",
        "| CUDA out of memory. Tried to allocate 2.00 GiB | it is full ",
        "\\\"CUDA out of memory\\\" \\n",
        "outofmemory",
        "failed to allocate memory, cannot allocate ",
        "java.lang.OutOfMemoryError: Java heap space ",
        "{\"reason\":\"OOMKilled\",\"exitCode\":137},",
        "MemoryError ",
        "Killed ",
        "`",
        "'",
        "\"",
        "|",
        "\\n",
        "7",
        " ",
        "\u{a0}",
        "█",
        "\u{1b}]0;",
    ];
    let faults: Vec<String> = units.iter().filter_map(|unit| worse_than_linear(unit, 24 << 10, "")).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Run facts are read only beside a failure: in the same line and in the line above it.
#[test]
fn repeated_run_facts_take_linear_time() {
    let units = [
        "dtype=torch.",
        "dtype=torch.float16, ",
        "--model a ",
        "llama-server -m a.gguf ",
        "step 1 ",
        "epoch 1/10 ",
        "37%|##| 1/2 [",
        "37%|",
        "CUDA0 buffer size = 1.00 MiB ",
        "using device CUDA0 (NVIDIA RTX) - 7 MiB free ",
        "Device 0: NVIDIA, ",
        "| 0 NVIDIA A On | ",
        "] 1 2 3 4 5 6 7 8 9 python ",
        "total_vm ",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True ",
        "$ python a.py --x ",
        "Traceback (most recent call last): File \"a.py\", line 3, in <module> ",
        "C:\\a\\b ",
        "pod/a ",
        "2026-11-20 10:00:00 ",
        "worker-1 | ",
        "[rank0]: ",
    ];
    let below = format!("\n{FAILURE}");
    let ends = [below.as_str(), FAILURE];
    let faults: Vec<String> =
        units.iter().flat_map(|unit| ends.iter().filter_map(|end| worse_than_linear(unit, 24 << 10, end))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn lines_of_many_ranks_take_linear_time() {
    let units = [
        "[rank3]: a\n".to_owned(),
        "3: a\n".to_owned(),
        "node07: a\nnode08: a\n".to_owned(),
        "  rank      : 3 (local_rank: 3)\n".to_owned(),
        "srun: error: n: task 3: Killed\n".to_owned(),
        format!("[rank3]: {FAILURE}\n"),
        format!("[rank3]: a\n{FAILURE}\n"),
        format!("[2025-05-19 23:22:28 TP3] a\nb\n{FAILURE}\n"),
        format!("ray::A.b() (pid=7, ip=10.0.0.1)\n{FAILURE}\n"),
        format!("  rank      : 3 (local_rank: 3)\n{FAILURE}\n"),
    ];
    let faults: Vec<String> = units.iter().filter_map(|unit| worse_than_linear(unit, 24 << 10, FAILURE)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_message_is_read_anywhere_in_a_very_long_line() {
    // The second is a log folded into one line.
    let fillers = ["all is well so far, ".repeat(5_000), "step 7 of 9 is done\\n".repeat(5_000)];
    let places = fillers.iter().flat_map(|filler| (0..filler.len()).step_by(9_973).map(move |at| (filler, at)));
    for (filler, at) in places {
        let (before, after) = filler.split_at(at);
        let log = PastedLog::new(format!("{before} {FAILURE} {after}"));
        let diagnosis = BASE.diagnose(&log, None);
        let leading = diagnosis.matches.first().map(|found| (found.entry.as_str(), found.line));
        assert_eq!(leading, Some(("pytorch/cuda-out-of-memory", 1)), "at {at}");
        assert_eq!(diagnosis.facts.total_bytes, Some(crate::units::Bytes::gib(8)), "at {at}");
        let figure = diagnosis.figures.iter().find(|figure| figure.key == "requested_bytes").unwrap();
        assert_eq!(log.line(1).unwrap().get(figure.span.clone()), Some("2.00 GiB"), "at {at}");
        let shown = &diagnosis.matches[0].text;
        assert!(shown.len() < 4_000 && shown.find("Tried to allocate 2.00 GiB").is_some_and(|at| at < 100), "{shown}");
    }
}

#[test]
fn no_pattern_takes_a_cut_for_a_line_end() {
    let filler = "Killed ".repeat(20_000);
    let diagnosis = BASE.diagnose(&PastedLog::new(format!("the list of those: {filler}and so on")), None);
    assert!(diagnosis.matches.is_empty(), "{:?}", diagnosis.matches.first());
}
