//! Sweeps that leave frames in their slots until they have flushed, against faults and readers there.
//!
//! Two pages of one table, whose frames other spaces have mapped: a gather of models has a place for one such
//! frame, so the other one's stays in its slot.

use super::world::*;
use crate::frame::Kind;
use crate::machine::Entry;
use crate::machine::testing::played;
use crate::space::*;
use crate::sync::forget_value;
use crate::table::SlotMarker;
use crate::units::{Access, Pfn, Vpn};
use crate::vma::HugePolicy;
use std::boxed::Box;

/// The page whose frame stays in its slot.
const SECOND: Vpn = Vpn(START.0 + 1);

/// Both pages were written and forked, and the child is gone: so their frames are not exclusive, and the last
/// put of one frees it.
fn shared(space: &TestSpace) {
    mapped(space);
    [START, SECOND].iter().for_each(|&page| touch(space, page));
    let child = Box::new(space.fork().unwrap());
    forget_value(&*child);
    drop(child);
}

/// No CPU has `frame` cached for the second page.
fn assert_not_cached(machine: &Tests, frame: Option<Pfn>) {
    for cpu in 0..2 {
        let cached = machine.cached(cpu, SECOND).map(|leaf| leaf.pfn);
        assert!(cached.is_none() || cached != frame, "a CPU has a translation cached that is wrong by now");
    }
}

fn nothing_left(space: &TestSpace) {
    let is_left = |page| matches!(entry(space, page), Entry::Marker(_));
    assert!(![START, SECOND].into_iter().any(is_left), "a marker is left");
}

/// Drops both pages; when that has returned, no CPU uses the frame of the second.
fn drop_both(machine: &Tests, space: &TestSpace) {
    let old = frame(space, SECOND);
    space.advise(START.addr(), PAGES * PAGE, Advice::DontNeed).unwrap();
    assert_not_cached(machine, old);
}

const DROP: Program = |machine, space| {
    drop_both(machine, space);
    true
};

/// Stores to the second page, twice. True where the slot was pending when it looked.
const STORE: Program = |machine, space| {
    let is_pending = is_pending(entry(space, SECOND));
    assert!(store(machine, space, SECOND) && store(machine, space, SECOND), "the page stays mapped");
    is_pending
};

#[test]
fn loom_a_store_to_a_page_whose_frame_waits_in_its_slot() {
    assert_both(explore_pair(Pair { before: shared, cpus: [DROP, STORE], after: nothing_left }));
}

/// The second must not return before the flush of the first, and leaves what that has left.
#[test]
fn loom_two_dontneed_of_frames_that_wait_in_their_slots() {
    let use_and_drop: Program = |machine, space| {
        let is_pending = is_pending(entry(space, SECOND));
        machine.translate(SECOND, Access::Read);
        drop_both(machine, space);
        assert!(frame(space, SECOND).is_none(), "nobody stores to it");
        assert_not_cached(machine, frame(space, SECOND));
        is_pending
    };
    let pair = Pair { before: shared, cpus: [use_and_drop; 2], after: nothing_left };
    assert_both(explore_pair_on(pair, 96, HugePolicy::Never, played(1, 2)));
}

#[test]
fn loom_a_reader_of_a_page_whose_frame_waits_in_its_slot() {
    let look: Program = |_, space| {
        let found = space.inspect().resident_frame(SECOND).is_some();
        assert!(
            found || !space.inspect().is_any_mapped(SECOND.addr(), PAGE) || frame(space, SECOND).is_none()
        );
        found
    };
    let unmap_both: Program = |machine, space| {
        let old = frame(space, SECOND);
        unmap(space, START, PAGES);
        assert_not_cached(machine, old);
        assert_eq!(entry(space, SECOND), Entry::Absent);
        true
    };
    assert_both(explore_pair(Pair { before: shared, cpus: [unmap_both, look], after: nothing_left }));
}

#[test]
fn loom_a_store_against_a_mapping_put_over_frames_that_wait_in_their_slots() {
    let map_over: Program = |machine, space| {
        let old = frame(space, SECOND);
        map(space, START, PAGES);
        if let Some(old) = old {
            let kind = space.vm.memory().meta(old).unwrap().state().kind();
            assert!(kind != Kind::User || frame(space, SECOND) == Some(old), "the last mapping of it went");
        }
        assert_not_cached(machine, old.filter(|&old| frame(space, SECOND) != Some(old)));
        true
    };
    let pair = Pair { before: shared, cpus: [map_over, STORE], after: nothing_left };
    assert_both(explore_pair_on(pair, 96, HugePolicy::Never, played(1, 2)));
}

fn is_pending(entry: Entry) -> bool {
    matches!(entry, Entry::Marker(it) if matches!(SlotMarker::of(it), Some(SlotMarker::PendingFree(_))))
}
