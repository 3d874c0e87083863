//! The trees of spaces that forked: how many nodes they keep, and that each frame finds its entries through
//! them.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::base::{TestSpace, counts, frame, map, page, store, with_space};
use crate::space::tests::world::rmap::{assert_agrees, entries};
use crate::space::{Advice, Error, Fault, MapRequest, Place};
use crate::units::{Access, VirtAddr};
use std::collections::BTreeSet;
use std::vec::Vec;

#[test]
fn a_chain_of_forks_that_each_drop_their_parent_keeps_few_nodes_and_finds_every_frame() {
    with_space(|vm, mut last| {
        map(&last, 0, 8);
        store(&last, page(7), 1);
        for nr in 0..10_000u64 {
            let child = last.fork().unwrap();
            drop(core::mem::replace(&mut last, child));
            assert!(vm.nr_anon_nodes() <= 3, "{} nodes after {nr} forks", vm.nr_anon_nodes());
            if nr % 500 < 7 {
                // Frames that different generations mapped first.
                last.advise(page(nr % 500), PAGE, Advice::DontNeed).unwrap();
                store(&last, page(nr % 500), 1);
                let spaces = core::slice::from_ref(&last);
                assert_eq!(assert_agrees(vm, spaces, 8), 1);
            }
        }
        let nodes = entries(core::slice::from_ref(&last), 8).into_keys();
        let nodes = nodes.map(|pfn| vm.memory().meta(pfn).unwrap().anon_key().unwrap().node);
        assert_eq!(nodes.collect::<BTreeSet<_>>().len(), 1, "later generations name the node of the first");
    });
}

/// Each generation has a second child, which outlives it until the next one has forked.
#[test]
fn a_chain_with_branches_keeps_few_nodes() {
    with_space(|vm, mut last| {
        map(&last, 0, 1);
        store(&last, page(0), 1);
        let mut branch = None;
        for nr in 0..2_000 {
            let next_branch = last.fork().unwrap();
            let child = last.fork().unwrap();
            branch.replace(next_branch);
            drop(core::mem::replace(&mut last, child));
            assert!(vm.nr_anon_nodes() <= 7, "{} nodes after {nr} generations", vm.nr_anon_nodes());
        }
        let spaces = [last, branch.unwrap()];
        assert_eq!(assert_agrees(vm, &spaces, 1), 2);
    });
}

/// Forks that nest deeper than one lock of their tree looks up.
#[test]
fn spaces_that_nest_deep_find_their_frames() {
    with_space(|vm, first| {
        map(&first, 0, 2);
        store(&first, page(0), 1);
        let mut spaces = Vec::from([first]);
        for _ in 0..30 {
            let child = spaces.last().unwrap().fork().unwrap();
            spaces.push(child);
        }
        store(&spaces[30], page(1), 1);
        assert_eq!(assert_agrees(vm, &spaces, 2), 31);
        drop(spaces.remove(0));
        let last = spaces.last().unwrap().fork().unwrap();
        spaces.push(last);
        let key =
            |space: &TestSpace<'_>, nr| vm.memory().meta(frame(space, page(nr))).unwrap().anon_key().unwrap();
        store(spaces.last().unwrap(), page(1), 2);
        let last = spaces.last().unwrap();
        assert_eq!(key(last, 1).node, key(last, 0).node, "the root's, which has ended");
        assert_eq!(assert_agrees(vm, &spaces, 2), 31);
    });
}

#[test]
fn nodes_of_ended_spaces_go_with_the_last_descendant() {
    with_space(|vm, first| {
        map(&first, 0, 1);
        store(&first, page(0), 1);
        let [a, b] = [(); 2].map(|()| first.fork().unwrap());
        let [c, d] = [(); 2].map(|()| a.fork().unwrap());
        let nodes = || vm.nr_anon_nodes();
        drop(a);
        drop(first);
        assert_eq!(nodes(), 5, "both have ended, frames name them");
        drop(b);
        assert_eq!(nodes(), 4);
        let spaces = [c, d];
        assert_eq!(assert_agrees(vm, &spaces, 1), 2);
        let [c, d] = spaces;
        // Below the first, which has one child now: its frames name the first.
        let e = c.fork().unwrap();
        store(&e, page(0), 2);
        let spaces = [c, d, e];
        assert_agrees(vm, &spaces, 1);
        let [c, d, e] = spaces;
        drop(d);
        drop(c);
        assert_eq!(assert_agrees(vm, core::slice::from_ref(&e), 1), 1);
        drop(e);
        assert_eq!(nodes(), 0);
    });
}

#[test]
fn a_space_without_memory_for_its_node_is_refused_and_leaves_nothing() {
    with_space(|vm, first| {
        map(&first, 0, 1);
        store(&first, page(0), 1);
        let (before, nodes) = (counts(vm).allocated, vm.nr_anon_nodes());
        for nth in 1..3 {
            vm.trim();
            vm.memory().plan_mishaps_from(nth);
            let made = crate::space::AddressSpace::new(vm, *first.layout(), first.path);
            let forked = first.fork();
            vm.memory().plan_mishap(0);
            assert_eq!((made.err(), forked.err()), (Some(Error::NoMemory), Some(Error::NoMemory)));
            assert_eq!((counts(vm).allocated, vm.nr_anon_nodes()), (before, nodes));
        }
        assert_eq!(assert_agrees(vm, core::slice::from_ref(&first), 1), 1);
    });
}

#[test]
fn random_forks_ends_and_writes_leave_each_frame_its_entries() {
    const PAGES: u64 = 6;
    let steps = if cfg!(debug_assertions) { 1500 } else { 15_000 };
    with_space(|vm, first| {
        let mut spaces = Vec::from([first]);
        map(&spaces[0], 0, PAGES);
        let mut seed = 0x1234_5678_9abc_def1_u64;
        let mut random = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let mut most = 0;
        for _ in 0..steps {
            let at = random(spaces.len() as u64) as usize;
            let (space, addr) = (&spaces[at], page(random(PAGES)));
            match random(10) {
                0 | 1 if spaces.len() < 12 => {
                    let child = space.fork().unwrap();
                    spaces.push(child);
                }
                2 if spaces.len() > 1 => drop(spaces.swap_remove(at)),
                3 => space.advise(addr, PAGE, Advice::DontNeed).unwrap(),
                4 => {
                    space.unmap(addr, PAGE).unwrap();
                    let place = Place::Fixed(VirtAddr(addr.0));
                    space.map(&MapRequest { place, ..MapRequest::anonymous(PAGE) }).unwrap();
                }
                5 => drop(space.fault(Fault { addr, access: Access::Read }).unwrap()),
                _ => store(space, addr, 1),
            }
            most = most.max(assert_agrees(vm, &spaces, PAGES));
            assert!(vm.nr_anon_nodes() >= spaces.len() as u64);
        }
        assert!(most >= 6, "{most} spaces had one frame at most");
        drop(spaces);
        assert_eq!(vm.nr_anon_nodes(), 0);
    });
}
