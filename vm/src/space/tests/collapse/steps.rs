//! The steps of a collapse, taken one by one with faults between them.

use crate::frame::{FramePlacement, PartialFolio};
use crate::machine::FlushRange;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::collapse::{byte_of, collapse, fill, with_base_pages};
use crate::space::tests::world::huge::{BASE, HUGE, TestSpace, at, fault, is_huge, pages, peek, store};
use crate::space::tests::world::pins::{Limit, slots};
use crate::space::{Advice, Collapsed, Counter};
use crate::table::{LeafBits, NotFrozen, walk};
use crate::units::{Access, Level, PageSize, Rights, Vpn, VpnRange};
use std::vec::Vec;

/// Calls `edit` with the table of the arena's first region, locked.
fn with_table<R>(
    space: &TestSpace<'_>,
    edit: impl FnOnce(&mut crate::table::LockedTable<'_, TestMachine>) -> R,
) -> R {
    let reading = space.vm().read();
    let found = walk(space.inspect().page_table(), Vpn(BASE), Level::Pte, &reading);
    edit(&mut found.table.lock().unwrap())
}

/// Copies up to `N` of the parts that are to be copied.
fn copy_some<const N: usize>(
    space: &TestSpace<'_>,
    from: &mut usize,
    folio: &mut PartialFolio<'_, TestMachine>,
) {
    let reading = space.vm().read();
    let found = walk(space.inspect().page_table(), Vpn(BASE), Level::Pte, &reading);
    let frames = found.table.lock().unwrap().shared_frames::<N>(from, folio).unwrap();
    frames.iter().flatten().for_each(|(slot, frame)| folio.copy_part(*slot, frame));
}

/// Copies all parts that are to be copied.
fn copy_all(space: &TestSpace<'_>, folio: &mut PartialFolio<'_, TestMachine>) {
    let mut from = 0;
    while folio.next_wanted(from).is_some() {
        copy_some::<8>(space, &mut from, folio);
    }
}

/// The parts that are to be copied.
fn wanted(folio: &PartialFolio<'_, TestMachine>) -> Vec<usize> {
    let next = |part: &usize| folio.next_wanted(part + 1);
    std::iter::successors(folio.next_wanted(0), next).collect()
}

#[test]
fn pages_stored_to_since_the_copy_are_copied_again() {
    with_base_pages(|vm, space| {
        fill(&space, 0..HUGE - 1);
        let folio = vm.memory().alloc_folio(FramePlacement::Local, PageSize::Huge.order()).unwrap();
        let mut folio = PartialFolio::new(folio);
        let freeze = |folio: &mut _| {
            let mut needs_flush = false;
            with_table(&space, |table| table.freeze(0..HUGE as usize, folio, &mut needs_flush)).unwrap();
            needs_flush
        };
        assert!(freeze(&mut folio));
        assert_eq!(wanted(&folio).len() as u64, HUGE - 1);
        copy_some::<3>(&space, &mut 0, &mut folio);
        assert_eq!(wanted(&folio)[0], 3, "only these");
        copy_all(&space, &mut folio);
        assert!(wanted(&folio).is_empty() && !freeze(&mut folio) && wanted(&folio).is_empty());
        [100, 101, 499].into_iter().for_each(|page| store(&space, page, 7));
        assert_eq!(vm.totals().get(Counter::PgReuse), 3, "a store to a frozen page copies nothing");
        fill(&space, [HUGE - 1]);
        copy_all(&space, &mut folio);
        assert!(freeze(&mut folio));
        assert_eq!(wanted(&folio), [100, 101, 499, HUGE as usize - 1]);
        // Taken again before they are copied.
        store(&space, 101, 8);
        copy_all(&space, &mut folio);
        assert!(wanted(&folio) == [101] && folio.has_copy(100) && !folio.has_copy(101));
        // Nothing is lost, and another collapse has all of it.
        assert_eq!(collapse(&space, 0), Ok(Collapsed::Copied));
        for page in 0..HUGE {
            let stored = match page {
                100 | 499 => 7,
                101 => 8,
                _ => byte_of(page),
            };
            assert_eq!(peek(&space, page), Some(stored), "page {page}");
        }
    });
}

#[test]
fn a_store_to_a_page_that_is_being_copied_has_a_frame_of_its_own() {
    with_base_pages(|vm, space| {
        fill(&space, [3, 4]);
        let folio = vm.memory().alloc_folio(FramePlacement::Local, PageSize::Huge.order()).unwrap();
        let mut folio = PartialFolio::new(folio);
        with_table(&space, |table| table.freeze(0..8, &mut folio, &mut false)).unwrap();
        let mut from = 0;
        let [held, none] = {
            let reading = space.vm().read();
            let found = walk(space.inspect().page_table(), Vpn(BASE), Level::Pte, &reading);
            let [held] = found.table.lock().unwrap().shared_frames::<1>(&mut from, &folio).unwrap();
            let [next, none] = found.table.lock().unwrap().shared_frames::<2>(&mut from, &folio).unwrap();
            assert_eq!(next.map(|(slot, _)| slot), Some(4), "which is not held any more");
            [held, none]
        };
        let ((slot, frame), None) = (held.unwrap(), none) else { panic!("two pages are to be copied") };
        assert_eq!(slot, 3);
        [3, 4].into_iter().for_each(|page| store(&space, page, 7));
        let totals = vm.totals();
        assert_eq!((totals.get(Counter::CowCopied), totals.get(Counter::PgReuse)), (1, 1));
        folio.copy_part(slot, &frame);
        // The last reference of the old frame.
        drop(frame);
        assert_eq!((peek(&space, 3), peek(&space, 4)), (Some(7), Some(7)));
        assert_eq!(collapse(&space, 0), Ok(Collapsed::Copied));
        assert_eq!((peek(&space, 3), peek(&space, 4)), (Some(7), Some(7)));
    });
}

#[test]
fn a_fault_says_that_it_takes_a_page_from_a_collapse() {
    with_base_pages(|vm, space| {
        fill(&space, [3, 4, HUGE + 1]);
        let region = VpnRange::new(Vpn(BASE), Vpn(BASE + HUGE));
        let collapse = space.entries.fork.begin_collapse(region);
        fault(&space, 9, Access::Read);
        fill(&space, [HUGE + 2]);
        assert!(!collapse.is_any_taken(), "a page of zeros is nobody's, and the other is elsewhere");
        fill(&space, [9]);
        assert!(collapse.is_any_taken());
        collapse.forget_taken();
        assert!(!collapse.is_any_taken());
        // Frozen: a store makes the frame exclusive again.
        let folio = vm.memory().alloc_folio(FramePlacement::Local, PageSize::Huge.order()).unwrap();
        let mut folio = PartialFolio::new(folio);
        with_table(&space, |table| table.freeze(0..8, &mut folio, &mut false)).unwrap();
        store(&space, 3, 7);
        assert!(collapse.is_any_taken());
        collapse.forget_taken();
        // So does a pin, to load from.
        let limit = Limit::new(u64::MAX);
        let pinned = space.pin_pages(at(4), Access::Read, &limit, slots(1)).unwrap();
        assert!(collapse.is_any_taken());
        drop((pinned, collapse));
    });
}

/// P9: until every CPU has forgotten the pages nothing leads to the huge page that replaces them.
#[test]
fn the_huge_page_is_installed_after_the_flush_of_what_it_replaces() {
    with_base_pages(|vm, space| {
        fill(&space, 0..HUGE);
        let machine = vm.machine();
        let running = space.activate(None);
        let seen = |page| machine.translate(Vpn(BASE + page), Access::Read).map(|leaf| leaf.pfn);
        let before = seen(3).expect("the CPU has page 3 cached");
        let folio = vm.memory().alloc_folio(FramePlacement::Local, PageSize::Huge.order()).unwrap();
        let mut folio = PartialFolio::new(folio);
        with_table(&space, |table| table.freeze(0..HUGE as usize, &mut folio, &mut false)).unwrap();
        copy_all(&space, &mut folio);
        folio.zero_rest();
        space.entries.note_huge_leaves();
        let region = pages(0, HUGE);
        let (key, bits) = (space.node.anon_key(region.start), LeafBits::new(Rights::READ | Rights::USER));
        let reading = vm.read();
        let found = walk(space.inspect().page_table(), region.start, Level::Pmd, &reading);
        let mut parent = found.table.lock().unwrap();
        let child = found.table.child(found.slot, &reading).unwrap().lock_below(&parent).unwrap();
        let flush = || {
            assert_eq!((seen(3), seen(4)), (Some(before), None), "a page and the huge page at once");
            vm.shootdown.flush(machine, &space.entries.tlb, FlushRange::of(region));
        };
        let old = parent.replace_by_folio(found.slot, child, folio, (key, bits.used(true)), flush).unwrap();
        drop((parent, reading));
        old.free(vm.memory(), &vm.rcu, region);
        vm.counters.count_each([Counter::TableFree, Counter::NrAnonTransparentHugepages]);
        assert!(is_huge(&space, 3) && seen(4).is_some() && seen(3) != Some(before));
        drop(running);
    });
}

#[test]
fn a_copy_of_a_page_that_is_gone_is_given_up() {
    with_base_pages(|vm, space| {
        fill(&space, [3, 4]);
        let folio = vm.memory().alloc_folio(FramePlacement::Local, PageSize::Huge.order()).unwrap();
        let mut folio = PartialFolio::new(folio);
        let freeze =
            |folio: &mut _| with_table(&space, |table| table.freeze(0..HUGE as usize, folio, &mut false));
        freeze(&mut folio).unwrap();
        copy_all(&space, &mut folio);
        space.advise(at(3), PAGE, Advice::DontNeed).unwrap();
        assert_eq!(freeze(&mut folio), Err(NotFrozen::Busy));
    });
}
