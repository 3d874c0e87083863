//! The reverse map of an object's pages, and of copies of them.

use crate::machine::testing::TestMachine;
use crate::space::tests::world::object::{
    Object, PRIVATE, RW, SHARED, Space, TestVm, at, fault, in_each, leaf, load, map, map_both, request, store,
};
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::*;
use crate::units::{Access, Pfn, Vpn};
use crate::vma::VmaFlags;
use core::cell::Cell;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::vec::Vec;

type Found = (Result<RmapFound, RmapError>, Vec<(SpaceId, Vpn)>);

/// What the reverse map finds of a frame in the spaces.
fn found(vm: &TestVm<'_>, pfn: Pfn, spaces: &[&Space<'_>]) -> Found {
    let (frame, mut pages) = (vm.memory().try_get(pfn).unwrap(), Vec::new());
    let hold = |id| spaces.iter().copied().find(|space| space.id() == id);
    let all = vm.rmap_walk(&frame, hold, |entry| {
        pages.push((entry.space().id(), entry.page()));
        ControlFlow::Continue(())
    });
    pages.sort_unstable();
    (all, pages)
}

fn frame_of(space: &Space<'_>, page: u64) -> Pfn {
    leaf(space, page).unwrap().0
}

/// What is due: these pages of the spaces, in whatever order.
fn all(pages: &[(&Space<'_>, u64)]) -> Found {
    let mut pages: Vec<_> = pages.iter().map(|&(space, page)| (space.id(), at(page).vpn())).collect();
    pages.sort_unstable();
    (Ok(RmapFound::All(pages.len() as u32)), pages)
}

#[test]
fn a_copy_is_found_by_the_reverse_map() {
    in_each(|vm, space| {
        let _object = map_both(vm, &space, 4);
        store(&space, PRIVATE + 3, 1);
        let child = space.fork().unwrap();
        let pfn = frame_of(&space, PRIVATE + 3);
        let both = [&space, &child];
        assert_eq!(found(vm, pfn, &both), all(&[(&space, PRIVATE + 3), (&child, PRIVATE + 3)]));
    });
}

#[test]
fn a_page_is_found_in_every_view_and_space_that_maps_it() {
    in_each(|vm, space| {
        let _object = map_both(vm, &space, 4);
        store(&space, SHARED + 2, 1);
        load(&space, PRIVATE + 2);
        let pfn = frame_of(&space, SHARED + 2);
        let own = [(&space, SHARED + 2), (&space, PRIVATE + 2)];
        assert_eq!(found(vm, pfn, &[&space]), all(&own));
        let child = space.fork().unwrap();
        assert_eq!(found(vm, pfn, &[&space, &child]), all(&own), "a fork leaves it to faults");
        load(&child, PRIVATE + 2);
        load(&child, SHARED + 2);
        let of_child = [(&child, SHARED + 2), (&child, PRIVATE + 2)];
        assert_eq!(found(vm, pfn, &[&space, &child]), all(&[own, of_child].concat()));
        assert_eq!(found(vm, pfn, &[&space]).0, Err(RmapError::SpaceMissing));
        drop(space);
        assert_eq!(found(vm, pfn, &[&child]), all(&of_child));
        // A store that copies leaves the object's page to the other mapping.
        store(&child, PRIVATE + 2, 9);
        assert_eq!(found(vm, pfn, &[&child]), all(&of_child[..1]));
    });
}

/// A mapping that is split, loses its middle, changes its rights and is put over itself keeps its origin.
#[test]
fn edits_of_mappings_leave_their_pages_to_be_found() {
    in_each(|vm, space| {
        let object = ObjectHandle::new(vm, 16 * PAGE).unwrap();
        map(&space, &object, (SHARED, 16), Sharing::Shared);
        for page in [0, 5, 9, 15] {
            store(&space, page, 1);
        }
        let frames = [0, 5, 9, 15].map(|page| frame_of(&space, page));
        let check = |pages: &[u64]| {
            for (pfn, page) in frames.into_iter().zip([0, 5, 9, 15]) {
                let due = if pages.contains(&page) { all(&[(&space, page)]) } else { all(&[]) };
                assert_eq!(found(vm, pfn, &[&space]), due, "page {page}");
            }
        };
        check(&[0, 5, 9, 15]);
        space.protect(at(4), 4 * PAGE, VmaFlags::READ).unwrap();
        space.unmap(at(8), 2 * PAGE).unwrap();
        check(&[0, 5, 15]);
        space.protect(at(4), 4 * PAGE, RW).unwrap();
        space.unmap(at(0), PAGE).unwrap();
        check(&[5, 15]);
        space.map(&request(4, 4, Sharing::Shared).backed_by(object.at_page(4))).unwrap();
        check(&[15]);
        load(&space, 5);
        check(&[5, 15]);
        // The same pages at another origin are another view.
        space.map(&request(100, 8, Sharing::Shared).backed_by(object.at_page(8))).unwrap();
        load(&space, 107);
        assert_eq!(found(vm, frames[3], &[&space]), all(&[(&space, 15), (&space, 107)]));
        space.unmap(at(0), 16 * PAGE).unwrap();
        assert_eq!(found(vm, frames[3], &[&space]), all(&[(&space, 107)]));
    });
}

/// Addresses below those of the object's first page would be negative.
#[test]
fn a_page_far_in_the_object_is_found_at_a_low_address() {
    in_each(|vm, space| {
        let object = ObjectHandle::new(vm, 1 << 50).unwrap();
        let far = (1 << 38) - 2;
        space.map(&request(3, 2, Sharing::Shared).backed_by(object.at_page(far))).unwrap();
        store(&space, 4, 1);
        assert_eq!(found(vm, frame_of(&space, 4), &[&space]), all(&[(&space, 4)]));
    });
}

/// The visitor unmaps the views that the walk comes to next, makes others, and unmaps the one that it is at.
#[test]
fn a_walk_goes_on_where_views_go_and_come() {
    in_each(|vm, space| {
        let object = ObjectHandle::new(vm, 4 * PAGE).unwrap();
        for page in [0, 10, 20, 30] {
            map(&space, &object, (page, 4), Sharing::Shared);
            load(&space, page + 1);
        }
        let frame = vm.memory().try_get(frame_of(&space, 1)).unwrap();
        let (pages, hold) = (Cell::new(Vec::new()), |_| Some(&space));
        let walk = |visit: &dyn Fn(Vpn)| {
            vm.rmap_walk(&frame, hold, |entry| {
                visit(entry.page());
                let mut seen = pages.take();
                seen.push(entry.page().0 - at(0).vpn().0);
                pages.set(seen);
                ControlFlow::Continue(())
            })
        };
        let answer = walk(&|page| {
            if page == at(31).vpn() && leaf(&space, 41).is_none() {
                space.unmap(at(10), 14 * PAGE).unwrap();
                map(&space, &object, (40, 4), Sharing::Shared);
                fault(&space, 41, Access::Read).unwrap();
            }
        });
        // Views from the youngest on. The one that is made meanwhile is met by the second walk.
        assert_eq!((answer, pages.take()), (Ok(RmapFound::All(3)), std::vec![31, 1, 41, 31, 1]));
        let answer = walk(&|page| {
            if page == at(31).vpn() {
                space.unmap(at(30), 4 * PAGE).unwrap();
            }
        });
        assert_eq!((answer, pages.take()), (Ok(RmapFound::All(2)), std::vec![41, 31]));
        assert_eq!((walk(&|_| ()), pages.take()), (Ok(RmapFound::All(2)), std::vec![41, 1]));
    });
}

/// The last mapping and the last handle go while a walk is at the view.
#[test]
fn an_object_ends_beside_a_walk_over_its_views() {
    in_each(|vm, space| {
        let object: Cell<Option<Object<'_>>> = Cell::new(Some(ObjectHandle::new(vm, PAGE).unwrap()));
        let handle = object.take().unwrap();
        map(&space, &handle, (0, 1), Sharing::Shared);
        object.set(Some(handle));
        store(&space, 0, 1);
        let frame = vm.memory().try_get(frame_of(&space, 0)).unwrap();
        let answer = vm.rmap_walk(
            &frame,
            |_| Some(&space),
            |_| {
                space.unmap(at(0), PAGE).unwrap();
                drop(object.take());
                ControlFlow::Continue(())
            },
        );
        assert_eq!(answer, Ok(RmapFound::All(0)));
    });
}

/// Until munmap has flushed, its entries may be in use: the view is there, so that they are found.
#[test]
fn a_view_stays_until_the_flush_of_its_unmapping() {
    let machine = TestMachine::with_cpus(1500, 2);
    machine.run_as(0);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    let object = ObjectHandle::new(&vm, 4 * PAGE).unwrap();
    map(&space, &object, (SHARED, 4), Sharing::Shared);
    store(&space, SHARED + 1, 1);
    let (is_loaded, view) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
    thread::scope(|scope| {
        scope.spawn(|| {
            machine.run_as(1);
            let running = space.activate(None);
            assert!(machine.translate(at(SHARED + 1).vpn(), Access::Read).is_some());
            is_loaded.store(true, SeqCst);
            while !machine.is_interrupted(1) {
                thread::yield_now();
            }
            let reach = object.punch_hole(0, PAGE, |_| Some(&space)).unwrap();
            view.store(reach.found, SeqCst);
            drop(running);
        });
        while !is_loaded.load(SeqCst) {
            thread::yield_now();
        }
        space.unmap(at(SHARED), 4 * PAGE).unwrap();
    });
    assert_eq!(view.load(SeqCst), 1);
    let reach = object.punch_hole(0, PAGE, |_| Some(&space)).unwrap();
    assert_eq!(reach.found, 0);
}

/// A program that maps the file anew as fast as a walk comes to its views.
#[test]
fn a_walk_ends_though_views_are_made_as_fast_as_it_goes() {
    in_each(|vm, space| {
        let object = ObjectHandle::new(vm, 4 * PAGE).unwrap();
        map(&space, &object, (0, 4), Sharing::Shared);
        load(&space, 1);
        let made = Cell::new(0);
        let make = || {
            made.set(made.get() + 1);
            assert!(made.get() < 20, "the walk does not end");
            space.unmap(at(made.get() * 10), 4 * PAGE).unwrap();
            map(&space, &object, ((made.get() + 1) * 10, 4), Sharing::Shared);
        };
        let hold = |_| {
            make();
            Some(&space)
        };
        let reach = object.punch_hole(PAGE, PAGE, hold).unwrap();
        assert_eq!((reach.found, made.take()), (1, 1));
        assert_eq!(load(&space, 1), 0);
        let frame = vm.memory().try_get(frame_of(&space, 1)).unwrap();
        let _answer = vm.rmap_walk(&frame, hold, |_| ControlFlow::Continue(()));
        assert!(made.get() <= 8, "{} views were visited", made.get());
    });
}
