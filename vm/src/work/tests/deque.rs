//! Deques of grains: no grain is lost, and no chunk is too small.

use super::*;
use crate::machine::testing::TestCpu;
use core::cell::Cell;

/// As where another worker changes the pace meanwhile.
#[test]
fn no_grain_is_lost_where_the_wanted_number_changes_between_two_attempts() {
    let (deque, asked) = (Deque::<TestCpu>::new(&(0..1000)), Cell::new(0));
    let wanted = |_| {
        asked.set(asked.get() + 1);
        asked.get()
    };
    let mut left = 0..1000;
    while !left.is_empty() {
        let front = deque.take(Side::Front, wanted, 1).unwrap();
        assert_eq!(front.start, left.start);
        left.start = front.end;
        if let Some(back) = deque.take(Side::Back, wanted, 1) {
            assert_eq!(back.end, left.end);
            left.end = back.start;
        }
        assert!(deque.rest() == left || deque.rest().is_empty() && left.is_empty());
    }
}

#[test]
fn both_cuts_lose_no_grain_and_leave_no_rest_below_the_minimum() {
    for (have, min, wanted) in
        (1..40).flat_map(|h| (1..12).flat_map(move |l| (l..20).map(move |w| (h, l, w))))
    {
        let word = pack(&(7..7 + have));
        let (taken, rest) = cut_front(word, wanted, min).unwrap();
        assert_eq!((taken.start, taken.end, unpack(rest).end), (7, unpack(rest).start, 7 + have));
        assert!(
            taken.len() as u32 >= wanted.min(have) && unpack(rest).len() as u32 != 0
                || taken.len() as u32 == have
        );
        assert!(unpack(rest).is_empty() || unpack(rest).len() as u32 >= min);
        let (stolen, rest) = cut_back(word, wanted, min).unwrap();
        assert_eq!((unpack(rest).start, unpack(rest).end, stolen.end), (7, stolen.start, 7 + have));
        assert!(stolen.len() as u32 == have || stolen.len() as u32 >= min);
        assert!(unpack(rest).is_empty() || unpack(rest).len() as u32 >= min);
    }
    assert_eq!(
        (cut_front(pack(&(3..3)), 1, 1), cut_back(0, 1, 1), cut_back(REFILLING, 1, 1)),
        (None, None, None)
    );
}
