//! Collapse: base pages become a huge page, with their contents, or stay what they were.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::collapse::{byte_of, collapse, fill, with_base_pages};
use crate::space::tests::world::huge::{
    BASE, HUGE, TestSpace, at, counted, fault, is_huge, leaf, map, peek, store, with_frames, with_space,
};
use crate::space::tests::world::pins::{Limit, slots};
use crate::space::{Advice, Collapsed, Counter, Error, Fault};
use crate::units::{Access, Rights, VirtAddr, Vpn};
use crate::vma::{CollapseLimits, CollapseRefusal, FlagAdvice, HugePolicy, Requester, ThpDisable, VmaFlags};
use std::vec::Vec;

const COUNTERS: [Counter; 4] = [
    Counter::ThpCollapseAlloc,
    Counter::ThpCollapseAllocFailed,
    Counter::ThpSplitPmd,
    Counter::NrAnonTransparentHugepages,
];

fn collapse_pages(space: &TestSpace<'_>, start: u64, end: u64) -> Result<(), Error> {
    space.collapse(at(start), (end - start) * PAGE)
}

#[test]
fn a_full_region_becomes_a_huge_page_with_its_contents() {
    with_base_pages(|vm, space| {
        fill(&space, 0..HUGE);
        let before = vm.memory().stats().allocated();
        let flushes = || vm.totals().get(Counter::TlbFlush);
        let flushed = flushes();
        assert_eq!(collapse(&space, 7), Ok(Collapsed::Copied));
        // Of the rights to write, and of the base pages.
        assert_eq!(flushes() - flushed, 2);
        assert!(is_huge(&space, 0) && leaf(&space, HUGE).is_none());
        assert!((0..HUGE).all(|page| peek(&space, page) == Some(byte_of(page))));
        vm.trim();
        // The table is gone, and as many frames as there are.
        assert_eq!(vm.memory().stats().allocated(), before - 1);
        assert_eq!(counted(vm, COUNTERS), [1, 0, 0, 1]);
        let (leaf, _) = leaf(&space, 3).unwrap();
        assert!(leaf.rights.contains(Rights::WRITE) && leaf.dirty);
        let meta = vm.memory().meta(leaf.pfn).unwrap();
        assert!(meta.state().is_exclusive() && (meta.state().refcount(), meta.mapcount()) == (1, 1));
        assert_eq!(collapse(&space, 7), Ok(Collapsed::Already));
        store(&space, 9, 77);
        space.unmap(at(3), PAGE).unwrap();
        assert_eq!((peek(&space, 9), peek(&space, 4)), (Some(77), Some(byte_of(4))));
        vm.memory().check().unwrap();
    });
}

#[test]
fn what_holds_nothing_becomes_zero() {
    with_base_pages(|vm, space| {
        // What the next folio holds.
        map(&space, 4 * HUGE, HUGE);
        (0..HUGE).for_each(|page| store(&space, 4 * HUGE + page, 0xee));
        space.unmap(at(4 * HUGE), HUGE * PAGE).unwrap();
        vm.trim();
        fill(&space, [5, 400]);
        fault(&space, 17, Access::Read);
        assert_eq!(collapse(&space, 0), Ok(Collapsed::Copied));
        for page in 0..HUGE {
            let expected = if [5, 400].contains(&page) { byte_of(page) } else { 0 };
            assert_eq!(peek(&space, page), Some(expected), "page {page}");
        }
    });
}

#[test]
fn limits_of_pages_without_memory_are_kept() {
    with_base_pages(|_, space| {
        space.advise(at(0), 2 * HUGE * PAGE, Advice::Flag(FlagAdvice::HugePage)).unwrap();
        fill(&space, 0..HUGE - 3);
        let limits = |max_none| CollapseLimits { max_none, ..CollapseLimits::LINUX };
        let by = |requester, max_none| space.collapse_region(Vpn(BASE), requester, &limits(max_none));
        assert_eq!(by(Requester::Scanner, 511), Err(CollapseRefusal::Mapping), "the policy is never");
        assert_eq!(by(Requester::Program, 2), Err(CollapseRefusal::TooManyNone));
        assert_eq!(by(Requester::Program, 3), Ok(Collapsed::Copied));
    });
}

