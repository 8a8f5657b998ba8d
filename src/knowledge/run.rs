//! Owns what a log says of the model and the run beside the failure: layers, context, buffers, batch, step, command.
//! The memory arithmetic and the causes build on it; it is no part of the failure's own figures.

mod read;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::first_failure::Others;
use super::kinds::{CauseKind, MemoryKind, Platform, Stage};
use super::limit::{self, Limit};
use super::version::{self, Versions};
use crate::internal::Internal;
use crate::log::Expression;
use crate::text::name_as_argument;
use crate::units::Bytes;

pub use read::{RunRule, of_command, read};

/// A process of the table that the kernel prints when memory runs out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    pub pid: u32,
    /// Its name, cut after 15 characters by the kernel.
    pub name: String,
    /// Its resident memory in bytes. The kernel prints pages, which are taken as 4 KiB.
    pub rss_bytes: Bytes,
}

/// A GPU as the log names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    /// The name or number that the backend gives it: `CUDA0`, `Vulkan1`, `0`; null without one.
    pub device: Option<String>,
    pub name: String,
}

/// Memory that ran out beside the memory that the failure is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlsoRanOut {
    pub memory: MemoryKind,
    pub line: usize,
    /// The limit that it was, if it was one.
    pub limit: Option<&'static Limit>,
}

