//! mremap of mappings of objects, under both proofs.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::mishaps::each_allocation;
use crate::space::tests::world::object::{
    Object, PRIVATE, RW, SHARED, Space, TestVm, at, fault, in_each, leaf, load, map, map_both, store,
};
use crate::space::tests::world::remap::{FIXED, LEAVE, MAY_MOVE, remap};
use crate::space::*;
use crate::units::Access;
use core::ops::ControlFlow;
use std::vec::Vec;

const FAR: u64 = 1 << 13;

fn go(space: &Space<'_>, from: u64, len: u64, to: u64) {
    assert_eq!(remap(space, (at(from), len * PAGE), (at(to), len * PAGE), FIXED), Ok(at(to)));
}

/// The pages at which the reverse map finds the frame of a page.
fn entries(vm: &TestVm<'_>, space: &Space<'_>, page: u64) -> Vec<u64> {
    let reference = vm.memory().try_get(leaf(space, page).unwrap().0).unwrap();
    let mut all = Vec::new();
    let found = vm.rmap_walk(
        &reference,
        |_| Some(space),
        |entry| {
            if entry.walk() > 0 && all.len() > 8 {
                all.clear();
            }
            all.push(entry.page().0 - at(0).vpn().0);
            ControlFlow::Continue(())
        },
    );
    assert!(matches!(found, Ok(RmapFound::All(_))), "{found:?}");
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn what_the_object_has_is_found_at_the_new_place_and_copies_come_along() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 8);
        (0..8).for_each(|nr| store(&space, SHARED + nr, nr as u8));
        store(&space, PRIVATE + 2, 52);
        store(&space, PRIVATE + 3, 53);
        assert_eq!([1, 4].map(|nr| load(&space, PRIVATE + nr)), [1, 4]);
        go(&space, SHARED + 1, 3, FAR + SHARED);
        go(&space, PRIVATE + 1, 3, FAR + PRIVATE);
        let is_there = |nr| leaf(&space, nr).is_some();
        assert!(!is_there(FAR + SHARED) && !is_there(FAR + PRIVATE), "faults find what the object has");
        assert!(is_there(FAR + PRIVATE + 1), "a copy is the space's own");
        let shown = [0, 1, 2].map(|nr| load(&space, FAR + SHARED + nr));
        assert_eq!(shown, [1, 2, 3]);
        assert_eq!([0, 1, 2].map(|nr| load(&space, FAR + PRIVATE + nr)), [1, 52, 53]);
        for gone in [SHARED + 1, SHARED + 3, PRIVATE + 1, PRIVATE + 3] {
            assert!(fault(&space, gone, Access::Read).is_err() && leaf(&space, gone).is_none());
        }
        store(&space, FAR + SHARED, 91);
        assert_eq!(load(&space, FAR + PRIVATE), 91, "no copy was made of it");
        assert_eq!(entries(vm, &space, FAR + SHARED), [FAR + SHARED, FAR + PRIVATE]);
        assert_eq!(entries(vm, &space, FAR + PRIVATE + 1), [FAR + PRIVATE + 1], "a copy that has moved");
        assert_eq!(entries(vm, &space, SHARED + 4), [SHARED + 4, PRIVATE + 4]);
        drop(object);
    });
}

#[test]
fn an_old_length_of_nothing_maps_shared_memory_once_more() {
    in_each(|vm, space| {
        let object = ObjectHandle::new(vm, 4 * PAGE).unwrap();
        map(&space, &object, (SHARED, 4), Sharing::Shared);
        drop(object);
        store(&space, SHARED + 2, 7);
        let twice = remap(&space, (at(SHARED + 1), 0), (at(FAR), 2 * PAGE), FIXED);
        assert_eq!(twice, Ok(at(FAR)));
        assert_eq!(load(&space, FAR + 1), 7);
        store(&space, FAR, 8);
        assert_eq!(load(&space, SHARED + 1), 8);
        let anywhere = remap(&space, (at(SHARED), 0), (at(0), 4 * PAGE), MAY_MOVE).unwrap();
        assert_eq!(space.inspect().vma_at(anywhere).unwrap().range.len(), 4);
        assert_eq!(remap(&space, (at(SHARED), 0), (at(0), PAGE), RemapFlags::empty()), Err(Error::NoMemory));
        space.unmap(at(SHARED), 4 * PAGE).unwrap();
        assert_eq!(load(&space, FAR), 8, "the other mappings keep the object");
    });
}

