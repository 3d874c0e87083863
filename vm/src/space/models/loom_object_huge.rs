//! Huge pages of shared memory: faults of one space and of two for one folio, faults against calls that
//! clear its leaf, and the split of a folio against leaves that come and go, and against the end of its
//! object. The real code on the smallest tree, all executions with two preemptions, or one.

use super::world::*;
use crate::machine::Leaf;
use crate::machine::testing::played;
use crate::space::*;
use crate::sync::refill_zeros;
use crate::sync::testing::thread;
use crate::units::{Access, Level, Order, Pfn, Rights, Vpn};
use crate::vma::{SharedHugePolicy, VmaFlags};
use std::vec::Vec;

/// Where the first two pages of the memory are mapped once more, at another place within a huge page.
const ALIAS: Vpn = Vpn(START.0 + TABLE + 9);
/// Frames of which some make two folios.
const FRAMES: u64 = 4 * TABLE;

fn request(start: Vpn, pages: u64) -> MapRequest<'static> {
    let (place, sharing) = (Place::Fixed(start.addr()), Sharing::Shared);
    MapRequest { place, sharing, ..MapRequest::anonymous(pages * PAGE) }
}

/// Shared memory in which nothing was touched. The word of its size is there before there are threads.
fn mapped(space: &TestSpace) {
    space.map(&request(START, TABLE)).unwrap();
    let (object, _) = space.object_at(START.addr()).unwrap();
    assert_eq!(object.len_bytes(), TABLE * PAGE);
}

/// The same, two pages of which are mapped once more.
fn aliased(space: &TestSpace) {
    mapped(space);
    let (object, first) = space.object_at(START.addr()).unwrap();
    space.map(&request(ALIAS, 2).backed_by(object.at_page(first))).unwrap();
}

/// Shared memory that a huge leaf maps, and a part of it where there is no leaf yet.
fn huge(space: &TestSpace) {
    aliased(space);
    touch(space, START);
    assert!(leaf_of(space, LAST).is_some_and(|(_, level)| level == Level::Pmd));
}

/// The frame that the entry of a page leads to.
fn shown(space: &TestSpace, page: Vpn) -> Option<Pfn> {
    leaf_of(space, page).map(|(leaf, level)| leaf.pfn.add(page.0 & (level.entry_pages() - 1)))
}

/// The first two frames of the memory and the last one have the counts of the entries that lead to them.
fn recount(spaces: &[&TestSpace]) {
    let memory = spaces[0].vm().memory();
    let state = |frame: Pfn| memory.meta(frame).unwrap().state();
    let found = |page| spaces.iter().find_map(|space| Some(space.inspect().resident_frame(page)?.0));
    let is_whole = |frame: &Pfn| state(*frame).order() == Order::HUGE;
    let pages = [START, START.add(1), LAST, ALIAS, ALIAS.add(1)];
    let frames: Vec<Pfn> = match found(START).filter(is_whole) {
        Some(first) => std::vec![first],
        None => pages[..3].iter().filter_map(|&page| found(page)).collect(),
    };
    for frame in frames {
        let leads =
            |space: &&TestSpace| pages.iter().filter(|&&page| shown(space, page) == Some(frame)).count();
        let leads = spaces.iter().map(leads).sum::<usize>();
        // A leaf of the whole folio leads to the frame once, and is one entry.
        let due = (leads as u32, 1 + u32::from(leads > 0));
        let meta = memory.meta(frame).unwrap();
        assert_eq!((meta.mapcount(), meta.state().refcount()), due, "counts of {frame:?}");
    }
}

fn explore(before: fn(&TestSpace), cpus: [Program; 2], after: fn(&TestSpace)) -> [usize; 2] {
    explore_bounded(2, Pair { before, cpus, after })
}

/// As [`explore`], with so many preemptions: the end of a leaf or of an object takes some steps for each
/// frame of a folio that was split.
fn explore_bounded(preemptions: usize, pair: Pair) -> [usize; 2] {
    explore_pair_set_up(pair, FRAMES, preemptions, options)
}

/// Shared memory gets huge pages.
fn options() -> VmOptions<'static, Tests> {
    VmOptions { shared_huge_pages: SharedHugePolicy::Always, ..VmOptions::default() }
}

/// The first page of the memory, at the place that does not fit.
fn store_to_alias(machine: &'static Tests, space: &'static TestSpace) -> bool {
    store(machine, space, ALIAS)
}

#[test]
fn loom_two_faults_race_for_one_folio_of_an_object() {
    explore(mapped, [store_to_start, store_to_last], |space| {
        assert!(leaf_of(space, START).is_some_and(|(_, level)| level == Level::Pmd));
        let totals = space.vm().totals();
        let counted = [Counter::ThpFileAlloc, Counter::ThpFileMapped, Counter::NrShmemPmdMapped];
        assert_eq!(counted.map(|counter| totals.get(counter)), [1, 1, 1]);
        recount(&[space]);
    });
}

#[test]
fn loom_a_fault_that_maps_a_folio_against_munmap_of_its_end() {
    let unmap_last: Program = |machine, space| {
        unmap(space, LAST, 1);
        assert!(!machine.has_cached(1, LAST), "a page is cached that is gone");
        assert_eq!(leaf_of(space, LAST), None, "a leaf is left where nothing is mapped");
        true
    };
    explore(mapped, [unmap_last, store_to_start], |space| {
        assert_eq!(leaf_of(space, LAST), None);
        recount(&[space]);
    });
    let seen = explore(mapped, [unmap_last, store_to_last], recount_one);
    assert!(seen.iter().all(|&count| count > 0), "found and missed: {seen:?}");
}