/// What the log says of the model and the run. What it does not print is absent.
#[serde_with::apply(Internal => #[serde(skip_serializing)])]
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// The architecture as GGUF names it: `llama`, `qwen3moe`.
    pub architecture: Option<String>,
    /// The model's file, folder or name.
    pub model: Option<String>,
    /// The quantization as the engine names it: `Q4_K - Medium`, `awq`.
    pub quantisation: Option<String>,
    /// The type of the weights: `bfloat16`.
    pub dtype: Option<String>,
    /// The number of layers.
    pub layers: Option<u64>,
    /// The number of layers on the GPU, and the number of all that could be there.
    pub layers_offloaded: Option<(u64, u64)>,
    /// The context length in tokens that the run was set up for.
    pub context_tokens: Option<u64>,
    /// The type of the KV cache: `f16`, `q8_0`, `fp8`.
    pub kv_type: Option<String>,
    /// Weights in VRAM, summed over all GPUs.
    pub weights_bytes: Option<Bytes>,
    /// KV cache in VRAM, summed over all GPUs.
    pub kv_cache_bytes: Option<Bytes>,
    /// Compute buffers in VRAM, summed over all GPUs.
    pub compute_bytes: Option<Bytes>,
    /// The size of the model's file.
    pub file_bytes: Option<Bytes>,
    /// What Metal lets graphics use of the memory.
    pub working_set_bytes: Internal<Option<Bytes>>,
    /// VRAM that was free when the load began, summed over all GPUs.
    pub free_at_start_bytes: Option<Bytes>,
    /// The same for each GPU.
    pub free_at_start_each: Internal<Vec<Bytes>>,
    /// The number of GPUs of these sums.
    pub devices: Option<u64>,
    /// Other settings of the engine and dimensions of the model, by the engine's own names and as printed: `n_embd` is
    /// "4096", `flash_attn` "auto", `gpu_memory_utilization` "0.9".
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub printed: BTreeMap<String, String>,
    /// The values of the settings in `settings::SETTINGS`, wherever the log shows them.
    #[serde(skip)]
    pub settings: BTreeMap<&'static str, u64>,
    /// The number of sequences in a batch.
    pub batch_size: Option<u64>,
    /// The number of parameters that are trained.
    pub trainable_parameters: Option<u64>,
    /// The last training step that was reached.
    pub step: Option<u64>,
    /// The last epoch that began, as printed.
    pub epoch: Option<u64>,
    /// The same where it is printed as one of many ("Epoch 1/10"), which counts from 1.
    pub epoch_of_many: Internal<Option<u64>>,
    /// The number of GPUs that each layer is split over.
    pub tensor_parallel: Option<u64>,
    /// The rank that failed.
    pub rank: Option<u64>,
    /// What other ranks printed for the same failure on their own GPUs, if it names other processes.
    pub ranks: Internal<Vec<Facts>>,
    /// What became of the ranks beside the one that failed first.
    #[serde(skip)]
    pub others: Option<Others>,
    /// What the job was doing when it failed, within its phase.
    pub stage: Option<Stage>,
    /// The cause that the message itself names.
    pub told: Option<CauseKind>,
    /// The kind of limit that the message is about: `jvm-heap`, `kubernetes`, `commit-limit`.
    #[schemars(with = "Option<String>")]
    #[serde(deserialize_with = "limit::by_id")]
    pub limit: Option<&'static Limit>,
    /// The text that shows that PyTorch's expandable segments were enabled.
    pub expandable: Option<String>,
    /// The share of the GPU that was set for it, from 0 to 1, as printed.
    pub share: Option<String>,
    /// The share that the engine says it needs at least, as printed.
    pub least_share: Option<String>,
    /// The text that shows that the training state is sharded over the ranks: `fsdp`, or stage 3 of ZeRO.
    pub sharded: Option<String>,
    /// The limit on address space (`ulimit -v`), in KiB.
    pub address_limit_kib: Option<u64>,
    /// The step of the checkpoint that training resumed from.
    pub resumed_step: Option<u64>,
    /// The value of `CUDA_VISIBLE_DEVICES`. Device indices in the log count within this list.
    pub visible_devices: Option<String>,
    /// The text that shows that it ran in a notebook, whose kernel keeps the objects of earlier cells.
    pub notebook: Option<String>,
    /// The type that its weights were converted to while loading, where that is larger than in the file.
    pub widened: Option<String>,
    /// The launcher: `slurm`, `srun`, or the container of a compose file (`vllm-1`).
    pub launcher: Option<String>,
    /// The shell of the prompt in the log: `PS`, or a drive such as `C:` on Windows.
    pub shell: Option<String>,
    /// A sign that it ran on Windows, whatever the shell: a path with a drive, such as `C:`.
    pub windows: Internal<Option<String>>,
    /// A sign that it ran on Linux: a path, a line of the kernel's, a prompt.
    pub linux: Internal<Option<String>>,
    /// The GPUs that the log names, in its order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<Card>,
    /// The backend's word for the device whose buffer could not be allocated: `CUDA0`, `Vulkan1`.
    pub failed_on: Internal<Option<String>>,
    /// The buffers that were on that device already.
    pub on_failed_bytes: Internal<Option<Bytes>>,
    /// A sign that the GPU is not NVIDIA's: `HIP`, `XPU`.
    pub maker: Internal<Option<String>>,
    /// What shows that it ran on a Mac or in WSL: a path, a library.
    pub platform: Internal<Option<String>>,
    /// Where the image encoder was loaded, as printed, or what shows that there is one: `CUDA0`, `CPU`, `--mmproj`.
    pub projector: Internal<Option<String>>,
    /// A sign that it was a language model.
    pub text_model: Internal<Option<String>>,
    /// What shows that the person's own code started vLLM's engine.
    pub called: Internal<Option<String>>,
    /// A sign that Python code ran.
    pub python: Internal<Option<String>>,
    /// The other error that ended a later attempt in the same log, and its line.
    pub ended_with: Internal<Option<(String, usize)>>,
    /// Another memory that ran out as well.
    #[serde(skip)]
    pub also: Option<AlsoRanOut>,
    /// A sign that it ran in a container of its own.
    pub container: Internal<Option<String>>,
    /// The Python script that a traceback begins in.
    pub script: Internal<Option<String>>,
    /// The versions of programs and libraries, as printed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: Versions,
    /// The versions before which its programs and libraries are, where the log shows that without printing theirs.
    #[serde(skip)]
    pub older_than: Versions,
    /// The number of the Slurm job that it ran in.
    pub job: Internal<Option<String>>,
    /// The Kubernetes pod that it ran in.
    pub pod: Option<String>,
    /// The Kubernetes namespace of the pod.
    pub namespace: Option<String>,
    /// The control group whose process the kernel ended.
    pub cgroup: Option<String>,
    /// The process with the most system memory in the table that the kernel printed.
    pub largest: Option<Task>,
    /// The command line that the log shows.
    pub command: Option<String>,
    /// The options that a server was started with, as it prints them: only those that differ from its defaults where
    /// the text begins with a brace.
    pub arguments: Internal<Option<String>>,
    /// The settings that its engine has after that, as it prints them.
    pub configuration: Internal<Option<String>>,
}

