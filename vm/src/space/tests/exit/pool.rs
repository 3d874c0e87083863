//! The end of a space with the hugetlb pool.

use crate::space::tests::world::pool::{counts, map, map_unreserved, store, with_pool};

#[test]
fn the_end_of_a_space_gives_back_what_was_set_aside() {
    with_pool(4, |vm, space| {
        map(&space, 0, 3);
        store(&space, 1, 1);
        map_unreserved(&space, 4, 2);
        store(&space, 4, 1);
        drop(space);
        assert_eq!(counts(vm, &[], 0), (4, 0));
    });
}
