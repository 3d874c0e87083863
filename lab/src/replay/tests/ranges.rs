use super::*;
use std::collections::BTreeSet;

/// A small generator of numbers below `most`.
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |most| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    }
}

#[test]
fn ranges_answer_as_a_set_of_single_addresses() {
    let mut number = numbers(7);
    for _ in 0..200 {
        let (mut ranges, mut all) = (Ranges::default(), BTreeSet::new());
        for _ in 0..40 {
            let start = number(60);
            let range = start..start + number(12);
            if number(3) == 0 {
                ranges.remove(&range);
                all.retain(|at| !range.contains(at));
            } else {
                ranges.add(range.clone());
                all.extend(range);
            }
            let asked = number(60)..60 + number(12);
            assert_eq!(ranges.overlap(&asked), asked.clone().any(|at| all.contains(&at)));
            let beside = asked.start.saturating_sub(1)..asked.end + 1;
            assert_eq!(
                ranges.touch(&asked),
                beside.clone().any(|at| all.contains(&at)),
                "{ranges:?} {asked:?}"
            );
            assert_eq!(ranges.contains(asked.start), all.contains(&asked.start));
        }
    }
}

#[test]
fn the_last_address_of_all_is_in_the_set_of_all() {
    let mut ranges = Ranges::default();
    ranges.add(0..u64::MAX);
    assert!(ranges.contains(u64::MAX - 1) && ranges.touch(&(u64::MAX..u64::MAX)));
    ranges.remove(&(1..2));
    assert!(ranges.contains(0) && !ranges.contains(1) && ranges.contains(2));
}

#[test]
fn a_range_without_an_address_is_nothing() {
    let mut ranges = Ranges::default();
    ranges.add(5..5);
    assert!(!ranges.touch(&(0..10)));
    ranges.add(3..8);
    ranges.remove(&(5..5));
    assert!(ranges.contains(5));
}
