//! Steps move settings in the promised direction. This file states a second time, apart from the program, in which
//! direction each setting may move and how a log or a command line shows its present value. Every command of every plan
//! is checked: over the scenarios, the examples of the knowledge, made-up logs in which settings take many values, and
//! the folders of logs beside the checkout, if there are any.

use std::sync::LazyLock;

use oomdoctor::advice::{Advice, PlannedFix, Situation, advise};
use oomdoctor::gpu::*;
use oomdoctor::knowledge::FixId;
use oomdoctor::knowledge::KnowledgeBase;
use oomdoctor::knowledge::diagnosis::Diagnosis;
use oomdoctor::log::PastedLog;
use oomdoctor::units::Bytes;
use regex::Regex;

use super::logs;
use super::scenario::{self, LogReading};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Lower,
    Raise,
}
use Way::{Lower, Raise};

/// Settings with all their names; `-` and `_` are the same. A size without a unit is in the unit given last.
const PROMISES: &[(Way, &[&str], f64)] = &[
    (
        Lower,
        &[
            "Instantaneous batch size per device",
            "per_device_train_batch_size",
            "train_micro_batch_size_per_gpu",
            "micro_batch_size",
            "train_batch_size",
            "starting_batch_size",
            "batch_size",
            "batch",
        ],
        1.0,
    ),
    (Raise, &["gradient_accumulation_steps", "Gradient Accumulation steps", "accumulate_grad_batches"], 1.0),
    (Lower, &["sequence_len", "cutoff_len", "max_seq_length", "max_length"], 1.0),
    (Lower, &["max_completion_length"], 1.0),
    (Lower, &["num_generations"], 1.0),
    (Lower, &["vllm_gpu_memory_utilization"], 1.0),
    (Lower, &["num_workers", "dataloader_num_workers", "workers"], 1.0),
    (Lower, &["MAX_JOBS"], 1.0),
    (Lower, &["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"], 1.0),
    (Raise, &["blocks_to_swap"], 1.0),
    (Raise, &["reserve_vram"], 1.0),
    (Raise, &["device_working_mem_gb"], 1.0),
    (Lower, &["imgsz"], 1.0),
    (Lower, &["width"], 1.0),
    (Lower, &["height"], 1.0),
    (Lower, &["ub", "ubatch_size", "n_ubatch", "batchsize", "num_batch"], 1.0),
    (Lower, &["n_batch"], 1.0),
    (Lower, &["ngl", "n_gpu_layers", "gpu_layers", "gpulayers", "num_gpu", "offloaded"], 1.0),
    (Lower, &["cache_ram"], 1.0),
    (Lower, &["ctx_checkpoints"], 1.0),
    (Lower, &["c", "ctx_size", "n_ctx", "max_model_len", "context_length", "contextsize"], 1.0),
    (Lower, &["max_num_seqs"], 1.0),
    (Lower, &["max_num_batched_tokens"], 1.0),
    (Lower, &["max_running_requests"], 1.0),
    (Lower, &["chunked_prefill_size"], 1.0),
    (Lower, &["cuda_graph_max_bs"], 1.0),
    (Raise, &["Xmx"], 1.0),
    (Raise, &["max_old_space_size"], 1_048_576.0),
    (Raise, &["maxmemory"], 1.0),
    (Raise, &["driver_memory", "spark.driver.memory"], 1_048_576.0),
    (Raise, &["executor_memory", "spark.executor.memory"], 1_048_576.0),
    (Raise, &["memory_limit"], 1.0),
    (Raise, &["mem"], 1_048_576.0),
    (Raise, &["mem_per_cpu"], 1_048_576.0),
    (Raise, &["MemoryMax"], 1.0),
    (Raise, &["memory", "limits=memory", "m"], 1.0),
    (Raise, &["swap"], 1.0),
    (Raise, &["shm_size"], 1.0),
    (Raise, &["gpu_mem_limit"], 1.0),
    (Raise, &["CUPY_GPU_MEMORY_LIMIT", "limit set to"], 1.0),
    (Raise, &["maximum_pool_size"], 1.0),
    (Raise, &["XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB"], 1.0),
];

