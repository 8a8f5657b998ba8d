//! Holds which lines of a log quote source code, and which are the log's own.

use super::without_source;

/// Every line that holds SECRET is quoted code, and no other line is.
fn holds(log: &str) {
    let bare = without_source(log);
    assert_eq!(bare.len(), log.len(), "{log}");
    let ends = |text: &str| text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').collect::<Vec<_>>();
    assert_eq!(ends(&bare), ends(log), "{log}");
    assert!(!bare.contains("SECRET"), "{log}\n--- still says\n{bare}");
    for (line, left) in log.lines().zip(bare.lines()) {
        let is_code =
            line.contains("SECRET") || line.contains("CODE") || line.trim().chars().all(|c| "^~ ".contains(c));
        assert!(is_code || line == left, "lost: {line}\nof {log}");
    }
}

#[test]
fn the_lines_below_a_tracebacks_frames_are_code() {
    for log in [
        "Traceback (most recent call last):\n  File \"/usr/lib/vllm/sampler.py\", line 98, in compute_logprobs\n    return logits.log_softmax(dim=-1, dtype=torch.SECRET)\ntorch.OutOfMemoryError: CUDA out of memory. dtype=KEPT",
        "  File \"a.py\", line 3, in <module>\n    x = f(SECRET,\n          SECRET)\n        ^^^^^^^^^\n  File \"b.py\", line 9, in g\n    SECRET\n    ...<3 lines>...CODE\n    ^^^^~~~\nRuntimeError: KEPT",
        // The innermost frame has no source, and the message follows at once.
        "  File \"ext.pyx\", line 3, in ext.f\nRuntimeError: KEPT\n  KEPT",
        "  File \"<frozen importlib._bootstrap>\", line 3, in f\n  File \"b.py\", line 9, in g\n    SECRET\n    [Previous line repeated 3 more times] CODE\nKEPT",
        // A syntax error's place names no function.
        "  File \"a.py\", line 3\n    SECRET = = 3\n             ^\nSyntaxError: KEPT",
        // A dump of threads quotes nothing.
        "Thread 0x7f (most recent call first):\n  File \"a.py\", line 3 in f\n  File \"b.py\", line 4 in g\nmodel='KEPT'",
    ] {
        holds(log);
    }
}

#[test]
fn what_a_logger_puts_before_each_line_hides_no_code() {
    let traceback = [
        "Traceback (most recent call last):",
        "  File \"/usr/lib/python3.12/site-packages/vllm/v1/sample/sampler.py\", line 98, in compute_logprobs",
        "    return logits.log_softmax(dim=-1, dtype=SECRET)",
        "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "torch.OutOfMemoryError: KEPT",
    ];
    let prefixes: [fn(usize) -> String; 9] = [
        |at| format!("(EngineCore pid=4242) ERROR 11-22 10:00:{at:02} [core.py:70{at}] "),
        |at| format!("(VllmWorker rank={at} pid=7{at}) "),
        |at| format!("2026-11-22T10:00:0{at}.123456789Z stderr F "),
        |_| "trainer-1  | ".to_owned(),
        |_| "[rank0]: ".to_owned(),
        |_| "[default0]:[rank0]: ".to_owned(),
        |at| format!("Nov 22 10:00:0{at} box train[99]: "),
        |_| "> ".to_owned(),
        |_| "  | ".to_owned(),
    ];
    for prefix in prefixes {
        let lines: Vec<String> = traceback.iter().enumerate().map(|(at, line)| prefix(at) + line).collect();
        let bare = without_source(&lines.join("\n")).into_owned();
        assert!(!bare.contains("SECRET") && bare.contains("KEPT"), "{bare}");
        // Another process's lines stand in between.
        let mixed: Vec<String> =
            lines.iter().flat_map(|line| [line.clone(), "web-1 GET /health KEPT".into()]).collect();
        let bare = without_source(&mixed.join("\n")).into_owned();
        assert!(!bare.contains("SECRET"), "{bare}");
        assert_eq!(bare.matches("web-1 GET /health KEPT").count(), traceback.len(), "{bare}");
    }
}

#[test]
fn lost_indentation_broken_lines_and_folded_logs_hide_no_code() {
    holds(
        "Traceback (most recent call last):\nFile \"a.py\", line 3, in f\nreturn g(SECRET)\nFile \"b.py\", line 4, in g\nreturn h(SECRET,\n  CODE\ny=SECRET)\ntorch.OutOfMemoryError: KEPT",
    );
    // A terminal breaks the place's own line anywhere.
    let place = "  File \"/opt/conda/lib/python3.12/site-packages/transformers/models/llama/modeling_llama.py\", line 211, in forward";
    for width in [80, 100, place.len() - 3] {
        let (first, rest) = place.split_at(width);
        holds(&format!("{first}\n{rest}\n    SECRET\nRuntimeError: KEPT"));
    }
    // As wide as a terminal of 80 columns.
    let row = "    attention = torch.nn.functional.softmax(weights, dim=-1, dtype=torch.SECRET3";
    assert_eq!(row.len(), 80);
    holds(&format!("  File \"a.py\", line 3, in f\n{row}\n2).to(query.SECRET)\ntorch.OutOfMemoryError: KEPT"));
    let folded = r#"{"error": "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g(SECRET)\nRuntimeError: KEPT"}"#;
    let bare = without_source(folded);
    assert!(!bare.contains("SECRET") && bare.contains("RuntimeError: KEPT"), "{bare}");
    let listed = r#"['Traceback (most recent call last):\n', '  File "a.py", line 3, in f\n    g(SECRET)\n', '  File "b.py", line 4, in g\n    h(SECRET)\n', 'RuntimeError: KEPT\n']"#;
    let bare = without_source(listed);
    assert!(!bare.contains("SECRET") && bare.contains("RuntimeError: KEPT"), "{bare}");
}

