//! Pins of pages of the pool: each is of one frame of the folio, and keeps all of it.

use crate::machine::Entry;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::pins::{Limit, assert_pinned, pfns, slots};
use crate::space::tests::world::pool::{
    BYTES, HUGE, MIDDLE, at, counts, entry, fault, free, leaf, map, map_shared, middle, peek, pfn, store,
    try_map, with_paths, with_pool,
};
use crate::space::{Advice, Error, FaultError, MemlockLimit};
use crate::table::{FastPinRefusal, SlotMarker};
use crate::units::{Access, Pfn, VirtAddr};

#[test]
fn a_pin_is_of_a_page_that_is_the_spaces_alone() {
    with_paths(2, 1, |vm, space| {
        let child = space.fork().unwrap();
        let limit = Limit::new(9);
        let fast = child.try_pin_fast(at(0), Access::Read, &limit, slots(1), &vm.read());
        assert!(fast.is_err(), "a page is pinned that another space has");
        // To read, too: what a device reads is what the program stores.
        let pins = child.pin_pages(at(0), Access::Read, &limit, slots(1)).unwrap();
        assert_ne!(pfn(&child, 0), pfn(&space, 0));
        store(&child, 0, 5);
        assert_eq!((pfns(&pins)[0], peek(&child, 0), peek(&space, 0)), (pfn(&child, 0), Some(5), Some(1)));
        // The parent has its page alone now: its pin copies nothing.
        let before = pfn(&space, 0);
        drop(space.pin_pages(at(0), Access::Read, &limit, slots(1)).unwrap());
        assert_eq!(pfn(&space, 0), before);
        drop(pins);
    });
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
