//! Populating and the end of a space with helpers, on the seeded machine: whatever the seed, every page is
//! there once, and every frame comes back.

use super::with_helpers::{Space, with_helpers};
use interleaf::space::{Advice, Counter, Error, Fault, MapRequest};
use interleaf::units::{Access, PAGE_SIZE, Pfn, VirtAddr, Vpn};
use interleaf::vma::HugePolicy;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// Three tables of leaves and a bit: work for more than two.
const PAGES: u64 = 3 * 512 + 9;
const BYTES: u64 = PAGES * 4096;

/// The frames of the pages from `start` on that are present.
fn frames_of(space: &Space<'_>, start: VirtAddr) -> Vec<Pfn> {
    let page = |at| Vpn(start.vpn().0 + at);
    (0..PAGES).filter_map(|at| space.inspect().resident_frame(page(at))).map(|(pfn, ..)| pfn).collect()
}

#[test]
fn a_populated_mapping_has_a_frame_for_each_page_whatever_the_seed() {
    with_helpers(4096, HugePolicy::Never, 0..6, |space, _| {
        let start = space.map(&MapRequest { populate: true, ..MapRequest::anonymous(BYTES) }).unwrap();
        let frames = frames_of(&space, start);
        let different: HashSet<_> = frames.iter().collect();
        assert_eq!((frames.len() as u64, different.len() as u64), (PAGES, PAGES));
    });
}

/// As Linux does it: the mapping stands, what was there stays there, and what could be made present may be.
#[test]
fn populating_more_than_there_is_fails_and_takes_nothing_away_whatever_the_seed() {
    static STAYED: AtomicU32 = AtomicU32::new(0);
    with_helpers(1400, HugePolicy::Never, 0..6, |space, _| {
        let start = space.map(&MapRequest::anonymous(BYTES)).unwrap();
        space.advise(start, 64 * 4096, Advice::PopulateWrite).unwrap();
        let before = frames_of(&space, start);
        assert_eq!(before.len(), 64);
        assert_eq!(space.advise(start, BYTES, Advice::PopulateWrite), Err(Error::NoMemory));
        let after = frames_of(&space, start);
        assert!(after.starts_with(&before) && (after.len() as u64) < PAGES);
        STAYED.fetch_add(after.len() as u32 - 64, Relaxed);
        // A mapping that is to be populated stands also where that fails.
        space.unmap(start, BYTES).unwrap();
        let populated = MapRequest { populate: true, ..MapRequest::anonymous(BYTES) };
        let start = space.map(&populated).expect("mmap does not fail for it");
        assert!((frames_of(&space, start).len() as u64) < PAGES);
    });
    assert!(STAYED.load(Relaxed) > 0, "nothing was ever populated beyond what was there");
}

/// The machine's memory is dirty.
#[test]
fn a_huge_page_that_helpers_zero_shows_nothing_of_what_its_block_held_whatever_the_seed() {
    const NR: u64 = 2;
    const PAGES: u64 = NR * 512;
    with_helpers(4096, HugePolicy::Always, 0..6, |space, _| {
        let start = space.map(&MapRequest::anonymous(PAGES * PAGE_SIZE as u64)).expect("room");
        let at = |page: u64| VirtAddr(start.0 + page * PAGE_SIZE as u64);
        for nth in 0..NR {
            space.fault(Fault { addr: at(nth * 512), access: Access::Write }).expect("it is mapped");
        }
        assert_eq!(space.vm().totals().get(Counter::ThpFaultAlloc), NR);
        for page in 0..PAGES {
            let (pfn, _) = space.inspect().resident_frame(at(page).vpn()).expect("resident");
            let mut bytes = [0xff; PAGE_SIZE];
            space.vm().machine().read(pfn, 0, &mut bytes);
            assert!(bytes == [0; PAGE_SIZE], "page {page}");
        }
    });
}
