//! The ranges that were done: the complement of the ranges that were not.

use core::ops::Range;

/// Calls `f` for each gap between the ranges of `undone`, in order, within `whole`. The ranges are few (two
/// for each worker), so they are searched once for each gap, and nothing is allocated.
pub(super) fn each_gap<I: Iterator<Item = Range<u64>>>(
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
#[path = "tests/undo.rs"]
mod tests;
