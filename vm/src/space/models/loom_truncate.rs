//! An object that becomes shorter, against what another CPU does to its pages.

use super::world::*;
use crate::machine::testing::{TestCpu, with_leaked};
use crate::space::*;
use crate::sync::testing::thread;
use crate::sync::{forget_value, refill_zeros};
use crate::units::Access;
use loom::sync::atomic::{AtomicBool, Ordering::*};
use std::boxed::Box;

type Object = ObjectHandle<'static, Tests>;

fn map_object(space: &TestSpace, object: &Object, sharing: Sharing) {
    let request = MapRequest { place: Place::Fixed(START.addr()), sharing, ..MapRequest::anonymous(PAGE) };
    space.map(&request.backed_by(object.at_page(0))).unwrap();
}

fn fault(space: &TestSpace, access: Access) -> bool {
    space.fault(Fault { addr: START.addr(), access }).is_ok()
}

/// Has the object lose its one page, in the space.
fn truncate(space: &TestSpace, object: &Object) {
    let reach = object.set_len_bytes(0, |id| (id == space.id()).then_some(space)).unwrap();
    assert_eq!(reach.missing, 0);
}

/// No entry and no translation of the page is left, and an access finds the end.
fn assert_beyond(machine: &Tests, space: &TestSpace) {
    assert!(!has_leaf(space, START), "an entry is left beyond the end");
    assert!((0..2).all(|cpu| !machine.has_cached(cpu, START)), "a CPU has the page cached");
    let refused = space.fault(Fault { addr: START.addr(), access: Access::Read });
    assert_eq!(refused, Err(FaultError::Beyond));
}

