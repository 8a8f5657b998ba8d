//! Hostile inputs: valid ones of each kind, cut, spliced, and mixed with escapes, invisible characters, absurd figures
//! and nesting. None may panic, hang or reach the terminal as control codes. `OOMDOCTOR_CASES=1000000 cargo test
//! --release --test integration hostile -- --nocapture` runs a million of each and prints the cost; `OOMDOCTOR_CASE=N`
//! runs one. `tests/fuzz` has the same targets for cargo-fuzz.

#[path = "../fuzz/targets.rs"]
mod targets;

use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::chance::Chance;

/// Fragments to insert.
const SALT: [&[u8]; 34] = [
    b"\x1b[2J\x1b[H",
    b"\x1b]0;title\x07",
    b"\x1b]52;c;aGk=\x07",
    b"\x1b[31m",
    b"\x1bP+q\x1b\\",
    b"\\u001b[31m",
    b"\xc2\x9b31m",
    b"\xe2\x80\xae",
    b"\xe2\x81\xa6",
    b"\xe2\x80\x8b",
    b"\xef\xbb\xbf",
    b"\xf3\xa0\x81\x81",
    b"\xcc\x81\xcc\x81\xcc\x81",
    b"\xe2\x80\xa8",
    b"\x00",
    b"\xff\xfe",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x00\x00\x00\x00\x00\x00\x00\x80",
    b"\r",
    b"\n\n\n",
    b"\\n\\n",
    b"18446744073709551616",
    b"-1",
    b"1e999",
    b"99999999999999999999.99 GiB",
    b"9223372036854775807",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"((((((((((((((((((((((((((((((((((((((((",
    b"{\"a\":{\"a\":{\"a\":{\"a\":",
    b"\"",
    b"`````",
    b"{pid} {device} {n}",
    b"(?i)(a+)+$",
    "\u{2588}\u{6a21}\u{578b}\u{1f980}".as_bytes(),
];

fn at(chance: &mut Chance, bytes: &[u8]) -> usize {
    usize::try_from(chance.below(bytes.len() as u64 + 1)).unwrap()
}

/// A valid input with up to eight faults.
fn wronged(chance: &mut Chance, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = chance.of(seeds).clone();
    bytes.truncate(64 << 10);
    for _ in 0..chance.below(9) {
        let (here, there) = (at(chance, &bytes), at(chance, &bytes));
        let (from, to) = (here.min(there), here.max(there));
        match chance.below(8) {
            0 | 1 => drop(bytes.splice(here..here, chance.of(&SALT).iter().copied())),
            2 => drop(bytes.drain(from..to.min(from + 40))),
            3 => bytes.truncate(bytes.len() - at(chance, &bytes) / 4),
            4 => {
                let part = bytes[from..to.min(from + 200)].to_vec();
                drop(bytes.splice(here..here, part));
            }
            5 => {
                let other = chance.of(seeds);
                let begin = at(chance, other);
                let part = other[begin..other.len().min(begin + 300)].to_vec();
                drop(bytes.splice(here..here, part));
            }
            // Replaces a figure by another one.
            6 => {
                if let Some(digit) = bytes.iter().skip(here).position(u8::is_ascii_digit) {
                    bytes[here + digit] = b'0' + u8::try_from(chance.below(10)).unwrap();
                }
            }
            _ => {
                if let Some(byte) = bytes.get_mut(here) {
                    *byte = u8::try_from(chance.below(256)).unwrap();
                }
            }
        }
    }
    bytes
}

fn assert_survived(kind: &str, seeds: &[Vec<u8>], few: u64, target: fn(&[u8])) {
    assert!(!seeds.is_empty());
    let said = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let cases = said("OOMDOCTOR_CASES").unwrap_or(few);
    let alone = said("OOMDOCTOR_CASE");
    // Builds what is built at first use, so that no case is charged for it.
    target(&seeds[0]);
    let mut slowest = (Duration::ZERO, 0);
    let began = Instant::now();
    for case in alone.map_or(0..cases, |case| case..case + 1) {
        let input = wronged(&mut Chance::new(case), seeds);
        let started = Instant::now();
        let outcome = catch_unwind(|| target(&input));
        let took = started.elapsed();
        // Limits the length, because long inputs are not tested here.
        slowest = slowest.max((took, case));
        assert!(outcome.is_ok(), "{kind}: case {case} does not survive: {:?}", String::from_utf8_lossy(&input));
    }
    // Measures the slowest case again, alone: on a busy machine it may only have waited.
    let (slow, started) = (wronged(&mut Chance::new(slowest.1), seeds), Instant::now());
    target(&slow);
    slowest.0 = slowest.0.min(started.elapsed());
    eprintln!("| {kind} | {cases} | survived | {:?} (case {}) | {:?} |", slowest.0, slowest.1, began.elapsed());
}

