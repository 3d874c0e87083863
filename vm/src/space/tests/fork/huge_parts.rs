//! fork of huge pages, a part of which is stored to.

use crate::space::tests::world::huge::{
    HUGE, THP, assert_kept, byte_of, counted, filled, is_huge, map, peek, store, with_space,
};

#[test]
fn a_fork_shares_and_a_store_copies_base_pages() {
    with_space(|vm, space| {
        filled(&space);
        let child = space.fork().unwrap();
        assert_eq!(counted(vm, THP), [2, 0, 0, 4]);
        assert_kept(&space, 0..0);
        assert_kept(&child, 0..0);
        store(&child, 5, 99);
        store(&space, HUGE + 5, 98);
        assert_eq!((peek(&space, 5), peek(&child, 5)), (Some(5), Some(99)));
        assert_eq!((peek(&space, HUGE + 5), peek(&child, HUGE + 5)), (Some(98), Some(byte_of(HUGE + 5))));
        // Of what only one of them has.
        map(&child, 3 * HUGE, HUGE);
        store(&child, 3 * HUGE, 1);
        assert!(is_huge(&child, 3 * HUGE) && peek(&space, 3 * HUGE).is_none());
    });
}