/// Settings whose direction depends on the fix.
const BY_FIX: &[(FixId, Way, &[&str])] = &[
    (FixId::LOWER_UTILIZATION, Lower, SHARES),
    (FixId::RAISE_UTILIZATION, Raise, SHARES),
    (FixId::RAISE_LIMIT, Raise, SHARES),
];
const SHARES: &[&str] = &[
    "gpu_memory_utilization",
    "mem_fraction_static",
    "free_gpu_memory_fraction",
    "kv_cache_free_gpu_memory_fraction",
    "cache_max_entry_count",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_CLIENT_MEM_FRACTION",
];

fn pattern(name: &str) -> Regex {
    let name = regex::escape(name).replace('_', "[-_]");
    Regex::new(&format!(
        r#"(?:^|[\s"'(\[,;{{:]|--?){name}["']?(?:\s*[=:]\s*|\s+|["'],\s*["']|)["']?((?:\d+\.?\d*|\.\d+))\s?([KMGTkmgt]i?[bB]?)?(?:n?[\s"',;)\]}}|/]|$)"#
    ))
    .unwrap()
}

/// The values that a text gives to any of these names, with their positions.
fn values(text: &str, names: &[&str], bare: f64) -> Vec<(usize, f64)> {
    static PATTERNS: LazyLock<std::sync::Mutex<std::collections::HashMap<String, Regex>>> =
        LazyLock::new(std::sync::Mutex::default);
    let mut patterns = PATTERNS.lock().unwrap();
    let mut found = Vec::new();
    for name in names {
        let pattern = patterns.entry((*name).to_owned()).or_insert_with(|| pattern(name)).clone();
        for captures in pattern.captures_iter(text) {
            let number: f64 = captures[1].parse().unwrap();
            let unit = match captures.get(2).map(|unit| unit.as_str().as_bytes()[0].to_ascii_lowercase()) {
                Some(b'k') => 1024.0,
                Some(b'm') => 1_048_576.0,
                Some(b'g') => 1_073_741_824.0,
                Some(b't') => 1_099_511_627_776.0,
                _ => bare,
            };
            found.push((captures.get(0).unwrap().start(), number * unit));
        }
    }
    found.sort_by_key(|(at, _)| *at);
    found
}

/// Whether a log shows a value of any setting; without one, no command can be checked.
fn shows_a_setting(log: &str) -> bool {
    PROMISES.iter().any(|(_, names, bare)| !values(log, names, *bare).is_empty())
        || !values(log, SHARES, 1.0).is_empty()
}

/// The commands of a plan that move a setting in the wrong direction, compared with the user's command line or else
/// with the log, and how many numbers were compared.
fn wrong(log: &str, line: Option<&str>, advice: &Advice) -> (Vec<String>, usize) {
    let mut faults = Vec::new();
    let mut compared = 0;
    // The command line in the log is the user's, too.
    let line = line.or(advice.command.as_deref());
    for planned in &advice.plan {
        let by_fix = BY_FIX.iter().filter(|(fix, ..)| *fix == planned.fix).map(|(_, way, names)| (*way, *names, 1.0));
        let promises: Vec<(Way, &[&str], f64)> = PROMISES.iter().copied().chain(by_fix).collect();
        for command in planned.steps.iter().filter_map(|step| step.command.as_deref()) {
            // Running the same command again moves nothing.
            if planned.fix == FixId::RUN_AGAIN {
                continue;
            }
            for (way, names, bare) in &promises {
                let Some((_, new)) = values(command, names, *bare).into_iter().next_back() else { continue };
                let typed = line.and_then(|line| values(line, names, *bare).into_iter().next_back());
                let Some((_, now)) = typed.or_else(|| values(log, names, *bare).into_iter().next_back()) else {
                    continue;
                };
                // The user's command line has settings that the step does not change, and so has what the log prints of it.
                let is_kept = typed.is_some() || !is_changed_by(planned, names);
                let is_untouched = is_kept && new.total_cmp(&now).is_eq();
                let is_right = if *way == Lower { new < now } else { new > now };
                compared += usize::from(!is_untouched);
                if !is_right && !is_untouched {
                    faults.push(format!("{}: {way:?} {} from {now} to {new}: {command}", planned.fix, names[0]));
                }
            }
        }
    }
    (faults, compared)
}

