//! Pins of large ranges, with helpers: all pages or none.

use crate::frame::PinnedFrame;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::tests::world::base::TABLE as TABLE_PAGES;
use crate::space::tests::world::helpers::with_helpers;
use crate::space::*;
use crate::units::{Access, PAGE_SIZE, VirtAddr, Vpn};
use std::collections::HashSet;
use std::vec::Vec;

type TestSpace<'a> = AddressSpace<'a, TestMachine>;
type Slot<'v> = Option<PinnedFrame<'v, TestMachine>>;
type Limit = MemlockLimit<TestCpu>;
const PAGE: u64 = PAGE_SIZE as u64;
/// From the middle of a table to the middle of another.
const PAGES: u64 = 5 * TABLE_PAGES + 9;
const FIRST: u64 = 20 * TABLE_PAGES + 100;

fn at(page: u64) -> VirtAddr {
    Vpn(page).addr()
}

fn map(space: &TestSpace<'_>, first: u64, pages: u64) {
    let place = Place::Fixed(at(first));
    space.map(&MapRequest { place, ..MapRequest::anonymous(pages * PAGE) }).unwrap();
}

fn slots<'v>() -> Vec<Slot<'v>> {
    (0..PAGES).map(|_| None).collect()
}

fn pinned(space: &TestSpace<'_>) -> u64 {
    space.vm().memory().check().unwrap().pinned
}

/// Pins that are refused leave no pin, no charge, and no frame in the caller's buffer.
fn assert_refused(space: &TestSpace<'_>, limit: &Limit, error: Error) {
    for access in [Access::Read, Access::Write] {
        let mut buffer = slots();
        let refused = space.pin_range(at(FIRST), access, limit, &mut *buffer).map(|pins| pins.len());
        assert_eq!(refused, Err(error));
        assert!(buffer.iter().all(Option::is_none), "a pin is left in the buffer");
        assert_eq!((pinned(space), limit.locked_pages()), (0, 0));
    }
    let totals = space.vm().totals();
    assert_eq!(totals.get(Counter::FollPinAcquired), totals.get(Counter::FollPinReleased));
}

#[test]
fn all_pages_of_a_large_range_are_pinned_and_keep_their_frames() {
    with_helpers(1 << 14, |space| {
        map(space, FIRST, PAGES);
        // Some pages are there, in some tables.
        for page in (FIRST..FIRST + PAGES).step_by(3) {
            space.fault(Fault { addr: at(page), access: Access::Write }).unwrap();
        }
        let limit = Limit::new(2 * PAGES);
        let pins = space.pin_range(at(FIRST), Access::Write, &limit, slots()).unwrap();
        assert_eq!((pins.len() as u64, limit.locked_pages(), pinned(space)), (PAGES, PAGES, PAGES));
        let child = space.fork().unwrap();
        let frames: Vec<_> = pins.frames().map(PinnedFrame::pfn).collect();
        assert_eq!(frames.iter().collect::<HashSet<_>>().len() as u64, PAGES, "a frame for each page");
        for (page, &pfn) in (FIRST..).zip(&frames) {
            assert_eq!(
                space.inspect().resident_frame(Vpn(page)).map(|(pfn, ..)| pfn),
                Some(pfn),
                "in the pages' order"
            );
            assert_ne!(
                child.inspect().resident_frame(Vpn(page)).map(|(pfn, ..)| pfn),
                Some(pfn),
                "shared by a fork"
            );
        }
        // Once more, now that all pages are there.
        let again = space.pin_range(at(FIRST), Access::Read, &limit, slots()).unwrap();
        assert!(again.frames().map(PinnedFrame::pfn).eq(frames), "other frames");
        again.unpin();
        assert_eq!((limit.locked_pages(), pinned(space)), (PAGES, PAGES));
        pins.unpin();
        assert_eq!((limit.locked_pages(), pinned(space)), (0, 0));
    });
}

