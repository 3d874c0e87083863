//! Pins: a pinned page keeps its frame, whatever its owner and forks do; and all that was counted goes.

use crate::frame::Base;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::base::{
    READ_WRITE, TABLE, TestSpace, TestVm, copied_and_reused, counts, frame, leaf, load, map, page, store,
    with_space,
};
use crate::space::tests::world::pins::{Limit, Pins, assert_pinned, pfns, pin};
use crate::space::{AddressSpace, Advice, Error, MapRequest, Path, Place, Sharing};
use crate::table::{LeafBits, walk};
use crate::units::{Access, Level, Rights, VirtAddr};
use crate::vma::VmaFlags;
use std::vec::Vec;

/// What a device reads and writes through a pin.
fn device_store(vm: &TestVm<'_>, pins: &Pins<'_, '_>, nr: usize, byte: u8) {
    vm.machine().write(pfns(pins)[nr], 0, &[byte]);
}

fn device_load(vm: &TestVm<'_>, pins: &Pins<'_, '_>, nr: usize) -> u8 {
    let mut byte = [0];
    vm.machine().read(pfns(pins)[nr], 0, &mut byte);
    byte[0]
}

#[test]
fn a_pinned_page_is_the_same_memory_for_the_device_and_the_program() {
    with_space(|vm, space| {
        let limit = Limit::new(10);
        map(&space, 0, 4);
        store(&space, page(1), 1);
        assert_eq!(load(&space, page(2)), 0, "the zero page");
        for access in [Access::Read, Access::Write] {
            let pins = pin(&space, VirtAddr(page(0).0 + 5), 4, access, &limit).unwrap();
            assert_eq!((pins.len(), limit.locked_pages(), pins.pages().start), (4, 4, page(0).vpn()));
            assert_pinned(vm, &[&pins]);
            for nr in 0..4 {
                store(&space, page(nr), 20 + nr as u8);
                assert_eq!(device_load(vm, &pins, nr as usize), 20 + nr as u8, "{access:?}");
                device_store(vm, &pins, nr as usize, 30 + nr as u8);
                assert_eq!(load(&space, page(nr)), 30 + nr as u8, "{access:?}");
            }
            drop(pins);
            assert_pinned(vm, &[]);
            assert_eq!(limit.locked_pages(), 0);
            space.advise(page(0), 4 * PAGE, Advice::DontNeed).unwrap();
        }
    });
}

#[test]
fn a_pin_to_read_takes_a_frame_that_a_later_write_goes_to() {
    with_space(|vm, parent| {
        let limit = Limit::new(10);
        map(&parent, 0, 3);
        (0..2).for_each(|nr| store(&parent, page(nr), 1));
        assert_eq!(load(&parent, page(2)), 0);
        let child = parent.fork().unwrap();
        parent.protect(page(0), 3 * PAGE, VmaFlags::READ).unwrap();
        let pins = pin(&parent, page(0), 3, Access::Read, &limit).unwrap();
        assert_eq!(copied_and_reused(vm), (2, 0), "the child maps them too");
        let has = |nr| leaf(&parent, page(nr)).unwrap();
        assert!((0..3).all(|nr| has(nr).pfn == pfns(&pins)[nr as usize]));
        assert!((0..3).all(|nr| !has(nr).rights.contains(Rights::WRITE)), "the mapping allows no writes");
        assert_ne!(pfns(&pins)[2], vm.memory().zero_frame());
        parent.protect(page(0), 3 * PAGE, READ_WRITE).unwrap();
        for nr in 0..3 {
            store(&parent, page(nr), 9);
            assert_eq!(device_load(vm, &pins, nr as usize), 9);
            assert_eq!(load(&child, page(nr)), u8::from(nr < 2));
        }
        assert_eq!(copied_and_reused(vm), (2, 0), "pinned frames are written in place");
        assert_pinned(vm, &[&pins]);
    });
}

#[test]
fn a_frame_that_nobody_else_maps_any_more_is_pinned_without_a_copy() {
    with_space(|vm, parent| {
        let limit = Limit::new(10);
        map(&parent, 0, 1);
        store(&parent, page(0), 1);
        drop(parent.fork().unwrap());
        let before = frame(&parent, page(0));
        let pins = pin(&parent, page(0), 1, Access::Read, &limit).unwrap();
        assert_eq!((pfns(&pins)[0], copied_and_reused(vm)), (before, (0, 1)));
        store(&parent, page(0), 2);
        assert_eq!(frame(&parent, page(0)), before);
    });
}

