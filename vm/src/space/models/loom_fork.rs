//! fork and copies on write against threads that go on, the real code on the smallest trees.
//!
//! CPU 1 runs the parent and stores through the test machine's MMU, which keeps translations until they are
//! flushed. What the child has when fork returns is what a thread's stores were at one instant, and stays so.

use super::loom_pairs::{TestSpace, Tests, assert_both};
use super::world::*;
use crate::machine::Entry;
use crate::machine::testing::{TestCpu, with_leaked};
use crate::space::*;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::testing::run_model;
use crate::sync::testing::thread;
use crate::sync::{forget_value, refill_zeros};
use crate::table::walk;
use crate::units::{Access, Level, Pfn, Rights, Vpn};
use core::cell::Cell;
use std::boxed::Box;
use std::sync::atomic::AtomicUsize;

/// The page that is swept first, and one in the next table.
pub(super) const X: Vpn = START;
pub(super) const Y: Vpn = Vpn(START.0 + TABLE);

/// What both CPUs do with the space, on CPU 0 at first. Returns one of two results.
pub(super) type Body = fn(&'static Tests, &'static TestSpace) -> bool;

/// Runs the body in all executions, with X and Y written in the space before. Returns how often each result
/// was seen.
pub(super) fn explore_fork(body: Body) -> [usize; 2] {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(2, move || {
        with_leaked(Tests::of_format(128, 2), |machine| {
            with_leaked(Vm::new(machine, boot_map(machine)).unwrap(), |vm| {
                let before = Cell::new(0);
                with_leaked(AddressSpace::new(vm, layout(), Path::Speculative).unwrap(), |space| {
                    for cpu in [1, 0] {
                        machine.run_as(cpu);
                        warm(space);
                    }
                    before.set(vm.memory().check().unwrap().allocated);
                    map(space, START, TABLE + 1);
                    [X, Y].iter().for_each(|&page| write(machine, space, page, OLD));
                    // The words of a fork, of a reuse and of CPU 1's MMU are there before there are threads.
                    drop(fork(space));
                    [X, Y].iter().for_each(|&page| touch(space, page));
                    machine.run_as(1);
                    let running = space.activate(None);
                    store(machine, space, X, OLD);
                    drop(running);
                    machine.run_as(0);
                    refill_zeros();
                    seen[usize::from(body(machine, space))].fetch_add(1, Relaxed);
                });
                vm.trim();
                let after = vm.memory().check().unwrap().allocated;
                assert_eq!(after, before.get() - OF_SPACE, "frames handed out before and after");
            });
        });
    });
    let seen = seen.each_ref().map(|count| count.load(Relaxed));
    std::eprintln!("{seen:?}");
    seen
}

pub(super) const OLD: u8 = 1;
pub(super) const NEW: u8 = 2;

/// A child, at a place where its words stay.
pub(super) fn fork(space: &TestSpace) -> Box<TestSpace> {
    let child = Box::new(space.fork().unwrap());
    forget_value(&*child);
    child
}

/// Writes a byte of a page of a space that this CPU does not run.
pub(super) fn write(machine: &Tests, space: &TestSpace, page: Vpn, byte: u8) {
    touch(space, page);
    machine.write(frame(space, page).unwrap(), 0, &[byte]);
}

/// Stores a byte as a program does, with the faults that this takes.
pub(super) fn store(machine: &Tests, space: &TestSpace, page: Vpn, byte: u8) {
    loop {
        TestCpu::take_interrupt();
        if let Some(leaf) = machine.translate(page, Access::Write) {
            return machine.write(leaf.pfn, 0, &[byte]);
        }
        space.fault(Fault { addr: page.addr(), access: Access::Write }).unwrap();
    }
}

pub(super) fn frame(space: &TestSpace, page: Vpn) -> Option<Pfn> {
    let reading = space.vm.rcu.read();
    match walk(&space.entries.table, page, Level::Pte, &reading).entry() {
        Entry::Leaf(leaf) => Some(leaf.pfn),
        _ => None,
    }
}

/// The byte of a page that is no table away; 0 where it is absent.
pub(super) fn byte(machine: &Tests, space: &TestSpace, page: Vpn) -> u8 {
    let mut byte = [0];
    if let Some(pfn) = frame(space, page) {
        machine.read(pfn, 0, &mut byte);
    }
    byte[0]
}

/// Forks on CPU 0 while CPU 1 runs `program`. Asserts that the child's contents are allowed by `is_sound` and
/// stay so, and that no CPU can write them. Returns whether the child has the new Y.
pub(super) fn fork_beside(
    machine: &'static Tests,
    space: &'static TestSpace,
    program: fn(&'static Tests, &'static TestSpace),
    is_sound: fn([u8; 2]) -> bool,
) -> bool {
    let cpu1 = thread::spawn(move || {
        machine.run_as(1);
        let running = space.activate(None);
        program(machine, space);
        drop(running);
    });
    let child = fork(space);
    let contents = || [X, Y].map(|page| byte(machine, &child, page));
    let snapshot = contents();
    assert!(is_sound(snapshot), "the child has {snapshot:?}");
    for page in [X, Y] {
        let shared = frame(&child, page);
        let is_written =
            |leaf: crate::machine::Leaf| Some(leaf.pfn) == shared && leaf.rights.contains(Rights::WRITE);
        assert!(!machine.cached(1, page).is_some_and(is_written), "a CPU writes what the child maps");
    }
    cpu1.join().unwrap();
    assert_eq!(contents(), snapshot, "what the child has changes");
    snapshot[1] == NEW
}

