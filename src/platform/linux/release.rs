//! Owns asking a process's own program to release memory, over HTTP on this machine and nowhere else. Before each request the target must still be that process, and the
//! port must be its program's own. What is asked and what answers mean is `advice::release`.

use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use ureq::Agent;

use super::procfs::{ProcError, Procfs};
use crate::advice::release::{Answer, Door, Loopback, Method, Release, Request};
use crate::gpu::ProcessKey;
use crate::platform::processes::Note;
use crate::platform::{http, regular};
use crate::text::harmless;

/// How long one request may take in all.
const TIME_OUT: Duration = Duration::from_secs(5);
/// More of an answer is not read.
const LONGEST_ANSWER: u64 = 1 << 20;

/// Asks a program to free VRAM. Returns what was asked of which program, or why that failed, as the end of a sentence.
pub fn ask(procfs: &Procfs, key: ProcessKey, release: &Release, note: impl Fn(Note)) -> Result<String, String> {
    let server = Server::of(&release.door, TIME_OUT)?;
    let looked = release.look().map(|look| send(procfs, key, &server, &look, &note)).transpose()?;
    for change in release.changes(looked.as_ref())? {
        release.accepted(&send(procfs, key, &server, &change, &note)?)?;
    }
    Ok(format!("{} took the request", release.way.program))
}

/// Sends one request, after checking again that the server belongs to the process.
fn send(
    procfs: &Procfs,
    key: ProcessKey,
    server: &Server,
    request: &Request,
    note: &impl Fn(Note),
) -> Result<Answer, String> {
    is_same(procfs, key)?;
    belongs_to(procfs, key, server.at)?;
    let body = request.body.as_deref().map(|body| format!(" {body}")).unwrap_or_default();
    let verb = request.method.as_ref();
    note(Note::Sent(format!("{verb} {}{}{body}", server.base, request.path)));
    let answer = server.send(request);
    note(Note::Answered(match &answer {
        Ok(answer) => answer.status.to_string(),
        Err(why) => why.clone(),
    }));
    answer
}

/// Fails if the process is no longer the one that was named.
fn is_same(procfs: &Procfs, key: ProcessKey) -> Result<(), String> {
    match procfs.stat(key.pid) {
        Ok(stat) if stat.key() == key => Ok(()),
        Ok(_) | Err(ProcError::Gone) => Err(format!("{} has exited, so nothing was sent", key.pid)),
        Err(error) => Err(format!("{} can't be looked up ({error}), so nothing was sent", key.pid)),
    }
}

/// What listens there is the target's own program: a process of the target's user that is the target or above it.
/// Where the sockets of such a process may not be seen (another user's), the socket's user must do.
fn belongs_to(procfs: &Procfs, key: ProcessKey, at: Loopback) -> Result<(), String> {
    let listeners = procfs.listeners(at.port);
    if listeners.is_empty() {
        return Err(format!("nothing listens at {at}"));
    }
    let another = format!("what listens at {at} is another program");
    let Ok(uid) = procfs.uid(key.pid) else { return Err(another) };
    let mut lineage = procfs.ancestors(key.pid);
    lineage.push(key.pid);
    for pid in lineage.into_iter().filter(|pid| procfs.uid(*pid) == Ok(uid)) {
        let owns = match procfs.open_sockets(pid) {
            Ok(sockets) => listeners.iter().any(|listener| sockets.contains(&listener.inode)),
            Err(ProcError::Denied) => listeners.iter().any(|listener| listener.uid == uid),
            Err(_) => false,
        };
        if owns {
            return Ok(());
        }
    }
    Err(another)
}

/// A server on this machine.
struct Server {
    at: Loopback,
    /// `http://127.0.0.1:8888`, with the path before the API's own.
    base: String,
    token: Option<String>,
    agent: Agent,
}

impl Server {
    fn of(door: &Door, time_out: Duration) -> Result<Server, String> {
        let (at, prefix, token) = match door {
            Door::Port(at) => (*at, String::new(), None),
            Door::Notebook { runtime, server, .. } => notebook(runtime, *server)?,
        };
        Ok(Server { at, base: format!("http://{at}{prefix}"), token, agent: http::agent(time_out) })
    }

    fn send(&self, request: &Request) -> Result<Answer, String> {
        let url = format!("{}{}", self.base, request.path);
        let token = self.token.as_ref().map(|token| format!("token {token}"));
        let answer = match request.method {
            Method::Get => {
                let get = self.agent.get(&url);
                token.iter().fold(get, |get, token| get.header("Authorization", token)).call()
            }
            Method::Post => {
                let post = self.agent.post(&url).header("Content-Type", "application/json");
                let post = token.iter().fold(post, |post, token| post.header("Authorization", token));
                post.send(request.body.as_deref().unwrap_or_default())
            }
        };
        let mut answer = answer.map_err(|error| self.trouble(&error))?;
        let body = http::body(&mut answer, LONGEST_ANSWER).map_err(|error| self.trouble(&error))?;
        Ok(Answer { status: answer.status().as_u16(), body: String::from_utf8_lossy(&body).into_owned() })
    }

    fn trouble(&self, error: &ureq::Error) -> String {
        let at = self.at;
        match error {
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                format!("nothing answers at {at} (connection refused)")
            }
            ureq::Error::Timeout(_) => format!("no answer within {} s; it may yet do it", TIME_OUT.as_secs()),
            other => format!("{at} did not answer as a web server does ({})", harmless(&other.to_string())),
        }
    }
}

/// The lines of jpserver-PID.json that matter here.
#[derive(Deserialize)]
struct Jupyter {
    pid: u32,
    port: u16,
    #[serde(default)]
    base_url: String,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    secure: bool,
    #[serde(default)]
    token: String,
    #[serde(default)]
    password: bool,
}

/// The address, the path before the API's own and the token of the server that started a kernel, from the file that it keeps for its user alone.
fn notebook(runtime: &Path, server: u32) -> Result<(Loopback, String, Option<String>), String> {
    let path = runtime.join(format!("jpserver-{server}.json"));
    let mut text = String::new();
    let read = regular::open(&path).and_then(|file| file.take(LONGEST_ANSWER).read_to_string(&mut text));
    read.map_err(|error| format!("the address of its server can't be read from {}: {error}", path.display()))?;
    let told: Jupyter =
        serde_json::from_str(&text).map_err(|error| format!("{} is not as expected: {error}", path.display()))?;
    if told.pid != server {
        return Err(format!("{} is another server's", path.display()));
    }
    if told.secure {
        return Err("its server speaks HTTPS only; restart the kernel from its Kernel menu".to_owned());
    }
    if told.token.is_empty() && told.password {
        return Err("its server wants a password; restart the kernel from its Kernel menu".to_owned());
    }
    let v6 = match told.hostname.as_str() {
        "" | "localhost" | "127.0.0.1" | "0.0.0.0" | "*" | "::" => false,
        "::1" => true,
        _ => return Err("its server listens at another address; restart the kernel from its Kernel menu".to_owned()),
    };
    let prefix = told.base_url.trim_matches('/');
    if !prefix.chars().all(|c| c.is_ascii_alphanumeric() || "-._~%/@".contains(c)) {
        return Err(format!("{} is not as expected: base_url", path.display()));
    }
    let slash = if prefix.is_empty() { "" } else { "/" };
    let token = Some(told.token).filter(|token| !token.is_empty());
    Ok((Loopback { v6, port: told.port }, format!("{slash}{prefix}"), token))
}
