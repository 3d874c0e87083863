//! What was done, as what is left of a range when the rest is taken out.

use core::ops::Range;

/// Calls `f` for each gap between the ranges of `undone`, in order, within `whole`. They are few (two for
/// each worker), so they are looked through once for each gap, and nothing is allocated.
pub(super) fn rest_of<I: Iterator<Item = Range<u64>>>(
    whole: &Range<u64>,
    undone: impl Fn() -> I,
    f: &(dyn Fn(Range<u64>) + Sync),
) {
    let mut at = whole.start;
    while at < whole.end {
        let next =
            undone().filter(|range| !range.is_empty() && range.end > at).min_by_key(|range| range.start);
        let gap_end = next.as_ref().map_or(whole.end, |range| range.start.min(whole.end));
        if gap_end > at {
            f(at..gap_end);
        }
        at = next.map_or(whole.end, |range| range.end);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::vec;
    use std::vec::Vec;

    fn gaps(undone: &[Range<u64>]) -> Vec<Range<u64>> {
        let seen = Mutex::new(Vec::new());
        rest_of(&(10..50), || undone.iter().cloned(), &|gap| seen.lock().unwrap().push(gap));
        seen.into_inner().unwrap()
    }

    #[test]
    fn the_gaps_are_what_no_range_covers() {
        assert_eq!(gaps(&[]), vec![10..50]);
        assert_eq!(gaps(&[10..30, 30..50]), Vec::<Range<u64>>::new());
        assert_eq!(gaps(&[40..50, 10..12, 20..30, 25..25, 0..0]), [12..20, 30..40].to_vec());
        assert_eq!(gaps(&[30..40, 20..30]), [10..20, 40..50].to_vec());
    }
}
