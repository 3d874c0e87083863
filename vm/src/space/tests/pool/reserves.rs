//! What mmap sets aside, what a fault takes, and what a mapping without a reserve gets.

use super::*;
use crate::space::{Advice, Path};
use crate::units::{NodeId, NodeMask};
use crate::vma::{PolicyMode, PolicyRequest};

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
fn without_a_reserve_a_fault_may_be_a_bus_error() {
    for path in Path::ALL {
        with_pool(3, |vm, space| {
            let space = {
                let layout = *space.layout();
                drop(space);
                AddressSpace::new(vm, layout, path).unwrap()
            };
            map(&space, 0, 2);
            map_unreserved(&space, 4, 3);
            assert_eq!(counts(vm, &[&space], 8), (3, 2));
            fault(&space, 5, Access::Read).unwrap();
            assert_eq!(counts(vm, &[&space], 8), (2, 2), "the last one that is not set aside");
            for access in [Access::Read, Access::Write] {
                assert_eq!(fault(&space, 4, access), Err(FaultError::HugetlbEmpty));
            }
            assert_eq!(space.copy_to(at(4), &[1]), Err(Error::Fault));
            for advice in [Advice::PopulateRead, Advice::PopulateWrite] {
                assert_eq!(space.advise(at(4), BYTES, advice), Err(Error::Fault));
            }
            assert_eq!(counts(vm, &[&space], 8), (2, 2));
            (0..2).for_each(|page| store(&space, page, 1));
            space.unmap(at(0), BYTES).unwrap();
            fault(&space, 4, Access::Write).unwrap();
            assert_eq!(counts(vm, &[&space], 8), (0, 0));
        });
    }
}

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
        assert!((3..6).contains(&counts.total), "{counts:?} of five blocks and some frames in use");
        assert_eq!((counts.free, counts.surplus), (counts.total, 0));
        assert_eq!(vm.resize_hugetlb(PageSize::Giant, 1), HugetlbCounts::default());
        assert_eq!(vm.resize_hugetlb(PageSize::Base, 1), HugetlbCounts::default());
        vm.resize_hugetlb(PageSize::Huge, 2);
    });
}

#[test]
fn pages_come_zeroed_whatever_they_held() {
    with_pool(1, |_, space| {
        for byte in 1..4 {
            map(&space, 0, 1);
            fault(&space, 0, Access::Read).unwrap();
            assert_eq!(peek(&space, 0), Some(0));
            store(&space, 0, byte);
            space.unmap(at(0), BYTES).unwrap();
        }
    });
}

#[test]
fn populating_and_other_processes_take_pages() {
    with_pool(4, |vm, space| {
        let populated = MapRequest { populate: true, ..request(0, 2) };
        space.map(&populated.backed_by(MapBacking::Hugetlb(PageSize::Huge))).unwrap();
        assert_eq!((counts(vm, &[&space], 4), peek(&space, 1)), ((2, 0), Some(0)));
        map(&space, 2, 2);
        space.copy_to(VirtAddr(at(2).0 + BYTES - 2), &[1, 2, 3, 4]).unwrap();
        let mut bytes = [0; 4];
        space.copy_from(VirtAddr(at(2).0 + BYTES - 2), &mut bytes).unwrap();
        assert_eq!((bytes, counts(vm, &[&space], 4)), ([1, 2, 3, 4], (0, 0)));
        let mut resident = 0;
        space.mincore(at(0), 4 * BYTES, |_, is_resident| resident += u64::from(is_resident)).unwrap();
        assert_eq!(resident, 4 * HUGE);
    });
}

#[test]
fn a_policy_says_where_pages_come_from() {
    with_pool(2, |_, space| {
        map(&space, 0, 2);
        let nodes = NodeMask::of(NodeId(0)).bits();
        let request = PolicyRequest { mode: PolicyMode::Bind, flags: Default::default(), nodes };
        space.set_policy(at(0), BYTES, request, Default::default()).unwrap();
        (0..2).for_each(|page| store(&space, page, 3));
        assert_eq!(space.inspect().nr_mappings(), 2);
    });
}
