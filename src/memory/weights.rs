//! Owns what a model's tensors add up to and where llama.cpp puts them: input on the host, layers and output on the
//! card as `-ngl` says, experts of the first layers on the host as `-ncmoe` says. Exact, in bytes, without the few
//! hundred bytes that CUDA pads rows with. Source: llama.cpp's load_tensors as of 2026-11-20.
//! Knows nothing of caches, budgets or files.

use super::gguf::TensorInfo;

/// One layer's weights in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerWeights {
    /// Everything but the routed experts.
    pub dense: u64,
    /// The routed experts, which `-ncmoe` can leave on the host.
    pub experts: u64,
}

impl LayerWeights {
    /// Both multiplied by `by`/`of`; as they are where `of` is 0.
    pub(super) fn scaled(self, by: u64, of: u64) -> LayerWeights {
        LayerWeights { dense: scaled(self.dense, by, of), experts: scaled(self.experts, by, of) }
    }
}

/// The sums over a model's tensors, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightSums {
    /// Token embeddings and what else only the input needs: stays on the host.
    pub input: u64,
    /// The output matrix and its norm. With tied embeddings the matrix is a second copy of the input's.
    pub output: u64,
    /// Whether `output` holds a copy of the input's matrix, so that the file has it once.
    pub tied: bool,
    /// What belongs to no layer, such as rope factors and projectors inside the file.
    pub other: u64,
    /// Layers that are loaded, in order.
    pub layers: Vec<LayerWeights>,
    /// Layers for multi-token prediction, which are not loaded unless asked for.
    pub skipped: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// On the GPUs, all together.
    pub gpu: u64,
    /// In system memory (mapped from the file).
    pub host: u64,
}

/// Where one tensor belongs.
pub(super) enum Place {
    Input,
    Matrix,
    Output,
    Expert(usize),
    Layer(usize),
    Other,
}

/// The layer in `blk.7.attn_k.weight` or `model.layers.7.self_attn.k_proj.weight`.
fn layer_of(name: &str) -> Option<usize> {
    let rest = name.strip_prefix("blk.").or_else(|| name.split_once("layers.").map(|(_, rest)| rest))?;
    rest.split('.').next()?.parse().ok()
}

pub(super) fn place(name: &str) -> Place {
    // Vision towers have layers of their own names; they go with the rest.
    let is_of_text = !["v.", "mm.", "a.", "vision", "visual"].iter().any(|tower| name.starts_with(tower))
        && !name.contains("vision_tower");
    if let (Some(layer), true) = (layer_of(name), is_of_text) {
        let expert = name.contains("_exps.") || name.contains("_chexps.") || name.contains(".experts.");
        return if expert { Place::Expert(layer) } else { Place::Layer(layer) };
    }
    match name {
        "token_embd.weight" => Place::Matrix,
        "per_layer_token_embd.weight" | "position_embd.weight" | "token_types.weight" => Place::Input,
        _ if name.starts_with("token_embd_norm") => Place::Input,
        _ if name.starts_with("output") => Place::Output,
        _ if ends_with_part(name, "embed_tokens.weight") || ends_with_part(name, "wte.weight") => Place::Matrix,
        _ if ends_with_part(name, "lm_head.weight") => Place::Output,
        _ => Place::Other,
    }
}

/// Whether a name ends with these parts: `lm_head.weight` in `model.lm_head.weight`.
fn ends_with_part(name: &str, parts: &str) -> bool {
    name.strip_suffix(parts).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Adds the tensors up. `loaded` is how many layers are loaded; those behind are for multi-token prediction.
pub(crate) fn sums<'a>(tensors: impl IntoIterator<Item = (&'a str, u64)>, loaded: usize) -> WeightSums {
    let mut sums = WeightSums { layers: vec![LayerWeights::default(); loaded], ..WeightSums::default() };
    let mut matrix: u64 = 0;
    let mut has_output = false;
    for (name, bytes) in tensors {
        let place = place(name);
        let sum = match place {
            Place::Input => &mut sums.input,
            Place::Matrix => &mut matrix,
            Place::Output => {
                has_output |= name == "output.weight" || name.ends_with("lm_head.weight");
                &mut sums.output
            }
            Place::Other => &mut sums.other,
            Place::Layer(layer) | Place::Expert(layer) => match sums.layers.get_mut(layer) {
                None => &mut sums.skipped,
                Some(weights) if matches!(place, Place::Expert(_)) => &mut weights.experts,
                Some(weights) => &mut weights.dense,
            },
        };
        *sum = sum.saturating_add(bytes);
    }
    sums.tied = !has_output && matrix > 0;
    sums.input = sums.input.saturating_add(matrix);
    if sums.tied {
        sums.output = sums.output.saturating_add(matrix);
    }
    sums
}

/// The same from a header's tensors.
pub(crate) fn sums_of(tensors: &[TensorInfo], loaded: usize) -> WeightSums {
    sums(tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.bytes)), loaded)
}

/// How many layers the tensors' names speak of, where that is at most `most`; else none.
pub(crate) fn named_layers(tensors: &[TensorInfo], most: u64) -> usize {
    let last = tensors.iter().filter_map(|tensor| layer_of(&tensor.name)).max();
    last.map(|last| last.saturating_add(1)).filter(|count| *count as u64 <= most).unwrap_or(0)
}

