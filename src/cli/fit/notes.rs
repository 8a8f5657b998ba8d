//! Owns what a person should know beside an answer's figures and command line: what was assumed of the model, what the
//! engine does with it, where a folder has to be converted first, where Ollama's settings go. Sentences without the full
//! stop. Source: vLLM's and transformers' pages on GGUF, vllm-gguf-plugin, llama-server's slots, Ollama's scheduler,
//! peft's prepare_model_for_kbit_training, read on 2026-11-21.

use super::answer::Answer;
use super::command::{command, placeholder};
use super::flags::FitArgs;
use super::located::{Located, Source};
use super::meant::Meant;
use super::{arguments, idle, locate, other};
use crate::memory::flags::quoted;
use crate::memory::{Engine, Kind, ModelShape, Recipe, Storage, fits, quant, sglang, tokens_in_words, vllm};
use crate::text::harmless;
use crate::units::Bytes;

/// Read in Ollama's docs/faq.mdx on 2026-11-21.
const AS_A_SERVICE: &str = "where Ollama runs as a service already, its variables are set there: sudo systemctl edit ollama.service, below [Service] a line Environment=\"NAME=VALUE\" for each, then sudo systemctl daemon-reload and sudo systemctl restart ollama";
const OF_ITS_MODELFILE: &str = "the model's Modelfile sets num_ctx, before which OLLAMA_CONTEXT_LENGTH does nothing: /set parameter counts for one conversation, PARAMETER num_ctx in the Modelfile for all";
const ON_NO_LAYERS: &str = "with no layers on the card a GPU build still computes long prompts there: its compute buffer and the driver's context are what this takes";

/// DeepSeek-Coder-V2-Lite at 16384 tokens took 4320 MiB instead of 486 from Ollama's file.
const OLD_LATENT: &str = "a file of it that was converted before April 2025, as Ollama has of deepseek-v2 and deepseek-coder-v2, caches about nine times as much";

/// The answer's notes, with those of its engine.
pub(super) fn of(answer: &Answer) -> Vec<String> {
    let (args, located, engine) = (answer.args, &answer.located, &answer.engine);
    let shape = &located.shape;
    let about_the_model = [
        conversion(answer),
        located.note.clone(),
        idle::note(args, engine.kind(), shape),
        repository(answer),
        old_latent(answer),
        pool(answer),
    ];
    let mut notes: Vec<String> = about_the_model.into_iter().flatten().collect();
    if answer.spread.is_none() {
        notes.extend(other::notes(engine, shape, answer.card.as_ref(), args.parallel.is_some()));
    }
    let about_the_engine = [
        of_gguf(engine, shape),
        too_long(engine, shape, args.context),
        of_quantised(engine, shape),
        in_float32(engine, shape),
        marlin(engine, shape),
        ignored(located, args),
    ];
    notes.extend(about_the_engine.into_iter().flatten());
    notes.extend(of_settings(answer).map(str::to_owned));
    notes.extend(placeholder(answer));
    notes
}

/// How to make of a folder of safetensors what llama.cpp and Ollama run: llama.cpp's README of its converter and Ollama's
/// docs/import.mdx, read on 2026-11-21.
fn conversion(answer: &Answer) -> Option<String> {
    if answer.located.source != Source::Checkpoint {
        return None;
    }
    let folder = quoted(&harmless(&answer.located.file.as_ref()?.to_string_lossy()));
    match answer.engine {
        Engine::LlamaCpp(_) => Some(format!(
            "llama.cpp runs GGUF files: convert the folder first, in llama.cpp's own folder: python convert_hf_to_gguf.py {folder} --outfile MODEL.gguf"
        )),
        Engine::Ollama(_) => Some(format!(
            "Ollama runs models of its own store: put FROM {folder} into a file named Modelfile, then ollama create NAME -f Modelfile"
        )),
        _ => None,
    }
}

/// What holds for the settings as they are, and where Ollama takes them.
fn of_settings(answer: &Answer) -> impl Iterator<Item = &'static str> {
    let (layers, line) = match &answer.engine {
        Engine::LlamaCpp(settings) => (settings.gpu_layers, String::new()),
        Engine::Ollama(settings) => (settings.gpu_layers, command(answer).unwrap_or_default()),
        _ => (None, String::new()),
    };
    let notes = [
        (layers == Some(0), ON_NO_LAYERS),
        (line.contains(" num_ctx "), OF_ITS_MODELFILE),
        (line.contains('='), AS_A_SERVICE),
    ];
    notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note)
}

fn old_latent(answer: &Answer) -> Option<String> {
    let is_of_library = matches!(answer.engine, Engine::Ollama(_)) && answer.located.source == Source::Table;
    (is_of_library && answer.located.shape.mla).then(|| OLD_LATENT.to_owned())
}

/// The tokens that a server's pool holds.
fn pool(answer: &Answer) -> Option<String> {
    let (shape, card) = (&answer.located.shape, answer.card.as_ref()?);
    if answer.engine.refusal(shape).is_some() {
        return None;
    }
    match &answer.engine {
        Engine::Vllm(serving) => {
            let tokens = vllm::pool_tokens(shape, serving, card.total).filter(|tokens| *tokens > 0)?;
            Some(format!("vLLM gives its pool what is left of the share: about {tokens} tokens here"))
        }
        Engine::Sglang(serving) => {
            let tokens = sglang::tokens(shape, serving, card.free).ok().filter(|tokens| *tokens > 0)?;
            Some(format!(
                "SGLang gives its pool what the weights leave of the share: about {tokens} tokens here. It starts with fewer than the context, too, and then refuses longer requests"
            ))
        }
        _ => None,
    }
}