#[test]
fn a_fork_copies_what_is_pinned_and_shares_the_rest() {
    with_space(|vm, parent| {
        let limit = Limit::new(10);
        map(&parent, 0, TABLE + 4);
        let written = [0, 1, 2, TABLE, TABLE + 1];
        written.iter().for_each(|&nr| store(&parent, page(nr), 10 + nr as u8));
        let pinned = [1, TABLE];
        let pins: Vec<_> =
            pinned.iter().map(|&nr| pin(&parent, page(nr), 1, Access::Write, &limit).unwrap()).collect();
        let child = parent.fork().unwrap();
        for nr in written {
            let shared = frame(&parent, page(nr)) == frame(&child, page(nr));
            assert_eq!(shared, !pinned.contains(&nr), "{nr}");
            let state = vm.memory().meta(frame(&parent, page(nr))).unwrap().state();
            assert_eq!(state.is_exclusive(), pinned.contains(&nr), "{nr}");
            assert_eq!(load(&child, page(nr)), 10 + nr as u8);
        }
        assert_eq!(copied_and_reused(vm), (2, 0));
        for (&nr, pins) in pinned.iter().zip(&pins) {
            device_store(vm, pins, 0, 70);
            assert_eq!((load(&parent, page(nr)), load(&child, page(nr))), (70, 10 + nr as u8));
            store(&parent, page(nr), 71);
            assert_eq!((device_load(vm, pins, 0), load(&child, page(nr))), (71, 10 + nr as u8));
            store(&child, page(nr), 72);
            assert_eq!(load(&parent, page(nr)), 71);
        }
        assert_eq!(copied_and_reused(vm), (2, 0), "neither side copies them again");
        assert_pinned(vm, &pins.iter().collect::<Vec<_>>());
        child.inspect().check_index().unwrap();
        drop(parent);
        assert_eq!(device_load(vm, &pins[0], 0), 71);
        let again = child.fork().unwrap();
        assert_eq!(frame(&again, page(1)), frame(&child, page(1)), "the child's copy is not pinned");
    });
}

#[test]
fn a_load_does_not_let_a_pinned_page_be_written_while_a_fork_copies() {
    with_space(|vm, space| {
        let limit = Limit::new(10);
        map(&space, 0, 1);
        let pins = pin(&space, page(0), 1, Access::Write, &limit).unwrap();
        // As after an mprotect to no rights, and back.
        let reading = vm.read();
        let found = walk(space.inspect().page_table(), page(0).vpn(), Level::Pte, &reading);
        let (mut table, slot) = (found.table.lock().unwrap(), found.slot);
        drop(reading);
        table.adjust(slot, |leaf| Some(LeafBits { rights: Rights::empty(), ..LeafBits::of(leaf) }));
        drop(table);
        let fork = space.entries.fork.begin();
        fork.advance(page(1).vpn());
        load(&space, page(0));
        assert_eq!(leaf(&space, page(0)).unwrap().rights & Rights::WRITE, Rights::empty());
        drop(fork);
        store(&space, page(0), 1);
        assert_eq!(device_load(vm, &pins, 0), 1);
    });
}

#[test]
fn no_call_makes_a_pinned_frame_shared() {
    with_space(|_, space| {
        let limit = Limit::new(10);
        map(&space, 0, 1);
        let pins = pin(&space, page(0), 1, Access::Read, &limit).unwrap();
        let dup = || {
            let reading = space.vm().read();
            let found = walk(space.inspect().page_table(), page(0).vpn(), Level::Pte, &reading);
            found.table.lock().unwrap().dup(found.slot, Base).is_ok_and(|dup| dup.is_some())
        };
        assert!(!dup());
        drop(pins);
        assert!(dup());
    });
}

