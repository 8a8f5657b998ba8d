//! Owns what a person chooses when llama.cpp (or Ollama, which starts it) loads a model: context, slots, batches,
//! cache types, layers on the GPU. Defaults are those of llama.cpp 0.5.0 with one slot, as of 2026-11-20.
//! Knows nothing of models.

use super::ggml::GgmlType;

/// Contexts are padded to a multiple of this many cells.
pub const CELL_PADDING: u64 = 256;

/// The slots that llama-server opens where `-np` is not given; they share one cache.
pub const OWN_SLOTS: u64 = 4;

/// How many rows of logits the compute buffer is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// One for each token of a micro-batch: llama-server before June 2026, llama-completion, llama-cpp-python.
    MicroBatch,
    /// One for each slot: llama-server since June 2026, and Ollama since 0.30, which starts it.
    Slots,
}

/// Where the compute buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A GPU; the figures are CUDA's.
    Gpu,
    Cpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Tokens of context over all slots; `None` for what the model was made for.
    pub context: Option<u64>,
    /// Ollama: the tokens of a request that the model's own Modelfile sets (`num_ctx`), before which the
    /// server's variable does nothing.
    pub kept_context: Option<u64>,
    /// How K is stored.
    pub k_type: GgmlType,
    /// How V is stored.
    pub v_type: GgmlType,
    /// Tokens computed at once (`-ub`).
    pub micro_batch: u64,
    /// Tokens handed over at once (`-b`).
    pub batch: u64,
    /// Slots (`-np`), at least 1.
    pub parallel: u64,
    /// Whether the slots share one cache (llama-server's default when it chooses the number of slots itself).
    pub unified: bool,
    /// Whether windowed layers keep the whole context (`--swa-full`).
    pub swa_full: bool,
    pub flash_attention: bool,
    /// Layers on the GPU with the output as one (`-ngl`); `None` for all.
    pub gpu_layers: Option<u64>,
    /// Whether the image encoder stays on the host (`--no-mmproj-offload`).
    pub host_projector: bool,
    /// The first so many layers leave their experts on the host (`-ncmoe`).
    pub host_experts: u64,
    pub outputs: Outputs,
    pub backend: Backend,
    /// Cards that a layer split goes over, at least 1; figures are for all of them together.
    pub devices: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            context: None,
            kept_context: None,
            k_type: GgmlType::F16,
            v_type: GgmlType::F16,
            micro_batch: 512,
            batch: 2048,
            parallel: 1,
            unified: false,
            swa_full: false,
            flash_attention: true,
            gpu_layers: None,
            host_projector: false,
            host_experts: 0,
            outputs: Outputs::MicroBatch,
            backend: Backend::Gpu,
            devices: 1,
        }
    }
}

/// The next multiple of the padding; `None` past u64.
pub fn padded(cells: u64) -> Option<u64> {
    cells.checked_next_multiple_of(CELL_PADDING)
}

/// How the cache is laid out, in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    pub streams: u64,
    /// Cells of one of them in layers that see the whole context.
    pub full: u64,
    /// Cells of one of them in layers that see a window.
    pub windowed: u64,
}

impl Settings {
    /// The context of one computation in tokens, padded, for a model made for `trained` tokens.
    pub fn context_tokens(&self, trained: Option<u64>) -> Option<u64> {
        padded(self.context.filter(|context| *context > 0).or(trained)?)
    }

    /// Tokens in a micro-batch, which is no longer than the context or the batch.
    pub fn tokens_at_once(&self, context: u64) -> u64 {
        self.micro_batch.min(self.batch).min(context).max(1)
    }

    /// The cache's layout for a padded context and a window.
    pub fn cells(&self, context: u64, window: u64) -> Option<Cells> {
        let slots = self.parallel.max(1);
        let (streams, sharing) = if self.unified { (1, slots) } else { (slots, 1) };
        let full = padded(context.checked_div(streams)?)?;
        let seen = window.checked_mul(sharing)?.checked_add(self.tokens_at_once(context))?;
        let windowed = if self.swa_full { full } else { full.min(padded(seen)?) };
        Some(Cells { streams, full, windowed })
    }

    /// The same for a model whose slots never share a cache, not even where the others' do: each has the whole context.
    pub fn cells_of_each(&self, context: u64, window: u64) -> Option<Cells> {
        let slots = self.parallel.max(1);
        let whole = if self.unified { context.checked_mul(slots)? } else { context };
        Settings { unified: false, ..*self }.cells(whole, window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_padded_split_and_cut_to_the_window() {
        let cells = |parallel, unified, context, window| {
            let settings = Settings { parallel, unified, ..Settings::default() };
            let cells = settings.cells(settings_context(context), window).unwrap();
            (cells.streams, cells.full, cells.windowed)
        };
        fn settings_context(context: u64) -> u64 {
            padded(context).unwrap()
        }
        assert_eq!(cells(1, false, 5000, 0), (1, 5120, 512));
        assert_eq!(cells(4, false, 8192, 512), (4, 2048, 1024));
        assert_eq!(cells(4, true, 8192, 512), (1, 8192, 2560));
        assert_eq!(cells(1, false, 256, 4096), (1, 256, 256), "never more than the context");
        let shared = Settings { parallel: 4, unified: true, ..Settings::default() };
        let each = shared.cells_of_each(8192, 128).unwrap();
        assert_eq!((each.streams, each.full, each.windowed), (4, 8192, 768));
        let apart = Settings { unified: false, ..shared };
        assert_eq!(apart.cells_of_each(8192, 128), apart.cells(8192, 128));
    }

    #[test]
    fn a_context_past_all_numbers_is_none() {
        let settings = Settings { context: Some(u64::MAX), ..Settings::default() };
        assert_eq!(settings.context_tokens(None), None);
        assert_eq!(Settings::default().context_tokens(None), None, "not known");
        assert_eq!(Settings::default().context_tokens(Some(100)), Some(256));
    }
}