fn recount_one(space: &TestSpace) {
    recount(&[space]);
}

#[test]
fn loom_a_fault_that_maps_a_folio_against_mprotect_of_its_end() {
    let protect: Program = |machine, space| {
        space.protect(LAST.addr(), PAGE, VmaFlags::READ).unwrap();
        let may_write = |leaf: Leaf| leaf.rights.contains(Rights::WRITE);
        assert!(!machine.cached(1, LAST).is_some_and(may_write), "a right is cached that is gone");
        assert!(!leaf_of(space, LAST).is_some_and(|(leaf, _)| may_write(leaf)), "left writable");
        true
    };
    explore(mapped, [protect, store_to_start], recount_one);
}

/// Sizes of one page: no TLB keeps the leaf when base pages come.
#[test]
fn loom_a_leaf_that_dontneed_clears_against_a_store() {
    let discard: Program = |_, space| {
        space.advise(LAST.addr(), PAGE, Advice::DontNeed).unwrap();
        true
    };
    explore(huge, [discard, store_to_start], recount_one);
}

/// The fault that does not fit splits the folio beside the fault that maps it whole.
#[test]
fn loom_the_split_of_a_folio_against_a_fault_that_maps_it() {
    let after = |space: &TestSpace| {
        assert_eq!(shown(space, START), shown(space, ALIAS), "one page has two frames");
        recount(&[space]);
    };
    explore_bounded(played(1, 2), Pair { before: aliased, cpus: [store_to_alias, store_to_start], after });
}

#[test]
fn loom_the_split_of_a_folio_against_a_leaf_that_ends() {
    let discard: Program = |_, space| {
        space.advise(START.addr(), TABLE * PAGE, Advice::DontNeed).unwrap();
        true
    };
    let after = |space: &TestSpace| {
        assert_eq!(leaf_of(space, START), None);
        recount(&[space]);
    };
    explore_bounded(1, Pair { before: huge, cpus: [discard, store_to_alias], after });
}

#[test]
fn loom_a_fault_that_fills_an_object_against_its_end() {
    let unmap_all: Program = |_, space| {
        unmap(space, START, TABLE);
        assert_eq!(leaf_of(space, START), None);
        true
    };
    let seen = explore(mapped, [unmap_all, store_to_start], |_| ());
    assert!(seen.iter().all(|&count| count > 0), "found and missed: {seen:?}");
}

#[test]
fn loom_the_split_of_a_folio_against_the_end_of_its_object() {
    let unmap_all: Program = |_, space| {
        unmap(space, START, TABLE + 11);
        assert_eq!([START, ALIAS].map(|page| leaf_of(space, page)), [None; 2]);
        true
    };
    let pair = Pair { before: huge, cpus: [unmap_all, store_to_alias], after: |_| () };
    let seen = explore_bounded(1, pair);
    assert!(seen.iter().all(|&count| count > 0), "found and missed: {seen:?}");
}

/// What CPU 0 does with the space, and CPU 1 with the child.
type Two = [fn(&'static Tests, &TestSpace) -> bool; 2];

/// Runs both in all executions, on two spaces that share untouched memory. Returns how often CPU 1 was
/// refused, and not.
fn explore_two(cpus: Two) -> [usize; 2] {
    let prepared = move |machine: &'static Tests, space: &'static TestSpace| {
        mapped(space);
        let child = fork(space);
        refill_zeros();
        let other = thread::spawn(move || {
            machine.run_as(1);
            let running = child.activate(None);
            let found = cpus[1](machine, &child);
            drop(running);
            (found, child)
        });
        let running = space.activate(None);
        cpus[0](machine, space);
        drop(running);
        let (found, child) = other.join().unwrap();
        recount(&[space, &child]);
        let frames = [space.inspect().resident_frame(START), child.inspect().resident_frame(START)];
        assert!(frames[0].is_none() || frames[1].is_none() || frames[0] == frames[1]);
        drop(child);
        recount(&[space]);
        found
    };
    let after = |vm: &'static TestVm| assert_eq!(vm.totals().get(Counter::NrShmemPmdMapped), 0);
    explore_space(Size::of(FRAMES), options, prepared, after)
}

#[test]
fn loom_faults_of_two_spaces_for_one_folio() {
    let store_here = |machine: &'static Tests, space: &TestSpace| store(machine, space, START);
    let store_there = |machine: &'static Tests, space: &TestSpace| store(machine, space, LAST);
    explore_two([store_here, store_there]);
}

/// A page of the folio that is no whole huge page in the child: munmap of its end there, and a fault.
#[test]
fn loom_a_fault_that_maps_a_folio_against_a_space_that_splits_it() {
    let store_here = |machine: &'static Tests, space: &TestSpace| store(machine, space, START);
    let cut_and_store = |machine: &'static Tests, space: &TestSpace| {
        unmap(space, LAST, 1);
        let found = store(machine, space, START);
        assert!(leaf_of(space, START).is_some_and(|(_, level)| level == Level::Pte));
        assert!(space.fault(Fault { addr: LAST.addr(), access: Access::Write }).is_err());
        found
    };
    assert_eq!(explore_two([store_here, cut_and_store])[0], 0, "the page is mapped");
}
