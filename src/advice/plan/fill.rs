//! Owns how a fix of the knowledge base becomes a step here: its placeholders filled with what log and machine say.

use super::whose::{kept, kind, programs, ran_on, where_set};
use super::{FreesIs, PlannedFix, Step, another_gpu, empty, share, values};
use crate::advice::fit::words::download;
use crate::advice::words::sentence;
use crate::advice::{Changes, FitAdvice, Had, Ledger, Place, Situation};
use crate::gpu::Nature;
use crate::knowledge::FixId;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Platform};
use crate::knowledge::fix::{Condition, Fix, FixCommand, Frees};
use crate::knowledge::settings::Asked;
use crate::memory::quant;

/// The fix with this log's figures, in the form for the program the person runs.
pub fn filled(
    fix: &Fix,
    situation: &Situation<'_>,
    place: &Place<'_>,
    ledger: Option<&Ledger>,
    fit: Option<&FitAdvice>,
) -> Option<PlannedFix> {
    let diagnosis = situation.diagnosis;
    let effect = fit.and_then(|fit| fit.effect_of(fix.id));
    if effect.is_some_and(|effect| effect.is_idle) || is_so(fix, situation) {
        return None;
    }
    let programs = programs(diagnosis);
    let own = [programs.first().copied(), diagnosis.program.as_deref().and_then(kind)];
    if own.into_iter().flatten().any(|program| fix.not_for.iter().any(|other| other == program)) {
        return None;
    }
    if fix.id == FixId::SMALLER_QUANTISATION && share::engine(diagnosis).is_some() && is_in_four_bits(diagnosis) {
        return None;
    }
    let ran_on = ran_on(diagnosis);
    let command = fix.command_for(&programs, diagnosis.phase, ran_on)?;
    let computed = |name: &str| effect?.value.clone().filter(|(of, _)| *of == name).map(|(_, value)| value);
    let otherwise = |name: &str| match name {
        "gpu_uuid" => another_gpu(situation, place, ledger)?.0.uuid.known().cloned(),
        // An instance (MIG) has no number that CUDA would count.
        "gpu_index" => {
            let device = another_gpu(situation, place, ledger)?.0;
            (device.nature != Some(Nature::MigInstance)).then(|| device.index.to_string())
        }
        "where_set" => where_set(ran_on).map(str::to_owned),
        "context" => diagnosis.facts.context_tokens.map(|tokens| tokens.to_string()),
        "half_context" => {
            // Ollama is told what one request has.
            let slots = if programs.contains(&"ollama") { diagnosis.run.slots() } else { 1 };
            values::half_context(diagnosis, slots)
        }
        "of_its_context" => Some(String::new()),
        "max_tokens" => diagnosis.facts.max_tokens.map(|tokens| tokens.to_string()),
        "utilization" => share::smaller(situation, ledger, fit),
        "larger_share" => share::larger_to_try(situation, place),
        "namespace" => Some(diagnosis.run.namespace.clone().unwrap_or_else(|| "NAMESPACE".to_owned())),
        "deployment" => Some(diagnosis.run.deployment().unwrap_or("NAME").to_owned()),
        "offload_gb" => share::offload(situation, place, ledger, fit),
        "card_gib" => values::card_gib(situation, place),
        "ram_gib" => values::ram_gib(situation, place),
        "quantisation" => Some("Q4_K_M".to_owned()),
        _ => values::asked(name, command, situation, place),
    };
    // What is computed for this run comes before what fits any.
    let fill = |name: &str| match name {
        "layers" => values::fewer_layers(computed(name), situation),
        _ => computed(name).or_else(|| otherwise(name)),
    };
    let frees_bytes = match fix.frees {
        Frees::ReservedUnallocated => diagnosis.facts.reserved_unallocated_bytes,
        Frees::HolderMemory | Frees::Unknown => None,
    };
    let by_share = || {
        let asks = command.command.as_deref().is_some_and(|text| text.contains("{utilization}"));
        share::leaves(diagnosis, ledger, &fill("utilization").filter(|_| asks)?)
    };
    let frees_bytes = frees_bytes.or_else(by_share);
    // Below four bits answers suffer quickly: a smaller file of the same model is no step unless it is known to fit.
    let is_small = fix.id == FixId::SMALLER_QUANTISATION
        && effect.is_none_or(|effect| effect.fits != Some(true))
        && has_few_bits(diagnosis);
    let effect = effect.filter(|_| !is_small);
    let frees = effect.and_then(|effect| effect.frees).or_else(|| Some((frees_bytes?, FreesIs::About)));
    let download = effect.and_then(|effect| effect.download).map_or_else(|| "a download".to_owned(), download);
    let of_kind = fix.commands.iter().find(|other| own[1] == Some(other.program.as_str()));
    let mut step = step_of(fix, command, of_kind, &fill)?;
    if is_small {
        step.action = "Its file has about 4 bits a weight already: take one with fewer parameters".into();
        (step.command, step.versions) = (None, None);
    }
    let of_images = programs.contains(&"images");
    // Which type the weights are kept in changes nothing of the file that is read.
    if of_images && fix.id == FixId::SMALLER_QUANTISATION && diagnosis.memory == Some(MemoryKind::Host) {
        step = Step { action: without_start(&step.action), command: None, ..step };
    }
    // A packed ComfyUI has its own Python: the options go into its .bat file.
    if ran_on == Some(Platform::Windows) {
        step.command = step.command.map(|line| line.trim_start_matches("python main.py ").to_owned());
    }
    // Such a figure is the whole step: without one that helps there is none.
    let needs = |name: &str| command.command.as_deref().is_some_and(|text| text.contains(name));
    if step.command.is_none() && ["{utilization}", "{offload_gb}"].into_iter().any(needs) {
        return None;
    }
    // Where the share is not known, the step names the setting; one that can't grow is no step.
    if step.command.is_none() && needs("{larger_share}") && share::is_known(situation, place) {
        return None;
    }
    if let Some((needs, available)) = effect.and_then(|effect| effect.lacks_ram) {
        step.expect = format!("This does not fit in RAM: it needs about {needs} there, and {available} is available.");
    } else if effect.is_some_and(|effect| effect.fits == Some(false)) {
        step.expect = format!("{} Alone it is not enough here.", sentence(&step.expect));
    }
    let mut changes = step.command.as_deref().and_then(Changes::of);
    if let (Some(all), Some(text)) = (&changes, &step.command) {
        let had = Had { line: situation.command_line(), run: &diagnosis.run };
        let (left, text) = all.unlike(text, &had, |name| values::moves_of(name, command, fix.moves))?;
        (changes, step.command) = (Some(left), Some(text));
    }
    // The person's own command with the change made, where it is of that program.
    let own = situation.command_line().zip(changes.as_ref());
    if let (Some(text), Some(model)) = (&step.command, &diagnosis.run.model) {
        step.command = Some(with_model(text, model));
    }
    if let (Some(text), Some(unit)) = (&step.command, diagnosis.run.unit()) {
        step.command = Some(text.replace(" UNIT ", &format!(" {unit} ")));
    }
    let alone = || changes.as_ref()?.alone(situation.form());
    let kept = step.command.as_deref().zip(changes.as_ref()).and_then(|(text, all)| kept(text, all, ran_on));
    if kept.is_some() {
        step.command = kept;
    } else if let Some(with) = own.and_then(|(line, changes)| changes.apply(line, situation.form())).or_else(alone) {
        step.command = Some(with);
    }
    if fix.id == FixId::SMALLER_BATCH && step.command.is_none() {
        step.command = situation.command_line().and_then(half_batch);
    }
    let room = fix.when.contains(&Condition::OtherDeviceHasRoom).then(|| another_gpu(situation, place, ledger));
    let room_on = room.flatten().map(|(_, room)| room);
    if let Some(room) = &room_on {
        step.why = format!("{} {}", room.said(), sentence(&step.why));
    }
    let title = match &room_on {
        Some(room) => format!("Run it on GPU {}", room.index),
        None if is_small => "Take a smaller model".into(),
        None => substitute(&fix.title, &fill)?,
    };
    Some(PlannedFix {
        title,
        frees_bytes: frees.map(|(bytes, _)| bytes),
        frees_is: frees.map(|(_, is)| is),
        may_be_enough: effect.is_some_and(|effect| effect.fits == Some(true)) || room_on.is_some(),
        room_on,
        costs: told(command, of_kind, |form| form.costs.as_ref())
            .unwrap_or(&fix.costs)
            .replace("a download", &download),
        steps: vec![step],
        changes,
        ..empty(fix)
    })
}

