//! Owns what a server's log prints of its options, for a command that the log does not show: `non-default args: {…}`,
//! `ServerArgs(…)`, `Args { … }`, llama.cpp's lines. A command without them would start another run than the one that
//! failed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::already::option_of;
use super::{Kin, kin, names_other_model};
use crate::knowledge::Run;
use crate::memory::knob::Program;
use crate::packed;

/// The options of one server (`knowledge/advice/arguments.ron`).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    of: String,
    named: Vec<String>,
    options: BTreeMap<String, String>,
    /// The name that an option has on the command line, where its log has another one for it.
    written: BTreeMap<String, String>,
}

static PRINTED: LazyLock<Vec<Printed>> =
    LazyLock::new(|| packed::table(include_str!("../../../knowledge/advice/arguments.ron")));

/// What an option's value is where it is no plain word: the person has it.
const STAND_IN: &str = "VALUE";

/// Options that belong to one checkpoint: another model has its own.
const OF_THE_MODEL: &[&str] = &["--quantization", "--quantize", "--revision", "--tokenizer", "--dtype"];

/// The command of a fix with the options of the failed run that the log prints and the command does not set, right behind
/// the model.
pub(crate) fn with_printed(command: &str, run: &Run) -> String {
    let Some(kin) = kin(command) else { return command.to_owned() };
    let has_other_model = command.split_whitespace().any(names_other_model);
    let options = options(kin, run).into_iter().filter(|(name, value)| {
        let is_of_model = has_other_model && OF_THE_MODEL.contains(&name.as_str());
        !is_of_model && option_of(command, name, value.is_some()).is_none()
    });
    let kept: String = options.map(|(name, value)| written(&name, value.as_deref())).collect();
    match end_of_model(kin, command).and_then(|end| command.split_at_checked(end)) {
        Some((start, rest)) => format!("{start}{kept}{rest}"),
        None => command.to_owned(),
    }
}

fn written(name: &str, value: Option<&str>) -> String {
    value.map_or_else(|| format!(" {name}"), |value| format!(" {name} {value}"))
}

/// Where the part of the command ends that names program and model.
fn end_of_model(kin: &Kin, command: &str) -> Option<usize> {
    let last = |word: &str| word.as_ptr() as usize - command.as_ptr() as usize + word.len();
    let words: Vec<&str> = command.split_whitespace().collect();
    let by_option = words.windows(2).find(|pair| pair.first().is_some_and(|word| kin.models.contains(word)));
    let by_option = by_option.and_then(|pair| pair.last());
    let behind_program = || {
        let serve = words.iter().position(|word| *word == "serve")?;
        words.get(serve + 1)
    };
    if kin.models.is_empty() { None } else { by_option.or_else(behind_program).map(|word| last(word)) }
}

/// The options that the log prints for this program, as they are typed.
fn options(kin: &Kin, run: &Run) -> Vec<(String, Option<String>)> {
    if kin.program == Some(Program::LlamaCpp) {
        return of_llama_cpp(run);
    }
    let Some(table) = PRINTED.iter().find(|table| kin.commands.contains(&table.of.as_str())) else { return Vec::new() };
    let Some(text) = run.arguments.as_deref().or(run.configuration.as_deref()) else { return Vec::new() };
    let is_what_differs = text.starts_with('{');
    let pairs = pairs(text.trim_start_matches('{').trim_end_matches('}'));
    let kept = pairs.into_iter().filter(|(name, value)| {
        let usual = table.options.get(*name);
        let is_own_name = *name == "served_model_name" && Some(unquoted(value)) == run.model.as_deref();
        let is_kept = if is_what_differs { !table.named.iter().any(|named| named == name) } else { usual.is_some() };
        is_kept && !is_own_name && !is_same(value, usual.map_or("None", String::as_str))
    });
    let options = kept.filter_map(|(name, value)| {
        let name = table.written.get(name).map_or(name, String::as_str).replace('_', "-");
        typed(&name, value)
    });
    options.collect()
}

/// Whether a printed value is that default.
fn is_same(value: &str, usual: &str) -> bool {
    let value = unquoted(value);
    let are_numbers = value.parse::<f64>().ok().zip(usual.parse::<f64>().ok());
    value == usual || value == "None" || are_numbers.is_some_and(|(value, usual)| value.total_cmp(&usual).is_eq())
}

/// An option with its value as a shell takes it. A secret is not repeated.
fn typed(name: &str, value: &str) -> Option<(String, Option<String>)> {
    let of_rust = value.strip_prefix("Some(").and_then(|rest| rest.strip_suffix(')'));
    let value = of_rust.unwrap_or(value).trim().trim_end_matches(',');
    let text = match value {
        "True" | "true" => return Some((format!("--{name}"), None)),
        // Options that are on where nobody sets them have a spelling for off.
        "False" => return Some((format!("--no-{name}"), None)),
        "false" | "None" => return None,
        _ if name.ends_with("key") || name.ends_with("token") => STAND_IN.to_owned(),
        list if list.starts_with('[') => {
            let items = list.trim_matches(['[', ']']).split(',').map(|item| plain(unquoted(item.trim())));
            items.collect::<Vec<_>>().join(" ")
        }
        dict if dict.starts_with('{') => as_json(dict),
        variant if of_rust.is_some() && variant.starts_with(char::is_uppercase) => plain(&in_kebab_case(variant)),
        word => plain(unquoted(word.trim_start_matches("torch."))),
    };
    Some((format!("--{name}"), Some(text)))
}

