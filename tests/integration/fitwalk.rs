//! Whether the failed run's model fits, from outside: logs in the programs' own formats through `diagnose --json` with
//! a fake GPU, and the resulting verdict and steps.

use std::fs;

use serde_json::Value;

use crate::support::fake_driver::{FakeDriver, GIB, PATIENCE};

/// A GPU with 12 GiB, of which 11.2 are free.
fn small_card() -> FakeDriver {
    let (total, used) = (12 * GIB, 8 * GIB / 10);
    FakeDriver::new(&format!(
        "(gpus: [(name: \"NVIDIA GeForce RTX 3060\", total: {total}, reserved: 0, base: {used})])"
    ))
}

fn output(driver: &FakeDriver, log: &str, arguments: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.log");
    fs::write(&path, log).unwrap();
    let command = driver.oomdoctor(&[&["diagnose", path.to_str().unwrap()], arguments].concat());
    assert_cmd::Command::from_std(command).timeout(PATIENCE).output().unwrap()
}

fn diagnosed(driver: &FakeDriver, log: &str, arguments: &[&str]) -> Value {
    let output = output(driver, log, &[&["--json"], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn step<'a>(diagnosis: &'a Value, fix: &str) -> &'a Value {
    let plan = diagnosis["plan"].as_array().unwrap();
    plan.iter().find(|step| step["fix"] == fix).unwrap_or_else(|| panic!("no step {fix} in {plan:?}"))
}

fn command<'a>(diagnosis: &'a Value, fix: &str) -> &'a str {
    step(diagnosis, fix)["steps"][0]["command"].as_str().unwrap()
}

fn sentence(diagnosis: &Value) -> &str {
    diagnosis["verdict"]["sentence"].as_str().unwrap()
}

const TOO_BIG: &str = "\
$ ./llama-server -m /srv/models/Llama-3.3-70B-Instruct-Q4_K_M.gguf -c 8192
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3060) (0000:01:00.0) - 11469 MiB free
llama_model_loader: loaded meta data with 36 key-value pairs and 724 tensors from /srv/models/Llama-3.3-70B-Instruct-Q4_K_M.gguf (version GGUF V3 (latest))
print_info: file format = GGUF V3 (latest)
print_info: file type   = Q4_K - Medium
print_info: file size   = 39.59 GiB (4.82 BPW)
print_info: arch             = llama
print_info: n_embd           = 8192
print_info: n_layer          = 80
print_info: n_vocab          = 128256
load_tensors: loading model tensors, this can take a while... (mmap = true)
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 39979.48 MiB on device 0: cudaMalloc failed: out of memory
alloc_tensor_range: failed to allocate CUDA0 buffer of size 41921527808
llama_model_load: error loading model: unable to allocate CUDA0 buffer
llama_model_load_from_file_impl: failed to load model
srv    load_model: failed to load model, '/srv/models/Llama-3.3-70B-Instruct-Q4_K_M.gguf'";

#[test]
fn weights_larger_than_the_gpu_get_the_number_of_layers_that_fit() {
    let diagnosis = diagnosed(&small_card(), TOO_BIG, &[]);
    let fit = &diagnosis["fit"];
    assert_eq!((&diagnosis["schema"], &fit["fits"]), (&1.into(), &false.into()));
    assert_eq!((&fit["model"]["name"], &fit["model"]["quantization"]), (&"Llama-3.3-70B".into(), &"Q4_K_M".into()));
    assert_eq!(fit["context_tokens"], 8192, "from the command line");
    assert_eq!(diagnosis["verdict"]["causes"][0]["cause"], "too-big");
    assert!(
        sentence(&diagnosis).contains("Llama-3.3-70B Q4_K_M at 8K tokens of context needs about 4"),
        "{}",
        sentence(&diagnosis)
    );
    assert!(sentence(&diagnosis).contains("this GPU has 11.2 free and 12.0 in all"), "{}", sentence(&diagnosis));
    let layers: u64 = command(&diagnosis, "offload-fewer-layers").rsplit(' ').next().unwrap().parse().unwrap();
    assert!((15..22).contains(&layers), "about half a GiB each: {layers}");
    let weights = fit["parts"]["weights"]["bytes"].as_u64().unwrap();
    let file: Vec<&Value> =
        fit["sizes"].as_array().unwrap().iter().filter(|size| size["quantization"] == "Q4_K_M").collect();
    let file = file[0]["file_bytes"].as_u64().unwrap();
    assert!(weights < file && file.abs_diff(42_509_438_812) < file / 100, "{weights} {file}");
    let smaller = step(&diagnosis, "smaller-quantisation");
    // No quantization of this model is small enough, and it has four bits already.
    assert!(smaller["title"] == "Take a smaller model" && smaller["may_be_enough"] == false, "{smaller}");
}

