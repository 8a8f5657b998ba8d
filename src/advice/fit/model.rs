//! Owns which model a log or a person means, and its shape: a row of the table by name, the dimensions that llama.cpp
//! prints, or nothing but its buffers. What the log printed of sizes wins over what the table says, and a row that
//! contradicts the log is not taken. Bytes and tokens. Knows nothing of budgets.

use crate::knowledge::run::Run;
use crate::memory::gguf::Gguf;
use crate::memory::shape::{Cache, Experts, Layer, Window};
use crate::memory::weights::{LayerWeights, WeightSums};
use crate::memory::{Figures, Is, ModelShape, Settings, Storage, cache, from_gguf, quant, table};

/// More layers than any model has: a log may say anything.
const MOST_LAYERS: usize = 1000;
/// A printed MiB has two decimals.
const PRINTED: u64 = 1 << 14;

const ASSUMED: &str = "assumed";

/// A model that is known well enough to reckon with.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// As the table or the log names it.
    pub name: String,
    /// Its quantization or dtype, as the log or the file's name says; else as assumed.
    pub quantization: String,
    /// How it was found, in words.
    pub how: String,
    /// Whether its quantization is a guess.
    pub is_assumed: bool,
    /// As far as memory goes.
    pub shape: ModelShape,
}

/// The quantization's name as the log has it, and the mix of the table that is nearest to it.
struct Quantisation {
    name: String,
    mix: &'static str,
    how: &'static str,
}

/// `Q4_K - Medium` as files are named: `Q4_K_M`.
fn as_in_names(printed: &str) -> String {
    let short = printed.replace(" - Medium", "_M").replace(" - Small", "_S").replace(" - Large", "_L");
    // As llama.cpp prints IQ3_M.
    let short = short.replace("IQ3_S mix", "IQ3_M");
    short.split(' ').next().unwrap_or_default().to_owned()
}

fn quantisation(run: &Run, name: &str, of_torch: bool) -> Quantisation {
    let by_name = quant::in_name(name).map(|(name, mix)| Quantisation { name, mix, how: "as its name says" });
    if of_torch {
        // A name says it of a checkpoint that came in fewer bits; its dtype is that of the rest.
        let printed = run.quantisation.as_deref().and_then(|said| quant::in_name(&said.replace('_', "-")));
        let printed = printed.map(|(name, mix)| Quantisation { name, mix, how: "as the log says" });
        return printed.or(by_name).filter(|said| quant::of_checkpoint(said.mix)).unwrap_or_else(|| by_dtype(run));
    }
    let of_file = by_name.map(|said| Quantisation { mix: quant::as_file(said.mix), ..said });
    // What is printed of Unsloth's files is the plain mix that they are near.
    let (dynamic, plain) = match of_file {
        Some(said) if said.mix.starts_with("UD-") => (Some(said), None),
        said => (None, said),
    };
    dynamic.or_else(|| printed(run)).or(plain).or_else(|| of_library(name)).unwrap_or_else(|| Quantisation {
        name: "Q4_K_M".into(),
        mix: "Q4_K_M",
        how: ASSUMED,
    })
}

/// What llama.cpp prints of its file.
fn printed(run: &Run) -> Option<Quantisation> {
    let name = as_in_names(run.quantisation.as_deref()?);
    quant::nearest(&name).map(|mix| Quantisation { name, mix, how: "as the log says" })
}

fn of_library(name: &str) -> Option<Quantisation> {
    let (mix, is_sure) = quant::of_library(name)?;
    is_sure.then(|| Quantisation { name: mix.into(), mix, how: "in which Ollama's library has it" })
}

fn by_dtype(run: &Run) -> Quantisation {
    let (name, mix, how) = match run.dtype.as_deref() {
        Some("float32") => ("float32", "F32", "as the log says"),
        Some(half @ ("bfloat16" | "float16")) => (half, "BF16", "as the log says"),
        _ => ("bfloat16", "BF16", ASSUMED),
    };
    Quantisation { name: name.to_owned(), mix, how }
}