/// Whether the step itself sets one of these options.
fn is_changed_by(planned: &PlannedFix, names: &[&str]) -> bool {
    let changes = format!("{:?}", planned.changes).replace('-', "_");
    names.iter().any(|name| ["", "_", "__"].iter().any(|dashes| changes.contains(&format!("\"{dashes}{name}\""))))
}

fn diagnose(base: &KnowledgeBase, log: &str) -> Diagnosis {
    base.diagnose(&PastedLog::new(log.to_owned()), None)
}

fn advice(base: &KnowledgeBase, diagnosis: &Diagnosis, line: Option<&str>, here: Option<&Snapshot>) -> Advice {
    let entry = diagnosis.matches.first().and_then(|found| base.entry(found.entry));
    let fixes: Vec<_> = entry.iter().flat_map(|entry| &entry.fixes).filter_map(|id| base.fix(*id)).cloned().collect();
    advise(&Situation { fixes: &fixes, command: line, snapshot: here, ..Situation::alone(diagnosis) })
}

const TORCH: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.60 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 22.50 GiB memory in use. Of the allocated memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved by PyTorch but unallocated.";
const LLAMA_ALLOCATION: &str =
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out of memory";
/// The same of the weights.
const LLAMA: &str = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out of memory\nllama_model_load: error loading model: unable to allocate CUDA0 buffer";
const KILLED: &str = "Out of memory: Killed process 771 (python3) total-vm:48210032kB, anon-rss:2601220kB, file-rss:312004kB, shmem-rss:8192kB";

const BATCHES: &[&str] = &["1", "2", "3", "64"];
const SMALL_G: &[&str] = &["512m", "3g", "7g", "32g", "100g"];
const LARGE_G: &[&str] = &["4G", "6G", "64G", "256G", "1000G"];
const LAYERS: &[&str] = &["1", "19", "21", "65", "999"];
const TOKENS: &[&str] = &["256", "512", "2049", "16384"];
const SHARE: &[&str] = &["0.05", "0.3", "0.8", "0.95", "0.97"];

