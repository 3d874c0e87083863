//! Huge pages: faults that install one against each other, against writers and readers whose ranges cut
//! it, and a split against walkers that take no lock. The real code on the smallest tree, all executions
//! with two preemptions.

use super::world::*;
use crate::machine::Leaf;
use crate::space::{Advice, Counter};
use crate::table::FastPinRefusal;
use crate::units::{Access, Level, Rights, Vpn};
use crate::vma::{HugePolicy, VmaFlags};

/// The last two pages of it, which are cut off.
const CUT: Vpn = Vpn(START.0 + TABLE - 2);
/// Frames of which some make two folios.
const FRAMES: u64 = 3 * TABLE;

fn explore(before: fn(&TestSpace), cpus: [Program; 2], after: fn(&TestSpace)) -> [usize; 2] {
    explore_pair_on(Pair { before, cpus, after }, FRAMES, HugePolicy::Always, 2)
}

/// A mapping in which nothing was touched.
fn mapped(space: &TestSpace) {
    map(space, START, TABLE);
}

/// A mapping that a huge page maps.
fn huge(space: &TestSpace) {
    mapped(space);
    touch(space, START);
    assert!(leaf_of(space, CUT).is_some_and(|(_, level)| level == Level::Pmd));
}

fn store_to_cut(machine: &'static Tests, space: &'static TestSpace) -> bool {
    store(machine, space, CUT)
}

#[test]
fn loom_two_faults_race_for_one_huge_page() {
    explore(mapped, [store_to_start, store_to_cut], |space| {
        assert_eq!(leaf_of(space, START), leaf_of(space, CUT));
        assert!(leaf_of(space, START).is_some_and(|(_, level)| level == Level::Pmd));
        let totals = space.vm().totals();
        let counted = [Counter::ThpFaultAlloc, Counter::NrAnonTransparentHugepages];
        assert_eq!(counted.map(|counter| totals.get(counter)), [1, 1]);
    });
}

/// Between the reserve of tables and the publication a fault may install what the writer has to split.
fn unmap_the_end(machine: &'static Tests, space: &'static TestSpace) -> bool {
    unmap(space, CUT, 2);
    assert!(!machine.has_cached(1, CUT), "a page is cached that is gone");
    assert_eq!(leaf_of(space, CUT), None, "a leaf is left where nothing is mapped");
    true
}

#[test]
fn loom_a_fault_that_installs_a_huge_page_against_munmap_of_its_end() {
    explore(mapped, [unmap_the_end, store_to_start], |space| {
        assert!(leaf_of(space, START).is_some(), "what was stored is gone");
        assert_eq!(leaf_of(space, CUT), None);
    });
}

#[test]
fn loom_a_fault_in_the_end_of_a_huge_page_against_munmap_of_that_end() {
    let seen = explore(mapped, [unmap_the_end, store_to_cut], |space| {
        assert_eq!(leaf_of(space, CUT), None);
    });
    assert!(seen.iter().all(|&count| count > 0), "found and missed: {seen:?}");
}

#[test]
fn loom_a_fault_that_installs_a_huge_page_against_mprotect_of_its_end() {
    let protect: Program = |machine, space| {
        space.protect(CUT.addr(), 2 * PAGE, VmaFlags::READ).unwrap();
        let may_write = |leaf: Leaf| leaf.rights.contains(Rights::WRITE);
        assert!(!machine.cached(1, CUT).is_some_and(may_write), "a right is cached that is gone");
        assert!(!leaf_of(space, CUT).is_some_and(|(leaf, _)| may_write(leaf)), "left writable");
        true
    };
    explore(mapped, [protect, store_to_start], |space| {
        let (leaf, _) = leaf_of(space, START).expect("what was stored is gone");
        assert!(leaf.rights.contains(Rights::WRITE), "more was protected than asked for");
    });
}

