//! Which object gets a huge page, and which space maps it how.

use crate::machine::Format;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, at};
use crate::space::tests::world::shared_huge::{
    Space, THP, counted, in_each, is_base, is_huge, leaf, load, map, map_same, recount, shown, store,
};
use crate::space::{Advice, MemlockLimit, Vm};
use crate::table::Resident;
use crate::units::{Access, Order};
use crate::vma::{FlagAdvice, ThpDisable};
use std::vec::Vec;

#[test]
fn loads_and_stores_get_a_huge_page_and_parent_and_child_share_it() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, 2 * HUGE);
        assert_eq!(load(&space, 5), 0);
        store(&space, HUGE + 9, 7);
        assert!(is_huge(&space, 0) && is_huge(&space, HUGE));
        assert_eq!(counted(vm, THP), [2, 0, 2, 2]);
        let child = space.fork().unwrap();
        assert_eq!(leaf(&child, 0), None, "a fork leaves shared memory to faults");
        store(&child, 5, 3);
        assert_eq!((load(&space, 5), load(&child, HUGE + 9)), (3, 7));
        assert!(is_huge(&child, 5) && is_huge(&child, HUGE));
        assert_eq!(shown(&child, 5), shown(&space, 5));
        assert_eq!((counted(vm, THP), recount(vm, &[&space, &child])), ([2, 0, 4, 4], 2 * HUGE));
        let expected = Resident { shared_huge_pages: 2, ..Resident::default() };
        assert_eq!((space.inspect().resident(), expected.pages()), (expected, 2 * HUGE));
        drop(space);
        assert_eq!((load(&child, 5), recount(vm, &[&child])), (3, 2 * HUGE));
    }
    in_each!(8 * HUGE, Always, test);
}

#[test]
fn a_huge_page_lies_in_one_mapping_at_the_same_place_within_a_huge_page() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        // The last part is no whole huge page, and the second mapping's pages are not congruent.
        map(&space, 0, HUGE + 100);
        map(&space, 2 * HUGE + 1, 2 * HUGE);
        for page in [0, HUGE + 3, 3 * HUGE, 2 * HUGE + 1] {
            store(&space, page, 1);
        }
        let huge = [0, HUGE + 3, 3 * HUGE, 2 * HUGE + 1].map(|page| is_huge(&space, page));
        assert_eq!(huge, [true, false, false, false]);
        assert_eq!((counted(vm, THP), recount(vm, &[&space])), ([1, 0, 1, 1], HUGE + 3));
    }
    in_each!(8 * HUGE, Always, test);
}

#[test]
fn without_the_policy_or_the_advice_there_are_base_pages() {
    fn never<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, HUGE);
        space.advise(at(0), HUGE * PAGE, Advice::Flag(FlagAdvice::HugePage)).unwrap();
        store(&space, 0, 1);
        assert!(is_base(&space, 0) && counted(vm, THP) == [0; 4]);
    }
    in_each!(4 * HUGE, Never, never);
    fn advised<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, 2 * HUGE);
        let plain = space.fork().unwrap();
        store(&space, 0, 1);
        assert!(is_base(&space, 0), "no advice");
        space.advise(at(HUGE), HUGE * PAGE, Advice::Flag(FlagAdvice::HugePage)).unwrap();
        store(&space, HUGE, 2);
        assert!(is_huge(&space, HUGE));
        // As in Linux: what is there is mapped without advice, but not where it is refused.
        assert_eq!(load(&plain, HUGE), 2);
        assert!(is_huge(&plain, HUGE));
        let refuses = space.fork().unwrap();
        refuses.set_thp_disable(ThpDisable::Completely);
        assert_eq!((load(&refuses, HUGE), is_base(&refuses, HUGE)), (2, true));
        assert_eq!(recount(vm, &[&space, &plain, &refuses]), HUGE + 1);
        let advice = Advice::Flag(FlagAdvice::NoHugePage);
        let against = space.fork().unwrap();
        against.advise(at(0), 2 * HUGE * PAGE, advice).unwrap();
        assert_eq!((load(&against, HUGE + 1), is_base(&against, HUGE + 1)), (0, true));
        assert_eq!(recount(vm, &[&space, &plain, &refuses, &against]), HUGE + 1);
        assert_eq!(counted(vm, THP), [1, 0, 2, 2]);
    }
    in_each!(6 * HUGE, Advise, advised);
}

