//! Populating with helpers: the same pages, and every frame given back.

use crate::space::tests::world::base::TABLE as TABLE_PAGES;
use crate::space::tests::world::helpers::{TestSpace, with_helpers, with_helpers_and};
use crate::space::*;
use crate::units::{Access, VirtAddr, Vpn};
use crate::vma::HugePolicy;
use std::collections::HashSet;

const PAGES: u64 = 8 * TABLE_PAGES + 77;
const BYTES: u64 = PAGES * 4096;

/// The frames of the pages from `start` on.
fn frames_of(space: &TestSpace<'_>, start: VirtAddr) -> HashSet<crate::units::Pfn> {
    let page = |page| Vpn(start.vpn().0 + page);
    (0..PAGES).filter_map(|at| space.inspect().resident_frame(page(at))).map(|(pfn, ..)| pfn).collect()
}

#[test]
fn a_populated_mapping_is_present_everywhere_and_all_of_it_is_given_back() {
    with_helpers(1 << 14, |space| {
        let start = space.map(&MapRequest { populate: true, ..MapRequest::anonymous(BYTES) }).unwrap();
        assert_eq!(frames_of(space, start).len() as u64, PAGES, "every page has a frame of its own");
        let lazy = space.map(&MapRequest::anonymous(BYTES)).unwrap();
        assert!(frames_of(space, lazy).is_empty());
        space.advise(lazy, BYTES, Advice::PopulateRead).unwrap();
        assert_eq!(frames_of(space, lazy).len(), 1, "all pages show the zero page");
        space.advise(lazy, BYTES, Advice::PopulateWrite).unwrap();
        assert_eq!(frames_of(space, lazy).len() as u64, PAGES);
    });
}

#[test]
fn populating_more_than_there_is_says_so_and_leaks_nothing() {
    with_helpers(3000, |space| {
        let start = space.map(&MapRequest::anonymous(BYTES)).unwrap();
        assert_eq!(space.advise(start, BYTES, Advice::PopulateWrite), Err(Error::NoMemory));
        assert!((frames_of(space, start).len() as u64) < PAGES);
    });
}

#[test]
fn a_huge_page_is_zero_whoever_has_zeroed_its_parts() {
    const HUGE: u64 = 512;
    with_helpers_and(HugePolicy::Always, 1 << 13, |space| {
        let machine = space.vm().machine();
        for round in 1..=4 {
            let start = space.map(&MapRequest::anonymous(4 * HUGE * 4096)).unwrap();
            for page in (0..4 * HUGE).step_by(512) {
                let addr = VirtAddr(start.0 + page * 4096);
                space.fault(Fault { addr, access: Access::Write }).unwrap();
            }
            assert_eq!(space.vm().totals().get(Counter::ThpFaultAlloc), 4 * round);
            for page in 0..4 * HUGE {
                let (pfn, _) = space.inspect().resident_frame(Vpn(start.vpn().0 + page)).unwrap();
                let mut bytes = [0xff; 4096];
                machine.read(pfn, 0, &mut bytes);
                assert!(bytes == [0; 4096], "page {page} of round {round}");
                machine.write(pfn, 4000, &[page as u8 | 1; 96]);
            }
            space.unmap(start, 4 * HUGE * 4096).unwrap();
        }
    });
}
