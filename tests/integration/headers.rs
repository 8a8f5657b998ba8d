//! Model files with false headers: whatever a GGUF or safetensors file says of its counts, shapes, types and lengths,
//! reading it ends with figures or a clear error, and the result never makes the arithmetic panic.
//! `OOMDOCTOR_CASES=1000000` tries more files.

use std::io::{self, Read, Seek, SeekFrom};

use oomdoctor::memory::card::Card;
use oomdoctor::memory::fits::fits;
use oomdoctor::memory::gguf;
use oomdoctor::memory::options;
use oomdoctor::memory::shape::from_gguf;
use oomdoctor::memory::split::{self, Mode};
use oomdoctor::memory::training::{Optimizer, Recipe, Sharing, Step, Training};
use oomdoctor::memory::visible::Counted;
use oomdoctor::memory::{Engine, Settings, safetensors, sglang, vllm};
use oomdoctor::units::Bytes;

/// Reproducible random numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    /// A boundary value or any number.
    fn nasty(&mut self) -> u64 {
        let edges = [
            0,
            1,
            2,
            31,
            255,
            1 << 16,
            1 << 31,
            (1 << 32) - 1,
            1 << 32,
            1 << 40,
            (1 << 62) + 1,
            i64::MAX as u64,
            1 << 63,
            u64::MAX,
        ];
        match self.below(4) {
            0 => self.next(),
            1 => self.below(5000),
            _ => edges[usize::try_from(self.below(edges.len() as u64)).unwrap()],
        }
    }
}

/// Writes a sparse file: these bytes, then zeros.
struct Sparse {
    bytes: Vec<u8>,
    length: u64,
    at: u64,
}

