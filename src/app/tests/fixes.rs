//! Owns the tests of the walk through the fixes: taking, skipping, undoing, failing again, and the run that is started again.

use super::*;

#[test]
fn bytes_that_two_gave_back_are_counted_once() {
    let mut session = Session::with_holders();
    session.press(KeyCode::Char(' '));
    session.press(KeyCode::Char(' '));
    session.keys("x");
    session.keys("y");
    for pid in [4242, 5177] {
        session.send(Msg::Signal(key_of(pid), SignalReport::Ended(ms(3))));
    }
    session.sample(vec![]);
    let back: Vec<Bytes> = session.model.endings.iter().map(|ending| ending.returned_since(Duration::ZERO)).collect();
    assert_eq!(back, [held(), Bytes::gib(6)]);
    let noted = |effect: &Effect| match effect {
        Effect::NoteMemory(key, bytes) => Some((key.pid, *bytes)),
        _ => None,
    };
    let noted: Vec<_> = session.effects.iter().filter_map(noted).collect();
    assert_eq!(noted, [(4242, held()), (5177, Bytes::gib(6))]);
    session.sample(vec![]);
    let again = session.effects.iter().filter(|effect| matches!(effect, Effect::NoteMemory(..))).count();
    assert_eq!(again, 2, "each is noted once");
}

#[test]
fn a_log_of_ones_own_is_not_replaced_by_the_pipe_or_an_offer() {
    let mut session = Session::with_holders();
    session.send(Msg::Stdin { text: Some("epoch 1".into()), closed: false });
    session.read_logs();
    session.paste("mine");
    session.keys("r");
    session.read_logs();
    session.send(Msg::Stdin { text: Some("epoch 1\nepoch 2".into()), closed: false });
    session.send(Msg::Offered("the demo's".into()));
    session.read_logs();
    assert_eq!(session.model.input.log.as_ref().unwrap().raw(), "mine");
    session.model.focus = Region::Input;
    session.keys("u");
    session.read_logs();
    assert_eq!(session.model.input.log.as_ref().unwrap().raw(), "epoch 1\nepoch 2");
}

#[test]
fn what_may_be_enough_is_tried_before_more_is_changed() {
    let mut session = Session::with_log();
    session.keys("ss");
    let mut step = session.model.current_step().unwrap().clone();
    step.may_be_enough = true;
    session.model.walk.leave(&step, Mark::Skipped);
    assert!(!session.model.walk.enough_taken(), "skipped");
    session.model.walk.leave(&step, Mark::Taken);
    advise::advise_anew(&mut session.model);
    let next = session.model.current_step().unwrap().clone();
    assert_eq!(next.fix, FixId::RUN_AGAIN);
    session.press(KeyCode::Enter);
    assert!(!session.model.walk.enough_taken(), "it was tried");
    assert_ne!(session.model.current_step().map(|step| step.fix), Some(FixId::RUN_AGAIN));
}

#[test]
fn once_the_memory_is_free_the_next_step_is_to_run_again_whatever_was_selected() {
    let mut session = Session::with_log();
    let first = offered_change(&session);
    session.model.walk.cursor = Some(first.clone());
    session.press(KeyCode::Enter);
    session.model.walk.cursor = Some(offered_change(&session));
    session.sample(vec![process(4242, held()), process(5177, Bytes::gib(6))]);
    assert_ne!(session.model.current_step().map(StepId::of), Some(first), "what is read stays");
    assert!(session.model.current_step().is_some_and(|step| step.target.is_none()), "what is read stays");
    session.sample(vec![process(5177, Bytes::gib(6))]);
    assert_eq!(session.model.current_step().map(|step| step.fix), Some(FixId::RUN_AGAIN));
}

/// The first step ahead that changes the run.
fn offered_change(session: &Session) -> StepId {
    let ahead = session.model.steps_ahead();
    ahead.into_iter().find(|step| step.target.is_none() && step.waits_for.is_none()).map(StepId::of).unwrap()
}

