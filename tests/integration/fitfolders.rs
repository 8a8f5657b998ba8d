//! `oomdoctor fit` on checkpoints in folders: quantized ones, incomplete ones, and formats that the engine does not
//! take.

use std::fs::{self, File};
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fit::{answer, card, fit, small_model};
use crate::support::fake_driver::GIB;

const LAYERS: u64 = 2;
const WIDTH: u64 = 4096;
const VOCAB: u64 = 32_000;

/// Writes a sparse safetensors file with these tensors.
fn write_safetensors(path: &Path, tensors: &[(String, &str, u64, [u64; 2])]) -> u64 {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, dtype, wide, shape) in tensors {
        let from = end;
        end += shape[0] * shape[1] * wide;
        header.insert(name.clone(), json!({"dtype": dtype, "shape": shape, "data_offsets": [from, end]}));
    }
    let text = Value::Object(header).to_string();
    let bytes = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    fs::write(path, &bytes).unwrap();
    File::options().write(true).open(path).unwrap().set_len(bytes.len() as u64 + end).unwrap();
    end
}

/// Two layers, one file each, with an index. Each layer has one matrix, packed where the config says so.
fn folder(quantization: &Value) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("model");
    fs::create_dir(&folder).unwrap();
    let mut config = json!({"model_type": "llama", "torch_dtype": "bfloat16", "num_hidden_layers": LAYERS,
        "hidden_size": WIDTH, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14_336,
        "vocab_size": VOCAB, "max_position_embeddings": 8192});
    config["quantization_config"] = quantization.clone();
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let mut map = serde_json::Map::new();
    let mut total = 0;
    for layer in 0..LAYERS {
        let file = format!("model-{}-of-2.safetensors", layer + 1);
        let prefix = format!("model.layers.{layer}.mlp.up_proj");
        let mut tensors = if quantization.is_null() {
            vec![(format!("{prefix}.weight"), "BF16", 2, [14_336, WIDTH])]
        } else {
            vec![(format!("{prefix}.qweight"), "I32", 4, [WIDTH, 14_336 / 8])]
        };
        let matrix = if layer == 0 { "model.embed_tokens.weight" } else { "lm_head.weight" };
        tensors.push((matrix.to_owned(), "BF16", 2, [VOCAB, WIDTH]));
        total += write_safetensors(&folder.join(&file), &tensors);
        map.extend(tensors.iter().map(|(name, ..)| (name.clone(), json!(file))));
    }
    let index = json!({"metadata": {"total_size": total}, "weight_map": map});
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    home
}

fn ask(home: &TempDir, arguments: &[&str]) -> Value {
    let path = home.path().join("model");
    answer(&card(23), home.path(), &[&[path.to_str().unwrap()], arguments].concat()).0
}

#[test]
fn a_quantized_checkpoint_is_named_and_counted_by_its_tensor_shapes() {
    let awq = folder(&json!({"quant_method": "awq", "bits": 4, "group_size": 128}));
    let plain = ask(&awq, &["--context", "1024"]);
    let parameters = plain["model"]["parameters"].as_u64().unwrap();
    // A layer's seven matrices and two norms, the two outer matrices and the last norm.
    let layer = WIDTH * (2 * WIDTH + 2 * 1024 + 3 * 14_336) + 2 * WIDTH;
    assert_eq!(parameters, LAYERS * layer + 2 * VOCAB * WIDTH + WIDTH, "not the packed integers");
    assert_eq!((&plain["model"]["quantization"], &plain["weights"]["is"]), (&json!("AWQ"), &json!("fact")));
    let file = &plain["weights"]["bytes"];
    let changes = plain["options"].to_string();
    assert!(!changes.contains("NF4") && !changes.contains("8 bits"), "{changes}");
    let narrow = ask(&awq, &["--context", "1024", "--dtype", "nf4"]);
    assert_eq!((&narrow["weights"]["gpu_bytes"], &narrow["engine"]), (file, &json!("transformers")));
    assert!(narrow["notes"].to_string().contains("is in AWQ and is taken as it is"), "{}", narrow["notes"]);
    assert!(!narrow["options"].to_string().contains("BitsAndBytesConfig"), "it would be refused beside AWQ's own");
    let lora = ask(&awq, &["--dtype", "qlora"]);
    assert_eq!(lora["engine"], json!("training"), "as the dtype says");
    let over = lora["weights"]["gpu_bytes"].as_u64().unwrap() - file.as_u64().unwrap();
    assert_eq!(over, lora["gradients"]["bytes"].as_u64().unwrap(), "the file and adapters of four bytes");
    // Without an entry in config.json, the dtypes of the tensors tell.
    let config = awq.path().join("model/config.json");
    let mut words: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    words.as_object_mut().unwrap().remove("quantization_config");
    fs::write(&config, words.to_string()).unwrap();
    let packed = ask(&awq, &["--context", "1024"]);
    assert_eq!(packed["model"]["quantization"], json!("packed integers"));
    assert_eq!(packed["model"]["parameters"].as_u64(), Some(parameters));
}