const LONG: &str = "\
llama_model_loader: loaded meta data with 29 key-value pairs and 292 tensors from Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf (version GGUF V3 (latest))
print_info: file type   = Q4_K - Medium
print_info: file size   = 4.58 GiB (4.89 BPW)
print_info: arch             = llama
print_info: n_ctx_train      = 131072
print_info: n_layer          = 32
load_tensors: offloading 32 repeating layers to GPU
load_tensors: offloaded 33/33 layers to GPU
load_tensors:        CUDA0 model buffer size =  4403.49 MiB
load_tensors:   CPU_Mapped model buffer size =   281.81 MiB
llama_context: n_ctx         = 65536
llama_context: flash_attn    = enabled
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 8192.00 MiB on device 0: cudaMalloc failed: out of memory
alloc_tensor_range: failed to allocate CUDA0 buffer of size 8589934592
llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache";

#[test]
fn a_context_that_is_too_long_gets_one_that_fits() {
    let diagnosis = diagnosed(&small_card(), LONG, &[]);
    let said = "Llama-3.1-8B Q4_K_M at 64K tokens of context needs about 13.0 GiB; this GPU has 11.2 free and 12.0 in all. \
        It fits with the KV cache in q8_0 (about 9.5 GiB), or with ";
    assert!(sentence(&diagnosis).contains(said), "{}", sentence(&diagnosis));
    let parts = &diagnosis["fit"]["parts"];
    assert_eq!((&parts["weights"]["is"], &parts["kv_cache"]["is"]), (&"fact".into(), &"fact".into()));
    assert_eq!(parts["kv_cache"]["bytes"], 8_u64 << 30);
    let tokens: u64 = command(&diagnosis, "shorter-context").rsplit(' ').next().unwrap().parse().unwrap();
    assert!((40_000..44_000).contains(&tokens), "not half, but what fits: {tokens}");
    let eight = step(&diagnosis, "quantised-kv-cache");
    assert_eq!((&eight["frees_bytes"], &eight["may_be_enough"]), (&(3584_u64 << 20).into(), &true.into()));
    let alone = diagnosed(&small_card(), LONG, &["--no-live"]);
    assert!(alone["fit"]["fits"].is_null() && alone["fit"]["why_not_known"].is_string());
    let text = String::from_utf8(output(&small_card(), LONG, &["--all"]).stdout).unwrap();
    assert!(text.contains("Its files by quantization, in GiB, about: Q8_0 7.9"), "{text}");
}

#[test]
fn ollama_gets_its_own_settings() {
    let log = "\
$ ollama run qwen2.5:14b
time=2026-11-02T09:14:51.000Z level=INFO source=server.go:812 msg=\"offload\" library=CUDA
llama_model_loader: - kv   2:                               general.name str              = Qwen2.5 14B Instruct
print_info: file type   = Q4_K - Medium
print_info: n_layer          = 48
llama_context: n_ctx         = 32768
Error: 500 Internal Server Error: llama-server process has terminated: llama-server reported out-of-memory during startup: cudaMalloc failed";
    let diagnosis = diagnosed(&small_card(), log, &[]);
    let fit = &diagnosis["fit"];
    assert_eq!((&fit["engine"], &fit["model"]["name"]), (&"Ollama".into(), &"Qwen2.5-14B".into()));
    assert!(command(&diagnosis, "shorter-context").starts_with("OLLAMA_CONTEXT_LENGTH="), "{diagnosis}");
    let tokens = command(&diagnosis, "shorter-context").split(['=', ' ']).nth(1).unwrap().parse::<u64>().unwrap();
    assert!(tokens < 16_384 && tokens > 256, "{tokens}");
    let flags: Vec<&str> =
        fit["choices"].as_array().unwrap().iter().filter_map(|choice| choice["flags"].as_str()).collect();
    assert!(flags.iter().any(|flags| flags.contains("OLLAMA_KV_CACHE_TYPE=q8_0")), "{flags:?}");
    assert!(
        flags.iter().any(|flags| flags.contains("OLLAMA_CONTEXT_LENGTH=32768, /set parameter num_gpu ")),
        "{flags:?}"
    );
}

