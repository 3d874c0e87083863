//! A huge page that a fork has shared: what the two spaces do to it at once, and two CPUs of one of them.
//! The real code on the smallest tree, all executions with two preemptions, or one where two are too many.

use super::world::*;
use crate::machine::testing::played;
use crate::space::*;
use crate::sync::refill_zeros;
use crate::sync::testing::thread;
use crate::units::{Access, Level, Vpn};
use crate::vma::HugePolicy;
use std::boxed::Box;

/// What the second writer stores.
const OTHER: u8 = 3;

/// What both CPUs do with a space that has shared its huge page with a child. Returns one of two results.
type Body = fn(&'static Tests, &'static TestSpace, Box<TestSpace>) -> bool;

/// Runs the body in all executions, with X and LAST written before. Returns how often each result was seen.
fn explore(preemptions: usize, body: Body) -> [usize; 2] {
    let options = || VmOptions { huge_pages: HugePolicy::Always, ..VmOptions::default() };
    let prepared = move |machine: &'static Tests, space: &'static TestSpace| {
        map(space, START, TABLE);
        touch(space, X);
        forked_once(machine, space);
        [X, LAST].iter().for_each(|&page| {
            machine.write(space.inspect().resident_frame(page).unwrap().0, 0, &[OLD]);
        });
        let child = fork(space);
        assert!(is_huge(space) && is_huge(&child));
        refill_zeros();
        body(machine, space, child)
    };
    let after = |vm: &'static TestVm| {
        assert_eq!(vm.totals().get(Counter::NrAnonTransparentHugepages), 0);
    };
    explore_space(Size { preemptions, ..Size::of(4 * TABLE) }, options, prepared, after)
}

fn is_huge(space: &TestSpace) -> bool {
    leaf_of(space, X).is_some_and(|(_, level)| level == Level::Pmd)
}

/// The byte of a page, also in a huge one.
fn held(machine: &Tests, space: &TestSpace, page: Vpn) -> Option<u8> {
    let (pfn, _) = space.inspect().resident_frame(page)?;
    let mut byte = [0];
    machine.read(pfn, 0, &mut byte);
    Some(byte[0])
}

#[test]
fn loom_stores_of_two_spaces_to_one_huge_page() {
    explore(2, |machine, space, child| {
        let writer = store_beside(machine, space);
        let running = child.activate(None);
        store_byte(machine, &child, X, OTHER);
        drop(running);
        writer.join().unwrap();
        assert_eq!([held(machine, space, X), held(machine, &child, X)], [Some(NEW), Some(OTHER)]);
        assert_eq!([held(machine, space, LAST), held(machine, &child, LAST)], [Some(OLD), Some(OLD)]);
        assert_eq!(frame(space, LAST), frame(&child, LAST), "no store has come there");
        false
    });
}

#[test]
fn loom_a_store_to_a_shared_huge_page_against_munmap_of_a_part_by_the_other() {
    explore(2, |machine, space, child| {
        let writer = store_beside(machine, space);
        unmap(&child, LAST, 1);
        writer.join().unwrap();
        assert_eq!([held(machine, space, X), held(machine, space, LAST)], [Some(NEW), Some(OLD)]);
        assert_eq!([held(machine, &child, X), held(machine, &child, LAST)], [Some(OLD), None]);
        false
    });
}

#[test]
fn loom_a_store_to_a_shared_huge_page_against_the_end_of_the_child() {
    let [split, kept] = explore(2, |machine, space, child| {
        let end = thread::spawn(move || {
            machine.run_as(1);
            drop(child);
        });
        let running = space.activate(None);
        store_byte(machine, space, X, NEW);
        drop(running);
        end.join().unwrap();
        assert_eq!([held(machine, space, X), held(machine, space, LAST)], [Some(NEW), Some(OLD)]);
        is_huge(space)
    });
    assert!(split > 0 && kept > 0, "while the child has it, and after that: {split} {kept}");
}

/// What a fast pin of the writing space gets is never what the child has.
#[test]
fn loom_a_store_to_a_shared_huge_page_against_a_fast_pin() {
    explore(played(1, 2), |machine, space, child| {
        let pinner = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            let reading = space.vm().read();
            let pin = |page: Vpn| space.try_pin_fast(page.addr(), Access::Read, limit(), [None], &reading);
            assert!(pin(LAST).is_err(), "a page is pinned that the child has");
            let pinned = pin(X).ok().map(|pins| pins.frames().next().unwrap().pfn());
            drop(reading);
            drop(running);
            pinned
        });
        let running = space.activate(None);
        store_byte(machine, space, X, NEW);
        drop(running);
        let pinned = pinner.join().unwrap();
        assert!(pinned.is_none() || pinned == frame(space, X), "another page's frame is pinned");
        assert_eq!([held(machine, &child, X), held(machine, space, X)], [Some(OLD), Some(NEW)]);
        pinned.is_some()
    });
}

/// A private page that may only be read is written by a debugger while the program drops it (Dirty COW):
/// neither the write nor the drop reaches the child.
#[test]
fn loom_a_forced_store_against_dontneed_of_a_shared_huge_page() {
    assert_both(explore(2, |machine, space, child| {
        let discarder = thread::spawn(move || {
            machine.run_as(1);
            space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
        });
        space.copy_to_forced(X.addr(), &[NEW]).unwrap();
        discarder.join().unwrap();
        assert_eq!([held(machine, &child, X), held(machine, &child, LAST)], [Some(OLD), Some(OLD)]);
        assert!(is_huge(&child), "the child's leaf stays");
        let left = byte(machine, space, X);
        assert!(left == NEW || left == 0, "what was dropped came back");
        left == NEW
    }));
}

/// The page after the huge one, which a fork sweeps later.
const NEXT: Vpn = Vpn(START.0 + TABLE);

#[test]
fn loom_a_child_has_no_store_without_one_before_it_to_a_huge_page() {
    assert_both(explore(2, |machine, space, first| {
        drop(first);
        map(space, NEXT, 1);
        let running = space.activate(None);
        [X, NEXT].iter().for_each(|&page| store_byte(machine, space, page, OLD));
        drop(running);
        let writer = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            store_byte(machine, space, X, NEW);
            store_byte(machine, space, NEXT, NEW);
            drop(running);
        });
        let child = fork(space);
        let contents = || [X, NEXT].map(|page| held(machine, &child, page));
        let snapshot = contents();
        assert!(snapshot[1] == Some(OLD) || snapshot[0] == Some(NEW), "the child has {snapshot:?}");
        writer.join().unwrap();
        assert_eq!(contents(), snapshot, "what the child has changes");
        snapshot[1] == Some(NEW)
    }));
}
