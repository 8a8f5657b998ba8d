//! Owns what the programs' APIs are asked and what their answers mean. A request is a value; an answer is foreign text.

use serde::Serialize;
use serde_json::Value;

use super::{Api, Door, Release};
use crate::text::harmless;

/// Whether a request only asks or changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    /// From the `/` on, with its query.
    pub path: String,
    /// JSON, where there is a body.
    pub body: Option<String>,
}

/// The JSON of a request that changes something.
#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Ollama { keep_alive: u32, model: &'a str },
    ComfyUi { free_memory: bool, unload_models: bool },
    LlamaRouter { model: &'a str },
    SgLang {},
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The body, cut where it is longer than any of these answers is.
    pub body: String,
}

/// How much of a foreign answer is shown.
const QUOTED: usize = 100;

impl Request {
    fn get(path: &str) -> Request {
        Request { method: Method::Get, path: path.to_owned(), body: None }
    }

    fn post(path: &str, body: Option<Body<'_>>) -> Request {
        let body = body.and_then(|body| serde_json::to_string(&body).ok());
        Request { method: Method::Post, path: path.to_owned(), body }
    }
}

impl Answer {
    fn json(&self) -> Option<Value> {
        serde_json::from_str(&self.body).ok()
    }

    fn quoted(&self) -> String {
        let text: String = harmless(self.body.trim()).chars().take(QUOTED).collect();
        if text.is_empty() { String::new() } else { format!(": {text}") }
    }
}

impl Release {
    /// The request that only asks, sent first: whether it is that program, and what it holds.
    pub fn look(&self) -> Option<Request> {
        Some(Request::get(match self.api {
            Api::Ollama => "/api/ps",
            Api::ComfyUi => "/system_stats",
            Api::WebUi => "/sdapi/v1/memory",
            Api::LlamaRouter => "/models",
            Api::Vllm => "/is_sleeping",
            Api::Jupyter => "/api/sessions",
            Api::SgLang => return None,
        }))
    }

    /// The request that changes something, for one model where the API takes one.
    pub(super) fn change(&self, model: &str) -> Request {
        match self.api {
            Api::Ollama => Request::post("/api/generate", Some(Body::Ollama { keep_alive: 0, model })),
            Api::ComfyUi => Request::post("/free", Some(Body::ComfyUi { free_memory: true, unload_models: true })),
            Api::WebUi => Request::post("/sdapi/v1/unload-checkpoint", None),
            Api::LlamaRouter => Request::post("/models/unload", Some(Body::LlamaRouter { model })),
            Api::Vllm => Request::post("/sleep?level=1&mode=wait", None),
            Api::SgLang => Request::post("/release_memory_occupation", Some(Body::SgLang {})),
            Api::Jupyter => {
                let kernel = match &self.door {
                    Door::Notebook { kernel, .. } => kernel.as_str(),
                    Door::Port(_) => "",
                };
                Request::post(&format!("/api/kernels/{kernel}/restart"), None)
            }
        }
    }

    /// What is to be sent after that answer, one request a model; else why nothing is, as a sentence's end.
    pub fn changes(&self, answer: Option<&Answer>) -> Result<Vec<Request>, String> {
        let Some(answer) = answer else { return Ok(vec![self.change("")]) };
        self.accepted(answer)?;
        let other = || format!("what answers there is not {}", self.program());
        let body = answer.json().ok_or_else(other)?;
        match self.api {
            Api::Ollama => {
                let models = body.get("models").and_then(Value::as_array).ok_or_else(other)?;
                let on_the_card = |model: &&Value| model.get("size_vram").and_then(Value::as_u64) != Some(0);
                self.each(models.iter().filter(on_the_card).filter_map(|model| model.get("name")?.as_str()))
            }
            Api::LlamaRouter => {
                let models = body.get("data").and_then(Value::as_array).ok_or_else(other)?;
                let loaded = |model: &&Value| model.pointer("/status/value").and_then(Value::as_str) == Some("loaded");
                if models.iter().all(|model| model.get("status").is_none()) {
                    return Err("this llama-server serves one model and can't unload it".to_owned());
                }
                self.each(models.iter().filter(loaded).filter_map(|model| model.get("id")?.as_str()))
            }
            Api::Vllm => match body.get("is_sleeping").and_then(Value::as_bool) {
                Some(true) => Err("it sleeps already".to_owned()),
                Some(false) => Ok(vec![self.change("")]),
                None => Err(other()),
            },
            Api::ComfyUi if body.get("system").is_none() || body.get("devices").is_none() => Err(other()),
            Api::WebUi if body.get("cuda").is_none() => Err(other()),
            Api::Jupyter if !body.is_array() => Err(other()),
            Api::ComfyUi | Api::WebUi | Api::Jupyter | Api::SgLang => Ok(vec![self.change("")]),
        }
    }

    /// A request for the model that the row names, else for each that is loaded.
    fn each<'a>(&self, loaded: impl Iterator<Item = &'a str>) -> Result<Vec<Request>, String> {
        let loaded: Vec<&str> = loaded.collect();
        match &self.model {
            _ if loaded.is_empty() => Err("it has no model loaded".to_owned()),
            Some(model) if !loaded.contains(&model.as_str()) => {
                let names = harmless(&loaded.join(", ")).chars().take(QUOTED).collect::<String>();
                Err(format!("it has not loaded {model} but {names}"))
            }
            Some(model) => Ok(vec![self.change(model)]),
            None => Ok(loaded.into_iter().map(|model| self.change(model)).collect()),
        }
    }

    /// Whether it took the request; else why not, as a sentence's end.
    pub fn accepted(&self, answer: &Answer) -> Result<(), String> {
        let status = answer.status;
        Err(match (self.api, status) {
            (_, 200..=299) => return Ok(()),
            (_, 300..=399) => format!("it points somewhere else ({status}), and I don't go there"),
            (Api::Ollama, 403) => "it does not let this machine's own address in (403)".to_owned(),
            (_, 401 | 403) => format!("it wants a key or a password, which I don't have ({status})"),
            (Api::Vllm, 404) => {
                "it was started without its sleep mode (404): that takes --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1"
                    .to_owned()
            }
            (Api::WebUi, 404) => "it was started without --api (404)".to_owned(),
            (Api::Jupyter, 404) => "its server does not know this kernel (404)".to_owned(),
            (_, 404) => format!("it knows neither this request nor this model (404){}", answer.quoted()),
            _ => format!("it answered {status}{}", answer.quoted()),
        })
    }
}
