//! Files of tests/snapshots, which `make.py` beside them makes.

use std::io::{self, BufReader};

use super::*;
use crate::allocations::{ActionKind, Pool, Segment, StackId, State};
use crate::units::Bytes;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!("../../../tests/snapshots/", $name)).as_slice()
    };
}

/// The same process in every way to write it.
const SICK: [(&str, &[u8]); 11] = [
    ("protocol 2", file!("sick.2.pickle")),
    ("protocol 4", file!("sick.4.pickle")),
    ("protocol 5", file!("sick.5.pickle")),
    ("JSON", file!("sick.json")),
    ("2.0", file!("torch_2_0.pickle")),
    ("2.1", file!("torch_2_1.pickle")),
    ("2.4", file!("torch_2_4.pickle")),
    ("2.6", file!("torch_2_6.pickle")),
    ("2.11", file!("torch_2_11.pickle")),
    ("a bare list", file!("bare.pickle")),
    ("a bare list as JSON", file!("bare.json")),
];

/// Bytes, one at a time.
struct OneByOne<'b>(&'b [u8]);

impl Read for OneByOne<'_> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let one = block.len().min(1);
        self.0.read(&mut block[..one])
    }
}

fn bytes_in(dump: &Dump, state: State) -> u64 {
    let blocks = dump.segments.iter().flat_map(|segment| &segment.blocks);
    blocks.filter(|block| block.state == state).map(|block| block.size.0).sum()
}

/// "train.py:88 forward" and so on, innermost first.
fn named(dump: &Dump, stack: StackId) -> Vec<String> {
    let frames = dump.stacks.frames(stack);
    frames
        .map(|frame| format!("{}:{} {}", dump.stacks.text(frame.file), frame.line, dump.stacks.text(frame.name)))
        .collect()
}

fn gapless(segment: &Segment) -> bool {
    let end =
        segment.blocks.iter().try_fold(segment.address, |at, block| (block.address == at).then_some(at + block.size.0));
    end == Some(segment.address + segment.total.0)
}

#[test]
fn every_version_protocol_and_form_says_the_same() {
    for (form, bytes) in SICK {
        assert!(is_snapshot(&bytes[..bytes.len().min(1024)]), "{form}");
        let dump = read(bytes).unwrap();
        assert_eq!(dump.segments.len(), 8, "{form}");
        assert!(dump.segments.iter().all(gapless), "{form}");
        assert_eq!(bytes_in(&dump, State::Allocated), 15 * GIB, "{form}");
        assert_eq!(bytes_in(&dump, State::PendingFree), 256 * MIB, "{form}");
        assert_eq!(bytes_in(&dump, State::Inactive), 8 * GIB, "{form}");
        let first = &dump.segments[0].blocks[0];
        assert_eq!(first.requested, Some(Bytes(8 * GIB - 100)), "{form}");
        assert_eq!(named(&dump, first.stack), ["/w/model.py:10 __init__", "/w/train.py:5 main"], "{form}");
        let private = if form == "2.0" { Pool(0, 0) } else { Pool(0, 1) };
        assert_eq!(dump.segments[6].pool, private, "{form}");
        if form.starts_with("a bare list") {
            assert!(dump.traces.is_empty());
            continue;
        }
        let last = dump.traces[0].last().unwrap();
        assert_eq!((last.kind, last.size, last.place), (ActionKind::Oom, Bytes(2 * GIB), 700 * MIB), "{form}");
        assert_eq!(named(&dump, last.stack)[0], "/w/train.py:88 forward", "{form}");
        assert_eq!(last.micros.is_some(), !matches!(form, "2.0" | "2.1"), "{form}");
        assert_eq!(last.pool.is_some(), form == "2.11", "{form}");
    }
}

#[test]
fn newer_keys_and_actions_are_skipped_and_addresses_may_have_nine_bytes() {
    let dump = read(file!("today.pickle")).unwrap();
    assert_eq!(dump.segments.len(), 2, "pinned host memory is not the GPU's");
    let (first, second) = (&dump.segments[0], &dump.segments[1]);
    assert_eq!((first.address, first.is_expandable, first.device), ((1 << 63) + 4096, true, 0));
    assert_eq!((second.stream, second.is_small, second.device), (3, true, 1));
    let kinds: Vec<ActionKind> = dump.traces.iter().flatten().map(|action| action.kind).collect();
    use ActionKind::{Alloc, Annotate, Other, SegmentAlloc, SegmentMap};
    assert_eq!(kinds, [SegmentMap, Alloc, Other, SegmentAlloc, Alloc, Annotate]);
    assert_eq!(dump.traces[0].len(), 3);
    assert_eq!(dump.settings.config.as_deref(), Some("garbage_collection_threshold:0.8"));
    assert_eq!((dump.settings.max_split_size, dump.settings.expandable_segments), (None, Some(false)));
    assert_eq!(dump.settings.garbage_collection_threshold, Some(0.8));
    assert_eq!(dump.stacks.text(dump.annotations[0].name), "ProfilerStep#412");
    assert!(dump.annotations[0].is_start);
}

#[test]
fn a_pickle_that_would_run_code_is_refused_at_its_byte() {
    let bait = file!("bait.pickle");
    assert!(is_snapshot(bait));
    let refusal = read(bait).unwrap_err();
    assert_eq!(refusal, Refusal { offset: 43, why: "it would run code".into() });
}

