//! Logs in the programs' own forms, read and reckoned with: the worked example, golden figures, what is not known.

use super::offers::MOST_INSTEAD;
use super::*;
use crate::advice::{Advice, Situation, advise};
use crate::gpu::Snapshot;
use crate::gpu::testing::{device, noon_plus, process, snapshot};
use crate::knowledge::FixId;
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
    static BASE: std::sync::LazyLock<KnowledgeBase> = std::sync::LazyLock::new(|| KnowledgeBase::built_in().unwrap());
    let base = &*BASE;
    let diagnosis = base.diagnose(&PastedLog::new(log), None);
    let fixes = base.leading_fixes(&diagnosis);
    advise(&Situation {
        fixes: &fixes,
        snapshot: here,

        crashed_by: Some(noon_plus(0)),

        model,
        ..Situation::alone(&diagnosis)
    })
}

/// A GPU of 24 GiB on which others hold this much.
fn held(bytes: Bytes) -> Snapshot {
    Snapshot { devices: vec![device(0, vec![process(4242, bytes)])], ..snapshot(0) }
}

fn mib(part: &Part) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a test")]
    let mib = part.bytes.unwrap().0 as f64 / 1_048_576.0;
    mib
}

#[test]
fn what_is_ahead_is_reckoned_from_what_was_changed() {
    let base = KnowledgeBase::built_in().unwrap();
    let diagnosis = base.diagnose(&PastedLog::new(llama_log(65_536, 8192)), None);
    let fixes = base.leading_fixes(&diagnosis);
    let here = held(Bytes::gib(16));
    let back = |command: &str, changed: bool| {
        let advice = advise(&Situation {
            fixes: &fixes,
            snapshot: Some(&here),
            crashed_by: Some(noon_plus(0)),
            command: Some(command),
            taken: crate::advice::Taken { changed, ..Default::default() },
            ..Situation::alone(&diagnosis)
        });
        assert_eq!(advice.fit.unwrap().context_tokens, Some(65_536), "of what failed nothing changes");
        let step = advice.plan.into_iter().find(|step| step.fix == FixId::QUANTISED_KV_CACHE).unwrap();
        step.frees_bytes.unwrap()
    };
    let line = "llama-server -m /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf";
    assert_eq!(back(&format!("{line} -c 65536"), false), Bytes::mib(3840 - 256));
    assert_eq!(back(&format!("{line} -c 8192"), true), Bytes::mib(480 - 32), "an eighth of it");
}

#[test]
fn the_worked_example_comes_out() {
    let advice = advised(&llama_log(32_768, 4096), None, None);
    let fit = advice.fit.unwrap();
    let parts = fit.parts.as_ref().unwrap();
    assert!((mib(&parts.weights) - 4403.49).abs() < 0.01, "{}", mib(&parts.weights));
    assert_eq!((parts.weights.is, parts.kv_cache.is), (Is::Fact, Is::Fact), "as the log prints them");
    assert_eq!((mib(&parts.kv_cache), mib(&parts.compute)), (4096.0, 258.5));
    let eight = fit.effect_of(FixId::QUANTISED_KV_CACHE).unwrap();
    assert_eq!(eight.frees, Some((Bytes::mib(1792), Is::About)), "1920 less the f16 copy of a layer");
    let file = fit.sizes.iter().find(|size| size.quantization == "Q4_K_M").unwrap();
    assert!(file.file_bytes.0.abs_diff(4_912_898_304) < 4096, "{:?}", file.file_bytes);
    assert_eq!((fit.fits, fit.why_not_known.is_some()), (None, true), "no card was read");
}

