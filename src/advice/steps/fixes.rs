//! Owns how a fix of the knowledge base becomes a step here: the form for the program that the person runs, with this
//! log's and this machine's values, in the person's own command line.

use super::form::{self, as_module, called, circumstances, kept, programs, ran_on};
use super::planned::{Enough, PlannedFix, Step};
use super::template::{step_of, told, with_model, without_filling_in, without_start};
use super::{share, values};
use crate::advice::case::Case;
use crate::advice::engine::engine_of;
use crate::advice::fit::effect::Effect;
use crate::advice::fit::words::download;
use crate::advice::naming::sentence;
use crate::advice::other_gpu::RoomOn;
use crate::advice::rerun::model::with_other_model;
use crate::advice::rerun::printed::with_printed;
use crate::advice::rerun::{Changes, Form, Had, apply_all};
use crate::gpu::Nature;
use crate::knowledge::fix::substitute;
use crate::knowledge::{
    Condition, Diagnosis, Fix, FixCommand, FixId, Frees, MemoryKind, OwnOption, Platform, own_option,
};
use crate::memory::{Is, quant, table};
use crate::text::name_as_argument;
use crate::units::Bytes;

/// Fixes that load the weights in another number of bits.
const CHANGES_BITS: [FixId; 2] = [FixId::SMALLER_QUANTISATION, FixId::HALF_PRECISION];

/// Placeholders whose figure is the whole step: without one that helps there is no step.
const STEP_IS_THE_FIGURE: &[&str] = &["{offload_gb}"];

/// A fix in the form for this run.
struct Filling<'c, 'a> {
    fix: &'c Fix,
    case: &'c Case<'a>,
    form: &'c FixCommand,
    /// The form for programs of the person's kind, whose words stand in for missing ones.
    of_kind: Option<&'c FixCommand>,
    /// What the fix would do to this run by the model's sums.
    effect: Option<&'c Effect>,
    programs: Vec<&'c str>,
    ran_on: Option<Platform>,
    /// Files of fewer than four bits a weight lose quality quickly: a smaller model is better.
    is_for_smaller_model: bool,
}

