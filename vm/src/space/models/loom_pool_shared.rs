//! Shared memory of the hugetlb pool: faults that fill the object against each other, and a fault and a pin
//! against munmap of the last mapping, with which the object ends. The real code on the smallest tree, all
//! executions with two preemptions.

use super::world::*;
use crate::space::Sharing;
use crate::units::Access;
use crate::vma::{HugePolicy, VmaFlags};

/// A mapping in which nothing was touched; the pool has its page, and no other.
fn mapped(space: &TestSpace) {
    space.vm().resize_hugetlb(SIZE, 1);
    map_hugetlb(space, Sharing::Shared, VmaFlags::empty());
}

/// A mapping whose page is there.
fn touched(space: &TestSpace) {
    mapped(space);
    touch(space, START);
}

/// The one that comes second finds no free page, and the one that the object has got.
#[test]
fn loom_two_faults_race_for_the_only_page_of_an_object() {
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
fn loom_two_faults_fill_one_page_of_an_object_with_a_page_each() {
    let before = |space: &TestSpace| {
        space.vm().resize_hugetlb(SIZE, 2);
        map_hugetlb(space, Sharing::Shared, VmaFlags::NORESERVE);
    };
    let after = |space: &TestSpace| {
        space.vm().memory().check().unwrap();
        assert_eq!(space.vm().memory().hugetlb().counts(SIZE).free, 1);
        unmap(space, START, TABLE);
        assert_eq!(space.vm().memory().hugetlb().counts(SIZE).free, 2);
        space.vm().resize_hugetlb(SIZE, 0);
    };
    let first: Program = |machine, space| store(machine, space, START);
    explore_pair_on(Pair { before, cpus: [first, store_to_last], after }, 4 * TABLE, HugePolicy::Never, 2);
}

/// What a fault has taken for the object that ends comes back for the one that is made next.
#[test]
fn loom_a_fault_against_munmap_of_the_last_mapping() {
    let map_again: Program = |machine, space| {
        unmap(space, START, TABLE);
        assert!(!machine.has_cached(1, START), "a page is cached that is gone");
        map_hugetlb(space, Sharing::Shared, VmaFlags::empty());
        true
    };
    let seen = explore_pool(mapped, [map_again, store_to_last]);
    assert!(seen.iter().all(|&count| count > 0), "found and missed: {seen:?}");
}

/// A pin that is there before the object ends keeps the page; one that comes later is refused.
#[test]
fn loom_a_fast_pin_against_munmap_of_the_last_mapping() {
    let end: Program = |_, space| {
        unmap(space, START, TABLE);
        true
    };
    let pin: Program = |_, space| {
        let reading = space.vm().read();
        let pins = space.try_pin_fast(LAST.addr(), Access::Write, limit(), [None], &reading);
        let Ok(pins) = pins else { return false };
        let part = pins.frames().next().unwrap().pfn();
        assert!(part.0 % TABLE == TABLE - 1, "the frame of another page is pinned");
        assert_eq!(space.vm().memory().hugetlb().counts(SIZE).free, 0, "a pinned page is free");
        true
    };
    let seen = explore_pool(touched, [end, pin]);
    assert!(seen.iter().all(|&count| count > 0), "found and missed: {seen:?}");
}
