//! Owns what the command line that the person gave adds to the log: what the log does not say of the run, and settings in
//! which the command differs, where the command counts. Text goes in and comes out.

use std::borrow::Cow;

use super::fit;
use super::input::Situation;
use crate::knowledge::run::of_command;
use crate::knowledge::{Diagnosis, Run};

/// The log with what only the command line names: the model, its type, its share of the GPU. A command line that the
/// steps taken have changed still names the model.
pub(crate) fn with_what_the_log_lacks<'a>(log: Cow<'a, Diagnosis>, situation: &Situation<'_>) -> Cow<'a, Diagnosis> {
    let Some(command) = other_command(&log.run, situation) else { return log };
    let typed = of_command(command);
    let mut log = log.into_owned();
    let run = &mut log.run;
    run.model = run.model.take().or(typed.model);
    run.dtype = run.dtype.take().or(typed.dtype);
    run.quantisation = run.quantisation.take().or(typed.quantisation);
    if !situation.taken.changed {
        run.tensor_parallel = run.tensor_parallel.or(typed.tensor_parallel);
        let mut printed = typed.printed;
        printed.append(&mut run.printed);
        run.printed = printed;
    }
    Cow::Owned(log)
}

/// The failed run with the settings of the command line that the person gave, where it has others than the log.
pub(crate) fn as_started<'a>(log: &'a Diagnosis, situation: &Situation<'_>) -> Cow<'a, Diagnosis> {
    match other_command(&log.run, situation) {
        Some(command) if !situation.taken.changed => fit::as_started(log, command),
        _ => Cow::Borrowed(log),
    }
}

/// The command line that the person gave, where the log does not show the same.
fn other_command<'a>(run: &Run, situation: &Situation<'a>) -> Option<&'a str> {
    situation.command.filter(|command| run.command.as_deref() != Some(command))
}

#[cfg(test)]
mod tests {
    use crate::advice::{Advice, Situation, advise};
    use crate::knowledge::KnowledgeBase;
    use crate::log::PastedLog;
    use crate::units::Bytes;

    const LLAMA: &str = "\
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3060) (0000:01:00.0) - 11469 MiB free
llama_model_loader: loaded meta data with 36 key-value pairs and 291 tensors from /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf (version GGUF V3 (latest))
print_info: file type   = Q4_K - Medium
llama_context: n_ctx         = 131072
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: cudaMalloc failed: out of memory
llama_kv_cache: failed to allocate buffer for kv cache";

    fn advised(log: &str, command: Option<&str>, before: Option<&Advice>) -> Advice {
        let diagnosis = KnowledgeBase::built_in().unwrap().diagnose(&PastedLog::new(log), None);
        let before = before.map(|advice| &advice.remembered);
        advise(&Situation { command, before, ..Situation::alone(&diagnosis) })
    }

    fn takes(advice: &Advice) -> (Option<u64>, Option<Bytes>) {
        let fit = advice.fit.as_ref().unwrap();
        (fit.context_tokens, fit.total_bytes)
    }

    #[test]
    fn a_typed_context_counts_before_the_logs() {
        let by_log = advised(LLAMA, None, None);
        assert_eq!(takes(&by_log).0, Some(131_072));
        for typed in ["llama-server -m a.gguf -c 8192", "llama-server -m a.gguf --ctx-size=8192"] {
            let shorter = advised(LLAMA, Some(typed), Some(&by_log));
            assert_eq!(takes(&shorter).0, Some(8192), "{typed}");
            assert!(takes(&shorter).1 < takes(&by_log).1, "{typed}");
            assert_eq!(takes(&advised(LLAMA, None, Some(&shorter))), takes(&by_log), "the log's again");
        }
        for same in ["llama-server -m a.gguf", "llama-server -m a.gguf -c 0", "llama-server -m a.gguf -c 131000"] {
            assert_eq!(takes(&advised(LLAMA, Some(same), None)), takes(&by_log), "{same}");
        }
    }

    #[test]
    fn a_typed_command_names_the_model_and_its_type() {
        let log = "ValueError: Free memory on device cuda:0 (20.11/23.64 GiB) on startup is less than desired GPU memory utilization (0.9, 21.28 GiB).";
        assert!(advised(log, None, None).fit.is_none());
        let of = |options: &str| advised(log, Some(&format!("vllm serve Qwen/Qwen2.5-32B-Instruct {options}")), None);
        let (half, eight) = (of("--max-model-len 8192"), of("--max-model-len 8192 --quantization fp8"));
        assert_eq!(takes(&half).0, Some(8192));
        assert!(takes(&eight).1.unwrap() < Bytes::gib(40), "{:?}", takes(&eight));
        assert!(takes(&of("--max-model-len 8192 -tp 2")).1 < takes(&half).1, "of each of two GPUs");
    }
}