#[test]
fn the_verdict_says_what_it_needs_and_what_fits_beside_what_is_free_now() {
    // 11.4 GiB are free of 24.
    let advice = advised(&llama_log(65_536, 8192), Some(&held(Bytes::gib(12))), None);
    let fit = advice.fit.as_ref().unwrap();
    let sentence = &advice.verdict.sentence;
    let said = "Llama-3.1-8B Q4_K_M at 64K tokens of context needs about 13.0 GiB; this GPU has 11.4 free and 24.0 in all. \
        It fits with the KV cache in q8_0 (about 9.5 GiB), or with 43K tokens of context (about 10.4 GiB).";
    assert!(sentence.ends_with(said), "{sentence}");
    assert_eq!(fit.fits, Some(false));
    let free = fit.free_now_bytes.unwrap();
    for choice in &fit.choices {
        // The margin of the compute buffer is part of what is spare.
        assert!(choice.total_bytes.unwrap().plus(SPARE).less(Bytes::mib(64)) <= free, "{choice:?}");
        assert_eq!(choice.free_after_bytes, choice.total_bytes.map(|total| free.less(total)));
    }
    assert!(fit.choices.len() <= MOST_CHOICES);
}

#[test]
fn steps_are_filled_with_what_fits() {
    let advice = advised(&llama_log(65_536, 8192), Some(&held(Bytes::gib(12))), None);
    let step = |fix: FixId| advice.plan.iter().find(|planned| planned.fix == fix).unwrap_or_else(|| panic!("{fix}"));
    let command = |fix: FixId| step(fix).steps[0].command.clone().unwrap();
    assert_eq!(
        command(FixId::SHORTER_CONTEXT),
        "llama-server -m /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf -ngl 33 -c 44032"
    );
    assert!(step(FixId::SHORTER_CONTEXT).may_be_enough);
    assert_eq!(step(FixId::SHORTER_CONTEXT).frees_is, Some(Is::Fact));
    assert_eq!(step(FixId::QUANTISED_KV_CACHE).frees_bytes, Some(Bytes::mib(3584)), "3840 less 256 to unpack a layer");
    assert_eq!(
        (step(FixId::KV_CACHE_ON_CPU).frees_bytes, step(FixId::KV_CACHE_ON_CPU).frees_is),
        (Some(Bytes::gib(8)), Some(Is::Fact))
    );
    let layers: u64 = command(FixId::OFFLOAD_FEWER_LAYERS).rsplit(' ').next().unwrap().parse().unwrap();
    assert!((20..33).contains(&layers), "{layers}");
    let idle = [FixId::EXPERTS_ON_CPU, FixId::FEWER_SEQUENCES];
    assert!(advice.plan.iter().all(|planned| !idle.contains(&planned.fix)), "it has none of either");
}

#[test]
fn where_it_fits_now_that_is_said_and_nothing_is_advised() {
    let advice = advised(&llama_log(32_768, 4096), Some(&held(Bytes::gib(1))), None);
    let fit = advice.fit.unwrap();
    assert_eq!((fit.fits, fit.choices.len()), (Some(true), 0));
    assert!(fit.sentence(|_| true).unwrap().ends_with("it should fit now."), "{:?}", fit.sentence(|_| true));
}

