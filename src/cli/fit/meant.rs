//! Owns which quantization a person means of a model that only the table knows: as they ask for it, as its name says, as
//! Ollama's library has it, or the usual; and why, in words for the note. Also a checkpoint that vLLM and SGLang are asked to
//! take in fewer bits than it has.

use super::flags::FitArgs;
use super::located::{Located, Source};
use crate::cli::suggest::not_one_of;
use crate::memory::quant::{self, Shape};
use crate::memory::{Is, Kind, Storage, weights};

/// A quantization that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meant {
    /// Its name, as the table's shapes take it.
    pub mix: String,
    /// As a person is shown it: of a checkpoint in few bits the word that was said.
    pub shown: String,
    /// It again, and why it was taken.
    pub why: String,
}

impl Meant {
    /// What a repository of safetensors holds as a rule.
    pub(super) fn halves() -> Meant {
        Meant::new("BF16", "BF16 assumed".into())
    }

    fn new(mix: &str, why: String) -> Meant {
        Meant { mix: mix.to_owned(), shown: mix.to_owned(), why }
    }

    fn of_checkpoint(mix: &str, word: &str, why: String) -> Meant {
        Meant { shown: word.to_uppercase(), ..Meant::new(mix, why) }
    }
}

/// The engine that a name alone speaks of: a checkpoint in few bits is no file of llama.cpp's. A free name with `4bit` in
/// it is no checkpoint's.
pub(super) fn engine_of_name(model: &str) -> Option<Kind> {
    let (word, mix) = quant::in_name(model)?;
    let only_bits = !model.contains('/') && ["4BIT", "8BIT", "INT4", "INT8"].contains(&word.as_str());
    (quant::of_checkpoint(mix) && !only_bits).then_some(Kind::Vllm)
}

/// The quantization that is meant, for the engine that is asked for or that the name speaks of.
pub(super) fn meant(args: &FitArgs, model: &str, engine: Option<Kind>) -> Result<Meant, String> {
    let serves = matches!(engine, Some(Kind::Vllm | Kind::Sglang));
    let of_torch = serves || matches!(engine, Some(Kind::Transformers | Kind::Train));
    let said = quant::in_name(model);
    let dtype = args.dtype.as_deref().filter(|dtype| serves || !dtype.eq_ignore_ascii_case("auto"));
    match (dtype, said) {
        (Some(dtype), said) if serves => of_checkpoint(dtype, said.map_or("BF16", |(_, mix)| mix)),
        (Some(dtype), _) if !of_torch => of_file(dtype),
        // NF4 and 8 bits of transformers begin at the checkpoint, and leave what is quantized already.
        (Some(_), Some((word, mix))) if quant::of_checkpoint(mix) => Ok(as_named(mix, &word)),
        (None, Some((word, mix))) if of_torch => Ok(as_named(mix, &word)),
        (None, Some((word, mix))) => match quant::as_file(mix) {
            file if file == mix => Ok(as_named(mix, &word)),
            file => Ok(Meant::new(file, format!("{file}, llama.cpp's nearest to {word} in its name"))),
        },
        _ if of_torch => Ok(Meant::halves()),
        _ => Ok(match quant::of_library(model) {
            Some((mix, true)) => Meant::new(mix, format!("{mix}, in which Ollama's library has it")),
            Some((mix, false)) => Meant::new(mix, format!("{mix} assumed, in which Ollama's library has most models")),
            None => Meant::new("Q4_K_M", "Q4_K_M assumed".into()),
        }),
    }
}

fn of_file(dtype: &str) -> Result<Meant, String> {
    let mix = match dtype.to_uppercase().as_str() {
        "FLOAT32" => Some("F32"),
        "BFLOAT16" => Some("BF16"),
        "FLOAT16" | "HALF" => Some("F16"),
        other => quant::nearest(other),
    };
    let mix = mix.ok_or_else(|| {
        let known = quant::plain().collect::<Vec<_>>().join(", ");
        format!("--dtype: there is no quantization `{dtype}`; give one of {known}, or Unsloth's UD-Q4_K_XL and others")
    })?;
    let same = mix.eq_ignore_ascii_case(dtype);
    Ok(Meant::new(
        mix,
        if same { format!("{mix} as requested") } else { format!("{mix}, which {dtype} usually means") },
    ))
}

fn of_checkpoint(dtype: &str, named: &str) -> Result<Meant, String> {
    let half = ["auto", "bfloat16", "float16", "half", "bf16", "fp16"].contains(&dtype.to_lowercase().as_str());
    if half {
        return Ok(Meant::new(named, format!("{named} as requested")));
    }
    let few = quant::in_name(&format!("model-{dtype}")).filter(|(_, mix)| quant::of_checkpoint(mix));
    let (word, mix) = few.ok_or_else(|| {
        format!(
            "--dtype: {}",
            not_one_of("type", dtype, ["auto", "bfloat16", "float16", "fp8", "awq", "gptq", "nvfp4"])
        )
    })?;
    Ok(Meant::of_checkpoint(mix, &word, format!("{} bits a weight as requested ({dtype})", bits(mix))))
}

/// Bits of most weights.
fn bits(mix: &str) -> u64 {
    if mix == "FP8" { 8 } else { 4 }
}

