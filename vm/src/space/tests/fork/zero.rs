//! fork of the huge zero page.

use crate::space::Advice;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, at, counted, leaf, map, peek, store};
use crate::space::tests::world::zero::{
    ZERO, is_by_table, is_small_zero, is_zero, load, with_table, with_the_page, with_zero,
};

#[test]
fn a_child_shows_the_same_table() {
    with_table(|vm, space| {
        map(&space, 0, 3 * HUGE);
        (0..3).for_each(|nth| load(&space, nth * HUGE));
        let child = space.fork().unwrap();
        assert_eq!(leaf(&child, HUGE), leaf(&space, HUGE));
        store(&space, 3, 6);
        store(&child, HUGE + 1, 7);
        assert_eq!([peek(&child, 3), peek(&space, HUGE + 1)], [Some(0); 2]);
        drop(space);
        vm.trim();
        assert!(is_by_table(&child, 2 * HUGE) && peek(&child, 2 * HUGE) == Some(0));
    });
}

#[test]
fn a_child_maps_it_too_and_keeps_it_when_its_parent_ends() {
    with_the_page(|vm, space| {
        map(&space, 0, 4 * HUGE);
        load(&space, 3);
        load(&space, 2 * HUGE);
        store(&space, HUGE, 5);
        let child = space.fork().unwrap();
        assert!(is_zero(&child, 3) && is_zero(&child, 2 * HUGE) && leaf(&child, 3 * HUGE).is_none());
        assert!(is_zero(&space, 3) && counted(vm, ZERO)[0] == 1);
        store(&space, 3, 6);
        assert_eq!((peek(&child, 3), peek(&child, HUGE), peek(&space, 3)), (Some(0), Some(5), Some(6)));
        drop(space);
        vm.trim();
        assert_eq!((vm.memory().zero_pages().huge_frames(), peek(&child, 2 * HUGE)), (512, Some(0)));
        store(&child, 2 * HUGE, 8);
        assert_eq!((peek(&child, 2 * HUGE), peek(&child, 2 * HUGE + 1)), (Some(8), Some(0)));
    });
}

#[test]
fn a_fork_of_a_part_splits_it() {
    with_zero(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        space.advise(at(HUGE / 2), HUGE / 2 * PAGE, Advice::Flag(crate::vma::FlagAdvice::DontFork)).unwrap();
        let child = space.fork().unwrap();
        assert!(is_small_zero(&child, 3) && leaf(&child, HUGE / 2).is_none());
        assert!(is_small_zero(&space, 3) && is_small_zero(&space, HUGE - 1));
        assert_eq!(counted(vm, ZERO)[..3], [1, 0, 1]);
    });
}
