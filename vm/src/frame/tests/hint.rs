//! What hints say, and which region is the best choice.

use super::*;

fn known(bits: u32) -> Known {
    Known(bits)
}

#[test]
fn how_much_is_free_falls_a_half_later_than_it_rises() {
    let all = |frees: &[u64]| {
        let mut parts = 0;
        frees
            .iter()
            .map(|&free| {
                parts = Known::parts(free, 1600, parts);
                parts
            })
            .collect::<std::vec::Vec<_>>()
    };
    assert_eq!(all(&[0, 1, 100, 101, 100, 51, 50, 1600, 1551, 1550]), [0, 1, 1, 2, 2, 2, 1, 16, 16, 16]);
    assert_eq!(all(&[1600, 1450, 1449, 30, 0]), [16, 15, 15, 1, 0]);
}

#[test]
fn fragments_are_chosen_before_memory_that_is_whole_and_the_fullest_first() {
    let few = 1;
    let best_first = [MANY | few, MANY | 2, MANY | HUGE | 16, HUGE | few, HUGE | 16, few, 0];
    let worth = best_first.map(|bits| known(bits).worth(Order::BASE));
    assert!(worth.is_sorted_by(|a, b| a > b), "{worth:?}");
    assert_eq!(worth[6], 0);
    assert_eq!(known(RETURNED).worth(Order::BASE), known(MANY).worth(Order::BASE));
    let fragment = |order: u32| (order + 1) << FRAGMENT_SHIFT;
    let for_order_4 = [fragment(4) | few, fragment(5) | 2, fragment(3) | HUGE | few, RETURNED, MANY | few];
    let worth = for_order_4.map(|bits| known(bits).worth(Order(4)));
    assert!(worth.is_sorted_by(|a, b| a > b), "{worth:?}");
    let for_blocks = [MANY | HUGE | few, HUGE | 16, RETURNED, MANY | fragment(8) | few];
    let worth = for_blocks.map(|bits| known(bits).worth(Order::HUGE));
    assert!(worth.is_sorted_by(|a, b| a > b) && worth[3] == 0, "{worth:?}");
    assert_eq!(known(MANY | few | RESERVED).worth(Order::BASE), 0);
}
