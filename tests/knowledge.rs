//! Every entry of the knowledge, checked by the shipped matcher: its own examples, their damaged forms, its near
//! misses, unrelated logs. Also which of several failures in one log leads, which no single entry shows.

#![allow(clippy::unwrap_used, reason = "a test may")]

use oomdoctor::knowledge::FixId;
use oomdoctor::knowledge::KnowledgeBase;
use oomdoctor::knowledge::diagnosis::{Diagnosis, MemoryKind, Oom};
use oomdoctor::knowledge::lint;
use oomdoctor::log::PastedLog;
use oomdoctor::report::redact::Names;
use oomdoctor::units::Bytes;

fn diagnose(log: &str) -> Diagnosis {
    KnowledgeBase::built_in().unwrap().diagnose(&PastedLog::new(log), None)
}

fn leading(diagnosis: &Diagnosis) -> (&str, usize) {
    diagnosis.matches.first().map_or(("", 0), |one| (one.entry.as_str(), one.line))
}

#[test]
fn every_entry_passes_the_lint() {
    let base = KnowledgeBase::built_in_with_examples().unwrap();
    let faults: Vec<String> = lint::judge(&base).iter().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_built_in_knowledge_is_loaded() {
    let base = KnowledgeBase::built_in().unwrap();
    assert!(base.entries.len() >= 90, "{}", base.entries.len());
    assert!(base.fix(FixId::END_HOLDER).is_some());
}

#[test]
fn the_first_failure_leads_the_errors_that_it_causes() {
    let log = "\
(EngineCore_DP0 pid=70) ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total capacity of 23.60 GiB of which 1.00 GiB is free.
(APIServer pid=60) RuntimeError: Engine core initialization failed. See root cause above.
vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.
failed (exitcode: -9) local_rank: 1 (pid: 70) of binary: python
Killed";
    let diagnosis = diagnose(log);
    assert_eq!(leading(&diagnosis), ("pytorch/cuda-out-of-memory", 1));
    assert_eq!((diagnosis.oom, diagnosis.memory), (Oom::Yes, Some(MemoryKind::Gpu)));
    assert_eq!(diagnosis.program.as_deref(), Some("vllm"));
    assert!(diagnosis.matches.len() > 2);
}

#[test]
fn the_kernels_report_leads_the_shells_killed() {
    let log = "Killed\n[ 9.1] Out of memory: Killed process 77 (python3) total-vm:900kB, anon-rss:800kB, file-rss:0kB";
    let diagnosis = diagnose(log);
    assert_eq!(leading(&diagnosis), ("kernel/oom-kill", 2));
    assert_eq!(diagnosis.facts.victim_pid, Some(77));
}

#[test]
fn a_cancelled_step_does_not_hide_the_message_that_caused_it() {
    let log = "\
ERROR on proc 6: Failed to reallocate 1650304 bytes for array buf (src/memory.cpp:105)
slurmstepd: error: *** STEP 12.1 ON n3 CANCELLED AT 2026-03-02T09:38:39 ***";
    let diagnosis = diagnose(log);
    assert_eq!((diagnosis.oom, leading(&diagnosis).1), (Oom::Yes, 1));
    assert_eq!(diagnosis.facts.requested_bytes, Some(Bytes(1_650_304)));
}

#[test]
fn a_fatal_failure_after_recovered_ones_counts() {
    let skipped =
        "| WARNING: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 8.00 GiB total capacity); skipping batch\n";
    let quiet = "step done\n".repeat(20);
    let recovered = diagnose(&format!("{skipped}{quiet}"));
    assert_eq!(recovered.oom, Oom::Maybe);
    assert!(recovered.remark.is_some());
    let fatal = diagnose(&format!(
        "{skipped}{quiet}RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity)"
    ));
    assert_eq!((fatal.oom, leading(&fatal).1), (Oom::Yes, 22));
    assert_eq!(fatal.facts.requested_bytes, Some(Bytes::gib(2)));
}

#[test]
fn two_ranks_keep_their_figures_apart() {
    let log = "\
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 15.77 GiB of which 0.50 GiB is free.
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 15.77 GiB of which 0.25 GiB is free. Process 4242 has 11.23 GiB memory in use.";
    let diagnosis = diagnose(log);
    assert_eq!(leading(&diagnosis).1, 1);
    assert_eq!(diagnosis.facts.device, Some(0));
    assert!(diagnosis.facts.other_processes.is_empty());
}

#[test]
fn figures_point_to_their_place_in_the_log() {
    let log = PastedLog::new(
        "one\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity)",
    );
    let diagnosis = KnowledgeBase::built_in().unwrap().diagnose(&log, None);
    let figure = diagnosis.figures.iter().find(|figure| figure.key == "requested_bytes").unwrap();
    assert_eq!(log.line(figure.row).unwrap().get(figure.span.clone()), Some("2.00 GiB"));
}

#[test]
fn a_log_without_an_out_of_memory_error_has_no_match() {
    for log in ["", "all is well", "\u{1b}[2J\u{0}\u{202e}", "Segmentation fault (core dumped)"] {
        let diagnosis = diagnose(log);
        assert_eq!((diagnosis.oom, diagnosis.matches.len()), (Oom::No, 0), "{log:?}");
    }
    let limit = diagnose("request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it");
    assert_eq!(limit.oom, Oom::No);
    assert!(limit.remark.is_some());
}

/// A report is read by people who do not have the log, so it must lead to the same diagnosis.
#[test]
fn redacted_examples_are_diagnosed_as_the_originals() {
    let base = KnowledgeBase::built_in_with_examples().unwrap();
    for entry in &base.entries {
        for example in &entry.matches {
            let mut names = Names::default();
            names.learn(&example.log);
            let redacted = names.redacted(&example.log);
            assert!(!redacted.contains("[redacted]"), "{}: {redacted}", entry.id);
            if redacted == example.log {
                continue;
            }
            let said = |log: &str| {
                let found = base.diagnose(&PastedLog::new(log), None);
                (found.oom, found.memory, found.raised_by, found.facts.listed())
            };
            assert_eq!(said(&redacted), said(&example.log), "{}: {redacted}", entry.id);
        }
    }
}

#[test]
fn an_error_raised_by_jax_is_not_attributed_to_tensorflow() {
    let failure = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.";
    for log in [
        format!(
            "Using JAX backend.\n  File \"/env/lib/python3.12/site-packages/keras/src/backend/jax/trainer.py\", line 370, in fit\n    logs, state = self.train_function(state, iterator)\njax.errors.JaxRuntimeError: {failure}"
        ),
        format!(
            "I tensorflow/core/platform/cpu_feature_guard.cc:182] This TensorFlow binary is optimized\n  File \"/lab/flaxrun.py\", line 3, in <module>\n    state = train_step(state)\njax.errors.JaxRuntimeError: {failure}"
        ),
    ] {
        let diagnosis = diagnose(&log);
        assert_eq!((diagnosis.raised_by.as_deref(), diagnosis.program.as_deref()), (Some("jax"), Some("jax")), "{log}");
    }
}

#[test]
fn whoever_prints_a_message_that_many_programs_print_is_named() {
    for (log, raised_by, program) in [
        // The line itself, whatever runs it.
        (
            "nextflow run align.nf\n[bwt_restore_sa] Failed to allocate 2048 bytes at bwt.c line 9: Cannot allocate memory",
            "bwa",
            "bwa",
        ),
        // A line beside it.
        (
            "mygraph v1\nhashing: Failed attempt to allocate 4096000000bytes;\nyou may not have enough free memory to load this database.",
            "kraken2",
            "kraken2",
        ),
        // What runs other people's code does not say which program that was.
        ("NoMemoryError: failed to allocate memory\n  /srv/site/_plugins/tags.rb:12:in `read'", "ruby", "ruby"),
        ("packer: Cannot allocate memory", "packer", "packer"),
        // No word of a message, no allocator and no source file is a program.
        ("memory: Cannot allocate memory", "glibc", "glibc"),
        ("grid.cpp: Cannot allocate memory", "glibc", "glibc"),
    ] {
        let diagnosis = diagnose(log);
        assert_eq!(diagnosis.raised_by.as_deref(), Some(raised_by), "{log}");
        assert_eq!(diagnosis.program.as_deref(), Some(program), "{log}");
    }
}

#[test]
fn an_impossible_size_stays_the_cause_of_what_follows_it() {
    let broken = "ERROR: CudaCustomAllocator out of memory\n [requestedSpace: 9223372036854775808 B]";
    let follows = format!("{broken}\nERROR:\nYou ran out of memory on the GPU(s).");
    assert_eq!(diagnose(&follows).oom, Oom::Maybe);
    assert_eq!(diagnose(&follows.replace("9223372036854775808", "922337203")).oom, Oom::Yes);
}
