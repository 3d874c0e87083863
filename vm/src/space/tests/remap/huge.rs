//! mremap of transparent huge pages: moved whole where both places are aligned, else as base pages.

use crate::frame::Kind;
use crate::space::tests::world::huge::{
    HUGE, THP, TestSpace, at, byte_of, counted, fault, filled, is_huge, leaf, map, pages, peek, with_frames,
    with_policies, with_space,
};
use crate::space::tests::world::mishaps::each_allocation;
use crate::space::tests::world::remap::{FIXED, remap};
use crate::space::tests::world::{PAGE, check_copies, copy_translations};
use crate::space::{Error, RmapFound};
use crate::units::Access;
use crate::vma::{HugePolicy, ZeroPagePolicy};
use core::ops::ControlFlow;

const FAR: u64 = 16 * HUGE;

fn go(space: &TestSpace<'_>, from: u64, len: u64, to: u64) {
    assert_eq!(remap(space, (at(from), len * PAGE), (at(to), len * PAGE), FIXED), Ok(at(to)));
}

/// Each page from `from` on holds its number.
fn assert_holds(space: &TestSpace<'_>, numbers: core::ops::Range<u64>, to: u64) {
    for nr in numbers.clone() {
        assert_eq!(peek(space, to + nr - numbers.start), Some(byte_of(nr)), "page {nr}");
    }
}

#[test]
fn a_huge_page_moves_whole_where_both_places_are_aligned() {
    with_space(|vm, space| {
        filled(&space);
        copy_translations(&space, pages(0, 2 * HUGE));
        let before = leaf(&space, HUGE).unwrap();
        go(&space, 0, 2 * HUGE, FAR);
        assert!(is_huge(&space, FAR) && is_huge(&space, FAR + HUGE));
        assert_eq!(leaf(&space, FAR + HUGE).unwrap(), before, "its bits and its frame");
        assert_holds(&space, 0..2 * HUGE, FAR);
        assert!(leaf(&space, 0).is_none());
        assert_eq!(check_copies(&space), 0);
        assert_eq!(counted(vm, THP), [2, 0, 0, 2]);
    });
}

#[test]
fn a_huge_page_is_split_where_it_cannot_move_whole() {
    for (from, len, to) in [(0, 2 * HUGE, FAR + 1), (1, HUGE, FAR + 1), (HUGE - 1, HUGE, FAR)] {
        with_space(|_, space| {
            filled(&space);
            copy_translations(&space, pages(0, 2 * HUGE));
            go(&space, from, len, to);
            assert_holds(&space, from..from + len, to);
            (0..2 * HUGE)
                .filter(|nr| !(from..from + len).contains(nr))
                .for_each(|nr| assert_eq!(peek(&space, nr), Some(byte_of(nr)), "page {nr} stays"));
            check_copies(&space);
            // What is left can be used, and given up.
            fault(&space, to, Access::Write);
            space.unmap(at(to), len * PAGE).unwrap();
        });
    }
}

#[test]
fn zeros_of_each_kind_move() {
    for zero in [ZeroPagePolicy::Small, ZeroPagePolicy::Huge, ZeroPagePolicy::Virtual] {
        for to in [FAR, FAR + 3] {
            with_policies(8 * HUGE, (HugePolicy::Always, zero), |vm, space| {
                map(&space, 0, 2 * HUGE);
                fault(&space, 5, Access::Read);
                copy_translations(&space, pages(0, 2 * HUGE));
                go(&space, 0, 2 * HUGE, to);
                assert_eq!(peek(&space, to + 5), Some(0));
                assert_eq!(peek(&space, 5), None);
                check_copies(&space);
                fault(&space, to + 5, Access::Write);
                let pfn = space.inspect().resident_frame(at(to + 5).vpn()).unwrap().0;
                let head = crate::units::Pfn(pfn.0 & !(HUGE - 1));
                let kind = |pfn| vm.memory().meta(pfn).map(|meta| meta.state().kind());
                assert!([kind(pfn), kind(head)].contains(&Some(Kind::User)));
            });
        }
    }
}

#[test]
fn a_huge_page_is_found_from_its_frame_after_it_has_moved() {
    for to in [FAR, FAR + 3] {
        with_space(|vm, space| {
            filled(&space);
            go(&space, 0, 2 * HUGE, to);
            for nr in [0, 9, HUGE, 2 * HUGE - 1] {
                let (pfn, _) = space.inspect().resident_frame(at(to + nr).vpn()).unwrap();
                let first = leaf(&space, to + nr).unwrap().0.pfn;
                let Some(reference) = vm.memory().try_get(if to == FAR { first } else { pfn }) else {
                    panic!("page {nr} has a frame")
                };
                let mut seen = 0;
                let found = vm.rmap_walk(
                    &reference,
                    |_| Some(&space),
                    |entry| {
                        let is_it = entry.page() == at(to + nr).vpn()
                            || to == FAR && entry.page() == at(to + nr / HUGE * HUGE).vpn();
                        assert!(is_it, "{:?} for page {nr}", entry.page());
                        seen += 1;
                        ControlFlow::Continue(())
                    },
                );
                assert_eq!((found, seen), (Ok(RmapFound::All(1)), 1));
            }
        });
    }
}

#[test]
fn a_lack_of_memory_leaves_the_pages_where_they_were() {
    for to in [FAR, FAR + 3] {
        let allocations = each_allocation(|nth| {
            let has_struck = core::cell::Cell::new(false);
            with_frames(8 * HUGE, HugePolicy::Always, |vm, space| {
                filled(&space);
                vm.memory().plan_mishaps(nth, 64);
                let moved = remap(&space, (at(0), 2 * HUGE * PAGE), (at(to), 2 * HUGE * PAGE), FIXED);
                has_struck.set(!vm.memory().is_mishap_planned());
                vm.memory().plan_mishap(0);
                assert!(matches!(moved, Ok(_) | Err(Error::NoMemory)), "{moved:?}");
                assert_holds(&space, 0..2 * HUGE, if moved.is_ok() { to } else { 0 });
                vm.memory().check().unwrap();
            });
            has_struck.get()
        });
        assert!(allocations >= 2, "{allocations} allocations");
    }
}