#[test]
fn a_pinned_page_refuses_until_it_is_unpinned() {
    for access in [Access::Read, Access::Write] {
        with_base_pages(|vm, space| {
            fill(&space, 0..HUGE);
            let limit = Limit::new(u64::MAX);
            let pinned = space.pin_pages(at(HUGE - 2), access, &limit, slots(1)).unwrap();
            assert_eq!(collapse(&space, 0), Err(CollapseRefusal::Referenced));
            assert_eq!(collapse_pages(&space, 0, HUGE), Err(Error::Again));
            assert!((0..HUGE).all(|page| peek(&space, page) == Some(byte_of(page))));
            fill(&space, 0..HUGE);
            drop(pinned);
            assert_eq!(collapse(&space, 0), Ok(Collapsed::Copied));
            assert_eq!(counted(vm, COUNTERS)[3], 1);
        });
    }
}

#[test]
fn shared_pages_are_copied_and_stay_with_the_other_space() {
    with_base_pages(|vm, space| {
        fill(&space, 0..HUGE);
        let child = space.fork().unwrap();
        let limits = CollapseLimits { max_shared: 511, ..CollapseLimits::NONE };
        let limited = space.collapse_region(Vpn(BASE), Requester::Program, &limits);
        assert_eq!(limited, Err(CollapseRefusal::TooManyShared));
        assert_eq!(collapse(&space, 0), Ok(Collapsed::Copied));
        store(&space, 3, 99);
        assert_eq!(peek(&child, 3), Some(byte_of(3)));
        assert_eq!(collapse(&child, 0), Ok(Collapsed::Copied));
        assert!((0..HUGE).all(|page| peek(&child, page) == Some(byte_of(page))));
        assert_eq!(counted(vm, COUNTERS), [2, 0, 0, 2]);
        let grandchild = space.fork().unwrap();
        assert_eq!((peek(&grandchild, 3), peek(&space, 3)), (Some(99), Some(99)));
        drop((child, grandchild));
        vm.memory().check().unwrap();
    });
}

#[test]
fn the_mapping_s_rights_are_those_of_the_huge_page() {
    with_base_pages(|_, space| {
        fill(&space, 0..HUGE);
        space.protect(at(0), HUGE * PAGE, VmaFlags::READ).unwrap();
        assert_eq!(collapse(&space, 0), Ok(Collapsed::Copied));
        assert!(!leaf(&space, 0).unwrap().0.rights.contains(Rights::WRITE));
        assert!(space.fault(Fault { addr: at(0), access: Access::Write }).is_err());
        space.protect(at(0), HUGE * PAGE, VmaFlags::READ | VmaFlags::WRITE).unwrap();
        store(&space, 8, 3);
        assert!(is_huge(&space, 8));
        // Two mappings have this region.
        fill(&space, HUGE..2 * HUGE);
        space.protect(at(HUGE + 9), PAGE, VmaFlags::READ).unwrap();
        assert_eq!(collapse(&space, HUGE), Err(CollapseRefusal::Mapping));
    });
}

#[test]
fn a_program_may_collapse_what_it_may_not_access_now() {
    with_base_pages(|_, space| {
        fill(&space, 0..HUGE);
        space.protect(at(0), HUGE * PAGE, VmaFlags::empty()).unwrap();
        let limits = CollapseLimits::NONE;
        let scanned = space.collapse_region(Vpn(BASE), Requester::Scanner, &limits);
        assert_eq!(scanned, Err(CollapseRefusal::Mapping));
        assert_eq!(collapse(&space, 0), Ok(Collapsed::Copied));
        assert!(space.fault(Fault { addr: at(5), access: Access::Read }).is_err());
        space.protect(at(0), HUGE * PAGE, VmaFlags::READ).unwrap();
        fault(&space, 5, Access::Read);
        assert!(is_huge(&space, 5) && (0..HUGE).all(|page| peek(&space, page) == Some(byte_of(page))));
    });
}

