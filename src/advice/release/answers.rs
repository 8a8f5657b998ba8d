//! Owns what the programs' APIs are asked and what their answers mean. A request is a value; an answer is foreign text.

use serde_json::Value;
use strum::AsRefStr;

use super::{Api, Door, Release};
use crate::text::harmless;

/// Whether a request only asks or changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, AsRefStr)]
#[strum(serialize_all = "UPPERCASE")]
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

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The body, cut where it is longer than any of these answers is.
    pub body: String,
}

/// How much of a foreign answer is shown.
const QUOTED: usize = 100;

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
        Some(Request { method: Method::Get, path: self.way.look?.to_owned(), body: None })
    }

    /// The request that changes something, for one model where the API takes one.
    pub(super) fn change(&self, model: &str) -> Request {
        let kernel = match &self.door {
            Door::Notebook { kernel, .. } => kernel.as_str(),
            Door::Port(_) => "",
        };
        let body = self.way.body.map(|body| body.replace("{model}", &Value::from(model).to_string()));
        Request { method: Method::Post, path: self.way.change.replace("{kernel}", kernel), body }
    }

    /// What is to be sent after that answer, one request a model; else why nothing is, as a sentence's end.
    pub fn changes(&self, answer: Option<&Answer>) -> Result<Vec<Request>, String> {
        let Some(answer) = answer else { return Ok(vec![self.change("")]) };
        self.accepted(answer)?;
        let other = || format!("what answers there is not {}", self.way.program);
        let body = answer.json().ok_or_else(other)?;
        match self.way.api {
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
            Api::Jupyter if !body.is_array() => Err(other()),
            _ if self.way.answers_with.iter().any(|name| body.get(name).is_none()) => Err(other()),
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
        if let Some(refused) = self.way.refused.get(&status) {
            return Err((*refused).to_owned());
        }
        Err(match status {
            200..=299 => return Ok(()),
            300..=399 => format!("it points somewhere else ({status}), which is not followed"),
            401 | 403 => format!("it requires a key or a password ({status})"),
            404 => format!("it knows neither this request nor this model (404){}", answer.quoted()),
            _ => format!("it answered {status}{}", answer.quoted()),
        })
    }
}
