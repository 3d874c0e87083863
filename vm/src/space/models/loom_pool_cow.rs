//! A page of the hugetlb pool that a fork has shared: stores of both spaces, a store beside what the other
//! space does with its leaf, two CPUs of one space, and the owner that takes the page back. The real code on
//! the smallest tree, all executions with two preemptions.

use super::world::*;
use crate::machine::testing::{TestCpu, played, with_leaked};
use crate::space::*;
use crate::sync::testing::thread;
use crate::sync::{forget_value, refill_zeros};
use crate::table::walk;
use crate::table::{Poison, SlotMarker};
use crate::units::{Access, Level, Pfn};
use crate::vma::VmaFlags;
use core::cell::Cell;
use std::boxed::Box;

/// What the second writer stores.
const OTHER: u8 = 3;

/// What both CPUs do with a space that has shared its page with a child. Returns one of two results.
type Body = fn(&'static Tests, &'static TestSpace, Box<TestSpace>) -> bool;

/// Runs the body in all executions, with its first and its last base page written before, and a pool of so
/// many pages, one of which was set aside for the space. Returns how often each result was seen.
fn explore(pool: u64, body: Body) -> [usize; 2] {
    explore_bounded(2, pool, body)
}

/// As [`explore`], with so many preemptions.
fn explore_bounded(preemptions: usize, pool: u64, body: Body) -> [usize; 2] {
    let prepared = move |machine: &'static Tests, space: &'static TestSpace| {
        assert_eq!(space.vm().resize_hugetlb(SIZE, pool), all_free(pool));
        let child = shared(machine, space);
        refill_zeros();
        body(machine, space, child)
    };
    let after = move |vm: &'static TestVm| {
        assert_eq!(vm.memory().hugetlb().counts(SIZE), all_free(pool));
        vm.resize_hugetlb(SIZE, 0);
        vm.trim();
    };
    let size = Size { preemptions, ..Size::of((pool + 3) * TABLE) };
    explore_space(size, VmOptions::default, prepared, after)
}

/// Maps the page, stores to it, and forks.
fn shared(machine: &'static Tests, space: &'static TestSpace) -> Box<TestSpace> {
    map_hugetlb(space, Sharing::Private, VmaFlags::empty());
    touch(space, X);
    forked_once(machine, space);
    machine.write(head(space).unwrap().add(TABLE - 1), 0, &[OLD]);
    fork(space)
}

fn head(space: &TestSpace) -> Option<Pfn> {
    frame(space, X)
}

/// What the first and the last base page hold.
fn held(machine: &Tests, space: &TestSpace) -> Option<[u8; 2]> {
    let head = head(space)?;
    let mut bytes = [[0]; 2];
    machine.read(head, 0, &mut bytes[0]);
    machine.read(head.add(TABLE - 1), 0, &mut bytes[1]);
    Some([bytes[0][0], bytes[1][0]])
}

/// The pool has one page for the two: the CPU that takes it leaves the old one to the other.
#[test]
fn loom_stores_of_two_spaces_to_one_page_of_a_pool_that_has_one_more() {
    assert_both(explore(2, |machine, space, child| {
        let shared = head(space);
        let writer = store_beside(machine, space);
        let running = child.activate(None);
        store_byte(machine, &child, X, OTHER);
        drop(running);
        writer.join().unwrap();
        assert_eq!([held(machine, space), held(machine, &child)], [Some([NEW, OLD]), Some([OTHER, OLD])]);
        assert_ne!(head(space), head(&child));
        head(space) == shared
    }));
}

/// Stores X on CPU 0 while CPU 1 does something with the child, which it returns. Whether the space has
/// written its page in place.
fn store_against(
    machine: &'static Tests,
    space: &'static TestSpace,
    beside: impl FnOnce() -> Option<Box<TestSpace>> + 'static,
) -> bool {
    let shared = head(space);
    let other = thread::spawn(move || {
        machine.run_as(1);
        beside()
    });
    let running = space.activate(None);
    store_byte(machine, space, X, NEW);
    drop(running);
    let _child = other.join().unwrap();
    assert_eq!(held(machine, space), Some([NEW, OLD]));
    head(space) == shared
}