#[test]
fn what_is_no_snapshot_is_refused() {
    let unnested = [b"\x80\x02".as_slice(), &b"](".repeat(100)].concat();
    let refused: [&[u8]; 14] = [
        b"",
        b"\x80",
        b"\x80\x09}.",
        b"\x80\x04}.",
        b"\x80\x04].",
        b"\x80\x04a.",
        b"\x80\x04(u.",
        b"\x80\x04h\x00.",
        b"\x80\x02q\x07.",
        b"\x80\x04X\xff\xff\xff\xffabc",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc",
        b"\x80\x04C\x01a.",
        &unnested,
        file!("checkpoint.pickle"),
    ];
    for bytes in refused {
        assert!(read(bytes).is_err(), "{bytes:?}");
    }
    for json in ["{}", "[1, 2", "{\"segments\": 3", "null", "{\"a\": 1e999}", &"[".repeat(1000)] {
        assert!(read(json.as_bytes()).is_err(), "{json}");
    }
}

#[test]
fn a_log_and_other_json_are_no_snapshots() {
    for head in
        ["Traceback (most recent call last):", "{\"segments\": [{\"text\": \"hello\"}]}", "[1, 2]", "", "PK\x03\x04"]
    {
        assert!(!is_snapshot(head.as_bytes()), "{head}");
    }
}

#[test]
fn a_file_that_is_cut_off_is_refused_wherever_that_is_and_in_whatever_pieces_it_comes() {
    for (form, bytes) in SICK {
        let whole = read(bytes).unwrap();
        let in_pieces = read(BufReader::with_capacity(1, OneByOne(bytes))).unwrap();
        assert_eq!((whole.segments, whole.traces), (in_pieces.segments, in_pieces.traces), "{form}");
        for length in (0..bytes.len()).step_by(7) {
            assert!(read(&bytes[..length]).is_err(), "{form} cut at {length}");
        }
    }
}

#[test]
fn dictionaries_that_are_filled_one_by_one_are_understood() {
    // {"segments": [{"total_size": 5, "address": 7, "blocks": [{"state": "inactive", "size": 5}]}]}
    fn text(text: &str) -> Vec<u8> {
        [&[0x8c, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
    }
    let block = [b"}".as_slice(), &text("state"), &text("inactive"), b"s", &text("size"), b"K\x05s"].concat();
    let blocks = [b"]".as_slice(), &block, b"a"].concat();
    let segment =
        [b"}".as_slice(), &text("total_size"), b"K\x05s", &text("address"), b"K\x07s", &text("blocks"), &blocks, b"s"]
            .concat();
    let bytes = [b"\x80\x04}".as_slice(), &text("segments"), b"]", &segment, b"as."].concat();
    let dump = read(bytes.as_slice()).unwrap();
    assert_eq!((dump.segments[0].address, dump.segments[0].total), (7, Bytes(5)));
    assert_eq!((dump.segments[0].blocks[0].address, dump.segments[0].blocks[0].size), (7, Bytes(5)));
}

#[test]
fn beyond_the_budget_the_last_actions_stay_with_their_stacks() {
    for (form, bytes) in SICK.iter().filter(|(form, _)| !form.starts_with("a bare list")) {
        let whole = read(*bytes).unwrap();
        let bounds = Bounds { budget: 300, kept: 3, ..Bounds::default() };
        let cut = read_within(*bytes, bounds).unwrap();
        assert_eq!(cut.segments.len(), whole.segments.len(), "{form}");
        let actions = &whole.traces[0];
        assert_eq!(cut.left_out, actions.len() as u64 - 3, "{form}");
        for (kept, before) in cut.traces[0].iter().zip(&actions[actions.len() - 3..]) {
            assert_eq!((kept.kind, kept.place, kept.size), (before.kind, before.place, before.size), "{form}");
            assert_eq!(named(&cut, kept.stack), named(&whole, before.stack), "{form}");
        }
        for (kept, before) in cut.segments.iter().zip(&whole.segments) {
            for (kept, before) in kept.blocks.iter().zip(&before.blocks) {
                assert_eq!(named(&cut, kept.stack), named(&whole, before.stack), "{form}");
            }
        }
    }
}

#[test]
fn a_ring_whose_beginning_is_gone_is_read_as_it_is() {
    let dump = read(file!("cut_ring.pickle")).unwrap();
    assert_eq!(dump.traces[0][0].kind, ActionKind::FreeRequested);
    assert_eq!(dump.left_out, 0, "what the ring lost was never in the file");
}

/// A list of segments whose one block has a stack that comes a frame at a time.
fn a_stack_in_pieces(count: usize) -> Vec<u8> {
    fn text(text: &str) -> Vec<u8> {
        [&[0x8c, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
    }
    let frame = [b"}(".as_slice(), &text("filename"), &text("a.py"), b"u\x94"].concat();
    let frames = [b"](".as_slice(), &frame, b"e", &b"(h\x00e".repeat(count - 1)].concat();
    let block =
        [b"}(".as_slice(), &text("state"), &text("inactive"), &text("size"), b"K\x05", &text("frames"), &frames, b"u"];
    let segment = [b"}(".as_slice(), &text("total_size"), b"K\x05", &text("blocks"), b"](", &block.concat(), b"eu"];
    [b"\x80\x04](".as_slice(), &segment.concat(), b"e."].concat()
}

#[test]
fn a_stack_in_many_small_pieces_is_refused_because_each_copies_it() {
    let bounds = Bounds { copied: 100, ..Bounds::default() };
    let dump = read_within(a_stack_in_pieces(14).as_slice(), bounds).unwrap();
    assert_eq!(dump.stacks.frames(dump.segments[0].blocks[0].stack).count(), 14);
    let refusal = read_within(a_stack_in_pieces(15).as_slice(), bounds).unwrap_err();
    assert!(refusal.why.contains("pieces"), "{refusal}");
    assert!(read(a_stack_in_pieces(8000).as_slice()).is_err());
}
