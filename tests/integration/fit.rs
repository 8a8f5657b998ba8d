//! `oomdoctor fit` from outside: models from files, folders and stores compared with a fake GPU, and files with false
//! headers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::fake_driver::{FakeDriver, GIB, PATIENCE, Sleeper};
use crate::support::schema::assert_output_valid;

/// A text in a GGUF header: its length, then its bytes.
fn gguf_text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Writes a sparse GGUF file of a llama with eight layers of one 2048-wide f16 matrix each.
fn write_gguf<N: AsRef<str>>(path: &Path, keys: &[(&str, u32)], tensors: &[(N, [u64; 2])]) {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((keys.len() as u64 + 1).to_le_bytes());
    bytes.extend([gguf_text("general.architecture"), 8_u32.to_le_bytes().to_vec(), gguf_text("llama")].concat());
    for (key, number) in keys {
        bytes.extend([gguf_text(key), 4_u32.to_le_bytes().to_vec(), number.to_le_bytes().to_vec()].concat());
    }
    let mut offset = 0_u64;
    for (name, dims) in tensors {
        bytes.extend([gguf_text(name.as_ref()), 2_u32.to_le_bytes().to_vec()].concat());
        bytes.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
        bytes.extend([&1_u32.to_le_bytes()[..], &offset.to_le_bytes()[..]].concat());
        offset += (dims[0] * dims[1] * 2).next_multiple_of(32);
    }
    fs::write(path, &bytes).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_len((bytes.len() as u64).next_multiple_of(32) + offset).unwrap();
}

const KEYS: [(&str, u32); 7] = [
    ("llama.block_count", 8),
    ("llama.context_length", 131_072),
    ("llama.embedding_length", 2048),
    ("llama.attention.head_count", 16),
    ("llama.attention.head_count_kv", 4),
    ("llama.vocab_size", 32_000),
    ("llama.feed_forward_length", 2048),
];

fn layers(numbers: std::ops::Range<u64>) -> Vec<(String, [u64; 2])> {
    numbers.map(|layer| (format!("blk.{layer}.ffn_up.weight"), [2048, 65_536])).collect()
}

/// 8 layers of 256 MiB, input and output of 125 MiB each.
pub fn small_model(path: &Path) {
    let mut tensors = layers(0..8);
    tensors.extend([("token_embd.weight".into(), [2048, 32_000]), ("output.weight".into(), [2048, 32_000])]);
    write_gguf(path, &KEYS, &tensors);
}

pub fn card(free_gib: u64) -> FakeDriver {
    let used = (24 - free_gib) * GIB;
    FakeDriver::new(&format!("(gpus: [(name: \"RTX 4090\", total: {}, reserved: 0, base: {used})])", 24 * GIB))
}

pub fn fit(driver: &FakeDriver, home: &Path, arguments: &[&str]) -> Output {
    let mut command = driver.oomdoctor(&[&["fit"], arguments].concat());
    for name in ["OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE"] {
        command.env_remove(name);
    }
    let output = assert_cmd::Command::from_std(command).env("HOME", home).timeout(PATIENCE).output().unwrap();
    assert_output_valid(&[&["fit"], arguments].concat(), &output);
    output
}

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

pub fn answer(driver: &FakeDriver, home: &Path, arguments: &[&str]) -> (Value, i32) {
    let output = fit(driver, home, &[arguments, &["--json"]].concat());
    (parsed(&output), output.status.code().unwrap())
}

fn bytes_of(answer: &Value, part: &str) -> u64 {
    answer[part]["bytes"].as_u64().unwrap()
}

fn gpu_weights(answer: &Value) -> u64 {
    answer["weights"]["gpu_bytes"].as_u64().unwrap()
}

/// A path in this home, whose folder exists.
fn path_in(home: &TempDir, path: &str) -> PathBuf {
    let path = home.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

/// A layer of an Ollama manifest.
fn ollama_layer(kind: &str, digest: &str) -> Value {
    json!({"mediaType": format!("application/vnd.ollama.image.{kind}"), "digest": format!("sha256:{digest}")})
}

/// Where Ollama keeps a layer's content.
fn ollama_blob(home: &TempDir, digest: &str) -> PathBuf {
    path_in(home, &format!(".ollama/models/blobs/sha256-{digest}"))
}

fn model() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    small_model(&file);
    let name = file.to_str().unwrap().to_owned();
    (folder, name)
}

const MIB: u64 = 1 << 20;

#[test]
fn a_file_that_fits_has_exact_figures_and_the_fields_of_the_contract() {
    let (folder, file) = model();
    let (found, code) = answer(&card(8), folder.path(), &[&file, "--context", "32K"]);
    assert_eq!((code, &found["schema"], &found["fits"]), (0, &json!(1), &json!(true)));
    assert_eq!(found["weights"]["bytes"], 2298 * MIB);
    assert_eq!(
        (&found["weights"]["gpu_bytes"], &found["weights"]["host_bytes"]),
        (&json!(2173 * MIB), &json!(125 * MIB))
    );
    // 8 layers × 32768 cells × (512 + 512) × 2 bytes.
    assert_eq!((&found["kv_cache"]["bytes"], &found["kv_cache"]["is"]), (&json!(512 * MIB), &json!("fact")));
    assert_eq!((&found["kv_cache"]["full_bytes"], &found["kv_cache"]["window_bytes"]), (&json!(512 * MIB), &json!(0)));
    assert_eq!(found["recurrent_state"]["bytes"], 0);
    assert_eq!((&found["compute"]["is"], &found["overhead"]["is"]), (&json!("about"), &json!("about")));
    assert_eq!(found["free_now_bytes"], 8 * GIB);
    let sum = 2173 * MIB + bytes_of(&found, "kv_cache") + bytes_of(&found, "compute") + bytes_of(&found, "overhead");
    assert_eq!(found["total_bytes"], sum);
    assert_eq!((&found["model"]["layers"], &found["model"]["architecture"]), (&json!(8), &json!("llama")));
    assert_eq!(
        (&found["model"]["context_trained"], &found["model"]["parameters"]),
        (&json!(131_072), &json!(1_204_813_824))
    );
}

