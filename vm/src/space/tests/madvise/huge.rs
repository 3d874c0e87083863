//! madvise of huge pages.

use crate::machine::Entry;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{
    BASE, HUGE, THP, assert_kept, at, counted, fault, filled, is_huge, leaf, map, peek, store, with_frames,
    with_space,
};
use crate::space::tests::world::zero::{ZERO, is_zero, load, with_zero};
use crate::space::{Advice, Counter};
use crate::table::walk;
use crate::units::{Access, Level, Order, Rights, Vpn};
use crate::vma::{FlagAdvice, HugePolicy};

#[test]
fn discarding_a_part_splits_and_the_whole_gives_the_folio_back() {
    with_space(|vm, space| {
        filled(&space);
        let before = vm.memory().stats().allocated();
        space.advise(at(HUGE), HUGE * PAGE, Advice::DontNeed).unwrap();
        assert_eq!(vm.memory().stats().allocated(), before - HUGE);
        assert_kept(&space, HUGE..2 * HUGE);
        fault(&space, HUGE + 9, Access::Write);
        assert!(is_huge(&space, HUGE) && peek(&space, HUGE + 9) == Some(0));
        space.advise(at(3), 2 * PAGE, Advice::DontNeed).unwrap();
        assert_eq!(counted(vm, THP), [3, 0, 1, 1]);
        assert!((3..5).all(|page| peek(&space, page).is_none()) && peek(&space, 5) == Some(5));
        // There is a table now, so what comes back is a base page.
        store(&space, 3, 9);
        assert_eq!(counted(vm, THP), [3, 0, 1, 1]);
    });
}

#[test]
fn marking_a_whole_huge_page_free_keeps_it_and_a_split_keeps_the_mark() {
    with_space(|vm, space| {
        filled(&space);
        space.advise(at(0), 2 * HUGE * PAGE, Advice::Free).unwrap();
        assert!(is_huge(&space, 0) && !leaf(&space, 0).unwrap().0.dirty);
        let is_free = |page| {
            let (pfn, _) = space.inspect().resident_frame(Vpn(BASE + page)).unwrap();
            vm.memory().meta(pfn).unwrap().state().is_lazyfree()
        };
        assert!(is_free(0) && is_free(HUGE));
        space.unmap(at(3), PAGE).unwrap();
        assert!((0..HUGE).filter(|&page| page != 3).all(is_free));
        space.advise(at(HUGE + 4), PAGE, Advice::Free).unwrap();
        assert!(!is_huge(&space, HUGE) && is_free(HUGE + 4));
    });
}

#[test]
fn advice_that_splits_a_mapping_splits_no_huge_page() {
    with_space(|vm, space| {
        filled(&space);
        space.advise(at(7), 9 * PAGE, Advice::Flag(FlagAdvice::DontDump)).unwrap();
        assert_eq!((space.inspect().nr_mappings(), counted(vm, THP)), (3, [2, 0, 0, 2]));
        assert_kept(&space, 0..0);
        // Contents are discarded mapping by mapping, so this one is split.
        space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap();
        assert_kept(&space, 0..HUGE);
        space.advise(at(HUGE), 9 * PAGE, Advice::Flag(FlagAdvice::DontFork)).unwrap();
        let child = space.fork().unwrap();
        assert_kept(&child, 0..HUGE + 9);
    });
}

/// A huge page that the space did not know of when the call began: it is not split, and stays as it is.
#[test]
fn advice_for_a_part_says_nothing_of_a_huge_page_that_came_later() {
    with_frames(8 * HUGE, HugePolicy::Never, |vm, space| {
        map(&space, 0, HUGE);
        let memory = vm.memory();
        let folio = memory.alloc_zeroed_folio(crate::frame::FramePlacement::Local, Order::HUGE).unwrap();
        let first = folio.pfn();
        // The table above the page, without one below.
        fault(&space, 0, Access::Read);
        space.unmap(at(0), HUGE * PAGE).unwrap();
        map(&space, HUGE, HUGE);
        fault(&space, HUGE, Access::Read);
        map(&space, 0, HUGE);
        let reading = vm.read();
        let found = walk(space.inspect().page_table(), Vpn(BASE), Level::Pmd, &reading);
        assert_eq!((found.table.level(), found.entry()), (Level::Pmd, Entry::Absent));
        let bits = crate::table::LeafBits::new(Rights::READ | Rights::WRITE | Rights::USER).used(true);
        found.table.lock().unwrap().install(found.slot, folio.into_mapped(), bits);
        drop(reading);
        space.advise(at(3), 5 * PAGE, Advice::Free).unwrap();
        let (leaf, covers) = leaf(&space, 0).unwrap();
        let state = memory.meta(first).unwrap().state();
        assert_eq!((leaf.pfn, covers, leaf.dirty, state.is_lazyfree()), (first, HUGE, true, false));
        space.advise(at(0), HUGE * PAGE, Advice::Free).unwrap();
        assert!(memory.meta(first).unwrap().state().is_lazyfree(), "all of it was meant");
        space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap();
        // What was put there by hand was not counted.
        vm.count_many(Counter::NrAnonTransparentHugepages, 1);
    });
}

#[test]
fn discarding_all_of_it_leaves_nothing() {
    with_zero(|vm, space| {
        map(&space, 0, 2 * HUGE);
        load(&space, 3);
        space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap();
        assert!(leaf(&space, 3).is_none());
        load(&space, 3);
        space.advise(at(0), HUGE * PAGE, Advice::Free).unwrap();
        assert!(is_zero(&space, 3), "nothing to discard");
        store(&space, 4, 1);
        assert_eq!(counted(vm, ZERO)[0], 1);
    });
}

#[test]
fn advice_that_its_contents_may_go_leaves_it_whole() {
    with_zero(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        space.advise(at(5), 7 * PAGE, Advice::Free).unwrap();
        assert!(is_zero(&space, 5));
        store(&space, 6, 9);
        assert_eq!(counted(vm, ZERO), [1, 0, 0, 1]);
    });
}