#[test]
fn a_second_failure_takes_back_that_a_step_may_be_enough() {
    let mut session = Session::with_log();
    let mut step = session.model.current_step().unwrap().clone();
    (step.may_be_enough, step.target) = (true, None);
    session.model.walk.leave(&step, Mark::Taken);
    assert!(session.model.walk.enough_taken());
    session.keys("e");
    assert!(!session.model.walk.enough_taken());
}

#[test]
fn the_step_a_person_reads_stays_theirs_whatever_a_reading_adds_above_it() {
    let mut session = Session::with_holders();
    let log = torch_log().replace("Process 4242", "It says 4242").replace("Process 5177", "It says 5177");
    session.sample(vec![]);
    session.paste(&log);
    session.keys("s");
    let read = session.model.current_step().unwrap().fix;
    // The same processes as before the crash, seen again and idle: terminating one becomes a fix, above the others.
    let again = || vec![process(4242, held()), process(5177, Bytes::gib(6))];
    session.sample(again());
    session.send(Msg::Sample(Box::new(machine(20, again()))));
    let ahead: Vec<FixId> = session.model.steps_ahead().iter().map(|step| step.fix).collect();
    assert!(ahead.first().is_some_and(|first| first == "end-holder"), "{ahead:?}");
    assert_eq!(session.model.current_step().unwrap().fix, read);
}

#[test]
fn leaving_is_not_asked_about_after_a_command_was_copied() {
    let mut session = Session::with_log();
    session.model.focus = Region::Steps;
    while session.model.current_step().unwrap().target.is_some() {
        session.press(KeyCode::Down);
    }
    session.press(KeyCode::Enter);
    assert_eq!(session.model.walk.behind.len(), 1);
    session.keys("q");
    assert!(session.effects.contains(&Effect::Quit) && session.model.question.is_none());
}

#[test]
fn a_silent_driver_is_said_with_the_age_of_the_last_reading_and_q_leaves_at_once() {
    let mut session = Session::with_holders();
    session.wait(ms(2900));
    assert_eq!(session.model.silent_for(), None);
    session.wait(ms(200));
    assert_eq!(session.model.silent_for(), Some(ms(3100)));
    session.sample(vec![]);
    assert_eq!(session.model.silent_for(), None);
    session.wait(Duration::from_secs(60));
    session.keys("q");
    assert_eq!(session.effects, [Effect::Quit]);
}

#[test]
fn a_second_failure_is_held_against_the_first_and_only_what_was_tried_stays_behind() {
    let mut session = Session::with_log();
    let skipped = session.model.current_step().map(StepId::of).unwrap();
    session.press(KeyCode::Char('s'));
    while session.model.current_step().is_some_and(|step| step.target.is_some() || step.waits_for.is_some()) {
        session.press(KeyCode::Char('s'));
    }
    let tried = session.model.current_step().map(StepId::of).unwrap();
    session.press(KeyCode::Enter);
    assert!(session.model.walk.behind.iter().any(|behind| behind.id == tried));
    session.press(KeyCode::Char('e'));
    assert!(session.model.notice.is_some());
    session.paste(&torch_log().replace("Tried to allocate 14.00", "Tried to allocate 12.00"));
    assert!(session.model.question.is_none(), "no question about replacing");
    let said = session.model.walk.compared.clone().unwrap();
    assert!(said.starts_with("It asked for 12.0 GiB with 6.1 GiB free; before, for 14.0 GiB"), "{said}");
    assert!(session.model.compared().contains(&said));
    let behind: Vec<_> = session.model.walk.behind.iter().map(|behind| behind.id.clone()).collect();
    assert_eq!(behind, [tried], "what was skipped may be the answer this time");
    let plan = &session.model.advice.as_ref().unwrap().plan;
    assert!(session.model.walk.ahead(plan).iter().any(|step| StepId::of(step) == skipped));
    assert_eq!(session.model.notice, None, "the new error is here");
}