#[test]
fn a_model_that_does_not_fit_gets_changes_with_current_flags() {
    let (folder, file) = model();
    let driver = card(3);
    let (found, code) = answer(&driver, folder.path(), &[&file, "--context", "32768"]);
    assert_eq!((code, &found["fits"]), (1, &json!(false)));
    let options = found["options"].as_array().unwrap();
    let named =
        |part: &str| options.iter().find(|option| option["flags"].as_str().is_some_and(|flags| flags.contains(part)));
    let q8 = named("-ctk q8_0 -ctv q8_0").unwrap();
    assert!(q8["flags"].as_str().unwrap().contains("-fa on"), "{q8}");
    let layers = named("-ngl ").unwrap();
    assert_eq!(layers["fits"], true);
    for option in options.iter().filter(|option| option["fits"] == true) {
        // 1 GiB stays free; 64 MiB of it are already in the sum as a margin.
        assert!(option["total_bytes"].as_u64().unwrap() <= 2 * GIB + 64 * MIB, "{option}");
    }
    let command = found["command"].as_str().unwrap();
    assert!(command.starts_with("llama-server -m /") && command.contains("-c 32768"), "{command}");
    // A change that is offered as fitting fits when it is requested.
    let flags = layers["flags"].as_str().unwrap();
    let count = flags.split("-ngl ").nth(1).unwrap().split(' ').next().unwrap();
    let (_, code) = answer(&driver, folder.path(), &[&file, "--context", "32768", "--gpu-layers", count]);
    assert_eq!(code, 0);
    let text = fit(&driver, folder.path(), &[&file, "--context", "32768"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("model.gguf with 32K tokens of context in llama.cpp"), "{text}");
    assert!(text.contains("It does not fit: about") && text.contains("weights       2.1 GiB"), "{text}");
}

#[test]
fn without_a_driver_the_figures_are_known_and_whether_it_fits_is_not() {
    let (folder, file) = model();
    let (found, code) = answer(&FakeDriver::not_loaded(), folder.path(), &[&file, "--context", "4096"]);
    assert_eq!((code, &found["fits"], &found["free_now_bytes"]), (1, &Value::Null, &Value::Null));
    assert!(found["why_not_known"].is_string() && found["total_bytes"].is_u64());
}

#[test]
fn an_unknown_architecture_has_weights_and_no_kv_cache() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("odd.gguf");
    small_model(&file);
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(5).position(|window| window == b"llama").unwrap();
    bytes[at..at + 5].copy_from_slice(b"qwen9");
    fs::write(&file, bytes).unwrap();
    let (found, code) = answer(&card(20), folder.path(), &[file.to_str().unwrap()]);
    assert_eq!((code, &found["fits"], &found["kv_cache"]["bytes"]), (1, &Value::Null, &Value::Null));
    assert!(found["kv_cache"]["bytes_reason"].is_string() && found["weights"]["bytes"].is_u64(), "{found}");
    assert!(found["why_not_known"].as_str().unwrap().contains("qwen9"));
    assert_eq!(found["weights"]["gpu_bytes"], 2173 * MIB, "the layers' names say where they go");
}

#[test]
fn a_split_model_is_read_from_any_of_its_parts() {
    let folder = tempfile::tempdir().unwrap();
    let part = |number: u32| folder.path().join(format!("m-0000{number}-of-00002.gguf"));
    let mut first = layers(0..4);
    first.push(("token_embd.weight".into(), [2048, 32_000]));
    write_gguf(&part(1), &KEYS, &first);
    write_gguf(&part(2), &[("split.no", 1)], &layers(4..8));
    for number in [1, 2] {
        let (found, _) = answer(&card(20), folder.path(), &[part(number).to_str().unwrap()]);
        assert_eq!(found["weights"]["bytes"], (8 * 256 + 125) * MIB, "{number}");
        let line = format!("llama-server -m {} ", part(1).display());
        assert!(found["command"].as_str().unwrap().starts_with(&line), "llama.cpp is given the first: {found}");
    }
    fs::remove_file(part(2)).unwrap();
    let output = fit(&card(20), folder.path(), &[part(1).to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "a part is missing");
}

#[test]
fn models_are_found_in_the_folders_of_other_programs() {
    let home = tempfile::tempdir().unwrap();
    let digest = "ab".repeat(32);
    small_model(&ollama_blob(&home, &digest));
    let manifest = json!({"layers": [ollama_layer("license", &digest), ollama_layer("model", &digest)]}).to_string();
    fs::write(path_in(&home, ".ollama/models/manifests/registry.ollama.ai/library/tiny/1b"), manifest).unwrap();
    small_model(&path_in(&home, ".cache/huggingface/hub/models--me--tiny/snapshots/0123/tiny.gguf"));
    small_model(&path_in(&home, ".lmstudio/models/me/Other-GGUF/other-q8.gguf"));
    let (all, code) = answer(&card(20), home.path(), &[]);
    let listed: Vec<Value> = all["models"].as_array().unwrap().iter().map(|model| model["name"].clone()).collect();
    assert_eq!((code, listed), (0, vec![json!("me/tiny"), json!("other-q8"), json!("tiny:1b")]));
    assert!(all["models"].as_array().unwrap().iter().all(|model| model["largest_context"] == 131_072), "{all}");
    let (little, code) = answer(&card(2), home.path(), &[]);
    assert_eq!((code, &little["models"][0]["largest_context"]), (1, &Value::Null));
    assert!(little["models"][0]["gpu_layers"].as_u64().is_some_and(|count| count < 9), "{little}");
    for (name, engine) in
        [("tiny:1b", "Ollama"), ("me/tiny", "llama.cpp"), ("other-q8", "llama.cpp"), ("me/Other-GGUF", "llama.cpp")]
    {
        let (found, code) = answer(&card(20), home.path(), &[name, "--context", "4096"]);
        assert_eq!((code, &found["engine"]), (0, &json!(engine)), "{name}");
        let service = found["note"].as_str().is_some_and(|note| note.contains("systemctl edit ollama.service"));
        assert_eq!((service, found["note"].is_null()), (engine == "Ollama", engine != "Ollama"), "{found}");
        assert_eq!(found["weights"]["bytes"], 2298 * MIB);
    }
    // Where a variable names a folder, Ollama and the Hugging Face Hub's library look nowhere else.
    let elsewhere = tempfile::tempdir().unwrap();
    for (variable, left) in [("OLLAMA_MODELS", vec!["me/tiny", "other-q8"]), ("HF_HOME", vec!["other-q8", "tiny:1b"])] {
        let mut command = card(20).oomdoctor(&["fit", "--json"]);
        for name in ["OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE"] {
            command.env_remove(name);
        }
        command.env("HOME", home.path()).env(variable, elsewhere.path());
        let all = parsed(&assert_cmd::Command::from_std(command).timeout(PATIENCE).output().unwrap());
        let listed: Vec<Value> = all["models"].as_array().unwrap().iter().map(|model| model["name"].clone()).collect();
        assert_eq!(listed, left, "{variable}");
    }
}

#[test]
fn a_folder_with_a_config_is_summed_from_its_safetensors() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"model_type": "llama", "torch_dtype": "bfloat16", "num_hidden_layers": 2, "hidden_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 4096});
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let header =
        json!({"model.embed_tokens.weight": {"dtype": "BF16", "shape": [1000, 64], "data_offsets": [0, 128_000]}})
            .to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + 128_000, 0);
    fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    let path = folder.path().to_str().unwrap();
    let (found, code) = answer(&card(20), folder.path(), &[path]);
    assert_eq!((code, &found["engine"], &found["weights"]["bytes"]), (0, &json!("transformers"), &json!(128_000)));
    // 2 layers × 4096 tokens × (32 + 32) × 2 bytes.
    assert_eq!(found["kv_cache"]["bytes"], MIB);
    let (found, _) = answer(&card(20), folder.path(), &[path, "--engine", "vllm"]);
    assert_eq!((&found["engine"], &found["kv_cache"]["bytes"]), (&json!("vLLM"), &json!(MIB)));
    // llama.cpp and Ollama cannot run a folder of safetensors directly.
    for (engine, how) in [("llama.cpp", "convert_hf_to_gguf.py"), ("ollama", "ollama create NAME -f Modelfile")] {
        let (found, _) = answer(&card(20), folder.path(), &[path, "--engine", engine]);
        assert!(found["note"].as_str().is_some_and(|note| note.contains(how) && note.contains(path)), "{found}");
        assert!(!found["command"].as_str().unwrap().contains(path), "{found}");
    }
}

