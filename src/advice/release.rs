//! Owns the gentle ways: which processes can be asked over their own API to release memory, at which address of this
//! machine, by which requests, and what the answers mean (`answers`). Only derived and described here: `runtime`
//! sends, after a person's yes. The facts about other people's programs were read in their sources on 2026-11-20.

mod answers;

use std::fmt;
use std::path::PathBuf;

use crate::gpu::guard::{Refusal, Viewer};
use crate::gpu::recognise::invocation::Invocation;
use crate::gpu::{GpuProcess, ProcessKey};
use crate::knowledge::fix::Safety;

pub use answers::{Answer, Method, Request};

/// How one process is asked to release memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub api: Api,
    pub door: Door,
    /// The one model meant, where the row names it; else all that it has loaded.
    pub model: Option<String>,
}

/// Whose API it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Ollama: the model's runner ends.
    Ollama,
    /// ComfyUI: a flag that is read when the running prompt is done.
    ComfyUi,
    /// AUTOMATIC1111's web UI and Forge, started with `--api`.
    WebUi,
    /// llama-server started without a model: the model's child ends.
    LlamaRouter,
    Vllm,
    /// SGLang with its memory saver.
    SgLang,
    /// A notebook kernel, restarted by its own server.
    Jupyter,
}

/// Where to knock. There is no way to say any other machine than this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// A port of the loopback address.
    Port(Loopback),
    /// The Jupyter server that started this kernel. Its address and token stand in a file that only its user can read.
    Notebook {
        /// The kernel's id, which is the API's own.
        kernel: String,
        /// The folder of jpserver-PID.json.
        runtime: PathBuf,
        server: u32,
    },
}

/// A port on 127.0.0.1 or `[::1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loopback {
    pub v6: bool,
    pub port: u16,
}

impl fmt::Display for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = if self.v6 { "[::1]" } else { "127.0.0.1" };
        write!(f, "{host}:{}", self.port)
    }
}

const OLLAMA_PORT: u16 = 11434;
/// The usual ports of the others: ComfyUI, the web UIs, llama-server, vLLM, SGLang.
const PORTS: [(Api, u16); 5] =
    [(Api::ComfyUi, 8188), (Api::WebUi, 7860), (Api::LlamaRouter, 8080), (Api::Vllm, 8000), (Api::SgLang, 30000)];

/// How this process can be asked; `None` where its program has no API for it, or where that can't be reached for
/// certain: in a container, over TLS, at another address than this machine's own.
pub fn route(row: &GpuProcess) -> Option<Release> {
    if row.container.is_some() {
        return None;
    }
    let label = row.recognised_as.as_deref()?;
    let own = run_of(row.command.known().map(String::as_str));
    let server = run_of(row.server_command.as_deref());
    let api = match label {
        label if label.starts_with("Ollama runner") => {
            let at = match row.server_command.as_deref().and_then(|command| command.strip_prefix("OLLAMA_HOST=")) {
                Some(rest) => ollama_at(rest.split_whitespace().next().unwrap_or_default())?,
                None => Loopback { v6: false, port: OLLAMA_PORT },
            };
            return Some(Release { api: Api::Ollama, door: Door::Port(at), model: named_model(label) });
        }
        label if label.starts_with("Jupyter kernel") => return notebook(row),
        label if label.starts_with("ComfyUI") => Api::ComfyUi,
        "Stable Diffusion web UI" | "Forge" if own.has("--api") => Api::WebUi,
        label if label.starts_with("llama-server") && is_router(&server) => Api::LlamaRouter,
        label if label.starts_with("vLLM") && !label.contains("Ray") => Api::Vllm,
        label if label.starts_with("SGLang") && !label.starts_with("SGLang diffusion") => Api::SgLang,
        _ => return None,
    };
    // A worker's own command line says nothing of the port: its server's does.
    let run = match api {
        Api::LlamaRouter => &server,
        Api::Vllm | Api::SgLang if row.server_command.is_some() => &server,
        Api::Vllm | Api::SgLang if is_title(row) => return None,
        _ => &own,
    };
    if api == Api::SgLang && !run.has("--enable-memory-saver") {
        return None;
    }
    let usual = PORTS.iter().find(|(whose, _)| *whose == api).map(|(_, port)| *port)?;
    let model = match api {
        Api::LlamaRouter => own.option(&["--alias", "-a"]).filter(|name| is_plain(name)).map(str::to_owned),
        _ => None,
    };
    Some(Release { api, door: Door::Port(listens_at(run, usual)?), model })
}

