//! Pages of the hugetlb pool: faults against each other and against calls that empty the entry, and pins
//! against a page that is dropped. The pool has as many pages as are set aside, so that each reserve counts.
//! The real code on the smallest tree, all executions with two preemptions.

use super::world::*;
use crate::frame::HugetlbCounts;
use crate::machine::Entry;
use crate::machine::testing::played;
use crate::space::{Advice, MapBacking, MapRequest, Place, Sharing};
use crate::table::SlotMarker;
use crate::units::{Access, Vpn};
use crate::vma::{HugePolicy, VmaFlags};

/// A mapping in which nothing was touched.
fn mapped(space: &TestSpace) {
    space.vm().resize_hugetlb(SIZE, 1);
    map_hugetlb(space, Sharing::Private, VmaFlags::empty());
}

/// A mapping whose page is there.
fn touched(space: &TestSpace) {
    mapped(space);
    touch(space, START);
}

/// The one that comes second finds no free page, and none that it needs.
#[test]
fn loom_two_faults_race_for_one_page_that_is_set_aside() {
    let first: Program = |machine, space| {
        assert!(store(machine, space, START), "a page was set aside");
        true
    };
    let second: Program = |machine, space| {
        assert!(store(machine, space, LAST), "a page was set aside");
        true
    };
    explore_pool(mapped, [first, second]);
}

/// Nothing is set aside, and there is a page for each of the two: one goes back.
#[test]
fn loom_two_faults_race_for_one_entry_with_a_page_each() {
    let before = |space: &TestSpace| {
        space.vm().resize_hugetlb(SIZE, 2);
        let one = MapRequest::anonymous(TABLE * PAGE);
        let flags = one.flags | VmaFlags::NORESERVE;
        let request = MapRequest { place: Place::Fixed(START.addr()), flags, ..one };
        space.map(&request.backed_by(MapBacking::Hugetlb(SIZE))).unwrap();
    };
    let after = |space: &TestSpace| {
        space.vm().memory().check().unwrap();
        assert_eq!(space.vm().memory().hugetlb().counts(SIZE).free, 1);
        space.unmap(START.addr(), TABLE * PAGE).unwrap();
        space.vm().resize_hugetlb(SIZE, 0);
    };
    let cpus = [store_to_start, store_to_last];
    explore_pair_on(Pair { before, cpus, after }, 4 * TABLE, HugePolicy::Never, 2);
}

/// What a fault has prepared for the old mapping comes back for the new one.
#[test]
fn loom_a_fault_against_munmap_and_mmap_of_the_only_page() {
    let map_again: Program = |machine, space| {
        space.unmap(START.addr(), TABLE * PAGE).unwrap();
        assert!(!machine.has_cached(1, START), "a page is cached that is gone");
        map_hugetlb(space, Sharing::Private, VmaFlags::empty());
        true
    };
    let seen = explore_pool(mapped, [map_again, store_to_last]);
    assert!(seen.iter().all(|&count| count > 0), "found and missed: {seen:?}");
}

#[test]
fn loom_a_page_that_is_dropped_against_a_store() {
    let discard: Program = |machine, space| {
        let old = match entry(space, START) {
            Entry::Leaf(leaf) => Some(leaf.pfn),
            _ => None,
        };
        space.advise(START.addr(), TABLE * PAGE, Advice::DontNeed).unwrap();
        // CPU 1 may have a new page by now, which is the only one there is: then it is there still.
        let is_cached = machine.cached(1, START).is_some_and(|leaf| Some(leaf.pfn) == old);
        assert!(!is_cached || entry(space, START) != SlotMarker::HugetlbReserved.entry());
        true
    };
    let must_store: Program = |machine, space| {
        assert!(store_to_start(machine, space) && store_to_last(machine, space), "a page is set aside");
        true
    };
    explore_pool(touched, [discard, must_store]);
}

/// A pin that is there before the page is dropped keeps the only page, and so the entry loses its reserve;
/// one that comes later is refused, and the page comes back. In no execution is a page reserved that is
/// pinned.
#[test]
fn loom_a_page_that_is_dropped_against_a_fast_pin_of_a_part() {
    let discard: Program = |_, space| {
        space.advise(START.addr(), TABLE * PAGE, Advice::DontNeed).unwrap();
        true
    };
    let pin: Program = |_, space| {
        let reading = space.vm().read();
        let pins = space.try_pin_fast(LAST.addr(), Access::Write, limit(), [None], &reading);
        let Ok(pins) = pins else { return false };
        let head = pins.frames().next().unwrap().pfn();
        assert!(head.0 % TABLE == TABLE - 1, "the frame of another page is pinned");
        let entry = entry(space, START);
        if entry == Entry::Absent {
            assert_eq!(space.vm().memory().hugetlb().counts(SIZE).reserved, 0);
        }
        assert_ne!(entry, SlotMarker::HugetlbReserved.entry(), "the only page is reserved, and pinned");
        true
    };
    let seen = explore_pool(touched, [discard, pin]);
    assert!(seen.iter().all(|&count| count > 0), "found and missed: {seen:?}");
}

/// Two pages that are shared one after the other: the child never has a store without the one before it.
#[test]
fn loom_a_fork_that_shares_two_pages_against_stores_to_both() {
    const SECOND: Vpn = Vpn(START.0 + TABLE);
    let before = |space: &TestSpace| {
        space.vm().resize_hugetlb(SIZE, 4);
        let request = MapRequest {
            place: Place::Fixed(START.addr()),
            flags: VmaFlags::NORESERVE | MapRequest::anonymous(1).flags,
            ..MapRequest::anonymous(2 * TABLE * PAGE)
        };
        space.map(&request.backed_by(MapBacking::Hugetlb(SIZE))).unwrap();
        for page in [START, SECOND] {
            write(space.vm().machine(), space, page, OLD);
        }
    };
    let fork: Program = |machine, space| {
        let child = fork(space);
        let [first, second] = [START, SECOND].map(|page| byte(machine, &child, page));
        assert!(first >= second, "the child has the second store, and not the first");
        true
    };
    let stores: Program = |machine, space| {
        for page in [START, SECOND] {
            store_byte(machine, space, page, NEW);
        }
        true
    };
    let after = |space: &TestSpace| {
        space.unmap(START.addr(), 2 * TABLE * PAGE).unwrap();
        let free = HugetlbCounts { total: 4, free: 4, reserved: 0, surplus: 0 };
        assert_eq!(space.vm().memory().hugetlb().counts(SIZE), free);
        space.vm().resize_hugetlb(SIZE, 0);
    };
    let pair = Pair { before, cpus: [fork, stores], after };
    explore_pair_on(pair, 7 * TABLE, HugePolicy::Never, played(1, 2));
}
