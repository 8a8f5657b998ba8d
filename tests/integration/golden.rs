//! The memory arithmetic compared with figures that real runs printed: the project's own rows, and by hand any other
//! file of rows of the same form (`OOMDOCTOR_GOLDEN=rows.jsonl cargo test --test integration golden -- --ignored`).

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "figures of rows, which fit")]

use std::collections::BTreeMap;
use std::fs;

use oomdoctor::memory::compute::{self, Graph};
use oomdoctor::memory::ggml::GgmlType;
use oomdoctor::memory::settings::{Backend, Outputs};
use oomdoctor::memory::shape::{Cache, Figures, Is, Layer, Recurrent, from_gguf};
use oomdoctor::memory::training::bytes;
use oomdoctor::memory::{Estimate, ModelShape, Settings, Storage, estimate, table, vllm};
use oomdoctor::units::Bytes;
use serde_json::Value;

fn number(row: &Value, key: &str) -> Option<u64> {
    let value = &row["a"][key];
    value.as_u64().or_else(|| value.as_f64().map(|real| real.round() as u64))
}

fn required(row: &Value, key: &str) -> u64 {
    number(row, key).unwrap()
}

fn kind(row: &Value, key: &str) -> GgmlType {
    row["a"][key].as_str().map_or(GgmlType::F16, |name| GgmlType::from_name(name).unwrap())
}

/// A model with only the figures of a row.
fn shape(layers: Vec<Layer>, window: u64) -> ModelShape {
    ModelShape {
        name: None,
        architecture: "llama".into(),
        parameters: None,
        quantization: None,
        storage: Storage::Plain,
        context_trained: None,
        embedding: 1,
        heads: 1,
        feed_forward: 0,
        vocab: 1,
        per_layer: 0,
        window,
        mla: false,
        experts: 0,
        experts_used: 0,
        layers: Ok(layers),
        cache_is: Is::Fact,
        weights: Err("none".into()),
        weights_are: Is::Fact,
        projector: 0,
        encoding: 0,
        encoder: None,
        vision: 0,
        tensors: Vec::new(),
    }
}

fn layers(count: u64, k: u64, v: u64, windowed: bool) -> Vec<Layer> {
    vec![
        Layer { cache: Some(Cache { k, v, heads: 1, windowed }), recurrent: Some(0), ..Layer::default() };
        count as usize
    ]
}

fn settings(row: &Value, context: u64) -> Settings {
    let k_type = kind(row, "tk");
    let v_type = if row["a"]["tv"].is_string() { kind(row, "tv") } else { k_type };
    let usual = Settings::default();
    let micro_batch = number(row, "n_ubatch").or_else(|| number(row, "ub")).unwrap_or(usual.micro_batch);
    let parallel = number(row, "n_seq").unwrap_or(1);
    let unified = row["a"]["unified"].as_bool().unwrap_or(false);
    Settings { context: Some(context), k_type, v_type, micro_batch, parallel, unified, ..usual }
}

fn kv(row: &Value) -> u64 {
    let (k, v) = (required(row, "k"), number(row, "v").unwrap_or(0));
    let shape = shape(layers(required(row, "layers"), k, v, false), 0);
    // Old versions did not pad the cells, so a row's cells are the printed ones.
    assert_eq!(required(row, "cells") % 256, 0, "{row}");
    estimate(&shape, &settings(row, required(row, "cells"))).kv_split.unwrap().all()
}

fn kv_iswa(row: &Value) -> u64 {
    let mut all = layers(
        required(row, "full"),
        required(row, "kfull"),
        number(row, "vfull").unwrap_or(required(row, "kfull")),
        false,
    );
    all.extend(layers(
        required(row, "swa"),
        required(row, "kswa"),
        number(row, "vswa").unwrap_or(required(row, "kswa")),
        true,
    ));
    let split =
        estimate(&shape(all, required(row, "window")), &settings(row, required(row, "n_ctx"))).kv_split.unwrap();
    match row["a"]["part"].as_str() {
        Some("full") => split.full,
        Some("swa") => split.windowed,
        _ => split.all(),
    }
}

/// The recurrent state, computed through a whole model.
fn state(row: &Value) -> u64 {
    let of = |key| number(row, key).unwrap_or(0);
    let whole =
        |conv| Recurrent { interval: 0, conv, state: of("d_state"), groups: of("n_group"), inner: of("d_inner") };
    let of_model = |recurrent| {
        let base = Figures {
            architecture: "mamba".into(),
            layers: of("layers"),
            hidden: 1024,
            vocab: 1,
            ..Figures::default()
        };
        let figures = Figures { recurrent: Some(recurrent), context: 256, ..base };
        let slots = Settings { parallel: of("n_seq").max(1), ..Settings::default() };
        estimate(&from_gguf(&figures.as_gguf("F16")), &slots).recurrent.bytes.unwrap().0
    };
    let alone = of_model(whole(1));
    match row["a"]["part"].as_str() {
        Some("S") => alone,
        Some("R") => of_model(whole(number(row, "d_conv").unwrap_or(4))) - alone,
        _ => of_model(whole(number(row, "d_conv").unwrap_or(4))),
    }
}

