//! A lookup against a replacement, in the smallest tree: all executions with a few preemptions.
//!
//! Freed nodes are poisoned, so that a lookup that is in one finds nothing. Shadows of a new node's words
//! are created with the node: loom fails if a lookup reaches one through a store that does not release it.

use super::memory::*;
use crate::index::*;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::testing::thread;
use crate::sync::testing::{Heap, run_model};
use crate::sync::{Rcu, ReadGuard};
use crate::units::Vpn;
use crate::units::VpnRange;
use core::cell::Cell;
use core::sync::atomic::Ordering::*;
use std::boxed::Box;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::vec::Vec;

type Tree = RangeIndex<'static, TestItem, TestCpu, 4>;

struct World {
    rcu: Rcu<'static, TestCpu>,
    tree: Tree,
}

/// Numbers of executions, by the lookup's result.
#[derive(Default)]
struct Seen {
    all: AtomicUsize,
    old: AtomicUsize,
    new: AtomicUsize,
    neither: AtomicUsize,
}

/// A replacement, and the page that a lookup looks for meanwhile.
#[derive(Clone, Copy)]
struct Case {
    before: &'static [(u64, u64)],
    old: (u64, u64),
    new: &'static [(u64, u64)],
    look: fn(&Tree, &ReadGuard<'_, TestCpu>) -> Option<(u64, u64)>,
    /// The item found before and after: start and end.
    expect: [(u64, u64); 2],
}

fn range(item: &TestItem) -> (u64, u64) {
    (item.range.start.0, item.range.end.0)
}

/// CPU 0 replaces and frees, at once or after a grace period; CPU 1 looks up.
fn explore(case: Case, at_once: bool) -> &'static Seen {
    let seen: &'static Seen = Box::leak(Box::default());
    run_model(3, move || {
        let machine = TestMachine::with_cpus(1, 2);
        let rcu = Rcu::carve(&mut Heap, 2).unwrap();
        let world = Arc::new(World { tree: Tree::new(&HeapMemory::at_once(&rcu)), rcu });
        let before: Vec<_> = case.before.iter().map(|&(s, e)| item(s, e)).collect();
        replace(&world.tree, VpnRange::default(), &before, &HeapMemory::at_once(&world.rcu));
        let nodes = HeapMemory {
            rcu: (!at_once).then_some(&world.rcu),
            nodes: Cell::new(world.tree.check(&world.rcu.read()).unwrap().nodes),
            ..HeapMemory::at_once(&world.rcu)
        };
        // Touches the words of both CPUs before the thread is spawned.
        world.rcu.poll(&machine, &nodes);
        let reader = thread::spawn({
            let world = world.clone();
            move || {
                TestCpu::become_cpu(1);
                let section = world.rcu.read();
                (case.look)(&world.tree, &section)
            }
        });
        let new: Vec<_> = case.new.iter().map(|&(s, e)| item(s, e)).collect();
        replace(&world.tree, pages(case.old.0, case.old.1), &new, &nodes);
        (0..3).for_each(|_| world.rcu.poll(&machine, &nodes));
        let found = reader.join().unwrap();
        let count = match found {
            Some(found) if found == case.expect[0] => &seen.old,
            Some(found) if found == case.expect[1] => &seen.new,
            _ => &seen.neither,
        };
        count.fetch_add(1, Relaxed);
        seen.all.fetch_add(1, Relaxed);
        assert_eq!(
            world.tree.check(&world.rcu.read()).unwrap().nodes,
            nodes.nodes.get() - world.rcu.garbage() as usize
        );
    });
    std::eprintln!(
        "{} executions: old {}, new {}, neither {}",
        seen.all.load(Relaxed),
        seen.old.load(Relaxed),
        seen.new.load(Relaxed),
        seen.neither.load(Relaxed)
    );
    seen
}

fn assert_before_or_after(case: Case) {
    let seen = explore(case, false);
    assert_eq!(seen.neither.load(Relaxed), 0, "a lookup saw neither before nor after");
    assert!(seen.old.load(Relaxed) > 0, "the model must see the lookup before");
    assert!(
        seen.new.load(Relaxed) > 0 || case.expect[0] == case.expect[1],
        "the model must see the lookup after"
    );
}

const FULL_LEAF: &[(u64, u64)] = &[(10, 20), (20, 30), (30, 40), (40, 50)];
const TWO_LEAVES: &[(u64, u64)] = &[(10, 20), (20, 30), (30, 40), (40, 50), (50, 60), (60, 70)];

const SPLIT: Case = Case {
    before: FULL_LEAF,
    old: (30, 40),
    new: &[(30, 32), (32, 40)],
    look: |tree, section| tree.find(section, Vpn(35)).map(range),
    expect: [(30, 40), (32, 40)],
};

#[test]
fn loom_tree_lookup_against_a_replacement_that_splits_the_leaf() {
    assert_before_or_after(SPLIT);
}

#[test]
fn loom_tree_nodes_freed_at_once_are_missed() {
    let seen = explore(SPLIT, true);
    assert!(seen.neither.load(Relaxed) > 0, "without a grace period the model must fail");
}

#[test]
fn loom_tree_lookup_of_an_untouched_item_against_a_split() {
    assert_before_or_after(Case {
        look: |tree, section| tree.find(section, Vpn(15)).map(range),
        expect: [(10, 20), (10, 20)],
        ..SPLIT
    });
}

#[test]
fn loom_tree_lookup_against_a_removal_that_takes_the_neighbour_in() {
    assert_before_or_after(Case {
        before: TWO_LEAVES,
        old: (10, 40),
        new: &[(12, 38)],
        look: |tree, section| tree.find(section, Vpn(15)).map(range),
        expect: [(10, 20), (12, 38)],
    });
}

#[test]
fn loom_tree_lookup_against_a_replacement_of_one_leaf_of_two() {
    assert_before_or_after(Case {
        before: TWO_LEAVES,
        old: (20, 30),
        new: &[(20, 28)],
        look: |tree, section| tree.find(section, Vpn(25)).map(range),
        expect: [(20, 30), (20, 28)],
    });
}

#[test]
fn loom_tree_next_against_a_removal_in_its_leaf() {
    assert_before_or_after(Case {
        before: TWO_LEAVES,
        old: (30, 40),
        new: &[],
        look: |tree, section| tree.at_or_after(section, Vpn(32)).map(range),
        expect: [(30, 40), (40, 50)],
    });
}

#[test]
fn loom_tree_previous_against_a_removal_in_its_leaf() {
    assert_before_or_after(Case {
        before: TWO_LEAVES,
        old: (40, 50),
        new: &[],
        look: |tree, section| tree.before(section, Vpn(45)).map(range),
        expect: [(40, 50), (30, 40)],
    });
}
