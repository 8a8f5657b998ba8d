//! Owns how memory is released without terminating a process: which processes can be asked over their own API to release memory, at which address of this
//! machine, by which requests, and what the answers mean (`answers`). Only derived and described here: `runtime`
//! sends, after a person's yes.

mod answers;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::gpu::guard::{Refusal, Viewer};
use crate::gpu::recognise::invocation::Invocation;
use crate::gpu::{GpuProcess, ProcessKey};
use crate::knowledge::fix::Safety;
use crate::packed;

pub use answers::{Answer, Method, Request};

/// How one process is asked to release memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub way: &'static Way,
    pub door: Door,
    /// The one model meant, where the row names it; else all that it has loaded.
    pub model: Option<String>,
}

/// An API that releases memory, and what is asked of it: a row of `knowledge/advice/apis.ron`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    pub api: Api,
    /// Its program, as people call it.
    pub program: &'static str,
    /// What a process is recognized as whose program has it: exactly, or how that begins; and what is not in it.
    #[serde(default)]
    called: Vec<&'static str>,
    begins: Option<&'static str>,
    not: Option<&'static str>,
    /// The option that its program must have been started with.
    needs: Option<&'static str>,
    /// The port that it usually listens on.
    #[serde(default)]
    port: u16,
    /// The path of the request that only asks, and what its answer has.
    look: Option<&'static str>,
    #[serde(default)]
    answers_with: Vec<&'static str>,
    /// The path of the request that changes something, and its JSON.
    change: &'static str,
    body: Option<&'static str>,
    /// What is asked of it.
    asks: &'static str,
    /// What that means for whoever uses it.
    pub means: &'static str,
    /// What it costs in a few words, and as a class.
    pub costs: &'static str,
    pub safety: Safety,
    /// What it does to the process, as the first word of a title.
    pub verb: &'static str,
    /// What a status says here.
    #[serde(default)]
    refused: BTreeMap<u16, &'static str>,
}

/// Whose API it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
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

/// The APIs that release memory.
pub static WAYS: LazyLock<Vec<Way>> = LazyLock::new(|| packed::table(include_str!("../../knowledge/advice/apis.ron")));

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

/// How this process can be asked; `None` where its program has no API for it, or where that can't be reached for
/// certain: in a container, over TLS, at another address than this machine's own.
pub fn route(row: &GpuProcess) -> Option<Release> {
    if row.container.is_some() {
        return None;
    }
    let label = row.recognised_as.as_deref()?;
    let way = WAYS.iter().find(|way| way.is_of(label))?;
    let own = run_of(row.command.known().map(String::as_str));
    let server = run_of(row.server_command.as_deref());
    // A worker's own command line says nothing of the port: its server's does.
    let run = match way.api {
        Api::Ollama => {
            let door = Door::Port(ollama_of(row)?);
            return Some(Release { way, door, model: named_model(label) });
        }
        Api::Jupyter => return Some(Release { way, door: notebook(row)?, model: None }),
        Api::LlamaRouter if !is_router(&server) => return None,
        Api::LlamaRouter => &server,
        Api::Vllm | Api::SgLang if row.server_command.is_some() => &server,
        Api::Vllm | Api::SgLang if is_title(row) => return None,
        Api::Vllm | Api::SgLang | Api::ComfyUi | Api::WebUi => &own,
    };
    if way.needs.is_some_and(|option| !run.has(option)) {
        return None;
    }
    let model = match way.api {
        Api::LlamaRouter => own.option(&["--alias", "-a"]).filter(|name| is_plain(name)).map(str::to_owned),
        _ => None,
    };
    Some(Release { way, door: Door::Port(listens_at(run, way.port)?), model })
}

/// The identity of a row whose memory could be had, as the verdict names it; `offer` tells which of them
/// a step may be about. Another user's Ollama counts: it is a service for everybody.
pub fn reach(viewer: &Viewer, row: &GpuProcess) -> Option<ProcessKey> {
    match viewer.may_end(row) {
        Ok(key) => Some(key),
        Err(Refusal::OtherUser(..)) if row.proved && route(row)?.way.api == Api::Ollama => row.key(),
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

/// Where the server of an Ollama runner listens.
fn ollama_of(row: &GpuProcess) -> Option<Loopback> {
    match row.server_command.as_deref().and_then(|command| command.strip_prefix("OLLAMA_HOST=")) {
        Some(rest) => ollama_at(rest.split_whitespace().next().unwrap_or_default()),
        None => Some(Loopback { v6: false, port: OLLAMA_PORT }),
    }
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
fn notebook(row: &GpuProcess) -> Option<Door> {
    let (_, rest) = row.command.known()?.split_once(" -f ")?;
    let (path, _) = rest.split_once(".json")?;
    let (runtime, kernel) = path.rsplit_once("/kernel-")?;
    let is_id = kernel.len() == 36 && kernel.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let server = row.parent_pid.value().filter(|server| *server > 1 && is_id && runtime.starts_with('/'))?;
    Some(Door::Notebook { kernel: kernel.to_owned(), runtime: runtime.into(), server })
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

impl Way {
    /// Whether the program that a process is recognized as has this API.
    fn is_of(&self, label: &str) -> bool {
        let is_called = self.called.contains(&label) || self.begins.is_some_and(|start| label.starts_with(start));
        is_called && self.not.is_none_or(|other| !label.contains(other))
    }
}

impl Release {
    /// What is asked of whom: "Ask Ollama to unload llama3.1:8b".
    pub fn asks(&self) -> String {
        let models = self.model.as_deref().unwrap_or("the models it has loaded");
        format!("Ask {} to {}", self.way.program, self.way.asks.replace("{models}", models))
    }

    /// All that is sent, in order, as the question shows it.
    pub fn requests(&self) -> Vec<String> {
        let change = self.change(self.model.as_deref().unwrap_or("NAME"));
        let body = change.body.as_ref().map(|body| format!(" {body}")).unwrap_or_default();
        // Which ones are loaded, the first request asks.
        let each = self.model.is_none() && matches!(self.way.api, Api::Ollama | Api::LlamaRouter);
        let times = if each { ", once for each loaded model" } else { "" };
        let look = self.look().map(|look| self.request_in_words(&look));
        look.into_iter().chain([format!("{}{body}{times}", self.request_in_words(&change))]).collect()
    }

    /// The request that changes something, as the question shows it.
    pub fn shown(&self) -> String {
        self.request_in_words(&self.change(self.model.as_deref().unwrap_or_default()))
    }

    /// A request without its body, as the question shows it.
    fn request_in_words(&self, request: &Request) -> String {
        let (verb, path) = (request.method.as_ref(), &request.path);
        match &self.door {
            Door::Port(at) => format!("{verb} http://{at}{path}"),
            Door::Notebook { server, .. } => format!("{verb} {path} to its own server, process {server}"),
        }
    }

    /// The same for a person to run; `None` where it can't be said in a command (the token is secret).
    pub fn command(&self) -> Option<String> {
        let Door::Port(at) = &self.door else { return None };
        let request = self.change(self.model.as_deref().unwrap_or_default());
        let host = match at {
            Loopback { v6: false, port: OLLAMA_PORT } => String::new(),
            elsewhere => format!("OLLAMA_HOST={elsewhere} "),
        };
        Some(match (self.way.api, &self.model) {
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
