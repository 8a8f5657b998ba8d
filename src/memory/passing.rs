//! Owns which matrices lie in system memory and are copied to the GPU while a batch is computed: llama.cpp reserves
//! room for the largest of them in its compute buffer. Bytes.

use std::collections::BTreeMap;

use super::settings::Settings;
use super::shape::ModelShape;
use super::weights::{Place, first_on_gpu, place};

/// Bytes of the largest matrix that stays in system memory with these settings, and of the two largest of one layer; 0
/// where all layers are on the GPU. About a third of a layer's experts where the tensors are not known one by one.
pub(crate) fn largest(shape: &ModelShape, settings: &Settings) -> (u64, u64) {
    let loaded = shape.layer_count();
    let first = first_on_gpu(loaded, settings.gpu_layers.unwrap_or(u64::MAX));
    let experts = first.max(settings.host_experts.min(loaded));
    if shape.tensors.is_empty() {
        let sums = shape.weights.as_ref().map_or(&[][..], |sums| &sums.layers);
        let on_host = (0_u64..).zip(sums).filter(|(layer, _)| *layer < experts);
        let one = on_host.map(|(_, layer)| layer.experts / 3).max().unwrap_or(0);
        return (one, one.saturating_mul(2));
    }
    let mut largest = BTreeMap::<usize, [u64; 2]>::new();
    for tensor in shape.tensors.iter().filter(|tensor| tensor.dims.len() > 1) {
        let layer = match place(&tensor.name) {
            Place::Layer(layer) if (layer as u64) < first => layer,
            Place::Expert(layer) if (layer as u64) < experts => layer,
            _ => continue,
        };
        let [one, two] = largest.entry(layer).or_default();
        (*one, *two) = ((*one).max(tensor.bytes), (*two).max(tensor.bytes.min(*one)));
    }
    let one = largest.values().map(|[one, _]| *one).max();
    let both = largest.values().map(|[one, two]| one.saturating_add(*two)).max();
    (one.unwrap_or(0), both.unwrap_or(0))
}