/// Made-up logs: `{v}` is the value of a setting, `$` at the start of a line a shell's prompt.
fn made() -> Vec<(&'static str, &'static [&'static str], String)> {
    let trainer = |shown: &str| {
        format!(
            "***** Running training *****\n{shown}\n  File \"site-packages/transformers/trainer.py\", line 3, in training_step\n    loss.backward()\n{TORCH}"
        )
    };
    let memcg = |path: &str| {
        format!(
            "[ 9.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={path},task_memcg={path},task=python3,pid=771,uid=0\n[ 9.2] Memory cgroup {}",
            KILLED.replace("Out of", "out of")
        )
    };
    let slurm = "slurmstepd: error: Detected 1 oom_kill event in StepId=8812.batch. Some of the step tasks have been OOM Killed.";
    let java = "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space";
    let node = "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory";
    vec![
        ("trainer", BATCHES, trainer("  Instantaneous batch size per device = {v}\n  Gradient Accumulation steps = 4")),
        ("trainer line", BATCHES, format!("$ python run.py --per_device_train_batch_size {{v}} --gradient_accumulation_steps=2\n{}", trainer(""))),
        ("any line", BATCHES, format!("$ python train.py --batch-size {{v}} --lr 1\n{}", trainer(""))),
        ("axolotl", BATCHES, format!("$ accelerate launch -m axolotl.cli.train a.yml\nmicro_batch_size: {{v}}\ngradient_accumulation_steps: 2\n  File \"/opt/axolotl/src/axolotl/train.py\", line 3, in train\n{TORCH}")),
        ("axolotl length", TOKENS, format!("$ accelerate launch -m axolotl.cli.train a.yml\nsequence_len: {{v}}\n  File \"/opt/axolotl/src/axolotl/train.py\", line 3, in train\n    loss.backward()\n{TORCH}")),
        ("deepspeed", BATCHES, format!("\"train_micro_batch_size_per_gpu\": {{v}}, \"gradient_accumulation_steps\": 3\n  File \"site-packages/deepspeed/runtime/engine.py\", line 3, in backward\n    loss.backward()\n{TORCH}")),
        ("kohya", BATCHES, format!("$ accelerate launch flux_train_network.py --train_batch_size={{v}} --gradient_accumulation_steps=2\n  File \"/sd-scripts/train_network.py\", line 3, in train\n{TORCH}")),
        ("kohya swap", LAYERS, format!("$ accelerate launch flux_train_network.py --blocks_to_swap {{v}}\n  File \"/sd-scripts/train_network.py\", line 3, in train\n{TORCH}")),
        ("workers", BATCHES, "This DataLoader\n$ python train.py --num_workers {v}\nnum_workers={v}\nRuntimeError: DataLoader worker (pid 771) is killed by signal: Killed.".into()),
        ("yolo", BATCHES, format!("$ yolo train data=a.yaml model=yolo11n.pt workers={{v}} imgsz=640\n  File \"site-packages/ultralytics/engine/trainer.py\", line 3, in _do_train\n{TORCH}")),
        ("yolo size", TOKENS, format!("$ yolo train data=a.yaml model=yolo11n.pt imgsz={{v}}\n  File \"site-packages/ultralytics/engine/trainer.py\", line 3, in _do_train\n{TORCH}")),
        ("java", SMALL_G, format!("$ java -Xmx{{v}} -jar a.jar\n{java}")),
        ("java option", SMALL_G, format!("JAVA_OPTS=\"-Xmx{{v}}\"\n{java}")),
        ("node", TOKENS, format!("$ node --max-old-space-size={{v}} app.js\n{node}")),
        ("node variable", TOKENS, format!("NODE_OPTIONS=\"--max-old-space-size={{v}}\" npm run build\n{node}")),
        ("redis", SMALL_G, "maxmemory {v}\n(error) OOM command not allowed when used memory > 'maxmemory'.".into()),
        ("spark", SMALL_G, format!("$ spark-submit --executor-memory {{v}} --driver-memory {{v}} job.py\norg.apache.spark.SparkException: Job aborted\n{java}")),
        ("docker", SMALL_G, format!("$ docker run --memory={{v}} img\n{}", memcg("/docker/5b1c0b2f6d0e"))),
        ("docker short", SMALL_G, format!("$ docker run -m {{v}} img python a.py\n{}", memcg("/docker/5b1c0b2f6d0e"))),
        ("docker two", SMALL_G, format!("$ docker run --memory={{v}} --memory-swap=128g img\n{}", memcg("/docker/5b1c0b2f6d0e"))),
        ("systemd", LARGE_G, format!("MemoryMax={{v}}\n{}", memcg("/system.slice/ollama.service"))),
        ("kubernetes", &["512Mi", "2Gi", "16Gi", "100Gi", "256Gi"], "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n    Limits:\n      cpu:     8\n      memory:  {v}\n    Requests:\n      memory:  256Mi\nName:   llama-7d9c6f5b8-x2k4q\n".into()),
        ("kubernetes file", &["512Mi", "2Gi", "16Gi", "100Gi"], "resources:\n  limits:\n    memory: \"{v}\"\nlastState:\n  terminated:\n    exitCode: 137\n    reason: OOMKilled\n".into()),
        ("slurm", LARGE_G, format!("#SBATCH --mem={{v}}\n{slurm}")),
        ("slurm cpu", LARGE_G, format!("#SBATCH --mem-per-cpu={{v}}\n{slurm}")),
        ("slurm bare", &["4000", "64000", "250000"], format!("#SBATCH --mem={{v}}\n{slurm}")),
        ("sacct", LARGE_G, "#SBATCH --mem={v}\nJobID|JobName|State|ExitCode|MaxRSS|ReqMem\n771|train|OUT_OF_MEMORY|0:125||{v}\n771.batch|batch|OUT_OF_MEMORY|0:125|5118220K|\n".into()),
        ("sacct alone", LARGE_G, "JobID|JobName|State|ExitCode|MaxRSS|ReqMem\n771|train|OUT_OF_MEMORY|0:125||{v}\n771.batch|batch|OUT_OF_MEMORY|0:125|5118220K|\nmem: {v}\n".into()),
        ("wsl", &["4GB", "7GB", "24GB", "48GB"], format!("ada@box:/mnt/c/Users/ada$ python a.py\n[wsl2]\nmemory={{v}}\n[ 9.1] {KILLED}")),
        ("shm", &["64m", "1g", "8g", "16g", "64g"], "$ docker run --shm-size={v} img python a.py\nRuntimeError: DataLoader worker (pid 771) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.".into()),
        ("llama layers", LAYERS, format!("$ llama-server -m a.gguf -ngl {{v}}\nload_tensors: offloading 64 repeating layers to GPU\n{LLAMA}")),
        ("llama printed", &["1", "2", "20", "40", "64", "65"], format!("$ llama-server -m a.gguf\nload_tensors: offloaded {{v}}/65 layers to GPU\n{LLAMA}")),
        ("kobold", LAYERS, format!("$ python koboldcpp.py --model a.gguf --gpulayers {{v}}\nWelcome to KoboldCpp - Version 1.102\n{LLAMA}")),
        ("llama ub", TOKENS, format!("$ llama-server -m a.gguf -ub {{v}}\nllama_context: n_ubatch      = {{v}}\nggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 9437184000\n{LLAMA_ALLOCATION}")),
        ("llama context", TOKENS, format!("$ llama-server -m a.gguf -c {{v}}\nllama_context: n_ctx         = {{v}}\nllama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n{LLAMA_ALLOCATION}")),
        ("ollama", LAYERS, format!("time=2026-11-20T10:00:00Z level=INFO source=server.go:1 msg=\"llama runner started\"\n/set parameter num_gpu {{v}}\n{LLAMA}\nError: llama runner process has terminated: cudaMalloc failed: out of memory")),
        ("vllm sequences", TOKENS, format!("$ vllm serve org/m-8b --max-num-seqs {{v}}\nINFO 11-20 12:00:20 [gpu_worker.py:298] warm up\n  File \"site-packages/vllm/v1/worker/gpu_model_runner.py\", line 1, in profile_run\n{TORCH}")),
        ("vllm tokens", TOKENS, format!("$ vllm serve org/m-8b --max-num-batched-tokens={{v}}\nINFO 11-20 12:00:20 [gpu_worker.py:298] warm up\n  File \"site-packages/vllm/v1/worker/gpu_model_runner.py\", line 1, in profile_run\n{TORCH}")),
        ("vllm share", SHARE, "$ vllm serve org/m-8b --gpu-memory-utilization {v}\nValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.".into()),
        ("sglang share", SHARE, "$ python -m sglang.launch_server --model-path org/m-8b --mem-fraction-static {v}\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.".into()),
        ("sglang requests", TOKENS, format!("server_args=ServerArgs(model_path='org/m-8b', max_running_requests={{v}}, chunked_prefill_size={{v}}, cuda_graph_max_bs={{v}})\nCapture cuda graph begin.\n  File \"site-packages/sglang/srt/model_executor/cuda_graph_runner.py\", line 1, in capture\n{TORCH}")),
        ("jax", SHARE, "XLA_PYTHON_CLIENT_MEM_FRACTION={v} python a.py\njaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.".into()),
        ("cupy", &["1073741824", "8589934592", "20000000000"], "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated so far: 512 bytes, limit set to: {v} bytes).".into()),
("grpo", TOKENS, format!("GRPOConfig(max_completion_length={{v}}, num_generations=8)\n  1%|          | 3/500 [01:12<3:10:11, 22.9s/it]\n[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/home/ada/rl/grpo.py\", line 71, in <module>\n[rank0]:     trainer.train()\n[rank0]:   File \"/home/ada/.venv/lib/python3.11/site-packages/trl/trainer/grpo_trainer.py\", line 1022, in training_step\n[rank0]:     output = super().training_step(model, inputs, num_items_in_batch)\n[rank0]: {TORCH}")),
        ("diffusers", TOKENS, format!("pipe(prompt, height={{v}}, width={{v}})\n  File \"site-packages/diffusers/pipelines/flux/pipeline_flux.py\", line 1, in __call__\n{TORCH}")),
        ("comfyui", BATCHES, format!("$ python main.py --reserve-vram {{v}}\n  File \"/ComfyUI/execution.py\", line 1, in execute\n{TORCH}")),
        ("prompt cache", TOKENS, format!("$ llama-server -m a.gguf --cache-ram {{v}} --ctx-checkpoints 8\nsrv  update: processing task\n[ 9.1] {}", KILLED.replace("python3", "llama-server"))),
    ]
}

/// A machine without GPUs and with this much RAM.
fn here(ram: Bytes) -> Snapshot {
    Snapshot {
        taken_at: oomdoctor::units::WallTime(jiff::Timestamp::from_second(1_795_176_000).unwrap()),
        host: Host {
            name: "box".into(),
            memory_total_bytes: Reading::Known(ram),
            memory_available_bytes: Reading::Known(Bytes(ram.0 / 2)),
            swap_total_bytes: Reading::Known(Bytes::ZERO),
            swap_free_bytes: Reading::Known(Bytes::ZERO),
        },
        driver: Driver::Available { version: "570.124.06".into(), cuda_version: None },
        devices: vec![],
        holders: vec![],
        launchers: vec![],
        unseen_processes: 0,
        seen_from: vec![],
        windows: None,
    }
}

#[test]
fn steps_for_made_up_logs_move_settings_in_the_promised_direction() {
    let base = KnowledgeBase::built_in().unwrap();
    let machines = [None, Some(here(Bytes::gib(40)))];
    let (mut faults, mut silent) = (Vec::new(), Vec::new());
    for (name, shown, log) in made() {
        let mut all = 0;
        for value in shown {
            let log = log.replace("{v}", value).replace("\n$ ", "\nada@box:~$ ");
            let log = log.strip_prefix("$ ").map(|rest| format!("ada@box:~$ {rest}")).unwrap_or(log);
            let diagnosis = diagnose(&base, &log);
            for machine in &machines {
                let advice = advice(&base, &diagnosis, None, machine.as_ref());
                let (wrong, compared) = wrong(&log, None, &advice);
                all += compared;
                faults.extend(wrong.into_iter().map(|fault| format!("{name} {value}: {fault}")));
            }
        }
        if all == 0 {
            silent.push(name);
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert!(silent.is_empty(), "no number at all was held against: {silent:?}");
}

#[test]
fn the_users_command_line_counts_before_the_log() {
    let base = KnowledgeBase::built_in().unwrap();
    let mut faults = Vec::new();
    let mut all = 0;
    for (name, shown, log) in made() {
        let Some(line) = log.lines().find_map(|line| line.strip_prefix("$ ")) else { continue };
        let logged = log.replace("{v}", shown[shown.len() / 2]).replace("\n$ ", "\nada@box:~$ ");
        let diagnosis = diagnose(&base, &logged);
        for value in shown {
            let line = line.replace("{v}", value);
            let (wrong, compared) = wrong(&logged, Some(&line), &advice(&base, &diagnosis, Some(&line), None));
            all += compared;
            faults.extend(wrong.into_iter().map(|fault| format!("{name} {value}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert!(all > 100, "{all}");
}

#[test]
fn steps_for_scenarios_and_examples_move_settings_in_the_promised_direction() {
    let base = KnowledgeBase::built_in_with_examples().unwrap();
    let mut faults = Vec::new();
    for (name, scenario) in scenario::all() {
        if shows_a_setting(&scenario.log) {
            let advice = scenario.advice(&LogReading::of(&base, &scenario.log));
            let wrong = wrong(&scenario.log, None, &advice).0;
            faults.extend(wrong.into_iter().map(|fault| format!("{name}: {fault}")));
        }
    }
    for entry in &base.entries {
        let shown = entry.matches.iter().enumerate().filter(|(_, example)| shows_a_setting(&example.log));
        for (number, example) in shown {
            let wrong = wrong(&example.log, None, &advice(&base, &diagnose(&base, &example.log), None, None)).0;
            faults.extend(wrong.into_iter().map(|fault| format!("{} {number}: {fault}", entry.id)));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
#[ignore = "reads logs beside the checkout, or in the folders of OOMDOCTOR_LOGS"]
fn steps_for_logs_beside_the_checkout_move_settings_in_the_promised_direction() {
    let base = KnowledgeBase::built_in().unwrap();
    let mut faults = Vec::new();
    for (path, log) in logs::beside_the_checkout() {
        let (wrong, _) = wrong(&log, None, &advice(&base, &diagnose(&base, &log), None, None));
        faults.extend(wrong.into_iter().map(|fault| format!("{path}: {fault}")));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
