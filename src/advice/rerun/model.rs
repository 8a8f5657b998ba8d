//! Owns putting another model into the person's command line: a fix names one (`vllm serve MODEL-AWQ`), and every other
//! option of the line stays.

use super::{Changes, Form, VALUE, found, kin, names_other_model, with_variables};

/// The command line with the model of a fix's command (`vllm serve MODEL-AWQ`) in the place of its own, and its other
/// options as they are; `None` where the fix names no other model, or the line is another program's or shows no model.
pub(crate) fn with_other_model(fix: &str, command: &str, form: Form) -> Option<String> {
    let words: Vec<&str> = fix.split_whitespace().collect();
    let at = words.iter().position(|word| names_other_model(word))?;
    let (before, other) = (words.get(..at)?, words.get(at)?);
    let option = before.last().copied().filter(|word| word.starts_with('-') && *word != "-m");
    let head = before.iter().copied().take_while(|word| Some(*word) != option);
    let head: Vec<String> = head.map(str::to_owned).collect();
    let start = head.join(" ");
    let family = kin(&start);
    if !(Changes { head, all: Vec::new() }).is_for(command) {
        return None;
    }
    let own_options = family.map_or(&[][..], |family| family.models);
    let line = command.trim();
    let mut named = own_options.iter().chain(&option).find_map(|name| {
        let [before, old, after] = found(&format!(r"(?:^|\s){}(?:=|\s+){VALUE}", regex::escape(name)), line)?;
        let name = option.unwrap_or(name);
        let joint = if old.trim_start().contains('=') { "=" } else { " " };
        Some(format!("{before} {name}{joint}{other}{after}"))
    });
    if named.is_none() && option.is_none() {
        let [before, old, after] = found(&format!(r"(?:^|\s|/){}\s+{VALUE}", regex::escape(&start)), line)?;
        let (joint, _) = old.split_once(&start)?;
        named = Some(format!("{before}{joint}{start} {other}{after}"));
    }
    // A checkpoint that is quantized says so itself, and refuses another method.
    let named = without_value(&named?, "--quantization");
    let more = fix.split_once(other).map_or("", |(_, more)| more);
    let named = match Changes::of(more) {
        Some(more) => more.apply(&named, Form::Posix)?,
        None => named,
    };
    Some(with_variables(named.trim_start(), &[], form))
}

/// The line without an option and its value.
fn without_value(line: &str, option: &str) -> String {
    match found(&format!(r"\s{}(?:=|\s+){VALUE}", regex::escape(option)), line) {
        Some([before, _, after]) => format!("{before}{after}"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_model_keeps_the_other_options() {
        let of = |fix: &str, own: &str| with_other_model(fix, own, Form::Posix);
        let vllm = "vllm serve MODEL-AWQ";
        for (fix, own, with) in [
            (
                vllm,
                "CUDA_VISIBLE_DEVICES=1 vllm serve Qwen/Qwen2.5-32B-Instruct --max-model-len 8192 --api-key x",
                "CUDA_VISIBLE_DEVICES=1 vllm serve MODEL-AWQ --max-model-len 8192 --api-key x",
            ),
            (
                vllm,
                "/opt/venv/bin/vllm serve org/m --port=8001 --quantization fp8 -tp 2 2>&1 | tee log",
                "/opt/venv/bin/vllm serve MODEL-AWQ --port=8001 -tp 2 2>&1 | tee log",
            ),
            (
                vllm,
                "python -m vllm.entrypoints.openai.api_server --port 1 --model=org/m --dtype half",
                "python -m vllm.entrypoints.openai.api_server --port 1 --model=MODEL-AWQ --dtype half",
            ),
            (
                "python -m sglang.launch_server --model-path MODEL-AWQ",
                "python3 -m sglang.launch_server --model org/m --port 30000",
                "python3 -m sglang.launch_server --model-path MODEL-AWQ --port 30000",
            ),
            (
                "llama-server -hf USER/MODEL-GGUF:Q4_K_M",
                "llama-server -m /srv/a-Q8_0.gguf -c 8192 -ngl 99",
                "llama-server -hf USER/MODEL-GGUF:Q4_K_M -c 8192 -ngl 99",
            ),
            (
                "lmdeploy serve api_server MODEL-AWQ --model-format awq",
                "lmdeploy serve api_server org/m --tp 2",
                "lmdeploy serve api_server MODEL-AWQ --tp 2 --model-format awq",
            ),
        ] {
            assert_eq!(of(fix, own).as_deref(), Some(with), "{own}");
        }
        assert_eq!(of(vllm, "python train.py"), None, "another program");
        assert_eq!(of(vllm, "vllm serve --config a.yaml"), None, "the line shows no model");
        assert_eq!(of("vllm serve MODEL --enforce-eager", "vllm serve org/m"), None, "no other model");
    }
}
