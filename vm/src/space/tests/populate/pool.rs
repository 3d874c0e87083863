//! Populating from the hugetlb pool.

use crate::frame::HugetlbCounts;
use crate::space::tests::world::pool::{
    BYTES, HUGE, at, counts, free, map, object, peek, request, shared, with_pool,
};
use crate::space::{MapBacking, MapRequest};
use crate::units::{PageSize, VirtAddr};

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