impl Read for Sparse {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let from = usize::try_from(self.at).unwrap_or(usize::MAX).min(self.bytes.len());
        let own = (self.bytes.len() - from).min(count);
        buffer[..own].copy_from_slice(&self.bytes[from..from + own]);
        buffer[own..count].fill(0);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Sparse {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

const ARCHITECTURES: [&str; 8] =
    ["llama", "gemma3", "deepseek2", "qwen3next", "mamba", "gpt-oss", "llama4", "no-such-architecture"];
const KEYS: [&str; 14] = [
    "block_count",
    "context_length",
    "embedding_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.sliding_window",
    "expert_count",
    "expert_feed_forward_length",
    "feed_forward_length",
    "nextn_predict_layers",
    "ssm.inner_size",
    "vocab_size",
    "attention.kv_lora_rank",
];

/// A valid header of two layers, sometimes with a wrong number in it.
fn header(dice: &mut Dice) -> Vec<u8> {
    let architecture = ARCHITECTURES[usize::try_from(dice.below(8)).unwrap()];
    let mut keys = vec![[text("general.architecture"), 8_u32.to_le_bytes().to_vec(), text(architecture)].concat()];
    for (at, key) in KEYS.iter().enumerate() {
        let usual = [2, 4096, 64, 4, 2, 16, 1024, 8, 32, 128, 0, 128, 1000, 16][at];
        let number = if dice.below(12) == 0 { dice.nasty() } else { usual };
        let key = text(&format!("{architecture}.{key}"));
        keys.push(match dice.below(8) {
            // A list with one value per layer, or a false claim of one.
            0 => {
                let count = if dice.below(6) == 0 { dice.nasty() } else { 2 };
                let head = [&key[..], &9_u32.to_le_bytes(), &4_u32.to_le_bytes(), &count.to_le_bytes()].concat();
                [head, [2_u32.to_le_bytes(), 4_u32.to_le_bytes()].concat()].concat()
            }
            _ => [key, 10_u32.to_le_bytes().to_vec(), number.to_le_bytes().to_vec()].concat(),
        });
    }
    let mut tensors = Vec::new();
    for (at, name) in
        ["token_embd.weight", "blk.0.attn_k.weight", "blk.1.ffn_up_exps.weight", "output.weight"].iter().enumerate()
    {
        let most = if dice.below(8) == 0 { 4 } else { 2 };
        let count = 1 + dice.below(most);
        let dims: Vec<u64> = (0..count).map(|_| if dice.below(20) == 0 { dice.nasty() } else { 256 }).collect();
        let kind = if dice.below(10) == 0 { u32::try_from(dice.below(60)).unwrap() } else { [1, 12, 14, 8][at] };
        let offset = if dice.below(20) == 0 { dice.nasty() } else { 0 };
        let dims: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
        let head = [text(name), u32::try_from(count).unwrap().to_le_bytes().to_vec()].concat();
        tensors.push([&head[..], &dims, &kind.to_le_bytes(), &offset.to_le_bytes()].concat());
    }
    let mut count = |honest: usize| if dice.below(30) == 0 { dice.nasty() } else { honest as u64 };
    let counts = [count(tensors.len()).to_le_bytes(), count(keys.len()).to_le_bytes()].concat();
    [&b"GGUF\x03\0\0\0"[..], &counts, &keys.concat(), &tensors.concat()].concat()
}

/// The header with bytes changed, cut or repeated.
fn damaged(mut bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    for _ in 0..dice.below(4) {
        let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
        match dice.below(4) {
            0 => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
            1 => {
                let number = dice.nasty().to_le_bytes();
                let end = (at + 8).min(bytes.len());
                bytes[at..end].copy_from_slice(&number[..end - at]);
            }
            2 => bytes.truncate(at.max(1)),
            _ => {
                let twice = bytes[at..(at + 64).min(bytes.len())].to_vec();
                bytes.splice(at..at, twice);
            }
        }
    }
    bytes
}

/// Runs all engines, and every choice they offer, on the model.
fn reckon(gguf: &gguf::Gguf, dice: &mut Dice) {
    let shape = from_gguf(gguf);
    let (context, ranks) = (Some(1 + dice.nasty() % (1 << 40)), 1 + dice.below(9));
    let settings = Settings { context, parallel: 1 + dice.below(5), ..Settings::default() };
    let card = Card {
        index: 0,
        counted: Counted::default(),
        name: "x".into(),
        total: Bytes::gib(24),
        free: Bytes(dice.nasty()),
        each: Vec::new(),
    };
    let step = Step { batch: dice.nasty(), length: dice.nasty(), checkpointing: false, flash_attention: false };
    let sharing = Sharing { stage: 3, cards: ranks, offload: false, fsdp: false };
    let (recipe, optimizer) = (Recipe::Lora(dice.nasty()), Optimizer::AdamW8bit);
    let engine = match dice.below(4) {
        0 => Engine::LlamaCpp(settings),
        1 => Engine::Vllm(vllm::Serving { max_model_len: context, tensor_parallel: ranks, ..vllm::Serving::default() }),
        2 => Engine::Sglang(sglang::Serving { context, ..sglang::Serving::of_card(Some(card.total), ranks) }),
        _ => Engine::Train(Training { recipe, optimizer, sharing, step }),
    };
    let _ = engine.estimate(&shape).total();
    let _ = fits(&engine, &shape, Some(&card));
    if dice.below(16) == 0 {
        let two = [card.clone(), Card { index: 1, ..card.clone() }];
        for choice in options::options(engine, &shape, Some(&card), &two) {
            assert!(choice.fits != Some(true) || choice.total.is_some());
        }
        let _ = split::over(&shape, &settings, Mode::Row, &[dice.nasty(), dice.nasty()], 1);
    }
}

#[test]
fn any_gguf_header_gives_figures_or_a_clear_error() {
    let cases: u64 = std::env::var("OOMDOCTOR_CASES").map_or(3000, |text| text.parse().unwrap());
    let (mut read, mut refused) = (0_u64, 0_u64);
    for case in 0..cases {
        let mut dice = Dice(case);
        let bytes = damaged(header(&mut dice), &mut dice);
        let more = [0, 4096, 1 << 30, 100_000_000_000][usize::try_from(dice.below(4)).unwrap()];
        let length = bytes.len() as u64 + more;
        match gguf::read(Sparse { bytes, length, at: 0 }, length) {
            Ok(gguf) => {
                read += 1;
                reckon(&gguf, &mut dice);
            }
            Err(error) => {
                refused += 1;
                let said = error.to_string();
                assert!(!said.contains(char::is_control) && said.len() < 600, "{case}: {said:?}");
            }
        }
    }
    assert!(read > cases / 50 && refused > cases / 50, "both are tried: {read} read, {refused} refused");
}

#[test]
fn any_safetensors_header_is_read_to_an_end() {
    let cases: u64 = std::env::var("OOMDOCTOR_CASES").map_or(2000, |text| text.parse().unwrap());
    for case in 0..cases {
        let mut dice = Dice(!case);
        let dims: Vec<String> = (0..dice.below(6)).map(|_| dice.nasty().to_string()).collect();
        let (from, to) = (dice.nasty() % 3000, dice.nasty());
        let kind = ["BF16", "F32", "F8_E4M3", "I64", "X"][usize::try_from(dice.below(5)).unwrap()];
        let one =
            format!("\"t\":{{\"dtype\":\"{kind}\",\"shape\":[{}],\"data_offsets\":[{from},{to}]}}", dims.join(","));
        let header = format!("{{{}}}", vec![one; usize::try_from(1 + dice.below(3)).unwrap()].join(","));
        let said = if dice.below(5) == 0 { dice.nasty() } else { header.len() as u64 };
        let bytes = damaged([&said.to_le_bytes()[..], header.as_bytes()].concat(), &mut dice);
        let length = dice.nasty().max(bytes.len() as u64);
        if let Err(error) = safetensors::read(Sparse { bytes, length, at: 0 }, length) {
            assert!(error.to_string().len() < 600, "{case}: {error}");
        }
    }
}
