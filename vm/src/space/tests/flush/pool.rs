//! A leaf of the hugetlb pool that is taken away or replaced is told whole.

use crate::space::Advice;
use crate::space::tests::world::pool::{BYTES, TestSpace, at, map, store, take_back, with_pool};
use crate::space::tests::world::{check_copies, copy_translations};
use crate::units::VpnRange;

fn copy(space: &TestSpace<'_>) {
    copy_translations(space, VpnRange::new(at(0).vpn(), at(1).vpn()));
    assert_eq!(check_copies(space), 3, "of the first two pages and of the last");
}

#[test]
fn what_replaces_or_takes_a_page_of_the_pool_tells_each_of_its_parts() {
    with_pool(2, |_, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        copy(&space);
        let child = space.fork().unwrap();
        assert_eq!(check_copies(&space), 0, "the right to write is gone");
        copy(&space);
        copy(&child);
        // A copy.
        store(&child, 0, 2);
        assert_eq!((check_copies(&child), check_copies(&space)), (0, 3));
        let last = child.fork().unwrap();
        copy(&last);
        // Taken back.
        drop(space);
        child.advise(at(0), BYTES, Advice::DontNeed).unwrap();
        assert_eq!(check_copies(&last), 3);
    });
    with_pool(1, |_, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        let child = space.fork().unwrap();
        copy(&child);
        assert_eq!(take_back(&space, 0, &[&space, &child]), Ok(true));
        assert_eq!(check_copies(&child), 0);
        copy(&space);
        space.advise(at(0), BYTES, Advice::DontNeed).unwrap();
        assert_eq!(check_copies(&space), 0);
    });
}