#[test]
fn a_hole_in_a_large_range_undoes_the_pins_of_all_other_pages() {
    with_helpers(1 << 14, |space| {
        map(space, FIRST, PAGES);
        for hole in [FIRST, FIRST + PAGES / 2, FIRST + PAGES - 1] {
            space.unmap(at(hole), PAGE).unwrap();
            assert_refused(space, &Limit::new(u64::MAX), Error::Fault);
            map(space, hole, 1);
        }
    });
}

#[test]
fn a_large_range_that_memory_or_the_limit_does_not_suffice_for_is_not_pinned() {
    with_helpers(1500, |space| {
        map(space, FIRST, PAGES);
        assert_refused(space, &Limit::new(PAGES - 1), Error::NoMemory);
        assert_eq!(space.vm().totals().get(Counter::FollPinAcquired), 0);
        assert_refused(space, &Limit::new(PAGES), Error::NoMemory);
    });
}

#[test]
fn a_range_beyond_the_space_is_not_pinned() {
    with_helpers(1 << 12, |space| {
        let (last, limit) = (space.layout().areas.user.end.0 - 1, Limit::new(PAGES));
        for page in [last, u64::MAX >> 12] {
            let refused = space.pin_range(at(page), Access::Read, &limit, slots());
            assert_eq!(refused.map(|pins| pins.len()), Err(Error::Fault));
        }
        let none = space.pin_range(at(FIRST), Access::Read, &limit, Vec::new()).unwrap();
        assert!(none.is_empty());
    });
}

/// Two pages, each the business of another block.
#[test]
fn a_range_across_the_end_of_a_table_is_pinned_to_its_last_page() {
    with_helpers(256, |space| {
        let first = 9 * TABLE_PAGES - 1;
        let place = Place::Fixed(at(first));
        space.map(&MapRequest { place, ..MapRequest::anonymous(2 * PAGE) }).unwrap();
        let limit = MemlockLimit::new(2);
        let pins = space.pin_range(at(first), Access::Write, &limit, [None, None]).unwrap();
        assert_eq!((pins.len(), pins.frames().count(), limit.locked_pages()), (2, 2, 2));
    });
}

/// Fails the allocations of a pin of two pages, which two tables map, as `plan` says for each number.
/// Returns how many of these pins were made all the same, and how many were refused.
fn fail_each_allocation(plan: fn(&TestSpace<'_>, u64)) -> [u64; 2] {
    let first = 21 * TABLE_PAGES - 1;
    let mut seen = [0, 0];
    for nth in 1..100 {
        let mut has_struck = false;
        with_helpers(1 << 12, |space| {
            map(space, first, 2);
            let (limit, mut buffer) = (Limit::new(2), [None, None]);
            let mut pin = || space.pin_range(at(first), Access::Write, &limit, &mut buffer).map(drop);
            plan(space, nth);
            let result = pin();
            has_struck = !space.vm().memory().is_mishap_planned();
            space.vm().memory().plan_mishap(0);
            assert!(has_struck || result.is_ok(), "allocation {nth}: {result:?}");
            assert!(matches!(result, Ok(()) | Err(Error::NoMemory)), "allocation {nth}: {result:?}");
            let left = (limit.locked_pages(), pinned(space));
            assert_eq!(left, (0, 0), "charged and pinned after allocation {nth}");
            assert_eq!(pin(), Ok(()), "once more after allocation {nth}");
            seen[usize::from(result.is_err())] += u64::from(has_struck);
            assert!(buffer.iter().all(Option::is_none));
        });
        if !has_struck {
            return seen;
        }
    }
    panic!("two pages take a hundred allocations");
}

#[test]
fn each_allocation_of_a_pinned_range_fails_in_turn_and_leaves_no_pin() {
    let once = fail_each_allocation(|space, nth| space.vm().memory().plan_mishap(nth));
    assert!(once[0] + once[1] >= 4, "two frames and two tables: {once:?}");
    let [_, refused] = fail_each_allocation(|space, nth| space.vm().memory().plan_mishaps_from(nth));
    assert!(refused >= 2, "{refused} pins were refused");
}
