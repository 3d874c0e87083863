//! The size of the hugetlb pool, beside what is set aside and in use.

use crate::frame::HugetlbCounts;
use crate::space::Error;
use crate::space::tests::world::pool::{BYTES, at, map, store, try_map, with_pool};
use crate::units::PageSize;

#[test]
fn a_pool_that_gets_smaller_keeps_what_is_set_aside_and_in_use() {
    with_pool(6, |vm, space| {
        let size = PageSize::Huge;
        map(&space, 0, 3);
        store(&space, 0, 1);
        let shrunk = vm.resize_hugetlb(size, 1);
        assert_eq!(shrunk, HugetlbCounts { total: 3, free: 2, reserved: 2, surplus: 2 });
        assert_eq!(try_map(&space, 8, 1), Err(Error::NoMemory));
        store(&space, 1, 1);
        space.unmap(at(0), 2 * BYTES).unwrap();
        // As on Linux: what was set aside leaves the pool with its mapping, too.
        let left = HugetlbCounts { total: 1, free: 1, reserved: 1, surplus: 0 };
        assert_eq!(vm.memory().hugetlb().counts(size), left, "two have left as they came back");
        store(&space, 2, 1);
        space.unmap(at(2), BYTES).unwrap();
        assert_eq!(
            vm.memory().hugetlb().counts(size),
            HugetlbCounts { total: 1, free: 1, ..HugetlbCounts::default() }
        );
        // Of a surplus as many stay as are wanted again.
        map(&space, 0, 1);
        store(&space, 0, 1);
        assert_eq!(vm.resize_hugetlb(size, 0).surplus, 1);
        assert_eq!(
            vm.resize_hugetlb(size, 6),
            HugetlbCounts { total: 6, free: 5, ..HugetlbCounts::default() }
        );
    });
}

#[test]
fn a_surplus_that_was_set_aside_leaves_the_pool_with_its_mapping() {
    with_pool(4, |vm, space| {
        let size = PageSize::Huge;
        map(&space, 0, 1);
        map(&space, 2, 3);
        store(&space, 2, 1);
        // The numbers are those that Linux has shown for these calls.
        let expected = |total, free, reserved, surplus| HugetlbCounts { total, free, reserved, surplus };
        assert_eq!(vm.resize_hugetlb(size, 1), expected(4, 3, 3, 3));
        space.unmap(at(2), BYTES).unwrap();
        assert_eq!(vm.memory().hugetlb().counts(size), expected(3, 3, 3, 2));
        space.unmap(at(3), 2 * BYTES).unwrap();
        assert_eq!(vm.memory().hugetlb().counts(size), expected(1, 1, 1, 0));
        drop(space);
        assert_eq!(vm.resize_hugetlb(size, 4), expected(4, 4, 0, 0));
    });
}

#[test]
fn a_pool_takes_no_more_than_there_is() {
    with_pool(2, |vm, _space| {
        let counts = vm.resize_hugetlb(PageSize::Huge, 1 << 40);
        assert!((3..6).contains(&counts.total), "{counts:?} of five folios and some frames in use");
        assert_eq!((counts.free, counts.surplus), (counts.total, 0));
        assert_eq!(vm.resize_hugetlb(PageSize::Giant, 1), HugetlbCounts::default());
        assert_eq!(vm.resize_hugetlb(PageSize::Base, 1), HugetlbCounts::default());
        vm.resize_hugetlb(PageSize::Huge, 2);
    });
}
