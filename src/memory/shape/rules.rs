//! Owns what each layer of a GGUF model caches, by llama.cpp's rules: heads and lengths by layer, latent attention,
//! windows and their patterns, layers that share another's cache, indexers, recurrent and hybrid layers.
//! Source: llama.cpp 0.6.0's hparams and caches, read on 2026-11-21. Knows nothing of contexts and cache types.

use super::known::{Architecture, Indexer, Recurrence, known};
use super::model::{Cache, Compressed, Is, Layer, MOST_LAYERS, ModelShape, Storage};
use crate::memory::gguf::{Gguf, Metadata, Value};
use crate::memory::quant::file_type;
use crate::memory::weights;

/// Keys under the architecture's prefix.
struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
}

impl Keys<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }
    fn number(&self, name: &str) -> Option<u64> {
        self.metadata.number(&self.key(name))
    }
    fn per_layer(&self, name: &str, layers: usize) -> Option<Vec<u64>> {
        self.metadata.per_layer(&self.key(name), layers)
    }
    fn or_zero(&self, name: &str) -> u64 {
        self.number(name).unwrap_or(0)
    }
}

/// What a header says, as far as memory goes.
pub fn from_gguf(gguf: &Gguf) -> ModelShape {
    let metadata = &gguf.metadata;
    let architecture = metadata.text("general.architecture").unwrap_or_default().to_owned();
    let keys = Keys { metadata, architecture: &architecture };
    let blocks = keys.or_zero("block_count");
    let loaded = blocks.saturating_sub(keys.or_zero("nextn_predict_layers"));
    let count = usize::try_from(loaded.min(MOST_LAYERS)).unwrap_or(0);
    let traits = known(&architecture);
    let heads = keys.per_layer("attention.head_count", count).unwrap_or_default();
    let vocab = keys.number("vocab_size").or_else(|| metadata.length("tokenizer.ggml.tokens")).unwrap_or(0);
    let parameters = gguf.tensors.iter().fold(0_u64, |sum, tensor| sum.saturating_add(tensor.elements()));
    ModelShape {
        name: metadata.text("general.name").map(str::to_owned),
        parameters: Some(parameters).filter(|count| *count > 0),
        quantization: metadata.number("general.file_type").and_then(file_type).map(str::to_owned),
        storage: if gguf.tensors.iter().any(|tensor| tensor.kind.is_quantised()) {
            Storage::Gguf
        } else {
            Storage::Plain
        },
        context_trained: keys.number("context_length").filter(|length| *length > 0),
        embedding: keys.or_zero("embedding_length"),
        heads: heads.into_iter().max().unwrap_or(0),
        feed_forward: feed_forward(&keys, count),
        vocab,
        per_layer: keys.or_zero("embedding_length_per_layer_input").saturating_mul(blocks),
        window: traits.and_then(|traits| window(&keys, traits)).unwrap_or(0),
        mla: is_latent(&keys),
        experts: keys.or_zero("expert_count"),
        experts_used: keys.or_zero("expert_used_count"),
        layers: layers_of(&keys, traits, blocks, count),
        cache_is: if has_unknown_indexer(&keys, traits) { Is::About } else { Is::Fact },
        weights: weights_of(gguf, blocks, count),
        weights_are: Is::Fact,
        projector: 0,
        encoding: 0,
        encoder: None,
        vision: 0,
        tensors: gguf.tensors.clone(),
        architecture: architecture.clone(),
    }
}

/// What each loaded layer keeps, or why that is not known.
fn layers_of(keys: &Keys<'_>, traits: Option<&Architecture>, blocks: u64, count: usize) -> Result<Vec<Layer>, String> {
    match traits {
        _ if keys.architecture.is_empty() => Err("the file names no architecture".to_owned()),
        None => Err(format!("the architecture {} is not known here", keys.architecture.escape_debug())),
        _ if blocks == 0 => Err("the file does not say how many layers there are".to_owned()),
        _ if blocks > MOST_LAYERS => Err(format!("{blocks} layers: the header is damaged")),
        Some(traits) => layers(keys, traits, count),
    }
}

fn weights_of(gguf: &Gguf, blocks: u64, count: usize) -> Result<weights::WeightSums, String> {
    if gguf.tensors.is_empty() {
        return Err("the file has no tensors".to_owned());
    }
    // Where the header does not say, the tensors' names do.
    let loaded = if blocks == 0 { weights::named_layers(&gguf.tensors, MOST_LAYERS) } else { count };
    Ok(weights::sums_of(&gguf.tensors, loaded))
}

/// Whether an indexer's keys are cached by rules that are not known here.
fn has_unknown_indexer(keys: &Keys<'_>, traits: Option<&Architecture>) -> bool {
    let has_one = keys.or_zero("attention.indexer.key_length") > 0;
    has_one && traits.is_none_or(|traits| traits.indexer.is_none()) && keys.architecture != COMPRESSING
}

fn feed_forward(keys: &Keys<'_>, count: usize) -> u64 {
    let dense = keys.per_layer("feed_forward_length", count).unwrap_or_default().into_iter().max().unwrap_or(0);
    let used = keys.or_zero("expert_used_count").saturating_mul(keys.or_zero("expert_feed_forward_length"));
    dense.max(used)
}

