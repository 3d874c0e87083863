//! Pins without a lock: what they refuse and why, and that they count as other pins do.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::base::{
    TestSpace, TestVm, copied_and_reused, counts, frame, leaf, map, page, store, with_space,
};
use crate::space::tests::world::pins::{Limit, Pins, assert_pinned, pfns, pin, slots};
use crate::space::{Advice, Fault, MapBacking, MapRequest, Place, Sharing};
use crate::table::testing::pfnmap_nowhere;
use crate::table::{FastPinRefusal, LeafBits, walk};
use crate::units::{Access, Level, PageSize, Pfn, PfnRange, Rights, VirtAddr};
use crate::vma::VmaFlags;

fn fast<'a, 'v>(
    space: &TestSpace<'v>,
    addr: VirtAddr,
    pages: usize,
    access: Access,
    limit: &'a Limit,
) -> Result<Pins<'a, 'v>, FastPinRefusal> {
    space.try_pin_fast(addr, access, limit, slots(pages), &space.vm().read())
}

fn refusal(space: &TestSpace<'_>, nr: u64, access: Access) -> Option<FastPinRefusal> {
    fast(space, page(nr), 1, access, &Limit::new(9)).err()
}

/// As a scan that ages pages, and writeback, leave it.
fn forget_use(vm: &TestVm<'_>, space: &TestSpace<'_>, nr: u64) {
    let reading = vm.read();
    let found = walk(space.inspect().page_table(), page(nr).vpn(), Level::Pte, &reading);
    let mut table = found.table.lock().unwrap();
    table.adjust(found.slot, |leaf| {
        let bits = LeafBits::of(leaf);
        Some(LeafBits { accessed: false, dirty: false, ..bits })
    });
}

#[test]
fn pages_that_are_there_are_pinned_without_a_lock_and_fork_copies_them() {
    with_space(|vm, parent| {
        let limit = Limit::new(10);
        map(&parent, 0, 9);
        (0..6).for_each(|nr| store(&parent, page(nr), 1));
        for access in [Access::Read, Access::Write] {
            let pins = fast(&parent, VirtAddr(page(2).0 + 7), 7, access, &limit).unwrap();
            assert_eq!((pins.len(), limit.locked_pages()), (4, 4), "up to the first page that is absent");
            assert_eq!(pfns(&pins), [2, 3, 4, 5].map(|nr| frame(&parent, page(nr))));
            let child = parent.fork().unwrap();
            assert_eq!(copied_and_reused(vm).0, if access == Access::Read { 4 } else { 8 });
            assert!((2..6).all(|nr| frame(&child, page(nr)) != frame(&parent, page(nr))));
            assert_eq!(frame(&child, page(0)), frame(&parent, page(0)));
            assert_pinned(vm, &[&pins]);
            drop((pins, child));
            (0..6).for_each(|nr| store(&parent, page(nr), 1));
            assert_eq!((limit.locked_pages(), counts(vm).pinned), (0, 0));
        }
    });
}

#[test]
fn what_has_to_wait_for_a_lock_is_refused_by_name() {
    use FastPinRefusal::*;
    with_space(|vm, space| {
        map(&space, 0, 4);
        assert_eq!(refusal(&space, 0, Access::Read), Some(NotPresent));
        space.fault(Fault { addr: page(0), access: Access::Read }).unwrap();
        assert_eq!(refusal(&space, 0, Access::Read), Some(NotOwned), "the zero page");
        assert_eq!(refusal(&space, 0, Access::Write), Some(NotAllowed));
        store(&space, page(1), 1);
        assert_eq!(refusal(&space, 1, Access::Write), None);
        let child = space.fork().unwrap();
        assert_eq!(refusal(&space, 1, Access::Write), Some(NotAllowed));
        assert_eq!(refusal(&space, 1, Access::Read), Some(NotPinnable), "shared");
        drop(child);
        store(&space, page(1), 1);
        assert_eq!(refusal(&space, 1, Access::Read), None);
        space.advise(page(1), PAGE, Advice::Free).unwrap();
        assert_eq!(refusal(&space, 1, Access::Read), Some(NotPinnable), "it may be discarded");
        store(&space, page(1), 1);
        space.protect(page(1), PAGE, VmaFlags::empty()).unwrap();
        assert_eq!(refusal(&space, 1, Access::Read), Some(NotAllowed));
        assert_eq!(refusal(&space, 4, Access::Read), Some(NotPresent), "a hole");
        let one_too_many = fast(&space, page(0), 10, Access::Read, &Limit::new(9)).err();
        assert_eq!(one_too_many, Some(OverLimit));
        assert!(fast(&space, page(0), 0, Access::Read, &Limit::new(0)).unwrap().is_empty());
        for addr in [0, 1 << 47, (1 << 48) + page(1).0, u64::MAX] {
            let refused = fast(&space, VirtAddr(addr), 1, Access::Read, &Limit::new(9)).err();
            assert_eq!(refused, Some(NotPresent), "{addr:#x}");
        }
        assert_eq!(counts(vm).pinned, 0);
    });
}

#[test]
fn pfn_mapped_frames_are_refused_whatever_the_size_of_their_leaf() {
    with_space(|_, space| {
        let frames = PfnRange { start: Pfn(1 << 24), end: Pfn((1 << 24) + 1024) };
        let pfnmap = pfnmap_nowhere(frames, Rights::all());
        for size in [PageSize::Huge, PageSize::Base] {
            let place = Place::Fixed(VirtAddr(1 << 40));
            let request =
                MapRequest { place, sharing: Sharing::Shared, ..MapRequest::anonymous(1024 * PAGE) };
            space
                .map(&request.backed_by(MapBacking::Pfn {
                    frames: &pfnmap,
                    first: frames.start,
                    largest: size,
                }))
                .unwrap();
            let addr = VirtAddr((1 << 40) + 5 * PAGE);
            let refused = fast(&space, addr, 1, Access::Read, &Limit::new(9)).err();
            assert_eq!(refused, Some(FastPinRefusal::NotOwned), "{size:?}");
        }
    });
}

#[test]
fn a_fast_pin_leaves_in_the_entry_what_the_access_would() {
    with_space(|vm, space| {
        let limit = Limit::new(9);
        map(&space, 0, 1);
        store(&space, page(0), 1);
        for (access, expected) in [(Access::Read, (true, false)), (Access::Write, (true, true))] {
            forget_use(vm, &space, 0);
            drop(fast(&space, page(0), 1, access, &limit).unwrap());
            let leaf = leaf(&space, page(0)).unwrap();
            assert_eq!((leaf.accessed, leaf.dirty), expected, "{access:?}");
        }
    });
}

/// What a device writes is not to be discarded any more.
#[test]
fn a_pin_to_write_takes_back_that_the_contents_may_go() {
    with_space(|vm, space| {
        let limit = Limit::new(10);
        map(&space, 0, 1);
        store(&space, page(0), 1);
        space.advise(page(0), PAGE, Advice::Free).unwrap();
        let is_lazyfree = || vm.memory().meta(frame(&space, page(0))).unwrap().state().is_lazyfree();
        drop(pin(&space, page(0), 1, Access::Read, &limit).unwrap());
        assert!(is_lazyfree(), "a load leaves the contents as they are");
        let pins = pin(&space, page(0), 1, Access::Write, &limit).unwrap();
        assert!(!is_lazyfree());
        drop(pins);
    });
}
