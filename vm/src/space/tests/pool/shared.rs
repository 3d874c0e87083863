//! Shared memory of the hugetlb pool: its object has the pages, whichever space maps them.

use super::*;
use crate::object::SharedHugetlbCounts;
use crate::space::{Advice, MemlockLimit, Sharing};
use crate::vma::Backing;

fn shared(page: u64, pages: u64) -> MapRequest<'static> {
    MapRequest { sharing: Sharing::Shared, ..request(page, pages) }
}

pub(super) fn try_map_shared(space: &TestSpace<'_>, page: u64, pages: u64) -> Result<(), Error> {
    space.map(&shared(page, pages).backed_by(MapBacking::Hugetlb(PageSize::Huge))).map(drop)
}

pub(super) fn map_shared(space: &TestSpace<'_>, page: u64, pages: u64) {
    try_map_shared(space, page, pages).unwrap();
}

fn backing(space: &TestSpace<'_>, page: u64) -> Option<Backing> {
    let mut found = None;
    space.inspect().each_vma(|vma| {
        if vma.range.contains(Vpn(BASE + page * HUGE)) {
            found = Some(vma.backing.get());
        }
    });
    found
}

/// What the object of a page has, and what is set aside for it.
fn object(space: &TestSpace<'_>, page: u64) -> (u64, u64) {
    let found = backing(space, page).and_then(|backing| space.vm().shared_hugetlb(backing));
    let SharedHugetlbCounts { filled, reserved } = found.expect("shared memory of the pool");
    (filled, reserved)
}

/// Free huge pages, and those of them that are set aside, by the pool's own counts.
fn free(vm: &TestVm<'_>) -> (u64, u64) {
    vm.memory().check().unwrap();
    let counts = vm.memory().hugetlb().counts(PageSize::Huge);
    (counts.free, counts.reserved)
}

#[test]
fn pages_are_set_aside_for_the_object_and_entries_stay_absent() {
    with_pool(4, |vm, space| {
        assert_eq!(try_map_shared(&space, 0, 5), Err(Error::NoMemory));
        map_shared(&space, 0, 3);
        assert_eq!((free(vm), object(&space, 0)), ((4, 3), (0, 3)));
        assert_eq!(entry(&space, 1), Entry::Absent);
        assert_eq!(try_map(&space, 8, 2), Err(Error::NoMemory), "one is available");
        store(&space, 1, 5);
        assert_eq!((free(vm), object(&space, 0)), ((3, 2), (1, 2)));
        // A load gets a page, and the last page is there for it.
        map(&space, 8, 1);
        store(&space, 8, 9);
        fault(&space, 2, Access::Read).unwrap();
        fault(&space, 0, Access::Read).unwrap();
        assert_eq!((free(vm), object(&space, 0)), ((0, 0), (3, 0)));
        assert_eq!((peek(&space, 0), peek(&space, 1), peek(&space, 2)), (Some(0), Some(5), Some(0)));
    });
}

#[test]
fn parent_and_child_see_each_others_stores() {
    with_pool(3, |vm, space| {
        map_shared(&space, 0, 2);
        store(&space, 0, 1);
        let child = space.fork().unwrap();
        assert_eq!(free(vm), (2, 1), "a fork copies nothing");
        fault(&child, 0, Access::Read).unwrap();
        assert_eq!(peek(&child, 0), Some(1));
        store(&child, 0, 2);
        assert_eq!(peek(&space, 0), Some(2));
        // The child's fault takes what was set aside for the object.
        store(&child, 1, 3);
        assert_eq!((free(vm), object(&space, 1)), ((1, 0), (2, 0)));
        store(&space, 1, 4);
        assert_eq!(peek(&child, 1), Some(4));
        let (here, there) = (leaf(&space, 1).unwrap(), leaf(&child, 1).unwrap());
        assert_eq!(here.pfn, there.pfn);
        let meta = vm.memory().meta(here.pfn).unwrap();
        assert_eq!((meta.mapcount(), meta.state().refcount()), (2, 2), "two entries, and the object");
        drop(space);
        assert_eq!((free(vm), peek(&child, 1)), ((1, 0), Some(4)));
    });
}