/// A checkpoint in few bits that its makers give out so is no bfloat16, whatever the rest of it is computed in.
fn as_given_out(quantisation: Quantisation, row: &Figures) -> Quantisation {
    let own = table::own_mix(row, quantisation.mix);
    if own == quantisation.mix || !quant::of_checkpoint(own) {
        return quantisation;
    }
    let name = own.split(',').next().unwrap_or(own).to_owned();
    Quantisation { name, how: "in which it is given out", ..quantisation }
}

/// The model: as the person says, else as the log names it, else by what the log prints of it. `None` where
/// that is not enough.
pub(super) fn known(said: Option<&str>, run: &Run, of_torch: bool) -> Option<Known> {
    // A person may know what a blob without a name is, and a name that they say and the table lacks is not answered for
    // another; a log's name must not contradict its own figures.
    let named = match said {
        Some(name) => by_name(name, "as you say", run, of_torch),
        None => {
            let names = [
                (run.model.as_ref(), "as the log names it"),
                (run.printed.get("general.name"), "as its file is named inside"),
            ];
            let mut known = names.into_iter().filter_map(|(name, whose)| by_name(name?, whose, run, of_torch));
            known.find(|known| agrees(&known.shape, run))
        }
    };
    named.or_else(|| by_dimensions(run)).or_else(|| by_buffers(run))
}

/// A row of the table.
fn by_name(name: &str, whose: &str, run: &Run, of_torch: bool) -> Option<Known> {
    let file = name.rsplit('\\').next().unwrap_or(name).trim_end_matches(".gguf");
    let (row, called) = table::called(table::rows().ok()?, file)?;
    let quantisation = as_given_out(quantisation(run, name, of_torch), &row);
    let how = format!("{whose}: {called}, {} {}", quantisation.name, quantisation.how);
    let shape = table::shape(&row, quantisation.mix);
    let is_assumed = quantisation.how == ASSUMED;
    Some(Known { name: called, quantization: quantisation.name, how, is_assumed, shape })
}

/// Whether a shape has the layers and the width that the log prints, where it does.
fn agrees(shape: &ModelShape, run: &Run) -> bool {
    let printed = [run.layers, run.printed_number("n_embd"), run.printed_number("n_vocab")];
    let ours = [shape.layer_count(), shape.embedding, shape.vocab];
    printed.iter().zip(ours).all(|(printed, ours)| printed.is_none_or(|printed| printed == ours))
}

/// The log's own name for a model that the table does not have: a file without its folder.
fn own_name(run: &Run) -> String {
    let name = run.model.as_deref().and_then(|model| model.rsplit(['/', '\\']).next());
    name.map_or_else(|| "this model".to_owned(), |name| name.trim_end_matches(".gguf").to_owned())
}

/// A model by the dimensions that llama.cpp prints while it loads one.
fn by_dimensions(run: &Run) -> Option<Known> {
    let experts = run.printed_number("n_expert").filter(|count| *count > 1);
    let figures = Figures {
        name: own_name(run),
        architecture: run.architecture.clone()?,
        layers: run.layers.filter(|layers| (1..=MOST_LAYERS as u64).contains(layers))?,
        hidden: run.printed_number("n_embd")?,
        heads: run.printed_number("n_head")?,
        kv_heads: run.printed_number("n_head_kv")?,
        head_dim: run
            .printed_number("n_embd_head_k")
            .or_else(|| run.printed_number("n_embd")?.checked_div(run.printed_number("n_head")?))?,
        ffn: run.printed_number("n_ff").unwrap_or(0),
        vocab: run.printed_number("n_vocab")?,
        context: run.printed_number("n_ctx_train").unwrap_or(0),
        experts: experts.and_then(|count| {
            let ffn = run.printed_number("n_ff_exp").or_else(|| run.printed_number("n_ff"))?;
            Some(Experts { count, used: run.printed_number("n_expert_used").unwrap_or(0), ffn, ..Experts::default() })
        }),
        window: None::<Window>,
        ..Figures::default()
    };
    let windowed = run.printed_number("n_swa").is_some_and(|window| window > 0);
    let quantisation = quantisation(run, &figures.name, false);
    let mut shape = from_gguf(&figures.as_gguf(quantisation.mix));
    shape.quantization = Some(quantisation.name.clone());
    (shape.weights_are, shape.cache_is) = (Is::About, if windowed { Is::About } else { shape.cache_is });
    let how = format!("by the dimensions that the log prints, {} {}", quantisation.name, quantisation.how);
    let is_enough = shape.layers.is_ok() && !windowed && shape.heads > 0;
    let is_assumed = quantisation.how == ASSUMED;
    is_enough.then_some(Known { name: figures.name, quantization: quantisation.name, how, is_assumed, shape })
}

