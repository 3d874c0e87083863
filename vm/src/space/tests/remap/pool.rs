//! mremap of hugetlb pages: whole, with what is reserved for them.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::pool::{
    BYTES, TestSpace, at, entry, fault, leaf, map, peek, request, store, with_pool,
};
use crate::space::tests::world::remap::{FIXED, IN_PLACE, LEAVE, MAY_MOVE, remap};
use crate::space::{Error, MapBacking, MapRequest, RmapFound, Sharing};
use crate::table::SlotMarker;
use crate::units::{Access, PageSize, VirtAddr};
use core::ops::ControlFlow;

const FAR: u64 = 100;

fn go(space: &TestSpace<'_>, from: u64, pages: u64, to: u64) -> Result<VirtAddr, Error> {
    remap(space, (at(from), pages * BYTES), (at(to), pages * BYTES), FIXED)
}

#[test]
fn pages_and_reservations_move_whole() {
    with_pool(4, |vm, space| {
        map(&space, 0, 4);
        (1..3).for_each(|nr| store(&space, nr, 10 + nr as u8));
        let counts = || vm.memory().hugetlb().counts(PageSize::Huge);
        let before = counts();
        assert_eq!(go(&space, 1, 3, FAR), Ok(at(FAR)));
        assert_eq!(counts(), before, "what is reserved stays so");
        assert_eq!([FAR, FAR + 1].map(|nr| peek(&space, nr)), [Some(11), Some(12)]);
        assert_eq!(entry(&space, FAR + 2), SlotMarker::HugetlbReserved.entry());
        fault(&space, FAR + 2, Access::Write).unwrap();
        assert!(leaf(&space, 1).is_none());
        let reference = vm.memory().try_get(leaf(&space, FAR).unwrap().pfn).unwrap();
        let mut seen = None;
        let found = vm.rmap_walk(
            &reference,
            |_| Some(&space),
            |entry| {
                seen = Some(entry.page());
                ControlFlow::Continue(())
            },
        );
        assert_eq!((found, seen), (Ok(RmapFound::All(1)), Some(at(FAR).vpn())));
    });
}

#[test]
fn shared_pages_are_found_at_the_new_place() {
    with_pool(3, |_, space| {
        let shared = MapRequest { sharing: Sharing::Shared, ..request(0, 3) };
        space.map(&shared.backed_by(MapBacking::Hugetlb(PageSize::Huge))).unwrap();
        (0..3).for_each(|nr| store(&space, nr, 20 + nr as u8));
        assert_eq!(go(&space, 1, 2, FAR), Ok(at(FAR)));
        for nr in 0..2 {
            fault(&space, FAR + nr, Access::Read).unwrap();
            assert_eq!(peek(&space, FAR + nr), Some(21 + nr as u8));
        }
        assert_eq!(peek(&space, 0), Some(20));
    });
}

#[test]
fn what_would_cut_a_page_or_make_more_of_them_is_refused() {
    with_pool(2, |_, space| {
        map(&space, 0, 2);
        store(&space, 0, 1);
        let odd = VirtAddr(at(0).0 + PAGE);
        let far = VirtAddr(at(FAR).0 + PAGE);
        let cases = [
            ((odd, PAGE), (at(FAR), PAGE), FIXED),
            ((at(0), BYTES), (far, BYTES), FIXED),
            ((at(0), BYTES), (far, PAGE), IN_PLACE),
            ((at(0), 2 * BYTES), (at(0), 3 * BYTES), MAY_MOVE),
            ((at(0), BYTES), (at(FAR), BYTES), LEAVE),
            ((at(0), BYTES), (at(FAR), BYTES), LEAVE | FIXED),
        ];
        for (old, new, flags) in cases {
            assert_eq!(remap(&space, old, new, flags), Err(Error::Invalid), "{old:?} {new:?}");
        }
        assert_eq!(remap(&space, (at(0), PAGE), (at(FAR), PAGE), FIXED), Ok(at(FAR)), "rounded to a page");
        assert_eq!(peek(&space, FAR), Some(1));
        assert_eq!(remap(&space, (at(1), BYTES), (at(0), 1), IN_PLACE), Ok(at(1)));
    });
}
