//! Holds what JSON with a log in it is read as.

use super::super::unfolded;
use crate::effort;
use crate::log::PastedLog;

/// The lines, each with its number in the file.
fn read(text: &str) -> Vec<(usize, String)> {
    let log = PastedLog::new(text);
    log.lines().map(|(number, line)| (log.number_in_file(number), line.to_owned())).collect()
}

fn lines(text: &str) -> Vec<String> {
    read(text).into_iter().map(|(_, line)| line).collect()
}

#[test]
fn a_containers_log_is_its_lines_with_their_times() {
    let log = concat!(
        r#"{"log":"Traceback (most recent call last):\n","stream":"stderr","time":"2026-11-20T10:00:00.1Z"}"#,
        "\n",
        r#"{"log":"\tFile \"a.py\", line 1\n","stream":"stderr","time":"2026-11-20T10:00:00.2Z"}"#,
        "\nplain\n",
        r#"{"log":"\u001b[31mKilled\u001b[0m\r\n","stream":"stdout","time":"2026-11-20T10:00:01Z"}"#,
        "\n"
    );
    let want = [
        (1, "2026-11-20T10:00:00.1Z Traceback (most recent call last):"),
        (2, "2026-11-20T10:00:00.2Z \tFile \"a.py\", line 1"),
        (3, "plain"),
        (4, "2026-11-20T10:00:01Z Killed"),
    ];
    assert_eq!(read(log), want.map(|(number, line)| (number, line.to_owned())));
    assert_eq!(PastedLog::new(log).raw(), log);
}

#[test]
fn what_a_record_says_beside_its_message_stays_with_it() {
    let record = r#"app-1  | {"level":"error","ts":1770000000.5,"msg":"load failed","err":"exit status 2"}"#;
    assert_eq!(
        lines(record),
        [r#"app-1  | 2026-02-02T02:40:00Z load failed {"level":"error", "err":"exit status 2"}"#]
    );
    let with_stack = r#"{"levelname":"ERROR","message":"Task failed","exc_info":"Traceback:\nMemoryError","lineno":3}"#;
    let want = ["Task failed", "Traceback:", "MemoryError", r#"{"levelname":"ERROR", "lineno":3}"#];
    assert_eq!(lines(with_stack), want);
    let twice = r#"{"log":"{\"msg\":\"out of memory\",\"time\":\"2026-11-20T10:00:00Z\"}\n","stream":"stderr"}"#;
    assert_eq!(lines(twice), ["2026-11-20T10:00:00Z out of memory"]);
}

#[test]
fn exports_of_log_services_are_their_lines() {
    let indented = "{\n  \"events\": [\n    {\n      \"timestamp\": 1770000000000,\n      \"message\": \"one\\ntwo\",\n      \
                    \"eventId\": \"7\"\n    },\n    {\n      \"message\": \"three\"\n    }\n  ]\n}\n";
    let found = read(indented);
    let want = [(5, "2026-02-02T02:40:00Z one"), (5, "two"), (9, "three")];
    assert_eq!(found[2..5], want.map(|(number, line)| (number, line.to_owned())));
    assert_eq!(found.last().unwrap(), &(12, "}".to_owned()), "the rest keeps its numbers");
    let loki = r#"{"streams":[{"stream":{"app":"x"},"values":[["1770000000000000000","one"],["1770000000000000001","two"]]}]}"#;
    let found = lines(loki);
    for line in ["2026-02-02T02:40:00Z one", "2026-02-02T02:40:00Z two"] {
        assert!(found.iter().any(|found| found == line), "{found:?}");
    }
    let journal = r#"{"MESSAGE":[27,91,51,49,109,107,105,108,108,101,100],"SYSLOG_IDENTIFIER":"kernel","_HOSTNAME":"box","PRIORITY":"3"}"#;
    assert_eq!(lines(journal), ["box kernel: killed"]);
    let cloud = r#"[{"insertId":"a","jsonPayload":{"message":"one\ntwo"},"severity":"ERROR"}]"#;
    let found = lines(cloud);
    assert!(found.contains(&"one".to_owned()) && found.contains(&"two".to_owned()), "{found:?}");
}

#[test]
fn a_notebooks_outputs_are_what_it_shows_indented_or_on_one_line() {
    let notebook = r#"{"cells": [{
        "cell_type": "code",
        "source": ["x = \"out of memory\"\n", "train()"],
        "outputs": [
            {"name": "stderr", "output_type": "stream", "text": ["epoch 1\n", "half ", "a line\n"]},
            {"data": {"image/png": "iVBO\nRw0K\n", "text/plain": ["<Figure>"]}},
            {"ename": "E", "evalue": "said twice", "traceback": ["\u001b[31m---\u001b[0m", "in f\n  1 x", "E: said twice"]}
        ]
    }]}"#;
    let notebook: serde_json::Value = serde_json::from_str(notebook).unwrap();
    for text in [notebook.to_string(), serde_json::to_string_pretty(&notebook).unwrap()] {
        let found = lines(&text);
        for line in ["epoch 1", "half a line", "<Figure>", "---", "in f", "  1 x", "E: said twice"] {
            assert_eq!(found.iter().filter(|found| *found == line).count(), 1, "{line}: {found:#?}");
        }
        assert!(!found.iter().any(|line| line.starts_with("Rw0K") || line.starts_with("train()")), "{found:#?}");
    }
}

