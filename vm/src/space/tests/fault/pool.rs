//! Faults in the hugetlb pool.

use crate::space::tests::world::pool::{
    BYTES, RW, at, counts, fault, free, map, map_unreserved, object, peek, shared, store, with_pool,
};
use crate::space::{AddressSpace, Advice, Error, FaultError, MapBacking, MapRequest, MemlockLimit, Path};
use crate::units::{Access, PageSize};
use crate::vma::VmaFlags;

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