/// The identity of a row whose memory could be had, as the verdict names it; `offer` tells which of them
/// a step may be about. Another user's Ollama counts: it is a service for everybody.
pub fn reach(viewer: &Viewer, row: &GpuProcess) -> Option<ProcessKey> {
    match viewer.may_end(row) {
        Ok(key) => Some(key),
        Err(Refusal::OtherUser(..)) if row.proved && route(row)?.api == Api::Ollama => row.key(),
        Err(_) => None,
    }
}

fn run_of(command: Option<&str>) -> Invocation {
    let words: Vec<String> = command.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    Invocation::of(&words)
}

/// A process that overwrote its arguments: `VLLM::EngineCore`, `sglang::scheduler`.
fn is_title(row: &GpuProcess) -> bool {
    row.command.known().is_some_and(|command| command.contains("::") && !command.contains(" -"))
}

/// llama-server with no model of its own starts one child a model.
fn is_router(server: &Invocation) -> bool {
    let model = ["-m", "--model", "-hf", "-hfr", "--hf-repo", "-mu", "--model-url"];
    server.name == "llama-server" && server.option(&model).is_none()
}

/// OLLAMA_HOST as Ollama reads it: `[http://][HOST][:PORT]`; with `http://` and no port it means 80.
fn ollama_at(host: &str) -> Option<Loopback> {
    let (rest, usual) = match host.split_once("://") {
        Some(("http", rest)) => (rest, 80),
        Some(_) => return None,
        None => (host, OLLAMA_PORT),
    };
    let rest = rest.split('/').next().unwrap_or_default();
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') && host.matches(':').count() != 1 => (host, port.parse().ok()?),
        _ => (rest, usual),
    };
    Some(Loopback { v6: is_v6(host.trim_matches(['[', ']']))?, port })
}

/// Whether a listening address is reached at `[::1]` rather than at 127.0.0.1; `None` where it is neither.
fn is_v6(host: &str) -> Option<bool> {
    match host {
        "" | "127.0.0.1" | "localhost" | "0.0.0.0" | "::" => Some(false),
        "::1" => Some(true),
        _ => None,
    }
}

/// Where a server listens, as seen from this machine.
fn listens_at(run: &Invocation, usual: u16) -> Option<Loopback> {
    if run.rest.iter().any(|word| word.starts_with("--ssl-") || word.starts_with("--tls-")) {
        return None;
    }
    let port = match run.option(&["--port"]) {
        Some(port) => port.parse().ok().filter(|port| *port != 0)?,
        None => usual,
    };
    let host = run.option(&["--host", "--listen"]).unwrap_or("127.0.0.1");
    Some(Loopback { v6: host.split(',').find_map(is_v6)?, port })
}

/// `-f FOLDER/kernel-ID.json`, where the folder is the one that the server's own file lies in. A kernel of VS Code
/// (`kernel-v2-…`) has no server.
fn notebook(row: &GpuProcess) -> Option<Release> {
    let (_, rest) = row.command.known()?.split_once(" -f ")?;
    let (path, _) = rest.split_once(".json")?;
    let (runtime, kernel) = path.rsplit_once("/kernel-")?;
    let is_id = kernel.len() == 36 && kernel.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let server = row.parent_pid.value().filter(|server| *server > 1 && is_id && runtime.starts_with('/'))?;
    let door = Door::Notebook { kernel: kernel.to_owned(), runtime: runtime.into(), server };
    Some(Release { api: Api::Jupyter, door, model: None })
}

/// The model that a row's label names, where it has the form of one: it goes into a command line.
pub fn named_model(label: &str) -> Option<String> {
    let words = label.split_whitespace().map(|word| word.trim_matches(['(', ')', ',']));
    words.filter(|word| word.contains(':') && is_plain(word)).map(str::to_owned).next()
}

fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '/' | '-');
    !word.is_empty() && !word.starts_with('-') && word.chars().all(plain)
}