#[test]
fn pins_outlive_the_mapping_and_the_space() {
    with_space(|vm, space| {
        let limit = Limit::new(10);
        map(&space, 0, 3);
        (0..3).for_each(|nr| store(&space, page(nr), nr as u8));
        let pins = pin(&space, page(0), 3, Access::Write, &limit).unwrap();
        let again = pin(&space, page(1), 1, Access::Read, &limit).unwrap();
        assert_pinned(vm, &[&pins, &again]);
        space.unmap(page(0), PAGE).unwrap();
        space.advise(page(1), PAGE, Advice::DontNeed).unwrap();
        assert_eq!(load(&space, page(1)), 0, "a new page");
        map(&space, 0, 1);
        store(&space, page(0), 50);
        assert_eq!([0, 1, 2].map(|nr| device_load(vm, &pins, nr)), [0, 1, 2]);
        drop(space);
        assert_pinned(vm, &[&pins, &again]);
        let taken: Vec<_> = core::iter::from_fn(|| vm.memory().alloc_zeroed(crate::frame::Priority::Normal))
            .take(100)
            .collect();
        assert!(taken.iter().all(|frame| !pfns(&pins).contains(&frame.pfn())), "a pinned frame was freed");
        drop(pins);
        assert_eq!((device_load(vm, &again, 0), limit.locked_pages()), (1, 1));
    });
}

#[test]
fn the_limit_holds_for_all_spaces_together_and_what_is_not_pinned_is_given_back() {
    with_space(|vm, space| {
        let other = crate::space::tests::world::space_of(vm);
        let limit = Limit::new(5);
        map(&space, 0, 4);
        map(&other, 0, 9);
        let pins = pin(&space, page(2), 4, Access::Write, &limit).unwrap();
        assert_eq!((pins.len(), limit.locked_pages()), (2, 2), "a hole after two pages");
        assert_eq!(pin(&other, page(0), 4, Access::Write, &limit).unwrap_err(), Error::NoMemory);
        assert_eq!((limit.locked_pages(), leaf(&other, page(0))), (2, None));
        let rest = pin(&other, page(0), 3, Access::Write, &limit).unwrap();
        assert_eq!(limit.locked_pages(), 5);
        assert_eq!(pin(&other, page(0), 1, Access::Read, &limit).unwrap_err(), Error::NoMemory);
        assert_eq!(pin(&other, page(0), 0, Access::Read, &limit).unwrap().len(), 0);
        drop((pins, rest));
        assert_eq!((limit.locked_pages(), limit.max_pages()), (0, 5));
        let none = Limit::new(u64::MAX);
        let all = pin(&other, page(0), 9, Access::Read, &none).unwrap();
        assert_eq!(none.locked_pages(), 9);
        assert_pinned(vm, &[&all]);
    });
}

#[test]
fn what_may_not_be_accessed_is_not_pinned() {
    with_space(|vm, space| {
        let limit = Limit::new(10);
        map(&space, 0, 3);
        space.protect(page(0), PAGE, VmaFlags::READ).unwrap();
        space.protect(page(1), PAGE, VmaFlags::empty()).unwrap();
        let refused = |nr, access| pin(&space, page(nr), 1, access, &limit).unwrap_err();
        assert_eq!(refused(0, Access::Write), Error::Fault);
        assert_eq!([Access::Read, Access::Write].map(|access| refused(1, access)), [Error::Fault; 2]);
        assert_eq!(refused(3, Access::Read), Error::Fault, "a hole");
        for addr in [0, PAGE - 1, 1 << 47, u64::MAX, u64::MAX - PAGE] {
            assert_eq!(pin(&space, VirtAddr(addr), 2, Access::Read, &limit).unwrap_err(), Error::Fault);
        }
        assert_eq!(leaf(&space, page(0)), None, "nothing was made present");
        assert_eq!((limit.locked_pages(), counts(vm).pinned), (0, 0));
    });
}

#[test]
fn pages_of_objects_are_pinned_and_stay_shared() {
    with_space(|vm, parent| {
        let limit = Limit::new(10);
        let place = Place::Fixed(page(0));
        let request = MapRequest { place, sharing: Sharing::Shared, ..MapRequest::anonymous(2 * PAGE) };
        parent.map(&request).unwrap();
        store(&parent, page(0), 1);
        let pins = pin(&parent, page(0), 2, Access::Write, &limit).unwrap();
        let child = parent.fork().unwrap();
        device_store(vm, &pins, 0, 5);
        device_store(vm, &pins, 1, 6);
        let contents = |space: &TestSpace<'_>| [0, 1].map(|nr| load(space, page(nr)));
        assert_eq!((contents(&parent), contents(&child)), ([5, 6], [5, 6]));
        let theirs = pin(&child, page(0), 1, Access::Read, &limit).unwrap();
        assert_eq!(pfns(&theirs)[0], pfns(&pins)[0]);
        assert_pinned(vm, &[&pins, &theirs]);
        drop((parent, child));
        assert_eq!(device_load(vm, &theirs, 0), 5);
    });
}

