//! Logs in the programs' own forms, read and reckoned with: the worked example, golden figures, what is not known.

use super::*;
use crate::advice::{Advice, advise};
use crate::gpu::Snapshot;
use crate::gpu::testing::{device, noon_plus, process, snapshot};
use crate::knowledge::KnowledgeBase;
use crate::log::PastedLog;

/// llama.cpp's load of Llama 3.1 8B up to its KV cache, which is refused.
fn llama_log(context: u64, cache_mib: u64) -> String {
    format!(
        "\
llama_model_loader: loaded meta data with 29 key-value pairs and 292 tensors from /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf (version GGUF V3 (latest))
print_info: file type   = Q4_K - Medium
print_info: file size   = 4.58 GiB (4.89 BPW)
print_info: arch             = llama
print_info: n_ctx_train      = 131072
print_info: n_embd           = 4096
print_info: n_layer          = 32
print_info: n_head           = 32
print_info: n_head_kv        = 8
print_info: n_embd_head_k    = 128
print_info: n_ff             = 14336
print_info: n_vocab          = 128256
load_tensors: offloaded 33/33 layers to GPU
load_tensors:        CUDA0 model buffer size =  4403.49 MiB
llama_context: n_seq_max     = 1
llama_context: n_ctx         = {context}
llama_context: n_ubatch      = 512
llama_context: flash_attn    = enabled
ggml_backend_cuda_buffer_type_alloc_buffer: allocating {cache_mib}.00 MiB on device 0: cudaMalloc failed: out of memory
llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache"
    )
}

fn advised(log: &str, here: Option<&Snapshot>, model: Option<&str>) -> Advice {
    let base = KnowledgeBase::built_in().unwrap();
    let diagnosis = base.diagnose(&PastedLog::new(log), None);
    let fixes = base.leading_fixes(&diagnosis);
    advise(&Situation {
        diagnosis: &diagnosis,
        fixes: &fixes,
        snapshot: here,
        history: None,
        viewer: None,
        crashed_by: Some(noon_plus(0)),
        zone: None,
        model,
    })
}

/// A card of 24 GiB on which others hold this much.
fn held(bytes: Bytes) -> Snapshot {
    Snapshot { devices: vec![device(0, vec![process(4242, bytes)])], ..snapshot(0) }
}

fn mib(part: &Part) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a test")]
    let mib = part.bytes.unwrap().0 as f64 / 1_048_576.0;
    mib
}

#[test]
fn the_worked_example_comes_out() {
    let advice = advised(&llama_log(32_768, 4096), None, None);
    let fit = advice.fit.unwrap();
    let parts = fit.parts.as_ref().unwrap();
    assert!((mib(&parts.weights) - 4403.49).abs() < 0.01, "{}", mib(&parts.weights));
    assert_eq!((parts.weights.is, parts.kv_cache.is), (Is::Fact, Is::Fact), "as the log prints them");
    assert_eq!((mib(&parts.kv_cache), mib(&parts.compute)), (4096.0, 258.5));
    let eight = fit.effect_of("quantised-kv-cache").unwrap();
    assert_eq!(eight.frees, Some((Bytes::mib(1792), FreesIs::Fact)), "1920 less the f16 copy of a layer");
    let file = fit.sizes.iter().find(|size| size.quantization == "Q4_K_M").unwrap();
    assert!(file.file_bytes.0.abs_diff(4_912_898_304) < 4096, "{:?}", file.file_bytes);
    assert_eq!((fit.fits, fit.why_not_known.is_some()), (None, true), "no card was read");
}
