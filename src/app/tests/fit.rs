//! Owns the tests of "will it fit?": what is tried, and what becomes of it.

use crossterm::event::KeyCode;

use crate::app::effect::Effect;
use crate::app::model::{Model, Region};
use crate::app::overlay::sizes::Sizes;
use crate::app::overlay::trial::FitTrial;
use crate::app::tests::Session;
use crate::gpu::testing::{device, process, snapshot};
use crate::gpu::{Device, Snapshot};
use crate::units::Bytes;

/// llama.cpp's load of Llama 3.1 8B at 64K context, whose KV cache is refused, beside 12 GiB that somebody holds.
pub(crate) fn refused() -> Session {
    let log = "\
$ llama-server -m /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf -c 65536 --port 8080
llama_model_loader: loaded meta data with 29 key-value pairs and 292 tensors from /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf (version GGUF V3 (latest))
print_info: file type   = Q4_K - Medium
print_info: file size   = 4.58 GiB (4.89 BPW)
print_info: n_layer          = 32
print_info: n_embd           = 4096
load_tensors: offloaded 33/33 layers to GPU
load_tensors:        CUDA0 model buffer size =  4403.49 MiB
llama_context: n_seq_max     = 1
llama_context: n_ctx         = 65536
llama_context: n_ubatch      = 512
llama_context: flash_attn    = enabled
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 8192.00 MiB on device 0: cudaMalloc failed: out of memory
llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache";
    let mut session = Session::new();
    session.send(sample(Bytes::gib(12)));
    session.paste(log);
    session
}

fn sample(held: Bytes) -> crate::app::Msg {
    let one: Device = device(0, vec![process(4242, held)]);
    crate::app::Msg::Sample(Box::new(Snapshot { devices: vec![one], ..snapshot(0) }))
}

fn sentence(model: &Model) -> String {
    let fit = model.advice.as_ref().unwrap().fit.as_ref().unwrap();
    model.trial.as_ref().unwrap().sentence(fit)
}

#[test]
fn it_opens_from_every_region() {
    for region in [Region::Processes, Region::Input, Region::Steps] {
        let mut session = refused();
        session.model.focus = region;
        session.keys("f");
        assert_eq!(session.model.opened(), Some(&FitTrial), "{region:?}");
    }
}

#[test]
fn what_is_tried_goes_into_the_command_to_run_again() {
    let mut session = refused();
    session.keys("f");
    assert_eq!(session.model.opened(), Some(&FitTrial));
    assert!(sentence(&session.model).starts_with("It does not fit: about 13."), "{}", sentence(&session.model));
    session.press(KeyCode::Left);
    session.press(KeyCode::Left);
    assert!(sentence(&session.model).starts_with("It fits: about 9."), "{}", sentence(&session.model));
    session.press(KeyCode::Down);
    session.press(KeyCode::Down);
    session.press(KeyCode::Left);
    session.press(KeyCode::Enter);
    let line =
        "llama-server -m /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf -c 32768 --port 8080 -fa on -ctk q8_0 -ctv q8_0";
    assert_eq!(session.model.rerun().as_deref(), Some(line));
    assert!(session.model.overlay.is_none());
    assert!(session.effects().contains(&Effect::Copy(line.into())));
    // What was tried is there again, and taken back whole.
    session.keys("f");
    session.press(KeyCode::Backspace);
    session.press(KeyCode::Enter);
    assert!(session.model.rerun().unwrap().ends_with("-c 65536 --port 8080"), "{:?}", session.model.rerun());
}

#[test]
fn the_sum_is_held_against_what_is_free_at_each_reading() {
    let mut session = refused();
    session.keys("f");
    assert!(sentence(&session.model).contains("too much"));
    session.send(sample(Bytes::gib(1)));
    assert!(sentence(&session.model).starts_with("It fits"), "{}", sentence(&session.model));
    session.press(KeyCode::Tab);
    assert_eq!(session.model.opened(), Some(&Sizes));
    session.press(KeyCode::Tab);
    assert_eq!(session.model.opened(), Some(&FitTrial));
    session.press(KeyCode::Esc);
    session.paste("\n");
    assert!(session.model.overlay.is_none());
}

#[test]
fn without_a_model_it_is_asked_for() {
    let mut session = Session::with_log();
    session.keys("f");
    assert!(session.model.overlay.is_none());
    assert!(session.model.notice.as_ref().unwrap().0.contains("[m] sets it"));
}
