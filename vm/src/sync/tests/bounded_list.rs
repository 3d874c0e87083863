//! Pushes by several threads.

use super::*;
use crate::machine::testing::TestCpu;
use std::vec::Vec;

#[test]
fn pushed_values_are_returned_and_those_beyond_the_bound_are_refused() {
    let list = BoundedList::<u64, TestCpu, 8>::new();
    let fits = |from: u64| (from..from + 3).filter(|&value| list.push(value)).count();
    let fitted: usize = std::thread::scope(|s| {
        let others = [s.spawn(|| fits(10)), s.spawn(|| fits(20))];
        fits(30) + others.into_iter().map(|other| other.join().unwrap()).sum::<usize>()
    });
    let mut values: Vec<u64> = list.values().unwrap().to_vec();
    values.sort_unstable();
    values.dedup();
    assert_eq!((fitted, values.len()), (8, 8));
    assert!(values.iter().all(|value| (10..13).contains(&(value % 100)) || value % 10 < 3));
    assert!(BoundedList::<u64, TestCpu, 2>::new().values().is_some_and(|values| values.is_empty()));
}

#[test]
fn a_full_list_that_has_refused_pushes_without_end_gives_out_no_place_twice() {
    let list = BoundedList::<u64, TestCpu, 1>::new();
    assert!(list.push(1));
    list.reserved.store(u32::MAX, Relaxed);
    assert!(!list.push(2) && !list.push(3));
}