#[test]
fn hostile_logs_are_harmless() {
    assert_survived("log", &targets::logs(), 25, targets::log);
}

#[test]
fn hostile_entries_are_harmless() {
    assert_survived("entry", &targets::entries(), 200, targets::entry);
}

#[test]
fn hostile_readings_are_harmless() {
    let recording = include_str!("../../assets/demo.jsonl");
    let seeds: Vec<Vec<u8>> = recording.lines().skip(1).step_by(7).map(|line| line.as_bytes().to_vec()).collect();
    assert_survived("snapshot", &seeds, 60, targets::snapshot);
}

/// A small header in llama.cpp's form.
fn small_gguf() -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    let numbers = [
        ("block_count", 2_u32),
        ("embedding_length", 256),
        ("attention.head_count", 8),
        ("attention.head_count_kv", 8),
        ("context_length", 4096),
        ("vocab_size", 10),
    ];
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(3_u64.to_le_bytes());
    bytes.extend((numbers.len() as u64 + 1).to_le_bytes());
    text(&mut bytes, "general.architecture");
    bytes.extend(8_u32.to_le_bytes());
    text(&mut bytes, "llama");
    for (name, number) in numbers {
        text(&mut bytes, &format!("llama.{name}"));
        bytes.extend(4_u32.to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
    for (offset, name) in ["token_embd.weight", "output.weight", "blk.0.attn_q.weight"].into_iter().enumerate() {
        text(&mut bytes, name);
        bytes.extend(2_u32.to_le_bytes());
        bytes.extend(256_u64.to_le_bytes());
        bytes.extend(10_u64.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend((offset as u64 * 10240).to_le_bytes());
    }
    bytes
}

#[test]
fn hostile_gguf_headers_are_harmless() {
    targets::gguf(&small_gguf());
    assert_survived("gguf", &[small_gguf()], 2000, targets::gguf);
}

#[test]
fn hostile_safetensors_headers_are_harmless() {
    let header = r#"{"__metadata__":{"format":"pt"},"model.layers.0.a.weight":{"dtype":"BF16","shape":[8,16],"data_offsets":[0,256]},"b":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[256,260]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    assert_survived("safetensors", &[bytes], 2000, targets::safetensors);
}

#[test]
fn hostile_fdinfo_is_harmless() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fdinfo");
    let seeds: Vec<Vec<u8>> =
        std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert_survived("fdinfo", &seeds, 5000, targets::fdinfo);
}

#[test]
fn hostile_configs_are_harmless() {
    let seeds = [
        r#"{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "intermediate_size": 14336, "torch_dtype": "bfloat16", "max_position_embeddings": 8192}"#,
        r#"{"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 1024, "sliding_window_pattern": 6, "vocab_size": 262208}}"#,
        r#"{"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "vocab_size": 129280}"#,
    ];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    assert_survived("config", &seeds, 500, targets::config);
}

#[test]
fn hostile_memory_snapshots_are_harmless() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let read = files.filter(|file| file.extension().is_some_and(|kind| kind == "pickle" || kind == "json"));
    let mut seeds: Vec<_> = read.collect();
    // The same cases on every machine.
    seeds.sort();
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert_survived("allocations", &seeds, 2000, targets::allocations);
}

#[test]
fn hostile_memory_profiles_are_harmless() {
    let seed = include_bytes!("../snapshots/jax.pprof").to_vec();
    assert_survived("profile", &[seed], 2000, targets::profile);
}

#[test]
fn hostile_texts_are_redacted() {
    let seeds = [
        "user@node7:~$ export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\n/home/ada/run/train.py on 10.0.0.7 for ada@example.org\n",
        "Nov 28 11:00:00 gpu-node kernel: Out of memory: Killed process 4242 (python)\nhttps://ada:secret@host.example/x?token=abc\n",
    ];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    assert_survived("redact", &seeds, 200, targets::redact);
}

/// What a fuzz target does with an input.
type Target = fn(&[u8]);

/// What cargo-fuzz found to reach most of the code is played in every test run.
#[test]
fn inputs_that_a_coverage_guided_run_kept_are_harmless() {
    let targets: [(&str, Target); 9] = [
        ("allocations", targets::allocations),
        ("config", targets::config),
        ("entry", targets::entry),
        ("gguf", targets::gguf),
        ("log", targets::log),
        ("profile", targets::profile),
        ("redact", targets::redact),
        ("safetensors", targets::safetensors),
        ("snapshot", targets::snapshot),
    ];
    #[cfg(target_os = "linux")]
    play("fdinfo", targets::fdinfo);
    for (name, target) in targets {
        play(name, target);
    }
}

fn play(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
    let Ok(files) = std::fs::read_dir(folder) else { return };
    for file in files {
        let path = file.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        assert!(catch_unwind(|| target(&input)).is_ok(), "{} does not survive", path.display());
    }
}