#[test]
fn a_mapping_that_grows_beyond_its_object_is_a_bus_error_there() {
    in_each(|vm, space| {
        let object = ObjectHandle::new(vm, 2 * PAGE).unwrap();
        map(&space, &object, (SHARED, 2), Sharing::Shared);
        assert_eq!(
            remap(&space, (at(SHARED), 2 * PAGE), (at(0), 4 * PAGE), RemapFlags::empty()),
            Ok(at(SHARED))
        );
        assert_eq!(fault(&space, SHARED + 2, Access::Read), Err(FaultError::Beyond));
        assert_eq!(object.set_len_bytes(3 * PAGE, |_| Some(&space)).unwrap().missing, 0);
        store(&space, SHARED + 2, 3);
        go(&space, SHARED + 2, 2, FAR);
        assert_eq!(load(&space, FAR), 3);
        let last = object.at_page(u64::MAX - 2);
        let request = crate::space::tests::world::object::request(PRIVATE, 1, Sharing::Shared);
        space.map(&request.backed_by(last)).unwrap();
        let grown = remap(&space, (at(PRIVATE), PAGE), (at(0), 4 * PAGE), RemapFlags::empty());
        assert_eq!(grown, Err(Error::Invalid), "no number counts such a page");
        drop(object);
    });
}

#[test]
fn the_old_mapping_stays_and_shows_what_the_object_has() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 4);
        (0..4).for_each(|nr| store(&space, SHARED + nr, 1 + nr as u8));
        store(&space, PRIVATE + 1, 60);
        for (from, to) in [(SHARED, FAR), (PRIVATE, FAR + 64)] {
            assert_eq!(remap(&space, (at(from), 4 * PAGE), (at(to), 4 * PAGE), LEAVE | FIXED), Ok(at(to)));
        }
        assert_eq!([FAR + 1, FAR + 65, SHARED + 1, PRIVATE + 1].map(|nr| load(&space, nr)), [2, 60, 2, 2]);
        store(&space, PRIVATE + 1, 61);
        assert_eq!([FAR + 1, FAR + 65].map(|nr| load(&space, nr)), [2, 60]);
        assert_eq!(space.inspect().vma_at(at(PRIVATE)).unwrap().flags & RW, RW);
        drop(object);
    });
}

/// A truncation that comes between: the length is set, the pages are gone, and its walk has passed the new
/// place when the copies come there.
#[test]
fn copies_beyond_the_end_do_not_survive_a_move() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 4);
        (0..4).for_each(|nr| store(&space, PRIVATE + nr, 40 + nr as u8));
        // As if its walk had not come here: no space is found.
        let reach = object.set_len_bytes(2 * PAGE, |_| None::<&Space<'_>>).unwrap();
        assert!(reach.found == 0 && leaf(&space, PRIVATE + 3).is_some());
        go(&space, PRIVATE + 1, 3, FAR);
        assert_eq!(load(&space, FAR), 41);
        for beyond in [FAR + 1, FAR + 2] {
            assert!(leaf(&space, beyond).is_none(), "a copy beyond the end");
            assert_eq!(fault(&space, beyond, Access::Read), Err(FaultError::Beyond));
        }
        drop(object);
    });
}

#[test]
fn more_pages_of_an_object_than_a_gather_has_places_for_are_dropped() {
    in_each(|vm, space| {
        let object: Object<'_> = map_both(vm, &space, 64);
        let copied = |nr: &u64| nr.is_multiple_of(5);
        (0..64).for_each(|nr| store(&space, SHARED + nr, nr as u8));
        (0..64).filter(copied).for_each(|nr| store(&space, PRIVATE + nr, 100 + nr as u8));
        (0..64).for_each(|nr| assert!(fault(&space, PRIVATE + nr, Access::Read).is_ok()));
        let running = space.activate(None);
        go(&space, PRIVATE, 64, FAR + 3);
        (0..64).for_each(|nr| {
            let byte = if copied(&nr) { 100 + nr as u8 } else { nr as u8 };
            assert_eq!(load(&space, FAR + 3 + nr), byte, "page {nr}");
        });
        drop(running);
        drop(object);
    });
}

#[test]
fn a_lack_of_memory_leaves_the_pages_where_they_were() {
    let allocations = each_allocation(|nth| {
        let has_struck = core::cell::Cell::new(false);
        in_each(|vm, space| {
            let object = map_both(vm, &space, 4);
            (0..4).for_each(|nr| store(&space, PRIVATE + nr, 40 + nr as u8));
            for (from, to) in [(SHARED, FAR), (PRIVATE, FAR + 1001)] {
                vm.memory().plan_mishaps(nth, 64);
                let moved = remap(&space, (at(from), 4 * PAGE), (at(to), 4 * PAGE), FIXED);
                has_struck.set(has_struck.get() | !vm.memory().is_mishap_planned());
                vm.memory().plan_mishap(0);
                assert!(matches!(moved, Ok(_) | Err(Error::NoMemory)), "{moved:?}");
                let now = if moved.is_ok() { to } else { from };
                let byte = if from == PRIVATE { 43 } else { 0 };
                assert_eq!(load(&space, now + 3), byte, "allocation {nth}");
            }
            vm.memory().check().unwrap();
            space.inspect().check_index().unwrap();
            drop(object);
        });
        has_struck.get()
    });
    assert!(allocations >= 3, "{allocations} allocations");
}
