//! Large ranges unmapped with helpers: as one CPU clears them, with one flush, and every frame given back.

use crate::frame::Kind;
use crate::machine::Entry;
use crate::space::edit::Zap;
use crate::space::tests::world::helpers::with_helpers;
use crate::space::tests::world::large::{
    FIRST, GIANT, PAGE, PAGES, TestSpace, assert_beside_is_there, at, cleared_with_one_flush, drop_contents,
    entry, flushes, left, map_all, map_pfn, nr_pfn_pages,
};
use crate::units::{Access, Vpn, VpnRange};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

fn unmap(space: &TestSpace<'_>) {
    space.unmap(at(FIRST), PAGES * PAGE).unwrap();
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
