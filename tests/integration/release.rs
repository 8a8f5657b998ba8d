//! Requests to a process's own program to release VRAM: what is sent, to whom, and how every answer is handled. The
//! servers are real, run in this test, and own the process (its child).

use std::cell::RefCell;
use std::fs;

use oomdoctor::advice::release::{Api, Door, Loopback, Release, WAYS, Way};
use oomdoctor::gpu::ProcessKey;
use oomdoctor::platform::linux::procfs::Procfs;
use oomdoctor::platform::linux::release::ask;
use oomdoctor::platform::processes::Note;

use crate::support::api_server::{ApiServer, Reply};
use crate::support::fake_driver::Sleeper;

fn key(sleeper: &Sleeper) -> ProcessKey {
    Procfs::default().stat(sleeper.pid()).unwrap().key()
}

fn way(api: Api) -> &'static Way {
    WAYS.iter().find(|way| way.api == api).unwrap()
}

fn at(api: Api, port: u16, model: Option<&str>) -> Release {
    Release { way: way(api), door: Door::Port(Loopback { v6: false, port }), model: model.map(str::to_owned) }
}

fn try_it(release: &Release) -> Result<String, String> {
    let process = Sleeper::start();
    ask(&Procfs::default(), key(&process), release, |_| {})
}

/// Sends a release request to a server that replies as `reply` says; returns what was reported and what the server
/// received.
fn told(
    api: Api,
    model: Option<&str>,
    answer: impl FnMut(&str) -> Reply + Send + 'static,
) -> (Result<String, String>, Vec<String>) {
    let server = ApiServer::start(answer);
    let said = try_it(&at(api, server.port, model));
    (said, server.heard())
}