/// A repository of safetensors by its name, for which a GGUF file was assumed: what it takes as it is, in vLLM.
fn repository(answer: &Answer) -> Option<String> {
    let (args, model, card) = (answer.args, answer.asked, answer.machine.card());
    let is_assumed = answer.located.source == Source::Table && args.engine.is_none();
    let is_llama = matches!(answer.engine, Engine::LlamaCpp(_));
    if !is_assumed || !is_llama || !model.contains('/') || model.to_lowercase().contains("gguf") {
        return None;
    }
    let there = locate::locate(model, &Meant::halves()).ok()?;
    let engine = arguments::engine(Kind::Vllm, args, &there, &answer.machine).ok()?;
    let mix = there.shape.quantization.as_deref().unwrap_or("BF16");
    let fits = match fits(&engine, &there.shape, card) {
        Some(true) => " and fits",
        Some(false) => " and does not fit",
        None => "",
    };
    let total = engine.estimate(&there.shape).total()?;
    Some(format!(
        "a repository of that name holds safetensors as a rule, and llama.cpp runs GGUF files: one was assumed. As it is ({mix}) it takes about {total}{fits} in vLLM: oomdoctor fit {} --engine vllm, or --engine transformers",
        quoted(&harmless(model))
    ))
}

fn of_gguf(engine: &Engine, shape: &ModelShape) -> Option<String> {
    if shape.storage != Storage::Gguf {
        return None;
    }
    Some(match engine {
        Engine::Vllm(_) => "vLLM runs GGUF files with a plugin only (pip install vllm-gguf-plugin) and calls that experimental. BASE-REPOSITORY stands for the model that the file was made from: its tokenizer is needed".into(),
        Engine::Transformers(_) => "transformers unpacks a GGUF file while it loads it (gguf_file=…), to float32 unless a dtype is given: the file's small size is not what it takes".into(),
        Engine::Train(_) => "training unpacks a GGUF file while it loads it; the model's own checkpoint is the usual start".into(),
        _ => return None,
    })
}

/// Where more context is asked for than the model was made for. vLLM and SGLang refuse it, which is the answer itself.
fn too_long(engine: &Engine, shape: &ModelShape, asked: Option<u64>) -> Option<String> {
    let most = shape.context_trained?;
    let slots = if let Engine::LlamaCpp(settings) = engine { settings.parallel.max(1) } else { 1 };
    let asked = asked?.checked_div(slots).filter(|asked| *asked > most)?;
    let (asked, most) = (tokens_in_words(asked), tokens_in_words(most));
    let made = format!("the model was made for {most} tokens of context, and {asked} is asked for");
    Some(match engine {
        Engine::LlamaCpp(_) => format!("{made}: llama-server reserves it, warns, and lets a request have {most}"),
        Engine::Ollama(_) => format!("{made}: Ollama takes {most}"),
        Engine::Transformers(_) | Engine::Train(_) => format!("{made}: nothing refuses that, but answers get worse"),
        _ => return None,
    })
}

fn of_quantised(engine: &Engine, shape: &ModelShape) -> Option<String> {
    let Engine::Train(training) = engine else { return None };
    let name = shape.quantization.as_deref()?;
    let is_full = !training.recipe.is_adapter();
    (is_full && shape.storage == Storage::Quantised).then(|| {
        format!("the checkpoint is in {name}, of which only adapters can be trained (--dtype lora); to train all of it, take the one it was made from")
    })
}

/// peft's helper turns what is not in four bits into float32.
fn in_float32(engine: &Engine, shape: &ModelShape) -> Option<String> {
    let Engine::Train(training) = engine else { return None };
    let narrow = matches!(training.recipe, Recipe::Qlora(_)) && shape.storage == Storage::Plain;
    let matrices = if shape.weights.as_ref().is_ok_and(|sums| sums.tied) { 1 } else { 2 };
    let more = Bytes(shape.embedding.saturating_mul(shape.vocab).saturating_mul(2 * matrices));
    (narrow && more > Bytes::mib(256)).then(|| {
        format!("peft's prepare_model_for_kbit_training turns the embeddings and the output into float32: with it, it takes about {more} more")
    })
}

/// Cards without kernels of their own for four bits: seen on A100.
fn marlin(engine: &Engine, shape: &ModelShape) -> Option<String> {
    let Engine::Vllm(serving) = engine else { return None };
    let more = Bytes(vllm::padding(shape, serving)?);
    Some(format!(
        "on cards before Hopper, such as A100, vLLM runs these experts with Marlin kernels, which pad them: about {more} more on each card"
    ))
}

/// A file has the quantization that it has.
fn ignored(located: &Located, args: &FitArgs) -> Option<String> {
    let asked = args.dtype.as_deref()?;
    let has = located.shape.quantization.as_deref()?;
    let narrow = quant::in_name(&format!("model-{asked}")).is_some();
    let is_file = located.source != Source::Table && located.shape.storage != Storage::Plain;
    let is_other = narrow && !asked.eq_ignore_ascii_case(has);
    (is_file && is_other)
        .then(|| format!("it is in {has} and is taken as it is: --dtype {asked} would be another file"))
}