#[test]
fn state_on_one_long_line_is_shown_in_pieces_and_short_values_stay() {
    let item = r#"{"name":"a","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}},"sizes":[1,2,3]}"#;
    assert_eq!(lines(item), [item]);
    let found = lines(&format!("[{}]", [item; 20].join(",")));
    assert!(found.contains(&"\"reason\":\"OOMKilled\"}},".to_owned()), "{found:?}");
    assert!(found.iter().any(|line| line.contains("[1,2,3]")), "{found:?}");
}

#[test]
fn a_log_is_no_json() {
    for log in
        ["[rank0]: {\"loss\"\n", "{'loss': 0.5}\n", "[1, 2]\n{\n  int x;\n}\n", "{\"a\": 1}\n", "{\"loss\": 0.5} \\n"]
    {
        assert!(unfolded(log).is_none(), "{log}");
    }
}

#[test]
fn json_that_is_cut_or_broken_gives_what_is_there() {
    let whole = "{\n \"text\": [\n  \"one\\n\",\n  \"two\\n\",\n  \"three\\n\"\n ]\n}\n";
    for cut in 1..whole.len() {
        let found = lines(whole.get(..cut).unwrap());
        assert!(cut < 20 || found.iter().any(|line| line.starts_with("on")), "{cut}: {found:?}");
    }
    let gap = "{\n \"text\": [\n  \"one\\n\",\n  \"tw\n… 3 MiB of this log left out here …\ngh\\n\",\n  \"nine\\n\",\n  \"ten\\n\"\n ]\n}\n";
    let found = read(gap);
    assert!(found.contains(&(8, "ten".to_owned())), "{found:?}");
    for cut in [
        r#"{"message":"one\nCUDA out of mem"#,
        r#"{"message":"one\nCUDA out of mem\"#,
        r#"{"message":"one\nCUDA out of mem\u00"#,
    ] {
        assert!(lines(cut).iter().any(|line| line.starts_with("CUDA out of mem")), "{cut}");
    }
}

#[test]
fn hostile_json_takes_linear_work() {
    type Shape = (&'static str, fn(usize) -> String);
    let shapes: [Shape; 9] = [
        ("lists in lists", |n| "[".repeat(n)),
        ("objects in objects", |n| r#"{"message":"a\nb","a":"#.repeat(n / 22)),
        ("openings", |n| "{\"\n".repeat(n / 3)),
        ("strings without an end", |n| "{\"a\":\"\n".repeat(n / 7)),
        ("escapes", |n| format!("{{\"message\":\"{}", "\\n".repeat(n / 2))),
        ("members", |n| format!("{{{}", "\"message\":\"a\",".repeat(n / 14))),
        ("elements", |n| format!("[\"\",{}", "\"a\\n\",".repeat(n / 6))),
        ("blanks", |n| format!("{{{}\"a\":1}}", " \n".repeat(n / 2))),
        ("JSON in JSON", |n| format!("{{\"log\":\"{}", "{\\\"log\\\":\\\"a\\\\n".repeat(n / 20))),
    ];
    for (name, shape) in shapes {
        let (small, large) = (shape(20_000), shape(200_000));
        let [small, large] = [small, large].map(|text| effort::of(|| drop(unfolded(&text))));
        assert!(large <= 14 * small.max(1000), "{name}: {small}, {large}");
    }
    assert!(PastedLog::new(format!("{}{}", "[{\"a\":".repeat(100_000), "1")).line_count() >= 1);
}