/// Replies as Ollama with two models loaded does.
fn ollama(request: &str) -> Reply {
    match request {
        "GET /api/ps" => Reply::Says(
            200,
            r#"{"models":[{"name":"llama3.1:8b","size_vram":6442450944},{"name":"qwen3:4b","size_vram":3221225472}]}"#,
        ),
        _ => Reply::Says(200, r#"{"model":"llama3.1:8b","response":"","done":true,"done_reason":"unload"}"#),
    }
}

#[test]
fn ollama_is_asked_what_it_has_loaded_and_to_unload_the_named_model() {
    let (said, heard) = told(Api::Ollama, Some("llama3.1:8b"), ollama);
    assert!(said.unwrap().contains("Ollama"));
    let unload = |model: &str| format!("POST /api/generate {{\"keep_alive\":0,\"model\":\"{model}\"}}");
    assert_eq!(heard, ["GET /api/ps".to_owned(), unload("llama3.1:8b")]);
    let (_, heard) = told(Api::Ollama, None, ollama);
    assert_eq!(heard, ["GET /api/ps".to_owned(), unload("llama3.1:8b"), unload("qwen3:4b")]);
    let (said, heard) = told(Api::Ollama, Some("gone:1"), ollama);
    assert!(said.unwrap_err().contains("not loaded gone:1"));
    assert_eq!(heard, ["GET /api/ps"], "nothing that changes something was sent");
}

#[test]
fn each_program_is_asked_through_its_own_api() {
    let free = r#"POST /free {"free_memory":true,"unload_models":true}"#;
    let cases: [(Api, Option<&str>, &'static str, Vec<&str>); 5] = [
        (Api::ComfyUi, None, r#"{"system":{},"devices":[]}"#, vec!["GET /system_stats", free]),
        (Api::WebUi, None, r#"{"cuda":{}}"#, vec!["GET /sdapi/v1/memory", "POST /sdapi/v1/unload-checkpoint"]),
        (Api::Vllm, None, r#"{"is_sleeping":false}"#, vec!["GET /is_sleeping", "POST /sleep?level=1&mode=wait"]),
        (Api::SgLang, None, "", vec!["POST /release_memory_occupation {}"]),
        (
            Api::LlamaRouter,
            Some("gemma"),
            r#"{"data":[{"id":"gemma","status":{"value":"loaded"}}]}"#,
            vec!["GET /models", r#"POST /models/unload {"model":"gemma"}"#],
        ),
    ];
    for (api, model, listed, expected) in cases {
        let (said, heard) = told(api, model, move |request| match request.starts_with("GET") {
            true => Reply::Says(200, listed),
            false => Reply::Says(200, ""),
        });
        assert_eq!((said.is_ok(), heard), (true, expected.iter().map(|line| (*line).to_owned()).collect()), "{api:?}");
    }
}

#[test]
fn every_failure_is_reported_and_nothing_more_is_sent() {
    let elsewhere = ApiServer::start(ollama);
    let moved = format!("http://127.0.0.1:{}/api/ps", elsewhere.port);
    type Answers = Box<dyn Fn() -> Reply + Send>;
    let cases: Vec<(Api, Answers, &str)> = vec![
        (Api::Ollama, Box::new(|| Reply::Says(403, "")), "(403)"),
        (Api::Ollama, Box::new(|| Reply::Says(200, "<html>Grafana")), "is not Ollama"),
        (Api::Ollama, Box::new(|| Reply::Garbage), "not answer as a web server"),
        (Api::Ollama, Box::new(|| Reply::Endless), "is not Ollama"),
        (Api::Ollama, Box::new(move || Reply::Moved(moved.clone())), "not followed"),
        (Api::Vllm, Box::new(|| Reply::Says(404, r#"{"detail":"Not Found"}"#)), "--enable-sleep-mode"),
        (Api::ComfyUi, Box::new(|| Reply::Says(401, "")), "password"),
        (Api::WebUi, Box::new(|| Reply::Says(404, "")), "without --api"),
    ];
    for (api, reply, why) in cases {
        let (said, heard) = told(api, None, move |_| reply());
        let said = said.unwrap_err();
        assert!(said.contains(why), "{said}");
        assert_eq!(heard.len(), 1, "{heard:?}");
    }
    assert_eq!(elsewhere.heard(), Vec::<String>::new(), "the redirect was not followed");
    let (said, _) = told(Api::Ollama, Some("llama3.1:8b"), |request| match request.starts_with("GET") {
        true => ollama(request),
        false => Reply::Says(404, r#"{"error":"model 'llama3.1:8b' not found"}"#),
    });
    assert!(said.unwrap_err().contains("not found"));
}

#[test]
fn a_server_that_never_answers_times_out() {
    let (said, _) = told(Api::Ollama, None, |_| Reply::Silence);
    assert!(said.unwrap_err().contains("no answer within 5 s"));
}

#[test]
fn an_exited_or_replaced_process_is_not_asked_to_release_vram() {
    let server = ApiServer::start(ollama);
    let release = at(Api::Ollama, server.port, None);
    let mut process = Sleeper::start();
    let alive = key(&process);
    let reused = ProcessKey { start_ticks: alive.start_ticks + 1, ..alive };
    assert!(ask(&Procfs::default(), reused, &release, |_| {}).unwrap_err().contains("nothing was sent"));
    process.end();
    assert!(ask(&Procfs::default(), alive, &release, |_| {}).unwrap_err().contains("nothing was sent"));
    assert_eq!(server.heard(), Vec::<String>::new());
}

#[test]
fn a_process_that_exits_between_check_and_request_is_not_asked() {
    let mut process = Sleeper::start();
    let (key, mut process) = (key(&process), Some(std::mem::replace(&mut process, Sleeper::start())));
    let server = ApiServer::start(move |request| {
        drop(process.take());
        ollama(request)
    });
    let said = ask(&Procfs::default(), key, &at(Api::Ollama, server.port, None), |_| {});
    assert!(said.unwrap_err().contains("nothing was sent"));
    assert_eq!(server.heard(), ["GET /api/ps"]);
}

#[test]
fn a_port_of_another_program_or_of_none_is_not_asked() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert!(try_it(&at(Api::Ollama, free, None)).unwrap_err().contains("nothing listens"));
    // This test's server is not the parent of that process, whose parent is PID 1, so it does not own the process.
    let server = ApiServer::start(ollama);
    let stranger = orphan();
    let said = ask(&Procfs::default(), stranger.0, &at(Api::Ollama, server.port, None), |_| {});
    assert!(said.unwrap_err().contains("another program"));
    assert_eq!(server.heard(), Vec::<String>::new());
}

/// A process whose parent has exited, so that it is no child of this test.
struct Orphan(ProcessKey);

fn orphan() -> Orphan {
    let shell = std::process::Command::new("sh").args(["-c", "sleep 1000 >/dev/null 2>&1 & echo $!"]).output().unwrap();
    let pid = String::from_utf8(shell.stdout).unwrap().trim().parse().unwrap();
    Orphan(Procfs::default().stat(pid).unwrap().key())
}

impl Drop for Orphan {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.0.pid).unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

#[test]
fn each_request_is_recorded_before_it_is_sent_and_its_answer_after() {
    let server = ApiServer::start(ollama);
    let notes = RefCell::new(Vec::new());
    let process = Sleeper::start();
    let release = at(Api::Ollama, server.port, Some("qwen3:4b"));
    ask(&Procfs::default(), key(&process), &release, |note| notes.borrow_mut().push(note)).unwrap();
    let base = format!("http://127.0.0.1:{}", server.port);
    let expected = [
        Note::Sent(format!("GET {base}/api/ps")),
        Note::Answered("200".into()),
        Note::Sent(format!("POST {base}/api/generate {{\"keep_alive\":0,\"model\":\"qwen3:4b\"}}")),
        Note::Answered("200".into()),
    ];
    assert_eq!(notes.borrow()[..], expected);
    let sent = notes.into_inner().into_iter().filter_map(|note| match note {
        Note::Sent(request) => Some(request),
        Note::Answered(_) => None,
    });
    assert_eq!(sent.collect::<Vec<_>>(), release.requests(), "the question shows them as they are sent");
}

const KERNEL: &str = "8f2c7a10-3c1e-4a55-9d21-5a7be1f0c6aa";

#[test]
fn a_kernel_is_restarted_with_the_token_from_its_servers_file() {
    let server = ApiServer::start(|request| match request {
        "GET /lab/api/sessions" => Reply::Told(format!(r#"[{{"path":"sweep.ipynb","kernel":{{"id":"{KERNEL}"}}}}]"#)),
        _ => Reply::Says(200, "{}"),
    });
    let runtime = tempfile::tempdir().unwrap();
    let file = |pid: u32, more: &str| {
        let text = format!(
            r#"{{"pid":77,"port":{},"base_url":"/lab/","hostname":"localhost","token":"s3cret"{more}}}"#,
            server.port
        );
        fs::write(runtime.path().join(format!("jpserver-{pid}.json")), text).unwrap();
    };
    let release = |server: u32| Release {
        way: way(Api::Jupyter),
        door: Door::Notebook { kernel: KERNEL.into(), runtime: runtime.path().into(), server },
        model: None,
    };
    file(77, "");
    let process = Sleeper::start();
    let notes = RefCell::new(Vec::new());
    ask(&Procfs::default(), key(&process), &release(77), |note| notes.borrow_mut().push(note)).unwrap();
    let (first, second) = (server.next(), server.next());
    assert_eq!(first.request, "GET /lab/api/sessions");
    assert_eq!(second.request, format!("POST /lab/api/kernels/{KERNEL}/restart"));
    assert_eq!((first.authorization, second.authorization), (Some("token s3cret".into()), Some("token s3cret".into())));
    assert!(!format!("{notes:?}").contains("s3cret"), "the token is recorded nowhere");
    let why = |pid: u32| ask(&Procfs::default(), key(&process), &release(pid), |_| {}).unwrap_err();
    assert!(why(78).contains("can't be read"));
    file(78, "");
    assert!(why(78).contains("another server's"));
    for (more, said) in [(r#","secure":true"#, "HTTPS"), (r#","hostname":"10.0.0.9""#, "another address")] {
        let text = format!(r#"{{"pid":79,"port":{}{more}}}"#, server.port);
        fs::write(runtime.path().join("jpserver-79.json"), text).unwrap();
        assert!(why(79).contains(said), "{}", why(79));
    }
    let locked = format!(r#"{{"pid":79,"port":{},"token":"","password":true}}"#, server.port);
    fs::write(runtime.path().join("jpserver-79.json"), locked).unwrap();
    assert!(why(79).contains("password"));
    assert_eq!(server.heard(), Vec::<String>::new());
}
