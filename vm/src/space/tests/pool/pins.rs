//! Pins of pages of the pool: each is of one frame of the folio, and keeps all of it.

use super::*;
use crate::space::Advice;
use crate::space::tests::world::pins::{Limit, assert_pinned, pfns, slots};
use crate::table::FastPinRefusal;
use crate::units::Pfn;

/// The base pages of a huge page around its middle.
const MIDDLE: u64 = HUGE / 2;

fn middle(page: u64) -> VirtAddr {
    Vpn(BASE + page * HUGE + MIDDLE).addr()
}

#[test]
fn a_pin_is_of_the_frame_of_its_page() {
    with_pool(2, |vm, space| {
        map(&space, 0, 2);
        let limit = Limit::new(99);
        let fast = space.try_pin_fast(middle(0), Access::Write, &limit, slots(3), &vm.read());
        assert_eq!(fast.map(drop).unwrap_err(), FastPinRefusal::NotPresent);
        // Also a pin to read makes the page present.
        let slow = space.pin_pages_slow(middle(0), Access::Read, &limit, slots(3)).unwrap();
        let head = leaf(&space, 0).unwrap().pfn;
        let expected = [0, 1, 2].map(|nth| Pfn(head.0 + MIDDLE + nth));
        assert_eq!(pfns(&slow), expected);
        let fast = space.try_pin_fast(middle(0), Access::Write, &limit, slots(3), &vm.read()).unwrap();
        assert_eq!(pfns(&fast), expected);
        let across = VirtAddr(at(1).0 - 2 * PAGE);
        let both = space.pin_pages(across, Access::Write, &limit, slots(4)).unwrap();
        let second = leaf(&space, 1).unwrap().pfn;
        assert_eq!(pfns(&both), [Pfn(head.0 + HUGE - 2), Pfn(head.0 + HUGE - 1), second, second.add(1)]);
        let state = vm.memory().meta(head).unwrap();
        assert_eq!((state.pincount(), state.state().refcount()), (8, 9));
        assert_eq!(vm.memory().check().unwrap().pinned, 10);
        drop((slow, fast, both));
        assert_eq!((state.pincount(), state.state().refcount()), (0, 1));
        assert_pinned(vm, &[]);
    });
}

#[test]
fn pinned_memory_leaves_a_mapping_and_comes_back_later() {
    with_pool(2, |vm, space| {
        map(&space, 0, 2);
        (0..2).for_each(|page| store(&space, page, 6));
        let limit = Limit::new(9);
        let pins = space.pin_pages(middle(1), Access::Write, &limit, slots(1)).unwrap();
        space.unmap(at(0), 2 * BYTES).unwrap();
        assert_eq!(counts(vm, &[&space], 2), (1, 0));
        assert_eq!(try_map(&space, 0, 2), Err(Error::NoMemory));
        vm.machine().write(pfns(&pins)[0], 0, &[1]);
        pins.unpin();
        assert_eq!(counts(vm, &[&space], 2), (2, 0));
    });
}

#[test]
fn what_is_pinned_is_dropped_and_set_aside_as_far_as_another_page_is_available() {
    with_pool(3, |vm, space| {
        map(&space, 0, 2);
        (0..2).for_each(|page| store(&space, page, 6));
        let limit = Limit::new(9);
        let pin = |page| space.pin_pages(middle(page), Access::Write, &limit, slots(1)).unwrap();
        let pins = [pin(0), pin(1)];
        // One page is available: it is set aside for the first, and none for the second.
        space.advise(at(0), 2 * BYTES, Advice::DontNeed).unwrap();
        assert_eq!(counts(vm, &[&space], 2), (1, 1));
        assert_eq!(
            (entry(&space, 0), entry(&space, 1)),
            (SlotMarker::HugetlbReserved.entry(), Entry::Absent)
        );
        assert_eq!(fault(&space, 1, Access::Write), Err(FaultError::HugetlbEmpty));
        store(&space, 0, 7);
        drop(pins);
        assert_eq!(counts(vm, &[&space], 2), (2, 0));
        store(&space, 1, 8);
        assert_eq!([0, 1].map(|page| peek(&space, page)), [7, 8].map(Some));
    });
}

#[test]
fn a_fork_copies_what_is_pinned() {
    with_pool(2, |_, space| {
        map(&space, 0, 1);
        store(&space, 0, 6);
        let limit = Limit::new(9);
        let pins = space.pin_pages(middle(0), Access::Write, &limit, slots(1)).unwrap();
        let child = space.fork().unwrap();
        store(&space, 0, 7);
        assert_eq!((peek(&space, 0), peek(&child, 0)), (Some(7), Some(6)));
        assert_eq!(leaf(&space, 0).unwrap().pfn.add(MIDDLE), pfns(&pins)[0], "the parent keeps its own");
        drop(pins);
    });
}

#[test]
fn a_debugger_writes_only_what_the_program_may() {
    with_pool(1, |_, space| {
        map(&space, 0, 1);
        space.protect(at(0), BYTES, VmaFlags::READ).unwrap();
        assert_eq!(space.copy_to_forced(at(0), &[1]), Err(Error::Fault));
        space.protect(at(0), BYTES, RW).unwrap();
        assert_eq!(space.copy_to_forced(at(0), &[1]), Ok(1));
    });
}
