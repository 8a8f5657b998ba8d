//! Which rows have a way, where it leads, and what foreign answers make of it.

use super::*;
use crate::gpu::Reading;
use crate::gpu::testing::process;
use crate::units::Bytes;

fn row(label: &str, command: &str, server: Option<&str>) -> GpuProcess {
    GpuProcess {
        recognised_as: Some(label.into()),
        command: Reading::Known(command.into()),
        server_command: server.map(str::to_owned),
        ..process(77, Bytes::gib(6))
    }
}

const KERNEL: &str = "8f2c7a10-3c1e-4a55-9d21-5a7be1f0c6aa";

fn shown(label: &str, command: &str, server: Option<&str>) -> Option<String> {
    route(&row(label, command, server)).map(|release| release.shown())
}

fn said(status: u16, body: &str) -> Answer {
    Answer { status, body: body.into() }
}

/// The bodies of what is sent after this answer, or why nothing is.
fn sent(release: &Release, answer: Answer) -> Result<Vec<String>, String> {
    let requests = release.changes(Some(&answer))?;
    Ok(requests.into_iter().map(|request| request.body.unwrap_or_default()).collect())
}

fn ollama(label: &str) -> Release {
    route(&row(label, "/usr/lib/ollama/llama-server --model /m/sha256-66 --port 38211", None)).unwrap()
}

#[test]
fn each_program_is_asked_at_the_port_of_its_own_command_line_or_the_usual_one() {
    let cases = [
        ("Ollama runner", "ollama runner --port 3812", None, "http://127.0.0.1:11434/api/generate"),
        ("ComfyUI", "python main.py", None, "http://127.0.0.1:8188/free"),
        ("ComfyUI", "python main.py --listen --port 9000", None, "http://127.0.0.1:9000/free"),
        ("ComfyUI", "python main.py --listen 0.0.0.0,:: --port=9001", None, "http://127.0.0.1:9001/free"),
        ("Forge", "python launch.py --api --port 7870", None, "http://127.0.0.1:7870/sdapi/v1/unload-checkpoint"),
        ("vLLM server (m)", "vllm serve m --host ::1", None, "http://[::1]:8000/sleep?level=1&mode=wait"),
        (
            "vLLM engine (m)",
            "VLLM::EngineCore",
            Some("/env/bin/python /env/bin/vllm serve m --port 8001"),
            "http://127.0.0.1:8001/sleep?level=1&mode=wait",
        ),
        (
            "SGLang scheduler",
            "sglang::scheduler",
            Some("python -m sglang.launch_server --enable-memory-saver --host 0.0.0.0"),
            "http://127.0.0.1:30000/release_memory_occupation",
        ),
        (
            "llama-server (gemma)",
            "llama-server --port 41000 --alias gemma",
            Some("/opt/llama-server --port 8081"),
            "http://127.0.0.1:8081/models/unload",
        ),
    ];
    for (label, command, server, url) in cases {
        assert_eq!(shown(label, command, server), Some(format!("POST {url}")), "{label} {command}");
    }
}

#[test]
fn ollama_is_asked_where_its_variable_says() {
    let cases = [
        ("127.0.0.1:5000", Some("127.0.0.1:5000")),
        ("0.0.0.0", Some("127.0.0.1:11434")),
        (":5000", Some("127.0.0.1:5000")),
        ("http://localhost", Some("127.0.0.1:80")),
        ("http://localhost:5000/", Some("127.0.0.1:5000")),
        ("[::1]:5000", Some("[::1]:5000")),
        ("[::]:5000", Some("127.0.0.1:5000")),
        ("::1", Some("[::1]:11434")),
        ("https://localhost", None),
        ("192.168.0.7:11434", None),
        ("gpu-box", None),
        ("127.0.0.1:x", None),
    ];
    for (host, expected) in cases {
        let server = format!("OLLAMA_HOST={host} ollama serve");
        let release = route(&row("Ollama runner a:1", "ollama runner", Some(&server)));
        let at = release.as_ref().map(|release| release.shown());
        assert_eq!(at, expected.map(|at| format!("POST http://{at}/api/generate")), "{host}");
    }
    let moved = row("Ollama runner a:1", "ollama runner", Some("OLLAMA_HOST=:5000 ollama serve"));
    let command = route(&moved).unwrap().command();
    assert_eq!(command.as_deref(), Some("OLLAMA_HOST=127.0.0.1:5000 ollama stop a:1"));
}

