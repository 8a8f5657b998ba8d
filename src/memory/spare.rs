//! Owns what must stay free on a GPU so that a model counts as fitting, for every surface that says so. Source:
//! llama.cpp 0.6.0's common/fit.cpp (`-fitt`, 1024 MiB a GPU; in use from 0.5 on), read on 2026-11-21. Bytes. vLLM and
//! SGLang have a share of their own instead.

use super::compute;
use super::estimate::Estimate;
use crate::units::Bytes;

/// What stays free on each GPU: llama.cpp wants that much, and elsewhere estimates are "about" and needs change.
pub(crate) const SPARE: Bytes = Bytes::gib(1);

/// What must be free for `total`, in which `buffer` is the compute buffer: the margin for that buffer is part
/// of what stays free.
pub(crate) fn wanted(total: Bytes, buffer: u64) -> Bytes {
    let margin = Bytes(compute::margin(buffer));
    total.less(margin).plus(margin.max(SPARE))
}

impl Estimate {
    /// What must be free on so many GPUs together so that it fits llama.cpp; `None` where a part is not known.
    pub fn wanted(&self, cards: u64) -> Option<Bytes> {
        let cards = cards.max(1);
        let margin = compute::margin(self.compute.bytes?.0 / cards).saturating_mul(cards);
        Some(self.total()?.less(Bytes(margin)).plus(Bytes(margin.max(SPARE.0.saturating_mul(cards)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_of_an_estimate_is_part_of_what_is_spare() {
        assert_eq!(wanted(Bytes::gib(5), 100 << 20), Bytes::gib(6).less(Bytes::mib(64)));
        assert_eq!(wanted(Bytes::gib(30), 20 << 30), Bytes::gib(30), "a tenth of 20 GiB is more");
    }
}
