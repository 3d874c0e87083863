//! Faults that map the huge zero page, and that replace it, against each other and against a writer. The real
//! code on the smallest tree, all executions with two preemptions.

use super::world::*;
use crate::machine::testing::{TestCpu, played};
use crate::space::{Counter, Fault};
use crate::units::{Access, Level, Vpn};
use crate::vma::HugePolicy;

/// Another page of it.
const OTHER: Vpn = Vpn(START.0 + 7);
/// Frames: the huge zero page, two that are allocated at once, and what goes beside.
const FRAMES: u64 = 6 * TABLE;

fn explore(before: fn(&TestSpace), cpus: [Program; 2], after: fn(&TestSpace)) -> [usize; 2] {
    explore_pair_on(Pair { before, cpus, after }, FRAMES, HugePolicy::Always, 2)
}

fn mapped(space: &TestSpace) {
    map(space, START, TABLE);
}

/// A mapping that the huge zero page maps.
fn zero(space: &TestSpace) {
    mapped(space);
    space.fault(Fault { addr: START.addr(), access: Access::Read }).unwrap();
    assert!(is_zero(space));
}

fn is_zero(space: &TestSpace) -> bool {
    leaf_of(space, START).is_some_and(|(leaf, level)| level == Level::Pmd && !leaf.owned())
}

fn is_owned(space: &TestSpace) -> bool {
    leaf_of(space, START).is_some_and(|(leaf, level)| level == Level::Pmd && leaf.owned())
}

/// Loads from a page as a program does. Whether it found the huge zero page.
fn load(machine: &Tests, space: &TestSpace, page: Vpn) -> bool {
    loop {
        TestCpu::take_interrupt();
        if let Some(leaf) = machine.translate(page, Access::Read) {
            return !leaf.owned();
        }
        space.fault(Fault { addr: page.addr(), access: Access::Read }).unwrap();
    }
}

fn load_start(machine: &'static Tests, space: &'static TestSpace) -> bool {
    load(machine, space, START)
}

fn load_other(machine: &'static Tests, space: &'static TestSpace) -> bool {
    load(machine, space, OTHER)
}

#[test]
fn loom_two_loads_race_to_map_the_huge_zero_page() {
    explore(mapped, [load_start, load_other], |space| {
        assert!(is_zero(space));
        assert_eq!(space.vm().totals().get(Counter::ThpZeroPageAlloc), 1);
    });
}

#[test]
fn loom_a_store_against_a_load_that_maps_the_huge_zero_page() {
    let seen = explore(mapped, [store_to_start, load_other], |space| {
        assert!(is_owned(space), "a store is lost");
    });
    assert!(seen.iter().all(|&count| count > 0), "the load is to come first and last: {seen:?}");
}

/// Once the store has returned, no CPU reads the zeros any more.
#[test]
fn loom_a_store_to_the_huge_zero_page_against_a_reader() {
    let store_and_look: Program = |machine, space| {
        assert!(store(machine, space, START));
        let cached = machine.cached(0, OTHER);
        assert!(cached.is_none_or(|leaf| leaf.owned()), "a CPU reads zeros after a store: {cached:?}");
        true
    };
    explore(zero, [load_other, store_and_look], |space| assert!(is_owned(space)));
}

#[test]
fn loom_two_stores_to_the_huge_zero_page() {
    let store_to_other: Program = |machine, space| store(machine, space, OTHER);
    explore(zero, [store_to_start, store_to_other], |space| {
        assert!(is_owned(space));
        let totals = space.vm().totals();
        let counted = [Counter::ThpFaultAlloc, Counter::NrAnonTransparentHugepages];
        assert_eq!(counted.map(|counter| totals.get(counter)), [1, 1]);
    });
}

#[test]
fn loom_a_load_that_maps_the_huge_zero_page_against_munmap_of_its_end() {
    let unmap_the_end: Program = |machine, space| {
        let end = Vpn(START.0 + TABLE - 2);
        unmap(space, end, 2);
        assert!(!machine.has_cached(1, end), "a page is cached that is gone");
        assert_eq!(leaf_of(space, end), None, "a leaf is left where nothing is mapped");
        true
    };
    let after = |space: &TestSpace| {
        let zero = space.vm().memory().zero_frame();
        assert!(leaf_of(space, START).is_some_and(|(leaf, level)| leaf.pfn == zero && level == Level::Pte));
    };
    let pair = Pair { before: mapped, cpus: [unmap_the_end, load_start], after };
    explore_pair_on(pair, FRAMES, HugePolicy::Always, played(1, 2));
}