#[test]
fn pages_stay_with_the_object_until_nobody_maps_a_page_of_it() {
    with_pool(3, |vm, space| {
        map_shared(&space, 0, 3);
        store(&space, 0, 1);
        store(&space, 1, 2);
        space.unmap(at(0), 2 * BYTES).unwrap();
        assert_eq!(free(vm), (1, 1), "the third page is mapped still");
        let child = space.fork().unwrap();
        space.unmap(at(2), BYTES).unwrap();
        assert_eq!(free(vm), (1, 1), "the child's is");
        store(&child, 2, 3);
        assert_eq!(free(vm), (0, 0));
        child.unmap(at(2), BYTES).unwrap();
        assert_eq!(free(vm), (3, 0));
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

#[test]
fn without_a_reserve_a_fault_may_be_a_bus_error_and_a_page_that_is_there_is_not() {
    with_pool(2, |vm, space| {
        let request = MapRequest { flags: RW | VmaFlags::NORESERVE, ..shared(0, 3) };
        space.map(&request.backed_by(MapBacking::Hugetlb(PageSize::Huge))).unwrap();
        map(&space, 8, 1);
        let child = space.fork().unwrap();
        store(&child, 0, 1);
        assert_eq!((free(vm), object(&space, 0)), ((1, 1), (1, 0)));
        assert_eq!(fault(&space, 1, Access::Write), Err(FaultError::HugetlbEmpty));
        fault(&space, 0, Access::Write).unwrap();
        assert_eq!(peek(&space, 0), Some(1));
        let limit = MemlockLimit::new(u64::MAX);
        let pinned = space.pin_pages(at(1), Access::Write, &limit, [None]);
        assert_eq!(pinned.map(drop), Err(Error::Fault));
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

#[test]
fn a_pin_of_a_part_outlives_the_object_and_holds_its_page() {
    with_pool(2, |vm, space| {
        map_shared(&space, 0, 1);
        let limit = MemlockLimit::new(u64::MAX);
        let part = VirtAddr(at(0).0 + 5 * PAGE);
        let slow = space.pin_pages(part, Access::Write, &limit, [None]).unwrap();
        let reading = vm.read();
        let fast = space.try_pin_fast(part, Access::Write, &limit, [None], &reading).unwrap();
        drop(reading);
        let head = leaf(&space, 0).unwrap().pfn;
        assert!([&slow, &fast].iter().all(|pins| pins.frames().next().unwrap().pfn() == head.add(5)));
        let child = space.fork().unwrap();
        assert_eq!(space.copy_to(part, &[6]), Ok(1));
        let mut byte = [0];
        assert_eq!(child.copy_from(part, &mut byte), Ok(1));
        assert_eq!(byte, [6], "a pinned page is shared as any other");
        drop((space, child));
        assert_eq!(free(vm), (1, 0), "the pins have the page");
        drop(slow);
        assert_eq!(free(vm), (1, 0));
        drop(fast);
        assert_eq!(free(vm), (2, 0));
    });
}

#[test]
fn populating_fills_the_object_and_a_smaller_pool_gets_its_pages_at_the_end() {
    with_pool(3, |vm, space| {
        space
            .map(
                &MapRequest { populate: true, ..shared(0, 2) }.backed_by(MapBacking::Hugetlb(PageSize::Huge)),
            )
            .unwrap();
        assert_eq!((free(vm), object(&space, 0)), ((1, 0), (2, 0)));
        assert_eq!(vm.resize_hugetlb(PageSize::Huge, 1).surplus, 1);
        let child = space.fork().unwrap();
        drop(space);
        assert_eq!(vm.memory().hugetlb().counts(PageSize::Huge).total, 2);
        drop(child);
        let all = HugetlbCounts { total: 1, free: 1, reserved: 0, surplus: 0 };
        assert_eq!(vm.memory().hugetlb().counts(PageSize::Huge), all);
        vm.resize_hugetlb(PageSize::Huge, 3);
    });
}

/// More than a gather has places for: they stay in their slots until the flush.
#[test]
fn many_shared_pages_are_unmapped_with_those_of_other_mappings() {
    with_pool(7, |vm, space| {
        map_shared(&space, 0, 4);
        map(&space, 4, 2);
        (0..6).for_each(|page| store(&space, page, 1));
        let child = space.fork().unwrap();
        for page in 0..4 {
            fault(&child, page, Access::Read).unwrap();
        }
        space.unmap(at(0), 6 * BYTES).unwrap();
        assert_eq!((0..4).map(|page| peek(&child, page)).collect::<std::vec::Vec<_>>(), [Some(1); 4]);
        drop(child);
        assert_eq!(free(vm), (7, 0));
    });
}