#[test]
fn vllm_gets_the_model_length_that_its_kv_cache_holds() {
    let log = "\
INFO 11-02 09:14:01 [core.py:64] Initializing a V1 LLM engine (v0.11.0) with config: model='meta-llama/Llama-3.1-8B-Instruct', speculative_config=None, dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=1, quantization=None, kv_cache_dtype=auto
INFO 11-02 09:14:40 [gpu_model_runner.py:2653] Model loading took 14.9889 GiB and 11.2 seconds
(EngineCore_DP0 pid=611) ERROR 11-02 09:14:51 [core.py:700] ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (7.25 GiB). Based on the available memory, the estimated maximum model length is 59392. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.";
    let diagnosis = diagnosed(&small_card(), log, &["--no-live"]);
    assert_eq!(
        command(&diagnosis, "max-model-len"),
        "vllm serve meta-llama/Llama-3.1-8B-Instruct --dtype bfloat16 --max-model-len 59392"
    );
    assert_eq!(step(&diagnosis, "quantised-kv-cache")["may_be_enough"], false, "8 GiB are more than 7.25");
    assert!(
        sentence(&diagnosis).contains("It fits with 58K tokens of context (about 7.2 GiB)"),
        "{}",
        sentence(&diagnosis)
    );
}

#[test]
fn a_transformers_load_gets_the_quantization_that_fits() {
    let log = "\
$ python chat.py --model mistralai/Mistral-7B-Instruct-v0.3
Loading checkpoint shards:  67%|██████▋   | 2/3 [00:05<00:02,  2.61s/it]
Traceback (most recent call last):
  File \"/home/ada/chat.py\", line 9, in <module>
    model = AutoModelForCausalLM.from_pretrained(\"mistralai/Mistral-7B-Instruct-v0.3\", device_map=\"cuda:0\")
  File \"/home/ada/env/lib/python3.11/site-packages/transformers/modeling_utils.py\", line 4900, in from_pretrained
    ) = cls._load_pretrained_model(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 12.00 GiB of which 105.00 MiB is free. Including non-PyTorch memory, this process has 11.20 GiB memory in use. Of the allocated memory 10.90 GiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.";
    let diagnosis = diagnosed(&small_card(), log, &[]);
    let fit = &diagnosis["fit"];
    assert_eq!((&fit["engine"], &fit["model"]["name"]), (&"transformers".into(), &"Mistral-7B-v0.3".into()));
    let flags = fit["choices"][0]["flags"].as_str().unwrap();
    assert_eq!(flags, "quantization_config=BitsAndBytesConfig(load_in_8bit=True)");
    assert!(fit["notes"][0].as_str().unwrap().contains("does not show the context"));
    let four = step(&diagnosis, "smaller-quantisation");
    assert_eq!((&four["frees_is"], &four["may_be_enough"]), (&"about".into(), &true.into()));
}

#[test]
fn the_user_may_name_the_model_that_the_log_lacks() {
    let log = "$ ollama serve\nError: 500 Internal Server Error: llama-server process has terminated: llama-server reported out-of-memory during startup: cudaMalloc failed";
    assert!(diagnosed(&small_card(), log, &[])["fit"].is_null());
    let diagnosis = diagnosed(&small_card(), log, &["--model", "qwen2.5:32b"]);
    assert_eq!(diagnosis["fit"]["model"]["name"], "Qwen2.5-32B");
    assert!(
        sentence(&diagnosis).contains("Qwen2.5-32B Q4_K_M at 4K tokens of context needs about"),
        "{}",
        sentence(&diagnosis)
    );
    let refused = output(&small_card(), log, &["--model", "qwen99"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--model qwen99"), "{refused:?}");
}

/// Two GPUs, each with this many GiB in use.
fn two_cards(used: [u64; 2]) -> FakeDriver {
    let card = |used: u64| format!("(name: \"RTX3090\", total: {}, reserved: 0, base: {})", 24 * GIB, used * GIB);
    FakeDriver::new(&format!("(gpus: [{}, {}])", card(used[0]), card(used[1])))
}

const OLLAMA_70B: &str = "\
$ ollama run llama3.3:70b
time=2026-11-02T09:14:51.000Z level=INFO source=server.go:812 msg=\"offload\" library=CUDA
llama_model_loader: - kv   2:                               general.name str              = Llama 3.3 70B Instruct
print_info: file type   = Q4_K - Medium
print_info: n_layer          = 80
llama_context: n_ctx         = 65536
Error: 500 Internal Server Error: llama-server process has terminated: llama-server reported out-of-memory during startup: cudaMalloc failed";

#[test]
fn fit_and_diagnose_agree_on_several_gpus() {
    for used in [[0, 0], [0, 9], [12, 3]] {
        let driver = two_cards(used);
        let walk = diagnosed(&driver, OLLAMA_70B, &[]);
        let command = driver.oomdoctor(&["fit", "llama3.3:70b", "--context", "64K", "--json"]);
        let output = assert_cmd::Command::from_std(command).timeout(PATIENCE).output().unwrap();
        let fit: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(walk["fit"]["total_bytes"], fit["total_bytes"], "{used:?}");
        assert_eq!(walk["fit"]["free_now_bytes"], (48 - used[0] - used[1]) * GIB);
        let flags = |options: &Value| -> Vec<String> {
            let fits = options.as_array().unwrap().iter().filter(|option| option["fits"] == true);
            let mut flags: Vec<String> = fits.filter_map(|option| Some(option["flags"].as_str()?.to_owned())).collect();
            flags.sort();
            flags
        };
        assert_eq!(flags(&walk["fit"]["choices"]), flags(&fit["options"]), "{used:?}");
        let all_layers = fit["options"].to_string().contains("layers on the GPUs");
        assert!(all_layers, "{used:?} {fit}");
    }
    let both = diagnosed(&two_cards([0, 0]), OLLAMA_70B, &[]);
    assert!(sentence(&both).contains("the 2 GPUs here together have 48.0 free"), "{}", sentence(&both));
}

#[test]
fn a_log_of_several_gpus_is_compared_with_each_of_them() {
    let log = TOO_BIG.replace("NVIDIA GeForce RTX 3060", "RTX3090").replace(
        "- 11469 MiB free",
        "- 23863 MiB free\nllama_model_load_from_file_impl: using device CUDA1 (RTX3090) (0000:02:00.0) - 24111 MiB free",
    );
    let even = diagnosed(&two_cards([0, 0]), &log, &[]);
    assert_eq!((&even["fit"]["fits"], &even["fit"]["free_now_bytes"]), (&true.into(), &(48 * GIB).into()), "{even}");
    // A partly used second GPU counts with its free VRAM.
    let busy = diagnosed(&two_cards([0, 20]), &log, &[]);
    assert_eq!((&busy["fit"]["fits"], &busy["fit"]["free_now_bytes"]), (&false.into(), &(28 * GIB).into()), "{busy}");
    // A log of another machine is compared with its own figures.
    let other = diagnosed(&two_cards([0, 20]), &log.replace("RTX3090", "Tesla P40"), &[]);
    assert_eq!(other["fit"]["free_now_bytes"], (23_863_u64 + 24_111) << 20, "{other}");
    // Each of its GPUs keeps 1 GiB free, so 1.5 GiB more than the model needs are too few.
    let tight = log.replace("RTX3090", "Tesla P40").replace("23863 MiB", "22700 MiB").replace("24111 MiB", "22800 MiB");
    let tight = &diagnosed(&two_cards([0, 0]), &tight, &[])["fit"];
    assert!(tight["fits"] == false && tight["total_bytes"].as_u64() < Some(44_400 << 20), "{tight}");
}
