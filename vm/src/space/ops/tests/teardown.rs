//! Large ranges cleared with helpers: as one CPU clears them, with one flush, and every frame given back.

use super::parallel::{with_helpers, with_helpers_and};
use crate::frame::Kind;
use crate::machine::Entry;
use crate::machine::testing::TestMachine;
use crate::space::edit::Zap;
use crate::space::ops::parallel::TABLE_PAGES;
use crate::space::*;
use crate::table::testing::pfnmap_nowhere;
use crate::table::walk;
use crate::units::{Access, Level, PAGE_SIZE, PageSize, Pfn, PfnRange, Rights, VirtAddr, Vpn, VpnRange};
use crate::vma::HugePolicy;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

type TestSpace<'a> = AddressSpace<'a, TestMachine>;

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages of the range that is cleared, from the middle of a table to the middle of another.
const PAGES: u64 = 6 * TABLE_PAGES;
const FIRST: u64 = 20 * TABLE_PAGES + 100;
/// Pages mapped beside it, before and behind.
const BESIDE: u64 = 10;
const GIANT: u64 = PageSize::Giant.pages();

fn at(page: u64) -> VirtAddr {
    Vpn(page).addr()
}

fn map(space: &TestSpace<'_>, first: u64, pages: u64) {
    let place = Place::Fixed(at(first));
    space.map(&MapRequest { place, populate: true, ..MapRequest::anonymous(pages * PAGE) }).unwrap();
}

/// The range and what is beside it, populated.
fn map_all(space: &TestSpace<'_>) {
    map(space, FIRST - BESIDE, PAGES + 2 * BESIDE);
}

fn entry(space: &TestSpace<'_>, page: u64) -> Entry {
    let reading = space.vm().read();
    walk(space.inspect().page_table(), Vpn(page), Level::Pte, &reading).entry()
}

/// Pages of the range that have an entry.
fn left(space: &TestSpace<'_>) -> u64 {
    (FIRST..FIRST + PAGES).filter(|&page| entry(space, page) != Entry::Absent).count() as u64
}

fn beside() -> impl Iterator<Item = u64> {
    (FIRST - BESIDE..FIRST).chain(FIRST + PAGES..FIRST + PAGES + BESIDE)
}

fn assert_beside_is_there(space: &TestSpace<'_>) {
    assert!(
        beside().all(|page| space.inspect().resident_frame(Vpn(page)).is_some()),
        "a page beside the range went"
    );
}

fn flushes(space: &TestSpace<'_>) -> u64 {
    space.vm().totals().get(Counter::TlbFlush)
}

/// Clears the range by one call, while this CPU runs the space, with one flush.
fn cleared_with_one_flush(space: &TestSpace<'_>, clear: impl FnOnce(&TestSpace<'_>)) {
    let running = space.activate(None);
    let before = flushes(space);
    clear(space);
    assert_eq!(flushes(space) - before, 1, "flushes of one call");
    assert_eq!(left(space), 0, "entries are left");
    drop(running);
}

fn unmap(space: &TestSpace<'_>) {
    space.unmap(at(FIRST), PAGES * PAGE).unwrap();
}

fn drop_contents(space: &TestSpace<'_>) {
    space.advise(at(FIRST), PAGES * PAGE, Advice::DontNeed).unwrap();
}

#[test]
fn munmap_of_a_large_range_clears_all_of_it_with_one_flush() {
    with_helpers(1 << 14, |space| {
        map_all(space);
        cleared_with_one_flush(space, unmap);
        assert_beside_is_there(space);
        assert!(!space.inspect().is_any_mapped(at(FIRST), PAGES * PAGE));
    });
}

#[test]
fn madv_dontneed_of_a_large_range_clears_all_of_it_with_one_flush() {
    with_helpers(1 << 14, |space| {
        map_all(space);
        cleared_with_one_flush(space, drop_contents);
        assert_beside_is_there(space);
        space.fault(Fault { addr: at(FIRST), access: Access::Write }).unwrap();
        assert_eq!(left(space), 1, "the mapping is there still");
    });
}

/// All frames that another space maps too wait in their slots for the one flush.
#[test]
fn a_large_range_of_shared_frames_is_cleared_with_one_flush_and_the_child_keeps_them() {
    for clear in [unmap, drop_contents] {
        with_helpers(1 << 14, |space| {
            map_all(space);
            let child = space.fork().unwrap();
            let frame = |page| child.inspect().resident_frame(Vpn(page)).map(|(pfn, ..)| pfn);
            let before: Vec<_> = (FIRST..FIRST + PAGES).map(frame).collect();
            cleared_with_one_flush(space, clear);
            assert_beside_is_there(space);
            assert_eq!((FIRST..FIRST + PAGES).map(frame).collect::<Vec<_>>(), before);
            let mapped = |pfn| space.vm().memory().meta(pfn).unwrap().mapcount();
            assert!(before.into_iter().all(|pfn| pfn.is_some_and(|pfn| mapped(pfn) == 1)), "counted twice");
        });
    }
}

