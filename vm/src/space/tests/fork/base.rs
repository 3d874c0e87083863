//! fork: what parent and child see of each other's writes, what is copied, and what a failure leaves.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::base::{
    READ_WRITE, TABLE, TestSpace, copied_and_reused, counts, frame, leaf, load, map, page, store, with_space,
};
use crate::space::{Advice, Error, Fault, MapRequest, Place, Sharing};
use crate::table::{LeafBits, walk};
use crate::units::{Access, Level, Rights, VirtAddr};
use crate::vma::{FlagAdvice, VmaAttributes, VmaFlags};
use std::vec::Vec;

fn mappings(space: &TestSpace<'_>) -> Vec<VmaAttributes> {
    let mut all = Vec::new();
    space.inspect().each_vma(|attributes| all.push(*attributes));
    all
}

#[test]
fn parent_and_child_see_what_was_there_and_not_what_the_other_writes() {
    with_space(|vm, parent| {
        map(&parent, 0, 4);
        (0..3).for_each(|nr| store(&parent, page(nr), 10 + nr as u8));
        let child = parent.fork().unwrap();
        assert!((0..3).all(|nr| frame(&parent, page(nr)) == frame(&child, page(nr))), "nothing is copied");
        store(&parent, page(0), 50);
        store(&child, page(1), 51);
        store(&child, page(3), 52);
        let contents = |space: &TestSpace<'_>| [0, 1, 2, 3].map(|nr| load(space, page(nr)));
        assert_eq!(contents(&parent), [50, 11, 12, 0]);
        assert_eq!(contents(&child), [10, 51, 12, 52]);
        assert_eq!(copied_and_reused(vm), (2, 0));
        drop(parent);
        assert_eq!(contents(&child), [10, 51, 12, 52]);
        child.inspect().check_index().unwrap();
    });
}

#[test]
fn what_nobody_else_maps_any_more_is_written_without_a_copy() {
    with_space(|vm, parent| {
        map(&parent, 0, 2);
        (0..2).for_each(|nr| store(&parent, page(nr), 1));
        let before = [0, 1].map(|nr| frame(&parent, page(nr)));
        let child = parent.fork().unwrap();
        child.unmap(page(1), PAGE).unwrap();
        store(&parent, page(1), 2);
        assert_eq!(copied_and_reused(vm), (0, 1), "the child has unmapped it");
        drop(child);
        store(&parent, page(0), 2);
        assert_eq!(copied_and_reused(vm), (0, 2), "the child is gone");
        assert_eq!([0, 1].map(|nr| frame(&parent, page(nr))), before);
    });
}

#[test]
fn a_frame_that_somebody_else_refers_to_is_copied_though_nobody_else_maps_it() {
    with_space(|vm, parent| {
        map(&parent, 0, 1);
        store(&parent, page(0), 1);
        drop(parent.fork().unwrap());
        let before = frame(&parent, page(0));
        let reference = vm.memory().try_get(before).unwrap();
        store(&parent, page(0), 2);
        assert_ne!(frame(&parent, page(0)), before);
        drop(reference);
        assert_eq!(copied_and_reused(vm), (1, 0));
    });
}

#[test]
fn generations_share_a_frame_until_one_of_them_writes() {
    with_space(|vm, parent| {
        map(&parent, 0, 1);
        store(&parent, page(0), 1);
        let child = parent.fork().unwrap();
        let grandchild = child.fork().unwrap();
        let meta = vm.memory().meta(frame(&parent, page(0))).unwrap();
        assert_eq!((meta.mapcount(), meta.state().refcount()), (3, 1));
        store(&child, page(0), 2);
        store(&grandchild, page(0), 3);
        assert_eq!([&parent, &child, &grandchild].map(|space| load(space, page(0))), [1, 2, 3]);
        assert_eq!((meta.mapcount(), meta.state().refcount()), (1, 1));
        let last = grandchild.fork().unwrap();
        drop((parent, child, grandchild));
        assert_eq!(load(&last, page(0)), 3);
    });
}

#[test]
fn advice_says_what_a_child_gets() {
    with_space(|_, parent| {
        map(&parent, 0, 8);
        (0..8).for_each(|nr| store(&parent, page(nr), 1));
        let advise = |nr, flag| parent.advise(page(nr), PAGE, Advice::Flag(flag)).unwrap();
        advise(1, FlagAdvice::WipeOnFork);
        advise(2, FlagAdvice::DontFork);
        advise(3, FlagAdvice::WipeOnFork);
        advise(3, FlagAdvice::KeepOnFork);
        advise(4, FlagAdvice::DontFork);
        advise(4, FlagAdvice::DoFork);
        let child = parent.fork().unwrap();
        assert!(!child.inspect().is_any_mapped(page(2), PAGE));
        let present: Vec<bool> = (0..8).map(|nr| leaf(&child, page(nr)).is_some()).collect();
        assert_eq!(present, [true, false, false, true, true, true, true, true]);
        assert_eq!(load(&child, page(1)), 0, "wiped");
        store(&parent, page(1), 2);
        store(&parent, page(2), 2);
        assert_eq!([3, 4].map(|nr| load(&child, page(nr))), [1, 1]);
        let grandchild = child.fork().unwrap();
        assert!(mappings(&grandchild).iter().any(|vma| vma.flags.contains(VmaFlags::WIPE_ON_FORK)));
    });
}