impl Release {
    /// Its program, as people call it.
    pub fn program(&self) -> &'static str {
        match self.api {
            Api::Ollama => "Ollama",
            Api::ComfyUi => "ComfyUI",
            Api::WebUi => "the web UI",
            Api::LlamaRouter => "llama-server",
            Api::Vllm => "vLLM",
            Api::SgLang => "SGLang",
            Api::Jupyter => "Jupyter",
        }
    }

    /// What is asked of whom: "Ask Ollama to unload llama3.1:8b".
    pub fn asks(&self) -> String {
        let models = self.model.as_deref().unwrap_or("the models it has loaded");
        let what = match self.api {
            Api::Ollama | Api::LlamaRouter => format!("unload {models}"),
            Api::ComfyUi => "unload its models".to_owned(),
            Api::WebUi => "move its checkpoint to system memory".to_owned(),
            Api::Vllm => "sleep: its weights go to system memory, its cache is dropped".to_owned(),
            Api::SgLang => "let go of its weights and its cache".to_owned(),
            Api::Jupyter => "restart this kernel".to_owned(),
        };
        format!("Ask {} to {what}", self.program())
    }

    /// What that means for whoever uses it.
    pub fn means(&self) -> &'static str {
        match self.api {
            Api::Ollama => "Other users' answers under way finish first; it loads again at the next question.",
            Api::ComfyUi => "A running prompt finishes first. The models are loaded again at the next one.",
            Api::WebUi => "It is loaded again at the next picture.",
            Api::LlamaRouter => "It loads the model again when it is asked for.",
            Api::Vllm => "Requests under way finish first. It answers nobody until it is woken with POST /wake_up.",
            Api::SgLang => {
                "Only while it answers nobody: a busy one may crash. It answers again after POST /resume_memory_occupation."
            }
            Api::Jupyter => "Its variables are lost; the notebook and its cells stay. Its Kernel menu does the same.",
        }
    }

    /// What it costs in a few words.
    pub fn costs(&self) -> &'static str {
        match self.api {
            Api::Ollama | Api::LlamaRouter | Api::ComfyUi | Api::WebUi => "loading it again",
            Api::Vllm | Api::SgLang => "answers until woken",
            Api::Jupyter => "its variables",
        }
    }

    /// The same as a class.
    pub fn safety(&self) -> Safety {
        match self.api {
            Api::Ollama | Api::LlamaRouter | Api::ComfyUi | Api::WebUi => Safety::Safe,
            Api::Vllm | Api::SgLang | Api::Jupyter => Safety::LosesWork,
        }
    }

    /// The request that changes something, as the question shows it.
    pub fn shown(&self) -> String {
        let path = self.change(self.model.as_deref().unwrap_or_default()).path;
        match &self.door {
            Door::Port(at) => format!("POST http://{at}{path}"),
            Door::Notebook { server, .. } => format!("POST {path} to its own server, process {server}"),
        }
    }

    /// All that is sent, in order, as the question shows it.
    pub fn requests(&self) -> Vec<String> {
        let shown = |request: &Request| {
            let verb = if request.method == Method::Get { "GET" } else { "POST" };
            match &self.door {
                Door::Port(at) => format!("{verb} http://{at}{}", request.path),
                Door::Notebook { server, .. } => format!("{verb} {} to its own server, process {server}", request.path),
            }
        };
        let change = self.change(self.model.as_deref().unwrap_or("NAME"));
        let body = change.body.as_ref().map(|body| format!(" {body}")).unwrap_or_default();
        // Which ones are loaded, the first request asks.
        let each = self.model.is_none() && matches!(self.api, Api::Ollama | Api::LlamaRouter);
        let times = if each { ", once for each loaded model" } else { "" };
        let look = self.look().map(|look| shown(&look));
        look.into_iter().chain([format!("{}{body}{times}", shown(&change))]).collect()
    }

    /// The same for a person to run; `None` where it can't be said in a command (the token is secret).
    pub fn command(&self) -> Option<String> {
        let Door::Port(at) = &self.door else { return None };
        let request = self.change(self.model.as_deref().unwrap_or_default());
        let host = match at {
            Loopback { v6: false, port: OLLAMA_PORT } => String::new(),
            elsewhere => format!("OLLAMA_HOST={elsewhere} "),
        };
        Some(match (self.api, &self.model) {
            (Api::Ollama, Some(model)) => format!("{host}ollama stop {model}"),
            (Api::Ollama, None) => {
                format!("{host}ollama ps | awk 'NR>1 {{print $1}}' | {host}xargs -n1 ollama stop")
            }
            // Which ones are loaded is asked first.
            (Api::LlamaRouter, None) => return None,
            _ => {
                let body = request
                    .body
                    .map(|body| format!(" -H 'Content-Type: application/json' -d '{body}'"))
                    .unwrap_or_default();
                format!("curl -s -X POST 'http://{at}{}'{body}", request.path)
            }
        })
    }
}

#[cfg(test)]
mod tests;
