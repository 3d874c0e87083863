//! mTHP sizes: faults that install a folio of four frames, or eight, against each other and against
//! writers whose ranges have a part of it. The real code on the smallest tree, all executions with two
//! preemptions.

use super::world::*;
use crate::machine::Leaf;
use crate::space::{Advice, Counter, Fault};
use crate::units::{Access, Order, Rights, Vpn};
use crate::vma::{HugePolicy, MthpPolicies, MthpPolicy, VmaFlags};
use std::vec::Vec;

/// Pages of the mapping.
const WHOLE: u64 = 8;
/// The last two pages of the first folio of four.
const CUT: Vpn = Vpn(START.0 + 2);

/// With folios of 16 KiB.
fn explore(cpus: [Program; 2], after: fn(&TestSpace)) -> [usize; 2] {
    explore_sizes(MthpPolicies::NEVER.with(Order(2), MthpPolicy::Always), cpus, after)
}

fn explore_sizes(sizes: MthpPolicies, cpus: [Program; 2], after: fn(&TestSpace)) -> [usize; 2] {
    explore_pair_with(Pair { before: mapped, cpus, after }, 96, (HugePolicy::Never, sizes), 2)
}

/// The mapping, in a table that another mapping keeps.
fn mapped(space: &TestSpace) {
    map(space, START, WHOLE);
    map(space, START.add(16), 1);
    touch(space, START.add(16));
}

/// The pages of the mapping that are there, from its first on.
fn present(space: &TestSpace) -> Vec<u64> {
    (0..WHOLE).filter(|&page| leaf(space, START.add(page)).is_some()).collect()
}

/// The pages are the frames of one folio.
fn assert_folio(space: &TestSpace, first: u64, order: Order) {
    let frame = |page| leaf(space, START.add(page)).expect("a page of the folio is missing").pfn;
    let start = frame(first);
    assert!(start.is_aligned(order));
    (0..order.frames()).for_each(|page| assert_eq!(frame(first + page), start.add(page)));
}

fn installed(space: &TestSpace, order: Order) -> u64 {
    space.vm().totals().get(Counter::anon_fault_alloc(order).unwrap())
}

fn store_to_cut(machine: &'static Tests, space: &'static TestSpace) -> bool {
    store(machine, space, CUT)
}

#[test]
fn loom_two_faults_race_for_one_folio() {
    explore([store_to_start, store_to_cut], |space| {
        assert_folio(space, 0, Order(2));
        assert_eq!((present(space).len(), installed(space, Order(2))), (4, 1));
    });
}

/// The load takes one page of eight: the store gets the eight, if it is faster, or the four beside it.
#[test]
fn loom_a_folio_against_a_load_of_one_of_its_pages() {
    let load: Program = |_, space| {
        space.fault(Fault { addr: START.add(6).addr(), access: Access::Read }).unwrap();
        true
    };
    let sizes = MthpPolicies::NEVER.with(Order(2), MthpPolicy::Always).with(Order(3), MthpPolicy::Always);
    explore_sizes(sizes, [load, store_to_start], |space| {
        let order = if installed(space, Order(3)) == 1 { Order(3) } else { Order(2) };
        assert_folio(space, 0, order);
        assert_eq!(installed(space, order), 1);
        assert_eq!(present(space).len() as u64, if order == Order(3) { 8 } else { 5 });
    });
}

fn unmap_the_end(machine: &'static Tests, space: &'static TestSpace) -> bool {
    unmap(space, CUT, 2);
    for page in [CUT, CUT.add(1)] {
        assert!(!machine.has_cached(1, page), "a page is cached that is gone");
        assert_eq!(leaf_of(space, page), None, "a leaf is left where nothing is mapped");
    }
    true
}

#[test]
fn loom_a_folio_against_munmap_of_its_end() {
    explore([unmap_the_end, store_to_start], |space| {
        assert_eq!((leaf_of(space, CUT), leaf_of(space, CUT.add(1))), (None, None));
        let present = present(space);
        assert!(present == [0, 1] || present == [0], "{present:?}");
    });
}

#[test]
fn loom_a_fault_in_the_end_of_a_folio_against_munmap_of_that_end() {
    let seen = explore([unmap_the_end, store_to_cut], |space| {
        assert_eq!((leaf_of(space, CUT), leaf_of(space, CUT.add(1))), (None, None));
    });
    assert!(seen.iter().all(|&count| count > 0), "found and missed: {seen:?}");
}

#[test]
fn loom_a_folio_against_mprotect_of_its_end() {
    let protect: Program = |machine, space| {
        space.protect(CUT.addr(), 2 * PAGE, VmaFlags::READ).unwrap();
        let may_write = |leaf: Leaf| leaf.rights.contains(Rights::WRITE);
        assert!(!machine.cached(1, CUT).is_some_and(may_write), "a right is cached that is gone");
        assert!(!leaf_of(space, CUT).is_some_and(|(leaf, _)| may_write(leaf)), "left writable");
        true
    };
    explore([protect, store_to_start], |space| {
        let (leaf, _) = leaf_of(space, START).expect("what was stored is gone");
        assert!(leaf.rights.contains(Rights::WRITE), "more was protected than asked for");
        assert!(!leaf_of(space, CUT).is_some_and(|(leaf, _)| leaf.rights.contains(Rights::WRITE)));
    });
}

#[test]
fn loom_a_folio_against_dontneed_of_its_end() {
    let discard: Program = |_, space| {
        space.advise(CUT.addr(), 2 * PAGE, Advice::DontNeed).unwrap();
        true
    };
    explore([discard, store_to_start], |space| {
        let present = present(space);
        assert!(present == [0, 1] || present == [0, 1, 2, 3], "{present:?}");
    });
}