#[test]
fn where_the_object_has_a_base_page_it_gets_no_huge_page() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, 3 * HUGE);
        // Base pages, since it is no whole huge page here.
        map_same(&space, 4 * HUGE, &space, HUGE, 10);
        store(&space, 4 * HUGE + 9, 4);
        assert!(is_base(&space, 4 * HUGE + 9));
        store(&space, HUGE, 5);
        assert!(is_base(&space, HUGE));
        assert_eq!((load(&space, HUGE + 9), load(&space, 4 * HUGE)), (4, 5));
        assert_eq!((counted(vm, THP), recount(vm, &[&space])), ([0; 4], 2));
    }
    in_each!(6 * HUGE, Always, test);
}

#[test]
fn a_mapping_that_does_not_fit_maps_base_pages_of_the_folio_which_stays_whole_in_others() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, HUGE);
        let child = space.fork().unwrap();
        (0..HUGE).for_each(|page| store(&space, page, page as u8));
        assert_eq!(load(&child, 3), 3);
        // The same pages once more, one page further on.
        map_same(&space, 2 * HUGE + 1, &space, 0, HUGE);
        for page in [0, 1, 100, HUGE - 1] {
            assert_eq!(load(&space, 2 * HUGE + 1 + page), page as u8);
            assert_eq!(shown(&space, 2 * HUGE + 1 + page), shown(&child, page));
        }
        assert!(is_huge(&space, 0) && is_huge(&child, 0), "their leaves stay");
        assert_eq!(recount(vm, &[&space, &child]), HUGE);
        store(&space, 2 * HUGE + 1 + 100, 77);
        assert_eq!((load(&child, 100), load(&space, 100)), (77, 77));
        // Once split, it is still one for a space that it fits.
        let late = space.fork().unwrap();
        assert_eq!((load(&late, 100), is_huge(&late, 100)), (77, true));
        drop(space);
        assert_eq!((recount(vm, &[&child, &late]), counted(vm, THP)), (HUGE, [1, 0, 3, 2]));
        drop(child);
        assert_eq!((load(&late, 5), recount(vm, &[&late])), (5, HUGE));
    }
    in_each!(6 * HUGE, Always, test);
}

#[test]
fn a_folio_that_nobody_maps_stays_with_the_object_and_may_be_split() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, HUGE);
        store(&space, 9, 9);
        space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap();
        assert_eq!((leaf(&space, 9), recount(vm, &[&space])), (None, HUGE));
        map_same(&space, HUGE + 1, &space, 0, 20);
        assert_eq!((load(&space, HUGE + 1 + 9), is_base(&space, HUGE + 1 + 9)), (9, true));
        assert_eq!(recount(vm, &[&space]), HUGE);
        assert_eq!(load(&space, 0), 0);
        assert_eq!(recount(vm, &[&space]), HUGE);
    }
    in_each!(6 * HUGE, Always, test);
}

#[test]
fn a_large_object_has_folios_at_all_heights_of_its_index() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        // Page 0 alone first, then a taller index beside a folio.
        map(&space, 0, 600 * HUGE);
        store(&space, 0, 1);
        for (page, byte) in [(513 * HUGE + 7, 2), (HUGE, 3)] {
            store(&space, page, byte);
            assert!(is_huge(&space, page));
        }
        assert_eq!([0, 513 * HUGE + 7, HUGE].map(|page| load(&space, page)), [1, 2, 3]);
        // Splits each where it lies.
        for (to, from) in [(700, 0), (701, 513), (702, 1)] {
            map_same(&space, to * HUGE, &space, from * HUGE, 8);
        }
        assert_eq!([700 * HUGE, 701 * HUGE + 7, 702 * HUGE].map(|page| load(&space, page)), [1, 2, 3]);
        assert!(is_huge(&space, 0) && is_huge(&space, 513 * HUGE) && is_base(&space, 701 * HUGE + 7));
        assert_eq!(counted(vm, THP), [3, 0, 3, 3]);
    }
    in_each!(6 * HUGE, Always, test);
}

