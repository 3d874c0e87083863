//! The reverse map of huge pages: before and after a split.

use crate::space::RmapFound;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{BASE, HUGE, TestSpace, TestVm, at, is_huge, map, store, with_space};
use crate::space::tests::world::sizes::{frame, with_only};
use crate::units::{Pfn, Vpn};
use core::ops::ControlFlow;
use std::vec::Vec;

/// The pages of the spaces that the reverse map finds for a frame.
fn found(vm: &TestVm<'_>, spaces: &[&TestSpace<'_>], pfn: Pfn) -> Vec<(usize, Vpn)> {
    let frame = vm.memory().try_get(pfn).unwrap();
    let mut pages = Vec::new();
    let known = |id| spaces.iter().copied().find(|space| space.id() == id);
    let answer = vm.rmap_walk(&frame, known, |entry| {
        let nr = spaces.iter().position(|space| space.id() == entry.space().id()).unwrap();
        pages.push((nr, entry.page()));
        ControlFlow::Continue(())
    });
    assert_eq!(answer, Ok(RmapFound::All(pages.len() as u32)));
    pages
}

#[test]
fn a_folio_leads_to_its_huge_page_and_after_a_split_each_frame_to_its_own() {
    with_space(|vm, space| {
        map(&space, 0, HUGE);
        store(&space, 7, 1);
        assert!(is_huge(&space, 7));
        let (first, _) = space.inspect().resident_frame(Vpn(BASE)).unwrap();
        assert_eq!(found(vm, &[&space], first), [(0, Vpn(BASE))]);
        space.unmap(at(3), PAGE).unwrap();
        assert!(!is_huge(&space, 7));
        for page in [0, 2, 4, HUGE - 1] {
            assert_eq!(found(vm, &[&space], first.add(page)), [(0, Vpn(BASE + page))]);
        }
    });
}

#[test]
fn a_folio_that_a_fork_shares_leads_to_both_spaces_and_so_do_its_frames_after_a_split() {
    with_space(|vm, space| {
        map(&space, 0, HUGE);
        store(&space, 0, 1);
        let (first, _) = space.inspect().resident_frame(Vpn(BASE)).unwrap();
        let child = space.fork().unwrap();
        let both = [&space, &child];
        let due = |page| [(0, Vpn(BASE + page)), (1, Vpn(BASE + page))];
        assert_eq!(found(vm, &both, first), due(0));
        // The parent's leaf stays huge: it is an entry of each frame.
        child.unmap(at(7), PAGE).unwrap();
        assert!(is_huge(&space, 7) && !is_huge(&child, 8));
        for page in [0, 300] {
            assert_eq!(found(vm, &both, first.add(page)), due(page));
        }
        assert_eq!(found(vm, &both, first.add(7)), [(0, Vpn(BASE + 7))]);
    });
}

#[test]
fn each_frame_of_a_folio_leads_to_its_own_page() {
    with_only(3, |vm, space| {
        map(&space, 0, 16);
        store(&space, 9, 1);
        for page in 8..16 {
            let key = vm.memory().meta(frame(&space, page)).unwrap().anon_key().unwrap();
            assert_eq!(key.page, Vpn(BASE + page));
        }
    });
}
