//! mremap beside faults at both places: the real code on the smallest trees, all executions with two
//! preemptions.
//!
//! When the call has returned, no CPU has a translation of the old place cached, and no leaf is left there; a
//! store that was made is in the page at the new place.

use super::world::*;
use crate::space::*;
use crate::units::Vpn;

/// Where the pages go: into another table.
const NEW: Vpn = Vpn(START.0 + TABLE + 4);

/// The mapping in its table, and a neighbour of its new place, whose table is there too.
fn beside_both(space: &TestSpace) {
    mapped(space);
    map(space, NEW.add(8), 1);
    touch(space, NEW.add(8));
}

fn first_written(space: &TestSpace) {
    beside_both(space);
    touch(space, START);
}

const MOVE: Program = |machine, space| {
    let (flags, len_bytes) = (RemapFlags::MAY_MOVE | RemapFlags::FIXED, PAGES * PAGE);
    let request = RemapRequest {
        addr: START.addr(),
        old_len_bytes: len_bytes,
        new_len_bytes: len_bytes,
        flags,
        to: NEW.addr(),
    };
    assert_eq!(space.remap(&request), Ok(NEW.addr()));
    assert_none_cached(machine, |_| true);
    assert!(!has_leaf(space, START), "a leaf is left in the hole");
    true
};

fn no_leaf_in_the_hole(space: &TestSpace) {
    assert!(!has_leaf(space, START) && !has_leaf(space, START.add(1)), "a leaf was put into the hole");
}

/// The page is there; then it is not, for good.
#[test]
fn loom_a_store_against_a_move() {
    let after = |space: &TestSpace| {
        no_leaf_in_the_hole(space);
        assert!(leaf(space, NEW).is_some(), "the page has moved");
    };
    let store_twice: Program = |machine, space| store(machine, space, START) && store(machine, space, START);
    assert_both(explore_pair(Pair { before: first_written, cpus: [MOVE, store_twice], after }));
}

/// A fault that finds the old mapping either has its entry moved, or installs nothing.
#[test]
fn loom_a_first_store_at_the_old_place_against_a_move() {
    assert_both(explore_pair(Pair {
        before: beside_both,
        cpus: [MOVE, store_to_start],
        after: no_leaf_in_the_hole,
    }));
}

/// A fault at the new place waits until all has moved: it finds the frame that is there, or another page
/// absent.
#[test]
fn loom_a_store_at_the_new_place_against_a_move() {
    let after = |space: &TestSpace| {
        no_leaf_in_the_hole(space);
        let frame = leaf(space, NEW).expect("the page has moved").pfn;
        let key = space.vm.memory().meta(frame).unwrap().anon_key().unwrap();
        assert_eq!(key.page, START, "the page that was there, and no new one");
    };
    let store_to_new: Program =
        |machine, space| store(machine, space, NEW) && store(machine, space, NEW.add(1));
    assert_both(explore_pair(Pair { before: first_written, cpus: [MOVE, store_to_new], after }));
}
