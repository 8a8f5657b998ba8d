//! Corrections of common advice, one row each: what must appear in no recommendation, and where its correction stands.
//! A row fails when stale advice returns in a fix, an entry, a question, the glossary or a command that `fit` writes,
//! and when the correction disappears. Examples of logs may quote stale advice.

use std::fs;
use std::path::Path;
use std::slice;

use oomdoctor::knowledge::FixId;
use oomdoctor::knowledge::KnowledgeBase;
use oomdoctor::knowledge::fix::FixCommand;
use regex::Regex;

/// A common error and its correction.
struct Row {
    /// The correction in a few words.
    name: &'static str,
    /// A pattern that no command may match, and an example that it matches.
    never_run: &'static [(&'static str, &'static str)],
    /// A pattern that no text and no command may match, and an example that it matches.
    never_said: &'static [(&'static str, &'static str)],
    /// An entry and a fix that it must not offer.
    never_offered: &'static [(&'static str, &'static str)],
    /// An entry and a fix that it must offer.
    offered: &'static [(&'static str, &'static str)],
    /// A place, and a pattern that its text must match.
    said: &'static [(&'static str, &'static str)],
    /// Places that may say it, since they are for versions or devices to which the correction does not apply.
    except: &'static [&'static str],
}

const NONE: Row =
    Row { name: "", never_run: &[], never_said: &[], never_offered: &[], offered: &[], said: &[], except: &[] };

