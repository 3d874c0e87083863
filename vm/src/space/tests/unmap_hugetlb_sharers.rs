//! Pages of the hugetlb pool that their owner takes back from its children.

use crate::space::tests::world::pins::{Limit, slots};
use crate::space::tests::world::pool::{
    BYTES, TAKEN, at, counts, entry, fault, map, map_unreserved, peek, pfn, record, store, take_back,
    with_paths, with_pool,
};
use crate::space::{Advice, Error, FaultError, RmapError};
use crate::units::Access;

#[test]
fn the_owner_takes_its_page_back_from_all_who_share_it() {
    with_paths(2, 1, |vm, space| {
        map(&space, 1, 1);
        let child = space.fork().unwrap();
        let grandchild = child.fork().unwrap();
        let all = [&space, &child, &grandchild];
        let before = pfn(&space, 0);
        // No TLB of a child has the page afterwards.
        let running = grandchild.activate(None);
        assert!(vm.machine().translate(at(0).vpn(), Access::Read).is_some());
        assert_eq!(fault(&space, 0, Access::Write), Err(FaultError::HugetlbEmpty));
        assert_eq!(take_back(&space, 0, &all), Ok(true));
        assert!(vm.machine().cached(0, at(0).vpn()).is_none(), "a child's TLB has a page that is taken");
        drop(running);
        store(&space, 0, 7);
        assert_eq!((pfn(&space, 0), peek(&space, 0)), (before, Some(7)));
        assert_eq!((record(vm, before), counts(vm, &all, 2)), ((1, 1, true), (1, 1)));
        for one in [&child, &grandchild] {
            assert_eq!(entry(one, 0), TAKEN);
            for access in [Access::Read, Access::Write] {
                assert_eq!(fault(one, 0, access), Err(FaultError::HugetlbEmpty));
            }
        }
        // What is lost stays so, in a child's child too, until it is dropped.
        let last = child.fork().unwrap();
        assert_eq!(fault(&last, 0, Access::Read), Err(FaultError::HugetlbEmpty));
        drop(last);
        child.unmap(at(0), BYTES).unwrap();
        grandchild.advise(at(0), BYTES, Advice::DontNeed).unwrap();
        assert_eq!(entry(&grandchild, 0), TAKEN);
        assert_eq!(take_back(&space, 0, &all), Ok(true), "it is this space's alone");
    });
}

#[test]
fn a_page_is_taken_back_only_where_one_was_set_aside_and_all_spaces_are_found() {
    with_pool(1, |_, space| {
        map_unreserved(&space, 0, 1);
        store(&space, 0, 1);
        let child = space.fork().unwrap();
        assert_eq!(fault(&space, 0, Access::Write), Err(FaultError::HugetlbEmpty));
        assert_eq!(take_back(&space, 0, &[&space, &child]), Ok(false));
        assert_eq!(take_back(&space, 9, &[&space, &child]), Ok(false), "nothing is mapped there");
        assert_eq!(peek(&child, 0), Some(1));
    });
    with_pool(1, |_, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        let child = space.fork().unwrap();
        assert_eq!(take_back(&space, 0, &[&space]), Err(RmapError::SpaceMissing));
        assert_eq!(peek(&child, 0), Some(1));
        let limit = Limit::new(9);
        assert_eq!(space.pin_pages(at(0), Access::Read, &limit, slots(1)).map(drop), Err(Error::Fault));
        assert_eq!(take_back(&space, 0, &[&space, &child]), Ok(true));
        assert!(space.pin_pages(at(0), Access::Read, &limit, slots(1)).is_ok());
    });
}
