//! Memory in fragments, and memory that is short: everything works with base pages.

use crate::frame::AllocRequest;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{
    HUGE, THP, at, counted, is_huge, map, peek, resident, store, with_space,
};
use crate::units::Order;
use std::vec::Vec;

#[test]
fn in_fragmented_memory_everything_works_by_base_pages() {
    with_space(|vm, space| {
        // One frame of every folio of 2 MiB is in use.
        let frames: Vec<_> = core::iter::from_fn(|| vm.memory().alloc_frame(AllocRequest::DIRTY)).collect();
        let mut folios = std::collections::BTreeSet::new();
        let kept: Vec<_> = frames.into_iter().filter(|frame| folios.insert(frame.pfn().0 / HUGE)).collect();
        vm.trim();
        assert!(vm.memory().alloc(Order::HUGE, AllocRequest::DIRTY).is_none());
        map(&space, 0, 3 * HUGE);
        for page in [0, 1, HUGE + 9, 2 * HUGE, 2 * HUGE + 1] {
            store(&space, page, 7);
        }
        assert_eq!(counted(vm, THP), [0, 3, 0, 0], "once for each table");
        assert_eq!(resident(&space, 3 * HUGE), 5);
        let child = space.fork().unwrap();
        assert_eq!(peek(&child, HUGE + 9), Some(7));
        space.unmap(at(HUGE - 3), 2 * HUGE * PAGE).unwrap();
        drop((child, kept));
        vm.trim();
        map(&space, HUGE - 3, 2 * HUGE);
        store(&space, HUGE, 1);
        assert!(is_huge(&space, HUGE), "the memory is whole again");
    });
}

#[test]
fn a_folio_that_no_fault_has_used_is_free_again_as_zeroed() {
    with_space(|vm, _| {
        let folio = vm.memory().alloc_zeroed_folio(crate::frame::FramePlacement::Local, Order::HUGE).unwrap();
        let first = folio.pfn();
        drop(folio);
        let again = vm.memory().alloc_zeroed_folio(crate::frame::FramePlacement::Local, Order::HUGE).unwrap();
        assert_eq!((again.pfn(), again.order()), (first, Order::HUGE));
        assert!(vm.memory().alloc_zeroed_folio(crate::frame::FramePlacement::Local, Order(11)).is_none());
        drop(again.into_mapped());
    });
}