const ROWS: &[Row] = &[
    Row {
        name: "llama.cpp's programs are called llama-cli, llama-server and llama-quantize",
        never_run: &[(r"(?:^|[\s;&|])\./(?:main|server|quantize)\b", "./main -m MODEL.gguf")],
        said: &[("fixes/shorter-context", r"llama-server -m MODEL\.gguf")],
        ..NONE
    },
    Row {
        name: "-fa takes a value and would swallow the next argument",
        never_run: &[(r"(?:^|\s)-fa(?:\s+-|\s*$)", "llama-server -m MODEL.gguf -fa -ngl 20")],
        said: &[("fixes/flash-attention", r"-fa on"), ("fixes/flash-attention", r"auto is the default")],
        ..NONE
    },
    Row {
        name: "a number for -ngl switches the automatic fit off",
        never_run: &[(r"-ngl\s+(?:9\d+|\d{3,})", "llama-server -m MODEL.gguf -ngl 99")],
        never_said: &[(r"-ngl 99", "start it with -ngl 99")],
        said: &[("fixes/offload-fewer-layers", r"switches the automatic fit off")],
        ..NONE
    },
    Row {
        name: "--no-mmap and --mlock are refused by llama.cpp",
        never_said: &[(r"--(?:no-mmap|mlock)\b", "llama-server -m MODEL.gguf --no-mmap")],
        said: &[("glossary/memory mapping", r"-lm \(auto, none, mmap, mlock")],
        ..NONE
    },
    Row {
        name: "the defragmentation threshold does nothing",
        never_said: &[(r"--defrag-thold|(?:^|\s)-dt\s", "llama-server --defrag-thold 0.1")],
        said: &[("entries/llama.cpp/kv-slot-retry", r"deprecated and has no effect")],
        ..NONE
    },
    Row {
        name: "ollama run has no options for layers and context",
        never_said: &[(
            r"ollama run[^.;]*\s--(?:gpu-layers|num-gpu|ctx-size|num-ctx|n-gpu-layers)",
            "ollama run llama3 --num-gpu 20",
        )],
        said: &[
            ("fixes/offload-fewer-layers", r"/set parameter num_gpu"),
            ("fixes/offload-fewer-layers", r"there is no command-line option for it"),
            ("fixes/shorter-context", r"OLLAMA_CONTEXT_LENGTH="),
        ],
        ..NONE
    },
    Row {
        name: "OLLAMA_GPU_OVERHEAD reserves nothing for GGUF models",
        never_run: &[(r"OLLAMA_GPU_OVERHEAD", "OLLAMA_GPU_OVERHEAD=1073741824 ollama serve")],
        said: &[("fixes/offload-fewer-layers", r"OLLAMA_GPU_OVERHEAD reserves nothing")],
        ..NONE
    },
    Row {
        name: "Q4 is not half a byte for each parameter, nor padded to eight bits",
        never_said: &[(
            r"0\.5 ?Gi?B (?:per|a|for each|for every) billion|Q4\w*[^.;]{0,40}(?:half a byte|0\.5 bytes?|pad\w* to (?:8|eight))",
            "Q4 takes 0.5 GB per billion parameters",
        )],
        said: &[("questions/how-much-vram", r"4\.6 GiB as Q4_K_M")],
        ..NONE
    },
    Row {
        name: "the KV cache does not follow from the hidden size",
        never_said: &[(r"2 ?[×x*] ?(?:hidden|n_embd|d_model)", "KV = 2 × hidden × layers × context × 2")],
        said: &[
            ("questions/context-costs", r"128 KiB a token"),
            ("questions/context-costs", r"sliding windows or compressed caches"),
        ],
        ..NONE
    },
    Row {
        name: "the KV cache is not in the file's size",
        never_said: &[(
            r"KV cache is (?:already )?(?:included|contained|part)\b|file(?:'s)? size (?:already )?(?:includes|contains)[^.;]*KV",
            "the KV cache is included in the file size",
        )],
        said: &[("questions/kv-in-file-size", r"^Is the KV cache[^?]*\? No\. The file is the weights")],
        ..NONE
    },
    Row {
        name: "a mixture of experts needs room for all of them",
        never_said: &[(
            r"only (?:the )?(?:active|chosen) (?:parameters|experts)[^.;]*(?:memory|room|loaded|fit)",
            "only the active experts need memory",
        )],
        said: &[
            ("questions/moe-active", r"all of them must be in memory"),
            ("fixes/experts-on-cpu", r"can stay in RAM while attention stays on the GPU"),
        ],
        ..NONE
    },
    Row {
        name: "q8_0 takes 53 % of the KV cache, and a little for a work area on CUDA; V needs flash attention",
        never_said: &[(
            r"q8_0[^.;]*(?:halves|exactly half)|halves the (?:whole )?KV cache",
            "q8_0 halves the KV cache",
        )],
        said: &[
            ("fixes/quantised-kv-cache", r"53 %"),
            ("fixes/quantised-kv-cache", r"V needs flash attention"),
            ("fixes/quantised-kv-cache", r"takes a little of the gain back"),
        ],
        ..NONE
    },
    Row {
        name: "vLLM's share is raised for the two KV cache failures only, lowered for the others",
        never_said: &[(
            r"(?:always|just|simply) (?:raise|increase) [^.;]*utili[sz]ation",
            "just raise gpu_memory_utilization to 0.95",
        )],
        never_offered: &[
            ("vllm/free-memory-less-than-desired", "raise-utilization"),
            ("vllm/sampler-warm-up", "raise-utilization"),
            ("vllm/cumem-out-of-memory", "raise-utilization"),
            ("pytorch/cuda-out-of-memory", "raise-utilization"),
            ("vllm/no-memory-for-cache-blocks", "lower-utilization"),
            ("vllm/max-seq-len-larger-than-kv-cache", "lower-utilization"),
        ],
        offered: &[
            ("vllm/no-memory-for-cache-blocks", "raise-utilization"),
            ("vllm/max-seq-len-larger-than-kv-cache", "raise-utilization"),
            ("vllm/free-memory-less-than-desired", "lower-utilization"),
            ("vllm/sampler-warm-up", "lower-utilization"),
        ],
        said: &[
            ("questions/raise-utilization", r"lower it instead"),
            ("entries/vllm/free-memory-less-than-desired", r"must be lowered"),
        ],
        ..NONE
    },
    Row {
        name: "vLLM's swap space is gone",
        never_said: &[(r"--swap-space|\bswap_space=", "vllm serve MODEL --swap-space 8")],
        said: &[("entries/vllm/swap-space-too-large", r"no such option any more")],
        ..NONE
    },
    Row {
        name: "transformers 5 takes a quantisation only as a configuration, and the type as dtype",
        never_run: &[
            (
                r"AutoModel\w*\.from_pretrained\([^()]*\bload_in_[48]bit",
                "AutoModelForCausalLM.from_pretrained(MODEL, load_in_4bit=True)",
            ),
            (r"\btorch_dtype\s*=", "from_pretrained(MODEL, torch_dtype=torch.float16)"),
        ],
        said: &[
            ("fixes/smaller-quantisation", r"quantization_config=BitsAndBytesConfig\(load_in_4bit=True"),
            ("fixes/smaller-quantisation", r"no longer accepts load_in_4bit=True on its own"),
            ("fixes/more-system-memory", r#"dtype="auto""#),
        ],
        ..NONE
    },
    Row {
        name: "against fragmentation: expandable segments, not max_split_size_mb",
        never_said: &[(r"max_split_size_mb", "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128")],
        except: &[
            "fixes/smaller-split-size",
            "fixes/grow-blocks-again",
            "fixes/npu-expandable-segments",
            "fixes/exact-block-sizes",
        ],
        offered: &[("pytorch/fragmentation", "expandable-segments")],
        said: &[
            ("fixes/expandable-segments", r"expandable_segments:True"),
            ("questions/expandable-segments-failed", r"'reserved by PyTorch but unallocated' is large"),
        ],
        ..NONE
    },
    Row {
        name: "empty_cache does not help the process that ran out",
        never_run: &[(r"empty_cache\(", "torch.cuda.empty_cache()")],
        never_said: &[(
            r"(?:call|run|add|try) (?:torch\.cuda\.)?empty_cache",
            "call torch.cuda.empty_cache() before the step",
        )],
        said: &[("questions/empty-cache", r"Not the process that ran out")],
        ..NONE
    },
    Row {
        name: "llama.cpp's -lv is the log's verbosity",
        never_run: &[(
            r"(?:llama|ollama)\S*\s[^\n]*(?:--low-?vram\b|-lv(?:\s+-|\s*$))",
            "llama-server -m MODEL.gguf --low-vram",
        )],
        said: &[("fixes/kv-cache-on-cpu", r"-lv[^.;]*sets the log level")],
        ..NONE
    },
    Row {
        name: "llama-server's prompt cache comes first where system memory runs out while it serves",
        never_run: &[(r"--cache-ram\s+(?:-1|8192)\b", "llama-server -m MODEL.gguf --cache-ram -1")],
        offered: &[("llama.cpp/cpu-buffer", "smaller-prompt-cache")],
        said: &[
            ("fixes/smaller-prompt-cache", r"up to 8 GiB, and up to 32 snapshots"),
            ("fixes/smaller-prompt-cache", r"--cache-ram \S+ --ctx-checkpoints \S"),
        ],
        ..NONE
    },
    Row {
        name: "JAX's share has two names, and only one of them may be set",
        never_run: &[(
            r"XLA_(?:PYTHON_)?CLIENT_MEM_FRACTION=\S+\s+(?:\S+\s+)*XLA_(?:PYTHON_)?CLIENT_MEM_FRACTION=",
            "XLA_CLIENT_MEM_FRACTION=.5 XLA_PYTHON_CLIENT_MEM_FRACTION=.5",
        )],
        said: &[
            ("fixes/lower-utilization", r"XLA_PYTHON_CLIENT_MEM_FRACTION; set one of the two, never both"),
            ("fixes/raise-limit", r"set one of the two, never both"),
        ],
        ..NONE
    },
    Row {
        name: "'already allocated' counts this process alone",
        never_said: &[(
            r"already allocated'?[^.;]{0,20}(?:includes|counts|adds up|is)[^.;]*\b(?:all|every|other)\b",
            "'already allocated' includes all processes on the card",
        )],
        said: &[
            ("entries/pytorch/cuda-out-of-memory", r"'Already allocated' counts this process alone"),
            ("questions/allocated-less-than-total", r"counts the living tensors of this one process"),
            ("glossary/allocated", r"of this one process"),
        ],
        ..NONE
    },
    Row {
        name: "'reserved' is this process's own cache",
        never_said: &[(
            r"reserved'? (?:memory )?(?:is|belongs to|means)[^.;,]*(?:another|other) (?:process|program)",
            "reserved memory is held by another process",
        )],
        said: &[
            ("questions/reserved-stays-high", r"this process's own cache, not another program's"),
            ("glossary/reserved", r"this process's own cache"),
        ],
        ..NONE
    },
    Row {
        name: "memory_summary sees only the process that calls it",
        never_run: &[(
            r"python3? -c [^\n]*(?:memory_(?:summary|allocated|reserved|stats)|empty_cache)",
            r#"python -c "import torch; print(torch.cuda.memory_summary())""#,
        )],
        said: &[
            ("questions/summary-from-outside", r"the allocator of the process that calls it"),
            ("entries/pytorch/memory-summary-ooms", r"sees only the process that prints it"),
        ],
        ..NONE
    },
    Row {
        name: "Q5_K_M to Q4_K_M saves about 15 %",
        never_said: &[(
            r"Q5_K_M (?:to|→|->) Q4_K_M[^.,;]*(?:\bhalf\b|quarter|third|[2-9]\d ?%)",
            "Q5_K_M to Q4_K_M saves a quarter",
        )],
        said: &[
            ("fixes/smaller-quantisation", r"Q5_K_M to Q4_K_M about 15 %"),
            ("questions/smaller-quant-quality", r"Q5_K_M to Q4_K_M saves about 15 %"),
        ],
        ..NONE
    },
    Row {
        name: "a few hundred MiB at rest are a context, not a leak",
        never_said: &[(
            r"\d00 Mi?B[^.;]*\b(?:is|are|mean|means|show|shows) (?:a|that)\b[^.;]*leak",
            "200 MiB at rest are a memory leak",
        )],
        said: &[
            ("glossary/context (CUDA)", r"no leak"),
            ("questions/is-it-a-leak", r"few hundred MiB at rest are the driver's context"),
            ("questions/idle-context", r"The CUDA context"),
        ],
        ..NONE
    },
    Row {
        name: "expandable segments do nothing on Apple's MPS",
        never_offered: &[
            ("pytorch/mps-out-of-memory", "expandable-segments"),
            ("pytorch/mps-invalid-buffer-size", "expandable-segments"),
            ("metal/insufficient-memory", "expandable-segments"),
            ("mlx/out-of-memory", "expandable-segments"),
        ],
        said: &[
            ("entries/pytorch/mps-out-of-memory", r"Expandable segments do nothing here"),
            ("fixes/expandable-segments", r"no effect on Apple's MPS"),
            ("questions/expandable-segments-failed", r"on a Mac it does nothing"),
        ],
        ..NONE
    },
    Row {
        name: "ComfyUI's --lowvram does nothing with DynamicVRAM",
        never_run: &[(r"main\.py[^\n]*--lowvram", "python main.py --lowvram")],
        said: &[("fixes/low-vram-mode", r"--lowvram does nothing then")],
        ..NONE
    },
    Row {
        name: "diffusers' pipes have no enable_vae_tiling any more",
        never_run: &[(r"\bpipe\.enable_vae_(?:tiling|slicing)", "pipe.enable_vae_tiling()")],
        said: &[
            ("fixes/tiled-vae", r"pipe\.vae\.enable_tiling\(\)"),
            ("fixes/tiled-vae", r"diffusers 0\.40 removed pipe\.enable_vae_tiling"),
        ],
        ..NONE
    },
    Row {
        name: "Qwen 3 has no sliding window that makes long contexts cheap",
        never_said: &[(
            r"Qwen ?3[^.;]{0,30}(?:with|has|uses) (?:its |a )?sliding",
            "Qwen 3 with its sliding window mode",
        )],
        said: &[("questions/long-context-models", r"Qwen3[^.;]*has no such window")],
        ..NONE
    },
    Row {
        name: "swap does not extend the card's memory",
        never_said: &[(
            r"swap (?:space |file )?(?:also )?(?:extends|enlarges|adds to) (?:the )?(?:VRAM|GPU|card)",
            "a swap file extends the VRAM",
        )],
        said: &[("questions/swap-help", r"Not against full VRAM: swap extends RAM only")],
        ..NONE
    },
    Row {
        name: "with cgroup v2 Docker's OOMKilled is not only about the container's own limit",
        never_said: &[(r"OOMKilled only (?:for|at|when)", "Docker marks OOMKilled only for the container's own limit")],
        said: &[("entries/docker/exit-137", r"cgroup v2 counts every OOM kill")],
        ..NONE
    },
    Row {
        name: "a process is terminated by name; no blanket kill, no reset of the GPU",
        never_run: &[(
            r"\bkill -(?:9|KILL)\b|\bpkill\b|\bkillall\b|--gpu-reset|fuser -k",
            "kill -9 $(nvidia-smi --query-compute-apps=pid --format=csv,noheader)",
        )],
        said: &[("fixes/end-holder", r"oomdoctor kill \{pid\}"), ("questions/reboot-needed", r"Hardly ever")],
        ..NONE
    },
];

pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// The pattern, compiled to ignore case.
pub fn regex(pattern: &str) -> Regex {
    Regex::new(&format!("(?i){pattern}")).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

/// Every text of the knowledge with its place.
pub fn texts(base: &KnowledgeBase) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in &base.entries {
        let place = format!("entries/{}", entry.id);
        let sentences = [Some(&entry.title), Some(&entry.why), entry.remark.as_ref(), entry.fuller_log.as_ref()];
        all.extend(sentences.into_iter().flatten().map(|text| (place.clone(), text.clone())));
        all.extend(entry.recovered.iter().map(|recovered| (place.clone(), recovered.because.clone())));
    }
    for fix in &base.fixes {
        let place = format!("fixes/{}", fix.id);
        let sentences = [&fix.title, &fix.why, &fix.expect, &fix.if_not, &fix.costs];
        all.extend(sentences.into_iter().map(|text| (place.clone(), text.clone())));
        for command in &fix.commands {
            all.push((place.clone(), command.action.clone()));
            all.extend(command.versions.iter().map(|text| (place.clone(), text.clone())));
        }
    }
    for question in &base.questions {
        all.push((format!("questions/{}", question.id), format!("{} {}", question.ask, question.answer)));
    }
    for term in &base.glossary {
        all.push((format!("glossary/{}", term.term), format!("{}: {}", term.also.join(", "), term.means)));
    }
    all
}

/// Every recommended command line with its place: those of the fixes and those that `fit` and `advice` build.
pub fn commands(base: &KnowledgeBase) -> Vec<(String, String)> {
    let of_fixes = base.fixes.iter().flat_map(|fix| {
        // A form that only older versions get is right for them.
        let is_for_today = |command: &&FixCommand| command.needs.as_ref().is_none_or(|range| range.before.is_none());
        let lines = fix.commands.iter().filter(is_for_today).filter_map(|command| command.command.clone());
        lines.map(|line| (format!("fixes/{}", fix.id), line))
    });
    of_fixes.chain(formed_in_source()).collect()
}

/// The string literals of the source files that build commands, without comments and tests.
fn formed_in_source() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let quoted = regex(r#""((?:[^"\\]|\\.)*)""#);
    let mut all = Vec::new();
    for folder in ["cli/fit", "memory", "advice", "advice/steps", "advice/fit", "advice/release"] {
        // These files parse command lines and recommend no values of their own.
        let silent = ["tests.rs", "setup.rs", "rerun.rs", "after.rs", "conditions.rs"];
        let shipped =
            |file: &fs::DirEntry| file.path().is_file() && !silent.iter().any(|name| file.file_name() == *name);
        for file in fs::read_dir(root.join(folder)).unwrap().flatten().filter(shipped) {
            let name = format!("src/{folder}/{}", file.file_name().to_string_lossy());
            let source = fs::read_to_string(file.path()).unwrap();
            let shipped = source.split("#[cfg(test)]").next().unwrap_or_default();
            let code = shipped.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in code {
                let words = quoted.captures_iter(line).map(|found| found[1].replace("\\\"", "\""));
                all.extend(words.map(|word| (name.clone(), word)));
            }
        }
    }
    all
}

/// How the knowledge breaks this row, one line each.
fn faults(row: &Row, base: &KnowledgeBase, texts: &[(String, String)], commands: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (pattern, _) in row.never_run {
        let stale = regex(pattern);
        let found = commands.iter().filter(|(_, line)| stale.is_match(line));
        faults.extend(found.map(|(place, line)| format!("{place} recommends {line:?}")));
    }
    for (pattern, _) in row.never_said {
        let stale = regex(pattern);
        let bound = texts.iter().chain(commands).filter(|(place, _)| !row.except.contains(&place.as_str()));
        let found = bound.filter(|(_, text)| stale.is_match(text));
        faults.extend(found.map(|(place, text)| format!("{place} says {text:?}")));
    }
    let offers = |entry: &str, fix: &str| {
        let known = base.entry_named(entry).unwrap_or_else(|| panic!("{}: there is no entry {entry}", row.name));
        assert!(base.fix(FixId::new(fix)).is_some(), "{}: there is no fix {fix}", row.name);
        known.fixes.iter().any(|id| id.as_str() == fix)
    };
    let wrong = row.never_offered.iter().filter(|(entry, fix)| offers(entry, fix));
    faults.extend(wrong.map(|(entry, fix)| format!("{entry} offers {fix}")));
    let missing = row.offered.iter().filter(|(entry, fix)| !offers(entry, fix));
    faults.extend(missing.map(|(entry, fix)| format!("{entry} does not offer {fix}")));
    for (place, pattern) in row.said {
        let right = regex(pattern);
        let mut there = texts.iter().chain(commands).filter(|(known, _)| known == place);
        if !there.any(|(_, text)| right.is_match(text)) {
            faults.push(format!("{place} does not say {pattern}"));
        }
    }
    faults.into_iter().map(|fault| format!("{}: {fault}", row.name)).collect()
}

#[test]
fn stale_advice_appears_nowhere_and_its_correction_does() {
    let base = KnowledgeBase::built_in().unwrap();
    let (texts, commands) = (texts(&base), commands(&base));
    assert!(ROWS.len() >= 26, "{}", ROWS.len());
    assert!(commands.iter().any(|(place, word)| place.starts_with("src/") && word.contains("--max-model-len")));
    let found: Vec<String> = ROWS.iter().flat_map(|row| faults(row, &base, &texts, &commands)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_row_can_fail() {
    let base = KnowledgeBase::built_in().unwrap();
    let here = |text: &str| vec![("fixes/invented".to_owned(), text.to_owned())];
    for row in ROWS {
        assert!(!row.said.is_empty(), "{}: says nothing", row.name);
        let holds = row.never_run.len() + row.never_said.len() + row.never_offered.len() + row.offered.len();
        assert!(holds > 0, "{}: forbids nothing", row.name);
        for stale in row.never_run {
            let alone = Row { never_run: slice::from_ref(stale), ..NONE };
            assert_eq!(faults(&alone, &base, &[], &here(stale.1)).len(), 1, "{}: {stale:?}", row.name);
        }
        for stale in row.never_said {
            let alone = Row { never_said: slice::from_ref(stale), ..NONE };
            assert_eq!(faults(&alone, &base, &here(stale.1), &[]).len(), 1, "{}: {stale:?}", row.name);
        }
        let silent = faults(row, &base, &[], &[]);
        assert_eq!(silent.len(), row.said.len(), "{}: what is said is not looked for", row.name);
        let turned = Row { offered: row.never_offered, never_offered: row.offered, ..NONE };
        let turned = faults(&turned, &base, &[], &[]);
        assert_eq!(turned.len(), row.never_offered.len() + row.offered.len(), "{}: {turned:?}", row.name);
    }
}
