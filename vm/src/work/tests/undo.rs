//! The gaps between ranges.

use super::*;
use std::sync::Mutex;
use std::vec;
use std::vec::Vec;

fn gaps(undone: &[Range<u64>]) -> Vec<Range<u64>> {
    let seen = Mutex::new(Vec::new());
    each_gap(&(10..50), || undone.iter().cloned(), &|gap| seen.lock().unwrap().push(gap));
    seen.into_inner().unwrap()
}

#[test]
fn the_gaps_are_covered_by_no_range() {
    assert_eq!(gaps(&[]), vec![10..50]);
    assert_eq!(gaps(&[10..30, 30..50]), Vec::<Range<u64>>::new());
    assert_eq!(gaps(&[40..50, 10..12, 20..30, 25..25, 0..0]), [12..20, 30..40].to_vec());
    assert_eq!(gaps(&[30..40, 20..30]), [10..20, 40..50].to_vec());
}
