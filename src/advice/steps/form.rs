//! Owns whose forms of a fix are the person's: which programs they run, which library is only below them, and on which
//! system, with what that changes in a step.

use crate::advice::rerun::{Change, Changes};
use crate::knowledge::diagnosis::{CauseKind, Diagnosis, MemoryKind, Platform};

/// What the person runs before whose code complained: an Ollama user is not told llama-server's flags. A limit of a
/// control group comes first: whoever set it can raise it.
pub fn programs(diagnosis: &Diagnosis) -> Vec<&str> {
    let is_limit = diagnosis.run.told == Some(CauseKind::Limit);
    let manager = diagnosis.run.manager().filter(|_| is_limit);
    // Where nobody is named who set it, there is still the limit to be raised, not the machine's memory.
    let unnamed = ["limit"].into_iter().filter(|_| is_limit && diagnosis.memory == Some(MemoryKind::Host));
    let closed = diagnosis.program.as_deref().is_some_and(|program| kind(program).is_some());
    let below = diagnosis.raised_by.as_deref().filter(|name| !(closed && LIBRARIES.contains(name)));
    let raised_by = below.filter(|_| is_limit);
    let by = |start: &str| diagnosis.raised_by.as_deref().is_some_and(|name| name.starts_with(start));
    let is_exl = diagnosis.program.as_deref() == Some("text-generation-webui") && by("exllama");
    let loader = ["text-generation-webui, ExLlama"].into_iter().filter(|_| is_exl);
    let names = [diagnosis.program.as_deref(), below].into_iter().flatten();
    manager
        .into_iter()
        .chain(raised_by)
        .chain(unnamed)
        .chain(loader)
        .chain(names.flat_map(|name| [Some(name), family(name), kind(name)]).flatten())
        .collect()
}

/// What others are built on: its options and code are not for the person who runs one of the programs below.
const LIBRARIES: &[&str] = &[
    "llama.cpp",
    "pytorch",
    "transformers",
    "diffusers",
    "accelerate",
    "exllama",
    "tensorflow",
    "jax",
    "onnxruntime",
    "mlx",
];

/// What kind of program it is, where it has settings of its own: a form for the kind is for each of them.
pub fn kind(program: &str) -> Option<&'static str> {
    Some(match program {
        "comfyui"
        | "invokeai"
        | "fooocus"
        | "forge"
        | "sd.next"
        | "stable-diffusion-webui"
        | "stable-diffusion.cpp"
        | "easy-diffusion"
        | "diffusers" => "images",
        "kohya_ss" | "onetrainer" => "image training",
        "faster-whisper" | "whisperx" | "whisper.cpp" | "whisper" | "pyannote-audio" => "speech",
        "ollama"
        | "lm studio"
        | "koboldcpp"
        | "text-generation-webui"
        | "jan"
        | "gpt4all"
        | "localai"
        | "tabbyapi"
        | "khoj"
        | "localgpt"
        | "privategpt"
        | "exo" => "chat",
        "vllm" | "sglang" | "tgi" | "lmdeploy" | "tensorrt-llm" | "mlc-llm" | "triton-server" | "xinference"
        | "djl-serving" => "serving",
        _ => return None,
    })
}

/// The system it ran on. Only Macs share the memory that way among what is told of here.
pub fn ran_on(diagnosis: &Diagnosis) -> Option<Platform> {
    let shared = diagnosis.memory == Some(MemoryKind::Unified);
    diagnosis.run.platform().or_else(|| shared.then_some(Platform::Mac))
}

/// Where a variable of Ollama's server is set.
pub fn where_set(ran_on: Option<Platform>) -> &'static str {
    match ran_on {
        Some(Platform::Mac) => "on a Mac for the app",
        Some(Platform::Windows) => "a variable of your Windows account",
        _ => "Linux service: an Environment= line in sudo systemctl edit ollama.service",
    }
}

/// The variables of a command as this system keeps them for a program that is not started from a shell.
pub fn kept(command: &str, changes: &Changes, ran_on: Option<Platform>) -> Option<String> {
    let verb = match ran_on? {
        Platform::Mac => "launchctl setenv",
        Platform::Windows => "setx",
        _ => return None,
    };
    let line = |change: &Change| match change {
        Change::Env(name, value) => Some(format!("{verb} {name} {value}")),
        _ => None,
    };
    let lines = changes.all.iter().map(line).collect::<Option<Vec<_>>>()?;
    command.ends_with("ollama serve").then(|| lines.join("\n"))
}

/// The program that a process of this name belongs to; the kernel cuts names after 15 characters.
fn family(name: &str) -> Option<&'static str> {
    let families = [
        ("llama-", "llama.cpp"),
        ("ollama", "ollama"),
        ("trl ", "trl"),
        ("VLLM::", "vllm"),
        ("sglang::", "sglang"),
        ("ray::", "ray"),
        ("pt_", "pytorch"),
        ("cc1", "gcc"),
        ("cicc", "gcc"),
        ("ptxas", "gcc"),
        ("nvcc", "gcc"),
        ("clang", "gcc"),
        ("llvm", "gcc"),
    ];
    families.into_iter().find(|(start, of)| name.starts_with(start) && name != *of).map(|(_, of)| of)
}