/// A model by its buffers alone: layers of one size, a cache that grows with the context. All of it is about.
fn by_buffers(run: &Run) -> Option<Known> {
    let (on_card, all) = run.layers_offloaded.filter(|(on, all)| *on > 0 && *all > 1)?;
    let unit = run.weights_bytes?.0.checked_div(on_card)?;
    let layers = all.saturating_sub(1);
    let count = usize::try_from(layers).ok().filter(|count| *count <= MOST_LAYERS)?;
    let quantisation = quantisation(run, run.model.as_deref().unwrap_or_default(), false);
    let shape = ModelShape {
        name: run.model.clone(),
        architecture: run.architecture.clone().unwrap_or_default(),
        quantization: Some(quantisation.name.clone()),
        storage: Storage::Gguf,
        context_trained: run.printed_number("n_ctx_train"),
        embedding: run.printed_number("n_embd").unwrap_or(0),
        heads: run.printed_number("n_head").unwrap_or(0),
        vocab: run.printed_number("n_vocab").unwrap_or(0),
        layers: Err("the log prints no KV cache".into()),
        cache_is: Is::About,
        weights: Ok(WeightSums {
            output: unit,
            layers: vec![LayerWeights { dense: unit, experts: 0 }; count],
            ..WeightSums::default()
        }),
        weights_are: Is::About,
        ..from_gguf(&Gguf::default())
    };
    let how = "by the buffers that the log prints".to_owned();
    // Its layers are taken to be of one size.
    Some(Known { name: own_name(run), quantization: quantisation.name, how, is_assumed: true, shape })
}

/// Puts the sizes that the log printed in the place of ours. `cache_bytes` is the KV cache's buffer on the GPU at
/// these settings, printed or refused.
pub(crate) fn hold_to_the_log(shape: &mut ModelShape, run: &Run, settings: &Settings, cache_bytes: Option<u64>) {
    let printed = if run.layers_offloaded.is_some() { run.weights_bytes } else { None };
    if let Ok(sums) = &mut shape.weights {
        let placed = sums.placed(settings.gpu_layers.unwrap_or(u64::MAX), settings.host_experts).gpu;
        match (printed, run.file_bytes) {
            (Some(printed), _) if placed.abs_diff(printed.0) <= PRINTED => shape.weights_are = Is::Fact,
            (Some(printed), _) => *sums = sums.scaled(printed.0, placed),
            // A file's size is printed in GiB with two decimals.
            (None, Some(file)) if sums.in_file().abs_diff(file.0) > file.0 / 100 => {
                *sums = sums.scaled(file.0, sums.in_file());
            }
            (None, _) => {}
        }
    }
    let Some(printed) = cache_bytes else { return };
    let ours = cache::kv_cache(shape, settings);
    if ours.as_ref().is_ok_and(|ours| ours.gpu.abs_diff(printed) <= PRINTED) {
        shape.cache_is = Is::Fact;
    } else if let Some(layers) = even_layers(shape, settings, printed) {
        (shape.layers, shape.cache_is) = (Ok(layers), Is::About);
    }
}