#[test]
fn excerpts_of_tools_are_code() {
    for log in [
        "╭─────── Traceback (most recent call last) ───────╮\n│ /srv/train.py:12 in main                        │\n│    11 │   x = SECRET                            │\n│ ❱  12 │   y = f(SECRET)                         │\n│ ╭── CODE locals ──╮ │\n│ │ dtype = SECRET │ │\n│ ╰───CODE──────────╯ │\n╰─────────────────────────────────────────────────╯\nRuntimeError: KEPT",
        "│    11 │   x = SECRET │\n│ ❱  12 │   y = SECRET │\n│    13 │   z = SECRET │\nKEPT",
        "RuntimeError                 Traceback (most recent call last)\nCell In[3], line 2\n      1 SECRET\n----> 2 model = f(SECRET)\n      4 SECRET\n\nRuntimeError: KEPT\n2 KEPT",
        "<ipython-input-3-ab> in <module>\n----> 1 SECRET\n\nRuntimeError: KEPT",
        "    def CODE_test_it():\n        x = SECRET\n>       f(SECRET)\nE       assert SECRET == 2\nE        +  where SECRET = f()\nE       RuntimeError: KEPT\n\ntest_it.py:3: RuntimeError",
        "> /srv/train.py(3)f()\n-> return SECRET\n(Pdb) list\n  1  \tdef SECRET():\n  2  ->\t    SECRET\n(Pdb) p x\nKEPT",
        "main.cu:3:9: error: KEPT\n    3 |   int SECRET;\n      |       ^~~~~~\nKEPT",
        "/app/index.js:12\n    const x = SECRET;\n              ^\nError: KEPT",
        "  11 |  CODE\n> 12 |  SECRET\n     |  ^CODE\n  13 |  CODE\nKEPT",
        "diff --git a/t.py b/t.py\n@@ -1,3 +1,3 @@ CODE\n import CODE\n-x = SECRET\n+y = SECRET\n CODE\n+ python KEPT",
        "/usr/lib/x.py:12: UserWarning: KEPT\n  warnings.warn(SECRET)\nKEPT",
        "ada@box:~/lab$ cat train.py\nimport CODE\n# CODE\nmodel = SECRET\nada@box:~/lab$ python train.py --model KEPT\nKEPT",
        "$ cat > train.py <<'EOF'\nmodel = SECRET\nEOF\n$ python KEPT",
        "triton.compiler.errors.CompilationError: at 3:4:\ndef CODE():\n    SECRET\n    ^\nKEPT",
    ] {
        holds(log);
    }
    let bare =
        without_source("File /usr/lib/a.py:9, in f(self, dtype=SECRET)\n      8 SECRET\n----> 9 SECRET\n").into_owned();
    assert!(!bare.contains("SECRET") && bare.contains("/usr/lib/a.py:9, in f"), "{bare}");
}

#[test]
fn what_a_person_typed_and_a_program_printed_is_no_excerpt() {
    for log in [
        "$ vllm serve KEPT --dtype float16",
        "INFO config: model='KEPT', dtype=torch.bfloat16",
        "args: Namespace(model='KEPT',\n    batch_size=4)",
        "TrainingArguments(\n    per_device_train_batch_size=KEPT,\n)",
        ">>> model = AutoModel.from_pretrained('KEPT', torch_dtype=torch.float16)\n>>> KEPT",
        "from vllm import LLM\nllm = LLM(model='KEPT')\nTraceback (most recent call last):\nRuntimeError: KEPT",
        "$ python - <<'EOF'\nmodel = 'KEPT'\nEOF",
        "$ cat run.sh\npython train.py --model KEPT",
        "$ cat config.yaml\nmodel: KEPT",
        "At line:1 char:1\n+ python train.py --model KEPT\n+ ~~~~~~~~~~~~~~~~~",
        "| 12 | KEPT |\n|----|------|\n| 13 | KEPT |",
        "   11 KEPT\n   12 KEPT",
        "> KEPT\n> KEPT",
        "+ python train.py --model KEPT",
        "C:\\new\\File \"KEPT\"",
    ] {
        assert_eq!(without_source(log), log);
    }
}

#[test]
fn any_text_keeps_its_length_and_line_ends() {
    let pieces = [
        "  File \"a.py\", line 3, in f",
        "    é漢 code",
        "----> 3 x",
        "❱ 1 │",
        "\\n  File ",
        "@@ -1,2 +1,2 @@",
        "^",
        "E   +",
        ">    x",
        "╭─ Traceback (most recent call last) ─",
        "cat a.py",
        "$ cat > a.py <<E",
        "",
        "\t",
    ];
    let mut seed = 7_u64;
    for _ in 0..400 {
        let mut log = String::new();
        for _ in 0..24 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(seed >> 33).unwrap();
            log += pieces[at % pieces.len()];
            log += ["\n", "\r\n", "\r", " ", "\n"][at / 16 % 5];
        }
        let bare = without_source(&log);
        assert_eq!(bare.len(), log.len());
        for (was, is) in log.bytes().zip(bare.bytes()) {
            assert!(was == is || is == b' ' && !matches!(was, b'\n' | b'\r'), "{log}");
        }
    }
}

#[test]
fn a_long_excerpt_is_code_to_its_end() {
    for line in ["---> 3 SECRET\n", "> 12 | SECRET\n"] {
        let log = format!("{}\nKEPT", line.repeat(5_000));
        let bare = without_source(&log);
        assert!(!bare.contains("SECRET") && bare.ends_with("KEPT"), "{line}");
    }
}
