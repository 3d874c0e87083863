//! The second half of a writer, editing entries and flushing, beside readers of the space: the real code on
//! the smallest trees, all executions with two preemptions.

use super::world::*;
use crate::machine::Format;
use crate::machine::testing::{TestCpu, ThreeLevels, TwoLevels, played};
use crate::space::*;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::{Access, VpnRange};
use crate::vma::HugePolicy;

/// A mapping whose table is shared with a neighbour, which was never touched.
fn with_a_neighbour(space: &Space<TwoLevels>) {
    map(space, START, PAGES);
    touch(space, START.add(1));
    map(space, START.add(8), 1);
}

/// The whole of a table, whose parent is shared with a neighbour, which has no table yet.
fn with_a_neighbouring_table(space: &Space<ThreeLevels>) {
    map(space, START, TABLE);
    touch(space, START);
    map(space, START.add(TABLE + 1), 1);
    // Words that are read now need not be among the few zeros that a model makes in advance.
    (0..16).chain([TABLE + 1]).for_each(|page| assert_eq!(has_leaf(space, START.add(page)), page == 0));
}

/// CPU 1 faults in the neighbour, by the space's lock, while CPU 0 unmaps.
fn beside_unmap<F: Format, const UNMAPPED: u64>(before: fn(&Space<F>), neighbour: u64) {
    let seen = explore(Case {
        path: Path::Locked,
        before,
        fault: AddressSpace::fault,
        writer: |space| {
            unmap(space, START, UNMAPPED);
            assert_forgotten(space, START);
            assert!(
                !has_leaf(space, START) && !has_leaf(space, START.add(1)),
                "left where nothing is mapped"
            );
        },
        page: START.add(neighbour),
        access: Access::Write,
        first: First::Writer,
        preemptions: 2,
    });
    assert_eq!(seen.refused.load(Relaxed), 0, "the neighbour is mapped");
}

#[test]
fn loom_locked_fault_in_the_table_that_an_unmap_clears() {
    beside_unmap::<TwoLevels, PAGES>(with_a_neighbour, 8);
}

#[test]
fn loom_locked_fault_links_a_table_beside_one_that_an_unmap_detaches() {
    beside_unmap::<ThreeLevels, TABLE>(with_a_neighbouring_table, TABLE + 1);
}

/// Two written pages, and a neighbour's.
fn two_written(space: &TestSpace) {
    written(space);
    touch(space, START.add(1));
}

#[test]
fn loom_dontneed_in_the_table_that_an_unmap_clears() {
    let unmap_pages: Program = |machine, space| {
        unmap(space, START, PAGES);
        assert_none_cached(machine, |_| true);
        true
    };
    let drop_neighbour: Program = |_, space| {
        space.advise(START.add(8).addr(), PAGE, Advice::DontNeed).unwrap();
        true
    };
    let after = |space: &TestSpace| {
        assert!([0, 1, 8].into_iter().all(|page| !has_leaf(space, START.add(page))), "a leaf is left");
    };
    let pair = Pair { before: two_written, cpus: [unmap_pages, drop_neighbour], after };
    explore_pair_on(pair, 96, HugePolicy::Never, played(1, 2));
}

/// A CPU that was told that a page is not mapped any more does not find the next one through its TLB.
#[test]
fn loom_a_refused_fault_comes_after_the_flush() {
    let unmap_pages: Program = |_, space| {
        unmap(space, START, PAGES);
        true
    };
    let fault_once: Program = |machine, space| {
        let has_cached = machine.translate(START, Access::Write).is_some();
        let second = Fault { addr: START.add(1).addr(), access: Access::Read };
        if space.fault(second).is_err() {
            assert!(machine.cached(1, START).is_none(), "a fault is refused before the flush");
        }
        TestCpu::take_interrupt();
        has_cached
    };
    assert_both(explore_pair(Pair { before: written, cpus: [unmap_pages, fault_once], after: |_| () }));
}

/// The second page is mapped and was touched, the first is a hole.
fn hole_and_page(space: &TestSpace) {
    mapped(space);
    touch(space, START.add(1));
    unmap(space, START, 1);
}

/// The same, and the page after them was touched, so that the mapping that is put over the first two becomes
/// one with it, with its identity: a writer that freezes the identity does not keep faults out.
fn hole_and_identity(space: &TestSpace) {
    map(space, START, 3);
    touch(space, START.add(2));
    touch(space, START.add(1));
    unmap(space, START, 1);
}

/// A locked fault meets the mapping while the entries are not its own yet: what is stored to the page that it
/// gets stays.
fn fault_in_a_mapping_that_is_put_over_others(before: fn(&TestSpace)) {
    let map_over: Program = |_, space| {
        map(space, START, PAGES);
        true
    };
    let fault_locked: Program = |_, space| {
        let is_mapped =
            space.faults().make_present(Fault { addr: START.addr(), access: Access::Write }).is_ok();
        TestCpu::take_interrupt();
        if is_mapped {
            let written = leaf(space, START).map(|leaf| leaf.pfn);
            drop(space.mappings.read_after_writers(VpnRange::new(START, START.add(1))));
            let kept = leaf(space, START).map(|leaf| leaf.pfn);
            assert!(written.is_some() && kept == written, "a page of the new mapping is lost");
        }
        is_mapped
    };
    assert_both(explore_pair(Pair { before, cpus: [map_over, fault_locked], after: |_| () }));
}

#[test]
fn loom_a_locked_fault_in_a_mapping_that_is_put_over_others() {
    fault_in_a_mapping_that_is_put_over_others(hole_and_page);
}

#[test]
fn loom_a_locked_fault_in_a_mapping_that_is_put_over_others_and_has_an_identity() {
    fault_in_a_mapping_that_is_put_over_others(hole_and_identity);
}
