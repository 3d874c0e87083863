//! mmap over huge pages.

use crate::space::Counter;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{
    HUGE, assert_kept, at, filled, is_huge, map, peek, resident, store, with_space,
};

#[test]
fn mapping_over_a_part_splits() {
    with_space(|vm, space| {
        filled(&space);
        map(&space, HUGE - 2, 4);
        assert_kept(&space, HUGE - 2..HUGE + 2);
        assert_eq!(vm.totals().get(Counter::ThpSplitPmd), 2);
        map(&space, 0, 2 * HUGE);
        assert_eq!(resident(&space, 2 * HUGE), 0);
        store(&space, 0, 1);
        assert!(is_huge(&space, 0), "no table is left");
    });
}

#[test]
fn what_is_mapped_over_a_whole_region_finds_no_table_there() {
    with_space(|_, space| {
        map(&space, 0, HUGE - 1);
        store(&space, 9, 7);
        assert!(!is_huge(&space, 9), "the last page is no mapping's");
        map(&space, 0, HUGE);
        store(&space, 9, 8);
        assert!(is_huge(&space, 9) && peek(&space, 8) == Some(0));
        // A neighbour in the region keeps the table, and its page.
        space.unmap(at(0), HUGE * PAGE).unwrap();
        map(&space, 0, 5);
        map(&space, HUGE - 1, 1);
        store(&space, HUGE - 1, 6);
        map(&space, 0, HUGE - 1);
        store(&space, 9, 7);
        assert!(!is_huge(&space, 9));
        assert_eq!((peek(&space, 9), peek(&space, HUGE - 1)), (Some(7), Some(6)));
    });
}