/// A fine-tuning run whose optimizer state did not fit.
const OPTIMIZER_LOG: &str = r#"python train.py --per_device_train_batch_size 8 --optim adamw_torch
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    trainer.train()
  File "/venv/lib/python3.11/site-packages/transformers/trainer.py", line 2240, in train
    return inner_training_loop(
  File "/venv/lib/python3.11/site-packages/torch/optim/adamw.py", line 150, in _init_group
    state["exp_avg"] = torch.zeros_like(p)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 24.00 GiB of which 100.10 MiB is free. Including non-PyTorch memory, this process has 23.80 GiB memory in use. Of the allocated memory 23.20 GiB is allocated by PyTorch, and 0.10 GiB is reserved by PyTorch but unallocated.
"#;

/// A llama.cpp server whose KV cache did not fit.
const KV_LOG: &str = "$ llama-server -m a.gguf --parallel 4 -c 65536\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 8192.00 MiB on device 0: cudaMalloc failed: out of memory\nllama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n";

fn offered(session: &Session) -> Vec<FixId> {
    let plan = &session.model.advice.as_ref().unwrap().plan;
    session.model.walk.ahead(plan).iter().map(|step| step.fix).collect()
}

fn select_step(session: &mut Session, fix: FixId) {
    let at = offered(session).iter().position(|offered| *offered == fix).unwrap();
    (0..at).for_each(|_| session.press(KeyCode::Down));
    assert_eq!(session.model.current_step().map(|step| step.fix), Some(fix));
}

#[test]
fn what_did_not_help_is_left_out_with_what_does_less() {
    let mut session = Session::new();
    session.paste(OPTIMIZER_LOG);
    let (more, less) = (FixId::LORA, FixId::EIGHT_BIT_OPTIMIZER);
    assert!(offered(&session).contains(&more) && offered(&session).contains(&less), "{:?}", offered(&session));
    select_step(&mut session, more);
    session.press(KeyCode::Char('n'));
    assert!(!offered(&session).contains(&more) && !offered(&session).contains(&less), "{:?}", offered(&session));
    assert!(!session.model.walk.enough_taken());
    session.press(KeyCode::Backspace);
    assert!(offered(&session).contains(&more) && offered(&session).contains(&less));
}

#[test]
fn the_step_just_taken_is_the_one_that_did_not_help() {
    let mut session = Session::new();
    session.paste(KV_LOG);
    select_step(&mut session, FixId::QUANTISED_KV_CACHE);
    session.press(KeyCode::Enter);
    let rerun = session.model.rerun().unwrap();
    session.press(KeyCode::Char('n'));
    let behind: Vec<_> = session.model.walk.behind.iter().map(|behind| (behind.id.fix, behind.mark)).collect();
    assert_eq!(behind, [(FixId::QUANTISED_KV_CACHE, Mark::DidNotHelp)]);
    assert!(!offered(&session).contains(&FixId::QUANTISED_KV_CACHE));
    assert!(session.model.rerun().as_ref() == Some(&rerun) && rerun.contains("q8_0"), "it stays changed: {rerun}");
    session.press(KeyCode::Char('n'));
    assert_eq!(session.model.walk.behind.len(), 2, "the next n is about the selected step");
    assert_eq!(session.model.rerun(), Some(rerun), "which was tried before this log");
}

#[test]
fn a_log_that_worked_is_compared_and_the_failure_stays() {
    let mut session = Session::new();
    session.press(KeyCode::Char('g'));
    assert_eq!(session.model.input.since_it_worked, SinceItWorked::Unknown, "there is no failure to compare");
    session.paste(KV_LOG);
    let failed = session.model.input.log.clone().unwrap();
    session.press(KeyCode::Char('g'));
    session.press(KeyCode::Esc);
    assert_eq!(session.model.input.since_it_worked, SinceItWorked::Unknown, "Esc cancels");
    session.press(KeyCode::Char('g'));
    session
        .paste("$ llama-server -m a.gguf --parallel 4 -c 8192\nmain: server is listening on http://127.0.0.1:8080\n");
    assert!(session.model.question.is_none(), "no question about replacing");
    let differences = session.model.input.since_it_worked.known().unwrap();
    assert!(differences.iter().any(|one| one.explains && one.before.as_deref() == Some("8192")), "{differences:?}");
    assert!(std::sync::Arc::ptr_eq(session.model.input.log.as_ref().unwrap(), &failed));
    let why = session.model.compared().join("\n");
    assert!(why.contains("8192") && why.contains("65536"), "{why}");
    session.press(KeyCode::Char('g'));
    session.paste(KV_LOG);
    assert_eq!(session.model.input.since_it_worked, SinceItWorked::Unknown, "memory ran out in that one, too");
    assert!(session.model.notice.is_some());
}

#[test]
fn somebody_elses_memory_is_waited_for_and_the_bell_rings_once() {
    let mut session = Session::new();
    let others = || GpuProcess { uid: Reading::Known(1001), ..process(77, Bytes::gib(20)) };
    session.sample(vec![others()]);
    session.paste("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 3.00 GiB is free.");
    while session.model.current_step().is_some_and(|step| step.waits_for.is_none()) {
        session.press(KeyCode::Char('s'));
    }
    session.press(KeyCode::Enter);
    assert!(session.model.walk.waits_for.is_some());
    session.sample(vec![others()]);
    let rung = |session: &Session| session.effects.iter().filter(|effect| matches!(effect, Effect::Ring(_))).count();
    assert_eq!(rung(&session), 0);
    session.sample(vec![]);
    assert_eq!(rung(&session), 1);
    session.sample(vec![]);
    assert_eq!(rung(&session), 1);
}

#[test]
fn it_works_now_sums_up_what_was_done() {
    let mut session = Session::with_log();
    while session.model.current_step().is_some_and(|step| step.target.is_some()) {
        session.press(KeyCode::Char('s'));
    }
    session.press(KeyCode::Enter);
    session.press(KeyCode::Char('w'));
    let text = text_on_top(&session);
    assert!(text.contains("Reported as working") && text.contains("Shut down kernels"), "{text}");
}

#[test]
fn the_run_started_again_is_watched_past_the_point_where_it_failed() {
    let mut session = Session::with_log();
    while session.model.current_step().is_some_and(|step| step.target.is_some()) {
        session.press(KeyCode::Char('s'));
    }
    session.press(KeyCode::Enter);
    assert!(session.model.walk.since.is_some());
    let mut run = process(9001, Bytes::gib(5));
    run.started_at = Reading::Known(noon_plus(60));
    session.sample(vec![process(4242, Bytes::gib(3)), run.clone()]);
    let needed = session.model.advice.as_ref().unwrap().ledger.as_ref().unwrap().needed_bytes;
    let again = session.model.walk.again.clone().unwrap();
    assert_eq!(again.key.pid, 9001, "not the one that was there before");
    assert!(again.words(needed).contains("is running with 5.0 GiB"), "{}", again.words(needed));
    run.used_bytes = Reading::Known(Bytes::gib(15));
    session.sample(vec![run]);
    let words = session.model.walk.again.clone().unwrap().words(needed);
    assert!(words.contains("past the 14.3 GiB"), "{words}");
    session.sample(vec![]);
    assert!(session.model.walk.again.clone().unwrap().words(needed).contains("has exited"));
}

#[test]
fn a_variable_that_did_not_reach_the_run_is_said() {
    let mut session = Session::new();
    session.sample(vec![]);
    session.paste("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 22.50 GiB memory in use. Of the allocated memory 14.00 GiB is allocated by PyTorch, and 8.00 GiB is reserved by PyTorch but unallocated.");
    assert_eq!(session.model.current_step().unwrap().fix, "expandable-segments");
    session.press(KeyCode::Enter);
    let mut run = process(9001, Bytes::gib(5));
    run.started_at = Reading::Known(noon_plus(60));
    session.sample(vec![run]);
    let asked = Effect::ReadEnvironment { key: key_of(9001), names: vec!["PYTORCH_CUDA_ALLOC_CONF".into()] };
    assert!(session.effects.contains(&asked));
    session.send(Msg::Environment(key_of(9001), vec![("PYTORCH_CUDA_ALLOC_CONF".into(), false)]));
    let words = session.model.walk.again.clone().unwrap().words(None);
    assert!(words.contains("PYTORCH_CUDA_ALLOC_CONF has not reached it"), "{words}");
}

#[test]
fn a_model_that_the_log_does_not_name_is_named_and_reckoned() {
    let mut session = Session::with_holders();
    session.paste("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9216.00 MiB on device 0: cudaMalloc failed: out of memory\nalloc_tensor_range: failed to allocate CUDA0 buffer of size 9663676416\nllama_model_load_from_file_impl: failed to load model");
    session.press(KeyCode::Char('f'));
    assert!(session.model.notice.as_ref().is_some_and(|(text, _)| text.contains("[m] sets it")));
    session.press(KeyCode::Char('m'));
    session.wait(ms(500));
    session.paste("Llama-3.1-8B Q4_K_M");
    session.press(KeyCode::Enter);
    assert_eq!(session.model.opened(), Some(&FitTrial));
    assert_eq!(session.model.trial.as_ref().unwrap().title(), "Llama-3.1-8B Q4_K_M in llama.cpp");
    session.press(KeyCode::Tab);
    let text = text_on_top(&session);
    assert!(text.contains("Llama"), "{text}");
}

#[test]
fn a_model_that_was_set_is_forgotten_with_a_log_that_names_another() {
    let log = |model: &str| format!("$ vllm serve {model}\n{}", torch_log());
    for (next, is_kept) in [
        ("Qwen/Qwen3-8B", false),
        ("someone/unheard-of-3B", false),
        ("meta-llama/Llama-3.1-8B-Instruct", true),
        ("srv/blob-one", true),
    ] {
        let mut session = Session::with_holders();
        session.paste(&log("srv/blob-one"));
        session.press(KeyCode::Char('m'));
        session.wait(ms(500));
        session.paste("Llama-3.1-8B");
        session.press(KeyCode::Enter);
        session.press(KeyCode::Esc);
        assert_eq!(session.model.input.model.as_deref(), Some("Llama-3.1-8B"));
        session.wait(ms(500));
        session.paste(&log(next).replace("14.00 GiB", "12.00 GiB"));
        session.keys("r");
        session.read_logs();
        let diagnosis = session.model.input.diagnosis.as_ref().unwrap();
        assert_eq!(diagnosis.run.model.as_deref(), Some(next), "the new log is there");
        assert_eq!(session.model.input.model.is_some(), is_kept, "{next}");
        let said = session.model.notice.as_ref().is_some_and(|(text, _)| text.contains(next));
        assert_eq!(said, !is_kept, "{next}: {:?}", session.model.notice);
    }
}

#[test]
fn the_failed_programs_own_command_line_is_changed_where_it_still_runs() {
    let mut comfy = process(1852, Bytes::gib(19));
    comfy.recognised_as = Some("ComfyUI".into());
    comfy.command = Reading::Known("python main.py --port 8188 --highvram".into());
    let mut session = Session::new();
    session.sample(vec![comfy]);
    session.paste("got prompt\n  File \"/home/ada/ComfyUI/nodes.py\", line 1521, in common_ksampler\ntorch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 22.40 GiB\nRequested               : 1.25 GiB\nDevice limit            : 23.99 GiB\nFree (according to CUDA): 0 bytes");
    let plan = &session.model.advice.as_ref().unwrap().plan;
    let low = plan.iter().find(|planned| planned.fix == "low-vram-mode").unwrap();
    let command = low.steps[0].command.as_deref().unwrap();
    assert_eq!(command, "python main.py --port 8188 --disable-smart-memory");
    assert_eq!(session.model.rerun().as_deref(), Some("python main.py --port 8188 --highvram"));
}

#[test]
fn an_undone_fix_is_selected_again() {
    let mut session = Session::with_holders();
    session.paste(&torch_log());
    session.model.focus = Region::Steps;
    session.press(KeyCode::Down);
    session.press(KeyCode::Down);
    let skipped = session.model.current_step().unwrap().fix;
    session.wait(ms(400));
    session.press(KeyCode::Char('s'));
    assert_ne!(session.model.current_step().map(|step| step.fix), Some(skipped));
    session.press(KeyCode::Backspace);
    assert_eq!(session.model.current_step().map(|step| step.fix), Some(skipped));
}