fn is_latent(keys: &Keys<'_>) -> bool {
    keys.architecture == COMPRESSING
        || keys.or_zero("attention.key_length_mla") > 0 && keys.or_zero("attention.value_length_mla") > 0
}

fn window(keys: &Keys<'_>, traits: &Architecture) -> Option<u64> {
    let (_, _, default) = traits.window?;
    // Chunked attention has its length in the program, whatever the file says, except for "none".
    let said = keys.number("attention.sliding_window");
    // Of EXAONE 4 only the large one has windows, and the program knows it by its layers.
    if keys.architecture == "exaone4" && keys.number("block_count") != Some(64) {
        return Some(0);
    }
    if keys.architecture == "llama4" {
        said.filter(|said| *said == 0).or(Some(default))
    } else {
        said.or(Some(default))
    }
}

/// Which layers look back over a window only.
fn windowed(keys: &Keys<'_>, traits: &Architecture, count: usize) -> Vec<bool> {
    let (Some((period, full_first, _)), Some(1..)) = (traits.window, window(keys, traits)) else {
        return vec![false; count];
    };
    let key = keys.key("attention.sliding_window_pattern");
    let period = match keys.metadata.get(&key) {
        Some(Value::List(_)) => {
            let said = keys.metadata.per_layer(&key, count).unwrap_or_default();
            return (0..count).map(|layer| said.get(layer).is_some_and(|flag| *flag != 0)).collect();
        }
        Some(Value::Whole(said)) => u64::try_from(*said).unwrap_or(period),
        _ => period,
    };
    let in_window = (0_u64..).take(count).map(|layer| match layer.checked_rem(period) {
        None => true,
        Some(place) if full_first => place != 0,
        Some(place) => place < period.saturating_sub(1),
    });
    in_window.collect()
}

/// Which layers keep state by sequence, and whether those have attention too.
fn recurrent(keys: &Keys<'_>, traits: &Architecture, heads_kv: &[u64]) -> Vec<bool> {
    let count = heads_kv.len();
    if let Some(said) = keys.per_layer("attention.recurrent_layers", count)
        && traits.recurrence != Recurrence::Never
    {
        return said.into_iter().map(|flag| flag != 0).collect();
    }
    match traits.recurrence {
        Recurrence::Never => vec![false; count],
        Recurrence::Always | Recurrence::Both => vec![true; count],
        Recurrence::WithoutHeads => heads_kv.iter().map(|heads| *heads == 0).collect(),
        Recurrence::WithoutHeadsAndFeedForward => {
            let forward = keys.per_layer("feed_forward_length", count).unwrap_or_else(|| vec![0; count]);
            heads_kv.iter().zip(forward).map(|(heads, forward)| *heads == 0 && forward == 0).collect()
        }
        Recurrence::Interval => {
            let interval = keys.number("full_attention_interval").unwrap_or(4).max(1);
            (1_u64..).take(count).map(|layer| layer.checked_rem(interval) != Some(0)).collect()
        }
    }
}

/// Numbers a recurrent layer keeps for one sequence: the convolution's and the state's.
fn state_size(keys: &Keys<'_>) -> Option<u64> {
    let embedding = keys.or_zero("embedding_length");
    if let Some(head) = keys.number("wkv.head_size") {
        let shifts =
            keys.number("token_shift_count").unwrap_or(if keys.architecture.ends_with("rwkv7") { 2 } else { 1 });
        return embedding.checked_mul(shifts.checked_add(head)?);
    }
    if let Some(length) = keys.number("shortconv.l_cache") {
        return embedding.checked_mul(length.saturating_sub(1));
    }
    let before = keys.number("ssm.conv_kernel").map(|kernel| kernel.saturating_sub(1));
    if let Some(head) = keys.number("kda.head_dim") {
        let inner = keys.number("attention.head_count")?.checked_mul(head)?;
        let conv = before.unwrap_or(3).checked_mul(3)?.checked_mul(inner)?;
        return conv.checked_add(inner.checked_mul(head)?);
    }
    let (inner, state) = (keys.number("ssm.inner_size")?, keys.number("ssm.state_size")?);
    let groups = keys.or_zero("ssm.group_count").checked_mul(2)?.checked_mul(state)?;
    before?.checked_mul(inner.checked_add(groups)?)?.checked_add(state.checked_mul(inner)?)
}

/// Lengths of K and V of one head in full layers, and in windowed ones.
fn lengths(keys: &Keys<'_>, heads: u64) -> [(u64, u64); 2] {
    let head = keys.or_zero("embedding_length").checked_div(heads).unwrap_or(0);
    let key = keys.number("attention.key_length").unwrap_or(head);
    let value = keys.number("attention.value_length").unwrap_or(head);
    let value = if is_latent(keys) { 0 } else { value };
    let key_in_window = keys.number("attention.key_length_swa").unwrap_or(key);
    [(key, value), (key_in_window, keys.number("attention.value_length_swa").unwrap_or(value))]
}