/// A caller that locks the range to read splits what it finds, and leaves alone what comes later.
#[test]
fn loom_a_fault_that_installs_a_huge_page_against_dontneed_of_its_end() {
    let discard: Program = |_, space| {
        space.advise(CUT.addr(), 2 * PAGE, Advice::DontNeed).unwrap();
        true
    };
    explore(mapped, [discard, store_to_start], |space| {
        assert!(leaf_of(space, START).is_some(), "what was stored is gone");
    });
}

#[test]
fn loom_a_huge_page_that_is_discarded_against_a_store() {
    let discard: Program = |machine, space| {
        let old = leaf_of(space, START).map(|(leaf, _)| leaf.pfn);
        space.advise(START.addr(), TABLE * PAGE, Advice::DontNeed).unwrap();
        // CPU 1 may have a new page by now, in the folio that was freed last: then it is there still.
        let is_cached = machine.cached(1, START).is_some_and(|leaf| Some(leaf.pfn) == old);
        assert!(!is_cached || leaf_of(space, START).is_some());
        true
    };
    // No TLB holds the old translation and one that was installed after it.
    let store_to_two: Program = |machine, space| {
        assert!(store(machine, space, START) && store(machine, space, START.add(1)));
        let cached = [START, START.add(1)].map(|page| machine.cached(1, page).map(|leaf| leaf.pfn));
        assert!(cached[0].is_none() || cached[0] == cached[1], "a TLB holds two folios for one range");
        true
    };
    explore(huge, [discard, store_to_two], |_| ());
}

/// The CPU that discards has the page cached: the other one never has a new page beside that.
#[test]
fn loom_a_huge_page_that_is_discarded_where_it_is_cached_against_a_store() {
    let discard: Program = |machine, space| {
        assert!(store(machine, space, START));
        space.advise(START.addr(), TABLE * PAGE, Advice::DontNeed).unwrap();
        true
    };
    let store_to_one: Program = |machine, space| {
        assert!(store(machine, space, START));
        let [own, other] = [1, 0].map(|cpu| machine.cached(cpu, START).map(|leaf| leaf.pfn));
        assert!(other.is_none() || own == other, "TLBs hold two folios for one range");
        true
    };
    explore(huge, [discard, store_to_one], |_| ());
}

/// Fast pins refuse a huge page by name, and pin the frame of a page of which a split has made one.
#[test]
fn loom_a_split_for_a_pin_against_a_fast_pin_of_a_part() {
    let split: Program = |_, space| {
        let pins = space.pin_pages_slow(START.addr(), Access::Write, limit(), [None]).unwrap();
        let pinned = pins.frames().next().unwrap().pfn();
        assert_eq!(leaf_of(space, START).map(|(leaf, _)| leaf.pfn), Some(pinned));
        true
    };
    let pin: Program = |_, space| {
        let reading = space.vm().read();
        let part = START.add(1);
        match space.try_pin_fast(part.addr(), Access::Write, limit(), [None], &reading) {
            Ok(pins) => {
                let pinned = pins.frames().next().unwrap().pfn();
                drop(reading);
                let (leaf, level) = leaf_of(space, part).unwrap();
                assert_eq!((leaf.pfn, level), (pinned, Level::Pte), "another page's frame is pinned");
                true
            }
            Err(refusal) => {
                assert!(matches!(refusal, FastPinRefusal::Huge | FastPinRefusal::NotPresent));
                false
            }
        }
    };
    explore(huge, [split, pin], |space| {
        assert!(leaf_of(space, START).is_some_and(|(_, level)| level == Level::Pte));
    });
}

#[test]
fn loom_a_split_for_a_pin_against_a_store() {
    let split: Program = |machine, space| {
        drop(space.pin_pages_slow(START.add(1).addr(), Access::Write, limit(), [None]).unwrap());
        store(machine, space, START)
    };
    explore(huge, [split, store_to_start], |space| {
        assert!(leaf_of(space, START).is_some_and(|(_, level)| level == Level::Pte));
    });
}