/// Whether the log shows that the run does so already, whatever form the fix has for its program.
fn is_so(fix: &Fix, situation: &Situation<'_>) -> bool {
    let run = &situation.diagnosis.run;
    match fix.id {
        FixId::SMALLER_BATCH => values::batch(situation) == Some(1),
        FixId::GRADIENT_CHECKPOINTING => {
            let flag = || situation.command_line().is_some_and(|line| line.contains("--gradient_checkpointing"));
            run.printed.contains_key("gradient_checkpointing") || flag()
        }
        _ => false,
    }
}

/// The command line with half of the batch that it asks for, in any of the usual spellings.
fn half_batch(line: &str) -> Option<String> {
    let names = ["batch_size", "batch", "bs", "train_batch_size", "micro_batch_size", "per_device_train_batch_size"];
    let is_batch = |name: &str| names.contains(&name.trim_start_matches('-').replace('-', "_").as_str());
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let at = words.iter().position(|word| match word.split_once('=') {
        Some((name, _)) => is_batch(name),
        None => word.starts_with("--") && is_batch(word),
    })?;
    let (name, value) = match words.get(at)?.split_once('=') {
        Some((name, value)) => (Some(name.to_owned()), value.to_owned()),
        None => (None, words.get(at + 1)?.clone()),
    };
    let half = value.parse::<u64>().ok().filter(|batch| *batch > 1)? / 2;
    let (at, word) = name.map_or_else(|| (at + 1, half.to_string()), |name| (at, format!("{name}={half}")));
    *words.get_mut(at)? = word;
    Some(words.join(" "))
}