fn dense_weights(row: &Value) -> u64 {
    let flag = |key: &str| row["a"][key].as_bool().unwrap_or(false);
    let family = match (flag("qkv_bias"), flag("qk_norm")) {
        (true, _) => "qwen2",
        (_, true) => "qwen3",
        _ => "llama",
    };
    let figures = Figures {
        architecture: family.into(),
        layers: required(row, "L"),
        hidden: required(row, "E"),
        heads: required(row, "H"),
        kv_heads: required(row, "KV"),
        head_dim: required(row, "HD"),
        ffn: required(row, "FF"),
        vocab: required(row, "V"),
        tied: flag("tied"),
        context: 256,
        ..Figures::default()
    };
    let model = from_gguf(&figures.as_gguf(row["a"]["quant"].as_str().unwrap()));
    let Estimate { weights, weights_in_file, .. } = estimate(&model, &Settings::default());
    let without_input = row["a"]["only"] == "no_embd";
    (if without_input { weights } else { weights_in_file }).bytes.unwrap().0
}

fn buffer(row: &Value, f: &str) -> u64 {
    let of = |key| number(row, key).unwrap_or(0);
    let cpu = row["quantity"] == "compute-cpu";
    let graph = Graph {
        embedding: of("embd"),
        heads: of("heads"),
        vocab: of("vocab"),
        widest: (of("k"), of("v")),
        mla: row["a"]["mla"].as_bool().unwrap_or(false),
        attends: f != "cb_logits",
        ..Graph::default()
    };
    let context = number(row, "n_ctx").unwrap_or(8192);
    let mut settings = settings(row, context);
    settings.backend = if cpu { Backend::Cpu } else { Backend::Gpu };
    settings.flash_attention = f != "cb_nofa";
    settings.devices = number(row, "devices").unwrap_or(1);
    if f == "cb_fa" && !row["a"]["tk"].is_string() {
        // The published row of this form was measured with a q8_0 cache.
        let quantised = row["model"].as_str().unwrap().contains("q8_0");
        settings.k_type = if quantised { GgmlType::Q8_0 } else { GgmlType::F16 };
        settings.v_type = settings.k_type;
    }
    compute::buffer(&graph, &settings, context).unwrap()
}

/// The bytes that the project computes for a row.
fn computed(row: &Value) -> f64 {
    let f = row["f"].as_str().unwrap();
    let whole = match f {
        "kv" => kv(row),
        "kv_iswa" => kv_iswa(row),
        "rs" => state(row),
        "tensor" => {
            let dims: Vec<u64> = row["a"]["ne"].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
            kind(row, "t").tensor_bytes(&dims).unwrap()
        }
        "dense_weights" => dense_weights(row),
        "params_bytes" => bytes(required(row, "params"), required(row, "bpp") * 1000),
        "cb_logits" | "cb_fa" | "cb_nofa" => buffer(row, f),
        "vllm_budget" => {
            let part = |index: usize| row["a"][index].as_f64().unwrap();
            let taken: Vec<Bytes> = (2..row["a"].as_array().unwrap().len()).map(|at| Bytes(part(at) as u64)).collect();
            return vllm::available(Bytes(part(0) as u64), (part(1) * 1000.0).round() as u64, &taken) as f64;
        }
        other => panic!("{other}: {row}"),
    };
    whole as f64
}

/// Figures of the shared rows that the program does not compute.
const NOT_COMPUTED: [&str; 3] = ["out_buf", "zero3", "zero_paper"];

/// The row's unit in bytes.
fn unit(row: &Value) -> f64 {
    match row["unit"].as_str().unwrap() {
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        "GB10" => 1e9,
        "bytes" => 1.0,
        other => panic!("{other}"),
    }
}

/// The computed and the printed figure in bytes, and whether they agree within the row's tolerance.
fn judge(row: &Value) -> (f64, f64, bool) {
    let (ours, scale) = (computed(row), unit(row));
    let printed = row["reported"].as_f64().unwrap() * scale;
    let half = row["half"].as_f64().unwrap() * scale;
    let allowed = if row["cls"] == "estimate" { (printed / 10.0).max(64.0 * 1_048_576.0) } else { half * 1.001 + 1e-3 };
    (ours, printed, (ours - printed).abs() <= allowed)
}

fn rows(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap());
    rows.filter(|row: &Value| !row["f"].as_str().is_some_and(|form| NOT_COMPUTED.contains(&form))).collect()
}