#[test]
fn loom_a_child_has_no_store_without_those_before_it() {
    assert_both(explore_fork(|machine, space| {
        let program = |machine, space| {
            store(machine, space, X, NEW);
            store(machine, space, Y, NEW);
        };
        fork_beside(machine, space, program, |[x, y]| y == OLD || x == NEW)
    }));
}

#[test]
fn loom_a_store_through_an_old_translation_reaches_the_child_or_waits() {
    assert_both(explore_fork(|machine, space| {
        let program = |machine, space| {
            // Cached from before the fork, or from before the sweep.
            store(machine, space, X, OLD);
            store(machine, space, X, NEW);
            store(machine, space, Y, NEW);
        };
        fork_beside(machine, space, program, |[x, y]| y == OLD || x == NEW)
    }));
}

#[test]
fn loom_a_child_has_no_store_without_the_dontneed_before_it() {
    assert_both(explore_fork(|machine, space| {
        let program = |machine, space: &'static TestSpace| {
            space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
            store(machine, space, Y, NEW);
        };
        fork_beside(machine, space, program, |[x, y]| y == OLD || x != OLD)
    }));
}

#[test]
fn loom_a_copy_on_write_against_a_reader() {
    assert_both(explore_fork(|machine, space| {
        let child = fork(space);
        let shared = frame(&child, X);
        let reader = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            let found = machine.translate(X, Access::Read).is_some();
            TestCpu::take_interrupt();
            machine.translate(X, Access::Read);
            drop(running);
            found
        });
        touch(space, X);
        let stale = machine.cached(1, X).is_some_and(|leaf| Some(leaf.pfn) == shared);
        assert!(!stale, "a CPU reads the old frame after another has written");
        let found = reader.join().unwrap();
        assert_eq!(byte(machine, &child, X), OLD);
        assert_eq!(byte(machine, space, X), OLD, "the copy");
        found
    }));
}

#[test]
fn loom_a_reuse_against_a_second_fork() {
    let [kept, copied] = explore_fork(|machine, space| {
        let child = fork(space);
        let before = frame(space, X);
        let writer = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            store(machine, space, X, NEW);
            drop(running);
        });
        let grandchild = fork(&child);
        drop(child);
        assert_eq!(byte(machine, &grandchild, X), OLD);
        writer.join().unwrap();
        assert_eq!((byte(machine, &grandchild, X), byte(machine, space, X)), (OLD, NEW));
        let copied = frame(space, X) != before;
        drop(grandchild);
        copied
    });
    assert!(kept == 0 && copied > 0, "somebody else maps the frame at all times");
}

#[test]
fn loom_a_store_against_the_end_of_the_child() {
    assert_both(explore_fork(|machine, space| {
        let child = fork(space);
        let before = frame(space, X);
        let writer = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            store(machine, space, X, NEW);
            drop(running);
        });
        drop(child);
        writer.join().unwrap();
        assert_eq!(byte(machine, space, X), NEW);
        frame(space, X) != before
    }));
}

#[test]
fn loom_a_read_fault_goes_on_beside_a_fork() {
    assert_both(explore_fork(|machine, space| {
        space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
        let reader = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            let outcome = space.fault(Fault { addr: X.addr(), access: Access::Read }).unwrap();
            drop(running);
            outcome
        });
        let child = fork(space);
        let is_present = has_leaf(&child, X);
        let outcome = reader.join().unwrap();
        assert_ne!(outcome, Outcome::FellBack(Fallback::Forking), "a read waits for a fork");
        assert_eq!([X, Y].map(|page| byte(machine, &child, page)), [0, OLD]);
        assert!(has_leaf(&child, X) == is_present, "what the child has changes");
        is_present
    }));
}

/// The child has all that the unmap takes away, or no mapping there.
#[test]
fn loom_a_fork_against_an_unmap_by_the_parent() {
    assert_both(explore_fork(|machine, space| {
        let unmapper = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            machine.translate(X, Access::Read);
            unmap(space, X, 1);
            assert!(!machine.has_cached(1, X), "a CPU has a page cached that is gone");
            drop(running);
        });
        let child = fork(space);
        let is_mapped = child.inspect().is_any_mapped(X.addr(), PAGE);
        let contents = || [X, Y].map(|page| byte(machine, &child, page));
        assert_eq!(contents(), [if is_mapped { OLD } else { 0 }, OLD]);
        unmapper.join().unwrap();
        assert_eq!(contents(), [if is_mapped { OLD } else { 0 }, OLD], "what the child has changes");
        assert!(!has_leaf(space, X), "a leaf is left where nothing is mapped");
        is_mapped
    }));
}

/// All entries of a frame hold one reference together. An entry counts until its flush is over: the last
/// space that maps the frame may then write it, and no CPU reads it through the entry that is gone.
#[test]
fn loom_a_reuse_against_the_late_flush_of_a_zap() {
    assert_both(explore_fork(|machine, space| {
        let child = fork(space);
        let shared = frame(space, X);
        let running = child.activate(None);
        assert!(machine.translate(X, Access::Read).is_some());
        let writer = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            store(machine, space, X, NEW);
            let is_reused = frame(space, X) == shared;
            let is_cached = machine.cached(0, X).is_some_and(|leaf| Some(leaf.pfn) == shared);
            assert!(!is_reused || !is_cached, "a CPU reads what another space has taken for its own");
            drop(running);
            is_reused
        });
        unmap(&child, X, 1);
        let is_reused = writer.join().unwrap();
        drop(running);
        is_reused
    }));
}