/// The fix as a step, or the rule that keeps it from being one.
pub(crate) fn filled(fix: &Fix, case: &Case<'_>) -> Result<PlannedFix, &'static str> {
    filling(fix, case, case.fit_ahead().and_then(|fit| fit.effect_of(fix.id)))?.planned()
}

/// Fixes in one step, each with what it would do to the run.
#[derive(Default)]
pub(crate) struct Filled {
    /// What to do, in the words of each.
    pub actions: Vec<String>,
    /// One command for all of them that have one.
    pub command: Option<String>,
    pub changes: Option<Changes>,
}

/// The fixes in one step, with more options of the program that their command starts; `None` where one of them is no step
/// here or they change different programs.
pub(crate) fn filled_together(parts: &[(&Fix, Effect)], options: &str, case: &Case<'_>) -> Option<Filled> {
    let (mut filled, mut commands) = (Filled::default(), Vec::new());
    // A command that starts another model comes first: the person's own line does not name it.
    let mut other_model = None;
    for (fix, effect) in parts {
        let filling = filling(fix, case, Some(effect)).ok()?;
        let mut step = filling.step()?;
        let changes = filling.keep_what_differs(&mut step).ok()?;
        filled.actions.push(step.action);
        match (step.command, changes) {
            (Some(command), None) => {
                let own = case.command.and_then(|own| with_other_model(&command, own, Form::Posix));
                other_model = other_model.or(own).or(Some(command));
            }
            (command, changes) => {
                commands.extend(command);
                let all = filled.changes.take();
                filled.changes = match (all, changes) {
                    (Some(all), Some(changes)) => Some(all.with(changes)?),
                    (all, changes) => all.or(changes),
                };
            }
        }
    }
    let is_own = other_model.is_none();
    commands.splice(0..0, other_model);
    let (fix, effect) = parts.first()?;
    let mut in_one = joined(&commands);
    if !options.is_empty() {
        let line = in_one.filter(|line| STARTS_A_SERVER.iter().any(|start| line.contains(start)))?;
        let more = Changes::of(options)?;
        in_one = more.apply(&line, Form::Posix);
        filled.changes = Some(match filled.changes {
            Some(all) => all.with(more)?,
            None => more,
        });
    }
    filled.command = match is_own {
        true => filling(fix, case, Some(effect)).ok()?.in_own_command(in_one, filled.changes.as_ref()),
        false if case.command.is_none() => in_one.map(|line| with_printed(&line, &case.log.run)),
        false => in_one,
    };
    Some(filled)
}

/// Commands whose options are the engine's own.
const STARTS_A_SERVER: [&str; 4] = ["vllm serve ", "vllm.entrypoints.", "sglang.launch_server ", "sglang serve "];

/// Commands as one: options of the same program on one line, else what is written down in the same place.
fn joined(commands: &[String]) -> Option<String> {
    let (first, rest) = commands.split_first()?;
    let rest: Option<Vec<Changes>> = rest.iter().map(|command| Changes::of(command)).collect();
    let rest = rest.filter(|rest| rest.iter().all(|changes| changes.names_program() && changes.is_for(first)));
    Some(match rest {
        Some(rest) => apply_all(&rest, first, Form::Posix),
        None if commands.iter().any(|command| command.contains(": ")) => commands.join("\n"),
        None => commands.join(", "),
    })
}

/// The fix in the form for this run, or the rule that keeps it from being a step.
fn filling<'c, 'a>(
    fix: &'c Fix,
    case: &'c Case<'a>,
    effect: Option<&'c Effect>,
) -> Result<Filling<'c, 'a>, &'static str> {
    let log = case.log;
    if effect.is_some_and(|effect| effect.is_idle) {
        return Err("it changes nothing for this model");
    }
    if is_set_already(fix.id, case) {
        return Err("the run does so already");
    }
    let programs = programs(log);
    let kind = log.program.as_deref().and_then(form::kind);
    let limit = log.run.limit.map(|limit| limit.id.as_str());
    let ran = programs.iter().copied().find(|name| ![limit, Some("limit")].contains(&Some(*name)));
    if [limit, ran, kind].into_iter().flatten().any(|name| fix.not_for.iter().any(|other| other == name)) {
        return Err("it changes nothing in this program");
    }
    if fix.id == FixId::SMALLER_QUANTISATION && engine_of(log).is_some() && has_four_bit_weights(log) {
        return Err("the weights have four bits already");
    }
    if CHANGES_BITS.contains(&fix.id) && log.run.model.as_deref().is_some_and(table::is_trained_in_four_bits) {
        return Err("the model was trained in four bits and is in no others");
    }
    let ran_on = ran_on(log);
    let form = fix.command_for(&programs, &circumstances(log)).ok_or("it has no form for this program")?;
    let is_for_smaller_model = fix.id == FixId::SMALLER_QUANTISATION
        && effect.is_none_or(|effect| effect.fits != Some(true))
        && has_few_bits(log);
    Ok(Filling {
        fix,
        case,
        form,
        of_kind: fix.commands.iter().find(|other| kind == Some(other.program.as_str())),
        effect: if is_for_smaller_model { None } else { effect },
        programs,
        ran_on,
        is_for_smaller_model,
    })
}

