//! An edit in parts: two workers sweep neighbouring tables beside a CPU that stores to one of their pages,
//! with one flush at the end. The real code on the smallest tree, all executions with one preemption: three
//! threads.
//!
//! CPU 0 has called, CPU 2 helps, CPU 1 runs the space. A job's dispatch has models of its own (`work`): here
//! the parts are given to the workers.

use super::loom_pairs::{TestSpace, Tests, store};
use super::world::*;
use crate::machine::Entry;
use crate::machine::testing::with_leaked;
use crate::space::edit::Zap;
use crate::space::*;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::forget_value;
use crate::sync::refill_zeros;
use crate::sync::testing::{run_model, thread};
use crate::table::{SlotMarker, walk};
use crate::units::{Access, Level, Pfn, Vpn, VpnRange};
use core::cell::Cell;
use std::boxed::Box;
use std::sync::atomic::AtomicUsize;

/// A page of the first table, which the caller sweeps, and one of the next, which the helper sweeps.
const X: Vpn = START;
const Y: Vpn = Vpn(START.0 + TABLE);

fn page(page: Vpn) -> VpnRange {
    VpnRange::new(page, page.add(1))
}

fn entry(space: &TestSpace, page: Vpn) -> Entry {
    let reading = space.vm.rcu.read();
    walk(&space.entries.table, page, Level::Pte, &reading).entry()
}

fn frame(space: &TestSpace, page: Vpn) -> Option<Pfn> {
    match entry(space, page) {
        Entry::Leaf(leaf) => Some(leaf.pfn),
        _ => None,
    }
}

/// Drops the contents of both pages, in two parts.
fn drop_in_parts(machine: &'static Tests, space: &'static TestSpace) {
    let range = VpnRange::new(X, Y.add(1));
    let guard = space.mappings.share_after_fork(&space.entries, range);
    space.entries.gather(guard.held(), range, |gather| {
        let done = gather.in_parts(|parts| {
            let help = || {
                machine.run_as(2);
                parts.part(|part| Zap::of_unmapped(&space.entries).alone(page(Y), part));
            };
            thread::beside(help, || parts.part(|part| Zap::of_unmapped(&space.entries).alone(page(X), part)));
        });
        assert!(done.is_some(), "no other edit is under way");
        Zap::of_unmapped(&space.entries).put_deferred(gather);
    });
}

/// CPU 1 stores to `stored` twice while both pages are dropped. Returns how often it found the old frame, and
/// how often not.
fn explore_parts(before: fn(&TestSpace), stored: Vpn) -> [usize; 2] {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(1, move || {
        with_leaked(Tests::of_format(128, 3), |machine| {
            with_leaked(Vm::new(machine, boot_map(machine)).unwrap(), |vm| {
                let allocated = Cell::new(0);
                with_leaked(AddressSpace::new(vm, layout(), Path::Speculative).unwrap(), |space| {
                    for cpu in [2, 1, 0] {
                        machine.run_as(cpu);
                        warm(space);
                    }
                    allocated.set(vm.memory().check().unwrap().allocated);
                    map(space, START, TABLE + 1);
                    [X, Y].iter().for_each(|&page| touch(space, page));
                    before(space);
                    let found = one_execution(machine, space, stored);
                    seen[usize::from(found)].fetch_add(1, Relaxed);
                });
                vm.trim();
                let after = vm.memory().check().unwrap().allocated;
                assert_eq!(after, allocated.get() - OF_SPACE, "frames handed out before and after");
            });
        });
    });
    seen.each_ref().map(|count| count.load(Relaxed))
}

fn one_execution(machine: &'static Tests, space: &'static TestSpace, stored: Vpn) -> bool {
    let old = frame(space, stored);
    assert!(old.is_some());
    refill_zeros();
    let program = thread::spawn(move || {
        machine.run_as(1);
        let running = space.activate(None);
        let read = machine.translate(stored, Access::Read).map(|leaf| leaf.pfn);
        let is_stored = store(machine, space, stored) && store(machine, space, stored);
        assert!(is_stored, "the page stays mapped");
        drop(running);
        read == old
    });
    drop_in_parts(machine, space);
    let is_old = |leaf: crate::machine::Leaf| Some(leaf.pfn) == old;
    assert!(!machine.cached(1, stored).is_some_and(is_old), "a CPU has a page cached that is gone");
    let found = program.join().unwrap();
    assert!(![X, Y].iter().any(|&page| is_pending(entry(space, page))));
    found
}

fn assert_both(seen: [usize; 2]) {
    assert!(seen.iter().all(|&count| count > 0), "the page must be found and missed: {seen:?}");
}

#[test]
fn loom_a_store_to_a_page_that_a_helper_drops() {
    assert_both(explore_parts(|_| (), Y));
}

#[test]
fn loom_a_store_to_a_page_that_the_caller_drops_beside_a_helper() {
    assert_both(explore_parts(|_| (), X));
}

/// The frames were another space's too, so both parts leave them in their slots.
#[test]
fn loom_a_store_to_a_page_whose_frame_a_helper_leaves_in_its_slot() {
    let shared = |space: &TestSpace| {
        let child = Box::new(space.fork().unwrap());
        forget_value(&*child);
        drop(child);
    };
    assert_both(explore_parts(shared, Y));
}

fn is_pending(entry: Entry) -> bool {
    matches!(entry, Entry::Marker(it) if matches!(SlotMarker::of(it), Some(SlotMarker::PendingFree(_))))
}
