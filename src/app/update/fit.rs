//! Owns "will it fit?" in the terminal: opening it, turning the settings that are tried, and taking them into the
//! command line to run again.

use super::say;
use crate::advice::{Changes, FitAdvice};
use crate::app::action::Action;
use crate::app::effect::Effect;
use crate::app::model::{Model, Overlay};
use crate::app::walk::{Behind, Mark, StepId};
use crate::knowledge::FixId;

/// Names the settings that were taken among the steps behind.
const TRIED: FixId = FixId::WILL_IT_FIT;

/// Opens or closes it: to be tried where the model is known, else what the log's own figures say.
pub(crate) fn open(model: &mut Model) {
    if matches!(model.overlay, Some(Overlay::Trial | Overlay::Fit(_))) {
        model.overlay = None;
        return;
    }
    let Some(fit) = model.advice.as_ref().and_then(|advice| advice.fit.as_ref()) else {
        return say(model, unknown(model));
    };
    let (trial, is_told) = (fit.trial(), fit.is_told());
    if let Some(trial) = trial {
        // What was tried before is kept while the log and the model are the same.
        model.trial.get_or_insert_with(|| Box::new(trial));
        model.overlay = Some(Overlay::Trial);
    } else if is_told {
        model.overlay = Some(Overlay::Fit(0));
    } else {
        say(model, unknown(model));
    }
}

/// From the settings to the page of sizes and choices, and back.
pub(crate) fn turned_over(model: &mut Model) {
    model.overlay = match model.overlay {
        Some(Overlay::Trial) if fit(model).is_some_and(FitAdvice::is_told) => Some(Overlay::Fit(0)),
        Some(Overlay::Fit(_)) if model.trial.is_some() => Some(Overlay::Trial),
        ref same => same.clone(),
    };
}

fn fit(model: &Model) -> Option<&FitAdvice> {
    model.advice.as_ref()?.fit.as_ref()
}

pub(crate) fn selected(model: &mut Model, by: i32) {
    if let Some(trial) = &mut model.trial {
        trial.select(by);
    }
}

/// Turns the selected row.
pub(crate) fn turned(model: &mut Model, by: i32) {
    if let Some(trial) = &mut model.trial {
        trial.turn(by);
    }
}

/// Everything as the log has it.
pub(crate) fn reset(model: &mut Model) {
    if let Some(trial) = &mut model.trial {
        trial.reset();
    }
}

/// Takes what was tried into the command line to run again; where nobody knows that line, the changes are copied.
pub(crate) fn taken(model: &mut Model) -> Option<Effect> {
    model.overlay = None;
    let trial = model.trial.as_ref()?;
    if trial.is_as_it_was() {
        model.walk.behind.retain(|behind| behind.id.fix != TRIED);
        super::advise_anew(model);
        return None;
    }
    let enough = fit(model).is_some_and(|fit| trial.fits(fit) == Some(true));
    let (command, beside, title) = (trial.command(), trial.beside(), trial.changes().join(", "));
    let changes = command.as_deref().and_then(Changes::of);
    model.walk.behind.retain(|behind| behind.id.fix != TRIED);
    let before = model.rerun();
    let id = StepId { fix: TRIED, target: None };
    let title = format!("Use other settings: {title}");
    model.walk.behind.push(Behind { id, title, mark: Mark::Taken, changes, parts: Vec::new(), enough });
    model.walk.since.get_or_insert(model.wall);
    let rerun = model.rerun().filter(|rerun| before.as_ref() != Some(rerun));
    super::advise_anew(model);
    let beside = beside.map(|beside| format!(" It also takes {beside}.")).unwrap_or_default();
    match (rerun, command) {
        // That it is copied would be said over what else must be done.
        (Some(_), _) if !beside.is_empty() => {
            say(model, format!("These settings are in the command now.{beside}"));
            None
        }
        (Some(rerun), _) => Some(Effect::Copy(rerun)),
        (None, Some(command)) => {
            say(model, format!("Copied: {command}.{beside} [r] sets your command, which then gets them."));
            Some(Effect::Copy(command))
        }
        (None, None) => {
            say(model, beside.trim_start().to_owned());
            None
        }
    }
}

fn unknown(model: &Model) -> String {
    format!("The log does not name the model: {} sets it.", model.key(Action::Model))
}

#[cfg(test)]
pub(crate) mod tests {
    use crossterm::event::KeyCode;

