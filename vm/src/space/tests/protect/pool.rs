//! mprotect in the hugetlb pool.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::pool::{
    BYTES, RW, at, fault, inside, map, map_shared, peek, store, with_pool,
};
use crate::space::{Error, FaultError};
use crate::units::Access;
use crate::vma::VmaFlags;

/// As in Linux, which splits at the start first: that is allowed, and stays.
#[test]
fn a_change_that_cuts_a_page_at_its_end_alone_splits_at_its_start() {
    with_pool(3, |_, space| {
        map(&space, 0, 3);
        store(&space, 1, 7);
        assert_eq!(space.protect(at(1), PAGE, VmaFlags::READ), Err(Error::Invalid));
        assert_eq!((space.inspect().nr_mappings(), peek(&space, 1)), (2, Some(7)));
        store(&space, 1, 8);
        assert_eq!(space.protect(inside(0), BYTES, VmaFlags::READ), Err(Error::Invalid));
        assert_eq!(space.inspect().nr_mappings(), 2);
    });
}

#[test]
fn rights_are_the_mappings_and_no_page_is_cut() {
    with_pool(2, |_, space| {
        map_shared(&space, 0, 2);
        store(&space, 0, 3);
        assert_eq!(space.unmap(at(0), PAGE), Err(Error::Invalid));
        assert_eq!(space.protect(at(0), PAGE, VmaFlags::READ), Err(Error::Invalid));
        space.protect(at(0), BYTES, VmaFlags::READ).unwrap();
        assert_eq!(fault(&space, 0, Access::Write), Err(FaultError::NotAllowed));
        let child = space.fork().unwrap();
        assert_eq!(fault(&child, 0, Access::Write), Err(FaultError::NotAllowed));
        child.protect(at(0), BYTES, RW).unwrap();
        store(&child, 0, 4);
        assert_eq!(peek(&space, 0), Some(4));
        space.protect(at(0), BYTES, RW).unwrap();
        store(&space, 0, 5);
        assert_eq!(peek(&child, 0), Some(5));
        assert!(child.object_at(at(0)).is_none());
    });
}