#[test]
fn golden_figures_come_out_of_a_log_that_only_prints_buffers() {
    // G001: 80 layers of 1024 and 1024 at 8192 cells take 2560 MiB; G022: the weights of a 70B in Q8_0.
    let log = "\
llama_model_loader: loaded meta data with 36 key-value pairs and 724 tensors from /m/our-own-merge.gguf (version GGUF V3 (latest))
load_tensors: offloaded 81/81 layers to GPU
load_tensors:        CUDA0 model buffer size = 70429.66 MiB
llama_context: n_embd        = 8192
llama_context: n_vocab       = 128256
llama_context: n_head        = 64
llama_context: n_ctx         = 8192
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2560.00 MiB on device 0: cudaMalloc failed: out of memory
llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache";
    let fit = advised(log, None, None).fit.unwrap();
    let model = fit.model.as_ref().unwrap();
    assert_eq!((model.name.as_str(), model.layers), ("our-own-merge", Some(80)));
    assert_eq!(model.how, "by the buffers that the log prints");
    let parts = fit.parts.as_ref().unwrap();
    assert_eq!((mib(&parts.kv_cache), parts.kv_cache.is), (2560.0, Is::About));
    assert!((mib(&parts.weights) - 70_429.66).abs() < 0.1, "{}", mib(&parts.weights));
    let frees = |fix: FixId| fit.effect_of(fix).unwrap().frees.unwrap().0;
    assert!(frees(FixId::SHORTER_CONTEXT) >= Bytes::mib(1280), "half of the cache: {}", frees(FixId::SHORTER_CONTEXT));
    assert!(frees(FixId::SHORTER_CONTEXT) < Bytes::mib(1330));
    assert_eq!(frees(FixId::QUANTISED_KV_CACHE), Bytes::mib(1168), "46.9 % of 2560, less 2·8192·2048 bytes");
    // The table's row gives the same weights.
    let named = log.replace("our-own-merge", "Llama-3.3-70B-Instruct-Q8_0");
    let parts = advised(&named, None, None).fit.unwrap().parts.unwrap();
    assert_eq!((parts.weights.is, parts.kv_cache.is), (Is::Fact, Is::Fact));
}

#[test]
fn a_file_that_no_table_knows_is_reckoned_by_its_printed_dimensions() {
    let log = llama_log(32_768, 4096).replace("Meta-Llama-3.1-8B-Instruct", "storyteller");
    let fit = advised(&log, None, None).fit.unwrap();
    let parts = fit.parts.unwrap();
    assert_eq!((mib(&parts.kv_cache), parts.kv_cache.is), (4096.0, Is::Fact));
    assert!(fit.model.unwrap().how.starts_with("by the dimensions"));
    // The name says 8B, the log says otherwise: the log is right.
    let other =
        llama_log(32_768, 4608).replace("n_layer          = 32", "n_layer          = 36").replace("33/33", "37/37");
    let model = advised(&other, None, None).fit.unwrap().model.unwrap();
    assert_eq!((model.layers, model.how.starts_with("by the dimensions")), (Some(36), true));
}

#[test]
fn what_is_not_said_is_not_known() {
    let poor = "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache";
    let advice = advised(poor, Some(&held(Bytes::gib(12))), None);
    assert_eq!(advice.fit, None);
    let step = advice.plan.iter().find(|planned| planned.fix == FixId::OFFLOAD_FEWER_LAYERS).unwrap();
    assert_eq!(
        (step.frees_bytes, step.steps[0].command.as_deref()),
        (None, None),
        "how many layers are on the GPU is not known either"
    );
    let host = "Error: model requires more system memory (37.4 GiB) than is available (23.0 GiB)";
    assert_eq!(advised(host, None, Some("qwen2.5-32b")).fit, None, "another memory");
    // A name alone is enough when a person says it.
    let fit = advised(poor, Some(&held(Bytes::gib(20))), Some("llama3.1:8b")).fit.unwrap();
    assert!(fit.model.as_ref().unwrap().how.starts_with("as you say"));
    assert!(fit.notes[0].contains("does not show the context"), "{:?}", fit.notes);
    assert_eq!(fit.effect_of(FixId::QUANTISED_KV_CACHE).unwrap().frees.unwrap().1, Is::About, "of an assumed context");
}

const POOL: &str = "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (7.25 GiB). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.";

