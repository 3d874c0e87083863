//! An edit in parts: two workers sweep neighbouring tables beside a CPU that stores to one of their pages,
//! with one flush at the end. The real code on the smallest tree, all executions with one preemption: three
//! threads.
//!
//! CPU 0 has called, CPU 2 helps, CPU 1 runs the space. A job's dispatch has models of its own (`work`): here
//! the parts are given to the workers.

use super::world::*;
use crate::machine::Entry;
use crate::space::edit::Zap;
use crate::space::*;
use crate::sync::forget_value;
use crate::sync::refill_zeros;
use crate::sync::testing::thread;
use crate::table::SlotMarker;
use crate::units::{Access, Vpn, VpnRange};
use std::boxed::Box;

fn page(page: Vpn) -> VpnRange {
    VpnRange::new(page, page.add(1))
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

/// CPU 1 stores to `stored` twice while both pages are dropped: X, in the table that the caller sweeps, and
/// Y, in that of the helper. Returns how often it found the old frame, and how often not.
fn explore_parts(before: fn(&TestSpace), stored: Vpn) -> [usize; 2] {
    let prepared = move |machine: &'static Tests, space: &'static TestSpace| {
        map(space, START, TABLE + 1);
        [X, Y].iter().for_each(|&page| touch(space, page));
        before(space);
        one_execution(machine, space, stored)
    };
    explore_space(Size { frames: 128, cpus: 3, preemptions: 1 }, VmOptions::default, prepared, |_| ())
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