impl Filling<'_, '_> {
    fn planned(&self) -> Result<PlannedFix, &'static str> {
        let mut step = self.step().ok_or("a value that it needs is not known")?;
        let changes = self.keep_what_differs(&mut step)?;
        step.command = self.in_own_command(step.command, changes.as_ref());
        step.action = without_filling_in(&step.action, step.command.as_deref()).to_owned();
        let room_on = self.room_on();
        if let Some(room) = &room_on {
            step.why = format!("{} {}", room.said(), sentence(&step.why));
        }
        let own = self.own_option();
        if let Some(own) = &own {
            step.action = match own.value {
                Some(value) => format!("Lower {}, which is {value}", own.name),
                None => format!("Lower {}, which the code that failed reads", own.name),
            };
        }
        let title = self.title(room_on.as_ref()).ok_or("a value that it needs is not known")?;
        let frees = self.frees();
        Ok(PlannedFix {
            title: own.map_or(title.clone(), |own| format!("{title}: {}", own.name)),
            frees_bytes: frees.map(|(bytes, _)| bytes),
            frees_is: frees.map(|(_, is)| is),
            enough: match &room_on {
                Some(room) if room.is_shared => Enough::Likely,
                Some(_) => Enough::Yes,
                None => self.enough_by_the_model(),
            },
            costs: match &room_on {
                Some(room) if room.is_shared => format!("shares GPU {}", room.index),
                _ => self.costs(),
            },
            room_on,
            steps: vec![step],
            changes,
            ..PlannedFix::of(self.fix)
        })
    }

    /// The step in the fix's own words, with the values of this run.
    fn step(&self) -> Option<Step> {
        let mut step = step_of(self.fix, self.form, self.of_kind, &|name| self.value_of(name))?;
        if self.is_for_smaller_model {
            step.action = "Its file has about 4 bits a weight already: take one with fewer parameters".into();
            (step.command, step.versions) = (None, None);
        }
        // The data type that weights are kept in changes nothing about the file that is read into RAM.
        let is_read_into_ram = self.case.log.memory == Some(MemoryKind::Host) && self.programs.contains(&"images");
        if is_read_into_ram && self.fix.id == FixId::SMALLER_QUANTISATION {
            step = Step { action: without_start(&step.action), command: None, ..step };
        }
        // A packed ComfyUI has its own Python: the options go into its .bat file.
        if self.ran_on == Some(Platform::Windows) {
            step.command = step.command.map(|line| line.trim_start_matches("python main.py ").to_owned());
        }
        Some(step)
    }

    /// Leaves out of the step what the run has already. `Err` where nothing is left, or no value that helps is known.
    fn keep_what_differs(&self, step: &mut Step) -> Result<Option<Changes>, &'static str> {
        let Some(text) = &step.command else {
            if STEP_IS_THE_FIGURE.iter().any(|name| self.asks_for(name)) {
                return Err("no value that helps is known");
            }
            if self.asks_for("{utilization}") && !share::may_be_smaller(self.case) {
                return Err("no smaller share helps");
            }
            // Where the share is not known, the step names the setting; one that cannot grow is no step.
            if self.asks_for("{larger_share}") && share::is_known(self.case) {
                return Err("no larger share is free");
            }
            return Ok(None);
        };
        let Some(all) = Changes::of(text) else { return Ok(None) };
        let had = Had { line: self.case.command, run: &self.case.log.run };
        let (left, text) = all
            .unlike(text, &had, |name| values::moves_of(name, self.form, self.fix.moves))
            .ok_or("the run has that setting already")?;
        step.command = Some(text);
        Ok(Some(left))
    }

    /// The command with the log's own model and unit, in the person's own command line where it is of that program.
    fn in_own_command(&self, command: Option<String>, changes: Option<&Changes>) -> Option<String> {
        let run = &self.case.log.run;
        let mut command = match (command, &run.model) {
            (Some(text), Some(model)) => Some(with_model(&text, model)),
            (command, _) => command,
        };
        command = command.map(|text| run.named_in(&text));
        if let (Some(text), Some(changes)) = (&command, changes)
            && let Some(kept) = kept(text, changes, self.ran_on)
        {
            return Some(kept);
        }
        let shell = self.case.situation.form();
        let as_started = command.as_deref().map(|text| with_printed(text, run));
        if let Some(called) = as_started.as_deref().and_then(|text| called(text, self.case.log)) {
            return Some(called);
        }
        let in_line = self.case.command.and_then(|line| match changes {
            Some(changes) => changes.apply(line, shell),
            None => {
                let shown = command.as_deref()?;
                with_other_model(shown, line, shell).or_else(|| Changes::to_be_filled_in(shown)?.apply(line, shell))
            }
        });
        let command = as_started.map(|text| as_module(&text, self.case.log).unwrap_or(text));
        let command = in_line.or_else(|| changes?.alone(shell)).or(command);
        command.or_else(|| own_option::halved(self.case.command?, &self.own_option()?))
    }

    /// The run's own option that the fix is about, where the program's are not described.
    fn own_option(&self) -> Option<OwnOption> {
        let typed = self.case.command.map(own_option::in_command).unwrap_or_default();
        let mut all = typed.iter().chain(&self.case.log.own_options);
        all.find(|option| option.fix == self.fix.id && self.form.program == "*").cloned()
    }

    /// Whether the run fits with the fix by the model's own sums.
    fn enough_by_the_model(&self) -> Enough {
        let Some(effect) = self.effect else { return self.enough_by_the_share() };
        match (effect.lacks_ram, effect.fits) {
            (Some((needs, has)), _) => Enough::LacksRam { needs, has },
            (None, Some(true)) => Enough::Yes,
            (None, Some(false)) => Enough::NotAlone,
            (None, None) => Enough::Unknown,
        }
    }

    /// A smaller share that does not hold the model leaves no room for the engine to start.
    fn enough_by_the_share(&self) -> Enough {
        if !self.asks_for("{utilization}") {
            return Enough::Unknown;
        }
        match self.value_of("utilization").and_then(|value| share::holds_the_model(self.case, &value)) {
            Some(false) => Enough::NotAlone,
            _ => Enough::Unknown,
        }
    }

    fn asks_for(&self, placeholder: &str) -> bool {
        self.form.command.as_deref().is_some_and(|text| text.contains(placeholder))
    }

    fn title(&self, room: Option<&RoomOn>) -> Option<String> {
        match room {
            Some(room) => Some(format!("Run it on GPU {}", room.index)),
            None if self.is_for_smaller_model => Some("Take a smaller model".into()),
            None => substitute(self.form.title.as_ref().unwrap_or(&self.fix.title), &|name| self.value_of(name)),
        }
    }

    fn costs(&self) -> String {
        let costs = told(self.form, self.of_kind, |form| form.costs.as_ref(), &self.fix.costs);
        match self.effect.and_then(|effect| effect.download) {
            Some(bytes) => costs.replace("a download", &download(bytes)),
            None => costs.clone(),
        }
    }

    fn room_on(&self) -> Option<RoomOn> {
        if !self.fix.when.contains(&Condition::OtherDeviceHasRoom) {
            return None;
        }
        self.case.other_gpu.as_ref().map(|other| other.room.clone())
    }

    /// What it frees, and how sure that is.
    fn frees(&self) -> Option<(Bytes, Is)> {
        if let Some(frees) = self.effect.and_then(|effect| effect.frees) {
            return Some(frees);
        }
        let unused = match self.fix.frees {
            // Of what the log counts, pools of CUDA graphs and other streams stay out of reach.
            Frees::ReservedUnallocated => match self.case.log.recorded_failure() {
                Some(filled) => filled.totals.as_ref().map(|totals| totals.usable_bytes),
                None => self.case.log.facts.reserved_unallocated_bytes,
            },
            Frees::HolderMemory | Frees::Unknown => None,
        };
        let bytes = match unused {
            Some(bytes) => bytes,
            None if self.asks_for("{utilization}") => share::leaves(self.case, &self.value_of("utilization")?)?,
            None => return None,
        };
        Some((bytes, Is::About))
    }

    /// The value of a placeholder. What is calculated for this run comes before what fits any.
    fn value_of(&self, name: &str) -> Option<String> {
        let value = self.effect.and_then(|effect| effect.value.as_ref());
        let calculated = value.filter(|(of, _)| *of == name).map(|(_, value)| value.clone());
        match (name, value) {
            ("raise:accumulation", Some(("lower:batch", batch))) => {
                values::accumulation_with(batch, self.form, self.case)
            }
            ("layers", _) => values::fewer_layers(calculated, self.case),
            _ => calculated.or_else(|| self.usual_value_of(name)),
        }
    }

    fn usual_value_of(&self, name: &str) -> Option<String> {
        let (case, log) = (self.case, self.case.log);
        match name {
            "gpu_uuid" => {
                // It may be what another machine said of itself.
                Some(name_as_argument(case.other_gpu.as_ref()?.device.uuid.known()?)?.into_owned())
            }
            "gpu_index" => self.index_of_other_gpu(),
            "gpu_number" => Some(case.other_gpu.as_ref()?.device.number()?.to_string()),
            "where_set" => form::where_set(self.ran_on).map(str::to_owned),
            "context" => log.facts.context_tokens.map(|tokens| tokens.to_string()),
            "half_context" => {
                // Ollama is told what one request has.
                let slots = if self.programs.contains(&"ollama") { log.run.slots() } else { 1 };
                values::half_context(log, slots)
            }
            "of_its_context" => Some(String::new()),
            "max_tokens" => log.facts.max_tokens.map(|tokens| tokens.to_string()),
            "utilization" => share::smaller(case),
            "larger_share" => share::larger_to_try(case),
            "namespace" => Some(log.run.namespace.clone().unwrap_or_else(|| "NAMESPACE".to_owned())),
            "deployment" => Some(log.run.deployment().unwrap_or("NAME").to_owned()),
            "limit" => Some(log.run.limit?.name.clone()),
            "limit_set_by" => Some(log.run.limit?.set_by.clone()),
            "offload_gb" => share::offload(case),
            "card_gib" => values::card_gib(case),
            "ram_gib" => values::ram_gib(case),
            "quantisation" => Some("Q4_K_M".to_owned()),
            _ => values::asked(name, self.form, case),
        }
    }

    /// A MIG instance has no number that CUDA would count.
    fn index_of_other_gpu(&self) -> Option<String> {
        let device = self.case.other_gpu.as_ref()?.device;
        (device.nature != Some(Nature::MigInstance)).then(|| device.index.to_string())
    }
}