/// Whether the run's weights have four bits already: a quantised checkpoint is no smaller one.
fn is_in_four_bits(diagnosis: &Diagnosis) -> bool {
    let names = [&diagnosis.run.quantisation, &diagnosis.run.model].into_iter().flatten();
    let mut mixes = names.filter_map(|name| quant::in_name(&name.replace('_', "-")));
    mixes.any(|(_, mix)| matches!(mix, "4-bit" | "NVFP4"))
}

/// Whether its file, by what the log or its name says, has four bits for each weight or fewer.
fn has_few_bits(diagnosis: &Diagnosis) -> bool {
    let run = &diagnosis.run;
    let printed = run.quantisation.as_deref().and_then(|printed| printed.split(' ').next().map(str::to_owned));
    let named = || run.model.as_deref().and_then(quant::in_name).map(|(name, _)| name);
    printed.or_else(named).is_some_and(|name| {
        let bits = name.trim_start_matches("UD-").trim_start_matches('I').trim_start_matches('Q');
        bits != name && bits.starts_with(['1', '2', '3', '4'])
    })
}

/// Whether it has a form that is this program's own.
pub fn has_own_form(fix: &Fix, diagnosis: &Diagnosis) -> bool {
    fix.command_for(&programs(diagnosis), diagnosis.phase, ran_on(diagnosis))
        .is_some_and(|command| command.program != "*")
}

/// The command with the log's own model in the place of `MODEL` or `MODEL.gguf`; only a name that a shell takes as it is.
pub fn with_model(command: &str, model: &str) -> String {
    // A path with a drive is for a shell of Windows.
    let windows = model.get(1..3).is_some_and(|after| after == ":\\");
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '/' | '-') || windows && c == '\\';
    let file = model.ends_with(".gguf");
    let stand_in = if file { "MODEL.gguf" } else { "MODEL" };
    if model.is_empty() || model.starts_with('-') || !model.chars().all(plain) {
        return command.to_owned();
    }
    let mut said = String::new();
    let mut rest = command;
    while let Some((before, after)) = rest.split_once(stand_in) {
        said.push_str(before);
        let alone = !before.ends_with(plain) && !after.starts_with(plain);
        // Code wants it in quotes.
        let quote = if alone && before.ends_with('(') { "\"" } else { "" };
        said.extend([quote, if alone { model } else { stand_in }, quote]);
        rest = after;
    }
    said.push_str(rest);
    said
}

/// What the program's own form says, else the one for programs of its kind.
fn told<'a>(
    command: &'a FixCommand,
    of_kind: Option<&'a FixCommand>,
    what: impl Fn(&'a FixCommand) -> Option<&'a String>,
) -> Option<&'a String> {
    what(command).or_else(|| of_kind.and_then(&what))
}

/// What to do, where the command that it ends with is not known.
fn without_start(action: &str) -> String {
    action.trim_end_matches(", or start with").to_owned()
}

/// A step in words. Settings whose values are not known are left out of the command rather than shown with holes, and
/// the command with them where nothing else is in it: the sentence names the setting then.
pub fn step_of(
    fix: &Fix,
    command: &FixCommand,
    of_kind: Option<&FixCommand>,
    fill: &impl Fn(&str) -> Option<String>,
) -> Option<Step> {
    let action = substitute(&command.action, fill)?;
    let otherwise = || substitute(command.otherwise.as_deref()?, fill);
    let known =
        |text: &str| substitute(text, fill).or_else(otherwise).or_else(|| values::with_what_is_known(text, fill));
    let line = command.command.as_deref().and_then(known);
    Some(Step {
        action: if line.is_some() { action } else { without_start(&action) },
        command: line,
        why: told(command, of_kind, |form| form.why.as_ref()).unwrap_or(&fix.why).clone(),
        expect: told(command, of_kind, |form| form.expect.as_ref()).unwrap_or(&fix.expect).clone(),
        if_not: told(command, of_kind, |form| form.if_not.as_ref()).unwrap_or(&fix.if_not).clone(),
        versions: command.versions.clone(),
    })
}

/// Puts values into `{names}`; `None` where one is not known. Braces around anything else stand as they are.
pub fn substitute(text: &str, fill: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut said = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        said.push_str(before);
        match after.split_once('}') {
            Some((name, tail)) if is_placeholder(name) => {
                said.push_str(&fill(name)?);
                rest = tail;
            }
            _ => {
                said.push('{');
                rest = after;
            }
        }
    }
    said.push_str(rest);
    Some(said)
}

fn is_placeholder(name: &str) -> bool {
    crate::knowledge::fix::PLACEHOLDERS.contains(&name) || Asked::of(name).is_some()
}