#[test]
fn shared_memory_is_shared_with_a_child_and_lives_as_long_as_one_maps_it() {
    with_space(|vm, parent| {
        let place = Place::Fixed(page(0));
        let request = MapRequest { place, sharing: Sharing::Shared, ..MapRequest::anonymous(3 * PAGE) };
        parent.map(&request).unwrap();
        store(&parent, page(0), 1);
        let child = parent.fork().unwrap();
        assert_eq!(leaf(&child, page(0)), None, "entries of objects are not copied");
        store(&child, page(0), 2);
        store(&child, page(1), 3);
        assert_eq!([0, 1].map(|nr| load(&parent, page(nr))), [2, 3]);
        drop(parent);
        assert_eq!([0, 1].map(|nr| load(&child, page(nr))), [2, 3]);
        assert_eq!(copied_and_reused(vm), (0, 0));
    });
}

#[test]
fn no_change_of_rights_lets_a_space_write_what_another_maps() {
    with_space(|vm, parent| {
        map(&parent, 0, 2);
        (0..2).for_each(|nr| store(&parent, page(nr), 1));
        parent.protect(page(1), PAGE, VmaFlags::empty()).unwrap();
        let child = parent.fork().unwrap();
        for space in [&parent, &child] {
            space.protect(page(0), PAGE, VmaFlags::READ).unwrap();
            for nr in 0..2 {
                space.protect(page(nr), PAGE, READ_WRITE).unwrap();
                space.fault(Fault { addr: page(nr), access: Access::Read }).unwrap();
                assert!(!leaf(space, page(nr)).unwrap().rights.contains(Rights::WRITE), "{nr}");
            }
        }
        (0..2).for_each(|nr| store(&child, page(nr), 2));
        assert_eq!(copied_and_reused(vm), (2, 0));
        assert_eq!([0, 1].map(|nr| load(&parent, page(nr))), [1, 1]);
    });
}

/// As a fault that meets the new mapping of an mprotect, and the old entry.
#[test]
fn a_load_that_gets_rights_back_does_not_let_a_space_write_what_another_maps() {
    with_space(|vm, parent| {
        map(&parent, 0, 1);
        store(&parent, page(0), 1);
        let child = parent.fork().unwrap();
        let reading = vm.read();
        let found = walk(child.inspect().page_table(), page(0).vpn(), Level::Pte, &reading);
        let (mut table, slot) = (found.table.lock().unwrap(), found.slot);
        drop(reading);
        table.adjust(slot, |leaf| Some(LeafBits { rights: Rights::empty(), ..LeafBits::of(leaf) }));
        drop(table);
        assert_eq!(load(&child, page(0)), 1);
        assert!(!leaf(&child, page(0)).unwrap().rights.contains(Rights::WRITE));
        store(&child, page(0), 2);
        assert_eq!(load(&parent, page(0)), 1);
    });
}

#[test]
fn zero_pages_and_absent_pages_are_a_childs_own() {
    with_space(|vm, parent| {
        map(&parent, 0, 2 * TABLE);
        map(&parent, 2 * TABLE + 3, 1);
        assert_eq!(load(&parent, page(0)), 0);
        let child = parent.fork().unwrap();
        assert_eq!(frame(&child, page(0)), vm.memory().zero_frame());
        for (space, byte) in [(&parent, 1), (&child, 2)] {
            store(space, page(0), byte);
            store(space, page(TABLE + 1), byte);
        }
        assert_eq!([0, TABLE + 1].map(|nr| load(&parent, page(nr))), [1, 1]);
        assert_eq!([0, TABLE + 1].map(|nr| load(&child, page(nr))), [2, 2]);
    });
}

#[test]
fn memory_that_may_be_discarded_is_kept_where_a_child_maps_it_too() {
    with_space(|_, parent| {
        map(&parent, 0, 2);
        (0..2).for_each(|nr| store(&parent, page(nr), 1));
        let discardable = |space: &TestSpace<'_>, nr| {
            let reading = space.vm().read();
            let found = walk(space.inspect().page_table(), page(nr).vpn(), Level::Pte, &reading);
            found.table.lock().unwrap().is_discardable(found.slot)
        };
        parent.advise(page(0), PAGE, Advice::Free).unwrap();
        let child = parent.fork().unwrap();
        child.advise(page(1), PAGE, Advice::Free).unwrap();
        assert!([&parent, &child].iter().all(|space| discardable(space, 0) && !discardable(space, 1)));
        store(&child, page(0), 2);
        assert!(!discardable(&child, 0) && discardable(&parent, 0));
        assert_eq!(load(&parent, page(1)), 1);
    });
}

