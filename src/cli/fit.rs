//! Owns `oomdoctor fit`: whether a model fits on a GPU with what is free on it now, and what would make it fit; on this
//! machine, or on each of several others (`hosts`).
//! Exit codes: 0 it fits, 1 it does not or that is not known, 2 wrong usage or an unreadable model.
//! Knows no formula: those are in `memory`.

mod answer;
mod arguments;
mod checkpoint;
mod command;
mod drawing;
mod flags;
mod hosts;
mod idle;
mod json;
mod list;
mod locate;
mod located;
mod machine;
mod meant;
mod notes;
mod spread;
mod stores;
mod wanted;
mod words;

use std::process::ExitCode;

pub(super) use self::flags::FitArgs;
pub(super) use self::hosts::FitHosts;
pub(super) use self::json::Fit;
use self::json::ModelFit;
pub(super) use self::list::FitModels;
use self::machine::machine;
use self::wanted::Wanted;
use super::output::{pretty, print, refuse};
use super::settings::Global;
use crate::text::harmless;

/// Answers; 2 where the model or an argument can't be used.
pub(super) fn run(global: &Global, args: &FitArgs) -> ExitCode {
    match said(global, args) {
        Ok((text, true)) => print(&text, ExitCode::SUCCESS),
        Ok((text, false)) => print(&text, ExitCode::from(1)),
        Err(message) => refuse(&harmless(&message).replace('\n', " ")),
    }
}

/// What to print, and whether the model, or any model where none is named, fits.
fn said(global: &Global, args: &FitArgs) -> Result<(String, bool), String> {
    let asked = args.hosts.asked(global)?;
    if !asked.is_nothing() {
        return hosts::said(global, args, &asked);
    }
    let viewer = global.kernel().viewer();
    let sampling = &global.sampling;
    let Some(model) = &args.model else {
        let machine = machine(sampling, args.gpu)?;
        let holders = machine.card().map(|card| machine.holders(card, &viewer)).unwrap_or_default();
        return list::answer(args, &machine, &holders);
    };
    if let Some(model_of_images) = drawing::draws(model) {
        let free = machine(sampling, args.gpu)?.card().map(|card| card.free);
        return drawing::said(args, model, model_of_images, free);
    }
    let wanted = Wanted::of(args, model)?;
    let answer = wanted.on(machine(sampling, args.gpu)?, Some(&viewer))?;
    let fits = answer.fits == Some(true);
    if !args.json {
        return Ok((words::text(&answer), fits));
    }
    Ok((pretty(&Fit::Model(Box::new(ModelFit::of(&answer))))?, fits))
}
