//! Two CPUs that run one space, the real code on the smallest tree: all executions with two preemptions.
//!
//! A call on CPU 0 takes a page, its frame or a right away while CPU 1 stores, or CPU 1 changes what CPU 0
//! reads. When the call, or the fault, has returned, no CPU has a translation cached that is wrong from then
//! on; a frame in use is user memory; at the end every frame is accounted for.

use super::world::*;
use crate::machine::testing::TestCpu;
use crate::space::*;
use crate::units::{Access, Rights};
use crate::vma::VmaFlags;

fn store_twice(machine: &'static Tests, space: &'static TestSpace) -> bool {
    store(machine, space, START) && store(machine, space, START)
}

/// Its first page was read.
fn read(space: &TestSpace) {
    mapped(space);
    space.fault(Fault { addr: START.addr(), access: Access::Read }).unwrap();
}

#[test]
fn loom_a_store_against_mprotect() {
    let protect: Program = |machine, space| {
        space.protect(START.addr(), PAGES * PAGE, VmaFlags::READ).unwrap();
        assert_none_cached(machine, |leaf| leaf.rights.contains(Rights::WRITE));
        true
    };
    let after = |space: &TestSpace| {
        assert!(!leaf(space, START).is_some_and(|leaf| leaf.rights.contains(Rights::WRITE)), "left writable");
    };
    assert_both(explore_pair(Pair { before: written, cpus: [protect, store_twice], after }));
}

#[test]
fn loom_a_store_against_dontneed() {
    let drop_page: Program = |machine, space| {
        let old = leaf(space, START).map(|leaf| leaf.pfn);
        space.advise(START.addr(), PAGE, Advice::DontNeed).unwrap();
        // CPU 1 may have a new frame by now, from its own cache: not the old one.
        assert_none_cached(machine, |leaf| Some(leaf.pfn) == old);
        true
    };
    let seen = explore_pair(Pair { before: written, cpus: [drop_page, store_twice], after: |_| () });
    assert_eq!(seen[0], 0, "the page stays mapped");
}

/// The second must not return before the flush of the first, which has cleared the entry.
#[test]
fn loom_two_dontneed_of_one_page() {
    let use_and_drop: Program = |machine, space| {
        let found = machine.translate(START, Access::Write).is_some();
        space.advise(START.addr(), PAGE, Advice::DontNeed).unwrap();
        assert_none_cached(machine, |_| true);
        found
    };
    assert_both(explore_pair(Pair { before: written, cpus: [use_and_drop; 2], after: |_| () }));
}

#[test]
fn loom_a_store_against_a_mapping_put_over_it() {
    let map_over: Program = |_, space| {
        map(space, START, PAGES);
        true
    };
    let seen = explore_pair(Pair { before: written, cpus: [map_over, store_twice], after: |_| () });
    assert_eq!(seen[0], 0, "the page is mapped before and after");
}

/// The flush of the zero page is waited for under the table's lock.
#[test]
fn loom_a_store_to_the_zero_page_against_a_reader() {
    let read_twice: Program = |machine, _| {
        machine.translate(START, Access::Read);
        TestCpu::take_interrupt();
        machine.translate(START, Access::Read);
        true
    };
    let store_and_look: Program = |machine, space| {
        let found = machine.cached(0, START).is_some();
        assert!(store(machine, space, START));
        let zero = space.vm.memory().zero_frame();
        assert_none_cached(machine, |leaf| leaf.pfn == zero);
        found
    };
    assert_both(explore_pair(Pair { before: read, cpus: [read_twice, store_and_look], after: |_| () }));
}

#[test]
fn loom_a_store_to_the_zero_page_against_unmap() {
    let unmap_all: Program = |machine, space| {
        unmap(space, START, PAGES);
        assert_none_cached(machine, |_| true);
        true
    };
    let after =
        |space: &TestSpace| assert!(!has_leaf(space, START), "a leaf is left where nothing is mapped");
    assert_both(explore_pair(Pair { before: read, cpus: [unmap_all, store_twice], after }));
}

#[test]
fn loom_two_faults_link_one_table() {
    let untouched = |space: &TestSpace| map(space, START, PAGES);
    let after = |space: &TestSpace| assert!(leaf(space, START).is_some(), "a page that was stored to");
    let seen = explore_pair(Pair { before: untouched, cpus: [store_to_start; 2], after });
    assert_eq!(seen[0], 0, "the page is mapped");
}