/// Layers that all cache alike so that the buffer comes out.
fn even_layers(shape: &ModelShape, settings: &Settings, printed: u64) -> Option<Vec<Layer>> {
    // Of windows the buffers are several, and states are no cache.
    if shape.has_window() || shape.layers.is_ok() && shape.is_recurrent() {
        return None;
    }
    let count = shape.layer_count();
    let on_card = settings.gpu_layers.unwrap_or(u64::MAX).saturating_sub(1).min(count);
    let context = settings.context_tokens(shape.context_trained)?;
    let cells = settings.cells(context, 0)?;
    let cell = printed.checked_div(cells.full.checked_mul(cells.streams)?.checked_mul(on_card)?)?;
    // Elements of a row of which K and V have half each.
    let (k, v) = (settings.k_type.row_bytes(256)?, settings.v_type.row_bytes(256)?);
    let elements = cell.checked_mul(256)?.checked_div(k.checked_add(v)?)?.checked_next_multiple_of(32)?;
    let cache = Cache { k: elements, v: elements, heads: 1, windowed: false };
    let layer = Layer { cache: (elements > 0).then_some(cache), recurrent: Some(0), ..Layer::default() };
    Some(vec![layer; usize::try_from(count).ok().filter(|count| *count <= MOST_LAYERS)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_given_out_in_four_bits_is_not_called_bfloat16() {
        for (dtype, name) in [(None, "openai/gpt-oss-20b"), (Some("bfloat16"), "openai/gpt-oss-20b")] {
            let run = Run { model: Some(name.to_owned()), dtype: dtype.map(str::to_owned), ..Run::default() };
            let known = known(None, &run, true).unwrap();
            assert_eq!(known.quantization, "MXFP4", "{dtype:?}");
            assert_eq!(known.shape.storage, Storage::Quantised);
        }
        let plain = Run { model: Some("Qwen/Qwen3-8B".to_owned()), ..Run::default() };
        assert_eq!(known(None, &plain, true).unwrap().quantization, "bfloat16");
    }

    #[test]
    fn no_other_models_name_is_said() {
        for (name, said) in [
            ("Qwen/Qwen3.6-27B", Some("Qwen3.6-27B")),
            ("Qwen/Qwen3.8-27B", Some("Qwen3.8-27B")),
            ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", Some("DeepSeek-R1-Distill-Qwen-14B")),
            ("Qwen/Qwen4.7-27B", None),
            ("Qwen/Qwen3-VL-8B-Instruct", None),
        ] {
            let run = Run { model: Some(name.to_owned()), ..Run::default() };
            let known = known(None, &run, true);
            assert_eq!(known.as_ref().map(|known| known.name.as_str()), said, "{name}");
            let how = known.map(|known| known.how).unwrap_or_default();
            assert!(said.is_none_or(|said| how.contains(said)), "{how}");
        }
        // A name that the person says and the table lacks is not answered for by the log's.
        let run = Run { model: Some("Qwen/Qwen3-8B".to_owned()), ..Run::default() };
        assert!(known(Some("zebra-9b"), &run, true).is_none());
    }

    #[test]
    fn a_logs_quantisation_is_what_it_prints_or_what_its_files_name_says() {
        let of = |printed: Option<&str>, name: &str| {
            let run = Run { quantisation: printed.map(str::to_owned), ..Run::default() };
            let found = quantisation(&run, name, false);
            (found.mix, found.how)
        };
        for (printed, name, mix, how) in [
            (Some("Q4_K - Medium"), "x-Q4_K_M.gguf", "Q4_K_M", "as the log says"),
            (Some("Q4_K - Medium"), "Qwen3.5-9B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL", "as its name says"),
            (Some("Q2_K - Medium"), "sha256-ab", "Q2_K", "as the log says"),
            (Some("Q2_K - Small"), "sha256-ab", "Q2_K_S", "as the log says"),
            (Some("Q3_K - Large"), "sha256-ab", "Q3_K_L", "as the log says"),
            (Some("IQ3_S mix"), "sha256-ab", "IQ3_M", "as the log says"),
            (Some("IQ2_XXS - 2"), "sha256-ab", "IQ2_XXS", "as the log says"),
            (Some("MXFP4"), "sha256-ab", "MXFP4_MOE", "as the log says"),
            (None, "llama3.1:8b-instruct-q5_0", "Q5_0", "as its name says"),
            (None, "mixtral:8x7b", "Q4_0", "in which Ollama's library has it"),
            (None, "gpt-oss:20b", "MXFP4, BF16", "in which Ollama's library has it"),
            (None, "qwen3:8b", "Q4_K_M", "assumed"),
        ] {
            assert_eq!(of(printed, name), (mix, how), "{printed:?} {name}");
        }
    }
}