#[test]
fn loom_a_store_to_a_shared_page_of_the_pool_against_munmap_by_the_other() {
    assert_both(explore(2, |machine, space, child| {
        store_against(machine, space, move || {
            child.unmap(START.addr(), TABLE * PAGE).unwrap();
            Some(child)
        })
    }));
}

#[test]
fn loom_a_store_to_a_shared_page_of_the_pool_against_the_end_of_the_other() {
    assert_both(explore(2, |machine, space, child| {
        store_against(machine, space, move || {
            drop(child);
            None
        })
    }));
}

/// Each may have prepared a copy: one goes back.
#[test]
fn loom_two_cpus_of_one_space_store_to_a_shared_page_of_the_pool() {
    explore_bounded(played(1, 2), 3, |machine, space, child| {
        let writer = store_beside(machine, space);
        let running = space.activate(None);
        store_byte(machine, space, X, OTHER);
        drop(running);
        writer.join().unwrap();
        let [first, last] = held(machine, space).expect("the page is there");
        assert!([NEW, OTHER].contains(&first) && last == OLD, "{first} {last}");
        assert_eq!(held(machine, &child), Some([OLD, OLD]));
        first == NEW
    });
}

/// What was prepared is a copy of what the page held before: it is not installed over what it holds now,
/// which a second child shares.
#[test]
fn loom_a_store_to_a_shared_page_of_the_pool_against_a_drop_and_a_second_fork() {
    explore(4, |machine, space, child| {
        // No flush waits for this CPU, which does not run the space.
        let writer = thread::spawn(move || {
            machine.run_as(1);
            touch(space, X);
        });
        space.advise(START.addr(), TABLE * PAGE, Advice::DontNeed).unwrap();
        touch(space, X);
        let second = fork(space);
        writer.join().unwrap();
        let [_, last] = held(machine, space).expect("the page is there");
        assert_eq!(last, 0, "what was dropped came back");
        assert_eq!(held(machine, &child), Some([OLD, OLD]));
        drop(second);
        false
    });
}

/// A child that is losing its page never finds its owner's store there.
#[test]
fn loom_a_page_that_is_taken_back_against_loads_and_a_store_of_the_child() {
    let [_, loaded] = explore_bounded(played(1, 2), 1, |machine, space, child| {
        let has_loaded = Cell::new(false);
        with_leaked(*child, |child| {
            forget_value(child);
            has_loaded.set(take_back_beside(machine, space, child));
        });
        has_loaded.get()
    });
    assert!(loaded > 0, "the child had its page");
}

/// Returns whether the child has loaded something.
fn take_back_beside(machine: &'static Tests, space: &'static TestSpace, child: &'static TestSpace) -> bool {
    // A word that does not start as zero: the model is to know it before there are two threads.
    assert!(child.entries.tlb.generation() > 0);
    let reader = thread::spawn(move || {
        machine.run_as(1);
        let running = child.activate(None);
        let mut loads = 0;
        for _ in 0..2 {
            TestCpu::take_interrupt();
            if let Some(leaf) = machine.translate(X, Access::Read) {
                let mut byte = [0];
                machine.read(leaf.pfn, 0, &mut byte);
                assert_eq!(byte, [OLD], "the child loads what its parent stores");
                loads += 1;
            }
        }
        let stored = child.fault(Fault { addr: X.addr(), access: Access::Write });
        assert_eq!(stored, Err(FaultError::HugetlbEmpty));
        drop(running);
        loads > 0
    });
    while let Err(error) = space.fault(Fault { addr: X.addr(), access: Access::Write }) {
        assert_eq!(error, FaultError::HugetlbEmpty);
        let known = |id| [space, child].into_iter().find(|space| space.id() == id);
        assert_eq!(space.unmap_hugetlb_sharers(X.addr(), known), Ok(true));
    }
    machine.write(head(space).unwrap(), 0, &[NEW]);
    let has_loaded = reader.join().unwrap();
    let reading = child.vm().read();
    let taken = SlotMarker::Poisoned(Poison::HugetlbUnmapped).entry();
    assert_eq!(walk(child.inspect().page_table(), X, Level::Pte, &reading).entry(), taken);
    drop(reading);
    assert_eq!(held(machine, space), Some([NEW, OLD]));
    has_loaded
}