#[test]
fn a_name_known_only_from_the_table_states_its_assumptions() {
    let home = tempfile::tempdir().unwrap();
    let (found, code) = answer(&card(20), home.path(), &["llama3.1:8b", "--context", "32768"]);
    assert_eq!(code, 0);
    assert!(found["note"].as_str().unwrap().contains("Q4_K_M assumed"), "{found}");
    assert_eq!((&found["weights"]["is"], &found["kv_cache"]["bytes"]), (&json!("about"), &json!(4096 * MIB)));
    let refusal = |name: &str| {
        let output = fit(&card(20), home.path(), &[name]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(!refusal("no-such-model").contains("perhaps"));
    assert!(refusal("lama3.1:8b").contains("did you mean Llama-3.1-8B, "));
    assert!(refusal("70b").contains("did you mean Llama-3.3-70B, "));
}

#[test]
fn settings_without_effect_are_named_and_left_out_of_the_command() {
    let (folder, file) = model();
    let said = |arguments: &[&str]| {
        let (found, _) = answer(&card(20), folder.path(), &[&[file.as_str(), "--context", "4096"], arguments].concat());
        (found["notes"].to_string(), found["command"].as_str().unwrap_or_default().to_owned())
    };
    let (notes, command) = said(&["--cpu-moe"]);
    assert!(notes.contains("--cpu-moe means nothing here (the model has no experts)"), "{notes}");
    assert!(!command.contains("moe"), "{command}");
    let (notes, _) = said(&["--share", "0.5", "--zero", "2"]);
    assert!(notes.contains("--share, --zero mean nothing to llama.cpp here"), "{notes}");
    let (notes, command) = said(&["--engine", "ollama", "--flash-attention", "off"]);
    assert!(!notes.contains("nothing") && command.contains("OLLAMA_FLASH_ATTENTION=0"), "{notes} {command}");
    assert_eq!(said(&[]).0, "[]");
    for wrong in [&["--main-gpu", "5"][..], &["--mmproj", &file]] {
        let output = fit(&card(20), folder.path(), &[&[file.as_str()], wrong].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{wrong:?}");
    }
}

#[test]
fn files_with_false_headers_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("text.gguf"), "hello").unwrap();
    small_model(&path("cut.gguf"));
    File::options().write(true).open(path("cut.gguf")).unwrap().set_len(300 * MIB).unwrap();
    File::create(path("hole.gguf")).unwrap().set_len(100 * GIB).unwrap();
    let mut counts = b"GGUF\x03\0\0\0".to_vec();
    counts.extend([i64::MAX.to_le_bytes(), i64::MAX.to_le_bytes()].concat());
    fs::write(path("counts.gguf"), counts).unwrap();
    File::options().write(true).open(path("counts.gguf")).unwrap().set_len(100 * GIB).unwrap();
    // A list of empty texts in a sparse file of 100 GB, one more than the limit allows.
    let mut list = b"GGUF\x03\0\0\0".to_vec();
    list.extend([1_u64.to_le_bytes(), 2_u64.to_le_bytes(), 1_u64.to_le_bytes()].concat());
    list.push(b'k');
    list.extend([9_u32.to_le_bytes(), 8_u32.to_le_bytes()].concat());
    list.extend(((2_u64 << 20) + 1).to_le_bytes());
    fs::write(path("list.gguf"), list).unwrap();
    File::options().write(true).open(path("list.gguf")).unwrap().set_len(100 * GIB).unwrap();
    mknodat(CWD, path("pipe.gguf"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::create_dir(path("deep")).unwrap();
    fs::write(path("deep/config.json"), "[".repeat(100_000)).unwrap();
    let driver = card(20);
    for name in ["text.gguf", "cut.gguf", "hole.gguf", "counts.gguf", "list.gguf", "pipe.gguf", "deep", "absent.gguf"] {
        let started = Instant::now();
        let output = fit(&driver, folder.path(), &[path(name).to_str().unwrap()]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.len(), said.lines().count()),
            (Some(2), 0, 1),
            "{name}: {said}"
        );
        assert!(said.contains(name), "{said}");
        assert!(started.elapsed() < Duration::from_secs(5), "{name}");
    }
}

#[test]
fn an_installed_llama_cpp_is_offered_as_a_measurement() {
    let (folder, file) = model();
    let said = |path: &Path| {
        let mut command =
            card(20).oomdoctor(&["fit", &file, "--context", "8192", "--k-type", "q8_0", "--gpu-layers", "5"]);
        command.env("PATH", path).env("HOME", folder.path());
        let output = assert_cmd::Command::from_std(command).timeout(PATIENCE).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!said(folder.path()).contains("llama-fit-params"));
    let program = folder.path().join("llama-fit-params");
    fs::write(&program, "").unwrap();
    rustix::fs::chmod(&program, Mode::from(0o755)).unwrap();
    let line = format!("{} -m {file} -c 8192 -np 1 -fa on -ctk q8_0 -ngl 5 -fitp on", program.display());
    assert!(said(folder.path()).contains(&line), "{}", said(folder.path()));
}

/// A header at the limit of what is read: 16 384 tensors with names of 60 bytes, 4 096 keys, texts of 1 KiB, lists.
fn write_largest(path: &Path) {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend([16_384_u64.to_le_bytes(), 4096_u64.to_le_bytes()].concat());
    bytes.extend([gguf_text("general.architecture"), 8_u32.to_le_bytes().to_vec(), gguf_text("llama")].concat());
    for (key, number) in KEYS {
        let number = if key.ends_with("block_count") { 1024 } else { number };
        bytes.extend([gguf_text(key), 4_u32.to_le_bytes().to_vec(), number.to_le_bytes().to_vec()].concat());
    }
    for at in 0..32 {
        bytes.extend([gguf_text(&format!("list{at}")), [9_u32.to_le_bytes(), 5_u32.to_le_bytes()].concat()].concat());
        bytes.extend([&4096_u64.to_le_bytes()[..], &[1_u8; 4 * 4096]].concat());
    }
    for at in 0..4096 - 1 - KEYS.len() - 32 {
        bytes.extend(
            [gguf_text(&format!("{at:0240}")), 8_u32.to_le_bytes().to_vec(), gguf_text(&"v".repeat(1000))].concat(),
        );
    }
    for at in 0_u64..16_384 {
        bytes.extend(
            [gguf_text(&format!("{:z<60}", format!("blk.{}.n{at}", at % 1024))), 4_u32.to_le_bytes().to_vec()].concat(),
        );
        bytes.extend([1_u64.to_le_bytes(); 4].concat());
        bytes.extend([&0_u32.to_le_bytes()[..], &(at * 32).to_le_bytes()].concat());
    }
    fs::write(path, &bytes).unwrap();
    File::options().write(true).open(path).unwrap().set_len(bytes.len() as u64 + (1 << 20)).unwrap();
}

#[test]
fn no_header_takes_more_than_64_mib_of_memory() {
    let (folder, _) = model();
    let path = folder.path().join("largest.gguf");
    write_largest(&path);
    let driver = card(20);
    let program = driver.oomdoctor(&["fit", path.to_str().unwrap(), "--context", "4096", "--json"]);
    // The limit covers all memory that the process can write to.
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -d 65536; exec \"$0\" \"$@\""]).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        value.map(|value| limited.env(name, value));
    }
    let output = assert_cmd::Command::from_std(limited).env("HOME", folder.path()).timeout(PATIENCE).output().unwrap();
    let found = parsed(&output);
    assert_eq!(found["weights"]["bytes"], 16_384 * 4, "{found}");
}