#[test]
fn a_model_with_a_missing_file_is_only_an_estimate() {
    let home = folder(&Value::Null);
    let whole = ask(&home, &["--context", "1024"]);
    assert_eq!((&whole["weights"]["is"], &whole["note"]), (&json!("fact"), &Value::Null));
    fs::remove_file(home.path().join("model/model-2-of-2.safetensors")).unwrap();
    let part = ask(&home, &["--context", "1024"]);
    assert_eq!(part["weights"]["is"], json!("about"));
    let (part_bytes, all) = (part["weights"]["bytes"].as_u64().unwrap(), whole["weights"]["bytes"].as_u64().unwrap());
    assert!(part_bytes.abs_diff(all) < 1000, "what the index says: {part_bytes} of {all}");
    let note = part["note"].as_str().unwrap();
    assert!(note.contains("not all here") && note.contains("model-2-of-2.safetensors is missing"), "{note}");
    let hub = home.path().join(".cache/huggingface/hub/models--a--b/snapshots/1");
    fs::create_dir_all(&hub).unwrap();
    for entry in fs::read_dir(home.path().join("model")).unwrap().flatten() {
        fs::rename(entry.path(), hub.join(entry.file_name())).unwrap();
    }
    let listed = String::from_utf8(fit(&card(23), home.path(), &[]).stdout).unwrap();
    assert!(listed.contains("incomplete"), "{listed}");
}

#[test]
fn fewer_bits_mean_another_checkpoint_and_settings_reach_the_command() {
    let home = folder(&Value::Null);
    let awq = ask(&home, &["--engine", "vllm", "--dtype", "awq", "--context", "2048"]);
    assert_eq!(awq["command"], json!("vllm serve AWQ-REPOSITORY --max-model-len 2048"));
    assert!(awq["notes"].to_string().contains("AWQ-REPOSITORY stands for"), "{}", awq["notes"]);
    let plain = ask(&home, &["--engine", "vllm", "--context", "2048", "--batch", "512", "--parallel", "32"]);
    let weights = |answer: &Value| answer["weights"]["gpu_bytes"].as_u64().unwrap();
    assert!(weights(&awq) < weights(&plain) * 3);
    let line = plain["command"].as_str().unwrap();
    assert!(line.ends_with("--max-model-len 2048 --max-num-batched-tokens 512 --max-num-seqs 32"), "{line}");
    let line = ask(&home, &["--engine", "sglang", "--context", "2048", "--batch", "1024", "--parallel", "8"]);
    let line = line["command"].as_str().unwrap();
    assert!(line.contains("--chunked-prefill-size 1024") && line.ends_with("--max-running-requests 8"), "{line}");
    let long = ask(&home, &["--engine", "vllm", "--context", "9000"]);
    assert_eq!(long["fits"], json!(false));
    let (said, command) = (long["answer"].as_str().unwrap(), long["command"].as_str().unwrap());
    assert!(said.contains("does not start: vLLM refuses 9000") && command.ends_with("--max-model-len 8192"), "{said}");
    let table = answer(&card(23), home.path(), &["Qwen/Qwen3-8B", "--dtype", "nf4", "--context", "4096"]).0;
    assert_eq!((&table["engine"], &table["fits"]), (&json!("transformers"), &json!(true)));
}

#[test]
fn a_gguf_file_is_passed_by_its_path_and_dequantized_by_transformers() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("m.gguf");
    small_model(&path);
    let path = path.to_str().unwrap();
    let ask = |arguments: &[&str]| answer(&card(23), home.path(), &[&[path], arguments].concat()).0;
    let vllm = ask(&["--engine", "vllm", "--context", "2048"]);
    let line = vllm["command"].as_str().unwrap();
    assert!(line.starts_with(&format!("vllm serve {path} --tokenizer BASE-REPOSITORY ")), "{line}");
    assert!(vllm["notes"].to_string().contains("vllm-gguf-plugin"), "{}", vllm["notes"]);
    let (wide, file) = (ask(&["--engine", "transformers", "--context", "2048"]), ask(&[]));
    let bytes = |answer: &Value| answer["weights"]["gpu_bytes"].as_u64().unwrap();
    assert_eq!(bytes(&wide), file["weights"]["bytes"].as_u64().unwrap() * 2, "float32 instead of f16");
    assert!(wide["options"].to_string().contains("weights in bfloat16"), "{}", wide["options"]);
    let refused = ask(&["--dtype", "nf4", "--context", "2048"]);
    assert!(refused["answer"].as_str().unwrap().contains("does not quantize a GGUF file"), "{}", refused["answer"]);
    let other = ask(&["--dtype", "Q8_0", "--context", "2048"]);
    assert!(!other["notes"].to_string().contains("is taken as it is"), "the file does not say in what it is");
    let long = ask(&["--context", "200000"]);
    assert!(long["notes"].to_string().contains("made for 128K tokens of context"), "{}", long["notes"]);
    let twice = ask(&["--engine", "ollama", "--context", "200000"]);
    assert_eq!(twice["context"], json!(131_072), "Ollama takes no more");
}

#[test]
fn a_shorter_context_without_a_flag_is_explained_in_words() {
    let home = tempfile::tempdir().unwrap();
    let ask = |arguments: &[&str]| answer(&card(23), home.path(), arguments).0;
    let run = ask(&["llama-3.1-8b", "--engine", "transformers"]);
    let said = run["answer"].as_str().unwrap();
    assert!(said.contains("prompt and max_new_tokens together within"), "{said}");
    assert_eq!(run["command"], Value::Null, "no line changes it");
    let train = ask(&["llama-3.2-1b", "--engine", "train", "--dtype", "lora", "--context", "32K"]);
    let said = train["answer"].as_str().unwrap();
    let command = train["command"].as_str().unwrap();
    assert!(said.contains("sequences of") && command.contains("max_length="), "{said} {command}");
    let shared = ask(&["llama-3.1-8b", "--engine", "train", "--dtype", "qlora", "--zero", "3", "--cards", "4"]);
    assert!(shared["options"].to_string().contains("bnb_4bit_quant_storage=torch.bfloat16"), "{}", shared["options"]);
    assert!(shared["total_bytes"].as_u64().unwrap() < 20 * GIB);
}