/// Between a part's end and the flush its frames are in use still; afterwards no CPU has them cached.
#[test]
fn a_part_frees_nothing_before_the_flush_of_all() {
    with_helpers(1 << 14, |space| {
        map_all(space);
        let machine = space.vm().machine();
        let running = space.activate(None);
        let pages = [FIRST, FIRST + PAGES - 1].map(Vpn);
        let frames = pages.map(|page| machine.translate(page, Access::Read).unwrap().pfn);
        let kinds = || frames.map(|pfn| space.vm().memory().meta(pfn).unwrap().state().kind());
        let range = VpnRange::new(Vpn(FIRST), Vpn(FIRST + PAGES));
        let guard = space.read(range);
        space.entries.gather(guard.token(), range, |gather| {
            let done = gather
                .in_parts(|parts| parts.part(|part| Zap::of_unmapped(&space.entries).alone(range, part)));
            assert_eq!((done, kinds()), (Some(()), [Kind::User; 2]), "freed before the flush");
            assert!(pages.iter().all(|&page| machine.has_cached(0, page)));
            Zap::of_unmapped(&space.entries).put_deferred(gather);
            assert!(!pages.iter().any(|&page| machine.has_cached(0, page)), "not flushed");
            assert!(!kinds().contains(&Kind::User), "not freed");
        });
        drop(guard);
        drop(running);
    });
}

/// Where another edit leaves frames in their slots the call does without helpers.
#[test]
fn a_range_is_cleared_alone_where_another_edit_leaves_frames_in_their_slots() {
    with_helpers(1 << 14, |space| {
        map_all(space);
        let other = space.entries.tlb.begin_edit();
        let range = VpnRange::new(Vpn(FIRST), Vpn(FIRST + PAGES));
        let guard = space.read(range);
        space.entries.gather_pending(guard.token(), &other, range, |gather| {
            let taken = gather.in_parts(|_| Zap::of_contents(&space.entries).run(guard.token(), range));
            assert!(taken.is_some(), "the right was free");
        });
        drop(guard);
        assert_eq!(left(space), 0);
        assert_beside_is_there(space);
    });
}

/// What a part had unhooked when it panicked is flushed and freed with the rest.
#[test]
fn a_part_that_panics_loses_nothing() {
    with_helpers(1 << 14, |space| {
        map_all(space);
        let running = space.activate(None);
        let range = VpnRange::new(Vpn(FIRST), Vpn(FIRST + PAGES));
        let guard = space.read(range);
        let before = flushes(space);
        space.entries.gather(guard.token(), range, |gather| {
            let part = || {
                gather.in_parts(|parts| {
                    parts.part(|part| {
                        Zap::of_unmapped(&space.entries).alone(range, part);
                        panic!("a part panics");
                    });
                })
            };
            assert!(catch_unwind(AssertUnwindSafe(part)).is_err());
            Zap::of_unmapped(&space.entries).put_deferred(gather);
        });
        assert_eq!((flushes(space) - before, left(space)), (1, 0));
        drop(guard);
        drop(running);
    });
}

/// The counts of the end are with `with_helpers`: all frames are given back.
#[test]
fn a_space_of_large_mappings_ends_with_one_flush() {
    with_helpers(1 << 14, |space| {
        let vm = space.vm();
        let other = AddressSpace::new(vm, *space.layout(), Path::Speculative).unwrap();
        map(&other, FIRST, PAGES);
        map(&other, FIRST + 2 * PAGES, PAGES);
        let before = vm.totals().get(Counter::TlbFlush);
        drop(other);
        assert_eq!(vm.totals().get(Counter::TlbFlush) - before, 1);
    });
}

fn map_pfn(space: &TestSpace<'_>) {
    let frames = PfnRange { start: Pfn(16 * GIANT), end: Pfn(22 * GIANT) };
    let request = MapRequest {
        place: Place::Fixed(at(8 * GIANT)),
        sharing: Sharing::Shared,
        ..MapRequest::anonymous(6 * GIANT * PAGE)
    };
    let pfnmap = pfnmap_nowhere(frames, Rights::all());
    space
        .map(&request.backed_by(MapBacking::Pfn {
            frames: &pfnmap,
            first: frames.start,
            largest: PageSize::Huge,
        }))
        .unwrap();
}

fn nr_pfn_pages(space: &TestSpace<'_>) -> usize {
    let leaves = (8 * GIANT..14 * GIANT).step_by(PageSize::Huge.pages() as usize);
    leaves.filter(|&page| entry(space, page) != Entry::Absent).count()
}

/// Cut in the middle of leaves: those at the ends are split, the others are cleared in parts.
#[test]
fn huge_leaves_are_cleared_in_parts_and_those_at_the_ends_are_split() {
    with_helpers(1 << 12, |space| {
        map_pfn(space);
        let running = space.activate(None);
        let before = flushes(space);
        space.unmap(at(8 * GIANT + 5), (6 * GIANT - 10) * PAGE).unwrap();
        assert_eq!(flushes(space) - before, 3, "two splits, and one for all");
        let has_entry = |page| entry(space, page) != Entry::Absent;
        assert!((8 * GIANT..8 * GIANT + 5).all(has_entry) && (14 * GIANT - 5..14 * GIANT).all(has_entry));
        assert_eq!(nr_pfn_pages(space), 1, "the first page is there still");
        drop(running);
    });
}

#[test]
fn a_space_of_huge_leaves_ends_with_helpers() {
    with_helpers(1 << 12, |space| {
        map_pfn(space);
        assert_eq!(nr_pfn_pages(space), 6 * 512);
    });
}

/// Huge pages that helpers have cleared are counted as gone.
#[test]
fn the_end_of_a_space_with_huge_pages_leaves_none_counted() {
    with_helpers_and(HugePolicy::Always, 8 * 512, |space| {
        let request =
            MapRequest { place: Place::Fixed(at(8 * GIANT)), ..MapRequest::anonymous(3 * GIANT * PAGE) };
        space.map(&request).unwrap();
        for page in [8 * GIANT + 3, 10 * GIANT] {
            space.fault(Fault { addr: at(page), access: Access::Write }).unwrap();
        }
        assert_eq!(space.vm().totals().get(Counter::NrAnonTransparentHugepages), 2);
    });
}
