//! Walkers against a huge leaf that is split, cleared, and replaced by a table: seed 004's races.
//!
//! CPU 1 walks and runs no space, so that no CPU asks it for anything. What it finds is the leaf, the marker,
//! or what lies below the new table; never half a leaf, and nothing that was not there.

use super::world::*;
use crate::space::*;
use crate::sync::refill_zeros;
use crate::sync::testing::thread;
use crate::table::testing::pfnmap_nowhere;
use crate::table::{NoTranslation, NoteUse};
use crate::units::{Access, PageSize, Pfn, PfnRange, Rights, Vpn, VpnRange};

const FIRST: Pfn = Pfn(1 << 20);
/// The page after the first of the leaf.
const SECOND: Vpn = Vpn(START.0 + 1);

/// Runs the body in all executions, in a space with one leaf of 2 MiB. Returns how often each result was
/// seen.
fn explore_huge(body: Body) -> [usize; 2] {
    let prepared = move |machine: &'static Tests, space: &'static TestSpace| {
        map_leaf(space);
        refill_zeros();
        body(machine, space)
    };
    explore_space(Size::of(96), VmOptions::default, prepared, |_| ())
}

fn map_leaf(space: &TestSpace) {
    let pfnmap = pfnmap_nowhere(PfnRange { start: FIRST, end: FIRST.add(TABLE) }, Rights::all());
    let request = MapRequest {
        place: Place::Fixed(START.addr()),
        sharing: Sharing::Shared,
        ..MapRequest::anonymous(TABLE * PAGE)
    };
    space
        .map(&request.backed_by(MapBacking::Pfn { frames: &pfnmap, first: FIRST, largest: PageSize::Huge }))
        .unwrap();
}

/// What each walker of CPU 1 found: translations of the first two pages, whether the second page's frame was
/// found there, and whether the scan counted its leaf.
#[derive(Debug)]
struct Found {
    led: [Result<(Pfn, PageSize), NoTranslation>; 2],
    searched: Option<Vpn>,
    is_counted: bool,
}

/// CPU 1 walks.
fn walk_beside(machine: &'static Tests, space: &'static TestSpace) -> thread::JoinHandle<Found> {
    thread::spawn(move || {
        machine.run_as(1);
        let section = space.vm.read_in_handler();
        let led = [START, SECOND].map(|page| {
            space.walker().translate_in_handler(page.addr(), &section).map(|it| (it.pfn, it.size))
        });
        let page = VpnRange::new(SECOND, SECOND.add(1));
        let searched = space.walker().find_frame_in_handler(FIRST.add(1), page, 9, &section).page;
        drop(section);
        let scan = space.walker().scan_accessed(page, &space.vm.rcu.read(), |_, _| ());
        Found { led, searched, is_counted: scan.accessed == 1 }
    })
}

/// Whether a page that stays mapped led to its frame, or to the marker for a moment.
fn is_kept(led: Result<(Pfn, PageSize), NoTranslation>, pfn: Pfn) -> bool {
    matches!(led, Ok((found, _)) if found == pfn) || led == Err(NoTranslation::Busy)
}

#[test]
fn loom_walkers_against_a_split() {
    assert_both(explore_huge(|machine, space| {
        let walker = walk_beside(machine, space);
        unmap(space, START, 1);
        let Found { led, searched, is_counted } = walker.join().unwrap();
        let was_there = is_kept(led[0], FIRST) || led[0] == Err(NoTranslation::NotPresent);
        assert!(was_there, "{led:?}");
        assert!(is_kept(led[1], FIRST.add(1)), "a page that stays mapped leads to {:?}", led[1]);
        assert!(searched.is_none_or(|page| page == SECOND));
        let reading = space.vm.rcu.read();
        let kept =
            space.walker().translate_access(SECOND.addr(), Access::Write, NoteUse::Leave, &reading).unwrap();
        assert_eq!((kept.pfn, kept.size), (FIRST.add(1), PageSize::Base));
        assert!(kept.dirty && (kept.accessed || is_counted), "the parts forget that the leaf was used");
        drop(reading);
        matches!(led[1], Ok((_, PageSize::Huge)))
    }));
}

/// The leaf is unmapped, other memory mapped there, and a fault installs a table and a leaf.
#[test]
fn loom_walkers_against_a_leaf_that_a_fault_replaces_by_a_table() {
    assert_both(explore_huge(|machine, space| {
        let walker = walk_beside(machine, space);
        unmap(space, START, TABLE);
        map(space, START, 2);
        touch(space, START);
        let Found { led, searched, .. } = walker.join().unwrap();
        let reading = space.vm.rcu.read();
        let now =
            space.walker().translate_access(START.addr(), Access::Write, NoteUse::Leave, &reading).unwrap();
        assert!(now.owned && now.size == PageSize::Base && now.dirty);
        drop(reading);
        for (led, nth) in led.into_iter().zip(0..) {
            let known = match led {
                Ok((pfn, PageSize::Huge)) => pfn == FIRST.add(nth),
                Ok((pfn, _)) => pfn == now.pfn && nth == 0,
                Err(why) => why == NoTranslation::NotPresent || why == NoTranslation::Busy,
            };
            assert!(known, "page {nth} leads to {led:?}");
        }
        assert!(searched.is_none_or(|page| page == SECOND));
        matches!(led[0], Ok((_, PageSize::Huge)))
    }));
}

/// A change in place: no walker sees the leaf gone.
#[test]
fn loom_walkers_against_mprotect_of_a_huge_leaf() {
    let seen = explore_huge(|machine, space| {
        let walker = walk_beside(machine, space);
        space.protect(START.addr(), TABLE * PAGE, crate::vma::VmaFlags::READ).unwrap();
        let Found { led, searched, is_counted } = walker.join().unwrap();
        assert!(led == [0, 1].map(|nth| Ok((FIRST.add(nth), PageSize::Huge))), "{led:?}");
        assert_eq!(searched, Some(SECOND));
        let reading = space.vm.rcu.read();
        let now =
            space.walker().translate_access(START.addr(), Access::Read, NoteUse::Leave, &reading).unwrap();
        drop(reading);
        assert!(!now.rights.contains(Rights::WRITE), "a right is back that was taken away");
        assert!(now.dirty && (now.accessed || is_counted), "a mark is lost");
        now.rights.contains(Rights::READ) && is_counted
    });
    assert_eq!(seen[0], 0, "the page was used before, and stays mapped");
}