#[test]
fn a_pin_to_write_says_that_the_page_is_written() {
    with_space(|_, space| {
        let limit = Limit::new(10);
        map(&space, 0, 2);
        (0..2).for_each(|nr| store(&space, page(nr), 1));
        space.advise(page(0), 2 * PAGE, Advice::Free).unwrap();
        let discardable = |nr| {
            let reading = space.vm().read();
            let found = walk(space.inspect().page_table(), page(nr).vpn(), Level::Pte, &reading);
            found.table.lock().unwrap().is_discardable(found.slot)
        };
        assert!(discardable(0) && discardable(1));
        let pins = pin(&space, page(0), 1, Access::Write, &limit).unwrap();
        assert!(leaf(&space, page(0)).unwrap().dirty);
        let read = pin(&space, page(1), 1, Access::Read, &limit).unwrap();
        assert!(!discardable(1), "as long as it is pinned");
        drop((pins, read));
        assert!(!discardable(0) && discardable(1));
        assert_eq!(load(&space, page(0)), 1);
    });
}

#[test]
fn a_pin_that_lacks_memory_is_refused_and_leaves_all_counts_as_they_were() {
    for path in Path::ALL {
        with_space(|vm, parent| {
            let space = AddressSpace::new(vm, *parent.layout(), path).unwrap();
            let limit = Limit::new(10);
            map(&space, 0, 3);
            store(&space, page(0), 1);
            let child = space.fork().unwrap();
            for nr in [0, 1, 2] {
                vm.trim();
                vm.memory().plan_mishaps_from(1);
                let refused = pin(&space, page(nr), 1, Access::Read, &limit).map(|pins| pins.len());
                vm.memory().plan_mishap(0);
                assert_eq!(refused, Err(Error::NoMemory), "{path:?}");
                assert_eq!((limit.locked_pages(), counts(vm).pinned), (0, 0));
            }
            // The first page can be pinned once it is the space's own; the second one lacks memory.
            drop(pin(&space, page(0), 1, Access::Read, &limit).unwrap());
            vm.trim();
            vm.memory().plan_mishaps_from(1);
            let pins = pin(&space, page(0), 3, Access::Read, &limit).unwrap();
            vm.memory().plan_mishap(0);
            assert_eq!((pins.len(), limit.locked_pages()), (1, 1));
            assert_eq!(load(&child, page(0)), 1);
            assert_pinned(vm, &[&pins]);
        });
    }
}

#[test]
fn a_fork_that_lacks_memory_for_copies_leaves_the_parent_and_all_counts_as_they_were() {
    with_space(|vm, parent| {
        let limit = Limit::new(10);
        for nr in [0, 1, TABLE] {
            map(&parent, nr, 1);
            store(&parent, page(nr), 7);
        }
        let pins = [1, TABLE].map(|nr| pin(&parent, page(nr), 1, Access::Write, &limit).unwrap());
        let before = counts(vm);
        let mut failures = 0;
        let child = loop {
            vm.trim();
            vm.memory().plan_mishaps_from(failures + 1);
            let forked = parent.fork();
            vm.memory().plan_mishap(0);
            match forked {
                Ok(child) => break child,
                Err(error) => assert_eq!(error, Error::NoMemory),
            }
            failures += 1;
            assert_eq!(counts(vm).allocated, before.allocated);
            assert_pinned(vm, &[&pins[0], &pins[1]]);
            for nr in [0, 1, TABLE] {
                store(&parent, page(nr), 7);
            }
        };
        assert!(failures > 5, "{failures} allocations failed");
        assert!(pins.iter().all(|pins| device_load(vm, pins, 0) == 7));
        store(&parent, page(1), 8);
        assert_eq!(load(&child, page(1)), 7);
        assert_eq!(device_load(vm, &pins[0], 0), 8);
    });
}
