//! Owns telling inference servers apart: engines that load a model and answer requests with it, and their workers.

use super::invocation::{How, Invocation, Traits, base, with};

const MODEL: [&str; 5] = ["--model", "--model-path", "--model-id", "-m", "-hf"];

/// What to call it.
pub(super) fn label(traits: &Traits, run: &Invocation) -> Option<String> {
    let title = traits.arguments.first().map(String::as_str).unwrap_or_default();
    titled(traits, title)
        .or_else(|| ollama(traits, run))
        .or_else(|| llama_cpp(run))
        .or_else(|| lm_studio(traits, run))
        .or_else(|| python_engine(traits, run))
        .or_else(|| triton(run))
}

/// Engines whose processes set their own title; the model is on an ancestor's command line.
fn titled(traits: &Traits, title: &str) -> Option<String> {
    let (engine, role) = title.split_once("::")?;
    let label = match engine {
        "VLLM" => format!("vLLM {}", vllm_role(role)),
        "sglang" => format!("SGLang {}", role.replace('_', " ")),
        "sgl_diffusion" => "SGLang diffusion".into(),
        "ray" if role.starts_with("RayWorkerWrapper") => "vLLM worker on Ray".into(),
        "ray" if role == "IDLE" => return Some("Ray idle worker".into()),
        "ray" => return Some(format!("Ray {}", role.split_ascii_whitespace().next().unwrap_or(role))),
        _ => return None,
    };
    let parent = traits.parent();
    Some(with(&label, parent.as_ref().and_then(served_model)))
}

/// `EngineCore_DP0` is the engine (rank 0), `Worker_TP1` a worker.
fn vllm_role(role: &str) -> String {
    let (name, rank) = role.split_once('_').unwrap_or((role, ""));
    let name = match name {
        "EngineCore" | "EngineCor" => "engine",
        "Worker" => "worker",
        "APIServer" => "front end",
        "DPCoordinator" => "coordinator",
        other => other,
    };
    format!("{name} {}", rank.replace('_', " ")).trim_end().to_owned()
}

/// The model of a server's command line.
fn served_model(run: &Invocation) -> Option<&str> {
    run.after("serve").or_else(|| run.option(&MODEL)).map(short_model)
}

/// A path's last part; `organisation/model` as it is.
fn short_model(model: &str) -> &str {
    if model.starts_with(['/', '.', '~']) { base(model) } else { model }
}

/// The server's child: since 0.30 a llama-server, before that itself as `runner`.
fn ollama(traits: &Traits, run: &Invocation) -> Option<String> {
    let runs = run.name == "ollama" && run.has("runner") || run.name == "ollama_llama_server";
    let is_below_ollama = traits.ancestors.iter().flatten().any(|word| base(word) == "ollama");
    let is_its_llama_server = run.name == "llama-server"
        && run.has("--no-webui")
        && (run.path.contains("/ollama/") || run.has("--offline") && is_below_ollama);
    if !runs && !is_its_llama_server {
        return None;
    }
    // Models are blobs named by their hash, except for MLX.
    let model = run.option(&["--model"]).map(base).filter(|name| !name.starts_with("sha256-"));
    Some(with("Ollama runner", model))
}

fn llama_cpp(run: &Invocation) -> Option<String> {
    let known = ["llama-server", "llama-cli", "llama-bench", "llama-run", "llama-mtmd-cli", "llama-perplexity"];
    if known.contains(&run.name.as_str()) {
        let model = run.option(&["-m", "--model", "-hf", "-hfr", "--hf-repo"]).map(short_model);
        return Some(with(&run.name, run.option(&["--alias", "-a"]).or(model)));
    }
    if run.name.starts_with("koboldcpp") {
        return Some(with("KoboldCpp", run.option(&["--model", "--config"]).map(base)));
    }
    None
}

fn lm_studio(traits: &Traits, run: &Invocation) -> Option<String> {
    if run.rest.iter().any(|word| word.ends_with("llmworker.js")) {
        return Some("LM Studio model".into());
    }
    ["llmster", "lm-studio"].contains(&traits.comm).then(|| "LM Studio".into())
}

fn python_engine(traits: &Traits, run: &Invocation) -> Option<String> {
    let serves = run.has("serve") || run.how == How::Module;
    let label = match () {
        () if run.is_of("vllm") && serves => "vLLM server",
        () if run.is_of("sglang") && serves => "SGLang server",
        () if run.name.starts_with("text-generation-launcher") => "TGI launcher",
        () if run.name.starts_with("text-generation-server") => "TGI server",
        () if run.is_of("lmdeploy") => return Some(with("LMDeploy", run.after("api_server").or(served_model(run)))),
        () if run.name == "trtllm-serve" => {
            return Some(with("TensorRT-LLM server", run.rest.first().map(|model| short_model(model))));
        }
        () if run.name == "mpi4py.futures.server" => "TensorRT-LLM worker",
        () if run.name == "server.py" && traits.folder().contains("text-generation-webui") => "text-generation-webui",
        () if run.name == "main.py" && traits.folder().contains("tabbyapi") => "TabbyAPI",
        () => return None,
    };
    Some(with(label, served_model(run)))
}

fn triton(run: &Invocation) -> Option<String> {
    match run.name.as_str() {
        "tritonserver" => Some("Triton server".into()),
        "triton_python_backend_stub" => {
            // …/NAME/1/model.py
            let path = run.rest.iter().find(|word| word.ends_with("/model.py"))?;
            Some(with("Triton Python model", path.rsplit('/').nth(2)))
        }
        _ => None,
    }
}