/// Whether the log shows that the run does so already, whatever form the fix has for its program.
fn is_set_already(fix: FixId, case: &Case<'_>) -> bool {
    match fix {
        FixId::SMALLER_BATCH => values::batch(case) == Some(1) || case.log.run.settings.get("batch") == Some(&1),
        FixId::GRADIENT_CHECKPOINTING => {
            case.log.run.printed.contains_key("gradient_checkpointing")
                || case.command.is_some_and(|line| line.contains("--gradient_checkpointing"))
        }
        FixId::FEWER_WORKERS => case.log.run.settings.get("workers") == Some(&0),
        _ => false,
    }
}

/// Whether the run's weights have four bits already: a quantized checkpoint is no smaller one.
fn has_four_bit_weights(log: &Diagnosis) -> bool {
    let names = [&log.run.quantisation, &log.run.model].into_iter().flatten();
    let mut mixes = names.filter_map(|name| quant::in_name(&name.replace('_', "-")));
    mixes.any(|(_, mix)| matches!(mix, "4-bit" | "NVFP4"))
}

/// Whether its file, by what the log or its name says, has four bits for each weight or fewer.
fn has_few_bits(log: &Diagnosis) -> bool {
    let run = &log.run;
    let printed = run.quantisation.as_deref().and_then(|printed| printed.split(' ').next().map(str::to_owned));
    let named = || run.model.as_deref().and_then(quant::in_name).map(|(name, _)| name);
    printed.or_else(named).is_some_and(|name| {
        let bits = name.trim_start_matches("UD-").trim_start_matches('I').trim_start_matches('Q');
        bits != name && bits.starts_with(['1', '2', '3', '4'])
    })
}

/// Whether it has a form that is this program's own.
pub(crate) fn has_own_form(fix: &Fix, log: &Diagnosis) -> bool {
    fix.command_for(&programs(log), &circumstances(log)).is_some_and(|form| form.program != "*")
}
