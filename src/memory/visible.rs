//! Owns the variables that let a program see some of a machine's GPUs alone, by the library that it reaches them with. Each
//! library counts the GPUs of its own maker.
//! Looked up on 2026-11-28: HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES in ROCm's and Ollama's documentation (ollama/ollama
//! docs/gpu.mdx), ZE_AFFINITY_MASK in vLLM's platforms/xpu.py, ONEAPI_DEVICE_SELECTOR in llama.cpp's docs/backend/SYCL.md and
//! ComfyUI's main.py, ZE_ENABLE_PCI_ID_DEVICE_ORDER in intel/compute-runtime (`sortNeoDevices`).

use super::card::{Card, differ, most_free_first};
use super::engine::Engine;

/// The variables that say which GPUs a run may use, and in which order they are counted.
pub const VARIABLES: [&str; 7] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "ZE_ENABLE_PCI_ID_DEVICE_ORDER",
    "ONEAPI_DEVICE_SELECTOR",
];

/// How a GPU is counted by the library through which programs use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// CUDA counts as the driver does, if it is told to take the order of the bus. The UUID names the GPU in any order.
    Cuda { index: u32, uuid: Option<String>, is_instance: bool },
    /// ROCm has an order of its own. `None`: its kernel driver does not list the GPU.
    Rocm(Option<u32>),
    /// Level Zero, in the order of the bus, counts Intel's GPUs.
    LevelZero(Option<u32>),
}

impl Default for Counted {
    fn default() -> Self {
        Counted::Cuda { index: 0, uuid: None, is_instance: false }
    }
}

/// What a program reads to select GPUs, where programs of one library differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// What its library reads.
    #[default]
    Usual,
    /// CUDA's variable only with numbers (vllm-project/vllm#13815).
    Numbers,
    /// ROCm's lower variable, and for Intel's GPUs the numbers of Vulkan, which are not known here.
    Ollama,
    /// SYCL's selector in place of Level Zero's mask.
    Sycl,
}

impl Reads {
    /// By what stands in a command line.
    pub fn of_line(line: &str) -> Reads {
        const PROGRAMS: [(&str, Reads); 5] = [
            ("vllm", Reads::Numbers),
            ("sglang", Reads::Numbers),
            ("ollama", Reads::Ollama),
            ("llama-", Reads::Sycl),
            ("ComfyUI", Reads::Sycl),
        ];
        PROGRAMS.iter().find(|(program, _)| line.contains(program)).map(|(_, reads)| *reads).unwrap_or_default()
    }

    fn of(engine: &Engine) -> Reads {
        match engine {
            Engine::Vllm(_) | Engine::Sglang(_) => Reads::Numbers,
            Engine::Ollama(_) => Reads::Ollama,
            Engine::LlamaCpp(_) => Reads::Sycl,
            Engine::Transformers(_) | Engine::Train(_) => Reads::Usual,
        }
    }
}

impl Counted {
    /// The number that the maker's variable takes.
    fn number(&self) -> Option<u32> {
        match self {
            Counted::Cuda { index, .. } => Some(*index),
            Counted::Rocm(number) | Counted::LevelZero(number) => *number,
        }
    }

    /// What makes the library count in the order of the bus, where it needs to be told.
    fn order(&self) -> &'static str {
        match self {
            Counted::Cuda { .. } => "CUDA_DEVICE_ORDER=PCI_BUS_ID",
            Counted::Rocm(_) => "",
            Counted::LevelZero(_) => "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1",
        }
    }

    /// The variables that let a program see this GPU alone; `None` where its number is not known.
    pub fn alone(&self, reads: Reads) -> Option<String> {
        match self {
            Counted::Cuda { uuid: Some(uuid), is_instance, .. } if *is_instance || reads != Reads::Numbers => {
                Some(format!("CUDA_VISIBLE_DEVICES={uuid}"))
            }
            _ => self.these(&[self.number()?], reads),
        }
    }

    /// The variables that let a program see the GPUs of these numbers alone.
    fn these(&self, numbers: &[u32], reads: Reads) -> Option<String> {
        let said: Vec<String> = numbers.iter().map(u32::to_string).collect();
        let list = said.join(",");
        let set = match (self, reads) {
            (Counted::Cuda { .. }, _) => format!("CUDA_VISIBLE_DEVICES={list}"),
            (Counted::Rocm(_), Reads::Ollama) => format!("ROCR_VISIBLE_DEVICES={list}"),
            (Counted::Rocm(_), _) => format!("HIP_VISIBLE_DEVICES={list}"),
            (Counted::LevelZero(_), Reads::Ollama) => return None,
            (Counted::LevelZero(_), Reads::Sycl) => format!("ONEAPI_DEVICE_SELECTOR=level_zero:{list}"),
            (Counted::LevelZero(_), _) => format!("ZE_AFFINITY_MASK={list}"),
        };
        Some(format!("{} {set}", self.order()).trim_start().to_owned())
    }
}

