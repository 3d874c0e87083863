//! What hints say, and which region is the best choice.

use super::*;

fn known(bits: u32) -> Known {
    Known(bits)
}

#[test]
fn a_class_of_fragments_is_left_at_half_of_where_it_begins() {
    let classes = |all: &[u64]| {
        let mut class = 0;
        all.iter()
            .map(|&fragments| {
                class = Known::class(fragments, class);
                class
            })
            .collect::<std::vec::Vec<_>>()
    };
    assert_eq!(classes(&[127, 128, 100, 64, 63, 127]), [0, 1, 1, 1, 0, 0]);
    assert_eq!(classes(&[9000, 4096, 4095, 512, 511, 10]), [3, 3, 2, 2, 1, 0]);
}

#[test]
fn fragments_are_chosen_before_memory_that_is_whole() {
    let best_first = [1, 2, 3, RETURNED, HUGE | SOME, HUGE | WHOLE | SOME, SOME, 0];
    let worth = best_first.map(|bits| known(bits).worth(Purpose::Frames));
    assert!(worth.is_sorted_by(|a, b| a > b), "{worth:?}");
    assert_eq!(worth[7], 0);
    let for_blocks = [3 | HUGE | SOME, HUGE | WHOLE | SOME, RETURNED, 3 | SOME];
    let worth = for_blocks.map(|bits| known(bits).worth(Purpose::Blocks));
    assert!(worth.is_sorted_by(|a, b| a > b) && worth[3] == 0, "{worth:?}");
    assert_eq!(known(1 | SOME | RESERVED).worth(Purpose::Frames), 0);
    assert!(known(1 | SOME).offers_fragments() && !known(1 | SOME | RESERVED).offers_fragments());
}