#[test]
fn what_was_marked_free_is_kept() {
    with_base_pages(|vm, space| {
        fill(&space, 0..HUGE);
        space.advise(at(0), HUGE * PAGE, Advice::Free).unwrap();
        assert_eq!(collapse(&space, 0), Ok(Collapsed::Copied));
        assert!((0..HUGE).all(|page| peek(&space, page) == Some(byte_of(page))));
        let (leaf, _) = leaf(&space, 0).unwrap();
        assert!(!vm.memory().meta(leaf.pfn).unwrap().state().is_lazyfree());
    });
}

#[test]
fn the_call_has_the_errors_of_linux() {
    with_base_pages(|_, space| {
        let kibibyte = |addr: u64, len| space.collapse(VirtAddr(addr), len);
        assert_eq!(kibibyte(at(0).0 + 1, PAGE), Err(Error::Invalid));
        assert_eq!(kibibyte(at(0).0, 0), Ok(()));
        // Nothing was touched; inside of a region; at the border of one; a hole.
        assert_eq!(collapse_pages(&space, 0, HUGE), Err(Error::Invalid));
        fill(&space, 0..HUGE + 1);
        assert_eq!(collapse_pages(&space, 1, 5), Err(Error::Invalid));
        assert_eq!(collapse_pages(&space, 0, 5), Ok(()));
        assert!(!is_huge(&space, 0));
        assert_eq!(collapse_pages(&space, 0, 3 * HUGE), Err(Error::NoMemory));
        assert!(is_huge(&space, 0) && is_huge(&space, HUGE));
        assert_eq!(collapse_pages(&space, 0, 2 * HUGE), Ok(()));
        map(&space, 4 * HUGE, HUGE - 1);
        assert_eq!(collapse_pages(&space, 4 * HUGE, 5 * HUGE - 1), Err(Error::Invalid));
        map(&space, 6 * HUGE, HUGE);
        store(&space, 6 * HUGE, 1);
        space.advise(at(6 * HUGE), HUGE * PAGE, Advice::Flag(FlagAdvice::NoHugePage)).unwrap();
        assert_eq!(collapse_pages(&space, 6 * HUGE, 7 * HUGE), Err(Error::Invalid));
        space.advise(at(6 * HUGE), HUGE * PAGE, Advice::Flag(FlagAdvice::HugePage)).unwrap();
        space.set_thp_disable(ThpDisable::Completely);
        assert_eq!(collapse_pages(&space, 6 * HUGE, 7 * HUGE), Err(Error::Invalid));
        space.set_thp_disable(ThpDisable::ExceptAdvised);
        assert_eq!(collapse_pages(&space, 6 * HUGE, 7 * HUGE), Ok(()));
    });
}

#[test]
fn without_a_block_nothing_changes() {
    with_base_pages(|vm, space| {
        fill(&space, 0..HUGE);
        vm.memory().plan_mishap(1);
        assert_eq!(collapse_pages(&space, 0, HUGE), Err(Error::NoMemory));
        assert!(!vm.memory().is_mishap_planned());
        vm.memory().plan_mishap(0);
        assert_eq!(counted(vm, COUNTERS), [0, 1, 0, 0]);
        // No store faults: nothing was frozen.
        let may_write = |page| leaf(&space, page).unwrap().0.rights.contains(Rights::WRITE);
        assert!((0..HUGE).all(may_write));
        // The folio is all that is allocated.
        vm.memory().plan_mishap(2);
        assert_eq!(collapse_pages(&space, 0, HUGE), Ok(()));
        assert!(vm.memory().is_mishap_planned());
        vm.memory().plan_mishap(0);
    });
}