#[test]
fn without_a_free_block_there_are_base_pages_and_the_lack_is_counted_once() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, HUGE);
        let mut taken = std::vec::Vec::new();
        while let Some(folio) =
            vm.memory().alloc_zeroed_folio(crate::frame::FramePlacement::Local, Order::HUGE)
        {
            taken.push(folio);
        }
        (0..9).for_each(|page| store(&space, page, 1));
        assert_eq!((counted(vm, THP), is_base(&space, 0)), ([0, 1, 0, 0], true));
        drop(taken);
        assert_eq!(recount(vm, &[&space]), 9);
    }
    in_each!(6 * HUGE, Always, test);
}

/// A leaf of a folio that was split is an entry of each of its frames, whose records are counted.
#[test]
fn a_folio_that_was_split_is_mapped_by_huge_leaves_again() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, HUGE);
        (0..HUGE).for_each(|page| store(&space, page, page as u8));
        let limit = MemlockLimit::<TestCpu>::new(u64::MAX);
        let pins = space.pin_pages(at(5), Access::Write, &limit, [None]).unwrap();
        let pinned = pins.frames().next().unwrap().pfn();
        let counts = || {
            let meta = vm.memory().meta(pinned).unwrap();
            (meta.mapcount(), meta.state().refcount(), meta.pincount())
        };
        assert!(is_base(&space, 5));
        // The object's, all entries', and the pin's.
        assert_eq!(counts(), (1, 3, 1));
        let others = [(); 3].map(|()| space.fork().unwrap());
        for (nr, other) in (1..).zip(&others) {
            assert_eq!((load(other, 7), is_huge(other, 7)), (7, true));
            assert_eq!(counts(), (1 + nr, 3, 1));
        }
        assert_eq!(counted(vm, THP), [1, 0, 4, 3]);
        // One way to end for each: a part goes, a page is pinned, the space ends.
        let [part, pin, end] = others;
        part.unmap(at(HUGE / 2), HUGE / 2 * PAGE).unwrap();
        assert_eq!((load(&part, 7), is_base(&part, 7)), (7, true));
        drop(pin.pin_pages(at(7), Access::Read, &limit, [None]).unwrap());
        assert_eq!((load(&pin, 8), is_base(&pin, 8), is_huge(&end, 8)), (8, true, true));
        // Base entries of page 5 are in none of them now, but in the first space.
        assert_eq!(counts(), (2, 3, 1));
        drop(pins);
        assert_eq!(recount(vm, &[&space, &part, &pin, &end]), HUGE);
        drop(end);
        assert_eq!((counts(), recount(vm, &[&space, &part, &pin])), ((1, 2, 0), HUGE));
        // Where nothing is left of it, not even a table, there is one again.
        pin.unmap(at(0), HUGE * PAGE).unwrap();
        map_same(&pin, 0, &space, 0, HUGE);
        store(&pin, 9, 99);
        assert_eq!((is_huge(&pin, 9), load(&space, 9), load(&part, 9)), (true, 99, 99));
        drop(part);
        // The leaf is all that maps the frames.
        space.unmap(at(0), HUGE * PAGE).unwrap();
        assert_eq!((counts(), recount(vm, &[&space, &pin])), ((1, 2, 0), HUGE));
    }
    in_each!(8 * HUGE, Always, test);
}

/// Where a frame can have no more references, the others are given back, and base pages are mapped.
#[test]
fn a_folio_of_which_a_frame_cannot_be_referenced_is_mapped_by_base_pages() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, HUGE);
        store(&space, 5, 5);
        let child = space.fork().unwrap();
        let limit = MemlockLimit::<TestCpu>::new(u64::MAX);
        drop(space.pin_pages(at(5), Access::Write, &limit, [None]).unwrap());
        let last = shown(&space, 5).unwrap().add(HUGE - 1 - 5);
        let mut references = Vec::new();
        references.extend(core::iter::from_fn(|| vm.memory().try_get(last)));
        assert_eq!((load(&child, 5), is_base(&child, 5)), (5, true));
        drop(references);
        assert_eq!(recount(vm, &[&space, &child]), HUGE);
        let late = space.fork().unwrap();
        assert_eq!((load(&late, 5), is_huge(&late, 5)), (5, true));
    }
    in_each!(8 * HUGE, Always, test);
}