    use crate::app::effect::Effect;
    use crate::app::model::{Model, Overlay, Region};
    use crate::app::tests::Session;
    use crate::gpu::testing::{device, process, snapshot};
    use crate::gpu::{Device, Snapshot};
    use crate::units::Bytes;

    /// llama.cpp's load of Llama 3.1 8B at 64K context, whose KV cache is refused, beside 12 GiB that somebody holds.
    pub(crate) fn refused() -> Session {
        let log = "\
$ llama-server -m /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf -c 65536 --port 8080
llama_model_loader: loaded meta data with 29 key-value pairs and 292 tensors from /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf (version GGUF V3 (latest))
print_info: file type   = Q4_K - Medium
print_info: file size   = 4.58 GiB (4.89 BPW)
print_info: n_layer          = 32
print_info: n_embd           = 4096
load_tensors: offloaded 33/33 layers to GPU
load_tensors:        CUDA0 model buffer size =  4403.49 MiB
llama_context: n_seq_max     = 1
llama_context: n_ctx         = 65536
llama_context: n_ubatch      = 512
llama_context: flash_attn    = enabled
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 8192.00 MiB on device 0: cudaMalloc failed: out of memory
llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache";
        let mut session = Session::new();
        session.send(sample(Bytes::gib(12)));
        session.paste(log);
        session
    }

    fn sample(held: Bytes) -> crate::app::Msg {
        let one: Device = device(0, vec![process(4242, held)]);
        crate::app::Msg::Sample(Box::new(Snapshot { devices: vec![one], ..snapshot(0) }))
    }

    fn sentence(model: &Model) -> String {
        let fit = model.advice.as_ref().unwrap().fit.as_ref().unwrap();
        model.trial.as_ref().unwrap().sentence(fit)
    }

    #[test]
    fn it_opens_from_every_region() {
        for region in [Region::Processes, Region::Input, Region::Steps] {
            let mut session = refused();
            session.model.focus = region;
            session.keys("f");
            assert_eq!(session.model.overlay, Some(Overlay::Trial), "{region:?}");
        }
    }

    #[test]
    fn what_is_tried_goes_into_the_command_to_run_again() {
        let mut session = refused();
        session.keys("f");
        assert_eq!(session.model.overlay, Some(Overlay::Trial));
        assert!(sentence(&session.model).starts_with("It does not fit: about 13."), "{}", sentence(&session.model));
        session.press(KeyCode::Left);
        session.press(KeyCode::Left);
        assert!(sentence(&session.model).starts_with("It fits: about 9."), "{}", sentence(&session.model));
        session.press(KeyCode::Down);
        session.press(KeyCode::Down);
        session.press(KeyCode::Left);
        session.press(KeyCode::Enter);
        let line =
            "llama-server -m /m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf -c 32768 --port 8080 -fa on -ctk q8_0 -ctv q8_0";
        assert_eq!(session.model.rerun().as_deref(), Some(line));
        assert_eq!(session.model.overlay, None);
        assert!(session.effects().contains(&Effect::Copy(line.into())));
        // What was tried is there again, and taken back whole.
        session.keys("f");
        session.press(KeyCode::Backspace);
        session.press(KeyCode::Enter);
        assert!(session.model.rerun().unwrap().ends_with("-c 65536 --port 8080"), "{:?}", session.model.rerun());
    }

    #[test]
    fn the_sum_is_held_against_what_is_free_at_each_reading() {
        let mut session = refused();
        session.keys("f");
        assert!(sentence(&session.model).contains("too much"));
        session.send(sample(Bytes::gib(1)));
        assert!(sentence(&session.model).starts_with("It fits"), "{}", sentence(&session.model));
        session.press(KeyCode::Tab);
        assert_eq!(session.model.overlay, Some(Overlay::Fit(0)));
        session.press(KeyCode::Tab);
        assert_eq!(session.model.overlay, Some(Overlay::Trial));
        session.press(KeyCode::Esc);
        session.paste("\n");
        assert_eq!(session.model.overlay, None);
    }

    #[test]
    fn without_a_model_it_is_asked_for() {
        let mut session = Session::with_log();
        session.keys("f");
        assert_eq!(session.model.overlay, None);
        assert!(session.model.notice.as_ref().unwrap().0.contains("[m] sets it"));
    }
}
