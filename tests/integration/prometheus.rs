//! GPUs read out of a Prometheus server of this machine: what is asked, each kind of failure, and the bounds of an answer.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Output;
use std::sync::mpsc::channel;
use std::thread;

use serde_json::{Value, json};

use crate::support::api_server::{ApiServer, Reply};
use crate::support::fake_driver::{PATIENCE, homes};
use crate::support::schema::assert_valid;

const NOW: f64 = 1_795_176_000.5;

fn ps(arguments: &[&str]) -> Output {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    // A proxy would see requests that are this machine's own business.
    command
        .arg("ps")
        .args(arguments)
        .envs(homes())
        .env("http_proxy", "http://127.0.0.1:9")
        .env("ALL_PROXY", "http://127.0.0.1:9");
    command.timeout(PATIENCE).output().unwrap()
}

/// What `ps` says of a server at this port, and with which exit code.
fn said(port: u16) -> (String, Option<i32>) {
    let output = ps(&["--prometheus", &format!("http://127.0.0.1:{port}")]);
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

fn vector(series: &[(&str, Value, &str)]) -> String {
    let result: Vec<Value> = series
        .iter()
        .map(|(metric, labels, value)| {
            let mut labels = labels.clone();
            if !metric.is_empty() {
                labels["__name__"] = json!(metric);
            }
            json!({"metric": labels, "value": [NOW, value]})
        })
        .collect();
    json!({"status": "success", "data": {"resultType": "vector", "result": result}}).to_string()
}

fn labels() -> Value {
    json!({"gpu": "0", "UUID": "GPU-aaa", "modelName": "NVIDIA H100 80GB HBM3", "Hostname": "gpu-1", "job": "dcgm",
        "instance": "10.0.0.1:9400", "exported_pod": "llama-0\u{1b}[2J", "exported_namespace": "ml"})
}

/// Answers as a Prometheus that scrapes one DCGM exporter, whose GPU has been idle for an hour.
fn one_gpu(request: &str) -> Reply {
    let asks = |part: &str| request.contains(part);
    Reply::Told(if asks("__name__") {
        vector(&[
            ("DCGM_FI_DEV_FB_USED", labels(), "70000"),
            ("DCGM_FI_DEV_FB_FREE", labels(), "10500"),
            ("DCGM_FI_DEV_GPU_UTIL", labels(), "0"),
        ])
    } else if asks("timestamp") {
        vector(&[("", labels(), "1795175960.5")])
    } else if asks("max_over_time") {
        vector(&[("", labels(), "0")])
    } else {
        vector(&[])
    })
}

#[test]
fn a_gpu_is_told_with_its_age_and_who_has_it_idle() {
    let server = ApiServer::start(one_gpu);
    let output = ps(&["--json", "--prometheus", &format!("http://localhost:{}/graph", server.port)]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid("ps-hosts", &answer);
    let host = &answer["hosts"][0];
    assert_eq!((host["host"].as_str(), host["through"].as_str()), (Some("gpu-1"), Some("prometheus")));
    assert_eq!(host["age_seconds"], json!(40));
    assert_eq!(host["users"], json!([{"device": 0, "name": "pod ml/llama-0·[2J", "idle_seconds": 3600}]));
    assert_eq!(host["snapshot"]["devices"][0]["memory"]["free_bytes"], json!(10500_u64 << 20));
    assert_eq!(output.status.code(), Some(0));
    // All answers are of the moment of the first.
    let requests = server.heard();
    assert!(requests.iter().all(|request| request.starts_with("GET /api/v1/query?query=")), "{requests:?}");
    assert!(requests[1..].iter().all(|request| request.ends_with("time=1795176000.500")), "{requests:?}");
    assert!(requests.len() <= 6, "{requests:?}");
}

#[test]
fn a_prefix_is_asked_and_nothing_compressed_is_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, heads) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let Reply::Told(body) = one_gpu(&head[0]) else { continue };
            let _ = sender.send(head.join("\n").to_lowercase());
            let (one, other) = body.split_at(body.len() / 2);
            let chunks = format!("{:x}\r\n{one}\r\n{:x}\r\n{other}\r\n0\r\n\r\n", one.len(), other.len());
            let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{chunks}");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let output = ps(&["--prometheus", &format!("http://127.0.0.1:{port}/select/0/prometheus/")]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("gpu-1")), "{text}");
    for head in heads.try_iter() {
        assert!(head.starts_with("get /select/0/prometheus/api/v1/query?"), "{head}");
        assert!(!head.contains("gzip") && !head.contains("deflate"), "{head}");
    }
}