#[test]
fn a_huge_page_that_was_split_is_collapsed_again() {
    with_space(|vm, space| {
        map(&space, 0, HUGE);
        fill(&space, 0..HUGE);
        drop(space.pin_pages(at(0), Access::Read, &Limit::new(9), slots(1)).unwrap());
        assert!(!is_huge(&space, 0));
        assert_eq!(collapse(&space, 0), Ok(Collapsed::Copied));
        assert!((0..HUGE).all(|page| peek(&space, page) == Some(byte_of(page))));
        assert_eq!(counted(vm, COUNTERS), [1, 0, 1, 1]);
    });
}

#[test]
fn a_scan_collapses_one_region_after_the_other_and_ends() {
    with_frames(12 * HUGE, HugePolicy::Madvise, |vm, space| {
        map(&space, 0, 4 * HUGE);
        fill(&space, [3, HUGE, HUGE + 1, 3 * HUGE + 9]);
        map(&space, 5 * HUGE + 1, HUGE);
        fill(&space, [5 * HUGE + 1]);
        let limits = CollapseLimits::LINUX;
        let step = space.scan_to_collapse(Vpn(0), 100, &limits);
        assert_eq!((step.next, step.collapsed), (Vpn(0), None), "nobody has asked for huge pages");
        assert_eq!(step.refused, Some(CollapseRefusal::Mapping));
        for (page, pages) in [(0, 4 * HUGE), (5 * HUGE + 1, HUGE)] {
            space.advise(at(page), pages * PAGE, Advice::Flag(FlagAdvice::HugePage)).unwrap();
        }
        let (mut next, mut found) = (Vpn(0), Vec::new());
        loop {
            let step = space.scan_to_collapse(next, 2, &limits);
            assert!(step.looked_at <= 2);
            found.extend(step.collapsed);
            next = step.next;
            if next == Vpn(0) {
                break;
            }
        }
        assert_eq!(found, [0, HUGE, 3 * HUGE].map(|page| Vpn(BASE + page)));
        assert!(!is_huge(&space, 2 * HUGE) && !is_huge(&space, 5 * HUGE + 1));
        assert_eq!(peek(&space, HUGE + 1), Some(byte_of(HUGE + 1)));
        assert_eq!(counted(vm, COUNTERS), [3, 0, 0, 3]);
        // Without a folio a step ends, and goes on behind the region.
        space.advise(at(0), 4 * HUGE * PAGE, Advice::DontNeed).unwrap();
        space.set_thp_disable(ThpDisable::Completely);
        fill(&space, [1, HUGE]);
        assert_eq!(space.scan_to_collapse(Vpn(0), 9, &limits).refused, Some(CollapseRefusal::Mapping));
        space.set_thp_disable(ThpDisable::None);
        vm.memory().plan_mishap(1);
        let step = space.scan_to_collapse(Vpn(BASE + HUGE), 9, &limits);
        vm.memory().plan_mishap(0);
        assert_eq!((step.collapsed, step.refused), (None, Some(CollapseRefusal::NoMemory)));
        assert_eq!(step.next, Vpn(BASE + 2 * HUGE));
    });
}

/// A page whose frame can have no more references is not copied, so there is no collapse: it would be zeros.
#[test]
fn a_page_that_cannot_be_referenced_refuses_a_collapse() {
    with_base_pages(|vm, space| {
        fill(&space, 0..HUGE);
        let child = space.fork().unwrap();
        let pfn = leaf(&space, 7).unwrap().0.pfn;
        let references: Vec<_> = core::iter::from_fn(|| vm.memory().try_get(pfn)).collect();
        assert_eq!(collapse(&space, 0), Err(CollapseRefusal::Referenced));
        assert!((0..HUGE).all(|page| peek(&space, page) == Some(byte_of(page))));
        drop(references);
        assert_eq!(collapse(&space, 0), Ok(Collapsed::Copied));
        assert!((0..HUGE).all(|page| peek(&space, page) == Some(byte_of(page))));
        assert_eq!(peek(&child, 7), Some(byte_of(7)));
    });
}