#[test]
fn vllms_own_figures_give_the_length_that_fits() {
    let advice = advised(POOL, None, None);
    let fit = advice.fit.unwrap();
    // 131072 × 7.25 / 16 = 59392 tokens, as vLLM itself says where it says so.
    let flags: Vec<_> = fit.choices.iter().map(|choice| choice.flags.clone().unwrap()).collect();
    assert_eq!(flags, ["--max-model-len 59392", "--max-model-len 118784 --kv-cache-dtype fp8"]);
    let step = advice.plan.iter().find(|planned| planned.fix == FixId::MAX_MODEL_LEN).unwrap();
    assert_eq!(step.steps[0].command.as_deref(), Some("vllm serve MODEL --max-model-len 59392"));
    assert_eq!(step.frees_bytes, Some(Bytes::mib(8960)), "8.75 GiB");
    assert!(
        advice.verdict.sentence.ends_with("It fits with 58K tokens of context (about 7.2 GiB)."),
        "{}",
        advice.verdict.sentence
    );
    let short = POOL.replace("131072", "65536").replace("16.00", "8.00");
    let fit = advised(&short, None, None).fit.unwrap();
    assert_eq!(fit.choices[0].flags.as_deref(), Some("--kv-cache-dtype fp8"), "half of 8 GiB is less than 7.25");
}

const TORCH: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 270.00 MiB. GPU 0 has a total capacity of 23.53 GiB of which 96.19 MiB is free. Including non-PyTorch memory, this process has 23.42 GiB memory in use. Of the allocated memory 23.05 GiB is allocated by PyTorch, and 12.21 MiB is reserved by PyTorch but unallocated.";

#[test]
fn where_nothing_fits_smaller_models_are_named() {
    let log = format!("    model = AutoModelForCausalLM.from_pretrained('meta-llama/Llama-3.3-70B-Instruct')\n{TORCH}");
    let advice = advised(&log, None, None);
    let fit = advice.fit.unwrap();
    assert_eq!((fit.fits, fit.choices.len(), fit.instead.len()), (Some(false), 0, MOST_INSTEAD));
    assert!(
        advice.verdict.sentence.contains("This GPU can't run it as it is: you need about 1"),
        "{}",
        advice.verdict.sentence
    );
    let smaller = fit.instead.iter().all(|name| !name.contains("70B"));
    assert!(smaller && fit.instead[0].starts_with("Llama-"), "its own family first: {:?}", fit.instead);
}

#[test]
fn a_training_run_is_told_what_each_change_gives_back() {
    let log = format!(
        "***** Running training *****\n  Instantaneous batch size per device = 4\n  Number of trainable parameters = 8,030,261,248\n{{'loss': 1.9}}\n  File \"transformers/trainer.py\", line 3, in training_step\n    loss.backward()\n{TORCH}"
    );
    let advice = advised(&log, None, None);
    let frees =
        |advice: &Advice, fix: FixId| advice.fit.as_ref().unwrap().effect_of(fix).and_then(|effect| effect.frees);
    let eight = frees(&advice, FixId::EIGHT_BIT_OPTIMIZER).unwrap();
    assert_eq!(eight, (Bytes(47_940_659_651), Is::About), "5.97 bytes a parameter");
    assert_eq!(frees(&advice, FixId::LORA), None, "the model is not known");
    let named = log.replace("***** Running", "--model_name_or_path meta-llama/Llama-3.1-8B\n***** Running");
    let advice = advised(&named, None, None);
    let gib = |fix: FixId| frees(&advice, fix).unwrap_or_else(|| panic!("{fix}")).0.0 >> 30;
    assert_eq!((gib(FixId::EIGHT_BIT_OPTIMIZER), gib(FixId::LORA) > 100), (44, true));
    assert_eq!(frees(&advice, FixId::SMALLER_BATCH), None, "the length is not known");
    let fit = advice.fit.as_ref().unwrap();
    assert_eq!((fit.total_bytes, fit.fits), (None, Some(false)), "what does not grow with the length is too much");
    assert!(fit.notes.iter().any(|note| note.contains("alone take about 135.0 GiB")), "{:?}", fit.notes);
    let small = named.replace("Llama-3.1-8B", "Llama-3.2-1B").replace("8,030,261,248", "1,235,814,400");
    let fit = advised(&small, None, None).fit.unwrap();
    assert_eq!(fit.why_not_known.as_deref(), Some("the log does not show how long the sequences are"));
    let long = named.replace("***** Running", "max_seq_len=2048\n***** Running");
    let advice = advised(&long, None, None);
    let gib = |fix: FixId| frees(&advice, fix).unwrap_or_else(|| panic!("{fix}")).0.0 >> 30;
    assert!(gib(FixId::GRADIENT_CHECKPOINTING) > 1 && gib(FixId::SMALLER_BATCH) > 1);
}

