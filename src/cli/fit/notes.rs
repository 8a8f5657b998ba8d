//! Owns what a person should know beside an answer's figures and command line: what was assumed of the model, what the
//! engine does with it, where a folder has to be converted first, where Ollama's settings go,
//! what llama.cpp would take where it runs otherwise than reckoned: an earlier build, or with the slots that its server opens
//! by itself. Sentences without the full
//! stop. Source: vLLM's and transformers' pages on GGUF, vllm-gguf-plugin, llama-server's slots and `llama_context::sched_reserve`, Ollama's scheduler,
//! peft's prepare_model_for_kbit_training, read on 2026-11-21.

use super::answer::Answer;
use super::command::{command, placeholder};
use super::flags::FitArgs;
use super::located::{Located, Source};
use super::meant::Meant;
use super::{arguments, idle, locate};
use crate::memory::flags::quoted;
use crate::memory::settings::OWN_SLOTS;
use crate::memory::{
    Card, Engine, Kind, ModelShape, Outputs, Recipe, Settings, Storage, fits, quant, sglang, tokens_in_words, vllm,
};
use crate::text::harmless;
use crate::units::Bytes;

/// Read in Ollama's docs/faq.mdx on 2026-11-21.
const AS_A_SERVICE: &str = "where Ollama runs as a service already, its variables are set there: sudo systemctl edit ollama.service, below [Service] a line Environment=\"NAME=VALUE\" for each, then sudo systemctl daemon-reload and sudo systemctl restart ollama";
const OF_ITS_MODELFILE: &str = "the model's Modelfile sets num_ctx, before which OLLAMA_CONTEXT_LENGTH does nothing: /set parameter counts for one conversation, PARAMETER num_ctx in the Modelfile for all";
const ON_NO_LAYERS: &str = "with no layers on the GPU, a GPU build still computes long prompts there: this is its compute buffer and the driver's context";

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
        notes.extend(of_other_builds(engine, shape, answer.card.as_ref(), args.parallel.is_some()));
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
            Some(format!("vLLM uses the rest of its share as the KV cache: about {tokens} tokens here"))
        }
        Engine::Sglang(serving) => {
            let tokens = sglang::tokens(shape, serving, card.free).ok().filter(|tokens| *tokens > 0)?;
            Some(format!(
                "SGLang uses what the weights leave of its share as the KV cache: about {tokens} tokens here. With fewer than the context it starts, and refuses longer requests"
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
        "such a repository usually contains safetensors, and llama.cpp runs GGUF files: one was assumed. As it is ({mix}) it takes about {total}{fits} in vLLM: oomdoctor fit {} --engine vllm, or --engine transformers",
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
        "on GPUs before Hopper, such as A100, vLLM runs these experts with Marlin kernels, which pad them: about {more} more on each GPU"
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

/// The same with a build that keeps the logits of a whole batch; `None` for an engine that has no such builds.
fn earlier(engine: &Engine) -> Option<Engine> {
    let Engine::LlamaCpp(settings) = engine else { return None };
    Some(Engine::LlamaCpp(Settings { outputs: Outputs::MicroBatch, ..*settings }))
}

/// The compute buffer of such a build, in bytes.
pub(super) fn earlier_compute(engine: &Engine, shape: &ModelShape) -> Option<Bytes> {
    earlier(engine)?.estimate(shape).compute.bytes
}

/// What to say beside an answer, in sentences without the full stop.
fn of_other_builds(engine: &Engine, shape: &ModelShape, card: Option<&Card>, asked_slots: bool) -> Vec<String> {
    let (Engine::LlamaCpp(settings), Some(earlier)) = (engine, earlier(engine)) else { return Vec::new() };
    let (as_asked, in_earlier) = (fits(engine, shape, card), fits(&earlier, shape, card));
    let now = engine.estimate(shape).total();
    let mut notes = Vec::new();
    if as_asked == Some(true) && in_earlier == Some(false) {
        let total = earlier.estimate(shape).total().unwrap_or(Bytes::ZERO);
        let fate = if card.is_some_and(|card| total <= card.free) { "is too tight" } else { "does not fit" };
        notes.push(format!(
            "this is for llama-server since June 2026. Earlier builds, llama-completion and llama-cpp-python keep more logits: there it takes about {total} and {fate}"
        ));
    }
    let open = Engine::LlamaCpp(Settings { parallel: OWN_SLOTS, unified: true, ..*settings });
    if !asked_slots && let (Some(now), Some(total)) = (now, open.estimate(shape).total()) {
        let verdict = match (as_asked, fits(&open, shape, card)) {
            (Some(true), Some(false)) => " and does not fit",
            (Some(true), Some(true)) => " and fits, too",
            _ => "",
        };
        let more = total.less(now);
        if more > Bytes::mib(16) {
            notes.push(format!(
                "this is for one request at a time (-np 1). Without -np llama-server opens {OWN_SLOTS} slots: that takes about {more} more{verdict}"
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::table;
    use crate::memory::visible::Counted;

    fn said(name: &str, free: Option<u64>, asked: bool) -> Vec<String> {
        let shape = table::shape(&table::find(table::rows().unwrap(), name).unwrap(), "Q4_K_M");
        let settings = Settings { context: Some(16_384), outputs: Outputs::Slots, ..Settings::default() };
        let card = |free| Card {
            index: 0,
            counted: Counted::default(),
            name: "x".into(),
            total: Bytes::gib(80),
            free: Bytes::mib(free),
            each: Vec::new(),
        };
        of_other_builds(&Engine::LlamaCpp(settings), &shape, free.map(card).as_ref(), asked)
    }

    #[test]
    fn the_servers_own_slots_are_told_where_they_take_more() {
        assert_eq!(said("llama-3.1-8b", Some(80 << 10), false), Vec::<String>::new(), "they share what there is");
        let windows = said("gemma-3-27b", Some(80 << 10), false);
        assert!(windows.first().is_some_and(|note| note.contains("4 slots") && note.ends_with("fits, too")));
        assert_eq!(said("gemma-3-27b", Some(80 << 10), true), Vec::<String>::new(), "asked for");
        let states = said("qwen3.6-27b", None, false);
        assert!(states.first().is_some_and(|note| note.ends_with("about 449 MiB more")), "{states:?}");
    }

    #[test]
    fn an_earlier_build_is_told_of_where_that_turns_the_answer() {
        let shape = table::shape(&table::find(table::rows().unwrap(), "llama-3.1-8b").unwrap(), "Q4_K_M");
        let wanted = |outputs| {
            let settings = Settings { context: Some(16_384), outputs, ..Settings::default() };
            Engine::LlamaCpp(settings).estimate(&shape).wanted(1).unwrap().0 >> 20
        };
        let close = said("llama-3.1-8b", Some(wanted(Outputs::MicroBatch) - 10), false);
        let told = |note: &&String| note.contains("since June 2026") && note.ends_with("is too tight");
        assert!(close.first().filter(told).is_some(), "{close:?}");
        assert_eq!(said("llama-3.1-8b", Some(wanted(Outputs::MicroBatch) + 10), false), Vec::<String>::new());
        assert_eq!(said("llama-3.1-8b", Some(wanted(Outputs::Slots) - 10), false), Vec::<String>::new(), "in no build");
    }
}
