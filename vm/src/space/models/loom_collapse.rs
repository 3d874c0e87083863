//! A collapse against stores, pins, discards and a fork in its region. The real code on the smallest tree,
//! all executions with one preemption, or two for the pin that takes no lock.
//!
//! Stores are of bytes: a CPU that has a translation cached stores through it until it answers the flush.

use super::world::*;
use crate::machine::testing::TestCpu;
use crate::machine::{Cpu, Leaf};
use crate::space::{Advice, Collapsed, Counter, Fault};
use crate::table::{FastPinRefusal, translate};
use crate::units::{Access, Pfn, Vpn};
use crate::vma::{CollapseLimits, CollapseRefusal, HugePolicy, Requester};

const FRAMES: u64 = 3 * TABLE;

fn explore(before: fn(&TestSpace), cpus: [Program; 2], after: fn(&TestSpace)) -> [usize; 2] {
    explore_pair_on(Pair { before, cpus, after }, FRAMES, HugePolicy::Never, 1)
}

/// The frame that the page has.
fn frame_of(space: &TestSpace, page: Vpn) -> Option<Pfn> {
    let found = translate(space.inspect().page_table(), page, &space.vm().read()).ok()?;
    Some(found.pfn)
}

fn byte_at(space: &TestSpace, page: Vpn) -> Option<u8> {
    let mut byte = [0];
    space.vm().machine().read(frame_of(space, page)?, 0, &mut byte);
    Some(byte[0])
}

/// A region whose first and last page hold 1.
fn filled(space: &TestSpace) {
    map(space, START, TABLE);
    for page in [START, LAST] {
        touch(space, page);
        space.vm().machine().write(frame_of(space, page).unwrap(), 0, &[1]);
    }
}

/// Loads the first byte of the region as a program does.
fn load_byte(machine: &Tests, space: &TestSpace) -> u8 {
    loop {
        TestCpu::take_interrupt();
        if let Some(leaf) = machine.translate(START, Access::Read) {
            let mut byte = [0];
            machine.read(leaf.pfn, 0, &mut byte);
            return byte[0];
        }
        space.fault(Fault { addr: START.addr(), access: Access::Read }).unwrap();
    }
}

fn collapse(space: &TestSpace) -> Result<Collapsed, CollapseRefusal> {
    space.collapse_region(START, Requester::Program, &CollapseLimits::NONE)
}

/// Collapses the region. Whether it did.
fn collapse_it(_: &'static Tests, space: &'static TestSpace) -> bool {
    match collapse(space) {
        Ok(how) => how == Collapsed::Copied,
        Err(refusal) => {
            assert!(matches!(refusal, CollapseRefusal::Referenced | CollapseRefusal::Busy), "{refusal}");
            false
        }
    }
}

fn nr_huge(space: &TestSpace) -> u64 {
    space.vm().totals().get(Counter::NrAnonTransparentHugepages)
}

#[test]
fn loom_a_collapse_against_two_stores_to_a_page_of_it() {
    let store_twice: Program = |machine, space| {
        store_byte(machine, space, START, 2);
        store_byte(machine, space, START, 3);
        assert_eq!(load_byte(machine, space), 3, "a store is lost");
        true
    };
    explore(filled, [collapse_it, store_twice], |space| {
        assert_eq!([START, LAST].map(|page| byte_at(space, page)), [Some(3), Some(1)]);
        assert_eq!(nr_huge(space), 1);
    });
}