impl Run {
    /// Whether it ran in a job of Slurm, which chooses the GPUs.
    pub fn is_allocated(&self) -> bool {
        matches!(self.launcher.as_deref(), Some("slurm" | "srun"))
            || self.job.is_some()
            || self.printed.keys().any(|name| name.starts_with("slurm_"))
    }

    /// The scheduler whose variables the log prints, other than Slurm, by its short name.
    pub fn scheduler(&self) -> Option<&'static str> {
        const SIGNS: [(&str, &str); 7] = [
            ("kubernetes_", "kubernetes"),
            ("pbs_", "pbs"),
            ("lsb_", "lsf"),
            ("sge_", "sge"),
            ("_condor_", "condor"),
            ("flux_", "flux"),
            ("ray", "ray"),
        ];
        let (_, name) = SIGNS.iter().find(|(sign, _)| self.printed.keys().any(|name| name.starts_with(sign)))?;
        Some(name)
    }

    /// The run without its model and settings: only where it ran.
    pub(super) fn only_where_it_ran(self) -> Run {
        let is_of_scheduler =
            |name: &String| ["slurm_", "pbs_", "lsb_", "kubernetes_"].iter().any(|one| name.starts_with(one));
        Run {
            printed: self.printed.into_iter().filter(|(name, _)| is_of_scheduler(name)).collect(),
            launcher: self.launcher,
            job: self.job,
            pod: self.pod,
            namespace: self.namespace,
            container: self.container,
            shell: self.shell,
            windows: self.windows,
            platform: self.platform,
            ..Run::default()
        }
    }

    /// A text with what the log names in the place of the words in capitals that stand for it.
    pub fn named_in(&self, text: &str) -> String {
        let job = self.job.as_deref().or_else(|| {
            let printed = ["pbs_jobid", "lsb_jobid"].into_iter().find_map(|name| self.printed.get(name));
            printed.map(String::as_str)
        });
        let job = job.and_then(name_as_argument);
        let pod = self.pod.as_ref().map(|pod| match &self.namespace {
            Some(namespace) => format!("{pod} -n {namespace}"),
            None => pod.clone(),
        });
        let known = [("JOBID", job.as_deref()), ("POD", pod.as_deref()), ("UNIT", self.unit())];
        let words = text.split_inclusive(' ').map(|word| {
            let bare = word.trim_end();
            match known.iter().find(|(stand_in, _)| *stand_in == bare) {
                Some((stand_in, Some(value))) => word.replacen(stand_in, value, 1),
                _ => word.to_owned(),
            }
        });
        words.collect()
    }

    /// A setting or dimension that the log prints as a number.
    pub fn printed_number(&self, name: &str) -> Option<u64> {
        self.printed.get(name)?.parse().ok()
    }

    /// Requests that the server takes at once, as it printed them or as Ollama's settings have them;
    /// 1 where neither says.
    pub fn slots(&self) -> u64 {
        let printed = self.printed_number("n_seq_max").or_else(|| self.printed_number("ollama_num_parallel"));
        printed.unwrap_or(1).max(1)
    }

    /// The system it ran on; `None` where nothing shows that it was not Linux.
    pub fn platform(&self) -> Option<Platform> {
        if self.shell.is_some() {
            return Some(Platform::Windows);
        }
        match &self.platform {
            Some(sign) if sign.contains("/mnt/") || sign.contains("WSL") => Some(Platform::Wsl),
            Some(_) => Some(Platform::Mac),
            None => self.windows.is_some().then_some(Platform::Windows),
        }
    }

    /// Whether something shows that it ran on Linux, if only in a container: neither Windows nor
    /// macOS has these itself.
    pub fn shows_linux(&self) -> bool {
        // Ray runs everywhere.
        let is_scheduled = self.is_allocated() || self.scheduler().is_some_and(|name| name != "ray");
        let is_contained = self.container.is_some() || self.pod.is_some() || self.cgroup.is_some();
        self.linux.is_some() || is_scheduled || is_contained
    }

    /// The limit of that control group, by its path; of a pod, Kubernetes'.
    pub fn group_limit(&self) -> Option<&'static Limit> {
        let by_path = self.cgroup.as_deref().and_then(limit::of_cgroup);
        by_path.or_else(|| self.pod.as_ref().and_then(|_| limit::of("kubernetes")))
    }

    /// The deployment that the pod belongs to: its name without the template's hash and the pod's own five characters,
    /// both of Kubernetes' letters without vowels, in older ones plain hexadecimal. `None` for a pod that no deployment made.
    pub fn deployment(&self) -> Option<&str> {
        static MADE_BY: Expression = Expression::new(
            "^(.*)-(?:[bcdfghjklmnpqrstvwxz2456789]{8,10}|[0-9A-Fa-f]{8,10})-(?:[bcdfghjklmnpqrstvwxz2456789]{5}|[0-9A-Fa-f]{5})$",
        );
        Some(MADE_BY.captures(self.pod.as_deref()?)?.get(1)?.as_str())
    }

    /// The systemd unit whose limit that was; only a name that a shell takes as it is.
    pub fn unit(&self) -> Option<&str> {
        let unit = self.cgroup.as_deref()?.rsplit('/').find(|part| part.ends_with(".service"))?;
        let is_plain = unit.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '@' | '-'));
        (is_plain && !unit.starts_with('-')).then_some(unit)
    }

    /// Whether that program is known to be older than that version.
    pub fn is_before(&self, program: &str, version: &str) -> bool {
        let printed = self.versions.get(program).map(|own| version::compare(own, version) == Ordering::Less);
        let concluded = self.older_than.get(program).map(|bound| version::compare(bound, version) != Ordering::Greater);
        printed.or(concluded).unwrap_or(false)
    }

    /// Whether it ran on several cards, so that no single one has room for all of it: its layers or its ranks are
    /// shared out. Of a rank 0 whose world is not told that is taken to be so, but for an engine's, which says it.
    pub fn is_spread(&self) -> bool {
        let is_split = self.tensor_parallel.max(self.devices) > Some(1);
        let sees_many = self.visible_devices.as_deref().is_some_and(|mask| mask.contains(','));
        let launched = self.launched().is_some_and(|count| count != "1");
        let ranked =
            self.rank.is_some_and(|rank| rank > 0 || (self.tensor_parallel.is_none() && self.layers.is_none()));
        is_split || sees_many || launched || ranked
    }

    /// How many ranks its launcher was told to start on this machine, as it was written: "8", "gpu".
    fn launched(&self) -> Option<&str> {
        let line = self.command.as_deref().unwrap_or_default();
        let (_, rest) = ["--nproc", "--num_processes"].into_iter().find_map(|option| line.split_once(option))?;
        rest.split(['=', ' ']).nth(1)
    }

    /// The same as a number: each rank takes a card of its own.
    pub fn launched_ranks(&self) -> Option<u64> {
        self.launched()?.parse().ok()
    }

    /// Whether it is a language model's run, or that of another model that comes as a file.
    pub fn has_model(&self) -> bool {
        self.model.is_some() || self.architecture.is_some() || self.quantisation.is_some() || self.layers.is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::knowledge::KnowledgeBase;
    use crate::knowledge::diagnosis::MemoryKind;
    use crate::log::PastedLog;
    use crate::units::Bytes;

    use super::Run;

    fn run(log: &str) -> Run {
        KnowledgeBase::built_in().unwrap().diagnose(&PastedLog::new(log), None).run
    }

    #[test]
    fn a_llama_cpp_load_is_read_with_its_buffers() {
        let run = run("\
llama_model_loader: loaded meta data with 30 key-value pairs and 291 tensors from /srv/gguf/storyteller-8b.gguf (version GGUF V3 (latest))
print_info: file type   = Q5_K - Medium
print_info: arch             = llama
print_info: n_ctx_train      = 131072
print_info: n_layer          = 32
print_info: n_embd           = 4096
print_info: n_head_kv        = [8, 8, 4]
print_info: file size   = 5.00 GiB (5.33 BPW)
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3060) (0000:01:00.0) - 11469 MiB free
llama_model_load_from_file_impl: using device CUDA1 (NVIDIA GeForce RTX 3060) (0000:02:00.0) - 11500 MiB free
load_tensors: offloaded 20/33 layers to GPU
load_tensors:        CUDA0 model buffer size =  1000.00 MiB
load_tensors:        CUDA1 model buffer size =   500.50 MiB
load_tensors:   CPU_Mapped model buffer size =  3000.00 MiB
llama_context: n_ctx         = 16384
llama_context: flash_attn    = auto
llama_kv_cache:      CUDA0 KV buffer size =   640.00 MiB
llama_kv_cache: size = 1088.00 MiB ( 16384 cells,  32 layers,  1/1 seqs), K (q8_0):  544.00 MiB, V (q8_0):  544.00 MiB
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1088.00 MiB on device 0: cudaMalloc failed: out of memory");
        assert_eq!(run.model.as_deref(), Some("/srv/gguf/storyteller-8b.gguf"));
        assert_eq!((run.architecture.as_deref(), run.quantisation.as_deref()), (Some("llama"), Some("Q5_K - Medium")));
        assert_eq!((run.layers, run.layers_offloaded, run.context_tokens), (Some(32), Some((20, 33)), Some(16384)));
        assert_eq!(run.kv_type.as_deref(), Some("q8_0"));
        assert_eq!(run.weights_bytes, Some(Bytes(1_573_388_288)));
        assert_eq!((run.kv_cache_bytes, run.compute_bytes), (Some(Bytes::mib(640)), None));
        assert_eq!((run.free_at_start_bytes, run.devices), (Some(Bytes::mib(22_969)), Some(2)));
        assert_eq!(run.file_bytes, Some(Bytes::gib(5)));
        assert_eq!((run.printed_number("n_embd"), run.printed_number("n_head_kv")), (Some(4096), None), "an array");
        assert_eq!(run.printed.get("flash_attn").map(String::as_str), Some("auto"));
    }

    #[test]
    fn a_training_run_is_read_up_to_its_failure_and_no_further() {
        let run = run("\
ada@box:~/lab$ CUDA_VISIBLE_DEVICES=1 python train.py --lr 2e-4
***** Running training *****
  Instantaneous batch size per device = 4
  Number of trainable parameters = 41,943,040
{'loss': 1.91, 'epoch': 1.02}
 37%|███▋      | 1204/3250 [41:07<1:09:55,  2.05s/it]
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB of which 1.00 GiB is free.
retrying from step 99");
        assert_eq!((run.batch_size, run.trainable_parameters), (Some(4), Some(41_943_040)));
        assert_eq!((run.step, run.epoch, run.rank), (Some(1204), Some(1), Some(3)));
        assert_eq!(run.command.as_deref(), Some("CUDA_VISIBLE_DEVICES=1 python train.py --lr 2e-4"));
    }

    #[test]
    fn a_server_is_read_from_its_configuration() {
        let run = run("\
INFO Initializing a V1 LLM engine (v0.11.0) with config: model='org/big-model', dtype=torch.bfloat16, max_seq_len=65536, tensor_parallel_size=2, quantization=awq, kv_cache_dtype=fp8
(Worker_TP1 pid=88) INFO Model loading took 19.25 GiB and 11.2 seconds
ValueError: To serve at least one request with the models's max seq len (65536), (8.00 GiB KV cache is needed, which is larger than the available KV cache memory (3.10 GiB).");
        assert_eq!((run.model.as_deref(), run.dtype.as_deref()), (Some("org/big-model"), Some("bfloat16")));
        assert_eq!((run.context_tokens, run.tensor_parallel, run.rank), (Some(65536), Some(2), Some(1)));
        assert_eq!((run.quantisation.as_deref(), run.kv_type.as_deref()), (Some("awq"), Some("fp8")));
        assert_eq!(run.weights_bytes, Some(Bytes(20_669_530_112)));
        for line in ["$ vllm serve org/model -tp 4", "$ python -m sglang.launch_server --tp-size=4"] {
            let log = format!("{line}\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.");
            assert_eq!(self::run(&log).tensor_parallel, Some(4), "{line}");
        }
    }

    #[test]
    fn no_fact_comes_from_quoted_source_code() {
        let base = KnowledgeBase::built_in().unwrap();
        let run = |log: &str| super::read(&base.tables.runs, &[], &PastedLog::new(log), log.lines().count(), 0);
        let failure = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
        // Everything that a rule reads, as code has it.
        let code = [
            "return logits.log_softmax(dim=-1, dtype=torch.float32)",
            "model = AutoModel.from_pretrained('org/some-model', torch_dtype=torch.float16, model='org/other')",
            "step = 3; epoch = 7; batch_size=64; --batch_size 64; per_device_train_batch_size=9",
            "llm = LLM(model='org/third', dtype='float16', tensor_parallel_size=4, max_model_len=4096)",
            "os.environ['CUDA_VISIBLE_DEVICES'] = '3'; gpu_memory_utilization=0.95; quantization='awq'",
            "config = dict(gradient_checkpointing=True, kv_cache_dtype='fp8', max_num_seqs=256)",
            "parser.add_argument('--max-model-len 4096 --gpu-memory-utilization 0.9 --tensor-parallel-size 8')",
            "logger.info('Number of trainable parameters = 12, Using max model len 99, resumed from checkpoint-12')",
            "env = {'PYTORCH_CUDA_ALLOC_CONF': 'expandable_segments:True'}",
        ];
        let place = "  File \"/usr/lib/python3.12/site-packages/engine/core.py\", line 98, in step";
        let bare = run(&format!("Traceback (most recent call last):\n{place}\n{failure}"));
        for prefix in ["", "(EngineCore pid=99) ERROR 11-22 10:00:00 [core.py:708] ", "[rank1]: ", "job-1  | "] {
            let bare = run(&format!("{prefix}Traceback (most recent call last):\n{prefix}{place}\n{prefix}{failure}"));
            for line in code {
                let log = format!(
                    "{prefix}Traceback (most recent call last):\n{prefix}{place}\n{prefix}    {line}\n{prefix}    ^^^^^^^\n{prefix}{failure}"
                );
                assert_eq!(run(&log), bare, "{log}");
            }
        }
        for line in code {
            let notebook = run(&format!("---> 12 {line}\n     13 {line}\n\n{failure}"));
            assert_eq!(Run { python: None, ..notebook }, Run { python: None, ..run(failure) }, "{line}");
            let boxed =
                format!("╭──── Traceback (most recent call last) ────╮\n│ ❱ 12 │ {line} │\n╰────────╯\n{failure}");
            assert_eq!(Run { python: None, ..run(&boxed) }, Run { python: None, ..run(failure) }, "{line}");
        }
        assert_eq!(bare.dtype, None);
    }

    #[test]
    fn a_tensors_dtype_is_none_of_the_models() {
        let failure = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
        let of = |line: &str| run(&format!("{line}\n{failure}")).dtype;
        for line in [
            "tensor([1., 2.], device='cuda:0', dtype=torch.float64)",
            ">>> x = torch.zeros(3, dtype=torch.float32)",
            "bnb_4bit_compute_dtype=torch.float16",
            "kv_cache_dtype='float16'",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
        for (line, dtype) in [
            ("INFO Initializing an engine with config: model='org/m', dtype=torch.bfloat16, max_seq_len=9", "bfloat16"),
            ("non-default args: Namespace(model='org/m', kv_cache_dtype='auto', dtype='float16')", "float16"),
            ("$ vllm serve org/m --dtype float16", "float16"),
            (">>> m = AutoModel.from_pretrained('org/m', torch_dtype=torch.float16)", "float16"),
            ("  \"torch_dtype\": \"bfloat16\",", "bfloat16"),
        ] {
            assert_eq!(of(line).as_deref(), Some(dtype), "{line}");
        }
    }

    #[test]
    fn the_kernels_table_tells_what_held_most_and_whose_limit_it_was() {
        let run = run("\
[  811.300] Tasks state (memory values in pages):
[  811.301] [  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
[  811.302] [    901]     0   901     7201      610      201      409         0    61440      110         -1000 sshd
[  811.303] [   4242]  1000  4242 21203344 15204352 15203000     1352         0 12161024        0             0 python train.py
[  811.304] [   4301]  1000  4301   903344    51200    51000      200         0   161024        0           300 chrome
[  811.305] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods.slice/x,task_memcg=/kubepods.slice/x/cri-7,task=chrome,pid=4301,uid=1000
[  811.306] Memory cgroup out of memory: Killed process 4301 (chrome) total-vm:3613376kB, anon-rss:204000kB, file-rss:800kB, shmem-rss:0kB, UID:1000 pgtables:157kB oom_score_adj:300");
        let largest = run.largest.clone().unwrap();
        assert_eq!((largest.pid, largest.name.as_str(), largest.rss_bytes), (4242, "python", Bytes::gib(58)));
        assert_eq!(run.group_limit().map(|limit| limit.id.as_str()), Some("kubernetes"));
        assert!(run.python.is_some());
    }

    #[test]
    fn advice_to_let_the_blocks_grow_is_not_taken_for_the_setting() {
        let failure = "CUDA out of memory. Tried to allocate 2.00 GiB. If reserved but unallocated memory is large";
        let base = KnowledgeBase::built_in().unwrap();
        let run = |log: &str| super::read(&base.tables.runs, &[], &PastedLog::new(log), log.lines().count(), 0);
        for name in ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"] {
            let setting = format!("{name}=expandable_segments:True");
            let advice = format!("{failure} try setting {setting} to avoid fragmentation.  See documentation");
            assert_eq!(run(&advice).expandable, None, "{advice}");
            // Of an attempt before, also as a narrow terminal breaks it.
            for (before, after) in (0..advice.len()).filter_map(|at| advice.split_at_checked(at)) {
                let wrapped = format!("{before}\n{after}\n{failure}");
                assert_eq!(run(&wrapped).expandable, None, "{wrapped}");
            }
            let named = format!("Tip: set {setting}\nyou can use `{setting}` here\n{failure}");
            assert_eq!(run(&named).expandable, None);
            for line in [
                format!("{setting} python train.py"),
                format!("$ {setting} torchrun train.py"),
                format!("+ export {setting}"),
                format!("C:\\lab> set {setting}"),
                format!("$ HF_HOME=/srv {setting} python train.py"),
                format!("docker run -e {setting} --gpus all image"),
                format!("  {name}: expandable_segments:True"),
                format!("os.environ['{name}'] = 'max_split_size_mb:64,expandable_segments:True'"),
                format!("{{'{name}': 'expandable_segments:True', 'HOME': '/srv'}}"),
            ] {
                assert!(run(&format!("{line}\n{advice}")).expandable.is_some(), "{line}");
            }
        }
    }

    #[test]
    fn a_later_attempts_own_end_and_another_memory_are_told_beside_the_failure() {
        let failure = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
        let end = "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    log(x['loss'])\nKeyError: 'loss'";
        let later = run(&format!("{failure}\nrestarted\nstep 100 loss 2.0\n{end}"));
        assert_eq!(later.ended_with, Some(("KeyError: 'loss'".to_owned(), 7)));
        assert_eq!(run(&format!("{failure}\n{end}")).ended_with, None, "no step between: it follows from the failure");
        let worker = end.replace("KeyError: 'loss'", "RuntimeError: DataLoader worker (pid 7) exited unexpectedly");
        assert_eq!(run(&format!("{failure}\nstep 100 loss 2.0\n{worker}")).ended_with, None);

        let both = run(&format!("{failure}\nslurmstepd: error: Detected 1 oom_kill event in StepId=7.batch."));
        let also = both.also.unwrap();
        assert_eq!((also.memory, also.line), (MemoryKind::Host, 2));
        assert_eq!(also.limit.map(|limit| limit.id.as_str()), Some("slurm"));
        assert_eq!(run(&format!("{failure}\nKilled")).also, None, "a consequence");
    }

    #[test]
    fn a_container_is_known_by_its_signs() {
        let failure = "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).";
        for sign in [
            "root@3f2a9c10bb7e:/# python a.py",
            "$ docker run img",
            "3f2a9c10bb7e:20:41 [0] NCCL WARN x",
            "train-1  | x",
        ] {
            assert!(run(&format!("{sign}\n{failure}")).container.is_some(), "{sign}");
        }
        assert_eq!(run(&format!("mia@gpu-node-07:~$ python a.py\n{failure}")).container, None);
    }

    #[test]
    fn a_remark_is_the_one_for_the_wording() {
        let base = KnowledgeBase::built_in().unwrap();
        let said = |log: &str| base.diagnose(&PastedLog::new(log), None).remark.unwrap_or_default();
        assert!(said("RuntimeError: No CUDA GPUs are available").contains("No GPU is visible"));
        assert!(said("RuntimeError: CUDA error: device-side assert triggered").contains("CUDA_LAUNCH_BLOCKING"));
    }

    #[test]
    fn a_rule_for_a_field_that_no_run_has_is_refused() {
        for (key, is_known) in [("word(\"model\")", true), ("word(\"modle\")", false), ("number(\"step\")", true)] {
            let rule = ron::from_str::<super::RunRule>(&format!("(key: {key}, patterns: [])"));
            assert_eq!(rule.is_ok(), is_known, "{rule:?}");
        }
    }

    #[test]
    fn a_word_of_the_log_becomes_no_option_and_no_second_command() {
        let named =
            |line: &str| run(&format!("{line}\nRuntimeError: CUDA error: out of memory")).named_in("qstat -fx JOBID");
        assert_eq!(named("PBS_JOBID=77.pbs01"), "qstat -fx 77.pbs01");
        assert_eq!(named("PBS_JOBID=77[3].pbs01"), "qstat -fx '77[3].pbs01'");
        for hostile in ["-rf", "--help", "1;reboot", "1$(reboot)", "1`reboot`", "1>x", "1&reboot"] {
            assert_eq!(named(&format!("LSB_JOBID={hostile}")), "qstat -fx JOBID", "{hostile}");
        }
        for hostile in ["-rf", "--help", "-", "a-", "A", "a_b", &"a".repeat(64)] {
            let told = run(&format!("Name: a\nNamespace: {hostile}\nRuntimeError: CUDA error: out of memory"));
            assert_eq!(told.namespace, None, "{hostile}");
        }
        let told = run("MountVolume failed in pod train-0_ml-team(1f)\nRuntimeError: CUDA error: out of memory");
        assert_eq!((told.namespace.as_deref(), told.pod.as_deref()), (Some("ml-team"), Some("train-0")));
        for (line, pod) in [("see pod/train-0.", Some("train-0")), ("see pod/-rf", None), ("see pod/a..b", None)] {
            assert_eq!(run(&format!("{line}\nRuntimeError: CUDA error: out of memory")).pod.as_deref(), pod, "{line}");
        }
    }

    #[test]
    fn what_is_not_said_is_not_known() {
        let python = Some("RuntimeError".to_owned());
        assert_eq!(run("RuntimeError: CUDA error: out of memory"), Run { python, ..Run::default() });
        assert_eq!(run("all is well"), Run::default());
    }
}