#[test]
fn no_request_is_made_where_its_address_is_not_certain() {
    let cases = [
        ("python train.py", "python train.py --port 11434", None),
        ("ComfyUI", "python main.py --listen 192.168.1.5", None),
        ("ComfyUI", "python main.py --tls-keyfile k.pem --tls-certfile c.pem", None),
        ("ComfyUI", "python main.py --port http", None),
        ("Forge", "python launch.py", None),
        ("vLLM engine", "VLLM::EngineCore", None),
        ("vLLM engine", "VLLM::EngineCore", Some("vllm serve m --host 10.0.0.2")),
        ("SGLang scheduler", "sglang::scheduler", Some("python -m sglang.launch_server")),
        ("llama-server (gemma)", "llama-server -m gemma.gguf", Some("bash start.sh")),
        ("llama-server (gemma)", "llama-server -m gemma.gguf", Some("llama-server -m gemma.gguf")),
        ("notebook kernel of VS Code", "python -m ipykernel_launcher --f=/run/kernel-v2-1.json", None),
        ("Jupyter kernel a.ipynb", "python -m ipykernel_launcher -f /run/kernel-v2-1.json", None),
    ];
    for (label, command, server) in cases {
        assert_eq!(shown(label, command, server), None, "{label} {command}");
    }
    let mut contained = row("Ollama runner", "ollama runner", None);
    contained.container = Some("docker:0123456789ab".into());
    assert_eq!(route(&contained), None, "its port here may be anybody's");
}

#[test]
fn a_kernel_is_restarted_by_the_server_that_started_it() {
    let command = format!("python -m ipykernel_launcher -f /home/a da/runtime/kernel-{KERNEL}.json");
    let release = route(&row("Jupyter kernel sweep.ipynb", &command, None)).unwrap();
    let door = Door::Notebook { kernel: KERNEL.into(), runtime: "/home/a da/runtime".into(), server: 900 };
    assert_eq!(release.door, door);
    assert_eq!(release.command(), None, "the token is not for the clipboard");
    assert!(release.way.means.contains("variables are lost"));
    let requests = release.changes(Some(&said(200, "[]"))).unwrap();
    assert_eq!(requests[0].path, format!("/api/kernels/{KERNEL}/restart"));
}

#[test]
fn of_another_user_only_ollama_can_be_asked_to_release_memory() {
    let viewer = Viewer { uid: 1000, lineage: vec![], ..Viewer::default() };
    let mut theirs = row("Ollama runner", "ollama runner", None);
    theirs.uid = Reading::Known(999);
    assert_eq!(reach(&viewer, &theirs), theirs.key());
    theirs.proved = false;
    assert_eq!(reach(&viewer, &theirs), None);
    let mut theirs = row("ComfyUI", "python main.py", None);
    theirs.uid = Reading::Known(999);
    assert_eq!(reach(&viewer, &theirs), None);
}

