use super::*;
use std::hint::black_box;

#[test]
fn a_longer_loop_is_longer_by_as_many_instructions_each_time() {
    let spin = |n: u32| {
        (0..black_box(n)).for_each(|i| {
            black_box(i);
        });
    };
    let steps = |n| count(|| spin(n)).unwrap();
    let (few, more, most) = (steps(10), steps(20), steps(30));
    assert!(more - few >= 10);
    assert_eq!((few, most - more), (steps(10), more - few));
}