/// A dictionary of plain values as JSON in quotes.
fn as_json(dict: &str) -> String {
    let json = dict.replace('\'', "\"").replace("True", "true").replace("False", "false").replace("None", "null");
    let is_plain = json.chars().all(|c| c.is_ascii_alphanumeric() || "{}[]\":, ._-/".contains(c));
    if is_plain { format!("'{json}'") } else { STAND_IN.to_owned() }
}

/// A variant of Rust's as it is typed: `BFloat16` is `bfloat16`, `BitsandbytesNf4` is `bitsandbytes-nf4`.
fn in_kebab_case(variant: &str) -> String {
    let (mut text, mut is_behind_small) = (String::new(), false);
    for c in variant.chars() {
        if c.is_uppercase() && is_behind_small {
            text.push('-');
        }
        is_behind_small = c.is_lowercase();
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// A value that a shell takes as it is.
fn plain(value: &str) -> String {
    let is_plain = !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "._:/-,+=@".contains(c));
    if is_plain && !value.starts_with('-') { value.to_owned() } else { STAND_IN.to_owned() }
}

fn unquoted(value: &str) -> &str {
    value.trim_matches(['"', '\''])
}

/// The names and values of a printed object, at its outermost level: `'port': 8001`, `port=8001`, `port: Some(8001)`.
fn pairs(text: &str) -> Vec<(&str, &str)> {
    let (mut depth, mut quote, mut start) = (0_usize, None, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{' | '<') => depth += 1,
            (None, ')' | ']' | '}' | '>') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    let named = parts.into_iter().filter_map(|part| {
        let at = part.find(['=', ':'])?;
        let (name, value) = part.split_at_checked(at)?;
        Some((unquoted(name.trim()), value.get(1..)?.trim()))
    });
    named.collect()
}

/// llama.cpp's server prints its port, its context and its requests, and how many layers it put where.
fn of_llama_cpp(run: &Run) -> Vec<(String, Option<String>)> {
    let printed = |name: &str| run.printed.get(name);
    let mut options = Vec::new();
    let mut keep =
        |name: &str, value: Option<String>| options.extend(value.map(|value| (name.to_owned(), Some(value))));
    keep("--port", printed("port").filter(|port| *port != "8080").cloned());
    keep("-ngl", run.layers_offloaded.map(|(on, _)| on.to_string()));
    keep("-c", printed("n_ctx").cloned());
    // Nobody set the number of requests where they share one cache: given, it would divide the context.
    let is_shared = printed("kv_unified").is_some_and(|value| value == "true");
    keep("-np", printed("n_seq_max").filter(|slots| *slots != "1" && !is_shared).cloned());
    keep("-ub", printed("n_ubatch").filter(|size| *size != "512").cloned());
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arguments: &str) -> Run {
        Run { arguments: Some(arguments.to_owned()), ..Run::default() }
    }

    #[test]
    fn what_the_log_prints_of_the_options_stays() {
        let vllm = run(
            "{'model_tag': 'org/m', 'port': 8001, 'model': 'org/m', 'served_model_name': ['m', 'n'], 'api_key': ['s3cret'], \
             'tensor_parallel_size': 2, 'trust_remote_code': True, 'limit_mm_per_prompt': {'image': 2}, \
             'enable_prefix_caching': False, 'chat_template': '$(reboot)'}",
        );
        assert_eq!(
            with_printed("vllm serve org/m --tensor-parallel-size 4 --max-model-len 8192", &vllm),
            "vllm serve org/m --port 8001 --served-model-name m n --api-key VALUE --trust-remote-code \
             --limit-mm-per-prompt '{\"image\": 2}' --no-enable-prefix-caching --chat-template VALUE \
             --tensor-parallel-size 4 --max-model-len 8192"
        );
        let config = Run {
            configuration: Some("model='org/m', tokenizer='org/m', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=2, quantization=None, enforce_eager=False, kv_cache_dtype=auto, served_model_name=org/m".to_owned()),
            model: Some("org/m".into()),
            ..Run::default()
        };
        assert_eq!(
            with_printed("vllm serve MODEL-AWQ", &config),
            "vllm serve MODEL-AWQ --max-model-len 8192 --tensor-parallel-size 2"
        );
        let text = run(
            "model_id: \"org/m\",\n num_shard: Some(\n  2,\n ),\n dtype: Some(\n  BFloat16,\n ),\n quantize: None,\n port: 8085,\n trust_remote_code: false",
        );
        assert_eq!(
            with_printed("text-generation-launcher --model-id org/m --max-total-tokens 8192", &text),
            "text-generation-launcher --model-id org/m --num-shard 2 --dtype bfloat16 --port 8085 --max-total-tokens 8192"
        );
        assert_eq!(with_printed("OLLAMA_NUM_PARALLEL=1 ollama serve", &vllm), "OLLAMA_NUM_PARALLEL=1 ollama serve");
    }
}