/// Whether a command line says already which GPUs it may see, or in which order.
pub fn is_said_in(line: &str) -> bool {
    VARIABLES.iter().any(|name| line.starts_with(name))
}

/// What lets a program see this GPU alone; empty where its number is not known.
pub fn only_on(card: &Card, engine: &Engine) -> String {
    card.counted.alone(Reads::of(engine)).unwrap_or_default()
}

/// What lets a program see those with most free memory alone, with a blank behind it, where it would take others; empty
/// where it takes them anyway, there are too few, or their numbers are not known.
pub fn only_most_free(count: usize, cards: &[Card], engine: &Engine) -> String {
    let chosen: Vec<&Card> = most_free_first(cards).into_iter().take(count).collect();
    let numbers: Option<Vec<u32>> = chosen.iter().map(|card| card.counted.number()).collect();
    let (Some(mut numbers), Some(first)) = (numbers, chosen.first()) else { return String::new() };
    numbers.sort_unstable();
    let all: Option<Vec<u32>> = cards.iter().map(|card| card.counted.number()).collect();
    let mut all = all.unwrap_or_default();
    all.sort_unstable();
    if count > cards.len() || all.starts_with(&numbers) {
        return String::new();
    }
    let variables = first.counted.these(&numbers, Reads::of(engine));
    variables.map(|variables| format!("{variables} ")).unwrap_or_default()
}

/// What makes a program count the GPUs in the order of `cards`, where it may not; empty where nothing need be said.
pub fn in_order(cards: &[Card]) -> &'static str {
    match cards.first() {
        Some(first) if differ(cards) => first.counted.order(),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_makers_gpu_is_selected_by_its_own_variable_and_number() {
        let cuda = Counted::Cuda { index: 1, uuid: Some("GPU-1".into()), is_instance: false };
        let cases = [
            (&cuda, Reads::Usual, Some("CUDA_VISIBLE_DEVICES=GPU-1")),
            (&cuda, Reads::Numbers, Some("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1")),
            (&Counted::Rocm(Some(2)), Reads::Numbers, Some("HIP_VISIBLE_DEVICES=2")),
            (&Counted::Rocm(Some(2)), Reads::Sycl, Some("HIP_VISIBLE_DEVICES=2")),
            (&Counted::Rocm(Some(2)), Reads::Ollama, Some("ROCR_VISIBLE_DEVICES=2")),
            (&Counted::Rocm(None), Reads::Usual, None),
            (&Counted::LevelZero(Some(1)), Reads::Usual, Some("ZE_ENABLE_PCI_ID_DEVICE_ORDER=1 ZE_AFFINITY_MASK=1")),
            (
                &Counted::LevelZero(Some(1)),
                Reads::Sycl,
                Some("ZE_ENABLE_PCI_ID_DEVICE_ORDER=1 ONEAPI_DEVICE_SELECTOR=level_zero:1"),
            ),
            (&Counted::LevelZero(Some(1)), Reads::Ollama, None),
        ];
        for (counted, reads, expected) in cases {
            assert_eq!(counted.alone(reads).as_deref(), expected, "{counted:?} {reads:?}");
        }
        assert!(is_said_in("HIP_VISIBLE_DEVICES=0 vllm serve X") && !is_said_in("vllm serve X"));
    }
}