/// A frame that is pinned stays that of its page.
#[test]
fn loom_a_collapse_against_a_fast_pin_of_a_page_of_it() {
    let pin: Program = |machine, space| {
        let reading = space.vm().read();
        match space.try_pin_fast(START.addr(), Access::Write, limit(), [None], &reading) {
            Ok(pins) => {
                drop(reading);
                let pinned = pins.frames().next().unwrap().pfn();
                // A device stores through the pin, and the program reads it. Flushes of a collapse that
                // went on are answered meanwhile.
                machine.write(pinned, 0, &[5]);
                for _ in 0..2 {
                    TestCpu::take_interrupt();
                    TestCpu::relax();
                }
                assert_eq!(frame_of(space, START), Some(pinned), "the page of a pinned frame has another");
                true
            }
            Err(refusal) => {
                use FastPinRefusal::*;
                assert!(matches!(refusal, Huge | NotPresent | NotPinnable | EntryChanged | NotAllowed));
                false
            }
        }
    };
    let after = |space: &TestSpace| {
        let byte = byte_at(space, START).unwrap();
        assert!([1, 5].contains(&byte) && byte_at(space, LAST) == Some(1));
        assert!(nr_huge(space) == 1 || byte == 5, "refused without a pin");
    };
    let pair = Pair { before: filled, cpus: [collapse_it, pin], after };
    let seen = explore_pair_on(pair, FRAMES, HugePolicy::Never, 2);
    assert!(seen.iter().all(|&count| count > 0), "refused and pinned: {seen:?}");
}

#[test]
fn loom_a_collapse_against_a_slow_pin_of_a_page_of_it() {
    let pin: Program = |machine, space| {
        let pins = space.pin_pages_slow(START.addr(), Access::Write, limit(), [None]).unwrap();
        let pinned = pins.frames().next().unwrap().pfn();
        machine.write(pinned, 0, &[5]);
        assert_eq!(frame_of(space, START), Some(pinned), "the page of a pinned frame has another");
        true
    };
    explore(filled, [collapse_it, pin], |space| {
        assert_eq!([START, LAST].map(|page| byte_at(space, page)), [Some(5), Some(1)]);
    });
}

/// What was dropped when MADV_DONTNEED returned is not in the copy.
#[test]
fn loom_a_collapse_against_dontneed_of_a_page_of_it() {
    let discard: Program = |machine, space| {
        space.advise(START.addr(), PAGE, Advice::DontNeed).unwrap();
        assert_eq!(load_byte(machine, space), 0, "what was dropped is there again");
        true
    };
    explore(filled, [collapse_it, discard], |space| {
        assert!(matches!(byte_at(space, START), None | Some(0)));
        assert_eq!(byte_at(space, LAST), Some(1));
    });
}

/// The huge page is split, or there is none.
#[test]
fn loom_a_collapse_against_munmap_of_a_page_of_it() {
    let unmap_start: Program = |machine, space| {
        unmap(space, START, 1);
        assert!(!machine.cached(1, START).is_some_and(|leaf: Leaf| leaf.owned()), "cached, and gone");
        assert_eq!(byte_at(space, START), None);
        true
    };
    let collapse_or_not: Program = |_, space| match collapse(space) {
        Ok(how) => how == Collapsed::Copied,
        Err(refusal) => {
            assert_eq!(refusal, CollapseRefusal::Mapping);
            false
        }
    };
    explore(filled, [collapse_or_not, unmap_start], |space| {
        assert_eq!([START, LAST].map(|page| byte_at(space, page)), [None, Some(1)]);
        assert_eq!(space.inspect().nr_mappings(), 1);
    });
}

/// The child has what the parent has: of the frames, or of the huge page in their place.
#[test]
fn loom_a_collapse_against_a_fork() {
    let fork_it: Program = |machine, space| {
        let child = fork(space);
        assert_eq!([START, LAST].map(|page| byte_at(&child, page)), [Some(1), Some(1)]);
        store_byte(machine, space, START, 7);
        assert_eq!(byte_at(&child, START), Some(1), "a child sees what its parent has stored since");
        true
    };
    explore(filled, [collapse_it, fork_it], |space| {
        assert_eq!([START, LAST].map(|page| byte_at(space, page)), [Some(7), Some(1)]);
        // A store splits what a child has too.
        assert!(nr_huge(space) <= 1);
    });
}
