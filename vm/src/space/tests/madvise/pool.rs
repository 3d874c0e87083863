//! madvise in the hugetlb pool.

use crate::machine::Entry;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::pool::{
    BYTES, at, counts, entry, fault, free, map, map_shared, map_unreserved, peek, store, try_map, with_paths,
    with_pool,
};
use crate::space::{Advice, Error, FaultError};
use crate::table::SlotMarker;
use crate::units::Access;
use crate::vma::FlagAdvice;

#[test]
fn what_a_child_shares_is_dropped_and_another_page_set_aside_if_there_is_one() {
    with_paths(3, 2, |vm, space| {
        let child = space.fork().unwrap();
        space.advise(at(0), 2 * BYTES, Advice::DontNeed).unwrap();
        // One is available, for the first of the two.
        assert_eq!(counts(vm, &[&space, &child], 2), (1, 1));
        assert_eq!(
            (entry(&space, 0), entry(&space, 1)),
            (SlotMarker::HugetlbReserved.entry(), Entry::Absent)
        );
        assert_eq!([0, 1].map(|page| peek(&child, page)), [1, 2].map(Some));
        drop(child);
        assert_eq!(counts(vm, &[&space], 2), (3, 1));
    });
    // Once the child has gone, the page is the parent's own again.
    with_paths(1, 1, |vm, space| {
        drop(space.fork().unwrap());
        space.advise(at(0), BYTES, Advice::DontNeed).unwrap();
        assert_eq!(counts(vm, &[&space], 1), (1, 1));
    });
}

#[test]
fn dropped_contents_are_set_aside_again() {
    with_pool(3, |vm, space| {
        map(&space, 0, 2);
        map_unreserved(&space, 2, 1);
        (0..3).for_each(|page| store(&space, page, 1));
        assert_eq!(counts(vm, &[&space], 3), (0, 0));
        space.advise(at(0), 3 * BYTES, Advice::DontNeed).unwrap();
        assert_eq!((peek(&space, 0), counts(vm, &[&space], 3)), (None, (3, 2)));
        // Only the one that is not set aside is to be had.
        assert_eq!(try_map(&space, 8, 2), Err(Error::NoMemory));
        map(&space, 8, 1);
        assert_eq!(fault(&space, 2, Access::Write), Err(FaultError::HugetlbEmpty));
        (0..2).for_each(|page| store(&space, page, 2));
        assert_eq!(peek(&space, 1), Some(2));
        // The end is rounded down.
        space.advise(at(0), 2 * BYTES - PAGE, Advice::DontNeed).unwrap();
        assert_eq!((peek(&space, 0), peek(&space, 1)), (None, Some(2)));
    });
}

#[test]
fn advice_about_huge_pages_leaves_them_as_they_are() {
    with_pool(1, |_, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        for advice in [FlagAdvice::DontFork, FlagAdvice::DoFork, FlagAdvice::DontDump, FlagAdvice::DoDump] {
            space.advise(at(0), BYTES, Advice::Flag(advice)).unwrap();
        }
        for advice in [FlagAdvice::HugePage, FlagAdvice::NoHugePage] {
            assert_eq!(space.advise(at(0), BYTES, Advice::Flag(advice)), Ok(()));
        }
        assert_eq!(space.advise(at(0), BYTES, Advice::Cold), Err(Error::Invalid));
        assert_eq!(space.advise(at(0), BYTES, Advice::WillNeed), Ok(()));
        assert!(space.collapse(at(0), BYTES).is_err());
        assert_eq!(peek(&space, 0), Some(1));
    });
}

#[test]
fn what_is_dropped_by_advice_is_there_again() {
    with_pool(2, |vm, space| {
        map_shared(&space, 0, 2);
        store(&space, 0, 7);
        let child = space.fork().unwrap();
        store(&child, 0, 8);
        space.advise(at(0), 2 * BYTES, Advice::DontNeed).unwrap();
        assert_eq!((entry(&space, 0), free(vm)), (Entry::Absent, (1, 1)));
        assert_eq!(peek(&child, 0), Some(8));
        fault(&space, 0, Access::Read).unwrap();
        assert_eq!(peek(&space, 0), Some(8));
        for advice in [Advice::Free, Advice::Cold] {
            assert_eq!(space.advise(at(0), BYTES, advice), Err(Error::Invalid));
        }
    });
}