#[test]
fn a_server_of_half_precision_is_told_what_four_bits_take() {
    let head = "INFO 11-02 Initializing a V1 LLM engine (v0.11.0) with config: model='Qwen/Qwen2.5-14B-Instruct', dtype=torch.bfloat16, max_seq_len=32768, tensor_parallel_size=1, quantization=None, kv_cache_dtype=auto";
    let advice = advised(&format!("{head}\nERROR vllm/v1/engine/core.py:700 {TORCH}"), None, None);
    let fit = advice.fit.unwrap();
    assert_eq!((fit.engine, fit.fits), ("vLLM", Some(false)));
    assert_eq!(fit.choices[0].change, "a checkpoint in 4 bits (AWQ or GPTQ)");
    let frees = fit.effect_of(FixId::SMALLER_QUANTISATION).unwrap().frees.unwrap().0;
    assert!((Bytes::gib(17)..Bytes::gib(20)).contains(&frees), "14.8 billion at 1.5 bytes less each: {frees}");
}

#[test]
fn sglangs_share_and_length_are_read_from_its_command_line() {
    let log = "$ python -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --context-length 16384 --mem-fraction-static 0.5\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.";
    let fit = advised(log, Some(&held(Bytes::gib(4))), None).fit.unwrap();
    assert_eq!((fit.engine, fit.context_tokens, fit.fits), ("SGLang", Some(16_384), Some(false)));
    // 14.2 GiB of weights do not lie within half of what is free; with more of it they do.
    let larger = fit.choices.iter().find(|choice| choice.change.contains("larger pool")).unwrap();
    assert!(larger.flags.as_deref().unwrap().contains("--mem-fraction-static 0.9"), "{larger:?}");
}

#[test]
fn a_smaller_share_of_the_card_gives_back_what_was_wanted_beyond_what_is_free() {
    let log = "ValueError: Free memory on device (18.00/23.99 GiB) on startup is less than desired GPU memory utilization (0.92, 22.08 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.";
    let advice = advised(log, Some(&held(Bytes::gib(6))), None);
    let step = advice.plan.iter().find(|planned| planned.fix == FixId::LOWER_UTILIZATION).unwrap();
    // 17.4 of 24 GiB are free: 0.72 of it are 17.28.
    assert_eq!(step.steps[0].command.as_deref(), Some("vllm serve MODEL --gpu-memory-utilization 0.72"));
    let (frees, is) = (step.frees_bytes.unwrap(), step.frees_is);
    assert!(frees.0.abs_diff(Bytes::mib(4915).0) < 1 << 21, "22.08 less 17.28 GiB: {frees}");
    assert_eq!((is, step.may_be_enough), (Some(Is::Fact), true));
}

#[test]
fn half_of_the_batch_that_the_log_shows_is_the_next_to_try() {
    let log = format!(
        "transformers --model_name_or_path meta-llama/Llama-3.2-1B\nmax_seq_len=2048\n***** Running training *****\n  Instantaneous batch size per device = 16\n  File \"site-packages/transformers/trainer.py\", line 3, in training_step\n    loss.backward()\n{TORCH}"
    );
    let advice = advised(&log, None, None);
    let step = advice.plan.iter().find(|planned| planned.fix == FixId::SMALLER_BATCH).unwrap();
    let command = step.steps[0].command.as_deref().unwrap();
    assert_eq!(command, "per_device_train_batch_size=8", "the accumulation is not shown");
    assert!(step.frees_bytes.is_some_and(|bytes| bytes > Bytes::gib(1)), "{:?}", step.frees_bytes);
}