/// What the keys of an indexer (sparse attention) add to each layer's K, in elements.
fn indexed(keys: &Keys<'_>, traits: &Architecture, count: usize) -> Vec<u64> {
    // Compressed rows have the indexer's keys beside them, see `compressed`.
    let beside = traits.recurrence == Recurrence::Never && keys.architecture != COMPRESSING;
    let length = if beside { keys.or_zero("attention.indexer.key_length") } else { 0 };
    let said = keys.per_layer("attention.indexer.types", count);
    let lengths = (0_u64..).take(count).map(|layer| {
        let has_indexer = match (traits.indexer, &said) {
            (Some(Indexer::Sparse), _) => layer >= keys.or_zero("leading_dense_block_count"),
            (Some(_), Some(said)) => {
                usize::try_from(layer).ok().and_then(|at| said.get(at)).is_some_and(|kind| *kind != 0)
            }
            // GLM 5.2 came without the list; 5 and 5.1, with a shorter context, have one in each layer.
            (Some(Indexer::Shared), None) if keys.or_zero("context_length") >= 1 << 20 => layer < 3 || layer % 4 == 2,
            _ => true,
        };
        if has_indexer { length } else { 0 }
    });
    lengths.collect()
}

/// How many of the first layers have a cache of their own.
fn owners(keys: &Keys<'_>, count: usize) -> usize {
    let shared = usize::try_from(keys.or_zero("attention.shared_kv_layers")).unwrap_or(usize::MAX);
    // Gemma 3n's number is in the program.
    if keys.architecture == "gemma3n" && shared == 0 { count.min(20) } else { count.saturating_sub(shared) }
}

/// The architecture whose layers keep a window, and a row for each few tokens before it.
const COMPRESSING: &str = "deepseek4";

/// What each layer keeps for several tokens together, and the numbers of four bytes that it gathers them in: of each
/// token in a row values and their weights, where the rows overlap (those that an indexer picks from) twice over.
fn compressed(keys: &Keys<'_>, count: usize) -> Result<Vec<(Option<Compressed>, u64)>, String> {
    if keys.architecture != COMPRESSING {
        return Ok(Vec::new());
    }
    let said =
        keys.per_layer("attention.compress_ratios", count).ok_or("the file does not say what its layers compress")?;
    let (key, indexer) = (keys.or_zero("attention.key_length"), keys.or_zero("attention.indexer.key_length"));
    let layers = said.into_iter().map(|tokens| {
        let (k, overlap) = if tokens == PICKED { (key.saturating_add(indexer), 4) } else { (key, 1) };
        let gathers = k.saturating_mul(tokens).saturating_mul(2 * overlap);
        if tokens == 0 { (None, 0) } else { (Some(Compressed { tokens, k }), gathers) }
    });
    Ok(layers.collect())
}

/// Rows of so many tokens are picked by an indexer, which has keys of its own; longer ones are all looked at.
const PICKED: u64 = 4;

const TOO_LARGE: &str = "its sizes are too large to be true: the header is damaged";

fn layers(keys: &Keys<'_>, traits: &Architecture, count: usize) -> Result<Vec<Layer>, String> {
    if traits.stateless {
        return Ok(vec![Layer { recurrent: Some(0), ..Layer::default() }; count]);
    }
    let heads = keys.per_layer("attention.head_count", count).unwrap_or_else(|| vec![0; count]);
    let heads_kv = keys.per_layer("attention.head_count_kv", count).unwrap_or_else(|| heads.clone());
    let [full, in_windows] = lengths(keys, heads.iter().copied().max().unwrap_or(0));
    let windowed = windowed(keys, traits, count);
    let recurrent = recurrent(keys, traits, &heads_kv);
    let state = state_size(keys);
    let indexed = indexed(keys, traits, count);
    let owners = owners(keys, count);
    let compressed = compressed(keys, count)?;
    let mut layers = Vec::new();
    for (index, heads) in heads_kv.iter().enumerate() {
        let in_window = windowed.get(index).copied().unwrap_or(false);
        let is_recurrent = recurrent.get(index).copied().unwrap_or(false);
        let (key, value) = if in_window { in_windows } else { full };
        let of_indexer = indexed.get(index).copied().unwrap_or(0);
        let k = key.checked_mul(*heads).and_then(|k| k.checked_add(of_indexer)).ok_or(TOO_LARGE)?;
        let v = value.checked_mul(*heads).ok_or(TOO_LARGE)?;
        let attends = *heads > 0 && index < owners && (!is_recurrent || traits.recurrence == Recurrence::Both);
        let (compressed, compressing) = compressed.get(index).copied().unwrap_or_default();
        layers.push(Layer {
            cache: attends.then_some(Cache { k, v, heads: *heads, windowed: in_window }),
            compressed,
            recurrent: if is_recurrent { state } else { Some(compressing) },
        });
    }
    let attention = traits.recurrence != Recurrence::Always;
    if attention && full.0 == 0 {
        return Err("the file does not say how many heads of which length there are".to_owned());
    }
    Ok(layers)
}