#[test]
fn several_mappings_and_tables_are_copied_each_to_its_place() {
    with_space(|_, parent| {
        // Three mappings in one table, one across two, one alone far off.
        for (nr, pages) in [(1, 2), (5, 1), (9, 3), (TABLE - 2, 4), (40 * TABLE, 1)] {
            map(&parent, nr, pages);
            parent.protect(page(nr), PAGE, READ_WRITE | VmaFlags::EXECUTE).unwrap();
            (nr..nr + pages).for_each(|nr| store(&parent, page(nr), nr as u8));
        }
        let heap = parent.layout().heap_start;
        parent.brk(VirtAddr(heap.0 + 2 * PAGE));
        let child = parent.fork().unwrap();
        assert_eq!(child.brk(VirtAddr(0)), VirtAddr(heap.0 + 2 * PAGE));
        let plain = |space: &TestSpace<'_>| -> Vec<_> {
            mappings(space).into_iter().map(|vma| (vma.range, vma.flags, vma.offset)).collect()
        };
        assert_eq!(plain(&parent), plain(&child));
        for nr in [1, 2, 5, 9, 11, TABLE - 2, TABLE + 1, 40 * TABLE] {
            assert_eq!(load(&child, page(nr)), nr as u8);
            store(&child, page(nr), 99);
            assert_eq!(load(&parent, page(nr)), nr as u8);
        }
    });
}

#[test]
fn a_fork_that_lacks_memory_leaves_the_parent_and_all_counts_as_they_were() {
    with_space(|vm, parent| {
        for nr in [0, 3, TABLE, 3 * TABLE] {
            map(&parent, nr, 2);
            store(&parent, page(nr), 7);
        }
        let place = Place::Fixed(page(10));
        let request = MapRequest { place, sharing: Sharing::Shared, ..MapRequest::anonymous(PAGE) };
        parent.map(&request).unwrap();
        store(&parent, page(10), 7);
        let (before, were) = (counts(vm), mappings(&parent));
        let mut failures = 0;
        let child = loop {
            // Pools keep objects between attempts, so each begins with none.
            vm.trim();
            vm.memory().plan_mishaps_from(failures + 1);
            let forked = parent.fork();
            vm.memory().plan_mishap(0);
            match forked {
                Ok(child) => break child,
                Err(error) => assert_eq!(error, Error::NoMemory),
            }
            failures += 1;
            assert_eq!((counts(vm).allocated, mappings(&parent)), (before.allocated, were.clone()));
            for nr in [0, 3, TABLE, 3 * TABLE] {
                let meta = vm.memory().meta(frame(&parent, page(nr))).unwrap();
                assert_eq!((meta.mapcount(), meta.state().refcount()), (1, 1));
                assert_eq!(load(&parent, page(nr)), 7);
            }
        };
        assert!(failures > 5, "{failures} allocations failed");
        store(&parent, page(0), 8);
        assert_eq!(load(&child, page(0)), 7);
    });
}

#[test]
fn a_copy_without_memory_is_an_error_of_the_fault_and_changes_nothing() {
    with_space(|vm, parent| {
        map(&parent, 0, 1);
        store(&parent, page(0), 1);
        let child = parent.fork().unwrap();
        vm.memory().plan_mishaps_from(1);
        let failed = child.fault(Fault { addr: page(0), access: Access::Write });
        vm.memory().plan_mishap(0);
        assert_eq!(failed, Err(crate::space::FaultError::NoMemory));
        assert_eq!(frame(&child, page(0)), frame(&parent, page(0)));
        store(&child, page(0), 2);
        assert_eq!(load(&parent, page(0)), 1);
    });
}

#[test]
fn a_chain_of_forks_that_each_drop_their_parent_keeps_memory_bounded() {
    with_space(|vm, parent| {
        map(&parent, 0, 3);
        (0..3).for_each(|nr| store(&parent, page(nr), 1));
        let before = counts(vm).allocated;
        let mut last = parent;
        for nr in 0..if cfg!(debug_assertions) { 500 } else { 10_000 } {
            let child = last.fork().unwrap();
            drop(core::mem::replace(&mut last, child));
            store(&last, page(nr % 2), nr as u8);
            assert!(vm.nr_anon_nodes() <= 3);
        }
        assert_eq!(counts(vm).allocated, before, "frames that the first of them had");
        assert_eq!(copied_and_reused(vm).0, 0);
        assert_eq!(load(&last, page(2)), 1);
    });
}

#[test]
fn a_mapping_without_copies_gets_none_and_one_with_copies_an_identity_of_its_own() {
    with_space(|_, parent| {
        map(&parent, 0, 1);
        map(&parent, 10, 1);
        store(&parent, page(0), 1);
        let child = parent.fork().unwrap();
        let anon = |space: &TestSpace<'_>, nr| space.inspect().vma_at(page(nr)).unwrap().anon;
        assert!(anon(&child, 0).is_inherited() && anon(&child, 0) != anon(&parent, 0));
        assert!(anon(&child, 10).is_none() && !anon(&parent, 0).is_inherited());
    });
}