#[test]
fn a_few_layers_are_an_offer_that_is_told_to_be_slow() {
    let log = llama_log(65_536, 8192);
    let advice = advised(&log, Some(&held(Bytes::gib(19))), None);
    let said = &advice.verdict.sentence;
    assert!(
        said.contains(" layers on the GPU (about ") && said.contains(", which is slow; all on the GPU fits one of: "),
        "{said}"
    );
    assert!(!advice.fit.unwrap().instead.is_empty());
}

#[test]
fn buffers_alone_tell_what_a_cache_gives_back_although_no_sum_is_known() {
    let log = "\
llm_load_tensors: offloaded 20/33 layers to GPU
llm_load_tensors:        CUDA0 buffer size =  2600.00 MiB
llama_new_context_with_model: n_ctx      = 8192
llama_kv_cache_init:      CUDA0 KV buffer size =   608.00 MiB
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 560.00 MiB on device 0: cudaMalloc failed: out of memory
ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 587202560";
    let fit = advised(log, Some(&held(Bytes::gib(20))), None).fit.unwrap();
    assert_eq!((fit.total_bytes, fit.fits), (None, None), "the compute buffer is not known");
    let frees = |fix: FixId| fit.effect_of(fix).unwrap().frees.unwrap().0;
    assert_eq!(frees(FixId::SHORTER_CONTEXT), Bytes::mib(304), "half of the cache of 19 layers");
    let fewer = fit.effect_of(FixId::OFFLOAD_FEWER_LAYERS).unwrap();
    assert_eq!(fewer.value, Some(("layers", "15".to_owned())), "a quarter less than 20");
    assert_eq!(fewer.frees.unwrap().0, Bytes::mib(5 * (130 + 32)), "2600 over 20 for each layer, and its cache");
    // 46.9 % of it, less the f16 copy of a layer's 1024 and 1024 at 8192 cells.
    assert_eq!(frees(FixId::QUANTISED_KV_CACHE), Bytes::mib(285 - 32));
}

#[test]
fn figures_that_no_model_has_end_nothing() {
    let honest = format!(
        "$ llama-server -m x.gguf -ngl 5 -np 3\n{}\nusing device CUDA0 (X) - 11469 MiB free",
        llama_log(32_768, 4096)
    );
    let torch = format!(
        "vllm/v1/engine model='meta-llama/Llama-3.1-8B', max_seq_len=4096, tensor_parallel_size=2, gpu_memory_utilization=0.9\n{TORCH}"
    );
    let number = regex::Regex::new("[0-9]+").unwrap();
    for log in [honest.clone(), honest.replace("Llama-3.1-8B", "storyteller"), POOL.to_owned(), torch] {
        // One value a number, in turn: a diagnosis each is not cheap.
        let values = ["18446744073709551615", "0", "99999999", "1"];
        for (found, instead) in number.find_iter(&log).zip(values.iter().cycle()) {
            let mut hostile = log.clone();
            hostile.replace_range(found.range(), instead);
            let advice = advised(&hostile, None, None);
            assert!(advice.fit.is_none_or(|fit| fit.choices.len() <= MOST_CHOICES));
        }
    }
}

#[test]
fn slots_of_llama_cpp_share_its_context_out() {
    let log = |slots: &str| {
        let line = format!("$ llama-server -m /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf -c 65536{slots} --port 8080\n");
        line + &llama_log(65_536, 8192).replace("n_seq_max     = 1", "n_seq_max     = 4")
    };
    let advice = advised(&log(" -np 4"), Some(&held(Bytes::gib(12))), None);
    let step = advice.plan.iter().find(|planned| planned.fix == FixId::FEWER_SEQUENCES).unwrap();
    let line = "llama-server -m /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf -c 16384 -np 1 --port 8080";
    assert_eq!(step.steps[0].command.as_deref(), Some(line), "or it gives nothing back");
    assert_eq!(step.frees_bytes, Some(Bytes::gib(6)));
    let fit = advice.fit.as_ref().unwrap();
    let one = fit.choices.iter().find(|choice| choice.change.starts_with("one request of")).unwrap();
    assert_eq!(one.change, "one request of 16K tokens at a time");
    assert_eq!(one.flags.as_deref(), Some("-c 16384 -np 1"));
    // Slots that llama-server opens by itself share one cache: fewer of them give nothing back.
    let advice = advised(&log(""), Some(&held(Bytes::gib(12))), None);
    assert!(advice.plan.iter().all(|planned| planned.fix != FixId::FEWER_SEQUENCES));
}