impl WeightSums {
    /// What the file has: every tensor once.
    pub fn in_file(&self) -> u64 {
        let copy = if self.tied { self.matrix_copy() } else { 0 };
        self.layers
            .iter()
            .map(|layer| layer.dense.saturating_add(layer.experts))
            .chain([self.input, self.other, self.skipped, self.output.saturating_sub(copy)])
            .fold(0, u64::saturating_add)
    }

    /// The same with every part multiplied by `by`/`of`, for a file whose size is known; as it is where `of` is 0.
    #[must_use]
    pub fn scaled(&self, by: u64, of: u64) -> WeightSums {
        WeightSums {
            input: scaled(self.input, by, of),
            output: scaled(self.output, by, of),
            tied: self.tied,
            other: scaled(self.other, by, of),
            layers: self.layers.iter().map(|layer| layer.scaled(by, of)).collect(),
            skipped: scaled(self.skipped, by, of),
        }
    }

    /// The copy of the input's matrix that tied embeddings put into `output`.
    fn matrix_copy(&self) -> u64 {
        self.output.min(self.input)
    }

    /// Where llama.cpp puts it: `gpu_layers` of layers + 1 units on the GPU, counted from the output backwards, and
    /// the routed experts of the first `host_experts` layers on the host.
    pub fn placed(&self, gpu_layers: u64, host_experts: u64) -> Placed {
        let mut placed = Placed { gpu: 0, host: self.input };
        let first = first_on_gpu(self.layers.len() as u64, gpu_layers);
        for (index, layer) in (0_u64..).zip(&self.layers) {
            let experts_on_host = index < first || index < host_experts;
            let dense = if index < first { &mut placed.host } else { &mut placed.gpu };
            *dense = dense.saturating_add(layer.dense);
            let experts = if experts_on_host { &mut placed.host } else { &mut placed.gpu };
            *experts = experts.saturating_add(layer.experts);
        }
        if gpu_layers == 0 {
            // A tied matrix is not copied where it already is.
            let copy = if self.tied { self.matrix_copy() } else { 0 };
            placed.host = placed.host.saturating_add(self.other).saturating_add(self.output.saturating_sub(copy));
        } else {
            placed.gpu = placed.gpu.saturating_add(self.other).saturating_add(self.output);
        }
        placed
    }
}

/// So many bytes times `by`/`of`; as they are where `of` is 0.
pub(crate) fn scaled(bytes: u64, by: u64, of: u64) -> u64 {
    let product = u128::from(bytes).saturating_mul(by.into()).checked_div(of.into());
    product.map_or(bytes, |scaled| u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// The first layer on the GPU with `-ngl gpu_layers`: the output counts as one and goes first.
pub(crate) fn first_on_gpu(layers: u64, gpu_layers: u64) -> u64 {
    layers.saturating_add(1).saturating_sub(gpu_layers).min(layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENSE: [(&str, u64); 7] = [
        ("token_embd.weight", 100),
        ("output.weight", 200),
        ("output_norm.weight", 1),
        ("rope_freqs.weight", 3),
        ("blk.0.attn_k.weight", 10),
        ("blk.1.attn_k.weight", 20),
        ("blk.2.nextn.weight", 1000),
    ];

    #[test]
    fn the_output_goes_first_and_then_the_last_layers() {
        let sums = sums(DENSE, 2);
        assert_eq!((sums.in_file(), sums.skipped, sums.tied), (1334, 1000, false));
        let gpu: Vec<u64> = (0..5).map(|layers| sums.placed(layers, 0).gpu).collect();
        assert_eq!(gpu, [0, 204, 224, 234, 234]);
        assert_eq!(sums.placed(0, 0), Placed { gpu: 0, host: 334 });
        assert_eq!(sums.placed(99, 0), Placed { gpu: 234, host: 100 });
    }

    #[test]
    fn tied_embeddings_are_on_both_sides_but_once_in_the_file() {
        let sums = sums([("token_embd.weight", 100), ("output_norm.weight", 1), ("blk.0.x.weight", 10)], 1);
        assert_eq!((sums.in_file(), sums.tied), (111, true));
        assert_eq!(sums.placed(99, 0), Placed { gpu: 111, host: 100 });
        assert_eq!(sums.placed(0, 0), Placed { gpu: 0, host: 111 });
    }

    #[test]
    fn experts_of_the_first_layers_can_stay_behind() {
        let tensors = [("token_embd.weight", 5), ("output.weight", 5), ("blk.0.ffn_up_exps.weight", 100)];
        let more = [("blk.1.ffn_up_exps.weight", 200), ("blk.1.ffn_up_shexp.weight", 7)];
        let sums = sums(tensors.into_iter().chain(more), 2);
        assert_eq!(sums.placed(3, 1).gpu, 212);
        assert_eq!(sums.placed(3, 2).gpu, 12);
    }

    #[test]
    fn safetensors_names_are_placed_too() {
        let names = ["model.embed_tokens.weight", "lm_head.weight", "model.layers.1.mlp.experts.3.up_proj.weight"];
        let sums = sums(names.into_iter().zip([1, 2, 4]), 2);
        assert_eq!((sums.input, sums.output, sums.layers[1].experts), (1, 2, 4));
    }
}