#[test]
fn every_failure_is_one_line_with_its_reason() {
    let elsewhere = ApiServer::start(one_gpu);
    let moved = format!("http://127.0.0.1:{}/api/v1/query", elsewhere.port);
    type Answers = Box<dyn Fn() -> Reply + Send>;
    let says = |status, body| -> Answers { Box::new(move || Reply::Says(status, body)) };
    let cases: Vec<(Answers, &str)> = vec![
        (says(200, "<!DOCTYPE html><title>Grafana</title>"), "a web page answered"),
        (says(200, r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#), "no figures of GPUs"),
        (says(200, r#"{"status":"success","data":{"result":[{"metric":{},"value":"x"}]}}"#), "not the query API"),
        (
            says(400, r#"{"status":"error","errorType":"bad_data","error":"unknown function \u001b[2J"}"#),
            "unknown function",
        ),
        (says(401, ""), "password"),
        (says(404, "404 page not found"), "/api/v1"),
        (says(503, "upstream connect error"), "503"),
        (Box::new(move || Reply::Moved(moved.clone())), "not followed"),
        (Box::new(|| Reply::Garbage), "not answer as a web server"),
        (Box::new(|| Reply::Endless), "longer than 32 MiB"),
    ];
    for (answer, reason) in cases {
        let server = ApiServer::start(move |_| answer());
        let (text, code) = said(server.port);
        assert!(text.contains(reason) && text.lines().count() == 1, "{reason}: {text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert_eq!(code, Some(1), "{text}");
    }
    assert_eq!(elsewhere.heard(), Vec::<String>::new(), "a redirect was followed");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (text, code) = said(free);
    assert!(text.contains("connection refused") && code == Some(1), "{text}");
}

#[test]
fn a_server_that_is_silent_is_left_at_the_deadline() {
    let server = ApiServer::start(|_| Reply::Silence);
    let (text, code) = said(server.port);
    assert!(text.contains("did not answer within"), "{text}");
    assert_eq!(code, Some(1));
}

#[test]
fn queries_that_fail_leave_what_they_would_tell_unknown() {
    let server = ApiServer::start(|request| match one_gpu(request) {
        reply if request.contains("__name__") => reply,
        _ => Reply::Says(400, r#"{"status":"error","error":"unknown function"}"#),
    });
    let output = ps(&["--json", "--prometheus", &format!("http://127.0.0.1:{}", server.port)]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid("ps-hosts", &answer);
    assert_eq!(answer["hosts"][0]["age_seconds"], Value::Null);
    assert_eq!(answer["hosts"][0]["users"][0]["idle_seconds"], Value::Null);
}

#[test]
fn another_machine_is_refused_before_anything_is_sent() {
    for (url, part) in [
        ("http://prom.lab:9091", "ssh -N -L 9091:localhost:9091 prom.lab"),
        ("https://prometheus.monitoring.svc", "kubectl -n monitoring port-forward svc/prometheus"),
        ("http://127.0.0.1:1@prom.lab/", "http://127.0.0.1"),
        ("prom.lab", "http://127.0.0.1"),
    ] {
        let output = ps(&["--prometheus", url]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(part), "{url}: {said}");
        assert_eq!(output.status.code(), Some(2), "{url}");
    }
}