#[test]
fn the_projects_own_rows_are_computed_as_printed() {
    let rows = rows(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/memory.jsonl"));
    assert!(rows.len() >= 60);
    for row in rows {
        let (ours, printed, agrees) = judge(&row);
        assert!(agrees, "{ours} against {printed}: {row}");
    }
}

/// A whole number among the settings of a run.
fn setting(row: &Value, key: &str) -> Option<u64> {
    row["settings"][key].as_u64()
}

/// Whether a run had a switch on.
fn has_on(row: &Value, key: &str) -> bool {
    row["settings"][key].as_bool().unwrap_or(false)
}

fn cache_type(row: &Value, key: &str) -> GgmlType {
    row["settings"][key].as_str().map_or(GgmlType::F16, |name| GgmlType::from_name(name).unwrap())
}

/// The settings of a run of llama.cpp, or of Ollama, which starts it. A build before June 2026 is `"build": "earlier"`.
fn settings_of_run(row: &Value) -> Settings {
    let usual = Settings::default();
    Settings {
        context: setting(row, "context"),
        parallel: setting(row, "slots").unwrap_or(1),
        micro_batch: setting(row, "micro_batch").unwrap_or(usual.micro_batch),
        gpu_layers: setting(row, "gpu_layers"),
        k_type: cache_type(row, "k"),
        v_type: cache_type(row, "v"),
        unified: has_on(row, "unified"),
        swa_full: has_on(row, "swa_full"),
        outputs: if row["settings"]["build"] == "earlier" { Outputs::MicroBatch } else { Outputs::Slots },
        ..usual
    }
}

/// What the program says of a run.
fn estimate_of_run(row: &Value, model: &Figures) -> Estimate {
    if row["settings"]["engine"] == "vllm" {
        let serving = vllm::Serving { max_model_len: setting(row, "context"), ..Default::default() };
        return vllm::estimate(&table::shape(model, "BF16"), &serving);
    }
    let mix = row["settings"]["mix"].as_str().unwrap_or("Q4_K_M");
    estimate(&table::shape(model, mix), &settings_of_run(row))
}

/// The figure of an estimate that a row is about, and by how much it may be off; in MiB.
fn figure_and_tolerance(row: &Value, estimate: &Estimate) -> (f64, f64) {
    let (printed, half) = (row["printed"].as_f64().unwrap(), row["half"].as_f64().unwrap());
    let Estimate { kv_cache, recurrent, compute, weights, weights_in_file, .. } = estimate;
    let (parts, allowed) = match row["quantity"].as_str().unwrap() {
        "file" => (vec![weights_in_file], printed / 20.0),
        "checkpoint" | "weights" => (vec![weights], printed / 20.0),
        // The three buffers that llama.cpp prints of a GPU.
        "total" => (vec![weights, kv_cache, compute], printed / 20.0),
        "state" => (vec![recurrent], half * 1.001),
        "compute" => (vec![compute], (printed / 10.0).max(64.0)),
        "kv" => (vec![kv_cache], half * 1.001),
        other => panic!("{other}: {row}"),
    };
    let bytes: u64 = parts.into_iter().map(|part| part.bytes.unwrap().0).sum();
    (bytes as f64 / 1_048_576.0, allowed)
}

/// Figures that runs printed for models in the table: this covers the table's rows and the arithmetic together.
#[test]
fn figures_of_named_models_are_computed_as_printed() {
    let named = table::rows().unwrap();
    let rows = rows(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/named.jsonl"));
    assert!(rows.len() >= 60);
    for row in rows {
        let model = table::find(named, row["name"].as_str().unwrap()).unwrap();
        if row["quantity"] == "trained" {
            assert_eq!(table::shape(&model, "Q4_K_M").context_trained, row["printed"].as_u64(), "{row}");
            continue;
        }
        let (ours, allowed) = figure_and_tolerance(&row, &estimate_of_run(&row, &model));
        let printed = row["printed"].as_f64().unwrap();
        assert!((ours - printed).abs() <= allowed, "{ours} against {printed}: {row}");
    }
}

#[test]
#[ignore = "takes a file of rows from OOMDOCTOR_GOLDEN"]
fn other_rows_are_computed_as_printed() {
    let mut table: BTreeMap<String, (u64, u64, f64, f64)> = BTreeMap::new();
    for row in rows(&std::env::var("OOMDOCTOR_GOLDEN").unwrap()) {
        let (ours, printed, agrees) = judge(&row);
        let percent = (ours - printed) / printed.abs() * 100.0;
        let kind = format!("{} {}", row["f"].as_str().unwrap(), row["quantity"].as_str().unwrap());
        let line = table.entry(kind).or_insert((0, 0, 0.0, 0.0));
        line.0 += 1;
        line.1 += u64::from(agrees);
        line.2 = line.2.min(percent);
        line.3 = line.3.max(percent);
        if !agrees {
            eprintln!("{}: {ours} against {printed} ({percent:+.2} %)", row["id"]);
        }
    }
    for (kind, (count, agree, low, high)) in &table {
        eprintln!("{kind:28} {agree:3} of {count:3}  {low:+.2} % … {high:+.2} %");
    }
    assert!(table.values().all(|(count, agree, ..)| count == agree));
}
