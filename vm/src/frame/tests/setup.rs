//! Gaps between ranges.

use super::*;
use crate::units::Pfn;
use std::vec::Vec;

#[test]
fn gaps_and_ranges_together_are_the_whole() {
    let range = |from, to| PfnRange::new(Pfn(from), Pfn(to));
    let cut = |within, ranges: &[PfnRange]| gaps(within, ranges.iter().copied()).collect::<Vec<_>>();
    assert_eq!(cut(range(2, 9), &[range(3, 5), range(5, 6)]), [range(2, 3), range(6, 9)]);
    assert_eq!(cut(range(2, 9), &[]), [range(2, 9)]);
    assert_eq!(cut(range(2, 9), &[range(0, 3), range(8, 12)]), [range(3, 8)]);
    assert_eq!(cut(range(2, 9), &[range(2, 9)]), []);
    assert_eq!(cut(range(2, 9), &[range(0, 2), range(9, 12)]), [range(2, 9)]);
}
