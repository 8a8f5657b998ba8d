//! A header is read as it stands, and none that lies can make the reader panic, wait or fill memory.

use std::io::Cursor as Bytes;

use proptest::prelude::*;

use super::testing::Builder;
use super::*;

fn small() -> Builder {
    Builder::default()
        .text("general.architecture", "llama")
        .number("llama.block_count", 2)
        .list("llama.attention.head_count_kv", &[8, 0])
        .raw("general.flag", 7, &[1])
        .raw("general.negative", 5, &(-3_i32).to_le_bytes())
        .tensor("token_embd.weight", &[256, 10], GgmlType::Q4_K)
        .tensor("output.weight", &[256, 10], GgmlType::Q6_K)
}

fn parse(bytes: &[u8], length: u64) -> Result<Gguf, GgufError> {
    read(Bytes::new(bytes.to_vec()), length)
}

#[test]
fn keys_and_tensors_come_as_they_stand() {
    let (bytes, length) = small().header();
    let gguf = parse(&bytes, length).unwrap();
    assert_eq!(gguf.metadata.text("general.architecture"), Some("llama"));
    assert_eq!(gguf.metadata.per_layer("llama.attention.head_count_kv", 2), Some(vec![8, 0]));
    assert_eq!(gguf.metadata.per_layer("llama.block_count", 3), Some(vec![2, 2, 2]));
    assert_eq!(gguf.metadata.number("general.flag"), Some(1));
    assert_eq!(gguf.metadata.get("general.negative"), Some(&Value::Whole(-3)));
    assert_eq!(gguf.metadata.number("general.negative"), None, "no count");
    let sizes: Vec<_> = gguf.tensors.iter().map(|tensor| (tensor.bytes, tensor.elements())).collect();
    assert_eq!(sizes, [(1440, 2560), (2100, 2560)]);
}

#[test]
fn a_vocabulary_is_counted_and_a_long_text_passed_over() {
    let mut words = 8_u32.to_le_bytes().to_vec();
    words.extend(3_u64.to_le_bytes());
    for word in ["a", "", "ccc"] {
        words.extend((word.len() as u64).to_le_bytes());
        words.extend(word.as_bytes());
    }
    let template = "x".repeat(200_000);
    let builder = small().raw("tokenizer.ggml.tokens", 9, &words).text("tokenizer.chat_template", &template);
    let (bytes, length) = builder.number("after", 7).header();
    let gguf = parse(&bytes, length).unwrap();
    assert_eq!(gguf.metadata.length("tokenizer.ggml.tokens"), Some(3));
    assert_eq!(gguf.metadata.get("tokenizer.chat_template"), Some(&Value::Long(200_000)));
    assert_eq!(gguf.metadata.number("after"), Some(7));
}

#[track_caller]
fn refused(bytes: &[u8], length: u64, part: &str) {
    let error = parse(bytes, length).unwrap_err().to_string();
    assert!(error.contains(part), "{part}: {error}");
}

#[test]
fn a_wrong_file_is_named() {
    refused(b"PK\x03\x04 something else", 20, "no GGUF");
    refused(b"GG", 2, "no GGUF");
    refused(b"GGUF\x01\0\0\0", 8, "version 1");
    refused(b"GGUF\0\0\0\x03", 8, "big-endian");
}

#[test]
fn every_shortening_is_refused() {
    let (bytes, length) = small().header();
    for cut in 0..bytes.len() {
        parse(&bytes[..cut], cut as u64).unwrap_err();
    }
    refused(&bytes, length - 32 - 1, "unfinished download");
}

#[test]
fn counts_near_the_end_of_numbers_are_refused_at_once() {
    for count in [u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 40] {
        for place in [8, 16] {
            let (mut bytes, _) = small().header();
            bytes[place..place + 8].copy_from_slice(&count.to_le_bytes());
            refused(&bytes, 100 << 30, "are possible");
        }
        let mut list = 10_u32.to_le_bytes().to_vec();
        list.extend(count.to_le_bytes());
        let (bytes, _) = small().raw("evil", 9, &list).header();
        // A hole of 100 GB: a list that would fit in it is passed over, and then the file is at its end.
        parse(&bytes, 100 << 30).unwrap_err();
        let (bytes, _) = small().raw("evil", 8, &count.to_le_bytes()).header();
        parse(&bytes, 100 << 30).unwrap_err();
    }
}

#[test]
fn impossible_tensors_and_doubles_are_refused() {
    let twice = small().tensor("output.weight", &[32], GgmlType::F32).header();
    refused(&twice.0, twice.1, "twice");
    let twice = small().number("llama.block_count", 2).header();
    refused(&twice.0, twice.1, "twice");
    let wide = small().tensor("x", &[1 << 62, 1 << 62], GgmlType::F16).header();
    refused(&wide.0, u64::MAX, "impossible shape");
    let partial = small().tensor("x", &[100], GgmlType::Q4_K).header();
    refused(&partial.0, 1 << 30, "impossible shape");
    let deep = small().tensor("x", &[1, 1, 1, 1, 1], GgmlType::F16).header();
    refused(&deep.0, deep.1, "dimensions");
    let long = small().tensor(&"n".repeat(65), &[1], GgmlType::F16).header();
    refused(&long.0, long.1, "name");
    let mut lists = 9_u32.to_le_bytes().to_vec();
    lists.extend(1_u64.to_le_bytes());
    let nested = small().raw("deep", 9, &lists).header();
    refused(&nested.0, nested.1, "list of lists");
    for alignment in [0, 3, 1 << 20] {
        let odd = small().number("general.alignment", alignment).header();
        refused(&odd.0, odd.1, "general.alignment");
    }
}

#[test]
fn parts_of_a_split_model_are_named_and_joined() {
    let names = split_names("m-00002-of-00003.gguf").unwrap();
    assert_eq!(names, ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"]);
    for other in ["m.gguf", "m-1-of-2.gguf", "m-00001-of-00000.gguf", "m-00001-of-99999.gguf", "m-0000x-of-00002.gguf"]
    {
        assert_eq!(split_names(other), None, "{other}");
    }
    let (bytes, length) = small().number("split.count", 2).header();
    let mut first = parse(&bytes, length).unwrap();
    let (bytes, length) = Builder::default().tensor("blk.1.x", &[32], GgmlType::F16).header();
    let second = parse(&bytes, length).unwrap();
    first.join(second.clone()).unwrap();
    assert_eq!(first.tensors.len(), 3);
    first.join(second).unwrap_err();
}

proptest! {
    #[test]
    fn a_damaged_header_never_panics(at in 0_usize..400, with: [u8; 8], length in 0_u64..1 << 40) {
        let (mut bytes, _) = small().header();
        let at = at % bytes.len();
        let end = (at + 8).min(bytes.len());
        bytes[at..end].copy_from_slice(&with[..end - at]);
        let _ = parse(&bytes, length);
    }
}
