//! Owns the answer for a model that draws pictures: its sizes, and why it is unknown whether it fits.

use std::path::Path;

use super::flags::FitArgs;
use super::json::{Fit, ImageModelFit};
use crate::cli::output::pretty;
use crate::memory::images::{self, ImageModel};
use crate::units::Bytes;

/// What is known of a model that draws pictures, which is never whether it fits.
pub(super) fn said(
    args: &FitArgs,
    model: &str,
    drawing: &ImageModel,
    free: Option<Bytes>,
) -> Result<(String, bool), String> {
    let said = drawing.said(free);
    if !args.json {
        return Ok((format!("{said}\n"), false));
    }
    let json = ImageModelFit { model: model.to_owned(), fits: None, why_not_known: said };
    Ok((pretty(&Fit::ImageModel(json))?, false))
}

/// A model that draws pictures, by a name that is no file here.
pub(super) fn draws(model: &str) -> Option<&'static ImageModel> {
    if Path::new(model).exists() { None } else { images::find(model) }
}