#[test]
fn ollamas_settings_are_taken_from_its_logs() {
    let refused = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 32768.00 MiB on device 0: cudaMalloc failed: out of memory";
    let shell = format!(
        "$ OLLAMA_NUM_PARALLEL=4 OLLAMA_CONTEXT_LENGTH=65536 ollama serve\n$ ollama run llama3.1:8b\nError: llama runner process has terminated: cudaMalloc failed: out of memory\n{refused}"
    );
    let server = format!(
        "msg=\"server config\" env=\"map[CUDA_VISIBLE_DEVICES: OLLAMA_CONTEXT_LENGTH:65536 OLLAMA_FLASH_ATTENTION:false OLLAMA_KV_CACHE_TYPE: OLLAMA_NUM_PARALLEL:4]\"
msg=\"starting runner\" cmd=\"/usr/lib/ollama/llama-server --model /root/.ollama/models/blobs/sha256-aaaa -c 262144 -np 4 --port 40111\"
print_info: general.name     = Meta Llama 3.1 8B Instruct
print_info: n_layer          = 32
print_info: file type   = Q4_K - Medium
llama_context: n_ctx         = 262144
{refused}
llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache
Error: llama runner process has terminated: cudaMalloc failed: out of memory"
    );
    for log in [&shell, &server] {
        let advice = advised(log, Some(&held(Bytes::gib(1))), None);
        let fit = advice.fit.as_ref().unwrap();
        let name = fit.model.as_ref().map(|model| model.name.as_str());
        assert_eq!((fit.engine, fit.context_tokens, name), ("Ollama", Some(262_144), Some("Llama-3.1-8B")), "{log}");
        let sentence = fit.sentence(|_| true).unwrap();
        assert!(sentence.contains(" at 64K tokens of context for each of 4 requests needs "), "{sentence}");
        let step = advice.plan.iter().find(|planned| planned.fix == FixId::SHORTER_CONTEXT).unwrap();
        let command = step.steps[0].command.as_deref().unwrap();
        let each: u64 = command.split(['=', ' ']).nth(1).unwrap().parse().unwrap();
        assert!((16_384..65_536).contains(&each), "each of four, as the server stays: {command}");
        let changed = changed(&advice_of(log), "OLLAMA_CONTEXT_LENGTH=8192 ollama serve");
        assert_eq!(changed.run.context_tokens, Some(32_768));
        let changed = super::changed(&advice_of(log), "OLLAMA_NUM_PARALLEL=1 ollama serve");
        assert_eq!((changed.run.slots(), changed.run.context_tokens.or(Some(65_536))), (1, Some(65_536)));
    }
}

fn advice_of(log: &str) -> Diagnosis {
    KnowledgeBase::built_in().unwrap().diagnose(&PastedLog::new(log), None)
}

#[test]
fn rounding_in_the_log_does_not_refute_the_length_that_fits() {
    let log = "ValueError: To serve at least one request with the model's max seq len (32768), (1.61 GiB KV cache is needed, which is larger than the available KV cache memory (1.0 GiB). Based on the available memory, the estimated maximum model length is 20512.";
    let advice = advised(log, None, None);
    let step = advice.plan.iter().find(|planned| planned.fix == FixId::MAX_MODEL_LEN).unwrap();
    assert!(step.frees_bytes < advice.ledger.as_ref().unwrap().missing_bytes, "617 of 625 MiB, as printed");
    assert!(step.may_be_enough, "{step:?}");
}
