//! Owns the search for the largest number that still works, in few tries. Pure.

/// The largest number in `least..=most` that is fine, where all below a fine one are; `None` where `least` is not.
pub(crate) fn largest(least: u64, most: u64, is_fine: impl Fn(u64) -> bool) -> Option<u64> {
    if least > most || !is_fine(least) {
        return None;
    }
    let (mut fine, mut limit) = (least, most);
    while fine < limit {
        let middle = fine.saturating_add(limit.saturating_sub(fine).div_ceil(2));
        if is_fine(middle) {
            fine = middle;
        } else {
            limit = middle.saturating_sub(1);
        }
    }
    Some(fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_fine_number_is_found() {
        for limit in 3..40 {
            assert_eq!(largest(3, 30, |number| number <= limit), Some(limit.min(30)), "{limit}");
        }
        assert_eq!(largest(3, 30, |_| false), None);
        assert_eq!(largest(4, 3, |_| true), None);
        assert_eq!(largest(0, u64::MAX, |_| true), Some(u64::MAX));
    }
}
