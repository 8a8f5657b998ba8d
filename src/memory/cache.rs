//! Owns the bytes of llama.cpp's KV cache and recurrent state: whole and windowed layers, quantised types, latent
//! attention, rows of several tokens, slots, and which of it is on the GPU. Exact (0 % on every golden row), in bytes.
//! Source: llama.cpp's llama-kv-cache, llama-kv-cache-dsv4 and llama-memory-recurrent, read on 2026-11-21. Knows nothing of budgets.

use super::ggml::GgmlType;
use super::settings::{Settings, padded};
use super::shape::{Cache, Compressed, ModelShape};
use super::weights::first_on_gpu;

/// What the caches take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSums {
    /// In layers that see the whole context.
    pub full: u64,
    /// In layers that see a window.
    pub windowed: u64,
    /// Of both, what is on the GPUs.
    pub gpu: u64,
}

impl CacheSums {
    pub fn all(&self) -> u64 {
        self.full.saturating_add(self.windowed)
    }
}

/// The KV cache of each layer in bytes; the error says why it can't be known.
pub fn by_layer(shape: &ModelShape, settings: &Settings) -> Result<Vec<u64>, String> {
    let layers = shape.layers.as_ref().map_err(Clone::clone)?;
    if layers.iter().all(|layer| layer.cache.is_none()) {
        return Ok(vec![0; layers.len()]);
    }
    let context = settings.context_tokens(shape.context_trained).ok_or("the context is not known")?;
    let cells = if shape.is_compressed() {
        settings.cells_of_each(context, shape.window)
    } else {
        settings.cells(context, shape.window)
    };
    let cells = cells.ok_or("the context is too large")?;
    let bytes = layers.iter().map(|layer| {
        let Some(cache) = layer.cache else { return Ok(0) };
        let count = if cache.windowed { cells.windowed } else { cells.full };
        let row = row_bytes(cache, settings)?;
        let rows = row.checked_mul(count);
        let bytes = match layer.compressed {
            None => rows,
            Some(Compressed { tokens, k }) => {
                let few = padded(cells.full.div_ceil(tokens.max(1)));
                let row = row_bytes(Cache { k, v: 0, ..cache }, settings)?;
                few.and_then(|few| row.checked_mul(few)?.checked_add(rows?))
            }
        };
        let bytes = bytes.and_then(|bytes| bytes.checked_mul(cells.streams));
        bytes.ok_or_else(|| "the cache would take more than 2^64 bytes".to_owned())
    });
    bytes.collect()
}

/// The KV cache for these settings; the error says why it can't be known.
pub fn kv_cache(shape: &ModelShape, settings: &Settings) -> Result<CacheSums, String> {
    let bytes = by_layer(shape, settings)?;
    let first = on_gpu(bytes.len(), settings);
    let mut sums = CacheSums::default();
    for (index, (bytes, layer)) in (0_u64..).zip(bytes.into_iter().zip(shape.layers.iter().flatten())) {
        let windowed = layer.cache.is_some_and(|cache| cache.windowed);
        let sum = if windowed { &mut sums.windowed } else { &mut sums.full };
        *sum = sum.saturating_add(bytes);
        if index >= first {
            sums.gpu = sums.gpu.saturating_add(bytes);
        }
    }
    Ok(sums)
}

/// Bytes of one cell of a layer.
fn row_bytes(cache: Cache, settings: &Settings) -> Result<u64, String> {
    Ok(stored_row(cache.k, settings.k_type)?.saturating_add(stored_row(cache.v, settings.v_type)?))
}

fn stored_row(elements: u64, kind: GgmlType) -> Result<u64, String> {
    kind.row_bytes(elements).ok_or_else(|| format!("rows of {elements} can't be stored in {}", kind.name))
}

/// The recurrent state of each layer in bytes: four a number, for each slot.
pub fn state_by_layer(shape: &ModelShape, settings: &Settings) -> Result<Vec<u64>, String> {
    let layers = shape.layers.as_ref().map_err(Clone::clone)?;
    let bytes = layers.iter().map(|layer| {
        let numbers = layer.recurrent.ok_or("the size of its recurrent state is not known")?;
        let bytes = numbers.checked_mul(4).and_then(|bytes| bytes.checked_mul(settings.parallel.max(1)));
        bytes.ok_or_else(|| "the state would take more than 2^64 bytes".to_owned())
    });
    bytes.collect()
}

/// What of the recurrent state is on the GPUs with these settings, in bytes.
pub fn recurrent_state(shape: &ModelShape, settings: &Settings) -> Result<u64, String> {
    let bytes = state_by_layer(shape, settings)?;
    let first = usize::try_from(on_gpu(bytes.len(), settings)).unwrap_or(usize::MAX);
    Ok(bytes.into_iter().skip(first).fold(0, u64::saturating_add))
}

fn on_gpu(layers: usize, settings: &Settings) -> u64 {
    first_on_gpu(layers as u64, settings.gpu_layers.unwrap_or(u64::MAX))
}

/// The widest rows of K and V that any layer has that sees the whole context, in elements; of all where none does.
pub fn widest(shape: &ModelShape) -> (u64, u64) {
    let all = shape.layers.iter().flatten().filter_map(|layer| layer.cache);
    let has_whole = all.clone().any(|cache| !cache.windowed);
    let caches = all.filter(|cache| !(has_whole && cache.windowed));
    (caches.clone().map(|cache| cache.k).max().unwrap_or(0), caches.map(|cache| cache.v).max().unwrap_or(0))
}

/// The length of the longest head of K, in elements.
pub fn widest_head(shape: &ModelShape) -> u64 {
    let caches = shape.layers.iter().flatten().filter_map(|layer| layer.cache);
    caches.filter_map(|cache| cache.k.checked_div(cache.heads)).max().unwrap_or(0)
}

/// Bytes of the largest cache of a layer that is in system memory with these settings; 0 where none is.
pub fn largest_on_host(shape: &ModelShape, settings: &Settings) -> u64 {
    let layers = by_layer(shape, settings).unwrap_or_default();
    let first = usize::try_from(on_gpu(layers.len(), settings)).unwrap_or(usize::MAX);
    layers.into_iter().take(first).max().unwrap_or(0)
}
