//! Deques of grains: no grain is lost, and no chunk is too small.

use super::*;
use crate::machine::testing::TestCpu;

#[test]
fn both_cuts_lose_no_grain_and_leave_no_rest_below_the_minimum() {
    for (have, min, wanted) in
        (1..40).flat_map(|h| (1..12).flat_map(move |l| (0..20).map(move |w| (h, l, w))))
    {
        for side in [Side::Front, Side::Back] {
            let mut rest = 7..7 + have;
            let taken = cut(&mut rest, side, wanted, min).unwrap();
            let (first, second) = if side == Side::Front { (&taken, &rest) } else { (&rest, &taken) };
            assert_eq!((first.start, first.end, second.end), (7, second.start, 7 + have));
            assert!(taken.len() as u32 == have || taken.len() as u32 == wanted && wanted >= min);
            assert!(rest.is_empty() || rest.len() as u32 >= min);
        }
    }
    assert_eq!(cut(&mut (3..3), Side::Front, 1, 1), None);
}

#[test]
fn a_worker_without_grains_steals_half_of_the_longest_deque_for_its_node() {
    let deques = NodeDeques::<TestCpu>::new(0..100, NodeId(5), 4);
    let [home, other, third] = [5, 6, 7].map(|node| deques.of_node(NodeId(node)));
    assert_eq!(deques.next(other, Side::Back, |_| 10, 1), Some(90..100));
    assert_eq!((deques.rests()[home].clone(), deques.rests()[other].clone()), (0..50, 50..90));
    assert_eq!(deques.next(home, Side::Front, |have| have / 2, 1), Some(0..25));
    assert_eq!(deques.next(third, Side::Back, |_| 1, 1), Some(89..90));
    assert_eq!(deques.rests(), [25..50, 50..70, 70..89, 0..0]);
    let all = [home, other, third].map(|own| deques.next(own, Side::Front, |have| have, 1).unwrap().len());
    assert_eq!((all.iter().sum::<usize>(), deques.next(3, Side::Back, |_| 1, 1)), (64, None));
}

#[test]
fn grains_too_few_for_two_minimum_chunks_are_stolen_whole() {
    let deques = NodeDeques::<TestCpu>::new(0..9, NodeId(0), 2);
    assert_eq!(deques.next(1, Side::Back, |_| 1, 5), Some(0..9));
    assert!(deques.rests().iter().all(|rest| rest.is_empty()));
}