fn as_named(mix: &str, word: &str) -> Meant {
    if quant::of_checkpoint(mix) {
        let why = format!("{} bits a weight, as {word} in its name says", bits(mix));
        return Meant::of_checkpoint(mix, word, why);
    }
    let why = match () {
        () if mix != word => format!("{mix}, which {word} in its name usually means"),
        () if mix.starts_with("UD-") => format!("{mix} as its name says, about, as such files differ by model"),
        () => format!("{mix} as its name says"),
    };
    Meant::new(mix, why)
}

/// The word for what `--dtype` asks for and the model is not in, such as `AWQ`: another checkpoint in fewer bits, for which
/// a folder is reckoned anew from the same shapes. `None` where it is in that already, or in other few bits that nothing
/// turns into these.
pub(super) fn requantised(args: &FitArgs, model: &str, located: &mut Located) -> Option<String> {
    let word = args.dtype.as_deref()?;
    let (word, mix) = quant::in_name(&format!("model-{word}")).filter(|(_, mix)| quant::of_checkpoint(mix))?;
    let shape = &mut located.shape;
    match located.source {
        Source::Table => {
            let said = quant::in_name(model).map(|(_, said)| said);
            let is_other = said != Some(mix) && shape.quantization.as_deref() == Some(mix);
            if is_other {
                shape.quantization = Some(word.clone());
            }
            is_other.then_some(word)
        }
        Source::Checkpoint if shape.storage == Storage::Plain => {
            let shapes: Vec<Shape> =
                shape.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.dims.clone())).collect();
            let (layers, experts) = (shape.layer_count(), shape.experts);
            let model = quant::Model { architecture: &shape.architecture, layers, experts, shared_by: 0 };
            let tensors = quant::mixed(&shapes, mix, model)?;
            let count = usize::try_from(shape.layer_count()).ok()?;
            shape.weights = Ok(weights::sums_of(&tensors, count));
            (shape.weights_are, shape.storage) = (Is::About, Storage::Quantised);
            shape.quantization = Some(word.clone());
            Some(word)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        fit: FitArgs,
    }

    fn said(line: &str) -> Result<(String, String, String), String> {
        let words = ["fit"].into_iter().chain(line.split('|'));
        let args = Line::try_parse_from(words).map_err(|error| error.to_string())?.fit;
        let model = args.model.clone().unwrap_or_default();
        let engine = args.engine.or_else(|| engine_of_name(&model));
        meant(&args, &model, engine).map(|meant| (meant.mix, meant.shown, meant.why))
    }

    #[test]
    fn what_is_said_counts_and_is_told() {
        for (line, mix, shown, why) in [
            ("qwen 3 8b q5", "Q5_K_M", "Q5_K_M", "which Q5 in its name usually means"),
            ("qwen3 8b 4bit", "Q4_K_M", "Q4_K_M", "llama.cpp's nearest to 4BIT"),
            ("qwen3 8b int8", "Q8_0", "Q8_0", "nearest to INT8"),
            ("llama3.1:8b-instruct-q8_0", "Q8_0", "Q8_0", "Q8_0 as its name says"),
            ("Qwen/Qwen2.5-32B-Instruct-AWQ", "4-bit", "AWQ", "4 bits a weight, as AWQ in its name says"),
            ("Qwen/Qwen2.5-32B-Instruct-GPTQ-Int8", "FP8", "INT8", "8 bits a weight, as INT8 in its name says"),
            ("Qwen/Qwen2.5-32B-Instruct-AWQ|--engine|llama.cpp", "Q4_K_M", "Q4_K_M", "nearest to AWQ"),
            ("qwen3-8b|--dtype|q6", "Q6_K", "Q6_K", "which q6 usually means"),
            ("qwen3-8b|--dtype|UD-Q5_K_XL", "UD-Q5_K_XL", "UD-Q5_K_XL", "as requested"),
            ("qwen3-8b|--dtype|Q4_K_XL", "UD-Q4_K_XL", "UD-Q4_K_XL", "which Q4_K_XL usually means"),
            ("qwen3-8b|--engine|vllm|--dtype|awq", "4-bit", "AWQ", "4 bits a weight as requested"),
            ("qwen3-8b|--engine|vllm", "BF16", "BF16", "assumed"),
            ("mixtral", "Q4_0", "Q4_0", "Ollama's library has it"),
            ("llama3.2:1b", "Q8_0", "Q8_0", "Ollama's library has it"),
            ("gpt-oss:20b", "MXFP4, BF16", "MXFP4, BF16", "Ollama's library has it"),
            ("qwen3:8b", "Q4_K_M", "Q4_K_M", "has most models"),
            ("qwen3-8b", "Q4_K_M", "Q4_K_M", "Q4_K_M assumed"),
        ] {
            let found = said(line).unwrap();
            assert_eq!((found.0.as_str(), found.1.as_str()), (mix, shown), "{line}");
            assert!(found.2.contains(why), "{line}: {}", found.2);
        }
        assert!(said("qwen3-8b|--dtype|zz").unwrap_err().contains("Q3_K_S"));
        assert!(said("qwen3-8b|--engine|vllm|--dtype|q4").unwrap_err().contains("awq"));
    }

    #[test]
    fn millions_of_tokens_are_read() {
        for (text, tokens) in [("10M", 10 << 20), ("1m", 1 << 20), ("128K", 128 << 10), ("4096", 4096)] {
            let line = Line::try_parse_from(["fit", "x", "--context", text]).map(|line| line.fit.context);
            assert_eq!(line.ok().flatten(), Some(tokens), "{text}");
        }
        assert!(Line::try_parse_from(["fit", "x", "--context", "9999999M"]).is_err());
    }
}
