//! Owns `oomdoctor fit MODEL --host …`: on which of several machines a model fits, best first. The sums are those of one
//! machine, run for each. Other people's processes are named as a fact and never as something to end; what ends your own
//! is a command for you to run there.

mod json;
mod on_host;
mod words;

pub(in crate::cli) use self::json::FitHosts;
use self::on_host::{Verdict, ranked};
use super::drawing;
use super::flags::FitArgs;
use super::wanted::Wanted;
use crate::cli::output::pretty;
use crate::cli::settings::Global;
use crate::hosts::Asked;
use crate::platform::here;
use crate::runtime;

/// The text or JSON, and whether it fits on one of the machines as it is.
pub(super) fn said(global: &Global, args: &FitArgs, asked: &Asked) -> Result<(String, bool), String> {
    let Some(model) = &args.model else {
        return Err("name the model, as in `oomdoctor fit llama3.1:8b --host gpu1,gpu2`".to_owned());
    };
    if let Some(model_of_images) = drawing::draws(model) {
        return drawing::said(args, model, model_of_images, None);
    }
    let wanted = Wanted::of(args, model)?;
    let (readings, user) = (runtime::hosts::read(asked, &global.sampling), here::user_name());
    let on_hosts = ranked(&wanted, &readings, &user, asked);
    let fits = on_hosts.iter().any(|on_host| on_host.verdict == Verdict::Fits);
    let text = if args.json { pretty(&FitHosts::of(&wanted, &on_hosts))? } else { words::text(&wanted, &on_hosts) };
    Ok((text, fits))
}