#[test]
fn impossible_arguments_are_refused() {
    let (folder, file) = model();
    for arguments in [
        &["--context", "0"][..],
        &["--context", "many"],
        &["--kv-type", "q6_K"],
        &["--engine", "abacus"],
        &["--gpu", "7"],
        &["--engine", "train", "--dtype", "int1"],
        &["--parallel", "0"],
    ] {
        let output = fit(&card(20), folder.path(), &[&[file.as_str()], arguments].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}");
    }
}

#[test]
fn idle_processes_on_the_gpu_are_named_with_what_ending_them_frees() {
    let sleeper = Sleeper::start();
    let scenario = format!(
        "(gpus: [(name: \"RTX 4090\", total: {}, reserved: 0, base: {GIB})], processes: [(pid: {}, bytes: Some({}))])",
        24 * GIB,
        sleeper.pid(),
        21 * GIB
    );
    let driver = FakeDriver::new(&scenario);
    let (folder, file) = model();
    let (found, code) = answer(&driver, folder.path(), &[&file, "--context", "32768"]);
    assert_eq!((code, &found["fits"], &found["free_now_bytes"]), (1, &json!(false), &json!(2 * GIB)), "{found}");
    assert_eq!((&found["free_after_bytes"], &found["card_bytes"]), (&json!(23 * GIB), &json!(24 * GIB)));
    let holder = &found["holders"][0];
    assert_eq!((&holder["pid"], &holder["in_the_way"]), (&json!(sleeper.pid()), &json!(true)));
    let command = holder["command"].as_str().unwrap();
    assert!(command.starts_with(&format!("oomdoctor kill {}@", sleeper.pid())), "{command}");
    let said = String::from_utf8(fit(&driver, folder.path(), &[&file, "--context", "32768"]).stdout).unwrap();
    assert!(said.contains("free then     23.0 GiB, once sleep"), "{said}");
    assert!(said.contains(command) && said.contains("It fits once sleep"), "{said}");
    // A busy process is not offered.
    driver.set_scenario(&scenario.replace("bytes: Some", "sm: 60, bytes: Some"));
    let (found, _) = answer(&driver, folder.path(), &[&file, "--context", "32768"]);
    assert_eq!((&found["holders"], &found["free_after_bytes"]), (&json!([]), &Value::Null));
}

#[test]
fn processes_on_each_gpu_of_a_plan_are_named_with_the_vram_free_after_them() {
    let (one, other) = (Sleeper::start(), Sleeper::start());
    let driver = FakeDriver::new(&format!(
        "(gpus: [(name: \"RTX 3060\", total: {0}, reserved: 0, base: {GIB}), (name: \"RTX 3060\", total: {0}, reserved: 0, base: {GIB})], processes: [(pid: {1}, bytes: Some({3})), (pid: {2}, gpu: 1, bytes: Some({3}))])",
        6 * GIB,
        one.pid(),
        other.pid(),
        9 * GIB / 2
    ));
    let (folder, file) = model();
    let split = ["--context", "4096", "--tensor-split", "1,1"];
    let ranks = ["--engine", "vllm", "--context", "4096", "--tp", "2", "--share", "0.8"];
    for flags in [&split[..], &ranks] {
        let arguments = [&[&*file], flags].concat();
        let (found, code) = answer(&driver, folder.path(), &arguments);
        let holders = found["holders"].as_array().unwrap();
        let named: Vec<_> = holders.iter().map(|holder| (&holder["gpu"], &holder["in_the_way"])).collect();
        assert_eq!(code, 1, "{arguments:?} {found}");
        assert_eq!(named.len(), 2, "{arguments:?} {found}");
        let text = String::from_utf8(fit(&driver, folder.path(), &arguments).stdout).unwrap();
        assert!(text.contains("free then     5.0 GiB on GPU 1, once sleep"), "{text}");
        assert!(text.contains("Not busy in the last sample"), "{text}");
    }
    let (found, _) = answer(&driver, folder.path(), &[&file, "--context", "4096", "--tensor-split", "1,1"]);
    let then: Vec<_> = found["cards"].as_array().unwrap().iter().map(|card| &card["free_after_bytes"]).collect();
    assert_eq!(then, [&json!(5 * GIB), &json!(5 * GIB)]);
}

#[test]
fn ollama_uses_all_gpus_where_one_is_too_small() {
    let driver = FakeDriver::new(&format!(
        "(gpus: [(name: \"RTX 3090\", total: {0}, reserved: 0, base: 0), (name: \"RTX 3090\", total: {0}, reserved: 0, base: 0)])",
        24 * GIB
    ));
    let (folder, _) = model();
    let (found, code) = answer(&driver, folder.path(), &["llama3.3:70b", "--context", "8192"]);
    assert_eq!((code, &found["fits"], found["cards"].as_array().map(Vec::len)), (0, &json!(true), Some(2)), "{found}");
    assert_eq!(found["command"], "OLLAMA_CONTEXT_LENGTH=8192 ollama serve");
    // A model that fits on one GPU stays on one, and a GPU named by --gpu is the only one used.
    let (found, _) = answer(&driver, folder.path(), &["llama3.1:8b", "--context", "8192"]);
    assert_eq!(found["cards"], Value::Null);
    let (found, code) = answer(&driver, folder.path(), &["llama3.3:70b", "--context", "8192", "--gpu", "1"]);
    assert_eq!((code, &found["cards"]), (1, &Value::Null), "{found}");
    // The offered command sets how many experts stay in system memory.
    let (found, _) = answer(&card(8), folder.path(), &["gpt-oss:20b", "--context", "8192"]);
    let command = found["command"].as_str().unwrap();
    assert!(command.contains("LLAMA_ARG_N_CPU_MOE=") && command.ends_with("ollama serve"), "{found}");
}

