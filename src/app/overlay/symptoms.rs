//! Owns the list of what people see when memory runs out, to pick from without a log: each in their words, and the line
//! that is read in place of a log.

use super::{Body, Hint, Item, Outcome, Overlay, covered};
use crate::app::action::Action;
use crate::app::layout::page_height;
use crate::app::model::Model;
use crate::app::update::log;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symptoms;

impl Overlay for Symptoms {
    fn title(&self) -> &'static str {
        "What did you see?"
    }

    fn body(&self, model: &Model) -> Body {
        let items = SYMPTOMS.iter().map(|symptom| Item { key: None, words: symptom.seen.to_owned() });
        let (above, below) = (Vec::new(), Vec::new());
        Body::List { above, items: items.collect(), if_empty: "", most_shown: page_height(model.size), below }
    }

    fn hints(&self, _model: &Model) -> Vec<Hint> {
        vec![("↑↓".to_owned(), "move"), ("Enter".to_owned(), "select")]
    }

    fn act(&self, model: &mut Model, at: usize, action: Action) -> Outcome {
        match action {
            Action::Enter => {
                let read = SYMPTOMS.get(at).and_then(|symptom| log::pasted(model, symptom.line.to_owned()));
                Outcome::Closes(read.into_iter().collect())
            }
            other => covered(other),
        }
    }
}

/// Something a person may have seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symptom {
    pub seen: &'static str,
    /// What is read in place of a log.
    line: &'static str,
}

pub(crate) const SYMPTOMS: [Symptom; 14] = [
    Symptom {
        seen: "\"CUDA out of memory\" (PyTorch, ComfyUI, training)",
        line: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate",
    },
    Symptom {
        seen: "\"failed to allocate CUDA0 buffer\" (llama.cpp, LM Studio)",
        line: "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
    },
    Symptom {
        seen: "\"model requires more system memory\" (Ollama)",
        line: "Error: model requires more system memory than is currently available",
    },
    Symptom { seen: "\"Killed\", and nothing else", line: "Killed" },
    Symptom {
        seen: "Exit code 137, OOMKilled (Docker, Kubernetes)",
        line: "Last State: Terminated  Reason: OOMKilled  Exit Code: 137",
    },
    Symptom {
        seen: "\"oom_kill event\" or \"Out Of Memory\" (Slurm)",
        line: "slurmstepd: error: Detected 1 oom_kill event in StepId=1.batch. Some of the step tasks have been OOM Killed.",
    },
    Symptom {
        seen: "\"No available memory for the cache blocks\" (vLLM)",
        line: "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
    },
    Symptom {
        seen: "\"max seq len is larger than … KV cache\" (vLLM)",
        line: "ValueError: To serve at least one request with the model's max seq len, more KV cache is needed than is available.",
    },
    Symptom { seen: "\"MPS backend out of memory\" (Mac)", line: "RuntimeError: MPS backend out of memory" },
    Symptom {
        seen: "\"RESOURCE_EXHAUSTED\" (JAX, TensorFlow)",
        line: "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate",
    },
    Symptom {
        seen: "\"insufficient shared memory (shm)\", \"Bus error\" (DataLoader)",
        line: "RuntimeError: DataLoader worker is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
    },
    Symptom {
        seen: "\"CUBLAS_STATUS_ALLOC_FAILED\"",
        line: "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    },
    Symptom {
        seen: "\"The paging file is too small\" (Windows, 1455)",
        line: "OSError: [WinError 1455] The paging file is too small for this operation to complete",
    },
    Symptom { seen: "\"MemoryError\", \"Unable to allocate … for an array\" (Python)", line: "MemoryError" },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::KnowledgeBase;
    use crate::knowledge::diagnosis::Oom;
    use crate::log::PastedLog;

    #[test]
    fn every_symptom_is_known() {
        let base = KnowledgeBase::built_in().unwrap();
        for symptom in SYMPTOMS {
            let diagnosis = base.diagnose(&PastedLog::new(symptom.line), None);
            assert_ne!(diagnosis.oom, Oom::No, "{}", symptom.seen);
            let figures = diagnosis.facts.listed().into_iter().filter(|(key, _)| *key != "exit_code").count();
            assert_eq!(figures, 0, "{}: nobody saw figures", symptom.seen);
        }
    }
}