#[test]
fn the_model_that_the_row_names_is_unloaded_else_those_that_are_loaded() {
    let answer = r#"{"models":[{"name":"llama3.1:8b","size_vram":6},{"name":"a\"b:1","size_vram":9},{"name":"cpu:1","size_vram":0}]}"#;
    let named = ollama("Ollama runner llama3.1:8b");
    assert_eq!(sent(&named, said(200, answer)).unwrap(), [r#"{"keep_alive":0,"model":"llama3.1:8b"}"#]);
    assert_eq!(named.asks(), "Ask Ollama to unload llama3.1:8b");
    let any = ollama("Ollama runner");
    assert_eq!(any.asks(), "Ask Ollama to unload the models it has loaded");
    let both = [r#"{"keep_alive":0,"model":"llama3.1:8b"}"#, r#"{"keep_alive":0,"model":"a\"b:1"}"#];
    assert_eq!(sent(&any, said(200, answer)).unwrap(), both);
    let escaped = sent(&ollama("Ollama runner gone:1"), said(200, r#"{"models":[{"name":"x\u001b[2J"}]}"#));
    assert_eq!(escaped.unwrap_err(), "it has not loaded gone:1 but x·[2J");
    assert_eq!(sent(&any, said(200, r#"{"models":[]}"#)).unwrap_err(), "it has no model loaded");
}

#[test]
fn a_router_unloads_what_is_loaded_and_a_server_of_one_model_says_so() {
    let server = Some("llama-server --models-dir /m");
    let any = route(&row("llama-server", "llama-server --port 41000", server)).unwrap();
    let answer = r#"{"data":[{"id":"gemma","status":{"value":"loaded"}},{"id":"qwen","status":{"value":"unloaded"}}]}"#;
    assert_eq!(sent(&any, said(200, answer)).unwrap(), [r#"{"model":"gemma"}"#]);
    assert!(sent(&any, said(200, r#"{"data":[{"id":"gemma"}]}"#)).unwrap_err().contains("one model"));
}

#[test]
fn a_refusal_and_another_program_are_told_apart() {
    let vllm = route(&row("vLLM server", "vllm serve m", None)).unwrap();
    assert!(sent(&vllm, said(404, "")).unwrap_err().contains("--enable-sleep-mode"));
    assert_eq!(sent(&vllm, said(200, r#"{"is_sleeping":true}"#)).unwrap_err(), "it sleeps already");
    let any = ollama("Ollama runner");
    assert_eq!(sent(&any, said(200, "<html>hello")).unwrap_err(), "what answers there is not Ollama");
    assert_eq!(sent(&any, said(200, r#"{"system":{}}"#)).unwrap_err(), "what answers there is not Ollama");
    assert!(sent(&any, said(302, "")).unwrap_err().contains("is not followed"));
    assert!(any.accepted(&said(403, "")).is_err());
    assert!(any.accepted(&said(404, r#"{"error":"model 'x' not found"}"#)).unwrap_err().contains("not found"));
    let comfy = route(&row("ComfyUI", "python main.py", None)).unwrap();
    assert!(sent(&comfy, said(401, "")).unwrap_err().contains("password"));
    assert_eq!(sent(&comfy, said(200, r#"{"models":[]}"#)).unwrap_err(), "what answers there is not ComfyUI");
}

#[test]
fn the_question_lists_every_request_in_the_order_in_which_it_is_sent() {
    let named = ollama("Ollama runner llama3.1:8b").requests();
    assert_eq!(
        named,
        [
            "GET http://127.0.0.1:11434/api/ps",
            r#"POST http://127.0.0.1:11434/api/generate {"keep_alive":0,"model":"llama3.1:8b"}"#
        ]
    );
    let any = ollama("Ollama runner").requests();
    assert!(any.len() == 2 && any[1].contains("each loaded model"), "{any:?}");
    for (label, command) in [
        ("ComfyUI", "python main.py"),
        ("Forge", "python launch.py --api"),
        ("vLLM server", "vllm serve m"),
        ("SGLang server", "python -m sglang.launch_server --enable-memory-saver"),
    ] {
        let release = route(&row(label, command, None)).unwrap();
        let requests = release.requests();
        assert_eq!(requests.len(), 1 + usize::from(release.look().is_some()), "{label}: {requests:?}");
        assert!(requests.last().unwrap().starts_with(&release.shown()), "{label}: {requests:?}");
    }
}

#[test]
fn the_same_requests_can_be_copied_as_commands() {
    assert_eq!(ollama("Ollama runner llama3.1:8b").command().as_deref(), Some("ollama stop llama3.1:8b"));
    assert!(ollama("Ollama runner (x:$(reboot))").command().unwrap().starts_with("ollama ps |"));
    let comfy = route(&row("ComfyUI", "python main.py --port 9000", None)).unwrap();
    assert_eq!(
        comfy.command().unwrap(),
        "curl -s -X POST 'http://127.0.0.1:9000/free' -H 'Content-Type: application/json' -d '{\"free_memory\":true,\"unload_models\":true}'"
    );
}
