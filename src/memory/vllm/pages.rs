//! Owns how vLLM lays out one pool for layers of several kinds (whole, windowed, with a state): layers of a kind go into
//! groups of one size, pages of all kinds are made equally large, and a request takes blocks of each group. Exact for
//! the logs of Gemma 3 and 4 and Qwen3.5 that were read, up to 3 % off for Qwen3-Next. Source: vLLM 0.33.0's
//! kv_cache_utils and kv_cache_interface, read on 2026-11-21. Bytes, on one rank.

use super::{BLOCK, Serving, layer_bytes};
use crate::memory::shape::{Layer, ModelShape};

/// Layers of one kind.
#[derive(Clone, Copy, Debug)]
struct Kind {
    layers: u64,
    /// Bytes of a token in one of them; 0 for a state.
    token: u64,
    /// Tokens that a request has in it.
    tokens: u64,
    /// A block more, for a window that does not begin with one.
    more: u64,
}

impl Kind {
    /// The layers that attend, over the whole context or over a window.
    fn of(layers: &[Layer], serving: &Serving, windowed: bool) -> Kind {
        let caches = layers.iter().filter_map(|layer| layer.cache).filter(|cache| cache.windowed == windowed);
        let token = caches.clone().map(|cache| layer_bytes(cache, serving)).max().unwrap_or(0);
        Kind { layers: caches.count() as u64, token, tokens: 0, more: 0 }
    }
}

/// Bytes of the state of one layer: two a number, but four of all that Qwen3.5 carries on, which is all but a 22nd: the
/// inputs of its convolution.
fn state_bytes(shape: &ModelShape, serving: &Serving, numbers: u64) -> u64 {
    let twice = if shape.architecture.starts_with("qwen35") {
        numbers.saturating_mul(4).saturating_sub(numbers / 11)
    } else {
        0
    };
    twice.max(numbers.saturating_mul(2)).div_ceil(serving.tensor_parallel.max(1))
}

/// What one request of `length` tokens takes of the pool, in layers that attend and in those that keep a state; `None` where all layers are of one kind, for which no pages have to be made equal.
pub(super) fn request(shape: &ModelShape, serving: &Serving, length: u64) -> Option<[u64; 2]> {
    let layers = shape.layers.as_ref().ok()?;
    let seen = shape.window.saturating_sub(1).saturating_add(serving.batched_tokens).min(length);
    let kinds = [
        Kind { tokens: length, ..Kind::of(layers, serving, false) },
        Kind { tokens: seen, more: 1, ..Kind::of(layers, serving, true) },
    ];
    let with_state = layers.iter().filter(|layer| layer.cache.is_none() && layer.recurrent != Some(0));
    let state = with_state.clone().filter_map(|layer| layer.recurrent).max().unwrap_or(0);
    let states = with_state.count() as u64;
    let [whole, windowed] = &kinds;
    let counts = [whole.layers, windowed.layers, states].into_iter().filter(|count| *count > 0);
    if counts.clone().count() < 2 {
        return None;
    }
    let (fewest, most) = (counts.clone().min()?, counts.max()?);
    // Nearly as many of each kind: the few are filled up.
    let size = if most.saturating_mul(4) < fewest.saturating_mul(5) { most } else { fewest };
    let widest = kinds.iter().map(|kind| kind.token).max()?.max(1);
    let least = state_bytes(shape, serving, state).div_ceil(widest).next_multiple_of(BLOCK).max(BLOCK);
    let page = widest.saturating_mul(least);
    let group = page.saturating_mul(size);
    let cache = kinds.iter().filter(|kind| kind.layers > 0).fold(0_u64, |sum, kind| {
        let in_block = page.checked_div(kind.token).unwrap_or(1).max(1);
        let blocks = kind.tokens.div_ceil(in_block).saturating_add(kind.more);
        sum.saturating_add(blocks.saturating_mul(kind.layers.div_ceil(size.max(1))))
    });
    let state = states.div_ceil(size.max(1));
    Some([cache, state].map(|blocks| blocks.saturating_mul(group)))
}

#[cfg(test)]
mod tests {
    use super::super::tokens;
    use super::*;
    use crate::memory::table;
    use crate::units::Bytes;

    /// A log's pool, and what it printed: requests of this length at once, times that length.
    fn within(name: &str, serving: Serving, hundredths: u64, printed: f64) -> f64 {
        let shape = table::shape(&table::find(table::rows().unwrap(), name).unwrap(), "BF16");
        let pool = Bytes(Bytes::gib(hundredths).0 / 100);
        let ours = tokens(&shape, &serving, pool).unwrap() as f64;
        (ours / (printed * serving.max_model_len.unwrap() as f64) - 1.0).abs()
    }

    #[test]
    fn pools_of_several_kinds_hold_what_logs_say() {
        let serving = |length, tensor_parallel| Serving {
            max_model_len: Some(length),
            batched_tokens: 8192,
            tensor_parallel,
            ..Serving::default()
        };
        // Stored public files 9297248278, 67213347492, 55002292133 and 68835604738, read on 2026-11-21.
        assert!(within("gemma-3-27b", serving(4096, 1), 10_986, 50.05) < 0.005, "52 windows in 6 groups of 10");
        assert!(within("gemma-4-31b", serving(163_840, 2), 1012, 169_314.0 / 163_840.0) < 0.005, "pages of two widths");
        assert!(within("qwen3.5-9b", serving(4096, 2), 1506, 169.82) < 0.005, "a state as large as 528 tokens");
        assert!(within("qwen3-next-80b", serving(65_536, 1), 1663, 708_425.0 / 65_536.0) < 0.02);
    }

    #[test]
    fn layers_of_one_kind_need_no_pages() {
        let shape = table::shape(&table::find(table::rows().unwrap(), "llama-3.1-8b").unwrap(), "BF16");
        assert_eq!(request(&shape, &Serving::default(), 4096), None);
    }
}
