//! A huge page that a fork has shared: what the two spaces do to it at once, and two CPUs of one of them.
//! The real code on the smallest tree, all executions with two preemptions, or one where two are too many.

use super::loom_fork::{NEW, OLD, byte, fork, frame, store};
use super::loom_pairs::{TestSpace, Tests, assert_both};
use super::loom_pin::limit;
use super::world::*;
use crate::machine::testing::{played, with_leaked};
use crate::space::*;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::refill_zeros;
use crate::sync::testing::run_model;
use crate::sync::testing::thread;
use crate::table::walk;
use crate::units::{Access, Level, Vpn};
use crate::vma::HugePolicy;
use core::cell::Cell;
use std::boxed::Box;
use std::sync::atomic::AtomicUsize;

/// Two pages of the huge page: the first, and one of the last.
const X: Vpn = START;
const Y: Vpn = Vpn(START.0 + TABLE - 1);
/// What the second writer stores.
const OTHER: u8 = 3;

/// What both CPUs do with a space that has shared its huge page with a child. Returns one of two results.
type Body = fn(&'static Tests, &'static TestSpace, Box<TestSpace>) -> bool;

/// Runs the body in all executions, with X and Y written before. Returns how often each result was seen.
fn explore(preemptions: usize, body: Body) -> [usize; 2] {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(preemptions, move || {
        with_leaked(Tests::of_format(4 * TABLE, 2), |machine| {
            let options = VmOptions { huge_pages: HugePolicy::Always, ..VmOptions::default() };
            let memory = boot_map(machine).claim(machine).unwrap();
            with_leaked(Vm::start(memory, options).unwrap(), |vm| {
                let before = Cell::new(0);
                with_leaked(AddressSpace::new(vm, layout(), Path::Speculative).unwrap(), |space| {
                    for cpu in [1, 0] {
                        machine.run_as(cpu);
                        warm(space);
                    }
                    before.set(vm.memory().stats().allocated());
                    map(space, START, TABLE);
                    // The words of a fork, of a reuse and of CPU 1's MMU are there before there are threads.
                    touch(space, X);
                    drop(fork(space));
                    machine.run_as(1);
                    let running = space.activate(None);
                    store(machine, space, X, OLD);
                    drop(running);
                    machine.run_as(0);
                    [X, Y].iter().for_each(|&page| {
                        machine.write(space.inspect().resident_frame(page).unwrap().0, 0, &[OLD]);
                    });
                    let child = fork(space);
                    assert!(is_huge(space) && is_huge(&child));
                    refill_zeros();
                    seen[usize::from(body(machine, space, child))].fetch_add(1, Relaxed);
                });
                vm.trim();
                let after = vm.memory().check().unwrap().allocated;
                assert_eq!(after, before.get() - OF_SPACE, "frames handed out before and after");
                assert_eq!(vm.totals().get(Counter::NrAnonTransparentHugepages), 0);
            });
        });
    });
    let seen = seen.each_ref().map(|count| count.load(Relaxed));
    std::eprintln!("{seen:?}");
    seen
}

fn is_huge(space: &TestSpace) -> bool {
    let reading = space.vm().read();
    walk(space.inspect().page_table(), X, Level::Pte, &reading).table.level() == Level::Pmd
}

/// The byte of a page, also in a huge one.
fn held(machine: &Tests, space: &TestSpace, page: Vpn) -> Option<u8> {
    let (pfn, _) = space.inspect().resident_frame(page)?;
    let mut byte = [0];
    machine.read(pfn, 0, &mut byte);
    Some(byte[0])
}

/// Stores X on CPU 1, which runs the space.
fn store_beside(
    machine: &'static Tests,
    space: &'static TestSpace,
) -> crate::sync::testing::thread::JoinHandle<()> {
    thread::spawn(move || {
        machine.run_as(1);
        let running = space.activate(None);
        store(machine, space, X, NEW);
        drop(running);
    })
}

#[test]
fn loom_stores_of_two_spaces_to_one_huge_page() {
    explore(2, |machine, space, child| {
        let writer = store_beside(machine, space);
        let running = child.activate(None);
        store(machine, &child, X, OTHER);
        drop(running);
        writer.join().unwrap();
        assert_eq!([held(machine, space, X), held(machine, &child, X)], [Some(NEW), Some(OTHER)]);
        assert_eq!([held(machine, space, Y), held(machine, &child, Y)], [Some(OLD), Some(OLD)]);
        assert_eq!(frame(space, Y), frame(&child, Y), "nobody has stored there");
        false
    });
}

#[test]
fn loom_a_store_to_a_shared_huge_page_against_munmap_of_a_part_by_the_other() {
    explore(2, |machine, space, child| {
        let writer = store_beside(machine, space);
        unmap(&child, Y, 1);
        writer.join().unwrap();
        assert_eq!([held(machine, space, X), held(machine, space, Y)], [Some(NEW), Some(OLD)]);
        assert_eq!([held(machine, &child, X), held(machine, &child, Y)], [Some(OLD), None]);
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
        store(machine, space, X, NEW);
        drop(running);
        end.join().unwrap();
        assert_eq!([held(machine, space, X), held(machine, space, Y)], [Some(NEW), Some(OLD)]);
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
            assert!(pin(Y).is_err(), "a page is pinned that the child has");
            let pinned = pin(X).ok().map(|pins| pins.frames().next().unwrap().pfn());
            drop(reading);
            drop(running);
            pinned
        });
        let running = space.activate(None);
        store(machine, space, X, NEW);
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
        assert_eq!([held(machine, &child, X), held(machine, &child, Y)], [Some(OLD), Some(OLD)]);
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
        [X, NEXT].iter().for_each(|&page| store(machine, space, page, OLD));
        drop(running);
        let writer = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            store(machine, space, X, NEW);
            store(machine, space, NEXT, NEW);
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
