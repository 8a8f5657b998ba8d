//! Benches of what a user waits for: loading the knowledge, the verdict on a paste, the advice at each reading, taking
//! in a reading, a frame. Run with `cargo bench`. The ratio to a plain search, and a log of 100 MB, are in
//! first_pass.py.

#![allow(clippy::unwrap_used, reason = "a bench may")]

use divan::{Bencher, black_box};
use oomdoctor::advice::{Situation, advise};
use oomdoctor::app::model::Config;
use oomdoctor::app::msg::LogRead;
use oomdoctor::app::{Cx, Model, Msg, update};
use oomdoctor::gpu::{GpuProcess, Snapshot};
use oomdoctor::knowledge::KnowledgeBase;
use oomdoctor::knowledge::page;
use oomdoctor::log::PastedLog;
use oomdoctor::ui::picture::{Pen, Shown};
use oomdoctor::ui::view;
use oomdoctor::units::WallTime;

use ratatui::layout::Rect;
use std::time::Duration;

fn main() {
    divan::main();
}

const FAILURE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total \
capacity of 23.99 GiB of which 6.10 GiB is free. Process 4242 has 11.23 GiB memory in use. Of the allocated memory \
200.00 MiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.\n";

/// A training log of this many bytes that fails at its end.
fn training_log(size: usize) -> String {
    let mut log = String::new();
    for step in 0.. {
        if log.len() >= size {
            break;
        }
        log.push_str(&format!(
            "epoch {} step {step} loss {}.{:04} gpu memory 17.{:02} GiB cached\n",
            step / 2000,
            step % 3,
            step % 9973,
            step % 100
        ));
    }
    log + FAILURE
}

/// The knowledge as it is when a paste has arrived: it is loaded and warmed up at the paste's first byte.
fn waiting() -> KnowledgeBase {
    let base = KnowledgeBase::built_in().unwrap();
    base.warm_up();
    base
}

#[divan::bench]
fn knowledge_loaded() -> KnowledgeBase {
    KnowledgeBase::built_in().unwrap()
}

/// Includes the first use of patterns that the warming-up did not need: each sample has its own knowledge base.
#[divan::bench(args = [1_000, 1 << 20])]
fn verdict_on_a_paste(bencher: Bencher, size: usize) {
    let log = training_log(size);
    bencher.with_inputs(|| (waiting(), log.clone())).bench_values(|(base, log)| {
        let diagnosis = base.diagnose(&PastedLog::new(log), None);
        (base, black_box(diagnosis))
    });
}

const LOAD: &str = "print_info: general.name     = Llama 3.1 8B Instruct
print_info: file type   = Q4_K - Medium
load_tensors: offloaded 33/33 layers to GPU
load_tensors:        CUDA0 model buffer size =  4403.49 MiB
llama_context: n_ctx         = 131072
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: cudaMalloc failed: out of memory
llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache";

/// The cost of each reading while a log is open: verdict, ledger, plan, and whether the model fits.
#[divan::bench(args = [FAILURE, LOAD])]
fn advice_anew(bencher: Bencher, log: &str) {
    let base = waiting();
    let diagnosis = base.diagnose(&PastedLog::new(log), None);
    let fixes = base.leading_fixes(&diagnosis);
    let command = Some("CUDA_VISIBLE_DEVICES=0 llama-server -m /srv/a.gguf -c 131072 -ngl 99 --port 8080");
    let situation =
        Situation { fixes: &fixes, command, model: Some("Llama-3.1-8B Q4_K_M"), ..Situation::alone(&diagnosis) };
    let first = advise(&situation);
    bencher.bench(|| advise(&Situation { before: Some(&first.remembered), ..situation }));
}

/// A reading of 8 cards with 64 processes, as the sampler writes it.
fn large_reading() -> String {
    let demo = include_str!("../../assets/demo.jsonl");
    let recorded = demo.lines().filter_map(|line| serde_json::from_str::<Snapshot>(line).ok());
    let mut snapshot =
        recorded.max_by_key(|snapshot| snapshot.devices.iter().map(|d| d.processes.len()).sum::<usize>()).unwrap();
    let device = snapshot.devices.iter().max_by_key(|device| device.processes.len()).unwrap().clone();
    snapshot.devices = (0..8)
        .map(|index| {
            let mut device = device.clone();
            device.index = index;
            let rows = device.processes.iter().cloned().cycle().zip(0_u32..8);
            device.processes = rows.map(|(row, at)| GpuProcess { pid: 10_000 + index * 100 + at, ..row }).collect();
            device
        })
        .collect();
    serde_json::to_string(&snapshot).unwrap()
}

/// The program on a screen of 200x60 with that reading and a log.
fn at_work() -> (Model, Snapshot) {
    let base = waiting();
    let snapshot: Snapshot = serde_json::from_str(&large_reading()).unwrap();
    let mut model = Model::new(Config::default(), (200, 60), WallTime(jiff::Timestamp::UNIX_EPOCH));
    let log = std::sync::Arc::new(PastedLog::new(FAILURE));
    let diagnosis = base.diagnose(&log, None);
    let (fixes, pages) = (base.leading_fixes(&diagnosis), page::of_matches(&base, &diagnosis));
    update(&mut model, Msg::Paste(FAILURE.to_owned()), &at(1));
    let read = LogRead { generation: 1, log, diagnosis, fixes, pages, written: None };
    update(&mut model, Msg::LogRead(Box::new(read)), &at(1));
    update(&mut model, Msg::Sample(Box::new(snapshot.clone())), &at(2));
    (model, snapshot)
}

fn at(second: u64) -> Cx {
    Cx { now: Duration::from_secs(second), wall: WallTime(jiff::Timestamp::UNIX_EPOCH) }
}

/// The whole screen, at the start and below an overlay.
#[divan::bench]
fn whole_frame_of_200x60(bencher: Bencher) {
    let (model, _) = at_work();
    let mut terminal = Pen::new(std::io::sink(), true);
    bencher.bench_local(|| {
        let (picture, _) = view(&model);
        Shown::blank(picture.area()).show(picture, &mut terminal).unwrap();
    });
}

/// The part drawn each second: the clock and the ages.
#[divan::bench]
fn next_frame_of_200x60(bencher: Bencher) {
    let (mut model, mut snapshot) = at_work();
    let mut terminal = Pen::new(std::io::sink(), true);
    let mut shown = Shown::blank(Rect::new(0, 0, 200, 60));
    let mut pictures = [3, 4].map(|second| {
        snapshot.taken_at = WallTime(snapshot.taken_at.0 + Duration::from_secs(1));
        update(&mut model, Msg::Sample(Box::new(snapshot.clone())), &at(second));
        model.clone()
    });
    bencher.bench_local(|| {
        pictures.reverse();
        shown.show(view(&pictures[0]).0, &mut terminal).unwrap();
    });
}

#[divan::bench]
fn reading_taken_in(bencher: Bencher) {
    let (mut model, snapshot) = at_work();
    let sample = || Msg::Sample(Box::new(snapshot.clone()));
    bencher.with_inputs(sample).bench_local_values(|msg| update(&mut model, msg, &at(3)));
}

#[divan::bench]
fn reading_parsed(bencher: Bencher) {
    let line = large_reading();
    bencher.bench(|| serde_json::from_str::<Snapshot>(&line).unwrap());
}