#[test]
fn the_quantization_in_a_models_name_counts() {
    let (folder, _) = model();
    let weights = |name: &str| {
        let (found, _) = answer(&card(20), folder.path(), &[name, "--context", "4096"]);
        (found["engine"].as_str().unwrap().to_owned(), found["weights"]["bytes"].as_u64().unwrap() / 100_000_000)
    };
    assert_eq!(weights("org/Meta-Llama-3.1-8B-Instruct-GGUF:Q8_0"), ("llama.cpp".into(), 85));
    assert_eq!(weights("llama3.1:8b-instruct-fp16"), ("Ollama".into(), 160));
    // Embeddings and output keep two bytes per weight: 2.1 of 5.8 GB.
    assert_eq!(weights("org/Meta-Llama-3.1-8B-Instruct-AWQ-INT4"), ("vLLM".into(), 58));
    assert_eq!(weights("org/Meta-Llama-3.1-8B-Instruct-FP8"), ("vLLM".into(), 90));
    let (found, _) = answer(&card(20), folder.path(), &["org/Meta-Llama-3.1-8B-Instruct", "--context", "4096"]);
    let notes = found["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("--engine vllm")), "{found}");
}

#[test]
fn each_gpu_of_a_split_is_compared_with_its_own_free_vram() {
    let driver = FakeDriver::new(&format!(
        "(gpus: [(name: \"RTX 3060\", total: {0}, reserved: 0, base: {1}), (name: \"RTX 3060\", total: {0}, reserved: 0, base: 0)])",
        4 * GIB,
        GIB
    ));
    let (folder, file) = model();
    let (found, code) = answer(&driver, folder.path(), &[&file, "--context", "4096", "--tensor-split", "1,1"]);
    let cards = found["cards"].as_array().unwrap();
    // Five of nine units on the first GPU; four layers of 256 MiB and the output of 125 MiB on the second.
    assert_eq!((&cards[0]["layers"], &cards[1]["layers"]), (&json!(5), &json!(4)), "{found}");
    assert_eq!((&cards[0]["weights_bytes"], &cards[1]["weights_bytes"]), (&json!(1280 * MIB), &json!(893 * MIB)));
    assert_eq!((&cards[0]["cache_bytes"], &cards[1]["cache_bytes"]), (&json!(40 * MIB), &json!(24 * MIB)));
    assert_eq!((code, &cards[0]["fits"], &cards[1]["fits"]), (0, &json!(true), &json!(true)), "{found}");
    let (found, code) = answer(&driver, folder.path(), &[&file, "--context", "4096", "--tensor-split", "9,1"]);
    assert_eq!((code, &found["cards"][0]["fits"]), (1, &json!(false)));
    let command = found["command"].as_str().unwrap().to_owned();
    let shares = command.split("-ts ").nth(1).unwrap().to_owned();
    let (_, code) = answer(&driver, folder.path(), &[&file, "--context", "4096", "--tensor-split", &shares]);
    assert_eq!(code, 0, "what it says fits, fits: {command}");
    let (_, code) = answer(&driver, folder.path(), &[&file, "--context", "4096", "--split-mode", "row"]);
    assert_eq!(code, 0);
    // llama.cpp splits the model over both by itself where one GPU is too small.
    let (found, code) = answer(&driver, folder.path(), &[&file, "--context", "40960"]);
    assert_eq!((code, found["cards"].as_array().map(Vec::len)), (0, Some(2)), "{found}");
    for wrong in
        [&["--tensor-split", "1,1,1"][..], &["--tensor-split", "1,x"], &["--split-mode", "row", "--main-gpu", "2"]]
    {
        let output = fit(&driver, folder.path(), &[&[file.as_str()], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn ollamas_modelfile_and_image_encoder_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let [model, encoder, parameters] = ["ab", "cd", "ef"].map(|byte| byte.repeat(32));
    let (model_file, encoder_file) = (ollama_blob(&home, &model), ollama_blob(&home, &encoder));
    small_model(&model_file);
    write_gguf(&encoder_file, &[], &[("v.blk.0.attn_q.weight", [1024, 65_536])]);
    let settings = json!({"num_ctx": 65_536, "num_gpu": 5, "stop": ["<|end|>"]}).to_string();
    fs::write(ollama_blob(&home, &parameters), settings).unwrap();
    let layers = [("model", model), ("projector", encoder), ("params", parameters)];
    let manifest = json!({"layers": layers.map(|(kind, digest)| ollama_layer(kind, &digest))}).to_string();
    fs::write(path_in(&home, ".ollama/models/manifests/hf.co/me/Tiny-GGUF/Q8_0"), manifest).unwrap();
    let (all, _) = answer(&card(20), home.path(), &[]);
    assert_eq!(all["models"][0]["name"], "hf.co/me/Tiny-GGUF:Q8_0", "{all}");
    let name = "hf.co/me/Tiny-GGUF:Q8_0";
    let (found, code) = answer(&card(20), home.path(), &[name]);
    assert_eq!((code, &found["context"], &found["engine"]), (0, &json!(65_536), &json!("Ollama")));
    assert_eq!(found["image_encoder"]["bytes"], 128 * MIB);
    let host = changes(&found, "the image encoder in system memory");
    assert_eq!(host[0]["flags"], "LLAMA_ARG_MMPROJ_OFFLOAD=0", "read by the llama-server that Ollama starts");
    // The second GPU has the output and the last four layers.
    assert_eq!(found["weights"]["gpu_bytes"], (125 + 4 * 256) * MIB);
    let (found, _) = answer(&card(20), home.path(), &[name, "--context", "4096", "--parallel", "2"]);
    assert_eq!(found["context"], 8192, "each of two slots");
    // The server's variable has no effect where the Modelfile sets the context.
    let lines = "OLLAMA_NUM_PARALLEL=2 ollama serve\n/set parameter num_ctx 4096   (inside `ollama run`)\n/set parameter num_gpu 5   (inside `ollama run`)";
    assert_eq!(found["command"], lines);
    let said = |part: &str| found["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains(part));
    assert!(said("Modelfile sets num_ctx") && said("systemctl edit ollama.service"), "{found}");
    let (kept, _) = answer(&card(20), home.path(), &[name]);
    assert_eq!(kept["command"], "/set parameter num_gpu 5   (inside `ollama run`)", "as it is set already");
    let total = |arguments: &[&str]| answer(&card(20), home.path(), arguments).0["total_bytes"].as_u64().unwrap();
    let plain = [model_file.to_str().unwrap(), "--context", "4096"];
    let with = [&plain[..], &["--mmproj", encoder_file.to_str().unwrap()]].concat();
    assert_eq!(total(&with) - total(&plain), (128 + 256) * MIB, "its weights and what it computes in");
    assert_eq!(total(&[&with[..], &["--no-mmproj-offload"]].concat()), total(&plain));
}

#[test]
fn several_changes_are_combined_where_no_single_one_is_enough() {
    let driver = FakeDriver::new(&format!(
        "(gpus: [(name: \"A\", total: {0}, reserved: 0, base: 0), (name: \"A\", total: {0}, reserved: 0, base: 0)])",
        24 * GIB
    ));
    let home = tempfile::tempdir().unwrap();
    let ask = |arguments: &[&str]| answer(&driver, home.path(), arguments).0;
    let large = ask(&["llama-3.3-70b", "--engine", "vllm"]);
    let together = large["options"].as_array().unwrap().iter().find(|option| option["fits"] == true).unwrap();
    let change = together["change"].as_str().unwrap();
    assert!(change.contains("4 bits") && change.contains("over 2 GPUs and 1"), "{change}");
    let command = large["command"].as_str().unwrap();
    assert!(
        command.starts_with("vllm serve AWQ-REPOSITORY") && command.contains("--tensor-parallel-size 2"),
        "{command}"
    );
    let small = ask(&["llama-3.1-8b", "--engine", "vllm", "--context", "8192"]);
    let command = small["command"].as_str().unwrap();
    let numbered = "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0 vllm serve REPOSITORY ";
    assert!(command.starts_with(numbered), "vLLM can't read a UUID: {command}");
    let eight = ask(&["llama-3.1-8b", "--engine", "vllm", "--context", "8192", "--dtype", "fp8"]);
    assert!(gpu_weights(&eight) < gpu_weights(&small) * 6 / 10);
    let wrong = fit(&driver, home.path(), &["llama-3.1-8b", "--engine", "vllm", "--dtype", "blah"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn an_image_model_is_judged_by_its_weights() {
    let home = tempfile::tempdir().unwrap();
    let said = fit(&card(12), home.path(), &["black-forest-labs/FLUX.1-dev"]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(text.contains("22.2 GiB in 16 bits") && text.contains("8 bits (fp8) leave"), "{text}");
    assert_eq!(said.status.code(), Some(1), "whether it fits is not known");
}

#[test]
fn each_engine_counts_what_it_splits_over_gpus() {
    let driver = FakeDriver::new(&format!(
        "(gpus: [(name: \"H100\", total: {0}, reserved: 0, base: 0), (name: \"H100\", total: {0}, reserved: 0, base: {1})])",
        80 * GIB,
        20 * GIB
    ));
    let home = tempfile::tempdir().unwrap();
    let ask = |arguments: &[&str]| answer(&driver, home.path(), arguments);
    let (one, _) = ask(&["llama-3.3-70b", "--engine", "vllm", "--context", "8192"]);
    assert_eq!(one["fits"], false);
    let (two, _) = ask(&["llama-3.3-70b", "--engine", "vllm", "--context", "8192", "--tp", "2"]);
    let (whole, half) = (one["total_bytes"].as_u64().unwrap(), two["total_bytes"].as_u64().unwrap());
    assert!(half < whole * 53 / 100, "{half} of {whole}");
    assert_eq!((&two["gpu"], &two["free_now_bytes"]), (&json!(1), &json!(60 * GIB)), "the fullest of them decides");
    let (four, code) = ask(&["llama-3.3-70b", "--engine", "sglang", "--tp", "4"]);
    assert_eq!((code, &four["fits"]), (1, &Value::Null));
    assert!(four["why_not_known"].as_str().unwrap().contains("4 GPUs and this machine has 2"), "{four}");
    let (pool, code) = ask(&["llama-3.1-8b", "--engine", "sglang", "--context", "32768"]);
    assert_eq!((code, &pool["kv_cache"]["bytes"]), (0, &json!(4 * GIB)), "{pool}");
    assert!(pool["command"].as_str().unwrap().contains("-m sglang.launch_server --model-path"), "{pool}");
    let (tight, code) =
        ask(&["llama-3.1-8b", "--engine", "sglang", "--context", "32768", "--mem-fraction-static", "0.2"]);
    let offers = tight["options"].to_string();
    assert!(code == 1 && offers.contains("--mem-fraction-static 0.9"), "{offers}");
    let (part, _) = ask(&["qwen2.5-32b", "--engine", "transformers", "--context", "4096", "--max-memory", "20GiB"]);
    assert_eq!((&part["weights"]["gpu_bytes"], &part["fits"]), (&json!(20 * GIB), &json!(true)));
    let train = |more: &[&str]| ask(&[&["llama-3.1-8b", "--engine", "train"], more].concat()).0;
    let (alone, shared) = (train(&[]), train(&["--zero", "3", "--cards", "8"]));
    assert_eq!(bytes_of(&alone, "optimizer"), bytes_of(&shared, "optimizer") * 8);
    assert_eq!(gpu_weights(&alone), gpu_weights(&shared) * 8);
    let small = train(&["--optimizer", "adamw8bit", "--gradient-checkpointing"]);
    assert!(bytes_of(&small, "optimizer") < bytes_of(&alone, "optimizer") * 51 / 100);
    assert!(bytes_of(&small, "compute") < bytes_of(&alone, "compute"));
}

/// The number after an option.
fn value_of(flags: &str, option: &str) -> u64 {
    flags.split(option).nth(1).unwrap().trim().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn one_threshold_decides_what_fits_and_which_changes_are_offered() {
    let (folder, file) = model();
    for (free, context) in [(3, "32768"), (3, "16384"), (4, "65536"), (5, "131072")] {
        let driver = card(free);
        let (found, code) = answer(&driver, folder.path(), &[&file, "--context", context]);
        assert_eq!(code, 1, "{found}");
        let flags = |start: &str| {
            let options = found["options"].as_array().unwrap().iter().filter(|option| option["fits"] == true);
            let flags: Vec<&str> = options.filter_map(|option| option["flags"].as_str()).collect();
            flags.into_iter().find(|flags| flags.contains(start) && !flags.contains("-ctk")).map(str::to_owned)
        };
        let code = |arguments: &[&str]| answer(&driver, folder.path(), &[&[file.as_str()], arguments].concat()).1;
        let layers = value_of(&flags("-ngl").unwrap(), "-ngl");
        let with = |count: u64| code(&["--context", context, "--gpu-layers", &count.to_string()]);
        assert_eq!((with(layers), with(layers + 1)), (0, 1), "{layers} of {context}");
        let Some(shorter) = flags("-c ").filter(|flags| !flags.contains("-ngl")) else { continue };
        let tokens = value_of(&shorter, "-c");
        let step = if tokens < 8192 { 256 } else { 1024 };
        let with = |tokens: u64| code(&["--context", &tokens.to_string()]);
        assert_eq!((with(tokens), with(tokens + step)), (0, 1), "{tokens}");
    }
    // Between the two thresholds, the answer says what llama.cpp changes by itself.
    let text = |arguments: &[&str]| {
        let output = fit(&card(4), folder.path(), &[&[file.as_str()], arguments].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    let tight = text(&["--context", "32768"]);
    assert!(
        tight.contains("It is too tight: about 3.") && tight.contains("llama.cpp wants 1 GiB left free."),
        "{tight}"
    );
    assert!(tight.contains(" By itself it moves ") && tight.contains("-ngl all keeps all"), "{tight}");
    let forced = text(&["--context", "32768", "--gpu-layers", "9"]);
    assert!(forced.contains("It is loaded all the same") && !forced.contains("By itself"), "{forced}");
    assert!(text(&["--context", "8192"]).contains("It leaves the 1 GiB that llama.cpp wants free."));
}

#[test]
fn the_command_keeps_the_requested_settings() {
    let (folder, file) = model();
    let encoder = folder.path().join("mmproj-x.gguf");
    write_gguf(&encoder, &[], &[("v.blk.0.attn_q.weight", [1024, 65_536])]);
    let encoder = encoder.to_str().unwrap();
    let said = |arguments: &[&str]| answer(&card(20), folder.path(), arguments).0;
    let with = said(&[&file, "--context", "4096", "--mmproj", encoder, "--no-mmproj-offload"]);
    let command = format!("llama-server -m {file} --mmproj {encoder} -c 4096 -np 1 --no-mmproj-offload");
    assert_eq!((&with["command"], &with["note"]), (&json!(command), &Value::Null), "that it lies beside it is known");
    let beside = said(&[&file, "--context", "4096"]);
    assert!(beside["note"].as_str().is_some_and(|note| note.contains("--mmproj")), "{beside}");
    // The requested setting is also the one that makes it fit.
    let (tight, code) = answer(&card(4), folder.path(), &[&file, "--context", "10240", "--mmproj", encoder]);
    let host = tight["options"].as_array().unwrap().iter().find(|option| option["flags"] == "--no-mmproj-offload");
    assert!(code == 0 || host.is_some_and(|host| host["fits"] == true), "{tight}");
    // With no layers on the GPU, its VRAM use is still not 0.
    let none = said(&[&file, "--context", "8192", "--gpu-layers", "0"]);
    assert!(none["total_bytes"].as_u64().is_some_and(|bytes| bytes > 400 * MIB), "{none}");
    assert!(none["notes"][1].as_str().is_some_and(|note| note.contains("no layers on the GPU")), "{none}");
    let output = fit(&card(20), folder.path(), &[&file, "--kv-type", "q4_0", "--flash-attention", "off"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("It does not start with these settings: a quantized V cache needs flash attention."),
        "{text}"
    );
    assert!(text.contains("With flash attention it takes about"), "{text}");
    let long = said(&[&file, "--context", "1M"]);
    assert_eq!(long["context"], 1 << 20);
}

#[test]
fn several_parallel_requests_are_told_their_share_of_the_context() {
    let (folder, file) = model();
    let text = |arguments: &[&str]| {
        let output = fit(&card(4), folder.path(), &[&[file.as_str()], arguments].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    let shared = text(&["--context", "64K", "--parallel", "64"]);
    assert!(shared.starts_with("model.gguf with 64K tokens of context (1K for each of 64 requests) in"), "{shared}");
    assert!(shared.contains("one request of 1K tokens at a time"), "{shared}");
    assert!(!shared.contains("With one request "), "1K is no answer to 64K: {shared}");
    let each = text(&["--context", "16K", "--parallel", "4", "--engine", "ollama"]);
    assert!(each.starts_with("model.gguf with 16K tokens of context for each of 4 requests in Ollama"), "{each}");
    assert!(each.contains("one request at a time, about ") && each.contains("OLLAMA_NUM_PARALLEL=1 "), "{each}");
    let layers = each.lines().find(|line| line.contains("layers on the GPU, about")).unwrap();
    assert!(layers.contains("OLLAMA_CONTEXT_LENGTH=16384 OLLAMA_NUM_PARALLEL=4, /set parameter num_gpu "), "{layers}");
    assert!(text(&["--context", "1"]).starts_with("model.gguf with 1 token of context"));
}

#[test]
fn ending_a_process_is_enough_only_if_it_is_listed_and_its_vram_is_freed() {
    let (folder, file) = model();
    let said = |processes: &str, reserved: u64| {
        let driver = FakeDriver::new(&format!(
            "(gpus: [(name: \"RTX 3060\", total: {}, reserved: {reserved}, base: {})], processes: [{processes}])",
            5 * GIB,
            GIB / 2
        ));
        answer(&driver, folder.path(), &[&file, "--context", "32768"]).0["answer"].as_str().unwrap().to_owned()
    };
    assert!(!said("", 0).contains("other processes use the VRAM now"), "nobody is listed");
    // Another user's process is not offered.
    let held = format!("(pid: 1, bytes: Some({}))", 3 * GIB / 2);
    assert!(said(&held, 0).contains("It fits as it is once "), "{}", said(&held, 0));
    assert!(!said(&held, 2 * GIB).contains("other processes use the VRAM now"), "{}", said(&held, 2 * GIB));
}

#[test]
fn processes_on_two_gpus_are_counted_together() {
    let (one, other) = (Sleeper::start(), Sleeper::start());
    let driver = FakeDriver::new(&format!(
        "(gpus: [(name: \"RTX 3060\", total: {0}, reserved: 0, base: 0), (name: \"RTX 3060\", total: {0}, reserved: 0, base: 0)], processes: [(pid: {1}, bytes: Some({3})), (pid: {2}, gpu: 1, bytes: Some({3}))])",
        4 * GIB,
        one.pid(),
        other.pid(),
        2 * GIB
    ));
    let (folder, file) = model();
    for split in [&[][..], &["--split-mode", "layer"]] {
        let arguments = [&[file.as_str(), "--context", "40960"][..], split].concat();
        let (found, code) = answer(&driver, folder.path(), &arguments);
        let text = found["answer"].as_str().unwrap();
        let holders = found["holders"].as_array().unwrap();
        assert!(code == 1 && holders.iter().all(|holder| holder["in_the_way"] == true), "{found}");
        assert!(holders.len() == 2 && text.contains("Not busy in the last sample"), "{text}");
    }
}

/// A driver with equal GPUs, each with this much in use; sizes in GiB.
fn cards(name: &str, total: u64, used: &[u64]) -> FakeDriver {
    let one = |used: &u64| format!("(name: \"{name}\", total: {}, reserved: 0, base: {})", total * GIB, used * GIB);
    FakeDriver::new(&format!("(gpus: [{}])", used.iter().map(one).collect::<Vec<_>>().join(", ")))
}

fn changes<'a>(found: &'a Value, words: &str) -> Vec<&'a Value> {
    let named = |option: &&Value| option["change"].as_str().is_some_and(|change| change.contains(words));
    found["options"].as_array().unwrap().iter().filter(named).collect()
}

#[test]
fn a_full_fine_tune_is_sharded_over_the_free_gpus() {
    let home = tempfile::tempdir().unwrap();
    let train = |driver: &FakeDriver, more: &[&str]| {
        answer(driver, home.path(), &[&["llama-3.1-8b", "--engine", "train"], more].concat())
    };
    let four = cards("A100", 80, &[0, 0, 0, 0]);
    let (found, code) = train(&four, &[]);
    let (two, full) = (changes(&found, "ZeRO-2 over 4 GPUs"), changes(&found, "FSDP FULL_SHARD"));
    assert_eq!((code, &two[0]["fits"], &full[0]["fits"]), (1, &json!(true), &json!(true)), "{found}");
    // Whole weights, gradients and optimizer states split over four GPUs: (2 + 14/4) bytes for each of 8.03 billion
    // parameters; then everything split over four.
    let states = |option: &Value, thousandths: u64| {
        let rest = option["total_bytes"].as_u64().unwrap() - 8_030_261_248 / 1000 * thousandths;
        (3..8).contains(&(rest / GIB))
    };
    assert!(states(two[0], 5500) && states(full[0], 4000), "{two:?} {full:?}");
    assert!(full[0]["change"].as_str().unwrap().contains("on each GPU weights 3.7 GiB"), "{full:?}");
    let line = "accelerate launch --num_processes 4 --use_deepspeed --zero_stage 2 ";
    assert!(found["command"].as_str().unwrap().starts_with(line), "{found}");
    assert!(full[0]["flags"].as_str().unwrap().contains("--use_fsdp --fsdp_version 2"), "{full:?}");
    // No offload is offered where VRAM is enough.
    assert!(changes(&found, "system memory").is_empty(), "{found}");
    // A GPU in use is not counted.
    let (found, _) = train(&cards("A100", 80, &[70, 0, 0, 0]), &[]);
    let line = "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,2,3 accelerate launch --num_processes 3 ";
    assert!(found["command"].as_str().unwrap().starts_with(line), "{found}");
    // A requested ZeRO stage is kept, on all GPUs.
    let (found, code) = train(&four, &["--zero", "1"]);
    let said = found["command"].as_str().unwrap_or_default();
    assert!(changes(&found, "ZeRO").is_empty() && changes(&found, "FSDP").is_empty(), "{found}");
    assert!(code == 0 && said.contains("--num_processes 4 --use_deepspeed --zero_stage 1 "), "{found}");
    let (found, _) = train(&cards("A100", 80, &[70, 0, 0, 0]), &["--zero", "3"]);
    assert!(
        found["command"].as_str().unwrap().contains("DEVICES=1,2,3 accelerate launch --num_processes 3 "),
        "{found}"
    );
    // An offload that needs terabytes of RAM is not offered.
    let large = ["llama-3.3-70b", "--engine", "train", "--zero", "3", "--offload-optimizer"];
    let (found, code) = answer(&cards("H200", 140, &[0, 0, 0, 0]), home.path(), &large);
    assert!(code == 1 && found["answer"].as_str().unwrap().contains("not in RAM"), "{found}");
    assert!(
        changes(&found, "gradient checkpointing").iter().all(|option| option["flags"]
            .as_str()
            .unwrap()
            .contains("Lora")
            || option["fits"] != true),
        "{found}"
    );
}

#[test]
fn llama_cpp_is_split_over_all_gpus_with_the_changes_that_make_it_fit() {
    let two = cards("RTX 3090", 24, &[0, 0]);
    let home = tempfile::tempdir().unwrap();
    let ask = |driver: &FakeDriver, arguments: &[&str]| answer(driver, home.path(), arguments);
    let (found, code) = ask(&two, &["llama-3.3-70b", "--context", "8192"]);
    assert_eq!((code, found["cards"].as_array().map(Vec::len)), (0, Some(2)), "{found}");
    assert!(found["command"].as_str().unwrap().ends_with(" -sm layer"), "{found}");
    let each: u64 = found["cards"].as_array().unwrap().iter().map(|card| card["total_bytes"].as_u64().unwrap()).sum();
    assert_eq!(found["total_bytes"], each, "the sum is that of the cards");
    // With --gpu, only that GPU counts; both changes are offered.
    let (found, code) = ask(&two, &["llama-3.3-70b", "--context", "8192", "--gpu", "1"]);
    assert_eq!((code, changes(&found, "both GPUs")[0]["flags"].as_str()), (1, Some("-sm layer")), "{found}");
    let (found, code) = ask(&two, &["llama-3.3-70b", "--context", "64K"]);
    let eight = changes(&found, "the KV cache in q8_0");
    assert!(code == 1 && eight.iter().any(|option| option["fits"] == true), "{found}");
    // Each GPU keeps 1 GiB free, whether the split is requested or offered.
    let layers = changes(&found, "of 81 layers")[0]["flags"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
    let few = ["llama-3.3-70b", "--context", "64K", "--split-mode", "layer", "--gpu-layers", &layers];
    assert_eq!(ask(&two, &few).1, 0, "{layers}");
    let more = (layers.parse::<u64>().unwrap() + 1).to_string();
    let few = ["llama-3.3-70b", "--context", "64K", "--split-mode", "layer", "--gpu-layers", &more];
    assert_eq!(ask(&two, &few).1, 1, "{more}");
    // Ollama keeps a model on one GPU only if it expects to need at most 80 % of it.
    let count = |name: &str| ask(&two, &[name, "--context", "8192"]).0["cards"].as_array().map(Vec::len);
    assert_eq!((count("qwen2.5:32b"), count("qwen2.5:14b")), (Some(2), None), "20.5 and 9.9 GiB of 24");
}

#[test]
fn gpus_that_cannot_split_evenly_take_whole_layers() {
    let home = tempfile::tempdir().unwrap();
    let three = cards("RTX 3090", 24, &[0, 0, 22, 0]);
    let asked = ["qwen2.5-14b", "--engine", "vllm", "--context", "4096", "--tp", "3"];
    let (refused, code) = answer(&three, home.path(), &asked);
    let said = refused["answer"].as_str().unwrap();
    assert!(code == 1 && said.contains("does not start") && said.contains("40 attention heads"), "{said}");
    assert!(refused["command"].as_str().unwrap().ends_with(" --tensor-parallel-size 2"), "{refused}");
    // 45 GiB of weights are too large for two GPUs, and 40 heads cannot be split evenly over three.
    let (found, code) =
        answer(&three, home.path(), &["gemma-3-27b", "--engine", "vllm", "--context", "4096", "--share", "0.97"]);
    let layers = changes(&found, "the layers over 3 GPUs");
    assert!(code == 1 && layers.len() == 1, "{found}");
    let line = found["command"].as_str().unwrap();
    assert!(line.starts_with("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1,3 vllm serve "), "{line}");
    assert!(line.ends_with(" --pipeline-parallel-size 3"), "{line}");
    let again = ["gemma-3-27b", "--engine", "vllm", "--context", "4096", "--share", "0.97", "--pp", "3"];
    assert_eq!(answer(&three, home.path(), &again).1, 0);
    // transformers also splits by whole layers.
    let (found, _) = answer(
        &cards("RTX 3090", 24, &[0, 12]),
        home.path(),
        &["qwen2.5-14b", "--engine", "transformers", "--context", "4096"],
    );
    let said = found["command"].as_str().unwrap();
    assert!(said.contains("max_memory={0: \"21GiB\", 1: \"9GiB\"}"), "{found}");
}
