//! mmap of the hugetlb pool.

use crate::frame::HugetlbCounts;
use crate::machine::Entry;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::pool::{
    BYTES, HUGE, RW, at, counts, entry, fault, free, map, map_shared, object, peek, request, store, try_map,
    try_map_shared, with_pool,
};
use crate::space::{AddressSpace, Error, MapBacking, MapRequest, Place};
use crate::units::{Access, PageSize, VirtAddr};
use crate::vma::VmaFlags;

#[test]
fn mapping_over_a_mapping_of_the_pool_uses_what_that_had() {
    with_pool(2, |vm, space| {
        map(&space, 0, 2);
        store(&space, 0, 1);
        map(&space, 0, 2);
        assert_eq!((peek(&space, 0), counts(vm, &[&space], 2)), (None, (2, 2)));
        // More than there is: what was mapped there is gone, as in Linux.
        assert_eq!(try_map(&space, 0, 3), Err(Error::NoMemory));
        assert_eq!((space.inspect().nr_mappings(), counts(vm, &[&space], 2)), (0, (2, 0)));
    });
}

#[test]
fn memory_of_the_pool_is_not_counted_as_committed() {
    with_pool(2, |vm, space| {
        let layout = crate::space::Layout { max_commit_pages: Some(HUGE), ..*space.layout() };
        drop(space);
        let space = AddressSpace::new(vm, layout, crate::space::Path::Speculative).unwrap();
        map(&space, 0, 2);
        space.protect(at(0), 2 * BYTES, VmaFlags::READ).unwrap();
        space.protect(at(0), 2 * BYTES, RW).unwrap();
        (0..2).for_each(|page| store(&space, page, 1));
        assert_eq!(space.fork().map(drop), Ok(()));
    });
}

#[test]
fn mmap_sets_pages_aside_and_a_fault_takes_one() {
    with_pool(4, |vm, space| {
        map(&space, 0, 3);
        assert_eq!(counts(vm, &[&space], 4), (4, 3));
        assert_eq!(try_map(&space, 8, 2), Err(Error::NoMemory), "one is left");
        fault(&space, 1, Access::Write).unwrap();
        assert_eq!(counts(vm, &[&space], 4), (3, 2));
        // A load gets a page, too, of zeros.
        fault(&space, 2, Access::Read).unwrap();
        assert_eq!((peek(&space, 2), counts(vm, &[&space], 4)), (Some(0), (2, 1)));
        store(&space, 2, 5);
        assert_eq!((peek(&space, 2), peek(&space, 1)), (Some(5), Some(0)));
        space.unmap(at(0), 3 * BYTES).unwrap();
        assert_eq!(counts(vm, &[&space], 4), (4, 0));
    });
}

#[test]
fn a_length_is_rounded_up_and_base_pages_are_refused() {
    with_pool(2, |vm, space| {
        let anywhere = MapRequest { flags: RW, ..MapRequest::anonymous(1) };
        let addr = space.map(&anywhere.backed_by(MapBacking::Hugetlb(PageSize::Huge))).unwrap();
        let HugetlbCounts { free, reserved, .. } = vm.memory().hugetlb().counts(PageSize::Huge);
        assert_eq!((addr.0 % BYTES, free, reserved), (0, 2, 1));
        space.unmap(addr, BYTES).unwrap();
        let refused =
            |request: MapRequest, size| space.map(&request.backed_by(MapBacking::Hugetlb(size))).unwrap_err();
        assert_eq!(refused(request(0, 1), PageSize::Base), Error::Invalid);
        assert_eq!(refused(MapRequest { len_bytes: 0, ..request(0, 1) }, PageSize::Huge), Error::Invalid);
        let between = Place::Fixed(VirtAddr(at(0).0 + PAGE));
        assert_eq!(refused(MapRequest { place: between, ..request(0, 1) }, PageSize::Huge), Error::Invalid);
        assert_eq!(refused(request(0, 3), PageSize::Huge), Error::NoMemory);
        assert_eq!(refused(MapRequest { len_bytes: u64::MAX, ..anywhere }, PageSize::Huge), Error::NoMemory);
        assert_eq!(refused(request(0, 1), PageSize::Giant), Error::NoMemory, "its pool is empty");
    });
}

#[test]
fn a_hint_is_rounded_up_to_a_huge_page() {
    with_pool(3, |_, space| {
        let hint = |page: u64, more| Place::Hint(VirtAddr(at(page).0 + more));
        let map = |place| {
            space
                .map(&MapRequest { place, ..request(0, 1) }.backed_by(MapBacking::Hugetlb(PageSize::Huge)))
                .unwrap()
        };
        assert_eq!(map(hint(4, PAGE)), at(5));
        let elsewhere = map(hint(5, 0));
        assert_eq!((elsewhere == at(5), elsewhere.0 % BYTES), (false, 0), "taken");
        let low = map(Place::Low(VirtAddr(0)));
        assert!(low.0 < 2 << 30 && low.0.is_multiple_of(BYTES));
    });
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