/// CPU 1 runs the program, and CPU 0 truncates the object. Returns how often the program has found the end,
/// and how often the page.
fn explore_truncate(
    before: fn(&TestSpace, &Object),
    program: fn(&'static Tests, &'static TestSpace, &'static Object) -> bool,
) -> [usize; 2] {
    let body = move |machine: &'static Tests, space: &'static TestSpace| {
        with_leaked(ObjectHandle::new(space.vm, PAGE).unwrap(), |object| {
            before(space, object);
            assert_eq!(object.len_bytes(), PAGE, "a word of the model from now on");
            refill_zeros();
            let cpu1 = thread::spawn(move || {
                machine.run_as(1);
                program(machine, space, object)
            });
            truncate(space, object);
            let has_found = cpu1.join().unwrap();
            machine.run_as(0);
            assert_beyond(machine, space);
            unmap(space, START, 1);
            has_found
        })
    };
    explore_space(Size::of(128), VmOptions::default, body, |_| ())
}

/// Uses the page as a program does; its translation is in the TLB then.
fn used(machine: &'static Tests, space: &'static TestSpace, access: Access) -> bool {
    let running = space.activate(None);
    let mut has_found = false;
    while !has_found && fault(space, access) {
        TestCpu::take_interrupt();
        has_found = machine.translate(START, access).is_some();
    }
    drop(running);
    has_found
}

#[test]
fn loom_truncation_against_a_fault_of_a_page_that_the_object_has() {
    let before = |space: &TestSpace, object: &Object| {
        map_object(space, object, Sharing::Shared);
        assert!(fault(space, Access::Write));
        space.advise(START.addr(), PAGE, Advice::DontNeed).unwrap();
    };
    assert_both(explore_truncate(before, |machine, space, _| used(machine, space, Access::Write)));
}

#[test]
fn loom_truncation_against_a_fault_that_fills_the_page() {
    let before = |space: &TestSpace, object: &Object| map_object(space, object, Sharing::Shared);
    assert_both(explore_truncate(before, |machine, space, _| used(machine, space, Access::Read)));
}

#[test]
fn loom_truncation_against_a_store_that_copies_the_page() {
    let before = |space: &TestSpace, object: &Object| {
        map_object(space, object, Sharing::Private);
        assert!(fault(space, Access::Read));
    };
    assert_both(explore_truncate(before, |machine, space, _| used(machine, space, Access::Write)));
}

/// The view is made beside the walk over the views.
#[test]
fn loom_truncation_against_a_mapping_that_is_made_and_used() {
    let before = |space: &TestSpace, object: &Object| {
        // The object has its page, and the words of a view were touched.
        map_object(space, object, Sharing::Shared);
        assert!(fault(space, Access::Write));
        unmap(space, START, 1);
    };
    assert_both(explore_truncate(before, |machine, space, object| {
        map_object(space, object, Sharing::Shared);
        used(machine, space, Access::Read)
    }));
}

/// A child that truncation cannot find yet loses its copy as soon as it can be found.
#[test]
fn loom_truncation_against_a_child_that_can_be_found_from_now_on() {
    assert_both(explore_space(Size::of(160), VmOptions::default, child_beside_truncation, |_| ()));
}

fn child_beside_truncation(machine: &'static Tests, space: &'static TestSpace) -> bool {
    with_leaked(ObjectHandle::new(space.vm, PAGE).unwrap(), |object| {
        map_object(space, object, Sharing::Private);
        assert!(fault(space, Access::Write));
        with_leaked(space.fork().unwrap(), |child| {
            forget_value(child);
            // The words of the model are there before there are threads.
            assert_eq!((object.len_bytes(), has_leaf(child, START)), (PAGE, true));
            map(child, START.add(8), 1);
            touch(child, START.add(8));
            unmap(child, START.add(8), 1);
            refill_zeros();
            let is_found: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
            let cpu1 = thread::spawn(move || {
                machine.run_as(1);
                is_found.store(true, Release);
                child.drop_beyond_ends();
            });
            let known = |id| (id == space.id() || is_found.load(Acquire)).then_some(id == space.id());
            let reach = object
                .set_len_bytes(0, |id| known(id).map(|is_parent| if is_parent { space } else { child }));
            cpu1.join().unwrap();
            for space in [space, child] {
                assert!(!has_leaf(space, START), "a copy beyond the end is left");
                assert!(!fault(space, Access::Read));
            }
            unmap(space, START, 1);
            reach.unwrap().missing > 0
        })
    })
}

/// The frame of a page that is mapped nowhere any more goes once.
#[test]
fn loom_two_truncations_of_one_object() {
    let before = |space: &TestSpace, object: &Object| {
        map_object(space, object, Sharing::Shared);
        assert!(fault(space, Access::Write));
    };
    let seen = explore_truncate(before, |_, space, object| {
        truncate(space, object);
        !has_leaf(space, START)
    });
    assert!(seen[1] > 0, "{seen:?}");
}

/// A load of the first page maps the second, which goes.
fn explore_around(lose: fn(&'static TestSpace, &Object)) -> [usize; 2] {
    let options = || VmOptions { fault_around_bytes: 2 * PAGE, ..VmOptions::default() };
    let body = move |machine: &'static Tests, space: &'static TestSpace| {
        with_leaked(ObjectHandle::new(space.vm, 2 * PAGE).unwrap(), |object| {
            let (place, sharing) = (Place::Fixed(START.addr()), Sharing::Shared);
            let request = MapRequest { place, sharing, ..MapRequest::anonymous(2 * PAGE) };
            space.map(&request.backed_by(object.at_page(0))).unwrap();
            touch(space, START);
            touch(space, START.add(1));
            space.advise(START.addr(), 2 * PAGE, Advice::DontNeed).unwrap();
            assert_eq!(object.len_bytes(), 2 * PAGE, "a word of the model from now on");
            refill_zeros();
            let cpu1 = thread::spawn(move || {
                machine.run_as(1);
                let running = space.activate(None);
                let is_mapped = fault(space, Access::Read);
                let has_second = machine.translate(START.add(1), Access::Read).is_some();
                drop(running);
                (is_mapped, has_second)
            });
            lose(space, object);
            let (is_mapped, has_second) = cpu1.join().unwrap();
            machine.run_as(0);
            assert!(is_mapped && !has_leaf(space, START.add(1)), "an entry is left");
            assert!((0..2).all(|cpu| !machine.has_cached(cpu, START.add(1))), "a CPU has the page cached");
            unmap(space, START, 2);
            has_second
        })
    };
    explore_space(Size::of(128), options, body, |_| ())
}

#[test]
fn loom_truncation_against_a_load_that_maps_around() {
    assert_both(explore_around(|space, object| {
        let reach = object.set_len_bytes(PAGE, |_| Some(space)).unwrap();
        assert_eq!(reach.missing, 0);
    }));
}

#[test]
fn loom_munmap_of_a_page_against_a_load_that_maps_around() {
    assert_both(explore_around(|space, _| unmap(space, START.add(1), 1)));
}
